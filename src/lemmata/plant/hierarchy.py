"""The tree of functional locations as rows, repaired where the hierarchy has flaws.

Rows are in preorder: what lies below row r is `r + 1 : end[r]`, so a subtree is a slice of any sorted list.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lemmata.core.types import Document, Integers, Skip


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Locations in preorder; a root has the parent -1 and the depth 0."""

    ids: Sequence[str]
    codes: Sequence[str]  # as the plant knows them: the id without `location:`
    titles: Sequence[str]
    parent: Integers  # (rows,)
    depth: Integers  # (rows,)
    end: Integers  # (rows,): first row after the subtree
    rows: dict[str, int]  # by id
    flaws: Sequence[Skip]  # of the hierarchy, one sentence each


def build_tree(locations: Iterable[Document]) -> Hierarchy:
    """A tree, whatever the hierarchy is like.

    Of several parents the first counts. An unknown parent makes a root, and the last member of a cycle becomes a
    root. A location without a description is only found by its code.
    """
    by_id, parents, flaws = _repaired(locations)
    children_of: dict[str, list[str]] = {}
    for name, parent in parents.items():
        children_of.setdefault(parent, []).append(name)
    ids: list[str] = []
    parent_rows: list[int] = []
    depth: list[int] = []
    stack = [(name, -1) for name in reversed(children_of.get("", []))]
    while stack:
        name, above = stack.pop()
        row = len(ids)
        ids.append(name)
        parent_rows.append(above)
        depth.append(depth[above] + 1 if above >= 0 else 0)
        stack += [(child, row) for child in reversed(children_of.get(name, []))]
    end = list(range(1, len(ids) + 1))
    for row in range(len(ids) - 1, -1, -1):
        if parent_rows[row] >= 0:
            end[parent_rows[row]] = max(end[parent_rows[row]], end[row])
    return Hierarchy(
        ids=ids,
        codes=[_code(by_id[name]) for name in ids],
        titles=[by_id[name].title for name in ids],
        parent=np.array(parent_rows, np.int64),
        depth=np.array(depth, np.int64),
        end=np.array(end, np.int64),
        rows={name: row for row, name in enumerate(ids)},
        flaws=flaws,
    )


def _repaired(locations: Iterable[Document]) -> tuple[dict[str, Document], dict[str, str], list[Skip]]:
    """Location by id, the parent's id by id ("" for a root), and the flaws."""
    by_id = {location.id: location for location in locations}
    parents: dict[str, str] = {}
    flaws: list[Skip] = []

    def report(location: Document, cause: str) -> None:
        flaws.append(Skip(location.file, 0, cause))

    for location in by_id.values():
        if not location.title.strip() and not location.metadata.get("derived"):
            report(location, f"the location {_code(location)!r} has no description, only its code is known")
        targets = [link.target or f"location:{link.label}" for link in location.links if link.relation == "part_of"]
        present = [target for target in dict.fromkeys(targets) if target in by_id]
        parents[location.id] = present[0] if present else ""
        if targets and not present:
            parent = targets[0].removeprefix("location:")
            report(location, f"the parent {parent!r} of {_code(location)!r} is unknown")
        elif len(present) > 1:
            report(location, f"{_code(location)!r} has {len(present)} parents; only {present[0]!r} is used")
    position = {name: number for number, name in enumerate(by_id)}
    for cycle in cycles(parents):
        last = max(cycle, key=position.__getitem__)
        members = " -> ".join(_code(by_id[name]) for name in [*cycle, cycle[0]])
        report(by_id[last], f"{_code(by_id[last])!r} closes a cycle of parents: {members}")
        parents[last] = ""
    return by_id, parents, flaws


def cycles(parents: Mapping[str, str]) -> list[list[str]]:
    """Every cycle, from one of its members upwards; each node has one parent, so cycles share no node."""
    result = []
    settled: set[str] = {""}
    for start in parents:
        path: dict[str, None] = {}
        node = start
        while node not in settled and node not in path:
            path[node] = None
            node = parents[node]
        if node in path:
            climbed = list(path)
            result.append(climbed[climbed.index(node) :])
        settled.update(path)
    return result


def _code(location: Document) -> str:
    """The name of a location in the plant."""
    return str(location.metadata.get("location") or location.id.removeprefix("location:"))


def location_texts(locations: Iterable[Document]) -> dict[str, str]:
    """For each location its title, then those of the locations above it: `Rücklaufpumpe P202, Kolonne K201`.

    A location without a title is called by its code. Of the locations above, the root of the plant says nothing and
    is left out; so is a title that repeats one below it.
    """
    tree = build_tree(locations)
    texts = {}
    for row, identity in enumerate(tree.ids):
        path = [tree.titles[row].strip() or tree.codes[row]]
        above = int(tree.parent[row])
        while above >= 0 and tree.parent[above] >= 0:
            if (title := tree.titles[above].strip()) and title not in path:
                path.append(title)
            above = int(tree.parent[above])
        texts[identity] = ", ".join(path)
    return texts


# ---------------------------------------------------------------- relations between rows


def contains(tree: Hierarchy, above: Any, row: Any) -> Any:
    """Whether `row` is `above` or lies below it; for two rows or two arrays of rows."""
    return (above <= row) & (row < tree.end[above])


def below(tree: Hierarchy, row: int, rows: Any) -> Any:
    """The sorted `rows` that are `row` or lie below it."""
    return rows[bisect_left(rows, row) : bisect_left(rows, tree.end[row])]


def children(tree: Hierarchy, row: int) -> list[int]:
    inside = np.arange(row + 1, tree.end[row])
    return [int(child) for child in inside[tree.parent[inside] == row]]


def closeness(tree: Hierarchy, first: Integers, second: Integers) -> npt.NDArray[np.float64]:
    """The shared part of the paths from the root, of each pair: 0 for different roots, 1 for the same row."""
    common = first.copy()
    climbing = np.arange(len(first))
    while len(climbing):
        climbing = climbing[~contains(tree, common[climbing], second[climbing])]
        common[climbing] = tree.parent[common[climbing]]
        climbing = climbing[common[climbing] >= 0]
    shared = np.where(common >= 0, tree.depth[common] + 1, 0)
    return np.asarray(shared / (np.maximum(tree.depth[first], tree.depth[second]) + 1), np.float64)
