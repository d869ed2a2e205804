"""Speed of our measures and of ir_measures on the same rankings.

    python bench/measures_speed.py [--queries 10000] [--depth 100] [--repeat 3]

Both start from judgments by id. Our time includes the conversion of the judgments to rows; results are rows already,
as retrievers return them. ir_measures gets dictionaries, its fastest input. Prints JSON: the best CPU time of
`repeat` runs, the ratio, and the largest difference of a mean. `provider` is the library behind ir_measures: its
default, pytrec_eval, does not exist for every platform.
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
THEIR_NAMES = {"MRR@10": "RR@10", "MAP@100": "AP@100"}


def best(repeat: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest CPU time in seconds, and the result."""
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
    # The stride has no common factor with the number of passages, so no ranking repeats a passage.
    ranked = (starts + 7919 * np.arange(options.depth)) % options.passages
    qrels: dict[str, dict[str, int]] = {}
    for query in range(options.queries):
        retrieved = generator.choice(ranked[query], 3, replace=False)
        others = generator.integers(0, options.passages, int(generator.integers(0, 5)))
        qrels[f"query-{query}"] = {ids[row]: int(generator.integers(0, 4)) for row in (*retrieved, *others)}

    measures = [parse_measure(name) for name in MEASURES]
    conversion, _ = best(options.repeat, lambda: judged(qrels, rows.__getitem__))
    ours, values = best(options.repeat, lambda: evaluate(ranked, judged(qrels, rows.__getitem__), measures))
    result: dict[str, Any] = {
        "bench": "measures_speed",
        "queries": options.queries,
        "depth": options.depth,
        "judgments": sum(map(len, qrels.values())),
        "machine": platform.machine(),
        "measures": list(MEASURES),
        "lemmata_s": round(ours, 4),
        "of_which_conversion_s": round(conversion, 4),
    }
    try:
        import ir_measures
    except ImportError:
        result["ir_measures"] = "not installed"
    else:
        run = {
            f"query-{query}": {ids[row]: float(options.depth - rank) for rank, row in enumerate(ranking)}
            for query, ranking in enumerate(ranked)
        }
        result |= compare(ir_measures, qrels, run, values, ours, options.repeat)
    print(json.dumps(result, indent=1))


def compare(library: Any, qrels: Any, run: Any, values: dict[str, Any], ours: float, repeat: int) -> dict[str, Any]:
    """The time of ir_measures, the ratio, and the largest difference of a mean."""
    measures = {name: library.parse_measure(THEIR_NAMES.get(name, name)) for name in MEASURES}
    providers = {provider.NAME for provider in library.DefaultPipeline.providers if provider.is_available()}
    if not providers & {"pytrec_eval", "ranx"}:
        return {"ir_measures": "installed, but without pytrec_eval or ranx"}
    first, _ = best(1, lambda: library.calc_aggregate(list(measures.values()), qrels, run))
    theirs, means = best(repeat, lambda: library.calc_aggregate(list(measures.values()), qrels, run))
    return {
        "provider": "pytrec_eval" if "pytrec_eval" in providers else "ranx",
        "ir_measures_first_s": round(first, 4),
        "ir_measures_s": round(theirs, 4),
        "ratio": round(theirs / ours, 2),
        "largest_difference": max(abs(means[measures[name]] - values[name].mean()) for name in MEASURES),
    }


if __name__ == "__main__":
    main()
