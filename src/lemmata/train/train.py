"""Models of a workspace: built in a work folder, with card, report and ONNX, and moved into place when complete."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.artefacts import file_problems, is_current, making, model
from lemmata.core.errors import ConfigError, InputError, LemmataError, WorkspaceError, require
from lemmata.core.files import fingerprint, sha256_of, write_atomically
from lemmata.core.types import Passage, Progress
from lemmata.core.workspace import Options, Settings, Workspace, read_manifest, read_manifests
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.split import Keys, id_keys, open_split
from lemmata.corpus.trained import Trained, read_trained, summary, write_trained
from lemmata.corpus.training_files import read_training, set_file, split_key, text_columns
from lemmata.encode.bert import is_bert, is_cross_bert, read_architecture
from lemmata.encode.cross import cross_folder, is_cross_encoder, load_cross_encoder
from lemmata.encode.export import export_encoder, write_cross_encoder
from lemmata.encode.load import AUTO, BASELINE, PACKAGED, baseline_folder, load_encoder
from lemmata.encode.restore import restore, restore_cross_encoder
from lemmata.encode.static import (
    is_static,
    plain_tokenizer,
    rename_static,
    static_settings,
    static_sha256,
    write_static,
)
from lemmata.evaluate.tasks import Task, restricted
from lemmata.evaluate.tuning import tune
from lemmata.evaluate.workspace_tasks import TASKS
from lemmata.mine.material import training_view
from lemmata.mine.training_sets import audit_again, older_sources, trainable_sets
from lemmata.search.index import packaged_encoder
from lemmata.train.card import (
    STATIC_POOLING,
    Estimate,
    Guard,
    Measured,
    ModelFacts,
    SplitFacts,
    TrainingSet,
    inherited,
    write_card,
)
from lemmata.train.finetune import FinetuneOptions, FinetuneResult, finetune, teacher_names
from lemmata.train.job import Job, open_job
from lemmata.train.losses import cut_lengths
from lemmata.train.prepare import NewToModel, is_of, prepare, resolve_workspace
from lemmata.train.pretrain import PretrainOptions, pretrain
from lemmata.train.ranks import held_by_first, is_first_process, make_once
from lemmata.train.report import History, Point, training_report, write_history
from lemmata.train.reranker import LONGEST, RerankerOptions, RerankerResult, train_reranker
from lemmata.train.static import StaticOptions, as_finetune, count_tokens, fitted, token_vectors
from lemmata.train.validate import selection
from lemmata.train.windows import worth_reading
from lemmata.vectors.store import invalidate_vectors

DRIFT_TEXTS = 100  # on which an export is compared with the model
RERANKED = 20  # hits of a held-out query that are reranked to choose the weight of the reranker
WEIGHED = 50  # held-out queries for that
PRECISION = "int8"  # of the export with which a workspace searches; models other than BERT have fp32


# ---------------------------------------------------------------- options


def model_options(
    workspace: Workspace, kind: type[Options], group: str, name: str, settings: Settings | None = None
) -> Options:
    """The options of the table [GROUP.NAME]; a base that is not named is the packaged encoder for the corpus."""
    options = workspace.named_options(kind, group, name, settings)
    if getattr(options, "base", "") != AUTO:
        return options
    return replace(options, base=packaged_encoder(workspace, static=group == "static"))  # type: ignore[type-var]


def finetune_options(
    workspace: Workspace, name: str, settings: Settings | None = None, *, static: bool = False
) -> FinetuneOptions:
    """The options of [finetune.NAME], or those of [static.NAME] as the fine-tuning that it is."""
    if static:
        return as_finetune(model_options(workspace, StaticOptions, "static", name, settings))
    return model_options(workspace, FinetuneOptions, "finetune", name, settings)


def _check_name(name: str, base: str) -> None:
    if not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*", name) or name.endswith(".old"):  # a suffix of replaced folders
        raise ConfigError(f"the name of a model has letters, digits, - and _, not {name!r}")
    if name in (*PACKAGED, BASELINE, "hashing"):
        raise ConfigError(f"{name!r} comes with lemmata: choose another name for a model of your own")
    if name == base:
        raise ConfigError(f"the model {name!r} cannot be its own base")


# ---------------------------------------------------------------- one way for every model


def _make(
    place: Path,
    inputs: Mapping[str, Any],
    build: Callable[[Path], dict[str, Any]],
    workspace: Workspace | None = None,
) -> dict[str, Any]:
    """Make the model at `place`, unless it was made from the same inputs before; returns its report in either case.

    `build` gets a work folder, with what an interrupted run with the same inputs left there to resume from, and fills
    `out` in it, which becomes the model; where it leaves none, the model before stays. Vectors that an earlier model
    of this name made are no longer valid.
    """
    work, item = place.with_name(f".{place.name}"), model(place)
    if is_current(item, inputs) and all(problem.what == "foreign" for problem in file_problems(item)):
        if is_first_process():
            shutil.rmtree(work, ignore_errors=True)  # of a run that was killed at its very end, or with other options
        return {**(read_manifest(item.manifest) or {})["report"], "done_before": True}
    note, key = work / "begun.json", fingerprint(inputs)

    def begin() -> None:
        for part in work.glob("*"):
            if part.is_dir() and not part.name.startswith("base-"):  # their names have the hash of their weights
                shutil.rmtree(part)
        write_atomically(note, key.encode())

    make_once(lambda: note.is_file() and note.read_text(encoding="utf-8") == key, begin)
    report = build(work)
    if is_first_process():
        out = work / "out"
        if out.is_dir():
            trained_under = summary(read_trained(out))
            # `begun` tells `lemmata gc` that this work is finished
            recipe = {**inputs, "report": report, "trained_under": trained_under, "begun": key}
            with making(item, recipe, out):
                if workspace is not None:
                    invalidate_vectors(workspace, place.name)
        shutil.rmtree(work, ignore_errors=True)
    return report


# ---------------------------------------------------------------- bases


def base_folder(workspace: Workspace | None, name: str, scratch: Path) -> Path:
    """The folder of a base, of sentence-transformers or of a static encoder.

    The weights of an exported model are restored to `scratch`.
    """
    folder = _located(workspace, name)
    return folder if is_static(folder) else _trainable(folder, scratch, "modules.json", restore)


def _trainable(folder: Path, scratch: Path, file: str, restored: Callable[[Path, Path], Path]) -> Path:
    """A model with weights that can be trained, which has this file; those of an exported one go to `scratch`."""
    if (folder / file).is_file():
        return folder
    out = scratch / f"base-{folder.name}-{weights_sha256(folder)[:8]}"
    make_once((out / file).is_file, lambda: restored(folder, out))
    return out


def _located(workspace: Workspace | None, name: str) -> Path:
    return find_base(workspace, name) or _from_hub(name)


def find_base(workspace: Workspace | None, name: str) -> Path | None:
    """The folder of a base, of sentence-transformers or exported; None for a hub name. ConfigError if there is none.

    A path is relative to the workspace or to the current folder.
    """
    if workspace is not None and "/" not in name:
        own = workspace.model(name)
        if (own / "modules.json").is_file() or is_static(own):
            return own
    if workspace is not None and name in read_manifests(workspace.models_folder):
        raise ConfigError(f"the model {name!r} was not kept: fine-tuned, it did worse on validation than its base")
    if name in PACKAGED:
        return PACKAGED[name]
    if name == BASELINE:
        return baseline_folder()
    path = Path(name).expanduser()
    for folder in (workspace.root / path, path) if workspace is not None else (path,):
        if (folder / "modules.json").is_file() or (folder / "encoder.json").is_file():
            return folder
    if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name) and not path.exists():
        return None
    available = ", ".join(
        (*PACKAGED, BASELINE, *(read_manifests(workspace.models_folder) if workspace is not None else ()))
    )
    raise ConfigError(f"there is no base model {name!r}; possible are {available}, a folder, or a hub name")


def _from_hub(name: str) -> Path:
    hub = require("huggingface_hub", "train")
    try:
        return Path(hub.snapshot_download(name))
    except Exception as error:  # the hub's client raises many kinds
        raise InputError(f"cannot be downloaded from the hub ({str(error).splitlines()[0]})", file=name) from error


def weights_sha256(folder: Path) -> str:
    """Of a model's weights, in whatever format they are stored."""
    if is_static(folder):
        return static_sha256(folder)
    kinds = (folder.rglob(pattern) for pattern in ("*.safetensors", "*.bin", "model.onnx"))
    return sha256_of(next((files for kind in kinds if (files := sorted(kind))), []))


