"""Workspaces in object stores: a real S3 server in a process of its own, and stores in memory and on disk."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import make_workspace, wait_until, write

from lemmata.core.errors import InputError, LemmataError, WorkspaceError
from lemmata.core.objects import ObjectStore, is_safe_name, shown
from lemmata.core.workspace import Workspace
from lemmata.ingest.fetch import fetch
from lemmata.maintain.generations import LARGEST_PART, Generation, Part, cut
from lemmata.maintain.publish import PullReport, PushReport, pull, push
from lemmata.project import Project

ROOT = Path(__file__).parents[1]
needs_server = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("moto", "flask_cors", "s3fs")),
    reason="needs an S3 server: pip install 'moto[s3]' flask-cors s3fs",
)


def send(workspace: Path, url: str, **options: Any) -> PushReport:
    return push(Workspace(workspace), url, **options)


def receive(url: str, folder: Path) -> PullReport:
    return pull(Workspace(folder), url)


def content(workspace: Path) -> dict[str, bytes]:
    """The files of a workspace, without the hidden ones."""
    paths = (path for path in workspace.rglob("*") if path.is_file())
    names = {path.relative_to(workspace).as_posix(): path for path in paths}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith((".", "cache/"))}


def random_bytes(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(size)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with settings and three files."""
    files: dict[str, str | bytes] = {
        "corpus/notes.json": "{}",
        "index/dense/matrix.npy": random_bytes(4096),
        "index/dense/empty": "",
    }
    return write(Project.init(tmp_path / "w").root, files)


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}"


# ---------------------------------------------------------------- a real S3 server


