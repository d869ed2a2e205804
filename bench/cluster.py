"""Time the reading of sources on a local Ray cluster, and in processes.

    python -m bench.cluster FOLDER...

Both take turns, so that a busy machine slows both. The start of the cluster is counted apart.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lemmata.ingest.sources import IngestOptions, find_units, read_whole_unit
from lemmata.workers import available_cores, computing_on, parallel_map, ray_map

ROUNDS = 3
Map = Callable[..., Iterator[tuple[Any, Any]]]


def seconds(maps: Map, tasks: Sequence[Any]) -> float:
    begin = time.perf_counter()
    results = [result for _, result in maps(read_whole_unit, tasks)]
    assert all(isinstance(result, list) for result in results)
    return time.perf_counter() - begin


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    options = IngestOptions()
    sources = {folder.name: find_units(folder.absolute(), options) for folder in map(Path, sys.argv[1:])}
    tasks = {name: [(source.base, unit, options) for unit in source.units] for name, source in sources.items()}
    times: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in tasks}
    starts = []
    for _ in range(ROUNDS):
        for name in tasks:
            times[name]["processes"].append(seconds(parallel_map, tasks[name]))
        begin = time.perf_counter()
        with computing_on("local"):
            list(ray_map(read_whole_unit, tasks[name][: 4 * available_cores()]))
            starts.append(time.perf_counter() - begin)
            for name in tasks:
                times[name]["ray"].append(seconds(ray_map, tasks[name]))
    report: dict[str, Any] = {"cores": available_cores(), "start of the cluster": round(min(starts), 1)}
    for name, both in times.items():
        best = {how: min(rounds) for how, rounds in both.items()}
        ratio = best["ray"] / best["processes"]
        report[name] = {"units": len(tasks[name]), **{how: round(time, 2) for how, time in best.items()}}
        report[name]["ratio"] = round(ratio, 2)
    sys.stdout.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
