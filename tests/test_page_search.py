"""The way into a corpus on the page: the start, names that complete, hits that open, fold and are refused, bridges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.test_page import HOOK
from tests.test_page_views import BOOK
from tests.window import Window, expect, made, serving

SEARCH = "/?q=" + quote("hook length formula")


# ---------------------------------------------------------------- the start


def test_the_start_has_queries_concepts_and_the_contents_of_a_book(browser: Any, tmp_path: Path) -> None:
    with serving(made(tmp_path, BOOK).root) as address:
        opened = Window(browser, address)
        page = opened.open("/")
        expect(page.locator(".contents > li")).to_have_count(3)
        expect(page.locator(".results")).to_contain_text("Concepts")
        page.locator(".contents").get_by_text("Fish").click()
        expect(page.locator(".stated").first).to_contain_text("A fish is wet")
        page = opened.open("/?q=wet&retriever=lexical")
        chapters = page.locator('[data-facet="chapter"] li')
        expect(chapters).to_have_count(3)
        chapters.filter(has_text="Sponges").locator("input").check()
        expect(page.locator(".hit")).to_have_count(1)
        assert "chapter=Sponges" in page.url
        expect(page.locator(".hit .from")).not_to_contain_text("On sponges")  # the only document
        opened.context.close()
        assert opened.wrong == []


def test_an_example_query_of_the_start_finds_something(window: Window) -> None:
    page = window.open("/")
    examples = page.locator(".queries a")
    expect(examples).to_have_count(6)
    text = examples.nth(2).inner_text()
    examples.nth(2).click()
    expect(page.locator("#query")).to_have_value(text)
    expect(page.locator(".hit").first).to_be_visible()


def test_the_start_of_a_plant_has_its_newest_logs(browser: Any, plant: str) -> None:
    opened = Window(browser, plant)
    page = opened.open("/")
    expect(page.locator(".results .neighbours li").first).to_contain_text("It leaks")
    page.locator("#query").press_sequentially("colu")
    expect(page.locator(".completions li").first).to_contain_text("Columns")
    opened.context.close()
    assert opened.wrong == []


def test_the_start_is_asked_for_again_where_the_server_had_no_time_for_it(browser: Any, plant: str) -> None:
    busy = {"error": {"code": "busy", "message": "too many requests at once", "cure": "try again in a second"}}
    asked: list[str] = []

    def refuse_once(route: Any) -> None:
        asked.append(route.request.url)
        known = len(asked) > 1
        route.continue_() if known else route.fulfill(status=503, json=busy)

    opened = Window(browser, plant)
    opened.page.route("**/start", refuse_once)
    page = opened.open("/")
    expect(page.locator(".results .neighbours li").first).to_contain_text("It leaks")
    assert len(asked) == 2
    opened.context.close()
    assert [text for text in opened.wrong if "503" not in text] == []


def test_the_start_follows_a_state_that_came_while_it_was_drawn(browser: Any, plant: str) -> None:
    opened = Window(browser, plant)
    page = opened.page
    earlier = {**page.request.get(f"{plant}/health").json(), "generation": 0, "passages": 7}
    page.route("**/health", lambda route: route.fulfill(json=earlier), times=1)
    expect(opened.open("/").locator(".lead")).to_contain_text("6 logs")
    opened.context.close()
    assert opened.wrong == []


def test_codes_complete_as_people_type_them(window: Window, plant: str) -> None:
    def names(address: str, prefix: str) -> list[str]:
        answer = window.page.request.get(f"{address}/complete?k=20&prefix={quote(prefix)}").json()
        return [name["name"] for name in answer["names"]]

    for typed in ("P-K", "p-k-1", "P K1"):
        assert "P-K-1 Column 1" in names(plant, typed)
    assert names(window.address, "hook-len") == names(window.address, "hook len") != []


def test_names_complete_what_is_typed_and_open_by_keyboard(window: Window) -> None:
    page = window.open("/")
    box = page.locator("#query")
    box.press_sequentially("hook len")
    options = page.get_by_role("option")
    expect(options.first).to_be_visible()
    kinds = {text.strip() for text in page.locator(".completions .small").all_inner_texts()}
    assert {"concept", "Theorem"} <= kinds
    assert box.get_attribute("aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(options.first).to_be_hidden()
    box.press_sequentially("g")
    expect(options.first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("article h1")).to_contain_text("hook length")


def test_an_author_completes_to_a_query(window: Window) -> None:
    documents = window.page.request.get(f"{window.address}/outline?k=60").json()["documents"]
    author = next(document["authors"][0] for document in documents if document["authors"])
    page = window.open("/")
    page.locator("#query").press_sequentially(author[:8])
    page.get_by_role("option").filter(has_text="author").first.click()
    expect(page.locator("#query")).to_have_value(re.compile('author:"'))


# ---------------------------------------------------------------- hits


def test_a_hit_opens_in_place_by_button_and_by_arrow(window: Window) -> None:
    page = window.open(SEARCH)
    card = page.locator(f'.hit[data-id="{HOOK}"]')
    expect(card.locator(".entire")).to_have_count(0)
    card.get_by_role("button", name="Read here").click()
    expect(card.locator(".entire .proof")).to_be_visible()
    expect(card.locator(".excerpt")).to_be_hidden()
    card.locator("h3 a").focus()
    page.keyboard.press("ArrowLeft")
    expect(card.locator(".excerpt")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(card.locator(".entire")).to_be_visible()


def test_a_hit_leads_to_more_like_it(window: Window) -> None:
    page = window.open(SEARCH)
    page.locator(f'.hit[data-id="{HOOK}"]').get_by_role("link", name="More like this").click()
    expect(page.locator(".line")).to_contain_text("Hook length formula")
    expect(page.locator(".hit").first).to_be_visible()
    assert page.locator(f'.hit[data-id="{HOOK}"]').count() == 0


def test_a_hit_is_refused_and_taken_back(window: Window) -> None:
    page = window.open(SEARCH)
    card = page.locator(f'.hit[data-id="{HOOK}"]')
    with page.expect_response("**/mark"):
        card.get_by_role("button", name="Not this").click()
    expect(card).to_have_count(0)
    expect(page.locator(".line")).to_contain_text("1 hit left out, and marked as no answer")
    body = {"query": "hook length formula", "log": False}
    marks = page.request.post(f"{window.address}/search", data=body).json()["marks"]
    assert marks == {HOOK: "wrong"}  # and no answer
    page.reload()
    expect(page.locator(".line")).to_contain_text("1 hit left out")
    page.get_by_role("button", name="Show them again").click()
    expect(card).to_be_visible()
    page.reload()
    expect(card).to_be_visible()


ANSWER: dict[str, Any] = {
    "query": "x", "retriever": "auto", "confidence": 0.9, "marks": {}, "nodes": {}, "facets": {}, "note": "",
    "did_you_mean": "", "also": [], "took_ms": 1, "next_offset": None, "generation": 1,
}  # fmt: skip


def hit(identity: str, text: str, confidence: float) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "title": "",
        "path": [],
        "file": "",
        "line": None,
        "last_line": None,
        "date": None,
        "section": "",
        "cites": "",
    }
    shown = {"text": text, "html": f"<p>{text}</p>", "name": text, "name_html": text, "confidence": confidence}
    place: dict[str, Any] = {"date": None, "document": "d", "document_title": "D", "location": [], "repeats": []}
    return {"id": identity, "rank": 1, "score": 1, "kind": "lemma", "number": "1", **empty, **shown, **place}


def test_weak_hits_are_faded_and_hits_that_say_the_same_folded(window: Window) -> None:
    text = "every wet yellow sponge absorbs water from the deep sea"
    hits = [hit("a", text, 0.9), hit("b", f"{text} again", 0.9), hit("c", "something else about seven fast fish", 0.3)]
    window.page.route("**/search", lambda route: route.fulfill(json={**ANSWER, "hits": hits}))
    page = window.open("/?q=x")
    expect(page.locator(".hit")).to_have_count(2)
    expect(page.locator(".hit").first.locator(".folded summary")).to_contain_text("1 hit much like this one")
    expect(page.locator(".hit.weak")).to_contain_text("weak match")
    colours = page.locator(".hit h3 a").evaluate_all("all => all.map((one) => getComputedStyle(one).color)")
    assert colours[0] != colours[1]


def test_what_a_query_names_stands_apart_from_other_hits(window: Window) -> None:
    page = window.open(SEARCH)
    items = page.locator(".hits > li")
    expect(items.nth(0)).to_have_attribute("data-id", HOOK)
    expect(items.nth(0).locator(".path")).to_have_count(0)
    expect(page.locator(".hits > .others")).to_have_text("Other hits")
    assert page.locator(".others ~ .hit").count() > 3
    page = window.open("/?q=" + quote("why do hooks count tableaux"))
    expect(page.locator(".hit").first).to_be_visible()
    assert page.locator(".others").count() == 0


def test_words_that_ask_are_not_marked(window: Window) -> None:
    page = window.open("/?q=" + quote("what can we know of hook lengths?"))
    marked = {text.casefold() for text in page.locator(".hit mark").all_inner_texts()}
    assert {"hook"} <= {text.split("-")[0].split()[0].rstrip("s") for text in marked}
    assert not marked & {"what", "can", "we", "know"}


def test_a_path_over_the_place_of_two_logs_is_not_shown_and_places_have_names(window: Window) -> None:
    def step(source: str, relation: str, target: str) -> dict[str, Any]:
        return {"source": source, "relation": relation, "target": target, "length": 0.5}

    far = [step("query", "similar_to", "b"), step("b", "part_of", "d"), step("d", "^part_of", "a")]
    near = [step("query", "similar_to", "b"), step("b", "proof_uses", "c")]
    hits = [{**hit("a", "one", 0.9), "path": far, "location": ["P-1"]}, {**hit("c", "other", 0.9), "path": near}]
    facets = {"locations": [{"value": "P-1", "title": "The pump", "count": 1}]}
    answer = {**ANSWER, "hits": hits, "facets": facets}
    window.page.route("**/search", lambda route: route.fulfill(json=answer))
    page = window.open("/?q=x")
    expect(page.locator('.hit[data-id="c"] .path')).to_contain_text("uses in its proof")
    expect(page.locator('.hit[data-id="a"] .path')).to_have_count(0)
    expect(page.locator('.hit[data-id="a"] .from')).to_contain_text("P-1 The pump")


# ---------------------------------------------------------------- bridges


def bridge(expected: float, coherence: float, over: str) -> dict[str, Any]:
    steps = [
        {"source": "concept:hook", "target": over, "relation": "^mentions", "length": 1, "evidence": []},
        {"source": over, "target": "concept:bailey-pair", "relation": "mentions", "length": 1, "evidence": []},
    ]
    return {"length": 2, "coherence": coherence, "expected": expected, "steps": steps}


def test_paths_by_chance_and_without_coherence_are_shown_on_demand_only(window: Window) -> None:
    paths = [bridge(0.1, 0.5, HOOK), bridge(7, 0.5, "rsk#thm:rsk"), bridge(0.1, 0.1, "rsk@1")]
    answer = {"source": "", "target": "", "paths": paths, "passages": [], "nodes": {}, "generation": 1}
    window.page.route("**/bridge", lambda route: route.fulfill(json=answer))
    page = window.open("/view/bridge?from=concept%3Ahook&to=concept%3Abailey-pair")
    expect(page.locator(".told > li")).to_have_count(1)
    page.get_by_role("button", name="Show 2 weaker paths").click()
    expect(page.locator(".told > li")).to_have_count(3)


def test_bridges_do_not_go_over_the_document_that_passages_stand_in(window: Window) -> None:
    body = {"source": "concept:bailey-pair", "target": "concept:hook", "k": 5}
    answer = window.page.request.post(f"{window.address}/bridge", data=body).json()
    relations = {step["relation"].removeprefix("^") for path in answer["paths"] for step in path["steps"]}
    assert relations
    assert not {"part_of", "next"} & relations


def test_examples_of_bridges_are_concepts_that_a_telling_path_connects(window: Window) -> None:
    page = window.open("/view/bridge")
    expect(page.locator(".bridge .tries a").first).to_be_visible()
    ways = window.page.request.get(f"{window.address}/bridges").json()["bridges"]
    assert len(ways) > 2
    for way in ways:
        mentions = [
            {one["id"] for one in page.request.get(f"{window.address}/concepts/{end['id']}").json()["passages"]}
            for end in (way[0], way[-1])
        ]
        assert not mentions[0] & mentions[1]
        body = {"source": way[0]["id"], "target": way[-1]["id"], "k": 5}
        first = page.request.post(f"{window.address}/bridge", data=body).json()["paths"][0]
        assert first["expected"] < 1
        assert first["coherence"] > 0.3
    page.locator(".bridge .tries a").first.click()
    expect(page.locator(".told > li").first).to_be_visible()


@pytest.mark.parametrize(
    "path",
    ["/start", "/bridges", "/complete?prefix=hook", "/cards/rsk", "/cards/concept%3Ahook", "/near/rks", "/quality"],
)
def test_the_answers_behind_the_page_are_as_described(window: Window, path: str) -> None:
    assert window.page.request.get(window.address + path).ok
