"""The tables of RESULTS about trained models: prepare where the corpora are, train where a GPU is, report anywhere.

    python bench/learning_tables.py prepare WORK JOBS --base MODEL_FOLDER [--only TABLE …]
    python bench/learning_tables.py train JOBS MODELS --base NAME=MODEL_FOLDER … [--side-by-side 4] [--only TABLE …]
    python bench/learning_tables.py report JOBS MODELS [--level document] [--only TABLE …] [--json FILE]

Jobs and runs are declared in learning_tables.toml. WORK holds the workspaces that it names, made by
learning_workspaces.py. A run may start from another run's model, have it as a teacher, or be its average with the first
base. `train` runs what is missing and ranks the test queries with each model. `report` prints means, 95 % bootstrap
intervals and the paired difference to the first run with its corrected p, and adds the means to a file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.evaluate.significance import bootstrap, compare
from lemmata.train.job import open_job, translated

HERE = Path(__file__)
OWN = ("base", "job", "guide", "teacher", "pretrain", "share")  # keys of a run that are no FinetuneOptions


def read_declarations(names: list[str], file: Path) -> dict[str, Any]:
    declarations = tomllib.loads(file.read_text(encoding="utf-8"))
    declarations["tables"] = {name: declarations["tables"][name] for name in names or declarations["tables"]}
    for table in declarations["tables"].values():
        table["runs"] = {run: _whole(table["runs"], run) for run in table["runs"]}
    return declarations


def _whole(runs: dict[str, Any], name: str) -> dict[str, Any]:
    """A run with the keys and sets of the run that it is `like`."""
    run = dict(runs[name])
    if "like" not in run:
        return run
    other = _whole(runs, run.pop("like"))
    return {**other, **run, "sets": {**other["sets"], **run.get("sets", {})}}


# ---------------------------------------------------------------- prepare


def prepare_jobs(declarations: dict[str, Any], work: Path, jobs: Path, base: Path) -> None:
    from lemmata.stages.prepare import prepare
    from lemmata.stages.train import TrainingTexts
    from lemmata.store.layout import Layout
    from lemmata.train.finetune import FinetuneOptions

    needed: set[str] = set()
    for table in declarations["tables"].values():
        needed |= {table.get("job", ""), table["test"]} | {run.get("job", "") for run in table["runs"].values()}
    for name in sorted(needed - {""}):
        if (jobs / name / "manifest.json").is_file():
            continue
        spec = declarations["jobs"][name]
        options = FinetuneOptions(
            sets=dict.fromkeys(spec.get("sets", []), 1.0),
            validation=spec.get("tasks", {}),
            guard=spec.get("guard", {}),
            prompts=spec.get("prompts", {}),
        )
        part = "test" if "sets" not in spec else "validation"
        job = prepare(Layout(work / spec["workspace"]), base, options, jobs / name, lambda *_: None, part=part)
        sets = ", ".join(f"{spec} {len(records):,}" for spec, records in job.sets.items())
        tasks = ", ".join(f"{task.name} {len(task.queries):,}" for task in job.validations)
        print(f"{name}: {len(job.texts):,} texts, {len(job.texts.flat):,} tokens; {sets}; {tasks}", flush=True)
    for table in declarations["tables"].values():
        file = texts_file(jobs, table)
        if any("pretrain" in run for run in table["runs"].values()) and not file.exists():
            layout = Layout(work / declarations["jobs"][table["job"]]["workspace"])
            partial = file.with_suffix(".partial")
            with gzip.open(partial, "wt", encoding="utf-8") as stream:
                for pair in TrainingTexts(layout, []):
                    stream.write(json.dumps(pair, ensure_ascii=False) + "\n")
            partial.replace(file)


def texts_file(jobs: Path, table: dict[str, Any]) -> Path:
    """What a table's models are pretrained on: JSON lines of document and text."""
    return jobs / f"{table['job']}-texts.jsonl.gz"


# ---------------------------------------------------------------- train


