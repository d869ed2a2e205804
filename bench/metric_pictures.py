"""Pictures of a learned metric: ellipses over a map, how metrics vary against density, and a path across the map.

    python -m bench.metric_pictures learn FILE.npz OUT.npz [--vectors FILE.npy] [--settings FILE.json] [--epochs 15]
    python -m bench.metric_pictures draw OUT.npz FOLDER

`learn` takes a file of `bench.metric export`, trains one network and needs torch and numpy; `draw` needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.geometry.geodesic import search_tree
from lemmata.types import Floats, Integers, MeasuredGraph

ELLIPSES = 70
SAMPLED = 2000  # nodes of the scatter plot
NEIGHBOURS = 10  # whose mean similarity is the density


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("learn")
    verb.add_argument("file", type=Path)
    verb.add_argument("out", type=Path)
    verb.add_argument("--vectors", type=Path)
    verb.add_argument("--settings", type=Path)
    verb.add_argument("--epochs", type=int, default=15)
    verb = verbs.add_parser("draw")
    verb.add_argument("file", type=Path)
    verb.add_argument("out", type=Path)
    options = parser.parse_args()
    if options.verb == "learn":
        learn(options)
    else:
        draw(options.file, options.out)


# ---------------------------------------------------------------- what is drawn, as arrays


def learn(options: argparse.Namespace) -> None:
    import torch

    from lemmata.train.metric import MetricOptions, train_metric

    content = np.load(options.file)
    name = next((name for name in content.files if name.startswith("vectors_")), "")
    vectors = np.asarray(np.load(options.vectors) if options.vectors else content[name], np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    links = content["links"].astype(np.int64)
    links = links[content["part"][links[:, 0]] == 0]
    settings = json.loads(options.settings.read_text("utf-8"))["settings"] if options.settings else {}
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    chosen = replace(MetricOptions(), **settings, epochs=options.epochs)
    trained = train_metric(vectors, links, chosen, candidates=content["candidates"], device=device)
    linked = np.unique(links)
    generator = np.random.default_rng(0)
    with torch.no_grad():
        h = trained.nodes.h.cpu().numpy()
        centred = h[linked] - h[linked].mean(axis=0)
        axes = np.linalg.svd(centred[: 4 * SAMPLED], full_matrices=False)[2][:2].T  # (d, 2)
        shown = generator.choice(linked, min(ELLIPSES, len(linked)), replace=False)
        shapes = [_shadow(factor, axes, chosen.epsilon) for factor in _factors(trained, shown)]
        nodes = generator.choice(linked, min(SAMPLED, len(linked)), replace=False)
        varied, density = _variation(trained, links, nodes), _density(vectors, linked, nodes)
        both = np.concatenate([links, links[:, ::-1]])
        ends = (torch.tensor(both[:, side].copy(), device=device) for side in (0, 1))
        lengths = trained.model.edge_lengths(trained.nodes, *ends).cpu().numpy()
    np.savez_compressed(
        options.out,
        xy=(h @ axes).astype(np.float32),
        linked=linked,
        shown=shown,
        shapes=np.array(shapes, np.float32),
        varied=varied,
        density=density,
        path=_long_path(both, lengths, h, linked, len(h)),
    )


def _factors(trained: Any, rows: Integers) -> Floats:
    import torch

    hidden = trained.nodes.hidden[torch.tensor(rows, device=trained.nodes.hidden.device)]
    return np.asarray(trained.model.factors(hidden).cpu().numpy())


def _shadow(factor: Floats, axes: Floats, epsilon: float) -> Floats:
    """The 2 × 2 matrix of the ellipse that the unit ball of a metric casts on the map: Pᵀ G⁻¹ P."""
    metric = factor @ factor.T + epsilon * np.eye(len(factor))
    return np.asarray(axes.T @ np.linalg.solve(metric, axes))


def _variation(trained: Any, links: Integers, nodes: Integers) -> Floats:
    """How far the factor of each node is from those of its neighbours, relative to its own size (nodes,)."""
    both = np.concatenate([links, links[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    result = np.zeros(len(nodes), np.float32)
    for place, node in enumerate(nodes.tolist()):
        begin, end = np.searchsorted(both[:, 0], [node, node + 1])
        own, *others = _factors(trained, np.concatenate([[node], both[begin:end, 1][:8]]))
        norms = [np.linalg.norm(own - other) for other in others]
        result[place] = np.mean(norms) / np.linalg.norm(own)
    return result


def _density(vectors: Floats, linked: Integers, nodes: Integers) -> Floats:
    similar = np.partition(vectors[nodes] @ vectors[linked].T, -NEIGHBOURS - 1, axis=1)[:, -NEIGHBOURS - 1 :]
    return np.asarray((similar.sum(axis=1) - 1) / NEIGHBOURS, np.float32)


def _long_path(edges: Integers, lengths: Floats, h: Floats, linked: Integers, count: int) -> Integers:
    """The shortest path between two nodes that are far apart."""
    order = np.lexsort((lengths, edges[:, 0]))
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(edges[:, 0], minlength=count), out=indptr[1:])
    graph = MeasuredGraph(indptr, edges[order, 1].astype(np.int32), lengths[order], order)
    first = int(linked[np.argmax(np.linalg.norm(h[linked] - h[linked].mean(axis=0), axis=1))])
    tree = search_tree(graph, [first], [0.0], count)
    reached = np.asarray(tree.nodes)
    last = int(np.argmax(np.linalg.norm(h[reached] - h[first], axis=1)))
    return np.array([int(tree.nodes[place]) for place in tree.path(last)])


# ---------------------------------------------------------------- drawing


def draw(file: Path, folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Ellipse

    content = np.load(file)
    folder.mkdir(parents=True, exist_ok=True)
    xy, linked = content["xy"], content["linked"]

    figure, axis = pyplot.subplots(figsize=(7, 6))
    axis.scatter(xy[linked, 0], xy[linked, 1], s=1, color="#b8bcc2", linewidths=0)
    spread = xy[linked].std()
    sizes = np.sqrt(np.linalg.eigvalsh(content["shapes"])[:, 1])
    for row, shape in zip(content["shown"], content["shapes"], strict=True):
        values, directions = np.linalg.eigh(shape)
        width, height = 0.35 * spread * np.sqrt(values[::-1]) / np.median(sizes)
        angle = np.degrees(np.arctan2(directions[1, 1], directions[0, 1]))
        axis.add_patch(Ellipse(xy[row], width, height, angle=angle, fill=False, color="#2f6db3", linewidth=0.8))
    axis.set(title="Where a step of length 1 leads, by the metric of each passage", xticks=[], yticks=[])
    figure.savefig(folder / "metric_ellipses.png", dpi=130, bbox_inches="tight")

    figure, axis = pyplot.subplots(figsize=(6, 4.5))
    axis.scatter(content["density"], content["varied"], s=4, color="#2f6db3", alpha=0.4, linewidths=0)
    correlation = np.corrcoef(content["density"], content["varied"])[0, 1]
    axis.set(
        title=f"Metrics against density (correlation {correlation:+.2f})",
        xlabel="mean cosine of the ten nearest passages",
        ylabel="distance to the metrics of neighbours, relative",
    )
    figure.savefig(folder / "metric_density.png", dpi=130, bbox_inches="tight")

    figure, axis = pyplot.subplots(figsize=(7, 6))
    axis.scatter(xy[linked, 0], xy[linked, 1], s=1, color="#b8bcc2", linewidths=0)
    axis.plot(*xy[content["path"]].T, "o-", color="#c8641b", markersize=4)
    axis.set(title=f"The shortest path between two distant passages: {len(content['path']) - 1} links")
    axis.set(xticks=[], yticks=[])
    figure.savefig(folder / "metric_path.png", dpi=130, bbox_inches="tight")
    print(f"correlation of variation and density {correlation:+.3f}; path of {len(content['path']) - 1} links")


if __name__ == "__main__":
    main()
