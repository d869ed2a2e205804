"""What tests are made of: files, workspaces, a corpus in memory, and the command line in this process.

What takes longer to make, such as a language-model server or a complete workspace, stands in conftest.py.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import io
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest

from lemmata.cli import output
from lemmata.cli.main import main
from lemmata.core.errors import LemmataError
from lemmata.core.types import (
    Document,
    Edge,
    Floats,
    Graph,
    Integers,
    MeasuredGraph,
    Passage,
    Ranking,
    Reading,
    no_hits,
)
from lemmata.encode.hashing import HashingEncoder
from lemmata.graph.lengths import sort_edges
from lemmata.graph.links import build_graph
from lemmata.ingest.papers import read_paper
from lemmata.latex.mains import Main
from lemmata.project import Project
from lemmata.search.retriever import Retriever
from lemmata.vectors.exact import Matrix
from lemmata.vectors.milvus import Batch, MilvusIndex, replace_collection

# ---------------------------------------------------------------- time


def cpu_seconds(work: Callable[[], object]) -> float:
    """The time that this thread computes: neither a busy machine nor the threads of other tests add to it."""
    gc.disable()  # it would go through what other tests have left
    try:
        begin = time.thread_time()
        work()
        return time.thread_time() - begin
    finally:
        gc.enable()


def is_linear(work: Callable[[int], object], size: int) -> bool:
    """Whether the time grows like the size: for eight times of it squared time would take 64 times as long.

    What takes less than 0.24 s is quick enough. A machine may stall in one of three trials.
    """
    work(size // 8)  # what is loaded or compiled once does not count
    for _ in range(3):
        short, long = (cpu_seconds(lambda size=part: work(size)) for part in (size // 8, size))  # type: ignore[misc]
        if long < 24 * max(short, 0.01):
            return True
    return False


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something has happened, however busy the machine is: the only limit is that of any test."""
    while not condition():
        time.sleep(0.02)


