"""How well search works here: what `auto` was fitted to, the last evaluation, what people marked, what was adapted."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

from lemmata.core.workspace import Workspace, read_manifest, vector_set
from lemmata.evaluate.judgments import JudgmentLog

_MOST_ROWS = 50


def quality(workspace: Workspace, log: JudgmentLog) -> dict[str, Any]:
    """All of it as the files of the workspace have it; times are those of the files, in seconds since 1970."""
    vectors = vector_set(workspace)
    return {
        "fitted": _time(vectors.fusion) if vectors else None,
        "evaluation": _evaluation(workspace.run_folder / "report.json"),
        "marks": log.counts(),
        "adaptations": _adaptations(workspace),
    }


def _time(path: Path) -> float | None:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return None


def _evaluation(path: Path) -> dict[str, Any] | None:
    """The first table of the last `lemmata run`; None where there is none, or it is not as it was written."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        report = json.loads(path.read_text(encoding="utf-8"))[0]
        rows = [{"name": str(name), "values": dict(found["measures"])} for name, found in report["retrievers"].items()]
        task = re.sub(r" \([^()]*\)$", "", str(report["task"]))  # without its folder
        return {"when": _time(path), "task": task, "queries": int(report["queries"]), "rows": rows[:_MOST_ROWS]}
    return None


def _adaptations(workspace: Workspace) -> list[dict[str, Any]]:
    """What `lemmata adapt` measured each time, what it adopted, and whether that was undone; the last time first."""
    runs = (read_manifest(workspace.adapted) or {}).get("runs", [])
    return [
        {
            **{key: run[key] for key in ("when", "measure", "queries", "learned_from", "adopted", "notes")},
            "rows": [
                {"name": row["name"], "auto": row["auto"], "values": {task: row[task] for task in run["queries"]}}
                for row in run["rows"][:_MOST_ROWS]
            ],
            "undone": run.get("undone"),
        }
        for run in reversed(runs)
    ]
