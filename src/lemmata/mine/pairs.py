"""Training pairs from the concepts, the structure and the citations of a corpus.

A miner sees one TrainingView, so a pair cannot hold a row of another part. The same view and options give the
same pairs in the same order: random choices are hashes of ids, and ids decide the order.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import ConfigError, suggest
from lemmata.core.types import Concept, Integers, Mask, Pair, Passage
from lemmata.core.words import GENERIC_TITLE_WORDS, GERMAN_LINKING_WORDS, STOP_WORDS
from lemmata.mine.adjacency import edges_of
from lemmata.mine.material import TrainingView

Hashes = npt.NDArray[np.uint64]
Chosen = Mapping[int, str]  # row: why it was chosen, best first
Mentions = Mapping[str, Mapping[int, bool]]  # concept: rows that mention it, and whether they define it
WEIGHTS = {
    "name": 1.0,  # name of a concept -> passage that mentions it
    "description": 1.0,  # description of a concept -> passage that mentions it
    "edge": 1.0,  # name of one end of an edge between concepts -> passage that mentions the other end
    "refers_to": 1.0,  # statement -> statement that it names
    "proof_uses": 1.0,  # statement -> statement that its proof names
    "related_to": 1.0,  # log -> log that it follows up
    "location": 1.0,  # title of a functional location -> log that reports about it
    "section": 1.0,  # title of a section -> statement in it
    "note": 1.0,  # name of a statement -> the statement
    "title": 1.0,  # title -> abstract, or passage with a title of its own
    "proof": 0.0,  # proof -> its statement; off, because it lowered retrieval where it was measured
    "cites": 1.0,  # passage or abstract -> abstract of what it cites
}
_BATCH = 500  # concepts whose passages are read at once
_SHORTEST = 50  # characters of a positive for a concept; shorter ones say little
_SHORTEST_PROOF = 200  # characters
_MOST_PER_EDGE = 5  # in each direction
_MOST_PER_LOCATION = 20
_MOST_PER_SECTION = 10
_MOST_PER_TARGET = 50  # anchors: a passage that everything refers to says little about them
_GENERIC_SHARE = 0.05  # of the documents; a section title that more of them have (and more than 8) is no anchor
_SEED = "in a document that mentions it"
_EDGE_ORDER = ("speaks of both", "defined here", "in its title", "mentioned", _SEED)
_CUT = 0.7  # share of a description's word pairs that a passage has if the description was cut from it


@dataclass(frozen=True, slots=True)
class PairOptions:
    """Which pairs are mined, and how many."""

    CHOICES: ClassVar = {"weights": tuple(WEIGHTS), "protocol": ("passage", "seed")}
    SMALLEST: ClassVar = {"passages_per_concept": 1}
    weights: Mapping[str, float] = field(
        default_factory=WEIGHTS.copy
    )  # per source; those not named keep theirs; 0: off
    passages_per_concept: int = 20  # at most
    protocol: str = "passage"  # those that mention a concept; seed: any of the documents that do, as Math-Embed

    def weight(self, source: str) -> float:
        return float(self.weights.get(source, WEIGHTS[source]))


# ---------------------------------------------------------------- one reading of the view


class PassageTable(NamedTuple):
    """What miners look up again and again; arrays are over all rows and empty for those of other parts."""

    order: Integers  # rows of the view, by id
    place: Integers  # (n rows,) position of a row in `order`, else -1
    names: Hashes  # (n rows,) of ids
    whole: Hashes  # (n rows,) of title and text
    bare: Hashes  # (n rows,) of the text alone
    lengths: Integers  # (n rows,) characters of title and text
    prose: Mask  # (n rows,) chunks, abstracts and set-ups: no statements
    titles: dict[int, str]  # row: stems of the title
    notes: Counter[tuple[str, str]]  # words of a title and kind: number of passages that have both
    sections: dict[tuple[str, str], list[int]]  # document and section: rows
    heads: dict[str, int]  # document: the row that represents it, which is the document itself or its abstract
    links: dict[str, tuple[Integers, Integers]]  # relation: rows, and rows that they lead to


def read_table(view: TrainingView) -> PassageTable:
    """Read all passages of a view once."""
    size = len(view.allowed)
    order = np.array([row for _, row in sorted(view.row_of.items())], np.int64)
    place = np.full(size, -1, np.int64)
    place[order] = np.arange(len(order))
    names, whole, bare = (np.zeros(size, np.uint64) for _ in range(3))
    lengths = np.zeros(size, np.int64)
    prose = np.zeros(size, bool)
    titles: dict[int, str] = {}
    notes: Counter[tuple[str, str]] = Counter()
    sections: dict[tuple[str, str], list[int]] = {}
    sizes = np.bincount(view.document_numbers) if size else view.document_numbers
    openings: dict[str, tuple[bool, int, str, int]] = {}  # the passage of each document that represents it best
    documents = sorted(view.documents)
    number = {document: place for place, document in enumerate(documents)}
    links: dict[str, tuple[array[int], array[int]]] = {}  # a target is a row, or -1 - number of a document
    for row, passage in view.all_passages():
        text = passage.content
        names[row], whole[row], bare[row] = _hash(passage.id), _hash(text), _hash(passage.text)
        lengths[row] = len(text)
        prose[row] = passage.kind in _PROSE
        if passage.title:
            titles[row] = _stems(passage.title)
            notes[_plain(passage.title), passage.kind] += 1
        if passage.section and passage.kind != "abstract":
            sections.setdefault((passage.document, passage.section), []).append(row)
        opening = (passage.kind != "abstract", passage.first_line, passage.id, row)
        openings[passage.document] = min(opening, openings.get(passage.document, opening))
        for link in passage.links:
            if link.target is not None:
                anchors, targets = links.setdefault(link.relation, (array("q"), array("q")))
                anchors.append(row)
                targets.append(view.row_of.get(link.target, -1 - number.get(link.target, 0)))
    heads = {
        document: row
        for document, (no_abstract, _, _, row) in openings.items()
        if not no_abstract or sizes[view.document_numbers[row]] <= _ARTICLE
    }
    heads |= {document: view.row_of[document] for document in openings if document in view.row_of}
    head_of = np.array([heads.get(document, -1) for document in documents] or [-1], np.int64)
    resolved: dict[str, tuple[Integers, Integers]] = {}
    for relation, ends in links.items():
        sources, leading = (np.array(end, np.int64) for end in ends)
        leading = np.where(leading < 0, head_of[np.maximum(-1 - leading, 0)], leading)
        resolved[relation] = (sources[leading >= 0], leading[leading >= 0])
    return PassageTable(order, place, names, whole, bare, lengths, prose, titles, notes, sections, heads, resolved)


def _add_answers(table: PassageTable, view: TrainingView) -> PassageTable:
    """The survey with the links to answers, and with what the miners need to know about the answers.

    Titles, notes, sections, heads and the order stay those of the part: a pair whose positive is an answer still has
    a row of the part as its anchor.
    """
    if not view.answers.any():
        return table
    answers = read_table(replace(view, rows=np.flatnonzero(view.answers), row_of=view.answer_of))
    heads = {**answers.heads, **dict.fromkeys(table.heads, -1), **view.answer_of}
    added: dict[str, list[tuple[int, int]]] = {}
    for row, relation, target in view.answer_links():
        if (answer := heads.get(target, -1)) >= 0:
            added.setdefault(relation, []).append((row, answer))
    links = dict(table.links)
    none = np.zeros(0, np.int64)
    for relation, pairs in added.items():
        ends = zip(links.get(relation, (none, none)), np.array(pairs, np.int64).T, strict=True)
        anchors, targets = map(np.concatenate, ends)
        links[relation] = (anchors, targets)
    return table._replace(
        place=np.where(view.answers, len(table.order) + answers.place, table.place),
        names=np.where(view.answers, answers.names, table.names),
        whole=np.where(view.answers, answers.whole, table.whole),
        bare=np.where(view.answers, answers.bare, table.bare),
        prose=np.where(view.answers, answers.prose, table.prose),
        links=links,
    )


def positive_text(pair: Pair, passage: Passage, indexed: str | None = None) -> str:
    """The text of a pair's positive in training, as it is `indexed`: without what the anchor repeats.

    That is its title where the anchor is that title, and the descriptions of locations where it is one of them.
    Otherwise the model would only learn to find a string again.
    """
    if _without_title(pair):
        return passage.text
    describes = pair.source == "structure" and pair.relation == "location"
    return passage.content if indexed is None or describes else indexed


def _without_title(pair: Pair) -> bool:
    return pair.source == "structure" and pair.relation in ("note", "title")


def _hash(text: str) -> int:
    """64 bits: two different texts among a million collide once in 10^8 corpora."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _random_keys(*parts: Hashes) -> Hashes:
    """A deterministic random key per id, given by hashes: the finaliser of SplitMix64, once for each part."""
    keys = np.full(len(parts[0]), _hash("seed 0"), np.uint64)
    for part in parts:
        keys = keys ^ part
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        keys = keys ^ (keys >> np.uint64(31))
    return keys


