"""MetricGAT: a graph attention network that gives every node an embedding and a metric of its own.

The distance from node i to j is measured with the metric of i: d² = (h_j - h_i)ᵀ G_i (h_j - h_i) with
G_i = L_i L_iᵀ + εI and L_i of low rank. The network is trained on links with the local distance; geodesics come later,
from one length per edge. A text without links gets an embedding and a metric from its vector alone, since in every
step all links of some nodes are hidden. Works on arrays; knows no texts. Of several processes, each computes some nodes
in every layer, and the loss of some anchors; all draw the same random numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from lemmata.core.errors import ConfigError, require
from lemmata.core.files import writing
from lemmata.core.types import Floats, Integers, Mask, Progress
from lemmata.core.workspace import silent
from lemmata.graph.attention import Incoming, Layer, NeighbourSampler, attend, incoming
from lemmata.train.learn_metric import NEGATIVES, MetricStageOptions
from lemmata.train.ranks import average, barrier, from_first, gathered, is_first_process, own_items, processes, rank

Tensor = Any  # of torch
SELF, CITED, CITING = 0, 1, 2  # kinds of messages: from the node itself, from what it refers to, from what refers to it
START_SHARE = 0.1  # of the neighbours at first, so that the text decides
TEMPERATURE = 0.05  # of the contrastive loss, at the beginning
MARGIN = 0.2  # of distances; half of it for cosines
HIDDEN = 0.5  # share of anchors all whose links are hidden; of the others, the link to the positive
DROPOUT = 0.1  # of links and of input features
WEIGHT_DECAY = 0.01
PATIENCE = 8  # epochs without a better validation
_ROWS = 1 << 14  # nodes that are embedded at once
_NUMBERS = 1 << 26  # numbers that a block of distances may need: 256 MB
_SIMILAR = 50  # nearest nodes among which hard negatives are drawn
_TINY = 1e-8  # keeps the gradient of a root finite


@dataclass(frozen=True, slots=True)
class MetricOptions(MetricStageOptions):
    """The parameters of the network and of its training; rank 0 is plain Euclidean distance."""

    batch: int = 512
    fan_out: int = 0  # messages that a node may get in a step, for graphs that do not fit; 0: all of them
    seed: int = 0

    def check(self) -> None:
        """ConfigError for what cannot be trained."""
        if self.dimension % self.heads:
            raise ConfigError(f"{self.dimension} dimensions cannot be shared by {self.heads} heads")
        if min(self.dimension, self.heads, self.layers, self.batch, self.epochs, self.hops) < 1 or self.rank < 0:
            raise ConfigError("dimension, heads, layers, hops, batch and epochs are at least 1, rank at least 0")
        if self.epsilon <= 0:
            raise ConfigError("epsilon must be positive: without it a metric of low rank is none")
        if not sum(self.negative(kind) for kind in NEGATIVES):
            raise ConfigError("negatives needs a number above 0: a network without any learns nothing")
        if not any(self.loss(name) for name in ("contrast", "ranking", "hierarchy")):
            raise ConfigError("losses needs contrast, ranking or hierarchy above 0: smoothness alone learns nothing")


class Located(NamedTuple):
    """Nodes in the learned space."""

    hidden: Tensor  # (n, dimension) output of the last layer, from which the metric comes
    h: Tensor  # (n, dimension)

    def take(self, rows: Tensor) -> Located:
        """Some of them; `rows` (b,) or (b, m)."""
        return Located(*(_rows(part, rows) for part in self))


class Messages(NamedTuple):
    """Who sends what to whom: the links forward and backward, then every node to itself."""

    sources: Tensor  # (e,)
    targets: Tensor  # (e,)
    kinds: Tensor  # (e,)

    def kept(self, mask: Tensor) -> Messages:
        return Messages(self.sources[mask], self.targets[mask], self.kinds[mask])

    def own(self) -> Messages:
        """Those to nodes that are dealt to this process; targets are numbered among these."""
        if processes() == 1:
            return self
        sent = self.kept(self.targets % processes() == rank())
        return sent._replace(targets=sent.targets // processes())


def messages(links: Tensor, count: int) -> Messages:
    """The messages along links (m, 2); the first m go from what is referred to, the next m the other way."""
    citing, cited = links[:, 0], links[:, 1]
    itself = torch.arange(count, device=links.device)
    kinds = torch.cat([torch.full_like(citing, CITED), torch.full_like(citing, CITING), torch.full_like(itself, SELF)])
    return Messages(torch.cat([cited, citing, itself]), torch.cat([citing, cited, itself]), kinds)


# ---------------------------------------------------------------- the network


class MetricGAT:
    """The network; `parameters` are plain tensors by name."""

    def __init__(self, vectors: Floats, options: MetricOptions, device: Any = "cpu") -> None:
        """Initialise for input vectors like `vectors` (n, inputs)."""
        options.check()
        self.options, self.device = options, device
        self.parameters: dict[str, Tensor] = {}
        generator = np.random.default_rng(options.seed)
        d, heads, rank = options.dimension, options.heads, options.rank

        def random(*shape: int, scale: float) -> Floats:
            return (generator.standard_normal(shape) * scale).astype(np.float32)

        inputs = vectors.shape[1]
        if options.text_start:  # begin with the geometry of the vectors
            self._add("input", _principal_map(vectors, d, generator))
        else:
            self._add("input", random(inputs, d, scale=inputs**-0.5))
        for layer in range(options.layers):
            width = d if self._is_last(layer) else d // heads
            self._add(f"weight{layer}", random(d, heads * width, scale=d**-0.5))
            for name in ("from", "to"):
                self._add(f"{name}{layer}", random(heads, width, scale=width**-0.5))
            self._add(f"kind{layer}", np.zeros((3, heads), np.float32))
            if options.text_start:
                self._add(f"gate{layer}", np.full(d, START_SHARE, np.float32))
        self._add("embed1", random(d, d, scale=d**-0.5))
        self._add("embed1_bias", np.zeros(d, np.float32))
        self._add("embed2", random(d, d, scale=0.01 * d**-0.5))
        self._add("embed2_bias", np.zeros(d, np.float32))
        self._add("norm", np.ones(d, np.float32))
        self._add("norm_bias", np.zeros(d, np.float32))
        if rank:
            self._add("metric1", random(d, d, scale=d**-0.5))
            self._add("metric1_bias", np.zeros(d, np.float32))
            self._add("metric2", random(d, d * rank, scale=0.01 * d**-0.5))
            # columns of norm 1: at 0 the gradient of the metric would be 0, too, and of norm 3 they blur the start
            self._add("metric2_bias", random(d * rank, scale=d**-0.5))
        self._add("log_temperature", np.full((), math.log(TEMPERATURE), np.float32))

    def _add(self, name: str, values: Floats) -> None:
        tensor = torch.tensor(values, device=self.device)
        self.parameters[name] = tensor.requires_grad_()

    def _is_last(self, layer: int) -> bool:
        return layer == self.options.layers - 1

    # ------------------------------------------------------------ nodes

    def locate(self, vectors: Tensor, sent: Messages, wanted: Tensor | None = None) -> Located:
        """All nodes, by their vectors (n, inputs) and their messages. Several processes call it together.

        Where only `wanted` (n,) are read afterwards, the last and widest layer leaves out messages to others.
        """
        count, sent = len(vectors), sent.own()
        hidden = vectors[own_items()] @ self.parameters["input"]  # of the own nodes, as below
        for layer in range(self.options.layers):
            if wanted is not None and self._is_last(layer):
                sent = sent.kept(wanted[own_items()][sent.targets])
            hidden = self._attend(layer, hidden, sent, count)
        return Located(gathered(hidden, count), gathered(self._embed(hidden), count))

    def locate_alone(self, vectors: Tensor) -> Located:
        """Texts without links: each attends to itself only, so the layers are plain ones."""
        hidden = vectors @ self.parameters["input"]
        for layer in range(self.options.layers):
            hidden = self._updated(layer, hidden, self._values(layer, hidden))
        return Located(hidden, self._embed(hidden))

    def locate_all(self, vectors: Floats, received: Incoming) -> Located:
        """All nodes, on the processor and without gradients, in little more memory than the result needs."""
        p = {name: tensor.detach().cpu().numpy() for name, tensor in self.parameters.items()}
        hidden = vectors @ p["input"]
        for number in range(self.options.layers):
            weight, sending, receiving, kinds = (p[f"{name}{number}"] for name in ("weight", "from", "to", "kind"))
            layer = Layer(weight, sending, receiving, kinds, average=self._is_last(number))
            values = attend(received, hidden, layer)
            hidden = hidden + p[f"gate{number}"] * values if self.options.text_start else values
        parts = torch.split(torch.tensor(hidden, device=self.device), _ROWS)
        with torch.no_grad():
            return Located(torch.cat(parts), torch.cat([self._embed(part) for part in parts]))

    def _values(self, layer: int, hidden: Tensor) -> Tensor:
        return (hidden @ self.parameters[f"weight{layer}"]).unflatten(1, (self.options.heads, -1))

    def _attend(self, layer: int, hidden: Tensor, sent: Messages, count: int) -> Tensor:
        """One layer of graph attention (Veličković and others 2018), with a bias per kind of message."""
        values = self._values(layer, hidden)  # (own nodes, heads, width)
        every = gathered(values, count)  # (n, heads, width)
        p = self.parameters
        scores = _rows((every * p[f"from{layer}"]).sum(-1), sent.sources)
        scores = scores + _rows((values * p[f"to{layer}"]).sum(-1), sent.targets)
        scores = torch.nn.functional.leaky_relu(scores + _rows(p[f"kind{layer}"], sent.kinds), 0.2)  # (e, heads)
        attention = _softmax_by_target(scores, sent.targets, len(hidden))
        weighted = _rows(every, sent.sources) * attention[:, :, None]
        return self._updated(layer, hidden, torch.zeros_like(values).index_add(0, sent.targets, weighted))

    def _updated(self, layer: int, hidden: Tensor, values: Tensor) -> Tensor:
        values = values.mean(1) if self._is_last(layer) else torch.nn.functional.elu(values.flatten(1))
        return hidden + self.parameters[f"gate{layer}"] * values if self.options.text_start else values

    def _embed(self, hidden: Tensor) -> Tensor:
        """LayerNorm(h + MLP(h)), scaled so that a vector has about length 1."""
        p = self.parameters
        inner = torch.nn.functional.gelu(hidden @ p["embed1"] + p["embed1_bias"])
        total = hidden + inner @ p["embed2"] + p["embed2_bias"]
        d = self.options.dimension
        return torch.nn.functional.layer_norm(total, (d,), p["norm"], p["norm_bias"]) * d**-0.5

    def factors(self, hidden: Tensor) -> Tensor:
        """L (n, dimension, rank) of some nodes."""
        p = self.parameters
        inner = torch.nn.functional.gelu(hidden @ p["metric1"] + p["metric1_bias"])
        return (inner @ p["metric2"] + p["metric2_bias"]).unflatten(1, (self.options.dimension, self.options.rank))

    # ------------------------------------------------------------ distances

    def distances(self, origins: Located, goals: Located) -> Tensor:
        """The distance from each of some nodes to each of others (b, c), squared distances never formed by d² factors.

        Memory is b · c · rank; callers cut it into blocks.
        """
        inner = origins.h @ goals.h.T
        squared = (origins.h.square().sum(1)[:, None] + goals.h.square().sum(1) - 2 * inner).clamp_min(0)
        if not self.options.rank:
            return (squared + _TINY).sqrt()
        factors = self.factors(origins.hidden)
        b, d, rank = factors.shape
        flat = factors.permute(0, 2, 1).reshape(b * rank, d)
        seen = (flat @ goals.h.T).view(b, rank, len(goals.h))
        seen = seen - torch.einsum("bdr,bd->br", factors, origins.h)[:, :, None]
        return (seen.square().sum(1) + self.options.epsilon * squared + _TINY).sqrt()

    def along(self, sources: Located, targets: Located) -> Tensor:
        """The distance (b, m) from each node (b, dimension) to its own partners (b, m, dimension)."""
        squared = (targets.h - sources.h[:, None]).square().sum(-1)
        if not self.options.rank:
            return (squared + _TINY).sqrt()
        factors = self.factors(sources.hidden)
        seen = torch.einsum("bdr,bmd->bmr", factors, targets.h - sources.h[:, None]).square().sum(-1)
        return (seen + self.options.epsilon * squared + _TINY).sqrt()

    def search_distances(self, queries: Located, nodes: Located) -> Tensor:
        """`distances` to all nodes, in blocks, without gradients (queries, nodes)."""
        step = max(1, _NUMBERS // (max(self.options.rank, 1) * len(nodes.h)))
        with torch.no_grad():
            blocks = [
                self.distances(Located(*(part[at : at + step] for part in queries)), nodes)
                for at in range(0, len(queries.h), step)
            ]
            return torch.cat(blocks)


def _principal_map(vectors: Floats, dimension: int, generator: np.random.Generator) -> Floats:
    """A map to `dimension` numbers that keeps the inner products of vectors as well as a linear one can."""
    inputs = vectors.shape[1]
    sample = vectors[np.sort(generator.permutation(len(vectors))[:20_000])].astype(np.float64)
    _, axes = np.linalg.eigh(sample.T @ sample)
    axes = axes[:, ::-1][:, :dimension]
    if dimension > inputs:
        axes = np.concatenate([axes, np.zeros((inputs, dimension - inputs))], axis=1)
    # any rotation keeps inner products; a random one spreads them over all components, as LayerNorm expects
    rotation, _ = np.linalg.qr(generator.standard_normal((dimension, dimension)))
    return np.asarray(axes @ rotation, np.float32)


def _softmax_by_target(scores: Tensor, targets: Tensor, count: int) -> Tensor:
    """Softmax of scores (e, heads) over the messages with the same target."""
    with torch.no_grad():
        index = targets[:, None].expand_as(scores)
        highest = scores.new_full((count, scores.shape[1]), -torch.inf).scatter_reduce(0, index, scores, "amax")
    weights = (scores - highest[targets]).exp()
    sums = torch.zeros_like(highest).index_add(0, targets, weights)
    return weights / _rows(sums, targets)


def _rows(values: Tensor, rows: Tensor) -> Tensor:
    """`values[rows]`, whose gradient is a plain sum; that of indexing sorts all rows first."""
    return values.index_select(0, rows.reshape(-1)).view(*rows.shape, *values.shape[1:])


# ---------------------------------------------------------------- training


class TrainedMetric(NamedTuple):
    """A trained network with the weights of the best epoch."""

    model: MetricGAT
    nodes: Located  # all nodes with all links
    history: list[dict[str, float]]  # per epoch: loss, and R@20 of validation
    seconds: float  # of this call


@dataclass(slots=True)
class _Run:
    """Progress of a training after some epochs."""

    best: dict[str, Tensor]  # parameters
    best_value: float = -1.0
    epoch: int = 0
    since_best: int = 0  # epochs
    history: list[dict[str, float]] = field(default_factory=list)


class _Links:
    """Links (m, 2) between `count` nodes, sorted by source; which nodes they join."""

    def __init__(self, pairs: Tensor, count: int) -> None:
        self._indptr = torch.zeros(count + 1, dtype=torch.long, device=pairs.device)
        self._indptr[1:] = torch.bincount(pairs[:, 0], minlength=count).cumsum(0)
        one, other = pairs[:, 0], pairs[:, 1]
        self._targets = other.contiguous()
        self._keys: Tensor = torch.unique(torch.cat([one * count + other, other * count + one]))  # sorted
        self._count = count

    def draw(self, rows: Tensor, generator: Any) -> Tensor:
        """What a random link of each row leads to; -1 where it has none."""
        begin = self._indptr[rows]
        number = self._indptr[rows + 1] - begin
        chosen = (torch.rand(len(rows), generator=generator, device=rows.device) * number).long()
        place = begin + torch.minimum(chosen, (number - 1).clamp_min(0))
        return torch.where(number > 0, self._targets[place.clamp_max(len(self._targets) - 1)], -1)

    def joined(self, one: Tensor, other: Tensor) -> Tensor:
        """Whether two nodes are the same or linked, in any direction."""
        keys = one * self._count + other
        place = torch.searchsorted(self._keys, keys).clamp_max(len(self._keys) - 1)
        return (self._keys[place] == keys) | (one == other)


class _Batch(NamedTuple):
    anchors: Tensor  # (b,)
    positives: Tensor  # (b,)
    further: list[Tensor]  # (b,) each: two links away, three and so on; -1 where there is none
    hard: Tensor  # (b, hard)
    random: Tensor  # (random,)
    kept: Tensor  # (messages,) those that are not hidden

    def rows(self) -> Tensor:
        """All nodes that the losses read."""
        further = (rows.clamp_min(0) for rows in self.further)
        return torch.cat([self.anchors, self.positives, *further, self.hard.reshape(-1), self.random])


class _Nodes(NamedTuple):
    """Nodes of a step in the learned space."""

    located: Located
    place: Tensor | None  # (n,) of each node of the graph among the located ones; None: all of them are

    def take(self, rows: Tensor) -> Located:
        return self.located.take(rows if self.place is None else self.place[rows])


class _Graph:
    """The vectors and messages of all nodes; with a `fan_out`, a step reads a sample of them."""

    def __init__(self, x: Tensor, sent: Messages, fan_out: int) -> None:
        self._x, self._sent, self._fan_out = x, sent, fan_out
        if fan_out:
            count = len(x)
            self._place = x.new_full((count,), -1).long()
            # the last messages are those of a node to itself
            sources, targets = (part[:-count].cpu().numpy() for part in (sent.sources, sent.targets))
            self._sampler = NeighbourSampler(sources, targets, count)

    def locate(self, model: MetricGAT, batch: _Batch, generator: Any) -> _Nodes:
        """The nodes that a step reads, by the messages that are kept."""
        x, sent, rows = self._x, self._sent, batch.rows()
        if not self._fan_out:
            wanted = torch.zeros(len(x), dtype=torch.bool, device=x.device)
            wanted[rows] = True
            return _Nodes(model.locate(_dropped(x, generator), sent.kept(batch.kept), wanted), None)
        seed = torch.randint(1 << 31, (), generator=generator, device=x.device)
        part = self._sampler.sample(
            rows.cpu().numpy(),
            model.options.layers,
            self._fan_out,
            batch.kept.cpu().numpy(),
            np.random.default_rng(int(seed)),
        )
        nodes, numbers, sources, targets = (torch.tensor(array, device=x.device) for array in part)
        itself = torch.arange(len(nodes), device=x.device)
        heard = Messages(
            torch.cat([sources, itself]),
            torch.cat([targets, itself]),
            torch.cat([sent.kinds[numbers], torch.full_like(itself, SELF)]),
        )
        self._place[nodes] = itself  # those of earlier steps are not read
        return _Nodes(model.locate(_dropped(x[nodes], generator), heard), self._place)


def train_metric(
    vectors: Floats,
    links: Integers,
    options: MetricOptions,
    validation: tuple[Integers, Sequence[set[int]]],
    *,
    candidates: Mask | None = None,
    patience: int = PATIENCE,
    checkpoint: Path | None = None,
    progress: Progress = silent,
    device: Any = "cpu",
) -> TrainedMetric:
    """Train on `links` (m, 2) between rows of `vectors` (n, inputs), which have length 1.

    Negatives are drawn among `candidates` (n,), by default all. `validation` are rows that have no links in `links`
    with the rows that each should find: the epoch with the best R@20 is kept, and `patience` epochs without a better
    one end the training. The file `checkpoint` is written after each epoch; the same call after a kill resumes from
    it, on the same kind of device. Several processes train one network, the same as one process would.
    """
    begin = time.perf_counter()
    device = torch.zeros((), device=device).device  # with its number, which a generator needs
    count = len(vectors)
    generator = torch.Generator(device=device).manual_seed(options.seed)
    model = MetricGAT(vectors, options, device)
    x = torch.tensor(np.asarray(vectors, np.float32), device=device)
    links = links[np.lexsort((links[:, 1], links[:, 0]))]
    pairs = torch.tensor(links, device=device, dtype=torch.long)
    sent = messages(pairs, count)
    sources, targets, kinds = (part.cpu().numpy() for part in sent)
    received = incoming(sources, targets, kinds, count)
    graph = _Graph(x, sent, options.fan_out)
    linked = _Links(pairs, count)
    allowed = torch.ones(count, dtype=torch.bool, device=device)
    if candidates is not None:
        allowed = torch.tensor(candidates, device=device)
    pool = allowed.nonzero()[:, 0]
    anchors = torch.unique(pairs[:, 0])
    similar = _similar(x, anchors, pool, linked)
    place_of = torch.full((count,), -1, dtype=torch.long, device=device)
    place_of[anchors] = torch.arange(len(anchors), device=device)
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in model.parameters.values() if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in model.parameters.values() if p.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=options.rate,
        fused=device.type == "cuda",
    )
    per_epoch = max(1, math.ceil(len(pairs) / options.batch))
    steps = per_epoch * options.epochs
    run = _Run(_copy(model))

    def locate() -> Located:
        if device.type == "cpu" or options.fan_out:
            return model.locate_all(vectors, received)
        with torch.no_grad():
            return model.locate(x, sent)

    if checkpoint is not None and checkpoint.exists():
        run = _read_checkpoint(checkpoint, model, optimizer, generator) or run
    if not run.epoch:
        run.best_value = _validate(model, x, locate(), validation, allowed)
        run.history.append({"epoch": 0, "R@20": run.best_value})
    step = run.epoch * per_epoch
    while run.epoch < options.epochs and run.since_best < patience:
        message = f"training the metric, R@20 {run.history[-1]['R@20']:.3f}"
        order = torch.randperm(len(pairs), generator=generator, device=device)
        total = torch.zeros((), device=device)
        for at in range(0, len(order), options.batch):
            rate = options.rate * _schedule(step, steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            places = order[at : at + options.batch]
            batch = _draw(places, pairs, linked, sent, similar, place_of, pool, options, generator)
            nodes = graph.locate(model, batch, generator)
            loss = _loss(model, nodes, linked, batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            loss = loss.detach()
            average([loss, *(p.grad for p in model.parameters.values() if p.grad is not None)])
            torch.nn.utils.clip_grad_norm_(list(model.parameters.values()), 1.0)
            optimizer.step()
            total += loss
            step += 1
            progress(message, step, steps)
        run.epoch += 1
        run.since_best += 1
        value = _validate(model, x, locate(), validation, allowed)
        run.history.append({"epoch": float(run.epoch), "loss": float(total) / per_epoch, "R@20": value})
        if value > run.best_value:
            run.best, run.best_value, run.since_best = _copy(model), value, 0
        if checkpoint is not None:
            _write_checkpoint(checkpoint, model, optimizer, generator, run)
    model.parameters |= run.best
    return TrainedMetric(model, locate(), run.history, time.perf_counter() - begin)


def _write_checkpoint(file: Path, model: MetricGAT, optimizer: Any, generator: Any, run: _Run) -> None:
    if is_first_process():
        state = {
            "device": generator.device.type,
            "parameters": _copy(model),
            "optimizer": optimizer.state_dict(),
            "generator": generator.get_state(),  # the same in all processes
            "run": asdict(run),
        }
        with writing(file) as temporary:
            torch.save(state, temporary)
    barrier()


def _read_checkpoint(file: Path, model: MetricGAT, optimizer: Any, generator: Any) -> _Run | None:
    """Set model, optimizer and generator to the last epoch; None, and nothing is set, for another kind of device."""
    state = torch.load(file, map_location="cpu", weights_only=True)
    if state["device"] != generator.device.type:  # whose generator draws other numbers
        return None
    with torch.no_grad():
        for name, tensor in model.parameters.items():
            tensor.copy_(state["parameters"][name])
    optimizer.load_state_dict(state["optimizer"])
    generator.set_state(state["generator"])
    run = _Run(**state["run"])
    run.best = {name: tensor.to(generator.device) for name, tensor in run.best.items()}
    return run


def export_head(model: MetricGAT, file: Path) -> None:
    """Write what gives a text its embedding and metric as ONNX: `vectors` (n, inputs) to `h` and `factors`.

    The factors are (n, dimension, rank), the metric itself is not: see `graph.stored_metric`.
    """
    require("onnx", "train")
    parameters = {name: tensor.detach().cpu() for name, tensor in model.parameters.items()}

    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = object.__new__(MetricGAT)
            self.model.options, self.model.device, self.model.parameters = model.options, "cpu", parameters

        def forward(self, vectors: Any) -> Any:
            located = self.model.locate_alone(vectors)
            return located.h, self.model.factors(located.hidden)

    first = {0: "texts"}
    with torch.no_grad():
        torch.onnx.export(
            Head(),
            (torch.zeros((2, len(parameters["input"]))),),
            str(file),
            input_names=["vectors"],
            output_names=["h", "factors"],
            dynamic_axes={"vectors": first, "h": first, "factors": first},
            opset_version=17,
            dynamo=False,  # the newer exporter needs onnxscript
        )


def recall(ranked: Tensor, answers: Sequence[set[int]]) -> float:
    """Mean share of the answers among the ranked rows (queries, k)."""
    rows = ranked.tolist()
    return float(np.mean([len(found & {*hits}) / len(found) for hits, found in zip(rows, answers, strict=True)]))


def _schedule(step: int, steps: int) -> float:
    """Linear up for a twentieth of the steps, then half a cosine down to a tenth."""
    warm_up = max(1, steps // 20)
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def _copy(model: MetricGAT) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.parameters.items()}


def _similar(x: Tensor, anchors: Tensor, pool: Tensor, linked: _Links) -> Tensor:
    """The nearest candidates of each anchor that are not linked to it (anchors, at most _SIMILAR)."""
    parts = []
    goals = x[pool]
    wide = min(2 * _SIMILAR, len(pool))
    step = max(1, min(2048, _NUMBERS // len(pool)))
    for at in range(0, len(anchors), step):
        rows = anchors[at : at + step]
        near = pool[(x[rows] @ goals.T).topk(wide, dim=1).indices]
        joined = linked.joined(rows[:, None].expand_as(near), near)
        first = torch.argsort(joined.long(), dim=1, stable=True)[:, : min(_SIMILAR, wide)]
        parts.append(near.gather(1, first))
    return torch.cat(parts)


def _draw(
    places: Tensor,
    pairs: Tensor,
    linked: _Links,
    sent: Messages,
    similar: Tensor,
    place_of: Tensor,
    pool: Tensor,
    options: MetricOptions,
    generator: Any,
) -> _Batch:
    """Some links as anchors and positives, their negatives, and the messages that they may see."""
    rows, positives = pairs[places].T

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=rows.device)

    links = len(pairs)
    further, before = [], positives
    for _ in range(options.hops - 1):
        drawn = linked.draw(before.clamp_min(0), generator)
        before = torch.where((before >= 0) & (drawn >= 0) & ~linked.joined(rows, drawn.clamp_min(0)), drawn, -1)
        further.append(before)
    hidden = torch.zeros(len(place_of), dtype=torch.bool, device=rows.device)
    hidden[rows[uniform(len(rows)) < HIDDEN]] = True
    kept = ~(hidden[sent.sources] | hidden[sent.targets])
    kept[places] = False
    kept[places + links] = False
    kept &= uniform(len(kept)) >= DROPOUT
    kept[2 * links :] = True
    number = options.negative("hard")
    columns = (uniform(len(rows), max(number, 1)) * similar.shape[1]).long()
    hard = similar[place_of[rows]].gather(1, columns)[:, :number]
    random = pool[(uniform(options.negative("random")) * len(pool)).long()]
    return _Batch(rows, positives, further, hard, random, kept)


def _dropped(x: Tensor, generator: Any) -> Tensor:
    kept = torch.rand(x.shape, generator=generator, device=x.device) >= DROPOUT
    return x * kept / (1 - DROPOUT)


def _loss(model: MetricGAT, nodes: _Nodes, linked: _Links, batch: _Batch) -> Tensor:
    """InfoNCE over local distances, and the further losses with their weights.

    Of several processes, each measures from its own anchors: the mean of their losses is that of all anchors.
    """
    options = model.options
    shared = torch.cat([batch.positives, batch.random])
    own_anchors, hard = torch.arange(len(batch.anchors), device=shared.device)[own_items()], batch.hard[own_items()]
    anchors, positives = batch.anchors[own_anchors], batch.positives[own_anchors]
    b = len(batch.anchors) / processes()  # anchors of a process, on average
    origins = nodes.take(anchors)
    to_shared = model.distances(origins, nodes.take(shared))
    to_hard = model.along(origins, nodes.take(hard))
    rows = anchors[:, None]
    masked = linked.joined(rows.expand_as(to_shared), shared.expand_as(to_shared))
    masked |= shared == positives[:, None]
    if not options.negative("batch"):
        masked[:, : len(batch.positives)] = True
    each = torch.arange(len(own_anchors), device=rows.device)
    masked[each, own_anchors] = False
    hard_masked = linked.joined(rows.expand_as(hard), hard) | (hard == positives[:, None])
    temperature = model.parameters["log_temperature"].exp()
    all_distances = torch.cat([to_shared, to_hard], 1)
    logits = (-all_distances / temperature).masked_fill(torch.cat([masked, hard_masked], 1), -torch.inf)
    to_positive = to_shared[each, own_anchors]
    loss = options.loss("contrast") * torch.nn.functional.cross_entropy(logits, own_anchors, reduction="sum") / b
    if hard.shape[1]:
        over = (to_positive[:, None] - to_hard + MARGIN).clamp_min(0).masked_fill(hard_masked, 0)
        loss = loss + options.loss("ranking") * over.sum() / (b * hard.shape[1])
    if options.loss("smoothness") and options.rank:
        difference = model.factors(origins.hidden) - model.factors(nodes.take(positives).hidden)
        loss = loss + options.loss("smoothness") * difference.square().sum((1, 2)).sum() / b
    return loss + options.loss("hierarchy") * _by_hops(nodes, batch)


def _by_hops(nodes: _Nodes, batch: _Batch) -> Tensor:
    """A node is more similar to what is one link away than to what is two, …, and least to a random one."""

    def directions(rows: Tensor) -> Tensor:
        return torch.nn.functional.normalize(nodes.take(rows).h, dim=1)

    anchors = directions(batch.anchors)
    strangers = batch.positives.roll(1)
    if len(batch.random):
        strangers = batch.random[torch.arange(len(anchors), device=anchors.device) % len(batch.random)]
    nearer_cosine, exists = (anchors * directions(batch.positives)).sum(1), torch.ones_like(anchors[:, 0])
    over = torch.zeros_like(exists)
    for rows in (*batch.further, strangers):
        farther_cosine = (anchors * directions(rows.clamp_min(0))).sum(1)
        exists = exists * (rows >= 0)
        over = over + exists * (farther_cosine - nearer_cosine + MARGIN / 2).clamp_min(0)
        nearer_cosine = farther_cosine
    return over.sum() / exists.sum().clamp_min(1)


def _validate(
    model: MetricGAT, x: Tensor, nodes: Located, validation: tuple[Integers, Sequence[set[int]]], allowed: Tensor
) -> float:
    """R@20 of texts without links."""
    rows = torch.tensor(validation[0], device=x.device)

    def measure() -> float:
        with torch.no_grad():
            distances = model.search_distances(model.locate_alone(x[rows]), nodes)
        distances[:, ~allowed] = torch.inf
        distances[torch.arange(len(rows), device=x.device), rows] = torch.inf
        return recall(distances.topk(min(20, len(x)), dim=1, largest=False).indices, validation[1])

    return from_first(measure)
