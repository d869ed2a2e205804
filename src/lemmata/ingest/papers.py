r"""LaTeX papers to records: from a folder's files or an archive's members to passages, labels and references.

One broken statement costs that statement; one broken paper costs that paper. Everything left out is a Skip.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from lemmata.latex.bibliography import read_bib, read_bibliography
from lemmata.latex.clean import clean, plain
from lemmata.latex.expand import Definitions, expand, read_definitions, read_environments, structural
from lemmata.latex.mains import confidence, rank_mains
from lemmata.latex.sentences import chunks, cut
from lemmata.latex.source import Flat, decode, flatten, read_argument
from lemmata.latex.statements import Statement, Structure, read_kinds, read_structure
from lemmata.types import Document, Label, Link, Passage, Reading, Reference, Skip

__all__ = ["PaperOptions", "arxiv_name", "is_source_file", "read_package_papers", "read_paper"]


@dataclass(frozen=True, slots=True)
class PaperOptions:
    """What becomes of a paper's text."""

    FLAT: ClassVar = True  # its keys stand in the table of the ingest
    CHOICES: ClassVar = {"chunks": ("rest", "all", "none"), "long_statements": ("cut", "drop", "keep")}
    SMALLEST: ClassVar = {"chunk_size": 1, "chunk_overlap": 0, "longest_statement": 1}

    chunks: str = "rest"  # of the prose outside statements and proofs; or "all" of the text, or "none"
    chunk_size: int = 1500  # characters
    chunk_overlap: int = 200
    longest_statement: int = 12_000  # characters of clean text
    long_statements: str = "cut"  # or "drop", or "keep"


class Main(NamedTuple):
    """How the main file was chosen."""

    path: str
    confidence: float = 1.0
    runners_up: tuple[str, ...] = ()


_TEXT = (".tex", ".ltx", ".texx", ".bib", ".bbl", ".sty", ".cls", ".def", ".bbx", ".txt", "")


def is_source_file(name: str) -> bool:
    """Whether a file of a package can matter to its text; figures and junk can not."""
    parts = name.split("/")
    base = parts[-1]
    if any(part == "__MACOSX" or part.startswith("._") for part in parts) or base == ".DS_Store":
        return False
    if base.lower().startswith("00readme") or base in ("metadata.jsonl", "metadata.csv"):
        return True
    return posixpath.splitext(base)[1].lower() in _TEXT or re.fullmatch(r"[\w.-]*\.\d+", base) is not None


_ARXIV_FILE = re.compile(
    r"(?:arxiv[-_.]?)?(?:(\d{4}\.\d{4,5})|([a-z-]+(?:\.[A-Z]{2})?)[-_/]?(\d{7}))(?:v\d+)?(?=$|[._-])", re.I
)


def arxiv_name(file: str) -> str:
    """The arXiv id that a file name carries (`2004.14974v2.tar.gz`, `math0211159.gz`), else an empty string."""
    found = _ARXIV_FILE.match(posixpath.basename(file))
    if found is None:
        return ""
    return found[1] or f"{found[2].lower()}/{found[3]}"


# ---------------------------------------------------------------- the paper's own words about itself

_MONTHS = "january february march april may june july august september october november december".split()


def iso_date(text: str) -> str | None:
    """An ISO date (or month, or year) found in a short text."""
    if found := re.search(r"\b(\d{4})[-/](\d{1,2})(?:[-/](\d{1,2}))?\b", text):
        year, month, day = found[1], int(found[2]), int(found[3] or 0)
        if 1 <= month <= 12 and day <= 31:
            return f"{year}-{month:02d}" + (f"-{day:02d}" if day else "")
    year_found = re.search(r"\b(1[89]\d\d|20\d\d)\b", text)
    if year_found is None:
        return None
    lowered = text.lower()
    for number, name in enumerate(_MONTHS, 1):
        if re.search(rf"\b{name[:3]}(?:{name[3:]})?\b", lowered):
            day_found = re.search(r"\b(\d{1,2})(?:st|nd|rd|th)?\b(?!\d)", text)
            day = int(day_found[1]) if day_found else 0
            return f"{year_found[1]}-{number:02d}" + (f"-{day:02d}" if 1 <= day <= 31 else "")
    return year_found[1]


