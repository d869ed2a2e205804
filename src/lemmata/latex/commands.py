r"""Calls of LaTeX commands in a text: read their arguments, find what they refer to, or remove them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lemmata.latex.source import read_argument, read_optional

MOST_FAILURES = 50  # unclosed arguments; each costs a scan to the end of the text
BEGIN = re.compile(r"\\begin\s*\{([^{}\n]{1,80})\}")


def read_calls(pattern: re.Pattern[str], text: str, reach: int) -> Iterator[tuple[re.Match[str], str, int]]:
    """What a pattern matches before a braced argument, with the argument and its end; no call inside another one."""
    failures = at = 0
    while failures < MOST_FAILURES and (call := pattern.search(text, at)):
        argument = read_argument(text, call.end(), reach)
        if argument is None:
            failures += 1
            at = max(call.end(), call.start() + 1)
        else:
            yield call, *argument
            at = argument[1]


def arguments_of(text: str, command: str) -> list[str]:
    """The braced arguments of all calls of a command, in order."""
    if "\\" + command not in text:
        return []
    pattern = re.compile(r"\\" + command + r"(?![a-zA-Z])\s*(?:\[[^\]]{0,2000}\])?(?=\s*\{)")
    return [argument for _, argument, _ in read_calls(pattern, text, 20_000)]


_NOTE = re.compile(
    r"(?:\\protect\s*)?\\(?:(footnotemark)|(?:table)?footnote(?:text)?|endnote|sidenote|margin(?:note|par)|[tT]hanks|(?:sub)?titlenote|authornote|tnoteref|tnotetext|fnref"
    r"|fntext|corref|cortext|inst|orcid\w*|label)(?![a-zA-Z])"
)


def without_notes(text: str) -> str:
    """The LaTeX of a title, heading or name without its footnotes, thanks and labels."""
    pieces = []
    at = failures = 0
    while failures < MOST_FAILURES and (note := _NOTE.search(text, at)):
        pieces.append(text[at : note.start()])
        _, at = read_optional(text, note.end()) or ("", note.end())
        if not note[1]:
            argument = read_argument(text, at, 20_000)
            failures += argument is None
            at = argument[1] if argument else at
    return "".join((*pieces, text[at:]))


# Authors name their own macros after \ref, too: \myref, \thmRef, ...
_REFERRED = re.compile(r"\\(?:[a-zA-Z@]*ref\*?\s*\{([^{}]*)\}|hyperref\s*\[([^\]]*)\])", re.I)


def referred_labels(text: str) -> set[str]:
    r"""The labels that the references in a text name."""
    references = (braced or bracketed for braced, bracketed in _REFERRED.findall(text))
    return {label.strip() for labels in references for label in labels.split(",")}
