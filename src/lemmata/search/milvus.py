"""Vectors in Milvus: what an update sends, when a collection is replaced, and what is deleted.

The vectors of a workspace are stored with it as always; Milvus has a copy and takes the place of the neighbour index.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.artefacts import Artefact, neighbour_index, read_undamaged, seal, summary_neighbours
from lemmata.core.errors import LemmataError
from lemmata.core.files import read_array, writing
from lemmata.core.types import Floats, Integers
from lemmata.core.workspace import (
    VectorSet,
    Workspace,
    open_manifest,
    read_manifest,
    vector_set,
    vector_sets,
    write_manifest,
)
from lemmata.corpus.corpus import Corpus
from lemmata.search.summaries.store import open_summaries
from lemmata.vectors.ann import EXACT_UP_TO
from lemmata.vectors.fill import Hashes, match_rows
from lemmata.vectors.milvus import (
    Batch,
    check_uri,
    count_vectors,
    drop_collections,
    replace_collection,
    update_collection,
)
from lemmata.vectors.store import open_vectors

NOWHERE = "none"  # in the place of a URI: vectors are searched on this machine
_MAX_CHANGED = 0.5  # vectors that are new or gone, as a share, above which the collection is replaced
_SENT_VECTORS = 2_000  # vectors sent at once, 3 MB of 384 numbers each


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
    note = open_manifest(workspace.milvus, "delete it and run 'lemmata index --milvus URI' again")
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


def _kind_numbers(corpus: Corpus) -> Integers:
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
    places = vector_set(workspace, encoder)
    assert places is not None
    stored = open_vectors(workspace, encoder=encoder)
    rows = stored.matrix, np.asarray(stored.hashes), _kind_numbers(corpus)
    return send(workspace, place, neighbour_index(places), *rows, rebuild=rebuild)


def send_summaries(workspace: Workspace, place: Place, corpus: Corpus, encoder: str, *, rebuild: bool = False) -> int:
    """Bring the copy of the vectors of summaries up to date; their kinds are those of their passages."""
    places, stored = vector_set(workspace, encoder), open_summaries(workspace, encoder=encoder)
    assert places is not None
    assert stored is not None
    rows = stored.matrix, np.asarray(stored.hashes), _kind_numbers(corpus)[stored.rows]
    return send(workspace, place, summary_neighbours(places), *rows, rebuild=rebuild)


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
    with writing(item.folder) as folder:
        folder.mkdir()
        for name, array in (("slots", slots), ("kinds", kinds), ("keys", keys)):
            np.save(folder / f"{name}.npy", array)
        numbers = {"slots": len(slots), "next_slot": stored.next_slot + len(new)}
        where = {"uri": place.uri, "alias": alias, "graph": graph, **numbers}
        seal(folder, {"verb": "index", "vectors": source, "milvus": where})
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