class Server:
    """A process with an S3 server that has a bucket."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.is_up)

    def is_up(self) -> bool:
        try:
            self.put("bucket")
        except OSError:
            return False
        return True

    def put(self, path: str, data: bytes = b"") -> None:
        headers = {"Content-Type": "application/octet-stream"}  # else the server takes it for a form
        request = urllib.request.Request(f"{self.address}/{path}", data, headers, method="PUT")
        urllib.request.urlopen(request).close()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.stop()


@pytest.fixture
def bucket(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://bucket/{uuid.uuid4().hex}"


def lemmata(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lemmata", *arguments]
    known = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    env = {**known, "AWS_EC2_METADATA_DISABLED": "true", **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@needs_server
def test_a_workspace_that_went_through_s3_answers_the_same(bucket: str, tmp_path: Path) -> None:
    names = [f"{name}.tex" for name in ("partitions", "durfee", "heine")]
    project = make_workspace(tmp_path, {name: (ROOT / "examples" / "qseries" / name).read_bytes() for name in names})
    with project.retriever() as retriever:
        hits = retriever.search("Durfee square", k=5)
    assert project.push(bucket).changed
    receive(bucket, tmp_path / "copy")
    assert content(tmp_path / "copy") == content(tmp_path / "w")
    with Project(tmp_path / "copy").retriever() as retriever:
        assert retriever.search("Durfee square", k=5) == hits
    assert Project(tmp_path / "copy").verify().problems == []


@pytest.mark.slow
@needs_server
def test_s3_gets_and_gives_only_the_parts_that_changed(bucket: str, workspace: Path, tmp_path: Path) -> None:
    matrix = workspace / "index" / "dense" / "matrix.npy"
    matrix.write_bytes(random_bytes(40 << 20))
    first = send(workspace, bucket)
    assert first.sent == first.bytes > 40 << 20
    assert receive(bucket, tmp_path / "copy").received == first.bytes
    matrix.write_bytes(matrix.read_bytes() + random_bytes(4096, seed=1))
    second = send(workspace, bucket)
    assert second.generation == 2
    assert 0 < second.sent <= LARGEST_PART
    pulled = receive(bucket, tmp_path / "copy")
    assert (pulled.received, pulled.changed) == (second.sent, 1)
    assert content(tmp_path / "copy") == content(workspace)
    assert not send(workspace, bucket).changed
    assert receive(bucket, tmp_path / "copy").received == 0


@needs_server
def test_sources_are_read_from_s3_and_exported_to_it(bucket: str, server: Server, tmp_path: Path) -> None:
    records = [{"id": name, "text": f"About {name}."} for name in ("one", "two")]
    place = bucket.removeprefix("s3://")
    server.put(f"{place}/corpus/a.jsonl", "\n".join(map(json.dumps, records)).encode())
    server.put(f"{place}/corpus/b.md", b"# Three\n\nA text about three.")
    project = Project.init(tmp_path / "w")
    assert project.ingest([f"{bucket}/corpus"]).added == 2
    assert project.ingest([f"{bucket}/corpus"]).unchanged == 2
    project.export_corpus(f"{bucket}/export/all.jsonl")
    other = Project.init(tmp_path / "other")
    assert other.ingest([f"{bucket}/export/all.jsonl"]).passages == 3
    assert project.remove([f"{bucket}/corpus"]).passages == 0


@pytest.mark.slow
@needs_server
def test_each_failure_of_a_store_is_one_sentence(server: Server, workspace: Path, tmp_path: Path) -> None:
    def sentence(url: str, **environment: str) -> str:
        done = lemmata("push", url, "-w", str(workspace), **{**server.environment, **environment})
        assert done.returncode == 1, done.stdout
        (line,) = done.stderr.strip().splitlines()
        return line

    assert "a bucket must exist" in sentence("s3://nobody/x")
    assert "set AWS_ACCESS_KEY_ID" in sentence("s3://bucket/x", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    with pytest.raises(InputError, match="none"):
        ObjectStore("none://bucket/x")
    with pytest.raises(WorkspaceError, match="'lemmata push memory://nothing'"):
        receive("memory://nothing", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.slow
@needs_server
def test_a_push_whose_server_goes_away_ends_with_one_sentence(workspace: Path) -> None:
    (workspace / "index" / "dense" / "matrix.npy").write_bytes(random_bytes(40 << 20))
    dying = Server()
    command = [sys.executable, "-m", "lemmata", "push", "s3://bucket/x", "-w", str(workspace)]
    environment = {**os.environ, **dying.environment, "AWS_MAX_ATTEMPTS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        listing = f"{dying.address}/bucket?list-type=2"
        wait_until(lambda: b"objects/" in urllib.request.urlopen(listing).read())
    finally:
        dying.stop()
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "the same command resumes" in errors.splitlines()[-1]
    assert "Traceback" not in errors


# ---------------------------------------------------------------- parts


@settings(max_examples=20)
@given(st.integers(0, 3), st.integers(0, 5 << 20))
def test_the_parts_of_a_file_are_the_file(seed: int, size: int) -> None:
    data = random_bytes(size, seed)
    with tempfile.NamedTemporaryFile() as stream:
        stream.write(data)
        stream.flush()
        parts = list(cut(Path(stream.name)))
    assert b"".join(parts) == data
    assert all(2 << 20 <= len(part) <= LARGEST_PART for part in parts[:-1])


def test_rows_in_the_middle_change_few_parts(tmp_path: Path) -> None:
    data = random_bytes(64 << 20)
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(data)
    second.write_bytes(data[: 20 << 20] + random_bytes(1536, seed=1) + data[20 << 20 :])
    parts, others = set(cut(first)), set(cut(second))
    assert len(parts) > 6
    assert sum(map(len, others - parts)) <= 2 * LARGEST_PART


def test_a_file_of_zeros_is_cut_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(40 << 20))
    assert sum(map(len, cut(tmp_path / "a"))) == 40 << 20


# ---------------------------------------------------------------- push and pull


changes = st.lists(
    st.tuples(
        st.sampled_from(["index/a", "index/b/c", "graph/d", "models/m/e", "lemmata.toml"]),
        st.one_of(st.none(), st.binary(max_size=20)),
    ),
    max_size=8,
)


@settings(max_examples=15)
@given(st.lists(changes, min_size=1, max_size=4))
def test_a_copy_follows_every_change_of_a_workspace(rounds: list[list[tuple[str, bytes | None]]]) -> None:
    url = f"memory://{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory() as name:
        folder, copy = Path(name, "w"), Path(name, "copy")
        Project.init(folder)
        for edits in rounds:
            for file, data in edits:
                path = folder / file
                path.parent.mkdir(parents=True, exist_ok=True)
                if data is not None:
                    path.write_bytes(data)
                elif file != "lemmata.toml":
                    path.unlink(missing_ok=True)
            send(folder, url)
            receive(url, copy)
            assert content(copy) == content(folder)
        assert not send(folder, url).changed
        assert receive(url, copy).changed == 0


def test_what_is_unfinished_hidden_or_a_cache_is_not_pushed(workspace: Path, url: str, tmp_path: Path) -> None:
    before = content(workspace)
    unfinished = ("corpus/incoming.sqlite", "index/indexing.json", "index/dense/vectors.partial/matrix.npy")
    others = ("cache/a", "models/.tuned/step", "graph/records.sqlite-shm", "mine.tex")
    write(workspace, dict.fromkeys((*unfinished, *others), "x"))
    send(workspace, url)
    receive(url, tmp_path / "copy")
    assert content(tmp_path / "copy") == before


def test_a_log_beside_a_database_is_pushed_with_it(workspace: Path, url: str, tmp_path: Path) -> None:
    (workspace / "graph").mkdir()
    connection = sqlite3.connect(workspace / "graph" / "records.sqlite", isolation_level=None)
    connection.executescript("PRAGMA journal_mode = WAL; CREATE TABLE a (b); INSERT INTO a VALUES (7);")
    killed = tmp_path / "killed"
    shutil.copytree(workspace, killed)  # as a killed process leaves it
    connection.close()
    send(killed, url)
    receive(url, tmp_path / "copy")
    copied = sqlite3.connect(tmp_path / "copy" / "graph" / "records.sqlite")
    assert copied.execute("SELECT b FROM a").fetchall() == [(7,)]
    copied.close()


def test_changes_in_a_copy_are_never_lost(workspace: Path, url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    send(workspace, url)
    receive(url, copy)
    (copy / "cache").mkdir()
    (copy / "cache" / "mine").touch()
    assert receive(url, copy).changed == 0
    for name in ("models/.tuned/step", "corpus/notes.json"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("changed")
        with pytest.raises(WorkspaceError, match=name):
            receive(url, copy)
        assert (copy / name).read_text() == "changed"
        (copy / name).unlink()
    assert receive(url, copy).changed == 1
    assert content(copy) == content(workspace)
    assert (copy / "cache" / "mine").exists()


@pytest.mark.parametrize("pushed_settings", ["", "# new\n"])
def test_settings_that_are_edited_during_a_pull_are_not_lost(
    workspace: Path, url: str, tmp_path: Path, pushed_settings: str
) -> None:
    copy = tmp_path / "copy"
    send(workspace, url)
    receive(url, copy)
    (workspace / "lemmata.toml").write_text((workspace / "lemmata.toml").read_text() + pushed_settings)
    (workspace / "corpus" / "notes.json").write_text("new")
    send(workspace, url)

    def edit(_what: str, _done: int, _total: int | None) -> None:
        (copy / "lemmata.toml").write_text("# mine")

    with pytest.raises(WorkspaceError, match=r"lemmata\.toml"):
        pull(Workspace(copy, edit), url)
    assert (copy / "lemmata.toml").read_text() == "# mine"
    assert (copy / "corpus" / "notes.json").read_text() == "{}"


def test_a_file_that_is_pushed_is_not_lost_by_a_pull_whatever_its_name(
    workspace: Path, url: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    send(workspace, url)
    receive(url, copy)
    (workspace / "corpus" / "notes.json").write_text("new")
    send(workspace, url)
    for name, advice in (("corpus/mine.old", "push it"), ("corpus/incoming.sqlite", "finish what wrote it")):
        (copy / name).write_text("mine")
        with pytest.raises(WorkspaceError, match=f"{name} .*{advice}"):
            receive(url, copy)
        (copy / name).unlink()
    for name in (".notes.json.old", "records.sqlite-shm", "records.sqlite-wal"):
        (copy / "corpus" / name).touch()
    assert receive(url, copy).changed == 1


def test_another_workspace_is_replaced_only_on_demand(workspace: Path, url: str, tmp_path: Path) -> None:
    send(workspace, url)
    other = tmp_path / "other"
    Project.init(other)
    with pytest.raises(WorkspaceError, match=url):
        send(other, url)
    assert send(other, url, replace=True).generation == 2
    with pytest.raises(WorkspaceError, match=url):
        send(workspace, url)
    assert receive(url, workspace).generation == 2  # nothing is lost: its files are those of the first generation
    assert content(workspace) == content(other)


def test_two_pushes_at_the_same_time_do_not_go_unnoticed(workspace: Path, url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    send(workspace, url)
    receive(url, copy)
    (workspace / "corpus" / "notes.json").write_text("here")
    (copy / "corpus" / "notes.json").write_text("there")
    generations: list[int] = []

    def push_the_copy(_what: str, _done: int, _total: int | None) -> None:
        if not generations:
            generations.append(send(copy, url).generation)

    with pytest.raises(WorkspaceError, match=url):
        push(Workspace(workspace, push_the_copy), url)
    assert generations == [2]


def test_a_push_that_fails_again_and_again_is_still_at_home(workspace: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    generations, moved = store / "generations", store / "moved"
    send(workspace, str(store))
    (workspace / "corpus" / "notes.json").write_text("new")

    def block(_what: str, _done: int, _total: int | None) -> None:
        if not moved.exists():
            generations.rename(moved)
            generations.touch()

    for _ in range(2):
        (workspace / "index" / "dense" / "empty").touch()  # has another time, so that something is read
        with pytest.raises(InputError):
            push(Workspace(workspace, block), str(store))
        generations.unlink()
        moved.rename(generations)
        (workspace / "corpus" / "notes.json").write_text("newer")
    assert send(workspace, str(store)).generation == 2


def test_old_parts_go_when_two_generations_do_not_need_them(workspace: Path, url: str, tmp_path: Path) -> None:
    matrix = workspace / "index" / "dense" / "matrix.npy"
    store = ObjectStore(url)
    for number in range(4):
        matrix.write_bytes(random_bytes(1000, seed=number))
        report = send(workspace, url, kept_for=0)
        (workspace / "corpus" / "notes.json").write_text(str(number))
    names = store.entries()
    assert report.removed == 3  # the matrix, the notes and the generation of the second push
    assert sum(name.startswith("generations/") for name in names) == 2
    receive(url, tmp_path / "copy")
    assert (tmp_path / "copy" / "index" / "dense" / "matrix.npy").read_bytes() == random_bytes(1000, seed=3)
    store.write("objects/mine", b"")
    before = len(store.entries())
    matrix.write_bytes(b"young")
    assert send(workspace, url).removed == 0
    assert len(store.entries()) == before + 3
    assert send(workspace, url, kept_for=0).removed == 0  # nothing changed
    matrix.write_bytes(b"younger")
    send(workspace, url, kept_for=0)
    assert "objects/mine" in store.entries()


def test_a_damaged_part_is_named_and_changes_nothing(workspace: Path, tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    send(workspace, str(store))
    receive(str(store), copy)
    before = content(copy)
    (workspace / "corpus" / "notes.json").write_text("new")
    send(workspace, str(store))
    digest = hashlib.sha256(b"new").hexdigest()
    (store / "objects" / digest[:2] / digest).write_bytes(b"bad")
    with pytest.raises(InputError, match=f"objects/{digest[:2]}/{digest}"):
        receive(str(store), copy)
    assert content(copy) == before
    (store / "objects" / digest[:2] / digest).unlink()  # as the message says
    with pytest.raises(InputError, match=f"objects/{digest[:2]}/{digest}"):
        receive(str(store), copy)
    assert send(workspace, str(store)).sent == 3
    assert receive(str(store), copy).changed == 1


def test_a_generation_that_was_half_written_is_passed_over(workspace: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    send(workspace, f"file://{store}")
    name, data = Generation(2, {}).encoded()
    (store / name).write_bytes(data[:-1])
    assert receive(f"file://{store}", tmp_path / "copy").generation == 1
    for path in (store / "generations").iterdir():
        path.write_bytes(b"")
    with pytest.raises(WorkspaceError, match=str(store)):
        receive(f"file://{store}", tmp_path / "other")


# ---------------------------------------------------------------- hostile stores

GOOD = Part(4, hashlib.sha256(b"good").hexdigest())
INFINITE = b'{"format": 1, "files": {"lemmata.toml": [[1e999, "a"]]}}'


@pytest.mark.parametrize(
    "files",
    [
        {"../outside": [GOOD]},
        {"/etc/passwd": [GOOD]},
        {"index/../../outside": [GOOD]},
        {"index//a": [GOOD]},
        {"index/.hidden": [GOOD]},
        {"index\\a": [GOOD]},
        {"index/a\0b": [GOOD]},
        {"index/\ud800": [GOOD]},
        {"index": [GOOD]},
        {"elsewhere/a": [GOOD]},
        {"corpus/corpus.sqlite-journal": [GOOD]},
        {"index/a": [GOOD], "index/a/b": [GOOD]},
        {f"index/{'x' * 300}": [GOOD]},
        {"index/a": [Part(-1, GOOD.sha256)]},
        {"index/a": [Part(1 << 60, GOOD.sha256)]},
        {"index/a": [Part(4, "../../outside")]},
        {"index/a": 7},
        {"index/a": [[4]]},
    ],
    ids=repr,
)
def test_a_hostile_generation_is_refused(files: Any, url: str, tmp_path: Path) -> None:
    store = ObjectStore(url)
    store.write(f"objects/{GOOD.sha256[:2]}/{GOOD.sha256}", b"good")
    store.write(*Generation(1, {"lemmata.toml": [GOOD], **files}).encoded())
    with pytest.raises(WorkspaceError, match="generations/00000001-"):
        receive(url, tmp_path / "deep" / "copy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[" * 100_000, b'{"format": 9, "files": {}}', b"\xff", INFINITE])
def test_a_generation_that_is_none_is_refused(data: bytes, url: str, tmp_path: Path) -> None:
    ObjectStore(url).write(f"generations/00000001-{hashlib.sha256(data).hexdigest()}.json", data)
    with pytest.raises(WorkspaceError, match="generations/00000001-"):
        receive(url, tmp_path / "copy")


def test_a_number_that_somebody_made_up_hides_no_later_push(workspace: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    send(workspace, str(store))
    (real,) = (store / "generations").iterdir()
    real.rename(real.with_name("99999999" + real.name[8:]))
    (workspace / "lemmata.toml").write_text("[index]\n")
    with pytest.raises(WorkspaceError, match="99999999"):
        Project(workspace).push(str(store), replace=True)


def test_more_than_the_disk_holds_is_refused(url: str, tmp_path: Path) -> None:
    parts = [Part(LARGEST_PART, GOOD.sha256)] * 2**16  # a terabyte
    ObjectStore(url).write(*Generation(1, {"lemmata.toml": [GOOD], "index/a": parts}).encoded())
    with pytest.raises(WorkspaceError, match=r"1,099,\d+"):
        receive(url, tmp_path / "copy")


@given(st.text("./\\\0 aé", max_size=12))
def test_a_safe_name_stays_below_its_folder(name: str) -> None:
    if is_safe_name(name):
        assert os.path.normpath(f"/a/b/{name}") == f"/a/b/{name}"


def test_sources_with_names_that_lead_elsewhere_are_refused(url: str, tmp_path: Path) -> None:
    layout = Project.init(tmp_path / "w")
    store = ObjectStore(url)
    store.write("fine.md", b"# Fine")
    store.write(".hidden", b"")
    assert {path.name for path in fetch(layout, url).iterdir()} == {"fine.md"}
    store.write("a\\b.md", b"")
    with pytest.raises(InputError, match=r"b.md"):
        fetch(layout, url)
    with pytest.raises(InputError, match="-nothing"):
        fetch(layout, f"{url}-nothing")


def test_a_copied_source_follows_the_store(url: str, tmp_path: Path) -> None:
    layout = Project.init(tmp_path / "w")
    store = ObjectStore(url)
    store.write("a.md", b"1")
    store.write("b/c.md", b"2")
    place = fetch(layout, url)
    assert sorted(path.name for path in place.rglob("*.md")) == ["a.md", "c.md"]
    store.write("a.md", b"22")
    store.remove(["b/c.md"])
    fetch(layout, url)
    assert [path.read_bytes() for path in place.rglob("*.md")] == [b"22"]


def test_a_damaged_file_is_not_published(url: str, tmp_path: Path) -> None:
    project = make_workspace(tmp_path, [{"id": "p1", "text": "a Durfee square"}])
    assert project.push(url).out_of_date == []
    path = next((tmp_path / "w" / "index").rglob("matrix.npy"))
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(WorkspaceError, match=r"matrix\.npy"):
        project.push(url)
    path.write_bytes(data)
    report = project.push(url)
    assert (report.generation, report.changed) == (1, False)


def test_a_push_says_what_is_out_of_date(url: str, tmp_path: Path) -> None:
    project = make_workspace(tmp_path, [{"id": "p1", "text": "a Durfee square"}])
    (tmp_path / "q.jsonl").write_text('{"id": "q1", "text": "a second passage"}\n')
    project.ingest([tmp_path / "q.jsonl"])
    said = project.push(url).out_of_date
    assert said
    assert all("corpus changed" in sentence and "lemmata index" in sentence for sentence in said)


def test_a_web_server_and_a_file_are_refused(workspace: Path, url: str, tmp_path: Path) -> None:
    for transfer in (lambda: send(workspace, "http://localhost:1/x"), lambda: receive("https://h/x", tmp_path / "c")):
        with pytest.raises(InputError, match="http"):
            transfer()
    send(workspace, url)
    with pytest.raises(WorkspaceError, match=r"lemmata\.toml"):
        receive(url, workspace / "lemmata.toml")


def test_a_password_is_not_shown() -> None:
    assert shown("sftp://me:secret@host:22/x") == "sftp://me@host:22/x"
    assert shown("s3://bucket/x") == "s3://bucket/x"


def test_a_kind_of_store_whose_library_is_missing_names_the_extra(workspace: Path) -> None:
    if importlib.util.find_spec("gcsfs") is not None:
        pytest.skip("gcsfs is installed")
    with pytest.raises(LemmataError, match=r"gs://.*gcsfs"):
        send(workspace, "gs://bucket/x")


# ---------------------------------------------------------------- kills


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the commands run in forked processes")
@pytest.mark.parametrize("verb", ["push", "pull"])
def test_a_killed_transfer_resumes_and_ends_with_the_same_files(verb: str) -> None:
    command = [sys.executable, "-m", "tests.faults.transfers", verb]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["identical"] == report["kills"] >= 2
