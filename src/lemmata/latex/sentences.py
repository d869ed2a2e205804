"""Sentences that never split inside a formula, and chunks made of them.

Works on cleaned text, in which every formula stands between single dollars.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lemmata.latex.source import match_dollar

__all__ = ["Chunk", "chunks", "cut", "sentences"]

_FORMULA = re.compile(r"\$(?:[^$\\]|\\.)*+\$", re.DOTALL)
_OPENING = re.compile(r"(?:\\.|[^\\$])*+\$", re.DOTALL)  # up to the next dollar that is not escaped
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[“„«~$-])(?:"
    r"[A-Z]|[A-Z]\.-[A-Z]|e\.g|i\.e|cf|resp|etc|viz|vs|al|ca|approx|Thm|Thms|Prop|Props|Lem|Cor|Def|Defs|Rem|Ex"
    r"|Eq|Eqs|Eqn|Fig|Figs|Sec|Sect|Ch|Chap|App|Tab|Vol|No|pp|p|Dr|Prof|Mr|Mrs|Ms|St|Jr|ed|eds|w\.r\.t|w\.l\.o\.g"
    r"|a\.e|a\.s|i\.i\.d|s\.t|z|z\.\s?B|o|d|d\.\s?h|u\.\s?a|bzw|vgl|usw|Abb|Nr|Bd|S|evtl|ggf|inkl|max|min|Temp|ca"
    r"|Ref|Refs|Conj|Prob|Math|Ann|Proc|Trans|Amer|Soc|Acad|Sci|Univ|Inst|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct"
    r"|Nov|Dec|resp|incl|Ing|Dipl"
    r")\.$"
)
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"”“’')\]]*+(?=\s++[\"“„«(\[$•]?\s*+[A-ZÄÖÜÀ-Þ\d$•(])|\n\n++")


def formulas(text: str) -> list[tuple[int, int]]:
    """Spans of the formulas, dollars included; one whose `\\text` holds dollars of its own counts once."""
    spans: list[tuple[int, int]] = []
    patience = 15  # formulas whose braces never close may cost a long look, but not often
    opening = _OPENING.match(text)
    while opening:
        at = opening.end() - 1
        found = _FORMULA.match(text, at)
        if found is None:
            break
        end = found.end()
        if patience and text.count("{", at, end) > text.count("}", at, end):
            longer = match_dollar(text, at)
            patience -= longer < 0
            end = max(end, longer)
        spans.append((at, end))
        opening = _OPENING.match(text, end)
    return spans


def sentences(text: str) -> list[tuple[int, int]]:
    """Spans of the sentences, without the blanks between them; together they hold all other characters."""
    spans: list[tuple[int, int]] = []
    protected = formulas(text)
    number = start = 0
    for found in _END.finditer(text):
        end = found.end() if found[0].strip() else found.start()
        while number < len(protected) and protected[number][1] <= found.start():
            number += 1
        if number < len(protected) and protected[number][0] < found.start():
            continue
        if found[0].startswith(".") and _ABBREVIATION.search(text, max(start, found.start() - 12), found.start() + 1):
            continue
        if text[start:end].strip():
            spans.append(_trim(text, start, end))
            start = end
    if text[start:].strip():
        spans.append(_trim(text, start, len(text)))
    return spans


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


class Chunk(NamedTuple):
    """A span of the text that was cut into chunks."""

    start: int
    end: int


def _pieces(text: str, most: int) -> list[tuple[int, int]]:
    """Sentences, those longer than `most` cut at blanks outside formulas."""
    pieces: list[tuple[int, int]] = []
    for start, end in sentences(text):
        if end - start <= most:
            pieces.append((start, end))
            continue
        inside = [(start + low, start + high) for low, high in formulas(text[start:end])]
        number, begin, last = 0, start, start
        for blank in re.finditer(r"\s+", text[start:end]):
            at = start + blank.start()
            while number < len(inside) and inside[number][1] <= at:
                number += 1
            if number < len(inside) and inside[number][0] < at:
                continue
            if at - begin > most and last > begin:
                pieces.append((begin, last))
                begin = last + len(text[last:at]) - len(text[last:at].lstrip())
            last = at
        if end - begin > most and last > begin:
            pieces.append((begin, last))
            begin = last + len(text[last:end]) - len(text[last:end].lstrip())
        pieces.append((begin, end))
    return pieces


def chunks(text: str, size: int = 1500, overlap: int = 200) -> list[Chunk]:
    """Spans of at most `size` characters that begin and end with sentences; neighbours share up to `overlap`.

    A formula is never cut: one that alone is longer than `size` makes a longer chunk of its own.
    A sentence that is longer than `size` is cut between words.
    """
    pieces = _pieces(text, size)
    result: list[Chunk] = []
    first = 0
    for number, (_, end) in enumerate(pieces):
        if end - pieces[first][0] <= size or number == first:
            continue
        result.append(Chunk(pieces[first][0], pieces[number - 1][1]))
        shared = number
        while (
            shared - 1 > first
            and pieces[number - 1][1] - pieces[shared - 1][0] <= overlap
            and end - pieces[shared - 1][0] <= size
        ):
            shared -= 1
        first = shared
    if pieces:
        result.append(Chunk(pieces[first][0], pieces[-1][1]))
    return result


def cut(text: str, most: int) -> str:
    """The beginning of a text up to `most` characters, at the end of a sentence or at least of a word."""
    if len(text) <= most:
        return text
    end = 0
    for start, stop in _pieces(text, most):
        if stop > most and end:
            break
        end = stop
        if start >= most:
            break
    return text[:end]
