"""Training sets in a workspace (`training/NAME`): list, read, write, audit.

A set gets its name only after it passed the leakage audit, so a trainer never sees one that failed.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.core.artefacts import making, set_digest, stale, training_set
from lemmata.core.errors import ConfigError, InputError, LeakageError, LemmataError
from lemmata.core.files import fingerprint, sha256_of
from lemmata.core.types import NOT_STATEMENTS, CrossEncoder, Edge, Negative, Pair, Triplet
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import Audit, Example, examples, normalise
from lemmata.corpus.split import Keys, Split, id_keys, open_split
from lemmata.corpus.training_files import (
    evaluation_sets,
    read_batches,
    read_questions,
    read_training,
    set_file,
    sets,
    split_key,
)
from lemmata.encode.cross import load_cross_encoder
from lemmata.graph.store import GraphRecordStore, StoredGraph, open_graph_if_built
from lemmata.ingest.beir import read_qrels, read_queries
from lemmata.mine.audit import LINKS, inspect_mined, refuse
from lemmata.mine.export import Record, parts_of, write_training
from lemmata.mine.gate import GateReport, gated, kind_of, parse_gate, thresholds_of
from lemmata.mine.material import TrainingView, training_view
from lemmata.plant.link import ExpandedCorpus, indexed_corpus

NOT_AUDITED = {
    "all": "not audited, as it holds all passages: it serves search, and nothing is trained on it",
    "test": "not audited, as it is about the test part: it serves evaluation, and nothing else uses it",
}


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What the audit looks for besides the held-out rows of the split."""

    queries: str = ""  # a file of test queries; with their judgments they may not occur in training either
    qrels: str = ""  # their judgments


@dataclass(frozen=True, slots=True)
class Mined:
    """How a training set was made, as its manifest keeps it: the arguments of `mine`, or `mix`."""

    CHOICES: ClassVar = {"what": ("pairs", "queries", "triplets", "negatives", "mix"), "part": ("train", "all", "test")}
    SMALLEST: ClassVar = {"found_within": 0}
    what: str = ""
    of: str = ""  # the set that negatives are added to, or whose queries get triplets
    kind: str = ""  # where triplets come from
    found_within: int = 0
    part: str = "train"

    def command(self, name: str) -> list[str]:
        """The words that make the set again, after `lemmata mine`."""
        if self.what == "mix":
            return ["mix", name]
        words = [self.what, *[self.of] * (self.what == "negatives"), *["--from", self.kind] * bool(self.kind)]
        words += ["--name", name, *["--of", self.of] * bool(self.what == "triplets" and self.of)]
        words += ["--part", self.part] * (self.part != "train")
        return [*words, *["--found-within", str(self.found_within)] * bool(self.found_within)]


class TrainingPart(NamedTuple):
    """An open workspace, and the view of its training part, or of another one that nothing is trained on."""

    workspace: Workspace
    corpus: Corpus
    split: Split
    stored: StoredGraph | None
    view: TrainingView
    part: str = "train"  # all: all passages, to search with; test: to evaluate with

    def records(self, name: str) -> Iterator[Record]:
        """The records of a set that was mined from this part; LeakageError for a set of another split."""
        manifest = read_manifest(self.workspace.manifest(self.workspace.training(name))) or {}
        _refuse_held_out(name, manifest)
        if manifest and manifest["split"] != split_key(self.workspace):
            check_sets(self.workspace, [name])
        return _read_set(self.workspace, name, self.view.row_of, self.view.answer_of)


