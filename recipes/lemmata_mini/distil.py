"""Train lemmata-mini from larger encoders and from queries with their passages, on one GPU.

    python -m recipes.lemmata_mini.distil teach DATA MODELS base-before mini-before gte-small granite-start
    python -m recipes.lemmata_mini.distil train DATA MODELS mini5 --init granite-start --centre --rate 2e-4 \
        --seconds 540 --teachers mini-before=.45/.05/.1/.15 base-before=.45/.2/.35/.35 \
        granite-start=.05/.45/.3/.3 gte-small=.05/.3/.25/.2
    python -m recipes.lemmata_mini.distil blend DATA MODELS mini mini5=.9 granite-start~=.1 --init granite-start
    python -m recipes.lemmata_mini.distil score DATA MODELS mini --part test

DATA is written by arrays.py, MODELS by teachers.py and start.py. 540 seconds of an H200 are about 4,000 steps; all of
it takes 14 minutes. First the student learns how near any two texts of a batch are to all teachers together, each heard
by the domain of the text (mathematics/science/general English/papers). Then it also learns queries with their passages,
and keeps the teachers' view of the same batch; a passage that the teachers find nearer to a query than its own is no
negative. What is kept is the running mean of the weights. A model that loses on a task of --guards against --init is
refused: nothing is written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import AutoConfig, AutoModel

from lemmata.core.types import Integers
from lemmata.encode.static import is_static, read_static, write_static
from lemmata.evaluate.measures import evaluate, judged, parse_measure

GUARDS = ("scifact-train", "cisi")  # unless others are named
FORGET = 0.01  # of a guard's score that training may lose
HEAT = 0.05  # temperature of similarities
LONGEST, TRAINED = 256, 192  # tokens of a text that is measured, and of one that is trained on
WARM_UP = 60  # steps
HEADS_RATE = 1e-3
DECAY, EVERY = 0.98, 4  # of the running mean of the weights, and the steps between its updates
NEGATIVES, DEEP, SKIPPED = 8, 40, 4  # for a pair: drawn from the nearest 40 passages but the first four
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


# ---------------------------------------------------------------- data


class Texts:
    """Token numbers of all texts in one vocabulary, on the device. They are stored beside the texts.

    A vocabulary that has capital letters has all texts once more, without them: people type queries in small letters.
    """

    def __init__(self, data: Path, tokenizer: Tokenizer, name: str) -> None:
        flat, starts = data / f"tokens-{name}.npy", data / f"starts-{name}.npy"
        self.is_cased = tokenizer.encode("Lemma").ids != tokenizer.encode("lemma").ids
        if not starts.exists():
            tokenizer.no_padding()
            tokenizer.enable_truncation(LONGEST)
            lines = (data / "texts.txt").read_text(encoding="utf-8").split("\n")
            if self.is_cased:
                lines += [line.lower() for line in lines]
            parts, lengths = [], [0]
            for begin in range(0, len(lines), 20_000):
                ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(lines[begin : begin + 20_000])]
                parts.append(np.concatenate([np.array(own, np.uint16) for own in ids]))
                lengths += map(len, ids)
            np.save(flat, np.concatenate(parts))
            np.save(starts, np.cumsum(lengths))
        offsets = np.load(starts)
        self.lengths: Integers = np.diff(offsets)
        self.count = len(self.lengths) // (2 if self.is_cased else 1)
        self.flat, self.starts = on_device(np.load(flat).astype(np.int32)), on_device(offsets)

    def padded(self, rows: Integers, pad: int, longest: int) -> tuple[Tensor, Tensor]:
        """Token numbers and mask; a text that is cut keeps its closing token."""
        chosen = on_device(rows)
        first, last = self.starts[chosen], self.starts[chosen + 1]
        length = (last - first).clamp(max=longest)
        places = torch.arange(int(length.max()), device=DEVICE)
        mask = places < length[:, None]
        ids = self.flat[(first[:, None] + places).clamp(max=len(self.flat) - 1)].long()
        ids[torch.arange(len(rows), device=DEVICE), length - 1] = self.flat[last - 1].long()
        return ids.masked_fill(~mask, pad), mask

    def in_small_letters(self, rows: Integers, share: float, generator: np.random.Generator) -> Integers:
        """The rows, some of them those of the texts without capital letters."""
        return rows + self.count * (generator.random(len(rows)) < share) if self.is_cased else rows


class Data:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.domains = np.load(folder / "domains.npy")  # of each text; -1: of a task, never trained on
        self.trained = np.flatnonzero(self.domains >= 0)
        self.pairs = np.load(folder / "pairs.npy")  # query, passage, set
        self.weights: list[float] = json.loads((folder / "sets.json").read_text(encoding="utf-8"))["weights"]
        self.tasks = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
        self._texts: dict[str, Texts] = {}

    def texts(self, tokenizer: Tokenizer) -> Texts:
        """The texts in the tokens of a model; several models have the vocabulary of BERT."""
        vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()))
        name = hashlib.sha256(vocabulary.encode()).hexdigest()[:8]
        if name not in self._texts:
            self._texts[name] = Texts(self.folder, tokenizer, name)
        return self._texts[name]


def on_device(values: np.ndarray[Any, Any]) -> Tensor:
    return torch.from_numpy(values).to(DEVICE)


# ---------------------------------------------------------------- encoders


PARTS = [  # weights and biases of a layer of BERT
    f"{part}.{kind}"
    for part in (
        *(f"attention.self.{name}" for name in ("query", "key", "value")),
        *("attention.output.dense", "attention.output.LayerNorm"),
        *("intermediate.dense", "output.dense", "output.LayerNorm"),
    )
    for kind in ("weight", "bias")
]


def layer(states: Tensor, mask: Tensor, heads: int, *weights: Tensor) -> Tensor:
    """A layer of BERT in the precision of the states; `mask` is added to the scores (texts, 1, 1, tokens)."""
    (query, key, value, out, _, inner, outer, _) = (
        (weights[place].to(states.dtype), weights[place + 1].to(states.dtype)) for place in range(0, 16, 2)
    )

    def by_head(part: tuple[Tensor, Tensor]) -> Tensor:
        values = functional.linear(states, *part)
        return values.reshape(*values.shape[:2], heads, -1).transpose(1, 2)

    def normed(values: Tensor, place: int) -> Tensor:
        weight, bias = weights[place : place + 2]
        return functional.layer_norm(values.float(), weight.shape, weight, bias, 1e-12).to(values.dtype)

    seen = functional.scaled_dot_product_attention(by_head(query), by_head(key), by_head(value), attn_mask=mask)
    states = normed(states + functional.linear(seen.transpose(1, 2).flatten(2), *out), 8)
    return normed(states + functional.linear(functional.gelu(functional.linear(states, *inner)), *outer), 14)


# compiled once for all layers, as a function of their weights: a seventh of the time that the whole model takes
compiled_layer = torch.compile(layer, dynamic=True) if DEVICE == "cuda" else layer


class Encoder:
    """Vectors of the texts, by token numbers."""

    model: Any  # its parameters are what learns
    width: int  # of a vector
    texts: Texts

    def encode(self, rows: Integers, pieces: int, longest: int = TRAINED) -> Tensor:
        """Vectors of the rows, in their order; sorted by length, so that little is computed for padding."""
        order = np.argsort(self.texts.lengths[rows], kind="stable")
        parts = [self._vectors(rows[part], longest) for part in np.array_split(order, min(pieces, len(order)))]
        return torch.cat(parts)[on_device(np.argsort(order, kind="stable"))]

    def encode_all(self, rows: Integers, step: int = 4096) -> Tensor:
        order = np.argsort(self.texts.lengths[rows], kind="stable")
        with torch.no_grad():
            parts = []
            for begin in range(0, len(order), step):
                batch = rows[order[begin : begin + step]]
                pieces = 1 + int(self.texts.lengths[batch].max()) // 128
                parts.append(self.encode(batch, pieces, LONGEST).half())
            return torch.cat(parts)[on_device(np.argsort(order, kind="stable"))]

    def _vectors(self, rows: Integers, longest: int) -> Tensor:
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        raise NotImplementedError


class Static(Encoder):
    """lemmata-nano: the sum of token vectors."""

    def __init__(self, folder: Path, data: Data) -> None:
        self.texts = data.texts(Tokenizer.from_file(str(folder / "tokenizer.json")))
        self.model = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(read_static(folder)), False, mode="sum")
        self.model.to(DEVICE)
        self.width = self.model.embedding_dim

    def _vectors(self, rows: Integers, longest: int) -> Tensor:
        ids, mask = self.texts.padded(rows, 0, longest)
        ends = mask.sum(1).cumsum(0)
        return functional.normalize(self.model(ids[mask], functional.pad(ends[:-1], (1, 0))), dim=-1)

    def save(self, folder: Path) -> None:
        tokenizer = (folder / "tokenizer.json").read_text(encoding="utf-8")
        write_static(folder, folder.name, self.model.weight.detach().cpu().numpy(), tokenizer)


class Transformer(Encoder):
    def __init__(self, folder: Path, data: Data) -> None:
        config = AutoConfig.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder, add_pooling_layer=False).float().to(DEVICE)
        self.model.eval()  # no dropout: batches are large, epochs few
        pooling = folder / "1_Pooling" / "config.json"  # of a folder of sentence-transformers; teachers.py writes none
        modes = json.loads(pooling.read_bytes()).get("pooling_mode", []) if pooling.exists() else [config.pooling]
        self.is_cls = "cls" in modes
        self.pad, self.width = int(config.pad_token_id), int(config.hidden_size)
        self._heads, weights = int(config.num_attention_heads), dict(self.model.named_parameters())
        self.layers = [  # none of a model that only teaches
            [weights[f"encoder.layer.{number}.{part}"] for part in PARTS]
            for number in range(config.num_hidden_layers if config.model_type == "bert" else 0)
        ]
        self.texts = data.texts(Tokenizer.from_file(str(folder / "tokenizer.json")))

    def _vectors(self, rows: Integers, longest: int) -> Tensor:
        ids, mask = self.texts.padded(rows, self.pad, longest)
        states = self._trained(ids, mask) if torch.is_grad_enabled() else self._measured(ids, mask)
        pooled = states[:, 0] if self.is_cls else (states * mask[..., None]).sum(1)  # its length does not count
        return functional.normalize(pooled, dim=-1)

    def _measured(self, ids: Tensor, mask: Tensor) -> Tensor:
        with torch.autocast(DEVICE, dtype=torch.float16, enabled=DEVICE == "cuda"):
            states: Tensor = self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return states.to(torch.float32)

    def _trained(self, ids: Tensor, mask: Tensor) -> Tensor:
        """In bf16, which costs models that were not trained with it 1 to 3 %, so that it measures nothing."""
        states: Tensor = self.model.embeddings(input_ids=ids).to(torch.bfloat16)
        unseen = torch.zeros(mask.shape, dtype=states.dtype, device=DEVICE).masked_fill(~mask, -math.inf)
        for weights in self.layers:
            states = compiled_layer(states, unseen[:, None, None], self._heads, *weights)
        return states.float()

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)


def open_encoder(folder: Path, data: Data) -> Encoder:
    return Static(folder, data) if is_static(folder) else Transformer(folder, data)


def scores(encoder: Encoder, data: Data, part: str, values_to: Path | None = None) -> dict[str, float]:
    """The measure of every task of a part, and the mean of the means of their groups."""
    result: dict[str, float] = {}
    groups: dict[str, list[float]] = {}
    passages: dict[tuple[int, int], Tensor] = {}
    values: dict[str, Any] = {}
    for task in data.tasks:
        if task["part"] != part:
            continue
        begin, end = task["passages"]
        if (begin, end) not in passages:
            passages[begin, end] = encoder.encode_all(np.arange(begin, end))
        measure = parse_measure(task["measure"])
        near = encoder.encode_all(np.array(task["queries"])).float() @ passages[begin, end].float().T
        own = np.array(task["itself"])
        asked = np.flatnonzero(own >= 0)
        near[on_device(asked), on_device(own[asked])] = -math.inf
        if task["candidates"]:
            near[:, on_device(~np.load(data.folder / task["candidates"]))] = -math.inf
        ranked = near.topk(min(measure.cutoff, end - begin), dim=1).indices.cpu().numpy()
        grades = {str(number): grades for number, grades in enumerate(task["grades"])}
        values[task["name"]] = evaluate(ranked, judged(grades, int), [measure])[str(measure)].astype(np.float32)
        result[task["name"]] = float(values[task["name"]].mean())
        groups.setdefault(task["group"], []).append(result[task["name"]])
    if values_to:
        np.savez(values_to, **values)
    return {**result, "mean": float(np.mean([np.mean(group) for group in groups.values()]))}


def show(name: str, values: Mapping[str, float]) -> None:
    print(f"{name:20}", *(f"{task}={value:.3f}" for task, value in values.items()), flush=True)


# ---------------------------------------------------------------- teachers


def vectors_file(data: Data, name: str) -> Path:
    return data.folder / f"vectors-{name}.npy"


def teach(data: Data, models: Path, names: Iterable[str]) -> None:
    for name in names:
        encoder = open_encoder(models / name, data)
        np.save(vectors_file(data, name), encoder.encode_all(data.trained).cpu().numpy())
        show(name, scores(encoder, data, "validation"))


def parse_teachers(words: Iterable[str]) -> dict[str, list[float]]:
    """By teacher: how much it is heard on mathematics, science, general English and papers."""
    parted = [word.partition("=") for word in words]
    return {name: [float(share) for share in shares.split("/")] for name, _, shares in parted}


class Teachers:
    """The vectors of all teachers, centred and brought to one spread of similarities, side by side."""

    def __init__(self, data: Data, heard: Mapping[str, Sequence[float]]) -> None:
        self._places = np.full(len(data.domains), -1, np.int64)
        self._places[data.trained] = np.arange(len(data.trained))
        sample = on_device(np.random.default_rng(0).permutation(len(data.trained))[:8192])
        parts = []
        for name in heard:
            vectors = on_device(np.load(vectors_file(data, name))).float()
            vectors = functional.normalize(vectors - vectors[sample].mean(0), dim=1)
            spread = (vectors[sample] @ vectors[sample].T).std()
            parts.append((vectors * (0.1 / spread).sqrt()).half())
        self.widths = [part.shape[1] for part in parts]
        self._vectors = torch.cat(parts, 1)
        shares = torch.tensor(list(heard.values()), device=DEVICE)  # (teachers, domains)
        self._shares = (shares / shares.sum(0)).T[on_device(data.domains[data.trained].astype(np.int64))]

    def __call__(self, rows: Integers) -> tuple[Tensor, Tensor]:
        """Vectors whose products are the teachers' similarities, each by its share, and the shares (n, teachers)."""
        chosen = on_device(self._places[rows])
        shares = self._shares[chosen]
        roots = torch.repeat_interleave(shares.sqrt(), torch.tensor(self.widths, device=DEVICE), dim=1)
        return self._vectors[chosen].float() * roots, shares


