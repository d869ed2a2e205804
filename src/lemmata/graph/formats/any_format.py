"""Graphs in whichever format: chosen by name, else by what stands in the files or how the target is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from lemmata.errors import InputError
from lemmata.graph.formats.graphml import read_graphml, write_graphml
from lemmata.graph.formats.json_file import read_json, write_json
from lemmata.graph.formats.neo4j import read_neo4j, write_neo4j
from lemmata.graph.formats.ogb import read_ogb, write_ogb
from lemmata.graph.formats.shared import DAMAGE, GraphRecords, opened
from lemmata.graph.formats.triples import nodes_beside, read_triples, write_triples
from lemmata.types import Skip

__all__ = ["FORMATS", "read_graph", "write_graph"]

WRITERS: dict[str, Callable[[Path, GraphRecords], None]] = {
    "graphml": write_graphml,
    "triples": write_triples,
    "neo4j": write_neo4j,
    "json": write_json,
    "ogb": write_ogb,
}
FORMATS = tuple(WRITERS)
FOLDERS = frozenset({"neo4j", "ogb"})
ENDINGS = {".graphml": "graphml", ".xml": "graphml", ".tsv": "triples", ".json": "json"}
HEAD = 65_536  # bytes looked at

_NODES = re.compile(r':ID(?:\([^)]*\))?(?:\{[^}]*\})?"?(?:[,;\t|]|$)')
_EDGES = re.compile(r":(?:START|END)_ID\b")


def read_graph(
    paths: Sequence[Path],
    format: str = "auto",  # noqa: A002 - the word that users know
    *,
    strict: bool = True,
) -> tuple[GraphRecords, list[Skip]]:
    """One graph: a file, a folder of OGB or of Neo4j's tables, or the files of such tables in any order.

    `auto` looks into what is given. A table without a header goes on where the one before it ends; the
    nodes beside a file of triples are read with it, whether given or not. Raises InputError for what is no
    graph that is known here, and for a format that is not.
    """
    if format not in ("auto", *FORMATS):
        raise InputError(f"the format {format!r} is unknown: {_choice('auto', *FORMATS)}")
    if not paths:
        raise InputError("no file of a graph is given")
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise InputError("there is no such file or folder", file=", ".join(str(path) for path in missing))
    name = _recognised(paths) if format == "auto" else format
    if name == "neo4j":
        return read_neo4j(*_tables(paths), strict=strict)
    if name == "triples":
        beside = {nodes_beside(path) for path in paths}
        paths = [path for path in paths if path not in beside] or paths
    if len(paths) > 1:
        raise InputError(f"{name} is one {_shape(name)}, but {len(paths)} are given")
    readers = {"graphml": read_graphml, "triples": read_triples, "json": read_json, "ogb": read_ogb}
    return readers[name](paths[0], strict=strict)


def write_graph(path: Path, records: GraphRecords, format: str = "auto") -> None:  # noqa: A002
    """Write a file, or a folder for neo4j and ogb; `auto` goes by the ending of the name."""
    name = format
    if format == "auto":
        name = ENDINGS.get(Path(path.name.removesuffix(".gz")).suffix.lower(), "")
        if not name:
            cause = f"its name ({', '.join(ENDINGS)}) does not tell the format: {_choice(*FORMATS)}"
            raise InputError(cause, file=str(path))
    if name not in WRITERS:
        raise InputError(f"the format {format!r} is unknown: {_choice('auto', *FORMATS)}")
    if path.exists() and path.is_dir() != (name in FOLDERS):
        raise InputError(f"is no {_shape(name)}, which {name} is written to", file=str(path))
    WRITERS[name](path, records)


def _choice(*names: str) -> str:
    return f"choose {', '.join(names[:-1])} or {names[-1]}"


def _shape(name: str) -> str:
    return "folder" if name in FOLDERS else "file"


def _recognised(paths: Sequence[Path]) -> str:
    """The format of what is given, or InputError."""
    first = paths[0]
    if len(paths) == 1 and first.is_dir():
        if (first / "raw").is_dir():
            return "ogb"
        if any(_table(path) for path in _csv_files(first)):
            return "neo4j"
        raise InputError("no graph: neither OGB's folder `raw` nor tables with :ID and :START_ID", file=str(first))
    folders = [path for path in paths if path.is_dir()]
    if folders:
        raise InputError("a folder is a graph by itself, nothing else may be given", file=str(folders[0]))
    if any(_table(path) for path in paths):
        return "neo4j"
    head = _head(first)
    start = head.replace("\0", "").lstrip("\ufeff\ufffd \t\r\n")[:1]  # XML may come in two bytes a letter
    if start == "<":
        return "graphml"
    if start in ("{", "["):
        return "json"
    if next((line for line in head.splitlines() if line.strip()), "").count("\t") >= 2:
        return "triples"
    cause = "no graph that is known here: neither GraphML, JSON, triples parted by tabs nor tables with :ID"
    raise InputError(f"{cause}; {_choice(*FORMATS)} where it is one of these", file=str(first))


def _tables(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Tables of nodes and of edges."""
    files = [file for path in paths for file in (_csv_files(path) if path.is_dir() else [path])]
    tables: dict[str, list[Path]] = {"nodes": [], "edges": []}
    kind = "nodes"
    for file in files:
        kind = _table(file) or kind
        tables[kind].append(file)
    return tables["nodes"], tables["edges"]


def _csv_files(folder: Path) -> list[Path]:
    return sorted((*folder.glob("*.csv"), *folder.glob("*.csv.gz")))


def _table(path: Path) -> str:
    """What a table of Neo4j holds by its header, `nodes` or `edges`; "" for a file without such a header."""
    header = _head(path).partition("\n")[0].rstrip("\r")
    return "edges" if _EDGES.search(header) else "nodes" if _NODES.search(header) else ""


def _head(path: Path) -> str:
    with opened(path) as stream:
        try:
            return stream.read(HEAD).decode("utf-8", "replace")
        except DAMAGE as error:
            raise InputError(f"the file is damaged: {error}", file=str(path)) from error
