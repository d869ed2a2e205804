"""The page in German: every fixed text has its German form, and what comes from the corpus stays as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.test_page import INJECTED, PAGE, VIEWS
from tests.window import ATTACK, Window, expect, made, serving

from lemmata.core.types import CONCEPT_KINDS
from lemmata.latex.kinds import STATEMENTS
from lemmata.search.names import RETRIEVERS
from lemmata.server.background import Background

_SOURCE = (PAGE / "german.js").read_text(encoding="utf-8").partition("export const SAID")
LITERAL = r'"((?:[^"\\]|\\.)*)"'
GERMAN, SAID = (
    {
        (quoted or bare): german
        for quoted, bare, german in re.findall(rf"^  (?:{LITERAL}|(\w+)): {LITERAL},$", source, re.MULTILINE)
    }
    for source in (_SOURCE[0], _SOURCE[2])
)
SCRIPTS = "\n".join(path.read_text(encoding="utf-8") for path in PAGE.glob("*.js") if path.name != "german.js")
_OUTSIDE = r"<(noscript|title|code|kbd)\b.*?</\1>|<svg.*?</svg>|<span id.*?</span>"
MARKUP = re.sub(_OUTSIDE, "<>", (PAGE / "index.html").read_text(encoding="utf-8"), flags=re.DOTALL)


def used_texts() -> set[str]:
    """What the page shows of its own, in English."""
    calls = re.findall(r'\b(?:t|parts)\(((?:[^()"]|"[^"]*")*?)(?:, \{|, values|\))', SCRIPTS)
    texts = {text for call in calls for text in re.findall(LITERAL, call)}
    counts = re.findall(r"counted\((?:[^()]|\([^()]*\))*?, ([^()]*)\)", SCRIPTS)
    nouns = {noun for call in counts for noun in re.findall(LITERAL, call)}
    texts |= nouns | {f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s" for noun in nouns}
    inside = (text.strip() for text in re.findall(r">([^<>]*[A-Za-z][^<>]*)<", MARKUP))
    texts |= {text for text in inside if text != "lemmata"}
    texts |= set(re.findall(r'(?:aria-label|title)="([^"]+)"', MARKUP))
    texts |= {kind.capitalize() for kind in STATEMENTS} | set(CONCEPT_KINDS) | set(Background.STEPS)
    return texts | {text for kind in RETRIEVERS.values() for text in (kind.title, kind.description)}


def test_every_text_of_the_page_has_its_german_form() -> None:
    assert used_texts() - GERMAN.keys() == set()
    values = {text: [sorted(re.findall(r"\{\w+\}", each)) for each in (text, GERMAN[text])] for text in GERMAN}
    assert {text for text, (english, german) in values.items() if english != german} == set()


def said_by_the_code() -> str:
    """All texts of the package, with a slot for each value."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (PAGE.parents[1]).rglob("*.py")]
    return "\n".join(str(node.value) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))


def test_messages_in_german_are_those_that_the_server_says() -> None:
    said = said_by_the_code().casefold()
    parts = {part.strip(" ;:'").casefold() for text in SAID for part in re.split(r"\{\w+\}", text)}
    assert [part for part in sorted(parts) if part not in said] == []
    slots = {text: [set(re.findall(r"\{\w+\}", each)) for each in (text, SAID[text])] for text in SAID}
    assert {text for text, (english, german) in slots.items() if not german <= english} == set()


def test_what_is_still_being_made_is_told_in_german_and_is_not_up_to_date(plant: Window) -> None:
    page = plant.page
    still = {"what": "", "done": 0, "total": None, "rate": None, "seconds": 1.0}
    steps = [{"name": name, "state": "ready", **still} for name in ("files", "words")]
    moving = {"what": "encoding (lemmata-mini), about 9 min", "done": 100, "total": 3700, "rate": 20.0, "seconds": 5.0}
    steps += [{"name": "vectors", "state": "now", **moving}, {"name": "map", "state": "next", **still}]
    answer = {"state": "working", "line": "Ready: files", "steps": steps, "problems": [], "served": True}
    page.route("**/v1/progress", lambda route: route.fulfill(json={**answer, "generation": 1}))
    page = plant.open("/view/health")
    expect(page.locator("#progress")).to_have_text(
        "Fertig: Dateien, Wörter. Jetzt: Vektoren: Textstellen werden umgewandelt 100 von 3.700 (noch etwa 3 min)."
        " Danach: Karte."
    )
    expect(page.locator("main")).not_to_contain_text("auf dem neuesten Stand")
    expect(page.locator("main")).to_contain_text("der Rest wird noch gemacht")
    page.unroute("**/v1/progress")


