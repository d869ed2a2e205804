"""Mine training sets from the training part of a workspace, mix and export them."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from lemmata.core.config import build
from lemmata.core.errors import ConfigError, InputError, LemmataError, WorkspaceError
from lemmata.core.files import write_atomically
from lemmata.core.types import Integers, Mask, Pair, Triplet
from lemmata.core.workspace import Settings, Workspace, read_manifest, read_manifests
from lemmata.corpus.split import LEFT_OUT, PARTS
from lemmata.corpus.training_files import QUESTIONS, set_file, sets, text_columns
from lemmata.encode.cross import find_cross_encoder
from lemmata.encode.transformer import check_hub
from lemmata.ingest.beir import read_qrels, read_queries
from lemmata.ingest.queries import ImportedQuery, judged_queries, read_imported
from lemmata.llm.chat import Chat, Preview
from lemmata.llm.endpoint import EndpointOptions, Limits, Spent
from lemmata.mine.embedding import EmbedStageOptions, training_embedding
from lemmata.mine.export import Mixture, mix_records, parts_of, write_training
from lemmata.mine.gate import parse_gate
from lemmata.mine.negatives import NegativeOptions, NegativeReport, known_answers, mine_negatives
from lemmata.mine.pairs import PairOptions, mine_pairs
from lemmata.mine.queries.model import WrittenOptions, model_queries, query_prompt, query_requests
from lemmata.mine.queries.rules import RULE_STYLES, rule_queries
from lemmata.mine.training_sets import Mined, TrainingPart, open_training_part, trainable_sets, write_set
from lemmata.mine.triplets import (
    CITED,
    SCINCL,
    CitationTripletOptions,
    GraphTripletOptions,
    citation_triplets,
    graph_triplets,
    query_triplets,
)
from lemmata.search.retriever import Retriever

QUESTION = "question"  # the style of queries about the test part
TRIPLETS = ("embedding", "scincl", "citations", "queries")
_SEARCHED = 256  # queries per search of the round trip
_CLOSING = "\"'”’»)]}"  # may follow the punctuation at the end of a sentence


@dataclass(frozen=True, slots=True)
class MineOptions:
    """The options of all miners; each has a table below [mine] in `lemmata.toml`."""

    gate: str = ""  # a cross-encoder that positives and negatives have to pass: model, folder, hub name; MODEL@5,3
    pairs: PairOptions = field(default_factory=PairOptions)
    written: WrittenOptions = field(default_factory=WrittenOptions)
    triplets: GraphTripletOptions = field(default_factory=GraphTripletOptions)
    citations: CitationTripletOptions = field(default_factory=CitationTripletOptions)
    negatives: NegativeOptions = field(default_factory=NegativeOptions)


def mine_options(workspace: Workspace, settings: Settings | None = None) -> MineOptions:
    return workspace.options(MineOptions, "mine", settings)


def mine(
    workspace: Workspace,
    what: str,
    *,
    name: str = "",
    of: str = "",
    kind: str = "embedding",
    found_within: int = 0,
    part: str = "train",
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Mine `pairs`, `queries`, `triplets` or `negatives` into the training set `name`.

    `of` is the set that negatives are added to (`pairs`), or whose queries get triplets (`queries`); `kind` says
    where triplets come from; `found_within` keeps only queries that find their passage among so many hits.
    The cross-encoder `gate` in `settings` drops positives and negatives that it doubts; "none": no gate. Queries of
    the `part` "all" are about held-out passages too: they serve search as summaries, and no training.
    """
    options = mine_options(workspace, settings)
    if part != "train" and what != "queries":
        raise LemmataError(f"{what} are mined from the training part only: --part {part} is for queries")
    name, gate = name or (QUESTIONS if part == "test" else what), check_gate(workspace, options.gate)
    if what == "triplets":
        return _mine_triplets(workspace, name, gate, options, Mined(what, of, kind))
    if what == "negatives":
        return _mine_negatives(workspace, name, gate, options.negatives, Mined(what, of or "pairs"))
    if what not in ("pairs", "queries"):
        raise LemmataError(f"cannot mine {what!r} (there are: pairs, queries, triplets, negatives)")
    _check_part(part, found_within)
    with open_training_part(workspace, part=part) as opened:
        if what == "pairs":
            pairs = mine_pairs(opened.view, options.pairs)
            return write_set(opened, name, pairs, asdict(options.pairs), mined=Mined(what), gate=gate)
        queries = rule_queries(opened.view, styles=(QUESTION,) if part == "test" else RULE_STYLES)
        mined = Mined(what, "", "", found_within, part)
        return _write_queries(opened, name, gate, queries, {}, found_within, mined=mined)


