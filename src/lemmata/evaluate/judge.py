"""Make a test collection: queries from a held-out part, candidates of several retrievers, grades of a judge."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.artefacts import write_hashed_manifest
from lemmata.core.errors import ConfigError, InputError, LemmataError
from lemmata.core.files import check_replaceable, writing
from lemmata.core.types import CrossEncoder, Integers, Pair, Progress
from lemmata.core.workspace import Settings, Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import normalise
from lemmata.corpus.split import LEFT_OUT, PARTS, open_split
from lemmata.corpus.training_files import split_key
from lemmata.encode.cross import load_cross_encoder
from lemmata.evaluate.pooling import (
    HIGHEST,
    NO_SOURCES,
    Thresholds,
    calibrate,
    contributions,
    grade,
    origin_repeats,
    pool,
    score_pairs,
)
from lemmata.ingest.beir import read_queries
from lemmata.llm.chat import Chat, Preview
from lemmata.llm.endpoint import EndpointOptions, Limits
from lemmata.mine.material import TrainingView, in_batches, training_view
from lemmata.mine.mine import MineOptions
from lemmata.mine.queries.model import WrittenOptions, model_queries, query_requests
from lemmata.mine.queries.rules import rule_queries
from lemmata.search.retriever import Retriever

_QUERIES_AT_ONCE = 128
_RANDOM_PAIRS = 400  # of queries and passages, to calibrate the thresholds; a few more with more queries
_FILES = {"validation": "dev", "test": "test"}  # of judgments, as BEIR names them
NOTE = (
    "Judged by a model, not by people. Passages that none of these retrievers found are not judged and count as not"
    " relevant, which favours these retrievers over others."
)


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How queries are chosen, and what is judged."""

    part: str = "test"  # of the split that the queries come from
    limit: int = 200  # queries, at most one of a passage; 0: no limit
    depth: int = 20  # candidates of each retriever
    retrievers: tuple[str, ...] = ("lexical", "dense", "hybrid")
    thresholds: Thresholds | None = None  # of the judge's scores; None: by the scores of origins and of random passages
    seed: int = 0


class JudgedQuery(NamedTuple):
    """A query, the passages that it was made from, and how."""

    text: str
    origins: tuple[int, ...] = ()  # rows
    style: str = ""
    rule: str = ""
    id: str = ""  # empty: its number


# ---------------------------------------------------------------- queries


@contextlib.contextmanager
def _open_part(workspace: Workspace, part: str) -> Iterator[TrainingView]:
    if part not in _FILES:
        raise LemmataError(f"queries come from the parts {' and '.join(_FILES)}, not from {part!r}")
    with contextlib.closing(Corpus(workspace)) as corpus:
        yield training_view(corpus, open_split(workspace, corpus.digest), part)


@contextlib.contextmanager
def _open_chat(workspace: Workspace, model: Settings | None) -> Iterator[Chat]:
    options = workspace.options(EndpointOptions, "llm", model)
    with contextlib.closing(Chat(options, workspace.answers, workspace.key)) as chat:
        yield chat


def ruled(workspace: Workspace, options: PoolOptions) -> list[JudgedQuery]:
    """Queries by rules from a random sample of the passages of a part."""
    with _open_part(workspace, options.part) as part:
        return _one_of_each(rule_queries(part), options)


def preview_judged_queries(
    workspace: Workspace, *, part: str = "test", limit: int = 200, model: Settings | None = None
) -> Preview:
    """Calls, tokens, cost and seconds that the queries of `judge` would need from a language model."""
    how, options = workspace.options(MineOptions, "mine").written, PoolOptions(part=part, limit=limit)
    with _open_part(workspace, part) as opened, _open_chat(workspace, model) as chat:
        return chat.preview(query_requests(_sampled(opened, options), how))


def _written(
    workspace: Workspace, options: PoolOptions, how: WrittenOptions, model: Settings | None, limits: Limits
) -> tuple[list[JudgedQuery], str]:
    """Queries by a language model from a random sample of a part, and its name; answers are stored and reused."""
    with _open_part(workspace, options.part) as part, _open_chat(workspace, model) as chat:
        spent = chat.spent()
        budget = limits.budget(spent, spent)
        pairs: list[Pair] = []
        causes: Counter[str] = Counter()
        for answer in model_queries(_sampled(part, options), lambda requests: chat.run(requests, budget=budget), how):
            pairs += answer.pairs
            if answer.cause not in ("", "budget"):
                causes[answer.cause] += 1
        if not pairs:
            cause = causes.most_common(1)[0][0] if causes else budget.reached or "its texts were dropped"
            raise LemmataError(f"{chat.model} wrote no usable query: {chat.down or cause}")
        return _one_of_each(pairs, options), chat.model


