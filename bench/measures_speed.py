"""Ten thousand queries, a hundred results each: our measures against ir_measures, in one run.

    python bench/measures_speed.py [--queries 10000] [--depth 100] [--repeat 3]

Both start from what a user has: judgments and results by id. Our time holds the conversion of the judgments to
rows (results are rows already: retrievers rank rows). ir_measures gets dictionaries, the fastest form that it
takes. Prints one JSON document; `provider` says which library computed for ir_measures, since its own choice,
pytrec_eval, does not exist for every platform. The best of `repeat` counts, on either side,
in processor time so that a busy machine does not blur the ratio; the values are compared.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lemmata.measures import evaluate, judged, parse_measure

MEASURES = ("nDCG@10", "MRR@10", "R@20", "R@100", "MAP@100", "Success@1", "P@10")
THEIRS = {"MRR@10": "RR@10", "MAP@100": "AP@100"}


def best(repeat: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest of some processor times in seconds, and the result."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        result = call()
        times.append(time.process_time() - start)
    return min(times), result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--queries", type=int, default=10_000)
    arguments.add_argument("--depth", type=int, default=100)
    arguments.add_argument("--passages", type=int, default=100_000)
    arguments.add_argument("--repeat", type=int, default=3)
    options = arguments.parse_args()
    generator = np.random.default_rng(0)

    ids = [f"passage-{row}" for row in range(options.passages)]
    rows = {identity: row for row, identity in enumerate(ids)}
    starts = generator.integers(0, options.passages, (options.queries, 1))
    # A stride that shares no factor with the number of passages: no ranking repeats a passage.
    ranked = (starts + 7919 * np.arange(options.depth)) % options.passages
    qrels: dict[str, dict[str, int]] = {}
    for query in range(options.queries):
        near = generator.choice(ranked[query], 3, replace=False)
        far = generator.integers(0, options.passages, int(generator.integers(0, 5)))
        qrels[f"query-{query}"] = {ids[row]: int(generator.integers(0, 4)) for row in (*near, *far)}
    run = {
        f"query-{query}": {ids[row]: float(options.depth - rank) for rank, row in enumerate(ranked[query])}
        for query in range(options.queries)
    }

    measures = [parse_measure(name) for name in MEASURES]
    converted, _ = best(options.repeat, lambda: judged(qrels, rows.__getitem__))
    ours, values = best(options.repeat, lambda: evaluate(ranked, judged(qrels, rows.__getitem__), measures))
    result: dict[str, Any] = {
        "bench": "measures_speed",
        "queries": options.queries,
        "depth": options.depth,
        "judgments": sum(map(len, qrels.values())),
        "machine": platform.machine(),
        "measures": list(MEASURES),
        "lemmata_s": round(ours, 4),
        "of_which_conversion_s": round(converted, 4),
    }
    try:
        import ir_measures
    except ImportError:
        result["ir_measures"] = "not installed"
    else:
        result |= against(ir_measures, qrels, run, values, ours, options.repeat)
    print(json.dumps(result, indent=1))


def against(library: Any, qrels: Any, run: Any, values: dict[str, Any], ours: float, repeat: int) -> dict[str, Any]:
    """The same values from ir_measures: its time, the ratio and the largest difference of a mean."""
    wanted = {name: library.parse_measure(THEIRS.get(name, name)) for name in MEASURES}
    available = [one for one in library.DefaultPipeline.providers if one.is_available()]
    names = {one.NAME for one in available}
    if not names & {"pytrec_eval", "ranx"}:
        return {"ir_measures": "installed, but neither pytrec_eval nor ranx to compute for it"}
    first = time.process_time()
    library.calc_aggregate(list(wanted.values()), qrels, run)
    first = time.process_time() - first
    theirs, means = best(repeat, lambda: library.calc_aggregate(list(wanted.values()), qrels, run))
    return {
        "provider": "pytrec_eval" if "pytrec_eval" in names else "ranx",
        "ir_measures_first_s": round(first, 4),
        "ir_measures_s": round(theirs, 4),
        "ratio": round(theirs / ours, 2),
        "largest_difference": max(abs(means[wanted[name]] - values[name].mean()) for name in MEASURES),
    }


if __name__ == "__main__":
    main()
