"""Title, authors, date and other metadata of a paper, from its first page and its file name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Any

from lemmata.core.types import Document, Label, Link
from lemmata.ingest.dates import find_date
from lemmata.latex.clean import plain
from lemmata.latex.commands import arguments_of, without_notes
from lemmata.latex.expand import Definitions, expand
from lemmata.latex.mains import Main
from lemmata.latex.source import Flat, read_argument

_ARXIV_FILE = re.compile(
    r"(?:arxiv[-_.]?)?(?:(\d{4}\.\d{4,5})|([a-z-]+(?:\.[A-Z]{2})?)[-_/]?(\d{7}))(?:v\d+)?(?=$|[._-])", re.I
)


def arxiv_id_of_file(file: str) -> str:
    """The arXiv id in a file name (`2004.14974v2.tar.gz`, `math0211159.gz`), else an empty string."""
    match = _ARXIV_FILE.match(posixpath.basename(file))
    if match is None:
        return ""
    return match[1] or f"{match[2].lower()}/{match[3]}"


_AND = re.compile(r"\\(?:and|And|AND)(?![a-zA-Z])|;")
_LINE_END = re.compile(r"(\\\\\*?[ \t]*(?:\[[^\]]{0,20}\])?)")
_MARK = re.compile(r"\\(?:textsuperscript|[tT]hanks|footnotemark|inst|fnref)(?![a-zA-Z])|\$\s*\{?\s*\}?\s*\^")
_RAISED = re.compile(r"\\textsuperscript\s*\{[^{}]*\}|\$[^$]*\$|\\(?:vspace|hspace)\*?\s*\{[^{}]*\}")
_BESIDE_NAMES = re.compile(
    r"\\(?:small|footnotesize|scriptsize|tiny|emph|textit|textsl|itshape|slshape|it|sl|texttt|ttfamily|tt|url|href|email)"
    r"(?![a-zA-Z])"
)
_PARTS = re.compile(r"\s*,\s+(?:and\s+)?|\s+(?:and|und|et)\s+")
_NO_NAME = re.compile(
    r"[\d@{}\\$_/:*^]|\b(?:univ|instit|depart|dept|school|college|laborator|labs?\b|cent(?:er|re|rum)\b|facult|fakult|hochschul"
    r"|academ|akadem|hospital|foundation|professor|prof\b|scientist|analyst|engineer|educator|lecturer|student|fellow\b"
    r"|director|manager|research|editor|edited|technolog|sciences?\b|mathemati|physics|statistics|comput|inc\b|ltd\b|gmbh"
    r"|corporation|company|polytechn|école|ecole|ministry|museum|press\b|street|avenue|road\b|straße|usa\b|u\.s\.a)",
    re.I,
)
_NAME = re.compile(
    r"(?:(?:[^\W\d_a-z][\w'’.-]*|v[ao]n|de[rnl]?|d[aiu]|dos|l[ae]|te[rn]|zu[rm]?|bin|ibn|al|el|y)\s+){1,4}[^\W\d_a-z][\w'’-]+"
    r"(?:,? (?:Jr|Sr|III?)\.?)?"
)


def _authors(arguments: Sequence[str]) -> tuple[str, ...]:
    r"""The names in the arguments of `\author`: the first line of each, and later lines where they are plainly names.

    Later lines of an author are affiliations, unless they are set apart by a gap or bear marks as the first one does.
    """
    names: dict[str, None] = {}
    for block in (block for argument in arguments for block in _AND.split(argument)):
        pieces = _LINE_END.split(block)
        first = ""
        for gap, line in zip(["", *pieces[1::2]], pieces[::2], strict=True):
            if not plain(without_notes(line)):
                continue
            is_apart = "[" in gap or bool(_MARK.search(first) and _MARK.search(line))
            is_styled = _BESIDE_NAMES.search(line) is not None
            if not first or (is_apart and not is_styled and not _MARK.match(line.strip())):
                names |= dict.fromkeys(_names_in(line, is_sure=not first))
            first = first or line
    return tuple(names)[:100]


def _names_in(line: str, *, is_sure: bool) -> list[str]:
    """The names in a line, up to the first affiliation; with `is_sure` also one that does not look like a name."""
    names: list[str] = []
    for group in re.split(r"\\q?quad(?![a-zA-Z])", _RAISED.sub("", without_notes(line))):
        for part in _PARTS.split(plain(group).strip(" ,")):
            name = part.strip(" ,")
            is_name = _NAME.fullmatch(name) or (is_sure and not any(" " in other for other in names))
            if _NO_NAME.search(name):
                break
            names += [name] if is_name and 2 < len(name) < 80 else []
    return names


_TITLE_PAGE = re.compile(  # also a macro of the paper's own: \thetitlepage
    r"\\begin\s*\{titlepage\}(.{0,20000}?)\\end\s*\{titlepage\}|\\([a-zA-Z@]+titlepage)(?![a-zA-Z@{])", re.DOTALL
)
_SIZE = re.compile(r"(\{\s*)?(?:\\[a-zA-Z]+\s*)??\\(Huge|huge|LARGE|Large)(?![a-zA-Z])")
_END_OF_LINES = re.compile(
    r"\n[ \t]*\n|\\(?:par|vspace\*?|vfill|vskip|end|begin|rule|Huge|huge|LARGE|[lL]arge|normalsize|small)(?![a-zA-Z])"
)
_LONGEST_TITLE = 300  # characters


def _title_by_hand(text: str) -> str:
    r"""What a title page sets in the largest letters; empty where none does, and for what is too long for a title."""
    best: tuple[int, str] = 9, ""
    for size in _SIZE.finditer(text):
        rank = ("Huge", "huge", "LARGE", "Large").index(size[2])
        group = read_argument(text, size.start(1), 2_000) if size[1] else None
        line = group[0] if group else _END_OF_LINES.split(text[size.end() : size.end() + 2_000].lstrip())[0]
        title = plain(without_notes(line)).strip(" .,")
        if rank < best[0] and 3 <= len(title) <= _LONGEST_TITLE and re.search(r"[^\W\d_]{2}", title):
            best = rank, title
    return best[1]


def _planetmath(head: str) -> tuple[dict[str, Any], list[str]]:
    """Metadata and names of a PlanetMath article; empty for other papers."""
    names = [name.strip() for name in arguments_of(head, "pmcanonicalname") if name.strip()]
    if not names:
        return {}, []
    metadata = {
        "name": names[0],
        "type": next(iter(arguments_of(head, "pmtype")), ""),
        "defines": [plain(term) for term in arguments_of(head, "pmdefines")],
        "synonyms": [plain(term) for term in arguments_of(head, "pmsynonym")],
        "related": [name.strip() for name in arguments_of(head, "pmrelated")],
        "msc": re.findall(r"\\pmclassification\s*\{msc\}\s*\{\s*([\w-]+)", head),
    }
    return metadata, names


def read_front_matter(
    flat: Flat, start: int, document: str, main: Main, macros: Definitions
) -> tuple[Document, list[Label]]:
    """The record of the paper, from the text between `start` and its first section, and its names as labels."""
    first_section = re.search(r"\\(?:chapter|section)\*?\s*[\[{]", flat.text[flat.body :])
    head = flat.text[start : flat.body + (first_section.start() if first_section else 30_000)]
    macros_in_force = macros.at(flat.body)

    def clean_arguments(command: str) -> list[str]:
        return [plain(without_notes(expand(argument, macros_in_force))) for argument in arguments_of(head, command)]

    planetmath, names = _planetmath(head)
    titles = [title for title in clean_arguments("pmtitle" if planetmath else "title") if title]
    if not titles and (page := _TITLE_PAGE.search(head)):
        macro = macros_in_force.get(page[2] or "")
        titles = [_title_by_hand(expand(macro.body if macro else page[1] or "", macros_in_force))]
    dates = [date for text in arguments_of(head, "pmcreated" if planetmath else "date") if (date := find_date(text))]
    msc = planetmath.get("msc") or re.findall(r"\b\d\d[A-Z-][\dxX]{2}\b", " ".join(arguments_of(head, "subjclass")))
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
        authors=_authors(arguments_of(head, "pmauthor" if planetmath else "author")),
        date=dates[-1] if dates else None,
        categories=tuple(f"msc:{code}" for code in dict.fromkeys(msc)),
        file=main.path,
        metadata=metadata,
        links=tuple(Link("related_to", "name:" + n) for n in planetmath.get("related", ()) if n and n not in names),
    )
    return record, [Label(document, "name:" + name, document) for name in names]
