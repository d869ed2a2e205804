"""Confidence intervals and significance tests from values per query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import InputError
from lemmata.search.fusion import FEWEST

Floats64 = npt.NDArray[np.float64]
_LEVEL = 0.95
_BLOCK = 1 << 21  # random numbers in memory at a time, 16 MiB
_MOST_EXACT = 12  # pairs for which all 2^n signs are tried
_TOLERANCE = 1e-12  # sums of the same numbers in another order differ by less


def _blocks(samples: int, n: int) -> Iterator[int]:
    """Sizes that add up to `samples`, each small enough to hold `size * n` numbers."""
    size = max(1, _BLOCK // max(n, 1))
    for start in range(0, samples, size):
        yield min(size, samples - start)


def bootstrap(values: Floats64, *, generator: np.random.Generator, samples: int = 2000) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the mean of `values` (n,) (Efron 1979).

    One value gives an interval of width 0; none raises InputError.
    """
    n = len(values)
    if not n:
        raise InputError("an interval needs at least one query")
    means = np.concatenate([values[generator.integers(0, n, (size, n))].mean(axis=1) for size in _blocks(samples, n)])
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)


def randomisation(a: Floats64, b: Floats64, *, generator: np.random.Generator, samples: int = 10_000) -> float:
    """The two-sided p-value of a paired randomisation test on `a` and `b` (n,).

    Under the null hypothesis the two retrievers are exchangeable, so each difference has either sign with equal
    probability (Fisher 1935; Smucker, Allan and Carterette 2007 for retrieval). Up to 12 pairs all signs are tried
    and p is exact. Beyond, signs are sampled; the observed ones count as one more sample, so p is never 0.
    """
    if len(a) != len(b):
        raise InputError(f"{len(a)} and {len(b)} values are not pairs")
    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    difference = difference[difference != 0]  # the sign of 0 changes no sum
    n = len(difference)
    if not n:
        return 1.0
    observed = abs(difference.sum()) - _TOLERANCE * np.abs(difference).sum()
    if n <= _MOST_EXACT:
        signs = (np.arange(1 << n)[:, None] >> np.arange(n) & 1) * 2.0 - 1.0
        return float((np.abs(signs @ difference) >= observed).mean())
    total = difference.sum()
    extreme = 0
    for size in _blocks(samples, n):
        flipped = generator.integers(0, 2, (size, n), dtype=np.int8).astype(np.float64)
        extreme += int((np.abs(total - 2.0 * (flipped @ difference)) >= observed).sum())
    return (extreme + 1) / (samples + 1)


class Gain(NamedTuple):
    """What a way to search finds more than another, as a mean over queries."""

    mean: float
    low: float  # 95 % bootstrap
    high: float
    queries: int

    @property
    def is_confirmed(self) -> bool:
        """Whether it is above chance; a tie is not, and few queries say nothing."""
        return self.queries >= FEWEST and self.low > 0

    @property
    def is_loss(self) -> bool:
        """Whether the other way finds more, above chance."""
        return self.queries >= FEWEST and self.high < 0


def gain(before: Floats64, after: Floats64) -> Gain:
    """The gain from one value per query (n,) to another, with the interval of the paired differences."""
    if not len(before):
        return Gain(0.0, 0.0, 0.0, 0)
    difference = after - before
    return Gain(float(difference.mean()), *bootstrap(difference, generator=np.random.default_rng(0)), len(difference))


class Comparison(NamedTuple):
    """Two retrievers by one measure; the difference is the first's mean minus the second's."""

    first: str
    second: str
    measure: str
    difference: float
    low: float  # of the difference, 95 % bootstrap
    high: float
    p: float
    p_corrected: float  # Bonferroni, across the comparisons of one call
    wins: int  # queries where the first is better
    ties: int
    losses: int


def compare(
    results: Mapping[str, Mapping[str, Floats64]], measure: str, baseline: str, generator: np.random.Generator
) -> list[Comparison]:
    """Compare every other retriever with the baseline, in the order of `results`, with Bonferroni correction.

    No queries raise InputError.
    """
    others = [name for name in results if name != baseline]
    comparisons = []
    for name in others:
        a, b = results[name][measure], results[baseline][measure]
        p = randomisation(a, b, generator=generator)
        low, high = bootstrap(a - b, generator=generator)
        corrected = min(1.0, p * len(others))
        wins, losses = int((a > b).sum()), int((a < b).sum())
        ties = len(a) - wins - losses
        difference = float((a - b).mean())
        comparisons.append(Comparison(name, baseline, measure, difference, low, high, p, corrected, wins, ties, losses))
    return comparisons
