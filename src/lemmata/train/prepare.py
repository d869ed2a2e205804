"""From the training sets and validation tasks that a workspace names to one job that trains anywhere.

A name may begin with the path of another workspace: `pairs`, `../planetmath/pairs`. A set may be restricted to a source
or a relation: `pairs:refers_to`. A task is one that a workspace poses on its validation part (`references`,
`../planetmath/concepts#seed` for the seed protocol), a file of queries with their passages, or a folder in the format
of BEIR with the judgments to use: `scifact#train`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.archives import open_decompressed
from lemmata.core.errors import ConfigError, InputError, LeakageError, WorkspaceError, suggest
from lemmata.core.files import check_replaceable, sha256_of, writing
from lemmata.core.types import Integers, Mask, Progress
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import normalise
from lemmata.corpus.split import Keys, id_keys
from lemmata.corpus.trained import Trained, write_trained
from lemmata.corpus.training_files import read_batches, set_file, split_key, text_columns
from lemmata.evaluate.measures import judged
from lemmata.evaluate.tasks import Task, restricted, task_from
from lemmata.evaluate.workspace_tasks import TASKS, corpus_task, read_asked, table_task
from lemmata.ingest.beir import read_judged, read_passages
from lemmata.ingest.logs import jsonl_rows
from lemmata.mine.training_sets import check_sets, trainable_sets
from lemmata.plant.link import indexed_corpus
from lemmata.train.finetune import FinetuneOptions
from lemmata.train.job import Job, JobWriter, open_job
from lemmata.train.validate import pool_size

BATCH = 2000  # records that are read at once
REPLAY = 1.0  # records that a model has seen, for each new one, where it is trained further
_COINCIDENCE = 0.05  # share of validation queries that may equal a training query


class NewToModel(NamedTuple):
    """What is new to a model that is trained further, and what it has seen."""

    passages: Keys  # hashes of those that came into the corpus after it was trained
    trained: Sequence[Trained]


def new_queries(task: Task, new: Keys) -> list[str]:
    """The queries about new passages: their own passage is new, or all their answers where they have none."""
    about = {query: [task.itself[query]] if query in task.itself else list(task.qrels[query]) for query in task.qrels}
    ids = list(dict.fromkeys(identity for passages in about.values() for identity in passages))
    fresh = {ids[place] for place in np.flatnonzero(np.isin(id_keys(ids), new)).tolist()}
    return [query for query, passages in about.items() if fresh.issuperset(passages)]


def prepare(
    workspace: Workspace, base: Path, options: FinetuneOptions, folder: Path, *, new: NewToModel | None = None
) -> Job:
    """Write the job of a fine-tuning to `folder`.

    A model that is trained further gets the records that are `new` to it and a sample of the others. Of its validation
    tasks the queries about new passages choose the model, and the others guard what it knows.

    LeakageError for a set that was mined under another split than its workspace has now, and for validation queries
    that are trained on. The folder is written as a whole or not at all; an earlier job in it is replaced.
    """
    check_replaceable(folder, "training job", read_manifest(folder / "manifest.json") is not None)
    times = options.sets or dict.fromkeys(trainable_sets(workspace), 1.0)
    if not times:
        raise WorkspaceError("there is nothing to train on: mine something first, see 'lemmata mine --help'")
    set_files = _set_files(workspace, times)
    for name in options.preserved_sets:
        if name not in times:
            raise ConfigError(f"preserved_sets: no set {name!r} is trained on{suggest(name, list(times))}")
    if not new and all(name in options.preserved_sets for name, often in times.items() if often):
        raise ConfigError("preserved_sets: nothing is left to learn from, as every set is to keep its vectors")
    chosen = _new_and_replayed(set_files, new, options.seed, workspace.progress) if new else {}
    with writing(folder) as temporary:
        writer = JobWriter(temporary, base, workspace.progress, prompts=options.prompts)
        texts = 0.0  # shown in training
        trained: list[Trained] = []
        for name, (other, file) in set_files.items():
            workspace.progress(f"preparing {name}", 0, None)
            facts: dict[str, Any] = {"sha256": sha256_of([file]), "split": split_key(other)}
            used: Mask | None = None
            if new:
                used, number_new = chosen[name]
                if not used.any():
                    continue
                facts |= {"new": number_new, "replayed": int(used.sum()) - number_new}
            seen = _Seen()
            count = writer.add_set(name, _records(file, name.partition(":")[2], seen, used), facts)
            trained.append(seen.under(other))
            texts += count * len(text_columns(file)) * times[name] * options.epochs
        _add_tasks(workspace, writer, options, round(texts), trained, new)
        write_trained(temporary, trained)
        writer.close({"options": asdict(options), "base": base.name, "split": _split_facts(workspace)})
    return open_job(folder)


def _add_tasks(
    workspace: Workspace,
    writer: JobWriter,
    options: FinetuneOptions,
    training_texts: int,
    trained: Sequence[Trained],
    new: NewToModel | None,
) -> None:
    tasks = [(name, measure, False) for name, measure in options.validation.items()]
    tasks += [(name, measure, True) for name, measure in options.guard.items()]
    for name, measure, general in tasks:
        workspace.progress(f"preparing {name}", 0, None)
        posed = _pose(workspace, name)
        _check_queries(name, posed.task, trained)
        rows = pool_rows(posed.task, posed.ids, pool_size(training_texts, len(tasks)), options.seed)
        if new is None or general:
            _add_task(writer, name, posed, rows, measure, general=general)
            continue
        about_new = dict.fromkeys(new_queries(posed.task, new.passages))
        others = [query for query in posed.task.qrels if query not in about_new]
        for which, queries in (("new", about_new), ("known", others)):
            if queries:
                own = posed._replace(task=restricted(posed.task, queries))
                _add_task(writer, f"{name} ({which} passages)", own, rows, measure, general=which == "known")


def _check_queries(name: str, task: Task, trained: Iterable[Trained]) -> None:
    """LeakageError where queries from a file are trained on: they would choose the model that knows them by heart.

    Two people may ask the same, so a few equal ones pass.
    """
    if name.partition("#")[0].rpartition("/")[2] in TASKS:
        return  # of the held-out part
    texts = [task.queries[query] for query in task.qrels]
    known = np.concatenate([id_keys(()), *(record.queries for record in trained)])
    repeated = np.flatnonzero(np.isin(id_keys([normalise(text) for text in texts]), known))
    if len(repeated) > _COINCIDENCE * len(texts):
        raise LeakageError(
            f"{len(repeated):,} of {len(texts):,} queries of {name!r} are trained on as well, for example"
            f" {texts[int(repeated[0])]!r}: take them out of the training set or out of the validation"
        )


def _split_facts(workspace: Workspace) -> dict[str, Any] | None:
    """What a model's card says about the split of its workspace."""
    manifest = read_manifest(workspace.manifest(workspace.split_folder))
    if manifest is None:
        return None
    facts = {name: manifest[name] for name in ("method", "counts", "seed")}
    return {**facts, "sha256": split_key(workspace)}


