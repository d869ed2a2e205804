"""`lemmata adapt`: fit and train on what people marked and on what the corpus says of itself; adopt what is better.

A hash of each marked query says for good what it is used for: two fifths train encoders, one fifth fits the weights of
`auto` with them, two fifths decide. So no query that once decided is ever learned from. Everything is measured beside
what search uses; until it is adopted, nobody searches with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.errors import ConfigError, InputError, LemmataError, MissingExtra, WorkspaceError, require
from lemmata.core.files import fingerprint, is_leftover, remove, retire, write_atomically
from lemmata.core.workspace import (
    Workspace,
    default_encoder,
    read_manifest,
    vector_sets,
    vectors_of,
    write_manifest,
)
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import normalise
from lemmata.corpus.split import id_keys
from lemmata.evaluate.judge import PoolOptions, ruled
from lemmata.evaluate.judgments import LoggedQuery, judgments, marked_task
from lemmata.evaluate.significance import Floats64, gain
from lemmata.evaluate.task_search import asking
from lemmata.evaluate.tasks import Task, restricted
from lemmata.evaluate.tuning import fit, fusion_values, store_fit
from lemmata.llm.endpoint import Limits
from lemmata.mine.mine import import_queries, mine, write_queries
from lemmata.mine.splits import split
from lemmata.mine.training_sets import trainable_sets
from lemmata.search.fusion import FEWEST, Fusion
from lemmata.search.index import index, remove_encoder
from lemmata.search.map import build_map
from lemmata.search.retriever import Retriever
from lemmata.search.summaries.texts import chosen_sources
from lemmata.train.train import finetune_model, static_model

MEASURE = "MRR@10"
MOST_RUNS = 10  # adaptations that are remembered
_PRIVATE_SETS = ("adapt-marks", "adapt-asked")  # what people asked: there while it is trained on
_KINDS = ("static", "finetune")  # of encoders that are trained
OWN = "self-made"  # queries that rules make from the validation part
_ASKED = 2000  # unmarked queries that are learned from, the latest
_OWN_QUERIES = 200
_MARKED_SHARE = 0.2  # of what is shown in training, at least; but no mark more often than _MOST_TIMES
_MOST_TIMES = 10.0


class Candidate(NamedTuple):
    """A way to search, with its measure on each query of each task."""

    name: str
    encoder: str
    fusion: Fusion
    values: Mapping[str, Floats64]
    fitted: Mapping[str, Any] | None = None  # the report of the fit of its weights

    @property
    def row(self) -> dict[str, Any]:
        means = {task: round(float(values.mean()), 4) for task, values in self.values.items()}
        return {"name": self.name, "encoder": self.encoder, "auto": self.fusion.formula, **means}


def adapt(workspace: Workspace, *, finetune: bool = False, limits: Limits | None = None) -> dict[str, Any]:
    """Fit `auto`, train encoders, measure all of it on held-out marks and on self-made queries, and adopt the best.

    Only what is better than what search uses is adopted; `undo_adapt` takes it back. Without new queries, marks or
    passages since the last call nothing is done. `finetune` also fine-tunes a transformer, for which a processor needs
    hours; `limits` let the language model of [llm] write queries.
    """
    began = time.perf_counter()
    before = default_encoder(workspace)
    if not before:
        raise WorkspaceError("there are no vectors to adapt yet: run 'lemmata index'")
    logged = judgments(workspace)
    with contextlib.closing(Corpus(workspace)) as corpus:
        key = fingerprint([corpus.digest, [query[:2] + query[4:] for query in logged], finetune, limits])
    state = read_manifest(workspace.adapted) or {}
    if "fitted" in state:  # killed while it was adopted
        return _adopt(workspace, state)
    runs = state.get("runs", [])
    if runs and (state.get("key"), state.get("encoder")) == (key, before):
        return {**_adopt(workspace, state), "done_before": True}
    marks, tasks = divide(workspace)
    if not tasks:
        raise LemmataError("there is nothing to measure with: no held-out mark, and no passage makes a query by rules")
    today = measure(workspace, "today", before, tasks)
    candidates = [measure(workspace, "auto, fitted", before, tasks, marks.learned)]
    notes: list[str] = []
    for kind in _KINDS[: 1 + finetune]:
        try:
            name = train(workspace, kind, logged, marks.training, limits, notes)
            candidates.append(measure(workspace, f"{kind}, trained here", name, tasks, marks.fitting))
        except MissingExtra as error:
            notes.append(str(error))
            break
    best = choose(today, [each for each in candidates if (each.encoder, each.fusion) != (before, today.fusion)])
    if best and state.get("undone") == _marked(logged):
        notes.append(f"{best.name} would be adopted again, but was undone: it is not, until there is another mark")
        best = None
    report = {
        "verb": "adapt",
        "measure": MEASURE,
        "queries": {name: len(task.qrels) for name, task in tasks.items()},
        "learned_from": len(marks.learned.qrels) if marks.learned else 0,
        "rows": [today.row, *(each.row for each in candidates)],
        "adopted": best.name if best else "",
        "notes": notes,
        "seconds": round(time.perf_counter() - began, 1),
        "when": round(time.time()),
    }
    runs = [*runs, report][-MOST_RUNS:]
    state = {"undo": state.get("undo"), "undone": state.get("undone"), "key": key, "encoder": before, "runs": runs}
    if best is not None:
        undo = {"encoder": before, "fusion": read_manifest(vectors_of(workspace, before).fusion)}
        state |= {"undo": undo, "undone": None, "encoder": best.encoder, "fitted": best.fitted}
    write_manifest(workspace.adapted, state)
    return _adopt(workspace, state)


def _adopt(workspace: Workspace, state: dict[str, Any]) -> dict[str, Any]:
    """Let search use what was chosen, and remove the encoders that nobody needs; returns the report."""
    if "fitted" in state:
        _search_with(workspace, state["encoder"], state.pop("fitted"))
        write_manifest(workspace.adapted, state)
    _remove_others(workspace, {state["encoder"], (state["undo"] or {}).get("encoder", "")})
    return dict(state["runs"][-1])


def _marked(logged: Sequence[LoggedQuery]) -> str:
    """A hash of all marks."""
    return fingerprint([[query.text, query.answers, query.wrong] for query in logged if query.answers or query.wrong])


def undo_adapt(workspace: Workspace) -> dict[str, Any]:
    """Let search be as it was before the last adoption."""
    state = read_manifest(workspace.adapted) or {}
    if not state.get("undo"):
        raise LemmataError("nothing was adopted that could be undone")
    state.pop("fitted", None)  # of an adoption that was killed
    before = state["undo"]
    _search_with(workspace, before["encoder"], before["fusion"])
    undone = _marked(judgments(workspace))  # the same marks are not adopted again
    if last := next((run for run in reversed(state.get("runs", [])) if run["adopted"]), None):
        last["undone"] = round(time.time())
    _remove_others(workspace, {before["encoder"]})
    write_manifest(workspace.adapted, {**state, "undo": None, "undone": undone, "encoder": before["encoder"]})
    return {"verb": "adapt", "undone": state["encoder"], "encoder": before["encoder"]}


# ---------------------------------------------------------------- what is learned from, and what decides


class Marks(NamedTuple):
    """The marked queries by what they are used for; None where there are none."""

    training: Task | None = None  # of encoders
    fitting: Task | None = None  # of the weights of `auto` with them
    learned: Task | None = None  # both together, for an encoder that was trained on neither
    deciding: Task | None = None


def divide(workspace: Workspace) -> tuple[Marks, dict[str, Task]]:
    """The marks, and the tasks that decide by name: held-out marks first, then self-made queries.

    Brings the split up to date: what was added since is in none of its parts yet.
    """
    try:
        split(workspace)
    except ConfigError:
        if "split" in workspace.config:
            raise
        split(workspace, settings={"method": "stratified", "unseen": 0.0})  # a book or two: parts of documents
    marked, marks = marked_task(workspace), Marks()
    if marked is not None:
        keys = id_keys([normalise(text) for text in marked.queries.values()]) % 5
        sides = ((3, 4), (2,), (2, 3, 4), (0, 1))  # in the order of the fields
        chosen = [[query for query, key in zip(marked.queries, keys, strict=True) if key in side] for side in sides]
        marks = Marks(*(restricted(marked, queries) if queries else None for queries in chosen))
    tasks = {"marks": marks.deciding} if marks.deciding else {}
    own = {str(n): each for n, each in enumerate(ruled(workspace, PoolOptions("validation", _OWN_QUERIES)))}
    if own:
        with contextlib.closing(Corpus(workspace)) as corpus:
            qrels = {name: dict.fromkeys(corpus.ids_of(list(each.origins)), 1) for name, each in own.items()}
        tasks[OWN] = Task(OWN, {name: each.text for name, each in own.items()}, qrels)
    return marks, tasks


def measure(
    workspace: Workspace, name: str, encoder: str, tasks: Mapping[str, Task], learned: Task | None = None
) -> Candidate:
    """An encoder with its present weights, or with those that are fitted to the marks that are learned from."""
    fitted = None
    with contextlib.closing(Retriever(workspace)) as retriever:
        fusion = retriever.dense(encoder).fusion
    if learned is not None and len(learned.qrels) >= FEWEST:
        fitted = fit(workspace, learned, encoder, measure=MEASURE)
        fusion = Fusion(**fitted["fusion"])
    values = {}
    for place, task in tasks.items():
        with asking(workspace, task) as search:
            search.prepare([("auto", encoder)])
            values[place] = fusion_values(search, MEASURE, encoder=encoder)[0](fusion)
    return Candidate(name, encoder, fusion, values, fitted)


def choose(today: Candidate, candidates: Sequence[Candidate]) -> Candidate | None:
    """The best candidate that is better than what search uses; None where none is.

    Held-out marks decide: better is a gain that its interval confirms. On self-made queries the mean may not fall by
    more than its standard error, on few of them not at all. These alone decide nothing: encoders are trained on such
    queries, and gain on them whatever people find (docs/history.md).
    """

    def keeps(candidate: Candidate, task: str) -> bool:
        gains = candidate.values[task] - today.values[task]
        noise = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) >= FEWEST else 0.0
        return bool(gains.mean() >= -noise)

    if "marks" not in today.values:
        return None
    better: dict[int, float] = {}
    for place, candidate in enumerate(candidates):
        gained = gain(today.values["marks"], candidate.values["marks"])
        if gained.is_confirmed and all(keeps(candidate, task) for task in today.values if task != "marks"):
            better[place] = gained.mean
    return candidates[max(better, key=better.__getitem__)] if better else None


# ---------------------------------------------------------------- training


def train(
    workspace: Workspace,
    kind: str,
    logged: Sequence[LoggedQuery],
    learned: Task | None,
    limits: Limits | None,
    notes: list[str],
) -> str:
    """Train an encoder on all that there is to learn from; returns its name, which none in use has."""
    require("torch", "train")
    undo = (read_manifest(workspace.adapted) or {}).get("undo") or {}
    in_use = {default_encoder(workspace), undo.get("encoder")}  # not one whose training was killed
    name = next(each for number in range(1, 100) if (each := f"adapted-{kind}-{number}") not in in_use)
    try:
        shown = _make_sets(workspace, logged, learned, limits, notes)
        verb = static_model if kind == "static" else finetune_model
        verb(workspace, name, settings={"sets": shown})
    finally:
        for each in _PRIVATE_SETS:
            remove(workspace.training(each))
    return name


def _make_sets(
    workspace: Workspace, logged: Sequence[LoggedQuery], learned: Task | None, limits: Limits | None, notes: list[str]
) -> dict[str, float]:
    """Mine and import what is trained on; returns how often each set is shown."""
    answers = zip(learned.queries.values(), learned.relevant(), strict=True) if learned else ()
    marked = [(text, passage) for text, passages in answers for passage in passages]
    makers: dict[str, Callable[[str], Any]] = {
        "adapt-pairs": lambda name: mine(workspace, "pairs", name=name),
        "adapt-queries": lambda name: mine(workspace, "queries", name=name),
    }
    if limits is not None:
        makers["adapt-written"] = lambda name: write_queries(workspace, limits, name=name)
    known, shown = trainable_sets(workspace), dict[str, float]()
    for number, source in enumerate(filter(None, chosen_sources(workspace).split(","))):
        if source in known:
            shown[source] = 1.0
        elif (workspace.root / source).is_file():
            makers[f"adapt-summaries-{number}"] = partial(_import, workspace, workspace.root / source)
    counts: dict[str, int] = {}
    with _scratch(workspace) as scratch:
        for name, pairs in (("adapt-marks", marked), ("adapt-asked", _agreed(workspace, logged))):
            if pairs:
                path = scratch / f"{name}.jsonl"
                lines = (json.dumps({"query": text, "passage": passage}) for text, passage in pairs)
                write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
                makers[name] = partial(_import, workspace, path)
        for name, make in makers.items():
            try:
                counts[name] = int(make(name)["records"])
            except MissingExtra:
                raise
            except LemmataError as error:  # a corpus without links makes no pairs
                cause = error.cause if isinstance(error, InputError) else error  # without the path of a scratch file
                notes.append(f"{name}: {cause}")
    shown |= dict.fromkeys(counts, 1.0)
    if "adapt-marks" in counts:
        others = sum(counts.values()) - counts["adapt-marks"]
        wanted = _MARKED_SHARE / (1 - _MARKED_SHARE) * others / max(1, counts["adapt-marks"])
        shown["adapt-marks"] = float(np.clip(wanted, 1.0, _MOST_TIMES))
    return shown


def _import(workspace: Workspace, path: Path, name: str) -> Any:
    return import_queries(workspace, path, name=name)


@contextlib.contextmanager
def _scratch(workspace: Workspace) -> Iterator[Path]:
    """A folder that is removed afterwards, and by the next call where this one is killed."""
    cache = workspace.encodings.parent
    folder = cache / f".adapt.{os.getpid()}"
    for leftover in filter(is_leftover, cache.glob(".adapt.*")):
        remove(leftover)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        remove(folder)


def _agreed(workspace: Workspace, logged: Sequence[LoggedQuery]) -> list[tuple[str, str]]:
    """Queries without a mark: with what was opened, else with the passage that both words and vectors put first."""
    unmarked = [query for query in logged if not (query.answers or query.wrong)][:_ASKED]
    opened = [(query.text, passage) for query in unmarked for passage in query.opened]
    texts = [query.text for query in unmarked if not query.opened]
    if not texts:
        return opened
    with contextlib.closing(Retriever(workspace)) as retriever:
        by_words, by_vectors = (retriever.search_rows(texts, 1, name)[0][:, 0] for name in ("lexical", "dense"))
        agreed = np.flatnonzero((by_words == by_vectors) & (by_words >= 0))
        ids = retriever.corpus.ids_of(by_words[agreed].tolist())
    return opened + list(zip([texts[place] for place in agreed], ids, strict=True))


# ---------------------------------------------------------------- adopting


def _search_with(workspace: Workspace, encoder: str, fitted: Mapping[str, Any] | None) -> None:
    """Let search use an encoder with the weights that were fitted, or with the default ones."""
    had_map = vectors_of(workspace, default_encoder(workspace)).map.is_dir()
    if encoder != default_encoder(workspace):
        index(workspace, settings={"encoder": encoder})
        if had_map:
            build_map(workspace)
    with workspace.hold():
        store_fit(workspace, encoder, fitted)


def _remove_others(workspace: Workspace, kept: set[str]) -> None:
    """Delete the encoders of earlier adaptations that neither search nor undoing needs, and what kills left of them."""
    indexed = {each.encoder for each in vector_sets(workspace)}
    trained = {path.name.removeprefix(".").removesuffix(".old") for path in workspace.models_folder.glob("*adapted-*")}
    for name in sorted((indexed | trained) - kept):
        if re.fullmatch(rf"adapted-({'|'.join(_KINDS)})-\d+", name):
            if name in indexed:
                remove_encoder(workspace, name)
            retire(workspace.model(name))
