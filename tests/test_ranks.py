"""Training on two processes that torchrun starts: the same losses, gradients and weights as with one."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.make import lemmata
from tests.rank_steps import OBJECTIVES, gradients, trained_metric, write_steps
from tests.small_bert import SPECIAL, VOCABULARY, bare_base, small_bert, small_job
from tests.training import workspace

from lemmata.cli import train as train_commands
from lemmata.cli.main import main
from lemmata.core.errors import ConfigError
from lemmata.core.workspace import silent
from lemmata.encode.static import write_static
from lemmata.project import Project
from lemmata.train.batches import collate
from lemmata.train.finetune import FinetuneOptions, finetune
from lemmata.train.job import Job
from lemmata.train.ranks import is_first_to_fail, refuse_several

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.numpy")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of torch's exporter
    pytest.mark.skipif(
        importlib.util.find_spec("torch.distributed.run") is None or not torch.distributed.is_gloo_available(),
        reason="torchrun is not there",
    ),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without dropout, which no two runs share."""
    folder = small_bert(tmp_path_factory.mktemp("base"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def job(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return small_job(tmp_path_factory.mktemp("job"), base, negatives=1, guard=["words"])


def in_two_processes(work: Callable[[], object], codes: tuple[int, int] = (0, 0)) -> None:
    """Call a function in two processes that know each other as those of torchrun do.

    They are copies of this one: to load torch and what else trains takes ten seconds in each. So what one process
    does is computed first.
    """
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused.getsockname()[1])}

    def run(number: int) -> None:
        os.environ.update({**place, "WORLD_SIZE": "2", "RANK": str(number), "LOCAL_RANK": str(number)})
        work()

    both = [multiprocessing.get_context("fork").Process(target=run, args=(number,)) for number in (0, 1)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [*codes]


def command(folder: Path, *arguments: object, kill_at: int = 0) -> None:
    """Run a command in one of two processes and write what it says; at a step the second one is killed."""
    number = os.environ["RANK"]
    sys.argv = ["lemmata", *map(str, arguments)]
    sys.stdout, sys.stderr = ((folder / f"{name}-{number}").open("w", buffering=1) for name in ("out", "err"))
    (folder / f"process-{number}").write_text(str(os.getpid()))

    def kill(what: str, done: int, _total: int | None) -> None:
        if what.startswith("training") and done == kill_at:
            os.kill(int((folder / "process-1").read_text()), signal.SIGKILL)

    if kill_at:
        vars(train_commands)["progress_display"] = lambda: contextlib.nullcontext(kill)
    main()


# ---------------------------------------------------------------- a step


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder that is loaded in no time, and whose steps are those of any other."""
    folder = tmp_path_factory.mktemp("static")
    tokenizer = (bare_base(folder / "words") / "tokenizer.json").read_text(encoding="utf-8")
    vectors = np.random.default_rng(0).standard_normal((len(VOCABULARY) + len(SPECIAL), 16)).astype(np.float32)
    write_static(folder / "static", "static", vectors, tokenizer)
    return folder / "static"


def test_losses_gradients_and_metrics_are_those_of_one_process(static: Path, tmp_path: Path) -> None:
    job = small_job(tmp_path / "job", static, negatives=1)
    expected = {name: gradients(static, job, options) for name, options in OBJECTIVES.items()}
    expected["metric"] = trained_metric()
    in_two_processes(lambda: write_steps(static, tmp_path))
    rows = [json.loads((tmp_path / f"rows-{number}.json").read_text()) for number in (0, 1)]
    assert rows[0] == [[0.0, 1.0, 0.0], [3.0, 300.0], [0.0], [5.0, 0.0, 1.0]]
    assert rows[1] == [[0.0, 1.0, 0.0], [30.0], [0.0], [5.0, 0.0, 1.0]]
    for name, parts in expected.items():
        for number in (0, 1):
            with np.load(tmp_path / f"{name}-{number}.npz") as found:
                assert found.keys() == parts.keys()
                for part, values in parts.items():
                    np.testing.assert_allclose(found[part], values, rtol=2e-4, atol=2e-5, err_msg=f"{name} {part}")


def test_a_process_without_a_text_of_its_own_encodes_one_for_nothing(static: Path, tmp_path: Path) -> None:
    job = small_job(tmp_path / "job", static)
    record = job.sets["pairs"][:1, :2]
    whole = collate(job.texts, record, 16, 4096, 0)
    for number in range(3):
        batch = collate(job.texts, record, 16, 4096, 0, slice(number, None, 3))
        assert torch.equal(batch["numbers"], whole["numbers"])
        assert torch.equal(batch["table"], whole["table"])
        assert [len(chunk["input_ids"]) for chunk in batch["chunks"]] == [1]


# ---------------------------------------------------------------- a run


def train_command(base: Path, job: Job, out: Path) -> list[object]:
    options = ["-o", "batch=25", "-o", "epochs=3", "-o", "rate=1e-4", "--json"]
    return ["train", "finetune", "--job", job.folder, "--out", out, "-o", f"base={base}", *options]


def test_two_processes_tune_the_model_of_one_also_after_one_of_them_was_killed(
    base: Path, job: Job, tmp_path: Path
) -> None:
    options = FinetuneOptions(base=str(base), batch=25, epochs=3, rate=1e-4)
    alone = finetune(base, job, tmp_path / "alone", options, work=tmp_path / "work", progress=silent)
    arguments = train_command(base, job, tmp_path / "model")
    in_two_processes(lambda: command(tmp_path, *arguments, kill_at=14), (1, -signal.SIGKILL))
    errors = [line for line in (tmp_path / "err-0").read_text().splitlines() if line.startswith("lemmata: ")]
    assert len(errors) == 1
    assert "process 0 of 2 has lost the others" in errors[0]
    assert (tmp_path / "out-0").read_text() == (tmp_path / "out-1").read_text() == ""
    assert not (tmp_path / "model").exists()
    assert list((tmp_path / ".model" / "work").glob("checkpoint-*"))

    in_two_processes(lambda: command(tmp_path, *arguments))
    assert (tmp_path / "out-1").read_text() == ""
    report = json.loads((tmp_path / "out-0").read_text())
    assert report["after"] == pytest.approx(alone.after, abs=0.02)
    assert (report["best_step"], report["share"]) == (alone.best_step, alone.share)
    assert [point["share"] for point in report["sweep"]] == [point["share"] for point in alone.sweep]
    history = json.loads((tmp_path / "model" / "history.json").read_text())
    losses = [(record["step"], record["loss"]) for record in alone.history if "loss" in record]
    assert np.allclose(history["losses"], losses, rtol=1e-3)
    files = (folder / "model.safetensors" for folder in (tmp_path / "model", tmp_path / "alone", base))
    found, expected, before = map(safetensors.load_file, files)
    for name, values in expected.items():
        moved = np.abs(values - before[name]).max()
        assert np.abs(found[name] - values).max() <= max(0.02 * moved, 1e-6), name


def test_two_processes_learn_the_metric_of_one_and_wait_for_the_workspace(tmp_path: Path) -> None:
    project = workspace(tmp_path)
    root = project.root
    (root / "lemmata.toml").write_text("[metric]\ndimension = 8\nrank = 2\nepochs = 2\n", "utf-8")
    shutil.copytree(root, tmp_path / "copy")
    alone = Project(tmp_path / "copy").train_metric()
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, "-m", *launcher, "-m", "lemmata", "train", "metric", "-w", str(root), "--json"]
    pipe = subprocess.PIPE
    with contextlib.ExitStack() as lock:
        lock.enter_context(project.hold())
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stderr is not None
            while "waiting until it is done" not in (line := process.stderr.readline()):
                assert line, "it did not wait"
            lock.close()
            out, err = process.communicate()
    assert process.returncode == 0, err
    report = json.loads(out)
    assert {**report, "seconds": 0} == pytest.approx({**alone, "seconds": 0}, abs=1e-6)
    assert Project(root).train_metric()["done_before"]


# ---------------------------------------------------------------- what several processes cannot share


def test_other_commands_are_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / str(number) for number in (0, 1)]
    said = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    for number, folder in enumerate(folders):
        folder.mkdir()
        monkeypatch.setenv("RANK", str(number))
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(folder / "error.json"))  # as torchrun does
        said.append(lemmata("train", "static", "-w", tmp_path, code=1))
    sentence = "lemmata: 'lemmata train static' works with one process only: run it without torchrun\n"
    assert said == [sentence, ""]
    assert not is_first_to_fail()
    with pytest.raises(ConfigError, match="'lemmata run'"):
        refuse_several("'lemmata run' works")


def test_a_static_base_is_refused(static: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = small_job(tmp_path / "job", static)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="static"):
        finetune(static, job, tmp_path / "out", FinetuneOptions(), work=tmp_path / "work", progress=silent)
