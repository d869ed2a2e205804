"""Rankings and judgments as TREC files, the formats that trec_eval, ir_measures and ranx read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from lemmata.core.errors import InputError
from lemmata.core.files import writing


def write_trec_run(path: Path, rankings: Mapping[str, Iterable[tuple[str, float]]], *, retriever: str) -> None:
    """Write lines of `query Q0 passage rank score retriever`; rankings: query id to (passage id, score), best first.

    The file holds one run: tools that read it expect each passage once per query. Scores are lowered where they
    tie, see `strictly_falling`. Ids and retriever names with white space raise InputError, and no file is written.
    """
    tag = _word(retriever)
    with writing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for query, hits in rankings.items():
            scores = strictly_falling(query, hits)
            for rank, (passage, score) in enumerate(scores.items(), 1):
                stream.write(f"{_word(query)} Q0 {_word(passage)} {rank} {score:.9g} {tag}\n")


def write_trec_qrels(path: Path, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write lines of `query 0 passage grade`. Ids with white space raise InputError, and no file is written."""
    with writing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for query, grades in qrels.items():
            for passage, grade in grades.items():
                stream.write(f"{_word(query)} 0 {_word(passage)} {grade}\n")


def _word(text: str) -> str:
    if text.split() != [text]:
        raise InputError(f"a TREC file cannot hold {text!r}: its columns are separated by white space")
    return text


def strictly_falling(query: str, hits: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Scores that fall from hit to hit, each lowered as little as possible.

    trec_eval sorts by score in single precision and breaks ties by id. Only scores that differ in single precision
    keep the order of the retriever.
    """
    scores: dict[str, float] = {}
    score_above = np.float32(np.inf)
    for passage, score in hits:
        if passage in scores:
            raise InputError(f"the ranking for the query {query!r} holds {passage!r} twice")
        score_above = min(np.float32(score), np.nextafter(score_above, np.float32(-np.inf)))
        scores[passage] = float(score_above)
    return scores
