"""Cross-encoders, which read a query and a passage together: `lemmata train reranker`, and training on a job.

A record becomes a group: its positive, its hard negatives, and random passages. The loss ranks the positive first in
the group, and keeps the scores of different queries comparable, which the quality gate needs. Some queries are held
out with their answers, and choose the model.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.core.errors import ConfigError, InputError, LemmataError, require
from lemmata.core.types import Floats, Integers, Progress
from lemmata.core.workspace import Settings, Workspace
from lemmata.corpus.trained import read_trained, write_trained
from lemmata.corpus.training_files import read_training, set_file, text_columns
from lemmata.encode.bert import is_cross_bert
from lemmata.encode.cross import cross_folder, is_cross_encoder, load_cross_encoder
from lemmata.encode.export import write_cross_encoder
from lemmata.encode.load import AUTO, BASELINE, PACKAGED
from lemmata.encode.restore import restore_cross_encoder
from lemmata.evaluate.tasks import Task, restricted
from lemmata.evaluate.tuning import tune
from lemmata.mine.training_sets import trainable_sets
from lemmata.train.bases import base_folder, base_sha256, find_base, load_from_hub, trainable_copy, weights_sha256
from lemmata.train.card import Estimate, Measured, write_description
from lemmata.train.encoders import fastest_device, quiet
from lemmata.train.finetune import FinetuneOptions
from lemmata.train.job import Job, TokenizedTexts
from lemmata.train.loop import Training, one_rate, precision_for, train
from lemmata.train.prepare import is_of
from lemmata.train.ranks import held_by_first, is_first_process, processes, rank
from lemmata.train.train import (
    DRIFT_TEXTS,
    PRECISION,
    check_name,
    make_model,
    model_options,
    notes_of_sets,
    prepare_sets,
    trained_before,
    training_inputs,
)
from lemmata.train.validate import autocast, evaluation_steps

LONGEST = 256  # tokens of a pair
GROUP = 4  # passages of a query that are compared: the positive, at most two hard negatives, and random ones
HARD = 2
BATCH = 16  # groups of a step
WARM_UP = 0.1  # share of steps
HELD_OUT = 100  # queries, at most a tenth of all, and not so many that measuring takes longer than training
CANDIDATES = 10  # passages of a held-out query
CHUNK = {"cuda": 131_072, "mps": 16_384, "cpu": 2_048}  # tokens that go through the model at once
RERANKED = 20  # hits of a held-out query that are reranked to choose the weight of the reranker
WEIGHED = 50  # held-out queries for that


@dataclass(frozen=True, slots=True)
class RerankerOptions:
    """How a cross-encoder is trained; in `lemmata.toml` a table [reranker.NAME]."""

    SMALLEST: ClassVar = {"records": 1, "rate": 0.0}
    base: str = AUTO  # encoder or cross-encoder: packaged, by language; a model of the workspace, a folder, a hub name
    sets: dict[str, float] = field(default_factory=dict)  # training set: its weight; those with negatives, else all
    records: int = 2_000  # shown in training, a random choice: two thousand are some minutes on two cores
    rate: float = 1e-4  # learning rate


class RerankerResult(NamedTuple):
    """What came out of a run; the measures are of held-out queries among ten passages."""

    before: Mapping[str, float]
    after: Mapping[str, float]
    best_step: int
    history: list[dict[str, Any]]
    held_out: Mapping[
        str, list[int]
    ]  # set: records that chose the model, none of whose texts was an answer in training
    seconds: float
    pairs_per_second: float


def train_reranker(
    base: Path, job: Job, out: Path, options: RerankerOptions, *, work: Path, progress: Progress
) -> RerankerResult:
    """Train `base`, an encoder or a cross-encoder, and write the best model to `out` in Hugging Face's format."""
    torch = require("torch", "train")
    begin = time.perf_counter()
    torch.manual_seed(0)  # for the head, which starts at random
    model = _load(base)
    objective = _Objective(model, job, options)
    steps = objective.steps

    training = Training(
        model,
        one_rate(model.parameters(), options.rate, steps, WARM_UP),
        objective.batches,
        objective.loss,
        steps,
        lambda step: objective.evaluate(progress, step),
        objective.evaluate_at(),
        best_by="MRR@10" if len(objective.held_out) else "",
    )
    with quiet():
        outcome = train(training, work, progress)
        if is_first_process():
            _save(model, base, out)
    before, after = (outcome.measured(step) for step in (0, outcome.best_step or steps))
    pairs = (steps - outcome.resumed_from) * BATCH * GROUP * processes()
    return RerankerResult(
        before,
        after,
        outcome.best_step,
        outcome.history,
        objective.held_out_records(),
        time.perf_counter() - begin,
        pairs / max(outcome.seconds, 1e-9),
    )


