"""Hits with the path that led to them, the retrievers that search the graph, and the stored lengths of its edges."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.make import PLANT, lemmata, make_workspace

from lemmata.core.errors import WorkspaceError
from lemmata.core.workspace import vector_set
from lemmata.graph.lengths import open_lengths
from lemmata.graph.store import open_graph
from lemmata.project import Project
from lemmata.search.filter import Filter

FILLING = [f"Nothing but filler number {word} stands here." for word in "abc def ghi jkl mno pqr stu".split()]
NOTES = {
    "a.tex": r"""\documentclass{article}\newtheorem{lemma}{Lemma}\begin{document}
\begin{lemma}\label{pump}Every wet sponge absorbs the water of a pump.\end{lemma}
\begin{proof}By Lemma \ref{far} this is clear.\end{proof}
"""
    + "\n".join(rf"\begin{{lemma}}\label{{fill-{n}}}{text}\end{{lemma}}" for n, text in enumerate(FILLING))
    + r"""
\begin{lemma}\label{far}Zebras graze quietly.\end{lemma}
\end{document}""",
    "b.tex": r"""\documentclass{article}\newtheorem{lemma}{Lemma}\begin{document}
\begin{lemma}\label{alone}Comets orbit.\end{lemma}\end{document}""",
}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_workspace(tmp_path_factory.mktemp("notes"), NOTES, graph=True)


def test_a_hit_of_any_retriever_has_its_path(notes: Project) -> None:
    with notes.retriever() as retriever:
        for name in ("auto", "dense", "lexical", "hybrid", "geodesic"):
            hits = retriever.search(
                "wet sponge absorbs the water of a pump; Zebras graze", 9, retriever=name, paths=True
            )
            paths = {hit.id: hit.path for hit in hits}
            assert [(step.source, step.target, step.relation) for step in paths["a#pump"]] == [
                ("query", "a#pump", "similar_to")
            ]
            assert all(path[0].source == "query" and path[-1].target == identity for identity, path in paths.items())
            for path in paths.values():
                assert [step.target for step in path[:-1]] == [step.source for step in path[1:]]
                assert all(step.length >= 0 for step in path)
        assert not any(hit.path for hit in retriever.search("wet sponge", 3))


def test_a_path_names_relations_and_their_direction(notes: Project) -> None:
    with notes.retriever() as retriever:
        only = Filter(kinds=("lemma",))
        far = [
            hit for hit in retriever.search("wet sponge", 99, retriever="geodesic", filter=only) if hit.id == "a#far"
        ]
        query, edge = far[0].path
        assert query[:3] == ("query", "a#pump", "similar_to")
        assert edge[:3] == ("a#pump", "a#far", "proof_uses")
        vectors = retriever.vectors.matrix
        ends = [vectors[retriever.corpus.row(identity)] for identity in ("a#pump", "a#far")]
        assert edge.length == pytest.approx(float(np.linalg.norm(ends[0] - ends[1])), abs=1e-5)
        back = [hit for hit in retriever.search("zebras graze", 99, retriever="geodesic") if hit.id == "a#pump"]
        assert [step.relation for step in back[0].path] == ["similar_to", "^proof_uses"]


def test_what_the_graph_does_not_reach_comes_last_and_is_one_step_away(notes: Project) -> None:
    with notes.retriever() as retriever:
        rows, scores = retriever.search_rows(["wet sponge"], len(retriever.corpus), "geodesic")
        assert sorted(rows[0].tolist()) == list(range(len(retriever.corpus)))  # though b is a part of its own
        assert (np.diff(scores[0]) <= 0).all()
        hits = retriever.search("comets and a wet sponge", 3, retriever="lexical", paths=True)
        assert [step.relation for step in next(h for h in hits if h.id == "b#alone").path] == ["similar_to"]


def test_a_query_that_is_a_passage_does_not_use_its_own_references(notes: Project) -> None:
    with notes.retriever() as retriever:
        row, far = retriever.corpus.row("a#pump"), retriever.corpus.row("a#far")
        text = retriever.corpus[row].content
        for name in ("geodesic", "diffusion"):
            free, _ = retriever.search_rows([text], 4, name)
            held_out, scores = retriever.search_rows([text], 12, name, itself=np.array([row]))
            assert far in free[0]
            place = held_out[0].tolist().index(far) if far in held_out[0] else 99
            assert place > free[0].tolist().index(far)
            assert np.isfinite(scores[0][0])


def test_no_path_leads_through_the_query_or_its_document(notes: Project) -> None:
    with notes.retriever() as retriever:
        paths, row_of = retriever.dense().geodesics, retriever.corpus.row
        itself, far = row_of("a#pump"), row_of("a#far")
        for nearest in (["a#pump", "a#fill-0"], ["a#fill-0"]):
            near = np.array([[row_of(name) for name in nearest]]), np.full((1, len(nearest)), 0.9, np.float32)
            (free,), (held_out,) = (paths.paths([near], [far], row) for row in (-1, itself))
            assert {"a", "a#pump"} & {step.target for step in free}
            assert not {"a", "a#pump"} & {step.target for step in held_out}
        near = np.array([[itself, row_of("a#fill-0")]]), np.full((1, 2), 0.9, np.float32)
        paths.starts = 1  # the query itself takes nobody's place
        ((first, *_),) = paths.paths([near], [row_of("a#fill-1")], itself)
        assert first.target == "a#fill-0"


def test_diffusion_finds_what_the_nearest_passage_refers_to(notes: Project) -> None:
    with notes.retriever() as retriever:
        dense = [hit.id for hit in retriever.search("wet sponge", 9, retriever="dense")]
        diffused = [hit.id for hit in retriever.search("wet sponge", 9, retriever="diffusion")]
        assert diffused[:2] == ["a#far", "a#pump"] or diffused[:2] == ["a#pump", "a#far"]
        assert dense[1] != "a#far"
        only = Filter(documents=("b",))
        assert {hit.id for hit in retriever.search("wet sponge", 9, retriever="diffusion", filter=only)} <= {
            "b#alone",
            "b",
        }


def test_the_command_prints_paths_and_json_has_them(notes: Project) -> None:
    arguments = ("search", "zebras graze", "-w", notes.root, "--retriever", "geodesic", "-k", "40", "--paths")
    shown = " ".join(lemmata(*arguments).split())
    assert "query —similar_to 0." in shown
    assert "a#far ←proof_uses" in shown
    path = next(hit["path"] for hit in json.loads(lemmata(*arguments, "--json")) if hit["id"] == "a#pump")
    assert [list(step) for step in path] == [["source", "target", "relation", "length"]] * 2


def test_logs_are_reached_over_their_locations(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, PLANT)
    project.build_graph()
    with project.retriever() as retriever:
        relations = {
            step.relation.removeprefix("^")
            for hit in retriever.search("the seal leaks", 9, retriever="geodesic")
            for step in hit.path
        }
    assert "reports_about" in relations or "part_of" in relations


# ---------------------------------------------------------------- what is missing or out of date


def test_without_a_graph_or_vectors_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, NOTES, index="lexical")
    project.build_graph()
    with (
        project.retriever() as retriever,
        pytest.raises(WorkspaceError, match="lemmata index"),
    ):
        retriever.search("wet sponge", paths=True)
    project.index(settings={"encoder": "hashing"})
    shutil.rmtree(project.graph_folder)
    with project.retriever() as retriever:
        options: list[dict[str, Any]] = [{"paths": True}, {"retriever": "geodesic"}, {"retriever": "diffusion"}]
        for more in options:
            with pytest.raises(WorkspaceError, match="'lemmata graph build'"):
                retriever.search("wet sponge", **more)
        assert retriever.search("wet sponge")
    message = lemmata("search", "wet sponge", "-w", project.root, "--paths", code=1)
    assert message.strip().endswith("there is no graph yet: run 'lemmata graph build'")


def test_edges_are_measured_whichever_comes_last_the_graph_or_the_index(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, NOTES)
    report = project.build_graph()
    first = open_lengths(project)
    assert len(first.edges) == 2 * sum(report["edges"].values())
    shutil.rmtree(project.graph_folder)
    shutil.rmtree(project.graph_records.parent)
    assert project.index(settings={"encoder": "hashing"})["measured_edges"] == 0
    vectors = vector_set(project)
    assert vectors is not None
    assert not vectors.lengths.exists()
    project.build_graph()
    assert project.index()["measured_edges"] == 0  # measured with the graph
    shutil.rmtree(vectors.lengths)
    with pytest.raises(WorkspaceError, match="'lemmata index'"):
        open_lengths(project)
    assert project.index()["measured_edges"] == len(open_graph(project).graph.indices)
    for name in first._fields:
        np.testing.assert_array_equal(getattr(first, name), getattr(open_lengths(project), name))


def test_damaged_lengths_are_refused_and_made_again(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, NOTES)
    project.build_graph()
    vectors = vector_set(project)
    assert vectors is not None
    with (vectors.lengths / "lengths.npy").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(WorkspaceError, match=r"lengths\.npy .*'lemmata index'"):
        open_lengths(project)
    assert project.index()["measured_edges"] > 0
    open_lengths(project)
