"""Did you mean: words of a query that no passage has, and the words of the corpus that are nearest to them.

The words are the terms of the lexical index, so jargon is known and nothing else is. An error is a letter that is
missing, extra, wrong or swapped with its neighbour (Damerau 1964).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from lemmata.core.words import GERMAN_FUNCTION_WORDS, fold, fold_german
from lemmata.encode.load import NANO, PACKAGED

if TYPE_CHECKING:
    from lemmata.search.lexical import LexicalIndex

SHORTEST = 4  # letters of a word that is corrected, and of those that correct it
_LONGEST = 24
_MOST_ERRORS = 2  # of a term; stems hide what is wrong at the end of a word
_LONG = 8  # letters from which on two errors are possible
_MOST = 8  # nearest words that are looked at
_TEXTS = 8  # with each of them, to see how it is written
_TEXTS_OF_STEM = 20  # the same where only its stem is known, which many words have
_LONGEST_ENDING = 8
_AROUND = 2000  # passages of a word that are looked at
_WORD = re.compile(r"(?<![\\\w$])[^\W\d_]{4,24}(?![\w^_])")
_FORMULA = re.compile(r"\$[^$]*\$")


class Spelling:
    """Terms of a corpus with the number of passages that hold each."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        self._by_length: dict[int, list[str]] = {}
        for term in counts:
            if SHORTEST <= len(term) <= _LONGEST:
                self._by_length.setdefault(len(term), []).append(term)

    def near(self, word: str) -> list[tuple[int, str]]:
        """The terms with one error, or with two after the first letter; the nearest, then the most frequent first."""
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        if not SHORTEST <= len(word) <= _LONGEST:
            return []
        near = []
        for length in range(len(word) - _MOST_ERRORS, len(word) + _MOST_ERRORS + 1):
            terms = self._by_length.get(length, [])
            for term, errors, _ in extract(word, terms, scorer=OSA.distance, score_cutoff=_MOST_ERRORS, limit=None):
                near.append((int(errors) + (term[0] != word[0]), -self._counts[term], term))
        return [(errors, term) for errors, _, term in sorted(near)[:_MOST] if errors <= _MOST_ERRORS]


def corrected(query: str, lexical: LexicalIndex, text_of: Callable[[int], str], is_known: Callable[[str], bool]) -> str:
    """The query with words of the corpus in the place of unknown ones; empty where nothing is to be corrected.

    `text_of` gives the text of a passage; `is_known` knows headings, too. Of words that are as near as each other, the
    one is taken that stands most often beside the other words of the query. Where half of the words would still be
    unknown, the query is nonsense, or about something else.
    """
    tokenize, rows_with = lexical.tokenizer, lexical.holding
    formulas = [match.span() for match in _FORMULA.finditer(query)]
    around: set[int] = set()
    unknown: list[tuple[re.Match[str], str]] = []
    known = corrections = 0
    for match in _WORD.finditer(query):
        tokens = tokenize(match[0])
        rows = [rows_with(token, _AROUND) for token in tokens]
        if any(rows) or is_known(match[0]):
            around.update(*rows)
            known += 1
        elif tokens and _may_be_wrong(match[0], query) and not any(a <= match.start() < b for a, b in formulas):
            unknown.append((match, tokens[0]))
    parts, end = [], 0
    for match, token in unknown:
        choices: list[tuple[int, int, int, str]] = []
        stems = _stems(match[0])
        # an error in the ending changes what is cut off: `probabilty` keeps more than `probability`
        further = [pair for stem in stems[:1] for pair in lexical.spelling.near(stem) if pair[0] < 2]
        near = [(term, _TEXTS) for _, term in (*lexical.spelling.near(token), *further)]
        for term, texts in (*near, *((stem, _TEXTS_OF_STEM) for stem in stems)):
            holding = rows_with(term, _AROUND)
            distance, word = _written(match[0], term, [text_of(row) for row in holding[:texts]], tokenize)
            beside = len(around.intersection(holding))
            if _may_be_meant(match[0], word, beside):
                choices.append((distance, -beside, len(choices), word))
        most = 1 if len(match[0]) < _LONG else _MOST_ERRORS
        if choices and (word := min(choices)[-1]) and min(choices)[0] <= most:
            parts += [query[end : match.start()], word]
            end = match.end()
            corrections += 1
    is_mostly_known = known + corrections > len(unknown) - corrections
    return "".join((*parts, query[end:])) if parts and is_mostly_known else ""


def _may_be_wrong(word: str, query: str) -> bool:
    """Not an abbreviation (RLIN, dLNs), nor an English word or a German function word that the corpus does not have."""
    is_written_out = word[1:].islower() or query.isupper()
    return is_written_out and word.casefold() not in _english_words() and fold_german(word) not in _german_words()


def _may_be_meant(typed: str, word: str, beside: int) -> bool:
    """Not an abbreviation for a word in small letters, nor another word of four letters for one of four.

    One letter makes a word out of many fours of random letters; such a word must stand `beside` others of the query.
    """
    if typed.islower() and not word[1:].islower():
        return False
    has_other_letters = sorted(fold(word)) != sorted(fold(typed))
    return beside > 0 or not (len(typed) == len(word) == SHORTEST and has_other_letters)


@cache
def _english_words() -> frozenset[str]:
    """The words that the tokens of lemmata-nano have, which are without capital letters."""
    tokenizer = json.loads((PACKAGED[NANO] / "tokenizer.json").read_text("utf-8"))
    return frozenset(tokenizer["model"]["vocab"])


@cache
def _german_words() -> frozenset[str]:
    return frozenset(map(fold_german, GERMAN_FUNCTION_WORDS))


def _stems(typed: str) -> list[str]:
    """What a word may begin with as a term: an error in its ending, as in `fermentaton`, hides the stem `ferment`."""
    word = fold(typed)
    return [word[:-cut] for cut in range(2, min(_LONGEST_ENDING, len(word) - SHORTEST) + 1)]


def _written(typed: str, term: str, texts: Sequence[str], tokenize: Callable[[str], list[str]]) -> tuple[int, str]:
    """A term as the texts write it, nearest to what was typed, and how far it is from that; empty without any."""
    from rapidfuzz.distance import OSA

    words = Counter(word for text in texts for word in _WORD.findall(text.lower() if text.isupper() else text))
    forms = [word for word in words if term in tokenize(word)]
    if not forms:
        return _LONGEST, ""
    distance, _, form = min((OSA.distance(fold(typed), fold(form)), -words[form], form) for form in forms)
    return distance, form if typed.istitle() else _as_typed(form, words)


def _as_typed(word: str, words: Counter[str]) -> str:
    """Without the capital of the beginning of a sentence where the texts also write it small."""
    small = word[0].lower() + word[1:]
    return small if words[small] else word
