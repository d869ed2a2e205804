"""Counters and histograms of the server, as Prometheus reads them."""

from __future__ import annotations

import bisect
import threading
from collections import defaultdict
from collections.abc import Callable

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


class Metrics:
    """What the server has done; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)  # by route, method, status
        self._buckets: dict[str, list[int]] = {}  # by route: requests up to each bound, and those above all
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        with self._lock:
            self._requests[route, method, status] += 1
            self._seconds[route] += seconds
            buckets = self._buckets.setdefault(route, [0] * (len(_BOUNDS) + 1))
            buckets[bisect.bisect_left(_BOUNDS, seconds)] += 1

    def gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """A number that is read when it is asked for."""
        self._gauges[name] = description, value

    def text(self) -> str:
        """Everything in the text format of Prometheus."""
        lines = ["# HELP lemmata_requests_total Answered requests.", "# TYPE lemmata_requests_total counter"]
        with self._lock:
            for (route, method, status), count in sorted(self._requests.items()):
                labels = f'route="{_escaped(route)}",method="{_escaped(method)}",status="{status}"'
                lines.append(f"lemmata_requests_total{{{labels}}} {count}")
            lines.append("# HELP lemmata_request_seconds Time until the answer is sent.")
            lines.append("# TYPE lemmata_request_seconds histogram")
            for route, buckets in sorted(self._buckets.items()):
                label = f'route="{_escaped(route)}"'
                total = 0
                for bound, count in zip((*_BOUNDS, "+Inf"), buckets, strict=True):
                    total += count
                    lines.append(f'lemmata_request_seconds_bucket{{{label},le="{bound}"}} {total}')
                lines.append(f"lemmata_request_seconds_sum{{{label}}} {self._seconds[route]:.6f}")
                lines.append(f"lemmata_request_seconds_count{{{label}}} {total}")
        for name, (description, value) in self._gauges.items():
            lines += (f"# HELP {name} {description}", f"# TYPE {name} gauge", f"{name} {value():g}")
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
