"""Record linking: from a log to the earlier log that it follows up.

Candidates come from blocks (same location, same unit, a shared rare word, just before, named by its id), never from
all pairs, and each block keeps its latest logs only: time and memory grow linearly with the number of logs.
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
from lemmata.plant.memory import Association, association_scores, count_associations
from lemmata.plant.names import tokenise
from lemmata.plant.scorer import Doubles, Scorer, choose_threshold, cross_fit, fit
from lemmata.types import Edge, Mask, Passage

__all__ = ["FEATURES", "RecordLinker", "learn_records", "link_records"]

MAKER = "predict:record"
LATEST_AT_PLACE = 10  # logs of the same location that are compared, however old
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
    "gap",  # hours between the two, logarithmic
    "in_window",
    "same_place",
    "one_above",  # one location lies above the other
    "closeness",
    "place_unknown",
    "earlier_place_unknown",
    "same_place_soon",  # same location, less with each day
    "steps_back",  # logs of the same location between them: 1 / (1 + number)
    "last_at_place",
    "words",  # cosine of the texts by idf
    "rare_word",  # idf of the rarest shared word
    "numbers",  # shared numbers
    "cue",  # the later log has a word that points back
    "follows",  # learned from the words of logs that follow up
    "followed",  # learned from the words of logs that are followed up
    "named",  # the later log contains the id of the earlier one
    "already_followed",  # by another log
)


@dataclass(frozen=True, slots=True)
class Records:
    """Logs in order of time, with what their pairs are compared by; all sequences are in that order."""

    ids: Sequence[str]
    hours: Sequence[float]
    places: Sequence[tuple[int, ...]]  # rows of the tree
    words: Sequence[frozenset[str]]
    lengths: Sequence[float]  # of the idf vectors
    named: Sequence[tuple[int, ...]]  # logs whose id is in the text
    rarity: Mapping[str, float]  # idf
    frequency: Mapping[str, int]  # logs with the word
    tree: Tree
    window: float  # hours


@dataclass(frozen=True, slots=True)
class RecordLinker:
    """The logs, what known links taught, and the scorer. A log is its position in time."""

    records: Records
    known: Mapping[int, tuple[int, ...]]  # later log: earlier logs
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
) -> RecordLinker:
    """Train on all logs, and choose the threshold by scorers that did not see the log in question.

    `places` are the locations of each log, known or predicted, but not predicted with the help of `related_to`
    links. All `related_to` links of the given logs count as known, so the caller removes those to be predicted.
    A log without one counts as following nothing, which is not always true and keeps probabilities low. Logs without
    a date are left out.
    """
    records, position = _prepare(logs, tree, places, window_days * 24)
    known = _known_links(logs, position)
    followed = Counter(earlier for targets in known.values() for earlier in targets)
    linker = RecordLinker(
        records=records,
        known=known,
        followed=followed,
        follows_words=count_associations((words, ("yes",) * (n in known)) for n, words in enumerate(records.words)),
        followed_words=count_associations((words, ("yes",) * (n in followed)) for n, words in enumerate(records.words)),
        scorer=fit(np.zeros((0, len(FEATURES))), np.zeros(0, bool)),
        threshold=1.0,
    )
    share = min(1.0, MOST_TRAINING_LOGS / max(len(records.ids), 1))
    sampled = rng.random(len(records.ids)) < share
    groups = [
        (features, np.asarray([candidate in known.get(later, ()) for candidate in candidates], np.int8))
        for later, candidates, features in _compared(linker, sampled)
    ]
    scorer, probabilities = cross_fit(groups, len(FEATURES), rng)
    threshold = choose_threshold(
        [float(group.max()) for group in probabilities],
        [bool(labels[group.argmax()]) for group, (_, labels) in zip(probabilities, groups, strict=True)],
        sum(len(earlier) for later, earlier in known.items() if sampled[later]),
        complete=False,
    )
    return replace(linker, scorer=scorer, threshold=threshold)


def link_records(linker: RecordLinker) -> Iterator[Edge]:
    """For each log without a known follow-up link its most likely earlier log, if likely enough; in order of time."""
    records = linker.records
    unlinked = np.asarray([later not in linker.known for later in range(len(records.ids))], bool)
    for later, candidates, features in _compared(linker, unlinked):
        probabilities = linker.scorer.probabilities(features)
        best = int(probabilities.argmax())
        if probabilities[best] >= linker.threshold:
            source, target = records.ids[later], records.ids[candidates[best]]
            yield Edge(source, "related_to", target, source, MAKER, round(float(probabilities[best]), 4))


# ---------------------------------------------------------------- preparation


def _prepare(
    logs: Sequence[Passage], tree: Tree, places: Mapping[str, Sequence[str]], window: float
) -> tuple[Records, dict[str, int]]:
    """The logs in order of time, and the position of each id in that order."""
    dated = sorted((hours, row) for row, log in enumerate(logs) if (hours := _hours(log.date)) is not None)
    position = {logs[row].id: number for number, (_, row) in enumerate(dated)}
    ids = {"".join(token.word for token in tokenise(name)): number for name, number in position.items()}
    ids = {key: number for key, number in ids.items() if len(key) >= 4 and any(map(str.isdigit, key))}
    words: list[frozenset[str]] = []
    named: list[tuple[int, ...]] = []
    for number, (_, row) in enumerate(dated):
        tokens = [token.word for token in tokenise(logs[row].text)]
        words.append(frozenset(word for word in tokens if len(word) > 1))
        runs = {"".join(tokens[start:end]) for start in range(len(tokens)) for end in range(start + 1, start + 5)}
        named.append(tuple(sorted(ids[run] for run in runs if run in ids and ids[run] < number)))
    frequency = Counter(word for of_log in words for word in of_log)
    rarity = {word: logarithm(1 + len(words) / count) for word, count in frequency.items()}
    rows = [{tree.rows[place] for place in places.get(logs[row].id, ()) if place in tree.rows} for _, row in dated]
    records = Records(
        ids=list(position),
        hours=[hours for hours, _ in dated],
        places=[tuple(sorted(of_log)) for of_log in rows],
        words=words,
        lengths=[sqrt(sum(rarity[word] ** 2 for word in sorted(of_log))) or 1.0 for of_log in words],
        named=named,
        rarity=rarity,
        frequency=frequency,
        tree=tree,
        window=window,
    )
    return records, position


def _hours(date: str | None) -> float | None:
    """Since 1970; a time without a zone is taken as UTC, which keeps gaps right within one plant."""
    if not date:
        return None
    try:
        moment = datetime.datetime.fromisoformat(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp() / 3600


def _known_links(logs: Sequence[Passage], position: Mapping[str, int]) -> dict[int, tuple[int, ...]]:
    """Later log to earlier logs, whichever of the two holds the link."""
    known: dict[int, set[int]] = defaultdict(set)
    for log in logs:
        for link in log.links:
            ends = sorted({position[end] for end in (log.id, link.target or "") if end in position})
            if link.relation == "related_to" and len(ends) == 2:
                known[ends[1]].add(ends[0])
    return {later: tuple(sorted(earlier)) for later, earlier in known.items()}


# ---------------------------------------------------------------- candidates and features


def _compared(linker: RecordLinker, asked: Mask) -> Iterator[tuple[int, list[int], Doubles]]:
    """Each log in `asked` with its earlier candidates and their features; logs without candidates are left out."""
    records, tree = linker.records, linker.records.tree
    at_place: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=LATEST_AT_PLACE))
    in_unit: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=LATEST_IN_UNIT))
    with_word: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=LATEST_WITH_WORD))
    latest: deque[int] = deque(maxlen=LATEST)
    followed: dict[int, float] = {}  # a log is a candidate many times, always with the same score
    too_frequent = max(50, len(records.ids) // 100)
    for later, hours in enumerate(records.hours):
        places = records.places[later]
        rare = sorted(
            (word for word in records.words[later] if 2 <= records.frequency[word] <= too_frequent),
            key=lambda word: (records.frequency[word], word),
        )[:RAREST_WORDS]
        units = {row for place in places for row in (place, tree.parent[place]) if row >= 0}
        recent: set[int] = set(latest)
        for row in units:
            recent.update(in_unit[row])
        for word in rare:
            recent.update(with_word[word])
        candidates = {earlier for earlier in recent if hours - records.hours[earlier] <= records.window}
        candidates.update(earlier for place in places for earlier in at_place[place])
        candidates.update(records.named[later])
        if candidates and asked[later]:
            ordered = sorted(candidates)
            for earlier in ordered:
                if earlier not in followed:
                    is_followed = linker.followed[earlier] > 0
                    followed[earlier] = _word_score(linker.followed_words, records.words[earlier], is_followed)
            yield later, ordered, _features(linker, later, ordered, at_place, followed)
        latest.append(later)
        for place in places:
            at_place[place].append(later)
        for row in units:
            in_unit[row].append(later)
        for word in rare:
            with_word[word].append(later)


def _features(
    linker: RecordLinker,
    later: int,
    candidates: Sequence[int],
    at_place: Mapping[int, Sequence[int]],
    followed: Mapping[int, float],
) -> Doubles:
    records, tree = linker.records, linker.records.tree
    places, words, hours = records.places[later], records.words[later], records.hours[later]
    known = linker.known.get(later, ())
    cue = float(not words.isdisjoint(CUES))
    follows = _word_score(linker.follows_words, words, bool(known))
    steps_back = {
        earlier: number
        for place in places
        for number, earlier in enumerate(reversed(at_place[place]))  # the last location wins, logs mostly have one
    }
    features = np.zeros((len(candidates), len(FEATURES)))
    for position, earlier in enumerate(candidates):
        other_places = records.places[earlier]
        gap = hours - records.hours[earlier]
        same = not set(places).isdisjoint(other_places)
        near, above = float(same), 0.0
        if not same:
            for place in places:
                for other in other_places:
                    near = max(near, closeness(tree, place, other))
                    above = max(above, float(contains(tree, place, other) or contains(tree, other, place)))
        shared = words & records.words[earlier]
        weights = sorted(records.rarity[word] for word in shared)
        steps = steps_back.get(earlier)
        features[position] = (
            logarithm(1 + gap),
            float(gap <= records.window),
            float(same),
            above,
            near,
            float(not places),
            float(not other_places),
            same * 24 / (24 + gap),
            0.0 if steps is None else 1 / (1 + steps),
            float(steps == 0),
            sum(weight**2 for weight in weights) / (records.lengths[later] * records.lengths[earlier]),
            max(weights, default=0.0),
            float(sum(word.isdigit() for word in shared)),
            cue,
            follows,
            followed[earlier],
            float(earlier in records.named[later]),
            float(linker.followed[earlier] - (earlier in known) > 0),
        )
    return features


def _word_score(counts: Association, words: frozenset[str], member: bool) -> float:
    """How typical the words of a counted log, itself left out, are of the logs of the class."""
    return association_scores(counts, words, ("yes",), counted=True, members=("yes",) * member)["yes"]
