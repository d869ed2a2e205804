"""Predict missing links of a plant's logs, confirm them, and expand logs with them for encoders."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import InputError, LemmataError, WorkspaceError
from lemmata.core.types import Edge, Passage, titled
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.split import open_split
from lemmata.corpus.texts import Hashes, hash_texts, headed
from lemmata.graph.build import compress
from lemmata.graph.store import IMPORT, GraphRecordStore
from lemmata.plant.hierarchy import build_tree, contains
from lemmata.plant.names import tokenise

PREDICTED = "predicted"  # the name of this source of records
CONFIRMED = "confirmed"  # the import that holds what somebody confirmed: builds and predictions leave it alone


def link_graph(workspace: Workspace, *, withheld: str | Path | None = None) -> dict[str, Any]:
    """Predict the locations that logs report about and the logs they follow up, learned from the known links.

    With a split only the links of training logs are learned from; the report measures how many links of the other
    logs are predicted, as if they were unknown. `withheld` is a table of true links that the corpus does not have; the
    report measures how many are predicted.
    """
    from lemmata.plant.predict import predict_links
    from lemmata.plant.scorer import measure

    begin = time.perf_counter()
    with workspace.hold(), contextlib.closing(Corpus(workspace)) as corpus, GraphRecordStore(workspace) as records:
        true = [edge[:3] for edge in read_withheld(Path(withheld), corpus)] if withheld else []
        workspace.progress("reading logs", 0, None)
        logs = [passage for passage in corpus if passage.kind == "log"]
        locations = list(corpus.documents(kind="location", links=True))
        if not logs or not locations:
            raise LemmataError("link prediction needs logs and a tree of locations: ingest both first")
        workspace.progress("predicting links", 0, None)
        rng = np.random.default_rng(0)
        held_out = _held_out(workspace, corpus)
        prediction = predict_links(logs, locations, rng, held_out=held_out)
        edges = [*(entity.edge for entity in prediction.entities), *prediction.records]
        records.replace(
            PREDICTED,
            edges=edges,
            skips=prediction.flaws,
            spans=[(edge.source, start, end, edge.target) for edge, start, end in prediction.entities],
            inputs=corpus.digest,
        )
        report = compress(workspace, corpus, records)
    report["restored"] = {name: restored._asdict() for name, restored in prediction.restored.items()}
    report["hierarchy"] = [flaw.cause for flaw in prediction.flaws]
    report["held_out"] = {relation: measures._asdict() for relation, measures in prediction.held_out.items()}
    if true:
        report["withheld"] = {
            relation: measure(
                [edge[:3] for edge in edges if edge.relation == relation],
                [triple for triple in true if triple[1] == relation],
            )._asdict()
            for relation in sorted({triple[1] for triple in true})
        }
    report["seconds"] = time.perf_counter() - begin
    return report


def _held_out(workspace: Workspace, corpus: Corpus) -> frozenset[str]:
    """The passages outside the training part; none where this corpus is not split."""
    if (read_manifest(workspace.manifest(workspace.split_folder)) or {}).get("inputs") != corpus.digest:
        return frozenset()
    outside = ~open_split(workspace, corpus.digest).rows("train")
    return frozenset(itertools.compress(corpus.ids(), outside.tolist()))


def read_withheld(path: Path, corpus: Corpus) -> list[Edge]:
    """True links from a tab-separated table of log, relation and target; InputError for an unknown end."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot be read as a table", file=str(path)) from error
    ids = {*corpus.ids(), *(document.id for document in corpus.documents())}
    edges = []
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if number == 1 and cells[1:2] == ["relation"]:
            continue
        if len(cells) != 3:
            raise InputError("a link needs log, relation and target, tab-separated", file=str(path), line=number)
        log, relation, target = cells
        target = f"location:{target}" if f"location:{target}" in ids else target
        for end in (log, target):
            if end not in ids:
                raise InputError(f"there is no {end!r} in the corpus", file=str(path), line=number)
        edges.append(Edge(log, relation, target))
    return edges


# ---------------------------------------------------------------- confirmed links


def confirm_link(
    workspace: Workspace, source: str, relation: str, target: str, *, confirmed: bool = True
) -> dict[str, Any]:
    """Confirm a predicted link, or take that back; LemmataError for one that is not predicted, or not confirmed.

    The next `lemmata graph build` takes it into the graph, which has the predicted link anyway.
    """
    triple = (source, relation, target)
    with workspace.hold(), GraphRecordStore(workspace) as records:
        kept = {edge[:3]: edge for edge in records.edges_from(IMPORT + CONFIRMED)}
        if not confirmed:
            if kept.pop(triple, None) is None:
                raise LemmataError(f"nobody confirmed that {source} {relation} {target}")
        elif triple in kept:
            pass
        elif any(edge[:3] == triple for edge in records.edges_of(source, PREDICTED)):
            kept[triple] = Edge(*triple, evidence=source, maker=CONFIRMED)
        else:
            raise LemmataError(f"it is not predicted that {source} {relation} {target}: run 'lemmata graph link'")
        if kept:
            records.replace(IMPORT + CONFIRMED, edges=kept.values())
        else:
            with records.transaction():
                records.remove(IMPORT + CONFIRMED)
        records.note_checksum()
    return {"source": source, "relation": relation, "target": target, "confirmed": confirmed}


