"""Adapters against full fine-tuning: quality on the q-series example, and memory on an encoder of BERT's size.

    python -m bench.adapters quality WORKSPACE     # examples/qseries, base lemmata-mini; minutes on two cores
    python -m bench.adapters memory FOLDER         # a random BERT of 12 layers and 768 numbers, four steps; needs a GPU

Every kind runs in a process of its own. Memory is the most that torch had allocated on the GPU while it trained.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lemmata.project import Project

RATES = {"": 1e-4, "lora": 1e-3, "dora": 1e-3, "qlora": 1e-3}  # adapters need about ten times the rate
EXAMPLE = Path(__file__).parents[1] / "examples" / "qseries"
TABLE = """
[finetune.{name}]
adapters = "{kind}"
sets = {{ asked = 1.0 }}
validation = {{ references = "MRR@10" }}
batch = 64
tokens = 64
rate = {rate}
"""


def quality(folder: Path) -> dict[str, Any]:
    """Validation, trained parameters and seconds of each kind, and all of them on the test queries."""
    if not (folder / "lemmata.toml").exists():
        project = Project.init(folder)
        project.ingest([EXAMPLE])
        project.build_graph()
        project.split()
        project.index()
        project.mine("pairs")
        project.import_queries(EXAMPLE / "queries-train.jsonl", name="asked")
        tables = [TABLE.format(name=kind or "full", kind=kind, rate=rate) for kind, rate in RATES.items()]
        with (folder / "lemmata.toml").open("a", encoding="utf-8") as config:
            config.write("".join(tables))
    models: dict[str, Any] = {}
    for name in (kind or "full" for kind in RATES):
        command = [sys.executable, "-m", "lemmata", "train", "finetune", name, "-w", str(folder)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        made = Project(folder).models()[name]["report"]
        models[name] = {key: made[key] for key in ("before", "after", "parameters", "seconds", "best_step")}
    names = ",".join(f"dense:{name}" for name in ("lemmata-mini", *models))
    judged = ["--queries", f"{EXAMPLE}/queries.jsonl", "--qrels", f"{EXAMPLE}/qrels/test.tsv"]
    command = [sys.executable, "-m", "lemmata", "evaluate", *judged, "--retriever", names, "--json", "-w", str(folder)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return {"models": models, "test": json.loads(printed)}


def memory_of(folder: Path, kind: str) -> dict[str, Any]:
    """What a few steps hold, in this process."""
    from tests.small_bert import VOCABULARY, bare_base, small_job

    from lemmata.train.finetune import FinetuneOptions, finetune

    transformers: Any = importlib.import_module("transformers")
    base = folder / "bert"
    if not (base / "model.safetensors").exists():
        bare_base(base, [*VOCABULARY, *(f"w{number}" for number in range(30_000))])
        config = transformers.BertConfig(vocab_size=30_086, max_position_embeddings=32)  # the rest is BERT's
        transformers.BertModel(config).save_pretrained(base)
    job = small_job(folder / f"job-{kind}", base, records=32, validation=())
    cuda = importlib.import_module("torch").cuda

    def progress(what: str, step: int, _total: int | None) -> None:
        if what.startswith("training") and step == 1:
            cuda.reset_peak_memory_stats()  # packing the weights is over

    begin = time.perf_counter()
    options = FinetuneOptions(batch=8, epochs=1, adapters=kind)
    result = finetune(base, job, folder / f"out-{kind}", options, work=folder / f"work-{kind}", progress=progress)
    seconds = time.perf_counter() - begin
    return {"MB": cuda.max_memory_allocated() / 1e6, "parameters": result.parameters, "seconds": seconds}


def main() -> None:
    what, folder, *rest = sys.argv[1:]
    place = Path(folder)
    if what == "quality":
        print(json.dumps(quality(place), indent=1))
    elif what == "memory":
        place.mkdir(parents=True, exist_ok=True)
        for kind in RATES:
            command = [sys.executable, "-m", "bench.adapters", "memory-of", folder, kind]
            print(kind or "full", subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    else:
        print(json.dumps(memory_of(place, rest[0] if rest else "")))


if __name__ == "__main__":
    main()
