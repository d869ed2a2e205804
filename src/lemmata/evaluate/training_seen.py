"""What training has seen of a task: queries that models know from another split, leaks, seen and unseen documents."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lemmata.core.errors import LeakageError
from lemmata.core.types import Mask, Passage
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import Example, audit, examples, normalise
from lemmata.corpus.split import Keys, id_keys
from lemmata.corpus.trained import Trained, read_trained
from lemmata.corpus.training_files import split_key
from lemmata.encode.load import model_folder
from lemmata.evaluate.task_search import Parsed
from lemmata.evaluate.tasks import Task
from lemmata.search.names import split_reranker
from lemmata.search.retriever import Retriever


def known_queries(
    retriever: Retriever, task: Task, parsed: Mapping[str, Parsed], encoder: str
) -> tuple[dict[str, int], list[str]]:
    """Queries of a part that encoders and rerankers know from another split: the most of an encoder, and warnings."""
    known: dict[str, int] = {}
    warnings: list[str] = []
    if not task.part:
        return known, warnings
    for name in dict.fromkeys(filter(None, (encoder, *(named for _, named in parsed.values())))):
        counts, about_encoder = _trained_on(retriever.workspace, retriever.corpus, task, name)
        known = {what: max(count, known.get(what, 0)) for what, count in counts.items()} or known
        warnings += about_encoder
    rerankers = (split_reranker(name) for name in parsed)
    for model in dict.fromkeys(retriever.rerankers.name(model) for _, number, model in rerankers if number):
        warnings += _trained_on(retriever.workspace, retriever.corpus, task, model)[1]
    return known, warnings


def _trained_on(workspace: Workspace, corpus: Corpus, task: Task, encoder: str) -> tuple[dict[str, int], list[str]]:
    """Queries of a part that the encoder knows from its training under another split, counted, and the warning."""
    folder = model_folder(encoder, workspace.models_folder)
    split = split_key(workspace)
    others = [record for record in _trained_here(workspace, corpus, encoder) if record.split != split]
    if not others:
        model = folder.parent if folder.name == "onnx" else folder
        trained_under = str((read_manifest(model / "manifest.json") or {}).get("split", split))
        if trained_under == split or read_trained(folder):
            return {}, []
        warning = f"WARNING: {encoder} was trained under another split, and it is not recorded on what: train it again"
        return {}, [warning]
    trained = _among(corpus.ids(), [record.passages for record in others])
    texts = {query: normalise(task.queries[query]) for query in task.qrels}
    asked = _among(list(texts.values()), [record.queries for record in others])
    counts = {
        "queries": sum(texts[query] in asked or task.itself.get(query) in trained for query in task.qrels),
        "answers": sum(any(name in trained for name in relevant) for relevant in task.relevant()),
    }
    seeds = ", ".join(sorted({str(record.seed) for record in others}))
    how = f"{encoder} was trained under another split (seed {seeds})"
    if not any(counts.values()):
        return counts, [f"{how}, but on none of these queries and on none of their answers"]
    warning = (
        f"WARNING: {how}: of {len(task.qrels)} queries it was trained on {counts['queries']} themselves, and on answers"
        f" of {counts['answers']}; the figures may be too good"
    )
    return counts, [warning]


def _trained_here(workspace: Workspace, corpus: Corpus, model: str) -> list[Trained]:
    """What a model was trained on in this corpus; ids that a set of another corpus has in common do not count."""
    keys = id_keys(corpus.ids())
    records = read_trained(model_folder(model, workspace.models_folder))
    return [record for record in records if 2 * int(np.isin(record.passages, keys).sum()) > len(record.passages)]


def _among(names: Sequence[str], keys: Sequence[Keys]) -> set[str]:
    """Those of the names whose hashes are known."""
    known = np.isin(id_keys(names), np.concatenate(keys))
    return {names[place] for place in np.flatnonzero(known).tolist()}


def _passage(corpus: Corpus, identity: str) -> Passage | None:
    """A passage by its id; None where it is not in the corpus."""
    with contextlib.suppress(KeyError):
        return corpus[corpus.row(identity)]
    return None


def audit_task(corpus: Corpus, task: Task, train: Sequence[Example], allow_leakage: bool) -> list[str]:
    def text(identity: str) -> str:
        # of a missing passage only its id is known; empty texts would be near-duplicates
        passage = _passage(corpus, identity)
        return passage.bare_text if passage else identity

    def neighbours(identity: str) -> list[str]:
        passage = _passage(corpus, identity)
        if passage is None:
            return []
        targets = [link.target for link in passage.links if link.target]
        return targets + [source for source, _ in corpus.referring(identity)]

    result = audit(train, examples(task.queries, task.qrels), text=text, neighbours=neighbours)
    leaks = [offence for offence in result.offences if offence.kind != "neighbour"]
    if leaks and not allow_leakage:
        raise LeakageError(f"{result.sentence()}; --allow-leakage evaluates anyway and says so in the report")
    return [("LEAKAGE ALLOWED: " if leaks else "") + result.sentence()]


def seen_and_unseen(corpus: Corpus, task: Task, trained: Iterable[str]) -> dict[str, Mask]:
    """Queries by whether a document of their answers has a `trained` passage; of a missing one nobody saw another."""

    def documents(identities: Iterable[str]) -> set[str]:
        return {passage.document for identity in identities if (passage := _passage(corpus, identity))}

    known = documents(trained)
    seen = np.array([not known.isdisjoint(documents(relevant)) for relevant in task.relevant()], bool)
    return {"seen": seen, "unseen": ~seen}


def trained_passages(retriever: Retriever, parsed: Mapping[str, Parsed], encoder: str) -> set[str]:
    """The passages of the corpus that the encoders and rerankers of these retrievers were trained on."""
    models = [encoder, *(named for _, named in parsed.values())]
    models += [retriever.rerankers.name(model) for _, number, model in map(split_reranker, parsed) if number]
    records = [
        record
        for model in dict.fromkeys(filter(None, models))
        for record in _trained_here(retriever.workspace, retriever.corpus, model)
    ]
    return _among(retriever.corpus.ids(), [record.passages for record in records]) if records else set()
