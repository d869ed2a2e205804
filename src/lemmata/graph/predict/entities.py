"""Entity linking: from abbreviations, codes and names in a log to the locations it reports about.

Four steps, each of which adds to the one before: `exact`, `fuzzy`, `hierarchy`, `learned`. All links found in
the given logs count as known; links to be predicted must have been taken out by the caller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np

from lemmata.errors import InputError
from lemmata.graph.predict.hierarchy import Tree, closeness, contains
from lemmata.graph.predict.memory import (
    Association,
    Neighbours,
    associate,
    associations,
    index_neighbours,
    nearest,
)
from lemmata.graph.predict.names import Mention, Names, Option, Token, find_mentions, index_names, tokenise
from lemmata.graph.predict.scorer import Doubles, Scorer, choose_threshold, cross_fit, fit
from lemmata.types import Edge, Passage

__all__ = ["FEATURES", "EntityLink", "EntityLinker", "Step", "learn_entities", "link_entities"]

Step = Literal["exact", "fuzzy", "hierarchy", "learned"]
MAKER = "predict:entity"
LEAST_CHANCE = 0.01  # below, a candidate is not looked at again
MOST_TRAINING_LOGS = 10_000
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
    kind_words: Association
    place_words: Association
    number_words: Association
    neighbours: Neighbours
    remembered: Mapping[str, int]  # log: row of `neighbours`
    places: Sequence[tuple[int, ...]]  # of each row of `neighbours`
    scorer: Scorer
    threshold: float


class Candidates(NamedTuple):
    """What one log may report about."""

    rows: list[int]
    features: Doubles  # (rows, features)
    options: list[Option]  # strength 0 and an empty span where nothing in the text names the row


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
    candidates = [_candidates(linker, log, pretended[log.id]) for log in taken]
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
    sorts = {row: _sorts(names, row) for rows in known.values() for row in rows}
    return EntityLinker(
        names=names,
        known=known,
        context=context,
        related={
            name: tuple(dict.fromkeys(row for other in others for row in known.get(other, ())))
            for name, others in beside.items()
        },
        kind_words=associate(
            (words[name], {sort for row in rows for sort in sorts[row]}) for name, rows in known.items()
        ),
        place_words=associate((words[name], rows) for name, rows in known.items()),
        number_words=associate(
            (_number_words(tokens[name], names, rows), {names.kinds[row] for row in rows})
            for name, rows in known.items()
        ),
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


def _number_words(tokens: Sequence[Token], names: Names, rows: Sequence[int]) -> frozenset[str]:
    """The words in front of numbers that some of the rows have."""
    return frozenset(
        word.word for word, number in pairwise(tokens) if not set(rows).isdisjoint(names.numbers.get(number.word, ()))
    )


def _candidates(linker: EntityLinker, log: Passage, context: Sequence[int]) -> Candidates:
    """Every location that the log may report about; the log's own link is left out of what was learned."""
    names, tree = linker.names, linker.names.tree
    tokens = tokenise(log.text)
    words = _words(tokens)
    own = linker.known.get(log.id, ())
    own_sorts = {sort for row in own for sort in _sorts(names, row)}
    own_kinds = {names.kinds[row] for row in own}
    own_number_words = _number_words(tokens, names, own) if own else frozenset()
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
    named = {
        row
        for mention in mentions
        for row, option in mention.options.items()
        if mention.kind in ("code", "title") or option.strength >= LEAST_STRENGTH
    }
    rows = set(best) | set(votes) | set(related)
    for row in clear | set(context):
        children = _children(tree, row)
        if len(children) <= MOST_CHILDREN:
            rows.update(children)
    ordered = sorted(rows)
    by_kind: dict[str, list[Mention]] = defaultdict(list)
    for mention in mentions:
        by_kind[mention.kind].append(mention)
    best_words = max((o.strength for m in by_kind["words"] for o in m.options.values()), default=0.0)
    explained = _explained(tree, ordered, mentions)
    most_explained = max(explained.values(), default=0.0)
    counted = bool(own)
    all_sorts = {sort for row in ordered for sort in _sorts(names, row)}
    sort_scores = associations(linker.kind_words, words, all_sorts, counted=counted, members=own_sorts)
    kind_words = {
        row: sum(sort_scores[sort] for sort in sorts) / len(sorts)
        for row, sorts in ((row, _sorts(names, row)) for row in ordered)
    }
    place_words = associations(linker.place_words, words, ordered, counted=counted, members=own)
    best_kind = max(kind_words.values(), default=0.0)
    best_place = max(place_words.values(), default=0.0)

    features = np.zeros((len(ordered), len(FEATURES)))
    options = []
    for at, row in enumerate(ordered):
        option = best.get(row, Option(0.0, 0, 0))
        options.append(option)
        code = _clearest(by_kind["code"], row)
        title = _clearest(by_kind["title"], row)
        number, number_best, number_word = 0.0, 0.0, 0.0
        for mention in by_kind["number"]:
            if row in mention.options:
                strength = mention.options[row].strength
                number = max(number, strength)
                others = max((o.strength for r, o in mention.options.items() if r != row), default=0.0)
                number_best = max(number_best, float(strength > others))
                kind = names.kinds[row]
                seen = mention.word in own_number_words
                learned = associations(
                    linker.number_words,
                    (mention.word,),
                    (kind,),
                    counted=seen,
                    members=own_kinds if seen else (),
                )[kind]
                number_word = max(number_word, 1 + learned, key=abs)
        covered = max((m.options[row].strength for m in by_kind["words"] if row in m.options), default=0.0)
        other_codes = [other for other in clear if other != row]
        named_here = row in named
        inside = any(contains(tree, place, row) for place in context)
        features[at] = (
            code,
            title,
            (option.end - option.start) / 10 if code or title else 0.0,
            number,
            number_best,
            number_word,
            covered,
            covered - best_words,
            float(any(row in mention.options for mention in by_kind["initials"])),
            1 - option.start / max(len(log.text), 1) if option.strength else 0.0,
            float(tree.parent[row] in coded),
            explained[row],
            explained[row] - most_explained,
            max((closeness(tree, row, other) for other in other_codes), default=0.0),
            float(named_here and any(contains(tree, other, row) for other in other_codes)),
            float(bool(context)),
            float(inside),
            max((closeness(tree, row, place) for place in context), default=0.0),
            float(inside and named_here),
            max((closeness(tree, row, place) for place in related), default=0.0),
            float(row in related),
            kind_words[row],
            kind_words[row] - best_kind,
            place_words[row],
            place_words[row] - best_place,
            alike.get(row, 0.0),
            votes.get(row, 0.0) / all_votes,
            np.log1p(max(linker.place_words.classes[row] - (row in own), 0)),
            tree.depth[row],
        )
    return Candidates(ordered, features, options)


