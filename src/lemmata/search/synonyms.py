"""Other words for those of a query: from a glossary of the user's, and abbreviations that passages introduce.

A passage introduces one as `long form (LF)` or `LF (long form)`. The letters of the short form have to stand in the
long one in their order, its first at the beginning (Schwartz and Hearst 2003).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from lemmata.core.errors import InputError
from lemmata.core.words import fold

_WORD = re.compile(r"[^\W_]+")
_BETWEEN = re.compile(r"[,;\t]|=>?")  # what people write between terms
_MOST_BYTES = 1 << 20  # of a glossary
_MOST_ADDED = 8  # terms for one query
_SHORT = re.compile(r"(?<![\w\\$^_{-])[A-ZÄÖÜ][A-ZÄÖÜ\d]{1,7}(?![\w^_}-])")
_BEFORE = re.compile(r"((?:[^\W_][\w'’-]*[ \n]+){1,9}[^\W_][\w'’-]*)[ \n]+\(([A-ZÄÖÜ][A-ZÄÖÜ\d]{1,7})s?\)")
_BEHIND = re.compile(r"(?<![\w\\$])([A-ZÄÖÜ][A-ZÄÖÜ\d]{1,7})[ \n]+\(([^\W\d_][\w'’ \n-]{3,80})\)")


class Glossary:
    """Groups of terms that mean the same: one group a line, its terms separated by commas, semicolons, tabs or `=`.

    `#` begins a comment.
    """

    def __init__(self, path: Path) -> None:
        self._groups: list[list[str]] = []
        if not path.is_file():
            return
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"a glossary has at most {_MOST_BYTES:,} bytes: shorten it", file=str(path))
        try:
            lines = path.read_text("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"the file is not UTF-8 ({error.reason}): save it as UTF-8", file=str(path)) from error
        for number, line in enumerate(lines, 1):
            terms = [" ".join(term.split()) for term in _BETWEEN.split(line.partition("#")[0])]
            terms = [term for term in terms if _folded(term).strip()]
            if len(terms) == 1:
                cure = "write two or more, separated by commas"
                raise InputError(
                    f"{terms[0]!r} stands alone, without another term: {cure}", file=str(path), line=number
                )
            self._groups += [terms] if terms else []

    def others(self, text: str) -> list[str]:
        """The terms of the groups of which a text has one."""
        folded = _folded(text)
        groups = [group for group in self._groups if any(_folded(term) in folded for term in group)]
        return [term for group in groups for term in group if _folded(term) not in folded]


def _folded(text: str) -> str:
    return f" {' '.join(_WORD.findall(fold(text)))} "


def introduced(text: str) -> dict[str, str]:
    """The abbreviations that a text introduces, each with its long form.

    >>> introduced("We use principal component analysis (PCA) and a PLC (programmable logic controller).")
    {'PCA': 'principal component analysis', 'PLC': 'programmable logic controller'}
    """
    pairs = [(short, long) for long, short in _BEFORE.findall(text)] + _BEHIND.findall(text)
    forms = {short: _long_form(" ".join(long.split()), short) for short, long in pairs}
    return {short: form for short, form in forms.items() if form}


def _long_form(words: str, short: str) -> str:
    """The end of some words whose letters hold those of a short form; empty where none does."""
    place = len(words)
    for letter in reversed(fold(short)):
        place -= 1
        first = letter == fold(short)[0]
        folded = fold(words[: place + 1])
        if len(folded) != place + 1:
            return ""  # a letter that folds to two
        while place >= 0 and (folded[place] != letter or (first and place and words[place - 1].isalnum())):
            place -= 1
        if place < 0:
            return ""
    form = words[place:]
    return form if " " in form or "-" in form or len(form) > 2 * len(short) + 2 else ""


def also_meant(
    text: str, glossary: Glossary, texts_with: Callable[[str], Sequence[str]], first_texts: Callable[[], Sequence[str]]
) -> list[str]:
    """Terms to search for besides a query: of the glossary, and the long or short forms of its abbreviations.

    `texts_with` gives texts that hold a word, `first_texts` those that a search for the query finds first.
    """
    terms = glossary.others(text)
    folded = _folded(text)
    for short in [] if text.isupper() and " " in text else dict.fromkeys(_SHORT.findall(text)):
        forms = (introduced(each).get(short, "") for each in texts_with(short))
        terms += [form for form in [next(filter(None, forms), "")] if form]
    if 2 <= len(folded.split()) <= 8 and not _SHORT.search(text):
        for each in first_texts():
            terms += [short for short, form in introduced(each).items() if _folded(form) in folded]
    return [term for term in dict.fromkeys(terms) if _folded(term) not in folded][:_MOST_ADDED]
