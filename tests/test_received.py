"""A workspace that somebody else made: links that lead out of it, databases that hold more than they should."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from tests.make import lemmata

from lemmata.core.artefacts import file_facts
from lemmata.core.errors import WorkspaceError
from lemmata.core.workspace import read_manifest, write_manifest
from lemmata.project import Project


@pytest.mark.parametrize("name", [".lock", "split", "index/lexical", "index/indexing.json", "graph/records.sqlite"])
def test_nothing_is_written_through_a_link_that_leads_out(project: Project, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "thesis").write_text("precious")
    path = project.root / name
    if path.exists():
        path.rename(tmp_path / "before")
    path.symlink_to(victim if "." not in path.name else victim / "thesis")
    for verb in (project.split, project.index, project.build_graph, project.collect_garbage):
        with pytest.raises(WorkspaceError, match=path.name):
            verb()
    assert {file.name: file.read_text() for file in victim.iterdir()} == {"thesis": "precious"}


def test_a_link_inside_the_workspace_is_followed(project: Project) -> None:
    folder = project.split_folder
    folder.rename(project.training_folder / "elsewhere")
    folder.symlink_to(project.training_folder / "elsewhere")
    assert project.split()["counts"]


ENDLESS = """
ALTER TABLE documents RENAME TO kept;
CREATE VIEW documents AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT kept.* FROM kept, n
"""


def craft(project: Project, script: str, *values: object) -> None:
    """Change the corpus, as somebody does who also writes the right checksums."""
    with sqlite3.connect(project.database) as connection:
        for statement in filter(str.strip, script.split(";")):
            connection.execute(statement, values)
    connection.close()
    path = project.manifest(project.corpus_folder)
    files = {project.database.name: file_facts(project.database)}
    write_manifest(path, {**(read_manifest(path) or {}), "files": files})


def test_a_database_with_a_view_that_never_ends_is_refused(project: Project) -> None:
    craft(project, ENDLESS)
    with pytest.raises(WorkspaceError, match=r"corpus\.sqlite"):
        project.corpus  # noqa: B018 - opening it is the point
    (message,) = lemmata("search", "width", "-w", project.root, code=1).splitlines()
    assert "corpus.sqlite" in message


@pytest.mark.parametrize("value", ["{", "[" * 10**5, 7])
def test_a_cell_that_is_no_json_is_one_sentence(project: Project, value: str | int) -> None:
    craft(project, "UPDATE documents SET authors = ?1, metadata = ?1; UPDATE passages SET metadata = ?1", value)
    with contextlib.closing(project.corpus) as corpus:
        for read in (lambda: list(corpus.documents()), lambda: corpus.passages([0])):
            with pytest.raises(WorkspaceError, match="damaged"):
                read()
