"""Command: serve."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from lemmata.cli.output import invocation, say
from lemmata.core.errors import LemmataError

if TYPE_CHECKING:
    from lemmata.server.background import Background

Folders = Annotated[
    list[Path] | None,
    Argument(help="Folders to make searchable and serve; without any, the workspace.", metavar="FOLDERS..."),
]


def serve(
    folders: Folders = None,
    host: Annotated[str, Option(help="Address to listen on; any but loopback needs --token.")] = "127.0.0.1",
    port: Annotated[
        int | None, Option(help="Port to listen on; default: 8765; 0: any free one.", min=0, max=65535)
    ] = None,
    token: Annotated[
        str, Option(help="What every API request must send; default: $LEMMATA_TOKEN.", metavar="TOKEN")
    ] = "",
    name: Annotated[
        list[str] | None,
        Option(help="Name by which it is opened: of the machine or a proxy; repeatable.", metavar="HOST"),
    ] = None,
    cors: Annotated[list[str] | None, Option(help="Origin whose pages may ask; repeatable.", metavar="ORIGIN")] = None,
    threads: Annotated[int, Option(help="Requests worked on at the same time.", min=1, max=64)] = 4,
    adapt: Annotated[
        str, Option(help="nightly: run 'lemmata adapt' every night at low priority.", metavar="WHEN")
    ] = "",
) -> None:
    """Make folders searchable on a web page, at once; without folders, serve the workspace. With a REST API.

    Folders need no workspace before: theirs is made beside them, while the page is open already.
    """
    from lemmata.server.app import Limits
    from lemmata.server.folder import AlreadyServed
    from lemmata.server.nightly import adapt_command, adapting_nightly
    from lemmata.server.run import PORT, listen, run, run_folder
    from lemmata.server.security import Access, check_binding

    if adapt not in ("", "nightly"):
        raise LemmataError(f"--adapt {adapt}: the only schedule is nightly")
    token = token or os.environ.get("LEMMATA_TOKEN", "")
    check_binding(host, token)
    access = Access(host, token=token, names=name or (), origins=cors or ())
    background = background_of(folders, lambda: listen(host, port or 0).close())
    limits = Limits(threads=threads)
    folder = invocation.folder if background is None else background.workspace.root
    with adapting_nightly(adapt_command(folder)) if adapt else contextlib.nullcontext():
        if background is None:
            run(folder, access, limits, host=host, port=PORT if port is None else port)
            return
        try:
            run_folder(background, access, limits, host=host, port=port)
        except AlreadyServed as other:
            say(f"it is served already{f': {other}' if str(other) else ''}")


def background_of(folders: list[Path] | None, check: Callable[[], object] = lambda: None) -> Background | None:
    """What makes the workspace of some folders; None without any, and for a workspace, which becomes that of -w.

    `check` is called before a new workspace is made, and may raise.
    """
    from lemmata.core.workspace import Workspace

    if folders and len(folders) == 1 and Workspace(folders[0]).exists:
        invocation.folder, folders = folders[0], None
    if not folders:
        for refusal in Workspace(invocation.folder).refusals:
            say(refusal)
        return None
    from lemmata.server.background import Background
    from lemmata.server.folder import place_of, workspace_of

    chosen = invocation.folder if invocation.folder != Path() else None
    if not Workspace(place_of(folders, chosen)).exists:
        check()
    workspace = workspace_of(folders, chosen)
    say(f"workspace in {workspace.root}")
    return Background(workspace, folders, say)
