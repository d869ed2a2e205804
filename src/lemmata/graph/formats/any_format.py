"""Read a graph by the name or the content of its file; write one by the name of the target or of the format."""

from __future__ import annotations

from pathlib import Path

from lemmata.core.errors import InputError
from lemmata.core.types import Skip
from lemmata.graph.formats.graphml import read_graphml, write_graphml
from lemmata.graph.formats.json_file import read_json
from lemmata.graph.formats.json_lines import are_json_lines, read_json_lines, write_json_lines
from lemmata.graph.formats.ogb import read_ogb, write_ogb
from lemmata.graph.formats.shared import Collector, GraphRecords, open_binary

READERS = {"graphml": read_graphml, "jsonl": read_json_lines, "json": read_json, "ogb": read_ogb}
WRITERS = {"graphml": write_graphml, "jsonl": write_json_lines, "ogb": write_ogb}
_FORMATS = "graphml, jsonl or ogb"
ENDINGS = {".graphml": "graphml", ".xml": "graphml", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def read_graph(path: Path, *, strict: bool = True) -> tuple[GraphRecords, list[Skip]]:
    """A graph and what was skipped, from a file, or from a folder of OGB.

    Raises InputError for anything else, and for skipped entries if `strict`.
    """
    collector = Collector(path)
    READERS[_recognise(path)](path, collector)
    return collector.finish(strict)


def write_graph(path: Path, records: GraphRecords, format: str = "auto") -> None:  # noqa: A002
    """Write a file, or a folder for ogb; `auto` goes by the ending of the name."""
    if format not in ("auto", *WRITERS):
        raise InputError(f"the format {format!r} is unknown: choose auto, {_FORMATS}")
    name = _by_ending(path) if format == "auto" else format
    if not name:
        raise InputError(
            f"the name ends in none of {', '.join(ENDINGS)}, so give the format: {_FORMATS}", file=str(path)
        )
    shape = "folder" if name == "ogb" else "file"
    if path.exists() and path.is_dir() != (shape == "folder"):
        raise InputError(f"is not a {shape}, which the format {name} needs", file=str(path))
    try:
        WRITERS[name](path, records)
    except UnicodeEncodeError as error:
        raise InputError(f"half a surrogate pair is not text: {error.object[:80]!r}", file=str(path)) from error


def _by_ending(path: Path) -> str:
    return ENDINGS.get(Path(path.name.removesuffix(".gz")).suffix.lower(), "")


def _recognise(path: Path) -> str:
    """The name of the format, or InputError."""
    if path.is_dir():
        if (path / "raw").is_dir():
            return "ogb"
        raise InputError("not a graph: a folder without the folder `raw` of OGB", file=str(path))
    if not path.exists():
        raise InputError("there is no such file or folder", file=str(path))
    if name := _by_ending(path):
        return name
    with open_binary(path) as stream:
        try:
            head = stream.read(1024)
        except OSError as error:
            raise InputError(f"the file is damaged: {error}", file=str(path)) from error
    start = head.decode("utf-8", "replace").replace("\0", "").lstrip("\ufeff\ufffd \t\r\n")[:1]  # XML may be UTF-16
    if start == "<":
        return "graphml"
    if start in ("{", "["):
        return "jsonl" if are_json_lines(path) else "json"
    raise InputError("not recognised as a graph: neither GraphML nor JSON", file=str(path))
