"""The names of retrievers: their table, which help, API and page show, and how a name is read."""

from __future__ import annotations

import re
from typing import NamedTuple

from lemmata.core.errors import LemmataError, suggest


class RetrieverKind(NamedTuple):
    """A way to rank passages; `Retriever._search_rows` does it."""

    title: str
    description: str
    by_vectors: bool = True  # and may name their encoder: dense:minilm
    by_words: bool = True
    by_paths: bool = False  # each hit comes with its path, asked for or not


RETRIEVERS = {
    "auto": RetrieverKind("Auto", "Words and meaning together."),
    "hybrid": RetrieverKind("Hybrid", "Words and meaning, weighed equally."),
    "dense": RetrieverKind(
        "Meaning", "Vectors of the encoder: finds passages that say it in other words.", by_words=False
    ),
    "lexical": RetrieverKind(
        "Words", "BM25: passages that have the words and formulas of the query.", by_vectors=False
    ),
    "diffusion": RetrieverKind(
        "Diffusion", "Meaning, then one step along references: what the nearest passages rely on."
    ),
    "geodesic": RetrieverKind(
        "Geodesic",
        "The nearest along the graph: the shortest way from the query through its edges.",
        by_words=False,
        by_paths=True,
    ),
}
USUAL = ("lexical", "dense", "hybrid", "auto")  # that are compared where none is named
WITH_ENCODER = tuple(name for name, kind in RETRIEVERS.items() if kind.by_vectors)
NAMES = f"{', '.join(RETRIEVERS)}; NAME:ENCODER, NAME+rerank[N][:MODEL]"  # for a help
RERANKED = 50  # hits that a retriever NAME+rerank reads again
_RERANK = re.compile(r"(?P<retriever>.+?)\+rerank(?P<number>\d*)(?::(?P<model>.+))?", re.DOTALL)


def split_reranker(name: str) -> tuple[str, int, str]:
    """`dense+rerank20:MODEL` as retriever, number of hits and cross-encoder; 0 hits where the name has no `+rerank`."""
    match = _RERANK.fullmatch(name)
    if match is None:
        return name, 0, ""
    return match["retriever"], int(match["number"] or RERANKED), match["model"] or ""


def parse_retriever(name: str) -> tuple[str, str]:
    """The kind of a retriever and its encoder, without a `+rerank`: `dense:minilm` is ("dense", "minilm")."""
    kind, named, encoder = split_reranker(name)[0].partition(":")
    if kind not in RETRIEVERS:
        known = (*RETRIEVERS, *(f"{each}:ENCODER" for each in WITH_ENCODER))
        raise LemmataError(f"there is no retriever {name!r}{suggest(kind, known)}")
    if named and (kind not in WITH_ENCODER or not encoder):
        possible = " and ".join(f"{each}:ENCODER" for each in WITH_ENCODER)
        raise LemmataError(f"there is no retriever {name!r}: only {possible} name an encoder")
    return kind, encoder
