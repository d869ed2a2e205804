"""Split passages and concepts into train, validation and test, before anything is mined.

The part of a document, statement or concept follows from a hash of the seed and its own id, so a corpus can grow
without anyone changing sides. Where that cannot hold (near-duplicates that arrive later, dates, a part that would be
empty), the split that was stored before decides: what is in it stays where it is.

Knows ids, documents, dates and names, not texts: which texts are near-duplicates is in their sketches.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.artefacts import artefact, is_current, open_artefact
from lemmata.core.errors import ConfigError, InputError
from lemmata.core.types import NOT_STATEMENTS, Concept, Integers, Mask
from lemmata.core.words import GERMAN_LINKING_WORDS, LINKING_WORDS, QUESTION_WORDS, fold, singular
from lemmata.core.workspace import Settings, Workspace, read_manifest
from lemmata.corpus.contents import headings, is_book
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import Sketches, distinct, near_duplicate_of, near_pairs, select, sketch
from lemmata.corpus.split import LEFT_OUT, PARTS, Parts, Split, earlier_split, id_keys, write_split
from lemmata.graph.store import StoredGraph, open_graph_if_built
from lemmata.mine.adjacency import components, edges_of

Keys = npt.NDArray[np.uint64]
TRAIN, VALIDATION, TEST = range(3)
NEW = -2  # in no earlier split
METHODS = ("document", "concept", "time", "stratified")
BOILERPLATE = 50  # a text that more documents share says nothing about any two of them
LEAST_STATEMENTS = 4  # a document with fewer has too little left to train on once statements are held out


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How to split a corpus; shares are probabilities, of documents or, in a stratified split, of statements."""

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
    books = {document.id for document in corpus.documents() if is_book(headings(document))}
    if books:  # their chapters count as documents; a title stays when chapters come before it
        pairs = zip(documents, corpus.chapter_names(), strict=True)
        documents = [f"{each}/{title or number}" if each in books else each for each, (number, title) in pairs]
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


def split_corpus(corpus: Outline, options: SplitOptions, before: Split | None = None) -> Split:
    """Assign every row and every concept to a part; the order of the rows does not matter.

    Rows and concepts of `before`, an earlier split with the same options, keep their parts. A document stays
    together with another one that holds half of its passages; one that joins documents of two parts is in no part.
    A training passage that is equal to a held-out one, a near-duplicate of it, or shares lines with it is in no part;
    so is a validation passage that is close to test in this way, and a new passage that is close in this way to one
    of `before`. ConfigError where the options do not fit the corpus.
    """
    if not corpus.ids:
        raise InputError("there is nothing to split: the corpus has no passages")
    for one, other in (("validation", "test"), ("concept_validation", "concept_test")):
        shares = getattr(options, one), getattr(options, other)
        if sum(shares) >= 1:
            raise ConfigError(f"{one} = {shares[0]} and {other} = {shares[1]} leave nothing for training")
    names, document = _numbered(corpus.documents)
    group = _document_groups(len(names), document, corpus.sketches)
    notes: list[str] = []
    concepts = split_concepts(
        corpus.concepts.values(),
        validation=options.concept_validation,
        test=options.concept_test,
        seed=options.seed,
        merged=corpus.merged,
        before=before.concepts if before else {},
        notes=notes,
    )
    passages, documents = id_keys(corpus.ids), id_keys(corpus.documents)
    earlier = _lookup(passages, before.passages, before.part) if before else np.full(len(passages), NEW, np.int8)
    old_part = _kept_documents(document, documents, before, len(names))
    since = before.since if before else ""
    if options.method == "document":
        part = _by_document(names, group, old_part, options, notes)[document]
    elif options.method == "time":
        part, since = _by_time(corpus, group, document, options, since, notes)
    elif options.method == "stratified":
        part = _stratified(corpus, names, document, group, old_part, earlier, options, notes)
    else:
        part = _by_concept(corpus, concepts)
    if stays := int((earlier != NEW).sum()):
        notes.append(f"passages that stay where the earlier split put them: {stays}")
    part = np.where(earlier != NEW, earlier, part)
    if joined := len(group) - len(np.unique(group)):
        notes.append(f"documents kept together with another that holds half of their passages: {joined}")
    part = _drop_near_duplicates(part, corpus, document, earlier, notes)
    for number, share in ((VALIDATION, options.validation), (TEST, options.test)):
        if share and options.method != "concept" and not (part == number).any():
            raise ConfigError(
                f"nothing is left for {PARTS[number]}: raise its share, add documents, or use another seed or method"
            )
        actual = float((part == number).mean())
        if options.method == "document" and abs(actual - share) > share / 2 > 0:
            notes.append(
                f"{PARTS[number]} has {actual:.0%} of the passages, with a share of {share:.0%}: documents stay whole,"
                " and the part of each follows from its own id"
            )
    home = group[document]
    trained = np.zeros(len(names), bool)
    trained[home[part == TRAIN]] = True
    if options.answers:
        notes.append("held-out passages may be positives in training, never anchors: training sees their texts")
    return Split(
        part=part,
        unseen=~trained[home],
        concepts=concepts,
        method=options.method,
        seed=options.seed,
        notes=tuple(notes),
        answers=options.answers,
        passages=passages,
        documents=documents,
        since=since,
    )


