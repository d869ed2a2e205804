"""The part of a passage that answers a query, readable in a terminal, with the query's words marked."""

from __future__ import annotations

import re
from collections.abc import Callable

from lemmata.index.tokens import tokenize
from lemmata.latex.readable import readable
from lemmata.latex.sentences import cut, formulas, sentences

__all__ = ["excerpt"]

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


def excerpt(
    text: str, query: str, length: int = 320, *, tokenize: Callable[[str], list[str]] = tokenize
) -> tuple[str, list[tuple[int, int]]]:
    """Consecutive sentences with the most words of the query, about `length` characters, with formulas as Unicode;
    and the spans of those words in it.

    A longer sentence is cut after `2 * length` characters, never inside a formula; a formula that is longer than
    that leaves `…`. `tokenize` tells which words are the same, as the index does it.
    """
    query_words = set(tokenize(query[:2000]))
    spans = sentences(text)
    if not spans:
        return "", []
    shared = [len(query_words.intersection(tokenize(text[begin:end]))) for begin, end in spans]
    best, first, last = -1, 0, 0
    after = value = 0  # the window of sentences from `number` to before `after`
    for number, (begin, _) in enumerate(spans):
        while after <= number or (after < len(spans) and spans[after][1] - begin <= length):
            value += shared[after]
            after += 1
        if value > best:
            best, first, last = value, number, after - 1
        value -= shared[number]
    source = text[spans[first][0] : spans[last][1]]
    shown = _readable(source, 2 * length)
    if len(shown) > 2 * length:  # a single long sentence
        shown = _readable(cut(source, 2 * length), 2 * length).removesuffix(" …") + " …"
    shown = ("… " if first else "") + shown + (" …" if last + 1 < len(spans) else "")
    marks = [m.span() for m in _WORD.finditer(shown) if len(m[0]) > 1 and query_words.intersection(tokenize(m[0]))]
    return shown, marks


def _readable(text: str, longest: int) -> str:
    """The text with formulas as Unicode on one line, without formulas of more than `longest` characters."""
    pieces: list[str] = []
    at = 0
    for begin, end in formulas(text):
        if end - begin > longest and len(readable(text[begin:end])) > longest:
            pieces += (text[at:begin], "…")
            at = end
    return " ".join(readable("".join((*pieces, text[at:]))).split())
