"""Build and update the indexes of a workspace: BM25, vectors and, for large corpora, approximate neighbours.

What did not change since the last time is kept, and so is what a killed run finished.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from lemmata.core.artefacts import artefact, dense_index, neighbour_index, read_undamaged, seal
from lemmata.core.errors import LemmataError, WorkspaceError, suggest
from lemmata.core.files import is_writable, link_folder, read_array, writing
from lemmata.core.types import Encoder, Integers, Progress
from lemmata.core.words import LANGUAGES, language_shares
from lemmata.core.workspace import (
    Workspace,
    read_manifest,
    remove_vectors,
    set_default_encoder,
    size_on_disk,
    summaries_on_disk,
    vector_set,
    vector_sets,
    write_manifest,
)
from lemmata.corpus.corpus import Corpus
from lemmata.encode.load import AUTO, PLANT, encoder_for, encoder_id, encoder_kind, load_encoder
from lemmata.encode.remote import Allowance, Estimate, RemoteEncoder
from lemmata.graph.lengths import measure_edges
from lemmata.graph.metric import extend_metric
from lemmata.plant.link import ExpandedCorpus
from lemmata.search.lexical import FORMAT, LexicalIndex
from lemmata.search.milvus import choose_place, drop_unused, send_vectors
from lemmata.search.summaries.store import Summary, drop_summaries, write_texts
from lemmata.search.summaries.texts import (
    NONE,
    Contents,
    Headed,
    Summarised,
    chosen_sources,
    content_hashes,
    encode_summaries,
    read_summaries,
    sources_of,
    summaries_are_up_to_date,
    texts_to_encode,
)
from lemmata.search.tokens import Tokenizer, learn_parts
from lemmata.vectors.ann import EXACT_UP_TO
from lemmata.vectors.crowding import measure_crowding
from lemmata.vectors.fill import SHARD, Hashes, build_neighbours, copy_vectors, encode_missing, hash_texts, match_rows
from lemmata.vectors.store import VectorWriter, open_old_vectors, open_vectors, vectors_manifest

_SAMPLE = 500  # passages from which the language is told
_LEAST_SHARE = 0.1  # of the sampled passages in a language, for the corpus to count as written in it
_MAX_GROWN = 2  # times as many passages as the parts of compounds were learnt from, above which they are learnt again
_NOTE_EVERY = 2.0  # seconds
_MAX_DELETED = 0.2  # deleted passages, as a share of the corpus, above which the lexical index is rebuilt


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How a corpus is indexed."""

    CHOICES: ClassVar = {"language": ("auto", *LANGUAGES)}
    SMALLEST: ClassVar = {"dimension": 0, "price": 0.0}
    encoder: str = AUTO  # packaged, by language; or minilm, a model of the workspace, a folder, a hub name, a URL
    language: str = "auto"  # detected; or en, de, de+en: stemming, stop words, and whether compounds are split
    dimension: int = 0  # truncate the vectors of a Matryoshka model; 0: full length
    expand: bool = False  # index logs, and train on them, with the descriptions of their locations
    price: float = 0.0  # of a million tokens of a remote encoder, in any currency
    milvus: str = ""  # searches the vectors: URI of a server, or NAME.db for a file in the workspace; none: no more
    summaries: str = ""  # training sets and files of short texts that also find their passages; comma-separated, none


