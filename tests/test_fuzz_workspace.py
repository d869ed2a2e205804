"""Damaged files of a workspace: a sentence with the cure or an answer, never another exception, never a hang.

Any file is cut, overwritten or gets flipped bits. `make fuzz` tries new ones. Damage behind the first 4 kB of a file is
only found by `lemmata verify`, so an answer may be wrong there, but it must be one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.make import search, sentence_of, write_papers, written_files

from lemmata.project import Project

NAMES = tuple(f"{first}{second}" for first, second in itertools.product(
    ("height", "width", "depth", "girth", "rank"), ("tree", "leaf", "root", "bough", "twig", "bark", "seed")
))  # fmt: skip
Edit = tuple[str, float, bytes]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["cut", "flip", "overwrite", "insert", "delete", "extend"]),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=16) | st.sampled_from([b"\0" * 4096, b"\xff" * 64, b"{", b"\x93NUMPY"]),
    ),
    min_size=1,
    max_size=3,
)


def damaged(content: bytes, edits: list[Edit]) -> bytes:
    for kind, share, data in edits:
        at = int(share * len(content))
        if kind == "flip" and content:
            content = content[:at] + bytes([content[at] ^ (1 << data[0] % 8)]) + content[at + 1 :]
        elif kind == "overwrite":
            content = content[:at] + data + content[at + len(data) :]
        elif kind == "insert":
            content = content[:at] + data + content[at:]
        elif kind == "delete":
            content = content[:at] + content[at + len(data) :]
        elif kind == "extend":
            content += data
        elif kind == "cut":
            content = content[:at]
    return content


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A workspace whose larger files are longer than what is checked when they are opened."""
    folder = tmp_path_factory.mktemp("whole")
    project = Project.init(folder / "w")
    project.ingest([write_papers(folder / "papers", *NAMES)], workers=1)
    project.build_graph()
    about = "".join(f'{{"query": "how {name} is it", "passage": "{name}#def-{name}"}}\n' for name in NAMES)
    (folder / "about.jsonl").write_text(about)
    project.index(settings={"encoder": "hashing", "summaries": "../about.jsonl"})
    project.split()
    project.map()
    return project


def commands(project: Project) -> dict[str, Callable[[], object]]:
    return {
        "info": project.info,
        "search": lambda: search(project),
        "paths": lambda: search(project, paths=True),
        "similar": lambda: similar_to(project),
        "show": lambda: project.show("concept:widthtree"),
        "list": lambda: list(project.listing("passages")),
        "bridge": lambda: project.bridge("concept:widthtree", "concept:depthleaf"),
    }


def similar_to(project: Project) -> list[str]:
    with project.retriever() as retriever:
        return [hit.id for hit in retriever.similar("widthtree#def-widthtree", k=3)]


def check(project: Project, path: Path, content: bytes) -> None:
    """Every command on a workspace with this content in one file."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        for name, command in commands(project).items():
            sentence = sentence_of(command)
            assert "\n" not in sentence, (path, name, sentence)
            assert not sentence or ":" in sentence, (path, name, sentence)  # and the cure behind it
        if content != before and path.suffix != ".sqlite":
            found = [str(problem.path) for problem in project.verify().problems]
            assert str(path) in found, (path, found)
    finally:
        path.write_bytes(before)


@given(st.data())
@settings(suppress_health_check=list(HealthCheck), max_examples=settings().max_examples // 2)
def test_a_damaged_file_gives_a_sentence_or_an_answer(whole: Project, data: st.DataObject) -> None:
    files = written_files(whole)
    kinds = sorted({path.name for path in files})
    kind = data.draw(st.sampled_from(kinds))
    path = data.draw(st.sampled_from([path for path in files if path.name == kind]))
    check(whole, path, damaged(path.read_bytes(), data.draw(EDITS)))


def test_the_undamaged_workspace_answers(whole: Project) -> None:
    assert [sentence_of(command) for command in commands(whole).values()] == [""] * len(commands(whole))
    assert any(path.stat().st_size > 8192 and path.suffix == ".npy" for path in written_files(whole))


def test_concepts_that_are_still_json_but_no_records_are_a_sentence(whole: Project) -> None:
    path = whole.graph_folder / "concepts.json"
    content = path.read_bytes()
    check(whole, path, content[:5000] + content[5000:].replace(b'", "', b"    ", 1))
