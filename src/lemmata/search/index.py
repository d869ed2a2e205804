"""Build and update the indexes of a workspace: BM25, vectors and, for large corpora, approximate neighbours.

What did not change since the last time is kept, and so is what a killed run finished.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lemmata.core.artefacts import (
    artefact,
    dense_index,
    is_current,
    neighbour_index,
    read_undamaged,
    size_on_disk,
    write_hashed_manifest,
)
from lemmata.core.errors import LemmataError, WorkspaceError, suggest
from lemmata.core.files import fingerprint, link_folder, read_array, retire, writing
from lemmata.core.types import Encoder, Integers, Progress
from lemmata.core.words import LANGUAGES, language_shares
from lemmata.core.workspace import (
    Settings,
    Workspace,
    default_encoder,
    read_manifest,
    read_manifests,
    remove_vectors,
    set_default_encoder,
    silent,
    vector_set,
    vector_sets,
    vectors_of,
    write_manifest,
)
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.texts import match_rows
from lemmata.encode.load import AUTO, PLANT, encoder_for, encoder_id, encoder_kind, open_encoder
from lemmata.encode.remote import Allowance, Estimate, RemoteEncoder
from lemmata.graph.lengths import measure_edges
from lemmata.graph.stored_metric import extend_metric
from lemmata.plant.link import ExpandedCorpus
from lemmata.search.lexical import FORMAT, LexicalIndex
from lemmata.search.retriever import Retriever
from lemmata.search.summaries.store import Summary, drop_summaries, write_texts
from lemmata.search.summaries.texts import (
    NONE,
    Summarised,
    Texts,
    chosen_sources,
    encode_summaries,
    read_summaries,
    sources_of,
    summaries_are_up_to_date,
    texts_to_encode,
)
from lemmata.search.tokens import Tokenizer, learn_parts
from lemmata.vectors.ann import EXACT_UP_TO
from lemmata.vectors.crowding import measure_crowding
from lemmata.vectors.fill import SHARD, build_neighbours, fill_vectors
from lemmata.vectors.milvus import choose_place, drop_unused, send_vectors
from lemmata.vectors.store import known_crowding, open_old_vectors, open_vectors, vectors_manifest

_SAMPLE = 500  # passages from which the language is told
_LEAST_SHARE = 0.1  # of the sampled passages in a language, for the corpus to count as written in it
_MAX_GROWN = 2  # times as many passages as the parts of compounds were learnt from, above which they are learnt again
_NOTE_EVERY = 2.0  # seconds
_MAX_NEW = 0.05  # of the passages that came or went, above which the scale of confidence is measured again
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


def index_options(workspace: Workspace, settings: Settings | None = None) -> IndexOptions:
    """`settings` over [index]; what neither names stays as it was when the index was made."""
    given = {**workspace.config.get("index", {}), **(settings or {})}
    if settings and "summaries" in settings:
        given["summaries"] = _paths_below(workspace, settings["summaries"])
    elif "summaries" not in given:
        given["summaries"] = chosen_sources(workspace)
    before: dict[str, Any] = {}
    if "encoder" not in given:
        with contextlib.suppress(WorkspaceError):  # a damaged note is made again
            stored = vectors_manifest(workspace) or {"encoder": default_encoder(workspace)}
            before = {"encoder": stored["encoder"], "dimension": stored.get("cut")}
    words = read_manifest(workspace.manifest(workspace.lexical_folder)) or {}
    before |= {"language": words.get("setting"), "expand": bool(words.get("expansion"))}
    return workspace.options(IndexOptions, "index", {key: value for key, value in before.items() if value} | given)


def _paths_below(workspace: Workspace, names: str) -> str:
    """Sources of summaries, with files by their path below the workspace."""
    known = {NONE, *read_manifests(workspace.training_folder)}
    words = [word.strip() for word in names.split(",")]
    return ",".join(
        os.path.relpath(word, workspace.root) if word not in known and Path(word).is_file() else word for word in words
    )


def make_allowance(workspace: Workspace, *, tokens: int = 0, cost: float = 0.0, price: float = 0.0) -> Allowance:
    """What remote encoders may use in one command; 0 is no cap. Without a `price`, that of [index]."""
    return Allowance(tokens=tokens, cost=cost, price=price or index_options(workspace).price)


def index(
    workspace: Workspace,
    *,
    settings: Settings | None = None,
    dense: bool = True,
    rebuild: bool = False,
    allowance: Allowance | None = None,
) -> dict[str, Any]:
    """Bring the lexical index, the vectors and, for large corpora, the neighbour index up to date.

    Search uses the vectors of this encoder from then on; those of others stay as they are. Returns how many passages
    each had to work on. `rebuild` starts the lexical index from scratch, and vectors of which some were lost;
    `allowance` caps what a remote encoder uses.
    """
    begin = time.perf_counter()
    options = index_options(workspace, settings)
    if dense and options.encoder != AUTO:
        encoder_kind(options.encoder, workspace.models_folder)  # refuses a misspelt name before the work
    needed = _estimate(workspace, options) if dense and allowance else None
    if needed is not None and allowance is not None:
        allowance.check(needed)
    with workspace.hold(), contextlib.closing(Corpus(workspace)) as corpus:
        if not len(corpus):
            raise WorkspaceError(f"the corpus in {workspace.root} is empty: ingest something first")
        shares = languages_of(corpus) if options.language == "auto" else {}
        language = _language(shares) if options.language == "auto" else options.language
        passages = corpus.whole_passages()
        report: dict[str, Any] = {"passages": passages, "parts": len(corpus) - passages, "language": language}
        report["language_shares"] = shares
        texts = _texts(workspace, corpus, options)
        sources = sources_of(workspace, options.summaries)
        summarised = (read_manifest(workspace.manifest(workspace.lexical_folder)) or {}).get("summaries", [])
        before = _made(workspace, "")
        report["tokenised"] = index_lexical(
            workspace,
            texts,
            language=language,
            setting=options.language,
            summaries=sources,
            read=partial(read_summaries, workspace, corpus, sources),
            rebuild=rebuild,
        )
        _measure_confidence(workspace, corpus, "", report["tokenised"], before)
        if not sources:
            workspace.summary_bindings.unlink(missing_ok=True)
        elif not workspace.summary_bindings.exists():  # they were damaged, and removed
            read_summaries(workspace, corpus, sources)
        if [source["name"] for source in summarised] != [source["name"] for source in sources]:
            report |= _drop_fusions(workspace)
        if dense:
            if options.encoder == AUTO:
                chosen = encoder_for(language)
                report["encoder_choice"] = _reason(chosen, options, language, shares)
                options = replace(options, encoder=chosen)
            options = _with_id(workspace, options)
            if options.summaries in ("", NONE):  # for all encoders: a choice holds for the workspace
                report["dropped_summaries"] = drop_summaries(workspace)
            report |= _index_dense(workspace, corpus, texts, options, allowance, rebuild=rebuild)
            others = [other for other in vector_sets(workspace) if other.encoder != options.encoder]
            if others and others[0].is_default:
                report["default_before"] = others[0].encoder
            set_default_encoder(workspace, options.encoder)  # last: until now, search uses what it used before
            report["kept_encoders"] = [other.encoder for other in others]
        else:
            _note_outdated(workspace, texts, report["tokenised"])
    report["notes"] = list(_consequences(report))
    report["seconds"] = time.perf_counter() - begin
    return report


def _consequences(report: Mapping[str, Any]) -> Iterator[str]:
    """What else has changed, or has to be done, in sentences."""
    if "default_before" in report:
        yield f"search now uses these vectors; those of {report['default_before']} are kept"
    if "left_in_milvus" in report:
        yield report["left_in_milvus"]
    for encoder in report.get("not_moved", ()):
        yield f"the vectors of {encoder} are searched exactly now: 'lemmata index --encoder {encoder}' moves them too"
    summaries = report.get("summaries")
    if summaries and report["passages"] > summaries["passages"]:
        bare = report["passages"] - summaries["passages"]
        yield f"{bare:,} passages have no summary and rank lower than before, relative to the others"
    if "dropped_fusion" in report:
        yield (
            "the weights of auto were fitted to what search used before and are dropped: run 'lemmata evaluate --tune'"
            " again"
        )


def _texts(workspace: Workspace, corpus: Corpus, options: IndexOptions) -> Corpus | ExpandedCorpus:
    return ExpandedCorpus(workspace, corpus) if options.expand else corpus


def _expansion(texts: Texts) -> str:
    """A hash of what was added to the texts; empty for none."""
    return texts.expansion if isinstance(texts, ExpandedCorpus) else ""


def _index_dense(
    workspace: Workspace,
    corpus: Corpus,
    texts: Texts,
    options: IndexOptions,
    allowance: Allowance | None,
    *,
    rebuild: bool = False,
) -> dict[str, Any]:
    """Bring the vectors of one encoder up to date, with their neighbour index; those of others stay as they are."""
    place, left = choose_place(workspace, options.milvus)
    encoder, name = _encoder(workspace, options, allowance), options.encoder
    report: dict[str, Any] = {"encoder": encoder.name}
    before = vectors_manifest(workspace, name) or {}
    if before.get("made_by", encoder.name) != encoder.name:
        report["replaced_encoder"] = before["made_by"]
        report |= _drop_fusions(workspace, name)  # first: after a kill, nothing tells that another one fitted them
    made = _made(workspace, name)
    with workspace.reporting_to(_noting(workspace, name, len(corpus))):
        report["encoded"] = index_vectors(workspace, texts, encoder, name, cut=options.dimension, rebuild=rebuild)
    report |= {"left_in_milvus": left.collections} if left.collections else {}
    not_moved = [other for other in left.encoders if other != name]
    report |= {"not_moved": not_moved} if not_moved else {}
    if place is None:
        report["neighbours"] = index_ann(workspace, encoder=name)  # exact or ann
    else:
        sent = send_vectors(workspace, place, corpus, name, rebuild=rebuild)
        report |= {"neighbours": "milvus", "milvus": {"uri": place.uri, "sent": sent}}
    report["measured_edges"] = measure_edges(workspace, name)
    report["embedded"] = extend_metric(workspace, name)
    if options.summaries in ("", NONE):
        drop_summaries(workspace, name)
    else:
        report["summaries"] = encode_summaries(
            workspace, corpus, options.summaries, encoder, name, place=place, rebuild=rebuild
        )
    drop_unused(workspace)
    workspace.indexing.unlink(missing_ok=True)
    if not isinstance(encoder, RemoteEncoder):  # nobody agreed to pay for these texts
        _measure_confidence(workspace, corpus, name, report["encoded"], made)
    return report


def _made(workspace: Workspace, encoder: str) -> str:
    """What the vectors of an encoder, or the lexical index, are at this moment."""
    made = vectors_of(workspace, encoder).manifest if encoder else workspace.manifest(workspace.lexical_folder)
    return fingerprint((read_manifest(made) or {}).get("files"))


def _measure_confidence(workspace: Workspace, corpus: Corpus, encoder: str, new: int, before: str) -> None:
    """Store what scores mean in this corpus with an encoder, or of words alone, where it is not known.

    A few `new` passages do not change it: it is measured again when they are a twentieth since it was measured, or when
    nobody knows how many they are: what was there `before` this run was made by one that was killed.
    """
    stored = read_manifest(workspace.confidence) or {}
    scales, measured, seen = stored.get("scales", {}), stored.get("measured", {}), stored.get("seen", {})
    is_same = stored.get("corpus") == corpus.digest
    made = _made(workspace, encoder)
    is_counted = encoder in scales and seen.get(encoder, before) == before
    if is_counted and is_same and not new and made == before:
        return
    seen = {**seen, encoder: made}
    if is_counted:
        passages, changed = measured[encoder]
        changed += new + max(0, passages + new - len(corpus))  # and those that are gone
        if changed <= _MAX_NEW * len(corpus):
            measured = {**measured, encoder: [len(corpus), changed]}
            content = {**stored, "corpus": corpus.digest, "measured": measured, "seen": seen}
            write_manifest(workspace.confidence, content)
            return
    workspace.progress("measuring confidence", 0, None)
    try:
        with contextlib.closing(Retriever(workspace)) as retriever:
            scale = retriever.measure_scale(encoder)
    except WorkspaceError:  # vectors are compared while there is no lexical index of this corpus
        return
    kept = (scales, measured) if is_same else ({}, {})
    scales, measured = {**kept[0], encoder: scale}, {**kept[1], encoder: [len(corpus), 0]}
    content = {"verb": "index", "corpus": corpus.digest, "scales": scales, "measured": measured, "seen": seen}
    write_manifest(workspace.confidence, content)


def _forget_scale(workspace: Workspace, encoder: str) -> None:
    stored = read_manifest(workspace.confidence) or {}
    if encoder in stored.get("scales", {}):
        for each in ("scales", "measured", "seen"):
            stored[each] = {name: value for name, value in stored[each].items() if name != encoder}
        write_manifest(workspace.confidence, stored)


def _drop_fusions(workspace: Workspace, encoder: str = "") -> dict[str, bool]:
    """Forget weights of `auto` that were fitted to other rankings: of one encoder, or of all."""
    fitted = [each for each in vector_sets(workspace) if encoder in ("", each.encoder) and each.fusion.exists()]
    for each in fitted:
        each.fusion.unlink()
    return {"dropped_fusion": True} if fitted else {}


def _noting(workspace: Workspace, encoder: str, passages: int) -> Progress:
    """The workspace's progress, which also notes on disk how far the vectors are, so that a search can say it."""
    progress, written = workspace.progress, time.monotonic()

    def write(done: int, total: int) -> None:
        write_manifest(workspace.indexing, {"verb": "index", "encoder": encoder, "done": done, "total": total})

    def note(what: str, done: int, total: int | None) -> None:
        nonlocal written
        progress(what, done, total)
        if total and what.startswith("encoding") and time.monotonic() - written > _NOTE_EVERY:
            before = max(0, passages - total)  # encoded by an earlier run, or unchanged
            write(before + done, before + total)
            written = time.monotonic()

    write(0, passages)
    return note


