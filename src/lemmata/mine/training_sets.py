"""Training sets in a workspace (`training/NAME`): list, read, write, audit.

A set gets its name only after it passed the leakage audit, so a trainer never sees one that failed.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.core.artefacts import older_source, seal, set_digest, training_set
from lemmata.core.errors import ConfigError, InputError, LeakageError, LemmataError
from lemmata.core.files import writing
from lemmata.core.types import Edge, Negative, Pair, Triplet
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import Audit, Example
from lemmata.corpus.split import Keys, Split, id_keys, open_split
from lemmata.corpus.training_files import read_batches, read_training, set_file, sets, split_key
from lemmata.encode.cross import load_cross_encoder
from lemmata.graph.store import GraphRecordStore, StoredGraph, open_graph_if_built
from lemmata.mine.audit import LINKS, inspect_mined, refuse
from lemmata.mine.export import Record, write_training
from lemmata.mine.gate import GateReport, gated, thresholds_of
from lemmata.mine.material import TrainingView, training_view
from lemmata.plant.link import ExpandedCorpus, indexed_corpus

NOT_AUDITED = "not audited, as it holds all passages: it serves search, and nothing is trained on it"


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What the audit looks for besides the held-out rows of the split."""

    SMALLEST: ClassVar = {"hops": 0}
    queries: str = ""  # a file of test queries; with their judgments they may not occur in training either
    qrels: str = ""  # their judgments
    hops: int = 0  # also refuse neighbours of test passages within so many links; 0: allow them
    similarity: float = 0.7  # of word shingles, from which two texts are near-duplicates


class AuditPolicy(NamedTuple):
    """The leakage audit that every set has to pass."""

    options: AuditOptions = AuditOptions()
    test: Sequence[Example] = ()  # queries that a user keeps outside the workspace


class NewSet(NamedTuple):
    """A training set to be made, and the audit that it has to pass."""

    workspace: Workspace
    name: str
    policy: AuditPolicy
    gate: str = ""  # a cross-encoder that positives and negatives have to pass
    everything: bool = False  # of all passages, held-out ones too: to search with, never to train on


class TrainingPart(NamedTuple):
    """An open workspace, and the view of its training part."""

    workspace: Workspace
    corpus: Corpus
    split: Split
    stored: StoredGraph | None
    view: TrainingView

    def records(self, name: str) -> Iterator[Record]:
        """The records of a set that was mined from this part; LeakageError for a set of another split."""
        manifest = read_manifest(self.workspace.manifest(self.workspace.training(name))) or {}
        _refuse_everything(name, manifest)
        if manifest and manifest["split"] != split_key(self.workspace):
            check_sets(self.workspace, [name])
        return _read_set(self.workspace, name, self.view.row_of, self.view.answer_of)


@contextlib.contextmanager
def open_training_part(workspace: Workspace, *, hold: bool = True, everything: bool = False) -> Iterator[TrainingPart]:
    """The training part, with the corpus open until the end of the block.

    The workspace is locked meanwhile, unless nothing is written to it (`hold=False`). With `everything` all passages
    are in it, and there need be no split: for texts that search uses, and that nothing is trained on.
    """
    with (
        workspace.hold() if hold else contextlib.nullcontext(),
        contextlib.closing(Corpus(workspace)) as corpus,
    ):
        split = _no_split(len(corpus)) if everything else open_split(workspace, corpus.digest)
        stored = open_graph_if_built(workspace)
        part = training_view(
            corpus,
            split,
            "train",
            graph=stored.graph if stored else None,
            concepts=stored.concepts if stored else None,
            edges=_edges_with_evidence(workspace, stored) if stored else None,
        )
        texts = indexed_corpus(workspace, corpus)
        if isinstance(texts, ExpandedCorpus):
            part = replace(part, indexed=texts.content)
        yield TrainingPart(workspace, corpus, split, stored, part)


def _no_split(rows: int) -> Split:
    """A split that holds nothing out."""
    return Split(np.zeros(rows, np.int8), np.zeros(rows, bool))


def _edges_with_evidence(workspace: Workspace, stored: StoredGraph) -> Iterator[Edge]:
    with GraphRecordStore(workspace) as records:
        yield from records.merged_edges(stored.merged)


def trainable_sets(workspace: Workspace) -> list[str]:
    """The names of all sets but those of all passages, which serve search only."""
    return [name for name, manifest in sets(workspace).items() if not manifest["everything"]]


def _refuse_everything(name: str, manifest: Mapping[str, Any]) -> None:
    if manifest.get("everything"):
        raise LeakageError(
            f"the set {name!r} is about all passages, held-out ones too: it serves 'lemmata index --summaries {name}',"
            " and nothing is trained on it"
        )


