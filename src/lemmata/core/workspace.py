"""A workspace: its file names, settings, lock and manifests.

A manifest is written last, so its existence means that its stage is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lemmata.core.config import build, merged, read_toml
from lemmata.core.errors import ConfigError, WorkspaceError, other_format
from lemmata.core.files import explain_failed_write, is_leftover, lock_file, remove, retire, write_atomically
from lemmata.core.keys import OPENAI, ApiKey, origin_of
from lemmata.core.trust import remember, trusted_origins

if TYPE_CHECKING:
    from lemmata.core.types import Progress

Manifest = dict[str, Any]
Settings = Mapping[str, Any]
Options = TypeVar("Options")
FORMAT = 2  # of manifests: raised when artefacts of before are not read any more
FOLDERS = ("corpus", "graph", "index", "split", "training", "models", "run")  # where only lemmata writes
HIDDEN = ".lemmata"  # the workspace of a folder that is served, in the folder itself; readers and Git leave it alone

_NEW_CONFIG = """\
# Settings of this lemmata workspace, one table per verb. `lemmata config` lists every key with its default.

[index]
# encoder = "lemmata-mini"  # if none is named, it is chosen by the language of the corpus
"""


class _Below:
    """A file or folder at a fixed path below the root of a workspace or of an encoder's folder."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, place: Workspace | VectorSet, _owner: type) -> Path:
        return place.root / self._path


def silent(_what: str, _done: int, _total: int | None) -> None:
    """Report no progress."""


