"""The file names of a workspace, and its manifests.

A manifest is written last, so its existence means that its stage is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.core.errors import WorkspaceError
from lemmata.core.files import explain_failed_write, lock_file, write_atomically

Manifest = dict[str, Any]
FORMAT = 1  # of manifests
# where only lemmata writes, and what `lemmata push` copies
FOLDERS = ("corpus", "graph", "index", "split", "training", "models", "run")


@dataclass(frozen=True, slots=True)
class Layout:
    """The file names of a workspace."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "lemmata.toml"

    @property
    def lock(self) -> Path:
        return self.root / ".lock"

    @property
    def published(self) -> Path:
        """What was last pushed or pulled, and the state of the files then."""
        return self.root / ".published.json"

    @property
    def pulling(self) -> Path:
        """Where a pull puts files until it has all of them."""
        return self.root / ".pull"

    @property
    def corpus(self) -> Path:
        return self.root / "corpus"

    @property
    def database(self) -> Path:
        return self.corpus / "corpus.sqlite"

    @property
    def incoming(self) -> Path:
        return self.corpus / "incoming.sqlite"

    @property
    def dense(self) -> Path:
        """Folders of encoders, each with vectors, neighbour index and fusion."""
        return self.root / "index" / "dense"

    def encoder_folder(self, encoder: str) -> Path:
        return self.dense / _folder_name(encoder)

    @property
    def default_encoder(self) -> Path:
        return self.root / "index" / "default_encoder.json"

    @property
    def indexing(self) -> Path:
        """How far the vectors are that are being made; a run that was killed leaves it."""
        return self.root / "index" / "indexing.json"

    @property
    def milvus(self) -> Path:
        """Where in Milvus the vectors are."""
        return self.root / "index" / "milvus.json"

    def milvus_uri(self, uri: str) -> str:
        """A URI of Milvus for its client: a file of milvus-lite lies below the workspace."""
        return uri if "://" in uri else str(self.root / uri)

    @property
    def encodings(self) -> Path:
        return self.root / "cache" / "encodings.sqlite"

    @property
    def fetched(self) -> Path:
        """Copies of sources that were ingested from object stores."""
        return self.root / "cache" / "sources"

    @property
    def lexical(self) -> Path:
        return self.root / "index" / "lexical"

    @property
    def lexical_summaries(self) -> Path:
        return self.lexical / "summaries"

    @property
    def summary_bindings(self) -> Path:
        """Which text of a passage each summary was first taken for."""
        return self.root / "index" / "summaries.npy"

    def ann_graph(self, ann: Path) -> Path:
        return ann / "graph.faiss"

    @property
    def rerank(self) -> Path:
        return self.root / "index" / "rerank.json"

    @property
    def graph_records(self) -> Path:
        return self.root / "graph" / "records.sqlite"

    @property
    def graph_records_note(self) -> Path:
        """The checksum of the records when they were last complete."""
        return self.root / "graph" / "records.json"

    @property
    def graph(self) -> Path:
        return self.root / "graph" / "compressed"

    @property
    def embedding(self) -> Path:
        return self.root / "graph" / "embedding"

    @property
    def training_sets(self) -> Path:
        return self.root / "training"

    def training(self, name: str) -> Path:
        return self.training_sets / name

    def training_file(self, name: str) -> Path:
        return self.training(name) / "data.parquet"

    @property
    def models(self) -> Path:
        return self.root / "models"

    def model(self, name: str) -> Path:
        return self.models / name

    def model_work(self, name: str) -> Path:
        return self.models / f".{name}"

    @property
    def inspection(self) -> Path:
        """The last report of `lemmata inspect`."""
        return self.root / "inspect"

    @property
    def split(self) -> Path:
        return self.root / "split"

    @property
    def answers(self) -> Path:
        return self.root / "cache" / "answers.sqlite"

    @property
    def evidence(self) -> Path:
        """What each passage says about concepts by itself."""
        return self.root / "cache" / "evidence.sqlite"

    def manifest(self, artefact: Path) -> Path:
        return artefact / "manifest.json"

    def is_held(self) -> bool:
        """Whether another process is writing to the workspace."""
        try:
            with self.hold():
                return False
        except WorkspaceError:
            return True

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """An exclusive lock on the workspace that dies with its process; WorkspaceError when another has it."""
        with explain_failed_write(self.root), contextlib.closing(lock_file(self.lock)):
            yield


def _folder_name(encoder: str) -> str:
    """The encoder itself where that is a safe file name; else its readable end with a hash of all of it."""
    if re.fullmatch(r"\w[\w-]{,80}", encoder, re.ASCII):
        return encoder
    readable = re.sub(r"\W+", "-", encoder, flags=re.ASCII)[-40:].strip("-") or "encoder"
    return f"{readable}.{hashlib.sha256(encoder.encode(errors='surrogatepass')).hexdigest()[:8]}"


# ---------------------------------------------------------------- manifests


def write_manifest(path: Path, content: Mapping[str, Any]) -> None:
    """The last act of a stage."""
    manifest = json.loads(json.dumps({"format": FORMAT, **content}))  # as it comes back from the disk
    data = json.dumps({**manifest, "checksum": _checksum(manifest)}, indent=1, sort_keys=True, ensure_ascii=False)
    write_atomically(path, data.encode(errors="surrogatepass") + b"\n")


