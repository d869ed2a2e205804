"""Lexical search in German and English on generated plants: read as English only, and in the languages it is in.

    python bench/german.py [--seeds 7,8] [--many 30000] [--out FILE]

The questions of each plant are split by language. An index with `language = "en"` reads everything as English, as
lemmata did before it knew German, so the comparison needs one version only. Speed and size are measured on a plant of
`--many` logs. Settings were chosen on the seeds 11 to 20; 7 and 8 are the numbers to report, and 21 to 40, which
nothing was chosen on either, give enough questions to tell small differences. Plants share the wording of their
questions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.evaluate.significance import bootstrap, randomisation
from lemmata.evaluate.tasks import Task
from lemmata.index.lexical import LexicalIndex
from lemmata.index.tokens import Tokenizer, learn_parts
from lemmata.ingest.beir import read_qrels, read_queries
from lemmata.project import Project
from lemmata.words import language_of

GENERATOR = Path(__file__).parents[1] / "examples" / "plant" / "generate.py"
MEASURES = ("MRR@10", "nDCG@10", "R@20")
LANGUAGES = {"before": "en", "after": "auto"}  # how the corpus is read


def generate(folder: Path, logs: int, seed: int) -> None:
    command = [sys.executable, str(GENERATOR), str(folder), "--logs", str(logs), "--seed", str(seed)]
    subprocess.run(command, check=True, capture_output=True)


def measure(folder: Path, seed: int) -> dict[str, dict[str, dict[str, Any]]]:
    """The measures of each question, by language of the question and by reading of the corpus."""
    generate(folder / "plant", 3000, seed)
    project = Project.init(folder / "workspace")
    project.ingest([folder / "plant" / "logs.csv", folder / "plant" / "hierarchy.csv"])
    queries, qrels = (
        read_queries(folder / "plant" / "queries.jsonl"),
        read_qrels(folder / "plant" / "qrels" / "test.tsv"),
    )
    results: dict[str, dict[str, dict[str, Any]]] = {"de": {}, "en": {}}
    for reading, setting in LANGUAGES.items():
        project.index(settings={"language": setting}, dense=False)
        for language, measured in results.items():
            asked = {name: text for name, text in queries.items() if language_of(text) == language}
            task = Task("plant", asked, {name: qrels[name] for name in asked})
            options = project.evaluate_options({"measures": ",".join(MEASURES)})
            report = project.evaluate(task, options=options, retrievers=("lexical",))
            measured[reading] = dict(report.retrievers["lexical"])
    return results


def compare(before: Any, after: Any) -> dict[str, Any]:
    random = np.random.default_rng(0)
    low, high = bootstrap(after - before, generator=random)
    return {
        "queries": len(before),
        "before": round(float(before.mean()), 3),
        "before_ci": [round(value, 3) for value in bootstrap(before, generator=random)],
        "after": round(float(after.mean()), 3),
        "after_ci": [round(value, 3) for value in bootstrap(after, generator=random)],
        "difference": round(float((after - before).mean()), 3),
        "difference_ci": [round(low, 3), round(high, 3)],
        "p": round(randomisation(after, before, generator=random), 4),
    }


def speed(folder: Path, logs: int) -> dict[str, Any]:
    """CPU seconds to build and to search, and bytes on disk, of both readings."""
    import csv

    generate(folder / "many", logs, 7)
    with (folder / "many" / "logs.csv").open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    queries = list(read_queries(folder / "many" / "queries.jsonl").values()) * 5
    results: dict[str, Any] = {"logs": len(texts)}
    for reading, language in (("before", "en"), ("after", "de+en")):
        begin = time.process_time()
        tokenizer = Tokenizer(language, learn_parts(texts, language))
        index = LexicalIndex.build(texts, folder / reading, tokenizer=tokenizer)
        built = time.process_time()
        index.search(queries, 10)  # the first search maps the files
        warm = time.process_time()
        index.search(queries, 10)
        searched = time.process_time()
        size = sum(path.stat().st_size for path in (folder / reading).rglob("*") if path.is_file())
        opened = min(_open_seconds(folder / reading) for _ in range(5))
        results[reading] = {
            "build_s": round(built - begin, 3),
            "query_ms": round(1000 * (searched - warm) / len(queries), 3),
            "open_ms": round(1000 * opened, 2),
            "bytes": size,
        }
    ratios = {name: results["after"][name] / results["before"][name] for name in results["after"]}
    return results | {"ratio": {name: round(value, 2) for name, value in ratios.items()}}


def _open_seconds(folder: Path) -> float:
    begin = time.process_time()
    LexicalIndex.open(folder)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", default="7,8")
    parser.add_argument("--many", type=int, default=30_000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measured = [measure(Path(temporary) / seed, int(seed)) for seed in arguments.seeds.split(",")]
        content: dict[str, Any] = {"seeds": arguments.seeds, "speed": speed(Path(temporary), arguments.many)}
    for language in ("de", "en"):
        for name in MEASURES:
            before, after = (
                np.concatenate([np.asarray(results[language][reading][name]) for results in measured])
                for reading in LANGUAGES
            )
            content[f"{language} {name}"] = compare(before, after)
    text = json.dumps(content, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
