"""The parallel map on a real Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lemmata.errors import ConfigError, InputError
from lemmata.workers import WorkerDied, computing_on, count_step, in_batches, is_on_cluster, parallel_map, ray_map

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'lemmata[scale]'")

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray warns about its own later versions


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes with a core each; the tests run on the first."""
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args=small)
    del small["include_dashboard"]
    for _ in range(2):
        nodes.add_node(**small)
    nodes.wait_for_nodes()
    yield nodes
    nodes.shutdown()


@pytest.fixture()
def on_cluster(cluster: Any) -> Iterator[None]:
    with computing_on(cluster.address):
        yield


def test_results_come_in_the_order_of_the_items(on_cluster: None) -> None:
    def square(number: int) -> int:
        time.sleep(0.01 * (number % 3))
        return number * number

    assert is_on_cluster()
    assert list(parallel_map(square, range(40))) == [(number, number * number) for number in range(40)]
    assert list(ray_map(square, [])) == []
