"""The part of a passage that answers a query, with the query's words marked."""

from __future__ import annotations

import re
from collections.abc import Callable

from lemmata.latex.readable import readable
from lemmata.latex.sentences import cut, formulas, sentences
from lemmata.search.tokens import tokenize

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_LONGEST_QUERY = 2000  # characters
CELL = " | "  # what reading leaves between the cells of a table
CELLS = re.compile(r"(?P<formula>\$[^$]*+\$)| \| ")  # and formulas, in which it is none
PARAGRAPH = re.compile(r"(?m)^[^\S\n]*+\S[^\n]*+(?:\n[^\S\n]*+\S[^\n]*+)*+")
ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)]) ")


def excerpt(
    text: str, query: str, length: int = 320, *, tokenize: Callable[[str], list[str]] = tokenize
) -> tuple[str, list[tuple[int, int]]]:
    """Consecutive sentences with the most words of the query, about `length` characters, with formulas as Unicode;
    and the spans of those words in it.

    A longer sentence is cut after `2 * length` characters, never inside a formula; a formula that is longer than
    that leaves `…`. `tokenize` tells which words are the same, as the index does it.
    """
    source, before, after = window(text, query, length, tokenize=tokenize)
    shown = _readable(source, 2 * length)
    if len(shown) > 2 * length:  # a single long sentence
        shown = _readable(cut(source, 2 * length), 2 * length).removesuffix(" …") + " …"
    shown = ("… " if before else "") + shown + (" …" if after else "")
    return shown, mark_words(shown, query, tokenize)


def window(text: str, query: str, length: int, *, tokenize: Callable[[str], list[str]]) -> tuple[str, bool, bool]:
    """Consecutive sentences with the most words of the query, about `length` characters, as they stand in the text;
    and whether there is text before and after them.
    """
    query_words = set(tokenize(query[:_LONGEST_QUERY]))
    spans = _parts(text)
    if not spans:
        return "", False, False
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
    return text[spans[first][0] : spans[last][1]], first > 0, last + 1 < len(spans)


def is_listed(paragraph: str) -> bool:
    """Whether a paragraph is a list, by its first line, or a table, each line of which has cells outside formulas."""
    if "\n" not in paragraph or ITEM.match(paragraph):
        return "\n" in paragraph
    words = CELLS.sub(lambda cell: "" if cell["formula"] else CELL, f"{paragraph} ")
    return all(CELL in line for line in words.split("\n"))


def _parts(text: str) -> list[tuple[int, int]]:
    """The spans of the sentences of a text, and of the lines of its lists and tables."""
    paragraphs = [(match.start(), match[0], is_listed(match[0])) for match in PARAGRAPH.finditer(text)]
    if not any(listed for _, _, listed in paragraphs):
        return sentences(text)
    return [
        (start + begin, start + end)
        for start, paragraph, listed in paragraphs
        for begin, end in (
            [line.span() for line in re.finditer(r"[^\n]+", paragraph)] if listed else sentences(paragraph)
        )
    ]


def mark_words(text: str, query: str, tokenize: Callable[[str], list[str]]) -> list[tuple[int, int]]:
    """The spans of the words of a text that are the same as words of the query."""
    query_words = set(tokenize(query[:_LONGEST_QUERY]))
    return [m.span() for m in _WORD.finditer(text) if len(m[0]) > 1 and query_words.intersection(tokenize(m[0]))]


def _readable(text: str, longest: int) -> str:
    """The text with formulas as Unicode on one line, without formulas of more than `longest` characters."""
    pieces: list[str] = []
    at = 0
    for begin, end in formulas(text):
        if end - begin > longest and len(readable(text[begin:end])) > longest:
            pieces += (text[at:begin], "…")
            at = end
    return " ".join(readable("".join((*pieces, text[at:]))).split())
