"""Structured logs and the profile of a run."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.make import NAMES, run_command, write_papers

from lemmata.cli.profile import Profiler, profile_table
from lemmata.project import Project


def test_the_log_is_one_json_object_a_line_and_standard_output_stays_as_it_is(tmp_path: Path) -> None:
    Project.init(tmp_path / "w")
    papers = write_papers(tmp_path / "papers", *NAMES)
    done = run_command("--log", "json", "ingest", papers, "--workers", "1", "--json", "-w", tmp_path / "w")
    assert done.returncode == 0
    assert json.loads(done.stdout)["added"] == len(NAMES)
    records = [json.loads(line) for line in done.stderr.splitlines()]
    assert all(record.keys() >= {"time", "level", "stage", "message"} for record in records)
    assert {record["stage"] for record in records} == {"ingest"}
    messages = [record["message"] for record in records]
    assert (messages[0], messages[-1]) == ("started", "ended")
    assert records[messages.index("reading")]["total"] == len(NAMES)
    assert records[-1]["seconds"] > 0


def test_an_error_is_a_line_of_the_log(tmp_path: Path) -> None:
    done = run_command("--log", "json", "info", "-w", tmp_path)
    assert done.returncode == 1
    [error] = [record for record in map(json.loads, done.stderr.splitlines()) if record["level"] == "error"]
    assert "is not a lemmata workspace" in error["message"]
    assert run_command("--log", "xml", "info").stderr == "lemmata: --log xml: the formats are text and json\n"


def test_a_profile_has_seconds_cpu_seconds_and_peak_memory_of_each_stage() -> None:
    profiler = Profiler()
    profiler.begin("waiting")
    time.sleep(0.2)
    profiler.begin("filling")
    filled = [b"x" * 50_000_000 for _ in range(1)]
    assert filled
    waiting, filling = profiler.end()
    assert (waiting.stage, filling.stage) == ("waiting", "filling")
    assert waiting.seconds >= 0.2
    assert waiting.cpu_seconds < waiting.seconds
    assert filling.peak_bytes > 50_000_000
    assert profile_table([waiting, filling]).row_count == 3
