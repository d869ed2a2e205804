"""Graph records of every source in one SQLite file, and the compressed graph made from them, as arrays.

Records stay as each source (`text`, `llm`, an import, `predicted`) gave them, so that one source can be replaced and a
merge of concepts can be undone. The compressed graph is made from all of them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.artefacts import Artefact, artefact, check_files, file_facts, making, open_artefact, read_artefact
from lemmata.core.database import change_counter, check_integrity, connect, read_cell, transaction
from lemmata.core.errors import WorkspaceError
from lemmata.core.files import is_writable, read_array, read_json, sha256_of
from lemmata.core.types import Concept, Edge, Floats, Graph, Integers, Skip, Vectors
from lemmata.core.workspace import Workspace, open_manifest, read_manifest, write_manifest

_FORMAT = 1  # raised when the tables change
IMPORT = "import:"  # before the name of an import, as the name of a source
_SCHEMA = """
CREATE TABLE sources(name TEXT PRIMARY KEY, inputs TEXT NOT NULL, options TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE done(source TEXT NOT NULL, unit TEXT NOT NULL, PRIMARY KEY(source, unit)) WITHOUT ROWID;
CREATE TABLE nodes(source TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL);
CREATE TABLE concepts(
    source TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, description TEXT NOT NULL,
    aliases TEXT NOT NULL);
CREATE TABLE edges(
    maker_source TEXT NOT NULL, source TEXT NOT NULL, relation TEXT NOT NULL, target TEXT NOT NULL,
    evidence TEXT NOT NULL, maker TEXT NOT NULL, weight REAL NOT NULL);
CREATE TABLE skips(source TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, cause TEXT NOT NULL);
CREATE TABLE spans(
    source TEXT NOT NULL, passage TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, node TEXT NOT NULL);
CREATE TABLE verdicts(kept TEXT NOT NULL, gone TEXT NOT NULL, verdict TEXT NOT NULL, PRIMARY KEY(kept, gone))
    WITHOUT ROWID;
CREATE INDEX edges_of_source ON edges(source, target);
CREATE INDEX edges_of_target ON edges(target);
CREATE INDEX edges_of_maker ON edges(maker_source);
CREATE INDEX spans_of_passage ON spans(passage);
CREATE INDEX concepts_of_id ON concepts(id);
"""


class GraphRecordStore:
    """Concepts, edges and verdicts as their sources gave them; use as a context manager.

    WorkspaceError where the file is missing though a graph was made of it, unless `rebuilding` makes all of it again.
    """

    def __init__(self, workspace: Workspace, *, rebuilding: bool = False) -> None:
        path, graph = workspace.graph_records, read_manifest(workspace.manifest(workspace.graph_folder))
        if is_writable(workspace.root):
            path.parent.mkdir(parents=True, exist_ok=True)
        cure = f"delete {path.parent}, run 'lemmata graph build', then extract, link and import again"
        if graph is not None and not path.exists():
            lost = sorted(
                {*graph.get("options", ()), *(["decided merges"] if graph.get("verdicts") else [])} - {"text"}
            )
            if lost:  # SQLite would make a new file without them
                cause = f"it held {', '.join(lost)}, which a build cannot make"
                raise WorkspaceError(f"{path} is missing, and {cause}: bring it back from a copy, or {cure}")
            if not rebuilding:
                raise WorkspaceError(f"{path} is missing: run 'lemmata graph build'")
            workspace.graph_records_note.unlink(missing_ok=True)
        if graph is not None and path.exists() and not path.stat().st_size:
            raise WorkspaceError(f"{path} is damaged (it is empty): {cure}")
        self.connection = connect(path, _SCHEMA, _FORMAT, cure=cure, create=True)
        self._note = workspace.graph_records_note

    def __enter__(self) -> GraphRecordStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def note_checksum(self) -> None:
        """Note the checksum of the file; call it while holding the workspace, after the last change."""
        if not self.is_noted:
            path = self.connection.path
            facts = {**file_facts(path), "counter": change_counter(path)}
            write_manifest(self._note, {"verb": "graph", "files": {path.name: facts}})

    @property
    def is_noted(self) -> bool:
        """Whether nothing changed since the checksum was noted: a command that is killed may leave that out."""
        return bool(self._noted_checksum().get("counter") == change_counter(self.connection.path))

    def _noted_checksum(self) -> dict[str, Any]:
        """Size, hashes and change counter of the file when its checksum was noted; empty where it never was."""
        facts = (read_manifest(self._note) or {}).get("files", {}).get(self.connection.path.name, {})
        return dict(facts)

    def verify(self) -> None:
        """Read the whole file; WorkspaceError where it is damaged.

        A command that was killed may have changed the file after its checksum was noted: then SQLite checks its pages.
        """
        path, noted = self.connection.path, self._noted_checksum()
        counter = change_counter(path)
        same = counter == noted.get("counter")
        if counter < 0 or (same and noted.get("sha256") != sha256_of([path])):
            raise WorkspaceError(f"{path} is damaged (its checksum is wrong): {self.connection.cure}")
        if not same:
            check_integrity(self.connection)

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        return transaction(self.connection)

    # ------------------------------------------------------------ the sources

    def sources(self) -> dict[str, dict[str, Any]]:
        """Every source by name, with `inputs` (the corpus that it read) and `options`."""
        rows = self.connection.execute("SELECT name, inputs, options FROM sources ORDER BY name")
        return {name: {"inputs": inputs, "options": read_cell(options)} for name, inputs, options in rows}

    def stale(self, inputs: str) -> dict[str, str]:
        """Sources that read another corpus than that of `inputs`, with the command that makes their records again."""
        commands = {"text": "lemmata graph build", "llm": "lemmata graph extract", "predicted": "lemmata graph link"}
        read = {name: source["inputs"] for name, source in self.sources().items() if name in commands}
        return {name: commands[name] for name, corpus in read.items() if corpus != inputs}

    def remove(self, source: str) -> None:
        for table in ("nodes", "concepts", "skips", "spans", "done"):
            self.connection.execute(f"DELETE FROM {table} WHERE source = ?", (source,))
        self.connection.execute("DELETE FROM edges WHERE maker_source = ?", (source,))
        self.connection.execute("DELETE FROM sources WHERE name = ?", (source,))

    def replace(
        self,
        source: str,
        *,
        concepts: Iterable[Concept] = (),
        edges: Iterable[Edge] = (),
        kinds: Mapping[str, str] | None = None,
        skips: Iterable[Skip] = (),
        spans: Iterable[tuple[str, int, int, str]] = (),
        inputs: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Replace the records of a source, in one transaction.

        `spans` are parts of passages (id, start, stop) and the node that each of them names.
        """
        with self.transaction():
            self.remove(source)
            self.announce(source, inputs, options or {})
            self._add(source, concepts, edges, kinds or {}, skips)
            rows = ((source, *span) for span in spans)
            self.connection.executemany("INSERT INTO spans VALUES (?, ?, ?, ?, ?)", rows)

    def announce(self, source: str, inputs: str, options: Mapping[str, Any]) -> None:
        """Record a source with its corpus and options, without touching its records."""
        values = (source, inputs, json.dumps(options, sort_keys=True, ensure_ascii=False))
        self.connection.execute("INSERT OR REPLACE INTO sources VALUES (?, ?, ?)", values)

    def add_unit(
        self, source: str, unit: str, concepts: Iterable[Concept], edges: Iterable[Edge], skips: Iterable[Skip]
    ) -> None:
        """Add the records of a source for one document and mark it as done, in one transaction."""
        with self.transaction():
            self._add(source, concepts, edges, {}, skips)
            self.connection.execute("INSERT OR IGNORE INTO done VALUES (?, ?)", (source, unit))

    def done(self, source: str) -> set[str]:
        """Units that a source has completed."""
        return {unit for (unit,) in self.connection.execute("SELECT unit FROM done WHERE source = ?", (source,))}

    def counts(self, source: str) -> dict[str, int]:
        """Concepts, descriptions and relations between concepts that a source has."""
        concepts = "SELECT COUNT(*) FROM concepts WHERE source = ?"
        relations = "SELECT COUNT(*) FROM edges WHERE maker_source = ? AND source LIKE 'concept:%'"
        queries = {
            "concepts": concepts, "descriptions": f"{concepts} AND description != ''", "relations": relations,
        }  # fmt: skip
        return {name: self.connection.execute(query, (source,)).fetchone()[0] for name, query in queries.items()}

    def skips(self, source: str) -> Iterator[Skip]:
        """What a source left out, and why."""
        query = "SELECT file, line, cause FROM skips WHERE source = ? ORDER BY rowid"
        return (Skip(*row) for row in self.connection.execute(query, (source,)))

    def _add(
        self,
        source: str,
        concepts: Iterable[Concept],
        edges: Iterable[Edge],
        kinds: Mapping[str, str],
        skips: Iterable[Skip],
    ) -> None:
        many = self.connection.executemany
        many("INSERT INTO nodes VALUES (?, ?, ?)", ((source, node, kind) for node, kind in kinds.items()))
        concept_rows = map(astuple, concepts)
        rows = ((source, *row, json.dumps(aliases, ensure_ascii=False)) for *row, aliases in concept_rows)
        many("INSERT INTO concepts VALUES (?, ?, ?, ?, ?, ?)", rows)
        many("INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?, ?)", ((source, *edge) for edge in edges))
        many("INSERT INTO skips VALUES (?, ?, ?, ?)", ((source, *skip) for skip in skips))

    # ------------------------------------------------------------ the records of all sources

    def concepts(self) -> Iterator[Concept]:
        """All concepts, sources by name; the same id may come more than once."""
        query = "SELECT id, name, kind, description, aliases FROM concepts ORDER BY source, rowid"
        for identity, name, kind, description, aliases in self.connection.execute(query):
            yield Concept(identity, name, kind, description, tuple(read_cell(aliases)))

    def edges(self) -> Iterator[Edge]:
        """All edges, in order of their records."""
        return self._edges("ORDER BY rowid")

    def edges_of(self, node: str, source: str = "") -> Iterator[Edge]:
        """All edges that leave or reach a node, or those that a source gave."""
        of_source = " AND maker_source = ?2" if source else ""
        return self._edges(f"WHERE (source = ?1 OR target = ?1){of_source}", node, *[source] * bool(source))

    def edges_from(self, source: str) -> Iterator[Edge]:
        """The edges that a source gave, in order of their records."""
        return self._edges("WHERE maker_source = ? ORDER BY rowid", source)

    def _edges(self, which: str, *values: str) -> Iterator[Edge]:
        query = f"SELECT source, relation, target, evidence, maker, weight FROM edges {which}"
        return (Edge(*row) for row in self.connection.execute(query, values))

    def evidence(self, sources: Sequence[str], relation: str, targets: Sequence[str]) -> list[str]:
        """The passages that state an edge between some of these nodes, in order of their records, each once."""
        marks = [",".join("?" * len(names)) for names in (sources, targets)]
        query = (
            f"SELECT evidence FROM edges WHERE source IN ({marks[0]}) AND target IN ({marks[1]}) AND relation = ?"
            " AND evidence != '' ORDER BY rowid"
        )
        rows = self.connection.execute(query, (*sources, *targets, relation))
        return list(dict.fromkeys(passage for (passage,) in rows))

    def imported(self, relations: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Source and target of the edges of all imports that have one of the relations."""
        query = (
            "SELECT source, target FROM edges WHERE substr(maker_source, 1, ?) = ?"
            f" AND relation IN ({','.join('?' * len(relations))}) ORDER BY rowid"
        )
        yield from self.connection.execute(query, (len(IMPORT), IMPORT, *relations))

    def merged_edges(self, merged: Mapping[str, str]) -> Iterator[Edge]:
        """All edges, with merged concepts replaced; without those between concepts that became one."""
        for edge in self.edges():
            source, target = merged.get(edge.source, edge.source), merged.get(edge.target, edge.target)
            if source != target or edge.source == edge.target:
                yield edge._replace(source=source, target=target)

    def kinds(self) -> dict[str, str]:
        """Kinds of nodes that are not in the corpus."""
        return dict(self.connection.execute("SELECT id, kind FROM nodes ORDER BY rowid"))

    def spans(self) -> dict[str, list[tuple[int, int, str]]]:
        """By passage: parts of its text, and the node that each of them names."""
        spans: dict[str, list[tuple[int, int, str]]] = {}
        query = "SELECT passage, start, stop, node FROM spans ORDER BY passage, start, stop"
        for passage, start, stop, node in self.connection.execute(query):
            spans.setdefault(passage, []).append((start, stop, node))
        return spans

    # ------------------------------------------------------------ verdicts on merges

    def verdicts(self) -> dict[tuple[str, str], str]:
        """`accept` or `reject`, by the two concepts of a merge."""
        rows = self.connection.execute("SELECT kept, gone, verdict FROM verdicts ORDER BY kept, gone")
        return {(kept, gone): verdict for kept, gone, verdict in rows}

    def decide(self, kept: str, gone: str, verdict: str | None) -> None:
        self.connection.execute("DELETE FROM verdicts WHERE kept = ? AND gone = ?", (kept, gone))
        if verdict is not None:
            self.connection.execute("INSERT INTO verdicts VALUES (?, ?, ?)", (kept, gone, verdict))


# ---------------------------------------------------------------- the graph as arrays


class StoredGraph(NamedTuple):
    """The compressed graph of a workspace, memory-mapped, with its concepts."""

    graph: Graph
    rows: Integers  # (nodes,) row of each node that is a passage, else -1
    concepts: dict[str, Concept]  # by id, merged
    merged: dict[str, str]  # id of a merged concept: id of the one that replaced it
    inputs: str  # changes whenever the graph does


class Citations(NamedTuple):
    """Which passages refer to which, by rows; `indptr` and `indices` as in a Graph."""

    indptr: Integers  # (passages + 1,)
    indices: Integers  # (links,) what a passage refers to, each once
    counts: Integers  # (passages,) how many passages refer to it


_ARRAYS = ("indptr", "indices", "relation", "weight")
_CITATIONS = tuple(f"citations_{name}.npy" for name in Citations._fields)
CITING = ("refers_to", "proof_uses", "cites", "related_to")  # relations by which a passage points at another


def write_graph(
    workspace: Workspace,
    graph: Graph,
    rows: Integers,
    concepts: Iterable[Concept],
    merged: Mapping[str, str],
    manifest: Mapping[str, Any],
) -> None:
    kinds, kind = np.unique(np.asarray(graph.kinds, object), return_inverse=True)
    nodes = {
        "nodes": list(graph.nodes),
        "kinds": kinds.tolist(),
        "kind": kind.tolist(),
        "relations": list(graph.relations),
    }
    with making(artefact(workspace, "graph"), manifest) as folder:
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(graph, name))
        np.save(folder / "rows.npy", rows)
        citations = citations_between(graph, rows, int(rows.max(initial=-1)) + 1)
        for name, array in zip(_CITATIONS, citations, strict=True):
            np.save(folder / name, array)
        for name, content in (("nodes", nodes), ("concepts", (list(map(astuple, concepts)), dict(merged)))):
            (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def open_graph(workspace: Workspace) -> StoredGraph:
    """The compressed graph of a workspace; WorkspaceError where none was built, or for another corpus."""
    item = artefact(workspace, "graph")
    return read_artefact(workspace, item, None, lambda manifest: _read_graph(item, manifest))


def _read_graph(item: Artefact, manifest: Mapping[str, Any]) -> StoredGraph:
    arrays = {name: read_array(item.folder / f"{name}.npy", item.cure) for name in (*_ARRAYS, "rows")}
    rows = arrays.pop("rows")
    content = read_json(item.folder / "nodes.json", item.cure)
    stored = read_json(item.folder / "concepts.json", item.cure)
    try:
        kinds = [content["kinds"][number] for number in content["kind"]]
        graph = Graph(content["nodes"], kinds, content["relations"], **arrays)
        records, merged = stored
        concepts = {
            identity: Concept(identity, name, kind, description, tuple(aliases))
            for identity, name, kind, description, aliases in records
        }
    except (IndexError, KeyError, TypeError, ValueError) as error:  # another letter may still be JSON
        raise WorkspaceError(f"the files of {item.folder} are damaged: {item.repair}") from error
    last = len(graph.nodes) - 1
    columns = ((graph.indices, 0, last), (graph.relation, 0, len(graph.relations) - 1), (graph.weight, 0, np.inf))
    check_edges(item, len(graph.nodes), graph.indptr, *columns)
    if rows.shape != (len(graph.nodes),) or not rows.min(initial=0) >= -1:
        raise WorkspaceError(f"the rows of {item.folder} are damaged: {item.rebuild}")
    return StoredGraph(graph, rows, concepts, merged, manifest["inputs"])


def open_graph_if_built(workspace: Workspace) -> StoredGraph | None:
    return open_graph(workspace) if workspace.manifest(workspace.graph_folder).exists() else None


def check_edges(
    item: Artefact, nodes: int, indptr: Integers, *columns: tuple[np.ndarray[Any, Any], float, float]
) -> None:
    """WorkspaceError unless these are the edges of so many nodes: compiled code reads memory without looking.

    `columns` have one value per edge, between a smallest and a largest one.
    """
    arrays = (indptr, *(column for column, _, _ in columns))
    is_sound = (
        all(array.ndim == 1 and array.dtype.kind in "iuf" for array in arrays)
        and len(indptr) == nodes + 1
        and indptr[0] == 0
        and bool((indptr[1:] >= indptr[:-1]).all())
        and all(len(column) == indptr[-1] for column, _, _ in columns)
        and all(not len(column) or low <= column.min() <= column.max() <= high for column, low, high in columns)
    )
    if not is_sound:
        raise WorkspaceError(f"the edges in {item.folder} are damaged (they lead out of the graph): {item.rebuild}")


def citations_between(graph: Graph, rows: Integers, passages: int) -> Citations:
    """The links of a graph between passages; `rows` are those of its nodes, `passages` is their number."""
    numbers = [number for number, relation in enumerate(graph.relations) if relation in CITING]
    edges = np.flatnonzero(np.isin(graph.relation, numbers))
    nodes = np.searchsorted(graph.indptr, edges, side="right") - 1
    sources, targets = rows[nodes], rows[graph.indices[edges]]
    inside = (sources >= 0) & (targets >= 0) & (sources != targets)
    pairs = np.unique(sources[inside] * passages + targets[inside])
    sources, targets = np.divmod(pairs, max(passages, 1))
    indptr = np.zeros(passages + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=passages), out=indptr[1:])
    return Citations(indptr, targets, np.bincount(targets, minlength=passages).astype(np.int64))


def open_citations(workspace: Workspace, corpus: str) -> Citations | None:
    """The links between passages, memory-mapped; None without a graph, or with one of another corpus.

    Search goes on without them, and `lemmata info` tells that the graph is out of date. WorkspaceError where it is
    damaged.
    """
    item = artefact(workspace, "graph")
    manifest = open_manifest(item.manifest, item.cure)
    if manifest is None or manifest["corpus"] != corpus:
        return None
    check_files(item, manifest)
    citations = Citations(*(read_array(item.folder / name, item.cure) for name in _CITATIONS))
    passages = len(citations.counts)
    check_edges(item, passages, citations.indptr, (citations.indices, 0, passages - 1))
    return citations


def imported_links(workspace: Workspace) -> dict[str, list[str]]:
    """What passages and documents refer to by imported graphs, by id; empty where there is no graph."""
    links: dict[str, list[str]] = {}
    if workspace.graph_records.exists() or workspace.manifest(workspace.graph_folder).exists():
        with GraphRecordStore(workspace) as records:
            for source, target in records.imported(CITING):
                links.setdefault(source, []).append(target)
    return links


def concept_passages(
    stored: StoredGraph, definitions: Container[int] = ()
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """For each concept the passages that mention or define it; and the first one that defines it.

    Of passages that define it, one whose row is among `definitions` goes before others.
    """
    graph = stored.graph
    sources = graph.sources()
    mentioning: dict[str, list[str]] = {}
    stated: dict[str, str] = {}
    defining: dict[str, str] = {}
    for number, relation in enumerate(graph.relations):
        if relation not in ("mentions", "defines"):
            continue
        edges = np.flatnonzero((graph.relation == number) & (stored.rows[sources] >= 0))
        for source, target in zip(sources[edges].tolist(), graph.indices[edges].tolist(), strict=True):
            passage, concept = graph.nodes[source], graph.nodes[target]
            if concept in stored.concepts:
                mentioning.setdefault(concept, []).append(passage)
                if relation == "defines":
                    (stated if stored.rows[source] in definitions else defining).setdefault(concept, passage)
    return {concept: sorted(set(passages)) for concept, passages in mentioning.items()}, defining | stated


def write_embedding(workspace: Workspace, vectors: Floats, manifest: Mapping[str, Any]) -> None:
    with making(artefact(workspace, "embedding"), manifest) as folder:
        np.save(folder / "matrix.npy", vectors)


def open_embedding(workspace: Workspace) -> Vectors:
    """The embedding of the present graph; WorkspaceError where there is none, or one of another graph."""
    open_artefact(workspace, artefact(workspace, "graph"))
    item = artefact(workspace, "embedding")
    manifest = open_artefact(workspace, item)
    return Vectors(read_array(item.folder / "matrix.npy", item.cure), manifest["maker"])