def index(
    workspace: Workspace,
    options: IndexOptions,
    *,
    dense: bool = True,
    rebuild: bool = False,
    allowance: Allowance | None = None,
) -> dict[str, Any]:
    """Bring the lexical index and the vectors of one encoder up to date; search uses that encoder from then on.

    Returns how many passages each had to work on. Vectors of other encoders stay as they are. `rebuild` starts the
    lexical index from scratch; `allowance` caps what a remote encoder uses.
    """
    begin = time.perf_counter()
    if dense and options.encoder != AUTO:
        encoder_kind(options.encoder, workspace.models_folder)  # refuses a misspelt name before the work
    needed = estimate(workspace, options) if dense and allowance else None
    if needed is not None and allowance is not None:
        allowance.check(needed)
    with workspace.hold(), contextlib.closing(Corpus(workspace)) as corpus:
        if not len(corpus):
            raise WorkspaceError(f"the corpus in {workspace.root} is empty: ingest something first")
        report: dict[str, Any] = {"passages": len(corpus)}
        shares = languages_of(corpus) if options.language == "auto" else {}
        language = _language(shares) if options.language == "auto" else options.language
        report |= {"language": language, "language_shares": shares}
        texts, expansion = _texts(workspace, corpus, options)
        spoken = {"language": language, "setting": options.language}
        sources = sources_of(workspace, options.summaries)
        summarised = (read_manifest(workspace.manifest(workspace.lexical_folder)) or {}).get("summaries", [])
        read = partial(read_summaries, workspace, corpus, sources)
        report["tokenised"] = index_lexical(
            workspace, texts, expansion=expansion, summaries=sources, read=read, rebuild=rebuild, **spoken
        )
        if not sources:
            workspace.summary_bindings.unlink(missing_ok=True)
        if [source["name"] for source in summarised] != [source["name"] for source in sources]:
            report |= _drop_fusions(workspace)
        if dense:
            if options.encoder == AUTO:
                chosen = encoder_for(language)
                report["encoder_choice"] = _reason(chosen, options, language, shares)
                options = replace(options, encoder=chosen)
            if options.summaries in ("", NONE):  # for all encoders: a choice holds for the workspace
                report["dropped_summaries"] = drop_summaries(workspace)
            report |= _index_dense(workspace, corpus, options, allowance, opened=(texts, expansion), rebuild=rebuild)
            spec = encoder_id(options.encoder, workspace.models_folder)
            others = [other for other in vector_sets(workspace) if other.encoder != spec]
            if others and others[0].is_default:
                report["default_before"] = others[0].encoder
            set_default_encoder(workspace, spec)  # last: until now, search uses what it used before
            report["kept_encoders"] = [other.encoder for other in others]
    report["seconds"] = time.perf_counter() - begin
    return report


def _texts(workspace: Workspace, corpus: Corpus, options: IndexOptions) -> tuple[Headed, str]:
    """The texts to index, and a hash of what was added to them."""
    if not options.expand:
        return corpus, ""
    expanded = ExpandedCorpus(workspace, corpus)
    return expanded, expanded.expansion


def _index_dense(
    workspace: Workspace,
    corpus: Corpus,
    options: IndexOptions,
    allowance: Allowance | None,
    opened: tuple[Headed, str] | None = None,
    *,
    rebuild: bool = False,
) -> dict[str, Any]:
    """Bring the vectors of one encoder up to date, with their neighbour index; those of others stay as they are.

    `opened` is what `_texts` gives, where it was called before: the tree of locations is read once.
    """
    place, left = choose_place(workspace, options.milvus)
    encoder = _encoder(workspace, options, allowance)
    spec = encoder_id(options.encoder, workspace.models_folder)
    progress = _noting(workspace, spec, len(corpus))
    report: dict[str, Any] = {"encoder": encoder.name}
    before = vectors_manifest(workspace, spec) or {}
    if before.get("made_by", encoder.name) != encoder.name:
        report["replaced_encoder"] = before["made_by"]
        report |= _drop_fusions(
            workspace, spec
        )  # first: after a kill, nothing tells that they were fitted to another one
    texts, expansion = opened or _texts(workspace, corpus, options)
    report["encoded"] = index_vectors(
        workspace,
        texts,
        content_hashes(texts, progress),
        encoder,
        spec,
        cut=options.dimension,
        expansion=expansion,
    )
    report |= {"left_in_milvus": left.collections} if left.collections else {}
    not_moved = [other for other in left.encoders if other != spec]
    report |= {"not_moved": not_moved} if not_moved else {}
    if place is None:
        report["neighbours"] = index_ann(workspace, corpus, encoder=spec)  # exact or ann
    else:
        sent = send_vectors(workspace, place, corpus, spec, rebuild=rebuild)
        report |= {"neighbours": "milvus", "milvus": {"uri": place.uri, "sent": sent}}
    report["measured_edges"] = measure_edges(workspace, spec)
    report["embedded"] = extend_metric(workspace, spec)
    if options.summaries in ("", NONE):
        drop_summaries(workspace, spec)
    else:
        report["summaries"] = encode_summaries(
            workspace, corpus, options.summaries, encoder, spec, place=place, rebuild=rebuild
        )
    drop_unused(workspace)
    workspace.indexing.unlink(missing_ok=True)
    return report


