"""Predicted links that somebody confirms, the history of a location over HTTP, and how many logs there were when."""

from __future__ import annotations

import contextlib
import datetime
import itertools
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import copied, make_workspace
from tests.served import refused, refuses_strangers, serving, valid

from lemmata.core.errors import LemmataError
from lemmata.core.types import Edge
from lemmata.graph.store import GraphRecordStore, open_graph
from lemmata.maintain.content import show
from lemmata.plant.link import PREDICTED, confirm_link
from lemmata.project import Project
from lemmata.server.plant import logs_over_time
from lemmata.server.security import Access

TREE = "id,parent,description\nP,,plant\nP-1,P,pump\nP-2,P,motor\n"
LOGS = """id,date,location,related,text
L1,2024-05-02,P-1,,Seal leaks.
L2,2024-05-03,P-2,,Motor hums.
L3,2024-05-09,P-1,L1,Seal replaced.
L4,2024-05-10,P-1,,Seal is tight.
L5,2024-05-11,,,It hums again.
"""
FOLLOWS = ("L4", "related_to", "L3")
ABOUT = ("L5", "reports_about", "location:P-2")


def predict(project: Project, edges: list[Edge]) -> None:
    with contextlib.closing(project.corpus) as corpus, GraphRecordStore(project) as records:
        records.replace(PREDICTED, edges=edges, inputs=corpus.digest)


def made(folder: Path) -> Project:
    project = make_workspace(folder, {"hierarchy.csv": TREE, "logs.csv": LOGS}, index="lexical", graph=True)
    predict(project, [Edge(*FOLLOWS, "L4", "predict:record", 0.8), Edge(*ABOUT, "L5", "predict:entity", 0.7)])
    return project


project = copied(made)


def threads(project: Project, location: str = "location:P") -> list[list[str]]:
    history = show(project, location)["history"]
    return [[log["id"] for log in history if log["thread"] == number] for number in {log["thread"] for log in history}]


def test_a_history_has_what_happened_between_two_dates(project: Project) -> None:
    with serving(project.root) as client:

        def ids(**dates: str) -> list[str]:
            answer = client.get(f"/history/{quote('location:P', safe='')}", params=dates)
            return [log["id"] for thread in answer.json()["threads"] for log in thread["logs"]]

        assert ids(since="2024-05-10", until="2024") == ["L4"]
        assert ids(until="2024-05-02") == ids(until="2.5.2024") == ["L1", "L3"]
        for wrong in ({"since": "yesterday"}, {"until": "20240510"}, {"since": "2025", "until": "2024"}):
            response = client.get(f"/history/{quote('location:P', safe='')}", params=wrong)
            assert next(iter(wrong.values())) in refused(response, 400, "refused")["message"]


def test_a_confirmed_link_survives_builds_and_new_predictions_until_it_is_taken_back(project: Project) -> None:
    assert threads(project) == [["L4"], ["L1", "L3"], ["L2"]]
    confirm_link(project, *FOLLOWS)
    confirm_link(project, *ABOUT)
    confirm_link(project, *ABOUT)  # once more changes nothing
    assert threads(project) == [["L5"], ["L1", "L3", "L4"], ["L2"]]
    assert threads(project, "location:P-1") == [["L1", "L3", "L4"]]
    assert show(project, "location:P-1")["history"][2]["follows"] == ["L3"]
    predict(project, [])
    project.build_graph()
    graph = open_graph(project).graph
    begin, end = graph.indptr[graph.nodes.index("L5") :][:2]
    assert "location:P-2" in [graph.nodes[node] for node in graph.indices[begin:end]]
    assert list(project.verify().problems) == []
    assert threads(project) == [["L5"], ["L1", "L3", "L4"], ["L2"]]
    confirm_link(project, *FOLLOWS, confirmed=False)
    assert threads(project) == [["L5"], ["L4"], ["L1", "L3"], ["L2"]]
    project.remove_import("confirmed")
    assert threads(project) == [["L4"], ["L1", "L3"], ["L2"]]


def test_only_predicted_links_are_confirmed_and_only_confirmed_ones_taken_back(project: Project) -> None:
    with pytest.raises(LemmataError, match="L1 related_to L2"):
        confirm_link(project, "L1", "related_to", "L2")
    with pytest.raises(LemmataError, match="L4 related_to L3"):
        confirm_link(project, *FOLLOWS, confirmed=False)


def test_a_location_has_its_history_predictions_and_times_over_http(project: Project) -> None:
    with serving(project.root) as client:
        plant = valid(client.get("/history/location:P?k=2"), "/history/{id}")
        assert [[log["id"] for log in thread["logs"]] for thread in plant["threads"]] == [["L4"], ["L1", "L3"]]
        assert (plant["logs"], plant["total"], plant["next_offset"]) == (4, 3, 2)
        assert [log["id"] for log in plant["probable"]] == ["L5"]
        predicted = plant["threads"][0]["logs"][0]["predicted"][0]
        assert (predicted["target"], predicted["probability"], predicted["confirmed"]) == ("L3", 0.8, False)
        assert plant["times"] == {
            "unit": "week",
            "bars": [
                {"since": "2024-04-29", "until": "2024-05-05", "logs": 2},
                {"since": "2024-05-06", "until": "2024-05-10", "logs": 2},
            ],
        }
        early = valid(client.get("/history/location:P?until=2024-05-02"), "/history/{id}")
        assert [log["id"] for log in early["threads"][0]["logs"]] == ["L1", "L3"]
        refused(client.get("/history/location:zzz"), 404, "not_found")
        body = dict(zip(("source", "relation", "target"), FOLLOWS, strict=True))
        assert valid(client.post("/confirm", json=body), "/confirm")["confirmed"]
        log = valid(client.get(f"/passages/{quote('L1')}"), "/passages/{id}")
        assert [one["id"] for one in log["thread"]] == ["L1", "L3", "L4"]
        assert valid(client.get("/passages/L4"), "/passages/{id}")["predicted"][0]["confirmed"]
        assert not valid(client.post("/confirm", json={**body, "confirmed": False}), "/confirm")["confirmed"]
        refused(client.post("/confirm", json={**body, "target": "L2"}), 400, "refused")


def test_nobody_confirms_without_the_token_or_from_another_page(project: Project) -> None:
    body = dict(zip(("source", "relation", "target"), FOLLOWS, strict=True))
    with serving(project.root, access=Access("127.0.0.1", token="a" * 20)) as client:
        refuses_strangers(client, "/confirm", body, "a" * 20)
        assert threads(project) == [["L4"], ["L1", "L3"], ["L2"]]


@given(st.lists(st.dates() | st.just(datetime.date(2024, 2, 29)), max_size=30), st.sampled_from(["", "T10:00:00", "x"]))
def test_bars_count_every_log_once_and_leave_no_gap(days: list[datetime.date], time: str) -> None:
    bars = logs_over_time([f"{day.isoformat()}{time}" for day in days] + ["", "soon"])["bars"]
    assert sum(bar["logs"] for bar in bars) == len(days)
    assert len(bars) <= 61
    for before, after in itertools.pairwise(bars):
        gap = datetime.date.fromisoformat(after["since"]) - datetime.date.fromisoformat(before["until"])
        assert gap == datetime.timedelta(1)
