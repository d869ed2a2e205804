"""The figures of an inspection as SVG, by the name of their file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from lemmata.evaluate.charts import (
    COLOURS,
    Curve,
    HeatMap,
    LineChart,
    Points,
    ScatterChart,
    heat_map,
    line_chart,
    scatter_charts,
)
from lemmata.inspect.inspection import Comparison, EncoderView, Inspection
from lemmata.inspect.layers import Reading

LAST_LAYERS = 4  # whose attention is drawn as a map
_CLS_LAYERS = 6  # in which the first token is followed
_BINS = 40
_PAIR_BINS = 25  # there are fewer linked pairs
_DRAWN_TOKENS = 40  # of a text, in a map of attention
_COMPONENTS = 100  # of the spectrum
Values = npt.NDArray[np.float64]


def draw(inspection: Inspection) -> dict[str, str]:
    """All figures; what an encoder does not have is not drawn."""
    views = inspection.encoders
    figures = {f"neighbours-{number}": _overlaps(c, number) for number, c in enumerate(inspection.comparisons, 1)}
    for colour, (view, matrix) in enumerate(zip(views, inspection.cosines, strict=True)):
        figures[f"cosines-{file_stem(view, views)}"] = _cosines(inspection, view, matrix.tolist(), colour % COLOURS)
    if inspection.maps:
        figures["map"] = _maps(inspection)
    for colour, view in enumerate(views):
        figures[f"pairs-{file_stem(view, views)}"] = _pairs(view, views, colour % COLOURS)
    figures["spectrum"] = _spectrum(views)
    if any(view.tokenisation for view in views):
        figures["token-lengths"] = _lengths(views)
    if any(view.norms for view in views):
        figures["token-norms"] = _norms(views)
        figures["norms-by-frequency"] = _norms_by_frequency(views)
    for place, view in enumerate(views):
        if view.attention is not None:
            stem, colour = file_stem(view, views), place % COLOURS
            figures[f"attention-{stem}"] = _attention(view)
            for reading in view.readings[:1]:
                figures |= {f"attention-{stem}-layer-{n}": svg for n, svg in _attention_maps(reading, colour)}
            for number, (reading, passage) in enumerate(zip(view.readings, inspection.read, strict=True), 1):
                figures[f"cls-{stem}-{number}"] = _first_token(reading, passage.id, colour)
    if any(view.pooled for view in views):
        figures["pooling"] = _pooling(views)
    return figures


def file_stem(view: EncoderView, views: Sequence[EncoderView]) -> str:
    """A part of a file name for an encoder, different for each of them."""
    stems = [re.sub(r"[^A-Za-z0-9.]+", "-", other.label).strip("-.")[:40] or "encoder" for other in views]
    place = next(number for number, other in enumerate(views) if other is view)
    return stems[place] if stems.count(stems[place]) == 1 else f"{stems[place]}-{place + 1}"


def _histogram(values: Iterable[float], edges: Values) -> list[tuple[float, float]]:
    """The share of all values in each bin, at its middle."""
    numbers = np.fromiter(values, float)
    counts, _ = np.histogram(numbers, edges)
    middles = (edges[1:] + edges[:-1]) / 2
    return list(zip(middles.tolist(), (counts / max(len(numbers), 1)).tolist(), strict=True))


def _curves(views: Sequence[EncoderView], points: Callable[[EncoderView], list[tuple[float, float]]]) -> list[Curve]:
    """One curve for each encoder that has points, in its colour."""
    drawn = [(colour, view, points(view)) for colour, view in enumerate(views)]
    return [Curve(line, view.label, colour=colour % COLOURS) for colour, view, line in drawn if line]


# ---------------------------------------------------------------- neighbours, cosines, maps


def _overlaps(comparison: Comparison, colour: int) -> str:
    kept_neighbours = np.rint(comparison.overlaps * comparison.k).astype(np.int64)
    shares = np.bincount(kept_neighbours, minlength=comparison.k + 1) / len(kept_neighbours)
    points = [(float(number), share) for number, share in enumerate(shares.tolist())]
    chart = LineChart(
        f"Neighbours kept from {comparison.before} to {comparison.after}",
        f"of the {comparison.k} nearest neighbours, how many stayed",
        "share of passages",
        [Curve(points, colour=colour % COLOURS)],
        (0, comparison.k),
        (0, max(shares.tolist()) * 1.08),
        (float(kept_neighbours.mean()), f"mean {kept_neighbours.mean():.1f}"),
    )
    return line_chart(chart)


def _cosines(inspection: Inspection, view: EncoderView, values: Sequence[Sequence[float]], colour: int) -> str:
    low = min(0.0, *(float(matrix.min()) for matrix in inspection.cosines))
    labels = [f"{_short(item.title or item.id)} · {number}" for number, item in enumerate(inspection.chosen, 1)]
    numbers = [str(number) for number in range(1, len(values) + 1)]
    scale = "cosine; framed: linked in the graph" if inspection.linked else "cosine"
    framed = [cell for a, b in inspection.linked for cell in ((a, b), (b, a))]
    return heat_map(HeatMap(view.label, values, labels, numbers, (low, 1.0), scale, framed, colour, numbers=True))


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:29]}…"


def _maps(inspection: Inspection) -> str:
    charts = []
    for view, points in zip(inspection.encoders, inspection.maps, strict=True):
        groups = [
            Points([(float(x), float(y)) for x, y in points[inspection.group_of == number]], name, number % COLOURS)
            for number, name in enumerate(inspection.groups)
        ]
        charts.append(ScatterChart(view.label, groups))
    return scatter_charts(charts)


# ---------------------------------------------------------------- the space


def _pairs(view: EncoderView, views: Sequence[EncoderView], colour: int) -> str:
    lowest = min(float(other.space.random_cosines.min()) for other in views)
    edges = np.linspace(min(lowest, 0.0), 1.0, _PAIR_BINS + 1)
    curves = [Curve(_histogram(view.space.random_cosines, edges), "random pairs", colour=5)]
    if len(view.space.linked_cosines):
        curves.append(Curve(_histogram(view.space.linked_cosines, edges), "linked pairs", colour=colour))
    title = f"Cosines of pairs, {view.label}"
    limits = (float(edges[0]), 1.0)
    return line_chart(LineChart(title, f"cosine, {view.label}", "share of pairs", curves, limits, histogram=True))


def _spectrum(views: Sequence[EncoderView]) -> str:
    def points(view: EncoderView) -> list[tuple[float, float]]:
        shares = np.cumsum(view.space.spectrum[:_COMPONENTS])
        return [(float(number), float(share)) for number, share in enumerate(shares, 1)]

    chart = LineChart("Variance by component", "principal components", "share of the variance", _curves(views, points))
    return line_chart(chart)


# ---------------------------------------------------------------- tokens


def _lengths(views: Sequence[EncoderView]) -> str:
    known = [view.tokenisation for view in views if view.tokenisation]
    reach = max(float(np.percentile(cut.lengths, 99)) for cut in known)
    edges = np.linspace(0, max(reach, 2.0), _BINS + 1)

    def points(view: EncoderView) -> list[tuple[float, float]]:
        return _histogram(view.tokenisation.lengths, edges) if view.tokenisation else []

    limit = min(cut.max_tokens for cut in known)
    mark = (float(limit), f"the encoder reads {limit}") if limit < edges[-1] else None
    curves = _curves(views, points)
    return line_chart(
        LineChart("Tokens by passage", "tokens of a passage", "share of passages", curves, mark=mark, histogram=True)
    )


def _relative_norms(view: EncoderView) -> dict[str, float]:
    """Lengths of token vectors divided by their median: encoders have different scales."""
    median = float(np.median(list(view.norms.values()))) or 1.0
    return {token: norm / median for token, norm in view.norms.items()}


def _norms(views: Sequence[EncoderView]) -> str:
    every = np.concatenate([list(_relative_norms(view).values()) for view in views if view.norms])
    edges = np.linspace(0, float(np.percentile(every, 99.9)), _BINS + 1)

    def points(view: EncoderView) -> list[tuple[float, float]]:
        return _histogram(_relative_norms(view).values(), edges) if view.norms else []

    label = "length of the vector of a token, divided by the encoder's median"
    chart = LineChart("Token norms", label, "share of the vocabulary", _curves(views, points), histogram=True)
    return line_chart(chart)


def _norms_by_frequency(views: Sequence[EncoderView]) -> str:
    def points(view: EncoderView) -> list[tuple[float, float]]:
        if not view.norms or view.tokenisation is None:
            return []
        by_level: dict[int, list[float]] = {}
        norms = _relative_norms(view)
        for token, count in view.tokenisation.counts.items():
            if token in norms:
                by_level.setdefault(int(np.log2(count)), []).append(norms[token])
        return [(float(level), float(np.mean(values))) for level, values in sorted(by_level.items())]

    label = "occurrences in the sample, as a power of 2"
    return line_chart(LineChart("Token norms by frequency", label, "mean length / median", _curves(views, points)))


# ---------------------------------------------------------------- attention, pooling

_WHERE = {"first": "first token", "last": "last token", "own": "itself", "beside": "beside it", "entropy": "entropy"}


def _attention(view: EncoderView) -> str:
    curves = []
    for colour, (name, label) in enumerate(_WHERE.items()):
        shares = enumerate(getattr(view.attention, name).tolist(), 1)
        curves.append(Curve([(float(layer), share) for layer, share in shares], label, colour=colour))
    title = f"Attention by layer, {view.label}"
    layers = (1.0, float(max(view.layers, 2)))
    return line_chart(LineChart(title, f"layer, {view.label}", "share of the attention", curves, layers, (0, 1)))


def _attention_maps(reading: Reading, colour: int) -> list[tuple[int, str]]:
    """The mean over the heads of each of the last layers, by number of the layer; small values are drawn larger."""
    tokens = reading.tokens[:_DRAWN_TOKENS]
    size, layers = len(tokens), len(reading.attention)
    means = reading.attention.mean(axis=1)[:, :size, :size]
    maps = []
    for layer in range(max(0, layers - LAST_LAYERS), layers):
        values = np.sqrt(means[layer]).tolist()
        top = float(np.sqrt(means[layer].max()))
        title = f"layer {layer + 1}: who looks (rows) at what (columns)"
        chart = HeatMap(title, values, tokens, tokens, (0.0, top), "square root of the attention", colour=colour)
        maps.append((layer + 1, heat_map(chart)))
    return maps


def _first_token(reading: Reading, identity: str, colour: int) -> str:
    """What the first token looks at, layer by layer; itself is left out, which would outshine the others."""
    tokens = reading.tokens[1:_DRAWN_TOKENS]
    means = reading.attention.mean(axis=1)[:, 0, 1 : len(tokens) + 1]
    last = means[-_CLS_LAYERS:]
    rows = [f"layer {len(means) - len(last) + number}" for number in range(1, len(last) + 1)]
    title = f"what {reading.tokens[0]} looks at in {_short(identity)}"
    scale = (0.0, float(last.max(initial=0.0)) or 1.0)
    return heat_map(HeatMap(title, last.tolist(), rows, tokens, scale, "attention", colour=colour))


def _pooling(views: Sequence[EncoderView]) -> str:
    charts = []
    for colour, view in enumerate(views):
        if view.pooled is not None:
            pairs = zip(view.pooled.token_norms.tolist(), view.pooled.pooled_norms.tolist(), strict=True)
            groups = [Points(list(pairs), colour=colour % COLOURS)]
            labels = ("mean length of token vectors", "length of the pooled vector")
            charts.append(ScatterChart(view.label, groups, *labels))
    return scatter_charts(charts)