def confirmed_links(records: GraphRecordStore | None) -> list[Edge]:
    """All links that were confirmed; none without a graph."""
    return list(records.edges_from(IMPORT + CONFIRMED)) if records else []


# ---------------------------------------------------------------- logs with the descriptions of their locations


def expand(
    text: str, mentions: Iterable[tuple[int, int, str]], titles: Mapping[str, str], known: Iterable[str] = ()
) -> str:
    """`P203 kavitiert` to `P203 (Rücklaufpumpe P203) kavitiert`, for passages that are indexed and trained on.

    A mention is start and end of a part of the text and the id of the location that it names. Each location is
    described once, after its first mention; one that is only `known`, or whose mention is empty, at the end of the
    text. Nothing is added for a location without a title, for a title whose words are in the mention already (for one
    that is only known: in the text), nor inside a longer mention.
    """
    mentions = list(mentions)
    spans = sorted({span for span in mentions if span[0] < span[1]}, key=lambda span: (span[0], -span[1]))
    added: dict[str, tuple[int, str]] = {}  # by location
    for start, end, location in spans:
        if location in added or any(other[0] < end < other[1] for other in spans):
            continue
        title = titles.get(location, "").strip()
        mentioned = {token.word for token in tokenise(text[start:end])}
        if not {token.word for token in tokenise(title)} <= mentioned:
            added[location] = (end, f" ({title})")
    named = {location for _, _, location in spans}
    words = {token.word for token in tokenise(text)}
    unnamed = dict.fromkeys([*(location for *_, location in mentions if location not in named), *known])
    described = [titles.get(location, "").strip() for location in unnamed if location not in named]
    missing = [title for title in described if not {token.word for token in tokenise(title)} <= words]
    text += "".join(f" ({title})" for title in dict.fromkeys(missing))
    for end, title in sorted(added.values(), key=lambda addition: addition[0])[::-1]:
        text = text[:end] + title + text[end:]
    return text


class ExpandedCorpus:
    """A corpus whose logs describe their locations, known or predicted, for indexes and training.

    What stands for a query, as the anchor of a training pair does, stays as it was written.
    """

    def __init__(self, workspace: Workspace, corpus: Corpus) -> None:
        self.corpus = corpus
        with GraphRecordStore(workspace) as records:
            self._spans = records.spans()
            stale = records.stale(corpus.digest)
        if self._spans and PREDICTED in stale:  # the spans are places in texts that may be others by now
            raise WorkspaceError("the corpus changed since links were predicted: run 'lemmata graph link' again")
        locations = list(corpus.documents(kind="location", links=True))
        self._titles = {location.id: location.title for location in locations}
        self._tree = build_tree(locations)
        if not any(title.strip() for title in self._titles.values()):
            raise LemmataError("there are no descriptions of locations to expand logs with: ingest a hierarchy.csv")
        digest = hashlib.sha256(json.dumps(["known and predicted", self._spans], sort_keys=True).encode())
        self.digest, self.proofs, self.proof_hashes = corpus.digest, corpus.proofs, corpus.proof_hashes
        self.expansion = digest.hexdigest()  # changes with the added descriptions

    def __len__(self) -> int:
        return len(self.corpus)

    def contents(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        stop = len(self) if stop is None else stop
        for first in range(start, stop, 1000):
            yield from map(self.content, self.corpus[first : min(first + 1000, stop)])

    def headings(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        return self.corpus.headings(start, stop)

    def hashes(self, *, with_headings: bool = False) -> Hashes:
        """A hash of the text of each row, or of it with its headings (n,)."""
        texts = map(headed, self.headings(), self.contents()) if with_headings else self.contents()
        return hash_texts(texts, len(self))

    def content(self, passage: Passage) -> str:
        if passage.kind != "log":
            return passage.content
        spans = self._spans.get(passage.id, [])
        tree = self._tree
        rows = [tree.rows[link.target] for link in passage.links if link.target and link.target in tree.rows]
        every = {*rows, *(tree.rows[location] for *_, location in spans if location in tree.rows)}
        known = [tree.ids[row] for row in rows if not any(row != one and contains(tree, row, one) for one in every)]
        return titled(passage.title, expand(passage.bare_text, spans, self._titles, known))


def indexed_corpus(workspace: Workspace, corpus: Corpus) -> Corpus | ExpandedCorpus:
    """The texts as the lexical index holds them: expanded, or as they are."""
    manifest = read_manifest(workspace.manifest(workspace.lexical_folder)) or {}
    return ExpandedCorpus(workspace, corpus) if manifest.get("expansion") else corpus
