"""`lemmata run`: the stages of [run] in order, from sources to a measured model, and the table before and after.

A stage that is up to date with its inputs is not run again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lemmata.core.errors import ConfigError, WorkspaceError, suggest
from lemmata.core.files import fingerprint, sha256_of, write_atomically
from lemmata.core.objects import is_url
from lemmata.core.workspace import read_manifest, write_manifest
from lemmata.encode.load import AUTO
from lemmata.evaluate.evaluate import TASKS, EvaluateOptions
from lemmata.llm.endpoint import Limits
from lemmata.project import Project
from lemmata.search.fusion import Fusion
from lemmata.search.index import packaged_encoder
from lemmata.vectors.store import vectors_manifest

if TYPE_CHECKING:
    from lemmata.corpus.split import Keys
    from lemmata.evaluate.report import Report
    from lemmata.evaluate.significance import Floats64
    from lemmata.evaluate.tasks import Task
    from lemmata.train.update import Known


MINED = ("pairs", "queries", "triplets", "written")
UPDATES = ("auto", "always", "anew")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `lemmata run` does, in the order of the keys; each stage takes its options from its own table."""

    CHOICES: ClassVar = {"mine": MINED, "limits": Limits._fields, "update": UPDATES}
    sources: list[str] = field(default_factory=list)  # files, folders and URLs to ingest; empty: the corpus as it is
    graph: bool = True  # build the graph
    extract: bool = False  # concepts and relations by the language model of [llm]
    split: bool = True  # split the corpus
    link: bool = False  # predict links of plant logs, learned from the training part
    embed: bool = False  # graph embedding of the training part
    mine: list[str] = field(default_factory=lambda: ["pairs"])  # pairs, queries, triplets; written: by [llm]
    limits: dict[str, float] = field(default_factory=dict)  # calls, tokens, cost, seconds of extract and of written
    imports: dict[str, str] = field(default_factory=dict)  # training set: file of existing queries
    negatives: list[str] = field(default_factory=list)  # training sets to add hard negatives to, as NAME-hard
    pretrain: list[str] = field(default_factory=list)  # [pretrain.NAME]
    finetune: list[str] = field(default_factory=lambda: ["tuned"])  # [finetune.NAME] in order; the last is compared
    static: list[str] = field(default_factory=list)  # [static.NAME], instead of or after finetune; the last is compared
    update: str = "auto"  # new passages: auto trains the last model further if worth it; always; anew: from its base
    base: str = AUTO  # encoder that the tuned model is compared with; auto: packaged, by language
    tasks: list[str] = field(default_factory=lambda: ["references"])  # tasks of the test part, or BEIR folders
    measures: str = "MRR@10,nDCG@10,R@20"  # comma-separated

    @property
    def trained(self) -> list[tuple[str, str]]:
        """Verb and name of the encoders that are trained, in order; the last one is compared."""
        return [*(("finetune", name) for name in self.finetune), *(("static", name) for name in self.static)]

    @property
    def last(self) -> str:
        """The model that is compared with the base, and that the workspace searches with from then on."""
        return self.trained[-1][1]


class _Stages:
    """Which stages are done, and a key of their inputs."""

    def __init__(self, folder: Path, announce: Callable[[str, bool], None]) -> None:
        self._file = folder / "stages.json"
        manifest = read_manifest(self._file) or {}
        self._done: dict[str, dict[str, Any]] = manifest.get("stages", {})
        self._announce = announce
        self.key = ""  # of all stages so far

    def run(self, name: str, options: Any, act: Callable[[], Any], manifest: Path | None = None) -> Any:
        """The report of `act`, or the stored one if its inputs are the same and its manifest still exists."""
        self.key = fingerprint([self.key, name, options])
        record = self._done.get(name)
        done = record is not None and record["key"] == self.key and (manifest is None or manifest.is_file())
        self._announce(name, done)
        if record is not None and done:
            return record["report"]
        report = json.loads(json.dumps(act(), default=str))
        self._done[name] = {"key": self.key, "report": report}
        write_manifest(self._file, {"verb": "run", "stages": self._done})
        return report

    def skip(self, name: str) -> None:
        """Announce a stage that is up to date for another reason than its key."""
        self._announce(name, True)


