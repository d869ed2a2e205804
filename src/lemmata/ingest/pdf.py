"""PDF files as pages of running text: columns in reading order, without running heads and reference lists.

Knows the positions of characters on a page, and nothing of formulas, tables or pictures.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, median_low
from typing import Any, NamedTuple

from lemmata.core.errors import InputError, require
from lemmata.core.types import Skip

_MOST_CHARACTERS = 200_000  # on one page; more is a data dump that nobody reads


class Page(NamedTuple):
    """The text of one page, its paragraphs separated by blank lines."""

    number: int  # counted from 1
    text: str


def read_pages(data: bytes, *, file: str, limit: int = 2000) -> tuple[list[Page], list[Skip], dict[str, str]]:
    """The pages with text, the skips (their line is the page), and title, author and date (ISO) if present.

    Running heads, page numbers and the reference list are dropped, and pages that hold nothing else. Raises
    InputError for a file that cannot be opened.
    """
    pdfium = require("pypdfium2", "pdf")
    if not data:
        raise InputError("the file is empty", file=file)
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        encrypted = "password" in str(error).lower()
        cause = "the PDF is encrypted" if encrypted else "not a PDF, or too damaged to open"
        raise InputError(cause, file=file) from error
    pages: dict[int, list[_Line]] = {}
    heights: dict[int, float] = {}
    skips: list[Skip] = []
    with closing(document):
        count = len(document)
        if count < 1:
            raise InputError("the PDF has no pages", file=file)
        metadata = _metadata(document)
        for number in range(1, min(count, limit) + 1):
            try:
                with closing(document[number - 1]) as page, closing(page.get_textpage()) as textpage:
                    segments, complete = _segments(pdfium.raw, textpage)
                    heights[number] = page.get_height()
            except pdfium.PdfiumError:
                skips.append(Skip(file, number, "the page is damaged"))
                continue
            if not complete:
                skips.append(Skip(file, number, f"only the first {_MOST_CHARACTERS} characters are read"))
            pages[number] = _in_reading_order(_drop_line_numbers(segments))
        if count > limit:
            skips.append(Skip(file, limit + 1, f"only the first {limit} of {count} pages are read"))
    pages = _drop_running_heads(pages, heights)
    empty = [number for number, lines in pages.items() if not lines]
    skips += [Skip(file, number, "the page has no text; a scanned page needs OCR first") for number in empty]
    remaining = _drop_references(pages)
    emptied = [number for number, lines in pages.items() if lines and not remaining[number]]
    if emptied:
        which = f"pages {emptied[0]} to {emptied[-1]} hold" if len(emptied) > 1 else "the page holds"
        skips.append(Skip(file, emptied[0], f"{which} only references, which are not read"))
    pages = remaining
    pitch = _pitch(pages.values())
    texts = ((number, _paragraphs(lines, pitch)) for number, lines in pages.items())
    return [Page(number, text) for number, text in texts if text], sorted(skips), metadata


def _metadata(document: Any) -> dict[str, str]:
    date = re.match(r"(?:D:)?(\d{4})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", document.get_metadata_value("CreationDate"))
    metadata = {
        "title": _clean(document.get_metadata_value("Title")),
        "author": _clean(document.get_metadata_value("Author")),
        "date": "-".join(date.groups()) if date else "",
    }
    return {name: value for name, value in metadata.items() if value}


# ---------------------------------------------------------------- characters to lines


@dataclass(slots=True)
class _Line:
    """A line or a segment of one; coordinates in points from the lower left corner of the page."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    column: int = 0  # the same for all lines of a column of the page

    @property
    def height(self) -> float:
        return self.top - self.bottom


