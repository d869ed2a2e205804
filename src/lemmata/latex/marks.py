"""What cleaning writes between the words of a text: names of references, lines and blanks; and how they are settled.

A reference leaves its name between two marks, so that the rest of "Lemmas 1, 2 and 3" and "(see [4])" can be marked
with it; all that is marked is left out of the text, and is inserted for a reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lemmata.latex.source import VERBATIM, end_of

OPEN, INNER_OPEN, CLOSE = "\x00", "\x02", "\x01"  # the second inside formulas, which lists do not cross
NAMED = "\x03"  # in front of each name, so that references can be found again where several were joined
LINE = "\x0b"  # a blank that begins a new line
INDENT = "\x0e"  # at the beginning of a line, for each list around it
_BLANK = "\x0f"  # a blank of a program, which stays
KEY_MARKS = re.compile(r"\x04([^\x05]*+)\x05([^\x06]*+)\x06")  # a label or key, and the name that is shown for it
ALL_MARKS = re.compile(r"[\x00-\x02]")
OWN_CHARACTERS = re.compile(r"[\x00-\x06\x0b\x0e\x0f]")
_MARKED = r"\x00[^\x01]*+\x01"
_LIST = re.compile(
    _MARKED + r"(?:(?:[\s~]*+(?:,|;|/|–|and|or|to|und|oder|et|ou|bis|through))++[\s~]*+)?+(?=[\s~]*+\x00)"
)
_BRACKETED = re.compile(rf"[(\[]\s*(?:cf\.|see|see also|e\.g\.,?|siehe|voir)?(?:\s*+{_MARKED})++\s*+[)\]]")
# Before punctuation, also the blanks before it. A set in front is searched fast, a look-behind is tried everywhere.
_BLANKS_BEFORE = re.compile(rf"[ \t](?<![ \t]{{2}})[ \t]*+{_MARKED}(?=[.,;:)\]?!])")
_NEIGHBOURS = re.compile(rf"{_MARKED}(?:[ \t]++{_MARKED})++")
_GAP = re.compile(r"(?:[\x00\x02][^\x01]*+\x01\s*+)++")  # after the blanks before it
_PART_OF_GAP = re.compile(r"\s++|[\x00\x02]([^\x01]*+)\x01")
_BLANKS = re.compile(r"\s+")
INNER_MARK = re.compile(r"\x02[^\x01]*+\x01")
LEADING_MARKS = re.compile(r"(?:\s*+\x02[^\x01]*+\x01)++")
_CODE = re.compile(r"\\begin\s*\{\s*(" + "|".join(map(re.escape, sorted(VERBATIM, reverse=True))) + r")\s*\}")


def mark_code(text: str) -> str:
    """The text with the lines and blanks of its programs marked, so that they stay."""
    pieces: list[str] = []
    at = 0
    unclosed: set[str] = set()
    for begin in _CODE.finditer(text):
        close = end_of(begin[1]).search(text, begin.end()) if begin.start() >= at and begin[1] not in unclosed else None
        if close is None:
            unclosed.add(begin[1])
            continue
        code = text[begin.end() : close.start()].expandtabs(4)
        pieces += (text[at : begin.end()], code.replace(" ", _BLANK).replace("\n", LINE))
        at = close.start()
    return "".join((*pieces, text[at:]))


def _mark_whole(reference: re.Match[str]) -> str:
    return OPEN + ALL_MARKS.sub("", reference[0]) + CLOSE


def _spaced(text: str, separator: str) -> str:
    """The text with single blanks and its own lines, and `separator` in the place of empty lines."""
    if "\n\n" not in text and LINE not in text and _BLANK not in text:
        return " ".join(text.split())
    paragraphs = (
        _lines(part) if LINE in part or _BLANK in part else " ".join(part.split()) for part in text.split("\n\n")
    )
    return separator.join(filter(None, paragraphs))


def _lines(text: str) -> str:
    lines = (" ".join(line.split()).replace(INDENT, "  ").replace(_BLANK, " ").rstrip() for line in text.split(LINE))
    return "\n".join(line for line in lines if line)


def settle(text: str, separator: str) -> tuple[str, list[tuple[int, str]]]:
    """The text without what is marked, with single blanks, and what is marked as insertions.

    Marks grow over the rest of a list of references, brackets around them and blanks before punctuation.
    """
    if CLOSE not in text:
        return _spaced(text, separator), []
    text = _LIST.sub(_mark_whole, text).replace(CLOSE + OPEN, "")
    text = _NEIGHBOURS.sub(lambda names: " " + _mark_whole(names), text)
    return _take_out(_BLANKS_BEFORE.sub(_mark_whole, _BRACKETED.sub(_mark_whole, text)), separator)


def _take_out(text: str, separator: str) -> tuple[str, list[tuple[int, str]]]:
    """The text without what is marked, with single blanks, and what is marked as insertions.

    Two words of the text are separated as if there were no marks: by `separator` where an empty line is between them.
    """
    pieces: list[str] = []
    insertions: list[tuple[int, str]] = []
    at = length = 0

    def add(piece: str) -> None:
        nonlocal length
        pieces.append(piece)
        length += len(piece)

    def insert(parts: Sequence[str]) -> None:
        if name := "".join(parts):
            insertions.append((length, name))

    for gap in _GAP.finditer(text):
        before = text[at : gap.start()]
        words = before.rstrip()
        add(_spaced(words, separator))
        at = gap.end()
        parts = _parts_of_gap(before[len(words) :] + gap[0], separator)
        if length == 0:
            parts = parts[bool(parts) and not parts[0].strip() :]
        if at == len(text):
            parts = parts[: len(parts) - (bool(parts) and not parts[-1].strip())]
        if length == 0 or at == len(text):
            insert(parts)
            continue
        blanks = [number for number, part in enumerate(parts) if not part.strip()]
        kept = max(blanks, key=lambda number: _strength(parts[number]), default=len(parts))
        insert(parts[:kept])
        add("".join(parts[kept : kept + 1]))
        insert(parts[kept + 1 :])
    add(_spaced(text[at:], separator))
    return "".join(pieces), insertions


def _parts_of_gap(gap: str, separator: str) -> list[str]:
    """Blanks and names in turn, with single blanks."""
    parts: list[str] = []
    for part in _PART_OF_GAP.finditer(gap):
        if part[1] is None:
            blank = separator if "\n\n" in part[0] else "\n" if LINE in part[0] else " "
            if parts and not parts[-1].strip():  # an empty name was between
                parts[-1] = max(parts[-1], blank, key=_strength)
            else:
                parts.append(blank)
        elif part[1].strip():
            parts.append(_BLANKS.sub(" ", part[1]))
    return parts


def _strength(blank: str) -> tuple[int, int]:
    return blank.count("\n"), len(blank)


def place_references(
    named: Sequence[tuple[int, int]], count: int, insertions: Sequence[tuple[int, str]], length: int
) -> list[tuple[int, int]]:
    """The offsets between which each of `count` references stands: equal if it has a name, else its neighbours'.

    `named` has, for each name in the text, the first reference that it stands for and the one after the last.
    """
    offsets = [offset for offset, name in insertions for _ in range(name.count(NAMED))]
    places: list[tuple[int, int]] = []
    low = 0
    for offset, (first, last) in zip(offsets, named, strict=False):
        places += [(low, offset)] * (first - len(places))
        places += [(offset, offset)] * (last - first)
        low = offset
    return places + [(low, length)] * (count - len(places))
