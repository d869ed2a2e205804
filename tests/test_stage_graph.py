"""The graph stages on a small workspace, through the library and the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.llm_server import Server
from tests.make import copied, make_workspace, run_command, to_lines, wait_until, write

from lemmata.core.errors import InputError, LemmataError, WorkspaceError
from lemmata.graph.formats.any_format import read_graph
from lemmata.graph.store import GraphRecordStore, concept_passages, imported_links, open_graph
from lemmata.llm.endpoint import Limits
from lemmata.maintain.verify import verify
from lemmata.project import Project

PAPERS = 12
PAPER = r"""\documentclass{article}
\newtheorem{theorem}{Theorem}
\newtheorem{definition}{Definition}
\title{On Bailey chains, part %(number)d}
\begin{document}
\maketitle
\section{Bailey pairs}
\begin{definition}\label{def-pair}
A \emph{Bailey pair} relative to $a$ is a pair of sequences tied by a sum over $q$-factorials, see note %(number)d.
\end{definition}
\begin{theorem}[Bailey's lemma]\label{thm-lemma}
Bailey's lemma uses a Bailey pair: if two sequences form one in the sense of Definition \ref{def-pair}, then so do
their transforms.
\end{theorem}
\begin{proof}
This follows from Definition \ref{def-pair} by the $q$-binomial theorem.
\end{proof}
\end{document}
"""
ANSWER = {
    "1": {"concepts": [{"name": "Bailey pair", "kind": "object"}], "relations": []},
    "2": {
        "concepts": [{"name": "Bailey lemma", "kind": "theorem"}],
        "relations": [{"source": "Bailey lemma", "relation": "uses", "target": "Bailey pair"}],
    },
}


@copied
def project(folder: Path) -> Project:
    papers = {f"paper{number:02}.tex": PAPER % {"number": number} for number in range(PAPERS)}
    return make_workspace(folder, write(folder / "papers", papers), index=None)


def lemmata(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, "-w", project.root)


# ---------------------------------------------------------------- build


def test_rules_find_concepts_and_the_passages_that_mention_them(project: Project) -> None:
    report = project.build_graph()
    assert report["nodes"]["document"] == PAPERS
    assert report["edges"]["refers_to"] >= PAPERS
    stored = open_graph(project)
    assert "concept:bailey-pair" in stored.concepts
    mentions, definitions = concept_passages(stored)
    assert len(mentions["concept:bailey-pair"]) >= 2 * PAPERS
    assert definitions["concept:bailey-pair"].endswith("#def-pair")
    info = project.info()
    assert info["nodes"] == report["nodes"]
    assert sum(info["concepts"].values()) == len(stored.concepts)


def test_building_again_gives_the_same_graph(project: Project) -> None:
    first = project.build_graph()
    inputs = open_graph(project).inputs
    second = project.build_graph()
    assert open_graph(project).inputs == inputs
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_a_missing_graph_is_reported_with_the_command_that_builds_it(project: Project) -> None:
    with pytest.raises(WorkspaceError, match="lemmata graph build"):
        open_graph(project)


def test_a_concept_is_shown_with_its_passages_and_a_misspelt_one_with_a_suggestion(project: Project) -> None:
    project.build_graph()
    concept = project.show("concept:bailey-pair")
    assert concept["name"] == "Bailey pair"
    assert concept["passages"][0].endswith("#def-pair")
    done = lemmata(project, "show", "concept:bailey-pair")
    assert "passages mention it" in done.stdout
    done = lemmata(project, "show", "concept:baily-pair")
    assert done.returncode == 1
    assert "did you mean concept:bailey-pair" in done.stderr


def test_tasks_ask_for_concepts_by_name_and_by_description(project: Project) -> None:
    project.build_graph()
    by_name = project.task("concepts", share=1.0)
    assert by_name.queries["concept:bailey-pair"] == "Bailey pair"
    seeds = project.task("concepts", share=1.0, protocol="seed")
    assert set(by_name.qrels["concept:bailey-pair"]) <= set(seeds.qrels["concept:bailey-pair"])
    descriptions = project.task("descriptions", share=1.0)
    defining = descriptions.itself["concept:bailey-pair"]
    assert defining not in descriptions.qrels["concept:bailey-pair"]
    with pytest.raises(LemmataError, match="'paper'"):
        project.task("concepts", protocol="paper")


# ---------------------------------------------------------------- extract


def asked(server: Server) -> list[str]:
    return [call["digest"] for call in server.calls()]


def command(server: Server, *arguments: str) -> list[str]:
    model = ["-o", f"llm.url={server.url}", "--model", "tiny", "--json", "-o", "llm.concurrency=2"]
    return ["graph", "extract", *model, *arguments]


def extract(project: Project, server: Server, *arguments: str) -> Any:
    done = lemmata(project, *command(server, *arguments))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def extracted(project: Project) -> set[str]:
    with GraphRecordStore(project) as records:
        return records.done("llm")


def test_without_a_limit_nothing_is_sent(project: Project, server: Server) -> None:
    server.script(answer=json.dumps(ANSWER))
    assert extract(project, server)["preview"]["calls"] == PAPERS
    assert asked(server) == []


@pytest.mark.slow
def test_a_killed_extraction_resumes_without_repeating_a_call(project: Project, server: Server) -> None:
    # one answer never comes, so that the run cannot come to its end
    server.script(answer=json.dumps(ANSWER), replies={"note 9": [{"hang": 60}]})
    start = [sys.executable, "-m", "lemmata", *command(server, "--budget", "unlimited"), "-w", str(project.root)]
    first = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(server.answers()) >= PAPERS // 2)
    first.kill()
    first.wait()
    before = extracted(project)
    assert len(before) < PAPERS
    server.change(answer=json.dumps(ANSWER))
    report = extract(project, server, "--budget", "unlimited")
    assert report["extracted"] == report["documents"] == PAPERS
    assert report["unanswered"] == []
    assert len(extracted(project)) == PAPERS
    calls = len(asked(server))
    assert len(set(asked(server))) == PAPERS
    assert calls - PAPERS <= 2  # calls in flight when it was killed: their answers are lost
    with GraphRecordStore(project) as records:
        edges = list(records.edges())
    assert sum(edge.relation == "uses" for edge in edges) == PAPERS
    extract(project, server, "--budget", "unlimited")
    assert len(asked(server)) == calls


@pytest.mark.slow
def test_limits_count_over_all_runs(project: Project, server: Server) -> None:
    server.script(answer=json.dumps(ANSWER))
    report = extract(project, server, "--budget", "calls=5")
    assert len(asked(server)) == 5
    assert report["extracted"] == 5
    assert len(report["unanswered"]) == PAPERS - 5
    sentence = "was not extracted: the limit of 5 calls was reached; raise it (--budget calls=…) to go on"
    assert all(cause.endswith(sentence) for cause in report["unanswered"])
    assert report["spent"]["calls"] == 5
    extract(project, server, "--budget", "calls=5")
    assert len(asked(server)) == 5
    report = extract(project, server, "--budget", "calls=8")
    assert len(asked(server)) == 8
    assert report["extracted"] == 8


def test_an_unreachable_endpoint_is_one_sentence(project: Project) -> None:
    done = lemmata(
        project, "graph", "extract", "-o", "llm.url=http://127.0.0.1:9/v1", "--model", "tiny", "--budget", "unlimited"
    )  # fmt: skip
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("lemmata: http://127.0.0.1:9/v1 cannot be reached")
    assert "Traceback" not in done.stderr


def test_bad_answers_are_reported_and_asked_again_later(project: Project, server: Server) -> None:
    bad = [{"text": '{"sentences": "none"}'}] * 9
    server.script(answer=json.dumps(ANSWER), replies={"note 3": bad})
    report = project.extract_graph(Limits(calls=100), model={"url": server.url, "model": "tiny"})
    assert report["extracted"] == PAPERS - 1
    assert "paper03" in report["unanswered"][0]
    server.change(answer=json.dumps(ANSWER))
    report = project.extract_graph(Limits(calls=100), model={"url": server.url, "model": "tiny"})
    assert report["extracted"] == PAPERS


def test_an_extraction_of_nothing_at_all_is_an_error_with_its_cause(project: Project, server: Server) -> None:
    server.script(answer="I cannot do that.")
    done = lemmata(project, *command(server, "--budget", "calls=100"))
    assert done.returncode == 1
    assert json.loads(done.stdout)["extracted"] == 0
    last = " ".join(done.stderr.split())
    assert f"none of {PAPERS} documents could be extracted: tiny gave no valid answer in 3 turns" in last
    assert "Traceback" not in done.stderr


def test_the_error_names_the_real_cause_where_the_limit_came_too(project: Project, server: Server) -> None:
    server.script(envelope={"choices": []})
    last = " ".join(lemmata(project, *command(server, "--budget", "calls=3")).stderr.split())
    assert f"none of {PAPERS} documents could be extracted: {server.url} failed for tiny: the answer does not" in last
    assert "then the limit of 3 calls was reached" in last


# ---------------------------------------------------------------- import and export


def write_edges(path: Path, *edges: tuple[str, str, str]) -> None:
    path.write_text(to_lines(dict(zip(("source", "relation", "target"), edge, strict=True)) for edge in edges), "utf-8")


@pytest.mark.slow
def test_an_exported_graph_can_be_imported_unchanged(project: Project, tmp_path: Path) -> None:
    empty = shutil.copytree(project.root, tmp_path / "empty")
    project.build_graph()
    before = open_graph(project)
    names = {"graphml": "graph.graphml", "jsonl": "graph.jsonl", "ogb": "ogb"}
    for kind, name in names.items():
        project.export_graph(tmp_path / name, format=kind)
        other = Project(shutil.copytree(empty, tmp_path / f"in-{kind}"))
        other.import_graph(tmp_path / name)
        after = open_graph(other)
        assert after.concepts == before.concepts, kind
        assert list(after.graph.nodes) == list(before.graph.nodes), kind
        assert list(after.graph.kinds) == list(before.graph.kinds), kind
        assert after.graph.indices.tolist() == before.graph.indices.tolist(), kind


def test_an_exported_graph_has_the_weights_and_the_loops_of_the_graph(project: Project, tmp_path: Path) -> None:
    project.build_graph()
    path = tmp_path / "more.json"
    edges = [
        ("tree", "uses", "forest"),
        ("trees", "uses", "forest"),
        ("tree", "uses", "trees"),
        ("tree", "uses", "tree"),
    ]
    content = {
        "concepts": [{"name": name} for name in ("tree", "trees", "forest")],
        "edges": [dict(zip(("source", "relation", "target"), edge, strict=True)) for edge in edges],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    project.import_graph(path)
    graph = open_graph(project).graph
    project.export_graph(tmp_path / "graph.jsonl")
    weights = {edge[:3]: edge.weight for edge in read_graph(tmp_path / "graph.jsonl")[0].edges}
    assert weights["concept:tree", "uses", "concept:forest"] == 2
    assert weights["concept:tree", "uses", "concept:tree"] == 1
    triples = zip(graph.sources().tolist(), graph.relation.tolist(), graph.indices.tolist(), strict=True)
    stored = [(graph.nodes[source], graph.relations[relation], graph.nodes[end]) for source, relation, end in triples]
    assert weights == pytest.approx(dict(zip(stored, graph.weight.tolist(), strict=True)))
    shown = project.show("concept:tree")["edges"]
    assert sum(edge["source"] == edge["target"] for edge in shown) == 1


def test_a_graph_with_missing_nodes_is_an_error_or_read_in_part(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "bad.graphml"
    path.write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="directed">'
        '<node id="a"/><node id="b"/><edge source="a" target="b"/><edge source="a" target="nowhere"/>'
        "</graph></graphml>",
        encoding="utf-8",
    )
    with pytest.raises(InputError, match="nowhere"):
        project.import_graph(path)
    report = project.import_graph(path, strict=False)
    assert report["imported"]["edges"] == 1
    assert report["imported"]["skips"] == 1


def test_a_second_import_under_the_same_name_replaces_the_first(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "more.jsonl"
    write_edges(path, ("paper00", "cites", "paper01"))
    assert project.import_graph(path)["edges"]["cites"] == 1
    write_edges(path, ("paper00", "cites", "paper02"), ("paper01", "cites", "paper02"))
    assert project.import_graph(path)["edges"]["cites"] == 2


def test_missing_records_are_noticed_and_no_import_is_dropped(project: Project, tmp_path: Path) -> None:
    project.build_graph()
    project.graph_records.unlink()
    assert [problem.what for problem in verify(project).damage] == ["missing"]
    with pytest.raises(WorkspaceError, match="'lemmata graph build'"):
        project.export_graph(tmp_path / "out.jsonl")
    project.build_graph()  # rules alone make all of it again
    assert verify(project).is_whole

    path = tmp_path / "more.jsonl"
    write_edges(path, ("paper00", "cites", "paper01"))
    project.import_graph(path)
    records = project.graph_records.read_bytes()
    project.graph_records.unlink()
    for verb in (
        project.build_graph,
        lambda: imported_links(project),
        lambda: project.import_graph(path, name="other"),
    ):
        with pytest.raises(WorkspaceError, match="import:more"):
            verb()
    assert not project.graph_records.exists()
    project.graph_records.write_bytes(records)
    assert project.build_graph()["edges"]["cites"] == 1


def test_an_import_counts_what_it_matched_and_names_what_it_did_not(project: Project, tmp_path: Path) -> None:
    project.build_graph()
    path = tmp_path / "more.jsonl"
    write_edges(path, ("concept:bailey-pair", "uses", "concept:baily-chain"), ("paper00", "cites", "paper01"))
    done = lemmata(project, "graph", "import", str(path))
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "nodes 4, nodes in corpus 2, known concepts 1, unknown 1, first unknown concept:baily-chain" in shown
    again = json.loads(lemmata(project, "graph", "import", str(path), "--json").stdout)["imported"]
    assert (again["known_concepts"], again["unknown"]) == (1, 1)  # not the records of the import itself
    concepts = [{"name": "Bailey pair"}, {"name": "chain of rules"}]
    (tmp_path / "c.json").write_text(json.dumps({"concepts": concepts, "edges": []}), encoding="utf-8")
    assert project.import_graph(tmp_path / "c.json")["imported"]["known_concepts"] == 1
    assert project.import_graph(tmp_path / "c.json")["imported"]["known_concepts"] == 1


def test_an_import_can_be_removed(project: Project, tmp_path: Path) -> None:
    project.build_graph()
    before = open_graph(project).inputs
    path = tmp_path / "more.jsonl"
    write_edges(path, ("concept:bailey-pair", "uses", "concept:new"))
    project.import_graph(path, name="mine")
    assert open_graph(project).inputs != before
    wrong = lemmata(project, "graph", "import", "--remove", "mien")
    assert (wrong.returncode, wrong.stderr) == (1, "lemmata: there is no import 'mien'; did you mean 'mine'?\n")
    for arguments in ([], [str(path), "--remove", "mine"]):
        refused = lemmata(project, "graph", "import", *arguments)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "name the file of a graph, or an import with --remove" in refused.stderr
    done = lemmata(project, "graph", "import", "--remove", "mine", "--json")
    assert json.loads(done.stdout)["sources"] == ["text"]
    assert open_graph(project).inputs == before


def test_another_relation_or_another_kind_of_node_is_another_graph(project: Project, tmp_path: Path) -> None:
    def inputs(relation: str, kind: str) -> str:
        path = tmp_path / "more.json"
        edges = [{"source": "first", "relation": relation, "target": "second"}]
        path.write_text(json.dumps({"concepts": [], "edges": edges, "nodes": {"first": kind, "second": kind}}), "utf-8")
        assert project.import_graph(path)["edges"][relation] == 1
        return open_graph(project).inputs

    before = inputs("cites", "book")
    assert inputs("bounds", "book") != before  # as many relations, in the same order
    assert inputs("cites", "film") != before
    assert inputs("cites", "book") == before


# ---------------------------------------------------------------- merges


def test_a_verdict_changes_the_graph_and_can_be_withdrawn(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "concepts.json"
    concepts = [{"name": "chain rule", "papers": ["paper00"]}, {"name": "rule of chains", "papers": ["paper01"]}]
    path.write_text(json.dumps({"concepts": concepts, "edges": []}), encoding="utf-8")
    project.import_graph(path)
    before = open_graph(project)
    kept, gone = sorted(before.concepts)
    project.decide_merge(kept, gone, "accept")
    joined = open_graph(project)
    assert set(joined.concepts) == {kept}
    assert joined.merged == {gone: kept}
    assert joined.concepts[kept].aliases == (before.concepts[gone].name,)
    shown = lemmata(project, "show", gone).stdout.splitlines()
    assert shown[0].endswith(f"  {kept}")
    assert shown[1] == f"{gone} was merged into it"
    assert "merged" not in lemmata(project, "show", kept).stdout
    project.decide_merge(kept, gone, None)
    after = open_graph(project)
    assert after.inputs == before.inputs
    assert after.concepts == before.concepts
    with pytest.raises(LemmataError, match=f"'concept:rule-of-chain'.*{gone}"):
        project.decide_merge(kept, "concept:rule-of-chain", "accept")
    with pytest.raises(LemmataError, match=kept):
        project.decide_merge(kept, kept, "accept")
    with pytest.raises(LemmataError, match="'yes'"):
        project.decide_merge(kept, gone, "yes")
    with pytest.raises(LemmataError, match=f"{kept} and {gone}"):  # the one there was is withdrawn
        project.decide_merge(kept, gone, None)


def test_the_last_verdict_on_a_pair_counts(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "concepts.json"
    path.write_text(json.dumps({"concepts": [{"name": "chain rule"}, {"name": "chain rules"}], "edges": []}), "utf-8")
    project.import_graph(path)
    assert len(open_graph(project).concepts) == 1
    project.decide_merge("concept:chain-rule", "concept:chain-rules", "reject")
    assert len(open_graph(project).concepts) == 2
    project.decide_merge("concept:chain-rules", "concept:chain-rule", "accept")
    assert len(open_graph(project).concepts) == 1


@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_a_withdrawal_that_was_killed_before_the_graph_was_written_can_be_repeated(
    project: Project, tmp_path: Path, verdict: str
) -> None:
    path = tmp_path / "concepts.json"
    names = ("chain rule", "rule of chains") if verdict == "accept" else ("chain rule", "chain rules")
    path.write_text(json.dumps({"concepts": [{"name": name} for name in names], "edges": []}), encoding="utf-8")
    project.import_graph(path)
    before = open_graph(project)
    kept, gone = (f"concept:{name.replace(' ', '-')}" for name in names)
    project.decide_merge(kept, gone, verdict)
    assert open_graph(project).concepts != before.concepts

    def killed(what: str, *_: object) -> None:
        if what == "compressing the graph":
            raise KeyboardInterrupt

    with project.reporting_to(killed), pytest.raises(KeyboardInterrupt):
        project.decide_merge(kept, gone, None)
    project.decide_merge(gone, kept, None)
    assert open_graph(project).concepts == before.concepts
    with pytest.raises(LemmataError, match=f"{kept} and {gone}"):
        project.decide_merge(kept, gone, None)


def test_without_a_graph_there_are_no_merges_to_list(project: Project) -> None:
    done = lemmata(project, "graph", "merges")
    assert done.returncode == 1
    assert "there is no graph yet: run 'lemmata graph build'" in " ".join(done.stderr.split())
    assert not project.graph_records.exists()


def test_merges_are_listed_with_their_reasons(project: Project) -> None:
    project.build_graph()
    done = lemmata(project, "graph", "merges", "--json")
    assert done.returncode == 0, done.stderr
    assert all(
        {"kept", "gone", "reason", "score", "status", "by_user"} == set(merge) for merge in json.loads(done.stdout)
    )
