"""Formulas and verbatim text as they stand in clean text: no stray dollars, no labels, quantities written out."""

from __future__ import annotations

import re

from lemmata.latex.source import match_brace
from lemmata.latex.units import QUANTITY, quantity_in_formula, read_quantity

_UNESCAPED = re.compile(r"(\\.)|\$", re.DOTALL)
_DOLLARS = re.compile(r"\\*\$")
_SEPARATING_DOLLAR = re.compile(r"(?<!\\)\$")
_WORDS_IN_FORMULA = re.compile(r"\\(?:text(?:rm|it|bf|sf|normal|up)?|[mh]box)\s*(?=\{)")


def separate_words(content: str) -> str:
    r"""A formula without dollars in its words: `\text{if $x$ is odd}` as `\text{if }x\text{ is odd}`."""
    pieces: list[str] = []
    at = 0
    for words in _WORDS_IN_FORMULA.finditer(content):
        end = match_brace(content, words.end()) if words.start() >= at else -1
        parts = _SEPARATING_DOLLAR.split(content[words.end() + 1 : end - 1]) if end > 0 else []
        if len(parts) < 3 or len(parts) % 2 == 0 or any(part.count("{") != part.count("}") for part in parts):
            continue  # no dollars, or words inside of words
        pieces.append(content[at : words.start()])
        for number, part in enumerate(parts):
            pieces.append(f"{{{part}}}" if number % 2 else f"{words[0]}{{{part}}}" if part else "")
        at = end
    return "".join((*pieces, content[at:]))


def balance(content: str) -> str:
    """A formula without its dollars where their number is odd: a stray dollar would open another formula."""
    if "$" in content and sum(not match[1] for match in _UNESCAPED.finditer(content)) % 2:
        return _UNESCAPED.sub(r"\1", content)
    return content


def escape_literal(text: str) -> str:
    """Verbatim text with its dollars escaped, so that they do not open formulas."""
    text = _DOLLARS.sub(lambda match: match[0] if len(match[0]) % 2 == 0 else match[0][:-1] + "\\$", text)
    return text + " " if text.endswith("\\") else text  # a formula may follow


def write_quantities(content: str) -> str:
    r"""A formula whose `\SI` and `\qty` are written out."""
    pieces: list[str] = []
    at = 0
    for command in QUANTITY.finditer(content):
        quantity = read_quantity(command[1], content, command.end()) if command.start() >= at else None
        if quantity:
            pieces += (content[at : command.start()], quantity_in_formula(*quantity[:2]))
            at = quantity[2]
    return "".join((*pieces, content[at:]))
