"""Build and update the indexes of a workspace: BM25, vectors and, for large corpora, approximate neighbours.

What did not change since the last time is kept, and so is what a killed run finished.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from lemmata.encode.load import DEFAULT, load_encoder
from lemmata.encode.remote import BATCH, Estimate, RemoteEncoder
from lemmata.errors import WorkspaceError
from lemmata.files import read_array, writing
from lemmata.index.ann import EXACT_UP_TO, AnnIndex
from lemmata.index.lexical import FORMAT, LexicalIndex
from lemmata.stages.link import ExpandedCorpus
from lemmata.store.artefacts import artefact, read_undamaged, seal
from lemmata.store.corpus import Corpus
from lemmata.store.layout import Layout, read_manifest
from lemmata.store.vectors import VectorWriter, open_old_vectors, open_vectors
from lemmata.types import Encoder, Integers, Progress

__all__ = ["IndexOptions", "content_hashes", "estimate", "index", "index_ann", "index_lexical", "index_vectors"]

Hashes = npt.NDArray[np.uint64]

SHARD = 512  # passages encoded between two checkpoints: less than a minute on a small machine
_FIRST_STEP = 8  # passages until the first report on them
_MAX_DELETED = 0.2  # deleted passages, as a share of the corpus, above which the lexical index is rebuilt


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How a corpus is indexed."""

    SMALLEST: ClassVar = {"dimension": 0}
    encoder: str = DEFAULT  # packaged; or minilm, a model of the workspace, a folder, a hub name, a URL
    dimension: int = 0  # truncate the vectors of a Matryoshka model; 0: full length
    expand: bool = False  # index logs, and train on them, with the descriptions of their locations


class Contents(Protocol):
    """Texts to encode, one per row: a corpus, or a corpus with something added to its texts."""

    inputs: str

    def __len__(self) -> int: ...
    def contents(self, start: int = 0, stop: int | None = None) -> Iterator[str]: ...


class Headed(Contents, Protocol):
    """Texts with the headings of their sections, one per row."""

    def headings(self, start: int = 0, stop: int | None = None) -> Iterator[str]: ...


def index(
    layout: Layout,
    options: IndexOptions,
    progress: Progress,
    *,
    dense: bool = True,
    rebuild: bool = False,
    key: str = "",
) -> dict[str, Any]:
    """Bring all indexes up to date; returns how many passages each of them had to work on.

    `rebuild` starts the lexical index from scratch.
    """
    begin = time.perf_counter()
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus:
        if not len(corpus):
            raise WorkspaceError(f"the corpus in {layout.root} is empty: ingest something first")
        report: dict[str, Any] = {"passages": len(corpus)}
        if rebuild:
            layout.manifest(layout.lexical).unlink(missing_ok=True)
        texts: Corpus | ExpandedCorpus = corpus
        expansion = ""
        if options.expand:
            texts = expanded = ExpandedCorpus(layout, corpus)
            expansion = expanded.expansion
        report["tokenised"] = index_lexical(layout, texts, progress, expansion=expansion)
        if dense:
            encoder = _encoder(layout, options, key)
            report["encoder"] = encoder.name
            before = read_manifest(layout.manifest(layout.vectors)) or {}
            if before.get("made_by", encoder.name) != encoder.name:
                report["replaced_encoder"] = before["made_by"]
            report["encoded"] = index_vectors(
                layout,
                texts,
                content_hashes(texts, progress),
                encoder,
                options.encoder,
                progress,
                cut=options.dimension,
                expansion=expansion,
            )
            report["neighbours"] = index_ann(layout, corpus, progress)  # exact or ann
            if "replaced_encoder" in report and layout.fusion.exists():
                layout.fusion.unlink()  # it was chosen for the vectors of the other encoder
                report["dropped_fusion"] = True
    report["seconds"] = time.perf_counter() - begin
    return report


