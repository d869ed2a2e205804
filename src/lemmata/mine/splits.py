"""Which part of a split each passage and each concept belongs to, decided before anything is mined.

Knows ids, documents, dates and names, not texts: which texts are alike is told in the outline.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from lemmata.config import suggest
from lemmata.errors import ConfigError, InputError
from lemmata.leakage import Sketches, chosen, distinct, find_twins, near_pairs, sketch
from lemmata.store.split import LEFT_OUT, PARTS, Parts, Split
from lemmata.types import Concept, Graph, Integers, Mask
from lemmata.words import GERMAN_LINKING_WORDS, LINKING_WORDS, QUESTION_WORDS, fold, singular

__all__ = [
    "Outline",
    "Outlined",
    "SplitOptions",
    "asked_keys",
    "name_key",
    "outline",
    "split_concepts",
    "split_corpus",
]

TRAIN, VALIDATION, TEST = range(3)
METHODS = ("document", "concept", "time", "stratified")
BOILERPLATE = 50  # documents that share a text; beyond, it tells nothing about any two of them
NOT_STATEMENTS = frozenset(("chunk", "abstract"))


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How a corpus is parted; shares are of rows (by time: of all rows; stratified: of statements)."""

    CHOICES: ClassVar = {"method": METHODS}
    SMALLEST: ClassVar = {
        "validation": 0.0,
        "test": 0.0,
        "concept_validation": 0.0,
        "concept_test": 0.0,
        "unseen": 0.0,
        "least_statements": 1,
        "similarity": 0.1,
    }

    method: str = "document"
    validation: float = 0.1
    test: float = 0.1
    concept_validation: float = 0.1  # share of the concepts, whatever the method
    concept_test: float = 0.1
    unseen: float = 0.2  # stratified: share of what is held out that comes from documents held out whole
    least_statements: int = 4  # stratified: documents with fewer are in training only
    validation_since: str = ""  # by time: ISO dates instead of shares
    test_since: str = ""
    join_equivalent: bool = False  # concepts connected by equivalent_to stay together
    similarity: float = 0.7  # of word shingles, from which on two passages are nearly equal
    answers: bool = False  # links of training may lead to held-out passages, whose text it then sees; they never ask
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outline:
    """What a split needs to know of a corpus; sequences and arrays with one entry for each row."""

    ids: Sequence[str]
    documents: Sequence[str]  # ids
    kinds: Sequence[str] = ()  # without any, all are statements
    dates: Sequence[str | None] = ()  # ISO
    files: Sequence[str] = ()
    lines: Integers | None = None  # (n, 2) first and last line, 0 where there is none
    sketches: Sketches | None = None  # of the texts; without, nobody looks for those alike
    concepts: Mapping[str, Concept] = field(default_factory=dict)
    merged: Mapping[str, str] = field(default_factory=dict)  # id of a concept merged away: the one that stands for it
    equivalent: Sequence[tuple[str, str]] = ()  # ids of concepts
    mentions: Sequence[tuple[int, str]] = ()  # row and concept
    definitions: Sequence[tuple[int, str]] = ()  # row and the concept that it defines


class Outlined(Protocol):
    """What a corpus offers here; `lemmata.store.corpus.Corpus` does."""

    def places(self) -> Iterator[tuple[str, str, str, str | None, str, int, int]]: ...
    def contents(self) -> Iterator[str]: ...


def outline(
    corpus: Outlined,
    *,
    graph: Graph | None = None,
    concepts: Mapping[str, Concept] | None = None,
    merged: Mapping[str, str] | None = None,
    looking: bool = True,
) -> Outline:
    """The outline of a corpus and its graph; texts are read only in looking for those alike."""
    ids, documents, kinds, dates, files, first, last = (list(column) for column in _columns(corpus))
    told: dict[str, list[tuple[str, str]]] = {"mentions": [], "defines": [], "equivalent_to": []}
    if graph is not None:
        sources = graph.sources()
        for relation, pairs in told.items():
            if relation in graph.relations:
                edges = np.flatnonzero(graph.relation == list(graph.relations).index(relation))
                ends = zip(sources[edges].tolist(), graph.indices[edges].tolist(), strict=True)
                pairs += ((graph.nodes[source], graph.nodes[target]) for source, target in ends)
    rows = {name: row for row, name in enumerate(ids)}
    known = concepts or {}
    return Outline(
        ids=ids,
        documents=documents,
        kinds=kinds,
        dates=dates,
        files=files,
        lines=np.array([first, last], np.int64).reshape(2, -1).T,
        sketches=sketch(corpus.contents()) if looking else None,
        concepts=known,
        merged=merged or {},
        equivalent=[pair for pair in told["equivalent_to"] if pair[0] in known and pair[1] in known],
        mentions=[(rows[source], name) for source, name in told["mentions"] if source in rows and name in known],
        definitions=[(rows[source], name) for source, name in told["defines"] if source in rows and name in known],
    )


