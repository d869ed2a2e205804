"""`lemmata run`: the stages of [run] in order, from sources to a measured model, and the table before and after.

A stage that is up to date with its inputs is not run again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lemmata.core.artefacts import Artefact, artefact, is_usable, model, stale, training_set
from lemmata.core.errors import ConfigError, LemmataError, WorkspaceError, suggest
from lemmata.core.files import fingerprint, sha256_of, write_atomically
from lemmata.core.objects import is_url
from lemmata.core.workspace import (
    FORMAT,
    Workspace,
    read_manifest,
    read_manifests,
    set_default_encoder,
    vector_sets,
    vectors_of,
    write_manifest,
)
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import Example
from lemmata.corpus.split import Keys, id_keys
from lemmata.corpus.training_files import QUESTIONS
from lemmata.encode.load import AUTO, encoder_id, encoder_kind, model_folder
from lemmata.encode.transformer import check_hub
from lemmata.evaluate.charts import signed
from lemmata.evaluate.evaluate import EvaluateOptions, evaluate
from lemmata.evaluate.report import Report, as_html, as_json
from lemmata.evaluate.significance import Floats64, Gain, compare, gain
from lemmata.evaluate.tasks import Task, restricted
from lemmata.evaluate.tuning import tune
from lemmata.evaluate.workspace_tasks import TASKS, beir_task, corpus_task, own_tasks
from lemmata.graph.build import build_graph
from lemmata.graph.extract import extract_graph
from lemmata.ingest.beir import read_judged
from lemmata.ingest.ingest import ingest
from lemmata.llm.endpoint import Limits
from lemmata.mine.embedding import embed_graph
from lemmata.mine.mine import check_gate, import_queries, mine, mine_again, mine_options, write_queries
from lemmata.mine.splits import split
from lemmata.mine.training_sets import audit, audit_key, trainable_sets
from lemmata.plant.link import link_graph
from lemmata.search.fusion import FEWEST, Fusion
from lemmata.search.index import index, packaged_encoder
from lemmata.search.names import WITH_ENCODER
from lemmata.search.summaries.texts import chosen_sources
from lemmata.train.bases import find_base, weights_sha256
from lemmata.train.finetune import teacher_names
from lemmata.train.prepare import new_queries, validation_queries
from lemmata.train.train import finetune_model, finetune_options, pretrain_model, static_model, update_model
from lemmata.train.update import TrainingState, gain_lost, read_state, tasks_to_compare, write_state
from lemmata.vectors.store import vectors_manifest

MEASURES = "MRR@10,nDCG@10,R@20"  # unless [evaluate] names others
ALSO = ("extract", "link", "embed")
MINED = ("pairs", "queries", "triplets", "written")
UPDATES = ("auto", "always", "anew")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `lemmata run` does, in the order of the keys; each stage takes its options from its own table."""

    CHOICES: ClassVar = {"also": ALSO, "mine": MINED, "limits": Limits._fields, "update": UPDATES}
    sources: list[str] = field(default_factory=list)  # files, folders and URLs to ingest; empty: the corpus as it is
    also: list[str] = field(default_factory=list)  # extract: concepts by [llm]; link: logs of a plant; embed: the graph
    mine: list[str] = field(default_factory=lambda: ["pairs"])  # pairs, queries, triplets; written: by [llm]
    limits: dict[str, float] = field(default_factory=dict)  # calls, tokens, cost, seconds of extract and of written
    imports: dict[str, str] = field(default_factory=dict)  # training set: file of existing queries
    negatives: list[str] = field(default_factory=list)  # training sets to add hard negatives to, as NAME-hard
    pretrain: list[str] = field(default_factory=list)  # [pretrain.NAME]
    finetune: list[str] = field(default_factory=lambda: ["tuned"])  # [finetune.NAME] in order; the last is compared
    static: list[str] = field(default_factory=list)  # [static.NAME], instead of or after finetune; the last is compared
    update: str = "auto"  # new passages: auto trains the last model further if worth it; always; anew: from its base
    base: str = AUTO  # encoder that the tuned model is compared with; auto: packaged, by language
    tasks: list[str] = field(default_factory=lambda: ["references"])  # of the test part (also questions), BEIR folders

    @property
    def trained(self) -> list[tuple[str, str]]:
        """Verb and name of the encoders that are trained, in order; the last one is compared."""
        return [*(("finetune", name) for name in self.finetune), *(("static", name) for name in self.static)]

    @property
    def models(self) -> list[tuple[str, str]]:
        """Verb and name of all models that are trained, in order."""
        return [*(("pretrain", name) for name in self.pretrain), *self.trained]

    @property
    def last(self) -> str:
        """The model that is compared with the base, and that the workspace searches with from then on."""
        return self.trained[-1][1]


