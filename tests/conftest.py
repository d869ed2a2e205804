"""Property tests: the same 40 examples on every run, so that a failure can be reproduced; `make fuzz` tries new ones.

There is no deadline: the time of one example says more about a busy machine than about the code. Nothing waits until it
is on the disk: that protects from a power failure, which no test can cause, and takes a sixth of the time of a stage.
What takes a second to make is made once, and tests share it or work on copies.
"""

import contextlib
import functools
import gc
import os
import re
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from tests.embedding_server import CountingServer, FaultyServer, answering
from tests.llm_server import Server
from tests.make import complete, make_workspace
from tests.served import NOTES, serving

from lemmata.core.database import Connection
from lemmata.core.errors import MissingExtra
from lemmata.project import Project

# a process of the tests has one core, and so have those that it starts; all of them keep compiled modules, as to
# compile them again takes half of the time of a command
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["PYTHONDONTWRITEBYTECODE"] = ""
sys.dont_write_bytecode = False
# the garbage collector is spared what is loaded before the first test: a tenth of the time went into looking through it
gc.disable()

settings.register_profile(
    "fixed", derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("searching", derandomize=False, deadline=None, max_examples=200)
settings.load_profile("fixed")


# what the modules test that train, or start browsers, clusters and processes to be killed, the longest first
SLOW = (
    "serve_folder page docs ray ranks kills run_thesis page_language page_service run_papers update page_views "
    "stage_mine finetune stage_train run_static run_plant updates fuzz_workspace metric stage_metric embed "
    "pretrain static mcp milvus fuzz_server cross losses long_window reranker maintain edits page_search page_axe "
    "restore run recipe_distil server_load significance supply_chain disk mteb"
).split()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without the slow tests, nothing is imported for them: torch alone takes seconds in each process."""
    is_slow = collection_path.stem.removeprefix("test_") in SLOW
    return True if is_slow and config.getoption("markexpr") == "not slow" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests, and put long modules first, so that several processes are busy until the end."""
    for item in items:
        if item.path.stem.removeprefix("test_") in SLOW:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _turn(item.path))


@functools.cache
def _turn(path: Path) -> tuple[int, int]:
    """Where a module stands: the slow ones as they are listed, then the larger files."""
    name = path.stem.removeprefix("test_")
    return (SLOW.index(name), 0) if name in SLOW else (len(SLOW), -path.stat().st_size)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` one process has all modules of the page: the workspace of the notes is made once."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return re.sub("test_page_.*", "test_page.py", super()._split_scope(nodeid))

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was not tested, and why: of a browser that is missing nobody else would."""
    reasons = Counter(str(report.longrepr[-1]) for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    with _skipping_missing_libraries():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    with _skipping_missing_libraries():
        return (yield)


@contextlib.contextmanager
def _skipping_missing_libraries() -> Iterator[None]:
    """Skip a test that needs an optional library which is not installed."""
    try:
        yield
    except (MissingExtra, ModuleNotFoundError) as error:
        name = (getattr(error, "name", None) or "").partition(".")[0]
        if name in ("lemmata", "tests"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    execute = Connection.execute

    def execute_at_once(self: Connection, statement: str, values: Any = ()) -> sqlite3.Cursor:
        return execute(self, statement.replace("synchronous = NORMAL", "synchronous = OFF"), values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(Connection, "execute", execute_at_once)
        yield


@pytest.fixture(scope="session")
def _llm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    process = Server(tmp_path_factory.mktemp("llm") / "journal")
    yield process
    process.kill()


@pytest.fixture(scope="module")
def server(_llm_server: Server) -> Server:
    """A language-model server that answers as it pleases until a test writes its script."""
    _llm_server.script()
    return _llm_server


@pytest.fixture
def service() -> Iterator[FaultyServer]:
    """An embedding service that fails as a test asks."""
    with answering(FaultyServer()) as server:
        yield server


@pytest.fixture
def counting() -> Iterator[CountingServer]:
    """An embedding service that counts what it is asked."""
    with answering(CountingServer()) as server:
        yield server


@pytest.fixture(scope="session")
def _complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return complete(tmp_path_factory.mktemp("complete")).root.parent


@pytest.fixture(scope="module")
def made(_complete: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of a complete workspace for tests of a module that restore what they damage."""
    return Project(shutil.copytree(_complete, tmp_path_factory.mktemp("made") / "copy") / "w")


@pytest.fixture
def project(_complete: Path, tmp_path: Path) -> Project:
    """A copy of a complete workspace beside a copy of its papers, to be damaged."""
    shutil.copytree(_complete, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path / "w")


@pytest.fixture(scope="session")
def _qseries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    example = Path(__file__).parents[1] / "examples" / "qseries"
    return make_workspace(tmp_path_factory.mktemp("qseries"), example, graph=True).root


@pytest.fixture(scope="module")
def qseries(_qseries: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The q-series notes with graph and hashing index, for the tests of a module."""
    return Project(shutil.copytree(_qseries, tmp_path_factory.mktemp("notes") / "w"))


@pytest.fixture(scope="session")
def _served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_workspace(tmp_path_factory.mktemp("served"), NOTES, graph=True)
    made.map()
    return made.root


@pytest.fixture(scope="module")
def served(_served: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Papers and logs with graph, index and map, to be served."""
    return Project(shutil.copytree(_served, tmp_path_factory.mktemp("copy") / "w"))


@pytest.fixture(scope="module")
def client(served: Project) -> Iterator[httpx.Client]:
    """A client of a server of these."""
    with serving(served.root) as opened:
        yield opened


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder named `tiny` with random weights (see small_bert.py), with the licence and languages of its card."""
    from tests.small_bert import small_bert

    folder = small_bert(tmp_path_factory.mktemp("base") / "tiny")
    (folder / "README.md").write_text("---\nlicense: mit\nlanguage: [de, en]\n---\n")
    return folder


@pytest.fixture(scope="session")
def _notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.window import made

    return made(tmp_path_factory.mktemp("page"), Path(__file__).parents[1] / "examples" / "qseries").root


@pytest.fixture(scope="module")
def notes(_notes: Path) -> Iterator[str]:
    """A server of the bundled example, with vectors, graph and map."""
    from tests.window import serving

    with serving(_notes) as address:
        yield address


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of a small plant."""
    from tests.window import made_plant, serving

    with serving(made_plant(tmp_path_factory.mktemp("plant")).root) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from tests.window import launched

    with launched() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def _windows(browser: Any) -> Iterator[Any]:
    """Where windows are opened: a process of the browser for each of them takes longer than most tests."""
    from tests.window import VIEWPORT

    context = browser.new_context(viewport=VIEWPORT)
    yield context
    context.close()


@pytest.fixture
def window(browser: Any, _windows: Any, notes: str) -> Iterator[Any]:
    """A page in the browser that remembers nothing of others, with which nothing may go wrong."""
    from tests.window import Window

    opened = Window(browser, notes, context=_windows)
    yield opened
    opened.forget()
    assert opened.wrong == []
