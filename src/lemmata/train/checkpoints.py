"""What outlives a kill: whole checkpoints, and numbers that were measured before."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from lemmata.errors import require
from lemmata.files import write_atomically

__all__ = ["last_checkpoint", "quiet", "remembered", "step_of"]

Value = TypeVar("Value")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the libraries' reports and bars; progress is ours."""
    logging = require("transformers.utils.logging", "train")
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def last_checkpoint(folder: Path, weights: str = "model.safetensors") -> Path | None:
    """The newest checkpoint that is whole. The trainer writes its state last, and deletes older ones after that;
    what has no state was left by a kill and is removed."""
    whole = []
    for checkpoint in folder.glob("checkpoint-*"):
        try:
            state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
            if not (checkpoint / weights).is_file():
                raise FileNotFoundError(weights)
            whole.append((int(state["global_step"]), checkpoint))
        except (OSError, ValueError):
            shutil.rmtree(checkpoint, ignore_errors=True)
    return max(whole, default=(0, None))[1]


def step_of(checkpoint: Path | None) -> int:
    """The step after which a checkpoint was written; 0 for none."""
    return int(checkpoint.name.rsplit("-", 1)[1]) if checkpoint else 0


def remembered(path: Path, make: Callable[[], Value], *, write: bool = True) -> Value:
    """What was measured before, or is now; it outlives a kill."""
    with contextlib.suppress(OSError, ValueError):
        found: Value = json.loads(path.read_text(encoding="utf-8"))
        return found
    value = make()
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(value).encode())
    return value
