"""What kills found, each as a case of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.make import search

from lemmata.core.errors import WorkspaceError
from lemmata.core.workspace import write_manifest
from lemmata.maintain.info import doctor
from lemmata.project import Project


def test_an_ingest_killed_before_its_manifest_is_unfinished_and_not_damaged(project: Project) -> None:
    project.manifest(project.corpus_folder).unlink()
    with pytest.raises(WorkspaceError, match="ingest"):
        search(project)
    assert not [check for check in doctor(project.root) if check.damaged]
    project.ingest([project.root.parent / "papers"])
    assert search(project)


def test_an_evaluation_killed_after_the_vectors_measures_the_edges_the_next_time(project: Project) -> None:
    layout = project
    lengths = layout.encoder_folder("hashing") / "lengths"
    assert lengths.is_dir()
    shutil.rmtree(lengths)
    write_manifest(layout.indexing, {"verb": "index", "encoder": "hashing", "done": 20, "total": 20})
    project.evaluate(project.task("references", part="train"), retrievers=["dense:hashing"])
    assert lengths.is_dir()
    assert not layout.indexing.exists()


def test_an_index_killed_while_it_is_built_again_leaves_the_one_before(project: Project) -> None:
    before = search(project)

    def stop(what: str, _done: int, _total: int | None) -> None:
        if what == "lexical index":
            raise KeyboardInterrupt

    with project.reporting_to(stop), pytest.raises(KeyboardInterrupt):
        project.index(settings={"encoder": "hashing"}, rebuild=True)
    assert search(project) == before


def test_a_new_segment_of_the_lexical_index_changes_no_file_of_the_index_before(project: Project) -> None:
    layout = project
    copy = layout.root.parent / "copy"
    shutil.copytree(layout.lexical_folder, copy, copy_function=lambda source, target: Path(target).hardlink_to(source))
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    (layout.root.parent / "papers" / "note.md").write_text("A note on the area of a tree.")
    project.ingest([layout.root.parent / "papers"])
    assert project.index(settings={"encoder": "hashing"})["tokenised"] == 1
    assert {path: path.read_bytes() for path in before} == before
