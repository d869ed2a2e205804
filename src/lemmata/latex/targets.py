r"""The target of each label of a paper, as LaTeX numbers it: a statement, equation, item, figure or section."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from lemmata.latex.clean import MATH, Target
from lemmata.latex.statements import Structure, innermost

_EVENT = re.compile(
    r"\\(?:\\|(begin|end)\s*\{([^{}\n]*)\}|label\s*\{([^{}]*)\}|(?:sub)*(?:section|chapter|part)(?![a-zA-Z]))"
)
_DEPTH = 200  # environments inside environments
_LISTS = frozenset("enumerate itemize description compactenum compactitem inparaenum enumerate* itemize*".split())
_NAMED = frozenset("figure table algorithm listing wrapfigure subfigure sidewaysfigure longtable".split())
_KINDS = {
    **dict.fromkeys(MATH | {"subequations", "split"}, "equation"),
    **dict.fromkeys(_LISTS, "item"),
    **{name + star: name for name in _NAMED for star in ("", "*")},
}


def read_targets(text: str, start: int, structure: Structure, title: Callable[[str, int], str]) -> dict[str, Target]:
    """The target of every label from `start` on; `title` cleans the LaTeX of a title, given with its offset."""
    own = {statement.label: statement for statement in structure.statements if statement.label}
    around = innermost((statement.begin, statement.end, statement) for statement in structure.statements)
    sections = [section.offset for section in structure.sections]
    targets: dict[str, Target] = {}
    open_environments: list[str] = []
    for event in _EVENT.finditer(text, start):
        which, environment, label = event.groups()
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
            statement = own.get(name) or (None if inner else around(at))
            section = bisect_right(sections, at) - 1
            if statement is not None:
                targets[name] = Target(statement.kind, title(statement.note, statement.begin))
            elif inner or section < 0:
                targets[name] = Target(inner)
            else:
                targets[name] = Target("section", title(structure.sections[section].path[-1], sections[section]))
    for name, statement in own.items():  # also labels given as an option, without \label
        targets.setdefault(name, Target(statement.kind, title(statement.note, statement.begin)))
    return targets
