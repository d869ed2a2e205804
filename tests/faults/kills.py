"""Kills every stage of a small workspace with SIGKILL, resumes it, and compares the result with an undisturbed one.

`python -m tests.faults.kills --kills 120` prints a table: half of the kills come after a random time, half before a
random file operation (a file is opened for writing, renamed, deleted, a transaction ends). `--every` kills before each
file operation, `--every 10` before every tenth.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import importlib.util
import json
import os
import pkgutil
import random
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from bench.random_edits import WORDS
from tests.llm_server import Server
from tests.make import plant, to_lines, write
from tests.small_bert import small_bert

import lemmata
from lemmata.cli.main import main as run_lemmata
from lemmata.core.database import Connection
from lemmata.evaluate.judgments import JudgmentLog
from lemmata.project import Project

ROOT = Path(__file__).parents[2]
PAPERS = {  # each with one of its labels
    "partitions": "def:partition",
    "durfee": "def:durfee-square",
    "glaisher": "def:merging",
    "heine": "thm:heine",
    "q-binomial": "def:gauss",
    "rsk": "alg:insertion",
    "tableaux": "def:tableau",
    "jacobi-trudi": "satz:jt",
}
MORE = ("cauchy", "hook-length")
SETTINGS = """
[split]
method = "stratified"
validation = 0.2
test = 0.2

[mixtures.mixed]
weights = { pairs = 1.0, queries = 1.0 }

[static.fast]
base = "lemmata-nano"

[finetune.tuned]
base = "../bert"
epochs = 0.2
batch = 8

[reranker.ranker]
base = "../bert"
records = 40

