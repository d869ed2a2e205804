"""Summaries in the index: the score against brute force, and everything about them in a workspace."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.embedding_server import CountingServer
from tests.llm_server import Server
from tests.make import InterruptedEncoder, copied, lemmata

from lemmata.core.errors import InputError, LeakageError, LemmataError, WorkspaceError
from lemmata.core.types import Floats, Integers, Mask
from lemmata.core.workspace import read_manifest, vector_sets, write_manifest
from lemmata.corpus.leakage import repeats
from lemmata.encode.hashing import HashingEncoder
from lemmata.evaluate.tasks import task_from
from lemmata.llm.endpoint import Limits
from lemmata.project import Project
from lemmata.search.filter import Filter
from lemmata.search.summaries.score import SummaryIndex
from lemmata.search.summaries.store import open_summaries
from lemmata.search.summaries.texts import encode_summaries
from lemmata.server.service import Service
from lemmata.vectors.ann import AnnIndex
from lemmata.vectors.exact import ExactIndex
from lemmata.vectors.fill import SHARD

# ---------------------------------------------------------------- the score


class Hinting:
    """An exact index that is not known to be one, so that it only proposes candidates."""

    def __init__(self, matrix: Floats) -> None:
        self.exact = ExactIndex(matrix)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]:
        return self.exact.search(queries, k, allowed)


def brute_force(
    queries: Floats, passages: Floats, summaries: Floats, rows: Integers, hidden: Mask, allowed: Mask, k: int
) -> tuple[list[list[int]], list[list[float]]]:
    """Passages and scores, by the definition, one passage at a time."""
    ranked, scored = [], []
    for query in queries:
        scores = {}
        for row in np.flatnonzero(allowed).tolist():
            own = float(passages[row] @ query)
            told = [float(summaries[place] @ query) for place in np.flatnonzero((rows == row) & ~hidden)]
            scores[row] = max(own, (own + max(told)) / 2) if told else own
        best = sorted(scores, key=lambda row: (-scores[row], row))[:k]
        ranked.append(best)
        scored.append([scores[row] for row in best])
    return ranked, scored


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 40),
    told=st.integers(1, 60),
    k=st.integers(1, 12),
    is_exact=st.booleans(),
    masked=st.booleans(),
)
def test_the_best_passages_are_those_of_brute_force(
    seed: int, count: int, told: int, k: int, is_exact: bool, masked: bool
) -> None:
    generator = np.random.default_rng(seed)
    # small whole numbers: every sum is exact, and there are many ties
    passages, summaries, queries = (
        generator.integers(-3, 4, (number, 3)).astype(np.float32) for number in (count, told, 4)
    )
    rows = np.sort(generator.integers(0, count, told))
    hidden = generator.random(told) < (0.3 if masked else 0)
    allowed = generator.random(count) < (0.6 if masked else 1)
    kind = ExactIndex if is_exact else Hinting
    index = SummaryIndex(kind(passages), passages, kind(summaries), summaries, rows).hiding(hidden)
    found, scores = index.search(queries, k, allowed if masked else None)
    expected_rows, expected_scores = brute_force(queries, passages, summaries, rows, hidden, allowed, k)
    for number, expected in enumerate(expected_rows):
        assert found[number].tolist() == expected + [-1] * (k - len(expected))
        assert scores[number, : len(expected)].tolist() == expected_scores[number]
        assert np.isneginf(scores[number, len(expected) :]).all()


def test_blocks_of_passages_with_many_summaries_are_put_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    passages, summaries = (generator.integers(-3, 4, (n, 3)).astype(np.float32) for n in (300, 900))
    rows = np.sort(generator.integers(0, 300, 900))
    queries = passages[:5]
    index = SummaryIndex(ExactIndex(passages), passages, ExactIndex(summaries), summaries, rows)
    whole = index.search(queries, 20)
    monkeypatch.setattr("lemmata.search.summaries.score._BLOCK_ROWS", 64)
    for part, expected in zip(index.search(queries, 20), whole, strict=True):
        np.testing.assert_array_equal(part, expected)


def test_neighbour_graphs_of_both_matrices_find_nearly_the_same(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)

    def unit(matrix: npt.NDArray[Any]) -> Floats:
        return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), np.float32)

    passages = unit(generator.standard_normal((1000, 24)))
    rows = np.sort(generator.integers(0, 1000, 1300))
    summaries = unit(passages[rows] + 0.8 * unit(generator.standard_normal((1300, 24))))
    queries = unit(summaries[::65] + 0.3 * unit(generator.standard_normal((20, 24))))
    exact = SummaryIndex(ExactIndex(passages), passages, ExactIndex(summaries), summaries, rows)
    near = SummaryIndex(
        AnnIndex.build(passages, tmp_path / "p.faiss", threads=1),
        passages,
        AnnIndex.build(summaries, tmp_path / "s.faiss", threads=1),
        summaries,
        rows,
    )
    for allowed in (None, generator.random(1000) < 0.5):
        expected, scores = exact.search(queries, 10, allowed)
        found, found_scores = near.search(queries, 10, allowed)
        shared = [len(set(one) & set(other)) for one, other in zip(found.tolist(), expected.tolist(), strict=True)]
        assert sum(shared) >= 0.98 * expected.size
        same = found == expected
        np.testing.assert_allclose(found_scores[same], scores[same], rtol=1e-5)


def test_a_passage_that_is_third_by_itself_and_by_its_summary_may_be_the_best() -> None:
    passages = np.array([[0.9], [0.9], [0], [0], [0.89], [0], [0]], np.float32)
    summaries, rows = np.array([[1], [1], [0.99], [0]], np.float32), np.array([2, 3, 4, 5])
    index = SummaryIndex(Hinting(passages), passages, Hinting(summaries), summaries, rows)
    found, scores = index.search(np.ones((1, 1), np.float32), 1)
    assert found.tolist() == [[4]]
    assert scores[0, 0] == pytest.approx(0.94)


def test_summaries_of_unknown_passages_are_refused() -> None:
    one = np.ones((1, 2), np.float32)
    with pytest.raises(InputError, match="1 summaries"):
        SummaryIndex(ExactIndex(one), one, ExactIndex(one), one, np.array([1]))


# ---------------------------------------------------------------- texts that repeat a query


def test_a_text_that_says_the_same_repeats_a_query_and_one_on_the_same_subject_does_not() -> None:
    queries = ["When is a finitely generated module over a local ring free?", "five divides p(5n+4)"]
    texts = [
        "when is a finitely generated  module over a local ring free",
        "over a local ring, when is a finitely generated module free?",
        "When is a finitely presented module over a local ring free?",
        "When is a module over a principal ideal domain free?",
        "Five divides p ( 5n + 4 ).",
        "eleven divides p(11n+6)",
        "",
    ]
    assert repeats(texts, queries).tolist() == [True, True, True, False, True, False, False]
    assert repeats(texts, []).tolist() == [False] * 7
    assert repeats([], queries).tolist() == []


# ---------------------------------------------------------------- in a workspace

PASSAGES = {
    "lagrange": "The order of a subgroup H divides the order of the finite group G.",
    "nakayama": "If M is finite and IM = M for I in the radical, then M = 0.",
    "euler": "Partitions into odd parts and into distinct parts are equally many.",
    "pump": "P7 undicht, Dichtung neu.",
}
TOLD = [
    {"id": "nakayama", "text": "lemma on generators over a local ring"},
    {"id": "nakayama", "text": "modulo the maximal ideal nothing is lost"},
    {"id": "pump", "text": "liquid on the floor below the distillation"},
    {"id": "pump", "text": " Liquid on  the floor below the distillation "},
    {"id": "gone", "text": "about nothing here"},
    {"id": "euler", "text": " "},
]


def definitions() -> list[dict[str, str]]:
    """Passages that rules can ask about."""
    adjectives = "normal regular simple perfect cyclic solvable nilpotent graded finite compact".split()
    names = [(adjective, noun) for adjective in adjectives for noun in ("group", "ring", "module", "graph")]
    return [
        {
            "id": f"s{number}",
            "kind": "definition",
            "title": f"{adjective.capitalize()} {noun}",
            "text": f"A {noun} is called {adjective} if every chain of its {number} parts ends after a while.",
        }
        for number, (adjective, noun) in enumerate(names)
    ]


def write_lines(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def ingest(project: Project, folder: Path, passages: Mapping[str, str]) -> None:
    project.ingest([write_lines(folder / "p.jsonl", [{"id": name, "text": text} for name, text in passages.items()])])


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "told.jsonl", TOLD)


def ingested(folder: Path) -> Project:
    project = Project.init(folder / "w")
    ingest(project, folder, PASSAGES)
    return project


project = copied(ingested)


@copied
def indexed(folder: Path) -> Project:
    project = ingested(folder)
    project.index(settings={"encoder": "hashing", "summaries": str(write_lines(folder / "told.jsonl", TOLD))})
    return project


def first(project: Project, query: str, **more: object) -> str:
    with project.retriever() as retriever:
        return retriever.search(query, 1, retriever="dense", **more)[0].id  # type: ignore[arg-type]


def by_words(project: Project, query: str) -> list[str]:
    with project.retriever() as retriever:
        return [hit.id for hit in retriever.search(query, 9, retriever="lexical")]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named from the current folder."""
    monkeypatch.chdir(tmp_path)


