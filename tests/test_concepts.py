"""Concepts by rules: candidates, mentions, relations, and the graph that `build_concepts` makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.core.types import Concept, Document, Edge, Graph, Link, Passage
from lemmata.graph.concepts.build import ConceptGraph, build_concepts
from lemmata.graph.concepts.candidates import find_defined_terms, named_results, note_name, title_phrases
from lemmata.graph.concepts.definitions import statement_of
from lemmata.graph.concepts.mentions import find_mentions, name_trie
from lemmata.graph.concepts.prose import is_term
from lemmata.graph.concepts.rank import rank_concepts
from lemmata.graph.concepts.relations import name_relations, sentence_relations
from lemmata.graph.concepts.terms import clean_term, key_of, mask, normal, sentence_spans
from lemmata.graph.store import StoredGraph
from lemmata.ingest.text import read_text

NOETHERIAN = Passage(
    "rings#def",
    "rings",
    "definition",
    "A ring $R$ is called a Noetherian ring if every ideal is finitely generated.",
    raw="A ring $R$ is called a \\emph{Noetherian ring} if every ideal is finitely generated.",
)
RING = Passage(
    "rings#ring",
    "rings",
    "definition",
    "A ring is a set with two operations.",
    raw="A {\\it ring} is a set with two operations.",
)
IDEAL = Passage(
    "rings#ideal",
    "rings",
    "definition",
    "An ideal, also called a kernel subset, is a subgroup closed under products.",
    raw="An \\emph{ideal}, also called a \\emph{kernel subset}, is a subgroup closed under products.",
)
ZORN = Passage("sets#zorn", "sets", "lemma", "Every chain has a bound.", title="Zorn's lemma", proof="Clear.")
MAXIMAL = Passage(
    "rings#max",
    "rings",
    "theorem",
    "Every ring has an ideal.",
    title="Krull",
    proof="By Zorn's lemma and the axioms. This is the theorem of Krull.",
    links=(Link("proof_uses", "zorn", "sets#zorn"),),
)
CORPUS = [RING, IDEAL, NOETHERIAN, ZORN, MAXIMAL]
DOCUMENTS = [Document("rings"), Document("sets")]


def names(graph: ConceptGraph) -> set[str]:
    return {concept.name for concept in graph.concepts}


def edges(graph: ConceptGraph, relation: str) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in graph.edges if edge.relation == relation}


def defined(text: str, raw: str = "", kind: str = "definition") -> set[str]:
    passage = Passage("d#1", "d", kind, text, raw=raw)
    return {find.name for find in find_defined_terms(passage, mask(text), opening=False)}


# ---------------------------------------------------------------- words


def test_a_mask_keeps_offsets_and_letters_joined_to_words() -> None:
    text = "the $q$-binomial of $\\sigma$-algebras over $x^2$"
    assert len(mask(text)) == len(text)
    assert mask(text).split() == ["the", "q-binomial", "of", "σ-algebras", "over", "$$$$$"]


@given(st.text(alphabet="ab $\\{}-.\n", max_size=60))
def test_masking_keeps_the_length_of_any_text_and_sentences_do_not_overlap(text: str) -> None:
    masked = mask(text)
    assert len(masked) == len(text)
    spans = sentence_spans(masked)
    assert all(start < end for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("Rings", "ring"),
        ("Zorn's", "zorn"),
        ("Möbius", "mobius"),
        ("matrices", "matrix"),
        ("topos", "topos"),
        ("classes", "class"),
        ("basis", "basis"),
        ("series", "series"),
        ("σ", "sigma"),
    ],
)
def test_a_word_has_one_normal_form(written: str, form: str) -> None:
    assert normal(written) == form


def test_spellings_that_differ_in_case_hyphen_plural_or_possessive_have_one_key() -> None:
    assert key_of("Quasi-Coherent Sheaves") == key_of("quasi coherent sheaf")
    assert key_of("Bailey's Lemma") == key_of("Bailey lemma")


@pytest.mark.parametrize(
    "phrase",
    [
        "following conditions",
        "$x$ is associated to",
        "the",
        "not",
        "fixed element",
        "A",
        "PSh",
        "if it is flat",
        "good",
    ],
)
def test_generic_phrases_are_no_terms(phrase: str) -> None:
    assert clean_term(mask(phrase)) == ""


@pytest.mark.parametrize(
    ("phrase", "term"),
    [
        ("flat at $x$", "flat"),
        ("the ring of integers of $K$", "ring of integers"),
        ("divided power structure $\\gamma$", "divided power structure"),
        ("tree (set theoretic)", "tree"),
        ("$q$-shifted factorial", "q-shifted factorial"),
    ],
)
def test_a_term_loses_its_variables(phrase: str, term: str) -> None:
    assert clean_term(mask(phrase)) == term


# ---------------------------------------------------------------- candidates


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A ring $R$ is called a local ring if it has one maximal ideal.", "local ring"),
        ("A map is said to be quasi-finite if its fibres are finite.", "quasi-finite"),
        ("We say that $f$ is flat if tensoring is exact.", "flat"),
        ("We call $X$ a Baire space when it is not meagre.", "Baire space"),
        ("This sum is known as the class number formula.", "class number formula"),
        ("By a plane tree we mean a tree with an embedding.", "plane tree"),
        ("The Krull dimension of $R$ is defined as the supremum of lengths.", "Krull dimension"),
        ("Ein Ring heißt noetherscher Ring, wenn jede Kette abbricht.", "noetherscher Ring"),
        ("Eine solche Reihe nennt man eine Potenzreihe.", "Potenzreihe"),
    ],
)
def test_defining_phrases_give_their_term(text: str, name: str) -> None:
    assert name in defined(text, kind="chunk")


def test_a_condition_makes_the_predicate_the_defined_term() -> None:
    assert "group" in defined("A group is a set with a product.")
    assert "domain" not in defined("A domain $R$ is a field if every element is invertible.")


def test_emphasis_gives_terms_in_definitions_but_not_in_other_statements() -> None:
    raw = "Let $k$ be a field. A {\\it Coxeter system} is a pair; it is \\emph{reduced}."
    assert defined("Let $k$ be a field. A Coxeter system is a pair; it is reduced.", raw) >= {
        "Coxeter system",
        "reduced",
    }
    assert defined("It does not hold.", "It does \\emph{not} hold for \\emph{many rings}.", kind="lemma") == set()


def test_emphasis_inside_a_formula_is_no_term() -> None:
    assert defined("The functor.", "The functor $\\textit{Sheaves} \\to \\textit{Groups}$.") == set()


def emphasised(text: str, *terms: str) -> dict[str, str]:
    passage = Passage("d@1", "d", "chunk", text, metadata={"terms": list(terms)})
    return {
        find.name: find.kind for find in find_defined_terms(passage, mask(text), opening=False) if find.rule != "called"
    }


@pytest.mark.parametrize(
    ("text", "term", "expected"),
    [
        ("Such a group is called soluble here.", "soluble", {"soluble": "definition"}),
        (
            "A cyclotomic field $K$ is an extension by roots.",
            "cyclotomic field",
            {"cyclotomic field": "object"},
        ),
        ("A set is meagre if it is a union of thin ones.", "meagre", {"meagre": "definition"}),
        ("We obtain the change of rings functor.", "change of rings", {"change of rings functor": "object"}),
        ("Let us define the star of $A$ by a union.", "star", {"star": "object"}),
        ("Three rules: • cut if it cuts.", "cut", {"cut": "object"}),
        ("By definition it is always true.", "always", {}),
        ("It cannot hold for the same ring.", "same", {}),
        ("See the Counterexamples in Topology, Springer, 1978.", "Counterexamples in Topology", {}),
        ("A smooth curve came up.", "smooth", {}),
        ("It is gone.", "absent", {}),
    ],
)
def test_emphasis_in_prose_gives_terms_where_the_sentence_defines_them(
    text: str, term: str, expected: dict[str, str]
) -> None:
    assert emphasised(text, term) == expected


def test_emphasised_terms_of_prose_are_found_in_order_and_joined_by_or() -> None:
    text = "In a tree a vertex may end. Such a vertex is called a leaf or a terminal vertex."
    passage = Passage("d@1", "d", "chunk", text, metadata={"terms": ["leaf", "terminal vertex"]})
    (find,) = (find for find in find_defined_terms(passage, mask(text), opening=False) if find.rule == "emphasis")
    assert (find.name, find.aliases) == ("leaf", ("terminal vertex",))
    assert find.sentence == text  # `such` refers to the sentence before


def test_emphasis_that_only_introduces_a_term_defines_nothing() -> None:
    text = "This represents the average rate of increase, or speed."
    passage = Passage("d@1", "d", "chunk", text, metadata={"terms": ["average rate"]})
    (find,) = find_defined_terms(passage, mask(text), opening=False)
    assert (find.name, find.rule, find.sentence) == ("average rate", "stress", "")
    graph = build_concepts([passage, RING], [])
    assert "average rate" in names(graph)
    assert edges(graph, "defines") == {("rings#ring", "concept:ring")}


def test_an_emphasised_adjective_includes_its_noun() -> None:
    text = "For $a$ the monomial symmetric function $m_a$ is a sum."
    assert "monomial symmetric function" in defined(text, text.replace("monomial", "\\emph{monomial}"))
    text = "The triangle inequality states that a detour is longer."
    assert "triangle inequality" in defined(text, text.replace("triangle inequality", "\\emph{triangle inequality}"))
    text = "A path associated to $x$ is a map."
    assert "path" in defined(text, text.replace("path", "{\\it path}"))


def test_named_results_are_read_from_running_text() -> None:
    text = "Then by Zorn's lemma and the Cauchy–Schwarz inequality, see Algebra, Lemma, this holds."
    assert [name for name, _ in named_results(text)] == ["Zorn's lemma", "Cauchy–Schwarz inequality"]


@pytest.mark.parametrize(
    ("note", "kind", "name"),
    [
        ("Gordon, 1961", "theorem", "Gordon's theorem"),
        ("Andrews–Garvan", "theorem", "Andrews–Garvan theorem"),
        ("Murnaghan, Nakayama", "theorem", "Murnaghan–Nakayama theorem"),
        ("Hook length formula", "theorem", "Hook length formula"),
        ("Reflection", "principle", "Reflection principle"),
        ("Fundamental theorem", "theorem", ""),
        ("Euler", "corollary", ""),
        ("see [3], p. 7", "theorem", ""),
    ],
)
def test_a_note_names_its_statement(note: str, kind: str, name: str) -> None:
    assert note_name(note, kind)[0] == name


def test_a_title_gives_the_phrases_it_joins() -> None:
    assert title_phrases("Regular rings and global dimension") == ["Regular rings", "global dimension"]
    assert title_phrases("Sums of squares and cubes") == []


@given(st.text(alphabet="aeg sIT.,$\\{}()-em\n", max_size=80))
def test_no_text_breaks_the_reading_of_terms(text: str) -> None:
    marked = Passage("d#1", "d", "definition", text, raw="\\emph{" + text)
    prose = Passage("d@1", "d", "chunk", text, metadata={"terms": [*text.split(), text]})
    for passage in (marked, prose):
        for find in find_defined_terms(passage, mask(text), opening=True):
            assert find.name == " ".join(find.name.split())
            assert key_of(find.name)


# ---------------------------------------------------------------- mentions


def mentioned(text: str, *names: str) -> list[str]:
    masked = mask(text)
    matches = find_mentions(masked, name_trie((name, name) for name in names))
    assert all(match.concept in names for match in matches)
    return [masked[match.start : match.end].strip() for match in matches]


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("Local rings of a ring are rings.", ["ring", "local ring"], ["Local rings", "ring", "rings"]),
        ("A quasi-compact space, a compact-open topology, an $R$-module.", ["compact", "module"], ["module"]),
        ("a k-algebra", ["algebra"], ["algebra"]),
        ("a local $x$ ring; local. Ring", ["local ring"], []),
        ("ad hoc, but AD holds", ["AD"], ["AD"]),  # acronyms need capitals
    ],
)
def test_the_longest_name_is_mentioned_outside_of_formulas_and_joined_words(
    text: str, names: list[str], expected: list[str]
) -> None:
    assert mentioned(text, *names) == expected


@given(st.lists(st.sampled_from("ring local module of the $x$ . -".split()), max_size=30))
def test_mentions_are_in_order_and_do_not_overlap(words: list[str]) -> None:
    masked = mask(" ".join(words))
    matches = find_mentions(masked, name_trie((name, name) for name in ("local ring", "ring", "module of the ring")))
    assert all(first.end <= second.start for first, second in pairwise(matches))
    assert [match for match in matches if match.concept == "local ring"] or "local ring" not in masked


# ---------------------------------------------------------------- relations


def related(sentence: str, *concepts: tuple[str, str]) -> set[tuple[str, str, str]]:
    masked = mask(sentence)
    matches = find_mentions(masked, name_trie((name, name) for name, _ in concepts))
    return {relation[:3] for relation in sentence_relations(masked, 0, len(masked), matches, dict(concepts))}


FIELD, DOMAIN = ("field", "object"), ("domain", "object")
COMPACT, PARACOMPACT = ("compact space", "object"), ("paracompact", "definition")
ZORNS, CHOICE = ("Zorn's lemma", "theorem"), ("axiom of choice", "theorem")


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("A field is a domain with inverses.", {("field", "is_instance_of", "domain")}),
        ("Every field $k$ is a domain.", {("field", "is_instance_of", "domain")}),
        ("A domain $R$ is called a field if it is simple.", {("field", "is_instance_of", "domain")}),
        ("A domain is a field if it is finite.", set()),
        ("A field is not a domain.", set()),
        ("A field is a domain-like thing.", set()),
        ("The domain is a generalization of the field.", {("domain", "generalizes", "field")}),
        ("A field is a special case of a domain.", {("domain", "generalizes", "field")}),
        ("Every compact space is paracompact.", {("compact space", "implies", "paracompact")}),
        ("Zorn's lemma is equivalent to the axiom of choice.", {("Zorn's lemma", "equivalent_to", "axiom of choice")}),
    ],
)
def test_sentences_relate_concepts(sentence: str, expected: set[tuple[str, str, str]]) -> None:
    assert related(sentence, FIELD, DOMAIN, COMPACT, PARACOMPACT, ZORNS, CHOICE) == expected


def test_a_longer_name_is_an_instance_of_its_head_unless_a_word_changes_the_meaning() -> None:
    names = ["ring", "Noetherian ring", "ring of integers", "partial function", "function", "cube-free", "free"]
    relations = name_relations([Concept(name, name) for name in names])
    assert {(relation.source, relation.target) for relation in relations} == {
        ("Noetherian ring", "ring"),
        ("ring of integers", "ring"),
    }


# ---------------------------------------------------------------- the whole graph


def test_a_small_corpus_becomes_the_graph_that_a_reader_would_draw() -> None:
    graph = build_concepts(CORPUS, DOCUMENTS)
    assert names(graph) >= {"ring", "ideal", "Noetherian ring", "Zorn's lemma", "Krull's theorem"}
    noetherian = next(concept for concept in graph.concepts if concept.name == "Noetherian ring")
    assert noetherian.id == "concept:noetherian-ring"
    assert noetherian.description == NOETHERIAN.text
    ideal = next(concept for concept in graph.concepts if concept.name == "ideal")
    assert ideal.aliases == ("kernel subset",)
    assert ("concept:noetherian-ring", "concept:ring") in edges(graph, "is_instance_of")
    assert edges(graph, "uses") >= {
        ("concept:noetherian-ring", "concept:ideal"),
        ("concept:krulls-theorem", "concept:zorns-lemma"),
    }
    assert ("rings#def", "concept:noetherian-ring") in edges(graph, "defines")
    assert ("sets#zorn", "concept:zorns-lemma") in edges(graph, "proves")
    assert ("rings#max", "concept:zorns-lemma") in edges(graph, "mentions")


def test_a_note_with_people_names_a_result_only_if_the_text_uses_the_name() -> None:
    noted = Passage("s#1", "s", "theorem", "Every tableau is good.", title="Stanley, 1971")
    assert names(build_concepts([noted], [])) == set()
    named = Passage("s@1", "s", "chunk", "We come back to Stanley's theorem.")
    credited = Passage("s@2", "s", "chunk", "We come back to the theorem of Stanley.")
    assert names(build_concepts([noted, named], [])) == names(build_concepts([noted, credited], []))
    assert names(build_concepts([noted, named], [])) == {"Stanley's theorem"}


def test_an_empty_corpus_has_no_concepts() -> None:
    assert build_concepts([], []) == ConceptGraph([], [])


def test_every_edge_has_known_ends_evidence_and_maker() -> None:
    graph = build_concepts(CORPUS, DOCUMENTS)
    nodes = {concept.id for concept in graph.concepts} | {passage.id for passage in CORPUS}
    passages = {passage.id for passage in CORPUS}
    for edge in graph.edges:
        assert {edge.source, edge.target} <= nodes
        assert edge.evidence in passages
        assert edge.maker
        assert edge.source != edge.target
    assert len({(edge.source, edge.relation, edge.target) for edge in graph.edges}) == len(graph.edges)


def test_passages_are_read_twice_in_order_and_progress_is_reported() -> None:
    class Stored(list[Passage]):
        """Like a corpus on disk: iteration is cheap, places are not."""

        passes = 0

        def __getitem__(self, place: Any) -> Any:
            raise AssertionError("read by place")

        def __iter__(self) -> Iterator[Passage]:
            self.passes += 1
            return super().__iter__()

    calls: list[tuple[str, int, int | None]] = []
    stored = Stored(CORPUS)
    graph = build_concepts(stored, DOCUMENTS, progress=lambda what, done, total: calls.append((what, done, total)))
    assert graph == build_concepts(CORPUS, DOCUMENTS)
    assert stored.passes == 2
    assert calls[0] == ("candidates", 1, 5)
    assert calls[-1] == ("mentions", 5, 5)


PLANETMATH = [
    Document(
        "a",
        "torsion group",
        metadata={
            "planetmath": {
                "name": "TorsionGroup",
                "type": "Definition",
                "defines": ["torsion element"],
                "synonyms": ["periodic group"],
                "related": ["BurnsideProblem"],
            }
        },
    ),
    Document("b", "Burnside problem", metadata={"planetmath": {"name": "BurnsideProblem", "type": "Definition"}}),
]


def test_declared_metadata_is_used() -> None:
    passages = [Passage("a@1", "a", "chunk", "Nothing is said."), Passage("b@1", "b", "chunk", "Here neither.")]
    graph = build_concepts(passages, PLANETMATH)
    assert names(graph) == {"torsion group", "torsion element", "Burnside problem"}
    group = next(concept for concept in graph.concepts if concept.name == "torsion group")
    assert group.aliases == ("periodic group",)
    assert Edge("concept:torsion-group", "related_to", "concept:burnside-problem", "a@1", "planetmath") in graph.edges


def test_an_article_that_declares_what_it_defines_defines_nothing_else() -> None:
    text = "A torsion element is an element of finite order. A slender group is a group without long chains."
    passages = [Passage("a@1", "a", "chunk", text, metadata={"terms": ["torsion element", "slender group"]})]
    concepts = {concept.name: concept for concept in build_concepts(passages, PLANETMATH[:1]).concepts}
    assert concepts["torsion element"].description == text
    assert not concepts["slender group"].description
    later = [Passage("a@1", "a", "chunk", "Groups are old."), replace(passages[0], id="a@2")]
    assert not any(concept.description for concept in build_concepts(later, PLANETMATH[:1]).concepts)


def test_frequent_phrases_need_words_that_definitions_use() -> None:
    fruit = " and ".join("apples pears plums cherries figs quinces lemons limes dates grapes".split() * 3)
    text = f"The local ring is here. A following step is there. Now {fruit} grow."
    passages = [*CORPUS, Passage("e#l", "e", "definition", "It is local.", raw="It is \\emph{local}.")]
    passages += [Passage(f"e@{number}", "e", "chunk", f"{text} Number {number}.") for number in range(20)]
    graph = build_concepts(passages, DOCUMENTS)
    assert "local ring" in names(graph)
    assert "following step" not in names(graph)


@pytest.mark.parametrize("piece", ["A ring of ", "$x$ ", "Cauchy Schwarz ", "\\emph{", "We call it a ", "the x of "])
def test_the_time_is_linear_in_the_length_of_a_text(piece: str) -> None:
    def build(repeats: int) -> object:
        text = piece * repeats
        passage = Passage("a#1", "a", "definition", text, raw=text, title=text[:300], proof=text)
        prose = Passage("a@1", "a", "chunk", text, metadata={"terms": [piece.strip()] * 20})
        return build_concepts([passage, prose], [Document("a", text[:300])])

    assert is_linear(build, 800)


def test_the_names_of_references_are_no_mentions() -> None:
    spans = {"inserted_references": {"text": [[20, 33]]}}
    inserted = Passage("d#1", "d", "lemma", "Every chain is as in (Zorn's lemma).", metadata=spans)
    shown, hidden = ({edge for edge in build_concepts([*CORPUS, p], DOCUMENTS).edges if edge.source == "d#1"}
                     for p in (replace(inserted, metadata={}), inserted))  # fmt: skip
    assert hidden < shown


# ---------------------------------------------------------------- prose without definitions


def abstracts(*texts: str, title: str = "") -> tuple[list[Passage], list[Document]]:
    passages = [Passage(f"{number}", f"{number}", "abstract", text) for number, text in enumerate(texts)]
    return passages, [Document(passage.id, title) for passage in passages]


def test_prose_gives_long_forms_of_acronyms_frequent_noun_phrases_and_names() -> None:
    texts = [
        "We train a convolutional neural network (CNN) on ImageNet. The gradient descent is slow.",
        "CNNs improve the speech recognition by gradient descent. We use the ImageNet.",
        "For speech recognition, our novel approach uses the gradient descent on ImageNet.",
        "The speech recognition of the proposed method is better. The size of a Vocab varies.",
    ]
    graph = build_concepts(*abstracts(*texts))
    assert names(graph) == {"convolutional neural network", "gradient descent", "speech recognition", "ImageNet"}
    (network,) = (concept for concept in graph.concepts if concept.name.startswith("convolutional"))
    assert network.aliases == ("CNN",)
    mentions = {edge.source for edge in graph.edges if edge.target == network.id and edge.relation == "mentions"}
    assert mentions == {"0", "1"}  # the plural of the acronym, too


@pytest.mark.parametrize(
    "phrase",
    ["novel approach", "experimental results", "large number", "fast algorithm", "future work", "proposed method",
     "human experts", "significant improvement", "state-of-the-art performance", "semantic meaning",
     "graph-based model", "automatic extraction", "size", "parameter k"],
)  # fmt: skip
def test_words_of_any_paper_make_no_term(phrase: str) -> None:
    assert not is_term(phrase.split())


@pytest.mark.parametrize(
    "phrase",
    ["neural network", "gradient descent", "sorting algorithm", "fast Fourier transform", "language model",
     "feature extraction", "partially observable Markov decision process", "hash table", "running time"],
)  # fmt: skip
def test_terms_of_a_field_are_terms(phrase: str) -> None:
    assert is_term(phrase.split())


def test_the_title_of_an_abstract_is_no_note_of_a_statement() -> None:
    text = "We compare methods for the sorting of lists."
    passage = Passage("1", "1", "abstract", text, title="Comparing methods for sorting")
    assert names(build_concepts([passage], [Document("1", "Comparing methods for sorting")])) == set()


def test_a_phrase_of_a_title_is_a_term_where_its_abstract_repeats_it() -> None:
    text = "The tactile sensor is cheap. We calibrate a tactile sensor in the following way."
    passages, documents = abstracts(text, title="Calibration of a tactile sensor")
    assert names(build_concepts(passages, documents)) == {"tactile sensor"}


def test_a_corpus_with_statements_takes_no_phrases_of_prose() -> None:
    words = "apples bread cheese dates eggs fish grapes honey ice".split()
    text = "The gradient descent is used for the {0}. We buy {0} and {0}."
    prose = [Passage(f"p@{number}", "p", "chunk", text.format(word)) for number, word in enumerate(words)]
    assert "gradient descent" in names(build_concepts(prose, []))
    assert "gradient descent" not in names(build_concepts([*prose, ZORN], []))
    assert names(build_concepts([replace(passage, kind="log") for passage in prose], [])) == set()


# ---------------------------------------------------------------- order


def test_concepts_of_the_corpus_come_before_words_that_stand_everywhere() -> None:
    nodes = [f"d@{number}" for number in range(200)]
    concepts = {
        concept.id: concept
        for concept in (
            Concept("concept:map", "map", "object", "A map is a function."),
            Concept("concept:point", "point", "object", ""),
            Concept("concept:precategory", "precategory", "object", "A precategory is a class."),
            Concept("concept:unused", "unused", "object", ""),
        )
    }
    none = np.zeros(0, np.int64)
    kinds = ["passage"] * 200 + ["concept"] * 4
    graph = Graph([*nodes, *concepts], kinds, [], np.zeros(205, np.int64), none, none.astype("i2"), none.astype("f4"))
    stored = StoredGraph(graph, np.array([*range(200), *[-1] * 4]), concepts, {}, "")
    passages = {"concept:map": nodes, "concept:point": nodes, "concept:precategory": nodes[40:50]}
    ranked = [concept.name for concept in rank_concepts(stored, passages)]
    assert ranked == ["precategory", "map", "point", "unused"]


# ---------------------------------------------------------------- definitions


def described(text: str, terms: Sequence[str] = (), index: Sequence[str] = (), kind: str = "chunk") -> dict[str, str]:
    metadata = {"terms": list(terms), "index": [[name] for name in index]}
    passages = [Passage("d#1", "d", kind, text, metadata=metadata)]
    return {concept.name: concept.description for concept in build_concepts(passages, []).concepts}


def test_a_group_is_not_defined_by_a_sentence_that_uses_the_word() -> None:
    use = "Let V and W be group representations. A map between them is a morphism if it commutes."
    definition = "A group is a pair of a set and an operation."
    passages = [
        Passage("d#1", "d", "definition", use, metadata={"terms": ["group", "morphism"]}),
        Passage("d#def:group", "d", "definition", definition, metadata={"terms": ["group"]}),
    ]
    by_name = {concept.name: concept.description for concept in build_concepts(passages, []).concepts}
    assert by_name["group"] == definition
    assert by_name["morphism"] == "A map between them is a morphism if it commutes."


@pytest.mark.parametrize(
    ("sentence", "term"),
    [
        ("A flag is a chain of subspaces.", "flag"),
        ("Flags The flag of a space is the chain of its subspaces.", "flag"),
        ("In geometry, a flag consists of subspaces.", "flag"),
        ("Chains of subspaces we know. These chains are called flags.", "flags"),
        ("We call a chain of subspaces a flag.", "flag"),
        ("A chain is said to be full if nothing can be added.", "full"),
        ("A chain is a flag, or a tower, if it has no gaps.", "flag"),
        ("We use a thing called a flag, which is a chain of subspaces.", "flag"),
    ],
)
def test_a_sentence_about_a_marked_term_defines_it(sentence: str, term: str) -> None:
    (description,) = (
        text for name, text in described(sentence, [term], [term]).items() if key_of(name) == key_of(term)
    )
    assert description == sentence


@pytest.mark.parametrize(
    ("sentence", "term"),
    [
        ("Let V be a flag of the space.", "flag"),
        ("A flag $F$ is called complete if it is long.", "flag"),
        ("We use a new method called flags to prove the theorem.", "flags"),
        ("This should be called a flag by the reader.", "flag"),
        ("Is every chain called a flag?", "flag"),
        ("The unemployment rate is said to be continuous.", "continuous"),
        ("It generalizes the theory of flags when they are long.", "flags"),
        ("The chain here is called a flag variety of the group.", "flag"),
    ],
)
def test_a_sentence_that_only_uses_a_marked_term_does_not_define_it(sentence: str, term: str) -> None:
    names = described(sentence, index=[term])
    assert all(not text for name, text in names.items() if key_of(name) == key_of(term))
    assert key_of(term) in map(key_of, names)


def test_an_announced_list_belongs_to_the_definition() -> None:
    text = "A flag consists of the following data. (1) A space. (2) A chain."
    assert described(text, ["flag"], kind="definition")["flag"] == text


def test_an_index_entry_is_defined_with_the_emphasised_term_in_it() -> None:
    text = "A subgroup is proper if it is not the whole group."
    assert described(text, ["proper"], ["proper subgroup"], "definition")["proper subgroup"] == text


def test_marked_terms_may_be_generic_words() -> None:
    assert {"type", "trivial group", "least squares"} <= described(
        "A type has elements.", index=["type", "trivial group", "least squares"]
    ).keys()


def test_the_heading_above_a_sentence_decides_between_definitions() -> None:
    passages = [
        Passage("a@1", "a", "chunk", "Here $x$ is called a flag.", metadata={"index": [["flag"]]}),
        Passage("b@1", "b", "chunk", "The chain of all subspaces is called a flag.", section="Geometry / Flags"),
    ]
    (flag,) = (concept for concept in build_concepts(passages, []).concepts if concept.name == "flag")
    assert flag.description == "The chain of all subspaces is called a flag."


def test_german_definitions_are_about_their_term() -> None:
    texts = described(
        "Unter einer Fahne versteht man eine Kette. Man nennt $f$ eine Einbettung, falls $f$ injektiv ist.",
        ["Fahne", "Einbettung"],
        kind="definition",
    )
    assert texts["Fahne"] == "Unter einer Fahne versteht man eine Kette."
    assert texts["Einbettung"] == "Man nennt $f$ eine Einbettung, falls $f$ injektiv ist."


def definition_of(term: str, text: str) -> str:
    """The sentence that a passage with one emphasised term gives for it."""
    passage = Passage("a#1", "a", "chunk", text, metadata={"terms": [term]})
    finds = [find for find in find_defined_terms(passage, mask(text), opening=False) if find.name == term]
    return next((find.sentence for find in finds if find.sentence), "")


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("flag", "For example, a flag is a chain of two subspaces of the plane."),
        ("flag variety", "Notice that the Grassmannian is a flag variety if its chains have one step."),
        ("flag variety", "The Grassmannian is a flag variety: it has chains of one step if they are short."),
        ("fast flag", "Two common kinds of chains are called fast flags and slow flags."),
        ("slow flag", "Two common kinds of chains are called fast flags and slow flags."),
        ("box plot", "The box plot is a traditional tool for comparing groups."),
        ("box plot", "A box plot is often used to compare groups of numbers."),
        ("normal curve", "The normal curve always describes a symmetric shape with one peak."),
        ("flag space", "A flag space is roughly a space of chains."),
        ("free factor", "The subgroups $A_i$ are then called the free factors of $G$."),
        ("flag type", "We call the subset $F_G$ the flag type."),
        ("carrier", "$C$ is called the carrier."),
        ("long chain", "If these propositions hold, we call the diagram a long chain of spaces."),
        ("long chain", "There is a unique space with the above properties, and it is known as the long chain."),
        ("long chain", "A long chain is a chain that has the six properties above."),
        ("long chain", "We say that $F$ is a long chain if for all $D$ we merely have such a pair."),
        ("world", "A frame is a pair of a set and a relation, and the elements of the set are called worlds."),
        ("worlds", "A frame is a pair $(W,R)$ with $W$ a set (called the worlds of the frame) and $R$ a relation."),
        ("flag", "By the rules, a flag of finite spaces is a chain of subspaces."),
        ("free group of rank", "A group with a basis is said to be a free group of rank $n$."),
        ("principal", "The principal $G$-torsor is the set $G$ with its own action."),
        ("essentially", "A type is essentially $U$-small if it is equivalent to a type in $U$."),
        ("finite", "A $G$-set is said to be finite if its underlying set is finite."),
        ("flag group", "A flag group is an element of $F$."),
        ("open chain", "We call an open chain $c$ with two ends a path."),
        ("closed", "We call an expression closed if it has no free variables."),
        ("flag theorem", "The flag theorem is a classical example of a principle."),
        ("flag determinant", "The flag determinant of a chain is the determinant of the matrix"),
        ("wide chain", "In the case $n=1$, the wide chains are the lines."),
        ("wide chain", "Any other chain of spaces is called a wide chain."),
        ("flag length", "The flag length from $P$ to $Q$ is the number of steps of $V$."),
        ("deep", "$S$ is called deep if all its subspaces are small."),
        ("flag type", "If a family of spaces is constant, then the series is called a flag type."),
        (
            "flag map",
            "The maps that are induced from the flag maps of spaces are also referred to as flag maps.",
        ),
        ("flag type", "If a family of types is constant, then the type will also be called a flag type."),
        ("flag order", "We say that a pair is a flag order if this preorder is a partial order."),
        ("flag order", "The relation that Proposition 2 has constructed is called the flag order."),
        ("flag sum", "The flag sum of two chains is the same only if they are short."),
        ("set of flags", "The smallest set that satisfies criteria 1-5 and has steps is known as the set of flags."),
        ("flag chain", "Its completion in the sense of order may be called the flag chain."),
        ("flag ring", "A flag ring is a set with a sum (1) that is associative (TBD) and (2) TODO."),
        ("flag sum", "A flag sum is a sum that satisfies the conditions and has two terms."),
        ("flag limit", "Such sums are extensions of a notion. They are called flag limits."),
        ("flag sampling", "Flag sampling is a divide-and-conquer sampling strategy."),
        ("flag selection", "The flag selection is the reverse of the elimination of flags."),
        ("complete flag", "A complete flag is a chain, and the length of a chain is its number of steps."),
        ("flag image", "We define the flag image of a map as $\\sum_{y:B}_{x:A} (y = f(x))$."),
        ("flag path", "We define the flag path of a chain as follows. First we apply induction on its length."),
        ("flag cone", "A flag cone of two spaces is a triple as in the diagram in (1) that is universal."),
        ("flag square", "We depict the type of the square in and call any such square a flag square."),
        ("flag space", "In some literature, a space that is ordered is called a flag space."),
        ("flag trace", "Let $f$ be a map. If $f$ is also continuous, it is called a flag trace."),
        ("flag speed", "Likewise, the flag speed is the limit of the quotient of both."),
        ("positive flag", "One can show that a flag is a positive flag if all its steps are long."),
        ("flag pair", "A flag pair is a pair of elements of $S + T$ that have $U(x) = V(x)$."),
        ("flag line", "The real line under the topology $S$ is called a flag line."),
        ("flag ring", "The flag ring of a field is the set of all chains of its subfields."),
        ("flag chain", "A sequence of primes that grow is called a flag chain of the first kind."),
        ("flag form", "Similarly, a map of two chains is called a flag form if it keeps their steps."),
        ("flag type", "A flag type is a special kind of chain that old books have."),
        ("steady set", "An independent set is sometimes called a steady set or a calm set."),
        ("flag height", "The flag height of a space is the least number of chains of flag height two in it."),
        ("flag plane", "A flag plane is a set with these axioms: (1) it has points that are called its ends."),
        ("flag sum", "The flag sum of a chain of spaces is $1 + R(2)$ times its length."),
        ("categorical variable", "Because these are names, state is called a categorical variable."),
        ("identity homomorphism", "The identity homomorphism is an isomorphism."),
        ("inverse operation", "The lemma shows that we can define an inverse operation from it."),
    ],
)
def test_a_sentence_that_defines_something_else_or_nothing_gives_no_definition(term: str, text: str) -> None:
    assert not definition_of(term, text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Every group $G$ has a flag. (This holds for monoids too.)", "Every group $G$ has a flag."),
        ("For any group $G$ the map TODO is a flag.", ""),
        ("Recall the set $S_x$ of a group $G$ from. Then it is a flag of $G$.", ""),
        ("If $p$ is a prime, then it annihilates the flags of $A$.", ""),
        ("Every odd flag divides the sum $2 B_x + C_x$.", ""),
    ],
)
def test_a_named_result_is_shown_if_it_can_be_understood_by_itself(text: str, shown: str) -> None:
    assert statement_of("flag theorem", text) == shown


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("Residuals", "Residuals are the parts of the data that the model leaves over."),
        ("extrapolation", "Applying a model to values outside of the data is called extrapolation."),
        ("random variable", "We call a process with a numerical outcome a random variable."),
        ("confounder", "Sun is what is called a confounder, which is a variable that two others share."),
        ("infinite cycles", "Let $C$ be the component of a pair $(Z,s)$. Elements of $C$ are called infinite cycles."),
        ("flag bundle", "Let $f$ be a map. $f$ is said to be a flag bundle if its fibres are flags."),
        ("weak chain", "A chain is a weak chain if: (1) it is long. (2) it has no end."),
        ("meagre", "Let $H$ be a group. Many are known. We say that $H$ is meagre if it has no parts."),
        ("weak ring", "A weak ring is a set with a sum and a product. Moreover, the product is associative."),
        ("box plot", "The box plot is a picture of five numbers that summarise the data."),
        ("ordinal variable", "Levels have an order. A variable with these properties is called an ordinal variable."),
        ("isomorphism of groups", "A bijection may keep products. We call such a bijection an isomorphism of groups."),
        ("flag", "A subspace is added in each step. A chain obtained in this way is called a flag."),
        (
            "core",
            "Let $K$ be a set. Given $U$ in $K$, let $K_U$ be its trace. The union of all $K_U$ is called the core.",
        ),
    ],
)
def test_a_definition_comes_with_what_it_needs(term: str, text: str) -> None:
    assert definition_of(term, text) == text


MONO = "An injective homomorphism of groups is called a monomorphism."
SUN = "Sun is what is called a confounder,{} which is a variable that two others share{}."
SHARED = "Let $f(x,!)$ be a map. The flag of $f$ is the chain $(f.)$ of its images."


@pytest.mark.parametrize(
    ("term", "text", "shown"),
    [
        ("monomorphism", f"{MONO} (Others say (rarely) mono.) It is used below.", MONO),
        ("monomorphism", f"We begin. (This is a note. It is long.) {MONO}", MONO),
        ("confounder", SUN.format(" (Or lurker.)", ", see"), SUN.format("", "")),
        ("flag", SHARED, SHARED),
        ("flag", "We know that $a = b.$ A flag is a chain of subspaces.", "A flag is a chain of subspaces."),
        (
            "patients",
            "Volunteers (Most come twice. Human subjects of a study are often called patients. They sign.) were asked.",
            "Human subjects of a study are often called patients.",
        ),
    ],
)
def test_notes_around_a_definition_are_left_out(term: str, text: str, shown: str) -> None:
    assert definition_of(term, text) == shown


SYMBOLS = "Let $G$ be a group with a subgroup $H$."


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("core", f"{SYMBOLS} The core of $H$ in $G$ is the largest normal part in it."),
        ("core", f"{SYMBOLS} It may be finite. The core of $H$ in $G$ is the largest part in it."),
        ("core", f"{SYMBOLS} Many are known. Few are not. Some are easy. The core of $H$ is the largest part in it."),
        ("thin series", "A series is a chain. If in addition it is small, the series is called a thin series."),
        ("data stream", "A data stream is an ordered pair $(s,t)$\n\nwhere $s$ is a list."),
    ],
)
def test_a_definition_comes_with_the_text_that_introduces_its_symbols(term: str, text: str) -> None:
    assert definition_of(term, f"Much is known. {text}") == " ".join(text.split())


def test_an_article_shows_the_paragraph_of_its_definition_and_what_is_short_above_it() -> None:
    above = "The flags below are finite.\n\nIf $x<y$, they are near."
    rest = "Its length is the number of steps. The sum is defined by\n\n$a+b=c.$"
    text = f"{above} If $x<y$, then $x$ is called a low flag. {rest} For example, lines are flags.\n\nFlags are old."
    passage = Passage("a@1", "a", "chunk", text, metadata={"terms": ["low flag"]})
    shown = {find.sentence for find in find_defined_terms(passage, mask(text), opening=True) if find.sentence}
    assert shown == {" ".join(text[: text.index(" For example")].split())}
    text = "Chains are old. A flag is a chain of subspaces. It is finite."  # of any flag: needs nothing above
    passage = Passage("a@1", "a", "chunk", text, metadata={"terms": ["flag"]})
    shown = {find.sentence for find in find_defined_terms(passage, mask(text), opening=True) if find.sentence}
    assert shown == {"A flag is a chain of subspaces. It is finite."}


def test_a_word_that_is_used_long_before_is_not_defined_by_a_special_sense() -> None:
    uses = [Passage(f"d@{number}", "d", "chunk", f"The map number {number} is a good map.") for number in range(20)]
    special = Passage(
        "d#1",
        "d",
        "definition",
        "If $X$ is a torsor, a map from $X$ is a family of shapes.",
        metadata={"terms": ["map"]},
    )
    first = {concept.name: concept.description for concept in build_concepts([special, *uses], []).concepts}
    late = {concept.name: concept.description for concept in build_concepts([*uses, special], []).concepts}
    assert first["map"]
    assert not late["map"]
    prose = [ZORN, MAXIMAL, *uses, replace(special, kind="chunk", text="A map is a family of shapes.")]
    (of_prose,) = (concept for concept in build_concepts(prose, []).concepts if concept.name == "map")
    assert of_prose.description  # nothing else in this book defines it
    titled = {
        concept.name: concept.description
        for concept in build_concepts([*uses, replace(special, section="Maps")], []).concepts
    }
    assert titled["map"] == special.text


@given(st.text(alphabet="ab $.(),:•A", max_size=200))
def test_definitions_are_texts_of_their_passage(text: str) -> None:
    passage = Passage("a#1", "a", "chunk", f"A flag is a chain {text} called a flag of {text}.")
    for find in find_defined_terms(passage, mask(passage.text), opening=False):
        letters = iter(passage.text)  # footnotes and sentences between are left out
        assert all(letter in letters for letter in re.sub(r"\s|…", "", find.sentence))


MANUAL = """# Pumps

