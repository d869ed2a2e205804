"""Nobody is left out: axe-core finds no violation in any view, in light and in dark colours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.test_page import VIEWS
from tests.window import Window

AXE = Path(os.environ.get("AXE") or Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js")
if not AXE.exists():
    pytest.skip("axe-core is not installed: npm install --no-save axe-core", allow_module_level=True)
MORE = {
    "reading": "/view/document/rsk?read=1",
    "more like this": "/?like=rsk%23thm%3Arsk",
    "start of a bridge": "/view/bridge",
    "unknown view": "/view/nothing",
    "unknown id": "/view/passage/hook-lenght%23thm%3Ahook-formula",
    "before a question": "/view/ask",
    "hits on the map": "/view/map?q=hook",
}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
IN_PLANT = {"plant": "/", "location": "/view/document/location%3AP-K", "log": "/view/passage/5", "map": "/view/map"}


@pytest.mark.parametrize("corpus", ["notes", "plant"])
def test_axe_finds_nothing(browser: Any, request: pytest.FixtureRequest, corpus: str) -> None:
    """In dark colours, which are a matter of CSS, only rules about colours can find more."""
    opened = Window(browser, request.getfixturevalue(corpus), color_scheme="light")
    found = {}
    for view, path in (IN_PLANT if corpus == "plant" else {**VIEWS, **MORE}).items():
        page = opened.open(path)
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for scheme, rules in {"light": {}, "dark": COLOURS}.items():
            page.emulate_media(color_scheme=scheme)
            violations = page.evaluate("(rules) => axe.run(rules).then((report) => report.violations)", rules)
            if violations:
                found[view, scheme] = [
                    (one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in violations
                ]
    opened.context.close()
    assert found == {}
