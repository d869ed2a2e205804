r"""Bibliographies in all common formats, as `Reference` records.

Never raises: a damaged entry is left out, and fields that are not recognised stay empty. The time is linear in the
length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, zip_longest

from lemmata.core.types import Reference
from lemmata.latex.bib_identifiers import arxiv_id, doi
from lemmata.latex.bib_titles import BLOCK, CLOSE, MARKS, OPEN, YEAR, checked_title, guess_title, guess_year
from lemmata.latex.clean import plain
from lemmata.latex.commands import MOST_FAILURES, read_calls
from lemmata.latex.source import match_brace, read_argument, read_optional, runs_into

_REACH = 100_000  # characters to search for the end of a field
# One level of nested braces is enough for addresses such as {http://x.org/a{\_}b}.
_SHALLOW = r"\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}"


def read_bibliography(text: str) -> list[Reference]:
    r"""All entries of a .bib, a .bbl, or a .tex with `thebibliography`, `\bib` or an embedded .bib."""
    references = []
    if r"\bibitem" in text:
        references += read_bibitems(text)
    if r"\entry{" in text and r"\endentry" in text:
        references += read_biblatex_bbl(text)
    if _AMSREFS.search(text):
        references += read_amsrefs(text)
    if _LINE_ENTRY.search(text):
        references += read_bib(text)
    return references


# ---------------------------------------------------------------- .bib


_LINE_ENTRY = re.compile(r"^[ \t]*+@[ \t]*+[A-Za-z]++\s*+[{(]", re.M)
_ENTRY = re.compile(r"@\s*+([A-Za-z]\w*+)\s*+([{(])\s*+")
_KEY = re.compile(r"([^\s,=\"#{}]*+)\s*+(?=[,})])")
_FIELD = re.compile(r"[\s,]*+(?:%[^\n]*+[\s,]*+)*+([^\s=,{}\"#()%]++)\s*+=\s*+")
_SIMPLE_VALUE = re.compile(r"\{([^{}]*+)\}|\"([^\"{}]*+)\"|([^\s=,{}\"#()%]++)")
_CONCATENATION = re.compile(r"\s*+#\s*+")
_ENTRY_END = re.compile(r"[\s,]*+(?:%[^\n]*+[\s,]*+)*+[})]")
_AND = re.compile(r"(?<!\s)\s++and\s++", re.I)
_NOT_REFERENCES = ("control", "ieeetranbstctl", "xdata")
_MONTHS = {
    name[:3].lower(): name
    for name in "January February March April May June July August September October November December".split()
}
_PRINTED = (
    "journal journaltitle booktitle series volume number pages publisher school institution organization howpublished "
    "year date note"
).split()
_TWO_STOPS = re.compile(r"(?<=\w)\.\.(?!\.)")  # after `Ann. Statist.`
_IDENTIFYING = "journal journaltitle volume number pages howpublished note url ee annote".split()
# Concatenated macros can double at every step: nothing is added to a value of this length.
_LONGEST_VALUE = 10_000


def read_bib(text: str) -> list[Reference]:
    """The entries of a .bib file in order; damaged ones are skipped up to the next line that starts with '@'.

    Authors are written "First Last", comma-separated. Undefined macros keep their name.
    """
    macros = dict(_MONTHS)
    references: list[Reference] = []
    starts = [match.start() for match in _LINE_ENTRY.finditer(text)]
    # Each piece begins at a line that starts with '@', so that a missing brace costs one entry only.
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        position = start
        while entry := _ENTRY.search(text, position, end):
            kind, position = entry[1].lower(), entry.end()
            if kind == "string":
                fields, position = _bib_fields(text, position, end, macros)
                macros.update(reversed(fields))  # where a name is repeated, the first value counts
            elif kind in ("comment", "preamble"):
                position = _closing(text, entry.start(2), end) if entry[2] == "{" else end
            elif key := _KEY.match(text, position, end):
                fields, position = _bib_fields(text, key.end(), end, macros)
                if position >= 0 and kind not in _NOT_REFERENCES:
                    references.append(_from_fields(key[1], dict(reversed(fields))))
            else:
                break
            if position < 0:
                break
    return references


def _bib_fields(text: str, position: int, end: int, macros: Mapping[str, str]) -> tuple[list[tuple[str, str]], int]:
    """The fields up to the closing brace of an entry and the position after it, -1 where the entry is damaged."""
    fields: list[tuple[str, str]] = []
    while field := _FIELD.match(text, position, end):
        joined = ""
        position = field.end()
        while True:
            if value := _SIMPLE_VALUE.match(text, position, end):
                position = value.end()
                part = value[value.lastindex or 0]
                if value.lastindex == 3:
                    part = macros.get(part.lower(), part)
            else:
                begin, position = position, _closing(text, position, end)
                if position < 0:
                    return fields, -1
                part = text[begin + 1 : position - 1]
            if len(joined) < _LONGEST_VALUE:
                joined += part
            if not (concatenation := _CONCATENATION.match(text, position, end)):
                break
            position = concatenation.end()
        fields.append((field[1].lower(), joined))
    close = _ENTRY_END.match(text, position, end)
    return fields, close.end() if close else -1


_BRACE_OR_QUOTE = re.compile(r'[{}"]')


def _closing(text: str, start: int, end: int) -> int:
    """Position after the group or quotation that opens at `start`, -1 where it does not close.

    As in BibTeX, a backslash does not escape a brace, and a quotation mark in braces closes nothing.
    """
    closing = {"{": "}", '"': '"'}.get(text[start : start + 1])
    if closing is None:
        return -1
    depth = 0
    for match in _BRACE_OR_QUOTE.finditer(text, start + (closing == '"'), end):
        depth += (match[0] == "{") - (match[0] == "}")
        if depth < 0:
            return -1
        if depth == 0 and match[0] == closing:
            return match.end()
    return -1


def _from_fields(key: str, fields: Mapping[str, str]) -> Reference:
    """A reference from the fields of BibTeX, biblatex or amsrefs."""
    title = plain(fields.get("title", ""))
    if subtitle := fields.get("subtitle"):
        title = f"{title}: {plain(subtitle)}"
    title = title or plain(fields.get("booktitle", ""))
    authors = _people(fields.get("author") or fields.get("editor", ""))
    printed = plain(". ".join([fields[name] for name in _PRINTED if name in fields]))
    identifying = " ; ".join([fields[name] for name in _IDENTIFYING if name in fields])
    arxiv = _eprint(fields) or arxiv_id(identifying) or arxiv_id(fields.get("doi", ""))
    identifier = doi(fields.get("doi", "")) or doi(identifying)
    year = YEAR.search(fields.get("year", "")) or YEAR.search(fields.get("date", ""))
    labelled = (f"arXiv:{arxiv}" if arxiv else "", f"doi:{identifier}" if identifier else "")
    text = _TWO_STOPS.sub(".", ". ".join([part for part in (authors, title, printed, *labelled) if part]))
    return Reference(key, title, authors, int(year[1]) if year else None, arxiv, identifier, text)


def _eprint(fields: Mapping[str, str]) -> str:
    eprint = fields.get("eprint", "").strip() or fields.get("arxiv", "").strip()
    archive = fields.get("archiveprefix") or fields.get("eprinttype") or "arxiv"
    if not eprint or "arxiv" not in archive.lower():
        return ""
    category = fields.get("primaryclass") or fields.get("eprintclass") or ""
    if category and re.fullmatch(r"\d{7}(?:v\d+)?", eprint):
        eprint = f"{category.strip()}/{eprint}"
    return arxiv_id(eprint)


def _people(names: str) -> str:
    people: list[str] = []
    pending: list[str] = []
    open_braces = 0
    for part in _AND.split(names):
        pending.append(part)
        open_braces += part.count("{") - part.count("}")
        if open_braces <= 0:
            people.append(_person(" and ".join(pending)))
            pending, open_braces = [], 0
    if pending:
        people.append(" and ".join(pending))
    return plain(", ".join([person for person in people if person]))


def _person(name: str) -> str:
    """A name with the surname last, still in LaTeX."""
    name = name.strip()
    if name.lower() == "others":
        return "et al."
    if "," not in name or name.startswith("{"):
        return name
    last, *rest = name.split(",")
    return " ".join((rest[-1], last, *rest[:-1])).strip()


# ---------------------------------------------------------------- \bibitem


_BIBITEM = re.compile(r"\\(bibitem)(?![A-Za-z@])\s*+|\\end\s*+\{\s*+(?:thebibliography|biblist|document)")
_COMMENT = re.compile(r"^[ \t]*+%[^\n]*+\n?|%[ \t]*+\n[ \t]*+|(?<=[ \t])%[^\n]*+", re.M)


def _without_comments(text: str) -> str:
    """The text without its comments; a command that ends in one stays apart from the next line."""
    if "%" not in text:
        return text

    def removed(comment: re.Match[str]) -> str:
        return (
            " "
            if runs_into(text[max(0, comment.start() - 60) : comment.start()], text[comment.end() : comment.end() + 1])
            else ""
        )

    return _COMMENT.sub(removed, text)


_BRACED_KEY = re.compile(r"\s*+\{([^{}]*+)\}")
_BYSAME = re.compile(r"\s*+(?:\\bysame|\\leavevmode\s*+\\vrule|\\rule\{|-{3}|_{3})")
_BIBINFO = re.compile(r"\\bibinfo\s*+\{\s*+(title|booktitle|author|year)\s*+\}\s*+(?=\{)")
_TITLE_MACRO = re.compile(r"\\(?:APACref[abe]title|showarticletitle|BibTitle|bibtitle)\s*+(?=\{)")
_EMPHASIS = re.compile(r"\\(?:emph|textit|textsl)\s*+(\{)|(\{)\s*+\\(?:it|em|sl)(?:shape)?(?![A-Za-z])\s*+")
_ET_AL = re.compile(r"\s*et\.?[\s~]*al(?:ii|\.)?[\s.,:]*", re.I)


def read_bibitems(text: str) -> list[Reference]:
    r"""The `\bibitem`s of a `thebibliography` or a .bbl in order.

    Few styles mark titles and authors; in the others they are recognised by quotation marks, `\newblock`, emphasis
    and the form of names, and stay empty where there are none (as in physics).
    """
    text = _without_comments(text)
    borders = list(_BIBITEM.finditer(text))
    references: list[Reference] = []
    previous_authors = ""
    for match, following in zip_longest(borders, borders[1:]):
        item = text[match.end() : following.start() if following else len(text)]
        label, position = read_optional(item, 0) or ("", 0)
        key = _BRACED_KEY.match(item, position)
        if not match[1] or not key or "#" in key[1]:  # the end of the list, or the definition of a macro
            continue
        body = item[key.end() :]
        title, authors, year = _parts_of(body, label)
        previous_authors = previous_authors if _BYSAME.match(body) else authors
        text_line = _TWO_STOPS.sub(".", plain(body).lstrip(" ,"))
        name = " ".join(key[1].split())
        references.append(Reference(name, title, previous_authors, year, arxiv_id(body), doi(body), text_line))
    return references


def _parts_of(body: str, label: str) -> tuple[str, str, int | None]:
    """Title, authors and year of an entry."""
    fields: dict[str, list[str]] = {"title": [], "booktitle": [], "author": [], "year": []}
    for match, content, _ in read_calls(_BIBINFO, body, _REACH):
        fields[match[1]].append(plain(content))
    marked = _mark(body)
    title, authors = guess_title(marked)
    title = checked_title(title.rstrip(" .,;:"), marked)
    if (macro := _TITLE_MACRO.search(body)) and (argument := read_argument(body, macro.end())):
        title = plain(argument[0]) or title
    title = next(iter(fields["title"] + fields["booktitle"]), "") or title
    authors = ", ".join(fields["author"]) or authors
    year_field = YEAR.search(fields["year"][0]) if fields["year"] else None
    return title.rstrip(" .,;:"), authors, int(year_field[1]) if year_field else guess_year(marked, label)


def _mark(body: str) -> str:
    r"""The cleaned body, with outermost emphasis and `\newblock`s as private characters."""
    pieces: list[str] = []
    position = failures = 0
    body = body.translate(MARKS)
    for match in _EMPHASIS.finditer(body):
        if match.start() < position or failures == MOST_FAILURES:
            continue
        end = match_brace(body, match.start(match.lastindex or 0))
        if end < 0:
            failures += 1
            continue
        inside = body[match.end() : end - 1]
        marks = ("", "") if _ET_AL.fullmatch(inside) else (OPEN, CLOSE)
        pieces += (body[position : match.start()], marks[0], inside, marks[1])
        position = end
    pieces.append(body[position:])
    return plain(re.sub(r"\\newblock(?![A-Za-z])", BLOCK, "".join(pieces)))


# ---------------------------------------------------------------- biblatex


_BIBLATEX_ENTRY = re.compile(r"\\entry\s*+\{([^{}]*+)\}\s*+\{([^{}]*+)\}")
_BIBLATEX_FIELD = re.compile(r"\\(?:field|list)\s*+\{(\w++)\}\s*+(?:\{\d++\}\s*+)?(?=\{)")
_BIBLATEX_VERB = re.compile(r"\\verb\s*+\{(\w++)\}\s*+\\verb\s++(\S*+)")
_BIBLATEX_NAMES = re.compile(r"\\name\s*+\{(author|editor)\}\s*+\{\d++\}\s*+(?:\{[^{}]*+\}\s*+)?(?=\{)")
_NAME_PART = re.compile(
    r"(?<!\w)(family|given|prefix)\s*+=\s*+(\{[^{}]*+(?:\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}[^{}]*+)*+\})"
)
_OLD_NAME = re.compile(rf"\{{\{{[^{{}}]*+\}}\s*+({_SHALLOW})\s*+(?:{_SHALLOW})\s*+({_SHALLOW})")


def read_biblatex_bbl(text: str) -> list[Reference]:
    """The entries of a .bbl of biber; an entry of several lists is given once."""
    references: dict[str, Reference] = {}
    starts = list(_BIBLATEX_ENTRY.finditer(text))
    for start, following in zip_longest(starts, starts[1:]):
        end = following.start() if following else len(text)
        key = start[1].strip()
        if key not in references:
            references[key] = _from_fields(key, _biblatex_fields(text[start.end() : end].partition(r"\endentry")[0]))
    return list(references.values())


def _biblatex_fields(entry: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for match, content, _ in read_calls(_BIBLATEX_FIELD, entry, _REACH):
        fields.setdefault(match[1].lower(), content)
    for match in _BIBLATEX_VERB.finditer(entry):
        fields.setdefault(match[1].lower(), match[2])
    for match, names, _ in read_calls(_BIBLATEX_NAMES, entry, _REACH):
        fields.setdefault(match[1], " and ".join(_biblatex_people(names)))
    return fields


def _biblatex_people(names: str) -> Iterator[str]:
    person: dict[str, str] = {}
    for part in chain(_NAME_PART.finditer(names), (None,)):
        if person and (part is None or part[1] in person):
            yield " ".join([person[name] for name in ("given", "prefix", "family") if name in person])
            person = {}
        if part:
            person[part[1]] = part[2]
    if "family" not in names:
        for old in _OLD_NAME.finditer(names):
            yield f"{old[2]} {old[1]}"


# ---------------------------------------------------------------- amsrefs


_AMSREFS = re.compile(r"\\bib\*?\s*+\{([^{}]*+)\}\s*+\{[^{}]*+\}\s*+\{")


def read_amsrefs(text: str) -> list[Reference]:
    r"""The `\bib{key}{type}{...}` entries of a text; those that do not close are left out."""
    text = _without_comments(text)
    references: list[Reference] = []
    starts = list(_AMSREFS.finditer(text))
    for start, following in zip_longest(starts, starts[1:]):
        pairs, end = _bib_fields(text, start.end(), following.start() if following else len(text), {})
        fields: dict[str, str] = {}
        for name, value in pairs:
            repeated = name in ("author", "editor") and name in fields
            fields[name] = f"{fields[name]} and {value}" if repeated else value
        if end >= 0:
            references.append(_from_fields(start[1].strip(), fields))
    return references
