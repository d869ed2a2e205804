"""A real browser for the tests of the web page: servers, and windows that note what must not happen in them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import served
from tests.make import make_workspace

from lemmata.core.types import Edge
from lemmata.graph.build import compress
from lemmata.graph.store import GraphRecordStore
from lemmata.plant.link import PREDICTED
from lemmata.project import Project
from lemmata.server.app import Limits
from lemmata.server.security import Access

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
if not CHROMIUM:
    pytest.skip("the page is tested in Chromium, which is not installed", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="the page is tested with playwright")

VIEWPORT = {"width": 1280, "height": 900}
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()


@contextlib.contextmanager
def serving(folder: Path, token: str = "") -> Iterator[str]:
    limits = Limits(seconds=300.0)  # a busy machine is no failure
    with served.serving(folder, access=Access("127.0.0.1", token=token), limits=limits) as client:
        yield str(client.base_url)


def made(folder: Path, sources: Mapping[str, str | bytes] | Path) -> Project:
    project = make_workspace(folder, sources, index="lemmata-nano", graph=True)
    project.map()
    return project


ATTACK = "<img src=x onerror=alert(1)><script>alert(2)</script>"
PLANT: dict[str, str | bytes] = {
    "tree.csv": f"id,parent,description\nP,,Plant\nP-K,P,Columns\nP-K-1,P-K,Column 1\nP-T,P,Tanks {ATTACK}\n",
    "logs.csv": "id,text,location,related,date\n1,The column leaks,P-K-1,,2024-05-01\n"
    f"2,The tank is full {ATTACK},P-T,,2024-05-02\n3,The column runs,P-K-1,1,2024-05-03\n"
    "4,Columns inspected,P-K,,2024-06-20\n5,Column inspected again,P-K-1,,2025-01-02\n6,It leaks,,,2025-01-05\n",
}


def made_plant(folder: Path) -> Project:
    """A plant with an incident, and with predicted links that nobody confirmed."""
    project = made(folder, PLANT)
    edges = [
        Edge("5", "related_to", "4", "5", "predict:record", 0.62),
        Edge("6", "reports_about", "location:P-K-1", "6", "predict:entity", 0.9),
    ]
    with contextlib.closing(project.corpus) as corpus, GraphRecordStore(project) as records:
        records.replace(PREDICTED, edges=edges, inputs=corpus.digest)
        compress(project, corpus, records)
    return project


@contextlib.contextmanager
def launched() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


class Window:
    """A page in the browser that keeps what must not happen: errors, dialogs and requests to others."""

    def __init__(self, browser: Any, address: str, context: Any = None, **options: Any) -> None:
        self.address = address
        self.context = context or browser.new_context(viewport=VIEWPORT, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(300_000)
        self.wrong: list[str] = []
        self.sizes: dict[str, int] = {}
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", self._asked)
        self.page.on("request", self._requested)
        self.page.on("response", self._answered)

    def _said(self, message: Any) -> None:
        if message.type == "error":
            self.wrong.append(message.text)

    def _asked(self, dialog: Any) -> None:
        self.wrong.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.wrong.append(f"request to {request.url}")

    def _answered(self, response: Any) -> None:
        self.sizes[response.url] = int(response.headers.get("content-length", 0))

    def open(self, path: str) -> Any:
        self.page.goto(self.address + path)
        self.page.wait_for_load_state("networkidle")
        return self.page

    def forget(self) -> None:
        """Close the page, and leave nothing in the browser of what it stored."""
        if self.page.url.startswith(self.address):
            self.page.evaluate("() => localStorage.clear()")  # what belongs to the session goes with the page
        self.page.close()


playwright.expect.set_options(timeout=300_000)  # a busy machine is no failure
expect = playwright.expect
