"""Records, seconds and memory of each miner on a corpus.

    python bench/mining.py NAME=WORKSPACE … [--negatives] [--out FILE]

Runs `lemmata graph build`, `split` and `mine`, each in its own process, on ingested workspaces, and changes them.
`--negatives` also mines hard negatives, for which a workspace must be indexed. Seconds are CPU seconds.
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
    """The report of a command with its CPU seconds and memory, or its error message."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments, "-w", workspace, "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    messages = done.stderr.strip().splitlines()
    cost = {"cpu": round(after.ru_utime - before.ru_utime, 1), "mb": round(int(messages[-1]) / 1024)}
    if done.returncode:
        return {"error": messages[-2] if len(messages) > 1 else "failed", **cost}
    return {"report": json.loads(done.stdout), **cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspaces", nargs="+", metavar="NAME=WORKSPACE")
    parser.add_argument("--method", default="document")
    parser.add_argument("--negatives", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for argument in options.workspaces:
        name, _, workspace = argument.partition("=")
        method = "time" if name in ("plant", "work-orders") else options.method  # a table is one document
        for title, arguments in STEPS.items():
            more = ["--method", method] if title == "split" else []
            results.setdefault(name, {})[title] = result = step([*arguments, *more], workspace)
            report = result.get("report", {})
            counts = report.get("by_source") or report.get("counts") or report.get("edges") or result.get("error")
            print(f"{name:16} {title:10} {result['cpu']:7.1f} s {result['mb']:6} MB  {counts}", flush=True)
        if options.negatives:
            results[name]["negatives"] = result = step(["mine", "negatives", "pairs"], workspace)
            report = result.get("report", {})
            counts = {key: report.get(key) for key in ("records", "short", "left_out", "kept", "dropped")}
            print(f"{name:16} negatives  {result['cpu']:7.1f} s {result['mb']:6} MB  {result.get('error') or counts}")
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