def estimate(layout: Layout, options: IndexOptions, *, key: str = "") -> Estimate | None:
    """Calls and tokens that a remote encoder would need for the whole corpus; None for a local encoder."""
    if not options.encoder.startswith(("http://", "https://")):
        return None
    encoder = _encoder(layout, options, key)
    assert isinstance(encoder, RemoteEncoder)
    parts = []
    with contextlib.closing(Corpus(layout)) as corpus:
        contents = (ExpandedCorpus(layout, corpus) if options.expand else corpus).contents()
        while batch := list(islice(contents, 1000)):
            parts.append(encoder.estimate(batch))
    return Estimate(
        sum(part.tokens for part in parts),
        sum(part.calls for part in parts),
        sum(part.cached for part in parts),
    )


def _encoder(layout: Layout, options: IndexOptions, key: str) -> Encoder:
    return load_encoder(
        options.encoder,
        dimension=options.dimension or None,
        key=key,
        cache=layout.encodings,
        models=layout.models,
    )


def content_hashes(corpus: Contents, progress: Progress) -> Hashes:
    """A hash of the text of each row (n,)."""
    return _hashes(corpus.contents(), len(corpus), progress)


def _hashes(texts: Iterable[str], count: int, progress: Progress) -> Hashes:
    hashes = np.empty(count, dtype=np.uint64)
    for row, text in enumerate(texts):
        hashes[row] = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        if row % 50_000 == 0 and row:
            progress("hashing passages", row, count)
    return hashes


def _match_rows(old: Hashes, new: Hashes) -> Integers:
    """For each new row an old row with the same hash, each old row once; -1 where there is none."""
    old_rows: dict[int, list[int]] = defaultdict(list)
    for row in range(len(old) - 1, -1, -1):
        old_rows[int(old[row])].append(row)
    matches = np.full(len(new), -1, dtype=np.int64)
    for row, value in enumerate(new):
        rows = old_rows.get(int(value))
        if rows:
            matches[row] = rows.pop()
    return matches


# ---------------------------------------------------------------- lexical


def index_lexical(layout: Layout, corpus: Headed, progress: Progress, *, expansion: str = "") -> int:
    """Bring the lexical index up to date; returns how many passages were tokenised.

    `expansion` is a hash of what was added to the texts.
    """
    path = layout.manifest(layout.lexical)
    manifest = read_undamaged(artefact(layout, "lexical"))
    source = {"corpus": corpus.inputs, "lexical": FORMAT, "expansion": expansion}
    if manifest is not None and {name: manifest.get(name, "") for name in source} == source:
        return 0
    is_usable = manifest is not None and manifest.get("lexical") == FORMAT
    old_hashes = np.empty(0, np.uint64)
    if is_usable:  # copied: the file is replaced below
        old_hashes = np.array(read_array(layout.lexical / "hashes.npy", "run 'lemmata index --rebuild'"))
    headed = (f"{heading}\0{content}" for heading, content in zip(corpus.headings(), corpus.contents(), strict=True))
    hashes = _hashes(headed, len(corpus), progress)
    matches = _match_rows(old_hashes, hashes)
    path.unlink(missing_ok=True)
    deleted = len(old_hashes) - int((matches >= 0).sum())
    if not is_usable or deleted > _MAX_DELETED * len(hashes):
        contents = _with_progress(corpus.contents(), len(corpus), progress)
        LexicalIndex.build(contents, layout.lexical, headings=corpus.headings())
        new_rows = np.arange(len(corpus))
    else:
        new_rows = np.flatnonzero(matches < 0)
        order = np.full(len(old_hashes) + len(new_rows), -1, dtype=np.int64)
        unchanged = np.flatnonzero(matches >= 0)
        order[matches[unchanged]] = unchanged
        order[len(old_hashes) :] = new_rows
        contents = _with_progress(_of_rows(corpus.contents, new_rows), len(new_rows), progress)
        LexicalIndex.open(layout.lexical).add(contents, _of_rows(corpus.headings, new_rows), order=order)
        hashes = np.concatenate([old_hashes, hashes[new_rows]])
    np.save(layout.lexical / "hashes.npy", hashes)
    seal(layout.lexical, {"verb": "index", **source})
    return len(new_rows)


