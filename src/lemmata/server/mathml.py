"""Readable text with formulas between dollars as safe HTML."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from lemmata.excerpts import excerpt

__all__ = ["excerpt_html", "to_html"]


def to_html(
    text: str, *, is_marked: Callable[[str], bool] | None = None, links: Sequence[tuple[int, int, str]] = ()
) -> str:
    """The text as HTML that runs nothing."""
    del is_marked, links
    return html.escape(text)


def excerpt_html(text: str, query: str, tokenize: Callable[[str], list[str]], length: int = 320) -> str:
    """The part of a text that answers a query, with its words marked."""
    shown, marks = excerpt(text, query, length, tokenize=tokenize)
    pieces: list[str] = []
    at = 0
    for begin, end in marks:
        pieces += (html.escape(shown[at:begin]), f"<mark>{html.escape(shown[begin:end])}</mark>")
        at = end
    return "".join((*pieces, html.escape(shown[at:])))
