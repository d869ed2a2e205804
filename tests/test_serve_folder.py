"""`lemmata serve FOLDER` and `lemmata mcp FOLDER`: real processes, kills at every stage, a second server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.embedding_server import FaultyServer, answering
from tests.make import NAMES, lemmata, make_workspace, wait_until, write, write_papers

from lemmata.cli.output import invocation
from lemmata.cli.serve import background_of
from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.workspace import HIDDEN, Workspace, read_manifest, vector_sets
from lemmata.graph.store import GraphRecordStore
from lemmata.maintain.verify import verify
from lemmata.project import Project
from lemmata.server.background import Background, Step
from lemmata.server.folder import shown_name, workspace_of
from lemmata.server.service import NotReady, Service

LEMMATA = [sys.executable, "-m", "lemmata"]
_PATIENCE = 600  # seconds; a machine with other work may take long


def papers(folder: Path) -> Path:
    """A folder of papers whose workspace will have vectors of words: quicker than those of a model."""
    write_papers(folder, *NAMES)
    write(folder, {f"{HIDDEN}/lemmata.toml": '[index]\nencoder = "hashing"\n'})
    return folder


class Served:
    """A server of a folder in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [*LEMMATA, "serve", str(folder), "--port", "0", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.folder, self.said = folder, ""
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()
        wait_until(lambda: re.search(r"^http://\S+ ", self.said, re.M) or not self._reader.is_alive())
        address = re.search(r"^http://\S+", self.said, re.M)
        assert address, self.said
        self.address = address[0]

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def wait(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first progress that fulfils a condition."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            progress = self.ask("/v1/progress")[1]
            if condition(progress):
                return progress
            time.sleep(0.1)
        raise AssertionError(progress)

    def change(self, *names: str) -> None:
        """Write papers, of which the server hears."""
        write_papers(self.folder, *names)

    @property
    def documents(self) -> int | None:
        return self.ask("/health")[1].get("documents")

    def pause(self, step: str) -> int:
        """Stop the command of a step somewhere in its work; its process."""
        paused: list[int] = []

        def stop(progress: dict[str, Any]) -> bool:
            children = self.children() if step in steps(progress, "now") else []
            for child in children:
                os.kill(child, signal.SIGSTOP)
                if step in steps(self.ask("/v1/progress")[1], "now") and child in self.children():
                    paused.append(child)
                else:  # it was the next one already
                    os.kill(child, signal.SIGCONT)
            return bool(paused)

        self.wait(stop)
        return paused[0]

    def search(self, query: str) -> tuple[int, dict[str, Any]]:
        return self.ask("/search", {"query": query, "k": 3})

    def children(self) -> list[int]:
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]

    def kill(self) -> None:
        """As a power failure ends it: with the command that it is running."""
        for process in (self.process.pid, *self.children()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._end()

    def stop(self) -> None:
        self.process.terminate()
        assert self._end() in (0, -signal.SIGTERM)

    def _end(self) -> int:
        code = self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    served = Served(folder, *options)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.kill()


def is_done(progress: dict[str, Any]) -> bool:
    return bool(progress["state"] != "working")


def steps(progress: dict[str, Any], state: str) -> list[str]:
    return [step["name"] for step in progress["steps"] if step["state"] == state]


def contents(folder: Path) -> dict[str, Any]:
    """The recipe and the hashes of everything that was made in a folder."""
    root = folder / HIDDEN
    made = {path.parent.relative_to(root).as_posix(): read_manifest(path) for path in root.rglob("manifest.json")}
    made["corpus"] = {**(made["corpus"] or {}), "files": "…"}  # a database: its bytes depend on the order of writes
    return made


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that has made all of a folder, which tests then change."""
    with serving(papers(tmp_path_factory.mktemp("undisturbed") / "trees")) as served:
        served.wait(is_done)
        yield served


def test_small_files_are_searched_before_a_large_one_is_read(tmp_path: Path) -> None:
    folder = papers(tmp_path / "papers")
    write(folder, {"heron.md": "Nothing but a heron stands in the water, and it waits for the next one.\n\n" * 15_000})
    with serving(folder) as served:
        served.wait(is_done)
        assert re.findall(r"(files|words): ready", served.said) == ["files", "words"] * 2
        assert served.documents == len(NAMES) + 1


def test_one_command_makes_a_folder_searchable_and_all_that_follows(undisturbed: Served) -> None:
    status, answer = undisturbed.search("bound for the girth of a tree")
    assert status == 200
    assert answer["hits"][0]["document"] == "girth"
    assert answer["note"] == ""
    progress = undisturbed.ask("/v1/progress")[1]
    assert progress["state"] == "ready"
    assert progress["line"] == ""
    assert steps(progress, "ready") == ["files", "words", "quick vectors", "graph", "vectors", "map"]
    health = undisturbed.ask("/health")[1]
    assert (health["status"], health["name"], health["problems"]) == ("ok", "trees", [])
    assert undisturbed.ask("/concepts")[0] == undisturbed.ask("/map")[0] == 200
    assert undisturbed.ask("/bridge", {"source": "concept:girth", "target": "concept:width"})[0] == 200


def test_quick_vectors_go_when_the_others_are_there(undisturbed: Served) -> None:
    workspace = Workspace(undisturbed.folder / HIDDEN)
    assert [vectors.encoder for vectors in vector_sets(workspace)] == ["hashing"]
    assert not verify(workspace).problems


def test_the_workspace_lies_in_the_folder_where_git_and_readers_do_not_see_it(undisturbed: Served) -> None:
    assert (undisturbed.folder / HIDDEN / ".gitignore").read_text() == "*\n"
    assert undisturbed.documents == len(NAMES)
    assert str(undisturbed.folder / HIDDEN) in undisturbed.said
    assert json.loads(lemmata("info", "--json", "-w", undisturbed.folder))["documents"] == len(NAMES)


def test_a_second_server_of_the_same_folder_names_the_first(undisturbed: Served) -> None:
    command = [*LEMMATA, "serve", str(undisturbed.folder), "--port", "0"]
    second = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert second.returncode == 0
    assert undisturbed.address in second.stderr


def test_killed_in_its_work_and_started_again_it_ends_as_undisturbed(undisturbed: Served, tmp_path: Path) -> None:
    folder = papers(tmp_path / "trees")
    for stage in ("files", "vectors"):  # a killed graph: see below
        with serving(folder) as served:
            served.wait(lambda progress: stage not in steps(progress, "next"))  # noqa: B023 - called at once
            served.kill()
    with serving(folder) as served:
        progress = served.wait(is_done)
        assert progress["state"] == "ready", progress
        assert served.search("bound for the girth of a tree")[1]["hits"][0]["document"] == "girth"
        served.stop()
    assert contents(folder) == contents(undisturbed.folder)


def test_a_folder_that_changes_is_brought_up_to_date_while_it_is_served_and_files_come_before_the_graph(
    undisturbed: Served,
) -> None:
    generation, before = undisturbed.ask("/v1/progress")[1]["generation"], len(undisturbed.said)
    undisturbed.change("leafage")
    child = undisturbed.pause("graph")  # new words and vectors are there, and a graph that takes long
    try:
        assert undisturbed.search("bound for the leafage")[1]["hits"][0]["document"] == "leafage"
        asked = ("/map", "/concepts", "/concepts/concept:girth", "/graph/girth%23thm-girth")
        assert [undisturbed.ask(path)[0] for path in asked] == [200] * len(asked)  # of the state before
        assert undisturbed.ask("/bridge", {"source": "concept:girth", "target": "concept:width"})[0] == 200
        assert undisturbed.ask("/map")[1]["generation"] == generation
        undisturbed.change("bark")
        wait_until(lambda: is_interrupted(child))  # the change was noticed
    finally:
        os.kill(child, signal.SIGCONT)
    wait_until(lambda: "all is ready" in undisturbed.said[before:])
    undisturbed.wait(lambda progress: progress["generation"] > generation and is_done(progress))
    said = undisturbed.said[before:]
    assert "files changed" in said
    assert f"({len([*undisturbed.folder.glob('*.tex')])} documents, " in said
    assert re.findall("(words|graph): ready", said) == ["words", "words", "graph"]
    assert undisturbed.ask("/map")[1]["generation"] > generation
    for name in ("leafage", "bark"):
        assert undisturbed.search(f"bound for the {name}")[1]["hits"][0]["document"] == name
    assert undisturbed.ask("/health")[1]["problems"] == []


def test_new_words_are_found_while_their_vectors_are_made(undisturbed: Served) -> None:
    undisturbed.change("wombatage")
    child = undisturbed.pause("vectors")
    try:
        found = undisturbed.search("bound for the wombatage")[1]
        assert found["hits"][0]["document"] == "wombatage"
        assert found["note"]
        assert undisturbed.search("bound for the girth")[1]["hits"][0]["document"] == "girth"
    finally:
        os.kill(child, signal.SIGCONT)
    undisturbed.wait(is_done)
    found = undisturbed.search("bound for the wombatage")[1]
    assert (found["hits"][0]["document"], found["note"]) == ("wombatage", "")


def test_a_folder_that_changes_while_it_is_read_ends_up_to_date(undisturbed: Served) -> None:
    folder = undisturbed.folder
    girth = (folder / "girth.tex").read_text("utf-8")
    undisturbed.change("away")
    child = undisturbed.pause("files")
    (folder / "away.tex").unlink()
    (folder / "girth.tex").write_text(girth.replace("bound", "limit"), "utf-8")
    undisturbed.change("wrong")
    (folder / "wrong.tex").rename(folder / "right.tex")
    os.kill(child, signal.SIGCONT)
    undisturbed.wait(lambda progress: "words" in steps(progress, "ready"))
    (folder / "right.tex").unlink()
    expected = len([*folder.glob("*.tex")])
    undisturbed.wait(lambda progress: is_done(progress) and undisturbed.documents == expected)
    assert undisturbed.search("limit for the girth of a tree")[1]["hits"][0]["document"] == "girth"
    again = Project(folder / HIDDEN).ingest([folder], workers=1)
    assert (again.added, again.changed, again.removed, again.unchanged) == (0, 0, 0, expected)


def is_interrupted(process: int) -> bool:
    """Whether a stopped process will find a SIGINT when it goes on."""
    pending = re.search(r"^ShdPnd:\s*(\w+)$", Path(f"/proc/{process}/status").read_text(), re.M)
    return bool(pending and int(pending[1], 16) >> (signal.SIGINT - 1) & 1)


def test_a_killed_command_is_named_and_the_others_go_on(undisturbed: Served) -> None:
    undisturbed.change("twig")
    os.kill(undisturbed.pause("graph"), signal.SIGKILL)
    progress = undisturbed.wait(is_done)
    assert progress["state"] == "failed"
    assert steps(progress, "failed") == ["graph"]
    assert any("graph" in problem for problem in progress["problems"])
    assert "map" in steps(progress, "ready")
    assert undisturbed.ask("/health")[1]["status"] == "degraded"


def test_files_that_came_while_nobody_served_are_there_after_the_next_start(undisturbed: Served) -> None:
    folder = undisturbed.folder
    undisturbed.stop()
    write_papers(folder, "colour")
    (folder / "height.tex").unlink()
    with serving(folder) as served:
        assert served.ask("/v1/progress")[1]["generation"] == 1  # what was there answers at once
        progress = served.wait(is_done)
        assert steps(progress, "ready") == ["files", "words", "vectors", "graph", "map"]
        assert served.search("bound for the colour")[1]["hits"][0]["document"] == "colour"
        assert served.documents == len([*folder.glob("*.tex")])


@pytest.mark.parametrize("expand", [True, False], ids=["expanded words", "plain words"])
def test_a_log_that_comes_after_links_were_predicted_is_found_and_has_its_own(tmp_path: Path, expand: bool) -> None:
    tree = "id,parent,description\nP,,plant\nP-1,P,feed pump\nP-2,P,condenser\n"
    logs = (
        "id,date,location,text\nL1,2024-05-01,P-1,P-1 hums.\nL2,2024-05-02,P-2,It sticks.\nL3,,,The feed pump hums.\n"
    )
    folder = write(tmp_path / "plant", {"hierarchy.csv": tree, "logs.csv": logs})
    project = make_workspace(tmp_path, folder, index=None, graph=True)
    advisor = Background(Workspace(project.root), [folder], lambda _: None)
    assert "lemmata graph link" in advisor.advice()
    project.link_graph()
    assert advisor.advice() == ""
    project.index(settings={"expand": expand, "encoder": "hashing"})
    (project.root / "lemmata.toml").write_text('[index]\nencoder = "hashing"\n')
    write(folder, {"logs.csv": f"{logs}L4,2024-05-04,,The condenser drips.\n"})
    background = Background(Workspace(project.root), [folder], lambda _: None)
    background.start()
    wait_until(lambda: not background.is_working)
    background.stop()
    assert background.problems == []
    assert bool((read_manifest(project.manifest(project.lexical_folder)) or {})["expansion"]) == expand
    with project.retriever() as searcher:
        assert searcher.search("drips", retriever="lexical")[0].id == "L4"
    with GraphRecordStore(project) as records:
        places = {edge.source: edge.target for edge in records.edges() if edge.relation == "reports_about"}
    assert (places["L3"], places["L4"]) == ("location:P-1", "location:P-2")


def test_the_page_opens_and_says_how_far_it_is_before_there_is_anything_to_search(tmp_path: Path) -> None:
    folder = write(tmp_path / "empty", {"photo.bin": b"\0\1\2"})
    with serving(folder) as served, urllib.request.urlopen(served.address) as page:
        assert b"<main" in page.read()
        progress = served.wait(is_done)
        assert (progress["state"], progress["generation"]) == ("failed", 0)  # there is nothing to read
        status, answer = served.search("anything")
        assert (status, answer["error"]["code"]) == (503, "starting")
        assert served.ask("/health")[0] == 503
        served.change("girth")
        assert served.wait(lambda progress: steps(progress, "now") != [])["line"]
        served.wait(lambda progress: progress["generation"] > 0)
        assert served.search("girth")[1]["hits"][0]["document"] == "girth"
        wait_until(served.children)
        children = served.children()
        served.stop()
        wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_an_agent_gets_hits_of_a_folder_with_its_first_call(tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp")
    folder = papers(tmp_path / "trees")
    environment = {name: os.environ[name] for name in ("PYTHONPATH", "PATH") if name in os.environ}
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "lemmata", "mcp", str(folder)], env=environment
    )

    async def search() -> Any:
        async with mcp.Client(parameters, read_timeout_seconds=_PATIENCE) as client:
            while (answer := await client.call_tool("search", {"query": "bound for the girth"})).is_error:
                assert "searched yet" in answer.content[0].text
            return answer.structured_content

    assert asyncio.run(search())["hits"][0]["document"] == "girth"


# ---------------------------------------------------------------- without processes


def test_the_key_goes_to_no_address_that_only_the_settings_of_a_folder_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with answering(FaultyServer()) as server:
        folder = papers(tmp_path)
        write(folder, {f"{HIDDEN}/lemmata.toml": f'[index]\nencoder = "{server.url}#m"\n'})
        background = Background(workspace_of([folder]), [folder], lambda _: None)
        background.start()
        wait_until(lambda: not background.is_working)
        background.stop()
    assert not background.problems
    assert set(server.keys) == {None}


def test_a_workspace_of_several_folders_lies_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    one, other = (write(tmp_path / name, {"a.md": "text"}) for name in ("one", "other"))
    workspace = workspace_of([one, other])
    assert workspace.root.parent == tmp_path / "data" / "lemmata"
    assert workspace_of([other, one]).root == workspace.root
    assert workspace_of([one]).root == one / HIDDEN
    assert workspace_of([one / "a.md"]).root.parent == tmp_path / "data" / "lemmata"
    assert workspace_of([one], tmp_path / "chosen").root == tmp_path / "chosen"
    assert not (one / HIDDEN / "corpus").exists()


def test_a_missing_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        workspace_of([tmp_path, tmp_path / "nowhere"])
    assert not (tmp_path / HIDDEN).exists()


def test_a_taken_port_and_a_wrong_option_leave_nothing_in_the_folder(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "text"})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in lemmata("serve", tmp_path, "--port", str(port), code=1)
    assert "--token" in lemmata("serve", tmp_path, "--host", "0.0.0.0", code=1)
    assert not (tmp_path / HIDDEN).exists()


def test_where_nothing_can_be_written_the_message_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(WorkspaceError, match="-w"):
        workspace_of([tmp_path])


def test_a_workspace_is_served_as_it_is(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, [{"id": "a", "text": "A tree has leaves."}], index="lexical")
    before = invocation.folder
    try:
        assert background_of([project.root]) is None
        assert invocation.folder == project.root
    finally:
        invocation.folder = before
    service = Service(project.root)
    progress = service.progress()
    assert (progress["state"], progress["served"], progress["generation"]) == ("ready", False, 1)
    service.close()


def test_the_name_of_a_hidden_workspace_is_that_of_its_folder(tmp_path: Path) -> None:
    assert shown_name(tmp_path / "trees" / HIDDEN) == "trees"
    assert shown_name(tmp_path / "trees") == "trees"
    assert shown_name(tmp_path / "lemmata" / "trees.md-d0f4fd71") == "trees.md"  # of a file, in the data folder
    assert shown_name(tmp_path / "trees-d0f4fd71") == "trees-d0f4fd71"


def test_an_error_of_the_server_does_not_end_its_work_in_the_background(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "The girth of a graph."})
    background = Background(workspace_of([tmp_path]), [tmp_path], lambda _: None)
    failures = iter([MemoryError("too little")])

    def take_over() -> None:
        for failure in failures:
            raise failure

    background.step_done = take_over
    background.start()
    wait_until(lambda: background.problems)
    wait_until(lambda: not background.is_working)
    assert "too little" in background.problems[0]
    write(tmp_path, {"b.md": "The rank of a matrix."})
    wait_until(lambda: "words" in steps(background.record(), "ready"))
    background.stop()
    assert background.problems == []


def test_a_service_without_anything_to_search_says_what_is_being_made(tmp_path: Path) -> None:
    background = Background(workspace_of([tmp_path]), [tmp_path], lambda _: None)
    service = Service(background.workspace.root, background)
    with pytest.raises(NotReady, match="Then: files"):
        service.search("anything")
    assert service.generation == 0
    service.close()


def test_a_step_tells_how_far_it_is_and_how_fast() -> None:
    step = Step("vectors", state="now")
    assert str(step) == "vectors"
    step.note("encoding, about 3 minutes", 100, 1000)
    step.first = time.monotonic() - 10, 0
    assert re.fullmatch(r"vectors, encoding 100 of 1,000 \(([1-9]|10)/s\)", str(step))
    assert step.record()["total"] == 1000
    step.note("neighbours", 0, None)
    assert str(step) == "vectors, neighbours"
    assert step.rate is None
