"""The model card (README.md as sentence-transformers and the Hugging Face Hub read it, card.json), with the report.

README.md and card.json hold the same facts. The card says so where something was not measured or not recorded.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemmata.core.errors import require
from lemmata.core.files import write_atomically
from lemmata.encode.bert import read_architecture
from lemmata.encode.static import is_static, static_settings
from lemmata.evaluate.charts import number, signed
from lemmata.train.bases import weights_sha256
from lemmata.train.losses import cut_lengths
from lemmata.train.report import CURVES, History, Point, json_value, training_report, write_history

if TYPE_CHECKING:
    from lemmata.train.finetune import FinetuneOptions, FinetuneResult
    from lemmata.train.job import Job
    from lemmata.train.reranker import RerankerOptions, RerankerResult

STATIC_POOLING: tuple[str, ...] = ("mean of token vectors",)


@dataclass(frozen=True, slots=True)
class Estimate:
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


@dataclass(frozen=True, slots=True)
class Guard:
    """A task outside the domain, which training should not make worse."""

    task: str
    measure: str
    queries: int
    before: Estimate
    after: Estimate
    allowed: float  # largest accepted drop, relative to the value before


@dataclass(frozen=True, slots=True)
class TrainingSet:
    name: str
    records: int
    files: Mapping[str, str]  # file name: sha256
    source: str = ""  # of its text, with the licence


@dataclass(frozen=True, slots=True)
class SplitFacts:
    method: str
    sha256: str
    counts: Mapping[str, Mapping[str, int]]  # part: unit: count
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """All facts of a card."""

    name: str
    base: str
    base_sha256: str  # of its weights
    licence: str  # SPDX, or unknown
    dimension: int
    max_tokens: int
    pooling: Sequence[str]  # several are concatenated
    command: str  # that reproduces the model
    prompts: Mapping[str, str] = field(default_factory=dict)  # by role
    matryoshka: Sequence[int] = ()  # dimensions to which vectors may be truncated
    languages: Sequence[str] = ("en",)  # ISO 639
    base_on_hub: str = ""  # owner/name
    sets: Sequence[TrainingSet] = ()
    split: SplitFacts | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    measures: Sequence[Measured] = ()
    guards: Sequence[Guard] = ()
    sweep: Sequence[Point] = ()
    share: float | None = None  # of the trained weights in the model
    intended_use: str = ""
    limits: Sequence[str] = ()
    packaged: bool = False  # comes with lemmata, as int8 ONNX that sentence-transformers reads once it is restored

    @property
    def is_cross_encoder(self) -> bool:
        """Whether the model gives a score for a pair instead of a vector for a text."""
        return not self.dimension

    @property
    def is_static(self) -> bool:
        """Whether the model is token vectors only, which lemmata reads and sentence-transformers does not."""
        return tuple(self.pooling) == STATIC_POOLING


def inherited(base: Path) -> dict[str, Any]:
    """What a model has from its base, by the front matter of its README: `licence` and `languages`."""
    readme = base / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
    header = re.match(r"---\s*\n(.*?)^---\s*$", text, re.DOTALL | re.MULTILINE)
    yaml = require("yaml", "train")
    try:
        stated = yaml.safe_load(header[1]) if header else {}
    except yaml.YAMLError:
        stated = {}
    stated = stated if isinstance(stated, Mapping) else {}
    licence, languages = stated.get("license"), stated.get("language")
    languages = [languages] if isinstance(languages, str) else languages if isinstance(languages, list) else []
    return {
        "licence": licence if isinstance(licence, str) and licence else "unknown",
        "languages": [language for language in languages if isinstance(language, str)],
    }


def write_card(folder: Path, facts: ModelFacts) -> None:
    """Write README.md and card.json into a model's folder; the README shows the curves if the folder has them."""
    data = json.dumps(json_value(facts), ensure_ascii=False, indent=2) + "\n"
    write_atomically(folder / "card.json", data.encode())
    picture = CURVES if (folder / CURVES).exists() else ""
    write_atomically(folder / "README.md", model_card(facts, picture).encode("utf-8", "replace"))