def _drop_fusions(workspace: Workspace, encoder: str = "") -> dict[str, bool]:
    """Forget weights of `auto` that were fitted to other rankings: of one encoder, or of all."""
    fitted = [one for one in vector_sets(workspace) if encoder in ("", one.encoder) and one.fusion.exists()]
    for one in fitted:
        one.fusion.unlink()
    return {"dropped_fusion": True} if fitted else {}


def _noting(workspace: Workspace, encoder: str, passages: int) -> Progress:
    """`progress`, which also notes on disk how far the vectors are, so that a search meanwhile can say it."""
    written = time.monotonic()

    def write(done: int, total: int) -> None:
        write_manifest(workspace.indexing, {"verb": "index", "encoder": encoder, "done": done, "total": total})

    def note(what: str, done: int, total: int | None) -> None:
        nonlocal written
        workspace.progress(what, done, total)
        if total and what.startswith("encoding") and time.monotonic() - written > _NOTE_EVERY:
            before = max(0, passages - total)  # encoded by an earlier run, or unchanged
            write(before + done, before + total)
            written = time.monotonic()

    write(0, passages)
    return note


def remove_encoder(workspace: Workspace, name: str) -> dict[str, Any]:
    """Delete the vectors of an encoder, and what was made from them; LemmataError where there are none."""
    with workspace.hold():
        sets = vector_sets(workspace)
        folder = workspace.encoder_folder(encoder_id(name, workspace.models_folder))
        removed = next((one for one in sets if name == one.encoder or folder == one.vectors.parent), None)
        if removed is None:
            raise LemmataError(f"there are no vectors of {name!r}{suggest(name, [one.encoder for one in sets])}")
        freed = size_on_disk(removed) + summaries_on_disk(removed)
        if (read_manifest(workspace.indexing) or {}).get("encoder") == removed.encoder:
            workspace.indexing.unlink()
        drop_unused(workspace, removed.encoder)  # first: where Milvus does not answer, nothing is removed
        remove_vectors(workspace, removed)
    kept = [one.encoder for one in sets if one != removed]
    return {"removed": removed.encoder, "bytes": freed, "was_default": removed.is_default, "kept_encoders": kept}


def update_vectors(
    workspace: Workspace,
    encoders: Iterable[str],
    options: IndexOptions,
    *,
    queries: Sequence[str] = (),
    allowance: Allowance | None = None,
) -> dict[str, int]:
    """Make the vectors of encoders, or bring them up to date; returns how many passages each had to encode.

    Which encoder search uses by default stays. Sets that exist keep their length and expansion, `options` are for new
    ones. What remote encoders need for the corpus and the `queries` is checked against the allowance first.
    """
    allowance = allowance or Allowance()
    options = _with_summaries(workspace, options)
    wanted = [_options_of(workspace, encoder, options) for encoder in dict.fromkeys(encoders)]
    for each in wanted:
        encoder_kind(each.encoder, workspace.models_folder)  # refuse a typing error before anything long starts
    estimates = [estimate(workspace, each, queries=queries) for each in wanted]
    allowance.check(_total(each for each in estimates if each is not None))
    with contextlib.closing(Corpus(workspace)) as corpus:
        stale = [each for each in wanted if not _is_up_to_date(workspace, corpus, each)]
        if not stale:
            return {}  # a read-only workspace can be evaluated
        encoded = {}
        with workspace.hold():
            for each in stale:
                with workspace.reporting_to(partial(_labelled, workspace.progress, each.encoder)):
                    encoded[each.encoder] = _index_dense(workspace, corpus, each, allowance)["encoded"]
    return encoded


