"""Learn a metric from the vectors and links of a workspace, and keep it only if geodesic search gains by it.

Passages that come later get an embedding from their text alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.artefacts import Artefact, dense_index, is_current, learned_metric, making, open_artefact
from lemmata.core.errors import LemmataError, WorkspaceError, require
from lemmata.core.files import create_array
from lemmata.core.types import Floats, Integers, Mask, MeasuredGraph, Progress, Ranking
from lemmata.core.workspace import Settings, Workspace, read_manifest, vector_set
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.split import open_split
from lemmata.corpus.training_files import split_key
from lemmata.encode.load import encoder_id
from lemmata.evaluate.measures import evaluate, judged, parse_measure
from lemmata.evaluate.significance import randomisation
from lemmata.graph.lengths import measure_by_text, measured_arrays, sort_edges
from lemmata.graph.store import CITING, StoredGraph, citations_between, open_graph
from lemmata.graph.stored_metric import (
    HASHES,
    HEAD,
    LearnedMetric,
    measure_by_metric,
    metric_checkpoint,
    metric_sources,
)
from lemmata.search.fusion import DIFFUSION, fuse
from lemmata.search.paths import PathSearch
from lemmata.search.ranking import without_itself
from lemmata.train.ranks import from_first, held_by_first, own_device
from lemmata.vectors.exact import ExactIndex
from lemmata.vectors.store import open_vectors

if TYPE_CHECKING:
    from lemmata.train.metric_network import TrainedMetric

FEWEST = 40  # validation passages with references; with less nobody can tell whether the metric helps
FEWEST_STEPS = 16  # of an epoch: few links make small batches
MOST_LINKS = 500_000  # whose messages a step keeps in memory: about 6 GB; of more it reads a sample
FAN_OUT = 10
DEPTH = 20
NEAREST = DEPTH + 1  # one of them is the query itself
LEVEL = 0.05  # of the test that decides
# tried on the half of the validation passages that stops the training; the other half decides
STARTS = (5, 20)
QUERY_WEIGHTS = (0.5, 1.0, 2.5)


LOSSES = {"contrast": 1.0, "ranking": 0.5, "smoothness": 0.01, "hierarchy": 0.1}
NEGATIVES = {"hard": 8, "random": 512, "batch": 1}


@dataclass(frozen=True, slots=True)
class MetricStageOptions:
    """How a metric is learned."""

    CHOICES: ClassVar = {"losses": tuple(LOSSES), "negatives": tuple(NEGATIVES)}
    SMALLEST: ClassVar = {"dimension": 4, "rank": 1, "layers": 1, "heads": 1, "hops": 1, "epochs": 1}
    dimension: int = 256  # of the embeddings; a multiple of `heads`
    rank: int = 32  # of the metrics
    layers: int = 3  # of graph attention
    heads: int = 4  # of each layer
    text_start: bool = True  # layers add to the geometry of the vectors; false: plain attention, random weights
    epsilon: float = 1.0  # of the metric LLᵀ + εI; a larger L makes it as small as it should be
    losses: dict[str, float] = field(default_factory=LOSSES.copy)  # their weights; what is not named stays
    negatives: dict[str, int] = field(default_factory=NEGATIVES.copy)  # of an anchor; batch = 0: none of its batch
    hops: int = 2  # links up to which the loss `hierarchy` tells near from far
    rate: float = 1e-3  # learning rate
    epochs: int = 50  # at most; validation ends the training
    always: bool = False  # use the metric even where it does not help

    def loss(self, name: str) -> float:
        return self.losses.get(name, LOSSES[name])

    def negative(self, kind: str) -> int:
        return self.negatives.get(kind, NEGATIVES[kind])


class _Task(NamedTuple):
    """Passages whose references are to be found."""

    rows: Integers
    answers: list[set[int]]

    def part(self, number: int) -> _Task:
        """Every second one."""
        return _Task(self.rows[number::2], self.answers[number::2])


class _Data(NamedTuple):
    matrix: Floats  # (passages, inputs)
    hashes: npt.NDArray[np.uint64]  # (passages,) of their texts
    stored: StoredGraph
    citing: Mask  # (edges,) links between passages
    seen: Mask  # (edges,) all edges but the links of held-out passages
    candidates: Mask  # (passages,) what has or gets a link
    task: _Task


def learn_metric(workspace: Workspace, *, encoder: str = "", settings: Settings | None = None) -> dict[str, Any]:
    """Learn a metric from vectors and links, by [metric]; `geodesic` uses it only if it helps on validation.

    It is trained on the training part, and kept if geodesic search by it finds significantly more references of the
    validation part than dense search, diffusion and geodesic search by text do. The report says what was found in
    either case. Resumes from the last epoch.
    """
    require("torch", "train")
    from lemmata.train.metric_network import MetricOptions, train_metric

    options = workspace.options(MetricStageOptions, "metric", settings)
    vectors = vector_set(workspace, encoder and encoder_id(encoder, workspace.models_folder))
    if vectors is None:
        raise WorkspaceError("a metric is learned from vectors: run 'lemmata index' first")
    with held_by_first(workspace.hold()):
        open_artefact(workspace, dense_index(vectors))
        item = learned_metric(vectors)
        recipe = {"options": asdict(options), "split": split_key(workspace), **metric_sources(workspace, vectors)}
        checkpoint = metric_checkpoint(vectors, recipe)

        def remove_checkpoints() -> None:
            for file in checkpoint.parent.glob("metric.*.partial.pt"):  # also those of other graphs and options
                file.unlink(missing_ok=True)

        if is_current(item, recipe):
            remove_checkpoints()  # of a run that was killed at its very end
            return {**(read_manifest(item.manifest) or {})["report"], "done_before": True}
        data = _open(workspace, vectors.encoder)
        links = _links(data, data.citing & data.seen)
        batch = min(max(len(links) // FEWEST_STEPS, 32), 512)
        trained = train_metric(
            data.matrix,
            links,
            MetricOptions(**asdict(options), batch=batch, fan_out=FAN_OUT if len(links) > MOST_LINKS else 0),
            data.task.part(0),
            candidates=data.candidates,
            checkpoint=checkpoint,
            progress=workspace.progress,
            device=own_device(),
        )

        def judge() -> dict[str, Any]:
            report, search = _judge(data, trained, workspace.progress)
            report["kept"] |= options.always and report["best_epoch"] > 0
            _write(item, data, trained, {**recipe, "report": report, "search": search}, workspace.progress)
            remove_checkpoints()
            return report

        return from_first(judge)


def _open(workspace: Workspace, encoder: str) -> _Data:
    with contextlib.closing(Corpus(workspace)) as corpus:
        split = open_split(workspace, corpus.digest)
        vectors = open_vectors(workspace, corpus.digest, encoder)
    matrix = np.asarray(vectors.matrix, np.float32)
    stored = open_graph(workspace)
    graph, rows = stored.graph, np.asarray(stored.rows)
    sources, targets = rows[graph.sources()], rows[np.asarray(graph.indices)]
    numbers = [number for number, name in enumerate(graph.relations) if name in CITING]
    refers = np.isin(graph.relation, numbers)
    citing = refers & (sources >= 0) & (targets >= 0) & (sources != targets)
    in_training = np.append(split.rows("train"), False)  # the last one is for nodes that are no passages
    seen = ~(refers & (sources >= 0) & ~in_training[sources])
    if not (citing & seen).any():
        raise LemmataError(
            "a metric is learned from links between passages, and the training part has none:"
            " ingest texts that refer to each other"
        )
    candidates = np.zeros(len(matrix), bool)
    candidates[sources[citing]] = candidates[targets[citing]] = True
    citations = citations_between(graph, rows, len(matrix))
    held_out = np.flatnonzero(split.rows("validation") & (np.diff(citations.indptr) > 0))
    answers = [{*citations.indices[citations.indptr[row] : citations.indptr[row + 1]].tolist()} for row in held_out]
    if len(held_out) < FEWEST:
        raise LemmataError(
            f"{len(held_out)} passages of the validation part refer to others; to tell whether a metric helps,"
            f" {FEWEST} are needed: ingest more texts, or give validation a larger share in [split]"
        )
    shuffled = np.random.default_rng(0).permutation(len(held_out))
    task = _Task(held_out[shuffled], [answers[place] for place in shuffled.tolist()])
    return _Data(matrix, np.asarray(vectors.hashes), stored, citing, seen, candidates, task)


def _links(data: _Data, kept: Mask) -> Integers:
    """The rows that some edges join (m, 2), each pair once."""
    graph, rows = data.stored.graph, np.asarray(data.stored.rows)
    edges = np.flatnonzero(kept)
    return np.unique(np.stack([rows[graph.sources()[edges]], rows[graph.indices[edges]]], axis=1), axis=0)


# ---------------------------------------------------------------- does it help?


class _Half(NamedTuple):
    """Half of the validation passages, with what is nearest to each of them, itself included."""

    task: _Task
    by_text: Ranking
    by_metric: Ranking


def _judge(data: _Data, trained: TrainedMetric, progress: Progress) -> tuple[dict[str, Any], dict[str, Any]]:
    """Whether geodesic search by the metric finds more than every search without it, on passages that chose nothing.

    One half of the validation passages stops the training and chooses starts and weights, for lengths by text as for
    the metric; the other half decides.
    """
    epsilon = trained.model.options.epsilon
    stored, candidates, passages = data.stored, data.candidates, len(data.matrix)
    seen = stored._replace(graph=stored.graph.with_edges(data.seen))
    by_text, lengths = measured_arrays(None, seen.graph), np.empty(len(seen.graph.indices), np.float32)
    measure_by_text(seen.graph, np.asarray(seen.rows), data.matrix, lengths, progress)
    sort_edges(seen.graph, lengths, lengths, by_text)
    known = stored._replace(graph=stored.graph.with_edges(data.citing & data.seen))
    by_metric = measured_arrays(None, known.graph)
    _measure(known, trained, by_metric, progress)
    citations = citations_between(known.graph, np.asarray(known.rows), passages)
    index, metric = ExactIndex(data.matrix), LearnedMetric(trained.nodes.h.cpu().numpy(), epsilon, _head(trained))

    def read_half(number: int) -> _Half:
        task = data.task.part(number)
        queries = data.matrix[task.rows]
        nearest = index.search(queries, DIFFUSION.depth, candidates)
        return _Half(task, nearest, metric.search(queries, NEAREST, candidates))

    def dense(half: _Half) -> Integers:
        return without_itself(*half.by_text, half.task.rows)[0][:, :DEPTH]

    def diffusion(half: _Half) -> Integers:
        shape = len(half.task.rows), 1
        no_words = np.full(shape, -1), np.full(shape, -np.inf, np.float32)
        return fuse(half.by_text, no_words, DEPTH, DIFFUSION, citations, half.task.rows, candidates)[0]

    def geodesic_by_text(half: _Half, starts: int, weight: float) -> Integers:
        near = half.by_text[0][:, :NEAREST], half.by_text[1][:, :NEAREST]
        paths = PathSearch(seen, by_text, passages, starts=starts, query_weight=weight)
        return paths.nearest([near], DEPTH, candidates, half.task.rows)[0]

    def geodesic_by_metric(half: _Half, starts: int, weight: float) -> Integers:
        paths = PathSearch(known, by_metric, passages, starts=starts, query_weight=weight)
        return paths.nearest([half.by_metric], DEPTH, candidates, half.task.rows)[0]

    def recalls(half: _Half, search: Callable[..., Integers], setting: tuple[Any, ...]) -> Any:
        grades = {str(place): dict.fromkeys(map(str, sorted(rows)), 1) for place, rows in enumerate(half.task.answers)}
        measured = evaluate(search(half, *setting), judged(grades, int), [parse_measure(measure)])
        return measured[measure]

    measure = f"R@{DEPTH}"
    progress("choosing starts", 0, None)
    tuning, judging = read_half(0), read_half(1)
    settings = [*product(STARTS, QUERY_WEIGHTS)]
    recall_of, setting_of = {}, {}
    for name, search, choices in (
        ("by_dense", dense, [()]),
        ("by_diffusion", diffusion, [()]),
        ("by_text", geodesic_by_text, settings),
        ("by_metric", geodesic_by_metric, settings),
    ):
        setting_of[name] = max(choices, key=lambda setting: float(recalls(tuning, search, setting).mean()))
        recall_of[name] = recalls(judging, search, setting_of[name])
    after = recall_of["by_metric"]
    rival = max((name for name in recall_of if name != "by_metric"), key=lambda name: float(recall_of[name].mean()))
    p = randomisation(after, recall_of[rival], generator=np.random.default_rng(0))
    history = trained.history
    best_epoch = int(np.argmax([record.get("R@20", -1.0) for record in history]))  # 0: before any training
    helps = bool(best_epoch and after.mean() > recall_of[rival].mean() and p < LEVEL)
    report = {
        "kept": helps,
        "helps": helps,
        "measure": measure,
        "queries": len(judging.task.rows),
        **{name: float(values.mean()) for name, values in recall_of.items()},
        "rival": rival.removeprefix("by_"),
        "p": float(p),
        "links": int((data.citing & data.seen).sum()),
        "epochs": len(history) - 1,
        "best_epoch": best_epoch,
        "seconds": trained.seconds,
    }
    starts, weight = setting_of["by_metric"]
    return report, {"epsilon": epsilon, "seeds": starts, "query_weight": weight}


def _head(trained: TrainedMetric) -> Any:
    import torch

    def head(vectors: Floats) -> tuple[Floats, Floats]:
        with torch.no_grad():
            located = trained.model.locate_alone(torch.tensor(vectors, device=trained.nodes.h.device))
            return located.h.cpu().numpy(), trained.model.factors(located.hidden).cpu().numpy()

    return head


def _measure(stored: StoredGraph, trained: TrainedMetric, result: MeasuredGraph, progress: Progress) -> None:
    """Fill in the lengths of a graph that has links between passages only."""
    import torch

    def factors(rows: Integers) -> Floats:
        with torch.no_grad():
            hidden = trained.nodes.hidden[torch.tensor(rows, device=trained.nodes.hidden.device)]
            return np.asarray(trained.model.factors(hidden).cpu().numpy())

    graph, rows = stored.graph, np.asarray(stored.rows)
    forward, backward = (np.empty(len(graph.indices), np.float32) for _ in range(2))
    ends = rows[graph.sources()], rows[np.asarray(graph.indices)]
    h = trained.nodes.h.cpu().numpy()
    measure_by_metric(*ends, h, factors, trained.model.options.epsilon, forward, backward, progress)
    sort_edges(graph, forward, backward, result)


def _write(item: Artefact, data: _Data, trained: TrainedMetric, content: Mapping[str, Any], progress: Progress) -> None:
    """Store the metric for search, or only the report where it does not help.

    Embeddings are those by the links of the training part, so that a test passage has not told what it refers to;
    lengths are those of all links.
    """
    with making(item, {"verb": "metric", **content}) as folder:
        if not content["report"]["kept"]:
            return
        stored = data.stored._replace(graph=data.stored.graph.with_edges(data.citing))
        edges = np.flatnonzero(data.citing)
        result = measured_arrays(folder, stored.graph)
        _measure(stored, trained, result, progress)
        numbers: Integers = np.asarray(result.edges, np.int64)
        result.edges[:] = np.where(numbers >= 0, edges[numbers], -1 - edges[-1 - numbers])  # of the whole graph
        h = trained.nodes.h.cpu().numpy()
        create_array(folder / "h.npy", h.dtype, h.shape)[:] = h
        np.save(folder / HASHES, data.hashes)
        from lemmata.train.metric_network import export_head

        export_head(trained.model, folder / HEAD)