def run(project: Project, *, announce: Callable[[str, bool], None] = lambda _name, _done: None) -> list[Report]:
    """Run what is missing; returns one report for each task, base and tuned model side by side.

    `announce` receives the name of each stage and whether it is up to date.
    """
    if "run" not in project.config:  # nobody trains a model by accident
        raise ConfigError(
            f"{project.config_file} has no table [run]: add one to say what a run does"
            " (even an empty one; 'lemmata config run' lists its keys with their defaults)"
        )
    options = project.options(RunOptions, "run")
    if options.static and "finetune" not in project.config["run"]:
        options = replace(options, finetune=[])  # its default is for runs that name no model at all
    _check(project, options)
    layout, config = project, project.config
    folder = layout.root / "run"
    folder.mkdir(exist_ok=True)
    stages = _Stages(folder, announce)
    if options.sources:
        paths = [source if is_url(source) else layout.root / source for source in options.sources]
        announce("ingest", False)  # always runs: it reads only what changed
        failed = project.ingest(paths).failed
        if failed:
            announce(f"ingest: {failed:,} sources could not be read, 'lemmata info --skips' says why", False)
    with contextlib.closing(project.corpus) as corpus:
        if not len(corpus):
            raise WorkspaceError(f"the corpus in {layout.root} is empty: name sources in [run]")
        size = {"passages": len(corpus), "documents": len(corpus.document_ids())}
        stages.run("corpus", corpus.digest, lambda: size)
    if options.base == AUTO:
        options = replace(options, base=packaged_encoder(project, static=bool(options.static)))
    if options.graph:
        build_graph = partial(project.build_graph)
        stages.run("graph", config.get("graph", {}), build_graph, layout.manifest(layout.graph_folder))
    limits = Limits._make(options.limits.get(name, 0) for name in Limits._fields)
    if options.extract:  # before the split, which the new concepts need as well
        tables = [config.get("extract", {}), config.get("llm", {}), limits]
        extract = partial(project.extract_graph, limits)
        stages.run("extract", tables, extract, layout.manifest(layout.graph_folder))
    if options.split:
        split = partial(project.split)
        stages.run("split", config.get("split", {}), split, layout.manifest(layout.split_folder))
    if options.link:  # after the split: it learns from the links of training logs only
        link = partial(project.link_graph)
        stages.run("link", config.get("link", {}), link, layout.manifest(layout.graph_folder))
    tasks = {task: _task(project, task) for task in options.tasks}
    before = _encoded(project, options.base, stages)
    first = (options.base, before, stages.key)
    baseline = _measure(project, tasks, ("lexical", "dense", "hybrid"), options, folder / "before", first)
    if options.embed:

        def embed() -> Any:
            _ensure_vectors(project, options.base, before)
            return project.embed_graph()

        stages.run("embed", config.get("embed", {}), embed, layout.manifest(layout.embedding_folder))
    _mine(project, options, limits, before, stages)
    _audit(project, tasks, stages)
    update = _train_or_update(project, options, tasks, stages, folder)
    after = _encoded(project, options.last, stages)
    compared: tuple[str, ...] = ("dense", "hybrid")
    if (asked := _validation_queries(project, options)) is not None:
        compared = (*compared, "auto")
        _fit(project, options, asked, stages)
    last = (options.last, after, stages.key)
    tuned = _measure(project, tasks, compared, options, folder / "after", last)
    _ensure_vectors(project, *last[:2])  # the workspace searches with the tuned model from now on
    reports = [_report(name, task, baseline[name], tuned[name], options, update) for name, task in tasks.items()]
    _write(folder, reports)
    return reports


def stage_table(project: Project) -> dict[str, str]:
    """What each stage of the runs so far did, in a few words."""
    manifest = read_manifest(project.root / "run" / "stages.json") or {}
    return {name: _did(name.partition(" ")[0], record["report"]) for name, record in manifest.get("stages", {}).items()}


