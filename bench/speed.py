"""How fast lemmata is, against a named peer in the same run.

    python -m bench.speed CASE [DATA …] [--OPTION VALUE …] [--out FILE]
    python -m bench.speed --help          # the cases
    python -m bench.speed CASE --help     # what a case takes

A case prints one JSON document. Peers that are not installed are left out. Times are seconds, and CPU seconds of this
process and those that it started: compare these on a busy machine, and the ratios, since both sides run in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import importlib.util
import inspect
import json
import lzma
import multiprocessing
import os
import platform
import resource
import secrets
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from bench import synthetic
from bench.shared import sorted_edges, write_json

from lemmata.core.types import Floats, Index, Integers, Mask, MeasuredGraph
from lemmata.encode.load import DEFAULT, baseline_folder, load_encoder
from lemmata.evaluate.measures import evaluate, judged, parse_measure
from lemmata.graph.geodesic import Start, Tree, compiled_trees, python_tree
from lemmata.graph.lengths import distance, measure_by_text
from lemmata.graph.store import StoredGraph
from lemmata.ingest.papers import read_paper
from lemmata.latex.mains import Main
from lemmata.latex.source import decode
from lemmata.project import Project
from lemmata.search import lexical as lexical_module
from lemmata.search.lexical import LexicalIndex
from lemmata.search.paths import QUERY_WEIGHT, STARTS, PathSearch
from lemmata.search.retriever import Retriever
from lemmata.search.tokens import tokenize
from lemmata.vectors.ann import AnnIndex
from lemmata.vectors.exact import ExactIndex

Report = dict[str, Any]
OURS = "lemmata"


# ---------------------------------------------------------------- measuring


def cpu_seconds() -> float:
    """Of this process and of those that it started and waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(call: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds and CPU seconds of a call, and its result."""
    begin, cpu = time.perf_counter(), cpu_seconds()
    result = call()
    return {"seconds": round(time.perf_counter() - begin, 6), "cpu": round(cpu_seconds() - cpu, 6)}, result


def race(sides: dict[str, Callable[[], object]], repeat: int, *, warm: bool = True) -> Report:
    """Medians of all sides and the ratios to lemmata; in turns, so that a disturbance affects all."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for number in range(repeat + warm):
        for name, call in sides.items():
            spent, _ = timed(call)
            if number >= warm:
                runs[name].append(spent)
    return ratios({name: median_of(times) for name, times in runs.items()})


def median_of(times: Sequence[dict[str, float]]) -> dict[str, float]:
    return {unit: round(statistics.median(spent[unit] for spent in times), 6) for unit in times[0]}


def ratios(times: dict[str, dict[str, float]]) -> Report:
    """With what each peer takes over what lemmata takes."""
    peers = {name: spent for name, spent in times.items() if name != OURS}
    return times | {
        f"{name} / {OURS}": {unit: round(spent[unit] / max(times[OURS][unit], 1e-6), 2) for unit in spent}
        for name, spent in peers.items()
    }


def per_call(call: Callable[[Any], object], items: Iterable[Any]) -> dict[str, float]:
    """Milliseconds of a call for each item, by the clock and of the CPU; the first item is tried before, uncounted."""
    items = list(items)
    call(items[0])
    spent: dict[str, list[float]] = {"ms": [], "cpu_ms": []}
    for item in items:
        begin, cpu = time.perf_counter(), time.process_time()
        call(item)
        spent["ms"].append(1000 * (time.perf_counter() - begin))
        spent["cpu_ms"].append(1000 * (time.process_time() - cpu))
    return {
        f"{unit}_p{share}": round(float(np.percentile(values, share)), 3)
        for unit, values in spent.items()
        for share in (50, 95)
    }


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of this module returns in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def megabytes(name: str = "VmHWM") -> int:
    """Memory of this process, as Linux counts it; VmHWM is the most that was resident."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith(name))


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def use_cores(count: int) -> None:
    """Torch's own limit is not enough: with one thread, its CPU time was 1.5 times the wall time."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(count)


def silent(*_: Any) -> None:
    pass


def read_texts(path: Path, count: int) -> list[str]:
    """Title and text or abstract of the first records of JSON lines, .xz or not."""
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
        records = map(json.loads, islice(lines, count))
        return [
            " ".join(filter(None, (record.get("title"), record.get("abstract") or record["text"])))
            for record in records
        ]


# ---------------------------------------------------------------- LaTeX, a fresh process


def latex(sources: Path, *, file: str = "algebra.tex", repeat: int = 3) -> Report:
    """Read one LaTeX file of a folder or archive; peer: pylatexenc, which only parses it. Then ingest all of it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = sources
        if sources.is_file():
            folder = Path(scratch) / "sources"
            with tarfile.open(sources) as archive:
                archive.extractall(folder, filter="data")
        path = next(folder.rglob(file))

        def read(name: str) -> bytes | None:
            member = path.parent / name
            return member.read_bytes() if member.is_file() else None

        sides: dict[str, Callable[[], object]] = {OURS: lambda: read_paper(read, Main(file), path.stem)}
        if installed("pylatexenc"):
            from pylatexenc.latexwalker import LatexWalker

            text = decode(path.read_bytes())
            sides["pylatexenc"] = lambda: LatexWalker(text, tolerant_parsing=True).get_latex_nodes()
        report = {"file": file, "bytes": path.stat().st_size, **race(sides, repeat, warm=False)}
        project = Project.init(Path(scratch) / "workspace")
        report["folder"], _ = timed(lambda: project.ingest([folder]))
        with contextlib.closing(project.corpus) as corpus:
            report["folder"] |= {"passages": len(corpus), "peak_mb": megabytes()}
    return report


QUERY = "how many standard fillings does a Young diagram have"
SEARCH_BY_PEER = """
import json, sys
import numpy as np
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1])
matrix = np.load(sys.argv[2]); texts = json.load(open(sys.argv[3]))
scores = matrix @ model.encode([sys.argv[4]], normalize_embeddings=True)[0]
for row in np.argsort(-scores)[:10]: print(round(float(scores[row]), 3), texts[row][:200])
"""


def start(workspace: Path, *, retriever: str = "hybrid", repeat: int = 5) -> Report:
    """One query in a fresh process: `lemmata search` against a minimal script of sentence-transformers."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

    def run(*command: str) -> None:
        subprocess.run([sys.executable, *command], capture_output=True, check=True, env=environment)

    with tempfile.TemporaryDirectory() as folder:
        matrix, texts = Path(folder, "matrix.npy"), Path(folder, "texts.json")
        with Retriever.open(workspace) as opened:
            np.save(matrix, opened.vectors.matrix)
            texts.write_text(json.dumps(list(opened.corpus.contents())))
        search = ["-m", "lemmata", "search", QUERY, "-w", str(workspace), "--retriever", retriever]
        sides: dict[str, Callable[[], object]] = {OURS: lambda: run(*search)}
        if installed("sentence_transformers"):
            peer = ["-c", SEARCH_BY_PEER, str(baseline_folder()), str(matrix), str(texts), QUERY]
            sides["sentence-transformers"] = lambda: run(*peer)
        return race(sides, repeat)


