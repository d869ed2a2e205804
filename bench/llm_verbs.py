"""What `lemmata mine queries --model` and `lemmata graph extract` keep of a language model's answers.

    python bench/llm_server.py MODEL.gguf --port 8193 &
    python bench/llm_verbs.py --url http://127.0.0.1:8193/v1 --model NAME --calls 300 --concurrency 64 --out FILE.json
    python bench/llm_verbs.py … WORKSPACE …      # these ingested workspaces, too

Makes two workspaces in a temporary folder: examples/qseries and a generated plant. Both verbs run through the command
line, each on a copy of the workspace, so that nothing is changed and nothing is cached. Prints, for each verb, the
share of records that are kept (of concepts and relations also each by itself), why others are dropped, calls, tokens,
seconds, ten records and ten dropped ones, and thirty relations with their evidence to read; writes the same, and the
whole prompts, to --out. The logs of a plant are one document, whose records are stored when all its prompts are
answered: with few --calls take few --logs, about ten for each call.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
SETTINGS = """
[llm]
timeout = {timeout}
answer_tokens = {tokens}

[extract]
chunks = "all"
"""


def lemmata(*words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "lemmata", *words]
    result = subprocess.run(command, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"'lemmata {' '.join(words)}' failed")
    report: dict[str, Any] = json.loads(result.stdout) if "--json" in words else {}
    return report


def make_examples(folder: Path, logs: int) -> list[Path]:
    plant = folder / "plant-source"
    generate = [
        sys.executable,
        str(ROOT / "examples/plant/generate.py"),
        str(plant),
        "--logs",
        str(logs),
        "--seed",
        "7",
    ]
    subprocess.run(generate, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    workspaces = [folder / "qseries", folder / "plant"]
    sources = ((ROOT / "examples/qseries", "document"), (plant / "logs.csv", "time"))
    for workspace, (source, method) in zip(workspaces, sources, strict=True):
        lemmata("init", str(workspace))
        lemmata("ingest", str(source), "-w", str(workspace))
        lemmata("split", "-w", str(workspace), "--method", method)
    return workspaces


def run_verb(verb: str, workspace: Path, options: argparse.Namespace) -> dict[str, Any]:
    words = ["mine", "queries"] if verb == "queries" else ["graph", "extract"]
    words += ["-w", str(workspace), "--url", options.url, "--model", options.model, "--calls", str(options.calls)]
    begin = time.perf_counter()
    report = lemmata(*words, "--concurrency", str(options.concurrency), "--json")
    seconds = time.perf_counter() - begin
    records, skipped, details = (_queries if verb == "queries" else _extraction)(workspace, report)
    dropped = sum(report["dropped"].values())
    with sqlite3.connect(workspace / "cache" / "answers.sqlite") as cache:
        names = ("calls", "tokens_in", "tokens_out", "failed")
        query = "SELECT COUNT(*), SUM(tokens_in), SUM(tokens_out), SUM(outcome != '') FROM calls"
        counts = dict(zip(names, cache.execute(query).fetchone(), strict=True))
        answers = [json.loads(row[0])["text"] for row in cache.execute("SELECT value FROM cache LIMIT 5")]
        turns = cache.execute("SELECT COUNT(*) - COUNT(DISTINCT digest) FROM calls WHERE outcome = ''").fetchone()[0]
    draw = random.Random(0)
    return {
        "kept": len(records),
        "dropped": report["dropped"],
        "share": round(len(records) / max(1, len(records) + dropped), 4),
        "unanswered": report["unanswered"] if verb == "queries" else len(report["unanswered"]),
        **counts,
        "corrections": turns,
        "seconds": round(seconds, 1),
        "sample": draw.sample(records, min(10, len(records))),
        "answers": answers,
        "dropped_sample": draw.sample(skipped, min(10, len(skipped))),
        **details,
    }


def _queries(workspace: Path, report: dict[str, Any]) -> tuple[list[Any], list[Any], dict[str, Any]]:
    import pyarrow.parquet

    folder = workspace / "training" / report["name"]
    rows = pyarrow.parquet.read_table(folder / "data.parquet").to_pylist()
    records = [{"passage": row["positive"][:300], row["relation"]: row["anchor"]} for row in rows]
    options = json.loads((folder / "manifest.json").read_text("utf-8"))["options"]
    return records, [], {"prompt": options.get("prompt", "")}


def _extraction(workspace: Path, report: dict[str, Any]) -> tuple[list[Any], list[Any], dict[str, Any]]:
    with sqlite3.connect(next(workspace.rglob("records.sqlite"))) as store:
        concepts = store.execute("SELECT name, kind, description FROM concepts WHERE source = 'llm'").fetchall()
        edges = store.execute(
            "SELECT source, relation, target, evidence FROM edges WHERE maker_source = 'llm' AND relation != 'mentions'"
        ).fetchall()
        skips = store.execute("SELECT cause FROM skips WHERE source = 'llm'").fetchall()
        [(options,)] = store.execute("SELECT options FROM sources WHERE name = 'llm'").fetchall()
    records = [" | ".join(row) for row in (*concepts, *edges)]
    shares = {}
    for name, kept in report["kept"].items():
        dropped = sum(count for reason, count in report["dropped"].items() if reason.startswith(name[:-1]))
        shares[name] = {"kept": kept, "dropped": dropped, "share": round(kept / max(1, kept + dropped), 4)}
    sample = random.Random(1).sample(edges, min(30, len(edges)))
    texts = _texts(workspace, {evidence for *_, evidence in sample})
    details = {
        "by_kind": shares,
        "described": sum(bool(description) for *_, description in concepts),
        "documents": report["extracted"],
        "relations": [f"{' | '.join(edge)}: {texts.get(edge[3], '')[:500]}" for edge in sample],
        "prompt": json.loads(options)["prompt"],
    }
    return records, [cause for (cause,) in skips], details


def _texts(workspace: Path, passages: set[str]) -> dict[str, str]:
    """The texts of these passages, by id."""
    program = "import json, sys; from lemmata import Project; project = Project(sys.argv[1]);"
    program += " print(json.dumps({i: project.show(i)['text'] for i in sys.argv[2:]}))"
    command = [sys.executable, "-c", program, str(workspace), *passages]
    texts: dict[str, str] = json.loads(
        subprocess.run(command, stdout=subprocess.PIPE, env=ENVIRONMENT, check=True).stdout
    )
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspaces", type=Path, nargs="*", metavar="WORKSPACE")
    parser.add_argument("--url", default="http://127.0.0.1:8193/v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--calls", type=int, default=300, help="at most, for each verb and workspace")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--answer-tokens", type=int, default=1400)
    parser.add_argument("--logs", type=int, default=600, help="of the plant; 0: only the workspaces that are named")
    parser.add_argument("--verbs", default="queries,extraction")
    parser.add_argument("--settings", default="", help="further lines for lemmata.toml")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {"model": options.model, "calls": options.calls, "workspaces": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for workspace in (make_examples(folder, options.logs) if options.logs else []) + options.workspaces:
            for verb in options.verbs.split(","):
                copy = folder / f"{workspace.name}-{verb}"
                shutil.copytree(workspace, copy)
                with (copy / "lemmata.toml").open("a", encoding="utf-8") as file:
                    file.write(SETTINGS.format(timeout=options.timeout, tokens=options.answer_tokens))
                    file.write(options.settings)
                result = run_verb(verb, copy, options)
                results["workspaces"].setdefault(workspace.name, {})[verb] = result
                shown = {key: value for key, value in result.items() if key != "prompt"}
                sys.stdout.write(f"{workspace.name}, {verb}: {json.dumps(shown, indent=1, ensure_ascii=False)}\n")
                sys.stdout.flush()
                if options.out:  # after each, so that a run that is cut short leaves what it has
                    options.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
