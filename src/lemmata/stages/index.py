"""Make the indexes of a workspace; what did not change since the last time is kept."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lemmata.files import replace_folder
from lemmata.index.ann import EXACT_UP_TO, AnnIndex
from lemmata.index.lexical import ORDER, LexicalIndex
from lemmata.store.corpus import Corpus
from lemmata.store.layout import Layout, read_manifest, write_manifest
from lemmata.store.vectors import VectorWriter, open_vectors
from lemmata.types import Encoder, Floats, Integers, Progress

__all__ = ["content_hashes", "index_ann", "index_lexical", "index_vectors"]

Hashes = npt.NDArray[np.uint64]

SHARD = 512  # passages that are encoded between two safe points: less than a minute on a small machine
_MOST_GONE = 0.2  # share of removed passages above which a lexical index is built anew


class Contents(Protocol):
    """Texts to be encoded, one per row: a corpus, or a corpus with something added to its texts."""

    inputs: str

    def __len__(self) -> int: ...
    def contents(self, start: int = 0, stop: int | None = None) -> Iterator[str]: ...


def content_hashes(corpus: Contents, progress: Progress) -> Hashes:
    """A hash of what each row says (n,)."""
    hashes = np.empty(len(corpus), dtype=np.uint64)
    for row, content in enumerate(corpus.contents()):
        hashes[row] = int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "little")
        if row % 50_000 == 0 and row:
            progress("comparing", row, len(corpus))
    return hashes


def _matched(old: Hashes, new: Hashes) -> Integers:
    """For each new row an old one with the same hash, each old one once; -1 where there is none."""
    places: dict[int, list[int]] = defaultdict(list)
    for row in range(len(old) - 1, -1, -1):
        places[int(old[row])].append(row)
    found = np.full(len(new), -1, dtype=np.int64)
    for row, value in enumerate(new):
        rows = places.get(int(value))
        if rows:
            found[row] = rows.pop()
    return found


# ---------------------------------------------------------------- lexical


def index_lexical(layout: Layout, corpus: Corpus, hashes: Hashes, progress: Progress) -> int:
    """Bring the lexical index up to date; returns how many passages were tokenised."""
    path = layout.manifest(layout.lexical)
    manifest = read_manifest(path)
    if manifest is not None and manifest["corpus"] == corpus.inputs:
        return 0
    old = np.load(layout.lexical / "hashes.npy") if manifest is not None else np.empty(0, np.uint64)
    kept = _matched(old, hashes)
    path.unlink(missing_ok=True)
    if manifest is None or len(old) - int((kept >= 0).sum()) > _MOST_GONE * len(hashes):
        LexicalIndex.build(_watched(corpus.contents(), len(corpus), progress), layout.lexical)
        np.save(layout.lexical / "hashes.npy", hashes)
        write_manifest(path, {"verb": "index", "corpus": corpus.inputs})
        return len(corpus)
    fresh = np.flatnonzero(kept < 0)
    order = np.full(len(old) + len(fresh), -1, dtype=np.int64)
    rows = np.flatnonzero(kept >= 0)
    order[kept[rows]] = rows
    order[len(old) :] = fresh
    if len(fresh):
        LexicalIndex.open(layout.lexical).add(_watched(_contents_of(corpus, fresh), len(fresh), progress))
    np.save(layout.lexical / "hashes.npy", np.concatenate([old, hashes[fresh]]))
    if np.array_equal(order, np.arange(len(order))):
        (layout.lexical / ORDER).unlink(missing_ok=True)
    else:
        np.save(layout.lexical / ORDER, order)
    write_manifest(path, {"verb": "index", "corpus": corpus.inputs})
    return len(fresh)


def _watched(contents: Iterator[str], total: int, progress: Progress) -> Iterator[str]:
    for number, content in enumerate(contents):
        if number % 1000 == 0:
            progress("lexical index", number, total)
        yield content


def _contents_of(corpus: Contents, rows: Integers) -> Iterator[str]:
    for row in rows.tolist():
        yield from corpus.contents(row, row + 1)


# ---------------------------------------------------------------- vectors


def index_vectors(
    layout: Layout,
    corpus: Contents,
    hashes: Hashes,
    encoder: Encoder,
    spec: str,
    progress: Progress,
    *,
    cut: int = 0,
    expansion: str = "",
) -> int:
    """Encode the corpus, shard by shard; returns how many passages were encoded.

    `cut` says that the encoder was told to cut its vectors to so many numbers, `expansion` what was added to the
    texts of the corpus. Vectors of unchanged passages
    are copied when the same encoder made them.
    """
    manifest = read_manifest(layout.manifest(layout.vectors))
    # by its name, too: what `spec` means may have been trained again
    made = {"encoder": spec, "made_by": encoder.name, "dimension": encoder.dimension}
    same = manifest is not None and {name: manifest.get(name) for name in made} == made
    seen = {"corpus": corpus.inputs, "expansion": expansion}
    if manifest is not None and same and {name: manifest.get(name, "") for name in seen} == seen:
        return 0
    writer = VectorWriter(layout, spec, encoder.dimension, hashes, made_by=encoder.name)
    if same:
        stored = open_vectors(layout)
        kept = _matched(np.asarray(stored.hashes), hashes)
        for start in range(0, len(kept), 100_000):
            rows = np.flatnonzero(kept[start : start + 100_000] >= 0) + start
            if len(rows):
                writer.write(rows, np.asarray(stored.matrix[kept[rows]]))
        del stored
    missing = writer.missing()
    contents = _contents_of(corpus, missing) if len(missing) < len(corpus) else corpus.contents()
    for start in range(0, len(missing), SHARD):
        progress("encoding", start, len(missing))
        rows = missing[start : start + SHARD]
        vectors: Floats = encoder.encode(list(islice(contents, len(rows))), role="passage")
        writer.write(rows, vectors)
    progress("encoding", len(missing), len(missing))
    writer.finish({"verb": "index", **seen, "dimension": encoder.dimension, "cut": cut, "made_by": encoder.name})
    return len(missing)


# ---------------------------------------------------------------- neighbours


def index_ann(layout: Layout, corpus: Corpus, progress: Progress, *, more_than: int = EXACT_UP_TO) -> str:
    """Build the neighbour graph where the corpus is large enough to need one; returns which index there is.

    Without faiss large corpora are searched exactly: slower, never wrong.
    """
    if len(corpus) <= more_than or importlib.util.find_spec("faiss") is None:
        shutil.rmtree(layout.ann, ignore_errors=True)
        return "exact"
    key = read_manifest(layout.manifest(layout.vectors))
    manifest = read_manifest(layout.manifest(layout.ann))
    if manifest is None or manifest["vectors"] != key:
        progress("neighbour index", 0, None)
        new = layout.ann.with_name("ann.partial")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        AnnIndex.build(open_vectors(layout).matrix, layout.ann_graph(new))
        write_manifest(layout.manifest(new), {"verb": "index", "vectors": key})
        replace_folder(new, layout.ann)
    return "ann"
