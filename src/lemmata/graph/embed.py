"""Typed graphs to vectors: nodes that an edge joins score high, under an operator per relation.

The method is PyTorch-BigGraph's (Lerer et al. 2019, arXiv:1903.12287) on one machine: edges of one relation in
chunks that share their negatives, and row-wise Adagrad over the rows that a batch touches. Gradients are written
out by hand, since a batch is a handful of matrix products. Edges travel as an array (m, 3) of source, relation
and target, in rows of the graph. Does not know where vectors of texts come from, nor where results are kept.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.errors import ConfigError, InputError, require
from lemmata.types import Floats, Graph, Integers, Progress

__all__ = [
    "EmbedOptions",
    "Embedding",
    "Epoch",
    "Evaluation",
    "Ranks",
    "edge_array",
    "evaluate_embedding",
    "split_edges",
    "train_embedding",
]

OPERATORS = ("identity", "translation", "diagonal", "complex")
LOSSES = ("softmax", "margin")
COMPARATORS = ("dot", "cosine")

RANDOM_SCALE = 1e-3
TEXT_NORM = 1.0  # of what begins from a text; 0.5 to 2 did alike, 4 did worse
COSINE_SCALE = 20.0  # softmax over bare cosines can not tell 1 right from 100 wrong
EPSILON = 1e-10
BLOCK = 2**24  # scores held at once while ranking
WATCHED = 2000  # held-out edges that early stopping looks at
CHECKPOINT_FORMAT = 1

Tensor = Any  # torch is optional, and untyped for whoever has none


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """What to learn. Negatives are shared by the edges of a chunk; each count is per chunk and side."""

    dimension: int = 128
    operator: str = "translation"  # identity, translation, diagonal, complex
    reciprocal: bool = True  # each side asked for has its own parameters, which act on the given node
    loss: str = "softmax"  # softmax, margin
    comparator: str = "dot"  # dot, cosine
    margin: float = 0.1  # of the margin loss
    batch: int = 1000  # edges
    chunk: int = 50  # edges that share negatives
    in_batch: bool = False  # the other edges' nodes of the chunk are negatives too
    uniform: int = 100  # negatives from all nodes of the right kinds
    by_degree: int = 0  # negatives by their number of edges
    rate: float = 0.03  # of Adagrad
    epochs: int = 100  # at most
    every: int = 3  # epochs from one look at the held-out edges to the next
    patience: int = 4  # looks without a better MRR before it stops
    seed: int = 0


class Epoch(NamedTuple):
    """What one pass over the edges gave."""

    number: int  # from 1
    loss: float  # mean per edge, both sides
    mrr: float | None  # on the held-out edges, where they were looked at
    seconds: float  # of training alone


class Ranks(NamedTuple):
    """Filtered ranks in short: a known true answer is no competitor; of ties the middle counts."""

    questions: int  # two per edge: its target, and its source
    mrr: float
    hits_at_1: float
    hits_at_10: float
    mean_rank: float
    auc: float  # chance that the true node beats one drawn from its competitors


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Both sides of all edges together, and apart."""

    all: Ranks
    relations: Mapping[str, Ranks]
    sides: Mapping[str, Ranks]  # source, target: the side that was asked for


@dataclass(frozen=True, slots=True)
class Embedding:
    """Vectors of nodes and the operator of each relation; the best epoch's where edges were held out."""

    vectors: Floats  # (nodes, dimension)
    parameters: Floats  # (1, relations, width), or (2, ...) where reciprocal; width is 0 for the identity
    options: EmbedOptions
    history: tuple[Epoch, ...] = ()
    evaluation: Evaluation | None = None  # of the held-out edges


# ---------------------------------------------------------------- edges


def edge_array(graph: Graph) -> Integers:
    """Source, relation and target of every edge (m, 3), in the graph's order."""
    return np.stack((graph.sources(), graph.relation.astype(np.int64), graph.indices.astype(np.int64)), axis=1)


