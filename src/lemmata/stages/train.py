"""Models of a workspace: made under another name, with card, report and ONNX, and put in place when they are whole."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from lemmata.encode.bert import is_bert, read_architecture
from lemmata.encode.export import export_encoder
from lemmata.encode.load import BASELINE, PACKAGED, baseline_folder
from lemmata.encode.restore import restore
from lemmata.errors import ConfigError, InputError, LemmataError, WorkspaceError, require
from lemmata.files import replace_folder, sha256_of, write_atomically
from lemmata.mine.material import material
from lemmata.stages.evaluate import TASKS
from lemmata.stages.prepare import elsewhere, pack, split_facts, split_key
from lemmata.stages.training_sets import sets as mined_sets
from lemmata.store.corpus import Corpus
from lemmata.store.layout import Layout, read_manifest, write_manifest
from lemmata.store.split import open_split
from lemmata.train.card import Estimate, Guard, Measured, ModelFacts, SplitFacts, TrainingSet, write_card
from lemmata.train.finetune import FinetuneOptions, Tuned, finetune
from lemmata.train.job import Job, fingerprint, open_job
from lemmata.train.pretrain import PretrainOptions, pretrain
from lemmata.train.report import History, Point, training_report, write_history
from lemmata.train.validate import selection
from lemmata.train.windows import worth_reading
from lemmata.types import Progress

__all__ = [
    "TrainingTexts",
    "base_folder",
    "find_base",
    "finetune_model",
    "list_models",
    "pack_job",
    "pretrain_model",
    "train_job",
    "weights_sha256",
]

SHOWN = 100  # texts on which an export's drift is measured
PRECISION = "int8-blocks"  # of the export with which a workspace searches; what is no BERT has fp32


# ---------------------------------------------------------------- bases


def base_folder(layout: Layout | None, spec: str, scratch: Path) -> Path:
    """The sentence-transformers folder that `spec` means; an exported model is restored to `scratch` first."""
    found = find_base(layout, spec) or _from_hub(spec)
    if (found / "modules.json").is_file():
        return found
    out = scratch / f"base-{found.name}-{weights_sha256(found)[:8]}"
    _make(out / "modules.json", lambda: restore(found, out))
    return out


def find_base(layout: Layout | None, spec: str) -> Path | None:
    """The folder of a base, of sentence-transformers or exported; None for a hub name. ConfigError if there is none.

    A path is looked for from the workspace on, then from here.
    """
    if layout is not None and "/" not in spec and (layout.model(spec) / "modules.json").is_file():
        return layout.model(spec)
    if layout is not None and spec in list_models(layout):
        raise ConfigError(f"the model {spec!r} was not kept: fine-tuned, it did worse on validation than its base")
    if spec == BASELINE:
        return baseline_folder()
    if spec in PACKAGED:
        return PACKAGED[spec]
    given = Path(spec).expanduser()
    for folder in (layout.root / given, given) if layout is not None else (given,):
        if (folder / "modules.json").is_file() or (folder / "encoder.json").is_file():
            return folder
    if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", spec) and not given.exists():
        return None
    known = ", ".join((*PACKAGED, BASELINE, *(list_models(layout) if layout is not None else ())))
    raise ConfigError(f"there is no base model {spec!r}; possible are {known}, a folder, or a hub name")


def _from_hub(name: str) -> Path:
    hub = require("huggingface_hub", "train")
    try:
        return Path(hub.snapshot_download(name))
    except Exception as error:  # whatever the network says
        raise InputError(f"can not be fetched from the hub ({str(error).splitlines()[0]})", file=name) from error


def list_models(layout: Layout) -> dict[str, dict[str, Any]]:
    """Every whole model of a workspace with its manifest."""
    folders = sorted(layout.models.glob("[!.]*")) if layout.models.is_dir() else []
    found = {folder.name: read_manifest(layout.manifest(folder)) for folder in folders}
    return {name: manifest for name, manifest in found.items() if manifest is not None}


def weights_sha256(folder: Path) -> str:
    """Of a model's weights, in whatever format they are there."""
    kinds = (folder.rglob(pattern) for pattern in ("*.safetensors", "*.bin", "model.onnx"))
    return sha256_of(next((found for kind in kinds if (found := sorted(kind))), []))


# ---------------------------------------------------------------- what a model is made from