def run(workspace: Workspace, *, announce: Callable[[str, bool], None] = lambda _name, _done: None) -> list[Report]:
    """Run what is missing; returns one report for each task, base and tuned model side by side.

    `announce` receives the name of each stage and whether it is up to date.
    """
    if "run" not in workspace.config:  # nobody trains a model by accident
        raise ConfigError(
            f"{workspace.config_file} has no table [run]: add one to say what a run does"
            " (even an empty one; 'lemmata config run' lists its keys with their defaults)"
        )
    options = workspace.options(RunOptions, "run")
    if options.static and "finetune" not in workspace.config["run"]:
        options = replace(options, finetune=[])  # its default is for runs that name no model at all
    _check(workspace, options)
    measures = workspace.config.get("evaluate", {}).get("measures", MEASURES)
    asked = workspace.options(EvaluateOptions, "evaluate", {"measures": measures})
    return _Run(workspace, options, asked, announce).all()


def stage_table(workspace: Workspace) -> dict[str, str]:
    """What each stage of the runs so far did, in a few words."""
    stages = (read_manifest(workspace.run_folder / "stages.json") or {}).get("stages", {})
    return {name: _DESCRIBED[name.partition(" ")[0]](record["report"]) for name, record in stages.items()}


def _edges(report: Mapping[str, Any]) -> str:
    return f"{sum(report['edges'].values()):,} edges, {sum(report['concepts'].values()):,} concepts"


def _extracted(report: Mapping[str, Any]) -> str:
    spent = f"{report['spent']['calls']:,} calls, cost {report['spent']['cost']:.2f}"
    return f"{report['extracted']:,} of {report['documents']:,} documents, {spent}; {_edges(report)}"


def _linked(report: Mapping[str, Any]) -> str:
    links = [f"{new['edges']:,} new {name}" for name, new in report["restored"].items() if name != "both"]
    recalls = [f"{name} {row['recall']:.2f}" for name, row in report["held_out"].items()]
    return ", ".join(links) + (f"; recall on held-out logs: {', '.join(recalls)}" if recalls else "")


def _embedded(report: Mapping[str, Any]) -> str:
    measured = f", MRR {report['measures']['mrr']:.2f} on held-out edges" if "measures" in report else ""
    return f"{report['nodes']:,} nodes, {report['edges']:,} edges{measured}"


def _mined(report: Mapping[str, Any]) -> str:
    return f"{report['records']:,} records" + (f", {report['spent']['calls']:,} calls" if "spent" in report else "")


def _trained(report: Mapping[str, Any]) -> str:
    after = report["after"]
    return ", ".join(f"{name} {value:.3f} → {after[name]:.3f}" for name, value in report["before"].items())


# the few figures of a report that say what a stage did
_DESCRIBED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "corpus": "{passages:,} passages in {documents:,} documents".format_map,
    "graph": _edges,
    "extract": _extracted,
    "split": lambda report: ", ".join(f"{part} {row['rows']:,}" for part, row in report["counts"].items()),
    "link": _linked,
    "index": "{encoded:,} passages encoded".format_map,
    "embed": _embedded,
    "mine": _mined,
    "import": _mined,
    "negatives": _mined,
    "audit": "{sentence}".format_map,
    "pretrain": lambda report: "kept" if report.get("kept", True) else "not kept: the base is better on validation",
    "finetune": _trained,
    "static": _trained,
    "compare": "{sentence}".format_map,
    "update": "{new:,} new and {replayed:,} replayed records".format_map,
    "tune": lambda report: f"auto = {Fusion(**report['fusion']).formula}, fitted to {report['queries']:,} queries",
}


