"""The evaluation report: its JSON, its table, and a page that is well-formed, escaped and self-contained."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from lemmata.evaluate.report import Report, as_html, as_json, terminal_table
from lemmata.evaluate.significance import compare

VALUES = {
    "lexical": {"MRR@10": np.array([1.0, 0.0, 0.5, 0.0]), "R@20": np.array([1.0, 0.0, 1.0, 0.5])},
    "den<se>": {"MRR@10": np.array([1.0, 1.0, 0.25, 0.0]), "R@20": np.array([1.0, 1.0, 1.0, 0.5])},
}
VOID = {"meta"}  # HTML never closes it; elements of SVG close themselves


def report(**changes: object) -> Report:
    fields: dict[str, object] = {
        "task": "references & more",
        "queries": ["a", "b", "c", "d"],
        "texts": {"a": "Let $x<y$ & <script>alert(1)</script>", "b": 'say "flat"'},
        "retrievers": VALUES,
        "groups": {"seen": np.array([True, False, False, False]), "unseen": np.array([False, True, True, True])},
        "comparisons": compare(VALUES, "MRR@10", "lexical", np.random.default_rng(0)),
        "recall": {name: np.linspace(0.1, 0.9, 20).reshape(4, 5) for name in VALUES},
        "notes": ["leakage was allowed: [red]2[/red] <passages>"],
        "command": "lemmata evaluate --retriever 'lexical,den<se>'",
    }
    return Report(**(fields | changes))  # type: ignore[arg-type]


def empty_report() -> Report:
    none = {"lexical": {"MRR@10": np.zeros(0)}}
    return report(queries=[], retrievers=none, groups={"seen": np.zeros(0, np.bool_)}, comparisons=[], recall={})


def printed(report: Report) -> str:
    console = Console(width=110, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(terminal_table(report))
    return captured.get()


def test_the_json_holds_means_intervals_groups_and_comparisons() -> None:
    content = json.loads(json.dumps(as_json(report()), allow_nan=False))
    assert list(content) == [
        "task",
        "encoder",
        "queries",
        "retrievers",
        "comparisons",
        "missing",
        "notes",
        "trained_on",
    ]
    assert content["queries"] == 4
    lexical = content["retrievers"]["lexical"]
    assert lexical["measures"] == {"MRR@10": 0.375, "R@20": 0.625}
    low, high = lexical["ci"]["MRR@10"]
    assert 0 <= low <= 0.375 <= high <= 1
    assert lexical["groups"]["seen"] == {"queries": 1, "measures": {"MRR@10": 1.0, "R@20": 1.0}}
    assert lexical["groups"]["unseen"]["measures"]["MRR@10"] == pytest.approx(0.5 / 3)
    [comparison] = content["comparisons"]
    assert (comparison["first"], comparison["second"], comparison["measure"]) == ("den<se>", "lexical", "MRR@10")
    assert (comparison["wins"], comparison["ties"], comparison["losses"]) == (1, 2, 1)
    assert content["notes"] == ["leakage was allowed: [red]2[/red] <passages>"]


def test_the_same_values_give_the_same_intervals() -> None:
    assert as_json(report()) == as_json(report())


def test_a_mean_over_no_queries_is_null() -> None:
    lexical = as_json(empty_report())["retrievers"]["lexical"]
    assert lexical["measures"] == {"MRR@10": None}
    assert lexical["ci"] == {"MRR@10": None}
    assert lexical["groups"] == {"seen": {"queries": 0, "measures": {"MRR@10": None}}}


def test_the_table_shows_every_measure_and_group_with_notes_above_and_comparisons_below() -> None:
    text = printed(report())
    assert text.index("leakage was allowed: [red]2[/red]") < text.index("MRR@10")
    for part in ("references & more, 4 queries", "seen (1)", "unseen (3)", "0.375", "0.562", "den<se>"):
        assert part in text
    assert text.index("0.562") < text.index("MRR@10, den<se> − lexical: +0.188")
    assert "1 better, 2 equal, 1" in " ".join(text.split())


def test_a_retriever_without_a_measure_has_no_row_for_it() -> None:
    values = {"lexical": VALUES["lexical"], "dense": {"MRR@10": VALUES["den<se>"]["MRR@10"]}}
    partial = report(retrievers=values, comparisons=[], recall={})
    assert printed(partial).count("dense") == 1
    assert as_html(partial).count("</span>dense") == 1


class Outline(HTMLParser):
    """Checks that every element is closed, and collects the attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.scripts += tag == "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_escaped_and_loads_nothing_from_outside() -> None:
    page = as_html(report())
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert outline.scripts == 1  # ours; the one in a query is text
    assert not [name for _, name, _ in outline.attributes if name in ("src", "href")]
    assert "http:" not in page
    assert "https:" not in page
    assert "Let $x&lt;y$ &amp; &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<se>" not in page


