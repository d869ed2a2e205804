"""What repeated words, Snowball stems and joined headings change in lexical search: BM25 alone, on validation sets.

    python -m bench.lexical_search DATA [--choose] [--out FILE]

DATA holds the folders stacks, planetmath, mathlib, scifact and cisi; qseries and plants come with lemmata. `before` is
lexical search as it was: an English stemmer of our own, each token of a query counted once, headings with an idf of
their own and weight 0.5, titles of documents with their first passages only. The other variants change one thing, `all`
all three. Everything was chosen on the sets that are not called test; with `--choose` the weights and parameters are
measured around the chosen ones. Speed is CPU time of `before` and `all` in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench.shared import generate_plant

from lemmata.core.types import Floats, Integers, Mask
from lemmata.core.words import STOP_WORDS, language_of
from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.evaluate.evaluate import table_task
from lemmata.evaluate.measures import evaluate, judged, parse_measure
from lemmata.evaluate.significance import Floats64, bootstrap, compare
from lemmata.evaluate.tasks import Task, held_out, references_task, task_from
from lemmata.ingest.beir import read_judged, read_qrels, read_queries, read_table
from lemmata.project import Project
from lemmata.search import lexical, tokens
from lemmata.search.lexical import LexicalIndex
from lemmata.search.retriever import HEADING_WEIGHT, LONGEST_QUERY
from lemmata.search.tokens import Tokenizer, learn_parts
from lemmata.vectors.exact import best

ROOT = Path(__file__).parents[1]
MEASURES = ("MRR@10", "nDCG@10")
PLANTS = range(11, 21)  # seeds on which the reading of German was chosen
DEPTH = 10


# ---------------------------------------------------------------- lexical search as it was


def light_stem(word: str) -> str:
    """The stemmer before Snowball: without plural, -ing, -ed and final e."""
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and re.search(r"[aeiouy]", rest):
            return rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def _light_word(word: str) -> list[str]:
    forms = tokens._folded(word)
    return [] if forms[0] in STOP_WORDS else [light_stem(form) for form in forms]


class LightTokenizer(Tokenizer):
    """English with the stemmer before Snowball; other languages had Snowball already."""

    def __init__(self, language: str, parts: frozenset[str]) -> None:
        super().__init__(language, parts)
        if language == "en":
            self._pieces = lru_cache(maxsize=1 << 18)(lambda found: tokens._pieces_of(found, _light_word))


class IndexBefore(LexicalIndex):
    """BM25 with headings that have an idf of their own; each token of a query counts once, unless `repeated`."""

    repeated = False

    def search(
        self, queries: Sequence[str], k: int, allowed: Mask | None = None, *, heading_weight: float = 0.0
    ) -> tuple[Integers, Floats]:
        del heading_weight
        rows = np.full((len(queries), k), -1, np.int64)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        for number, query in enumerate(queries):
            values = self._score(query)
            if allowed is not None:
                values[~allowed] = 0
            winners = best(values, k)
            winners = winners[values[winners] > 0]
            rows[number, : len(winners)], scores[number, : len(winners)] = winners, values[winners]
        return rows, scores

    def _score(self, query: str) -> Floats:
        if self.repeated:
            counts = self.tokenizer.counts(query)
            names, times = list(counts), np.array(list(counts.values()))
            factors = list((lexical.K3 + 1) * times / (lexical.K3 + times))
        else:
            names = list(dict.fromkeys(self.tokenizer(query)))
            factors = [1.0] * len(names)
        factors += [0.5 * factor for factor in factors]
        names += [lexical._HEADING + name for name in names]
        keys = np.array([lexical._key(name) for name in names], np.uint64)
        ranges = [lexical._find(segment, keys) for segment in self._segments]
        scores = np.zeros(len(self) + 1, np.float32)
        for number, (name, factor) in enumerate(zip(names, factors, strict=True)):
            parts = self._postings(ranges, number)
            if not parts:
                continue
            rows = np.concatenate([first + part for first, part, _ in parts])
            stored = np.concatenate([part for _, _, part in parts])
            is_heading = name.startswith(lexical._HEADING)
            frequencies = (stored >> lexical._BITS_IN_TEXT if is_heading else stored).astype(np.float32)
            weight = np.float32(factor * np.log1p((len(self) - len(rows) + 0.5) / (len(rows) + 0.5)))
            norms = np.float32(self._k1) if is_heading else self._norms[rows]
            scores[rows] += weight * frequencies / (frequencies + norms)
        return scores[:-1]


class IndexRepeated(IndexBefore):
    repeated = True


class IndexOnce(LexicalIndex):
    """As it is now, but each token of a query counts once."""

    def _load(self) -> None:
        super()._load()
        self.tokenizer.counts = lambda query: dict.fromkeys(self.tokenizer(query), 1)  # type: ignore[method-assign]


class Variant(NamedTuple):
    """The stemmer, who has headings, and how both are scored."""

    light: bool
    titles_first: bool  # titles of documents with their first passages only
    scoring: type[LexicalIndex]


VARIANTS = {
    "before": Variant(True, True, IndexBefore),
    "repeated words": Variant(True, True, IndexRepeated),
    "Snowball": Variant(False, True, IndexBefore),
    "headings": Variant(True, False, IndexOnce),
    "all": Variant(False, False, LexicalIndex),
}


# ---------------------------------------------------------------- sets


@dataclass(frozen=True)
class Texts:
    """A corpus in memory with the tasks on it."""

    contents: list[str]
    headings: list[str]
    headings_before: list[str]
    row_of: Mapping[str, int]
    language: str
    tasks: Mapping[str, Task]


def read_texts(layout: Workspace, language: str, make: Callable[[Corpus], dict[str, Task]]) -> Texts:
    with contextlib.closing(Corpus(layout)) as corpus:
        titles = {document.id: document.title for document in corpus.documents()}
        before, seen = [], set()
        for passage in corpus:
            title = titles.get(passage.document, "")
            is_named = passage.document not in seen and title not in (passage.title, passage.text)
            before.append(f"{title if is_named else ''} {passage.section}".strip())
            seen.add(passage.document)
        row_of = {identity: row for row, identity in enumerate(corpus.ids())}
        return Texts(list(corpus.contents()), list(corpus.headings()), before, row_of, language, make(corpus))


def references(corpus: Corpus, limit: int) -> Task:
    """The references of statements of a third of the documents."""
    generator = np.random.default_rng(5)
    documents = held_out([document.id for document in corpus.documents()], 1 / 3, generator)
    return references_task(list(corpus), documents, limit=limit, generator=generator)


def synonyms(archive: Path, corpus: Corpus) -> Task:
    """Other names of PlanetMath articles, as their heads give them; all passages of the article are relevant."""
    passages_of: dict[str, list[str]] = {}
    for identity, document in corpus.documents_of():
        passages_of.setdefault(document, []).append(identity)
    qrels: dict[str, dict[str, int]] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.name.endswith(".tex") else None
            for phrase in re.findall(r"\\pmsynonym\{([^{}]*)\}", file.read().decode("latin-1") if file else ""):
                document = member.name.removesuffix(".tex")
                qrels.setdefault(phrase, {}).update(dict.fromkeys(passages_of.get(document, ()), 1))
    qrels = {phrase: grades for phrase, grades in qrels.items() if grades}
    return task_from("synonyms", {phrase: phrase for phrase in qrels}, qrels)


def sets(data: Path, work: Path) -> Iterator[tuple[str, Texts]]:
    """Each corpus with its tasks, one after the other."""

    def ingest(name: str, *paths: Path) -> Workspace:
        Project.init(work / name).ingest(list(paths))
        return Workspace(work / name)

    def table(layout: Workspace, name: str) -> Task:
        path = ROOT / "bench" / f"{name}.tsv"
        return table_task(layout, name, *read_table(path), file=path, allow_missing=True)

    def beir(folder: Path, which: str) -> Task:
        queries, qrels = read_judged(folder, which)
        return task_from(folder.name, queries, qrels)

    stacks = ingest("stacks", data / "stacks" / "stacks.tar.xz")
    yield (
        "stacks",
        read_texts(
            stacks,
            "en",
            lambda corpus: {
                "Stacks queries": table(stacks, "stacks_queries"),
                "Stacks summaries": table(stacks, "stacks_summaries"),
                "Stacks references": references(corpus, 500),
            },
        ),
    )
    archive = data / "planetmath" / "planetmath.tar.xz"
    planetmath = ingest("planetmath", archive)
    yield (
        "planetmath",
        read_texts(
            planetmath,
            "en",
            lambda corpus: {
                "PlanetMath queries": table(planetmath, "planetmath_queries"),
                "PlanetMath synonyms": synonyms(archive, corpus),
            },
        ),
    )
    for name, which in (
        ("mathlib", {"mathlib phrases": "test"}),
        ("scifact", {"SciFact train": "train", "SciFact test": "test"}),
        ("cisi", {"CISI": "test"}),
    ):
        layout, folder = ingest(name, data / name), data / name
        yield name, read_texts(layout, "en", lambda _, f=folder, w=which: {key: beir(f, w[key]) for key in w})  # type: ignore[misc]
    example = ROOT / "examples" / "qseries"
    qseries = ingest("qseries", example)
    written = [json.loads(line) for line in (example / "queries-train.jsonl").read_text("utf-8").splitlines()]
    queries = {str(number): record["query"] for number, record in enumerate(written)}
    qrels = {str(number): {record["passage"]: 1} for number, record in enumerate(written)}
    yield (
        "qseries",
        read_texts(
            qseries,
            "en",
            lambda _: {
                "qseries train": table_task(qseries, "train", queries, qrels, file=example / "queries-train.jsonl"),
                "qseries test": beir(example, "test"),
            },
        ),
    )
    for seed in PLANTS:
        plant = work / f"generated-{seed}"
        generate_plant(plant, 3000, seed)
        layout = ingest(f"plant-{seed}", plant / "logs.csv", plant / "hierarchy.csv")
        asked, grades = read_queries(plant / "queries.jsonl"), read_qrels(plant / "qrels" / "test.tsv")
        tasks = {}
        for language, name in (("de", "plant, German"), ("en", "plant, English")):
            chosen = {key: text for key, text in asked.items() if language_of(text) == language}
            tasks[name] = task_from(name, chosen, {key: grades[key] for key in chosen})
        yield f"plant-{seed}", read_texts(layout, "de+en", lambda _, t=tasks: t)  # type: ignore[misc]


# ---------------------------------------------------------------- measuring


def build(texts: Texts, variant: Variant, folder: Path) -> LexicalIndex:
    """The index of a variant; one that a variant with the same tokens left in the folder is opened."""
    parts = learn_parts(texts.contents, texts.language)
    tokenizer = (LightTokenizer if variant.light else Tokenizer)(texts.language, parts)
    path = folder / f"{'light' if variant.light else 'snowball'}-{'first' if variant.titles_first else 'all'}"
    if not path.exists():
        headings = texts.headings_before if variant.titles_first else texts.headings
        LexicalIndex.build(texts.contents, path, headings=headings, tokenizer=tokenizer)
    index = variant.scoring.__new__(variant.scoring)
    index.tokenizer = tokenizer
    index.__init__(path)  # type: ignore[misc]
    return index


def rank(index: LexicalIndex, task: Task, row_of: Mapping[str, int], weight: float = HEADING_WEIGHT) -> Integers:
    """The first rows for each query; a query that is a passage does not find itself."""
    queries = [text[:LONGEST_QUERY] for text in task.queries.values()]
    rows, _ = index.search(queries, DEPTH + 1, task.candidates, heading_weight=weight)
    own = np.array([row_of[task.itself[name]] if name in task.itself else -2 for name in task.queries])
    ranked = np.full((len(rows), DEPTH), -1, np.int64)
    for number, row in enumerate(rows):
        ranked[number] = row[row != own[number]][:DEPTH]
    return ranked


def values(index: LexicalIndex, texts: Texts, task: Task, weight: float = HEADING_WEIGHT) -> dict[str, Floats64]:
    grades = {
        name: {identity: grade for identity, grade in task.qrels[name].items() if identity in texts.row_of}
        for name in task.queries
    }
    ranked = rank(index, task, texts.row_of, weight)
    measured = evaluate(ranked, judged(grades, texts.row_of.__getitem__), [parse_measure(name) for name in MEASURES])
    return {str(name): numbers for name, numbers in measured.items()}


def summary(results: Mapping[str, Mapping[str, Floats64]]) -> dict[str, Any]:
    """Means and intervals of each variant, and the paired differences to `before`."""
    generator = np.random.default_rng(0)
    content: dict[str, Any] = {"queries": len(results["before"][MEASURES[0]])}
    for name, measured in results.items():
        content[name] = {}
        for measure, numbers in measured.items():
            low, high = bootstrap(numbers, generator=generator)
            content[name][measure] = [round(float(value), 4) for value in (numbers.mean(), low, high)]
    for measure in MEASURES:
        for one in compare(results, measure, "before", generator):
            content[one.first][f"{measure} difference"] = [round(x, 4) for x in (one.difference, one.low, one.high)]
            content[one.first][f"{measure} p"] = round(one.p_corrected, 4)
    return content


def speed(texts: Texts, folder: Path) -> dict[str, Any]:
    """CPU time of building and of searching, in turns; the tokens of words are forgotten before each build."""
    queries = [text[:LONGEST_QUERY] for task in texts.tasks.values() for text in list(task.queries.values())[:200]]
    indexes: dict[str, LexicalIndex] = {}
    built: dict[str, list[float]] = {"before": [], "all": []}
    for turn in range(2):
        for name, times in built.items():
            tokens._pieces.cache_clear()
            tokens._stemmer.cache_clear()
            begin = time.process_time()
            indexes[name] = build(texts, VARIANTS[name], folder / f"{turn}-{name}")
            times.append(time.process_time() - begin)
    searched: dict[str, list[float]] = {"before": [], "all": []}
    for _ in range(8):
        for name, times in searched.items():
            begin = time.process_time()
            indexes[name].search(queries, 100, heading_weight=HEADING_WEIGHT)
            times.append(1000 * (time.process_time() - begin) / len(queries))
    content: dict[str, Any] = {"passages": len(texts.contents), "queries": len(queries)}
    for name in built:
        size = sum(path.stat().st_size for path in (folder / f"1-{name}").rglob("*") if path.is_file())
        content[name] = {
            "build_s": round(min(built[name]), 2),
            "query_ms": round(min(searched[name]), 3),
            "bytes": size,
        }
    ratios = {key: content["all"][key] / content["before"][key] for key in content["all"]}
    return content | {"ratio": {key: round(value, 2) for key, value in ratios.items()}}


def choices(texts: Texts, folder: Path) -> dict[str, dict[str, Floats64]]:
    """nDCG@10 of each query with other weights and parameters than the chosen ones, one or two at a time."""
    index = build(texts, VARIANTS["all"], folder)
    path = index._folder / "index.json"
    stored = path.read_bytes()
    k1, b, k3 = index._k1, index._b, lexical.K3
    tried = {f"heading weight {weight}": (k1, b, k3, weight) for weight in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)}
    tried |= {f"k3 {value}": (k1, b, value, HEADING_WEIGHT) for value in (0.0, 4.0, 8.0, 20.0, 1e9)}
    tried |= {
        f"k1 {one}, b {other}": (one, other, k3, HEADING_WEIGHT) for one in (0.9, 1.2, 1.5) for other in (0.7, 0.8)
    }
    results: dict[str, dict[str, Floats64]] = {name: {} for name in tried}
    for name, (one, other, third, weight) in tried.items():
        path.write_text(json.dumps({**json.loads(stored), "k1": one, "b": other}))
        index._load()
        lexical.K3 = third
        for task in texts.tasks:
            if "test" not in task:
                results[name][task] = values(index, texts, shortened(texts.tasks[task]), weight)["nDCG@10"]
    path.write_bytes(stored)
    lexical.K3 = k3
    return results


def shortened(task: Task, most: int = 100) -> Task:
    """References have long queries: fewer of them; other tasks stay as they are."""
    names = list(task.queries)[: most if task.name == "references" else None]
    return replace(task, queries={name: task.queries[name] for name in names})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results: dict[str, dict[str, dict[str, list[Floats64]]]] = {}  # set: variant: measure: a part for each corpus
    tried: dict[str, dict[str, list[Floats64]]] = {}  # choice: set
    content: dict[str, Any] = {"speed": {}}
    with tempfile.TemporaryDirectory() as temporary:
        for corpus, texts in sets(arguments.data, Path(temporary)):
            folder = Path(temporary) / "indexes" / corpus
            for variant, how in VARIANTS.items():
                index = build(texts, how, folder)
                for name, task in texts.tasks.items():
                    for measure, numbers in values(index, texts, task).items():
                        results.setdefault(name, {}).setdefault(variant, {}).setdefault(measure, []).append(numbers)
            if corpus in ("stacks", "mathlib", "plant-11"):
                content["speed"][corpus] = speed(texts, folder / "speed")
            if arguments.choose:
                for choice, measured in choices(texts, folder).items():
                    for name, numbers in measured.items():
                        tried.setdefault(choice, {}).setdefault(name, []).append(numbers)
            print(f"{corpus} done", flush=True)
    for name, variants in results.items():
        joined = {
            variant: {measure: np.concatenate(parts) for measure, parts in measured.items()}
            for variant, measured in variants.items()
        }
        content[name] = summary(joined)
    if tried:
        content["nDCG@10 by choice"] = {
            choice: {name: round(float(np.concatenate(parts).mean()), 4) for name, parts in measured.items()}
            for choice, measured in tried.items()
        }
        for measured in content["nDCG@10 by choice"].values():
            measured["mean"] = round(float(np.mean(list(measured.values()))), 4)
    for name, measured in content.items():
        if "before" in measured and "queries" in measured and name != "speed":
            for measure in MEASURES:
                shown = (f"{variant} {measured[variant][measure][0]:.3f}" for variant in VARIANTS)
                print(f"{name:20} {measure:8}", "  ".join(shown))
    print(json.dumps(content["speed"], indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