@contextlib.contextmanager
def open_training_part(workspace: Workspace, *, hold: bool = True, part: str = "train") -> Iterator[TrainingPart]:
    """The training part, with the corpus open until the end of the block.

    The workspace is locked meanwhile, unless nothing is written to it (`hold=False`). With the `part` "all" all
    passages are in it, and there need be no split: for texts that search uses, and that nothing is trained on. With
    "test" it is the statements of the test part, or all its passages where it has none: for questions to evaluate with.
    """
    if part not in ("train", *NOT_AUDITED):
        raise LemmataError(f"queries are about the part train, all or test, not {part!r}")
    with workspace.hold() if hold else contextlib.nullcontext(), contextlib.closing(Corpus(workspace)) as corpus:
        if part == "all":
            split = Split(np.zeros(len(corpus), np.int8), np.zeros(len(corpus), bool))
        else:
            split = open_split(workspace, corpus.digest)
        stored = open_graph_if_built(workspace)
        if part == "test":
            view = _statements(corpus, training_view(corpus, split, "test"))  # whatever concept a question is about
        else:
            view = training_view(
                corpus,
                split,
                "train",
                graph=stored.graph if stored else None,
                concepts=stored.concepts if stored else None,
                edges=_edges_with_evidence(workspace, stored) if stored else None,
            )
        texts = indexed_corpus(workspace, corpus)
        if isinstance(texts, ExpandedCorpus):
            view = replace(view, indexed=texts.content)
        yield TrainingPart(workspace, corpus, split, stored, view, part)


def _statements(corpus: Corpus, view: TrainingView) -> TrainingView:
    """The view with the rows of its statements only, unless it has none."""
    is_statement = np.array([kind not in NOT_STATEMENTS for (kind,) in corpus.table("kind")], bool)
    rows = view.rows[is_statement[view.rows]]
    return replace(view, rows=rows) if len(rows) else view


def _edges_with_evidence(workspace: Workspace, stored: StoredGraph) -> Iterator[Edge]:
    with GraphRecordStore(workspace) as records:
        yield from records.merged_edges(stored.merged)


