"""Search over vectors in Milvus (Wang et al. 2021): a server, or a file of milvus-lite.

Milvus only proposes rows, as the graph of AnnIndex does. Their scores are computed from the matrix, so they are those
of ExactIndex. A passage keeps its number in Milvus, the slot, while its row moves with the corpus: so an update sends
what changed, and a process that still has the corpus of before finds its own passages. No slot is used twice.

The collection that is searched has an alias. Another one is filled beside it, and takes over when the alias moves.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from lemmata.core.errors import ConfigError, WorkspaceError, require
from lemmata.core.types import Floats, Integers, Mask
from lemmata.vectors.exact import FEW, ExactIndex, Matrix, check_allowed, check_queries

TOKEN = "MILVUS_TOKEN"  # noqa: S105 - the name of the environment variable; an API key, or user:password
_LISTED = 10_000  # slots in one expression, about 80 kB
_RANGES = 100  # ranges in one expression; parsers read them recursively
_MOST_HITS = 16_384  # that a server gives for one query
_CELLS = 1 << 19  # numbers sent and hits asked for at once, over all queries
_DELETED_AT_ONCE = 10_000  # ids deleted at once
_LINKS, _BUILD_WIDTH, _SEARCH_WIDTH = 16, 200, 128  # of the HNSW graph, as in AnnIndex
_SECONDS = 30.0  # for an answer
_WRITE_SECONDS = 600.0  # for a batch to be stored, or for all to be written to disk


class Batch(NamedTuple):
    """Some vectors to store."""

    slots: Integers  # (b,)
    kinds: Integers  # (b,) a number for the kind of each passage, from 0
    vectors: Floats  # (b, dim)


class MilvusIndex:
    """Nearly the rows of ExactIndex (all of them in a collection without a graph), from a server.

    `slots` and `kinds` (n,) are those of each row.
    """

    def __init__(self, uri: str, alias: str, matrix: Matrix, slots: Integers, kinds: Integers) -> None:
        if not len(slots) == len(kinds) == len(matrix):
            raise WorkspaceError(f"{len(slots)} slots for {len(matrix)} vectors: run 'lemmata index' again")
        self._uri, self._alias, self._matrix = uri, alias, matrix
        self._exact = ExactIndex(matrix)
        self._rows = np.argsort(slots)  # by slot
        self._slots = np.asarray(slots)[self._rows]  # ascending
        self._kinds, self._kind_of = np.unique(np.asarray(kinds)[self._rows], return_inverse=True)  # of each slot
        with _explaining(uri):
            self._client = _connect(uri)
            if self._client.has_collection(alias, timeout=_SECONDS):
                self._client.load_collection(alias, timeout=_WRITE_SECONDS)
            elif len(matrix):
                raise WorkspaceError(f"Milvus at {uri} has no collection {alias}: run 'lemmata index' again")

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]:
        """The k nearest rows, as in lemmata.core.types.Index.

        Few allowed rows are searched exactly here: a graph finds them badly. So is a mask that no short expression
        describes, and a query for which Milvus has fewer than k rows.
        """
        queries = check_queries(queries, self._matrix.shape[1])
        check_allowed(allowed, len(self._matrix))
        reachable = len(self._matrix) if allowed is None else int(np.count_nonzero(allowed))
        few = reachable <= k or (allowed is not None and reachable <= FEW)
        expression = "" if allowed is None or few else self._expression(allowed)
        if k < 1 or not len(queries) or few or k > _MOST_HITS or expression is None:
            return self._exact.search(queries, k, allowed)
        proposals = self._propose(queries, min(2 * k, _MOST_HITS), expression)
        if allowed is not None:  # a newer collection may have other kinds
            proposals = (proposed[allowed[proposed]] for proposed in proposals)
        return self._exact.search_proposed(queries, k, proposals, allowed)

    def _propose(self, queries: Floats, depth: int, expression: str) -> Iterator[Integers]:
        """For each query about `depth` rows near it, ascending; slots of a newer corpus are left out."""
        group = max(1, _CELLS // (depth + queries.shape[1]))
        for first in range(0, len(queries), group):
            with _explaining(self._uri):
                answers = self._client.search(
                    self._alias,
                    list(queries[first : first + group]),
                    limit=depth,
                    filter=expression,
                    output_fields=[],
                    search_params={"metric_type": "IP", "params": {"ef": max(_SEARCH_WIDTH, depth)}},
                    timeout=_SECONDS,
                )
            for hits in answers:
                slots = np.array([hit["slot"] for hit in hits], np.int64)
                places = np.minimum(np.searchsorted(self._slots, slots), len(self._slots) - 1)
                yield np.sort(self._rows[places[self._slots[places] == slots]])

    def _expression(self, allowed: Mask) -> str | None:
        """The rows of a mask in the language of Milvus; None where that would be too long.

        Rows are in the order of documents, so a document is a range, and documents are few ranges; with the kinds of
        the allowed passages in front, so are the theorems of a document.
        """
        by_slot = allowed[self._rows]
        is_kind = np.bincount(self._kind_of[by_slot], minlength=len(self._kinds)) > 0
        of_kinds = is_kind[self._kind_of]
        slots, chosen = self._slots[of_kinds], by_slot[of_kinds]
        parts = [] if is_kind.all() else [f"kind in {self._kinds[is_kind].tolist()}"]
        if not chosen.all():
            bounds = np.flatnonzero(np.diff(chosen, prepend=False, append=False)).reshape(-1, 2)
            if len(bounds) <= _RANGES:
                ranges = ((slots[start], slots[stop - 1]) for start, stop in bounds)
                parts.append(" or ".join(f"(slot >= {low} and slot <= {high})" for low, high in ranges))
            elif np.count_nonzero(~chosen) <= _LISTED:
                parts.append(f"slot not in {slots[~chosen].tolist()}")
            else:
                return None
        return " and ".join(f"({part})" for part in parts)


# ---------------------------------------------------------------- writing


def replace_collection(uri: str, alias: str, batches: Iterable[Batch], dimension: int, *, graph: bool) -> None:
    """Fill a new collection and let the alias name it; until then search uses the one before, which is dropped.

    With `graph` it is searched through HNSW, else exactly.
    """
    with _client(uri) as client:
        before = _collections(client, alias)
        name = f"{alias}_{1 + max((int(other.rpartition('_')[2]) for other in before), default=0)}"
        _create(client, name, dimension)
        for batch in batches:
            client.insert(name, _records(batch), timeout=_WRITE_SECONDS)
        client.flush(name, timeout=_WRITE_SECONDS)
        _link(client, name, graph=graph)
        if _current(client, alias):
            client.alter_alias(name, alias, timeout=_SECONDS)
        else:
            client.create_alias(name, alias, timeout=_SECONDS)
        for other in before:
            client.drop_collection(other, timeout=_WRITE_SECONDS)


def update_collection(uri: str, alias: str, batches: Iterable[Batch], dropped: Integers, first_new: int) -> None:
    """Store vectors whose slots are `first_new` or above, and delete the `dropped` slots.

    What an unfinished update has stored is deleted first.
    """
    with _client(uri) as client:
        name = _current(client, alias)
        client.delete(name, filter=f"slot >= {first_new}", timeout=_WRITE_SECONDS)
        for batch in batches:
            client.upsert(name, _records(batch), timeout=_WRITE_SECONDS)
        for start in range(0, len(dropped), _DELETED_AT_ONCE):
            client.delete(name, ids=dropped[start : start + _DELETED_AT_ONCE].tolist(), timeout=_WRITE_SECONDS)
        client.flush(name, timeout=_WRITE_SECONDS)


def count_vectors(uri: str, alias: str) -> int:
    """How many vectors a collection has; 0 where there is none."""
    with _client(uri) as client:
        name = _current(client, alias)
        if not name:
            return 0
        client.load_collection(name, timeout=_WRITE_SECONDS)
        # strong: counts, and from then on shows, all that was written
        answer = client.query(name, output_fields=["count(*)"], consistency_level="Strong", timeout=_SECONDS)
        return int(answer[0]["count(*)"])


def drop_collections(uri: str, start: str, keep: Collection[str] = ()) -> None:
    """Delete all collections whose name begins with `start_`, except those that were made for the aliases `keep`."""
    with _client(uri) as client:
        for name in _collections(client, start):
            if name.rpartition("_")[0] not in keep:
                for alias in client.list_aliases(name, timeout=_SECONDS)["aliases"]:
                    client.drop_alias(alias, timeout=_SECONDS)
                client.drop_collection(name, timeout=_WRITE_SECONDS)


def _collections(client: Any, start: str) -> list[str]:
    """The collections that were made for an alias, or for all aliases that begin with `start_`."""
    return [name for name in client.list_collections(timeout=_SECONDS) if name.startswith(f"{start}_")]


def _current(client: Any, alias: str) -> str:
    """The collection that an alias names; empty where there is none."""
    for name in _collections(client, alias):
        if alias in client.list_aliases(name, timeout=_SECONDS)["aliases"]:
            return name
    return ""


def _create(client: Any, name: str, dimension: int) -> None:
    milvus = require("pymilvus", "scale")
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("slot", milvus.DataType.INT64, is_primary=True)
    schema.add_field("kind", milvus.DataType.INT64)
    schema.add_field("vector", milvus.DataType.FLOAT_VECTOR, dim=dimension)
    client.create_collection(name, schema=schema, timeout=_SECONDS)


def _link(client: Any, name: str, *, graph: bool) -> None:
    """Build the index of a filled collection and open it for search; hours for very large ones, so without a limit."""
    index = client.prepare_index_params()
    parameters = {"M": _LINKS, "efConstruction": _BUILD_WIDTH} if graph else {}
    index.add_index("vector", index_type="HNSW" if graph else "FLAT", metric_type="IP", params=parameters)
    client.create_index(name, index)
    client.load_collection(name)


def _records(batch: Batch) -> list[dict[str, Any]]:
    columns = batch.slots.tolist(), batch.kinds.tolist(), batch.vectors.astype(np.float32, copy=False)
    return [{"slot": slot, "kind": kind, "vector": vector} for slot, kind, vector in zip(*columns, strict=True)]


# ---------------------------------------------------------------- connecting


def check_uri(uri: str) -> None:
    """ConfigError for what is neither the URI of a server nor a file of milvus-lite, or holds a password."""
    parts = urlsplit(uri)
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"the URI of Milvus must not hold a password, it would be stored: put it into ${TOKEN}")
    if not (parts.scheme in ("http", "https", "tcp") or (_is_file(uri) and uri.endswith(".db"))):
        raise ConfigError(f"{uri!r} is no Milvus: give http://HOST:19530, or NAME.db for a file of milvus-lite")


def _is_file(uri: str) -> bool:
    return "://" not in uri


def _connect(uri: str) -> Any:
    """A client; the token comes from the environment, so that it is stored nowhere and passed through no stage."""
    milvus = require("pymilvus", "scale")
    if _is_file(uri):
        require("milvus_lite", "scale")
        Path(uri).parent.mkdir(parents=True, exist_ok=True)
    for name in ("pymilvus", "milvus_lite"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # it logs what it raises
    # the server inside this process takes frequent pings for an attack
    options = {"grpc_options": {"grpc.keepalive_time_ms": 3_600_000}} if _is_file(uri) else {}
    return milvus.MilvusClient(uri, token=os.environ.get(TOKEN, ""), timeout=_SECONDS, **options)


@contextlib.contextmanager
def _client(uri: str) -> Iterator[Any]:
    with _explaining(uri), contextlib.closing(_connect(uri)) as client:
        yield client


@contextlib.contextmanager
def _explaining(uri: str) -> Iterator[None]:
    """WorkspaceError, with the cure, for every failure of Milvus."""
    milvus = require("pymilvus", "scale")
    try:
        yield
    except milvus.MilvusException as error:
        cure = (
            "one process at a time can use it, so end the other one, or give the URI of a server"
            if _is_file(uri)
            else f"start it, check ${TOKEN}, or take the vectors back with 'lemmata index --milvus none'"
        )
        cause = (str(error.message).splitlines() or [type(error).__name__])[0][:200]
        raise WorkspaceError(f"Milvus at {uri} cannot be used ({cause}): {cure}") from error
