"""What kills found, each as a case of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.make import search

from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.workspace import read_manifest, write_manifest
from lemmata.project import Project


def test_an_ingest_killed_before_its_manifest_is_unfinished_and_not_damaged(project: Project) -> None:
    project.manifest(project.corpus_folder).unlink()
    with pytest.raises(WorkspaceError, match="ingest"):
        search(project)
    assert project.verify().is_whole
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


@pytest.mark.parametrize("late", [False, True])
def test_removing_a_source_that_was_killed_can_be_said_again(project: Project, late: bool) -> None:
    papers = project.root.parent / "papers"
    options = (read_manifest(project.manifest(project.corpus_folder)) or {})["options"]
    (project.root.parent / "note.md").write_text("A note that stays.")
    project.ingest([project.root.parent / "note.md"])

    def stop(what: str, _done: int, _total: int | None) -> None:
        if what == "resolving links" and not late:
            raise KeyboardInterrupt

    if late:  # all but the manifest was written
        project.remove([papers])
        project.manifest(project.corpus_folder).unlink()
    else:
        with project.reporting_to(stop), pytest.raises(KeyboardInterrupt):
            project.remove([papers])
        with pytest.raises(InputError, match="nothing"):
            project.remove([project.root.parent / "nothing"])
    assert project.remove([papers]).documents == 1
    assert (read_manifest(project.manifest(project.corpus_folder)) or {})["options"] == options
    with pytest.raises(InputError, match="note"):
        project.remove([papers])


def test_what_a_killed_command_left_at_the_root_is_removed_by_the_next_one(project: Project) -> None:
    kept = project.root / ".mine.old"  # of somebody else
    left = [project.root / name for name in (".index.old", ".split.999999")]
    for folder in (*left, kept):
        (folder / "below").mkdir(parents=True)
    with project.hold():
        pass
    assert not any(folder.exists() for folder in left)
    assert kept.exists()


def test_vectors_whose_removal_was_killed_can_be_removed_again(project: Project) -> None:
    folder = project.encoder_folder("hashing")
    project.default_encoder_file.unlink()
    shutil.rmtree(folder / "vectors")
    folder.rename(folder.with_name(".hashing.old"))
    assert project.remove_encoder("hashing")["removed"] == "hashing"
    assert not any(project.dense_folder.iterdir())
