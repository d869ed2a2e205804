"""What a query names: a passage by id, label, title or number ("Theorem 4.2 of Partitions"), what has a code ("P-203"),
or a cited work."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lemmata.core.types import Floats, Integers, Mask, Ranking, printed_name
from lemmata.core.words import GERMAN_STOP_WORDS, STOP_WORDS, fold, is_author
from lemmata.corpus.corpus import Corpus
from lemmata.latex.kinds import STATEMENTS, kind_of, short_names
from lemmata.plant.hierarchy import contains
from lemmata.plant.names import Names, codes_of, find_mentions, tokenise

MOST_NAMED = 20  # passages of one name; a number is a name in every paper
_LONGEST = 300  # characters of a query that is a name
_MOST_PARTS = 9  # of an id: PL 1 DEST K 201 P 3 M 1
_NUMBERED = re.compile(
    r"(?P<kind>§|(?!\w\.\d)[^\W\d_]+(?:[ -](?!\w\.\d)[^\W\d_]+){0,2})\.?\s*"
    r"\(?(?P<number>(?:\d+|[a-z]|[ivxlc]+)(?:[.-](?:\d+|[a-z]))*[a-z']?)\)?"
    r"(?:\s*,?\s+(?:(?:of|in|from|aus|von|in)\s+)?(?P<title>.+))?",
    re.I,
)
_BARE = re.compile(  # 4.2, (4.2), 4.2 of Partitions
    r"(?:\((?P<equation>\d[\d.]*[a-z']?)\)|(?P<number>(?:\d+|[a-z])(?:\.\d+)+[a-z']?))"
    r"(?:\s*,?\s+(?:of|in|from|aus|von)\s+(?P<title>.+))?",
    re.I,
)
_RUN = re.compile(r"[^\W\d_]+|\d+")
_ALNUM = re.compile(r"[^\W_]+")
_SHORTEST_CODE = 4  # letters and digits, where no tree of locations tells that it is one; of digits alone, one more
_LONG_NUMBER = re.compile(
    rf"(?<![^\W_])(?<!\d[.,])\d{{{_SHORTEST_CODE + 1},}}(?<!000)(?![.,]?\d|\w)"
)  # of an order, no amount
_ALARM = re.compile(r"(?<![\w$\\^.-])(?=[^\W\d_]+[-./]?\d)[^\W_]+(?:[-./][^\W_]+)*(?![\w^{$])")  # F24, AL-12.3
_MOST_CODES = 2  # of a query
_RARE = 0.05  # share of the passages that may hold such a code
_MOST_PLACES = 8  # that a code may mean: P3 is the third pump of many units
_LIKELY = 0.7  # that `Pumpe 203` is the pump P203
_MOST_WORDS = 6  # of a query in which a code counts more than the words
_MOST_LOGS = 1000  # about what has a code, which are ranked by the words beside it
_WORD = re.compile(r"\w+")
_NAME_WORD = re.compile(r"[^\W_]+(?=['’]s\b)|(?<!['’])[^\W_]+")  # of `Hilbert's`, `Hilbert`
_CONNECTING = frozenset("a al an and at by cites citing de der des die et from in of on paper the und von".split())
_ALIKE = (  # kinds that people confuse
    tuple("theorem lemma proposition corollary conjecture claim fact construction".split()),
    tuple("definition notation convention".split()),
    tuple("example exercise problem question remark".split()),
)
_KINDS = {
    **dict.fromkeys(("§", "sec", "sect", "section", "subsection", "paragraph", "abschnitt"), ("section",)),
    **dict.fromkeys(("ch", "chap", "chapter", "kapitel", "chapitre"), ("chapter",)),
    **dict.fromkeys(("appendix", "anhang", "annexe"), ("chapter", "section")),
    **dict.fromkeys(("eq", "eqn", "equation", "formula", "gleichung", "formel"), ("equation",)),
    **dict.fromkeys(("fig", "figure", "abbildung"), ("figure",)),
    **dict.fromkeys(("tab", "table", "tabelle"), ("table",)),
    "ex": ("exercise", "example"),
    "rem": ("remark",),
    "part": ("part",),
}
# what a number alone means if no statement has it
_LESS_LIKELY = [(kind,) for kind in ("equation", "section", "chapter", "part", "figure", "table")]


def _spellings(text: str) -> list[str]:
    """How an id or a label may be written that somebody typed with another case or other signs between its parts."""
    parts, runs = _ALNUM.findall(text), _RUN.findall(text)
    signs = (*"-_.:/", "") if parts != runs else "-_.:/"  # nothing between them only where there are digits
    joined = [sign.join(each) for each in (parts, runs) if 1 < len(each) <= _MOST_PARTS for sign in signs]
    joined += [f"{parts[0]}:{sign.join(parts[1:])}" for sign in "-_" if 2 < len(parts) <= _MOST_PARTS]
    return [form for each in (text, *joined) for form in (each, each.lower(), each.upper())]


def named_rows(corpus: Corpus, text: str, allowed: Mask | None = None) -> list[int]:
    """The rows that a query names by id, label or number, in the order of the corpus; none for any other."""
    text = " ".join(text.split())
    if not text or len(text) > _LONGEST:
        return []
    names = [text]
    text = text.rstrip(".?!")
    names += _spellings(text)
    number, title = "", ""
    others: Sequence[tuple[str, ...]] = ()  # kinds to look for where there is none of these
    if match := _NUMBERED.fullmatch(text):
        number, title, word = match["number"], match["title"], match["kind"].casefold()
        kinds = _KINDS.get(word) or (kind_of(word),)
        names += (printed_name(kind, number) for kind in kinds)
        others = [group for group in _ALIKE if kinds[0] in group]  # people take a lemma for a theorem
    elif match := _BARE.fullmatch(text):
        number, title = match["equation"] or match["number"], match["title"]
        known = [("equation",)] if match["equation"] else [(kind,) for kind in corpus.kinds_numbered(number)]
        others = sorted(known, key=_LESS_LIKELY.__contains__)
    named = corpus.named(names)
    for group in () if named else others:
        named += corpus.named([printed_name(kind, number) for kind in group])
    words = set(_WORD.findall((title or "").casefold())) - {"the", "a", "on", "of", "in"}
    rows = dict.fromkeys(row for row, document in named if words <= set(_WORD.findall(document.casefold())))
    return [row for row in rows if allowed is None or allowed[row]][:MOST_NAMED]


def coded_rows(
    corpus: Corpus, text: str, names: Names, holding: Callable[[str, int], list[int]]
) -> tuple[list[int], str]:
    """Rows about what a code in a query stands for, the latest first, and the words that rank them, if there are any.

    A code is that of a location, however it is written (`p-203`, `Pumpe 203`), with a few words at most. Where no
    location has it, it is a word with letters and digits, or a long number, that is all of the query, or a long number
    with a few words (`order 4796224`); `holding` gives the rows that hold it. Where there are logs or texts, such as
    manuals, a word with letters and digits that few passages hold (`alarm F24`) is one, too.
    """
    mentions = [
        [
            (row, text[option.start : option.end])
            for row, option in mention.options.items()
            if option.strength >= _LIKELY
        ]
        for mention in find_mentions(names, text, tokenise(text))
        if mention.kind in ("code", "number")
    ]
    exact = {row: text for row, code in enumerate(names.tree.codes) if code.casefold() == text.casefold()}
    written = exact or dict(pair for mention in mentions for pair in mention)
    if not written:
        rows, words = _rare_rows(corpus, text, holding)
        if rows:
            return rows, words
        code = _squeezed(text)
        is_code = len(code) >= _SHORTEST_CODE + code.isdigit() and any(map(str.isdigit, code))
        rows = holding(code, _MOST_LOGS) if is_code else []
        numbers = _LONG_NUMBER.findall(text) if len(_WORD.findall(text)) <= _MOST_WORDS else []
        if rows or len(numbers) != 1:
            return rows, text
        named = [row for row, _ in corpus.named(numbers)]
        return named or holding(numbers[0], _MOST_LOGS), text.replace(numbers[0], " ")
    inner = {row for row in written if any(contains(names.tree, above, row) for above in written.keys() - {row})}
    places = (not exact and len(mentions) > 1 and inner) or written.keys()  # P3 at K201
    if len(places) > _MOST_PLACES or len(_WORD.findall(text)) > _MOST_WORDS:
        return [], ""
    codes = {_squeezed(each) for row in places for each in (written[row], *codes_of(names.tree, row))}
    logs = [row for code in codes if set(names.codes.get(code, [-1])) <= places for row in holding(code, _MOST_LOGS)]
    rows = corpus.reporting([names.tree.ids[row] for row in places], _MOST_LOGS, logs)
    for each in written.values():
        text = text.replace(each, " ")
    return rows, "" if _CONNECTING.issuperset(_WORD.findall(fold(text))) else text


def _rare_rows(corpus: Corpus, text: str, holding: Callable[[str, int], list[int]]) -> tuple[list[int], str]:
    """The rows with the codes of a query (`F24`) in text or a column: those with all of them, else with any; and what
    ranks them: the words beside them, or the codes alone.
    """
    codes = _ALARM.findall(text)
    is_short = len(set(_WORD.findall(fold(text))) - STOP_WORDS - GERMAN_STOP_WORDS) <= _MOST_WORDS
    if not 0 < len(codes) <= _MOST_CODES or not is_short or not corpus.has_codes:
        return [], ""
    typed, found = text, []
    most = min(_MOST_LOGS, max(MOST_NAMED, round(_RARE * len(corpus))))
    for code in codes:
        rows = holding(_squeezed(code), most + 1) or corpus.with_value(code, most + 1)
        if 0 < len(rows) <= most:
            found.append(set(rows))
            text = text.replace(code, " ")
    rows = sorted(set.intersection(*found) or set.union(*found)) if found else []
    return rows, typed if _CONNECTING.issuperset(_WORD.findall(fold(text))) else text


def _squeezed(text: str) -> str:
    return "".join(_ALNUM.findall(text)).casefold()


def labelled_rows(corpus: Corpus, text: str) -> list[int]:
    """The rows whose label has the name in a query, beside its kind: `thm:hilbert-basis` is Hilbert's basis theorem."""
    words = [word for word in _NAME_WORD.findall(fold(text)) if word not in _CONNECTING]
    kinds = [kind for word in words if (kind := kind_of(word)) in STATEMENTS]
    name = [word for word in words if kind_of(word) not in STATEMENTS]
    if not name or len(words) < 2 or len(words) > _MOST_WORDS:
        return []
    forms = [sign.join(form) for sign in ("-", "_", "") for form in (name, [word.capitalize() for word in name])]
    prefixes = [prefix for kind in kinds or STATEMENTS for prefix in short_names(kind)]
    labels = [f"{prefix}{sign}{form}" for prefix in prefixes for sign in ":-_" for form in forms]
    return [row for row, _ in corpus.named(labels)][:MOST_NAMED]


