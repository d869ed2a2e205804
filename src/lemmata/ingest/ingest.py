"""The verbs that change the corpus: ingest and remove sources.

The readers compile hundreds of patterns, so that they are imported only when a verb runs.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lemmata.core.errors import InputError
from lemmata.core.objects import is_url
from lemmata.core.types import Reading, Skip
from lemmata.core.workspace import Settings, Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.writer import CorpusWriter, Rename, stored_columns


@dataclass(slots=True)
class IngestReport:
    """What an ingest changed, and what the corpus holds now; the first five count papers, archives, tables, texts."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    files: dict[str, list[str]] = field(default_factory=lambda: {"added": [], "changed": [], "removed": []})
    failures: dict[str, str] = field(default_factory=dict)  # file: cause
    renamed: list[Rename] = field(default_factory=list)  # ids that another source has
    read_before: dict[str, str] = field(default_factory=dict)  # file: with which other source
    no_longer_read: dict[str, dict[str, Any]] = field(default_factory=dict)  # source: columns named before, by option
    left: int = 0  # files that a quick reading left out
    seconds: float = 0.0
    documents: int = 0  # without locations
    locations: int = 0
    passages: int = 0
    links: int = 0
    resolved: int = 0
    skips: int = 0


def ingest(
    workspace: Workspace,
    paths: Sequence[str | Path],
    *,
    settings: Settings | None = None,
    workers: int | None = None,
    again: bool = False,
    only: bool = False,
    quick: bool = False,
) -> IngestReport:
    """Read sources into the corpus: add new ones, replace changed ones, remove deleted ones.

    A path may be a URL of an object store. `again` also reads unchanged sources. The same call resumes a stopped run.
    With `only` the corpus becomes equal to these paths: what was read from others is removed, and so is all of a path
    that was read before and is gone by now, or has nothing to read any more.
    With `quick`, large files to read are left out, and what may have to take another id because of them; the same call
    without it reads them, and the corpus is as if all had been read at once.
    Where `settings` name no columns, those that were named for a source before count, unless [ingest] names others.
    A file that was read with a folder is brought up to date with it, as it is read there.

    A source that cannot be read is in the report, and the others are read. Raises InputError for paths that do not
    exist, before anything is read, and where no source has anything to read.
    """
    from lemmata.ingest.fetch import fetch
    from lemmata.ingest.readers import IngestOptions, with_preamble
    from lemmata.ingest.sources import find_units
    from lemmata.ingest.update import SourceUpdate, drop_mended, find_sources, finish, with_columns

    begin = time.perf_counter()
    report = IngestReport()
    options = workspace.options(IngestOptions, "ingest", settings)
    reading_options = with_preamble(options, workspace.root)
    columns = stored_columns(workspace)
    columns_before = {} if (settings or {}).get("columns") else columns
    places: dict[str, Path] = {}  # by root
    for path in paths:
        place = fetch(workspace, str(path)) if is_url(path) else Path(path)
        places.setdefault(os.path.relpath(place, workspace.root), place)
    options_of = {root: with_columns(reading_options, columns_before.get(root, {})) for root in places}
    sources = find_sources(workspace, places, options_of, report, may_vanish=only)
    with CorpusWriter(workspace) as writer:
        if only:
            read_now = {os.path.realpath(workspace.root / root) for root in sources}
            for root in writer.roots():
                if os.path.realpath(workspace.root / root) not in read_now:
                    _remove_root(writer, root, report)
        with writer.transaction():
            for name, cause in report.failures.items():
                note = Skip(Path(name).name, 0, f"could not be read: {cause}")
                writer.replace(os.path.relpath(name, workspace.root), "", "", [Reading(skips=[note])])
        for root, source in sources.items():
            if report.left:  # whose ids come first
                report.left += len(source.units)
                continue
            make_update = partial(SourceUpdate, writer, report=report, workers=workers, again=again, quick=quick)
            update = make_update(root=root, source=source, options=options_of[root])
            if places[root].is_file() and not (settings or {}).get("columns") and (owner := update.owner):
                of_owner = with_columns(reading_options, columns.get(owner[0], {}))
                whole = find_units(workspace.root / owner[0], of_owner)
                if any(unit.path == owner[1] for unit in whole.units):
                    root = owner[0]
                    update = make_update(root=root, source=whole, options=of_owner, only=owner[1])
            update.run(columns.get(root, {}))
        changed = any(report.files.values()) or writer.resumed
        if changed:
            with writer.transaction():
                drop_mended(writer)
        if changed or read_manifest(workspace.manifest(workspace.corpus_folder)) is None:
            finish(writer, asdict(options))
    return _complete(workspace, report, begin)


def remove(workspace: Workspace, paths: Sequence[str | Path]) -> IngestReport:
    """Remove sources from the corpus, whether they still exist or not. InputError lists the known ones."""
    from lemmata.ingest.fetch import place_of
    from lemmata.ingest.readers import IngestOptions
    from lemmata.ingest.update import finish, read_before

    begin = time.perf_counter()
    report = IngestReport()
    places = [place_of(workspace, str(path)) if is_url(path) else Path(path) for path in paths]
    if not workspace.database.is_file():
        raise InputError(f"{', '.join(map(str, places))} was not ingested; there are no sources yet")
    manifest = read_manifest(workspace.manifest(workspace.corpus_folder))
    with CorpusWriter(workspace) as writer:
        roots = {os.path.realpath(workspace.root / root): root for root in writer.roots()}
        # a run that was killed may have removed them already, or all but written the manifest
        before = read_before(workspace) if manifest and writer.resumed else frozenset()
        unknown = [place for place in places if os.path.realpath(place) not in before.union(roots)]
        if unknown and manifest:
            names = ", ".join(shown_path(workspace, root) for root in roots.values()) or "there are none"
            raise InputError(f"{', '.join(map(str, unknown))} was not ingested; the sources are: {names}")
        for place in places:
            if root := roots.get(os.path.realpath(place)):
                _remove_root(writer, root, report)
        finish(writer, manifest["options"] if manifest else asdict(workspace.options(IngestOptions, "ingest")))
    return _complete(workspace, report, begin)


def _remove_root(writer: CorpusWriter, root: str, report: IngestReport) -> None:
    """Remove all that was read from a source."""
    with writer.transaction():
        for name, unit in writer.units(root).items():
            writer.remove(unit.number)
            if name:
                report.files["removed"].append(shown_path(writer.workspace, root, name))
        writer.store_columns(root, {})


def shown_path(workspace: Workspace, root: str, unit: str = "") -> str:
    """The path of a stored unit or root, relative to the current folder if it is below it."""
    path = Path(os.path.normpath((workspace.root / root).absolute()))
    if unit and (path.name != unit or path.is_dir()):  # a file is its own only unit
        path /= unit
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _complete(workspace: Workspace, report: IngestReport, begin: float) -> IngestReport:
    """The report with its counts, those of the corpus among them."""
    report.added, report.changed, report.removed = (len(report.files[key]) for key in ("added", "changed", "removed"))
    report.failed = len(report.failures)
    with contextlib.closing(Corpus(workspace)) as corpus:
        totals = corpus.totals()
    report.locations = totals["locations"]
    report.documents = totals["documents"] - report.locations
    report.passages, report.links, report.resolved = totals["passages"], totals["links"], totals["resolved"]
    report.skips = totals["skips"]
    report.seconds = time.perf_counter() - begin
    return report
