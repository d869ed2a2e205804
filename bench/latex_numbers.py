r"""The printed numbers of labels: simulated by lemmata, and written by LaTeX itself into `.aux` files.

    python -m bench.latex_numbers MAIN.tex… [--json OUT] [--show N]

Each main file is compiled once in a copy of its folder, with pictures as drafts, unless an `.aux` file lies beside it;
what does not compile to its end counts as far as it came. Labels that packages make for themselves are left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from lemmata.ingest.papers import open_paper
from lemmata.latex.mains import Main
from lemmata.latex.numbers import read_aux
from lemmata.latex.source import decode

COMMAND = ("pdflatex", "-draftmode", "-no-shell-escape", "-interaction=nonstopmode")
INTERNAL = ("sub@", "thmt@@", "tocindent", "LastPage")


def compiled(main: Path) -> dict[str, str]:
    """The numbers in the `.aux` files of a main file; where there are none, it is compiled."""
    if not main.with_suffix(".aux").exists():
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy"
            shutil.copytree(main.parent, copy, ignore=shutil.ignore_patterns("*.pdf", "*.png"))
            draft = f"\\PassOptionsToPackage{{draft}}{{graphicx}}\\input{{{main.name}}}"
            command = [*COMMAND, f"-jobname={main.stem}", draft]
            subprocess.run(command, cwd=copy, check=False, capture_output=True, timeout=1800)
            return compiled(copy / main.name) if (copy / main.name).with_suffix(".aux").exists() else {}
    numbers = read_aux(lambda path: text_of(main.parent / path), f"{main.stem}.aux")
    return {name: number for name, number in numbers.items() if not name.startswith(INTERNAL)}


def text_of(path: Path) -> str | None:
    return decode(path.read_bytes()) if path.is_file() else None


def simulated(main: Path) -> dict[str, str]:
    """The numbers by lemmata, which must not see the `.aux` files."""
    paper = open_paper(
        lambda path: None if path.endswith(".aux") else text_of(main.parent / path), Main(main.name), main.stem
    )
    return dict(paper.numbers)


def compare(main: Path, shown: int) -> dict[str, Any]:
    ours, theirs = simulated(main), compiled(main)
    different = {name: (number, ours.get(name)) for name, number in theirs.items() if ours.get(name) != number}
    for name, (number, own) in list(different.items())[:shown]:
        print(f"  {name}: LaTeX {number}, lemmata {own}")
    return {"main": f"{main.parent.name}/{main.name}", "labels": len(theirs), "equal": len(theirs) - len(different)}


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mains", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", type=int, default=0, help="different labels to print of each file")
    arguments = parser.parse_args()
    records = []
    for main in arguments.mains:
        records.append(compare(main, arguments.show))
        print(f"{main}: {records[-1]['equal']:,} of {records[-1]['labels']:,}", flush=True)
    labels, equal = (sum(record[key] for record in records) for key in ("labels", "equal"))
    print(f"{equal:,} of {labels:,} labels ({equal / max(1, labels):.2%})")
    if arguments.json:
        arguments.json.write_text(json.dumps({"files": records, "labels": labels, "equal": equal}, indent=1) + "\n")


if __name__ == "__main__":
    run()