def _numbered(names: Sequence[str]) -> tuple[list[str], Integers]:
    """Sorted distinct names, and the position of each entry among them."""
    ordered = sorted(set(names))
    position = {name: number for number, name in enumerate(ordered)}
    return ordered, np.fromiter((position[name] for name in names), np.int64, len(names))


def _random_key(seed: int, name: str, purpose: str = "") -> float:
    """A number in [0, 1) that depends on the seed, the name and the purpose alone."""
    content = f"{seed}\0{name}\0{purpose}" if purpose else f"{seed}\0{name}"
    return int.from_bytes(hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=6).digest(), "big") / 2**48


# ---------------------------------------------------------------- who stays, and where new ones go


def _lookup(keys: Keys, known: Keys, values: Parts) -> Parts:
    """The value of each key among the known ones, NEW for the others."""
    if not len(known):
        return np.full(len(keys), NEW, np.int8)
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)
    return np.where(known[order[place]] == keys, values[order[place]], np.int8(NEW))


def _kept_documents(document: Integers, keys: Keys, before: Split | None, count: int) -> Parts:
    """The part of each document in the earlier split, NEW where it had none; training where any passage was trained."""
    parts = np.full(count, NEW, np.int8)
    if before is None or not len(before.documents):
        return parts
    earlier_documents, position = np.unique(before.documents, return_inverse=True)
    side = np.full(len(earlier_documents), NEW, np.int8)
    for number in (VALIDATION, TEST, TRAIN):  # the last one wins
        side[position[before.part == number]] = number
    parts[document] = _lookup(keys, earlier_documents, side)
    return parts


class _Shares(NamedTuple):
    """The shares of the held-out parts."""

    validation: float
    test: float

    def part(self, key: float) -> int:
        return TEST if key < self.test else VALIDATION if key < self.test + self.validation else TRAIN

    def wanted(self) -> list[int]:
        return [number for number, share in ((TEST, self.test), (VALIDATION, self.validation), (TRAIN, 1.0)) if share]


