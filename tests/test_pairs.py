"""Pairs from concepts, structure and citations."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import MemoryCorpus

from lemmata.core.config import build
from lemmata.core.errors import ConfigError
from lemmata.core.types import Concept, Document, Edge, Graph, Link, Pair, Passage
from lemmata.corpus.split import Split
from lemmata.graph.links import build_graph
from lemmata.mine.material import TrainingView, training_view
from lemmata.mine.pairs import WEIGHTS, PairOptions, generic_title, mine_pairs, positive_text


def made_of(
    passages: Sequence[Passage],
    *,
    test: Iterable[str] = (),
    edges: Sequence[Edge] = (),
    concepts: Sequence[Concept] = (),
    titles: dict[str, str] | None = None,
    test_concepts: Iterable[str] = (),
    dice: random.Random | None = None,
) -> TrainingView:
    held_out = set(test)
    parts = np.array([2 if passage.id in held_out else 0 for passage in passages], np.int8)
    kinds = {p.id: "passage" for p in passages} | {c.id: "concept" for c in concepts}
    graph = build_graph(edges, kinds | {p.document: "document" for p in passages if p.document not in kinds})
    graph = graph if dice is None else shuffled(graph, dice)
    split = Split(parts, np.zeros(len(passages), bool), dict.fromkeys(test_concepts, "test"))
    documents = [Document(name, (titles or {}).get(name, "")) for name in sorted({p.document for p in passages})]
    return training_view(
        MemoryCorpus(passages, documents), split, graph=graph, concepts={concept.id: concept for concept in concepts}
    )


def shuffled(graph: Graph, dice: random.Random) -> Graph:
    """The same graph, its nodes and the edges of each in another order."""
    order = dice.sample(range(len(graph.nodes)), len(graph.nodes))
    edges = [
        edge
        for node in order
        for edge in dice.sample(range(graph.indptr[node], graph.indptr[node + 1]), np.diff(graph.indptr)[node])
    ]
    return replace(
        graph,
        nodes=[graph.nodes[node] for node in order],
        kinds=[graph.kinds[node] for node in order],
        indptr=np.append(0, np.cumsum(np.diff(graph.indptr)[order])),
        indices=np.argsort(order)[graph.indices[edges]],
        relation=graph.relation[edges],
        weight=graph.weight[edges],
    )


def concept_pairs(part: TrainingView, options: PairOptions | None = None) -> list[Pair]:
    return [pair for pair in mine_pairs(part, options) if pair.source in ("concepts", "edges")]


def named(part: TrainingView, pairs: Iterable[Pair]) -> list[tuple[str, str, str, str]]:
    """Pairs with ids in place of rows: source, relation, anchor, positive."""
    name = {row: identity for identity, row in part.row_of.items()}
    return [
        (p.source, p.relation, p.anchor if isinstance(p.anchor, str) else name[p.anchor], name[p.positive])
        for p in pairs
    ]


LONG = " It has more words than the shortest passage that a concept may be paired with."


def passage(identity: str, text: str, kind: str = "lemma", **others: object) -> Passage:
    return replace(Passage(identity, identity.split("#")[0], kind, text), **others)  # type: ignore[arg-type]


# ---------------------------------------------------------------- concepts


RINGS = [
    passage("a#1", "A ring is Noetherian if every ideal is finitely generated." + LONG, "definition"),
    passage("a#2", "Over a Noetherian ring submodules of finite modules are finite." + LONG),
    passage("a#3", "A polynomial ring over a Noetherian ring is one." + LONG, title="Noetherian rings and Hilbert"),
    passage("b#1", "A field is a ring in which every nonzero element has an inverse." + LONG, "definition"),
    passage("b#2", "Short field."),
]
NOETHERIAN = Concept(
    "concept:noetherian", "Noetherian ring", description="A ring is Noetherian if every ideal is finitely generated."
)
FIELD = Concept("concept:field", "field")
MENTIONS = [
    Edge("a#1", "defines", NOETHERIAN.id),
    Edge("a#1", "mentions", NOETHERIAN.id),
    Edge("a#2", "mentions", NOETHERIAN.id),
    Edge("a#3", "mentions", NOETHERIAN.id),
    Edge("b#1", "defines", FIELD.id),
    Edge("b#2", "mentions", FIELD.id),
    Edge(FIELD.id, "is_instance_of", NOETHERIAN.id),
]


def test_a_name_leads_to_where_it_is_defined_then_to_titles_then_to_mentions() -> None:
    part = made_of(RINGS, edges=MENTIONS, concepts=[NOETHERIAN, FIELD])
    pairs = [p for p in concept_pairs(part) if p.relation == "name"]
    assert named(part, pairs) == [
        ("concepts", "name", "field", "b#1"),  # b#2 is too short
        ("concepts", "name", "Noetherian ring", "a#1"),
        ("concepts", "name", "Noetherian ring", "a#3"),
        ("concepts", "name", "Noetherian ring", "a#2"),
    ]
    assert [p.reason.split(" ", 1)[1] for p in pairs] == ["defined here", "defined here", "in its title", "mentioned"]


def test_a_description_does_not_lead_to_the_passage_it_was_cut_from() -> None:
    part = made_of(RINGS, edges=MENTIONS, concepts=[NOETHERIAN, FIELD])
    assert [row[3] for row in named(part, mine_pairs(part)) if row[1] == "description"] == ["a#3", "a#2"]


def test_an_edge_pairs_each_name_with_passages_of_the_other_end() -> None:
    part = made_of(RINGS, edges=MENTIONS, concepts=[NOETHERIAN, FIELD])
    pairs = concept_pairs(part, PairOptions(weights={"edge": 0.5}))
    edges = [p for p in pairs if p.source == "edges"]
    assert {(row[2], row[3]) for row in named(part, edges)} == {
        ("field", "a#1"), ("field", "a#2"), ("field", "a#3"), ("Noetherian ring", "b#1"),
    }  # fmt: skip
    assert {p.weight for p in edges} == {0.5}
    off = concept_pairs(part, PairOptions(weights={"edge": 0}))
    assert not [p for p in off if p.source == "edges"]


def test_a_passage_that_names_a_concept_only_in_its_proof_is_not_paired_with_it() -> None:
    passages = [
        passage("a#1", "Categories have objects." + LONG, proof="Use functors."),
        passage("a#2", "Something else." + LONG, proof="Look at the category."),
        passage("a#3", "Said in other words, as models do." + LONG, proof="Clear."),
    ]
    edges = [Edge(p.id, "mentions", "concept:category") for p in passages]
    part = made_of(passages, edges=edges, concepts=[Concept("concept:category", "category")])
    assert [row[3] for row in named(part, concept_pairs(part))] == ["a#1", "a#3"]


def test_an_edge_prefers_passages_that_mention_both_ends() -> None:
    many = [passage(f"a#{n:02}", f"Passage {n}." + LONG * (n + 1)) for n in range(40)]
    edges = [Edge(p.id, "mentions", "concept:x") for p in many]
    edges += [Edge(p.id, "mentions", "concept:y") for p in many[20:]]
    edges += [Edge("concept:x", "uses", "concept:y")]
    part = made_of(many, edges=edges, concepts=[Concept("concept:x", "x"), Concept("concept:y", "y")])
    options = PairOptions(passages_per_concept=3)
    mined = [pair for pair in concept_pairs(part, options) if pair.source == "edges" and pair.anchor == "x"]
    assert len(mined) == 5
    assert all(pair.positive >= 20 and pair.reason.endswith("speaks of both") for pair in mined)


def test_concepts_and_edges_are_capped() -> None:
    many = [passage(f"a#{n}", f"Passage {n}." + LONG) for n in range(30)]
    edges = [Edge(p.id, "mentions", "concept:x") for p in many]
    many.append(passage("b#1", "The only one on y." + LONG))
    ends = [Concept("concept:x", "x"), Concept("concept:y", "y")]
    edges += [Edge("b#1", "mentions", "concept:y"), Edge("concept:x", "uses", "concept:y")]
    part = made_of(many, edges=edges, concepts=ends)
    assert Counter((p.source, p.anchor) for p in concept_pairs(part)) == {
        ("concepts", "x"): 20, ("concepts", "y"): 1, ("edges", "y"): 5, ("edges", "x"): 1,
    }  # fmt: skip
    few = PairOptions(passages_per_concept=4)
    assert Counter((p.source, p.anchor) for p in concept_pairs(part, few))["edges", "y"] == 4


def test_the_seed_protocol_takes_any_passage_of_the_documents_that_mention_a_concept() -> None:
    other = passage("b#3", "Nothing of the kind, but in the same document." + LONG)
    part = made_of([*RINGS, other], edges=MENTIONS, concepts=[NOETHERIAN, FIELD])
    pairs = concept_pairs(part, PairOptions(protocol="seed"))
    found = {row[1:] for row in named(part, pairs)}
    assert {row[2] for row in found if row[:2] == ("name", "field")} == {"b#1", "b#3"}  # b#2 is too short
    assert {row[2] for row in found if row[:2] == ("name", "Noetherian ring")} == {"a#1", "a#2", "a#3"}
    assert ("is_instance_of", "Noetherian ring", "b#3") in found
    assert {pair.reason.split(" ", 1)[1] for pair in pairs if pair.relation == "name"} == {
        "in a document that mentions it"
    }


def test_a_negative_weight_and_an_unknown_source_are_refused() -> None:
    part = made_of(RINGS)
    with pytest.raises(ConfigError, match="edge = -1"):
        list(mine_pairs(part, PairOptions(weights={"edge": -1})))
    with pytest.raises(ConfigError, match="'section'"):
        list(mine_pairs(part, PairOptions(weights={"sections": 1})))


def test_a_weight_of_zero_switches_a_source_off_and_the_others_stay() -> None:
    part = made_of(RINGS, edges=MENTIONS, concepts=[NOETHERIAN, FIELD])
    before = {pair.relation for pair in mine_pairs(part)}
    assert {"name", "description", "note"} <= before
    for source in before & WEIGHTS.keys():
        assert {pair.relation for pair in mine_pairs(part, PairOptions(weights={source: 0}))} == before - {source}
    assert not list(mine_pairs(part, PairOptions(weights=dict.fromkeys(WEIGHTS, 0))))


def test_concepts_of_the_test_part_are_no_anchors() -> None:
    part = made_of(RINGS, edges=MENTIONS, concepts=[NOETHERIAN, FIELD], test_concepts=[FIELD.id])
    assert {row[2] for row in named(part, concept_pairs(part)) if row[1] == "name"} == {"Noetherian ring"}
    assert not [p for p in concept_pairs(part) if p.source == "edges"]


# ---------------------------------------------------------------- structure


def test_statements_lead_to_what_they_and_their_proofs_name() -> None:
    links = (Link("refers_to", "x", "a#2"), Link("proof_uses", "y", "b#1"), Link("proof_uses", "y", "b#1"))
    part = made_of(
        [
            passage("a#1", "First.", links=links),
            passage("a#2", "Second.", links=(Link("refers_to", "z", "a@1"),)),
            passage("a@1", "Prose.", "chunk", document="a", links=(Link("refers_to", "x", "a#1"),)),
            passage("b#1", "Third."),
        ]
    )
    assert named(part, mine_pairs(part)) == [
        ("structure", "refers_to", "a#1", "a#2"),
        ("structure", "proof_uses", "a#1", "b#1"),
    ]
    assert named(part, mine_pairs(part, PairOptions(weights={"refers_to": 0}))) == [
        ("structure", "proof_uses", "a#1", "b#1")
    ]


def test_the_anchors_of_one_target_are_capped() -> None:
    lemmas = [passage(f"a#{n}", f"Lemma number {n}.", links=(Link("refers_to", "x", "a#0"),)) for n in range(70)]
    assert len(list(mine_pairs(made_of(lemmas)))) == 50


def test_a_location_leads_to_the_logs_that_report_about_it() -> None:
    logs = [passage(f"log{n:02}", f"Entry {n}.", "log") for n in range(25)]
    locations = [Document("location:mill", "Mill two", kind="location"), Document("location:x", "x", kind="location")]
    edges = [Edge(log.id, "reports_about", place.id) for log in logs for place in locations]
    graph = build_graph(edges, {place.id: "location" for place in locations})
    parts = np.array([2, *[0] * 24], np.int8)
    documents = [*(Document(log.id) for log in logs), *locations]
    part = training_view(MemoryCorpus(logs, documents), Split(parts, np.zeros(25, bool)), graph=graph)
    pairs = named(part, mine_pairs(part))
    assert {row[:3] for row in pairs} == {("structure", "location", "Mill two")}  # "x" is no title
    assert len(pairs) == 20
    assert "log00" not in {row[3] for row in pairs}


def test_section_titles_are_anchors_unless_they_could_stand_anywhere() -> None:
    passages = [
        passage("a#1", "One.", section="Flat modules, II"),
        passage("a#2", "Two.", section="Introduction"),
        passage("a#3", "Three.", section="The algebra"),
        passage("a#4", "Set-up.", "situation", section="Flat modules, II"),
        passage("a@1", "Prose.", "chunk", document="a", section="Flat modules, II"),
        passage("b#1", "Four.", section="Part / 2.1 Depth"),
    ]
    part = made_of(passages, titles={"a": "Quantum groups"})
    assert [row[2:] for row in named(part, mine_pairs(part)) if row[1] == "section"] == [
        ("Flat modules", "a#1"),
        ("Quantum groups: The algebra", "a#3"),
        ("Depth", "b#1"),
    ]


def test_a_section_title_of_many_documents_is_generic() -> None:
    passages = [passage(f"d{n}#1", f"Text {n}.", section="Numerical observations") for n in range(9)]
    assert not list(mine_pairs(made_of(passages)))
    assert len(list(mine_pairs(made_of(passages[:8])))) == 8


def test_sections_are_capped() -> None:
    part = made_of([passage(f"a#{n:02}", f"Text {n}.", section="Depth") for n in range(40)])
    assert len(list(mine_pairs(part))) == 10


@pytest.mark.parametrize(
    ("note", "anchor"),
    [
        ("Nakayama's lemma", "Nakayama's lemma"),
        ("Artin-Rees", "Artin-Rees"),
        ("Prime avoidance", "Prime avoidance"),
        ("Banach Fixed Point Theorem", "Banach Fixed Point Theorem"),
        ("Ramanujan's $_1\\psi_1$ sum", "Ramanujan's $_1\\psi_1$ sum"),
        ("Gordon, 1961", "Gordon theorem"),
        ("Ono; Ahlgren and Boylan", "Ono-Ahlgren-Boylan theorem"),
        ("Inversion", "Inversion theorem"),
        ("analytic form", "On partitions: analytic form"),
        ("Key lemma", None),
        ("Thm. 4.3", None),
        ("Warning", None),
    ],
)
def test_a_note_becomes_a_name_that_a_user_would_search_for(note: str, anchor: str | None) -> None:
    part = made_of([passage("a#1", "Some statement.", "theorem", title=note)], titles={"a": "On partitions"})
    assert [p.anchor for p in mine_pairs(part)] == ([anchor] if anchor else [])


def test_a_person_with_several_theorems_names_none_of_them() -> None:
    two = [passage(f"a#{n}", f"Statement {n}.", "theorem", title="Cauchy") for n in range(2)]
    assert not list(mine_pairs(made_of(two)))


def test_titles_lead_to_abstracts_and_articles_without_the_title() -> None:
    passages = [
        passage("p#abstract", "We show that rings are rings.", "abstract"),
        passage("p#1", "A statement."),
        passage("article@1", "It is what it is.", "chunk", document="article"),
        passage("beir", "Text of a passage.", "passage", title="Its own title"),
    ]
    part = made_of(passages, titles={"p": "On rings", "article": "1.2 Being"})
    pairs = list(mine_pairs(part))
    assert [row[2:] for row in named(part, pairs)] == [
        ("Being", "article@1"), ("Its own title", "beir"), ("On rings", "p#abstract"),
    ]  # fmt: skip
    assert positive_text(pairs[1], passages[3]) == "Text of a passage."
    cited = Pair(0, 3, "citations", "cites")
    assert positive_text(cited, passages[3]) == "Its own title. Text of a passage."


def test_proofs_are_off_by_default_and_omitted_ones_never_anchors() -> None:
    long = "We use induction on the number of generators and reduce to one. " * 4
    part = made_of([passage("a#1", "One.", proof=long), passage("a#2", "Two.", proof="Omitted. " + long)])
    assert not list(mine_pairs(part))
    assert named(part, mine_pairs(part, PairOptions(weights={"proof": 0.3}))) == [("structure", "proof", long, "a#1")]


@pytest.mark.parametrize(
    "title", ["Introduction", "Proof of the main theorem", "2.3", "", "Some further remarks", "IV"]
)
def test_generic_titles_are_recognised(title: str) -> None:
    assert generic_title(title)


@pytest.mark.parametrize("title", ["Flat morphisms", "$q$-series", "Proof of Hilbert's theorem", "Elliptic curves II"])
def test_specific_titles_are_not_generic(title: str) -> None:
    assert not generic_title(title)


# ---------------------------------------------------------------- citations


def cited(part: TrainingView) -> list[tuple[str, str]]:
    return [row[2:] for row in named(part, mine_pairs(part)) if row[:2] == ("citations", "cites")]


def test_papers_that_are_passages_lead_to_what_they_cite_by_link_or_edge() -> None:
    papers = [
        passage("x", "About x.", "abstract", links=(Link("cites", "y", "y"),)),
        passage("y", "About y.", "abstract"),
        passage("z", "About z.", "abstract"),
    ]
    part = made_of(papers, edges=[Edge("x", "cites", "y"), Edge("z", "cites", "x")])
    assert cited(part) == [("x", "y"), ("z", "x")]


def test_a_cited_document_is_represented_by_its_abstract() -> None:
    passages = [
        passage("p#1", "By the other paper.", links=(Link("cites", "q", "q"),)),
        passage("q#abstract", "What q does.", "abstract"),
        *(passage(f"q#{n}", f"Statement {n} of q.") for n in range(4)),
        *(passage(f"r#{n}", f"Statement {n} of r.", links=(Link("cites", "s", "s"),)) for n in range(4)),
        *(passage(f"s#{n}", f"Statement {n} of s, without an abstract.") for n in range(4)),
    ]
    part = made_of(passages, edges=[Edge("p", "cites", "q"), Edge("q", "cites", "p")])
    assert cited(part) == [("p#1", "q#abstract"), ("q#abstract", "p#1")]


# ---------------------------------------------------------------- all together


def test_the_same_two_texts_are_paired_once_and_only_by_their_whole_text() -> None:
    start = "x" * 60
    passages = [
        passage("a#1", start + " first", "theorem", section="Depth"),
        passage("a#2", start + " second", "theorem", section="Depth"),
        passage("b#1", start + " first", "theorem", section="Depth"),
    ]
    assert len(list(mine_pairs(made_of(passages)))) == 2


def test_options_come_from_a_table() -> None:
    table = {"weights": {"proof": 1}, "passages_per_concept": 3}
    options = build(PairOptions, table, "[mine.pairs]")
    assert (options.weight("proof"), options.weight("name"), options.passages_per_concept) == (1.0, 1.0, 3)
    with pytest.raises(ConfigError, match="passages_per_concept = 0"):
        build(PairOptions, {"passages_per_concept": 0}, "[mine.pairs]")


def world(seed: int) -> dict[str, Any]:
    """A small corpus with many links to few passages, many mentions of few concepts, and some texts twice."""
    dice = random.Random(seed)
    ids = [f"d{n % 4}#{n}" if n % 3 else f"w{n}" for n in range(dice.randint(1, 24))]
    concepts = [f"concept:{n}" for n in range(dice.randint(0, 4))]
    hubs = [*dice.sample(ids, min(3, len(ids))), "d0", "d1"]
    passages = [
        passage(
            identity,
            dice.choice(["Rings are rings." + LONG, f"Text of {identity}." + LONG, f"Another text, of {identity}."]),
            dice.choice("lemma theorem definition chunk abstract passage log situation".split()),
            title=dice.choice(["", "", "Depth", "Euler", "Flat descent"]),
            section=dice.choice(["", "Flat modules", "Introduction"]),
            proof=dice.choice(["", "We argue by induction and by looking at it for long." * 5]),
            links=tuple(
                Link(dice.choice(["cites", "refers_to", "proof_uses", "related_to"]), "x", dice.choice(hubs))
                for _ in range(dice.randint(0, 4))
            ),
        )
        for identity in ids
    ]
    edges = [Edge(dice.choice(ids), dice.choice(["mentions", "defines"]), c) for c in concepts for _ in range(9)]
    edges += [Edge(dice.choice(ids), "cites", dice.choice(hubs[:-2])) for _ in range(12)]
    edges += [Edge(c, dice.choice(["uses", "implies"]), dice.choice(concepts)) for c in concepts for _ in range(3)]
    return {
        "passages": passages,
        "edges": edges,
        "concepts": [Concept(c, f"name of {c}", description=f"Rings are rings, said of {c}.") for c in concepts],
        "test": {identity for identity in ids if dice.random() < 0.2},
        "test_concepts": {c for c in concepts if dice.random() < 0.2},
        "titles": {"d0": "On depth", "d1": "On flatness", "w0": "On words"},
    }


EVERYTHING = PairOptions(weights={"proof": 1.0}, passages_per_concept=3)


@given(st.integers(0, 2**32), st.sampled_from(["passage", "seed"]))
def test_no_pair_leaves_the_material_and_no_cap_is_passed(seed: int, protocol: str) -> None:
    part = made_of(**world(seed))
    pairs = list(mine_pairs(part, replace(EVERYTHING, protocol=protocol)))
    for pair in pairs:
        assert part.allowed[pair.positive]
        assert isinstance(pair.anchor, str) or (part.allowed[pair.anchor] and pair.anchor != pair.positive)
    names = Counter((p.anchor, p.relation) for p in pairs if p.source == "concepts")
    assert not names or max(names.values()) <= 3
    edges = Counter((p.anchor, p.relation, p.reason) for p in pairs if p.source == "edges")
    assert not edges or max(edges.values()) <= 5
    texts = [
        (p.anchor if isinstance(p.anchor, str) else part.texts([p.anchor])[0],
         positive_text(p, part.passages([p.positive])[0]))
        for p in pairs
    ]  # fmt: skip
    assert len(set(texts)) == len(texts)
    assert all(anchor != positive for anchor, positive in texts)


@settings(max_examples=settings().max_examples // 2)
@given(st.integers(0, 2**32))
def test_neither_the_order_of_passages_nor_of_concepts_nor_of_nodes_and_edges_matters(seed: int) -> None:
    records, dice = world(seed), random.Random(seed)
    first = made_of(**records)
    before = named(first, mine_pairs(first, EVERYTHING))
    for what in ("passages", "edges", "concepts"):
        dice.shuffle(records[what])
    second = made_of(**records, dice=dice)
    assert named(second, mine_pairs(second, EVERYTHING)) == before
    assert list(mine_pairs(second, EVERYTHING)) == list(mine_pairs(second, EVERYTHING))


def test_material_has_no_names_of_references() -> None:
    spans = {"inserted_references": {"text": [[2, 13]], "proof": [[2, 9]]}, "environment": "lemma"}
    passage = Passage("a#1", "a", "lemma", "By lemma:zorn it holds.", proof="By [Zorn] clear.", metadata=spans)
    (read,) = made_of([passage]).passages([0])
    assert (read.text, read.proof, read.metadata) == ("By it holds.", "By clear.", {"environment": "lemma"})
    answer = replace(passage, id="b#1", document="b")
    split = Split(np.array([0, 2], np.int8), np.zeros(2, bool), answers=True)
    shelf = MemoryCorpus([passage, answer])
    assert [p.content for p in training_view(shelf, split).passages([0, 1])] == ["By it holds."] * 2