def model_card(facts: ModelFacts, picture: str = "") -> str:
    """The README: front matter in YAML, then the facts in Markdown; `picture` is the file name of the curves."""
    maps = f"maps a text of up to {facts.max_tokens:,} tokens to a vector of {facts.dimension:,} numbers"
    summary = (
        f"A cross-encoder: it reads a query and a passage, together up to {facts.max_tokens:,} tokens, and gives one"
        f" score, higher for passages that answer. Trained from {_code(facts.base)} with lemmata."
        if facts.is_cross_encoder
        else f"A {'static' if facts.is_static else 'sentence'} encoder: it {maps}, so that texts about the same subject"
        f" have similar vectors. Trained from {_code(facts.base)} with lemmata."
    )
    parts = [
        _front_matter(facts),
        f"# {_line(facts.name)}",
        summary,
        "## Use",
        *_use(facts),
        "## Intended use",
        facts.intended_use or "Not stated.",
        "## Limits",
        "\n".join(f"- {_line(limit)}" for limit in facts.limits) or "Not stated.",
        "## Model",
        _model_table(facts),
        "## Measures",
        *_measures(facts.measures),
        "## General quality",
        *_guards(facts.guards),
        "## Average with the base weights",
        *_sweep(facts),
        "## Training data",
        *_data(facts),
        "## Training",
        _block(facts.command, "sh") if facts.command else "The command was not recorded.",
        f"![Training curves]({picture})" if picture else "",
        _table(["option", "value"], [[_code(key), _code(_json(value))] for key, value in facts.options.items()])
        or "No options were recorded.",
        _table(["library", "version"], [[_line(name), _line(value)] for name, value in facts.versions.items()])
        or "No versions were recorded.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(facts: ModelFacts) -> str:
    """YAML, with values in JSON: these are valid YAML too, and unambiguous."""
    task = "text-ranking" if facts.is_cross_encoder else "sentence-similarity"
    kinds = ["cross-encoder", "reranker"] if facts.is_cross_encoder else ["feature-extraction"]
    library = "lemmata" if facts.packaged or facts.is_static else "sentence-transformers"
    tags = ["static" if facts.is_static else "onnx" if facts.packaged else library, task, *kinds, "lemmata"]
    entries: dict[str, Any] = {
        "language": list(facts.languages),
        "license": facts.licence.lower(),  # as the hub writes SPDX
        "library_name": library,
        "pipeline_tag": task,
        "tags": [*tags, "matryoshka"] if facts.matryoshka else tags,
        "base_model": facts.base_on_hub,
        "model-index": [{"name": facts.name, "results": results}] if (results := _hub_results(facts)) else [],
    }
    lines = [f"{key}: {_json(value)}" for key, value in entries.items() if value]
    return "\n".join(["---", *lines, "---"])


def _hub_results(facts: ModelFacts) -> list[dict[str, Any]]:
    """The measures of the model as the hub lists them; it takes entries of one type and split for one dataset."""
    kind = "text-ranking" if facts.is_cross_encoder else "information-retrieval"
    datasets: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for item in facts.measures:
        if math.isfinite(item.after.value):
            metric = {"type": item.measure.lower(), "value": round(item.after.value, 4), "name": item.measure}
            datasets.setdefault((item.task, item.part), []).append(metric)
    return [
        {
            "task": {"type": kind, "name": kind.replace("-", " ").capitalize()},
            "dataset": {"name": task, "type": re.sub(r"\W+", "-", task.lower()).strip("-"), "split": part},
            "metrics": metrics,
        }
        for (task, part), metrics in datasets.items()
    ]


# ---------------------------------------------------------------- sections


def _use(facts: ModelFacts) -> list[str]:
    if facts.is_cross_encoder:
        with_transformers = f"""from sentence_transformers import CrossEncoder

model = CrossEncoder({_json(facts.name)})  # the folder of this file
print(model.predict([("a question", "a passage")]))"""
        with_lemmata = f"""from lemmata.encode.cross import load_cross_encoder

print(load_cross_encoder({_json(facts.name)}).score([("a question", "a passage")]))"""
        return [_block(with_transformers, "python"), "or", _block(with_lemmata, "python")]
    opened = f"""from sentence_transformers import SentenceTransformer

model = SentenceTransformer({_json(facts.name)})  # the folder of this file"""
    if facts.packaged:
        opened = f"""from pathlib import Path

from lemmata.encode.load import PACKAGED
from lemmata.encode.restore import restore
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(str(restore(PACKAGED[{_json(facts.name)}], Path({_json(facts.name)}))))"""
    with_transformers = f"""{opened}
queries = model.encode_query(["a question"])
passages = model.encode_document(["a passage"])
print(model.similarity(queries, passages))"""
    with_lemmata = f"""from lemmata.encode.load import load_encoder

encoder = load_encoder({_json(facts.name)})
queries = encoder.encode(["a question"], role="query")
passages = encoder.encode(["a passage"])
print(queries @ passages.T)"""
    parts = [] if facts.is_static else [_block(with_transformers, "python"), "or"]
    parts.append(_block(with_lemmata, "python"))
    if facts.matryoshka:
        smallest = min(facts.matryoshka)
        parts.append(
            f"Vectors may be truncated to their first {_dimensions(facts)} numbers, with `truncate_dim={smallest}`"
            f" or `dimension={smallest}`."
        )
    return parts


def _dimensions(facts: ModelFacts) -> str:
    return ", ".join(f"{dimension:,}" for dimension in sorted(facts.matryoshka, reverse=True))


def _model_table(facts: ModelFacts) -> str:
    prompts = ", ".join(f"{_line(role)}: {_code(_json(prompt))}" for role, prompt in facts.prompts.items() if prompt)
    rows = [
        ["base", _code(facts.base) + (f" ({_code(facts.base_on_hub)} on the hub)" if facts.base_on_hub else "")],
        ["sha256 of the base weights", _code(facts.base_sha256) if facts.base_sha256 else "not recorded"],
        ["licence", _line(facts.licence) or "not stated"],
        ["languages", ", ".join(map(_line, facts.languages)) or "not stated"],
        ["maximum length", f"{facts.max_tokens:,} tokens; longer texts are truncated"],
    ]
    if facts.is_cross_encoder:
        return _table(["", ""], rows)
    rows += [
        ["dimension", f"{facts.dimension:,}"],
        ["Matryoshka dimensions", _dimensions(facts) or "none"],
        ["pooling", " and ".join(map(_line, facts.pooling)) + (", concatenated" if len(facts.pooling) > 1 else "")],
        ["prompts", prompts or "none"],
    ]
    return _table(["", ""], rows)


def _results(item: Measured | Guard) -> list[str]:
    """The cells from the task to the difference."""
    before, after = item.before, item.after
    names = [_line(item.task), _line(item.measure), f"{item.queries:,}"]
    return [*names, _estimate(before), _estimate(after), signed(after.value - before.value, 4)]


def _measures(measures: Sequence[Measured]) -> list[str]:
    if not measures:
        return ["Not measured."]
    heads = ["part", "task", "measure", "queries", "before", "after", "difference"]
    sections = [
        "Before: the base. After: this model, on the same queries. In brackets: the 95 % interval.",
        _table(heads, [[_line(item.part), *_results(item)] for item in measures], first_number=4),
    ]
    parts = {item.part for item in measures}
    sections += [f"Nothing was measured on {part}." for part in ("validation", "test") if part not in parts]
    if "validation" in parts:
        sections.append("The settings were chosen on validation, so its values are optimistic.")
    return sections


def _guards(guards: Sequence[Guard]) -> list[str]:
    if not guards:
        return ["Not measured: the model may be worse than the base outside its domain."]
    rows = [
        [
            *_results(guard),
            f"{guard.allowed:.1%}",
            "passed" if guard.after.value >= guard.before.value * (1 - guard.allowed) else "**failed**",
        ]
        for guard in guards
    ]
    heads = ["task", "measure", "queries", "before", "after", "difference", "allowed drop", "result"]
    return ["Tasks outside the domain, which training should not make worse.", _table(heads, rows, first_number=3)]


def _sweep(facts: ModelFacts) -> list[str]:
    mixture = "None of them was chosen." if facts.sweep else "Not done."
    if facts.share is not None:
        mixture = f"The model has {facts.share:g} of the trained weights and {1 - facts.share:g} of the base weights."
    if not facts.sweep:
        return [mixture]
    rows = [
        [
            f"**{point.share:g}**" if point.share == facts.share else f"{point.share:g}",
            number(point.domain, 4),
            number(point.general, 4),
        ]
        for point in sorted(facts.sweep, key=lambda point: point.share)
    ]
    heads = ["share of the trained weights", "domain", "general"]
    return ["Measured on validation.", _table(heads, rows, first_number=1), mixture]


def _data(facts: ModelFacts) -> list[str]:
    rows = [
        [
            _line(item.name),
            f"{item.records:,}",
            _line(item.source) or "not stated",
            name and _code(name),
            sha256 and _code(sha256),
        ]
        for item in facts.sets
        for name, sha256 in (item.files or {"": ""}).items()
    ]
    sets = _table(["set", "records", "source", "file", "sha256"], rows) or "No training sets were recorded."
    split = facts.split
    if split is None:
        return [sets, "No split was recorded, so the queries above may have been trained on."]
    rows = [
        [_line(part), ", ".join(f"{count:,} {_line(unit)}" for unit, count in counts.items())]
        for part, counts in split.counts.items()
    ]
    how = f"Split before mining: {_line(split.method)}, seed {split.seed}, sha256 {_code(split.sha256)}."
    return [sets, how, _table(["part", ""], rows)]


# ---------------------------------------------------------------- numbers and Markdown


def _estimate(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return number(estimate.value, 4)
    return f"{number(estimate.value, 4)} ({number(estimate.low, 4)} to {number(estimate.high, 4)})"


def _json(value: Any) -> str:
    return json.dumps(json_value(value), ensure_ascii=False)


def _line(text: str) -> str:
    """Text on one line, with the characters escaped that have a meaning in Markdown."""
    return re.sub(r"([\\`*_<>|\[\]#])", r"\\\1", " ".join(text.split()))


def _fence(text: str, shortest: int) -> str:
    """Backticks, more than any run of them in the text."""
    return "`" * max(shortest, 1 + max(map(len, re.findall("`+", text)), default=0))


def _code(text: str) -> str:
    """Text as code in a table cell."""
    text = re.sub(r"[\r\n]+", " ", text).replace("|", "\\|")
    fence = _fence(text, 1)
    space = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{space}{text}{space}{fence}"


def _block(text: str, language: str) -> str:
    fence = _fence(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], first_number: int | None = None) -> str:
    """Empty without rows; columns from `first_number` on are right-aligned."""
    if not rows:
        return ""
    numbers_from = len(heads) if first_number is None else first_number
    rule = ["---:" if column >= numbers_from else "---" for column in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


# ---------------------------------------------------------------- of a training


def describe_model(
    folder: Path, name: str, base: Path, job: Job, options: FinetuneOptions, result: FinetuneResult
) -> None:
    """Write report, history and card of an encoder into its folder."""
    sweep = [Point(point["share"], point["domain"], point["general"]) for point in result.sweep]
    measures, guards = [], []
    for task in job.validations:
        key = f"{task.name}/{task.measure}"
        before, after = Estimate(result.before[key]), Estimate(result.after[key])
        if task.general:
            guards.append(Guard(task.name, task.measure, len(task.queries), before, after, options.guard_tolerance))
        else:
            measures.append(Measured("validation", task.name, task.measure, len(task.queries), before, after))
    if is_static(folder):
        settings = static_settings(folder)
        pooling, max_tokens, prompts = STATIC_POOLING, settings["max_tokens"], settings["prompts"]
        dimension = int(settings["dimension"])
    else:
        architecture = read_architecture(folder)
        pooling, max_tokens, prompts = architecture.pooling, architecture.max_tokens, architecture.prompts
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        dimension = int(config.get("hidden_size", 0)) * max(1, len(pooling))
    facts = {
        "dimension": dimension,
        "max_tokens": max_tokens,
        "pooling": pooling,
        "prompts": {role: prompt for role, prompt in prompts.items() if prompt},
        "matryoshka": cut_lengths(options.dimensions, dimension) if options.dimensions else [],
        "measures": measures,
        "guards": guards,
        "sweep": sweep,
        "share": result.share,
        "intended_use": "Search in the corpus that it was trained for, and in text like it.",
        "limits": [
            "Measured on validation only; see the report of 'lemmata run' or 'lemmata evaluate' for the test part."
        ],
    }
    curves = {"sweep": sweep, "share": result.share if sweep else None, "pairs_per_second": result.records_per_second}
    write_description(folder, name, base, job, options, result, facts, curves)


def write_description(
    folder: Path,
    name: str,
    base: Path,
    job: Job,
    options: FinetuneOptions | RerankerOptions,
    result: FinetuneResult | RerankerResult,
    facts: Mapping[str, Any],
    curves: Mapping[str, Any],
) -> None:
    """Write the history of a training, its report, and the card: `facts`, and what it comes from."""
    history = replace(
        History.from_log(result.history),
        best_step=result.best_step,
        options=asdict(options),
        sets={each["name"]: each["records"] for each in job.facts["sets"]},
        seconds=result.seconds,
        name=name,
        **curves,
    )
    write_history(folder / "history.json", history)
    training_report(history, folder)
    libraries = ("lemmata", "torch", "transformers", "sentence-transformers", "numpy")
    installed = {library: [*importlib.metadata.distributions(name=library)] for library in libraries}
    card = ModelFacts(
        name=name,
        base=options.base,
        base_sha256=weights_sha256(base),
        **inherited(base),
        command=" ".join(["lemmata", *sys.argv[1:]]),
        sets=[
            TrainingSet(each["name"], each["records"], {"data.parquet": each.get("sha256", "")})
            for each in job.facts["sets"]
        ],
        split=SplitFacts(**job.facts["split"]) if job.facts.get("split") else None,
        options=asdict(options),
        versions={library: found[0].version for library, found in installed.items() if found},
        **facts,
    )
    write_card(folder, card)
