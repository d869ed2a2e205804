"""Ids that occur once in their source."""

from __future__ import annotations


def unique_id(identity: str, taken: dict[str, int]) -> str:
    """The id, with `~2`, `~3`, ... appended where it is taken; `taken` counts the uses of each id."""
    unique = identity
    while unique in taken:
        taken[identity] += 1
        unique = f"{identity}~{taken[identity]}"
    taken[unique] = 1
    return unique