def titled_rows(
    corpus: Corpus, text: str, rows: Sequence[int], tokenize: Callable[[str], list[str]], is_word: Callable[[str], bool]
) -> list[int]:
    """Those of some rows whose title a query is, or that begin a document of this title or author.

    Equal words come before equal tokens ("lemma of Yoneda"), statements before documents, both before the first
    statement below a heading that names it with its kind. A statement may be named with its kind, and an author by the
    surname alone where it is no word of a passage (`is_word`).
    """
    words, tokens = _WORD.findall(fold(text)), set(tokenize(text))
    kinds = {kind_of(word) for word in words} & STATEMENTS
    headings: set[str] = set()
    if not tokens:
        return []
    is_name = len(words) > 1 or not is_word(text)

    def grade(kind: str, title: str, section: str, document: str, authors: Sequence[str]) -> int:
        grades = [4] if is_name and any(is_author(text, name) for name in authors) else []
        for first, names in ((0, (title, f"{title} {kind}") if title else ()), (1, (document,))):
            for name in names:
                if words == _WORD.findall(fold(name)):
                    grades.append(first)
                elif tokens == set(tokenize(name)):
                    grades.append(first + 2)
        if kind in kinds and section not in headings and tokens == set(tokenize(section.rpartition(" / ")[2])):
            headings.add(section)
            grades.append(5)
        return min(grades, default=-1)

    in_order = sorted(zip(rows, corpus.names(rows), range(len(rows)), strict=True))
    graded = [(grade(*names), place) for _, names, place in in_order]
    return [rows[place] for number, place in sorted(graded) if number >= 0][:MOST_NAMED]