LIQUID = "liquid below the distillation"


def test_a_passage_is_found_by_what_a_summary_says_about_it(project: Project, told: Path) -> None:
    project.index(settings={"encoder": "hashing"})
    before = first(project, LIQUID)
    assert before != "pump"
    report = project.index(settings={"summaries": str(told)})["summaries"]
    assert report == {
        "summaries": 3,
        "passages": 2,
        "sources": [{"name": "../told.jsonl", "author": "imported", "summaries": 3}],
        "left_out": {"empty": 1, "of no passage": 1, "repeated": 1},
        "encoded": 3,
        "neighbours": "exact",
    }
    assert first(project, LIQUID) == "pump"
    only = Filter(documents=("lagrange", "nakayama"))
    assert first(project, LIQUID, filter=only) in ("lagrange", "nakayama")
    assert project.index()["summaries"]["encoded"] == 0  # they stay until others are chosen
    assert first(project, LIQUID) == "pump"
    assert project.index(settings={"summaries": "none"})["dropped_summaries"] == ["hashing"]
    assert first(project, LIQUID) == before
    assert "summaries" not in project.index()


def test_words_of_summaries_find_their_passages(project: Project, told: Path, tmp_path: Path) -> None:
    passages = PASSAGES | {definition["id"]: definition["text"] for definition in definitions()}
    ingest(project, tmp_path, passages)
    project.index(settings={"encoder": "hashing"})
    assert by_words(project, "local, distillation") == []
    report = project.index(settings={"summaries": str(told)})
    assert report["tokenised"] == 2  # only the passages that have a summary
    assert set(by_words(project, "local, distillation")) == {"nakayama", "pump"}
    assert by_words(project, "undicht") == ["pump"]  # their own words stay
    assert project.index()["tokenised"] == 0
    write_lines(told, [{"id": "euler", "text": "a bijection of Glaisher"}])
    assert project.index()["tokenised"] == 1  # two are again what they were before any summary
    assert by_words(project, "local, distillation, bijection of Glaisher") == ["euler"]
    fresh = Project.init(tmp_path / "fresh")
    ingest(fresh, tmp_path, passages)
    fresh.index(settings={"encoder": "hashing", "summaries": str(told)})
    with project.retriever() as grown, fresh.retriever() as built:
        for query in ("bijection", "order of parts", "M"):
            (rows, scores), (expected, others) = (one.lexical.search([query], 4) for one in (grown, built))
            assert (rows.tolist(), scores.tolist()) == (expected.tolist(), others.tolist())
    project.index(settings={"summaries": "none"})
    assert by_words(project, "bijection of Glaisher") == []
    assert not project.lexical_summaries.exists()