def _assign(
    names: Sequence[str], group: Integers, old_part: Parts, shares: _Shares, seed: int, notes: list[str], unit: str
) -> Parts:
    """A part for each name; `group` has the least member of each one's group, `old_part` the part before, or NEW.

    A new name follows its group. A new group goes by the random key of one member, itself chosen at random: when a
    group of n gets one more, the choice changes in one of n + 1 cases only.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for number, least in enumerate(group.tolist()):
        members[least].append(number)
    part = old_part.copy()
    keys: dict[int, float] = {}  # of new groups
    sides: dict[int, int] = {}  # of all groups in one part
    between = 0
    for least, numbers in members.items():
        settled = {int(old_part[number]) for number in numbers if old_part[number] != NEW}
        if not settled:
            first = min(numbers, key=lambda n: (_random_key(seed, names[n], "order"), n)) if numbers[1:] else least
            keys[least] = _random_key(seed, names[first])
            sides[least] = shares.part(keys[least])
        elif len(settled) == 1:
            sides[least] = settled.pop()
        else:
            new = [number for number in numbers if old_part[number] == NEW]
            part[new] = LEFT_OUT
            between += len(new)
    chosen = _fill_empty(sides, keys, shares)
    for least, side in sides.items():
        part[[number for number in members[least] if old_part[number] == NEW]] = side
    if chosen:
        listed = ", ".join(names[least] for least in chosen[:5])
        cause = "that fill a part which would be empty, and stay there only as long as this split is stored"
        notes.append(f"{unit} {cause}: {listed}")
    if between and unit == "documents":  # a concept between two parts is held out
        notes.append(f"documents in no part because they join training with held-out ones: {between}")
    return part


def _fill_empty(sides: dict[int, int], keys: Mapping[int, float], shares: _Shares) -> list[int]:
    """Give each part that would be empty the new unit whose key is nearest to it; returns these units.

    No rule by the id alone can keep every part of every small corpus filled, so this is the one place where a new
    unit depends on the others.
    """
    chosen = []
    for wanted in shares.wanted():
        if wanted in sides.values():
            continue
        counts = Counter(sides.values())
        donors = [unit for unit in keys if counts[sides[unit]] > 1 and unit not in chosen]
        if donors:
            largest = max(counts[sides[unit]] for unit in donors)
            donors = [unit for unit in donors if counts[sides[unit]] == largest]
            sign = {unit: -1 if sides[unit] > wanted else 1 for unit in donors}  # keys of test are the smallest
            unit = min(donors, key=lambda unit: (sign[unit] * keys[unit], unit))
            sides[unit] = wanted
            chosen.append(unit)
    return chosen


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
    near_duplicates: dict[int, list[int]] = defaultdict(list)
    for block in near_pairs(texts, texts, most=2 * BOILERPLATE):
        for one, other in block[block[:, 0] != block[:, 1]].tolist():
            near_duplicates[one].append(other)
            near_duplicates[other].append(one)
    repeated = np.bincount(text) > 1
    repeated[list(near_duplicates)] = True
    documents: dict[int, Counter[int]] = defaultdict(Counter)
    for row in np.flatnonzero(repeated[text]).tolist():
        documents[int(text[row])][int(document[row])] += 1
    for number, passages in documents.items():
        yield passages, set(passages).union(*(documents[other] for other in near_duplicates.get(number, ())))


def _drop_near_duplicates(part: Parts, corpus: Outline, document: Integers, earlier: Parts, notes: list[str]) -> Parts:
    """Take what is close to validation or test out of training, and what is close to test out of validation.

    A held-out row that is new gives way to a row that was in a lower part before: a model may have been trained on it.
    """
    overlapping, duplicate, given_way = np.zeros((3, len(part)), bool)
    new = earlier == NEW
    for gives_way in (True, False):
        for held_out in (TEST, VALIDATION):
            lower = (part >= 0) & (part < held_out) & (~new if gives_way else True)
            upper = (part == held_out) & (new if gives_way else True)
            dropped, other = (upper, lower) if gives_way else (lower, upper)
            sharing, similar = np.zeros((2, len(part)), bool)
            for rows in _overlapping(corpus, document):
                for one, two in (rows, rows[::-1]):
                    sharing[one[dropped[one] & other[two]]] = True
            if corpus.sketches is not None:
                similar = dropped & _like(other, dropped, corpus.sketches)
            if gives_way:
                given_way |= sharing | similar
                part = np.where(given_way, np.int8(LEFT_OUT), part)
            else:
                overlapping |= sharing
                duplicate |= similar
    duplicate &= ~overlapping
    for rows_out, cause in (
        (given_way, "new passages in no part because earlier ones are like them"),
        (overlapping, "passages in no part because they share lines with held-out ones"),
        (duplicate, "passages in no part because they are near-duplicates of held-out ones"),
    ):
        notes += [f"{cause}: {int(rows_out.sum())}"] if rows_out.any() else []
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


def _by_document(
    names: Sequence[str], group: Integers, old_part: Parts, options: SplitOptions, notes: list[str]
) -> Parts:
    """The part of each document."""
    parts, units = 1 + (options.validation > 0) + (options.test > 0), len(np.unique(group))
    if units < parts and len(np.unique(old_part[old_part >= 0])) < parts:  # a corpus that grew keeps what it has
        raise ConfigError(
            f"a split by document into {parts} parts needs {parts} documents that are no near-duplicates; there are"
            f" {units}: use the method time or stratified"
        )
    return _assign(names, group, old_part, _Shares(options.validation, options.test), options.seed, notes, "documents")


def _by_time(
    corpus: Outline, group: Integers, document: Integers, options: SplitOptions, earlier: str, notes: list[str]
) -> tuple[Parts, str]:
    """The newest rows to test, those before to validation, and the dates where these begin.

    Rows of one date stay together. The dates are those of the options, else those of an `earlier` split, else they
    follow from the shares.
    """
    dates = np.array([date or "" for date in corpus.dates], dtype=np.str_)
    if not (dates != "").any():
        raise ConfigError("no passage has a date: use the method document or stratified")
    since = [date.strip() for date in (options.since or earlier or ",").split(",")]
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
    dates_used = [
        date or (str(distinct_dates[begin[number]]) if begin[number] < len(distinct_dates) else "")
        for number, date in ((VALIDATION, since[0]), (TEST, since[1]))
    ]
    return part, ",".join(dates_used)


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


def _stratified(
    corpus: Outline,
    names: Sequence[str],
    document: Integers,
    group: Integers,
    old_part: Parts,
    earlier: Parts,
    options: SplitOptions,
    notes: list[str],
) -> Parts:
    """Hold out statements of seen documents, and whole documents."""
    statement = np.array([kind not in NOT_STATEMENTS for kind in corpus.kinds] or [True] * len(corpus.ids))
    home = group[document]
    large = (np.bincount(home[statement], minlength=len(names)) >= LEAST_STATEMENTS)[group]
    if not large.any():
        raise ConfigError(f"no document has {LEAST_STATEMENTS} statements: use the method document")
    share = _Shares(options.unseen * options.validation, options.unseen * options.test)
    settled = np.zeros(len(names), bool)
    settled[group[old_part != NEW]] = True
    numbers = np.flatnonzero(large | settled[group])
    least = np.searchsorted(numbers, group[numbers])
    whole = np.full(len(names), TRAIN, np.int8)
    chosen = [names[number] for number in numbers.tolist()]
    whole[numbers] = _assign(chosen, least, old_part[numbers], share, options.seed, notes, "documents")
    part = np.where(earlier != NEW, earlier, whole[document])
    rest = (1 - options.unseen) / (1 - sum(share))  # of the statements in seen documents
    seen = _Shares(rest * options.validation, rest * options.test)
    keys: dict[int, float] = {}
    by_home: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(statement & large[document] & (whole[document] == TRAIN)).tolist():
        by_home[int(home[row])].append(row)
        if earlier[row] == NEW:
            keys[row] = _random_key(options.seed, corpus.ids[row])
            part[row] = seen.part(keys[row])
    for rows in by_home.values():
        new = [row for row in rows if row in keys]
        if new and not (part[rows] == TRAIN).any():  # none is held out whole in this way
            part[max(new, key=lambda row: (keys[row], corpus.ids[row]))] = TRAIN
    sides = dict(zip(np.flatnonzero(statement).tolist(), part[statement].tolist(), strict=True))
    for row in _fill_empty(sides, keys, _Shares(options.validation, options.test)):
        part[row] = sides[row]
    return part


def _by_concept(corpus: Outline, concepts: Mapping[str, str]) -> Parts:
    """A row goes with the concepts it defines, else with the one of the longest id that it mentions, else to training.

    A long name is that of a special concept. How often a concept occurs would say more, but changes with the corpus.
    """
    if not set(concepts.values()) - {PARTS[TRAIN]}:
        raise ConfigError(
            "a split by concept needs concepts and a share of them: run 'lemmata graph build', set concept_test"
        )
    number = {identity: PARTS.index(part) for identity, part in concepts.items()}
    part = np.full(len(corpus.ids), TRAIN, np.int8)
    for row, concept in sorted(corpus.mentions, key=lambda mention: (len(mention[1]), mention[1])):
        part[row] = number.get(concept, TRAIN)  # the longest comes last
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
    before: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> dict[str, str]:
    """The part of each concept by id; those of `before` keep theirs.

    Concepts with a name in common, up to one letter, stay together. So does a merged concept with the one
    that replaced it. A new concept that has names in common with concepts of two parts is held out, with the later.
    """
    names = {concept.id: (concept.name, *concept.aliases) for concept in concepts}
    replaced = merged or {}
    ids, _ = _numbered([*names, *replaced, *replaced.values()])
    number = {identity: place for place, identity in enumerate(ids)}
    joined = [(number[gone], number[stays]) for gone, stays in replaced.items()]
    first_with: dict[str, int] = {}  # spelling: the first concept that has it
    for identity, spellings in names.items():
        for key in map(name_key, spellings):
            variants = (key, *_with_one_letter_less(key))
            joined += ((first_with.setdefault(spelling, number[identity]), number[identity]) for spelling in variants)
    group = components(len(ids), *np.array(joined, np.int64).reshape(-1, 2).T)
    settled = before or {}
    old_part = np.array([PARTS.index(settled[name]) if name in settled else NEW for name in ids], np.int8)
    notes = notes if notes is not None else []
    part = _assign(ids, group, old_part, _Shares(validation, test), seed, notes, "concepts")
    highest = np.full(len(ids), TRAIN, np.int8)
    np.maximum.at(highest, group, old_part)  # a concept has to be in some part
    part = np.where(part == LEFT_OUT, highest[group], part)
    return {name: PARTS[number] for name, number in zip(ids, part.tolist(), strict=True)}


def split(workspace: Workspace, *, settings: Settings | None = None) -> dict[str, Any]:
    """Split the corpus and its concepts into train, validation and test, before anything is mined.

    Without any option, those of the stored split count. What the stored split of the same options has assigned stays
    where it is; one that is up to date stays as it is. Returns the counts and notes for the reader.
    """
    begin = time.perf_counter()
    if not settings and "split" not in workspace.config:  # "run 'lemmata split' again" must not mean another split
        settings = (read_manifest(workspace.manifest(workspace.split_folder)) or {}).get("options")
    options = workspace.options(SplitOptions, "split", settings)
    with workspace.hold(), contextlib.closing(Corpus(workspace)) as corpus:
        workspace.progress("comparing passages", 0, None)
        stored = open_graph_if_built(workspace)
        graph = stored.inputs if stored else ""
        recipe = {"verb": "split", "inputs": corpus.digest, "graph": graph, "options": asdict(options)}
        item = artefact(workspace, "split")
        if not is_current(item, recipe):
            parts = split_corpus(outline(corpus, stored), options, earlier_split(workspace, asdict(options)))
            write_split(workspace, parts, recipe)
        made = open_artefact(workspace, item)
    return {"counts": made["counts"], "notes": made["notes"], "seconds": time.perf_counter() - begin}
