"""Entity linking: from abbreviations, codes and names in a log to the locations it reports about.

Four steps, each of which adds to the one before: `exact`, `fuzzy`, `hierarchy`, `learned`. All links found in
the given logs count as known; links to be predicted must have been taken out by the caller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, tee
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from lemmata.errors import InputError
from lemmata.plant.hierarchy import Shape, Tree, closeness, contains, many_closeness, shape_of
from lemmata.plant.memory import (
    Association,
    Neighbours,
    Turned,
    all_associations,
    associate,
    associations,
    index_neighbours,
    nearest,
    turn,
)
from lemmata.plant.names import Mention, Names, Option, Token, find_mentions, index_names, tokenise
from lemmata.plant.scorer import Doubles, Scorer, choose_threshold, cross_fit, fit
from lemmata.types import Edge, Integers, Mask, Passage

__all__ = ["FEATURES", "EntityLink", "EntityLinker", "Step", "learn_entities", "link_entities"]

Step = Literal["exact", "fuzzy", "hierarchy", "learned"]
MAKER = "predict:entity"
LEAST_CHANCE = 0.01  # below, a candidate is not looked at again
MOST_TRAINING_LOGS = 10_000
BLOCK = 256  # logs whose candidates are compared at once
MOST_CHILDREN = 40  # of a named location that are looked at too
LEAST_STRENGTH = 0.5  # of a mention, where nothing is learned
LEAST_TITLE = 0.75  # share of a title that must be there, where nothing is learned
NOTHING_KNOWN, PARENT_KNOWN, UNIT_KNOWN = 0.5, 0.8, 0.9  # training logs that know so much; the others a neighbour

FEATURES = (
    "code",  # 1 / number of locations that the code may mean
    "title",  # the same for a whole title
    "spelt",  # characters of the longest exact mention, in tens
    "number",  # likeness of the word beside the number
    "number_best",  # whether no other option of the mention is as like
    "number_word",  # what was learned of the word beside the number
    "words",  # share of the title that is there
    "words_gap",  # to the best covered title
    "initials",
    "early",  # how near to the beginning the mention stands
    "child_of_code",  # the parent is named by code
    "explained",  # mentions that mean it or something above it
    "explained_gap",  # to the one that explains most
    "beside_code",  # closeness to another clear code of the text
    "below_code",  # lies below another code of the text, and is itself named
    "context",  # something is known of where the log belongs
    "in_context",  # lies below it
    "near_context",
    "named_in_context",  # below it and named by code, number or title
    "related",  # closeness to the locations of related logs
    "same_as_related",
    "kind_words",  # what was learned of the words and the sort of location
    "kind_words_gap",
    "place_words",  # what was learned of the words and this very location
    "place_words_gap",
    "neighbour",  # cosine of the most similar known log there
    "votes",  # share of the ten most similar logs, by cosine
    "known",  # logs known there, logarithmic
    "depth",
)


class EntityLink(NamedTuple):
    """A predicted link and the part of the log's text that says so; an empty span where only its sense does."""

    edge: Edge
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EntityLinker:
    """All that is needed to link logs: the names of locations, what known links taught, and the scorer."""

    names: Names
    known: Mapping[str, tuple[int, ...]]  # log: rows, the deepest ones
    context: Mapping[str, tuple[int, ...]]  # log: rows that lie above a known one
    related: Mapping[str, tuple[int, ...]]  # log: rows that related logs are known to report about
    shape: Shape
    words: Turned  # with the locations themselves and the sorts of location as classes
    kind_columns: Integers  # (locations, most sorts): of `words`, filled up with the column of new classes
    kind_counts: Integers  # (locations,): sorts
    place_columns: Integers  # (locations,): of `words`
    place_counts: Integers  # (locations,): logs known there
    number_words: Association
    number_asked: dict[tuple[str, str, bool, bool], float]  # what was asked before
    neighbours: Neighbours
    remembered: Mapping[str, int]  # log: row of `neighbours`
    places: Sequence[tuple[int, ...]]  # of each row of `neighbours`
    scorer: Scorer
    threshold: float