- **Relief valve**: a valve that opens when the pressure is too high. It is tested once a year.
- **Duty point** is the point at which two curves cross.
- **NPSH** (net positive suction head): the margin of the pressure over the vapour pressure.
- **Interlock:** A device that prevents a start.
- **Warning**: a hot casing can burn you.
- **Caution:** the coupling turns; a guard must be in place.
- **Start the pump**: press the button for two seconds.
- **No flow**: a valve is closed.
- **Normal run**: the pump runs at its rated speed.
- **Responsible**: the person who signs.
- **P-501**: the first pump of the station.

**Bund wall** – a wall around a tank.

*Surge* is an oscillation of the flow.

A **bund** is a basin below a tank.

By **lockout** we mean the isolation of a machine by a lock.

**Note**: the water must be on. **Step 1**: open the valve of the tank.

| Term | Meaning |
|---|---|
| **Backlash** | the clearance between gear teeth |

# Begriffe der Anlage

- **Sicherheitsventil**: ein Ventil, das öffnet, wenn der Druck in der Leitung zu hoch ist.
- **Hinweis**: der Ölstand muss im Glas sichtbar sein.
- **Störung**: die Pumpe läuft nicht an, weil das Ventil geschlossen ist.

Eine **Auffangwanne** ist ein Becken unter einem Tank, das auslaufendes Öl auffängt.
"""
MEANT = {
    "Relief valve": "Relief valve: a valve that opens when the pressure is too high.",
    "Duty point": "Duty point is the point at which two curves cross.",
    "NPSH": "NPSH (net positive suction head): the margin of the pressure over the vapour pressure.",
    "Interlock": "Interlock: A device that prevents a start.",
    "Bund wall": "Bund wall – a wall around a tank.",
    "Surge": "Surge is an oscillation of the flow.",
    "bund": "A bund is a basin below a tank.",
    "lockout": "By lockout we mean the isolation of a machine by a lock.",
    "Backlash": "Backlash: the clearance between gear teeth",
    "Sicherheitsventil": "Sicherheitsventil: ein Ventil, das öffnet, wenn der Druck in der Leitung zu hoch ist.",
    "Auffangwanne": "Eine Auffangwanne ist ein Becken unter einem Tank, das auslaufendes Öl auffängt.",
}


def test_a_manual_defines_its_terms_but_not_its_warnings_steps_and_fields() -> None:
    found = build_concepts(read_text(MANUAL.encode(), "m", "m.md").passages, []).concepts
    assert {name.casefold(): text for name, text in MEANT.items()} == {
        concept.name.casefold(): concept.description for concept in found
    }
    assert ("net positive suction head",) in {concept.aliases for concept in found}


def test_a_glossary_defines_also_what_it_does_not_mark_and_terms_used_before() -> None:
    uses = "".join(
        f"# Part {number}\n\nCavitation damages the {number}th impeller of this old pump.\n\n" for number in range(30)
    )
    entries = "# Terms\n\n- Cavitation: bubbles in a liquid\n- *Rudder*: controls yaw\n"
    found = build_concepts(read_text(f"{uses}{entries}".encode(), "m", "m.md").passages, []).concepts
    assert {concept.name.casefold(): concept.description for concept in found} == {
        "cavitation": "Cavitation: bubbles in a liquid",
        "rudder": "Rudder: controls yaw",
    }


def test_entries_without_an_article_define_where_others_around_them_do() -> None:
    sure = [f"- **{name} wing**: a wing with {name} struts" for name in ("Box", "Delta", "Parasol")]
    text = "\n".join([*sure, "- **Taper ratio**: ratio of two chords", "- **Trim tab**: reduces the force"])
    found = {concept.name for concept in build_concepts(read_text(text.encode(), "m", "m.md").passages, []).concepts}
    assert {"Taper ratio"} == found - {"Box wing", "Delta wing", "Parasol wing"}
    alone = read_text(text[text.index("- **Taper") :].encode(), "m", "m.md").passages
    assert not build_concepts(alone, []).concepts


def test_items_of_markdown_are_sentences_of_their_own() -> None:
    masked = mask("Rules:\n- a first one\n- a second one\n1. a third one")
    assert [masked[start:end].strip() for start, end in sentence_spans(masked)] == [
        "Rules:",
        "- a first one",
        "- a second one",
        "1. a third one",
    ]


def test_a_name_has_the_kind_of_its_head_where_that_is_sure_or_a_statement_tells() -> None:
    text = "The null hypothesis is called a sharp hypothesis. The Wald test and the score test use Euler's formula."
    uses = [Passage(f"d@{number}", "d", "chunk", f"{text} See the ratio test in part {number}.") for number in range(4)]
    stated = [
        Passage("d#1", "d", "theorem", "A series converges if so.", title="Ratio test"),
        Passage("d#2", "d", "conjecture", "All zeros lie there.", title="Riemann hypothesis"),
        Passage("d#3", "d", "definition", "A test of rank one.", title="Sign test"),
        ZORN,
    ]
    kinds = {concept.name.casefold(): concept.kind for concept in build_concepts([*stated, *uses], []).concepts}
    assert (
        kinds.items()
        >= {
            "sharp hypothesis": "object",
            "wald test": "object",
            "euler's formula": "formula",
            "ratio test": "theorem",
            "riemann hypothesis": "conjecture",
            "sign test": "object",
            "zorn's lemma": "theorem",
        }.items()
    ), kinds
