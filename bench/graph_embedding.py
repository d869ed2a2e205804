"""What text vectors add to a graph embedding, and how fast it trains compared with other tools.

    python bench/graph_embedding.py quality --nodes nodes.jsonl.xz --edges edges.tsv.xz --vectors vectors.npy
    python bench/graph_embedding.py quality --workspace plant --vectors plant.npy
    python bench/graph_embedding.py speed --nodes nodes.jsonl.xz --edges edges.tsv.xz \\
        --biggraph VENV/bin/python --pykeen VENV/bin/python

`--nodes` are JSON lines with id (and kind, categories); `--edges` are lines of source and target, or of source,
relation and target. `--vectors` has a row per node in the order of `--nodes`; for a workspace, in the order of its
nodes, and it is computed if missing. One tenth of the edges is the test part, one twentieth of the rest chooses the
epoch; the seed changes both split and training. `--add-edges` (source, relation, target) are added to the training
part only, except edges between two nodes that a held-out edge joins. `--out` stores the results in a JSON file under
`--name`. Other tools run in their own environments; MRR is always computed by lemmata.graph.embed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.graph.embed import (
    BATCH,
    CHUNK,
    Embedding,
    EmbedOptions,
    edge_array,
    evaluate_embedding,
    split_edges,
    train_embedding,
)
from lemmata.graph.links import build_graph, link_edges
from lemmata.types import Edge, Floats, Graph, Integers


class Data(NamedTuple):
    """A graph and the vectors of its nodes' texts; a row of zeros has no text."""

    graph: Graph
    vectors: Floats


