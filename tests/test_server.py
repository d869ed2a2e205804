"""The REST API over a real server on loopback: answers, errors, limits, security, rebuilt workspaces, clients."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.llm_server import Server as ChatServer
from tests.make import lemmata, make_workspace, wait_until, write
from tests.served import NOTES, SlowService, refused, serving, valid

from lemmata.core.errors import ConfigError, WorkspaceError
from lemmata.core.records import as_json
from lemmata.core.types import Document, Passage
from lemmata.core.workspace import Workspace
from lemmata.project import Project
from lemmata.search.names import RETRIEVERS
from lemmata.server.app import Limits
from lemmata.server.openapi import ENDPOINTS, document
from lemmata.server.opened import state_of
from lemmata.server.references import bibtex, latex_text
from lemmata.server.run import listen
from lemmata.server.security import Access, check_binding
from lemmata.server.service import Service

SPONGE = quote("a#sponge", safe="")


@pytest.fixture(scope="module")
def project(served: Project) -> Project:
    return served


def search(client: httpx.Client, query: str, **more: Any) -> Any:
    return valid(client.post("/search", json={"query": query, **more}), "/search")


# ---------------------------------------------------------------- answers


def test_search_gives_the_hits_of_the_command_line(client: httpx.Client, project: Project) -> None:
    found = search(client, "wet sponge", k=3)
    with project.retriever() as retriever:
        hits = retriever.search("wet sponge", 3)
    assert [(hit["id"], hit["rank"]) for hit in found["hits"]] == [(hit.id, rank) for rank, hit in enumerate(hits, 1)]
    assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit.score for hit in hits])
    assert found["hits"][0] | {"score": 0} == {
        "rank": 1,
        "id": "a#sponge",
        "score": 0,
        "kind": "lemma",
        "number": "1",
        "printed": "",
        "document": "a",
        "title": "Wet & <b>bold</b>",
        "text": "Every wet sponge absorbs $x^2 < y$ of a pump.",
        "path": [],
        "file": "a.tex",
        "line": 3,
        "last_line": 3,
        "date": "2021-03-04",
        "section": "",
        "location": [],
        "repeats": [],
        "cites": "",
        "confidence": None,
        "document_title": "Sponges",
    }
    assert found["generation"] == 1


def test_pages_of_hits_follow_each_other_without_a_gap(client: httpx.Client) -> None:
    everything = search(client, "wet pump", k=100)
    assert everything["next_offset"] is None
    offset, ids, ranks = 0, [], []
    while offset is not None:
        page = search(client, "wet pump", k=2, offset=offset)
        ids += [hit["id"] for hit in page["hits"]]
        ranks += [hit["rank"] for hit in page["hits"]]
        offset = page["next_offset"]
    assert ids == [hit["id"] for hit in everything["hits"]]
    assert ranks == list(range(1, len(ids) + 1))


def test_facets_filters_and_excerpts(client: httpx.Client) -> None:
    found = search(client, "wet", facets=True, html=True, retriever="lexical")
    kinds = {facet["value"]: facet["count"] for facet in found["facets"]["kinds"]}
    assert kinds == {"log": 2, "lemma": 1, "definition": 1}
    assert found["facets"]["locations"] == [
        {"value": "K2", "count": 2, "title": "Column"},  # with what is below it, as the filter has it
        {"value": "K2-P1", "count": 1, "title": "Pump"},
    ]
    assert {"value": "2024", "count": 2} in found["facets"]["years"]
    assert "<mark>wet</mark>" in found["hits"][0]["html"]
    assert {"value": "a", "count": 1, "title": "Sponges"} in found["facets"]["documents"]

    def ids(**only: Any) -> set[str]:
        hits = search(client, "wet", retriever="lexical", filter=only)["hits"]
        return {hit["id"] for hit in hits}

    assert ids(kinds=["log"]) == {"2", "4"}
    assert ids(locations=["K2-P1"]) == {"2"}
    assert ids(documents=["a"]) == {"a#sponge"}
    assert ids(since="2024-05-03") == {"2"}
    assert ids(ids=["4", "a#sponge", "no such"]) == {"4", "a#sponge"}
    error = refused(client.post("/search", json={"query": "wet", "filter": {"kinds": ["lema"]}}), 400, "refused")
    assert error["cure"] == "did you mean 'lemma'?"


def test_a_hit_comes_with_its_path_and_the_nodes_on_it(client: httpx.Client) -> None:
    found = search(client, "zebras graze", paths=True, k=5)
    steps = [step for hit in found["hits"] for step in hit["path"]]
    assert steps[0]["source"] == "query"
    assert {step["target"] for step in steps} <= found["nodes"].keys()
    assert found["nodes"]["a#zebra"]["kind"] == "theorem"


def test_an_entry_without_authors_is_sorted_by_its_title() -> None:
    entry = bibtex(Document(id="notes", title="On trees", kind="text"))
    assert "author" not in entry
    assert "  key = {On trees}" in entry
    assert "key = " not in bibtex(Document(id="notes", title="On trees", kind="text", authors=("Ada Wet",)))


def test_a_part_of_a_manual_is_called_by_its_heading_and_is_not_cited(tmp_path: Path) -> None:
    manual = "# Pump\n\n## Fault codes\n\n| Code | Text |\n|---|---|\n| F1 | Fan <b> stands |\n| F22 | Power fails |\n"
    files = {"manual.md": manual, "signed.md": f"---\nauthor: Ada Wet\n---\n{manual}"}
    service = Service(make_workspace(tmp_path, files, index="lexical").root)
    hit = service.search("fan", html=True, retriever="lexical")["hits"][0]
    assert (hit["title"], hit["name"]) == ("Fault codes", "Fault codes")
    assert "<tr><td>F1</td><td><mark>Fan</mark> &lt;b&gt; stands</td></tr>" in hit["html"]
    shown = service.passage("manual@1")
    assert (shown["name"], shown["latex"], shown["bibtex"]) == ("Fault codes", "", "")
    assert service.passage("signed@1")["bibtex"].startswith("@misc{signed,")
    service.close()


def test_a_passage_has_its_surroundings(client: httpx.Client) -> None:
    shown = valid(client.get("/passages/" + quote("a#middle", safe="")), "/passages/{id}")
    assert (shown["previous"]["id"], shown["next"]["id"], shown["place"]) == ("a#sponge", "a#zebra", 1)
    assert (shown["next"]["kind"], shown["next"]["number"]) == ("theorem", "1")
    assert [(other["id"], other["relation"]) for other in shown["uses"]] == [("a#zebra", "proof_uses")]
    assert [(other["id"], other["relation"]) for other in shown["used_by"]] == [("a#sponge", "proof_uses")]
    assert shown["document"]["authors"] == ["Ada Wet"]
    assert shown["latex"] == r"\cite[{Lemma 2}]{a}"
    assert shown["bibtex"].startswith("@misc{a,")
    assert "By Theorem" in shown["proof"]
    assert f"/view/passage/{quote('a#zebra', safe='')}" in shown["proof_html"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Let $x^2$ cost 5% of \\$3.", "Let $x^2$ cost 5\\% of \\$3."),
        (r"$a & = & b,\\ c&\le&d.$", r"$\begin{aligned}a & = b,\\ c&\le d.\end{aligned}$"),
        (r"$a&=b\\&=c$", r"$\begin{aligned}a&=b\\&=c\end{aligned}$"),
        (r"$\begin{cases}u&v\\w&=&x\end{cases}$ \& more", r"$\begin{cases}u&v\\w&=&x\end{cases}$ \& more"),
        (r"$\sum_{\substack{i\\j}} \{\&\}$", r"$\sum_{\substack{i\\j}} \{\&\}$"),
    ],
)
def test_the_latex_to_copy_has_formulas_of_several_lines_in_an_environment(text: str, expected: str) -> None:
    assert latex_text(Passage("a#1", "a", "lemma", text)) == expected
    assert latex_text(Passage("a#1", "a", "lemma", "A.", proof=text)) == f"A.\n\nProof. {expected}"


def test_a_log_has_those_of_its_location_before_and_after(client: httpx.Client) -> None:
    shown = valid(client.get("/passages/3"), "/passages/{id}")
    assert shown["location"] == ["K2-P1"]
    assert [place["id"] for place in shown["places"]] == ["location:K2", "location:K2-P1"]
    assert [other["id"] for other in shown["earlier"]] == ["1"]
    assert [other["id"] for other in shown["later"]] == ["2"]


def test_nothing_of_the_corpus_comes_as_markup(client: httpx.Client) -> None:
    shown = valid(client.get("/passages/" + quote("a#zebra", safe="")), "/passages/{id}")
    assert "<script" in shown["text"]
    assert "<script" not in shown["html"]
    hits = search(client, "zebras alert script", html=True)["hits"]
    assert not any("<script" in hit["html"] for hit in hits)


def test_similar_passages_do_not_contain_the_passage(client: httpx.Client) -> None:
    found = valid(client.post("/similar", json={"id": "a#sponge", "k": 2, "html": True}), "/similar")
    assert len(found["hits"]) == 2
    assert "a#sponge" not in {hit["id"] for hit in found["hits"]}
    request = {"id": "a#sponge", "k": 2, "retriever": "hybrid", "paths": True}
    with_paths = valid(client.post("/similar", json=request), "/similar")
    assert all(hit["path"] and hit["id"] in with_paths["nodes"] for hit in with_paths["hits"])
    assert client.post("/similar", json={**request, "retriever": "hybird"}).status_code == 400

    def similar(**only: Any) -> set[str]:
        found = client.post("/similar", json={"id": "a#sponge", "k": 9, "diversity": 0.5, "filter": only})
        return {hit["id"] for hit in valid(found, "/similar")["hits"]}

    assert similar(kinds=["theorem", "definition"]) == {"a#zebra", "b#comet"}
    assert similar(since="2024-05-03") == {"2"}
    assert similar(where={"location": "K2"}) == {"4"}
    refused(client.post("/similar", json={"id": "a#sponge", "filter": {"kinds": ["lema"]}}), 400, "refused")
    refused(client.post("/similar", json={"id": "no such"}), 404, "not_found")


def test_concepts_are_looked_up_and_described(client: httpx.Client) -> None:
    listed = valid(client.get("/concepts", params={"prefix": "COM"}), "/concepts")["concepts"]
    assert [concept["id"] for concept in listed] == ["concept:comet"]
    assert valid(client.get("/concepts?prefix=xyz"), "/concepts")["concepts"] == []
    shown = valid(client.get("/concepts/concept%3Acomet"), "/concepts/{id}")
    assert shown["definition"]["id"] == "b#comet"
    assert {passage["id"] for passage in shown["passages"]} == {"b#comet", "b#alone"}


def test_a_bridge_is_that_of_the_command_line_but_for_paths_over_documents(
    client: httpx.Client, project: Project
) -> None:
    body = {"source": "a#sponge", "target": "a#zebra", "k": 2}
    found = valid(client.post("/bridge", json=body), "/bridge")
    over_documents, along_links = as_json(project.bridge("a#sponge", "a#zebra", k=2))["paths"]
    assert [step["relation"] for step in over_documents["steps"]] == ["part_of", "^part_of"]
    assert [path["steps"] for path in found["paths"]] == [along_links["steps"]]
    assert found["nodes"]["a#middle"]["excerpt"] == "Sponges and zebras drink."
    refused(client.post("/bridge", json={"source": "a#sponge", "target": "a#sponge"}), 400, "refused")
    for name in ("concept:comet", "comet", " Comets "):  # an id, a name, and the same in another case and number
        found = valid(client.post("/bridge", json={**body, "source": name, "target": "b#alone"}), "/bridge")
        assert found["source"] == "concept:comet"
        assert found["nodes"]["concept:comet"]["title"] == "comet"
    refused(client.post("/bridge", json={"source": "a#nothing", "target": "a#sponge"}), 400, "refused")


def test_paths_of_a_named_encoder_have_their_nodes(client: httpx.Client) -> None:
    for retriever in ("geodesic", "geodesic:hashing"):
        found = search(client, "wet sponge", retriever=retriever)
        ends = {step[end] for hit in found["hits"] for step in hit["path"] for end in ("source", "target")}
        assert ends - {"query"} == {*found["nodes"]}


def test_the_graph_around_a_node_has_the_edges_between_its_nodes(client: httpx.Client) -> None:
    found = valid(client.get(f"/graph/{SPONGE}?limit=4"), "/graph/{id}")
    ids = [node["id"] for node in found["nodes"]]
    assert ids[0] == "a#sponge"
    assert len(ids) == 4
    distances = [node["distance"] for node in found["nodes"]]
    assert distances == sorted(distances)
    assert found["edges"]
    assert {edge[end] for edge in found["edges"] for end in ("source", "target")} <= {*ids}
    assert {("a#sponge", "a#middle", "proof_uses")} <= {
        (edge["source"], edge["target"], edge["relation"])
        for edge in valid(client.get(f"/graph/{SPONGE}"), "/graph/{id}")["edges"]
    }


def test_the_outline_lists_documents_and_their_passages(client: httpx.Client) -> None:
    first = valid(client.get("/outline?k=1"), "/outline")
    assert (first["documents"][0]["id"], first["documents"][0]["passages"], first["next_offset"]) == ("a", 3, 1)
    rest = valid(client.get("/outline?offset=1&k=1000"), "/outline")
    assert rest["next_offset"] is None
    assert len(rest["documents"]) == first["total"] - 1
    inside = valid(client.get("/outline?document=a"), "/outline")
    assert [passage["id"] for passage in inside["passages"]] == ["a#sponge", "a#middle", "a#zebra"]
    refused(client.get("/outline?document=zzz"), 404, "not_found")


def test_the_outline_of_a_location_has_its_logs_the_newest_first(client: httpx.Client) -> None:
    assert valid(client.get("/outline"), "/outline")["locations"] == [
        {"id": "location:K2-P1", "title": "Pump", "passages": 3}
    ]
    column = valid(client.get("/outline?document=location:K2"), "/outline")
    assert [(log["id"], log["location"]) for log in column["passages"]] == [
        ("2", ["K2-P1"]),
        ("4", ["K2"]),
        ("3", ["K2-P1"]),
        ("1", ["K2-P1"]),
    ]
    assert column["passages"][0]["excerpt"] == "The wet seal leaks"
    assert [place["id"] for place in column["parts"]] == ["location:K2-P1"]
    pump = valid(client.get("/outline?document=location:K2-P1&k=1"), "/outline")
    assert ([place["id"] for place in pump["above"]], pump["total"]) == (["location:K2"], 3)


def test_the_map_has_a_place_for_each_passage(client: httpx.Client, project: Project) -> None:
    shown = valid(client.get("/map"), "/map")
    numbers = {
        name: np.frombuffer(base64.b64decode(shown[name]), "<u2").tolist()
        for name in ("x", "y", "kind", "document", "category", "date")
    }
    assert {len(column) for column in numbers.values()} == {shown["points"]} == {9}
    rows = project.corpus.ids().index("a#zebra"), project.corpus.ids().index("1")
    assert [shown["names"]["kind"][numbers["kind"][row]] for row in rows] == ["theorem", "log"]
    assert shown["titles"]["document"][shown["names"]["document"].index("a")] == "Sponges"
    assert shown["names"]["date"][numbers["date"][rows[1]]] == "2024-05"
    ids = ["a#zebra", "location:K2-P1", "nobody"]
    places = valid(client.post("/map/places", json={"ids": ids}), "/map/places")["places"]
    zebra = {"x": numbers["x"][rows[0]], "y": numbers["y"][rows[0]], "row": rows[0]}
    assert (places["a#zebra"], {*places}) == (zebra, {*ids[:2]})
    assert places["location:K2-P1"]["row"] is None  # in the middle of its logs
    named = valid(client.get(f"/map/passages?rows={rows[1]},{rows[0]}"), "/map/passages")["passages"]
    assert [passage["id"] for passage in named] == ["1", "a#zebra"]
    assert "from 0 to 8" in refused(client.get("/map/passages?rows=1,99"), 404, "not_found")["cure"]
    for wrong in ("", "?rows=", "?rows=1,", "?rows=-1", "?rows=a"):
        refused(client.get(f"/map/passages{wrong}"), 422, "invalid")


def test_health_tells_what_is_served(client: httpx.Client) -> None:
    health = valid(client.get("/health"), "/health")
    assert (health["status"], health["passages"], health["encoders"]) == ("ok", 9, ["hashing"])
    assert health["kinds"]["log"] == 4


def test_metrics_count_requests_and_their_time(client: httpx.Client) -> None:
    search(client, "wet")
    text = client.get("/metrics").text
    count = re.search(r'lemmata_requests_total\{route="/search",method="POST",status="200"\} (\d+)', text)
    last = re.search(r'lemmata_request_seconds_bucket\{route="/search",le="\+Inf"\} (\d+)', text)
    assert count
    assert last
    assert int(last[1]) >= int(count[1]) >= 1
    assert re.search(r"^lemmata_generation 1$", text, re.MULTILINE)
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    described = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in names} == described


def test_the_page_and_its_files_are_served(client: httpx.Client) -> None:
    for path in ("/", "/view/passage/a%23sponge"):
        page = client.get(path)
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
    script = client.get("/page/retrievers.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert all(f'"{name}": ["{kind.title}", "' in script.text for name, kind in RETRIEVERS.items())


# ---------------------------------------------------------------- answers of a language model


def events(response: httpx.Response) -> list[tuple[str, Any]]:
    parts = [part.split("\n") for part in response.text.strip().split("\n\n") if not part.startswith(":")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


def test_ask_without_a_model_gives_the_passages_and_says_so(client: httpx.Client) -> None:
    response = client.post("/ask", json={"question": "which sponge is wet", "k": 2})
    assert response.headers["content-type"].startswith("text/event-stream")
    (first, passages), (last, error) = events(response)
    assert (first, last) == ("passages", "error")
    assert "a#sponge" in {passage["id"] for passage in passages["passages"]}
    assert error["code"] == "no_model"
    assert "[llm] of lemmata.toml; the server needs no restart" in error["cure"]
    assert "llm.url" not in error["cure"]


def test_ask_streams_what_the_model_writes_with_its_citations_checked(tmp_path: Path) -> None:
    model = ChatServer(tmp_path / "journal")
    try:
        model.script(streams=True, answer="A wet sponge absorbs $x^2$ of a pump [1]. Dogs <b>bark</b> [9].")
        project = make_workspace(tmp_path, {"a.tex": NOTES["a.tex"]})
        with project.config_file.open("a") as config:
            config.write(f'[llm]\nurl = "{model.url}"\nmodel = "tiny"\n')
        with serving(project.root) as client:
            assert valid(client.get("/health"), "/health")["model"] == "tiny"
            received = events(client.post("/ask", json={"question": "what does a wet sponge absorb", "k": 1}))
    finally:
        model.kill()
    names = [name for name, _ in received]
    assert (names[0], names[-1]) == ("passages", "done")
    assert "<mark>wet</mark>" in received[0][1]["passages"][0]["html"]
    written = "".join(data["text"] for name, data in received if name == "text")
    assert written == "A wet sponge absorbs $x^2$ of a pump [1]. Dogs <b>bark</b> [9]."
    first, second = (data for name, data in received if name == "sentence")
    assert first["citations"][0]["id"] == "a#sponge"
    assert "<math" in first["html"]
    assert "[1]" not in first["html"]
    assert second["flags"] == ["missing"]
    assert "<b>" not in second["html"]


class EndlessService(Service):
    """Answers without an end, and tells when it was stopped."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stopped = threading.Event()

    def ask(self, question: str, k: int | None = None) -> Generator[tuple[str, dict[str, Any]], None, None]:
        try:
            while True:
                time.sleep(0.01)
                yield "text", {"text": question * (k or 1)}
        finally:
            self.stopped.set()