def split_edges(graph: Graph, share: float, seed: int) -> tuple[Graph, Integers]:
    """The graph without about `share` of its edges, and those edges (m, 3).

    All edges between the same two nodes, in whatever direction and relation, stay together, so that none of
    them gives another away. Every node keeps a neighbour, every relation an edge; loops are never held out.
    Where too few edges can be spared, fewer are held out.
    """
    if not 0 < share < 1:
        raise ConfigError(f"the share of edges to hold out is {share}, not between 0 and 1")
    edges = edge_array(graph)
    low, high = np.minimum(edges[:, 0], edges[:, 2]), np.maximum(edges[:, 0], edges[:, 2])
    pairs, pair = np.unique(low * len(graph.nodes) + high, return_inverse=True)
    sizes = np.bincount(pair, minlength=len(pairs))
    order = np.random.default_rng(seed).permutation(len(pairs))
    place = np.argsort(order)
    first_of_node = np.full(len(graph.nodes), len(pairs), np.int64)  # the earliest pair in the order is kept
    first_of_relation = np.full(len(graph.relations), len(pairs), np.int64)
    proper = low != high
    np.minimum.at(first_of_node, low[proper], place[pair[proper]])
    np.minimum.at(first_of_node, high[proper], place[pair[proper]])
    np.minimum.at(first_of_relation, edges[:, 1], place[pair])
    kept = np.zeros(len(pairs) + 1, bool)  # the last for nodes and relations without edges
    kept[first_of_node] = kept[first_of_relation] = True
    kept[place[pair[~proper]]] = True
    spare = np.flatnonzero(~kept[:-1])
    enough = np.searchsorted(np.cumsum(sizes[order[spare]]), share * len(edges))
    held_out = np.isin(place[pair], spare[:enough])
    return _without(graph, held_out), edges[held_out]


def _without(graph: Graph, left_out: Any) -> Graph:
    kept = ~left_out
    before = np.concatenate(([0], np.cumsum(kept)))
    return Graph(
        graph.nodes,
        graph.kinds,
        graph.relations,
        before[graph.indptr].astype(np.int64),
        graph.indices[kept],
        graph.relation[kept],
        graph.weight[kept],
    )


class Pools(NamedTuple):
    """Which nodes can stand at a relation's source (side 0) or target (side 1): those of the kinds seen there."""

    members: tuple[Integers, ...]  # ascending rows
    of: Integers  # (2, relations): which of them; relations alike share one


def _pools(graph: Graph, edges: Integers) -> Pools:
    names, kind = np.unique(np.asarray(graph.kinds, dtype=str), return_inverse=True)
    found: dict[bytes, int] = {}
    members: list[Integers] = []
    of = np.zeros((2, len(graph.relations)), np.int64)
    for side in range(2):
        seen = np.zeros((len(graph.relations), len(names)), bool)
        seen[edges[:, 1], kind[edges[:, 2 * side]]] = True
        for relation, kinds in enumerate(seen):
            key = kinds.tobytes()
            if key not in found:
                found[key] = len(members)
                members.append(np.flatnonzero(kinds[kind]))
            of[side, relation] = found[key]
    return Pools(tuple(members), of)


# ---------------------------------------------------------------- scores


def _width(options: EmbedOptions) -> int:
    return 0 if options.operator == "identity" else options.dimension


def _apply(operator: str, rows: Tensor, parameter: Tensor) -> Tensor:
    """The operator on rows (..., dimension); complex numbers stand as all real parts, then all imaginary ones."""
    if operator == "identity":
        return rows
    if operator == "translation":
        return rows + parameter
    if operator == "diagonal":
        return rows * parameter
    return _complex_product(rows, parameter)