def _labelled(progress: Progress, encoder: str, what: str, done: int, total: int | None) -> None:
    progress(f"{what} ({encoder})", done, total)


def _options_of(workspace: Workspace, encoder: str, options: IndexOptions) -> IndexOptions:
    """How the vectors of an encoder are made: as they were made before, or as `options` say."""
    manifest = vectors_manifest(workspace, encoder_id(encoder, workspace.models_folder))
    if manifest is None:
        return replace(options, encoder=encoder)
    return replace(options, encoder=encoder, dimension=manifest["cut"], expand=bool(manifest["expansion"]))


def _with_summaries(workspace: Workspace, options: IndexOptions) -> IndexOptions:
    """With the summaries that were chosen for the encoder that search uses, so that encoders are compared fairly."""
    return replace(options, summaries=chosen_sources(workspace))


def _is_up_to_date(workspace: Workspace, corpus: Corpus, options: IndexOptions) -> bool:
    spec = encoder_id(options.encoder, workspace.models_folder)
    vectors = vector_set(workspace, spec)
    manifest = read_undamaged(dense_index(vectors)) if vectors else None
    killed = (read_manifest(workspace.indexing) or {}).get("encoder") == spec  # before it had measured the edges
    if killed or manifest is None or manifest["corpus"] != corpus.digest:
        return False
    if manifest["expansion"] != _texts(workspace, corpus, options)[1]:
        return False
    name = _encoder(workspace, options).name
    return manifest["made_by"] == name and summaries_are_up_to_date(
        workspace, corpus.digest, options.summaries, spec, name
    )


def estimate(workspace: Workspace, options: IndexOptions, *, queries: Sequence[str] = ()) -> Estimate | None:
    """Calls and tokens that a remote encoder needs for what has no vectors yet; None for a local encoder."""
    if not options.encoder.startswith(("http://", "https://")):
        return None
    encoder = _encoder(workspace, options)
    assert isinstance(encoder, RemoteEncoder)
    with contextlib.closing(Corpus(workspace)) as corpus:
        texts, _ = _texts(workspace, corpus, options)
        hashes = content_hashes(texts, lambda *_: None)
        stored = open_old_vectors(workspace, encoder_id(options.encoder, workspace.models_folder))
        usable = stored is not None and stored.made_by == encoder.name
        matches = match_rows(np.asarray(stored.hashes) if stored and usable else hashes[:0], hashes)
        missing = np.flatnonzero(matches < 0)
        contents = _of_rows(texts.contents, missing) if len(missing) < len(hashes) else texts.contents()
        parts = [Estimate(0, 0, len(hashes) - len(missing)), encoder.estimate(queries, role="query")]
        while batch := list(islice(contents, SHARD)):
            parts.append(encoder.estimate(batch))
        if options.summaries not in ("", NONE):
            spec = encoder_id(options.encoder, workspace.models_folder)
            parts.append(encoder.estimate(texts_to_encode(workspace, corpus, options.summaries, spec, encoder.name)))
    return _total(parts)


def _total(parts: Iterable[Estimate]) -> Estimate:
    return Estimate(*(sum(numbers) for numbers in zip(Estimate(0, 0, 0), *parts, strict=True)))


def _encoder(workspace: Workspace, options: IndexOptions, allowance: Allowance | None = None) -> Encoder:
    return load_encoder(
        options.encoder,
        dimension=options.dimension or None,
        key=workspace.key,
        cache=workspace.encodings if is_writable(workspace.root) else None,
        models=workspace.models_folder,
        allowance=allowance,
    )


# ---------------------------------------------------------------- language


def languages_of(corpus: Contents) -> dict[str, float]:
    """The share of each language in a sample of the passages, the largest first; empty where no passage tells."""
    rows = np.unique(np.linspace(0, len(corpus) - 1, min(len(corpus), _SAMPLE)).astype(np.int64))
    return language_shares(_of_rows(corpus.contents, rows))