def open_workspace(workspace: Path, *, passages: int = 100_000) -> Report:
    """Open a workspace in a fresh process and search; one of synthetic passages is made where there is none."""
    with contextlib.closing(synthetic.workspace(workspace, passages).corpus) as corpus:
        report: Report = {"passages": len(corpus)}
    return report | {name: apart(_open_and_search, workspace, name) for name in ("lexical", "dense", "hybrid", "auto")}


def _open_and_search(workspace: Path, name: str) -> Report:
    texts = synthetic.queries(50, 1000)
    begin = time.perf_counter()
    with Retriever.open(workspace) as retriever:
        opened = time.perf_counter()
        retriever.search(texts[0], 10, retriever=name)
        report = {"open_s": round(opened - begin, 3), "first_answer_s": round(time.perf_counter() - begin, 3)}
        times = per_call(lambda text: retriever.search(text, 10, retriever=name), texts)
        return report | times | {"anonymous_mb": megabytes("RssAnon"), "peak_mb": megabytes()}


# ---------------------------------------------------------------- encoders


def encode(
    corpus: Path, *, passages: int = 64, threads: int = 1, encoder: str = "minilm", model: str = "", repeat: int = 3
) -> Report:
    """Encode queries and passages (JSON lines); peer: sentence-transformers with the same weights (--model FOLDER)."""
    use_cores(threads)
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    ours = load_encoder(encoder, threads=threads)
    theirs: Any = SentenceTransformer(model or str(baseline_folder()), device="cpu")
    texts = read_texts(corpus, passages)
    queries = [" ".join(text.split()[:8]) for text in texts[:20]]
    single: dict[str, Callable[[], object]] = {
        OURS: lambda: [ours.encode([query], "query") for query in queries],
        "sentence-transformers": lambda: [theirs.encode(query) for query in queries],
    }
    report: Report = {"machine": platform.machine(), "passages": len(texts), "20 queries": race(single, repeat)}
    for name, length in (("whole passages", 10_000), ("first 40 words", 40)):
        cut = [" ".join(text.split()[:length]) for text in texts]
        sides: dict[str, Callable[[], object]] = {
            OURS: partial(ours.encode, cut),
            "sentence-transformers": partial(theirs.encode, cut, show_progress_bar=False),
        }
        report[name] = race(sides, repeat)
        expected = np.asarray(theirs.encode(cut, normalize_embeddings=True, show_progress_bar=False))
        cosines = (ours.encode(cut) * expected).sum(axis=1)
        report[name]["cosine"] = {"mean": round(float(cosines.mean()), 5), "least": round(float(cosines.min()), 5)}
    return report


