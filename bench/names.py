"""The share of names, typed exactly, whose thing is the first hit: python -m bench.names WORKSPACE [RETRIEVER…]

Up to 150 titles of statements and 150 of documents; a hit counts if it, or its document, has the title that was typed.
"""

from __future__ import annotations

import random
import sys

from lemmata.core.words import fold
from lemmata.search.retriever import Retriever

_MOST = 150
_LONGEST = 100  # characters of a name that somebody types


def _sample(titles: set[str]) -> list[str]:
    names = sorted(title for title in titles if 0 < len(title) <= _LONGEST)
    return random.Random(1).sample(names, min(_MOST, len(names)))


def main(folder: str, *retrievers: str) -> None:
    with Retriever.open(folder) as searcher:
        corpus = searcher.corpus
        statements = _sample({title for title, kind in corpus.table("title", "kind") if kind not in ("chunk", "part")})
        documents = _sample({document.title for document in corpus.documents()})
        for retriever in retrievers or ("auto",):
            for what, names in (("statements", statements), ("documents", documents)):
                right = 0
                for name in names:
                    for hit in searcher.search(name, 1, retriever=retriever):
                        assert hit.passage is not None
                        document = corpus.document(hit.passage.document).title
                        right += fold(hit.passage.title if what == "statements" else document) == fold(name)
                print(f"{retriever}: {right} of {len(names)} names of {what} first ({right / max(1, len(names)):.3f})")


if __name__ == "__main__":
    main(*sys.argv[1:])
