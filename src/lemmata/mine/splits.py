"""Split passages and concepts into train, validation and test, before anything is mined.

Knows ids, documents, dates and names, not texts: which texts are near-duplicates is in their sketches.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from lemmata.errors import ConfigError, InputError
from lemmata.leakage import Sketches, distinct, near_duplicate_of, near_pairs, select, sketch
from lemmata.mine.adjacency import components, edges_of
from lemmata.store.corpus import Corpus
from lemmata.store.graph import StoredGraph
from lemmata.store.split import LEFT_OUT, PARTS, Parts, Split
from lemmata.types import Concept, Integers, Mask
from lemmata.words import GERMAN_LINKING_WORDS, LINKING_WORDS, QUESTION_WORDS, fold, singular

__all__ = ["Outline", "SplitOptions", "name_key", "outline", "query_keys", "split_concepts", "split_corpus"]

TRAIN, VALIDATION, TEST = range(3)
METHODS = ("document", "concept", "time", "stratified")
BOILERPLATE = 50  # a text that more documents share says nothing about any two of them
LEAST_STATEMENTS = 4  # a document with fewer has too little left to train on once statements are held out
NOT_STATEMENTS = frozenset(("chunk", "abstract"))


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How to split a corpus; shares are of all rows, in a stratified split of the statements."""

    CHOICES: ClassVar = {"method": METHODS}
    SMALLEST: ClassVar = dict.fromkeys(("validation", "test", "concept_validation", "concept_test", "unseen"), 0.0)

    method: str = "document"  # document, concept, time or stratified
    validation: float = 0.1  # share for validation
    test: float = 0.1  # share for test
    concept_validation: float = 0.1  # share of the concepts, with every method
    concept_test: float = 0.1  # share of the concepts for test
    unseen: float = 0.2  # stratified: share of the held-out statements whose documents are held out whole
    since: str = ""  # time: the dates where validation and test begin, "2020,2022-06", instead of their shares
    answers: bool = False  # training links may lead to held-out passages: their text is seen, as positives only
    seed: int = 0  # random seed


@dataclass(frozen=True, slots=True)
class Outline:
    """What a split needs to know about a corpus; sequences and arrays have one entry per row."""

    ids: Sequence[str]
    documents: Sequence[str]  # ids
    kinds: Sequence[str] = ()  # if empty, all rows are statements
    dates: Sequence[str | None] = ()  # ISO
    files: Sequence[str] = ()
    lines: Integers | None = None  # (n, 2) first and last line, 0 where unknown
    sketches: Sketches | None = None  # of the texts; without, near-duplicates are not looked for
    concepts: Mapping[str, Concept] = field(default_factory=dict)
    merged: Mapping[str, str] = field(default_factory=dict)  # id of a merged concept: the id that replaced it
    mentions: Sequence[tuple[int, str]] = ()  # row and concept
    definitions: Sequence[tuple[int, str]] = ()  # row and the concept that it defines


def outline(corpus: Corpus, stored: StoredGraph | None = None) -> Outline:
    """The outline of a corpus and its graph."""
    columns: list[Sequence[Any]] = list(zip(*corpus.places(), strict=True)) or [()] * 7
    ids, documents, kinds, dates, files, first, last = map(list, columns)
    row_of = {identity: row for row, identity in enumerate(ids)}

    def edges_to_concepts(relation: str) -> list[tuple[int, str]]:
        if stored is None:
            return []
        graph = stored.graph
        edges = np.flatnonzero(edges_of(graph, (relation,)))
        ends = zip(graph.sources()[edges].tolist(), graph.indices[edges].tolist(), strict=True)
        named = ((graph.nodes[source], graph.nodes[target]) for source, target in ends)
        return [(row_of[source], target) for source, target in named if source in row_of and target in stored.concepts]

    return Outline(
        ids=ids,
        documents=documents,
        kinds=kinds,
        dates=dates,
        files=files,
        lines=np.array([first, last], np.int64).reshape(2, -1).T,
        sketches=sketch(corpus.contents()),
        concepts=stored.concepts if stored else {},
        merged=stored.merged if stored else {},
        mentions=edges_to_concepts("mentions"),
        definitions=edges_to_concepts("defines"),
    )


