"""Read sources into the corpus of a workspace: add new ones, replace changed ones, remove deleted ones."""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lemmata.errors import InputError
from lemmata.ingest.resolve import match_bibliography, resolve_links
from lemmata.ingest.sources import (
    IngestOptions,
    Source,
    Unit,
    find_units,
    fingerprint,
    is_unchanged,
    read_unit,
    read_whole_unit,
    with_preamble,
)
from lemmata.store.corpus import Corpus, CorpusWriter
from lemmata.store.layout import Layout, read_manifest, write_manifest
from lemmata.types import Progress, Reading, Skip
from lemmata.workers import WorkerDied, parallel_map

__all__ = ["IngestReport", "ingest"]


@dataclass(slots=True)
class IngestReport:
    """What an ingest changed, and what the corpus holds now."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # source: cause
    seconds: float = 0.0
    documents: int = 0
    passages: int = 0
    links: int = 0
    resolved: int = 0
    skips: int = 0


def ingest(
    layout: Layout,
    paths: Sequence[Path],
    options: IngestOptions,
    *,
    workers: int | None,
    again: bool,
    progress: Progress,
) -> IngestReport:
    """Read sources; `again` also reads unchanged ones. The same call resumes a stopped run."""
    begin = time.perf_counter()
    located = with_preamble(options, layout.root)
    sources = _find_all(paths, located, progress)
    report = IngestReport()
    with CorpusWriter(layout) as writer:
        manifest = layout.manifest(layout.corpus)
        for path, source in sources.items():
            root = os.path.relpath(path, layout.root)
            _ingest_source(layout, writer, root, source, located, report, workers, again, progress)
        if report.added or report.updated or report.removed or read_manifest(manifest) is None:
            progress("resolving links", 0, None)
            with writer.transaction():
                _resolve(writer)
                writer.number_rows()
            content = {"verb": "ingest", "options": asdict(options), "inputs": writer.digest()}
            write_manifest(manifest, {**content, "versions": _versions()})
    with contextlib.closing(Corpus(layout)) as corpus:
        counts = corpus.counts()
    report.documents = sum(counts["documents"].values())
    report.passages = sum(counts["passages"].values())
    report.links = sum(link["all"] for link in counts["links"].values())
    report.resolved = sum(link["resolved"] for link in counts["links"].values())
    report.skips = counts["skips"]
    report.seconds = time.perf_counter() - begin
    return report


def _ingest_source(
    layout: Layout,
    writer: CorpusWriter,
    root: str,
    source: Source,
    options: IngestOptions,
    report: IngestReport,
    workers: int | None,
    again: bool,
    progress: Progress,
) -> None:
    stored = writer.units(root)
    hashes: dict[str, str] = {}
    todo = []
    for unit in source.units:
        old = stored.get(unit.path)
        same = old is not None and old.fingerprint == fingerprint(unit, options)
        if old is not None and same and not again and is_unchanged(source.base, old.files, hashes):
            report.unchanged += 1
        else:
            todo.append(unit)
    deleted = stored.keys() - {unit.path for unit in source.units} - {""}
    if todo or deleted:
        layout.manifest(layout.corpus).unlink(missing_ok=True)
    with writer.transaction():
        for name in sorted(deleted):
            writer.remove(stored[name].number)
            report.removed.append(name)
        # skips from looking for units belong to the source itself
        writer.replace(root, "", "", [Reading(skips=source.skips)])
    for number, (unit, readings) in enumerate(_read_all(source.base, todo, options, workers)):
        progress("reading", number, len(todo))
        if isinstance(readings, str):
            report.failed[unit.path] = readings
            if unit.path in stored:
                continue  # keep the last good reading until the source can be read again
            readings = [Reading(skips=[Skip(unit.path, 0, readings)])]
        with writer.transaction():
            writer.replace(root, unit.path, fingerprint(unit, options), readings)
        (report.updated if unit.path in stored else report.added).append(unit.path)
    if todo:
        progress("reading", len(todo), len(todo))


def _find_all(paths: Sequence[Path], options: IngestOptions, progress: Progress) -> dict[Path, Source]:
    """The units of all paths; one error names all paths that cannot be used."""
    sources: dict[Path, Source] = {}
    problems = []
    for number, path in enumerate(paths):
        progress("looking for sources", number, len(paths))
        try:
            sources[path] = find_units(path, options)
        except InputError as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
    if problems:
        raise InputError("; ".join(problems))
    return sources


_STREAMED = ("logs", "passages")  # tables of any length are written to disk batch by batch


def _read_all(
    base: Path, units: Sequence[Unit], options: IngestOptions, workers: int | None
) -> Iterator[tuple[Unit, Iterator[Reading] | list[Reading] | str]]:
    tasks = [(base, unit, options) for unit in units if unit.reader not in _STREAMED]
    for (_, unit, _), result in parallel_map(read_whole_unit, tasks, workers=1 if len(tasks) < 3 else workers):
        yield unit, str(result) if isinstance(result, WorkerDied) else result
    for unit in units:
        if unit.reader in _STREAMED:
            readings = read_unit(base, unit, options)
            try:  # an unreadable table fails at its first batch
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
    others: list[tuple[int, str, str | None]] = []  # of cells that hold several ids

    def targets() -> Iterator[tuple[str | None, int]]:
        resolved = resolve_links(links, writer.labels(), writer.prefixes(), lambda d, key: cited.get((d, key)))
        for link in resolved:
            others.extend((link.number, label, target) for label, target in link.others)
            yield link.target, link.number

    writer.set_targets("links", targets())
    writer.set_other_links(others)
    writer.note_unknown_names()


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "lemmata": version("lemmata"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
