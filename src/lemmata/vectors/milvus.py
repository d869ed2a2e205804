"""Search over vectors in Milvus (Wang et al. 2021): a server, or a file of milvus-lite.

Milvus only proposes rows, as the graph of AnnIndex does. Their scores are computed from the matrix, so they are those
of ExactIndex. A passage keeps its number in Milvus, the slot, while its row moves with the corpus: so an update sends
what changed, and a process that still has the corpus of before finds its own passages. No slot is used twice.

The collection that is searched has an alias. Another one is filled beside it, and takes over when the alias moves.
The vectors of a workspace are stored with it as always; Milvus has a copy and takes the place of the neighbour index.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from lemmata.core.artefacts import Artefact, making, neighbour_index, read_undamaged, summary_neighbours
from lemmata.core.errors import ConfigError, LemmataError, UntrustedAddress, WorkspaceError, require
from lemmata.core.files import read_array
from lemmata.core.keys import LOOPBACK, origin_of, why_untrusted
from lemmata.core.trust import trusted_origins
from lemmata.core.types import Floats, Integers, Mask, Ranking
from lemmata.core.workspace import (
    VectorSet,
    Workspace,
    open_manifest,
    read_manifest,
    vector_sets,
    vectors_of,
    write_manifest,
)
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.texts import Hashes, match_rows
from lemmata.vectors.ann import EXACT_UP_TO
from lemmata.vectors.exact import FEW, ExactIndex, Matrix, check_allowed, check_queries
from lemmata.vectors.store import open_vectors

NAMED = "MILVUS_URI"  # the server that may have the token, besides one on this machine
TOKEN = "MILVUS_TOKEN"  # noqa: S105 - the name of the environment variable; an API key, or user:password
_LISTED = 10_000  # slots in one expression, about 80 kB
_RANGES = 100  # ranges in one expression; parsers read them recursively
_MOST_HITS = 16_384  # that a server gives for one query
_CELLS = 1 << 19  # numbers sent and hits asked for at once, over all queries
_DELETED_AT_ONCE = 10_000  # ids deleted at once
_LINKS, _BUILD_WIDTH, _SEARCH_WIDTH = 16, 200, 128  # of the HNSW graph, as in AnnIndex
_SECONDS = 30.0  # for an answer
_WRITE_SECONDS = 600.0  # for a batch to be stored, or for all to be written to disk
NOWHERE = "none"  # in the place of a URI: vectors are searched on this machine
_MAX_CHANGED = 0.5  # vectors that are new or gone, as a share, above which the collection is replaced
_SENT_VECTORS = 2_000  # vectors sent at once, 3 MB of 384 numbers each


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

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> Ranking:
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


def why_refused(uri: str) -> str:
    """Why a server that only a workspace names gets no vectors; empty where it may have them, and for a file."""
    trusted = trusted_origins() | {origin_of(os.environ.get(NAMED, ""))}
    return "" if _is_file(uri) else why_untrusted(uri, trusted, "vectors of passages and queries")


def _connect(uri: str) -> Any:
    """A client; the token comes from the environment, so that it is stored nowhere and passed through no stage."""
    if reason := why_refused(uri):
        raise UntrustedAddress(reason)
    milvus = require("pymilvus", "scale")
    if _is_file(uri):
        require("milvus_lite", "scale")
        Path(uri).parent.mkdir(parents=True, exist_ok=True)
    for name in ("pymilvus", "milvus_lite"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # it logs what it raises
    # the server inside this process takes frequent pings for an attack
    options = {"grpc_options": {"grpc.keepalive_time_ms": 3_600_000}} if _is_file(uri) else {}
    return milvus.MilvusClient(uri, token=token_for(uri), timeout=_SECONDS, **options)


def token_for(uri: str) -> str:
    """The user's token for Milvus on this machine or at the address of the user's own; empty for one of a workspace."""
    named, asked = urlsplit(os.environ.get(NAMED, "")), urlsplit(uri)
    may_have = LOOPBACK.fullmatch(asked.hostname or "") or asked[:2] == named[:2]
    return os.environ.get(TOKEN, "") if may_have else ""


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
            else f"start it, check ${TOKEN} and ${NAMED}, or take the vectors back with 'lemmata index -o milvus=none'"
        )
        cause = (str(error.message).splitlines() or [type(error).__name__])[0][:200]
        raise WorkspaceError(f"Milvus at {uri} cannot be used ({cause}): {cure}") from error


# ---------------------------------------------------------------- the copy of a workspace


class Place(NamedTuple):
    """Where in Milvus the vectors of a workspace are."""

    uri: str  # of a server, or a file below the workspace
    name: str  # of this workspace there; the names of its collections begin with it
    root: str  # of the workspace that made it; empty for a file, which is copied with its workspace


class Left(NamedTuple):
    """What is to be told when the vectors leave a place."""

    collections: str = ""  # why they could not be deleted there
    encoders: Sequence[str] = ()  # whose vectors are searched exactly until they are indexed again


def _place_of(workspace: Workspace) -> Place | None:
    """Where in Milvus the vectors are; None where they are searched on this machine."""
    note = open_manifest(workspace.milvus, "delete it and run 'lemmata index -o milvus=URI' again")
    return Place(note["uri"], note["name"], note["root"]) if note else None


def _root(workspace: Workspace, uri: str) -> str:
    return str(workspace.root.resolve()) if "://" in uri else ""


def choose_place(workspace: Workspace, uri: str) -> tuple[Place | None, Left]:
    """Where the vectors are to be: at `uri`, on this machine for `none`, where they are if it is empty.

    Where they were elsewhere, those of all encoders are deleted there. A workspace that was moved or copied gets
    collections of its own: those of before may be in use. Call it while holding the workspace.
    """
    before = _place_of(workspace)
    uri = uri or (before.uri if before else NOWHERE)
    if before is None and uri == NOWHERE:
        return None, Left()
    if before is not None and (uri, _root(workspace, uri)) == (before.uri, before.root):
        return before, Left()
    place = Place(uri, f"lemmata_{secrets.token_hex(6)}", _root(workspace, uri))
    if uri != NOWHERE:
        check_uri(uri)
        count_vectors(workspace.milvus_uri(uri), place.name)  # whether it answers, before anything is given up
    left = _leave(workspace, before) if before else Left()
    if uri == NOWHERE:
        return None, left
    write_manifest(workspace.milvus, {"verb": "index", **place._asdict()})
    return place, left


def _leave(workspace: Workspace, place: Place) -> Left:
    """Search all vectors on this machine, and delete their copies."""
    encoders = []
    for vectors in vector_sets(workspace):
        items = [item for item in _items_of(vectors) if "milvus" in (read_manifest(item.manifest) or {})]
        for item in items:
            shutil.rmtree(item.folder)
        encoders += [vectors.encoder] if items else []
    left = ""
    if place.root == _root(workspace, place.uri):
        try:
            drop_collections(workspace.milvus_uri(place.uri), place.name)
        except LemmataError as error:
            left = f"the collections {place.name}_… stay in Milvus, delete them there: {error}"
    else:
        left = f"the collections {place.name}_… stay in Milvus, as the workspace was in {place.root} when it made them"
    workspace.milvus.unlink()  # last: nothing else knows their name
    return Left(left, encoders)


def drop_unused(workspace: Workspace, removed: str = "") -> None:
    """Delete the collections of encoders and summaries that the workspace does not have, or of a `removed` encoder."""
    place = _place_of(workspace)
    if place is not None and place.root == _root(workspace, place.uri):
        items = [item for one in vector_sets(workspace) if one.encoder != removed for item in _items_of(one)]
        aliases = [_alias(place, item) for item in items if item.manifest.exists()]
        drop_collections(workspace.milvus_uri(place.uri), place.name, keep=aliases)


def _items_of(vectors: VectorSet) -> tuple[Artefact, Artefact]:
    return neighbour_index(vectors), summary_neighbours(vectors)


def _alias(place: Place, item: Artefact) -> str:
    """The alias of the vectors of an encoder or of its summaries: their folder, in letters that Milvus takes."""
    folder = f"{item.folder.parent.name}/{item.folder.name}"
    return f"{place.name}_{hashlib.sha256(folder.encode()).hexdigest()[:12]}"


def kind_numbers(corpus: Corpus) -> Integers:
    """A number for the kind of each row (n,), the same in every corpus.

    Milvus filters by it. Names would have to be quoted, for which servers and milvus-lite have different rules.
    """
    numbers = np.zeros(len(corpus), np.int64)
    for kind in corpus.counts()["passages"]:
        digest = hashlib.blake2b(kind.encode(errors="surrogatepass"), digest_size=8).digest()
        numbers[corpus.select(kinds=(kind,))] = int.from_bytes(digest, "little") >> 1  # not negative
    return numbers


def send_vectors(workspace: Workspace, place: Place, corpus: Corpus, encoder: str, *, rebuild: bool = False) -> int:
    """Bring the copy of the vectors of an encoder up to date; returns how many were sent."""
    item, stored = neighbour_index(vectors_of(workspace, encoder)), open_vectors(workspace, encoder=encoder)
    rows = stored.matrix, np.asarray(stored.hashes), kind_numbers(corpus)
    return send(workspace, place, item, *rows, rebuild=rebuild)


def send(
    workspace: Workspace,
    place: Place,
    item: Artefact,
    matrix: Floats,
    hashes: Hashes,
    kinds: Integers,
    *,
    rebuild: bool = False,
    more_than: int = EXACT_UP_TO,
) -> int:
    """Bring the copy of some vectors up to date; returns how many were sent.

    Vectors of the same text, kind and encoder are the same. Where most changed, the collection is replaced, as it is
    with `rebuild`, and where its vectors are not as many as they should be.
    """
    assert item.vectors is not None
    source = read_manifest(item.vectors) or {}
    uri, alias = workspace.milvus_uri(place.uri), _alias(place, item)
    graph = len(matrix) > more_than
    keys = hashes + kinds.view(np.uint64)
    stored = _open_slots(item, place, alias)
    current = stored.source == source and stored.graph == graph and not rebuild
    if current and count_vectors(uri, alias) == len(stored.slots):
        return 0
    same_maker = all(stored.source.get(name) == source.get(name) for name in ("made_by", "dimension"))
    matches = match_rows(stored.keys if same_maker else stored.keys[:0], keys)
    old, new = np.flatnonzero(matches >= 0), np.flatnonzero(matches < 0)
    slots = np.empty(len(keys), np.int64)
    slots[old] = stored.slots[matches[old]]
    slots[new] = stored.next_slot + np.arange(len(new))
    dropped = np.setdiff1d(stored.slots, slots)

    def batches(rows: Integers) -> Iterator[Batch]:
        for start in range(0, len(rows), _SENT_VECTORS):
            part = rows[start : start + _SENT_VECTORS]
            yield Batch(slots[part], kinds[part], np.asarray(matrix[part], np.float32))
            workspace.progress("sending vectors to Milvus", start + len(part), len(rows))

    replace = rebuild or stored.graph != graph or len(new) + len(dropped) > _MAX_CHANGED * len(stored.slots)
    sent = 0
    if not replace and count_vectors(uri, alias):
        update_collection(uri, alias, batches(new), dropped, stored.next_slot)
        sent = len(new)
    if replace or count_vectors(uri, alias) != len(slots):
        replace_collection(uri, alias, batches(np.arange(len(slots))), matrix.shape[1], graph=graph)
        sent = len(slots)
    numbers = {"slots": len(slots), "next_slot": stored.next_slot + len(new)}
    where = {"uri": place.uri, "alias": alias, "graph": graph, **numbers}
    with making(item, {"verb": "index", "vectors": source, "milvus": where}) as folder:
        for name, array in (("slots", slots), ("kinds", kinds), ("keys", keys)):
            np.save(folder / f"{name}.npy", array)
    return sent


class _Slots(NamedTuple):
    """What is stored under an alias."""

    slots: Integers  # (n,)
    keys: Hashes  # (n,) of text and kind
    next_slot: int = 0
    graph: bool = False
    source: Mapping[str, Any] = {}  # manifest of the vectors


def _open_slots(item: Artefact, place: Place, alias: str) -> _Slots:
    manifest = read_undamaged(item) or {}
    there = manifest.get("milvus", {})
    if (there.get("uri"), there.get("alias")) != (place.uri, alias):
        return _Slots(np.empty(0, np.int64), np.empty(0, np.uint64))
    slots, keys = (np.array(read_array(item.folder / f"{name}.npy", item.cure)) for name in ("slots", "keys"))
    return _Slots(slots, keys, there["next_slot"], there["graph"], manifest["vectors"])
