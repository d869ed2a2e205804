"""Merging concepts: normal forms, acronyms, proposals, homonyms, verdicts, and carrying merges out."""

from __future__ import annotations

import random
from collections.abc import Sequence

import networkx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.core.errors import InputError
from lemmata.core.types import Concept, Edge
from lemmata.graph.concepts.merge import Merge, apply, decide, find_acronyms, normal_form, propose

# ---------------------------------------------------------------- normal forms


@pytest.mark.parametrize(
    "names",
    [
        ["q-series", "q series", "$q$-series", "$q$–series", "Q-Series", "the $q$--series"],
        ["$\\Gamma$-function", "Gamma function", "Γ-functions", "the gamma function"],
        ["non-zero", "nonzero", "non zero", "Non–Zero"],
        ["Bailey's lemma", "Bailey lemma", "Bailey’s Lemmata", "Baileys lemmas"],
        ["Erdős–Rényi graph", "Erdos-Renyi graphs", r"Erd\H{o}s--R\'enyi graph", "The Erdős–Rényi Graph’s"],
        ["Gauß", "Gauss"],
        ["basis", "bases"],
        ["subbasis", "sub-bases", "sub basis"],
        ["matrix", "matrices"],
        ["submatrix", "submatrices", "sub-matrices"],
        ["vertex", "vertices"],
        ["multi-index", "multiindices", "multi indices"],
        ["series", "Series"],
        ["class", "classes"],
        ["calculus", "calculi"],
        ["genus", "genera"],
        ["complex", "complexes"],
        ["identity", "identities"],
        ["sheaf", "sheaves"],
        ["lattice", "lattices"],
        ["topos", "topoi", "toposes"],
        ["cubic", "cubics"],
        ["Stokes' theorem", "Stokes theorem", "Stokes's theorems"],
        ["L'Hôpital's rule", "l’Hôpital rule"],
        ["ideal of a ring", "ideals of the rings", "an ideal of ring"],
        ["a priori estimate", "a-priori estimates"],
        ["$C^*$-algebra", "C*-algebras", r"$C^{\ast}$ algebra"],
        ["$H^1$", "H¹", "$H^{1}$"],
        [r"$L^\infty$", "$L^∞$"],
        ["$A$-module", "A-modules", "$A$ module"],
    ],
)
def test_spellings_of_one_name_have_one_normal_form(names: list[str]) -> None:
    assert {normal_form(name) for name in names} == {normal_form(names[0])}


