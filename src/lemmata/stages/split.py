"""Split the corpus and its concepts into train, validation and test, before anything is mined."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict
from typing import Any

from lemmata.mine.splits import SplitOptions, outline, split_corpus
from lemmata.store.artefacts import artefact, read_undamaged
from lemmata.store.corpus import Corpus
from lemmata.store.graph import open_graph_if_built
from lemmata.store.layout import Layout
from lemmata.store.split import earlier_split, write_split
from lemmata.types import Progress

__all__ = ["split"]


def split(layout: Layout, options: SplitOptions, progress: Progress) -> dict[str, Any]:
    """Assign a part to every passage and every concept; returns the counts and notes for the reader.

    What the stored split of the same options has assigned stays where it is; one that is up to date stays as it is.
    """
    begin = time.perf_counter()
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus:
        progress("comparing passages", 0, None)
        stored = open_graph_if_built(layout)
        graph = stored.inputs if stored else ""
        manifest = {"verb": "split", "inputs": corpus.inputs, "graph": graph, "options": asdict(options)}
        made = read_undamaged(artefact(layout, "split"))
        if made is not None and manifest.items() <= made.items():
            return {"counts": made["counts"], "notes": made["notes"], "seconds": time.perf_counter() - begin}
        outlined = outline(corpus, stored)
        parts = split_corpus(outlined, options, earlier_split(layout, asdict(options)))
        write_split(layout, parts, manifest)
    return {"counts": parts.counts(), "notes": list(parts.notes), "seconds": time.perf_counter() - begin}