def train_runs(declarations: dict[str, Any], place: argparse.Namespace) -> None:
    """Every run in a process of its extra, as soon as the runs that it needs are done."""
    begin = time.time()
    bases = {argument.partition("=")[0] for argument in place.base}
    for table in declarations["tables"].values():
        for run in table["runs"].values():
            for name in {run[key] for key in ("base", "guide", "teacher") if key in run} - bases - table["runs"].keys():
                sys.exit(f"{name!r} is neither a run of its table nor given with --base")
    waiting = [(table, run) for table, spec in declarations["tables"].items() for run in spec["runs"]]
    running: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
    failed: set[tuple[str, str]] = set()
    files = {key: place.models / key[0] / f"{key[1]}.json" for key in waiting}
    waiting = [key for key in waiting if not files[key].exists()]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "2"}
    while waiting or running:
        for key, process in list(running.items()):
            if process.poll() is None:
                continue
            del running[key]
            log = files[key].with_suffix(".log").read_text(encoding="utf-8")
            lines = [line for line in log.splitlines() if line.startswith("DONE ")]
            print(f"{time.time() - begin:5.0f} s", "/".join(key), lines[-1] if lines else log[-1500:], flush=True)
            if process.returncode:
                failed.add(key)
        if time.time() - begin > place.seconds:
            for key, process in running.items():
                process.kill()
                print("stopped", "/".join(key))
            print("not begun:", ", ".join("/".join(key) for key in waiting) or "none")
            return
        for key in list(waiting):
            needed = {(key[0], other) for other in _needed(declarations, *key) - bases}
            if needed & failed:
                waiting.remove(key)
                failed.add(key)
            elif len(running) < place.side_by_side and all(files[other].exists() for other in needed):
                waiting.remove(key)
                files[key].parent.mkdir(parents=True, exist_ok=True)
                command = [sys.executable, str(HERE), "one", str(place.jobs), str(place.models), *key]
                command += [
                    "--tables",
                    str(place.tables),
                    *(word for argument in place.base for word in ("--base", argument)),
                ]
                log_file = files[key].with_suffix(".log").open("wb")
                running[key] = subprocess.Popen(command, stdout=log_file, stderr=subprocess.STDOUT, env=environment)
        if waiting and not running:
            print("cannot start, since runs that they need are missing:", ", ".join("/".join(key) for key in waiting))
            return
        time.sleep(0.2)


def _needed(declarations: dict[str, Any], table: str, run: str) -> set[str]:
    runs = declarations["tables"][table]["runs"]
    return {str(runs[run].get(key, "")) for key in ("base", "guide", "teacher")}.intersection(runs)


def train_one(declarations: dict[str, Any], place: argparse.Namespace) -> None:
    """Train a run, rank the test queries of its table, and write the results."""
    from lemmata.train.encoders import between, load_model, save_model, state_of
    from lemmata.train.finetune import FinetuneOptions, finetune
    from lemmata.train.pretrain import PretrainOptions, pretrain
    from lemmata.train.validate import rankings

    begin = time.time()
    table = declarations["tables"][place.table]
    spec = {**table.get("options", {}), **table["runs"][place.run]}
    extra = {key: spec.pop(key) for key in OWN if key in spec}
    folders = dict(argument.split("=", 1) for argument in place.base)
    home = place.models / place.table

    def model_of(name: str) -> Path:
        return Path(folders[name]) if name in folders else home / name

    first = next(iter(folders))
    base, out, work = model_of(extra.get("base", first)), home / place.run, home / f".{place.run}"
    report: dict[str, Any] = {"run": place.run, "options": spec, **extra}

    def quiet(*_: object) -> None:
        """Progress bars of parallel runs would mix."""

    if "pretrain" in extra:
        with gzip.open(texts_file(place.jobs, table), "rt", encoding="utf-8") as lines:
            texts = [(document, text) for document, text in map(json.loads, lines)]
        done = pretrain(base, texts, out, PretrainOptions(**extra["pretrain"]), work=work, progress=quiet)
        report |= {key: done[key] for key in ("perplexity", "windows", "steps")}
    elif "sets" in spec:
        job = open_job(place.jobs / extra.get("job", table.get("job", "")))
        options = FinetuneOptions(**{**spec, "sets": {**dict.fromkeys(job.sets, 0.0), **spec["sets"]}})
        others: dict[str, Any] = {key: model_of(extra[key]) for key in ("guide", "teacher") if key in extra}
        tuned = finetune(base, job, out, options, work=work, progress=quiet, **others)
        report |= tuned._asdict()
    elif "share" in extra:
        whole = load_model(base)
        whole.load_state_dict(between(state_of(load_model(Path(folders[first]))), state_of(whole), extra["share"]))
        save_model(whole, out)
    else:
        out = base
    shutil.rmtree(work, ignore_errors=True)
    test = open_job(place.jobs / table["test"])
    model = load_model(out)
    reads, pad = int(model.max_seq_length or 512), int(model.tokenizer.pad_token_id or 0)
    precision = "bf16" if model.device.type == "cuda" else "fp32"
    ranked = rankings(model, translated(test, out), reads, pad, precision)
    np.savez_compressed(home / f"{place.run}.npz", *[places.astype(np.int32) for places in ranked])
    report["seconds_in_all"] = time.time() - begin
    (home / f"{place.run}.json").write_text(json.dumps(report, default=float, indent=1) + "\n", encoding="utf-8")
    shown = [
        f"{task.name} {task.measure} {task.scores(places, [task.measure])[task.measure].mean():.3f}"
        for task, places in zip(test.validations, ranked, strict=True)
    ]
    after = [f"{name} {value:.3f}" for name, value in report.get("after", {}).items()]
    speed = f"{report['seconds_in_all']:.0f} s, {report.get('records_per_second', 0):.0f} records/s"
    print(f"DONE {speed}; test:", ", ".join(shown), "; validation:", ", ".join(after), flush=True)


