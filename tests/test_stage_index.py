from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import InterruptedEncoder, copied, make_workspace, write

from lemmata.core.errors import ConfigError, InputError
from lemmata.core.types import Crowding, Floats
from lemmata.core.workspace import Workspace
from lemmata.corpus.texts import match_rows
from lemmata.corpus.training_files import read_training
from lemmata.encode.hashing import HashingEncoder
from lemmata.encode.load import DEFAULT, PACKAGED, PLANT
from lemmata.project import Project
from lemmata.search.index import index_vectors
from lemmata.vectors.crowding import MeasuredCrowding
from lemmata.vectors.fill import SHARD
from lemmata.vectors.store import VectorWriter, open_vectors


@copied
def project(folder: Path) -> Project:
    lines = [f'{{"id": "p{n}", "text": "passage number {n} on the topic {n % 7}"}}' for n in range(3 * SHARD + 10)]
    return make_workspace(folder, write(folder, {"p.jsonl": "\n".join(lines)}) / "p.jsonl", index=None)


def test_an_interrupted_encoding_resumes(project: Project) -> None:
    corpus = project.corpus
    first = InterruptedEncoder(2 * SHARD + 32)  # 32 texts tell how long the others will take
    with pytest.raises(KeyboardInterrupt):
        index_vectors(project, corpus, first, "x")  # type: ignore[arg-type]
    second = InterruptedEncoder(10**9)
    assert index_vectors(project, corpus, second, "x") == SHARD - 22  # type: ignore[arg-type]
    assert first.encoded + second.encoded == len(corpus)
    expected = HashingEncoder(dimension=32).encode(list(corpus.contents()))
    np.testing.assert_array_equal(open_vectors(project, encoder="x").matrix, expected)
    corpus.close()


def test_a_misspelt_encoder_is_refused_before_the_work(project: Project) -> None:
    with pytest.raises(InputError, match="lemmata-nanno"):
        project.index(settings={"encoder": "lemmata-nanno"})
    assert not project.lexical_folder.exists()


FACTS = {"corpus": "", "cut": 0, "made_by": "x"}


def uncrowded(count: int) -> MeasuredCrowding:
    nothing = np.zeros(count, np.float32)
    return MeasuredCrowding(Crowding(nothing, 1.0), nothing, nothing)


