"""Our default encoder against sentence-transformers, in one run: a query, a corpus, a cold start.

    python bench/encode_speed.py CORPUS.jsonl[.xz] [--passages 64] [--threads 1] [--repeat 3] [--encoder minilm]
        [--before FOLDER]

`--before` names an older export of the same model, which runs beside the other two.

CORPUS has `text` and optionally `title` per line. Prints one JSON document: seconds, CPU seconds (the fairer
measure on a busy machine) and ratios; every time is a median over `--repeat` runs, both sides alternating.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.encode.load import baseline_folder, load_encoder

OURS = """
from lemmata.encode.load import load_encoder
load_encoder({encoder!r}, threads={threads}).encode(["where is the partition function defined"], "query")
"""
THEIRS = """
import torch
torch.set_num_threads({threads})
from sentence_transformers import SentenceTransformer
SentenceTransformer({model!r}, device="cpu").encode(["where is the partition function defined"])
"""


class Time(NamedTuple):
    """Medians, in seconds."""

    wall: float
    cpu: float


def read_texts(path: Path, count: int) -> list[str]:
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as lines:
        records = [json.loads(line) for line in islice(lines, count)]
    return [f"{record.get('title', '')} {record['text']}".strip() for record in records]


def race(sides: dict[str, Callable[[], object]], repeat: int) -> dict[str, Time]:
    """Each side once to warm up, then alternating, so that a disturbance affects both."""
    runs: dict[str, list[Time]] = {name: [] for name in sides}
    for number in range(repeat + 1):
        for name, run in sides.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            if number:
                runs[name].append(Time(time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: Time(*(statistics.median(values) for values in zip(*times, strict=True))) for name, times in runs.items()
    }


def cold(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def compare(times: dict[str, Time]) -> dict[str, Any]:
    ours, theirs = times["ours"], times["theirs"]
    return {
        **{name: {"seconds": round(value.wall, 5), "cpu": round(value.cpu, 5)} for name, value in times.items()},
        "times_faster": round(theirs.wall / ours.wall, 2),
        "times_less_cpu": round(theirs.cpu / ours.cpu, 2) if ours.cpu else None,
        **({"times_less_cpu_than_before": round(times["before"].cpu / ours.cpu, 2)} if "before" in times else {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--passages", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--before", default="", help="an older export of the same model")
    parser.add_argument(
        "--model", default="", help="for sentence-transformers; default: the package of the extra baseline"
    )
    options = parser.parse_args()

    # torch.set_num_threads is not enough: with one thread, CPU time was 1.5 times the wall time
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(options.threads)
    model = options.model or str(baseline_folder())
    ours = load_encoder(options.encoder, threads=options.threads)
    theirs: Any = SentenceTransformer(model, device="cpu")
    long = read_texts(options.corpus, options.passages)
    short = [" ".join(text.split()[:40]) for text in long]
    queries = [" ".join(text.split()[:8]) for text in long[:20]]
    settings = {"encoder": options.encoder, "threads": options.threads, "model": model}

    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {options.threads} threads, {options.repeat} repeats",
        "passages": len(long),
    }
    before = load_encoder(options.before, threads=options.threads) if options.before else None
    single: dict[str, Callable[[], object]] = {
        "ours": lambda: [ours.encode([query], "query") for query in queries],
        "theirs": lambda: [theirs.encode(query) for query in queries],
    }
    if before is not None:
        single["before"] = lambda: [before.encode([query], "query") for query in queries]
    report["20 queries, one by one"] = compare(race(single, options.repeat))
    for name, texts in (("whole passages", long), ("first 40 words", short)):
        sides: dict[str, Callable[[], object]] = {
            "ours": lambda texts=texts: ours.encode(texts),  # type: ignore[misc]
            "theirs": lambda texts=texts: theirs.encode(texts, show_progress_bar=False),  # type: ignore[misc]
        }
        if before is not None:
            sides["before"] = lambda texts=texts: before.encode(texts)  # type: ignore[misc]
        report[name] = compare(race(sides, options.repeat))
        expected = theirs.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        cosines = (ours.encode(texts) * np.asarray(expected)).sum(axis=1)
        report[name]["cosine"] = {"mean": round(float(cosines.mean()), 5), "least": round(float(cosines.min()), 5)}
    starts = race(
        {"ours": lambda: cold(OURS.format(**settings)), "theirs": lambda: cold(THEIRS.format(**settings))},
        options.repeat,
    )
    report["cold start"] = {
        **{name: {"seconds": round(value.wall, 3)} for name, value in starts.items()},
        "times_faster": round(starts["theirs"].wall / starts["ours"].wall, 2),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
