"""The report of a training run: its history on disk, its page, its picture."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.make import polylines

from lemmata.train.report import History, Point, training_report, write_history

HISTORY = History(
    losses=[(0, 2.0), (50, 1.0), (100, 0.5)],
    rates=[(0, 0.0), (50, 2e-5), (100, 1e-5)],
    validations=[(0, {"MRR@10": 0.2}), (50, {"MRR@10": 0.4}), (100, {"MRR@10": 0.3})],
    best_step=50,
    sweep=[Point(1.0, 0.4, 0.6), Point(0.0, 0.2, 0.7), Point(0.5, 0.35, 0.69)],
    share=0.5,
    options={"rate": 2e-5, "note": "<b>&"},
    sets={"pairs": 12345},
    seconds=3725.0,
    pairs_per_second=812.4,
    name="mini & <co>",
)


def page(history: History, folder: Path) -> str:
    training_report(history, folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def charts(text: str) -> dict[str, ElementTree.Element]:
    """The charts of a page by title."""
    drawn = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    return {svg.attrib["aria-label"]: svg for svg in drawn}


# ---------------------------------------------------------------- history


def test_a_history_is_json_on_disk(tmp_path: Path) -> None:
    write_history(tmp_path / "history.json", HISTORY)
    content = json.loads((tmp_path / "history.json").read_text())
    assert [tuple(entry) for entry in content["losses"]] == HISTORY.losses
    assert [(step, measures) for step, measures in content["validations"]] == HISTORY.validations
    assert content["best_step"] == HISTORY.best_step


def test_a_loss_that_is_not_finite_is_null(tmp_path: Path) -> None:
    write_history(tmp_path / "history.json", History(losses=[(1, math.inf), (2, 1.5)]))
    assert json.loads((tmp_path / "history.json").read_text())["losses"] == [[1, None], [2, 1.5]]


def test_a_history_is_read_from_the_training_log() -> None:
    log = [
        {"step": 0, "eval_slogans/MRR@10": 0.3},
        {"step": 10, "loss": 2.5, "learning_rate": 1e-5},
        {"step": 20, "loss": 1.5, "learning_rate": 2e-5},
        {"step": 20, "eval_slogans/MRR@10": 0.4},
    ]
    history = History.from_log(log)
    assert history.losses == [(10, 2.5), (20, 1.5)]
    assert history.rates == [(10, 1e-5), (20, 2e-5)]
    assert history.validations == [(0, {"slogans/MRR@10": 0.3}), (20, {"slogans/MRR@10": 0.4})]


# ---------------------------------------------------------------- page


def test_the_chosen_step_is_marked_in_every_chart(tmp_path: Path) -> None:
    drawn = charts(page(HISTORY, tmp_path))
    assert list(drawn) == ["Loss", "Learning rate", "Validation"]
    for svg in drawn.values():
        [curve], [mark] = polylines(svg, "curve"), polylines(svg, "mark")
        assert {x for x, _ in mark} == {curve[1][0]}


def test_the_page_shows_sets_options_time_and_speed(tmp_path: Path) -> None:
    text = page(HISTORY, tmp_path)
    for fact in ("12,345", "2e-05", "1:02:05", "812 pairs per second", "weights of step 50", "0.5 trained, 0.5 base"):
        assert fact in text, fact
    assert re.search(r'<tr class="best"><td>50</td><td class="n">0\.4000</td></tr>', text)
    shares = re.findall(r"<tr( class=\"best\")?><td>([\d.]+)</td><td class=\"n\">[\d.]+</td><td class=\"n\">", text)
    assert shares == [("", "0"), (' class="best"', "0.5"), ("", "1")]
    assert '<td class="n">0.3500</td><td class="n">0.6900</td>' in text


def test_the_page_is_escaped_and_loads_nothing_from_outside(tmp_path: Path) -> None:
    text = page(HISTORY, tmp_path)
    assert "<title>Training of mini &amp; &lt;co&gt;</title>" in text
    assert "<b>" not in text
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|<script|<link|<img|@import|url\(", text)


def test_a_run_that_has_just_begun_has_a_page(tmp_path: Path) -> None:
    assert charts(page(History(), tmp_path)) == {}
    [chart] = charts(page(History(losses=[(1, 0.7)]), tmp_path)).values()
    [curve] = polylines(chart, "curve")
    assert len(curve) == 1
    assert all(math.isfinite(number) for number in curve[0])


def test_warnings_stand_above_the_curves(tmp_path: Path) -> None:
    text = page(History(losses=[(1, 2.0), (2, math.nan), (3, 1.0)], best_step=0), tmp_path)
    assert "The loss was not finite at 1 of 3 steps, first at step 2" in text
    assert "No step was better than the base" in text
    assert "nan" not in re.sub(r"<style>.*</style>", "", text, flags=re.DOTALL)
    [curve] = polylines(charts(text)["Loss"], "curve")
    assert len(curve) == 2


def test_many_steps_are_averaged(tmp_path: Path) -> None:
    losses = [(step, float(step % 2)) for step in range(100_000)]
    [curve] = polylines(charts(page(History(losses=losses), tmp_path))["Loss"], "curve")
    assert 200 <= len(curve) <= 400
    assert len({y for _, y in curve}) == 1  # every mean is 0.5


def test_the_curves_are_a_picture_too_and_an_old_one_does_not_stay(tmp_path: Path) -> None:
    training_report(HISTORY, tmp_path)
    picture = ElementTree.parse(tmp_path / "curves.svg").getroot()
    drawn = picture.findall("{http://www.w3.org/2000/svg}svg")
    assert [chart.attrib["aria-label"] for chart in drawn] == ["Loss", "Learning rate", "Validation"]
    training_report(History(), tmp_path)
    assert not (tmp_path / "curves.svg").exists()