def _sample(table: PassageTable, rows: Integers, most: int) -> list[int]:
    """At most so many random rows, in the order of their ids."""
    drawn = rows[np.argsort(_random_keys(table.names[rows]), kind="stable")][:most]
    return [int(row) for row in drawn[np.argsort(table.place[drawn])]]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _plain(title: str) -> str:
    return " ".join(_words(title))


# ---------------------------------------------------------------- all sources


def mine_pairs(view: TrainingView, options: PairOptions | None = None) -> Iterator[Pair]:
    """Pairs from all sources, each pair of texts once, from the first source that yields it.

    Where the split allows answers, links lead to them as well.
    """
    options = options or PairOptions()
    for source, weight in options.weights.items():
        if source not in WEIGHTS:
            raise ConfigError(f"weights: there are no pairs from {source!r}{suggest(source, list(WEIGHTS))}")
        if weight < 0:
            raise ConfigError(f"weights: {source} = {weight} is below 0, which switches it off")
    table = _add_answers(read_table(view), view)
    seen: set[int] = set()
    sources = (_concept_pairs, _structure_pairs, _citation_pairs)
    for pair in itertools.chain.from_iterable(miner(view, table, options) for miner in sources):
        anchor = _hash(pair.anchor) if isinstance(pair.anchor, str) else int(table.whole[pair.anchor])
        positive = int((table.bare if _without_title(pair) else table.whole)[pair.positive])
        key = hash((anchor, positive))  # of integers: the same in every process
        if anchor not in (positive, int(table.bare[pair.positive])) and key not in seen:
            seen.add(key)
            yield pair


