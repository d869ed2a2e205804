"""Synthetic data of any size: passages, a workspace of them, vectors, and a citation graph.

Passages have about 73 words, a title and references. Words are drawn by the Zipf-Mandelbrot law that those of arXiv
abstracts follow without stop words (the first is 0.9 % of all words, the hundredth 0.2 %), two fifths of them from the
topic of the passage, and all are made of words that the static encoder knows. Nothing is near to a random query: judge
recall on real data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.types import Floats, Graph
from lemmata.encode.load import NANO, PACKAGED
from lemmata.project import Project

VOCABULARY = 300_000
LENGTH, SPREAD = 73, 39  # words of a passage
TITLE = 8
TOPIC_SIZE = 50  # passages
TOPIC_WORDS = 40


# ---------------------------------------------------------------- passages


@cache
def words() -> Any:
    """Words by rank: those that the encoder's vocabulary has, then pairs of them."""
    vocabulary = json.loads((PACKAGED[NANO] / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    names = vocabulary if isinstance(vocabulary, dict) else [name for name, _ in vocabulary]
    whole = sorted(name for name in names if name.isascii() and name.isalpha() and name.islower() and len(name) > 3)
    generator = np.random.default_rng(0)
    generator.shuffle(whole)
    first, second = (generator.integers(0, len(whole), VOCABULARY) for _ in range(2))
    pairs = (whole[one] + whole[other] for one, other in zip(first.tolist(), second.tolist(), strict=True))
    return np.array([*whole, *pairs][:VOCABULARY], object)


@cache
def shares() -> Any:
    """How often one of the words up to a rank is drawn."""
    weights = 1 / (np.arange(VOCABULARY) + 47) ** 1.4
    return np.cumsum(weights / weights.sum())


def passages(count: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Records for `lemmata ingest`; the same for a given number, however many there are."""
    spread = math.sqrt(math.log(1 + (SPREAD / LENGTH) ** 2))
    for number in range(first, first + count):
        topic = number // TOPIC_SIZE
        generator = np.random.default_rng((1, number))
        length = max(5, int(generator.lognormal(math.log(LENGTH) - spread**2 / 2, spread)))
        ranks = np.searchsorted(shares(), generator.random(TITLE + length))
        own = np.searchsorted(shares(), np.random.default_rng((2, topic)).random(TOPIC_WORDS))
        from_topic = generator.random(len(ranks)) < 0.4
        ranks[from_topic] = own[generator.integers(0, TOPIC_WORDS, int(from_topic.sum()))]
        chosen = words()[np.minimum(ranks, VOCABULARY - 1)]
        cited = {topic * TOPIC_SIZE + int(generator.integers(TOPIC_SIZE)), int(number * generator.random() ** 4)}
        yield {
            "id": f"p{number}",
            "title": " ".join(chosen[:TITLE]),
            "text": " ".join(chosen[TITLE:]),
            "links": [f"p{row}" for row in sorted(cited - {number}) if row < number],
        }


def write_passages(path: Path, count: int, first: int = 0) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for passage in passages(count, first):
            stream.write(json.dumps(passage) + "\n")


def queries(count: int, size: int) -> list[str]:
    """5 to 8 words of each of some random passages among the first `size`."""
    generator = np.random.default_rng(3)
    texts = []
    for number in generator.integers(0, size, count).tolist():
        (passage,) = passages(1, number)
        texts.append(" ".join(generator.choice(passage["text"].split(), int(generator.integers(5, 9)))))
    return texts


def workspace(folder: Path, count: int) -> Project:
    """A workspace of `count` passages with everything that a search uses; made where it is not there yet."""
    if (folder / "lemmata.toml").exists():
        return Project(folder)
    source = folder.with_suffix(".jsonl")
    source.parent.mkdir(parents=True, exist_ok=True)
    write_passages(source, count)
    project = Project.init(folder)
    project.ingest([source])
    project.index(settings={"encoder": NANO})
    project.build_graph()
    return project


# ---------------------------------------------------------------- vectors


def unit(vectors: Any) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def mixture(count: int, dimension: int, generator: np.random.Generator) -> Floats:
    """Unit vectors around a thousand centres that mostly vary in 24 directions.

    How wide a walk in a neighbour graph must be depends strongly on these spreads.
    """
    centres = generator.standard_normal((1000, dimension), np.float32)
    directions = generator.standard_normal((24, dimension), np.float32)
    vectors = 0.7 * centres[generator.integers(1000, size=count)]
    vectors += 0.1 * generator.standard_normal((count, 24), np.float32) @ directions
    vectors += 0.1 * generator.standard_normal((count, dimension), np.float32)
    return unit(vectors)


# ---------------------------------------------------------------- a citation graph


def citation_graph(folder: Path, nodes: int, edges: int, dimension: int) -> tuple[Graph, Floats]:
    """A graph and the vectors of its nodes, both memory-mapped; made where it is not there yet.

    Papers lie around centres, and cite older ones, mostly of their own centre and mostly those that are cited already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    centres = max(1, nodes // 500)
    if not (folder / "matrix.npy").exists():
        generator = np.random.default_rng(0)
        pairs = np.empty(0, np.int64)
        while len(pairs) < edges:
            source = generator.integers(centres, nodes, edges // 2)
            target = (source * generator.random(len(source)) ** 2).astype(np.int64)  # the oldest are cited most
            near = target - target % centres + source % centres  # of the same centre
            target = np.where(generator.random(len(source)) < 0.8, np.where(near < source, near, target), target)
            pairs = np.unique(np.concatenate([pairs, source * nodes + target]))
        pairs = np.sort(generator.choice(pairs, edges, replace=False))
        indptr = np.zeros(nodes + 1, np.int64)
        np.cumsum(np.bincount(pairs // nodes, minlength=nodes), out=indptr[1:])
        np.save(folder / "indptr.npy", indptr)
        np.save(folder / "indices.npy", pairs % nodes)
        middle = generator.normal(size=(centres, dimension)).astype(np.float32)
        matrix = np.lib.format.open_memmap(folder / "new.npy", "w+", np.float32, (nodes, dimension))
        for start in range(0, nodes, 50_000):
            rows = np.arange(start, min(start + 50_000, nodes))
            matrix[rows] = unit(middle[rows % centres] + generator.normal(size=(len(rows), dimension)))
        matrix.flush()
        (folder / "new.npy").replace(folder / "matrix.npy")
    indptr, indices, matrix = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices", "matrix")
    )
    names = range(nodes)  # of no use here
    relation = np.broadcast_to(np.int16(0), len(indices))
    weight = np.broadcast_to(np.float32(1), len(indices))
    return Graph(names, names, ["cites"], indptr, indices, relation, weight), matrix  # type: ignore[arg-type]
