"""What tests are made of: files, workspaces, a corpus in memory, and the command line in this process.

What takes longer to make, such as a language-model server or a complete workspace, stands in conftest.py.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from lemmata.cli import output
from lemmata.cli.main import main
from lemmata.core.types import Document, Floats, Integers, Passage, Ranking, Reading, no_hits
from lemmata.ingest.papers import read_paper
from lemmata.latex.mains import Main
from lemmata.project import Project

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
