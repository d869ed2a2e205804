"""The artefacts of a workspace: a table of what each is made from and by which command, and the one rule for them.

The manifest of an artefact names its inputs, its options, and the size and hashes of its files. It is out of date when
an input is another one by now (`stale`); it is made again when its recipe is another one (`is_current`, `making`).
Readers call `open_artefact`, which checks sizes and first bytes; `verify` reads all files.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from lemmata.core.errors import WorkspaceError
from lemmata.core.files import (
    bytes_below,
    read_array,
    read_checked_array,
    replace_folder,
    sha256_of,
    writing,
    zero_rows,
)
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
    """A folder that a command makes."""

    kind: str  # its row of the tables below; or `set` or `model`
    name: str  # in messages
    folder: Path
    command: str  # for people: nothing runs it
    inputs: Mapping[str, str]  # key in the manifest: what it names; none for a model, which stays valid
    replaceable: bool = True  # whether the command replaces a damaged one, without reading it
    other_command: str = ""  # that may have made it, where a damaged manifest does not tell
    vectors: Path | None = None  # the manifest of the vectors that it was made from, where they are an input
    encoder: str = ""  # for which it is made

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def cure(self) -> str:
        """What to do if it is out of date."""
        if not self.inputs:
            other = f" (or '{self.other_command}')" if self.other_command else ""
            return f"train it again with '{self.command}'{other}"
        return f"run '{self.command}' again"

    @property
    def repair(self) -> str:
        """What to do if it is damaged."""
        return self.cure if self.replaceable else self.rebuild

    @property
    def rebuild(self) -> str:
        """What to do if it is damaged in a way that its command does not notice."""
        return f"delete the folder {self.folder} and run '{self.command}'"


class FileProblem(NamedTuple):
    """A file that is not as its manifest says."""

    path: Path
    what: str  # damaged, missing or foreign
    sentence: str  # with the cure
    command: str = ""  # that makes it again


class Row(NamedTuple):
    """A row of the tables below."""

    name: str  # in messages
    command: str
    inputs: Mapping[str, str] = MappingProxyType({})  # key in the manifest: what it names
    replaceable: bool = True


# by the attribute of Workspace that names its folder, without `_folder`
OF_WORKSPACE = {
    "corpus": Row("corpus", "lemmata ingest PATHS…", replaceable=False),
    "lexical": Row("lexical index", "lemmata index", {"corpus": "corpus"}),
    "graph": Row("graph", "lemmata graph build", {"corpus": "corpus"}),
    "embedding": Row("graph embedding", "lemmata graph embed", {"inputs": "graph"}),
    "split": Row("split", "lemmata split", {"inputs": "corpus"}, replaceable=False),
}
# by its folder; one for each encoder
OF_ENCODER = {
    "vectors": Row("dense index", "lemmata index", {"corpus": "corpus"}),
    "ann": Row("neighbour index", "lemmata index", {"vectors": "vectors"}),
    "lengths": Row("set of edge lengths", "lemmata index", {"vectors": "vectors", "graph": "graph"}),
    "metric": Row("learned metric", "lemmata train metric", {"vectors": "vectors"}),  # another graph: without paths
    "map": Row("map", "lemmata map", {"vectors": "vectors"}),
    "summaries": Row("summary index", "lemmata index", {"corpus": "corpus"}),
    "summaries_ann": Row("neighbour index of summaries", "lemmata index", {"vectors": "vectors"}),
}
_OF_SET = {"inputs": "corpus", "split": "split", "made_from": "sets"}
_CHANGED = {
    "corpus": "the corpus changed since the {} was made",
    "graph": "the graph was made again after the {} was made",
    "vectors": "the vectors were made again after the {} was made",
    "split": "the {} was mined under another split",
}


def artefact(workspace: Workspace, kind: str) -> Artefact:
    """One of OF_WORKSPACE."""
    row = OF_WORKSPACE[kind]
    folder = getattr(workspace, f"{kind}_folder")
    return Artefact(kind, row.name, folder, row.command, row.inputs, row.replaceable)


def of_encoder(vectors: VectorSet, kind: str) -> Artefact:
    """One of OF_ENCODER."""
    row = OF_ENCODER[kind]
    name, command = row.name, row.command
    if not vectors.is_default:
        name = f"{name} of {vectors.encoder}"
        command = command if kind == "map" else f"{command} --encoder {vectors.encoder}"
    made_from = vectors.root / ("summaries" if kind == "summaries_ann" else "vectors") / "manifest.json"
    return Artefact(
        kind,
        name,
        vectors.root / kind,
        command,
        row.inputs,
        vectors=made_from if "vectors" in row.inputs else None,
        encoder=vectors.encoder,
    )


dense_index = partial(of_encoder, kind="vectors")
neighbour_index = partial(of_encoder, kind="ann")
edge_lengths = partial(of_encoder, kind="lengths")
learned_metric = partial(of_encoder, kind="metric")
passage_map = partial(of_encoder, kind="map")
summary_index = partial(of_encoder, kind="summaries")
summary_neighbours = partial(of_encoder, kind="summaries_ann")


def training_set(workspace: Workspace, name: str) -> Artefact:
    """A mined set; the manifest has the command that made it."""
    folder = workspace.training(name)
    command = (read_manifest(workspace.manifest(folder)) or {}).get("command", "lemmata mine")
    return Artefact("set", f"training set {name!r}", folder, command, _OF_SET)


def model(folder: Path) -> Artefact:
    """A trained model, in a workspace or elsewhere."""
    verb = (read_manifest(folder / "manifest.json") or {}).get("verb")
    pretrain = f"lemmata train pretrain {folder.name}"
    command = "lemmata run" if verb == "update" else f"lemmata train {verb or 'finetune'} {folder.name}"
    return Artefact("model", f"model {folder.name!r}", folder, command, {}, other_command="" if verb else pretrain)


def models(workspace: Workspace) -> list[Artefact]:
    """The trained models of a workspace; those that were brought from elsewhere may have no manifest."""
    return [model(path.parent) for path in sorted(workspace.models_folder.glob("[!.]*/manifest.json"))]


def artefacts(workspace: Workspace) -> list[Artefact]:
    """All artefacts that exist, complete or not, but for the corpus."""
    indexes = [of_encoder(vectors, kind) for vectors in vector_sets(workspace) for kind in OF_ENCODER]
    named = [artefact(workspace, kind) for kind in OF_WORKSPACE if kind != "corpus"]
    sets = [training_set(workspace, folder.name) for folder in sorted(workspace.training_folder.glob("[!.]*"))]
    found = (*named, *indexes, *sets, *models(workspace))
    return [item for item in found if item.folder.is_dir()]


def notes(workspace: Workspace) -> list[tuple[Path, str]]:
    """Small files with a checksum of their own, and the command that makes each again."""
    fitted = [workspace.rerank, *(vectors.fusion for vectors in vector_sets(workspace))]
    stages = (path for path in sorted(workspace.run_folder.rglob("*.json")) if path.name != "report.json")
    return [
        (workspace.default_encoder_file, "lemmata index --encoder NAME"),
        *((path, "lemmata evaluate --tune") for path in fitted),
        (workspace.indexing, "lemmata index"),
        (workspace.confidence, "lemmata index"),
        (workspace.summary_bindings, "lemmata index"),
        (workspace.adapted, "lemmata adapt"),
        (workspace.milvus, "lemmata index -o milvus=URI"),
        (workspace.graph_records_note, "lemmata graph build"),
        *((path, "lemmata run") for path in stages),
    ]


def note_problems(workspace: Workspace) -> Iterator[FileProblem]:
    """Notes that are damaged."""
    for path, command in notes(workspace):
        read = open_manifest if path.suffix == ".json" else read_checked_array
        try:
            if path.exists():
                read(path, f"delete it and run '{command}'")
        except WorkspaceError as error:
            yield FileProblem(path, "damaged", str(error), command)


def problems(workspace: Workspace, items: Iterable[Artefact]) -> Iterator[str]:
    """One sentence per artefact that is out of date or damaged; looks at manifests, sizes and first bytes only."""
    for item in items:
        try:
            open_artefact(workspace, item)
        except WorkspaceError as error:
            if item.manifest.exists():
                yield str(error)


def is_usable(workspace: Workspace, item: Artefact) -> bool:
    """Whether an artefact is there, undamaged and not out of date."""
    return item.manifest.exists() and not list(problems(workspace, [item]))


def all_problems(workspace: Workspace) -> list[str]:
    """One sentence for all that is out of date or damaged in a workspace, as far as a quick look tells."""
    damaged = [problem.sentence for problem in note_problems(workspace)]
    return [*damaged, *problems(workspace, artefacts(workspace))]


def size_on_disk(vectors: VectorSet, *, summaries: bool) -> int:
    """Bytes of what is made for an encoder: of its summaries, or of all the rest."""
    kinds = (kind for kind in OF_ENCODER if kind.startswith("summaries") == summaries)
    return sum(bytes_below(of_encoder(vectors, kind).folder) for kind in kinds)


# ---------------------------------------------------------------- the one rule


def open_artefact(workspace: Workspace, item: Artefact, corpus: str | None = None) -> dict[str, Any]:
    """The manifest of an artefact; WorkspaceError with the cure if it is missing, damaged or out of date.

    `corpus` is the hash of the corpus that it must be made from; None means the one on disk now.
    """
    manifest = _complete(item)
    try:
        if cause := stale(workspace, item, manifest, corpus):
            raise WorkspaceError(cause)
        check_files(item, manifest)
    except WorkspaceError:
        if read_manifest(item.manifest) == manifest:
            raise
        return open_artefact(workspace, item, corpus)  # it was replaced in between
    return manifest


def read_artefact(
    workspace: Workspace, item: Artefact, corpus: str | None, read: Callable[[dict[str, Any]], Content]
) -> Content:
    """What `read` makes of the manifest and the files beside it, which all belong to one state of the artefact."""
    manifest = open_artefact(workspace, item, corpus)
    try:
        content = read(manifest)
    except WorkspaceError:
        if read_manifest(item.manifest) == manifest:
            raise
    else:
        if read_manifest(item.manifest) == manifest:
            return content
    return read_artefact(workspace, item, corpus, read)  # it was replaced in between


def is_current(item: Artefact, recipe: Mapping[str, Any]) -> bool:
    """Whether an artefact is undamaged and its manifest says all that `recipe` says.

    A recipe names what the artefact is made from, with which options, in which format.
    """
    manifest = read_undamaged(item)
    return manifest is not None and all(manifest.get(name) == value for name, value in as_stored(recipe).items())


@contextlib.contextmanager
def making(item: Artefact, recipe: Mapping[str, Any], work: Path | None = None) -> Iterator[Path]:
    """A folder to fill, which takes the place of an artefact at the end, with the recipe in its manifest.

    Until then the artefact before can be read, and a kill leaves it as it was. What is known only after the making may
    be added to the recipe meanwhile. Long work that a kill must not lose is done in a folder of its own, `work`.
    """
    if work is not None:
        yield work
        write_hashed_manifest(work, recipe)
        replace_folder(work, item.folder)
        return
    with writing(item.folder) as folder:
        folder.mkdir()
        yield folder
        write_hashed_manifest(folder, recipe)


def stale(workspace: Workspace, item: Artefact, manifest: Mapping[str, Any], corpus: str | None = None) -> str:
    """Why an artefact is out of date, with the cure: the first input in its manifest that is another one by now.

    Empty where it is not. `corpus` is the hash of the present corpus, by default of the one on disk.
    """
    try:
        for key, what in item.inputs.items():
            if what == "sets":
                cause = _changed_set(workspace, item.folder.name, manifest, set())
            else:
                is_same = manifest.get(key) == _present(workspace, item, what, manifest, corpus)
                cause = "" if is_same else _CHANGED[what].format(item.name)
            if cause:
                return f"{cause}: {item.cure}"
    except WorkspaceError as error:  # a damaged input
        return str(error)
    return ""


def _present(workspace: Workspace, item: Artefact, what: str, manifest: Mapping[str, Any], corpus: str | None) -> Any:
    """What the manifest of an artefact would say of an input if it were made now."""
    if what == "vectors":
        assert item.vectors is not None
        return open_manifest(item.vectors, item.cure) or ""
    if what == "graph":
        graph = artefact(workspace, "graph")
        return (open_manifest(graph.manifest, graph.cure) or {}).get("inputs", "")
    if what == "split":  # sets of all passages need none
        split = None if manifest.get("everything") else read_manifest(workspace.manifest(workspace.split_folder))
        return split["digest"] if split else manifest.get("split")
    return (read_corpus_manifest(workspace) or {}).get("inputs", "") if corpus is None else corpus


def _changed_set(workspace: Workspace, name: str, manifest: Mapping[str, Any], seen: set[str]) -> str:
    """Which of the sets that a training set was made from is another one by now, or is out of date itself."""
    seen.add(name)
    made_from: Mapping[str, str] = manifest.get("made_from", {})
    for origin, digest in made_from.items():
        if origin in seen:
            continue
        begin = f"the training set {name!r} was made from {origin!r}, which"
        if set_digest(workspace, origin) not in (digest, ""):
            return f"{begin} was mined again since"
        if _changed_set(workspace, origin, read_manifest(training_set(workspace, origin).manifest) or {}, seen):
            return f"{begin} is out of date itself"
    return ""


def set_digest(workspace: Workspace, name: str) -> str:
    """The hash of the records of a training set; empty where there is none."""
    manifest = read_manifest(workspace.manifest(workspace.training(name)))
    files = (manifest or {}).get("files", {})
    return str(files.get(workspace.training_file(name).name, {}).get("sha256", ""))


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


# ---------------------------------------------------------------- the files


def write_hashed_manifest(
    folder: Path, content: Mapping[str, Any], temporary: Sequence[str] = (), before: Artefact | None = None
) -> None:
    """Write the manifest of a folder with the size and hashes of its files; call it when all files are written.

    The `temporary` ones are removed, after the long reading of the others: until then the work can be resumed. Files
    that are shared with the artefact `before` are not read again.
    """
    known = dict(_written(before, manifest)) if before and (manifest := read_undamaged(before)) else {}

    def facts(name: str, path: Path) -> Mapping[str, Any]:
        return known[name] if before and name in known and path.samefile(before.folder / name) else file_facts(path)

    files = {name: facts(name, path) for name, path in _files(folder) if name not in temporary}
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


def file_problems(item: Artefact, read: Callable[[int], None] = lambda _size: None) -> Iterator[FileProblem]:
    """Every file of an artefact that is damaged, missing or foreign; reads all files and tells `read` their sizes.

    An artefact without a manifest is incomplete, which is no damage: its command resumes.
    """
    try:
        manifest = open_manifest(item.manifest, item.repair)
        if manifest is None:
            return
        files = dict(_written(item, manifest))
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
            cure = item.rebuild if item.inputs else item.repair
            sentence = f"{path} is damaged (its checksum is wrong): {cure}"
            yield FileProblem(path, "damaged", sentence, item.command)
        elif name == "matrix.npy" and (lost := lost_vectors(item, manifest)):
            command = f"{item.command} --rebuild"
            yield FileProblem(path, "damaged", f"{path} lacks {lost:,} vectors: run '{command}'", command)
        read(facts["bytes"])
    for name, path in _files(item.folder) if files else ():
        if name not in files and not _has_own_manifest(item.folder, path):
            yield FileProblem(path, "foreign", f"{path} was not written by lemmata, or is left over")


def lost_vectors(item: Artefact, manifest: Mapping[str, Any]) -> int:
    """How many vectors of an encoder are zero though it did not make them so; 0 for other artefacts."""
    if item.kind not in ("vectors", "summaries"):
        return 0
    zero = int(zero_rows(read_array(item.folder / "matrix.npy", item.cure)).sum())
    return max(0, zero - int(manifest.get("blank", 0)))


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
