"""`lemmata run`: the recipe of `lemmata.toml` from sources to a measured model, and the table before and after.

A stage that is done, with what it was done from unchanged, is not done again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lemmata.config import build
from lemmata.errors import ConfigError, WorkspaceError
from lemmata.project import EvaluateOptions, Progress, Project
from lemmata.store.files import read_manifest, write_atomically, write_manifest
from lemmata.train.job import fingerprint

if TYPE_CHECKING:
    from lemmata.evaluate.report import Report
    from lemmata.evaluate.tasks import Task

__all__ = ["RunOptions", "run"]

TASKS = ("references", "documents", "concepts", "descriptions")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is done, in the order of the keys; each stage takes its options from its own table."""

    sources: list[str] = field(default_factory=list)  # read into the corpus; none: it is there
    graph: bool = True
    split: bool = True
    mine: list[str] = field(default_factory=lambda: ["pairs", "queries"])
    imports: dict[str, str] = field(default_factory=dict)  # training set: file of queries written elsewhere
    negatives: list[str] = field(default_factory=list)  # training sets that get hard negatives, as NAME-hard
    pretrain: list[str] = field(default_factory=list)  # [pretrain.NAME]
    finetune: list[str] = field(default_factory=lambda: ["tuned"])  # [finetune.NAME] in order; the last is compared
    base: str = "minilm"  # what the tuned model is compared with
    tasks: list[str] = field(default_factory=lambda: ["references"])  # of the test part, or folders of BEIR
    measures: str = "MRR@10,nDCG@10,R@20"


class _Stages:
    """Which stages are done, and from what."""

    def __init__(self, folder: Path, tell: Callable[[str, bool], None]) -> None:
        self._file = folder / "stages.json"
        manifest = read_manifest(self._file) or {}
        self._done: dict[str, dict[str, Any]] = manifest.get("stages", {})
        self._key = ""
        self._tell = tell

    def do(self, name: str, options: Any, act: Callable[[], Any]) -> Any:
        """What `act` reports, or reported when it was done from the same."""
        self._key = fingerprint([self._key, name, options])
        known = self._done.get(name)
        self._tell(name, known is not None and known["key"] == self._key)
        if known is not None and known["key"] == self._key:
            return known["report"]
        report = json.loads(json.dumps(act(), default=str))
        self._done[name] = {"key": self._key, "report": report}
        write_manifest(self._file, {"verb": "run", "stages": self._done})
        return report


def run(
    project: Project, *, tell: Callable[[str, bool], None] = lambda _name, _done: None, progress: Progress
) -> list[Report]:
    """Do what is not done yet; returns one report for each task, base and tuned model side by side.

    `tell` hears the name of each stage, and whether it was done before.
    """
    options = build(RunOptions, project.config.get("run", {}), f"{project.layout.config}: [run]")
    if not options.finetune:
        raise ConfigError(f"{project.layout.config}: [run] names no finetune, so there is nothing to compare")
    folder = project.layout.root / "run"
    folder.mkdir(exist_ok=True)
    stages = _Stages(folder, tell)
    config = project.config
    if options.sources:
        paths = [project.layout.root / source for source in options.sources]
        # always asked: what did not change is not read again, and the rest depends on what did
        tell("ingest", False)
        project.ingest(paths, progress=progress)
    with contextlib.closing(project.corpus) as corpus:
        if not len(corpus):
            raise WorkspaceError(f"the corpus in {project.layout.root} is empty: name sources in [run]")
        stages.do("corpus", corpus.inputs, dict)
    if options.graph:
        stages.do("graph", config.get("graph", {}), lambda: project.build_graph(progress=progress))
    if options.split:
        stages.do("split", config.get("split", {}), lambda: project.split(progress=progress))
    before = _encoded(project, options.base, stages, progress)

    def mined(what: str, name: str, of: str = "") -> Any:
        _have(project, options.base, before, progress)  # the vectors may be those of an earlier run's model
        return project.mine(what, name=name, of=of, progress=progress)

    for name in options.mine:
        stages.do(f"mine {name}", config.get("mine", {}), partial(mined, name, name))
    for name, file in options.imports.items():
        path = project.layout.root / file
        written = path.stat().st_mtime_ns if path.exists() else 0
        act = partial(project.import_queries, path, name=name, progress=progress)
        stages.do(f"import {name}", [file, written], act)
    for name in options.negatives:
        stages.do(f"negatives {name}", config.get("mine", {}), partial(mined, "negatives", f"{name}-hard", name))
    for name in options.pretrain:
        table = config.get("pretrain", {}).get(name, {})
        stages.do(f"pretrain {name}", table, partial(project.pretrain, name, progress=progress))
    tasks = {task: _task(project, task) for task in options.tasks}
    first = (options.base, before)
    found = _found(project, tasks, ("lexical", "dense", "hybrid"), options, folder / "before", first, progress)
    for name in options.finetune:
        table = config.get("finetune", {}).get(name, {})
        stages.do(f"finetune {name}", table, partial(project.finetune, name, progress=progress))
    after = _encoded(project, options.finetune[-1], stages, progress)
    last = (options.finetune[-1], after)
    tuned = _found(project, tasks, ("dense", "hybrid"), options, folder / "after", last, progress)
    reports = [_report(name, task, found[name], tuned[name], options) for name, task in tasks.items()]
    _write(folder, reports)
    return reports