class Workspace:
    """A folder with a corpus and all that is made from it: its file names, settings, lock, and who is told of progress.

    Every verb is a function of one: `verb(workspace, …) -> report`.
    """

    config_file = _Below("lemmata.toml")
    lock = _Below(".lock")
    corpus_folder = _Below("corpus")
    database = _Below("corpus/corpus.sqlite")
    incoming = _Below("corpus/incoming.sqlite")
    dense_folder = _Below("index/dense")  # folders of encoders, each with vectors, neighbour index and fusion
    default_encoder_file = _Below("index/default_encoder.json")
    indexing = _Below("index/indexing.json")  # how far new vectors are; a run that was killed leaves it
    adapted = _Below("index/adapted.json")  # what `lemmata adapt` did last, and what search used before
    milvus = _Below("index/milvus.json")  # where in Milvus the vectors are
    lexical_folder = _Below("index/lexical")
    lexical_summaries = _Below("index/lexical/summaries")
    summary_bindings = _Below("index/summaries.npy")  # which text of a passage each summary was first taken for
    rerank = _Below("index/rerank.json")
    confidence = _Below("index/confidence.json")  # what scores mean here
    graph_records = _Below("graph/records.sqlite")
    graph_records_note = _Below("graph/records.json")  # the checksum of the records when they were last complete
    graph_folder = _Below("graph/compressed")
    embedding_folder = _Below("graph/embedding")
    split_folder = _Below("split")
    training_folder = _Below("training")
    models_folder = _Below("models")
    run_folder = _Below("run")
    inspection = _Below("inspect")  # the last report of `lemmata inspect`
    encodings = _Below("cache/encodings.sqlite")
    answers = _Below("cache/answers.sqlite")
    evidence = _Below("cache/evidence.sqlite")  # what each passage says about concepts by itself
    glossary = _Below("synonyms.txt")  # of the user's
    judgment_log = _Below("judgments.sqlite")  # queries and marks of people
    fetched = _Below("cache/sources")  # copies of sources that were ingested from object stores

    def __init__(self, root: str | Path, progress: Progress = silent) -> None:
        self.root = Path(root).absolute()  # one name for each file, also where another process works elsewhere
        self.progress = progress
        self.named_addresses: tuple[str, ...] = ()  # of services, by the user for this call: see `name_addresses`

    @classmethod
    def init(cls, folder: str | Path = ".") -> Self:
        """Make a folder a workspace; an existing workspace stays as it is."""
        root = Path(folder)
        if root.exists() and not root.is_dir():
            raise WorkspaceError(f"{folder} is a file, not a folder")
        if (root / HIDDEN / "lemmata.toml").exists() and not cls(root).exists:  # which another would hide
            raise WorkspaceError(
                f"{folder} has the workspace {root / HIDDEN}, which 'lemmata serve' made: -w {folder} means it"
            )
        if not os.path.lexists(root / "lemmata.toml"):  # nothing is written through a link that leads nowhere
            write_atomically(root / "lemmata.toml", _NEW_CONFIG.encode())
        return cls(folder)

    @classmethod
    def at(cls, folder: Path) -> Self:
        """The workspace that a folder is, or the one that serving it made in it."""
        hidden = folder / HIDDEN
        return cls(hidden if not cls(folder).exists and cls(hidden).exists and not hidden.is_symlink() else folder)

    def check(self) -> Self:
        """The workspace itself; WorkspaceError where the folder is none, ConfigError for settings that are wrong."""
        if not self.exists:
            raise WorkspaceError(
                f"{self.root} is not a lemmata workspace: 'lemmata init' or 'lemmata serve' makes one, -w names one"
            )
        _ = self.config
        return self

    @property
    def exists(self) -> bool:
        """Whether the folder has a `lemmata.toml`."""
        return self.config_file.is_file()

    @property
    def key(self) -> ApiKey:
        """The API key for remote encoders and language models, and the addresses that may be asked at all."""
        base = os.environ.get("OPENAI_BASE_URL", "")
        trusted = trusted_origins().union(map(origin_of, (base, *self.named_addresses)))
        return ApiKey(os.environ.get("OPENAI_API_KEY", ""), (base or OPENAI, *self.named_addresses), trusted)

    def name_addresses(self, *names: str) -> None:
        """Take addresses of services, or models of the hub, from the user: they are trusted, and may have the key now.

        Other names are left out.
        """
        self.named_addresses += names
        remember(names)

    @property
    def refusals(self) -> list[str]:
        """The addresses and hub models that this workspace names and its user has not trusted, a sentence for each."""
        model = self.config.get("llm", {})
        names = [self.config.get("index", {}).get("encoder", ""), _default_if_readable(self)]
        names += [model.get("url", "")] if model.get("model") else []
        return [*dict.fromkeys(filter(None, map(self.key.why_refused, names)))]

    @cached_property
    def config(self) -> dict[str, Any]:
        """The tables of `lemmata.toml`, checked."""
        return read_toml(self.config_file) if self.exists else {}

    def options(self, kind: type[Options], table: str, settings: Settings | None = None) -> Options:
        """The options of a verb: `settings` over the table of `lemmata.toml`."""
        return build(kind, merged(self.config.get(table, {}), settings or {}), table)

    def named_options(
        self, kind: type[Options], group: str, name: str, settings: Settings | None = None, *, required: bool = False
    ) -> Options:
        """The options of the table [group.name]; without any such table, the defaults unless `required`.

        A model whose sets are among the `settings` needs none: its name is no slip of the pen.
        """
        tables = self.config.get(group, {})
        if name not in tables and (required or (tables and "sets" not in (settings or {}))):
            names = ", ".join(tables) or "none yet"
            raise ConfigError(f"{self.config_file} has no table [{group}.{name}] (there are: {names})")
        return build(kind, merged(tables.get(name, {}), settings or {}), f"{group}.{name}")

    @contextlib.contextmanager
    def reporting_to(self, progress: Progress) -> Iterator[None]:
        """Tell another one of progress meanwhile."""
        before, self.progress = self.progress, progress
        try:
            yield
        finally:
            self.progress = before

    def encoder_folder(self, encoder: str) -> Path:
        return self.dense_folder / _folder_name(encoder)

    def milvus_uri(self, uri: str) -> str:
        """A URI of Milvus for its client: a file of milvus-lite lies below the workspace."""
        return uri if "://" in uri else str(self.root / uri)

    def ann_graph(self, ann: Path) -> Path:
        return ann / "graph.faiss"

    def training(self, name: str) -> Path:
        return self.training_folder / name

    def training_file(self, name: str) -> Path:
        return self.training(name) / "data.parquet"

    def model(self, name: str) -> Path:
        return self.models_folder / name

    def manifest(self, artefact: Path) -> Path:
        return artefact / "manifest.json"

    def is_held(self) -> bool:
        """Whether another process is writing to the workspace."""
        try:
            lock_file(self.lock).close()
        except WorkspaceError:
            return True
        return False

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """An exclusive lock on the workspace that dies with its process; WorkspaceError when another has it.

        What killed commands left is tidied up first.
        """
        if link := next(_links_outside(self), None):
            raise WorkspaceError(f"{link} is a link that leads out of the workspace: put what it leads to in its place")
        with explain_failed_write(self.root), contextlib.closing(lock_file(self.lock)):
            with contextlib.suppress(OSError):  # what cannot be removed does no harm
                _tidy(self)
            yield


