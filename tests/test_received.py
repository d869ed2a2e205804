"""A workspace that somebody else made: links that lead out of it, databases that hold more than they should."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.make import lemmata, write

from lemmata.core.artefacts import file_facts
from lemmata.core.errors import WorkspaceError
from lemmata.core.http import AnswerCache
from lemmata.core.workspace import HIDDEN, Workspace, read_manifest, write_manifest
from lemmata.evaluate.judgments import JudgmentLog
from lemmata.project import Project
from lemmata.server.folder import serving_alone, workspace_of


@pytest.mark.parametrize("name", [".lock", "split", "index/lexical", "index/indexing.json", "graph/records.sqlite"])
def test_nothing_is_written_through_a_link_that_leads_out(project: Project, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "thesis").write_text("precious")
    path = project.root / name
    if path.exists():
        path.rename(tmp_path / "before")
    path.symlink_to(victim if "." not in path.name else victim / "thesis")
    for verb in (project.split, project.index, project.build_graph):
        with pytest.raises(WorkspaceError, match=path.name):
            verb()
    assert {file.name: file.read_text() for file in victim.iterdir()} == {"thesis": "precious"}


def test_what_is_written_without_the_lock_is_not_written_through_a_link(tmp_path: Path) -> None:
    folder = write(tmp_path, {"papers/a.md": "# A\n\nA note.", "thesis": "precious", "empty": ""}) / "papers"
    hidden = folder / HIDDEN
    hidden.mkdir()
    for name in ("lemmata.toml", ".gitignore"):
        (hidden / name).symlink_to(tmp_path / "new")  # which is not there yet
    with pytest.raises(WorkspaceError):
        workspace_of([folder])
    assert not (tmp_path / "new").exists()
    for name in ("lemmata.toml", ".gitignore"):
        (hidden / name).unlink()
    workspace = workspace_of([folder])
    (workspace.root / ".server").symlink_to(tmp_path / "thesis")
    with pytest.raises(WorkspaceError, match=r"\.server"), serving_alone(workspace):
        pass
    workspace.judgment_log.symlink_to(tmp_path / "empty")
    with JudgmentLog(workspace) as log, pytest.raises(WorkspaceError, match=r"judgments\.sqlite"):
        log.searched("width", [])
    assert [(tmp_path / name).read_text() for name in ("thesis", "empty")] == ["precious", ""]


def test_a_hidden_workspace_that_is_a_link_is_refused(project: Project, tmp_path: Path) -> None:
    folder = write(tmp_path / "received", {"a.md": "# A\n\nA note."})
    (folder / HIDDEN).symlink_to(project.root)
    with pytest.raises(WorkspaceError, match=HIDDEN):
        workspace_of([folder])
    assert workspace_of([folder], project.root).root == project.root  # of the user's own choice


def name_in_journal(database: Path, victim: Path) -> None:
    """Leave a journal beside a SQLite file that asks to delete a file after it was rolled back."""
    mark, name, pages = bytes.fromhex("d9d505f920a163d7"), str(victim).encode(), database.stat().st_size // 4096
    numbers = (0, 1, pages, 512, 4096)
    head = (mark + b"".join(number.to_bytes(4, "big") for number in numbers)).ljust(512, b"\0")
    end = (len(name).to_bytes(4, "big"), sum(name).to_bytes(4, "big"), mark)
    Path(f"{database}-journal").write_bytes(head + (0x40000000 // 4096 + 1).to_bytes(4, "big") + name + b"".join(end))


@pytest.mark.parametrize(
    "open_it",
    [
        AnswerCache,
        lambda path: Workspace(path.parent) and JudgmentLog(Workspace(path.parent)).queries(),
    ],
)
def test_a_journal_that_names_a_file_of_the_users_does_not_delete_it(
    tmp_path: Path, open_it: Callable[[Path], object]
) -> None:
    path, victim = tmp_path / "judgments.sqlite", tmp_path / "thesis"
    victim.write_text("precious")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t(a)")
    name_in_journal(path, victim)
    with pytest.raises(WorkspaceError, match="journal"):
        open_it(path)
    assert victim.exists()
    with contextlib.closing(sqlite3.connect(path)) as connection:  # as SQLite would
        connection.execute("SELECT COUNT(*) FROM t").fetchone()
    assert not victim.exists()


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
