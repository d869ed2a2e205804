"""The graph of a workspace: build it, import, export and describe it, and decide which concepts are one.

Records come from several sources (rules, a language model, imports, predicted links). Every stage that changes them
ends with `compress`, which writes all of them as one graph.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lemmata.core.database import Memo
from lemmata.core.errors import LemmataError, near, suggest
from lemmata.core.types import PART, Concept, Edge, Graph, Passage
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.graph import links
from lemmata.graph.lengths import measure_new_graph
from lemmata.graph.store import IMPORT, GraphRecordStore, concept_passages, open_graph
from lemmata.graph.store import write_graph as write_compressed

if TYPE_CHECKING:  # rules and formats are loaded by the verbs that need them, not by every search
    from lemmata.graph.concepts.candidates import Evidence
    from lemmata.graph.concepts.merge import Merge

SOURCE = "text"  # the name of the records made by rules
_MOST_SHOWN = 5  # ids in a report


# ---------------------------------------------------------------- build


def build_graph(workspace: Workspace) -> dict[str, Any]:
    """Build the graph by rules: links, concepts with their relations, and mentions.

    Concepts are built again only if the corpus has changed.
    """
    begin = time.perf_counter()
    with (
        workspace.hold(),
        contextlib.closing(Corpus(workspace)) as corpus,
        GraphRecordStore(workspace, rebuilding=True) as records,
    ):
        if records.sources().get(SOURCE, {}).get("inputs") != corpus.digest:
            _apply_rules(workspace, corpus, records)
        report = compress(workspace, corpus, records)
    report["seconds"] = time.perf_counter() - begin
    return report


def _apply_rules(workspace: Workspace, corpus: Corpus, records: GraphRecordStore) -> None:
    """Replace the records made by rules. Only new passages are read."""
    from lemmata.graph.concepts.build import build_concepts
    from lemmata.graph.concepts.candidates import code_digest, evidence_key, from_json, read_evidence, to_json

    with Memo(workspace.evidence, code_digest()) as memo:

        def read(passage: Passage, title: str | None) -> Evidence:
            key = evidence_key(passage, title)
            if remembered := memo.get(key):
                return from_json(remembered)
            evidence = read_evidence(passage, title)
            memo.put(key, to_json(evidence))
            return evidence

        passages = [passage for passage in corpus if passage.kind != PART] if corpus.parts() else corpus
        graph = build_concepts(passages, corpus.documents(), read=read, progress=workspace.progress)
    records.replace(SOURCE, concepts=graph.concepts, edges=graph.edges, inputs=corpus.digest)


def compress(workspace: Workspace, corpus: Corpus, records: GraphRecordStore) -> dict[str, Any]:
    """Write the records of all sources as one graph, with concepts merged; returns its counts.

    Records made by rules from another corpus are made again: that asks nobody and costs little.
    Those of a language model and of link prediction stay as they are, and the report names them as `stale`.
    """
    from lemmata.graph.concepts.merge import apply, decide, propose

    _renew_rules(workspace, corpus, records)
    workspace.progress("merging concepts", 0, None)
    concepts, edges = _distinct_concepts(records), list(records.edges())
    decided = decide(propose(concepts, edges), records.verdicts())
    concepts, edges, merged = apply(concepts, edges, decided)
    workspace.progress("compressing the graph", 0, None)
    kinds = _node_kinds(corpus, records, concepts)
    present = (edge for edge in edges if edge.source in kinds and edge.target in kinds)  # passages may be gone by now
    linked = links.link_edges(corpus, corpus.documents(links=True))
    graph = links.build_graph(itertools.chain(linked, present), kinds)
    row_of = {identity: row for row, identity in enumerate(corpus.ids())}
    rows = np.array([row_of.get(node, -1) for node in graph.nodes], np.int64)
    report = {
        **links.counts(graph),
        "concepts": dict(sorted(Counter(concept.kind for concept in concepts).items())),
        "merges": dict(sorted(Counter(merge.status for merge in decided).items())),
        "sources": sorted(records.sources()),
        "stale": records.stale(corpus.digest),
    }
    options = {name: source["options"] for name, source in records.sources().items()}  # a model's name and prompt too
    manifest = {
        "verb": "graph",
        "corpus": corpus.digest,
        "inputs": _digest(graph),
        "options": options,
        "verdicts": sorted(records.verdicts()),
        "report": report,
    }
    records.note_checksum()  # first: the manifest of the graph says that this stage is done
    write_compressed(workspace, graph, rows, concepts, merged, manifest)
    measure_new_graph(workspace)
    return report


def _renew_rules(workspace: Workspace, corpus: Corpus, records: GraphRecordStore) -> None:
    """Make the records made by rules again where they are those of another corpus."""
    if SOURCE in records.stale(corpus.digest):
        _apply_rules(workspace, corpus, records)


def _distinct_concepts(records: GraphRecordStore) -> list[Concept]:
    """Concepts of all sources; those with the same id become one."""
    from lemmata.graph.concepts.merge import unite

    by_id: dict[str, list[Concept]] = {}
    for concept in records.concepts():
        by_id.setdefault(concept.id, []).append(concept)
    return [unite(*concepts) for concepts in by_id.values()]


def _node_kinds(corpus: Corpus, records: GraphRecordStore, concepts: Iterable[Concept]) -> dict[str, str]:
    """The kind of every node: concept, document, location, log, passage, or as imported."""
    kinds = records.kinds()
    kinds.update((concept.id, "concept") for concept in concepts)
    kinds.update((item.id, "location" if item.kind == "location" else "document") for item in corpus.documents())
    kinds.update((identity, "log" if kind == "log" else "passage") for identity, kind in corpus.table("id", "kind"))
    return kinds


def _digest(graph: Graph) -> str:
    digest = hashlib.sha256()
    for array in (graph.indptr, graph.indices, graph.relation, graph.weight):
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update("\0".join([*graph.nodes, *graph.kinds, *graph.relations]).encode(errors="surrogatepass"))
    return digest.hexdigest()


# ---------------------------------------------------------------- import and export


def import_graph(workspace: Workspace, path: str | Path, *, name: str = "", strict: bool = True) -> dict[str, Any]:
    """Import a graph from a file or a folder; a second import under the same name replaces the first.

    Records that cannot be used are an error if `strict`; else they are skipped and counted.
    """
    from lemmata.graph.formats.any_format import read_graph

    path = Path(path)
    name = name or path.stem
    graph, skips = read_graph(path, strict=strict)
    mentions = [
        Edge(document, "mentions", concept, maker=name)
        for concept, documents in graph.papers.items()
        for document in documents
    ]
    with workspace.hold(), contextlib.closing(Corpus(workspace)) as corpus, GraphRecordStore(workspace) as records:
        records.replace(
            IMPORT + name,
            concepts=graph.concepts,
            edges=itertools.chain(graph.edges, mentions),
            kinds=graph.kinds,
            skips=skips,
            options={"path": str(path)},
        )
        in_corpus = {*corpus.ids(), *(document.id for document in corpus.documents())}
        own = {concept.id for concept in graph.concepts}
        occurrences = Counter(concept.id for concept in records.concepts())  # one for each source
        known = {identity for identity, sources in occurrences.items() if sources > (identity in own)}
        report = compress(workspace, corpus, records)
    nodes = {*graph.kinds, *(end for edge in graph.edges for end in (edge.source, edge.target))}
    described = in_corpus | known
    unknown = [node for node, kind in graph.kinds.items() if kind == "unknown" and node not in described]
    report["imported"] = {
        "concepts": len(graph.concepts),
        "edges": len(graph.edges),
        "mentions": len(mentions),
        "nodes": len(graph.kinds),
        "nodes_in_corpus": len(in_corpus & nodes),
        "known_concepts": len(known & nodes),  # that another source has too
        "unknown": len(unknown),  # nodes that nothing else is known about
        "first_unknown": unknown[:_MOST_SHOWN],
        "skips": len(skips),
    }
    return report


def remove_import(workspace: Workspace, name: str) -> dict[str, Any]:
    """Remove an imported graph by its name; LemmataError where there is no such import."""
    with workspace.hold(), contextlib.closing(Corpus(workspace)) as corpus, GraphRecordStore(workspace) as records:
        imports = [source.removeprefix(IMPORT) for source in records.sources() if source.startswith(IMPORT)]
        graph = read_manifest(workspace.manifest(workspace.graph_folder)) or {}
        if name not in imports and (records.is_noted or not graph):
            raise LemmataError(f"there is no import {name!r}{suggest(name, imports)}")
        if name in imports:
            _renew_rules(workspace, corpus, records)
            with records.transaction():  # which ends last: killed before, the same command finds the import again
                records.remove(IMPORT + name)
                graph = {"report": compress(workspace, corpus, records)}
        records.note_checksum()
        return dict(graph["report"])


def export_graph(workspace: Workspace, path: str | Path, *, format: str = "auto") -> dict[str, Any]:  # noqa: A002
    """Write the whole graph, with the first evidence of each edge, to a file or folder."""
    from lemmata.graph.formats.any_format import write_graph
    from lemmata.graph.formats.shared import GraphRecords

    stored = open_graph(workspace)
    distinct: dict[tuple[str, str, str], Edge] = {}
    with contextlib.closing(Corpus(workspace)) as corpus, GraphRecordStore(workspace) as records:
        linked = links.link_edges(corpus, corpus.documents(links=True))
        for edge in itertools.chain(linked, records.merged_edges(stored.merged)):
            first = distinct.get(edge[:3], edge._replace(weight=0.0))
            distinct[edge[:3]] = first._replace(weight=first.weight + edge.weight)
    kinds = dict(zip(stored.graph.nodes, stored.graph.kinds, strict=True))
    # an import or a model may name passages that are gone by now
    edges = [edge for edge in distinct.values() if edge.source in kinds and edge.target in kinds]
    write_graph(Path(path), GraphRecords(list(stored.concepts.values()), kinds, edges, {}), format)
    return {"path": str(path), "concepts": len(stored.concepts), "nodes": len(kinds), "edges": len(edges)}


# ---------------------------------------------------------------- concepts and their merges


def describe_concept(workspace: Workspace, identity: str) -> dict[str, Any]:
    """A concept's names, its relations to other concepts with their makers, and the passages that mention it.

    A concept that was merged away is described by the one that was kept. Raises LemmataError for an unknown id.
    """
    stored = open_graph(workspace)
    identity = stored.merged.get(identity, identity)
    concept = stored.concepts.get(identity)
    if concept is None:
        raise LemmataError(f"there is no concept {identity!r}{near(identity, stored.concepts)}")
    with GraphRecordStore(workspace) as records:
        edges = {
            edge
            for edge in records.merged_edges(stored.merged)
            if identity in (edge.source, edge.target)
            and edge.source in stored.concepts
            and edge.target in stored.concepts
        }
    mentions, definitions = concept_passages(stored)
    defining = [definitions[identity]] if identity in definitions else []
    return {
        **asdict(concept),
        "aliases": list(concept.aliases),
        "edges": [edge._asdict() for edge in sorted(edges)],
        "passages": defining + [passage for passage in mentions.get(identity, []) if passage not in defining],
    }


def merges(workspace: Workspace) -> list[Merge]:
    """Every merge of concepts that was proposed or decided, with its reason and status.

    WorkspaceError where there is no graph yet.
    """
    from lemmata.graph.concepts.merge import decide, propose

    open_graph(workspace)  # refuses records of another corpus
    with GraphRecordStore(workspace) as records:
        return decide(propose(_distinct_concepts(records), list(records.edges())), records.verdicts())


def decide_merge(workspace: Workspace, kept: str, gone: str, verdict: str | None) -> dict[str, Any]:
    """`accept` or `reject` a merge of two concepts, or withdraw the verdict with None.

    Replaces an earlier verdict on the two concepts, in either order. A verdict can be withdrawn while the graph has it,
    also after a run that was killed before it compressed the graph.
    """
    if verdict not in ("accept", "reject", None):
        raise LemmataError(f"a verdict is accept or reject, not {verdict!r}")
    if kept == gone:
        raise LemmataError(f"a verdict needs two concepts, not {kept} twice")
    with workspace.hold(), contextlib.closing(Corpus(workspace)) as corpus, GraphRecordStore(workspace) as records:
        ids = {concept.id for concept in records.concepts()}
        for identity in (kept, gone):
            if identity not in ids:
                raise LemmataError(f"there is no concept {identity!r}{near(identity, ids)}")
        in_graph = (read_manifest(workspace.manifest(workspace.graph_folder)) or {}).get("verdicts", ())
        verdicts = {*records.verdicts(), *map(tuple, in_graph)}
        if verdict is None and verdicts.isdisjoint([(kept, gone), (gone, kept)]):
            raise LemmataError(f"there is no verdict on {kept} and {gone}")
        with records.transaction():
            records.decide(gone, kept, None)
            records.decide(kept, gone, verdict)
        return compress(workspace, corpus, records)