class Parts(NamedTuple):
    """Edges for training, for choosing the epoch, and for testing."""

    train: Graph
    valid: Integers
    test: Integers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["quality", "speed"])
    parser.add_argument("--nodes", type=Path)
    parser.add_argument("--edges", type=Path)
    parser.add_argument("--categories", action="store_true", help="make the categories of the nodes nodes too")
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--add-edges", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--operators", default="identity,translation,diagonal,complex")
    parser.add_argument("--dimensions", default="64,128,256", help="for the default operator; the others use 128")
    parser.add_argument("--jobs", type=int, default=1, help="trainings in parallel")
    parser.add_argument("--threads", type=int, default=2, help="per training")
    parser.add_argument("--settings", default="", help="time only settings whose name contains this")
    parser.add_argument("--epochs", type=int, default=20, help="epochs to time; a tenth of them for pykeen")
    parser.add_argument("--biggraph", type=Path, help="a Python with torchbiggraph")
    parser.add_argument("--pykeen", type=Path, help="a Python with pykeen")
    parser.add_argument("--name", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data = load(options)
    result = quality(options, data) if options.what == "quality" else speed(options, data)
    result = {"nodes": len(data.graph.nodes), "edges": len(data.graph.indices), **result}
    print(json.dumps(result, indent=1))
    if options.out:
        results = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
        results[options.name or options.what] = result
        options.out.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


# ---------------------------------------------------------------- data


def load(options: argparse.Namespace) -> Data:
    return from_workspace(options) if options.workspace else from_files(options)


def lines(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as stream:
        yield from stream


def read_edges(path: Path, relation: str = "cites") -> Iterator[Edge]:
    for line in lines(path):
        cells = line.rstrip("\n").split("\t")
        yield Edge(cells[0], cells[1] if len(cells) > 2 else relation, cells[-1])


def from_files(options: argparse.Namespace) -> Data:
    records = [json.loads(line) for line in lines(options.nodes)]
    kinds = {record["id"]: record.get("kind", "paper") for record in records}
    edges = list(read_edges(options.edges))
    if options.categories:
        for record in records:
            edges += [Edge(record["id"], "in", f"category:{name}") for name in record["categories"].split()]
        kinds |= {edge.target: "category" for edge in edges if edge.relation == "in"}
    graph = build_graph(edges, kinds)
    of_records = np.load(options.vectors) if options.vectors else np.zeros((len(records), 1), np.float32)
    vectors = np.zeros((len(graph.nodes), of_records.shape[1]), np.float32)
    rows = {record["id"]: row for row, record in enumerate(records)}
    for number, node in enumerate(graph.nodes):
        if node in rows:
            vectors[number] = of_records[rows[node]]
    return Data(graph, vectors)


def from_workspace(options: argparse.Namespace) -> Data:
    from lemmata.store.corpus import Corpus
    from lemmata.store.layout import Layout

    corpus = Corpus(Layout(options.workspace))
    kinds = {document.id: document.kind for document in corpus.documents()} | dict(corpus.kinds())
    graph = build_graph(link_edges(corpus, corpus.documents(links=True)), kinds)
    if not options.vectors.exists():
        from lemmata.encode.load import load_encoder

        texts = {document.id: document.title for document in corpus.documents()}
        texts |= {passage.id: f"{passage.title}\n{passage.bare_text}".strip()[:400] for passage in corpus}
        encoder = load_encoder("minilm")
        np.save(options.vectors, encoder.encode([texts.get(node, "") for node in graph.nodes]))
    vectors = np.load(options.vectors)
    if len(vectors) != len(graph.nodes):
        raise SystemExit(f"{options.vectors} has {len(vectors)} rows for {len(graph.nodes)} nodes: remove it")
    return Data(graph, vectors)


def split(graph: Graph, seed: int, added: Path | None = None) -> Parts:
    rest, test = split_edges(graph, 0.1, seed)
    train, valid = split_edges(rest, 0.05, seed + 1000)
    if added is None:
        return Parts(train, valid, test)
    hidden = {frozenset((source, target)) for source, _, target in np.concatenate((valid, test)).tolist()}
    rows = {node: row for row, node in enumerate(graph.nodes)}
    more = [
        edge
        for edge in read_edges(added)
        if edge.source in rows
        and edge.target in rows
        and frozenset((rows[edge.source], rows[edge.target])) not in hidden
    ]
    old = [
        Edge(graph.nodes[source], graph.relations[relation], graph.nodes[target])
        for source, relation, target in edge_array(train).tolist()
    ]
    joined = build_graph([*old, *more], dict(zip(graph.nodes, graph.kinds, strict=True)))
    number = {name: place for place, name in enumerate(joined.relations)}
    for edges in (valid, test):
        edges[:, 1] = [number[graph.relations[relation]] for relation in edges[:, 1]]
    return Parts(joined, valid, test)


# ---------------------------------------------------------------- quality


def quality(options: argparse.Namespace, data: Data) -> dict[str, Any]:
    default = EmbedOptions()
    models = [(operator, 128) for operator in options.operators.split(",")]
    models += [(default.operator, int(size)) for size in options.dimensions.split(",") if int(size) != 128]
    runs = [
        (options, start, operator, dimension, seed)
        for seed in range(options.seeds)
        for start in ("frozen", "random", "text")
        for operator, dimension in ([("identity", data.vectors.shape[1])] if start == "frozen" else models)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, initializer=_limit, initargs=(options.threads,)) as pool:
        measured = list(pool.map(quality_of, runs))
    table = []
    for start, operator, dimension in dict.fromkeys(run[1:4] for run in runs):
        same = [row for run, row in zip(runs, measured, strict=True) if run[1:4] == (start, operator, dimension)]
        row: dict[str, Any] = {"start": start, "operator": operator, "dimension": dimension}
        for measure in same[0]:
            values = [seed[measure] for seed in same]
            row[measure] = round(statistics.mean(values), 4)
            row[f"{measure} sd"] = round(statistics.stdev(values), 4) if len(values) > 1 else None
        table.append(row)
        print(
            f"{start:7} {operator:12} {dimension:4} MRR {row['mrr']:.4f} ± {row['mrr sd'] or 0:.4f}  Hits@1"
            f" {row['hits_at_1']:.3f}  Hits@10 {row['hits_at_10']:.3f}  AUC {row['auc']:.3f}  mean rank"
            f" {row['mean_rank']:.0f}  epochs {row['epochs']:.0f}",
            file=sys.stderr,
        )
    return {"seeds": options.seeds, "options": asdict(default), "runs": table}


def _limit(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def quality_of(run: tuple[argparse.Namespace, str, str, int, int]) -> dict[str, float]:
    options, start, operator, dimension, seed = run
    data = load(options)
    parts = split(data.graph, seed, options.add_edges)
    reciprocal = operator != "identity"
    chosen = EmbedOptions(dimension=dimension, operator=operator, reciprocal=reciprocal, seed=seed)
    if start == "frozen":
        norms = np.linalg.norm(data.vectors, axis=1, keepdims=True)
        unit = data.vectors / np.maximum(norms, 1e-10)  # ranked by cosine
        embedding = Embedding(unit, np.zeros((1, len(parts.train.relations), 0), np.float32), chosen)
    else:
        initial = data.vectors if start == "text" else None
        embedding = train_embedding(parts.train, chosen, initial=initial, held_out=parts.valid)
    ranks = evaluate_embedding(embedding, parts.train, parts.test, parts.valid).all
    return {**ranks._asdict(), "epochs": float(len(embedding.history))}


# ---------------------------------------------------------------- speed


SETTINGS = {
    "50 in batch + 50 uniform": EmbedOptions(in_batch=True, negatives=50),
    "100 uniform": EmbedOptions(),
    "complex, 10 uniform": EmbedOptions(operator="complex", reciprocal=False, negatives=10),
    "complex, 100 uniform": EmbedOptions(operator="complex", reciprocal=False),
}


def speed(options: argparse.Namespace, data: Data) -> dict[str, Any]:
    """Edges per second of wall time and of processor time, without start-up.

    Each tool runs for one epoch and for some more; the difference counts, so that start-up does not. MRR is
    measured after the epochs of each row, without choosing an epoch. pykeen draws negatives for each edge, the
    others share them in a chunk (of 50; torchbiggraph without in-batch negatives: as many as it draws), so the
    ratio to pykeen grows with the number of negatives.
    """
    parts = split(data.graph, 0)
    rows = []
    for name, chosen in SETTINGS.items():
        if options.settings not in name:
            continue
        peers = ["lemmata"]
        if options.biggraph and chosen.reciprocal:
            peers.append("torchbiggraph")
        if options.pykeen and chosen.operator == "complex":
            peers.append("pykeen")
        for peer in peers:
            timed = max(1, options.epochs // 10) if peer == "pykeen" else options.epochs
            few, many = 1, 1 + timed
            costs = [run_peer(options, peer, parts, replace(chosen, epochs=epochs)) for epochs in (few, many)]
            edges = timed * len(parts.train.indices)
            ranks = evaluate_embedding(costs[1].embedding, parts.train, parts.test, parts.valid).all
            rows.append(
                {
                    "setting": name,
                    "who": peer,
                    "edges per second": round(edges / (costs[1].wall - costs[0].wall)),
                    "edges per CPU second": round(edges / (costs[1].processor - costs[0].processor)),
                    "peak MB": round(costs[1].peak),
                    "epochs": many,
                    "mrr": round(ranks.mrr, 4),
                }
            )
            print(json.dumps(rows[-1]), file=sys.stderr)
    return {"threads": options.threads, "load": [round(load, 1) for load in os.getloadavg()], "runs": rows}


class Cost(NamedTuple):
    wall: float
    processor: float
    peak: float  # MB, of the main process (wait4 would include the memory of the process that forked it)
    embedding: Embedding


def run_peer(options: argparse.Namespace, peer: str, parts: Parts, chosen: EmbedOptions) -> Cost:
    """One training in its own process."""
    python = {"lemmata": sys.executable, "torchbiggraph": options.biggraph, "pykeen": options.pykeen}[peer]
    code = {"lemmata": LEMMATA, "torchbiggraph": BIGGRAPH, "pykeen": PYKEEN}[peer]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        np.save(place / "edges.npy", edge_array(parts.train))
        settings = {**asdict(chosen), "nodes": len(parts.train.nodes), "threads": options.threads}
        settings |= {"batch": BATCH, "chunk": CHUNK}
        (place / "settings.json").write_text(json.dumps({**settings, "relations": len(parts.train.relations)}))
        (place / "run.py").write_text(CPU + code)
        began = time.perf_counter()
        process = subprocess.Popen([str(python), "-W", "ignore", "run.py"], cwd=place, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        if status:
            raise SystemExit(f"{peer} failed with status {status}")
        trained = np.load(place / "trained.npz")
        memory = json.loads((place / "usage.json").read_text())
        embedding = Embedding(trained["vectors"], trained["parameters"], chosen)
    return Cost(wall, usage.ru_utime + usage.ru_stime, memory["peak"] / 1024, embedding)


CPU = """
import json
from pathlib import Path
import numpy as np
settings = json.loads(Path("settings.json").read_text())
edges = np.load("edges.npy")

def finish(vectors, parameters):
    np.savez("trained.npz", vectors=np.float32(vectors), parameters=np.float32(parameters))
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    Path("usage.json").write_text(json.dumps({"peak": int(peak.split()[1])}))
"""

LEMMATA = """
import torch
torch.set_num_threads(settings.pop("threads"))
from lemmata.graph.embed import EmbedOptions, train_embedding
from lemmata.types import Graph
nodes, relations, _, _ = (settings.pop(name) for name in ("nodes", "relations", "batch", "chunk"))
indptr = np.concatenate(([0], np.cumsum(np.bincount(edges[:, 0], minlength=nodes))))
graph = Graph(range(nodes), ["node"] * nodes, [str(number) for number in range(relations)], indptr, edges[:, 2],
    edges[:, 1].astype(np.int16), np.ones(len(edges), np.float32))
trained = train_embedding(graph, EmbedOptions(**settings))
finish(trained.vectors, trained.parameters)
"""

BIGGRAPH = """
import h5py
from torchbiggraph.config import ConfigSchema
from torchbiggraph.train import train
from torchbiggraph.util import SubprocessInitializer, set_logging_verbosity
if __name__ == "__main__":
    for folder in ("entities", "edges", "model"):
        Path(folder).mkdir()
    Path("entities/entity_count_node_0.txt").write_text(str(settings["nodes"]))
    Path("entities/dynamic_rel_count.txt").write_text(str(settings["relations"]))
    with h5py.File("edges/edges_0_0.h5", "w") as file:
        file.attrs["format_version"] = 1
        for name, column in (("lhs", 0), ("rel", 1), ("rhs", 2)):
            file[name] = edges[:, column]
    config = ConfigSchema.from_dict(dict(
        entity_path="entities", edge_paths=["edges"], checkpoint_path="model", dynamic_relations=True, global_emb=False,
        entities={"node": {"num_partitions": 1}},
        relations=[{"name": "all", "lhs": "node", "rhs": "node", "operator": settings["operator"]}],
        dimension=settings["dimension"], comparator="dot", loss_fn="softmax",
        num_epochs=settings["epochs"], batch_size=settings["batch"], lr=settings["rate"], workers=settings["threads"],
        num_batch_negs=settings["chunk"] if settings["in_batch"] else 0, num_uniform_negs=settings["negatives"],
        eval_fraction=0.0, checkpoint_preservation_interval=None, verbose=0, hogwild_delay=0,
    ))
    train(config, subprocess_init=SubprocessInitializer())
    version = settings["epochs"]
    with h5py.File(f"model/embeddings_node_0.v{version}.h5") as file:
        vectors = file["embeddings"][:]
    with h5py.File(f"model/model.v{version}.h5") as file:
        place = file["model/relations/0/operator"]
        parameters = np.stack([place[side]["translations"][:] for side in ("lhs", "rhs")])
    finish(vectors, parameters)
"""

PYKEEN = """
import torch
torch.set_num_threads(settings["threads"])
from pykeen.models import ComplEx
from pykeen.training import SLCWATrainingLoop
from pykeen.triples import CoreTriplesFactory
factory = CoreTriplesFactory(torch.from_numpy(edges), settings["nodes"], settings["relations"])
model = ComplEx(triples_factory=factory, embedding_dim=settings["dimension"] // 2, loss="infonce",
    loss_kwargs=dict(margin=0.0, log_adversarial_temperature=0.0), random_seed=settings["seed"],
    # as lemmata starts: from its own N(0, 1) this rate learns nothing; train() initialises again, so not later
    entity_initializer=lambda values: torch.nn.init.normal_(values, std=1e-3))
loop = SLCWATrainingLoop(model=model, triples_factory=factory,
    optimizer=torch.optim.Adagrad(model.get_grad_params(), lr=settings["rate"]),
    negative_sampler_kwargs=dict(num_negs_per_pos=2 * settings["negatives"]))
loop.train(factory, num_epochs=settings["epochs"], batch_size=settings["batch"], use_tqdm=False, pin_memory=False)
halves = lambda numbers: torch.cat((numbers.real, numbers.imag), -1).detach().numpy()
finish(halves(model.entity_representations[0]()), halves(model.relation_representations[0]())[None])
"""

if __name__ == "__main__":
    main()