def _commands(text: str, name: str) -> list[str]:
    """The braced arguments of all calls of a command, in order."""
    values: list[str] = []
    pattern = re.compile(r"\\" + name + r"(?![a-zA-Z])\s*(?:\[[^\]]{0,2000}\])?(?=\s*\{)")
    failures = at = 0
    while failures < 50 and (found := pattern.search(text, at)):
        argument = read_argument(text, found.end(), 20_000)
        if argument is None:
            failures += 1
            at = found.end()
        else:
            values.append(argument[0])
            at = argument[1]
    return values


def _authors(values: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    for value in values:
        value = re.sub(r"\\(?:thanks|footnote|inst|textsuperscript|orcid\w*)\s*\{[^{}]*\}|\$[^$]*\$", "", value)
        for part in re.split(r"\\and\b|\\And\b|\\AND\b|\\\\|;", value):
            name = plain(part).strip(" ,")
            for one in re.split(r"\s*,\s+(?:and\s+)?|\s+and\s+", name):
                if 2 < len(one) < 80 and one not in names and "@" not in one and not re.search(r"\d", one):
                    names.append(one)
    return tuple(names[:100])


def _planetmath(head: str) -> tuple[dict[str, Any], tuple[Link, ...], list[str]]:
    """Metadata of a PlanetMath article: what it defines, its links to other articles, its names."""
    names = [value.strip() for value in _commands(head, "pmcanonicalname") if value.strip()]
    if not names:
        return {}, (), []
    synonyms = [plain(value) for value in _commands(head, "pmsynonym")]
    data: dict[str, Any] = {
        "name": names[0],
        "type": next(iter(_commands(head, "pmtype")), ""),
        "defines": [plain(value) for value in _commands(head, "pmdefines")],
        "synonyms": synonyms,
        "related": [value.strip() for value in _commands(head, "pmrelated")],
        "msc": re.findall(r"\\pmclassification\s*\{msc\}\s*\{\s*([\w-]+)", head),
    }
    links = tuple(Link("related_to", "name:" + value) for value in data["related"] if value)
    return data, links, names


def _describe(flat: Flat, document: str, main: Main, macros: Definitions) -> tuple[Document, list[Label]]:
    text = flat.text
    first = re.search(r"\\(?:chapter|section)\*?\s*[\[{]", text[flat.body :])
    head = text[: flat.body + (first.start() if first else 30_000)]
    in_force = macros.at(flat.body)

    def cleaned(name: str) -> list[str]:
        return [plain(expand(value, in_force)) for value in _commands(head, name)]

    planetmath, links, names = _planetmath(head)
    titles = [title for title in cleaned("pmtitle" if planetmath else "title") if title]
    dates = [date for value in _commands(head, "pmcreated" if planetmath else "date") if (date := iso_date(value))]
    msc = planetmath.get("msc") or re.findall(r"\b\d\d[A-Z-][\dxX]{2}\b", " ".join(_commands(head, "subjclass")))
    metadata: dict[str, Any] = {"main_file": main.path, "main_confidence": main.confidence}
    if main.runners_up:
        metadata["runners_up"] = list(main.runners_up)
    if keywords := [word.strip() for value in cleaned("keywords") for word in re.split(r"[,;]", value) if word.strip()]:
        metadata["keywords"] = keywords
    if planetmath:
        metadata["planetmath"] = planetmath
    if arxiv := arxiv_name(document):
        metadata["arxiv"] = arxiv
        if not dates and (month := re.match(r"(\d\d)(\d\d)\.", arxiv)) and 1 <= int(month[2]) <= 12:
            dates = [f"20{month[1]}-{month[2]}"]
    record = Document(
        id=document,
        title=titles[-1] if titles else "",
        authors=_authors(_commands(head, "pmauthor" if planetmath else "author")),
        date=dates[-1] if dates else None,
        categories=tuple(f"msc:{code}" for code in dict.fromkeys(msc)),
        file=main.path,
        metadata=metadata,
        links=links,
    )
    return record, [Label(document, "name:" + name, document) for name in names]


# ---------------------------------------------------------------- bibliography


@lru_cache(maxsize=32)
def _read_bib_cached(text: str) -> dict[str, Reference]:
    return {reference.key: reference for reference in read_bib(text)}


def _references(text: str, main: str, read: Callable[[str], str | None], cited: Iterable[str]) -> list[Reference]:
    """The cited entries of the paper's bibliographies: its own, then its `.bbl`, then its `.bib` files."""
    entries: dict[str, Reference] = {}

    def add(found: Mapping[str, Reference]) -> None:
        for key in wanted:
            if key in found:
                old, new = entries.get(key), found[key]
                entries[key] = new if old is None else replace(
                    old,
                    title=old.title or new.title,
                    authors=old.authors or new.authors,
                    year=old.year or new.year,
                    arxiv=old.arxiv or new.arxiv,
                    doi=old.doi or new.doi,
                )  # fmt: skip

    wanted = list(dict.fromkeys(cited))
    folder = posixpath.dirname(main)
    names = [name for value in _commands(text, "bibliography") for name in value.split(",")]
    names += _commands(text, "addbibresource")
    for name in names:
        name = name.strip()
        path = posixpath.normpath(posixpath.join(folder, name))
        content = read(path if name.endswith(".bib") else path + ".bib") if name else None
        if content:
            add(_read_bib_cached(content))
    inline = [text[found.start() :] for found in [re.search(r"\\bibitem|\\bib\s*\{", text)] if found]
    bbl = read(posixpath.splitext(main)[0] + ".bbl")
    for content in [*inline, *([bbl] if bbl else [])]:
        add({reference.key: reference for reference in read_bibliography(content)})
    return list(entries.values())


# ---------------------------------------------------------------- passages


@dataclass(slots=True)
class _Paper:
    """One paper while it is read."""

    document: str
    flat: Flat
    macros: Definitions
    structure: Structure
    options: PaperOptions
    skips: list[Skip]
    cited: list[str] = field(default_factory=list)
    spans: list[tuple[int, int, str]] = field(default_factory=list)  # begin, end, id of each passage
    headings: dict[tuple[str, ...], str] = field(default_factory=dict)  # sections, cleaned

    def skip(self, offset: int, cause: str) -> None:
        self.skips.append(Skip(*self.flat.place(offset), cause))

    def expand(self, begin: int, end: int) -> str:
        return expand(self.flat.text[begin:end], self.macros.at(begin), self.macros.problems)

    def clean(self, source: str, relation: str) -> tuple[str, list[Link]]:
        """Clean text of an expanded source, and its links; bare references carry `relation`."""
        result = clean(source)
        links = []
        for family, key in result.references:
            if family == "cite":
                self.cited.append(key)
                links.append(Link("cites", key))
            else:
                links.append(Link(relation, "name:" + key if family == "name" else key))
        return result.text, links

    def lines(self, begin: int, end: int) -> tuple[str, int, int]:
        file, first = self.flat.place(begin)
        other, last = self.flat.place(max(begin, end - 1))
        if other != file:  # it runs over the end of a file: up to there is true
            last = self.flat.texts[self.flat.files.index(file)].count("\n") + 1
        return file, first, max(first, last)


def _unique(wanted: str, taken: dict[str, int]) -> str:
    """`wanted`, or `wanted~2` and so on when it is taken; `taken` counts how often each was wanted."""
    name = wanted
    while name in taken:
        taken[wanted] += 1
        name = f"{wanted}~{taken[wanted]}"
    taken[name] = 1
    return name


def _statements(paper: _Paper) -> list[Passage]:
    passages = []
    counts: dict[str, int] = {}
    taken: dict[str, int] = {}
    for statement in paper.structure.statements:
        counts[statement.kind] = counts.get(statement.kind, 0) + 1
        name = statement.label or f"{statement.kind}-{counts[statement.kind]}"
        passage = _statement(paper, statement, f"{paper.document}#{name}")
        if passage is not None:
            identity = _unique(passage.id, taken)
            paper.spans.append((statement.begin, statement.end, identity))
            paper.spans += ((begin, end, identity) for begin, end in statement.proofs)
            passages.append(passage if identity == passage.id else replace(passage, id=identity))
    return passages


def _statement(paper: _Paper, statement: Statement, identity: str) -> Passage | None:
    inner = [span for span in statement.proofs if statement.content <= span[0] < statement.close]
    end = statement.close
    if inner:  # a proof inside the statement's own environment is not part of what it says
        end = max(statement.content, paper.flat.text.rfind("\\begin", statement.content, inner[0][0]))
    text, links = paper.clean(paper.expand(statement.content, end), "refers_to")
    if not text:
        paper.skip(statement.begin, f"{statement.kind} without text")
        return None
    note = clean(expand(statement.note, paper.macros.at(statement.begin)))
    links += [Link("cites", key) for family, key in note.references if family == "cite"]
    paper.cited += [key for family, key in note.references if family == "cite"]
    proofs = []
    for span in statement.proofs:
        proof, uses = paper.clean(paper.expand(*span), "proof_uses")
        proofs.append(proof)
        links += uses
    metadata: dict[str, Any] = {"environment": statement.environment}
    most = paper.options.longest_statement
    if len(text) > most and paper.options.long_statements != "keep":
        if paper.options.long_statements == "drop":
            paper.skip(statement.begin, f"{statement.kind} of {len(text):,} characters dropped")
            return None
        paper.skip(statement.begin, f"{statement.kind} of {len(text):,} characters cut to {most:,}")
        text = cut(text, most)
    file, first, last = paper.lines(statement.begin, statement.end)
    return Passage(
        id=identity,
        document=paper.document,
        kind=statement.kind,
        text=text,
        title=" ".join(note.text.split()).rstrip(" ,;:"),
        section=_section(paper, statement.section, statement.begin),
        raw=paper.flat.text[statement.content : end].strip(),
        proof="\n\n".join(filter(None, proofs)),
        file=file,
        first_line=first,
        last_line=last,
        confidence=statement.confidence,
        metadata=metadata,
        links=tuple(dict.fromkeys(links)),
    )


def _section(paper: _Paper, path: Sequence[str], offset: int) -> str:
    path = tuple(path)
    if path not in paper.headings:
        titles = (plain(expand(title, paper.macros.at(offset))) for title in path)
        paper.headings[path] = " / ".join(filter(None, titles))
    return paper.headings[path]


_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_LETTERS = re.compile(r"[^\W\d_]{2}")


def _paragraphs(text: str, begin: int, end: int) -> Iterable[tuple[int, int]]:
    at = begin
    for found in _PARAGRAPH.finditer(text, begin, end):
        if found.start() > at:
            yield at, found.start()
        at = found.end()
    if end > at:
        yield at, end


def _prose(paper: _Paper) -> Iterable[tuple[str, list[tuple[int, int]]]]:
    """Sections with the spans of their text that no statement, proof or bibliography holds."""
    structure, text = paper.structure, paper.flat.text
    apart = structure.apart
    if paper.options.chunks == "all":
        inside = {(s.begin, s.end) for s in structure.statements}
        proofs = {span for s in structure.statements for span in s.proofs}
        apart = [a for a in apart if a not in inside and not any(a[0] <= p[0] and p[1] <= a[1] for p in proofs)]
    borders = [(paper.flat.body, paper.flat.body, "")]
    borders += [(s.offset, s.end, _section(paper, s.path, s.offset)) for s in structure.sections]
    number = 0
    for index, (_, begin, title) in enumerate(borders):
        end = borders[index + 1][0] if index + 1 < len(borders) else len(text)
        spans = []
        at = begin
        while number < len(apart) and apart[number][0] < end:
            low, high = apart[number]
            if low > at:
                spans.append((at, low))
            at = max(at, high)
            number += 1
        if at < end:
            spans.append((at, end))
        yield title, spans


def _chunks(paper: _Paper) -> list[Passage]:
    passages: list[Passage] = []
    if paper.options.chunks == "none":
        return passages
    for title, spans in _prose(paper):
        parts: list[str] = []
        starts: list[int] = []  # of each paragraph in the joined text
        sources: list[tuple[int, int, list[Link]]] = []
        terms: list[str] = []  # emphasised
        places: list[int] = []  # of each term in the joined text
        length = 0
        for span in spans:
            for begin, end in _paragraphs(paper.flat.text, *span):
                source = paper.expand(begin, end)
                text, links = paper.clean(source, "refers_to")
                if _LETTERS.search(text) is None and "$" not in text:
                    continue
                text = " ".join(text.split())
                starts.append(length)
                parts.append(text)
                sources.append((begin, end, links))
                for place, term in _placed(emphasised(source), text):
                    places.append(length + place)
                    terms.append(term)
                length += len(text) + 2
        joined = "\n\n".join(parts)
        for start, stop in chunks(joined, paper.options.chunk_size, paper.options.chunk_overlap):
            first = max(0, bisect_right(starts, start) - 1)
            last = max(first, bisect_left(starts, stop) - 1)
            begin, end = sources[first][0], sources[last][1]
            identity = f"{paper.document}@{len(passages) + 1}"
            file, first_line, last_line = paper.lines(begin, end)
            text = joined[start:stop]
            if _LETTERS.search(text) is None:
                continue
            paper.spans.append((begin, end, identity))
            links = [link for part in sources[first : last + 1] for link in part[2]]
            inside = terms[bisect_left(places, start) : bisect_left(places, stop)][:_MOST_TERMS]
            passages.append(
                Passage(
                    id=identity,
                    document=paper.document,
                    kind="chunk",
                    text=text,
                    section=title,
                    file=file,
                    first_line=first_line,
                    last_line=last_line,
                    metadata={"terms": inside} if inside else {},
                    links=tuple(dict.fromkeys(links)),
                )
            )
    return passages


_INSIDE = r"([^{}]{1,200}+(?:\{[^{}]{0,100}+\}[^{}]{0,100}+){0,5}+)\}"
_EMPHASIS = re.compile(
    r"\\(?:emph|text(?:it|bf|sl)|defn|dfn|defined?|term|df|defi|concept|newterm)\s*\{"
    + _INSIDE
    + r"|\{\s*\\(?:it|em|bf|sl|itshape|bfseries|slshape)(?![a-zA-Z])\s*"
    + _INSIDE
)
_RUN_IN = re.compile(
    r"(?:Proof|Definition|Theorem|Lemma|Proposition|Corollary|Remark|Example|Exercise|Note|Notation|Claim|Case|Step|"
    r"Problem|Solution|Question|Answer|Fact|Warning|Convention|Conjecture|Observation|Acknowledge?ments?|Keywords|Properties|"
    r"Beweis|Satz|Beispiel|Bemerkung|References|Abstract|Introduction)\b"
)
_NOTHING = re.compile(r"(?:\s|\\(?:noindent|item|par|\w+skip)(?![a-zA-Z]))*+")  # that is read
_MOST_TERMS = 20  # of one chunk
_LONGEST_TERM = 80  # characters
_MOST_WORDS = 6  # a longer one is a sentence


def emphasised(source: str) -> list[str]:
    """Terms that the author emphasised in prose, cleaned, in order; no sentences, no run-in headings, no formulas."""
    terms: list[str] = []
    dollars = at = 0
    for found in _EMPHASIS.finditer(source):
        dollars += source.count("$", at, found.start())
        at = found.start()
        if dollars % 2:
            continue  # within a formula
        term = plain(found[1] or found[2])
        heading = term.endswith((".", ":")) and at < 60 and _NOTHING.fullmatch(source, 0, at)
        term = term.rstrip(" .,;:")
        words = term.count(" ") + 1
        if heading or len(term) > _LONGEST_TERM or words > _MOST_WORDS or _RUN_IN.match(term):
            continue
        if _LETTERS.search(term):
            terms.append(term)
    return terms


def _placed(terms: Iterable[str], text: str) -> Iterable[tuple[int, str]]:
    """Terms with their places in the cleaned text, in order; those that it does not hold are left out."""
    at = failures = 0
    for term in terms:
        place = text.find(term, at)
        if place >= 0:
            yield place, term
            at = place + len(term)
        elif (failures := failures + 1) == 50:  # each costs a look to the end
            return


def _abstracts(paper: _Paper) -> list[Passage]:
    spans = list(paper.structure.abstracts)
    if not spans:  # amsppt and revtex also know \abstract{...}
        for found in re.finditer(r"\\abstract(?![a-zA-Z])(?=\s*\{)", paper.flat.text):
            argument = read_argument(paper.flat.text, found.end(), 20_000)
            if argument is not None:
                spans.append((argument[1] - 1 - len(argument[0]), argument[1] - 1))
                paper.structure.apart.append((found.start(), argument[1]))
                paper.structure.apart.sort()
                break
    passages = []
    for number, (begin, end) in enumerate(spans, 1):
        text, links = paper.clean(paper.expand(begin, end), "refers_to")
        if text:
            file, first, last = paper.lines(begin, end)
            identity = f"{paper.document}#abstract-{number}"
            paper.spans.append((begin, end, identity))
            passages.append(
                Passage(
                    id=identity,
                    document=paper.document,
                    kind="abstract",
                    text=text,
                    raw=paper.flat.text[begin:end].strip(),
                    file=file,
                    first_line=first,
                    last_line=last,
                    links=tuple(dict.fromkeys(links)),
                )
            )
    return passages


def _labels(paper: _Paper) -> list[Label]:
    """Each label with the passage in which it stands; one between passages names the next in its section."""
    spans = sorted(paper.spans)
    starts = [span[0] for span in spans]
    sections = [section.offset for section in paper.structure.sections]
    labels: dict[str, Label] = {}
    for offset, name in paper.structure.labels:
        number = bisect_right(starts, offset)
        target = ""
        for begin, end, identity in reversed(spans[max(0, number - 8) : number]):  # innermost first
            if begin <= offset < end:
                target = identity
                break
        if not target and number < len(spans):
            same = bisect_right(sections, offset) == bisect_right(sections, spans[number][0])
            target = spans[number][2] if same else ""
        labels.setdefault(name, Label(paper.document, name, target or paper.document))
    return list(labels.values())


_EXTERNAL = re.compile(r"\\externaldocument\s*(?:\[([^\]]{0,200})\])?\s*(?:\[[^\]]{0,2000}\])?\s*\{([^{}]*)\}")


def _prefixes(text: str, document: str) -> dict[str, str]:
    folder = posixpath.dirname(document)
    return {
        prefix.strip(): posixpath.normpath(posixpath.join(folder, name.strip()))
        for prefix, name in _EXTERNAL.findall(text)
        if name.strip()
    }


# ---------------------------------------------------------------- one paper


def read_paper(
    read: Callable[[str], bytes | None], main: Main, document: str, options: PaperOptions | None = None
) -> Reading:
    """Everything that one paper says; `read` gives the bytes of a path inside its project, or None.

    Raises FileNotFoundError when the main file is not there.
    """
    options = options or PaperOptions()
    files: dict[str, str] = {}
    texts: dict[str, str | None] = {}

    def read_text(path: str) -> str | None:
        if path not in texts:
            data = read(path)
            files[path] = "" if data is None else hashlib.sha256(data).hexdigest()
            texts[path] = None if data is None else decode(data)
        return texts[path]

    flat = flatten(read_text, main.path)
    skips = [Skip(*missing) for missing in flat.missing]
    flat, macros, kinds = _prepare(flat)
    structure = read_structure(flat.text, flat.body, kinds)
    paper = _Paper(document, flat, macros, structure, options, skips)
    record, labels = _describe(flat, document, main, macros)
    passages = [*_abstracts(paper), *_statements(paper), *_chunks(paper)]
    for offset, problem in structure.problems:
        paper.skip(offset, problem)
    used = {name: why for name, why in macros.problems.items() if flat.text.find(f"\\{name}", flat.body) >= 0}
    if used:
        record = replace(record, metadata={**record.metadata, "unexpanded": used})
    references = _references(flat.text, main.path, read_text, paper.cited)
    if not passages:
        skips.append(Skip(main.path, 0, "no text was found in it"))
    return Reading(
        documents=[record],
        passages=passages,
        labels=[*labels, *_labels(paper)],
        references={document: references} if references else {},
        prefixes={document: prefixes} if (prefixes := _prefixes(flat.text, document)) else {},
        skips=skips,
        files=files,
    )


def _prepare(flat: Flat) -> tuple[Flat, Definitions, dict[str, Any]]:
    """Read the definitions, take them out of the body, and replace the macros that carry structure."""
    macros = read_definitions(flat.text)
    environments, environment_spans = read_environments(flat.text)
    kinds = read_kinds(flat.text, environments)
    macros.settle(flat.body)
    edits = [(b, e, "") for b, e in {*macros.spans, *environment_spans} if b >= flat.body]
    everywhere = {name: macro for _, state in macros.states for name, macro in state.items()}
    carriers = structural(everywhere, kinds)
    if carriers:
        names = "|".join(map(re.escape, carriers))
        defined = sorted(edits)
        failures = 0  # calls whose arguments never end may cost a long look, but not often
        for found in re.compile(r"\\(?:" + names + r")(?![a-zA-Z@])").finditer(flat.text, flat.body):
            begin = found.start()
            before = bisect_right(defined, begin, key=lambda edit: edit[0]) - 1
            if before >= 0 and begin < defined[before][1]:
                continue
            end = _call(flat.text, begin, found.end(), carriers)
            if end >= 0:
                edits.append((begin, end, expand(flat.text[begin:end], carriers, macros.problems)))
            elif (failures := failures + 1) == 50:
                break
    if edits:
        apart: list[tuple[int, int, str]] = []
        for edit in sorted(edits):
            if not apart or edit[0] >= apart[-1][1]:
                apart.append(edit)
        flat, moved = flat.edit(apart)
        macros.entries = [(moved(offset), *rest) for offset, *rest in macros.entries]  # type: ignore[misc]
        macros.settle(flat.body)
    return flat, macros, kinds


def _call(text: str, begin: int, end: int, macros: Mapping[str, Any]) -> int:
    """The offset behind a macro call with its arguments, -1 where those do not end."""
    for _ in range(macros[text[begin + 1 : end]].arguments):
        argument = read_argument(text, end)
        if argument is None:
            return -1
        end = argument[1]
    return end


# ---------------------------------------------------------------- packages

_COLLECTION = 10  # more main files than this make a collection of papers, not a paper with leftovers


def read_package_papers(
    files: Mapping[str, bytes], document: str, options: PaperOptions | None = None, *, whole: bool = True
) -> Iterable[Reading]:
    """The papers in an archive's members: one, with the best main file, or each of a collection.

    A collection is recognised by many main files, or by main files that share an included preamble (the
    chapters of a book); its documents are named by their paths, below `document` unless that is empty.
    `whole` says that the package is known to be one paper, as those from arXiv are.
    """
    texts = {name: decode(data) for name, data in files.items()}
    ranked = rank_mains(texts)
    if not ranked:
        yield Reading(skips=[Skip("", 0, "no TeX file in this package")])
        return
    mains = [candidate for candidate in ranked if candidate.score >= 3 and _starts(texts[candidate.path])]
    hinted = ranked[0].score >= 50
    if not whole and not hinted and len(mains) > 1 and (len(mains) > _COLLECTION or _shared_preamble(mains, texts)):
        for candidate in sorted(mains, key=lambda c: c.path):
            name = posixpath.splitext(candidate.path)[0]
            identity = f"{document}/{name}" if document else name
            yield read_paper(files.get, Main(candidate.path), identity, options)
        return
    main = Main(ranked[0].path, confidence(ranked), tuple(c.path for c in ranked[1:4]))
    name = document or posixpath.splitext(main.path)[0]
    yield read_paper(files.get, main, name, options)


def _starts(text: str) -> bool:
    return "\\begin{document}" in text or "\\documentstyle" in text


def _shared_preamble(mains: Sequence[Any], texts: Mapping[str, str]) -> bool:
    seen: set[str] = set()
    for candidate in mains:
        text = texts[candidate.path]
        head = text[: text.find("\\begin{document}")]
        for name in set(re.findall(r"\\input\s*\{?\s*([\w./-]+)", head)):
            if name in seen:
                return True
            seen.add(name)
    return False