class Draft(NamedTuple):
    """What one log may report about, and what the text itself says of each row."""

    rows: list[int]
    options: list[Option]  # strength 0 and an empty span where nothing in the text names the row
    said: Mapping[str, list[float]]  # feature: value of each row
    named: list[bool]  # of each row, whether a code, a title or a number with a fitting word names it
    kind_words: Doubles  # (rows,)
    place_words: Doubles  # (rows,)
    clear: Sequence[int]  # codes that mean one location only
    context: Sequence[int]
    related: Sequence[int]
    own: Sequence[int]
    length: int  # of the text, at least 1


class Candidates(NamedTuple):
    """What one log may report about."""

    rows: list[int]
    features: Doubles  # (rows, features)
    options: list[Option]


# ---------------------------------------------------------------- learning


def learn_entities(logs: Sequence[Passage], tree: Tree, rng: np.random.Generator) -> EntityLinker:
    """Train on the logs with known locations, and choose the threshold by scorers that did not see the log.

    Where a log knows several locations one above the other, the deepest is what it reports about and the
    others are context. Where it knows only one, training pretends for some logs that a location above it
    was known, as authors often name the unit only.
    """
    names = index_names(tree)
    known, context = _known_places(logs, tree)
    linker = _remember(logs, names, known, context)
    pretended = _pretend(known, context, tree, rng)
    share = MOST_TRAINING_LOGS / max(len(known), 1)
    taken = [log for log in logs if log.id in known and rng.random() < share]
    candidates = list(_candidates(linker, ((log, pretended[log.id]) for log in taken)))
    places = [known[log.id] for log in taken]
    groups = [(one.features, _judge(one, rows, tree)) for one, rows in zip(candidates, places, strict=True)]
    scorer, scored = cross_fit(groups, len(FEATURES), rng)
    chances: list[float] = []
    right: list[bool] = []
    for one, own, (_, judged) in zip(candidates, scored, groups, strict=True):
        for at in _best_of_lines(one.rows, own, tree):
            if judged[at] >= 0:
                chances.append(float(own[at]))
                right.append(bool(judged[at]))
    threshold = choose_threshold(chances, right, sum(map(len, places)))
    return replace(linker, scorer=scorer, threshold=threshold)


def _known_places(logs: Iterable[Passage], tree: Tree) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
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


def _remember(
    logs: Sequence[Passage],
    names: Names,
    known: Mapping[str, tuple[int, ...]],
    context: Mapping[str, tuple[int, ...]],
) -> EntityLinker:
    beside: dict[str, list[str]] = defaultdict(list)
    for log in logs:
        for link in log.links:
            if link.relation == "related_to" and link.target and link.target != log.id:
                beside[log.id].append(link.target)
                beside[link.target].append(log.id)
    tokens = {log.id: tokenise(log.text) for log in logs if log.id in known}
    words = {name: _words(own) for name, own in tokens.items()}
    sorts = [_sorts(names, row) for row in range(len(names.tree.ids))]
    learned = turn(associate((words[name], _classes(sorts, rows)) for name, rows in known.items()))
    new = len(learned.columns)
    kind_columns = np.full((len(sorts), max(map(len, sorts), default=1)), new, np.int64)
    for row, own in enumerate(sorts):
        kind_columns[row, : len(own)] = [learned.columns.get(sort, new) for sort in own]
    return EntityLinker(
        names=names,
        known=known,
        context=context,
        related={
            name: tuple(dict.fromkeys(row for other in others for row in known.get(other, ())))
            for name, others in beside.items()
        },
        shape=shape_of(names.tree),
        words=learned,
        kind_columns=kind_columns,
        kind_counts=np.array([len(own) for own in sorts], np.int64),
        place_columns=np.array([learned.columns.get(row, new) for row in range(len(sorts))], np.int64),
        place_counts=np.array([learned.known.classes[row] for row in range(len(sorts))], np.int64),
        number_words=associate(
            (_number_words(tokens[name], names, rows), {names.kinds[row] for row in rows})
            for name, rows in known.items()
        ),
        number_asked={},
        neighbours=index_neighbours([_spelt(tokens[name]) for name in known]),
        remembered={name: row for row, name in enumerate(known)},
        places=list(known.values()),
        scorer=fit(np.zeros((0, len(FEATURES))), np.zeros(0, bool)),
        threshold=1.0,
    )


