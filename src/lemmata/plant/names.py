"""Mentions of locations in a text: by code, number, title, abbreviation or with a typo; nothing here is learned.

A number is never guessed: `P230` is not taken for `P203`, however similar they look. Words may be.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from math import log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.types import Integers
from lemmata.core.words import UMLAUTS
from lemmata.core.words import fold as fold_accents
from lemmata.plant.hierarchy import Hierarchy, below

MOST_OPTIONS = 60  # of a mention; with more, only those near an anchor count
MOST_ROWS_OF_A_WORD = 200  # a word in more titles only counts near an anchor
LONGEST_CODE = 10  # tokens: PL 1 DEST K 201 P 3 M 1 has nine
LEAST_COVERED = 0.3  # share of a title that must be mentioned
LEAST_SIMILARITY = 0.5  # of two words
PREFIX = 4  # characters
MOST_INITIALS = 5
TOKEN = re.compile(r"[^\W\d_]+|\d+")
SEPARATOR = re.compile(r"[\s\-–_/.:]{0,2}")
TITLE_CODE = re.compile(r"\b[A-Z]{1,4}[-_ ]?\d{1,6}(?:[-_ ]?[A-Z](?![^\W_]))?(?![^\W_])")
_UMLAUTS = UMLAUTS | str.maketrans({"æ": "ae", "ø": "oe"})
Rows = Sequence[int] | Integers


class Token(NamedTuple):
    """A run of letters or of digits, folded."""

    word: str
    start: int
    end: int


class Option(NamedTuple):
    """How well a location fits a mention (0 to 1), and the part of the text that mentions it."""

    strength: float
    start: int
    end: int


class Mention(NamedTuple):
    """A part of a text that names one of several locations."""

    kind: str  # code, title, number, words, initials
    word: str  # the word before a number; else ""
    options: Mapping[int, Option]  # by row of the tree


@dataclass(frozen=True, slots=True)
class Names:
    """All names of locations as an index; lists of rows are sorted."""

    tree: Hierarchy
    codes: Mapping[str, Sequence[int]]  # id, its suffixes, codes and names in the title, without separators
    numbers: Mapping[str, Sequence[int]]
    initials: Mapping[str, Sequence[int]]
    word_rows: Mapping[str, Integers]  # rows by word of the title
    title_words: Sequence[tuple[str, ...]]  # of each row
    kinds: Sequence[str]  # letters of the row's own code: p for P203
    rarity: Mapping[str, float]  # idf of each title word
    prefixes: frozenset[str]  # of all codes, up to PREFIX characters
    title_weights: npt.NDArray[np.float64]  # (rows,): sum of the rarities of the title words
    least_weights: npt.NDArray[np.float64]  # (rows,): the part that must be mentioned; infinite without a title
    by_gram: Mapping[str, Sequence[str]]
    by_start: Mapping[str, Sequence[str]]
    cache: dict[str, list[tuple[str, float]]] = field(default_factory=dict)  # of `similar_words`


def codes_of(tree: Hierarchy, row: int) -> list[str]:
    """How logs write the code of a location: its plate, its last two parts, all of it."""
    code = tree.codes[row]
    return [*TITLE_CODE.findall(tree.titles[row]), "-".join(re.split(r"[\W_]+", code)[-2:]), code]


def fold(text: str) -> str:
    """Without case and accents; umlauts become two letters, so that `ü` equals `ue`."""
    lower = text.casefold()
    if lower.isascii():
        return lower
    return fold_accents(unicodedata.normalize("NFC", lower).translate(_UMLAUTS))


_fold_word = lru_cache(maxsize=1 << 16)(fold)  # logs repeat the same words


def tokenise(text: str) -> list[Token]:
    """Runs of letters and runs of digits with their positions: `P-101 A` is p, 101, a."""
    return [Token(_fold_word(match[0]), *match.span()) for match in TOKEN.finditer(text)]


# ---------------------------------------------------------------- names of locations


def index_names(tree: Hierarchy) -> Names:
    codes: dict[str, set[int]] = defaultdict(set)
    numbers: dict[str, set[int]] = defaultdict(set)
    initials: dict[str, set[int]] = defaultdict(set)
    words: dict[str, set[int]] = defaultdict(set)
    title_words: list[tuple[str, ...]] = []
    kinds: list[str] = []
    for row, (code, title) in enumerate(zip(tree.codes, tree.titles, strict=True)):
        segments = [segment for part in re.split(r"[\W_]+", code) if (segment := _squeeze(part))]
        for start in range(len(segments)):
            key = "".join(segments[start:])
            if len(key) >= 3 or (len(key) >= 2 and not key.isalpha()):
                codes[key].add(row)
        plates = [_squeeze(plate) for plate in TITLE_CODE.findall(title)]
        main_code = (plates or segments[-1:] or [""])[0]
        kinds.append("".join(re.findall(r"^[^\W\d_]+(?=\d)", main_code)))
        for plate in [*plates, *segments[-1:]]:
            codes[plate].add(row)
            for number in re.findall(r"\d{2,}", plate):
                numbers[number].add(row)
        name = [token.word for token in tokenise(TITLE_CODE.sub(" ", title))]
        long_words = [word for word in name if len(word) > 1 and not word.isdigit()]
        title_words.append(tuple(dict.fromkeys(long_words)))
        for word in long_words:
            words[word].add(row)
        for key in (_squeeze(title), "".join(name)):
            if len(key) >= 4:
                codes[key].add(row)
        letters = "".join(word[0] for word in long_words)
        for length in range(2, len(letters) + 1):
            initials[letters[:length]].add(row)
    count = len(tree.ids)
    rarity = {word: log(1 + count / len(rows)) for word, rows in words.items()}
    title_weights = np.array([sum(rarity[word] for word in title) for title in title_words], np.float64)
    by_gram: dict[str, list[str]] = defaultdict(list)
    by_start: dict[str, list[str]] = defaultdict(list)
    for word in sorted(words):
        by_start[word[0]].append(word)
        for gram in _grams(word):
            by_gram[gram].append(word)
    return Names(
        tree=tree,
        codes=_sorted(codes),
        numbers=_sorted(numbers),
        initials=_sorted(initials),
        word_rows={word: np.array(sorted(rows), np.int64) for word, rows in words.items()},
        title_words=title_words,
        kinds=kinds,
        rarity=rarity,
        prefixes=frozenset(key[:length] for key in codes for length in range(1, PREFIX + 1)),
        title_weights=title_weights,
        least_weights=np.where(title_weights > 0, LEAST_COVERED * title_weights, np.inf),
        by_gram=by_gram,
        by_start=by_start,
    )


def _squeeze(text: str) -> str:
    return "".join(token.word for token in tokenise(text))


def location_meant(name: str, known: Sequence[str]) -> str:
    """The one known location with the letters and digits of a name, `SH1-P03` for `sh1+p03`; else the name itself."""
    for spell in (str.casefold, _squeeze):
        spelled = spell(name)
        if alike := [location for location in known if spell(location) == spelled]:
            return alike[0] if len(alike) == 1 else name
    return name


def _sorted(index: Mapping[str, set[int]]) -> dict[str, list[int]]:
    return {key: sorted(rows) for key, rows in index.items()}


# ---------------------------------------------------------------- typos and abbreviations


def _grams(word: str) -> set[str]:
    padded = f"^{word}$"
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


def similar_words(names: Names, word: str) -> list[tuple[str, float]]:
    """Words of titles that `word` may stand for, with their similarity from 0.5 to 1, best first."""
    if word not in names.cache:
        matches: dict[str, float] = {word: 1.0} if word in names.word_rows else {}
        grams = _grams(word)
        shared = Counter(other for gram in grams for other in names.by_gram.get(gram, ()))
        if len(word) >= 4:
            for other, common in shared.items():
                similarity = 2 * common / (len(grams) + len(other))  # a word of n letters has n padded trigrams
                if other.endswith(word) or (word.endswith(other) and len(other) >= 4):  # compounds: Rücklauf-pumpe
                    similarity = max(similarity, _length_ratio(word, other))
                matches[other] = max(matches.get(other, 0.0), similarity)
        for other in names.by_start.get(word[:1], ()):
            similarity = matches.get(other, 0.0)
            if (len(word) >= 3 and other.startswith(word)) or (len(other) >= 4 and word.startswith(other)):
                similarity = max(similarity, _length_ratio(word, other))
            elif 2 <= len(word) < len(other) and _is_skeleton(word, other):
                similarity = max(similarity, 0.6)
            if similarity:
                matches[other] = similarity
        best = sorted(matches.items(), key=lambda pair: (-pair[1], pair[0]))
        names.cache[word] = [pair for pair in best if pair[1] >= LEAST_SIMILARITY][:10]
    return names.cache[word]


def _length_ratio(first: str, second: str) -> float:
    return 0.5 + 0.5 * min(len(first), len(second)) / max(len(first), len(second))


def _is_skeleton(short: str, word: str) -> bool:
    """Whether `short` is the first letter of the word and then some of its consonants, in order: pmp, vlv."""
    if any(letter in "aeiou" for letter in short[1:]):
        return False
    letters = iter(word)
    return all(letter in letters for letter in short)


# ---------------------------------------------------------------- mentions in a text


def find_mentions(names: Names, text: str, tokens: Sequence[Token], anchors: Sequence[int] = ()) -> list[Mention]:
    """Everything in a text that may name a location; `anchors` are rows known to be near.

    A mention with too many options is limited to those near an anchor or near an unambiguous code of the
    text, else ignored.
    """
    exact = _exact(names, text, tokens)
    nearby_rows = list(dict.fromkeys([*anchors, *(rows[0] for _, _, rows in exact if len(rows) == 1)]))
    mentions: list[Mention] = []
    for first, last, rows in exact:
        start, end = tokens[first].start, tokens[last].end
        if options := _limited(names.tree, rows, nearby_rows, MOST_OPTIONS):
            kind = "code" if any(token.word.isdigit() for token in tokens[first : last + 1]) else "title"
            mentions.append(Mention(kind, "", {row: Option(1.0, start, end) for row in options}))
    taken = {position for first, last, _ in exact for position in range(first, last + 1)}
    mentions += _numbered(names, text, tokens, taken, nearby_rows)
    mentions += _initialled(names, text, tokens, taken, nearby_rows)
    mentions += _worded(names, tokens, nearby_rows)
    return mentions


def _limited(tree: Hierarchy, rows: Rows, near: Iterable[int], most: int) -> Rows:
    """All rows if they are few; else those below an anchor, or below its parent."""
    if len(rows) <= most:
        return rows
    limited: set[int] = set()
    for anchor in near:
        inside = below(tree, anchor, rows)
        if not len(inside) and tree.parent[anchor] >= 0:
            inside = below(tree, tree.parent[anchor], rows)
        if len(inside) <= most:
            limited.update(inside)
    return sorted(limited)


def _exact(names: Names, text: str, tokens: Sequence[Token]) -> list[tuple[int, int, Sequence[int]]]:
    """First and last token and the rows of each code or title; none lies inside another."""
    matches: list[tuple[int, int, Sequence[int]]] = []
    reach = -1
    for first in range(len(tokens)):
        key = ""
        best: tuple[int, int, Sequence[int]] | None = None
        for last in range(first, min(first + LONGEST_CODE, len(tokens))):
            if last > first and not _joined(text, tokens[last - 1], tokens[last]):
                break
            key += tokens[last].word
            if key[:PREFIX] not in names.prefixes:
                break
            rows = names.codes.get(key)
            if rows and not _continues(tokens, last):
                best = (first, last, rows)
        if best and best[1] > reach:
            matches.append(best)
            reach = best[1]
    return matches


def _joined(text: str, first: Token, second: Token) -> bool:
    return SEPARATOR.fullmatch(text, first.end, second.start) is not None


def _continues(tokens: Sequence[Token], last: int) -> bool:
    """Whether a single letter follows the number directly: P101A is not P101."""
    if last + 1 == len(tokens) or not tokens[last].word.isdigit():
        return False
    following = tokens[last + 1]
    return following.start == tokens[last].end and len(following.word) == 1


def _numbered(
    names: Names, text: str, tokens: Sequence[Token], taken: set[int], near: Sequence[int]
) -> Iterable[Mention]:
    """A word and a number, such as `Pu. 203`; the strength is the similarity of the word to a word of the title."""
    for position in range(1, len(tokens)):
        word, number = tokens[position - 1], tokens[position]
        rows = names.numbers.get(number.word)
        if position in taken or not rows or word.word.isdigit() or not _joined(text, word, number):
            continue
        similarity = dict(similar_words(names, word.word))
        options = {}
        for row in _limited(names.tree, rows, near, MOST_OPTIONS):
            strength = max((similarity.get(other, 0.0) for other in names.title_words[row]), default=0.0)
            if names.kinds[row] and word.word.startswith(names.kinds[row]):
                strength = max(strength, 0.5)
            options[row] = Option(strength, word.start, number.end)
        if options:
            yield Mention("number", word.word, options)


def _initialled(
    names: Names, text: str, tokens: Sequence[Token], taken: set[int], near: Sequence[int]
) -> Iterable[Mention]:
    """`A/C` or `AC` for air conditioning: capitals that are the initials of a title."""
    first = 0
    while first < len(tokens):
        if len(tokens[first].word) > MOST_INITIALS:
            first += 1
            continue
        last = first
        while (
            last + 1 < len(tokens)
            and len(tokens[first].word) == 1
            and len(tokens[last + 1].word) == 1
            and not tokens[last + 1].word.isdigit()
            and _joined(text, tokens[last], tokens[last + 1])
        ):
            last += 1
        letters = "".join(token.word for token in tokens[first : last + 1])
        rows = names.initials.get(letters) if 2 <= len(letters) <= MOST_INITIALS else None
        start, end = tokens[first].start, tokens[last].end
        if rows and first not in taken and text[start:end].upper() == text[start:end]:
            options = _limited(names.tree, rows, near, MOST_OPTIONS)
            if options:
                yield Mention("initials", "", {row: Option(0.5, start, end) for row in options})
        first = last + 1


def _worded(names: Names, tokens: Sequence[Token], near: Sequence[int]) -> Iterable[Mention]:
    """Locations whose title is mentioned word by word, with typos and abbreviations, in any order."""
    best: dict[str, tuple[float, int]] = {}
    for position, token in enumerate(tokens):
        if len(token.word) < 2 or token.word.isdigit():
            continue
        for word, similarity in similar_words(names, token.word):
            if similarity > best.get(word, (0.0, position))[0]:
                best[word] = (similarity, position)
    if not best:
        return
    rows_of_words = [
        np.asarray(_limited(names.tree, names.word_rows[word], near, MOST_ROWS_OF_A_WORD), np.int64) for word in best
    ]
    rows = np.concatenate(rows_of_words)
    word_number = np.repeat(np.arange(len(best)), [len(of_word) for of_word in rows_of_words])
    weights = np.array([names.rarity[word] * similarity for word, (similarity, _) in best.items()])[word_number]
    total = np.bincount(rows, weights, len(names.title_weights))
    enough = np.flatnonzero(total >= names.least_weights)
    shares = np.minimum(total[enough] / names.title_weights[enough], 1.0)
    order = np.lexsort((enough, -shares))[:MOST_OPTIONS]
    covered: dict[int, Counter[int]] = {row: Counter() for row in enough[order].tolist()}  # row: token: weight
    chosen = np.flatnonzero(np.isin(rows, enough[order]))
    token_of = np.array([position for _, position in best.values()])[word_number[chosen]]
    for row, position, weight in zip(rows[chosen].tolist(), token_of.tolist(), weights[chosen].tolist(), strict=True):
        covered[row][position] += weight
    options = {}
    for (row, token_weights), share in zip(covered.items(), shares[order].tolist(), strict=True):
        first, last = _heaviest_run(token_weights)
        options[row] = Option(share, tokens[first].start, tokens[last].end)
    if options:
        yield Mention("words", "", options)


def _heaviest_run(weights: Mapping[int, float]) -> tuple[int, int]:
    """First and last of the adjacent tokens that weigh most; words far apart are not one mention."""
    adjacent = groupby(enumerate(sorted(weights)), lambda pair: pair[1] - pair[0])
    runs = [[position for _, position in run] for _, run in adjacent]
    heaviest = max(runs, key=lambda run: sum(weights[position] for position in run))
    return heaviest[0], heaviest[-1]
