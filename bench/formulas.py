"""Is a formula found as well in the characters that a terminal shows as in LaTeX?

    python -m bench.formulas WORKSPACE

From each passage with a formula of 19 to 79 characters that has a faithful form in characters (αᵢ² ∈ ℝ), the first such
formula is a query, in both forms; its passage is the answer. MRR@10 of three retrievers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lemmata.latex.readable import readable
from lemmata.latex.sentences import formulas
from lemmata.search import Retriever
from lemmata.types import Passage

MOST = 400  # queries


class Query(NamedTuple):
    latex: str
    shown: str
    row: int


def query_from(passage: Passage, row: int) -> Query | None:
    """The first formula of a passage that people could paste in characters."""
    for begin, end in formulas(passage.text):
        latex = passage.text[begin:end]
        shown = readable(latex)
        if 18 < len(latex) < 80 and "$" not in shown and not shown.isascii():
            return Query(latex, shown, row)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    arguments = parser.parse_args()
    with Retriever.open(arguments.workspace) as retriever:
        found = [query for row, passage in enumerate(retriever.corpus) if (query := query_from(passage, row))]
        chosen = [found[place] for place in np.random.default_rng(0).permutation(len(found))[:MOST]]
        answers = np.array([query.row for query in chosen])
        print(f"{len(chosen)} formulas")
        for name in ("lexical", "dense", "auto"):
            values = []
            for texts in ([query.latex for query in chosen], [query.shown for query in chosen]):
                is_answer = retriever.search_rows(texts, 10, name)[0] == answers[:, None]
                values.append(float((is_answer / np.arange(1, 11)).sum(axis=1).mean()))
            print(f"{name}: LaTeX {values[0]:.3f}, characters {values[1]:.3f}")


if __name__ == "__main__":
    main()
