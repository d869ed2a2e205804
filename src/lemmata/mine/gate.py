"""The quality gate: a cross-encoder reads every mined pair, and drops positives and negatives that it doubts.

The thresholds are computed from unrelated pairs, because every cross-encoder has its own scale, and so has every kind
of anchor (a name, a question, a whole passage); `MODEL@5,3` has fixed ones. The paper on the process industry keeps a
triplet where the positive scores at least 5 and the negative at least 3 less, in logits of a model trained on MS MARCO.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.types import Floats, Negative, Pair, Progress, Triplet
from lemmata.mine.export import Record, RecordTexts, parts_of
from lemmata.mine.material import TrainingView

Score = Callable[[Sequence[tuple[str, str]]], Floats]
UNRELATED = 500  # random pairs of an anchor and a passage, for each kind of anchor
QUANTILE = 0.95  # of their scores: a positive has to score more
_ANCHORS = 100  # different ones in those pairs, or as many as there are
_BLOCK = 128  # records whose pairs are scored together, sorted by length; memory does not grow with the set


class Threshold(NamedTuple):
    """What a kind of anchor has to pass, in the model's own scale."""

    least: float  # score of a positive
    margin: float  # by which a negative has to be below its positive: how far unrelated pairs vary
    unrelated: float  # the median score of unrelated pairs


@dataclass(slots=True)
class GateReport:
    """What the gate kept and dropped; a triplet without any negative left is dropped."""

    model: str
    kept: int = 0  # records
    kept_negatives: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # records and negatives, by rule
    by_kind: dict[str, Counter[str]] = field(default_factory=dict)
    thresholds: dict[str, Threshold] = field(default_factory=dict)
    fixed: tuple[float, float] | None = None  # least score and margin, whatever unrelated pairs score

    def as_json(self) -> dict[str, Any]:
        kinds = {
            kind: {
                **dict(sorted(counts.items())),
                **{name: round(value, 6) for name, value in self.thresholds[kind]._asdict().items()},
            }
            for kind, counts in sorted(self.by_kind.items())
        }
        total = sum(counts["offered"] for counts in self.by_kind.values())
        report = {"model": self.model, "offered": total, "kept": self.kept, "kept_negatives": self.kept_negatives}
        return {**report, "dropped": dict(sorted(self.dropped.items())), "kinds": kinds}


def parse_gate(gate: str) -> tuple[str, tuple[float, float] | None]:
    """`MODEL@5,3` as a model and fixed thresholds: the least score of a positive, and its distance from a negative."""
    match = re.fullmatch(r"(.+)@(-?\d+(?:\.\d+)?),(\d+(?:\.\d+)?)", gate)
    return (match[1], (float(match[2]), float(match[3]))) if match else (gate, None)


def thresholds_of(gate: Mapping[str, Any], model: str) -> dict[str, Threshold]:
    """The thresholds in the report `gate` of a set, by kind of anchor; none where another model drew them."""
    kinds = gate.get("kinds", {}) if gate.get("model") == model else {}
    return {kind: Threshold(*(counts[name] for name in Threshold._fields)) for kind, counts in kinds.items()}


def gated(
    records: Iterable[Record], score: Score, view: TrainingView, report: GateReport, progress: Progress
) -> Iterator[Record]:
    """The records that pass, in order, with those of their negatives that pass; `report` is added to.

    A positive passes where it scores more than 95 % of unrelated pairs of its kind (source and relation), a negative
    where it scores less than its positive by more than the margin. The first records of a kind give its thresholds.
    """
    texts = RecordTexts(view)
    iterator = iter(records)
    done = 0
    while block := list(itertools.islice(iterator, _BLOCK)):
        texts.read(block)
        _calibrate(block, texts, score, view, report)
        pairs = list(dict.fromkeys(pair for record in block for pair in _text_pairs(record, texts)))
        scores = dict(zip(pairs, score(pairs).tolist(), strict=True))
        for record in block:
            positive, *negatives = (scores[pair] for pair in _text_pairs(record, texts))
            passed = _passed(record, positive, negatives, report)
            if passed is not None:
                yield passed
        done += len(block)
        progress(f"scoring by {report.model}", done, None)


def kind_of(pair: Pair) -> str:
    return f"{pair.source}/{pair.relation}" if pair.relation else pair.source


def _text_pairs(record: Record, texts: RecordTexts) -> Iterator[tuple[str, str]]:
    """The anchor with the positive, and with each negative."""
    pair, negatives = parts_of(record)
    anchor = texts.anchor(pair)
    yield anchor, texts.positive(pair)
    for negative in negatives:
        yield anchor, texts.text(negative.row)


def _passed(record: Record, positive: float, negatives: Sequence[float], report: GateReport) -> Record | None:
    pair, others = parts_of(record)
    threshold, counts = report.thresholds[kind_of(pair)], report.by_kind[kind_of(pair)]
    counts["offered"] += 1
    if positive <= threshold.least:
        report.dropped["positive like an unrelated pair"] += 1
        return None
    good_negatives: list[Negative] = []
    for negative, value in zip(others, negatives, strict=True):
        if positive - value > threshold.margin:
            good_negatives.append(negative)
        else:
            report.dropped["negative like the positive"] += 1
    if others and not good_negatives:
        report.dropped["no negative left"] += 1
        return None
    report.kept += 1
    report.kept_negatives += len(good_negatives)
    counts["kept"] += 1
    return Triplet(pair, tuple(good_negatives)) if others else pair


def _calibrate(
    block: Sequence[Record], texts: RecordTexts, score: Score, view: TrainingView, report: GateReport
) -> None:
    """Thresholds for the kinds of anchors that come for the first time."""
    new: dict[str, list[Pair]] = {}
    for record in block:
        pair, _ = parts_of(record)
        report.by_kind.setdefault(kind_of(pair), Counter())
        if kind_of(pair) not in report.thresholds:
            new.setdefault(kind_of(pair), []).append(pair)
    for kind, pairs in new.items():
        anchors = list(dict.fromkeys(pair.anchor for pair in pairs))[:_ANCHORS]
        related = {(pair.anchor, pair.positive) for pair in pairs} | {(anchor, anchor) for anchor in anchors}
        drawn = np.random.default_rng(0).choice(view.rows, UNRELATED).tolist()
        unrelated = [(anchors[n % len(anchors)], row) for n, row in enumerate(drawn)]
        unrelated = [(anchor, row) for anchor, row in unrelated if (anchor, row) not in related]
        rows = dict(zip(drawn, view.texts(drawn), strict=True))
        scores = score([(texts.anchor(Pair(anchor, row, "")), rows[row]) for anchor, row in unrelated])
        threshold = threshold_from(scores)
        if report.fixed is not None:  # what equals them passes
            least, margin = (math.nextafter(number, -math.inf) for number in report.fixed)
            threshold = threshold._replace(least=least, margin=margin)
        report.thresholds[kind] = threshold


def threshold_from(scores: Floats) -> Threshold:
    """Thresholds from the scores of unrelated pairs; without any, everything passes."""
    if not len(scores):
        return Threshold(-np.inf, 0.0, 0.0)
    low, middle, high = (float(value) for value in np.quantile(scores, (1 - QUANTILE, 0.5, QUANTILE)))
    return Threshold(high, (high - low) / 2, middle)
