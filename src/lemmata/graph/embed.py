"""Graph embeddings: one vector per node, trained so that nodes joined by an edge score high.

The method is that of PyTorch-BigGraph (Lerer et al. 2019, arXiv:1903.12287) on one machine: each relation has a
translation, the edges of one relation share their negatives in chunks, and row-wise Adagrad updates the rows that a
batch touches. Gradients are written by hand, since a batch is a handful of matrix products. Edges are an array (m, 3)
of source, relation and target, in rows of the graph. Knows neither texts nor workspaces.
"""

from __future__ import annotations

import itertools
import json
import math
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.errors import InputError, require
from lemmata.core.files import writing
from lemmata.core.types import Floats, Graph, Integers, Progress
from lemmata.core.workers import one_torch_thread

CHUNK = 50  # edges of one relation that share negatives
BATCH = 1000  # edges of one update
EVALUATE_EVERY = 3  # epochs
PATIENCE = 4  # evaluations without a better MRR before training stops
EVALUATED = 2000  # held-out edges that early stopping looks at
RANDOM_SCALE = 1e-3
TEXT_NORM = 1.0  # of vectors that begin from a text; 0.5 to 2 did equally well, 4 did worse
EPSILON = 1e-10
BLOCK = 2**24  # scores in memory at once while ranking
Tensor = Any  # torch is optional, and untyped where it is not installed


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """The model and its training."""

    dimension: int = 128  # 64 and 256 differ from it by less than the seeds do (docs/LOG.md)
    epochs: int = 100  # at most
    rate: float = 0.03  # of Adagrad
    negatives: int = 100  # per chunk and side, drawn from all nodes of the right kinds
    seed: int = 0


class Epoch(NamedTuple):
    """One pass over the edges."""

    number: int  # from 1
    loss: float  # mean per edge, both sides
    mrr: float | None  # on the held-out edges, in epochs that evaluate
    seconds: float  # of training alone


class Ranks(NamedTuple):
    """Measures over filtered ranks: other true answers do not compete, and a tie counts as its middle rank."""

    questions: int  # two per edge: its target, and its source
    mrr: float
    hits_at_1: float
    hits_at_10: float
    mean_rank: float
    auc: float  # probability that the true node beats a random competitor


@dataclass(frozen=True, slots=True)
class Evaluation:
    all: Ranks
    relations: Mapping[str, Ranks]


@dataclass(frozen=True, slots=True)
class Embedding:
    """Vectors of nodes and translations of relations; those of the best epoch if edges were held out."""

    vectors: Floats  # (nodes, dimension)
    translations: Floats  # (2, relations, dimension): of each direction
    history: tuple[Epoch, ...] = ()
    evaluation: Evaluation | None = None  # on the held-out edges


# ---------------------------------------------------------------- edges


def edge_array(graph: Graph) -> Integers:
    """Source, relation and target of every edge (m, 3), in the order of the graph."""
    return np.stack((graph.sources(), graph.relation.astype(np.int64), graph.indices.astype(np.int64)), axis=1)


def split_edges(graph: Graph, share: float, seed: int) -> tuple[Graph, Integers]:
    """Hold out about `share` of the edges; returns the graph without them, and those edges (m, 3).

    All edges between the same two nodes, in any direction and relation, stay on one side, so that none reveals
    another. Every node keeps a neighbour, every relation an edge; loops are never held out. If too few edges
    can be spared, fewer are held out.
    """
    edges = edge_array(graph)
    low, high = np.minimum(edges[:, 0], edges[:, 2]), np.maximum(edges[:, 0], edges[:, 2])
    pairs, pair = np.unique(low * len(graph.nodes) + high, return_inverse=True)
    sizes = np.bincount(pair, minlength=len(pairs))
    order = np.random.default_rng(seed).permutation(len(pairs))
    position = np.argsort(order)
    first_of_node = np.full(len(graph.nodes), len(pairs), np.int64)  # the first pair in the order is never held out
    first_of_relation = np.full(len(graph.relations), len(pairs), np.int64)
    proper = low != high
    np.minimum.at(first_of_node, low[proper], position[pair[proper]])
    np.minimum.at(first_of_node, high[proper], position[pair[proper]])
    np.minimum.at(first_of_relation, edges[:, 1], position[pair])
    required = np.zeros(len(pairs) + 1, bool)  # the last entry is for nodes and relations without edges
    required[first_of_node] = required[first_of_relation] = True
    required[position[pair[~proper]]] = True
    spare = np.flatnonzero(~required[:-1])
    enough = np.searchsorted(np.cumsum(sizes[order[spare]]), share * len(edges))
    held_out = np.isin(position[pair], spare[:enough])
    rest = ~held_out
    train = replace(
        graph,
        indptr=np.concatenate(([0], np.cumsum(rest)))[graph.indptr].astype(np.int64),
        indices=graph.indices[rest],
        relation=graph.relation[rest],
        weight=graph.weight[rest],
    )
    return train, edges[held_out]


