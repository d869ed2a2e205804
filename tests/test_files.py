from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lemmata.core.errors import WorkspaceBusy
from lemmata.core.files import (
    Remembered,
    bytes_below,
    lock_file,
    replace_folder,
    retire,
    sha256_of,
    write_atomically,
    writing,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_folder(folder: Path, content: str) -> None:
    folder.mkdir()
    (folder / "part").write_text(content)


def fail_while_writing(path: Path, write: Callable[[Path], object]) -> Path:
    """The temporary path of a write that failed half-way."""
    temporaries = []

    def write_and_fail() -> None:
        with writing(path) as temporary:
            temporaries.append(temporary)
            write(temporary)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    return temporaries[0]


def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_atomically(path, b"old")
    with writing(path) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["file"]


def test_a_folder_is_replaced_as_a_whole_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    write_folder(path, "old")
    (path / "only in the old one").touch()
    with writing(path) as temporary:
        write_folder(temporary, "new")
        assert (path / "part").read_text() == "old"
    assert names(path) == ["part"]
    assert (path / "part").read_text() == "new"
    assert names(tmp_path) == ["folder"]


def test_an_error_keeps_what_was_there_and_leaves_nothing_behind(tmp_path: Path) -> None:
    fail_while_writing(tmp_path / "file", Path.touch)
    fail_while_writing(tmp_path / "folder", Path.mkdir)
    assert names(tmp_path) == []
    (tmp_path / "file").write_bytes(b"old")
    write_folder(tmp_path / "folder", "old")
    fail_while_writing(tmp_path / "file", lambda temporary: temporary.write_bytes(b"ne"))
    fail_while_writing(tmp_path / "folder", lambda temporary: write_folder(temporary, "ne"))
    assert (tmp_path / "file").read_bytes() == b"old"
    assert (tmp_path / "folder" / "part").read_text() == "old"
    assert names(tmp_path) == ["file", "folder"]


def test_a_block_that_writes_nothing_is_an_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(FileNotFoundError), writing(path):
        pass
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_the_leftover_of_a_killed_process_does_not_get_into_the_new_folder(tmp_path: Path) -> None:
    leftover = fail_while_writing(tmp_path / "folder", Path.mkdir)
    write_folder(leftover, "stale")
    with writing(tmp_path / "folder") as temporary:
        temporary.mkdir()
    assert names(tmp_path / "folder") == []


def test_a_folder_can_be_moved_to_a_place_where_none_was(tmp_path: Path) -> None:
    write_folder(tmp_path / "new", "x")
    replace_folder(tmp_path / "new", tmp_path / "deep" / "target")
    assert names(tmp_path) == ["deep"]
    assert names(tmp_path / "deep") == ["target"]


def test_the_hash_is_that_of_the_concatenated_contents(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, content in zip(paths, (b"one", b"two"), strict=True):
        path.write_bytes(content)
    assert sha256_of(paths) == hashlib.sha256(b"onetwo").hexdigest()
    assert sha256_of([]) == hashlib.sha256(b"").hexdigest()


def test_a_lock_is_exclusive_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with lock_file(path), pytest.raises(WorkspaceBusy, match=path.parent.name):
        lock_file(path)
    lock_file(path).close()


def test_a_lock_names_its_verb_and_keeps_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["lemmata", "ingest", "s3://user:secret@bucket"])
    with lock_file(tmp_path / "lock"), pytest.raises(WorkspaceBusy, match="lemmata ingest") as caught:
        lock_file(tmp_path / "lock")
    assert "secret" not in str(caught.value) + (tmp_path / "lock").read_text()


def test_leftovers_of_killed_processes_are_removed_and_others_stay(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".set.{dead.pid}").mkdir()
    (tmp_path / f".set.{dead.pid}" / "part").write_text("half")
    (tmp_path / f".set.{os.getppid()}").write_text("of a running process")
    (tmp_path / ".set.old").write_text("not ours")
    write_atomically(tmp_path / "set", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f".set.{os.getppid()}", ".set.old", "set"])


def test_what_was_made_of_a_file_is_remembered_until_the_file_changes(tmp_path: Path) -> None:
    file, remembered = tmp_path / "a", Remembered[str]()
    file.write_text("one")
    asked: list[str] = []

    def get(key: str = "") -> str:
        def read() -> str:
            asked.append(file.read_text())
            return asked[-1]

        return remembered.get(str(file), key, read)

    while time.time() - file.stat().st_ctime < 2.1:  # one that was written just now may change again unnoticed
        time.sleep(0.1)
    assert (get(), get(), len(asked)) == ("one", "one", 1)
    assert (get("another use"), len(asked)) == ("one", 2)
    times = file.stat()
    file.write_text("two")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # of the same size and time
    assert get() == "two"
    file.unlink()
    with pytest.raises(FileNotFoundError):
        get()


def test_the_size_of_a_folder_is_that_of_the_files_that_are_there(tmp_path: Path) -> None:
    write_folder(tmp_path / "below", "12345")
    (tmp_path / "stays").write_bytes(b"abc")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")  # as a file that was removed after it was listed
    assert bytes_below(tmp_path) == 8
    assert bytes_below(tmp_path / "stays") == 3
    assert bytes_below(tmp_path / "nowhere") == 0


def test_a_folder_whose_removal_is_killed_is_gone_and_a_second_removal_clears_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lengths"
    folder.mkdir()
    (folder / "lengths.npy").write_bytes(b"1")
    (folder / "manifest.json").write_bytes(b"{}")

    def killed(path: Path, **_: object) -> None:
        if path.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lemmata.core.files.shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            retire(folder)
    assert not folder.exists()
    left = [path.name for path in (tmp_path / ".lengths.old").iterdir()]
    assert left == ["lengths.npy"]  # without its manifest it is not put back
    retire(folder)
    assert list(tmp_path.iterdir()) == []