def _did(stage: str, report: Mapping[str, Any]) -> str:
    """The few figures of a report that say what its stage did."""
    if stage in ("graph", "link", "extract") and "edges" in report:
        edges = f"{sum(report['edges'].values()):,} edges, {sum(report['concepts'].values()):,} concepts"
        if stage == "extract":
            spent = f"{report['spent']['calls']:,} calls, cost {report['spent']['cost']:.2f}"
            return f"{report['extracted']:,} of {report['documents']:,} documents, {spent}; {edges}"
        if stage == "link":
            found = [f"{new['edges']:,} new {name}" for name, new in report["restored"].items() if name != "both"]
            tried = [f"{name} {row['recall']:.2f}" for name, row in report["held_out"].items()]
            return ", ".join(found) + (f"; recall on held-out logs: {', '.join(tried)}" if tried else "")
        return edges
    if stage == "split":
        return ", ".join(f"{part} {row['rows']:,}" for part, row in report["counts"].items())
    if stage == "embed":
        measured = f", MRR {report['measures']['mrr']:.2f} on held-out edges" if "measures" in report else ""
        return f"{report['nodes']:,} nodes, {report['edges']:,} edges{measured}"
    if stage == "index":
        return f"{report.get('encoded', 0):,} passages encoded"
    if stage in ("compare", "audit") and isinstance(report, Mapping):
        return str(report["sentence"])
    if stage == "corpus" and report:
        return f"{report['passages']:,} passages in {report['documents']:,} documents"
    if stage in ("finetune", "static"):
        after = report["after"]
        return ", ".join(f"{name} {value:.3f} → {after[name]:.3f}" for name, value in report["before"].items())
    if stage == "pretrain":
        return "kept" if report.get("kept", True) else "not kept: the base is better on validation"
    if stage == "update":
        return f"{report['new']:,} new and {report['replayed']:,} replayed records"
    if stage == "tune":
        return f"auto = {Fusion(**report['fusion']).formula}, fitted to {report['queries']:,} queries"
    if stage in ("mine", "import", "negatives"):
        spent = f", {report['spent']['calls']:,} calls" if "spent" in report else ""
        return f"{report['records']:,} records{spent}"
    return ""


def _check(project: Project, options: RunOptions) -> None:
    """Refuse settings that cannot work before anything long starts."""
    from lemmata.encode.load import encoder_kind
    from lemmata.evaluate.measures import parse_measure
    from lemmata.ingest.beir import read_judged

    where = f"{project.config_file}: [run]"
    if not options.trained:
        raise ConfigError(f"{where} names neither finetune nor static, so there is nothing to compare")
    if not options.tasks:
        raise ConfigError(f"{where} names no tasks, so there is nothing to measure")
    if options.base == options.last:
        raise ConfigError(f"{where}: base = {options.base!r} would be compared with itself")
    sets = {*options.mine, *options.imports, *project.training_sets()}
    for key, names, choices in (
        ("negatives", options.negatives, tuple(sets)),
        ("pretrain", options.pretrain, tuple(project.config.get("pretrain", {}))),
        ("finetune", options.finetune, tuple(project.config.get("finetune", {}))),
        ("static", options.static, tuple(project.config.get("static", {}))),
    ):
        for name in names if choices else ():
            if name not in choices:
                raise ConfigError(f"{where}: {key} = {name!r}{suggest(name, choices)}")
    if options.extract or "written" in options.mine:
        if not any(options.limits.values()):
            raise ConfigError(f"{where}: extract and written ask a language model: set limits, as in {{ calls = 500 }}")
        if not project.config.get("llm", {}).get("model"):
            raise ConfigError(f"{where}: extract and written ask a language model: name it as model in [llm]")
    for path in (*options.sources, *options.imports.values()):
        if not is_url(path) and not (project.root / path).exists():
            raise ConfigError(f"{where}: there is no {project.root / path}")
    for name in options.tasks:
        if name not in TASKS:
            read_judged(_task_folder(project, name))  # there may be no corpus yet
    for measure in options.measures.split(","):
        parse_measure(measure)
    if options.base != AUTO:
        encoder_kind(options.base, project.models_folder)
    _check_models(project, options)


