"""Where a text speaks of known names: the longest match over normal forms, in one walk over its words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from lemmata.concepts.words import TOKEN, normal

__all__ = ["Match", "find_mentions", "name_trie"]

_LEAF = ""  # no word is empty


class Match(NamedTuple):
    """One mention: a span of the masked text, and the number of what it names."""

    start: int
    end: int
    number: int


def name_trie(names: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Words to words to numbers; of equal names the first wins. All-capital names match in capitals only."""
    root: dict[str, Any] = {}
    for name, number in names:
        node = root
        for word in TOKEN.findall(name):
            if word[0].isalnum():
                node = node.setdefault(_form(word), {})
        if node is not root:
            node.setdefault(_LEAF, number)
    return root


def _form(word: str) -> str:
    return word if len(word) > 1 and word.isupper() else normal(word)


def find_mentions(masked: str, trie: dict[str, Any]) -> list[Match]:
    """All longest matches from left to right, without overlap.

    A match neither begins nor ends inside a hyphenated word, except behind a single letter: `$R$-module` and
    `k-algebra` speak of modules and algebras, `quasi-compact` not of compactness.
    """
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    joined: list[bool] = []  # by a hyphen to the word before
    hyphen = False
    for found in TOKEN.finditer(masked):
        text = found[0]
        if text[0].isalnum():
            words.append(text)
            spans.append(found.span())
            joined.append(hyphen)
            hyphen = False
        elif text in "-–‐":
            hyphen = bool(words) and bool(words[-1]) and spans[-1][1] == found.start()
        else:
            words.append("")  # nothing goes across a sign
            spans.append(found.span())
            joined.append(False)
            hyphen = False
    joined.append(False)
    matches: list[Match] = []
    at = 0
    count = len(words)
    while at < count:
        if not words[at] or (joined[at] and len(words[at - 1]) > 1):
            at += 1
            continue
        node = trie
        best, number, here = -1, -1, at
        while here < count and words[here]:
            word = words[here]
            step = node.get(word) if len(word) > 1 and word.isupper() else None
            step = step if step is not None else node.get(normal(word))
            if step is None:
                break
            node = step
            here += 1
            if _LEAF in node and not joined[here]:
                best, number = here, node[_LEAF]
        if best > 0:
            matches.append(Match(spans[at][0], spans[best - 1][1], number))
            at = best
        else:
            at += 1
    return matches