def stored_language(workspace: Workspace) -> str:
    """The language of the lexical index, or what the passages tell where there is none."""
    if stored := read_manifest(workspace.manifest(workspace.lexical_folder)):
        return str(stored["language"])
    with contextlib.closing(Corpus(workspace)) as corpus:
        return _language(languages_of(corpus) if len(corpus) else {})


def _language(shares: Mapping[str, float]) -> str:
    """One of LANGUAGES; English where nothing tells."""
    return "+".join(sorted(name for name, share in shares.items() if share >= _LEAST_SHARE)) or "en"


def _reason(encoder: str, options: IndexOptions, language: str, shares: Mapping[str, float]) -> str:
    """Why an encoder was chosen, as a sentence."""
    names = {"en": "English", "de": "German"}
    written = " and ".join(f"{share:.0%} {names[name]}" for name, share in shares.items() if share >= 0.005)
    if options.language != "auto":
        written = f"set to {language}"
    why = f"{encoder} was chosen by the language of the corpus ({written or 'not told by its passages'})"
    missing = language != "en" and encoder != PLANT
    return f"{why}; {PLANT}, the encoder for German, is not installed" if missing else why


# ---------------------------------------------------------------- lexical


def index_lexical(
    workspace: Workspace,
    corpus: Headed,
    *,
    language: str = "en",
    setting: str = "auto",
    expansion: str = "",
    summaries: Sequence[Mapping[str, str]] = (),
    read: Callable[[], list[Summary]] = list,
    rebuild: bool = False,
) -> int:
    """Bring the lexical index up to date; returns how many passages were tokenised.

    `language` is what `setting`, which is stored for the next time, came to; `expansion` is a hash of what was added to
    the texts, `summaries` are the sources of the short texts about passages that `read` gives; copies of them are kept.
    The index before can be searched until the new one takes its place.
    An index in another language is built again, as is a German one of a corpus that grew to more than twice the size
    from which the parts of compounds were learnt. In between, new passages and queries are split by the parts that the
    index has, as old ones were.
    """
    manifest = None if rebuild else read_undamaged(artefact(workspace, "lexical"))
    source = {
        "corpus": corpus.digest,
        "lexical": FORMAT,
        "language": language,
        "expansion": expansion,
        "summaries": list(summaries),
    }
    if manifest is not None and source.items() <= manifest.items():
        if manifest["setting"] != setting:
            seal(workspace.lexical_folder, {**manifest, "setting": setting})
        return 0
    is_usable = manifest is not None and all(manifest[name] == source[name] for name in ("lexical", "language"))
    learnt_from = manifest["learnt_from"] if manifest else len(corpus)
    is_usable = is_usable and (language == "en" or len(corpus) <= _MAX_GROWN * learnt_from)
    old_hashes = np.empty(0, np.uint64)
    if is_usable:  # copied: the file is replaced below
        old_hashes = np.array(read_array(workspace.lexical_folder / "hashes.npy", "run 'lemmata index --rebuild'"))
    about = read() if summaries else []
    corpus = Summarised(corpus, about) if about else corpus
    headed = (f"{heading}\0{content}" for heading, content in zip(corpus.headings(), corpus.contents(), strict=True))
    hashes = hash_texts(headed, len(corpus), workspace.progress)
    matches = match_rows(old_hashes, hashes)
    deleted = len(old_hashes) - int((matches >= 0).sum())
    with writing(workspace.lexical_folder) as folder:
        if not is_usable or deleted > _MAX_DELETED * len(hashes):
            learnt_from = len(corpus)
            words = (
                ()
                if language == "en"
                else _with_progress(corpus.contents(), len(corpus), workspace.progress, "parts of words")
            )
            tokenizer = Tokenizer(language, learn_parts(words, language))
            contents = _with_progress(corpus.contents(), len(corpus), workspace.progress)
            LexicalIndex.build(contents, folder, headings=corpus.headings(), tokenizer=tokenizer)
            new_rows = np.arange(len(corpus))
        else:
            new_rows = np.flatnonzero(matches < 0)
            order = np.full(len(old_hashes) + len(new_rows), -1, dtype=np.int64)
            unchanged = np.flatnonzero(matches >= 0)
            order[matches[unchanged]] = unchanged
            order[len(old_hashes) :] = new_rows
            contents = _with_progress(_of_rows(corpus.contents, new_rows), len(new_rows), workspace.progress)
            link_folder(workspace.lexical_folder, folder)
            LexicalIndex.open(folder).add(contents, _of_rows(corpus.headings, new_rows), order=order)
            hashes = np.concatenate([old_hashes, hashes[new_rows]])
        (folder / "hashes.npy").unlink(missing_ok=True)  # it may be the file of the index before
        np.save(folder / "hashes.npy", hashes)
        shutil.rmtree(folder / "summaries", ignore_errors=True)
        if about:
            (folder / "summaries").mkdir()
            write_texts(folder / "summaries", about)
        seal(folder, {"verb": "index", **source, "setting": setting, "learnt_from": learnt_from})
    return len(new_rows)


