"""The passages of a general corpus that are about the field of a workspace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import lemmata, make_workspace, to_lines

from lemmata.core.errors import InputError, LemmataError
from lemmata.mine.domain import _area, train_domain_classifier
from lemmata.project import Project

FIELD = "ring ideal module prime noetherian local flat finite".split()
OTHER = "pump valve column pressure leak motor bearing filter".split()
STYLE = "we show that in this paper".split()  # every general passage has it, no passage of the corpus


def sentence(words: list[str], number: int, style: list[str]) -> str:
    generator = np.random.default_rng(number)
    return " ".join([*style, *generator.choice(words, 6).tolist(), f"case{number}"])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("domain")
    rows = [{"id": f"c{number}", "text": sentence(FIELD, number, [])} for number in range(100)]
    return make_workspace(folder, {"corpus.jsonl": to_lines(rows)}, split={"test": 0.2, "validation": 0.1})


def general(project: Project) -> list[dict[str, str]]:
    """200 passages, a quarter of them of the field; one has the text of a test passage."""
    corpus = project.corpus
    test = next(corpus.contents(row, row + 1) for row in range(100) if held_out(project, row))
    text = next(iter(test))
    corpus.close()
    rows = [
        {"id": f"g{number}", "abstract": sentence(OTHER if number % 4 else FIELD, 1000 + number, STYLE)}
        for number in range(199)
    ]
    return [*rows, {"id": "leak", "title": "", "text": text}]


def held_out(project: Project, row: int) -> bool:
    parts = np.load(project.split_folder / "part.npy")
    return bool(parts[row] == 2)


def test_passages_of_the_field_are_selected_whatever_the_style(project: Project, tmp_path: Path) -> None:
    rows = general(project)
    with gzip.open(tmp_path / "g.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n".join(map(json.dumps, rows)) + "\nnot json\n" + json.dumps({"id": "x", "title": 5}))
    report = project.select_domain(tmp_path / "g.jsonl.gz", tmp_path / "out.jsonl", share=0.2)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    chosen = {line["id"] for line in lines}
    of_the_field = {row["id"] for number, row in enumerate(rows[:199]) if number % 4 == 0}
    assert report["read"] == 200
    assert report["selected"] == len(lines)
    assert report["skipped"] == 2
    assert 25 <= len(chosen) <= 55
    assert len(chosen & of_the_field) >= 0.9 * len(chosen)
    assert report["agreement"] > 0.9
    assert all(line["domain"] >= report["threshold"] - 1e-3 for line in lines)
    assert all({key: line[key] for key in row} == row for line in lines for row in rows if row["id"] == line["id"])
    assert report["nearly_held_out"] == 1
    assert "leak" not in chosen


def test_the_selection_can_be_ingested_and_is_the_same_again(project: Project, tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text("\n".join(map(json.dumps, general(project))), encoding="utf-8")
    for name in ("a.jsonl", "b.jsonl"):
        report = project.select_domain(tmp_path / "g.jsonl", tmp_path / name, encoder="hashing")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    other = Project.init(tmp_path / "w")
    assert other.ingest([tmp_path / "a.jsonl"]).passages == report["selected"]


def test_unusable_input_is_an_error_that_writes_nothing(project: Project, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text('{"id": "a"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"empty\.jsonl"):
        project.select_domain(tmp_path / "empty.jsonl", tmp_path / "out.jsonl")
    (tmp_path / "few.jsonl").write_text('{"id": "a", "text": "a ring"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="50"):
        project.select_domain(tmp_path / "few.jsonl", tmp_path / "out.jsonl")
    with pytest.raises(InputError, match=r"missing\.jsonl"):
        project.select_domain(tmp_path / "missing.jsonl", tmp_path / "out.jsonl")
    with pytest.raises(LemmataError, match=r"few\.jsonl"):
        project.select_domain(tmp_path / "few.jsonl", tmp_path / "few.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_classifier_between_the_corpora_would_select_by_style_and_this_one_does_not() -> None:
    generator = np.random.default_rng(0)
    topic, style = np.eye(8)[0], np.eye(8)[1]

    def vectors(number: int, has_topic: bool, has_style: bool) -> np.ndarray:
        noise = generator.normal(0, 0.4, (number, 8))
        made = noise + 1.0 * has_topic * topic + 3.0 * has_style * style
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)

    corpus = vectors(300, True, False)
    sample = np.concatenate((vectors(60, True, True), vectors(240, False, True)))
    unseen = np.concatenate((vectors(200, True, True), vectors(800, False, True)))
    classifier = train_domain_classifier(corpus, sample, 0.2, np.random.default_rng(0))
    labels = np.arange(1000) < 200
    assert _area(classifier.scores(unseen), labels) > 0.85


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_the_area_is_the_chance_that_a_positive_scores_higher(items: list[tuple[int, bool]]) -> None:
    scores = np.array([score for score, _ in items], np.float32)
    labels = np.array([label for _, label in items], bool)
    wins = [(p > n) + 0.5 * (p == n) for p in scores[labels] for n in scores[~labels]]
    assert _area(scores, labels) == pytest.approx(np.mean(wins) if wins else 0.5)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(InputError, match=str(share)):
        train_domain_classifier(
            np.zeros((60, 2), np.float32), np.zeros((60, 2), np.float32), share, np.random.default_rng()
        )


def test_the_command_says_how_many_it_selected(project: Project, tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text("\n".join(map(json.dumps, general(project))), encoding="utf-8")
    printed = lemmata("mine", "domain", tmp_path / "g.jsonl", tmp_path / "out.jsonl", "-w", project.root)
    number = len((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines())
    assert f"read 200 selected {number} " in " ".join(printed.split())
