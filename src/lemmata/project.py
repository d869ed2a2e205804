"""A workspace folder, and the verbs that work on it, in order; each picks up where it was stopped."""

from __future__ import annotations

import difflib
import importlib.util
import os
import platform
import shutil
import sqlite3
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.errors import ConfigError, InputError, WorkspaceError
from lemmata.ingest.resolve import match_bibliography, resolve_links
from lemmata.ingest.sources import (
    READERS,
    IngestOptions,
    Source,
    Unit,
    find_units,
    fingerprint,
    is_unchanged,
    read_unit,
    read_whole_unit,
)
from lemmata.store import Corpus, CorpusWriter, Layout, read_manifest, write_atomically, write_manifest
from lemmata.types import Reading, Skip
from lemmata.workers import WorkerDied, parallel_map

__all__ = ["Check", "IngestReport", "Progress", "Project", "doctor"]

Progress = Callable[[str, int, int | None], None]  # what is being done, how many are done, of how many

_DEFAULT_CONFIG = """\
# lemmata workspace. One table per verb; every key below shows its default.

[ingest]
# reader = "auto"            # or papers, logs, hierarchy, passages, text, pdf
# chunks = "rest"            # prose outside statements and proofs; or "all", or "none"
# chunk_size = 1500          # characters
# chunk_overlap = 200
# longest_statement = 12000  # characters
# long_statements = "cut"    # or "drop", or "keep"
# seconds = 120              # for one paper

[ingest.columns]             # of tables of logs
# id = "id"
# text = "text"
# title = ""
# date = "date"
# location = "location"
# related = "related"
"""


