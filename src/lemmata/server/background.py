"""Work behind a running server: its folders become words, vectors, a graph and a map, each by its own command.

A command runs in a process of its own, which gives its memory back and, once there is something to search, leaves the
cores to the server. Each resumes what a kill left and finds finished work up to date: a new start needs no notes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lemmata.core.artefacts import dense_index, is_usable
from lemmata.core.errors import LemmataError, WorkspaceBusy
from lemmata.core.files import lock_file
from lemmata.core.trust import trusted_file
from lemmata.core.workspace import Workspace, read_corpus_manifest, read_manifest, vectors_of
from lemmata.corpus.corpus import Corpus
from lemmata.encode.load import AUTO, encoder_id
from lemmata.graph.store import GraphRecordStore
from lemmata.ingest.watch import changes
from lemmata.plant.link import PREDICTED
from lemmata.search.index import packaged_encoder

_MANY = 2000  # new passages above which quick vectors bridge the time until the others are made
_NICE = 5
_SECONDS_TO_STOP = 5.0
_BEFORE_SEARCH = ("files", "words")  # what nobody can search before
_RESUMED = ("quick vectors", "vectors")  # what goes on where it was, however often it is interrupted
_COUNTS = {"documents": "documents", "passages": "passages", "skips": "notes"}  # of the report of `ingest`
_MOST_INTERRUPTED = 3  # times that files which change may delay the graph and the map
_log = logging.getLogger("lemmata.server")


@dataclass(slots=True)
class Step:
    """What one or two commands make, and how far they are."""

    name: str
    state: str = "next"  # now, ready, failed
    begin: float = 0.0
    seconds: float = 0.0
    what: str = ""  # is being done
    done: int = 0
    total: int | None = None
    first: tuple[float, int] = (0.0, 0)  # when that began, and how much was done already

    def note(self, what: str, done: int, total: int | None) -> None:
        """Take over what the command says about its progress."""
        if what.partition(",")[0] != self.what.partition(",")[0]:
            self.first = time.monotonic(), done
        self.what, self.done, self.total = what, done, total

    @property
    def rate(self) -> float | None:
        """Per second; None where nothing moved yet."""
        begin, before = self.first
        seconds = time.monotonic() - begin
        return (self.done - before) / seconds if self.done > before and seconds > 0 else None

    def record(self) -> dict[str, Any]:
        seconds = time.monotonic() - self.begin if self.state == "now" else self.seconds
        moving = {"what": self.what, "done": self.done, "total": self.total, "rate": self.rate}
        still = {"what": "", "done": 0, "total": None, "rate": None}
        return {
            "name": self.name,
            "state": self.state,
            "seconds": round(seconds, 1),
            **(moving if self.state == "now" else still),
        }

    def __str__(self) -> str:
        what = self.what.partition(",")[0]  # behind a comma stands how long it was expected to take
        share = f" {self.done:,} of {self.total:,}" if self.total else ""
        rate = f" ({self.rate:,.0f}/s)" if self.total and self.rate and self.rate >= 1 else ""
        return f"{self.name}, {what}{share}{rate}" if what else self.name


class _Stopped(Exception):  # noqa: N818 - says what happened
    """The server ends."""


class _Changed(Exception):  # noqa: N818 - says what happened
    """Files changed while something was made that can wait."""


class Background:
    """Makes and updates the workspace of some folders in a thread; `record` says how far it is.

    Files that change meanwhile come first: they interrupt vectors, graph and map, which then go on.
    """

    STEPS: ClassVar = ("files", "words", "quick vectors", "vectors", "graph", "map")

    def __init__(self, workspace: Workspace, folders: Sequence[Path], say: Callable[[str], None]) -> None:
        self.workspace, self._say = workspace, say
        self._folders = [str(folder.absolute()) for folder in folders]
        self._steps = [Step(name) for name in self.STEPS]
        self._process: subprocess.Popen[str] | None = None
        self._step: Step | None = None  # whose command is running
        self._changed = threading.Event()
        self._interruptions = 0  # of the graph or the map since they were last made
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)
        self._begin = time.monotonic()
        self.problems: list[str] = []
        self.is_working = True
        self.step_done: Callable[[], object] = lambda: None  # for the server, which takes over what is there now

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the present command; what it finished is kept."""
        self._stopping.set()
        self._changed.set()
        if process := self._process:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with its own, one of which may be busy with a large file
        if self._thread.is_alive():
            self._thread.join(_SECONDS_TO_STOP)

    # ------------------------------------------------------------ how far it is

    def record(self) -> dict[str, Any]:
        """State, steps and problems, and a line for people."""
        state = "working" if self.is_working else "failed" if self.problems else "ready"
        steps = [step.record() for step in self._steps]
        return {"state": state, "line": self.line, "steps": steps, "problems": list(self.problems)}

    @property
    def line(self) -> str:
        """What is ready, what is being made and what follows; empty where all is done."""
        by_state: dict[str, list[Step]] = {"ready": [], "now": [], "next": []}
        for step in self._steps:
            by_state.get(step.state, []).append(step)
        ready, following = (", ".join(step.name for step in by_state[state]) for state in ("ready", "next"))
        now = str(by_state["now"][0]) if by_state["now"] else ""
        named = (("Ready", ready), ("Now", now), ("Then", following))
        return " ".join(f"{title}: {text}." for title, text in named if text) if self.is_working else ""

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        settings = str(self.workspace.root / "lemmata.toml"), str(trusted_file())
        noticed = changes([*self._folders, *settings], self._stopping)  # from now on, also while they are read
        threading.Thread(target=self._watch, args=(noticed,), name="watch", daemon=True).start()
        with contextlib.suppress(_Stopped):
            while not self._stopping.is_set():
                self._changed.clear()
                self._bring_up_to_date()
                self._changed.wait()
                self._begin = time.monotonic()

    def _watch(self, noticed: Iterator[object]) -> None:
        for _ in noticed:
            self._changed.set()
            step, process = self._step, self._process
            if step and process and self._can_wait(step):
                process.send_signal(signal.SIGINT)

    def _can_wait(self, step: Step) -> bool:
        """Whether files that changed come before a step."""
        if step.name in _BEFORE_SEARCH:
            return False
        return step.name in _RESUMED or self._interruptions < _MOST_INTERRUPTED

    def _bring_up_to_date(self) -> None:
        try:
            self._round()
        except _Stopped:
            raise
        except _Changed:
            self._say("files changed: they come first")
        except Exception as error:  # the thread goes on: nothing else would read the next change
            _log.exception("the background work failed")
            self.problems.append(f"the background work failed: {error}")
        finally:
            self.is_working = self._changed.is_set()

    def _round(self) -> None:
        """Bring everything up to date, the quickest first."""
        with self._alone():
            self.problems, self.is_working = [], True
            self._steps = [Step(name) for name in self.STEPS]
            if self._read_files() is None:
                return
            words = self._work("words", *self._links(expanded=True), ("index", "--no-dense"))
            if words is None:
                return
            index, quick = self._encoders(words["tokenised"])
            if quick:
                self._work("quick vectors", ("index", "--encoder", quick))
                self._work("graph", ("graph", "build"), *self._links(), ("index", "--encoder", quick))
                self._work("vectors", index, ("index", "--remove", quick))
            else:
                self._work("vectors", index)
                self._work("graph", ("graph", "build"), *self._links(), index)
            self._work("map", ("map",))
            for refusal in Workspace(self.workspace.root).refusals:
                self.problems.append(refusal)
                self._say(refusal)
            self._interruptions = 0
            self.is_working = False
            self._say(f"all is ready after {time.monotonic() - self._begin:.1f} s")
            if advice := self.advice():
                self._say(advice)

    def _read_files(self) -> dict[str, Any] | None:
        """The report of reading all files; the large ones of a new corpus after the words of all others are there."""
        command = ("ingest", *self._folders)
        if not self.workspace.database.exists():
            report = self._work("files", (*command, "--quick"))
            if report is None or not report["left"]:
                return report
            if report["passages"]:
                self._work("words", ("index", "--no-dense"))
            self.problems.clear()  # what could not be read is read again
        return self._work("files", command)

    def advice(self) -> str:
        """The command that predicts the links of a plant's logs, where it was not run; empty elsewhere."""
        workspace = Workspace(self.workspace.root)
        with GraphRecordStore(workspace) as records, contextlib.closing(Corpus(workspace)) as corpus:
            is_plant = any(True for _ in corpus.documents(kind="location")) and corpus.log_dates() is not None
            is_linked = not is_plant or PREDICTED in records.sources()
        return "" if is_linked else f"'lemmata graph link -w {workspace.root}' predicts missing links of the logs"

    def _links(self, *, expanded: bool = False) -> list[Sequence[str]]:
        """The command that predicts links of logs again, where there were some and the corpus is another one now.

        With `expanded`, only where the words are indexed with what these links tell.
        """
        workspace = Workspace(self.workspace.root)
        corpus = read_corpus_manifest(workspace)
        is_needed = not expanded or (read_manifest(workspace.manifest(workspace.lexical_folder)) or {}).get("expansion")
        if corpus is None or not is_needed or not workspace.graph_records.exists():
            return []
        with GraphRecordStore(workspace) as records:
            return [("graph", "link")] if PREDICTED in records.stale(corpus["inputs"]) else []

    def _encoders(self, new: int) -> tuple[Sequence[str], str]:
        """The command for the vectors, and the quick encoder where that takes long; of the steps, those that follow.

        The command does not name what lemmata.toml names, as that would trust it. A packaged encoder takes the place of
        one that the user does not trust.
        """
        workspace = Workspace(self.workspace.root)
        encoder, command = workspace.config.get("index", {}).get("encoder", AUTO), ["index"]
        if encoder == AUTO or workspace.key.why_refused(encoder):
            encoder = packaged_encoder(workspace)
            command += ["--encoder", encoder]
        quick = packaged_encoder(workspace, static=True)
        vectors = vectors_of(workspace, encoder_id(encoder, workspace.models_folder))
        is_soon = is_usable(workspace, dense_index(vectors)) or (vectors.manifest.exists() and new <= _MANY)
        if is_soon or quick == encoder:
            quick = ""
        order = ("quick vectors", "graph", "vectors", "map") if quick else ("vectors", "graph", "map")
        self._steps = [*self._steps[:2], *map(Step, order)]
        return command, quick

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other server of this workspace works on it."""
        while not self._stopping.is_set():
            try:
                lock = lock_file(self.workspace.root / ".background")
            except WorkspaceBusy:
                self._stopping.wait(1)
                continue
            with contextlib.closing(lock):
                yield
            return
        raise _Stopped

    def _work(self, name: str, *commands: Sequence[str]) -> dict[str, Any] | None:
        """The report of the last of these commands; None where one failed."""
        step = next(step for step in self._steps if step.name == name)
        step.state, step.begin = "now", time.monotonic()
        report: dict[str, Any] | None = None
        try:
            for command in commands:
                if self._changed.is_set() and self._can_wait(step):
                    raise _Changed
                report = self._call(step, command)
            step.state = "ready"
        except _Changed:
            self._interruptions += step.name not in _RESUMED
            raise
        except LemmataError as error:
            step.state, report = "failed", None
            self.problems.append(f"{name}: {error}")
            self._say(self.problems[-1])
        step.seconds = time.monotonic() - step.begin
        if report is not None:
            found = {what: report.get(key) for key, what in _COUNTS.items()} if name == "files" else {}
            counts = ", ".join(
                f"{number:,} {what[: -1 if number == 1 else None]}" for what, number in found.items() if number
            )
            self._say(f"{name}: ready after {time.monotonic() - self._begin:.1f} s{f' ({counts})' if counts else ''}")
            self.step_done()
        return report

    def _call(self, step: Step, command: Sequence[str]) -> dict[str, Any]:
        """The report of a command; what it says about its progress goes to the step."""
        verb = command[:2] if command[0] == "graph" else command[:1]
        shared = ("-w", str(self.workspace.root.absolute()), "--json")
        words = [sys.executable, "-P", "-m", "lemmata", "--log", "json", *verb, *shared, *command[len(verb) :]]
        cause = ""
        if self._stopping.is_set():
            raise _Stopped
        with tempfile.TemporaryFile() as output:
            with subprocess.Popen(  # noqa: S603 - our own command
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C is for the server, which ends it
            ) as process:
                self._step, self._process = step, process
                if step.name not in _BEFORE_SEARCH:
                    with contextlib.suppress(ProcessLookupError):
                        os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
                assert process.stderr is not None
                for line in process.stderr:
                    cause = _read_message(step, line) or cause
            self._process = None
            output.seek(0)
            text = output.read()
        if self._stopping.is_set():
            raise _Stopped
        if process.returncode and not text:
            if self._changed.is_set() and self._can_wait(step):
                raise _Changed
            raise LemmataError(cause or f"'lemmata {' '.join(command)}' ended with {process.returncode}")
        if process.returncode and cause:  # some files could not be read; the others were
            self.problems.append(cause)
            self._say(cause)
        return dict(json.loads(text))


def _read_message(step: Step, line: str) -> str:
    """Note the progress that a line of the log tells; returns what went wrong, where it tells that."""
    try:
        message = json.loads(line)
    except ValueError:
        return line.strip()  # a library's, or the last line of a traceback
    if message["level"] == "error":
        return str(message["message"])
    if "done" in message:
        step.note(message["message"], message["done"], message.get("total"))
    return ""