def _with_progress(
    contents: Iterator[str], total: int, progress: Progress, what: str = "lexical index"
) -> Iterator[str]:
    for number, content in enumerate(contents):
        if number % 1000 == 0:
            progress(what, number, total)
        yield content


def _of_rows(read: Callable[[int, int], Iterator[str]], rows: Integers) -> Iterator[str]:
    """What `read` gives for some rows, in ascending order; neighbours are read at once."""
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if len(rows) else ():
        yield from read(int(run[0]), int(run[-1]) + 1)


# ---------------------------------------------------------------- vectors


def index_vectors(
    workspace: Workspace,
    corpus: Contents,
    hashes: Hashes,
    encoder: Encoder,
    spec: str,
    *,
    cut: int = 0,
    expansion: str = "",
) -> int:
    """Encode the corpus, shard by shard; returns how many passages were encoded.

    Vectors of unchanged passages are copied when the same encoder made them. `spec` is the encoder as the user named
    it, `cut` the length to which it truncates its vectors, `expansion` a hash of what was added to the texts.
    """
    place = vector_set(workspace, spec)
    manifest = read_undamaged(dense_index(place)) if place else None
    # the name is compared too: the model that `spec` names may have been trained again
    maker = {"encoder": spec, "made_by": encoder.name, "dimension": encoder.dimension}
    same_maker = manifest is not None and maker.items() <= manifest.items()
    source = {"corpus": corpus.digest, "expansion": expansion}
    if manifest and same_maker and source.items() <= manifest.items():
        return 0
    writer = VectorWriter(workspace, spec, encoder.dimension, hashes, made_by=encoder.name)
    stored = open_old_vectors(workspace, spec) if same_maker else None
    if stored is not None:
        copy_vectors(writer, np.asarray(stored.hashes), stored.matrix, hashes)
    del stored
    missing = writer.missing()
    encode_missing(writer, missing, partial(_of_rows, corpus.contents), encoder, workspace.progress)
    facts = {"verb": "index", **source, "dimension": encoder.dimension, "cut": cut, "made_by": encoder.name}
    writer.finish(facts, measure_crowding(writer.matrix, workspace.progress))
    return len(missing)


# ---------------------------------------------------------------- neighbours


def index_ann(workspace: Workspace, corpus: Corpus, *, encoder: str = "", more_than: int = EXACT_UP_TO) -> str:
    """Build the HNSW graph where the corpus is large enough to need one; returns which index there is.

    `encoder` says for whose vectors, by default for those that search uses. Without faiss, large corpora are searched
    exactly: slower, but exact.
    """
    vectors = vector_set(workspace, encoder)
    if vectors is None:
        raise WorkspaceError("there is no dense index yet: run 'lemmata index'")
    item = neighbour_index(vectors)
    return build_neighbours(
        workspace,
        item,
        len(corpus),
        lambda: open_vectors(workspace, encoder=vectors.encoder).matrix,
        more_than=more_than,
    )