def _note_outdated(workspace: Workspace, texts: Texts, new: int) -> None:
    """Note that the vectors that search uses lack some passages: until `index` makes these, the others will do."""
    vectors = vector_set(workspace)
    if vectors is None or not vectors.manifest.exists() or workspace.indexing.exists():
        return
    if not is_current(dense_index(vectors), {"corpus": texts.digest}):
        note = {"encoder": vectors.encoder, "done": max(0, len(texts) - new), "total": len(texts)}
        write_manifest(workspace.indexing, {"verb": "index", **note})


def remove_encoder(workspace: Workspace, name: str) -> dict[str, Any]:
    """Delete the vectors of an encoder, and what was made from them; those of the others stay."""
    folder = workspace.encoder_folder(encoder_id(name, workspace.models_folder))
    was_killed = folder.with_name(f".{folder.name}.old").is_dir()  # while it deleted: the lock tidies up the rest
    with workspace.hold():
        sets = vector_sets(workspace)
        removed = next((each for each in sets if name == each.encoder or folder == each.root), None)
        if removed is None and (was_killed or folder.is_dir()):  # or with vectors that were only begun
            removed = vectors_of(workspace, name)
        if removed is None:
            raise LemmataError(f"there are no vectors of {name!r}{suggest(name, [each.encoder for each in sets])}")
        freed = sum(size_on_disk(removed, summaries=each) for each in (False, True))
        if (read_manifest(workspace.indexing) or {}).get("encoder") == removed.encoder:
            workspace.indexing.unlink()
        drop_unused(workspace, removed.encoder)  # first: where Milvus does not answer, nothing is removed
        _forget_scale(workspace, removed.encoder)
        remove_vectors(workspace, removed)
    kept = [each.encoder for each in sets if each != removed]
    return {"removed": removed.encoder, "bytes": freed, "was_default": removed.is_default, "kept_encoders": kept}


