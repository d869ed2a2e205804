"""A static encoder against lemmata-mini, in one run on the same passages, alternating.

    python bench/static_speed.py ENCODER CORPUS.jsonl[.xz] [--passages 256] [--threads 2] [--repeat 3]

ENCODER is a static encoder; CORPUS has `text` and optionally `title` per line. Prints one JSON document: seconds and
CPU seconds (the fairer measure on a busy machine), medians over `--repeat` runs, and the ratios.
"""

from __future__ import annotations

import argparse
import json
import os


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder")
    parser.add_argument("corpus", type=str)
    parser.add_argument("--passages", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    os.environ["RAYON_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)

    from pathlib import Path

    from bench.encode_speed import compare, race, read_texts

    from lemmata.encode.load import DEFAULT, load_encoder

    static, mini = load_encoder(options.encoder), load_encoder(DEFAULT, threads=options.threads)
    texts = read_texts(Path(options.corpus), options.passages)
    queries = [" ".join(text.split()[:8]) for text in texts[:20]]
    tasks = {
        "whole passages": (lambda: static.encode(texts), lambda: mini.encode(texts)),
        "20 queries, one by one": (
            lambda: [static.encode([query], "query") for query in queries],
            lambda: [mini.encode([query], "query") for query in queries],
        ),
    }
    report = {"threads": options.threads, "passages": len(texts), "static": static.name, "mini": mini.name}
    times = {
        name: compare(race({"ours": ours, "theirs": theirs}, options.repeat)) for name, (ours, theirs) in tasks.items()
    }
    print(json.dumps({**report, **times}, indent=1))


if __name__ == "__main__":
    main()