# ---------------------------------------------------------------- sets


def _set_files(workspace: Workspace, names: Iterable[str]) -> dict[str, tuple[Workspace, Path]]:
    """The workspace and the file of each training set, after the leakage check."""
    set_files: dict[str, tuple[Workspace, Path]] = {}
    by_workspace: dict[Path, tuple[Workspace, list[str]]] = {}
    for spec in names:
        other, name = _existing_workspace(workspace, spec.partition(":")[0])
        if read_manifest(other.manifest(other.training(name))) is None:
            available = ", ".join(trainable_sets(other)) or "none yet"
            raise WorkspaceError(f"{other.root} has no training set {name!r} (available: {available})")
        set_files[spec] = other, set_file(other, name)
        by_workspace.setdefault(other.root, (other, []))[1].append(name)
    for other, mined in by_workspace.values():
        check_sets(other, dict.fromkeys(mined))
    return set_files


class _Seen:
    """Hashes of the passages and queries of a training set, collected while it is read."""

    def __init__(self) -> None:
        self._passages: list[Keys] = [id_keys(())]
        self._queries: list[Keys] = [id_keys(())]

    def add(self, batch: Iterable[Mapping[str, Any]]) -> None:
        passages: set[str] = set()
        queries: set[str] = set()
        for record in batch:
            passages.update((record["positive_id"], *record["negative_ids"]))
            if record["anchor_id"] is None:
                queries.add(normalise(record["anchor"]))
            else:
                passages.add(record["anchor_id"])
        self._passages.append(id_keys(passages))
        self._queries.append(id_keys(queries))

    def under(self, workspace: Workspace) -> Trained:
        manifest = read_manifest(workspace.manifest(workspace.split_folder)) or {}
        passages, queries = (np.unique(np.concatenate(keys)) for keys in (self._passages, self._queries))
        return Trained(split_key(workspace), manifest.get("seed", 0), manifest.get("method", ""), passages, queries)


