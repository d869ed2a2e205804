"""Which passages of a general corpus are about the field of a corpus: a classifier on vectors, trained without labels.

A classifier between the two corpora would learn how they are written (an encyclopedia, abstracts) rather than what they
are about. So it is trained on general passages alone: those nearest to the corpus, against all others.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.archives import open_decompressed
from lemmata.core.errors import InputError, LemmataError
from lemmata.core.files import writing
from lemmata.core.types import Encoder, Floats, Mask, Progress, titled
from lemmata.core.workspace import Workspace
from lemmata.corpus.leakage import near_duplicate_of, sketch
from lemmata.encode.load import open_encoder
from lemmata.ingest.logs import jsonl_rows
from lemmata.mine.training_sets import open_training_part
from lemmata.search.retriever import Retriever

Row = Mapping[str, Any]  # of the general corpus, as it is read
SAMPLE = 3000  # passages of each corpus that the classifier learns from
_BATCH = 64  # encoded between two reports: about a second on two cores
_NEIGHBOURS = 10
_GENERAL_WEIGHT = 0.5  # of the nearness to other general passages, which is subtracted
_HELD_OUT = 0.2  # share of the general sample that the threshold is chosen on
_FEWEST = 50  # passages of each corpus
_STEPS = 300  # of gradient descent
_RATE = 0.05
_PENALTY = 1e-4  # on the squared length of the weights
_BLOCK = 1000


class DomainClassifier(NamedTuple):
    """Logistic regression on scaled vectors."""

    scale: Floats  # (dim,)
    weights: Floats  # (dim,)
    bias: float
    threshold: float  # scores from here on are in the domain
    agreement: float  # area under the ROC curve, against nearness to the corpus, on held-out general passages

    def scores(self, vectors: Floats) -> Floats:
        """The probability of being in the domain, for vectors (n, dim)."""
        return _sigmoid(_scaled(vectors, self.scale) @ self.weights + np.float32(self.bias))


def train_domain_classifier(
    corpus: Floats, general: Floats, share: float, generator: np.random.Generator
) -> DomainClassifier:
    """A classifier that selects about `share` of the general passages, from samples (n, dim) of both corpora.

    1. Every dimension is scaled by its spread, which for hashed words does what inverse document frequency does.
    2. A general passage's nearness is its mean cosine to the ten nearest passages of the corpus, less half of the
       mean cosine to the ten nearest other general passages.
    3. Logistic regression separates the nearest `share` of the general passages from the others, with equal weight
       for both, on four fifths of them.
    4. The threshold is the score that the best `share` of the last fifth reach.
    """
    if not 0 < share < 1:
        raise InputError(f"a share of the general corpus lies between 0 and 1, not at {share}")
    if min(len(corpus), len(general)) < _FEWEST:
        fewer = f"the corpus has {len(corpus)} and the general one {len(general)}"
        raise InputError(f"a classifier needs {_FEWEST} passages of each corpus: {fewer}")
    spread = np.concatenate((corpus, general)).std(axis=0)
    scale = np.where(spread > 0, 1 / np.maximum(spread, 1e-6), 0).astype(np.float32)
    corpus_vectors, general_vectors = _scaled(corpus, scale), _scaled(general, scale)
    to_each_other = _mean_cosine(general_vectors, general_vectors, itself=True)
    nearness = _mean_cosine(general_vectors, corpus_vectors) - _GENERAL_WEIGHT * to_each_other
    is_near = nearness >= np.quantile(nearness, 1 - share)
    held_out = np.zeros(len(general_vectors), bool)
    held_out[generator.permutation(len(general_vectors))[: max(1, round(_HELD_OUT * len(general_vectors)))]] = True
    weights, bias = _logistic_regression(general_vectors[~held_out], is_near[~held_out])
    scores = _sigmoid(general_vectors[held_out] @ weights + np.float32(bias))
    threshold = float(np.quantile(scores, 1 - share))
    return DomainClassifier(scale, weights, bias, threshold, _area(scores, is_near[held_out]))


def _scaled(vectors: Floats, scale: Floats) -> Floats:
    scaled = vectors * scale
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(lengths > 0, lengths, 1), np.float32)


def _mean_cosine(vectors: Floats, others: Floats, *, itself: bool = False) -> Floats:
    """The mean cosine of each vector to its nearest others; with `itself`, the others are the vectors themselves."""
    means: list[Floats] = []
    number = min(_NEIGHBOURS, len(others) - itself)
    for start in range(0, len(vectors), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ others.T
        if itself:
            cosines[np.arange(len(cosines)), start + np.arange(len(cosines))] = -np.inf
        nearest = np.partition(cosines, len(others) - number, axis=1)[:, len(others) - number :]
        means.append(nearest.mean(axis=1))
    return np.concatenate(means)


def _logistic_regression(vectors: Floats, labels: Mask) -> tuple[Floats, float]:
    """Weights (dim,) and bias of the smallest mean loss, in which both classes have the same weight (Adam)."""
    positive = max(1, int(labels.sum()))
    importance = np.where(labels, 0.5 / positive, 0.5 / max(1, len(labels) - positive)).astype(np.float32)
    parameters = np.zeros(vectors.shape[1] + 1, np.float32)
    first, second = np.zeros_like(parameters), np.zeros_like(parameters)
    for step in range(1, _STEPS + 1):
        error = (_sigmoid(vectors @ parameters[:-1] + parameters[-1]) - labels) * importance
        gradient = np.append(error @ vectors + _PENALTY * parameters[:-1], error.sum())
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        parameters -= _RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return parameters[:-1].astype(np.float32), float(parameters[-1])


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -60, 60))), np.float32)


def _area(scores: Floats, labels: Mask) -> float:
    """The area under the ROC curve; ties count half. 0.5 where there is one class only."""
    positive = int(labels.sum())
    if positive in (0, len(labels)):
        return 0.5
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return float((ranks[labels].sum() - positive * (positive + 1) / 2) / (positive * (len(labels) - positive)))


def select_domain(
    workspace: Workspace, general: str | Path, out: str | Path, *, share: float = 0.1, encoder: str = "", seed: int = 0
) -> dict[str, Any]:
    """Write about `share` of the general corpus, the passages nearest in subject, to the JSON lines `out`.

    `general` is a file of JSON lines with a title and a text or abstract, compressed or not; it is read twice. The
    classifier sees the training part alone. A passage that is nearly equal to a held-out one is left out. Lines keep
    their fields and get `domain`, the score. `encoder` is by default that of the index.
    """
    general, out = Path(general), Path(out)
    if not general.is_file():
        raise InputError("there is no such file: a general corpus is one file of JSON lines", file=str(general))
    if out.exists() and out.samefile(general):
        raise LemmataError(f"{out} is the general corpus: name another file for the selection")
    if next(_rows(general), None) is None:
        cause = "has no line with a title, a text or an abstract: a general corpus is one file of JSON lines"
        raise InputError(cause, file=str(general))
    generator = np.random.default_rng(seed)
    with open_training_part(workspace, hold=False) as part, contextlib.closing(Retriever(workspace)) as retriever:
        chosen = open_encoder(workspace, encoder) if encoder else retriever.encoder
        rows = np.sort(generator.permutation(part.view.rows)[:SAMPLE])
        sample, skipped = _sample(general, generator, workspace.progress)
        if encoder:
            corpus_vectors = _encode(chosen, part.view.texts(rows.tolist()), workspace.progress, "encoding the corpus")
        else:
            corpus_vectors = np.asarray(retriever.vectors.matrix[rows], np.float32)
        general_vectors = _encode(chosen, sample, workspace.progress, "encoding a sample")
        classifier = train_domain_classifier(corpus_vectors, general_vectors, share, generator)
        texts = enumerate(part.corpus.contents())
        held_out = sketch(text for row, text in texts if not part.view.allowed[row])
    read = selected = repeats = 0
    with writing(out) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        rows_left = _rows(general)
        while batch := list(itertools.islice(rows_left, _BATCH)):
            contents = [_content(row) for row in batch]
            scores = classifier.scores(chosen.encode(contents))
            inside = np.flatnonzero(scores >= classifier.threshold)
            copies = near_duplicate_of(sketch(contents[place] for place in inside.tolist()), held_out)
            repeats += int((copies >= 0).sum())
            for place in inside[copies < 0].tolist():
                line = {**batch[place], "domain": round(float(scores[place]), 4)}
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                selected += 1
            read += len(batch)
            workspace.progress("selecting", read, None)
    return {
        "file": str(out),
        "read": read,
        "selected": selected,
        "skipped": skipped,
        "nearly_held_out": repeats,
        "encoder": chosen.name,
        "sample": {"corpus": len(corpus_vectors), "general": len(general_vectors)},
        "threshold": round(classifier.threshold, 4),
        "agreement": round(classifier.agreement, 4),
        "seed": seed,
    }


def _rows(general: Path, skips: list[int] | None = None) -> Iterator[Row]:
    """The lines with a text; the numbers of the others are added to `skips`."""

    def skip(line: int, _cause: str) -> None:
        if skips is not None:
            skips.append(line)

    with open_decompressed(general) as stream:
        for line, row in jsonl_rows(stream, skip):
            if _content(row):
                yield row
            else:
                skip(line, "no text")


def _content(row: Row) -> str:
    """Title and text as an index would read them; empty where they are no texts."""
    values = [row.get("title") or "", row.get("text") or row.get("abstract") or ""]
    return titled(*values) if all(isinstance(value, str) for value in values) else ""


def _sample(general: Path, generator: np.random.Generator, progress: Progress) -> tuple[list[str], int]:
    """The texts of a random sample, every line with the same chance (reservoir sampling), and the number of skips."""
    skips: list[int] = []
    sample: list[str] = []
    for number, row in enumerate(_rows(general, skips)):
        if number % 1000 == 0:
            progress("reading the general corpus", number, None)
        if len(sample) < SAMPLE:
            sample.append(_content(row))
        elif (place := int(generator.integers(number + 1))) < SAMPLE:
            sample[place] = _content(row)
    return sample, len(skips)


def _encode(encoder: Encoder, texts: Sequence[str], progress: Progress, what: str) -> Floats:
    vectors: list[Floats] = []
    for start in range(0, len(texts), _BATCH):
        progress(what, start, len(texts))
        vectors.append(encoder.encode(texts[start : start + _BATCH]))
    return np.concatenate(vectors)
