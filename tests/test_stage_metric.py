"""A metric learned in a workspace: kept only if it helps, used only while it is current."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.make import copied, lemmata
from tests.training import say_more, workspace

from lemmata.core.artefacts import learned_metric, write_hashed_manifest
from lemmata.core.errors import LemmataError, WorkspaceError
from lemmata.core.workspace import read_manifest, silent, vector_set, write_manifest
from lemmata.corpus.split import open_split
from lemmata.corpus.training_files import split_key
from lemmata.evaluate.tasks import Task
from lemmata.graph.stored_metric import LearnedMetric, metric_sources, open_metric
from lemmata.project import Project
from lemmata.search.fusion import Fusion
from lemmata.train import learn_metric as stage
from lemmata.train.learn_metric import MetricStageOptions
from lemmata.train.metric_network import MetricOptions, train_metric
from lemmata.vectors.exact import ExactIndex

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch's exporter

SMALL = MetricStageOptions(dimension=8, rank=2, epochs=1)


def keep_metric(project: Project) -> None:
    """Learn a metric, and store it as one that helps, whatever it does here."""
    layout = project
    vectors = vector_set(layout)
    assert vectors is not None
    data = stage._open(layout, vectors.encoder)
    options = MetricOptions(SMALL.dimension, SMALL.rank, batch=64, negatives={"random": 32}, epochs=1)
    trained = train_metric(data.matrix, stage._links(data, data.citing & data.seen), options, data.task.part(0))
    report, search = stage._judge(data, trained, lambda *_: None)
    content = {
        "options": asdict(SMALL),
        "split": split_key(layout),
        **metric_sources(layout, vectors),
        "report": {**report, "kept": True},
        "search": search,
    }
    stage._write(learned_metric(vectors), data, trained, content, silent)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = workspace(tmp_path_factory.mktemp("metric"))
    keep_metric(project)
    return project


@pytest.fixture
def changing(learned: Project, tmp_path: Path) -> Project:
    """A copy of that workspace."""
    shutil.copytree(learned.root.parent, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path / "w")


plain = copied(workspace)  # without a metric


def test_a_metric_that_helps_is_used_by_the_retriever_geodesic(learned: Project) -> None:
    stored = open_metric(learned)
    assert stored is not None
    with learned.retriever() as retriever:
        assert retriever.dense().geodesics.metric is not None
        hits = retriever.search("aaword abword acword adword note", 10, retriever="geodesic")
        assert len(hits) == 10
        for hit in hits:
            assert hit.path[0].source == "query"
            assert hit.path[-1].target == hit.id
            assert all(step.relation in ("similar_to", "cites", "^cites") for step in hit.path)
        other = retriever.search("aaword abword", 3, retriever="dense", paths=True)  # paths of others are by text
        assert all(hit.path for hit in other)


def test_learning_again_changes_nothing(learned: Project) -> None:
    assert learned.train_metric(settings=asdict(SMALL))["done_before"]


def test_a_training_that_was_stopped_resumes_and_leaves_no_checkpoint(plain: Project) -> None:
    project, vectors = plain, vector_set(plain)
    assert vectors is not None
    settings = {**asdict(SMALL), "epochs": 3}
    steps: list[int] = []

    def stop(what: str, done: int, total: int | None) -> None:
        if what.startswith("training the metric"):
            steps.append(done)
            if total and done > total // 2:
                raise KeyboardInterrupt

    with project.reporting_to(stop), pytest.raises(KeyboardInterrupt):
        project.train_metric(settings=settings)
    (checkpoint,) = vectors.metric.parent.glob("metric.*.partial.pt")
    steps.clear()
    with project.reporting_to(stop), pytest.raises(KeyboardInterrupt):
        project.train_metric(settings=settings)
    assert steps[0] > 1
    saved = checkpoint.read_bytes()
    project.train_metric(settings=settings)
    assert not checkpoint.exists()
    checkpoint.write_bytes(saved)  # as if it had been killed at its very end
    assert project.train_metric(settings=settings)["done_before"]
    assert not checkpoint.exists()


def test_a_metric_is_kept_only_if_it_was_trained_and_finds_more_than_every_search_without_it(learned: Project) -> None:
    vectors = vector_set(learned)
    assert vectors is not None
    data = stage._open(learned, vectors.encoder)
    links = stage._links(data, data.citing & data.seen)
    options = MetricOptions(SMALL.dimension, SMALL.rank, batch=64, negatives={"random": 32}, epochs=1)
    trained = train_metric(data.matrix, links, options, data.task.part(0))

    def judged(history: list[dict[str, float]], answers: list[set[int]]) -> dict[str, Any]:
        task = data.task._replace(answers=answers)
        return stage._judge(data._replace(task=task), trained._replace(history=history), silent)[0]

    gain, loss = [{"R@20": 0.1}, {"R@20": 0.2}], [{"R@20": 0.2}, {"R@20": 0.1}]
    vectors_of_metric = LearnedMetric(trained.nodes.h.cpu().numpy(), options.epsilon, stage._head(trained))
    queries = data.matrix[data.task.rows]
    found_by_metric = vectors_of_metric.search(queries, 4, data.candidates)[0]
    found_by_text = ExactIndex(data.matrix).search(queries, 4, data.candidates)[0]
    report = judged(
        gain, [set(rows.tolist()) - {row} for rows, row in zip(found_by_metric, data.task.rows, strict=True)]
    )
    assert report["kept"]
    assert report[f"by_{report['rival']}"] == max(report["by_dense"], report["by_diffusion"], report["by_text"])
    untrained = judged(loss, [set(rows.tolist()) for rows in found_by_metric])
    assert (untrained["best_epoch"], untrained["kept"]) == (0, False)
    as_dense = judged(gain, [set(rows.tolist()) for rows in found_by_text])
    assert (as_dense["rival"], as_dense["kept"]) == ("dense", False)


def test_a_metric_sees_no_links_of_held_out_passages_and_one_half_of_validation_alone_decides(
    changing: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = changing.corpus
    split = open_split(changing, corpus.digest)
    corpus.close()

    class CalledError(Exception):
        pass

    def train(_matrix: Any, links: Any, _options: Any, validation: Any, **_more: Any) -> Any:
        assert split.rows("train")[links[:, 0]].all()
        assert split.rows("validation")[validation[0]].all()
        raise CalledError(validation[0])

    monkeypatch.setattr("lemmata.train.metric_network.train_metric", train)
    with pytest.raises(CalledError) as stopped:
        changing.train_metric(settings={**asdict(SMALL), "epochs": 2})
    monkeypatch.undo()
    data = stage._open(changing, "hashing")
    options = MetricOptions(SMALL.dimension, SMALL.rank, batch=64, negatives={"random": 32}, epochs=1)
    trained = train_metric(data.matrix, stage._links(data, data.citing & data.seen), options, data.task.part(0))
    # the half that stopped the training would find everything, the other half has answers that nothing finds
    stopping = set(stopped.value.args[0].tolist())
    found = ExactIndex(data.matrix).search(data.matrix[data.task.rows], 4, data.candidates)[0]
    answers = [
        set(rows.tolist()) - {row} if row in stopping else {row}
        for rows, row in zip(found, data.task.rows.tolist(), strict=True)
    ]
    report = stage._judge(data._replace(task=data.task._replace(answers=answers)), trained, silent)[0]
    assert report["queries"] == len(data.task.rows) - len(stopping)
    assert [report[f"by_{name}"] for name in ("dense", "diffusion", "text", "metric")] == [0.0] * 4


def test_a_bridge_may_be_measured_by_the_metric(changing: Project) -> None:
    both = [changing.bridge("n0", "n2", k=2)]
    project = say_more(changing.root, "[geodesic]\nlearned_bridges = true\n")
    both.append(project.bridge("n0", "n2", k=2))
    lengths = [[(step.source, step.target, step.length) for path in each.paths for step in path.steps] for each in both]
    assert lengths[0] != lengths[1]
    assert all(-1 <= path.coherence <= 1 for path in both[1].paths)
    vectors = vector_set(project)
    assert vectors is not None
    shutil.rmtree(vectors.metric)
    with pytest.raises(WorkspaceError, match="train metric"):
        project.bridge("n0", "n2")


def test_info_says_that_the_metric_is_used(learned: Project) -> None:
    facts = json.loads(lemmata("info", "-w", str(learned.root), "--json"))
    assert facts["vectors"][0]["metric"]["kept"]
    assert facts["vectors"][0]["metric"]["up_to_date"]
    assert "used by geodesic" in " ".join(lemmata("info", "-w", str(learned.root)).split())


def test_a_metric_that_does_not_help_is_not_used_and_info_says_so(plain: Project) -> None:
    project = plain
    (project.root / "lemmata.toml").write_text("[metric]\ndimension = 8\nrank = 2\n", "utf-8")
    result = lemmata("train", "metric", "-w", str(project.root), "-o", "epochs=1")
    assert "kept          no" in result
    assert open_metric(project) is None
    vectors = vector_set(project)
    assert vectors is not None
    assert not (vectors.metric / "h.npy").exists()
    with project.retriever() as retriever:
        assert retriever.dense().geodesics.metric is None
        assert retriever.search("aaword", 3, retriever="geodesic")
    assert "does not help on validation" in " ".join(lemmata("info", "-w", str(project.root)).split())


def test_new_passages_get_an_embedding_from_their_text_and_geodesic_goes_by_text(
    changing: Project, tmp_path: Path
) -> None:
    project = changing
    before = open_metric(project)
    assert before is not None
    with project.retriever() as retriever:
        rows_before = {passage.id: row for row, passage in enumerate(retriever.corpus)}
    old = np.array(before.h)
    (tmp_path / "more.jsonl").write_text('{"id": "a", "text": "aaword something", "links": {"cites": "n0"}}', "utf-8")
    project.ingest([tmp_path / "more.jsonl"])
    project.build_graph()
    assert project.index()["embedded"] == 1
    assert project.index()["embedded"] == 0
    with project.retriever() as retriever:
        side = retriever.dense()
        assert side.metric is not None
        assert side.geodesics.metric is None
        for row, passage in enumerate(retriever.corpus):
            if passage.id == "a":
                alone = side.metric.head(np.asarray(side.vectors.matrix[row : row + 1], np.float32))[0][0]
                assert np.allclose(side.metric.h[row], alone)
            else:
                assert (side.metric.h[row] == old[rows_before[passage.id]]).all()
        rows, _ = retriever.search_rows(["aaword something"], 5, fusion=Fusion(weight=1.0, learned=2.0))
        assert retriever.corpus[int(rows[0, 0])].id == "a"
    report = project.info()["vectors"][0]["metric"]
    assert report["up_to_date"]
    assert not report["geodesic"]
    shown = " ".join(lemmata("info", "-w", str(project.root)).split())
    assert "geodesic goes by text" in shown
    assert "1 passage by text alone" in shown


def test_passages_that_change_again_or_go_are_not_counted_twice(changing: Project, tmp_path: Path) -> None:
    project = changing

    def update(**texts: str) -> tuple[int, int]:
        """How many embeddings an update makes, and how many of the present ones are from text alone."""
        lines = [json.dumps({"id": name, "text": text}) for name, text in texts.items()]
        (tmp_path / "more.jsonl").write_text("\n".join(lines), "utf-8")
        project.ingest([tmp_path / "more.jsonl"])
        return project.index()["embedded"], project.info()["vectors"][0]["metric"]["from_text"]

    assert update(a="aaword something", b="abword something") == (2, 2)
    assert update(a="aaword another", b="abword something") == (1, 2)
    assert update(a="aaword another") == (0, 1)
    assert update(a="aaword another", c="acword") == (1, 2)


def test_the_fit_and_the_search_take_a_query_of_blanks_alike(learned: Project) -> None:
    with learned.retriever() as retriever:
        index = retriever.dense()
        rank = index.learned(index.encode_queries(["aaword", " \n"]), 5)
        assert rank is not None
        rows, scores = rank(np.full((2, 1), -1))
        assert (rows[0] >= 0).any()
        assert (rows[1] == -1).all()
        assert np.isneginf(scores[1]).all()
        for retrieve in ("dense", "auto", "geodesic"):
            assert (retriever.search_rows([" \n"], 5, retrieve)[0] == -1).all(), retrieve


def test_a_metric_of_other_vectors_is_not_used(changing: Project) -> None:
    project = changing
    vectors = vector_set(project)
    assert vectors is not None
    write_manifest(vectors.manifest, {**(read_manifest(vectors.manifest) or {}), "made_by": "another"})
    assert open_metric(project) is None
    assert not project.info()["vectors"][0]["metric"]["up_to_date"]


@pytest.mark.parametrize("name", ["h.npy", "manifest.json"])
def test_a_damaged_metric_is_an_error_and_learning_again_cures_it(changing: Project, name: str) -> None:
    project = changing
    vectors = vector_set(project)
    assert vectors is not None
    file = vectors.metric / name
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(WorkspaceError, match="'lemmata train metric'"):
        open_metric(project)
    assert any("lemmata train metric" in problem for problem in project.info()["problems"])
    assert "done_before" not in project.train_metric(settings=asdict(SMALL))
    assert not project.info()["problems"]
    open_metric(project)


def test_links_of_a_metric_that_lead_out_of_the_graph_are_refused(changing: Project) -> None:
    vectors = vector_set(changing)
    assert vectors is not None
    targets = np.load(vectors.metric / "targets.npy")
    np.save(vectors.metric / "targets.npy", np.full_like(targets, 7_000_000))
    write_hashed_manifest(vectors.metric, read_manifest(vectors.metric / "manifest.json") or {})
    with changing.retriever() as retriever, pytest.raises(WorkspaceError, match="'lemmata train metric'"):
        retriever.search("aaword", 3, retriever="geodesic")


def test_a_corpus_that_has_grown_is_indexed_before_a_metric_is_learned(changing: Project, tmp_path: Path) -> None:
    project = changing
    (tmp_path / "more.jsonl").write_text('{"id": "a", "text": "aaword something"}', "utf-8")
    project.ingest([tmp_path / "more.jsonl"])
    with pytest.raises(WorkspaceError, match="'lemmata index'"):
        project.train_metric(settings=asdict(SMALL))


def test_auto_ranks_by_the_metric_where_it_has_a_weight(learned: Project) -> None:
    text = "aaword abword acword note"
    alone = Fusion(weight=1.0, learned=1e4)
    with learned.retriever() as retriever:
        retriever.search(text, 5)
        assert "metric" not in vars(retriever.dense())  # nothing of it is opened without a weight
        side = retriever.dense()
        assert side.metric is not None
        nearest, _ = side.metric.search(side.encoder.encode([text], role="query"), 5)
        rows, scores = retriever.search_rows([text, " "], 5, fusion=alone)
        assert rows[0].tolist() == nearest[0].tolist()
        assert rows[1].tolist() == [-1] * 5
        assert np.isneginf(scores[1]).all()
        allowed = np.arange(len(retriever.corpus)) % 3 == 0
        rows, _ = retriever.search_rows([text], 5, allowed=allowed, fusion=alone)
        expected, _ = side.metric.search(side.encoder.encode([text], role="query"), 5, allowed)
        assert rows[0].tolist() == expected[0].tolist()
        itself = np.array([int(nearest[0, 0])])
        rows, _ = retriever.search_rows([text], 4, fusion=alone, itself=itself)
        assert rows[0].tolist() == nearest[0, 1:].tolist()


def test_tuning_fits_the_weight_of_the_metric_and_info_shows_it(changing: Project) -> None:
    project = changing
    queries = {f"q{number}": f"{'abcd'[number % 4]}aword note" for number in range(8)}
    task = Task("notes", queries, {query: {f"n{number}": 1} for number, query in enumerate(queries)})
    tried = project.tune(task, measure="R@20")["tried"]
    assert {each["learned"] for each in tried} > {0.0}
    vectors = vector_set(project)
    assert vectors is not None
    fitted = read_manifest(vectors.fusion) or {}
    write_manifest(vectors.fusion, {**fitted, "fusion": asdict(Fusion(weight=0.5, learned=1.0))})
    assert "used by auto" in " ".join(lemmata("info", "-w", str(project.root)).split())
    with project.retriever() as retriever:
        hits = retriever.search("aaword abword", 5, paths=True)
        assert "metric" in vars(retriever.dense())
        assert all(hit.path[-1].target == hit.id for hit in hits)


def test_without_a_split_or_with_few_references_the_cause_is_named(tmp_path: Path) -> None:
    (tmp_path / "few.jsonl").write_text(
        "\n".join(json.dumps({"id": f"p{n}", "text": f"text {n}", "links": {"cites": "p0"}}) for n in range(1, 20)),
        "utf-8",
    )
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "few.jsonl"])
    with pytest.raises(WorkspaceError, match="lemmata index"):
        project.train_metric()
    project.build_graph()
    project.index(settings={"encoder": "hashing"})
    with pytest.raises(WorkspaceError, match="lemmata split"):
        project.train_metric()
    project.split()
    with pytest.raises(LemmataError, match=r"training|validation"):
        project.train_metric()