Pools = list[list[Integers]]  # by side (0: sources, 1: targets) and relation: the nodes that can stand there, ascending


def _pools(graph: Graph, edges: Integers) -> Pools:
    """All nodes of the kinds that a relation has on each side."""
    names, kind = np.unique(np.asarray(graph.kinds, dtype=str), return_inverse=True)
    members: dict[bytes, Integers] = {}  # relations with the same kinds share one array
    pools: Pools = [[], []]
    for side in range(2):
        seen = np.zeros((len(graph.relations), len(names)), bool)
        seen[edges[:, 1], kind[edges[:, 2 * side]]] = True
        for kinds in seen:
            key = kinds.tobytes()
            if key not in members:
                members[key] = np.flatnonzero(kinds[kind])
            pools[side].append(members[key])
    return pools


# ---------------------------------------------------------------- gradients


def _contrast(queries: Tensor, candidates: Tensor, masked: Tensor, counted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax loss, and gradients of queries (k, c, d) and of candidates (k, c + n, d); the first c are the answers.

    `masked` (k, c, n) marks negatives that do not compete; `counted` (k, c) is 0 for padding.
    """
    chunk = counted.shape[1]
    answers, negatives = candidates[:, :chunk], candidates[:, chunk:]
    right = (queries * answers).sum(2)
    # contiguous: products with a transposed right side are twice as slow on some processors
    wrong = queries.bmm(negatives.transpose(1, 2).contiguous()).masked_fill_(masked, -math.inf)
    top = right.maximum(wrong.amax(2))
    weights = wrong.sub_(top[..., None]).exp_()
    hit = (right - top).exp_()
    total = weights.sum(2).add_(hit)
    loss = ((total.log() - (right - top)) * counted).sum()
    share = counted / total
    of_right = hit * share - counted
    of_wrong = weights.mul_(share[..., None])
    of_queries = of_wrong.bmm(negatives).addcmul_(of_right[..., None], answers)
    of_candidates = candidates.new_empty(candidates.shape)
    of_candidates[:, chunk:] = of_wrong.transpose(1, 2).bmm(queries)
    of_candidates[:, :chunk] = of_right[..., None] * queries
    return loss, of_queries, of_candidates


def _gradients(
    rows: Tensor, translations: Tensor, masked: Tensor, counted: Tensor
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Loss, gradients of sources and targets (k, c + n, d), and of `translations` (2, k, d).

    `rows` and `masked` are those of sources, then of targets. The first c rows of each side belong to the edges, the
    others are negatives. Each direction has a translation, added to the end that is given.
    """
    chunk = counted.shape[1]
    total: Tensor = 0.0
    of_rows: list[Tensor] = [None, None]
    of_given, of_translations = [], []
    for side in range(2):
        queries = rows[side][:, :chunk] + translations[side][:, None]
        loss, of_queries, of_rows[1 - side] = _contrast(queries, rows[1 - side], masked[1 - side], counted)
        total = total + loss
        of_given.append(of_queries)
        of_translations.append(of_queries.sum(1))
    for of_side, gradient in zip(of_rows, of_given, strict=True):
        of_side[:, :chunk] += gradient
    return total, of_rows, of_translations


def _descend(values: Tensor, sums: Tensor, rows: Tensor, gradient: Tensor, rate: float) -> None:
    """Row-wise Adagrad: one sum of mean squared gradients per row; `rows` are distinct."""
    total = sums.index_select(0, rows)
    total += gradient.square().mean(1)
    sums.index_copy_(0, rows, total)
    values.index_add_(0, rows, gradient.mul_((-rate / (total.sqrt_() + EPSILON))[:, None]))


# ---------------------------------------------------------------- batches


class Batch(NamedTuple):
    """Chunks of edges and their negatives; arrays of numpy, then tensors."""

    relation: Any  # (k,)
    nodes: Any  # (2, k, c + n): sources and their negatives, targets and their negatives
    counted: Any  # (k, c) bool; False is padding
    masked: Any  # (2, k, c, n) bool: does not compete as the answer of this side


def _chunks(relation: Integers, size: int, generator: np.random.Generator) -> Integers:
    """Edge numbers in chunks (k, size) of one relation each, in random order; -1 is padding."""
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


def _batches(edges: Integers, pools: Pools, options: EmbedOptions, generator: np.random.Generator) -> Iterator[Batch]:
    slots = _chunks(edges[:, 1], CHUNK, generator)
    step = BATCH // CHUNK
    for start in range(0, len(slots), step):
        numbers = slots[start : start + step]
        counted = numbers >= 0
        chosen = edges[numbers]  # padding repeats the last edge, uncounted and masked
        relation = chosen[:, 0, 1]
        nodes, masked = [], []
        for side in range(2):
            answers = chosen[:, :, 2 * side]
            drawn_from = [pools[side][number] for number in relation]
            draws = generator.random((len(relation), options.negatives))
            offsets = (draws * [[len(pool)] for pool in drawn_from]).astype(np.int64)
            drawn = np.stack([pool[row] for pool, row in zip(drawn_from, offsets, strict=True)])
            nodes.append(np.concatenate((answers, drawn), axis=1))
            masked.append(drawn[:, None, :] == answers[:, :, None])
        yield Batch(relation, np.stack(nodes), counted, np.stack(masked))


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
    """Train vectors for all nodes of `graph`, on a GPU if there is one, else on the processor.

    `initial` (nodes, any width) are vectors of texts to start from; a row of zeros has no text and starts at
    random. `held_out` edges (m, 3) must not be in the graph: they stop the training and choose the epoch. With a
    `checkpoint`, a killed run resumes from the last epoch written there and ends with the same vectors. The same
    seed gives the same vectors on a processor, not always on a GPU. The caller names a checkpoint by the graph, its
    texts and the options; only `epochs` may differ. Raises InputError for a damaged one.
    """
    torch = require("torch", "train")
    held_out = np.zeros((0, 3), np.int64) if held_out is None else held_out
    device = "cuda" if torch.cuda.is_available() else "cpu"
    edges = edge_array(graph)
    pools = _pools(graph, edges)
    sample = np.random.default_rng(options.seed).permutation(len(held_out))[:EVALUATED]
    evaluated = held_out[np.sort(sample)]
    questions = list(_questions(graph, held_out, evaluated))
    is_begun = checkpoint is not None and checkpoint.exists()
    run = _read_checkpoint(checkpoint) if checkpoint and is_begun else _begin(graph, options, initial)
    for name, array in run.arrays().items():
        setattr(run, name, torch.from_numpy(array).to(device))
    saved = time.monotonic()
    while len(run.history) < options.epochs and _evaluations_without_gain(run.history) < PATIENCE:
        number = len(run.history) + 1
        began = time.perf_counter()
        loss = _train_epoch(torch, run, edges, pools, options, number)
        seconds = time.perf_counter() - began
        mrr = None
        if questions and (number % EVALUATE_EVERY == 0 or number == options.epochs):
            mrr = _summary(*_rank(run.vectors, run.translations, questions, len(evaluated))).mrr
        run.history.append(Epoch(number, loss, mrr, seconds))
        if mrr is not None and _evaluations_without_gain(run.history) == 0:
            run.best_vectors, run.best_translations = run.vectors.clone(), run.translations.clone()
        if progress:
            progress("embedding", number, options.epochs)
        if checkpoint and time.monotonic() - saved >= checkpoint_seconds:
            _write_checkpoint(checkpoint, run)
            saved = time.monotonic()
    if checkpoint:
        _write_checkpoint(checkpoint, run)
    best = (run.vectors, run.translations) if run.best_vectors is None else (run.best_vectors, run.best_translations)
    vectors, translations = (tensor.cpu().numpy() for tensor in best)
    trained = Embedding(vectors, translations, tuple(run.history))
    return replace(trained, evaluation=evaluate_embedding(trained, graph, held_out)) if len(held_out) else trained


def _evaluations_without_gain(history: Sequence[Epoch]) -> int:
    measured = [epoch.mrr for epoch in history if epoch.mrr is not None]
    return len(measured) - 1 - measured.index(max(measured)) if measured else 0


@dataclass(slots=True)
class Run:
    """The state of a training; arrays of numpy in a checkpoint, tensors while it runs."""

    vectors: Any  # (nodes, dimension)
    sums: Any  # (nodes,): of squared gradients, for Adagrad
    translations: Any  # (2, relations, dimension)
    translation_sums: Any  # (2, relations)
    best_vectors: Any = None  # of the best evaluation
    best_translations: Any = None
    history: list[Epoch] = field(default_factory=list)

    def arrays(self) -> dict[str, Any]:
        """All that is set, except the history, by name."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "history"}
        return {name: value for name, value in values.items() if value is not None}


def _begin(graph: Graph, options: EmbedOptions, initial: Floats | None) -> Run:
    generator = np.random.default_rng(options.seed)
    nodes, dimension = len(graph.nodes), options.dimension
    vectors = generator.standard_normal((nodes, dimension), np.float32)
    if initial is None:
        vectors *= RANDOM_SCALE
    else:
        texts = _change_dimension(initial, dimension, generator)
        norms = np.linalg.norm(texts, axis=1, keepdims=True)
        vectors *= TEXT_NORM / math.sqrt(dimension)
        np.divide(texts, norms / TEXT_NORM, out=vectors, where=norms > 0)
    translations = np.zeros((2, len(graph.relations), dimension), np.float32)
    return Run(vectors, np.zeros(nodes, np.float32), translations, np.zeros(translations.shape[:2], np.float32))


def _change_dimension(vectors: Floats, dimension: int, generator: np.random.Generator) -> Floats:
    """Rows (n, any width) in another dimension, with inner products as close as a linear map allows.

    Fewer dimensions: the main directions, not centred (Eckart and Young). More: a random rotation into the larger
    space, so that every coordinate takes part.
    """
    width = vectors.shape[1]
    if width > dimension:
        _, directions = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)
        vectors = vectors @ directions[:, : -dimension - 1 : -1]
    elif width < dimension:
        frame, _ = np.linalg.qr(generator.standard_normal((dimension, width)))
        vectors = vectors @ frame.T
    return vectors.astype(np.float32)


def _train_epoch(torch: Any, run: Run, edges: Integers, pools: Pools, options: EmbedOptions, number: int) -> float:
    """One pass in place; returns the mean loss per edge. Each epoch has its own random seed, so a run can resume."""
    generator = np.random.default_rng((options.seed, number))
    device = run.vectors.device
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    total = torch.zeros((), dtype=torch.float64, device=device)
    # torch would split every product over its threads and wait for the slowest each time, which on a busy machine made
    # training dozens of times slower; ours take a part of a batch each
    with one_torch_thread(torch), ThreadPoolExecutor(threads) as workers:
        for arrays in _batches(edges, pools, options, generator):
            batch = Batch(*(torch.from_numpy(array).to(device) for array in arrays))
            rows, position = batch.nodes.unique(return_inverse=True)
            relations, of_relation = batch.relation.unique(return_inverse=True)
            step = -(-len(batch.relation) // threads)
            slices = [slice(start, start + step) for start in range(0, len(batch.relation), step)]
            parts = list(workers.map(partial(_part_gradients, run, batch), slices))
            total += sum(loss for loss, *_ in parts)
            gradient = run.vectors.new_zeros((len(rows), run.vectors.shape[1]))
            for side in range(2):  # sums in the same order for any number of threads
                for part, (_, of_ends, _) in zip(slices, parts, strict=True):
                    gradient.index_add_(0, position[side, part].flatten(), of_ends[side].flatten(0, 1))
            _descend(run.vectors, run.sums, rows, gradient, options.rate)
            for side in range(2):
                of_side = torch.cat([of_translations[side] for *_, of_translations in parts])
                summed = of_side.new_zeros((len(relations), of_side.shape[1])).index_add_(0, of_relation, of_side)
                _descend(run.translations[side], run.translation_sums[side], relations, summed, options.rate)
    return float(total) / len(edges)


def _part_gradients(run: Run, batch: Batch, part: slice) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    nodes = batch.nodes[:, part]
    rows = run.vectors.index_select(0, nodes.flatten()).view(*nodes.shape, -1)
    translations = run.translations[:, batch.relation[part]]
    return _gradients(rows, translations, batch.masked[:, part], batch.counted[part].float())


# ---------------------------------------------------------------- checkpoints


def _write_checkpoint(path: Path, run: Run) -> None:
    history = np.frombuffer(json.dumps(run.history).encode(), np.uint8)
    arrays = {name: tensor.cpu().numpy() for name, tensor in run.arrays().items()}
    with writing(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, history=history, **arrays)


def _read_checkpoint(path: Path) -> Run:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        history = json.loads(arrays.pop("history").tobytes())
        return Run(**arrays, history=[Epoch(*epoch) for epoch in history])
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError("not a checkpoint of a graph embedding, or damaged; remove it", file=str(path)) from error


# ---------------------------------------------------------------- evaluation


class Questions(NamedTuple):
    """The edges of one relation, each asked for its source (side 0) or target (side 1)."""

    side: int
    relation: int
    rows: Integers  # (q,): numbers of the edges
    given: Integers  # (q,): nodes at the other end
    pool: Integers  # nodes that can be the answer, ascending
    answer: Integers  # (q,): position in the pool
    excluded: list[Integers]  # positions in the pool that do not compete, by question


def _questions(graph: Graph, more: Integers, edges: Integers) -> Iterator[Questions]:
    """Both questions of each of the `edges`; true answers, in the graph or in `more`, do not compete."""
    nodes = len(graph.nodes)
    true = np.concatenate((edge_array(graph), more))
    pools = _pools(graph, true)
    for side, relation in itertools.product(range(2), np.unique(edges[:, 1]).tolist()):
        rows = np.flatnonzero(edges[:, 1] == relation)
        given, pool = edges[rows, 2 - 2 * side], pools[side][relation]
        of_relation = true[true[:, 1] == relation]
        pairs = np.unique(of_relation[:, 2 - 2 * side] * nodes + of_relation[:, 2 * side])
        if (of_relation[:, 0] != of_relation[:, 2]).all():  # no loops: a node is not its own competitor either
            pairs = np.union1d(pairs, given[np.isin(given, pool)] * (nodes + 1))
        positions = np.searchsorted(pool, pairs % nodes)
        bounds = zip(np.searchsorted(pairs, given * nodes), np.searchsorted(pairs, (given + 1) * nodes), strict=True)
        answer = np.searchsorted(pool, edges[rows, 2 * side])
        yield Questions(side, relation, rows, given, pool, answer, [positions[start:stop] for start, stop in bounds])


def evaluate_embedding(embedding: Embedding, graph: Graph, held_out: Integers) -> Evaluation:
    """Rank each end of the held-out edges (m, 3) among all nodes of the kinds that can stand there.

    True answers in `graph` and `held_out` do not compete, nor does a node with itself where the relation has no loops.
    Scores closer than the rounding of a product are ties, and a tie counts as its middle rank: identical vectors give
    an AUC of 0.5. A question without competitors is left out.
    """
    torch = require("torch", "train")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    vectors, translations = (torch.from_numpy(a).to(device) for a in (embedding.vectors, embedding.translations))
    questions = _questions(graph, held_out, held_out)
    ranks, competitors = _rank(vectors, translations, questions, len(held_out))
    relations = {
        graph.relations[number]: _summary(ranks[:, rows], competitors[:, rows])
        for number in np.unique(held_out[:, 1])
        for rows in [held_out[:, 1] == number]
    }
    return Evaluation(_summary(ranks, competitors), relations)


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


def _rank(vectors: Tensor, translations: Tensor, questions: Iterable[Questions], edges: int) -> tuple[Any, Any]:
    """The rank of each edge's source and target, from 1, and the number of their competitors; both (2, edges)."""
    ranks, competitors = np.ones((2, edges)), np.zeros((2, edges), np.int64)
    for side, relation, rows, given, pool, answer, excluded in questions:
        candidates = vectors[pool]
        step = max(1, BLOCK // len(pool))
        for block in (slice(start, start + step) for start in range(0, len(rows), step)):
            queries = vectors[given[block]] + translations[1 - side, relation]
            ranks[side, rows[block]] = _rank_block(queries, candidates, answer[block], excluded[block]).cpu().numpy()
        competitors[side, rows] = len(pool) - np.array([len(positions) for positions in excluded])
    return ranks, competitors


def _rank_block(queries: Tensor, candidates: Tensor, answer: Integers, excluded: list[Integers]) -> Tensor:
    """Ranks (q,) of the candidates `answer`; those that are `excluded` do not compete."""
    scores = queries @ candidates.T
    right = scores[np.arange(len(answer)), answer][:, None]
    # equal vectors can differ in the last bits of their scores, depending on their position in the product
    rounding = math.sqrt(queries.shape[1]) * 2.0**-23 * queries.norm(dim=1) * candidates[answer].norm(dim=1)
    row = np.repeat(np.arange(len(excluded)), [len(positions) for positions in excluded])
    scores[row, np.concatenate(excluded)] = -math.inf
    better = (scores > right + rounding[:, None]).sum(1)
    level = (scores >= right - rounding[:, None]).sum(1) - better
    return 1 + better.double() + level.double() / 2