def test_old_vectors_stay_until_the_new_ones_are_complete(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    old = VectorWriter(layout, "x", 2, np.arange(3, dtype=np.uint64))
    old.write(np.arange(3), np.ones((3, 2), np.float32))
    old.finish(FACTS, uncrowded(3))
    new = VectorWriter(layout, "x", 4, np.arange(5, dtype=np.uint64))
    new.write(np.array([0, 4]), np.ones((2, 4), np.float32))
    assert new.missing().tolist() == [1, 2, 3]
    assert open_vectors(layout, encoder="x").matrix.shape == (3, 2)
    new.write(np.array([1, 2, 3]), np.ones((3, 4), np.float32))
    new.finish(FACTS, uncrowded(5))
    assert open_vectors(layout, encoder="x").matrix.shape == (5, 4)
    assert sorted(path.name for path in layout.encoder_folder("x").iterdir()) == ["vectors"]


@given(
    before=st.lists(st.integers(0, 5), max_size=9), cuts=st.lists(st.integers(0, 9), max_size=4), new=st.integers(0, 5)
)
def test_each_new_row_gets_an_old_one_of_its_own_as_long_as_there_are_some(
    before: list[int], cuts: list[int], new: int
) -> None:
    after = list(before)
    for cut in cuts:  # replaced, deleted or inserted
        after[cut : cut + cut % 2] = [new] * (cut % 3)
    old, hashes = np.array(before, np.uint64), np.array(after, np.uint64)
    matches = match_rows(old, hashes)
    used = matches[matches >= 0]
    assert len(set(used.tolist())) == len(used)
    assert (old[used] == hashes[matches >= 0]).all()
    assert len(used) == (Counter(before) & Counter(after)).total()


def test_vectors_are_copied_in_runs_and_row_by_row(tmp_path: Path) -> None:
    count = 100
    np.save(tmp_path / "old.npy", np.random.default_rng(0).random((count, 2), np.float32))
    in_file = np.load(tmp_path / "old.npy", mmap_mode="r")
    runs, others = [*range(40, count), *range(30)], [*range(count - 1, 9, -1)]
    cases = {"file": (in_file, runs), "runs": (np.array(in_file), runs), "rows": (in_file, others)}
    for name, (matrix, places) in cases.items():
        writer = VectorWriter(Workspace(tmp_path), name, 2, np.arange(count, dtype=np.uint64))
        rows = np.arange(count)[5 : 5 + len(places)]
        writer.copy(rows, matrix, np.array(places))
        assert np.array_equal(writer.matrix[rows], matrix[places])
        assert sorted({*writer.missing().tolist(), *rows.tolist()}) == [*range(count)]


class SlowEncoder(InterruptedEncoder):
    """An encoder that needs ten milliseconds for a text."""

    def encode(self, texts: list[str], role: str = "passage") -> Floats:
        time.sleep(0.01 * len(texts))
        return super().encode(texts, role)


def test_a_slow_encoding_reports_early_and_often(tmp_path: Path) -> None:
    lines = [f'{{"id": "p{n}", "text": "passage {n} {"word " * (n % 5)}"}}' for n in range(200)]
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "p.jsonl"])
    with contextlib.closing(project.corpus) as corpus:
        reports: list[tuple[str, int, int | None]] = []
        encoder = SlowEncoder(10**9)
        project.progress = lambda *report: reports.append(report)
        index_vectors(project, corpus, encoder, "x")  # type: ignore[arg-type]
        counts = [done for what, done, _ in reports if what == "encoding"]
        assert counts[0] == 0
        assert counts[1] <= 10
        assert counts[-1] == 200
        assert all(after - before <= 64 for before, after in pairwise(counts))
        expected = HashingEncoder(dimension=32).encode(list(corpus.contents()))
        np.testing.assert_array_equal(open_vectors(project, encoder="x").matrix, expected)


def test_vectors_that_were_killed_while_they_were_finished_are_complete(tmp_path: Path) -> None:
    layout, hashes = Project.init(tmp_path / "w"), np.arange(3, dtype=np.uint64)
    begun = VectorWriter(layout, "x", 2, hashes)
    begun.write(np.arange(3), np.ones((3, 2), np.float32))
    (begun.folder / "done.npy").unlink()  # the first file that finishing removes
    again = VectorWriter(layout, "x", 2, hashes)
    assert not len(again.missing())
    again.finish({"verb": "index"})
    assert sorted(path.name for path in again.folder.with_name("vectors").iterdir()) == [
        "hashes.npy",
        "manifest.json",
        "matrix.npy",
    ]


@pytest.mark.parametrize(("name", "missing"), [("its name", 0), ("trained again", 3)])
def test_vectors_that_were_killed_before_they_took_their_place_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, missing: int
) -> None:
    layout, hashes = Project.init(tmp_path / "w"), np.arange(3, dtype=np.uint64)
    begun = VectorWriter(layout, "x", 2, hashes, made_by="its name")
    begun.write(np.arange(3), np.ones((3, 2), np.float32))
    with monkeypatch.context() as patch:
        patch.setattr("lemmata.vectors.store.replace_folder", lambda *_: None)
        begun.finish({"verb": "index", "made_by": "its name"})
    assert len(VectorWriter(layout, "x", 2, hashes, made_by=name).missing()) == missing


