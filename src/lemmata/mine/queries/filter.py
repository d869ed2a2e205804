"""The round-trip filter: keeps a query if a search with it finds its passage again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from lemmata.core.errors import ConfigError
from lemmata.core.types import Integers, Pair

Search = Callable[[Sequence[str], int], Integers]
_BATCH = 256  # pairs per search


def round_trip(
    pairs: Iterable[Pair], search: Search, k: int, tried: Counter[str], kept: Counter[str]
) -> Iterator[Pair]:
    """The pairs whose query finds its own passage among the first k hits, streamed; counts queries by style.

    `search` maps texts and k to rows (n, k), best first, -1 where there are fewer. Pairs whose anchor is a passage
    are kept unsearched: a passage would find itself.
    """
    if k < 1:
        raise ConfigError(f"a query cannot be found within {k} hits: give 1 or more")
    remaining = iter(pairs)
    while batch := list(islice(remaining, _BATCH)):
        texts = [pair.anchor for pair in batch if isinstance(pair.anchor, str)]
        hits = iter(search(texts, k)[:, :k] if texts else ())
        for pair in batch:
            if isinstance(pair.anchor, str):
                tried[pair.relation] += 1
                if pair.positive not in next(hits):
                    continue
                kept[pair.relation] += 1
            yield pair
