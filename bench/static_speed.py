"""A static encoder against lemmata-mini, in one run on the same passages, alternating; and a whole `lemmata index`.

    python -m bench.static_speed WORKSPACE [--encoder lemmata-nano] [--passages 256] [--threads 2] [--repeat 3]

WORKSPACE has a corpus. ENCODER is loaded and encodes all of it, lemmata-mini `--passages` of it, evenly spread; the
times are per 1,000 passages. A static encoder remembers the tokens of words, so that it would gain from reading the
same passages twice. A copy of the corpus is then indexed by `lemmata index --encoder ENCODER`, BM25 included. Prints
one JSON document: seconds and CPU seconds (the fairer measure on a busy machine), medians over `--repeat` runs, and
the ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def index_times(workspace: Path, encoder: str) -> dict[str, float]:
    """Seconds and CPU seconds of `lemmata index` in a copy of a workspace that has nothing but the corpus."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(workspace / "corpus", Path(folder) / "corpus")
        (Path(folder) / "lemmata.toml").touch()
        command = [sys.executable, "-m", "lemmata", "index", "--encoder", encoder, "-w", folder, "--json"]
        begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"seconds": round(time.perf_counter() - begin, 2), "cpu": round(cpu, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--encoder", default="lemmata-nano")
    parser.add_argument("--passages", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    os.environ["RAYON_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)

    from bench.encode_speed import Time, compare, race

    from lemmata.encode.load import DEFAULT, load_encoder
    from lemmata.project import Project

    with contextlib.closing(Project(options.workspace).corpus) as corpus:
        texts = list(corpus.contents())
    some = texts[:: max(1, len(texts) // options.passages)][: options.passages]
    static, mini = load_encoder(options.encoder), load_encoder(DEFAULT, threads=options.threads)
    queries = [" ".join(text.split()[:8]) for text in some[:20]]
    report: dict[str, Any] = {"threads": options.threads, "static": static.name, "mini": mini.name}
    report |= {"passages": [len(texts), len(some)], "load before": round(os.getloadavg()[0], 1)}
    times = race(
        {"ours": lambda: load_encoder(options.encoder).encode(texts), "theirs": lambda: mini.encode(some)},
        options.repeat,
    )
    sizes = {"ours": len(texts), "theirs": len(some)}
    per_thousand = {side: Time(*(1000 * t / sizes[side] for t in value)) for side, value in times.items()}
    report["1,000 passages"] = compare(per_thousand)
    sides: dict[str, Callable[[], object]] = {
        "ours": lambda: [static.encode([query], "query") for query in queries],
        "theirs": lambda: [mini.encode([query], "query") for query in queries],
    }
    report["20 queries, one by one"] = compare(race(sides, options.repeat))
    theirs = report["1,000 passages"]["theirs"]
    report["lemmata index"] = {
        "ours": index_times(options.workspace, options.encoder),
        "theirs, encoding alone, estimated": {
            unit: round(theirs[unit] * len(texts) / 1000, 1) for unit in ("seconds", "cpu")
        },
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
