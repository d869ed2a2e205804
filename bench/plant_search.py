"""What German support and the descriptions of locations change in the search of a plant, without any training.

    python -m bench.plant_search [--seeds 21,22,23,24] [--logs 3000] [--out FILE]

Each plant is generated, read, linked and indexed twice: logs as written, and with the descriptions of their locations
(`lemmata index -o expand=true`). Both packaged encoders and BM25 answer its questions, German and English apart. Read
as English, BM25 takes every word for English, as before lemmata knew German. Nothing was chosen on the seeds 21 and up;
plants share the wording of their questions.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from bench.shared import generate_plant, plant_task, write_json

from lemmata.evaluate.significance import bootstrap, randomisation
from lemmata.project import Project

MEASURE = "MRR@10"
RETRIEVERS = ("lexical", "dense:lemmata-mini", "dense:lemmata-plant", "hybrid:lemmata-mini", "hybrid:lemmata-plant")
NAMES = {"de": "German", "en": "English"}
COMPARED = (
    ("BM25 in both languages", "lexical", "BM25, read as English"),
    ("lemmata-plant", "dense:lemmata-plant", "dense:lemmata-mini"),
    ("lemmata-plant + BM25", "hybrid:lemmata-plant", "hybrid:lemmata-mini"),
    ("descriptions, BM25", "lexical, expanded", "lexical"),
    ("descriptions, lemmata-plant", "dense:lemmata-plant, expanded", "dense:lemmata-plant"),
    ("descriptions, lemmata-plant + BM25", "hybrid:lemmata-plant, expanded", "hybrid:lemmata-plant"),
)

Values = dict[str, dict[str, Any]]  # language: system: value of each question


def measure(folder: Path, seed: int, logs: int) -> Values:
    plant = folder / "plant"
    generate_plant(plant, logs, seed)
    project = Project.init(folder / "workspace")
    project.ingest([plant / "logs.csv", plant / "hierarchy.csv"])
    project.build_graph()
    project.link_graph()
    values: Values = defaultdict(dict)

    def ask(retrievers: tuple[str, ...], label: str) -> None:
        for language in NAMES:
            options = project.evaluate_options({"measures": MEASURE})
            report = project.evaluate(plant_task(plant, language), options=options, retrievers=retrievers)
            for name in retrievers:
                values[language][label.format(name)] = np.asarray(report.retrievers[name][MEASURE])

    project.index(settings={"language": "en"}, dense=False)
    ask(("lexical",), "BM25, read as English")
    for label, expand in (("{}", False), ("{}, expanded", True)):
        for encoder in ("lemmata-mini", "lemmata-plant"):
            project.index(settings={"language": "auto", "encoder": encoder, "expand": expand})
        ask(RETRIEVERS, label)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="21,22,23,24")
    parser.add_argument("--logs", type=int, default=3000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    parts = []
    for seed in arguments.seeds.split(","):
        with tempfile.TemporaryDirectory() as temporary:
            parts.append(measure(Path(temporary), int(seed), arguments.logs))
            print(f"seed {seed} done", flush=True)
    content: dict[str, Any] = {"seeds": arguments.seeds, "logs": arguments.logs, "measure": MEASURE}
    random = np.random.default_rng(0)
    for language, name in NAMES.items():
        systems = {system: np.concatenate([part[language][system] for part in parts]) for system in parts[0][language]}
        rows: dict[str, Any] = {"questions": len(next(iter(systems.values())))}
        for system, values in systems.items():
            interval = [round(bound, 3) for bound in bootstrap(values, generator=random)]
            rows[system] = {"mean": round(float(values.mean()), 3), "interval": interval}
        for label, after, before in COMPARED:
            difference = systems[after] - systems[before]
            rows[f"difference: {label}"] = {
                "mean": round(float(difference.mean()), 3),
                "interval": [round(bound, 3) for bound in bootstrap(difference, generator=random)],
                "p": round(randomisation(systems[after], systems[before], generator=random), 4),
            }
        content[name] = rows
    write_json(content, arguments.out)


if __name__ == "__main__":
    main()
