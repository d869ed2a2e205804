r"""LaTeX papers to records: from the files of a folder or archive to passages, labels and references.

A broken statement costs that statement; a broken paper costs that paper. Everything skipped becomes a Skip.
"""

from __future__ import annotations

import hashlib
import itertools
import posixpath
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from lemmata.errors import InputError, MissingExtra
from lemmata.ingest.dates import find_date
from lemmata.ingest.text import read_pdf
from lemmata.latex.bibliography import read_bib, read_bibliography
from lemmata.latex.clean import Cleaned, Target, clean, join, plain
from lemmata.latex.expand import Definitions, expand, read_definitions, read_environments, structural
from lemmata.latex.mains import confidence, rank_mains
from lemmata.latex.sentences import chunks, cut, join_tiny_sections
from lemmata.latex.source import Flat, decode, flatten, read_argument, read_optional
from lemmata.latex.statements import Statement, Structure, read_kinds, read_structure
from lemmata.latex.targets import read_targets
from lemmata.types import INSERTED, Document, Label, Link, Passage, Reading, Reference, Skip
from lemmata.words import CONNECTING_WORDS

__all__ = [
    "Main",
    "PaperOptions",
    "arxiv_id_of_file",
    "bibliographies_beside",
    "bibliographies_by_folder",
    "is_source_file",
    "read_package_papers",
    "read_paper",
]

_MOST_BIBLIOGRAPHIES = 20  # of one folder
_MOST_FAILURES = 50  # unclosed arguments; each costs a scan to the end of the text


@dataclass(frozen=True, slots=True)
class PaperOptions:
    """How the text of a paper is split into passages."""

    FLAT: ClassVar = True  # its keys belong to the table [ingest]
    CHOICES: ClassVar = {"chunks": ("rest", "all", "none"), "long_statements": ("cut", "drop", "keep")}
    SMALLEST: ClassVar = {"chunk_size": 1, "chunk_overlap": 0, "longest_statement": 1}

    chunks: str = "rest"  # of the prose outside statements and proofs; or "all" of the text, or "none"
    chunk_size: int = 1500  # characters
    chunk_overlap: int = 200  # characters that two neighbouring chunks share
    longest_statement: int = 12_000  # characters of clean text
    long_statements: str = "cut"  # or "drop", or "keep"
    preamble: str = ""  # path of a LaTeX file with definitions that every paper uses


class Main(NamedTuple):
    """The main file, and how it was chosen."""

    path: str
    confidence: float = 1.0
    runners_up: tuple[str, ...] = ()


_SOURCE_SUFFIXES = (".tex", ".ltx", ".texx", ".bib", ".bbl", ".sty", ".cls", ".def", ".bbx", ".txt", "")


def is_source_file(name: str) -> bool:
    """Whether a file of a package can contribute text; figures and junk cannot."""
    parts = name.split("/")
    base = parts[-1]
    if any(part == "__MACOSX" or part.startswith("._") for part in parts) or base == ".DS_Store":
        return False
    if base.lower().startswith("00readme") or re.fullmatch(r"[\w.-]*\.\d+", base):
        return True
    return posixpath.splitext(base)[1].lower() in _SOURCE_SUFFIXES


_ARXIV_FILE = re.compile(
    r"(?:arxiv[-_.]?)?(?:(\d{4}\.\d{4,5})|([a-z-]+(?:\.[A-Z]{2})?)[-_/]?(\d{7}))(?:v\d+)?(?=$|[._-])", re.I
)


def arxiv_id_of_file(file: str) -> str:
    """The arXiv id in a file name (`2004.14974v2.tar.gz`, `math0211159.gz`), else an empty string."""
    match = _ARXIV_FILE.match(posixpath.basename(file))
    if match is None:
        return ""
    return match[1] or f"{match[2].lower()}/{match[3]}"


# ---------------------------------------------------------------- metadata


def _arguments(text: str, command: str) -> list[str]:
    """The braced arguments of all calls of a command, in order."""
    arguments: list[str] = []
    pattern = re.compile(r"\\" + command + r"(?![a-zA-Z])\s*(?:\[[^\]]{0,2000}\])?(?=\s*\{)")
    failures = at = 0
    while failures < _MOST_FAILURES and (call := pattern.search(text, at)):
        argument = read_argument(text, call.end(), 20_000)
        if argument is None:
            failures += 1
            at = call.end()
        else:
            arguments.append(argument[0])
            at = argument[1]
    return arguments


_NOTE = re.compile(
    r"(?:\\protect\s*)?\\(?:(footnotemark)|footnote(?:text)?|thanks|(?:sub)?titlenote|authornote|tnoteref|tnotetext|fnref"
    r"|fntext|corref|cortext|inst|orcid\w*|label)(?![a-zA-Z])"
)


