"""The history of a functional location: the logs about it and about everything below it, in threads of follow-ups."""

from __future__ import annotations

from lemmata.corpus.corpus import Corpus


def read_history(corpus: Corpus, location: str) -> list[list[int]]:
    """The rows of the logs in threads: logs that follow each other, the oldest first; the newest thread comes first.

    A log without a date counts as the oldest. What a log at another location follows up is not in its thread.
    """
    inside = corpus.select(locations=[location])
    dates: dict[str, tuple[str, int]] = {}  # date and row of each log, by id
    for row, (identity, _, _, date, *_) in enumerate(corpus.places()):
        if inside[row]:
            dates[identity] = date or "", row
    neighbours: dict[str, list[str]] = {identity: [] for identity in dates}
    for source, target in corpus.linked("related_to"):
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
