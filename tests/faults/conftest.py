"""A complete small workspace for each test that damages one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.test_damage import complete

from lemmata.project import Project


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return complete(tmp_path_factory.mktemp("made"))


@pytest.fixture
def project(made: Project, tmp_path: Path) -> Project:
    """A copy of the complete workspace beside a copy of its sources."""
    shutil.copytree(made.layout.root.parent, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path / "w")
