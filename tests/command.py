"""The command line in this process: to start Python and load numpy for each command would take most of the time."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

from lemmata.cli import output
from lemmata.cli.main import main


def run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command as `lemmata` does; its exit code, standard output and standard error."""
    out, error = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code = 0
    with (
        mock.patch.object(sys, "argv", ["lemmata", *map(str, arguments)]),
        mock.patch.multiple(output.log, is_json=False, stage=""),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    texts = (stream.buffer.getvalue().decode() for stream in (out, error))
    return subprocess.CompletedProcess([*map(str, arguments)], code, *texts)
