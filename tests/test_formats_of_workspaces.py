"""A stored workspace of the present format opens, searches and can be updated; one of a later format is refused."""

from __future__ import annotations

import json
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.workspaces.make import HERE, NAMES, write_papers

from lemmata.core.errors import WorkspaceError
from lemmata.core.workspace import FORMAT
from lemmata.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    with tarfile.open(HERE / f"format-{FORMAT}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return Project(tmp_path / "w")


def first(project: Project, query: str) -> str:
    with project.retriever() as retriever:
        return retriever.search(query, k=1)[0].id


def test_a_stored_workspace_opens_searches_and_is_whole(project: Project) -> None:
    assert first(project, "cobalt light of a lantern") == "cobalt#def-cobalt"
    assert project.show("concept:cobalt")["passages"]
    assert project.info()["problems"] == []
    assert project.verify().problems == []
    assert len(project.training_sets()["pairs"]) > 0


def test_a_stored_workspace_can_be_updated(project: Project) -> None:
    papers = write_papers(project.root.parent / "papers", "scarlet")
    report = project.ingest([papers])
    assert (report.added, report.changed + report.unchanged) == (1, len(NAMES))  # newer readers read all again
    project.build_graph()
    project.split()
    project.mine("pairs")
    assert project.index()["encoded"] == 2
    assert first(project, "scarlet light of a lantern") == "scarlet#def-scarlet"
    with closing(project.corpus) as corpus:
        assert len(corpus) == 2 * (len(NAMES) + 1)
    assert project.verify().problems == []
    assert project.collect_garbage() == []


def test_a_manifest_of_a_later_format_is_refused_with_the_cure(project: Project) -> None:
    path = project.manifest(project.graph_folder)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format": FORMAT + 1}))
    with pytest.raises(WorkspaceError, match=f"format {FORMAT + 1}"):
        project.export_graph(project.root / "graph.jsonl")
