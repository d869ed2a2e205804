"""The remote encoder and the HTTP transport against a real server on loopback that fails on request."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.embedding_server import FaultyServer
from tests.make import lemmata, make_workspace

from lemmata.core.errors import LemmataError
from lemmata.core.http import Service
from lemmata.core.keys import NO_KEY, OPENAI, ApiKey
from lemmata.encode.load import load_encoder
from lemmata.encode.remote import RemoteEncoder
from lemmata.project import Project


def remote(
    server: FaultyServer,
    model: str = "tiny",
    *,
    key: ApiKey = NO_KEY,
    retries: int = 2,
    timeout: float = 120,
    **options: Any,
) -> RemoteEncoder:
    service = Service(server.url, model, key, retries=retries, back_off=0.01, timeout=timeout)
    return RemoteEncoder(service, **options)


def expected(*texts: str) -> Any:
    rows = np.array([[len(text), 1.0, 2.0] for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_rows_are_normalised_and_in_order_and_empty_texts_are_zeros(service: FaultyServer) -> None:
    encoder = remote(service)
    matrix = encoder.encode(["a", "", "ccc", "  "])
    assert matrix.dtype == np.float32
    assert encoder.dimension == 3
    np.testing.assert_allclose(matrix[[0, 2]], expected("a", "ccc"), atol=1e-6)
    assert not matrix[[1, 3]].any()
    assert service.requests == [["a", "ccc"]]


def test_the_index_field_decides_the_order(service: FaultyServer) -> None:
    service.faults = ["reordered"]
    matrix = remote(service).encode(["a", "bb", "ccc"])
    np.testing.assert_allclose(matrix, expected("a", "bb", "ccc"), atol=1e-6)


@pytest.mark.parametrize("fault", ["429", "500", "503", "truncated", "few", "twice", "ragged", "zero", "retry 0"])
def test_a_passing_failure_is_retried(service: FaultyServer, fault: str) -> None:
    service.faults = [fault]
    matrix = remote(service).encode(["a", "bb"])
    np.testing.assert_allclose(matrix, expected("a", "bb"), atol=1e-6)
    assert len(service.requests) == 2


@pytest.mark.parametrize("fault", ["429", "500", "truncated", "few", "zero"])
def test_a_lasting_failure_raises_and_is_no_empty_result(service: FaultyServer, fault: str) -> None:
    service.faults = [fault] * 3
    with pytest.raises(LemmataError, match=r" 3 .*tiny"):
        remote(service).encode(["a", "bb"])


def test_retry_after_is_obeyed(service: FaultyServer) -> None:
    service.faults = ["retry 1"]
    start = time.monotonic()
    remote(service).encode(["a"])
    assert time.monotonic() - start >= 1


def test_a_wait_of_an_hour_is_an_error(service: FaultyServer) -> None:
    service.faults = ["retry 3600"]
    with pytest.raises(LemmataError, match="3600"):
        remote(service).encode(["a"])


@pytest.mark.parametrize("status", ["400", "401", "404"])
def test_a_refusal_is_not_repeated(service: FaultyServer, status: str) -> None:
    service.faults = [status]
    with pytest.raises(LemmataError, match="tiny"):
        remote(service).encode(["a"])
    assert len(service.requests) == 1


def test_a_redirect_is_not_followed_with_the_key(service: FaultyServer) -> None:
    service.faults = ["redirect"]
    with pytest.raises(LemmataError, match="302"):
        remote(service, key=ApiKey("secret", (service.url,))).encode(["a"])
    assert service.keys == ["Bearer secret"]


@pytest.mark.parametrize("status", ["401", "403"])
def test_an_address_that_the_user_did_not_name_gets_no_key_and_its_refusal_tells_the_cure(
    service: FaultyServer, status: str
) -> None:
    service.faults = [status]
    with pytest.raises(LemmataError, match=f"OPENAI_BASE_URL={service.url}"):
        remote(service, key=ApiKey("secret", (OPENAI,))).encode(["a"])
    assert service.keys == [None]


def test_a_workspace_gives_the_key_to_addresses_of_the_user_only(
    service: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    project = make_workspace(tmp_path, {"a.md": "A text.\n"}, index=None)
    encoder = f"{service.url}#tiny"
    (project.root / "lemmata.toml").write_text(f'[index]\nencoder = "{encoder}"\n')
    Project(project.root).index()
    assert set(service.keys) == {None}

    service.keys.clear()
    lemmata("index", "--encoder", f"{service.url}#other", "-w", project.root)
    assert set(service.keys) == {"Bearer secret"}

    service.keys.clear()
    monkeypatch.setenv("OPENAI_BASE_URL", service.url)
    with Project(project.root).retriever() as retriever:
        retriever.search("another text", retriever="dense")
    assert set(service.keys) == {"Bearer secret"}


@pytest.mark.parametrize(
    ("named", "url", "sent"),
    [
        ("https://a.org/v1", "https://a.org/v2", True),
        ("https://a.org/v1", "https://A.org:443/v1#m", True),
        ("https://a.org/v1", "https://a.org:444/v1", False),
        ("https://a.org/v1", "http://a.org/v1", False),
        ("http://a.org/v1", "http://a.org/v1", False),
        ("https://a.org/v1", "https://b.org/v1", False),
        ("https://a.org/v1", "https://a.org@b.org/v1", False),
        ("https://a.org/v1", "https://b.org\\@a.org/v1", False),
        ("https://a.org/v1", "https://b.org#@a.org/v1", False),
        ("https://a.org/v1", "ftp://a.org/v1", False),
        ("http://localhost:8000/v1", "http://localhost:8000/v1", True),
        ("http://[::1]:8000", "http://[::1]:8000/v1", True),
        ("http://127.0.0.1.b.org/v1", "http://127.0.0.1.b.org/v1", False),
        ("", "https://b.org:port/v1", False),
    ],
)
def test_the_key_goes_to_the_same_host_over_https_or_to_this_machine(named: str, url: str, sent: bool) -> None:
    key = ApiKey("secret", (named,))
    assert key.secret_for(url) == ("secret" if sent else "")
    assert bool(key.why_withheld(url)) is not sent
    assert not NO_KEY.why_withheld(url)


def test_retry_after_may_be_a_date(service: FaultyServer) -> None:
    service.faults = ["retry Mon,_01_Jan_2001_00:00:00_GMT", "retry Fri,_01_Jan_2100_00:00:00_GMT"]
    with pytest.raises(LemmataError, match="tiny"):
        remote(service).encode(["a"])
    assert len(service.requests) == 2


def test_a_silent_service_is_timed_out(service: FaultyServer) -> None:
    service.faults = ["hang"]
    with pytest.raises(LemmataError, match=r"0\.3 s"):
        remote(service, retries=0, timeout=0.3).encode(["a"])


def test_an_address_without_a_service_is_an_error() -> None:
    with FaultyServer() as closed:
        address = closed.url
    with pytest.raises(LemmataError, match=rf"{address} .*tiny"):
        RemoteEncoder(Service(address, "tiny")).encode(["a"])


def test_batches_keep_to_texts_and_characters(service: FaultyServer) -> None:
    short, long = [f"text {number}" for number in range(66)], [letter * 30_000 for letter in "abcdefghi"]
    remote(service).encode([*short, *long])
    assert [len(batch) for batch in service.requests] == [64, 10, 1]
    assert {len(text) for text in service.requests[-1]} == {24_000}  # the longest text that is sent


def test_a_text_is_sent_once(service: FaultyServer, tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    first = remote(service, cache=cache).encode(["a", "bb", "a"])
    again = remote(service, cache=cache).encode(["bb", "a"])
    np.testing.assert_array_equal(again, first[[1, 0]])
    assert service.requests == [["a", "bb"]]
    remote(service, cache=cache).encode(["a"], role="query")
    remote(service, "other", cache=cache).encode(["a"])
    remote(service, cache=cache, dimension=2).encode(["a"])
    assert service.requests[1:] == [["a"]] * 3


def test_a_text_is_sent_to_each_of_two_services(service: FaultyServer, tmp_path: Path) -> None:
    with FaultyServer() as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        for each in (service, other, service):
            remote(each, cache=tmp_path / "cache.sqlite").encode(["a"])
        other.shutdown()
    assert service.requests == other.requests == [["a"]]


def test_vectors_from_before_a_failure_are_cached(service: FaultyServer, tmp_path: Path) -> None:
    encoder = remote(service, retries=0, cache=tmp_path / "cache.sqlite")
    texts = [f"text {number}" for number in range(65)]
    service.faults = ["", "500"]
    with pytest.raises(LemmataError):
        encoder.encode(texts)
    encoder.encode(texts)
    assert service.requests == [texts[:64], texts[64:], texts[64:]]


def test_an_estimate_sends_nothing(service: FaultyServer, tmp_path: Path) -> None:
    encoder = remote(service, cache=tmp_path / "cache.sqlite")
    encoder.encode(["known"])
    assert encoder.estimate(["known", "x" * 40, "y" * 4, ""]) == (11, 1, 1)
    assert encoder.estimate([f"{number:04}" for number in range(65)]) == (65, 2, 0)
    assert len(service.requests) == 1


def test_a_dimension_cuts_and_a_larger_one_is_an_error(service: FaultyServer) -> None:
    encoder = load_encoder(f"{service.url}#tiny", dimension=2)
    np.testing.assert_allclose(encoder.encode(["a"])[0], [0.5**0.5] * 2, atol=1e-6)
    assert encoder.name == "tiny@2"
    with pytest.raises(LemmataError, match=r"3.*4"):
        remote(service, dimension=4).encode(["a"])


def test_a_workspace_estimates_the_calls_of_a_remote_encoder(service: FaultyServer, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# One\n\nSome words.\n\n# Two\n\nOther words.\n", encoding="utf-8")
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "note.md"])
    settings = {"encoder": f"{service.url}#tiny"}
    estimate = project.estimate_index(settings=settings)
    assert estimate is not None
    assert estimate.calls >= 1
    assert estimate.cached == 0
    assert service.requests == []
    assert project.estimate_index(settings={"encoder": "hashing"}) is None
    project.index(settings=settings)
    again = project.estimate_index(settings=settings)
    assert again is not None
    assert again.calls == 0