@pytest.mark.parametrize(
    "names",
    [
        ["$H^1$", "$H_1$"],
        ["$C^*$-algebra", "$C$-algebra"],
        ["$A$-module", "a module"],
        ["radius of convergence", "convergence radius"],
        ["analysis", "analytic"],
        ["series", "serie"],
        ["basis", "basic"],
        ["calculus", "calculation"],
        ["$+$", "$-$", "$=$", "???"],
        ["$f$", "$f'$"],
        ["mathematics", "mathematic"],
        ["class", "clas"],
        ["Type A quiver", "type quiver"],
    ],
)
def test_names_of_different_things_have_different_normal_forms(names: list[str]) -> None:
    assert len({normal_form(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("The Rogers–Ramanujan identities", "rogers-ramanujan-identity"),
        ("Satz von der Erhaltung des Impulses", "satz-von-der-erhaltung-des-impulses"),
        ("Impuls", "impuls"),
        ("Verhältnis", "verhaltnis"),
        ("Hilbertscher Nullstellensatz", "hilbertscher-nullstellensatz"),
        ("The", "the"),
        ("A", "a"),
        ("PDEs", "pde"),
        ("fluid dynamics", "fluid-dynamics"),
        ("群", "群"),
    ],
)
def test_normal_forms_are_readable(name: str, form: str) -> None:
    assert normal_form(name) == form


words = st.sampled_from(
    "the a an of A bases subs nons non sub zeros lemmata lemmatas genera der $ - – ' ’s \\alpha $\\Gamma$ ^ * ¹ ² _ "
    "series thes s ss ies axes buses Gauß é Ⅷ ﬁ İ ∞ ∂ + = ~ { } co- self x1 1s".split()
)
names = st.one_of(
    st.text(max_size=20), st.lists(words, max_size=6).map(" ".join), st.lists(words, max_size=6).map("".join)
)


@given(names)
@example("subs group")
@example("the")
@example("$A$ the")
@example("\ufe0f")
def test_a_normal_form_is_its_own(name: str) -> None:
    form = normal_form(name)
    assert form
    assert normal_form(form) == form


@given(st.lists(st.sampled_from("the of sub bases Series a zeros x non B2 in des".split()), min_size=1).map(" ".join))
def test_case_and_the_kind_of_dash_do_not_matter(name: str) -> None:
    assert normal_form(name.upper()) == normal_form(name)
    assert normal_form(f"x-{name}") == normal_form(f"x–{name}")


# ---------------------------------------------------------------- acronyms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Let G be an algebraic group (AG) over k.", [("AG", "algebraic group")]),
        ("The AG (algebraic group) acts.", [("AG", "algebraic group")]),
        ("the ring of integers (ROI), a field (F)", [("ROI", "ring of integers")]),
        ("the method of moments (MM)", [("MM", "method of moments")]),
        ("partial differential equations (PDEs)", [("PDEs", "partial differential equations")]),
        ("a self-avoiding walk (SAW)", [("SAW", "self-avoiding walk")]),
        ("a group (AG), some graph (see below), AG (all good things)", []),
        ("(AG) first", []),
        ("", []),
    ],
)
def test_acronyms_are_found_where_the_text_spells_them_out(text: str, found: list[tuple[str, str]]) -> None:
    assert find_acronyms(text) == found


# ---------------------------------------------------------------- proposals


def named(*names: str) -> list[Concept]:
    return [Concept(f"c{number}", name) for number, name in enumerate(names)]


def mentions(passages: dict[str, Sequence[str]]) -> list[Edge]:
    return [Edge(passage, "mentions", concept, passage) for passage, ids in passages.items() for concept in ids]


def accepted(merges: Sequence[Merge]) -> set[tuple[str, str, str]]:
    return {(merge.kept, merge.gone, merge.reason) for merge in merges if merge.status == "accepted"}


def test_the_most_mentioned_then_the_shortest_is_kept() -> None:
    concepts = named("Bailey's lemma", "Bailey lemma", "the Bailey lemmata")
    assert accepted(propose(concepts, [])) == {("c1", "c0", "same normal form"), ("c1", "c2", "same normal form")}
    merges = propose(concepts, mentions({"p": ["c2"], "q": ["c2", "c0"]}))
    assert accepted(merges) == {("c2", "c0", "same normal form"), ("c2", "c1", "same normal form")}


def test_an_alias_is_merged_with_what_has_that_name() -> None:
    concepts = [Concept("k", "kernel", aliases=("null space",)), Concept("n", "Null spaces"), Concept("x", "image")]
    assert accepted(propose(concepts, [])) == {("k", "n", "alias")}


def test_an_alias_that_several_claim_is_only_a_candidate() -> None:
    concepts = [
        Concept("a", "normal operator", aliases=("normal",)),
        Concept("b", "normal subgroup", aliases=("normal",)),
        Concept("n", "normal"),
    ]
    merges = propose(concepts, [])
    assert [merge[:3] for merge in merges] == [("n", "a", "alias of several"), ("n", "b", "alias of several")]
    assert {merge.status for merge in merges} == {"candidate"}
    without_owner = propose(concepts[:2], [])
    assert without_owner == [Merge("a", "b", "alias of several", 0.6, "candidate")]