def training_sets(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """Every mined set with its manifest; `out_of_date` says why it should be mined again, or is empty."""
    return {
        name: {**manifest, "out_of_date": stale(workspace, training_set(workspace, name), manifest)}
        for name, manifest in sets(workspace).items()
    }


def trainable_sets(workspace: Workspace) -> list[str]:
    """The names of all sets but those of all passages, which serve search only, and those for evaluation."""
    return [
        name
        for name, manifest in sets(workspace).items()
        if not (manifest["everything"] or manifest.get("evaluation_only"))
    ]


def _refuse_held_out(name: str, manifest: Mapping[str, Any]) -> None:
    if manifest.get("everything"):
        raise LeakageError(
            f"the set {name!r} is about all passages, held-out ones too: it serves 'lemmata index --summaries {name}',"
            " and nothing is trained on it"
        )


def older_sources(workspace: Workspace, names: Iterable[str]) -> list[str]:
    """One sentence for each of these sets that is out of date."""
    items = [training_set(workspace, name) for name in dict.fromkeys(names)]
    return [cause for item in items if (cause := stale(workspace, item, read_manifest(item.manifest) or {}))]


def check_sets(workspace: Workspace, names: Iterable[str]) -> None:
    """Refuse sets to train on that are not of the present split or fail today's audit; LeakageError for the first.

    Cheap where the audit looked for the same when they were mined: looks at the ids of the passages alone.
    """
    names = list(names)
    with contextlib.closing(Corpus(workspace)) as corpus:
        split = open_split(workspace, corpus.digest)
        training = id_keys(corpus.ids())[split.rows("train")]
    key = split_key(workspace)
    for name in names:
        manifest = sets(workspace).get(name, {})
        _refuse_held_out(name, manifest)
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
    audit_again(workspace, names)


def audit_key(workspace: Workspace) -> str:
    """A hash of the test queries that the audit looks for: [audit] and its files, questions about the test part."""
    options = workspace.options(AuditOptions, "audit")
    asked = evaluation_sets(workspace)
    if options == AuditOptions() and not asked:
        return ""
    files = [workspace.root / name for name in (options.queries, options.qrels) if (workspace.root / name).is_file()]
    questions = [set_digest(workspace, name) for name in asked]
    return fingerprint([asdict(options), sha256_of(files), *questions])


def audit_again(workspace: Workspace, names: Iterable[str]) -> None:
    """Audit those of the sets that were mined when the audit looked for something else."""
    key, known = audit_key(workspace), sets(workspace)
    if older := [name for name in names if key and name in known and known[name].get("audited", "") != key]:
        audit(workspace, older)


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


# ---------------------------------------------------------------- write and audit


def write_set(
    part: TrainingPart,
    name: str,
    records: Iterable[Record],
    options: Mapping[str, Any],
    *,
    mined: Mined | None = None,
    command: Sequence[str] = (),
    gate: str = "",
    sources: Iterable[str] = (),
    negatives: int = 0,
    details: Callable[[], Mapping[str, Any]] = dict,
    why_none: Callable[[], str] = lambda: "no such links, concepts, names or titles",
) -> dict[str, Any]:
    """Write records under a temporary name, audit the file, and give it its name; returns the report.

    The cross-encoder `gate` drops records that it doubts. `details` are added to the report, `why_none` explains a set
    without any record; both are asked for after the last record. `mined` says how to make the set again,
    the words of `command` what people have to type as well; `sources` are the sets that it is made from.
    The report says whether a set of that name is `replaced`, and which sources are out of date in its `notes`.
    """
    workspace, progress = part.workspace, part.workspace.progress
    if not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*", name):
        raise ConfigError(f"a training set is named with letters, digits, - and _, not {name!r}")
    begin = time.perf_counter()
    asked = _asked(part)
    audit_set = _auditor(part, asked)
    replaced = name in sets(workspace)
    made_from = {source: set_digest(workspace, source) for source in sources}
    notes = older_sources(workspace, made_from)
    counts: Counter[str] = Counter()
    gate_report: GateReport | None = None
    if gate:
        scorer, gate_report = _open_gate(workspace, gate, options.get("of", ""))
        records = gated(records, scorer.score, part.view, gate_report, progress)
        command, options = [*command, "-o", f"gate={gate}"], {**options, "gate": gate}
    content: dict[str, Any] = {
        "verb": "mine",
        "inputs": part.corpus.digest,
        "split": split_key(workspace),
        "command": shlex.join(["lemmata", "mine", *(mined.command(name) if mined else []), *command]),
        "mined": asdict(mined) if mined else {},
        "options": options,
        "made_from": made_from,
        "everything": part.part == "all",
        "evaluation_only": part.part == "test",
        "audited": audit_key(workspace),
    }
    with making(training_set(workspace, name), content) as folder:
        temporary = folder.name
        number = write_training(
            _allowed(part, name, records, asked, counts),
            part.view,
            workspace.training_file(temporary),
            negatives=negatives,
        )
        seconds = {"mining": time.perf_counter() - begin}
        if not number and gate_report is not None and gate_report.by_kind:
            raise LemmataError(f"the gate {gate!r} let none of the records of {name!r} pass: mine them without it")
        if not number:
            where = "training" if part.part == "train" else part.part
            raise LemmataError(f"the {where} part has nothing to mine for {name!r}: {why_none()}")
        sentence = NOT_AUDITED.get(part.part, "")
        if part.part == "train":
            progress("auditing", 0, None)
            result, dropped = _drop_near_duplicates(part, temporary, audit_set, negatives, name)
            sentence = result.sentence()
            number -= dropped
            if dropped:
                counts["left out: nearly equal to held-out text"] = dropped
        report: dict[str, Any] = {
            "name": name,
            "records": number,
            "by_source": dict(sorted(counts.items())),
            "audit": sentence,
            **details(),
            **({"gate": gate_report.as_json()} if gate_report is not None else {}),
        }
        content["report"] = report
    seconds["all"] = time.perf_counter() - begin
    return {**report, "replaced": replaced, "notes": notes, "seconds": seconds}


def _open_gate(workspace: Workspace, gate: str, of: str) -> tuple[CrossEncoder, GateReport]:
    """The cross-encoder of a gate, and its report with the thresholds of the set that negatives are mined for.

    What passed once is not dropped by thresholds that are drawn anew.
    """
    model, fixed = parse_gate(gate)
    scorer = load_cross_encoder(model, models=workspace.models_folder)
    before = sets(workspace).get(of, {}).get("report", {}).get("gate", {})
    thresholds = {} if fixed else thresholds_of(before, scorer.name)
    return scorer, GateReport(scorer.name, thresholds=thresholds, fixed=fixed)


def _allowed(
    part: TrainingPart, name: str, records: Iterable[Record], asked: Container[str], counts: Counter[str]
) -> Iterator[Record]:
    """The records that ask nothing of what is held out; counts them, and those that are left out."""
    for number, record in enumerate(records):
        pair, _ = parts_of(record)
        if isinstance(pair.anchor, str) and not part.view.may_query(pair.anchor):
            counts["left out: asks about a held-out concept"] += 1
            continue
        if isinstance(pair.anchor, str) and normalise(pair.anchor) in asked:
            counts["left out: asked about the test part as well"] += 1
            continue
        counts[kind_of(pair)] += 1
        if number % 1000 == 0:
            part.workspace.progress(f"mining {name}", number, None)
        yield record


def audit(workspace: Workspace, names: Sequence[str] = (), *, test: Sequence[Example] = ()) -> Audit:
    """Look for held-out data and `test` queries in mined sets, by default in all; LeakageError where there are any."""
    with open_training_part(workspace, hold=False) as part:
        audit_set = _auditor(part, _asked(part), test)
        workspace.progress("auditing", 0, None)
        whole = Audit()
        for name in names or trainable_sets(workspace):
            _refuse_held_out(name, sets(workspace).get(name, {}))
            result = audit_set(name)
            refuse(result, name)
            whole.sets.append(name)
            whole.looked_for = result.looked_for
            whole.answers += result.answers
        return whole


def _auditor(part: TrainingPart, asked: Mapping[str, str], test: Sequence[Example] = ()) -> Callable[[str], Audit]:
    """The audit of a set of this part by its name, for `test` and for the test queries that [audit] names.

    What is `asked` about the test part are test queries, too.
    """
    workspace, stored = part.workspace, part.stored
    options = workspace.options(AuditOptions, "audit")
    if bool(options.queries) != bool(options.qrels):
        raise ConfigError(f"{workspace.config_file}: [audit]: queries and qrels go together")
    if options.queries:
        queries, judgments = read_queries(workspace.root / options.queries), read_qrels(workspace.root / options.qrels)
        test = [*examples(queries, judgments), *test]
    test = [*test, *(Example(f"question {number}", text, ()) for number, text in enumerate(asked.values(), 1))]
    # all rows, not only those of training: the audit must find rows that should not be there
    row_of = {identity: row for row, identity in enumerate(part.corpus.ids())}
    return lambda name: inspect_mined(
        _read_set(workspace, name, row_of, {}),
        part.split,
        part.corpus,
        test=test,
        concepts=stored.concepts if stored else None,
    )


def _asked(part: TrainingPart) -> dict[str, str]:
    """The questions about the test part, by their words; none for a part that nothing is trained on."""
    names = evaluation_sets(part.workspace) if part.part == "train" else []
    return {normalise(text): text for name in names for text in read_questions(part.workspace, name)}


def _drop_near_duplicates(
    part: TrainingPart, name: str, audit_set: Callable[[str], Audit], negatives: int, label: str
) -> tuple[Audit, int]:
    """Audit a set: drop records that are near-duplicates of held-out text, refuse the set for anything worse.

    `label` is its name in errors. A sentence of one paper may also occur in a held-out paper, and then a description
    made of it is nearly that paper's abstract: nobody's mistake, and no reason to refuse the other records.
    """
    dropped = 0
    while True:
        result = audit_set(name)
        if result.clean or set(result.counts) - {"near_anchor", "near_passage"}:
            refuse(result, label)
            return result, dropped
        numbers = {int(offence.train) for offence in result.offences}
        anchors = [parts_of(record)[0].anchor for record in part.records(name)]
        texts = {anchors[number] for number in numbers if isinstance(anchors[number], str)}
        remaining = (
            record
            for number, record in enumerate(part.records(name))
            if number not in numbers and anchors[number] not in texts
        )
        file = part.workspace.training_file(name)
        dropped += len(anchors) - write_training(remaining, part.view, file, negatives=negatives)
