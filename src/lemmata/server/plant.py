"""What a plant's page shows: the history of a location in threads, how many logs it had when, and predicted links."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any

from lemmata.core.records import Described
from lemmata.core.types import Edge, Passage
from lemmata.plant.history import read_history, read_thread
from lemmata.plant.link import confirmed_links
from lemmata.search.filter import Name, read_period
from lemmata.server import views
from lemmata.server.opened import Opened
from lemmata.server.records import Id

_MOST_BARS = 60
_WEEKS = 26  # up to so many, a bar is a week
_MOST_PROBABLE = 50


def passage(opened: Opened, identity: Id) -> dict[str, Any]:
    """Everything about a passage; a list of neighbours holds 200 at most."""
    log = views.passage_of(opened, identity)
    return {**views.passage(opened, identity), "thread": _thread(opened, log), "predicted": _predicted(opened, log)}


def history(
    opened: Opened,
    identity: Id,
    offset: Annotated[int, Described("Threads to leave out.", 0, 10**9)] = 0,
    k: Annotated[int, Described("Number of threads.", 1, 200)] = 30,
    since: Annotated[Name, Described("Only threads with a log of this day or later.")] = "",
    until: Annotated[Name, Described("Only threads with a log of this day or earlier.")] = "",
) -> dict[str, Any]:
    """The logs about a location and everything below it, in threads of follow-ups, and how many there were when.

    The thread with the newest log comes first, and each has its oldest log first. `probable` are logs elsewhere, or
    nowhere, that are predicted to report about it.
    """
    since, until = read_period(since, until)
    way = opened.way_to(identity)
    if not way:
        raise views.UnknownIdError(f"there is no location {identity!r}: look for its name in the outline")
    corpus = opened.retriever.corpus
    confirmed = _confirmed(opened)
    threads = read_history(corpus, identity, confirmed)
    dates = [date or "" for *_, date in corpus.table("id", "date")]
    shown = [thread for thread in threads if any(_is_within(dates[row], since, until) for row in thread)]
    page = shown[offset : offset + k]
    logs = {row: log for thread in page for row, log in zip(thread, corpus.passages(thread), strict=True)}
    inside = {row for thread in threads for row in thread}
    return {
        "id": identity,
        "title": opened.tree[identity].title,
        "above": views.locations(opened, way[:-1]),
        "parts": views.locations(opened, opened.tree[identity].parts),
        "logs": len(inside),
        "times": logs_over_time([dates[row] for row in sorted(inside)]),
        "threads": [{"logs": [_log_record(opened, logs[row], confirmed) for row in thread]} for thread in page],
        "probable": _probable(opened, identity, inside, confirmed),
        "total": len(shown),
        "next_offset": offset + k if offset + k < len(shown) else None,
    }


def _confirmed(opened: Opened) -> list[Edge]:
    """Links that were confirmed, as the disk has them now."""
    return confirmed_links(opened.graph.records if opened.graph else None)


def _thread(opened: Opened, log: Passage) -> list[dict[str, Any]]:
    """A log and those that it follows up or is followed up by, the oldest first; none where it stands alone."""
    ids = read_thread(opened.retriever.corpus, log.id, _confirmed(opened)) if log.kind == "log" else []
    return views.neighbours(opened, ((name, "related_to") for name in ids)) if len(ids) > 1 else []


def _predicted(opened: Opened, log: Passage) -> list[dict[str, Any]]:
    """What is predicted or was confirmed about a log: its location, and what it follows up or is followed up by."""
    return _links(opened, log.id, _confirmed(opened), both_ways=True) if log.kind == "log" else []


def _log_record(opened: Opened, log: Passage, confirmed: Sequence[Edge]) -> dict[str, Any]:
    return {
        "id": log.id,
        "date": log.date,
        **views.passage_record(opened, log),
        "location": list(log.locations),
        "follows": [link.target for link in log.links if link.relation == "related_to" and link.target],
        "predicted": _links(opened, log.id, confirmed),
    }


def _links(opened: Opened, log: str, confirmed: Iterable[Edge], *, both_ways: bool = False) -> list[dict[str, Any]]:
    """The predicted and the confirmed links of a log, each once, with what is at the other end."""
    sure = {edge[:3]: edge for edge in confirmed if log == edge.source or (both_ways and log == edge.target)}
    edges = [edge for edge in opened.predicted.get(log, ()) if both_ways or edge.source == log]
    predicted = {edge[:3]: edge for edge in edges}
    ends = {triple: triple[0] if triple[2] == log else triple[2] for triple in {**predicted, **sure}}
    described = views.nodes(opened, [*ends.values()])
    return [
        {
            "source": triple[0],
            "relation": triple[1],
            "target": triple[2],
            "probability": predicted[triple].weight if triple in predicted else None,
            "confirmed": triple in sure,
            "other": {"id": end, "date": _date_of(opened, end), **described[end]},
        }
        for triple, end in ends.items()
        if end in described
    ]


def _date_of(opened: Opened, identity: str) -> str | None:
    rows = opened.passage_rows([identity])
    return next((passage.date for passage in opened.retriever.corpus.passages(rows.values())), None)


def _probable(
    opened: Opened, location: str, inside: Collection[int], confirmed: Sequence[Edge]
) -> list[dict[str, Any]]:
    """The logs that are predicted to report about a location or something below it, the most probable first."""
    corpus = opened.retriever.corpus
    below = [location]
    for place in below:  # grows
        below += [part for part in opened.tree[place].parts if part not in below]
    edges = {edge for place in below for edge in opened.predicted.get(place, ()) if edge.relation == "reports_about"}
    rows: dict[int, Edge] = {}
    for edge in sorted(edges, key=lambda edge: (-edge.weight, edge)):
        row = opened.passage_rows([edge.source]).get(edge.source)
        if row is not None and row not in inside:
            rows.setdefault(row, edge)
    chosen = list(rows)[:_MOST_PROBABLE]
    return [_log_record(opened, log, confirmed) for log in corpus.passages(chosen)]


# ---------------------------------------------------------------- times


def _is_within(date: str, since: str, until: str) -> bool:
    return (not since or date >= since) and (not until or ("" < date[: len(until)] <= until))


def logs_over_time(dates: Iterable[str]) -> dict[str, Any]:
    """How many logs there were in each week, month, or number of years, without a gap from the first to the last."""
    days = sorted(day for date in dates if (day := _day(date)))
    if not days:
        return {"unit": "month", "bars": []}
    first, last = days[0], days[-1]
    unit, begins = "week", [first - datetime.timedelta(first.weekday())]
    if (last - begins[0]).days < 7 * _WEEKS:
        while (last - begins[-1]).days >= 7:
            begins.append(begins[-1] + datetime.timedelta(7))
    else:
        months = 12 * (last.year - first.year) + last.month - first.month + 1
        unit, step, months_before = "month", 1, first.month - 1
        if months > _MOST_BARS:
            unit, step, months_before = "year", 12 * (1 + (last.year - first.year) // _MOST_BARS), 0
        begins = [
            datetime.date(first.year + month // 12, month % 12 + 1, 1)
            for month in range(months_before, 12 * (last.year - first.year) + last.month, step)
        ]
    ends = [*(begin - datetime.timedelta(1) for begin in begins[1:]), last]
    bars = []
    at = 0
    for begin, end in zip(begins, ends, strict=True):
        start = at
        while at < len(days) and days[at] <= end:
            at += 1
        bars.append({"since": begin.isoformat(), "until": end.isoformat(), "logs": at - start})
    return {"unit": unit, "bars": bars}


def _day(date: str) -> datetime.date | None:
    """The day of an ISO date, of a month or year its first one; None where it is no date."""
    try:
        return datetime.date.fromisoformat(date[:10] + {4: "-01-01", 7: "-01"}.get(len(date), ""))
    except ValueError:
        return None
