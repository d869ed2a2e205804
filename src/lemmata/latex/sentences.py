"""Split cleaned text into sentences and chunks, never inside a formula.

In cleaned text every formula is between single dollars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from lemmata.latex.source import match_dollar

Span = tuple[int, int]  # first offset, offset after the last
_FORMULA = re.compile(r"\$(?:[^$\\]|\\.)*+\$", re.DOTALL)
_OPENING = re.compile(r"(?:\\.|[^\\$])*+\$", re.DOTALL)  # up to the next dollar that is not escaped
_BLANKS = re.compile(r"\s+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[“„«~$-])(?:"
    r"[A-Z]|[A-Z]\.-[A-Z]|e\.g|i\.e|cf|resp|etc|viz|vs|al|ca|approx|Thm|Thms|Prop|Props|Lem|Cor|Def|Defs|Rem|Ex"
    r"|Eq|Eqs|Eqn|Fig|Figs|Sec|Sect|Ch|Chap|App|Tab|Vol|No|pp|p|Dr|Prof|Mr|Mrs|Ms|St|Jr|ed|eds|w\.r\.t|w\.l\.o\.g"
    r"|a\.e|a\.s|i\.i\.d|s\.t|z|z\.\s?B|o|d|d\.\s?h|u\.\s?a|bzw|vgl|usw|Abb|Nr|Bd|S|evtl|ggf|inkl|max|min|Temp"
    r"|Ref|Refs|Conj|Prob|Math|Ann|Proc|Trans|Amer|Soc|Acad|Sci|Univ|Inst|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct"
    r"|Nov|Dec|incl|Ing|Dipl"
    r")\.$"
)
_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"”“’')\]]*+(?=\s++[\"“„«(\[$•]?\s*+[A-ZÄÖÜÀ-Þ\d$•(])|\n\n++"
    r"|(?<=[.!?]\$)\n(?=[A-ZÄÖÜÀ-Þ])"  # after a displayed formula that has its full stop inside
)


def formulas(text: str) -> list[Span]:
    """Spans of the formulas with their dollars; a formula with dollars inside `\\text` counts once."""
    spans: list[Span] = []
    searches = 15  # long searches for a closing brace; hostile text has many that never close
    opening = _OPENING.match(text)
    while opening:
        at = opening.end() - 1
        formula = _FORMULA.match(text, at)
        if formula is None:
            break
        end = formula.end()
        if searches and text.count("{", at, end) > text.count("}", at, end):
            longer = match_dollar(text, at)
            searches -= longer < 0
            end = max(end, longer)
        spans.append((at, end))
        opening = _OPENING.match(text, end)
    return spans


def _outside(matches: Iterable[re.Match[str]], spans: Sequence[Span]) -> Iterator[re.Match[str]]:
    """The matches that do not start inside one of the spans; both are in order."""
    number = 0
    for match in matches:
        while number < len(spans) and spans[number][1] <= match.start():
            number += 1
        if number == len(spans) or spans[number][0] >= match.start():
            yield match


def sentences(text: str) -> list[Span]:
    """Spans of the sentences without the blanks between them; together they cover all other characters."""
    spans: list[Span] = []
    start = 0
    for stop in _outside(_END.finditer(text), formulas(text)):
        end = stop.end() if stop[0].strip() else stop.start()
        if stop[0].startswith(".") and _ABBREVIATION.search(text, max(start, stop.start() - 12), stop.start() + 1):
            continue
        if text[start:end].strip():
            spans.append(_trim(text, start, end))
            start = end
    if text[start:].strip():
        spans.append(_trim(text, start, len(text)))
    return spans


def _trim(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def pieces(text: str, longest: int) -> list[Span]:
    """Sentences; those longer than `longest` are cut at blanks outside formulas, into parts of similar length."""
    spans: list[Span] = []
    for start, end in sentences(text):
        begin = last = start
        limit = longest
        if end - start > longest:
            parts = -(-(end - start) // longest)
            limit = min(longest, -(-(end - start) // parts) + 40)  # 40: the longest word that is likely
            inside = [(start + low, start + high) for low, high in formulas(text[start:end])]
            blanks = [blank.start() for blank in _outside(_BLANKS.finditer(text, start, end), inside)]
            for at in (*blanks, end):
                if at - begin > limit and last > begin:
                    spans.append((begin, last))
                    begin = _trim(text, last, at)[0]
                last = at
        spans.append((begin, end))
    return spans


def chunks(text: str, size: int = 1500, overlap: int = 200) -> list[Span]:
    """Spans of at most `size` characters that begin and end with sentences; neighbours share up to `overlap`.

    A formula is never cut: a formula longer than `size` makes a longer chunk. A sentence longer than `size` is
    cut between words.
    """
    return gather(pieces(text, size), size, overlap)


def gather(pieces: Sequence[Span], size: int, overlap: int) -> list[Span]:
    """Spans of consecutive pieces, at most `size` characters unless a piece is longer; neighbours share some pieces."""
    spans: list[Span] = []
    first = 0
    for number, (_, end) in enumerate(pieces):
        if end - pieces[first][0] <= size or number == first:
            continue
        spans.append((pieces[first][0], pieces[number - 1][1]))
        shared = number
        while (
            shared - 1 > first
            and pieces[number - 1][1] - pieces[shared - 1][0] <= overlap
            and end - pieces[shared - 1][0] <= size
        ):
            shared -= 1
        first = shared
    if pieces:
        spans.append((pieces[first][0], pieces[-1][1]))
    return _balanced(spans, pieces, size)


_SMALL = 200  # characters: a shorter chunk at the end takes sentences from the one before


def _balanced(spans: list[Span], pieces: Sequence[Span], size: int) -> list[Span]:
    """The chunks, the last one not small where the one before has whole sentences to spare."""
    smallest = min(_SMALL, size // 4)
    if len(spans) < 2 or spans[-1][1] - spans[-1][0] >= smallest:
        return spans
    (start, _), (last, end) = spans[-2:]
    for number in range(len(pieces) - 1, 0, -1):
        at, kept = pieces[number][0], pieces[number - 1][1] - start
        if kept < smallest or end - at > size:
            break
        if at < last and end - at >= smallest:
            return [*spans[:-2], (start, pieces[number - 1][1]), (at, end)]
    return spans


def join_tiny_sections(sections: Sequence[tuple[Sequence[str], int]], tiny: int) -> list[range]:
    """Runs of consecutive sections (headings that lead to it, length of its text) that are split into chunks as one.

    A section of fewer than `tiny` characters is joined with the section below it, else with the one before or after
    it, unless a heading above both stands between them.
    """
    runs: list[range] = []
    length = 0  # of the last run
    for number, (path, added) in enumerate(sections):
        before, after = (tuple(sections[n][0]) if 0 <= n < len(sections) else () for n in (number - 1, number + 1))
        has_below = len(after) > len(path) and after[: len(path)] == tuple(path)
        related = before[: len(path) - 1] == tuple(path[:-1])
        if runs and related and (length < tiny or (added < tiny and not has_below)):
            runs[-1] = range(runs[-1].start, number + 1)
            length += added
        else:
            runs.append(range(number, number + 1))
            length = added
    return runs


def cut(text: str, longest: int) -> str:
    """The beginning of a text, at most `longest` characters, up to the end of a sentence or of a word."""
    if len(text) <= longest:
        return text
    spans = chunks(text, longest, 0)
    return text[: spans[0][1]] if spans else ""