def _check(workspace: Workspace, options: RunOptions) -> None:
    """Refuse settings that cannot work before anything long starts."""
    where = f"{workspace.config_file}: [run]"
    if not options.trained:
        raise ConfigError(f"{where} names neither finetune nor static, so there is nothing to compare")
    if not options.tasks:
        raise ConfigError(f"{where} names no tasks, so there is nothing to measure")
    if options.base == options.last:
        raise ConfigError(f"{where}: base = {options.base!r} would be compared with itself")
    sets = {*options.mine, *options.imports, *read_manifests(workspace.training_folder)}
    for key, names, choices in (
        ("negatives", options.negatives, tuple(sets)),
        ("pretrain", options.pretrain, tuple(workspace.config.get("pretrain", {}))),
        ("finetune", options.finetune, tuple(workspace.config.get("finetune", {}))),
        ("static", options.static, tuple(workspace.config.get("static", {}))),
    ):
        for name in names if choices else ():
            if name not in choices:
                raise ConfigError(f"{where}: {key} = {name!r}{suggest(name, choices)}")
    asks_questions = QUESTIONS in options.tasks and workspace.config.get("llm", {}).get("model")
    if "extract" in options.also or "written" in options.mine or asks_questions:
        if not any(options.limits.values()):
            raise ConfigError(
                f"{where}: extract, written and questions ask a language model: set limits, as in {{ calls = 500 }}"
            )
        if not workspace.config.get("llm", {}).get("model"):
            raise ConfigError(f"{where}: extract and written ask a language model: name it as model in [llm]")
    for path in (*options.sources, *options.imports.values()):
        if not is_url(path) and not (workspace.root / path).exists():
            raise ConfigError(f"{where}: there is no {workspace.root / path}")
    for name in options.tasks:
        if name not in TASKS:
            read_judged(_task_folder(workspace, name))  # there may be no corpus yet
    if options.base != AUTO:
        encoder_kind(options.base, workspace.models_folder)
    if options.mine or options.negatives:
        check_gate(workspace, mine_options(workspace).gate)
    _check_models(workspace, options)


def _check_models(workspace: Workspace, options: RunOptions) -> None:
    """Refuse models whose base or teacher neither exists nor is made before them."""
    trained: set[str] = set()
    for verb, name in options.models:
        table = workspace.config.get(verb, {}).get(name, {})
        if table.get("judge"):
            finetune_options(workspace, table["judge"])
        for other in (table.get("base", ""), *teacher_names(table.get("teacher", ""))):
            if other not in ("", "base", AUTO, *trained) and find_base(workspace, other) is None:
                check_hub(other)
        if name in trained:
            raise ConfigError(f"{workspace.config_file}: [run] trains two models named {name!r}: rename one")
        trained.add(name)


# ---------------------------------------------------------------- the stages


@dataclass(frozen=True, slots=True)
class _Update:
    """What the run did about passages that came in after the model was trained."""

    sentence: str
    new: Mapping[str, list[str]]  # task: its queries about new passages
    before: Mapping[str, Report]  # task: the model before; empty where it was not trained further


