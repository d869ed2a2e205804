"""Select the passages of a general corpus that are about the field of a workspace, as further training data."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.archives import open_decompressed
from lemmata.encode.load import load_encoder
from lemmata.errors import InputError, LemmataError
from lemmata.files import writing
from lemmata.ingest.logs import jsonl_rows
from lemmata.leakage import Sketches, near_duplicate_of, sketch
from lemmata.mine.domain import train_domain_classifier
from lemmata.search import Retriever
from lemmata.stages.training_sets import TrainingPart, open_training_part
from lemmata.store.layout import Layout
from lemmata.types import Encoder, Floats, Mask, Progress, titled

__all__ = ["SAMPLE", "select_domain"]

SAMPLE = 3000  # passages of each corpus that the classifier learns from
_BATCH = 64  # encoded between two reports: about a second on two cores

Row = Mapping[str, Any]  # of the general corpus, as it is read


def select_domain(
    layout: Layout,
    general: Path,
    out: Path,
    progress: Progress,
    *,
    share: float = 0.1,
    encoder: str = "",
    seed: int = 0,
    key: str = "",
) -> dict[str, Any]:
    """Write about `share` of the general corpus, the passages nearest in subject, to the JSON lines `out`.

    `general` is a file of JSON lines with a title and a text or abstract, compressed or not; it is read twice. The
    classifier sees the training part alone. A passage that is nearly equal to a held-out one is left out. Lines keep
    their fields and get `domain`, the score. `encoder` is by default that of the index.
    """
    if not general.is_file():
        raise InputError("there is no such file: a general corpus is one file of JSON lines", file=str(general))
    if out.exists() and out.samefile(general):
        raise LemmataError(f"{out} is the general corpus: name another file for the selection")
    if next(_rows(general), None) is None:
        cause = "has no line with a title, a text or an abstract: a general corpus is one file of JSON lines"
        raise InputError(cause, file=str(general))
    generator = np.random.default_rng(seed)
    with (
        open_training_part(layout, hold=False) as part,
        contextlib.closing(Retriever(layout, key=key)) as retriever,
    ):
        chosen = load_encoder(encoder, key=key, models=layout.models) if encoder else retriever.encoder
        rows = np.sort(generator.permutation(part.material.rows)[:SAMPLE])
        sample, skipped = _sample(general, generator, progress)
        if encoder:
            own = _encode(chosen, part.material.texts(rows.tolist()), progress, "encoding the corpus")
        else:
            own = np.asarray(retriever.vectors.matrix[rows], np.float32)
        other = _encode(chosen, sample, progress, "encoding a sample")
        classifier = train_domain_classifier(own, other, share, generator)
        held_out = sketch(_held_out_texts(part))
    read = selected = repeats = 0
    with writing(out) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for batch in _batches(general):
            texts = [_content(row) for row in batch]
            scores = classifier.scores(chosen.encode(texts))
            inside = scores >= classifier.threshold
            repeated = _repeats(texts, held_out, inside)
            repeats += int(repeated.sum())
            for place in np.flatnonzero(inside & ~repeated).tolist():
                line = {**batch[place], "domain": round(float(scores[place]), 4)}
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                selected += 1
            read += len(batch)
            progress("selecting", read, None)
    return {
        "file": str(out),
        "read": read,
        "selected": selected,
        "skipped": skipped,
        "nearly_held_out": repeats,
        "encoder": chosen.name,
        "sample": {"corpus": len(own), "general": len(other)},
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


def _batches(general: Path) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in _rows(general):
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


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


def _held_out_texts(part: TrainingPart) -> Iterator[str]:
    held_out = ~part.material.allowed
    for row, text in enumerate(part.corpus.contents()):
        if held_out[row]:
            yield text


def _repeats(texts: Sequence[str], held_out: Sketches, inside: Mask) -> Mask:
    """Which of the selected texts are nearly equal to a held-out one."""
    repeated = np.zeros(len(texts), bool)
    places = np.flatnonzero(inside)
    if len(places) and len(held_out):
        repeated[places] = near_duplicate_of(sketch(texts[place] for place in places.tolist()), held_out) >= 0
    return repeated