def _load(base: Path) -> Any:
    """A model with one score; an encoder gets a new head, which reads the vector of the first token."""
    torch = require("torch", "train")
    transformers = require("transformers", "train")
    with quiet():
        try:
            model = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(base), num_labels=1, use_safetensors=True
            )
        except (OSError, ValueError, RuntimeError) as error:
            cause = str(error).strip().split("\n")[0]
            raise InputError(f"cannot be loaded as a cross-encoder ({cause})", file=str(base)) from error
    pooler = getattr(getattr(model, "bert", None), "pooler", None)
    if pooler is not None and not is_cross_encoder(base):  # an encoder does not use its pooler, which may be zero
        torch.nn.init.eye_(pooler.dense.weight)
        torch.nn.init.zeros_(pooler.dense.bias)
    # so that CrossEncoder of sentence-transformers gives the same scores
    model.config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}
    return model.to(fastest_device())


def _save(model: Any, base: Path, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(str(out))
    for name in ("tokenizer.json", "special_tokens_map.json"):
        if (base / name).is_file():
            shutil.copyfile(base / name, out / name)
    file = base / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if _takes_types(model):  # a sentence encoder has one text, so its tokenizer need not give them
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    (out / file.name).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _takes_types(model: Any) -> bool:
    return int(getattr(model.config, "type_vocab_size", 0) or 0) > 1


# ---------------------------------------------------------------- pairs of texts as tokens


class _Frame(NamedTuple):
    """The special tokens around a text, and around and between two texts, with the types of all tokens."""

    before: int  # special tokens before a single text
    after: int
    head: list[int]
    middle: list[int]
    tail: list[int]
    types: list[int]  # of head, query, middle, passage and tail

    @property
    def size(self) -> int:
        return len(self.head) + len(self.middle) + len(self.tail)


def _frame(file: Path) -> _Frame:
    """As a tokenizer frames texts; InputError for one that knows no pairs."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    single, pair = tokenizer.encode("a"), tokenizer.encode("a", "a")
    owners = pair.sequence_ids
    if 0 not in owners or 1 not in owners or owners.count(None) == 0:
        raise InputError("has no special tokens between two texts, so no cross-encoder can be trained", file=str(file))
    first, second = owners.index(0), owners.index(1)
    end_of_first, end_of_second = (len(owners) - owners[::-1].index(number) for number in (0, 1))
    spans = [(0, first), (first, end_of_first), (end_of_first, second), (second, end_of_second)]
    spans.append((end_of_second, len(owners)))
    types = [pair.type_ids[begin] if begin < end else 0 for begin, end in spans]
    ids = [pair.ids[begin:end] for begin, end in spans]
    alone = single.sequence_ids
    return _Frame(alone.index(0), alone[::-1].index(0), ids[0], ids[2], ids[4], types)


def _lengths(query: int, passage: int, most: int) -> tuple[int, int]:
    """How much of two texts is read: the longer one is cut first, as tokenizers do."""
    short, long = min(query, passage), max(query, passage)
    if short + long > most:
        long = short if short > most else max(short, most - short)
        if short + long > most:
            short = most // 2
            long = short + most % 2
    return (short, long) if query <= passage else (long, short)


def _pair_arrays(
    texts: TokenizedTexts, pairs: Sequence[tuple[int, int]], frame: _Frame, longest: int, pad: int
) -> dict[str, Integers]:
    """Ids, mask and types (n, width) of pairs of text numbers."""
    rows: list[tuple[list[int], list[int]]] = []
    for query, passage in pairs:
        contents = [_content(texts, number, frame) for number in (query, passage)]
        sizes = _lengths(len(contents[0]), len(contents[1]), longest - frame.size)
        parts = [frame.head, contents[0][: sizes[0]], frame.middle, contents[1][: sizes[1]], frame.tail]
        ids = [token for part in parts for token in part]
        types = [kind for part, kind in zip(parts, frame.types, strict=True) for _ in part]
        rows.append((ids, types))
    width = max(len(ids) for ids, _ in rows)
    arrays = {
        "input_ids": np.full((len(rows), width), pad, np.int64),
        "attention_mask": np.zeros((len(rows), width), np.int64),
        "token_type_ids": np.zeros((len(rows), width), np.int64),
    }
    for row, (ids, types) in enumerate(rows):
        arrays["input_ids"][row, : len(ids)] = ids
        arrays["attention_mask"][row, : len(ids)] = 1
        arrays["token_type_ids"][row, : len(ids)] = types
    return arrays


def _content(texts: TokenizedTexts, number: int, frame: _Frame) -> list[int]:
    """The tokens of a text without the special ones around it."""
    begin, end = int(texts.starts[number]) + frame.before, int(texts.starts[number + 1]) - frame.after
    content: list[int] = texts.flat[begin:end].tolist()
    return content


# ---------------------------------------------------------------- groups


class _Objective:
    """Groups of a job, their loss, and the measures on held-out queries."""

    def __init__(self, model: Any, job: Job, options: RerankerOptions) -> None:
        self.model, self.texts = model, job.texts
        self.frame = _frame(job.folder / "tokenizer.json")
        self.longest = min(LONGEST, int(job.facts["longest"]))
        self.pad = int(getattr(model.config, "pad_token_id", None) or 0)
        self.chunk = CHUNK.get(model.device.type, CHUNK["cpu"])
        self.precision = precision_for(model.device)
        width = max(records.shape[1] for records in job.sets.values())
        padded = [
            np.pad(records, ((0, 0), (0, width - records.shape[1])), constant_values=-1)
            for records in job.sets.values()
        ]
        self._names = list(job.sets)
        self._starts = np.cumsum([0, *(len(records) for records in padded)])
        self.records = np.concatenate(padded)
        shares = [float(options.sets.get(name, 1.0)) for name in self._names]
        weights = np.repeat(shares, [len(records) for records in padded])
        self._answers: dict[int, set[int]] = {}
        for anchor, positive in self.records[:, :2].tolist():
            self._answers.setdefault(anchor, {anchor}).add(positive)
        generator = np.random.default_rng(0)
        # one record each of some anchors: a tenth of them, and not more than needed
        anchors, first = np.unique(self.records[:, 0], return_index=True)
        number = min(HELD_OUT, max(2, options.records // 20), len(anchors) // 10)
        self.held_out = np.sort(first[generator.permutation(len(anchors))[:number]])
        seen = np.unique(self.records[self.held_out, :2])
        trained = np.flatnonzero(~np.isin(self.records[:, :2], seen).any(axis=1) & (weights > 0))
        if len(trained) < 2:
            raise ConfigError(f"{len(self.records)} records are too few to train a reranker: mine more")
        self._passages = np.unique(self.records[trained, 1])
        self._order = _sampled(trained, weights[trained], options.records, generator)
        self.steps = -(-len(self._order) // (BATCH * processes()))
        self._candidates = [self._group(row, CANDIDATES, width - 2, generator, self.records[self.held_out, 1])
                            for row in self.held_out.tolist()]  # fmt: skip

    def held_out_records(self) -> dict[str, list[int]]:
        """The held-out records by set, as positions in the set."""
        numbers = np.searchsorted(self._starts, self.held_out, side="right") - 1
        return {
            name: (self.held_out[numbers == number] - self._starts[number]).tolist()
            for number, name in enumerate(self._names)
        }

    def _group(
        self, row: int, size: int, hard: int, generator: np.random.Generator, passages: Integers
    ) -> list[tuple[int, int]]:
        """Pairs of the anchor with its positive, with at most `hard` of its negatives, and with random passages."""
        anchor, positive, *others = self.records[row].tolist()
        negatives = [number for number in others if number >= 0]
        chosen = [negatives[place] for place in generator.permutation(len(negatives))[: min(hard, size - 1)].tolist()]
        excluded = self._answers.get(anchor, set()) | {positive, *chosen}
        for number in generator.choice(passages, 4 * size).tolist():
            if len(chosen) + 1 < size and number not in excluded:
                chosen.append(number)
                excluded.add(number)
        while len(chosen) + 1 < size:  # almost everything answers: the last ones are repeated
            chosen.append(chosen[-1] if chosen else int(generator.choice(passages)))
        return [(anchor, number) for number in (positive, *chosen)]

    def batches(self, step: int) -> list[dict[str, Any]]:
        """The groups of a step for this process, those of similar length together."""
        import torch

        place = step * processes() + rank()
        rows = self._order[place * BATCH : (place + 1) * BATCH]
        if not len(rows):  # the last step of some processes
            rows = self._order[:1]
        generator = np.random.default_rng((0, place))
        groups = [self._group(row, GROUP, HARD, generator, self._passages) for row in rows.tolist()]
        groups.sort(key=lambda group: max(int(self.texts.lengths(np.array(p), self.longest).sum()) for p in group))
        most = max(1, self.chunk // (self.longest * GROUP))
        return [
            {name: torch.from_numpy(array) for name, array in self._arrays(groups[start : start + most]).items()}
            for start in range(0, len(groups), most)
        ]

    def _arrays(self, groups: Sequence[Sequence[tuple[int, int]]]) -> dict[str, Integers]:
        pairs = [pair for group in groups for pair in group]
        arrays = _pair_arrays(self.texts, pairs, self.frame, self.longest, self.pad)
        return arrays if _takes_types(self.model) else {name: arrays[name] for name in ("input_ids", "attention_mask")}

    def _scores(self, batch: Mapping[str, Any]) -> Any:
        with autocast(self.model.device.type, self.precision):
            return self.model(**batch).logits[:, 0].float()

    def loss(self, batch: Mapping[str, Any]) -> Any:
        """The mean of a cross-entropy within groups, and of one that asks of every pair whether it belongs together."""
        import torch

        scores = self._scores(batch).view(-1, GROUP)
        within = torch.nn.functional.cross_entropy(scores, scores.new_zeros(len(scores), dtype=torch.long))
        wanted = torch.zeros_like(scores)
        wanted[:, 0] = 1
        weight = torch.full_like(scores, 1 / (GROUP - 1))
        weight[:, 0] = 1
        each = torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted, weight)
        return within + each

    def evaluate(self, progress: Progress, step: int) -> dict[str, float]:
        """MRR@10 and Success@1 of the held-out queries."""
        import torch

        progress("measuring on held-out pairs", step, self.steps)
        was_training = self.model.training
        self.model.eval()
        scores: list[Floats] = []
        most = max(1, self.chunk // (self.longest * CANDIDATES))
        with torch.no_grad():
            for start in range(0, len(self._candidates), most):
                arrays = self._arrays(self._candidates[start : start + most])
                batch = {name: torch.from_numpy(array).to(self.model.device) for name, array in arrays.items()}
                scores.append(self._scores(batch).cpu().numpy().reshape(-1, CANDIDATES))
        self.model.train(was_training)
        every = np.concatenate(scores)
        ranks = 1 + (every[:, 1:] >= every[:, :1]).sum(axis=1)
        return {"MRR@10": float((1 / ranks).mean()), "Success@1": float((ranks == 1).mean())}

    def evaluate_at(self) -> list[int]:
        """The steps after which held-out pairs are measured; none where there are too few records."""
        if not len(self.held_out):
            return []
        each = self.texts.lengths(np.unique(self.records[self.records >= 0]), self.longest).mean() * 2
        training, validation = self.steps * BATCH * GROUP * each, len(self.held_out) * CANDIDATES * each
        return [0, *evaluation_steps(self.steps, int(training), int(validation), 1)]


def _sampled(rows: Integers, weights: Floats, number: int, generator: np.random.Generator) -> Integers:
    """`number` rows in random order by weight; each at most once where there are enough, else all again and again."""
    if number <= len(rows):
        return np.asarray(generator.choice(rows, number, replace=False, p=weights / weights.sum()), np.int64)
    times = -(-number // len(rows))
    return np.concatenate([generator.permutation(rows) for _ in range(times)])[:number]


# ---------------------------------------------------------------- the verb


def reranker_model(workspace: Workspace, name: str = "reranker", *, settings: Settings | None = None) -> dict[str, Any]:
    """Train a cross-encoder on mined sets, by [reranker.NAME]; resumes from the last checkpoint.

    Its weight beside the retriever's own score is chosen on held-out pairs, where the workspace has an index.
    """
    options = model_options(workspace, RerankerOptions, "reranker", name, settings)
    check_name(name, options.base)

    def build(work: Path) -> dict[str, Any]:
        if cross_base is None:
            base = base_folder(workspace, options.base, work)
        else:
            base = trainable_copy(cross_base, work, "config.json", restore_cross_encoder)
        job, out = prepare_sets(workspace, base, as_finetuning, work / "job"), work / "out"
        shown = replace(options, sets=chosen)
        result = train_reranker(base, job, out, shown, work=work / "work", progress=workspace.progress)
        values = {part: value for part, value in result._asdict().items() if part not in ("history", "held_out")}
        report = {"name": name, **values, "held_out": sum(map(len, result.held_out.values())), "notes": notes}
        if is_first_process():
            task = _held_out_task(workspace, result)
            _describe_reranker(out, name, base, job, options, result)
            before = read_trained(cross_base) if cross_base is not None else trained_before(workspace, options.base)
            write_trained(out, [*before, *read_trained(job.folder)])
            report |= _export_reranker(out, name, task)
            report |= _weigh(workspace, out, task)
        return report

    with held_by_first(workspace.hold()):
        chosen = options.sets or dict.fromkeys(_sets_with_negatives(workspace), 1.0)
        as_finetuning = FinetuneOptions(sets=chosen, prompts={"query": "", "passage": ""})
        hashes = {
            part: value
            for part, value in training_inputs(workspace, as_finetuning).items()
            if part in ("sets", "split")
        }
        cross_base = _cross_base(workspace, options.base)
        sha256 = weights_sha256(cross_base) if cross_base is not None else base_sha256(workspace, options.base)
        notes = notes_of_sets(workspace, chosen)
        inputs = {"verb": "reranker", "options": asdict(options), "base_sha256": sha256, **hashes}
        return {**make_model(workspace.model(name), inputs, build, workspace), "notes": notes}


def _sets_with_negatives(workspace: Workspace) -> list[str]:
    """All sets that have negatives, or all where none has."""
    names = list(trainable_sets(workspace))
    with_negatives = [name for name in names if len(text_columns(set_file(workspace, name))) > 2]
    return with_negatives or names


def _cross_base(workspace: Workspace, name: str) -> Path | None:
    """The folder of a base that is a cross-encoder already; None for an encoder."""
    folder = cross_folder(name, workspace.models_folder)
    folder = folder.parent if folder.name == "onnx" else folder
    if not folder.is_dir() and name not in (*PACKAGED, BASELINE) and find_base(workspace, name) is None:
        folder = load_from_hub(name)
    return folder if is_cross_encoder(folder) else None


def _held_out_task(workspace: Workspace, result: RerankerResult) -> Task:
    """Held-out records as queries; every positive that the sets have for such a query is an answer."""
    queries: dict[str, str] = {}
    itself: dict[str, str] = {}
    files = {
        spec: set_file(workspace, spec.partition(":")[0])
        for spec in result.held_out
        if "/" not in spec.partition(":")[0]
    }
    for spec, file in files.items():
        places = set(result.held_out[spec])
        restriction = spec.partition(":")[2]
        records = (line for line in read_training(file) if is_of(line, restriction))
        for number, line in enumerate(records):
            if number in places and line["anchor"] not in queries.values():
                query = f"{spec}-{number}"
                queries[query] = line["anchor"]
                if line["anchor_id"] is not None:
                    itself[query] = line["anchor_id"]
    by_text = {text: query for query, text in queries.items()}
    qrels: dict[str, dict[str, int]] = {query: {} for query in queries}
    for file in dict.fromkeys(files.values()):
        for line in read_training(file):
            if line["anchor"] in by_text:
                qrels[by_text[line["anchor"]]][line["positive_id"]] = 1
    return Task("held-out pairs", queries, qrels, itself=itself)


def _export_reranker(folder: Path, name: str, task: Task) -> dict[str, Any]:
    """Export a reranker, so that searching needs no torch, and compare scores; the report says why where that fails."""
    if not is_cross_bert(folder):
        return {"drift": None, "not_exported": "it is no BERT with one score for a pair"}
    write_cross_encoder(folder, folder / "onnx", PRECISION, name, LONGEST)
    texts = list(task.queries.values())[:DRIFT_TEXTS]
    pairs = list(zip(texts, texts[1:] + texts[:1], strict=True)) + [(text, text) for text in texts]
    if len(pairs) < 4:
        return {"drift": None, "precision": PRECISION}
    exported, original = (load_cross_encoder(str(place)).score(pairs) for place in (folder / "onnx", folder))
    correlation = float(np.corrcoef(exported, original)[0, 1])
    return {"drift": {"pairs": len(pairs), "correlation": correlation}, "precision": PRECISION}


def _weigh(workspace: Workspace, folder: Path, task: Task) -> dict[str, Any]:
    """Choose the reranker's weight on held-out pairs; where that fails, search gives it the default weight.

    A missing index or a remote encoder that does not answer is no reason to lose a trained model.
    """
    model = folder / "onnx" if (folder / "onnx").is_dir() else folder
    few = restricted(task, list(task.queries)[:WEIGHED])
    if not few.queries:
        return {"weight": None}
    try:
        return {"weight": tune(workspace, few, f"auto+rerank{RERANKED}:{model}")}
    except LemmataError as error:
        return {"weight": None, "not_weighed": str(error)}


def _describe_reranker(
    folder: Path, name: str, base: Path, job: Job, options: RerankerOptions, result: RerankerResult
) -> None:
    """Write report, history and card of a cross-encoder into its folder."""
    queries = sum(map(len, result.held_out.values()))
    facts = {
        "dimension": 0,
        "max_tokens": LONGEST,
        "pooling": (),
        "measures": [
            Measured(
                "held-out pairs", "ten passages", measure, queries, Estimate(value), Estimate(result.after[measure])
            )
            for measure, value in result.before.items()
        ],
        "intended_use": "Rerank the first hits of a search in its corpus, and check mined training data.",
        "limits": [
            "The held-out pairs are of the training part; 'lemmata evaluate --retriever dense+rerank' measures others.",
            "Scores are comparable between queries of one kind, but are no probabilities.",
        ],
    }
    curves = {"pairs_per_second": result.pairs_per_second}
    write_description(folder, name, base, job, options, result, facts, curves)