def _check_models(project: Project, options: RunOptions) -> None:
    """Refuse models whose base, guide or teacher neither exists nor is made before them."""
    from lemmata.train.finetune import teacher_names
    from lemmata.train.train import find_base, finetune_options

    trained: set[str] = set()
    for verb, name in (*(("pretrain", name) for name in options.pretrain), *options.trained):
        table = project.config.get(verb, {}).get(name, {})
        if table.get("judge"):
            finetune_options(project, table["judge"])
        for other in (table.get("base", ""), table.get("guide", ""), *teacher_names(table.get("teacher", ""))):
            if other not in ("", "base", AUTO, *trained):
                find_base(project, other)
        if name in trained:
            raise ConfigError(f"{project.config_file}: [run] trains two models named {name!r}: rename one")
        trained.add(name)


def _mine(project: Project, options: RunOptions, limits: Limits, encoder: str, stages: _Stages) -> None:
    layout = project
    tables = [project.config.get("mine", {}), project.config.get("audit", {})]

    def mine(what: str, name: str, of: str = "") -> Any:
        _ensure_vectors(project, options.base, encoder)  # they may be those of an earlier run's model
        if what == "written":
            return project.write_queries(limits, name=name)
        return project.mine(what, name=name, of=of)

    more = {
        "triplets": [project.config.get("embed", {})],
        "written": [project.config.get("llm", {}), limits],
    }
    for name in options.mine:
        inputs = [*tables, *more.get(name, [])]
        stages.run(f"mine {name}", inputs, partial(mine, name, name), layout.manifest(layout.training(name)))
    for name, file in options.imports.items():
        path = layout.root / file
        act = partial(project.import_queries, path, name=name)
        inputs = [file, sha256_of([path]), tables[1]]
        stages.run(f"import {name}", inputs, act, layout.manifest(layout.training(name)))
    for name in options.negatives:
        hard = f"{name}-hard"
        manifest = layout.manifest(layout.training(hard))
        stages.run(f"negatives {name}", tables, partial(mine, "negatives", hard, name), manifest)


def _audit(project: Project, tasks: Mapping[str, Task], stages: _Stages) -> None:
    """Refuse test queries that occur in training sets; miners never see the tasks of the test part."""
    from lemmata.corpus.leakage import Example

    queries = [text for name, task in tasks.items() if name not in TASKS for text in task.queries.values()]
    test = [Example(f"test query {number}", text, ()) for number, text in enumerate(queries, 1)]
    if test:
        stages.run("audit", queries, lambda: {"sentence": project.audit(test=test).sentence()})


# ---------------------------------------------------------------- training, from the base or further


@dataclass(frozen=True, slots=True)
class _Update:
    """What the run did about passages that came in after the model was trained."""

    sentence: str
    new: Mapping[str, list[str]]  # task: its queries about new passages
    before: Mapping[str, Report]  # task: the model before; empty where it was not trained further


def _settings(project: Project, options: RunOptions) -> str:
    """A hash of the settings that decide what a model is, but for the texts."""
    stages = ["graph", "extract", "split", "link", "embed", "mine", "audit", "pretrain", "finetune", "llm"]
    keys = ["graph", "extract", "split", "link", "embed", "mine", "imports", "negatives", "pretrain", "finetune"]
    if options.static:  # only then, so that the record of a run without it stays valid
        stages.append("static")
        keys.append("static")
    tables = {name: project.config.get(name, {}) for name in stages}
    return fingerprint([tables, {key: getattr(options, key) for key in keys}])


