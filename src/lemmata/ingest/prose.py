"""The prose of a paper, outside its statements and proofs, as chunks with the terms that the author emphasised."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from lemmata.core.types import Link, Passage
from lemmata.core.words import CONNECTING_WORDS
from lemmata.corpus.contents import CHAPTER
from lemmata.ingest.paper_state import PaperState
from lemmata.latex.cleaned import Cleaned, join
from lemmata.latex.commands import MOST_FAILURES
from lemmata.latex.lists import Lists
from lemmata.latex.marked import read_marks
from lemmata.latex.sentences import chunks, join_tiny_sections
from lemmata.latex.statements import innermost

_PARAGRAPH_BREAK = re.compile(r"\n[ \t]*\n\s*")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_TINY = 100  # characters of prose in a section; in real papers shorter ones are remarks between statements
_LONGEST_REPEATED = 200  # characters; a longer paragraph is kept each time
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_MOST_TERMS = 20  # of one chunk


class _Paragraph(NamedTuple):
    begin: int  # in the source
    end: int
    content: Cleaned
    links: list[tuple[int, int, Link]]  # with the offsets in the clean text between which each stands
    terms: list[tuple[int, str]]  # emphasised terms with their offsets in the clean text
    indexed: list[list[str]]  # the `index` of `read_marks`

    @property
    def text(self) -> str:
        return self.content.text


class _Section(NamedTuple):
    path: tuple[str, ...]  # the headings that lead to it, as in the source
    title: str  # these headings, cleaned
    paragraphs: list[_Paragraph]
    chapter: int  # parts and chapters that begin before its text

    def length(self) -> int:
        return sum(len(paragraph.text) for paragraph in self.paragraphs)


def _prose(paper: PaperState) -> Iterator[tuple[tuple[str, ...], str, list[tuple[int, int]]]]:
    """For each section its path, its heading, and the spans of its text outside statements, proofs, bibliography."""
    structure, text = paper.structure, paper.flat.text
    apart = structure.apart
    borders: list[tuple[int, int, tuple[str, ...]]] = [(paper.flat.body, paper.flat.body, ())]
    borders += [(s.offset, s.end, tuple(s.path)) for s in structure.sections]
    number = 0
    for index, (offset, at, path) in enumerate(borders):
        end = borders[index + 1][0] if index + 1 < len(borders) else len(text)
        spans = []
        while number < len(apart) and apart[number][0] < end:
            low, high = apart[number]
            if low > at:
                spans.append((at, low))
            at = max(at, high)
            number += 1
        if at < end:
            spans.append((at, end))
        yield path, paper.section(path, offset) if path else "", spans


def _paragraphs(paper: PaperState, begin: int, end: int, is_unbroken: Callable[[int], bool | None]) -> list[_Paragraph]:
    """The paragraphs of a span that hold words or formulas; no empty line that `is_unbroken` ends one."""
    paragraphs = []
    index: list[list[str]] = []  # of what stands alone before a paragraph
    lists = Lists(paper.list_styles)
    breaks = [
        match.span() for match in _PARAGRAPH_BREAK.finditer(paper.text, begin, end) if not is_unbroken(match.start())
    ]
    starts = [begin, *(high for _, high in breaks)]
    ends = [*(low for low, _ in breaks), end]
    for start, stop in zip(starts, ends, strict=True):
        if start >= stop:
            continue
        source = paper.expand(start, stop)
        content, links = paper.clean(source, "refers_to", "\n\n", lists)
        marks = read_marks(source, content.text)
        index += marks.get("index", ())
        if _LETTERS.search(content.text) is None and "$" not in content.text:
            continue
        terms = list(_locate(marks.get("terms", ()), content.text))
        pairs = zip(content.references, content.places, strict=True)
        places = [place for reference, place in pairs if reference != ("cite", "*")]  # which is no link
        placed = [(*place, link) for place, link in zip(places, links, strict=True)]
        paragraphs.append(_Paragraph(start, stop, content, placed, terms, index))
        index = []
    return paragraphs


def _only_connects(paragraph: _Paragraph) -> bool:
    """Whether a paragraph says nothing but that a statement follows ("We now prove the next lemma.")."""
    if paragraph.links or paragraph.terms or len(paragraph.text) >= 2 * _TINY or "$" in paragraph.text:
        return False
    return all(word.lower() in CONNECTING_WORDS for word in _WORD.findall(paragraph.text))


def _sections(paper: PaperState) -> list[_Section]:
    """The sections that have prose, with one skip for what is left out.

    That is text that only connects statements, and short paragraphs that stood in the paper before.
    """
    sections = []
    left_out: list[_Paragraph] = []
    repeated: list[_Paragraph] = []
    seen: set[tuple[str, tuple[Link, ...]]] = set()
    is_unbroken = innermost((*span, True) for span in paper.structure.verbatim)
    chapters = [section.offset for section in paper.structure.sections if section.level <= CHAPTER]
    for path, title, spans in _prose(paper):
        paragraphs: list[_Paragraph] = []
        for span in spans:
            between = _paragraphs(paper, *span, is_unbroken)
            if paper.structure.statements and all(map(_only_connects, between)):
                left_out += between
                continue
            for paragraph in between:
                key = (
                    paragraph.text,
                    tuple(link for *_, link in paragraph.links),
                )  # the same words may refer to something else
                is_repeated = len(paragraph.text) < _LONGEST_REPEATED and key in seen
                (repeated if is_repeated else paragraphs).append(paragraph)
                seen.add(key)
        if paragraphs:
            sections.append(_Section(path, title, paragraphs, bisect_right(chapters, paragraphs[0].begin)))
    causes = []
    if left_out:
        number = "a short text" if len(left_out) == 1 else f"{len(left_out):,} short texts"
        causes.append(f"{number} between statements left out, as {left_out[0].text!r} says nothing by itself")
    if repeated:
        number = "a repeated short text" if len(repeated) == 1 else f"{len(repeated):,} repeated short texts"
        causes.append(f"{number} left out, first {repeated[0].text!r}")
    if causes:
        paper.skip((left_out or repeated)[0].begin, "; ".join(causes))
    return sections


def read_chunks(paper: PaperState) -> list[Passage]:
    """The chunks of a paper, with tiny sections joined to their neighbours in the same chapter."""
    passages: list[Passage] = []
    for _, chapter in itertools.groupby(_sections(paper), key=lambda section: section.chapter):
        sections = list(chapter)
        for run in join_tiny_sections([(section.path, section.length()) for section in sections], _TINY):
            passages += _chunks_of(paper, sections[run.start : run.stop], len(passages))
    return passages


def _chunks_of(paper: PaperState, sections: Sequence[_Section], number: int) -> list[Passage]:
    """The chunks of sections that are joined. Their headings stand in the text.

    Only the first heading is left out, if its section is the longest: it is the `section` of the passage.
    """
    own = max(sections, key=_Section.length)
    paragraphs: list[_Paragraph] = []
    titles: list[str] = []  # of the section of each paragraph
    for section in sections:
        is_own = section is own and not paragraphs
        if not is_own and (heading := section.title.rpartition(" / ")[2]):
            begin = section.paragraphs[0].begin
            paragraphs.append(_Paragraph(begin, begin, Cleaned(heading, []), [], [], []))
            titles.append(section.title)
        paragraphs += section.paragraphs
        titles += [section.title] * len(section.paragraphs)
    offsets = [0, *itertools.accumulate(len(paragraph.text) + 2 for paragraph in paragraphs)]
    prose = join((paragraph.content for paragraph in paragraphs), "\n\n")
    passages: list[Passage] = []
    for start, stop in chunks(prose.text, paper.options.chunk_size, paper.options.chunk_overlap):
        content = prose.part(start, stop)
        if _LETTERS.search(content.text) is None:
            continue
        first = max(0, bisect_right(offsets, start) - 1)
        last = max(first, bisect_left(offsets, stop) - 1)
        covered = range(first, min(last + 1, len(paragraphs)))
        links = [
            link
            for place in covered
            for low, high, link in paragraphs[place].links
            if start <= offsets[place] + high and offsets[place] + low <= stop
        ]
        terms = [
            term for place in covered for at, term in paragraphs[place].terms if start <= offsets[place] + at < stop
        ]
        index = [names for place in covered for names in paragraphs[place].indexed]
        marks = {"terms": terms[:_MOST_TERMS], "index": index[:_MOST_TERMS]}
        lengths: Counter[str] = Counter()
        for place in covered:
            lengths[titles[place]] += min(stop, offsets[place + 1]) - max(start, offsets[place])
        heading = lengths.most_common(1)[0][0]
        identity = f"{paper.document}@{number + len(passages) + 1}"
        passage = paper.passage(
            identity,
            "chunk",
            (paragraphs[covered[0]].begin, paragraphs[covered[-1]].end),
            content,
            links,
            section=heading,
            heading_at=next(paragraphs[place].begin for place in covered if titles[place] == heading),
            metadata={key: values for key, values in marks.items() if values},
        )
        paper.spans.pop()
        paper.spans += ((paragraphs[place].begin, paragraphs[place].end, identity) for place in covered)
        passages.append(passage)
    return passages


def _locate(terms: Iterable[str], text: str) -> Iterator[tuple[int, str]]:
    """The terms that occur in the clean text, in order, with their offsets."""
    at = failures = 0
    for term in terms:
        place = text.find(term, at)
        if place >= 0:
            yield place, term
            at = place + len(term)
        elif (failures := failures + 1) == MOST_FAILURES:  # each costs a scan to the end
            return
