"""The error tree, the words that were meant, and the one way to import an optional library.

LemmataError             caused and cured by the user; printed as one sentence
├── InputError           a file or value that cannot be used, with file and line if known
│   └── ArchiveError     an archive that is broken, encrypted or hostile
├── ConfigError          lemmata.toml or an option is wrong
├── WorkspaceError       a workspace is missing, damaged or of another format
│   ├── WorkspaceBusy    another process is writing to it
│   └── UntrustedAddress it names an address that its user has not trusted
├── LeakageError         test data where only training data may be
└── MissingExtra         an optional library is not installed
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
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


class UntrustedAddress(WorkspaceError):  # noqa: N818 - says what is wrong
    """An address, or a model of the hub, that only a workspace names."""


def other_format(path: Path, found: object, read: int, cure: str) -> WorkspaceError:
    """The one sentence about what another version of lemmata made."""
    return WorkspaceError(f"{path} has format {found}, and this lemmata reads {read}: {cure}")


class LeakageError(LemmataError):
    """Test data where only training data may be."""


class MissingExtra(LemmataError):  # noqa: N818 - the name says what is wrong
    """An optional library that is not installed; the message names the extra to install."""


def first_line(error: BaseException) -> str:
    """What an error of another library says, short enough for a sentence; its type where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


def require(module: str, extra: str) -> ModuleType:
    """Import an optional library; MissingExtra names the extra of lemmata that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the library is installed, but one of its own dependencies is missing
        raise MissingExtra(f"this needs {module}: pip install 'lemmata[{extra}]'") from error


# ---------------------------------------------------------------- what was meant

_MOST_SHOWN = 20  # known words that an error lists


def suggest(word: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown word: the closest known one, or the first of them."""
    if not known:
        return " (there are none)"
    close = close_matches(word, known, 1)
    more = ", …" if len(known) > _MOST_SHOWN else ""
    return f"; did you mean {close[0]!r}?" if close else f" (there are: {', '.join(known[:_MOST_SHOWN])}{more})"


def near(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown id: up to three known ones that look like it, or nothing."""
    close = close_matches(word, list(known), 3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def close_matches(word: str, known: Sequence[str], most: int, likeness: float = 60) -> list[str]:
    """Known words that share at least so many percent of their letters with this one, the closest first."""
    from rapidfuzz import fuzz, process  # 25 ms, which only an error takes

    return [match for match, _, _ in process.extract(word, known, scorer=fuzz.ratio, score_cutoff=likeness, limit=most)]