def mine_again(workspace: Workspace, name: str) -> dict[str, Any]:
    """Mine or mix a set as its manifest says, with the options that it was made with.

    The manifest may come from anybody: what it says is checked as the words of a user are, and ConfigError is raised
    for sets that are made from files or by a language model, and for a gate that is no model of the workspace.
    """
    manifest = read_manifest(workspace.manifest(workspace.training(name))) or {}
    mined = build(Mined, manifest.get("mined", {}), f"training set {name!r}")
    stored: Any = manifest.get("options")
    options = dict(stored) if isinstance(stored, dict) else {}
    gate = options.pop("gate", "none")
    is_foreign_gate = gate != "none" and parse_gate(gate)[0] not in read_manifests(workspace.models_folder)
    if not mined.what or not isinstance(stored, dict) or is_foreign_gate:
        raise ConfigError(f"the training set {name!r} is not made from the workspace alone")
    if mined.what == "mix":
        return mix(workspace, name)
    if mined.of and mined.of not in sets(workspace):
        raise WorkspaceError(f"there is no training set {mined.of!r}")
    options.pop("of", None)
    table = "citations" if mined.kind == "citations" else mined.what
    tables = {table: options} if options else {}  # rules that write queries have none
    return mine(workspace, name=name, settings={"gate": gate, **tables}, **asdict(mined))


def check_gate(workspace: Workspace, gate: str) -> str:
    """The gate, or "" for none; one that cannot be had is refused before anything long starts."""
    if gate in ("", "none"):
        return ""
    model = parse_gate(gate)[0]
    try:
        if find_cross_encoder(model, workspace.models_folder) is None:
            check_hub(model)
    except InputError as error:
        cure = 'name a folder as gate in [mine] ("FOLDER@5,3" with thresholds of its own), or gate = "none"'
        raise ConfigError(f"the gate cannot be used: {error}; {cure}") from error
    return gate


def _check_part(part: str, found_within: int) -> None:
    if part == "test" and found_within:
        raise ConfigError("--found-within leaves out questions that are hard to answer: not for --part test")