# ---------------------------------------------------------------- concepts


def _concept_pairs(view: TrainingView, table: PassageTable, options: PairOptions) -> Iterator[Pair]:
    """Name, description and edge pairs (Math-Embed).

    For each concept the best `passages_per_concept` passages are taken: those that define it, then those that
    name it in their title, then statements, then short ones that mention few other concepts; never one that
    names it only in its proof. They are paired with its name and with its description, but not with a
    description that was cut from the same passage: the model would only learn to compare strings. An edge
    prefers passages that mention both ends. By the protocol `seed`, passages are drawn from all of the documents that
    mention a concept instead.
    """
    mentions = _mentions(view, table)
    if options.protocol == "seed":
        chosen = _seed_passages(view, table, mentions, options)
        mentions = {concept: {} for concept in mentions}
    else:
        chosen = _passages_of_concepts(view, table, mentions, options)
    yield from _direct_pairs(view, chosen, options)
    if options.weight("edge"):
        yield from _edge_pairs(view, table, mentions, chosen, options)


def _mentions(view: TrainingView, table: PassageTable) -> Mentions:
    """The edges from passages to concepts, except to concepts that only a proof names: no encoder sees a proof."""
    graph = view.graph
    rows, defines = view.node_rows[graph.sources()], edges_of(graph, ("defines",))
    mentions: dict[str, dict[int, bool]] = {node: {} for node in sorted(view.concepts.keys() & set(graph.nodes))}
    concepts_of: dict[int, list[str]] = {}
    for edge in np.flatnonzero((rows >= 0) & edges_of(graph, ("mentions", "defines"))).tolist():
        row, concept = int(rows[edge]), graph.nodes[graph.indices[edge]]
        if concept in mentions and table.lengths[row] >= _SHORTEST:
            mentions[concept][row] = mentions[concept].get(row, False) or bool(defines[edge])
            concepts_of.setdefault(row, []).append(concept)
    forms = {concept: _forms(view.concepts[concept]) for concept in mentions}
    for row, passage in view.read(sorted(concepts_of)):
        text, proof = (_stems(passage.content), _stems(passage.proof)) if passage.proof else ("", "")
        for concept in dict.fromkeys(concepts_of[row]) if proof else ():
            only_in_proof = not _named_in(text, forms[concept]) and _named_in(proof, forms[concept])
            if only_in_proof and not mentions[concept][row]:
                del mentions[concept][row]
    return mentions


