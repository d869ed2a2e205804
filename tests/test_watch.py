"""Files that come, change and go below a folder are noticed, once their writing has stopped."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.make import write

from lemmata.core.errors import InputError
from lemmata.ingest.watch import changes
from lemmata.project import Project

FAST = 0.02  # seconds between two looks


def test_new_changed_and_deleted_files_are_noticed_and_hidden_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("same.tex", "sub/changed.tex", "deleted.tex"):
        (tmp_path / name).write_text("before")
    following = changes([tmp_path], threading.Event(), seconds=FAST)
    (tmp_path / "sub/new.tex").write_text("new")  # between the call and the first look
    (tmp_path / "sub/changed.tex").write_text("another text")
    (tmp_path / "deleted.tex").unlink()
    (tmp_path / ".hidden.tex").write_text("hidden")
    (tmp_path / "copy.tex~").write_text("of an editor")
    assert next(following) == {tmp_path / name for name in ("sub/new.tex", "sub/changed.tex", "deleted.tex")}


def test_a_file_of_equal_size_and_time_that_takes_the_place_of_another_is_noticed(tmp_path: Path) -> None:
    file, other = tmp_path / "a.tex", tmp_path / ".other"
    file.write_text("one")
    following = changes([file], threading.Event(), seconds=FAST)
    other.write_text("two")
    facts = file.stat()
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    other.replace(file)
    assert next(following) == {file}


def test_a_folder_that_disappears_and_comes_back_is_two_changes(tmp_path: Path) -> None:
    folder, away = tmp_path / "papers", tmp_path / "away"
    folder.mkdir()
    (folder / "a.tex").write_text("a")
    following = changes([folder], threading.Event(), seconds=FAST)
    folder.rename(away)
    assert next(following) == {folder / "a.tex"}
    away.rename(folder)
    assert next(following) == {folder / "a.tex"}


def test_a_change_waits_until_its_file_is_written(tmp_path: Path) -> None:
    file, looks = tmp_path / "a.tex", itertools.count(1)

    class Writer(threading.Event):
        """Writes another line before each of twenty looks."""

        def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002
            if next(looks) <= 20:
                with file.open("a") as stream:
                    stream.write("line\n")
            return False

    assert next(changes([tmp_path], Writer())) == {file}
    assert next(looks) > 21


@pytest.mark.parametrize(("took", "expected"), [([5, 0, 0], [1, 1, 1, 1]), ([5, 5, 5], [1, 1, 100, 100])])
def test_a_large_folder_is_looked_at_less_often_and_a_machine_that_stalled_once_is_not_punished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: list[float], expected: list[float]
) -> None:
    clock = iter([float(time) for seconds in took for time in (0, seconds)])
    monkeypatch.setattr("lemmata.ingest.watch.time", SimpleNamespace(monotonic=lambda: next(clock)))
    pauses: list[float | None] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return len(pauses) > len(took)

    assert list(changes([tmp_path], Stop(), seconds=1)) == []
    assert pauses == expected


def test_it_ends_when_it_is_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    following = changes([tmp_path], stop, seconds=FAST)
    stop.set()
    with pytest.raises(StopIteration):
        next(following)


def test_the_corpus_becomes_equal_to_the_folders_that_are_there(tmp_path: Path) -> None:
    texts = {"papers/a.md": "One text.", "papers/b.md": "Two texts.", "notes/c.md": "Three texts.", "d.md": "Four."}
    write(tmp_path, texts)
    project = Project.init(tmp_path / "w")
    papers, notes, other = tmp_path / "papers", tmp_path / "notes", tmp_path / "d.md"
    project.ingest([papers, notes, other])

    (papers / "b.md").unlink()
    report = project.ingest([papers, notes], only=True)
    assert sorted(map(os.path.basename, report.files["removed"])) == ["b.md", "d.md"]
    assert [passage.text for passage in project.corpus] == ["One text.", "Three texts."]

    shutil.rmtree(notes)
    assert project.ingest([papers, notes], only=True).removed == 1  # the folder is gone
    (papers / "a.md").rename(papers / "a.unknown")
    report = project.ingest([papers, notes], only=True)  # nothing in it can be read any more
    assert (report.removed, len(project.corpus)) == (1, 0)

    write(tmp_path, texts)
    assert project.ingest([papers, notes], only=True).added == 3
    with pytest.raises(InputError, match="papres"):
        project.ingest([tmp_path / "papres"], only=True)
    assert len(project.corpus) == 3
