"""Show that the gate can fail: its verdict on copies of a checkout with a fault each.

    python -m bench.gate.faults CHECKOUT [--data DIR] [--only WORD …] [--work DIR]

The faults and the cases that are compared for each stand in faults.toml; `--only` takes those whose name has a word.
Prints a row of a table for each, and exits with 1 where one is not noticed or an unchanged copy fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any


def copy_with(checkout: Path, fault: dict[str, Any], out: Path) -> Path:
    """The sources of a checkout with one text replaced; models are links to those of the checkout."""
    shutil.rmtree(out, ignore_errors=True)
    source, copy = checkout.resolve() / "src" / "lemmata", out / "src" / "lemmata"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "models"))
    (copy / "models").symlink_to(source / "models")
    if fault:
        path = copy / fault["file"]
        text = path.read_text("utf-8")
        if text.count(fault["old"]) != 1:
            sys.exit(f"{fault['name']}: {fault['file']} has the text {text.count(fault['old'])} times")
        path.write_text(text.replace(fault["old"], fault["new"]), "utf-8")
    return out


def verdict(checkout: Path, copy: Path, only: list[str], options: argparse.Namespace) -> dict[str, Any]:
    result = copy.with_suffix(".json")
    data = ["--data", str(options.data)] if options.data else []
    words = [sys.executable, "-m", "bench.gate", str(checkout), str(copy), *data, "--work", str(options.work)]
    run = subprocess.run(
        [*words, "--json", str(result), "--only", *only], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    if run.returncode not in (0, 1) or not result.exists():
        sys.exit(run.stderr)
    record: dict[str, Any] = json.loads(result.read_text("utf-8"))
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "lemmata-gate")
    options = parser.parse_args()
    options.work = options.work.resolve()
    faults = tomllib.loads((Path(__file__).parent / "faults.toml").read_text("utf-8"))["fault"]
    chosen = [fault for fault in faults if not options.only or any(word in fault["name"] for word in options.only)]
    wrong = False
    for number, fault in enumerate([*chosen, {}]):
        copy = copy_with(options.checkout, fault, options.work / f"fault-{number}")
        only = fault.get("cases", ["qseries", "plant"])
        failures = verdict(options.checkout, copy, only, options)["failures"]
        wrong |= bool(fault) != bool(failures)
        name = fault.get("name", "nothing (an equal copy)")
        first = f"{len(failures)} failures: {'; '.join(failures[:3])}" if failures else "passes"
        print(f"| {name} | {' '.join(only)} | {first} |", flush=True)
        shutil.rmtree(copy)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
