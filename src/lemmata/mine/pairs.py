"""Training pairs from what a corpus says about itself: its concepts, its structure, its citations.

A miner sees one Material, so a pair can not hold a row of another part. The same material, options and seed give
the same pairs in the same order: whatever is drawn is drawn by hashes of ids, and ids decide the order.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lemmata.errors import ConfigError
from lemmata.mine.material import Material
from lemmata.types import Concept, Integers, Mask, Pair, Passage, titled
from lemmata.words import GENERIC_TITLE_WORDS, GERMAN_LINKING_WORDS, STOP_WORDS

__all__ = [
    "CitationPairOptions",
    "ConceptPairOptions",
    "PairOptions",
    "StructurePairOptions",
    "Survey",
    "citation_pairs",
    "concept_pairs",
    "generic_title",
    "linked_rows",
    "mine_pairs",
    "positive_text",
    "structure_pairs",
    "survey",
]

Hashes = npt.NDArray[np.uint64]

_BATCH = 500  # concepts whose passages are read at once
_EDGE_ORDER = ("speaks of both", "defined here", "in its title", "mentioned")
_CUT = 0.7  # share of a description's word pairs that a passage has if the description was cut from it


# ---------------------------------------------------------------- options


@dataclass(frozen=True, slots=True)
class ConceptPairOptions:
    """Pairs from concepts; the first three are weights, and 0 switches off."""

    SMALLEST: ClassVar = {
        "name": 0.0, "description": 0.0, "edge": 0.0, "passages_per_concept": 1, "passages_per_edge": 1, "shortest": 0,
    }  # fmt: skip
    name: float = 1.0  # name of a concept -> passage that speaks of it
    description: float = 1.0  # description of a concept -> passage that speaks of it
    edge: float = 1.0  # name of one end of an edge -> passage that speaks of the other end
    relations: Mapping[str, float] = field(default_factory=dict)  # further weight of an edge; 1.0 where not named
    passages_per_concept: int = 20
    passages_per_edge: int = 5  # in each direction
    shortest: int = 50  # characters of a positive
    own_passage: bool = False  # whether a description may lead to the passage that it was cut from
    seed: int = 0


@dataclass(frozen=True, slots=True)
class StructurePairOptions:
    """Pairs from how texts are written; the first eight are weights, and 0 switches off."""

    SMALLEST: ClassVar = {
        **dict.fromkeys("refers_to proof_uses related_to location section note title proof".split(), 0.0),
        "most_per_target": 1, "most_per_location": 1, "most_per_section": 1, "shortest_proof": 0, "generic_share": 0.0,
    }  # fmt: skip
    refers_to: float = 1.0  # statement -> statement that it names
    proof_uses: float = 1.0  # statement -> statement that its proof names
    related_to: float = 1.0  # log -> log that it follows up
    location: float = 1.0  # what a functional location is -> log that reports about it
    section: float = 1.0  # title of a section -> statement in it
    note: float = 1.0  # name of a statement -> the statement
    title: float = 1.0  # title -> abstract, or passage under a title of its own
    proof: float = 0.0  # proof -> its statement; off, because it lowered retrieval where it was measured
    chunks: bool = False  # whether prose counts as a statement
    most_per_target: int = 50  # what everything refers to says little about what refers to it
    most_per_location: int = 20
    most_per_section: int = 10
    shortest_proof: int = 200  # characters
    generic_share: float = 0.05  # of documents; a title that more of them have (and more than 8) is no anchor
    seed: int = 0


@dataclass(frozen=True, slots=True)
class CitationPairOptions:
    """Pairs from citations; 0 switches off."""

    SMALLEST: ClassVar = {"cites": 0.0, "most_per_target": 1}
    cites: float = 1.0  # passage or abstract -> abstract of what it cites
    most_per_target: int = 50  # a paper that everybody cites is near to nobody
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PairOptions:
    """All miners of pairs."""

    concepts: ConceptPairOptions = field(default_factory=ConceptPairOptions)
    structure: StructurePairOptions = field(default_factory=StructurePairOptions)
    citations: CitationPairOptions = field(default_factory=CitationPairOptions)


# ---------------------------------------------------------------- one reading of the material


class Survey(NamedTuple):
    """What is asked of every passage again and again; arrays are over all rows, those of other parts hold nothing."""

    order: Integers  # rows of the material, by id
    place: Integers  # (n rows,) where a row stands in `order`, else -1
    names: Hashes  # (n rows,) of ids
    whole: Hashes  # (n rows,) of title and text
    bare: Hashes  # (n rows,) of the text alone
    lengths: Integers  # (n rows,) characters of title and text
    prose: Mask  # (n rows,) chunks, abstracts and set-ups: no statements
    titles: dict[int, str]  # row: stems of the title
    notes: Counter[tuple[str, str]]  # words of a title and kind: how many have them
    sections: dict[tuple[str, str], list[int]]  # document and section: rows
    heads: dict[str, int]  # document: the row that speaks for it: the document itself, or its abstract
    links: dict[str, tuple[Integers, Integers]]  # relation: rows, and rows that they lead to


def survey(material: Material) -> Survey:
    """Read a material once; hold it while several miners work on it."""
    size = len(material.allowed)
    order = np.array([row for _, row in sorted(material.row_of.items())], np.int64)
    place = np.full(size, -1, np.int64)
    place[order] = np.arange(len(order))
    names, whole, bare = (np.zeros(size, np.uint64) for _ in range(3))
    lengths = np.zeros(size, np.int64)
    prose = np.zeros(size, bool)
    titles: dict[int, str] = {}
    notes: Counter[tuple[str, str]] = Counter()
    sections: dict[tuple[str, str], list[int]] = {}
    sizes = np.bincount(material.document_numbers) if size else material.document_numbers
    openings: dict[str, tuple[bool, int, str, int]] = {}  # of each document the best of its passages to speak for it
    documents = sorted(material.documents)
    number = {document: place for place, document in enumerate(documents)}
    links: dict[str, tuple[array[int], array[int]]] = {}  # a target is a row, or -1 - number of a document
    for row, passage in material.all_passages():
        text = _whole(passage)
        names[row], whole[row], bare[row] = _hash(passage.id), _hash(text), _hash(passage.text)
        lengths[row] = len(text)
        prose[row] = passage.kind in _PROSE
        if passage.title:
            titles[row] = _stems(passage.title)
            notes[" ".join(_words(passage.title)), passage.kind] += 1
        if passage.section and passage.kind != "abstract":
            sections.setdefault((passage.document, passage.section), []).append(row)
        opening = (passage.kind != "abstract", passage.first_line, passage.id, row)
        openings[passage.document] = min(opening, openings.get(passage.document, opening))
        for link in passage.links:
            if link.target is not None:
                anchors, targets = links.setdefault(link.relation, (array("q"), array("q")))
                anchors.append(row)
                targets.append(material.row_of.get(link.target, -1 - number.get(link.target, 0)))
    heads = {
        document: row
        for document, (no_abstract, _, _, row) in openings.items()
        if not no_abstract or sizes[material.document_numbers[row]] <= _ARTICLE
    }
    heads |= {document: material.row_of[document] for document in openings if document in material.row_of}
    head_of = np.array([heads.get(document, -1) for document in documents] or [-1], np.int64)
    resolved: dict[str, tuple[Integers, Integers]] = {}
    for relation, ends in links.items():
        sources, leading = (np.array(end, np.int64) for end in ends)
        leading = np.where(leading < 0, head_of[np.maximum(-1 - leading, 0)], leading)
        resolved[relation] = (sources[leading >= 0], leading[leading >= 0])
    return Survey(order, place, names, whole, bare, lengths, prose, titles, notes, sections, heads, resolved)


class Titled(Protocol):
    """A passage, or what is kept of one."""

    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...


def positive_text(pair: Pair, passage: Titled) -> str:
    """What a pair's positive says in training: without its title where the anchor is that title.

    A row's text begins with its title; a model would only learn to find a string again.
    """
    return passage.text if _untitled(pair) else _whole(passage)


def _untitled(pair: Pair) -> bool:
    return pair.source == "structure" and pair.relation in ("note", "title")


def _whole(passage: Titled) -> str:
    return titled(passage.title, passage.text)


def _hash(text: str) -> int:
    """64 bits: among a million texts, two different ones are taken for equal once in 10^8 corpora."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _lots(seed: int, *parts: Hashes) -> Hashes:
    """What a seed draws for ids, given by their hashes: the finaliser of SplitMix64, once for each part."""
    lot = np.full(len(parts[0]), _hash(f"seed {seed}"), np.uint64)
    for part in parts:
        lot = lot ^ part
        lot = (lot ^ (lot >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        lot = (lot ^ (lot >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        lot = lot ^ (lot >> np.uint64(31))
    return lot


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


# ---------------------------------------------------------------- all of them


def mine_pairs(material: Material, options: PairOptions | None = None) -> Iterator[Pair]:
    """The pairs of all miners, each pair of texts once; an earlier miner keeps what a later one finds again."""
    options = options or PairOptions()
    found = survey(material)
    seen: set[int] = set()
    yield from concept_pairs(material, options.concepts, found=found, seen=seen)
    yield from structure_pairs(material, options.structure, found=found, seen=seen)
    yield from citation_pairs(material, options.citations, found=found, seen=seen)


def _distinct(pairs: Iterable[Pair], found: Survey, seen: set[int] | None) -> Iterator[Pair]:
    """Pairs whose two texts were not there before, in whole, and are not the same text."""
    seen = set() if seen is None else seen
    for pair in pairs:
        anchor = _hash(pair.anchor) if isinstance(pair.anchor, str) else int(found.whole[pair.anchor])
        positive = int((found.bare if _untitled(pair) else found.whole)[pair.positive])
        key = hash((anchor, positive))  # of integers: the same in every process
        if anchor not in (positive, int(found.bare[pair.positive])) and key not in seen:
            seen.add(key)
            yield pair


# ---------------------------------------------------------------- concepts


def concept_pairs(
    material: Material,
    options: ConceptPairOptions | None = None,
    *,
    found: Survey | None = None,
    seen: set[int] | None = None,
) -> Iterator[Pair]:
    """Name, description and edge pairs (Math-Embed).

    Of each concept the best `passages_per_concept` passages are taken: those that define it, then those that
    name it in their title, then statements, then short ones that speak of little else; never one that names it
    only in its proof. They are paired with its name and with its description, but not with the description that
    was cut from that very passage: the anchor would be a part of the positive, and the model would learn to
    compare strings. An edge prefers passages that speak of both ends.
    """
    options = options or ConceptPairOptions()
    for relation, weight in options.relations.items():
        if weight < 0:
            raise ConfigError(f"the weight of {relation!r} is {weight}; 0 is the least, and switches it off")
    found = found or survey(material)
    spoken = _mentions(material, found, options.shortest)
    chosen = _passages_of_concepts(material, found, spoken, options)

    def all_pairs() -> Iterator[Pair]:
        yield from _direct_pairs(material, chosen, options)
        if options.edge:
            yield from _edge_pairs(material, found, spoken, chosen, options)

    yield from _distinct(all_pairs(), found, seen)


class _Mentions(NamedTuple):
    """Who speaks of what: one place for each concept and row, by concept, then ascending."""

    begin: dict[str, int]  # concept, sorted by id: the first place of its own
    end: dict[str, int]
    rows: Integers
    defines: Mask
    others: Integers  # concepts that the row speaks of

    def of(self, concept: str) -> slice:
        return slice(self.begin[concept], self.end[concept])


class _Chosen(NamedTuple):
    row: int
    reason: str


def _mentions(material: Material, found: Survey, shortest: int) -> _Mentions:
    """The edges from passages to concepts, without those to what only a proof names: no encoder sees a proof."""
    graph, size = material.graph, max(len(material.allowed), 1)
    nodes = {node: number for number, node in enumerate(graph.nodes) if node in material.concepts}
    is_concept = np.zeros(len(graph.nodes), bool)
    is_concept[list(nodes.values())] = True
    kinds = [number for number, name in enumerate(graph.relations) if name in ("mentions", "defines")]
    sources = np.repeat(material.node_rows, np.diff(graph.indptr))
    edges = np.flatnonzero((sources >= 0) & np.isin(graph.relation, kinds) & is_concept[graph.indices])
    defining = np.array([name == "defines" for name in graph.relations] or [False])[graph.relation[edges]]
    keys, inverse = np.unique(graph.indices[edges] * size + sources[edges], return_inverse=True)
    defines = np.zeros(len(keys), bool)
    defines[inverse[defining]] = True
    forms = {number: _forms(material.concepts[node]) for node, number in nodes.items()}
    kept = (found.lengths[keys % size] >= shortest) & ~_only_in_proofs(material, keys // size, keys % size, forms)
    kept |= defines & (found.lengths[keys % size] >= shortest)
    keys, defines = keys[kept], defines[kept]
    rows = keys % size
    edge = {node: np.searchsorted(keys, (nodes[node] * size, (nodes[node] + 1) * size)) for node in sorted(nodes)}
    return _Mentions(
        {node: int(begin) for node, (begin, _) in edge.items()},
        {node: int(end) for node, (_, end) in edge.items()},
        rows,
        defines,
        np.bincount(rows, minlength=size)[rows],
    )


def _only_in_proofs(material: Material, concepts: Integers, rows: Integers, forms: Mapping[int, list[str]]) -> Mask:
    """Which concepts stand in the proof of a row, but neither in its title nor in its text."""
    only = np.zeros(len(rows), bool)
    order = np.argsort(rows, kind="stable")
    unique, starts = np.unique(rows[order], return_index=True)
    ends = [*starts[1:].tolist(), len(rows)]
    for start in range(0, len(unique), _BATCH):
        part = slice(start, start + _BATCH)
        for passage, begin, end in zip(
            material.passages(unique[part].tolist()), starts[part].tolist(), ends[part], strict=True
        ):
            if passage.proof:
                text, proof = _stems(_whole(passage)), _stems(passage.proof)
                for place in order[begin:end].tolist():
                    own = forms[int(concepts[place])]
                    only[place] = not _named_in(text, own) and _named_in(proof, own)
    return only


def _passages_of_concepts(
    material: Material, found: Survey, spoken: _Mentions, options: ConceptPairOptions
) -> dict[str, tuple[_Chosen, ...]]:
    """By concept, sorted by id, the passages to pair it with, best first."""
    chosen: dict[str, tuple[_Chosen, ...]] = {}
    for identity in spoken.begin:
        own = spoken.of(identity)
        rows, defines = spoken.rows[own], spoken.defines[own]
        forms = _forms(material.concepts[identity])
        titled = np.array([_named_in(found.titles.get(row, ""), forms) for row in rows.tolist()], bool)
        lots = _lots(options.seed, found.names[rows], np.full(len(rows), _hash(identity), np.uint64))
        costs = found.lengths[rows] * spoken.others[own]
        best = np.lexsort((lots, costs, found.prose[rows], ~titled, ~defines))[: options.passages_per_concept]
        chosen[identity] = tuple(
            _Chosen(
                int(rows[place]),
                "defined here" if defines[place] else "in its title" if titled[place] else "mentioned",
            )
            for place in best.tolist()
        )
    return chosen


def _stems(text: str) -> str:
    """The beginnings of all words, so that a plural or another ending does not matter."""
    return "".join(f" {word[:5].rstrip('s')}" for word in _words(text))


def _forms(concept: Concept) -> list[str]:
    return [form for name in (concept.name, *concept.aliases) if (form := _stems(name))]


def _named_in(stems: str, forms: Collection[str]) -> bool:
    return any(form in stems for form in forms)


def _direct_pairs(
    material: Material, chosen: Mapping[str, tuple[_Chosen, ...]], options: ConceptPairOptions
) -> Iterator[Pair]:
    identities = list(chosen)
    for start in range(0, len(identities), _BATCH):
        batch = identities[start : start + _BATCH]
        described = [one for one in batch if options.description and len(_pieces(material.concepts[one].description))]
        rows = sorted({passage.row for one in described for passage in chosen[one]})
        pieces = dict(zip(rows, map(_pieces, material.texts(rows)), strict=True))
        for identity in batch:
            concept = material.concepts[identity]
            if options.name and concept.name:
                for row, reason in chosen[identity]:
                    yield Pair(concept.name, row, "concepts", "name", f"{identity} {reason}", options.name)
            if identity not in described:
                continue
            own = _pieces(concept.description)
            for row, reason in chosen[identity]:
                if options.own_passage or len(own & pieces[row]) < _CUT * len(own):
                    why = f"{identity} {reason}"
                    anchor = re.sub(r"^\(\w+\)\s*", "", concept.description)  # `(2) We say that …`
                    yield Pair(anchor, row, "concepts", "description", why, options.description)


def _pieces(text: str) -> set[tuple[str, str]]:
    """Neighbouring words outside formulas, which a description may write in another way than its passage."""
    words = re.findall(r"[^\W\d_]{2,}", re.sub(r"\$[^$]*\$", " ", text).casefold())
    return set(itertools.pairwise(words))


def _edge_pairs(
    material: Material,
    found: Survey,
    spoken: _Mentions,
    chosen: Mapping[str, tuple[_Chosen, ...]],
    options: ConceptPairOptions,
) -> Iterator[Pair]:
    """Each edge between concepts draws its own few passages, so that a hub does not offer the same ones to all.

    First come passages on the far end that speak of the near end too, then those that define the far end, then
    the rest of those chosen for it. What is paired with the name of the near end already is not drawn again.
    """
    graph = material.graph
    is_concept = np.array([node in chosen for node in graph.nodes], bool)
    sources = graph.sources()
    edges = sorted(
        (graph.nodes[sources[edge]], graph.relations[graph.relation[edge]], graph.nodes[graph.indices[edge]])
        for edge in np.flatnonzero(is_concept[sources] & is_concept[graph.indices]).tolist()
    )
    for source, relation, target in edges:
        weight = options.edge * options.relations.get(relation, 1.0)
        if not weight or source == target:
            continue
        for near, far, arrow in ((source, target, "to"), (target, source, "from")):
            name = material.concepts[near].name
            both = np.intersect1d(spoken.rows[spoken.of(near)], spoken.rows[spoken.of(far)])
            groups = dict.fromkeys(both.tolist(), "speaks of both")
            for row, reason in chosen[far]:
                groups.setdefault(row, reason)
            if options.name:
                groups = {row: groups[row] for row in groups.keys() - {row for row, _ in chosen[near]}}
            rows = np.array(list(groups), np.int64)
            edge_hash = np.full(len(rows), _hash("\0".join((source, relation, target, arrow))), np.uint64)
            rank = np.array([_EDGE_ORDER.index(groups[row]) for row in rows.tolist()], np.int64)
            drawn = np.lexsort((_lots(options.seed, found.names[rows], edge_hash), rank))
            for row in rows[drawn][: options.passages_per_edge].tolist() if name else ():
                yield Pair(name, row, "edges", relation, f"edge {arrow} {far}, {groups[row]}", weight)


# ---------------------------------------------------------------- structure


def structure_pairs(
    material: Material,
    options: StructurePairOptions | None = None,
    *,
    found: Survey | None = None,
    seen: set[int] | None = None,
) -> Iterator[Pair]:
    """References, locations, section titles, names of statements, titles, proofs.

    A proof is the anchor and its statement the positive, since a positive is a row. The positives of `note` and
    `title` are meant without their title: see `positive_text`.
    """
    options = options or StructurePairOptions()
    found = found or survey(material)

    def all_pairs() -> Iterator[Pair]:
        for relation in ("refers_to", "proof_uses", "related_to"):
            weight: float = getattr(options, relation)
            if weight and relation in found.links:
                anchors, targets = found.links[relation]
                if not options.chunks:
                    statements = ~found.prose[anchors] & ~found.prose[targets]
                    anchors, targets = anchors[statements], targets[statements]
                for anchor, target in _capped(found, anchors, targets, options.most_per_target, options.seed):
                    yield Pair(anchor, target, "structure", relation, "a link of the author", weight)
        if options.location:
            yield from _location_pairs(material, found, options)
        if options.section:
            yield from _section_pairs(material, found, options)
        if options.note or options.title or options.proof:
            yield from _own_pairs(material, found, options)

    yield from _distinct(all_pairs(), found, seen)


def _capped(found: Survey, anchors: Integers, targets: Integers, most: int, seed: int) -> Iterator[tuple[int, int]]:
    """Distinct links of a row to another, in the order of the ids; of those to one target, `most` are drawn."""
    size = len(found.place)
    keys = np.unique((anchors * size + targets)[anchors != targets])
    anchors, targets = keys // max(size, 1), keys % max(size, 1)
    lots = _lots(seed, found.names[anchors], found.names[targets])
    by_target = np.lexsort((lots, targets))
    first = np.searchsorted(targets[by_target], targets[by_target])  # where its group begins
    kept = by_target[np.arange(len(by_target)) - first < most]
    for edge in kept[np.lexsort((found.place[targets[kept]], found.place[anchors[kept]]))].tolist():
        yield int(anchors[edge]), int(targets[edge])


def _location_pairs(material: Material, found: Survey, options: StructurePairOptions) -> Iterator[Pair]:
    """By the edges of the graph, so that predicted links count as well."""
    graph = material.graph
    if "reports_about" not in graph.relations:
        return
    sources = graph.sources()
    edges = np.flatnonzero(graph.relation == list(graph.relations).index("reports_about"))
    rows, targets = material.node_rows[sources[edges]], graph.indices[edges]
    rows, targets = rows[rows >= 0], targets[rows >= 0]
    for node in sorted(np.unique(targets).tolist(), key=lambda one: graph.nodes[one]):
        location = material.documents.get(graph.nodes[node])
        title = location.title.strip() if location else ""
        if len(title) < 3:
            continue
        own = rows[targets == node]
        drawn = own[np.argsort(_lots(options.seed, found.names[own]), kind="stable")][: options.most_per_location]
        for row in drawn[np.argsort(found.place[drawn])].tolist():
            yield Pair(title, row, "structure", "location", f"reports about {graph.nodes[node]}", options.location)


def _section_pairs(material: Material, found: Survey, options: StructurePairOptions) -> Iterator[Pair]:
    titles = {(document, " ".join(_words(_last(section)))) for document, section in found.sections}
    spread = Counter(title for _, title in titles)
    most = max(_FEW_DOCUMENTS, options.generic_share * len(material.documents))
    for document, section in sorted(found.sections):
        title = _last(section)
        if len(title) < 2 or generic_title(title) or spread[" ".join(_words(title))] > most:
            continue
        rows = np.array(found.sections[document, section], np.int64)
        rows = rows[options.chunks | ~found.prose[rows]]
        drawn = rows[np.argsort(_lots(options.seed, found.names[rows]), kind="stable")][: options.most_per_section]
        if re.fullmatch(r"(?:The|Der|Die|Das) \w+", title):  # `The algebra`: of what, only the document tells
            title = f"{material.documents[document].title}: {title}".removeprefix(": ")
        for row in drawn[np.argsort(found.place[drawn])].tolist():
            yield Pair(title, row, "structure", "section", f"a section of {document}", options.section)


def _last(section: str) -> str:
    """The innermost of nested headings, without numbers (`2.1 Flat modules, II`)."""
    return _NUMBER.sub("", re.sub(r",\s+[IVX]+$", "", section.rsplit(" / ", 1)[-1].strip()))


def _own_pairs(material: Material, found: Survey, options: StructurePairOptions) -> Iterator[Pair]:
    """Pairs of a passage with what belongs to itself: its name, its title, its proof."""
    for start in range(0, len(found.order), _BATCH):
        rows = found.order[start : start + _BATCH].tolist()
        for row, passage in zip(rows, material.passages(rows), strict=True):
            document = material.documents.get(passage.document)
            document_title = document.title if document is not None else ""
            statement = not found.prose[row] and passage.kind not in _TITLED
            if options.note and statement and passage.title:
                alone = found.notes[" ".join(_words(passage.title)), passage.kind] == 1
                name, reason = _name(passage, document_title, alone)
                if name:
                    yield Pair(name, row, "structure", "note", reason, options.note)
            if options.title and not statement:
                title = passage.title
                if not title and (passage.kind == "abstract" or found.heads.get(passage.document) == row):
                    title = _NUMBER.sub("", document_title)
                if title and not generic_title(title):
                    yield Pair(title, row, "structure", "title", "its title", options.title)
            if options.proof and len(passage.proof) >= options.shortest_proof and not _OMITTED.match(passage.proof):
                yield Pair(passage.proof, row, "structure", "proof", "its proof", options.proof)


def _name(passage: Passage, document_title: str, alone: bool) -> tuple[str, str]:
    """How somebody would ask for a statement by its note, and why so; "" where nobody could.

    A note that is only a person (`Cauchy`, `Gordon, 1961`) or one noun (`Inversion`) becomes `Cauchy theorem`
    if no other statement has it; one in small letters (`analytic form`) needs the document's title.
    """
    title = _YEAR.sub("", passage.title).strip(" ,;:()[].")
    words = re.findall(r"[^\s,;&]+", title)
    if generic_title(title) or not words:
        return "", ""
    if title[0].islower():
        return (f"{document_title}: {title}", "its note and document") if document_title else ("", "")
    plain = all(re.fullmatch(r"[^\W\d_]+\.?", word) for word in words)
    capital = all(word[0].isupper() or word in _JOINING for word in words)
    if not (plain and capital) or any(word.casefold() in _RESULTS for word in words):
        return title, "its note"
    if not alone:
        return "", ""
    people = "-".join(re.split(r"\s*(?:,|;|&|\band\b|\bund\b)\s*", title))
    return f"{people} {passage.kind.replace('-', ' ')}", "its note and kind"


# ---------------------------------------------------------------- citations


def citation_pairs(
    material: Material,
    options: CitationPairOptions | None = None,
    *,
    found: Survey | None = None,
    seen: set[int] | None = None,
) -> Iterator[Pair]:
    """Who cites, with what is cited. A document speaks through its abstract; one without any is left out."""
    options = options or CitationPairOptions()
    found = found or survey(material)
    if options.cites:
        anchors, targets = linked_rows(material, found, ("cites",))
        pairs = (
            Pair(anchor, target, "citations", "cites", "a citation", options.cites)
            for anchor, target in _capped(found, anchors, targets, options.most_per_target, options.seed)
            if material.document_numbers[anchor] != material.document_numbers[target]
        )
        yield from _distinct(pairs, found, seen)


def linked_rows(material: Material, found: Survey, relations: Collection[str]) -> tuple[Integers, Integers]:
    """Rows and the rows they lead to by links or edges of some relations, documents by what speaks for them."""
    graph = material.graph
    wanted = [number for number, name in enumerate(graph.relations) if name in relations]
    sources = graph.sources()
    edges = np.flatnonzero(np.isin(graph.relation, wanted))
    rows = np.array(material.node_rows)
    for node in np.unique(np.concatenate((sources[edges], graph.indices[edges]))).tolist():
        if rows[node] < 0:
            rows[node] = found.heads.get(graph.nodes[node], -1)
    ends = [(rows[sources[edges]], rows[graph.indices[edges]])]
    ends += [found.links[relation] for relation in sorted(relations) if relation in found.links]
    anchors, targets = (np.concatenate([end[side] for end in ends]) for side in (0, 1))
    known = (anchors >= 0) & (targets >= 0) & (anchors != targets)
    return anchors[known], targets[known]


# ---------------------------------------------------------------- titles that say nothing


def generic_title(title: str) -> bool:
    """Whether a title could stand over anything: `Introduction`, `Proof of the main theorem`, `2.3`."""
    words = [word for word in re.findall(r"[^\W\d_]{2,}", _FORMULA.sub(" ", title).casefold()) if word not in _SMALL]
    return not _FORMULA.search(title) and all(word in GENERIC_TITLE_WORDS or _ROMAN.fullmatch(word) for word in words)


_PROSE = frozenset(
    "chunk abstract situation notation notations convention conventions set-up setup setting assumption "
    "assumptions".split()  # what only says what letters stand for answers no question
)
_TITLED = frozenset({"passage", "log", "text"})  # kinds whose title is a headline, not the name of a statement
_ARTICLE = 3  # passages; a document of so few is an article, which its opening speaks for
_FEW_DOCUMENTS = 8
_FORMULA = re.compile(r"\$[^$]*\$")
_NUMBER = re.compile(r"^(?:\d+\.)*\d+\.?\s+(?=\D)")
_ROMAN = re.compile(r"[ivxl]+")
_YEAR = re.compile(r"[\s,;(\[]*\b(?:1[5-9]|20)\d\d[a-z]?\b[)\]]?")
_OMITTED = re.compile(r"(?:proof\s+)?(?:is\s+)?omitted|see\b|this is (?:clear|immediate|trivial|formal)", re.IGNORECASE)
_JOINING = frozenset("and und & et al al. de van von der the of".split())
_RESULTS = frozenset(
    "theorem lemma proposition corollary formula identity identities inequality conjecture criterion principle law "
    "rule property nullstellensatz satz method algorithm construction test bound equation sequence paradox".split()
)
_SMALL = STOP_WORDS | GERMAN_LINKING_WORDS | {"our", "some", "see", "cf"}