[run]
sources = ["../papers", "../more"]
static = ["fast"]
base = "lemmata-nano"
"""
STAGES = {
    "init": ["init", "inner"],
    "ingest": ["ingest", "../papers"],
    "graph build": ["graph", "build"],
    "graph merges": ["graph", "merges", "--reject", "concept:diagram", "concept:conjugate"],
    "graph extract": [*"graph extract --model tiny --budget unlimited -o llm.concurrency=1 -o".split(), "llm.url=URL"],
    "graph embed": ["graph", "embed", "-o", "start=random", "-o", "epochs=3"],
    "graph link": ["graph", "link"],
    "graph export": ["graph", "export", "out.graphml"],
    "export corpus": ["export", "corpus", "out.jsonl"],
    "split": ["split"],
    "export beir": ["export", "beir", "out", "--task", "references"],
    "mine pairs": ["mine", "pairs"],
    "mine queries": ["mine", "queries"],
    "mine import": ["mine", "import", "../questions.jsonl", "--name", "asked"],
    "mine mix": ["mine", "mix", "mixed"],
    "mine export": ["mine", "export", "pairs", "out.tsv", "--format", "tsv"],
    "index": ["index", "--encoder", "lemmata-nano"],
    "index --summaries": ["index", "--summaries", "../questions.jsonl"],
    "mine negatives": ["mine", "negatives", "pairs"],
    "evaluate --tune": ["evaluate", "--task", "references", "--tune"],
    "judgments --export": ["judgments", "--export", "out"],
    "judgments --clear": ["judgments", "--clear"],
    "inspect": ["inspect", "lemmata-nano"],
    "train prepare": ["train", "prepare", "tuned", "job"],
    "train finetune": ["train", "finetune", "tuned"],
    "export-encoder": ["export-encoder", "../bert", "out", "--force"],
    "train reranker": ["train", "reranker", "ranker"],
    "judge": ["judge", "out", "--by", "ranker", "--limit", "5"],
    "mine triplets": ["mine", "triplets", "-o", "triplets.hard_rank=20"],
    "train metric": ["train", "metric"],
    "map": ["map"],
    "graph import": ["graph", "import", "../links.jsonl", "--name", "links"],
    "index another": ["index", "--encoder", "hashing"],
    "index --remove": ["index", "--remove", "lemmata-nano"],
    "graph import --remove": ["graph", "import", "--remove", "links"],
    "ingest more": ["ingest", "../papers", "../more"],
    "index more": ["index"],
    "mine domain": ["mine", "domain", "../general.jsonl", "out.jsonl", "--share", "0.5"],
    "ingest --remove": ["ingest", "--remove", "../more"],
    "train static": ["train", "static", "fast"],
    "evaluate": ["evaluate", "--task", "references", "--part", "test", "--retriever", "lexical,dense:fast"],
    "run": ["run"],
    "adapt": ["adapt"],
    "adapt --undo": ["adapt", "--undo"],
}
# the workspace of the others: no other stage comes after these
_OWN: tuple[str, ...] = (
    "init",
    "graph merges",
    "graph extract",
    "graph embed",
    "graph link",
    "graph export",
    "export corpus",
)
_OWN += ("export beir", "mine import", "mine mix", "mine export", "index --summaries", "mine negatives", "mine domain")
_OWN += ("evaluate --tune", "judgments --export", "judgments --clear", "inspect", "train prepare", "train finetune")
_OWN += ("export-encoder", "train reranker", "judge", "mine triplets", "train metric", "adapt", "adapt --undo")
# between a new corpus and its index there is nothing to search
CORPUS_STAGES = ("ingest more", "index more", "ingest --remove", "run")
# differs from run to run, as does what ends in _per_second; and what one call did itself, which is less after a kill
TOLD = {"seconds", "checksum", "files", "sha256", "read_at"}
TOLD |= {"tokenised", "encoded", "measured_edges", "default_before", "kept_encoders", "done_before", "when"}
TIMED = {"card.json", "history.json", "README.md", "report.html", "curves.png", "answers.sqlite"}  # show seconds


class Outcome(NamedTuple):
    """What one kill led to."""

    stage: str
    how: str  # time or operation
    killed: bool  # False: the stage ended before
    problem: str = ""  # empty: the resumed workspace equals the undisturbed one


# ---------------------------------------------------------------- stages in forked processes


def write_notes(folder: Path) -> None:
    """Many theorems that refer to each other: as many as a metric is learned from."""
    draw = random.Random(0)
    names = [f"{note}-{number}" for note in range(30) for number in range(8)]
    for note in range(30):
        theorems = [
            f"\\begin{{theorem}}\\label{{{name}}}Every {' '.join(draw.sample(WORDS, 8))} of order {name} is bounded by"
            f" Theorem \\ref{{{draw.choice(names)}}}.\\end{{theorem}}\n"
            for name in names[8 * note : 8 * note + 8]
        ]
        head = "\\documentclass{article}\\newtheorem{theorem}{Theorem}\\begin{document}\n"
        (folder / f"note-{note}.tex").write_text(f"{head}{''.join(theorems)}\\end{{document}}\n", "utf-8")


def prepare(folder: Path, stages: Sequence[str] = ()) -> Path:
    """A workspace with settings only, beside its sources."""
    for name, stems in {"papers": PAPERS, "more": MORE}.items():
        (folder / name).mkdir()
        for stem in stems:
            for file in (ROOT / "examples" / "qseries").glob(f"{stem}.*"):
                shutil.copy(file, folder / name)
    if "train metric" in stages:
        write_notes(folder / "papers")
    plant.generate(folder / "plant", logs=80, seed=3)
    questions = [{"query": f"what about {stem}?", "passage": f"{stem}#{label}"} for stem, label in PAPERS.items()]
    general = [{"_id": str(number), "text": " ".join(WORDS[number % 7 :])} for number in range(60)]
    links = [{"source": "partitions", "relation": "related_to", "target": "heine"}]
    write(
        folder,
        {"questions.jsonl": to_lines(questions), "general.jsonl": to_lines(general), "links.jsonl": to_lines(links)},
    )
    if {"train prepare", "train finetune", "export-encoder", "train reranker", "judge"}.intersection(stages):
        texts = [file.read_text("utf-8", "replace") for file in (folder / "papers").iterdir()]
        small_bert(folder / "bert", sorted({word for text in texts for word in re.findall("[a-z]+", text)}))
    workspace = folder / "w"
    Project.init(workspace)
    (workspace / "lemmata.toml").write_text(SETTINGS, "utf-8")
    return workspace


def set_up(workspace: Path, stage: str) -> None:
    """Make what a stage finds: marks, a plant, a model."""
    before = {
        "graph link": (["ingest", "../plant"], STAGES["graph build"]),
        "mine domain": (STAGES["graph build"], STAGES["split"]),
        "judge": (STAGES["train reranker"],),
        "train static": (STAGES["index more"],),  # and "evaluate" after it
        "adapt --undo": (STAGES["adapt"],),
    }
    if stage in ("adapt", "adapt --undo", "judgments --export", "judgments --clear"):
        project = Project(workspace)
        with contextlib.closing(project.corpus) as corpus, JudgmentLog(project) as log:
            for number, passage in enumerate(corpus):
                log.mark(f"{passage.document} {passage.kind} {number}", passage.id, "answer")
    with unittest.mock.patch(
        "lemmata.adapt.choose", lambda _, candidates: candidates[-1]
    ):  # there is something to undo
        for command in before.get(stage, ()):
            if failed := finish(workspace, command):
                raise SystemExit(f"{stage}: {failed}")


class Child(NamedTuple):
    """A forked process that runs one command; its imports are those of the parent, so kills hit the work itself."""

    process: int
    output: Path

    def wait(self) -> int:
        """The exit code, negative for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def start(workspace: Path, arguments: Sequence[str], kill_at: int = 0, count_in: Path | None = None) -> Child:
    """Run a command; it dies before its file operation number `kill_at`, or counts its operations into a file."""
    output = workspace.parent / "output.txt"
    process = os.fork()
    if process == 0:
        _be_child(workspace, arguments, output, kill_at, count_in)
    return Child(process, output)