def _first_of_each(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """One query of each passage."""
    asked: set[int] = set()
    for pair in pairs:
        if pair.positive not in asked:
            asked.add(pair.positive)
            yield pair


def _changed(options: Any, table: str, name: str) -> list[str]:
    """The command-line option for a field of the options, where it differs from its default."""
    value = getattr(options, name)
    return ["-o", f"{table}.{name}={value}"] if value != getattr(type(options)(), name) else []


# ---------------------------------------------------------------- queries


def _write_queries(
    part: TrainingPart,
    name: str,
    gate: str,
    pairs: Iterable[Pair],
    options: Mapping[str, Any],
    found_within: int,
    details: Callable[[], Mapping[str, Any]] = dict,
    mined: Mined | None = None,
    command: Sequence[str] = (),
) -> dict[str, Any]:
    """Write query pairs as a set, after the round-trip filter where `found_within` is not 0."""
    within = ["--found-within", str(found_within)] if command and found_within else []
    pairs = _first_of_each(pairs) if part.part == "test" else pairs
    write = partial(write_set, command=[*command, *within], mined=mined, gate=gate)
    if not found_within:
        return write(part, name, pairs, options, details=details)
    asked: Counter[str] = Counter()
    passed: Counter[str] = Counter()

    def with_shares() -> dict[str, Any]:
        shares = {style: {"kept": passed[style], "asked": number} for style, number in sorted(asked.items())}
        return {**details(), "round_trip": shares}

    with Retriever(part.workspace) as retriever:
        search = partial(interleaved_search, retriever, part.view.allowed)
        queries = round_trip(pairs, search, found_within, asked, passed)
        return write(part, name, queries, options, details=with_shares)


def interleaved_search(retriever: Retriever, allowed: Mask, texts: Sequence[str], k: int) -> Integers:
    """Lexical and dense results interleaved, (n, 2k), so that the first k rows hold the best of both."""
    lexical, _ = retriever.lexical.search(texts, k, allowed)
    dense, _ = retriever.dense().index.search(retriever.encoder.encode(list(texts), role="query"), k, allowed)
    return np.stack((lexical, dense), axis=2).reshape(len(texts), -1)


def round_trip(
    pairs: Iterable[Pair],
    search: Callable[[Sequence[str], int], Integers],
    k: int,
    tried: Counter[str],
    kept: Counter[str],
) -> Iterator[Pair]:
    """The pairs whose query finds its own passage among the first k hits, streamed; counts queries by style.

    `search` maps texts and k to rows (n, k), best first, -1 where there are fewer. Pairs whose anchor is a passage
    are kept unsearched: a passage would find itself.
    """
    if k < 1:
        raise ConfigError(f"a query cannot be found within {k} hits: give 1 or more")
    remaining = iter(pairs)
    while batch := list(islice(remaining, _SEARCHED)):
        texts = [pair.anchor for pair in batch if isinstance(pair.anchor, str)]
        hits = iter(search(texts, k)[:, :k] if texts else ())
        for pair in batch:
            if isinstance(pair.anchor, str):
                tried[pair.relation] += 1
                if pair.positive not in next(hits):
                    continue
                kept[pair.relation] += 1
            yield pair


@contextlib.contextmanager
def _open_chat(
    workspace: Workspace, model: Settings | None, part: str, *, hold: bool = True
) -> Iterator[tuple[TrainingPart, Chat, EndpointOptions]]:
    endpoint = workspace.options(EndpointOptions, "llm", model)
    with (
        open_training_part(workspace, hold=hold, part=part) as opened,
        contextlib.closing(Chat(endpoint, workspace.answers, workspace.key)) as chat,
    ):
        yield opened, chat, endpoint


def preview_queries(workspace: Workspace, *, model: Settings | None = None, part: str = "train") -> Preview:
    """Calls, tokens, cost and seconds that `write_queries` would need from here on; nothing is sent."""
    options = _written(mine_options(workspace), part)
    with _open_chat(workspace, model, part, hold=False) as (opened, chat, _):
        return chat.preview(query_requests(opened.view, options))


def _written(options: MineOptions, part: str) -> WrittenOptions:
    return replace(options.written, styles=QUESTION) if part == "test" else options.written


def write_queries(
    workspace: Workspace,
    limits: Limits,
    *,
    name: str = "",
    model: Settings | None = None,
    found_within: int = 0,
    part: str = "train",
) -> dict[str, Any]:
    """Queries for the passages by a language model, never beyond the limits.

    The limits count all runs of this set together until every passage has a reply, and other calls of the workspace in
    between; `seconds` counts this run alone. Replies of earlier runs are reused. Passages without a reply are counted
    as `unanswered` and asked again in the next run; entries of replies that do not fit are counted as `dropped`.
    Queries of the `part` "all" are about held-out passages too: they serve search as summaries, and no training. Of the
    part "test" they are one question for each statement: they serve evaluation, and nothing else.
    """
    options = mine_options(workspace)
    name, asked = name or (QUESTIONS if part == "test" else "written"), _written(options, part)
    _check_part(part, found_within)
    with _open_chat(workspace, model, part) as (opened, chat, endpoint):
        start_file = workspace.training(f".{name}.begun")
        if not start_file.exists():
            write_atomically(start_file, json.dumps(chat.spent()).encode())
        spent_before = Spent(*json.loads(start_file.read_bytes()))
        budget = limits.budget(chat.spent(), spent_before)
        unanswered = 0
        dropped: Counter[str] = Counter()

        def pairs() -> Iterator[Pair]:
            nonlocal unanswered
            any_answer = False
            causes: Counter[str] = Counter()
            for written in model_queries(opened.view, partial(chat.run, budget=budget), asked):
                unanswered += written.unanswered
                dropped.update(written.dropped)
                any_answer = any_answer or not written.unanswered
                if written.cause not in ("", "budget"):
                    causes[written.cause] += written.unanswered
                yield from written.pairs
                if chat.down:
                    raise LemmataError(f"{chat.down}; the answers so far are stored: run the same command to resume")
            if unanswered and not any_answer:
                cause = causes.most_common(1)[0][0] if causes else budget.reached
                number = f"{unanswered:,} {'passage' if unanswered == 1 else 'passages'}"
                raise LemmataError(f"{endpoint.model} gave no valid answer for {number}: {cause}")

        def details() -> dict[str, Any]:
            return {
                "round_trip": {},
                "unanswered": unanswered,
                "limit": budget.reached if unanswered else "",
                "dropped": dict(dropped.most_common()),
                "json_mode": chat.json_mode,
                "spent": chat.spent().without(spent_before)._asdict(),
            }

        used = {"model": endpoint.model, "prompt": query_prompt(asked), **asdict(asked)}
        command = ["queries", *_model_arguments(endpoint, limits), "--name", name]
        command += ["--part", part] * (part != "train")
        gate = check_gate(workspace, options.gate)
        report = _write_queries(opened, name, gate, pairs(), used, found_within, details, command=command)
        if not unanswered:
            start_file.unlink()
        return report


def _model_arguments(endpoint: EndpointOptions, limits: Limits) -> list[str]:
    """The options of a command that asks this model within these limits; a key is none of them."""
    address = urlsplit(endpoint.url)
    url = urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2], query="", fragment=""))
    words = ["--model", endpoint.model, "-o", f"llm.url={url}"]
    if endpoint.price_in or endpoint.price_out:
        words += ["-o", f"llm.price_in={endpoint.price_in:g}", "-o", f"llm.price_out={endpoint.price_out:g}"]
    budget = ",".join(f"{name}={limit:.12g}" for name, limit in limits._asdict().items() if limit)
    return [*words, "--budget", budget or "unlimited"]


