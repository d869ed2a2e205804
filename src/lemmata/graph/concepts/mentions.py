"""Mentions of names in a text: the longest match over normal forms, in one walk over its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from lemmata.graph.concepts.terms import TOKEN, normal

_LEAF = ""  # no word is empty
_PLURAL_ACRONYM = re.compile(r"[A-Z]{2,}s")


class Mention(NamedTuple):
    """A span of the masked text, and the id of the concept that it names."""

    start: int
    end: int
    concept: str


def name_trie(names: Iterable[tuple[str, str]], normal: Callable[[str], str] = normal) -> dict[str, Any]:
    """Words to words to ids; of equal names the first wins. Names in capitals match in capitals only."""
    root: dict[str, Any] = {}
    for name, identity in names:
        node = root
        for word in TOKEN.findall(name):
            if word[0].isalnum():
                node = node.setdefault(word if len(word) > 1 and word.isupper() else normal(word), {})
        if node is not root:
            node.setdefault(_LEAF, identity)
    return root


def find_mentions(masked: str, trie: dict[str, Any], normal: Callable[[str], str] = normal) -> list[Mention]:
    """All longest matches from left to right, without overlap.

    A match neither begins nor ends inside a hyphenated word, except after a single letter: `$R$-module` and
    `k-algebra` mention modules and algebras, `quasi-compact` does not mention compactness.
    """
    words: list[str] = []  # "" for a sign, which no name crosses
    spans: list[tuple[int, int]] = []
    joined: list[bool] = []  # by a hyphen to the word before
    hyphen = False
    for token in TOKEN.finditer(masked):
        text = token[0]
        if text in "-–‐":
            hyphen = bool(words) and bool(words[-1]) and spans[-1][1] == token.start()
            continue
        is_word = text[0].isalnum()
        if text[-1] == "s" and text[0].isupper() and _PLURAL_ACRONYM.fullmatch(text):
            text = text[:-1]
        words.append(text if is_word else "")
        spans.append(token.span())
        joined.append(hyphen and is_word)
        hyphen = False
    joined.append(False)
    mentions: list[Mention] = []
    start = 0
    while start < len(words):
        end, concept = start + 1, ""
        node, here = trie, start
        if joined[start] and len(words[start - 1]) > 1:
            node = {}
        while here < len(words) and (word := words[here]):
            step = node.get(word) if word.isupper() and len(word) > 1 else None
            node = step or node.get(normal(word), {})
            here += 1
            if _LEAF in node and not joined[here]:
                end, concept = here, node[_LEAF]
            if not node:
                break
        if concept:
            mentions.append(Mention(spans[start][0], spans[end - 1][1], concept))
        start = end
    return mentions
