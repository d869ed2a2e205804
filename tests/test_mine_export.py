"""Training files: written, read and mixed."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import MemoryCorpus

from lemmata.core.config import build
from lemmata.core.errors import ConfigError, InputError, LeakageError
from lemmata.core.types import Negative, Pair, Passage, Triplet
from lemmata.corpus.split import Split
from lemmata.corpus.training_files import read_batches, read_training, text_columns
from lemmata.mine.export import Contribution, Mixture, mix_records, write_training
from lemmata.mine.material import TrainingView, training_view


def part(*texts: str, held_out: int = 0) -> TrainingView:
    """A view of some texts, of which the last are of another part."""
    places = np.zeros(len(texts), np.int8)
    places[len(texts) - held_out :] = 2
    passages = [Passage(f"p{row}", "d", "lemma", text, "note" if row == 0 else "") for row, text in enumerate(texts)]
    return training_view(MemoryCorpus(passages), Split(places, np.zeros(len(texts), bool)))


FIVE = part("zero", "one\twith a tab", "two\nlines", 'three "quoted" ∀', "four")
RECORDS: list[Pair | Triplet] = [
    Pair("what is zero?", 0, "queries", "question", "rule", 0.5),
    Triplet(Pair(1, 2, "structure", "refers_to"), (Negative(3, "lexical", "rank 4", 0.25), Negative(4, "dense"))),
    Triplet(Pair("x", 3, "bands"), ()),
]


def test_parquet_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "sets" / "train.parquet"
    assert write_training(RECORDS, FIVE, path, negatives=2) == 3
    first, second, third = read_training(path)
    assert first == {
        "anchor": "what is zero?", "positive": "note. zero", "negative_1": None, "negative_2": None,
        "anchor_id": None, "positive_id": "p0", "negative_ids": [], "negative_proposers": [], "negative_reasons": [],
        "negative_scores": [], "source": "queries", "relation": "question", "reason": "rule", "weight": 0.5,
    }  # fmt: skip
    assert second["anchor"] == "one\twith a tab"
    assert second["anchor_id"] == "p1"
    assert [second["negative_1"], second["negative_2"]] == ['three "quoted" ∀', "four"]
    assert second["negative_ids"] == ["p3", "p4"]
    assert second["negative_proposers"] == ["lexical", "dense"]
    assert second["negative_reasons"] == ["rank 4", ""]
    assert second["negative_scores"] == [0.25, 0.0]
    assert third["source"] == "bands"
    assert text_columns(path) == ["anchor", "positive", "negative_1", "negative_2"]
    assert [path.name for path in path.parent.iterdir()] == ["train.parquet"]


def test_batches_have_the_requested_size(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_training((Pair(f"q{n}", 1, "m") for n in range(4501)), FIVE, path)
    sizes = [len(batch) for batch in read_batches(path, 1000)]
    assert sizes == [1000] * 4 + [501]
    assert [row["anchor"] for batch in read_batches(path, 7, ["anchor"]) for row in batch] == [
        f"q{n}" for n in range(4501)
    ]
    write_training([], FIVE, path)
    assert list(read_training(path)) == []


def test_no_row_of_another_part_gets_into_a_file_and_no_partial_file_stays(tmp_path: Path) -> None:
    seen = part("zero", "one", "secret", held_out=1)
    path = tmp_path / "t.parquet"
    write_training([Pair("old", 0, "m")], seen, path)
    for file_format in ("parquet", "tevatron", "flagembedding", "tsv"):
        for record in (Pair("x", 2, "m"), Pair(2, 0, "m"), Triplet(Pair("x", 0, "m"), (Negative(2, "m"),))):
            with pytest.raises(LeakageError):
                write_training([Pair("new", 1, "m"), record], seen, path, file_format=file_format, negatives=1)
    assert [row["anchor"] for row in read_training(path)] == ["old"]
    assert len(list(tmp_path.iterdir())) == 1


def test_tevatron_lines_hold_queries_with_their_passages(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_training(RECORDS[:2], FIVE, path, file_format="tevatron", negatives=1)
    first, second = map(json.loads, path.read_text("utf-8").splitlines())
    assert first["positive_passages"] == [{"docid": "p0", "title": "note", "text": "zero"}]
    assert (first["query"], first["negative_passages"]) == ("what is zero?", [])
    assert second["query_id"] == "p1"
    assert [passage["docid"] for passage in second["negative_passages"]] == ["p3"]


def test_flagembedding_and_tsv_hold_texts_only(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_training(RECORDS, FIVE, path, file_format="flagembedding", negatives=5)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert lines[1] == {"query": "one\twith a tab", "pos": ["two\nlines"], "neg": ['three "quoted" ∀', "four"]}
    write_training(RECORDS, FIVE, path, file_format="tsv", negatives=5)
    assert path.read_text("utf-8").splitlines() == [
        "what is zero?\tnote. zero\t",
        'one with a tab\ttwo lines\tthree "quoted" ∀',
        "one with a tab\ttwo lines\tfour",
        'x\tthree "quoted" ∀\t',
    ]
    with pytest.raises(ConfigError, match="'tevatron'"):
        write_training(RECORDS, FIVE, path, file_format="tevatrn")


def test_a_file_that_is_not_parquet_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match=path.name):
        list(read_training(path))


def test_the_datasets_library_loads_the_file(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    path = tmp_path / "t.parquet"
    write_training(RECORDS[1:2] * 4, FIVE, path, negatives=2)
    loaded = datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "cache"))
    chosen = loaded.select_columns(text_columns(path))
    assert chosen.column_names == ["anchor", "positive", "negative_1", "negative_2"]
    assert chosen[0]["negative_2"] == "four"


@given(st.lists(st.tuples(st.text(max_size=8) | st.integers(0, 2), st.integers(0, 2), st.lists(st.integers(0, 2)))))
def test_any_record_survives_mixing_and_writing(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str | int, int, list[int]]]
) -> None:
    seen = part("alpha", "beta", "gamma")
    records = [
        Triplet(Pair(anchor, positive, "m"), tuple(Negative(row, "n") for row in rows))
        for anchor, positive, rows in drawn
    ]
    with mix_records({"m": records}, Mixture(), seen) as (mixed, _):
        records_mixed = list(mixed)
    texts = {(r.pair.anchor if isinstance(r.pair.anchor, str) else seen.texts([r.pair.anchor])[0], r.pair.positive)
             for r in records}  # fmt: skip
    assert set(records_mixed) <= set(records)
    assert len(records_mixed) == len(texts)
    path = tmp_path_factory.mktemp("any") / "t.parquet"
    write_training(records_mixed, seen, path, negatives=2)
    assert [row["positive_id"] for row in read_training(path)] == [f"p{r.pair.positive}" for r in records_mixed]  # type: ignore[union-attr]


# ---------------------------------------------------------------- mixing


def pairs(source: str, *numbers: int) -> list[Pair]:
    return [Pair(f"q{n}", 0, source) for n in numbers]


def test_of_equal_texts_the_set_named_first_keeps_its_record() -> None:
    streams = {"a": pairs("a", 1, 2, 3, 3), "b": pairs("b", 3, 4), "c": pairs("c", 9)}
    with mix_records(streams, Mixture(weights={"b": 1.0, "a": 1.0}), FIVE) as (mixed, table):
        sources = {(pair.anchor, pair.source) for pair in mixed if isinstance(pair, Pair)}
    assert sources == {("q1", "a"), ("q2", "a"), ("q3", "b"), ("q4", "b")}
    assert table == [Contribution("b", 2, 0, 0, 2), Contribution("a", 4, 2, 0, 2)]


def test_a_passage_and_its_text_are_the_same_anchor_but_a_common_beginning_is_not() -> None:
    seen = part("x" * 60 + "a", "x" * 60 + "b", "y")
    records = [Pair(0, 2, "m"), Pair("note. " + "x" * 60 + "a", 2, "m"), Pair(1, 2, "m")]
    with mix_records({"m": records}, Mixture(), seen) as (mixed, _):
        assert len(list(mixed)) == 2


def test_caps_and_totals_are_respected_and_the_rest_is_counted() -> None:
    streams = {"a": pairs("a", *range(100)), "b": pairs("b", *range(100, 400)), "c": pairs("c", *range(400, 410))}
    with mix_records(streams, Mixture(caps={"b": 50}), FIVE) as (mixed, table):
        assert [(row.source, row.capped, row.kept) for row in table] == [
            ("a", 0, 100), ("b", 250, 50), ("c", 0, 10),
        ]  # fmt: skip
    mixture = Mixture(weights={"a": 1.0, "b": 2.0, "c": 1.0}, total=100)
    with mix_records(streams, mixture, FIVE) as (mixed, table):
        assert [row.kept for row in table] == [30, 60, 10]  # c has too few: the others share
        assert len(list(mixed)) == 100
    with mix_records(streams, Mixture(weights={"a": 1.0, "b": 0.0}), FIVE) as (mixed, table):
        assert [row.source for row in table] == ["a"]


def test_the_mixture_does_not_depend_on_the_order_of_records() -> None:
    def anchors(*numbers: int) -> list[object]:
        with mix_records({"a": pairs("a", *numbers)}, Mixture(caps={"a": 30}), FIVE) as (mixed, _):
            return [record.anchor for record in mixed if isinstance(record, Pair)]

    chosen = anchors(*range(60))
    assert chosen == anchors(*reversed(range(60)))
    assert chosen != sorted(chosen, key=str)


def test_sets_are_mixed_evenly() -> None:
    streams = {"a": pairs("a", *range(500)), "b": pairs("b", *range(500, 1000))}
    with mix_records(streams, Mixture(), FIVE) as (mixed, _):
        first = [record.source for record in list(mixed)[:200] if isinstance(record, Pair)]
    assert 60 < first.count("a") < 140


def test_a_mixture_of_an_unknown_set_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'quereis'.*'queries'"):
        mix_records({"queries": []}, Mixture(weights={"quereis": 1.0}), FIVE).__enter__()
    assert build(Mixture, {"weights": {"a": 2.0}, "total": 5}, "[mixtures.some]") == Mixture({"a": 2.0}, total=5)


def test_numpy_numbers_are_accepted() -> None:
    triplet = Triplet(Pair(np.int64(1), np.int64(0), "m"), (Negative(np.int64(2), "n", score=np.float32(0.5)),))  # type: ignore[arg-type]
    with mix_records({"m": [triplet]}, Mixture(), FIVE) as (mixed, _):
        assert list(mixed) == [triplet]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    def peak(number: int) -> int:
        tracemalloc.start()
        with mix_records({"a": (Pair(f"question {n}", n % 5, "m") for n in range(number))}, Mixture(), FIVE) as (
            mixed,
            _,
        ):
            write_training(mixed, FIVE, tmp_path / "t.parquet")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert (peak(8_000) - peak(4_000)) / 4_000 < 200  # bytes for each further record
