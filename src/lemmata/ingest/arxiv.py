"""Source packages of arXiv into a folder that `lemmata ingest` reads, politely: `lemmata fetch arxiv`.

One request every three seconds, by one client that says who asks. `metadata.jsonl` in the folder says what was fetched
and gives ingest the titles, authors, dates, categories and abstracts; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import calendar
import contextlib
import functools
import json
import re
import time
import urllib.parse
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

from lemmata.core.archives import sniff
from lemmata.core.errors import InputError
from lemmata.core.files import explain_failed_write, json_object, remove, sha256_of, write_atomically
from lemmata.core.http import CallError, Service
from lemmata.core.types import Progress
from lemmata.core.workspace import silent

URL = "https://export.arxiv.org"
PAUSE = 3.0  # seconds between two requests, as arXiv asks
METADATA = "metadata.jsonl"  # where `ingest` looks for it
_PAGE = 100  # papers of one answer
_MOST = 30_000  # papers of one query, as arXiv has it
_LARGEST_PAGE = 32 * 2**20
_LARGEST_PACKAGE = 512 * 2**20
_SECONDS = 300.0  # for one answer; a package that takes longer is continued
_NO_SOURCE = (400, 403, 404, 410)  # what arXiv answers where a paper has no source
_ID = r"(?:\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})"
_WRITTEN_ID = re.compile(rf"(?:arxiv:|https?://[^/\s]+/(?:abs|pdf|src|e-print)/)?({_ID})(?:v(\d+))?(?:\.pdf)?/?", re.I)
_ENTRY_ID = re.compile(rf".*/abs/({_ID})v(\d+)", re.I)
_ATOM = "{http://www.w3.org/2005/Atom}"
_OF_ARXIV = "{http://arxiv.org/schemas/atom}"
_SEARCH = "{http://a9.com/-/spec/opensearch/1.1/}"
Result = TypeVar("Result")


@dataclass(slots=True)
class Fetched:
    """What a fetch did."""

    folder: str
    fetched: list[str] = field(default_factory=list)  # files
    present: int = 0  # packages that were there already
    notes: dict[str, str] = field(default_factory=dict)  # id: why there is no package


def fetch_arxiv(
    folder: Path,
    ids: Sequence[str] = (),
    *,
    category: str = "",
    month: str = "",
    url: str = URL,
    contact: str = "",
    pause: float = PAUSE,
    progress: Progress = silent,
) -> Fetched:
    """Fetch the sources of some papers, or of those of a `category` first submitted in a `month` (YYYY-MM).

    An id may name its version; without one it is the newest. Packages that are there are not fetched again, and a newer
    version replaces an older one. Withdrawn papers and those without LaTeX are notes. Raises InputError for what is no
    id, category or month, and CallError where arXiv fails again and again; what was fetched before stays.
    """
    wanted = _wanted(ids)
    if bool(wanted) == bool(category or month):
        raise InputError("name the papers by their ids, or by --category and --month")
    query = "" if wanted else _query(category, month)
    client = _Client(url, contact, pause)
    store = _Store(folder)
    report = Fetched(str(folder))
    papers = list(client.listed(wanted) if wanted else client.found(query))
    known = {paper["id"]: paper for paper in papers}
    report.notes = {identity: "arXiv does not know it" for identity in wanted if identity not in known}
    for number, paper in enumerate(papers):
        progress("fetching", number, len(papers))
        if store.has(paper):
            record = store.records[paper["id"]]
            report.present += bool(record["file"])
        else:
            record = store.add(paper, client.download)
            report.fetched += [record["file"]] if record["file"] else []
        if record.get("note"):
            report.notes[paper["id"]] = record["note"]
    progress("fetching", len(papers), len(papers))
    return report


def _wanted(ids: Sequence[str]) -> dict[str, int]:
    """The version of each id, 0 for the newest; InputError lists what is no id."""
    matches = {text: _WRITTEN_ID.fullmatch(text.strip()) for text in ids}
    wrong = [repr(text) for text, match in matches.items() if match is None]
    if wrong:
        raise InputError(
            f"no id of arXiv: {', '.join(wrong[:10])}; ids look like 2004.14974, 2004.14974v2, math/0211159"
        )
    # arXiv itself leaves out the class of an old id: math.GT/0309136 is math/0309136
    return {re.sub(r"\.\w\w/", "/", match[1]): int(match[2] or 0) for match in matches.values() if match}


def _query(category: str, month: str) -> str:
    """The query of arXiv's API for a category and a month."""
    if not re.fullmatch(r"[a-z-]+(?:\.[A-Za-z-]+)?", category):
        raise InputError(f"--category {category!r} is no category of arXiv: write math.CO or hep-th")
    match = re.fullmatch(r"(\d{4})-(\d\d)", month)
    if match is None or not 1 <= int(match[2]) <= 12 or int(match[1]) < 1991:
        raise InputError(f"--month {month!r} is no month: write YYYY-MM")
    days = calendar.monthrange(int(match[1]), int(match[2]))[1]
    first = f"{match[1]}{match[2]}"
    return f"cat:{category} AND submittedDate:[{first}010000 TO {first}{days}2359]"


