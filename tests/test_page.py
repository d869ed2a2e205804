"""The web page in a real browser: every view, the keyboard, narrow windows, errors, and a corpus that attacks it."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from bench.map_frames import synthetic_map
from tests import served
from tests.make import NAMES, make_workspace, wait_until, write_papers
from tests.window import ATTACK, Window, expect, made, serving

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "src" / "lemmata" / "server" / "page"
LARGEST_FIRST_VIEW = 150_000  # bytes, without the font of formulas
LARGEST_FONT = 400_000
HOOK = "hook-length#thm:hook-formula"
VIEWS = {
    "home": "/",
    "search": "/?q=" + quote("number of standard tableaux of a given shape"),
    "passage": "/view/passage/" + quote("bailey/main#lem:bailey", safe=""),
    "document": "/view/document/rsk",
    "concept": "/view/concept/" + quote("concept:bailey-pair", safe=""),
    "bridge": "/view/bridge?from=concept%3Abailey-pair&to=concept%3Ahook",
    "map": "/view/map",
    "ask": "/view/ask?q=" + quote("why is p(5n+4) divisible by five?"),
    "health": "/view/health",
}


# ---------------------------------------------------------------- search


def test_a_hit_is_marked_as_the_answer_and_the_mark_taken_back(window: Window) -> None:
    page = window.open(VIEWS["search"])
    button = page.locator(f'.hit[data-id="{HOOK}"] .mark[data-mark="answer"]')
    for pressed in ("true", "false"):
        button.click()
        expect(button).to_have_attribute("aria-pressed", pressed)
        page.reload()
        expect(button).to_have_attribute("aria-pressed", pressed)


def test_a_search_shows_cards_with_marks_formulas_a_path_and_its_time(window: Window) -> None:
    page = window.open("/")
    expect(page.locator(".lead")).to_contain_text("537 passages")
    page.keyboard.type("number of standard tableaux of a given shape")
    expect(page.locator(".hit")).to_have_count(10)
    assert page.url.startswith(f"{window.address}/?q=number")
    card = page.locator(f'.hit[data-id="{HOOK}"]')
    expect(card.locator(".kind").first).to_have_text("Theorem 1.2")
    expect(card.locator("h3")).to_contain_text("Hook length formula")
    expect(card.locator("mark", has_text="tableaux").first).to_be_visible()
    assert card.locator("math").count() > 1
    expect(page.locator(".path").first).to_contain_text("resembles")
    assert all(
        steps > 1
        for steps in page.locator(".path").evaluate_all(
            "all => all.map((path) => path.querySelectorAll('.edge').length)"
        )
    )
    assert re.search(r"hits in \d+ ms", page.locator(".line").inner_text())
    assert "hits in" in page.locator("#status").inner_text()


def test_the_address_of_a_search_can_be_shared(window: Window) -> None:
    page = window.open("/?q=tableaux&retriever=lexical&kind=theorem&paths=0")
    expect(page.locator("#query")).to_have_value("tableaux")
    expect(page.locator("#retriever")).to_have_value("lexical")
    expect(page.locator("#explained")).to_contain_text("BM25")
    kinds = page.locator(".hit h3 .kind").all_inner_texts()
    assert kinds
    assert all(kind.startswith("Theorem") for kind in kinds)
    assert page.locator(".path").count() == 0


def test_filters_have_counts_and_narrow_the_hits(window: Window) -> None:
    page = window.open("/?q=partitions")
    kinds = page.locator('[data-facet="kind"]')
    lemma = kinds.locator("li", has=page.get_by_text("Lemma", exact=True))
    count = int(lemma.locator(".count").inner_text())
    assert count > 1
    lemma.locator("input").check()
    expect(page.locator(".hit h3 .kind", has_text=re.compile("^(?!Lemma)"))).to_have_count(0)
    assert "kind=lemma" in page.url
    assert kinds.locator("li").count() > 3  # the others can still be chosen
    page.get_by_role("button", name="Clear the filters").click()
    expect(page.locator(".hit h3 .kind", has_text=re.compile("^(?!Lemma)")).first).to_be_visible()
    page.locator('[aria-label="Since"]').fill("2020")
    page.keyboard.press("Enter")
    expect(page.locator(".hit time").first).to_have_text(re.compile(r"202\d-"))
    page.wait_for_function("() => [...document.querySelectorAll('.hit time')].every(x => x.textContent >= '2020')")


def counts(page: Any, facet: str) -> dict[str, int]:
    rows = page.locator(f'[data-facet="{facet}"] li').all()
    return {row.get_attribute("title"): int(row.locator(".count").text_content()) for row in rows}


def test_the_counts_of_a_filter_are_those_of_the_other_filters(window: Window) -> None:
    page = window.open("/?q=hook&kind=definition&cat=math.RT")
    expect(page.locator(".facets")).to_contain_text("Counts are of the first 200 hits")

    def counted(facet: str, name: str, **only: list[str]) -> dict[str, int]:
        body = {"query": "hook", "k": 1, "facets": True, "filter": only}
        answer = page.request.post(f"{window.address}/search", data=body).json()
        return {record.get(name) or record["value"]: record["count"] for record in answer["facets"][facet]}

    both = {"kinds": ["definition"], "categories": ["math.RT"]}
    assert counts(page, "doc") == counted("documents", "title", **both)
    assert counts(page, "cat") == counted("categories", "value", kinds=["definition"])
    kinds = counted("kinds", "value", categories=["math.RT"])
    assert counts(page, "kind") == {kind.capitalize().replace("Chunk", "Text"): kinds[kind] for kind in kinds}


def test_the_page_says_what_auto_weighs_and_whether_it_was_fitted(window: Window) -> None:
    page = window.open("/")
    health = page.request.get(f"{window.address}/health").json()
    assert health["vectors"][0]["fusion"]["formula"] == "0.4 dense + 0.6 lexical"
    expect(page.locator("#explained")).to_have_text(
        "0.4 meaning + 0.6 words: the weights that come with lemmata, not fitted to this corpus."
    )
    health["vectors"][0]["fusion"]["fitted"] = {"task": "sets/mine.jsonl", "queries": 12, "measure": "", "values": {}}
    page.route("**/health", lambda route: route.fulfill(json=health))
    page = window.open("/")
    expect(page.locator("#explained")).to_have_text("0.4 meaning + 0.6 words: fitted to 12 queries of mine.jsonl.")


def test_a_query_without_a_known_word_gets_a_hint(window: Window) -> None:
    page = window.open("/?q=asdfgh+qwertz")
    expect(page.locator(".line")).to_contain_text("Nothing here matches well")
    expect(page.locator(".hit").first).to_be_hidden()
    expect(page.locator(".facets")).to_be_empty()
    page.get_by_text("Show the nearest passages").click()
    expect(page.locator(".hit").first).to_be_visible()
    page = window.open("/?q=hook")
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.locator(".line")).not_to_contain_text("Nothing here")


def test_more_hits_come_on_demand(window: Window) -> None:
    page = window.open("/?q=partitions")
    page.get_by_role("button", name="More hits").click()
    expect(page.locator(".hit")).to_have_count(20)


def test_the_keyboard_is_enough(window: Window) -> None:
    page = window.open("/?q=hook+length+formula")
    page.locator("#theme").focus()
    page.keyboard.press("/")
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit").nth(1).locator("h3 a")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("article.passage h1")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".hit").first).to_be_visible()
    page.locator("#theme").focus()
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page.locator("h1")).to_have_text("What connects them?")


# ---------------------------------------------------------------- passages, documents, concepts


def test_a_passage_has_its_proof_its_links_and_its_source(window: Window) -> None:
    page = window.open(VIEWS["passage"])
    expect(page.locator("h1")).to_contain_text("Bailey's lemma")
    proof = page.locator("details.proof")
    assert not proof.evaluate("one => one.open")
    page.keyboard.press("p")
    assert proof.evaluate("one => one.open")
    expect(page.locator(".foot")).to_contain_text("bailey/sections/chain.tex:11")
    expect(page.locator(".beside")).to_contain_text("Bailey's transform")
    expect(page.locator(".beside h2", has_text="Similar")).to_be_visible()
    assert page.locator(".text mtr").count() == 2
    proof.get_by_role("link", name="2.1").click()
    expect(page.locator("h1")).to_contain_text("Bailey's transform")
    page.keyboard.press("]")
    expect(page.locator("h1")).to_contain_text("Bailey's lemma")
    page.go_back()
    expect(page.locator("h1")).to_contain_text("Bailey's transform")


def test_formulas_are_copied_as_latex(window: Window) -> None:
    page = window.open("/view/passage/" + quote(HOOK, safe=""))
    copied = page.locator(".text").first.evaluate(
        """(text) => {
            getSelection().selectAllChildren(text);
            const clipboardData = new DataTransfer();
            const event = new ClipboardEvent("copy", { clipboardData, bubbles: true, cancelable: true });
            text.dispatchEvent(event);
            return event.clipboardData.getData("text/plain");
        }"""
    )
    assert "For every partition $\\lambda$ of $n$ the number of standard tableaux" in copied
    assert "$f^\\lambda=\\frac{n!}{\\prod_{b\\in\\lambda}h(b)} .$" in copied


def test_a_document_lists_its_passages_in_their_order(window: Window) -> None:
    page = window.open(VIEWS["document"])
    lines = [int(text.rpartition(":")[2]) for text in page.locator(".outline .mono").all_inner_texts()]
    assert lines == sorted(lines)
    page.locator(".outline a:not(.wordy)", has_text="Knuth").first.click()
    expect(page.locator("h1")).to_contain_text("Knuth")


def test_a_document_has_its_text_where_it_stands_and_each_heading_once(window: Window) -> None:
    page = window.open("/view/document/hook-length")
    ids = [unquote(link.get_attribute("href").rpartition("/")[2]) for link in page.locator(".outline li a").all()]
    outline = page.request.get(f"{window.address}/outline?document=hook-length&k=200").json()
    assert ids == [passage["id"] for passage in outline["passages"]]
    assert ids.index("hook-length@1") < ids.index("hook-length#cor:frobenius-det")
    headings = page.locator(".outline h2").all_inner_texts()
    assert headings == ["The product formula", "The hook walk", "Contents and major indices"]
    expect(page.locator(".outline li a.wordy .gist", has_text="the hook lengths are")).to_be_visible()


def test_a_concept_has_a_definition_relations_and_passages(window: Window) -> None:
    page = window.open(VIEWS["concept"])
    expect(page.locator("h1")).to_have_text("Bailey pair")
    expect(page.locator(".relations")).to_contain_text("is used by")
    assert page.locator(".group li").count() == 6  # and its definition


def test_a_plant_is_entered_by_its_locations(browser: Any, plant: str) -> None:
    opened = Window(browser, plant)
    page = opened.open("/")
    expect(page.locator(".lead")).to_contain_text("6 logs in 4 locations")
    page.locator(".documents").get_by_role("link", name="Columns").click()
    logs = page.locator(".logline")
    expect(logs).to_have_count(5)  # and one that is probably here
    expect(page.locator(".parts")).to_contain_text("Column 1")
    page = opened.open("/?q=column&retriever=lexical")
    assert counts(page, "loc") == {"Columns": 4, "Column 1": 3}
    page = opened.open("/view/map")
    expect(page.locator(".legend")).to_contain_text("Tanks <img")
    expect(page.get_by_label("Colour by")).to_have_value("category")
    expect(page.get_by_label("Colour by").locator("option")).to_have_text(["Section", "Date"])
    opened.context.close()
    assert opened.wrong == []


def test_incidents_are_threads_and_a_chart_leads_to_a_month(browser: Any, plant: str) -> None:
    opened = Window(browser, plant)
    page = opened.open("/view/document/" + quote("location:P-K", safe=""))
    expect(page.locator(".incident h3")).to_contain_text("Incident, 2 logs")
    assert page.locator(".incident .words").all_inner_texts() == ["The column leaks", "The column runs"]
    assert page.locator(".incidents > li .head time").all_inner_texts()[:4] == [
        "2025-01-02", "2024-06-20", "2024-05-01", "2024-05-03",
    ]  # fmt: skip
    assert page.locator(".timebars a").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))") == [
        "May 2024: 2 logs", "June 2024: 1 log", "January 2025: 1 log",
    ]  # fmt: skip
    page.locator(".timebars a").first.click()
    expect(page.locator(".place")).to_contain_text("With a log in May 2024: 1 thread")
    expect(page.locator(".incident")).to_have_count(1)
    page.get_by_role("link", name="Show all").click()
    expect(page.locator(".logline")).to_have_count(5)
    for path in ("/view/document/location%3AP", "/view/document/location%3AP-T", "/view/passage/2"):
        assert opened.open(path).evaluate(INJECTED) == [], path
    expect(page.locator("nav.tree")).to_contain_text("Tanks <img src=x onerror=alert(1)>")
    opened.context.close()
    assert opened.wrong == []


def test_the_title_of_a_log_is_its_heading_beside_its_date(browser: Any, tmp_path: Path) -> None:
    logs = f"id,head,text,location,date\n1,Pump stands {ATTACK},Seal renewed,P,2024-05-01\n2,,Seal leaks,P,2024-05-02\n"
    project = make_workspace(tmp_path, {"logs.csv": logs}, graph=True, columns={"title": "head"})
    with serving(project.root) as address:
        window = Window(browser, address)
        page = window.open("/?q=seal&retriever=lexical")
        named = page.locator('.hit[data-id="1"]')
        expect(named.locator("h3")).to_contain_text("Pump stands <img")
        expect(named.locator(".from time")).to_have_text("2024-05-01")
        expect(page.locator('.hit[data-id="2"] h3')).to_have_text(re.compile("Log ?2024-05-02"))
        page = window.open("/view/passage/1")
        expect(page.locator("h1")).to_contain_text("Pump stands <img")
        expect(page.locator("article .from time")).to_have_text("2024-05-01")
        for path in ("/view/passage/2", "/view/document/location%3AP", "/view/document/logs"):
            expect(window.open(path).locator("article strong", has_text="Pump stands <img")).to_be_visible()
        assert window.wrong == []
        window.context.close()


def test_a_predicted_link_is_confirmed_joins_an_incident_and_is_taken_back(browser: Any, plant: str) -> None:
    opened = Window(browser, plant)
    page = opened.open("/view/passage/5")
    link = page.locator(".predicted")
    expect(link).to_contain_text("Predicted, 62 %: follows 2024-06-20 Columns inspected")
    expect(page.locator(".timeline.incident")).to_have_count(0)
    link.get_by_role("button", name="Confirm").click()
    expect(link).to_contain_text("Confirmed: follows")
    page = opened.open("/view/passage/5")
    expect(page.locator(".timeline.incident li")).to_have_count(2)
    page = opened.open("/view/document/location%3AP-K")
    expect(page.locator(".incident")).to_have_count(2)
    page.locator("summary", has_text="1 log").click()
    here = page.locator(".logline", has_text="It leaks")
    expect(here).to_contain_text("Predicted, 90 %: reports about P-K-1 Column 1")
    here.get_by_role("button", name="Confirm").click()
    expect(here).to_contain_text("Confirmed: reports about")
    page = opened.open("/view/document/location%3AP-K-1")
    expect(page.locator(".foot")).to_contain_text("4 logs")
    for path in ("/view/passage/5", "/view/passage/6"):
        page = opened.open(path)
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".predicted")).to_contain_text("Predicted")
    page = opened.open("/view/document/location%3AP-K")
    expect(page.locator(".incident")).to_have_count(1)
    opened.context.close()
    assert opened.wrong == []


# ---------------------------------------------------------------- bridge, map, ask, health


def test_an_exercise_has_its_printed_name_and_its_solution(browser: Any, tmp_path: Path) -> None:
    source = r"""\documentclass{book}\newcounter{drill}[chapter]\newenvironment{exercise}{\refstepcounter{drill}%
\textbf{Guided Drill~\thechapter.\arabic{drill}}}{}\begin{document}\chapter{Sponges}
\begin{exercise}Name the largest of all sponges.\footnotemark\end{exercise}\footnotetext{The loggerhead.}
\end{document}"""
    with serving(make_workspace(tmp_path, {"book.tex": source}, index="lexical").root) as address:
        window = Window(browser, address)
        page = window.open("/?q=loggerhead")
        expect(page.locator(".hit h3 .kind")).to_have_text("Guided Drill 1.1")
        expect(page.locator(".hit mark")).to_have_text("loggerhead")
        page.locator(".hit h3 a").click()
        expect(page.locator("h1 .kind")).to_have_text("Guided Drill 1.1")
        page.locator("summary", has_text="Solution").click()
        expect(page.locator("details.proof")).to_contain_text("The loggerhead.")
        assert window.wrong == []
        window.context.close()


def test_a_bridge_is_drawn_and_told(window: Window) -> None:
    page = window.open("/view/bridge")
    page.get_by_label("From", exact=True).fill("Bailey pair")
    page.get_by_label("To", exact=True).fill("hook")
    page.wait_for_timeout(300)
    page.get_by_role("button", name="Connect").click()
    page.get_by_role("button", name="weaker").click()
    expect(page.locator(".told > li")).to_have_count(5)
    assert page.locator("svg.graph .box").count() > 10
    assert page.locator("svg.graph .edge").count() > 10
    expect(page.locator(".told > li").first).to_contain_text("coherence")
    before = page.locator("svg.graph").get_attribute("viewBox")
    page.get_by_role("button", name="Zoom in").click()
    assert page.locator("svg.graph").get_attribute("viewBox") != before
    page.locator(".told > li").first.hover()
    assert page.locator("svg.graph .edge.lit").count() > 1
    page.get_by_role("button", name="Show all").click()
    page.locator("svg.graph a.box").first.click()
    expect(page.locator("article.passage")).to_be_visible()


COLOURS = """() => { const canvas = document.querySelector("canvas"), data = canvas.getContext("2d")
    .getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
    for (let at = 0; at < data.length; at += 4) seen.add((data[at] << 16) + (data[at + 1] << 8) + data[at + 2]);
    return seen.size; }"""


def test_the_map_shows_points_names_them_and_searches_among_some(window: Window) -> None:
    page = window.open(VIEWS["map"])
    expect(page.locator(".legend")).to_contain_text("math.CO")
    page.wait_for_function(f"() => ({COLOURS})() > 8")
    box = page.locator("canvas").bounding_box()
    corners = [(0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98), (0.02, 0.03)]
    places = [(box["x"] + box["width"] * x, box["y"] + box["height"] * y) for x, y in corners]
    page.get_by_role("button", name="Lasso").click()
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()
    expect(page.locator(".chosen h2")).to_have_text("537 passages")
    page.get_by_label("Search among the chosen passages").fill("hook length formula")
    page.locator(".chosen button", has_text="Search").click()
    expect(page.locator(f'.hit[data-id="{HOOK}"]')).to_be_visible()
    expect(page.locator(".facets")).to_contain_text("Only among the points chosen on the map")


def test_points_of_the_map_have_names_and_open_by_mouse_and_keyboard(window: Window) -> None:
    page = window.open(VIEWS["map"])
    canvas = page.locator("canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")  # names the point nearest to the middle
    expect(page.locator(".tip strong")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("article.passage h1")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".legend")).to_contain_text("math.CO")
    box = canvas.bounding_box()
    for step in range(3000):
        x, y = box["x"] + step % 60 * box["width"] / 60, box["y"] + step // 60 * box["height"] / 50
        page.mouse.move(x, y)
        if page.locator("canvas.pointing").count():
            break
    expect(page.locator(".tip strong")).to_be_visible()
    page.mouse.click(x, y)
    expect(page.locator("article.passage h1")).to_be_visible()


NAMES_THAT_MEET = """() => {
    const boxes = [...document.querySelectorAll(".regions li, .legend, .zooming")]
        .map((one) => one.getBoundingClientRect());
    const meet = (one, other) => one.left < other.right && other.left < one.right &&
        one.top < other.bottom && other.top < one.bottom;
    return boxes.flatMap((one, place) => boxes.slice(place + 1).filter((other) => meet(one, other)));
}"""


def test_regions_of_the_map_have_names_more_of_them_from_near(window: Window) -> None:
    page = window.open(VIEWS["map"])
    names = page.locator(".regions li")
    expect(names.first).to_be_visible()
    far = {*names.all_inner_texts()}
    assert len(far) > 3
    assert page.evaluate(NAMES_THAT_MEET) == []
    near: set[str] = set()
    for zoom in (1.4, 2.2, 3.3):
        page.get_by_role("button", name="Zoom in").click()
        page.wait_for_function("(zoom) => Number(document.querySelector('canvas').dataset.zoom) > zoom", arg=zoom)
        assert page.evaluate(NAMES_THAT_MEET) == []
        near |= {*names.all_inner_texts()}
    assert near - far
    legend = page.locator("details.legend")
    assert legend.evaluate("one => one.open")
    legend.locator("summary").click()
    expect(legend.get_by_text("math.CO")).to_be_hidden()
    page.get_by_label("Colour by").select_option("date")
    expect(legend.locator("summary")).to_have_text("Date")
    periods = legend.locator(".name").all_text_contents()
    assert periods == sorted(periods)
    assert "by=date" in page.url


def test_the_map_shows_the_hits_of_the_search_and_a_path(window: Window) -> None:
    page = window.open(VIEWS["search"])
    expect(page.locator(".hit").first).to_be_visible()
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.locator(".mapbar .lit")).to_contain_text(re.compile(r"\d+ hits for “number of standard tableaux"))
    assert "q=number" in page.url
    page.locator("canvas").focus()
    page.keyboard.press("n")  # names the best hit
    expect(page.locator(".tip")).to_contain_text("tableaux")
    page.get_by_role("button", name="Show no search").click()
    expect(page.locator(".mapbar .lit")).to_be_hidden()
    page.get_by_label("Find on the map").fill("Bailey chain")
    page.keyboard.press("Enter")
    expect(page.locator(".mapbar .lit")).to_contain_text("hits for “Bailey chain”")
    page = window.open(VIEWS["bridge"])
    page.get_by_role("button", name="weaker").click()
    page.locator(".told").get_by_role("link", name="on the map").first.click()
    expect(page.locator(".mapbar .lit")).to_contain_text("Path Bailey pair →")


def test_fingers_move_and_pinch_a_map_of_100_000_points(browser: Any, notes: str) -> None:
    opened = Window(browser, notes, is_mobile=True, has_touch=True)
    content = json.dumps(synthetic_map(100_000))
    opened.page.route(f"{notes}/map", lambda route: route.fulfill(body=content, content_type="application/json"))
    page = opened.open(VIEWS["map"])
    expect(page.locator(".regions li").first).to_be_visible()
    assert page.evaluate(COLOURS) > 8
    box = page.locator("canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = opened.context.new_cdp_session(page)

    def touch(kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x + dx, "y": y + dy, "id": number} for number, (dx, dy) in enumerate(places)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    before = page.evaluate("() => document.querySelector('canvas').toDataURL()")
    touch("touchStart", (0, 0))
    for step in range(1, 5):
        touch("touchMove", (20 * step, 10 * step))
    touch("touchEnd")
    page.wait_for_function("(before) => document.querySelector('canvas').toDataURL() !== before", arg=before)
    touch("touchStart", (-30, 0), (30, 0))
    for step in range(1, 5):
        touch("touchMove", (-30 - 15 * step, 0), (30 + 15 * step, 0))
    touch("touchEnd")
    page.wait_for_function("() => Number(document.querySelector('canvas').dataset.zoom) > 2")
    expect(page.locator("canvas")).to_be_visible()  # no finger opened a passage
    opened.context.close()
    assert opened.wrong == []


def test_without_a_language_model_ask_says_so_and_shows_passages(window: Window) -> None:
    page = window.open(VIEWS["ask"])
    expect(page.locator(".notice")).to_contain_text("No language model is configured")
    assert page.locator(".cited .hit").count() == 8


ANSWER = """event: passages
data: {"question": "q", "note": "", "passages": [{"number": 1, "id": "rsk#thm:rsk", "kind": "theorem", "title": "Knuth",
data: "document": "rsk", "section": "", "text": "x", "html": "<p>x</p>", "cut": false, "score": 1}]}

