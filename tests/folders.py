"""Small folders of sources for tests."""

from __future__ import annotations

from pathlib import Path


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below a folder; returns the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