# ---------------------------------------------------------------- the split


def split_corpus(corpus: Outline, options: SplitOptions) -> Split:
    """Assign every row and every concept to a part; the order of the rows does not matter.

    A document stays together with another one that holds half of its passages. A training passage that is
    equal to a held-out one, a near-duplicate of it, or shares lines with it is in no part; so is a validation
    passage that is close to test in this way. ConfigError where the options do not fit the corpus.
    """
    if not corpus.ids:
        raise InputError("there is nothing to split: the corpus has no passages")
    for one, other in (("validation", "test"), ("concept_validation", "concept_test")):
        shares = getattr(options, one), getattr(options, other)
        if sum(shares) >= 1:
            raise ConfigError(f"{one} = {shares[0]} and {other} = {shares[1]} leave nothing for training")
    names, document = _numbered(corpus.documents)
    group = _document_groups(len(names), document, corpus.sketches)
    home = group[document]
    concepts = split_concepts(
        corpus.concepts.values(),
        validation=options.concept_validation,
        test=options.concept_test,
        seed=options.seed,
        merged=corpus.merged,
    )
    notes: list[str] = []
    if options.method == "document":
        part = _by_document(names, home, options)
    elif options.method == "time":
        part = _by_time(corpus, group, document, options, notes)
    elif options.method == "stratified":
        part = _stratified(corpus, names, home, options)
    else:
        part = _by_concept(corpus, concepts)
    if joined := len(group) - len(np.unique(group)):
        notes.append(f"documents kept together with another that holds half of their passages: {joined}")
    part = _drop_near_duplicates(part, corpus, document, notes)
    for number, share in ((VALIDATION, options.validation), (TEST, options.test)):
        if share and options.method != "concept" and not (part == number).any():
            raise ConfigError(f"nothing is left for {PARTS[number]}: raise its share, or use another method")
    trained = np.zeros(len(names), bool)
    trained[home[part == TRAIN]] = True
    if options.answers:
        notes.append("held-out passages may be positives in training, never anchors: training sees their texts")
    return Split(part, ~trained[home], concepts, options.method, options.seed, tuple(notes), options.answers)


def _numbered(names: Sequence[str]) -> tuple[list[str], Integers]:
    """Sorted distinct names, and the position of each entry among them."""
    ordered = sorted(set(names))
    position = {name: number for number, name in enumerate(ordered)}
    return ordered, np.fromiter((position[name] for name in names), np.int64, len(names))


