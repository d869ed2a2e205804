"""Workspaces of every format there was open, search and can be updated; those of a later one are refused."""

from __future__ import annotations

import json
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.workspaces.make import HERE, NAMES, write_papers

from lemmata.errors import WorkspaceError
from lemmata.project import Project
from lemmata.store import layout
from lemmata.store.layout import FORMAT, read_manifest, write_manifest

ARCHIVES = sorted(HERE.glob("format-*.tar.xz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return Project(tmp_path / "w")


def first(project: Project, query: str) -> str:
    with project.retriever() as retriever:
        return retriever.search(query, k=1)[0].id


def test_there_is_an_archive_of_every_format() -> None:
    names = {f"format-{number}.tar.xz" for number in range(1, FORMAT + 1)}
    assert {path.name for path in ARCHIVES} == names
    assert all(path.stat().st_size < 100_000 for path in ARCHIVES)


def test_an_earlier_workspace_opens_searches_and_is_whole(project: Project) -> None:
    assert first(project, "cobalt light of a lantern") == "cobalt#def-cobalt"
    assert project.show("concept:cobalt")["passages"]
    assert project.info()["problems"] == []
    assert project.verify().problems == []
    assert len(project.training_sets()["pairs"]) > 0


def test_an_earlier_workspace_can_be_updated(project: Project) -> None:
    papers = write_papers(project.layout.root.parent / "papers", "scarlet")
    report = project.ingest([papers])
    assert (report.added, report.unchanged) == (1, len(NAMES))
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
    path = project.layout.manifest(project.layout.graph)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format": FORMAT + 1}))
    with pytest.raises(WorkspaceError, match=f"has format {FORMAT + 1}, .*install the newer lemmata that wrote it"):
        project.export_graph(project.layout.root / "graph.json")


def test_a_manifest_of_an_earlier_format_is_upgraded_as_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "manifest.json"
    write_manifest(path, {"verb": "index", "length": 3})

    def rename(content: layout.Manifest) -> layout.Manifest:
        return {"dimension": content["length"], "verb": content["verb"]}

    monkeypatch.setattr(layout, "UPGRADES", (*layout.UPGRADES, rename))
    monkeypatch.setattr(layout, "FORMAT", FORMAT + 1)
    assert read_manifest(path) == {"format": FORMAT + 1, "verb": "index", "dimension": 3}
