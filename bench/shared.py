"""What several benchmarks need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def generate_plant(folder: Path, logs: int, seed: int) -> Path:
    """The example plant of examples/plant, written to `folder`."""
    script = ROOT / "examples" / "plant" / "generate.py"
    command = [sys.executable, str(script), str(folder), "--logs", str(logs), "--seed", str(seed)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def write_json(result: object, path: Path | None) -> None:
    """Print a result, and write it to a file where one is named."""
    text = json.dumps(result, indent=1, ensure_ascii=False)
    print(text)
    if path:
        path.write_text(text + "\n", "utf-8")
