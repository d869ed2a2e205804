"""The page around the search: answers of a model, health, ways on after an error, searches that are kept, printing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import pytest
from tests.llm_server import Server
from tests.make import make_workspace
from tests.served import NOTES
from tests.test_page import HOOK
from tests.window import Window, expect, serving

from lemmata.core.workspace import vector_set, write_manifest
from lemmata.project import Project
from lemmata.search.fusion import Fusion

REPORT = [
    {
        "task": "sponges (/somewhere/sets)",
        "queries": 64,
        "retrievers": {"BM25": {"measures": {"MRR@10": 0.531}}, "tuned": {"measures": {"MRR@10": 0.623}}},
    }
]
EARLIER = {
    "measure": "MRR@10",
    "queries": {"marks": 11, "self-made": 40},
    "learned_from": 20,
    "rows": [{"name": "today", "encoder": "lemmata-nano", "auto": "1 lexical", "marks": 0.4, "self-made": 0.9}],
    "adopted": "",
    "notes": ["adapt-pairs: there are no links"],
    "when": 1_700_000_000,
}
ADAPTED = {
    "measure": "MRR@10",
    "queries": {"marks": 12},
    "learned_from": 31,
    "rows": [
        {"name": "today", "encoder": "lemmata-nano", "auto": "0.4 dense + 0.6 lexical", "marks": 0.412},
        {"name": "auto, fitted", "encoder": "lemmata-nano", "auto": "0.5 dense + 0.5 lexical", "marks": 0.471},
    ],
    "adopted": "auto, fitted",
    "notes": [],
    "when": 1_710_000_000,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Project:
    """A workspace with a language model, fitted weights, an evaluation, an adaptation and a mark."""
    made = make_workspace(tmp_path_factory.mktemp("service"), NOTES, index="lemmata-nano")
    with made.config_file.open("a", encoding="utf-8") as settings:
        settings.write(f'\n[llm]\nurl = "{server.url}"\nmodel = "small-model"\n')
    made = Project(made.root)
    vectors = vector_set(made)
    assert vectors is not None
    fitted = {"task": "sets/asked.jsonl", "queries": 553, "measure": "MRR@10", "values": {"auto": 0.601, "dense": 0.48}}
    write_manifest(vectors.fusion, {"fusion": asdict(Fusion(weight=0.55)), "asked": [], **fitted})
    write_manifest(made.adapted, {"key": "", "encoder": "lemmata-nano", "undo": None, "runs": [EARLIER, ADAPTED]})
    made.run_folder.mkdir(exist_ok=True)
    (made.run_folder / "report.json").write_text(json.dumps(REPORT), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def own(browser: Any, project: Project) -> Iterator[Window]:
    with serving(project.root) as address:
        opened = Window(browser, address)
        yield opened
        opened.context.close()
        assert opened.wrong == []


def test_a_model_writes_until_it_is_stopped_and_its_citations_are_cards(own: Window, server: Server) -> None:
    answer = "A comet orbits the sun [1]. Elephants eat bananas on Sundays [1]. This is well known."
    slow = {"text": "A comet is a stone. " * 200, "piece": 5, "pause": 0.3}
    server.script(json=False, streams=True, answer=answer, replies={"a wet sponge": [slow]})
    page = own.open("/view/ask")
    expect(page.locator("main")).to_contain_text("Answers are written by small-model")  # before anything is typed
    page.locator("#question").fill("what does a wet sponge absorb?")
    page.keyboard.press("Enter")
    expect(page.locator(".answer .text")).to_contain_text("A comet is")
    page.get_by_role("button", name="Stop writing").click()
    expect(page.locator(".answer")).to_contain_text("Stopped")
    expect(page.get_by_role("button", name="Stop writing")).to_be_hidden()
    assert len(page.locator(".answer .text").inner_text()) < len(slow["text"])  # type: ignore[arg-type]

    page.locator("#question").fill("what does a comet orbit?")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("1 of 3 sentences supported")
    doubted = page.locator(".answer .doubted")
    expect(page.locator(".answer .flag")).to_have_text(["its passage does not support it", "names no passage"])
    expect(doubted.filter(has_text="Elephants")).to_be_visible()
    expect(page.locator(".cited .hit .from").first).to_be_visible()
    page.locator(".answer sup a").first.hover()
    expect(page.locator(".hovercard")).to_contain_text("orbits the sun")


def test_health_has_the_fit_the_evaluation_the_marks_and_the_adaptation(own: Window, project: Project) -> None:
    page = own.page
    mark = {"query": "comet", "id": "b#alone", "mark": "answer"}
    assert page.request.post(f"{own.address}/mark", data=mark).ok
    page = own.open("/view/health")
    panels = {panel.locator("h2").inner_text(): panel for panel in page.locator(".panel").all()}
    expect(panels["What auto weighs"]).to_contain_text("Fitted to 553 queries of asked.jsonl: MRR@10 · 20")
    expect(panels["Last evaluation"]).to_contain_text("64 queries · sponges · 20")
    expect(panels["Last evaluation"].locator("b")).to_have_text("0.623")
    expect(panels["Marks"].locator("tr").first).to_contain_text("marked as answer")
    expect(panels["Marks"].locator("tr .number").first).to_have_text("1")
    expect(panels["Adaptation"]).to_contain_text("auto, fitted was adopted.")
    expect(panels["Adaptation"].locator("tbody tr:visible")).to_have_count(2)
    before = panels["Adaptation"].locator("li")
    expect(before).to_have_count(1)
    expect(before).to_contain_text("2023-11-14")
    before.locator("summary").click()
    expect(before).to_contain_text("40 queries (self-made)")
    expect(before).to_contain_text("there are no links")
    expect(panels["Models"]).to_contain_text("small-model")
    write_manifest(project.adapted, {"encoder": "lemmata-nano", "runs": [{**ADAPTED, "undone": 1_720_000_000}]})
    page = own.open("/view/health")
    expect(page.locator("main")).to_contain_text("auto, fitted was adopted, and undone 2024-07-03")


def test_files_that_were_skipped_are_named_before_their_folder(window: Window) -> None:
    health = window.page.request.get(f"{window.address}/health").json()
    health |= {
        "skipped": 1,
        "skips": [{"file": "chapters/one/start.tex", "line": 7, "cause": "no main file includes it"}],
    }
    window.page.route(f"{window.address}/health", lambda route: route.fulfill(json=health))
    page = window.open("/view/health")
    expect(page.get_by_role("region", name="What was skipped").locator("td").first).to_have_text(
        "start.tex:7chapters/one/"
    )


# ---------------------------------------------------------------- ways on after an error


def test_an_unknown_id_offers_near_ones_and_a_search(browser: Any, notes: str) -> None:
    opened = Window(browser, notes)
    page = opened.open("/view/passage/" + quote("hook#thm:hok-formula", safe=""))
    expect(page.get_by_role("alert")).to_contain_text("There is no passage 'hook#thm:hok-formula'")
    expect(page.get_by_role("link", name="Search for “hok formula”")).to_be_visible()
    page.locator(".near a", has_text="Hook length formula").click()
    expect(page.locator("h1")).to_contain_text("Hook length formula")
    page = opened.open("/view/concept/concept%3Abaily-pair")
    expect(page.locator(".near li").first).to_contain_text("concept:bailey-pair")
    page = opened.open("/view/document/hook-lenght")
    expect(page.locator(".near li").first).to_contain_text("hook-length")
    page = opened.open("/view/document/zzz")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator(".near")).to_have_count(0)
    page = opened.open("/no/such/place")
    expect(page.get_by_role("alert")).to_contain_text("/no/such/place")
    page.get_by_role("link", name="To the start").click()
    expect(page.locator("#query")).to_be_visible()
    opened.context.close()
    assert all("404" in problem for problem in opened.wrong)


def test_a_server_that_is_busy_is_asked_again(browser: Any, notes: str) -> None:
    opened = Window(browser, notes)
    busy = {"error": {"code": "busy", "message": "too many requests at once", "cure": "try again"}}
    answers = [503, 409]
    opened.page.route(
        "**/passages/**",
        lambda route: route.fulfill(status=answers.pop(), json=busy) if answers else route.continue_(),
    )
    page = opened.open("/view/passage/" + quote(HOOK, safe=""))
    expect(page.get_by_role("alert")).to_contain_text("The workspace lacks something")
    page.get_by_role("button", name="Try now").click()
    expect(page.get_by_role("alert")).to_contain_text("The server is busy")
    expect(page.locator("h1")).to_contain_text("Hook length formula")  # without a click
    opened.context.close()
    assert answers == []


# ---------------------------------------------------------------- searches that are kept, links that are shared


def test_searches_are_kept_in_the_browser_with_their_filters_until_they_are_cleared(window: Window) -> None:
    page = window.open("/?q=hook&retriever=lexical&kind=theorem")
    page.get_by_role("button", name="☆ Save").click()
    expect(page.get_by_role("button", name="★ Saved")).to_have_attribute("aria-pressed", "true")
    page.locator("#query").fill("partitions of a set")
    page.locator("#query").press("Enter")
    expect(page.locator(".hit").first).to_be_visible()
    page = window.open("/")
    expect(page.locator('[data-list="recent"] li').first).to_contain_text("partitions of a set")
    page.locator('[data-list="saved"]').get_by_role("link", name="hook").click()
    expect(page.locator(".hit").first).to_be_visible()
    assert page.url == f"{window.address}/?q=hook&retriever=lexical&kind=theorem"
    assert all(kind.startswith("Theorem") for kind in page.locator(".hit h3 .kind").all_inner_texts())
    page = window.open("/")
    for kept in ("saved", "recent"):
        page.locator(f'[data-list="{kept}"]').get_by_role("button", name="Clear").click()
    page = window.open("/")
    expect(page.locator(".queries").first).to_be_visible()
    expect(page.locator(".remembered")).to_have_count(0)
    page.evaluate(
        "() => localStorage.setItem('saved', '[\"javascript:alert(1)\", 7, \"/?q=<img src=x onerror=alert(2)>\"]')"
    )
    page = window.open("/")
    expect(page.locator('[data-list="saved"] li')).to_have_text(["<img src=x onerror=alert(2)>"])


def test_a_link_says_what_it_cannot_share(window: Window) -> None:
    page = window.open("/?q=hook&among=123")
    expect(page.locator(".line")).to_contain_text("not part of a link")


def test_passages_and_hits_are_printed_without_the_frame(window: Window) -> None:
    page = window.open("/view/passage/" + quote("bailey/main#lem:bailey", safe=""))
    page.emulate_media(media="print", color_scheme="dark")
    for hidden in (".top", ".copies", ".turning"):
        expect(page.locator(hidden).first).to_be_hidden()
    assert page.locator(".proof .text").bounding_box()["height"] > 20  # though it is folded
    ink = "() => getComputedStyle(document.querySelector('.text')).color"
    dark_on_paper = page.evaluate(ink)
    page.emulate_media(media="print", color_scheme="light")
    assert page.evaluate(ink) == dark_on_paper
    page.emulate_media(media="screen", color_scheme="dark")
    assert page.evaluate(ink) != dark_on_paper
    page.emulate_media(media="screen", color_scheme="light")
    page = window.open("/?q=hook&kind=theorem")
    page.emulate_media(media="print")
    expect(page.locator(".facets")).to_be_hidden()
    expect(page.locator(".hit .marks").first).to_be_hidden()
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert page.locator("main").get_attribute("data-title") == "hook"
    assert page.locator("main").get_attribute("data-address") == page.url