def update_vectors(
    workspace: Workspace,
    encoders: Iterable[str],
    *,
    queries: Sequence[str] = (),
    allowance: Allowance | None = None,
) -> None:
    """Make the vectors of encoders, or bring them up to date.

    Which encoder search uses by default stays. Sets that exist keep their length and expansion, and [index] is for new
    ones; all get the summaries of the encoder that search uses, so that encoders are compared fairly. What remote
    encoders need for the corpus and the `queries` is checked against the allowance first.
    """
    allowance = allowance or Allowance()
    options = replace(workspace.options(IndexOptions, "index"), summaries=chosen_sources(workspace))
    wanted = []
    for name in dict.fromkeys(encoders):
        encoder_kind(name, workspace.models_folder)  # refuse a typing error before anything long starts
        chosen = _with_id(workspace, replace(options, encoder=name))
        wanted.append(replace(chosen, **as_before(vectors_manifest(workspace, chosen.encoder))))
    estimates = (_estimate(workspace, each, queries=queries) for each in wanted)
    allowance.check(_total(each for each in estimates if each is not None))
    with contextlib.closing(Corpus(workspace)) as corpus:
        stale = [each for each in wanted if not _is_up_to_date(workspace, corpus, each)]
        if not stale:
            return  # a read-only workspace can be evaluated
        progress = workspace.progress
        with workspace.hold():
            for each in stale:
                texts, encoder = _texts(workspace, corpus, each), each.encoder
                with workspace.reporting_to(lambda what, *done, of=encoder: progress(f"{what} ({of})", *done)):
                    _index_dense(workspace, corpus, texts, each, allowance)


