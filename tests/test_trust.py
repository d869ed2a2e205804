"""Addresses that only a workspace names get nothing until its user trusts them.

The other host is an address for documentation (TEST-NET-1), behind a proxy on loopback: what would be sent to it, from
this process or from another one, arrives there.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.embedding_server import CountingServer
from tests.llm_server import Server
from tests.make import lemmata, make_workspace, refused, say, wait_until, write
from tests.served import serving

from lemmata.core.errors import InputError, UntrustedAddress
from lemmata.core.http import Service as HttpService
from lemmata.core.keys import NO_KEY, origin_of, why_untrusted
from lemmata.core.trust import trust, trusted_file, trusted_origins
from lemmata.core.workspace import HIDDEN, Workspace, default_encoder, write_manifest
from lemmata.encode.load import open_encoder
from lemmata.project import Project
from lemmata.server.background import Background
from lemmata.server.folder import workspace_of
from lemmata.vectors.milvus import why_refused

HOST = "http://192.0.2.1"
ENCODER = f"{HOST}/v1#words"
MODEL = "evil-org/evil-model"
NOTES = {"a.md": "# Sponges\n\nEvery wet sponge drinks.\n", "b.md": "# Zebras\n\nA zebra grazes.\n"}


@pytest.fixture(autouse=True)
def _a_user_who_trusts_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "MILVUS_URI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def network(counting: CountingServer, monkeypatch: pytest.MonkeyPatch) -> CountingServer:
    """All other hosts: an embedding service that counts what it is sent."""
    behind_proxy(counting.url, monkeypatch)
    return counting


def behind_proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    monkeypatch.setenv("http_proxy", url.partition("/v1")[0])


@pytest.fixture
def received(network: CountingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A workspace whose vectors were made by an encoder on another host, which somebody else trusts."""
    with monkeypatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", ENCODER)
        project = make_workspace(tmp_path, NOTES, index=ENCODER)
    project.encodings.unlink()
    network.texts.clear()
    return Project(project.root)


def settings_of(project: Workspace, text: str) -> None:
    project.config_file.write_text(text)


# ---------------------------------------------------------------- one address


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("https://a.org/v1#model", "https://a.org"),
        ("https://A.org:443", "https://a.org"),
        ("http://a.org:443/v1", "http://a.org:443"),
        ("http://[2001:db8::1]:8000/v1", "http://[2001:db8::1]:8000"),
        ("tcp://a.org", "tcp://a.org"),
        ("evil-org/evil-model", "evil-org/evil-model"),
        ("https://user@a.org/v1", ""),
        ("https://b.org\\@a.org/v1", ""),
        ("file:///etc/passwd", ""),
        ("lemmata-mini", ""),
        ("/a/folder", ""),
    ],
)
def test_an_address_is_trusted_by_scheme_host_and_port(name: str, origin: str) -> None:
    assert origin_of(name) == origin


@pytest.mark.parametrize(
    ("name", "needs_trust"),
    [
        ("http://localhost:11434/v1", False),
        ("http://127.0.0.1:8000/v1#m", False),
        ("http://[::1]/v1", False),
        ("lemmata-mini", False),
        ("./models/mine", False),
        ("no-such/folder", True),  # no folder here has this name, so it would be looked up on the hub
        ("http://localhost.evil.org/v1", True),
        ("http://127.0.0.1@evil.org/v1", True),
        ("http://localhost:80\\@evil.org/v1", True),
        (" http://evil.org/v1", True),
        ("HTTP://evil.org/v1", True),
        ("http://0.0.0.0/v1", True),
        ("file:///etc/passwd", True),
    ],
)
def test_only_this_machine_needs_no_trust(name: str, needs_trust: bool) -> None:
    assert bool(why_untrusted(name, frozenset())) is needs_trust


def test_a_folder_is_no_model_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert why_untrusted("models/mine", frozenset())
    (tmp_path / "models" / "mine").mkdir(parents=True)
    assert not why_untrusted("models/mine", frozenset())


