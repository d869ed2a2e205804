"""Records per second of fine-tuning, against the plain script of sentence-transformers in the same run.

    python bench/train_speed.py BASE JOB --set pairs --batch 256 --steps 60 [--variant '{"freeze": 4}' …]

BASE is a sentence-transformers folder, JOB a folder that `lemmata train prepare` wrote. The peer, which needs the
packages accelerate and datasets, gets the same records as texts (decoded from the job's tokens), the same batch,
precision and length. Both are timed from the tenth step to the last, with everything that a step needs: the peer
tokenises as it goes, as its users do.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.train.finetune import FinetuneOptions, finetune
from lemmata.train.job import Job, open_job
from lemmata.train.loop import precision_for

WARM = 10


class Clock:
    """The time at which every step ended."""

    def __init__(self) -> None:
        self.ends: dict[int, float] = {}

    def __call__(self, what: str, done: int, _total: int | None) -> None:
        if what.startswith("training"):
            self.ends[done] = time.perf_counter()

    def seconds(self, steps: int) -> float:
        return self.ends[steps] - self.ends[WARM]


def ours(base: Path, job: Job, name: str, steps: int, options: dict[str, Any]) -> float:
    records = len(job.sets[name])
    clock = Clock()
    chosen = FinetuneOptions(
        sets={other: float(other == name) for other in job.sets},
        epochs=(steps + 1) * options["batch"] / records,
        **options,
    )
    blind = Job(job.folder, job.texts, job.sets, [])
    with tempfile.TemporaryDirectory() as work:
        finetune(base, blind, Path(work) / "out", chosen, work=Path(work) / "work", progress=clock)
    return (steps - WARM) * int(options["batch"]) / clock.seconds(steps)


def plain(base: Path, job: Job, name: str, steps: int, batch: int) -> float:
    import datasets
    import sentence_transformers
    import transformers
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(job.folder / "tokenizer.json"))
    chosen = job.sets[name][: (steps + 1) * batch, :2]
    starts = job.texts.starts
    texts = {
        number: tokenizer.decode(job.texts.flat[starts[number] : starts[number + 1]].tolist())
        for number in np.unique(chosen).tolist()
    }
    columns = {
        column: [texts[number] for number in chosen[:, place].tolist()]
        for place, column in enumerate(("anchor", "positive"))
    }
    model = sentence_transformers.SentenceTransformer(str(base))
    clock = Clock()

    class Timed(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
            clock("training", state.global_step, None)

    with tempfile.TemporaryDirectory() as work:
        arguments = sentence_transformers.SentenceTransformerTrainingArguments(
            output_dir=work,
            max_steps=steps,
            per_device_train_batch_size=batch,
            learning_rate=3e-5,
            bf16=precision_for(model.device) == "bf16",
            save_strategy="no",
            logging_steps=1000,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = sentence_transformers.SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=datasets.Dataset.from_dict(columns),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[Timed()],
        )
        trainer.train()
    return (steps - WARM) * batch / clock.seconds(steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path)
    parser.add_argument("job", type=Path)
    parser.add_argument("--set", required=True, dest="name")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--variant", action="append", default=[], type=json.loads)
    arguments = parser.parse_args()
    job = open_job(arguments.job)
    common = {"batch": arguments.batch}
    peer = plain(arguments.base, job, arguments.name, arguments.steps, arguments.batch)
    report = {"plain script": round(peer)}
    print(f"plain script of sentence-transformers: {peer:,.0f} records/s", flush=True)
    for variant in [{}, *arguments.variant]:
        found = ours(arguments.base, job, arguments.name, arguments.steps, {**common, **variant})
        report[json.dumps(variant)] = round(found)
        print(f"lemmata {json.dumps(variant)}: {found:,.0f} records/s, {found / peer:.2f} times", flush=True)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
