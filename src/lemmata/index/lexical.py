"""BM25 over the tokens of passages: plain arrays on disk, opened in milliseconds, incremental.

The score of a passage p for the distinct tokens t of a query (Robertson and Zaragoza 2009, with Lucene's idf):

    sum over t of  idf(t) * f / (f + k1 * (1 - b + b * |p| / mean length)),   f: how often t stands in p
    idf(t) = log(1 + (n - df + 0.5) / (df + 0.5)),                            df: passages that hold t

A folder holds segments of consecutive rows and `index.json`, which names them. What is stored (frequencies and
lengths) does not depend on the rest of the collection; df and the mean length are summed over all segments at query
time. So an index that grew gives exactly the scores of one that was built at once.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.errors import WorkspaceError
from lemmata.files import write_atomically, writing
from lemmata.index.exact import best, check_allowed
from lemmata.index.tokens import tokenize
from lemmata.types import Floats, Integers, Mask

__all__ = ["ORDER", "LexicalIndex", "OrderedLexical"]

ORDER = "order.npy"  # corpus rows, where they differ

_FORMAT = 1  # raised when the files or the tokens change
_INDEX = "index.json"
_CHUNK = 1 << 16  # passages counted in memory at once
_MERGED_POSTINGS = 1 << 22  # postings moved in memory at once


class _Segment(NamedTuple):
    """The postings of consecutive passages; token i stands in `rows[starts[i] : starts[i + 1]]`."""

    keys: npt.NDArray[np.uint64]  # (tokens,) hashes, sorted
    starts: Integers  # (tokens + 1,)
    rows: npt.NDArray[np.int32]  # (postings,) counted from the first passage of the segment
    frequencies: npt.NDArray[np.uint16]  # (postings,)
    lengths: npt.NDArray[np.int32]  # (passages,) in tokens


class LexicalIndex:
    """BM25 over a folder that `build` or `add` wrote; memory-mapped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._load()

    @classmethod
    def build(cls, texts: Iterable[str], folder: Path, *, k1: float = 1.2, b: float = 0.8) -> LexicalIndex:
        """Index the texts, row by row; an existing index in the folder is replaced at the end."""
        with writing(folder) as temporary:
            temporary.mkdir()
            _write_index(temporary, _write_segments(texts, temporary, first=0), k1, b)
        return cls(folder)

    @classmethod
    def open(cls, folder: Path) -> LexicalIndex:
        """Open what `build` wrote; WorkspaceError where there is no complete index."""
        return cls(folder)

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def add(self, texts: Iterable[str]) -> None:
        """Append passages; they can be found at once.

        Segments are merged when a later one is more than half as long as the one before it, so there are
        never more than log2(passages) of them and each posting is moved at most that often.
        """
        used = [int(name.split("-")[1]) for name in self._names]
        names = self._names + _write_segments(texts, self._folder, first=max(used, default=-1) + 1)
        lengths = [len(_read_segment(self._folder / name).lengths) for name in names]
        while len(names) > 1 and 2 * lengths[-1] > lengths[-2]:
            merged = f"segment-{max(int(name.split('-')[1]) for name in names) + 1}"
            _merge([self._folder / name for name in names[-2:]], self._folder / merged)
            names[-2:] = [merged]
            lengths[-2:] = [lengths[-2] + lengths[-1]]
        _write_index(self._folder, names, self._k1, self._b)
        for path in self._folder.glob("segment-*"):
            if path.name not in names:
                shutil.rmtree(path)
        self._load()

    def search(self, queries: Sequence[str], k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]:
        """Rows and scores as in lemmata.types.Index; passages without a token of the query are no hits."""
        check_allowed(allowed, len(self))
        rows = np.full((len(queries), k), -1, np.int64)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        for number, query in enumerate(queries):
            query_rows, query_scores = self._search(query, k, allowed)
            rows[number, : len(query_rows)] = query_rows
            scores[number, : len(query_rows)] = query_scores
        return rows, scores

    def _search(self, query: str, k: int, allowed: Mask | None) -> tuple[Integers, Floats]:
        keys = np.array([_key(token) for token in dict.fromkeys(tokenize(query))], np.uint64)
        ranges = [_find(segment, keys) for segment in self._segments]
        counts = sum((stops - starts for starts, stops in ranges), np.zeros(len(keys), np.int64))
        weights = np.log1p((len(self) - counts + 0.5) / (counts + 0.5)).astype(np.float32)
        hit_rows: list[Integers] = [np.empty(0, np.int64)]  # of each segment
        hit_scores: list[Floats] = [np.empty(0, np.float32)]
        for number, (segment, (starts, stops)) in enumerate(zip(self._segments, ranges, strict=True)):
            first, last = self._offsets[number], self._offsets[number + 1]
            norms = self._norms[first:last]
            scores = np.zeros(last - first, np.float32)
            for start, stop, weight in zip(starts.tolist(), stops.tolist(), weights, strict=True):
                if start == stop:
                    continue
                rows = segment.rows[start:stop].astype(np.intp)  # once, instead of in each of two indexings
                frequencies = segment.frequencies[start:stop].astype(np.float32)
                scores[rows] += weight * frequencies / (frequencies + norms[rows])
            if allowed is not None:
                scores *= allowed[first:last]
            winners = best(scores, k)
            winners = winners[scores[winners] > 0]
            hit_rows.append(winners + first)
            hit_scores.append(scores[winners])
        merged = np.concatenate(hit_scores)
        winners = best(merged, k)
        return np.concatenate(hit_rows)[winners], merged[winners]

    def _load(self) -> None:
        path = self._folder / _INDEX
        try:
            content = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise WorkspaceError(f"{path} cannot be read: run 'lemmata index' again") from error
        if content.get("format") != _FORMAT:
            raise WorkspaceError(f"{self._folder} has another format: run 'lemmata index' again")
        self._k1, self._b = float(content["k1"]), float(content["b"])
        self._names: list[str] = content["segments"]
        self._segments = [_read_segment(self._folder / name) for name in self._names]
        self._offsets = np.cumsum([0, *(len(segment.lengths) for segment in self._segments)])
        lengths = np.concatenate([np.empty(0, np.int32), *(segment.lengths for segment in self._segments)])
        # summed as integers: the mean does not depend on the segments
        mean = max(1.0, int(lengths.sum(dtype=np.int64)) / max(1, len(lengths)))
        self._norms: Floats = (self._k1 * (1 - self._b + self._b * lengths / mean)).astype(np.float32)