def test_an_answer_ends_when_the_client_leaves(project: Project) -> None:
    service = EndlessService(project.root)
    with serving(project.root, service=service, limits=Limits(answers=1)) as client:
        with client.stream("POST", "/ask", json={"question": "é"}) as response:
            lines = response.iter_lines()
            assert [next(lines) for _ in range(3)] == ["event: text", 'data: {"text": "é"}', ""]
            refused(client.post("/ask", json={"question": "another"}), 503, "busy")
        assert service.stopped.wait()
        wait_until(lambda: "lemmata_answers_in_progress 0" in client.get("/metrics").text)


def test_an_answer_that_takes_too_long_ends_with_an_error(project: Project) -> None:
    service = EndlessService(project.root)
    late = Limits(answer_seconds=2)  # a busy machine begins late
    with serving(project.root, service=service, limits=late) as client:
        received = events(client.post("/ask", json={"question": "é"}))
        assert (received[0][0], received[-1][0], received[-1][1]["code"]) == ("text", "error", "timeout")
        assert service.stopped.wait()


def test_a_book_with_solutions_is_read_in_its_order(tmp_path: Path) -> None:
    prose = r"\section{{S}} Paragraph {} of a chapter, long enough to be a passage. " + "It has another sentence. " * 5
    exercise = (
        r"\begin{{exercise}}\label{{ex:{}}} Count the parts of {} boxes.\end{{exercise}}"
        r"\begin{{solution}} There are {}.\end{{solution}}"
    )
    lines = [part.format(*[number] * 3) for number in (1, 2, 3) for part in (prose, exercise)]
    source = "\n\n".join([r"\documentclass{book}\newtheorem{exercise}{Exercise}\begin{document}\chapter{One}", *lines])
    book = make_workspace(tmp_path, {"a.tex": source + r"\end{document}"})
    assert book.corpus.parts()  # solutions, which are rows of their own
    book.index(dense=False)
    with serving(book.root) as client:
        read = [passage["id"] for passage in client.get("/outline", params={"document": "a"}).json()["passages"]]
        assert read == ["a@1", "a#ex:1", "a@2", "a#ex:2", "a@3", "a#ex:3"]
        shown = [client.get(f"/passages/{quote(identity, safe='')}").json() for identity in read]
        assert [one["previous"] and one["previous"]["id"] for one in shown] == [None, *read[:-1]]
        assert [one["next"] and one["next"]["id"] for one in shown] == [*read[1:], None]
        assert [one["place"] for one in shown] == [*range(6)]


