"""Links of a plant's logs that nobody wrote down, predicted; and logs as an encoder may see them with their help."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lemmata.errors import InputError, LemmataError
from lemmata.plant.expand import Span, expand
from lemmata.plant.predict import predict_links
from lemmata.plant.scorer import measure
from lemmata.stages.graph import compress
from lemmata.store.corpus import Corpus
from lemmata.store.graph import GraphRecordStore
from lemmata.store.layout import Layout
from lemmata.types import Edge, Passage, Progress, titled

__all__ = ["ExpandedCorpus", "LinkOptions", "link", "read_withheld"]

PREDICTED = "predicted"  # the name of this source of records


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How links of logs are predicted."""

    SMALLEST: ClassVar = {"window_days": 0.0}
    window_days: float = 14.0  # a follow-up comes within so many days
    seed: int = 0


def link(layout: Layout, options: LinkOptions, withheld: Path | None, progress: Progress) -> dict[str, Any]:
    """Predict which locations logs speak about and which logs follow which; learned from the links there are.

    `withheld` is a table of true links that the corpus does not have: how many came back is in the report.
    """
    begin = time.perf_counter()
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus, GraphRecordStore(layout) as records:
        true = [edge[:3] for edge in read_withheld(withheld, corpus)] if withheld else []
        progress("reading logs", 0, None)
        logs = [passage for passage in corpus if passage.kind == "log"]
        locations = [document for document in corpus.documents(links=True) if document.kind == "location"]
        if not logs or not locations:
            raise LemmataError("link prediction needs logs and a tree of locations: ingest both first")
        progress("predicting links", 0, None)
        found = predict_links(logs, locations, np.random.default_rng(options.seed), window_days=options.window_days)
        about = [entity.edge for entity in found.entities]
        spans = [(entity.edge.source, entity.start, entity.end, entity.edge.target) for entity in found.entities]
        records.replace(
            PREDICTED,
            edges=[*about, *found.records],
            skips=found.skips,
            spans=spans,
            inputs=corpus.inputs,
            options=asdict(options),
        )
        report = compress(layout, corpus, records, progress)
    report["restored"] = {name: restored._asdict() for name, restored in found.restored.items()}
    report["hierarchy"] = [skip.cause for skip in found.skips]
    if true:
        predicted = [edge[:3] for edge in (*about, *found.records)]
        report["withheld"] = {
            relation: measure(
                [one for one in predicted if one[1] == relation], [one for one in true if one[1] == relation]
            )._asdict()
            for relation in sorted({one[1] for one in true})
        }
    report["seconds"] = time.perf_counter() - begin
    return report


def read_withheld(path: Path, corpus: Corpus) -> list[Edge]:
    """True links from a table of log, relation and target, parted by tabs; InputError for what is no link."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("can not be read as a table", file=str(path)) from error
    known = {*corpus.ids(), *(document.id for document in corpus.documents())}
    edges = []
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if number == 1 and cells[1:2] == ["relation"]:
            continue
        if len(cells) != 3:
            raise InputError("a link needs log, relation and target, parted by tabs", file=str(path), line=number)
        log, relation, target = cells
        target = f"location:{target}" if f"location:{target}" in known else target
        for end in (log, target):
            if end not in known:
                raise InputError(f"there is no {end!r} in the corpus", file=str(path), line=number)
        edges.append(Edge(log, relation, target))
    return edges


class ExpandedCorpus:
    """A corpus whose logs have, behind each name of a location, what that location is; for encoders only."""

    def __init__(self, layout: Layout, corpus: Corpus) -> None:
        self.corpus = corpus
        with GraphRecordStore(layout) as records:
            self._spans = records.spans()
        if not self._spans:
            raise LemmataError("there are no predicted links to expand logs with: run 'lemmata graph link' first")
        self._titles = {document.id: document.title for document in corpus.documents() if document.kind == "location"}
        digest = hashlib.sha256(json.dumps(self._spans, sort_keys=True).encode())
        self.inputs = corpus.inputs
        self.expansion = digest.hexdigest()  # changes with what is added

    def __len__(self) -> int:
        return len(self.corpus)

    def contents(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        """What an encoder sees of consecutive rows."""
        for first in range(start, len(self) if stop is None else stop, 1000):
            last = min(first + 1000, len(self) if stop is None else stop)
            for passage in self.corpus[first:last]:
                yield self._content(passage)

    def _content(self, passage: Passage) -> str:
        spans = [Span(*span) for span in self._spans.get(passage.id, ()) if span[1] <= len(passage.text)]
        text = expand(passage.text, spans, lambda location: self._titles.get(location, ""))
        return titled(passage.title, text)