def _apply_backward(operator: str, rows: Tensor, parameter: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of rows (k, c, dimension) and of their chunk's parameter (k, dimension)."""
    if operator == "identity":
        return gradient, None
    if operator == "translation":
        return gradient, gradient.sum(1)
    if operator == "diagonal":
        return gradient * parameter, (gradient * rows).sum(1)
    return _complex_product(gradient, _conjugate(parameter)), _complex_product(gradient, _conjugate(rows)).sum(1)


def _complex_product(left: Tensor, right: Tensor) -> Tensor:
    half = left.shape[-1] // 2
    a, b, c, d = left[..., :half], left[..., half:], right[..., :half], right[..., half:]
    product = left.new_empty(left.shape)
    product[..., :half] = (a * c).sub_(b * d)
    product[..., half:] = (a * d).add_(b * c)
    return product


def _conjugate(numbers: Tensor) -> Tensor:
    half = numbers.shape[-1] // 2
    turned = numbers.clone()
    turned[..., half:].neg_()
    return turned


def _unit(rows: Tensor) -> tuple[Tensor, Tensor]:
    norms = rows.norm(dim=-1, keepdim=True).clamp_(min=EPSILON)
    return rows / norms, norms


def _unit_backward(unit: Tensor, norms: Tensor, gradient: Tensor) -> Tensor:
    return (gradient - (gradient * unit).sum(-1, keepdim=True) * unit).div_(norms)


# ---------------------------------------------------------------- gradients


def _contrast(
    queries: Tensor, own: Tensor, others: Tensor, barred: Tensor, counted: Tensor, options: EmbedOptions
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss, and gradients of queries and of their own answers (k, c, d), and of the others (k, n, d).

    `barred` (k, c, n) marks others that do not compete, `counted` (k, c) is 0 for what only fills up a chunk.
    """
    cosine = options.comparator == "cosine"
    scale = COSINE_SCALE if cosine and options.loss == "softmax" else 1.0
    if cosine:
        (queries, query_norms), (own, own_norms), (others, other_norms) = _unit(queries), _unit(own), _unit(others)
    right = (queries * own).sum(2)
    # a plain copy: products with a transposed right side take a path twice as slow on some processors
    wrong = queries.bmm(others.transpose(1, 2).contiguous()).masked_fill_(barred, -math.inf)
    if options.loss == "softmax":
        top = right.maximum(wrong.amax(2))
        weights = wrong.sub_(top[..., None]).mul_(scale).exp_()
        hit = ((right - top) * scale).exp_()
        total = weights.sum(2).add_(hit)
        loss = ((total.log() - (right - top) * scale) * counted).sum()
        part = counted * scale / total
        of_right = hit * part - counted * scale
        of_wrong = weights.mul_(part[..., None])
    else:
        short = wrong.sub_((right - options.margin)[..., None]).clamp_(min=0)
        loss = (short.sum(2) * counted).sum()
        of_wrong = (short > 0).to(queries.dtype).mul_(counted[..., None])
        of_right = -of_wrong.sum(2)
    of_queries = of_wrong.bmm(others).addcmul_(of_right[..., None], own)
    of_own = of_right[..., None] * queries
    of_others = of_wrong.transpose(1, 2).bmm(queries)
    if cosine:
        of_queries = _unit_backward(queries, query_norms, of_queries)
        of_own = _unit_backward(own, own_norms, of_own)
        of_others = _unit_backward(others, other_norms, of_others)
    return loss, of_queries, of_own, of_others


def _ask(
    queries: Tensor, candidates: Tensor, barred: Tensor, counted: Tensor, options: EmbedOptions
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, and gradients of queries (k, c, d) and of candidates (k, c + n, d), of which the first c are right."""
    chunk = counted.shape[1]
    first = 0 if options.in_batch else chunk
    loss, of_queries, of_own, of_others = _contrast(
        queries, candidates[:, :chunk], candidates[:, first:], barred, counted, options
    )
    of_candidates = candidates.new_empty(candidates.shape)
    of_candidates[:, first:] = of_others
    if options.in_batch:
        of_candidates[:, :chunk] += of_own
    else:
        of_candidates[:, :chunk] = of_own
    return loss, of_queries, of_candidates


def _gradients(
    rows: tuple[Tensor, Tensor],
    parameters: Tensor,
    barred: tuple[Tensor, Tensor],
    counted: Tensor,
    options: EmbedOptions,
) -> tuple[Tensor, tuple[Tensor, Tensor], list[Tensor]]:
    """Loss, gradients of sources and targets (k, c + n, d), and of `parameters` (1 or 2, k, width).

    Of each side the first c rows are the edges' own, the others negatives. Unless reciprocal, the operator acts
    on sources, whichever side is asked for, so that an edge has one score.
    """
    sources, targets = rows
    operator, chunk = options.operator, counted.shape[1]
    if options.reciprocal:
        own = (sources[:, :chunk], targets[:, :chunk])
        moved = [_apply(operator, one, parameter[:, None]) for one, parameter in zip(own, parameters, strict=True)]
        first, of_first, of_targets = _ask(moved[0], targets, barred[1], counted, options)
        second, of_second, of_sources = _ask(moved[1], sources, barred[0], counted, options)
        back = [
            _apply_backward(operator, one, parameter[:, None], gradient)
            for one, parameter, gradient in zip(own, parameters, (of_first, of_second), strict=True)
        ]
        of_sources[:, :chunk] += back[0][0]
        of_targets[:, :chunk] += back[1][0]
        return first + second, (of_sources, of_targets), [back[0][1], back[1][1]]
    shifted = _apply(operator, sources, parameters[0][:, None])
    first, of_queries, of_targets = _ask(shifted[:, :chunk], targets, barred[1], counted, options)
    second, more, of_shifted = _ask(targets[:, :chunk], shifted, barred[0], counted, options)
    of_targets[:, :chunk] += more
    of_shifted[:, :chunk] += of_queries
    of_sources, of_parameter = _apply_backward(operator, sources, parameters[0][:, None], of_shifted)
    return first + second, (of_sources, of_targets), [of_parameter]


def _descend(values: Tensor, sums: Tensor, rows: Tensor, gradient: Tensor, rate: float) -> None:
    """Row-wise Adagrad: one sum of mean squared gradients per row; `rows` are distinct."""
    total = sums.index_select(0, rows)
    total += gradient.square().mean(1)
    sums.index_copy_(0, rows, total)
    values.index_add_(0, rows, gradient.mul_((-rate / (total.sqrt_() + EPSILON))[:, None]))


# ---------------------------------------------------------------- batches


class Batch(NamedTuple):
    """Chunks of edges and their negatives, in numbers; arrays of numpy, then tensors."""

    relation: Any  # (k,)
    nodes: Any  # (2, k, c + n): sources and their negatives, targets and theirs
    counted: Any  # (k, c) bool
    barred: Any  # (2, k, c, n or c + n) bool: no competitor where this side is asked for


def _chunks(relation: Integers, size: int, generator: np.random.Generator) -> Integers:
    """Edge numbers in chunks (k, size) of one relation each, in random order; -1 fills up."""
    order = generator.permutation(len(relation))
    order = order[np.argsort(relation[order], kind="stable")]
    numbers = np.bincount(relation)
    chunks = -(-numbers // size)
    ordered = relation[order]
    within = np.arange(len(order)) - (np.cumsum(numbers) - numbers)[ordered]
    slots = np.full((int(chunks.sum()), size), -1, np.int64)
    first = (np.cumsum(chunks) - chunks)[ordered]
    slots[first + within % chunks[ordered], within // chunks[ordered]] = order
    return generator.permutation(slots)


class Urn(NamedTuple):
    """Nodes to draw from, pool after pool; a node that stands twice is drawn twice as often."""

    nodes: Integers
    start: Integers  # (pools,)
    size: Integers  # (pools,)

    def draw(self, pool: Integers, number: int, generator: np.random.Generator) -> Integers:
        """`number` nodes for each of the pools (k,)."""
        picked = (generator.random((len(pool), number)) * self.size[pool][:, None]).astype(np.int64)
        drawn: Integers = self.nodes[picked + self.start[pool][:, None]]
        return drawn


def _urn(members: tuple[Integers, ...]) -> Urn:
    size = np.array([len(one) for one in members], np.int64)
    return Urn(np.concatenate(members), np.cumsum(size) - size, size)


def _batches(edges: Integers, pools: Pools, options: EmbedOptions, generator: np.random.Generator) -> Iterator[Batch]:
    urns = []
    if options.uniform:
        urns.append((_urn(pools.members), options.uniform))
    if options.by_degree:
        degrees = np.bincount(edges[:, [0, 2]].ravel(), minlength=max(int(one.max()) for one in pools.members) + 1)
        urns.append((_urn(tuple(np.repeat(one, degrees[one]) for one in pools.members)), options.by_degree))
    size = options.chunk
    slots = _chunks(edges[:, 1], size, generator)
    together = max(1, options.batch // size)
    for start in range(0, len(slots), together):
        numbers = slots[start : start + together]
        counted = numbers >= 0
        chosen = edges[numbers]  # what fills up repeats the last edge, uncounted and barred
        relation = chosen[:, 0, 1]
        nodes, barred = [], []
        for side in range(2):
            own = chosen[:, :, 2 * side]
            drawn = [urn.draw(pools.of[side, relation], number, generator) for urn, number in urns]
            candidates = np.concatenate((own, *drawn), axis=1)
            same = (candidates if options.in_batch else candidates[:, size:])[:, None, :] == own[:, :, None]
            if options.in_batch:
                same[:, :, :size] |= ~counted[:, None, :]
            nodes.append(candidates)
            barred.append(same)
        yield Batch(relation, np.stack(nodes), counted, np.stack(barred))


def _distinct(nodes: Integers, place: Integers) -> tuple[Integers, Integers]:
    """The distinct nodes, and for each of `nodes` (any shape) which of them it is.

    `place` has a number per node of the graph, of any value: this takes linear time, sorting four times as long.
    """
    flat = nodes.ravel()
    place[flat] = np.arange(len(flat))
    last = place[flat]
    chosen = last == np.arange(len(flat))
    return flat[chosen], (np.cumsum(chosen) - 1)[last].reshape(nodes.shape)


# ---------------------------------------------------------------- training


def train_embedding(
    graph: Graph,
    options: EmbedOptions,
    *,
    initial: Floats | None = None,
    held_out: Integers | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: Progress | None = None,
) -> Embedding:
    """Vectors for all nodes of `graph`, on a GPU where there is one, else on the processor.

    `initial` (nodes, any width) are vectors of texts to begin with; a row of zeros has no text and begins at
    random. `held_out` edges (m, 3) must not stand in the graph: they stop the training and choose the epoch.
    With a `checkpoint` a killed run goes on after the last epoch written there and ends with the same vectors;
    the same seed gives the same vectors on one processor, a GPU apart. Raises ConfigError for options
    that make no sense, InputError for vectors, edges or a checkpoint that do not belong to this graph.
    """
    torch = require("torch", "train")
    _check(graph, options, initial, held_out)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    edges = edge_array(graph)
    watched, judge = None, None
    if held_out is not None and len(held_out):
        judge = _judge(graph, np.concatenate((edges, held_out)))
        chosen = np.random.default_rng(options.seed).permutation(len(held_out))[:WATCHED]
        watched = held_out[np.sort(chosen)]
    mark = _fingerprint(graph, options, initial, held_out) if checkpoint else ""
    run = _read_checkpoint(checkpoint, mark) if checkpoint and checkpoint.exists() else None
    run = _moved(run or _begin(graph, options, initial), lambda values: torch.from_numpy(values).to(device))
    pools = _pools(graph, edges)
    saved = time.monotonic()
    while run.epoch < options.epochs and not run.is_over(options):
        run.epoch += 1
        began = time.perf_counter()
        with _workers(torch, device) as (pool, threads):
            loss = _train_epoch(torch, run, edges, pools, options, pool, threads)
        seconds = time.perf_counter() - began
        if not math.isfinite(loss):
            raise InputError(f"the training diverged in epoch {run.epoch}; a rate below {options.rate} may help")
        mrr = None
        looking = run.epoch % options.every == 0 or run.epoch == options.epochs
        if looking and judge is not None and watched is not None:
            mrr = _summary(*_rank(torch, run.vectors, run.parameters, options, watched, judge)).mrr
            run.look(mrr)
        run.history.append(Epoch(run.epoch, loss, mrr, seconds))
        if progress:
            progress("embedding", run.epoch, options.epochs)
        if checkpoint and time.monotonic() - saved >= checkpoint_seconds:
            _write_checkpoint(checkpoint, mark, run)
            saved = time.monotonic()
    if checkpoint:
        _write_checkpoint(checkpoint, mark, run)
    vectors, parameters = (run.vectors, run.parameters) if run.best is None else run.best
    result = Embedding(vectors.cpu().numpy(), parameters.cpu().numpy(), options, tuple(run.history))
    if judge is None or held_out is None:
        return result
    return replace(result, evaluation=_evaluate(torch, result, graph, held_out, judge))


def _check(graph: Graph, options: EmbedOptions, initial: Floats | None, held_out: Integers | None) -> None:
    wrong = [
        f"{name} is {getattr(options, name)!r}, not one of {', '.join(possible)}"
        for name, possible in (("operator", OPERATORS), ("loss", LOSSES), ("comparator", COMPARATORS))
        if getattr(options, name) not in possible
    ]
    wrong += [
        f"{name} is {getattr(options, name)}, not at least {least}"
        for name, least in (
            *dict.fromkeys("dimension batch chunk epochs every patience".split(), 1).items(),
            *dict.fromkeys("uniform by_degree seed".split(), 0).items(),
        )
        if getattr(options, name) < least
    ]
    wrong += [
        f"{name} is {getattr(options, name)}, not above 0"
        for name in ("rate", "margin")
        if not 0 < getattr(options, name) < math.inf
    ]
    if options.operator == "complex" and options.dimension % 2:
        wrong.append(f"complex numbers need an even dimension, not {options.dimension}")
    if not (options.in_batch and options.chunk > 1) and not options.uniform and not options.by_degree:
        wrong.append("there are no negatives: in_batch, uniform or by_degree must bring some")
    if wrong:
        raise ConfigError("; ".join(wrong))
    nodes, relations = len(graph.nodes), len(graph.relations)
    if not len(graph.indices):
        raise InputError("the graph has no edges to learn from")
    if initial is not None and (initial.ndim != 2 or len(initial) != nodes or not np.isfinite(initial).all()):
        raise InputError(f"initial vectors must be finite and {nodes} rows, not of shape {initial.shape}")
    if held_out is not None:
        _check_edges(held_out, nodes, relations)


def _check_edges(edges: Integers, nodes: int, relations: int) -> None:
    if edges.ndim != 2 or edges.shape[1] != 3:
        raise InputError(f"edges must be rows of source, relation and target, not of shape {edges.shape}")
    if len(edges) and (edges.min() < 0 or (edges.max(0) >= (nodes, relations, nodes)).any()):
        raise InputError(f"an edge lies outside a graph of {nodes} nodes and {relations} relations")


@dataclass(slots=True)
class Run:
    """Where a training stands; arrays of numpy in a checkpoint, tensors while it runs."""

    vectors: Any  # (nodes, dimension)
    sums: Any  # (nodes,): of squared gradients, for Adagrad
    parameters: Any  # (1 or 2, relations, width)
    parameter_sums: Any  # (1 or 2, relations)
    best: tuple[Any, Any] | None = None  # vectors and parameters of the best look
    best_mrr: float = -1.0
    disappointments: int = 0  # looks since then
    epoch: int = 0
    history: list[Epoch] = field(default_factory=list)

    def look(self, mrr: float) -> None:
        if mrr > self.best_mrr:
            self.best, self.best_mrr, self.disappointments = (self.vectors.clone(), self.parameters.clone()), mrr, 0
        else:
            self.disappointments += 1

    def is_over(self, options: EmbedOptions) -> bool:
        return self.disappointments >= options.patience


def _moved(run: Run, move: Callable[[Any], Any]) -> Run:
    """The same run with all its arrays elsewhere."""
    arrays = {name: move(getattr(run, name)) for name in ("vectors", "sums", "parameters", "parameter_sums")}
    best = None if run.best is None else (move(run.best[0]), move(run.best[1]))
    return replace(run, **arrays, best=best)


def _begin(graph: Graph, options: EmbedOptions, initial: Floats | None) -> Run:
    generator = np.random.default_rng(options.seed)
    nodes, sides = len(graph.nodes), 2 if options.reciprocal else 1
    vectors = generator.standard_normal((nodes, options.dimension), np.float32)
    if initial is None:
        vectors *= RANDOM_SCALE
    else:
        texts = _fitted(initial, options.dimension, generator)
        norms = np.linalg.norm(texts, axis=1, keepdims=True)
        vectors *= TEXT_NORM / math.sqrt(options.dimension)
        np.divide(texts, norms / TEXT_NORM, out=vectors, where=norms > 0)
    parameters = np.zeros((sides, len(graph.relations), _width(options)), np.float32)
    if options.operator == "diagonal":
        parameters[:] = 1
    elif options.operator == "complex":
        parameters[:, :, : options.dimension // 2] = 1
    return Run(vectors, np.zeros(nodes, np.float32), parameters, np.zeros(parameters.shape[:2], np.float32))


def _fitted(vectors: Floats, dimension: int, generator: np.random.Generator) -> Floats:
    """Rows (n, any width) in another dimension, their inner products kept as well as a linear map can.

    Fewer dimensions: the main directions, not centred (Eckart and Young). More: turned at random into the larger
    space, so that every coordinate has a part in them.
    """
    width = vectors.shape[1]
    if width > dimension:
        _, directions = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)
        vectors = vectors @ directions[:, : -dimension - 1 : -1]
    elif width < dimension:
        frame, _ = np.linalg.qr(generator.standard_normal((dimension, width)))
        vectors = vectors @ frame.T
    return vectors.astype(np.float32)


@contextmanager
def _workers(torch: Any, device: str) -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """As many threads as torch would use, while torch itself uses one.

    Each takes a part of a batch. Torch would split every product instead and wait for the slower thread each time,
    which on a busy machine made training dozens of times slower.
    """
    before = torch.get_num_threads()
    threads = before if device == "cpu" else 1
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield pool, threads
    finally:
        torch.set_num_threads(before)


def _train_epoch(
    torch: Any,
    run: Run,
    edges: Integers,
    pools: Pools,
    options: EmbedOptions,
    workers: ThreadPoolExecutor,
    threads: int,
) -> float:
    """One pass in place; the mean loss per edge. An epoch's randomness is its own, so a run can go on from any."""
    generator = np.random.default_rng((options.seed, run.epoch))
    device, place = run.vectors.device, np.zeros(len(run.vectors), np.int64)
    total = torch.zeros((), dtype=torch.float64, device=device)
    for batch in _batches(edges, pools, options, generator):
        numbers = (*_distinct(batch.nodes, place), *np.unique(batch.relation, return_inverse=True))
        rows, which, relations, of_relation = (torch.from_numpy(one).to(device) for one in numbers)
        tensors = Batch(*(torch.from_numpy(one).to(device) for one in batch))
        step = -(-len(batch.relation) // threads)
        slices = [slice(start, start + step) for start in range(0, len(batch.relation), step)]
        parts = list(workers.map(partial(_part_gradients, run, tensors, options), slices))
        total += sum(loss for loss, *_ in parts)
        gradient = run.vectors.new_zeros((len(rows), run.vectors.shape[1]))
        for side in range(2):  # sums in the same order for any number of threads
            for part, (_, of_ends, _) in zip(slices, parts, strict=True):
                gradient.index_add_(0, which[side, part].flatten(), of_ends[side].flatten(0, 1))
        _descend(run.vectors, run.sums, rows, gradient, options.rate)
        for side in range(len(run.parameters) if _width(options) else 0):
            of_side = torch.cat([of_parameters[side] for *_, of_parameters in parts])
            summed = of_side.new_zeros((len(relations), of_side.shape[1])).index_add_(0, of_relation, of_side)
            _descend(run.parameters[side], run.parameter_sums[side], relations, summed, options.rate)
    return float(total) / len(edges)


def _part_gradients(
    run: Run, batch: Batch, options: EmbedOptions, part: slice
) -> tuple[Tensor, tuple[Tensor, Tensor], list[Tensor]]:
    """Of some chunks of a batch of tensors; see `_gradients`."""
    sources, targets = (
        run.vectors.index_select(0, nodes.flatten()).view(*nodes.shape, -1) for nodes in batch.nodes[:, part]
    )
    barred = (batch.barred[0, part], batch.barred[1, part])
    parameters = run.parameters[:, batch.relation[part]]
    return _gradients((sources, targets), parameters, barred, batch.counted[part].float(), options)


# ---------------------------------------------------------------- checkpoints


def _fingerprint(graph: Graph, options: EmbedOptions, initial: Floats | None, held_out: Integers | None) -> str:
    """Of all that decides the result, less the number of epochs: a finished run may be lengthened."""
    digest = hashlib.sha256()
    settings = {name: value for name, value in asdict(options).items() if name != "epochs"}
    digest.update(json.dumps([settings, list(graph.kinds), list(graph.relations)]).encode())
    for array in (edge_array(graph), held_out, initial):
        digest.update(b"none" if array is None else repr((array.shape, array.dtype.str)).encode() + array.tobytes())
    return digest.hexdigest()


def _write_checkpoint(path: Path, mark: str, run: Run) -> None:
    """One file under a temporary name, then renamed: there is the old one or the new one, never a part."""
    here = _moved(run, lambda values: values.cpu().numpy())
    state = {
        "format": CHECKPOINT_FORMAT,
        "fingerprint": mark,
        "best_mrr": run.best_mrr,
        "disappointments": run.disappointments,
        "epoch": run.epoch,
        "history": run.history,
    }
    arrays = {name: getattr(here, name) for name in ("vectors", "sums", "parameters", "parameter_sums")}
    if here.best is not None:
        arrays["best_vectors"], arrays["best_parameters"] = here.best
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            np.savez(stream, state=np.frombuffer(json.dumps(state).encode(), np.uint8), **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _read_checkpoint(path: Path, mark: str) -> Run:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        state = json.loads(arrays.pop("state").tobytes())
        best = (arrays.pop("best_vectors"), arrays.pop("best_parameters")) if "best_vectors" in arrays else None
        belongs = (state["format"], state["fingerprint"]) == (CHECKPOINT_FORMAT, mark)
        history = [Epoch(*epoch) for epoch in state["history"]]
        run = Run(
            **arrays,
            best=best,
            best_mrr=state["best_mrr"],
            disappointments=state["disappointments"],
            epoch=state["epoch"],
            history=history,
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError("is no checkpoint of a graph embedding, or a damaged one", file=str(path)) from error
    if not belongs:
        raise InputError("is the checkpoint of another graph or of other options; remove it", file=str(path))
    return run


# ---------------------------------------------------------------- evaluation


class Judge(NamedTuple):
    """What is true, and who competes."""

    pools: Pools
    questions: tuple[Integers, Integers]  # by the side asked for: relation and given node in one number, ascending
    answers: tuple[Integers, Integers]  # the true nodes of that side, in the same order
    loops: Any  # (relations,) bool: whether a node can be its own answer
    nodes: int


def _judge(graph: Graph, known: Integers) -> Judge:
    questions, answers = [], []
    for side in range(2):
        question = known[:, 1] * len(graph.nodes) + known[:, 2 - 2 * side]
        both = np.unique(np.stack((question, known[:, 2 * side])), axis=1)
        questions.append(both[0])
        answers.append(both[1])
    loops = np.zeros(len(graph.relations), bool)
    loops[known[known[:, 0] == known[:, 2], 1]] = True
    pools = _pools(graph, known)
    return Judge(pools, (questions[0], questions[1]), (answers[0], answers[1]), loops, len(graph.nodes))


def evaluate_embedding(
    embedding: Embedding, graph: Graph, held_out: Integers, known: Integers | None = None
) -> Evaluation:
    """How high each end of the held-out edges (m, 3) ranks among all nodes of the kinds that can stand there.

    True answers in `graph`, `held_out` and `known` (further edges, such as those of another part of the split)
    do not compete, nor does a node with itself where the relation has no loops. The middle of ties counts, and
    scores closer than the rounding of a product are ties: vectors all alike give an AUC of 0.5. A question without any
    competitor is left out.
    """
    torch = require("torch", "train")
    parts = [edge_array(graph), held_out] + ([] if known is None else [known])
    for part in parts[1:]:
        _check_edges(part, len(graph.nodes), len(graph.relations))
    if len(embedding.vectors) != len(graph.nodes) or not np.isfinite(embedding.vectors).all():
        raise InputError(f"the embedding must have {len(graph.nodes)} finite vectors")
    return _evaluate(torch, embedding, graph, held_out, _judge(graph, np.concatenate(parts)))


def _evaluate(torch: Any, embedding: Embedding, graph: Graph, edges: Integers, judge: Judge) -> Evaluation:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    vectors, parameters = (torch.from_numpy(one).to(device) for one in (embedding.vectors, embedding.parameters))
    ranks, competitors = _rank(torch, vectors, parameters, embedding.options, edges, judge)
    relations = {
        graph.relations[number]: _summary(ranks[:, rows], competitors[:, rows])
        for number in np.unique(edges[:, 1])
        for rows in [edges[:, 1] == number]
    }
    sides = {name: _summary(ranks[side], competitors[side]) for side, name in enumerate(("source", "target"))}
    return Evaluation(_summary(ranks, competitors), relations, sides)


def _summary(ranks: Any, competitors: Any) -> Ranks:
    asked = competitors > 0
    ranks, competitors = ranks[asked], competitors[asked]
    if not len(ranks):
        return Ranks(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return Ranks(
        len(ranks),
        float((1 / ranks).mean()),
        float((ranks <= 1).mean()),
        float((ranks <= 10).mean()),
        float(ranks.mean()),
        float((1 - (ranks - 1) / competitors).mean()),
    )


def _rank(
    torch: Any, vectors: Tensor, parameters: Tensor, options: EmbedOptions, edges: Integers, judge: Judge
) -> tuple[Any, Any]:
    """The rank of each edge's source and target, from 1, and the number of their competitors; both (2, m)."""
    ranks, competitors = np.ones((2, len(edges))), np.zeros((2, len(edges)), np.int64)
    for side in range(2):
        for relation in np.unique(edges[:, 1]).tolist():
            rows = np.flatnonzero(edges[:, 1] == relation)
            pool = judge.pools.members[judge.pools.of[side, relation]]
            candidates = vectors[torch.from_numpy(pool).to(vectors.device)]
            if side == 0 and not options.reciprocal:
                candidates = _apply(options.operator, candidates, parameters[0, relation])
            if options.comparator == "cosine":
                candidates = _unit(candidates)[0]
            step = max(1, BLOCK // len(pool))
            for block in (rows[start : start + step] for start in range(0, len(rows), step)):
                given, answer = edges[block, 2 - 2 * side], edges[block, 2 * side]
                queries = vectors[torch.from_numpy(given).to(vectors.device)]
                if side == 1 or options.reciprocal:
                    queries = _apply(options.operator, queries, parameters[1 - side, relation])
                if options.comparator == "cosine":
                    queries = _unit(queries)[0]
                row, spared = _spared(judge, side, relation, given)
                column, own = np.searchsorted(pool, spared), np.searchsorted(pool, answer)
                place = [torch.from_numpy(one).to(vectors.device) for one in (row, column, own)]
                ranks[side, block] = _rank_block(queries, candidates, *place).cpu().numpy()
                competitors[side, block] = len(pool) - np.bincount(row, minlength=len(block))
    return ranks, competitors


def _spared(judge: Judge, side: int, relation: int, given: Integers) -> tuple[Integers, Integers]:
    """What does not compete, as the question's number and the node: true answers, and mostly the given node."""
    question = relation * judge.nodes + given
    start = np.searchsorted(judge.questions[side], question)
    number = np.searchsorted(judge.questions[side], question, side="right") - start
    row = np.repeat(np.arange(len(given)), number)
    within = np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number)
    true = judge.answers[side][start[row] + within]
    if judge.loops[relation]:
        return row, true
    pool = judge.pools.members[judge.pools.of[side, relation]]
    present = np.flatnonzero(np.isin(given, pool))
    return np.concatenate((row, present)), np.concatenate((true, given[present]))


def _rank_block(queries: Tensor, candidates: Tensor, row: Tensor, column: Tensor, own: Tensor) -> Tensor:
    """Ranks (q,) of the candidates `own`; those at `row`, `column` do not compete."""
    scores = queries @ candidates.T
    right = scores.gather(1, own[:, None])
    # equal vectors can score unequally in the last bits, by where in the product they stand
    rounding = math.sqrt(queries.shape[1]) * 2.0**-23 * queries.norm(dim=1) * candidates[own].norm(dim=1)
    scores[row, column] = -math.inf
    better = (scores > right + rounding[:, None]).sum(1)
    level = (scores >= right - rounding[:, None]).sum(1) - better
    return 1 + better.double() + level.double() / 2