def _random_key(seed: int, name: str) -> int:
    """A number in [0, 2^64) that depends on the seed and the name alone."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{name}".encode("utf-8", "replace"), digest_size=8).digest(), "big")


def _held_out_units(sizes: Mapping[str, int], shares: Mapping[int, float], seed: int) -> dict[str, int]:
    """Random units for each part, as near to its share as whole units allow; units that are not returned stay.

    A part with a share gets at least one unit as long as two are left.
    """
    total = sum(sizes.values())
    free = dict.fromkeys(sorted(sizes, key=lambda name: (_random_key(seed, name), name)))
    part_of: dict[str, int] = {}
    for part, share in shares.items():
        missing = share * total
        for name in list(free):
            if sizes[name] <= 2 * missing:
                part_of[name] = part
                missing -= sizes[name]
                del free[name]
        if share and part not in part_of.values() and len(free) > 1:
            smallest = min(free, key=lambda name: sizes[name])
            part_of[smallest] = part
            del free[smallest]
    return part_of


# ---------------------------------------------------------------- near-duplicates


def _document_groups(count: int, document: Integers, sketches: Sketches | None) -> Integers:
    """For each document the least of those it stays together with: half of its passages are in the other one."""
    if sketches is None:
        return np.arange(count, dtype=np.int64)
    sizes = np.bincount(document, minlength=count)
    shared: Counter[tuple[int, int]] = Counter()  # passages of the first document that the second has as well
    for passages, documents in _shared_texts(document, sketches):
        if len(documents) <= BOILERPLATE:
            for one, number in passages.items():
                shared.update({(one, other): number for other in documents if other != one})
    joined = [pair for pair, number in shared.items() if 2 * number >= sizes[pair[0]]]
    return components(count, *np.array(joined, np.int64).reshape(-1, 2).T)


def _shared_texts(document: Integers, sketches: Sketches) -> Iterator[tuple[Counter[int], set[int]]]:
    """For each text with a duplicate: its passages per document, and the documents with it or a near-duplicate."""
    first, text = distinct(sketches)
    texts = select(sketches, first)
    near: dict[int, list[int]] = defaultdict(list)
    for block in near_pairs(texts, texts, most=2 * BOILERPLATE):
        for one, other in block[block[:, 0] != block[:, 1]].tolist():
            near[one].append(other)
            near[other].append(one)
    repeated = np.bincount(text) > 1
    repeated[list(near)] = True
    documents: dict[int, Counter[int]] = defaultdict(Counter)
    for row in np.flatnonzero(repeated[text]).tolist():
        documents[int(text[row])][int(document[row])] += 1
    for number, passages in documents.items():
        yield passages, set(passages).union(*(documents[other] for other in near.get(number, ())))


def _drop_near_duplicates(part: Parts, corpus: Outline, document: Integers, notes: list[str]) -> Parts:
    """Take what is close to validation or test out of training, and what is close to test out of validation."""
    overlapping, duplicate = np.zeros((2, len(part)), bool)
    for held_out in (TEST, VALIDATION):
        for one, other in _overlapping(corpus, document):
            overlapping[one[(part[one] < held_out) & (part[other] == held_out)]] = True
            overlapping[other[(part[other] < held_out) & (part[one] == held_out)]] = True
        if corpus.sketches is not None:
            duplicate |= (part < held_out) & _like(part == held_out, part < held_out, corpus.sketches)
    duplicate &= ~overlapping
    if overlapping.any():
        notes.append(f"passages in no part because they share lines with held-out ones: {int(overlapping.sum())}")
    if duplicate.any():
        notes.append(f"passages in no part because they are near-duplicates of held-out ones: {int(duplicate.sum())}")
    return np.where(duplicate | overlapping, np.int8(LEFT_OUT), part)


def _like(held_out: Mask, others: Mask, sketches: Sketches) -> Mask:
    """Which of the other rows have a text equal to, or a near-duplicate of, that of a held-out row."""
    first, text = distinct(sketches)
    texts, held_out_texts = np.unique(text[others]), np.unique(text[held_out])
    matches = near_duplicate_of(select(sketches, first[texts]), select(sketches, first[held_out_texts]))
    return np.isin(text, texts[matches >= 0]) | np.isin(text, held_out_texts)


def _overlapping(corpus: Outline, document: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Rows of one document that share lines of one file, as arrays of pairs."""
    if corpus.lines is None or not len(corpus.files):
        return
    _, file = _numbered(corpus.files)
    rows = np.flatnonzero(corpus.lines[:, 0] > 0)
    rows = rows[np.lexsort((corpus.lines[rows, 0], file[rows], document[rows]))]
    first, last, home = corpus.lines[rows, 0], corpus.lines[rows, 1], np.stack((document[rows], file[rows]))
    places = np.arange(len(rows))
    for distance in range(1, len(rows)):
        places = places[places + distance < len(rows)]
        others = places + distance
        # sorted by first line: a row that does not reach the next one reaches none after it
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
            f"a split by document into {parts} parts needs {parts} documents that are no near-duplicates; there are"
            f" {len(units)}: use the method time or stratified"
        )
    part_of = _held_out_units(units, {TEST: options.test, VALIDATION: options.validation}, options.seed)
    return np.array([part_of.get(name, TRAIN) for name in names], np.int8)[home]


