"""Bridges between two ideas: paths through the graph from one text, passage or concept to another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from lemmata.core.errors import LemmataError, WorkspaceError, near
from lemmata.core.types import MeasuredGraph
from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.graph.bridges import End, Route, diverse_routes, expected_routes
from lemmata.graph.concepts.terms import key_of
from lemmata.graph.geodesic import coherence
from lemmata.graph.lengths import distance, lengths_by_edge, open_lengths, sort_edges
from lemmata.graph.store import GraphRecordStore, StoredGraph, open_graph
from lemmata.graph.stored_metric import open_metric
from lemmata.search.encoder_index import EncoderIndex
from lemmata.search.paths import NEAR, QUERY_WEIGHT, STARTS, GeodesicOptions
from lemmata.search.retriever import Retriever

_EVIDENCE = 3  # passages that are named for a step
_CHANCE = 1.0  # such paths in a random graph, above which a path is nothing remarkable
_COHERENT = 0.3  # the least cosine of neighbours on a path that hangs together
_IDS = ("concept:", "location:")


class BridgeStep(NamedTuple):
    """One edge of a path, and the passages where it is stated."""

    source: str
    target: str
    relation: str  # with ^ in front where the edge is followed backwards
    length: float
    evidence: tuple[str, ...] = ()


class BridgePath(NamedTuple):
    """A path between the two ends."""

    length: float  # a step from or to a text counts 2.5 times
    coherence: float  # the smallest cosine of two neighbours
    expected: float  # such paths in a random graph with the same degrees
    steps: tuple[BridgeStep, ...]

    @property
    def is_telling(self) -> bool:
        """Whether chance does not explain it, and it hangs together."""
        return self.expected <= _CHANCE and self.coherence >= _COHERENT


class BridgePassage(NamedTuple):
    """A passage between the ends; its paths are numbered from 1."""

    id: str
    score: float
    paths: tuple[int, ...]


class Bridge(NamedTuple):
    """The paths between two ends, shortest first, and the passages on them, best first."""

    source: str
    target: str
    paths: tuple[BridgePath, ...] = ()
    passages: tuple[BridgePassage, ...] = ()


class BridgeGraph(NamedTuple):
    """The opened graph that bridges are searched in."""

    stored: StoredGraph
    measured: MeasuredGraph
    node_of: Mapping[str, int]
    concept_of: Mapping[str, str]  # as `concepts_by_name` makes it
    by_text: MeasuredGraph | None = None  # where `measured` is by a learned metric: the lengths that tell cosines


def concepts_by_name(stored: StoredGraph) -> dict[str, str]:
    """The id of the concept for every name, as it is written and with case and plural folded.

    A name goes before an alias of another concept, and a name as it is written before a folded one.
    """
    names = [(concept.name, concept.id) for concept in stored.concepts.values()]
    names += [(alias, concept.id) for concept in stored.concepts.values() for alias in concept.aliases]
    concept_of: dict[str, str] = {}
    for fold in (_same_case, key_of):
        for name, identity in names:
            if folded := fold(name):
                concept_of.setdefault(folded, identity)
    return concept_of


def _same_case(name: str) -> str:
    return " ".join(name.split()).casefold()


def open_bridge_graph(workspace: Workspace, stored: StoredGraph | None = None) -> BridgeGraph:
    """The graph of a workspace; WorkspaceError where it or its lengths are missing or out of date.

    Where [geodesic] says so, links between passages are measured by the metric that was learned from them.
    """
    stored = stored or open_graph(workspace)
    node_of = {name: node for node, name in enumerate(stored.graph.nodes)}
    by_text = open_lengths(workspace)
    if not workspace.options(GeodesicOptions, "geodesic").learned_bridges:
        return BridgeGraph(stored, by_text, node_of, concepts_by_name(stored))
    metric = open_metric(workspace)
    if metric is None or metric.graph is None:
        raise WorkspaceError(
            "there is no learned metric of this graph that helps: run 'lemmata train metric', with -o always=true to"
            " keep it anyway"
        )
    measured = measured_by_both(stored, by_text, metric.graph)
    return BridgeGraph(stored, measured, node_of, concepts_by_name(stored), by_text)


def measured_by_both(stored: StoredGraph, by_text: MeasuredGraph, by_metric: MeasuredGraph) -> MeasuredGraph:
    """Every edge by the metric, and those that it does not measure by text, scaled as the others are by the median."""
    edges = len(stored.graph.indices)
    text, metric = lengths_by_edge(by_text, edges), lengths_by_edge(by_metric, edges)
    both = ~np.isnan(metric[0])
    scale = np.median(metric[0][both]) / max(float(np.median(text[0][both])), 1e-12) if both.any() else 1.0
    along, against = (
        np.where(np.isnan(learned), scale * plain, learned) for plain, learned in zip(text, metric, strict=True)
    )
    result = MeasuredGraph(*(np.empty_like(np.asarray(part)) for part in by_text))
    sort_edges(stored.graph, along, against, result)
    return result


def find_bridge(workspace: Workspace, source: str, target: str, *, k: int = 5) -> Bridge:
    """Paths through the graph between two texts, passages or concepts, and the passages on them."""
    with Retriever(workspace) as retriever:
        return bridge(retriever, source, target, k)


def bridge(
    retriever: Retriever,
    source: str,
    target: str,
    k: int = 5,
    *,
    graph: BridgeGraph | None = None,
    limits: Sequence[int] = (),
) -> Bridge:
    """At most k different paths from `source` to `target`, each an id of the graph, the name of a concept or a text.

    What is no id, and no name or alias of a concept up to case and plural, is a text.
    LemmataError where both are the same, an id is unknown, or a text is empty. `graph` is for a caller that has it
    open already. With `limits`, paths are also looked for without the nodes that have more edges than each of these:
    what goes around hubs may be longer and say more. Then the telling ones come first.
    """
    layout, index = retriever.workspace, retriever.dense()
    graph = graph or open_bridge_graph(layout)
    stored, measured, by_text = graph.stored, graph.measured, graph.by_text
    source, target = (_resolved(name.strip(), graph) for name in (source, target))
    if source == target:
        raise LemmataError(f"both ends are {source!r}: a bridge needs two different ones")
    first, last = (_end(name, index, graph) for name in (source, target))
    ends = (source, first), (target, last)
    parts = [measured, *(without_hubs(measured, limit, [*first.nodes, *last.nodes]) for limit in limits)]
    routes = {route.nodes: route for part in parts for route in diverse_routes(part, first, last, k)}
    paths: list[tuple[BridgePath, set[str]]] = []  # with the passages between the ends
    with GraphRecordStore(layout) as records:
        opened = _Opened(stored, measured, records, retriever.corpus)
        plain = opened._replace(measured=by_text) if by_text else None
        for route in routes.values():
            steps = _steps(route, *ends, opened)
            similar = coherence([step.length for step in (_steps(route, *ends, plain) if plain else steps)])
            expected = expected_routes(measured, first, last, route)
            inner = {stored.graph.nodes[node] for node in route.inner(first, last) if stored.rows[node] >= 0}
            paths.append((BridgePath(route.length, similar, expected, steps), inner))
    paths.sort(key=lambda each: (bool(limits) and not each[0].is_telling, each[0].length))
    chosen = tuple(path for path, _ in paths[:k])
    return Bridge(source, target, chosen, _ranked(chosen, [inner for _, inner in paths[:k]]))


def without_hubs(measured: MeasuredGraph, limit: int, ends: Sequence[int]) -> MeasuredGraph:
    """The same nodes without the edges of those that have more than `limit`, but for the ends."""
    degrees = np.diff(measured.indptr)
    stays = degrees <= limit
    stays[list(ends)] = True
    kept = np.repeat(stays, degrees) & stays[measured.targets]
    starts = np.concatenate(([0], np.cumsum(kept)))
    return MeasuredGraph(starts[measured.indptr], measured.targets[kept], measured.lengths[kept], measured.edges[kept])


def _resolved(name: str, graph: BridgeGraph) -> str:
    """The id that an end names, or the text that it is."""
    identity = graph.stored.merged.get(name, name)
    if identity in graph.node_of:
        return identity
    concept = graph.concept_of.get(_same_case(name)) or graph.concept_of.get(key_of(name), "")
    return concept if concept in graph.node_of else name


def _end(name: str, index: EncoderIndex, graph: BridgeGraph) -> End:
    """The node of an id, or the passages nearest to a text."""
    stored, node_of = graph.stored, graph.node_of
    if name in node_of:
        return End((node_of[name],))
    if name.startswith(_IDS) or ("#" in name and " " not in name):
        hint = (
            near(name, stored.graph.nodes) or ": 'lemmata list passages' and 'lemmata list concepts' show what there is"
        )
        raise LemmataError(f"there is no {name!r} in the graph{hint}")
    query = index.encoder.encode([name], role="query")
    if not name or not query.any():
        raise LemmataError(f"{name!r} has no words: name a text, a passage or a concept")
    rows, similarities = (part[0] for part in index.query_index.search(query, STARTS))
    rows, similarities = rows[rows >= 0], similarities[rows >= 0]
    nodes = np.flatnonzero(np.isin(stored.rows, rows))
    node_of_row = dict(zip(stored.rows[nodes].tolist(), nodes.tolist(), strict=True))
    lengths = (QUERY_WEIGHT * distance(similarities)).tolist()
    return End(tuple(node_of_row[row] for row in rows.tolist()), tuple(lengths))


class _Opened(NamedTuple):
    """The graph, and what tells where its edges come from."""

    stored: StoredGraph
    measured: MeasuredGraph
    records: GraphRecordStore
    corpus: Corpus


def _steps(route: Route, source: tuple[str, End], target: tuple[str, End], opened: _Opened) -> tuple[BridgeStep, ...]:
    """The steps of a path with their evidence; at a text there is only its similarity."""
    steps = [_step(pair, opened) for pair in pairwise(route.nodes)]
    first, last = (opened.stored.graph.nodes[route.nodes[place]] for place in (0, -1))
    if source[1].node < 0:
        steps.insert(0, BridgeStep(source[0], first, NEAR, _from_text(source[1], route.nodes[0])))
    if target[1].node < 0:
        steps.append(BridgeStep(last, target[0], NEAR, _from_text(target[1], route.nodes[-1])))
    return tuple(steps)


def _from_text(end: End, node: int) -> float:
    return end.distances[end.nodes.index(node)] / QUERY_WEIGHT


def _step(nodes: tuple[int, int], opened: _Opened) -> BridgeStep:
    """The shortest edge between two nodes; of several that are equally short the first one that has evidence."""
    graph, measured = opened.stored.graph, opened.measured
    first_node, second_node = (graph.nodes[node] for node in nodes)
    begin, end = measured.indptr[nodes[0]], measured.indptr[nodes[0] + 1]
    entries = begin + np.flatnonzero(measured.targets[begin:end] == nodes[1])
    length = float(measured.lengths[entries[0]])
    steps = []
    for edge in measured.edges[entries[measured.lengths[entries] <= length]].tolist():
        relation = graph.relations[graph.relation[edge if edge >= 0 else -1 - edge]]
        if edge >= 0:
            evidence = _evidence(opened, first_node, relation, second_node)
        else:
            evidence, relation = _evidence(opened, second_node, relation, first_node), f"^{relation}"
        steps.append(BridgeStep(first_node, second_node, relation, length, evidence))
    return next((step for step in steps if step.evidence), steps[0])


def _evidence(opened: _Opened, source: str, relation: str, target: str) -> tuple[str, ...]:
    """The first passages that state an edge: those that its records name, or that have the link.

    A document cites what its passages cite. Records of merged concepts are those of all that were merged.
    """
    merged, corpus = opened.stored.merged, opened.corpus
    groups = [[name, *(gone for gone, kept in merged.items() if kept == name)] for name in (source, target)]
    passages = opened.records.evidence(groups[0], relation, groups[1])
    linking = [name for name, link in corpus.referring(target) if link == relation]
    if source in linking:
        passages.append(source)
    elif not passages:
        passages += islice((name for name in linking if _document_of(corpus, name) == source), _EVIDENCE)
    return tuple(dict.fromkeys(passages))[:_EVIDENCE]


def _document_of(corpus: Corpus, identity: str) -> str:
    """The document of a passage; "" for what is no passage."""
    try:
        return corpus[corpus.row(identity)].document
    except KeyError:
        return ""


def _ranked(paths: tuple[BridgePath, ...], inner: list[set[str]]) -> tuple[BridgePassage, ...]:
    """Passages by Σ over their paths of balance / (1 + length), where balance is 1 in the middle, 0 at the ends."""
    scores: dict[str, float] = defaultdict(float)
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, (path, names) in enumerate(zip(paths, inner, strict=True), 1):
        whole = sum(step.length for step in path.steps)
        done = 0.0
        for step in path.steps:
            done += step.length
            if step.target in names:
                balance = 2 * min(done, whole - done) / whole if whole else 1.0
                scores[step.target] += balance / (1 + path.length)
                numbers[step.target].append(number)
    ranked = sorted(scores, key=lambda name: (-scores[name], name))
    return tuple(BridgePassage(name, scores[name], (*numbers[name],)) for name in ranked)