# ---------------------------------------------------------------- errors and limits


def test_every_error_has_a_code_and_a_cure(client: httpx.Client) -> None:
    post = client.post
    refused(client.get("/passages/nothing"), 404, "not_found")
    refused(client.get("/nothing"), 404, "not_found")
    refused(client.get("/search"), 405, "method")
    refused(post("/search", content=b"{", headers={"content-type": "application/json"}), 422, "invalid")
    refused(post("/search", content=b"\xff", headers={"content-type": "application/json"}), 422, "invalid")
    refused(post("/search", content=b"[" * 10**5, headers={"content-type": "application/json"}), 422, "invalid")
    refused(post("/search", content=b'{"query": "a"}', headers={"content-type": "text/plain"}), 415, "not_json")
    bodies: list[Any] = [
        {},
        [],
        {"query": 1},
        {"query": ""},
        {"query": "a" * 20_001},
        {"query": "a", "k": 0},
        {"query": "a", "k": 101},
        {"query": "a", "k": 10**4000},
        {"query": "a", "k": True},
        {"query": "a", "k": 1.5},
        {"query": "a", "offset": -1},
        {"query": "a", "unknown": 1},
        {"query": "a", "filter": {"kinds": "log"}},
        {"query": "a", "filter": {"where": {"a": 1}}},
        {"query": "a", "diversity": 2},
    ]
    for body in bodies:
        refused(post("/search", json=body), 422, "invalid")
    refused(
        post("/search", content=b'{"query": "\\ud800"}', headers={"content-type": "application/json"}), 422, "invalid"
    )
    refused(
        post("/search", content=b'{"query": "a", "diversity": NaN}', headers={"content-type": "application/json"}),
        422,
        "invalid",
    )
    refused(post("/search", json={"query": "  "}), 400, "refused")
    refused(post("/search", json={"query": "a", "retriever": "lexicl"}), 400, "refused")
    refused(post("/search", json={"query": "a", "filter": {"since": "yesterday"}}), 400, "refused")
    for retriever in ("auto+rerank20", "auto+rerank20:any"):
        error = refused(post("/search", json={"query": "a", "retriever": retriever}), 400, "refused")
        assert error["cure"] == "run 'lemmata train reranker'"
    error = refused(client.get("/v1/models/gpt"), 404, "not_found")
    assert (error["message"], error["cure"]) == (
        "there are no vectors of the model 'gpt' (there are: hashing)",
        "take one of these names",
    )
    error = refused(post("/v1/embeddings", json={"model": "hashing", "input": []}), 422, "invalid")
    assert (error["message"], error["cure"]) == ("input = [] is too small", "at least 1 items")
    refused(client.get(f"/graph/{SPONGE}?limit=many"), 422, "invalid")
    refused(client.get(f"/graph/{SPONGE}?no=1"), 422, "invalid")
    refused(client.get("/passages/" + "x" * 2001), 422, "invalid")
    assert search(client, "wet", k=2.0)["hits"]  # a whole number in JSON Schema


