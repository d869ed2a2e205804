"""After passages came in: what a model was trained for, and whether its gain reaches the new passages.

Passages differ in difficulty, so the model is compared with its base on the same queries: its gain over the base on
queries about new passages, against its gain on held-out queries about passages that it was trained for.
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lemmata.core.errors import LemmataError
from lemmata.core.files import writing
from lemmata.core.workspace import Workspace
from lemmata.corpus.split import Keys
from lemmata.evaluate.charts import signed
from lemmata.evaluate.significance import Floats64
from lemmata.evaluate.tasks import Task, restricted, sampled
from lemmata.evaluate.workspace_tasks import corpus_task, own_tasks
from lemmata.train.prepare import new_queries

FEWEST = 10  # queries of each kind, below which nothing can be said
MOST = 500  # queries of a task and a part that are asked
SAMPLES = 2000  # of the bootstrap


class TrainingState(NamedTuple):
    """The state in which a model was trained."""

    weights: str  # sha256 of the model
    settings: str  # hash of the settings of all stages before
    key: str  # of these stages, data included
    passages: Keys  # hashes of all passages of the corpus, ascending


def write_state(folder: Path, state: TrainingState) -> None:
    with writing(folder / "known.npz") as file, file.open("wb") as stream:
        np.savez(stream, **state._asdict())


def read_state(folder: Path) -> TrainingState | None:
    """The record; None where there is none or a damaged one."""
    try:
        with np.load(folder / "known.npz") as parts:
            weights, settings, key = (str(parts[name]) for name in ("weights", "settings", "key"))
            return TrainingState(weights, settings, key, parts["passages"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def tasks_to_compare(workspace: Workspace, names: list[str], new: Keys) -> tuple[list[Task], list[Task]]:
    """Queries about new passages, and held-out ones about the others; none of them is of the test part.

    Nothing new was trained on yet, so new passages of the training part may ask as well. Folders of queries are left
    out: their judgments are for the test.
    """
    fresh, known = [], []
    for name in own_tasks(names):
        asked: set[str] = set()  # a document may have passages of both parts
        for part in ("validation", "train"):
            with contextlib.suppress(LemmataError):  # a part without queries
                task = corpus_task(workspace, name, part=part)
                about_new = dict.fromkeys(new_queries(task, new))
                fresh.append(_sample(task, [query for query in about_new if query not in asked]))
                asked |= about_new.keys()
                if part == "validation":
                    known.append(_sample(task, [query for query in task.qrels if query not in about_new]))
    return [task for task in fresh if task.queries], [task for task in known if task.queries]


def _sample(task: Task, queries: list[str]) -> Task:
    return sampled(restricted(task, queries), MOST, np.random.default_rng(0))


class Verdict(NamedTuple):
    """Whether the gain of a model over its base is smaller on queries about new passages."""

    measure: str
    new: int  # queries
    known: int
    gain_on_new: float
    gain_on_known: float
    lost: float  # gain on known minus gain on new passages
    low: float  # 95 % bootstrap
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the loss is larger than chance explains."""
        return min(self.new, self.known) >= FEWEST and self.low > 0

    def sentence(self, model: str, base: str) -> str:
        """What was found, and what follows from it."""
        if min(self.new, self.known) < FEWEST:
            return (
                f"{self.new} queries about new passages outside the test part and {self.known} validation queries about"
                f" the others are too few to say whether {model} should be trained further (at least {FEWEST} of each)"
            )
        follows = "training further is worth it" if self.is_clear else "training further is not worth it yet"
        return (
            f"{model} gains {signed(self.gain_on_new, 3)} {self.measure} over {base} on {self.new} queries about new"
            f" passages and {signed(self.gain_on_known, 3)} on {self.known} about the others: {self.lost:.3f} of the"
            f" gain is lost ({signed(self.low, 3)} to {signed(self.high, 3)}), so {follows}"
        )


def gain_lost(measure: str, new: Mapping[str, Floats64], known: Mapping[str, Floats64]) -> Verdict:
    """The verdict from values per query, of `model` and `base`, on queries about new and about known passages.

    The interval is a bootstrap of the two independent means of paired differences.
    """
    gains = [np.asarray(values["model"]) - np.asarray(values["base"]) for values in (new, known)]
    if not all(map(len, gains)):
        return Verdict(measure, len(gains[0]), len(gains[1]), 0.0, 0.0, 0.0, 0.0, 0.0)
    generator = np.random.default_rng(0)
    means = [
        np.array([gain[generator.integers(0, len(gain), len(gain))].mean() for _ in range(SAMPLES)]) for gain in gains
    ]
    low, high = np.quantile(means[1] - means[0], [0.025, 0.975])
    on_new, on_known = (float(gain.mean()) for gain in gains)
    sizes = len(gains[0]), len(gains[1])
    return Verdict(measure, *sizes, on_new, on_known, on_known - on_new, float(low), float(high))