# ---------------------------------------------------------------- the service


class _Client:
    """arXiv, or a mirror with the same interface, asked at most once in `pause` seconds."""

    def __init__(self, url: str, contact: str, pause: float) -> None:
        if not re.match(r"https?://[^/]", url):
            raise InputError(f"--url {url!r} is no address: write https://HOST")
        agent = f"lemmata/{version('lemmata')}" + (f" (+{contact})" if contact else "")
        self._service = Service(url, "arXiv", timeout=_SECONDS, agent=agent, back_off=max(pause, 0.01))
        self._pause, self._next = pause, 0.0
        self._place = "src"  # of packages

    def listed(self, wanted: dict[str, int]) -> Iterator[dict[str, Any]]:
        """The papers of some ids."""
        names = [f"{identity}v{number}" if number else identity for identity, number in wanted.items()]
        for start in range(0, len(names), _PAGE):
            part = names[start : start + _PAGE]
            _, papers = self._page({"id_list": ",".join(part), "max_results": len(part)})
            yield from papers

    def found(self, query: str) -> Iterator[dict[str, Any]]:
        """The papers of a query, page by page."""
        start, total = 0, 1
        while start < total:
            order = {"sortBy": "submittedDate", "sortOrder": "ascending"}
            total, papers = self._page({"search_query": query, "start": start, "max_results": _PAGE, **order})
            if total > _MOST:
                raise CallError(f"{total:,} papers are more than arXiv lists ({_MOST:,}): name a smaller category")
            yield from papers
            start += len(papers)

    def download(self, paper: dict[str, Any], partial: Path) -> None:
        """The package of a paper; what is there of it already is not asked for again. CallError as arXiv fails."""
        name = f"{urllib.parse.quote(paper['id'])}v{paper['version']}"
        try:
            self._politely(functools.partial(self._continue, f"{self._place}/{name}", partial))
        except CallError as failure:
            if failure.status != 404 or self._place == "e-print":
                raise
            self._politely(functools.partial(self._continue, f"e-print/{name}", partial))
            self._place = "e-print"  # of a mirror that has no other

    def _continue(self, path: str, partial: Path) -> None:
        """One request for what is missing of a package."""
        size = partial.stat().st_size if partial.exists() else 0
        try:
            with self._service.get(path, {"Range": f"bytes={size}-"} if size else {}) as (answer, pieces):
                begin = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range") or "")
                continues = answer.status == 206 and begin is not None and int(begin[1]) == size
                with explain_failed_write(partial), partial.open("ab" if continues else "wb") as stream:
                    for piece in pieces:
                        stream.write(piece)
                        if stream.tell() > _LARGEST_PACKAGE:
                            raise CallError(f"the package is larger than {_LARGEST_PACKAGE >> 20} MiB", status=413)
        except CallError as failure:
            if failure.status != 416:
                raise
            partial.unlink()  # it is longer than the package, or the package is another one now
            raise CallError(failure.cause, retry=True) from failure

    def _page(self, parameters: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """How many papers there are in all, and those of one answer; a page that is empty too early is asked again."""

        def attempt() -> tuple[int, list[dict[str, Any]]]:
            with self._service.get(f"api/query?{urllib.parse.urlencode(parameters)}") as (_, pieces):
                data = b""
                for piece in pieces:
                    data += piece
                    if len(data) > _LARGEST_PAGE:
                        raise CallError(f"the list is larger than {_LARGEST_PAGE >> 20} MiB")
            total, papers = _read_feed(data)
            if not papers and total > parameters.get("start", 0):
                raise CallError("the list of papers is empty", retry=True)
            return total, papers

        return self._politely(attempt)

    def _politely(self, attempt: Callable[[], Result]) -> Result:
        def in_turn() -> Result:
            time.sleep(max(0.0, self._next - time.monotonic()))
            try:
                return attempt()
            finally:
                self._next = time.monotonic() + self._pause

        return self._service.call(in_turn)


def _read_feed(data: bytes) -> tuple[int, list[dict[str, Any]]]:
    """The number of all papers and the records of those in an Atom feed; CallError for anything else."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:  # its entities could fill the memory
        raise CallError("the list of papers has a document type, which is refused")
    try:
        feed = ElementTree.fromstring(data)  # noqa: S314 - without entities
        total = int(feed.findtext(f"{_SEARCH}totalResults") or 0)
    except (ElementTree.ParseError, ValueError) as error:
        raise CallError(f"the list of papers is no Atom feed ({error})", retry=True) from error
    papers = []
    for entry in feed.iter(f"{_ATOM}entry"):
        identity = _ENTRY_ID.fullmatch((entry.findtext(f"{_ATOM}id") or "").strip())
        if identity is None:
            if "api/errors" in (entry.findtext(f"{_ATOM}id") or ""):
                raise CallError(_flat(entry.findtext(f"{_ATOM}summary")) or "an error", status=400)
            continue
        links = {link.get("rel"): link.get("href") for link in entry.iter(f"{_ATOM}link")}
        record = {
            "id": identity[1],
            "version": int(identity[2]),
            "title": _flat(entry.findtext(f"{_ATOM}title")),
            "authors": [_flat(name.text) for name in entry.iterfind(f"{_ATOM}author/{_ATOM}name")],
            "date": (entry.findtext(f"{_ATOM}published") or "")[:10],
            "updated": (entry.findtext(f"{_ATOM}updated") or "")[:10],
            "categories": [term for item in entry.iter(f"{_ATOM}category") if (term := item.get("term"))],
            "abstract": _flat(entry.findtext(f"{_ATOM}summary")),
            "comment": _flat(entry.findtext(f"{_OF_ARXIV}comment")),
            "doi": _flat(entry.findtext(f"{_OF_ARXIV}doi")),
            "licence": links.get("license") or _flat(entry.findtext(f"{_ATOM}rights")),
        }
        papers.append({key: value for key, value in record.items() if value})
    return max(total, len(papers)), papers


def _flat(text: str | None) -> str:
    return " ".join((text or "").split())


# ---------------------------------------------------------------- the folder


class _Store:
    """A folder of packages with `metadata.jsonl`, one record per paper: `file`, `sha256`, or why there is none."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._list = folder, folder / METADATA
        self.records: dict[str, dict[str, Any]] = {}
        if self._list.exists():
            for number, line in enumerate(self._list.read_text("utf-8", "replace").splitlines(), 1):
                try:
                    record = json_object(line)
                    self.records[str(record["id"])] = record
                except (ValueError, KeyError) as error:
                    cause = "is no record of a paper: correct or delete the line"
                    raise InputError(cause, file=str(self._list), line=number) from error

    def has(self, paper: dict[str, Any]) -> bool:
        """Whether this version was fetched, and its package is as it was, or there was none."""
        record = self.records.get(paper["id"])
        if record is None or record.get("version") != paper["version"]:
            return False
        file = str(record.get("file", ""))
        if not file:
            return "note" in record
        path = self._folder / Path(file).name
        return path.is_file() and sha256_of([path]) == record.get("sha256")

    def add(self, paper: dict[str, Any], download: Callable[[dict[str, Any], Path], None]) -> dict[str, Any]:
        """Fetch the package of a paper, and record it; without a package the record says why."""
        name = f"{paper['id'].replace('/', '')}v{paper['version']}"
        partial = self._folder / f".{name}.partial"  # hidden, so that ingest does not see it
        self._folder.mkdir(parents=True, exist_ok=True)
        record = {**paper, "file": ""}
        try:
            download(paper, partial)
            suffix, note = _kind_of(partial)
        except CallError as failure:
            if failure.status not in (*_NO_SOURCE, 413):
                raise
            suffix, note = "", f"arXiv has no source of it ({failure.cause})"
        if suffix:
            file = self._folder / (name + suffix)
            record |= {"file": file.name, "sha256": sha256_of([partial])}
            partial.replace(file)
        else:
            record["note"] = note
            remove(partial)
        before = str(self.records.get(paper["id"], {}).get("file", ""))
        self.records[paper["id"]] = record
        lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in self.records.values())
        write_atomically(self._list, "".join(lines).encode("utf-8", "replace"))
        if before and before != record["file"]:
            with contextlib.suppress(OSError):
                (self._folder / Path(before).name).unlink()
        return record


def _kind_of(path: Path) -> tuple[str, str]:
    """The suffix of a package by its content; "" and why, where it has no LaTeX."""
    with path.open("rb") as stream:
        start = stream.read(2**16)
    kind = sniff(start[:512])
    if kind == "gzip":
        with contextlib.suppress(zlib.error):
            inside = zlib.decompressobj(31).decompress(start, 4096)
            if sniff(inside[:512]) == "tar":
                return ".tar.gz", ""
            if inside.startswith(b"%auto-ignore"):
                return "", "it was withdrawn"
            if inside.startswith((b"%PDF", b"%!PS")):
                return "", "it has no LaTeX: its source is PDF or PostScript"
            return ".gz", ""
        return "", "its package is damaged"
    if kind in ("tar", "zip"):
        return f".{kind}", ""
    if kind == "pdf" or start.startswith(b"%!PS"):
        return "", "it has no LaTeX: its source is PDF or PostScript"
    if not start.strip() or start.startswith(b"%auto-ignore"):
        return "", "it was withdrawn"
    if re.match(rb"\s*<(?:!doctype|html)", start, re.I):
        return "", "arXiv answered with a page, not with a source"
    return ".tex", ""