def _seed_passages(
    view: TrainingView, table: PassageTable, mentions: Mentions, options: PairOptions
) -> dict[str, Chosen]:
    """By concept, sorted by id, passages drawn from all of the documents that mention it."""
    long = table.order[table.lengths[table.order] >= _SHORTEST]
    numbers = view.document_numbers
    chosen: dict[str, Chosen] = {}
    for identity, defined_in in mentions.items():
        rows = long[np.isin(numbers[long], numbers[list(defined_in)])]
        keys = _random_keys(table.names[rows], np.full(len(rows), _hash(identity), np.uint64))
        drawn = rows[np.argsort(keys, kind="stable")][: options.passages_per_concept]
        chosen[identity] = dict.fromkeys(drawn.tolist(), _SEED)
    return chosen


def _passages_of_concepts(
    view: TrainingView, table: PassageTable, mentions: Mentions, options: PairOptions
) -> dict[str, Chosen]:
    """By concept, sorted by id, the passages to pair it with."""
    concepts_in = Counter(row for rows in mentions.values() for row in rows)
    chosen: dict[str, Chosen] = {}
    for identity, defined_in in mentions.items():
        rows = np.array(sorted(defined_in), np.int64)
        defines = np.array([defined_in[row] for row in rows.tolist()], bool)
        forms = _forms(view.concepts[identity])
        in_title = np.array([_named_in(table.titles.get(row, ""), forms) for row in rows.tolist()], bool)
        keys = _random_keys(table.names[rows], np.full(len(rows), _hash(identity), np.uint64))
        costs = table.lengths[rows] * np.array([concepts_in[row] for row in rows.tolist()], np.int64)
        best = np.lexsort((keys, costs, table.prose[rows], ~in_title, ~defines))[: options.passages_per_concept]
        chosen[identity] = {
            int(rows[place]): "defined here" if defines[place] else "in its title" if in_title[place] else "mentioned"
            for place in best.tolist()
        }
    return chosen


def _stems(text: str) -> str:
    """The beginnings of all words, so that a plural or another ending makes no difference."""
    return "".join(f" {word[:5].rstrip('s')}" for word in _words(text))


def _forms(concept: Concept) -> list[str]:
    return [form for name in (concept.name, *concept.aliases) if (form := _stems(name))]


def _named_in(stems: str, forms: Collection[str]) -> bool:
    return any(form in stems for form in forms)


