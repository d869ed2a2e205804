"""Charts: curves are drawn at their values, axes have round ticks, labels do not overlap."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import polylines

from lemmata.evaluate.charts import (
    Curve,
    HeatMap,
    LineChart,
    Points,
    ScatterChart,
    _spread,
    _ticks,
    heat_map,
    line_chart,
    scatter_charts,
    svg_file,
)

CHART = LineChart(
    "Loss & <more>",
    "step",
    "loss",
    [Curve([(0, 2.0), (50, 1.0), (100, 0.5)], "train", [0.1, 0.1, 0.1])],
    mark=(50, "chosen: step 50"),
)


def test_a_curve_is_drawn_at_its_values() -> None:
    svg = ElementTree.fromstring(line_chart(CHART))
    [curve], [mark] = polylines(svg, "curve"), polylines(svg, "mark")
    ticks = {
        float(text.text or ""): float(text.attrib["y"]) - 4
        for text in svg.iter("text")
        if text.attrib["text-anchor"] == "end" and re.fullmatch(r"[\d.]+", text.text or "")
    }
    (top, high), (bottom, low) = max(ticks.items()), min(ticks.items())
    for (_, y), (_, value) in zip(curve, CHART.curves[0].points, strict=True):
        assert y == pytest.approx(low + (value - bottom) / (top - bottom) * (high - low), abs=0.15)
    assert curve[1][0] == pytest.approx((curve[0][0] + curve[2][0]) / 2, abs=0.1)
    assert {x for x, _ in mark} == {curve[1][0]}
    assert len(list(svg.iter("polygon"))) == 1  # the band


def test_one_point_can_be_drawn() -> None:
    drawn = line_chart(LineChart("a", "x", "y", [Curve([(1, 0.7)])], x_range=(1, 1)))
    assert len(polylines(ElementTree.fromstring(drawn), "curve")[0]) == 1
    assert "nan" not in drawn


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_round_and_inside(low: float, reach: float) -> None:
    high = low + reach
    if high - low < abs(low) * 1e-9:
        return  # too narrow for floats
    ticks = _ticks(low, high)
    assert 1 <= len(ticks) <= 8
    tolerance = (high - low) * 1e-6
    assert all(low - tolerance <= tick <= high + tolerance for tick in ticks)


@given(st.lists(st.floats(30, 232), max_size=12))
def test_labels_keep_their_distance_and_stay_in_the_chart(heights: list[float]) -> None:
    moved = sorted(_spread(heights, 16))
    assert all(below - above >= 16 - 1e-9 for above, below in pairwise(moved))
    assert all(30 <= height <= 232 for height in moved)


def test_a_histogram_fills_the_area_below_its_curves() -> None:
    chart = LineChart("a", "x", "y", [Curve([(0, 1), (1, 3)], "one")], histogram=True)
    svg = ElementTree.fromstring(line_chart(chart))
    [area] = svg.iter("polygon")
    assert area.attrib["class"] == "area c0"
    assert not list(svg.iter("circle"))
    assert "one" in [text.text for text in svg.iter("text")]  # without the last value


def test_a_heat_map_colours_a_cell_by_its_value() -> None:
    values = [[0.0, 0.5], [1.0, 2.0]]
    chart = HeatMap("m", values, ["a", "b"], ["c", "d"], (0, 1), outlined=[(0, 1)], numbers=True)
    svg = ElementTree.fromstring(heat_map(chart))
    cells = {path.attrib["fill-opacity"]: path.attrib["d"].count("M") for path in svg.iter("path")}
    assert cells == {"0.000": 1, "0.500": 1, "1.000": 2}  # what is above the scale has the colour of its end
    assert [text.text for text in svg.iter("text") if text.attrib["class"] in ("small", "inverse")][1] == ".50"
    assert len([rect for rect in svg.iter("rect") if rect.attrib["class"] == "outline"]) == 1


def test_each_group_of_a_scatter_has_its_shape_and_stands_once_in_the_legend() -> None:
    groups = [Points([(0, 0), (1, 1)], "one", 0), Points([(2, 0)], "two", 1)]
    svg = ElementTree.fromstring(scatter_charts([ScatterChart("left", groups), ScatterChart("right", groups)]))
    paths = [path.attrib["d"] for path in svg.iter("path")]
    assert [path.count("M") for path in paths] == [2, 1, 2, 1, 1, 1]  # twice the panels, then the legend
    assert len({re.sub(r"M[\d. ]+", "", path) for path in paths[2:4]}) == 2
    assert [text.text for text in svg.iter("text")] == ["left", "right", "one", "two"]


def test_a_file_of_a_chart_is_well_formed_whatever_its_labels_say() -> None:
    chart = LineChart("a", '</text><script>x</script> \x00 \ud800 "', "&", [Curve([(0, 1), (1, 2)])])
    file = svg_file(line_chart(chart))
    svg = ElementTree.fromstring(file.encode())
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [node for node in svg.iter() if node.tag.endswith("script")]
    assert "prefers-color-scheme:dark" in file


def test_the_charts_of_the_first_step_of_a_benchmark_are_drawn(tmp_path: Path) -> None:
    from bench.scale import write_charts

    write_charts({"1000": {"load": 0.5, "ingest": {"cpu_s": 0.0}}}, tmp_path / "scale.svg")
    assert (tmp_path / "scale.svg").read_text(encoding="utf-8").startswith("<")
    assert not (tmp_path / "scale-search.svg").exists()  # no search is measured yet
    write_charts({"1000": {"search auto": {"p50_cpu_ms": 2.0}}}, tmp_path / "scale.svg")
    assert "auto" in (tmp_path / "scale-search.svg").read_text(encoding="utf-8")
