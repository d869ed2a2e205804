r"""Bibliographies in all common formats, as `Reference` records.

Never raises: a damaged entry is left out, and fields that are not recognised stay empty. The time is linear in the
length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from urllib.parse import unquote

from lemmata.core.types import Reference
from lemmata.core.words import slug
from lemmata.latex.clean import plain
from lemmata.latex.source import read_optional, runs_into

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
_YEAR = re.compile(r"(?<!\d)(1[5-9]\d\d|20\d\d|2100)(?!\d)")
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
    year = _YEAR.search(fields.get("year", "")) or _YEAR.search(fields.get("date", ""))
    labelled = (f"arXiv:{arxiv}" if arxiv else "", f"doi:{identifier}" if identifier else "")
    text = ". ".join([part for part in (authors, title, printed, *labelled) if part])
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
# Private characters mark the structure while the text is cleaned.
_OPEN, _CLOSE, _BLOCK = "\ue000", "\ue001", "\ue002"
_EMPHASIS = re.compile(r"\\(?:emph|textit|textsl)\s*+(\{)|(\{)\s*+\\(?:it|em|sl)(?:shape)?(?![A-Za-z])\s*+")
_ET_AL = re.compile(r"\s*et\.?[\s~]*al(?:ii|\.)?[\s.,:]*", re.I)
_MARKS = str.maketrans("", "", _OPEN + _CLOSE + _BLOCK)


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
        text_line = plain(body).lstrip(" ,")
        name = " ".join(key[1].split())
        references.append(Reference(name, title, previous_authors, year, arxiv_id(body), doi(body), text_line))
    return references


_BRACES_OF_LATEX = re.compile(r"\\.|[{}]", re.S)


def _matching(text: str) -> dict[int, int]:
    """The offset of the closing brace for each opening one; groups that do not close are left out."""
    pairs: dict[int, int] = {}
    stack: list[int] = []
    for match in _BRACES_OF_LATEX.finditer(text):
        if match[0] == "{":
            stack.append(match.start())
        elif match[0] == "}" and stack:
            pairs[stack.pop()] = match.start()
    return pairs


def _with_groups(pattern: re.Pattern[str], text: str, pairs: Mapping[int, int]) -> Iterator[tuple[re.Match[str], str]]:
    """The matches that are followed by a braced group, and its content; matches inside such a group are left out."""
    position = 0
    for match in pattern.finditer(text):
        close = pairs.get(match.end(), -1)
        if match.start() >= position and close >= 0:
            yield match, text[match.end() + 1 : close]
            position = close


def _parts_of(body: str, label: str) -> tuple[str, str, int | None]:
    """Title, authors and year of an entry."""
    pairs = _matching(body)
    fields: dict[str, list[str]] = {"title": [], "booktitle": [], "author": [], "year": []}
    for match, content in _with_groups(_BIBINFO, body, pairs):
        fields[match[1]].append(plain(content))
    marked = _mark(body, pairs)
    title, authors = _guess(marked)
    title = _checked_title(title.rstrip(" .,;:"), marked)
    if macro := _TITLE_MACRO.search(body):
        title = plain(body[macro.end() + 1 : pairs.get(macro.end(), macro.end())]) or title
    title = next(iter(fields["title"] + fields["booktitle"]), "") or title
    authors = ", ".join(fields["author"]) or authors
    year_field = _YEAR.search(fields["year"][0]) if fields["year"] else None
    return title.rstrip(" .,;:"), authors, int(year_field[1]) if year_field else _year(marked, label)


def _mark(body: str, pairs: Mapping[int, int]) -> str:
    r"""The cleaned body, with outermost emphasis and `\newblock`s as private characters."""
    pieces: list[str] = []
    position = 0
    body = body.translate(_MARKS)
    for match in _EMPHASIS.finditer(body):
        close = pairs.get(match.start(match.lastindex or 0), -1)
        if match.start() >= position and close >= 0:
            inside = body[match.end() : close]
            marks = ("", "") if _ET_AL.fullmatch(inside) else (_OPEN, _CLOSE)
            pieces += (body[position : match.start()], marks[0], inside, marks[1])
            position = close + 1
    pieces.append(body[position:])
    return plain(re.sub(r"\\newblock(?![A-Za-z])", _BLOCK, "".join(pieces)))


# ---------------------------------------------------------------- guessing title and authors


_QUOTED = re.compile('[“"]([^“”"]{3,}+)[”"]')
_NOT_A_TITLE = re.compile(
    r"\W*(?:https?:|doi\b|url\b|arxiv|available|accessed|issn|isbn|mr\s?\d|zbl|note\b|[\d\W]*$)", re.I
)
_JOURNAL_AFTER = re.compile(rf"[.,;:]?\s++(?:[Ii]n:?\s++)?{_OPEN}")
_STOP = re.compile(
    r"[,;]|:(?=\s)|\s(?:and|und|et|y|&)\s|(?<=[^\W\d_]{3})\.(?=[\s\d])|\(?\b(?:1[5-9]|20)\d\d[a-z]?\b\)?"
    rf"|{_OPEN}|[“\"]"
)
_TITLE_END = re.compile(rf",\s|(?:(?<=[^\W\d_]{{3}})|(?<=[)$]))[.?!](?=\s|$)|{_OPEN}|$")
_ABBREVIATED = re.compile(
    r"\b(?:J|Journal|Proc|Proceedings|Trans|Transactions|Ann|Annals|Annales|Bull|Acta|Math|Lett|Rev|Comm|Phys|"
    r"Lecture|Notes|arXiv|Amer|Soc|Zeitschrift|Archiv|Comptes|Mathematica|Monthly|Magazine)\b",
    re.I,
)
_ABBREVIATED_JOURNAL = re.compile(r"[^\W\d_]{1,9}\.\s(?:[\w.&]{1,15}\s){0,8}[A-Z]?\d{1,4}\b")
_NUMBER_AFTER = re.compile(r"[\s,]*+(?:\(\d{1,3}\)|vol\.?|volume|no\.|\d{1,3}\b)", re.I)
_INITIAL = re.compile(r"[^\W\d_]{1,2}\.")
_PARTICLE = re.compile(
    r"(?:von|van|der|den|del?|della|la|le|di|da|dos|du|ter|ten|zu|zur|et|al\.?|[js]r\.?|i{2,3}|and|others|&|"
    r"\(?(?:eds?\.?|editors?)\)?)",
    re.I,
)


def _guess(marked: str) -> tuple[str, str]:
    """Title and authors of an entry after `_mark`."""
    blocks = [block.strip() for block in marked.lstrip(f" {_BLOCK}").split(_BLOCK)]
    quoted = _QUOTED.search(blocks[0])
    if quoted and (len(blocks) == 1 or quoted[0][0] == "“"):
        return _without_marks(quoted[1]), _tidy_authors(blocks[0][: quoted.start()])
    if len(blocks) > 1 and not _NOT_A_TITLE.match(blocks[1].lstrip(_OPEN)):
        return _title_of_block(blocks[1]), _tidy_authors(blocks[0])
    return _guess_in_line(blocks[0])


def _title_of_block(block: str) -> str:
    if block.startswith(_OPEN):
        return _without_marks(block[1:].partition(_CLOSE)[0])
    journal = _JOURNAL_AFTER.search(block)
    return _without_marks(block[: journal.start()] if journal else block)


def _guess_in_line(entry: str) -> tuple[str, str]:
    """Title and authors where only commas, emphasis and the form of names separate them."""
    start = _end_of_names(entry)
    authors = _tidy_authors(entry[:start])
    rest = re.sub(r"^[\s,.:;]*+(?:\(?(?:1[5-9]|20)\d\d[a-z]?\)?[\s,.:]++)?", "", entry[start:])
    before, emphasised, after = rest.partition(_OPEN)
    inside, _, after = after.partition(_CLOSE)
    if emphasised and not before:
        return "" if _is_journal(inside, after) else _without_marks(inside), authors
    end = _TITLE_END.search(rest)
    title = rest[: end.start()] if end else rest
    if _NOT_A_TITLE.match(rest) or _ABBREVIATED_JOURNAL.match(rest):
        title = ""  # a journal right after the names: a style without titles
    elif emphasised and (_ABBREVIATED.search(inside) or _NUMBER_AFTER.match(after)):
        title = re.sub(r"[\s,.;:]{1,9}(?:[Ii]n)?[\s:]{0,9}$", "", before)
    elif emphasised and len(title.split()) < 2:
        title = inside
    return _without_marks(title), authors


def _is_journal(emphasised: str, after: str) -> bool:
    return bool(_ABBREVIATED.search(emphasised) and _NUMBER_AFTER.match(after))


def _end_of_names(entry: str) -> int:
    """Where the authors end: before the first piece between commas that cannot be a name."""
    stops = list(islice(_STOP.finditer(entry), 100))
    starts = [0, *(stop.end() for stop in stops)]
    ends = [*(stop.start() for stop in stops), len(entry)]
    pieces = [_words(entry[start:end]) for start, end in zip(starts, ends, strict=True)]
    marks = [stop[0] for stop in stops]
    emphasis = marks.index(_OPEN) if _OPEN in marks else 0
    if all(map(_is_name, pieces[: emphasis + 1])) and not any(map(_ends_names, marks[:emphasis])):
        inside, _, after = entry[ends[emphasis] + 1 :].partition(_CLOSE)
        if emphasis and not _is_journal(inside, after):
            return ends[emphasis]
    with_initials = False
    names = 0
    for number, words in enumerate(pieces):
        if words:
            initials = _has_initials(words)
            if not _is_name(words):
                return starts[number]
            joined = number > 0 and marks[number - 1].strip() in ("and", "&") and len(words) > 1
            if with_initials and not initials and not joined and not all(map(_PARTICLE.fullmatch, words)):
                # "S. Lang, Algebra": where there are initials, a piece without them is a name only if it is a
                # surname before a given name, as are the surnames before it.
                given = pieces[number + 1] if number + 1 < len(pieces) else []
                if _has_initials(pieces[0]) or not (_has_initials(given) and _is_name(given)):
                    return starts[number]
            with_initials = with_initials or initials
            names += 1
        mark = marks[number] if number < len(marks) else ""
        if mark in (_OPEN, "“", '"'):
            return ends[number]
        if names and _ends_names(mark) and any(pieces[number + 1 :]):
            return starts[number + 1]
    # Everything looks like a name ("John Milnor, Morse Theory, Princeton"): only the first piece is one.
    return starts[1] if stops else 0


def _ends_names(mark: str) -> bool:
    return mark == ":" or _YEAR.search(mark) is not None


def _words(piece: str) -> list[str]:
    return piece.strip(" ,;:").replace(".", ". ").split()


def _has_initials(words: Sequence[str]) -> bool:
    return any(map(_INITIAL.fullmatch, words))


def _is_name(words: Sequence[str]) -> bool:
    return len(words) <= 6 and all(
        _PARTICLE.fullmatch(word) or (word[0].isupper() and not any(map(str.isdigit, word))) for word in words
    )


_NO_TITLE = re.compile(
    r"(?:ibid\w*|op\. cit|et al|titles?|(?:private|personal) communication|unpublished.*|preprint.*|manuscript.*"
    r"|(?:to appear|in preparation|in press|submitted|accepted|forthcoming|work in progress)\b.*"
    r"|(?:ph\.?\s?d\.?|master['’]?s?|doctoral|diploma|bachelor['’]?s?)\s(?:thes[ie]s|dissertation)|thesis|dissertation"
    r"|(?:\d{1,2}(?:st|nd|rd|th)|first|second|third|fourth|fifth|revised|new)\.?\s(?:rev\w*\s)?ed(?:ition|n)?"
    r"|(?:vol(?:ume)?|no|pp?|pages?|chapter|section|theorem|lemma)\b\.?\s?[\divxlc–-]+"
    r"|(?:see|cf\.)\s(?:also\b|e\.\s?g\.|for (?:example|instance)\b|.*https?://).*"
    r"|[^\W\d_]+\.?\s[A-Z]?\d[\d:./()–-]*|\w+,\w+|\[.*)",
    re.I,
)
# A journal with its volume, year and pages: Nature 5 (2010) 12.
_JOURNAL_VOLUME = re.compile(r"(?:[^\W\d_][\w.&’'-]{0,30}\s){1,5}[A-Z]?\d{1,4}\s?\((?:1[5-9]|20)\d\d\)[\s\w:.–-]{0,20}")
_PUBLISHER = re.compile(
    r"\b(?:Verlag|Press|Publish\w*|Springer|Birkh\w+|Wiley|Elsevier|North-Holland|Dover|Academi\w+|Kluwer|Prentice|Addison"
    r"|McGraw|Chelsea|Hermann|Masson|Dunod|Gauthier|Teubner|Vieweg|Gruyter|Freeman|Benjamin|Dekker|Interscience|Univ\w*"
    r"|AMS|SIAM|MAA|CRC|MIT|Oxford|Cambridge|Princeton|Chapman|Hall|Longman|Nauka|Mir|GTM|Lecture|Graduate|New York"
    r"|London|Berlin|Paris|Basel|Boston|Tokyo|Amsterdam|Heidelberg|Moscow|Warsaw|Leipzig)\b",
    re.I,
)
_PERSON = re.compile(r"(?:[A-Z][a-z]?\.[\s-]?){1,4}['’]?\w{0,3}\s?[A-Z][\w’'-]+(?:\s[A-Z][\w’'-]+)?")
_AFTER_TITLE = re.compile(r"[\s,;:]*(?:\(|\[|\d|(?:\w+\s)?ed(?:ition|\.|s?\b)|https?:|online|$)|\s*[.]", re.I)
_MORE_OF_LIST = re.compile(r"(?:,\s[^\W\d_][^,.:;\d()]{2,40}){0,3},?\s(?:and|und|et)\s[^,.:;\d()]{3,40}(?=[,.])")


def _checked_title(title: str, marked: str) -> str:
    """A guessed title, completed where a comma cut a list; empty where it is a journal, a name, a publisher or a
    remark: no title is better than a wrong one."""
    entry = marked.translate(_MARKS)
    at = entry.find(title)
    rest = entry[at + len(title) :] if at >= 0 else ""
    words = title.replace(".", ". ").split()
    if (
        not re.search(r"[^\W\d_]{4}|[^\W\d_]{3}\s[^\W\d_]{3}|[\u0370-\uffff]{2}", title)
        or _NO_TITLE.fullmatch(title)
        or _JOURNAL_VOLUME.fullmatch(title)
        or _PERSON.fullmatch(title)
    ):
        return ""
    if _ABBREVIATED_JOURNAL.match(title + rest[:60]) or all(
        w.endswith(".") or _ABBREVIATED.fullmatch(w) for w in words
    ):
        return ""
    if len(words) <= 4 and re.search(r"(?:Verlag|Press|Springer\S*|Publish\w+|Wiley\S*)$", title):
        return ""
    more = _MORE_OF_LIST.match(rest) if len(words) < 3 and rest.startswith(",") else None
    if more and not _PUBLISHER.search(more[0]) and not _ABBREVIATED.search(more[0]):
        return title + more[0]
    if len(words) == 1 and not _AFTER_TITLE.match(rest) and not _PUBLISHER.search(rest.partition(",")[2][:40]):
        return ""  # it may be the first word of a longer title, or a journal
    if len(words) == 1 and _NUMBER_AFTER.match(rest):
        return ""  # a journal
    return title


def _without_marks(text: str) -> str:
    text = text.translate(_MARKS).strip(" ,.;:–—-")
    if text[:1] + text[-1:] in ("“”", '""', "‘'", "‘’"):
        text = text[1:-1].strip(" ,.;:")
    return text if "'" in text or "’" in text else text.lstrip("‘")


def _tidy_authors(authors: str) -> str:
    authors = re.sub(r",(?=\w)", ", ", authors.translate(_MARKS)).strip(" ,;:")
    authors = re.sub(r"[\s,]{0,9}\(?\b(?:1[5-9]|20)\d\d[a-z]?\)?[\s.,:]{0,9}$", "", authors)
    authors = re.sub(r"[\s,]{1,9}(?:and|in|&)$", "", authors)
    # The period after an initial or "al." belongs to the name, that after a surname does not.
    return re.sub(r"(?<=[^\W\d_]{2})(?<!\bal)(?<![JS]r)\.$", "", authors).strip(" ,;:")


_PARENTHESISED_YEAR = re.compile(r"\((?:[^\W\d_]{3,9}\.?,?\s+)?(?:\d\d?,\s*)?(1[5-9]\d\d|20\d\d|2100)[a-z]?\)")
_ENDING_YEAR = re.compile(r"\b(1[5-9]\d\d|20\d\d)[a-z]?[\s.,:)]*$")
_LONE_YEAR = re.compile(r"(?<![\w/:.–-])(?:[^\W\d_]\w*[.,]\s?)?(1[5-9]\d\d|20\d\d|2100)[a-z]?(?![\w/–-]|[.:]\d|\s[–-])")
_NO_YEAR_AFTER = re.compile(r"(?:\bpp?\.?|\bpages?|\bno\.?|\bvol\.?|\bnumber|\bart\.?|#|\bnotes in math\S*)\s*$", re.I)


def _year(marked: str, label: str) -> int | None:
    if in_label := list(_PARENTHESISED_YEAR.finditer(label)):
        return int(in_label[-1][1])
    if in_authors := _ENDING_YEAR.search(marked.partition(_BLOCK)[0][-16:] if _BLOCK in marked else ""):
        return int(in_authors[1])
    cleaned = _URL.sub(" ", _NEW_ID.sub(" ", marked))
    if in_parentheses := list(_PARENTHESISED_YEAR.finditer(cleaned)):
        return int(in_parentheses[-1][1])
    for match in reversed(list(_LONE_YEAR.finditer(cleaned))):
        if not _NO_YEAR_AFTER.search(cleaned[max(0, match.start(1) - 20) : match.start(1)]):
            return int(match[1])
    return None


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
    pairs = _matching(entry)
    fields: dict[str, str] = {}
    for match, content in _with_groups(_BIBLATEX_FIELD, entry, pairs):
        fields.setdefault(match[1].lower(), content)
    for match in _BIBLATEX_VERB.finditer(entry):
        fields.setdefault(match[1].lower(), match[2])
    for match, names in _with_groups(_BIBLATEX_NAMES, entry, pairs):
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


# ---------------------------------------------------------------- identifiers


_NEW_ID = re.compile(r"(?<!\d)(?<!\d\.)(\d\d(?:0[1-9]|1[0-2]|\d\d)\.\d{4,5})(?:v\d+)?(?![\d])")
_VALID_NEW_ID = re.compile(r"(?:0[7-9]|1[0-4])(?:0[1-9]|1[0-2])\.\d{4}|(?:1[5-9]|[2-9]\d)(?:0[1-9]|1[0-2])\.\d{5}")
_ARCHIVES = (
    "astro-ph|cond-mat|gr-qc|hep-(?:ex|lat|ph|th)|math-ph|nlin|nucl-(?:ex|th)|physics|quant-ph|math|cs|q-bio|q-fin|"
    "stat|alg-geom|dg-ga|funct-an|q-alg|solv-int|chao-dyn|patt-sol|adap-org|comp-gas|cmp-lg|acc-phys|ao-sci|"
    "atom-ph|bayes-an|chem-ph|mtrl-th|plasm-ph|supr-con"
)
_OLD_ID = re.compile(
    rf"(?<![A-Za-z0-9-])({_ARCHIVES.replace('-', '-{1,2}')})"
    r"(?:\.[A-Za-z]{2}|\.[a-z-]{4,12})?/\s?((?:9[1-9]|0[0-7])(?:0[1-9]|1[0-2])\d{3})(?:v\d+)?(?!\d)",
    re.I,
)
_TAG = re.compile(r"(?:arxiv|\babs/|\be-?prints?\b)[^;]{0,30}$", re.I)
_OTHER_TAG = re.compile(r"(?:zbl|zbmath|zblatt|zentralblatt|jfm|mr|\ban|doi)\W*$|[\w./:=?–-]$", re.I)
_DOI = re.compile(r"(?<![\d.])10\.\d{4,9}(?:\.\d{1,9})*+/[^\s\"{}|^`\\&?#]{1,200}+")
_AFTER_DOI = re.compile(r"(?:/(?:abstract|full|fulltext|pdf|epdf|meta)|\.pdf|\.html?|/)$", re.I)
_URL = re.compile(r"https?://[^\s\"<>{}]++|(?<![\d.])10\.\d{4,9}/[^\s\"{}]++")


def arxiv_id(text: str) -> str:
    """The first arXiv id in a text, without version; "" if there is none.

    An id with a tag (arXiv:, abs/) is preferred to a bare number. A bare number must be a valid id, and neither the
    number of a review (Zbl 1203.11045) nor part of something longer.
    """
    if _NEW_ID.fullmatch(stripped := text.strip()):
        return stripped.partition("v")[0]
    bare = ""
    tagged: list[tuple[int, str]] = []
    for match in _NEW_ID.finditer(text):
        before = text[max(0, match.start() - 40) : match.start()]
        if _TAG.search(before) and not re.search(r"zbl|zbmath|10\.(?!48550/)\d{4,}/\S*$", before, re.I):
            tagged.append((match.start(), match[1]))
            break
        if not bare and _VALID_NEW_ID.fullmatch(match[1]) and not _OTHER_TAG.search(before):
            bare = match[1]
    if old := _OLD_ID.search(text):
        tagged.append((old.start(), f"{old[1].replace('--', '-').lower()}/{old[2]}"))
    return min(tagged)[1] if tagged else bare


def doi(text: str) -> str:
    """The first DOI in a text, in lower case and without a resolver's address; "" if there is none."""
    if "10." not in text:
        return ""
    if "\\" in text:
        text = re.sub(r"\{?\\textunderscore(?![A-Za-z])\s*+(?:\{\})?\}?", "_", text)
        text = re.sub(r"\{?\\([_%&#])\}?|\\allowbreak(?![A-Za-z])\s*+|\\-", lambda match: match[1] or "", text)
    if "$" in text:
        text = re.sub(r"\$([<>])\$", r"\1", text)
    if "%" in text and re.search(r"%2f|%28|%3a", text, re.I):
        text = unquote(text)
    match = _DOI.search(text)
    if not match:
        return ""
    identifier = match[0]
    while not identifier[-1].isalnum():
        last = identifier[-1]
        opening = {")": "(", "]": "[", ">": "<"}.get(last)
        if last not in ".,;:'’”*" and not (opening and identifier.count(opening) < identifier.count(last)):
            break
        identifier = identifier[:-1]
    identifier = _AFTER_DOI.sub("", identifier)
    return identifier.lower() if "/" in identifier and not identifier.endswith("/") else ""


def normalise_title(title: str) -> str:
    r"""A title for matching: lower-case letters and digits without accents; α and `\alpha` are alpha."""
    title = plain(title)
    return slug(title).replace("-", "") if re.search(r"[^\W_]", title) else ""
