"""Record linking: from a log to the earlier log that it follows up.

Candidates come from blocks (same place, same unit, a shared rare word, just before, named by its id), never from
all pairs, and each block keeps its latest logs only: time and memory grow with the number of logs, not its square.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log as logarithm
from math import sqrt

import numpy as np

from lemmata.plant.hierarchy import Tree, closeness, contains
from lemmata.plant.memory import Association, associate, associations
from lemmata.plant.names import tokenise
from lemmata.plant.scorer import Doubles, Scorer, choose_threshold, cross_fit, fit
from lemmata.types import Edge, Floats, Mask, Passage

__all__ = ["FEATURES", "RecordLinker", "learn_records", "link_records"]

MAKER = "predict:record"
LATEST_THERE = 10  # logs of the same place that are looked at, however old
LATEST_IN_UNIT = 10
LATEST_WITH_WORD = 4
LATEST = 8
RAREST_WORDS = 6  # of a log
MOST_TRAINING_LOGS = 10_000
CUES = frozenset(
    """again still yesterday follow followup continued continue update repeat repeated reported recurring previous
    recheck see since later after erneut wieder wiederholt gestern nachtrag fortsetzung weiter weiterhin siehe zu
    betr bzgl vorschicht immer noch nochmal abermals""".split()
)
FEATURES = (
    "gap",  # hours between, logarithmic
    "in_window",
    "same_place",
    "one_above",  # one place lies above the other
    "closeness",
    "place_unknown",
    "earlier_unknown",
    "same_place_soon",  # same place, less with each day
    "steps_back",  # logs of the same place between them: 1 / (1 + number)
    "last_there",
    "words",  # cosine of the texts by idf
    "rare_word",  # idf of the rarest shared word
    "numbers",  # shared numbers
    "cue",  # the later one has a word that points back
    "follows",  # what was learned of words in logs that follow up
    "followed",  # and in those that are followed
    "named",  # the later one holds the id of the earlier one
    "already_followed",  # by another log
    "vectors",  # cosine of what the caller gave
)


@dataclass(frozen=True, slots=True)
class Records:
    """Logs in order of time, and what their pairs are compared by; all sequences in that order."""

    ids: Sequence[str]
    hours: Sequence[float]
    places: Sequence[tuple[int, ...]]
    words: Sequence[frozenset[str]]
    lengths: Sequence[float]
    named: Sequence[tuple[int, ...]]  # logs whose id stands in the text
    rarity: Mapping[str, float]
    often: Mapping[str, int]
    tree: Tree
    window: float  # hours
    vectors: Floats | None


@dataclass(frozen=True, slots=True)
class RecordLinker:
    """All that is needed to link logs: the logs, what known links taught, and the scorer."""

    records: Records
    known: Mapping[int, tuple[int, ...]]  # later log: earlier ones
    followed: Counter[int]  # how often an earlier log is followed up
    follows_words: Association
    followed_words: Association
    scorer: Scorer
    threshold: float


def learn_records(
    logs: Sequence[Passage],
    tree: Tree,
    places: Mapping[str, Sequence[str]],
    rng: np.random.Generator,
    *,
    window_days: float = 14.0,
    vectors: Floats | None = None,
) -> RecordLinker:
    """Train on all logs, and choose the threshold by scorers that did not see the log in question.

    `places` are the locations of each log, known or predicted; `vectors` (logs, dim) are L2-normalised. All
    `related_to` links of the given logs count as known, so those to be predicted must have been taken out;
    a log without one counts as following nothing, which is not always true and keeps probabilities low.
    The places must not have been predicted with the help of these links. A log without a date takes no part.
    """
    records, order = _prepare(logs, tree, places, window_days * 24, vectors)
    known = _known(logs, order)
    followed = Counter(earlier for targets in known.values() for earlier in targets)
    linker = RecordLinker(
        records=records,
        known=known,
        followed=followed,
        follows_words=associate((words, ("yes",) if at in known else ()) for at, words in enumerate(records.words)),
        followed_words=associate((words, ("yes",) if followed[at] else ()) for at, words in enumerate(records.words)),
        scorer=fit(np.zeros((0, len(FEATURES))), np.zeros(0, bool)),
        threshold=1.0,
    )
    share = min(1.0, MOST_TRAINING_LOGS / max(len(records.ids), 1))
    taken = rng.random(len(records.ids)) < share
    groups = [
        (values, np.asarray([one in known.get(at, ()) for one in earlier], np.int8))
        for at, earlier, values in _compared(linker, taken)
    ]
    scorer, chances = cross_fit(groups, len(FEATURES), rng)
    threshold = choose_threshold(
        [float(own.max()) for own in chances],
        [bool(judged[own.argmax()]) for own, (_, judged) in zip(chances, groups, strict=True)],
        sum(len(earlier) for at, earlier in known.items() if taken[at]),
        complete=False,
    )
    return replace(linker, scorer=scorer, threshold=threshold)


def link_records(linker: RecordLinker) -> Iterator[Edge]:
    """For each log that follows up nothing yet the earlier log it does, if one is likely; in order of time."""
    records = linker.records
    asked = np.asarray([at not in linker.known for at in range(len(records.ids))], bool)
    for at, earlier, values in _compared(linker, asked):
        chances = linker.scorer.probabilities(values)
        best = int(chances.argmax())
        if chances[best] >= linker.threshold:
            name = records.ids[at]
            weight = round(float(chances[best]), 4)
            yield Edge(name, "related_to", records.ids[earlier[best]], name, MAKER, weight)


# ---------------------------------------------------------------- preparation


def _prepare(
    logs: Sequence[Passage],
    tree: Tree,
    places: Mapping[str, Sequence[str]],
    window: float,
    vectors: Floats | None,
) -> tuple[Records, dict[str, int]]:
    """The logs in order of time, and the place of each id in that order."""
    dated = sorted((hours, row) for row, log in enumerate(logs) if (hours := _hours(log.date)) is not None)
    order = {logs[row].id: at for at, (_, row) in enumerate(dated)}
    squeezed = {"".join(token.word for token in tokenise(name)): at for name, at in order.items()}
    squeezed = {key: at for key, at in squeezed.items() if len(key) >= 4 and any(map(str.isdigit, key))}
    words: list[frozenset[str]] = []
    named: list[tuple[int, ...]] = []
    for at, (_, row) in enumerate(dated):
        spelt = [token.word for token in tokenise(logs[row].text)]
        words.append(frozenset(word for word in spelt if len(word) > 1))
        keys = {"".join(spelt[start:end]) for start in range(len(spelt)) for end in range(start + 1, start + 5)}
        named.append(tuple(sorted(squeezed[key] for key in keys if key in squeezed and squeezed[key] < at)))
    often = Counter(word for own in words for word in own)
    rarity = {word: logarithm(1 + len(words) / count) for word, count in often.items()}
    records = Records(
        ids=[logs[row].id for _, row in dated],
        hours=[hours for hours, _ in dated],
        places=[
            tuple(sorted({tree.rows[place] for place in places.get(logs[row].id, ()) if place in tree.rows}))
            for _, row in dated
        ],
        words=words,
        lengths=[sqrt(sum(rarity[word] ** 2 for word in sorted(own))) or 1.0 for own in words],
        named=named,
        rarity=rarity,
        often=often,
        tree=tree,
        window=window,
        vectors=None if vectors is None else vectors[[row for _, row in dated]],
    )
    return records, order


def _hours(date: str | None) -> float | None:
    """Since 1970; a time without a zone is taken as universal, which keeps gaps right within one plant."""
    if not date:
        return None
    try:
        moment = datetime.datetime.fromisoformat(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp() / 3600


def _known(logs: Sequence[Passage], order: Mapping[str, int]) -> dict[int, tuple[int, ...]]:
    """Later log to earlier ones, whichever of the two holds the link."""
    known: dict[int, set[int]] = defaultdict(set)
    for log in logs:
        for link in log.links:
            ends = {order.get(log.id), order.get(link.target or "")} - {None}
            if link.relation == "related_to" and len(ends) == 2:
                earlier, later = sorted(end for end in ends if end is not None)
                known[later].add(earlier)
    return {later: tuple(sorted(earlier)) for later, earlier in known.items()}


# ---------------------------------------------------------------- blocks


def _compared(linker: RecordLinker, asked: Mask) -> Iterator[tuple[int, list[int], Doubles]]:
    """Each log asked for with its candidates and their features; logs without any are left out."""
    records = linker.records
    tree = records.tree
    there: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=LATEST_THERE))
    unit: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=LATEST_IN_UNIT))
    with_word: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=LATEST_WITH_WORD))
    latest: deque[int] = deque(maxlen=LATEST)
    followed: dict[int, float] = {}  # a log is a candidate many times, what its words say is the same each time
    too_often = max(50, len(records.ids) // 100)
    for at, hours in enumerate(records.hours):
        own = records.places[at]
        rare = sorted(
            (word for word in records.words[at] if 2 <= records.often[word] <= too_often),
            key=lambda word: (records.often[word], word),
        )[:RAREST_WORDS]
        units = {row for place in own for row in (place, tree.parent[place]) if row >= 0}
        soon: set[int] = set(latest)
        for row in units:
            soon.update(unit[row])
        for word in rare:
            soon.update(with_word[word])
        candidates = {one for one in soon if hours - records.hours[one] <= records.window}
        candidates.update(one for place in own for one in there[place])
        candidates.update(records.named[at])
        if candidates and asked[at]:
            earlier = sorted(candidates)
            for one in earlier:
                if one not in followed:
                    followed[one] = _cue(linker.followed_words, records.words[one], linker.followed[one] > 0)
            yield at, earlier, _features(linker, at, earlier, there, followed)
        latest.append(at)
        for place in own:
            there[place].append(at)
        for row in units:
            unit[row].append(at)
        for word in rare:
            with_word[word].append(at)


def _features(
    linker: RecordLinker,
    at: int,
    earlier: Sequence[int],
    there: Mapping[int, Sequence[int]],
    followed: Mapping[int, float],
) -> Doubles:
    records, tree = linker.records, linker.records.tree
    own, words, hours = records.places[at], records.words[at], records.hours[at]
    known = linker.known.get(at, ())
    cue = float(not words.isdisjoint(CUES))
    follows = _cue(linker.follows_words, words, bool(known))
    backwards = {
        one: number
        for place in own
        for number, one in enumerate(reversed(there[place]))  # the last place wins, logs mostly have one
    }
    values = np.zeros((len(earlier), len(FEATURES)))
    for position, one in enumerate(earlier):
        other = records.places[one]
        gap = hours - records.hours[one]
        same = not set(own).isdisjoint(other)
        near, above = (1.0, 0.0) if same else (0.0, 0.0)
        if not same:
            for here in own:
                for place in other:
                    near = max(near, closeness(tree, here, place))
                    above = max(above, float(contains(tree, here, place) or contains(tree, place, here)))
        shared = words & records.words[one]
        weights = sorted(records.rarity[word] for word in shared)
        steps = backwards.get(one)
        mine = one in known
        values[position] = (
            logarithm(1 + gap),
            float(gap <= records.window),
            float(same),
            above,
            near,
            float(not own),
            float(not other),
            same * 24 / (24 + gap),
            0.0 if steps is None else 1 / (1 + steps),
            float(steps == 0),
            sum(weight**2 for weight in weights) / (records.lengths[at] * records.lengths[one]),
            max(weights, default=0.0),
            float(sum(word.isdigit() for word in shared)),
            cue,
            follows,
            followed[one],
            float(one in records.named[at]),
            float(linker.followed[one] - mine > 0),
            0.0 if records.vectors is None else float(records.vectors[at] @ records.vectors[one]),
        )
    return values


def _cue(known: Association, words: frozenset[str], member: bool) -> float:
    """How much the words of a log, itself left out, are those of logs that follow up or are followed."""
    return associations(known, words, ("yes",), counted=True, members=("yes",) if member else ())["yes"]