def _base_sha256(workspace: Workspace | None, name: str) -> str:
    return weights_sha256(_located(workspace, name))


# ---------------------------------------------------------------- pretraining


def pretrain_model(
    workspace: Workspace, name: str = "pretrained", *, settings: Settings | None = None
) -> dict[str, Any]:
    """Adapt an encoder to the language of the corpus, by [pretrain.NAME]; writes `models/NAME`, a base for fine-tuning.

    The `judge` is a fine-tuning that decides whether to keep it: base and pretrained model are both fine-tuned with its
    options, and the pretrained one is only kept if it is not worse on validation. The manifest has the measures in
    either case.
    """
    options = model_options(workspace, PretrainOptions, "pretrain", name, settings)
    judge = finetune_options(workspace, options.judge) if options.judge else None
    _check_name(name, options.base)
    if judge is not None and not judge.validation:
        raise ConfigError(
            "pretraining is judged on validation, but the fine-tuning that is its judge names no validation task"
        )

    def build(work: Path) -> dict[str, Any]:
        base = base_folder(workspace, options.base, work)
        if judge is not None:  # errors in the judge's options should come before hours of pretraining
            _prepared(workspace, base, judge, work / "gate-base" / "job")
        texts = TrainingTexts(workspace, options.sections)
        report = pretrain(base, texts, work / "out", options, work=work / "work", progress=workspace.progress)
        report = {"name": name, "kept": True, **report}
        if judge is not None:
            report |= _judged(workspace, work, base, judge)
        if is_first_process():
            write_trained(work / "out", [*_trained_before(workspace, options.base), texts.trained()])
            if not report["kept"]:
                shutil.rmtree(work / "out")
                (work / "out").mkdir()
        return report

    with held_by_first(workspace.hold()):
        inputs = {
            "verb": "pretrain",
            "options": asdict(options),
            "judge": _inputs(workspace, judge) if judge else {},
            "base_sha256": _base_sha256(workspace, options.base),
            "split": split_key(workspace),
        }
        return _make(workspace.model(name), inputs, build, workspace)


