"""Links, concepts, relations and mentions from the corpus itself, by rules."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from lemmata.graph.concepts.build import ConceptOptions, build_concepts
from lemmata.graphing.compress import compress
from lemmata.store.corpus import Corpus
from lemmata.store.files import Layout
from lemmata.store.graph import GraphRecordStore
from lemmata.types import Progress

__all__ = ["GraphOptions", "build"]


TEXT = "text"  # the name of this source of records


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How the graph of a corpus is built."""

    concepts: ConceptOptions = field(default_factory=ConceptOptions)


def build(layout: Layout, options: GraphOptions, progress: Progress) -> dict[str, Any]:
    """Links, and concepts with their relations and mentions, by rules; then everything compressed.

    Concepts are looked for only where the corpus or the options changed since the last time.
    """
    begin = time.perf_counter()
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus, GraphRecordStore(layout) as records:
        wanted = {"inputs": corpus.inputs, "options": json.loads(json.dumps(asdict(options.concepts)))}
        if records.sources().get(TEXT) != wanted:
            found = build_concepts(corpus, corpus.documents(), options.concepts, progress=progress)
            records.replace(TEXT, concepts=found.concepts, edges=found.edges, **wanted)
        report = compress(layout, corpus, records, progress)
    report["seconds"] = time.perf_counter() - begin
    return report
