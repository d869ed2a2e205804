"""`evaluate --retriever dense:A,dense:B`: encoders compared in one workspace; a cap on the cost of remote ones."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from tests.embedding_server import CountingServer, word_vector
from tests.make import copied, lemmata, make_workspace

from lemmata.core.errors import ConfigError, LemmataError, WorkspaceError
from lemmata.core.http import Service
from lemmata.core.workspace import default_encoder, read_manifest, vector_set, vector_sets
from lemmata.encode.load import load_encoder
from lemmata.encode.remote import Allowance, Estimate, RemoteEncoder
from lemmata.evaluate.report import as_json
from lemmata.evaluate.tasks import Task, task_from
from lemmata.project import Project
from lemmata.vectors.store import open_vectors

NANO = "lemmata-nano"
STATES = ("leaking", "loud", "hot", "new", "old")
FAULTS = [(noun, state) for noun in ("pump", "valve", "seal", "motor") for state in STATES]
NOTES = {f"n{n}": f"Report {n}: the {noun} of unit {n} is {state}." for n, (noun, state) in enumerate(FAULTS)}
QUERIES = {f"q{n}": f"{text.split(': ')[1]} again" for n, text in enumerate(NOTES.values())}
QRELS = {f"q{n}": {f"n{n}": 1} for n in range(len(NOTES))}


def write_notes(folder: Path, notes: dict[str, str]) -> Path:
    path = folder / "notes.jsonl"
    path.write_text("\n".join(json.dumps({"id": name, "text": text}) for name, text in notes.items()))
    return path


@copied
def project(folder: Path) -> Project:
    return make_workspace(folder, write_notes(folder, NOTES))


@pytest.fixture
def task() -> Task:
    return task_from("notes", QUERIES, QRELS)


# ---------------------------------------------------------------- comparing


def test_encoders_are_compared_under_the_names_that_were_typed(project: Project, task: Task) -> None:
    names = ["lexical", "dense", f"dense:{NANO}", "dense:hashing", f"hybrid:{NANO}"]
    said: list[str] = []
    with project.reporting_to(lambda what, *_: said.append(what)):
        report = project.evaluate(task, retrievers=names)
    content = as_json(report)
    assert list(content["retrievers"]) == names
    assert {(c["first"], c["second"]) for c in content["comparisons"]} == {(name, "lexical") for name in names[1:]}
    assert f"encoding ({NANO})" in said
    assert "encoding (hashing)" not in said  # those vectors were there
    for measure, values in report.retrievers["dense"].items():
        np.testing.assert_array_equal(values, report.retrievers["dense:hashing"][measure])
    assert default_encoder(project) == "hashing"
    assert [vectors.encoder for vectors in vector_sets(project)] == ["hashing", NANO]
    again: list[str] = []
    with project.reporting_to(lambda what, *_: again.append(what)):
        project.evaluate(task, retrievers=names)
    assert not [what for what in again if what.startswith("encoding")]


def test_each_encoder_measures_what_it_measures_alone(project: Project, task: Task, tmp_path: Path) -> None:
    together = project.evaluate(task, retrievers=[f"hybrid:{NANO}", f"dense:{NANO}"])
    alone = Project.init(tmp_path / "alone")
    alone.ingest([tmp_path / "notes.jsonl"])
    alone.index(settings={"encoder": NANO})
    expected = alone.evaluate(task, retrievers=["hybrid", "dense"])
    for kind in ("hybrid", "dense"):
        for measure, values in expected.retrievers[kind].items():
            np.testing.assert_array_equal(together.retrievers[f"{kind}:{NANO}"][measure], values)
    assert (together.encoder, expected.encoder) == ("", NANO)


def test_vectors_of_an_older_corpus_are_brought_up_to_date_by_evaluate(project: Project, task: Task) -> None:
    project.index(settings={"encoder": "hashing", "dimension": 64})
    project.index(settings={"encoder": NANO})
    kept = {name: text for name, text in NOTES.items() if name != "n3"}
    project.ingest([write_notes(project.root.parent, {"new": "A note that comes first.", **kept})])
    project.index()
    reports: list[tuple[str, int, int | None]] = []
    with project.reporting_to(lambda *report: reports.append(report)):
        project.evaluate(task, retrievers=["dense:hashing"], allow_missing=True)
    assert ("encoding (hashing)", 0, 1) in reports  # only the new note
    with contextlib.closing(project.corpus) as corpus:
        fresh = load_encoder("hashing", dimension=64).encode(list(corpus.contents()))
        np.testing.assert_array_equal(open_vectors(project, corpus.digest, "hashing").matrix, fresh)


def test_an_old_lexical_index_is_refused_before_anything_is_encoded(project: Project, task: Task) -> None:
    project.ingest([write_notes(project.root.parent, {"new": "A note that comes first.", **NOTES})])
    with pytest.raises(WorkspaceError, match="'lemmata index'"):
        project.evaluate(task, retrievers=[f"hybrid:{NANO}"])
    assert [vectors.encoder for vectors in vector_sets(project)] == ["hashing"]
    project.evaluate(task, retrievers=[f"dense:{NANO}"])


def test_a_typing_error_in_one_name_is_refused_before_another_is_encoded(project: Project, task: Task) -> None:
    with pytest.raises(LemmataError, match="'minlm'"):
        project.evaluate(task, retrievers=[f"dense:{NANO}", "dense:minlm"])
    with pytest.raises(LemmataError, match="'sparse:x'"):
        project.evaluate(task, retrievers=[f"dense:{NANO}", "sparse:x"])
    assert [vectors.encoder for vectors in vector_sets(project)] == ["hashing"]


def test_the_fusion_is_tuned_for_the_encoder_that_is_named(project: Project, task: Task) -> None:
    project.tune(task, f"auto:{NANO}")
    tuned, default = vector_set(project, NANO), vector_set(project)
    assert tuned is not None
    assert default is not None
    assert read_manifest(tuned.fusion)
    assert not default.fusion.exists()


def test_the_command_line_compares_encoders_and_writes_a_run_for_each(project: Project, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text("\n".join(json.dumps({"_id": q, "text": t}) for q, t in QUERIES.items()))
    lines = [f"{query}\t{passage}\t1" for query, grades in QRELS.items() for passage in grades]
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(lines))
    files = ("--queries", tmp_path / "q.jsonl", "--qrels", tmp_path / "qrels.tsv", "-w", project.root)
    names = f"lexical,dense:hashing,hybrid:{NANO}"
    out = lemmata("evaluate", "--retriever", names, *files, "--trec", tmp_path / "run.txt", "--json")
    assert list(json.loads(out)["retrievers"]) == names.split(",")
    assert sorted(path.name for path in tmp_path.glob("run.*.txt")) == [
        "run.dense-hashing.txt",
        f"run.hybrid-{NANO}.txt",
        "run.lexical.txt",
    ]
    assert f"hybrid:{NANO}" in lemmata("evaluate", "--retriever", names, *files)
    assert "those of hashing are kept" in lemmata("index", "--encoder", NANO, "-w", project.root)
    assert "hashing" in lemmata("index", "--remove", "hashing", "-w", project.root)
    error = lemmata("search", "pump", "--retriever", "dense:hashing", "-w", project.root, code=1)
    assert error == "lemmata: there is no dense index of hashing yet: run 'lemmata index --encoder hashing'\n"


# ---------------------------------------------------------------- the cost of remote encoders


def test_a_cap_below_the_estimate_refuses_before_anything_is_sent(
    project: Project, task: Task, counting: CountingServer
) -> None:
    cap = project.allowance(cost=0.0001, price=1.0)  # 100 tokens
    with pytest.raises(LemmataError) as caught:
        project.index(settings={"encoder": counting.url}, allowance=cap)
    assert "1 calls and " in str(caught.value)
    assert "tokens at a cost of 0.0002" in str(caught.value)
    assert "more than the cap of a cost of 0.0001: nothing was sent" in str(caught.value)
    with pytest.raises(LemmataError, match=r"0\.0001"):
        project.evaluate(task, retrievers=["dense", f"dense:{counting.url}"], allowance=cap)
    assert counting.tokens == []


def test_the_estimate_of_an_evaluation_counts_all_encoders_and_the_queries(
    project: Project, task: Task, counting: CountingServer
) -> None:
    estimate = project.estimate_index(settings={"encoder": counting.url})
    assert estimate is not None
    one = Allowance(tokens=2 * estimate.tokens - 1)
    other = counting.url.replace("#words", "#other")
    with pytest.raises(LemmataError, match="4 calls"):
        project.evaluate(task, retrievers=[f"dense:{counting.url}", f"dense:{other}"], allowance=one)
    assert counting.tokens == []


def test_a_remote_encoder_is_evaluated_within_its_cap_and_costs_nothing_the_second_time(
    project: Project, task: Task, counting: CountingServer
) -> None:
    cap = project.allowance(tokens=5000, price=0.5)
    report = project.evaluate(task, retrievers=["lexical", f"dense:{counting.url}"], allowance=cap)
    assert (cap.tokens, cap.calls) == (sum(counting.tokens), len(counting.tokens))
    assert report.retrievers[f"dense:{counting.url}"]["MRR@10"].mean() > 0.8
    spent = cap.calls
    project.evaluate(task, retrievers=[f"dense:{counting.url}"], allowance=cap)
    assert cap.calls == spent


@pytest.mark.parametrize("most", [40, 120, 200])
def test_a_service_that_counts_more_than_estimated_is_stopped_before_the_cap(
    tmp_path: Path, counting: CountingServer, most: int
) -> None:
    texts = [f"{n} a b c d e f g h" for n in range(30)]  # more tokens than the four characters of the estimate
    cap = Allowance(tokens=most)
    service = Service(counting.url.split("#")[0], counting.url.split("#")[1])
    with pytest.raises(LemmataError, match=f"{most} tokens"):
        RemoteEncoder(service, cache=tmp_path / "cache.sqlite", allowance=cap).encode(texts)
    assert most - 30 < sum(counting.tokens) == cap.tokens <= most
    before = list(counting.texts)
    RemoteEncoder(service, cache=tmp_path / "cache.sqlite").encode(texts)
    assert len(counting.texts) == len(set(counting.texts)) == len(texts)  # nothing is paid for twice
    assert counting.texts[: len(before)] == before


def test_an_index_that_was_stopped_by_its_cap_resumes_and_ends_the_same(
    project: Project, counting: CountingServer
) -> None:
    notes = {f"n{n}": f"{n} a b c d e f g h" for n in range(20)}  # 180 tokens; the estimate is 100
    project.ingest([write_notes(project.root.parent, notes)])
    with pytest.raises(LemmataError, match="150 tokens"):
        project.index(settings={"encoder": counting.url}, allowance=project.allowance(tokens=150))
    assert 100 < sum(counting.tokens) <= 150
    assert default_encoder(project) == "hashing"
    project.index(settings={"encoder": counting.url})
    texts = [text for text in counting.texts if text != "dimension"]
    assert sorted(texts) == sorted(notes.values())
    with contextlib.closing(project.corpus) as corpus:
        fresh = np.stack([word_vector(text) for text in corpus.contents()])
    fresh /= np.linalg.norm(fresh, axis=1, keepdims=True)
    np.testing.assert_allclose(open_vectors(project).matrix, fresh, atol=1e-6)


def test_the_estimate_leaves_out_what_has_vectors_even_without_a_cache(
    project: Project, counting: CountingServer
) -> None:
    project.index(settings={"encoder": counting.url})
    for path in project.encodings.parent.iterdir():
        path.unlink()
    assert project.estimate_index() == Estimate(0, 0, len(NOTES))
    project.ingest([write_notes(project.root.parent, {**NOTES, "new": "four words are here"})])
    assert project.estimate_index() == Estimate(5, 1, len(NOTES))


def test_a_service_that_reports_no_tokens_is_counted_by_the_estimate(counting: CountingServer) -> None:
    counting.reports_usage = False
    cap = Allowance(tokens=1000)
    RemoteEncoder(Service(counting.url.split("#")[0], counting.url.split("#")[1]), allowance=cap).encode(
        ["12345678", "1234"]
    )
    assert (cap.calls, cap.tokens) == (1, 3)


def test_a_cap_on_the_cost_needs_a_price(project: Project) -> None:
    with pytest.raises(ConfigError, match=r"price in \[index\]"):
        project.allowance(cost=1.0)
    with project.config_file.open("a") as stream:
        stream.write("price = 0.02\n")
    assert Project(project.root).allowance(cost=1.0).price == 0.02
    project.config_file.write_text("")
    assert "price" in lemmata("index", "--budget", "cost=1", "-w", project.root, code=1)


def test_the_command_line_states_calls_tokens_and_cost(project: Project, counting: CountingServer) -> None:
    cap = ("-o", "price=2", "--budget", "cost=0.0001", "-w", project.root)
    error = lemmata("index", "--encoder", counting.url, *cap, code=1)
    assert "about 200 tokens in 1 call, at a cost of 0.0004;" in error
    assert "encoding would take about 1 calls and 200 tokens at a cost of 0.0004, more than the cap of a c" in error
    assert counting.tokens == []


def test_several_workspaces_are_one_table_with_their_macro_mean(project: Project, tmp_path: Path) -> None:
    folders = [tmp_path / "w", tmp_path / "other"]
    other = Project.init(folders[1])
    other.ingest([write_notes(tmp_path, dict(list(NOTES.items())[:8]))])
    other.index(settings={"encoder": "hashing"})
    for folder, asked in zip(folders, (20, 5), strict=True):
        rows = [f"{QUERIES[f'q{n}']}\tn{n if asked == 20 else 0}" for n in range(asked)]  # the other: one right of five
        (folder / "asked.tsv").write_text("\n".join(["query\tpassage", *rows]))
    command = ["evaluate", *map(str, folders), "--queries", "asked.tsv", "--retriever", "lexical,dense"]
    told = json.loads(lemmata(*command, "-o", "measures=Success@1", "--json"))
    alone = []
    for folder in folders:
        text = lemmata("evaluate", folder, *command[3:], "-o", "measures=Success@1", "--json")
        alone.append(json.loads(text)["retrievers"])
    for name, result in told["retrievers"].items():
        means = [each[name]["measures"]["Success@1"] for each in alone]
        assert result["measures"]["Success@1"] == pytest.approx(sum(means) / 2)
        assert [group["queries"] for group in result["groups"].values()] == [20, 5]
        assert [group["measures"]["Success@1"] for group in result["groups"].values()] == pytest.approx(means)
        low, high = result["ci"]["Success@1"]
        assert low <= result["measures"]["Success@1"] <= high
    assert told["queries"] == 25
    assert told["task"] == ", ".join(str(folder / "asked.tsv") for folder in folders)
    assert told["comparisons"][0]["difference"] == pytest.approx(
        told["retrievers"]["dense"]["measures"]["Success@1"] - told["retrievers"]["lexical"]["measures"]["Success@1"]
    )
    assert "--tune is for one workspace" in lemmata(*command, "--tune", code=1)
