"""A static encoder against lemmata-mini, in one run on the same passages, alternating; and a whole `lemmata index`.

    python -m bench.static_speed WORKSPACE [--encoder lemmata-nano] [--passages 256] [--threads 2] [--repeat 3]

WORKSPACE has a corpus. `--passages` of them, evenly spread, are encoded by both. A copy of it is then indexed by
`lemmata index --encoder ENCODER`, BM25 included, and what lemmata-mini would take to encode all of it is estimated from
its passages. Prints one JSON document: seconds and CPU seconds (the fairer measure on a busy machine), medians over
`--repeat` runs, and the ratios.
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

    from bench.encode_speed import compare, race

    from lemmata.encode.load import DEFAULT, load_encoder
    from lemmata.project import Project

    with contextlib.closing(Project(options.workspace).corpus) as corpus:
        count = len(corpus)
        every = max(1, count // options.passages)
        texts = [text for row, text in enumerate(corpus.contents()) if row % every == 0][: options.passages]
    static, mini = load_encoder(options.encoder), load_encoder(DEFAULT, threads=options.threads)
    queries = [" ".join(text.split()[:8]) for text in texts[:20]]
    tasks = {
        "whole passages": (lambda: static.encode(texts), lambda: mini.encode(texts)),
        "20 queries, one by one": (
            lambda: [static.encode([query], "query") for query in queries],
            lambda: [mini.encode([query], "query") for query in queries],
        ),
    }
    report: dict[str, Any] = {"threads": options.threads, "static": static.name, "mini": mini.name}
    report |= {"passages": len(texts), "passages in all": count, "load before": os.getloadavg()[0]}
    report |= {
        name: compare(race({"ours": ours, "theirs": theirs}, options.repeat)) for name, (ours, theirs) in tasks.items()
    }
    theirs = report["whole passages"]["theirs"]
    report["lemmata index"] = {
        "ours": index_times(options.workspace, options.encoder),
        "theirs, encoding alone, estimated": {
            unit: round(theirs[unit] * count / len(texts), 1) for unit in ("seconds", "cpu")
        },
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