class _Run:
    """The stages of one run; knows which are done, and a key of the inputs of all stages so far."""

    def __init__(
        self, workspace: Workspace, options: RunOptions, asked: EvaluateOptions, announce: Callable[[str, bool], None]
    ) -> None:
        self.workspace, self.options, self.announce = workspace, options, announce
        self.asked, self.names = asked, list(asked.names())
        level, measure = asked.names()[self.names[0]]  # the first decides
        self.measure, self.deciding = str(measure), replace(asked, measures=str(measure), level=level)
        self.folder = workspace.run_folder
        self.folder.mkdir(exist_ok=True)
        self.limits = Limits._make(options.limits.get(name, 0) for name in Limits._fields)
        self.key = ""
        self._file = self.folder / "stages.json"
        self._done: dict[str, dict[str, Any]] = (read_manifest(self._file) or {}).get("stages", {})
        self.tasks: dict[str, Task] = {}
        self._replaced: dict[str, str] = {}  # what search used before the run, and before its model, once it is known

    def stage(self, name: str, inputs: Any, verb: Callable[[Workspace], Any], item: Artefact | None = None) -> Any:
        """The report of a verb, or the stored one if its inputs are the same and what it made can still be used."""
        self.key = fingerprint([self.key, name, inputs])
        record = self._done.get(name, {})
        is_done = record.get("key") == self.key and (item is None or is_usable(self.workspace, item))
        self.announce(name, is_done)
        if not is_done:
            self._note(self._replaced)  # before another encoder is searched with
            record = {"key": self.key, "report": json.loads(json.dumps(verb(self.workspace), default=str))}
            self._done[name] = record
            write_manifest(self._file, {"verb": "run", "stages": self._done})
        return record["report"]

    def table(self, *path: str) -> Any:
        """A table of `lemmata.toml`; empty where there is none."""
        return reduce(lambda table, name: table.get(name, {}), path, self.workspace.config)

    def all(self) -> list[Report]:
        """Every stage in order, then the table before and after."""
        workspace = self.workspace
        self._read_corpus()
        if self.options.base == AUTO:
            packaged = packaged_encoder(workspace, static=bool(self.options.static))
            self.options = replace(self.options, base=packaged)
        with self._searching() as (today, before):
            return self._all(today, before)

    @contextlib.contextmanager
    def _searching(self) -> Iterator[tuple[str, str]]:
        """The encoder that search uses today, and that which the model of this run is compared with.

        The latter is the former or, where search uses the model already, what it used before; the base where there is
        none. Stages let search use other encoders; an error puts today's back, and after a kill the next run does.
        """
        workspace = self.workspace
        base, last = (encoder_id(name, workspace.models_folder) for name in (self.options.base, self.options.last))
        record = read_manifest(self.folder / "search.json") or {}
        sets = vector_sets(workspace)
        names = {each.encoder for each in sets}
        today = next((each.encoder for each in sets if each.is_default), "")
        if today in (base, last) and "today" in record:  # that run was killed
            today = record["today"] if record["today"] in names else ""
        before = record.get("before", "") if today == last else today
        before = before if before in names - {base, last} else self.options.base
        self._replaced = {"before": before, "today": today}
        try:
            yield today, before
        except BaseException:
            if today:
                with contextlib.suppress(LemmataError):
                    self._search_as(today)
                    self._note({"before": before})
            raise
        self._note({"before": before})

    def _note(self, record: Mapping[str, str]) -> None:
        """Write what search used; a run that does nothing writes nothing."""
        file = self.folder / "search.json"
        if record and {**record, "verb": "run", "format": FORMAT} != read_manifest(file):
            write_manifest(file, {"verb": "run", **record})

    def _search_as(self, encoder: str) -> None:
        """Let search use the vectors of an encoder as they are."""
        with self.workspace.hold():
            set_default_encoder(self.workspace, encoder)

    def _all(self, today: str, before: str) -> list[Report]:
        workspace, options = self.workspace, self.options
        self._build_graph()
        if QUESTIONS in options.tasks:
            self._ask_questions()
        self.tasks = {name: _task(workspace, name) for name in options.tasks}
        made_by = self._index(options.base)
        baseline = self._measure(("lexical", "dense", "hybrid"), "before", (options.base, made_by, self.key))
        self._mine(made_by)
        self._audit()
        update = self._train_or_update()
        last = self._index(options.last)
        adopted, sentence = self._decide(self._compare_auto(before), today, before)
        compared = ("dense", "hybrid", "auto") if self._fit() else ("dense", "hybrid")
        tuned = self._measure(compared, "after", (options.last, last, self.key))
        if adopted:
            self._search_with(options.last, last)  # the workspace searches with the tuned model from now on
        elif before == options.base:
            self._search_with(options.base, made_by)
        else:
            self._search_as(before)
        reports = [_report(name, task, baseline[name], tuned[name], self, update) for name, task in self.tasks.items()]
        reports = [replace(report, notes=[*report.notes, sentence]) for report in reports]
        _write(self.folder, reports)
        return reports

    def _read_corpus(self) -> None:
        workspace, sources = self.workspace, self.options.sources
        if sources:
            self.announce("ingest", False)  # always runs: it reads only what changed
            report = ingest(workspace, [source if is_url(source) else workspace.root / source for source in sources])
            if report.failed:
                self.announce(
                    f"ingest: {report.failed:,} sources could not be read, 'lemmata info --skips' says why", False
                )
        with contextlib.closing(Corpus(workspace)) as corpus:
            if not len(corpus):
                raise WorkspaceError(f"the corpus in {workspace.root} is empty: name sources in [run]")
            size = {"passages": corpus.whole_passages(), "documents": len(corpus.document_ids())}
            self.stage("corpus", corpus.digest, lambda _: size)

    def _build_graph(self) -> None:
        table, graph = self.table, artefact(self.workspace, "graph")
        extract = partial(extract_graph, limits=self.limits)
        for name, inputs, verb, item in (
            ("graph", [], build_graph, graph),
            # before the split, which the new concepts need as well
            ("extract", [table("extract"), table("llm"), self.limits], extract, graph),
            ("split", table("split"), split, artefact(self.workspace, "split")),
            # after the split: it learns from the links of training logs only
            ("link", [], link_graph, graph),
        ):
            if name not in ALSO or name in self.options.also:
                self.stage(name, inputs, verb, item)

    def _ask_questions(self) -> None:
        """Questions about the test part: by the model of [llm] where it has one, within the limits, else by rules."""
        inputs, verb = [self.table("mine")], partial(mine, what="queries", part="test")
        if self.table("llm", "model"):
            inputs, verb = (
                [*inputs, self.table("llm"), self.limits],
                partial(write_queries, limits=self.limits, part="test"),
            )
        self.stage(f"mine {QUESTIONS}", inputs, verb, training_set(self.workspace, QUESTIONS))

    def _index(self, encoder: str) -> str:
        """Index with an encoder, again where a model of its name was retrained; returns what made the vectors."""
        folder = model_folder(encoder, self.workspace.models_folder)
        weights = weights_sha256(folder) if folder.is_dir() else ""
        summaries = [chosen] if (chosen := chosen_sources(self.workspace)) else []
        inputs = [self.table("index"), weights, *summaries]
        report = self.stage(f"index {encoder}", inputs, partial(index, settings={"encoder": encoder}))
        return str(report["encoder"])

    def _search_with(self, encoder: str, name: str) -> None:
        """Let mining and search use the vectors of this encoder; those of the others stay beside them."""
        if (vectors_manifest(self.workspace) or {}).get("made_by") != name:
            self._note(self._replaced)
            index(self.workspace, settings={"encoder": encoder})

    def _mine(self, made_by: str) -> None:
        workspace, options, table = self.workspace, self.options, self.table

        def with_base(verb: Callable[..., Any], **arguments: Any) -> Callable[[Workspace], Any]:
            def act(workspace: Workspace) -> Any:
                self._search_with(options.base, made_by)  # the vectors may be those of an earlier run's model
                return verb(workspace, **arguments)

            return act

        if "embed" in options.also:
            self.stage("embed", table("embed"), with_base(embed_graph), artefact(workspace, "embedding"))
        looked_for = [key] if (key := audit_key(workspace)) else []
        audited = [table("audit"), *looked_for]
        tables = [table("mine"), *audited]
        more = {"triplets": [table("embed")], "written": [table("llm"), self.limits]}
        verbs = {"written": partial(write_queries, limits=self.limits)}
        rows: list[tuple[str, Any, Callable[[Workspace], Any], str]] = []
        for name in options.mine:
            verb = with_base(verbs.get(name, partial(mine, what=name)), name=name)
            rows.append((f"mine {name}", [*tables, *more.get(name, [])], verb, name))
        for name, file in options.imports.items():
            path = workspace.root / file
            inputs = [file, sha256_of([path]), *audited]
            rows.append((f"import {name}", inputs, partial(import_queries, path=path, name=name), name))
        for name in options.negatives:
            verb = with_base(mine, what="negatives", name=f"{name}-hard", of=name)
            rows.append((f"negatives {name}", tables, verb, f"{name}-hard"))
        for stage, inputs, verb, name in rows:
            self.stage(stage, inputs, verb, training_set(workspace, name))
        self._mine_others(made_by, named={name for *_, name in rows})

    def _mine_others(self, made_by: str, named: set[str]) -> None:
        """Mine again what [run] does not name, but may train on, and is out of date.

        Sets made from files or by a language model stay: a training that needs one says how to make it.
        """
        workspace = self.workspace
        others = [name for name in trainable_sets(workspace) if name not in named]

        def out_of_date() -> list[str]:
            made = read_manifests(workspace.training_folder)
            minable = [name for name in others if made[name].get("mined")]
            return [name for name in minable if stale(workspace, training_set(workspace, name), made[name])]

        if out_of_date():
            self.announce("mine other sets that are out of date", False)
            self._search_with(self.options.base, made_by)
        for _ in others:  # one may be made from another
            for name in out_of_date():
                with contextlib.suppress(LemmataError):
                    mine_again(workspace, name)

    def _audit(self) -> None:
        """Refuse test queries that occur in training sets; miners never see the tasks of the test part."""
        queries = [text for name, task in self.tasks.items() if name not in TASKS for text in task.queries.values()]
        test = [Example(f"test query {number}", text, ()) for number, text in enumerate(queries, 1)]
        if test:
            self.stage("audit", queries, lambda workspace: {"sentence": audit(workspace, test=test).sentence()})

    # ------------------------------------------------------------ training, from the base or further

    def _train_or_update(self) -> _Update | None:
        """Train the models of [run], or the last one further where nothing but passages came in since its training."""
        options, key, settings = self.options, self.key, self._settings()
        folder = self.workspace.model(options.last)
        weights = weights_sha256(folder) if folder.is_dir() else ""
        manifest = read_manifest(self.workspace.manifest(folder)) or {}
        before_update = manifest.get("base_sha256") if manifest.get("verb") == "update" else None
        state = read_state(self.folder)
        if state is not None and (state.settings != settings or state.weights not in (weights, before_update)):
            state = None  # other settings, or trained by hand
        with contextlib.closing(Corpus(self.workspace)) as corpus:
            passages = np.unique(id_keys(corpus.ids()))
        new = passages if state is None else np.setdiff1d(passages, state.passages)
        update = None
        is_trained = True
        if state is not None and (state.key, state.weights) == (key, weights):
            for verb, name in options.models:
                self.announce(f"{verb} {name}", True)
            update = self._read_update()
            is_trained = False
        elif state is not None and len(new) and options.update != "anew":
            update = self._update(state, new)
            is_trained = bool(update.before)
        else:
            self._train()
        weights = weights_sha256(folder)
        if is_trained:
            write_state(self.folder, TrainingState(weights, settings, key, passages))
        self.key = fingerprint([key, weights])  # what follows depends on the model, not on how it came about
        return update

    def _settings(self) -> str:
        """A hash of the settings that decide what a model is, but for the texts."""
        both = ["mine", "pretrain", "finetune"]
        if self.options.static:  # only then, so that the record of a run without it stays valid
            both.append("static")
        stages = {"graph": True, "split": True, **{name: name in self.options.also for name in ALSO}}
        tables = {name: self.table(name) for name in (*stages, *both, "audit", "llm")}
        values = {key: getattr(self.options, key) for key in (*both, "imports", "negatives")}
        return fingerprint([tables, {**stages, **values}])

    def _train(self) -> None:
        verbs = {"pretrain": pretrain_model, "finetune": finetune_model, "static": static_model}
        for verb, name in self.options.models:
            table = self.table(verb, name)
            inputs = [table, self.table("finetune", table.get("judge", ""))] if verb == "pretrain" else table
            self.stage(f"{verb} {name}", inputs, partial(verbs[verb], name=name), model(self.workspace.model(name)))

    def _update(self, state: TrainingState, new: Keys) -> _Update:
        """Measure the last model on new passages, and train it further where that is worth it or asked for."""
        options, key = self.options, self.key
        name, measure = options.last, self.measure
        inputs = [state.weights, fingerprint(state.passages.tolist()), measure, options.base, options.tasks]
        verdict = self.stage(f"compare {name}", inputs, lambda _: self._compare(new))
        sentence = verdict["sentence"]
        before: dict[str, Report] = {}
        if verdict["worth"] or options.update == "always":
            before = self._measure(("dense",), "update", (name, state.weights, key))
            verb, _ = options.trained[-1]
            table = self.table(verb, name)
            settings = {}
            if not table.get("validation"):
                settings = {"validation": dict.fromkeys(own_tasks(options.tasks), measure)}
            further = partial(
                update_model, name=name, new=new, start=state.weights, static=verb == "static", settings=settings
            )
            report = self.stage(f"update {name}", [table, settings], further)
            done = f"{report['new']:,} new training records and {report['replayed']:,} replayed"
            if report["kept"]:
                sentence += f"; it was trained further on {done}"
            else:
                before = {}
                sentence += f"; trained further on {done} it gained nothing or forgot too much, so it stays as it was"
                if not report["new"]:
                    sentence = f"{verdict['sentence']}; no training record is new, so it stays as it was"
        update = _Update(sentence, {each: new_queries(task, new) for each, task in self.tasks.items()}, before)
        record = {"key": key, "sentence": sentence, "new": update.new, "weights": state.weights if before else ""}
        write_manifest(self.folder / "update.json", {"verb": "run", **record, "measures": self.asked.measures})
        return update

    def _compare(self, new: Keys) -> dict[str, Any]:
        """The verdict on new passages."""
        name, base, measure = self.options.last, self.options.base, self.measure
        roles = {"model": f"dense:{name}", "base": f"dense:{base}"}
        about_new, about_known = tasks_to_compare(self.workspace, self.options.tasks, new)
        verdict = gain_lost(measure, self._values(about_new, roles), self._values(about_known, roles))
        return {**verdict._asdict(), "worth": verdict.is_clear, "sentence": verdict.sentence(name, base)}

    def _values(self, tasks: Sequence[Task], roles: Mapping[str, str]) -> dict[str, Floats64]:
        """The first measure of each query of the tasks, for the retriever of each role."""
        asked = partial(evaluate, self.workspace, retrievers=list(roles.values()), options=self.deciding)
        measured = [asked(task).retrievers for task in tasks]
        return {
            role: np.concatenate([np.zeros(0), *(values[retriever][self.measure] for values in measured)])
            for role, retriever in roles.items()
        }

    def _read_update(self) -> _Update | None:
        """What the run that made the present model said about it, if it trained it further for the same tasks."""
        record = read_manifest(self.folder / "update.json")
        if record is None or (record["key"], record["measures"]) != (self.key, self.asked.measures):
            return None
        if not record["weights"] or list(record["new"]) != list(self.tasks):
            return None
        before = self._measure(("dense",), "update", (self.options.last, record["weights"], self.key))
        return _Update(record["sentence"], record["new"], before)

    # ------------------------------------------------------------ fitting and measuring

    def _fit(self) -> bool:
        """Fit `auto` to the last model's validation queries that do not come from the corpus itself; False without."""
        task = self._asked_task()
        if task is None:
            return False
        name = self.options.last
        if not vectors_of(self.workspace, name).fusion.is_file():
            self._done.pop(f"tune {name}", None)
        self.stage(f"tune {name}", self._inputs(task), partial(self._tune, task=task))
        return True

    def _tune(self, workspace: Workspace, task: Task) -> Any:
        return tune(workspace, task, f"auto:{self.options.last}", measure=self.measure)

    def _asked_task(self) -> Task | None:
        last = finetune_options(self.workspace, self.options.last, static=bool(self.options.static))
        return validation_queries(self.workspace, last.validation)

    def _inputs(self, task: Task) -> list[Any]:
        return [self.measure, dict(task.queries), {query: dict(grades) for query, grades in task.qrels.items()}]

    def _compare_auto(self, before: str) -> dict[str, Any]:
        """What `auto` with the last model gains on validation over `auto` with what search uses without it.

        Of validation queries that do not come from the corpus itself one half fits the weights and the other decides;
        else the validation part of the tasks decides, with the weights that nothing was fitted to.
        """
        task = self._asked_task()
        tasks = [task] if task else self._validation_tasks()
        made_by = (vectors_manifest(self.workspace, before) or {}).get("made_by")
        names = {"before": f"auto:{before}", "after": f"auto:{self.options.last}"}
        inputs = [names, made_by, *map(self._inputs, tasks)]

        def decide(workspace: Workspace) -> dict[str, Any]:
            judging = tasks
            if task:
                queries = list(task.qrels)
                vectors_of(workspace, self.options.last).fusion.unlink(missing_ok=True)  # fitted to more queries
                self._tune(workspace, restricted(task, queries[::2]))
                judging = [restricted(task, queries[1::2])]
            judging = [each for each in judging if each.qrels]
            return self._measured_gain(before, [each.name for each in judging], **self._values(judging, names))

        return dict(self.stage(f"compare auto of {self.options.last}", inputs, decide))

    def _validation_tasks(self) -> list[Task]:
        tasks = []
        for name in own_tasks(self.options.tasks):
            with contextlib.suppress(LemmataError):  # that part may pose no queries
                tasks.append(corpus_task(self.workspace, name, part="validation"))
        return tasks

    def _measured_gain(self, encoder: str, tasks: Sequence[str], before: Floats64, after: Floats64) -> dict[str, Any]:
        """What the last model gains over an encoder, from the values of `auto` with both."""
        last, gained = self.options.last, gain(before, after)
        if gained.queries:
            means = f"{self.measure} {before.mean():.3f} with {encoder}, {after.mean():.3f} with {last}"
            sentence = f"auto has {means} ({_interval(gained)}), on {gained.queries:,} validation queries of"
            sentence = f"{sentence} {', '.join(tasks)}"
        else:
            sentence = f"there are no validation queries to compare {last} with {encoder}"
        return {"gain": gained._asdict(), "sentence": sentence}

    def _decide(self, compared: Mapping[str, Any], today: str, before: str) -> tuple[bool, str]:
        """Whether search uses the last model from now on, and why: only a gain that is confirmed changes it."""
        last, gained = self.options.last, Gain(**compared["gain"])
        is_used = today == last
        adopted = not gained.is_loss if is_used else gained.is_confirmed
        if gained.is_confirmed or gained.is_loss:
            why = "which is above chance"
        elif gained.queries >= FEWEST:
            why = "which may be chance"
        else:
            why = f"and fewer than {FEWEST} decide nothing"
        verb = "uses" if gained.is_confirmed or (is_used and gained.is_loss) else "stays with"
        return adopted, f"search {verb} {last if adopted else before}: {compared['sentence']}, {why}"

    def _measure(self, retrievers: Sequence[str], where: str, encoder: tuple[str, str, str]) -> dict[str, Report]:
        """Measure, or read the stored measures of the same encoder (its spec, its name, and the key of its index)."""
        folder = self.folder / where
        folder.mkdir(exist_ok=True)
        asked = self.asked.measures if self.asked.level == "passage" else asdict(self.asked)
        reports = {}
        for number, (name, task) in enumerate(self.tasks.items()):
            file = folder / f"{number}.json"
            key = fingerprint([name, encoder, asked, task.queries, task.qrels])
            record = read_manifest(file)
            if record is None or record.get("key") != key:
                named = [each if each not in WITH_ENCODER else f"{each}:{encoder[0]}" for each in retrievers]
                measured = evaluate(self.workspace, task, retrievers=named, options=self.asked)
                record = {
                    "key": key,
                    "retrievers": {
                        retriever.partition(":")[0]: {
                            measure: values.tolist() for measure, values in by_measure.items()
                        }
                        for retriever, by_measure in measured.retrievers.items()
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
                    retriever: {measure: np.array(by_measure[measure]) for measure in self.names}
                    for retriever, by_measure in record["retrievers"].items()
                },
                groups={group: np.array(members, bool) for group, members in record["groups"].items()},
                comparisons=[],
                recall={},
                notes=record["notes"],
                command="lemmata run",
            )
        return reports


