"""Emphasis in Markdown: `*term*`, `__term__`, `***term***`. Formulas and code are left as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lemmata.latex.marked import term_of

_APART = r"\$\$.{1,2000}?\$\$|\$[^$\n]{1,500}\$|`[^`\n]{1,500}`"
_EMPHASIS = re.compile(
    rf"(?P<apart>{_APART})"
    r"|(?<![*\\])(?P<mark>\*\*\*?(?!\*)|(?<!\w)\*(?!\*)|(?<!\w)_{1,3}(?!_))(?=[^\s)\].,;:-])"  # in front of a word
    rf"(?P<text>(?:{_APART}|[^$`]){{1,500}}?)"
    r"(?<=[^\s(\[\\])(?:(?<!\*)(?=\*)|(?=_))(?P=mark)(?:(?<=_)(?!\w)|(?<=\*)(?![*\d]))",  # behind one
    re.DOTALL,
)
_BEGINS = re.compile(r"[\s>]*(?:[-*+][ \t]+)?")
_SAYS_WHAT = re.compile(r"\s+(?:an?|the|any|ein|eine|der|die|das)\s", re.I)  # `**Bund:** a wall`


def strip_emphasis(text: str) -> str:
    """The text without the signs of emphasis, also inside each other."""
    if "*" not in text and "_" not in text:
        return text
    return _EMPHASIS.sub(lambda match: match["apart"] or strip_emphasis(match["text"]), text)


def emphasised_terms(block: str) -> Iterator[str]:
    """The emphasised terms of a paragraph, list or table, in order; no sentences and no run-in headings, but
    `Bund` in `**Bund:** a wall around a tank`."""
    for match in _EMPHASIS.finditer(block) if "*" in block or "_" in block else ():
        written = strip_emphasis(match["text"] or "")
        begins = match.start() < 60 and bool(_BEGINS.fullmatch(block, 0, match.start()))
        begins = begins and not (written.endswith(":") and _SAYS_WHAT.match(block, match.end()))
        if term := term_of(" ".join(written.split()), begins):
            yield term