def _judged(workspace: Workspace, work: Path, base: Path, judge: FinetuneOptions) -> dict[str, Any]:
    """Fine-tune base and pretrained model with the options of the judge, and compare them on validation."""
    table: dict[str, dict[str, Any]] = {}
    for name, start in (("base", base), ("pretrained", work / "out")):
        folder = work / f"gate-{name}"
        job = _prepared(workspace, start, judge, folder / "job")
        result = _finetune(workspace, start, job, judge, folder, workspace.progress)
        domain = selection(dict(result.after), job.validations)[0]
        table[name] = {"before": dict(result.before), "after": dict(result.after), "domain": domain}
    return {"gate": table, "kept": table["pretrained"]["domain"] >= table["base"]["domain"]}


class TrainingTexts:
    """Document and text of the passages of the training part that are worth reading; may be read several times."""

    def __init__(self, workspace: Workspace, sections: list[str]) -> None:
        self._workspace = workspace
        self._sections = sections

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for passage in self._passages():
            text = passage.content
            yield passage.document, f"{text}\n{passage.proof}" if passage.proof else text

    def _passages(self) -> Iterator[Passage]:
        with contextlib.closing(Corpus(self._workspace)) as corpus:
            split = open_split(self._workspace, corpus.digest)
            for _, passage in training_view(corpus, split, "train").all_passages():
                if worth_reading(passage.kind, passage.section, self._sections):
                    yield passage

    def trained(self) -> Trained:
        """The passages that were read, under the split of the workspace."""
        ids = [passage.id for passage in self._passages()]
        with contextlib.closing(Corpus(self._workspace)) as corpus:
            split = open_split(self._workspace, corpus.digest)
        return Trained(split_key(self._workspace), split.seed, split.method, np.unique(id_keys(ids)), id_keys(()))


