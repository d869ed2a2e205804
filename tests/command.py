"""The command line in this process: to start Python and load numpy for each command would take most of the time."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from lemmata.cli import output
from lemmata.cli.main import main


def run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command as `lemmata` does; its exit code, standard output and standard error."""
    code = 0
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,  # files, as a command may pass them on to a process
        tempfile.TemporaryFile("w+", encoding="utf-8") as error,
        mock.patch.object(sys, "argv", ["lemmata", *map(str, arguments)]),
        mock.patch.multiple(output.log, is_json=False, stage=""),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        texts = []
        for stream in (out, error):
            stream.seek(0)
            texts.append(stream.read())
    return subprocess.CompletedProcess([*map(str, arguments)], code, *texts)