def _is_up_to_date(workspace: Workspace, corpus: Corpus, options: IndexOptions) -> bool:
    name, vectors = options.encoder, vectors_of(workspace, options.encoder)
    killed = (read_manifest(workspace.indexing) or {}).get("encoder") == name  # before it had measured the edges
    if killed or not vectors.manifest.exists():
        return False
    encoder, texts = _encoder(workspace, options), _texts(workspace, corpus, options)
    return is_current(dense_index(vectors), _vectors_recipe(texts, encoder, name)) and summaries_are_up_to_date(
        workspace, corpus.digest, options.summaries, name, encoder.name
    )


def estimate_index(workspace: Workspace, *, settings: Settings | None = None) -> Estimate | None:
    """Calls and tokens that a remote encoder needs for what has no vectors yet; None for a local encoder."""
    return _estimate(workspace, index_options(workspace, settings))


def _estimate(workspace: Workspace, options: IndexOptions, *, queries: Sequence[str] = ()) -> Estimate | None:
    if not options.encoder.startswith(("http://", "https://")):
        return None
    encoder = _encoder(workspace, options)
    assert isinstance(encoder, RemoteEncoder)
    name = options.encoder
    with contextlib.closing(Corpus(workspace)) as corpus:
        texts = _texts(workspace, corpus, options)
        hashes = texts.hashes()
        stored = open_old_vectors(workspace, name)
        usable = stored is not None and stored.made_by == encoder.name
        matches = match_rows(np.asarray(stored.hashes) if stored and usable else hashes[:0], hashes)
        missing = np.flatnonzero(matches < 0)
        contents = _of_rows(texts.contents, missing) if len(missing) < len(hashes) else texts.contents()
        parts = [Estimate(0, 0, len(hashes) - len(missing)), encoder.estimate(queries, role="query")]
        while batch := list(islice(contents, SHARD)):
            parts.append(encoder.estimate(batch))
        if options.summaries not in ("", NONE):
            parts.append(encoder.estimate(texts_to_encode(workspace, corpus, options.summaries, name, encoder.name)))
    return _total(parts)


