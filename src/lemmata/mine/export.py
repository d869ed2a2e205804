"""Mined records to training files: mixed from several sets, with their texts, in the formats that trainers read.

Everything streams; texts come from a TrainingView, so no row of another part can get into a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import ConfigError, require, suggest
from lemmata.core.files import writing
from lemmata.core.types import Integers, Mask, Negative, Pair, Passage, Triplet
from lemmata.corpus.training_files import BATCH
from lemmata.mine.material import TrainingView
from lemmata.mine.pairs import positive_text

Record = Pair | Triplet
Hashes = npt.NDArray[np.uint64]
CACHE = 50_000  # passages kept in memory while a file is written


# ---------------------------------------------------------------- mixing


@dataclass(frozen=True, slots=True)
class Mixture:
    """Which sets a training set is mixed from, and how much of each."""

    SMALLEST: ClassVar = {"total": 0}
    weights: dict[str, float] = field(default_factory=dict)  # set: share of `total`; empty: all sets alike
    caps: dict[str, int] = field(default_factory=dict)  # set: most records
    total: int = 0  # records of the mixture; 0: all there are


class Contribution(NamedTuple):
    """What one set gave to a mixture: `offered` is the sum of the other three."""

    source: str
    offered: int
    duplicates: int  # of itself, or of a set that the mixture names before
    capped: int  # left out by its cap, or by its share of the total
    kept: int


@contextlib.contextmanager
def mix_records(
    streams: Mapping[str, Iterable[Record]], mixture: Mixture, view: TrainingView
) -> Iterator[tuple[Iterator[Record], list[Contribution]]]:
    """The records of several sets in a random order, to be read once, and what each gave.

    Sets that the weights do not name, or weigh 0, are left out. Records with the same texts of anchor and positive are
    duplicates: the set named first keeps its record. A set with more than its cap gives a random choice. Where there is
    more than `total`, each set gives its weight's share, and the others fill up for a set that is too small. The choice
    and the order depend on the texts, not on the order of the records. Records wait in a temporary file:
    memory is 41 bytes per record.
    """
    weights = mixture.weights or dict.fromkeys(streams, 1.0)
    for name, amount in (*weights.items(), *mixture.caps.items()):
        if name not in streams:
            raise ConfigError(f"the mixture names an unknown set {name!r}{suggest(name, list(streams))}")
        if amount < 0:
            raise ConfigError(f"the mixture gives {name!r} the negative amount {amount}")
    names = [name for name in weights if weights[name]]
    with tempfile.TemporaryFile() as spool:
        offers = _spool_records(spool, [streams[name] for name in names], view)
        random_keys = _random_keys(offers.text_hashes[:, 0])
        unique = _first_of_equal_texts(offers)
        by_source = [np.flatnonzero(unique & (offers.source == number)) for number in range(len(names))]
        counts = np.array(
            [min(len(rows), mixture.caps.get(name, len(rows))) for name, rows in zip(names, by_source, strict=True)],
            np.int64,
        )
        if mixture.total:
            counts = _share(counts, np.array([weights[name] for name in names]), mixture.total)
        chosen = np.zeros(len(unique), bool)
        table = []
        for number, (name, rows) in enumerate(zip(names, by_source, strict=True)):
            kept = int(counts[number])
            chosen[rows[np.argsort(random_keys[rows], kind="stable")][:kept]] = True
            offered = int((offers.source == number).sum())
            table.append(Contribution(name, offered, offered - len(rows), len(rows) - kept, kept))
        order = np.flatnonzero(chosen)
        order = order[np.argsort(random_keys[order], kind="stable")]
        yield _read_spool(spool, offers.starts, order), table


class _Offers(NamedTuple):
    """Every record offered, set after set."""

    starts: Integers  # (n + 1,) where each begins in the file
    source: npt.NDArray[np.int8]  # (n,)
    text_hashes: Hashes  # (n, 2) of the texts of anchor and positive
    record_hashes: Hashes  # (n,) of the whole record


def _spool_records(spool: IO[bytes], streams: Sequence[Iterable[Record]], view: TrainingView) -> _Offers:
    starts, sources, text_hashes, record_hashes = array("q", [0]), array("b"), bytearray(), bytearray()
    end = 0
    texts = RecordTexts(view)
    for number, stream in enumerate(streams):
        for batch in texts.batches(stream, 0):
            for record in batch:
                pair, _ = parts_of(record, 0)
                value = json.dumps(record, ensure_ascii=False, default=lambda scalar: scalar.item())  # numpy scalars
                line = value.encode("utf-8", "surrogatepass") + b"\n"
                spool.write(line)
                end += len(line)
                starts.append(end)
                sources.append(number)
                both = f"{texts.anchor(pair)}\0{texts.positive(pair)}".encode("utf-8", "surrogatepass")
                text_hashes += hashlib.blake2b(both, digest_size=16).digest()
                record_hashes += hashlib.blake2b(line, digest_size=8).digest()
    return _Offers(
        np.array(starts, np.int64),
        np.array(sources, np.int8),
        np.frombuffer(bytes(text_hashes), np.uint64).reshape(-1, 2),
        np.frombuffer(bytes(record_hashes), np.uint64),
    )


def _first_of_equal_texts(offers: _Offers) -> Mask:
    """The first record of each pair of texts, by set, then by content."""
    hashes = offers.text_hashes
    order = np.lexsort((offers.record_hashes, offers.source, hashes[:, 1], hashes[:, 0]))
    first = np.ones(len(order), bool)
    first[1:] = (hashes[order][1:] != hashes[order][:-1]).any(axis=1)
    unique = np.zeros(len(order), bool)
    unique[order[first]] = True
    return unique


def _random_keys(hashes: Hashes) -> Hashes:
    """A deterministic random key per hash."""
    key = np.frombuffer(hashlib.blake2b(b"0", digest_size=16).digest(), np.uint64)
    mixed = (hashes ^ key[0]) * (key[1] | np.uint64(1))
    return np.asarray((mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93))


def _share(available: Integers, weights: npt.NDArray[np.float64], total: int) -> Integers:
    """How many records each set gives, by weight; a set that has too few gives all, the others share the rest."""
    if available.sum() <= total:
        return available
    counts = np.zeros(len(available), np.int64)
    exhausted = np.zeros(len(available), bool)
    while True:
        share = np.where(exhausted, 0, weights) / weights[~exhausted].sum() * (total - counts[exhausted].sum())
        short = ~exhausted & (available <= share)
        if not short.any():
            break
        counts[short] = available[short]
        exhausted |= short
    counts[~exhausted] = np.floor(share[~exhausted]).astype(np.int64)
    missing = total - int(counts.sum())
    remainders = np.where(exhausted, -1.0, share - np.floor(share))
    counts[np.argsort(-remainders, kind="stable")[:missing]] += 1
    return counts


def _read_spool(spool: IO[bytes], starts: Integers, order: Integers) -> Iterator[Record]:
    for number in order.tolist():
        spool.seek(int(starts[number]))
        value = json.loads(spool.read(int(starts[number + 1] - starts[number])).decode("utf-8", "surrogatepass"))
        if isinstance(value[0], list):
            yield Triplet(Pair(*value[0]), tuple(Negative(*negative) for negative in value[1]))
        else:
            yield Pair(*value)


def parts_of(record: Record, most: int | None = None) -> tuple[Pair, tuple[Negative, ...]]:
    """The pair of a record, and its negatives or the first of them."""
    return (record, ()) if isinstance(record, Pair) else (record.pair, record.negatives[:most])


class RecordTexts:
    """The passages of records; those read last stay in memory, because the same ones come again."""

    def __init__(self, view: TrainingView) -> None:
        self.view = view
        self.passages: dict[int, Passage] = {}
        self.indexed: dict[int, str] = {}

    def batches(self, records: Iterable[Record], negatives: int) -> Iterator[list[Record]]:
        """The records in batches, the passages of each batch ready; of their negatives the first ones only."""
        iterator = iter(records)
        while batch := list(itertools.islice(iterator, BATCH)):
            self.read(batch, negatives)
            yield batch

    def read(self, batch: Sequence[Record], negatives: int | None = None) -> None:
        """Make the passages of some records ready; of their negatives the first ones only, or all."""
        rows: set[int] = set()
        for record in batch:
            pair, others = parts_of(record, negatives)
            ends = [pair.positive] if isinstance(pair.anchor, str) else [pair.positive, pair.anchor]
            rows.update(map(int, [*ends, *(negative.row for negative in others)]))
        if len(self.passages) + len(rows) > CACHE:
            self.passages = {row: self.passages[row] for row in rows if row in self.passages}
            self.indexed = {row: self.indexed[row] for row in self.passages}
        missing = sorted(rows.difference(self.passages))
        for row, passage in zip(missing, self.view.passages(missing), strict=True):
            self.indexed[row] = self.view.indexed(passage)
            # without what no file shows, which can be long
            self.passages[row] = Passage(passage.id, passage.document, passage.kind, passage.text, passage.title)

    def text(self, row: int) -> str:
        """Of a passage that is found, as it is indexed."""
        return self.indexed[row]

    def positive(self, pair: Pair) -> str:
        return positive_text(pair, self.passages[pair.positive], self.indexed[pair.positive])

    def anchor(self, pair: Pair) -> str:
        """A passage that stands for a query is as it was written."""
        return pair.anchor if isinstance(pair.anchor, str) else self.passages[pair.anchor].content


# ---------------------------------------------------------------- writing


def write_training(
    records: Iterable[Record], view: TrainingView, path: Path, *, file_format: str = "parquet", negatives: int = 0
) -> int:
    """Write records with their texts, atomically; returns how many.

    Of each record's negatives the first `negatives` are written. `parquet`: columns anchor, positive,
    negative_1 … negative_n (null where a record has fewer), the ids (no anchor_id where the anchor is no
    passage), and who made the record and why. `tevatron` and `flagembedding`: JSON lines of those trainers.
    `tsv`: anchor, positive, negative, one line per negative, the third field empty where there is none.
    """
    if file_format not in FORMATS:
        raise ConfigError(f"there is no format {file_format!r}{suggest(file_format, FORMATS)}")
    with writing(path) as temporary:
        if file_format == "parquet":
            return _write_parquet(records, view, temporary, negatives)
        count = 0
        texts = RecordTexts(view)
        to_line = LINES[file_format]
        with temporary.open("w", encoding="utf-8", errors="replace", newline="\n") as stream:
            for batch in texts.batches(records, negatives):
                stream.writelines(to_line(*parts_of(record, negatives), texts) for record in batch)
                count += len(batch)
        return count


def _write_parquet(records: Iterable[Record], view: TrainingView, path: Path, negatives: int) -> int:
    arrow = require("pyarrow", "parquet")
    parquet = require("pyarrow.parquet", "parquet")
    string, strings = arrow.string(), arrow.list_(arrow.string())
    columns = [
        *((name, string) for name in ("anchor", "positive", *_negative_columns(negatives), "anchor_id", "positive_id")),
        *((name, strings) for name in ("negative_ids", "negative_proposers", "negative_reasons")),
        ("negative_scores", arrow.list_(arrow.float64())),
        *((name, string) for name in ("source", "relation", "reason")),
        ("weight", arrow.float64()),
    ]
    schema = arrow.schema(columns)
    texts = RecordTexts(view)
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in texts.batches(records, negatives):
            rows = [_columns(*parts_of(record, negatives), texts, negatives) for record in batch]
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
            count += len(batch)
    return count


def _negative_columns(number: int) -> list[str]:
    return [f"negative_{n}" for n in range(1, number + 1)]


def _columns(pair: Pair, others: Sequence[Negative], texts: RecordTexts, negatives: int) -> dict[str, Any]:
    negative_texts = [_encodable(texts.text(negative.row)) for negative in others]
    return {
        "anchor": _encodable(texts.anchor(pair)),
        "positive": _encodable(texts.positive(pair)),
        **dict(itertools.zip_longest(_negative_columns(negatives), negative_texts)),
        "anchor_id": None if isinstance(pair.anchor, str) else texts.passages[pair.anchor].id,
        "positive_id": texts.passages[pair.positive].id,
        "negative_ids": [texts.passages[negative.row].id for negative in others],
        "negative_proposers": [negative.proposer for negative in others],
        "negative_reasons": [_encodable(negative.reason) for negative in others],
        "negative_scores": [float(negative.score) for negative in others],
        "source": pair.source,
        "relation": pair.relation,
        "reason": _encodable(pair.reason),
        "weight": float(pair.weight),
    }


def _encodable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _tevatron(pair: Pair, others: Sequence[Negative], texts: RecordTexts) -> str:
    def passage(row: int) -> dict[str, str]:
        shown = texts.passages[row]
        return {"docid": shown.id, "title": shown.title, "text": shown.text}

    query = texts.anchor(pair)
    query_hash = hashlib.blake2b(query.encode("utf-8", "replace"), digest_size=8).hexdigest()
    value = {
        "query_id": query_hash if isinstance(pair.anchor, str) else texts.passages[pair.anchor].id,
        "query": query,
        "positive_passages": [passage(pair.positive)],
        "negative_passages": [passage(negative.row) for negative in others],
    }
    return json.dumps(value, ensure_ascii=False) + "\n"


def _flagembedding(pair: Pair, others: Sequence[Negative], texts: RecordTexts) -> str:
    negatives = [texts.text(negative.row) for negative in others]
    value = {"query": texts.anchor(pair), "pos": [texts.positive(pair)], "neg": negatives}
    return json.dumps(value, ensure_ascii=False) + "\n"


def _tsv(pair: Pair, others: Sequence[Negative], texts: RecordTexts) -> str:
    head = [" ".join(text.split()) for text in (texts.anchor(pair), texts.positive(pair))]
    tails = [" ".join(texts.text(negative.row).split()) for negative in others] or [""]
    return "".join("\t".join((*head, tail)) + "\n" for tail in tails)


LINES = {"tevatron": _tevatron, "flagembedding": _flagembedding, "tsv": _tsv}
FORMATS = ("parquet", *LINES)
