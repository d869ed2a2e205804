"""Remembers results of a function up to a size in all: a number of results bounds nothing where one may be large."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def cached(most: int) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Keep the latest results, with their arguments up to `most` characters of `repr`; for many threads."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        results: OrderedDict[tuple[Hashable, ...], tuple[Result, int]] = OrderedDict()  # the latest last
        lock = threading.Lock()
        total = 0

        @functools.wraps(function)
        def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            nonlocal total
            key = (*arguments, *named.items())
            with lock:
                if key in results:
                    results.move_to_end(key)
                    return results[key][0]
            result = function(*arguments, **named)
            size = len(repr(key)) + len(repr(result))
            with lock:
                if key not in results:  # by another thread meanwhile
                    results[key] = result, size
                    total += size
                while total > most:
                    _, (_, dropped) = results.popitem(last=False)
                    total -= dropped
            return result

        return call

    return decorate
