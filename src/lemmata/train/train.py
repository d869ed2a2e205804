"""Models of a workspace: built in a work folder, with card, report and ONNX, and moved into place when complete."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.artefacts import file_problems, is_current, making, model
from lemmata.core.errors import ConfigError, InputError, LemmataError, WorkspaceError
from lemmata.core.files import check_replaceable, fingerprint, sha256_of, write_atomically
from lemmata.core.types import Passage, Progress
from lemmata.core.workspace import Options, Settings, Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.split import Keys, id_keys, open_split
from lemmata.corpus.trained import Trained, read_trained, summary, write_trained
from lemmata.corpus.training_files import split_key
from lemmata.encode.bert import is_bert
from lemmata.encode.export import export_encoder
from lemmata.encode.load import AUTO, BASELINE, PACKAGED, load_encoder
from lemmata.encode.static import is_static, plain_tokenizer, rename_static, write_static
from lemmata.evaluate.workspace_tasks import TASKS
from lemmata.mine.material import training_view
from lemmata.mine.training_sets import audit_again, older_sources, trainable_sets
from lemmata.search.index import packaged_encoder
from lemmata.train.bases import base_folder, base_sha256, find_base, locate_base, weights_sha256
from lemmata.train.card import describe_model
from lemmata.train.finetune import FinetuneOptions, FinetuneResult, finetune, teacher_names
from lemmata.train.job import Job, open_job
from lemmata.train.prepare import NewToModel, prepare, resolve_workspace
from lemmata.train.pretrain import PretrainOptions, pretrain
from lemmata.train.ranks import held_by_first, is_first_process, make_once
from lemmata.train.static import StaticOptions, as_finetune, count_tokens, fitted, token_vectors
from lemmata.train.validate import selection
from lemmata.train.windows import worth_reading
from lemmata.vectors.store import invalidate_vectors

DRIFT_TEXTS = 100  # on which an export is compared with the model
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


def check_name(name: str, base: str) -> None:
    if not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*", name) or name.endswith(".old"):  # a suffix of replaced folders
        raise ConfigError(f"the name of a model has letters, digits, - and _, not {name!r}")
    if name in (*PACKAGED, BASELINE, "hashing"):
        raise ConfigError(f"{name!r} comes with lemmata: choose another name for a model of your own")
    if name == base:
        raise ConfigError(f"the model {name!r} cannot be its own base")


# ---------------------------------------------------------------- one way for every model


def make_model(
    place: Path, inputs: Mapping[str, Any], build: Callable[[Path], dict[str, Any]], workspace: Workspace | None = None
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
            with making(item, {**inputs, "report": report, "trained_under": trained_under}, out):
                if workspace is not None:
                    invalidate_vectors(workspace, place.name)
        shutil.rmtree(work, ignore_errors=True)
    return report


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
    check_name(name, options.base)
    if judge is not None and not judge.validation:
        raise ConfigError(
            "pretraining is judged on validation, but the fine-tuning that is its judge names no validation task"
        )

    def build(work: Path) -> dict[str, Any]:
        base = base_folder(workspace, options.base, work)
        if judge is not None:  # errors in the judge's options should come before hours of pretraining
            prepare_sets(workspace, base, judge, work / "gate-base" / "job")
        texts = TrainingTexts(workspace, options.sections)
        report = pretrain(base, texts, work / "out", options, work=work / "work", progress=workspace.progress)
        report = {"name": name, "kept": True, **report}
        if judge is not None:
            report |= _judged(workspace, work, base, judge)
        if is_first_process():
            write_trained(work / "out", [*trained_before(workspace, options.base), texts.trained()])
            if not report["kept"]:
                shutil.rmtree(work / "out")
                (work / "out").mkdir()
        return report

    with held_by_first(workspace.hold()):
        inputs = {
            "verb": "pretrain",
            "options": asdict(options),
            "judge": training_inputs(workspace, judge) if judge else {},
            "base_sha256": base_sha256(workspace, options.base),
            "split": split_key(workspace),
        }
        return make_model(workspace.model(name), inputs, build, workspace)


def _judged(workspace: Workspace, work: Path, base: Path, judge: FinetuneOptions) -> dict[str, Any]:
    """Fine-tune base and pretrained model with the options of the judge, and compare them on validation."""
    table: dict[str, dict[str, Any]] = {}
    for name, start in (("base", base), ("pretrained", work / "out")):
        folder = work / f"gate-{name}"
        job = prepare_sets(workspace, start, judge, folder / "job")
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
        "notes": notes_of_sets(workspace, options.sets),
    }


def notes_of_sets(workspace: Workspace, specs: Iterable[str]) -> list[str]:
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
    check_name(name, options.base)
    is_static_model = verb == "static"
    find = _static_base if is_static_model else base_folder

    def build(work: Path) -> dict[str, Any]:
        base = find(workspace, options.base, work)
        job = prepare_sets(workspace, base, options, work / "job")
        chosen = fitted(options, job) if is_static_model else options
        before = trained_before(workspace, options.base)
        return {**_train_encoder(workspace, name, base, job, chosen, work, before, workspace.progress), "notes": notes}

    with held_by_first(workspace.hold()):
        notes = notes_of_sets(workspace, options.sets)
        inputs = {
            "verb": verb,
            "base_sha256": base_sha256(workspace, options.base),
            **training_inputs(workspace, options),
        }
        return {**make_model(workspace.model(name), inputs, build, workspace), "notes": notes}


def update_model(
    workspace: Workspace, name: str, new: Keys, start: str, *, static: bool = False, settings: Settings | None = None
) -> dict[str, Any]:
    """Train a model of the workspace further after passages came in, by its table; replaces it where it gains.

    `new` are the hashes of these passages' ids, `start` is the sha256 of the weights before. The records that the model
    has not seen are trained with as many others. Validation queries about new passages choose the model, the others
    are a guard with the bound `guard_tolerance`. Resumes from the last checkpoint.
    """
    options, place = finetune_options(workspace, name, settings, static=static), workspace.model(name)

    def build(work: Path) -> dict[str, Any]:
        if weights_sha256(place) != start:
            raise WorkspaceError(f"the model {name!r} has changed since the run began: run again")
        before = read_trained(place)
        job = prepare_sets(workspace, place, options, work / "job", NewToModel(new, before))
        if not job.sets:
            return {"name": name, "kept": False, "new": 0, "replayed": 0}
        chosen = replace(fitted(options, job) if static else options, base=name)
        report = _train_encoder(
            workspace, name, place, job, chosen, work, before, workspace.progress, base_is_candidate=True
        )
        counts = {count: sum(facts[count] for facts in job.facts["sets"]) for count in ("new", "replayed")}
        return {**report, **counts, "kept": report["share"] > 0}

    with held_by_first(workspace.hold()):
        about = {"new": fingerprint(new.tolist()), **training_inputs(workspace, options)}
        return make_model(place, {"verb": "update", "base_sha256": start, **about}, build, workspace)


def train_job(
    folder: Path, base: Path | str, out: Path, options: FinetuneOptions, progress: Progress
) -> dict[str, Any]:
    """Train a prepared job without its workspace; writes the model to `out`. Resumes from the last checkpoint."""
    job = open_job(folder)
    out = out.resolve()
    check_replaceable(out, "model", (out / "modules.json").is_file())

    def build(work: Path) -> dict[str, Any]:
        start, before = base_folder(None, str(base), work), trained_before(None, str(base))
        return _train_encoder(None, out.name, start, job, options, work, before, progress)

    inputs = {
        "verb": "finetune",
        "options": asdict(options),
        "base_sha256": base_sha256(None, str(base)),
        "job": fingerprint(dict(job.facts)),
    }
    return make_model(out, inputs, build)


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
        describe_model(out, name, base, job, options, result)
        write_trained(out, [*before, *read_trained(job.folder)])
        report |= _export(workspace, out, name) if workspace is not None else {}
    return report


def training_inputs(workspace: Workspace, options: FinetuneOptions) -> dict[str, Any]:
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
    others = [spec for spec in teacher_names(options.teacher) if spec != "base"]
    return {
        "options": asdict(options),
        "sets": sets,
        "tasks": tasks,
        "split": split_key(workspace),
        "others": {spec: base_sha256(workspace, spec) for spec in others},
    }


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path][: path.is_file()]


def prepare_sets(
    workspace: Workspace, base: Path, options: FinetuneOptions, folder: Path, new: NewToModel | None = None
) -> Job:
    """The job in `folder`, prepared by the first process where it is missing."""
    make_once((folder / "manifest.json").is_file, lambda: prepare(workspace, base, options, folder, new=new))
    return open_job(folder)


def trained_before(workspace: Workspace | None, base: str) -> list[Trained]:
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
    folder = locate_base(workspace, name)
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
