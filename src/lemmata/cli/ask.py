"""Commands: ask, mcp."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from lemmata.cli.output import Assigned, Model, assigned, invocation, line, open_console, opened, print_json, styled
from lemmata.cli.serve import Folders, background_of
from lemmata.core.errors import LemmataError, require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lemmata.search.ask import Event


_FLAGS = {
    "uncited": "cites no passage",
    "missing": "cites a passage that does not exist",
    "unsupported": "the cited passage does not seem to say this",
    "incomplete": "breaks off",
}


def ask(
    question: Annotated[str, Argument(help="The question.", metavar="QUESTION")],
    k: Annotated[int, Option("-k", help="Passages that the model is shown; 0: as configured.", min=0)] = 0,
    model: Model = "",
    o: Assigned = None,
) -> None:
    """Answer a question from the corpus, with citations.

    A language model writes the answer from the passages that search finds. Every sentence must cite passages, and the
    citations are checked. Without a language model, the passages are printed.
    """
    from lemmata.search.ask import ask

    if not question.strip():
        raise LemmataError("the question is empty: write what you want to know")
    settings, others = assigned(o, "ask", passages=k or None)
    endpoint = {"model": model} if model else {}
    events = map(_with_options, ask(opened(others), question, settings=settings, model=endpoint))
    if invocation.is_json:
        _print_record(events)
    else:
        _print_answer(events)


def mcp(
    folders: Folders = None,
    http: Annotated[
        int | None, Option(help="Serve HTTP on this port of 127.0.0.1 instead; 0: any free one.", min=0, max=65535)
    ] = None,
) -> None:
    """Serve folders, or the workspace, to agents (Model Context Protocol).

    On stdin and stdout by default, as an agent starts it.
    """
    require("mcp", "mcp")
    background = background_of(folders)
    from lemmata.server.mcp import run_http, run_stdio

    folder = background.workspace.root if background else invocation.folder
    if http is None:
        run_stdio(folder, background)
    else:
        run_http(folder, http, background)


def _with_options(event: Event) -> Event:
    """The event; where there is no model, the cure names the options too."""
    if event.name == "error" and event.data["code"] == "no_model":
        return event._replace(data={**event.data, "cure": f"{event.data['cure']}, or with --model and -o llm.url=URL"})
    return event


def _print_record(events: Iterator[Event]) -> None:
    """One document: the passages, the sentences with their citations, and how it ended."""
    record: dict[str, Any] = {"sentences": []}
    for event in events:
        if event.name == "passages":
            record = {**event.data, **record}
        elif event.name == "sentence":
            record["sentences"].append(event.data)
        elif event.name in ("done", "error"):
            record[event.name] = event.data
    print_json(record)
    if "error" in record and record["error"]["code"] not in ("no_model", "nothing_found"):
        raise typer.Exit(1)


def _print_answer(events: Iterator[Event]) -> None:
    """The text as it arrives, then doubts about its sentences, then the passages that it cites."""
    console = open_console()
    passages: list[dict[str, Any]] = []
    sentences: list[dict[str, Any]] = []
    for event in events:
        if event.name == "passages":
            passages = event.data["passages"]
            if event.data["note"]:
                typer.echo(event.data["note"], err=True)
        elif event.name == "text":
            console.print(event.data["text"], end="", soft_wrap=True)
            sys.stdout.flush()
        elif event.name == "sentence":
            sentences.append(event.data)
        elif event.name == "done":
            console.print("\n")
            _print_doubts(sentences)
            cited = {citation["number"] for sentence in sentences for citation in sentence["citations"]}
            _print_passages([passage for passage in passages if passage["number"] in cited])
            counts = event.data
            supported = f"{counts['supported']} of {counts['sentences']} sentences supported by what they cite"
            line(f"{supported}, by {counts['model']}{' (cached)' if counts['cached'] else ''}", style="dim")
        else:
            if sentences:
                console.print("\n")
            _print_doubts(sentences)
            message = f"{event.data['message']}: {event.data['cure']}"
            if is_told := event.data["code"] in ("no_model", "nothing_found"):
                typer.echo(f"{message}\n", err=True)
            _print_passages(passages)
            if not is_told:
                raise LemmataError(message)


def _print_doubts(sentences: list[dict[str, Any]]) -> None:
    doubtful = [sentence for sentence in sentences if sentence["flags"]]
    for sentence in doubtful:
        reasons = ", ".join(_FLAGS[flag] for flag in sentence["flags"])
        line(("doubtful  ", "yellow"), sentence["text"], (f"  ({reasons})", "yellow"))
    if doubtful:
        line()


def _print_passages(passages: list[dict[str, Any]]) -> None:
    from rich.padding import Padding

    from lemmata.latex.readable import readable
    from lemmata.server.records import numbered, short_text

    console = open_console()
    for passage in passages:
        place = ":".join(str(part) for part in (passage["file"], passage["line"]) if part)
        source = " · ".join(filter(None, (place, passage["section"])))
        name = numbered({**passage, "number": passage["printed_number"]})
        line((f"[{passage['number']}] {name} ", "bold"), (passage["id"], "cyan"), (f"  {source}", "dim"))
        console.print(Padding(styled(readable(short_text(passage["text"], 300))), (0, 0, 1, 4)))
