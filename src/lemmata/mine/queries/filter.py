"""The round-trip filter: a query is kept if a search with it finds its passage again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from lemmata.errors import ConfigError, InputError
from lemmata.types import Integers, Pair

__all__ = ["RoundTrip", "Share", "round_trip"]

Search = Callable[[Sequence[str], int], Integers]


class Share(NamedTuple):
    """How many of some queries were kept."""

    kept: int
    asked: int


class RoundTrip:
    """Pairs on their way through the filter; iterate once, then ask for the shares.

    `search` takes texts and k and gives rows (n, k), best first; what is not a row (-1) counts as nothing found.
    Only pairs whose anchor is a text are asked about: an anchor that is a passage would find itself.
    """

    def __init__(self, pairs: Iterable[Pair], search: Search, k: int = 10, *, batch: int = 256) -> None:
        if k < 1 or batch < 1:
            raise ConfigError(f"the filter looks at one hit at least, in batches of one at least, not {k} and {batch}")
        self._pairs, self._search, self._k, self._batch = pairs, search, k, batch
        self._kept: Counter[tuple[str, str]] = Counter()
        self._asked: Counter[tuple[str, str]] = Counter()

    def __iter__(self) -> Iterator[Pair]:
        pairs = iter(self._pairs)
        while part := list(islice(pairs, self._batch)):
            texts = [pair.anchor for pair in part if isinstance(pair.anchor, str)]
            found = iter(self._rows(texts)) if texts else iter(())
            for pair in part:
                if not isinstance(pair.anchor, str):
                    yield pair
                    continue
                key = (pair.relation, pair.reason)
                self._asked[key] += 1
                if pair.positive in next(found):
                    self._kept[key] += 1
                    yield pair

    def _rows(self, texts: Sequence[str]) -> Integers:
        rows = np.asarray(self._search(texts, self._k))
        if rows.ndim != 2 or len(rows) != len(texts):
            raise InputError(f"the search gave an array of shape {rows.shape} for {len(texts)} queries")
        return rows[:, : self._k]

    @property
    def by_rule(self) -> dict[tuple[str, str], Share]:
        """Kept and asked by (style, rule), sorted."""
        return {key: Share(self._kept[key], number) for key, number in sorted(self._asked.items())}

    @property
    def by_style(self) -> dict[str, Share]:
        """Kept and asked by style, sorted."""
        shares: dict[str, Share] = {}
        for (style, _), share in self.by_rule.items():
            sofar = shares.get(style, Share(0, 0))
            shares[style] = Share(sofar.kept + share.kept, sofar.asked + share.asked)
        return shares


def round_trip(pairs: Iterable[Pair], search: Search, k: int = 10) -> RoundTrip:
    """The pairs whose query finds its own passage among the first k hits, streamed; with the share kept per rule."""
    return RoundTrip(pairs, search, k)
