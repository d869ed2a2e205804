"""Citation graphs as people have them: papers in a table and who cites whom in a list, read as passages with links.

A folder may hold `nodes.jsonl` (or a table) and `edges.tsv`, or the raw layout of an OGB data set with `titleabs.tsv`
beside it. Of the edges only numbers are kept in memory, 16 bytes each, and every id once.
"""

from __future__ import annotations

import csv
import posixpath
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.types import Integers, Skip
from lemmata.ingest.beir import read_links
from lemmata.ingest.logs import Columns, column_names

Rows = Iterator[tuple[int, dict[str, Any]]]
Lines = Iterable[str]
Open = Callable[[str], Lines]  # the lines of a file by its name

_PACKED = r"(?:\.(?:gz|xz|bz2|zst))?"
_NODES = re.compile(
    rf"(?:.*[-_.])?(?:nodes?|papers?|articles?|vertices)\.(?:jsonl|ndjson|csv|tsv|parquet){_PACKED}", re.I
)
_EDGES = re.compile(
    rf"(?:.*[-_.])?(?:edges?|edge[-_]?list|links?|cites|citations?|references)\.(?:csv|tsv|txt|edges){_PACKED}", re.I
)
_OGB = re.compile(rf"(edge\.csv|nodeidx2\w+\.csv|node_year\.csv|titleabs\.tsv){_PACKED}", re.I)
_OGB_FOLDERS = ("raw", "mapping", "split")
# headings, in small letters and without anything but letters and digits
_SOURCE = re.compile(r"(?:citing|source|src|from|head|start|subject)(?:paper|node|article|doc)?(?:id|idx|key)?")
_TARGET = re.compile(
    r"(?:cited|target|dst|dest|to|tail|end|object|reference)(?:paper|node|article|doc)?(?:id|idx|key)?"
)
_SYNONYMS = {
    field: names.split()
    for field, names in {
        "id": "paperid nodeid articleid docid corpusid arxivid pid paper node arxiv key doi",
        "title": "papertitle name label headline",
        "abstract": "text summary abs abstracttext description content body",
        "date": "created published publicationdate year publicationyear pubdate updatedate time",
        "categories": "category subjects subject fieldsofstudy fields field class",
        "authors": "author creators",
    }.items()
}
_MOST_NOTES = 20  # of one kind; the rest is counted


# ---------------------------------------------------------------- which files


class GraphFiles(NamedTuple):
    nodes: str
    others: tuple[str, ...]  # edges, and what else belongs to the nodes
    unread: frozenset[str] = frozenset()  # files of the graph that say nothing about papers or citations


def find_graphs(names: Sequence[str]) -> list[GraphFiles]:
    """The citation graphs among the files of a folder, of which each has its nodes and its edges in one place."""
    graphs: list[GraphFiles] = []
    folders: dict[str, list[str]] = {}
    ogb: dict[str, dict[str, str]] = {}  # folder: part of the data set: file
    for name in names:
        folder, base = posixpath.split(name)
        folders.setdefault(folder, []).append(name)
        if part := _OGB.fullmatch(base):
            home = posixpath.dirname(folder) if posixpath.basename(folder) in _OGB_FOLDERS else folder
            kind = "mapping" if base.startswith("nodeidx2") else part[1].partition(".")[0].lower()
            ogb.setdefault(home, {})[kind] = name
    for home, parts in ogb.items():
        if {"edge", "mapping", "titleabs"} <= parts.keys():
            inside = tuple(posixpath.join(home, folder) + "/" for folder in _OGB_FOLDERS)
            unread = frozenset(name for name in names if name.startswith(inside)) - {*parts.values()}
            others = tuple(parts[part] for part in ("edge", "mapping", "node_year") if part in parts)
            graphs.append(GraphFiles(parts["titleabs"], others, unread))
    used = {file for graph in graphs for file in (graph.nodes, *graph.others, *graph.unread)}
    for files in folders.values():
        bases = {name: posixpath.basename(name) for name in files if name not in used}
        nodes = [name for name, base in bases.items() if _NODES.fullmatch(base)]
        edges = [name for name, base in bases.items() if _EDGES.fullmatch(base)]
        if len(nodes) == 1 and edges:
            graphs.append(GraphFiles(nodes[0], tuple(edges)))
    return graphs


# ---------------------------------------------------------------- edges


class Edges:
    """Who cites whom. Ids get numbers; `sort` comes after the last edge, `of` after that.

    `prefix` is what the ids of these papers have in front where another source has some of them.
    """

    def __init__(self, file: str, skips: list[Skip], prefix: str = "") -> None:
        self.file, self._skips, self._prefix = file, skips, prefix
        self._numbers: dict[str, int] = {}
        self._ends = array("q"), array("q")
        self._names: list[str] = []
        self._targets: Integers = np.empty(0, np.int64)
        self._starts: Integers = np.empty(0, np.int64)
        self._notes = 0

    def add(self, source: str, target: str) -> None:
        for ends, name in zip(self._ends, (source, target), strict=True):
            ends.append(self._numbers.setdefault(name, len(self._numbers)))

    def skip(self, line: int, cause: str) -> None:
        self._notes += 1
        if self._notes <= _MOST_NOTES:
            self._skips.append(Skip(self.file, line, cause))

    def sort(self) -> None:
        """Forget repeated edges and loops; number the edges of each id."""
        sources, targets = (np.frombuffer(ends, np.int64) if ends else np.empty(0, np.int64) for ends in self._ends)
        size = max(len(self._numbers), 1)
        pairs = np.unique((sources * size + targets)[sources != targets])
        self._ends = array("q"), array("q")
        self._names = list(self._numbers)
        self._starts = np.searchsorted(pairs, np.arange(size + 1) * size)
        self._targets = pairs % size
        self._used = np.zeros(size, bool)
        if self._notes > _MOST_NOTES:
            self._skips.append(Skip(self.file, 0, f"{self._notes - _MOST_NOTES:,} more lines are no edges"))

    def of(self, identity: str) -> list[str]:
        """The ids that one cites."""
        number = self._numbers.get(identity)
        if number is None:
            return []
        self._used[number] = True
        targets = self._targets[self._starts[number] : self._starts[number + 1]]
        return [self._prefix + self._names[target] for target in targets.tolist()]

    def note_unused(self) -> None:
        """Note the edges that begin at an id that no paper has; call it after the last paper."""
        sizes = np.diff(self._starts)
        lost = np.flatnonzero((sizes > 0) & ~self._used)
        if len(lost):
            names = ", ".join(repr(self._names[number]) for number in lost[:3].tolist())
            cause = f"edges that begin at an id that no paper has: {int(sizes[lost].sum()):,}, first {names}"
            self._skips.append(Skip(self.file, 0, cause))