def _be_child(workspace: Path, arguments: Sequence[str], output: Path, kill_at: int, count_in: Path | None) -> NoReturn:
    os.setsid()
    descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.chdir(workspace)
    code = 1
    operations = 0

    def operate() -> None:
        nonlocal operations
        operations += 1
        if operations == kill_at:
            os.killpg(0, signal.SIGKILL)

    def count(event: str, values: tuple[Any, ...]) -> None:
        is_write = event == "open" and isinstance(values[2], int) and values[2] & (os.O_WRONLY | os.O_RDWR)
        if not is_write and event not in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"):
            return
        if _is_below(values, workspace):
            operate()

    execute = Connection.execute

    def execute_or_die(self: Connection, statement: str, values: Any = ()) -> sqlite3.Cursor:
        if statement == "COMMIT":
            operate()
        return execute(self, statement, values)

    Connection.execute = execute_or_die  # type: ignore[method-assign]
    sys.addaudithook(count)
    sys.argv = ["lemmata", *arguments]
    try:
        run_lemmata()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        if count_in is not None:
            count_in.write_text(str(operations))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _is_below(values: tuple[Any, ...], workspace: Path) -> bool:
    paths = (value for value in values if isinstance(value, str | os.PathLike))
    return any(os.path.abspath(os.fspath(path)).startswith(str(workspace)) for path in paths)  # noqa: PTH100


def finish(workspace: Path, arguments: Sequence[str]) -> str:
    """Run a command to its end; returns what it printed if it failed."""
    child = start(workspace, arguments)
    code = child.wait()
    return f"exit code {code}: {child.output.read_text(errors='replace')[-600:]}" if code else ""


@contextlib.contextmanager
def answering(folder: Path) -> Iterator[None]:
    """A language model for the stages that ask one."""
    server = Server(folder / "journal")
    answer = {"concepts": [{"name": "partition", "kind": "object"}], "relations": []}
    server.script(answer=json.dumps({"1": answer, "2": answer}))
    STAGES["graph extract"][-1] = f"llm.url={server.url}"
    try:
        yield
    finally:
        server.kill()


# ---------------------------------------------------------------- what a workspace holds