def _without_notes(text: str) -> str:
    """The LaTeX of a title, heading or name without its footnotes, thanks and labels."""
    pieces = []
    at = failures = 0
    while failures < _MOST_FAILURES and (note := _NOTE.search(text, at)):
        pieces.append(text[at : note.start()])
        _, at = read_optional(text, note.end()) or ("", note.end())
        if not note[1]:
            argument = read_argument(text, at, 20_000)
            failures += argument is None
            at = argument[1] if argument else at
    return "".join((*pieces, text[at:]))


def _authors(arguments: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    for argument in arguments:
        argument = re.sub(r"\\textsuperscript\s*\{[^{}]*\}|\$[^$]*\$", "", _without_notes(argument))
        for part in re.split(r"\\and\b|\\And\b|\\AND\b|\\\\|;", argument):
            for name in re.split(r"\s*,\s+(?:and\s+)?|\s+and\s+", plain(part).strip(" ,")):
                if 2 < len(name) < 80 and name not in names and not re.search(r"[\d@]", name):
                    names.append(name)
    return tuple(names[:100])


def _planetmath(head: str) -> tuple[dict[str, Any], list[str]]:
    """Metadata and names of a PlanetMath article; empty for other papers."""
    names = [name.strip() for name in _arguments(head, "pmcanonicalname") if name.strip()]
    if not names:
        return {}, []
    metadata = {
        "name": names[0],
        "type": next(iter(_arguments(head, "pmtype")), ""),
        "defines": [plain(term) for term in _arguments(head, "pmdefines")],
        "synonyms": [plain(term) for term in _arguments(head, "pmsynonym")],
        "related": [name.strip() for name in _arguments(head, "pmrelated")],
        "msc": re.findall(r"\\pmclassification\s*\{msc\}\s*\{\s*([\w-]+)", head),
    }
    return metadata, names


def _read_document(
    flat: Flat, start: int, document: str, main: Main, macros: Definitions
) -> tuple[Document, list[Label]]:
    """The record of the paper, from the text between `start` and its first section, and its names as labels."""
    first_section = re.search(r"\\(?:chapter|section)\*?\s*[\[{]", flat.text[flat.body :])
    head = flat.text[start : flat.body + (first_section.start() if first_section else 30_000)]
    macros_in_force = macros.at(flat.body)

    def clean_arguments(command: str) -> list[str]:
        return [plain(_without_notes(expand(argument, macros_in_force))) for argument in _arguments(head, command)]

    planetmath, names = _planetmath(head)
    titles = [title for title in clean_arguments("pmtitle" if planetmath else "title") if title]
    dates = [date for text in _arguments(head, "pmcreated" if planetmath else "date") if (date := find_date(text))]
    msc = planetmath.get("msc") or re.findall(r"\b\d\d[A-Z-][\dxX]{2}\b", " ".join(_arguments(head, "subjclass")))
    metadata: dict[str, Any] = {"main_file": main.path, "main_confidence": main.confidence}
    if main.runners_up:
        metadata["runners_up"] = list(main.runners_up)
    keywords = [word.strip() for text in clean_arguments("keywords") for word in re.split(r"[,;]", text)]
    if any(keywords):
        metadata["keywords"] = list(filter(None, keywords))
    if planetmath:
        metadata["planetmath"] = planetmath
    if arxiv := arxiv_id_of_file(document):
        metadata["arxiv"] = arxiv
        if not dates and (month := re.match(r"(\d\d)(\d\d)\.", arxiv)) and 1 <= int(month[2]) <= 12:
            dates = [f"20{month[1]}-{month[2]}"]
    record = Document(
        id=document,
        title=titles[-1] if titles else "",
        authors=_authors(_arguments(head, "pmauthor" if planetmath else "author")),
        date=dates[-1] if dates else None,
        categories=tuple(f"msc:{code}" for code in dict.fromkeys(msc)),
        file=main.path,
        metadata=metadata,
        links=tuple(Link("related_to", "name:" + n) for n in planetmath.get("related", ()) if n and n not in names),
    )
    return record, [Label(document, "name:" + name, document) for name in names]


# ---------------------------------------------------------------- bibliography


@lru_cache(maxsize=32)
def _read_bib_cached(text: str) -> dict[str, Reference]:
    return {reference.key: reference for reference in read_bib(text)}


_NOCITE = re.compile(r"\\nocite\s*\{([^{}]*)\}")


class _Bibliography(NamedTuple):
    entries: Mapping[str, Reference]  # by key
    whole: bool  # whether the paper prints all entries, or only the cited ones


def _bibliographies(
    text: str, main: str, read: Callable[[str], str | None], beside: Sequence[str]
) -> Iterator[_Bibliography]:
    """Each `.bib` file that the paper names, its own list, its `.bbl` file; without these, the files `beside` it."""
    names = [name for argument in _arguments(text, "bibliography") for name in argument.split(",")]
    folder = posixpath.dirname(main)
    names = [name.strip() for name in (*names, *_arguments(text, "addbibresource")) if name.strip()]
    names = [name if name.endswith(".bib") else name + ".bib" for name in names]
    paths = [posixpath.normpath(posixpath.join(folder, name)) for name in names]
    inline = re.search(r"\\bibitem|\\bib\s*\{", text)
    printed = [text[inline.start() :] if inline else "", read(posixpath.splitext(main)[0] + ".bbl")]
    contents = [content for path in paths if (content := read(path))]
    if not contents and not any(printed):
        contents = [content for path in beside if (content := read(path))]
    for content in contents:
        yield _Bibliography(_read_bib_cached(content), whole=False)
    for content in filter(None, printed):
        yield _Bibliography({reference.key: reference for reference in read_bibliography(content)}, whole=True)


def _references(
    text: str, main: str, read: Callable[[str], str | None], cited: Iterable[str], beside: Sequence[str] = ()
) -> list[Reference]:
    r"""The entries that the paper prints: its own list, and of `.bib` files those that it cites (all after
    `\nocite{*}`). Where several bibliographies have an entry, later ones only fill its gaps."""
    entries: dict[str, Reference] = {}
    uncited = [key.strip() for keys in _NOCITE.findall(text) for key in keys.split(",")]
    cited_keys = list(dict.fromkeys((*cited, *uncited)))
    for bibliography in _bibliographies(text, main, read, beside):
        whole = bibliography.whole or "*" in uncited
        for key in bibliography.entries if whole else cited_keys:
            if key not in bibliography.entries:
                continue
            new = bibliography.entries[key]
            old = entries.setdefault(key, new)
            names = ("title", "authors", "year", "arxiv", "doi")
            entries[key] = replace(old, **{name: getattr(old, name) or getattr(new, name) for name in names})
    return list(entries.values())


def bibliographies_by_folder(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The `.bib` files of each folder that has some, sorted."""
    folders: dict[str, list[str]] = {}
    for name in sorted(names):
        if name.lower().endswith(".bib"):
            folders.setdefault(posixpath.dirname(name), []).append(name)
    return {folder: tuple(files[:_MOST_BIBLIOGRAPHIES]) for folder, files in folders.items()}


def bibliographies_beside(path: str, by_folder: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The `.bib` files in the folder of a file, else in the nearest folder above it."""
    folder = posixpath.dirname(path)
    while folder and folder not in by_folder:
        folder = posixpath.dirname(folder)
    return by_folder.get(folder, ())


# ---------------------------------------------------------------- passages


@dataclass(slots=True)
class _Paper:
    """The state of one paper while it is read."""

    document: str
    flat: Flat
    macros: Definitions
    structure: Structure
    options: PaperOptions
    skips: list[Skip]
    cited: list[str] = field(default_factory=list)
    spans: list[tuple[int, int, str]] = field(default_factory=list)  # begin, end, id of each passage
    headings: dict[tuple[str, ...], str] = field(default_factory=dict)  # section path: clean text
    targets: Mapping[str, Target] = field(default_factory=dict)  # of the labels
    taken: dict[str, int] = field(default_factory=dict)  # ids of passages, and how often each was wanted

    def skip(self, offset: int, cause: str) -> None:
        self.skips.append(Skip(*self.flat.place(offset), cause))

    def expand(self, begin: int, end: int) -> str:
        return expand(self.flat.text[begin:end], self.macros.at(begin), self.macros.problems)

    def clean(self, source: str, relation: str, separator: str = "\n\n") -> tuple[Cleaned, list[Link]]:
        """Clean text and links of an expanded source; `relation` is that of its `\\ref` commands."""
        result = clean(source, self.targets.get, separator)
        links = []
        for family, key in result.references:
            if family == "cite" and key == "*":
                continue  # \\nocite{*} cites no entry
            if family == "cite":
                self.cited.append(key)
                links.append(Link("cites", key))
            else:
                links.append(Link(relation, "name:" + key if family == "name" else key))
        return result, links

    def title(self, source: str, offset: int) -> str:
        """The clean text of a title."""
        return plain(expand(source, self.macros.at(offset))).rstrip(" ,;:.")

    def section(self, path: Sequence[str], offset: int) -> str:
        """The headings that lead to a section, cleaned."""
        path = tuple(path)
        if path not in self.headings:
            titles = (plain(_without_notes(expand(title, self.macros.at(offset)))) for title in path)
            self.headings[path] = " / ".join(filter(None, titles))
        return self.headings[path]

    def passage(
        self,
        identity: str,
        kind: str,
        span: tuple[int, int],
        content: Cleaned,
        links: Iterable[Link],
        *,
        proof: Cleaned | None = None,
        metadata: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Passage:
        """A passage of this paper; labels inside its span refer to it."""
        begin, end = span
        self.spans.append((begin, end, identity))
        file, first_line = self.flat.place(begin)
        last_file, last_line = self.flat.place(max(begin, end - 1))
        if last_file != file:  # it runs past the end of a file: point at the lines up to there
            last_line = self.flat.texts[self.flat.files.index(file)].count("\n") + 1
        text, text_spans = content.shown()
        shown_proof, proof_spans = proof.shown() if proof else ("", [])
        inserted = {part: spans for part, spans in (("text", text_spans), ("proof", proof_spans)) if spans}
        return Passage(
            id=identity,
            document=self.document,
            kind=kind,
            text=text,
            file=file,
            first_line=first_line,
            last_line=max(first_line, last_line),
            proof=shown_proof,
            metadata={**(metadata or {}), **({INSERTED: inserted} if inserted else {})},
            links=tuple(dict.fromkeys(links)),
            **more,
        )


def _abstracts(paper: _Paper) -> list[Passage]:
    text = paper.flat.text
    spans = list(paper.structure.abstracts)
    if not spans:  # amsppt and revtex also have \abstract{...}
        for command in re.finditer(r"\\abstract(?![a-zA-Z])(?=\s*\{)", text):
            argument = read_argument(text, command.end(), 20_000)
            if argument is not None:
                spans.append((argument[1] - 1 - len(argument[0]), argument[1] - 1))
                paper.structure.apart.append((command.start(), argument[1]))
                paper.structure.apart.sort()
                break
    passages = []
    for number, (begin, end) in enumerate(spans, 1):
        abstract, links = paper.clean(paper.expand(begin, end), "refers_to")
        if abstract.text:
            identity, raw = _unique(f"{paper.document}#abstract-{number}", paper.taken), text[begin:end].strip()
            passages.append(paper.passage(identity, "abstract", (begin, end), abstract, links, raw=raw))
    return passages


def _unique(identity: str, taken: dict[str, int]) -> str:
    """The id, with `~2`, `~3`, ... appended where it is taken; `taken` counts the uses of each id."""
    unique = identity
    while unique in taken:
        taken[identity] += 1
        unique = f"{identity}~{taken[identity]}"
    taken[unique] = 1
    return unique


def _statements(paper: _Paper) -> list[Passage]:
    counts: Counter[str] = Counter()
    passages = []
    for statement in paper.structure.statements:
        counts[statement.kind] += 1
        name = statement.label or f"{statement.kind}-{counts[statement.kind]}"
        passages.append(_statement(paper, statement, f"{paper.document}#{name}"))
    return [passage for passage in passages if passage is not None]


def _statement(paper: _Paper, statement: Statement, identity: str) -> Passage | None:
    end = statement.close
    inner_proofs = [begin for begin, _ in statement.proofs if statement.content <= begin < statement.close]
    if inner_proofs:  # a proof inside the environment is not part of the statement
        end = max(statement.content, paper.flat.text.rfind("\\begin", statement.content, inner_proofs[0]))
    text, links = paper.clean(paper.expand(statement.content, end), "refers_to")
    if not text.text:
        paper.skip(statement.begin, f"{statement.kind} without text")
        return None
    note = clean(expand(statement.note, paper.macros.at(statement.begin)))
    cited = [key for family, key in note.references if family == "cite"]
    paper.cited += cited
    links += [Link("cites", key) for key in cited]
    proofs = []
    for span in statement.proofs:
        proof, proof_links = paper.clean(paper.expand(*span), "proof_uses")
        proofs.append(proof)
        links += proof_links
    longest = paper.options.longest_statement
    length = len(text.text)
    if length > longest and paper.options.long_statements != "keep":
        if paper.options.long_statements == "drop":
            paper.skip(statement.begin, f"{statement.kind} of {length:,} characters dropped")
            return None
        paper.skip(statement.begin, f"{statement.kind} of {length:,} characters cut to {longest:,}")
        text = text.part(0, len(cut(text.text, longest)))
    identity = _unique(identity, paper.taken)
    paper.spans += ((*span, identity) for span in statement.proofs)
    return paper.passage(
        identity,
        statement.kind,
        (statement.begin, statement.end),
        text,
        links,
        title=" ".join(note.text.split()).rstrip(" ,;:"),
        section=paper.section(statement.section, statement.begin),
        raw=paper.flat.text[statement.content : end].strip(),
        proof=join(proofs, "\n\n"),
        confidence=statement.confidence,
        metadata={"environment": statement.environment},
    )


_PARAGRAPH_BREAK = re.compile(r"\n[ \t]*\n\s*")
_LETTERS = re.compile(r"[^\W\d_]{2}")


_TINY = 100  # characters of prose in a section; in real papers shorter ones are remarks between statements
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


class _Paragraph(NamedTuple):
    begin: int  # in the source
    end: int
    content: Cleaned
    links: list[Link]
    terms: list[tuple[int, str]]  # emphasised terms with their offsets in the clean text

    @property
    def text(self) -> str:
        return self.content.text


class _Section(NamedTuple):
    path: tuple[str, ...]  # the headings that lead to it, as in the source
    title: str  # these headings, cleaned
    paragraphs: list[_Paragraph]

    def length(self) -> int:
        return sum(len(paragraph.text) for paragraph in self.paragraphs)


def _prose(paper: _Paper) -> Iterator[tuple[tuple[str, ...], str, list[tuple[int, int]]]]:
    """Each section, its path and heading, with the spans of its text outside statements, proofs and bibliography."""
    structure, text = paper.structure, paper.flat.text
    apart = structure.apart
    if paper.options.chunks == "all":
        statements = {(s.begin, s.end) for s in structure.statements}
        proofs = {span for s in structure.statements for span in s.proofs}
        apart = [a for a in apart if a not in statements and not any(a[0] <= p[0] and p[1] <= a[1] for p in proofs)]
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


def _paragraphs(paper: _Paper, begin: int, end: int) -> list[_Paragraph]:
    """The paragraphs of a span that hold words or formulas."""
    paragraphs = []
    breaks = [match.span() for match in _PARAGRAPH_BREAK.finditer(paper.flat.text, begin, end)]
    starts = [begin, *(high for _, high in breaks)]
    ends = [*(low for low, _ in breaks), end]
    for start, stop in zip(starts, ends, strict=True):
        if start >= stop:
            continue
        source = paper.expand(start, stop)
        content, links = paper.clean(source, "refers_to", " ")
        if _LETTERS.search(content.text) is None and "$" not in content.text:
            continue
        terms = list(_locate(_emphasised_terms(source), content.text))
        paragraphs.append(_Paragraph(start, stop, content, links, terms))
    return paragraphs


def _only_connects(paragraph: _Paragraph) -> bool:
    """Whether a paragraph says nothing but that a statement follows ("We now prove the next lemma.")."""
    if paragraph.links or paragraph.terms or len(paragraph.text) >= 2 * _TINY or "$" in paragraph.text:
        return False
    return all(word.lower() in CONNECTING_WORDS for word in _WORD.findall(paragraph.text))


def _sections(paper: _Paper) -> list[_Section]:
    """The sections with prose; what only connects statements is left out, with one skip for all of it."""
    sections = []
    left_out: list[_Paragraph] = []
    for path, title, spans in _prose(paper):
        paragraphs: list[_Paragraph] = []
        for span in spans:
            between = _paragraphs(paper, *span)
            if paper.structure.statements and all(map(_only_connects, between)):
                left_out += between
            else:
                paragraphs += between
        if paragraphs:
            sections.append(_Section(path, title, paragraphs))
    if left_out:
        number = "a short text" if len(left_out) == 1 else f"{len(left_out):,} short texts"
        cause = f"{number} between statements left out, as {left_out[0].text!r} says nothing by itself"
        paper.skip(left_out[0].begin, cause)
    return sections


def _chunks(paper: _Paper) -> list[Passage]:
    passages: list[Passage] = []
    if paper.options.chunks == "none":
        return passages
    sections = _sections(paper)
    for run in join_tiny_sections([(section.path, section.length()) for section in sections], _TINY):
        passages += _chunks_of(paper, [sections[number] for number in run], len(passages))
    return passages


def _chunks_of(paper: _Paper, sections: Sequence[_Section], number: int) -> list[Passage]:
    """The chunks of sections that are read as one; their headings stand in the text, but for the first and longest."""
    own = max(sections, key=_Section.length)
    paragraphs: list[_Paragraph] = []
    titles: list[str] = []  # of the section of each paragraph
    for section in sections:
        is_own = section is own and not paragraphs
        if not is_own and (heading := section.title.rpartition(" / ")[2]):
            begin = section.paragraphs[0].begin
            paragraphs.append(_Paragraph(begin, begin, Cleaned(heading, []), [], []))
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
        links = [link for place in covered for link in paragraphs[place].links]
        terms = [
            term for place in covered for at, term in paragraphs[place].terms if start <= offsets[place] + at < stop
        ]
        lengths: Counter[str] = Counter()
        for place in covered:
            lengths[titles[place]] += min(stop, offsets[place + 1]) - max(start, offsets[place])
        identity = f"{paper.document}@{number + len(passages) + 1}"
        passage = paper.passage(
            identity,
            "chunk",
            (paragraphs[covered[0]].begin, paragraphs[covered[-1]].end),
            content,
            links,
            section=lengths.most_common(1)[0][0],
            metadata={"terms": terms[:_MOST_TERMS]} if terms else {},
        )
        if paper.options.chunks == "rest":  # else a paragraph lies inside its statement, which labels refer to
            paper.spans.pop()
            paper.spans += ((paragraphs[place].begin, paragraphs[place].end, identity) for place in covered)
        passages.append(passage)
    return passages


_GROUP_CONTENT = r"([^{}]{1,200}+(?:\{[^{}]{0,100}+\}[^{}]{0,100}+){0,5}+)\}"
_EMPHASIS = re.compile(
    r"\\(?:emph|text(?:it|bf|sl)|defn|dfn|defined?|term|df|defi|concept|newterm)\s*\{"
    + _GROUP_CONTENT
    + r"|\{\s*\\(?:it|em|bf|sl|itshape|bfseries|slshape)(?![a-zA-Z])\s*"
    + _GROUP_CONTENT
)
_RUN_IN_HEADING = re.compile(
    r"(?:Proof|Definition|Theorem|Lemma|Proposition|Corollary|Remark|Example|Exercise|Note|Notation|Claim|Case|Step|"
    r"Problem|Solution|Question|Answer|Fact|Warning|Convention|Conjecture|Observation|Acknowledge?ments?|Keywords|Properties|"
    r"Beweis|Satz|Beispiel|Bemerkung|References|Abstract|Introduction)\b"
)
_WITHOUT_TEXT = re.compile(r"(?:\s|\\(?:noindent|item|par|\w+skip)(?![a-zA-Z]))*+")
_MOST_TERMS = 20  # of one chunk
_LONGEST_TERM = 80  # characters
_MOST_WORDS = 6  # a longer term is a sentence


def _emphasised_terms(source: str) -> list[str]:
    """Terms that the author emphasised in prose, cleaned, in order; no sentences, run-in headings or formulas."""
    terms: list[str] = []
    dollars = at = 0
    for match in _EMPHASIS.finditer(source):
        dollars += source.count("$", at, match.start())
        at = match.start()
        if dollars % 2:
            continue  # inside a formula
        term = plain(match[1] or match[2])
        heading = term.endswith((".", ":")) and at < 60 and _WITHOUT_TEXT.fullmatch(source, 0, at)
        term = term.rstrip(" .,;:")
        sentence = len(term) > _LONGEST_TERM or term.count(" ") >= _MOST_WORDS
        if not heading and not sentence and not _RUN_IN_HEADING.match(term) and _LETTERS.search(term):
            terms.append(term)
    return terms


def _locate(terms: Iterable[str], text: str) -> Iterator[tuple[int, str]]:
    """The terms that occur in the clean text, in order, with their offsets."""
    at = failures = 0
    for term in terms:
        place = text.find(term, at)
        if place >= 0:
            yield place, term
            at = place + len(term)
        elif (failures := failures + 1) == _MOST_FAILURES:  # each costs a scan to the end
            return


def _labels(paper: _Paper) -> list[Label]:
    """Each label with the passage that contains it; a label between passages names the next one in its section."""
    spans = sorted(paper.spans)
    starts = [span[0] for span in spans]
    sections = [section.offset for section in paper.structure.sections]
    labels: dict[str, Label] = {}
    for offset, name in paper.structure.labels:
        number = bisect_right(starts, offset)
        nearest = reversed(spans[max(0, number - 8) : number])  # innermost first
        target = next((identity for begin, end, identity in nearest if begin <= offset < end), "")
        if not target and number < len(spans):
            same_section = bisect_right(sections, offset) == bisect_right(sections, starts[number])
            target = spans[number][2] if same_section else ""
        labels.setdefault(name, Label(paper.document, name, target or paper.document))
    return list(labels.values())


_EXTERNAL = re.compile(r"\\externaldocument\s*(?:\[([^\]]{0,200})\])?\s*(?:\[[^\]]{0,2000}\])?\s*\{([^{}]*)\}")


def _prefixes(text: str, document: str) -> dict[str, str]:
    """Prefixes of the labels of other documents (`\\externaldocument`)."""
    folder = posixpath.dirname(document)
    return {
        prefix.strip(): posixpath.normpath(posixpath.join(folder, name.strip()))
        for prefix, name in _EXTERNAL.findall(text)
        if name.strip()
    }


def _without_self_links(passages: Iterable[Passage], labels: Iterable[Label]) -> list[Passage]:
    """The passages without links to labels inside themselves or their own proofs."""
    targets = {label.name: label.target for label in labels}
    return [
        replace(passage, links=tuple(link for link in passage.links if targets.get(link.label) != passage.id))
        if any(targets.get(link.label) == passage.id for link in passage.links)
        else passage
        for passage in passages
    ]


# ---------------------------------------------------------------- papers that are a PDF in a wrapper

_INCLUDED_PDF = re.compile(r"\\includepdf(?:merge)?(?![a-zA-Z])\s*(?:\[[^\]]{0,2000}\])?\s*\{([^{}]*)\}")
_WRAPPER_TEXT = 1000  # characters besides the abstract; a paper with more has text of its own


def _included_pdfs(
    paper: _Paper, main: str, read: Callable[[str], bytes | None], own: Sequence[Passage]
) -> list[Reading]:
    """The PDF files that a paper without much text of its own includes; the others are skips."""
    calls: dict[str, int] = {}  # path: offset
    for call in _INCLUDED_PDF.finditer(paper.flat.text, paper.flat.body):
        for name in call[1].split(",")[: 1 if "merge" not in call[0][:20] else None]:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(main), name.strip()))
            calls.setdefault(path if path.lower().endswith(".pdf") else path + ".pdf", call.start())
    readings: list[Reading] = []
    is_wrapper = sum(len(passage.text) for passage in own if passage.kind != "abstract") < _WRAPPER_TEXT
    options = paper.options
    for path, offset in calls.items():
        if not is_wrapper:
            paper.skip(offset, f"the included {path} is not read, as the paper has text of its own")
            continue
        data = read(path)
        if data is None:
            paper.skip(offset, f"the text is in {path}, which does not exist or is too large")
            continue
        try:
            reading = read_pdf(data, paper.document, path, size=options.chunk_size, overlap=options.chunk_overlap)
        except (InputError, MissingExtra) as error:
            cause = error.cause if isinstance(error, InputError) else error
            paper.skip(offset, f"the text is in {path}: {cause}")
        else:
            paper.skips += reading.skips
            readings.append(reading)
    return readings


# ---------------------------------------------------------------- one paper


def read_paper(
    read: Callable[[str], bytes | None],
    main: Main,
    document: str,
    options: PaperOptions | None = None,
    *,
    preamble: str = "",
    beside: Sequence[str] = (),
) -> Reading:
    """Read one paper; `read` returns the bytes of a path inside its project, or None.

    `preamble` holds definitions that come before those of the paper; `beside` are `.bib` files for a paper that
    names no bibliography. Raises FileNotFoundError when the main file is missing.
    """
    files: dict[str, str] = {}
    texts: dict[str, str | None] = {}

    def read_bytes(path: str) -> bytes | None:
        data = read(path)
        files[path] = "" if data is None else hashlib.sha256(data).hexdigest()
        return data

    def read_text(path: str) -> str | None:
        if path not in texts:
            data = read_bytes(path)
            texts[path] = None if data is None else decode(data)
        return texts[path]

    flat = flatten(read_text, main.path)
    skips = [Skip(*missing) for missing in flat.missing]
    start = 0
    if preamble and flat.text:
        flat, _ = flat.edit([(0, 0, preamble + "\n")])
        start = len(preamble) + 1
    flat, macros, kinds = _prepare(flat)
    structure = read_structure(flat.text, flat.body, kinds)
    paper = _Paper(document, flat, macros, structure, options or PaperOptions(), skips)
    structure.apart += (call.span() for call in _INCLUDED_PDF.finditer(flat.text, flat.body))
    structure.apart.sort()
    paper.targets = read_targets(flat.text, flat.body, structure, paper.title)
    record, names = _read_document(flat, start, document, main, macros)
    passages = [*_abstracts(paper), *_statements(paper), *_chunks(paper)]
    chunk_count = sum(passage.kind == "chunk" for passage in passages)
    for pdf in _included_pdfs(paper, main.path, read_bytes, passages):
        own = pdf.documents[0]
        record = replace(record, title=record.title or own.title, authors=record.authors or own.authors)
        passages += (
            replace(passage, id=f"{document}@{number}") for number, passage in enumerate(pdf.passages, chunk_count + 1)
        )
        chunk_count += len(pdf.passages)
    for offset, problem in structure.problems:
        paper.skip(offset, problem)
    unexpanded = {name: why for name, why in macros.problems.items() if flat.text.find(f"\\{name}", flat.body) >= 0}
    if unexpanded:
        record = replace(record, metadata={**record.metadata, "unexpanded": unexpanded})
    references = _references(flat.text, main.path, read_text, paper.cited, beside)
    prefixes = _prefixes(flat.text, document)
    if not passages:
        skips.append(Skip(main.path, 0, "it contains no text"))
    labels = [*names, *_labels(paper)]
    return Reading(
        documents=[record],
        passages=_without_self_links(passages, labels),
        labels=labels,
        references={document: references} if references else {},
        prefixes={document: prefixes} if prefixes else {},
        skips=skips,
        files=files,
    )


def _prepare(flat: Flat) -> tuple[Flat, Definitions, dict[str, Any]]:
    """Read the definitions, remove them from the body, and expand the macros that carry structure."""
    macros = read_definitions(flat.text)
    environments, environment_spans = read_environments(flat.text)
    kinds = read_kinds(flat.text, environments)
    macros.settle(flat.body)
    edits = sorted((b, e, "") for b, e in {*macros.spans, *environment_spans} if b >= flat.body)
    definition_starts = [begin for begin, _, _ in edits]
    definition_ends = [end for _, end, _ in edits]
    carriers = structural({name: macro for _, state in macros.states for name, macro in state.items()}, kinds)
    if carriers:
        calls = re.compile(r"\\(?:" + "|".join(map(re.escape, carriers)) + r")(?![a-zA-Z@])")
        failures = 0
        for call in calls.finditer(flat.text, flat.body):
            begin = call.start()
            before = bisect_right(definition_starts, begin) - 1
            if before >= 0 and begin < definition_ends[before]:
                continue
            end = _end_of_call(flat.text, call, carriers)
            if end is not None:
                edits.append((begin, end, expand(flat.text[begin:end], carriers, macros.problems)))
            elif (failures := failures + 1) == _MOST_FAILURES:
                break
    if edits:
        disjoint: list[tuple[int, int, str]] = []
        for edit in sorted(edits):
            if not disjoint or edit[0] >= disjoint[-1][1]:
                disjoint.append(edit)
        flat, moved = flat.edit(disjoint)
        macros.entries = [(moved(offset), *rest) for offset, *rest in macros.entries]  # type: ignore[misc]
        macros.settle(flat.body)
    return flat, macros, kinds


def _end_of_call(text: str, call: re.Match[str], macros: Mapping[str, Any]) -> int | None:
    """The end offset of a macro call with its arguments; None where an argument is not closed."""
    end = call.end()
    for _ in range(macros[call[0][1:]].arguments):
        argument = read_argument(text, end)
        if argument is None:
            return None
        end = argument[1]
    return end


# ---------------------------------------------------------------- packages

_COLLECTION = 10  # more main files than this make a collection of papers, not a paper with leftovers


def read_package_papers(
    files: Mapping[str, bytes],
    document: str,
    options: PaperOptions | None = None,
    *,
    single_paper: bool = True,
    preamble: str = "",
    load: Callable[[str], bytes | None] = lambda _: None,
) -> Iterator[Reading]:
    """The papers in an archive: one, with the best main file, or each of a collection.

    Many main files, or main files that include the same preamble (the chapters of a book), make a
    collection, unless the package is known to be a single paper, as those from arXiv are. The documents of
    a collection are named after their paths, below `document` unless that is empty. `load` returns a file of the
    archive that is not among `files`: the PDF that a paper includes.
    """

    def read(path: str) -> bytes | None:
        return load(path) if path not in files and path.lower().endswith(".pdf") else files.get(path)

    bibliographies = bibliographies_by_folder(files)

    def paper(main: Main, identity: str) -> Reading:
        beside = bibliographies_beside(main.path, bibliographies)
        return read_paper(read, main, identity, options, preamble=preamble, beside=beside)

    texts = {name: decode(data) for name, data in files.items()}
    ranked = rank_mains(texts)
    if not ranked:
        yield Reading(skips=[Skip("", 0, "no TeX file in this package")])
        return
    mains = [
        candidate.path
        for candidate in ranked
        if candidate.score >= 3 and re.search(r"\\begin\{document\}|\\documentstyle", texts[candidate.path])
    ]
    declared = ranked[0].score >= 50  # by a file such as 00README
    if not single_paper and not declared and (len(mains) > _COLLECTION or _share_preamble(mains, texts)):
        for path in sorted(mains):
            name = posixpath.splitext(path)[0]
            yield paper(Main(path), f"{document}/{name}" if document else name)
        return
    main = Main(ranked[0].path, confidence(ranked), tuple(candidate.path for candidate in ranked[1:4]))
    yield paper(main, document or posixpath.splitext(main.path)[0])


def _share_preamble(mains: Iterable[str], texts: Mapping[str, str]) -> bool:
    """Whether two main files include the same file in their preambles."""
    heads = (texts[path].partition("\\begin{document}")[0] for path in mains)
    includes = Counter(name for head in heads for name in set(re.findall(r"\\input\s*\{?\s*([\w./-]+)", head)))
    return any(count > 1 for count in includes.values())