def _columns(corpus: Outlined) -> Iterable[Sequence[Any]]:
    return list(zip(*corpus.places(), strict=True)) or [()] * 7


# ---------------------------------------------------------------- the split


def split_corpus(told: Outline, options: SplitOptions) -> Split:
    """Every row and every concept to a part; the same outline in another order of rows gives the same parts.

    Documents of which half the passages stand in another one as well stay together with it. A passage of
    training that equals or nearly equals a held-out one, or shares lines with it, is in no part. ConfigError
    where the options and the corpus do not go together.
    """
    _check(told, options)
    names, document = _numbered(told.documents)
    group = _groups(names, document, told.sketches, options.similarity)
    concepts = split_concepts(
        told.concepts.values(),
        validation=options.concept_validation,
        test=options.concept_test,
        seed=options.seed,
        merged=told.merged,
        equivalent=told.equivalent if options.join_equivalent else (),
    )
    notes: list[str] = []
    if options.method == "document":
        part = _by_document(names, group[document], options)
    elif options.method == "time":
        part = _by_time(told, group, document, options, notes)
    elif options.method == "stratified":
        part = _stratified(told, names, group[document], options)
    else:
        part = _by_concept(told, concepts)
    joined = len(group) - len(set(group.tolist()))
    if joined:
        notes.append(f"documents kept together with another that holds half of their passages: {joined}")
    part = _without_twins(part, told, document, options.similarity, notes)
    for number, share in ((VALIDATION, options.validation), (TEST, options.test)):
        if share and options.method != "concept" and not (part == number).any():
            raise ConfigError(f"nothing is left for {PARTS[number]}: raise its share, or split otherwise")
    trained = np.zeros(len(names), bool)
    trained[group[document[part == TRAIN]]] = True
    if options.answers:
        notes.append("passages outside training never ask there, but may be answers: their texts are seen")
    return Split(part, ~trained[group[document]], concepts, options.method, options.seed, tuple(notes), options.answers)


def _check(told: Outline, options: SplitOptions) -> None:
    if not told.ids:
        raise InputError("there is nothing to split: the corpus has no passages")
    if options.method not in METHODS:
        raise ConfigError(f"method = {options.method!r}{suggest(options.method, METHODS)}")
    for one, other in (("validation", "test"), ("concept_validation", "concept_test")):
        shares = getattr(options, one), getattr(options, other)
        if min(shares) < 0 or sum(shares) >= 1:
            raise ConfigError(f"{one} = {shares[0]} and {other} = {shares[1]} leave nothing for training")


def _numbered(names: Sequence[str]) -> tuple[list[str], Integers]:
    """Sorted names, and the place of each entry's name among them."""
    known = sorted(set(names))
    place = {name: number for number, name in enumerate(known)}
    return known, np.fromiter((place[name] for name in names), np.int64, len(names))


def _chance(seed: int, name: str) -> int:
    """A number that depends on nothing but the two."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{name}".encode("utf-8", "replace"), digest_size=8).digest(), "big")


def _dealt(sizes: Mapping[str, int], shares: Mapping[int, float], seed: int) -> dict[str, int]:
    """Units to parts by chance, whole, as near to the shares as their sizes allow; what is not named stays.

    A part with a share gets one unit at least, as long as there are two left.
    """
    total = sum(sizes.values())
    free = dict.fromkeys(sorted(sizes, key=lambda name: (_chance(seed, name), name)))
    dealt: dict[str, int] = {}
    for part, share in shares.items():
        missing = share * total
        for name in list(free):
            if sizes[name] <= 2 * missing:
                dealt[name] = part
                missing -= sizes[name]
                del free[name]
        if share and part not in dealt.values() and len(free) > 1:
            smallest = min(free, key=lambda name: sizes[name])
            dealt[smallest] = part
            del free[smallest]
    return dealt


# ---------------------------------------------------------------- documents that are alike


class _Joined:
    """Things joined into groups; a group is known by its least member."""

    def __init__(self) -> None:
        self.above: dict[Any, Any] = {}

    def find(self, one: Hashable) -> Any:
        path = []
        while (above := self.above.get(one, one)) != one:
            path.append(one)
            one = above
        self.above.update(dict.fromkeys(path, one))
        return one

    def join(self, one: Hashable, other: Hashable) -> None:
        low, high = sorted((self.find(one), self.find(other)))
        self.above[high] = low


def _groups(names: Sequence[str], document: Integers, sketches: Sketches | None, similarity: float) -> Integers:
    """For each document the least of those it must stay with: half of one's passages stand in the other."""
    group = np.arange(len(names), dtype=np.int64)
    if sketches is None:
        return group
    joined = _Joined()
    sizes = np.bincount(document, minlength=len(names))
    shared: Counter[tuple[int, int]] = Counter()  # passages of the first that the second has as well
    for own, elsewhere in _homes(document, sketches, similarity):
        if len(elsewhere) <= BOILERPLATE:
            for one, count in own.items():
                shared.update({(one, other): count for other in elsewhere if other != one})
    for (one, other), count in shared.items():
        if 2 * count >= sizes[one]:
            joined.join(one, other)
    return np.array([joined.find(number) for number in group.tolist()], np.int64)


