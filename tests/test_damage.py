"""Workspaces that are damaged, out of date, read-only or on a full disk: one sentence, and the old state stays."""

from __future__ import annotations

import os
import re
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests import make
from tests.make import (
    NAMES,
    PAPER,
    lemmata,
    refused,
    run_command,
    say,
    search,
    sentence_of,
    write_papers,
    written_files,
)

from lemmata.core.artefacts import artefacts, write_hashed_manifest
from lemmata.core.errors import WorkspaceError
from lemmata.core.types import Edge
from lemmata.core.workspace import FORMAT, read_manifest, write_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.encode.hashing import HashingEncoder
from lemmata.graph.store import GraphRecordStore, open_embedding, open_graph, write_embedding
from lemmata.project import Project
from lemmata.search.retriever import Retriever


def similar(project: Project) -> list[str]:
    with Retriever(project) as retriever:
        return [hit.id for hit in retriever.similar("width#def-width", k=3)]


def vectors_of(project: Project, encoder: str = "hashing") -> Path:
    return project.encoder_folder(encoder) / "vectors"


def tamper(file: Path, change: Callable[[npt.NDArray[Any]], object]) -> None:
    """Change an array and sign its folder again, as somebody can who sends a workspace."""
    array = np.load(file)
    change(array)
    np.save(file, array)
    write_hashed_manifest(file.parent, read_manifest(file.parent / "manifest.json") or {})


