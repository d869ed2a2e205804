"""Folders that were never made a workspace: where theirs lies, and who serves it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lemmata.core.errors import InputError, WorkspaceBusy, WorkspaceError
from lemmata.core.files import is_writable, lock_file, write_atomically
from lemmata.core.workspace import HIDDEN, Workspace

_SECONDS = 5.0  # until a server that has just started has told its address


class AlreadyServed(Exception):  # noqa: N818 - says what happened
    """Another server has the workspace; its address is the argument, empty where it is not known."""


def place_of(folders: Sequence[Path], chosen: Path | None = None) -> Path:
    """Where the workspace of some folders lies, whether it is there or not; InputError for a path that does not exist.

    Of one folder it lies in it; of several, or of one that cannot be written to, in the user's data folder.
    """
    if missing := [str(folder) for folder in folders if not folder.exists()]:
        raise InputError(f"{', '.join(missing)}: there is no such file or folder")
    if chosen is not None:
        return chosen
    places = sorted(os.path.realpath(folder) for folder in folders)
    if len(places) == 1 and Path(places[0]).is_dir() and is_writable(Path(places[0])):
        root = folders[0] / HIDDEN
        if root.is_symlink():
            raise WorkspaceError(f"{root} is a link: name the workspace that it leads to with -w, or delete the link")
        return root
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    key = hashlib.sha256("\0".join(places).encode(errors="surrogatepass")).hexdigest()[:8]
    root = data / "lemmata" / f"{Path(places[0]).name}-{key}"
    if not is_writable(root):
        raise WorkspaceError(f"{root} cannot be written to: name another folder for the workspace with -w")
    return root


def workspace_of(folders: Sequence[Path], chosen: Path | None = None) -> Workspace:
    """The workspace of some folders, made at their place where there is none."""
    root = place_of(folders, chosen)
    workspace = Workspace.init(root).check()
    if root.name == HIDDEN and not os.path.lexists(root / ".gitignore"):
        write_atomically(root / ".gitignore", b"*\n")
    return workspace


def shown_name(root: Path) -> str:
    """What the page calls a workspace: one that was made for a folder or a file is called as that is."""
    root = root.resolve()
    is_ours = root.parent.name == "lemmata"  # in the user's data folder
    return root.parent.name if root.name == HIDDEN else re.sub(r"-[\da-f]{8}$", "", root.name) if is_ours else root.name


@contextlib.contextmanager
def serving_alone(workspace: Workspace) -> Iterator[Path]:
    """The file for the address of the only server of a workspace; AlreadyServed where there is one."""
    address = workspace.root / ".address"
    try:
        lock = lock_file(workspace.root / ".server")
    except WorkspaceBusy:
        end = time.monotonic() + _SECONDS
        while not address.is_file() and time.monotonic() < end:
            time.sleep(0.1)
        raise AlreadyServed(address.read_text() if address.is_file() else "") from None
    with contextlib.closing(lock):
        address.unlink(missing_ok=True)  # of a server that was killed
        try:
            yield address
        finally:
            address.unlink(missing_ok=True)
