"""What a query names: a passage by id, label, title or number ("Theorem 4.2 of Partitions"), or a cited work."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lemmata.core.types import Floats, Integers, Mask, Ranking, printed_name
from lemmata.core.words import fold, is_author
from lemmata.corpus.corpus import Corpus
from lemmata.latex.kinds import kind_of

_MOST = 20  # passages of one name; a number is a name in every paper
_LONGEST = 300  # characters of a query that is a name
_NUMBERED = re.compile(
    r"(?P<kind>§|[^\W\d_]+(?: [^\W\d_]+){0,2})\.?\s*"
    r"\(?(?P<number>(?:\d+|[a-z]|[ivxlc]+)(?:[.-](?:\d+|[a-z]))*[a-z']?)\)?"
    r"(?:\s*,?\s+(?:(?:of|in|from|aus|von|in)\s+)?(?P<title>.+))?",
    re.I,
)
_WORD = re.compile(r"\w+")
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


def named_rows(corpus: Corpus, text: str, allowed: Mask | None = None) -> list[int]:
    """The rows that a query names, in the order of the corpus, or the logs about a location; none for any other."""
    text = " ".join(text.split()).rstrip(".?!")
    if not text or len(text) > _LONGEST:
        return []
    names = [text]
    kinds: tuple[str, ...] = ()
    words: set[str] = set()
    if match := _NUMBERED.fullmatch(text):
        word = match["kind"].casefold()
        kinds = _KINDS.get(word) or (kind_of(word),)
        names += (printed_name(kind, match["number"]) for kind in kinds)
        words = set(_WORD.findall((match["title"] or "").casefold())) - {"the", "a", "on", "of", "in"}
    named = corpus.named(names)
    if not named and match:  # people remember the number, and take a lemma for a theorem
        alike = next((group for group in _ALIKE if kinds[0] in group), ())
        named = corpus.named([printed_name(kind, match["number"]) for kind in alike])
    rows = [row for row, document in named if not words or words <= set(_WORD.findall(document.casefold()))]
    rows = rows or corpus.reporting(text, _MOST)
    return [row for row in rows if allowed is None or allowed[row]][:_MOST]


def titled_rows(
    corpus: Corpus, text: str, rows: Sequence[int], tokenize: Callable[[str], list[str]], is_word: Callable[[str], bool]
) -> list[int]:
    """Those of some rows whose title a query is, or that begin a document of this title or author.

    Equal words come before equal tokens ("lemma of Yoneda"), statements before documents. A statement may be named with
    its kind, and an author by the surname alone where it is no word of a passage (`is_word`).
    """
    words, tokens = _WORD.findall(fold(text)), set(tokenize(text))
    if not tokens:
        return []
    is_name = len(words) > 1 or not is_word(text)

    def grade(kind: str, title: str, document: str, authors: Sequence[str]) -> int:
        grades = [4] if is_name and any(is_author(text, name) for name in authors) else []
        for first, names in ((0, (title, f"{title} {kind}") if title else ()), (1, (document,))):
            for name in names:
                if words == _WORD.findall(fold(name)):
                    grades.append(first)
                elif tokens == set(tokenize(name)):
                    grades.append(first + 2)
        return min(grades, default=-1)

    graded = [(grade(*names), place) for place, names in enumerate(corpus.names(rows))]
    return [rows[place] for number, place in sorted(graded) if number >= 0][:_MOST]


_CONNECTING = frozenset("a al an and by cites citing de der des die et from in of on paper the und von".split())
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
    word = match["kind"].casefold() if match else ""
    kind = kind_of(word)
    is_kind = word in _KINDS or any(kind in group for group in _ALIKE)
    is_kind = is_kind or bool(word and corpus.has_names(printed_name(kind, "")))
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