def _train_or_update(
    project: Project,
    options: RunOptions,
    tasks: Mapping[str, Task],
    stages: _Stages,
    folder: Path,
) -> _Update | None:
    """Train the models of [run], or the last one further where nothing but passages came in since it was trained."""
    from lemmata.corpus.split import id_keys
    from lemmata.train.train import weights_sha256
    from lemmata.train.update import Known, read_known, write_known

    name, key, settings = options.last, stages.key, _settings(project, options)
    model = project.model(name)
    weights = weights_sha256(model) if model.is_dir() else ""
    manifest = read_manifest(project.manifest(model)) or {}
    before_update = manifest.get("base_sha256") if manifest.get("verb") == "update" else None
    known = read_known(folder)
    if known is not None and (known.settings != settings or known.weights not in (weights, before_update)):
        known = None  # other settings, or trained by hand
    with contextlib.closing(project.corpus) as corpus:
        passages = np.unique(id_keys(corpus.ids()))
    new = passages if known is None else np.setdiff1d(passages, known.passages)
    update = None
    if known is not None and (known.key, known.weights) == (key, weights):
        for verb, each in (*(("pretrain", each) for each in options.pretrain), *options.trained):
            stages.skip(f"{verb} {each}")
        update = _read_update(project, options, tasks, folder, key)
    elif known is not None and len(new) and options.update != "anew":
        update = _update(project, options, tasks, stages, folder, known, new)
        weights = weights_sha256(model)
        if update.before:
            write_known(folder, Known(weights, settings, key, passages))
    else:
        _train(project, options, stages)
        weights = weights_sha256(model)
        write_known(folder, Known(weights, settings, key, passages))
    stages.key = fingerprint([key, weights])  # what follows depends on the model, not on how it came about
    return update


def _train(project: Project, options: RunOptions, stages: _Stages) -> None:
    layout, config = project, project.config
    for name in options.pretrain:
        table = config.get("pretrain", {}).get(name, {})
        judge = config.get("finetune", {}).get(table.get("judge", ""), {})
        pretrain = partial(project.pretrain, name)
        stages.run(f"pretrain {name}", [table, judge], pretrain, layout.manifest(layout.model(name)))
    acts = {"finetune": project.finetune, "static": project.train_static}
    for verb, name in options.trained:
        table = config.get(verb, {}).get(name, {})
        train = partial(acts[verb], name)
        stages.run(f"{verb} {name}", table, train, layout.manifest(layout.model(name)))


def _update(
    project: Project,
    options: RunOptions,
    tasks: Mapping[str, Task],
    stages: _Stages,
    folder: Path,
    known: Known,
    new: Keys,
) -> _Update:
    """Measure the last model on new passages, and train it further where that is worth it, or where it is asked for."""
    from lemmata.train.prepare import new_queries

    name, key, measure = options.last, stages.key, options.measures.split(",")[0]
    inputs = [known.weights, fingerprint(known.passages.tolist()), measure, options.base, options.tasks]
    compare = partial(_compare, project, options, new)
    verdict = stages.run(f"compare {name}", inputs, compare)
    sentence = verdict["sentence"]
    before: dict[str, Report] = {}
    if verdict["worth"] or options.update == "always":
        earlier = (name, known.weights, key)
        before = _measure(project, tasks, ("dense",), options, folder / "update", earlier)
        verb, _ = options.trained[-1]
        table = project.config.get(verb, {}).get(name, {})
        own = [task for task in options.tasks if task in TASKS] or ["references"]
        settings = {} if table.get("validation") else {"validation": dict.fromkeys(own, measure)}
        further = partial(project.train_further, static=verb == "static", settings=settings)
        act = partial(further, name, new, known.weights)
        report = stages.run(f"update {name}", [table, settings], act)
        done = f"{report['new']:,} new training records and {report['replayed']:,} replayed"
        if report["kept"]:
            sentence += f"; it was trained further on {done}"
        else:
            before = {}
            sentence += f"; trained further on {done} it gained nothing or forgot too much, so it stays as it was"
            if not report["new"]:
                sentence = f"{verdict['sentence']}; no training record is new, so it stays as it was"
    update = _Update(sentence, {each: new_queries(task, new) for each, task in tasks.items()}, before)
    record = {"key": key, "sentence": sentence, "new": update.new, "weights": known.weights if before else ""}
    write_manifest(folder / "update.json", {"verb": "run", **record, "measures": options.measures})
    return update


