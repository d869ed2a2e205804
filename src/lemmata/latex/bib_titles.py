"""Guess title and authors of a reference that is only text, as `\\bibitem` has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from lemmata.latex.bib_identifiers import NEW_ID

YEAR = re.compile(r"(?<!\d)(1[5-9]\d\d|20\d\d|2100)(?!\d)")
# Private characters mark the structure while the text is cleaned.
OPEN, CLOSE, BLOCK = "\ue000", "\ue001", "\ue002"
MARKS = str.maketrans("", "", OPEN + CLOSE + BLOCK)


_QUOTED = re.compile('[“"]([^“”"]{3,}+)[”"]')
_NOT_A_TITLE = re.compile(
    r"\W*(?:https?:|doi\b|url\b|arxiv|available|accessed|issn|isbn|mr\s?\d|zbl|note\b|[\d\W]*$)", re.I
)
_JOURNAL_AFTER = re.compile(rf"[.,;:]?\s++(?:[Ii]n:?\s++)?{OPEN}")
_STOP = re.compile(
    r"[,;]|:(?=\s)|\s(?:and|und|et|y|&)\s|(?<=[^\W\d_]{3})\.(?=[\s\d])|\(?\b(?:1[5-9]|20)\d\d[a-z]?\b\)?"
    rf"|{OPEN}|[“\"]"
)
_TITLE_END = re.compile(rf",\s|(?:(?<=[^\W\d_]{{3}})|(?<=[)$]))[.?!](?=\s|$)|{OPEN}|$")
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


_SURNAME = (
    r"(?:(?:[Vv]an|[Vv]on|[Dd]er?|[Dd]en|[Dd]el|[Ll]a|[Ll]e|[Dd]i|[Dd]a|[Dd]os|[Dd]u|[Tt]e[rn]|zu)\s){0,3}"
    r"[A-ZÀ-Þ][\w'’-]{0,30}[a-zà-ÿ][\w'’-]{0,30}(?:\s[A-ZÀ-Þ][a-zà-ÿ][\w'’-]{0,30})?"
)
_DOTTED = r",?\s?[A-Z]\.(?:[\s-]?[A-Z]\.){0,3}+"
_BARE = r"\s(?!I{2,3}\b)[A-Z]{1,3}(?:-[A-Z])?(?:\s(?:[JS]r|I{2,3}|[23][nr]d))?(?![\w.-]\w)"
_LISTED = rf"{_SURNAME}(?:{_DOTTED}|{_BARE})"
# Surnames before initials, and a title after a full stop or year: `Gelber RD, Smith AB. Title`, `Cox, D. R. Title`.
_LIST_OF_NAMES = re.compile(
    rf"(?P<names>{_LISTED}(?:(?:[,;]|[,;]?\s(?:and|und|et|&))\s{_LISTED}){{0,100}}+(?:[,;]?\s(?:et al|and others))?)"
    rf"(?:(?:\.|(?<=\.))\s+(?={OPEN}?[“\"‘$(\w])(?!and\b|{_SURNAME}{_DOTTED}|[A-Z]\.)|\.?,?\s+(?=\(?(?:1[5-9]|20)\d\d\b))"
)
_SURNAME_NEXT = re.compile(rf"{_SURNAME}\s?(?:[.,:;(]|(?:and|und|&)\s|{OPEN}|$)")  # `Donald E. Knuth.` is no list
_TITLE_AFTER_LIST = re.compile(rf",\s(?:in\s|(?![a-zà-ÿ]))|(?:(?<=[^\W\d_]{{3}})|(?<=[)$]))[.?!](?=\s|$)|{OPEN}|$")


def guess_title(marked: str) -> tuple[str, str]:
    """Title and authors of an entry after `_mark`."""
    blocks = [block.strip() for block in marked.lstrip(f" {BLOCK}").split(BLOCK)]
    quoted = _QUOTED.search(blocks[0])
    if quoted and (len(blocks) == 1 or quoted[0][0] == "“"):
        return _without_marks(quoted[1]), _tidy_authors(blocks[0][: quoted.start()])
    if len(blocks) > 1 and not _NOT_A_TITLE.match(blocks[1].lstrip(OPEN)):
        return _title_of_block(blocks[1]), _tidy_authors(blocks[0])
    return _guess_in_line(blocks[0])


def _title_of_block(block: str) -> str:
    if block.startswith(OPEN):
        return _without_marks(block[1:].partition(CLOSE)[0])
    journal = _JOURNAL_AFTER.search(block)
    return _without_marks(block[: journal.start()] if journal else block)


def _guess_in_line(entry: str) -> tuple[str, str]:
    """Title and authors where only commas, emphasis and the form of names separate them."""
    listed = _LIST_OF_NAMES.match(entry)
    are_bare = bool(listed and re.search(r"\s[A-Z]{2}", listed["names"]))
    if listed and not are_bare and _SURNAME_NEXT.match(entry, listed.end()):
        listed = None
    start = listed.end() if listed else _end_of_names(entry)
    authors = listed["names"].rstrip("." if are_bare else "") if listed else _tidy_authors(entry[:start])
    rest = re.sub(r"^[\s,.:;]*+(?:\(?(?:1[5-9]|20)\d\d[a-z]?\)?[\s,.:]++)?", "", entry[start:])
    before, emphasised, after = rest.partition(OPEN)
    inside, _, after = after.partition(CLOSE)
    if emphasised and not before:
        return "" if _is_journal(inside, after) else _without_marks(inside), authors
    end = (_TITLE_AFTER_LIST if listed else _TITLE_END).search(rest)
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
    emphasis = marks.index(OPEN) if OPEN in marks else 0
    if all(map(_is_name, pieces[: emphasis + 1])) and not any(map(_ends_names, marks[:emphasis])):
        inside, _, after = entry[ends[emphasis] + 1 :].partition(CLOSE)
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
        if mark in (OPEN, "“", '"'):
            return ends[number]
        if names and _ends_names(mark) and any(pieces[number + 1 :]):
            return starts[number + 1]
    # Everything looks like a name ("John Milnor, Morse Theory, Princeton"): only the first piece is one.
    return starts[1] if stops else 0


def _ends_names(mark: str) -> bool:
    return mark == ":" or YEAR.search(mark) is not None


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


def checked_title(title: str, marked: str) -> str:
    """A guessed title, completed where a comma cut a list; empty where it is a journal, a name, a publisher or a
    remark: no title is better than a wrong one."""
    entry = marked.translate(MARKS)
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
    text = text.translate(MARKS).strip(" ,.;:–—-")
    if text[:1] + text[-1:] in ("“”", '""', "‘'", "‘’"):
        text = text[1:-1].strip(" ,.;:")
    return text if "'" in text or "’" in text else text.lstrip("‘")


def _tidy_authors(authors: str) -> str:
    authors = re.sub(r",(?=\w)", ", ", authors.translate(MARKS)).strip(" ,;:")
    authors = re.sub(r"[\s,]{0,9}\(?\b(?:1[5-9]|20)\d\d[a-z]?\)?[\s.,:]{0,9}$", "", authors)
    authors = re.sub(r"[\s,]{1,9}(?:and|in|&)$", "", authors)
    # The period after an initial or "al." belongs to the name, that after a surname does not.
    return re.sub(r"(?<=[^\W\d_]{2})(?<!\bal)(?<![JS]r)\.$", "", authors).strip(" ,;:")


_PARENTHESISED_YEAR = re.compile(r"\((?:[^\W\d_]{3,9}\.?,?\s+)?(?:\d\d?,\s*)?(1[5-9]\d\d|20\d\d|2100)[a-z]?\)")
_ENDING_YEAR = re.compile(r"\b(1[5-9]\d\d|20\d\d)[a-z]?[\s.,:)]*$")
_LONE_YEAR = re.compile(r"(?<![\w/:.–-])(?:[^\W\d_]\w*[.,]\s?)?(1[5-9]\d\d|20\d\d|2100)[a-z]?(?![\w/–-]|[.:]\d|\s[–-])")
_NO_YEAR_AFTER = re.compile(r"(?:\bpp?\.?|\bpages?|\bno\.?|\bvol\.?|\bnumber|\bart\.?|#|\bnotes in math\S*)\s*$", re.I)


def guess_year(marked: str, label: str) -> int | None:
    if in_label := list(_PARENTHESISED_YEAR.finditer(label)):
        return int(in_label[-1][1])
    if in_authors := _ENDING_YEAR.search(marked.partition(BLOCK)[0][-16:] if BLOCK in marked else ""):
        return int(in_authors[1])
    cleaned = _URL.sub(" ", NEW_ID.sub(" ", marked))
    if in_parentheses := list(_PARENTHESISED_YEAR.finditer(cleaned)):
        return int(in_parentheses[-1][1])
    for match in reversed(list(_LONE_YEAR.finditer(cleaned))):
        if not _NO_YEAR_AFTER.search(cleaned[max(0, match.start(1) - 20) : match.start(1)]):
            return int(match[1])
    return None


_URL = re.compile(r"https?://[^\s\"<>{}]++|(?<![\d.])10\.\d{4,9}/[^\s\"{}]++")
