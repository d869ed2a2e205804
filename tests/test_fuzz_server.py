"""Hostile requests to a running server: an answer or the record of an error, never a status of 500, never a hang.

tests/test_server.py keeps the server to its OpenAPI document; here nothing is as the document says. `make fuzz` tries
new requests. What failed once stands below as a case of its own.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any
from urllib.parse import quote

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemmata.server.openapi import ENDPOINTS

PATHS = sorted({endpoint.path for endpoint in ENDPOINTS} | {"/", "/view/x", "/page/x", "/favicon.ico", "/nothing"})
NASTY = [
    *("\0", "../../etc/passwd", "%00", "%2e%2e%2f", "a" * 5000, "'; DROP TABLE passages; --", "\u202e", "🐘" * 400),
    *("a#sponge", "concept:comet", "location:K2", "-1", "NaN", "{}", "\\ud800", "*", "..", "//"),
]
texts = st.sampled_from(NASTY) | st.text(max_size=40)
numbers = st.integers() | st.floats() | st.sampled_from([10**400, -(2**63), 2**64])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "query k offset filter retriever paths facets html source target model input question messages prefix depth"
    " diversity stream"
).split()
bodies = st.binary(max_size=60) | st.dictionaries(st.sampled_from(FIELDS), values, max_size=6).map(
    lambda body: json.dumps(body).encode("utf-8", "surrogatepass")
)
header_values = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=30)
headers = st.dictionaries(
    st.sampled_from(["Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cookie", "Origin", "Range",
                     "If-None-Match", "X-Request-Id", "X-Forwarded-For", "Expect", "Referer"]),
    header_values, max_size=3,
)  # fmt: skip
types = st.sampled_from(
    ["application/json", "application/json; charset=utf-16", "text/plain", "", "multipart/form-data"]
)


def check(answer: httpx.Response) -> None:
    assert answer.status_code != 500, answer.text
    if answer.status_code >= 400:
        error: dict[str, str] = answer.json()["error"]
        assert error["code"]
        assert error["message"]
        assert error["cure"]


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]),
    st.sampled_from(PATHS),
    texts,
    st.dictionaries(st.sampled_from(FIELDS), texts, max_size=3),
    bodies,
    types,
    headers,
)
@settings(suppress_health_check=list(HealthCheck), max_examples=settings().max_examples // 2)
def test_a_hostile_request_is_answered_or_refused_with_a_record(
    client: httpx.Client,
    method: str,
    path: str,
    identity: str,
    parameters: dict[str, str],
    body: bytes,
    kind: str,
    more: dict[str, str],
) -> None:
    address = path.replace("{id}", quote(identity.encode("utf-8", "surrogatepass"), safe="") or "%20")
    sent = [(b"content-type", kind.encode())] + [
        (name.encode(), text.strip().encode("latin-1")) for name, text in more.items()
    ]
    query = {name: text.encode("utf-8", "replace").decode() for name, text in parameters.items()}
    check(client.request(method, address, params=query, content=body, headers=sent))


@given(st.lists(st.sampled_from([*"GET POST /search HTTP/1.1 \r\n \r\n\r\n : Host Content-Length: 99 -1".split(" "),
                                 "Transfer-Encoding: chunked\r\n\r\nzz\r\n"]).map(str.encode) | st.binary(max_size=20),
                max_size=12).map(b" ".join))  # fmt: skip
@settings(suppress_health_check=list(HealthCheck))
def test_bytes_that_are_no_request_do_not_hurt_the_server(client: httpx.Client, sent: bytes) -> None:
    place = (client.base_url.host, client.base_url.port or 80)
    with socket.create_connection(place, timeout=300) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(4096):
            answer += part
        assert b"HTTP/1.1 500" not in answer
    assert client.get("/health").status_code == 200


def test_a_range_that_makes_no_sense_gives_the_whole_page(client: httpx.Client) -> None:
    for asked in ("", "bytes=5-2", "bytes=x", "pages=1-2"):
        assert client.get("/", headers={"Range": asked}).text == client.get("/").text


def test_the_endpoints_are_those_of_the_document(client: httpx.Client) -> None:
    described: dict[str, Any] = client.get("/openapi.json").json()["paths"]
    assert {*described} <= {*PATHS}