event: text
data: {"text": "It is a bijection [1]. It is <b>blue</b> [7]. And"}

event: sentence
data: {"begin": 0, "end": 22, "text": "It is a bijection [1].", "citations": [{"number": 1, "id": "rsk#thm:rsk",
data: "support": 0.9, "flag": ""}], "flags": []}

event: sentence
data: {"begin": 23, "end": 45, "text": "It is <b>blue</b> [7].", "citations": [{"number": 7, "id": null,
data: "support": null, "flag": "missing"}], "flags": ["missing"]}

event: done
data: {"answer": "", "model": "small", "sentences": 2, "supported": 1}

"""


def test_an_answer_cites_passages_and_marks_what_it_cannot_prove(window: Window) -> None:
    window.page.route("**/ask", lambda route: route.fulfill(content_type="text/event-stream", body=ANSWER))
    page = window.open("/view/ask?q=what+is+it")
    expect(page.locator(".answer .text")).to_have_text(
        "It is a bijection [1]. It is <b>blue</b> [7].names a passage that does not exist And"
    )
    expect(page.locator(".answer span.doubted")).to_contain_text("blue")
    expect(page.locator(".answer")).to_contain_text("1 of 2 sentences supported")
    page.locator(".answer sup a").click()
    expect(page.locator("h1")).to_contain_text("Knuth")


def test_health_tells_what_is_there(window: Window) -> None:
    page = window.open(VIEWS["health"])
    expect(page.locator("main")).to_contain_text("Everything is up to date")
    expect(page.locator("main")).to_contain_text("lemmata-nano")
    assert page.locator(".bars tr").count() > 10


# ---------------------------------------------------------------- for everybody


def test_the_first_view_is_small(window: Window) -> None:
    page = window.open(VIEWS["search"])
    expect(page.locator(".hit math").first).to_be_visible()
    page.evaluate("() => document.fonts.ready.then(() => 0)")
    files = sum(path.stat().st_size for path in PAGE.iterdir() if f"{window.address}/page/{path.name}" in window.sizes)
    sizes = page.evaluate("() => performance.getEntries().map(entry => [entry.name, entry.transferSize || 0])")
    assert files > 20_000
    fonts = [size for name, size in sizes if name.endswith(".woff2")]
    assert len(fonts) == 1
    assert fonts[0] < LARGEST_FONT
    assert sum(size for _, size in sizes) - fonts[0] < LARGEST_FIRST_VIEW


def test_formulas_have_the_font_of_the_page(window: Window) -> None:
    """It has signs that fonts of a stock machine lack, and braces that stretch."""
    page = window.open(VIEWS["search"])
    assert page.evaluate("() => document.fonts.load('16px Mathematics').then((fonts) => fonts.length)") == 1
    assert page.evaluate("() => document.fonts.check('16px Mathematics', '∖𝔽⟹')")
    heights = page.evaluate(
        """() => [1, 5].map((rows) => {
            const box = document.createElementNS("http://www.w3.org/1998/Math/MathML", "math");
            const row = "<mtr><mtd><mn>1</mn></mtd></mtr>";
            box.innerHTML = `<mrow><mo stretchy="true">{</mo><mtable>${row.repeat(rows)}</mtable></mrow>`;
            document.body.append(box);
            return box.querySelector("mo").getBoundingClientRect().height;
        })"""
    )
    assert heights[1] > 3 * heights[0] > 0


def test_no_view_is_wider_than_a_phone(browser: Any, notes: str) -> None:
    opened = Window(browser, notes, is_mobile=True, has_touch=True)
    opened.page.set_viewport_size({"width": 360, "height": 740})
    unnamed = """() => [...document.querySelectorAll("button, input, select, a[href], summary")].filter((one) =>
        one.checkVisibility() && !one.textContent.trim() && !one.getAttribute("aria-label") && !one.labels?.length)
        .map((one) => one.outerHTML)"""
    for view, path in VIEWS.items():
        page = opened.open(path)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 360, (view, scheme)
        assert page.evaluate(unnamed) == [], view
        assert page.locator("h1").count() == 1, view
    opened.context.close()
    assert opened.wrong == []


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("place", [0, 1, 2], ids=["light", "dark by system", "dark by choice"])
def test_text_can_be_read_on_its_ground(place: int) -> None:
    styles = (PAGE / "page.css").read_text(encoding="utf-8")
    block = re.findall(r"--paper: #[^}]*", styles)[place]
    colours = {name: f"#{''.join(2 * c for c in value)}" if len(value) == 3 else f"#{value}"
               for name, value in re.findall(r"--([\w-]+): #([0-9a-f]{3,6});", block)}  # fmt: skip
    for ink in ("ink", "soft", "accent", "warn", "result", "term", "example", "log", "text"):
        for ground in ("paper", "card"):
            light, dark = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


def test_the_theme_can_be_chosen_and_stays(window: Window) -> None:
    page = window.open("/")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(ground) != light
    page.reload()
    assert page.evaluate(ground) != light


# ---------------------------------------------------------------- when something is wrong


def test_an_unknown_view_is_told(window: Window) -> None:
    page = window.open("/view/nothing")
    expect(page.get_by_role("alert")).to_contain_text("There is no view 'nothing'")


def test_a_server_that_went_away_is_told(browser: Any, notes: str) -> None:
    opened = Window(browser, notes)
    page = opened.open("/")
    opened.context.set_offline(True)
    page.locator("#query").fill("tableaux")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    opened.context.set_offline(False)
    expect(page.locator(".hit").first).to_be_visible()  # it was asked again
    opened.context.close()


def test_a_server_with_a_token_asks_for_it(browser: Any, tmp_path: Path) -> None:
    project = make_workspace(tmp_path, {"a.md": "# Sponges\n\nA wet sponge absorbs water.\n"}, index="lexical")
    with serving(project.root, token="a-long-secret-token") as address:
        opened = Window(browser, address)
        page = opened.page
        page.goto(address + "/?q=sponge")
        page.get_by_role("textbox", name="Token").fill("a-long-secret-token")
        page.get_by_role("button", name="Continue").click()
        expect(page.locator(".hit")).to_have_count(1)
        opened.context.close()


HOSTILE: dict[str, str | bytes] = {
    "<img src=x onerror=alert(3)>.tex": rf"""\documentclass{{article}}\newtheorem{{theorem}}{{Theorem}}
