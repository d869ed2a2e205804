"""The metrics around one passage: where a step of length 1 leads, on the two principal axes of the embeddings.

    python -m bench.metric_picture KEPT.npz OUT.png [--workspace WORKSPACE]

KEPT is of `python -m bench.ablations … --keep FOLDER --around ROW`. Needs matplotlib; WORKSPACE has the names.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus

NAMED = 5  # passages with their names


def main() -> None:
    import matplotlib
    from matplotlib.patches import Ellipse

    matplotlib.use("Agg")
    from matplotlib import pyplot

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--workspace", type=Path)
    options = parser.parse_args()
    content = np.load(options.kept)
    points, shapes = content["xy"], content["shapes"]
    values, axes = np.linalg.eigh(shapes)
    # the largest ellipse is as long as a twelfth of the picture: lengths are compared with each other only
    scale = np.ptp(points, axis=0).max() / 12 / np.sqrt(values.max())
    figure, plot = pyplot.subplots(figsize=(7, 6), dpi=80)
    for point, (small, large), turn in zip(points, values, axes, strict=True):
        angle = np.degrees(np.arctan2(turn[1, 1], turn[0, 1]))
        plot.add_patch(Ellipse(point, scale * np.sqrt(large), scale * np.sqrt(small), angle=angle, alpha=0.4))
    plot.plot(*points.T, "k.", markersize=2)
    if options.workspace:
        corpus = Corpus(Workspace(options.workspace))
        spread = np.random.default_rng(0).permutation(len(points))[:NAMED]
        for place in spread.tolist():
            plot.annotate(corpus[int(content["around"][place])].id, points[place], fontsize=7, ha="center")
    plot.set_aspect("equal")
    figure.savefig(options.out, bbox_inches="tight")
    between = content["differences"][~np.eye(len(points), dtype=bool)]
    lengths = np.sqrt(values[:, 1] / values[:, 0])
    print(f"{len(points)} factors differ by {between.mean():.1%}, ellipses are {lengths.mean():.2f} times as long")


if __name__ == "__main__":
    main()