def content(workspace: Path) -> dict[str, str]:
    """A hash of what each file says, without times and without what depends on them."""
    return {
        path.relative_to(workspace).as_posix(): _digest(path)
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def _digest(path: Path) -> str:
    if path.name in TIMED:
        return ""
    if path.suffix == ".sqlite":
        data = "\n".join(_rows(path)).encode("utf-8", "replace")
    elif path.suffix == ".json":
        data = json.dumps(_untold(json.loads(path.read_bytes())), sort_keys=True).encode()
    else:
        data = path.read_bytes()
    return hashlib.sha256(data).hexdigest()


def _rows(path: Path) -> Iterator[str]:
    """All rows of a database; numbers only say in which order rows came."""
    with sqlite3.connect(path) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in sorted(names):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})") if row[1] not in ORDER]
            query = f"SELECT {', '.join(columns) or '1'} FROM {name}"
            yield from sorted(f"{name} {row}" for row in connection.execute(query))
    connection.close()


ORDER = ("number", "unit", "passage", "read_at")  # columns


def _untold(value: Any) -> Any:
    if isinstance(value, dict):
        told = {key: item for key, item in value.items() if key not in TOLD and not key.endswith("_per_second")}
        if isinstance(told.get("undone"), int):  # when; of an adaptation
            del told["undone"]
        return {key: _untold(item) for key, item in told.items()}
    if isinstance(value, list):
        return [_untold(item) for item in value]
    return value


def differences(first: dict[str, str], second: dict[str, str]) -> str:
    """Files that only one of two workspaces has, or that say something else."""
    return ", ".join(name for name in sorted({*first, *second}) if first.get(name) != second.get(name))


# ---------------------------------------------------------------- kills


class Bench:
    """Snapshots of an undisturbed workspace before and after each stage."""

    def __init__(self, folder: Path, stages: Sequence[str]) -> None:
        self.workspace = prepare(folder, stages)
        self.before: dict[str, Path] = {}
        self.after: dict[str, dict[str, str]] = {}
        self.seconds: dict[str, float] = {}
        self.operations: dict[str, int] = {}
        self.stages = stages
        until = 1 + max(map(list(STAGES).index, stages))
        needed = [stage for stage in list(STAGES)[:until] if stage in stages or stage not in _OWN]
        if [*stages] == ["adapt"]:  # which splits and mines by itself
            needed = ["ingest", "index", "adapt"]
        for number, stage in enumerate(needed):
            if stage in _OWN:
                shutil.copytree(self.workspace, folder / "shared")
            set_up(self.workspace, stage)
            self.before[stage] = folder / f"before-{number}"
            shutil.copytree(self.workspace, self.before[stage])
            begin = time.monotonic()
            child = start(self.workspace, STAGES[stage], count_in=folder / "count")  # of file operations
            if child.wait():
                raise SystemExit(f"{stage} failed undisturbed: {child.output.read_text()}")
            self.seconds[stage] = time.monotonic() - begin
            self.operations[stage] = int((folder / "count").read_text())
            self.after[stage] = content(self.workspace)
            if stage in _OWN:
                shutil.rmtree(self.workspace)
                (folder / "shared").rename(self.workspace)

    def kill(self, stage: str, *, after: float = 0.0, at: int = 0) -> Outcome:
        """Kill a stage after some seconds or before a file operation, resume it, and compare."""
        shutil.rmtree(self.workspace)
        shutil.copytree(self.before[stage], self.workspace)
        child = start(self.workspace, STAGES[stage], kill_at=at)
        if not at:
            time.sleep(after)
            try:
                os.killpg(child.process, signal.SIGKILL)
            except ProcessLookupError:  # it has ended, or has no session of its own yet
                os.kill(child.process, signal.SIGKILL)
        killed = child.wait() == -signal.SIGKILL
        return Outcome(stage, f"operation {at}" if at else "time", killed, self._problem(stage))

    def _problem(self, stage: str) -> str:
        """What is wrong after a kill, and after the stage was run again; empty where all is well."""
        if stage.endswith(("--remove", "--undo")) and content(self.workspace) == self.after[stage]:
            return ""  # it was done: what is removed twice is an error
        if damaged := [problem.sentence for problem in Project(self.workspace).verify().damage]:
            return f"damaged after the kill: {damaged}"
        had_index = (self.before[stage] / "index" / "default_encoder.json").is_file()
        if had_index and (failed := finish(self.workspace, ["search", "partitions", "--json"])):
            says_what_to_do = "run 'lemmata index' again" in failed or "run the same command again" in failed
            if not (stage in CORPUS_STAGES and says_what_to_do):
                return f"search after the kill: {failed}"
        if failed := finish(self.workspace, STAGES[stage]):
            return f"resumed: {failed}"
        found = differences(content(self.workspace), self.after[stage])
        return f"differs: {found}" if found else ""


