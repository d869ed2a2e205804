"""What a reader sees of one thing: hover cards, names in links, reading on, drawings that open, contents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.window import Window, expect, made, serving

LEMMA = "/view/passage/" + quote("bailey/main#lem:bailey", safe="")
BOOK: dict[str, str | bytes] = {
    "book.tex": r"""\documentclass{book}\newtheorem{lemma}{Lemma}[chapter]\newtheorem{definition}{Definition}[chapter]
\title{On sponges}\author{Ada Wet}\begin{document}
\chapter{Water}\section{Rain}\begin{definition}\label{wet}A thing is \emph{wet} if water sticks to it.\end{definition}
\begin{lemma}[Puddles]\label{puddle}Every puddle is wet, and $x^2\in\{0\}$.\end{lemma}
\section{Sea}\begin{lemma}\label{sea}The sea is wet by Lemma \ref{puddle}.\end{lemma}
\chapter{Sponges}\section{Yellow sponges}
\begin{lemma}\label{sponge}A wet sponge is yellow.\end{lemma}
\begin{proof}By Lemma \ref{sea} and Definition \ref{wet}.\end{proof}
\chapter{Fish}\begin{lemma}\label{fish}A fish is wet in the sea of Lemma \ref{sea}.\end{lemma}
\end{document}"""
}


@pytest.fixture(scope="module")
def book(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A window on a small book."""
    with serving(made(tmp_path_factory.mktemp("book"), BOOK).root) as address:
        opened = Window(browser, address)
        yield opened
        opened.context.close()
        assert opened.wrong == []


# ---------------------------------------------------------------- references


def test_a_reference_shows_its_statement_to_who_points_at_it(book: Window) -> None:
    page = book.open("/view/passage/" + quote("book#sea", safe=""))
    card = page.locator("#hovercard")
    expect(card).to_be_hidden()
    reference = page.locator(".text a", has_text="1.1")
    reference.hover()
    expect(card).to_be_visible()
    expect(card).to_contain_text("Puddles")
    expect(card).to_contain_text("Every puddle is wet")
    expect(card).to_contain_text("On sponges")
    assert card.locator("math").count() == 1
    assert reference.get_attribute("aria-describedby") == "hovercard"
    page.mouse.move(5, 500)
    expect(card).to_be_hidden()


def test_a_reference_shows_its_statement_to_the_keyboard(book: Window) -> None:
    page = book.open("/view/passage/" + quote("book#sea", safe=""))
    page.keyboard.press("Tab")
    page.locator(".text a").first.focus()
    expect(page.locator("#hovercard")).to_contain_text("Every puddle is wet")
    page.keyboard.press("Escape")
    expect(page.locator("#hovercard")).to_be_hidden()
    expect(page.locator("h1")).to_contain_text("Lemma 1.2")


def test_links_to_what_stands_beside_have_names_and_numbers(book: Window) -> None:
    page = book.open("/view/passage/" + quote("book#sea", safe=""))
    expect(page.locator("[rel=prev]")).to_contain_text("Lemma 1.1")
    expect(page.locator("[rel=prev]")).to_contain_text("Puddles")
    expect(page.locator("[rel=next]")).to_contain_text("Lemma 2.1")
    expect(page.locator("[rel=next]")).to_contain_text("A wet sponge")
    links = page.locator("article a, aside a").all_text_contents()
    assert not [text for text in links if re.search(r"book[@#]|^(sea|puddle|sponge|fish)$", text)]


# ---------------------------------------------------------------- reading on


def test_a_document_is_read_on_from_a_passage(book: Window) -> None:
    page = book.open("/view/passage/" + quote("book#sea", safe=""))
    page.get_by_role("link", name="Read on from here").click()
    expect(page.locator(".stated").first).to_contain_text("The sea is wet")
    expect(page.locator(".stated").nth(1)).to_contain_text("A wet sponge is yellow")
    expect(page.locator(".stated .proof")).to_have_count(1)
    expect(page.locator(".contents [aria-current]")).to_contain_text("Sea")
    page.get_by_role("link", name="What stands before").click()
    expect(page.locator(".stated").first).to_contain_text("A thing is wet")


