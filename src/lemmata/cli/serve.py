"""Command: serve."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lemmata.cli.output import invocation


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free one.", min=0, max=65535)] = 8765,
    token: Annotated[
        str, typer.Option(help="What every API request must send; default: $LEMMATA_TOKEN.", metavar="TOKEN")
    ] = "",
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name by which it is opened: of the machine or a proxy; repeatable.", metavar="HOST"),
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(help="Origin whose pages may ask; repeatable.", metavar="ORIGIN")
    ] = None,
    threads: Annotated[int, typer.Option(help="Requests worked on at the same time.", min=1, max=64)] = 4,
) -> None:
    """Serve the web page and the REST API."""
    from lemmata.server.app import Limits
    from lemmata.server.run import run
    from lemmata.server.security import Access, check_binding

    token = token or os.environ.get("LEMMATA_TOKEN", "")
    check_binding(host, token)
    access = Access(host, token=token, names=name or (), origins=cors or ())
    run(invocation.folder, access, Limits(threads=threads), host=host, port=port)
