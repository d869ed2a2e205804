"""The parallel map on a real Ray cluster of several nodes on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lemmata.core.errors import ConfigError, InputError
from lemmata.core.workers import WorkerDied, computing_on, count_step, is_on_cluster, parallel_map, ray_map
from lemmata.project import Project

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'lemmata[scale]'")

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray warns about its own later versions

_STORE = 80 * 2**20  # bytes of objects that a node holds


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with a core each, and the head of the cluster without one, on which the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # on a busy machine, they would wait for everything else
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_gcs_server_port_wait_time_s", "300")
        nodes = _start_cluster()
        with computing_on(nodes.address):
            yield nodes
        nodes.shutdown()


def _start_cluster(attempts: int = 4) -> Any:
    """Ray gives a node 30 seconds to start, which can be too few on a busy machine: then it is started again."""
    from ray.cluster_utils import Cluster

    nodes = Cluster()
    try:
        nodes.add_node(num_cpus=0, object_store_memory=_STORE, include_dashboard=False)
        for _ in range(2):
            nodes.add_node(num_cpus=1, object_store_memory=_STORE)
        nodes.wait_for_nodes(timeout=300)
    except Exception:
        nodes.shutdown()
        if attempts == 1:
            raise
        return _start_cluster(attempts - 1)
    return nodes


def test_results_come_in_the_order_of_the_items(cluster: Any) -> None:
    def square(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * number

    assert is_on_cluster()
    assert list(parallel_map(square, range(40))) == [(number, number * number) for number in range(40)]
    assert list(ray_map(square, [])) == []


def test_an_item_that_kills_its_process_every_time_loses_only_itself(cluster: Any) -> None:
    def fragile(number: int) -> int:
        if number == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    results = dict(parallel_map(fragile, range(12)))
    assert isinstance(results.pop(7), WorkerDied)
    assert results == {number: number for number in range(12) if number != 7}


@pytest.mark.parametrize("error", [ValueError("one"), InputError("two", file="a.tex", line=3)], ids=["value", "input"])
def test_an_exception_of_the_function_is_raised_as_it_is(error: Exception, cluster: Any) -> None:
    def failing(number: int) -> int:
        raise error

    with pytest.raises(type(error)) as raised:
        list(parallel_map(failing, range(3)))
    assert str(raised.value) == str(error)


def test_items_are_taken_lazily_and_their_steps_are_counted(cluster: Any) -> None:
    items = iter(range(1000))
    calls: list[int] = []

    def slow(number: int) -> int:
        count_step()
        time.sleep(0.6)
        return number

    taken = (number for number, _ in ray_map(slow, items, waiting=calls.append))
    last = next(number for number in taken if calls and calls[-1] > 0)
    assert calls == sorted(calls)
    assert calls[-1] <= last
    assert next(items) <= last + 4 * 2 + 1


def test_more_than_the_object_store_holds_goes_through_it(cluster: Any) -> None:
    batches = (bytes([number]) * 2**21 for number in range(60))  # 120 MiB; the store of this node has 80
    results = [result for _, result in ray_map(lambda batch: batch[::-1], batches)]
    assert [(len(result), result[0]) for result in results] == [(2**21, number) for number in range(60)]  # type: ignore[arg-type,index]


def test_a_node_that_is_killed_in_the_middle_changes_nothing(cluster: Any) -> None:
    def square(number: int) -> tuple[int, str]:
        import ray

        time.sleep(0.6)  # long enough to look at the cluster meanwhile
        return number * number, ray.get_runtime_context().get_node_id()

    doomed = cluster.list_all_nodes()[-1]
    results = []
    for number, result in ray_map(square, range(14)):
        results.append((number, result))
        if number == 3:
            cluster.remove_node(doomed, allow_graceful=False)
    assert [(number, result[0]) for number, result in results] == [(number, number**2) for number in range(14)]  # type: ignore[index]
    assert doomed.node_id in {result[1] for _, result in results}  # type: ignore[index]


_PAPER = r"""\documentclass{article}\newtheorem{theorem}{Theorem}\title{Paper NUMBER}\begin{document}
\begin{theorem}[Law of NUMBER gaps]\label{law-NUMBER}Every \emph{gap sequence} of order NUMBER is a bounded sequence.
\end{theorem}\begin{proof}This follows from Theorem~\ref{law-NUMBER} and Zorn's lemma.\end{proof}
A gap sequence of length NUMBER is called \emph{narrow}. The narrow sequences have many uses.\end{document}"""


def _make(folder: Path, sources: Path, progress: Callable[[str, int, int | None], None]) -> dict[str, Any]:
    """The manifests of a workspace with graph, vectors and queries."""
    project = Project.init(folder)
    with project.reporting_to(progress):
        report = project.ingest([sources])
    assert (report.added, report.failed) == (12, 0)
    project.build_graph()
    project.index(settings={"encoder": "lemmata-mini"})
    project.split()
    project.mine("queries")
    manifests = {str(path.relative_to(folder)): json.loads(path.read_bytes()) for path in folder.rglob("manifest.json")}
    for key in ("checksum", "files"):  # of the file that also holds when sources were read; `inputs` hashes its content
        del manifests["corpus/manifest.json"][key]
    return manifests


def test_a_workspace_made_on_a_cluster_that_loses_a_node_has_the_same_hashes(cluster: Any, tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    for number in range(12):
        (sources / f"paper{number}.tex").write_text(_PAPER.replace("NUMBER", str(number)))
    cluster.add_node(num_cpus=1, object_store_memory=_STORE)
    cluster.wait_for_nodes()

    doomed = cluster.list_all_nodes()[-1]

    def kill_a_node(what: str, done: int, _total: int | None) -> None:
        if what == "reading" and done == 5:
            cluster.remove_node(doomed, allow_graceful=False)

    made = _make(tmp_path / "cluster", sources, kill_a_node)
    assert doomed not in cluster.list_all_nodes()
    code = "import sys, test_ray; test_ray.make_here(*sys.argv[1:])"
    arguments = [str(tmp_path / "here"), str(sources)]
    here = subprocess.run([sys.executable, "-c", code, *arguments], cwd=Path(__file__).parent, capture_output=True)
    assert here.returncode == 0, here.stderr.decode()
    assert made == json.loads(here.stdout)
    assert {"corpus/manifest.json", "graph/compressed/manifest.json", "training/queries/manifest.json"} <= made.keys()


def make_here(folder: str, sources: str) -> None:
    """Make the workspace in a process without a cluster."""
    json.dump(_make(Path(folder), Path(sources), lambda *_: None), sys.stdout)


@pytest.mark.parametrize(("failures", "starts"), [(2, 3), (9, 3)])
def test_ray_is_started_again_where_it_gives_up(monkeypatch: pytest.MonkeyPatch, failures: int, starts: int) -> None:
    calls: list[str] = []

    def init(address: str, **_: Any) -> None:
        calls.append(address)
        if len(calls) <= failures:
            raise RuntimeError("timed out waiting for a file")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with contextlib.ExitStack() as stack:
        if failures >= starts:
            stack.enter_context(pytest.raises(ConfigError, match="Ray could not be started"))
        stack.enter_context(computing_on("local"))
        assert is_on_cluster()
    assert calls == ["local"] * starts


def test_an_address_of_no_cluster_is_an_error_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"nowhere.*local"), computing_on("nowhere"):
        pass