def _pretend(
    known: Mapping[str, tuple[int, ...]],
    context: Mapping[str, tuple[int, ...]],
    tree: Tree,
    rng: np.random.Generator,
) -> dict[str, tuple[int, ...]]:
    """What is taken as known of each log while its own link is to be found."""
    pretended = {}
    for name, rows in known.items():
        above = context[name]
        if not above:
            chance = rng.random()
            steps = 0 if chance < NOTHING_KNOWN else 1 if chance < PARENT_KNOWN else 2 if chance < UNIT_KNOWN else 1
            climbed = {_climb(tree, row, steps) for row in rows}
            if chance >= UNIT_KNOWN:
                families = [_children(tree, row) for row in climbed]
                climbed = {family[rng.integers(len(family))] for family in families if family}
            above = tuple(sorted(climbed - set(rows)))
        pretended[name] = above
    return pretended


def _climb(tree: Tree, row: int, steps: int) -> int:
    for _ in range(steps):
        row = tree.parent[row] if tree.parent[row] >= 0 else row
    return row


def _judge(candidates: Candidates, places: Sequence[int], tree: Tree) -> np.ndarray:
    """1 right, 0 wrong, -1 unknown: (candidates,).

    An author may have named the unit only. So where the text names something below the known location, but
    not the location itself, it may be the better answer.
    """
    named = {row for row, option in zip(candidates.rows, candidates.options, strict=True) if option.strength > 0}
    judged = np.zeros(len(candidates.rows), np.int8)
    for at, row in enumerate(candidates.rows):
        if row in places:
            judged[at] = 1
        elif any(place not in named and contains(tree, place, row) for place in places):
            judged[at] = -1
    return judged


# ---------------------------------------------------------------- candidates and features


def _words(tokens: Iterable[Token]) -> frozenset[str]:
    return frozenset(token.word for token in tokens if len(token.word) > 1 and not token.word.isdigit())


def _spelt(tokens: Iterable[Token]) -> frozenset[str]:
    return frozenset(token.word for token in tokens if len(token.word) > 1)


def _sorts(names: Names, row: int) -> tuple[str, ...]:
    """What a location is: the words of its title, and the letters of its code."""
    return (*names.title_words[row], f"#{names.kinds[row]}")


def _classes(sorts: Sequence[Iterable[str]], rows: Iterable[int]) -> list[Hashable]:
    """The locations and their sorts, without doubles and in an order that no hash seed changes."""
    return list(dict.fromkeys([*rows, *(sort for row in rows for sort in sorts[row])]))


def _number_words(tokens: Sequence[Token], names: Names, rows: Sequence[int]) -> frozenset[str]:
    """The words in front of numbers that some of the rows have."""
    return frozenset(
        word.word for word, number in pairwise(tokens) if not set(rows).isdisjoint(names.numbers.get(number.word, ()))
    )


def _candidates(linker: EntityLinker, asked: Iterable[tuple[Passage, Sequence[int]]]) -> Iterator[Candidates]:
    """Every location that each log may report about, given its context; its own link is left out of what was learned.

    Logs are taken in blocks, as a few operations on long arrays cost less than many on short ones.
    """
    waiting = iter(asked)
    while block := [_draft(linker, log, context) for log, context in islice(waiting, BLOCK)]:
        filled = [draft for draft in block if draft.rows]
        ends = np.cumsum([len(draft.rows) for draft in filled])[:-1]
        features = iter(np.split(_features(linker, filled), ends) if filled else ())
        for draft in block:
            own = next(features) if draft.rows else np.zeros((0, len(FEATURES)))
            yield Candidates(draft.rows, own, draft.options)