def resolve_workspace(workspace: Workspace, name: str) -> tuple[Workspace, str]:
    """The workspace that a name begins with, else this one, and the rest of the name."""
    path, _, rest = name.rpartition("/")
    return Workspace(workspace.root / Path(path).expanduser(), workspace.progress) if path else workspace, rest


def _existing_workspace(workspace: Workspace, name: str) -> tuple[Workspace, str]:
    other, rest = resolve_workspace(workspace, name)
    if not other.config_file.is_file():
        raise ConfigError(f"{name!r} names {other.root}, which is no workspace")
    return other, rest


def _new_and_replayed(
    set_files: Mapping[str, tuple[Workspace, Path]], model: NewToModel, seed: int, progress: Progress
) -> dict[str, tuple[Mask, int]]:
    """For each set which of its records are used, and how many of them are new to the model.

    New is a record with a passage or a query that the model was not trained on. Of the others, a random sample of all
    sets together is replayed, `REPLAY` for each new one; without new records, none.
    """
    passages, queries = (
        np.unique(np.concatenate([id_keys(()), *(getattr(record, what) for record in model.trained)]))
        for what in ("passages", "queries")
    )
    is_new: dict[str, Mask] = {}
    for spec, (_, file) in set_files.items():
        progress(f"comparing {spec}", 0, None)
        parts = [np.zeros(0, bool)]
        columns = ["source", "relation", "anchor", "anchor_id", "positive_id"]
        for batch in read_batches(file, BATCH, columns):
            used = [record for record in batch if is_of(record, spec.partition(":")[2])]
            anchor_ids = [record["anchor_id"] for record in used]
            texts = [normalise(record["anchor"]) if record["anchor_id"] is None else "" for record in used]
            anchors = np.where(
                [identity is None for identity in anchor_ids],
                np.isin(id_keys(texts), queries),
                np.isin(id_keys([identity or "" for identity in anchor_ids]), passages),
            )
            parts.append(~(anchors & np.isin(id_keys([record["positive_id"] for record in used]), passages)))
        is_new[spec] = np.concatenate(parts)
    new = sum(int(mask.sum()) for mask in is_new.values())
    old = sum(int((~mask).sum()) for mask in is_new.values())
    share = min(1.0, REPLAY * new / max(1, old))
    generator = np.random.default_rng(seed)
    return {spec: (mask | (generator.random(len(mask)) < share), int(mask.sum())) for spec, mask in is_new.items()}


def is_of(record: Mapping[str, Any], restriction: str) -> bool:
    """Whether a record has the source or relation, or both with a slash; every record has the empty one."""
    source, relation = record["source"], record["relation"]
    return restriction in ("", source, relation, f"{source}/{relation}")


def _records(file: Path, restriction: str, seen: _Seen, chosen: Mask | None = None) -> Iterator[list[str | None]]:
    """The texts of a set's records; `restriction` is a source, a relation, or both with a slash.

    `chosen` says which of these records are used.
    """
    columns = text_columns(file)
    kinds: set[str] = set()
    matched = False
    others = ("source", "relation", "anchor_id", "positive_id", "negative_ids")
    for batch in read_batches(file, BATCH, [*columns, *others]):
        used = []
        for record in batch:
            kinds.add(f"{record['source']}/{record['relation']}")
            if is_of(record, restriction):
                used.append(record)
        matched = matched or bool(used)
        if chosen is not None:
            now, chosen = chosen[: len(used)], chosen[len(used) :]
            used = [record for record, is_chosen in zip(used, now.tolist(), strict=True) if is_chosen]
        seen.add(used)
        yield from ([record[column] for column in columns] for record in used)
    if restriction and not matched:
        available = ", ".join(sorted(kinds)) or "none"
        raise ConfigError(f"{file.parent.name!r} has no records of {restriction!r} (available: {available})")