def test_an_acronym_is_merged_only_where_a_text_spells_it_out() -> None:
    concepts = named("AG", "algebraic group", "algebraic geometry")
    assert propose(concepts, []) == []
    group = Concept("d", "torus", description="An algebraic group (AG) like any other.")
    assert accepted(propose([*concepts, group], [])) == {("c0", "c1", "acronym")}
    geometry = Concept("e", "scheme", description="An object of algebraic geometry (AG).")
    both = propose([*concepts, group, geometry], [])
    assert {(merge.kept, merge.gone, merge.status) for merge in both} == {
        ("c0", "c1", "candidate"),
        ("c0", "c2", "candidate"),
    }
    aliased = [concepts[0], Concept("a", "algebraic group", aliases=("AG",))]
    assert accepted(propose(aliased, [])) == {("c0", "a", "acronym")}


def test_a_name_that_contains_its_acronym_joins_both() -> None:
    concepts = named("algebraic group (AG)", "algebraic groups", "AG")
    assert {merge[:2] for merge in accepted(propose(concepts, []))} == {("c1", "c0"), ("c2", "c0")}
    assert len(apply(concepts, [], propose(concepts, []))[0]) == 1


def test_an_acronym_does_not_claim_a_word() -> None:
    concepts = [Concept("r", "random access memory", aliases=("RAM",)), Concept("s", "ram")]
    assert propose(concepts, []) == []


def test_word_order_makes_only_candidates() -> None:
    concepts = named("radius of convergence", "convergence radius", "field of fractions of a domain")
    merges = propose(concepts, [])
    assert merges == [Merge("c1", "c0", "word order", 0.5, "candidate")]
    assert apply(concepts, [], merges)[0] == concepts


def test_duplicate_ids_are_an_error() -> None:
    with pytest.raises(InputError, match=r"\ba\b"):
        propose([Concept("a", "x"), Concept("a", "y")], [])
    with pytest.raises(InputError, match=r"\ba\b"):
        apply([Concept("a", "x"), Concept("a", "y")], [], [])


# ---------------------------------------------------------------- homonyms

OPERATORS = "Hilbert space|compact operator|spectrum|adjoint|range".split("|")
GROUPS = "homomorphism|normal subgroup|quotient group|image|coset".split("|")
FEW = 3  # things are enough context here


def kernels(first: Sequence[str], second: Sequence[str]) -> tuple[list[Concept], list[Edge]]:
    """Two kernels, each mentioned in three passages together with three of the given names."""
    ids = {name: f"concept:{name.replace(' ', '-').lower()}" for name in (*OPERATORS, *GROUPS)}
    concepts = [Concept(identity, name) for name, identity in ids.items()]
    concepts += [Concept("concept:kernel", "kernel"), Concept("concept:kernel-2", "Kernels")]
    passages: dict[str, Sequence[str]] = {}
    for number in range(3):
        for kernel, words in (("concept:kernel", first), ("concept:kernel-2", second)):
            chosen = [ids[words[(number + step) % len(words)]] for step in range(3)]
            passages[f"{kernel}@{number}"] = [kernel, *chosen]
    return concepts, mentions(passages)


def test_one_name_in_two_contexts_stays_two_concepts() -> None:
    concepts, edges = kernels(OPERATORS, GROUPS)
    merges = propose(concepts, edges, least_context=FEW)
    reason = "same normal form, but homonyms: contexts 0.00 times as alike as by chance, the line is 1"
    assert merges == [Merge("concept:kernel", "concept:kernel-2", reason, 0.0, "apart")]
    assert {concept.id for concept in apply(concepts, edges, merges)[0]} == {concept.id for concept in concepts}


def test_one_name_in_one_context_is_one_concept() -> None:
    concepts, edges = kernels(OPERATORS, OPERATORS[2:] + OPERATORS[:2])
    merges = propose(concepts, edges, least_context=FEW)
    assert accepted(merges) == {("concept:kernel", "concept:kernel-2", "same normal form")}
    assert len(merges) == 1


def test_too_little_context_keeps_nothing_apart() -> None:
    concepts, edges = kernels(OPERATORS, GROUPS)
    assert len(accepted(propose(concepts, edges))) == 1


