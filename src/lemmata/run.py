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

from lemmata.config import build, suggest
from lemmata.encode.load import DEFAULT
from lemmata.errors import ConfigError, WorkspaceError
from lemmata.files import write_atomically
from lemmata.project import EvaluateOptions, Progress, Project
from lemmata.stages.evaluate import TASKS
from lemmata.store.layout import read_manifest, write_manifest
from lemmata.train.job import fingerprint

if TYPE_CHECKING:
    from lemmata.evaluate.report import Report
    from lemmata.evaluate.tasks import Task

__all__ = ["RunOptions", "run"]

MINED = ("pairs", "queries", "triplets")


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
    base: str = DEFAULT  # what the tuned model is compared with
    tasks: list[str] = field(default_factory=lambda: ["references"])  # of the test part, or folders of BEIR
    measures: str = "MRR@10,nDCG@10,R@20"


class _Stages:
    """Which stages are done, and from what."""

    def __init__(self, folder: Path, tell: Callable[[str, bool], None]) -> None:
        self._file = folder / "stages.json"
        manifest = read_manifest(self._file) or {}
        self._done: dict[str, dict[str, Any]] = manifest.get("stages", {})
        self._tell = tell
        self.key = ""  # of all that was done or found done so far

    def do(self, name: str, options: Any, act: Callable[[], Any], made: Path | None = None) -> Any:
        """What `act` reports, or reported when it was done from the same, as long as the manifest `made` is there."""
        self.key = fingerprint([self.key, name, options])
        known = self._done.get(name)
        done = known is not None and known["key"] == self.key and (made is None or made.is_file())
        self._tell(name, done)
        if known is not None and done:
            return known["report"]
        report = json.loads(json.dumps(act(), default=str))
        self._done[name] = {"key": self.key, "report": report}
        write_manifest(self._file, {"verb": "run", "stages": self._done})
        return report


def run(
    project: Project, *, tell: Callable[[str, bool], None] = lambda _name, _done: None, progress: Progress
) -> list[Report]:
    """Do what is not done yet; returns one report for each task, base and tuned model side by side.

    `tell` hears the name of each stage, and whether it was done before.
    """
    options = build(RunOptions, project.config.get("run", {}), f"{project.layout.config}: [run]")
    _check(project, options)
    layout, config = project.layout, project.config
    folder = layout.root / "run"
    folder.mkdir(exist_ok=True)
    stages = _Stages(folder, tell)
    if options.sources:
        paths = [layout.root / source for source in options.sources]
        # always asked: what did not change is not read again, and the rest depends on what did
        tell("ingest", False)
        project.ingest(paths, progress=progress)
    with contextlib.closing(project.corpus) as corpus:
        if not len(corpus):
            raise WorkspaceError(f"the corpus in {layout.root} is empty: name sources in [run]")
        stages.do("corpus", corpus.inputs, dict)
    if options.graph:
        build_graph = partial(project.build_graph, progress=progress)
        stages.do("graph", config.get("graph", {}), build_graph, layout.manifest(layout.graph))
    if options.split:
        split = partial(project.split, progress=progress)
        stages.do("split", config.get("split", {}), split, layout.manifest(layout.split))
    tasks = {task: _task(project, task) for task in options.tasks}
    before = _encoded(project, options.base, stages, progress)
    first = (options.base, before, stages.key)
    found = _found(project, tasks, ("lexical", "dense", "hybrid"), options, folder / "before", first, progress)
    _mine(project, options, before, stages, progress)
    _audit(project, tasks, stages, progress)
    for name in options.pretrain:
        table = config.get("pretrain", {}).get(name, {})
        judge = config.get("finetune", {}).get(table.get("judge", ""), {})
        pretrain = partial(project.pretrain, name, progress=progress)
        stages.do(f"pretrain {name}", [table, judge], pretrain, layout.manifest(layout.model(name)))
    for name in options.finetune:
        table = config.get("finetune", {}).get(name, {})
        finetune = partial(project.finetune, name, progress=progress)
        stages.do(f"finetune {name}", table, finetune, layout.manifest(layout.model(name)))
    after = _encoded(project, options.finetune[-1], stages, progress)
    last = (options.finetune[-1], after, stages.key)
    tuned = _found(project, tasks, ("dense", "hybrid"), options, folder / "after", last, progress)
    _have(project, *last[:2], progress)  # whatever had to be done again, one searches with the tuned model
    reports = [_report(name, task, found[name], tuned[name], options) for name, task in tasks.items()]
    _write(folder, reports)
    return reports


