"""Where a text names locations: by code, number, title, short form or with a slip, before anything is learned.

A number is never guessed: `P230` is not taken for `P203`, however alike they look. Words may be.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.plant.hierarchy import Tree, below
from lemmata.types import Integers
from lemmata.words import UMLAUTS
from lemmata.words import fold as fold_accents

__all__ = ["Mention", "Names", "Option", "Token", "find_mentions", "fold", "index_names", "similar_words", "tokenise"]

MOST_OPTIONS = 60  # of a mention; beyond, only the neighbourhood of what is known decides
MOST_PLACES_OF_A_WORD = 200  # a word in more titles says nothing without a neighbourhood
LONGEST_CODE = 10  # tokens: PL 1 DEST K 201 P 3 M 1 has nine
LEAST_COVERED = 0.3  # share of a title that must be there
LEAST_ALIKE = 0.5  # of two words
LETTERS_OF_A_START = 4
MOST_INITIALS = 5
TOKEN = re.compile(r"[^\W\d_]+|\d+")
SEPARATOR = re.compile(r"[\s\-–_/.:]{0,2}")
TITLE_CODE = re.compile(r"\b[A-Z]{1,4}[-_ ]?\d{1,6}(?:[-_ ]?[A-Z](?![^\W_]))?(?![^\W_])")
_UMLAUTS = UMLAUTS | str.maketrans({"æ": "ae", "ø": "oe"})


class Token(NamedTuple):
    """A run of letters or of digits, folded."""

    word: str
    start: int
    end: int


class Option(NamedTuple):
    """What a mention may mean, how well it fits (0 to 1), and which part of the text says so."""

    strength: float
    start: int
    end: int


class Mention(NamedTuple):
    """A place in a text that names one of several locations."""

    kind: str  # code, title, number, words, initials
    word: str  # the word beside a number; else ""
    options: Mapping[int, Option]  # by row of the tree


@dataclass(frozen=True, slots=True)
class Names:
    """All that locations are called, as an index; lists of rows are sorted."""

    tree: Tree
    codes: Mapping[str, Sequence[int]]  # id, its ends, codes and names in the title, without separators
    numbers: Mapping[str, Sequence[int]]
    initials: Mapping[str, Sequence[int]]
    words: Mapping[str, Sequence[int]]
    title_words: Sequence[tuple[str, ...]]  # of each row
    kinds: Sequence[str]  # letters of the row's own code: p for P203
    rarity: Mapping[str, float]  # of each title word
    starts: frozenset[str]  # first letters of all codes, up to four
    word_rows: Mapping[str, Integers]  # `words` as arrays
    title_weights: npt.NDArray[np.float64]  # (rows,): rarities of the title words together
    least_weights: npt.NDArray[np.float64]  # (rows,): of these, what must be there; infinite without a title
    by_gram: Mapping[str, Sequence[str]]
    by_start: Mapping[str, Sequence[str]]
    alike: dict[str, list[tuple[str, float]]] = field(default_factory=dict)  # what was asked before


def fold(text: str) -> str:
    """Without case, marks and umlauts: `ü` and `ue` become the same."""
    lower = text.casefold()
    if lower.isascii():
        return lower
    return fold_accents(unicodedata.normalize("NFC", lower).translate(_UMLAUTS))


_fold_word = lru_cache(maxsize=1 << 16)(fold)  # logs say the same words again and again


def tokenise(text: str) -> list[Token]:
    """Letters and digits apart, with their places in the text: `P-101 A` is p, 101, a."""
    return [Token(_fold_word(match[0]), *match.span()) for match in TOKEN.finditer(text)]


# ---------------------------------------------------------------- what locations are called


def index_names(tree: Tree) -> Names:
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
        plates = [_squeeze(found) for found in TITLE_CODE.findall(title)]
        own = (plates or segments[-1:] or [""])[0]
        kinds.append("".join(re.findall(r"^[^\W\d_]+(?=\d)", own)))
        for plate in [*plates, *segments[-1:]]:
            codes[plate].add(row)
            for number in re.findall(r"\d{2,}", plate):
                numbers[number].add(row)
        name = [token.word for token in tokenise(TITLE_CODE.sub(" ", title))]
        spelt = [word for word in name if len(word) > 1 and not word.isdigit()]
        title_words.append(tuple(dict.fromkeys(spelt)))
        for word in spelt:
            words[word].add(row)
        for key in (_squeeze(title), "".join(name)):
            if len(key) >= 4:
                codes[key].add(row)
        letters = "".join(word[0] for word in spelt)
        for length in range(2, len(letters) + 1):
            initials[letters[:length]].add(row)
    count = len(tree.ids)
    rarity = {word: log(1 + count / len(rows)) for word, rows in words.items()}
    title_weights = np.array([sum(rarity[word] for word in own) for own in title_words], np.float64)
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
        words=_sorted(words),
        title_words=title_words,
        kinds=kinds,
        rarity=rarity,
        starts=frozenset(key[:length] for key in codes for length in range(1, LETTERS_OF_A_START + 1)),
        word_rows={word: np.array(sorted(rows), np.int64) for word, rows in words.items()},
        title_weights=title_weights,
        least_weights=np.where(title_weights > 0, LEAST_COVERED * title_weights, np.inf),
        by_gram=by_gram,
        by_start=by_start,
    )


def _squeeze(text: str) -> str:
    return "".join(token.word for token in tokenise(text))


def _sorted(index: Mapping[str, set[int]]) -> dict[str, list[int]]:
    return {key: sorted(rows) for key, rows in index.items()}


# ---------------------------------------------------------------- words with slips, and short forms


def _grams(word: str) -> set[str]:
    padded = f"^{word}$"
    return {padded[at : at + 3] for at in range(len(padded) - 2)}


def similar_words(names: Names, word: str) -> list[tuple[str, float]]:
    """Words of titles that `word` may stand for, with their likeness from 0.5 to 1, best first."""
    if word not in names.alike:
        found: dict[str, float] = {word: 1.0} if word in names.words else {}
        grams = _grams(word)
        shared = Counter(gram for own in grams for gram in names.by_gram.get(own, ()))
        if len(word) >= 4:
            for other, common in shared.items():
                likeness = 2 * common / (len(grams) + len(other))  # a word of n letters has n padded trigrams
                if other.endswith(word) or (word.endswith(other) and len(other) >= 4):  # compounds: Rücklauf-pumpe
                    likeness = max(likeness, _share(word, other))
                found[other] = max(found.get(other, 0.0), likeness)
        for other in names.by_start.get(word[:1], ()):
            likeness = found.get(other, 0.0)
            if (len(word) >= 3 and other.startswith(word)) or (len(other) >= 4 and word.startswith(other)):
                likeness = max(likeness, _share(word, other))
            elif 2 <= len(word) < len(other) and _is_skeleton(word, other):
                likeness = max(likeness, 0.6)
            if likeness:
                found[other] = likeness
        best = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
        names.alike[word] = [pair for pair in best if pair[1] >= LEAST_ALIKE][:10]
    return names.alike[word]


def _share(one: str, two: str) -> float:
    return 0.5 + 0.5 * min(len(one), len(two)) / max(len(one), len(two))


def _is_skeleton(short: str, word: str) -> bool:
    """Whether `short` keeps only consonants of the word behind its first letter, in order: pmp, vlv."""
    if any(letter in "aeiou" for letter in short[1:]):
        return False
    letters = iter(word)
    return all(letter in letters for letter in short)


# ---------------------------------------------------------------- mentions in a text


def find_mentions(
    names: Names, text: str, tokens: Sequence[Token], anchors: Sequence[int] = (), *, fuzzy: bool = True
) -> list[Mention]:
    """Everything in a text that may name a location; `anchors` are rows known to be near.

    What means too many locations is read as one near the anchors, or near another code of the text that is
    clear, else passed over. Without `fuzzy` only exact codes and titles are found.
    """
    exact = _exact(names, text, tokens)
    clear = [rows[0] for _, _, rows in exact if len(rows) == 1]
    near = list(dict.fromkeys([*anchors, *clear]))
    mentions: list[Mention] = []
    covered: list[tuple[int, int]] = []
    for first, last, rows in exact:
        start, end = tokens[first].start, tokens[last].end
        options = _some(names.tree, rows, near, MOST_OPTIONS)
        covered.append((first, last))
        if options:
            kind = "code" if any(token.word.isdigit() for token in tokens[first : last + 1]) else "title"
            mentions.append(Mention(kind, "", {row: Option(1.0, start, end) for row in options}))
    if fuzzy:
        taken = {at for first, last in covered for at in range(first, last + 1)}
        mentions += _numbered(names, text, tokens, taken, near)
        mentions += _initialled(names, text, tokens, taken, near)
        mentions += _worded(names, tokens, near)
    return mentions


def _some(tree: Tree, rows: Sequence[int], near: Iterable[int], most: int) -> Sequence[int]:
    """All rows where they are few; else those below an anchor, or below its parent."""
    if len(rows) <= most:
        return rows
    found: set[int] = set()
    for anchor in near:
        inside = below(tree, anchor, rows)
        if not inside and tree.parent[anchor] >= 0:
            inside = below(tree, tree.parent[anchor], rows)
        if len(inside) <= most:
            found.update(inside)
    return sorted(found)


def _exact(names: Names, text: str, tokens: Sequence[Token]) -> list[tuple[int, int, Sequence[int]]]:
    """First and last token and the rows of each code or title; none lies inside another."""
    found: list[tuple[int, int, Sequence[int]]] = []
    reach = -1
    for first in range(len(tokens)):
        key = ""
        best: tuple[int, int, Sequence[int]] | None = None
        for last in range(first, min(first + LONGEST_CODE, len(tokens))):
            if last > first and not _joined(text, tokens[last - 1], tokens[last]):
                break
            key += tokens[last].word
            if key[:LETTERS_OF_A_START] not in names.starts:
                break
            rows = names.codes.get(key)
            if rows and not _goes_on(tokens, last):
                best = (first, last, rows)
        if best and best[1] > reach:
            found.append(best)
            reach = best[1]
    return found


def _joined(text: str, one: Token, two: Token) -> bool:
    return SEPARATOR.fullmatch(text, one.end, two.start) is not None


def _goes_on(tokens: Sequence[Token], last: int) -> bool:
    """Whether a single letter sticks to the number: P101A is not P101."""
    if last + 1 == len(tokens) or not tokens[last].word.isdigit():
        return False
    following = tokens[last + 1]
    return following.start == tokens[last].end and len(following.word) == 1


def _numbered(
    names: Names, text: str, tokens: Sequence[Token], taken: set[int], near: Sequence[int]
) -> Iterable[Mention]:
    """A word and a number, such as `Pu. 203`; the likeness of the word to a title is the strength."""
    for at in range(1, len(tokens)):
        word, number = tokens[at - 1], tokens[at]
        rows = names.numbers.get(number.word)
        if at in taken or not rows or word.word.isdigit() or not _joined(text, word, number):
            continue
        likeness = dict(similar_words(names, word.word))
        options = {}
        for row in _some(names.tree, rows, near, MOST_OPTIONS):
            strength = max((likeness.get(other, 0.0) for other in names.title_words[row]), default=0.0)
            if names.kinds[row] and word.word.startswith(names.kinds[row]):
                strength = max(strength, 0.5)
            options[row] = Option(strength, word.start, number.end)
        if options:
            yield Mention("number", word.word, options)


def _initialled(
    names: Names, text: str, tokens: Sequence[Token], taken: set[int], near: Sequence[int]
) -> Iterable[Mention]:
    """`A/C` or `AC` for air conditioning: capitals that are the first letters of a title."""
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
            options = _some(names.tree, rows, near, MOST_OPTIONS)
            if options:
                yield Mention("initials", "", {row: Option(0.5, start, end) for row in options})
        first = last + 1


def _worded(names: Names, tokens: Sequence[Token], near: Sequence[int]) -> Iterable[Mention]:
    """Locations whose title is there word by word, slips and short forms allowed, in any order."""
    best: dict[str, tuple[float, int]] = {}
    for at, token in enumerate(tokens):
        if len(token.word) < 2 or token.word.isdigit():
            continue
        for word, likeness in similar_words(names, token.word):
            if likeness > best.get(word, (0.0, at))[0]:
                best[word] = (likeness, at)
    if not best:
        return
    places = [_places_of_word(names, word, near) for word in best]
    lengths = [len(rows) for rows in places]
    rows = np.concatenate(places)
    which = np.repeat(np.arange(len(places)), lengths)
    weights = np.array([names.rarity[word] * likeness for word, (likeness, _) in best.items()])[which]
    total = np.bincount(rows, weights, len(names.title_weights))
    kept = np.flatnonzero(total >= names.least_weights)
    shares = np.minimum(total[kept] / names.title_weights[kept], 1.0)
    order = np.lexsort((kept, -shares))[:MOST_OPTIONS]
    covered: dict[int, dict[int, float]] = {row: {} for row in kept[order].tolist()}  # row: token: weight
    inside = np.zeros(len(total), bool)
    inside[kept[order]] = True
    chosen = np.flatnonzero(inside[rows])
    said = np.array([at for _, at in best.values()])[which[chosen]]
    for row, at, weight in zip(rows[chosen].tolist(), said.tolist(), weights[chosen].tolist(), strict=True):
        covered[row][at] = covered[row].get(at, 0.0) + weight
    options = {}
    for (row, own), share in zip(covered.items(), shares[order].tolist(), strict=True):
        first, last = _heaviest_run(own)
        options[row] = Option(share, tokens[first].start, tokens[last].end)
    if options:
        yield Mention("words", "", options)


def _places_of_word(names: Names, word: str, near: Sequence[int]) -> Integers:
    rows = names.word_rows[word]
    if len(rows) <= MOST_PLACES_OF_A_WORD:
        return rows
    return np.array(_some(names.tree, names.words[word], near, MOST_PLACES_OF_A_WORD), np.int64)


def _heaviest_run(weights: Mapping[int, float]) -> tuple[int, int]:
    """First and last of the neighbouring tokens that weigh most; words far apart are no one mention."""
    if len(weights) == 1:
        (only,) = weights
        return only, only
    runs: list[tuple[float, int, int]] = []
    for at in sorted(weights):
        weight, first, last = runs[-1] if runs else (0.0, at, -2)
        if at == last + 1:
            runs[-1] = (weight + weights[at], first, at)
        else:
            runs.append((weights[at], at, at))
    _, first, last = max(runs, key=lambda run: (run[0], -run[1]))
    return first, last
