"""The part of a passage that answers a query, readable in a terminal, with the query's words marked."""

from __future__ import annotations

import re

from lemmata.index.tokens import tokenize
from lemmata.latex.readable import readable
from lemmata.latex.sentences import sentences

__all__ = ["excerpt"]

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


def excerpt(text: str, query: str, length: int = 320) -> tuple[str, list[tuple[int, int]]]:
    """Consecutive sentences with the most words of the query, about `length` characters, with formulas as Unicode;
    and the spans of those words in it."""
    query_words = set(tokenize(query[:2000]))
    spans = sentences(text)
    if not spans:
        return text[:length], []
    shared = [len(query_words.intersection(tokenize(text[begin:end]))) for begin, end in spans]
    best, first = -1, 0
    for number, (begin, _) in enumerate(spans):
        window = [n for n in range(number, len(spans)) if n == number or spans[n][1] - begin <= length]
        if (value := sum(shared[n] for n in window)) > best:
            best, first, last = value, number, window[-1]
    shown = " ".join(readable(text[spans[first][0] : spans[last][1]]).split())
    if len(shown) > 2 * length:  # a single long sentence
        shown = shown[: 2 * length].rsplit(" ", 1)[0] + " …"
    shown = ("… " if first else "") + shown + (" …" if last + 1 < len(spans) else "")
    marks = [m.span() for m in _WORD.finditer(shown) if len(m[0]) > 1 and query_words.intersection(tokenize(m[0]))]
    return shown, marks