def _direct_pairs(view: TrainingView, chosen: Mapping[str, Chosen], options: PairOptions) -> Iterator[Pair]:
    """Name and description pairs."""
    name_weight, description_weight = options.weight("name"), options.weight("description")
    identities = iter(chosen)
    while batch := list(itertools.islice(identities, _BATCH)):
        pieces = {identity: _word_pairs(view.concepts[identity].description) for identity in batch}
        described = [identity for identity in batch if description_weight and pieces[identity]]
        rows = sorted({row for identity in described for row in chosen[identity]})
        pieces_of = dict(zip(rows, map(_word_pairs, view.texts(rows)), strict=True))
        for identity in batch:
            concept = view.concepts[identity]
            reasons = {row: f"{identity} {reason}" for row, reason in chosen[identity].items()}
            for row, reason in reasons.items() if name_weight and concept.name else ():
                yield Pair(concept.name, row, "concepts", "name", reason, name_weight)
            anchor = re.sub(r"^\(\w+\)\s*", "", concept.description)  # `(2) We say that …`
            for row, reason in reasons.items() if identity in described else ():
                if len(pieces[identity] & pieces_of[row]) < _CUT * len(pieces[identity]):
                    yield Pair(anchor, row, "concepts", "description", reason, description_weight)


def _word_pairs(text: str) -> set[tuple[str, str]]:
    """Pairs of adjacent words outside formulas, which a description may write in another way than its passage."""
    words = re.findall(r"[^\W\d_]{2,}", re.sub(r"\$[^$]*\$", " ", text).casefold())
    return set(itertools.pairwise(words))


def _edge_pairs(
    view: TrainingView, table: PassageTable, mentions: Mentions, chosen: Mapping[str, Chosen], options: PairOptions
) -> Iterator[Pair]:
    """Each edge between concepts draws its own few passages, so that a hub does not offer the same ones to all.

    First come passages on the far end that mention the near end too, then those that define the far end, then
    the rest of those chosen for it. Passages paired with the name of the near end already are not drawn again.
    """
    graph, weight = view.graph, options.weight("edge")
    is_concept = np.array([node in chosen for node in graph.nodes], bool)
    sources = graph.sources()
    edges = sorted(
        (graph.nodes[sources[edge]], graph.relations[graph.relation[edge]], graph.nodes[graph.indices[edge]])
        for edge in np.flatnonzero(is_concept[sources] & is_concept[graph.indices]).tolist()
    )
    for source, relation, target in edges:
        for near, far, arrow in ((source, target, "to"), (target, source, "from")) if source != target else ():
            name = view.concepts[near].name
            both = mentions[near].keys() & mentions[far].keys()
            reasons = dict(chosen[far]) | dict.fromkeys(both, "speaks of both")
            if options.weight("name"):
                reasons = {row: reason for row, reason in reasons.items() if row not in chosen[near]}
            rows = np.array(list(reasons), np.int64)
            edge_hash = np.full(len(rows), _hash("\0".join((source, relation, target, arrow))), np.uint64)
            rank = np.array([_EDGE_ORDER.index(reason) for reason in reasons.values()], np.int64)
            order = np.lexsort((_random_keys(table.names[rows], edge_hash), rank))
            for row in rows[order][:_MOST_PER_EDGE].tolist() if name else ():
                yield Pair(name, row, "edges", relation, f"edge {arrow} {far}, {reasons[row]}", weight)


# ---------------------------------------------------------------- structure


def _structure_pairs(view: TrainingView, table: PassageTable, options: PairOptions) -> Iterator[Pair]:
    """References, locations, section titles, names of statements, titles, proofs.

    A proof is the anchor and its statement the positive, because a positive is a row. The positives of `note`
    and `title` are without their title: see `positive_text`.
    """
    for relation in ("refers_to", "proof_uses", "related_to"):
        if (weight := options.weight(relation)) and relation in table.links:
            anchors, targets = table.links[relation]
            statements = ~table.prose[anchors] & ~table.prose[targets]
            for anchor, target in _capped(table, anchors[statements], targets[statements]):
                yield Pair(anchor, target, "structure", relation, "a link of the author", weight)
    yield from _location_pairs(view, table, options)
    yield from _section_pairs(view, table, options)
    yield from _own_pairs(view, table, options)


