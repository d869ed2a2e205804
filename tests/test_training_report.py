"""The report of a training run: its history survives the disk, its curves go where the numbers are."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.train.report import History, Point, _apart, _ticks, training_report, write_history

VALIDATIONS = [(0, {"MRR@10": 0.2}), (50, {"MRR@10": 0.4}), (100, {"MRR@10": 0.3})]


def history() -> History:
    return History(
        losses=[(0, 2.0), (50, 1.0), (100, 0.5)],
        rates=[(0, 0.0), (50, 2e-5), (100, 1e-5)],
        validations=list(VALIDATIONS),
        best_step=50,
        sweep=[Point(1.0, 0.4, 0.6), Point(0.0, 0.2, 0.7), Point(0.5, 0.35, 0.69)],
        share=0.5,
        options={"rate": 2e-5, "note": "<b>&"},
        sets={"pairs": 12345},
        seconds=3725.0,
        pairs_per_second=812.4,
        name="mini & <co>",
    )


def page(one: History, folder: Path) -> str:
    training_report(one, folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def charts(text: str) -> dict[str, ElementTree.Element]:
    found = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    return {svg.attrib["aria-label"]: svg for svg in found}


def lines(svg: ElementTree.Element, look: str) -> list[list[tuple[float, float]]]:
    """The points of every line that looks so."""
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]
        for line in svg.iter("polyline")
        if look in line.attrib["class"].split()
    ]


def ticks(svg: ElementTree.Element) -> dict[float, float]:
    """Values of the upright axis and where they stand."""
    return {
        float(text.text or ""): float(text.attrib["y"]) - 4
        for text in svg.iter("text")
        if text.attrib["text-anchor"] == "end" and text.attrib["class"] == "tick" and ":" not in (text.text or "")
    }


# ---------------------------------------------------------------- on disk


def test_a_history_is_plain_json_on_disk(tmp_path: Path) -> None:
    write_history(tmp_path / "history.json", history())
    content = json.loads((tmp_path / "history.json").read_text())
    assert [tuple(entry) for entry in content["losses"]] == history().losses
    assert [(step, measures) for step, measures in content["validations"]] == list(history().validations)
    assert content["best_step"] == history().best_step


def test_a_loss_that_is_no_number_is_null(tmp_path: Path) -> None:
    write_history(tmp_path / "history.json", History(losses=[(1, math.inf), (2, 1.5)]))
    assert json.loads((tmp_path / "history.json").read_text())["losses"] == [[1, None], [2, 1.5]]


def test_a_history_is_read_from_the_log_of_the_trainer() -> None:
    log = [
        {"step": 10, "loss": 2.5, "learning_rate": 1e-5, "epoch": 0.1},
        {"step": 20, "loss": 9.9, "learning_rate": 2e-5},
        {"step": 20, "eval_slogans/MRR@10": 0.4, "eval_runtime": 3.0, "eval_samples_per_second": 9.0},
        {"step": 20, "loss": 1.5, "learning_rate": 2e-5},  # after a resume
        {"step": 20, "train_runtime": 60.0, "train_loss": 2.0},
    ]
    found = History.from_log(log)
    assert found.losses == [(10, 2.5), (20, 1.5)]
    assert found.rates == [(10, 1e-5), (20, 2e-5)]
    assert found.validations == [(20, {"slogans/MRR@10": 0.4})]


# ---------------------------------------------------------------- the page


def test_a_curve_goes_where_its_numbers_are(tmp_path: Path) -> None:
    svg = charts(page(history(), tmp_path))["Loss"]
    [curve] = lines(svg, "curve")
    places = ticks(svg)
    [(top, high), (bottom, low)] = [max(places.items()), min(places.items())]
    for (_, y), (_, loss) in zip(curve, history().losses, strict=True):
        assert y == pytest.approx(low + (loss - bottom) / (top - bottom) * (high - low), abs=0.15)
    assert curve[1][0] == pytest.approx((curve[0][0] + curve[2][0]) / 2, abs=0.1)


def test_the_chosen_step_is_marked_in_every_chart_of_steps(tmp_path: Path) -> None:
    drawn = charts(page(history(), tmp_path))
    assert list(drawn) == ["Loss", "Learning rate", "Validation", "Averaging"]
    for title in ("Loss", "Learning rate", "Validation"):
        [curve], [mark] = lines(drawn[title], "curve"), lines(drawn[title], "mark")
        assert {x for x, _ in mark} == {curve[1][0]}
    assert lines(drawn["Averaging"], "mark") == []


def test_the_chosen_share_stands_out_in_the_sweep(tmp_path: Path) -> None:
    svg = charts(page(history(), tmp_path))["Averaging"]
    [curve] = lines(svg, "curve")
    assert [x for x, _ in curve] == sorted(x for x, _ in curve)  # by share, and more of it is better at home
    assert [y for _, y in curve] == sorted(y for _, y in curve)  # and worse elsewhere, which is further down
    assert [float(dot.attrib["r"]) for dot in svg.iter("circle")] == [3, 6, 3]


def test_the_page_tells_sets_options_time_and_speed(tmp_path: Path) -> None:
    text = page(history(), tmp_path)
    for fact in ("12,345", "2e-05", "1 h 2 min", "812 pairs a second", "weights of step 50", "0.5 of them trained"):
        assert fact in text, fact
    assert re.search(r'<tr class="best"><td>50</td><td class="n">0\.4000</td></tr>', text)
    assert re.search(r'<tr class="best"><td>0\.5</td><td class="n">0\.3500</td><td class="n">0\.6900</td></tr>', text)


def test_the_page_is_escaped_and_asks_for_nothing_from_outside(tmp_path: Path) -> None:
    text = page(history(), tmp_path)
    assert "<title>Training of mini &amp; &lt;co&gt;</title>" in text
    assert "<b>" not in text
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|<script|<link|<img|@import|url\(", text)


def test_a_run_that_has_just_begun_has_a_page(tmp_path: Path) -> None:
    assert charts(page(History(), tmp_path)) == {}
    [only] = charts(page(History(losses=[(1, 0.7)]), tmp_path)).values()
    [curve] = lines(only, "curve")
    assert len(curve) == 1
    assert all(math.isfinite(number) for number in curve[0])


def test_what_went_wrong_stands_above_the_curves(tmp_path: Path) -> None:
    text = page(History(losses=[(1, 2.0), (2, math.nan), (3, 1.0)], best_step=0), tmp_path)
    assert "The loss was not finite at 1 of 3 steps, first at 2" in text
    assert "No step was better than the base" in text
    assert "nan" not in re.sub(r"<style>.*</style>", "", text)
    [curve] = lines(charts(text)["Loss"], "curve")
    assert len(curve) == 2


def test_many_steps_are_averaged(tmp_path: Path) -> None:
    losses = [(step, float(step % 2)) for step in range(100_000)]
    svg = charts(page(History(losses=losses), tmp_path))["Loss"]
    [curve] = lines(svg, "curve")
    assert 200 <= len(curve) <= 400
    assert len({y for _, y in curve}) == 1  # every mean is 0.5


@pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="needs Pillow")
def test_the_curves_are_an_image_too(tmp_path: Path) -> None:
    from PIL import Image

    training_report(history(), tmp_path)
    with Image.open(tmp_path / "curves.png") as image:
        assert image.format == "PNG"
        assert image.size[0] == 1520
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20) or []}
    assert {(47, 109, 179), (217, 164, 0)} <= colours  # a curve, and the mark of the chosen step
    training_report(History(), tmp_path)
    assert not (tmp_path / "curves.png").exists()


# ---------------------------------------------------------------- axes


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_round_and_inside(low: float, reach: float) -> None:
    high = low + reach
    if high - low < abs(low) * 1e-9:
        return  # too narrow for floats to part
    found = _ticks(low, high)
    assert 1 <= len(found) <= 8
    step = (high - low) * 1e-6
    assert all(low - step <= tick <= high + step for tick in found)


@given(st.lists(st.floats(30, 232), max_size=12))
def test_labels_keep_their_distance_and_stay_in_the_chart(places: list[float]) -> None:
    moved = sorted(_apart(places, 16))
    assert all(below - above >= 16 - 1e-9 for above, below in pairwise(moved))
    assert all(30 <= place <= 232 for place in moved)
