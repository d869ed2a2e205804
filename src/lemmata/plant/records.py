"""Record linking: from a log to the earlier log that it follows up.

Candidates come from blocks (same location, same unit, a shared rare word, just before, named by its id), never from
all pairs, and each block keeps its latest logs only: time and memory grow linearly with the number of logs.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log as logarithm
from math import sqrt

import numpy as np

from lemmata.core.types import Edge, Mask, Passage
from lemmata.plant.hierarchy import Hierarchy, closeness, contains
from lemmata.plant.memory import association_scores, count_associations
from lemmata.plant.names import tokenise
from lemmata.plant.scorer import Doubles, Scorer, choose_threshold, cross_fit, fit

MAKER = "predict:record"
LATEST = {"all": 8, "place": 10, "unit": 10, "word": 4}  # logs of one block that are compared
_WINDOW = 14 * 24.0  # hours; logs of the same location, and those that a log names, are compared however old they are
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
class RecordLinker:
    """Logs in order of time, with what their pairs are compared by, and the scorer.

    A log is its position in that order, and all sequences are in it.
    """

    ids: Sequence[str]
    hours: Sequence[float]
    places: Sequence[tuple[int, ...]]  # rows of the tree
    words: Sequence[frozenset[str]]
    lengths: Sequence[float]  # of the idf vectors
    named: Sequence[tuple[int, ...]]  # earlier logs whose id is in the text
    rarity: Mapping[str, float]  # idf
    frequency: Mapping[str, int]  # logs with the word
    tree: Hierarchy
    known: Mapping[int, tuple[int, ...]]  # later log: earlier logs; those that may be learned from
    linked: frozenset[int]  # later logs with a known link, learned from or not
    held_out: frozenset[int]  # logs whose links may not be learned from
    followed: Counter[int]  # how often an earlier log is followed up
    follows_scores: Sequence[float]  # how typical the words of a log are of logs that follow up
    followed_scores: Sequence[float]  # the same for logs that are followed up
    scorer: Scorer
    threshold: float


def learn_records(
    logs: Sequence[Passage],
    tree: Hierarchy,
    places: Mapping[str, Sequence[str]],
    rng: np.random.Generator,
    *,
    held_out: Container[str] = (),
) -> RecordLinker:
    """Train on all logs but those `held_out`, and choose the threshold by scorers that did not see the log in question.

    `places` are the locations of each log, known or predicted, but not predicted with the help of `related_to`
    links. All `related_to` links of the given logs count as known, so the caller removes those to be predicted.
    A log without one counts as following nothing, which is not always true and keeps probabilities low. Logs without
    a date are left out.
    """
    linker = _prepare(logs, tree, places, held_out)
    sampled = rng.random(len(linker.ids)) < MOST_TRAINING_LOGS / max(len(linker.ids), 1)
    sampled[list(linker.held_out)] = False
    groups = [
        (features, np.asarray([candidate in linker.known.get(later, ()) for candidate in candidates], np.int8))
        for later, candidates, features in _compared(linker, sampled)
    ]
    scorer, probabilities = cross_fit(groups, len(FEATURES), rng)
    threshold = choose_threshold(
        [float(group.max()) for group in probabilities],
        [bool(labels[group.argmax()]) for group, (_, labels) in zip(probabilities, groups, strict=True)],
        sum(len(earlier) for later, earlier in linker.known.items() if sampled[later]),
        complete=False,
    )
    return replace(linker, scorer=scorer, threshold=threshold)


def link_records(linker: RecordLinker) -> Iterator[Edge]:
    """For each log without a known follow-up link its most likely earlier log, if likely enough; in order of time."""
    unlinked = np.asarray([later not in linker.linked for later in range(len(linker.ids))], bool)
    for later, candidates, features in _compared(linker, unlinked):
        probabilities = linker.scorer.probabilities(features)
        best = int(probabilities.argmax())
        if probabilities[best] >= linker.threshold:
            source, target = linker.ids[later], linker.ids[candidates[best]]
            yield Edge(source, "related_to", target, source, MAKER, round(float(probabilities[best]), 4))


# ---------------------------------------------------------------- preparation


def _prepare(
    logs: Sequence[Passage],
    tree: Hierarchy,
    places: Mapping[str, Sequence[str]],
    held_out: Container[str],
) -> RecordLinker:
    """Sort and index the logs; the scorer is still untrained."""
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
    every_link = _known_links(logs, position)
    unseen = frozenset(number for name, number in position.items() if name in held_out)
    trained = {
        later: tuple(number for number in earlier if number not in unseen) for later, earlier in every_link.items()
    }
    known = {later: earlier for later, earlier in trained.items() if earlier and later not in unseen}
    followed = Counter(earlier for targets in known.values() for earlier in targets)
    return RecordLinker(
        ids=list(position),
        hours=[hours for hours, _ in dated],
        places=[tuple(sorted(of_log)) for of_log in rows],
        words=words,
        lengths=[sqrt(sum(rarity[word] ** 2 for word in sorted(of_log))) or 1.0 for of_log in words],
        named=named,
        rarity=rarity,
        frequency=frequency,
        tree=tree,
        known=known,
        linked=frozenset(every_link),
        held_out=unseen,
        followed=followed,
        follows_scores=_word_scores(words, known, unseen),
        followed_scores=_word_scores(words, followed, unseen),
        scorer=fit(np.zeros((0, len(FEATURES))), np.zeros(0, bool)),
        threshold=1.0,
    )


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


def _word_scores(words: Sequence[frozenset[str]], members: Container[int], unseen: Container[int]) -> list[float]:
    """How typical the words of each log are of the logs in `members`; the log itself is left out of the counts.

    Logs that are `unseen` are not counted at all.
    """
    classes = [("yes",) * (number in members) for number in range(len(words))]
    logs = list(zip(words, classes, strict=True))
    counts = count_associations(log for number, log in enumerate(logs) if number not in unseen)
    return [
        association_scores(counts, of_log, ("yes",), counted=number not in unseen, members=of_class)["yes"]
        for number, (of_log, of_class) in enumerate(logs)
    ]


# ---------------------------------------------------------------- candidates and features


def _compared(linker: RecordLinker, asked: Mask) -> Iterator[tuple[int, list[int], Doubles]]:
    """Each log in `asked` with its earlier candidates and their features; logs without candidates are left out."""
    blocks: dict[tuple[str, int | str], deque[int]] = {}

    def block(kind: str, key: int | str) -> deque[int]:
        return blocks.setdefault((kind, key), deque(maxlen=LATEST[kind]))

    too_frequent = max(50, len(linker.ids) // 100)
    for later, hours in enumerate(linker.hours):
        rare = sorted(
            (word for word in linker.words[later] if 2 <= linker.frequency[word] <= too_frequent),
            key=lambda word: (linker.frequency[word], word),
        )[:RAREST_WORDS]
        places = linker.places[later]
        units = {row for place in places for row in (place, int(linker.tree.parent[place])) if row >= 0}
        at_places = [block("place", place) for place in places]
        others = [block("all", ""), *(block("unit", row) for row in units), *(block("word", word) for word in rare)]
        recent = {earlier for of_block in others for earlier in of_block}
        candidates = {earlier for earlier in recent if hours - linker.hours[earlier] <= _WINDOW}
        candidates.update(linker.named[later], *at_places)  # however old
        if candidates and asked[later]:
            yield later, sorted(candidates), _features(linker, later, sorted(candidates), at_places)
        for of_block in (*at_places, *others):
            of_block.append(later)


def _features(
    linker: RecordLinker, later: int, candidates: Sequence[int], at_places: Iterable[Sequence[int]]
) -> Doubles:
    """(candidates, features); `at_places` are the latest logs of each location of the later log."""
    places, words, known = linker.places[later], linker.words[later], linker.known.get(later, ())
    steps_back = {
        earlier: number
        for at_place in at_places
        for number, earlier in enumerate(reversed(at_place))  # the last location wins, logs mostly have one
    }
    pairs = [
        (position, place, other)
        for position, earlier in enumerate(candidates)
        for place in places
        for other in linker.places[earlier]
    ]
    at, first, second = np.array(pairs, np.int64).reshape(-1, 3).T
    closest, above = np.zeros(len(candidates)), np.zeros(len(candidates), bool)
    np.maximum.at(closest, at, closeness(linker.tree, first, second))
    np.logical_or.at(above, at, contains(linker.tree, first, second) | contains(linker.tree, second, first))
    features = np.zeros((len(candidates), len(FEATURES)))
    for position, earlier in enumerate(candidates):
        gap = linker.hours[later] - linker.hours[earlier]
        same = closest[position] == 1.0
        shared = words & linker.words[earlier]
        weights = sorted(linker.rarity[word] for word in shared)
        steps = steps_back.get(earlier)
        features[position] = (
            logarithm(1 + gap),
            gap <= _WINDOW,
            same,
            above[position] and not same,
            closest[position],
            not places,
            not linker.places[earlier],
            same * 24 / (24 + gap),
            0.0 if steps is None else 1 / (1 + steps),
            steps == 0,
            sum(weight**2 for weight in weights) / (linker.lengths[later] * linker.lengths[earlier]),
            max(weights, default=0.0),
            sum(word.isdigit() for word in shared),
            not words.isdisjoint(CUES),
            linker.follows_scores[later],
            linker.followed_scores[earlier],
            earlier in linker.named[later],
            linker.followed[earlier] - (earlier in known) > 0,
        )
    return features