def test_a_document_has_its_contents_as_a_tree_with_the_position(book: Window) -> None:
    page = book.open("/view/document/book")
    expect(page.locator("h1")).to_contain_text("Book")
    tree = page.locator(".contents")
    expect(tree.locator("> li")).to_have_count(3)
    expect(tree.get_by_text("Yellow sponges")).to_be_hidden()
    twist = tree.get_by_role("button", name="Below Sponges")
    assert twist.get_attribute("aria-expanded") == "false"
    twist.click()
    tree.get_by_text("Yellow sponges").click()
    expect(tree.locator("[aria-current]")).to_contain_text("Yellow sponges")
    expect(page.locator(".position")).to_contain_text("of 5")
    expect(page.locator(".outline li", has_text="A wet sponge")).to_contain_text("book.tex:7")


# ---------------------------------------------------------------- drawings


def test_the_neighbourhood_has_no_siblings_opens_by_click_and_is_dragged(book: Window) -> None:
    page = book.open("/view/passage/" + quote("book#sea", safe=""))
    boxes = page.locator("svg.graph .box")
    expect(boxes.first).to_be_visible()
    words = page.locator("svg.graph .words").all_inner_texts()
    assert words
    assert not {"part of", "before"} & {*words}
    expect(page.locator(".key")).to_contain_text("results")
    before = boxes.count()
    page.get_by_role("button", name="Show the neighbours of Lemma 2.1").click()
    page.wait_for_function(f"() => document.querySelectorAll('svg.graph .box').length > {before}")
    page.evaluate("() => new Promise((done) => setTimeout(done, 500))")  # longer than a card waits
    asked = page.evaluate("() => performance.getEntriesByType('resource').map((one) => one.name)")
    assert not [address for address in asked if "/cards/" in address]  # of the box that came under the mouse
    box = page.locator('svg.graph .box[data-id="book#fish"]')
    at = box.bounding_box()
    page.mouse.move(at["x"] + 40, at["y"] + 20)
    page.mouse.down()
    page.mouse.move(at["x"] + 10, at["y"] - 10)  # in one step, which ends outside of the box
    page.mouse.up()
    moved = box.bounding_box()
    assert (moved["x"] - at["x"], moved["y"] - at["y"]) == (pytest.approx(-30, abs=3), pytest.approx(-30, abs=3))
    expect(page.locator("h1")).to_contain_text("Lemma 1.2")  # a drag is no click
    box.click()
    expect(page.locator("h1")).to_contain_text("Lemma 3.1")


def test_a_drawing_is_moved_while_a_button_is_down_only(book: Window) -> None:
    page = book.open("/view/passage/" + quote("book#sea", safe=""))
    drawing = page.locator("svg.graph")
    expect(drawing.locator(".box").first).to_be_visible()
    drawing.scroll_into_view_if_needed()
    at = drawing.bounding_box()
    page.mouse.move(at["x"] + 5, at["y"] + 5)
    before = drawing.get_attribute("viewBox")
    page.mouse.down()
    page.mouse.move(at["x"] + 5, at["y"] - 40)  # in one step, which ends outside of the drawing
    page.mouse.up()
    page.mouse.move(at["x"] + 60, at["y"] + 20)
    page.mouse.move(at["x"] + 90, at["y"] + 30)
    assert drawing.get_attribute("viewBox") == before


OVERLAPS = """() => {
    const parts = [...document.querySelectorAll("svg.graph .words, svg.graph .box rect")];
    const boxes = parts.map((one) => one.getBoundingClientRect());
    const meet = (one, other) => one.left < other.right - 1 && other.left < one.right - 1 &&
        one.top < other.bottom - 1 && other.top < one.bottom - 1;
    return boxes.flatMap((one, place) => boxes.slice(place + 1).filter((other) => meet(one, other)));
}"""


def test_a_predicted_link_is_drawn_as_one_with_its_probability(browser: Any, plant: str) -> None:
    opened = Window(browser, plant)
    page = opened.open("/view/passage/6")
    guess = page.locator("svg.graph .guess")
    expect(guess).to_contain_text("90 %")
    assert guess.locator(".line").evaluate("(line) => getComputedStyle(line).strokeDasharray") != "none"
    expect(page.locator(".key")).to_contain_text("predicted")
    assert page.evaluate(OVERLAPS) == []
    opened.context.close()
    assert opened.wrong == []


def test_words_in_a_drawing_do_not_overlap(window: Window) -> None:
    page = window.open(LEMMA)
    expect(page.locator("svg.graph .box").first).to_be_visible()
    assert page.locator("svg.graph .words").count() > 3
    assert page.evaluate(OVERLAPS) == []
    before = page.locator("svg.graph .box").count()
    page.locator("svg.graph .open").first.click()
    page.wait_for_function(f"() => document.querySelectorAll('svg.graph .box').length > {before}")
    assert page.evaluate(OVERLAPS) == []


