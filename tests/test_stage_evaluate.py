"""`evaluate` and `tune` on a small workspace, from files to report."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.embedding_server import FaultyServer
from tests.make import lemmata, make_workspace, to_lines

from lemmata.core.errors import ConfigError, InputError, LeakageError, LemmataError
from lemmata.core.workspace import vector_set, write_manifest
from lemmata.corpus.leakage import Example
from lemmata.evaluate.evaluate import EvaluateOptions
from lemmata.evaluate.report import as_json
from lemmata.evaluate.tasks import task_from
from lemmata.evaluate.workspace_tasks import beir_task, read_asked
from lemmata.project import Project
from lemmata.search.fusion import Fusion
from lemmata.search.hints import missing_part

TEXTS = {
    "a1": ("a", "Partitions into odd parts and partitions into distinct parts are equally many."),
    "a2": ("a", "Franklin's involution proves the pentagonal number theorem."),
    "b1": ("b", "Every prime ideal of a Noetherian ring has finite height."),
    "b2": ("b", "An ideal in a union of primes lies in one of them."),
    "c1": ("c", "The pump of the column leaks again since this morning."),
    "a1-copy": ("d", "Partitions into odd parts and partitions into distinct parts are equally many!"),
}
LONG = "which partitions of a number have as many parts as partitions of the same number into odd parts have"
QUERIES = {"q1": "odd parts and distinct parts", "q2": "height of prime ideals", "q3": "leaking pump"}
QRELS = {"q1": {"a1": 2, "a2": 1}, "q2": {"b1": 1}, "q3": {"c1": 1}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("evaluating")
    rows = [{"id": i, "document": d, "text": t} for i, (d, t) in TEXTS.items()]
    (folder / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "q.jsonl").write_text("\n".join(json.dumps({"_id": q, "text": t}) for q, t in QUERIES.items()))
    lines = [f"{q}\t{p}\t{g}" for q, grades in QRELS.items() for p, g in grades.items()]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(lines))
    project = Project.init(folder / "w")
    project.ingest([folder / "p.jsonl"])
    project.index(settings={"encoder": "hashing"})
    return project


def test_a_report_has_measures_intervals_and_comparisons(project: Project) -> None:
    report = as_json(
        project.evaluate(task_from("t", QUERIES, QRELS), options=EvaluateOptions(measures="MRR@10,R@2,P@1"))
    )
    assert report["queries"] == 3
    assert set(report["retrievers"]) == {"lexical", "dense", "hybrid", "auto"}
    assert report["retrievers"]["lexical"]["measures"]["MRR@10"] == 1.0
    low, high = report["retrievers"]["dense"]["ci"]["MRR@10"]
    assert low <= report["retrievers"]["dense"]["measures"]["MRR@10"] <= high
    assert {(c["first"], c["second"]) for c in report["comparisons"]} == {
        (name, "lexical") for name in ("dense", "hybrid", "auto")
    }
    assert [c["measure"] for c in report["comparisons"]] == 3 * ["MRR@10"] + 3 * ["R@2"] + 3 * ["P@1"]


def test_document_level_counts_any_passage_of_the_document(project: Project) -> None:
    task = task_from("t", {"q": "odd parts and distinct parts"}, {"q": {"a2": 1}})
    values = [
        project.evaluate(
            task, retrievers=["lexical"], options=EvaluateOptions(measures="Success@1", level=level)
        ).retrievers["lexical"]["Success@1"][0]
        for level in ("passage", "document")
    ]
    assert values == [0.0, 1.0]


def test_whole_document_level_counts_every_passage_of_the_answers_document(project: Project) -> None:
    task = task_from("t", {"q": "odd parts and distinct parts", "r": "ideal"}, {"q": {"a2": 1}, "r": {"b1": 1}})
    options = EvaluateOptions(measures="Acc@1,R@30,P@5", level="whole-document")
    report = project.evaluate(task, retrievers=["lexical"], options=options)
    assert report.retrievers["lexical"]["Success@1"].tolist() == [1.0, 1.0]  # a1 is of the same document as a2
    assert report.retrievers["lexical"]["R@30"][1] == 1.0  # b1 and b2
    assert report.retrievers["lexical"]["P@5"][1] == 0.4
    assert report.notes[-1].startswith("whole-document level: all passages")
    widened = task_from("t", task.queries, {"q": {"a1": 1, "a2": 1}, "r": {"b1": 1, "b2": 1}})
    same = project.evaluate(widened, retrievers=["lexical"], options=EvaluateOptions(measures="Acc@1,R@30,P@5"))
    for name, value in same.retrievers["lexical"].items():
        assert report.retrievers["lexical"][name].tolist() == value.tolist()
    with_missing = task_from("t", task.queries, {"q": {"a2": 1, "gone": 1}, "r": {"b1": 1}})
    missing = project.evaluate(with_missing, retrievers=["lexical"], options=options, allow_missing=True)
    assert missing.retrievers["lexical"]["R@30"][0] < report.retrievers["lexical"]["R@30"][0]


def test_leaked_test_data_is_refused_unless_allowed_and_then_noted(project: Project) -> None:
    task = task_from("t", QUERIES, QRELS)
    train = [Example("t1", "Odd parts  and Distinct parts", ("a1",))]
    with pytest.raises(LemmataError, match=r"1 same anchor.*1 same passage.*--allow-leakage"):
        project.evaluate(task, retrievers=["lexical"], train=train)
    report = project.evaluate(task, retrievers=["lexical"], train=train, allow_leakage=True)
    assert report.notes[-1].startswith("LEAKAGE ALLOWED: ")
    assert report.groups["seen"].tolist() == [True, False, False]
    assert report.groups["unseen"].tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("anchor", "passage", "kind"),
    [
        ("odd parts and distinct parts", "c1", "1 same anchor"),
        (f"{LONG} again", "c1", "1 near anchor"),
        ("something else", "a1", "1 same passage"),
        ("something else", "a1-copy", "1 near passage"),
    ],
)
def test_each_kind_of_leak_alone_is_refused(project: Project, anchor: str, passage: str, kind: str) -> None:
    task = task_from("t", {"q1": QUERIES["q1"], "q2": LONG}, {"q1": {"a1": 1}, "q2": {"a1": 1}})
    train = [Example("t1", anchor, (passage,))]
    with pytest.raises(LemmataError, match=rf"{kind};.*--allow-leakage"):
        project.evaluate(task, retrievers=["lexical"], train=train)


def test_clean_training_data_is_noted_too(project: Project) -> None:
    report = project.evaluate(
        task_from("t", {"q3": QUERIES["q3"]}, {"q3": QRELS["q3"]}),
        retrievers=["lexical"],
        train=[Example("t1", "prime avoidance", ("b2",))],
    )
    assert "no leakage found" in report.notes[-1]


def test_a_query_that_is_a_passage_does_not_retrieve_itself(project: Project, tmp_path: Path) -> None:
    source = tmp_path / "d.tex"
    statements = "".join(
        f"\\begin{{lemma}}\\label{{l{n}}} Lemma {n} on rings and ideals, by \\ref{{l{n - 1}}}. \\end{{lemma}}\n"
        for n in range(1, 9)
    )
    source.write_text(f"\\documentclass{{article}}\\begin{{document}}{statements}\\end{{document}}")
    other = Project.init(tmp_path / "w")
    other.ingest([source])
    other.index(dense=False)
    task = other.task("references", share=1.0)
    assert set(task.queries) == {f"d#l{n}" for n in range(2, 9)}
    report = other.evaluate(task, retrievers=["lexical"], options=EvaluateOptions(measures="R@10,Success@1"))
    assert report.retrievers["lexical"]["R@10"].tolist() == [1.0] * 7
    with pytest.raises(LemmataError, match="'riddles'"):
        other.task("riddles")


def test_the_tuned_fusion_is_stored(project: Project) -> None:
    result = project.tune(task_from("t", QUERIES, QRELS))
    weights = {(tried["weight"], tried["crowding"]) for tried in result["tried"]}
    assert len(result["tried"]) == len(weights)  # there is no graph
    assert {weight for weight, _ in weights} >= {step / 10 for step in range(11)}
    assert set(result["values"]) == {"auto", "default", "equal", "dense", "lexical"}
    retriever = project.retriever()
    assert retriever.dense().fusion.calibrated == result["fusion"]["calibrated"]
    assert retriever.dense().fusion.weight == result["fusion"]["weight"]
    retriever.close()


STATEMENTS = {
    "d1": "Every ideal of a ring lies in a maximal one.",
    "d2": "Every ideal of a ring lies in a maximal one of it.",
    "d3": "A field has two ideals.",
    **{f"u{n}": f"Note number {n} is about something else." for n in range(9)},
}


@pytest.fixture(scope="module")
def cited(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Two statements that say the same, the second with nine references to it, and a graph."""
    folder = tmp_path_factory.mktemp("cited")
    lines = [
        {"id": name, "text": text, "kind": "lemma", "links": ["d2"] if name.startswith("u") else []}
        for name, text in STATEMENTS.items()
    ]
    (folder / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    project = Project.init(folder / "w")
    project.ingest([folder / "p.jsonl"])
    project.index(settings={"encoder": "hashing"})
    project.build_graph()
    return project


def test_auto_learns_that_people_look_for_what_is_cited(cited: Project, tmp_path: Path) -> None:
    project = Project(shutil.copytree(cited.root, tmp_path / "w"))
    queries = {f"q{n}": f"{STATEMENTS['d1']} {'again ' * n}" for n in range(12)}
    task = task_from("asked.tsv", queries, {query: {"d2": 1} for query in queries})
    options = EvaluateOptions(measures="Success@1")
    before = project.evaluate(task, retrievers=["auto"], options=options)
    assert before.retrievers["auto"]["Success@1"].sum() == 0
    report = project.tune(task, measure="Success@1")
    assert report["fusion"]["citations"] > 0
    assert report["values"]["auto"] == 1 > report["values"]["default"] == 0
    after = project.evaluate(task, retrievers=["auto", "auto:hashing", "hybrid"], options=options)
    assert [int(after.retrievers[name]["Success@1"].sum()) for name in after.retrievers] == [12, 12, 0]
    with project.retriever() as retriever:
        assert retriever.search(queries["q0"], 1)[0].id == "d2"
        assert retriever.citations is not None
        assert retriever.citations.counts.tolist() == [0, 9] + 10 * [0]
        itself = np.array([3])  # the first of those that refer to it: eight are left
        known = dict(zip(*(part[0].tolist() for part in retriever.search_rows([queries["q0"]], 5)), strict=True))
        asked = dict(
            zip(*(part[0].tolist() for part in retriever.search_rows([queries["q0"]], 5, itself=itself)), strict=True)
        )
        assert known[1] - asked[1] == pytest.approx(report["fusion"]["citations"] * np.log(10 / 9), abs=1e-5)
    (described,) = project.info()["vectors"]
    assert "citations" in described["fusion"]["formula"]
    assert described["fusion"]["fitted"]["task"] == "asked.tsv"


def test_auto_does_without_a_graph_and_with_one_of_another_corpus(cited: Project, tmp_path: Path) -> None:
    project = Project(shutil.copytree(cited.root, tmp_path / "w"))
    places = vector_set(project)
    assert places is not None
    fitted = {"fusion": asdict(Fusion(False, 0.8, citations=0.5, crowding=0.0))}
    write_manifest(places.fusion, {**fitted, "task": "asked", "queries": 1, "measure": "MRR@10", "values": {}})

    def first() -> str:
        with project.retriever() as retriever:
            return retriever.search(STATEMENTS["d1"], 1)[0].id

    assert first() == "d2"
    (tmp_path / "more.jsonl").write_text(json.dumps({"id": "d4", "text": "Rings are rings."}))
    project.ingest([tmp_path / "more.jsonl"])
    project.index()
    assert first() == "d1"
    assert any("graph build" in problem for problem in project.info()["problems"])
    missing = "searched without citations, which the weights of auto count on: run 'lemmata graph build'"
    with project.retriever() as retriever:
        assert missing_part(retriever) == missing
    task = task_from("t", {"q": STATEMENTS["d1"]}, {"q": {"d2": 1}})
    assert missing in project.evaluate(task, retrievers=["auto"]).notes
    assert missing not in project.evaluate(task, retrievers=["dense"]).notes
    project.build_graph()
    assert first() == "d2"
    shutil.rmtree(project.graph_folder)
    assert first() == "d1"


def test_unknown_measures_and_passages_are_named(project: Project) -> None:
    task = task_from("t", QUERIES, QRELS)
    with pytest.raises(ConfigError, match="Magic@3"):
        project.evaluate(task, options=EvaluateOptions(measures="Magic@3"))
    with pytest.raises(InputError, match="'zz', 'yy'"):
        project.evaluate(task_from("t", {"q": "?"}, {"q": {"zz": 1, "yy": 1}}), retrievers=["lexical"])


def test_missing_passages_are_refused_with_their_number_and_the_flag(project: Project) -> None:
    qrels = {"q1": {"a1": 2, "gone": 1}, "q2": {"lost": 1}, "q3": {"c1": 1}}
    with pytest.raises(InputError) as caught:
        project.evaluate(task_from("qrels.tsv", QUERIES, qrels), retrievers=["lexical"])
    assert str(caught.value) == (
        "qrels.tsv: 2 judged passages are not in the corpus: 'gone', 'lost' (1 query has no other);"
        " --allow-missing goes on and counts them as not found"
    )
    many = {"q1": {f"x{n}": 1 for n in range(9)}}
    with pytest.raises(InputError, match=r"9 .*'x4' and 4 .*1 query"):
        project.evaluate(task_from("t", QUERIES, many), retrievers=["lexical"])


@pytest.mark.parametrize("level", ["passage", "document"])
def test_allowed_missing_passages_count_as_relevant_and_not_found(project: Project, level: str) -> None:
    qrels = {"q1": {"a1": 1, "gone": 1}, "q2": {"lost": 1}, "q3": {"c1": 1}}
    options = EvaluateOptions(measures="R@5,Success@5", level=level)
    train = [Example("t", "an unrelated question on valves", ("b2", "also gone"))]
    report = project.evaluate(
        task_from("t", QUERIES, qrels), retrievers=["lexical"], options=options, allow_missing=True, train=train
    )
    assert report.retrievers["lexical"]["R@5"].tolist() == [0.5, 0.0, 1.0]
    assert report.retrievers["lexical"]["Success@5"].tolist() == [1.0, 0.0, 1.0]
    assert report.recall["lexical"][:, -1].tolist() == [0.5, 0.0, 1.0]
    written = as_json(report)
    assert written["missing"] == {"passages": 2, "judgments": 2, "queries": 1}
    note = "2 judged passages are not in the corpus: 'gone', 'lost' (1 query has no other)"
    assert f"{note}; they count as relevant and not found" in written["notes"]
    complete = project.evaluate(task_from("t", QUERIES, QRELS), retrievers=["lexical"])
    assert as_json(complete)["missing"] == {"passages": 0, "judgments": 0, "queries": 0}


def test_a_missing_passage_still_leaks(project: Project) -> None:
    task = task_from("t", QUERIES, {"q1": {"a1": 1, "gone": 1}})
    train = [Example("t", "an unrelated question on valves", ("gone",))]
    with pytest.raises(LemmataError, match="--allow-leakage"):
        project.evaluate(task, retrievers=["lexical"], allow_missing=True, train=train)


def test_a_beir_folder_with_titles_only_is_evaluated_by_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "zoo"
    (folder / "qrels").mkdir(parents=True)
    rows = [
        {"_id": "z", "title": "Zebras have stripes", "text": ""},
        {"_id": "l", "title": "Lions", "text": "They roar."},
        {"_id": "e", "title": "", "text": ""},
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    queries = {"1": "striped zebras", "2": "who roars", "3": "empty"}
    (folder / "queries.jsonl").write_text("\n".join(json.dumps({"_id": q, "text": t}) for q, t in queries.items()))
    judged = folder / "qrels" / "test.tsv"
    judged.write_text("query-id\tcorpus-id\tscore\n1\tz\t1\n2\tl\t1\n")
    lemmata("init", tmp_path / "w")
    lemmata("ingest", folder, "-w", tmp_path / "w")
    lemmata("index", "--encoder", "hashing", "-w", tmp_path / "w")
    command: list[str | Path] = ["evaluate", "--beir", folder, "--retriever", "lexical", "-w", tmp_path / "w"]
    report = json.loads(lemmata(*command, "--json"))
    assert report["retrievers"]["lexical"]["measures"]["Success@1"] == 1.0
    judged.write_text(judged.read_text() + "3\te\t1\n")
    message = " ".join(lemmata(*command, code=1).split())
    assert "1 judged passage is not in the corpus: 'e' (1 query has no other); --allow-missing goes on" in message
    report = json.loads(lemmata(*command, "--allow-missing", "--json"))
    assert report["missing"] == {"passages": 1, "judgments": 1, "queries": 1}
    assert report["retrievers"]["lexical"]["measures"]["Success@1"] == pytest.approx(2 / 3)
    assert "not in the corpus" in lemmata(*command, "--allow-missing")
    (tmp_path / "asked.tsv").write_text("query\tid\nstriped\tz\nempty\te\n", encoding="utf-8")
    table: list[str | Path] = ["evaluate", "--queries", tmp_path / "asked.tsv", "--retriever", "lexical"]
    assert "--allow-missing" in lemmata(*table, "-w", tmp_path / "w", code=1)
    assert json.loads(lemmata(*table, "-w", tmp_path / "w", "--allow-missing", "--json"))["missing"]["queries"] == 1


def test_a_beir_folder_is_judged_by_its_own_passages_when_another_has_the_same_ids(tmp_path: Path) -> None:
    animals = {"zoo": ("zebras", "lions"), "sea": ("whales", "sharks")}
    for name, (first, second) in animals.items():
        (tmp_path / name / "qrels").mkdir(parents=True)
        rows = [{"_id": "1", "text": f"About {first}."}, {"_id": "2", "text": f"About {second}."}]
        (tmp_path / name / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
        (tmp_path / name / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": first}))
        (tmp_path / name / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "zoo", tmp_path / "sea"])
    for name, judged_id in (("zoo", "1"), ("sea", "sea/1")):
        assert beir_task(project, tmp_path / name, name=name).qrels == {"q": {judged_id: 1}}
    lemmata("index", "--encoder", "hashing", "-w", tmp_path / "w")
    command = ("evaluate", "--beir", tmp_path / "sea", "--retriever", "lexical", "-w", tmp_path / "w", "--json")
    assert json.loads(lemmata(*command))["retrievers"]["lexical"]["measures"]["Success@1"] == 1.0


def test_tuning_refuses_missing_passages_unless_allowed(project: Project) -> None:
    task = task_from("t", QUERIES, {"q1": {"a1": 1, "gone": 1}})
    with pytest.raises(InputError, match="--allow-missing"):
        project.tune(task)
    assert project.tune(task, allow_missing=True)["queries"] == 1


def test_weights_are_not_fitted_to_test_judgments(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "judged"
    (folder / "qrels").mkdir(parents=True)
    queries = [("q1", "distinct parts", "a1"), ("q2", "prime ideals", "b1")]
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": q, "text": t}) + "\n" for q, t, _ in queries))
    judged = "".join(f"{query}\t{answer}\t1\n" for query, _, answer in queries)
    for which in ("test", "train"):
        (folder / "qrels" / f"{which}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    where: list[str | Path] = ["-w", project.root]
    refused = lemmata("evaluate", "--beir", folder, "--tune", *where, code=1)
    assert "would fit weights to test judgments" in " ".join(refused.split())
    assert "measure  MRR@10" in lemmata("evaluate", "--beir", f"{folder}#train", "--tune", *where)


def test_weights_are_not_fitted_to_the_test_part(project: Project) -> None:
    task = replace(task_from("t", QUERIES, QRELS), part="test")
    for tune in (project.tune, partial(project.tune, retriever="lexical+rerank")):
        with pytest.raises(LeakageError, match="--part validation"):
            tune(task)


def test_queries_that_weights_were_fitted_to_are_named(cited: Project, tmp_path: Path) -> None:
    project = Project(shutil.copytree(cited.root, tmp_path / "w"))
    queries = {f"q{n}": f"{STATEMENTS['d1']} {'again ' * n}" for n in range(12)}
    asked = task_from("asked.tsv", queries, {query: {"d2": 1} for query in queries})
    project.tune(asked)
    half = {**{query: queries[query] for query in list(queries)[:6]}, "new": "what has two ideals"}
    task = task_from("t", half, {query: {"d2": 1} for query in half})

    def warnings(*retrievers: str) -> list[str]:
        report = project.evaluate(task, retrievers=list(retrievers))
        return [note for note in report.notes if "fitted" in note]

    assert warnings("auto", "dense") == [
        "WARNING: the weights of auto were fitted to 6 of these 7 queries: it looks too good"
    ]
    assert warnings("dense", "hybrid") == []


def test_few_queries_change_no_weights_and_replace_none(cited: Project, tmp_path: Path) -> None:
    project = Project(shutil.copytree(cited.root, tmp_path / "w"))
    queries = {f"q{n}": f"{STATEMENTS['d1']} {'again ' * n}" for n in range(12)}
    answers = {query: {"d2": 1} for query in queries}
    few = task_from("few.tsv", dict(list(queries.items())[:2]), dict(list(answers.items())[:2]))
    default = project.tune(few)["values"]["default"]
    assert project.tune(few)["values"]["auto"] == default
    project.tune(task_from("asked.tsv", queries, answers))
    with pytest.raises(InputError, match="12"):
        project.tune(few)


def test_a_judgment_of_grade_0_makes_no_query_seen(project: Project) -> None:
    task = task_from("t", {"q": "leaking pump"}, {"q": {"c1": 1, "b1": 0}})
    train = [Example("x", "prime ideals", ("b2",))]
    report = project.evaluate(task, retrievers=["lexical"], train=train)
    assert {name: mask.tolist() for name, mask in report.groups.items()} == {"seen": [False], "unseen": [True]}


def test_tuning_a_reranker_keeps_to_the_cap_of_a_remote_encoder(
    project: Project,
    service: FaultyServer,
    tmp_path: Path,
) -> None:
    folder = project.root.parent
    remote = Project.init(tmp_path / "w")
    remote.ingest([folder / "p.jsonl"])
    remote.index(settings={"encoder": f"{service.url}#tiny"})
    calls = len(service.requests)
    files: list[str | Path] = ["--queries", folder / "q.jsonl", "--qrels", folder / "qrels.tsv", "-w", tmp_path / "w"]
    refused = lemmata("evaluate", *files, "--tune", "--retriever", "dense+rerank", "--budget", "tokens=1", code=1)
    assert "the cap of 1 tokens" in " ".join(refused.split())
    assert len(service.requests) == calls


def test_queries_in_json_lines_may_name_their_passages(tmp_path: Path) -> None:
    lines = [("prime ideals", "b1"), ("prime ideals", "b2"), ("parts", "a1")]
    file = tmp_path / "asked.jsonl"
    file.write_text("".join(json.dumps({"query": query, "passage": one}) + "\n" for query, one in lines))
    assert read_asked(file) == ({"0": "prime ideals", "1": "parts"}, {"0": {"b1": 1, "b2": 1}, "1": {"a1": 1}})


def test_the_command_reads_files_and_writes_json_and_html(project: Project, tmp_path: Path) -> None:
    folder = project.root.parent
    files: list[str | Path] = [
        "--queries",
        folder / "q.jsonl",
        "--qrels",
        folder / "qrels.tsv",
        "-w",
        project.root,
    ]
    report = json.loads(lemmata("evaluate", *files, "--retriever", "lexical,hybrid", "--json"))
    assert report["queries"] == 3
    assert {"MRR@10", "nDCG@10", "R@20", "Success@1"} <= report["retrievers"]["hybrid"]["measures"].keys()
    assert "lexical" in lemmata("evaluate", *files, "--html", tmp_path / "r.html")
    assert "<html" in (tmp_path / "r.html").read_text()
    assert "one of" in lemmata("evaluate", "-w", project.root, code=1)
    (tmp_path / "asked.tsv").write_text("query\tid\ndistinct parts\ta1\nprime ideals\tb1\n", encoding="utf-8")
    where: list[str | Path] = ["-w", project.root, "--retriever", "lexical"]
    assert json.loads(lemmata("evaluate", "--queries", tmp_path / "asked.tsv", *where, "--json"))["queries"] == 2
    for name, cause in (
        ("asked.jsonl", "asked.jsonl: there is no such file"),
        ("unjudged.jsonl", "unjudged.jsonl:1: names no passage that answers its query"),
        ("none.tsv", "none.tsv"),
        ("odd.tsv", "odd.tsv:2: a line needs"),
    ):
        (tmp_path / "odd.tsv").write_text("query\tid\nno tab\n", encoding="utf-8")
        (tmp_path / "unjudged.jsonl").write_text('{"_id": "a1", "text": "prime ideals"}\n', encoding="utf-8")
        assert cause in " ".join(lemmata("evaluate", "--queries", tmp_path / name, *where, code=1).split())
    hits = json.loads(lemmata("search", "distinct parts", "-w", project.root, "-k", "2", "--json"))
    assert [hit["rank"] for hit in hits] == [1, 2]
    assert set(hits[0]) >= {"rank", "id", "score", "kind", "document", "title", "text", "path"}


def test_no_query_finds_itself_in_any_batch(tmp_path: Path) -> None:
    """300 passages, each the query for the next one, which would find itself as well."""
    following = {n: (n + 1) % 300 for n in range(300)}
    rows = [{"id": f"p{n}", "document": "d", "text": f"word{n} refers"} for n in following]
    project = make_workspace(tmp_path, {"p.jsonl": to_lines(rows)}, index="lexical")
    queries = {f"p{n}": f"word{n} word{other}" for n, other in following.items()}
    task = task_from("t", queries, {f"p{n}": {f"p{other}": 1} for n, other in following.items()})
    task = replace(task, itself={query: query for query in task.queries})
    report = project.evaluate(task, retrievers=["lexical"], options=EvaluateOptions(measures="Success@1"))
    assert report.retrievers["lexical"]["Success@1"].tolist() == [1.0] * 300


def test_rankings_are_written_as_trec_runs(project: Project, tmp_path: Path) -> None:
    task = task_from("t", QUERIES, QRELS)
    report = project.evaluate(
        task, retrievers=["lexical"], options=EvaluateOptions(measures="MRR@10"), trec=tmp_path / "run.trec"
    )
    lines = [line.split() for line in (tmp_path / "run.trec").read_text().splitlines()]
    first = {query: passage for query, _, passage, rank, _, _ in lines if rank == "1"}
    assert first == {"q1": "a1", "q2": "b1", "q3": "c1"}
    assert report.retrievers["lexical"]["MRR@10"].tolist() == [1.0, 1.0, 1.0]
    project.evaluate(task, retrievers=["lexical", "dense"], trec=tmp_path / "both.trec")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["both.dense.trec", "both.lexical.trec", "both.qrels", "run.qrels", "run.trec"]


def test_a_limit_counts_for_queries_from_files_and_a_part_is_refused(project: Project, tmp_path: Path) -> None:
    source = project.root.parent
    (tmp_path / "qrels").mkdir()
    (tmp_path / "queries.jsonl").write_bytes((source / "q.jsonl").read_bytes())
    (tmp_path / "qrels" / "test.tsv").write_bytes((source / "qrels.tsv").read_bytes())
    where: list[str | Path] = ["-w", project.root, "--retriever", "lexical", "--json"]
    files: list[str | Path] = ["--queries", source / "q.jsonl", "--qrels", source / "qrels.tsv"]
    folder: list[str | Path] = ["--beir", tmp_path]
    for given in (folder, files):
        assert json.loads(lemmata("evaluate", *given, *where))["queries"] == 3
        assert json.loads(lemmata("evaluate", *given, "--limit", "2", *where))["queries"] == 2
        assert "--part goes with --task" in lemmata("evaluate", *given, "--part", "test", *where, code=1)