@dataclass(slots=True)
class ImportReport:
    """Counts of the queries; each that was left out counts once, under the first reason."""

    read: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # by reason
    first_unknown: str = ""  # the first passage that the corpus does not have


def imported_pairs(
    queries: Iterable[ImportedQuery],
    row_of: Mapping[str, int],
    part_of: Callable[[str], str],
    *,
    file: str,
    complete: bool = False,
    report: ImportReport,
) -> Iterator[Pair]:
    """A pair for each query of a passage in `row_of`, which holds the training part only; nothing else is trusted.

    `part_of` names the part of any other passage, "" where there is no such passage. `complete` drops queries that
    do not end in punctuation. InputError at the end where no query was taken.
    """
    for query in queries:
        report.read += 1
        text = " ".join(query.text.split())
        row = row_of.get(query.passage)
        if row is None:
            part = part_of(query.passage)
            report.left_out[f"of {part or 'no passage'}"] += 1
            report.first_unknown = report.first_unknown or ("" if part else query.passage)
        elif not text:
            report.left_out["empty"] += 1
        elif complete and not text.rstrip(_CLOSING).endswith((".", "?", "!")):
            report.left_out["cut"] += 1
        else:
            yield Pair(text, row, "written", query.style, query.place)
    if not report.read:
        raise InputError("there are no queries in it", file=file)
    if report.left_out.total() == report.read:
        causes = ", ".join(f"{number:,} {cause}" for cause, number in sorted(report.left_out.items()))
        first = f"; the first unknown passage is {report.first_unknown!r}" if report.first_unknown else ""
        raise InputError(f"none of its {report.read:,} queries can be used: {causes}{first}", file=file)


def import_queries(
    workspace: Workspace,
    path: str | Path,
    *,
    qrels: str | Path | None = None,
    name: str = "imported",
    complete: bool = False,
    found_within: int = 0,
) -> dict[str, Any]:
    """Import existing queries: JSON lines of queries and passages, or queries with ids and their `qrels`.

    Only those of training passages are taken; the report counts the others by reason. `complete` drops queries that do
    not end in punctuation.
    """
    file, command = str(path), ["import", str(path)]
    if qrels is None:
        records = read_imported(Path(path))
    else:
        file, command = str(qrels), [*command, "--qrels", str(qrels)]
        records = judged_queries(read_queries(Path(path)), read_qrels(Path(qrels)), file=Path(qrels).name)
    with open_training_part(workspace) as part:
        row_of = {identity: row for row, identity in enumerate(part.corpus.ids())}

        def part_of(identity: str) -> str:
            if identity not in row_of:
                return ""
            number = part.split.part[row_of[identity]]
            return "no part" if number == LEFT_OUT else PARTS[number]

        imported = ImportReport()
        pairs = imported_pairs(records, part.view.row_of, part_of, file=file, complete=complete, report=imported)

        def details() -> dict[str, Any]:
            left_out = dict(sorted(imported.left_out.items()))
            return {"imported": {"read": imported.read, "left_out": left_out, "first_unknown": imported.first_unknown}}

        used = {"file": file, "complete": complete, "found_within": found_within}
        command += ["--name", name, *["--complete"] * complete]
        gate = check_gate(workspace, mine_options(workspace).gate)
        return _write_queries(part, name, gate, pairs, used, found_within, details, command=command)


# ---------------------------------------------------------------- triplets and negatives


