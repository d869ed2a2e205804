"""Where a language model answers, what it costs, and how much a run may use."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import ClassVar, NamedTuple


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Where a language model answers, and what it costs."""

    SMALLEST: ClassVar = {"concurrency": 1, "timeout": 0.001, "answer_tokens": 1}
    url: str = "http://localhost:11434/v1"  # Ollama's
    model: str = ""  # name of the model on the server
    concurrency: int = 4  # concurrent calls
    timeout: float = 120.0  # seconds for one answer
    answer_tokens: int = 2048  # at most, of one answer; this is what bounds the cost of a call
    price_in: float = 0.0  # per million tokens, in any currency
    price_out: float = 0.0  # of a million output tokens


class Spent(NamedTuple):
    """What calls have used."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def plus(self, other: Spent) -> Spent:
        return Spent(self.calls + other.calls, self.tokens + other.tokens, self.cost + other.cost)

    def without(self, other: Spent) -> Spent:
        return Spent(self.calls - other.calls, self.tokens - other.tokens, self.cost - other.cost)


class Limits(NamedTuple):
    """Hard limits of a run, together with the interrupted runs that it resumes; 0 is no limit."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0  # of this run alone

    def budget(self, spent: Spent, before: Spent) -> Budget:
        """What is left of the limits, after everything spent since `before`."""
        return Budget(*(limit or math.inf for limit in self), spent=spent.without(before))


class Budget:
    """Hard limits shared by all calls made with this object.

    A call is made only if its worst case fits, together with the worst case of all calls in flight. Every attempt
    counts as a call, also a retry or a refused one; only the refusal of a parameter that is then left out does not. The
    clock of `seconds` starts with the first call.
    """

    def __init__(
        self,
        calls: float = math.inf,
        tokens: float = math.inf,
        cost: float = math.inf,
        seconds: float = math.inf,
        *,
        spent: Spent | None = None,
    ) -> None:
        self.calls, self.tokens, self.cost, self.seconds = calls, tokens, cost, seconds
        self._spent = spent or Spent()
        self._in_flight = Spent()  # worst cases; their calls are counted in `_spent` already
        self._end: float | None = None
        self._reached = ""  # the name of the limit that ended it
        self._changed = threading.Condition()

    @property
    def spent(self) -> Spent:
        with self._changed:
            return self._spent

    @property
    def reached(self) -> str:
        """Which limit kept a call from being made, and what to do about it; "" where none did."""
        with self._changed:
            name = self._reached
        cure = "the same command goes on" if name == "seconds" else f"raise it (--budget {name}=…) to go on"
        return f"{self.limit_reached}; {cure}" if name else ""

    @property
    def limit_reached(self) -> str:
        """The first half of `reached`."""
        name = self._reached
        limit = getattr(self, name) if name else 0
        unit = "for the cost" if name == "cost" else name[:-1] if limit == 1 else name
        return f"the limit of {limit:,.12g} {unit} was reached" if name else ""

    def end_time(self) -> None:
        """No call may wait any more."""
        with self._changed:
            self._reached = "seconds"

    def seconds_left(self) -> float:
        with self._changed:
            if self._end is None:
                self._end = time.monotonic() + self.seconds
            return self._end - time.monotonic()

    def reserve(self, worst: Spent) -> bool:
        """Take one call with its worst case, or False where it does not fit; waits while calls in flight decide."""
        with self._changed:
            while self.seconds_left() > 0 and self._fits(self._spent.plus(worst)):
                if self._fits(self._spent.plus(self._in_flight).plus(worst)):
                    self._spent = self._spent.plus(Spent(calls=1))
                    self._in_flight = self._in_flight.plus(worst._replace(calls=0))
                    return True
                self._changed.wait(min(1.0, self.seconds_left()))
            too_little = self._exceeded(self._spent.plus(worst))
            self._reached = too_little[0] if too_little else "seconds"
            return False

    def settle(self, worst: Spent, used: Spent) -> None:
        """Replace the reserved worst case by what the call used; with no calls, the call does not count at all."""
        with self._changed:
            self._in_flight = self._in_flight.without(worst._replace(calls=0))
            self._spent = self._spent.plus(used._replace(calls=used.calls - 1))  # `reserve` has counted one
            self._changed.notify_all()

    def _fits(self, total: Spent) -> bool:
        return not self._exceeded(total)

    def _exceeded(self, total: Spent) -> list[str]:
        # sums of cents do not add up exactly
        limits = self.calls, self.tokens, self.cost * (1 + 1e-9)
        return [name for name, used, limit in zip(Spent._fields, total, limits, strict=True) if used > limit]