def static(
    workspace: Path, *, encoder: str = "lemmata-nano", passages: int = 256, threads: int = 2, repeat: int = 3
) -> Report:
    """Encode a corpus with a static encoder; peer: lemmata-mini on some passages, evenly spread. Then `lemmata index`.

    Times are per 1,000 passages. The encoder is loaded each time: it remembers the tokens of words.
    """
    use_cores(threads)
    with contextlib.closing(Project(workspace).corpus) as corpus:
        texts = list(corpus.contents())
    some = texts[:: max(1, len(texts) // passages)][:passages]
    mini = load_encoder(DEFAULT, threads=threads)
    sizes = {OURS: len(texts), DEFAULT: len(some)}
    sides: dict[str, Callable[[], object]] = {
        OURS: lambda: load_encoder(encoder).encode(texts),
        DEFAULT: lambda: mini.encode(some),
    }
    times = race(sides, repeat)
    per_thousand = {
        side: {unit: round(1000 * value / count, 6) for unit, value in times[side].items()}
        for side, count in sizes.items()
    }
    with tempfile.TemporaryDirectory() as folder:  # a workspace with nothing but the corpus
        shutil.copytree(workspace / "corpus", Path(folder) / "corpus")
        (Path(folder) / "lemmata.toml").touch()
        command = [sys.executable, "-m", "lemmata", "index", "--encoder", encoder, "-w", folder]
        indexing, _ = timed(lambda: subprocess.run(command, check=True, capture_output=True))
    return {"passages": sizes, "1,000 passages": ratios(per_thousand), "lemmata index": indexing}


# ---------------------------------------------------------------- indexes


K = 10
WIDTHS = (16, 32, 64, 128, 256, 512)
LINKS, BUILD_WIDTH = 16, 200  # as in lemmata.vectors.ann
Walk = Callable[[Floats, int], Integers]  # queries and width -> rows


def lexical(texts: Path, *, rows: int = 100_000, queries: int = 300) -> Report:
    """Index and search texts (JSON lines) by words; peer: bm25s with lemmata's tokens. Queries are their beginnings."""
    passages = read_texts(texts, rows)
    asked = [text[:80] for text in passages[:: max(1, len(passages) // queries)]][:queries]
    tokenizing, tokens = timed(lambda: [tokenize(text) for text in passages])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lexical"
        building, index = timed(lambda: LexicalIndex.build(passages, path))
        report: Report = {"passages": len(passages), "tokenize": tokenizing, "build": building}
        report["open"], _ = timed(lambda: LexicalIndex.open(path))
        times = {OURS: per_call(lambda query: index.search([query], K), asked)}
        report["add 100"], _ = timed(lambda: index.add(passages[:100]))
    report["peak_mb"] = megabytes()
    if installed("bm25s"):
        import bm25s

        peer = bm25s.BM25(k1=1.2, b=0.8, method="lucene")
        report["bm25s build, without tokens"], _ = timed(lambda: peer.index(tokens, show_progress=False))
        times["bm25s"] = per_call(
            lambda query: peer.retrieve([list(dict.fromkeys(tokenize(query)))], k=K, show_progress=False), asked
        )
    return report | {"query": ratios(times)}


def words(folder: Path, *, rows: int = 1_000_000, queries: int = 100) -> Report:
    """Search synthetic passages by words; peer: the same search that adds every posting and gives the same hits."""
    path = folder / f"lexical-{rows}"
    if not (path / "index.json").exists():
        made = (passage["text"] for passage in synthetic.passages(rows))
        LexicalIndex.build(made, path, headings=(passage["title"] for passage in synthetic.passages(rows)))
    index = LexicalIndex.open(path)
    report: Report = {"passages": len(index)}
    limit, asked = lexical_module._EXHAUSTIVE, synthetic.queries(queries, rows)
    for k, weight in ((50, 1.5), (200, 1.5), (10, 0.0)):
        times, hits = {}, []
        search = partial(_search_words, index, k, weight)
        for name, lexical_module._EXHAUSTIVE in ((OURS, limit), ("every posting", 1 << 62)):
            times[name] = per_call(search, asked)
            hits.append([search(query) for query in asked])
        for ours, theirs in zip(*hits, strict=True):
            assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
        report[f"{k} hits, headings {weight}"] = ratios(times)
    lexical_module._EXHAUSTIVE = limit
    return report | {"anonymous_mb": megabytes("RssAnon"), "resident_mb": megabytes("VmRSS")}


def _search_words(index: LexicalIndex, k: int, heading_weight: float, query: str) -> Any:
    return index.search([query], k, heading_weight=heading_weight)


def vectors(matrix: Path | None = None, *, rows: int = 100_000, dimension: int = 384, queries: int = 300) -> Report:
    """Search vectors (.npy of unit rows, or a mixture) exactly and by neighbour graphs; peers: faiss, usearch, hnswlib.

    Each graph is searched at the first width of 16, 32, … 512 that reaches recall 0.99.
    """
    generator = np.random.default_rng(0)
    if matrix:
        table = np.load(matrix)[:rows].astype(np.float32)
        asked = table[generator.choice(len(table), queries)]
        asked = synthetic.unit(asked + 0.02 * generator.standard_normal(asked.shape, np.float32))
    else:
        both = synthetic.mixture(rows + queries, dimension, generator)
        table, asked = both[:rows], both[rows:]
    single = [query[None] for query in asked]
    report: Report = {"rows": len(table), "dimension": table.shape[1], "exact": {}}
    for count in (1000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000):
        if count <= len(table):
            report["exact"][count] = per_call(partial(ExactIndex(table[:count]).search, k=K), single[:100])
    truth, _ = ExactIndex(table).search(asked, K)
    makers = {OURS: _ann_of_lemmata, "faiss": _ann_of_faiss, "usearch": _ann_of_usearch, "hnswlib": _ann_of_hnswlib}
    for name, make in makers.items():
        if not installed("faiss" if name == OURS else name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph"
            building, (open_again, walk) = timed(partial(make, table, path))
            opening = median_of([timed(open_again)[0] for _ in range(5)])
            for width in WIDTHS:
                recall = _recall(walk(asked, width), truth)
                if recall >= 0.99:
                    break
            report[name] = {"build": building, "file_mb": path.stat().st_size / 1e6, "open": opening}
            report[name] |= {"width": width, "recall@10": recall, "query": per_call(partial(walk, width=width), single)}
    return report


def _recall(rows: Iterable[Any], truth: Integers) -> float:
    return sum(len(np.intersect1d(own, true)) for own, true in zip(rows, truth, strict=True)) / truth.size


def _ann_of_lemmata(matrix: Floats, path: Path) -> tuple[Callable[[], object], Walk]:
    AnnIndex.build(matrix, path)
    opened = {width: AnnIndex.open(path, matrix, width=width) for width in WIDTHS}
    return lambda: AnnIndex.open(path, matrix), lambda queries, width: opened[width].search(queries, K)[0]


def _ann_of_faiss(matrix: Floats, path: Path) -> tuple[Callable[[], object], Walk]:
    import faiss

    graph = faiss.IndexHNSWFlat(matrix.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = BUILD_WIDTH
    graph.add(matrix)
    faiss.write_index(graph, str(path))

    def walk(queries: Floats, width: int) -> Integers:
        graph.hnsw.efSearch = width
        return graph.search(queries, K)[1]

    return lambda: faiss.read_index(str(path)), walk


def _ann_of_usearch(matrix: Floats, path: Path) -> tuple[Callable[[], object], Walk]:
    from usearch.index import Index as Graph

    graph: Any = Graph(ndim=matrix.shape[1], metric="ip", dtype="f16", connectivity=LINKS, expansion_add=BUILD_WIDTH)
    graph.add(np.arange(len(matrix)), matrix, threads=os.cpu_count() or 1)
    graph.save(str(path))

    def walk(queries: Floats, width: int) -> Integers:
        graph.expansion_search = width
        return np.asarray(graph.search(queries, K, threads=1).keys).reshape(len(queries), -1).astype(np.int64)

    return lambda: Graph.restore(str(path), view=True), walk


def _ann_of_hnswlib(matrix: Floats, path: Path) -> tuple[Callable[[], object], Walk]:
    import hnswlib

    graph: Any = hnswlib.Index("ip", matrix.shape[1])
    graph.init_index(len(matrix), M=LINKS, ef_construction=BUILD_WIDTH, random_seed=0)
    graph.add_items(matrix, np.arange(len(matrix)))
    graph.save_index(str(path))

    def walk(queries: Floats, width: int) -> Integers:
        graph.set_ef(width)
        return np.asarray(graph.knn_query(queries, K, num_threads=1)[0], dtype=np.int64)

    return lambda: hnswlib.Index("ip", matrix.shape[1]).load_index(str(path)), walk


def milvus(*, uri: str = "", rows: int = 100_000, dimension: int = 384, queries: int = 100) -> Report:
    """Search in Milvus with filters and without; peers: the exact index and the neighbour graph of lemmata.

    Without a URI it is a file of milvus-lite; the token of a server is in $MILVUS_TOKEN.
    """
    from lemmata.vectors.milvus import Batch, MilvusIndex, drop_collections, replace_collection, update_collection

    generator = np.random.default_rng(0)
    both = synthetic.mixture(rows + queries, dimension, generator)
    matrix, asked = both[:rows], both[rows:]
    slots, kinds = np.arange(rows), generator.integers(4, size=rows)
    alias = f"bench_{secrets.token_hex(4)}"

    def batches(chosen: Integers) -> Iterator[Batch]:
        for begin in range(0, len(chosen), 2000):
            part = chosen[begin : begin + 2000]
            yield Batch(slots[part], kinds[part], matrix[part])

    in_range = (slots >= rows // 2) & (slots < rows // 2 + rows // 100)
    masks: dict[str, Mask | None] = {  # each with another way to Milvus
        "no filter": None,
        "one of four kinds": kinds == 1,
        "one per cent of the rows, in one range": in_range,
        "one kind in this range": in_range & (kinds == 1),
        "five per cent of the rows, scattered": generator.random(rows) < 0.05,
        "half of the rows, scattered (searched here)": generator.random(rows) < 0.5,
    }
    report: Report = {"rows": rows, "dimension": dimension, "built": {}, "searched": {}}
    with tempfile.TemporaryDirectory() as folder:
        place, graph = uri or str(Path(folder) / "vectors.db"), Path(folder) / "graph.faiss"
        report["built"]["graph"], _ = timed(lambda: AnnIndex.build(matrix, graph))
        report["built"]["milvus"], _ = timed(
            lambda: replace_collection(place, alias, batches(slots), dimension, graph=True)
        )
        indexes: dict[str, Index] = {
            "exact": ExactIndex(matrix),
            "graph": AnnIndex.open(graph, matrix),
            "milvus": MilvusIndex(place, alias, matrix, slots, kinds),
        }
        for name, mask in masks.items():
            truth, _ = indexes["exact"].search(asked, K, mask)
            report["searched"][name] = {
                other: per_call(partial(index.search, k=K, allowed=mask), [query[None] for query in asked])
                | {"recall@10": _recall((index.search(query[None], K, mask)[0] for query in asked), truth)}
                for other, index in indexes.items()
            }
        few = slots[-100:]
        updating = partial(update_collection, place, alias, batches(few), few[:0], int(few[0]))
        report["update of 100 vectors"], _ = timed(updating)
        drop_collections(place, alias)
    return report


# ---------------------------------------------------------------- the graph


def geodesic(
    folder: Path, *, nodes: int = 169_343, edges: int = 0, dimension: int = 128, queries: int = 200, far: int = 10_000
) -> Report:
    """Geodesic search on a synthetic citation graph (seven citations a node); peer: heapq as in a textbook.

    A whole query is given the vector: starts by a neighbour graph, the 20 nearest nodes along the graph, their paths.
    The search alone settles 20 and --far nodes. One thread.
    """
    use_cores(1)
    edges = edges or 7 * nodes
    folder /= f"{nodes}-{edges}-{dimension}"
    graph, matrix = synthetic.citation_graph(folder, nodes, edges, dimension)
    generator = np.random.default_rng(1)
    report: Report = {"nodes": nodes, "edges": edges, "dimension": dimension}
    along = np.empty(edges, np.float32)
    measuring, _ = timed(lambda: measure_by_text(graph, np.arange(nodes), matrix, along, silent))
    sorting, both = timed(lambda: sorted_edges(graph, along, along))
    report |= {"measure edges": measuring, "sort edges": sorting}
    path = folder / "graph.faiss"
    index = AnnIndex.open(path, matrix) if path.exists() else AnnIndex.build(matrix, path, threads=1)
    near = matrix[np.sort(generator.choice(nodes, queries, replace=False))]
    asked = synthetic.unit(near + generator.normal(scale=0.5 / np.sqrt(dimension), size=near.shape))
    search = PathSearch(StoredGraph(graph, np.arange(nodes), {}, {}, ""), both, nodes)
    steps: list[int] = []

    def answer(vector: Floats) -> None:
        nearest = [index.search(vector[None], 20)]
        hits, _ = search.nearest(nearest, 20)
        paths = search.paths(nearest, hits[0].tolist())
        assert all(paths)
        steps.extend(len(path) for path in paths)

    starts = []
    for vector in asked:
        rows, similarities = index.search(vector[None], STARTS)
        lengths = QUERY_WEIGHT * distance(similarities[0]).astype(np.float64)
        starts.append(Start(rows[0].astype(np.int64), lengths, np.empty(0, np.int64)))
    compiled_trees(both, starts[:1], 1)  # loads numba
    report["whole query"] = per_call(answer, asked) | {"reached through edges": np.mean(np.array(steps) > 1)}
    report |= {"anonymous_mb": megabytes("RssAnon"), "resident_mb": megabytes("VmRSS")}
    lists = MeasuredGraph(*(part.tolist() for part in both))
    for k, some in ((20, starts), (far, starts[:20])):
        searches: dict[str, Callable[[Start], object]] = {
            OURS: partial(_by_numba, both, k),
            "heapq": partial(_by_textbook, lists, k),
            "heapq, lazy": lambda start, k=k: python_tree(both, start, k),  # type: ignore[misc]
        }
        report[f"settling {k:,}"] = ratios({name: per_call(call, some) for name, call in searches.items()})
        for start in some[:5]:
            expected = [length for length, _ in _by_textbook(lists, k, start)]
            np.testing.assert_allclose(_by_numba(both, k, start).distances, expected, rtol=1e-6)
    return report


def _by_numba(graph: MeasuredGraph, k: int, start: Start) -> Tree:
    return compiled_trees(graph, [start], k, threads=1)[0]


def _by_textbook(graph: MeasuredGraph, k: int, start: Start) -> list[tuple[float, int]]:
    """Dijkstra's algorithm on Python lists: the k nearest nodes with their distances."""
    indptr, targets, lengths, _ = graph
    best = dict(zip(start.nodes.tolist(), start.distances.tolist(), strict=True))
    parents = dict.fromkeys(best, -1)
    heap = [(length, node) for node, length in best.items()]
    heapq.heapify(heap)
    settled: set[int] = set()
    order: list[tuple[float, int]] = []
    while heap and len(order) < k:
        length, node = heapq.heappop(heap)
        if node in settled:
            continue
        settled.add(node)
        order.append((length, node))
        for entry in range(indptr[node], indptr[node + 1]):
            target, longer = targets[entry], length + lengths[entry]
            if target not in settled and longer < best.get(target, np.inf):
                best[target], parents[target] = longer, node
                heapq.heappush(heap, (longer, target))
    return order


WIDTH, HEADS, LAYERS = 256, 4, 3


def attention(folder: Path, *, nodes: int = 56_448, repeat: int = 3) -> Report:
    """Graph attention over all nodes, three layers as in MetricGAT; peer: GATConv of torch_geometric.

    Messages go along citations, against them, and from each node to itself. Each side has a process and one thread.
    """
    use_cores(1)
    folder /= f"{nodes}-{7 * nodes}-128"
    sides = {OURS: _attend} | ({"torch_geometric": _attend_by_peer} if installed("torch_geometric") else {})
    runs: dict[str, list[Report]] = {name: [] for name in sides}
    synthetic.citation_graph(folder, nodes, 7 * nodes, 128)
    for _ in range(repeat):
        for name, side in sides.items():
            runs[name].append(apart(side, folder, nodes))
    report = ratios({name: min(measured, key=lambda spent: spent["cpu"]) for name, measured in runs.items()})
    if len(sides) > 1:
        ours, theirs = (np.load(folder / f"{side.__name__}.npy", mmap_mode="r") for side in sides.values())
        report["largest difference"] = float(np.abs(ours - theirs).max())
    return report


def _attention_inputs(folder: Path, nodes: int) -> tuple[Floats, Integers, list[tuple[Floats, Floats, Floats]]]:
    """Vectors of the nodes, (2, messages) by receiver, and the weights of each layer: values, from, to."""
    generator = np.random.default_rng(0)
    graph, matrix = synthetic.citation_graph(folder, nodes, 7 * nodes, 128)
    citing, cited, itself = graph.sources(), np.asarray(graph.indices), np.arange(nodes)
    messages = np.stack([np.concatenate([cited, citing, itself]), np.concatenate([citing, cited, itself])])
    messages = messages[:, np.argsort(messages[1], kind="stable")]

    def draw(*shape: int) -> Floats:
        return generator.standard_normal(shape, np.float32)

    layers = []
    for number in range(LAYERS):
        width = WIDTH if number == LAYERS - 1 else WIDTH // HEADS
        ends = (draw(HEADS, width) * width**-0.5 for _ in range(2))
        layers.append((draw(WIDTH, HEADS * width) * WIDTH**-0.5, *ends))
    return np.asarray(matrix) @ draw(128, WIDTH), messages, layers


def _attend(folder: Path, nodes: int) -> Report:
    from lemmata.graph.attention import Incoming, Layer, attend, incoming

    hidden, (sources, targets), weights = _attention_inputs(folder, nodes)
    received = incoming(sources, targets, np.zeros(len(sources), np.int8), nodes)
    kinds = np.zeros((1, HEADS), np.float32)
    layers = [Layer(*parts, kinds, average=number == LAYERS - 1) for number, parts in enumerate(weights)]
    attend(Incoming(np.array([0, 1]), np.array([0]), np.zeros(1, np.int8)), hidden[:1], layers[0])  # loads numba

    def run() -> Floats:
        result = hidden
        for layer in layers:
            result = result + attend(received, result, layer)
        return result

    spent, result = timed(run)
    np.save(folder / "_attend.npy", result)
    return spent | {"peak_mb": megabytes()}


def _attend_by_peer(folder: Path, nodes: int) -> Report:
    import torch
    from torch_geometric.nn import GATConv

    torch.set_num_threads(1)
    vectors, messages, weights = _attention_inputs(folder, nodes)
    edges, layers = torch.tensor(messages), []
    for number, parts in enumerate(weights):
        last = number == LAYERS - 1
        width = WIDTH if last else WIDTH // HEADS
        layer = GATConv(WIDTH, width, HEADS, concat=not last, bias=False, add_self_loops=False)
        values, sender, receiver = map(torch.tensor, parts)
        with torch.no_grad():
            layer.lin.weight.copy_(values.T)
            layer.att_src.copy_(sender[None])
            layer.att_dst.copy_(receiver[None])
        layers.append((layer.eval(), last))

    def run() -> Any:
        result = torch.tensor(vectors)
        with torch.inference_mode():
            for layer, last in layers:
                values = layer(result, edges)
                result = result + (values if last else torch.nn.functional.elu(values))
        return result.numpy()

    spent, result = timed(run)
    np.save(folder / "_attend_by_peer.npy", result)
    return spent | {"peak_mb": megabytes()}


# ---------------------------------------------------------------- mining, training, measures


NEGATIVES, DEPTH, MARGIN = 4, 300, 0.05


def negatives(workspace: Path, *, pairs: int = 0) -> Report:
    """Mine four negatives for references between statements; peer: mine_hard_negatives of sentence-transformers.

    Vectors are those of the index, so only mining is timed. Each side has a process. --pairs 0 takes all. The peer uses
    neither words nor the graph, so its time is not for the same work.
    """
    sides = {OURS: _mine} | ({"sentence-transformers": _mine_by_peer} if installed("datasets") else {})
    return ratios({name: apart(side, workspace, pairs) for name, side in sides.items()})


def _references(workspace: Path, most: int) -> list[tuple[int, int]]:
    """Rows of a statement and one it refers to, in both directions; sorted, distinct."""
    with contextlib.closing(Project(workspace).corpus) as corpus:
        row_of = {passage.id: row for row, passage in enumerate(corpus) if passage.kind != "chunk"}
        linked = {
            (row_of[passage.id], row_of[link.target])
            for passage in corpus
            for link in passage.links
            if link.relation in ("refers_to", "proof_uses") and passage.id in row_of and link.target in row_of
        }
    pairs = sorted(
        {ends for source, target in linked if source != target for ends in ((source, target), (target, source))}
    )
    chosen = np.random.default_rng(0).permutation(len(pairs))[: most or None]
    return [pairs[number] for number in sorted(chosen.tolist())]


def _mine(workspace: Path, most: int) -> Report:
    from lemmata.core.types import Pair
    from lemmata.corpus.split import Split
    from lemmata.graph.links import build_graph, link_edges
    from lemmata.mine.material import training_view
    from lemmata.mine.negatives import NegativeOptions, mine_negatives

    with Retriever.open(workspace) as retriever:
        corpus = retriever.corpus
        kinds = {passage.id: "passage" for passage in corpus} | {d.id: "document" for d in corpus.documents()}
        graph = build_graph(link_edges(corpus, corpus.documents()), kinds)
        everything = Split(np.zeros(len(corpus), np.int8), np.zeros(len(corpus), bool))
        part = training_view(corpus, everything, graph=graph)
        pairs = [Pair(anchor, positive, "references") for anchor, positive in _references(workspace, most)]
        options = NegativeOptions(number=NEGATIVES)
        words = LexicalIndex.open(retriever.workspace.lexical_folder)
        matrix = retriever.vectors.matrix
        spent, triplets = timed(
            lambda: list(mine_negatives(pairs, part, vectors=matrix, lexical=words, options=options, depth=DEPTH))
        )
    whole = sum(len(triplet.negatives) == NEGATIVES for triplet in triplets)
    return spent | {"pairs": len(pairs), "with all negatives": whole, "peak_mb": megabytes()}


def _mine_by_peer(workspace: Path, most: int) -> Report:
    import torch
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    with Retriever.open(workspace) as retriever:
        texts, matrix = list(retriever.corpus.contents()), np.asarray(retriever.vectors.matrix)
    row_of = {text: row for row, text in enumerate(texts)}

    class StoredModel:
        """The part of SentenceTransformer that is used, answered from stored vectors."""

        device = torch.device("cpu")

        def encode_document(self, texts: Sequence[str], **_: Any) -> Floats:
            return matrix[[row_of[text] for text in texts]]

        encode_query = encode_document

        def similarity(self, left: Any, right: Any) -> Any:
            return torch.as_tensor(left) @ torch.as_tensor(right).T

        def similarity_pairwise(self, left: Any, right: Any) -> Any:
            return (torch.as_tensor(left) * torch.as_tensor(right)).sum(dim=1)

    model: Any = StoredModel()
    pairs = _references(workspace, most)
    dataset = Dataset.from_dict({"anchor": [texts[a] for a, _ in pairs], "positive": [texts[p] for _, p in pairs]})
    mine = partial(mine_hard_negatives, corpus=texts, range_max=DEPTH, relative_margin=MARGIN, verbose=False)
    spent, records = timed(
        lambda: mine(dataset, model, num_negatives=NEGATIVES, output_format="n-tuple", faiss_batch_size=1024)
    )
    return spent | {"pairs": len(pairs), "with all negatives": len(records), "peak_mb": megabytes()}


WARM = 10  # steps of training that are not counted


def train(base: Path, job: Path, *, records: str = "pairs", batch: int = 256, steps: int = 60) -> Report:
    """Records per second of fine-tuning; peer: the plain script of sentence-transformers with the same records.

    JOB is a folder of `lemmata train prepare`, --records one of its sets. The peer tokenises as it goes.
    """
    from lemmata.train.finetune import FinetuneOptions, finetune
    from lemmata.train.job import Job, open_job

    opened = open_job(job)
    clock: dict[int, float] = {}

    def progress(what: str, done: int, _total: int | None) -> None:
        if what.startswith("training"):
            clock[done] = time.perf_counter()

    weights = {name: float(name == records) for name in opened.sets}
    epochs = (steps + 1) * batch / len(opened.sets[records])
    options = FinetuneOptions(sets=weights, epochs=epochs, batch=batch)
    with tempfile.TemporaryDirectory() as work:
        folder, unvalidated = Path(work), Job(opened.folder, opened.texts, opened.sets, [])
        finetune(base, unvalidated, folder / "out", options, work=folder / "work", progress=progress)
    speed = {OURS: (steps - WARM) * batch / (clock[steps] - clock[WARM])}
    if installed("datasets"):
        clock = _train_by_peer(base, opened, records, batch, steps)
        speed["sentence-transformers"] = (steps - WARM) * batch / (clock[steps] - clock[WARM])
    return {"records per second": speed}


def _train_by_peer(base: Path, job: Any, records: str, batch: int, steps: int) -> dict[int, float]:
    """When each step ended."""
    import datasets
    import sentence_transformers
    import transformers
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from tokenizers import Tokenizer

    from lemmata.train.loop import precision_for

    tokenizer = Tokenizer.from_file(str(job.folder / "tokenizer.json"))
    starts, flat = job.texts.starts, job.texts.flat
    columns = {
        name: [tokenizer.decode(flat[starts[number] : starts[number + 1]].tolist()) for number in numbers]
        for name, numbers in zip(("anchor", "positive"), job.sets[records][: (steps + 1) * batch, :2].T, strict=True)
    }
    model = sentence_transformers.SentenceTransformer(str(base))
    clock: dict[int, float] = {}

    class Timed(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
            clock[state.global_step] = time.perf_counter()

    with tempfile.TemporaryDirectory() as work:
        arguments = sentence_transformers.SentenceTransformerTrainingArguments(
            output_dir=work,
            max_steps=steps,
            per_device_train_batch_size=batch,
            learning_rate=3e-5,
            bf16=precision_for(model.device) == "bf16",
            save_strategy="no",
            logging_steps=1000,
            report_to="none",
            disable_tqdm=True,
        )
        sentence_transformers.SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=datasets.Dataset.from_dict(columns),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[Timed()],
        ).train()
    return clock


MEASURES = ("nDCG@10", "MRR@10", "R@20", "R@100", "MAP@100", "Success@1", "P@10")
THEIR_NAMES = {"MRR@10": "RR@10", "MAP@100": "AP@100"}


def measures(*, queries: int = 10_000, depth: int = 100, passages: int = 100_000, repeat: int = 3) -> Report:
    """Measures of rankings, from judgments by id; peer: ir_measures (pytrec_eval), from dictionaries."""
    generator = np.random.default_rng(0)
    ids = [f"passage-{row}" for row in range(passages)]
    rows = {identity: row for row, identity in enumerate(ids)}
    # The stride has no common factor with the number of passages, so no ranking repeats a passage.
    ranked = (generator.integers(0, passages, (queries, 1)) + 7919 * np.arange(depth)) % passages
    qrels: dict[str, dict[str, int]] = {}
    for query in range(queries):
        hits = generator.choice(ranked[query], 3, replace=False)
        others = generator.integers(0, passages, int(generator.integers(0, 5)))
        qrels[f"query-{query}"] = {ids[row]: int(generator.integers(0, 4)) for row in (*hits, *others)}
    parsed = [parse_measure(name) for name in MEASURES]
    sides: dict[str, Callable[[], object]] = {OURS: lambda: evaluate(ranked, judged(qrels, rows.__getitem__), parsed)}
    if installed("ir_measures") and installed("pytrec_eval"):
        import ir_measures

        theirs = {name: ir_measures.parse_measure(THEIR_NAMES.get(name, name)) for name in MEASURES}
        run = {
            f"query-{query}": {ids[row]: float(depth - rank) for rank, row in enumerate(ranking)}
            for query, ranking in enumerate(ranked)
        }
        sides["ir_measures"] = lambda: ir_measures.calc_aggregate(list(theirs.values()), qrels, run)
        means, ours = sides["ir_measures"](), evaluate(ranked, judged(qrels, rows.__getitem__), parsed)
        for name, measure in theirs.items():
            np.testing.assert_allclose(ours[name].mean(), means[measure], atol=1e-6)  # type: ignore[index]
    return {"queries": queries, "depth": depth, **race(sides, repeat)}


# ---------------------------------------------------------------- the command


CASES: dict[str, Callable[..., Report]] = {
    "latex": latex,
    "start": start,
    "open": open_workspace,
    "encode": encode,
    "static": static,
    "lexical": lexical,
    "words": words,
    "vectors": vectors,
    "milvus": milvus,
    "geodesic": geodesic,
    "attention": attention,
    "negatives": negatives,
    "train": train,
    "measures": measures,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cases = parser.add_subparsers(dest="case", required=True, metavar="CASE")
    for name, case in CASES.items():
        summary = (case.__doc__ or "").splitlines()[0]
        own = cases.add_parser(name, help=summary, description=case.__doc__)
        own.add_argument("--out", type=Path, help="also write the JSON here")
        for option in inspect.signature(case).parameters.values():
            if option.kind is option.KEYWORD_ONLY:
                own.add_argument(f"--{option.name}", type=type(option.default), default=option.default)
            else:
                own.add_argument(option.name, type=Path, nargs="?" if option.default is None else None)
    chosen = vars(parser.parse_args())
    case, out = CASES[chosen.pop("case")], chosen.pop("out")
    parameters = inspect.signature(case).parameters.values()
    data = [chosen.pop(option.name) for option in parameters if option.kind is not option.KEYWORD_ONLY]
    write_json(case(*data, **chosen), out)


if __name__ == "__main__":
    main()
