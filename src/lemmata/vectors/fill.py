"""Vectors of passages and of summaries: encode what has none yet, shard by shard, and link near ones in large sets."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Protocol

import numpy as np

from lemmata.core.artefacts import Artefact, is_current, making, read_undamaged
from lemmata.core.errors import ConfigError
from lemmata.core.files import read_array
from lemmata.core.types import Encoder, Floats, Integers, Progress
from lemmata.core.workers import cluster_map, is_on_cluster
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.texts import Hashes, match_rows
from lemmata.encode.load import load_encoder
from lemmata.encode.remote import BATCH, RemoteEncoder
from lemmata.vectors.ann import EXACT_UP_TO, AnnIndex
from lemmata.vectors.store import StoredVectors, VectorWriter

SHARD = 512  # texts encoded between two checkpoints: less than a minute on a small machine
_FIRST_STEP = 8  # texts until the first report on them
_SAMPLE = 24  # texts, spread over all, whose time tells that of all
_LONG = 10  # seconds; where it takes longer, the label of the progress says how long
_SENT_TEXTS = 128  # texts that a process of a cluster encodes at once: seconds of work, less than a megabyte
_COPIED = 100_000  # vectors copied at once
_MAX_CHANGED = 0.2  # rows that came or went, as a share, above which a graph is built again and old vectors are no help


def move_vectors(old: StoredVectors, hashes: Hashes) -> StoredVectors | None:
    """Vectors of an earlier corpus by the rows of the present one, 0 for new texts; None where many are new.

    They are copied, so that there are none of a corpus that is large enough for a neighbour index.
    """
    matches = match_rows(np.asarray(old.hashes), hashes)
    is_new = matches < 0
    if len(hashes) > EXACT_UP_TO or is_new.mean() > _MAX_CHANGED:
        return None
    matrix, crowding = (np.asarray(values[np.maximum(matches, 0)]) for values in (old.matrix, old.crowding.values))
    matrix[is_new] = crowding[is_new] = 0
    return old._replace(matrix=matrix, hashes=hashes, crowding=old.crowding._replace(values=crowding))


class OldVectors(Protocol):
    """Vectors of passages or of summaries, as they were stored before."""

    @property
    def matrix(self) -> Floats: ...
    @property
    def hashes(self) -> Hashes: ...
    @property
    def made_by(self) -> str: ...


def fill_vectors(
    workspace: Workspace,
    name: str,
    encoder: Encoder,
    hashes: Hashes,
    old: OldVectors | None,
    read: Callable[[Integers], Iterable[str]],
    *,
    kind: str = "vectors",
) -> tuple[VectorWriter, int]:
    """Write the vectors of all texts, and say how many had to be encoded; the caller finishes the writer.

    `name` is what `load_encoder` takes. `old` ones of the same encoder are copied, the texts of others come from
    `read`. `kind` is vectors or summaries.
    """
    writer = VectorWriter(workspace, name, encoder.dimension, hashes, made_by=encoder.name, name=kind)
    sources = [] if writer.begun is None else [writer.begun]
    if old is not None and (old.made_by, old.matrix.shape[1]) == (encoder.name, encoder.dimension):
        sources.append((old.matrix, np.asarray(old.hashes)))
    for matrix, known in sources:
        matches = match_rows(known, hashes)
        for start in range(0, len(matches), _COPIED):
            rows = np.flatnonzero(matches[start : start + _COPIED] >= 0) + start
            if len(rows):
                writer.copy(rows, matrix, matches[rows])
    missing = writer.missing()
    what = "encoding" if kind == "vectors" else f"encoding {kind}"
    _encode_missing(writer, missing, read, encoder, workspace.progress, what)
    return writer, len(missing)


def _encode_missing(
    writer: VectorWriter,
    missing: Integers,
    read: Callable[[Integers], Iterable[str]],
    encoder: Encoder,
    progress: Progress,
    what: str,
) -> None:
    """Encode the texts of the rows that are `missing`, which `read` gives, and write them shard by shard.

    A few of them, spread over all, are encoded first: their time is that which the others will take. On a cluster, its
    nodes load the encoder and get the texts; one at an address is asked from here.
    """
    if is_on_cluster() and not isinstance(encoder, RemoteEncoder):
        _encode_on_cluster(writer, missing, read, encoder, progress, what)
        return
    total, encoded = len(missing), 0
    pace = BATCH if isinstance(encoder, RemoteEncoder) else _FIRST_STEP
    if not isinstance(encoder, RemoteEncoder) and total > SHARD:
        for count in (_FIRST_STEP, _SAMPLE):  # the first ones also warm it up
            progress("timing the encoder", encoded, _FIRST_STEP + _SAMPLE)
            rows = missing[np.linspace(0, len(missing) - 1, count).astype(np.int64)]
            begin = time.perf_counter()
            writer.write(rows, encoder.encode(list(read(rows)), role="passage"))
            seconds = (time.perf_counter() - begin) / count * len(missing)
            missing = np.setdiff1d(missing, rows)
            encoded += count
        progress("timing the encoder", encoded, encoded)
        what = f"{what}, about {_duration(seconds)}" if seconds > _LONG else what
    progress(what, encoded, total)
    for start in range(0, len(missing), SHARD):
        rows = missing[start : start + SHARD]
        texts = list(read(rows))
        vectors = np.empty((len(texts), encoder.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))  # equal lengths need no padding
        done = 0
        while done < len(texts):
            step = order[done : done + pace]
            begin = time.perf_counter()
            vectors[step] = encoder.encode([texts[place] for place in step], role="passage")
            seconds = time.perf_counter() - begin
            done += len(step)
            progress(what, encoded + start + done, total)
            if not isinstance(encoder, RemoteEncoder):  # that one is paid by call: a step is one
                within_a_second = 0.4 * len(step) / max(seconds, 1e-6)
                pace = int(np.clip(within_a_second, max(1, pace // 4), min(2 * pace, SHARD)))
        writer.write(rows, vectors)


def _encode_on_cluster(
    writer: VectorWriter,
    missing: Integers,
    read: Callable[[Integers], Iterable[str]],
    encoder: Encoder,
    progress: Progress,
    what: str,
) -> None:
    models = writer.workspace.models_folder.absolute()
    load = partial(load_encoder, writer.encoder, dimension=encoder.dimension, threads=1, models=models)
    parts = (missing[start : start + _SENT_TEXTS] for start in range(0, len(missing), _SENT_TEXTS))
    items = ((rows, list(read(rows))) for rows in parts)
    encoded = 0
    progress(what, encoded, len(missing))
    for (rows, _), vectors in cluster_map(partial(_encode_part, load, encoder.name), items, batch=1):
        writer.write(rows, vectors)
        encoded += len(rows)
        progress(what, encoded, len(missing))


def _encode_part(load: Callable[[], Encoder], name: str, part: tuple[Integers, list[str]]) -> Floats:
    return _loaded(load, name).encode(part[1], role="passage")


@lru_cache(maxsize=1)
def _loaded(load: Callable[[], Encoder], name: str) -> Encoder:
    """The encoder of a node; ConfigError for another one than on the machine that asks for it."""
    encoder = load()
    if encoder.name != name:
        raise ConfigError(f"a node of the cluster has the encoder {encoder.name}, not {name}: give it the same one")
    return encoder


def _duration(seconds: float) -> str:
    """A time in words: 40 seconds, 12 minutes, 3.5 hours."""
    if seconds < 90:
        return f"{round(seconds, -1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 90 * 60 else f"{seconds / 3600:.1f} hours"


def build_neighbours(workspace: Workspace, item: Artefact, matrix: Floats, *, more_than: int = EXACT_UP_TO) -> str:
    """Build an HNSW graph where there are enough vectors to need one; returns which index there is, exact or ann.

    Without faiss, large corpora are searched exactly: slower, but exact.
    """
    if len(matrix) <= more_than or importlib.util.find_spec("faiss") is None:
        shutil.rmtree(item.folder, ignore_errors=True)
        return "exact"
    assert item.vectors is not None
    source = read_manifest(item.vectors) or {}
    recipe = {"verb": "index", "vectors": source}
    if is_current(item, {**recipe, "milvus": None}):
        return "ann"
    workspace.progress(item.name, 0, None)
    hashes = np.array(read_array(item.vectors.with_name("hashes.npy"), item.cure))
    before, nodes = read_undamaged(item) or {}, np.empty(0, np.uint64)
    maker = ("encoder", "made_by", "dimension", "cut")
    if before and "milvus" not in before and all(before["vectors"].get(key) == source.get(key) for key in maker):
        nodes = np.array(read_array(item.folder / "hashes.npy", item.cure))  # of the texts of the graph's nodes
    rows = match_rows(hashes, nodes)
    with making(item, recipe) as folder:
        if len(rows) + len(hashes) - 2 * np.count_nonzero(rows >= 0) > _MAX_CHANGED * len(rows):
            AnnIndex.build(matrix, workspace.ann_graph(folder))
            nodes = hashes
        else:
            _, rows = AnnIndex.grow(workspace.ann_graph(item.folder), rows, matrix, workspace.ann_graph(folder))
            nodes = np.concatenate([nodes, hashes[rows[len(nodes) :]]])
        np.save(folder / "hashes.npy", nodes)
    return "ann"