def _inputs(layout: Layout, options: FinetuneOptions) -> dict[str, Any]:
    """All that a fine-tuning reads, as it is now: another value means another model."""
    sets = {}
    for spec in options.sets or mined_sets(layout):
        there, name = elsewhere(layout, spec.partition(":")[0])
        sets[spec] = [sha256_of(_files(there.training_file(name))), split_key(there)]
    tasks = {}
    for spec in (*options.validation, *options.guard):
        path = spec.partition("#")[0]
        there, name = elsewhere(layout, path)
        graph = read_manifest(there.manifest(there.graph)) or {}
        posed = [split_key(there), graph.get("inputs", "")]
        tasks[spec] = posed if name in TASKS else sha256_of(_files(layout.root / Path(path).expanduser()))
    others = [spec for spec in (options.guide, options.teacher) if spec not in ("", "base")]
    return {
        "options": asdict(options),
        "sets": sets,
        "tasks": tasks,
        "split": split_key(layout),
        "others": {spec: _weights(layout, spec) for spec in others},
    }


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path][: path.is_file()]


def _weights(layout: Layout | None, spec: str) -> str:
    return weights_sha256(find_base(layout, spec) or _from_hub(spec))


# ---------------------------------------------------------------- pretraining


def pretrain_model(
    layout: Layout, name: str, options: PretrainOptions, judge: FinetuneOptions | None, progress: Progress
) -> dict[str, Any]:
    """Masked language modelling on the training part; the model is `models/NAME`, to be a base of fine-tuning.

    With a `judge` the base and the pretrained model are both fine-tuned so, and the pretrained one is only kept if
    it is not worse on validation. Refused or not, the manifest tells the measures.
    """
    _check_name(name, options.base)
    if judge is not None and not judge.validation:
        raise ConfigError("pretraining is judged on validation, and the fine-tuning that judges it names no task")
    work = layout.model_work(name)
    with _hold(layout):
        told = {
            "verb": "pretrain",
            "options": asdict(options),
            "judge": _inputs(layout, judge) if judge else {},
            "base_sha256": _weights(layout, options.base),
            "split": split_key(layout),
        }
        if done := _done(layout.model(name), work, told):
            return done
        _begin(work, told)
        base = base_folder(layout, options.base, work)
        if judge is not None:  # what it lacks is to be known before hours of pretraining
            _packed(layout, base, judge, work / "gate-base" / "job", progress)
        report = pretrain(
            base, TrainingTexts(layout, options), work / "out", options, work=work / "work", progress=progress
        )
        report = {"name": name, "kept": True, **report}
        if judge is not None:
            report |= _judged(layout, work, base, judge, progress)
        if _first_process():
            if not report["kept"]:
                shutil.rmtree(work / "out")
                (work / "out").mkdir()
            _finish(layout.model(name), work, {**told, "report": report}, layout)
    return report


def _judged(layout: Layout, work: Path, base: Path, judge: FinetuneOptions, progress: Progress) -> dict[str, Any]:
    """Fine-tune base and pretrained model alike, and compare them on validation."""
    table: dict[str, dict[str, Any]] = {}
    for called, start in (("base", base), ("pretrained", work / "out")):
        folder = work / f"gate-{called}"
        job = _packed(layout, start, judge, folder / "job", progress)
        tuned = _tuned(layout, start, job, judge, folder, progress)
        domain = selection(dict(tuned.after), job.validations)[0]
        table[called] = {"before": dict(tuned.before), "after": dict(tuned.after), "domain": domain}
    return {"gate": table, "kept": table["pretrained"]["domain"] >= table["base"]["domain"]}


class TrainingTexts:
    """Document and text of what a model may read of the training part, as often as it is asked for."""

    def __init__(self, layout: Layout, options: PretrainOptions) -> None:
        self._layout = layout
        self._options = options

    def __iter__(self) -> Iterator[tuple[str, str]]:
        with contextlib.closing(Corpus(self._layout)) as corpus:
            part = material(corpus, open_split(self._layout, corpus.inputs), "train")
            for _, passage in part.all_passages():
                if worth_reading(passage.kind, passage.section, self._options.sections):
                    text = passage.content
                    yield passage.document, f"{text}\n{passage.proof}" if passage.proof else text


# ---------------------------------------------------------------- fine-tuning


def pack_job(layout: Layout, options: FinetuneOptions, folder: Path, progress: Progress) -> Job:
    """Everything that a fine-tuning needs but the base, in one folder that can be trained on another machine."""
    with layout.hold(), tempfile.TemporaryDirectory() as scratch:
        return pack(layout, base_folder(layout, options.base, Path(scratch)), options, folder, progress)


def finetune_model(layout: Layout, name: str, options: FinetuneOptions, progress: Progress) -> dict[str, Any]:
    """Fine-tune on the workspace's sets; the model is `models/NAME`. Stopped at any point, it goes on from there."""
    _check_name(name, options.base)
    work = layout.model_work(name)
    with _hold(layout):
        told = {"verb": "finetune", "base_sha256": _weights(layout, options.base), **_inputs(layout, options)}
        if done := _done(layout.model(name), work, told):
            return done
        _begin(work, told)
        base = base_folder(layout, options.base, work)
        job = _packed(layout, base, options, work / "job", progress)
        tuned = _tuned(layout, base, job, options, work, progress)
        report = _described(work / "out", name, base, job, options, tuned, layout)
        if _first_process():
            report |= _exported(layout, work / "out", name, progress)
            _finish(layout.model(name), work, {**told, "report": report}, layout)
    return report