def _encoded(project: Project, encoder: str, stages: _Stages, progress: Progress) -> str:
    report = stages.do(
        f"index {encoder}",
        project.config.get("index", {}),
        lambda: project.index(settings={"encoder": encoder}, progress=progress),
    )
    return str(report["encoder"])


def _task(project: Project, name: str) -> Task:
    from lemmata.evaluate.tasks import task_from
    from lemmata.ingest.beir import read_qrels, read_queries

    if name in TASKS:
        return project.task(name, part="test")
    folder = project.layout.root / name
    if not folder.is_dir():
        raise ConfigError(f"[run] tasks: {name!r} is neither one of {', '.join(TASKS)} nor a folder")
    return task_from(Path(name).name, read_queries(folder / "queries.jsonl"), read_qrels(folder / "qrels" / "test.tsv"))


def _found(
    project: Project,
    tasks: Mapping[str, Task],
    retrievers: tuple[str, ...],
    options: RunOptions,
    folder: Path,
    encoder: tuple[str, str],
    progress: Progress,
) -> dict[str, Report]:
    """Measure, or read what was measured with the same encoder (what to call it, and its name)."""
    from lemmata.evaluate.report import Report

    folder.mkdir(exist_ok=True)
    reports = {}
    for number, (name, task) in enumerate(tasks.items()):
        file = folder / f"{number}.json"
        key = fingerprint([name, encoder, options.measures, list(task.qrels.items())[:50], len(task.qrels)])
        known = read_manifest(file)
        if known is None or known.get("key") != key:
            _have(project, *encoder, progress)
            measured = project.evaluate(
                task, retrievers=retrievers, options=EvaluateOptions(measures=options.measures), progress=progress
            )
            known = {
                "key": key,
                "retrievers": {
                    retriever: {measure: values.tolist() for measure, values in measures.items()}
                    for retriever, measures in measured.retrievers.items()
                },
                "groups": {group: members.tolist() for group, members in measured.groups.items()},
                "notes": list(measured.notes),
            }
            write_manifest(file, {"verb": "run", **known})
        reports[name] = Report(
            task=task.name,
            queries=list(task.qrels),
            texts={query: task.queries[query] for query in task.qrels},
            retrievers={
                retriever: {measure: np.array(values) for measure, values in measures.items()}
                for retriever, measures in known["retrievers"].items()
            },
            groups={group: np.array(members, bool) for group, members in known["groups"].items()},
            comparisons=[],
            recall={},
            notes=known["notes"],
            command="lemmata run",
        )
    return reports


def _have(project: Project, encoder: str, name: str, progress: Progress) -> None:
    """Make sure that the vectors of the workspace are those of this encoder."""
    vectors = read_manifest(project.layout.manifest(project.layout.vectors)) or {}
    if vectors.get("made_by") != name:
        project.index(settings={"encoder": encoder}, progress=progress)


def _report(name: str, task: Task, before: Report, after: Report, options: RunOptions) -> Report:
    from lemmata.evaluate.significance import compare

    tuned = options.finetune[-1]
    results = {
        "BM25": before.retrievers["lexical"],
        options.base: before.retrievers["dense"],
        f"{options.base} + BM25": before.retrievers["hybrid"],
        tuned: after.retrievers["dense"],
        f"{tuned} + BM25": after.retrievers["hybrid"],
    }
    first = options.measures.split(",")[0]
    comparisons = compare(results, first, options.base, np.random.default_rng(0))
    return replace(before, task=f"{task.name} ({name})", retrievers=results, comparisons=comparisons)


def _write(folder: Path, reports: list[Report]) -> None:
    from lemmata.evaluate.report import as_html, as_json

    told = [as_json(report) for report in reports]
    write_atomically(folder / "report.json", (json.dumps(told, ensure_ascii=False, indent=1) + "\n").encode())
    for number, report in enumerate(reports):
        write_atomically(folder / f"report-{number}.html", as_html(report).encode())
