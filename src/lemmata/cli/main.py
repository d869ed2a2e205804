"""All commands in the order of the help, and the entry point."""

from __future__ import annotations

import io
import itertools
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from typer import Option

from lemmata.cli import (
    ask,
    content,
    demo,
    evaluate,
    export,
    graph,
    inspect,
    meant,
    mine,
    search,
    serve,
    train,
    workspace,
)
from lemmata.cli.output import MISUSED, fail, invocation, log, say
from lemmata.core.errors import ConfigError, LemmataError, WorkspaceBusy
from lemmata.train.ranks import refuse_several

STOPPED = "stopped; finished work is kept, the same command resumes"
INTERRUPTED = 130  # the exit code of a program that Ctrl-C stopped; typer exits with it, without a word


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"lemmata {version('lemmata')}")  # noqa: T201
        raise typer.Exit


def _options(
    context: typer.Context,
    log_format: Annotated[
        str,
        Option(
            "--log", help="Messages and progress on standard error: text or json, an object a line.", metavar="FORMAT"
        ),
    ] = "text",
    _version: Annotated[
        bool, Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Turn a corpus and its graph into a search engine that speaks its language."""
    if log_format not in ("text", "json"):
        raise ConfigError(f"--log {log_format}: the formats are text and json")
    if context.invoked_subcommand != "train":
        refuse_several(f"'lemmata {context.invoked_subcommand}' works")
    log.is_json, log.stage = log_format == "json", context.invoked_subcommand or ""
    if log.is_json:
        begin = time.perf_counter()
        log.write("started")
        context.call_on_close(lambda: log.write("ended", seconds=round(time.perf_counter() - begin, 3)))


Commands = Sequence[Callable[..., None]]
# by what they are for; a name stands for a group of commands
COMMANDS: dict[str, Sequence[Callable[..., None] | str]] = {
    "From a folder to a page": (serve.serve, ask.mcp, train.adapt, demo.demo),
    "A workspace, step by step": (
        workspace.init,
        workspace.fetch,
        workspace.ingest,
        "graph",
        search.index,
        search.map_,
        workspace.config,
        workspace.info,
        content.list_,
        content.show,
    ),
    "Ask it": (search.search, search.similar, search.bridge, ask.ask),
    "Train and measure": (
        mine.split,
        "mine",
        mine.audit,
        "train",
        train.run,
        evaluate.evaluate,
        evaluate.judge,
        evaluate.judgments,
        evaluate.mteb,
        inspect.inspect,
    ),
    "Keep and exchange": (
        workspace.verify,
        "export",
        evaluate.export_encoder,
    ),
}
GROUPS: dict[str, tuple[str, Commands]] = {
    "graph": (
        "Build, enrich and exchange the graph.",
        (graph.build, graph.extract, graph.link, graph.embed, graph.merges, graph.import_, graph.export),
    ),
    "mine": (
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
    ),
    "export": ("Write the corpus and its tasks for other tools.", (export.corpus, export.beir)),
    "train": (
        "Train an encoder on what was mined.",
        (train.pretrain, train.finetune, train.reranker, train.static, train.metric, train.prepare, train.models),
    ),
}
# options of every command, and the commands that have no use for them
SHARED = {
    "workspace": Annotated[Path, Option("-w", "--workspace", help="The workspace folder.", metavar="DIR")],
    "as_json": Annotated[bool, Option("--json", help="Print one JSON document.")],
}
_WITHOUT: dict[str, Commands] = {
    "workspace": (demo.demo, workspace.init, workspace.fetch),
    "as_json": (demo.demo, mine.export, serve.serve, ask.mcp),
}


class _Command(typer.core.TyperCommand):
    """A command that knows what its options are called in other tools."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return meant.parse(super().parse_args, ctx, args)


class _Group(typer.core.TyperGroup):
    """Commands that know where their options stand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return meant.parse(super().parse_args, ctx, args)


class _ByUse(_Group):
    """The help lists commands by what they are for, each with its whole first sentence."""

    def format_commands(self, _context: Any, formatter: Any) -> None:
        for heading, commands in COMMANDS.items():
            names = [command if isinstance(command, str) else _name(command) for command in commands]
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(200)) for name in names])


def make_app(*names: str) -> typer.Typer:
    """The command line. With names of commands or groups, only these can be called, and the others are just listed.

    Reading the parameters of all commands takes longer than answering `--help`.
    """
    app = typer.Typer(
        name="lemmata",
        cls=_ByUse,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for command in itertools.chain(*COMMANDS.values()):
        if isinstance(command, str):
            help_text, commands = GROUPS[command]
            group = typer.Typer(cls=_Group, help=help_text, no_args_is_help=True, rich_markup_mode=None)
            for member in commands if not names or command in names else commands[:1]:
                group.command(_name(member), cls=_Command)(_callable(member, command, names))
            app.add_typer(group, name=command)
        else:
            app.command(_name(command), cls=_Command)(_callable(command, _name(command), names))
    return app


def _callable(command: Callable[..., None], name: str, names: Sequence[str]) -> Callable[..., None]:
    return _with_shared(command) if not names or name in names else _listed(command)


def _name(command: Callable[..., None]) -> str:
    return command.__name__.rstrip("_").replace("_", "-")


def _with_shared(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that every command has."""

    @wraps(command)
    def call(*, workspace: Path = Path(), as_json: bool = False, **arguments: Any) -> None:
        invocation.folder, invocation.is_json = workspace, as_json
        command(**arguments)

    own_signature = signature(command, eval_str=True)
    defaults = {"workspace": Path(), "as_json": False}
    shared = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=option)
        for name, option in SHARED.items()
        if command not in _WITHOUT[name]
    ]
    call.__signature__ = own_signature.replace(parameters=[*own_signature.parameters.values(), *shared])  # type: ignore[attr-defined]
    return call


def _listed(command: Callable[..., None]) -> Callable[[], None]:
    """A command without parameters that stands for another in the list of all."""

    def stand_in() -> None: ...

    stand_in.__doc__ = command.__doc__
    return stand_in


def _run() -> None:
    """Run the command, again from its beginning while another process writes to the workspace.

    What was read before the other one finished may no longer hold.
    """
    from lemmata.core.files import wait_for_lock

    words = [word for word in sys.argv[1:] if not word.startswith("-")]  # the command is one of them
    app = make_app(*words or ["--help"])
    while True:
        try:
            app(standalone_mode=True)
        except WorkspaceBusy as busy:
            say(f"{busy.holder}: waiting until it is done")
            wait_for_lock(busy.lock)


def _replace_what_cannot_be_shown() -> None:
    """Let output replace characters that its encoding does not have, such as those of cp1252, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _text_read_as_options() -> str:
    """The first argument that begins with a dash but is neither an option nor the value of one: `-1 modulo p`."""
    words = sys.argv[: sys.argv.index("--") if "--" in sys.argv else None]
    texts = (word for before, word in pairwise(words) if not re.fullmatch(r"-\w|--[\w-]+", before))
    return next((word for word in texts if re.match(r"-[^-A-Za-z]|-[^=\s]*\s", word)), "")


def main() -> None:
    """Run the command line; a user error prints one sentence and exits with code 1."""
    _replace_what_cannot_be_shown()
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
            if stop.code == MISUSED and (text := _text_read_as_options()):
                say(f"{text!r} was read as options, as it begins with a dash: put it last, with -- before it")
            raise
        fail(STOPPED, INTERRUPTED)