def moments(bench: Bench, kills: int, generator: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Stages in turn with random moments: after some seconds and before some file operation, alternately."""
    for number in range(kills):
        stage = bench.stages[number % len(bench.stages)]
        if (number // len(bench.stages)) % 2:
            yield stage, {"after": generator.uniform(0, bench.seconds[stage])}
        else:
            yield stage, {"at": generator.randint(1, bench.operations[stage])}


def every(bench: Bench, step: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every so many file operations of every stage."""
    for stage in bench.stages:
        yield from ((stage, {"at": number}) for number in range(1, bench.operations[stage] + 1, step))


def warm_up(stages: Sequence[str]) -> list[str]:
    """Import what the stages need, so that their forked processes do not; the stages whose libraries are here."""
    verbs = ("mine", "train", "evaluate", "run", "adapt", "judge ", "inspect", "export-encoder")
    training = [name for name in STAGES if f"{name} ".startswith(verbs)]
    if importlib.util.find_spec("pyarrow") is None or importlib.util.find_spec("torch") is None:
        for name in training:
            STAGES.pop(name)
    chosen = [stage for stage in stages if stage in STAGES]
    libraries = ["onnxruntime", "tokenizers", "Stemmer", "faiss", "pyarrow.parquet"]
    modules = [module.name for module in pkgutil.walk_packages(lemmata.__path__, "lemmata.")]
    if set(training).isdisjoint(chosen):
        modules = [name for name in modules if not name.startswith("lemmata.train.")]  # they load torch
    else:
        libraries.append("sentence_transformers")
    for name in (*modules, *libraries):
        if name != "lemmata.__main__":
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=120)
    parser.add_argument("--every", type=int, nargs="?", const=1, help="kill before each (Nth) file operation")
    parser.add_argument("--stages", help="comma-separated; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    stages = warm_up(options.stages.split(",") if options.stages else list(STAGES))
    with tempfile.TemporaryDirectory() as folder, answering(Path(folder)):
        bench = Bench(Path(folder), stages)
        plan = (
            every(bench, options.every) if options.every else moments(bench, options.kills, random.Random(options.seed))
        )
        outcomes = []
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C: the table of the kills so far
            for number, (stage, moment) in enumerate(plan, 1):
                outcomes.append(bench.kill(stage, **moment))
                if outcomes[-1].problem:
                    sys.stderr.write(f"{stage}, {outcomes[-1].how}: {outcomes[-1].problem}\n")
                if number % 20 == 0:
                    sys.stderr.write(f"{number} kills\n")
    kills = collections.Counter(outcome.stage for outcome in outcomes if outcome.killed)
    same = collections.Counter(outcome.stage for outcome in outcomes if outcome.killed and not outcome.problem)
    table = {
        stage: {"operations": bench.operations[stage], "kills": kills[stage], "identical": same[stage]}
        for stage in STAGES
        if kills[stage]
    }
    table["all"] = {key: sum(row[key] for row in table.values()) for key in ("operations", "kills", "identical")}
    rows = [f"| {stage} | {' | '.join(map(str, row.values()))} |" for stage, row in table.items()]
    head = "| stage | file operations | kills | identical after resuming |\n|---|---|---|---|"
    sys.stdout.write(json.dumps(table, indent=1) if options.json else "\n".join([head, *rows]))
    sys.stdout.write("\n")
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
