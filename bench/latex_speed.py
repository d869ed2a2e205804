"""Time one LaTeX file with lemmata and with pylatexenc, and the whole folder with lemmata.

    python bench/latex_speed.py SOURCES [--file algebra.tex] [--repeat 3]

SOURCES is a folder of LaTeX files, a tar archive of them, or a folder that holds one such archive.
pylatexenc only parses the file into nodes; lemmata reads statements, proofs, links and clean text.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lemmata.ingest.papers import read_paper
from lemmata.latex.mains import Main
from lemmata.latex.source import decode
from lemmata.project import Project


@contextlib.contextmanager
def unpacked(sources: Path, file: str) -> Iterator[Path]:
    """The folder that holds the file; an archive is unpacked for as long as it is needed."""
    if (sources / file).is_file():
        yield sources
        return
    archives = [sources] if sources.is_file() else sorted(sources.glob("*.tar*"))
    if len(archives) != 1:
        raise SystemExit(f"{sources}: there is neither {file} nor a single archive; name the file with --file")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
        homes = [path.parent for path in sorted(Path(folder).rglob(file))]
        if not homes:
            raise SystemExit(f"{archives[0]}: there is no {file} in it; name one with --file")
        yield homes[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, help="LaTeX sources, such as the Stacks project")
    parser.add_argument("--file", default="algebra.tex")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--without-peer", action="store_true", help="do not run pylatexenc")
    options = parser.parse_args()
    with unpacked(options.sources, options.file) as folder:
        measure(folder, options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    def read(name: str) -> bytes | None:
        path = folder / name
        return path.read_bytes() if path.is_file() else None

    ours = []
    for _ in range(options.repeat):
        start = time.process_time()
        reading = read_paper(read, Main(options.file), Path(options.file).stem)
        ours.append(time.process_time() - start)
    result = {
        "file": options.file,
        "bytes": (folder / options.file).stat().st_size,
        "passages": len(reading.passages),
        "lemmata_cpu_s": round(min(ours), 3),
    }
    if not options.without_peer:
        from pylatexenc.latexwalker import LatexWalker

        text = decode((folder / options.file).read_bytes())
        start = time.process_time()
        LatexWalker(text, tolerant_parsing=True).get_latex_nodes()
        peer = time.process_time() - start
        result |= {"pylatexenc_cpu_s": round(peer, 3), "times_faster": round(peer / min(ours), 1)}
    with tempfile.TemporaryDirectory() as workspace:
        project = Project.init(workspace)
        start = time.perf_counter()
        project.ingest([folder])
        result["folder_wall_s"] = round(time.perf_counter() - start, 2)
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        result["folder_peak_mb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + 2 * children) // 1024
        corpus = project.corpus
        result["folder_passages"] = len(corpus)
        statements = {p.id: p.kind not in ("chunk", "abstract") for p in corpus}
        pairs = {
            (p.id, link.target)
            for p in corpus
            if statements[p.id]
            for link in p.links
            if link.target in statements and statements[link.target] and link.target != p.id
        }
        result["folder_statements"] = sum(statements.values())
        result["folder_statement_references"] = len(pairs)
        corpus.close()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