def _total(parts: Iterable[Estimate]) -> Estimate:
    return Estimate(*(sum(numbers) for numbers in zip(Estimate(0, 0, 0), *parts, strict=True)))


def _with_id(workspace: Workspace, options: IndexOptions) -> IndexOptions:
    return replace(options, encoder=encoder_id(options.encoder, workspace.models_folder))


def as_before(manifest: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings with which vectors were made; none where there are none."""
    return {"dimension": manifest["cut"], "expand": bool(manifest["expansion"])} if manifest else {}


def _encoder(workspace: Workspace, options: IndexOptions, allowance: Allowance | None = None) -> Encoder:
    return open_encoder(workspace, options.encoder, dimension=options.dimension, allowance=allowance)


# ---------------------------------------------------------------- language


def languages_of(corpus: Texts) -> dict[str, float]:
    """The share of each language in a sample of the passages, the largest first; empty where no passage tells."""
    rows = np.unique(np.linspace(0, len(corpus) - 1, min(len(corpus), _SAMPLE)).astype(np.int64))
    return language_shares(_of_rows(corpus.contents, rows))


def packaged_encoder(workspace: Workspace, *, static: bool = False) -> str:
    """The packaged encoder for the language of the lexical index, or of the passages where there is none."""
    if stored := read_manifest(workspace.manifest(workspace.lexical_folder)):
        return encoder_for(str(stored["language"]), static=static)
    with contextlib.closing(Corpus(workspace)) as corpus:
        return encoder_for(_language(languages_of(corpus) if len(corpus) else {}), static=static)


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
    texts: Texts,
    *,
    language: str = "en",
    setting: str = "auto",
    summaries: Sequence[Mapping[str, str]] = (),
    read: Callable[[], list[Summary]] = list,
    rebuild: bool = False,
) -> int:
    """Bring the lexical index up to date; returns how many passages were tokenised.

    `language` is what `setting`, which is stored for the next time, came to; `summaries` are the sources of the short
    texts about passages that `read` gives; copies of them are kept.
    The index before can be searched until the new one takes its place.
    An index in another language is built again, as is a German one of a corpus that grew to more than twice the size
    from which the parts of compounds were learnt. In between, new passages and queries are split by the parts that the
    index has, as old ones were.
    """
    item, progress = artefact(workspace, "lexical"), workspace.progress
    recipe = {
        "verb": "index",
        "corpus": texts.digest,
        "lexical": FORMAT,
        "language": language,
        "setting": setting,
        "expansion": _expansion(texts),
        "summaries": list(summaries),
    }
    if not rebuild and is_current(item, recipe):
        return 0
    before = (None if rebuild else read_undamaged(item)) or {}
    learnt_from = before.get("learnt_from", len(texts))
    is_usable = all(before.get(name) == recipe[name] for name in ("lexical", "language"))
    is_usable = is_usable and (language == "en" or len(texts) <= _MAX_GROWN * learnt_from)
    old_hashes, old_order = np.empty(0, np.uint64), np.empty(0, np.int64)
    if is_usable:  # copied: the file is replaced below
        old_hashes = np.array(read_array(item.folder / "hashes.npy", "run 'lemmata index --rebuild'"))
        old_order = LexicalIndex.open(item.folder).order
    short_texts = read() if summaries else []
    texts = Summarised(texts, short_texts) if short_texts else texts
    proof_hashes = texts.proof_hashes()
    proven = np.flatnonzero(proof_hashes)
    hashes = np.concatenate([texts.hashes(with_headings=True), proof_hashes[proven]])
    deleted, places = np.split(np.argsort(old_order, kind="stable"), [np.count_nonzero(old_order < 0)])  # row by row
    matches = np.full(len(hashes), -1)
    for known in (places, deleted):  # what was deleted may come back
        missing = np.flatnonzero(matches < 0)
        rows = match_rows(old_hashes[known], hashes[missing])
        matches[missing[rows >= 0]] = known[rows[rows >= 0]]
    unused = len(old_hashes) - int((matches >= 0).sum())
    with writing(item.folder) as folder:
        if not is_usable or unused > _MAX_DELETED * len(hashes):
            learnt_from = len(texts)
            words = _with_progress(texts.contents(), len(texts), progress, "parts of words") if language != "en" else ()
            tokenizer = Tokenizer(language, learn_parts(words, language))
            new_rows = np.arange(len(hashes))
            build_lexical(texts, folder, tokenizer, progress)
        else:
            new_rows = np.flatnonzero(matches < 0)
            order = np.full(len(old_hashes) + len(new_rows), -1, dtype=np.int64)
            unchanged = np.flatnonzero(matches >= 0)
            order[matches[unchanged]] = unchanged
            order[len(old_hashes) :] = new_rows
            contents = _with_progress(_with_proofs(texts, new_rows, proven), len(new_rows), progress)
            headings = _of_rows(texts.headings, new_rows[new_rows < len(texts)])
            link_folder(item.folder, folder)
            LexicalIndex.open(folder).add(contents, headings, order=order, proven=proven)
            hashes = np.concatenate([old_hashes, hashes[new_rows]])
        (folder / "hashes.npy").unlink(missing_ok=True)  # it may be the file of the index before
        np.save(folder / "hashes.npy", hashes)
        shutil.rmtree(folder / "summaries", ignore_errors=True)
        if short_texts:
            (folder / "summaries").mkdir()
            write_texts(folder / "summaries", short_texts)
        write_hashed_manifest(folder, {**recipe, "learnt_from": learnt_from}, before=item)
    return int((new_rows < len(texts)).sum())


def build_lexical(texts: Texts, folder: Path, tokenizer: Tokenizer, progress: Progress = silent) -> LexicalIndex:
    """A lexical index of texts, with their headings and proofs."""
    proven = np.flatnonzero(texts.proof_hashes())
    rows = np.arange(len(texts) + len(proven))
    contents = _with_progress(_with_proofs(texts, rows, proven), len(rows), progress)
    return LexicalIndex.build(contents, folder, headings=texts.headings(), proven=proven, tokenizer=tokenizer)


def _with_proofs(texts: Texts, rows: Integers, proven: Integers) -> Iterator[str]:
    """The contents of some rows, in ascending order; behind all passages stand the proofs of the `proven` ones."""
    yield from _of_rows(texts.contents, rows[rows < len(texts)])
    yield from _of_rows(texts.proofs, proven[rows[rows >= len(texts)] - len(texts)])


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
    workspace: Workspace, texts: Texts, encoder: Encoder, name: str, *, cut: int = 0, rebuild: bool = False
) -> int:
    """Encode the corpus, shard by shard; returns how many passages were encoded.

    Vectors of unchanged passages are copied when the same encoder made them. `name` is what `load_encoder` takes,
    `cut` the length to which the encoder truncates its vectors. `rebuild` looks for vectors that were lost.
    """
    recipe, vectors = _vectors_recipe(texts, encoder, name), vectors_of(workspace, name)
    if is_current(dense_index(vectors), recipe) and not (rebuild and open_old_vectors(workspace, name) is None):
        return 0
    hashes = texts.hashes()
    read, old = partial(_of_rows, texts.contents), open_old_vectors(workspace, name)
    if old is None:
        retire(vectors.ann)  # it may link vectors that were lost
    writer, encoded = fill_vectors(workspace, name, encoder, hashes, old, read)
    known = None
    if old is not None and (old.made_by, old.matrix.shape[1]) == (encoder.name, encoder.dimension):
        known = known_crowding(workspace, old, match_rows(np.asarray(old.hashes), hashes))
    writer.finish({**recipe, "cut": cut}, measure_crowding(writer.matrix, hashes, workspace.progress, known))
    return encoded


def _vectors_recipe(texts: Texts, encoder: Encoder, name: str) -> dict[str, Any]:
    return {
        "verb": "index",
        "corpus": texts.digest,
        "expansion": _expansion(texts),
        "encoder": name,
        "made_by": encoder.name,  # the model that `name` means may have been trained again
        "dimension": encoder.dimension,
    }


# ---------------------------------------------------------------- neighbours


def index_ann(workspace: Workspace, *, encoder: str = "", more_than: int = EXACT_UP_TO) -> str:
    """Build the HNSW graph where the corpus is large enough to need one; returns which index there is.

    `encoder` says for whose vectors, by default for those that search uses.
    """
    vectors = vector_set(workspace, encoder)
    if vectors is None:
        raise WorkspaceError("there is no dense index yet: run 'lemmata index'")
    matrix = open_vectors(workspace, encoder=vectors.encoder).matrix
    return build_neighbours(workspace, neighbour_index(vectors), matrix, more_than=more_than)