def imitation(own: Tensor, taught: Tensor) -> Tensor:
    """Kullback-Leibler divergence of the student's neighbours of each text from the teachers', from similarities."""
    student, teachers = (functional.log_softmax(near / HEAT, 1) for near in (own, taught))
    return functional.kl_div(student, teachers, log_target=True, reduction="batchmean")


def regression(heads: Any, student: Tensor, taught: Tensor, shares: Tensor) -> Tensor:
    """How far the student's vectors, mapped by a matrix for each teacher, are from that teacher's."""
    parts = torch.split(taught, [head.out_features for head in heads], dim=1)
    near = [
        functional.cosine_similarity(head(student), part, dim=1, eps=1e-4)
        for head, part in zip(heads, parts, strict=True)
    ]
    return (shares * (1 - torch.stack(near, 1))).sum(1).mean()


def hard_negatives(data: Data, teachers: Teachers) -> Integers:
    """For each pair, passages of its set near the query and less near than its own; -1 where there are fewer."""
    chosen = np.full((len(data.pairs), NEGATIVES), -1, np.int64)
    for number in range(len(data.weights)):
        own = np.flatnonzero(data.pairs[:, 2] == number)
        pool = np.unique(data.pairs[own, 1])
        if len(pool) < DEEP:
            continue
        table = teachers(pool)[0].half()
        for begin in range(0, len(own), 4096):
            part = own[begin : begin + 4096]
            near = teachers(data.pairs[part, 0])[0].half() @ table.T
            answer = on_device(np.searchsorted(pool, data.pairs[part, 1]))
            near[near >= 0.97 * near.gather(1, answer[:, None])] = -math.inf
            top = near.topk(DEEP, dim=1)
            values, rows = top.values[:, SKIPPED:], top.indices[:, SKIPPED:]
            drawn = torch.rand(rows.shape, device=DEVICE).masked_fill(values.isinf(), -1).topk(NEGATIVES, dim=1)
            chosen[part] = np.where((drawn.values >= 0).cpu(), pool[rows.gather(1, drawn.indices).cpu()], -1)
    return chosen


