"""Mined records to training files: mixed by a recipe, with their texts, in the formats that trainers read.

Everything streams; texts come from a Material, so no row of another part can get into a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.config import suggest
from lemmata.errors import ConfigError, InputError, require
from lemmata.mine.material import Material
from lemmata.mine.pairs import positive_text
from lemmata.types import Integers, Negative, Pair, Triplet, titled

__all__ = [
    "FORMATS",
    "Contribution",
    "Mixture",
    "Recipe",
    "mix",
    "read_batches",
    "read_training",
    "text_columns",
    "write_training",
]

Record = Pair | Triplet
FORMATS = ("parquet", "tevatron", "flagembedding", "tsv")
BATCH = 2000  # records, also of a row group
KEPT = 50_000  # passages at hand while files are written


# ---------------------------------------------------------------- mixing


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which sources a training set is mixed from, and how much of each."""

    SMALLEST: ClassVar = {"total": 0}

    weights: dict[str, float] = field(default_factory=dict)  # source: share of `total`; without any, all alike
    caps: dict[str, int] = field(default_factory=dict)  # source: most records
    total: int = 0  # records of the whole; 0: all there are
    seed: int = 0


class Contribution(NamedTuple):
    """What one source gave to a mixture; what was offered is a duplicate, capped or kept."""

    source: str
    offered: int
    duplicates: int  # of itself, or of a source that the recipe names before
    capped: int  # left out by its cap, or by its share of the total
    kept: int


class Mixture(NamedTuple):
    """Records in a seeded order, to be read once, and where they come from."""

    records: Iterator[Record]
    table: tuple[Contribution, ...]


@contextlib.contextmanager
def mix(streams: Mapping[str, Iterable[Record]], recipe: Recipe, material: Material) -> Iterator[Mixture]:
    """Sources mixed by a recipe; those that its weights do not name, or weigh 0, are left out.

    Two records with the same texts of anchor and positive are one: that of the source named first. A source
    with more than its cap gives a seeded choice. Where there is more than `total`, each source gives its
    weight's share, and what one can not fill goes to the others. What is chosen and its order depend on the
    texts and the seed, not on the order of the records. They wait in a temporary file: memory is 41 bytes a
    record.
    """
    weights = recipe.weights or dict.fromkeys(streams, 1.0)
    for source in (*weights, *recipe.caps):
        if source not in streams:
            raise ConfigError(f"the recipe has an unknown source {source!r}{suggest(source, list(streams))}")
    for name, amount in (*weights.items(), *recipe.caps.items()):
        if amount < 0:
            raise ConfigError(f"the recipe gives {name!r} the negative amount {amount}")
    sources = [source for source in weights if weights[source]]
    with tempfile.TemporaryFile() as spool:
        offers = _spooled(spool, [streams[source] for source in sources], material)
        chance = _scattered(offers.texts[:, 0], recipe.seed)
        fresh = _fresh(offers)
        kept = np.zeros(len(fresh), bool)
        unique = np.array([int((fresh & (offers.source == n)).sum()) for n in range(len(sources))], np.int64)
        room = np.array([min(unique[n], recipe.caps.get(name, unique[n])) for n, name in enumerate(sources)], np.int64)
        if recipe.total:
            room = _shared(room, np.array([weights[source] for source in sources]), recipe.total)
        table = []
        for number, source in enumerate(sources):
            own = np.flatnonzero(fresh & (offers.source == number))
            kept[own[np.argsort(chance[own], kind="stable")][: room[number]]] = True
            offered = int((offers.source == number).sum())
            taken = int(room[number])
            table.append(Contribution(source, offered, offered - len(own), len(own) - taken, taken))
        order = np.flatnonzero(kept)
        order = order[np.argsort(chance[order], kind="stable")]
        yield Mixture(_read_spool(spool, offers.starts, order), tuple(table))


class _Offers(NamedTuple):
    """Every record offered, in the order of the sources."""

    starts: Integers  # (n + 1,) where each begins in the file
    source: npt.NDArray[np.int8]  # (n,)
    texts: npt.NDArray[np.uint64]  # (n, 2) hash of the whole texts of anchor and positive
    records: npt.NDArray[np.uint64]  # (n,) hash of all that the record says


def _spooled(spool: IO[bytes], streams: Sequence[Iterable[Record]], material: Material) -> _Offers:
    starts, sources, texts, records = array("q", [0]), array("b"), bytearray(), bytearray()
    place = 0
    known = _Texts(material)
    for number, stream in enumerate(streams):
        for batch in _batched(stream, BATCH):
            known.read(batch, 0)
            for record in batch:
                pair = record if isinstance(record, Pair) else record.pair
                said = json.dumps(record, ensure_ascii=False, default=lambda number: number.item())  # of numpy
                line = said.encode("utf-8", "surrogatepass") + b"\n"
                spool.write(line)
                place += len(line)
                starts.append(place)
                sources.append(number)
                both = f"{known.anchor(pair)}\0{known.positive(pair)}".encode("utf-8", "surrogatepass")
                texts += hashlib.blake2b(both, digest_size=16).digest()
                records += hashlib.blake2b(line, digest_size=8).digest()
    return _Offers(
        np.array(starts, np.int64),
        np.array(sources, np.int8),
        np.frombuffer(bytes(texts), np.uint64).reshape(-1, 2),
        np.frombuffer(bytes(records), np.uint64),
    )


