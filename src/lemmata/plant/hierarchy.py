"""The tree of functional locations as rows, sound whatever the hierarchy was like.

Rows are in preorder: what lies below row r is `r + 1 : end[r]`, so a subtree is a slice of any sorted list.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.types import Document, Integers, Skip

__all__ = [
    "Shape",
    "Tree",
    "below",
    "build_tree",
    "check_hierarchy",
    "closeness",
    "contains",
    "cycles",
    "location_code",
    "lowest_common",
    "many_closeness",
    "shape_of",
]


@dataclass(frozen=True, slots=True)
class Tree:
    """Locations in preorder; roots have the parent -1 and the depth 0."""

    ids: Sequence[str]
    codes: Sequence[str]  # as people know them: the id without `location:`
    titles: Sequence[str]
    parent: Sequence[int]
    depth: Sequence[int]
    end: Sequence[int]  # first row behind the subtree
    rows: dict[str, int]  # by id


def build_tree(locations: Iterable[Document]) -> Tree:
    """Survives what `check_hierarchy` complains about: see there what becomes of it."""
    known, parents, _ = _repaired(locations)
    children: dict[str, list[str]] = {}
    for name, parent in parents.items():
        children.setdefault(parent, []).append(name)
    ids: list[str] = []
    parent_rows: list[int] = []
    depth: list[int] = []
    stack = [(name, -1) for name in reversed(children.get("", []))]
    while stack:
        name, above = stack.pop()
        row = len(ids)
        ids.append(name)
        parent_rows.append(above)
        depth.append(depth[above] + 1 if above >= 0 else 0)
        stack += [(child, row) for child in reversed(children.get(name, []))]
    end = list(range(1, len(ids) + 1))
    for row in range(len(ids) - 1, -1, -1):
        if parent_rows[row] >= 0:
            end[parent_rows[row]] = max(end[parent_rows[row]], end[row])
    return Tree(
        ids=ids,
        codes=[location_code(known[name]) for name in ids],
        titles=[known[name].title for name in ids],
        parent=parent_rows,
        depth=depth,
        end=end,
        rows={name: row for row, name in enumerate(ids)},
    )


def check_hierarchy(locations: Iterable[Document]) -> list[Skip]:
    """One sentence for each flaw of a hierarchy, whatever it was read from.

    Of locations with the same id the first is taken, of several parents the first; an unknown parent makes
    a root; the member of a cycle that stands last becomes a root. A location without a description can be
    found by its code only. What a reader has repaired and reported already does not show here again.
    """
    return _repaired(locations)[2]


def _repaired(locations: Iterable[Document]) -> tuple[dict[str, Document], dict[str, str], list[Skip]]:
    """Location by id, parent's id by id ("" for a root), and what was wrong."""
    known: dict[str, Document] = {}
    skips: list[Skip] = []

    def complain(location: Document, cause: str) -> None:
        skips.append(Skip(location.file, 0, cause))

    for location in locations:
        if location.id in known:
            complain(location, f"the location {location_code(location)!r} was there before; the first one stays")
            continue
        known[location.id] = location
        if not location.title.strip():
            complain(location, f"the location {location_code(location)!r} has no description, only its code is known")
    parents: dict[str, str] = {}
    for location in known.values():
        wanted = [link.target or f"location:{link.label}" for link in location.links if link.relation == "part_of"]
        present = [target for target in dict.fromkeys(wanted) if target in known]
        parents[location.id] = present[0] if present else ""
        code = location_code(location)
        if wanted and not present:
            complain(location, f"the parent {wanted[0].removeprefix('location:')!r} of {code!r} is not known")
        elif len(present) > 1:
            complain(location, f"{code!r} has {len(present)} parents; only {present[0]!r} is used")
    position = {name: number for number, name in enumerate(known)}
    for cycle in cycles(parents):
        last = max(cycle, key=position.__getitem__)
        around = " -> ".join(location_code(known[name]) for name in [*cycle, cycle[0]])
        complain(known[last], f"{location_code(known[last])!r} closes a cycle of parents: {around}")
        parents[last] = ""
    return known, parents, skips


def cycles(parents: Mapping[str, str]) -> list[list[str]]:
    """Every cycle, from one of its members upwards; each node has one parent, so cycles share no node."""
    found = []
    settled: set[str] = {""}
    for start in parents:
        path: dict[str, None] = {}
        node = start
        while node not in settled and node not in path:
            path[node] = None
            node = parents[node]
        if node in path:
            climbed = list(path)
            found.append(climbed[climbed.index(node) :])
        settled.update(path)
    return found


def location_code(location: Document) -> str:
    """The location's name in the plant: what the table called it."""
    return str(location.metadata.get("location") or location.id.removeprefix("location:"))


# ---------------------------------------------------------------- questions to a tree


def contains(tree: Tree, above: int, row: int) -> bool:
    """Whether `row` is `above` or lies below it."""
    return above <= row < tree.end[above]


def below(tree: Tree, row: int, among: Sequence[int]) -> Sequence[int]:
    """Those of the sorted rows `among` that are `row` or lie below it."""
    return among[bisect_left(among, row) : bisect_left(among, tree.end[row])]


def lowest_common(tree: Tree, one: int, two: int) -> int:
    """The deepest row that contains both; -1 where they hang on different roots."""
    while one >= 0 and not contains(tree, one, two):
        one = tree.parent[one]
    return one


def closeness(tree: Tree, one: int, two: int) -> float:
    """How much of the two ways from the root is shared, from 0 for different roots to 1 for the same place."""
    common = lowest_common(tree, one, two)
    return (tree.depth[common] + 1) / (max(tree.depth[one], tree.depth[two]) + 1) if common >= 0 else 0.0


# ---------------------------------------------------------------- the same for many pairs at once


class Shape(NamedTuple):
    """A tree as arrays, (rows,) each."""

    parent: Integers
    depth: Integers
    end: Integers


def shape_of(tree: Tree) -> Shape:
    return Shape(*(np.array(column, np.int64) for column in (tree.parent, tree.depth, tree.end)))


def many_closeness(shape: Shape, ones: Integers, twos: Integers) -> npt.NDArray[np.float64]:
    """`closeness` of each pair."""
    common = ones.copy()
    climbing = np.arange(len(ones))
    while len(climbing):
        reached = common[climbing]
        apart = (reached > twos[climbing]) | (twos[climbing] >= shape.end[reached])
        climbing = climbing[apart]
        common[climbing] = shape.parent[reached[apart]]
        climbing = climbing[common[climbing] >= 0]
    shared = np.where(common >= 0, shape.depth[common] + 1, 0)
    return np.asarray(shared / (np.maximum(shape.depth[ones], shape.depth[twos]) + 1), np.float64)
