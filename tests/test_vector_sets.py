"""Vectors of several encoders in one workspace: made, updated, removed and interrupted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from tests.make import killed_at, lemmata

from lemmata.core.artefacts import write_hashed_manifest
from lemmata.core.errors import InputError, LemmataError, WorkspaceError
from lemmata.core.types import Floats, Progress
from lemmata.core.workspace import (
    Workspace,
    default_encoder,
    read_manifest,
    vector_set,
    vector_sets,
    vectors_of,
    write_manifest,
)
from lemmata.corpus.corpus import Corpus
from lemmata.encode.hashing import HashingEncoder
from lemmata.encode.load import NANO, PACKAGED, load_encoder
from lemmata.graph.lengths import open_lengths
from lemmata.project import Project
from lemmata.search import hints
from lemmata.search import index as index_stage
from lemmata.search.fusion import Fusion
from lemmata.search.retriever import Retriever
from lemmata.vectors.store import VectorWriter, invalidate_vectors, open_vectors

NOTES = {
    "pump": "The pump of the cooling circuit leaks at its seal.",
    "valve": "A valve in the steam line does not close.",
    "prime": "Every prime ideal of a Noetherian ring has finite height.",
    "parts": "Partitions into odd parts and into distinct parts are equally many.",
}


def write_notes(folder: Path, notes: dict[str, str]) -> Path:
    path = folder / "notes.jsonl"
    path.write_text("\n".join(json.dumps({"id": name, "text": text}) for name, text in notes.items()))
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported encoder in a folder of its own: the packaged one under another name."""
    folder = shutil.copytree(PACKAGED["lemmata-mini"], tmp_path_factory.mktemp("encoders") / "my encoder, v1")
    settings = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**settings, "name": "mine"}))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, exported: Path) -> Project:
    """A workspace with the vectors of three encoders; the last is the default."""
    folder = tmp_path_factory.mktemp("made")
    project = Project.init(folder / "w")
    project.ingest([write_notes(folder, NOTES)])
    for encoder in (NANO, str(exported), "hashing"):
        project.index(settings={"encoder": encoder})
    return project


@pytest.fixture
def project(made: Project, tmp_path: Path) -> Project:
    shutil.copytree(made.root.parent, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path / "w")


def first_hits(project: Project, retriever: str, text: str = "leaking pump") -> list[tuple[str, float]]:
    with project.retriever() as opened:
        return [(hit.id, hit.score) for hit in opened.search(text, 4, retriever=retriever)]


def assert_vectors_are_those_of(project: Project, encoder: str) -> None:
    with contextlib.closing(project.corpus) as corpus:
        fresh = load_encoder(encoder).encode(list(corpus.contents()))
        np.testing.assert_allclose(open_vectors(project, corpus.digest, encoder).matrix, fresh, atol=1e-6)


def names(project: Project) -> list[str]:
    return [vectors.encoder for vectors in vector_sets(project)]


# ---------------------------------------------------------------- side by side


def test_each_encoder_keeps_its_own_vectors_and_the_last_indexed_is_the_default(made: Project, exported: Path) -> None:
    assert names(made) == ["hashing", str(exported), NANO]
    assert default_encoder(made) == "hashing"
    for encoder in names(made):
        assert_vectors_are_those_of(made, encoder)


def test_a_retriever_with_an_encoder_ranks_as_if_that_were_the_only_one(project: Project, exported: Path) -> None:
    default = first_hits(project, "dense")
    for encoder in ("hashing", str(exported)):
        alone = Project.init(project.root.parent / Path(encoder).name)
        alone.ingest([project.root.parent / "notes.jsonl"])
        alone.index(settings={"encoder": encoder})
        for kind in ("dense", "hybrid"):
            hits = first_hits(project, f"{kind}:{encoder}")
            assert hits == first_hits(alone, kind)
            assert (hits == first_hits(project, kind)) == (encoder == "hashing")
    assert first_hits(project, "dense") == default