# ---------------------------------------------------------------- report


def report_tables(declarations: dict[str, Any], jobs: Path, models: Path, level: str, file: Path | None) -> None:
    means: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else {}
    for name, table in declarations["tables"].items():
        job = open_job(jobs / table["test"])
        measures = table["measures"].split(",")
        files = {run: models / name / f"{run}.npz" for run in table["runs"]}
        rankings = {run: list(np.load(file).values()) for run, file in files.items() if file.is_file()}
        print(f"\n## {table.get('title', name)}")
        for number, task in enumerate(job.validations):
            if level == "document" and task.documents is None:
                continue
            scores = {
                run: task.scores(places[number].astype(np.int64), measures, level=level)
                for run, places in rankings.items()
            }
            groups = {"": np.ones(len(task.queries), bool)}
            if task.unseen is not None and task.unseen.any() and not task.unseen.all():
                groups |= {"seen": ~task.unseen, "unseen": task.unseen}
            for group, members in groups.items():
                title = f"{task.name}{' ' + group if group else ''}, {members.sum():,} of {len(task.passages):,}"
                print(f"\n| {title} | " + " | ".join(measures) + " |\n|---" + "|---" * len(measures) + "|")
                for run, values in scores.items():
                    cells = {}
                    for measure in measures:
                        mine = values[measure][members]
                        low, high = bootstrap(mine, generator=np.random.default_rng(0))
                        cells[measure] = [float(value) for value in (mine.mean(), low, high)]
                    means[f"{name} / {level} / {title} / {run}"] = {
                        key: [round(value, 4) for value in cells[key]] for key in cells
                    }
                    mean, low, high = cells[measures[0]]
                    others = [f"{cells[measure][0]:.3f}" for measure in measures[1:]]
                    print(f"| {run} | " + " | ".join([f"{mean:.3f} [{low:.3f}, {high:.3f}]", *others]) + " |")
            if len(scores) > 1:
                print()
                for pair in compare(scores, measures[0], next(iter(scores)), np.random.default_rng(0)):
                    interval = f"{pair.difference:+.3f} [{pair.low:+.3f}, {pair.high:+.3f}]"
                    print(
                        f"{pair.first} - {pair.second}, {pair.measure}: {interval}, corrected p {pair.p_corrected:.3g}"
                    )
    if file is not None:
        lines = ",\n".join(f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(means[key])}" for key in sorted(means))
        file.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    preparing, training, single, reporting = (verbs.add_parser(name) for name in ("prepare", "train", "one", "report"))
    preparing.add_argument("work", type=Path)
    preparing.add_argument("jobs", type=Path)
    preparing.add_argument("--base", type=Path, required=True)
    for verb in (training, single, reporting):
        verb.add_argument("jobs", type=Path)
        verb.add_argument("models", type=Path)
    for verb in (training, single):
        verb.add_argument("--base", action="append", required=True, metavar="NAME=MODEL_FOLDER")
    training.add_argument("--side-by-side", type=int, default=1)
    training.add_argument("--seconds", type=float, default=1e9)
    single.add_argument("table")
    single.add_argument("run")
    reporting.add_argument("--level", default="passage", choices=("passage", "document"))
    reporting.add_argument("--json", type=Path, metavar="FILE", help="add mean, low and high of every measure to it")
    for verb in (preparing, training, single, reporting):
        verb.add_argument("--tables", type=Path, default=HERE.with_suffix(".toml"), help="the file that declares them")
    for verb in (preparing, training, reporting):
        verb.add_argument("--only", nargs="+", default=[], metavar="TABLE")
    place = parser.parse_args()
    declarations = read_declarations([place.table] if place.verb == "one" else place.only, place.tables)
    if place.verb == "prepare":
        prepare_jobs(declarations, place.work, place.jobs, place.base)
    elif place.verb == "train":
        train_runs(declarations, place)
    elif place.verb == "one":
        train_one(declarations, place)
    else:
        report_tables(declarations, place.jobs, place.models, place.level, place.json)


if __name__ == "__main__":
    main()
