"""The artefacts of a workspace: what each was made from, which command makes it, and whether its files are damaged.

The manifest of an artefact names its source (the corpus, the graph or the vectors) and the size and hashes of its
files. Every reader calls `open_artefact`, which checks sizes and first bytes; `verify` reads all files.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lemmata.core.errors import WorkspaceError
from lemmata.core.files import sha256_of, writing
from lemmata.core.workspace import (
    VectorSet,
    Workspace,
    as_stored,
    open_manifest,
    read_corpus_manifest,
    read_manifest,
    vector_sets,
    write_manifest,
)

Content = TypeVar("Content")
_HEAD = 4096  # first bytes of each file, checked at every opening; the header of an array is shorter


class Artefact(NamedTuple):
    """A folder that a command makes from the corpus, the graph or the vectors, or a model."""

    name: str  # in messages
    folder: Path
    command: str
    source: str  # corpus, graph or vectors; empty for a model, which stays valid when they change
    key: str  # of its source in the manifest
    replaceable: bool = True  # whether the command replaces a damaged one, without reading it
    other_command: str = ""  # that may have made it, where a damaged manifest does not tell
    vectors: Path | None = None  # the manifest of the vectors that it was made from, where they are its source

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def cure(self) -> str:
        """What to do if it is out of date."""
        if not self.source:
            other = f" (or '{self.other_command}')" if self.other_command else ""
            return f"train it again with '{self.command}'{other}"
        return f"run '{self.command}' again"

    @property
    def repair(self) -> str:
        """What to do if it is damaged."""
        return self.cure if self.replaceable else f"delete the folder {self.folder} and run '{self.command}'"


class FileProblem(NamedTuple):
    """A file that is not as its manifest says."""

    path: Path
    what: str  # damaged, missing or foreign
    sentence: str  # with the cure
    command: str = ""  # that makes it again


class _Kind(NamedTuple):
    """A row of the tables below: what an artefact is called, which command makes it, and from what."""

    name: str  # in messages
    command: str
    source: str
    key: str  # of its source in the manifest
    replaceable: bool = True


# by the attribute of Workspace that names its folder
_OF_WORKSPACE = {
    "corpus_folder": _Kind("corpus", "lemmata ingest PATHS…", "", "", replaceable=False),
    "lexical_folder": _Kind("lexical index", "lemmata index", "corpus", "corpus"),
    "graph_folder": _Kind("graph", "lemmata graph build", "corpus", "corpus"),
    "embedding_folder": _Kind("graph embedding", "lemmata graph embed", "graph", "inputs"),
    "split_folder": _Kind("split", "lemmata split", "corpus", "inputs", replaceable=False),
}
# by the attribute of VectorSet that names its folder; one for each encoder
_OF_ENCODER = {
    "vectors": _Kind("dense index", "lemmata index", "corpus", "corpus"),
    "ann": _Kind("neighbour index", "lemmata index", "vectors", "vectors"),
    "lengths": _Kind("set of edge lengths", "lemmata index", "vectors", "vectors"),
    "metric": _Kind("learned metric", "lemmata train metric", "vectors", "vectors"),
    "map": _Kind("map", "lemmata map", "vectors", "vectors"),
    "summaries": _Kind("summary index", "lemmata index", "corpus", "corpus"),
    "summaries_ann": _Kind("neighbour index of summaries", "lemmata index", "vectors", "vectors"),
}


def artefact(workspace: Workspace, name: str) -> Artefact:
    """One of corpus, lexical, graph, embedding and split."""
    kind = _OF_WORKSPACE[f"{name}_folder"]
    folder = getattr(workspace, f"{name}_folder")
    return Artefact(kind.name, folder, kind.command, kind.source, kind.key, replaceable=kind.replaceable)


def of_encoder(vectors: VectorSet, place: str) -> Artefact:
    """What is made for an encoder: its vectors, ann, lengths, metric, map, summaries or summaries_ann."""
    kind = _OF_ENCODER[place]
    name, command = kind.name, kind.command
    if not vectors.is_default:
        name = f"{name} of {vectors.encoder}"
        command = command if place == "map" else f"{command} --encoder {vectors.encoder}"
    source = vectors.summaries / "manifest.json" if place == "summaries_ann" else vectors.manifest
    folder = getattr(vectors, place)
    return Artefact(name, folder, command, kind.source, kind.key, vectors=source if kind.source == "vectors" else None)


dense_index = partial(of_encoder, place="vectors")
neighbour_index = partial(of_encoder, place="ann")
edge_lengths = partial(of_encoder, place="lengths")
learned_metric = partial(of_encoder, place="metric")
passage_map = partial(of_encoder, place="map")
summary_index = partial(of_encoder, place="summaries")
summary_neighbours = partial(of_encoder, place="summaries_ann")


def problems(workspace: Workspace, items: Iterable[Artefact] | None = None) -> Iterator[str]:
    """One sentence per artefact that is out of date or damaged; looks at manifests, sizes and first bytes only."""
    for item in artefacts(workspace) if items is None else items:
        try:
            open_artefact(workspace, item)
        except WorkspaceError as error:
            if item.manifest.exists():
                yield str(error)


def training_set(workspace: Workspace, name: str) -> Artefact:
    """A mined set; the manifest has the command that made it."""
    folder = workspace.training(name)
    command = (read_manifest(workspace.manifest(folder)) or {}).get("command", "lemmata mine")
    return Artefact(f"training set {name!r}", folder, command, "corpus", "inputs")


def model(folder: Path) -> Artefact:
    """A trained model, in a workspace or elsewhere."""
    verb = (read_manifest(folder / "manifest.json") or {}).get("verb")
    pretrain = f"lemmata train pretrain {folder.name}"
    command = "lemmata run" if verb == "update" else f"lemmata train {verb or 'finetune'} {folder.name}"
    return Artefact(f"model {folder.name!r}", folder, command, "", "", other_command="" if verb else pretrain)


def models(workspace: Workspace) -> list[Artefact]:
    """The trained models of a workspace; those that were brought from elsewhere may have no manifest."""
    return [model(path.parent) for path in sorted(workspace.models_folder.glob("[!.]*/manifest.json"))]


def artefacts(workspace: Workspace) -> list[Artefact]:
    """All artefacts that exist, complete or not."""
    indexes = [of_encoder(vectors, place) for vectors in vector_sets(workspace) for place in _OF_ENCODER]
    named = [artefact(workspace, place.removesuffix("_folder")) for place in _OF_WORKSPACE if place != "corpus_folder"]
    sets = [training_set(workspace, folder.name) for folder in sorted(workspace.training_folder.glob("[!.]*"))]
    found = (*named, *indexes, *sets, *models(workspace))
    return [item for item in found if item.folder.is_dir()]


# ---------------------------------------------------------------- the source


def open_artefact(workspace: Workspace, item: Artefact, source: Any = None) -> dict[str, Any]:
    """The manifest of an artefact; WorkspaceError with the cure if it is missing, damaged or out of date.

    `source` is the source that the manifest must name; None means the one on disk now.
    """
    manifest = _complete(item)
    try:
        check_source(workspace, item, manifest, source)
        check_files(item, manifest)
    except WorkspaceError:
        if read_manifest(item.manifest) == manifest:
            raise
        return open_artefact(workspace, item, source)  # it was replaced in between
    return manifest


def read_artefact(
    workspace: Workspace, item: Artefact, source: Any, read: Callable[[dict[str, Any]], Content]
) -> Content:
    """What `read` makes of the manifest and the files beside it, which all belong to one state of the artefact."""
    manifest = open_artefact(workspace, item, source)
    try:
        content = read(manifest)
    except WorkspaceError:
        if read_manifest(item.manifest) == manifest:
            raise
    else:
        if read_manifest(item.manifest) == manifest:
            return content
    return read_artefact(workspace, item, source, read)  # it was replaced in between


def is_current(item: Artefact, recipe: Mapping[str, Any]) -> bool:
    """The one rule: whether an artefact is undamaged and its manifest says all that `recipe` says.

    A recipe names what the artefact is made from, with which options, in which format.
    """
    manifest = read_undamaged(item)
    return manifest is not None and all(manifest.get(name) == value for name, value in as_stored(recipe).items())


@contextlib.contextmanager
def making(item: Artefact, recipe: Mapping[str, Any]) -> Iterator[Path]:
    """A folder to fill, which takes the place of an artefact at the end, with the recipe in its manifest.

    Until then the artefact before can be read, and a kill leaves it as it was.
    """
    with writing(item.folder) as folder:
        folder.mkdir()
        yield folder
        seal(folder, recipe)


def read_undamaged(item: Artefact) -> dict[str, Any] | None:
    """The manifest of an artefact, also of one that is out of date; None if it is missing or damaged."""
    try:
        manifest = _complete(item)
        check_files(item, manifest)
    except WorkspaceError:
        return None
    return manifest


def _complete(item: Artefact) -> dict[str, Any]:
    manifest = open_manifest(item.manifest, item.repair)
    if manifest is None:
        raise WorkspaceError(f"there is no {item.name} yet: run '{item.command}'")
    return manifest


def check_source(workspace: Workspace, item: Artefact, manifest: Mapping[str, Any], source: Any = None) -> None:
    """WorkspaceError if an artefact was not made from `source`; None means the one on disk now."""
    if not item.source:
        return
    expected = _present(workspace, item) if source is None else source
    if manifest.get(item.key) != expected:
        verb = "changed since" if item.source == "corpus" else "was made again after"
        raise WorkspaceError(f"the {item.source} {verb} the {item.name} was made: {item.cure}")
    if item.folder.parent == workspace.training_folder:
        _check_split(workspace, item, manifest)
        if older := older_source(workspace, item.folder.name):
            raise WorkspaceError(older)


def _check_split(workspace: Workspace, item: Artefact, manifest: Mapping[str, Any]) -> None:
    """WorkspaceError for a training set of another split."""
    present = read_manifest(workspace.manifest(workspace.split_folder))
    if present and not manifest["everything"] and manifest["split"] != present["digest"]:
        raise WorkspaceError(f"the {item.name} was mined under another split: {item.cure}")


def set_digest(workspace: Workspace, name: str) -> str:
    """The hash of the records of a training set; empty where there is none."""
    manifest = read_manifest(workspace.manifest(workspace.training(name)))
    return str(manifest["files"][workspace.training_file(name).name]["sha256"]) if manifest else ""


def older_source(workspace: Workspace, name: str, of: tuple[str, ...] = ()) -> str:
    """Why a training set that was made from others is out of date, with the cure; empty where it is not.

    `of` are the sets that lead to this one.
    """
    item = training_set(workspace, name)
    sources: Mapping[str, str] = (read_manifest(item.manifest) or {}).get("made_from", {})
    for source, digest in sources.items():
        if source in (name, *of):
            continue
        cause = "was mined again since" if set_digest(workspace, source) not in (digest, "") else ""
        if cause or older_source(workspace, source, (*of, name)):
            return f"the {item.name} was made from {source!r}, which {cause or 'is out of date itself'}: {item.cure}"
    return ""


def _present(workspace: Workspace, item: Artefact) -> Any:
    """The source that the manifest of an artefact would name if it were made now."""
    if item.vectors is not None:
        return open_manifest(item.vectors, item.cure) or ""
    if item.source == "graph":
        graph = artefact(workspace, "graph")
        return (open_manifest(graph.manifest, graph.cure) or {}).get("inputs", "")
    return (read_corpus_manifest(workspace) or {}).get("inputs", "")


# ---------------------------------------------------------------- the files


def seal(folder: Path, content: Mapping[str, Any], temporary: Sequence[str] = ()) -> None:
    """Write the manifest of a folder with the size and hashes of its files; call it when all files are written.

    The `temporary` ones are removed, after the long reading of the others: until then the work can be resumed.
    """
    files = {name: file_facts(path) for name, path in _files(folder) if name not in temporary}
    for name in temporary:
        (folder / name).unlink(missing_ok=True)
    write_manifest(folder / "manifest.json", {**content, "files": files})


def file_facts(path: Path) -> dict[str, Any]:
    """Size and hashes of a file, as a manifest has them."""
    return {"bytes": path.stat().st_size, "head": _head(path), "sha256": sha256_of([path])}


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / "manifest.json":
            yield path.relative_to(folder).as_posix(), path


def _head(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.sha256(stream.read(_HEAD)).hexdigest()[:16]


def check_files(item: Artefact, manifest: Mapping[str, Any]) -> None:
    """WorkspaceError for a file that is missing, or whose size or first bytes have changed."""
    for name, facts in _written(item, manifest):
        if problem := _quick_problem(item, item.folder / name, facts):
            raise WorkspaceError(problem.sentence)


def read_whole(item: Artefact) -> dict[str, Any]:
    """The manifest of an artefact, after all its files were read; WorkspaceError if one has changed."""
    manifest = _complete(item)
    for problem in file_problems(item):
        if problem.what != "foreign":
            raise WorkspaceError(problem.sentence)
    return manifest


def file_problems(item: Artefact, read: Callable[[int], None] = lambda _size: None) -> Iterator[FileProblem]:
    """Every file of an artefact that is damaged, missing or foreign; reads all files and tells `read` their sizes.

    An artefact without a manifest is incomplete, which is no damage: its command resumes.
    """
    try:
        manifest = open_manifest(item.manifest, item.repair)
        files = dict(_written(item, manifest)) if manifest else {}
    except WorkspaceError as error:
        yield FileProblem(item.manifest, "damaged", str(error), item.command)
        return
    for name, facts in files.items():
        path = item.folder / name
        if problem := _quick_problem(item, path, facts):
            yield problem
            continue
        if sha256_of([path]) != facts["sha256"]:
            # training reads all files of a model before it calls it up to date; other commands look at first bytes only
            cure = f"delete the folder {item.folder} and run '{item.command}'" if item.source else item.repair
            sentence = f"{path} is damaged (its checksum is wrong): {cure}"
            yield FileProblem(path, "damaged", sentence, item.command)
        read(facts["bytes"])
    for name, path in _files(item.folder) if files else ():
        if name not in files and not _has_own_manifest(item.folder, path):
            yield FileProblem(path, "foreign", f"{path} was not written by lemmata, or is left over")


def checksums(workspace: Workspace) -> dict[Path, str]:
    """The SHA-256 of each file that a manifest names; WorkspaceError for a damaged manifest."""
    return {
        item.folder / name: facts["sha256"]
        for item in (artefact(workspace, "corpus"), *artefacts(workspace))
        if (manifest := open_manifest(item.manifest, item.repair))
        for name, facts in _written(item, manifest)
    }


def _has_own_manifest(folder: Path, path: Path) -> bool:
    """Whether a file belongs to an artefact inside another one, or is hidden: a temporary file."""
    between = path.parents[: len(path.relative_to(folder).parts) - 1]
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return hidden or any((place / "manifest.json").exists() for place in between)


def _quick_problem(item: Artefact, path: Path, facts: Mapping[str, Any]) -> FileProblem | None:
    """What a look at the size and the first bytes tells."""
    if not path.is_file():
        return FileProblem(path, "missing", f"{path} is missing: {item.repair}", item.command)
    size = path.stat().st_size
    cause = f"{size:,} bytes instead of {facts['bytes']:,}" if size != facts["bytes"] else ""
    if not cause and _head(path) != facts["head"]:
        cause = "its first bytes changed"
    return FileProblem(path, "damaged", f"{path} is damaged ({cause}): {item.repair}", item.command) if cause else None


def _written(item: Artefact, manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Names of the files with their size and hashes."""
    try:
        for name, facts in manifest["files"].items():
            yield str(name), {"bytes": int(facts["bytes"]), "head": facts["head"], "sha256": facts["sha256"]}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise WorkspaceError(f"{item.manifest} is damaged: {item.repair}") from error
