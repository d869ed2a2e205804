"""Sources in object stores: a real S3 server in a process of its own, and a store in memory."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import wait_until

from lemmata.core.errors import InputError, LemmataError
from lemmata.core.objects import ObjectStore, is_safe_name, shown
from lemmata.ingest.fetch import fetch
from lemmata.project import Project

needs_server = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("moto", "flask_cors", "s3fs")),
    reason="needs an S3 server: pip install 'moto[s3]' flask-cors s3fs",
)


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
def test_each_failure_of_a_store_is_one_sentence(server: Server, project: Project) -> None:
    def sentence(url: str, **environment: str) -> str:
        done = lemmata("ingest", url, "-w", str(project.root), **{**server.environment, **environment})
        assert done.returncode == 1, done.stdout
        (line,) = done.stderr.strip().splitlines()
        return line

    assert "a bucket must exist" in sentence("s3://nobody/x")
    assert "set AWS_ACCESS_KEY_ID" in sentence("s3://bucket/x", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    away = sentence("s3://bucket/x", AWS_ENDPOINT_URL="http://127.0.0.1:1", AWS_MAX_ATTEMPTS="1")
    assert "the same command resumes" in away
    assert "none" in sentence("none://bucket/x")


# ---------------------------------------------------------------- names


def put(url: str, name: str, data: bytes) -> None:
    with fsspec.open(f"{url}/{name}", "wb") as stream:
        stream.write(data)


@given(st.text("./\\\0 aé", max_size=12))
def test_a_safe_name_stays_below_its_folder(name: str) -> None:
    if is_safe_name(name):
        assert os.path.normpath(f"/a/b/{name}") == f"/a/b/{name}"


def test_sources_with_names_that_lead_elsewhere_are_refused(url: str, tmp_path: Path) -> None:
    layout = Project.init(tmp_path / "w")
    put(url, "fine.md", b"# Fine")
    put(url, ".hidden", b"")
    assert {path.name for path in fetch(layout, url).iterdir()} == {"fine.md"}
    put(url, "a\\b.md", b"")
    with pytest.raises(InputError, match=r"b.md"):
        fetch(layout, url)
    with pytest.raises(InputError, match="-nothing"):
        fetch(layout, f"{url}-nothing")


def test_a_copied_source_follows_the_store(url: str, tmp_path: Path) -> None:
    layout = Project.init(tmp_path / "w")
    put(url, "a.md", b"1")
    put(url, "b/c.md", b"2")
    place = fetch(layout, url)
    assert sorted(path.name for path in place.rglob("*.md")) == ["a.md", "c.md"]
    put(url, "a.md", b"22")
    fsspec.filesystem("memory").rm(f"{url}/b/c.md")
    fetch(layout, url)
    assert [path.read_bytes() for path in place.rglob("*.md")] == [b"22"]


def test_a_password_is_not_shown() -> None:
    assert shown("sftp://me:secret@host:22/x") == "sftp://me@host:22/x"
    assert shown("s3://bucket/x") == "s3://bucket/x"


def test_a_kind_of_store_whose_library_is_missing_names_the_extra() -> None:
    if importlib.util.find_spec("gcsfs") is not None:
        pytest.skip("gcsfs is installed")
    with pytest.raises(LemmataError, match=r"gs://.*gcsfs"):
        ObjectStore("gs://bucket/x")
