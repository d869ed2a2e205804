"""The bench of held-out plants, whole and small: two plants, a tiny model, one epoch."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pytest
from bench import held_out_plants as bench
from bench import learning_tables as tables
from tests.small_bert import small_bert

from lemmata.train.job import open_job

WORDS = "pumpe pump tropft leckt leaks seal ventil valve klemmt sticks druck pressure filter".split()


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("plants")
    base = small_bert(out / "base", WORDS)
    sets = bench.make_workspaces(out / "work", 2, 60, triplets=False)
    jobs, models = out / "jobs", out / "models"
    jobs.mkdir()
    text = bench.declare(2, sets, {"batch": 32, "epochs": 1, "rate": 1e-3})
    (jobs / "tables.toml").write_text(text, encoding="utf-8")
    declarations = tables.read_declarations([], jobs / "tables.toml")
    tables.prepare_jobs(declarations, out / "work", jobs, base)
    bench.rank_by_words(out / "work", jobs, 2)
    for table in declarations["tables"]:
        (models / table).mkdir(parents=True)
        for run in ("base", "other plants"):
            place = argparse.Namespace(jobs=jobs, models=models, base=[f"tiny={base}"], table=table, run=run)
            tables.train_one(declarations, place)
    job = open_job(jobs / "without-1")
    return {"report": bench.report(jobs, models, declarations, None), "sets": list(job.sets)}


def test_a_plant_is_measured_by_models_that_never_saw_it(figures: dict[str, Any]) -> None:
    assert figures["sets"] == ["../plant-2/pairs", "../plant-2/queries"]


def test_bm25_the_base_and_the_trained_model_stand_side_by_side(figures: dict[str, Any]) -> None:
    for runs in figures["report"].values():
        assert set(runs) == {"BM25", "base", "other plants"}  # the third run was not trained
        for entry in runs.values():
            mean, low, high = entry["macro"]
            assert mean == pytest.approx(np.mean(entry["plants"]), abs=1e-4)
            assert low <= mean <= high
        gain = runs["other plants"]["gain"][0]
        assert gain == pytest.approx(runs["other plants"]["macro"][0] - runs["base"]["macro"][0])
    assert figures["report"]["MRR@10"]["BM25"]["macro"][0] > 0


def test_every_plant_counts_the_same_however_many_queries_it_has() -> None:
    values = [np.ones(100), np.zeros(1)]
    assert bench.macro_mean(values, np.random.default_rng(0)) == (0.5, 0.5, 0.5)