def read_manifest(path: Path) -> Manifest | None:
    """What a complete stage wrote; None where it has to run again: missing, damaged or of another format."""
    content = _read(path)
    if content is None or _format_of(content) != FORMAT or content.pop("checksum", None) != _checksum(content):
        return None
    return content


def _read(path: Path) -> Manifest | None:
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _format_of(content: Manifest | None) -> int:
    """The format number of a manifest; 0 where it has none."""
    number = (content or {}).get("format")
    return number if isinstance(number, int) else 0


def open_manifest(path: Path, cure: str) -> Manifest | None:
    """What a complete stage wrote; None where it did not run, WorkspaceError with the `cure` for a damaged manifest."""
    manifest = read_manifest(path)
    if manifest is None and path.exists():
        if (number := _format_of(_read(path))) > FORMAT:
            newer = f"{path} has format {number}, and this lemmata reads {FORMAT}"
            raise WorkspaceError(f"{newer}: install the newer lemmata that wrote it, or {cure}")
        raise WorkspaceError(f"{path} is damaged (not as it was written): {cure}")
    return manifest


def read_corpus_manifest(layout: Layout) -> Manifest | None:
    """That of the corpus; None where no ingest is complete, WorkspaceError where it is damaged."""
    return open_manifest(layout.manifest(layout.corpus), "run the last 'lemmata ingest' again")


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifests(folder: Path) -> dict[str, Manifest]:
    """The manifest of every complete artefact in a folder, by name."""
    artefacts = sorted(folder.glob("[!.]*")) if folder.is_dir() else []
    manifests = {artefact.name: read_manifest(artefact / "manifest.json") for artefact in artefacts}
    return {name: manifest for name, manifest in manifests.items() if manifest is not None}


class VectorSet(NamedTuple):
    """The places of the vectors of one encoder, and of what was made from them; none of them need exist."""

    encoder: str  # what `load_encoder` takes
    is_default: bool
    vectors: Path
    ann: Path
    fusion: Path

    @property
    def manifest(self) -> Path:
        return self.vectors / "manifest.json"

    @property
    def summaries(self) -> Path:
        """Short texts about passages, with their vectors."""
        return self.ann.with_name("summaries")

    @property
    def summaries_ann(self) -> Path:
        return self.ann.with_name("summaries_ann")

    @property
    def lengths(self) -> Path:
        """Of the edges of the graph."""
        return self.ann.with_name("lengths")

    @property
    def map(self) -> Path:
        """The places of the passages on a map."""
        return self.ann.with_name("map")

    @property
    def metric(self) -> Path:
        """The learned metric, with its own lengths of edges."""
        return self.ann.with_name("metric")


def default_encoder(layout: Layout) -> str:
    """The encoder that search uses; empty where there are no vectors yet, WorkspaceError where the note is damaged."""
    chosen = open_manifest(layout.default_encoder, "run 'lemmata index --encoder NAME' with the encoder to search with")
    return str(chosen["encoder"]) if chosen else ""


def _default_if_readable(layout: Layout) -> str:
    try:
        return default_encoder(layout)
    except WorkspaceError:
        return ""


def set_default_encoder(layout: Layout, encoder: str) -> None:
    """Let search use the vectors of this encoder."""
    if (read_manifest(layout.default_encoder) or {}).get("encoder") != encoder:
        write_manifest(layout.default_encoder, {"verb": "index", "encoder": encoder})


def vector_set(layout: Layout, encoder: str = "") -> VectorSet | None:
    """The set of an encoder, whether it exists or not; without a name the default one, or None."""
    default = _default_if_readable(layout) if encoder else default_encoder(layout)
    encoder = encoder or default
    return _in_folder(layout.encoder_folder(encoder), encoder, default) if encoder else None


def vector_sets(layout: Layout) -> list[VectorSet]:
    """All sets that exist, complete or not, the default one first."""
    default = _default_if_readable(layout)
    sets = []
    for folder in layout.dense.glob("[!.]*") if layout.dense.is_dir() else ():
        if (folder / "vectors").is_dir():
            manifest = read_manifest(folder / "vectors" / "manifest.json")
            known = default if folder == layout.encoder_folder(default) else folder.name
            sets.append(_in_folder(folder, str(manifest["encoder"]) if manifest else known, default))
    return sorted(sets, key=lambda item: (not item.is_default, item.encoder))


def _in_folder(folder: Path, encoder: str, default: str) -> VectorSet:
    return VectorSet(encoder, encoder == default, folder / "vectors", folder / "ann", folder / "fusion.json")


def size_on_disk(vectors: VectorSet) -> int:
    """Bytes of the vectors of an encoder, and of what is made from them: neighbour index, lengths, metric, map."""
    return _bytes(vectors.vectors, vectors.ann, vectors.lengths, vectors.metric, vectors.map)


def summaries_on_disk(vectors: VectorSet) -> int:
    """Bytes of the summaries of an encoder, with their vectors and neighbour index."""
    return _bytes(vectors.summaries, vectors.summaries_ann)


def _bytes(*places: Path) -> int:
    folders = (folder for folder in places if folder.is_dir())
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())


def remove_vectors(layout: Layout, removed: VectorSet) -> None:
    """Delete a set with what was made from it; call it while holding the workspace."""
    if removed.is_default:
        layout.default_encoder.unlink(missing_ok=True)
    folder = removed.vectors.parent
    retired = folder.with_name(f".{folder.name}.old")  # a half-deleted set must not look like one
    shutil.rmtree(retired, ignore_errors=True)
    folder.replace(retired)
    shutil.rmtree(retired, ignore_errors=True)