def _best_options(mentions: Iterable[Mention]) -> dict[int, Option]:
    """The strongest option for each row; of equals the first in the text."""
    best: dict[int, Option] = {}
    for mention in mentions:
        for row, option in mention.options.items():
            if row not in best or (-option.strength, option.start) < (-best[row].strength, best[row].start):
                best[row] = option
    return best


def _clearest(mentions: Iterable[Mention], row: int) -> float:
    """One over the number of options of the clearest mention of a row; 0 without any."""
    return max((1 / len(mention.options) for mention in mentions if row in mention.options), default=0.0)


def _children(tree: Tree, row: int) -> list[int]:
    children = []
    child = row + 1
    while child < tree.end[row]:
        children.append(child)
        child = tree.end[child]
    return children


def _explained(tree: Tree, rows: Iterable[int], mentions: Sequence[Mention]) -> dict[int, float]:
    """How many mentions each row accounts for, by itself or by what lies above it.

    `P3 an K201` is explained twice by the third pump of K201, once by K201 or by any other third pump.
    """
    named = [mention for mention in mentions if mention.kind != "words"]
    spelt = [mention for mention in mentions if mention.kind == "words"]
    explained = {}
    for row in rows:
        total = max((mention.options[row].strength for mention in spelt if row in mention.options), default=0.0)
        line = [row, *_ancestors(tree, row)]
        for mention in named:
            total += max((mention.options[one].strength for one in line if one in mention.options), default=0.0)
        explained[row] = total
    return explained


def _ancestors(tree: Tree, row: int) -> Iterator[int]:
    while (row := tree.parent[row]) >= 0:
        yield row


# ---------------------------------------------------------------- linking


def link_entities(linker: EntityLinker, logs: Iterable[Passage], step: Step = "learned") -> Iterator[EntityLink]:
    """The links that each log lacks, best first; none to what it knows already nor to what lies above that."""
    if step not in get_args(Step):
        raise InputError(f"no step {step!r}; the steps are {', '.join(get_args(Step))}")
    tree = linker.names.tree
    for log in logs:
        known = (*linker.known.get(log.id, ()), *linker.context.get(log.id, ()))
        if step == "learned":
            candidates = _candidates(linker, log, known)
            chances = linker.scorer.probabilities(candidates.features)
            chosen = [
                (candidates.rows[at], float(chances[at]), candidates.options[at])
                for at in _best_of_lines(candidates.rows, chances, tree)
                if chances[at] >= linker.threshold
            ]
        else:
            related = linker.related.get(log.id, ())
            chosen = list(_by_rule(linker.names, log, known, related, step))
        for row, weight, option in chosen:
            if not any(contains(tree, row, place) for place in known):
                edge = Edge(log.id, "reports_about", tree.ids[row], log.id, MAKER, round(float(weight), 4))
                yield EntityLink(edge, option.start, option.end)


def _best_of_lines(rows: Sequence[int], chances: Doubles, tree: Tree) -> list[int]:
    """Places among the candidates that have a chance, best first; of rows one above the other only the best."""
    kept: list[int] = []
    for at in np.argsort(-chances, kind="stable").tolist():
        row = rows[at]
        if chances[at] < LEAST_CHANCE:
            break
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
