"""One table of artefacts: what is out of date, damaged and listed follows from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lemmata.core import artefacts
from lemmata.core.artefacts import Row, edge_lengths, is_current, making, of_encoder, set_digest, stale
from lemmata.core.errors import LemmataError, WorkspaceError
from lemmata.core.workspace import (
    FOLDERS,
    Workspace,
    read_manifest,
    vector_set,
    write_manifest,
)
from lemmata.graph.lengths import open_lengths
from lemmata.graph.store import open_graph
from lemmata.mine.mine import mine_again
from lemmata.project import Project


def damage(path: Path) -> None:
    """Flip a bit in the middle, which only a checksum tells."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def rewrite(project: Project, name: str, **changes: Any) -> None:
    """Change what the manifest of a training set says, as somebody else may who gives a workspace away."""
    path = project.manifest(project.training(name))
    write_manifest(path, {**(read_manifest(path) or {}), **changes})


# ---------------------------------------------------------------- what is out of date


def test_lengths_of_another_graph_are_out_of_date_for_everybody(project: Project) -> None:
    vectors = vector_set(project)
    assert vectors is not None
    item, before = edge_lengths(vectors), project.root / "before"
    shutil.copytree(item.folder, before)
    first, second, *_ = open_graph(project).concepts
    project.decide_merge(first, second, "accept")  # measures the edges of the new graph
    assert project.info()["problems"] == []
    shutil.rmtree(item.folder)
    before.rename(item.folder)
    assert "graph" in stale(project, item, read_manifest(item.manifest) or {})
    with pytest.raises(WorkspaceError, match="lemmata index"):
        open_lengths(project)
    [problem] = project.info()["problems"]
    assert item.name in problem
    assert project.verify().is_whole
    project.index()
    assert project.info()["problems"] == []


def test_sets_that_were_made_from_each_other_are_looked_at_once(project: Project) -> None:
    names = [f"set{number}" for number in range(30)]
    for name in names:
        shutil.copytree(project.training("pairs"), project.training(name))
    digest = set_digest(project, "pairs")
    for name in names:
        rewrite(project, name, made_from=dict.fromkeys(names, digest))
    assert not any(manifest["out_of_date"] for manifest in project.training_sets().values())
    rewrite(project, "set0", made_from={"set1": "another"})
    assert "set1" in project.training_sets()["set0"]["out_of_date"]


# ---------------------------------------------------------------- mined again by what a manifest says


def test_a_command_in_a_manifest_is_never_run(project: Project, tmp_path: Path) -> None:
    victim = tmp_path / "victim.json"
    victim.write_text("precious")
    rewrite(project, "pairs", command=f"lemmata graph export {victim}")
    mine_again(project, "pairs")
    assert victim.read_text() == "precious"
    assert project.training_sets()["pairs"]["command"] == "lemmata mine pairs --name pairs"


@pytest.mark.parametrize(
    "changes",
    [
        {"mined": {}},
        {"mined": {"what": "export"}},
        {"mined": {"what": "pairs", "shell": "rm"}},
        {"mined": ["pairs"]},
        {"mined": {"what": "negatives", "of": "../../papers"}},
        {"mined": {"what": "mix", "of": "nowhere"}},
        {"options": {"shell": "rm"}},
        {"options": {"gate": "somebody/model"}},
        {"options": ["styles"]},
    ],
)
def test_what_a_manifest_says_is_checked_before_a_set_is_made_again(project: Project, changes: dict[str, Any]) -> None:
    rewrite(project, "pairs", command="lemmata graph export X", **changes)
    before = project.training_file("pairs").read_bytes()
    with pytest.raises(LemmataError):
        mine_again(project, "pairs")
    assert project.training_file("pairs").read_bytes() == before


def test_a_set_is_made_again_with_the_options_that_it_was_made_with(project: Project) -> None:
    project.mine("queries", part="all")
    project.mine("queries", name="asked", found_within=5)
    project.mine("negatives", name="a-hard", of="asked", settings={"negatives": {"number": 2}})
    names = ("queries", "asked", "a-hard")
    before = {name: project.training_file(name).read_bytes() for name in names}
    manifests = {name: read_manifest(project.manifest(project.training(name))) for name in names}
    for name in names:
        project.training_file(name).unlink()
        mine_again(project, name)
    assert {name: project.training_file(name).read_bytes() for name in names} == before
    assert {name: read_manifest(project.manifest(project.training(name))) for name in names} == manifests


# ---------------------------------------------------------------- a new artefact


def test_every_artefact_lies_where_only_lemmata_writes(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    folders = [artefacts.artefact(workspace, kind).folder for kind in artefacts.OF_WORKSPACE]
    assert {folder.relative_to(tmp_path).parts[0] for folder in folders} <= set(FOLDERS)


def test_a_row_of_the_table_is_all_that_a_new_artefact_needs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(artefacts.OF_ENCODER, "halves", Row("set of halves", "lemmata halve", {"vectors": "vectors"}))
    vectors = vector_set(project)
    assert vectors is not None
    [described] = project.info()["vectors"]
    item, recipe = of_encoder(vectors, "halves"), {"verb": "halve", "vectors": read_manifest(vectors.manifest)}
    with making(item, recipe) as folder:
        np.save(folder / "halves.npy", np.arange(9))
    assert is_current(item, recipe)
    assert project.info()["vectors"][0]["bytes"] > described["bytes"]
    assert project.info()["problems"] == project.verify().problems == []
    assert "set of halves" in project.info()["artefacts"]
    item.folder.with_name(".halves.old").mkdir()
    with project.hold():
        assert not item.folder.with_name(".halves.old").exists()
    damage(item.folder / "halves.npy")
    assert [problem.command for problem in project.verify().problems] == ["lemmata halve"]
    with making(item, {**recipe, "vectors": "of another encoder"}) as folder:
        np.save(folder / "halves.npy", np.arange(9))
    assert not is_current(item, recipe)
    [problem] = project.info()["problems"]
    assert "lemmata halve" in problem