def test_every_chart_is_well_formed_and_has_finite_numbers() -> None:
    charts = re.findall(r"<svg.*?</svg>", as_html(report()), re.DOTALL)
    assert len(charts) == 4 + 1 + 1  # an interval per measure and retriever, a pair, the recall
    for chart in charts:
        ElementTree.fromstring(chart)
        assert "nan" not in chart
        assert "inf" not in chart


def test_the_page_lists_every_query_with_its_values() -> None:
    rows = re.findall(
        r"<tr><td class=\"text\">(\w)</td><td class=\"text\">.*?<data value=\"([\d.]+)\".*?<data value=\"([\d.]+)\"",
        as_html(report()),
    )
    assert rows == [("a", "1.0", "1.0"), ("b", "0.0", "1.0"), ("c", "0.5", "0.25"), ("d", "0.0", "0.0")]


def test_a_long_query_is_truncated_in_the_page() -> None:
    page = as_html(report(texts={"a": "x" * 1_000_000}))
    assert "x" * 300 + "…" in page
    assert len(page) < 50_000


def test_reports_without_queries_pairs_curves_or_retrievers_are_still_pages() -> None:
    for sparse in (empty_report(), report(retrievers={}, comparisons=[], recall={}), report(groups={}, notes=[])):
        outline = Outline()
        outline.feed(as_html(sparse))
        assert outline.open == []
        assert printed(sparse)


def test_equal_retrievers_many_queries_and_one_result_can_be_drawn() -> None:
    n = 2000
    values = {name: {"P@1": np.ones(n)} for name in ("lexical", "dense")}
    large = report(
        queries=[str(number) for number in range(n)],
        retrievers=values,
        groups={},
        comparisons=compare(values, "P@1", "lexical", np.random.default_rng(0)),
        recall={name: np.zeros((n, 1)) for name in values},
    )
    charts = re.findall(r"<svg.*?</svg>", as_html(large), re.DOTALL)
    assert charts
    assert all(len(chart) < 20_000 and "nan" not in chart for chart in charts)


@pytest.mark.parametrize(("p", "shown"), [(0.03, "0.030"), (0.001, "0.001"), (0.0004, "< 0.001"), (0.9, "0.900")])
def test_p_is_shown_as_it_is_down_to_a_thousandth(p: float, shown: str) -> None:
    pair = compare(VALUES, "MRR@10", "lexical", np.random.default_rng(0))[0]._replace(p=p, p_corrected=p)
    made = report(comparisons=[pair])
    assert f"corrected p {shown};" in " ".join(printed(made).split())
    assert f">{shown.replace('<', '&lt;')}<" in as_html(made)


def test_the_encoder_stands_in_the_table_the_page_and_the_json() -> None:
    made = report(encoder="tuned<1>", trained_on={"queries": 2, "answers": 3})
    assert "references & more, 4 queries, encoder tuned<1>" in printed(made)
    assert "encoder tuned&lt;1&gt;" in as_html(made)
    assert as_json(made)["encoder"] == "tuned<1>"
    assert as_json(made)["trained_on"] == {"queries": 2, "answers": 3}
    assert "encoder" not in printed(report())


def test_a_terminal_shows_the_comparisons_of_the_first_measure_of_each_level_where_there_are_many() -> None:
    names = [f"P@{k}{level}" for level in (" (whole-document)", "") for k in range(1, 5)]
    values = {name: dict.fromkeys(names, row["MRR@10"]) for name, row in VALUES.items()}
    pairs = [pair for name in names for pair in compare(values, name, "lexical", np.random.default_rng(0))]
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(terminal_table(report(retrievers=values, comparisons=pairs)))
    shown = [line.partition(",")[0] for line in console.export_text().splitlines() if "corrected p" in line]
    assert shown == ["P@1 (whole-document)", "P@1"]
    assert len(as_json(report(retrievers=values, comparisons=pairs))["comparisons"]) == 8
