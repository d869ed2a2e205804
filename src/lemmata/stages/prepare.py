"""From the training sets and validation tasks that a workspace names to one job that trains anywhere.

A name may begin with the path of another workspace: `pairs`, `../planetmath/pairs`. Of a set, only a source or a
relation can be taken: `pairs:refers_to`. A task is one that a workspace poses of its validation part (`references`,
`../planetmath/concepts#seed` for the seed protocol), a file of queries with their passages, or a folder in the format
of BEIR with the judgments to use: `scifact#train`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.archives import open_decompressed
from lemmata.errors import ConfigError, InputError, WorkspaceError
from lemmata.evaluate.tasks import Task, task_from
from lemmata.files import sha256_of
from lemmata.ingest.beir import read_judged, read_passages, read_table
from lemmata.ingest.logs import jsonl_rows
from lemmata.measures import judged
from lemmata.mine.export import read_batches, text_columns
from lemmata.stages.evaluate import TASKS, TaskOptions, corpus_task, table_task
from lemmata.stages.training_sets import sets as mined_sets
from lemmata.store.corpus import Corpus
from lemmata.store.layout import Layout, read_manifest
from lemmata.store.split import open_split
from lemmata.train.finetune import FinetuneOptions
from lemmata.train.job import Job, JobWriter, fingerprint
from lemmata.types import Integers, Mask, Progress

__all__ = ["elsewhere", "pack", "split_facts", "split_key"]

PART = "validation"
BATCH = 2000


class _Asked(NamedTuple):
    """A task with the texts that it is asked on."""

    task: Task
    ids: Sequence[str]  # of all passages
    texts: Sequence[str]
    documents: Integers | None = None  # (passages,)
    unseen: frozenset[str] = frozenset()  # passages of documents that are held out whole


def pack(
    layout: Layout, base: Path, options: FinetuneOptions, folder: Path, progress: Progress, *, part: str = PART
) -> Job:
    """Write the job of a fine-tuning to `folder`; of the part `test` only the tasks: nothing is trained there."""
    writer = JobWriter(folder, base, progress, prompts=options.prompts)
    wanted = {} if part == "test" else options.sets or dict.fromkeys(mined_sets(layout), 1.0)
    if not wanted and part != "test":
        raise WorkspaceError("there is nothing to train on: mine something first, see 'lemmata mine --help'")
    sources = {spec: _set_of(layout, spec) for spec in wanted}
    for spec, source in sources.items():
        progress(f"packing {spec}", 0, None)
        writer.add_set(spec, _records(source), {"sha256": sha256_of([source.file]), "split": source.split})
    for spec, measure in options.validation.items():
        progress(f"packing {spec}", 0, None)
        _add(writer, spec, _asked(layout, spec, part), measure, options, general=False)
    for spec, measure in options.guard.items():
        progress(f"packing {spec}", 0, None)
        _add(writer, spec, _asked(layout, spec, part), measure, options, general=True)
    return writer.close({"options": asdict(options), "base": base.name})


# ---------------------------------------------------------------- sets


class _Set(NamedTuple):
    file: Path
    only: str  # a source, a relation, or both with a slash; empty: all
    split: str  # hash of the split that it was mined under


def _set_of(layout: Layout, spec: str) -> _Set:
    named, _, only = spec.partition(":")
    there, name = _workspace(layout, named)
    file = there.training_file(name)
    if read_manifest(there.manifest(there.training(name))) is None:
        known = ", ".join(mined_sets(there)) or "none yet"
        raise WorkspaceError(f"{there.root} has no training set {name!r} (there are: {known})")
    return _Set(file, only, split_key(there))


def elsewhere(layout: Layout, spec: str) -> tuple[Layout, str]:
    """The workspace that a name begins with, else this one, and what is left of the name."""
    path, _, name = spec.rpartition("/")
    return Layout(layout.root / Path(path).expanduser()) if path else layout, name


def _workspace(layout: Layout, spec: str) -> tuple[Layout, str]:
    there, name = elsewhere(layout, spec)
    if not there.config.is_file():
        raise ConfigError(f"{spec!r} names {there.root}, which is no workspace")
    return there, name


def _records(source: _Set) -> Iterator[list[str | None]]:
    columns = text_columns(source.file)
    seen: set[str] = set()
    found = False
    for batch in read_batches(source.file, BATCH, [*columns, "source", "relation"]):
        for record in batch:
            told = (record["source"], record["relation"], f"{record['source']}/{record['relation']}")
            if not source.only or source.only in told:
                found = True
                yield [record[column] for column in columns]
            seen.add(told[2])
    if source.only and not found:
        known = ", ".join(sorted(seen)) or "none"
        raise ConfigError(f"{source.file.parent.name!r} has nothing from {source.only!r} (there are: {known})")


# ---------------------------------------------------------------- tasks


def _add(writer: JobWriter, spec: str, asked: _Asked, measure: str, options: FinetuneOptions, *, general: bool) -> None:
    task = asked.task
    rows = _pool(asked, options)
    place = {asked.ids[row]: number for number, row in enumerate(rows.tolist())}
    itself = [place.get(task.itself[query], -1) if query in task.itself else -1 for query in task.qrels]
    writer.add_validation(
        spec,
        [task.queries[query] for query in task.qrels],
        (asked.texts[row] for row in rows.tolist()),
        judged(task.qrels, place.__getitem__),
        np.array(itself, np.int64),
        measure=measure,
        general=general,
        documents=None if asked.documents is None else asked.documents[rows],
        unseen=_unseen(asked),
    )


def _pool(asked: _Asked, options: FinetuneOptions) -> Integers:
    """What may be found: all candidates, or the answers and a random choice of the others."""
    allowed = np.ones(len(asked.ids), bool) if asked.task.candidates is None else asked.task.candidates
    answers = {passage for grades in asked.task.qrels.values() for passage in grades}
    needed = np.array([identity in answers for identity in asked.ids], bool)
    if not options.pool or int((allowed | needed).sum()) <= options.pool:
        return np.flatnonzero(allowed | needed)
    others = np.flatnonzero(allowed & ~needed)
    more = max(0, options.pool - int(needed.sum()))
    chosen = np.random.default_rng(options.seed).permutation(others)[:more]
    return np.sort(np.concatenate([np.flatnonzero(needed), chosen]))


def _asked(layout: Layout, spec: str, part: str) -> _Asked:
    path, _, which = spec.partition("#")
    if path.rpartition("/")[2] in TASKS:
        there, name = _workspace(layout, path)
        protocol = which or "passage"
        task = corpus_task(there, name, TaskOptions(part=part, share=0.0, protocol=protocol))
        return _on_corpus(there, task)
    found = layout.root / Path(path).expanduser()
    if found.is_dir():
        return _from_folder(layout, found, which or "test")
    if found.is_file():
        there = _workspace(layout, f"{which}/")[0] if which else layout
        return _on_corpus(there, table_task(there, found.stem, *read_table(found), file=found))
    raise ConfigError(f"{spec!r} is neither a task ({', '.join(TASKS)}), nor a file of queries, nor a folder")


def _on_corpus(layout: Layout, task: Task) -> _Asked:
    with contextlib.closing(Corpus(layout)) as corpus:
        ids = corpus.ids()
        unseen: frozenset[str] = frozenset()
        if read_manifest(layout.manifest(layout.split)) is not None:
            held = open_split(layout, corpus.inputs).unseen
            unseen = frozenset(ids[row] for row in np.flatnonzero(held).tolist())
        return _Asked(task, ids, list(corpus.contents()), corpus.document_numbers(), unseen)


def _unseen(asked: _Asked) -> Mask | None:
    """Which queries are about documents that are held out whole: their own, else those of all their answers."""
    if not asked.unseen:
        return None
    task = asked.task
    told = [
        task.itself[query] in asked.unseen if query in task.itself else asked.unseen.issuperset(grades)
        for query, grades in task.qrels.items()
    ]
    return np.array(told, bool)


def _from_folder(layout: Layout, folder: Path, which: str) -> _Asked:
    """Queries and judgments in the format of BEIR, on the folder's corpus or, where it has none, on the workspace's."""
    task = task_from(folder.name, *read_judged(folder, which))
    corpora = sorted(folder.glob("corpus.jsonl*"))
    if not corpora:
        return _on_corpus(layout, task)
    ids: list[str] = []
    texts: list[str] = []
    with open_decompressed(corpora[0]) as stream:
        for reading in read_passages(jsonl_rows(stream, _refuse(corpora[0])), file=str(corpora[0])):
            for passage in reading.passages:
                ids.append(passage.id)
                texts.append(passage.content)
    return _Asked(task, ids, texts)


def _refuse(file: Path) -> Callable[[int, str], None]:
    def refuse(line: int, cause: str) -> None:
        raise InputError(cause, file=str(file), line=line)

    return refuse


def split_key(layout: Layout) -> str:
    """Another value means that the corpus was parted anew."""
    return fingerprint(read_manifest(layout.manifest(layout.split)))


def split_facts(layout: Layout) -> Mapping[str, Any]:
    """How the corpus was parted."""
    with contextlib.closing(Corpus(layout)) as corpus:
        parted = open_split(layout, corpus.inputs)
    return {"counts": parted.counts(), "manifest": read_manifest(layout.manifest(layout.split))}