def _compare(project: Project, options: RunOptions, new: Keys) -> dict[str, Any]:
    """The verdict on new passages."""
    from lemmata.train.update import gain_lost, tasks_to_compare

    name, measure = options.last, options.measures.split(",")[0]
    roles = {f"dense:{name}": "model", f"dense:{options.base}": "base"}
    values = []
    for group in tasks_to_compare(project, options.tasks, new):
        reports = [
            project.evaluate(task, retrievers=list(roles), options=EvaluateOptions(measures=measure)).retrievers
            for task in group
        ]
        values.append(
            {
                role: np.concatenate([np.zeros(0), *(report[retriever][measure] for report in reports)])
                for retriever, role in roles.items()
            }
        )
    verdict = gain_lost(measure, *values)
    sentence = verdict.sentence(name, options.base)
    return {**verdict._asdict(), "worth": verdict.is_clear, "sentence": sentence}


def _read_update(
    project: Project, options: RunOptions, tasks: Mapping[str, Task], folder: Path, key: str
) -> _Update | None:
    """What the run that made the present model said about it, if it trained it further for the same tasks."""
    record = read_manifest(folder / "update.json")
    if record is None or (record["key"], record["measures"]) != (key, options.measures):
        return None
    if not record["weights"] or list(record["new"]) != list(tasks):
        return None
    earlier = (options.last, record["weights"], key)
    before = _measure(project, tasks, ("dense",), options, folder / "update", earlier)
    return _Update(record["sentence"], record["new"], before)


# ---------------------------------------------------------------- indexing and measuring


def _encoded(project: Project, encoder: str, stages: _Stages) -> str:
    """Index with an encoder; retraining a model of the same name runs the stage again."""
    from lemmata.encode.load import model_folder
    from lemmata.search.summaries.texts import chosen_sources
    from lemmata.train.train import weights_sha256

    folder = model_folder(encoder, project.models_folder)
    weights = weights_sha256(folder) if folder.is_dir() else ""
    index = partial(project.index, settings={"encoder": encoder})
    summaries = [chosen] if (chosen := chosen_sources(project)) else []
    return str(stages.run(f"index {encoder}", [project.config.get("index", {}), weights, *summaries], index)["encoder"])


def _validation_queries(project: Project, options: RunOptions) -> Task | None:
    """The validation queries of the last model that do not come from the corpus itself."""
    from lemmata.train.prepare import validation_queries
    from lemmata.train.train import finetune_options

    last = finetune_options(project, options.last, static=bool(options.static))
    return validation_queries(project, last.validation)


def _fit(project: Project, options: RunOptions, task: Task, stages: _Stages) -> None:
    """Fit the weights of `auto` to validation queries."""
    from lemmata.core.workspace import vector_set

    name, measure = options.last, options.measures.split(",")[0]
    places = vector_set(project, name)
    fit = partial(project.tune, task, measure=measure, encoder=name)
    inputs = [measure, dict(task.queries), {query: dict(grades) for query, grades in task.qrels.items()}]
    stages.run(f"tune {name}", inputs, fit, places.fusion if places else None)


def _task(project: Project, name: str) -> Task:
    from lemmata.evaluate.evaluate import beir_task

    if name in TASKS:
        return project.task(name, part="test")
    return beir_task(project, _task_folder(project, name), name=Path(name).name)


def _task_folder(project: Project, name: str) -> Path:
    folder = project.root / name
    if not folder.is_dir():
        raise ConfigError(f"[run] tasks: {name!r} is neither one of {', '.join(TASKS)} nor a folder")
    return folder