def _with_progress(contents: Iterator[str], total: int, progress: Progress) -> Iterator[str]:
    for number, content in enumerate(contents):
        if number % 1000 == 0:
            progress("lexical index", number, total)
        yield content


def _of_rows(read: Callable[[int, int], Iterator[str]], rows: Integers) -> Iterator[str]:
    """What `read` gives for some rows."""
    for row in rows.tolist():
        yield from read(row, row + 1)


# ---------------------------------------------------------------- vectors


def _next_pace(pace: int, encoded: int, seconds: float) -> int:
    """How many passages to encode until the next report, so that it comes within the second."""
    return int(np.clip(0.4 * encoded / max(seconds, 1e-6), max(1, pace // 4), min(2 * pace, SHARD)))


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

    Vectors of unchanged passages are copied when the same encoder made them. `spec` is the encoder as the user named
    it, `cut` the length to which it truncates its vectors, `expansion` a hash of what was added to the texts.
    """
    manifest = read_undamaged(artefact(layout, "vectors"))
    # the name is compared too: the model that `spec` names may have been trained again
    maker = {"encoder": spec, "made_by": encoder.name, "dimension": encoder.dimension}
    same_maker = manifest is not None and {name: manifest.get(name) for name in maker} == maker
    source = {"corpus": corpus.inputs, "expansion": expansion}
    if manifest is not None and same_maker and {name: manifest.get(name, "") for name in source} == source:
        return 0
    writer = VectorWriter(layout, spec, encoder.dimension, hashes, made_by=encoder.name)
    stored = open_old_vectors(layout) if same_maker else None
    if stored is not None:
        matches = _match_rows(np.asarray(stored.hashes), hashes)
        for start in range(0, len(matches), 100_000):
            rows = np.flatnonzero(matches[start : start + 100_000] >= 0) + start
            if len(rows):
                writer.write(rows, np.asarray(stored.matrix[matches[rows]]))
    del stored
    missing = writer.missing()
    contents = _of_rows(corpus.contents, missing) if len(missing) < len(corpus) else corpus.contents()
    progress("encoding", 0, len(missing))
    pace = BATCH if isinstance(encoder, RemoteEncoder) else _FIRST_STEP
    for start in range(0, len(missing), SHARD):
        rows = missing[start : start + SHARD]
        texts = list(islice(contents, len(rows)))
        vectors = np.empty((len(texts), encoder.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))  # equal lengths need no padding
        done = 0
        while done < len(texts):
            step = order[done : done + pace]
            begin = time.perf_counter()
            vectors[step] = encoder.encode([texts[place] for place in step], role="passage")
            seconds = time.perf_counter() - begin
            done += len(step)
            progress("encoding", start + done, len(missing))
            if not isinstance(encoder, RemoteEncoder):  # that one is paid by call: a step is one
                pace = _next_pace(pace, len(step), seconds)
        writer.write(rows, vectors)
    writer.finish({"verb": "index", **source, "dimension": encoder.dimension, "cut": cut, "made_by": encoder.name})
    return len(missing)


# ---------------------------------------------------------------- neighbours


def index_ann(layout: Layout, corpus: Corpus, progress: Progress, *, more_than: int = EXACT_UP_TO) -> str:
    """Build the HNSW graph where the corpus is large enough to need one; returns which index there is.

    Without faiss, large corpora are searched exactly: slower, but exact.
    """
    if len(corpus) <= more_than or importlib.util.find_spec("faiss") is None:
        shutil.rmtree(layout.ann, ignore_errors=True)
        return "exact"
    vectors = read_manifest(layout.manifest(layout.vectors))
    manifest = read_undamaged(artefact(layout, "ann"))
    if manifest is None or manifest["vectors"] != vectors:
        progress("neighbour index", 0, None)
        with writing(layout.ann) as temporary:
            temporary.mkdir()
            AnnIndex.build(open_vectors(layout).matrix, layout.ann_graph(temporary))
            seal(temporary, {"verb": "index", "vectors": vectors})
    return "ann"