def test_notes_of_reading_are_told_in_german(plant: Window) -> None:
    causes = {
        "no main file includes it": "keine Hauptdatei bindet es ein",
        "could not be read: it took more than 120 s": "nicht lesbar: es dauerte länger als 120 s",
        "a short text between statements left out, as 'We can now begin.' says nothing by itself;"
        " 1,237 repeated short texts left out, first 'Exercises'": "ein kurzer Text zwischen Aussagen ausgelassen:"
        " 'We can now begin.' sagt allein nichts; 1.237 wiederholte kurze Texte ausgelassen, zuerst 'Exercises'",
        "2 files with the suffix .docx are not read, first a.docx: files of office programs are not read:"
        " save it as PDF or as text": "2 Dateien mit der Endung .docx sind nicht gelesen, die erste ist a.docx:"
        " Dateien von Büroprogrammen werden nicht gelesen: speichern Sie sie als PDF oder als Text",
        "\\cref: 2 references without a target, for example 'a'": "\\cref: 2 Verweise ohne Ziel, zum Beispiel 'a'",
        "1 log names a location that is not in the hierarchy: 'P-9'": "1 Eintrag nennt einen Ort, den die Hierarchie"
        " nicht hat: 'P-9'",
        "something that nobody foresaw": "something that nobody foresaw",
    }
    page = plant.page
    health = page.request.get(f"{plant.address}/health").json()
    skips = [{"file": "a.tex", "line": 1, "cause": cause} for cause in causes]
    page.route(
        f"{plant.address}/health", lambda route: route.fulfill(json={**health, "skipped": len(skips), "skips": skips})
    )
    page = plant.open("/view/health")
    page.unroute(f"{plant.address}/health")
    assert page.locator("table.skips td:nth-child(2)").all_text_contents()[-len(causes) :] == list(causes.values())


_GROUPS = (Path(__file__).parent / "gruppen.tex").read_text(encoding="utf-8")
PLANT: dict[str, str | bytes] = {
    "gruppen.tex": _GROUPS.replace("\\title{", f"\\title{{{ATTACK}"),
    "tree.csv": "id,parent,description\nP,,Anlage\nP-K,P,Kolonnen\nP-K-1,P-K,Kolonne eins\n",
    "meldungen.csv": f"id,text,location,date\n1,Die Kolonne leckt {ATTACK},P-K-1,2024-05-01\n"
    "2,Pumpe an Kolonne eins getauscht,P-K-1,2024-05-03T14:30\n3,Kolonnen besichtigt,P-K,2024-05-02\n",
}


@pytest.fixture(scope="module")
def plant(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """A window of a German browser on German texts."""
    folder = tmp_path_factory.mktemp("german")
    with serving(made(folder, PLANT).root) as address:
        opened = Window(browser, address, locale="de-DE")
        yield opened
        opened.context.close()


SHOWN = """() => {
    const texts = [document.title];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode())
        if (!node.parentElement.closest("script, noscript, kbd, code, .mono, .math"))
            texts.push(node.data);
    for (const name of ["aria-label", "title", "placeholder"])
        for (const one of document.querySelectorAll(`body [${name}]`)) texts.push(one.getAttribute(name));
    return texts.join(" \\n ");
}"""


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{2,}", re.sub(r"\{\w+\}", "", text).casefold()))


def test_a_german_browser_sees_no_english_word_of_the_page(plant: Window) -> None:
    corpus = " ".join(map(str, PLANT.values()))
    english = words(" ".join(GERMAN)) - words(" ".join(GERMAN.values())) - words(corpus) - {"lemmata", "cite"}
    assert {"the", "passages", "search", "hits"} <= english
    satz = quote("gruppen#satz:lagrange", safe="")
    paths = [
        "/", "/?q=Ordnung+einer+Untergruppe", "/?q=Kolonne&retriever=lexical", f"/?like={satz}",
        "/?kind=theorem&since=2020",
        f"/view/passage/{satz}", "/view/passage/2", "/view/document/gruppen",
        "/view/document/gruppen?read=1", "/view/document/location%3AP-K", "/view/concept/concept%3Auntergruppe",
        "/view/bridge", "/view/bridge?from=concept%3Auntergruppe&to=concept%3Agruppenordnung", "/view/map", "/view/ask",
        "/view/health", "/view/nichts", f"/view/passage/{satz}x",
    ]  # fmt: skip
    left = {}
    for path in paths:
        page = plant.open(path)
        shown = page.evaluate(SHOWN)
        if words(shown) & english:
            left[path] = words(shown) & english
        assert "undefined" not in shown, path
        assert "{" not in shown, path
        assert page.evaluate(INJECTED) == [], path
        assert page.locator("html").get_attribute("lang") == "de"
    assert left == {}
    assert all("404" in problem for problem in plant.wrong)


def test_numbers_and_dates_are_german_and_the_corpus_is_not_translated(plant: Window) -> None:
    page = plant.open("/?q=Pumpe+getauscht&retriever=lexical")
    expect(page.locator(".hit h3").first).to_contain_text("03.05.2024, 14:30")
    page = plant.open("/")
    expect(page.locator("#explained")).to_contain_text("0,4 Bedeutung + 0,6 Wörter")
    page = plant.open("/?q=Lagrange&retriever=lexical")
    expect(page.locator(".hit .kind").first).to_have_text("Satz 1.6")


def test_german_dates_filter(plant: Window) -> None:
    page = plant.open("/?q=Pumpe&since=2023")
    since = page.locator('[data-facet="date"] input').first
    days = {"1.5.2024": "2024-05-01", "4.2024": "2024-04", "2024": "2024", "2024-05-01": "2024-05-01"}
    for typed, asked in days.items():
        since.fill(typed)
        since.press("Enter")
        page.wait_for_url(f"**since={asked}")
        expect(page.locator(".results")).not_to_have_attribute("aria-busy", "true")
    expect(since).to_have_value("01.05.2024")
    since.fill("Mai")
    assert since.evaluate("(field) => field.matches(':invalid')")


def test_other_browsers_see_english(window: Window) -> None:
    page = window.open(VIEWS["home"])
    assert page.locator("html").get_attribute("lang") == "en"
    expect(page.get_by_role("button", name="Search", exact=True)).to_be_visible()
    assert f"{window.address}/page/german.js" not in window.sizes
