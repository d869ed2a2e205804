"""A workspace of about 1 GB to a store and back against `cp`, and what a small change sends.

    python -m bench.publish transfer FOLDER [URL]   # 1 GB of vectors; AWS_ENDPOINT_URL names the server of an s3:// URL
    python -m bench.publish change FOLDER           # a corpus of 10,000 passages, and one document more
    python -m bench.publish grow FOLDER             # 100 rows more in 1 GB of vectors: where the time goes

Compare seconds with the `cp` beside them, and on a busy machine those of the CPU, which are of this process only.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.files import sha256_of
from lemmata.project import Project
from lemmata.stages.vectors import copy_vectors
from lemmata.store.layout import Layout
from lemmata.store.vectors import VectorWriter, open_old_vectors

ROWS, DIMENSION = 650_000, 384


def timed(function: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    begin, cpu = time.perf_counter(), time.process_time()
    result = function()
    return {
        "seconds": round(time.perf_counter() - begin, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
    }, result


def vectors(folder: Path) -> Path:
    """A workspace with random vectors only."""
    Project.init(folder)
    matrix = folder / "index" / "dense" / "hashing" / "vectors" / "matrix.npy"
    matrix.parent.mkdir(parents=True)
    np.save(matrix, np.random.default_rng(0).standard_normal((ROWS, DIMENSION), np.float32))
    return matrix


def transfer(folder: Path, urls: list[str]) -> dict[str, Any]:
    """MB/s of push and pull, and what is sent and received after rows were added at the end and in the middle."""
    workspace = folder / "w"
    matrix = vectors(workspace)
    size = matrix.stat().st_size
    report: dict[str, Any] = {"bytes": size}
    return report | {url.split(":")[0]: _through(url, workspace, matrix, folder) for url in urls}


def _through(url: str, workspace: Path, matrix: Path, folder: Path) -> dict[str, Any]:
    copy = folder / "copy"

    def push() -> Any:
        return Project(workspace).push(url)

    def pull() -> Any:
        return Project.pull(url, copy)

    def copy_plainly() -> None:
        subprocess.run(["cp", str(matrix), str(folder / "cp")], check=True)
        os.sync()

    figures: dict[str, Any] = {}
    figures["cp"], _ = timed(copy_plainly)
    figures["push"], _ = timed(push)
    figures["pull"], _ = timed(pull)
    figures["push unchanged"], _ = timed(push)
    original = np.load(matrix)
    more = np.random.default_rng(1).standard_normal((100, DIMENSION), np.float32)
    for where, row in (("at the end", ROWS), ("in the middle", ROWS // 2)):
        np.save(matrix, np.insert(original, row, more, axis=0))
        figures[f"push, 100 rows {where}"], sent = timed(push)
        figures[f"pull, 100 rows {where}"], received = timed(pull)
        figures[f"bytes, 100 rows {where}"] = {"sent": sent.sent, "received": received.received}
    np.save(matrix, original)
    shutil.rmtree(copy)
    return figures


def change(folder: Path) -> dict[str, Any]:
    """What one more document in the middle of a real corpus sends, by file."""
    sources, generator = folder / "sources", random.Random(0)
    sources.mkdir(parents=True)
    words = [f"word{number}" for number in range(20_000)]

    def write(name: str) -> None:
        lines = [
            {"id": f"{name}-{n}", "document": name, "text": " ".join(generator.choices(words, k=60))} for n in range(40)
        ]
        (sources / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))

    for number in range(250):
        write(f"d{number:04}")
    project = Project.init(folder / "w")
    store = str(folder / "store")

    def bring_up_to_date() -> dict[str, Any]:
        project.ingest([sources])
        project.index(settings={"encoder": "hashing"})
        return dict(project.push(store)._asdict())

    first = bring_up_to_date()
    before = project.layout.published.read_bytes()
    write("d0125a")
    second = bring_up_to_date()
    old, new = (json.loads(data)["files"] for data in (before, project.layout.published.read_bytes()))
    known = {digest for _, parts in old.values() for _, digest in parts}
    sent = {
        name: [sum(size for size, digest in parts if digest not in known), sum(size for size, _ in parts)]
        for name, (_, parts) in new.items()
    }
    by_file = {name: pair for name, pair in sorted(sent.items(), key=lambda item: -item[1][0]) if pair[0] > 10_000}
    return {"first": first, "second": second, "sent_of_bytes_by_file": by_file}


def grow(folder: Path) -> dict[str, Any]:
    """Seconds to make vectors of 100 more rows as one file, and what shards could save of them."""
    layout = Layout(folder / "w")
    old = np.arange(ROWS, dtype=np.uint64)
    matrix = np.random.default_rng(0).standard_normal((ROWS, DIMENSION), np.float32)
    writer = VectorWriter(layout, "hashing", DIMENSION, old)
    writer.write(np.arange(ROWS), matrix)
    writer.finish({"verb": "index", "corpus": ""})
    del matrix
    new = np.arange(ROWS + 100, dtype=np.uint64)
    stored = open_old_vectors(layout, "hashing")
    assert stored is not None
    writer = VectorWriter(layout, "hashing", DIMENSION, new)
    copied, _ = timed(lambda: copy_vectors(writer, old, stored.matrix, new))
    rows = writer.missing()
    writer.write(rows, np.zeros((len(rows), DIMENSION), np.float32))
    finished, _ = timed(lambda: writer.finish({"verb": "index", "corpus": ""}))
    path = layout.encoder_folder("hashing") / "vectors" / "matrix.npy"
    hashed, _ = timed(lambda: sha256_of([path]))
    return {
        "rows": ROWS,
        "bytes": path.stat().st_size,
        "copy": copied,
        "finish": finished,
        "of which hash": hashed,
    }


if __name__ == "__main__":
    verb, place = sys.argv[1], Path(sys.argv[2])
    place.mkdir(parents=True, exist_ok=True)
    reports = {
        "transfer": lambda: transfer(place, [f"file://{place.absolute()}/store", *sys.argv[3:]]),
        "change": lambda: change(place),
        "grow": lambda: grow(place),
    }
    print(json.dumps(reports[verb](), indent=1))