# ---------------------------------------------------------------- files


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder; returns the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def to_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as lines of JSON."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def tar(files: Mapping[str, str | bytes]) -> bytes:
    """A gzipped tar archive of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            data = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


# ---------------------------------------------------------------- workspaces


def make_workspace(
    folder: Path,
    sources: Mapping[str, str | bytes] | Sequence[Mapping[str, Any]] | Path = (),
    *,
    index: str | None = "hashing",
    graph: bool = False,
    split: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Project:
    """A workspace `w` below a folder, of files, of rows (which become notes.jsonl) or of what a path names.

    The files are written to `source`, and each is ingested on its own; `columns` are settings of the ingest. `index` is
    an encoder, or `lexical` for an index without vectors.
    """
    project = Project.init(folder / "w")
    if isinstance(sources, Path):
        paths = [sources]
    else:
        files = sources if isinstance(sources, Mapping) else {"notes.jsonl": to_lines(sources)} if sources else {}
        paths = [write(folder / "source", files) / name for name in files]
    for path in paths:
        project.ingest([path], settings=columns)
    if index == "lexical":
        project.index(dense=False)
    elif index:
        project.index(settings={"encoder": index})
    if graph:
        project.build_graph()
    if split is not None:
        project.split(settings=split)
    return project


def copied(build: Callable[[Path], Project]) -> Any:
    """A fixture: what `build` makes in a folder is made once, and each test has a copy of workspace `w` and sources."""
    made: list[Path] = []

    @pytest.fixture
    def copy(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
        if not made:
            folder = tmp_path_factory.mktemp("made")
            build(folder)
            made.append(folder)
        shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
        return Project(tmp_path / "w")

    return copy


PAPER = r"""\documentclass{article}
\newtheorem{theorem}{Theorem}
\newtheorem{definition}{Definition}
\title{On the %(name)s of a tree}
\begin{document}
\section{The %(name)s}
\begin{definition}\label{def-%(name)s}
The \emph{%(name)s} of a tree is a number that grows with its %(name)s leaves and with nothing else.
\end{definition}
\begin{theorem}[Bound for the %(name)s]\label{thm-%(name)s}
The %(name)s of a tree with $n$ leaves is at most $n$, see Definition \ref{def-%(name)s}.
\end{theorem}
\begin{proof} By induction on the leaves. \end{proof}
\end{document}
"""
NAMES = ("height", "width", "depth", "girth", "weight", "degree", "rank", "order", "radius", "length")


def write_papers(folder: Path, *names: str) -> Path:
    """Papers about quantities of a tree, one for each name."""
    return write(folder, {f"{name}.tex": PAPER % {"name": name} for name in names})


def complete(folder: Path) -> Project:
    """A workspace with every artefact that needs no training, beside its papers."""
    project = Project.init(folder / "w")
    project.ingest([write_papers(folder / "papers", *NAMES)], workers=1)
    project.build_graph()
    project.index(settings={"encoder": "hashing"})
    project.split()
    project.mine("pairs")
    return project


class MemoryCorpus:
    """A corpus in memory, as miners and splits ask for it."""

    def __init__(self, passages: Sequence[Passage], documents: Sequence[Document] = ()) -> None:
        self.held = passages
        self.about = documents or [Document(name) for name in self.document_ids()]

    def __len__(self) -> int:
        return len(self.held)

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        return [self.held[row] for row in rows]

    def documents(self) -> Iterator[Document]:
        return iter(self.about)

    def ids(self) -> list[str]:
        return [passage.id for passage in self.held]

    def document_ids(self) -> list[str]:
        return list(dict.fromkeys(passage.document for passage in self.held))

    def document_numbers(self) -> Integers:
        names = self.document_ids()
        return np.array([names.index(passage.document) for passage in self.held], np.int64)


def body(source: str, preamble: str = "") -> Reading:
    """What is read of a paper with this text between its preamble and its end."""
    text = f"\\documentclass{{article}}{preamble}\n\\begin{{document}}\n{source}\n\\end{{document}}\n"
    return read_paper({"main.tex": text.encode()}.get, Main("main.tex"), "doc")


def unit_vectors(count: int, seed: int = 0, dimension: int = 16) -> Floats:
    """Random vectors of length 1."""
    vectors = np.random.default_rng(seed).standard_normal((count, dimension))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def padded(rows: Sequence[int], scores: Sequence[float], k: int) -> Ranking:
    """One short ranking as arrays (1, k)."""
    ranked, scored = no_hits(1, k)
    ranked[0, : len(rows)], scored[0, : len(scores)] = rows, scores
    return ranked, scored


# ---------------------------------------------------------------- commands


def run_command(*arguments: object, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """Run a command as `lemmata` does; its exit code, standard output and standard error.

    It runs in this process: to start Python and load numpy for each command would take most of the time.
    """
    code = 0
    with (
        tempfile.TemporaryFile("w+", encoding=encoding) as out,  # files, as a command may pass them on to a process
        tempfile.TemporaryFile("w+", encoding=encoding) as error,
        mock.patch.object(sys, "argv", ["lemmata", *map(str, arguments)]),
        mock.patch.multiple(output.log, is_json=False, stage=""),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        texts = []
        for stream in (out, error):
            stream.seek(0)
            texts.append(stream.read())
    return subprocess.CompletedProcess([*map(str, arguments)], code, *texts)


def lemmata(*arguments: object, code: int = 0) -> str:
    """Run a command, and return its standard output, or standard error where `code` is not 0."""
    process = run_command(*arguments)
    assert process.returncode == code, process.stderr
    assert "Traceback" not in process.stderr
    return process.stderr if code else process.stdout


def say(*arguments: object) -> tuple[int, str, str]:
    """Run a command; its exit code, standard output and standard error."""
    process = run_command(*arguments)
    return process.returncode, process.stdout, process.stderr


def refused(said: tuple[int, str, str]) -> str:
    """The one sentence of a command that failed."""
    code, out, error = said
    assert (code, out) == (1, "")
    told = [line for line in error.splitlines() if line.startswith("lemmata: ")]
    assert len(told) == 1
    assert "Traceback" not in error
    return told[0]


def killed_at(stage: str, step: int, work: Callable[[Callable[[str, int, int | None], None]], object]) -> None:
    """Call `work` with a progress in a process that is killed, the hard way, at a step of a stage.

    The process is a copy of this one: to start Python and load torch takes seconds.
    """

    def kill(what: str, done: int, _total: int | None) -> None:
        if what.startswith(stage) and done == step:
            os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=work, args=(kill,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def search(project: Project, *, paths: bool = False) -> list[str]:
    """The first hits for the width of a tree."""
    with Retriever(project) as retriever:
        return [hit.id for hit in retriever.search("width of a tree", k=3, paths=paths)]


def written_files(project: Project) -> list[Path]:
    """The files of a workspace that belong to artefacts."""
    root = project.root
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.parent not in (root, root / "cache")  # settings and lock; what may be deleted
    ]


def sentence_of(command: Callable[[], object]) -> str:
    """The error of a command, empty where it succeeds; anything but a LemmataError fails the test."""
    try:
        command()
    except LemmataError as error:
        return str(error)
    return ""


def measured(graph: Graph, forward: Floats, backward: Floats | None = None) -> MeasuredGraph:
    """A graph with the lengths of its edges in both directions."""
    entries = 2 * len(graph.indices)
    result = MeasuredGraph(
        np.empty(len(graph.nodes) + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries, np.float32),
        np.empty(entries, np.int64),
    )
    sort_edges(graph, forward, forward if backward is None else backward, result)
    return result


def graph_of(edges: list[tuple[int, int]], nodes: int) -> Graph:
    """A graph of numbered nodes."""
    names = [f"{node:03}" for node in range(nodes)]
    records = (Edge(names[source], "cites", names[target]) for source, target in edges)
    return build_graph(records, dict.fromkeys(names, "passage"))


def polylines(svg: ElementTree.Element, look: str) -> list[list[tuple[float, float]]]:
    """The points of all lines of a CSS class."""
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]
        for line in svg.iter("polyline")
        if look in line.attrib["class"].split()
    ]


# four logs and the tree of their locations
PLANT = {
    "locations.csv": "id,parent,description\nK2,,Column\nK2-P1,K2,Pump\nK2-P1-S,K2-P1,Seal\nT7,,Tank\n",
    "logs.csv": "id,text,location,date,priority,Crew\n"
    "1,The pump leaks,K2-P1,2024-05-01,High,Nord\n"
    "2,The seal of the pump leaks,K2-P1-S,2024-05-02,low,Süd\n"
    "3,The tank leaks,T7,2024-06-01,high,Nord\n"
    "4,Something leaks,X9,2024-06-02,,Nord\n",
}


class InterruptedEncoder:
    """An encoder that is interrupted after `limit` texts, like a killed process."""

    def __init__(self, limit: int) -> None:
        self.inner = HashingEncoder(dimension=32)
        self.name, self.dimension, self.left = self.inner.name, 32, limit
        self.encoded = 0

    def encode(self, texts: list[str], role: str = "passage") -> Floats:
        self.left -= len(texts)
        if self.left < 0:
            raise KeyboardInterrupt
        self.encoded += len(texts)
        return self.inner.encode(texts, role)


def check_for_the_hub(folder: Path, name: str) -> Any:
    """Read a card as the hub's own library does, without a network, and return its data."""
    hub: Any = importlib.import_module("huggingface_hub")

    card = hub.ModelCard.load(folder / "README.md")
    data = card.data
    assert hub.metadata_load(folder / "README.md") == data.to_dict()  # nothing was dropped or renamed
    assert data.model_name == name
    assert data.pipeline_tag in ("sentence-similarity", "text-ranking")
    assert re.fullmatch(r"[a-z0-9.-]+", data.license)
    assert all(re.fullmatch(r"[a-z]{2}", language) for language in data.language)
    if data.base_model:
        hub.utils.validate_repo_id(data.base_model)
    assert card.text.lstrip().startswith(f"# {name}")
    return data