def test_summaries_beside_a_corpus_are_no_passages(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    write_lines(folder / "corpus-1.jsonl", [{"id": "a", "text": "one"}])
    write_lines(folder / "summaries.jsonl", TOLD)
    report = project.ingest([folder])
    assert (report.added, report.failed) == (1, 0)


def test_a_summary_that_repeats_no_query_counts_for_words(project: Project, tmp_path: Path) -> None:
    told = write_lines(tmp_path / "told.jsonl", [{"id": "pump", "text": "drips"}, {"id": "euler", "text": "Glaisher"}])
    project.index(settings={"encoder": "hashing", "summaries": str(told)})
    task = task_from("t", {"q1": "something drips here", "q2": "Glaisher"}, {"q1": {"pump": 1}, "q2": {"euler": 1}})
    values = project.evaluate(task, retrievers=["lexical"]).retrievers["lexical"]["MRR@10"]
    assert values.tolist() == [1.0, 0.0]


def test_similar_passages_and_mining_do_not_look_at_summaries(indexed: Project) -> None:
    with indexed.retriever() as retriever:
        assert isinstance(retriever.dense().index, ExactIndex)
        assert isinstance(retriever.dense().query_index, SummaryIndex)
        with_summaries = [(hit.id, hit.score) for hit in retriever.similar("euler")]
    indexed.index(settings={"summaries": "none"})
    with indexed.retriever() as retriever:
        assert [(hit.id, hit.score) for hit in retriever.similar("euler")] == with_summaries


def test_only_new_texts_are_encoded_and_those_of_deleted_passages_are_dropped(
    indexed: Project, told: Path, tmp_path: Path
) -> None:
    before = open_summaries(indexed)
    assert before is not None
    kept = {text: before.matrix[place].copy() for place, text in enumerate(before.texts())}
    write_lines(told, [*TOLD, {"id": "euler", "text": "a bijection between two kinds of partitions"}])
    ingest(indexed, tmp_path, {"new": "A new passage in front.", **PASSAGES} | {"pump": "Another text."})
    assert indexed.index()["summaries"] | {"sources": 0, "left_out": 0} == {
        "summaries": 4,
        "passages": 3,
        "sources": 0,
        "left_out": 0,
        "encoded": 1,
        "neighbours": "exact",
    }
    after = open_summaries(indexed)
    assert after is not None
    for place, text in enumerate(after.texts()):
        if text in kept:
            np.testing.assert_array_equal(after.matrix[place], kept[text])
    assert first(indexed, LIQUID) == "pump"  # rows moved, and the summaries with them
    ingest(indexed, tmp_path, {name: text for name, text in PASSAGES.items() if name != "pump"})
    report = indexed.index()["summaries"]
    assert (report["summaries"], report["encoded"], report["left_out"]["of no passage"]) == (3, 0, 3)
    ingest(indexed, tmp_path, {"other": "Nothing that was told about."})
    with pytest.raises(InputError, match=r"\.\./told\.jsonl .*--summaries"):
        indexed.index()
    indexed.index(settings={"summaries": "none"})


def test_search_refuses_summaries_of_another_corpus(indexed: Project, tmp_path: Path) -> None:
    ingest(indexed, tmp_path, {**PASSAGES, "new": "One more."})
    vectors = indexed.encoder_folder("hashing")
    shutil.copytree(vectors / "summaries", tmp_path / "old")
    indexed.index()
    shutil.rmtree(vectors / "summaries")
    shutil.copytree(tmp_path / "old", vectors / "summaries")
    with pytest.raises(WorkspaceError, match="'lemmata index'"):
        first(indexed, LIQUID)
    assert indexed.show("pump")["problem"].startswith("the corpus changed since the summary index was made")
    indexed.index()
    assert first(indexed, LIQUID) == "pump"


@pytest.mark.parametrize("file", ["matrix.npy", "rows.npy", "content.npy", "manifest.json"])
def test_damaged_summaries_are_noticed_and_made_again(indexed: Project, file: str) -> None:
    path = indexed.encoder_folder("hashing") / "summaries" / file
    path.write_bytes(path.read_bytes()[:-3] + b"xx")
    with pytest.raises(WorkspaceError, match="lemmata index"):
        first(indexed, LIQUID)
    assert any("damaged" in problem for problem in indexed.info()["problems"])
    if file == "manifest.json":  # what was chosen is no longer known
        with pytest.raises(WorkspaceError, match="lemmata index --summaries"):
            indexed.index()
        indexed.config_file.write_text('[index]\nsummaries = "../told.jsonl"\n')
    Project(indexed.root).index()
    assert first(indexed, LIQUID) == "pump"


def test_an_interrupted_encoding_of_summaries_resumes_and_search_goes_on_meanwhile(
    project: Project, told: Path, tmp_path: Path
) -> None:
    project.index(settings={"encoder": "hashing", "summaries": str(told)})
    many = write_lines(
        tmp_path / "many.jsonl", [{"id": "euler", "text": f"text number {n}"} for n in range(SHARD + 41)]
    )
    corpus = project.corpus

    def encode(encoder: InterruptedEncoder) -> int:
        with project.hold():
            more = corpus, f"../{many.name}", encoder, "hashing"
            return int(encode_summaries(project, *more)["encoded"])  # type: ignore[arg-type]

    begun = InterruptedEncoder(SHARD + 32)  # 32 texts tell how long the others will take
    with pytest.raises(KeyboardInterrupt):
        encode(begun)
    assert first(project, LIQUID) == "pump"
    resumed = InterruptedEncoder(10**9)
    assert encode(resumed) == 9
    assert begun.encoded + resumed.encoded == SHARD + 41
    stored = open_summaries(project)
    assert stored is not None
    np.testing.assert_array_equal(stored.matrix, HashingEncoder(32).encode(list(stored.texts())))
    corpus.close()


def test_large_sets_of_summaries_get_a_neighbour_index(indexed: Project) -> None:
    corpus = indexed.corpus
    encoder = HashingEncoder()
    with indexed.hold():
        more = corpus, "../told.jsonl", encoder, "hashing"
        assert encode_summaries(indexed, *more, more_than=2)["neighbours"] == "ann"
    with indexed.retriever() as retriever:
        assert isinstance(retriever.dense().query_index._summaries, AnnIndex)  # type: ignore[attr-defined]
    assert first(indexed, LIQUID) == "pump"
    corpus.close()
    indexed.index()  # three need none
    assert not (indexed.encoder_folder("hashing") / "summaries_ann").exists()


def test_a_choice_holds_for_all_encoders(indexed: Project) -> None:
    task = task_from("t", {"q": LIQUID}, {"q": {"pump": 1}})
    report = indexed.evaluate(task, retrievers=["dense", "dense:lemmata-nano"])
    assert report.retrievers["dense"]["MRR@10"].tolist() == [1.0]
    assert [one["summaries"]["summaries"] for one in indexed.info()["vectors"]] == [3, 3]
    assert indexed.index(settings={"encoder": "lemmata-nano"})["summaries"]["encoded"] == 0
    indexed.index(settings={"summaries": "none"})
    assert [one["summaries"]["summaries"] for one in indexed.info()["vectors"]] == [0, 0]


def test_an_encoder_without_the_summaries_is_refused_with_the_command(indexed: Project) -> None:
    indexed.index(settings={"encoder": "lemmata-nano", "summaries": "none"})
    indexed.index(settings={"encoder": "hashing", "summaries": "told.jsonl"})
    with indexed.retriever() as retriever:
        assert retriever.search(LIQUID, 1, retriever="dense")[0].id == "pump"
        with pytest.raises(WorkspaceError, match=r"lemmata-nano .*'lemmata index --encoder"):
            retriever.search(LIQUID, 1, retriever="dense:lemmata-nano")


def test_summaries_and_vectors_of_another_model_are_refused_and_made_again(indexed: Project) -> None:
    (vectors,) = vector_sets(indexed)
    manifest = read_manifest(vectors.summaries / "manifest.json") or {}
    write_manifest(vectors.summaries / "manifest.json", {**manifest, "made_by": "another"})
    with indexed.retriever() as retriever, pytest.raises(WorkspaceError, match="another"):
        retriever.search(LIQUID, 1, retriever="dense")
    assert indexed.index()["summaries"]["encoded"] == 3
    assert first(indexed, LIQUID) == "pump"


def test_a_summary_is_shown_as_text(project: Project, tmp_path: Path) -> None:
    told = write_lines(tmp_path / "told.jsonl", [{"id": "pump", "text": "liquid <b onclick=x>below</b> it"}])
    project.index(settings={"encoder": "hashing", "summaries": str(told)})
    service = Service(project.root)
    (summary,) = service.passage("pump")["summaries"]
    service.close()
    assert summary["html"] == "liquid &lt;b onclick=x&gt;below&lt;/b&gt; it"


LEMMAS = {
    "a#lemma-1": "The pump of the column runs dry.",
    "a#lemma-2": "Every finite group of prime order is cyclic.",
    "a#lemma-3": "Partitions into odd parts are as many as into distinct ones.",
}


def test_summaries_follow_their_texts_when_ids_move(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    told = [("a#lemma-1", "lubrication schedule"), ("a#lemma-2", "orders without divisors")]
    write_lines(tmp_path / "told.jsonl", [{"id": identity, "text": text} for identity, text in told])

    def found(texts: list[str]) -> tuple[list[str], dict[str, int]]:
        """The texts that the two summaries find, and why some were left out."""
        ingest(project, tmp_path, {f"a#lemma-{number}": text for number, text in enumerate(texts, 1)})
        report = project.index(settings={"encoder": "hashing", "summaries": "../told.jsonl"})
        with project.retriever() as retriever:
            words = [retriever.search(text, 1, retriever="lexical") for _, text in told]
            near = [retriever.search(text, 1, retriever="dense") for _, text in told]
        assert all(one == [] or one[0].id == other[0].id for one, other in zip(words, near, strict=True))
        return [hit.text for each in words for hit in each], report["summaries"]["left_out"]

    pump, group, parts = LEMMAS.values()
    assert found([pump, group, parts]) == ([pump, group], {})
    weather = "A new statement about the weather."
    assert found([weather, pump, group, parts]) == ([pump, group], {})
    edited = "The pump of the column often runs dry."
    assert found([edited, group, parts]) == ([edited, group], {})  # it is nowhere else, and has the id still
    assert found([edited, group, parts, weather]) == ([edited, group], {})
    assert found([group, parts]) == ([group], {"of a passage that another took the id of": 1})
    assert found([edited, group]) == ([edited, group], {})  # it is there again


def test_vectors_that_are_made_again_keep_the_summaries(indexed: Project) -> None:
    before = indexed.info()["vectors"][0]["summaries"]
    vectors = indexed.dense_folder / "hashing" / "vectors"
    (vectors / "matrix.npy").write_bytes((vectors / "matrix.npy").read_bytes()[:200])
    indexed.index(settings={"encoder": "hashing"})
    assert indexed.verify().is_whole
    assert indexed.info()["vectors"][0]["summaries"] == before


def test_a_changed_byte_in_the_texts_that_summaries_were_taken_for_is_found_and_made_again(indexed: Project) -> None:
    file = indexed.summary_bindings
    content = file.read_bytes()
    file.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    [problem] = indexed.verify().problems
    assert (problem.path, problem.what, problem.command) == (file, "damaged", "lemmata index")
    file.unlink()  # as the sentence says
    indexed.index()
    assert file.read_bytes() == content
    assert indexed.verify().is_whole


def test_other_summaries_drop_the_fitted_weights(indexed: Project, tmp_path: Path) -> None:
    task = task_from("t", {"q1": "order of a group", "q2": "odd parts"}, {"q1": {"lagrange": 1}, "q2": {"euler": 1}})
    indexed.tune(task)
    assert "dropped_fusion" not in indexed.index()
    write_lines(tmp_path / "told.jsonl", TOLD[:3])  # the same source: the weights stay
    assert "dropped_fusion" not in indexed.index()
    assert indexed.index(settings={"summaries": "none"})["dropped_fusion"]
    assert "dropped_fusion" not in indexed.index(settings={"summaries": "told.jsonl"})


def test_show_and_info_list_summaries_with_their_authors(indexed: Project) -> None:
    root = indexed.root
    shown = json.loads(lemmata("show", "nakayama", "-w", root, "--json"))
    assert shown["summaries"] == [
        {"text": TOLD[0]["text"], "author": "imported", "source": "../told.jsonl"},
        {"text": TOLD[1]["text"], "author": "imported", "source": "../told.jsonl"},
    ]
    assert "imported lemma on generators over a local ring" in lemmata("show", "nakayama", "-w", root)
    assert json.loads(lemmata("show", "euler", "-w", root, "--json"))["summaries"] == []
    summaries = json.loads(lemmata("info", "-w", root, "--json"))["vectors"][0]["summaries"]
    assert (summaries["summaries"], summaries["passages"]) == (3, 2)
    assert summaries["bytes"] > 3 * 256 * 4


def test_the_command_takes_tables_and_refuses_what_is_neither_a_set_nor_a_file(
    project: Project,
    tmp_path: Path,
) -> None:
    table = tmp_path / "told.tsv"
    table.write_text("query\tid\nliquid below the distillation\tpump\n")
    root = project.root
    said = lemmata("index", "-w", root, "--encoder", "hashing", "--summaries", table)
    assert "../told.tsv" in said
    assert "3 passages have no summary and rank lower than before, relative to the others" in said
    assert "dropped summaries  hashing" in lemmata("index", "-w", root, "--summaries", "none")
    error = lemmata("index", "-w", root, "--summaries", "writen", code=1)
    assert "there is no training set 'writen' to take summaries from (there are: none yet)" in error
    error = lemmata("index", "-w", root, "--summaries", table, "--no-dense", code=1)
    assert "--summaries needs vectors" in error
    error = lemmata("index", "-w", root, "--encoder", "hashing", "--no-dense", code=1)
    assert "--encoder needs vectors" in error
    with pytest.raises(InputError, match="'missing'"):
        project.index(settings={"summaries": f"{table},missing"})


# ---------------------------------------------------------------- authors


def test_summaries_carry_the_author_of_their_training_set(project: Project, tmp_path: Path) -> None:
    project.ingest([write_lines(tmp_path / "d.jsonl", definitions())])
    project.index(settings={"encoder": "hashing"})
    model = Server(tmp_path / "journal")
    model.script(answer=json.dumps({"question": "How long is it?", "keyword": "long chain", "slogan": "Chains end."}))
    try:
        project.mine("queries", name="asked", part="all")
        settings = {"model": "wise-7b", "url": model.url}
        written = project.write_queries(Limits(calls=100), name="written", model=settings, part="all")
        project.split(settings={"validation": 0.1, "test": 0.1})
        answered = {"id": "lagrange", "text": "subgroup order"}
        project.import_queries(write_lines(tmp_path / "q.jsonl", [{**answered, "id": name} for name in PASSAGES]))
        project.index(settings={"summaries": "written,asked,imported"})
    finally:
        model.kill()
    sources = project.info()["vectors"][0]["summaries"]["sources"]
    assert [(source["name"], source["author"]) for source in sources] == [
        ("written", "wise-7b"),
        ("asked", "rules"),
        ("imported", "imported"),
    ]
    assert sources[0]["summaries"] == written["records"] > 0
    assert sources[1]["summaries"] > 0


def test_queries_for_all_passages_need_no_split_and_are_refused_as_training_data(
    project: Project, tmp_path: Path
) -> None:
    project.ingest([write_lines(tmp_path / "d.jsonl", definitions())])
    project.index(settings={"encoder": "hashing"})
    report = project.mine("queries", name="everything", part="all")
    assert report["audit"].startswith("not audited")
    project.split(settings={"validation": 0.2, "test": 0.2})
    project.mine("queries", name="train")
    assert report["records"] > project.training_sets()["train"]["report"]["records"]
    assert project.audit().sets == ["train"]
    for use in (
        lambda: project.audit(["everything"]),
        lambda: project.mine("negatives", of="everything", name="x"),
        lambda: project.finetune("t", settings={"sets": {"everything": 1.0}, "base": "lemmata-mini"}),
        lambda: project.export_training("everything", tmp_path / "out.parquet"),
    ):
        with pytest.raises(LeakageError, match="'everything'"):
            use()
    assert not [problem for problem in project.info()["problems"] if "everything" in problem]
    with pytest.raises(LemmataError, match="'validation'"):
        project.mine("queries", part="validation")
    with pytest.raises(LemmataError, match="--part all"):
        project.mine("pairs", part="all")
    assert project.index(settings={"summaries": "everything"})["summaries"]["passages"] > 20


# ---------------------------------------------------------------- honest figures


def test_a_summary_that_repeats_a_test_query_does_not_count(project: Project, tmp_path: Path) -> None:
    told = write_lines(tmp_path / "told.jsonl", [*TOLD, {"id": "euler", "text": "Why is this counted twice?"}])
    project.index(settings={"encoder": "hashing", "summaries": str(told)})
    texts = {"q1": "liquid on the floor, below the distillation", "q2": "why is this counted twice"}
    task = task_from("t", texts, {"q1": {"pump": 1}, "q2": {"euler": 1}})
    assert first(project, texts["q1"]) == "pump"
    report = project.evaluate(task, retrievers=["dense", "lexical"])
    note = next(note for note in report.notes if "summaries" in note)
    assert note == (
        "WARNING: passages are found by 2 summaries too (author: imported); 2 more equal or nearly repeat a query of"
        " the task and were not used; 0 of 2 queries have an answer with a summary, fewer than other passages have: the"
        " figures may be too low"
    )
    tuned = project.tune(task)
    project.index(settings={"summaries": "none"})
    bare = project.evaluate(task, retrievers=["dense", "lexical"])
    # nakayama keeps its summaries, which do not fit these queries
    for retriever in ("dense", "lexical"):
        assert report.retrievers[retriever]["MRR@10"].tolist() == bare.retrievers[retriever]["MRR@10"].tolist()
    assert not [note for note in bare.notes if "summaries" in note]
    assert [row["MRR@10"] for row in tuned["tried"]] == [row["MRR@10"] for row in project.tune(task)["tried"]]


def test_a_copy_of_a_workspace_has_the_summaries_of_a_file_outside_it(
    project: Project, told: Path, tmp_path: Path
) -> None:
    project.index(settings={"encoder": "hashing", "summaries": str(told)})
    task = task_from("t", {"q": "below the distillation column"}, {"q": {"pump": 1}})
    here = project.evaluate(task, retrievers=["lexical", "dense:hashing"])
    (tmp_path / "far").mkdir()
    copy = Project(shutil.copytree(project.root, tmp_path / "far" / "away" / "w"))
    there = copy.evaluate(task, retrievers=["lexical", "dense:hashing"])
    assert there.notes == here.notes
    for name, values in here.retrievers.items():
        assert there.retrievers[name]["MRR@10"].tolist() == values["MRR@10"].tolist()
    assert copy.index()["summaries"]["encoded"] == 0
    # an encoder that it did not have gets them, too
    assert copy.index(settings={"encoder": "lemmata-nano"})["summaries"]["summaries"] == 3
    assert first(copy, LIQUID) == "pump"
    ingest(copy, tmp_path, {**PASSAGES, "new": "another passage"})
    with pytest.raises(InputError, match=r"told\.jsonl"):
        copy.index()
    copy.index(settings={"summaries": "none"})


def test_the_estimate_for_a_remote_encoder_counts_summaries(
    project: Project,
    told: Path,
    counting: CountingServer,
) -> None:
    settings = {"encoder": counting.url}
    bare = project.estimate_index(settings=settings)
    more = project.estimate_index(settings={**settings, "summaries": str(told)})
    assert bare is not None
    assert more is not None
    assert more.tokens > bare.tokens
    project.index(settings={**settings, "summaries": str(told)})
    again = project.estimate_index()
    assert again is not None
    assert again.tokens == 0