def test_each_further_concept_joins_the_sense_it_shares_most_with() -> None:
    concepts, edges = kernels(OPERATORS, GROUPS)
    concepts.append(Concept("concept:kernel-3", "kernel"))
    ids = ["concept:kernel-3", *(f"concept:{name.replace(' ', '-')}" for name in GROUPS[:3])]
    edges += mentions({"other@1": ids})
    mapping = apply(concepts, edges, propose(concepts, edges, least_context=FEW))[2]
    assert mapping == {"concept:kernel-3": "concept:kernel-2"}


def test_descriptions_and_neighbours_are_context_too() -> None:
    others = named(*OPERATORS, *GROUPS)
    operator = Concept(
        "operator", "kernel", description="Of a compact operator on a Hilbert space, with spectrum and adjoint."
    )
    group = Concept("group", "kernels", description="Of a homomorphism: the normal subgroup with image a quotient.")
    assert [merge.status for merge in propose([*others, operator, group], [], least_context=FEW)] == ["apart"]
    edges = [Edge("first", "uses", f"c{number}") for number in range(5)]
    edges += [Edge(f"c{number}", "uses", "second") for number in range(5, 10)]
    concepts = [*others, Concept("first", "normal"), Concept("second", "Normal")]
    assert [merge.status for merge in propose(concepts, edges, least_context=FEW)] == ["apart"]


def test_a_person_is_not_merged_with_a_thing() -> None:
    concepts = [Concept("a", "Abel", "person"), Concept("b", "abel"), Concept("c", "ABEL", "person")]
    merges = propose(concepts, [])
    assert accepted(merges) == {("c", "a", "same normal form")}
    apart = [merge.reason for merge in merges if merge.status == "apart"]
    assert apart == ["same normal form, but homonyms: one is a person"]


def test_names_that_only_occur_together_are_no_homonyms() -> None:
    concepts = [Concept("k", "kernel", aliases=("nullspace",)), Concept("n", "nullspace")]
    edges = [*mentions({"p": ["k", "n"], "q": ["n", "k"]}), Edge("k", "equivalent_to", "n")]
    assert accepted(propose(concepts, edges, least_context=1)) == {("k", "n", "alias")}


def test_an_alias_that_another_thing_has_as_its_name_is_only_a_candidate() -> None:
    """Only one concept claims the name, but it occurs in other contexts, or one of the two is a person."""
    concepts, edges = kernels(OPERATORS, GROUPS)
    concepts = [concept for concept in concepts if concept.id != "concept:kernel"]
    concepts.append(Concept("concept:kernel", "null space", aliases=("kernel",)))
    merges = propose(concepts, edges, least_context=FEW)
    assert [({merge.kept, merge.gone}, merge.status) for merge in merges] == [
        ({"concept:kernel", "concept:kernel-2"}, "candidate")
    ]
    assert merges[0].reason.startswith("alias, but contexts 0.00 times as alike")
    person = [Concept("a", "Abel", "person"), Concept("g", "commutative group", aliases=("abel",))]
    assert propose(person, []) == [Merge("a", "g", "alias, but one is a person", 0.3, "candidate")]


def test_an_alias_does_not_join_homonyms() -> None:
    concepts, edges = kernels(OPERATORS, GROUPS)
    concepts.append(Concept("concept:null-space", "null space", aliases=("kernel",)))
    merges = propose(concepts, edges, least_context=FEW)
    assert accepted(merges) == set()
    verdicts = {(merge.kept, merge.gone): "accept" for merge in merges if merge.status == "candidate"}
    assert len(verdicts) == 2
    united, _, mapping = apply(concepts, edges, decide(merges, verdicts))
    assert len(united) == len(concepts) - 1
    assert "concept:kernel" not in mapping
    assert "concept:kernel-2" not in mapping


# ---------------------------------------------------------------- verdicts


