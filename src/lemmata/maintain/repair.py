"""`lemmata doctor --repair`: remove what is damaged, and make it again by the verbs of the table of artefacts.

A workspace may come from anybody: no command that is written in it is ever run, no server is asked and no model is
trained. What needs more than the workspace itself is left to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lemmata.core.artefacts import Artefact, artefacts, file_problems, note_problems
from lemmata.core.errors import LemmataError, WorkspaceError
from lemmata.core.files import retire, writing
from lemmata.core.workspace import Manifest, Workspace, default_encoder, read_manifest
from lemmata.encode.load import encoder_kind
from lemmata.graph.build import build_graph
from lemmata.mine.embedding import embed_graph
from lemmata.mine.mine import mine_again
from lemmata.mine.splits import split
from lemmata.search.index import as_before, index, update_vectors
from lemmata.search.map import build_map
from lemmata.vectors.store import vectors_manifest


class Repair(NamedTuple):
    """A damaged artefact, and the command that makes it again."""

    name: str
    path: str
    command: str
    removed: bool  # a model stays: hours of training, and perhaps only its report is damaged
    done: bool  # whether it was made again; else the command is for the user to run
    cause: str = ""  # why it could not be made again


def _index(workspace: Workspace, item: Artefact, _manifest: Manifest) -> None:
    """Bring an index up to date as it was made; which encoder search uses stays."""
    default = default_encoder(workspace)
    if item.encoder not in ("", default):
        update_vectors(workspace, [item.encoder], whole=True)
        return
    settings = {"encoder": default, **as_before(vectors_manifest(workspace))} if default else {}
    index(workspace, settings=settings, dense=bool(default))


def _map(workspace: Workspace, item: Artefact, _manifest: Manifest) -> None:
    if item.encoder != default_encoder(workspace):
        raise WorkspaceError(f"a map is made by the encoder that search uses, which {item.encoder} is not")
    build_map(workspace)


def _split(workspace: Workspace, _item: Artefact, manifest: Manifest) -> None:
    if not manifest:
        raise WorkspaceError("its options are lost, and another split may move test passages into training")
    split(workspace, settings=manifest["options"])


# by kind, in the order in which they are tried
_VERBS: dict[str, Callable[[Workspace, Artefact, Manifest], Any]] = {
    "graph": lambda workspace, *_: build_graph(workspace),
    "split": _split,
    "set": lambda workspace, item, _: mine_again(workspace, item.folder.name),
    **dict.fromkeys(("lexical", "vectors", "ann", "lengths", "summaries", "summaries_ann"), _index),
    "embedding": lambda workspace, *_: embed_graph(workspace),
    "map": _map,
}
# the kind whose verb writes a note again
_OF_NOTES = {"indexing.json": "lexical", "summaries.npy": "lexical", "records.json": "graph"}


def repair(workspace: Workspace, say: Callable[[str], None] = lambda _sentence: None) -> list[Repair]:
    """Remove every damaged artefact and make it again; `say` is told of each step.

    Models stay, and so do the corpus and the records of the graph, which no verb can make again by itself.
    """
    turns = {kind: turn for turn, kind in enumerate(_VERBS)}
    with workspace.hold():
        damaged = sorted(_remove(workspace), key=lambda damage: turns.get(damage[0].kind, len(turns)))
    causes = {item.folder: "no verb makes it from the workspace alone" for item, _ in damaged}
    for item, _ in damaged:
        say(f"{'removed' if item.inputs else 'kept'} the damaged {item.name} ({item.folder})")
    made = True
    while made:  # what fails may read something that is made after it
        attempts = [damage for damage in damaged if causes[damage[0].folder] and damage[0].kind in _VERBS]
        causes |= {item.folder: _make(workspace, item, manifest, say) for item, manifest in attempts}
        made = any(not causes[item.folder] for item, _ in attempts)
    unfinished = (read_manifest(workspace.indexing) or {}).get("encoder")  # a repair that was killed has left it so
    for item in artefacts(workspace):
        if item.kind == "vectors" and item.encoder == unfinished and item.folder not in causes:
            _make(workspace, item, {}, say)
    for item, _ in damaged:
        if cause := causes[item.folder]:
            say(f"{cause}: run '{item.command}' yourself")
    return [
        Repair(item.name, str(path), item.command, bool(item.inputs), not cause, cause)
        for (item, _), (path, cause) in zip(damaged, causes.items(), strict=True)
    ]


def _remove(workspace: Workspace) -> Iterator[tuple[Artefact, Manifest]]:
    """Remove all that is damaged, but for models; yields it with its manifest, which is empty where it is damaged.

    The manifest of what a verb makes again stays: it has the options. One that is damaged is replaced by the verb.
    """
    for item in artefacts(workspace):
        workspace.progress(f"reading the {item.name}", 0, None)
        if all(problem.what == "foreign" for problem in file_problems(item)):
            continue
        manifest = read_manifest(item.manifest) or {}
        yield item, manifest
        if manifest and item.kind in _VERBS:
            content = item.manifest.read_bytes()
            with writing(item.folder) as folder:  # in one step: a repair that is killed finds it again
                folder.mkdir()
                (folder / item.manifest.name).write_bytes(content)
        elif item.inputs and (item.kind not in _VERBS or not item.replaceable):
            retire(item.folder)
    for problem in note_problems(workspace):
        problem.path.unlink()
        kind = _OF_NOTES.get(problem.path.name, "note")
        yield Artefact(kind, problem.path.name, problem.path, problem.command, {"note": ""}), {}


def _make(workspace: Workspace, item: Artefact, manifest: Manifest, say: Callable[[str], None]) -> str:
    """Make something again; returns why that cannot be done, empty where it was."""
    try:
        encoder = item.encoder or default_encoder(workspace)
        asks = item.kind not in ("graph", "split") and encoder
        if asks and encoder_kind(encoder, workspace.models_folder) == "remote":
            return f"{encoder} would receive the texts"
        say(f"making the {item.name} again")
        _VERBS[item.kind](workspace, item, manifest)
    except LemmataError as error:
        return str(error)
    return ""