@pytest.mark.parametrize(
    "retriever",
    [
        "dense:lemmata-nano",
        "dense:/etc",
        "dense:http://127.0.0.1:9/v1#m",
        "auto:some/model",
        "auto+rerank:../x",
        "auto+rerank9999",
    ],
)
def test_no_name_makes_the_server_load_something(client: httpx.Client, retriever: str) -> None:
    refused(client.post("/search", json={"query": "a", "retriever": retriever}), 400, "refused")
    model = retriever.partition(":")[2] or "lemmata-nano"
    refused(client.post("/v1/embeddings", json={"input": "a", "model": model}), 404, "not_found")


def test_an_error_of_the_server_tells_nothing_to_the_client(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: Service, **_values: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(Service, "outline", fail)
    with serving(project.root) as opened:
        answer = opened.get("/outline")
    refused(answer, 500, "internal")
    assert "secret" not in answer.text


@pytest.mark.parametrize("size", [1 << 20, 1 << 23])
def test_a_body_that_is_too_large_is_refused(project: Project, size: int) -> None:
    with serving(project.root, limits=Limits(body=10_000)) as client:
        refused(client.post("/search", json={"query": "a" * 11_000}), 413, "too_large")
        pieces = (b"x" * 4096 for _ in range(size // 4096))
        with contextlib.suppress(httpx.WriteError):  # the server may close before all was sent
            refused(
                client.post("/search", content=pieces, headers={"content-type": "application/json"}), 413, "too_large"
            )
        assert search(client, "wet")["hits"]


def test_a_body_that_does_not_come_is_not_waited_for(project: Project) -> None:
    with serving(project.root, limits=Limits(seconds=0.3)) as client:
        host, port = client.base_url.host, client.base_url.port
        head = (
            f"POST /search HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{{"
        )
        with socket.create_connection((host, port)) as connection:
            connection.sendall(head.encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 408")


def test_more_requests_than_fit_are_told_to_come_back(project: Project) -> None:
    service = SlowService(project.root)
    with serving(project.root, service=service, limits=Limits(threads=1, waiting=1)) as client:
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(client.post("/search", json={"query": "wet"}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(statuses) >= 3)  # the other two are in the thread and in the queue
        response = client.post("/search", json={"query": "wet"})
        refused(response, 503, "busy")
        assert response.headers["retry-after"] == "1"
        assert "lemmata_requests_in_progress 2" in client.get("/metrics").text
        service.go.set()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 200, 503, 503, 503]
        assert search(client, "wet")["hits"]


def test_a_request_that_takes_too_long_is_answered_with_an_error(project: Project) -> None:
    service = SlowService(project.root)
    with serving(project.root, service=service, limits=Limits(threads=1, seconds=0.2)) as client:
        refused(client.post("/search", json={"query": "wet"}), 503, "timeout")
        service.go.set()
        assert search(client, "wet")["hits"]


def test_requests_have_ids(client: httpx.Client) -> None:
    assert client.get("/health", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    own = {
        client.get("/health", headers={"x-request-id": 'bad id, "quoted"'}).headers["x-request-id"] for _ in range(2)
    }
    assert len(own) == 2
    assert all(re.fullmatch(r"[0-9a-f]{16}", identity) for identity in own)
    assert client.get("/nothing").headers["x-request-id"]


# ---------------------------------------------------------------- security


def test_every_answer_has_the_headers_that_protect_the_page(client: httpx.Client) -> None:
    for path in ("/", "/page/nothing.js", "/health", "/nothing", "/passages/x"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
    assert client.get("/health").headers["cache-control"] == "no-store"


def test_a_name_that_another_host_points_here_is_refused(client: httpx.Client) -> None:
    port = client.base_url.port
    for host in ("evil.example", f"evil.example:{port}", "", "127.0.0.1.evil.example", "10.0.0.1", "[fe80::1]"):
        refused(client.get("/health", headers={"host": host}), 421, "unknown_host")
        refused(client.get("/", headers={"host": host}), 421, "unknown_host")
    for host in (f"localhost:{port}", "localhost", "127.0.0.1", f"[::1]:{port}"):
        assert client.get("/health", headers={"host": host}).status_code == 200


def test_a_page_of_another_origin_may_not_ask(client: httpx.Client, project: Project) -> None:
    own = str(client.base_url).rstrip("/")
    body = {"query": "wet"}
    assert client.post("/search", json=body, headers={"origin": own}).status_code == 200
    for origin in ("https://evil.example", "null", f"{own}.evil.example", "http://localhost:1"):
        refused(client.post("/search", json=body, headers={"origin": origin}), 403, "foreign_origin")
        refused(client.options("/search", headers={"origin": origin}), 403, "foreign_origin")
    for site in ("cross-site", "same-site"):  # an image or a link of a page: browsers name no origin
        refused(client.get("/outline", headers={"sec-fetch-site": site}), 403, "foreign_origin")
        assert client.get("/", headers={"sec-fetch-site": site}).status_code == 200
    for site in ("same-origin", "none"):
        assert client.get("/outline", headers={"sec-fetch-site": site}).status_code == 200
    friend = "https://friend.example"
    with serving(project.root, access=Access("127.0.0.1", origins=[friend], token="t" * 16)) as opened:
        given = {"authorization": f"Bearer {'t' * 16}"}
        refused(opened.post("/search", json=body, headers={"origin": friend}), 401, "unauthorized")
        answer = opened.post("/search", json=body, headers={"origin": friend, **given})
        assert answer.headers["access-control-allow-origin"] == friend
        preflight = {"origin": friend, "access-control-request-method": "POST"}
        allowed = opened.options("/search", headers=preflight)  # a browser sends it without the token
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (204, friend)
        for given_origin in ({}, {"origin": str(opened.base_url).rstrip("/")}):
            refused(opened.options("/search", headers=given_origin), 401, "unauthorized")
        foreign = {"origin": "https://evil.example", **given}
        refused(opened.post("/search", json=body, headers=foreign), 403, "foreign_origin")
        assert "access-control-allow-origin" not in opened.get("/health", headers=given).headers


def test_a_token_is_asked_of_everything_but_the_page(project: Project) -> None:
    token = "correct-horse-battery"
    with serving(project.root, access=Access("127.0.0.1", token=token)) as client:
        assert client.get("/").status_code == 200
        for path in ("/health", "/metrics", "/openapi.json", f"/passages/{SPONGE}", "/nothing", "/view"):
            response = client.get(path)
            refused(response, 401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
            for value in ("", token, f"Basic {token}", f"Bearer {token}x", f"Bearer {token[:-1]}", "Bearer \u00e9"):
                given = {"authorization": value.encode("utf-8")}
                refused(client.get(path, headers=given), 401, "unauthorized")  # type: ignore[arg-type]
        assert client.get("/health", headers={"authorization": f"Bearer {token}"}).status_code == 200


def test_an_address_that_others_reach_needs_a_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.5.5.5"):
        check_binding(host, "")
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.evil.example"):
        with pytest.raises(ConfigError, match="--token"):
            check_binding(host, "")
        with pytest.raises(ConfigError, match="16"):
            check_binding(host, "short")
        check_binding(host, "0123456789abcdef")


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py",
        "/page/..%2fapp.py",
        "/page/%2e%2e/app.py",
        "/page/..%5capp.py",
        "/page//etc/passwd",
        "/page/%2fetc%2fpasswd",
        "/page/index.html%00.js",
        "/page/",
        "/page/.",
        "/page/../__init__.py",
        "/page/../../evaluate/charts.css",  # of a kind that is served
    ],
)
def test_no_path_leads_out_of_the_page(client: httpx.Client, path: str) -> None:
    host, port = client.base_url.host, client.base_url.port
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((host, port)) as connection:
        connection.sendall(request.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404"), answer[:100]


@pytest.mark.parametrize(
    "identity", ["'; DROP TABLE passages; --", "%", "../../etc/passwd", "\0", "a#sponge\n", "é\u202e", "\ufffd"]
)
def test_hostile_ids_are_unknown_ids(client: httpx.Client, identity: str) -> None:
    for path in ("/passages/", "/concepts/", "/graph/"):
        refused(client.get(path + quote(identity, safe="")), 404, "not_found")
    refused(client.get("/passages/%ff%fe"), 404, "not_found")
    assert search(client, identity.strip() or "x")["query"] == (identity.strip() or "x")


# ---------------------------------------------------------------- a rebuilt workspace


def test_a_rebuilt_workspace_is_taken_over_without_a_failed_request(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, {"a.tex": NOTES["a.tex"]})
    with serving(project.root, watch=0.05) as client:
        statuses: list[int] = []
        stopped = threading.Event()

        def ask() -> None:
            while not stopped.is_set():
                statuses.append(client.post("/search", json={"query": "wet sponge"}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        refused(client.get("/passages/b%23alone"), 404, "not_found")
        (tmp_path / "source" / "b.tex").write_text(NOTES["b.tex"])
        project.ingest([tmp_path / "source" / "b.tex"])
        wait_until(lambda: valid(client.get("/health"), "/health")["problems"])
        assert client.get("/health").json()["generation"] == 1  # a corpus without its index is not taken over
        project.index()
        wait_until(lambda: client.get("/passages/b%23alone").status_code == 200)
        found = search(client, "comet orbits")
        assert found["generation"] in (2, 3)  # 3 where a slow machine saw the index before what belongs to it
        assert found["hits"][0]["id"] == "b#alone"
        stopped.set()
        for thread in threads:
            thread.join()
        assert set(statuses) == {200}


@pytest.mark.parametrize("order", [("index", "build_graph", "map"), ("build_graph", "index", "map")])
def test_everything_is_served_until_the_next_state_of_everything_is_complete(
    tmp_path: Path, order: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_workspace(tmp_path, {"a.tex": NOTES["a.tex"]}, graph=True)
    project.map()
    with serving(project.root) as client, contextlib.closing(Service(project.root)) as service:
        (tmp_path / "source" / "b.tex").write_text(NOTES["b.tex"])
        project.ingest([tmp_path / "source" / "b.tex"])
        for verb in order:
            assert not service.refresh()
            assert not service.refresh()  # settled
            for path in (f"/graph/{SPONGE}", "/map", "/concepts"):
                assert client.get(path).status_code == 200
            getattr(project, verb)()
        assert not service.refresh()
        assert service.refresh()
        project.ingest([tmp_path / "source" / "a.tex"], again=True)
        (tmp_path / "source" / "b.tex").unlink()
        project.remove([tmp_path / "source" / "b.tex"])
        project.index()
        assert not service.refresh()
        assert not service.refresh()
        monkeypatch.setattr("lemmata.server.service._PATIENCE", 0.0)  # nobody builds the graph and the map again
        assert service.refresh()


def test_an_index_with_other_options_is_served_soon_although_the_map_is_that_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_workspace(tmp_path, {"a.tex": NOTES["a.tex"]}, graph=True)
    project.map()
    with contextlib.closing(Service(project.root)) as service:
        project.index(settings={"encoder": "hashing", "dimension": 64})
        assert not service.refresh()
        assert not service.refresh()  # the map may follow
        monkeypatch.setattr("lemmata.server.service._SHORT_PATIENCE", 0.0)
        with project.hold():  # a command is making it
            assert not service.refresh()
        assert service.refresh()


def test_the_old_state_is_closed_when_its_last_request_is_done(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, {"a.tex": NOTES["a.tex"]})
    service = Service(project.root)
    with service.opened() as old:
        project.build_graph()
        while not service.refresh():
            pass
        assert service.generation == 2
        assert old.retriever.search("wet", 1)  # still open
    with pytest.raises(Exception, match="closed"):
        len(old.retriever.corpus.ids())
    assert not service.refresh()
    service.close()


def test_an_old_state_is_not_in_memory_any_more_when_it_is_replaced(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, {"a.tex": NOTES["a.tex"]})
    service = Service(project.root)
    service.search("wet", facets=True, html=True)
    service.outline(service.outline()["documents"][0]["id"])
    with service.opened() as opened:
        parts = [weakref.ref(part) for part in (opened, opened.retriever, opened.retriever.corpus)]
    del opened
    gc.disable()  # it may come late: for a few large objects it does not come at all
    try:
        project.glossary.write_text("wet, damp\n")
        while not service.refresh():
            pass
        assert [part() for part in parts] == [None] * 3
    finally:
        gc.enable()
        service.close()


# ---------------------------------------------------------------- clients


@contextlib.contextmanager
def served_by_command(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`lemmata serve` as a process, and its address."""
    command = [sys.executable, "-m", "lemmata", "serve", "-w", str(folder), "--port", "0", *options]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            address = re.match(r"(http://\S+)", line)
            assert address, line + process.stderr.read()
            yield process, address[1]
        finally:
            process.kill()


def test_the_official_openai_client_gets_vectors_from_the_command(project: Project) -> None:
    import openai

    with served_by_command(project.root, "--token", "correct-horse-battery") as (process, address):
        with openai.OpenAI(base_url=f"{address}/v1", api_key="correct-horse-battery", max_retries=0) as client:
            assert [model.id for model in client.models.list()] == ["hashing"]
            assert client.models.retrieve("hashing").id == "hashing"
            with pytest.raises(openai.NotFoundError, match="gpt"):
                client.models.retrieve("gpt")
            texts = ["a wet sponge", "zebras graze"]
            coded = client.embeddings.create(model="hashing", input=texts)  # the client asks for base64
            plain = client.embeddings.create(model="hashing", input=texts, encoding_format="float")
            cut = client.embeddings.create(model="hashing", input=texts[0], dimensions=8)
            with project.retriever() as retriever:
                expected = retriever.encoder.encode(texts)
            for answer in (coded, plain):
                np.testing.assert_allclose([item.embedding for item in answer.data], expected, atol=1e-6)
            assert len(cut.data[0].embedding) == 8
            with pytest.raises(openai.NotFoundError, match="gpt"):
                client.embeddings.create(model="gpt", input="a")
            with pytest.raises(openai.UnprocessableEntityError):
                client.embeddings.create(model="hashing", input=[])
        with (
            openai.OpenAI(base_url=f"{address}/v1", api_key="wrong", max_retries=0) as stranger,
            pytest.raises(openai.AuthenticationError),
        ):
            stranger.models.list()
        process.send_signal(signal.SIGTERM)
        assert process.wait() in (0, -signal.SIGTERM)


def test_small_answers_are_sent_at_once() -> None:
    """Without TCP_NODELAY the body of an answer waits for the acknowledgement of its head: 40 ms."""

    async def sends_at_once() -> bool:
        accepted = asyncio.get_running_loop().create_future()

        def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            accepted.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0)
            writer.close()

        async with await asyncio.start_server(connected, sock=listen("127.0.0.1", 0)) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.close()
            return bool(await accepted)

    assert asyncio.run(sends_at_once())


def test_the_command_says_in_one_sentence_why_it_cannot_serve(project: Project, tmp_path: Path) -> None:
    root = project.root
    with pytest.raises(WorkspaceError, match=tmp_path.name):
        Service(tmp_path)
    fresh = Project.init(tmp_path / "fresh")
    with pytest.raises(WorkspaceError, match="lemmata ingest"):
        Service(fresh.root)
    listening = listen("127.0.0.1", 0)
    listening.listen()
    with contextlib.closing(listening), pytest.raises(ConfigError, match="--port"):
        listen("127.0.0.1", listening.getsockname()[1])
    assert "--token" in lemmata("serve", "-w", root, "--host", "0.0.0.0", code=1)


def test_the_address_that_is_printed_can_be_opened(project: Project) -> None:
    options = ("--host", "0.0.0.0", "--token", "correct-horse-battery", "--name", "plant-pc")
    with served_by_command(project.root, *options) as (_, address):
        assert "0.0.0.0" not in address
        with httpx.Client(base_url=address, timeout=300) as client:
            assert client.get("/").status_code == 200
            assert client.get("/", headers={"host": "plant-pc:80"}).status_code == 200
            assert "--name" in refused(client.get("/", headers={"host": "other"}), 421, "unknown_host")["cure"]


def test_stopping_the_server_lets_a_request_finish(project: Project) -> None:
    service = SlowService(project.root)
    statuses: list[int] = []
    with serving(project.root, service=service) as client:
        address = client.base_url.join("/search")
        thread = threading.Thread(
            target=lambda: statuses.append(httpx.post(address, json={"query": "wet"}, timeout=300).status_code)
        )
        thread.start()
        wait_until(lambda: "lemmata_requests_in_progress 1" in client.get("/metrics").text)
        threading.Timer(0.3, service.go.set).start()
        # leaving the block stops the server
    thread.join()
    assert statuses == [200]


# ---------------------------------------------------------------- the document


def test_the_document_has_every_endpoint_once(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    operations = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    assert sorted(operations) == sorted((endpoint.method, endpoint.path) for endpoint in ENDPOINTS)
    names = [endpoint.name for endpoint in ENDPOINTS]
    assert len({*names}) == len(names)


described = schemathesis.openapi.from_dict(document())


@pytest.mark.slow
@described.parametrize()
@settings(
    max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
def test_the_server_keeps_to_its_document(case: Any, client: httpx.Client) -> None:
    response = case.call(base_url=str(client.base_url), timeout=300)
    # a schema cannot say that a name must be known or that two ends must differ: that is refused with 400
    case.validate_response(response, excluded_checks=[positive_data_acceptance])
    if response.status_code == 422:
        assert case.meta is None or not case.meta.generation.mode.is_positive


def test_a_look_at_a_workspace_survives_folders_that_are_replaced_meanwhile(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    write(tmp_path, {f"index/dense/{name}/part/manifest.json": "{}" for name in range(40)})
    stopped = threading.Event()

    def replace() -> None:
        while not stopped.is_set():
            for name in range(40):
                folder = tmp_path / f"index/dense/{name}"
                folder.rename(tmp_path / "moved")
                (tmp_path / "moved").rename(folder)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(60):
            assert len(state_of(layout)) <= 40
    finally:
        stopped.set()
        thread.join()
    assert len(state_of(layout)) == 40