def test_verdicts_overrule_proposals_in_either_order_of_the_ids() -> None:
    merges = [
        Merge("a", "b", "word order", 0.5),
        Merge("a", "b", "alias", 0.9),
        Merge("a", "c", "alias", 0.9, "accepted"),
    ]
    verdicts = {("b", "a"): "accept", ("a", "c"): "reject", ("x", "a"): "accept", ("y", "z"): "reject"}
    assert decide(merges, verdicts) == [
        Merge("b", "a", "word order", 0.5, "accepted", by_user=True),
        Merge("b", "a", "alias", 0.9, "accepted", by_user=True),
        Merge("a", "c", "alias", 0.9, "rejected", by_user=True),
        Merge("x", "a", "verdict", 1.0, "accepted", by_user=True),
        Merge("y", "z", "verdict", 1.0, "rejected", by_user=True),
    ]
    assert decide(decide(merges, verdicts), verdicts) == decide(merges, verdicts)


def test_a_rejected_pair_is_not_joined_through_others() -> None:
    concepts = named("x", "y", "z")
    merges = [
        Merge("c0", "c1", "alias", 0.9, "accepted"),
        Merge("c1", "c2", "alias", 0.8, "accepted"),
        Merge("c0", "c2", "verdict", 1.0, "rejected"),
    ]
    assert apply(concepts, [], merges)[2] == {"c1": "c0"}
    assert apply(concepts, [], merges[:2])[2] == {"c1": "c0", "c2": "c0"}


def test_the_concept_that_a_verdict_keeps_is_kept() -> None:
    concepts = named("x", "y", "z")
    proposed = [Merge("c0", "c1", "word order", 0.5), Merge("c0", "c2", "alias", 0.9, "accepted")]

    def kept_by(verdicts: dict[tuple[str, str], str]) -> dict[str, str]:
        return apply(concepts, [], decide(proposed, verdicts))[2]

    assert kept_by({("c0", "c1"): "accept"}) == {"c1": "c0", "c2": "c0"}
    assert kept_by({("c1", "c0"): "accept"}) == {"c0": "c1", "c2": "c1"}
    assert kept_by({("c1", "c0"): "accept", ("c2", "c1"): "accept"}) == {"c0": "c2", "c1": "c2"}
    circle = {("c0", "c1"): "accept", ("c1", "c2"): "accept", ("c2", "c0"): "accept"}
    assert kept_by(circle) == {"c1": "c0", "c2": "c0"}


def test_a_verdict_outranks_a_certain_proposal_that_contradicts_it() -> None:
    concepts = named("x", "y", "z")
    merges = [
        Merge("c0", "c1", "word order", 0.5),
        Merge("c1", "c2", "alias", 0.9, "accepted"),
        Merge("c0", "c2", "same normal form, but homonyms", 0.0, "apart"),
    ]
    assert apply(concepts, [], merges)[2] == {"c2": "c1"}
    assert apply(concepts, [], decide(merges, {("c1", "c0"): "accept"}))[2] == {"c0": "c1"}


# ---------------------------------------------------------------- carrying out


def test_merging_rewrites_edges_and_keeps_all_names() -> None:
    concepts = [
        Concept("a", "Bailey lemma", "theorem", "", ("BL",)),
        Concept("b", "Bailey's lemma", "theorem", "Iterates pairs.", ("Bailey's theorem",)),
        Concept("q", "q-series"),
    ]
    edges = [
        Edge("a", "uses", "q", "p1", "llm", 0.5),
        Edge("b", "uses", "q", "p1", "llm", 0.25),
        Edge("b", "uses", "q", "p2", "llm"),
        Edge("a", "equivalent_to", "b", "p1"),
        Edge("p1", "mentions", "b", "p1"),
        Edge("p1", "next", "p1"),
    ]
    merges = [Merge("a", "b", "same normal form", 1.0, "accepted"), Merge("a", "gone", "verdict", 1.0, "accepted")]
    united, rewritten, mapping = apply(concepts, edges, merges)
    assert united == [
        Concept("b", "Bailey's lemma", "theorem", "Iterates pairs.", ("Bailey's theorem", "Bailey lemma", "BL")),
        Concept("q", "q-series"),
    ]
    assert rewritten == [
        Edge("b", "uses", "q", "p1", "llm", 0.75),
        Edge("b", "uses", "q", "p2", "llm"),
        Edge("p1", "mentions", "b", "p1"),
        Edge("p1", "next", "p1"),
    ]
    assert mapping == {"a": "b"}