def older_sources(workspace: Workspace, names: Iterable[str]) -> list[str]:
    """One sentence for each of these sets that was made from another one which was mined again since."""
    return [sentence for name in dict.fromkeys(names) if (sentence := older_source(workspace, name))]


def check_sets(workspace: Workspace, names: Iterable[str]) -> None:
    """Refuse sets to train on that are not of the present split; LeakageError for the first.

    Cheap: looks at the ids of the passages alone.
    """
    with contextlib.closing(Corpus(workspace)) as corpus:
        split = open_split(workspace, corpus.digest)
        training = id_keys(corpus.ids())[split.rows("train")]
    key = split_key(workspace)
    for name in names:
        manifest = sets(workspace).get(name, {})
        _refuse_everything(name, manifest)
        held_out = _held_out(set_file(workspace, name), training, answers=split.answers)
        same_split = manifest.get("split") == key
        if same_split and not held_out:
            continue
        causes = [] if same_split else ["was mined under another split"]
        if held_out:
            causes.append(f"holds {held_out} {'passage' if held_out == 1 else 'passages'} outside the training part")
        command = training_set(workspace, name).command
        raise LeakageError(
            f"the training set {name!r} of {workspace.root} {' and '.join(causes)}: mine it again with '{command}'"
        )


def _held_out(file: Path, training: Keys, *, answers: bool) -> int:
    """How many distinct passages of a training file are outside the training part."""
    seen: list[Keys] = [np.zeros(0, np.uint64)]
    for batch in read_batches(file, 10_000, ["anchor_id", "positive_id", "negative_ids", "relation"]):
        ids: list[str] = []
        for line in batch:
            is_link = line["anchor_id"] is not None and line["relation"] in LINKS
            ids += [] if answers and is_link else [line["positive_id"]]  # a link may lead to an answer
            ids += [*line["negative_ids"], *([] if line["anchor_id"] is None else [line["anchor_id"]])]
        seen.append(np.unique(id_keys(ids)))
    return int((~np.isin(np.unique(np.concatenate(seen)), training)).sum())


def _read_set(
    workspace: Workspace, name: str, row_of: Mapping[str, int], answer_of: Mapping[str, int]
) -> Iterator[Record]:
    """The records of a set, with rows for ids; only a positive may be one of `answer_of`."""
    path = set_file(workspace, name)
    for number, line in enumerate(read_training(path)):
        try:
            anchor = line["anchor"] if line["anchor_id"] is None else row_of[line["anchor_id"]]
            positive_id = line["positive_id"]
            positive = answer_of[positive_id] if positive_id in answer_of else row_of[positive_id]
            pair = Pair(anchor, positive, line["source"], line["relation"], line["reason"], line["weight"])
            columns = ("negative_ids", "negative_proposers", "negative_reasons", "negative_scores")
            negatives = tuple(
                Negative(row_of[negative], *rest)
                for negative, *rest in zip(*(line[column] for column in columns), strict=True)
            )
        except KeyError as error:
            cause = f"record {number} names {error}, which is no passage of the training part"
            raise InputError(f"{cause}: mine {name!r} again", file=str(path)) from error
        yield Triplet(pair, negatives) if negatives else pair


def pair_of(record: Record) -> Pair:
    return record if isinstance(record, Pair) else record.pair


# ---------------------------------------------------------------- write and audit


