"""Speed of mining hard negatives and share of false ones, against sentence-transformers in the same run.

    python bench/mining_speed.py WORKSPACE --out mining_speed.json

The pairs are the references between statements, in both directions; anchors are rows, so their vectors are stored
and only mining is timed. Each miner runs in its own process, timed from open files to the last negative. Other
processes may share the machine: compare CPU seconds, and see the load. The peer is
`sentence_transformers.util.mine_hard_negatives` (with `datasets`) where it is installed; its model returns the
stored vectors.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.graph.links import build_graph, link_edges
from lemmata.index.lexical import LexicalIndex
from lemmata.mine import negatives
from lemmata.mine.material import Material, material
from lemmata.mine.negatives import NegativeOptions, NegativeReport, mine_negatives
from lemmata.store.corpus import Corpus
from lemmata.store.layout import Layout
from lemmata.store.split import Split
from lemmata.store.vectors import open_vectors
from lemmata.types import Floats, Graph, Integers, Pair

NUMBER = 4
DEPTH = 300
RATIO = 0.95
PROSE = ("chunk",)  # kinds that are not statements
LINKS = ("refers_to", "proof_uses")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--pairs", type=int, default=0, help="most pairs; 0: all")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=list(MINERS), help="run only this miner, in this process; rows to --out")
    options = parser.parse_args()
    if options.only:
        MINERS[options.only](options.workspace, options.pairs, options.out)
        return
    results: dict[str, Any] = {"cores": os.cpu_count(), "load_before": [round(load, 1) for load in os.getloadavg()]}
    corpus, graph = _open(options.workspace)
    pairs = reference_pairs(corpus, options.pairs)
    results["passages"] = len(corpus)
    results["pairs"] = len(pairs)
    results["anchors"] = len({anchor for anchor, _ in pairs})
    judge = Judge(corpus, graph, np.asarray(open_vectors(Layout(options.workspace)).matrix))
    for name in MINERS:
        if name.startswith("sentence") and importlib.util.find_spec("datasets") is None:
            continue
        out = Path(f"{options.out or 'mining'}.{name}.npy")
        command = [sys.executable, __file__, str(options.workspace), "--only", name, "--out", str(out)]
        command += ["--pairs", str(options.pairs)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[name] = {**json.loads(output.splitlines()[-1]), **judge.shares(np.load(out))}
        out.unlink()
    results["load_after"] = [round(load, 1) for load in os.getloadavg()]
    _print(results)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def _open(workspace: Path) -> tuple[Corpus, Graph]:
    corpus = Corpus(Layout(workspace))
    kinds = {passage.id: "passage" for passage in corpus} | {d.id: "document" for d in corpus.documents()}
    return corpus, build_graph(link_edges(corpus, corpus.documents()), kinds)


def reference_pairs(corpus: Corpus, most: int = 0) -> list[tuple[int, int]]:
    """Rows of a statement and one it refers to, in both directions; sorted, distinct."""
    row_of = {identity: row for row, identity in enumerate(corpus.ids())}
    statements = {passage.id for passage in corpus if passage.kind not in PROSE}
    linked: set[tuple[int, int]] = set()
    for passage in corpus:
        for link in passage.links:
            if link.relation in LINKS and passage.id in statements and link.target in statements:
                source, target = row_of[passage.id], row_of[link.target or ""]
                linked |= {(source, target), (target, source)} if source != target else set()
    pairs = sorted(linked)
    if most and most < len(pairs):
        pairs = [pairs[n] for n in sorted(np.random.default_rng(0).permutation(len(pairs))[:most].tolist())]
    return pairs


def whole_corpus(corpus: Corpus, graph: Graph) -> Material:
    """The whole corpus as training material."""
    return material(corpus, Split(np.zeros(len(corpus), np.int8), np.zeros(len(corpus), bool)), graph=graph)


# ---------------------------------------------------------------- miners


def _ours(workspace: Path, most: int, out: Path, *, words: bool = True, **changed: Any) -> None:
    corpus, graph = _open(workspace)
    pairs = [Pair(anchor, positive, "references") for anchor, positive in reference_pairs(corpus, most)]
    part = whole_corpus(corpus, graph)
    vectors = open_vectors(Layout(workspace)).matrix
    lexical = LexicalIndex.open(Layout(workspace).lexical) if words else None
    options = NegativeOptions(number=NUMBER, depth=DEPTH, ratio=RATIO, **changed)
    report = NegativeReport()
    begin, cpu = time.perf_counter(), time.process_time()
    triplets = mine_negatives(pairs, part, vectors=vectors, lexical=lexical, options=options, report=report)
    mined = [
        (triplet.pair.anchor, triplet.pair.positive, *(negative.row for negative in triplet.negatives))
        for triplet in triplets
        if len(triplet.negatives) == NUMBER
    ]
    _report(out, mined, begin, cpu, {"kept": dict(report.kept), "dropped": dict(report.dropped)})


def _dense_only(workspace: Path, most: int, out: Path) -> None:
    _ours(workspace, most, out, words=False)


def _without_rules(workspace: Path, most: int, out: Path) -> None:
    negatives.SAME_COSINE = negatives.SAME_WORDS = 2.0  # this process mines nothing else
    negatives.RARE_CATEGORY = 1 << 62  # one pool for all
    _ours(workspace, most, out, other_document=False, hops=0)


def _sentence_transformers(
    workspace: Path, most: int, out: Path, *, batch: int = 16384, margin: float | None = 1 - RATIO
) -> None:
    import torch
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    torch.set_num_threads(2)
    corpus, _ = _open(workspace)
    texts = list(corpus.contents())
    row_of = {text: row for row, text in enumerate(texts)}
    pairs = reference_pairs(corpus, most)
    model = StoredModel(np.asarray(open_vectors(Layout(workspace)).matrix), row_of)
    dataset = Dataset.from_dict({"anchor": [texts[a] for a, _ in pairs], "positive": [texts[p] for _, p in pairs]})
    begin, cpu = time.perf_counter(), time.process_time()
    records = mine_hard_negatives(
        dataset, model, corpus=texts,  # type: ignore[arg-type]
        range_max=DEPTH, relative_margin=margin, num_negatives=NUMBER,
        output_format="n-tuple", faiss_batch_size=batch, verbose=False,
    )  # fmt: skip
    columns = ["anchor", "positive", *(f"negative_{n}" for n in range(1, NUMBER + 1))]
    mined = [tuple(row_of[record[name]] for name in columns) for record in records]
    _report(out, mined, begin, cpu, {})


def _sentence_transformers_small(workspace: Path, most: int, out: Path) -> None:
    _sentence_transformers(workspace, most, out, batch=1024)


def _sentence_transformers_no_margin(workspace: Path, most: int, out: Path) -> None:
    # its margin is relative to the lowest positive of an anchor, ours to that of the pair: with it few pairs are left
    _sentence_transformers(workspace, most, out, batch=1024, margin=None)


class StoredModel:
    """The part of SentenceTransformer that `mine_hard_negatives` uses, answered from stored vectors."""

    def __init__(self, vectors: Floats, row_of: dict[str, int]) -> None:
        import torch

        self.device = torch.device("cpu")
        self._vectors = vectors
        self._row_of = row_of

    def encode_document(self, texts: Sequence[str], **_: Any) -> Floats:
        return np.asarray(self._vectors[[self._row_of[text] for text in texts]])

    encode_query = encode_document

    def similarity(self, left: Any, right: Any) -> Any:
        import torch

        return torch.as_tensor(left) @ torch.as_tensor(right).T

    def similarity_pairwise(self, left: Any, right: Any) -> Any:
        import torch

        return (torch.as_tensor(left) * torch.as_tensor(right)).sum(dim=1)


MINERS = {
    "lemmata": _ours,
    "lemmata_dense_only": _dense_only,
    "lemmata_without_rules": _without_rules,
    "sentence_transformers": _sentence_transformers,
    "sentence_transformers_batch_1024": _sentence_transformers_small,
    "sentence_transformers_no_margin": _sentence_transformers_no_margin,
}


def _report(out: Path, mined: Sequence[tuple[Any, ...]], begin: float, cpu: float, more: dict[str, Any]) -> None:
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    np.save(out, np.array(mined, np.int64).reshape(-1, 2 + NUMBER))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({"seconds": round(seconds, 1), "cpu_s": round(cpu, 1), "peak_mb": round(peak), **more}))


# ---------------------------------------------------------------- quality of the negatives


class Judge:
    """Counts negatives from the same document, linked to the pair, or nearly equal to the positive."""

    def __init__(self, corpus: Corpus, graph: Graph, vectors: Floats) -> None:
        self.documents = corpus.document_numbers()
        self.vectors = vectors
        self.pairs = set(reference_pairs(corpus))
        self.linked = set(_links(corpus, graph))

    def shares(self, mined: Integers) -> dict[str, Any]:
        anchors, positives = mined[:, 0], mined[:, 1]
        negatives = mined[:, 2:]
        count = max(1, negatives.size)
        same = (self.documents[negatives] == self.documents[positives][:, None]).sum()
        near = sum(
            int((self.vectors[row] @ self.vectors[p] >= 0.95).sum())
            for row, p in zip(negatives, positives, strict=True)
        )
        linked = answers = 0
        for anchor, positive, row in zip(anchors.tolist(), positives.tolist(), negatives.tolist(), strict=True):
            linked += sum((n, anchor) in self.linked or (n, positive) in self.linked for n in row)
            answers += sum((anchor, n) in self.pairs for n in row)
        return {
            "pairs_with_all": len(mined),
            "negatives": int(negatives.size),
            "same_document": round(float(same) / count, 4),
            "linked": round(linked / count, 4),
            "another_answer": round(answers / count, 4),
            "near_duplicate": round(near / count, 4),
        }


def _links(corpus: Corpus, graph: Graph) -> Iterator[tuple[int, int]]:
    """Pairs of rows that a reference links, in both directions."""
    row_of = {identity: row for row, identity in enumerate(corpus.ids())}
    sources = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.indptr))
    for source, target, number in zip(sources.tolist(), graph.indices.tolist(), graph.relation.tolist(), strict=True):
        row, linked = row_of.get(graph.nodes[source]), row_of.get(graph.nodes[target])
        if graph.relations[number] in LINKS and row is not None and linked is not None:
            yield row, linked
            yield linked, row


def _print(results: dict[str, Any]) -> None:
    print(f"{results['pairs']} pairs of {results['anchors']} anchors over {results['passages']} passages")
    names = ["seconds", "cpu_s", "peak_mb", "pairs_with_all", "same_document", "linked", "another_answer",
             "near_duplicate"]  # fmt: skip
    print(f"{'':34}" + "".join(f"{name:>16}" for name in names))
    for miner in MINERS:
        if miner in results:
            print(f"{miner:34}" + "".join(f"{results[miner][name]:>16}" for name in names))


if __name__ == "__main__":
    main()
