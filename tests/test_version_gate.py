"""The gate between two versions: its measures, its tolerances, and that it notices a planted fault."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from bench.gate import quality, reading, speed
from bench.gate.faults import copy_with

ROOT = Path(__file__).parents[1]
FAULTS = tomllib.loads((ROOT / "bench" / "gate" / "faults.toml").read_text("utf-8"))["fault"]


def test_its_measures_are_those_of_ir_measures(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    qrels = {
        f"q{n}": {f"p {each}": int(random.integers(1, 4)) for each in random.permutation(60)[:5]} for n in range(9)
    }
    run = {query: [f"p {each}" for each in random.permutation(60)[:30]] for query in [*qrels, "of nobody"]}
    lines = [
        f"{query} Q0 {passage} {rank} {1 / rank} auto\n"
        for query, ranking in run.items()
        for rank, passage in enumerate(ranking, 1)
    ]
    (tmp_path / "run.trec").write_text("".join(lines), "utf-8")
    values = quality.values_of(tmp_path / "run.trec", qrels)
    measures = [ir_measures.nDCG @ 10, ir_measures.RR @ 10, ir_measures.R @ 20]
    scores = {query: {passage: 1 / rank for rank, passage in enumerate(run[query], 1)} for query in qrels}
    oracle = {(each.query_id, str(each.measure)): each.value for each in ir_measures.iter_calc(measures, qrels, scores)}
    assert values.keys() == qrels.keys()
    for query, found in values.items():
        assert found == pytest.approx([oracle[query, str(measure)] for measure in measures], abs=1e-5)


def test_an_interval_holds_the_mean_and_shrinks_with_the_number_of_queries() -> None:
    random = np.random.default_rng(0)
    few, many = random.normal(0.1, 1, 50), random.normal(0.1, 1, 5000)
    (low, high), (closer, nearer) = quality.interval_of(few), quality.interval_of(many)
    assert low < few.mean() < high
    assert nearer - closer == pytest.approx(2 * 1.96 / np.sqrt(5000), rel=0.1)
    assert quality.interval_of(np.zeros(9)) == (0.0, 0.0)


def test_a_fall_fails_by_its_interval_or_by_its_mean_and_so_do_other_queries() -> None:
    def verdict(after: list[float], other_queries: int = 0) -> bool:
        before = {f"q{n}": [0.5, 0.5, 0.5] for n in range(len(after))}
        then = {f"q{n}": [value, 0.5, 0.5] for n, value in enumerate(after)}
        then |= {f"new{n}": [0.5, 0.5, 0.5] for n in range(other_queries)}
        (found,) = quality.compare("case", {"task auto": before}, {"task auto": then})
        return found.passes

    assert verdict([0.5] * 100)
    assert verdict([0.5] * 99 + [0.0])  # one query of a hundred: neither
    assert not verdict([0.5] * 90 + [0.45] * 10)  # 0.005, and surely
    assert not verdict([0.5] * 50 + [0.0, 0.4])  # 0.0115, by chance perhaps
    assert verdict([0.9] * 100)
    assert not verdict([0.5] * 100, other_queries=2)


def test_a_retriever_that_is_gone_fails() -> None:
    (found,) = quality.compare("case", {"task auto": {"q": [1.0, 1.0, 1.0]}}, {})
    assert not found.passes


def test_facts_are_the_same_by_what_they_are_about() -> None:
    before = {"numbers": {f"a#{n}": (str(n), f"a.tex:{n}") for n in range(1000)}, "proofs": {"a#1": ("p", "a.tex:1")}}
    changed = {f"a#{n}": (str(n + (n < 6)), f"a.tex:{n}") for n in range(1000)}
    comparisons, differences = reading.compare("case", before, {"numbers": changed})
    assert {each.category: each.passes for each in comparisons} == {"numbers": False, "proofs": False}
    assert differences[0] == reading.Difference("numbers", "a#0", "a.tex:0", "0", "1")
    assert differences[-1] == reading.Difference("proofs", "a#1", "a.tex:1", "p", None)
    changed["a#5"] = ("5", "b.tex:1")  # where a fact stands may change
    assert reading.compare("case", {"numbers": before["numbers"]}, {"numbers": changed})[0][0].passes


def test_half_as_long_again_is_the_most() -> None:
    assert speed.Comparison("ingest", "s", 2.0, 2.9).passes
    assert not speed.Comparison("ingest", "s", 2.0, 3.1).passes


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault["name"]))
def test_every_fault_of_the_list_can_be_planted(fault: dict[str, str]) -> None:
    assert (ROOT / "src" / "lemmata" / fault["file"]).read_text("utf-8").count(fault["old"]) == 1


def test_a_planted_fault_is_named_with_its_files_and_lines(tmp_path: Path) -> None:
    (fault,) = (each for each in FAULTS if each["name"] == "printed numbers off by one")
    copy = copy_with(ROOT, fault, tmp_path / "copy")
    words = [sys.executable, "-m", "bench.gate", str(ROOT), str(copy), "--only", "reading", "qseries"]
    report = tmp_path / "report.json"
    done = subprocess.run(
        [*words, "--work", str(tmp_path), "--json", str(report)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 1, done.stderr
    record = json.loads(report.read_text("utf-8"))
    failed = {failure.removeprefix("reading: qseries ") for failure in record["failures"]}
    assert failed == {"numbers", "proofs", "statements"}  # the numbers, and the texts that refer to them
    (numbers,) = (row for row in record["reading"] if row["category"] == "numbers")
    first = numbers["differences"][0]
    assert int(first["after"].rpartition(".")[2]) == int(first["before"].rpartition(".")[2]) + 1
    assert first["place"].startswith("andrews-gordon.tex:")
    assert "andrews-gordon.tex:" in done.stdout