def _links_outside(workspace: Workspace) -> Iterator[Path]:
    """Links, where lemmata writes, to something outside: a workspace of somebody else must not overwrite it."""
    home = workspace.root.resolve()
    places = [workspace.root / name for name in (".lock", "cache", *FOLDERS)]
    below = (Path(top, name) for place in places for top, *both in os.walk(place) for names in both for name in names)
    for path in (*places, *below):
        if path.is_symlink() and not path.resolve().is_relative_to(home):
            yield path


def _tidy(workspace: Workspace) -> None:
    """Put back a folder whose replacement was killed between two renames; remove what else killed commands left.

    That is what they replaced (`.NAME.old`) and what was to replace it (`.NAME.PROCESS`).
    """
    own = (path for name in FOLDERS for path in workspace.root.glob(f".{name}.*"))
    below = [workspace.dense_folder, *(workspace.root / name for name in FOLDERS)]
    places = [*below, *(workspace.dense_folder.iterdir() if workspace.dense_folder.is_dir() else ())]
    for path in [*own, *(path for place in places for path in place.glob(".*.*"))]:
        if (path / "begun.json").exists():  # the checkpoints of a model whose name looks like that
            continue
        if path.name.endswith(".old"):
            place = path.with_name(path.name.removeprefix(".").removesuffix(".old"))
            if place.exists() or read_manifest(path / "manifest.json") is None:
                remove(path)
            else:
                path.replace(place)
        elif is_leftover(path) and not path.name.endswith(f".{os.getpid()}"):
            remove(path)


def _folder_name(encoder: str) -> str:
    """The encoder itself where that is a safe file name; else its readable end with a hash of all of it."""
    if re.fullmatch(r"\w[\w-]{,80}", encoder, re.ASCII):
        return encoder
    readable = re.sub(r"\W+", "-", encoder, flags=re.ASCII)[-40:].strip("-") or "encoder"
    return f"{readable}.{hashlib.sha256(encoder.encode(errors='surrogatepass')).hexdigest()[:8]}"


# ---------------------------------------------------------------- manifests


def write_manifest(path: Path, content: Mapping[str, Any]) -> None:
    """The last act of a stage."""
    manifest = as_stored({"format": FORMAT, **content})
    data = json.dumps({**manifest, "checksum": _checksum(manifest)}, indent=1, sort_keys=True, ensure_ascii=False)
    write_atomically(path, data.encode(errors="surrogatepass") + b"\n")


def as_stored(content: Mapping[str, Any]) -> Manifest:
    """A manifest as it comes back from the disk."""
    return dict(json.loads(json.dumps(content)))


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


def open_manifest(path: Path, cure: str, anew: str = "") -> Manifest | None:
    """What a complete stage wrote; None where it did not run.

    WorkspaceError with the `cure` for a damaged manifest, and for one of another format, where `anew` may be another.
    """
    manifest = read_manifest(path)
    if manifest is None and path.exists():
        if (number := _format_of(_read(path))) not in (0, FORMAT):
            raise other_format(path, number, FORMAT, anew or cure)
        raise WorkspaceError(f"{path} is damaged (not as it was written): {cure}")
    return manifest


