"""A split in which held-out passages may be positives in training, but never anchors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import MemoryCorpus, run_command

from lemmata.core.errors import LeakageError
from lemmata.core.types import Concept, Document, Edge, Graph, Link, Negative, Pair, Passage, Triplet
from lemmata.core.workspace import Workspace
from lemmata.corpus.split import PARTS, Split, open_split, write_split
from lemmata.corpus.training_files import read_training
from lemmata.graph.links import build_graph, link_edges
from lemmata.mine.audit import inspect_mined, refuse
from lemmata.mine.material import TrainingView, training_view
from lemmata.mine.pairs import PairOptions, mine_pairs
from lemmata.mine.queries.rules import rule_queries
from lemmata.mine.splits import Outline, SplitOptions, split_corpus
from lemmata.mine.triplets import CitationTripletOptions, citation_triplets
from lemmata.project import Project

EVERYTHING = PairOptions(weights={"proof": 1.0})


# ---------------------------------------------------------------- the option


def test_the_option_changes_nothing_but_what_the_split_says_of_itself(tmp_path: Path) -> None:
    corpus = Outline([f"p{n}" for n in range(400)], [f"d{n // 4}" for n in range(400)])
    plain, answering = (split_corpus(corpus, SplitOptions(answers=answers)) for answers in (False, True))
    assert (plain.part == answering.part).all()
    assert not plain.answers
    assert not plain.notes
    assert answering.notes == (
        "held-out passages may be positives in training, never anchors: training sees their texts",
    )
    layout = Workspace(tmp_path)
    for split in (plain, answering):
        write_split(layout, split, {"inputs": "x"})
        assert open_split(layout, "x").answers is split.answers


# ---------------------------------------------------------------- what miners see


PASSAGES = [
    Passage(
        "a#1", "a", "lemma", "one", links=(Link("refers_to", "2", "a#2"), Link("cites", "b", "b"), Link("x", "y"))
    ),
    Passage(
        "a#2", "a", "lemma", "two", "Bailey pair", section="A section", raw=r"two \ref{1}", proof="by one",
        metadata={"tags": ["x"]}, links=(Link("refers_to", "1", "a#1"),),
    ),
    Passage("b#1", "b", "abstract", "three", "A title", links=(Link("refers_to", "1", "a#1"),)),
]  # fmt: skip


def held_out(answers: bool) -> Split:
    part = np.array([0, 2, -1], np.int8)
    return Split(part, np.zeros(3, bool), {"concept:bailey-pair": "test"}, answers=answers)


def test_an_answer_has_only_its_title_and_text() -> None:
    concepts = {"concept:bailey-pair": Concept("concept:bailey-pair", "Bailey pair")}
    seen = training_view(MemoryCorpus(PASSAGES), held_out(answers=True), concepts=concepts)
    assert seen.rows.tolist() == [0]
    assert [row for row, _ in seen.all_passages()] == [0]
    assert dict(seen.row_of) == {"a#1": 0}
    assert dict(seen.answer_of) == {"a#2": 1, "b#1": 2}
    assert list(seen.documents) == ["a"]
    assert seen.passages([1, 2, 0])[:2] == [
        Passage("a#2", "a", "lemma", "two"),
        Passage("b#1", "b", "abstract", "three", "A title"),
    ]
    assert {link.target for link in seen.passages([0])[0].links} == {None}
    assert list(seen.answer_links()) == [(0, "refers_to", "a#2"), (0, "cites", "b")]


def test_without_the_option_there_are_no_answers() -> None:
    seen = training_view(MemoryCorpus(PASSAGES), held_out(answers=False))
    assert not seen.answers.any()
    assert not seen.answer_of
    assert not list(seen.answer_links())
    with pytest.raises(LeakageError):
        seen.passages([1])


def test_only_training_has_answers() -> None:
    seen = training_view(MemoryCorpus(PASSAGES), held_out(answers=True), "test")
    assert not seen.answers.any()
    with pytest.raises(LeakageError):
        seen.passages([0])


# ---------------------------------------------------------------- pairs


def named(shelf: MemoryCorpus, pairs: Iterable[Pair]) -> list[tuple[str, str, str]]:
    ids = shelf.ids()
    return [(p.relation, p.anchor if isinstance(p.anchor, str) else ids[p.anchor], ids[p.positive]) for p in pairs]


def test_links_of_training_lead_to_held_out_rows_and_their_links_lead_nowhere() -> None:
    shelf = MemoryCorpus(PASSAGES)
    seen = training_view(shelf, held_out(answers=True))
    assert named(shelf, mine_pairs(seen, PairOptions())) == [("refers_to", "a#1", "a#2"), ("cites", "a#1", "b#1")]


def test_every_answer_of_a_row_is_a_pair_of_its_own_in_the_order_of_the_ids() -> None:
    links = tuple(Link("proof_uses", name, f"a#{name}") for name in "cbde")
    passages = [Passage("a#a", "a", "lemma", "text a", links=links)]
    passages += [Passage(f"a#{name}", "a", "lemma", f"text {name}") for name in "bcde"]
    passages[3] = replace(passages[3], kind="chunk")  # prose is no statement, wherever it stands
    for part, order in (([0, 2, 1, 2, 0], "ebc"), ([0, 0, -1, 0, 2], "bce")):
        shelf = MemoryCorpus(passages)
        split = Split(np.array(part, np.int8), np.zeros(5, bool), answers=True)
        pairs = named(shelf, mine_pairs(training_view(shelf, split), PairOptions()))
        assert pairs == [("proof_uses", "a#a", f"a#{name}") for name in order]
        turned = MemoryCorpus(passages[::-1])
        split = replace(split, part=split.part[::-1])
        assert pairs == named(turned, mine_pairs(training_view(turned, split), PairOptions()))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[MemoryCorpus, list[Edge], dict[str, Concept], Graph, Split]:
    """A corpus with links of all kinds, titles, sections, proofs, concepts, and any split."""
    size, notions = draw(st.integers(2, 8)), draw(st.integers(0, 2))
    row = st.integers(0, size - 1)
    homes = sorted(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
    ids = [f"d{home}#p{n}" for n, home in enumerate(homes)]
    documents = sorted({f"d{home}" for home in homes})
    concepts = {f"concept:c{n}": Concept(f"concept:c{n}", f"notion c{n}") for n in range(notions)}
    relations = st.sampled_from(["refers_to", "proof_uses", "related_to", "cites"])
    titles = st.sampled_from(["", "Hilbert basis theorem", "Euler product", *(c.name for c in concepts.values())])
    passages = [
        Passage(
            name,
            name.split("#")[0],
            draw(st.sampled_from(["lemma", "lemma", "definition", "abstract", "chunk", "log"])),
            f"We say that thing {n} is regular if every part of it is. Then the number {n} is as large as can be.",
            draw(titles),
            section=draw(st.sampled_from(["", "Regular things", "Large numbers"])),
            proof=f"Proof of {n} by looking at it. " * 9,
            links=tuple(
                Link(draw(relations), "label", draw(st.sampled_from([*ids, *documents, None])))
                for _ in range(draw(st.integers(0, 4)))
            ),
        )
        for n, name in enumerate(ids)
    ]
    about = [
        Document(name, draw(titles) or f"Paper {name}", links=(Link("cites", "", draw(st.sampled_from(documents))),))
        for name in documents
    ]
    edges = list(link_edges(passages, about))
    for name in concepts:
        edges += (Edge(ids[n], "mentions", name, ids[n]) for n in draw(st.lists(row, max_size=3)))
        edges += (Edge(ids[n], "defines", name, ids[n]) for n in draw(st.lists(row, max_size=1)))
    kinds = dict.fromkeys(ids, "passage") | dict.fromkeys(documents, "paper") | dict.fromkeys(concepts, "concept")
    part = np.array(draw(st.lists(st.sampled_from([0, 0, 0, 1, 2, -1]), min_size=size, max_size=size)), np.int8)
    concept_parts = {name: draw(st.sampled_from(("train", "train", *PARTS))) for name in concepts}
    split = Split(part, np.zeros(size, bool), concept_parts)
    return MemoryCorpus(passages, about), edges, concepts, build_graph(edges, kinds), split


def mined(seen: TrainingView) -> list[Pair | Triplet]:
    """What all miners make that need no vectors."""
    citing = CitationTripletOptions(relations="refers_to,proof_uses,cites")
    return [*mine_pairs(seen, EVERYTHING), *rule_queries(seen), *citation_triplets(seen, citing)]


@given(worlds())
def test_no_held_out_row_is_an_anchor_and_only_training_links_lead_to_one(
    world: tuple[MemoryCorpus, list[Edge], dict[str, Concept], Graph, Split],
) -> None:
    shelf, edges, concepts, graph, split = world
    plain = training_view(shelf, split, graph=graph, concepts=concepts, edges=edges)
    before = mined(plain)
    allowing = replace(split, answers=True)
    records = mined(training_view(shelf, allowing, graph=graph, concepts=concepts, edges=edges))
    training = split.rows("train")
    outside = 0
    for record in records:
        pair = record if isinstance(record, Pair) else record.pair
        assert isinstance(record, Pair) or all(training[negative.row] for negative in record.negatives)
        if isinstance(pair.anchor, str):
            assert training[pair.positive]
            continue
        assert training[pair.anchor]
        if not training[pair.positive]:
            outside += 1
            answer = shelf.held[pair.positive]
            named_there = {link.target for link in shelf.held[pair.anchor].links if link.relation == pair.relation}
            assert named_there & {answer.id, answer.document}
    inside = [r for r in records if not isinstance(r, Pair) or training[r.positive]]
    assert inside == before
    result = inspect_mined(records, allowing, shelf, concepts=concepts)
    assert result.answers == outside
    # the texts of these passages are nearly equal, so only what is the very same is looked at
    assert "same_passage" not in result.counts
    assert inspect_mined(records, split, shelf, concepts=concepts).counts.get("same_passage", 0) == len(
        {r.positive for r in records if isinstance(r, Pair) and not training[r.positive]}
    )


# ---------------------------------------------------------------- the audit


SHELF = MemoryCorpus(
    [
        Passage("p0", "d0", "lemma", "every ideal in a union of primes lies in one of them",
                links=(Link("refers_to", "", "p3"), Link("cites", "", "d4"))),
        Passage("p1", "d1", "lemma", "partitions into odd parts are as many as those into distinct parts"),
        Passage("p2", "d2", "lemma", "the pump of column two leaks since this morning and was closed"),
        Passage("p3", "d3", "lemma", "a seal has to be replaced when it is older than its bearing",
                links=(Link("refers_to", "", "p1"),)),
        Passage("p4", "d4", "abstract", "a module over a field is free, whatever its rank may be"),
    ]
)  # fmt: skip
ALLOWING = Split(np.array([0, 0, 0, 2, 1], np.int8), np.zeros(5, bool), answers=True)


def test_answers_that_a_training_link_leads_to_are_counted_and_reported() -> None:
    records = [Pair(0, 3, "structure", "refers_to"), Pair(0, 4, "citations", "cites"), Pair("x", 1, "m")]
    result = inspect_mined(records, ALLOWING, SHELF)
    assert result.clean
    assert result.sentence() == (
        "no leakage found (checked: same anchor, near anchor, same passage, near passage);"
        " held-out passages occur as answers (2 records), as the split allows"
    )
    assert "answers" not in inspect_mined(records[2:], ALLOWING, SHELF).sentence()
    with pytest.raises(LeakageError, match="2 same passage"):
        refuse(inspect_mined(records, replace(ALLOWING, answers=False), SHELF), "pairs")


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (Pair(3, 0, "structure", "refers_to"), "same_passage"),  # as an anchor
        (Pair(3, 1, "structure", "refers_to"), "same_passage"),  # with its own link
        (Pair(1, 3, "structure", "refers_to"), "same_passage"),  # its own link, reversed
        (Pair(0, 3, "structure", "proof_uses"), "same_passage"),  # a link of another kind
        (Pair(0, 3, "graph_triplets", "neighbour"), "same_passage"),
        (Pair("prime avoidance", 3, "structure", "refers_to"), "same_passage"),
        (Pair("old seals", 3, "written", "question"), "same_passage"),
        (Pair("free modules", 4, "structure", "title"), "same_passage"),
        (Triplet(Pair(0, 3, "structure", "refers_to"), (Negative(4, "dense"),)), "same_passage"),
        (Triplet(Pair(0, 1, "structure", "refers_to"), (Negative(3, "dense"),)), "same_passage"),
        (Pair("a seal has to be replaced when it is older than its bearings", 1, "m"), "near_passage"),
    ],
)
def test_anything_else_with_a_held_out_row_is_an_offence(record: Pair | Triplet, kind: str) -> None:
    result = inspect_mined([Pair(0, 3, "structure", "refers_to"), record], ALLOWING, SHELF)
    assert result.counts == {kind: 1}
    assert result.offences[0].train == "1"
    with pytest.raises(LeakageError, match=kind.replace("_", " ")):
        refuse(result, "pairs")


# ---------------------------------------------------------------- on a workspace


@pytest.fixture(scope="module")
def built(qseries: Project) -> Project:
    qseries.split(settings={"method": "stratified"})
    qseries.mine("pairs", name="before")
    qseries.split(settings={"method": "stratified", "answers": True})
    qseries.mine("pairs", name="pairs")
    return qseries


def outside(project: Project) -> set[str]:
    """Ids of all passages that are not for training."""
    corpus = project.corpus
    split = open_split(project, corpus.digest)
    ids = np.array(corpus.ids(), dtype=object)
    corpus.close()
    return set(ids[~split.rows("train")])


@pytest.mark.slow
def test_the_command_has_the_option_and_the_parts_stay_the_same(built: Project) -> None:
    before = outside(built)
    for more in ([], ["-o", "answers=true"]):
        done = run_command("split", "-o", "method=stratified", *more, "-w", built.root)
        assert done.returncode == 0, done.stderr
        content = json.loads(built.manifest(built.split_folder).read_bytes())
        assert content["answers"] is content["options"]["answers"] is bool(more)
        assert outside(built) == before


def test_what_the_command_does_not_say_is_as_configured(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    for number in range(20):
        (tmp_path / f"{number}.md").write_text(
            f"# Note {number}\n\nIt is about the thing {number} alone.\n", encoding="utf-8"
        )
    project.ingest(sorted(tmp_path.glob("*.md")))
    with project.config_file.open("a", encoding="utf-8") as stream:
        stream.write("\n[split]\nvalidation = 0.2\ntest = 0.3\nseed = 5\n")
    for more, test in (([], 0.3), (["-o", "test=0.4"], 0.4)):
        done = run_command("split", "-w", project.root, *more)
        assert done.returncode == 0, done.stderr
        options = json.loads(project.manifest(project.split_folder).read_bytes())["options"]
        assert (options["validation"], options["test"], options["seed"]) == (0.2, test, 5)


def test_a_mined_set_gains_answers_and_loses_nothing(built: Project) -> None:
    before, after = (list(read_training(built.training_file(name))) for name in ("before", "pairs"))
    held = outside(built)
    gained = [record for record in after if record["positive_id"] in held]
    assert len(gained) > 10
    assert [record for record in after if record["positive_id"] not in held] == before
    assert {record["relation"] for record in gained} <= {"refers_to", "proof_uses", "cites"}
    assert not [record for record in after if record["anchor_id"] in held]
    report = built.training_sets()["pairs"]["report"]
    assert report["audit"].endswith(f"held-out passages occur as answers ({len(gained)} records), as the split allows")
    assert built.audit(["pairs"]).clean


@pytest.mark.slow
def test_sets_with_answers_get_negatives_of_training_are_mixed_and_exported(built: Project, tmp_path: Path) -> None:
    held = outside(built)
    built.mine("negatives", of="pairs", name="hard", settings={"negatives": {"number": 2}})
    hard = list(read_training(built.training_file("hard")))
    assert [record for record in hard if record["positive_id"] in held]
    assert not [record for record in hard if held.intersection(record["negative_ids"])]
    text = built.config_file.read_text(encoding="utf-8")
    built.config_file.write_text(text + "\n[mixtures.all]\nweights = { pairs = 1.0 }\n", encoding="utf-8")
    assert Project(built.root).mix("all")["records"] == built.training_sets()["pairs"]["report"]["records"]
    assert built.export_training("hard", tmp_path / "hard.tsv", file_format="tsv") == len(hard)


def test_queries_and_triplets_are_of_training_only(built: Project) -> None:
    held = outside(built)
    built.mine("queries", name="queries")
    built.mine("triplets", name="cited", kind="citations", settings={"citations": {"relations": "refers_to"}})
    for name in ("queries", "cited"):
        for record in read_training(built.training_file(name)):
            assert not held & {record["anchor_id"], record["positive_id"], *record["negative_ids"]}