def _draft(linker: EntityLinker, log: Passage, context: Sequence[int]) -> Draft:
    names, tree = linker.names, linker.names.tree
    tokens = tokenise(log.text)
    words = _words(tokens)
    own = linker.known.get(log.id, ())
    related = linker.related.get(log.id, ())
    mentions = find_mentions(names, log.text, tokens, [*context, *related])

    votes: dict[int, float] = defaultdict(float)
    alike: dict[int, float] = {}
    for row, cosine in nearest(linker.neighbours, _spelt(tokens), linker.remembered.get(log.id, -1)):
        for place in linker.places[row]:
            votes[place] += cosine
            alike[place] = max(alike.get(place, 0.0), cosine)
    all_votes = sum(votes.values()) or 1.0

    best = _best_options(mentions)
    coded = {row for mention in mentions if mention.kind == "code" for row in mention.options}
    clear = {next(iter(m.options)) for m in mentions if m.kind == "code" and len(m.options) == 1}
    found = set(best) | set(votes) | set(related)
    for row in clear | set(context):
        children = _children(tree, row)
        if len(children) <= MOST_CHILDREN:
            found.update(children)
    rows = sorted(found)
    nothing = Option(0.0, 0, 0)
    options = [best.get(row, nothing) for row in rows]
    said, named = _said(linker, rows, mentions, _number_words(tokens, names, own) if own else frozenset(), own)
    said["child_of_code"] = [float(tree.parent[row] in coded) for row in rows] if coded else [0.0] * len(rows)
    said["neighbour"] = [alike.get(row, 0.0) for row in rows]
    said["votes"] = [votes.get(row, 0.0) / all_votes for row in rows]
    own_classes = {*own, *(sort for row in own for sort in _sorts(names, row))}
    scores = all_associations(linker.words, words, counted=bool(own), members=own_classes)
    array = np.array(rows, np.int64)
    return Draft(
        rows=rows,
        options=options,
        said=said,
        named=named,
        kind_words=scores[linker.kind_columns[array]].sum(axis=1) / linker.kind_counts[array],
        place_words=scores[linker.place_columns[array]],
        clear=sorted(clear),
        context=context,
        related=related,
        own=own,
        length=max(len(log.text), 1),
    )


def _said(
    linker: EntityLinker,
    rows: Sequence[int],
    mentions: Sequence[Mention],
    own_number_words: frozenset[str],
    own: Sequence[int],
) -> tuple[dict[str, list[float]], list[bool]]:
    """The features that come from mentions alone, and which rows are named; every mentioned row is among `rows`."""
    names = linker.names
    place = {row: at for at, row in enumerate(rows)}
    columns = ("code", "title", "number", "number_best", "number_word", "words", "initials")
    said = {column: [0.0] * len(rows) for column in columns}
    named = [False] * len(rows)
    own_kinds = {names.kinds[row] for row in own}
    for kind, word, options in mentions:
        column = said[kind]
        if kind in ("code", "title"):
            for row in options:
                at = place[row]
                column[at] = max(column[at], 1 / len(options))
                named[at] = True
            continue
        for row, option in options.items():
            at = place[row]
            column[at] = max(column[at], 1.0 if kind == "initials" else option.strength)
            named[at] = named[at] or option.strength >= LEAST_STRENGTH
        if kind == "number":
            *_, second, first = sorted([0.0, 0.0, *(option.strength for option in options.values())])
            for row, option in options.items():
                at = place[row]
                if option.strength == first > second:
                    said["number_best"][at] = 1.0
                learned = _number_word(linker, word, names.kinds[row], word in own_number_words, own_kinds)
                said["number_word"][at] = max(said["number_word"][at], 1 + learned, key=abs)
    said["explained"] = _explained(names.tree, rows, place, mentions)
    return said, named


def _number_word(linker: EntityLinker, word: str, kind: str, seen: bool, own_kinds: set[str]) -> float:
    member = seen and kind in own_kinds
    key = (word, kind, seen, member)
    if key not in linker.number_asked:
        members = (kind,) if member else ()
        learned = associations(linker.number_words, (word,), (kind,), counted=seen, members=members)
        linker.number_asked[key] = learned[kind]
    return linker.number_asked[key]