def read_edges(lines: Lines, edges: Edges) -> None:
    """Read a list of edges: two ids on a line, separated by tab, comma, semicolon or blanks; # and % are comments.

    A header that names both columns, in any place, is followed. Without one the first cites the second. Further columns
    are not read, with a note.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip() and line.lstrip()[0] not in "#%")
    head = list(islice(numbered, 1))
    if not head:
        return
    first = head[0][1]
    delimiter = next((character for character in "\t,;" if character in first), "")
    source, target, width = 0, 1, 2
    headings = [re.sub(r"[\W_]", "", cell).lower() for cell in _cells(first, delimiter)]
    citing, cited = ([place for place, name in enumerate(headings) if p.fullmatch(name)] for p in (_SOURCE, _TARGET))
    if citing and cited:
        source, target, head = citing[0], cited[0], []
        width = max(source, target) + 1
    elif len(headings) > 2:
        edges.skip(
            head[0][0], f"it has {len(headings)} columns, of which the first two are read as the ends of an edge"
        )
    for number, line in chain(head, numbered):
        cells = _cells(line, delimiter)
        if len(cells) < width or not cells[source] or not cells[target]:
            edges.skip(
                number, "a line of two ids is needed: an edge from the paper that cites to the one that is cited"
            )
        else:
            edges.add(cells[source], cells[target])


def _cells(line: str, delimiter: str) -> list[str]:
    if not delimiter:
        return line.split()
    if '"' not in line:
        return [cell.strip() for cell in line.split(delimiter)]
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


# ---------------------------------------------------------------- papers


def read_nodes(rows: Iterable[tuple[int, Mapping[str, Any]]], edges: Edges, columns: Columns) -> Rows:
    """Rows for `read_passages` from those of a table of papers, whose columns may have other names."""
    named = {"abstract" if option == "text" else option: column_names(name) for option, name in columns.named.items()}
    keys: dict[str, str] = {}  # as in `_SYNONYMS`, by key of the table
    for line, row in rows:
        paper = dict(row)
        for key in row:
            if key not in keys:
                keys[key] = re.sub(r"[\W_]", "", str(key)).lower()
        for field, synonyms in _SYNONYMS.items():
            if present := [column for column in named.get(field, ()) if column in paper]:
                paper[field] = "\n\n".join(str(paper.pop(column) or "") for column in present).strip()
                continue
            guessed = (key for name in (field, *synonyms) for key in row if keys[key] == name and key in paper)
            if (key := next(guessed, field)) != field:
                paper[field] = paper.pop(key)
        yield line, _cited(paper, edges)
    edges.note_unused()


def _cited(paper: dict[str, Any], edges: Edges) -> dict[str, Any]:
    """The row of a paper with its citations, as `read_passages` reads it."""
    own = read_links(paper.get("links")) or ()
    cites = edges.of(str(paper.get("id", "")).strip())
    if own or cites:
        links = [(link.relation, link.label) for link in own] + [("cites", target) for target in cites]
        paper["links"] = [{"relation": relation, "target": target} for relation, target in dict.fromkeys(links)]
    return {"kind": "abstract", **paper}


def read_ogb(files: Mapping[str, str], open_lines: Open, edges: Edges, skips: list[Skip]) -> Rows:
    """The papers of an OGB data set; `files` has `titleabs`, `edge`, `mapping` and perhaps `node_year`."""
    mapping = (line.strip().split(",") for line in open_lines(files["mapping"]))
    ids = {cells[0]: cells[1] for cells in mapping if len(cells) == 2 and cells[0].isdecimal()}
    years: dict[str, str] = {}
    if "node_year" in files:
        lines = (line.strip() for line in open_lines(files["node_year"]))
        years = {ids[str(number)]: year for number, year in enumerate(lines) if year and str(number) in ids}
    for number, line in enumerate(open_lines(files["edge"]), 1):
        ends = [ids.get(cell.strip(), "") for cell in line.split(",")]
        if len(ends) == 2 and all(ends):
            edges.add(*ends)
        elif line.strip():
            edges.skip(number, f"{line.strip()[:40]!r} are not the numbers of two papers of {files['mapping']}")
    edges.sort()
    known = {*ids.values()}
    unknown = 0
    for number, line in enumerate(open_lines(files["titleabs"]), 1):
        identity, title, abstract, *_ = *line.rstrip("\r\n").split("\t"), "", "", ""
        if identity in known:
            paper = {"id": identity, "title": title, "abstract": abstract, "date": years.get(identity, "")}
            yield number, _cited(paper, edges)
        else:
            unknown += bool(line.strip())
    if unknown:
        skips.append(Skip(files["titleabs"], 0, f"papers that {files['mapping']} does not list: {unknown:,}, not read"))
    edges.note_unused()