def train_job(
    folder: Path, base: Path | str, out: Path, options: FinetuneOptions | None, progress: Progress, *, name: str = ""
) -> dict[str, Any]:
    """Train a packed job without its workspace; the model is written to `out`. The same call goes on after a kill."""
    job = open_job(folder)
    chosen = options or FinetuneOptions(**job.facts.get("options", {}))
    out = out.resolve()
    if out.exists() and not (out / "modules.json").is_file() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("exists and is no model, so it is not replaced", file=str(out))
    work = out.with_name(f".{out.name}")
    told = {
        "verb": "finetune",
        "options": asdict(chosen),
        "base_sha256": _weights(None, str(base)),
        "job": fingerprint(dict(job.facts)),
    }
    if done := _done(out, work, told):
        return done
    _begin(work, told)
    start = base_folder(None, str(base), work)
    tuned = _tuned(None, start, job, chosen, work, progress)
    report = _described(work / "out", name or out.name, start, job, chosen, tuned, None)
    if _first_process():
        _finish(out, work, {**told, "report": report}, None)
    return report


def _packed(layout: Layout, base: Path, options: FinetuneOptions, folder: Path, progress: Progress) -> Job:
    """The job in `folder`, which the first process packs where it is not whole."""
    while True:
        with contextlib.suppress(WorkspaceError):
            return open_job(folder)
        if _first_process():
            return pack(layout, base, options, folder, progress)
        time.sleep(0.2)


def _exported(layout: Layout, folder: Path, name: str, progress: Progress) -> dict[str, Any]:
    """Export a model for searching without torch; what can not be exported is searched with torch, and says why."""
    progress("exporting", 0, None)
    with contextlib.closing(Corpus(layout)) as corpus:
        shown = list(islice((text for text in corpus.contents() if text.strip()), SHOWN))
    precision = PRECISION if is_bert(folder) else "fp32"
    try:
        drift = export_encoder(folder, folder / "onnx", precision, texts=shown, name=name, force=True)
    except (LemmataError, RuntimeError, NotImplementedError) as error:  # of torch's exporter, for odd architectures
        return {"drift": None, "not_exported": str(error).strip().split("\n")[0]}
    return {"drift": drift._asdict(), "precision": precision}


def _tuned(
    layout: Layout | None, base: Path, job: Job, options: FinetuneOptions, work: Path, progress: Progress
) -> Tuned:
    def other(spec: str) -> Path | None:
        if not spec:
            return None
        return base if spec == "base" else base_folder(layout, spec, work)

    if _first_process():
        shutil.rmtree(work / "out", ignore_errors=True)  # a kill may have left a part of an export in it
    return finetune(
        base,
        job,
        work / "out",
        options,
        work=work / "work",
        guide=other(options.guide),
        teacher=other(options.teacher),
        progress=progress,
    )


def _described(
    folder: Path, name: str, base: Path, job: Job, options: FinetuneOptions, tuned: Tuned, layout: Layout | None
) -> dict[str, Any]:
    """Report, history and card in the model's folder; returns what is told of the run."""
    report = {
        "name": name,
        "before": dict(tuned.before),
        "after": dict(tuned.after),
        "best_step": tuned.best_step,
        "share": tuned.share,
        "sweep": tuned.sweep,
        "seconds": tuned.seconds,
        "records_per_second": tuned.records_per_second,
    }
    if not _first_process():
        return report
    history = History.from_log(tuned.history)
    history = replace(
        history,
        validations=[(0, dict(tuned.before)), *history.validations],
        best_step=tuned.best_step,
        sweep=[Point(one["share"], one["domain"], one["general"]) for one in tuned.sweep],
        share=tuned.share if tuned.sweep else None,
        options=asdict(options),
        sets={one["name"]: one["records"] for one in job.facts["sets"]},
        seconds=tuned.seconds,
        pairs_per_second=tuned.records_per_second,
        name=name,
    )
    write_history(folder / "history.json", history)
    training_report(history, folder)
    write_card(folder, _facts(folder, name, base, job, options, tuned, layout))
    return report