def _fresh(offers: _Offers) -> npt.NDArray[np.bool_]:
    """The first record of each pair of texts: by source, then by what it says."""
    order = np.lexsort((offers.records, offers.source, offers.texts[:, 1], offers.texts[:, 0]))
    texts = offers.texts[order]
    first = np.ones(len(order), bool)
    first[1:] = (texts[1:] != texts[:-1]).any(axis=1)
    fresh = np.zeros(len(order), bool)
    fresh[order[first]] = True
    return fresh


def _scattered(hashes: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """Hashes to other numbers, different ones for each seed."""
    key = np.frombuffer(hashlib.blake2b(str(seed).encode(), digest_size=16).digest(), np.uint64)
    mixed = (hashes ^ key[0]) * (key[1] | np.uint64(1))
    return np.asarray((mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93))


def _shared(room: Integers, weights: npt.NDArray[np.float64], total: int) -> Integers:
    """As many records of each source as its weight asks for; what one does not have, the others give."""
    if room.sum() <= total:
        return room
    given = np.zeros(len(room), np.int64)
    full = np.zeros(len(room), bool)
    while True:
        share = np.where(full, 0, weights) / weights[~full].sum() * (total - given[full].sum())
        short = ~full & (room <= share)
        if not short.any():
            break
        given[short] = room[short]
        full |= short
    given[~full] = np.floor(share[~full]).astype(np.int64)
    missing = total - int(given.sum())
    rest = np.where(full, -1.0, share - np.floor(share))
    given[np.argsort(-rest, kind="stable")[:missing]] += 1
    return given


def _read_spool(spool: IO[bytes], starts: Integers, order: Integers) -> Iterator[Record]:
    for number in order.tolist():
        spool.seek(int(starts[number]))
        value = json.loads(spool.read(int(starts[number + 1] - starts[number])).decode("utf-8", "surrogatepass"))
        if isinstance(value[0], list):
            yield Triplet(Pair(*value[0]), tuple(Negative(*negative) for negative in value[1]))
        else:
            yield Pair(*value)


def _batched(records: Iterable[Record], size: int) -> Iterator[list[Record]]:
    iterator = iter(records)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


class _Shown(NamedTuple):
    id: str
    title: str
    text: str


class _Texts:
    """Passages that records speak of; those read last are kept, because the same ones come again."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.passages: dict[int, _Shown] = {}

    def read(self, records: Sequence[Record], negatives: int) -> None:
        """Make ready what the records show, of their negatives the first ones only."""
        rows: set[int] = set()
        for record in records:
            pair, others = _parts(record, negatives)
            rows.add(int(pair.positive))
            if not isinstance(pair.anchor, str):
                rows.add(int(pair.anchor))
            rows.update(int(negative.row) for negative in others)
        if len(self.passages) + len(rows) > KEPT:
            self.passages = {row: self.passages[row] for row in rows if row in self.passages}
        missing = sorted(row for row in rows if row not in self.passages)
        for row, passage in zip(missing, self.material.passages(missing), strict=True):
            self.passages[row] = _Shown(passage.id, passage.title, passage.text)

    def text(self, row: int) -> str:
        shown = self.passages[row]
        return titled(shown.title, shown.text)

    def positive(self, pair: Pair) -> str:
        return positive_text(pair, self.passages[pair.positive])

    def anchor(self, pair: Pair) -> str:
        return pair.anchor if isinstance(pair.anchor, str) else self.text(pair.anchor)


# ---------------------------------------------------------------- writing


def write_training(
    records: Iterable[Record], material: Material, path: Path, *, file_format: str = "parquet", negatives: int = 0
) -> int:
    """Write records with their texts; returns how many.

    Of each record's negatives the first `negatives` are written. `parquet`: columns anchor, positive,
    negative_1 … negative_n (null where a record has fewer), the ids (no anchor_id where the anchor is no
    passage), and who made the record and why. `tevatron` and `flagembedding`: JSON lines as those read them.
    `tsv`: anchor, positive, negative, a line for each negative, the third field empty where there is none.
    The file is there once it is complete.
    """
    if file_format not in FORMATS:
        raise ConfigError(f"there is no format {file_format!r}{suggest(file_format, FORMATS)}")
    with _replacing(path) as temporary:
        if file_format == "parquet":
            return _write_parquet(records, material, temporary, negatives)
        count = 0
        known = _Texts(material)
        line = {"tevatron": _tevatron, "flagembedding": _flagembedding, "tsv": _tsv}[file_format]
        with temporary.open("w", encoding="utf-8", errors="replace", newline="\n") as stream:
            for batch in _batched(records, BATCH):
                known.read(batch, negatives)
                for record in batch:
                    pair, others = _parts(record, negatives)
                    stream.write(line(pair, others, known))
                count += len(batch)
        return count


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _parts(record: Record, most: int) -> tuple[Pair, tuple[Negative, ...]]:
    return (record, ()) if isinstance(record, Pair) else (record.pair, record.negatives[:most])


def _write_parquet(records: Iterable[Record], material: Material, path: Path, negatives: int) -> int:
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
    known = _Texts(material)
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in _batched(records, BATCH):
            known.read(batch, negatives)
            rows = [_columns(*_parts(record, negatives), known, negatives) for record in batch]
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
            count += len(batch)
    return count


def _negative_columns(number: int) -> list[str]:
    return [f"negative_{n}" for n in range(1, number + 1)]


def _columns(pair: Pair, others: Sequence[Negative], known: _Texts, negatives: int) -> dict[str, Any]:
    texts: list[str | None] = [known.text(negative.row) for negative in others]
    texts += [None] * (negatives - len(texts))
    return {
        "anchor": _sound(known.anchor(pair)),
        "positive": _sound(known.positive(pair)),
        **{name: text and _sound(text) for name, text in zip(_negative_columns(negatives), texts, strict=True)},
        "anchor_id": None if isinstance(pair.anchor, str) else known.passages[pair.anchor].id,
        "positive_id": known.passages[pair.positive].id,
        "negative_ids": [known.passages[negative.row].id for negative in others],
        "negative_proposers": [negative.proposer for negative in others],
        "negative_reasons": [_sound(negative.reason) for negative in others],
        "negative_scores": [float(negative.score) for negative in others],
        "source": pair.source,
        "relation": pair.relation,
        "reason": _sound(pair.reason),
        "weight": float(pair.weight),
    }


def _sound(text: str) -> str:
    """Without half characters, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _tevatron(pair: Pair, others: Sequence[Negative], known: _Texts) -> str:
    def passage(row: int) -> dict[str, str]:
        one = known.passages[row]
        return {"docid": one.id, "title": one.title, "text": one.text}

    query = known.anchor(pair)
    name = hashlib.blake2b(query.encode("utf-8", "replace"), digest_size=8).hexdigest()
    value = {
        "query_id": name if isinstance(pair.anchor, str) else known.passages[pair.anchor].id,
        "query": query,
        "positive_passages": [passage(pair.positive)],
        "negative_passages": [passage(negative.row) for negative in others],
    }
    return json.dumps(value, ensure_ascii=False) + "\n"


def _flagembedding(pair: Pair, others: Sequence[Negative], known: _Texts) -> str:
    value = {
        "query": known.anchor(pair),
        "pos": [known.positive(pair)],
        "neg": [known.text(negative.row) for negative in others],
    }
    return json.dumps(value, ensure_ascii=False) + "\n"


def _tsv(pair: Pair, others: Sequence[Negative], known: _Texts) -> str:
    head = [" ".join(text.split()) for text in (known.anchor(pair), known.positive(pair))]
    tails = [" ".join(known.text(negative.row).split()) for negative in others] or [""]
    return "".join("\t".join((*head, tail)) + "\n" for tail in tails)


# ---------------------------------------------------------------- reading


def text_columns(path: Path) -> list[str]:
    """The columns of a training file that a trainer encodes: anchor, positive, negative_1, …"""
    names = _opened(path).schema_arrow.names
    return [name for name in names if name in ("anchor", "positive") or name.removeprefix("negative_").isdigit()]


def read_training(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a Parquet training file in order, a few thousand in memory at a time."""
    for batch in read_batches(path, BATCH):
        yield from batch


def read_batches(path: Path, size: int, columns: Sequence[str] | None = None) -> Iterator[list[dict[str, Any]]]:
    """Records in lists of `size`, the last one shorter; some columns only, where given."""
    waiting: list[dict[str, Any]] = []
    for batch in _opened(path).iter_batches(batch_size=max(size, 1), columns=columns and list(columns)):
        waiting += batch.to_pylist()
        while len(waiting) >= size:
            yield waiting[:size]
            waiting = waiting[size:]
    if waiting:
        yield waiting


def _opened(path: Path) -> Any:
    parquet = require("pyarrow.parquet", "parquet")
    arrow_error = require("pyarrow", "parquet").ArrowException
    try:
        found = parquet.ParquetFile(path)
    except (OSError, arrow_error) as error:
        raise InputError(f"no Parquet file of training data ({error})", file=str(path)) from error
    missing = {"anchor", "positive"} - set(found.schema_arrow.names)
    if missing:
        raise InputError(f"no training data: there is no column {min(missing)!r}", file=str(path))
    return found