def _homes(document: Integers, sketches: Sketches, similarity: float) -> Iterator[tuple[Counter[int], set[int]]]:
    """For each text that is not alone: its passages by document, and the documents that have one alike."""
    first, text = distinct(sketches)
    once = chosen(sketches, first)
    alike: dict[int, list[int]] = defaultdict(list)
    for block in near_pairs(once, once, similarity=similarity, most=2 * BOILERPLATE):
        for one, other in block[block[:, 0] != block[:, 1]].tolist():
            alike[one].append(other)
            alike[other].append(one)
    several = np.bincount(text) > 1
    several[list(alike)] = True
    homes: dict[int, Counter[int]] = defaultdict(Counter)
    for row in np.flatnonzero(several[text]).tolist():
        homes[int(text[row])][int(document[row])] += 1
    for number, own in homes.items():
        yield own, set(own).union(*(homes[other] for other in alike.get(number, ())))


def _without_twins(part: Parts, told: Outline, document: Integers, similarity: float, notes: list[str]) -> Parts:
    """Take out of training what is like validation or test, and out of validation what is like test."""
    here = np.left_shift(1, part).astype(np.uint8)
    reach = here.copy()
    for one, other in _overlapping(told, document):
        np.bitwise_or.at(reach, one, here[other])
        np.bitwise_or.at(reach, other, here[one])
    overlapping = _too_close(part, reach)
    if told.sketches is not None:
        reach |= _alike(here, told.sketches, similarity)
    out = _too_close(part, reach) & ~overlapping
    if overlapping.any():
        notes.append(f"passages in no part, for they share lines with held-out ones: {int(overlapping.sum())}")
    if out.any():
        notes.append(f"passages in no part, for they equal or nearly equal held-out ones: {int(out.sum())}")
    return np.where(out | overlapping, np.int8(LEFT_OUT), part)


def _alike(here: npt.NDArray[np.uint8], sketches: Sketches, similarity: float) -> npt.NDArray[np.uint8]:
    """Bits of the parts that have a text equal or nearly equal to a row's; `here` has the bit of its own part."""
    first, text = distinct(sketches)
    equal = np.zeros(len(first), np.uint8)
    np.bitwise_or.at(equal, text, here)
    around = equal.copy()
    for number in (TEST, VALIDATION):
        held_out = equal & (1 << number) > 0
        others = np.flatnonzero(~held_out & (equal < 1 << number))
        held = chosen(sketches, first[held_out])
        near = find_twins(chosen(sketches, first[others]), held, similarity=similarity) >= 0
        around[others[near]] |= 1 << number
    return np.asarray(around[text])


def _too_close(part: Parts, reach: npt.NDArray[np.uint8]) -> Mask:
    held_out, tested = (1 << VALIDATION) | (1 << TEST), 1 << TEST
    return np.asarray(((part == TRAIN) & (reach & held_out > 0)) | ((part == VALIDATION) & (reach & tested > 0)))


