"""What a query names exactly: the id of a passage, a label, or a printed number such as "Theorem 4.2 of Partitions"."""

from __future__ import annotations

import re

import numpy as np

from lemmata.core.types import Floats, Integers, Mask, Ranking, printed_name
from lemmata.corpus.corpus import Corpus
from lemmata.latex.kinds import kind_of

_MOST = 20  # passages of one name; a number is a name in every paper
_LONGEST = 300  # characters of a query that is a name
_NUMBERED = re.compile(
    r"(?P<kind>§|[^\W\d_]+(?: [^\W\d_]+){0,2})\.?\s*"
    r"\(?(?P<number>(?:\d+|[a-z]|[ivxlc]+)(?:[.-](?:\d+|[a-z]))*[a-z']?)\)?"
    r"(?:\s*,?\s+(?:(?:of|in|from|aus|von|in)\s+)?(?P<title>.+))?",
    re.I,
)
_WORD = re.compile(r"\w+")
_STATEMENTS = tuple(
    "theorem lemma proposition corollary definition remark example exercise conjecture claim construction fact".split()
)
_KINDS = {
    **dict.fromkeys(("§", "sec", "sect", "section", "subsection", "paragraph", "abschnitt"), ("section",)),
    **dict.fromkeys(("ch", "chap", "chapter", "kapitel", "chapitre"), ("chapter",)),
    **dict.fromkeys(("appendix", "anhang", "annexe"), ("chapter", "section")),
    **dict.fromkeys(("eq", "eqn", "equation", "formula", "gleichung", "formel"), ("equation",)),
    **dict.fromkeys(("fig", "figure", "abbildung"), ("figure",)),
    **dict.fromkeys(("tab", "table", "tabelle"), ("table",)),
    "ex": ("exercise", "example"),
    "rem": ("remark",),
    "part": ("part",),
}


def named_rows(corpus: Corpus, text: str, allowed: Mask | None = None) -> list[int]:
    """The rows that a query names, in the order of the corpus; none for a query that is no name."""
    text = " ".join(text.split()).rstrip(".?!")
    if not text or len(text) > _LONGEST:
        return []
    names = [text]
    kinds: tuple[str, ...] = ()
    words: set[str] = set()
    if match := _NUMBERED.fullmatch(text):
        word = match["kind"].casefold()
        kinds = _KINDS.get(word) or (kind_of(word),)
        names += (printed_name(kind, match["number"]) for kind in kinds)
        words = set(_WORD.findall((match["title"] or "").casefold())) - {"the", "a", "on", "of", "in"}
    named = corpus.named(names)
    if not named and match and kinds[0] in _STATEMENTS:  # people remember the number, and take a lemma for a theorem
        named = corpus.named([printed_name(kind, match["number"]) for kind in _STATEMENTS])
    rows = [
        row
        for row, document in named
        if (allowed is None or allowed[row]) and (not words or words <= set(_WORD.findall(document.casefold())))
    ]
    return rows[:_MOST]


def put_first(named: list[int], rows: Integers, scores: Floats) -> Ranking:
    """A ranking (1, k) with the named rows in front, whose score is that of the best hit and one more."""
    others = ~np.isin(rows[0], named)
    best = float(scores[0, 0]) if rows.size and rows[0, 0] >= 0 else 0.0
    return (
        np.concatenate([np.array(named, rows.dtype), rows[0][others]])[None, :],
        np.concatenate([np.full(len(named), best + 1, scores.dtype), scores[0][others]])[None, :],
    )