# ---------------------------------------------------------------- what is read, not its code

CITING: dict[str, str | bytes] = {
    "sphere.tex": r"""\documentclass{article}\newtheorem{theorem}{Theorem}\newtheorem{definition}{Definition}
\title{On $S^1$}\begin{document}\section{The circle $S^1$}
\begin{definition}\label{turn}A \emph{turn} is a point of $S^1$.\end{definition}
\begin{theorem}[Loops of $S^1$]\label{loops}A turn (of $S^1$) is a $p$-loop by Definition~\ref{turn} and
\cite{data:wet}.\end{theorem}
\begin{thebibliography}{9}\bibitem{data:wet} Ada Wet, On loops, 2019.\end{thebibliography}\end{document}""",
    "other.tex": r"""\documentclass{article}\newtheorem{theorem}{Theorem}\title{On waves}\begin{document}
\begin{theorem}\label{wave}A wave has a turn.\end{theorem}\end{document}""",
}


def test_no_view_shows_dollars_or_keys_of_cited_works(browser: Any, tmp_path: Path) -> None:
    with serving(made(tmp_path, CITING).root) as address:
        opened = Window(browser, address)
        turn = quote("concept:turn", safe="")
        paths = ["/", "/?q=loops", "/?like=sphere%23turn", "/view/document/sphere", "/view/document/sphere?read=1"]
        paths += [
            "/view/passage/sphere%23loops",
            "/view/passage/sphere%23turn",
            f"/view/concept/{turn}",
            "/view/bridge",
        ]
        paths += [f"/view/bridge?from={turn}&to=sphere%23loops", "/view/map", "/view/ask?q=loops", "/view/passage/lops"]
        for path in paths:
            page = opened.open(path)
            assert not re.search(r"\$|data:wet", page.locator("main").inner_text()), path
        page = opened.open("/view/passage/sphere%23loops")
        expect(page.locator(".text").first).to_contain_text("Definition 1 and [Wet 2019]")
        expect(page.locator(".text a", has_text="1")).to_have_attribute("href", "/view/passage/sphere%23turn")
        expect(page.locator(".beside .works")).to_contain_text("Ada Wet, On loops, 2019")
        signs = page.locator(".text .joined").all_inner_texts()
        assert [sign[-1] for sign in signs] == [")", "-"]
        page = opened.open(f"/view/concept/{turn}")
        expect(page.locator(".group", has_text="A wave")).to_contain_text("On waves")
        opened.context.close()


# ---------------------------------------------------------------- concepts


def test_a_concept_begins_with_its_definition_and_groups_its_passages(window: Window) -> None:
    page = window.open("/view/concept/" + quote("concept:bailey-pair", safe=""))
    expect(page.locator(".defining")).to_contain_text("Definition")
    expect(page.locator(".group h2").first).to_be_visible()
    names = [re.sub(r"\d+$", "", name).strip() for name in page.locator(".group h2").all_inner_texts()]
    assert len(names) == len({*names})
    expect(page.locator("svg.graph .box.here")).to_contain_text("Bailey pair")
    assert page.locator("svg.graph .box").count() > 1
    evidence = page.locator(".evidence a").all_inner_texts()
    assert evidence
    assert all(re.match(r"[A-Z][a-z]+( \d|$)", name) for name in evidence)


def test_the_definition_of_a_concept_is_whole(window: Window) -> None:
    page = window.open("/view/concept/" + quote("concept:hook-length", safe=""))
    expect(page.locator(".defining .math").first).to_contain_text("increase by one with each step to the right.)")
    expect(page.locator(".defining .display")).to_have_count(1)


def test_a_concept_without_a_definition_says_so(window: Window) -> None:
    concepts = window.page.request.get(f"{window.address}/concepts?k=100").json()["concepts"]
    found = [
        window.page.request.get(f"{window.address}/concepts/{quote(one['id'], safe='')}").json() for one in concepts
    ]
    undefined = next(one for one in found if not one["definition"])
    page = window.open("/view/concept/" + quote(undefined["id"], safe=""))
    expect(page.locator("article")).to_contain_text("No definition found.")


def test_the_first_line_of_a_document_says_what_it_is(browser: Any, tmp_path: Path) -> None:
    with serving(made(tmp_path, {"a.md": "# Sponges\n\nA wet sponge absorbs water.\n"}).root) as address:
        opened = Window(browser, address)
        expect(opened.open("/view/document/a").locator("h1")).to_contain_text("Notes")
        opened.context.close()