def _overlapping(told: Outline, document: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Rows of one document that share lines of one file, as arrays of pairs."""
    if told.lines is None or not len(told.files):
        return
    _, file = _numbered(told.files)
    rows = np.flatnonzero(told.lines[:, 0] > 0)
    rows = rows[np.lexsort((told.lines[rows, 0], file[rows], document[rows]))]
    first, last, home = told.lines[rows, 0], told.lines[rows, 1], np.stack((document[rows], file[rows]))
    places = np.arange(len(rows))
    for distance in range(1, len(rows)):
        places = places[places + distance < len(rows)]
        others = places + distance
        # sorted by first line: where one row does not reach the next, it reaches none behind it
        places = places[(home[:, places] == home[:, others]).all(axis=0) & (first[others] <= last[places])]
        if not len(places):
            return
        yield rows[places], rows[places + distance]


# ---------------------------------------------------------------- rows by document, time, concept


def _by_document(names: Sequence[str], home: Integers, options: SplitOptions) -> Parts:
    sizes = np.bincount(home, minlength=len(names))
    units = {names[number]: int(sizes[number]) for number in np.flatnonzero(sizes).tolist()}
    parts = 1 + (options.validation > 0) + (options.test > 0)
    if len(units) < parts:
        raise ConfigError(
            f"a split by document into {parts} parts needs as many documents that differ, not {len(units)}:"
            " split by time, or stratified"
        )
    dealt = _dealt(units, {TEST: options.test, VALIDATION: options.validation}, options.seed)
    of_group = np.array([dealt.get(name, TRAIN) for name in names], np.int8)
    return of_group[home]


def _by_time(told: Outline, group: Integers, document: Integers, options: SplitOptions, notes: list[str]) -> Parts:
    """The newest rows to test, those before to validation; rows of one date stay together."""
    dates = np.array([date or "" for date in told.dates], dtype=np.str_)
    if not len(dates) or not (dates != "").any():
        raise ConfigError("no passage has a date: split by document, or stratified")
    known, code = np.unique(dates, return_inverse=True)
    code = _first_dates(code, group, document)
    cut = {}
    end = len(known)
    for number, share, since in (
        (TEST, options.test, options.test_since),
        (VALIDATION, options.validation, options.validation_since),
    ):
        if since:
            end = min(end, int(np.searchsorted(known, since)))
        elif share:
            end = _cut(np.bincount(code, minlength=len(known))[:end], share * len(code), bool(known[0] == ""))
        cut[number] = end
    if undated := int((dates == "").sum()):
        notes.append(f"passages without a date, which are all in training: {undated}")
    part = np.full(len(code), TRAIN, np.int8)
    part[code >= cut[VALIDATION]] = VALIDATION
    part[code >= cut[TEST]] = TEST
    part[known[code] == ""] = TRAIN
    if not (part == TRAIN).any():
        raise ConfigError("no passage is old enough for training: hold out less")
    return part


def _first_dates(code: Integers, group: Integers, document: Integers) -> Integers:
    """A paper that is there twice is as old as its first copy; logs of one table keep their own dates."""
    number = len(group)
    low = np.full(number, len(code), np.int64)
    high = np.full(number, -1, np.int64)
    np.minimum.at(low, document, code)
    np.maximum.at(high, document, code)
    several = np.bincount(group, minlength=number)[group] > 1
    first = np.full(number, len(code), np.int64)
    np.minimum.at(first, group, low)
    return np.where((several & (low == high))[document], first[group[document]], code)


def _cut(counts: Integers, target: float, undated: bool) -> int:
    """Where the newest begin: as near to the target as whole dates allow, with one date left at least."""
    least = 2 if undated else 1
    if len(counts) <= least:
        raise ConfigError("there are too few different dates to split by time: split by document")
    newest = np.cumsum(counts[::-1])[: len(counts) - least]
    return len(counts) - 1 - int(np.argmin(np.abs(newest - target)))


def _stratified(told: Outline, names: Sequence[str], home: Integers, options: SplitOptions) -> Parts:
    """Held-out statements of seen documents, and documents of about average length held out whole."""
    statement = np.array([kind not in NOT_STATEMENTS for kind in told.kinds] or [True] * len(told.ids))
    count = np.bincount(home[statement], minlength=len(names))
    large = np.flatnonzero(count >= options.least_statements)
    if not len(large):
        raise ConfigError(
            f"no document has {options.least_statements} statements: lower least_statements, or split by document"
        )
    total = int(count.sum())
    average = total / np.count_nonzero(count)
    candidates = sorted(
        large.tolist(), key=lambda number: (-abs(count[number] - average), _chance(options.seed, names[number]))
    )
    whole = np.full(len(names), TRAIN, np.int8)
    missing: dict[int, int] = {}
    for number, share in ((TEST, options.test), (VALIDATION, options.validation)):
        wanted = share * total
        taken = 0
        # one document must stay to take seen statements from
        while taken < options.unseen * wanted and len(candidates) > 1:
            chosen = candidates.pop()
            whole[chosen] = number
            taken += int(count[chosen])
        missing[number] = max(0, round(wanted) - taken)
    part = whole[home]
    eligible = np.flatnonzero(np.isin(home, candidates) & statement)
    ordered = iter(_in_turn(eligible.tolist(), home, told.ids, options.seed))
    for number, wanted_rows in missing.items():
        for row in itertools.islice(ordered, wanted_rows):
            part[row] = number
    return part


def _in_turn(rows: Sequence[int], home: Integers, ids: Sequence[str], seed: int) -> list[int]:
    """Rows in an order of chance of which every beginning holds about the same share of each document.

    The last row of a document is left out, so that none is held out whole.
    """
    by_home: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for row in rows:
        by_home[int(home[row])].append((_chance(seed, ids[row]), ids[row], row))
    turns: list[tuple[float, str, int]] = []
    for members in by_home.values():
        members.sort()
        start = members[0][0] / 2**64
        turns += (((n + start) / len(members), name, row) for n, (_, name, row) in enumerate(members[:-1]))
    return [row for _, _, row in sorted(turns)]


def _by_concept(told: Outline, concepts: Mapping[str, str]) -> Parts:
    """A row goes with the concepts it defines, else with the rarest that it mentions, else to training."""
    if not concepts:
        raise ConfigError(
            "a split by concept needs concepts and a share of them: run 'lemmata graph build', set concept_test"
        )
    part = np.full(len(told.ids), TRAIN, np.int8)
    place = {name: number for number, name in enumerate(PARTS)}
    often = Counter(name for _, name in told.mentions)
    rarest: dict[int, tuple[int, str]] = {}
    for row, name in told.mentions:
        rarest[row] = min(rarest.get(row, (len(told.mentions) + 1, "")), (often[name], name))
    for row, (_, name) in rarest.items():
        part[row] = place[concepts.get(name, "train")]
    defining: dict[int, int] = {}
    for row, name in told.definitions:
        defining[row] = max(defining.get(row, TRAIN), place[concepts.get(name, "train")])
    for row, number in defining.items():
        part[row] = number
    return part


# ---------------------------------------------------------------- concepts

_NAME_PARTICLES = LINKING_WORDS | GERMAN_LINKING_WORDS | {"de", "la", "le"}


@functools.lru_cache(maxsize=1 << 16)  # sections and categories come again and again
def name_key(name: str) -> str:
    """Equal for names that differ in case, accents, hyphens, plural, little words or the order of words."""
    folded = fold(name).replace("’", "'")
    words = re.findall(r"[^\W_]+", re.sub(r"'s\b", "", folded))
    kept = sorted({singular(word) for word in words if word not in _NAME_PARTICLES or len(words) == 1})
    return " ".join(kept) or folded.strip()


def asked_keys(text: str) -> tuple[str, str]:
    """The keys of a text as a name, and of what it asks about: `What is a flat module?` asks about `flat module`."""
    words = [word for word in re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text) if word.casefold() not in QUESTION_WORDS]
    return name_key(text), name_key(" ".join(words) or text)


def _nearly(key: str) -> Iterator[str]:
    """Spellings with one letter less: names with one in common differ by a letter. Digits count."""
    if len(key) >= 8:
        for place, letter in enumerate(key):
            if letter.isalpha():
                yield key[:place] + key[place + 1 :]


def split_concepts(
    concepts: Iterable[Concept],
    *,
    validation: float,
    test: float,
    seed: int = 0,
    merged: Mapping[str, str] | None = None,
    equivalent: Iterable[tuple[str, str]] = (),
) -> dict[str, str]:
    """Concepts that are held out, by id, with their part.

    What can be called by the same or nearly the same name, was merged, or is named as `equivalent` stays
    together. Concepts that were merged away go with the one that stands for them.
    """
    joined = _Joined()
    named: dict[str, str] = {}
    members: set[str] = set()
    for concept in concepts:
        members.add(concept.id)
        for name in (concept.name, *concept.aliases):
            key = name_key(name)
            for spelling in (key, *_nearly(key)):
                joined.join(named.setdefault(spelling, concept.id), concept.id)
    for one, other in (*(merged or {}).items(), *equivalent):
        members |= {one, other}
        joined.join(one, other)
    groups: dict[str, list[str]] = defaultdict(list)
    for member in members:
        groups[joined.find(member)].append(member)
    sizes = {name: len(group) for name, group in groups.items()}
    dealt = _dealt(sizes, {TEST: test, VALIDATION: validation}, seed)
    return {member: PARTS[part] for name, part in sorted(dealt.items()) for member in sorted(groups[name])}