def milvus_index(matrix: Matrix, path: Path, *, graph: bool = False) -> MilvusIndex:
    """An index in milvus-lite whose slots are not in the order of rows, nor without gaps."""
    generator = np.random.default_rng(7)
    slots = generator.permutation(3 * len(matrix))[: len(matrix)]
    kinds = generator.integers(0, 3, len(matrix))
    batch = Batch(slots, kinds, matrix.astype(np.float32))
    replace_collection(str(path), "index", [batch] if len(matrix) else [], matrix.shape[1], graph=graph)
    return MilvusIndex(str(path), "index", matrix, slots, kinds)


def _load_plant() -> ModuleType:
    script = Path(__file__).parent.parent / "examples" / "plant" / "generate.py"
    spec = importlib.util.spec_from_file_location("plant_generate", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["plant_generate"] = module  # where its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


plant = _load_plant()  # the script of examples/plant


def pdf(*pages: Callable[[Any], None], password: str = "", title: str = "") -> bytes:
    """A PDF of pages, each drawn by a function of its canvas."""
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    encryption = StandardEncryption(password) if password else None
    canvas = Canvas(buffer, pagesize=A4, encrypt=encryption, invariant=1)
    canvas.setTitle(title)
    canvas.setAuthor("A. Author" if title else "")
    for draw in pages:
        canvas.setFont("Times-Roman", 10)
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def column(canvas: Any, left: float, top: float, lines: list[str]) -> None:
    """Lines with a pitch of 12; a leading > is an indentation, an empty one a gap."""
    for number, line in enumerate(lines):
        indent = 15 if line.startswith(">") else 0
        canvas.drawString(left + indent, top - 12 * number, line.removeprefix(">"))


def one_page(*lines: str) -> bytes:
    """A PDF with these lines."""
    return pdf(lambda canvas: column(canvas, 72, 700, list(lines)))