def _check(project: Project, options: RunOptions) -> None:
    """Refuse what can not come to an end before anything long is done."""
    from lemmata.encode.load import encoder_kind
    from lemmata.measures import parse_measure

    where = f"{project.layout.config}: [run]"
    if not options.finetune:
        raise ConfigError(f"{where} names no finetune, so there is nothing to compare")
    if not options.tasks:
        raise ConfigError(f"{where} names no tasks, so there is nothing to measure")
    if options.base == options.finetune[-1]:
        raise ConfigError(f"{where}: base = {options.base!r} would be compared with itself")
    made = {*options.mine, *options.imports, *project.training_sets()}
    for key, given, known in (
        ("mine", options.mine, MINED),
        ("negatives", options.negatives, tuple(made)),
        ("pretrain", options.pretrain, tuple(project.config.get("pretrain", {}))),
        ("finetune", options.finetune, tuple(project.config.get("finetune", {}))),
    ):
        for name in given if known else ():
            if name not in known:
                raise ConfigError(f"{where}: {key} = {name!r}{suggest(name, known)}")
    for path in (*options.sources, *options.imports.values()):
        if not (project.layout.root / path).exists():
            raise ConfigError(f"{where}: there is no {project.layout.root / path}")
    for name in options.tasks:
        if name not in TASKS:
            _task(project, name)
    for measure in options.measures.split(","):
        parse_measure(measure)
    encoder_kind(options.base, project.layout.models)
    _check_models(project, options)


def _check_models(project: Project, options: RunOptions) -> None:
    """Refuse models whose base, guide or teacher is neither there nor made before them."""
    from lemmata.stages.train import find_base

    made: set[str] = set()
    for verb, names in (("pretrain", options.pretrain), ("finetune", options.finetune)):
        for name in names:
            table = project.config.get(verb, {}).get(name, {})
            if table.get("judge"):
                project.finetune_options(table["judge"])
            for key in ("base", "guide", "teacher"):
                if table.get(key, "") not in ("", "base", *made):
                    find_base(project.layout, table[key])
            made.add(name)


def _mine(project: Project, options: RunOptions, encoder: str, stages: _Stages, progress: Progress) -> None:
    layout = project.layout
    tables = [project.config.get("mine", {}), project.config.get("audit", {})]

    def mined(what: str, name: str, of: str = "") -> Any:
        _have(project, options.base, encoder, progress)  # the vectors may be those of an earlier run's model
        return project.mine(what, name=name, of=of, progress=progress)

    for name in options.mine:
        stages.do(f"mine {name}", tables, partial(mined, name, name), layout.manifest(layout.training(name)))
    for name, file in options.imports.items():
        path = layout.root / file
        act = partial(project.import_queries, path, name=name, progress=progress)
        told = [file, path.stat().st_mtime_ns, tables[1]]
        stages.do(f"import {name}", told, act, layout.manifest(layout.training(name)))
    for name in options.negatives:
        hard = f"{name}-hard"
        made = layout.manifest(layout.training(hard))
        stages.do(f"negatives {name}", tables, partial(mined, "negatives", hard, name), made)


def _audit(project: Project, tasks: Mapping[str, Task], stages: _Stages, progress: Progress) -> None:
    """No query of a test folder may be known from training; the tasks of the test part were kept from the miners."""
    from lemmata.leakage import Example

    queries = [text for name, task in tasks.items() if name not in TASKS for text in task.queries.values()]
    test = [Example(f"test query {number}", text, ()) for number, text in enumerate(queries, 1)]
    if test:
        stages.do("audit", queries, lambda: str(project.audit(test=test, progress=progress)))


def _encoded(project: Project, encoder: str, stages: _Stages, progress: Progress) -> str:
    """Index with an encoder; another model under the same name is another stage."""
    from lemmata.encode.load import model_folder
    from lemmata.stages.train import weights_sha256

    folder = model_folder(encoder, project.layout.models)
    weights = weights_sha256(folder) if folder.is_dir() else ""
    index = partial(project.index, settings={"encoder": encoder}, progress=progress)
    return str(stages.do(f"index {encoder}", [project.config.get("index", {}), weights], index)["encoder"])


def _task(project: Project, name: str) -> Task:
    from lemmata.evaluate.tasks import task_from
    from lemmata.ingest.beir import read_judged

    if name in TASKS:
        return project.task(name, part="test")
    folder = project.layout.root / name
    if not folder.is_dir():
        raise ConfigError(f"[run] tasks: {name!r} is neither one of {', '.join(TASKS)} nor a folder")
    return task_from(Path(name).name, *read_judged(folder))


def _found(
    project: Project,
    tasks: Mapping[str, Task],
    retrievers: tuple[str, ...],
    options: RunOptions,
    folder: Path,
    encoder: tuple[str, str, str],
    progress: Progress,
) -> dict[str, Report]:
    """Measure, or read what was measured with the same encoder: what to call it, its name, and the key of its index."""
    from lemmata.evaluate.report import Report

    folder.mkdir(exist_ok=True)
    reports = {}
    for number, (name, task) in enumerate(tasks.items()):
        file = folder / f"{number}.json"
        key = fingerprint([name, encoder, options.measures, task.queries, task.qrels])
        known = read_manifest(file)
        if known is None or known.get("key") != key:
            _have(project, *encoder[:2], progress)
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
    files = {"report.json": json.dumps(told, ensure_ascii=False, indent=1) + "\n"}
    files |= {f"report-{number}.html": as_html(report) for number, report in enumerate(reports)}
    for name, content in files.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content.encode():
            write_atomically(folder / name, content.encode())
