"""Entity linking: from abbreviations, codes and names in a log to the locations it reports about.

All links of the given logs count as known; the caller removes links that are to be predicted. A location is its row
in the tree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.types import Edge, Integers, Mask, Passage
from lemmata.plant.hierarchy import Hierarchy, children, closeness, contains
from lemmata.plant.memory import (
    Association,
    AssociationIndex,
    Neighbours,
    all_association_scores,
    association_scores,
    count_associations,
    index_associations,
    index_neighbours,
    nearest,
)
from lemmata.plant.names import Mention, Names, Option, Token, find_mentions, index_names, tokenise
from lemmata.plant.scorer import Doubles, Scorer, choose_threshold, cross_fit, fit

Rows = Mapping[str, tuple[int, ...]]  # by log: rows of the hierarchy
MAKER = "predict:entity"
LEAST_PROBABILITY = 0.01  # candidates below are ignored
MOST_TRAINING_LOGS = 10_000
BLOCK = 256  # logs whose candidates are compared at once
MOST_CHILDREN = 40  # a named location with more children does not propose them
LEAST_STRENGTH = 0.5  # of a mention that names a location
NOTHING_KNOWN, PARENT_KNOWN, UNIT_KNOWN = 0.5, 0.8, 0.9  # cumulated shares of training logs; the rest know a neighbour
FEATURES = (
    "code",  # 1 / number of locations that the code may mean
    "title",  # the same for a whole title
    "exact_length",  # characters of the longest exact mention, in tens
    "number",  # similarity of the word before the number
    "number_best",  # whether no other option of the mention is as similar
    "number_word",  # learned from the word before the number
    "words",  # share of the title that is mentioned
    "words_gap",  # to the best covered title
    "initials",
    "early",  # how early in the text the mention is
    "child_of_code",  # the parent is named by its code
    "explained",  # mentions that mean the location or one above it
    "explained_gap",  # to the location that explains most
    "beside_code",  # closeness to another unambiguous code of the text
    "below_code",  # lies below another code of the text, and is itself named
    "context",  # some location above is known
    "in_context",  # lies below it
    "near_context",
    "named_in_context",  # below it and named by code, number or title
    "related",  # closeness to the locations of related logs
    "same_as_related",
    "kind_words",  # learned from the words and the kind of location
    "kind_words_gap",
    "place_words",  # learned from the words and this location
    "place_words_gap",
    "neighbour",  # cosine of the most similar known log of the location
    "votes",  # share of the ten most similar logs, by cosine
    "known",  # known logs of the location, logarithmic
    "depth",
)


class EntityLink(NamedTuple):
    """A predicted link and the part of the text that names the location; empty if nothing names it."""

    edge: Edge
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EntityLinker:
    """The names of locations, what known links taught, and the scorer."""

    names: Names
    known: Rows  # log: its deepest rows
    context: Rows  # log: known rows above those
    related: Rows  # log: known rows of related logs
    words: AssociationIndex  # the first classes are the locations, then come their kinds
    kind_columns: Integers  # (locations, most kinds): columns of `words`, padded with -1
    number_words: Association
    number_cache: dict[tuple[str, str, bool, bool], float]  # of `_number_word`
    neighbours: Neighbours
    neighbour_rows: Mapping[str, int]  # log: row of `neighbours`
    places: Sequence[tuple[int, ...]]  # rows of the tree for each row of `neighbours`
    scorer: Scorer
    threshold: float


class Draft(NamedTuple):
    """The candidates of one log, and what the text itself says about each."""

    log: Passage
    rows: list[int]
    options: list[Option]  # strength 0 and an empty span if nothing in the text names the row
    features: Mapping[str, list[float]]  # those that come from the text: a value per row
    named: list[bool]  # whether a code, a title or a number with a fitting word names the row
    kind_words: Doubles  # (rows,)
    place_words: Doubles  # (rows,)
    unambiguous: Sequence[int]  # rows of codes that mean one location only
    context: Sequence[int]
    related: Sequence[int]
    known: Sequence[int]


# ---------------------------------------------------------------- learning


def learn_entities(logs: Sequence[Passage], tree: Hierarchy, rng: np.random.Generator) -> EntityLinker:
    """Train on the logs with known locations, and choose the threshold by scorers that did not see the log.

    If a log knows several locations one above the other, it reports about the deepest and the others are its
    context. If it knows only one, training pretends for some logs that only a location above it was known, as
    authors often name just the unit.
    """
    known, context = _known_rows(logs, tree)
    linker = _memorise(logs, index_names(tree), known, context)
    pretended = _pretended_context(known, context, tree, rng)
    share = MOST_TRAINING_LOGS / max(len(known), 1)
    sample = [log for log in logs if log.id in known and rng.random() < share]
    candidates = list(_candidates(linker, ((log, pretended[log.id]) for log in sample)))
    groups = [(features, _labels(draft, tree)) for draft, features in candidates]
    scorer, probabilities = cross_fit(groups, len(FEATURES), rng)
    accepted: list[float] = []
    right: list[bool] = []
    for (draft, _), of_log, (_, labels) in zip(candidates, probabilities, groups, strict=True):
        for position in _best_per_line(draft.rows, of_log, tree):
            if labels[position] >= 0:
                accepted.append(float(of_log[position]))
                right.append(bool(labels[position]))
    threshold = choose_threshold(accepted, right, sum(len(known[log.id]) for log in sample))
    return replace(linker, scorer=scorer, threshold=threshold)


def _known_rows(logs: Iterable[Passage], tree: Hierarchy) -> tuple[Rows, Rows]:
    """The deepest known rows of each log, and the known rows above them."""
    known: dict[str, tuple[int, ...]] = {}
    context: dict[str, tuple[int, ...]] = {}
    for log in logs:
        targets = {link.target for link in log.links if link.relation == "reports_about" and link.target}
        rows = sorted(tree.rows[target] for target in targets if target in tree.rows)
        deepest = tuple(row for row in rows if not any(contains(tree, row, other) for other in rows if other != row))
        if deepest:
            known[log.id] = deepest
            context[log.id] = tuple(row for row in rows if row not in deepest)
    return known, context


def _memorise(logs: Sequence[Passage], names: Names, known: Rows, context: Rows) -> EntityLinker:
    """Count words and index the known logs; the scorer is still untrained."""
    partners: dict[str, list[str]] = defaultdict(list)
    for log in logs:
        for link in log.links:
            if link.relation == "related_to" and link.target and link.target != log.id:
                partners[log.id].append(link.target)
                partners[link.target].append(log.id)
    tokens = {log.id: tokenise(log.text) for log in logs if log.id in known}
    kinds = [_kinds(names, row) for row in range(len(names.tree.ids))]
    # classes without duplicates, in an order that no hash seed changes
    classes = {
        name: list(dict.fromkeys([*rows, *(kind for row in rows for kind in kinds[row])]))
        for name, rows in known.items()
    }
    words = index_associations(
        count_associations((_words(tokens[name]), classes[name]) for name in known),
        [*range(len(kinds)), *dict.fromkeys(chain.from_iterable(kinds))],
    )
    columns = zip_longest(*([words.columns[kind] for kind in of_row] for of_row in kinds), fillvalue=-1)
    return EntityLinker(
        names=names,
        known=known,
        context=context,
        related={
            name: tuple(dict.fromkeys(row for other in others for row in known.get(other, ())))
            for name, others in partners.items()
        },
        words=words,
        kind_columns=np.array(list(columns), np.int64).T,
        number_words=count_associations(
            (_number_words(tokens[name], names, rows), {names.kinds[row] for row in rows})
            for name, rows in known.items()
        ),
        number_cache={},
        neighbours=index_neighbours([_words(tokens[name], numbers=True) for name in known]),
        neighbour_rows={name: row for row, name in enumerate(known)},
        places=list(known.values()),
        scorer=fit(np.zeros((0, len(FEATURES))), np.zeros(0, bool)),
        threshold=1.0,
    )


def _pretended_context(known: Rows, context: Rows, tree: Hierarchy, rng: np.random.Generator) -> Rows:
    """The rows that count as known of each log while its own link is to be found."""
    pretended = {}
    for name, rows in known.items():
        above = context[name]
        if not above:
            draw = rng.random()
            climbed = set(rows)
            for _ in range(0 if draw < NOTHING_KNOWN else 2 if PARENT_KNOWN <= draw < UNIT_KNOWN else 1):
                climbed = {int(tree.parent[row]) if tree.parent[row] >= 0 else row for row in climbed}
            if draw >= UNIT_KNOWN:
                families = [children(tree, row) for row in climbed]
                climbed = {family[rng.integers(len(family))] for family in families if family}
            above = tuple(sorted(climbed - set(rows)))
        pretended[name] = above
    return pretended


def _labels(draft: Draft, tree: Hierarchy) -> npt.NDArray[np.int8]:
    """1 right, 0 wrong, -1 unknown: (candidates,).

    An author may have given only the unit. So if the text names something below the known location, but not the
    location itself, the former may be the better answer.
    """
    named = {row for row, option in zip(draft.rows, draft.options, strict=True) if option.strength > 0}
    labels = np.zeros(len(draft.rows), np.int8)
    for position, row in enumerate(draft.rows):
        if row in draft.known:
            labels[position] = 1
        elif any(answer not in named and contains(tree, answer, row) for answer in draft.known):
            labels[position] = -1
    return labels


# ---------------------------------------------------------------- candidates and features


def _words(tokens: Iterable[Token], *, numbers: bool = False) -> frozenset[str]:
    return frozenset(token.word for token in tokens if len(token.word) > 1 and (numbers or not token.word.isdigit()))


def _kinds(names: Names, row: int) -> tuple[str, ...]:
    """What a location is: the words of its title, and the letters of its code."""
    return (*names.title_words[row], f"#{names.kinds[row]}")


def _number_words(tokens: Sequence[Token], names: Names, rows: Sequence[int]) -> frozenset[str]:
    """The words before numbers that some of the rows have."""
    return frozenset(
        word.word for word, number in pairwise(tokens) if not set(rows).isdisjoint(names.numbers.get(number.word, ()))
    )


def _candidates(linker: EntityLinker, logs: Iterable[tuple[Passage, Sequence[int]]]) -> Iterator[tuple[Draft, Doubles]]:
    """The locations that each log may report about, given its context, and their features (rows, features).

    The link of the log itself is left out of all counts. Logs are taken in blocks, as a few operations on
    long arrays cost less than many on short ones.
    """
    remaining = iter(logs)
    while block := [_draft(linker, log, context) for log, context in islice(remaining, BLOCK)]:
        ends = np.cumsum([len(draft.rows) for draft in block])[:-1]
        for draft, features in zip(block, np.split(_features(linker, block), ends), strict=True):
            yield draft._replace(features={}), features  # the lists of the text features would double the memory


def _draft(linker: EntityLinker, log: Passage, context: Sequence[int]) -> Draft:
    names, tree = linker.names, linker.names.tree
    tokens = tokenise(log.text)
    known = linker.known.get(log.id, ())
    related = linker.related.get(log.id, ())
    mentions = find_mentions(names, log.text, tokens, [*context, *related])

    votes: dict[int, float] = defaultdict(float)
    highest: dict[int, float] = {}
    similar = nearest(linker.neighbours, _words(tokens, numbers=True), linker.neighbour_rows.get(log.id, -1))
    for neighbour, cosine in similar:
        for row in linker.places[neighbour]:
            votes[row] += cosine
            highest[row] = max(highest.get(row, 0.0), cosine)
    all_votes = sum(votes.values()) or 1.0

    options = [pair for mention in reversed(mentions) for pair in mention.options.items()]
    # the strongest option for each row, which comes last; of equals the first in the text
    best = dict(sorted(options, key=lambda pair: (pair[1].strength, -pair[1].start)))
    coded = {row for mention in mentions if mention.kind == "code" for row in mention.options}
    unambiguous = {next(iter(m.options)) for m in mentions if m.kind == "code" and len(m.options) == 1}
    proposed = set(best) | set(votes) | set(related)
    for row in unambiguous | set(context):
        below = children(tree, row)
        if len(below) <= MOST_CHILDREN:
            proposed.update(below)
    rows = sorted(proposed)
    number_words = _number_words(tokens, names, known) if known else frozenset()
    features, named = _mention_features(linker, rows, mentions, number_words, known)
    features["child_of_code"] = [float(tree.parent[row] in coded) for row in rows]
    features["neighbour"] = [highest.get(row, 0.0) for row in rows]
    features["votes"] = [votes.get(row, 0.0) / all_votes for row in rows]
    members: set[Hashable] = {*known, *(kind for row in known for kind in _kinds(names, row))}
    scores = all_association_scores(linker.words, _words(tokens), counted=bool(known), members=members)
    columns = linker.kind_columns[np.array(rows, np.int64)]
    return Draft(
        log=log,
        rows=rows,
        options=[best.get(row, Option(0.0, 0, 0)) for row in rows],
        features=features,
        named=named,
        kind_words=scores[columns].sum(axis=1) / (columns >= 0).sum(axis=1),
        place_words=scores[np.array(rows, np.int64)],
        unambiguous=sorted(unambiguous),
        context=context,
        related=related,
        known=known,
    )


def _mention_features(
    linker: EntityLinker,
    rows: Sequence[int],
    mentions: Sequence[Mention],
    known_number_words: frozenset[str],
    known: Sequence[int],
) -> tuple[dict[str, list[float]], list[bool]]:
    """The features that come from mentions alone, and which rows are named; `rows` include every mentioned row."""
    names = linker.names
    position = {row: number for number, row in enumerate(rows)}
    columns = ("code", "title", "number", "number_best", "number_word", "words", "initials")
    features = {column: [0.0] * len(rows) for column in columns}
    named = [False] * len(rows)
    known_kinds = {names.kinds[row] for row in known}
    for kind, word, options in mentions:
        column = features[kind]
        exact = kind in ("code", "title")
        *_, second, first = sorted([0.0, 0.0, *(option.strength for option in options.values())])
        for row, option in options.items():
            at = position[row]
            value = 1 / len(options) if exact else 1.0 if kind == "initials" else option.strength
            column[at] = max(column[at], value)
            named[at] = named[at] or option.strength >= LEAST_STRENGTH
            if kind == "number":
                if option.strength == first > second:
                    features["number_best"][at] = 1.0
                learned = _number_word(linker, word, names.kinds[row], word in known_number_words, known_kinds)
                features["number_word"][at] = max(features["number_word"][at], 1 + learned, key=abs)
    features["explained"] = _explained(names.tree, rows, position, mentions)
    return features, named


def _number_word(linker: EntityLinker, word: str, kind: str, counted: bool, known_kinds: set[str]) -> float:
    """How much the word before a number goes with the letters of a code."""
    member = counted and kind in known_kinds
    key = (word, kind, counted, member)
    if key not in linker.number_cache:
        members = (kind,) if member else ()
        scores = association_scores(linker.number_words, (word,), (kind,), counted=counted, members=members)
        linker.number_cache[key] = scores[kind]
    return linker.number_cache[key]


def _features(linker: EntityLinker, drafts: Sequence[Draft]) -> Doubles:
    """(all rows of all drafts, features)."""
    tree = linker.names.tree
    log = np.repeat(np.arange(len(drafts)), [len(draft.rows) for draft in drafts])  # number of each row's draft
    rows = np.fromiter(chain.from_iterable(draft.rows for draft in drafts), np.int64)
    named = np.fromiter(chain.from_iterable(draft.named for draft in drafts), bool)

    def gap(column: npt.NDArray[Any]) -> Doubles:
        """The difference to the highest value of the log."""
        highest = np.full(len(drafts), -np.inf)
        np.maximum.at(highest, log, column)
        return np.asarray(column - highest[log], np.float64)

    def is_one_of(chosen: Iterable[Sequence[int]]) -> Mask:
        """Whether each row is one of those chosen for its log."""
        pairs = zip(drafts, chosen, strict=True)
        return np.fromiter((row in of_log for draft, of_log in pairs for row in draft.rows), bool, len(rows))

    def compare(others: Iterable[Sequence[int]], *, itself: bool = True) -> tuple[Doubles, Mask]:
        """For each row the closeness to the nearest of the log's `others`, and whether one of them contains it."""
        closest, inside = np.zeros(len(rows)), np.zeros(len(rows), bool)
        for one_per_log in zip_longest(*others, fillvalue=-1):
            other = np.array(one_per_log, np.int64)[log]
            at = np.flatnonzero((other >= 0) & (itself | (other != rows)))
            closest[at] = np.maximum(closest[at], closeness(tree, rows[at], other[at]))
            inside[at] |= contains(tree, other[at], rows[at])
        return closest, inside

    options = [option for draft in drafts for option in draft.options]
    strength, start, end = np.array(options, np.float64).reshape(-1, 3).T
    values: dict[str, npt.NDArray[Any]] = {
        name: np.fromiter(chain.from_iterable(draft.features[name] for draft in drafts), np.float64)
        for name in drafts[0].features
    }
    values["exact_length"] = np.where((values["code"] > 0) | (values["title"] > 0), (end - start) / 10, 0.0)
    values["early"] = np.where(
        strength > 0, 1 - start / np.array([len(draft.log.text) or 1 for draft in drafts])[log], 0.0
    )
    values["words_gap"] = gap(values["words"])
    values["explained_gap"] = gap(values["explained"])
    values["beside_code"], below_code = compare((draft.unambiguous for draft in drafts), itself=False)
    values["below_code"] = below_code & named
    values["context"] = np.array([bool(draft.context) for draft in drafts])[log]
    values["near_context"], inside = compare(draft.context for draft in drafts)
    values["in_context"] = inside
    values["named_in_context"] = inside & named
    values["related"], _ = compare(draft.related for draft in drafts)
    values["same_as_related"] = is_one_of(draft.related for draft in drafts)
    values["kind_words"] = np.concatenate([draft.kind_words for draft in drafts])
    values["kind_words_gap"] = gap(values["kind_words"])
    values["place_words"] = np.concatenate([draft.place_words for draft in drafts])
    values["place_words_gap"] = gap(values["place_words"])
    itself = is_one_of(draft.known for draft in drafts)
    values["known"] = np.log1p(np.maximum(linker.words.sizes[rows] - itself, 0))
    values["depth"] = tree.depth[rows]
    return np.column_stack([values[name] for name in FEATURES]).astype(np.float64)


