"""Which queries that are trained on repeat one of a validation or test set.

    python -m recipes.lemmata_mini.audit WORK/arrays [--show 20]

Reads what arrays.py wrote. Two queries repeat each other when four fifths of their words are the same. One line for
each training set and task that share queries, with the number of equal ones; then some of them. Passages that ask for
their neighbours are no queries.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from recipes.lemmata_mini.make import repeated

from lemmata.corpus.leakage import normalise


def audit(folder: Path) -> list[tuple[str, str, str, str]]:
    """Training set, query, task and held-out query of each query that repeats one, the first of several."""
    texts = (folder / "texts.txt").read_text(encoding="utf-8").split("\n")
    names = json.loads((folder / "sets.json").read_text(encoding="utf-8"))["names"]
    asked = list(dict.fromkeys((query, number) for query, _, number in np.load(folder / "pairs.npy").tolist()))
    held_out = []
    for task in json.loads((folder / "tasks.json").read_text(encoding="utf-8")):
        itself: Sequence[int] = task["itself"] or [-1] * len(task["queries"])
        label = f"{task['name']}, {task['part']}"
        held_out += [(label, texts[query]) for query, own in zip(task["queries"], itself, strict=True) if own < 0]
    twins = repeated([texts[query] for query, _ in asked], [text for _, text in held_out])
    return [(names[asked[own][1]], texts[asked[own][0]], *held_out[other]) for own, other in sorted(twins.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arrays", type=Path)
    parser.add_argument("--show", type=int, default=20, help="repetitions to print")
    options = parser.parse_args()
    found = audit(options.arrays)
    counts = Counter((name, task) for name, _, task, _ in found)
    equal = Counter((name, task) for name, query, task, other in found if normalise(query) == normalise(other))
    for (name, task), count in sorted(counts.items()):
        print(f"{name} → {task}: {count} queries, {equal[name, task]} of them equal")
    for name, query, task, other in found[: options.show]:
        print(f"  {query!r} of {name} repeats {other!r} of {task}")
    print(f"{len(found)} repetitions")


if __name__ == "__main__":
    main()
