"""German compounds, split at words that the corpus itself has: `Kühlwasserpumpe` where `Kühlwasser` and `Pumpe` occur.

Nothing but the words of the corpus decides, so no dictionary is needed and jargon is split as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

_LINKS = ("", "s", "n", "en", "es", "er", "e")  # between two parts: Betrieb-s-leiter, Pumpe-n-lager
_SHORTEST = 5  # letters of the last part, and of any part that is found; shorter ones match too much
_SHORTEST_MODIFIER = 2  # letters of a part before the last: Öl-pumpe
_LONGEST = 48  # letters of a compound


def split_compound(word: str, is_known: Callable[[str], bool]) -> list[str]:
    """The parts of a folded word, without linking elements and without parts of fewer than five letters.

    All of the word must consist of known parts; of several ways, the one with the fewest short parts, then the fewest
    parts, then the longest last part is taken. Empty where there is none.

    >>> split_compound("betriebsdruckleitung", {"betrieb", "druck", "leitung"}.__contains__)
    ['betrieb', 'druck', 'leitung']
    """
    if not _SHORTEST_MODIFIER + _SHORTEST <= len(word) <= _LONGEST:
        return []

    @cache
    def modifiers(end: int) -> tuple[str, ...] | None:
        """The parts of `word[:end]`, none of them the last of the word."""
        ways = []
        for start in (0, *range(_SHORTEST_MODIFIER, end - _SHORTEST_MODIFIER + 1)):
            part = _without_link(word[start:end], is_known)
            before = modifiers(start) if part and start else ()
            if part and before is not None:
                ways.append((*before, part))
        return min(ways, key=_cost, default=None)

    ways = []
    for start in range(_SHORTEST_MODIFIER, len(word) - _SHORTEST + 1):
        if is_known(word[start:]):
            before = modifiers(start)
            if before is not None:
                ways.append((*before, word[start:]))
    return [part for part in min(ways, key=_cost, default=()) if len(part) >= _SHORTEST]


def _without_link(text: str, is_known: Callable[[str], bool]) -> str:
    """The known word that the text is, with a linking element at its end or without; empty where it is none."""
    for link in _LINKS:
        part = text.removesuffix(link)
        if (part != text or not link) and len(part) >= _SHORTEST_MODIFIER and is_known(part):
            return part
    return ""


def _cost(parts: tuple[str, ...]) -> tuple[int, int]:
    return sum(len(part) < _SHORTEST for part in parts), len(parts)
