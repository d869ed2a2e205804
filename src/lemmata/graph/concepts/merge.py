"""Merge concepts that stand under several names, by decisions that users can read, change and undo.

`propose` makes decisions, `decide` adds a user's verdicts, `apply` carries them out on the originals, which stay
unchanged: leaving out a decision undoes it. Knows neither texts nor files.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lemmata.core.errors import InputError
from lemmata.core.types import Concept, Edge
from lemmata.core.words import ARTICLES, GERMAN_LINKING_WORDS, LINKING_WORDS, PREFIXES, singular, slug

STATUSES = (
    "accepted",
    "apart",  # homonyms
    "candidate",  # waits for a verdict
    "rejected",  # by a verdict
)


class Merge(NamedTuple):
    """The decision that two concepts are one, or that they are not."""

    kept: str  # ids
    gone: str
    reason: str  # begins with: same normal form, alias, acronym, word order, verdict
    score: float = 1.0  # 0 to 1; of an apart pair the similarity of their contexts
    status: str = "candidate"  # one of STATUSES
    by_user: bool = False  # whether a verdict gave the status, and which of the two is kept


# Contexts less alike than this are of homonyms; 1 is how alike two places are by chance.
_ALIKE = 1.0
_SIMILAR_CONTEXTS = 0.3  # cosine from which contexts are never of homonyms
_MOST_SENSES = 16  # of one normal form that a further concept is compared with; keeps the work linear
_MOST_PLACES = 200  # of one concept that make its context


# ---------------------------------------------------------------- normal forms

_ARTICLES = re.compile(
    r"(?:^|(?<=\s))(?:the\s+)+(?=\S)"
    r"|(?:^|\b(?:of|in|on|over|for|to|by|with|from|and|or|at|under|as)\s+)an?\s+(?!(?:prior|posterior|fortior)i\b)(?=\S)",
    re.IGNORECASE,
)

_POSSESSIVE = re.compile(r"(?<=[^\W\d_])['’ʼ](?:s\b|(?=[\s-]|$))", re.IGNORECASE)
_FORMULA = re.compile(r"\$([^$]*)\$")
_STARRED = re.compile(r"\^\s*\{?\s*(?:\*|∗|⋆|\\(?:ast|star)\b)\s*\}?|\\(?:ast|star)\b")
_SIGNS = {
    "*": "star", "∗": "star", "⋆": "star", "^": "sup", "+": "plus", "∞": "infty", "&": "and", "~": "", "|": "",
    "=": "equal", "<": "less", ">": "greater",
}  # fmt: skip
_SUPERSCRIPT = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁱⁿ]+")


def normal_form(name: str) -> str:
    """What different spellings of a name have in common: words in the singular and lower case, joined by hyphens.

    It ignores case, accents, English plurals, possessives, articles, dollars, and whether a hyphen, a dash, a space or
    (after `non`, `semi`, ...) nothing separates two words. `The Erdős–Rényi $G$-Graph's` is `erdos-renyi-g-graph`.
    It distinguishes `$H^1$` and `$H_1$`, `$C^*$` and `$C$`, an article and the letter in `$A$ module`. A name with a
    German article or preposition keeps its endings. A normal form is its own normal form.
    """
    text = _POSSESSIVE.sub("", _ARTICLES.sub(_without_article, name.strip()))
    text = _SUPERSCRIPT.sub(lambda match: "^" + unicodedata.normalize("NFKC", match[0]), text)
    text = _FORMULA.sub(lambda match: match[0].replace("-", " minus ").replace("'", " prime "), text)
    text = "".join(_sign_as_word(letter) for letter in _STARRED.sub(" star ", text))
    words = slug(text if text.strip() else name).split("-")
    while (next_words := _joined_singulars(words)) != words:
        words = next_words
    return "-".join(words)


def _without_article(match: re.Match[str]) -> str:
    first = match[0].split()[0]
    return "" if first.lower() in ARTICLES else first + " "


def _sign_as_word(letter: str) -> str:
    if letter in _SIGNS:
        return f" {_SIGNS[letter]} "
    if letter.isascii() or unicodedata.category(letter) != "Sm":
        return letter
    return f" {unicodedata.name(letter, '').lower()} "


def _joined_singulars(words: Sequence[str]) -> list[str]:
    """One round of singulars and of joining prefixes; each can enable the other."""
    if GERMAN_LINKING_WORDS.isdisjoint(words):
        words = [singular(word) for word in words]
    joined: list[str] = []
    for word in reversed(words):
        if word in PREFIXES and joined and len(joined[-1]) > 1 and joined[-1].isalpha():
            joined[-1] = word + joined[-1]
        else:
            joined.append(word)
    return joined[::-1]


# ---------------------------------------------------------------- acronyms

_IN_BRACKETS = re.compile(r"\(([^()]{2,80})\)")

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def find_acronyms(text: str) -> list[tuple[str, str]]:
    """Acronyms that a text spells out, with their long form: `algebraic group (AG)` or `AG (algebraic group)`.

    Each letter of the acronym begins a word; linking words (of, and, ...) may stand between them.
    """
    pairs = []
    for bracket in _IN_BRACKETS.finditer(text):
        inside, before = bracket[1].strip(), text[max(0, bracket.start() - 160) : bracket.start()]
        last_word = before.split()[-1] if before.split() else ""
        if _is_acronym(inside):
            long = _spelled_out(inside, before)
            if long:
                pairs.append((inside, long))
        elif inside and _is_acronym(last_word) and _spelled_out(last_word, inside) == inside:
            pairs.append((last_word, inside))
    return pairs


def _is_acronym(name: str) -> bool:
    letters = name.removesuffix("s")
    return 2 <= len(letters) <= 8 and letters.isalnum() and sum(map(str.isupper, letters)) * 2 > len(letters)


def _spelled_out(acronym: str, text: str) -> str:
    """The end of a text whose words begin with the letters of an acronym; "" where they do not."""
    words = list(_WORD.finditer(text))
    letters = list(acronym.removesuffix("s").lower())
    start = -1
    while letters and words:
        word = words.pop()
        if word[0][0].lower() == letters[-1]:
            letters.pop()
            start = word.start()
        elif word[0].lower() not in LINKING_WORDS or start < 0:
            return ""
    long = text[start:].strip() if not letters else ""
    return "" if long[: long.find(" ")].lower() in ARTICLES else long


# ---------------------------------------------------------------- proposals


def propose(concepts: Sequence[Concept], edges: Sequence[Edge], *, least_context: int = 15) -> list[Merge]:
    """Which concepts are one, the most certain first; independent of the order of the arguments.

    - `same normal form`: accepted, unless the two are homonyms; then the pair is `apart`.
    - `alias`, `acronym`: one concept has the name of another as an alias. Accepted where only one claims it and the
      two are no homonyms, else a candidate.
    - `word order` (radius of convergence, convergence radius): always candidates.

    Two concepts are homonyms if one is a person and the other is not, or if their contexts are less alike than by
    chance, each with at least `least_context` different things in it. A context is the places of a concept: passages
    that mention it with what else they mention, its neighbours by edges, the words of its description. With u(p) the
    unit vector of a place, in which a thing x weighs log(1 + places / places with x), the contexts A and B are alike

        mean of u(a)·u(b) over a in A, b in B, divided by the same over all pairs of places,

    without the two names themselves. Contexts with a cosine of 0.3 or more are never of homonyms. Raises InputError for
    duplicate ids.
    """
    proposer = _Proposer(_ranked(concepts, edges), edges, least_context)
    proposer.same_forms()
    proposer.claimed_names()
    proposer.word_orders()
    return sorted(proposer.merges, key=lambda merge: (STATUSES.index(merge.status), -merge.score, merge))


def _ranked(concepts: Sequence[Concept], edges: Iterable[Edge]) -> list[Concept]:
    """The concept to keep first: most mentioned, then the shortest name, then by alphabet."""
    duplicates = [identity for identity, number in Counter(item.id for item in concepts).items() if number > 1]
    if duplicates:
        raise InputError(f"concepts with the same id: {', '.join(sorted(duplicates)[:3])}")
    mentions = Counter(edge.target for edge in edges if edge.relation == "mentions")
    return sorted(concepts, key=lambda item: (-mentions[item.id], len(item.name), item.name, item.id))


class _Groups:
    """Rows united so far; a group is named by its first row, which is the one to keep."""

    def __init__(self, size: int) -> None:
        self.of = list(range(size))  # row: group
        self.members = {row: [row] for row in range(size)}
        self.apart: dict[int, set[int]] = defaultdict(set)  # by group

    def forbid(self, first: int, second: int) -> None:
        first, second = self.of[first], self.of[second]
        if first != second:
            self.apart[first].add(second)
            self.apart[second].add(first)

    def unite(self, first: int, second: int) -> bool:
        """Whether the two are one group now."""
        kept, gone = sorted((self.of[first], self.of[second]))
        if gone in self.apart[kept]:
            return False
        if kept != gone:
            for row in self.members[gone]:
                self.of[row] = kept
            self.members[kept] += self.members.pop(gone)
            for other in self.apart.pop(gone, ()):
                self.apart[other].discard(gone)
                self.forbid(kept, other)
        return True


def _own_things(form: str) -> frozenset[str]:
    """A name and its words, which are no context of the name."""
    return frozenset((form, *form.split("-")))


class _Contexts:
    """The places of each concept as unit vectors of the things there: names, and words of names."""

    def __init__(self, concepts: Sequence[Concept], forms: Sequence[str], edges: Iterable[Edge]) -> None:
        self.forms = forms
        self.places_of: dict[int, set[str]] = defaultdict(set)  # by row
        things_at: dict[str, set[str]] = defaultdict(set)
        row_of = {concept.id: row for row, concept in enumerate(concepts)}
        for edge in edges:
            source, target = row_of.get(edge.source), row_of.get(edge.target)
            if edge.relation == "mentions" and target is not None and source is None:
                things_at[edge.source].add(forms[target])
                self.places_of[target].add(edge.source)
            elif source is not None and target is not None:
                for row, neighbour in ((source, target), (target, source)):
                    place = f"next to {concepts[row].id}"
                    things_at[place].update((forms[row], forms[neighbour]))
                    self.places_of[row].add(place)
        name_words = {word for form in forms for word in form.split("-")}  # excludes `which` and `every`
        for row, concept in enumerate(concepts):
            words = {singular(word) for word in _WORD.findall(concept.description.lower())} & name_words
            if words:
                place = f"about {concept.id}"
                things_at[place] |= words | {forms[row]}
                self.places_of[row].add(place)
        things_at = {place: things for place, things in sorted(things_at.items()) if len(things) > 1}
        spread = Counter(itertools.chain.from_iterable(things_at.values()))
        weights = {thing: math.log1p(len(things_at) / number) for thing, number in spread.items()}
        self.units: dict[str, dict[str, float]] = {}  # by place
        for place, things in things_at.items():
            length = math.sqrt(math.fsum(weights[thing] ** 2 for thing in things))
            self.units[place] = {thing: weights[thing] / length for thing in things}

        self.everywhere: dict[str, float] = defaultdict(float)  # sum of the unit vectors of all places
        for unit in self.units.values():
            for thing, weight in unit.items():
                self.everywhere[thing] += weight
        self.square = math.fsum(weight**2 for weight in self.everywhere.values())

    def chance(self, own: Iterable[str]) -> float:
        """How alike two places are on average, without the things `own`."""
        square = self.square - math.fsum(self.everywhere.get(thing, 0.0) ** 2 for thing in own)
        return square / max(len(self.units), 1) ** 2

    def of_rows(self, rows: Iterable[int]) -> tuple[dict[str, float], int]:
        """The sum of the unit vectors of some concepts' places, each without the concept's own name; their number."""
        total: dict[str, float] = defaultdict(float)
        number = 0
        for row in rows:
            own = _own_things(self.forms[row])
            places = sorted(self.places_of.get(row, set()) & self.units.keys())[:_MOST_PLACES]
            number += len(places)
            for place in places:
                for thing, weight in self.units[place].items():
                    if thing not in own:
                        total[thing] += weight
        return total, number


class _Proposer:
    """State of one `propose`: concepts by row, in the order in which they would be kept."""

    def __init__(self, concepts: Sequence[Concept], edges: Sequence[Edge], least_context: int) -> None:
        self.concepts = concepts
        self.least_context = least_context
        self.forms = [normal_form(concept.name) for concept in concepts]
        self.rows: dict[str, list[int]] = defaultdict(list)  # by form
        for row, form in enumerate(self.forms):
            self.rows[form].append(row)
        self.groups = _Groups(len(concepts))
        self.merges: list[Merge] = []
        self.contexts = _Contexts(concepts, self.forms, edges)

    def homonyms(self, group: int, other: int) -> tuple[bool, float, str]:
        """Whether two groups are different things under one name, how alike their contexts are, and why."""
        (first, places), (second, other_places) = (
            self.contexts.of_rows(self.groups.members[name]) for name in (group, other)
        )
        own = _own_things(self.forms[group]) | _own_things(self.forms[other])
        common = math.fsum(weight * second[thing] for thing, weight in first.items() if thing in second)
        chance = self.contexts.chance(own) * places * other_places
        alike = 0.0 if not common else common / chance if chance > 0 else math.inf
        if (self.concepts[group].kind == "person") != (self.concepts[other].kind == "person"):
            return True, alike, "one is a person"
        if min(len(things.keys() - own) for things in (first, second)) < self.least_context:
            return False, alike, "too little context to tell them apart"
        lengths = [math.sqrt(math.fsum(weight**2 for weight in things.values())) for things in (first, second)]
        far = common < _SIMILAR_CONTEXTS * math.prod(lengths)
        reason = f"contexts {alike:.2f} times as alike as by chance, the line is {_ALIKE:g}"
        return far and alike < _ALIKE, alike, reason

    def add(self, first: int, second: int, reason: str, score: float, status: str) -> None:
        kept, gone = sorted((first, second))
        self.merges.append(Merge(self.concepts[kept].id, self.concepts[gone].id, reason, score, status))

    # ------------------------------------------------------------ reasons

    def same_forms(self) -> None:
        """Each concept joins the sense of its name that is most like it, or becomes a sense of its own."""
        for form in sorted(self.rows):
            senses = self._senses(self.rows[form])
            while len(joined := self._senses(senses)) < len(senses):  # more context can show that two senses are one
                senses = joined
            for number, row in enumerate(senses):
                for sense in senses[: min(number, _MOST_SENSES)]:
                    _, alike, why = self.homonyms(sense, row)
                    self.groups.forbid(sense, row)
                    self.add(sense, row, f"same normal form, but homonyms: {why}", min(alike, 1.0), "apart")

    def _senses(self, rows: Iterable[int]) -> list[int]:
        """Unite the rows that are no homonyms; returns one row per sense."""
        senses: list[int] = []
        for row in rows:
            judged = [(sense, *self.homonyms(sense, row)) for sense in senses[:_MOST_SENSES]]
            alikes = [(alike, -sense) for sense, homonyms, alike, _ in judged if not homonyms]
            if alikes:
                sense = -max(alikes)[1]
                self.groups.unite(sense, row)
                self.add(sense, row, "same normal form", 1.0, "accepted")
            else:
                senses.append(row)
        return senses

    def claimed_names(self) -> None:
        """Names that one concept claims as an alias and another has, until no claim can be settled any more."""
        waiting, before = self._claims(), -1
        while len(waiting) != before:
            before = len(waiting)
            waiting = {form: claimants for form, claimants in waiting.items() if not self._settle(form, claimants)}
        for form, claimants in waiting.items():
            self._propose_claimants(form, claimants)

    def _claims(self) -> dict[str, dict[int, str]]:
        """By form: the rows that claim it, and why."""
        claims: dict[str, dict[int, str]] = defaultdict(dict)

        def claim(row: int, name: str, reason: str) -> None:
            form = normal_form(name)
            if form != self.forms[row]:
                claims[form].setdefault(row, reason)

        acronyms: set[tuple[str, str]] = set()
        for row, concept in enumerate(self.concepts):
            for alias in concept.aliases:
                claim(row, alias, "acronym" if _is_acronym(alias) else "alias")
            for name in (concept.name, *concept.aliases):
                for short, long in find_acronyms(name):
                    claim(row, short, "acronym")
                    claim(row, long, "alias")
            acronyms.update(find_acronyms(concept.description))
        for short, long in sorted(acronyms):
            for row in self.rows.get(normal_form(long), ()):
                claim(row, short, "acronym")
        return {form: claims[form] for form in sorted(claims)}

    def _owners(self, form: str, claimants: Mapping[int, str]) -> list[int]:
        """The groups whose name is claimed; an acronym does not claim a word (`RAM`, `ram`)."""
        rows = self.rows.get(form, [])
        if set(claimants.values()) == {"acronym"}:
            rows = [row for row in rows if _is_acronym(self.concepts[row].name)]
        return sorted({self.groups.of[row] for row in rows})

    def _settle(self, form: str, claimants: Mapping[int, str]) -> bool:
        """Accept the claim where one group claims the name of one other; whether the claim is settled."""
        owners = self._owners(form, claimants)
        groups = {self.groups.of[row] for row in claimants} - set(owners)
        if len(owners) != 1 or len(groups) > 1:
            return False
        if groups:
            (owner,), (group,) = owners, groups
            row = min(row for row in claimants if self.groups.of[row] == group)
            if self.homonyms(group, owner)[0] or not self.groups.unite(row, owner):
                return False
            self.add(row, owner, claimants[row], 0.9, "accepted")
        return True

    def _propose_claimants(self, form: str, claimants: Mapping[int, str]) -> None:
        """Candidates for a name that several claim or have, or whose claim the contexts contradict."""
        owners = self._owners(form, claimants) or [self.groups.of[min(claimants)]]
        proposed = set(owners)
        for row, reason in sorted(claimants.items()):
            group = self.groups.of[row]
            if group in proposed:
                continue
            proposed.add(group)
            for owner in owners[:_MOST_SENSES]:
                homonyms, _, why = self.homonyms(owner, group)
                detail = f"{reason}, but {why}" if homonyms else f"{reason} of several"
                self.add(owner, group, detail, 0.3 if homonyms else 0.6, "candidate")

    def word_orders(self) -> None:
        """Names that differ by the order around `of`: `radius-of-convergence`, `convergence-radius`."""
        turned: dict[str, set[str]] = defaultdict(set)
        for form in self.rows:
            if "-of-" in form:
                turned["-".join(reversed(form.split("-of-")))].add(form)
        for plain, forms in sorted(turned.items()):
            same = forms | ({plain} & self.rows.keys())
            groups = sorted({self.groups.of[row] for form in same for row in self.rows[form]})
            for group in groups[1:]:
                self.add(groups[0], group, "word order", 0.5, "candidate")


# ---------------------------------------------------------------- verdicts


def decide(merges: Iterable[Merge], verdicts: Mapping[tuple[str, str], str]) -> list[Merge]:
    """The decisions with a user's verdicts (`accept` or `reject`), by the two ids in either order.

    The first id of a verdict is the one to keep. A verdict on a pair that was not proposed becomes a decision too.
    """
    by_pair = {
        frozenset(pair): Merge(*pair, "verdict", 1.0, "accepted" if verdict == "accept" else "rejected", by_user=True)
        for pair, verdict in verdicts.items()
    }
    decided, not_proposed = [], dict(by_pair)
    for merge in merges:  # a pair can be proposed for several reasons
        pair = frozenset(merge[:2])
        not_proposed.pop(pair, None)
        decided.append(by_pair.get(pair, merge)._replace(reason=merge.reason, score=merge.score))
    return decided + sorted(not_proposed.values())


# ---------------------------------------------------------------- carrying out


def apply(
    concepts: Sequence[Concept], edges: Sequence[Edge], merges: Iterable[Merge]
) -> tuple[list[Concept], list[Edge], dict[str, str]]:
    """Concepts, edges, and for each id that is gone the one that is kept; independent of the order of the arguments.

    Only accepted merges are carried out, in chains too, but none that would join, directly or through others, a
    pair that is rejected or apart: there the least certain merge of the chain gives way, those of a user last. Of one
    group the concept that a user chose is kept, else the one mentioned most, then the one with the shortest name, then
    the first by alphabet. Edges between concepts that became one are dropped; edges equal in all but weight become one,
    their weights added. Merges of unknown concepts are ignored, as verdicts outlive a corpus. Concepts come back
    ordered by id, edges ordered.
    """
    ranked = _ranked(concepts, edges)
    rows = {concept.id: row for row, concept in enumerate(ranked)}
    groups = _Groups(len(ranked))
    accepted = []
    for merge in set(merges):
        if merge.kept in rows and merge.gone in rows:
            pair = (rows[merge.kept], rows[merge.gone])
            if merge.status in ("rejected", "apart"):
                groups.forbid(*pair)
            elif merge.status == "accepted":
                accepted.append((not merge.by_user, -merge.score, pair))
    chosen, replaced = set(), set()  # rows, by verdicts
    for automatic, _, (kept, gone) in sorted(accepted):
        if groups.unite(kept, gone) and not automatic:
            chosen.add(kept)
            replaced.add(gone)
    chosen -= replaced
    members = [
        [ranked[row] for row in sorted(group, key=lambda row: (row not in chosen, row))]
        for group in groups.members.values()
    ]
    kept_ids = {gone.id: group[0].id for group in members for gone in group[1:]}
    united = sorted((unite(*group) for group in members), key=lambda concept: concept.id)
    return united, _rewritten(edges, kept_ids), dict(sorted(kept_ids.items()))


def unite(kept: Concept, *others: Concept) -> Concept:
    """The first concept with the names of the others as aliases, and their description where it has none."""
    names = dict.fromkeys(itertools.chain(kept.aliases, *((other.name, *other.aliases) for other in others)))
    names.pop(kept.name, None)
    description = next((concept.description for concept in (kept, *others) if concept.description), "")
    return replace(kept, description=description, aliases=tuple(names)) if others else kept


def _rewritten(edges: Iterable[Edge], kept_ids: Mapping[str, str]) -> list[Edge]:
    weights: dict[tuple[str, str, str, str, str], list[float]] = defaultdict(list)
    for edge in edges:
        source, target = kept_ids.get(edge.source, edge.source), kept_ids.get(edge.target, edge.target)
        if source != target or edge.source == edge.target:
            weights[source, edge.relation, target, edge.evidence, edge.maker].append(edge.weight)
    return [Edge(*key, math.fsum(equal)) for key, equal in sorted(weights.items())]
