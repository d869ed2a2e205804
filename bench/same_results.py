"""Counts and measures of the bundled examples through the command line alone, to compare two versions of lemmata.

    python -m bench.same_results > before.json          # with the version before on the path
    python -m bench.same_results --against before.json  # with this version

Everything that a refactoring must not change: what ingest, graph, split and mining count on `qseries` and on a
generated plant, and what the retrievers measure on `qseries`. `--encoder NAME …` does `qseries` again with each of
these encoders (the first run has lemmata-mini), under keys of their own. With `--against` every difference is printed,
and the exit code is 1 where there is one. Times, folders of files and sentences are left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VOLATILE = set("task notes seconds edges_per_second workspace command audit versions models indexes".split())


def lemmata(*arguments: object) -> Any:
    """The JSON that a command prints."""
    command = [sys.executable, "-m", "lemmata", *map(str, arguments), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\n{result.stderr}")
    return json.loads(result.stdout)


def stable(value: Any) -> Any:
    """A report without what differs from run to run."""
    if isinstance(value, dict):
        return {key: stable(content) for key, content in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [stable(content) for content in value]
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value


def qseries(folder: Path, encoder: str = "") -> dict[str, Any]:
    """The LaTeX example: from ingest to mined sets and measures; without a name, with the default encoder."""
    notes, there = ROOT / "examples" / "qseries", ("-w", folder)
    run(["init", folder])
    return {
        "ingest": lemmata("ingest", notes, *there),
        "graph": lemmata("graph", "build", *there),
        "index": lemmata("index", *(("--encoder", encoder) if encoder else ()), *there),
        "info": lemmata("info", *there),
        "evaluate": lemmata("evaluate", "--beir", notes, *there),
        "search": lemmata("search", "partitions into distinct odd parts", *there),
        "similar": lemmata("similar", "hook-length#thm:hook-formula", *there),
        "split": lemmata("split", "-o", "method=stratified", *there),
        "references": lemmata("evaluate", "--task", "references", "--part", "test", *there),
        "concepts": lemmata("evaluate", "--task", "concepts", "--part", "validation", *there),
        "pairs": lemmata("mine", "pairs", *there),
        "embedding triplets": lemmata("mine", "triplets", "--from", "embedding", *there),
        "negatives": lemmata("mine", "negatives", "pairs", *there),
        "embed": lemmata("graph", "embed", *there),
    }


def plant(folder: Path) -> dict[str, Any]:
    """The generated plant: logs, locations, predicted links."""
    data, there = folder / "data", ("-w", folder / "workspace")
    generate = [sys.executable, str(ROOT / "examples" / "plant" / "generate.py"), str(data), "--logs", "2000"]
    subprocess.run([*generate, "--seed", "7"], check=True, capture_output=True)
    run(["init", folder / "workspace"])
    return {
        "ingest": lemmata("ingest", data / "logs.csv", data / "hierarchy.csv", *there),
        "graph": lemmata("graph", "build", *there),
        "link": lemmata("graph", "link", "--withheld", data / "withheld.tsv", *there),
        "index": lemmata("index", *there),
        "evaluate": lemmata("evaluate", "--beir", data, *there),
        "split": lemmata("split", "-o", "method=time", *there),
        "pairs": lemmata("mine", "pairs", *there),
    }


def run(arguments: list[object]) -> None:
    subprocess.run([sys.executable, "-m", "lemmata", *map(str, arguments)], check=True, capture_output=True)


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """Every value that is not the same, with its place."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for key in sorted({*before, *after})
            for line in differences(before.get(key), after.get(key), f"{place}/{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for number, (a, b) in pairs for line in differences(a, b, f"{place}/{number}")]
    if isinstance(before, float) and isinstance(after, float) and abs(before - after) <= 1e-6 * max(1.0, abs(before)):
        return []
    return [] if before == after else [f"{place}: {before!r} -> {after!r}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="JSON of another version")
    parser.add_argument("--encoder", nargs="+", default=[], metavar="NAME", help="more encoders for qseries")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        reports = {"qseries": qseries(folder / "qseries"), "plant": plant(folder / "plant")}
        for encoder in options.encoder:
            reports[f"qseries, {encoder}"] = qseries(folder / encoder, encoder)
    results = stable(reports)
    if options.against is None:
        print(json.dumps(results, indent=1, sort_keys=True))
        return
    changed = differences(stable(json.loads(options.against.read_text(encoding="utf-8"))), results)
    print("\n".join(changed) or "nothing changed")
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
