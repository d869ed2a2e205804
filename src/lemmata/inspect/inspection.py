"""The record of an inspection: what was found about each encoder, and its numbers as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.types import Floats, Integers
from lemmata.inspect.layers import AttentionByLayer, Pooled, Reading
from lemmata.inspect.space import MEASURES, Space
from lemmata.inspect.tokens import Tokenisation, VocabularyOverlap

_FREQUENT = 20  # tokens that are named


class Shown(NamedTuple):
    """A passage as a reader sees it."""

    id: str
    title: str
    text: str  # its beginning


@dataclass(slots=True)
class EncoderView:
    """What was found about one encoder; what it does not have is None or empty, and a note says why."""

    name: str  # as the user named it
    label: str  # in figures
    kind: str  # onnx, static, transformer, remote or hashing
    dimension: int
    space: Space
    base: str = ""  # what it was trained from, as far as the workspace knows
    purity: float | None = None  # share of the ten nearest passages that are of the same document
    tokenisation: Tokenisation | None = None
    norms: Mapping[str, float] = field(default_factory=dict)  # of token vectors
    layers: int = 0
    heads: int = 0
    attention: AttentionByLayer | None = None
    readings: Sequence[Reading] = ()  # of the passages whose attention is drawn
    pooled: Pooled | None = None
    modules: Mapping[str, str] = field(default_factory=dict)  # component: what it is
    moved: Mapping[str, float] = field(default_factory=dict)  # part: relative change of its weights from the first one
    notes: list[str] = field(default_factory=list)


class Changed(NamedTuple):
    """A passage whose neighbours changed: those that left and those that came, nearest first."""

    passage: Shown
    overlap: float
    left: Sequence[Shown]
    entered: Sequence[Shown]


class Comparison(NamedTuple):
    """The nearest neighbours by two encoders."""

    before: str
    after: str
    k: int
    overlaps: Floats  # (sample,)
    most_changed: Sequence[Changed]
    is_training: bool  # whether the second encoder was trained from the first


@dataclass(slots=True)
class Inspection:
    """What was found about some encoders on a sample of a corpus."""

    passages: int  # of the corpus
    sampled: int
    links: int  # linked pairs that alignment is measured on
    seed: int
    encoders: Sequence[EncoderView]
    overlaps: Sequence[tuple[str, str, VocabularyOverlap]]  # of the vocabularies of two encoders
    commands: Sequence[tuple[str, int]]  # frequent LaTeX commands with their counts
    read: Sequence[Shown]  # whose tokens and attention are drawn
    chosen: Sequence[Shown]  # whose cosines are drawn
    cosines: Sequence[Floats]  # (chosen, chosen) by encoder
    linked: Sequence[tuple[int, int]]  # pairs of chosen passages that the graph links
    groups: Sequence[str]  # titles of the documents on the maps
    group_of: Integers  # (points,)
    comparisons: Sequence[Comparison]  # of the first encoder with each other one
    notes: list[str]
    maps: Sequence[Floats] = ()  # (points, 2) by encoder; none without scikit-learn


def to_json(inspection: Inspection) -> dict[str, Any]:
    """The numbers, without the points of figures and without the texts of passages."""
    names = [view.name for view in inspection.encoders]
    return {
        "passages": inspection.passages,
        "sampled": inspection.sampled,
        "links": inspection.links,
        "seed": inspection.seed,
        "encoders": {view.name: _encoder(view) for view in inspection.encoders},
        "vocabularies": [
            {"first": first, "second": second, **_finite(overlap._asdict())}
            for first, second, overlap in inspection.overlaps
        ],
        "cosines": {
            "passages": [passage.id for passage in inspection.chosen],
            "linked": [list(pair) for pair in inspection.linked],
            "values": {
                name: np.round(matrix.astype(np.float64), 4).tolist()
                for name, matrix in zip(names, inspection.cosines, strict=True)
            },
        },
        "changes": [
            {
                "before": comparison.before,
                "after": comparison.after,
                f"overlap@{comparison.k}": round(float(comparison.overlaps.mean()), 4),
                "most_changed": [
                    {
                        "id": changed.passage.id,
                        "overlap": round(changed.overlap, 4),
                        "left": [passage.id for passage in changed.left],
                        "entered": [passage.id for passage in changed.entered],
                    }
                    for changed in comparison.most_changed
                ],
            }
            for comparison in inspection.comparisons
        ],
        "documents": list(inspection.groups),
        "notes": list(inspection.notes),
    }


def _encoder(view: EncoderView) -> dict[str, Any]:
    record: dict[str, Any] = {
        "kind": view.kind,
        "dimension": view.dimension,
        "layers": view.layers or None,
        "heads": view.heads or None,
        **{name: getattr(view.space, name) for name in MEASURES},
        "purity@10": view.purity,
        "tokens": None,
        "token_norms": None,
        "attention": None,
        "pooling": None,
        "modules": dict(view.modules),
        "moved": dict(view.moved),
    }
    if view.tokenisation is not None:
        cut = view.tokenisation
        record["tokens"] = {
            "vocabulary": len(cut.tokens.vocabulary),
            "used": cut.used,
            "median": float(np.median(cut.lengths)),
            "p95": float(np.percentile(cut.lengths, 95)),
            "longest": int(cut.lengths.max()),
            "max_tokens": cut.max_tokens,
            "cut_off": cut.cut_off,
            "unknown": cut.unknown,
            "in_formulas": cut.in_formulas,
            "words": cut.words._asdict(),
            "commands": cut.commands._asdict(),
            "most_frequent": [{"token": token, "count": count} for token, count in cut.counts.most_common(_FREQUENT)],
        }
    if view.norms:
        norms = np.fromiter(view.norms.values(), float)
        quartiles = zip(("p5", "median", "p95"), np.percentile(norms, [5, 50, 95]).tolist(), strict=True)
        record["token_norms"] = {"mean": float(norms.mean()), **dict(quartiles)}
    if view.attention is not None:
        record["attention"] = {
            name: [round(value, 4) for value in getattr(view.attention, name).tolist()]
            for name in AttentionByLayer.__dataclass_fields__
        }
    if view.pooled is not None:
        record["pooling"] = {
            "token_norm": float(view.pooled.token_norms.mean()),
            "pooled_norm": float(view.pooled.pooled_norms.mean()),
            "agreement": view.pooled.agreement,
        }
    return {**_finite(record), "notes": list(view.notes)}


_DIGITS = 6  # more than any table shows: rounding twice could give another last digit


def _finite(value: Any) -> Any:
    """The value with rounded numbers, and null for those that JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return round(value, _DIGITS) if math.isfinite(value) else None
    return value