def _task(workspace: Workspace, name: str) -> Task:
    if name in TASKS:
        return corpus_task(workspace, name, part="test")
    return beir_task(workspace, _task_folder(workspace, name), name=Path(name).name)


def _task_folder(workspace: Workspace, name: str) -> Path:
    folder = workspace.root / name
    if not folder.is_dir():
        raise ConfigError(f"[run] tasks: {name!r} is neither one of {', '.join(TASKS)} nor a folder")
    return folder


# ---------------------------------------------------------------- the table before and after


def _report(name: str, task: Task, before: Report, after: Report, made: _Run, update: _Update | None) -> Report:
    options, tuned = made.options, made.options.last
    results = {
        "BM25": before.retrievers["lexical"],
        options.base: before.retrievers["dense"],
        f"{options.base} + BM25": before.retrievers["hybrid"],
        **({f"{tuned} before": update.before[name].retrievers["dense"]} if update and update.before else {}),
        tuned: after.retrievers["dense"],
        f"{tuned} + BM25": after.retrievers["hybrid"],
        **({f"{tuned}, auto": after.retrievers["auto"]} if "auto" in after.retrievers else {}),
    }
    generator = np.random.default_rng(0)
    comparisons = [pair for measure in made.names for pair in compare(results, measure, options.base, generator)]
    report = replace(before, task=f"{task.name} ({name})", retrievers=results, comparisons=comparisons)
    report = replace(report, groups=after.groups)  # by what the tuned model was trained on
    if update is None:
        return report
    about_new = set(update.new[name])
    is_new = np.array([query in about_new for query in report.queries], bool)
    groups = {"new passages": is_new, "known passages": ~is_new}
    present = {group: members for group, members in groups.items() if members.any()}
    notes = [*report.notes, update.sentence]
    if update.before:
        first = made.names[0]
        earlier, now = results[f"{tuned} before"][first], results[tuned][first]
        notes += [
            f"{group}, {int(members.sum())} test queries: {first} {_change(earlier[members], now[members])}"
            for group, members in present.items()
        ]
    return replace(report, groups={**report.groups, **present}, notes=notes)


def _change(before: Floats64, after: Floats64) -> str:
    """Two means over the same queries and their difference, with its interval."""
    means = f"{before.mean():.3f} before, {after.mean():.3f} after the update"
    return f"{means} ({_interval(gain(before, after))})"


def _interval(gained: Gain) -> str:
    mean, low, high = (signed(value, 3) for value in gained[:3])
    return f"{mean}, {low} to {high}"


def _write(folder: Path, reports: list[Report]) -> None:
    tables = [as_json(report) for report in reports]
    files = {"report.json": json.dumps(tables, ensure_ascii=False, indent=1) + "\n"}
    files |= {f"report-{number}.html": as_html(report) for number, report in enumerate(reports)}
    for name, content in files.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content.encode():
            write_atomically(folder / name, content.encode())