def test_what_is_trusted_is_kept_in_a_file_of_the_user_alone() -> None:
    assert trusted_origins() == frozenset()
    trust(f"{HOST}/v1")
    trust(MODEL)
    assert trusted_origins() == {HOST, MODEL}
    assert stat.S_IMODE(trusted_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(trusted_file().parent.stat().st_mode) == 0o700
    assert not why_untrusted(f"{HOST}/v2#m", trusted_origins())
    assert why_untrusted("https://192.0.2.1/v1", trusted_origins())
    assert why_untrusted(f"{HOST}:81/v1", trusted_origins())


@pytest.mark.parametrize("damage", ["", "{", "3", "null", '["http://192.0.2.1"'])
def test_a_damaged_list_trusts_nobody_and_is_written_anew(damage: str) -> None:
    trust(HOST)
    trusted_file().write_text(damage)
    assert trusted_origins() == frozenset()
    trust(MODEL)
    assert trusted_origins() == {MODEL}


@pytest.mark.parametrize("name", ["", "lemmata-mini", "ftp://a.org", "https://", "https://a@b.org"])
def test_what_is_no_address_cannot_be_trusted(name: str) -> None:
    with pytest.raises(InputError):
        trust(name)
    assert not trusted_file().exists()


# ---------------------------------------------------------------- verbs


@pytest.mark.parametrize("given", ["settings", "default"])
def test_an_encoder_that_only_a_workspace_names_gets_no_text(
    network: CountingServer, tmp_path: Path, given: str
) -> None:
    project = make_workspace(tmp_path, NOTES, index="lexical")
    if given == "settings":
        settings_of(project, f'[index]\nencoder = "{ENCODER}"\n')
    else:
        write_manifest(project.default_encoder_file, {"verb": "index", "encoder": ENCODER})
    said = refused(say("index", "-w", project.root))
    assert HOST in said
    assert f"lemmata config --trust {HOST}" in said
    assert network.texts == []
    lemmata("config", "--trust", f"{HOST}/v1")
    lemmata("index", "-w", project.root)
    assert any("sponge" in text for text in network.texts)


def test_an_encoder_that_is_named_on_the_command_line_is_trusted_from_then_on(
    network: CountingServer, tmp_path: Path
) -> None:
    project = make_workspace(tmp_path, NOTES, index=None)
    lemmata("index", "--encoder", ENCODER, "-w", project.root)
    assert default_encoder(project) == ENCODER
    network.texts.clear()
    found = lemmata("search", "wet sponge", "--retriever", "dense", "-w", project.root)
    assert "Every wet sponge" in found
    assert network.texts == ["wet sponge"]


def test_an_address_of_the_environment_is_trusted_while_it_stands_there(
    network: CountingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_workspace(tmp_path, NOTES, index="lexical")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{HOST}/v1")
    project.index(settings={"encoder": ENCODER})
    assert network.texts
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(UntrustedAddress), project.retriever() as retriever:
        retriever.search("sponge", retriever="dense")


def test_search_goes_on_by_words_and_says_why(network: CountingServer, received: Project) -> None:
    code, found, said = say("search", "sponge", "-w", received.root)
    assert code == 0
    assert "Every wet sponge" in found
    assert f"lemmata config --trust {HOST}" in said
    assert HOST in refused(say("search", "sponge", "--retriever", "dense", "-w", received.root))
    assert any(HOST in problem for problem in json.loads(lemmata("info", "--json", "-w", received.root))["problems"])
    with received.retriever() as retriever:  # the vectors that are there need nobody
        assert [hit.id for hit in retriever.similar("b@1", 1)] == ["a@1"]
    assert network.texts == []


def test_a_language_model_that_only_a_workspace_names_gets_no_question(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind_proxy(server.url, monkeypatch)
    server.script(answer="Sponges drink [1].", json=False)
    project = make_workspace(tmp_path, NOTES, index="lexical")
    settings_of(project, f'[llm]\nurl = "{HOST}/v1"\nmodel = "m"\n')
    record = json.loads(say("ask", "What does a sponge do?", "--json", "-w", project.root)[1])
    assert record["passages"]
    assert record["error"]["code"] == "untrusted"
    assert HOST in record["error"]["message"]
    assert f"lemmata config --trust {HOST}" in record["error"]["cure"]
    assert HOST in refused(say("graph", "extract", "--budget", "calls=5", "-w", project.root))
    assert server.calls() == []
    lemmata("ask", "What does a sponge do?", "-o", f"llm.url={HOST}/v1", "-w", project.root)
    assert len(server.calls()) == 1
    lemmata("ask", "What does a zebra do?", "-w", project.root)  # remembered
    assert len(server.calls()) == 2


def test_the_caller_of_a_service_names_its_address(network: CountingServer) -> None:
    HttpService(f"{HOST}/v1", "words", NO_KEY).post("embeddings", {"input": ["one"]})
    assert network.texts == ["one"]


def test_a_model_of_the_hub_that_only_a_workspace_names_is_not_looked_up(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, NOTES, index="lexical")
    with pytest.raises(UntrustedAddress, match=MODEL):
        open_encoder(project, MODEL)
    settings_of(project, f'[index]\nencoder = "{MODEL}"\n')
    assert f"lemmata config --trust {MODEL}" in refused(say("index", "-w", project.root))


def test_vectors_go_to_no_milvus_that_only_a_workspace_names(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "http://192.0.2.1:19530"
    assert uri in why_refused(uri)
    assert not why_refused("vectors.db")
    assert not why_refused("http://localhost:19530")
    monkeypatch.setenv("MILVUS_URI", uri)
    assert not why_refused(uri)
    monkeypatch.delenv("MILVUS_URI")
    trust(uri)
    assert not why_refused(uri)


# ---------------------------------------------------------------- the server


def test_a_served_workspace_has_its_remote_encoder_off_until_it_is_trusted(
    network: CountingServer, received: Project
) -> None:
    settings_of(received, f'[llm]\nurl = "{HOST}:81/v1"\nmodel = "m"\n')
    with serving(received.root, watch=0.05) as client:
        found = client.post("/search", json={"query": "sponge"}).json()
        assert [hit["id"] for hit in found["hits"]] == ["a@1"]
        assert f"lemmata config --trust {HOST}" in found["note"]
        health = client.get("/health").json()
        assert health["model"] == ""
        assert [sum(f"--trust {each}'" in problem for problem in health["problems"]) for each in (HOST, f"{HOST}:81")]
        assert [client.post("/search", json={"query": "x", "retriever": "dense"}).status_code] == [409]
        assert client.post("/v1/embeddings", json={"input": "x", "model": ENCODER}).status_code == 409
        events = client.post("/ask", json={"question": "What does a sponge do?"}).text
        assert "event: passages" in events
        assert "event: error" in events
        assert f"{HOST}:81" in events
        assert network.texts == []
        lemmata("config", "--trust", HOST)
        wait_until(lambda: client.post("/search", json={"query": "wet sponge", "log": False}).json()["note"] == "")
    assert network.texts


def test_a_received_folder_is_served_by_words_and_a_packaged_encoder(network: CountingServer, tmp_path: Path) -> None:
    said: list[str] = []
    folder = write(tmp_path / "received", {**NOTES, f"{HIDDEN}/lemmata.toml": f'[index]\nencoder = "{ENCODER}"\n'})
    background = Background(workspace_of([folder]), [folder], said.append)
    background.start()
    wait_until(lambda: not background.is_working)
    assert [HOST in problem for problem in background.problems] == [True]
    assert f"lemmata config --trust {HOST}" in "\n".join(said)
    assert default_encoder(background.workspace).startswith("lemmata-")
    assert network.texts == []
    trust(HOST)  # the server notices it
    wait_until(lambda: default_encoder(background.workspace) == ENCODER)
    wait_until(lambda: not background.is_working)
    background.stop()
    assert background.problems == []
    assert any("sponge" in text for text in network.texts)


def test_the_console_names_what_is_off(network: CountingServer, received: Project) -> None:
    settings_of(received, f'[index]\nencoder = "{ENCODER}"\n')
    said = say("serve", "-w", received.root, "--host", "192.0.2.7", "--token", "0123456789abcdef")  # cannot be bound
    assert said[0] == 1
    assert f"lemmata config --trust {HOST}" in said[2]
    assert network.texts == []