def test_switching_the_default_encodes_nothing_and_keeps_all_sets(project: Project) -> None:
    report = project.index(settings={"encoder": NANO})
    assert report["encoded"] == 0
    assert report["default_before"] == "hashing"
    assert default_encoder(project) == NANO
    assert len(names(project)) == 3
    assert "default_before" not in project.index()  # without a name, the default stays
    assert default_encoder(project) == NANO


def test_a_folder_is_the_same_encoder_however_it_is_written(
    project: Project, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(exported.parent)
    assert project.index(settings={"encoder": f"./{exported.name}"})["encoded"] == 0
    assert len(names(project)) == 3
    hits = first_hits(project, f"dense:{exported.name}")
    monkeypatch.chdir("/")
    assert first_hits(project, "dense") == hits


def test_every_encoder_has_its_own_fusion(project: Project) -> None:
    vectors = vector_set(project, NANO)
    assert vectors is not None
    write_manifest(vectors.fusion, {"fusion": asdict(Fusion(False, 0.1, crowding=0.0))})
    with project.retriever() as retriever:
        assert retriever.dense(NANO).fusion == Fusion(False, 0.1, crowding=0.0)
        assert retriever.dense().fusion == Fusion()
    assert "dropped_fusion" not in project.index(settings={"encoder": NANO})
    with project.retriever() as retriever:
        assert retriever.dense().fusion == Fusion(False, 0.1, crowding=0.0)


def test_every_encoder_has_its_own_neighbour_index(project: Project) -> None:
    from lemmata.search.index import index_ann

    exact = {name: first_hits(project, f"dense:{name}") for name in (NANO, "hashing")}
    for encoder in exact:
        assert index_ann(project, encoder=encoder, more_than=3) == "ann"
    for name, hits in exact.items():
        near = first_hits(project, f"dense:{name}")
        assert [identity for identity, _ in near] == [identity for identity, _ in hits]
    project.index(settings={"encoder": NANO})  # too few passages for a neighbour index
    assert [bool(list(v.ann.glob("*"))) for v in vector_sets(project) if v.encoder in exact] == [False, True]


# ---------------------------------------------------------------- names


def test_building_the_same_graph_again_keeps_the_edge_lengths_of_every_set(project: Project) -> None:
    project.build_graph()
    for encoder in (NANO, "hashing"):
        project.index(settings={"encoder": encoder})
    project.build_graph()
    for encoder in (NANO, "hashing"):
        open_lengths(project, encoder)
    more = project.root.parent / "more.jsonl"
    more.write_text('{"source": "first", "relation": "cites", "target": "second"}\n', "utf-8")
    project.import_graph(more)
    open_lengths(project, "hashing")
    with pytest.raises(WorkspaceError, match=f"lemmata index --encoder {NANO}"):
        open_lengths(project, NANO)


def test_an_encoder_without_vectors_is_named_with_the_command_that_makes_them(project: Project) -> None:
    scales = set((read_manifest(project.confidence) or {})["scales"])
    assert NANO in scales
    project.remove_encoder(NANO)
    assert set((read_manifest(project.confidence) or {})["scales"]) == scales - {NANO}
    with pytest.raises(WorkspaceError, match="lemmata index --encoder lemmata-nano"):
        first_hits(project, f"dense:{NANO}")
    with pytest.raises(InputError, match=r"'minilem'.*hashing, "):
        first_hits(project, "dense:minilem")


@pytest.mark.parametrize("name", ["lexical:hashing", "auto:", "dense:", "sparse:hashing", ":hashing"])
def test_names_that_are_no_retriever_are_refused(project: Project, name: str) -> None:
    with pytest.raises(LemmataError, match=repr(name)):
        first_hits(project, name)


@pytest.mark.parametrize(
    "encoder",
    ["http://localhost:11434/v1#model", "http://localhost:11434/v1#model2", "intfloat/e5-small-v2", "/a/b c", "/a/b-c"],
)
def test_any_name_of_an_encoder_has_a_folder_of_its_own(tmp_path: Path, encoder: str) -> None:
    layout = Workspace(tmp_path)
    others = ["hashing", "/a/b/c", "http://localhost:11434/v1", "..", ".", "a" * 300]
    folders = {layout.encoder_folder(name) for name in (*others, encoder)}
    assert len(folders) == len(others) + 1
    for folder in folders:
        folder.mkdir(parents=True)
        assert folder.parent == layout.dense_folder
        assert not folder.name.startswith(".")


# ---------------------------------------------------------------- a corpus that changes


def test_a_changed_corpus_updates_the_default_and_no_other_set_gives_a_wrong_hit(project: Project) -> None:
    notes = {"first": "A new note that comes first.", **{name: NOTES[name] for name in ("valve", "prime", "parts")}}
    project.ingest([write_notes(project.root.parent, notes)])
    for name in ("dense", f"dense:{NANO}", f"hybrid:{NANO}"):
        with pytest.raises(WorkspaceError, match="lemmata index"):
            first_hits(project, name)
    assert project.index()["encoded"] == 1
    assert_vectors_are_those_of(project, "hashing")
    with pytest.raises(WorkspaceError, match=f"'lemmata index --encoder {NANO}'"):
        first_hits(project, f"dense:{NANO}")
    assert project.index(settings={"encoder": NANO})["encoded"] == 1
    assert_vectors_are_those_of(project, NANO)
    assert "pump" not in dict(first_hits(project, f"dense:{NANO}"))


def test_another_model_in_the_same_folder_is_noticed(project: Project, exported: Path) -> None:
    folder = shutil.copytree(exported, project.root.parent / "changing")
    project.index(settings={"encoder": str(folder)})
    assert first_hits(project, "dense")
    settings = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**settings, "name": "trained again"}))
    with pytest.raises(WorkspaceError, match=r"mine, .*'lemmata index --enc"):
        first_hits(project, "dense")
    assert project.index(settings={"encoder": str(folder)})["encoded"] == len(NOTES)
    assert first_hits(project, "dense")