def write_set(
    new: NewSet,
    part: TrainingPart,
    records: Iterable[Record],
    options: Mapping[str, Any],
    *,
    command: Sequence[str],
    sources: Iterable[str] = (),
    negatives: int = 0,
    details: Callable[[], Mapping[str, Any]] = dict,
    why_none: Callable[[], str] = lambda: "no such links, concepts or titles",
) -> dict[str, Any]:
    """Write records under a temporary name, audit the file, and give it its name; returns the report.

    `details` are added to the report, `why_none` explains a set without any record; both are asked for after the last
    record. The words of `command` make the set again, after `lemmata mine`; `sources` are the sets that it is made
    from. The report says whether a set of that name is `replaced`, and which sources are out of date in its `notes`.
    """
    workspace, name, policy, *_ = new
    progress = workspace.progress
    if not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*", name):
        raise ConfigError(f"a training set is named with letters, digits, - and _, not {name!r}")
    begin = time.perf_counter()
    replaced = name in sets(workspace)
    made_from = {source: set_digest(workspace, source) for source in sources}
    notes = older_sources(workspace, made_from)
    counts: Counter[str] = Counter()
    gate: GateReport | None = None
    if new.gate:
        scorer = load_cross_encoder(new.gate, models=workspace.models_folder)
        of = sets(workspace).get(options.get("of", ""), {}).get("report", {})
        # what passed once is not dropped by thresholds that are drawn anew
        gate = GateReport(scorer.name, thresholds=thresholds_of(of.get("gate", {}), scorer.name))
        records = gated(records, scorer.score, part.view, gate, progress)

    def allowed_records() -> Iterator[Record]:
        for number, record in enumerate(records):
            pair = pair_of(record)
            if isinstance(pair.anchor, str) and not part.view.may_query(pair.anchor):
                counts["left out: asks about a held-out concept"] += 1
                continue
            counts[f"{pair.source}/{pair.relation}" if pair.relation else pair.source] += 1
            if number % 1000 == 0:
                progress(f"mining {name}", number, None)
            yield record

    with writing(workspace.training(name)) as folder:
        temporary = folder.name
        number = write_training(allowed_records(), part.view, workspace.training_file(temporary), negatives=negatives)
        mined = time.perf_counter() - begin
        if not number and gate is not None and gate.by_kind:
            raise LemmataError(f"the gate {new.gate!r} let none of the records of {name!r} pass: mine them without it")
        if not number:
            raise LemmataError(f"the training part has nothing to mine for {name!r}: {why_none()}")
        sentence, dropped = NOT_AUDITED, 0
        if not new.everything:
            progress("auditing", 0, None)
            result, dropped = _drop_near_duplicates(part, temporary, policy, negatives, name)
            sentence = result.sentence()
        if dropped:
            counts["left out: nearly equal to held-out text"] = dropped
        report: dict[str, Any] = {
            "name": name,
            "records": number - dropped,
            "by_source": dict(sorted(counts.items())),
            "audit": sentence,
            **details(),
            **({"gate": gate.as_json()} if gate is not None else {}),
        }
        content = {
            "verb": "mine",
            "inputs": part.corpus.digest,
            "split": split_key(workspace),
            "command": shlex.join(["lemmata", "mine", *command, *(["--gate", new.gate] if new.gate else [])]),
            "options": {**options, **({"gate": new.gate} if new.gate else {})},
            "made_from": made_from,
            "everything": new.everything,
            "report": report,
        }
        seal(folder, content)
    seconds = {"mining": mined, "all": time.perf_counter() - begin}
    return {**report, "replaced": replaced, "notes": notes, "seconds": seconds}


def audit(workspace: Workspace, names: Sequence[str], policy: AuditPolicy) -> Audit:
    """Look for held-out data in sets, by default in all; LeakageError where there is some."""
    with open_training_part(workspace, hold=False) as part:
        workspace.progress("auditing", 0, None)
        whole = Audit()
        for name in names or trainable_sets(workspace):
            _refuse_everything(name, sets(workspace).get(name, {}))
            result = _inspect(part, name, policy)
            refuse(result, name)
            whole.sets.append(name)
            whole.looked_for = result.looked_for
            whole.answers += result.answers
        return whole


def _inspect(part: TrainingPart, name: str, policy: AuditPolicy) -> Audit:
    # all rows, not only those of training: the audit must find rows that should not be there
    row_of = {identity: row for row, identity in enumerate(part.corpus.ids())}
    return inspect_mined(
        _read_set(part.workspace, name, row_of, {}),
        part.split,
        part.corpus,
        test=policy.test,
        concepts=part.stored.concepts if part.stored else None,
        hops=policy.options.hops,
        graph=part.stored.graph if part.stored else None,
        similarity=policy.options.similarity,
    )


def _drop_near_duplicates(
    part: TrainingPart, name: str, policy: AuditPolicy, negatives: int, label: str
) -> tuple[Audit, int]:
    """Audit a set: drop records that are near-duplicates of held-out text, refuse the set for anything worse.

    `label` is its name in errors. A sentence of one paper may also occur in a held-out paper, and then a description
    made of it is nearly that paper's abstract: nobody's mistake, and no reason to refuse the other records.
    """
    dropped = 0
    while True:
        result = _inspect(part, name, policy)
        if result.clean or set(result.counts) - {"near_anchor", "near_passage"}:
            refuse(result, label)
            return result, dropped
        numbers = {int(offence.train) for offence in result.offences}
        anchors = [pair_of(record).anchor for record in part.records(name)]
        texts = {anchors[number] for number in numbers if isinstance(anchors[number], str)}
        remaining = (
            record
            for number, record in enumerate(part.records(name))
            if number not in numbers and pair_of(record).anchor not in texts
        )
        file = part.workspace.training_file(name)
        dropped += len(anchors) - write_training(remaining, part.view, file, negatives=negatives)