def _explained(
    tree: Hierarchy, rows: Sequence[int], position: Mapping[int, int], mentions: Sequence[Mention]
) -> list[float]:
    """How many mentions each row accounts for, by itself or by a location above it.

    `P3 an K201` is explained twice by the third pump of K201, once by K201 or by any other third pump.
    """
    explained = [0.0] * len(rows)
    for kind, _, options in sorted(mentions, key=lambda mention: mention.kind != "words"):
        strongest: dict[int, float] = {}
        for row, option in options.items():
            at, end = position[row], row + 1 if kind == "words" else int(tree.end[row])
            while at < len(rows) and rows[at] < end:  # rows are in preorder
                strongest[at] = max(strongest.get(at, 0.0), option.strength)
                at += 1
        for at, strength in strongest.items():
            explained[at] += strength
    return explained


# ---------------------------------------------------------------- linking


def link_entities(linker: EntityLinker, logs: Sequence[Passage]) -> Iterator[EntityLink]:
    """The links that each log lacks, best first; never to a known location or to one above it.

    What the logs themselves know counts, whether the linker learned from it or not.
    """
    tree = linker.names.tree
    known, context = _known_rows(logs, tree)
    with_known = ((log, (*known.get(log.id, ()), *context.get(log.id, ()))) for log in logs)
    for draft, features in _candidates(linker, with_known):
        probabilities = linker.scorer.probabilities(features)
        for position in _best_per_line(draft.rows, probabilities, tree, linker.threshold):
            row, option = draft.rows[position], draft.options[position]
            if not any(contains(tree, row, known_row) for known_row in draft.context):
                weight = round(float(probabilities[position]), 4)
                edge = Edge(draft.log.id, "reports_about", tree.ids[row], draft.log.id, MAKER, weight)
                yield EntityLink(edge, option.start, option.end)


def _best_per_line(rows: Sequence[int], probabilities: Doubles, tree: Hierarchy, least: float = 0.0) -> list[int]:
    """Positions of the probable candidates, best first; of rows one above the other only the best."""
    chosen: list[int] = []
    likely = np.flatnonzero(probabilities >= max(least, LEAST_PROBABILITY))
    for position in likely[np.argsort(-probabilities[likely], kind="stable")].tolist():
        row = rows[position]
        if not any(contains(tree, row, rows[other]) or contains(tree, rows[other], row) for other in chosen):
            chosen.append(position)
    return chosen
