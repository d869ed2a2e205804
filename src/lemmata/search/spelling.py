"""Did you mean: words of a query that no passage has, and the words of the corpus that are nearest to them.

The words are the terms of the lexical index, so jargon is known and nothing else is. A look at which letters two words
share leaves few of them, whose distance is then computed for all at once: a millisecond for a hundred thousand words.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lemmata.core.types import Integers
from lemmata.core.words import GERMAN_FUNCTION_WORDS, fold, fold_german
from lemmata.encode.load import NANO, PACKAGED

if TYPE_CHECKING:
    from lemmata.search.lexical import LexicalIndex

SHORTEST = 4  # letters of a word that is corrected, and of those that correct it
_LONGEST = 24
_MOST_ERRORS = 2  # of a term; stems hide what is wrong at the end of a word
_LONG = 8  # letters from which on two errors are possible
_MOST = 5  # nearest words that are looked at
_TEXTS = 8  # with each of them, to see how it is written
_TEXTS_OF_STEM = 20  # the same where only its stem is known, which many words have
_LONGEST_ENDING = 8
_AROUND = 2000  # passages of a word that are looked at
_WORD = re.compile(r"(?<![\\\w$])[^\W\d_]{4,24}(?![\w^_])")
_FORMULA = re.compile(r"\$[^$]*\$")


class Spelling:
    """Terms of a corpus with the number of passages that hold each."""

    def __init__(self, terms: Sequence[str], counts: Sequence[int]) -> None:
        self._terms = [term for term in terms if SHORTEST <= len(term) <= _LONGEST]
        self._counts = np.array([n for term, n in zip(terms, counts, strict=True) if SHORTEST <= len(term) <= _LONGEST])
        self._letters = _letters(self._terms)
        self._lengths = (self._letters > 0).sum(axis=1)
        self._masks = _masks(self._letters)

    def near(self, word: str) -> list[tuple[int, str]]:
        """The terms with one error, or with two after the first letter; the nearest, then the most frequent first."""
        if not self._terms or not SHORTEST <= len(word) <= _LONGEST:
            return []
        letters = _letters([word])
        own = _masks(letters)[0]
        close = np.abs(self._lengths - len(word)) <= _MOST_ERRORS
        close &= (_count_bits(self._masks & ~own) <= _MOST_ERRORS) & (_count_bits(own & ~self._masks) <= _MOST_ERRORS)
        places = np.flatnonzero(close)
        distances = _distances(word, self._letters[places], self._lengths[places])
        distances[self._letters[places, 0] != letters[0, 0]] += 1
        order = np.lexsort((-self._counts[places], distances))[:_MOST]
        return [(int(distances[n]), self._terms[places[n]]) for n in order.tolist() if distances[n] <= _MOST_ERRORS]


def _letters(words: Sequence[str]) -> npt.NDArray[np.uint32]:
    """The letters of words (n, longest) as numbers; 0 behind the last."""
    array = np.array(words or [""], f"U{_LONGEST}")
    return array.view(np.uint32).reshape(len(array), _LONGEST)[: len(words)]


def _masks(letters: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """A bit for each letter that a word holds."""
    bits = np.where(letters > 0, np.uint64(1) << (letters % 64).astype(np.uint64), np.uint64(0))
    return np.asarray(np.bitwise_or.reduce(bits, axis=1), np.uint64)


_BITS = np.array([number.bit_count() for number in range(256)], np.uint8)


def _count_bits(masks: npt.NDArray[np.uint64]) -> Integers:
    return np.asarray(_BITS[masks.view(np.uint8).reshape(len(masks), 8)].sum(axis=1))


def _distances(word: str, letters: npt.NDArray[np.uint32], lengths: Integers) -> Integers:
    """How many letters are missing, extra, wrong or swapped with their neighbour (Damerau 1964)."""
    word_letters = _letters([word])[0][: len(word)]
    width = int(lengths.max(initial=0))
    before = np.zeros((len(letters), width + 1), np.int64)
    row = np.tile(np.arange(width + 1), (len(letters), 1))
    for i, letter in enumerate(word_letters, 1):
        before, above = row, before
        row = np.empty_like(before)
        row[:, 0] = i
        for j in range(1, width + 1):
            wrong = before[:, j - 1] + (letters[:, j - 1] != letter)
            row[:, j] = np.minimum(np.minimum(row[:, j - 1], before[:, j]) + 1, wrong)
            if i > 1 and j > 1:
                swapped = (letters[:, j - 1] == word_letters[i - 2]) & (letters[:, j - 2] == letter)
                row[:, j] = np.where(swapped, np.minimum(row[:, j], above[:, j - 2] + 1), row[:, j])
    return np.asarray(row[np.arange(len(letters)), lengths])


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
    words = Counter(word for text in texts for word in _WORD.findall(text.lower() if text.isupper() else text))
    forms = [word for word in words if term in tokenize(word)]
    if not forms:
        return _LONGEST, ""
    letters = _letters([fold(word)[:_LONGEST] for word in forms])
    distances = _distances(fold(typed)[:_LONGEST], letters, (letters > 0).sum(axis=1)).tolist()
    best = min(range(len(forms)), key=lambda place: (distances[place], -words[forms[place]], forms[place]))
    return distances[best], forms[best] if typed.istitle() else _as_typed(forms[best], words)


def _as_typed(word: str, words: Counter[str]) -> str:
    """Without the capital of the beginning of a sentence where the texts also write it small."""
    small = word[0].lower() + word[1:]
    return small if words[small] else word
