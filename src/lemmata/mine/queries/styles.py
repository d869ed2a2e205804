"""The styles of queries, and the record that rules and models share."""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["STYLES", "Pick", "Query"]

STYLES = ("question", "keyword", "slogan", "paraphrase")


class Query(NamedTuple):
    """Something a person could type to find a passage."""

    text: str
    style: str
    rule: str  # which rule or model made it


class Pick(Protocol):
    """Chooses one of several ways to say the same for a passage, always the same one for a rule."""

    def __call__(self, rule: str, *ways: str) -> str: ...
