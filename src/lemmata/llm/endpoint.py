"""Where a language model answers, what it costs, and how far a run may go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from lemmata.errors import LemmataError
from lemmata.llm.chat import Budget, Chat, Spent

__all__ = ["EndpointOptions", "Limits", "open_chat"]


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Where a language model answers, and what it costs."""

    CHOICES: ClassVar = {"json_mode": ("auto", "json_schema", "json_object", "text")}
    SMALLEST: ClassVar = {"concurrency": 1, "answer_tokens": 1, "retries": 0}
    url: str = "http://localhost:11434/v1"  # Ollama's
    model: str = ""
    concurrency: int = 4
    timeout: float = 120.0  # seconds for one answer
    retries: int = 5
    answer_tokens: int = 2048  # at most, of one answer
    price_in: float = 0.0  # per million tokens
    price_out: float = 0.0
    json_mode: str = "auto"


class Limits(NamedTuple):
    """Hard limits of a run and of the earlier ones that it goes on from; 0 is none."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0  # of this run alone

    def budget(self, spent: Spent, before: Spent) -> Budget:
        """What is left of the limits, of all spent since `before`."""
        return Budget(*(limit or math.inf for limit in self), spent=spent.without(before))


def open_chat(options: EndpointOptions, cache: Path, key: str) -> Chat:
    """A client whose answers are kept in `cache`; to be closed."""
    if not options.model:
        raise LemmataError("which model? name it with --model, or as 'model' in [llm] of lemmata.toml")
    cache.parent.mkdir(parents=True, exist_ok=True)
    return Chat(
        options.url,
        options.model,
        key,
        cache=cache,
        concurrency=options.concurrency,
        timeout=options.timeout,
        retries=options.retries,
        prices=(options.price_in, options.price_out),
        json_mode=options.json_mode,
        answer_tokens=options.answer_tokens,
    )
