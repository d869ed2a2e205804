"""All commands in the order of the help, and the entry point."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from lemmata.cli import content, demo, evaluate, export, graph, mine, search, train, workspace
from lemmata.cli.output import fail, log, say
from lemmata.errors import ConfigError, LemmataError, WorkspaceBusy

__all__ = ["app", "main"]

STOPPED = "stopped; finished work is kept, the same command resumes"
INTERRUPTED = 130  # the exit code of a program that Ctrl-C stopped; typer exits with it, without a word

app = typer.Typer(
    name="lemmata",
    help="Turn a corpus and its graph into a search engine that speaks its language.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"lemmata {version('lemmata')}")  # noqa: T201
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    log_format: Annotated[
        str,
        typer.Option(
            "--log", help="Messages and progress on standard error: text or json, an object a line.", metavar="FORMAT"
        ),
    ] = "text",
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Turn a corpus and its graph into a search engine that speaks its language."""
    if log_format not in ("text", "json"):
        raise ConfigError(f"--log {log_format}: the formats are text and json")
    log.is_json, log.stage = log_format == "json", context.invoked_subcommand or ""
    if log.is_json:
        begin = time.perf_counter()
        log.write("started")
        context.call_on_close(lambda: log.write("ended", seconds=round(time.perf_counter() - begin, 3)))


for command in (
    demo.demo,
    workspace.init,
    workspace.ingest,
    workspace.info,
    content.list_,
    content.show,
    workspace.config,
    workspace.doctor,
    workspace.verify,
    workspace.gc,
    mine.split,
    mine.audit,
    search.index,
    search.search,
    search.similar,
    search.bridge,
    evaluate.evaluate,
    evaluate.judge,
    evaluate.mteb,
    evaluate.export_encoder,
    train.run,
):
    app.command(command.__name__.rstrip("_").replace("_", "-"))(command)


def _group(name: str, help_text: str, commands: Sequence[Callable[..., None]]) -> None:
    group = typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)
    for command in commands:
        group.command(command.__name__.rstrip("_"))(command)
    app.add_typer(group, name=name)


_group(
    "graph",
    "Build, enrich and exchange the graph.",
    (graph.build, graph.extract, graph.link, graph.embed, graph.merges, graph.import_, graph.export),
)
_group(
    "mine",
    "Mine training data from the corpus and its graph.",
    (
        mine.pairs,
        mine.queries,
        mine.import_,
        mine.triplets,
        mine.negatives,
        mine.domain,
        mine.mix,
        mine.sets,
        mine.export,
    ),
)
_group("export", "Write the corpus and its tasks for other tools.", (export.corpus, export.beir))
_group(
    "train",
    "Train an encoder on what was mined.",
    (train.pretrain, train.finetune, train.reranker, train.static, train.prepare, train.models),
)


def _run() -> None:
    """Run the command, again from its beginning while another process writes to the workspace.

    What was read before the other one finished may no longer hold.
    """
    from lemmata.files import wait_for_lock

    while True:
        try:
            app(standalone_mode=True)
        except WorkspaceBusy as busy:
            say(f"{busy.holder}: waiting until it is done")
            wait_for_lock(busy.lock)


def main() -> None:
    """Run the command line; a user error prints one sentence and exits with code 1."""
    try:
        _run()
    except LemmataError as error:
        fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone: no error
        sys.exit(0)
    except ImportError as error:
        if not isinstance(error.__cause__, KeyboardInterrupt):  # a library that was being loaded
            raise
        fail(STOPPED, INTERRUPTED)
    except MemoryError:
        fail("memory ran out; finished work is kept, the same command resumes")
    except OSError as error:
        if error.filename is None:
            raise
        fail(f"{error.filename2 or error.filename}: {error.strerror}")
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != INTERRUPTED:
            raise
        fail(STOPPED, INTERRUPTED)
