"""Read and write a graph in any format, chosen by name, else by the content of the files or the name of the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from lemmata.core.errors import InputError
from lemmata.core.types import Skip
from lemmata.graph.formats.graphml import read_graphml, write_graphml
from lemmata.graph.formats.json_file import read_json, write_json
from lemmata.graph.formats.neo4j import read_neo4j, table_files, table_kind, write_neo4j
from lemmata.graph.formats.ogb import read_ogb, write_ogb
from lemmata.graph.formats.shared import Collector, GraphRecords, head
from lemmata.graph.formats.triples import nodes_beside, read_triples, write_triples


class Format(NamedTuple):
    read: Callable[[Path, Collector], None] | None  # None: of several files
    write: Callable[[Path, GraphRecords], None]
    shape: str = "file"


FORMATS = {
    "graphml": Format(read_graphml, write_graphml),
    "triples": Format(read_triples, write_triples),
    "neo4j": Format(None, write_neo4j, "folder"),
    "json": Format(read_json, write_json),
    "ogb": Format(read_ogb, write_ogb, "folder"),
}
ENDINGS = {".graphml": "graphml", ".xml": "graphml", ".tsv": "triples", ".json": "json"}


def read_graph(
    paths: Sequence[Path],
    format: str = "auto",  # noqa: A002 - the name of the command-line option
    *,
    strict: bool = True,
) -> tuple[GraphRecords, list[Skip]]:
    """One graph: a file, a folder of OGB or of Neo4j tables, or the files of such tables in any order.

    `auto` looks at the content. A table without a header continues the one before it; the nodes beside a file
    of triples are read with it, whether given or not. Returns the records and what was skipped. Raises InputError
    for anything else, and for skipped entries if `strict`.
    """
    _check_name(format)
    if not paths:
        raise InputError("no graph file is given")
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise InputError("there is no such file or folder", file=", ".join(str(path) for path in missing))
    name = _recognise(paths) if format == "auto" else format
    collector = Collector(paths[0])
    if name == "triples":
        beside = {nodes_beside(path) for path in paths}
        paths = [path for path in paths if path not in beside] or paths
    read, _, shape = FORMATS[name]
    if read is None:
        read_neo4j(paths, collector)
    elif len(paths) > 1:
        raise InputError(f"a graph in the format {name} is one {shape}, but {len(paths)} are given")
    else:
        read(paths[0], collector)
    return collector.finish(strict)


def write_graph(path: Path, records: GraphRecords, format: str = "auto") -> None:  # noqa: A002
    """Write a file, or a folder for neo4j and ogb; `auto` goes by the ending of the name."""
    _check_name(format)
    name = ENDINGS.get(Path(path.name.removesuffix(".gz")).suffix.lower()) if format == "auto" else format
    if name is None:
        cause = f"the name ends in none of {', '.join(ENDINGS)}, so give the format: {_choice(*FORMATS)}"
        raise InputError(cause, file=str(path))
    _, write, shape = FORMATS[name]
    if path.exists() and path.is_dir() != (shape == "folder"):
        raise InputError(f"is not a {shape}, which the format {name} needs", file=str(path))
    try:
        write(path, records)
    except UnicodeEncodeError as error:
        raise InputError(f"half a surrogate pair is not text: {error.object[:80]!r}", file=str(path)) from error


def _check_name(name: str) -> None:
    if name not in ("auto", *FORMATS):
        raise InputError(f"the format {name!r} is unknown: {_choice('auto', *FORMATS)}")


def _choice(*names: str) -> str:
    return f"choose {', '.join(names[:-1])} or {names[-1]}"


def _recognise(paths: Sequence[Path]) -> str:
    """The name of the format, or InputError."""
    first = paths[0]
    if len(paths) == 1 and first.is_dir():
        if (first / "raw").is_dir():
            return "ogb"
        if any(table_kind(path) for path in table_files(first)):
            return "neo4j"
        raise InputError("not a graph: neither a folder `raw` of OGB nor tables with :ID", file=str(first))
    folders = [path for path in paths if path.is_dir()]
    if folders:
        raise InputError("a folder is a graph by itself and cannot be combined with other paths", file=str(folders[0]))
    if any(table_kind(path) for path in paths):
        return "neo4j"
    text = head(first)
    start = text.replace("\0", "").lstrip("\ufeff\ufffd \t\r\n")[:1]  # XML may be UTF-16
    if start == "<":
        return "graphml"
    if start in ("{", "["):
        return "json"
    if "\t" in next((line.strip() for line in text.splitlines() if line.strip()), ""):
        return "triples"
    cause = "not recognised as a graph: neither GraphML, JSON, tab-separated triples nor tables with :ID"
    raise InputError(f"{cause}; if it is one, {_choice(*FORMATS)}", file=str(first))