@dataclass(slots=True)
class IngestReport:
    """What an ingest changed, and what there is now."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # source: why
    seconds: float = 0.0
    documents: int = 0
    passages: int = 0
    links: int = 0
    resolved: int = 0
    skips: int = 0


class Check(NamedTuple):
    """One finding of the doctor."""

    name: str
    fine: bool
    finding: str


def _silent(_what: str, _done: int, _total: int | None) -> None:
    pass


class Project:
    """A workspace. `Project.init` makes one, `Project(folder)` opens it."""

    def __init__(self, folder: str | Path = ".") -> None:
        self.layout = Layout(Path(folder))
        if not self.layout.config.is_file():
            raise WorkspaceError(f"{folder} is no lemmata workspace: run 'lemmata init' there, or name one with -w")
        self.config = _read_config(self.layout.config)

    @classmethod
    def init(cls, folder: str | Path = ".") -> Project:
        """Make a folder a workspace; one that is a workspace already stays as it is."""
        layout = Layout(Path(folder))
        if layout.root.exists() and not layout.root.is_dir():
            raise WorkspaceError(f"{folder} is a file, not a folder")
        if not layout.config.exists():
            write_atomically(layout.config, _DEFAULT_CONFIG.encode())
        return cls(folder)

    @property
    def corpus(self) -> Corpus:
        """The passages; open until its `close`."""
        return Corpus(self.layout)

    # ------------------------------------------------------------ ingest

    def ingest(
        self,
        paths: Sequence[str | Path],
        *,
        settings: Mapping[str, Any] | None = None,
        workers: int | None = None,
        progress: Progress = _silent,
    ) -> IngestReport:
        """Read sources into the corpus: what is new is added, what changed is replaced, what is gone is removed.

        `settings` go over those of `lemmata.toml`. Stopped at any point, the same call goes on from there
        and ends with the same corpus.
        """
        begin = time.perf_counter()
        options = _build(IngestOptions, _merged(self.config.get("ingest", {}), settings or {}), "[ingest]")
        sources = _find_all([Path(path) for path in paths], options, progress)
        report = IngestReport()
        with CorpusWriter(self.layout) as writer:
            manifest = self.layout.manifest(self.layout.corpus)
            for path, source in sources.items():
                root = os.path.relpath(path, self.layout.root)
                self._ingest_source(writer, root, source, options, report, workers, progress)
            if report.added or report.updated or report.removed or read_manifest(manifest) is None:
                progress("resolving links", 0, None)
                with writer.transaction():
                    _resolve(writer)
                    writer.number_rows()
                content = {"verb": "ingest", "options": asdict(options), "inputs": writer.digest()}
                write_manifest(manifest, {**content, "versions": _versions()})
        corpus = self.corpus
        counts = corpus.counts()
        corpus.close()
        report.documents = sum(counts["documents"].values())
        report.passages = sum(counts["passages"].values())
        report.links = sum(link["all"] for link in counts["links"].values())
        report.resolved = sum(link["resolved"] for link in counts["links"].values())
        report.skips = counts["skips"]
        report.seconds = time.perf_counter() - begin
        return report

    def _ingest_source(
        self,
        writer: CorpusWriter,
        root: str,
        source: Source,
        options: IngestOptions,
        report: IngestReport,
        workers: int | None,
        progress: Progress,
    ) -> None:
        known = writer.units(root)
        hashes: dict[str, str] = {}
        todo = []
        for unit in source.units:
            old = known.get(unit.path)
            same = old is not None and old.fingerprint == fingerprint(unit, options)
            if old is not None and same and is_unchanged(source.base, old.files, hashes):
                report.unchanged += 1
            else:
                todo.append(unit)
        gone = known.keys() - {unit.path for unit in source.units} - {""}
        if todo or gone:
            self.layout.manifest(self.layout.corpus).unlink(missing_ok=True)
        with writer.transaction():
            for name in sorted(gone):
                writer.remove(known[name].number)
                report.removed.append(name)
            # what was left out before any unit was read belongs to the source itself
            writer.replace(root, "", "", [Reading(skips=source.skips)])
        for number, (unit, readings) in enumerate(_read_all(source.base, todo, options, workers)):
            progress("reading", number, len(todo))
            if isinstance(readings, str):
                report.failed[unit.path] = readings
                if unit.path in known:
                    continue  # what was read before stays until the source can be read again
                readings = [Reading(skips=[Skip(unit.path, 0, readings)])]
            with writer.transaction():
                writer.replace(root, unit.path, fingerprint(unit, options), readings)
            (report.updated if unit.path in known else report.added).append(unit.path)
        if todo:
            progress("reading", len(todo), len(todo))

    # ------------------------------------------------------------ info

    def info(self) -> dict[str, Any]:
        """Counts of everything in the workspace."""
        corpus = self.corpus
        counts = corpus.counts()
        corpus.close()
        locations = counts["documents"].get("location", 0)
        documents = sum(counts["documents"].values()) - locations
        passages = sum(counts["passages"].values())
        return {
            "workspace": str(self.layout.root),
            "documents": documents,
            "documents_by_kind": counts["documents"],
            "passages": counts["passages"],
            "passages_in_all": passages,
            "nodes": {
                "passage": passages,
                "document": documents,
                **({"location": locations} if locations else {}),
            },
            "edges": {relation: number["resolved"] for relation, number in counts["links"].items()},
            "links": counts["links"],
            "labels": counts["labels"],
            "bibliography": counts["bibliography"],
            "skips": counts["skips"],
            "models": [],
            "indexes": [],
        }


def _find_all(paths: Sequence[Path], options: IngestOptions, progress: Progress) -> dict[Path, Source]:
    """The units of all paths; all paths that can not be used are named in one error."""
    sources: dict[Path, Source] = {}
    wrong = []
    for number, path in enumerate(paths):
        progress("looking for sources", number, len(paths))
        try:
            sources[path] = find_units(path, options)
        except InputError as error:
            wrong.append(str(error))
        except OSError as error:
            wrong.append(f"{path}: {error.strerror}")
    if wrong:
        raise InputError("; ".join(wrong))
    return sources


_STREAMED = ("logs", "passages")  # tables of any length go straight to disk, batch by batch


def _read_all(
    base: Path, units: Sequence[Unit], options: IngestOptions, workers: int | None
) -> Iterator[tuple[Unit, Iterator[Reading] | list[Reading] | str]]:
    tasks = [(base, unit, options) for unit in units if unit.reader not in _STREAMED]
    for (_, unit, _), result in parallel_map(read_whole_unit, tasks, workers=1 if len(tasks) < 3 else workers):
        yield unit, str(result) if isinstance(result, WorkerDied) else result
    for unit in units:
        if unit.reader in _STREAMED:
            readings = read_unit(base, unit, options)
            try:  # a table that can not be read at all shows it at its first batch
                first = next(readings, None)
            except InputError as error:
                yield unit, error.cause
            else:
                yield unit, _chained(first, readings)


def _chained(first: Reading | None, rest: Iterator[Reading]) -> Iterator[Reading]:
    if first is not None:
        yield first
    yield from rest


def _resolve(writer: CorpusWriter) -> None:
    cited: dict[tuple[str, str], str] = {}
    matches = []
    for number, document, key, target in match_bibliography(writer.bibliography(), writer.documents()):
        matches.append((target, number))
        if target is not None:
            cited[document, key] = target
    writer.set_targets("bibliography", matches)
    links = list(writer.links())
    targets = resolve_links(links, writer.labels(), writer.prefixes(), lambda d, key: cited.get((d, key)))
    writer.set_targets("links", targets)


# ---------------------------------------------------------------- configuration


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    for table in config:
        if table != "ingest":
            raise ConfigError(f"{path}: there is no table [{table}]{_suggest(table, ['ingest'])}")
    _build(IngestOptions, config.get("ingest", {}), f"{path}: [ingest]")
    return config


def _suggest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {close[0]!r}?" if close else f" (there are: {', '.join(known)})"


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merged(result[key], value) if both else value
    return result


_CHOICES = {"reader": READERS, "chunks": ("rest", "all", "none"), "long_statements": ("cut", "drop", "keep")}


def _build(kind: type[Any], values: Mapping[str, Any], where: str) -> Any:
    """A dataclass of options from a table; nested dataclasses take their keys from the same table or their own."""
    defaults = kind()
    parts = {f.name: getattr(defaults, f.name) for f in fields(kind)}
    nested = {name: value for name, value in parts.items() if is_dataclass(value)}
    known = [name for name in parts if name not in nested or name == "columns"]
    known += [f.name for name, value in nested.items() if name != "columns" for f in fields(value)]
    for key in values:
        if key not in known:
            raise ConfigError(f"{where} has no key {key!r}{_suggest(key, known)}")
    built: dict[str, Any] = {}
    for name, default in parts.items():
        if name == "columns":
            built[name] = _build(type(default), values.get("columns", {}), f"{where[:-1]}.columns]")
        elif name in nested:
            own = {f.name for f in fields(default)}
            built[name] = _build(type(default), {key: values[key] for key in values if key in own}, where)
        elif name in values:
            built[name] = _checked(name, values[name], default, where)
    return kind(**built)


def _checked(name: str, value: Any, default: Any, where: str) -> Any:
    wanted = type(default)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not wanted:
        raise ConfigError(f"{where}: {name} = {value!r} should be a {wanted.__name__}")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ConfigError(f"{where}: {name} = {value!r}{_suggest(value, _CHOICES[name])}")
    if isinstance(value, int | float) and not isinstance(value, bool) and value < (0 if name == "chunk_overlap" else 1):
        raise ConfigError(f"{where}: {name} = {value!r} is too small")
    return value


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "lemmata": version("lemmata"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


# ---------------------------------------------------------------- doctor

_OPTIONAL = {"pypdfium2": "pdf", "pyarrow": "parquet"}


def doctor(folder: str | Path = ".") -> list[Check]:
    """What works here and what does not, each with its cure."""
    checks = [
        Check("python", sys.version_info >= (3, 11), platform.python_version()),
        Check(
            "sqlite",
            sqlite3.sqlite_version_info >= (3, 35),
            f"{sqlite3.sqlite_version} (3.35 or newer is needed)",
        ),
    ]
    for module, extra in _OPTIONAL.items():
        there = importlib.util.find_spec(module) is not None
        cure = "installed" if there else f"not installed: pip install 'lemmata[{extra}]'"
        checks.append(Check(f"extra {extra}", there, cure))
    layout = Layout(Path(folder))
    free = shutil.disk_usage(layout.root if layout.root.is_dir() else ".").free
    checks.append(Check("disk", free > 2**30, f"{free / 2**30:.1f} GiB free"))
    if not layout.config.is_file():
        checks.append(Check("workspace", False, f"{folder} is none: run 'lemmata init'"))
        return checks
    try:
        project = Project(folder)
        checks.append(Check("workspace", True, str(layout.root)))
        corpus = project.corpus
        checks.append(Check("corpus", True, f"{len(corpus):,} passages"))
        corpus.close()
    except (ConfigError, WorkspaceError) as error:
        checks.append(Check("workspace", False, str(error)))
    return checks
