"""Small folders of sources, and workspaces of them, for tests."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from lemmata.project import Project


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below a folder; returns the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def tar(files: Mapping[str, str | bytes]) -> bytes:
    """A gzipped tar archive of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            data = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def indexed(folder: Path, paper: str) -> Project:
    """A workspace below a folder with one paper, widgets.tex, indexed with the hashing encoder."""
    source = write(folder / "source", {"widgets.tex": paper})
    project = Project.init(folder / "workspace")
    project.ingest([source])
    project.index(settings={"encoder": "hashing"})
    return project