def test_half_made_vectors_of_other_texts_are_not_taken_up(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    begun = VectorWriter(layout, "encoder", 8, np.array([1, 2, 3], np.uint64), made_by="its name")
    begun.write(np.array([0, 1]), np.ones((2, 8), np.float32))
    again = VectorWriter(layout, "encoder", 8, np.array([1, 2, 3], np.uint64), made_by="its name")
    assert again.missing().tolist() == [2]
    for texts, encoder, name in (
        ([1, 5, 3], "encoder", "its name"),  # a passage has another text
        ([2, 1, 3], "encoder", "its name"),  # the passages have moved
        ([1, 2, 3], "encoder", "trained again"),  # the model of that name is another by now
    ):
        other = VectorWriter(layout, encoder, 8, np.array(texts, np.uint64), made_by=name)
        assert other.missing().tolist() == [0, 1, 2]
        other = VectorWriter(layout, "encoder", 8, np.array([1, 2, 3], np.uint64), made_by="its name")
        other.write(np.array([0, 1]), np.ones((2, 8), np.float32))


# ---------------------------------------------------------------- language

GERMAN = ["Die Kühlwasserpumpe ist undicht", "Lager der Pumpe heiß", "Kühlwasser fehlt", "Pumpe und Kühlwasser geprüft"]
ENGLISH = ["The cooling water pump leaks", "bearing of the pump is hot", "there is no cooling water", "P-203: 4,2 bar"]


def workspace_of(folder: Path, texts: list[str]) -> Project:
    """A workspace with these passages; those that it had are replaced."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": f"p{number}", "text": text}) for number, text in enumerate(texts)]
    (folder / "p.jsonl").write_text("\n".join(lines))
    project = Project.init(folder / "w")
    project.ingest([folder / "p.jsonl"])
    return project


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A packaged encoder for German: the one for English under its name."""
    folder = tmp_path / "models" / PLANT
    folder.mkdir(parents=True)
    for file in PACKAGED[DEFAULT].iterdir():
        (folder / file.name).symlink_to(file)
    settings = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").unlink()
    (folder / "encoder.json").write_text(json.dumps(settings | {"name": PLANT}))
    monkeypatch.setitem(PACKAGED, PLANT, folder)
    return PLANT


def test_an_index_without_a_named_encoder_takes_that_of_the_language(tmp_path: Path, packaged: str) -> None:
    project = workspace_of(tmp_path / "mixed", [*GERMAN, *ENGLISH])
    report = project.index()
    assert (report["language"], report["encoder"]) == ("de+en", packaged)
    assert report["encoder_choice"] == (
        "lemmata-plant was chosen by the language of the corpus (57% German and 43% English)"
    )
    with project.retriever() as retriever:
        assert retriever.vectors.encoder == packaged
        assert {hit.id for hit in retriever.search("Pumpe", retriever="lexical")} >= {"p0", "p1", "p3"}
        assert [hit.id for hit in retriever.search("bearings", retriever="lexical")] == ["p5"]
    english = workspace_of(tmp_path / "english", ENGLISH).index()
    assert (english["language"], english["language_shares"]) == ("en", {"en": 1.0})
    assert english["encoder"].startswith(DEFAULT)
    assert "100% English" in english["encoder_choice"]
    as_english = workspace_of(tmp_path / "german", GERMAN).index(settings={"language": "en"})
    assert as_english["encoder_choice"] == f"{DEFAULT} was chosen by the language of the corpus (set to en)"


def test_without_an_encoder_for_german_the_default_is_taken_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(PACKAGED, PLANT, raising=False)
    report = workspace_of(tmp_path, GERMAN).index()
    assert report["encoder"].startswith(DEFAULT)
    assert report["encoder_choice"].endswith("(100% German); lemmata-plant, the encoder for German, is not installed")


def test_a_workspace_keeps_its_encoder_and_the_language_that_was_set(tmp_path: Path, packaged: str) -> None:
    project = workspace_of(tmp_path, GERMAN)
    project.index(settings={"encoder": "hashing"})
    again = project.index()
    assert again["encoder"].startswith("hashing")
    assert "encoder_choice" not in again
    assert project.index(dense=False)["language"] == "de"
    assert project.index(settings={"language": "en"}, dense=False)["tokenised"] == 4
    kept = project.index(dense=False)
    assert (kept["language"], kept["tokenised"]) == ("en", 0)
    detected = project.index(settings={"language": "auto"}, dense=False)
    assert (detected["language"], detected["tokenised"]) == ("de", 4)
    assert project.index(settings={"language": "de"}, dense=False)["tokenised"] == 0
    workspace_of(tmp_path, [*GERMAN, *ENGLISH])
    assert project.index(dense=False)["language"] == "de"
    with pytest.raises(ConfigError, match="'dutch'"):
        project.index(settings={"language": "dutch"})


def test_a_corpus_that_becomes_german_is_indexed_again(tmp_path: Path) -> None:
    project = workspace_of(tmp_path, ENGLISH)
    assert project.index(dense=False)["language"] == "en"
    workspace_of(tmp_path, [*ENGLISH, *GERMAN])
    report = project.index(dense=False)
    assert (report["language"], report["tokenised"]) == ("de+en", 8)


def test_a_corpus_that_tells_no_language_counts_as_english(tmp_path: Path) -> None:
    report = workspace_of(tmp_path, ["P-203", "$x^2$"]).index(dense=False)
    assert (report["language"], report["language_shares"]) == ("en", {})


# ---------------------------------------------------------------- descriptions of locations


def test_logs_are_found_and_trained_on_with_the_descriptions_of_their_known_locations(tmp_path: Path) -> None:
    words = ("kavitiert", "tropft", "vibriert", "steht", "pfeift", "klopft")
    lines = [
        f"L{n},2024-01-{n + 1:02},P{n % 3},{f'L{n - 3}' if n >= 3 else ''},{words[n % 6]} seit Schicht {n}\n"
        for n in range(24)
    ]
    (tmp_path / "logs.csv").write_text("id,date,location,related,text\n" + "".join(lines), encoding="utf-8")
    places = "id,parent,description\nP0,,Rücklaufpumpe\nP1,,Dosierpumpe\nP2,,Tauchpumpe\n"
    (tmp_path / "hierarchy.csv").write_text(places, encoding="utf-8")
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "logs.csv", tmp_path / "hierarchy.csv"])
    project.build_graph()
    project.split(settings={"method": "time"})
    hashing = {"encoder": "hashing"}
    bare = project.index(settings=hashing)
    assert (bare["tokenised"], bare["encoded"]) == (24, 24)

    def found() -> set[str]:
        with project.retriever() as retriever:
            return {hit.id for hit in retriever.search("Tauchpumpe", 24, retriever="lexical")}

    def texts() -> dict[str, set[str]]:
        project.mine("pairs")
        records = list(read_training(project.training_file("pairs")))
        chosen = {"anchor": "related_to", "positive": "related_to"}
        columns = {name: {line[name] for line in records if line["relation"] == kind} for name, kind in chosen.items()}
        return {**columns, "of a location": {line["positive"] for line in records if line["relation"] == "location"}}

    assert found() == set()
    assert not any("pumpe" in text for of_column in texts().values() for text in of_column)
    expanded = project.index(settings={**hashing, "expand": True})
    assert (expanded["tokenised"], expanded["encoded"]) == (24, 24)
    assert found() == {f"L{n}" for n in range(2, 24, 3)}
    trained = texts()
    assert all(text.endswith("pumpe)") for text in trained["positive"])
    assert not any("pumpe" in text for text in trained["anchor"] | trained["of a location"])
    again = project.index(settings={**hashing, "expand": True})
    assert (again["tokenised"], again["encoded"]) == (0, 0)
    assert project.index(settings=hashing)["tokenised"] == 0  # what is not named stays
    assert found() == {f"L{n}" for n in range(2, 24, 3)}
    project.index(settings={**hashing, "expand": False})
    assert found() == set()