# ---------------------------------------------------------------- training


def text_batches(data: Data, size: int, generator: np.random.Generator) -> list[Integers]:
    """Batches of texts, each of one domain, in random order."""
    batches = []
    for domain in np.unique(data.domains[data.trained]).tolist():
        rows = generator.permutation(np.flatnonzero(data.domains == domain))
        batches += [rows[begin : begin + size] for begin in range(0, len(rows) - size // 2, size)]
    generator.shuffle(batches)
    return batches


def pair_batches(data: Data, size: int, generator: np.random.Generator) -> list[Integers]:
    """Batches of pairs, each of one set, as often as its weight says, in random order."""
    batches = []
    for number, weight in enumerate(data.weights):
        own = np.flatnonzero(data.pairs[:, 2] == number)
        rounds = [generator.permutation(own) for _ in range(math.ceil(weight))]
        rows = np.concatenate(rounds)[: int(weight * len(own))]
        batches += [rows[begin : begin + size] for begin in range(0, len(rows) - size // 2, size)]
    generator.shuffle(batches)
    return batches


def endless(what: str, make: Callable[[], list[Integers]]) -> Iterator[Integers]:
    while batches := make():
        yield from batches
    raise SystemExit(f"there are fewer {what} than half a batch")


class Losses:
    """What is learnt from a batch of texts, and from one of pairs."""

    def __init__(self, encoder: Encoder, data: Data, teachers: Teachers) -> None:
        self._encoder, self._data, self._teachers = encoder, data, teachers
        self._hard = hard_negatives(data, self._teachers)
        maps = [torch.nn.Linear(encoder.width, own, bias=False) for own in self._teachers.widths]
        self.heads = torch.nn.ModuleList(maps).to(DEVICE)

    def of_texts(self, rows: Integers, generator: np.random.Generator) -> Tensor:
        student = self._encoder.encode(self._encoder.texts.in_small_letters(rows, 0.1, generator), 6)
        taught, shares = self._teachers(rows)
        itself = torch.eye(len(rows), dtype=torch.bool, device=DEVICE)
        own, near = ((vectors @ vectors.T).masked_fill(itself, -1e3) for vectors in (student, taught))
        return imitation(own, near) + regression(self.heads, student, taught, shares)

    def of_pairs(self, rows: Integers, generator: np.random.Generator) -> Tensor:
        asked, passages = self._data.pairs[rows, 0], self._data.pairs[rows, 1]
        hard = self._hard[rows, generator.integers(0, NEGATIVES, len(rows))]
        hard = np.where(hard >= 0, hard, self._hard[rows, 0])
        passages = np.concatenate([passages, hard[hard >= 0]])
        queries = self._encoder.encode(self._encoder.texts.in_small_letters(asked, 0.4, generator), 2)
        answers = self._encoder.encode(passages, 6)
        taught_queries, query_shares = self._teachers(asked)
        taught_answers, answer_shares = self._teachers(passages)
        own, near = queries @ answers.T, taught_queries @ taught_answers.T
        count = len(rows)
        answer_of = torch.arange(count, device=DEVICE)
        numbers, questions = on_device(passages), on_device(asked)
        # no negatives: the passage itself again, one that the teachers find nearer, an answer of the same query
        excluded = (numbers == numbers[:count, None]) | (near > near.diagonal()[:, None])
        excluded[:, :count] |= questions == questions[:, None]
        excluded[answer_of, answer_of] = False
        logits = (own / HEAT).masked_fill(excluded, -1e4)
        loss = functional.cross_entropy(logits, answer_of)
        loss = loss + 0.3 * functional.cross_entropy(logits[:, :count].T, answer_of)
        view = regression(self.heads, queries, taught_queries, query_shares)
        view = view + regression(self.heads, answers, taught_answers, answer_shares)
        return loss + 0.5 * imitation(own, near) + 0.15 * view


def train(data: Data, models: Path, name: str, options: argparse.Namespace) -> None:
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    encoder = open_encoder(models / options.init, data)
    if isinstance(encoder, Transformer) and not encoder.layers:
        raise SystemExit(f"{options.init} is no BERT, which alone is trained here")
    before = scores(encoder, data, "validation")
    if options.centre:
        centre(encoder, data)
    losses = Losses(encoder, data, Teachers(data, parse_teachers(options.teachers)))
    learnt = list(encoder.model.parameters())
    optimiser = torch.optim.AdamW(
        [{"params": learnt, "lr": options.rate}, {"params": losses.heads.parameters(), "lr": HEADS_RATE}],
        weight_decay=0.01,
        fused=DEVICE == "cuda",
    )
    rates = [group["lr"] for group in optimiser.param_groups]
    texts = endless("texts", lambda: text_batches(data, 2 * options.batch, generator))
    pairs = endless("pairs", lambda: pair_batches(data, options.batch, generator))
    mean = {key: value.detach().clone() for key, value in encoder.model.named_parameters()}
    warm_up = min(WARM_UP, options.steps // 4) if options.steps else WARM_UP
    step, progress, begun = 0, 0.0, time.monotonic()
    while progress < 1:
        step += 1
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * min(step / max(1, warm_up), 1, max(0.02, (1 - progress) / 0.9))
        if progress > options.first and generator.random() < options.paired:
            loss = losses.of_pairs(next(pairs), generator)
        else:
            loss = losses.of_texts(next(texts), generator)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimiser.step()
        passed = time.monotonic() - begun
        progress = passed / options.seconds if options.seconds else step / options.steps
        if step > warm_up and step % EVERY == 0:
            with torch.no_grad():
                torch._foreach_lerp_(list(mean.values()), learnt, 1 - DECAY)
        if step % 100 == 0:
            print(f"step {step}, {passed:.0f} s: loss {loss.item():.3f}", flush=True)
    encoder.model.load_state_dict(mean, strict=False)
    keep(encoder, data, models, name, options, before)
    np.save(vectors_file(data, name), encoder.encode_all(data.trained).cpu().numpy())  # it may teach the next


def centre(encoder: Encoder, data: Data) -> None:
    """Subtract the mean vector of texts, by the bias of the last norm: it adds to the vector of every token.

    Where any two texts are near each other, as in gte-small, the temperature would destroy what the model knows.
    """
    if not isinstance(encoder, Transformer):
        raise SystemExit("a static encoder has no norm whose bias could subtract a mean vector")
    rows = np.random.default_rng(2).permutation(data.trained)[:4096]
    with torch.no_grad():
        sums = torch.zeros(encoder.width, device=DEVICE)
        for part in np.array_split(rows[np.argsort(encoder.texts.lengths[rows])], 16):
            ids, mask = encoder.texts.padded(part, encoder.pad, LONGEST)
            states = encoder.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            sums += (states[:, 0] if encoder.is_cls else mean).sum(0)
        encoder.model.encoder.layer[-1].output.LayerNorm.bias -= sums / len(rows)


def blend(data: Data, models: Path, name: str, options: argparse.Namespace) -> None:
    """Keep the average of some models' weights, with shares; NAME~ is the model without the mean vector of texts."""
    total: dict[str, Tensor] = {}
    for word in options.names:
        model, _, share = word.partition("=")
        encoder = open_encoder(models / model.removesuffix("~"), data)
        if model.endswith("~"):
            centre(encoder, data)
        for key, value in encoder.model.named_parameters():
            total[key] = total.get(key, 0) + float(share) * value.detach()
    before = scores(open_encoder(models / options.init, data), data, "validation")
    encoder.model.load_state_dict(total, strict=False)
    keep(encoder, data, models, name, options, before)
    np.save(vectors_file(data, name), encoder.encode_all(data.trained).cpu().numpy())


def keep(
    encoder: Encoder, data: Data, models: Path, name: str, options: argparse.Namespace, before: Mapping[str, float]
) -> None:
    after = scores(encoder, data, "validation")
    show(options.init, before)
    show(name, after)
    check_guards(before, after, options.guards)
    shutil.copytree(models / options.init, models / name, dirs_exist_ok=True)
    encoder.save(models / name)


def check_guards(before: Mapping[str, float], after: Mapping[str, float], guards: Sequence[str] = GUARDS) -> None:
    """Leave the program where the model has forgotten what it knew of other fields."""
    lost = [
        f"{task} {before[task]:.3f} → {after[task]:.3f}" for task in guards if after[task] < (1 - FORGET) * before[task]
    ]
    if lost:
        raise SystemExit(f"refused, nothing is written: more than {FORGET:.0%} lost on {', '.join(lost)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("teach", "train", "blend", "score"):
        own = verbs.add_parser(verb)
        own.add_argument("data", type=Path)
        own.add_argument("models", type=Path)
        if verb in ("train", "blend"):
            own.add_argument("name")
            own.add_argument("--init", required=True, help="the model to start from, and not to lose against")
            own.add_argument("--guards", nargs="+", default=GUARDS, help="tasks that nothing may be lost on")
        if verb != "train":
            own.add_argument("names", nargs="+", help="models; with their shares in a blend")
        if verb == "score":
            own.add_argument("--part", default="validation", choices=("validation", "test"))
        if verb == "train":
            own.add_argument("--teachers", nargs="+", required=True, help="NAME=SHARE/SHARE/SHARE/SHARE, by domain")
            own.add_argument("--centre", action="store_true", help="subtract the mean vector of texts first")
            length = own.add_mutually_exclusive_group(required=True)
            length.add_argument("--steps", type=int)
            length.add_argument("--seconds", type=float, help="instead of steps")
            own.add_argument("--first", type=float, default=0.12, help="share of the steps before the first pairs")
            own.add_argument("--paired", type=float, default=0.6, help="share of pairs after them")
            own.add_argument("--rate", type=float, default=1.5e-4)
            own.add_argument("--batch", type=int, default=1024, help="pairs; of texts it is twice as many")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    data = Data(options.data)
    if options.verb == "teach":
        teach(data, options.models, options.names)
    elif options.verb == "blend":
        blend(data, options.models, options.name, options)
    elif options.verb == "train":
        train(data, options.models, options.name, options)
    else:
        for name in options.names:
            values_to = options.models / name / f"values-{options.part}.npz"  # of every query, for intervals
            show(name, scores(open_encoder(options.models / name, data), data, options.part, values_to))


if __name__ == "__main__":
    main()