\title{{Zebras {ATTACK}}}\author{{{ATTACK}}}\begin{{document}}
\section{{Stripes {ATTACK}}}
\begin{{theorem}}[Zebra {ATTACK}]\label{{"><svg onload=alert(4)>}}
Every \emph{{striped zebra}} {ATTACK} grazes, $x<y$ and $\text{{<img src=x onerror=alert(5)>}}$ and
$\href{{javascript:alert(6)}}{{z}}$ and $</math><script>alert(7)</script>$ by Theorem \ref{{two}}.\end{{theorem}}
\begin{{proof}}{ATTACK} by Theorem \ref{{two}}.\end{{proof}}
\begin{{theorem}}\label{{two}}A striped zebra is \emph{{a horse {ATTACK}}}.\end{{theorem}}
\begin{{definition}}A \emph{{striped zebra}} is an animal {ATTACK}.\end{{definition}}
\end{{document}}""",
    "records.jsonl": '{"id": "javascript:alert(8)//<script>alert(9)</script>", '
    '"title": "Zebra <script>alert(10)</script>", "text": '
    '"A zebra with <b onmouseover=alert(11)>stripes</b> and \\"quotes\\" \' & more"}\n',
}


INJECTED = """() => [...document.querySelectorAll("main *")].filter((one) =>
    one.matches("script, img, iframe, object, embed, form[action]") ||
    (one.matches("svg") && !one.matches(".graph, .bar, .diagram, .timebars")) ||
    [...one.attributes].some(({ name, value }) => name.startsWith("on") || (name === "href" && !value.startsWith("/"))))
    .map((one) => one.outerHTML)"""


def test_two_browsers_follow_a_folder_that_changes(browser: Any, tmp_path: Path) -> None:
    folder = write_papers(tmp_path / "trees", *NAMES)
    project = make_workspace(tmp_path, folder, index="lexical")
    with served.serving(project.root, watch=0.05) as client:
        windows = [Window(browser, str(client.base_url)) for _ in range(2)]
        for each in windows:
            each.open("/?q=bound+for+the+girth&retriever=lexical")
            expect(each.page.locator(".hit").first).to_contain_text("girth")
        write_papers(folder, "leafage")
        project.ingest([folder])
        project.index(dense=False)
        wait_until(lambda: client.get("/health").json()["documents"] == len(NAMES) + 1)
        for each in windows:
            each.page.locator("#query").fill("bound for the leafage")
            each.page.locator("#query").press("Enter")
            expect(each.page.locator(".hit").first).to_contain_text("leafage")
        first, second = (each.page.locator(".hit").first.get_attribute("data-id") for each in windows)
        assert first == second
        for each in windows:
            each.context.close()
            assert each.wrong == []


def test_a_hostile_corpus_stays_text(browser: Any, tmp_path: Path) -> None:
    project = made(tmp_path, HOSTILE)
    with contextlib.closing(project.corpus) as corpus:
        ids = corpus.ids()
        documents = [document.id for document in corpus.documents()]
    assert any("<" in identity for identity in ids)
    concepts = [record["id"] for record in project.listing("concepts")]
    with serving(tmp_path / "w") as address:
        opened = Window(browser, address)
        paths = ["/", "/?q=zebra", "/view/health", "/view/map?by=document"]
        paths += [f"{view}?q={quote(ATTACK)}" for view in ("/", "/view/ask")]
        paths += [f"/view/passage/{quote(identity, safe='')}" for identity in ids]
        paths += [f"/view/document/{quote(identity, safe='')}" for identity in documents]
        paths += [f"/view/concept/{quote(identity, safe='')}" for identity in concepts]
        paths.append(f"/view/bridge?from={quote(ATTACK)}&to={quote(ids[-1], safe='')}")
        for path in paths:
            page = opened.open(path)
            assert page.evaluate(INJECTED) == [], path
        opened.open("/?q=zebra")
        assert "<script>alert(2)</script>" in opened.page.locator("main").inner_text()
        opened.context.close()
        assert opened.wrong == []


def test_the_page_takes_html_from_the_server_in_one_place_only() -> None:
    places = [
        (path.name, line.strip())
        for path in PAGE.glob("*.js")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", line)
    ]
    assert places == [("dom.js", "element.innerHTML = html;")]
    markup = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://", markup)
    assert not re.search(r"\son\w+=|\sstyle=", markup)
