"""The error tree, and the one way to import an optional library.

LemmataError             what a user can cause and cure; the faces print it as one sentence
├── InputError           a file or value that can not be used; names file and line where there are any
│   └── ArchiveError     an archive that is broken, encrypted or hostile
├── ConfigError          lemmata.toml or an option is wrong
├── WorkspaceError       a workspace is missing, damaged, busy or of another format
├── LeakageError         test data where only training data may be
└── MissingExtra         an optional library is not installed
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = [
    "ArchiveError",
    "ConfigError",
    "InputError",
    "LeakageError",
    "LemmataError",
    "MissingExtra",
    "WorkspaceError",
    "require",
]


class LemmataError(Exception):
    """Anything that lemmata reports to its user in one sentence."""


class InputError(LemmataError):
    """Input that can not be used, with the place where that shows."""

    def __init__(self, cause: str, *, file: str = "", line: int = 0) -> None:
        super().__init__(cause, file, line)
        self.cause = cause
        self.file = file
        self.line = line

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return f"{place}: {self.cause}" if place else self.cause


class ArchiveError(InputError):
    """An archive that is broken, encrypted or hostile."""


class ConfigError(LemmataError):
    """A setting that does not exist or has a value that makes no sense."""


class WorkspaceError(LemmataError):
    """A workspace that is missing, damaged, busy or written in another format."""


class LeakageError(LemmataError):
    """Test data where only training data may be."""


class MissingExtra(LemmataError):  # noqa: N818 - reads as what it is: an extra is missing
    """An optional library that is not installed; the message names the extra to install."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional library, or say which extra of lemmata brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the library is there, but something of its own is missing
        raise MissingExtra(f"this needs {module}: pip install 'lemmata[{extra}]'") from error