# ---------------------------------------------------------------- removing, info, damage


def test_a_removed_set_is_gone_and_the_others_stay(project: Project, exported: Path) -> None:
    before = first_hits(project, "dense")
    report = project.remove_encoder(str(exported))
    assert (report["was_default"], report["kept_encoders"]) == (False, ["hashing", NANO])
    assert report["bytes"] > len(NOTES) * 384 * 4
    assert names(project) == ["hashing", NANO]
    assert first_hits(project, "dense") == before
    with pytest.raises(LemmataError, match=r"'hashin'.*hashing"):
        project.remove_encoder("hashin")


def test_without_the_default_search_uses_words_until_another_is_named(project: Project) -> None:
    assert project.remove_encoder("hashing")["was_default"]
    with project.retriever() as retriever:
        assert not retriever.has_vectors
        assert retriever.search("pump")[0].id == "pump"
    with pytest.raises(WorkspaceError, match=r"index --encoder NAME' .*lemmata-nano"):
        first_hits(project, "dense")
    project.index(settings={"encoder": NANO})
    assert first_hits(project, "dense") == first_hits(project, f"dense:{NANO}")


def test_info_lists_every_set_with_its_size_and_state(project: Project, exported: Path) -> None:
    project.ingest([write_notes(project.root.parent, {**NOTES, "more": "One more note."})])
    project.index()
    rows = {row["encoder"]: row for row in project.info()["vectors"]}
    assert list(rows) == ["hashing", str(exported), NANO]
    assert [(row["default"], row["up_to_date"]) for row in rows.values()] == [
        (True, True),
        (False, False),
        (False, False),
    ]
    assert [row["dimension"] for row in rows.values()] == [256, 384, 256]
    for name, row in rows.items():
        folder = project.encoder_folder(name) / "vectors"
        assert row["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    text = " ".join(lemmata("info", "-w", project.root).split())
    assert "hashing yes 256" in text
    assert "out of date" in text


def test_damage_to_one_set_is_found_and_leaves_the_others_usable(project: Project, exported: Path) -> None:
    path = project.encoder_folder(NANO) / "vectors" / "matrix.npy"
    path.write_bytes(path.read_bytes()[:-1])
    assert first_hits(project, "dense")
    with pytest.raises(WorkspaceError, match=f"lemmata index --encoder {NANO}"):
        first_hits(project, f"dense:{NANO}")
    assert [problem.path for problem in project.verify().damage] == [path]
    manifest = project.encoder_folder(NANO) / "vectors" / "manifest.json"
    manifest.write_text("{")
    assert NANO in names(project)
    project.remove_encoder(NANO)
    manifest = project.encoder_folder(str(exported)) / "vectors" / "manifest.json"
    manifest.write_text("{")  # its encoder cannot be read any more
    project.remove_encoder(str(exported))
    assert names(project) == ["hashing"]
    assert project.verify().is_whole


def test_a_damaged_note_on_the_default_is_one_sentence_with_its_cure(project: Project) -> None:
    project.default_encoder_file.write_text("{")
    with pytest.raises(WorkspaceError, match=r"encoder\.json .*'lemmata index --encoder NAME'"):
        first_hits(project, "auto")
    assert first_hits(project, f"dense:{NANO}")
    assert any("encoder.json" in problem for problem in project.info()["problems"])
    assert [problem.path for problem in project.verify().damage] == [project.default_encoder_file]
    project.index(settings={"encoder": "hashing"})
    assert first_hits(project, "dense")


# ---------------------------------------------------------------- kills


class Killed(HashingEncoder):
    """Kills its process after 600 texts."""

    encoded = 0

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
        self.encoded += len(texts)
        if self.encoded > 600:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(texts, role)


def kill_index(root: Path, encoder: str) -> None:
    def work(_: object) -> None:
        vars(index_stage)["open_encoder"] = lambda *_, **__: Killed()
        Project(root).index(settings={"encoder": encoder})

    killed_at("", -1, work)  # by itself


def test_weights_that_were_fitted_to_a_model_go_with_its_vectors(project: Project) -> None:
    layout = project
    both = [vector_set(layout, name) for name in ("hashing", NANO)]
    for each in both:
        assert each is not None
        write_manifest(each.fusion, {"fusion": asdict(Fusion(weight=0.3))})
    invalidate_vectors(layout, "hashing")
    assert [each.fusion.exists() for each in both if each] == [False, True]


def test_a_killed_index_leaves_every_set_and_the_default_as_they_were(project: Project) -> None:
    root = project.root
    many = NOTES | {f"n{n}": f"note number {n} on {n % 7}" for n in range(700)}
    project.ingest([write_notes(root.parent, many)])
    project.index()
    before = first_hits(project, "dense")
    kill_index(root, "killed/one")
    assert default_encoder(project) == "hashing"
    assert len(names(project)) == 3
    assert first_hits(project, "dense") == before
    assert project.verify().is_whole
    [partial] = root.rglob("vectors.partial")
    assert int(np.load(partial / "done.npy").sum()) == 512 + 32


def many_notes(count: int) -> dict[str, str]:
    return NOTES | {f"n{n}": f"note number {n} on {n % 7}" for n in range(count)}


def words_only(root: Path) -> str:
    with Retriever.open(root) as retriever:
        assert retriever.search("leaking pump")[0].id == "pump"
        assert retriever.similar("n1")
        return hints.words_only(retriever)


def test_words_find_passages_while_the_first_vectors_are_made(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    project.ingest([write_notes(tmp_path, many_notes(700))])
    root = project.root
    kill_index(root, "hashing")
    again = "of the vectors are made: run 'lemmata index' again for the rest"
    note = read_manifest(project.indexing)  # how far it was when it was last written, by the clock
    assert note is not None
    assert note["total"] == 704
    assert words_only(root) == f"searched by words only: {note['done'] / 704:.0%} {again}"
    write_manifest(project.indexing, {"verb": "index", "encoder": "hashing", "done": 240, "total": 704})
    with project.hold():
        assert words_only(root) == "searched by words only: 34% of the vectors are made so far"
    with Retriever.open(root) as retriever, pytest.raises(WorkspaceError, match="34%"):
        retriever.search("leaking pump", retriever="dense")
    assert project.index(settings={"encoder": "hashing"})["encoded"] == 704 - 512 - 32
    assert words_only(root) == ""
    assert not project.indexing.exists()


def test_words_find_passages_while_vectors_of_a_larger_corpus_are_made(project: Project) -> None:
    root = project.root
    project.ingest([write_notes(root.parent, many_notes(700))])
    with pytest.raises(WorkspaceError, match="lemmata index"):
        words_only(root)
    kill_index(root, "hashing")
    assert words_only(root).startswith("searched by words only")
    with Retriever.open(root) as retriever, pytest.raises(WorkspaceError, match="lemmata index"):
        retriever.search("leaking pump", retriever="dense")
    project.index()
    assert words_only(root) == ""


def test_old_vectors_are_used_while_those_of_a_few_new_passages_are_made(tmp_path: Path) -> None:
    notes = many_notes(40)
    project = Project.init(tmp_path / "w")
    project.ingest([write_notes(tmp_path, notes)])
    project.index(settings={"encoder": "hashing"})
    del notes["n0"]
    project.ingest([write_notes(tmp_path, {"a": "a valve that whistles", **notes})])
    project.index(dense=False)
    with Retriever.open(project.root) as retriever:
        assert retriever.search("leaking pump")[0].id == "pump"
        assert "a" in [hit.id for hit in retriever.search("valve that whistles", 2)]
        assert "n1" in [hit.id for hit in retriever.search("note number 1", 3, retriever="dense")]
        for row, identity in enumerate(retriever.corpus.ids()):
            vector = retriever.encoder.encode([next(retriever.corpus.contents(row, row + 1))], role="passage")[0]
            assert np.allclose(retriever.vectors.matrix[row], 0 if identity == "a" else vector, atol=1e-5)
        assert "98% of the vectors" in hints.words_only(retriever)
    assert project.index()["encoded"] == 1
    assert words_only(project.root) == ""


def test_vectors_that_a_stopped_run_had_made_are_kept_when_the_corpus_changes(tmp_path: Path) -> None:
    notes = many_notes(700)
    project = Project.init(tmp_path / "w")
    project.ingest([write_notes(tmp_path, notes)])
    kill_index(project.root, "hashing")
    project.ingest([write_notes(tmp_path, {"a": "a valve that whistles", **notes})])
    assert project.index(settings={"encoder": "hashing"})["encoded"] == 705 - 512 - 32
    made = np.array(open_vectors(project).matrix)
    again = Project.init(tmp_path / "again")
    again.ingest([tmp_path / "notes.jsonl"])
    again.index(settings={"encoder": "hashing"})
    assert np.array_equal(made, open_vectors(again).matrix)


@pytest.mark.parametrize("given", [".", "../w"])
def test_vectors_are_complete_where_a_kill_and_an_edit_come_before_they_are_in_place(
    tmp_path: Path, given: str
) -> None:
    notes = many_notes(60)
    root = Project.init(tmp_path / "w").root

    def say(*words: str) -> None:
        command = [sys.executable, "-m", "lemmata", *words, "-w", given]
        subprocess.run(command, cwd=root, check=True, capture_output=True)

    def kill(progress: Progress) -> None:
        os.chdir(root)
        Project(given, progress).index(settings={"encoder": "hashing"})

    write_notes(tmp_path, notes)
    say("ingest", "../notes.jsonl")
    killed_at("measuring how crowded", 0, kill)
    del notes["n5"]
    write_notes(tmp_path, {"a": "a valve that whistles", **notes})
    say("ingest", "../notes.jsonl")
    say("index", "--encoder", "hashing")
    with contextlib.closing(Corpus(Workspace(root))) as corpus:
        expected = HashingEncoder().encode(list(corpus.contents()))
    np.testing.assert_array_equal(open_vectors(Workspace(root)).matrix, expected)
    say("verify")


def lose_vectors(root: Path, rows: list[int]) -> None:
    """Some vectors are zero, as after the kills of an earlier lemmata."""
    vectors = vector_set(Workspace(root))
    assert vectors is not None
    matrix = np.load(vectors.vectors / "matrix.npy")
    matrix[rows] = 0
    np.save(vectors.vectors / "matrix.npy", matrix)
    content = read_manifest(vectors.manifest) or {}
    write_hashed_manifest(vectors.vectors, {key: content[key] for key in content if key != "blank"})


def test_lost_vectors_are_noticed_and_made_again(tmp_path: Path) -> None:
    notes = many_notes(40) | {"blank": "?!"}
    project = Project.init(tmp_path / "w")
    project.ingest([write_notes(tmp_path, notes)])
    project.index(settings={"encoder": "hashing"})
    for mend in (
        lambda: project.index(rebuild=True),
        lambda: (project.ingest([write_notes(tmp_path, notes | {"n39": "note number 39"})]), project.index()),
    ):
        assert project.verify().is_whole
        lose_vectors(project.root, [3, 5])
        [problem] = project.verify().damage
        assert (problem.path.name, problem.command) == ("matrix.npy", "lemmata index --rebuild")
        mend()
        expected = HashingEncoder().encode(list(project.corpus.contents()))
        assert (~expected.any(axis=1)).sum() == 1
        np.testing.assert_array_equal(open_vectors(project).matrix, expected)
    assert project.index(rebuild=True)["encoded"] == 0


def test_vectors_that_were_lost_on_their_way_to_the_disk_are_not_taken_for_made(tmp_path: Path) -> None:
    hashes, vectors = np.arange(1, 5, dtype=np.uint64), np.array([[1, 0], [0, 1], [0, 0], [1, 1]], np.float32)
    writer = VectorWriter(Workspace(tmp_path), "x", 2, hashes)
    writer.write(np.arange(4), vectors)
    writer.matrix[1] = 0
    with pytest.raises(WorkspaceError, match="lemmata index"):
        writer.finish({"verb": "index"})
    again = VectorWriter(Workspace(tmp_path), "x", 2, hashes)
    assert again.missing().tolist() == [1, 2]  # one that the encoder makes zero is cheap to make again
    again.write(again.missing(), vectors[[1, 2]])
    again.finish({"verb": "index"})
    kept = read_manifest(vectors_of(Workspace(tmp_path), "x").manifest)
    assert kept is not None
    assert kept["blank"] == 1


def test_vectors_are_used_while_those_of_another_encoder_are_made(project: Project) -> None:
    project.ingest([write_notes(project.root.parent, many_notes(700))])
    project.index()
    kill_index(project.root, "killed/one")
    assert project.indexing.exists()
    assert words_only(project.root) == ""


def test_a_kill_before_the_default_is_noted_leaves_the_old_default(project: Project) -> None:
    project.remove_encoder(NANO)
    note = project.default_encoder_file.read_bytes()
    project.index(settings={"encoder": NANO})
    project.default_encoder_file.write_bytes(note)  # as it was just before the last write
    assert first_hits(project, "dense") == first_hits(project, "dense:hashing")
    assert project.index(settings={"encoder": NANO})["encoded"] == 0
    assert first_hits(project, "dense") == first_hits(project, f"dense:{NANO}")
