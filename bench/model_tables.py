"""Tables of several models on the tasks of a packed job: rank on a machine that is fast, tell on any.

    python bench/model_tables.py rank JOB OUT.npz NAME=MODEL_FOLDER …
    python bench/model_tables.py tell JOB OUT.npz … [--base NAME] [--measures …] [--level document] [--json FILE]

`rank` writes what each model finds; `tell` prints, for every task, each measure's mean with its 95 % bootstrap
interval, and the paired difference to the base with its corrected p. Where the job knows which queries are about
documents that were held out whole, they are told apart as seen and unseen.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from lemmata.evaluate.significance import bootstrap, compare
from lemmata.train.encoders import load_model
from lemmata.train.job import fitted, open_job
from lemmata.train.validate import rankings


def rank(job_folder: Path, out: Path, models: list[str]) -> None:
    job = open_job(job_folder)
    found = {}
    for told in models:
        name, _, folder = told.partition("=")
        model = load_model(Path(folder))
        reads, pad = int(model.max_seq_length or 512), int(model.tokenizer.pad_token_id or 0)
        precision = "bf16" if model.device.type == "cuda" else "fp32"
        for number, places in enumerate(rankings(model, fitted(job, Path(folder)), reads, pad, precision)):
            found[f"{name}|{number}"] = places.astype(np.int32)
        print(name, flush=True)
    np.savez_compressed(out, **found)  # type: ignore[arg-type]


def tell(job_folder: Path, files: list[Path], base: str, measures: list[str], level: str) -> list[dict[str, object]]:
    job = open_job(job_folder)
    found: dict[str, dict[int, np.ndarray]] = {}
    for file in files:
        for key, places in np.load(file).items():
            name, _, number = key.rpartition("|")
            found.setdefault(name, {})[int(number)] = places.astype(np.int64)
    rows: list[dict[str, object]] = []
    for number, task in enumerate(job.validations):
        if level == "document" and task.documents is None:
            continue
        results = {
            name: task.scores(places[number], measures, level=level)
            for name, places in found.items()
            if number in places
        }
        groups = {"": np.ones(len(task.queries), bool)}
        if task.unseen is not None and task.unseen.any() and not task.unseen.all():
            groups |= {"seen": ~task.unseen, "unseen": task.unseen}
        print(f"\n{task.name}: {len(task.queries)} queries, {len(task.passages):,} passages")
        for group, members in groups.items():
            if group:
                print(f"  {group}: {int(members.sum())}")
            for name, values in results.items():
                parts = []
                for measure in measures:
                    mine = values[measure][members]
                    low, high = bootstrap(mine, generator=np.random.default_rng(0))
                    parts.append(f"{measure} {mine.mean():.3f} [{low:.3f}, {high:.3f}]")
                    rows.append(
                        {
                            "task": task.name,
                            "group": group,
                            "model": name,
                            "measure": measure,
                            "mean": float(mine.mean()),
                            "low": low,
                            "high": high,
                            "queries": int(members.sum()),
                        }
                    )
                print(f"    {name:24} " + "  ".join(parts))
        if base in results and len(results) > 1:
            for one in compare(results, measures[0], base, np.random.default_rng(0)):
                print("   ", one)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    ranking = verbs.add_parser("rank")
    ranking.add_argument("job", type=Path)
    ranking.add_argument("out", type=Path)
    ranking.add_argument("models", nargs="+")
    telling = verbs.add_parser("tell")
    telling.add_argument("job", type=Path)
    telling.add_argument("files", type=Path, nargs="+")
    telling.add_argument("--base", default="base")
    telling.add_argument("--measures", default="MRR@10,nDCG@10,R@20")
    telling.add_argument("--level", default="passage", choices=("passage", "document"))
    telling.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.verb == "rank":
        rank(arguments.job, arguments.out, arguments.models)
        return
    rows = tell(arguments.job, arguments.files, arguments.base, arguments.measures.split(","), arguments.level)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
