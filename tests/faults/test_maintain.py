"""`lemmata verify`, what killed commands leave, and two processes on one workspace."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.make import run_command, search, write, written_files

from lemmata.core.errors import WorkspaceBusy
from lemmata.core.files import replace_folder, wait_for_lock
from lemmata.graph.store import GraphRecordStore
from lemmata.project import Project


def found(project: Project) -> dict[str, str]:
    """What is wrong with each file, by its path below the workspace."""
    return {problem.path.relative_to(project.root).as_posix(): problem.what for problem in project.verify().problems}


# ---------------------------------------------------------------- verify


def test_a_whole_workspace_is_read_to_the_last_file(made: Project) -> None:
    report = made.verify()
    assert report.problems == []
    sealed = [path for path in written_files(made) if path.suffix != ".json" or path.name in ("nodes.json",)]
    assert report.files >= len(sealed) - 1
    assert run_command("verify", "-w", made.root).returncode == 0


def test_one_flipped_bit_anywhere_is_found_and_its_file_is_named(made: Project) -> None:
    generator = random.Random(0)
    for path in written_files(made):
        content = path.read_bytes()
        changed = bytearray(content)
        place = generator.randrange(len(changed))
        changed[place] ^= 1 << generator.randrange(8)
        path.write_bytes(changed)
        try:
            problems = found(made)
        finally:
            path.write_bytes(content)
        name = path.relative_to(made.root).as_posix()
        assert problems.get(name) == "damaged", (name, place)
    assert found(made) == {}


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_flipped_bit_anywhere_in_the_records_of_the_graph_is_found(made: Project, data: st.DataObject) -> None:
    path = made.graph_records
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(changed)
    try:
        assert found(made) == {"graph/records.sqlite": "damaged"}
    finally:
        path.write_bytes(content)


def test_records_that_a_killed_command_changed_are_no_damage(project: Project) -> None:
    with GraphRecordStore(project) as records:
        records.decide("concept:width", "concept:depth", "reject")  # killed before they were sealed again
    assert found(project) == {}
    content = bytearray(project.graph_records.read_bytes())
    content[24] ^= 1  # the counter of changes itself
    project.graph_records.write_bytes(content)
    assert found(project) == {"graph/records.sqlite": "damaged"}
    content[24] ^= 1
    project.graph_records.write_bytes(content)
    project.build_graph()
    assert project.verify().problems == []
    project.graph_records_note.write_text("{}")
    assert found(project) == {"graph/records.json": "damaged"}
    project.graph_records_note.unlink()  # as the sentence says
    project.build_graph()
    assert project.verify().problems == []


def test_missing_and_foreign_files_are_told_apart_and_a_foreign_one_is_no_damage(project: Project) -> None:
    (project.graph_folder / "mine.txt").write_text("a note")
    (project.root / "index" / "mine.txt").write_text("a note")
    (project.root / "notes.txt").write_text("outside of the folders of lemmata")
    assert found(project) == {"graph/compressed/mine.txt": "foreign", "index/mine.txt": "foreign"}
    assert run_command("verify", "-w", project.root).returncode == 0
    (project.split_folder / "unseen.npy").unlink()
    assert found(project)["split/unseen.npy"] == "missing"
    done = run_command("verify", "--json", "-w", project.root)
    assert done.returncode == 1
    assert len(json.loads(done.stdout)["problems"]) == 3


# ---------------------------------------------------------------- what killed commands leave


def test_what_killed_commands_left_is_removed_by_the_next_one_and_nothing_else(project: Project) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    index, dense = project.root / "index", project.encoder_folder("hashing")
    left = [
        project.graph_folder.with_name(f".compressed.{ended.pid}"),
        index / ".lexical.old",
        dense.with_name(".gone.old"),
        dense / ".vectors.old",
    ]
    kept = [index / f".default_encoder.json.{os.getppid()}", project.model(".v1.5"), project.model(".tuned.old")]
    for folder in (*left, *kept):
        write(folder, {"begun.json": "a key"} if "models" in folder.parts else {"below/rows.npy": "x"})
    before = search(project)
    with project.hold():
        assert not any(folder.exists() for folder in left)
    assert all(folder.exists() for folder in kept)
    for folder in kept:
        shutil.rmtree(folder)
    assert project.verify().problems == []
    assert search(project) == before


def test_a_folder_whose_replacement_was_killed_between_two_renames_comes_back(project: Project) -> None:
    project.split_folder.replace(project.root / ".split.old")  # where folders cannot be swapped in one step
    with project.hold():
        assert project.split_folder.is_dir()
    assert found(project) == {}


# ---------------------------------------------------------------- two processes


HOLD = """
import sys
from pathlib import Path
from lemmata.core.workspace import Workspace
with Workspace(Path(sys.argv[1])).hold():
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def another_writer(project: Project) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the workspace until its input ends."""
    code = [sys.executable, "-c", HOLD, str(project.root)]
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_second_writer_waits_and_says_who_holds_the_workspace(project: Project) -> None:
    with another_writer(project) as first:
        with pytest.raises(WorkspaceBusy, match=rf"process {first.pid} on .*, since 20"):
            project.split()
        assert search(project)  # needs no lock
        command = [sys.executable, "-m", "lemmata", "split", "-w", str(project.root)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as second:
            assert second.stderr is not None
            line = second.stderr.readline()
            assert f"process {first.pid} on" in line
            assert line.endswith(": waiting until it is done\n")
            assert second.poll() is None
            first.communicate()
            assert second.wait() == 0


def test_a_lock_dies_with_its_process(project: Project) -> None:
    with another_writer(project) as first:
        first.kill()
    wait_for_lock(project.lock)
    project.split()


def test_search_works_while_the_index_is_built_again_and_again(project: Project) -> None:
    before = search(project)
    stop = threading.Event()
    failures: list[str] = []
    searches = 0

    def keep_searching() -> None:
        nonlocal searches
        while not stop.is_set():
            try:
                assert search(project) == before
            except Exception as error:
                failures.append(str(error))
            searches += 1

    thread = threading.Thread(target=keep_searching)
    thread.start()
    rounds = 0
    while rounds < 3 or searches <= 3:
        rounds += 1
        project.index(settings={"encoder": "hashing"}, rebuild=True)
        project.build_graph()
    stop.set()
    thread.join()
    assert failures == []


def test_a_reader_sees_the_old_folder_or_the_new_one(tmp_path: Path) -> None:
    folder = tmp_path / "artefact"
    stop = threading.Event()
    missing = 0

    def write(number: int) -> None:
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "manifest.json").write_text(str(number))
        replace_folder(tmp_path / "new", folder)

    def read() -> None:
        nonlocal missing
        while not stop.is_set():
            missing += not (folder / "manifest.json").exists()

    write(0)
    thread = threading.Thread(target=read)
    thread.start()
    for number in range(200):
        write(number)
    stop.set()
    thread.join()
    assert sys.platform != "linux" or missing == 0
    assert [path.name for path in tmp_path.iterdir()] == ["artefact"]