def _capped(table: PassageTable, anchors: Integers, targets: Integers) -> Iterator[tuple[int, int]]:
    """Distinct links from a row to another, in the order of the ids; at most `_MOST_PER_TARGET` to one target."""
    size = max(len(table.place), 1)
    keys = np.unique((anchors * size + targets)[anchors != targets])
    anchors, targets = keys // size, keys % size
    by_target = np.lexsort((_random_keys(table.names[anchors], table.names[targets]), targets))
    first = np.searchsorted(targets[by_target], targets[by_target])  # where the links to the same target begin
    drawn = by_target[np.arange(len(by_target)) - first < _MOST_PER_TARGET]
    for link in drawn[np.lexsort((table.place[targets[drawn]], table.place[anchors[drawn]]))].tolist():
        yield int(anchors[link]), int(targets[link])


def _location_pairs(view: TrainingView, table: PassageTable, options: PairOptions) -> Iterator[Pair]:
    """From the edges of the graph, so that predicted links count as well."""
    graph, weight = view.graph, options.weight("location")
    edges = np.flatnonzero(edges_of(graph, ("reports_about",)) & bool(weight))
    rows, targets = view.node_rows[graph.sources()[edges]], graph.indices[edges]
    rows, targets = rows[rows >= 0], targets[rows >= 0]
    for node in sorted(np.unique(targets).tolist(), key=lambda number: graph.nodes[number]):
        location = view.documents.get(graph.nodes[node])
        title = location.title.strip() if location else ""
        for row in _sample(table, rows[targets == node], _MOST_PER_LOCATION) if len(title) > 2 else ():
            yield Pair(title, row, "structure", "location", f"reports about {graph.nodes[node]}", weight)


def _section_pairs(view: TrainingView, table: PassageTable, options: PairOptions) -> Iterator[Pair]:
    weight = options.weight("section")
    titles = {(document, _plain(_heading(section))) for document, section in table.sections}
    documents_with = Counter(title for _, title in titles)
    most = max(_FEW_DOCUMENTS, _GENERIC_SHARE * len(view.documents))
    for document, section in sorted(table.sections) if weight else ():
        title = _heading(section)
        if len(title) < 2 or generic_title(title) or documents_with[_plain(title)] > most:
            continue
        rows = np.array(table.sections[document, section], np.int64)
        if re.fullmatch(r"(?:The|Der|Die|Das) \w+", title):  # `The algebra`: only the document says which one
            title = f"{view.documents[document].title}: {title}".removeprefix(": ")
        for row in _sample(table, rows[~table.prose[rows]], _MOST_PER_SECTION):
            yield Pair(title, row, "structure", "section", f"a section of {document}", weight)


def _heading(section: str) -> str:
    """The innermost of nested headings, without numbers (`2.1 Flat modules, II`)."""
    return _NUMBER.sub("", re.sub(r",\s+[IVX]+$", "", section.rsplit(" / ", 1)[-1].strip()))


def _own_pairs(view: TrainingView, table: PassageTable, options: PairOptions) -> Iterator[Pair]:
    """Pairs of a passage with its own name, title and proof."""
    note_weight, title_weight, proof_weight = map(options.weight, ("note", "title", "proof"))
    rows = table.order.tolist() if note_weight or title_weight or proof_weight else []
    for row, passage in view.read(rows):
        document = view.documents.get(passage.document)
        document_title = document.title if document is not None else ""
        statement = not table.prose[row] and passage.kind not in _TITLED
        if note_weight and statement and passage.title:
            unique = table.notes[_plain(passage.title), passage.kind] == 1
            name, reason = _name(passage, document_title, unique)
            if name:
                yield Pair(name, row, "structure", "note", reason, note_weight)
        if title_weight and not statement:
            title = passage.title
            if not title and (passage.kind == "abstract" or table.heads.get(passage.document) == row):
                title = _NUMBER.sub("", document_title)
            if title and not generic_title(title):
                yield Pair(title, row, "structure", "title", "its title", title_weight)
        if proof_weight and len(passage.proof) >= _SHORTEST_PROOF and not _OMITTED.match(passage.proof):
            yield Pair(passage.proof, row, "structure", "proof", "its proof", proof_weight)