def read_corpus_manifest(workspace: Workspace) -> Manifest | None:
    """That of the corpus; None where no ingest is complete, WorkspaceError where it is damaged."""
    anew = f"delete the folder {workspace.corpus_folder} and run 'lemmata ingest PATHS…' with its sources again"
    return open_manifest(workspace.manifest(workspace.corpus_folder), "run the last 'lemmata ingest' again", anew)


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifests(folder: Path) -> dict[str, Manifest]:
    """The manifest of every complete artefact in a folder, by name."""
    artefacts = sorted(folder.glob("[!.]*")) if folder.is_dir() else []
    manifests = {artefact.name: read_manifest(artefact / "manifest.json") for artefact in artefacts}
    return {name: manifest for name, manifest in manifests.items() if manifest is not None}


@dataclass(frozen=True, slots=True)
class VectorSet:
    """The folder of an encoder, with its vectors and what was made from them; none of them need exist."""

    encoder: str  # what `load_encoder` takes
    is_default: bool
    root: Path

    vectors = _Below("vectors")
    manifest = _Below("vectors/manifest.json")
    ann = _Below("ann")
    fusion = _Below("fusion.json")
    summaries = _Below("summaries")  # short texts about passages, with their vectors
    summaries_ann = _Below("summaries_ann")
    lengths = _Below("lengths")  # of the edges of the graph
    map = _Below("map")  # the places of the passages
    metric = _Below("metric")  # the learned one, with its own lengths of edges


def default_encoder(workspace: Workspace) -> str:
    """The encoder that search uses; empty where there are no vectors yet, WorkspaceError where the note is damaged."""
    chosen = open_manifest(
        workspace.default_encoder_file, "run 'lemmata index --encoder NAME' with the encoder to search with"
    )
    return str(chosen["encoder"]) if chosen else ""


def _default_if_readable(workspace: Workspace) -> str:
    try:
        return default_encoder(workspace)
    except WorkspaceError:
        return ""


def set_default_encoder(workspace: Workspace, encoder: str) -> None:
    """Let search use the vectors of this encoder."""
    if (read_manifest(workspace.default_encoder_file) or {}).get("encoder") != encoder:
        write_manifest(workspace.default_encoder_file, {"verb": "index", "encoder": encoder})


def vector_set(workspace: Workspace, encoder: str = "") -> VectorSet | None:
    """The set of an encoder, whether it exists or not; without a name the default one, or None."""
    name = encoder or default_encoder(workspace)
    return vectors_of(workspace, name) if name else None


def vectors_of(workspace: Workspace, encoder: str) -> VectorSet:
    """The set of a named encoder, whether it exists or not."""
    return VectorSet(encoder, encoder == _default_if_readable(workspace), workspace.encoder_folder(encoder))


def vector_sets(workspace: Workspace) -> list[VectorSet]:
    """All sets that exist, complete or not, the default one first."""
    default = _default_if_readable(workspace)
    sets = []
    for folder in workspace.dense_folder.glob("[!.]*") if workspace.dense_folder.is_dir() else ():
        if (folder / "vectors").is_dir():
            manifest = read_manifest(folder / "vectors" / "manifest.json")
            known = default if folder == workspace.encoder_folder(default) else folder.name
            encoder = str(manifest["encoder"]) if manifest else known
            sets.append(VectorSet(encoder, encoder == default, folder))
    return sorted(sets, key=lambda item: (not item.is_default, item.encoder))


def remove_vectors(workspace: Workspace, removed: VectorSet) -> None:
    """Delete a set with what was made from it; call it while holding the workspace."""
    if removed.is_default:
        workspace.default_encoder_file.unlink(missing_ok=True)
    retire(removed.root)