NAMES = (
    "kernel|Kernels|the kernel|null space|nullspaces|AG|algebraic group|algebraic groups (AG)|q-series|$q$ series|"
    "Bailey's lemma|Bailey lemmata|radius of convergence|convergence radius|x|X|group of units"
).split("|")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Concept], list[Edge]]:
    lists = st.lists(st.sampled_from(NAMES), max_size=2).map(tuple)
    chosen = draw(st.lists(st.tuples(st.sampled_from(NAMES), lists), max_size=9))
    kinds = st.sampled_from(["object", "theorem"])
    concepts = [
        Concept(f"c{number}", name, draw(kinds), draw(st.sampled_from(["", name])), aliases)
        for number, (name, aliases) in enumerate(chosen)
    ]
    nodes = st.sampled_from([*(concept.id for concept in concepts), "p", "q", "r"])
    weights = st.sampled_from([1.0, 0.1, 0.7, 1e9])
    free = st.builds(Edge, nodes, st.sampled_from(["uses", "mentions"]), nodes, st.just(""), st.just(""), weights)
    return concepts, draw(st.lists(free, max_size=12))


@st.composite
def decided(draw: st.DrawFn) -> tuple[list[Concept], list[Edge], list[Merge]]:
    """A graph with any decisions on it, also on unknown concepts."""
    concepts, edges = draw(graphs())
    ids = st.sampled_from([*(concept.id for concept in concepts), "elsewhere"])
    statuses = st.sampled_from(["accepted", "accepted", "accepted", "candidate", "rejected", "apart"])
    scores = st.sampled_from([0.5, 0.9, 1.0])
    pairs = st.tuples(ids, ids).filter(lambda pair: pair[0] != pair[1])
    free = st.builds(lambda pair, score, status: Merge(pair[0], pair[1], "any", score, status), pairs, scores, statuses)
    merges = draw(st.lists(free, max_size=10)) if concepts else []
    return concepts, edges, merges + propose(concepts, edges, least_context=2)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 2)
@given(decided(), st.randoms(use_true_random=False))
def test_the_order_of_the_arguments_does_not_matter(
    given_: tuple[list[Concept], list[Edge], list[Merge]], shuffle: random.Random
) -> None:
    concepts, edges, merges = given_
    proposed = propose(concepts, edges, least_context=2)
    applied = apply(concepts, edges, merges)
    shuffle.shuffle(concepts)
    shuffle.shuffle(edges)
    shuffle.shuffle(merges)
    assert propose(concepts, edges, least_context=2) == proposed
    assert apply(concepts, edges, merges) == applied


@given(decided())
def test_merging_twice_is_merging_once(given_: tuple[list[Concept], list[Edge], list[Merge]]) -> None:
    concepts, edges, merges = given_
    united, rewritten, mapping = apply(concepts, edges, merges)
    moved = [
        merge._replace(kept=mapping.get(merge.kept, merge.kept), gone=mapping.get(merge.gone, merge.gone))
        for merge in merges
    ]
    assert apply(united, rewritten, [merge for merge in moved if merge.kept != merge.gone]) == (united, rewritten, {})
    assert apply(united, rewritten, []) == (united, rewritten, {})
    assert set(mapping.values()) <= {concept.id for concept in united}


@given(graphs())
def test_after_merging_nothing_is_left_to_accept(given_: tuple[list[Concept], list[Edge]]) -> None:
    concepts, edges = given_
    united, rewritten, _ = apply(concepts, edges, propose(concepts, edges))
    assert accepted(propose(united, rewritten)) == set()