def _name(passage: Passage, document_title: str, unique: bool) -> tuple[str, str]:
    """How a user would name a statement by its note, and why so; "" where nobody could.

    A note that is only a person (`Cauchy`, `Gordon, 1961`) or one noun (`Inversion`) becomes `Cauchy theorem`
    if no other statement has it; one in lower case (`analytic form`) needs the title of the document.
    """
    title = _YEAR.sub("", passage.title).strip(" ,;:()[].")
    words = re.findall(r"[^\s,;&]+", title)
    if generic_title(title) or not words:
        return "", ""
    if title[0].islower():
        return (f"{document_title}: {title}", "its note and document") if document_title else ("", "")
    letters = all(re.fullmatch(r"[^\W\d_]+\.?", word) for word in words)
    capitals = all(word[0].isupper() or word in _JOINING for word in words)
    if not (letters and capitals) or any(word.casefold() in _RESULTS for word in words):
        return title, "its note"
    if not unique:
        return "", ""
    people = "-".join(re.split(r"\s*(?:,|;|&|\band\b|\bund\b)\s*", title))
    return f"{people} {passage.kind.replace('-', ' ')}", "its note and kind"


# ---------------------------------------------------------------- citations


def _citation_pairs(view: TrainingView, table: PassageTable, options: PairOptions) -> Iterator[Pair]:
    """A citing passage with what it cites. Documents are represented by their abstracts, else left out."""
    if weight := options.weight("cites"):
        for anchor, target in _capped(table, *linked_rows(view, table, ("cites",))):
            if view.document_numbers[anchor] != view.document_numbers[target]:
                yield Pair(anchor, target, "citations", "cites", "a citation", weight)


def linked_rows(view: TrainingView, table: PassageTable, relations: Collection[str]) -> tuple[Integers, Integers]:
    """Rows, and the rows they lead to by links or edges of some relations; a document is the row that represents it."""
    graph = view.graph
    sources = graph.sources()
    edges = np.flatnonzero(edges_of(graph, relations))
    rows = np.array(view.node_rows)
    for node in np.unique(np.concatenate((sources[edges], graph.indices[edges]))).tolist():
        if rows[node] < 0:
            rows[node] = table.heads.get(graph.nodes[node], -1)
    ends = [(rows[sources[edges]], rows[graph.indices[edges]])]
    ends += [table.links[relation] for relation in sorted(relations) if relation in table.links]
    anchors, targets = (np.concatenate([end[side] for end in ends]) for side in (0, 1))
    inside = (anchors >= 0) & (targets >= 0) & (anchors != targets)
    return anchors[inside], targets[inside]


# ---------------------------------------------------------------- generic titles


def generic_title(title: str) -> bool:
    """Whether a title could stand over anything: `Introduction`, `Proof of the main theorem`, `2.3`."""
    words = [word for word in re.findall(r"[^\W\d_]{2,}", _FORMULA.sub(" ", title).casefold()) if word not in _SMALL]
    return not _FORMULA.search(title) and all(word in GENERIC_TITLE_WORDS or _ROMAN.fullmatch(word) for word in words)


_PROSE = frozenset(
    "chunk abstract situation notation notations convention conventions set-up setup setting assumption "
    "assumptions".split()  # text that only introduces notation answers no question
)
_TITLED = frozenset({"passage", "log", "text"})  # kinds whose title is a headline, not the name of a statement
_ARTICLE = 3  # passages; in a document with so few, the first one represents it
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
