"""Summaries in the index: short texts about passages, from training sets and files.

They are encoded beside the vectors, and their words are read as part of the headings of their passages. Search reads
copies: a set that is mined again, or a changed file, counts from the next `lemmata index` on.

Sources name passages by their ids, and an id such as paper#lemma-1 is that of another text once a lemma is put before
it. So a summary belongs to the text that had the id when it was first read, and follows it. Where that text is nowhere,
it was edited, and its id tells where; unless another known text has the id now.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from lemmata.core.artefacts import is_current, set_digest, summary_index, summary_neighbours
from lemmata.core.errors import InputError
from lemmata.core.files import retire, sha256_of
from lemmata.core.types import Encoder, Integers
from lemmata.core.workspace import Workspace, open_manifest, read_manifest, vector_sets, vectors_of
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.texts import Hashes, hash_texts, headed, match_rows
from lemmata.corpus.training_files import read_batches, set_file, sets
from lemmata.ingest.beir import read_table
from lemmata.ingest.queries import judged_queries, read_imported
from lemmata.search.summaries.store import (
    Bindings,
    Summary,
    open_old_summaries,
    open_summaries,
    read_bindings,
    read_texts,
    summaries_manifest,
    write_bindings,
    write_texts,
)
from lemmata.vectors.ann import EXACT_UP_TO
from lemmata.vectors.fill import build_neighbours, fill_vectors
from lemmata.vectors.milvus import Place, kind_numbers, send

NONE = "none"
IMPORTED = "imported"  # the author of texts from a file
RULES = "rules"
_NO_PASSAGE, _REPLACED = -1, -2  # in place of a row
_BATCH = 10_000  # records of a training set read at once


# ---------------------------------------------------------------- sources


def chosen_sources(workspace: Workspace) -> str:
    """The sources of the summaries that search uses, comma-separated; empty where it uses none."""
    encoders = vector_sets(workspace)  # the default one first, unless the note on it is damaged
    chosen = next((one for one in encoders if one.is_default or one.summaries.is_dir()), None)
    cure = "name its sources again with 'lemmata index --summaries NAMES', or none"
    manifest = open_manifest(chosen.summaries / "manifest.json", cure) if chosen else None
    sources = manifest["sources"] if manifest else _indexed_sources(workspace)  # where there are no vectors
    return ",".join(source["name"] for source in sources)


def sources_of(workspace: Workspace, names: str) -> list[dict[str, str]]:
    """Name, author and hash of each source as it is now; a file is named by its path below the workspace.

    A file that is not there any more, as in a copy of a workspace, is what the lexical index read from it.
    """
    sources: list[dict[str, str]] = []
    if names in ("", NONE):
        return sources
    known = sets(workspace)
    for name in dict.fromkeys(filter(None, map(str.strip, names.split(",")))):
        if name in known:
            digest = set_digest(workspace, name) or sha256_of([set_file(workspace, name)])
            sources.append({"name": name, "author": _author(known, name), "sha256": digest})
        elif (workspace.root / name).is_file():
            sources.append({"name": name, "author": IMPORTED, "sha256": sha256_of([workspace.root / name])})
        elif copied := [source for source in _indexed_sources(workspace) if source["name"] == name]:
            sources += copied
        else:
            there = ", ".join(known) or "none yet"
            raise InputError(
                f"there is no training set {name!r} to take summaries from (there are: {there}), and no file"
                f" {os.path.normpath(workspace.root / name)}: name others with --summaries, or {NONE}"
            )
    return sources


def _indexed_sources(workspace: Workspace) -> list[dict[str, str]]:
    """The sources whose texts the lexical index has."""
    return list((read_manifest(workspace.manifest(workspace.lexical_folder)) or {}).get("summaries", []))


def _author(known: Mapping[str, Mapping[str, Any]], name: str, of: tuple[str, ...] = ()) -> str:
    """Who wrote the queries of a training set: a language model by its name, somebody else, or rules."""
    manifest = known.get(name, {})
    options = manifest.get("options", {})
    if options.get("model"):
        return str(options["model"])
    if "file" in options:
        return IMPORTED
    others = [other for other in manifest.get("made_from", {}) if other not in (name, *of)]
    return ", ".join(dict.fromkeys(_author(known, other, (*of, name)) for other in others)) or RULES


def _read(workspace: Workspace, corpus: Corpus, name: str) -> Iterator[tuple[str, str]]:
    """Passage id and text of everything that a source says about passages."""
    if name in sets(workspace):
        columns = ["anchor", "anchor_id", "positive_id"]
        for batch in read_batches(set_file(workspace, name), _BATCH, columns):
            yield from ((line["positive_id"], line["anchor"]) for line in batch if line["anchor_id"] is None)
        return
    path = workspace.root / name
    if not path.is_file():
        yield from _read_copies(workspace, corpus, name)
        return
    table = judged_queries(*read_table(path), file=path.name) if path.suffix == ".tsv" else read_imported(path)
    for query in table:
        yield query.passage, query.text


def _read_copies(workspace: Workspace, corpus: Corpus, name: str) -> Iterator[tuple[str, str]]:
    """What the lexical index has of a file that is not there any more."""
    manifest = read_manifest(workspace.manifest(workspace.lexical_folder)) or {}
    if manifest.get("corpus") != corpus.digest:
        raise InputError(
            f"is not there any more, and the corpus has changed since its summaries were read: bring it back, or name"
            f" others with --summaries, or {NONE}",
            file=os.path.normpath(workspace.root / name),
        )
    ids, names = corpus.ids(), [source["name"] for source in _indexed_sources(workspace)]
    for summary in read_texts(workspace.lexical_summaries, "run 'lemmata index --rebuild'"):
        if names[summary.source] == name:
            yield ids[summary.row], summary.text


def _collect(
    workspace: Workspace, corpus: Corpus, sources: Sequence[Mapping[str, str]]
) -> tuple[list[Summary], Counter[str], Bindings]:
    """The distinct texts about passages of the corpus, by row, why others were left out, and what they are about."""
    row_of = {identity: row for row, identity in enumerate(corpus.ids())}
    left_out: Counter[str] = Counter()
    read_texts: list[Summary] = []
    keys: list[str] = []
    for number, source in enumerate(sources):
        for identity, text in _read(workspace, corpus, source["name"]):
            words = " ".join(text.split())
            if not words:
                left_out["empty"] += 1
                continue
            read_texts.append(Summary(row_of.get(identity, _NO_PASSAGE), words, number))
            keys.append("\0".join((source["sha256"], identity, words)))
    hashes = corpus.hashes().tolist()
    rows, bindings = _follow_texts(
        [summary.row for summary in read_texts], hash_texts(keys, len(keys)), read_bindings(workspace), hashes
    )
    seen: set[tuple[int, str]] = set()
    summaries: list[Summary] = []
    for summary, row in zip(read_texts, rows, strict=True):
        if row < 0:
            left_out["of no passage" if row == _NO_PASSAGE else "of a passage that another took the id of"] += 1
        elif (row, summary.text.casefold()) in seen:
            left_out["repeated"] += 1
        else:
            seen.add((row, summary.text.casefold()))
            summaries.append(summary._replace(row=row))
    if not summaries:
        names = ", ".join(source["name"] for source in sources)
        causes = ", ".join(f"{count:,} {cause}" for cause, count in sorted(left_out.items())) or "no texts"
        raise InputError(
            f"there are no summaries of passages of the corpus in {names} ({causes}): name others with --summaries, or"
            f" {NONE}"
        )
    summaries.sort(key=lambda summary: summary.row)
    return summaries, left_out, bindings


def _follow_texts(
    rows: Sequence[int], keys: Hashes, bound: Bindings, texts: Sequence[int]
) -> tuple[list[int], Bindings]:
    """The rows of summaries, those that were bound before by their text; and the bindings of all.

    `rows` (m,) are those of the ids that the sources name, `texts` (passages,) the hashes of the corpus.
    """
    bound_texts = set(bound.values())
    row_of: dict[int, int] = {}
    for row, digest in enumerate(texts):
        row_of.setdefault(digest, row)
    followed: list[int] = []
    bindings: Bindings = {}
    for row, key in zip(rows, keys.tolist(), strict=True):
        now = texts[row] if row >= 0 else None
        text: int | None = bound.get(key, now)
        if text is None:  # of an id that no passage ever had
            followed.append(_NO_PASSAGE)
            continue
        if text == now:
            followed.append(row)
        elif text in row_of:
            followed.append(row_of[text])
        elif now is None:
            followed.append(_NO_PASSAGE)
        elif now in bound_texts:
            followed.append(_REPLACED)
        else:  # its passage was edited
            followed.append(row)
            text = now
        bindings[key] = text
    return followed, bindings


def read_summaries(workspace: Workspace, corpus: Corpus, sources: Sequence[Mapping[str, str]]) -> list[Summary]:
    """The summaries of passages of the corpus in these sources, by row. Call it while holding the workspace."""
    summaries, _, bindings = _collect(workspace, corpus, sources)
    write_bindings(workspace, bindings)
    return summaries


# ---------------------------------------------------------------- words


class Texts(Protocol):
    """Texts to index with the headings above them, one per row: a corpus, or one with something added to its texts."""

    digest: str

    def __len__(self) -> int: ...
    def contents(self, start: int = 0, stop: int | None = None) -> Iterator[str]: ...
    def headings(self, start: int = 0, stop: int | None = None) -> Iterator[str]: ...
    def hashes(self, *, with_headings: bool = False) -> Hashes: ...
    def proofs(self, start: int = 0, stop: int | None = None) -> Iterator[str]: ...
    def proof_hashes(self) -> Hashes: ...


class Summarised:
    """Texts whose summaries stand behind their headings, for the lexical index."""

    def __init__(self, texts: Texts, summaries: Iterable[Summary]) -> None:
        self.digest, self.proofs, self.proof_hashes = texts.digest, texts.proofs, texts.proof_hashes
        self._texts = texts
        self._of_row: dict[int, list[str]] = defaultdict(list)
        for summary in summaries:
            self._of_row[summary.row].append(summary.text)

    def __len__(self) -> int:
        return len(self._texts)

    def contents(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        return self._texts.contents(start, stop)

    def headings(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        for row, heading in enumerate(self._texts.headings(start, stop), start):
            yield " ".join([heading, *self._of_row.get(row, ())])

    def hashes(self, *, with_headings: bool = False) -> Hashes:
        hashes = self._texts.hashes(with_headings=with_headings)
        for row in self._of_row if with_headings else ():
            text = headed(next(self.headings(row, row + 1)), next(self.contents(row, row + 1)))
            hashes[row] = hash_texts([text], 1)[0]
        return hashes


# ---------------------------------------------------------------- vectors


def texts_to_encode(workspace: Workspace, corpus: Corpus, names: str, encoder: str, made_by: str) -> list[str]:
    """The texts that an encoder has no vectors of yet."""
    summaries, _, _ = _collect(workspace, corpus, sources_of(workspace, names))
    texts = [summary.text for summary in summaries]
    stored = open_old_summaries(workspace, encoder)
    if stored is None or stored.made_by != made_by:
        return texts
    matches = match_rows(np.asarray(stored.hashes), hash_texts(texts, len(texts)))
    return [text for text, match in zip(texts, matches.tolist(), strict=True) if match < 0]


def summaries_are_up_to_date(workspace: Workspace, corpus: str, names: str, encoder: str, made_by: str) -> bool:
    """Whether an encoder has the vectors of the summaries in these sources, as they are now; names may be empty."""
    vectors = vectors_of(workspace, encoder)
    if names in ("", NONE):
        return not vectors.summaries.is_dir()
    recipe = {"corpus": corpus, "made_by": made_by, "sources": sources_of(workspace, names)}
    return is_current(summary_index(vectors), recipe)


def encode_summaries(
    workspace: Workspace,
    corpus: Corpus,
    names: str,
    encoder: Encoder,
    name: str,
    *,
    more_than: int = EXACT_UP_TO,
    place: Place | None = None,
    rebuild: bool = False,
) -> dict[str, Any]:
    """Bring the summaries of an encoder up to date with their sources and with the corpus; returns their counts.

    Only texts without a vector are encoded; those of passages that are gone are dropped. `names` are the sources,
    `name` is what `load_encoder` takes. Call it while holding the workspace.
    """
    encoded = 0
    up_to_date = summaries_are_up_to_date(workspace, corpus.digest, names, name, encoder.name)
    if not up_to_date or (rebuild and open_old_summaries(workspace, name) is None):
        sources = sources_of(workspace, names)
        summaries, left_out, bindings = _collect(workspace, corpus, sources)
        write_bindings(workspace, bindings)
        texts = [summary.text for summary in summaries]
        hashes = hash_texts(texts, len(texts), workspace.progress)
        old = open_old_summaries(workspace, name)
        if old is None:
            retire(vectors_of(workspace, name).summaries_ann)  # it may link vectors that were lost

        def read(rows: Integers) -> list[str]:
            return [texts[row] for row in rows.tolist()]

        writer, encoded = fill_vectors(workspace, name, encoder, hashes, old, read, kind="summaries")
        del old  # Windows replaces no file that is mapped
        write_texts(writer.folder, summaries)
        writer.finish(
            {
                "verb": "index",
                "corpus": corpus.digest,
                "made_by": encoder.name,
                "dimension": encoder.dimension,
                "sources": sources,
                "counts": _counts(summaries, sources),
                "left_out": dict(sorted(left_out.items())),
            }
        )
    item, stored = summary_neighbours(vectors_of(workspace, name)), open_summaries(workspace, encoder=name)
    manifest = summaries_manifest(workspace, name)
    assert stored is not None
    assert manifest is not None
    if place is None:
        neighbours = build_neighbours(workspace, item, stored.matrix, more_than=more_than)
    else:  # a summary has the kind of its passage
        kinds = kind_numbers(corpus)[stored.rows]
        send(workspace, place, item, stored.matrix, np.asarray(stored.hashes), kinds, rebuild=rebuild)
        neighbours = "milvus"
    return {**manifest["counts"], "left_out": manifest["left_out"], "encoded": encoded, "neighbours": neighbours}


def _counts(summaries: Iterable[Summary], sources: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Summaries and the passages that have one: of all, and of each source with its author."""
    passages = {summary.row for summary in summaries}
    by_source = Counter(summary.source for summary in summaries)
    return {
        "summaries": sum(by_source.values()),
        "passages": len(passages),
        "sources": [
            {"name": source["name"], "author": source["author"], "summaries": by_source[number]}
            for number, source in enumerate(sources)
        ],
    }
