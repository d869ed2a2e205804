"""Concepts under several names to one concept each, by decisions that can be read, changed and taken back.

`propose` makes decisions, `decide` puts a user's verdicts into them, `apply` carries them out on the originals,
which stay as they are: leaving out a decision undoes it. Does not know texts, files or how a vector was made.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from lemmata.errors import InputError
from lemmata.types import Concept, Edge, Floats
from lemmata.words import GERMAN_LINKING_WORDS, LINKING_WORDS, PREFIXES, singular, slug

__all__ = [
    "Merge",
    "Rule",
    "apply",
    "by_name",
    "decide",
    "find_acronyms",
    "gather",
    "normal_form",
    "plain_ids",
    "propose",
]

MENTIONS = "mentions"  # the relation from a passage to a concept it speaks about


class Merge(NamedTuple):
    """The decision that two concepts are one, or that they are not."""

    kept: str  # ids
    gone: str
    reason: str  # begins with: same normal form, alias, acronym, redirect, word order, similar embedding, verdict
    score: float = 1.0  # 0 to 1; of an apart pair how alike their contexts are
    status: str = "candidate"  # accepted; candidate: waits for a verdict; rejected: by a verdict; apart: homonyms


@dataclass(frozen=True, slots=True)
class Rule:
    """Where `propose` draws its lines."""

    alike: float = 1.0  # contexts less alike than this are of homonyms; 1 is how alike two places are by chance
    evidence: int = 15  # different things around a concept, without which its context says nothing
    cosine: float = 0.9  # from which two names are alike enough to be shown
    neighbours: int = 5  # most candidates by embedding for one concept


# ---------------------------------------------------------------- names to normal forms

_ARTICLES = re.compile(
    r"(?:^|(?<=\s))(?:the\s+)+(?=\S)"
    r"|(?:^|\b(?:of|in|on|over|for|to|by|with|from|and|or|at|under|as)\s+)an?\s+(?!(?:prior|posterior|fortior)i\b)(?=\S)",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(r"(?<=[^\W\d_])['’ʼ](?:s\b|(?=[\s-]|$))", re.IGNORECASE)
_MATHEMATICS = re.compile(r"\$([^$]*)\$")
_STARRED = re.compile(r"\^\s*\{?\s*(?:\*|∗|⋆|\\(?:ast|star)\b)\s*\}?|\\(?:ast|star)\b")
_PLAIN = re.compile(r"[A-Za-z0-9 -]*")
_SPOKEN = {"*": "star", "∗": "star", "⋆": "star", "^": "sup", "+": "plus", "∞": "infty", "&": "and", "~": "", "|": ""}
_SUPERSCRIPT = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁱⁿ]+")


def normal_form(name: str) -> str:
    """What names of the same thing have in common: small words in the singular with hyphens between them.

    Not regarded: case, accents, English plurals, possessives, articles, dollars, and whether a hyphen, a dash, a
    space or (after `non`, `semi`, ...) nothing parts two words. `The Erdős–Rényi $G$-Graph's` is `erdos-renyi-g-graph`.
    Kept apart: `$H^1$` and `$H_1$`, `$C^*$` and `$C$`, an article and the letter in `$A$ module`. A name with a
    German article or preposition keeps its endings. Is its own normal form.
    """
    text = _POSSESSIVE.sub("", _ARTICLES.sub(_without_article, name.strip()))
    if _PLAIN.fullmatch(text):  # most names; what follows would give the same, ten times slower
        words = text.lower().replace("-", " ").split()
    else:
        text = _SUPERSCRIPT.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]), text)
        text = _MATHEMATICS.sub(lambda found: found[0].replace("-", " minus ").replace("'", " prime "), text)
        text = "".join(_said(letter) for letter in _STARRED.sub(" star ", text))
        words = slug(text).split("-")
    if not words or words == [""]:
        words = [slug(name)]
    while (settled := _settled(words)) != words:
        words = settled
    return "-".join(words)


def _without_article(found: re.Match[str]) -> str:
    words = found[0].split()
    return "" if words[0].lower() in ("a", "an", "the") else words[0] + " "


def _said(letter: str) -> str:
    if letter in _SPOKEN:
        return f" {_SPOKEN[letter]} "
    if letter.isascii() or unicodedata.category(letter) != "Sm":
        return {"=": " equal ", "<": " less ", ">": " greater "}.get(letter, letter)
    return f" {unicodedata.name(letter, '').lower()} "


def _settled(words: Sequence[str]) -> list[str]:
    """One round of singulars and prefixes; each can make room for the other."""
    if GERMAN_LINKING_WORDS.isdisjoint(words):
        words = [singular(word) for word in words]
    found: list[str] = []
    for word in reversed(words):
        if word in PREFIXES and found and len(found[-1]) > 1 and found[-1].isalpha():
            found[-1] = word + found[-1]
        else:
            found.append(word)
    return found[::-1]


def _own(form: str) -> frozenset[str]:
    """What a name itself says, which is no context of it."""
    return frozenset((form, *form.split("-")))


def _turned(form: str) -> str:
    """`radius-of-convergence` as `convergence-radius`; a form without `of` as it is."""
    return "-".join(reversed(form.split("-of-")))


# ---------------------------------------------------------------- acronyms

_IN_BRACKETS = re.compile(r"\(([^()]{2,80})\)")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def find_acronyms(text: str) -> list[tuple[str, str]]:
    """Acronyms and what they stand for, where a text says so: `algebraic group (AG)` or `AG (algebraic group)`.

    Each letter of the acronym begins a word; small words (of, and, ...) may stand between them.
    """
    found = []
    for bracket in _IN_BRACKETS.finditer(text):
        inside, before = bracket[1].strip(), text[max(0, bracket.start() - 160) : bracket.start()]
        if _is_acronym(inside):
            long = _spelled_out(inside, before)
        else:
            words = before.split()
            long = _spelled_out(words[-1], inside) if words and _is_acronym(words[-1]) else ""
            inside, long = (words[-1], long) if long and long == inside else ("", "")
        if long:
            found.append((inside, long))
    return found


def _is_acronym(name: str) -> bool:
    letters = name.removesuffix("s")
    return 2 <= len(letters) <= 8 and letters.isalnum() and sum(map(str.isupper, letters)) * 2 > len(letters)


def _spelled_out(acronym: str, before: str) -> str:
    """The end of a text whose words begin with the letters of an acronym; "" where they do not."""
    words = list(_WORD.finditer(before))
    wanted = list(acronym.removesuffix("s").lower())
    start = -1
    while wanted and words:
        word = words.pop()
        if word[0][0].lower() == wanted[-1]:
            wanted.pop()
            start = word.start()
        elif word[0].lower() not in LINKING_WORDS or start < 0:
            return ""
    long = before[start:].strip() if not wanted else ""
    return "" if long[: long.find(" ")].lower() in ("a", "an", "the") else long


# ---------------------------------------------------------------- decisions


def propose(
    concepts: Sequence[Concept],
    edges: Sequence[Edge],
    *,
    vectors: Floats | None = None,
    redirects: Mapping[str, str] | None = None,
    acronyms: Iterable[tuple[str, str]] = (),
    categories: Mapping[str, Collection[str]] | None = None,
    rule: Rule | None = None,
) -> list[Merge]:
    """Which concepts are one, most certain first; the same for any order of what is given.

    - `same normal form`: accepted, unless the two are homonyms; then it is `apart`.
    - `alias`, `acronym`, `redirect`: one concept is called as another says it is called too. Accepted where only
      one says so and the two are no homonyms, else a candidate. A redirect is always accepted.
    - `word order` (radius of convergence, convergence radius) and `similar embedding`: candidates, never more.

    Two concepts are homonyms if one is a person and the other is not; or if their contexts are less alike than
    `rule.alike`, each with at least `rule.evidence` things in it; or, where that is too little to judge by, if
    both have categories and none in common. A context is the places of a concept: passages that mention it with
    what else they mention, its neighbours by edges, the words of its description. With u(p) the unit vector of a
    place, in which a thing x weighs log(1 + places / places with x), two contexts A and B are alike

        mean of u(a)·u(b) over a in A, b in B, divided by the same over all pairs of places,

    the two names left out. Contexts with a cosine of 0.3 or more are never of homonyms.

    `vectors` are unit rows (n, dim) of the names, in the order of `concepts`; `redirects` and `acronyms` lead from
    names to names; `categories` are by concept id. Raises InputError for ids that are there twice.
    """
    proposing = _Proposing(_ranked(concepts, edges), edges, categories or {}, rule or Rule())
    proposing.same_forms()
    proposing.claims(redirects or {}, acronyms)
    proposing.word_orders()
    if vectors is not None:
        if len(vectors) != len(concepts):
            raise InputError(f"{len(vectors)} vectors for {len(concepts)} concepts")
        row = {concept.id: number for number, concept in enumerate(concepts)}
        proposing.embeddings(vectors, [row[concept.id] for concept in proposing.concepts])
    order = {"accepted": 0, "apart": 1, "candidate": 2}
    return sorted(proposing.merges, key=lambda one: (order[one.status], -one.score, one))


def _ranked(concepts: Sequence[Concept], edges: Iterable[Edge]) -> list[Concept]:
    """The one to keep first: most mentioned, then the shortest name, then by alphabet."""
    doubles = [one for one, number in Counter(concept.id for concept in concepts).items() if number > 1]
    if doubles:
        raise InputError(f"concepts that are there twice: {', '.join(sorted(doubles)[:3])}")
    mentions = Counter(edge.target for edge in edges if edge.relation == MENTIONS)
    return sorted(concepts, key=lambda one: (-mentions[one.id], len(one.name), one.name, one.id))


class _Groups:
    """Rows united so far (union-find); a group is called by its first row, which is the one to keep."""

    def __init__(self, size: int) -> None:
        self.above = list(range(size))
        self.apart: dict[int, set[int]] = {}  # by group

    def find(self, row: int) -> int:
        while self.above[row] != row:
            self.above[row] = row = self.above[self.above[row]]
        return row

    def forbid(self, one: int, other: int) -> None:
        one, other = self.find(one), self.find(other)
        if one != other:
            self.apart.setdefault(one, set()).add(other)
            self.apart.setdefault(other, set()).add(one)

    def unite(self, one: int, other: int) -> bool:
        """Whether the two are one group now."""
        kept, gone = sorted((self.find(one), self.find(other)))
        if gone in self.apart.get(kept, ()):
            return False
        if kept != gone:
            self.above[gone] = kept
            for far in self.apart.pop(gone, ()):
                self.apart[far].discard(gone)
                self.apart[far].add(kept)
                self.apart.setdefault(kept, set()).add(far)
        return True


class _Context(NamedTuple):
    """What stands around a group of concepts."""

    things: dict[str, float]  # sum of the unit vectors of its places
    square: float  # of that sum's length
    places: int
    person: bool
    categories: frozenset[str]


class _Proposing:
    """The state of one `propose`: concepts by row, in the order in which they would be kept."""

    senses = 16  # of one normal form that a further concept is compared with; keeps the work linear
    most_places = 200  # of one concept that are looked at
    similar = 0.3  # cosine from which contexts are alike, even where everything else is too

    def __init__(
        self,
        concepts: Sequence[Concept],
        edges: Sequence[Edge],
        categories: Mapping[str, Collection[str]],
        rule: Rule,
    ) -> None:
        self.concepts = concepts
        self.categories = categories
        self.rule = rule
        self.forms = [normal_form(concept.name) for concept in concepts]
        self.rows: dict[str, list[int]] = defaultdict(list)  # by form
        for row, form in enumerate(self.forms):
            self.rows[form].append(row)
        self.groups = _Groups(len(concepts))
        self.merges: list[Merge] = []
        self.contexts: dict[int, _Context] = {}  # by group, once asked for
        self._place(edges)

    def _place(self, edges: Iterable[Edge]) -> None:
        """What stands at which place, and which places a concept has."""
        row_of = {concept.id: row for row, concept in enumerate(self.concepts)}
        places: dict[str, set[str]] = defaultdict(set)
        around: dict[int, set[str]] = defaultdict(set)  # by row
        for edge in edges:
            source, target = row_of.get(edge.source), row_of.get(edge.target)
            if edge.relation == MENTIONS and target is not None and source is None:
                places[edge.source].add(self.forms[target])
                around[target].add(edge.source)
            elif source is not None and target is not None:
                for one, other in ((source, target), (target, source)):
                    place = f"next to {self.concepts[one].id}"
                    places[place].update((self.forms[one], self.forms[other]))
                    around[one].add(place)
        known = {word for form in self.forms for word in form.split("-")}  # `which` and `every` are in no name
        for row, concept in enumerate(self.concepts):
            words = {singular(word) for word in _WORD.findall(concept.description.lower())} & known
            if words:
                place = f"about {concept.id}"
                places[place].update(words, (self.forms[row],))
                around[row].add(place)
        self.places = {place: things for place, things in places.items() if len(things) > 1}
        self.around = around
        spread = Counter(itertools.chain.from_iterable(self.places.values()))
        weights = {thing: math.log1p(len(self.places) / number) for thing, number in spread.items()}
        self.weights = weights
        self.lengths = {
            place: math.sqrt(math.fsum([weights[thing] ** 2 for thing in things]))
            for place, things in self.places.items()
        }

    @functools.cached_property
    def everywhere(self) -> dict[str, float]:
        """Sum of the unit vectors of all places."""
        return self.sum_of_units(sorted(self.places))

    @functools.cached_property
    def square(self) -> float:
        return math.fsum(weight**2 for weight in self.everywhere.values())

    def chance(self, own: Iterable[str]) -> float:
        """How alike two places are on average, without what the names themselves say."""
        square = self.square - math.fsum(self.everywhere.get(thing, 0.0) ** 2 for thing in own)
        return square / max(len(self.places), 1) ** 2

    # ------------------------------------------------------------ contexts

    def sum_of_units(self, places: Iterable[str]) -> dict[str, float]:
        total: dict[str, float] = defaultdict(float)
        weights = self.weights
        for place in places:
            length = self.lengths[place]
            for thing in self.places[place]:
                total[thing] += weights[thing] / length
        return total

    def context(self, group: int) -> _Context:
        if group not in self.contexts:
            concept, form = self.concepts[group], self.forms[group]
            places = sorted(place for place in self.around.get(group, ()) if place in self.places)[: self.most_places]
            things = self.sum_of_units(places)
            for own in _own(form):
                things.pop(own, None)
            square = math.fsum([weight**2 for weight in things.values()])
            categories = frozenset(self.categories.get(concept.id, ()))
            self.contexts[group] = _Context(things, square, len(places), concept.kind == "person", categories)
        return self.contexts[group]

    def homonyms(self, one: int, other: int) -> tuple[bool, float, str]:
        """Whether two groups are different things under one name, how alike their contexts are, and why."""
        first, second = self.context(one), self.context(other)
        less, more = sorted((first.things, second.things), key=len)
        own = _own(self.forms[one]) | _own(self.forms[other])
        common = math.fsum([weight * more[thing] for thing, weight in less.items() if thing in more])
        chance = self.chance(own) * first.places * second.places
        alike = 0.0 if not common else common / chance if chance > 0 else math.inf
        if first.person != second.person:
            return True, alike, "one is a person"
        if min(len(things) - len(own & things.keys()) for things in (less, more)) >= self.rule.evidence:
            told = f"contexts {alike:.2f} times as alike as by chance, the line is {self.rule.alike:g}"
            far = common < self.similar * math.sqrt(first.square * second.square)
            return far and alike < self.rule.alike, alike, told
        if first.categories and second.categories and not first.categories & second.categories:
            return True, alike, "no category in common"
        return False, alike, "too little context to tell them apart"

    def unite(self, one: int, other: int) -> bool:
        kept, gone = sorted((self.groups.find(one), self.groups.find(other)))
        if kept == gone:
            return True
        if not self.groups.unite(kept, gone):
            return False
        if kept in self.contexts or gone in self.contexts:
            first, second = self.context(kept), self.context(gone)
            common = math.fsum([weight * first.things.get(thing, 0.0) for thing, weight in second.things.items()])
            square = first.square + 2 * common + second.square
            for thing, weight in second.things.items():
                first.things[thing] = first.things.get(thing, 0.0) + weight
            places, categories = first.places + second.places, first.categories | second.categories
            self.contexts[kept] = first._replace(square=square, places=places, categories=categories)
            del self.contexts[gone]
        return True

    def add(self, one: int, other: int, reason: str, score: float, status: str) -> None:
        kept, gone = sorted((one, other))
        self.merges.append(Merge(self.concepts[kept].id, self.concepts[gone].id, reason, score, status))

    # ------------------------------------------------------------ reasons

    def same_forms(self) -> None:
        """Each concept joins the sense of its name that is most like it, or is a sense of its own."""
        for form in sorted(self.rows):
            senses = self._senses(self.rows[form])
            while len(joined := self._senses(senses)) < len(senses):  # more context can show that two senses are one
                senses = joined
            for number, row in enumerate(senses):
                for sense in senses[: min(number, self.senses)]:
                    _, alike, why = self.homonyms(sense, row)
                    self.groups.forbid(sense, row)
                    self.add(sense, row, f"same normal form, but homonyms: {why}", min(alike, 1.0), "apart")

    def _senses(self, rows: Iterable[int]) -> list[int]:
        """Unite what is no homonym; returns what is left."""
        senses: list[int] = []
        for row in rows:
            judged = [(sense, *self.homonyms(sense, row)) for sense in senses[: self.senses]]
            joined = [(alike, -sense) for sense, homonyms, alike, _ in judged if not homonyms]
            if joined:
                sense = -max(joined)[1]
                self.unite(sense, row)
                self.add(sense, row, "same normal form", 1.0, "accepted")
            else:
                senses.append(row)
        return senses

    def claims(self, redirects: Mapping[str, str], acronyms: Iterable[tuple[str, str]]) -> None:
        """Names that one concept claims and another has, until no claim can be settled any more."""
        waiting = self._claims(redirects, acronyms)
        settled = True
        while settled:
            settled = False
            for form, claimants in list(waiting.items()):
                if self._settle(form, claimants):
                    settled = True
                    del waiting[form]
        for form, claimants in waiting.items():
            self._show(form, claimants)

    def _claims(self, redirects: Mapping[str, str], acronyms: Iterable[tuple[str, str]]) -> dict[str, dict[int, str]]:
        """By form: the rows that claim it, and why."""
        found: dict[str, dict[int, str]] = defaultdict(dict)

        def claim(row: int, name: str, reason: str) -> None:
            form = normal_form(name)
            if form != self.forms[row]:
                found[form].setdefault(row, reason)

        for here, there in sorted(redirects.items()):
            for row in self.rows.get(normal_form(there), ()):
                claim(row, here, "redirect")
        said = set(acronyms)
        for row, concept in enumerate(self.concepts):
            for alias in concept.aliases:
                claim(row, alias, "acronym" if _is_acronym(alias) else "alias")
            for name in (concept.name, *concept.aliases):
                for short, long in find_acronyms(name) if "(" in name else ():
                    claim(row, short, "acronym")
                    claim(row, long, "alias")
            if "(" in concept.description:
                said.update(find_acronyms(concept.description))
        for short, long in sorted(said):
            for row in self.rows.get(normal_form(long), ()):
                claim(row, short, "acronym")
        return {form: found[form] for form in sorted(found)}

    def _owners(self, form: str, claimants: Mapping[int, str]) -> list[int]:
        """The groups whose name is claimed; an acronym does not claim a word (`RAM`, `ram`)."""
        rows = self.rows.get(form, [])
        if set(claimants.values()) == {"acronym"}:
            rows = [row for row in rows if _is_acronym(self.concepts[row].name)]
        return sorted({self.groups.find(row) for row in rows})

    def _settle(self, form: str, claimants: Mapping[int, str]) -> bool:
        """Accept what can be; whether nothing is left to be said about this name."""
        owners = self._owners(form, claimants)
        groups = sorted({self.groups.find(row) for row in claimants} - set(owners))
        if not groups and len(owners) == 1:
            return True
        sent = [row for row, reason in sorted(claimants.items()) if reason == "redirect"]
        if len(owners) != 1 or (len(groups) > 1 and not sent):
            return False
        owner = owners[0]
        for row in sent or [row for row in sorted(claimants) if self.groups.find(row) == groups[0]][:1]:
            if self.groups.find(row) == self.groups.find(owner):
                continue
            if not sent and self.homonyms(self.groups.find(row), self.groups.find(owner))[0]:
                return False
            if not self.unite(row, owner):
                return False
            self.add(row, owner, claimants[row], 1.0 if sent else 0.9, "accepted")
        return bool(sent) or not {self.groups.find(row) for row in claimants} - {self.groups.find(owner)}

    def _show(self, form: str, claimants: Mapping[int, str]) -> None:
        """Candidates of a name that several claim or own, or whose claim the contexts speak against."""
        owners = self._owners(form, claimants)
        first = owners[0] if owners else self.groups.find(min(claimants))
        shown = set(owners) | {first}
        for row, reason in sorted(claimants.items()):
            group = self.groups.find(row)
            if group in shown:
                continue
            shown.add(group)
            for owner in (owners or [first])[: self.senses]:
                homonyms, _, why = self.homonyms(owner, group)
                told = f"{reason}, but {why}" if homonyms else f"{reason} of several"
                self.add(owner, group, told, 0.3 if homonyms else 0.6, "candidate")

    def word_orders(self) -> None:
        """Names that differ by the order around `of`."""
        turned: dict[str, set[str]] = defaultdict(set)
        for form in self.rows:
            if "-of-" in form:
                turned[_turned(form)].add(form)
        for plain, forms in sorted(turned.items()):
            same = sorted(forms | ({plain} & self.rows.keys()))
            groups = sorted({self.groups.find(row) for form in same for row in self.rows[form]})
            for group in groups[1:]:
                self.add(groups[0], group, "word order", 0.5, "candidate")

    def embeddings(self, vectors: Floats, order: Sequence[int]) -> None:
        """The nearest names of each group that is not one with them yet, nor known to be another."""
        leaders = [row for row in range(len(self.concepts)) if self.groups.find(row) == row]
        matrix = np.ascontiguousarray(np.asarray(vectors)[[order[row] for row in leaders]], dtype=np.float32)
        shown: set[tuple[int, int]] = set()
        for one, other, score in _nearest(matrix, self.rule.neighbours, self.rule.cosine):
            pair = (leaders[min(one, other)], leaders[max(one, other)])
            if pair not in shown and pair[1] not in self.groups.apart.get(pair[0], ()):
                shown.add(pair)
                self.add(*pair, "similar embedding", round(min(score, 1.0), 4), "candidate")


def _nearest(matrix: Floats, k: int, least: float, cells: int = 2**24) -> Iterator[tuple[int, int, float]]:
    """Pairs of rows with a product of at least `least`, of each row the best `k`; `cells` products at a time."""
    step = max(1, cells // max(1, len(matrix)))
    for start in range(0, len(matrix), step):
        products = matrix[start : start + step] @ matrix.T
        products[np.arange(len(products)), np.arange(start, start + len(products))] = -np.inf
        for row in np.flatnonzero((products >= least).any(axis=1)):
            near = np.flatnonzero(products[row] >= least)
            best = near[np.lexsort((near, -products[row, near]))][:k]
            for other in best:
                yield start + int(row), int(other), float(products[row, other])


def decide(merges: Iterable[Merge], verdicts: Mapping[tuple[str, str], str]) -> list[Merge]:
    """The decisions with a user's `accept` or `reject` put in, by the two ids in either order.

    A pair that was not proposed becomes a decision too. Raises InputError for other words, for a concept paired
    with itself and for two verdicts on one pair that differ.
    """
    statuses = {"accept": "accepted", "reject": "rejected"}
    wrong = sorted(f"{pair[0]}, {pair[1]}: {word!r}" for pair, word in verdicts.items() if word not in statuses)
    if wrong:
        raise InputError(f"a verdict is accept or reject: {'; '.join(wrong[:3])}")
    spoken: dict[tuple[str, str], str] = {}
    for (one, other), word in verdicts.items():
        pair = (min(one, other), max(one, other))
        if one == other:
            raise InputError(f"a verdict needs two concepts, not {one} twice")
        if spoken.setdefault(pair, statuses[word]) != statuses[word]:
            raise InputError(f"two verdicts on {one} and {other}")
    found, open_pairs = [], dict(spoken)
    for merge in merges:
        pair = (min(merge.kept, merge.gone), max(merge.kept, merge.gone))
        open_pairs.pop(pair, None)
        found.append(merge._replace(status=spoken[pair]) if pair in spoken else merge)
    return found + [Merge(*pair, "verdict", 1.0, status) for pair, status in sorted(open_pairs.items())]


# ---------------------------------------------------------------- carrying them out


def apply(
    concepts: Sequence[Concept], edges: Sequence[Edge], merges: Iterable[Merge]
) -> tuple[list[Concept], list[Edge], dict[str, str]]:
    """Concepts, edges and, for each id that is gone, the one that is kept; the order given does not matter.

    Only accepted merges are carried out, in chains too, but none that would join, directly or through others, a
    pair that is rejected or apart: there the least certain merge of the chain gives way. Of one group the concept
    mentioned most is kept, then the one with the shortest name, then the first by alphabet; names of the others
    become its aliases, and what it lacks of a description comes from them. Edges between concepts that became one
    are dropped; edges alike in all but weight are one, their weights added. A merge of concepts that are not
    there says nothing, as verdicts outlive a corpus. Concepts come back ordered by id, edges ordered.
    """
    ranked = _ranked(concepts, edges)
    rows = {concept.id: row for row, concept in enumerate(ranked)}
    known = [merge for merge in set(merges) if merge.kept in rows and merge.gone in rows]
    groups = _Groups(len(ranked))
    accepted = []
    for merge in known:
        pair = sorted((rows[merge.kept], rows[merge.gone]))
        if merge.status in ("rejected", "apart"):
            groups.forbid(*pair)
        elif merge.status == "accepted":
            accepted.append((-merge.score, pair))
    for _, pair in sorted(accepted):
        groups.unite(*pair)
    members: dict[int, list[Concept]] = defaultdict(list)
    for row, concept in enumerate(ranked):
        members[groups.find(row)].append(concept)
    mapping = {one.id: ranked[group].id for group, ones in members.items() for one in ones[1:]}
    united = sorted((_united(ones) for ones in members.values()), key=lambda concept: concept.id)
    return united, _rewritten(edges, mapping), dict(sorted(mapping.items()))


def _united(members: Sequence[Concept]) -> Concept:
    kept = members[0]
    if len(members) == 1:
        return kept
    names = dict.fromkeys(itertools.chain(kept.aliases, *((one.name, *one.aliases) for one in members[1:])))
    names.pop(kept.name, None)
    description = next((one.description for one in members if one.description), "")
    return replace(kept, description=description, aliases=tuple(names))


def _rewritten(edges: Iterable[Edge], mapping: Mapping[str, str]) -> list[Edge]:
    moved = []
    for edge in edges:
        if edge.source in mapping or edge.target in mapping:
            source, target = mapping.get(edge.source, edge.source), mapping.get(edge.target, edge.target)
            if source == target and edge.source != edge.target:
                continue
            edge = edge._replace(source=source, target=target)
        moved.append(edge)
    moved.sort()
    united = []
    for _, alike in itertools.groupby(moved, key=itemgetter(0, 1, 2, 3, 4)):
        first, *doubles = alike
        weight = math.fsum((first.weight, *(edge.weight for edge in doubles)))
        united.append(first._replace(weight=weight) if doubles else first)
    return united


# ---------------------------------------------------------------- ids and names


def gather(parts: Iterable[tuple[Sequence[Concept], Sequence[Edge]]]) -> tuple[list[Concept], list[Edge]]:
    """What was found in several documents as one graph, in which equal names may still mean different things.

    A concept whose id an earlier part has too gets a number (`concept:kernel-2`), and the edges of its part with
    it, so that `propose` can judge each by its own surroundings.
    """
    found: list[Concept] = []
    moved: list[Edge] = []
    numbering = _Numbering()
    for concepts, edges in parts:
        ids = {concept.id: numbering.free(concept.id) for concept in concepts}
        found += [replace(concept, id=ids[concept.id]) for concept in concepts]
        moved += [
            edge._replace(source=ids.get(edge.source, edge.source), target=ids.get(edge.target, edge.target))
            for edge in edges
        ]
    return found, moved


def plain_ids(concepts: Sequence[Concept], edges: Sequence[Edge]) -> tuple[list[Concept], list[Edge], dict[str, str]]:
    """Concepts called by the slug of their name, homonyms with a number, the one mentioned most without.

    Returns what `apply` returns; the mapping has the ids that changed.
    """
    numbering = _Numbering()
    ranked = _ranked(concepts, edges)
    ids = {concept.id: numbering.free(f"concept:{slug(concept.name)}") for concept in ranked}
    named = sorted((replace(concept, id=ids[concept.id]) for concept in ranked), key=lambda concept: concept.id)
    return named, _rewritten(edges, ids), {old: new for old, new in sorted(ids.items()) if old != new}


class _Numbering:
    """Ids given out so far; looks for a free number where it last found one."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.last: dict[str, int] = {}

    def free(self, name: str) -> str:
        one = name
        while one in self.taken:
            self.last[name] = self.last.get(name, 1) + 1
            one = f"{name}-{self.last[name]}"
        self.taken.add(one)
        return one


def by_name(concepts: Iterable[Concept]) -> dict[str, list[str]]:
    """Ids by the normal form of every name and alias; homonyms under one form, in the order given."""
    found: dict[str, list[str]] = defaultdict(list)
    for concept in concepts:
        for form in dict.fromkeys(normal_form(name) for name in (concept.name, *concept.aliases)):
            found[form].append(concept.id)
    return dict(found)
