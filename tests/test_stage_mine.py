"""Split, mine, mix and audit on a small workspace, through the library and the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.llm_server import Server
from tests.make import plant, run_command

from lemmata.core.errors import ConfigError, LeakageError, LemmataError, WorkspaceBusy, WorkspaceError
from lemmata.corpus.split import open_split
from lemmata.corpus.training_files import read_training
from lemmata.graph.store import open_graph
from lemmata.llm.endpoint import Limits
from lemmata.mine.mine import mine_again
from lemmata.project import Project


@pytest.fixture(scope="module")
def built(qseries: Project) -> Project:
    """The q-series notes with a split; the tests add training sets of their own names."""
    qseries.split(settings={"seed": 1})
    return qseries


def records(project: Project, name: str) -> list[dict[str, Any]]:
    return list(read_training(project.training_file(name)))


def held_out(project: Project) -> set[str]:
    """Ids of all passages that are not for training."""
    corpus = project.corpus
    ids = np.array(corpus.ids(), dtype=object)
    split = open_split(project, corpus.digest)
    corpus.close()
    return set(ids[~split.rows("train")])


def passage_ids(record: dict[str, Any]) -> set[str]:
    return {record["anchor_id"], record["positive_id"], *record["negative_ids"]} - {None}


def test_nothing_is_mined_before_the_split(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    (tmp_path / "note.md").write_text("# One\n\nA text of some length about one thing.\n", encoding="utf-8")
    project.ingest([tmp_path / "note.md"])
    with pytest.raises(WorkspaceError, match="lemmata split"):
        project.mine("pairs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("pairs", {}),
        ("queries", {}),
        ("queries", {"found_within": 5}),
        ("triplets", {"kind": "citations"}),
        ("triplets", {"kind": "embedding"}),
    ],
)
def test_what_is_mined_stays_in_the_training_part(built: Project, what: str, more: dict[str, Any]) -> None:
    report = built.mine(what, name=f"{what}-{len(more)}-{'-'.join(map(str, more.values()))}", **more)
    made = records(built, report["name"])
    assert len(made) == report["records"] > 0
    outside = held_out(built)
    assert not [record for record in made if passage_ids(record) & outside]
    assert "no leakage found" in report["audit"]


@pytest.mark.slow
def test_hard_negatives_are_added_to_a_set(built: Project) -> None:
    built.mine("pairs", name="without")
    report = built.mine("negatives", of="without", name="hard", settings={"negatives": {"number": 2}})
    made = records(built, "hard")
    assert all(1 <= len(record["negative_ids"]) <= 2 for record in made)
    outside = held_out(built)
    assert not [record for record in made if passage_ids(record) & outside]
    assert sum(report["kept"].values()) == sum(len(record["negative_ids"]) for record in made)
    corpus = built.corpus
    home = dict(corpus.table("id", "document"))
    corpus.close()
    assert not [r for r in made if home[r["positive_id"]] in {home[negative] for negative in r["negative_ids"]}]


def test_names_of_held_out_concepts_never_become_anchors(built: Project) -> None:
    corpus = built.corpus
    split = open_split(built, corpus.digest)
    corpus.close()
    stored = open_graph(built)
    names = {c.name.casefold() for c in stored.concepts.values() if split.part_of(c.id) == "test"}
    assert names
    for name, what in (("names-pairs", "pairs"), ("names-queries", "queries")):
        built.mine(what, name=name)
        anchors = {record["anchor"].casefold() for record in records(built, name)}
        assert not anchors & names


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "mine pairs --name by-command",
        "mine queries --name by-command --part all --found-within 5",
        "mine triplets --from citations --name by-command -o citations.relations=refers_to,proof_uses",
        "mine triplets --from embedding --name by-command",
        "mine negatives seven --name by-command -o negatives.number=2",
    ],
)
def test_the_stored_command_makes_the_set_again(built: Project, command: str) -> None:
    if "seven" in command:
        built.mine("pairs", name="seven")
    done = run_command(*command.split(), "-w", built.root)
    assert done.returncode == 0, done.stderr
    assert built.training_sets()["by-command"]["command"] == f"lemmata {command}"
    mined = records(built, "by-command")
    mine_again(built, "by-command")
    assert records(built, "by-command") == mined
    assert built.training_sets()["by-command"]["command"] == f"lemmata {command}"


def test_sets_are_mixed_as_configured(built: Project) -> None:
    built.mine("pairs", name="pairs")
    built.mine("queries", name="queries")
    text = built.config_file.read_text(encoding="utf-8")
    table = "\n[mixtures.both]\nweights = { pairs = 2.0, queries = 1.0 }\ntotal = 90\n"
    built.config_file.write_text(text + table, encoding="utf-8")
    project = Project(built.root)
    report = project.mix("both")
    assert {row["source"]: row["kept"] for row in report["table"]} == {"pairs": 60, "queries": 30}
    assert report["records"] == 90
    with pytest.raises(ConfigError, match=r"mixtures\.other"):
        project.mix("other")
    built.config_file.write_text(text, encoding="utf-8")


def test_a_set_that_holds_test_queries_is_refused_and_not_written(built: Project, tmp_path: Path) -> None:
    built.mine("queries", name="asked")
    record = records(built, "asked")[0]
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": record["anchor"]}), encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text(
        f"query-id\tcorpus-id\tscore\nq1\t{record['positive_id']}\t1\n", encoding="utf-8"
    )
    text = built.config_file.read_text(encoding="utf-8")
    table = f'\n[audit]\nqueries = "{tmp_path / "queries.jsonl"}"\nqrels = "{tmp_path / "qrels.tsv"}"\n'
    built.config_file.write_text(text + table, encoding="utf-8")
    project = Project(built.root)
    with pytest.raises(LeakageError, match="q1"):
        project.mine("queries", name="leaking")
    assert "leaking" not in project.training_sets()
    with pytest.raises(LeakageError, match="q1"):
        project.audit(["asked"])
    built.config_file.write_text(text, encoding="utf-8")


def test_a_changed_corpus_needs_a_new_split(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(12):
        text = f"# Note {number}\n\nSomething of its own about the number {number} and its {number * 7} friends.\n"
        (notes / f"note{number}.md").write_text(text, encoding="utf-8")
    project.ingest([notes])
    project.split()
    (notes / "more.md").write_text("# More\n\nA further note that came later.\n", encoding="utf-8")
    project.ingest([notes])
    with pytest.raises(WorkspaceError, match="split"):
        project.mine("queries")


@pytest.mark.slow
def test_a_set_made_from_one_that_was_replaced_is_out_of_date(built: Project, tmp_path: Path) -> None:
    built.mine("queries", name="asked")
    built.mine("negatives", of="asked", name="asked-hard")
    built.config["mixtures"] = {"both": {"weights": {"asked-hard": 1.0}}}
    built.mix("both")
    built.mine("queries", name="asked")  # the same records again
    assert not any(manifest["out_of_date"] for manifest in built.training_sets().values())
    built.mine("queries", name="asked", found_within=1)
    stale = {name: manifest["out_of_date"] for name, manifest in built.training_sets().items()}
    assert stale["asked"] == ""
    command = "run 'lemmata mine negatives asked --name asked-hard' again"
    sentence = f"the training set 'asked-hard' was made from 'asked', which was mined again since: {command}"
    assert stale["asked-hard"] == sentence
    assert "'asked-hard', which is out of date itself" in stale["both"]
    assert built.mix("both")["notes"] == [sentence]
    assert sentence in built.info()["problems"]
    for arguments in (["mine", "sets"], ["mine", "export", "asked-hard", str(tmp_path / "asked.parquet")]):
        said = run_command(*arguments, "-w", built.root)
        assert f"out of date: {sentence}" in " ".join(said.stdout.split())
    built.mine("negatives", of="asked", name="asked-hard")
    assert built.training_sets()["asked-hard"]["out_of_date"] == ""


def test_what_writes_elsewhere_needs_no_lock(built: Project, tmp_path: Path) -> None:
    built.mine("pairs", name="free")
    general = tmp_path / "general.jsonl"
    general.write_text("".join(json.dumps({"text": f"theta series and sum {n}"}) + "\n" for n in range(60)))
    (tmp_path / "empty.jsonl").write_text("\n")
    with built.hold():
        assert built.export_training("free", tmp_path / "free.parquet") > 0
        assert built.select_domain(general, tmp_path / "out.jsonl", share=0.5)["read"] == 60
        assert built.audit(["free"]).clean
        with pytest.raises(WorkspaceError, match="'nothing'"):
            built.mine("negatives", of="nothing")
        with pytest.raises(ConfigError, match=r"'parqet'.*'parquet'"):
            built.export_training("free", tmp_path / "free.parquet", file_format="parqet")
        with pytest.raises(LemmataError, match=r"empty\.jsonl"):
            built.select_domain(tmp_path / "empty.jsonl", tmp_path / "out.jsonl")
        with pytest.raises(WorkspaceBusy):
            built.mine("negatives", of="free")


@pytest.mark.parametrize("name", ["../up", "a/b", " "])
def test_a_set_name_is_letters_digits_and_dashes(built: Project, name: str) -> None:
    with pytest.raises(ConfigError, match=repr(name)):
        built.mine("pairs", name=name)


def test_the_audit_names_the_set_and_mining_says_what_it_replaces(built: Project) -> None:
    assert not built.mine("queries", name="twice")["replaced"]

    def said(*arguments: str) -> str:
        done = run_command(*arguments, "-w", built.root)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    assert "replaced yes" in said("mine", "queries", "--name", "twice")
    assert said("audit", "twice").startswith("sets twice sentence no leakage found")
    assert json.loads(said("audit", "twice", "--json"))["sets"] == ["twice"]


@pytest.mark.slow
def test_what_is_held_out_does_not_change_which_triplets_are_mined(tmp_path: Path) -> None:
    """Two corpora whose held-out passages refer to others differently, with the same training part."""
    files = []
    for shift in (1, 7):
        project = Project.init(tmp_path / f"w{shift}")
        ids = [f"d{n // 6:02}-{n:03}" for n in range(240)]
        lines: list[dict[str, Any]] = [{"_id": name, "document": name.split("-")[0], "kind": "lemma"} for name in ids]
        for n, line in enumerate(lines):
            line["text"] = f"statement {n} on a{n} b{n} c{n} and on topic{n % 5} theme{n % 7} of these notes"
        split: Any = None
        for linked in (False, True):
            for n, line in enumerate(lines):
                held_out_row = split is not None and split.part[n] != 0
                target = (n + 6 * shift) % 240 if held_out_row else (n + 6) % 240
                line["links"] = [ids[target]] if linked and (held_out_row or split.part[target] == 0) else []
            (tmp_path / f"p{shift}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
            project.ingest([tmp_path / f"p{shift}.jsonl"])
            project.split(settings={"validation": 0.2, "test": 0.2})
            corpus = project.corpus
            split = open_split(project, corpus.digest)
            assert list(corpus.ids()) == ids
            corpus.close()
        project.build_graph()
        project.index(settings={"encoder": "hashing"})
        project.split(settings={"validation": 0.2, "test": 0.2})
        project.mine("triplets", name="near", kind="embedding", settings={"triplets": {"shortest": 10}})
        files.append([(r["anchor_id"], r["positive_id"], r["negative_ids"]) for r in records(project, "near")])
    assert files[0]
    assert files[0] == files[1]


def test_tasks_are_asked_from_a_part_of_the_split(built: Project) -> None:
    task = built.task("references", part="test")
    corpus = built.corpus
    split = open_split(built, corpus.digest)
    rows = {name for name, inside in zip(corpus.ids(), split.rows("test").tolist(), strict=True) if inside}
    corpus.close()
    assert set(task.queries) <= rows
    assert set(task.groups["unseen"]) >= set(task.queries)
    assert set(task.groups["seen"]) | set(task.groups["unseen"]) == rows
    for name in ("concepts", "descriptions"):
        asked = built.task(name, part="test").queries
        assert asked
        assert {split.part_of(concept) for concept in asked} == {"test"}
    with pytest.raises(LemmataError, match="train, validation, test"):
        built.task("references", part="tests")


def test_logs_are_paired_with_the_titles_of_their_locations(tmp_path: Path) -> None:
    plant.generate(tmp_path / "plant", logs=300)
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "plant" / "logs.csv", tmp_path / "plant" / "hierarchy.csv"])
    project.build_graph()
    project.split(settings={"method": "time"})
    report = project.mine("pairs")
    corpus = project.corpus
    titles = {document.title for document in corpus.documents() if document.kind == "location"}
    corpus.close()
    located = [record for record in records(project, "pairs") if record["relation"] == "location"]
    assert len(located) == report["by_source"]["structure/location"] > 20
    assert {record["anchor"] for record in located} <= titles
    assert not [record for record in located if passage_ids(record) & held_out(project)]


# ---------------------------------------------------------------- written by a language model


def test_a_model_writes_queries_within_its_limits(built: Project, server: Server) -> None:
    entry = {"question": "How many ways are there?", "keyword": "ways number counting", "slogan": "Counting is fun."}
    server.script(answer=json.dumps({**entry, "paraphrase": "One counts ways."}))
    model = {"url": server.url, "model": "tiny"}
    preview = built.preview_queries(model=model)
    assert server.calls() == []
    assert preview.calls > 20
    report = built.write_queries(Limits(calls=5), model=model)
    assert len(server.calls()) == report["spent"]["calls"] == 5
    assert report["records"] > 0
    assert report["unanswered"] > 0
    assert report["limit"] == "the limit of 5 calls was reached; raise it (--budget calls=…) to go on"
    command = f"lemmata mine queries --model tiny -o llm.url={server.url} --budget calls=5 --name written"
    assert built.training_sets()["written"]["command"] == command
    again = run_command(*shlex.split(command)[1:], "-w", built.root)
    shown = " ".join(again.stdout.split())
    assert "limit the limit of 5 calls was reached; raise it (--budget calls=…) to go on" in shown
    assert len(server.calls()) == 5
    report = built.write_queries(Limits(calls=preview.calls), model=model)
    assert len(server.calls()) == preview.calls
    assert (report["unanswered"], report["limit"]) == (0, "")
    options = built.training_sets()["written"]["options"]
    assert options["model"] == "tiny"
    assert "one JSON object" in options["prompt"]


def test_a_model_that_answers_nonsense_is_named_with_what_is_wrong(tmp_path: Path, server: Server) -> None:
    project = Project.init(tmp_path / "w")
    line = '{{"_id": "p{0}", "text": "remark {0} of a{0} b{0} c{0} and d{0}, with some more words"}}\n'
    (tmp_path / "p.jsonl").write_text("".join(map(line.format, range(20))), encoding="utf-8")
    project.ingest([tmp_path / "p.jsonl"])
    passages = project.split()["counts"]["train"]["rows"]
    server.script(answer="I cannot do that.")
    model = {"url": server.url, "model": "m"}
    with pytest.raises(LemmataError, match=f"^m .* {passages} passages: .*JSON"):
        project.write_queries(Limits(calls=1000), model=model)
    with pytest.raises(LemmataError, match=f"^m .* {passages} passages: .* 1 call "):
        project.write_queries(Limits(calls=1), model=model)
    assert project.training_sets() == {}


def test_training_statements_of_a_document_do_not_ask_as_test(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    lines = [
        {"_id": f"d{n // 10}-{n}", "document": f"d{n // 10}", "kind": "lemma", "text": f"remark {n} of a{n} b{n} c{n}",
         "links": [f"d{(n + 1) % 200 // 10}-{(n + 1) % 200}"]}
        for n in range(200)
    ]  # fmt: skip
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    project.ingest([tmp_path / "p.jsonl"])
    project.split(settings={"method": "stratified", "unseen": 0.5, "test": 0.2})
    corpus = project.corpus
    split = open_split(project, corpus.digest)
    ids = np.array(corpus.ids())
    corpus.close()
    for part in ("validation", "test"):
        task = project.task("references", part=part)
        assert set(task.queries) == set(ids[split.rows(part)].tolist())
        assert set(task.groups["unseen"]) == set(ids[split.rows(part) & split.unseen].tolist())
        assert set(task.groups["seen"]) == set(ids[split.rows(part) & ~split.unseen].tolist())
        assert all(task.groups.values())


def test_a_second_split_of_the_grown_corpus_moves_nobody(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    notes = tmp_path / "notes"
    notes.mkdir()

    def parts() -> dict[str, int]:
        corpus = project.corpus
        split = open_split(project, corpus.digest)
        found = dict(zip(corpus.ids(), split.part.tolist(), strict=True))
        corpus.close()
        return found

    before: dict[str, int] = {}
    for number in range(24):
        text = f"# Note {number}\n\nSomething of its own about the number {number} and its {number * 7} friends.\n"
        (notes / f"note{number}.md").write_text(text, encoding="utf-8")
        if number >= 5:
            project.ingest([notes])
            project.split()
            now = parts()
            assert before == {name: now[name] for name in before}
            assert {0, 1, 2} <= set(now.values())
            before = now
    report = project.split(settings={"seed": 3})
    assert not any("stay where" in note for note in report["notes"])
    assert parts() != before


def test_a_set_of_the_split_before_the_corpus_grew_is_mined_again(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    line = '{{"_id": "p{0}", "text": "remark {0} of a{0} b{0} c{0} and d{0}", "title": "Lemma of Author{0}"}}\n'
    for count in (20, 21):
        (tmp_path / "p.jsonl").write_text("".join(map(line.format, range(count))), encoding="utf-8")
        project.ingest([tmp_path / "p.jsonl"])
        project.split()
        if count == 20:
            project.mine("pairs", name="asked")
    with pytest.raises(LeakageError, match="'lemmata mine pairs --name asked'"):
        project.export_training("asked", tmp_path / "asked.parquet")
    project.mine("pairs", name="asked")
    assert project.export_training("asked", tmp_path / "asked.parquet")
