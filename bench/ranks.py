"""Seconds per step of fine-tuning and of MetricGAT with one process and with two, of the same batch.

    OMP_NUM_THREADS=1 python bench/ranks.py --out bench/ranks.json

Each process has one thread. Fine-tuning: lemmata-mini, batches of 32 records of random words; the metric: 4,000 nodes
and 10,000 random links. The two are timed one after the other. CPU seconds are those of process 0: where other
programs use the cores, they say more than the time on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WARM = 1  # steps that are not counted
STEPS = {"finetune": 5, "metric": 4}
RECORDS, WORDS, BATCH = 512, 30, 32
NODES, LINKS = 4_000, 10_000


class Enough(Exception):  # noqa: N818 - no error
    """All steps are timed."""


def finetuning(folder: Path) -> None:
    from lemmata.train.finetune import FinetuneOptions, finetune
    from lemmata.train.job import open_job

    job = open_job(folder / "job")
    options = FinetuneOptions(batch=BATCH)
    work = folder / os.environ["TORCHELASTIC_RUN_ID"]  # of this launch: no other one's checkpoints
    finetune(folder / "base", job, folder / "out", options, work=work, progress=lambda *_: None)


def prepare(folder: Path) -> None:
    from lemmata.encode.load import PACKAGED
    from lemmata.encode.restore import restore
    from lemmata.train.job import JobWriter

    restore(PACKAGED["lemmata-mini"], folder / "base")
    generator = np.random.default_rng(0)
    vocabulary = [f"{a}{b}" for a in ("ring", "group", "field", "sheaf", "graph") for b in ("", "s", " of", " is", ",")]
    texts = [" ".join(generator.choice(vocabulary, WORDS)) for _ in range(2 * RECORDS)]
    writer = JobWriter(folder / "job", folder / "base", lambda *_: None)
    writer.add_set("pairs", zip(texts[::2], texts[1::2], strict=True), {})
    writer.close({})


def metric() -> None:
    from lemmata.train.metric import MetricOptions, train_metric

    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((NODES, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    links = generator.integers(0, NODES, (LINKS, 2))
    train_metric(vectors, np.unique(links[links[:, 0] != links[:, 1]], axis=0), MetricOptions())


def measure(what: str, folder: Path) -> None:
    """Train some steps; process 0 prints the median of their seconds and CPU seconds."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    times: list[tuple[float, float]] = []

    def clock(*_: Any) -> None:
        times.append((time.perf_counter(), time.process_time()))
        if len(times) > WARM + STEPS[what]:
            raise Enough

    register_optimizer_step_post_hook(clock)
    try:
        finetuning(folder) if what == "finetune" else metric()
    except Enough:
        steps = np.diff(np.array(times[WARM:]), axis=0)
        if os.environ["RANK"] == "0":
            print(json.dumps(np.median(steps, axis=0).tolist()))


def launched(processes: int, what: str, folder: Path) -> tuple[float, float]:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *launcher, __file__, "--measure", what, "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, cpu = json.loads(done.stdout.splitlines()[-1])
    return seconds, cpu


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", default="")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.folder)
        return
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        for what in STEPS:
            measured = [launched(count, what, Path(scratch)) for count in (1, 2)]
            for name, (one, two) in zip(("seconds", "cpu_seconds"), zip(*measured, strict=True), strict=True):
                report.setdefault(what, {})[name] = {"one": one, "two": two, "ratio": one / two}
            print(what, report[what], file=sys.stderr)
        report["load"] = os.getloadavg()[0]
    text = json.dumps(report, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