def _by_time(corpus: Outline, group: Integers, document: Integers, options: SplitOptions, notes: list[str]) -> Parts:
    """The newest rows to test, those before to validation; rows of one date stay together."""
    dates = np.array([date or "" for date in corpus.dates], dtype=np.str_)
    if not (dates != "").any():
        raise ConfigError("no passage has a date: use the method document or stratified")
    since = [date.strip() for date in options.since.split(",")] if options.since else ["", ""]
    if len(since) != 2:
        raise ConfigError(f"since = {options.since!r} should be two dates, where validation and test begin")
    distinct_dates, code = np.unique(dates, return_inverse=True)
    code = _date_of_first_copy(code, group, document)
    begin = {}
    end = len(distinct_dates)
    for number, share, date in ((TEST, options.test, since[1]), (VALIDATION, options.validation, since[0])):
        if date:
            end = min(end, int(np.searchsorted(distinct_dates, date)))
        elif share:
            counts = np.bincount(code, minlength=len(distinct_dates))[:end]
            end = _begin_of_newest(counts, share * len(code), bool(distinct_dates[0] == ""))
        begin[number] = end
    if undated := int((dates == "").sum()):
        notes.append(f"passages without a date, which are all in training: {undated}")
    part = np.full(len(code), TRAIN, np.int8)
    part[code >= begin[VALIDATION]] = VALIDATION
    part[code >= begin[TEST]] = TEST
    part[distinct_dates[code] == ""] = TRAIN
    if not (part == TRAIN).any():
        raise ConfigError("no passage is old enough for training: hold out less")
    return part


def _date_of_first_copy(code: Integers, group: Integers, document: Integers) -> Integers:
    """A paper with several copies is as old as the first one; logs of one table keep their own dates."""
    count = len(group)
    low = np.full(count, len(code), np.int64)
    high = np.full(count, -1, np.int64)
    np.minimum.at(low, document, code)
    np.maximum.at(high, document, code)
    copied = np.bincount(group, minlength=count)[group] > 1
    first = np.full(count, len(code), np.int64)
    np.minimum.at(first, group, low)
    return np.where((copied & (low == high))[document], first[group[document]], code)


def _begin_of_newest(counts: Integers, target: float, undated: bool) -> int:
    """Where the newest dates begin: as near to the target as whole dates allow; at least one date stays."""
    least = 2 if undated else 1
    if len(counts) <= least:
        raise ConfigError("there are too few different dates to split by time: use the method document")
    newest = np.cumsum(counts[::-1])[: len(counts) - least]
    return len(counts) - 1 - int(np.argmin(np.abs(newest - target)))


def _stratified(corpus: Outline, names: Sequence[str], home: Integers, options: SplitOptions) -> Parts:
    """Hold out statements of seen documents, and whole documents of about average length."""
    statement = np.array([kind not in NOT_STATEMENTS for kind in corpus.kinds] or [True] * len(corpus.ids))
    count = np.bincount(home[statement], minlength=len(names))
    large = np.flatnonzero(count >= LEAST_STATEMENTS)
    if not len(large):
        raise ConfigError(f"no document has {LEAST_STATEMENTS} statements: use the method document")
    total = int(count.sum())
    average = total / np.count_nonzero(count)
    candidates = sorted(
        large.tolist(), key=lambda number: (-abs(count[number] - average), _random_key(options.seed, names[number]))
    )
    whole = np.full(len(names), TRAIN, np.int8)
    missing: dict[int, int] = {}
    for number, share in ((TEST, options.test), (VALIDATION, options.validation)):
        taken = 0
        # one document must stay to take seen statements from
        while taken < options.unseen * share * total and len(candidates) > 1:
            document = candidates.pop()
            whole[document] = number
            taken += int(count[document])
        missing[number] = max(0, round(share * total) - taken)
    part = whole[home]
    eligible = np.flatnonzero(np.isin(home, candidates) & statement)
    ordered = iter(_interleaved(eligible.tolist(), home, corpus.ids, options.seed))
    for number, count_missing in missing.items():
        part[list(itertools.islice(ordered, count_missing))] = number
    return part