def _segments(raw: Any, textpage: Any) -> tuple[list[_Line], bool]:
    """Runs of characters without a wide gap, and whether they hold all characters of the page."""
    segments: list[_Line] = []
    characters: list[str] = []
    segment: _Line | None = None
    box = raw.FS_RECTF()
    box_pointer = ctypes.byref(box)
    count = textpage.count_chars()
    pending_space = False

    def finish() -> None:
        if segment is not None and (text := _clean("".join(characters))):
            segment.text = text
            segments.append(segment)

    for position in range(min(count, _MOST_CHARACTERS)):
        code = raw.FPDFText_GetUnicode(textpage.raw, position)
        if code in (9, 10, 13, 32, 160):
            pending_space = True
            continue
        if not raw.FPDFText_GetLooseCharBox(textpage.raw, position, box_pointer):
            continue
        left, right, bottom, top = box.left, box.right, min(box.bottom, box.top), max(box.bottom, box.top)
        if not (top - bottom > 0.1 and abs(left) < 1e5 and abs(top) < 1e5):  # also false for nan
            continue
        # pdfium writes the hyphen at the end of a line as U+0002
        character = "-" if code == 2 else chr(code) if 32 < code < 0x110000 else ""
        # A number apart from the text may be that of a line.
        apart = segment is not None and left - segment.right > 0.4 * segment.height
        numbered = apart and (character.isdigit() or (len(characters) < 6 and "".join(characters).isdigit()))
        if segment is not None and not numbered and _continues(segment, left, bottom, top):
            if pending_space or left - segment.right > 0.25 * segment.height:
                characters.append(" ")
            segment.right = max(segment.right, right)
            if top - bottom > 1.2 * segment.height:  # the segment began with a subscript
                segment.bottom, segment.top = bottom, top
        else:
            finish()
            segment, characters = _Line("", left, right, bottom, top), []
        characters.append(character)
        pending_space = False
    finish()
    return segments, count <= _MOST_CHARACTERS


def _continues(segment: _Line, left: float, bottom: float, top: float) -> bool:
    overlap = min(segment.top, top) - max(segment.bottom, bottom)
    height = max(segment.height, top - bottom)
    # The letters of a ligature share its box, and accents are set back over their letter.
    return overlap > 0.3 * min(segment.height, top - bottom) and -1.0 * height < left - segment.right < 1.1 * height


_ACCENTS = dict(zip("¨´`ˆ˜ˇ˝", "\u0308\u0301\u0300\u0302\u0303\u030c\u030b", strict=True))
_LOOSE_ACCENT = re.compile(r"([¨´`ˆ˜ˇ˝])\s?([A-Za-zı])")
_LIGATURE = re.compile("[\ufb00-\ufb06]")