@given(decided())
def test_no_name_and_no_edge_is_lost(given_: tuple[list[Concept], list[Edge], list[Merge]]) -> None:
    concepts, edges, merges = given_
    united, rewritten, mapping = apply(concepts, edges, merges)
    forms = {concept.id: {normal_form(name) for name in (concept.name, *concept.aliases)} for concept in united}
    for concept in concepts:
        for name in (concept.name, *concept.aliases):
            assert normal_form(name) in forms[mapping.get(concept.id, concept.id)]
    now = {(edge.source, edge.relation, edge.target) for edge in rewritten}
    kept = 0.0
    for edge in edges:
        source, target = mapping.get(edge.source, edge.source), mapping.get(edge.target, edge.target)
        if source != target or edge.source == edge.target:
            assert (source, edge.relation, target) in now
            kept += edge.weight
    assert sum(edge.weight for edge in rewritten) == pytest.approx(kept)
    assert len(now) == len(rewritten)


@given(decided())
def test_groups_are_connected_components_without_forbidden_pairs(
    given_: tuple[list[Concept], list[Edge], list[Merge]],
) -> None:
    concepts, edges, merges = given_
    mapping = apply(concepts, edges, merges)[2]
    for merge in merges:
        if merge.status in ("rejected", "apart"):
            assert mapping.get(merge.kept, merge.kept) != mapping.get(merge.gone, merge.gone)
    accepted_only = [merge for merge in merges if merge.status == "accepted"]
    oracle = networkx.Graph()
    ids = {concept.id for concept in concepts}
    oracle.add_nodes_from(ids)
    oracle.add_edges_from(merge[:2] for merge in accepted_only if ids.issuperset(merge[:2]))
    mapping = apply(concepts, edges, accepted_only)[2]
    groups: dict[str, set[str]] = {}
    for identity in ids:
        groups.setdefault(mapping.get(identity, identity), set()).add(identity)
    assert sorted(map(sorted, groups.values())) == sorted(map(sorted, networkx.connected_components(oracle)))


@given(decided(), st.integers(0, 100))
def test_leaving_out_a_merge_undoes_it_and_nothing_else(
    given_: tuple[list[Concept], list[Edge], list[Merge]], which: int
) -> None:
    concepts, edges, merges = given_
    before = (list(concepts), list(edges))
    merges = [merge for merge in merges if merge.status in ("accepted", "candidate")]
    if not merges:
        return
    left_out = merges[which % len(merges)]
    whole, _, mapping = apply(concepts, edges, merges)
    others = [merge for merge in merges if set(merge[:2]) != set(left_out[:2])]
    part, _, without = apply(concepts, edges, others)
    touched = {mapping.get(identity, identity) for identity in left_out[:2]}
    untouched = [concept for concept in whole if concept.id not in touched]
    assert [concept for concept in part if mapping.get(concept.id, concept.id) not in touched] == untouched
    gone = without.get(left_out.gone, left_out.gone)
    side = {concept.id for concept in concepts if without.get(concept.id, concept.id) == gone}
    if left_out.kept not in side:  # no other merge joins them: each side is as if it were alone
        alone = apply([concept for concept in concepts if concept.id in side], edges, others)[0]
        assert [concept for concept in part if concept.id in side] == alone
    assert (concepts, edges) == before


# ---------------------------------------------------------------- size


def test_the_time_grows_linearly_with_the_number_of_concepts() -> None:
    def unite(size: int) -> None:
        names = [f"{'the ' * (n % 2)}word{n // 2} lemma{'s' * (n % 2)}" for n in range(size)]
        concepts = [Concept(f"{n}", name, aliases=(f"alias {n}",)) for n, name in enumerate(names)]
        edges = [Edge(f"p{n // 10}", "mentions", f"{n}") for n in range(size)]
        united = apply(concepts, edges, propose(concepts, edges))[0]
        assert len(united) == size // 2

    assert is_linear(unite, 4_000)
