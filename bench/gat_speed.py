"""How much time and memory graph attention over all nodes takes, against torch_geometric's GATConv in the same run.

    python -m bench.gat_speed FOLDER [--nodes 169343] [--edges 1166243] [--ours] [--json OUT]

The graph is that of `bench/geodesic_speed.py`; messages go along citations, against them, and from each node to itself.
Three layers with four heads as those of MetricGAT, the same random weights on both sides. Each side runs in a process
of its own, on one thread: CPU seconds of the layers in the fastest of three runs, and the most resident memory, in all
and beyond what it was before the first layer. `--ours` leaves torch_geometric out, which needs 22 GiB at the default
size.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench.geodesic_speed import make

from lemmata.types import Floats

DIMENSION, HEADS, LAYERS = 256, 4, 3
RUNS = 3  # of each side, in turn; the fastest counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=169_343)
    parser.add_argument("--edges", type=int, default=1_166_243)
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--side", choices=("ours", "peer"), help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = options.folder / f"{options.nodes}-{options.edges}-128"
    if options.side:
        print(json.dumps(run(folder, options.side)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    prepare(folder, options.nodes, options.edges)
    given = ["--nodes", str(options.nodes), "--edges", str(options.edges)]
    report: dict[str, Any] = {"nodes": options.nodes, "edges": options.edges}
    for side in (("ours",) if options.ours else ("ours", "peer")) * RUNS:
        command = [sys.executable, "-m", "bench.gat_speed", str(options.folder), *given, "--side", side]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        report[side] = min(json.loads(output), report.get(side, {}), key=lambda run: run.get("cpu_seconds", math.inf))
    if not options.ours:
        ours, peer = (np.load(folder / f"{side}.npy", mmap_mode="r") for side in ("ours", "peer"))
        report["largest_difference"] = float(np.abs(ours - peer).max())
        report["largest_number"] = float(np.abs(peer).max())
        for name in ("cpu_seconds", "megabytes", "megabytes_beyond_inputs"):
            report[f"{name}, peer / ours"] = round(report["peer"][name] / report["ours"][name], 2)
    text = json.dumps(report, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", "utf-8")


def prepare(folder: Path, nodes: int, edges: int) -> None:
    """Write nodes, messages by receiver, and the weights of the layers."""
    generator = np.random.default_rng(0)
    graph, matrix = make(folder, nodes, edges, 128, generator)
    citing, cited, itself = graph.sources(), np.asarray(graph.indices), np.arange(nodes)
    sources, targets = np.concatenate([cited, citing, itself]), np.concatenate([citing, cited, itself])
    order = np.argsort(targets, kind="stable")
    np.save(folder / "messages.npy", np.stack([sources[order], targets[order]]))
    np.save(folder / "nodes.npy", np.asarray(matrix) @ generator.standard_normal((128, DIMENSION)).astype(np.float32))
    weights = {}
    for layer in range(LAYERS):
        width = DIMENSION if layer == LAYERS - 1 else DIMENSION // HEADS
        weights[f"weight{layer}"] = generator.standard_normal((DIMENSION, HEADS * width)) * DIMENSION**-0.5
        for name in ("from", "to"):
            weights[f"{name}{layer}"] = generator.standard_normal((HEADS, width)) * width**-0.5
    np.savez(folder / "weights.npz", **{name: array.astype(np.float32) for name, array in weights.items()})


def run(folder: Path, side: str) -> dict[str, Any]:
    nodes, messages = np.load(folder / "nodes.npy"), np.load(folder / "messages.npy")
    weights = dict(np.load(folder / "weights.npz"))
    layers = ours(nodes, messages, weights) if side == "ours" else peer(nodes, messages, weights)
    before, begin = _peak(), time.process_time()
    result = layers()
    seconds, peak = time.process_time() - begin, _peak()
    np.save(folder / f"{side}.npy", result)
    return {"cpu_seconds": round(seconds, 2), "megabytes": peak, "megabytes_beyond_inputs": max(peak - before, 1)}


def ours(nodes: Floats, messages: Any, weights: dict[str, Floats]) -> Any:
    from lemmata.geometry.attention import Incoming, Layer, attend, incoming

    sources, targets = messages
    received = incoming(sources, targets, np.zeros(len(sources), np.int8), len(nodes))
    few = Incoming(np.array([0, 1]), np.array([0]), np.zeros(1, np.int8))
    stack = [_layer(weights, number, Layer) for number in range(LAYERS)]
    attend(few, nodes[:1], stack[0])  # loads numba

    def layers() -> Floats:
        hidden = nodes
        for layer in stack:
            hidden = hidden + attend(received, hidden, layer)
        return hidden

    return layers


def _layer(weights: dict[str, Floats], number: int, kind: Any) -> Any:
    parts = (weights[f"{name}{number}"] for name in ("weight", "from", "to"))
    return kind(*parts, np.zeros((1, HEADS), np.float32), average=number == LAYERS - 1)


def peer(nodes: Floats, messages: Any, weights: dict[str, Floats]) -> Any:
    import torch
    from torch_geometric.nn import GATConv

    torch.set_num_threads(1)
    edges, hidden = torch.tensor(messages), torch.tensor(nodes)
    stack = []
    for number in range(LAYERS):
        last = number == LAYERS - 1
        width = DIMENSION if last else DIMENSION // HEADS
        layer = GATConv(DIMENSION, width, HEADS, concat=not last, bias=False, add_self_loops=False)
        with torch.no_grad():
            layer.lin.weight.copy_(torch.tensor(weights[f"weight{number}"].T))
            layer.att_src.copy_(torch.tensor(weights[f"from{number}"])[None])
            layer.att_dst.copy_(torch.tensor(weights[f"to{number}"])[None])
        stack.append((layer.eval(), last))

    def layers() -> Any:
        result = hidden
        with torch.inference_mode():
            for layer, last in stack:
                values = layer(result, edges)
                result = result + (values if last else torch.nn.functional.elu(values))
        return result.numpy()

    return layers


def _peak() -> int:
    """Megabytes that this process has had resident at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


if __name__ == "__main__":
    main()