class OrderedLexical(NamedTuple):
    """A lexical index in rows of the corpus: its own order may differ, and some of its passages may be deleted."""

    ranker: LexicalIndex
    order: Integers | None  # corpus row of each passage, -1 for a deleted one; None: the order of the corpus

    @classmethod
    def open(cls, folder: Path) -> OrderedLexical:
        """The index of a folder, with its order if it has one."""
        order = folder / ORDER
        return cls(LexicalIndex.open(folder), np.load(order, mmap_mode="r") if order.exists() else None)

    def search(self, queries: Sequence[str], k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]:
        """BM25 rankings in rows of the corpus."""
        if self.order is None:
            return self.ranker.search(queries, k, allowed)
        selected = self.order >= 0
        if allowed is not None:
            selected &= allowed[self.order]
        rows, scores = self.ranker.search(queries, k, None if selected.all() else selected)
        return np.where(rows >= 0, self.order[rows], -1), scores


def _key(token: str) -> int:
    """64-bit hash of a token; two of a million tokens collide in one of forty million indexes."""
    return int.from_bytes(blake2b(token.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def _find(segment: _Segment, keys: npt.NDArray[np.uint64]) -> tuple[Integers, Integers]:
    """Where the postings of each key start and stop; equal where the segment lacks the key."""
    if not len(segment.keys):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    places = np.minimum(np.searchsorted(segment.keys, keys), len(segment.keys) - 1)
    held = segment.keys[places] == keys
    starts = segment.starts[places]
    return starts, np.where(held, segment.starts[places + 1], starts)


# ---------------------------------------------------------------- on disk


def _write_index(folder: Path, names: list[str], k1: float, b: float) -> None:
    content = {"format": _FORMAT, "k1": k1, "b": b, "segments": names}
    write_atomically(folder / _INDEX, json.dumps(content, indent=1).encode())


def _write_segments(texts: Iterable[str], folder: Path, first: int) -> list[str]:
    """Write the texts as one segment (none without texts), chunk by chunk so that memory stays bounded."""
    parts: list[Path] = []
    remaining = iter(texts)
    while chunk := _count(islice(remaining, _CHUNK)):
        parts.append(folder / f"segment-{first + len(parts)}")
        _write_segment(chunk, parts[-1])
    if len(parts) > 1:
        merged = folder / f"segment-{first + len(parts)}"
        _merge(parts, merged)
        for part in parts:
            shutil.rmtree(part)
        parts = [merged]
    return [part.name for part in parts]


def _count(texts: Iterator[str]) -> _Segment | None:
    """The postings of some texts; None without texts."""
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__  # a new token gets the next number
    numbers: list[npt.NDArray[np.int32]] = []
    for text in texts:
        tokens = tokenize(text)
        numbers.append(np.fromiter(map(vocabulary.__getitem__, tokens), np.int32, len(tokens)))
    if not numbers:
        return None
    lengths = np.array([len(tokens) for tokens in numbers], np.int32)
    keys, places = np.unique(np.fromiter(map(_key, vocabulary), np.uint64, len(vocabulary)), return_inverse=True)
    flat = places[np.concatenate(numbers)] * len(numbers) + np.repeat(np.arange(len(numbers)), lengths)
    postings, frequencies = np.unique(flat, return_counts=True)
    starts = np.searchsorted(postings, np.arange(len(keys) + 1) * len(numbers))
    return _Segment(
        keys,
        starts.astype(np.int64),
        (postings % len(numbers)).astype(np.int32),
        np.minimum(frequencies, np.iinfo(np.uint16).max).astype(np.uint16),
        lengths,
    )


def _write_segment(segment: _Segment, folder: Path) -> None:
    with writing(folder) as temporary:
        temporary.mkdir()
        for name, array in segment._asdict().items():
            np.save(temporary / f"{name}.npy", array)


def _read_segment(folder: Path) -> _Segment:
    try:
        # asarray: still memory-mapped, but sliced without the cost of the memmap class
        arrays = [np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in _Segment._fields]
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"{folder} cannot be read: run 'lemmata index' again") from error
    return _Segment(*arrays)


def _merge(folders: Sequence[Path], merged: Path) -> None:
    """Join segments of consecutive rows; a bounded number of postings is in memory at a time."""
    segments = [_read_segment(folder) for folder in folders]
    keys = np.unique(np.concatenate([segment.keys for segment in segments]))
    places = [np.searchsorted(keys, segment.keys) for segment in segments]
    counts = np.zeros(len(keys), np.int64)
    for segment, positions in zip(segments, places, strict=True):
        counts[positions] += np.diff(segment.starts)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    total = (int(starts[-1]),)
    with writing(merged) as temporary:
        temporary.mkdir()
        np.save(temporary / "keys.npy", keys)
        np.save(temporary / "starts.npy", starts)
        np.save(temporary / "lengths.npy", np.concatenate([segment.lengths for segment in segments]))
        rows = np.lib.format.open_memmap(temporary / "rows.npy", "w+", np.dtype(np.int32), total)
        frequencies = np.lib.format.open_memmap(temporary / "frequencies.npy", "w+", np.dtype(np.uint16), total)
        free = starts[:-1].copy()  # where the next posting of each token goes
        offset = 0
        for segment, positions in zip(segments, places, strict=True):
            segment_counts = np.diff(segment.starts)
            first = 0
            while first < len(positions):
                last = int(np.searchsorted(segment.starts, segment.starts[first] + _MERGED_POSTINGS, "right")) - 1
                last = min(max(last, first + 1), len(positions))
                begin, end = int(segment.starts[first]), int(segment.starts[last])
                shift = free[positions[first:last]] - segment.starts[first:last]
                targets = np.arange(begin, end) + np.repeat(shift, segment_counts[first:last])
                rows[targets] = segment.rows[begin:end] + np.int32(offset)
                frequencies[targets] = segment.frequencies[begin:end]
                first = last
            free[positions] += segment_counts
            offset += len(segment.lengths)
        rows.flush()
        frequencies.flush()
        del rows, frequencies
