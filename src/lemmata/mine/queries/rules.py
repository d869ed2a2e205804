"""Questions and key words from the structure of a passage, without a model; each carries its style and rule."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

from lemmata.core.types import Document, Pair, Passage
from lemmata.core.words import language_of
from lemmata.core.workers import cluster_map
from lemmata.graph.concepts.terms import mask
from lemmata.mine.material import TrainingView
from lemmata.mine.queries.logs import log_queries
from lemmata.mine.queries.statements import defined_terms, keywords, named_result, normal_words, title_query
from lemmata.mine.queries.wording import OVERLAP, Query, word_overlap

RULE_STYLES = ("question", "keyword")  # as people ask; statements rarely become slogans by rules
_BATCH = 200  # passages that a process of a cluster reads at once
_REPEATS = 3  # passages that may share a query
_MOST = 6  # queries per passage
_LONGEST = 22  # words of a query
_SHORT_DOCUMENT = 3  # passages; such a document is about its title
_PROSE = frozenset("chunk remark remarks exercise".split())  # their rare words are often beside the point


def rule_queries(
    view: TrainingView, *, styles: Collection[str] = RULE_STYLES, overlap: float = OVERLAP
) -> Iterator[Pair]:
    """Queries of these styles for every passage of a part, in row order; reads the part twice."""
    frequency: Counter[str] = Counter()
    for _, words in cluster_map(normal_words, (passage for _, passage in view.all_passages()), batch=_BATCH):
        frequency.update(words)
    document_sizes = Counter(view.document_numbers[view.rows].tolist())

    def with_documents() -> Iterator[tuple[int, Passage, Document | None]]:
        for row, passage in view.all_passages():
            short = document_sizes[int(view.document_numbers[row])] <= _SHORT_DOCUMENT
            yield row, passage, view.documents.get(passage.document) if short else None

    repeats: Counter[bytes] = Counter()
    ask = partial(_ask, frequency=frequency, passages=len(view.rows), styles=styles, overlap=overlap)
    for (row, *_), queries in cluster_map(ask, with_documents(), batch=_BATCH):
        for query in queries:
            key = hashlib.blake2b(query.text.casefold().encode(), digest_size=8).digest()
            repeats[key] += 1
            if repeats[key] <= _REPEATS:
                yield Pair(query.text, row, "queries", query.style, query.rule)


def _ask(item: tuple[int, Passage, Document | None], **given: Any) -> list[Query]:
    _, passage, document = item
    return passage_queries(passage, document=document, **given)


def passage_queries(
    passage: Passage,
    frequency: Mapping[str, int],
    passages: int,
    *,
    document: Document | None = None,
    styles: Collection[str] = RULE_STYLES,
    overlap: float = OVERLAP,
) -> list[Query]:
    """The distinct queries of one passage.

    `frequency` counts the passages, of all `passages`, that have a word in its normal form: rare words make key
    words. `document` is given only where the document is short enough to be about its title.
    """

    def pick(rule: str, *wordings: str) -> str:
        digest = hashlib.blake2b(f"0\0{passage.id}\0{rule}".encode(), digest_size=8).digest()
        return wordings[int.from_bytes(digest) % len(wordings)]

    candidates: list[Query] = []
    if passage.kind == "log":
        candidates += log_queries(passage, pick)
    else:
        german = language_of(mask(passage.text)) == "de"
        candidates += named_result(passage, pick, german)
        if document is not None and document.title and passage.id.endswith("@1"):
            candidates += title_query(document.title, pick, german)
        candidates += defined_terms(passage, pick, german)
        if passage.kind not in _PROSE:
            candidates += keywords(passage, frequency, passages, german)
    prose = re.sub(r"\$(?:[^$\\]|\\.)*\$", " ", passage.text)
    queries: dict[str, Query] = {}
    for query in candidates:
        text = _tidy(query.text)
        if (
            query.style in styles
            and 2 <= len(text.split()) <= _LONGEST
            and not _BROKEN.search(text)
            and word_overlap(text, prose) <= overlap
        ):
            queries.setdefault(text.casefold(), query._replace(text=text))
    return list(queries.values())[:_MOST]


_BROKEN = re.compile(  # markup, a sentence that ends in a small word, a word said twice
    r"[$\\{}()\[\]\ue000-\uf8ff]|\b(?:an?|the|to|of|in|on|over|by|from|with|at|for|whose|and|or"
    r"|von|und|oder|der|die|das|des|eine?|mit)\??$|\b(\w+) \1\b",
    re.IGNORECASE,
)


def _tidy(text: str) -> str:
    """The text as people type it."""
    text = re.sub(r"[“”\"]", "", " ".join(text.split()))
    return text.replace("’", "'").replace("–", "-").strip(" ,;:.")
