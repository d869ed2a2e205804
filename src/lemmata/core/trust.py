"""The addresses and hub models that the user of this machine trusts, in a file of the user's own."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.files import explain_failed_write, write_atomically
from lemmata.core.keys import origin_of, why_untrusted


def trusted_file() -> Path:
    """Where they are kept, whether the file is there or not."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "lemmata" / "trusted.json"


def trusted_origins() -> frozenset[str]:
    """What is trusted, as `origin_of` writes it; nothing where the file is missing or damaged."""
    try:
        return frozenset(map(str, json.loads(trusted_file().read_text("utf-8"))))
    except (OSError, ValueError, TypeError):
        return frozenset()


def trust(name: str) -> str:
    """Trust an address or a hub model from now on; returns what is trusted. InputError for what is neither."""
    if not (origin := origin_of(name)):
        raise InputError(f"{name!r} is neither the address of a host, such as https://HOST, nor a model of the hub")
    file = trusted_file()
    with explain_failed_write(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(file, json.dumps(sorted({*trusted_origins(), origin}), indent=1).encode())
        file.chmod(0o600)
    return origin


def remember(names: Iterable[str]) -> None:
    """Trust those of some names that need it: the user has just typed them."""
    trusted = trusted_origins()
    for name in names:
        if why_untrusted(name, trusted) and origin_of(name):
            with contextlib.suppress(OSError, WorkspaceError):  # it cannot be written: they hold for this call
                trust(name)