def _features(linker: EntityLinker, drafts: Sequence[Draft]) -> Doubles:
    """(all rows of all drafts, features); no draft is empty."""
    shape = linker.shape
    sizes = np.array([len(draft.rows) for draft in drafts])
    starts = np.cumsum(sizes) - sizes
    rows = np.fromiter(chain.from_iterable(draft.rows for draft in drafts), np.int64)
    named = np.fromiter(chain.from_iterable(draft.named for draft in drafts), bool)

    def gap(column: npt.NDArray[Any]) -> Doubles:
        return np.asarray(column - np.repeat(np.maximum.reduceat(column, starts), sizes), np.float64)

    def among(chosen: Iterable[Sequence[int]]) -> Mask:
        """Whether each row is one of those chosen for its log."""
        if not any(chosen := list(chosen)):
            return np.zeros(len(rows), bool)
        pairs = zip(drafts, chosen, strict=True)
        return np.fromiter((row in some for draft, some in pairs for row in draft.rows), bool, len(rows))

    def compare(others: Iterable[Sequence[int]], *, itself: bool = True) -> tuple[Doubles, Mask]:
        """Of each row the closeness to the nearest of the log's `others`, and whether one of them contains it."""
        pairs = [(number, other) for number, own in enumerate(others) for other in own]
        near, inside = np.zeros(len(rows)), np.zeros(len(rows), bool)
        if pairs:
            log, other = np.array(pairs).T
            count = sizes[log]
            at = np.repeat(starts[log] - (np.cumsum(count) - count), count) + np.arange(count.sum())
            other = np.repeat(other, count)
            if not itself:
                at, other = at[rows[at] != other], other[rows[at] != other]
            np.maximum.at(near, at, many_closeness(shape, rows[at], other))
            inside[at[(other <= rows[at]) & (rows[at] < shape.end[other])]] = True
        return near, inside

    strength, start, end = (
        np.fromiter(
            chain.from_iterable(option for draft in drafts for option in draft.options), np.float64, 3 * len(rows)
        )
        .reshape(-1, 3)
        .T
    )
    values: dict[str, npt.NDArray[Any]] = {
        name: np.fromiter(chain.from_iterable(draft.said[name] for draft in drafts), np.float64)
        for name in drafts[0].said
    }
    values["spelt"] = np.where((values["code"] > 0) | (values["title"] > 0), (end - start) / 10, 0.0)
    values["early"] = np.where(strength > 0, 1 - start / np.repeat([draft.length for draft in drafts], sizes), 0.0)
    values["words_gap"] = gap(values["words"])
    values["explained_gap"] = gap(values["explained"])
    values["beside_code"], below_code = compare((draft.clear for draft in drafts), itself=False)
    values["below_code"] = below_code & named
    values["context"] = np.repeat([float(bool(draft.context)) for draft in drafts], sizes)
    values["near_context"], inside = compare(draft.context for draft in drafts)
    values["in_context"] = inside
    values["named_in_context"] = inside & named
    values["related"], _ = compare(draft.related for draft in drafts)
    values["same_as_related"] = among(draft.related for draft in drafts)
    values["kind_words"] = np.concatenate([draft.kind_words for draft in drafts])
    values["kind_words_gap"] = gap(values["kind_words"])
    values["place_words"] = np.concatenate([draft.place_words for draft in drafts])
    values["place_words_gap"] = gap(values["place_words"])
    itself = among(draft.own for draft in drafts)
    values["known"] = np.log1p(np.maximum(linker.place_counts[rows] - itself, 0))
    values["depth"] = shape.depth[rows]
    return np.column_stack([values[name] for name in FEATURES]).astype(np.float64)


def _best_options(mentions: Iterable[Mention]) -> dict[int, Option]:
    """The strongest option for each row; of equals the first in the text."""
    best: dict[int, Option] = {}
    for mention in mentions:
        for row, option in mention.options.items():
            if row not in best or (-option.strength, option.start) < (-best[row].strength, best[row].start):
                best[row] = option
    return best


def _children(tree: Tree, row: int) -> list[int]:
    children = []
    child = row + 1
    while child < tree.end[row]:
        children.append(child)
        child = tree.end[child]
    return children


def _explained(tree: Tree, rows: Sequence[int], place: Mapping[int, int], mentions: Sequence[Mention]) -> list[float]:
    """How many mentions each row accounts for, by itself or by what lies above it.

    `P3 an K201` is explained twice by the third pump of K201, once by K201 or by any other third pump.
    """
    explained = [0.0] * len(rows)
    for mention in mentions:
        if mention.kind == "words":
            for row, option in mention.options.items():
                explained[place[row]] = max(explained[place[row]], option.strength)
    for mention in mentions:
        if mention.kind != "words":
            strongest: dict[int, float] = {}
            for row, option in mention.options.items():
                at, end = place[row], tree.end[row]
                while at < len(rows) and rows[at] < end:  # rows are in preorder
                    strongest[at] = max(strongest.get(at, 0.0), option.strength)
                    at += 1
            for at, strength in strongest.items():
                explained[at] += strength
    return explained