# ---------------------------------------------------------------- fine-tuning


def prepare_job(
    workspace: Workspace, name: str, folder: str | Path, *, settings: Settings | None = None
) -> dict[str, Any]:
    """Write all that a fine-tuning needs, except the base, into one folder, to train it on another machine."""
    options = finetune_options(workspace, name, settings)
    with tempfile.TemporaryDirectory() as scratch:
        job = prepare(workspace, base_folder(workspace, options.base, Path(scratch)), options, Path(folder))
    return {
        "texts": len(job.texts),
        "tokens": len(job.texts.flat),
        "sets": {name: len(records) for name, records in job.sets.items()},
        "validations": {task.name: len(task.queries) for task in job.validations},
        "notes": _notes(workspace, options.sets),
    }


def _notes(workspace: Workspace, specs: Iterable[str]) -> list[str]:
    """What is said about the training sets of a model: which are older than what they were made from."""
    places = [resolve_workspace(workspace, spec.partition(":")[0]) for spec in specs or trainable_sets(workspace)]
    return [sentence for other, name in places for sentence in older_sources(other, [name])]


def finetune_model(workspace: Workspace, name: str = "tuned", *, settings: Settings | None = None) -> dict[str, Any]:
    """Fine-tune an encoder on mined sets, by [finetune.NAME]; resumes from the last checkpoint."""
    return _encoder_model(workspace, name, finetune_options(workspace, name, settings), "finetune")


def static_model(workspace: Workspace, name: str = "static", *, settings: Settings | None = None) -> dict[str, Any]:
    """Train a static encoder on mined sets, by [static.NAME]; resumes from the last checkpoint.

    It starts from the token vectors of its base.
    """
    return _encoder_model(workspace, name, finetune_options(workspace, name, settings, static=True), "static")


def _encoder_model(workspace: Workspace, name: str, options: FinetuneOptions, verb: str) -> dict[str, Any]:
    _check_name(name, options.base)
    is_static_model = verb == "static"
    find = _static_base if is_static_model else base_folder

    def build(work: Path) -> dict[str, Any]:
        base = find(workspace, options.base, work)
        job = _prepared(workspace, base, options, work / "job")
        chosen = fitted(options, job) if is_static_model else options
        before = _trained_before(workspace, options.base)
        return {**_train_encoder(workspace, name, base, job, chosen, work, before, workspace.progress), "notes": notes}

    with held_by_first(workspace.hold()):
        notes = _notes(workspace, options.sets)
        inputs = {"verb": verb, "base_sha256": _base_sha256(workspace, options.base), **_inputs(workspace, options)}
        return {**_make(workspace.model(name), inputs, build, workspace), "notes": notes}


