"""The error tree, and the one way to import an optional library.

LemmataError             caused and cured by the user; printed as one sentence
├── InputError           a file or value that cannot be used, with file and line if known
│   └── ArchiveError     an archive that is broken, encrypted or hostile
├── ConfigError          lemmata.toml or an option is wrong
├── WorkspaceError       a workspace is missing, damaged or of another format
│   └── WorkspaceBusy    another process is writing to it
├── LeakageError         test data where only training data may be
└── MissingExtra         an optional library is not installed
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType


class LemmataError(Exception):
    """Any error that is reported to the user in one sentence."""


class InputError(LemmataError):
    """Input that cannot be used, with file and line."""

    def __init__(self, cause: str, *, file: str = "", line: int = 0) -> None:
        super().__init__(cause)  # with more, it could not come back from another process
        self.cause = cause
        self.file = file
        self.line = line

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return f"{place}: {self.cause}" if place else self.cause


class ArchiveError(InputError):
    """An archive that is broken, encrypted or hostile."""


class ConfigError(LemmataError):
    """An unknown setting, or one with an invalid value."""


class WorkspaceError(LemmataError):
    """A workspace that is missing, damaged, busy or written in another format."""


class WorkspaceBusy(WorkspaceError):  # noqa: N818 - says what happened
    """A workspace that another process is writing to."""

    def __init__(self, holder: str, lock: Path) -> None:
        super().__init__(f"{holder}; try again when it is done")
        self.holder = holder  # a sentence without its end
        self.lock = lock  # the file to wait for


class LeakageError(LemmataError):
    """Test data where only training data may be."""


class MissingExtra(LemmataError):  # noqa: N818 - the name says what is wrong
    """An optional library that is not installed; the message names the extra to install."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional library; MissingExtra names the extra of lemmata that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the library is installed, but one of its own dependencies is missing
        raise MissingExtra(f"this needs {module}: pip install 'lemmata[{extra}]'") from error
