"""New chapters come into a corpus with a trained model: what `lemmata run` finds, does, and gains.

    python bench/training_further.py DATA WORK [--base minilm] [--json FILE]

DATA holds the folder stacks. A model is trained on the chapters on algebra and categories; then ten chapters on schemes
come in, and `lemmata run` decides whether to train it further (`update = "auto"`). A copy of the workspace trains from
the base again (`"anew"`). Both reports have queries about new and about known passages apart, and that of the first
copy also the model before. Finished stages are skipped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

FIRST = """sets categories topology sheaves sites fields algebra brauer homology derived simplicial more-algebra
    smoothing modules sites-modules injectives cohomology sites-cohomology dga dpa hypercovering""".split()
LATER = "schemes constructions properties morphisms coherent divisors limits varieties topologies descent".split()
CONFIG = """
[split]
method = "stratified"
answers = true

[run]
sources = ["../{chapters}"]
base = "{base}"
update = "{update}"
measures = "R@20,MRR@10"

[finetune.tuned]
base = "{base}"
batch = 256
epochs = 3
rate = 1e-4
validation = {{ references = "R@20" }}
"""


def run(workspace: Path) -> str:
    print("$ lemmata run -w", workspace, file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "lemmata", "run", "-w", str(workspace)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    return done.stdout


def chapters(data: Path, folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {f"{name}.tex" for name in [*names, "preamble"]}
    with tarfile.open(data / "stacks" / "stacks.tar.xz") as archive:
        for member in archive:
            if member.name.removeprefix("./") in wanted:
                archive.extract(member, folder, filter="data")


def configure(workspace: Path, **values: str) -> None:
    (workspace / "lemmata.toml").write_text(CONFIG.format(**values), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--base", default="minilm")
    parser.add_argument("--json", type=Path)
    place = parser.parse_args()
    work: Path = place.work.resolve()
    further, anew = work / "further", work / "anew"
    printed: dict[str, Any] = {}
    chapters(place.data, work / "chapters", FIRST)
    if not further.exists():
        subprocess.run([sys.executable, "-m", "lemmata", "init", str(further)], check=True)
    configure(further, chapters="chapters", base=place.base, update="auto")
    printed["before"] = run(further)
    if not anew.exists():
        shutil.copytree(further, anew)
    chapters(place.data, work / "chapters", LATER)
    printed["further"] = run(further)
    configure(anew, chapters="chapters", base=place.base, update="anew")
    printed["anew"] = run(anew)
    if place.json:
        reports = {
            name: json.loads((folder / "run" / "report.json").read_text(encoding="utf-8"))
            for name, folder in (("further", further), ("anew", anew))
        }
        place.json.write_text(json.dumps({"printed": printed, "reports": reports}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
