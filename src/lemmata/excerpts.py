"""The part of a passage that answers a query, readable in a terminal, with the query's words marked."""

from __future__ import annotations

import re

from lemmata.index.tokens import tokenize
from lemmata.latex.readable import readable
from lemmata.latex.sentences import sentences

__all__ = ["excerpt"]

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


def excerpt(text: str, query: str, length: int = 320) -> tuple[str, list[tuple[int, int]]]:
    """Consecutive sentences with the most of the query's words, about `length` characters, formulas as characters;
    and the spans of those words in it."""
    wanted = set(tokenize(query[:2000]))
    spans = sentences(text)
    if not spans:
        return text[:length], []
    shared = [len(wanted.intersection(tokenize(text[begin:end]))) for begin, end in spans]
    best, first = -1, 0
    for number, (begin, _) in enumerate(spans):
        inside = [n for n in range(number, len(spans)) if n == number or spans[n][1] - begin <= length]
        if (value := sum(shared[n] for n in inside)) > best:
            best, first, last = value, number, inside[-1]
    shown = readable(text[spans[first][0] : spans[last][1]])
    shown = " ".join(shown.split())
    if len(shown) > 2 * length:  # one sentence that is long in itself
        shown = shown[: 2 * length].rsplit(" ", 1)[0] + " …"
    shown = ("… " if first else "") + shown + (" …" if last + 1 < len(spans) else "")
    marks = [m.span() for m in _WORD.finditer(shown) if len(m[0]) > 1 and wanted.intersection(tokenize(m[0]))]
    return shown, marks
