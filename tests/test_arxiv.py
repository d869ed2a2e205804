"""Sources of arXiv, from a local server that speaks its API and its formats, and fails as real ones do."""

from __future__ import annotations

import contextlib
import gzip
import json
import multiprocessing
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import lemmata, tar, wait_until

from lemmata.core.errors import InputError
from lemmata.core.http import CallError
from lemmata.ingest import arxiv
from lemmata.ingest.arxiv import fetch_arxiv
from lemmata.project import Project

PAPER = r"\documentclass{article}\begin{document}Every tree has a leaf. We prove it here.\end{document}"
LONG = "% " + "0123456789abcdef" * 20_000  # does not fit into one packet
SOURCES = {
    "2610.00001": tar({"main.tex": PAPER, "notes.txt": LONG}),
    "2610.00002": gzip.compress(PAPER.encode()),
    "2610.00003": b"%PDF-1.5\n...",
    "2610.00004": gzip.compress(b"%auto-ignore\nThis paper has been withdrawn."),
    "math/0211159": tar({"paper.tex": PAPER}),
}


class Arxiv(ThreadingHTTPServer):
    """Knows some papers, in pages of two; `faults` are answers that it gives before the right ones."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.versions = dict.fromkeys(SOURCES, 1)
        self.asked: list[tuple[str, str, str]] = []  # path, agent, range
        self.times: list[float] = []
        self.faults: list[Any] = []  # (status, headers), or "cut"
        self.page = 2
        self.place = "/src/"  # of packages

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def feed(self, query: dict[str, str]) -> bytes:
        if "id_list" in query:
            names = [name.partition("v")[0] for name in query["id_list"].split(",")]
            papers = [name for name in names if name in SOURCES]
            total = len(papers)
        else:
            start = int(query["start"])
            every = sorted(SOURCES)
            papers, total = every[start : start + self.page], len(every)
        entries = "".join(
            f"<entry><id>http://arxiv.org/abs/{name}v{self.versions[name]}</id><title>On  the\n paper {name}</title>"
            f"<published>2026-10-0{number}T00:00:00Z</published><summary>About leaves &amp; trees.</summary>"
            "<author><name>Ada Lovelace</name></author><author><name>Emmy Noether</name></author>"
            '<category term="math.CO"/><category term="cs.DM"/></entry>'
            for number, name in enumerate(papers, 1)
        )
        head = '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:o="http://a9.com/-/spec/opensearch/1.1/">'
        return f"{head}<o:totalResults>{total}</o:totalResults>{entries}</feed>".encode()


class Handler(BaseHTTPRequestHandler):
    server: Arxiv

    def do_GET(self) -> None:
        server = self.server
        server.times.append(time.monotonic())
        part = self.headers.get("Range", "")
        server.asked.append((self.path, self.headers["User-Agent"], part))
        fault = server.faults.pop(0) if server.faults else None
        path, _, query = self.path.partition("?")
        if isinstance(fault, tuple):
            self.answer(b"busy", *fault)
        elif path == "/api/query":
            self.answer(server.feed(dict(urllib.parse.parse_qsl(query))), 200, {})
        elif path.startswith("/e-print/") and server.place == "/src/":
            self.answer(b"", 301, {"Location": path.replace("/e-print/", "/src/")})
        elif data := SOURCES.get(urllib.parse.unquote(path).removeprefix(server.place).partition("v")[0]):
            begin = int(part.removeprefix("bytes=").removesuffix("-") or 0)
            if begin >= len(data):
                self.answer(b"", 416, {})
            else:
                length = {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"} if begin else {}
                self.answer(data[begin:], 206 if begin else 200, length, cut=fault == "cut")
        else:
            self.answer(b"no such paper", 404, {})

    def answer(self, body: bytes, status: int, headers: dict[str, str], *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = cut

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Arxiv]:
    with Arxiv() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def records(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "metadata.jsonl").read_text().splitlines()
    return {record["id"]: record for record in map(json.loads, lines)}


def fetch(server: Arxiv, folder: Path, *ids: str, **options: Any) -> arxiv.Fetched:
    return fetch_arxiv(folder, ids, url=server.url, **{"pause": 0.0, **options})


# ---------------------------------------------------------------- what is fetched


def test_papers_are_fetched_by_id_and_ingested_with_their_metadata(server: Arxiv, tmp_path: Path) -> None:
    report = fetch(server, tmp_path / "a", "arXiv:2610.00001v1", "https://arxiv.org/abs/2610.00002", "math.GT/0211159")
    assert report.fetched == ["2610.00001v1.tar.gz", "2610.00002v1.gz", "math0211159v1.tar.gz"]
    assert (tmp_path / "a" / "2610.00001v1.tar.gz").read_bytes() == SOURCES["2610.00001"]
    record = records(tmp_path / "a")["2610.00001"]
    assert (record["version"], record["file"], len(record["sha256"])) == (1, "2610.00001v1.tar.gz", 64)
    project = Project.init(tmp_path / "w")
    assert project.ingest([tmp_path / "a"]).failed == 0
    with contextlib.closing(project.corpus) as corpus:
        paper = corpus.document("2610.00001")
        assert (paper.title, paper.authors) == ("On the paper 2610.00001", ("Ada Lovelace", "Emmy Noether"))
        assert (paper.date, paper.categories) == ("2026-10-01", ("math.CO", "cs.DM"))
        assert {document.id for document in corpus.documents()} == {"2610.00001", "2610.00002", "math/0211159"}
        assert "About leaves & trees." in [passage.text for passage in corpus if passage.kind == "abstract"]


def test_a_month_of_a_category_is_fetched_page_by_page_and_what_has_no_latex_is_a_note(
    server: Arxiv, tmp_path: Path
) -> None:
    report = fetch(server, tmp_path / "a", category="math.CO", month="2026-10")
    assert len(report.fetched) == 3
    assert report.notes.keys() == {"2610.00003", "2610.00004"}
    assert "PDF" in report.notes["2610.00003"]
    assert "withdrawn" in report.notes["2610.00004"]
    lists = [urllib.parse.unquote_plus(path) for path, *_ in server.asked if path.startswith("/api")]
    assert len(lists) == 3
    assert "cat:math.CO AND submittedDate:[202610010000 TO 202610312359]" in lists[0]
    assert not list((tmp_path / "a").glob(".*"))


def test_what_is_there_is_not_fetched_again_unless_it_is_damaged_or_has_a_newer_version(
    server: Arxiv, tmp_path: Path
) -> None:
    ids = ("2610.00001", "2610.00003")
    fetch(server, tmp_path, *ids)
    server.asked.clear()
    report = fetch(server, tmp_path, *ids)
    assert (report.present, report.fetched, len(report.notes), len(server.asked)) == (1, [], 1, 1)
    (tmp_path / "2610.00001v1.tar.gz").write_bytes(b"damaged")
    assert fetch(server, tmp_path, *ids).fetched == ["2610.00001v1.tar.gz"]
    server.versions["2610.00001"] = 2
    assert fetch(server, tmp_path, *ids).fetched == ["2610.00001v2.tar.gz"]
    assert [path.name for path in tmp_path.glob("*.tar.gz")] == ["2610.00001v2.tar.gz"]
    assert fetch(server, tmp_path, "2610.09999").notes == {"2610.09999": "arXiv does not know it"}


# ---------------------------------------------------------------- politeness and failures


@pytest.mark.slow
def test_the_command_says_who_asks_and_leaves_three_seconds_between_requests(server: Arxiv, tmp_path: Path) -> None:
    options = ("--to", tmp_path / "a", "--url", server.url, "--contact", "mailto:a@b.org", "--json")
    report = json.loads(lemmata("fetch", "arxiv", "2610.00002", *options))
    assert (report["fetched"], report["present"], report["notes"]) == (["2610.00002v1.gz"], 0, {})
    assert server.times[1] - server.times[0] >= 2.99
    assert all(agent.startswith("lemmata/") and "(+mailto:a@b.org)" in agent for _, agent, _ in server.asked)


def test_requests_are_apart_and_retry_after_is_honoured(server: Arxiv, tmp_path: Path) -> None:
    server.faults = [(503, {"Retry-After": "1"}), (429, {}), None]
    assert fetch(server, tmp_path, "2610.00002", pause=0.2).fetched == ["2610.00002v1.gz"]
    gaps = [second - first for first, second in zip(server.times, server.times[1:], strict=False)]
    assert gaps[0] >= 0.99
    assert all(gap >= 0.19 for gap in gaps)
    server.faults = [(503, {"Retry-After": "86400"})]
    with pytest.raises(CallError, match="86400"):
        fetch(server, tmp_path, "2610.00001")


def test_a_cut_package_is_continued_where_it_broke_off(server: Arxiv, tmp_path: Path) -> None:
    server.faults = [None, "cut"]  # the list, then the package
    assert fetch(server, tmp_path, "2610.00001").fetched == ["2610.00001v1.tar.gz"]
    assert (tmp_path / "2610.00001v1.tar.gz").read_bytes() == SOURCES["2610.00001"]
    half = len(SOURCES["2610.00001"]) // 2
    assert [part for path, _, part in server.asked if path.startswith("/src/")] == ["", f"bytes={half}-"]


def test_a_killed_run_goes_on(server: Arxiv, tmp_path: Path) -> None:
    fetch(server, tmp_path, "2610.00002")
    process = multiprocessing.get_context("spawn").Process(
        target=fetch_arxiv, args=(tmp_path, ["2610.00002", "2610.00001"]), kwargs={"url": server.url, "pause": 30.0}
    )
    process.start()  # waits for its turn after the list
    wait_until(lambda: len(server.asked) >= 3)
    process.kill()
    process.join()
    (tmp_path / ".2610.00001v1.partial").write_bytes(SOURCES["2610.00001"][:100])
    report = fetch(server, tmp_path, "2610.00002", "2610.00001")
    assert (report.present, report.fetched) == (1, ["2610.00001v1.tar.gz"])
    assert (tmp_path / "2610.00001v1.tar.gz").read_bytes() == SOURCES["2610.00001"]
    assert server.asked[-1][2] == "bytes=100-"
    (tmp_path / ".2610.00001v2.partial").write_bytes(SOURCES["2610.00001"] + b"more")  # longer than the package
    server.versions["2610.00001"] = 2
    assert fetch(server, tmp_path, "2610.00001").fetched == ["2610.00001v2.tar.gz"]


def test_a_mirror_may_have_packages_as_e_prints_or_redirect_on_its_own_host(server: Arxiv, tmp_path: Path) -> None:
    server.place = "/e-print/"
    assert len(fetch(server, tmp_path / "a", "2610.00001", "2610.00002").fetched) == 2
    assert [path.partition("/26")[0] for path, *_ in server.asked[1:]] == ["/src", "/e-print", "/e-print"]
    for address, works in ((server.url, True), ("http://localhost:1", False)):
        server.place = "/src/"
        server.faults = [None, (302, {"Location": f"{address}/src/2610.00002v1"})]
        with contextlib.nullcontext() if works else pytest.raises(CallError):
            fetch(server, tmp_path / str(works), "2610.00002")


def test_what_fails_again_and_again_stops_and_keeps_what_was_fetched(server: Arxiv, tmp_path: Path) -> None:
    server.faults = [None, None, *[(500, {})] * 9]
    with pytest.raises(CallError, match="500"):
        fetch(server, tmp_path, "2610.00002", "2610.00001")
    assert list(records(tmp_path)) == ["2610.00002"]


@pytest.mark.parametrize(
    ("ids", "options", "value"),
    [
        (["2610.00001", "hello"], {}, "hello"),
        ([], {}, "category"),
        (["2610.00001"], {"category": "math.CO", "month": "2026-10"}, "category"),
        ([], {"category": "math.CO", "month": "October"}, "October"),
        ([], {"category": "math CO", "month": "2026-10"}, "math CO"),
        (["2610.00001"], {"url": "file:///etc"}, "file:///etc"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_asked(
    tmp_path: Path, ids: list[str], options: dict[str, Any], value: str
) -> None:
    with pytest.raises(InputError, match=value):
        fetch_arxiv(tmp_path / "a", ids, **{"url": "http://127.0.0.1:9", **options})
    assert not (tmp_path / "a").exists()


@given(st.binary())
def test_no_answer_of_a_server_is_a_crash(data: bytes) -> None:
    for feed in (data, b"<feed>" + data + b"</feed>"):
        with contextlib.suppress(CallError):
            arxiv._read_feed(feed)


def test_a_list_with_entities_is_refused() -> None:
    with pytest.raises(CallError):
        arxiv._read_feed(b'<!DOCTYPE x [<!ENTITY a "aaaa">]><feed>&a;</feed>')