def _clean(text: str) -> str:
    """One line of text: ligatures resolved, the loose accents of old TeX fonts joined to their letters."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd-\uffff\ufeff]", "", text)
    text = _LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    text = _LOOSE_ACCENT.sub(lambda match: match[2].replace("ı", "i") + _ACCENTS[match[1]], text)
    return unicodedata.normalize("NFC", " ".join(text.split()))


_FEWEST_NUMBERS = 5  # in one margin of a page


def _drop_line_numbers(segments: list[_Line]) -> list[_Line]:
    """Drop the numbers of the lines in the margins: those in one place that count up evenly beside lines of prose."""
    is_number = [segment.text.isdecimal() and len(segment.text) <= 4 for segment in segments]
    numbers = [segment for segment, number in zip(segments, is_number, strict=True) if number]
    others = [segment for segment, number in zip(segments, is_number, strict=True) if not number]
    dropped: set[int] = set()
    for edge in ("right", "left"):  # the numbers are aligned at one of their edges
        bands: list[list[_Line]] = []
        place = -1e6
        for number in sorted(numbers, key=lambda number: float(getattr(number, edge))):
            if getattr(number, edge) - place > 1.5:  # points
                bands.append([])
            bands[-1].append(number)
            place = getattr(number, edge)
        for band in bands:
            if len(band) >= _FEWEST_NUMBERS and others and _count_lines(band, others):
                dropped |= {id(number) for number in band}
    return [segment for segment in segments if id(segment) not in dropped]


def _count_lines(numbers: list[_Line], others: Sequence[_Line]) -> bool:
    """Whether numbers in one place of the page count its lines."""
    downwards = sorted(numbers, key=lambda number: -number.bottom)
    steps = Counter(int(below.text) - int(above.text) for above, below in pairwise(downwards))
    step, count = steps.most_common(1)[0]
    if step not in (1, 2, 5, 10) or count < 0.8 * (len(numbers) - 1):
        return False
    left, right = min(number.left for number in numbers), max(number.right for number in numbers)
    outside = [line.right - line.left for line in others if line.left >= right or line.right <= left]
    if len(outside) < 0.8 * len(others):
        return False  # they stand in the text
    width = max(line.right for line in others) - min(line.left for line in others)
    return median(outside) > 0.25 * width  # else they are a column of a table


def _in_reading_order(segments: list[_Line]) -> list[_Line]:
    """Lines from top to bottom; between lines of full width, the left column comes before the right one."""
    gutter = _gutter(segments) if segments else None
    if gutter is None:
        return _merged(segments, 0)
    ordered: list[_Line] = []
    columns = [
        _merged([segment for segment in segments if segment.right <= gutter], 1),
        _merged([segment for segment in segments if segment.left >= gutter], 2),
    ]
    for line in _merged([segment for segment in segments if segment.left < gutter < segment.right], 0):
        middle = (line.top + line.bottom) / 2
        for column in columns:
            while column and (column[0].top + column[0].bottom) / 2 > middle:
                ordered.append(column.pop(0))
        ordered.append(line)
    return ordered + columns[0] + columns[1]


def _gutter(segments: Sequence[_Line]) -> float | None:
    """The middle of the gap between two columns; None where the page has one column."""
    start, end = min(segment.left for segment in segments), max(segment.right for segment in segments)
    width = end - start
    candidates = [start + width * step / 200 for step in range(70, 131)]
    crossings = [sum(segment.left < x < segment.right for segment in segments) for x in candidates]
    fewest = min(crossings)
    free = [x for x, crossing in zip(candidates, crossings, strict=True) if crossing == fewest]
    gutter = free[len(free) // 2]
    left = [segment for segment in segments if segment.right <= gutter]
    right = [segment for segment in segments if segment.left >= gutter]
    if min(len(left), len(right)) < 3 or fewest > (len(left) + len(right)) / 2:
        return None
    # The page numbers of a table of contents and the cells of a table are no column of text.
    if min(median(segment.right - segment.left for segment in side) for side in (left, right)) < 0.2 * width:
        return None
    return gutter


def _merged(segments: Sequence[_Line], column: int) -> list[_Line]:
    """Segments at the same height as one line, from top to bottom."""
    lines: list[list[_Line]] = []
    tallest: _Line | None = None  # of the last line
    for segment in sorted(segments, key=lambda segment: -(segment.top + segment.bottom)):
        if tallest is not None:
            overlap = min(tallest.top, segment.top) - max(tallest.bottom, segment.bottom)
            if overlap > 0.5 * min(tallest.height, segment.height):
                lines[-1].append(segment)
                tallest = max(tallest, segment, key=lambda part: part.height)
                continue
        lines.append([segment])
        tallest = segment
    merged = []
    for parts in lines:
        parts.sort(key=lambda part: part.left)
        widest = max(parts, key=lambda part: part.right - part.left)
        text = " ".join([part.text for part in parts])
        right = max(part.right for part in parts)
        merged.append(_Line(text, parts[0].left, right, widest.bottom, widest.top, column))
    return merged


# ---------------------------------------------------------------- running heads and references


_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.)\s*)?(?:\d{1,4}|[ivxl]{1,6})(?:\s*(?:of|von|/)\s*\d{1,4})?\W*", re.I
)
_EDGE = 2  # lines at the top and at the bottom that can be running heads
_MARGIN = 0.15  # of the height of the page, that can hold running heads


def _drop_running_heads(pages: dict[int, list[_Line]], heights: dict[int, float]) -> dict[int, list[_Line]]:
    """Drop page numbers, and lines that recur at the same edge of many pages, digits aside.

    A title that is repeated as the running head is larger on its own page, and stays.
    """
    margins = {number: _margin_lines(lines, heights[number]) for number, lines in pages.items()}
    counts = Counter(key for keys in margins.values() for key in set(keys.values()))
    # Left and right pages often have different heads, and the first page has none.
    enough = max(2.0, 0.4 * (len(pages) - 1))
    remaining = {}
    for number, lines in pages.items():
        heads = {index for index, key in margins[number].items() if counts[key] >= enough}
        others = sorted(set(range(len(lines))) - heads, key=lambda index: lines[index].top)
        if len(others) > 1:
            heads |= {index for index in (others[0], others[-1]) if _PAGE_NUMBER.fullmatch(lines[index].text)}
        remaining[number] = [line for index, line in enumerate(lines) if index not in heads]
    return remaining


def _margin_lines(lines: Sequence[_Line], height: float) -> dict[int, tuple[str, str, int]]:
    """For each line in a margin: which margin, its text with digits masked, its height."""
    downwards = sorted(range(len(lines)), key=lambda index: -lines[index].top)
    top = [("top", index) for index in downwards[:_EDGE] if lines[index].bottom > (1 - _MARGIN) * height]
    bottom = [("bottom", index) for index in downwards[-_EDGE:] if lines[index].top < _MARGIN * height]
    return {
        index: (edge, re.sub(r"\d+", "#", lines[index].text).casefold(), round(lines[index].height))
        for edge, index in top + bottom
    }


_REFERENCES = re.compile(
    r"(?:(?:\d{1,2}|[IVX]{1,5}|[A-Z])\.?\s+)?"
    r"(?:references?(?:\s+cited)?|bibliography|literatur|literaturverzeichnis|références|bibliographie)\s*[:.]?",
    re.I,
)
_APPENDIX = re.compile(
    r"(?:appendix|appendices|anhang|annexe|(?:online )?supplementa(?:ry|l) (?:materials?|information|text|notes?)"
    r"|supporting information)\b.{0,80}",
    re.I,
)
_LETTERED = re.compile(r"A(?:\.1)?\.?\s+[A-Z](?:(?!\.\s)[^,;]){2,80}(?<!\.)")  # A Proofs


def _drop_references(pages: dict[int, list[_Line]]) -> dict[int, list[_Line]]:
    """Drop the list of references at the end; an appendix after it stays."""
    lines = [(number, line) for number, page in pages.items() for line in page]
    headings = [index for index, (_, line) in enumerate(lines) if _REFERENCES.fullmatch(line.text)]
    if not headings or headings[-1] < 0.3 * len(lines):
        return pages
    start = headings[-1]
    usual = median_low([line.height for _, line in lines[start:]])

    def starts_appendix(index: int) -> bool:
        number, line = lines[index]
        if _APPENDIX.fullmatch(line.text):
            return True
        # the title in an entry may begin like such a heading, but is neither larger nor often at the top of a page
        stands_out = line.height > 1.1 * usual or lines[index - 1][0] != number
        return stands_out and _LETTERED.fullmatch(line.text) is not None

    end = next(filter(starts_appendix, range(start + 1, len(lines))), len(lines))
    remaining: dict[int, list[_Line]] = {number: [] for number in pages}
    for number, line in lines[:start] + lines[end:]:
        remaining[number].append(line)
    return remaining


# ---------------------------------------------------------------- lines to paragraphs


def _pitch(pages: Iterable[Sequence[_Line]]) -> float:
    """The usual distance between lines of one paragraph: the median over the document."""
    pitches = [
        above.bottom - below.bottom
        for lines in pages
        for above, below in pairwise(lines)
        if above.column == below.column and above.bottom > below.bottom
    ]
    return median_low(pitches) if pitches else 0.0


def _paragraphs(lines: Sequence[_Line], pitch: float) -> str:
    if not lines:
        return ""
    edges: dict[int, tuple[float, float]] = {}
    for column in {line.column for line in lines}:
        members = [line for line in lines if line.column == column]
        edges[column] = min(line.left for line in members), max(line.right for line in members)
    paragraphs = [lines[0].text]
    for above, line in pairwise(lines):
        if _starts_paragraph(above, line, pitch, edges[line.column], edges[above.column]):
            paragraphs.append(line.text)
        else:
            paragraphs[-1] = _join(paragraphs[-1], line.text)
    return "\n\n".join(paragraphs)


_BULLETS = "•▪◦‣∙"


def _starts_paragraph(
    above: _Line, line: _Line, pitch: float, edges: tuple[float, float], edges_above: tuple[float, float]
) -> bool:
    if abs(above.height - line.height) > 0.15 * max(above.height, line.height):
        return True
    ended = above.text.rstrip("\"'”’)]").endswith((".", "!", "?", ":"))
    if above.column != line.column or above.bottom < line.bottom:
        return ended or not (line.text[0].islower() or above.text.endswith("-"))
    if above.bottom - line.bottom > 1.3 * pitch or line.text[0] in _BULLETS:
        return True
    indent, indent_above = line.left - edges[0], above.left - edges_above[0]
    if indent > 0.6 * line.height and indent_above < 0.3 * line.height and above.text[0] not in _BULLETS:
        return True
    return ended and above.right < edges_above[1] - 0.2 * (edges_above[1] - edges_above[0])


_BROKEN_WORD = re.compile(r"[^\W\d_]{2}[-\u00ad\u2010]$")


def _join(text: str, line: str) -> str:
    """Two lines as one; a hyphen stays where a name (Rogers-Ramanujan) or a letter (q-series) needs it."""
    if text.endswith(("\u00ad", "-", "\u2010")) and text[-2:-1].isalnum():
        if _BROKEN_WORD.search(text) and line[:1].islower():
            return text[:-1] + line
        return text + line
    return f"{text} {line}"