def _measure(
    project: Project,
    tasks: Mapping[str, Task],
    retrievers: tuple[str, ...],
    options: RunOptions,
    folder: Path,
    encoder: tuple[str, str, str],
) -> dict[str, Report]:
    """Measure, or read the stored measures of the same encoder (its spec, its name, and the key of its index)."""
    from lemmata.evaluate.measures import parse_measure
    from lemmata.evaluate.report import Report

    folder.mkdir(exist_ok=True)
    reports = {}
    names = [str(parse_measure(measure)) for measure in options.measures.split(",")]  # a manifest forgets their order
    for number, (name, task) in enumerate(tasks.items()):
        file = folder / f"{number}.json"
        key = fingerprint([name, encoder, options.measures, task.queries, task.qrels])
        record = read_manifest(file)
        if record is None or record.get("key") != key:
            named = [name if name == "lexical" else f"{name}:{encoder[0]}" for name in retrievers]
            measured = project.evaluate(task, retrievers=named, options=EvaluateOptions(measures=options.measures))
            record = {
                "key": key,
                "retrievers": {
                    retriever.partition(":")[0]: {measure: values.tolist() for measure, values in measures.items()}
                    for retriever, measures in measured.retrievers.items()
                },
                "groups": {group: members.tolist() for group, members in measured.groups.items()},
                "notes": list(measured.notes),
            }
            write_manifest(file, {"verb": "run", **record})
        reports[name] = Report(
            task=task.name,
            queries=list(task.qrels),
            texts={query: task.queries[query] for query in task.qrels},
            retrievers={
                retriever: {measure: np.array(measures[measure]) for measure in names}
                for retriever, measures in record["retrievers"].items()
            },
            groups={group: np.array(members, bool) for group, members in record["groups"].items()},
            comparisons=[],
            recall={},
            notes=record["notes"],
            command="lemmata run",
        )
    return reports


def _ensure_vectors(project: Project, encoder: str, name: str) -> None:
    """Let mining and search use the vectors of this encoder; those of the others stay beside them."""
    if (vectors_manifest(project) or {}).get("made_by") != name:
        project.index(settings={"encoder": encoder})


def _report(
    name: str, task: Task, before: Report, after: Report, options: RunOptions, update: _Update | None
) -> Report:
    from lemmata.evaluate.measures import parse_measure
    from lemmata.evaluate.significance import compare

    tuned = options.last
    results = {
        "BM25": before.retrievers["lexical"],
        options.base: before.retrievers["dense"],
        f"{options.base} + BM25": before.retrievers["hybrid"],
        **({f"{tuned} before": update.before[name].retrievers["dense"]} if update and update.before else {}),
        tuned: after.retrievers["dense"],
        f"{tuned} + BM25": after.retrievers["hybrid"],
        **({f"{tuned}, auto": after.retrievers["auto"]} if "auto" in after.retrievers else {}),
    }
    first = options.measures.split(",")[0]
    generator = np.random.default_rng(0)
    measures = [str(parse_measure(name)) for name in options.measures.split(",")]
    comparisons = [pair for measure in measures for pair in compare(results, measure, options.base, generator)]
    report = replace(before, task=f"{task.name} ({name})", retrievers=results, comparisons=comparisons)
    if update is None:
        return report
    about_new = set(update.new[name])
    is_new = np.array([query in about_new for query in report.queries], bool)
    groups = {"new passages": is_new, "known passages": ~is_new}
    present = {group: members for group, members in groups.items() if members.any()}
    notes = [*report.notes, update.sentence]
    if update.before:
        earlier, now = results[f"{tuned} before"][first], results[tuned][first]
        notes += [
            f"{group}, {int(members.sum())} test queries: {first} {_change(earlier[members], now[members])}"
            for group, members in present.items()
        ]
    return replace(report, groups={**report.groups, **present}, notes=notes)


def _change(before: Floats64, after: Floats64) -> str:
    """Two means over the same queries and their difference, with its interval."""
    from lemmata.evaluate.charts import signed
    from lemmata.evaluate.significance import bootstrap

    low, high = (signed(value, 3) for value in bootstrap(after - before, generator=np.random.default_rng(0)))
    difference = signed(float((after - before).mean()), 3)
    return f"{before.mean():.3f} before, {after.mean():.3f} after the update ({difference}, {low} to {high})"


def _write(folder: Path, reports: list[Report]) -> None:
    from lemmata.evaluate.report import as_html, as_json

    tables = [as_json(report) for report in reports]
    files = {"report.json": json.dumps(tables, ensure_ascii=False, indent=1) + "\n"}
    files |= {f"report-{number}.html": as_html(report) for number, report in enumerate(reports)}
    for name, content in files.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content.encode():
            write_atomically(folder / name, content.encode())