_MOST_CITING = 10


def citing_rows(
    corpus: Corpus, text: str, is_word: Callable[[str], bool], allowed: Mask | None = None
) -> dict[int, str]:
    """The passages that cite a work which a query names, each with the entry of its bibliography.

    A query names a work by its title, by an author with words of the title or the year, or by an author alone whose
    name is no word of a passage (`is_word`). A work in the corpus comes before those that cite it, without an entry.
    """
    words = set(_WORD.findall(fold(text))) - _CONNECTING
    if not words or len(text) > _LONGEST:
        return {}
    rows: dict[int, str] = {}
    longest = max(_WORD.findall(text), key=len)
    for entry in corpus.bibliography_with(longest):
        if not _names_work(words, entry, is_word):
            continue
        if entry["target"]:
            rows |= dict.fromkeys(corpus.first_row(entry["target"]), "")
        year = str(entry["year"] or "")
        shown = ", ".join(filter(None, (entry["authors"], entry["title"], year))) if entry["title"] else entry["text"]
        for row in corpus.citing(entry["document"], entry["key"]):
            rows.setdefault(row, f"[{entry['key']}] {shown}")
    return dict([(row, entry) for row, entry in rows.items() if allowed is None or allowed[row]][:_MOST_CITING])


def _names_work(words: set[str], entry: Mapping[str, Any], is_word: Callable[[str], bool]) -> bool:
    before, _, after = entry["text"].partition(entry["title"] or ",")  # where names and titles were not recognised
    title = set(_WORD.findall(fold(entry["title"] or after))) - _CONNECTING
    authors = entry["authors"] or before
    people = [_WORD.findall(name) for name in fold(authors).split(",")]
    names = {name for person in people for name in person}
    if not words <= title | names | {str(entry["year"])}:
        return False
    if len(title & words) >= max(3, 0.8 * len(title)):
        return True
    surnames = {person[-1] for person in people if person} & words
    return bool(surnames) and (not words <= names or not any(map(is_word, surnames)))


def missing_number(corpus: Corpus, text: str) -> str:
    """What to tell somebody who asks for a number that nothing here has; empty for any other query."""
    name = " ".join(text.split()).rstrip(".?!")
    match = _NUMBERED.fullmatch(name) if len(name) <= _LONGEST else None
    if not match or not any(map(str.isdigit, match["number"])):  # "Yoneda lemma" is no "lemm" of number a
        return ""
    word = match["kind"].casefold()
    kind = kind_of(word)
    is_kind = word in _KINDS or any(kind in group for group in _ALIKE)
    is_kind = is_kind or corpus.has_names(printed_name(kind, ""))
    if not is_kind or named_rows(corpus, text):
        return ""
    return f"there is no {name} here: these are the nearest by meaning"


def put_first(named: list[int], rows: Integers, scores: Floats) -> Ranking:
    """A ranking (1, k) with the named rows in front, whose score is that of the best hit and one more."""
    others = ~np.isin(rows[0], named)
    best = float(scores[0, 0]) if rows.size and rows[0, 0] >= 0 else 0.0
    return (
        np.concatenate([np.array(named, rows.dtype), rows[0][others]])[None, :],
        np.concatenate([np.full(len(named), best + 1, scores.dtype), scores[0][others]])[None, :],
    )