def _mine_triplets(workspace: Workspace, name: str, gate: str, options: MineOptions, mined: Mined) -> dict[str, Any]:
    """Triplets from a graph embedding (`embedding`, `scincl`), from citations, or for the queries of a set."""
    kind = mined.kind
    if kind not in TRIPLETS:
        raise ConfigError(f"triplets come from {', '.join(TRIPLETS)}, not {kind!r}")
    sources = [mined.of or "queries"] if kind == "queries" else []
    for source in sources:
        set_file(workspace, source)
    with open_training_part(workspace) as part:
        triplets: Iterable[Triplet]
        if kind == "citations":
            triplets = citation_triplets(part.view, options.citations)
            used: Mapping[str, Any] = asdict(options.citations)
            negatives, changed = CITED, _changed(options.citations, "citations", "relations")
        else:
            chosen = SCINCL if kind == "scincl" else options.triplets
            vectors, texts = training_embedding(part, workspace.options(EmbedStageOptions, "embed"))
            triplets = graph_triplets(part.view, vectors, chosen, texts=texts)
            negatives, used, changed = chosen.hard + chosen.easy, asdict(chosen), []
            if kind == "queries":
                pairs = (record for record in part.records(*sources) if isinstance(record, Pair))
                triplets, negatives = query_triplets(pairs, triplets, part.view), 10
        write = partial(write_set, mined=mined, command=changed, gate=gate, sources=sources, negatives=negatives)
        return write(part, name, triplets, used)


def _mine_negatives(
    workspace: Workspace, name: str, gate: str, options: NegativeOptions, made: Mined
) -> dict[str, Any]:
    """The pairs of a set, each with hard negatives."""
    of = made.of
    set_file(workspace, of)
    with open_training_part(workspace) as part, Retriever(workspace) as retriever:
        mined = NegativeReport()
        pairs = [parts_of(record)[0] for record in part.records(of)]
        triplets = mine_negatives(
            pairs,
            part.view,
            vectors=retriever.vectors.matrix,
            lexical=retriever.lexical,
            nearest=retriever.dense().index,
            encode=partial(retriever.encoder.encode, role="query"),
            answers=known_answers(pairs, part.view),
            options=options,
            report=mined,
        )

        def details() -> dict[str, Any]:
            kept, dropped = dict(mined.kept), dict(mined.dropped)
            return {"left_out": mined.left_out, "short": mined.short, "kept": kept, "dropped": dropped}

        def why_none() -> str:
            """Which rules left no candidate for any pair, the strictest first."""
            if not mined.pairs:
                return f"the set {of!r} has no pairs"
            rules = ", ".join(f"{rule} {count:,}" for rule, count in mined.dropped.most_common() if count)
            cause = f"all candidates for its {mined.pairs:,} pairs were dropped, by the rules {rules}"
            return f"{cause if rules else 'no candidates'} (see the keys of [mine.negatives])"

        return write_set(
            part,
            name,
            triplets,
            {"of": of, **asdict(options)},
            mined=made,
            command=_changed(options, "negatives", "number"),
            gate=gate,
            sources=[of],
            negatives=options.number,
            details=details,
            why_none=why_none,
        )


# ---------------------------------------------------------------- mix and export


def mix(workspace: Workspace, name: str) -> dict[str, Any]:
    """Mix several training sets of one split, as [mixtures.NAME] says; the `table` says what each contributed."""
    options = workspace.named_options(Mixture, "mixtures", name, required=True)
    names = list(options.weights) or [other for other in trainable_sets(workspace) if other != name]
    negatives = max((_negatives_in(workspace, source) for source in names), default=0)
    with open_training_part(workspace) as part:
        streams = {source: part.records(source) for source in names}
        with mix_records(streams, options, part.view) as (records, table):
            mined, used = Mined("mix"), asdict(options)
            report = write_set(part, name, records, used, mined=mined, sources=names, negatives=negatives)
    return {**report, "table": [row._asdict() for row in table]}


def _negatives_in(workspace: Workspace, name: str) -> int:
    """The largest number of negatives of a record."""
    return len(text_columns(set_file(workspace, name))) - 2


def export_training(workspace: Workspace, name: str, path: str | Path, *, file_format: str = "parquet") -> int:
    """Write a mined set as `parquet`, `tevatron`, `flagembedding` or `tsv`; returns the number of records."""
    with open_training_part(workspace, hold=False) as part:
        return write_training(
            part.records(name), part.view, Path(path), file_format=file_format, negatives=_negatives_in(workspace, name)
        )