# what compiled code would follow out of its memory
TAMPERED: dict[str, tuple[str, Callable[[npt.NDArray[Any]], object]]] = {
    "targets": ("lengths/targets.npy", lambda array: array.fill(7_000_000)),
    "target behind the last": ("lengths/targets.npy", lambda array: array.put(0, len(array))),
    "negative target": ("lengths/targets.npy", lambda array: array.put(-1, -1)),
    "indptr down": ("lengths/indptr.npy", lambda array: array.put(1, 1_000_000)),
    "indptr behind the last": ("lengths/indptr.npy", lambda array: array.put(-1, array[-1] + 1)),
    "length not finite": ("lengths/lengths.npy", lambda array: array.put(0, np.nan)),
    "negative length": ("lengths/lengths.npy", lambda array: array.put(0, -1)),
    "edges": ("lengths/edges.npy", lambda array: array.put(0, len(array))),
    "graph": ("compressed/indices.npy", lambda array: array.put(0, 7_000_000)),
    "relation": ("compressed/relation.npy", lambda array: array.put(0, 99)),
    "rows": ("compressed/rows.npy", lambda array: array.put(0, -2)),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_edges_that_lead_out_of_the_graph_are_refused_with_a_remedy_that_helps(project: Project, kind: str) -> None:
    name, change = TAMPERED[kind]
    [file] = project.root.rglob(name)
    tamper(file, change)
    sentence = refused(say("search", "width of a tree", "-w", project.root, "--retriever", "geodesic"))
    assert str(file.parent) in sentence
    command = "lemmata index" if name.startswith("lengths") else "lemmata graph build"
    assert f"run '{command}'" in sentence
    evaluated = say("evaluate", "-w", project.root, "--task", "references", "--retriever", "geodesic")
    assert refused(evaluated) == sentence
    shutil.rmtree(file.parent)
    lemmata(*command.split()[1:], "-w", project.root)
    assert "width" in lemmata("search", "width of a tree", "-w", project.root, "--retriever", "geodesic")


def test_citations_that_lead_out_of_the_corpus_are_refused(project: Project) -> None:
    tamper(project.graph_folder / "citations_indices.npy", lambda array: array.fill(7_000_000))
    sentence = refused(say("search", "width of a tree", "-w", project.root, "--retriever", "diffusion"))
    assert "run 'lemmata graph build'" in sentence


# ---------------------------------------------------------------- out of date


def test_a_grown_corpus_is_noticed_by_every_reader_of_the_graph(project: Project) -> None:
    write_papers(project.root.parent / "papers", "area")  # comes first: all other rows move
    project.ingest([project.root.parent / "papers"])
    readers: list[Callable[[], object]] = [
        lambda: open_graph(project),
        lambda: project.embed_graph(settings={"epochs": 1}),
        lambda: project.show("concept:width"),
        project.merges,
        lambda: project.export_graph(project.root / "g.jsonl"),
        lambda: project.task("concepts"),
        project.split,
    ]
    for read in readers:
        with pytest.raises(WorkspaceError, match=r"the graph .*lemmata graph b"):
            read()
    for read in (lambda: search(project), lambda: similar(project)):
        with pytest.raises(WorkspaceError, match="'lemmata index'"):
            read()
    project.build_graph()
    with pytest.raises(WorkspaceError, match="'lemmata index'"):
        project.embed_graph(settings={"epochs": 1})
    for read in (
        lambda: project.mine("pairs", name="more"),
        project.audit,
        lambda: project.task("documents", part="test"),
    ):
        with pytest.raises(WorkspaceError, match="'lemmata split'"):
            read()


def test_a_removed_document_is_noticed_and_the_named_command_helps(project: Project) -> None:
    papers = project.root.parent / "papers"
    (papers / "depth.tex").unlink()
    project.ingest([papers])
    done = run_command("graph", "embed", "-w", project.root)
    assert done.returncode == 1
    assert done.stderr == "lemmata: the corpus changed since the graph was made: run 'lemmata graph build' again\n"
    project.build_graph()
    project.index(settings={"encoder": "hashing"})
    corpus, stored = project.corpus, open_graph(project)
    with closing(corpus):
        for node, row in zip(stored.graph.nodes, stored.rows.tolist(), strict=True):
            assert row < 0 or corpus[row].id == node
        assert sum(row >= 0 for row in stored.rows.tolist()) == len(corpus)


def test_info_names_what_is_out_of_date_with_its_command(project: Project) -> None:
    assert project.info()["problems"] == []
    write_papers(project.root.parent / "papers", "area")
    project.ingest([project.root.parent / "papers"])
    content = project.info()
    commands = {
        "lexical index": "lemmata index",
        "dense index": "lemmata index",
        "graph": "lemmata graph build",
        "split": "lemmata split",
        "training set 'pairs'": "lemmata mine pairs --name pairs",
    }
    for name, command in commands.items():
        assert f"the corpus changed since the {name} was made: run '{command}' again" in content["problems"]
    assert len(content["problems"]) == len(commands)
    assert set(commands) <= set(content["artefacts"])
    assert run_command("verify", "-w", project.root).returncode == 0  # out of date is no damage


def test_a_training_set_of_another_split_is_out_of_date(project: Project) -> None:
    project.split(settings={"seed": 7})
    finding = "the training set 'pairs' was mined under another split: run 'lemmata mine pairs --name pairs' again"
    assert project.info()["problems"] == [finding]
    project.mine("pairs")
    assert project.info()["problems"] == []


def test_an_embedding_of_another_graph_is_refused(project: Project) -> None:
    stored = open_graph(project)
    vectors = HashingEncoder(dimension=8).encode(list(stored.graph.nodes))
    write_embedding(project, vectors, {"verb": "embed", "inputs": stored.inputs, "maker": "test"})
    assert open_embedding(project).matrix.shape == (len(stored.graph.nodes), 8)
    assert project.info()["graph"]["embedded"] is True
    merge = [concept for concept in stored.concepts if concept.startswith("concept:")][:2]
    project.decide_merge(merge[0], merge[1], "accept")  # another graph of the same corpus
    with pytest.raises(WorkspaceError, match="'lemmata graph embed'"):
        open_embedding(project)
    assert project.info()["graph"]["embedded"] is False


@pytest.mark.slow
def test_the_checkpoint_of_an_embedding_of_another_graph_is_not_resumed(project: Project) -> None:
    folder = project.embedding_folder.parent
    (folder / "embedding.0123456789ab.partial.npz").write_bytes(b"stopped in the middle of another graph")
    project.embed_graph(settings={"epochs": 2})
    assert not list(folder.glob("embedding.*"))
    assert len(open_embedding(project).matrix) == len(open_graph(project).graph.nodes)


def test_a_passage_is_shown_while_the_graph_is_out_of_date(project: Project) -> None:
    assert "problem" not in project.show("width#def-width")
    project.ingest([write_papers(project.root.parent / "papers", "area")])
    shown = run_command("show", "width#def-width", "-w", project.root)
    assert shown.returncode == 0
    assert "The width of a tree is a number" in shown.stdout
    assert "run 'lemmata graph build' again" in shown.stdout


def test_deciding_a_merge_brings_the_records_made_by_rules_up_to_date(project: Project) -> None:
    write_papers(project.root.parent / "papers", "breadth")
    project.ingest([project.root.parent / "papers"])
    report = project.decide_merge("concept:width", "concept:height", "reject")
    assert report["stale"] == {}
    assert any("breadth" in concept.name for concept in open_graph(project).concepts.values())


def test_records_of_a_model_and_of_prediction_are_reported_as_stale(project: Project) -> None:
    with GraphRecordStore(project) as records:
        records.replace("llm", inputs="another corpus")
        records.replace("predicted", inputs="another corpus")
        records.replace("import:mine")  # belongs to no corpus
    assert project.build_graph()["stale"] == {"llm": "lemmata graph extract", "predicted": "lemmata graph link"}
    problems = project.info()["problems"]
    assert "the graph records (llm) were made from another corpus: run 'lemmata graph extract' again" in problems
    assert len(problems) == 2


def test_a_graph_with_edges_of_passages_that_are_gone_is_exported_without_them(
    project: Project, tmp_path: Path
) -> None:
    edges = [Edge(f"{name}#def-{name}", "mentions", "concept:width", maker="a model") for name in ("depth", "rank")]
    with GraphRecordStore(project) as records:
        records.replace("llm", edges=edges)
    papers = project.root.parent / "papers"
    (papers / "depth.tex").unlink()
    project.ingest([papers])
    project.build_graph()
    project.export_graph(tmp_path / "graph.jsonl")
    text = (tmp_path / "graph.jsonl").read_text("utf-8")
    assert "rank#def-rank" in text
    assert "depth#def-depth" not in text


# ---------------------------------------------------------------- damaged


def damages(content: bytes) -> Iterator[tuple[str, bytes]]:
    yield "half", content[: len(content) // 2]
    yield "empty", b""
    yield "flipped", bytes(byte ^ 0x55 for byte in content[:24]) + content[24:]


@pytest.mark.slow
def test_every_damaged_file_is_one_sentence_and_verify_finds_it(made: Project) -> None:
    files = written_files(made)
    assert len(files) > 25
    commands: dict[str, Callable[[], object]] = {
        "info": made.info,
        "search": lambda: search(made),
        "paths": lambda: search(made, paths=True),
        "similar": lambda: similar(made),
        "show": lambda: made.show("concept:width"),
        "mine": lambda: made.mine("pairs", name="other"),
        "audit": lambda: made.audit(["pairs"]),
        "export": lambda: made.export_training("pairs", made.root.parent / "out.tsv", file_format="tsv"),
    }
    embed: dict[str, Callable[[], object]] = {"embed": lambda: made.embed_graph(settings={"epochs": 1})}
    for path in files:
        content = path.read_bytes()
        reader: list[str] = []  # the first command that reads this file; the others are tried with one damage of it
        tried = commands | (embed if path.parent == made.graph_folder else {})
        for how, broken in damages(content):
            failed = []
            path.write_bytes(broken)
            try:
                for name in ("info", *reader) if how != "half" else tried:
                    sentence = sentence_of(tried[name])
                    assert not sentence or str(path) in sentence, (path, how, name, sentence)
                    failed += [name] if sentence else []
                found = [problem.sentence for problem in made.verify().damage]
            finally:
                path.write_bytes(content)
            assert failed or path == made.graph_records_note, (path, how)  # only verify reads it
            reader = reader or failed[:1]
            assert any(str(path) in finding for finding in found), (path, how, found)
    assert made.verify().is_whole


CURE = re.compile(r"(?:delete the folder (\S+) and )?run 'lemmata ([^']*)'")


@pytest.mark.parametrize("how", ["a byte deep inside", "cut off", "missing"])
def test_every_damaged_artefact_is_made_again_by_what_verify_says(project: Project, how: str) -> None:
    before = search(project)
    for item in artefacts(project):
        path = max(item.folder.rglob("*.*"), key=lambda path: path.stat().st_size * (path.name != "manifest.json"))
        content = bytearray(path.read_bytes())
        content[-5] ^= 1
        path.write_bytes(content if how == "a byte deep inside" else content[: len(content) // 2])
        if how == "missing":
            path.unlink()
        assert run_command("verify", "-w", project.root).returncode == 1
        [problem] = [problem for problem in project.verify().damage if problem.path == path]
        cure = CURE.search(problem.sentence)
        assert cure is not None, problem.sentence
        if cure[1]:
            shutil.rmtree(cure[1])
        done = run_command(*cure[2].split(), "-w", project.root)
        assert done.returncode == 0, (problem.sentence, done.stderr)
        assert project.verify().damage == [], problem.sentence
    assert project.info()["problems"] == []
    assert search(project) == before


@pytest.mark.parametrize(
    "name", ["index/lexical/hashes.npy", "index/lexical/index.json", "index/dense/hashing/vectors/matrix.npy"]
)
def test_a_damaged_index_is_made_again_by_the_command_that_the_sentence_names(project: Project, name: str) -> None:
    before = search(project)
    path = project.root / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WorkspaceError, match="'lemmata index'"):
        search(project)
    project.index(settings={"encoder": "hashing"})
    assert search(project) == before


def test_a_manifest_with_one_changed_letter_is_damaged(project: Project) -> None:
    path = project.manifest(project.graph_folder)
    path.write_bytes(path.read_bytes().replace(b'"inputs"', b'"inputz"'))
    assert read_manifest(path) is None
    with pytest.raises(WorkspaceError, match=r"manifest\.json"):
        open_graph(project)


# ---------------------------------------------------------------- read-only


READ_EVERYTHING = """
import sys
from lemmata.project import Project
project = Project(sys.argv[1])
with project.retriever() as retriever:
    assert retriever.search("width of a tree", k=3)
    assert retriever.similar("width#def-width", k=3)
    assert retriever.corpus[0].text and list(retriever.corpus.documents())
assert project.info()["problems"] == []
assert project.show("concept:width")["passages"]
project.merges()
project.audit(["pairs"])
assert project.training_sets()
assert project.evaluate(project.task("references", part="train")).retrievers
assert project.verify().is_whole
try:
    project.build_graph()
except Exception as error:
    print(type(error).__name__, error)
"""


def run_read_only(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code on a folder that cannot be written: mounted read-only for root, whom modes do not stop."""
    command = [sys.executable, "-c", code, str(folder)]
    if os.geteuid() == 0:
        mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", mount, str(folder), *command]
        if subprocess.run([*command[:6], "true"], capture_output=True, check=False).returncode:
            pytest.skip("a folder cannot be mounted here")
        return subprocess.run(command, capture_output=True, text=True, check=False)
    paths = [folder, *folder.rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


@pytest.mark.slow
def test_a_read_only_workspace_can_be_searched_shown_listed_and_evaluated(project: Project) -> None:
    done = run_read_only(project.root, READ_EVERYTHING)
    assert done.returncode == 0, done.stderr
    assert "WorkspaceError" in done.stdout
    assert "could not be written: the disk is read-only" in done.stdout or "Permission denied" in done.stdout


# ---------------------------------------------------------------- full


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file may become larger than so many bytes: what a full disk is to a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names_below(folder: Path) -> list[str]:
    """All files and folders, without the empty ones that SQLite keeps beside a file."""
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    return sorted(path for path in paths if not path.endswith(("-shm", "-wal")))


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_an_ingest_on_a_full_disk_leaves_the_old_corpus_searchable(project: Project, part: float) -> None:
    before, ids, names = search(project), project.corpus.ids(), names_below(project.root)
    papers = write_papers(project.root.parent / "papers", *(f"name{number}" for number in range(40)))
    (papers / "width.tex").write_text(PAPER % {"name": "breadth"}, "utf-8")  # replaces a paper
    (papers / "rank.tex").unlink()
    size = project.database.stat().st_size
    with files_up_to(int(size * part) + 8192), pytest.raises(WorkspaceError) as caught:
        project.ingest([papers], workers=1)
    assert "free some space and run the same command again" in str(caught.value)
    assert names_below(project.root) == names
    assert search(project) == before
    assert project.corpus.ids() == ids
    project.ingest([papers])
    assert "width#def-breadth" in project.corpus.ids()
    assert len(project.corpus.ids()) == len(ids) + 40 * 2 - 2


def test_every_other_writer_on_a_full_disk_keeps_the_last_good_state(project: Project) -> None:
    root, before = project.root, search(project)
    concept = project.show("concept:width")
    set_before = project.training_file("pairs").read_bytes()
    names = names_below(root)
    writers: dict[str, Callable[[], object]] = {
        "graph": project.build_graph,
        "split": lambda: project.split(settings={"seed": 3}),
        "pairs": lambda: project.mine("pairs"),
        "other": lambda: project.mine("pairs", name="other"),
    }
    for name, write in writers.items():
        with files_up_to(64), pytest.raises(WorkspaceError) as caught:
            write()
        assert str(root) in str(caught.value), name
        assert names_below(root) == names, name
    with files_up_to(2000), pytest.raises(WorkspaceError):
        project.index(settings={"encoder": "hashing", "dimension": 64})
    assert not list(root.rglob("vectors.partial"))
    assert search(project) == before
    assert project.show("concept:width") == concept
    assert project.training_file("pairs").read_bytes() == set_before
    assert project.verify().is_whole


@pytest.mark.slow
def test_a_command_on_a_full_disk_prints_one_sentence(project: Project) -> None:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200));"
        "from lemmata.cli.main import main; main()"
    )
    papers = str(project.root.parent / "papers")
    # -B: the limit would cut compiled modules off, too, and the next process could not load them
    command = [sys.executable, "-B", "-c", code, "ingest", papers, "--again", "-w", str(project.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("lemmata: ")
    assert "could not be" in done.stderr
    assert done.stderr.count("\n") == 1
    assert search(project)


# ---------------------------------------------------------------- impossible places


@pytest.mark.parametrize("place", ["/proc/x", "/dev/null/x", "/sys/x", "file/x", "file"])
def test_a_workspace_cannot_be_made_everywhere(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.chdir(tmp_path)
    sentence = make.lemmata("init", place, code=1)
    assert sentence.startswith("lemmata: ")
    assert place.split("/")[-1] in sentence
    assert sentence.count("\n") == 1


# ---------------------------------------------------------------- stopped


def test_the_old_corpus_can_be_searched_after_an_ingest_was_stopped_and_the_next_one_resumes(project: Project) -> None:
    papers = write_papers(project.root.parent / "papers", "area", "volume")
    (papers / "width.tex").write_text(PAPER % {"name": "breadth"}, "utf-8")
    before = search(project)

    def stop(what: str, done: int, _total: int | None) -> None:
        if what == "resolving links":
            raise KeyboardInterrupt

    with project.reporting_to(stop), pytest.raises(KeyboardInterrupt):
        project.ingest([papers], workers=1)
    assert search(project) == before
    assert any("did not finish" in problem for problem in project.info()["problems"])
    report = project.ingest([papers], workers=1)
    assert report.unchanged == len(NAMES) + 2  # all were read by the stopped run
    with closing(Corpus(project)) as corpus:
        assert len(corpus) == 2 * (len(NAMES) + 2)
        assert "width#def-breadth" in corpus.ids()
    assert not project.incoming.exists()


def test_a_corpus_in_use_can_be_replaced(project: Project) -> None:
    with closing(Corpus(project)) as reader:
        ids = reader.ids()
        project.ingest([write_papers(project.root.parent / "papers", "area")])
        assert reader.ids() == ids
    assert len(project.corpus.ids()) == len(ids) + 2


def test_a_manifest_survives_the_values_that_json_changes(tmp_path: Path) -> None:
    write_manifest(tmp_path / "m.json", {"table": {10: (1, 2.5), 9: None}, "name": "é"})
    assert read_manifest(tmp_path / "m.json") == {"format": FORMAT, "table": {"10": [1, 2.5], "9": None}, "name": "é"}


def test_a_damaged_split_is_not_replaced_by_one_that_may_move_passages(project: Project) -> None:
    path = project.split_folder / "part.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WorkspaceError, match=r"part\.npy .*'lemmata split'"):
        project.split()
    shutil.rmtree(project.split_folder)
    project.split()
