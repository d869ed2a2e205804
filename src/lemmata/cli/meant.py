"""Options that other tools have, or that are settings here, and what to write instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from lemmata.cli.output import MISUSED, fail

# what is typed, and the options or arguments that it may mean, of which the first that a command has is named
_MEANT = {
    "--limit --top --top-k --topk --top-n --max-results --num-results --results --hits -n": "-k",
    "--query -q": "--queries TEXT QUESTION",
    "--text --question": "TEXT QUESTION",
    "--model --embedding-model --embedder --encoder": "--encoder --retriever",
    "--method --mode --search-type --rerank --reranker": "--retriever",
    "--output --out --output-file --output-dir -o": "--out --export OUT DIR PATH",
    "--format --output-format": "--json",
    "--config --set --option": "-o",
    "--workspace --root --db --index -w -d": "--workspace DIR",
    "--dir --directory --folder": "FOLDERS... PATHS... DIR --workspace",
    "--filter": "--where",
    "--type": "--kind",
    "--doc": "--document",
    "--from --after --start": "--since A",
    "--to --before --end": "--until B",
    "--bind --address --listen": "--host",
    "-p": "--port",
    "--api-key --password": "--token",
    "--jobs --processes --threads -j": "--workers --threads",
    "--force --overwrite -f": "--rebuild --again --force",
    "--reindex --recreate": "--rebuild --again",
    "--delete": "--remove --clear",
    "-V": "--version",
}
OPTIONS = {typed: meant.split() for all_typed, meant in _MEANT.items() for typed in all_typed.split()}


def parse(parse_args: Callable[[Any, list[str]], list[str]], context: Any, words: list[str]) -> list[str]:
    """Parse the words behind a command; an option that it has by another name only is answered by this name."""
    given = list(words)  # parsing takes words out
    try:
        return parse_args(context, words)
    except Exception as error:  # NoSuchOption of click, or of the copy of click in typer
        typed = getattr(error, "option_name", "")
        is_option = any(re.fullmatch(rf"{re.escape(typed)}(=.*|\d+)?", word) for word in given)  # not "-n is odd"
        if is_option and (advice := _instead(typed, context, given)):
            fail(f"'{context.command_path}' has no {typed}: {advice}", MISUSED)
        if "unexpected extra argument" in str(error) and (quoted := _in_quotes(context, given)):
            fail(f"a text of several words stands in quotes: {quoted}", MISUSED)
        raise


def _instead(typed: str, context: Any, given: list[str]) -> str:
    return _behind(typed, context, given) or _advice(typed, context.command.params) or _setting(typed, context)


def _in_quotes(context: Any, given: list[str]) -> str:
    """The command with its words in quotes; empty where it takes no text."""
    argument = next((each for each in context.command.params if each.metavar in ("TEXT", "QUESTION", "ID")), None)
    if argument is None or argument.param_type_name != "argument":
        return ""
    values, others, _ = context.command.make_parser(context).parse_args(args=list(given))
    words = [values[argument.name], *others]
    for word in words:
        given.remove(word)
    text = " ".join(words)
    quoted = shlex.quote(text) if re.search(r'["$`\\!]', text) else f'"{text}"'
    return " ".join([context.command_path, quoted, *map(shlex.quote, given)])


def _behind(typed: str, context: Any, given: list[str]) -> str:
    """Where an option of a command stands that was typed before its name; empty where it is none."""
    commands = getattr(context.command, "commands", {})
    name = next((word for word in given if word in commands), "")
    if name and any(typed in parameter.opts for parameter in commands[name].params):
        return f"it stands behind the command: {context.command_path} {name} … {typed} …"
    return ""


def _advice(typed: str, parameters: Sequence[Any]) -> str:
    """What to write instead; empty where no parameter is plainly meant."""
    options = {name: parameter for parameter in parameters for name in parameter.opts}
    arguments = {parameter.metavar for parameter in parameters if parameter.param_type_name == "argument"}
    for name in OPTIONS.get(typed, ()):
        if name in options:
            return f"use {name} {options[name].metavar or ''}".rstrip()
        if name in arguments:
            return f"write {name} without an option"
    return ""


def _setting(typed: str, context: Any) -> str:
    """How to give a setting of the command that was typed as an option; empty where there is none of that name."""
    if not any("-o" in parameter.opts for parameter in context.command.params):
        return ""
    from lemmata.core.config import all_options

    key, words = typed.lstrip("-").replace("-", "_"), context.command_path.split()[1:]
    for option, _ in all_options():
        table, _, inner = option.table.removesuffix(".*").partition(".")
        if option.key == key and table in words and inner in ("", words[-1]):
            value = "true" if option.default is False else "VALUE"
            return f"use -o {f'{inner}.{key}' if inner else key}={value}"
    return ""
