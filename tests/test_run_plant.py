"""`lemmata run` on a plant: from a table of logs and a tree of locations to the table of measures, in one go."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.llm_server import Server
from tests.make import killed_at, plant
from tests.small_bert import small_bert
from tests.training import change, run_all

from lemmata.core.errors import ConfigError
from lemmata.corpus.split import open_split
from lemmata.evaluate.report import Report
from lemmata.graph.store import open_embedding, open_graph
from lemmata.project import Project
from lemmata.run import run, stage_table

RECIPE = """
[split]
method = "time"

[llm]
url = "{url}"
model = "tiny"

[embed]
epochs = 2

[mine.triplets]
shortest = 20
hard_rank = 10

[mine.negatives]
number = 1

[finetune.tuned]
base = "{base}"
sets = {{ pairs-hard = 1.0, triplets = 1.0 }}
validation = {{ references = "MRR@10" }}
epochs = 0.2
batch = 16

[evaluate]
measures = "MRR@10"

[run]
sources = ["../plant/logs.csv", "../plant/hierarchy.csv"]
also = ["extract", "link", "embed"]
mine = ["pairs", "triplets", "written"]
limits = {{ calls = 30 }}
negatives = ["pairs"]
base = "hashing"
tasks = ["references", "../plant"]
"""
STAGES = [
    "ingest",
    "corpus",
    "graph",
    "extract",
    "split",
    "link",
    "index hashing",
    "embed",
    "mine pairs",
    "mine triplets",
    "mine written",
    "negatives pairs",
    "audit",
    "finetune tuned",
    "index tuned",
    "compare auto of tuned",
]
ANSWER = {
    "question": "Why does it leak?",
    "keyword": "leak seal pump",
    "slogan": "It leaks.",
    "1": {"concepts": [{"name": "mechanical seal", "kind": "object"}], "relations": []},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    process = Server(tmp_path_factory.mktemp("server") / "journal")
    process.script(answer=json.dumps(ANSWER))
    yield process
    process.kill()


def write_plant(folder: Path, base: Path, url: str) -> Path:
    """A plant, and beside it a workspace with nothing but settings."""
    plant.generate(folder / "plant", logs=160)
    (folder / "w").mkdir()
    (folder / "w" / "lemmata.toml").write_text(RECIPE.format(base=base, url=url), encoding="utf-8")
    return folder / "w"


@pytest.fixture(scope="module")
def first(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Report], dict[str, bool]]:
    folder = tmp_path_factory.mktemp("plant")
    workspace = write_plant(folder, small_bert(folder / "tiny"), server.url)
    return workspace, *run_all(workspace)


def test_a_plant_runs_from_logs_and_tree_to_the_table(first: tuple[Path, list[Report], dict[str, bool]]) -> None:
    folder, (follow_ups, questions), stages = first
    assert list(stages) == STAGES
    assert not any(stages.values())
    assert len(questions.queries) > 30
    assert follow_ups.queries
    assert list(questions.retrievers) == ["BM25", "hashing", "hashing + BM25", "tuned", "tuned + BM25"]
    did = stage_table(Project(folder))
    assert "new reports_about" in did["link"]
    assert "recall on held-out logs" in did["link"]
    assert did["extract"].startswith("1 of 1 documents, ")
    assert "records" in did["mine triplets"]
    assert "MRR" in did["embed"]
    assert "calls" in did["mine written"]
    _, stages = run_all(folder)
    assert [name for name, done in stages.items() if not done] == ["ingest"]


def test_no_vector_of_the_embedding_belongs_to_a_held_out_log(
    first: tuple[Path, list[Report], dict[str, bool]],
) -> None:
    project = Project(first[0])
    stored, vectors = open_graph(project), open_embedding(project).matrix
    corpus = project.corpus
    training = open_split(project, corpus.digest).rows("train")
    corpus.close()
    rows = np.asarray(stored.rows)
    held_out = (rows >= 0) & ~training[rows]
    assert held_out.sum() > 10
    assert not vectors[held_out].any()
    assert np.abs(vectors[(rows >= 0) & training[rows]]).any(axis=1).all()


def test_a_change_of_the_graph_embedding_runs_everything_after_it_again(
    first: tuple[Path, list[Report], dict[str, bool]], tmp_path: Path
) -> None:
    folder = shutil.copytree(first[0].parent, tmp_path / "copy") / "w"
    change(folder, "[embed]\nepochs = 2", "[embed]\nepochs = 3")
    _, stages = run_all(folder)
    again = [name for name, done in stages.items() if not done]
    assert again == ["ingest", *STAGES[STAGES.index("embed") :]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("limits = { calls = 30 }", "limits = {}", "limits"),
        ('model = "tiny"', "", r"extract and written .*\[llm\]"),
        ("calls = 30", "call = 30", "'calls'"),
    ],
)
def test_a_language_model_needs_a_name_and_limits(
    first: tuple[Path, list[Report], dict[str, bool]], tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "lemmata.toml").write_text((first[0] / "lemmata.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "plant").symlink_to(first[0].parent / "plant")
    change(folder, old, new)
    with pytest.raises(ConfigError, match=message):
        run(Project(folder))
    assert [path.name for path in folder.iterdir()] == ["lemmata.toml"]


def test_a_killed_run_resumes_and_asks_the_model_nothing_twice(
    first: tuple[Path, list[Report], dict[str, bool]], tmp_path: Path, server: Server
) -> None:
    folder = write_plant(tmp_path, first[0].parent / "tiny", server.url)
    announced = "mine triplets"  # the stage after "mine pairs"
    killed_at(announced, 0, lambda kill: run(Project(folder), announce=lambda stage, _: kill(stage, 0, None)))
    server.script(answer=json.dumps(ANSWER))
    (_, questions), done = run_all(folder)
    assert all(done[name] for name in STAGES[1 : STAGES.index("mine pairs") + 1])
    assert len(server.calls()) <= 30
    expected = first[1][1].retrievers["hashing"]["MRR@10"]
    np.testing.assert_allclose(questions.retrievers["hashing"]["MRR@10"], expected)
