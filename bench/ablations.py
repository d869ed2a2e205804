"""What the parts of MetricGAT are worth: every table of the paper's ablations, several seeds each, on one GPU.

    python -m bench.ablations FILE.npz --vectors FILE.npy --json OUT [--seeds 3] [--epochs 6] [--workers 5]
        [--budget SECONDS] [--only NAME,NAME] [--set FIELD=JSON …]

FILE is of `python -m bench.metric`. All networks with the first seed come first, then those with the second, …;
after `--budget` seconds none is begun, and the table says how many seeds each row has. R@20 is of the direct distance,
queries alone with their vectors; the epoch is chosen on validation.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench.metric import MEASURES, PARTS, Run

from lemmata.evaluate.measures import evaluate
from lemmata.evaluate.significance import randomisation

BASE = "ours"
PRINTED = {"text_start": False, "losses": {"smoothness": 0.1}}
ABLATIONS: dict[str, dict[str, Any]] = {
    "as printed, 50 epochs": {**PRINTED, "epochs": 50},
    "ours, 50 epochs": {"epochs": 50},
    BASE: {},
    "as printed": PRINTED,
    "Euclidean (rank 0)": {"rank": 0},
    **{f"rank {rank}": {"rank": rank} for rank in (8, 16, 64, 128)},
    **{f"without {name}": {"losses": {name: 0.0}} for name in ("contrast", "ranking", "smoothness", "hierarchy")},
    **{f"rate {rate:g}": {"rate": rate} for rate in (1e-4, 5e-4, 5e-3, 1e-2)},
    **{f"smoothness {weight:g}": {"losses": {"smoothness": weight}} for weight in (0.05, 0.1, 0.2, 0.5)},
    **{f"{layers} layers": {"layers": layers} for layers in (1, 2, 4, 5)},
    **{f"{heads} heads": {"heads": heads} for heads in (1, 2, 8, 16)},
    "epsilon 0.01": {"epsilon": 0.01},
    "no hard negatives": {"negatives": {"hard": 0}},
    "no random negatives": {"negatives": {"random": 0}},
    "1 hop": {"hops": 1},
    "3 hops": {"hops": 3},
}
LONG = ("as printed, 50 epochs", "ours, 50 epochs")  # one seed


class Job(NamedTuple):
    name: str
    seed: int
    late: float  # seconds of the clock after which it is not begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--only", default="")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=JSON")
    parser.add_argument("--limit", type=int, default=0)
    options = parser.parse_args()
    begin = time.time()
    names = options.only.split(",") if options.only else list(ABLATIONS)
    late = begin + options.budget
    jobs = [Job(name, seed, late) for seed in range(options.seeds) for name in names if not (seed and name in LONG)]
    report: dict[str, Any] = {"epochs": options.epochs, "rows": {}, "runs": []}
    values: dict[str, list[Any]] = defaultdict(list)
    # each process draws from its own share of the cores; one network does not fill the GPU
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.workers, _start, (options,)) as pool:
        for run, found in pool.imap_unordered(_run, jobs, chunksize=1):
            if not run:
                continue
            report["runs"].append(run)
            values[run["name"]].append(found)
            report["rows"] = _table(values)
            report["seconds"] = round(time.time() - begin, 1)
            options.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
            print(json.dumps({**run, "at": report["seconds"]}), flush=True)
    print_table(report["rows"])


def _table(values: dict[str, list[Any]]) -> dict[str, Any]:
    """Mean and deviation over seeds, and the paired difference to the base (each query averaged over seeds)."""
    rows: dict[str, Any] = {}
    for name in (name for name in ABLATIONS if name in values):
        found = values[name]
        row: dict[str, Any] = {"seeds": len(found)}
        for part in PARTS[1:]:
            means = [float(each[part].mean()) for each in found]
            row[f"{part} R@20"] = round(float(np.mean(means)), 4)
            row[f"{part} sd"] = round(float(np.std(means, ddof=1)), 4) if len(means) > 1 else 0.0
        if name != BASE and BASE in values:
            one, other = (np.mean([each["test"] for each in values[key]], axis=0) for key in (name, BASE))
            row["difference"] = round(float((one - other).mean()), 4)
            row["p"] = round(randomisation(one, other, generator=np.random.default_rng(0), samples=2000), 4)
        rows[name] = row
    return rows


def print_table(rows: dict[str, Any]) -> None:
    print("\n| | seeds | validation R@20 | test R@20 | difference, p |\n|---|---|---|---|---|")
    for name, row in rows.items():
        cells = " | ".join(f"{row[f'{part} R@20']:.3f} ± {row[f'{part} sd']:.3f}" for part in PARTS[1:])
        print(f"| {name} | {row['seeds']} | {cells} | {row.get('difference', 0):+.3f}, {row.get('p', 1):.3f} |")


# ---------------------------------------------------------------- in a process of its own

_opened: list[Run] = []


def _start(options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // options.workers))
    settings = [f"epochs={options.epochs}", *options.set]
    given = argparse.Namespace(**vars(options) | {"encoder": "", "set": settings, "json": None})
    _opened.append(Run(given))


def _run(job: Job) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    run, changes = _opened[0], ABLATIONS[job.name]
    if time.time() > job.late:
        return None, {}
    trained = run.train(seed=job.seed, **changes)
    direct = run.direct(trained)
    found = {
        part: evaluate(run.ranked(scores), task.judgments, [MEASURES[1]])["R@20"]
        for part, scores, task in zip(PARTS[1:], direct, run.tasks, strict=True)
    }
    curve = [round(record["R@20"], 4) for record in trained.history]
    result = {"name": job.name, "seed": job.seed, "seconds": round(trained.seconds, 1), "R@20": curve}
    return result | {"best_epoch": int(np.argmax(curve))}, found


if __name__ == "__main__":
    main()