def _facts(
    folder: Path, name: str, base: Path, job: Job, options: FinetuneOptions, tuned: Tuned, layout: Layout | None
) -> ModelFacts:
    architecture = read_architecture(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    dimension = int(config.get("hidden_size", 0)) * max(1, len(architecture.pooling))
    measures, guards = [], []
    for task in job.validations:
        key = f"{task.name}/{task.measure}"
        before, after = Estimate(tuned.before[key]), Estimate(tuned.after[key])
        if task.general:
            guards.append(Guard(task.name, task.measure, len(task.queries), before, after, options.forget))
        else:
            measures.append(Measured("validation", task.name, task.measure, len(task.queries), before, after))
    return ModelFacts(
        name=name,
        base=options.base,
        base_sha256=weights_sha256(base),
        licence="apache-2.0",
        dimension=dimension,
        max_tokens=architecture.max_tokens,
        pooling=architecture.pooling,
        prompts={role: prompt for role, prompt in architecture.prompts.items() if prompt},
        command=" ".join(["lemmata", *sys.argv[1:]]),
        matryoshka=[int(one) if one > 1 else round(one * dimension) for one in options.dimensions],
        sets=[
            TrainingSet(one["name"], one["records"], {"data.parquet": one.get("sha256", "")})
            for one in job.facts["sets"]
        ],
        split=_split(layout),
        options=asdict(options),
        versions=_versions(),
        measures=measures,
        guards=guards,
        sweep=[Point(one["share"], one["domain"], one["general"]) for one in tuned.sweep],
        share=tuned.share,
        intended_use="Search in the corpus that it was trained for, and in text like it.",
        limits=[
            "Measured on validation only; see the report of 'lemmata run' or 'lemmata evaluate' for the test part."
        ],
    )


def _split(layout: Layout | None) -> SplitFacts | None:
    if layout is None or read_manifest(layout.manifest(layout.split)) is None:
        return None
    facts = split_facts(layout)
    options = facts["manifest"]["options"]
    return SplitFacts(options["method"], fingerprint(facts["manifest"]), facts["counts"], options["seed"])


def _versions() -> dict[str, str]:
    found = {}
    for name in ("lemmata", "torch", "transformers", "sentence-transformers", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


# ---------------------------------------------------------------- from work to whole


def _first_process() -> bool:
    """Of those that torchrun started, the one that writes."""
    return os.environ.get("RANK", "0") == "0"


def _make(file: Path, make: Callable[[], object]) -> None:
    """Make what is whole with `file`. Other processes wait for the first; torchrun ends them if it fails."""
    if _first_process() and not file.is_file():
        make()
    while not file.is_file():
        time.sleep(0.2)


def _hold(layout: Layout) -> contextlib.AbstractContextManager[Any]:
    """The lock, which the first process holds for all."""
    return layout.hold() if _first_process() else contextlib.nullcontext()


def _check_name(name: str, base: str) -> None:
    if not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*", name) or name.endswith(".old"):  # where replaced folders go
        raise ConfigError(f"a model is named with letters, digits, - and _, not {name!r}")
    if name in (*PACKAGED, BASELINE, "hashing"):
        raise ConfigError(f"{name!r} comes with lemmata: choose another name for a model of your own")
    if name == base:
        raise ConfigError(f"the model {name!r} can not be its own base")


def _done(place: Path, work: Path, told: Mapping[str, Any]) -> dict[str, Any] | None:
    """The report of a model that was made from the same; None where it has to be made."""
    manifest = read_manifest(place / "manifest.json")
    if manifest is None or any(manifest.get(key) != json.loads(json.dumps(value)) for key, value in told.items()):
        return None
    if _first_process():
        shutil.rmtree(work, ignore_errors=True)  # of a run that was killed after its last act, or with other options
    report: dict[str, Any] = manifest["report"]
    return {**report, "done_before": True}


def _begin(work: Path, told: Mapping[str, Any]) -> None:
    """Keep what an interrupted run left only if it was made from the same."""
    note = work / "begun.json"
    key = fingerprint(told)

    def begun() -> bool:
        return note.is_file() and note.read_text(encoding="utf-8") == key

    if _first_process() and not begun():
        for part in work.glob("*"):
            if part.is_dir() and not part.name.startswith("base-"):  # those are named by their weights
                shutil.rmtree(part)
        write_atomically(note, key.encode())
    while not begun():
        time.sleep(0.2)


def _finish(place: Path, work: Path, manifest: Mapping[str, Any], layout: Layout | None) -> None:
    write_manifest(work / "out" / "manifest.json", dict(manifest))
    if layout is not None:
        _forget_vectors(layout, place.name)
    replace_folder(work / "out", place)
    shutil.rmtree(work, ignore_errors=True)


def _forget_vectors(layout: Layout, name: str) -> None:
    """Vectors that a model made, whether it is still there or not, are not those of the model that takes its name."""
    vectors = layout.manifest(layout.vectors)
    if (read_manifest(vectors) or {}).get("encoder") == name:
        vectors.unlink()
    shutil.rmtree(layout.vectors.with_name("vectors.partial"), ignore_errors=True)