def _interleaved(rows: Sequence[int], home: Integers, ids: Sequence[str], seed: int) -> list[int]:
    """Rows in a random order in which every prefix holds about the same share of each document.

    The last row of a document is left out, so that none is held out whole.
    """
    by_home: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for row in rows:
        by_home[int(home[row])].append((_random_key(seed, ids[row]), ids[row], row))
    order: list[tuple[float, str, int]] = []
    for members in by_home.values():
        members.sort()
        start = members[0][0] / 2**64
        order += (((n + start) / len(members), name, row) for n, (_, name, row) in enumerate(members[:-1]))
    return [row for _, _, row in sorted(order)]


def _by_concept(corpus: Outline, concepts: Mapping[str, str]) -> Parts:
    """A row goes with the concepts it defines, else with the rarest that it mentions, else to training."""
    if not concepts:
        raise ConfigError(
            "a split by concept needs concepts and a share of them: run 'lemmata graph build', set concept_test"
        )
    number = {identity: PARTS.index(part) for identity, part in concepts.items()}
    part = np.full(len(corpus.ids), TRAIN, np.int8)
    frequency = Counter(concept for _, concept in corpus.mentions)
    for row, concept in sorted(corpus.mentions, key=lambda mention: (frequency[mention[1]], mention[1]), reverse=True):
        part[row] = number.get(concept, TRAIN)  # the rarest comes last
    defined: dict[int, int] = {}
    for row, concept in corpus.definitions:
        defined[row] = max(defined.get(row, TRAIN), number.get(concept, TRAIN))
    part[list(defined)] = list(defined.values())
    return part


# ---------------------------------------------------------------- concepts

_NAME_PARTICLES = LINKING_WORDS | GERMAN_LINKING_WORDS | {"de", "la", "le"}


@functools.lru_cache(maxsize=1 << 16)  # sections and categories repeat
def name_key(name: str) -> str:
    """Equal for names that differ in case, accents, hyphens, plural, articles, prepositions or the order of words."""
    folded = fold(name).replace("’", "'")
    words = re.findall(r"[^\W_]+", re.sub(r"'s\b", "", folded))
    key = sorted({singular(word) for word in words if word not in _NAME_PARTICLES or len(words) == 1})
    return " ".join(key) or folded.strip()


def query_keys(text: str) -> tuple[str, str]:
    """The keys of a text as a name, and of the subject of a question: `flat module` in `What is a flat module?`."""
    words = [word for word in re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text) if word.casefold() not in QUESTION_WORDS]
    return name_key(text), name_key(" ".join(words) or text)


def _with_one_letter_less(key: str) -> Iterator[str]:
    """Names that differ in one letter share one of these spellings. Digits count as different."""
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
) -> dict[str, str]:
    """The held-out concepts by id, with their part.

    Concepts with a name in common, up to one letter, stay together. So does a merged concept with the one
    that replaced it.
    """
    names = {concept.id: (concept.name, *concept.aliases) for concept in concepts}
    replaced = merged or {}
    ids, _ = _numbered([*names, *replaced, *replaced.values()])
    number = {identity: place for place, identity in enumerate(ids)}
    joined = [(number[gone], number[kept]) for gone, kept in replaced.items()]
    first_with: dict[str, int] = {}  # spelling: the first concept that has it
    for identity, spellings in names.items():
        for key in map(name_key, spellings):
            near = (key, *_with_one_letter_less(key))
            joined += ((first_with.setdefault(spelling, number[identity]), number[identity]) for spelling in near)
    group = components(len(ids), *np.array(joined, np.int64).reshape(-1, 2).T)
    members: dict[str, list[str]] = defaultdict(list)
    for identity, least in zip(ids, group.tolist(), strict=True):
        members[ids[least]].append(identity)
    sizes = {name: len(group) for name, group in members.items()}
    part_of = _held_out_units(sizes, {TEST: test, VALIDATION: validation}, seed)
    return {identity: PARTS[part] for name, part in sorted(part_of.items()) for identity in members[name]}