def update_model(
    workspace: Workspace,
    name: str,
    new: Keys,
    start: str,
    *,
    static: bool = False,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Train a model of the workspace further after passages came in, by its table; replaces it where it gains.

    `new` are the hashes of these passages' ids, `start` is the sha256 of the weights before. The records that the model
    has not seen are trained with as many others. Validation queries about new passages choose the model, the others
    are a guard with the bound `forget`. Resumes from the last checkpoint.
    """
    options, place = finetune_options(workspace, name, settings, static=static), workspace.model(name)

    def build(work: Path) -> dict[str, Any]:
        if weights_sha256(place) != start:
            raise WorkspaceError(f"the model {name!r} has changed since the run began: run again")
        before = read_trained(place)
        job = _prepared(workspace, place, options, work / "job", NewToModel(new, before))
        if not job.sets:
            return {"name": name, "kept": False, "new": 0, "replayed": 0}
        chosen = replace(fitted(options, job) if static else options, base=name)
        report = _train_encoder(
            workspace, name, place, job, chosen, work, before, workspace.progress, base_is_candidate=True
        )
        counts = {count: sum(facts[count] for facts in job.facts["sets"]) for count in ("new", "replayed")}
        return {**report, **counts, "kept": report["share"] > 0}

    with held_by_first(workspace.hold()):
        about = {"new": fingerprint(new.tolist()), **_inputs(workspace, options)}
        return _make(place, {"verb": "update", "base_sha256": start, **about}, build, workspace)


def train_job(
    folder: Path, base: Path | str, out: Path, options: FinetuneOptions, progress: Progress
) -> dict[str, Any]:
    """Train a prepared job without its workspace; writes the model to `out`. Resumes from the last checkpoint."""
    job = open_job(folder)
    out = out.resolve()
    if out.exists() and not (out / "modules.json").is_file() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("exists and is no model, so it is not replaced", file=str(out))

    def build(work: Path) -> dict[str, Any]:
        start, before = base_folder(None, str(base), work), _trained_before(None, str(base))
        return _train_encoder(None, out.name, start, job, options, work, before, progress)

    inputs = {
        "verb": "finetune",
        "options": asdict(options),
        "base_sha256": _base_sha256(None, str(base)),
        "job": fingerprint(dict(job.facts)),
    }
    return _make(out, inputs, build)


def _train_encoder(
    workspace: Workspace | None,
    name: str,
    base: Path,
    job: Job,
    options: FinetuneOptions,
    work: Path,
    before: Sequence[Trained],
    progress: Progress,
    *,
    base_is_candidate: bool = False,
) -> dict[str, Any]:
    """Fine-tune into `work / "out"`, with card, report and, in a workspace, ONNX; `before` is what the base has seen.

    Where the base is a candidate and wins, the share of the tuned weights is 0, and nothing is written.
    """
    result = _finetune(workspace, base, job, options, work, progress, base_is_candidate=base_is_candidate)
    report = {"name": name, **{key: value for key, value in result._asdict().items() if key != "history"}}
    out = work / "out"
    if is_first_process() and base_is_candidate and not result.share:
        shutil.rmtree(out)
    elif is_first_process():
        _describe(out, name, base, job, options, result)
        write_trained(out, [*before, *read_trained(job.folder)])
        report |= _export(workspace, out, name) if workspace is not None else {}
    return report


def _inputs(workspace: Workspace, options: FinetuneOptions) -> dict[str, Any]:
    """Options and hashes of all that a fine-tuning reads: a change means another model."""
    sets = {}
    for spec in options.sets or trainable_sets(workspace):
        other, name = resolve_workspace(workspace, spec.partition(":")[0])
        audit_again(other, [name])  # also where nothing else changed since the model was trained
        sets[spec] = [sha256_of(_files(other.training_file(name))), split_key(other)]
    tasks: dict[str, Any] = {}
    for spec in (*options.validation, *options.guard):
        path = spec.partition("#")[0]
        other, name = resolve_workspace(workspace, path)
        if name in TASKS:
            graph = read_manifest(other.manifest(other.graph_folder)) or {}
            tasks[spec] = [split_key(other), graph.get("inputs", "")]
        else:
            tasks[spec] = sha256_of(_files(workspace.root / Path(path).expanduser()))
    others = [spec for spec in (options.guide, *teacher_names(options.teacher)) if spec not in ("", "base")]
    return {
        "options": asdict(options),
        "sets": sets,
        "tasks": tasks,
        "split": split_key(workspace),
        "others": {spec: _base_sha256(workspace, spec) for spec in others},
    }


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path][: path.is_file()]


def _prepared(
    workspace: Workspace, base: Path, options: FinetuneOptions, folder: Path, new: NewToModel | None = None
) -> Job:
    """The job in `folder`, prepared by the first process where it is missing."""
    make_once((folder / "manifest.json").is_file, lambda: prepare(workspace, base, options, folder, new=new))
    return open_job(folder)


def _trained_before(workspace: Workspace | None, base: str) -> list[Trained]:
    """What the base has seen, as far as it is recorded."""
    folder = find_base(workspace, base)
    return read_trained(folder) if folder is not None else []


def _finetune(
    workspace: Workspace | None,
    base: Path,
    job: Job,
    options: FinetuneOptions,
    work: Path,
    progress: Progress,
    *,
    base_is_candidate: bool = False,
) -> FinetuneResult:
    def folder(name: str) -> Path:
        return base if name == "base" else base_folder(workspace, name, work)

    if is_first_process():
        shutil.rmtree(work / "out", ignore_errors=True)  # a kill may have left a part of an export in it
    return finetune(
        base,
        job,
        work / "out",
        options,
        work=work / "work",
        guide=folder(options.guide) if options.guide else None,
        teachers=[folder(name) for name in teacher_names(options.teacher)],
        base_is_candidate=base_is_candidate,
        progress=progress,
    )


def _export(workspace: Workspace, folder: Path, name: str) -> dict[str, Any]:
    """Export a model, so that searching needs no torch; where that fails, the report says why."""
    if is_static(folder):  # it needs none as it is
        rename_static(folder, name)
        return {}
    workspace.progress("exporting", 0, None)
    with contextlib.closing(Corpus(workspace)) as corpus:
        texts = list(islice((text for text in corpus.contents() if text.strip()), DRIFT_TEXTS))
    precision = PRECISION if is_bert(folder) else "fp32"
    try:
        drift = export_encoder(folder, folder / "onnx", precision, texts=texts, name=name, force=True)
    except (LemmataError, RuntimeError, NotImplementedError) as error:  # torch raises them for unusual architectures
        return {"drift": None, "not_exported": str(error).strip().split("\n")[0]}
    return {"drift": drift._asdict(), "precision": precision}


# ---------------------------------------------------------------- static encoders


def _static_base(workspace: Workspace, name: str, scratch: Path) -> Path:
    """The folder of a static encoder; of another encoder, one with its token vectors is written to `scratch`.

    The vectors are weighted by the frequency of the tokens in the training part.
    """
    folder = _located(workspace, name)
    if is_static(folder):
        return folder
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise InputError("has no tokenizer.json, so there are no token vectors to start from", file=str(folder))
    out = scratch / f"base-tokens-{weights_sha256(folder)[:8]}"

    def write() -> None:
        workspace.progress("counting tokens", 0, None)
        counts = count_tokens((text for _, text in TrainingTexts(workspace, [])), tokenizer)
        vectors = token_vectors(load_encoder(str(folder)), tokenizer, counts, workspace.progress)
        write_static(out, folder.name, vectors, plain_tokenizer(tokenizer))
        for file in (*folder.glob("LICENSE*"), *folder.glob("README.md")):  # for the licence on the card
            shutil.copyfile(file, out / file.name)

    make_once(lambda: is_static(out), write)
    return out


# ---------------------------------------------------------------- rerankers


def reranker_model(workspace: Workspace, name: str = "reranker", *, settings: Settings | None = None) -> dict[str, Any]:
    """Train a cross-encoder on mined sets, by [reranker.NAME]; resumes from the last checkpoint.

    Its weight beside the retriever's own score is chosen on held-out pairs, where the workspace has an index.
    """
    options = model_options(workspace, RerankerOptions, "reranker", name, settings)
    _check_name(name, options.base)

    def build(work: Path) -> dict[str, Any]:
        if source is None:
            base = base_folder(workspace, options.base, work)
        else:
            base = _trainable(source, work, "config.json", restore_cross_encoder)
        job, out = _prepared(workspace, base, as_finetuning, work / "job"), work / "out"
        shown = replace(options, sets=chosen)
        result = train_reranker(base, job, out, shown, work=work / "work", progress=workspace.progress)
        values = {part: value for part, value in result._asdict().items() if part not in ("history", "held_out")}
        report = {"name": name, **values, "held_out": sum(map(len, result.held_out.values())), "notes": notes}
        if is_first_process():
            task = _held_out_task(workspace, result)
            _describe_reranker(out, name, base, job, options, result)
            before = read_trained(source) if source is not None else _trained_before(workspace, options.base)
            write_trained(out, [*before, *read_trained(job.folder)])
            report |= _export_reranker(out, name, task)
            report |= _weigh(workspace, out, task)
        return report

    with held_by_first(workspace.hold()):
        chosen = options.sets or dict.fromkeys(_sets_with_negatives(workspace), 1.0)
        as_finetuning = FinetuneOptions(sets=chosen, prompts={"query": "", "passage": ""})
        hashes = {part: value for part, value in _inputs(workspace, as_finetuning).items() if part in ("sets", "split")}
        source = _cross_source(workspace, options.base)
        sha256 = weights_sha256(source) if source is not None else _base_sha256(workspace, options.base)
        notes = _notes(workspace, chosen)
        inputs = {"verb": "reranker", "options": asdict(options), "base_sha256": sha256, **hashes}
        return {**_make(workspace.model(name), inputs, build, workspace), "notes": notes}


def _sets_with_negatives(workspace: Workspace) -> list[str]:
    """All sets that have negatives, or all where none has."""
    names = list(trainable_sets(workspace))
    with_negatives = [name for name in names if len(text_columns(set_file(workspace, name))) > 2]
    return with_negatives or names


def _cross_source(workspace: Workspace, name: str) -> Path | None:
    """The folder of a base that is a cross-encoder already; None for an encoder."""
    folder = cross_folder(name, workspace.models_folder)
    folder = folder.parent if folder.name == "onnx" else folder
    if not folder.is_dir() and name not in (*PACKAGED, BASELINE) and find_base(workspace, name) is None:
        folder = _from_hub(name)
    return folder if is_cross_encoder(folder) else None


def _held_out_task(workspace: Workspace, result: RerankerResult) -> Task:
    """Held-out records as queries; every positive that the sets have for such a query is an answer."""
    queries: dict[str, str] = {}
    itself: dict[str, str] = {}
    files = {
        spec: set_file(workspace, spec.partition(":")[0])
        for spec in result.held_out
        if "/" not in spec.partition(":")[0]
    }
    for spec, file in files.items():
        places = set(result.held_out[spec])
        restriction = spec.partition(":")[2]
        records = (line for line in read_training(file) if is_of(line, restriction))
        for number, line in enumerate(records):
            if number in places and line["anchor"] not in queries.values():
                query = f"{spec}-{number}"
                queries[query] = line["anchor"]
                if line["anchor_id"] is not None:
                    itself[query] = line["anchor_id"]
    by_text = {text: query for query, text in queries.items()}
    qrels: dict[str, dict[str, int]] = {query: {} for query in queries}
    for file in dict.fromkeys(files.values()):
        for line in read_training(file):
            if line["anchor"] in by_text:
                qrels[by_text[line["anchor"]]][line["positive_id"]] = 1
    return Task("held-out pairs", queries, qrels, itself=itself)


def _export_reranker(folder: Path, name: str, task: Task) -> dict[str, Any]:
    """Export a reranker, so that searching needs no torch, and compare scores; the report says why where that fails."""
    if not is_cross_bert(folder):
        return {"drift": None, "not_exported": "it is no BERT with one score for a pair"}
    write_cross_encoder(folder, folder / "onnx", PRECISION, name, LONGEST)
    texts = list(task.queries.values())[:DRIFT_TEXTS]
    pairs = list(zip(texts, texts[1:] + texts[:1], strict=True)) + [(text, text) for text in texts]
    if len(pairs) < 4:
        return {"drift": None, "precision": PRECISION}
    exported, original = (load_cross_encoder(str(place)).score(pairs) for place in (folder / "onnx", folder))
    correlation = float(np.corrcoef(exported, original)[0, 1])
    return {"drift": {"pairs": len(pairs), "correlation": correlation}, "precision": PRECISION}


def _weigh(workspace: Workspace, folder: Path, task: Task) -> dict[str, Any]:
    """Choose the reranker's weight on held-out pairs; where that fails, search gives it the default weight.

    A missing index or a remote encoder that does not answer is no reason to lose a trained model.
    """
    model = folder / "onnx" if (folder / "onnx").is_dir() else folder
    few = restricted(task, list(task.queries)[:WEIGHED])
    if not few.queries:
        return {"weight": None}
    try:
        return {"weight": tune(workspace, few, f"auto+rerank{RERANKED}:{model}")}
    except LemmataError as error:
        return {"weight": None, "not_weighed": str(error)}


# ---------------------------------------------------------------- report and card


def _describe(folder: Path, name: str, base: Path, job: Job, options: FinetuneOptions, result: FinetuneResult) -> None:
    """Write report, history and card of an encoder into its folder."""
    sweep = [Point(point["share"], point["domain"], point["general"]) for point in result.sweep]
    measures, guards = [], []
    for task in job.validations:
        key = f"{task.name}/{task.measure}"
        before, after = Estimate(result.before[key]), Estimate(result.after[key])
        if task.general:
            guards.append(Guard(task.name, task.measure, len(task.queries), before, after, options.forget))
        else:
            measures.append(Measured("validation", task.name, task.measure, len(task.queries), before, after))
    if is_static(folder):
        settings = static_settings(folder)
        pooling, max_tokens, prompts = STATIC_POOLING, settings["max_tokens"], settings["prompts"]
        dimension = int(settings["dimension"])
    else:
        architecture = read_architecture(folder)
        pooling, max_tokens, prompts = architecture.pooling, architecture.max_tokens, architecture.prompts
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        dimension = int(config.get("hidden_size", 0)) * max(1, len(pooling))
    facts = {
        "dimension": dimension,
        "max_tokens": max_tokens,
        "pooling": pooling,
        "prompts": {role: prompt for role, prompt in prompts.items() if prompt},
        "matryoshka": cut_lengths(options.dimensions, dimension) if options.dimensions else [],
        "measures": measures,
        "guards": guards,
        "sweep": sweep,
        "share": result.share,
        "intended_use": "Search in the corpus that it was trained for, and in text like it.",
        "limits": [
            "Measured on validation only; see the report of 'lemmata run' or 'lemmata evaluate' for the test part."
        ],
    }
    curves = {"sweep": sweep, "share": result.share if sweep else None, "pairs_per_second": result.records_per_second}
    _write_description(folder, name, base, job, options, result, facts, curves)


def _describe_reranker(
    folder: Path, name: str, base: Path, job: Job, options: RerankerOptions, result: RerankerResult
) -> None:
    """Write report, history and card of a cross-encoder into its folder."""
    queries = sum(map(len, result.held_out.values()))
    facts = {
        "dimension": 0,
        "max_tokens": LONGEST,
        "pooling": (),
        "measures": [
            Measured(
                "held-out pairs", "ten passages", measure, queries, Estimate(value), Estimate(result.after[measure])
            )
            for measure, value in result.before.items()
        ],
        "intended_use": "Rerank the first hits of a search in its corpus, and check mined training data.",
        "limits": [
            "The held-out pairs are of the training part; 'lemmata evaluate --retriever dense+rerank' measures others.",
            "Scores are comparable between queries of one kind, but are no probabilities.",
        ],
    }
    curves = {"pairs_per_second": result.pairs_per_second}
    _write_description(folder, name, base, job, options, result, facts, curves)


def _write_description(
    folder: Path,
    name: str,
    base: Path,
    job: Job,
    options: FinetuneOptions | RerankerOptions,
    result: FinetuneResult | RerankerResult,
    facts: Mapping[str, Any],
    curves: Mapping[str, Any],
) -> None:
    """Write the history of a training, its report, and the card: `facts`, and what it comes from."""
    history = replace(
        History.from_log(result.history),
        best_step=result.best_step,
        options=asdict(options),
        sets={each["name"]: each["records"] for each in job.facts["sets"]},
        seconds=result.seconds,
        name=name,
        **curves,
    )
    write_history(folder / "history.json", history)
    training_report(history, folder)
    libraries = ("lemmata", "torch", "transformers", "sentence-transformers", "numpy")
    installed = {distribution.name for distribution in importlib.metadata.distributions()}
    card = ModelFacts(
        name=name,
        base=options.base,
        base_sha256=weights_sha256(base),
        **inherited(base),
        command=" ".join(["lemmata", *sys.argv[1:]]),
        sets=[
            TrainingSet(each["name"], each["records"], {"data.parquet": each.get("sha256", "")})
            for each in job.facts["sets"]
        ],
        split=SplitFacts(**job.facts["split"]) if job.facts.get("split") else None,
        options=asdict(options),
        versions={library: importlib.metadata.version(library) for library in libraries if library in installed},
        **facts,
    )
    write_card(folder, card)
