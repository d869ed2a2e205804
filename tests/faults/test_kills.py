"""Stages that are killed end with the same workspace; `make kills` kills many more."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.faults.kills import ROOT


def kill(*arguments: str) -> dict[str, dict[str, int]]:
    command = [sys.executable, "-m", "tests.faults.kills", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.skipif(sys.platform != "linux", reason="the stages run in forked processes")
def test_a_killed_stage_resumes_and_ends_with_the_same_workspace() -> None:
    verbs = "ingest,graph build,split,index,graph import,index --remove,graph import --remove,ingest --remove"
    table = kill("--kills", "10", "--stages", verbs)  # before a file operation of each
    assert table["all"]["kills"] >= 7  # a stage may have fewer operations than when they were counted
    assert table["all"]["identical"] == table["all"]["kills"]