# ---------------------------------------------------------------- linking


def link_entities(linker: EntityLinker, logs: Iterable[Passage], step: Step = "learned") -> Iterator[EntityLink]:
    """The links that each log lacks, best first; none to what it knows already nor to what lies above that."""
    if step not in get_args(Step):
        raise InputError(f"no step {step!r}; the steps are {', '.join(get_args(Step))}")
    for log, known, chosen in _chosen(linker, logs, step):
        for row, weight, option in chosen:
            if not any(contains(linker.names.tree, row, place) for place in known):
                place = linker.names.tree.ids[row]
                edge = Edge(log.id, "reports_about", place, log.id, MAKER, round(float(weight), 4))
                yield EntityLink(edge, option.start, option.end)


def _chosen(
    linker: EntityLinker, logs: Iterable[Passage], step: Step
) -> Iterator[tuple[Passage, Sequence[int], Iterable[tuple[int, float, Option]]]]:
    """Each log, what is known of it, and what it is found to report about."""
    asked = ((log, (*linker.known.get(log.id, ()), *linker.context.get(log.id, ()))) for log in logs)
    if step != "learned":
        for log, known in asked:
            yield log, known, _by_rule(linker.names, log, known, linker.related.get(log.id, ()), step)
        return
    passed, waiting = tee(asked)
    for (log, known), candidates in zip(passed, _candidates(linker, waiting), strict=True):
        chances = linker.scorer.probabilities(candidates.features)
        best = _best_of_lines(candidates.rows, chances, linker.names.tree, linker.threshold)
        yield log, known, [(candidates.rows[at], float(chances[at]), candidates.options[at]) for at in best]


def _best_of_lines(rows: Sequence[int], chances: Doubles, tree: Tree, least: float = 0.0) -> list[int]:
    """Places among the candidates that have a chance, best first; of rows one above the other only the best."""
    kept: list[int] = []
    likely = np.flatnonzero(chances >= max(least, LEAST_CHANCE))
    for at in likely[np.argsort(-chances[likely], kind="stable")].tolist():
        row = rows[at]
        if not any(contains(tree, row, rows[other]) or contains(tree, rows[other], row) for other in kept):
            kept.append(at)
    return kept


def _by_rule(
    names: Names, log: Passage, known: Sequence[int], related: Sequence[int], step: Step
) -> Iterator[tuple[int, float, Option]]:
    """What mentions say when nothing is learned: each means its best option, if there is one best.

    Words of a title are weaker than codes: they count where no code was found, or for something below it.
    """
    tree = names.tree
    anchors = (*known, *related) if step == "hierarchy" else ()
    mentions = find_mentions(names, log.text, tokenise(log.text), anchors, fuzzy=step != "exact")
    clear = [next(iter(m.options)) for m in mentions if m.kind == "code" and len(m.options) == 1]
    near = (*anchors, *clear) if step == "hierarchy" else ()
    chosen: dict[int, Option] = {}
    for mention in sorted(mentions, key=lambda mention: mention.kind == "words"):
        options = mention.options
        if mention.kind == "words" and chosen:
            options = {
                row: option
                for row, option in options.items()
                if step == "hierarchy" and any(contains(tree, other, row) for other in chosen)
            }
        scores = {
            row: (option.strength, max((closeness(tree, row, other) for other in near if other != row), default=0.0))
            for row, option in options.items()
        }
        best = max(scores.values(), default=(0.0, 0.0))
        winners = [row for row, score in scores.items() if score == best]
        least = 1.0 if step == "exact" else LEAST_TITLE if mention.kind == "words" else LEAST_STRENGTH
        if len(winners) == 1 and best[0] >= least:
            option = options[winners[0]]
            if winners[0] not in chosen or chosen[winners[0]].strength < option.strength:
                chosen[winners[0]] = option
    for row, option in chosen.items():
        deeper = step == "hierarchy" and any(other != row and contains(tree, row, other) for other in chosen)
        if not deeper:
            yield row, option.strength, option