# ---------------------------------------------------------------- tasks


class _Posed(NamedTuple):
    """A task with the passages that it is posed on."""

    task: Task
    ids: list[str]  # of all passages
    texts: list[str]


def _pose(workspace: Workspace, name: str) -> _Posed:
    path, _, detail = name.partition("#")
    if path.rpartition("/")[2] in TASKS:
        other, task_name = _existing_workspace(workspace, path)
        return _on_corpus(other, corpus_task(other, task_name, part="validation", protocol=detail or "passage"))
    file = workspace.root / Path(path).expanduser()
    if file.is_dir():
        if not detail:
            raise ConfigError(f"{name!r} would choose the model by test judgments: write {name}#train or {name}#dev")
        return _from_folder(workspace, file, detail)
    if file.is_file():
        other = _existing_workspace(workspace, f"{detail}/")[0] if detail else workspace
        return _on_corpus(other, table_task(other, file.stem, *read_asked(file), file=file))
    raise ConfigError(f"{name!r} is neither a task ({', '.join(TASKS)}), nor a file of queries, nor a folder")


def validation_queries(workspace: Workspace, specs: Iterable[str]) -> Task | None:
    """The first of some tasks whose queries come from a file or folder and whose answers are in this corpus.

    Tasks that the corpus poses itself are none: their queries repeat words of the answers, and weights fitted to them
    favour the lexical ranking too much.
    """
    for spec in specs:
        path, _, detail = spec.partition("#")
        file = workspace.root / Path(path).expanduser()
        if path.rpartition("/")[2] in TASKS or not file.exists() or bool(detail) != file.is_dir():
            continue
        if file.is_dir():
            task = task_from(spec, *read_judged(file, detail))
        else:
            task = table_task(workspace, file.stem, *read_asked(file), file=file, allow_missing=True)
        with contextlib.closing(Corpus(workspace)) as corpus:
            known = frozenset(corpus.ids())
        if all(passage in known for grades in task.qrels.values() for passage in grades):
            return task
    return None


def _on_corpus(workspace: Workspace, task: Task) -> _Posed:
    with contextlib.closing(Corpus(workspace)) as corpus:
        return _Posed(task, list(corpus.ids()), list(indexed_corpus(workspace, corpus).contents()))


def _from_folder(workspace: Workspace, folder: Path, judgments: str) -> _Posed:
    """Queries and judgments in the format of BEIR, on the folder's corpus or, where it has none, on the workspace's."""
    task = task_from(folder.name, *read_judged(folder, judgments))
    file = next(iter(sorted(folder.glob("corpus.jsonl*"))), None)
    if file is None:
        return _on_corpus(workspace, task)

    def refuse(line: int, cause: str) -> None:
        raise InputError(cause, file=str(file), line=line)

    with open_decompressed(file) as stream:
        passages = [
            p for reading in read_passages(jsonl_rows(stream, refuse), file=str(file)) for p in reading.passages
        ]
    return _Posed(task, [passage.id for passage in passages], [passage.content for passage in passages])


def pool_rows(task: Task, ids: list[str], most: int, seed: int) -> Integers:
    """The rows of the candidates, in order; of more than `most`, the answers and a random choice of the others."""
    allowed = np.ones(len(ids), bool) if task.candidates is None else task.candidates
    answers = {passage for grades in task.qrels.values() for passage in grades}
    needed = np.array([identity in answers for identity in ids], bool)
    if int((allowed | needed).sum()) <= most:
        return np.flatnonzero(allowed | needed)
    others = np.random.default_rng(seed).permutation(np.flatnonzero(allowed & ~needed))
    return np.sort(np.concatenate([np.flatnonzero(needed), others[: max(0, most - int(needed.sum()))]]))


def _add_task(writer: JobWriter, name: str, posed: _Posed, rows: Integers, measure: str, *, general: bool) -> None:
    task = posed.task
    place = {posed.ids[row]: number for number, row in enumerate(rows.tolist())}
    writer.add_validation(
        name,
        [task.queries[query] for query in task.qrels],
        (posed.texts[row] for row in rows.tolist()),
        judged(task.qrels, place.__getitem__),
        np.array([place.get(task.itself.get(query, ""), -1) for query in task.qrels], np.int64),
        measure=measure,
        general=general,
    )
