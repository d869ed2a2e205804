"""The round-trip filter: keeps a query if a search with it finds its passage again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from lemmata.errors import ConfigError
from lemmata.types import Integers, Pair

__all__ = ["RoundTrip", "Share"]

Search = Callable[[Sequence[str], int], Integers]
_BATCH = 256  # pairs per search


class Share(NamedTuple):
    """How many of some queries were kept."""

    kept: int
    asked: int


class RoundTrip:
    """The pairs whose query finds its own passage among the first k hits, streamed; iterate once, then read the shares.

    `search` maps texts and k to rows (n, k), best first, -1 where there are fewer. Pairs whose anchor is a passage
    are kept unsearched: a passage would find itself.
    """

    def __init__(self, pairs: Iterable[Pair], search: Search, k: int) -> None:
        if k < 1:
            raise ConfigError(f"a query cannot be found within {k} hits: give 1 or more")
        self._pairs, self._search, self._k = pairs, search, k
        self._kept: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Pair]:
        pairs = iter(self._pairs)
        while batch := list(islice(pairs, _BATCH)):
            texts = [pair.anchor for pair in batch if isinstance(pair.anchor, str)]
            hits = iter(self._search(texts, self._k)[:, : self._k] if texts else ())
            for pair in batch:
                if isinstance(pair.anchor, str):
                    self._asked[pair.relation] += 1
                    if pair.positive not in next(hits):
                        continue
                    self._kept[pair.relation] += 1
                yield pair

    @property
    def by_style(self) -> dict[str, Share]:
        """Kept and asked by style, sorted."""
        return {style: Share(self._kept[style], number) for style, number in sorted(self._asked.items())}
