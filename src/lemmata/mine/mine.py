"""Mine training sets from the training part of a workspace, mix and export them."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from lemmata.core.errors import ConfigError, LemmataError, suggest
from lemmata.core.files import write_atomically
from lemmata.core.types import Integers, Mask, Pair, Triplet
from lemmata.core.workspace import Workspace
from lemmata.corpus.split import LEFT_OUT, PARTS
from lemmata.corpus.training_files import set_file, text_columns
from lemmata.ingest.queries import ImportedQuery
from lemmata.llm.chat import Chat, Preview
from lemmata.llm.endpoint import EndpointOptions, Limits, Spent
from lemmata.mine.embedding import EmbedStageOptions, training_embedding
from lemmata.mine.export import FORMATS, Contribution, Mixture, mix, write_training
from lemmata.mine.imported import ImportReport, imported_pairs
from lemmata.mine.negatives import NegativeOptions, NegativeReport, known_answers, mine_negatives
from lemmata.mine.pairs import PairOptions, mine_pairs
from lemmata.mine.queries.filter import round_trip
from lemmata.mine.queries.model import WrittenOptions, model_queries, query_prompt, query_requests
from lemmata.mine.queries.rules import QueryOptions, rule_queries
from lemmata.mine.training_sets import NewSet, TrainingPart, open_training_part, pair_of, trainable_sets, write_set
from lemmata.mine.triplets import (
    SCINCL,
    CitationTripletOptions,
    GraphTripletOptions,
    citation_triplets,
    graph_triplets,
    query_triplets,
)
from lemmata.search.retriever import Retriever

TRIPLETS = ("embedding", "scincl", "citations", "queries")


@dataclass(frozen=True, slots=True)
class MineOptions:
    """The options of all miners; each has a table below [mine] in `lemmata.toml`."""

    gate: str = ""  # a cross-encoder that positives and negatives have to pass: a model, a folder or a hub name
    pairs: PairOptions = field(default_factory=PairOptions)
    queries: QueryOptions = field(default_factory=QueryOptions)
    written: WrittenOptions = field(default_factory=WrittenOptions)
    triplets: GraphTripletOptions = field(default_factory=GraphTripletOptions)
    citations: CitationTripletOptions = field(default_factory=CitationTripletOptions)
    negatives: NegativeOptions = field(default_factory=NegativeOptions)


# ---------------------------------------------------------------- pairs


def mine_pair_set(new: NewSet, options: PairOptions) -> dict[str, Any]:
    """Pairs from concepts, structure and citations."""
    with open_training_part(new.workspace) as part:
        command = ["pairs", "--name", new.name, *_changed(options, "seed")]
        return write_set(new, part, mine_pairs(part.view, options), asdict(options), command=command)


def _changed(options: Any, *names: str) -> list[str]:
    """The command-line options for those fields of the options that differ from their defaults."""
    defaults = type(options)()
    changed = [name for name in names if getattr(options, name) != getattr(defaults, name)]
    return [word for name in changed for word in (f"--{name}", str(getattr(options, name)))]


# ---------------------------------------------------------------- queries


def mine_query_set(new: NewSet, options: QueryOptions, *, found_within: int = 0) -> dict[str, Any]:
    """Queries made by rules; with `found_within` only those that find their passage among so many hits."""
    with open_training_part(new.workspace, everything=new.everything) as part:
        command = ["queries", "--name", new.name, *["--part", "all"] * new.everything, *_changed(options, "seed")]
        pairs = rule_queries(part.view, options)
        return _write_queries(new, part, pairs, asdict(options), found_within, command)


def _write_queries(
    new: NewSet,
    part: TrainingPart,
    pairs: Iterable[Pair],
    options: Mapping[str, Any],
    found_within: int,
    command: Sequence[str],
    details: Callable[[], Mapping[str, Any]] = dict,
) -> dict[str, Any]:
    """Write query pairs as a set, after the round-trip filter where `found_within` is not 0."""
    if not found_within:
        return write_set(new, part, pairs, options, command=command, details=details)
    command = [*command, "--found-within", str(found_within)]
    tried: Counter[str] = Counter()
    kept: Counter[str] = Counter()

    def with_shares() -> dict[str, Any]:
        shares = {style: {"kept": kept[style], "asked": number} for style, number in sorted(tried.items())}
        return {**details(), "round_trip": shares}

    with Retriever(new.workspace) as retriever:
        search = partial(interleaved_search, retriever, part.view.allowed)
        queries = round_trip(pairs, search, found_within, tried, kept)
        return write_set(new, part, queries, options, command=command, details=with_shares)


def interleaved_search(retriever: Retriever, allowed: Mask, texts: Sequence[str], k: int) -> Integers:
    """Lexical and dense results interleaved, (n, 2k), so that the first k rows hold the best of both."""
    lexical, _ = retriever.lexical.search(texts, k, allowed)
    dense, _ = retriever.dense_index.search(retriever.encoder.encode(list(texts), role="query"), k, allowed)
    return np.stack((lexical, dense), axis=2).reshape(len(texts), -1)


def preview_queries(
    workspace: Workspace, options: WrittenOptions, endpoint: EndpointOptions, *, everything: bool = False
) -> Preview:
    """Calls, tokens and cost of letting a model write queries, or `everything`; nothing is sent."""
    with (
        open_training_part(workspace, hold=False, everything=everything) as part,
        contextlib.closing(Chat(endpoint, workspace.answers, workspace.key)) as chat,
    ):
        return chat.preview(query_requests(part.view, options))


def mine_written_set(
    new: NewSet, options: WrittenOptions, endpoint: EndpointOptions, limits: Limits, *, found_within: int = 0
) -> dict[str, Any]:
    """Queries written by a language model.

    The limits count all runs of this set together until every passage has a reply, and other calls of the workspace in
    between; `seconds` counts this run alone. Replies of earlier runs are reused. Passages without a reply are counted
    as `unanswered` and asked again in the next run; entries of replies that do not fit are counted as `dropped`.
    """
    workspace = new.workspace
    with (
        open_training_part(workspace, everything=new.everything) as part,
        contextlib.closing(Chat(endpoint, workspace.answers, new.workspace.key)) as chat,
    ):
        start_file = workspace.training(f".{new.name}.begun")
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
            send = partial(chat.run, budget=budget)
            for written in model_queries(part.view, send, options):
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
                raise LemmataError(_no_answer(endpoint.model, unanswered, cause))

        def details() -> dict[str, Any]:
            spent = chat.spent().without(spent_before)
            by_rule = dict(dropped.most_common())
            limit = budget.reached if unanswered else ""
            counts = {"unanswered": unanswered, "limit": limit, "dropped": by_rule, "json_mode": chat.json_mode}
            return {"round_trip": {}, **counts, "spent": spent._asdict()}

        used = {"model": endpoint.model, "prompt": query_prompt(options), **asdict(options)}
        command = ["queries", *_model_arguments(endpoint, limits), "--name", new.name]
        command += ["--part", "all"] * new.everything
        report = _write_queries(new, part, pairs(), used, found_within, command, details)
        if not unanswered:
            start_file.unlink()
        return report


def _no_answer(model: str, passages: int, cause: str) -> str:
    number = f"{passages:,} {'passage' if passages == 1 else 'passages'}"
    return f"{model} gave no valid answer for {number}: {cause}"


def _model_arguments(endpoint: EndpointOptions, limits: Limits) -> list[str]:
    """The options of a command that asks this model within these limits; a key is none of them."""
    address = urlsplit(endpoint.url)
    url = urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2], query="", fragment=""))
    words = ["--model", endpoint.model, "--url", url]
    words += [word for name, limit in limits._asdict().items() if limit for word in (f"--{name}", f"{limit:.12g}")]
    if endpoint.price_in or endpoint.price_out:
        words += ["--price", f"{endpoint.price_in:g}", f"{endpoint.price_out:g}"]
    return words if any(limits) else [*words, "--unlimited"]


def mine_imported_set(
    new: NewSet,
    queries: Iterable[ImportedQuery],
    *,
    file: str,
    complete: bool = False,
    found_within: int = 0,
    command: Sequence[str] = (),
) -> dict[str, Any]:
    """Queries that somebody else wrote, those of training passages only; the report counts the others by reason."""
    with open_training_part(new.workspace) as part:
        row_of = {identity: row for row, identity in enumerate(part.corpus.ids())}

        def part_of(identity: str) -> str:
            if identity not in row_of:
                return ""
            number = part.split.part[row_of[identity]]
            return "no part" if number == LEFT_OUT else PARTS[number]

        imported = ImportReport()
        pairs = imported_pairs(queries, part.view.row_of, part_of, file=file, complete=complete, report=imported)

        def details() -> dict[str, Any]:
            left_out = dict(sorted(imported.left_out.items()))
            return {"imported": {"read": imported.read, "left_out": left_out, "first_unknown": imported.first_unknown}}

        used = {"file": file, "complete": complete, "found_within": found_within}
        again = [*(command or ("import", file)), "--name", new.name, *["--complete"] * complete]
        return _write_queries(new, part, pairs, used, found_within, again, details)


# ---------------------------------------------------------------- triplets and negatives


def mine_triplet_set(
    new: NewSet, options: MineOptions, embedding: EmbedStageOptions, *, kind: str = "embedding", of: str = ""
) -> dict[str, Any]:
    """Triplets from a graph embedding (`embedding`, `scincl`), from citations, or for the queries of the set `of`."""
    if kind not in TRIPLETS:
        raise ConfigError(f"triplets come from {', '.join(TRIPLETS)}, not {kind!r}")
    sources = [of or "queries"] if kind == "queries" else []
    for source in sources:
        set_file(new.workspace, source)
    with open_training_part(new.workspace) as part:
        triplets: Iterable[Triplet]
        if kind == "citations":
            triplets = citation_triplets(part.view, options.citations)
            negatives = max(1, options.citations.hard + options.citations.easy)
            used: Mapping[str, Any] = asdict(options.citations)
            changed = _changed(options.citations, "relations", "seed")
        else:
            chosen = replace(SCINCL, seed=options.triplets.seed) if kind == "scincl" else options.triplets
            vectors, texts = training_embedding(part, embedding)
            triplets = graph_triplets(part.view, vectors, chosen, texts=texts)
            negatives, used = chosen.hard + chosen.easy, asdict(chosen)
            changed = _changed(chosen, "seed")
            if kind == "queries":
                records = part.records(*sources)
                pairs = (record for record in records if isinstance(record, Pair))
                triplets, negatives = query_triplets(pairs, triplets, part.view), 10
        command = ["triplets", "--from", kind, "--name", new.name, *(["--of", of] if of else []), *changed]
        return write_set(new, part, triplets, used, command=command, sources=sources, negatives=negatives)


def mine_negative_set(new: NewSet, of: str, options: NegativeOptions) -> dict[str, Any]:
    """The pairs of the set `of`, each with hard negatives."""
    set_file(new.workspace, of)
    with open_training_part(new.workspace) as part, Retriever(new.workspace) as retriever:
        mined = NegativeReport()
        pairs = [pair_of(record) for record in part.records(of)]
        triplets = mine_negatives(
            pairs,
            part.view,
            vectors=retriever.vectors.matrix,
            lexical=retriever.lexical,
            nearest=retriever.dense_index,
            encode=partial(retriever.encoder.encode, role="query"),
            answers=known_answers(pairs, part.view),
            options=options,
            report=mined,
        )

        def details() -> dict[str, Any]:
            kept, dropped = dict(mined.kept), dict(mined.dropped)
            return {"left_out": mined.left_out, "short": mined.short, "kept": kept, "dropped": dropped}

        used = {"of": of, **asdict(options)}
        command = ["negatives", of, "--name", new.name, *_changed(options, "number")]
        return write_set(
            new,
            part,
            triplets,
            used,
            command=command,
            sources=[of],
            negatives=options.number,
            details=details,
            why_none=lambda: _why_no_negatives(mined, of),
        )


def _why_no_negatives(mined: NegativeReport, of: str) -> str:
    """Which rules left no candidate for any pair, the strictest first."""
    if not mined.pairs:
        return f"the set {of!r} has no pairs"
    rules = ", ".join(f"{rule} {count:,}" for rule, count in mined.dropped.most_common() if count)
    cause = (
        f"all candidates for its {mined.pairs:,} pairs were dropped, by the rules {rules}" if rules else "no candidates"
    )
    return f"{cause} (see the keys of [mine.negatives])"


# ---------------------------------------------------------------- mix and export


def mix_sets(new: NewSet, mixture: Mixture, table: str = "") -> tuple[dict[str, Any], Sequence[Contribution]]:
    """One training set from several of the same split, as the `table` of a mixture says; and what each contributed."""
    names = list(mixture.weights) or [other for other in trainable_sets(new.workspace) if other != new.name]
    for name in names:
        set_file(new.workspace, name)
    with open_training_part(new.workspace) as part:
        streams = {source: part.records(source) for source in names}
        negatives = max((_negatives_in(new.workspace, source) for source in names), default=0)
        with mix(streams, mixture, part.view) as mixed:
            command = ["mix", table or new.name, "--name", new.name]
            return write_set(
                new, part, mixed.records, asdict(mixture), command=command, sources=names, negatives=negatives
            ), mixed.table


def _negatives_in(workspace: Workspace, name: str) -> int:
    """The largest number of negatives of a record."""
    return len(text_columns(set_file(workspace, name))) - 2


def export(workspace: Workspace, name: str, path: Path, file_format: str) -> int:
    """Write a set in a format that other trainers read; returns the number of records."""
    if file_format not in FORMATS:
        raise ConfigError(f"there is no format {file_format!r}{suggest(file_format, FORMATS)}")
    negatives = _negatives_in(workspace, name)
    with open_training_part(workspace, hold=False) as part:
        return write_training(part.records(name), part.view, path, file_format=file_format, negatives=negatives)
