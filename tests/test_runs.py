"""TREC runs: ir_measures reads them and comes to the same figures as lemmata."""

from __future__ import annotations

import string
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.errors import InputError
from lemmata.evaluate.export import write_trec_run
from lemmata.evaluate.measures import evaluate, judged, parse_measure

words = st.text(string.ascii_letters + string.digits + "#@:/-_.äß", min_size=1, max_size=8)
rankings = st.dictionaries(
    words, st.lists(st.tuples(words, st.floats(-1e6, 1e6)), max_size=6, unique_by=lambda hit: hit[0]), max_size=5
)


def test_a_run_has_six_columns_and_ranks_from_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "dense.trec"
    write_trec_run(path, {"q1": [("algebra#lemma", 2.0), ("a", 0.5)], "q2": []}, retriever="dense")
    assert path.read_text() == "q1 Q0 algebra#lemma 1 2 dense\nq1 Q0 a 2 0.5 dense\n"
    assert [file.name for file in path.parent.iterdir()] == ["dense.trec"]


@given(rankings)
def test_ir_measures_reads_any_run_in_the_same_order(run: dict[str, list[tuple[str, float]]]) -> None:
    library = pytest.importorskip("ir_measures")
    with tempfile.TemporaryDirectory() as folder:
        write_trec_run(Path(folder) / "run", run, retriever="hybrid")
        hits = list(library.read_trec_run(str(Path(folder) / "run")))
    for query, ranking in run.items():
        scored = {hit.doc_id: np.float32(hit.score) for hit in hits if hit.query_id == query}
        assert sorted(scored, key=lambda passage: -scored[passage]) == [passage for passage, _ in ranking]
        assert len(set(scored.values())) == len(ranking)


def test_ir_measures_comes_to_the_same_figures_even_where_scores_tie(tmp_path: Path) -> None:
    library = pytest.importorskip("ir_measures")
    generator = np.random.default_rng(1)
    ids = [f"d{row}" for row in range(30)]
    qrels = {f"q{n}": {ids[row]: int(generator.integers(0, 3)) for row in range(n, n + 8)} for n in range(12)}
    ranked = np.array([generator.permutation(30)[:20] for _ in qrels])
    scores = np.sort(generator.integers(0, 4, ranked.shape), axis=1)[:, ::-1] / 3
    run = {
        query: [(ids[row], float(score)) for row, score in zip(rows, values, strict=True)]
        for query, rows, values in zip(qrels, ranked, scores, strict=True)
    }
    write_trec_run(tmp_path / "run", run, retriever="lexical")
    names = {"nDCG@10": "nDCG@10", "RR@10": "MRR@10", "R@5": "R@5", "AP@20": "MAP@20"}
    values = evaluate(ranked, judged(qrels, ids.index), [parse_measure(name) for name in names.values()])
    theirs = library.calc_aggregate(
        [library.parse_measure(name) for name in names], qrels, library.read_trec_run(str(tmp_path / "run"))
    )
    for measure, mean in theirs.items():
        assert mean == pytest.approx(values[names[str(measure)]].mean(), abs=1e-9), measure


@pytest.mark.parametrize("name", ["", "two words", "a\tb", "line\n", "wide\u3000space"])
def test_white_space_in_ids_is_refused_and_no_file_is_written(tmp_path: Path, name: str) -> None:
    for run, retriever in (({"q": [(name, 1.0)]}, "dense"), ({name: [("a", 1.0)]}, "dense"), ({}, name)):
        with pytest.raises(InputError):
            write_trec_run(tmp_path / "run", run, retriever=retriever)
    assert list(tmp_path.iterdir()) == []


def test_an_old_run_survives_a_write_that_fails(tmp_path: Path) -> None:
    write_trec_run(tmp_path / "run", {"q": [("a", 1.0)]}, retriever="dense")
    with pytest.raises(InputError, match="'b'"):
        write_trec_run(tmp_path / "run", {"q": [("b", 1.0), ("b", 0.5)]}, retriever="dense")
    assert (tmp_path / "run").read_text() == "q Q0 a 1 1 dense\n"
