"""The map of the page: where each passage lies, what it can be coloured by, and what the regions are called."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import WorkspaceError
from lemmata.core.records import Described
from lemmata.core.types import Floats, Integers
from lemmata.latex.readable import readable
from lemmata.search.map import StoredMap
from lemmata.server.opened import Opened
from lemmata.server.records import Id
from lemmata.server.views import UnknownIdError, passage_record

_MOST_CODES = 1 << 16
_MOST_CHAPTERS = 24  # that the page has colours for
_MOST_PERIODS = 24  # colours of dates that can still be told apart
_PERIODS = ((7, ""), (4, ""), (3, "0s"))  # months, years, decades: how much of a date stays, and what follows
_LEVELS = 6  # of regions: the first has 4 × 4 cells, each of the next four times as many
_LEAST_MENTIONS = 2  # of a name in its region
_LEAST_LIFT = 2.0  # times as many mentions as chance would put there
_UNTELLING = 0.7  # what the concept that says least loses of its weight
_LONGEST = 40  # characters of the name of a region


def map_of(opened: Opened) -> dict[str, Any]:
    """The map with what its points are coloured by, and its regions; WorkspaceError with the cure without one.

    The category of a log is the section of its plant.
    """
    stored = _stored_map(opened)
    places = [(document, kind, date) for _, document, kind, date, *_ in opened.retriever.corpus.places()]
    categories = {document.id: next(iter(document.categories), "") for document in opened.retriever.corpus.documents()}
    columns = {
        "kind": [kind for _, kind, _ in places],
        "document": [document for document, *_ in places],
        "category": [categories.get(document, "") for document, *_ in places],
        "chapter": [" ".join(filter(None, names)) for names in opened.retriever.corpus.chapter_names()],
        "date": _periods([date or "" for *_, date in places]),
    }
    for section in opened.sections:
        for row in np.flatnonzero(opened.retriever.corpus.select(locations=[section])).tolist():
            columns["category"][row] = section.removeprefix("location:")
    codes = {name: _coded(values, _names(name, values)) for name, values in columns.items()}
    places_by_name = {name: opened.tree.get(f"location:{name}") for name in codes["category"][1]}
    titles = {
        "document": [
            readable(document.title) if (document := opened.known_document(name)) else ""
            for name in codes["document"][1]
        ],
        "chapter": [readable(name) for name in codes["chapter"][1]],
        "category": [place.title if place else "" for place in places_by_name.values()],
    }
    return {
        "points": len(places),
        **{axis: _base64(getattr(stored, axis)) for axis in ("x", "y")},
        **{name: coded for name, (coded, _) in codes.items()},
        "names": {name: names for name, (_, names) in codes.items()},
        "titles": titles,
        "regions": name_regions(stored, _mentions(opened)),
        "method": stored.method,
    }


def _stored_map(opened: Opened) -> StoredMap:
    if isinstance(opened.map, str):
        raise WorkspaceError(opened.map)
    return opened.map


def _periods(dates: Sequence[str]) -> list[str]:
    """The month, year or decade of each date: the finest of which there are not too many."""
    for kept, ending in _PERIODS:
        periods = [f"{date[:kept]}{ending}" if date else "" for date in dates]
        if len({*periods}) <= _MOST_PERIODS:
            break
    return periods


def _names(column: str, values: Sequence[str]) -> list[str]:
    """The names in a column: dates, and chapters if each can have a colour, in their order, else the frequent first."""
    names = [name for name, _ in Counter(values).most_common(_MOST_CODES)]
    if column == "date" or (column == "chapter" and len(names) <= _MOST_CHAPTERS):
        names.sort(key=_in_order)
    return names


def _in_order(name: str) -> tuple[bool, bool, int, str]:
    """Numbers by their size, letters (of an appendix) behind them, nothing last."""
    digits = re.match(r"[0-9]{1,9}", name)
    return not name, not digits, int(digits[0]) if digits else 0, name


def _coded(values: Sequence[str], names: list[str]) -> tuple[str, list[str]]:
    """Values as codes in base64, and the names of the codes.

    Where there are more than 65,536 names, the last code stands for all others.
    """
    codes = {name: code for code, name in enumerate(names)}
    return _base64(np.fromiter((codes.get(value, _MOST_CODES - 1) for value in values), np.uint16, len(values))), names


def _base64(numbers: npt.NDArray[np.uint16]) -> str:
    """Little-endian 16-bit numbers in base64."""
    return base64.b64encode(numbers.astype("<u2").tobytes()).decode()


# ---------------------------------------------------------------- regions


class Mentions(NamedTuple):
    """Which passages mention what a region may be called by."""

    ids: list[str]
    names: list[str]
    weights: Floats  # (names,) how telling each is
    named: Integers  # (m,) a number of `ids`
    rows: Integers  # (m,) of the passages


def _mentions(opened: Opened) -> Mentions:
    """Concepts and their passages, locations with a title and the logs about them and what is below them."""
    ids: list[str] = []
    names: list[str] = []
    weights: list[float] = []
    pairs: list[tuple[int, int]] = []
    row_of = {identity: row for row, identity in enumerate(opened.retriever.corpus.ids())}
    reports: dict[str, list[str]] = {}
    for log, place in opened.retriever.corpus.linked("reports_about"):
        for above in opened.way_to(place):
            reports.setdefault(above, []).append(log)
    concepts = [(one.id, one.name) for one in opened.graph.concepts] if opened.graph else []
    places = [(identity, opened.tree[identity].title) for identity in reports]
    mentioning = {**(opened.graph.passages if opened.graph else {}), **reports}
    for rank, (identity, name) in enumerate((*concepts, *places)):
        shown = readable(name)
        passages = mentioning.get(identity, ())
        if len(passages) >= _LEAST_MENTIONS and 0 < len(shown) <= _LONGEST and "$" not in shown:
            pairs += [(len(ids), row_of[passage]) for passage in passages if passage in row_of]
            ids.append(identity)
            names.append(shown)
            weights.append(1 - _UNTELLING * rank / len(concepts) if rank < len(concepts) else 1)
    named, rows = np.array(pairs, np.int64).reshape(-1, 2).T
    return Mentions(ids, names, np.array(weights, np.float32), named, rows)


def name_regions(stored: StoredMap, mentions: Mentions) -> list[dict[str, Any]]:
    """The names of regions, by level and how well they fit; each name once, on its coarsest level.

    On each level the plane has cells. A name with k of its n passages in a cell that has the share s of all points fits
    by k · log(k / (n · s)), weighted by how telling it is. The best one names the cell, where these passages lie.
    """
    if not mentions.ids:
        return []
    x, y = (np.asarray(axis, np.int64) for axis in (stored.x, stored.y))
    in_all = np.bincount(mentions.named)
    regions: list[dict[str, Any]] = []
    used: set[int] = set()
    for level in range(_LEVELS):
        across = 4 << level
        cells = (x * across >> 16) * across + (y * across >> 16)
        points = np.bincount(cells, minlength=across * across)
        keys = cells[mentions.rows] * len(in_all) + mentions.named
        order = np.argsort(keys, kind="stable")
        found, begins, counts = np.unique(keys[order], return_index=True, return_counts=True)
        cell, named = np.divmod(found, len(in_all))
        lift = counts / (in_all[named] * points[cell] / len(x))
        fits = np.where(
            (counts >= _LEAST_MENTIONS) & (lift >= _LEAST_LIFT), counts * np.log(lift) * mentions.weights[named], 0.0
        )
        taken: set[int] = set()
        for place in np.argsort(-fits, kind="stable").tolist():
            if fits[place] <= 0:
                break
            if int(cell[place]) in taken or int(named[place]) in used:
                continue
            taken.add(int(cell[place]))
            used.add(int(named[place]))
            rows = mentions.rows[order[begins[place] : begins[place] + counts[place]]]
            name = int(named[place])
            middle = {"x": int(np.median(x[rows])), "y": int(np.median(y[rows]))}
            regions.append({"id": mentions.ids[name], "name": mentions.names[name], **middle, "level": level})
    return regions


# ---------------------------------------------------------------- points


def map_passages(
    opened: Opened,
    rows: Annotated[str, Described("Comma-separated.", most=2400, pattern=r"^[0-9]{1,11}(,[0-9]{1,11})*$")],
) -> dict[str, Any]:
    """Short records of the passages of some rows, comma-separated."""
    corpus, numbers = opened.retriever.corpus, [int(row) for row in rows.split(",")]
    if unknown := [row for row in numbers if row >= len(corpus)]:
        raise UnknownIdError(f"there is no row {unknown[0]}: the rows go from 0 to {len(corpus) - 1}")
    records = [
        {
            "row": row,
            "id": shown.id,
            "document": shown.document,
            "date": shown.date,
            **passage_record(opened, shown),
        }
        for row, shown in zip(numbers, corpus.passages(numbers), strict=True)
    ]
    return {"passages": records}


def map_places(
    opened: Opened, ids: Annotated[list[Id], Described("Of passages, concepts or locations.", least=1, most=200)]
) -> dict[str, Any]:
    """Where things lie on the map: a concept or location in the middle of its passages; unknown ones are left out."""
    stored = _stored_map(opened)
    corpus = opened.retriever.corpus
    rows_of = {identity: [row] for identity, row in opened.passage_rows(ids).items()}
    mentioned = opened.graph.passages if opened.graph else {}
    for identity in ids:
        if passages := mentioned.get(identity):
            rows_of[identity] = list(opened.passage_rows(passages).values())
        elif identity in opened.tree:
            rows_of[identity] = np.flatnonzero(corpus.select(locations=[identity])).tolist()
    return {
        "places": {
            identity: {
                "x": int(np.median(stored.x[rows])),
                "y": int(np.median(stored.y[rows])),
                "row": rows[0] if len(rows) == 1 else None,
            }
            for identity, rows in rows_of.items()
            if rows
        }
    }
