"""How much each miner finds in a corpus, how fast, in how much memory.

    python bench/mining.py NAME=WORKSPACE … [--negatives] [--out FILE]

Runs `lemmata graph build`, `split` and `mine` in processes of their own on ingested workspaces, which are changed by
it. `--negatives` also mines hard negatives, for which a workspace must be indexed. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

STEPS = {
    "graph": ["graph", "build"],
    "split": ["split"],
    "pairs": ["mine", "pairs"],
    "queries": ["mine", "queries"],
    "citations": ["mine", "triplets", "--from", "citations", "--name", "citations"],
    "references": [
        "mine", "triplets", "--from", "citations", "--relations", "refers_to,proof_uses", "--name", "references",
    ],
}  # fmt: skip
RUN = """
import resource, sys
from lemmata.cli.main import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def step(arguments: list[str], workspace: str) -> dict[str, Any]:
    """What a command reported, and what it took; its complaint where it failed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments, "-w", workspace, "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = done.stderr.strip().splitlines()
    cost = {"cpu": round(after.ru_utime - before.ru_utime, 1), "mb": round(int(told[-1]) / 1024)}
    if done.returncode:
        return {"error": told[-2] if len(told) > 1 else "failed", **cost}
    return {"report": json.loads(done.stdout), **cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspaces", nargs="+", metavar="NAME=WORKSPACE")
    parser.add_argument("--method", default="document")
    parser.add_argument("--negatives", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for given in options.workspaces:
        name, _, workspace = given.partition("=")
        method = "time" if name in ("plant", "work-orders") else options.method  # a table is one document
        for title, arguments in STEPS.items():
            more = ["--method", method] if title == "split" else []
            results.setdefault(name, {})[title] = found = step([*arguments, *more], workspace)
            report = found.get("report", {})
            counts = report.get("by_source") or report.get("counts") or report.get("edges") or found.get("error")
            print(f"{name:16} {title:10} {found['cpu']:7.1f} s {found['mb']:6} MB  {counts}", flush=True)
        if options.negatives:
            results[name]["negatives"] = found = step(["mine", "negatives", "pairs"], workspace)
            report = found.get("report", {})
            told = {key: report.get(key) for key in ("records", "short", "left_out", "kept", "dropped")}
            print(f"{name:16} negatives  {found['cpu']:7.1f} s {found['mb']:6} MB  {found.get('error') or told}")
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
