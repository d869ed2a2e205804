"""mteb, if it is installed, comes to the same figures as lemmata's own measures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.make import write

from lemmata.core.errors import ConfigError, InputError, LemmataError
from lemmata.core.types import Floats, Integers
from lemmata.encode.hashing import HashingEncoder
from lemmata.evaluate.measures import evaluate, judged, parse_measure
from lemmata.evaluate.mteb import MtebEncoder, MtebSearch, evaluate_task, local_task
from lemmata.project import Project
from lemmata.search.lexical import LexicalIndex

# For the first query, BM25 scores d1 and d2 alike: both are five words long and share one with it.
CORPUS = {
    "d1": "every compact set is closed",
    "d2": "some compact operators have eigenvalues",
    "d3": "a continuous image of a connected space is connected",
    "d4": "the spectrum of a bounded operator is not empty",
    "d5": "a prime ideal of a noetherian ring is finitely generated",
    "d6": "every field has an algebraic closure",
}
QUERIES = {
    "q1": "compact subsets",
    "q2": "image of a connected space under a continuous map",
    "q3": "is the spectrum of an operator empty",
    "q4": "primordial and noether",  # shares parts of words with the passages, but no whole word
}
QRELS = {"q1": {"d1": 2, "d6": 1}, "q2": {"d3": 1, "d1": 1}, "q3": {"d2": 2, "d4": 1}, "q4": {"d5": 1}}


def scored_by_mteb(model: Any, *, top_ranked: dict[str, list[str]] | None = None) -> float:
    """nDCG@10 of the task above, held in memory."""
    mteb = pytest.importorskip("mteb")
    datasets = pytest.importorskip("datasets")
    retrieval = pytest.importorskip("mteb.abstasks.retrieval")

    class Tiny(retrieval.AbsTaskRetrieval):  # type: ignore[name-defined, misc]
        metadata = mteb.TaskMetadata(
            name="Tiny",
            description="Six statements.",
            dataset={"path": "none", "revision": "none"},
            type="Reranking" if top_ranked else "Retrieval",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

        def load_data(self, **_: Any) -> None:
            split = {
                "corpus": datasets.Dataset.from_list(
                    [{"id": identity, "title": "", "text": text} for identity, text in CORPUS.items()]
                ),
                "queries": datasets.Dataset.from_list(
                    [{"id": identity, "text": text} for identity, text in QUERIES.items()]
                ),
                "relevant_docs": {query: dict(grades) for query, grades in QRELS.items()},
                "top_ranked": top_ranked,
            }
            self.dataset = {"default": {"test": split}}
            self.data_loaded = True

    result = mteb.evaluate(model, Tiny(), cache=None, show_progress_bar=False, co2_tracker=False)
    return float(result.task_results[0].scores["test"][0]["ndcg_at_10"])


def scored_here(ranked: Integers) -> float:
    values = evaluate(ranked, judged(QRELS, list(CORPUS).index), [parse_measure("nDCG@10")])
    return float(values["nDCG@10"].mean())


def lexical(folder: Path) -> Callable[[Sequence[tuple[str, str]]], Any]:
    def build(passages: Sequence[tuple[str, str]]) -> Any:
        ids = [identity for identity, _ in passages]
        index = LexicalIndex.build([text for _, text in passages], folder)

        def search(queries: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
            rows, scores = index.search(queries, k)
            return [
                [(ids[row], float(score)) for row, score in zip(ranking, values, strict=True) if row >= 0]
                for ranking, values in zip(rows, scores, strict=True)
            ]

        return search

    return build


def fixed(answers: list[list[tuple[str, float]]]) -> Callable[[Sequence[tuple[str, str]]], Any]:
    """A search with fixed results."""
    return lambda _passages: lambda _queries, _k: answers


def test_mteb_scores_an_encoder_as_lemmata_does() -> None:
    encoder = HashingEncoder()
    scores = encoder.encode(list(QUERIES.values()), "query") @ encoder.encode(list(CORPUS.values())).T
    assert all(len(set(row)) == len(CORPUS) for row in scores.tolist())  # mteb breaks ties in its own way
    here = scored_here(np.argsort(-scores, axis=1))
    assert 0 < here < 1
    assert scored_by_mteb(MtebEncoder(encoder)) == pytest.approx(here, abs=1e-5)  # mteb rounds to five places


def test_mteb_scores_a_lexical_search_as_lemmata_does_even_where_scores_tie(tmp_path: Path) -> None:
    rows, scores = LexicalIndex.build(CORPUS.values(), tmp_path / "here").search(list(QUERIES.values()), 10)
    assert rows[0, :2].tolist() == [0, 1]
    assert scores[0, 0] == scores[0, 1]
    assert (rows[3] == -1).all()
    here = scored_here(rows)
    assert 0 < here < 1
    model = MtebSearch(lexical(tmp_path / "there"), name="lexical")
    assert scored_by_mteb(model) == pytest.approx(here, abs=1e-5)


def test_reranking_ranks_the_candidates_only(tmp_path: Path) -> None:
    candidates = {"q1": ["d2", "d6"], "q2": ["d1", "d3"], "q3": ["d2"], "q4": ["d5"]}
    rows, _ = LexicalIndex.build(CORPUS.values(), tmp_path / "here").search(list(QUERIES.values()), 6)
    ranked = np.full_like(rows, -1)
    for number, query in enumerate(QUERIES):
        among = [row for row in rows[number] if row >= 0 and list(CORPUS)[row] in candidates[query]]
        ranked[number, : len(among)] = among
    model = MtebSearch(lexical(tmp_path / "there"), name="lexical")
    assert scored_by_mteb(model, top_ranked=candidates) == pytest.approx(scored_here(ranked), abs=1e-5)


def test_queries_and_passages_are_encoded_in_their_roles() -> None:
    mteb = pytest.importorskip("mteb")

    class Recorder(HashingEncoder):
        def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
            roles.append((role, len(texts)))
            return super().encode(texts, role)

    roles: list[tuple[str, int]] = []
    model = MtebEncoder(Recorder(8))
    assert isinstance(model, mteb.EncoderProtocol)
    assert not isinstance(model, mteb.SearchProtocol)
    batches = [{"text": ["one", "two"]}, {"text": ["three"]}]
    for prompt_type in (mteb.types.PromptType.query, mteb.types.PromptType.document, None):
        vectors = model.encode(batches, prompt_type=prompt_type)
    assert roles == [("query", 3), ("passage", 3), ("passage", 3)]
    assert np.allclose(model.similarity(vectors, vectors), vectors @ vectors.T)
    assert np.allclose(model.similarity_pairwise(vectors, vectors), 1)


def test_a_model_has_the_name_of_its_encoder_or_its_own() -> None:
    assert MtebEncoder(HashingEncoder(8)).mteb_model_meta.name == "lemmata/hashing-0@8"
    assert MtebEncoder(HashingEncoder(8), name="me/mine").mteb_model_meta.name == "me/mine"
    assert MtebSearch(fixed([]), name="words").mteb_model_meta.name == "lemmata/words"


def test_titles_and_instructions_reach_the_search_as_they_reach_an_encoder() -> None:
    mteb = pytest.importorskip("mteb")
    seen: list[Any] = []

    def build(passages: Sequence[tuple[str, str]]) -> Any:
        seen.append(list(passages))
        return search

    def search(queries: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        seen.append((list(queries), k))
        return [[("b", 1.0), ("a", 1.0)]]

    model = MtebSearch(build, name="words")
    assert isinstance(model, mteb.SearchProtocol)
    model.index([{"id": "a", "title": "Urysohn", "text": "normal spaces"}, {"id": "b", "text": " closed "}])
    results = model.search([{"id": "q", "text": "metric", "instruction": "find lemmas"}], top_k=5)
    assert seen == [[("a", "Urysohn normal spaces"), ("b", "closed")], (["metric find lemmas"], 5)]
    assert list(results["q"]) == ["b", "a"]
    assert np.float32(results["q"]["b"]) > np.float32(results["q"]["a"])


def test_a_ranking_that_repeats_a_passage_is_refused() -> None:
    model = MtebSearch(fixed([[("a", 2.0), ("a", 1.0)]]), name="words")
    model.index([{"id": "a", "text": "closed"}])
    with pytest.raises(InputError, match="'a'"):
        model.search([{"id": "q", "text": "closed"}], top_k=5)


# ---------------------------------------------------------------- tasks with data at hand


def beir_folder(folder: Path) -> Path:
    lines = "".join(f"{query}\t{passage}\t{grade}\n" for query in QRELS for passage, grade in QRELS[query].items())
    return write(
        folder,
        {
            "corpus.jsonl": "\n".join(json.dumps({"_id": i, "title": "", "text": t}) for i, t in CORPUS.items()),
            "queries.jsonl": "\n".join(json.dumps({"_id": i, "text": t}) for i, t in QUERIES.items()),
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\n" + lines,
        },
    )


def test_a_folder_runs_as_a_task_of_its_own_and_as_the_data_of_a_task_of_mteb(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path / "tiny")
    tasks = [str(folder), f"SciFact={folder}"]
    records = Project.init(tmp_path / "w").mteb(tasks, encoder="hashing", retrievers=["dense", "lexical"])
    assert [(record["task"], record["retriever"]) for record in records] == [
        ("tiny", "hashing"),
        ("tiny", "BM25"),
        ("SciFact", "hashing"),
        ("SciFact", "BM25"),
    ]
    encoder = HashingEncoder()
    scores = encoder.encode(list(QUERIES.values()), "query") @ encoder.encode(list(CORPUS.values())).T
    rows, _ = LexicalIndex.build(CORPUS.values(), tmp_path / "here").search(list(QUERIES.values()), 10)
    here = [scored_here(np.argsort(-scores, axis=1)), scored_here(rows)]
    assert [record["value"] for record in records] == pytest.approx([*here, *here], abs=1e-5)
    assert {record["measure"] for record in records} == {"ndcg_at_10"}
    assert records[0]["scores"]["recall_at_10"] > 0


def test_a_query_that_is_a_passage_does_not_find_itself(tmp_path: Path) -> None:
    rows = [{"id": identity, "title": "", "text": text} for identity, text in CORPUS.items()]
    queries = {"d1": CORPUS["d1"], "d3": CORPUS["d3"]}
    task = local_task("own", rows, queries, {"d1": {"d2": 1}, "d3": {"d4": 1}})
    (record,) = evaluate_task(MtebEncoder(HashingEncoder()), task)
    assert record["scores"]["recall_at_5"] == 1.0  # five passages are left
    others = local_task("others", rows, {"d1": "eigenvalues", "d3": "closure"}, {"d1": {"d1": 1}, "d3": {"d3": 1}})
    (record,) = evaluate_task(MtebEncoder(HashingEncoder()), others)
    assert record["scores"]["recall_at_10"] == 1.0  # an id in common is no reason to leave a passage out


def test_what_mteb_cannot_run_is_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("mteb")  # its absence is a sentence, too
    folder = beir_folder(tmp_path / "tiny")
    project = Project.init(tmp_path / "w")
    with pytest.raises(LemmataError, match="'SciFakt'"):
        project.mteb(["SciFakt"], encoder="hashing")
    with pytest.raises(LemmataError, match="STS12"):
        project.mteb([f"STS12={folder}"], encoder="hashing")
    with pytest.raises(ConfigError, match="hybrid"):
        project.mteb([str(folder)], encoder="hashing", retrievers=["hybrid"])
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "x"}\n{"text": "no id"}\n')
    with pytest.raises(InputError, match=r"corpus.jsonl:2.*_id"):
        project.mteb([str(folder)], encoder="hashing")
