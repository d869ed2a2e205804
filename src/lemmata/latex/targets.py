r"""The target of each label of a paper, as LaTeX numbers it (a statement, equation, item, figure or section), and
the macros that refer to labels."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping

from lemmata.latex.cleaned import Target
from lemmata.latex.command_table import MATH
from lemmata.latex.commands import referred_labels
from lemmata.latex.expand import WORD, Definitions, read_call
from lemmata.latex.numbers import FLOATS
from lemmata.latex.statements import Structure, innermost

_EVENT = re.compile(
    r"\\(?:[\\\[\]]|(begin|end)\s*\{([^{}\n]*)\}|label\s*\{([^{}]*)\}|(?:sub)*(?:section|chapter|part)(?![a-zA-Z]))"
)
_DISPLAY = {r"\[": "begin", r"\]": "end"}
_DEPTH = 200  # environments inside environments
_LISTS = frozenset("enumerate itemize description compactenum compactitem inparaenum enumerate* itemize*".split())
HEADINGS = ("part", "chapter", "section")  # by level; all below are sections
_KINDS = {
    **dict.fromkeys(MATH | {"subequations", "split"}, "equation"),
    **dict.fromkeys(_LISTS, "item"),
    **{name + star: kind for name, kind in FLOATS.items() for star in ("", "*")},
    **dict.fromkeys(("subfigure", "sidecaption"), "figure"),
    "subtable": "table",
}


def read_targets(
    text: str, start: int, structure: Structure, title: Callable[[str, int], str], numbers: Mapping[str, str]
) -> dict[str, Target]:
    """The target of every label from `start` on; `title` cleans the LaTeX of a title, given with its offset.

    A label with a number of its own in a statement or section is an item, however the author counts them.
    """
    labelled = {statement.label: statement for statement in structure.statements if statement.label}
    around = innermost((statement.begin, statement.end, statement) for statement in structure.statements)
    sections = [section.offset for section in structure.sections]
    last = ""
    printed = [last := section.number or last for section in structure.sections]  # what a label after each refers to
    targets: dict[str, Target] = {}
    open_environments: list[str] = []
    for event in _EVENT.finditer(text, start):
        which, environment, label = event.groups()
        if event[0] in _DISPLAY:
            which, environment = _DISPLAY[event[0]], "displaymath"
        if which == "begin":
            if len(open_environments) < _DEPTH:
                open_environments.append(environment.strip())
        elif which == "end":
            name = environment.strip()
            while name in open_environments and open_environments.pop() != name:
                pass
        elif label is None:
            if event[0] != "\\\\":
                open_environments.clear()  # an environment that is never closed ends at a heading
        elif (name := " ".join(label.split())) and name not in targets:
            at = event.start()
            inner = next(
                (_KINDS[environment] for environment in reversed(open_environments) if environment in _KINDS), ""
            )
            statement = labelled.get(name) or (None if inner else around(at))
            section = bisect_right(sections, at) - 1
            number = numbers.get(name, "")
            unmoved = printed[section] if section >= 0 else ""  # where nothing steps a counter after the heading
            expected = statement.number or unmoved if statement else unmoved
            if statement is not None and (name == statement.label or number in ("", expected)):
                targets[name] = Target(statement.kind, title(statement.note, statement.begin), statement.number)
            elif inner or statement or section < 0 or number not in ("", expected):
                targets[name] = Target(inner or ("item" if number else ""), number=number)
            else:
                heading = structure.sections[section]
                kind = HEADINGS[min(heading.level, 2)]
                targets[name] = Target(kind, title(heading.path[-1], heading.offset), heading.number)
    for name, statement in labelled.items():  # also labels given as an option, without \label
        note = title(statement.note, statement.begin)
        targets.setdefault(name, Target(statement.kind, note, statement.number))
    return targets


_DIRECT = re.compile(r"\\([a-zA-Z@]*ref)\*?\s*(?:\[([^\[\]]*)\]\s*)?\{([^{}]*)\}", re.I)
_REFERS = re.compile(r"\\[a-zA-Z@]*ref(?![a-zA-Z@])", re.I)
_MOST_CALLS = 20_000


def referring_macros(text: str, start: int, macros: Definitions, labels: Collection[str]) -> dict[str, str]:
    """For each of the labels, the name of the command or macro that refers to it, as the author wrote it."""
    commands: dict[str, str] = {}
    missing = set(labels)
    for command, option, argument in _DIRECT.findall(text, start):
        for label in f"{option},{argument}".split(","):
            if (name := " ".join(label.split())) in missing:
                commands[name] = command
                missing.discard(name)
    all_macros = macros.everything()
    referring = {name for name, macro in all_macros.items() if _REFERS.search(macro.body)}
    for _ in range(3 if referring else 0):  # also the macros that call them
        referring |= {name for name, macro in all_macros.items() if not referring.isdisjoint(WORD.findall(macro.body))}
    if not missing or not referring:
        return commands
    calls = re.compile(r"\\(" + "|".join(map(re.escape, sorted(referring, reverse=True))) + r")(?![a-zA-Z@])")
    for number, call in enumerate(calls.finditer(text, start)):
        arguments = read_call(all_macros[call[1]], text, call.end())
        if arguments is not None:
            expanded = macros.expand(text, call.start(), arguments[1])
            for name in missing & {" ".join(label.split()) for label in referred_labels(expanded)}:
                commands[name] = call[1]
                missing.discard(name)
        if not missing or number == _MOST_CALLS:
            break
    return commands
