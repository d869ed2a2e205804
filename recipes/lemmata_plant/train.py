"""Train lemmata-plant from the folder that prepare.py makes: a BERT of six layers that reads German and English.

    python -m recipes.lemmata_plant.train JOB OUT       # on one H200 seven minutes; weights in parts, and a report

The student starts as every other layer of the teacher (multilingual-e5-small). Both texts of a pair learn to give one
vector, the mean of what the teacher says of them; a contrastive loss adds what the teacher does not know. Batches come
from one source each, so that negatives are hard; in a batch of faults each piece of equipment has four. Pairs that say
the same are no negatives of each other. The step with the best mean on validation is kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recipes.lemmata_plant.texts import as_typed, fault, wordings
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

SHARES = {  # of the batches
    "dictionary": 0.21,
    "faults": 0.26,
    "messages": 0.18,
    "spellings": 0.03,
    "abstracts": 0.06,
    "written": 0.26,
}
PAIRS = {
    "dictionary": 600_000,
    "faults": 800_000,
    "messages": 275_000,
    "spellings": 72_000,
    "abstracts": 31_000,
    "written": 400_000,
}
TOGETHER = {"faults": 4}  # pairs that stay in one batch: four faults of one piece of equipment
BATCH = {"abstracts": 512, "written": 1024}
TOKENS = {"abstracts": 160, "dictionary": 24, "faults": 40}  # of a text at most; 62 otherwise
PREFIX = "query: "
LAYERS = [1, 3, 5, 7, 9, 11]  # of the teacher, with which the student starts
TEMPERATURE = 0.04
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def read(path: Path) -> list[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def weights(path: Path) -> dict[str, np.ndarray]:
    packed = np.load(path)
    tensors = {}
    for name in packed.files:
        if name.endswith("/int8"):
            values, scales = packed[name].astype(np.float32), packed[name.replace("/int8", "/scale")]
            tensors[name.removesuffix("/int8")] = values * np.repeat(scales, values.shape[1] // scales.shape[1], axis=1)
        elif not name.endswith("/scale"):
            tensors[name] = packed[name].astype(np.float32)
    return tensors


def model_of(tensors: dict[str, np.ndarray], layers: list[int]) -> Any:
    from transformers import BertConfig, BertModel

    words, hidden = tensors["embeddings.word_embeddings.weight"].shape
    config = BertConfig(
        vocab_size=words,
        hidden_size=hidden,
        num_hidden_layers=len(layers),
        num_attention_heads=12,
        intermediate_size=4 * hidden,
        pad_token_id=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model: Any = BertModel(config, add_pooling_layer=False)
    named = {name: values for name, values in tensors.items() if not name.startswith("encoder.")}
    for number, layer in enumerate(layers):
        old = f"encoder.layer.{layer}."
        named |= {f"encoder.layer.{number}.{k.removeprefix(old)}": v for k, v in tensors.items() if k.startswith(old)}
    missing, unexpected = model.load_state_dict({k: torch.from_numpy(v) for k, v in named.items()}, strict=False)
    if unexpected or any("position_ids" not in name for name in missing):
        raise SystemExit(f"teacher.npz does not fit: {missing} missing, {unexpected} unexpected")
    return model.to(DEVICE)


class Texts:
    """Tokens of many texts in one array."""

    def __init__(self, tokenizer: Tokenizer, texts: list[str], most: int) -> None:
        ids: list[list[int]] = []
        for start in range(0, len(texts), 100_000):
            ids += [
                e.ids[:most]
                for e in tokenizer.encode_batch_fast(texts[start : start + 100_000], add_special_tokens=False)
            ]
        self.lengths = np.array([len(one) for one in ids])
        self.ends = np.cumsum(self.lengths)
        self.tokens = np.concatenate([np.array(one, np.uint16) for one in ids])

    def batch(self, rows: np.ndarray, before: list[int]) -> tuple[Tensor, Tensor]:
        lengths = self.lengths[rows]
        starts = self.ends[rows] - lengths
        width = int(lengths.max()) + 2 + len(before)
        at = 1 + len(before)
        columns = np.arange(width) - at
        inside = (columns >= 0) & (columns < lengths[:, None])
        places = np.where(inside, starts[:, None] + columns, 0)
        ids = np.where(inside, self.tokens[places].astype(np.int64), 1)
        ids[:, 0] = 0
        ids[:, 1:at] = before
        ids[np.arange(len(rows)), at + lengths] = 2
        tensor = torch.from_numpy(ids)
        if DEVICE == "cuda":
            tensor = tensor.pin_memory().to(DEVICE, non_blocking=True)
        return tensor, tensor != 1


def vectors(model: torch.nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    with torch.autocast(DEVICE, torch.bfloat16):
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    weights_ = mask.unsqueeze(2).float()
    return functional.normalize((hidden.float() * weights_).sum(1) / weights_.sum(1), dim=1)


def draw(arguments: tuple[str, int, int, Path]) -> list[tuple[str, str, int]]:
    """Pairs of one source as they are typed, with the number of what they say: equal numbers are no negatives."""
    name, count, seed, job = arguments
    random_ = random.Random(seed)
    records = read(job / f"{name}.jsonl.gz")
    pairs: list[tuple[str, str]] = []
    said: Sequence[int] = range(seed * count, (seed + 1) * count)
    if name == "faults":
        entries = [
            (first, second)
            for first, second, technical, noun in read(job / "dictionary.jsonl.gz")
            if technical and noun
        ]
        while len(pairs) < count:
            noun = [random_.choice(entries)]
            drawn = random_.sample(records, TOGETHER[name])
            pairs += [fault(random_, [phrases], noun if random_.random() < 0.9 else entries) for phrases in drawn]
    elif name == "dictionary":
        shares = [3 if is_technical else 1 for _, _, is_technical, _ in records]
        said = random_.choices(range(len(records)), shares, k=count)
        pairs = [(random_.choice(records[n][0]), random_.choice(records[n][1])) for n in said]
    elif name == "written":
        said = random_.choices(range(len(records)), k=count)
        pairs = [wordings(random_, records[n]) for n in said]
    else:
        pairs = [(first, second) for first, second in random_.choices(records, k=count)]
    if name != "abstracts":
        pairs = [(as_typed(first, random_), as_typed(second, random_)) for first, second in pairs]
    return [(*pair, number) for pair, number in zip(pairs, said, strict=False)]


def pools(job: Path, tokenizer: Tokenizer) -> tuple[dict[str, tuple[Texts, Texts]], dict[str, Tensor]]:
    """The pairs of each source, tokenised once, and the numbers of what they say."""
    made, said = {}, {}
    with ProcessPoolExecutor(14) as pool:
        for name, count in PAIRS.items():
            parts = [(name, count // 14, seed, job) for seed in range(14)]
            pairs = [pair for part in pool.map(draw, parts) for pair in part]
            most = TOKENS.get(name, 62)
            made[name] = Texts(tokenizer, [p[0] for p in pairs], most), Texts(tokenizer, [p[1] for p in pairs], most)
            said[name] = torch.tensor([p[2] for p in pairs], device=DEVICE)
            print(
                f"{name}: {len(pairs):,} pairs, {len(made[name][0].tokens) + len(made[name][1].tokens):,} tokens",
                flush=True,
            )
    return made, said


def batches(name: str, sides: tuple[Texts, Texts], size: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Rows of batches without end; texts of a batch have similar lengths, so that little is padded."""
    together = TOGETHER.get(name, 1)
    lengths = np.maximum(sides[0].lengths, sides[1].lengths)
    blocks = np.arange(len(lengths) // together * together).reshape(-1, together)
    longest = lengths[blocks].max(axis=1)
    while True:
        order = generator.permutation(len(blocks))
        window = 16 * size // together
        for start in range(0, len(order) - window + 1, window) or (0,):
            part = order[start : start + window]
            part = part[np.argsort(longest[part], kind="stable")]
            cut = [part[n : n + size // together] for n in range(0, len(part) - size // together + 1, size // together)]
            for n in generator.permutation(len(cut)):
                yield blocks[cut[n]].ravel()


def targets(teacher: torch.nn.Module, sides: tuple[Texts, Texts], before: list[int]) -> Tensor:
    """What both texts of a pair should become: the sum of the teacher's two vectors, each without their common part.

    All vectors of the teacher have a large part in common, which leaves little of the scale to differences.
    """
    sums = torch.zeros((len(sides[0].lengths), 384), device=DEVICE)
    for texts in sides:
        order = np.argsort(texts.lengths, kind="stable")
        made = torch.empty_like(sums)
        with torch.no_grad():
            for start in range(0, len(order), 4096):
                rows = order[start : start + 4096]
                made[torch.from_numpy(rows).to(DEVICE)] = vectors(teacher, *texts.batch(rows, before))
        sums += functional.normalize(made - made.mean(0), dim=1)
    return functional.normalize(sums, dim=1).half()


def reciprocal(scores: np.ndarray, relevant: list[set[int]]) -> float:
    order = np.argsort(-scores, axis=1)[:, :10]
    values = [
        next((1 / (n + 1) for n, row in enumerate(top) if int(row) in good), 0.0)
        for top, good in zip(order, relevant, strict=True)
    ]
    return float(np.mean(values))


class Validation:
    def __init__(self, job: Path, tokenizer: Tokenizer) -> None:
        self.data, self.tokenizer = read(job / "validation.jsonl.gz")[0], tokenizer

    def encode(self, model: torch.nn.Module, texts: list[str], prefix: str) -> np.ndarray:
        made = Texts(self.tokenizer, texts, 200)
        before = self.tokenizer.encode(prefix.strip(), add_special_tokens=False).ids if prefix else []
        parts = np.array_split(np.arange(len(texts)), len(texts) // 512 + 1)
        with torch.no_grad():
            return np.concatenate([vectors(model, *made.batch(rows, before)).cpu().numpy() for rows in parts])

    def measure(self, model: torch.nn.Module, prefix: str = "") -> dict[str, float]:
        model.eval()
        measures = {}
        for name in ("faults", "events", "spellings"):
            first, second = (self.encode(model, [row[side] for row in self.data[name]], prefix) for side in range(2))
            own = [{n} for n in range(len(first))]
            measures[name] = (reciprocal(first @ second.T, own) + reciprocal(second @ first.T, own)) / 2
        found: dict[str, list[float]] = {"plant German": [], "plant English": []}
        for plant in self.data["plants"].values():
            rows = {log: n for n, log in enumerate(plant["logs"])}
            logs = self.encode(model, list(plant["logs"].values()), prefix)
            good: dict[str, set[int]] = {}
            for query, log, grade in plant["qrels"]:
                if int(grade) > 0 and log in rows:
                    good.setdefault(query, set()).add(rows[log])
            for language in ("German", "English"):
                asked = [
                    q
                    for q in plant["questions"]
                    if q["_id"] in good and (q.get("language", "") or language_of(q["text"])) == language
                ]
                scores = self.encode(model, [q["text"] for q in asked], prefix) @ logs.T
                found[f"plant {language}"].append(reciprocal(scores, [good[q["_id"]] for q in asked]))
        measures |= {name: float(np.mean(values)) for name, values in found.items()}
        model.train()
        return {name: round(value, 4) for name, value in measures.items()}


def language_of(text: str) -> str:
    english = {
        "the",
        "of",
        "in",
        "at",
        "by",
        "with",
        "and",
        "from",
        "to",
        "for",
        "on",
        "after",
        "a",
        "an",
        "is",
        "near",
        "during",
        "because",
    }
    german = {
        "der",
        "die",
        "das",
        "und",
        "im",
        "bei",
        "von",
        "am",
        "wegen",
        "mit",
        "nach",
        "zu",
        "auf",
        "an",
        "durch",
        "aus",
        "für",
        "ein",
        "eine",
    }
    words = text.lower().split()
    return (
        "German"
        if sum(w in german for w in words) + 2 * any(c in text for c in "äöüß") > sum(w in english for w in words)
        else "English"
    )


class Student:
    """Six layers that learn; the weight is that of the contrastive loss."""

    def __init__(self, tensors: dict[str, np.ndarray], weight: float, rate: float) -> None:
        self.model, self.weight, self.rate = model_of(tensors, LAYERS), weight, rate
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        plain = [p for p in self.model.parameters() if p.ndim == 1]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=rate, fused=DEVICE == "cuda")
        self.last: tuple[Tensor, Tensor] | None = None

    def learn(self, texts: list[tuple[Tensor, Tensor]], target: Tensor, said: Tensor, share: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * share
        first, second = (vectors(self.model, *side) for side in texts)
        imitation = 2 - ((first + second) * target).sum(1).mean()
        own = torch.arange(len(said), device=said.device)
        is_another = (said != said[:, None]) | (own == own[:, None])
        scores = (first @ second.T / TEMPERATURE).masked_fill(~is_another, -math.inf)
        contrast = functional.cross_entropy(scores, own) + functional.cross_entropy(scores.T, own)
        self.optimiser.zero_grad(set_to_none=True)
        (5 * imitation + self.weight * contrast).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.last = imitation.detach(), contrast.detach()

    @property
    def losses(self) -> dict[str, float]:
        assert self.last is not None
        return {"imitation": round(float(self.last[0]) / 2, 4), "contrastive": round(float(self.last[1]) / 2, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument(
        "--minutes", type=float, default=5, help="of training; the schedule ends in time, whatever the speed"
    )
    parser.add_argument(
        "--contrast", type=float, nargs="+", default=[1.0], help="weight of the contrastive loss; the best is kept"
    )
    arguments = parser.parse_args()
    started = time.time()
    torch.set_float32_matmul_precision("high")
    tokenizer = Tokenizer.from_file(str(arguments.job / "tokenizer.json"))
    before = tokenizer.encode(PREFIX.strip(), add_special_tokens=False).ids
    tensors = weights(arguments.job / "teacher.npz")
    teacher = model_of(tensors, list(range(12))).eval()
    validation = Validation(arguments.job, tokenizer)
    report: dict[str, Any] = {"teacher": validation.measure(teacher, PREFIX), "steps": []}
    data, said = pools(arguments.job, tokenizer)
    print(f"{time.time() - started:.0f} s until all texts are tokenised", flush=True)
    wanted = {name: targets(teacher, sides, before) for name, sides in data.items()}
    print(f"{time.time() - started:.0f} s until training", flush=True)
    students = [Student(tensors, weight, arguments.rate) for weight in arguments.contrast]
    generator = np.random.default_rng(1)
    streams = {name: batches(name, sides, BATCH.get(name, arguments.batch), generator) for name, sides in data.items()}
    names = list(SHARES)
    best, best_weights, begun, step, share = -1.0, {}, time.time(), 0, 0.0
    while share < 1:
        step += 1
        name = str(generator.choice(names, p=[SHARES[name] for name in names]))
        rows = next(streams[name])
        texts = [side.batch(rows, []) for side in data[name]]
        chosen = torch.from_numpy(rows).to(DEVICE, non_blocking=True)
        share = (time.time() - begun) / (60 * arguments.minutes)
        for student in students:
            student.learn(
                texts,
                wanted[name][chosen].float(),
                said[name][chosen],
                min(1, step / 100) * max(0.5 * (1 + math.cos(math.pi * min(share, 1))), 0.005),
            )
        if step % 500 == 0 or share >= 1:
            for student in students:
                measures = validation.measure(student.model)
                mean = float(np.mean(list(measures.values())))
                about = {
                    "step": step,
                    "seconds": round(time.time() - begun),
                    "contrast": student.weight,
                    **student.losses,
                }
                report["steps"].append({**about, **measures, "mean": round(mean, 4)})
                print(json.dumps(report["steps"][-1]), flush=True)
                if mean > best:
                    best, best_weights = (
                        mean,
                        {k: v.detach().half().cpu().numpy() for k, v in student.model.state_dict().items()},
                    )
    report |= {
        "best": best,
        "seconds": round(time.time() - started),
        "arguments": {k: str(v) for k, v in vars(arguments).items()},
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "report.json").write_text(json.dumps(report, indent=1))
    raw = b"".join(np.ascontiguousarray(best_weights[name]).tobytes() for name in sorted(best_weights))
    (arguments.out / "names.json").write_text(
        json.dumps({name: list(best_weights[name].shape) for name in sorted(best_weights)})
    )
    part = 15 << 20
    for n in range(0, len(raw), part):
        (arguments.out / f"weights.{n // part}").write_bytes(raw[n : n + part])
    print(f"{len(raw) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
