"""Copy a source from an object store into the cache of a workspace, where the readers find it as files.

Archives and tables are read several times (what they are, whether they changed, their rows), so a copy on the disk is
cheaper than reading them from the store, and memory stays bounded.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from lemmata.core.errors import InputError
from lemmata.core.files import remove, writing
from lemmata.core.objects import Entry, ObjectStore, Transfers, is_safe_name, shown
from lemmata.core.workspace import Workspace


def place_of(workspace: Workspace, url: str) -> Path:
    """Where the copy of a source lies."""
    name = shown(url).replace("://", "/", 1).replace("//", "/").rstrip("/")
    if not is_safe_name(name):
        raise InputError("a name in this URL is hidden, or cannot be that of a file", file=shown(url))
    return workspace.fetched / name


def fetch(workspace: Workspace, url: str) -> Path:
    """Bring the copy of a source up to date: objects with another size or time are fetched, deleted ones removed.

    Returns its place. Hidden objects are left out, as hidden files are. InputError for names that are no paths.
    """
    place, store = place_of(workspace, url), ObjectStore(url)
    listed = {name: entry for name, entry in store.entries().items() if "/." not in f"/{name}" or "/.." in f"/{name}"}
    if not listed:
        raise InputError("there are no objects", file=store.url)
    if unsafe := [name for name in listed if name and not is_safe_name(name)]:
        raise InputError(f"these objects cannot be files: {', '.join(map(repr, unsafe[:5]))}", file=store.url)
    wanted = {place / name if name else place: (name, entry) for name, entry in listed.items()}
    with workspace.hold():
        for path in place.rglob("*"):
            if path.is_file() and path not in wanted:
                remove(path)
        done = 0

        def count(_: None) -> None:
            nonlocal done
            done += 1
            workspace.progress("fetching", done, len(wanted))

        with Transfers() as transfers:
            for path, (name, entry) in wanted.items():
                transfers.add(count, partial(_download, store), name, entry, path)
    return place


def _download(store: ObjectStore, name: str, entry: Entry, path: Path) -> None:
    """Copy an object, unless the copy is up to date: it has the time of the object."""
    time = None if entry.modified is None else int(entry.modified * 1e9)
    if path.is_file() and (path.stat().st_size, path.stat().st_mtime_ns) == (entry.size, time):
        return
    with writing(path, durable=False) as temporary:
        store.download(name, temporary)
        if time is not None:
            os.utime(temporary, ns=(time, time))
