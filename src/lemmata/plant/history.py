"""The history of a functional location: the logs about it and about everything below it, in threads of follow-ups."""

from __future__ import annotations

from collections.abc import Iterable

from lemmata.core.types import Edge
from lemmata.corpus.corpus import Corpus

_LONGEST = 200  # logs of the thread of one log


def read_history(corpus: Corpus, location: str, confirmed: Iterable[Edge] = ()) -> list[list[int]]:
    """The rows of the logs in threads: logs that follow each other, the oldest first; the newest thread comes first.

    Links that were `confirmed` count like those of the logs. A log without a date counts as the oldest. What a log at
    another location follows up is not in its thread.
    """
    inside = corpus.select(locations=[location])
    more = list(confirmed)
    here = {edge.source for edge in more if edge.relation == "reports_about" and _is_below(corpus, edge, location)}
    dates: dict[str, tuple[str, int]] = {}  # date and row of each log, by id
    for row, (identity, _, _, date, *_) in enumerate(corpus.places()):
        if inside[row] or identity in here:
            dates[identity] = date or "", row
    neighbours: dict[str, list[str]] = {identity: [] for identity in dates}
    for source, target in (*corpus.linked("related_to"), *_follow_ups(more)):
        if source in neighbours and target in neighbours:
            neighbours[source].append(target)
            neighbours[target].append(source)
    threads: list[list[tuple[str, int]]] = []
    while neighbours:
        waiting = [next(iter(neighbours))]
        thread = []
        while waiting:
            identity = waiting.pop()
            if identity in neighbours:
                waiting += neighbours.pop(identity)
                thread.append(dates[identity])
        threads.append(sorted(thread))
    threads.sort(key=lambda thread: thread[-1], reverse=True)
    return [[row for _, row in thread] for thread in threads]


def read_thread(corpus: Corpus, log: str, confirmed: Iterable[Edge] = ()) -> list[str]:
    """The ids of the logs that a log follows up or is followed up by, at any place, with itself, the oldest first."""
    follow_ups = list(_follow_ups(confirmed))
    dates: dict[str, str] = {}
    waiting = [log]
    while waiting and len(dates) < _LONGEST:
        identity = waiting.pop(0)
        if identity in dates:
            continue
        try:
            passage = corpus[corpus.row(identity)]
        except KeyError:
            continue
        dates[identity] = passage.date or ""
        waiting += [link.target for link in passage.links if link.relation == "related_to" and link.target]
        waiting += [source for source, relation in corpus.referring(identity) if relation == "related_to"]
        waiting += [end for ends in follow_ups if identity in ends for end in ends]
    return sorted(dates, key=lambda identity: (dates[identity], identity))


def _follow_ups(links: Iterable[Edge]) -> Iterable[tuple[str, str]]:
    return ((edge.source, edge.target) for edge in links if edge.relation == "related_to")


def _is_below(corpus: Corpus, edge: Edge, location: str) -> bool:
    """Whether a link leads to a location or to something below it."""
    place: str | None = edge.target
    seen: list[str] = []
    while place and place not in seen:
        if place == location:
            return True
        seen.append(place)
        place = _above(corpus, place)
    return False


def _above(corpus: Corpus, place: str) -> str | None:
    try:
        links = corpus.document(place).links
    except KeyError:
        return None
    return next((link.target for link in links if link.relation == "part_of"), None)