def _sampled(part: TrainingView, options: PoolOptions) -> TrainingView:
    """The part with a random sample of its rows, a few more than queries are wanted."""
    rows = np.random.default_rng(options.seed).permutation(part.rows)
    return replace(part, rows=np.sort(rows[: options.limit + options.limit // 4]) if options.limit else part.rows)


def _one_of_each(pairs: Iterable[Pair], options: PoolOptions) -> list[JudgedQuery]:
    """One random query of each passage, of which at most `limit`; equal texts become one query with several origins."""
    by_passage: dict[int, list[Pair]] = {}
    origins: dict[str, set[int]] = {}
    for pair in pairs:
        by_passage.setdefault(pair.positive, []).append(pair)
        origins.setdefault(normalise(str(pair.anchor)), set()).add(pair.positive)
    generator = np.random.default_rng(options.seed)
    chosen: dict[str, JudgedQuery] = {}
    groups = list(by_passage.values())
    for number in generator.permutation(len(groups)).tolist():
        own = groups[number]
        pair = own[int(generator.integers(len(own)))]
        text = str(pair.anchor)
        query = JudgedQuery(text, tuple(sorted(origins[normalise(text)])), pair.relation, pair.reason)
        chosen.setdefault(normalise(text), query)
        if options.limit and len(chosen) == options.limit:
            break
    return sorted(chosen.values(), key=lambda query: (query.origins, query.text))


# ---------------------------------------------------------------- judging


def judge(
    workspace: Workspace,
    folder: str | Path,
    by: str | CrossEncoder,
    *,
    queries: str | Path | None = None,
    model: Settings | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Make a test collection in `folder`: queries from a held-out part, candidates of all retrievers, judged.

    `by` is a cross-encoder, or its name. Queries are made by rules; by the language model of `model`, within
    `limits`; or come from the file `queries`. Options are the fields of PoolOptions.
    """
    chosen, made_by = PoolOptions(**options), "rules"
    if queries is not None:
        asked = [JudgedQuery(text, id=name) for name, text in read_queries(Path(queries)).items()]
        made_by = str(queries)
    elif limits is not None:
        how = workspace.options(MineOptions, "mine").written
        asked, made_by = _written(workspace, chosen, how, model, limits)
    else:
        asked = ruled(workspace, chosen)
    grader = load_cross_encoder(by, models=workspace.models_folder) if isinstance(by, str) else by
    return judge_queries(workspace, Path(folder), asked, grader, chosen, made_by=made_by)


def judge_queries(
    workspace: Workspace,
    out: Path,
    queries: Sequence[JudgedQuery],
    by: CrossEncoder,
    options: PoolOptions,
    *,
    made_by: str = "rules",
) -> dict[str, Any]:
    """Write `queries.jsonl`, `qrels/test.tsv` (or `dev.tsv`) and `pool.tsv` to the folder `out`; returns its manifest.

    Candidates are the first passages of each retriever in the whole corpus. The origin of a query, and what is nearly
    its text, has the highest grade whatever the judge says. `pool.tsv` has all candidates with score, grade and the
    retrievers that found them; the judgments hold only those above 0.
    """
    if not queries:
        raise LemmataError(f"there is no query to judge: the {options.part} part has no passage that makes one")
    if options.depth < 1:
        raise ConfigError(f"a pool needs a depth of 1 or more, not {options.depth}")
    check_replaceable(out, "test collection", read_manifest(out / "manifest.json") is not None)
    texts = [query.text for query in queries]
    origins = [query.origins for query in queries]
    if options.thresholds is None and not any(origins):  # said before everything is searched and scored
        raise InputError(NO_SOURCES)
    with contextlib.closing(Retriever(workspace)) as retriever:
        corpus = retriever.corpus
        rankings = {
            name: _rank(retriever, texts, options.depth, name, workspace.progress) for name in options.retrievers
        }
        candidates = pool(rankings, origins)
        generator = np.random.default_rng(options.seed)
        each = -(-_RANDOM_PAIRS // len(queries)) if options.thresholds is None else 0
        drawn = generator.integers(0, len(corpus), (len(queries), each))
        rows_read = sorted({*candidates.rows.tolist(), *drawn.ravel().tolist()})
        text_of = {row: passage.content for row, passage in in_batches(corpus.passages, rows_read)}
        ids = corpus.ids()
        parts = _parts(workspace, corpus)
    pairs = list(zip(candidates.queries.tolist(), candidates.rows.tolist(), strict=True))
    scores = score_pairs([(texts[query], text_of[row]) for query, row in pairs], by.score, workspace.progress)
    is_origin = origin_repeats(candidates, origins, text_of)
    thresholds = options.thresholds
    if thresholds is None:
        others = [
            (texts[query], text_of[row])
            for query, rows in enumerate(drawn.tolist())
            for row in rows
            if row not in origins[query]
        ]
        random_scores = score_pairs(others, by.score, workspace.progress, what="calibrating")
        thresholds = calibrate(scores[is_origin], random_scores)
    grades = np.where(is_origin, HIGHEST, grade(scores, thresholds))
    width = len(str(len(queries)))
    names = [query.id or f"q{number:0{width}}" for number, query in enumerate(queries, 1)]
    relevant = np.bincount(candidates.queries[grades > 0], minlength=len(queries))
    passages = sum(map(len, origins))
    report = {
        "verb": "judge",
        "part": options.part if passages else "",
        "queries": len(queries),
        "made_by": made_by,
        "without_relevant": int((relevant == 0).sum()),
        "judge": by.name,
        "thresholds": thresholds._asdict(),
        "calibrated": options.thresholds is None,
        "depth": options.depth,
        "retrievers": contributions(candidates, grades),
        "judged": len(pairs),
        "grades": {str(value): int((grades == value).sum()) for value in range(HIGHEST + 1)},
        "sources": {
            "passages": passages,
            "repeats": int(is_origin.sum()) - passages,
            "relevant_by_judge": int((scores[is_origin] >= thresholds.relevant).sum()),
            "found": int((is_origin & candidates.found.any(axis=1)).sum()),
        },
        "relevant_by_part": dict(Counter(parts[row] for row in candidates.rows[grades > 0].tolist())) if parts else {},
        "note": NOTE,
    }
    finders = [",".join(np.array(candidates.retrievers)[found]) for found in candidates.found]
    judged = [
        (names[query], ids[row], *facts)
        for (query, row), *facts in zip(pairs, scores.tolist(), grades.tolist(), finders, strict=True)
    ]
    recipe = {**report, "inputs": corpus.digest, "split": split_key(workspace), "seed": options.seed}
    with writing(out) as folder:
        (folder / "qrels").mkdir(parents=True)
        _write(folder / "queries.jsonl", "", _query_lines(names, queries, ids))
        judgments = folder / "qrels" / f"{_FILES[options.part] if passages else 'test'}.tsv"
        _write(judgments, "query-id\tcorpus-id\tscore\n", (f"{q}\t{p}\t{g}\n" for q, p, _, g, _ in judged if g))
        pool_head = "query-id\tcorpus-id\tscore\tgrade\tretrievers\n"
        _write(folder / "pool.tsv", pool_head, (f"{q}\t{p}\t{s:.4f}\t{g}\t{f}\n" for q, p, s, g, f in judged))
        write_hashed_manifest(folder, recipe)
    return report


def _rank(retriever: Retriever, texts: Sequence[str], depth: int, name: str, progress: Progress) -> Integers:
    ranked: list[Integers] = []
    for start in range(0, len(texts), _QUERIES_AT_ONCE):
        progress(f"searching ({name})", start, len(texts))
        ranked.append(retriever.search_rows(texts[start : start + _QUERIES_AT_ONCE], depth, name)[0])
    return np.concatenate(ranked)


def _parts(workspace: Workspace, corpus: Corpus) -> list[str]:
    """The part of each row; none where there is no split."""
    if not workspace.manifest(workspace.split_folder).exists():
        return []
    numbers = open_split(workspace, corpus.digest).part.tolist()
    return ["no part" if number == LEFT_OUT else PARTS[number] for number in numbers]


def _query_lines(names: Sequence[str], queries: Sequence[JudgedQuery], ids: Sequence[str]) -> Iterator[str]:
    for name, query in zip(names, queries, strict=True):
        made = {"sources": [ids[row] for row in query.origins], "style": query.style, "rule": query.rule}
        record = {"_id": name, "text": query.text, **({"metadata": made} if query.origins else {})}
        yield json.dumps(record, ensure_ascii=False) + "\n"


def _write(path: Path, head: str, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(head)
        stream.writelines(lines)
