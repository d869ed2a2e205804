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
        "adaptation": _adaptation(workspace),
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


def _adaptation(workspace: Workspace) -> dict[str, Any] | None:
    """What `lemmata adapt` measured last, what it adopted, and whether that was undone."""
    state = read_manifest(workspace.adapted) or {}
    report = state.get("report")
    if not report:
        return None
    return {
        "when": _time(workspace.adapted),
        "measure": report["measure"],
        "queries": report["queries"],
        "learned_from": report["learned_from"],
        "rows": [
            {"name": row["name"], "auto": row["auto"], "values": {task: row[task] for task in report["queries"]}}
            for row in report["rows"][:_MOST_ROWS]
        ],
        "adopted": report["adopted"],
        "undone": bool(state.get("undone")),
        "notes": report["notes"],
    }
