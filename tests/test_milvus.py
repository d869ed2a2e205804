"""Vectors in Milvus: what reaches it, and what the user sees of it; `test_index.py` has the contract of an index."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import copied, lemmata, milvus_index, unit_vectors

pymilvus = pytest.importorskip("pymilvus", reason="needs pymilvus: pip install 'lemmata[scale]'")
milvus_lite = pytest.importorskip("milvus_lite", reason="needs milvus-lite: pip install 'lemmata[scale]'")

from milvus_lite.adapter.grpc.server import start_server_in_thread  # noqa: E402

from lemmata.core.errors import ConfigError, MissingExtra, WorkspaceError  # noqa: E402
from lemmata.core.types import Mask  # noqa: E402
from lemmata.core.workspace import read_manifest  # noqa: E402
from lemmata.project import Project  # noqa: E402
from lemmata.search.filter import Filter  # noqa: E402
from lemmata.vectors import milvus  # noqa: E402
from lemmata.vectors.exact import ExactIndex  # noqa: E402
from lemmata.vectors.milvus import MilvusIndex, count_vectors, drop_collections  # noqa: E402

KINDS = ("lemma", "theorem", "remark")
QUERIES = ("a number of topic 3", "passage 17", "the remark on topic 5")
SERVER = """
import sys
from milvus_lite.adapter.grpc.server import start_server_in_thread
server, _, port = start_server_in_thread(sys.argv[1])
print(port, flush=True)
server.wait_for_termination()
"""


def write_passages(path: Path, numbers: Sequence[int]) -> Path:
    """JSON lines of one document, named like the file."""
    lines = [
        {
            "id": f"p{number:03}",
            "document": path.stem,
            "kind": KINDS[number % 3],
            "text": f"Passage {number} is on the topic {number % 7}.",
        }
        for number in numbers
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@copied
def project(folder: Path) -> Project:
    """Sixty passages of three kinds in two documents, with vectors that are searched exactly."""
    project = Project.init(folder / "w")
    files = [write_passages(folder / "b.jsonl", range(30)), write_passages(folder / "c.jsonl", range(30, 60))]
    project.ingest(files)
    project.index(settings={"encoder": "hashing"})
    return project


@pytest.fixture
def in_milvus(project: Project) -> Project:
    project.index(settings={"milvus": "vectors.db"})
    return project


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The URI of a server in a thread."""
    with contextlib.ExitStack() as stack:
        server, database, port = start_server_in_thread(str(tmp_path / "server"))
        stack.callback(database.close)
        stack.callback(lambda: server.stop(None).wait())
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URI of a server in a process of its own, and the process."""
    arguments = [sys.executable, "-c", SERVER, str(tmp_path / "server")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}", process
        process.kill()


def hits(project: Project, only: Filter | None = None, retriever: str = "dense") -> list[list[tuple[str, Any]]]:
    """Ids and scores, which may differ in the last digits."""
    with project.retriever() as opened:
        answers = [opened.search(query, 8, retriever=retriever, filter=only) for query in QUERIES]
        answers.append(opened.similar("p010", 8, filter=only))
    return [[(hit.id, pytest.approx(hit.score, abs=1e-6)) for hit in answer] for answer in answers]


def stored(project: Project) -> dict[str, Any]:
    """Where the manifest of the neighbour index says that its vectors are."""
    manifest = read_manifest(project.encoder_folder("hashing") / "ann" / "manifest.json")
    assert manifest is not None
    return manifest["milvus"]  # type: ignore[no-any-return]


@contextlib.contextmanager
def client_of(project: Project) -> Iterator[Any]:
    with contextlib.closing(pymilvus.MilvusClient(project.milvus_uri(stored(project)["uri"]))) as client:
        yield client


# ---------------------------------------------------------------- filters


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> MilvusIndex:
    return milvus_index(unit_vectors(500, 0), tmp_path_factory.mktemp("milvus") / "vectors.db")


MASKS = st.one_of(
    st.tuples(st.integers(0, 500), st.integers(0, 500)).map(lambda ends: _between(*sorted(ends))),
    st.tuples(st.integers(0, 99), st.floats(0, 1)).map(lambda drawn: _scattered(*drawn)),
)


def _between(start: int, stop: int) -> Mask:
    return (np.arange(500) >= start) & (np.arange(500) < stop)


def _scattered(seed: int, share: float) -> Mask:
    return np.random.default_rng(seed).random(500) < share


@given(mask=MASKS, kinds=st.sets(st.integers(0, 2)))
def test_an_expression_selects_the_rows_of_a_mask_and_no_others(
    large: MilvusIndex, mask: Mask, kinds: set[int]
) -> None:
    numbers = np.empty(500, np.int64)
    numbers[large._rows] = large._kinds[large._kind_of]
    allowed = mask & np.isin(numbers, large._kinds[sorted(kinds)])
    if not allowed.any():
        return  # nothing is asked
    expression = large._expression(allowed)
    assert expression is not None
    found = large._client.query("index", filter=expression, output_fields=["slot"], limit=1000)
    slots = np.empty(500, np.int64)
    slots[large._rows] = large._slots
    assert sorted(record["slot"] for record in found) == sorted(slots[allowed].tolist())


def test_kinds_and_ranges_need_no_list_and_a_long_list_is_none(
    large: MilvusIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = np.empty(500, np.int64)
    numbers[large._rows] = large._kinds[large._kind_of]
    assert large._expression(numbers == 1) == "(kind in [1])"
    few = np.zeros(500, np.bool_)
    few[large._rows[10:20]] = True
    assert "slot not in" not in str(large._expression(few))
    for name, most in (("_RANGES", 5), ("_LISTED", 100)):
        monkeypatch.setattr(milvus, name, most)
    assert str(large._expression(_scattered(0, 0.9))).startswith("(slot not in [")
    half = _scattered(0, 0.5)
    assert large._expression(half) is None
    queries = unit_vectors(3, 1)
    expected = ExactIndex(unit_vectors(500, 0)).search(queries, 10, half)
    np.testing.assert_array_equal(large.search(queries, 10, half)[0], expected[0])


def test_milvus_proposes_and_the_matrix_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus, "FEW", 0)
    matrix, queries = unit_vectors(200, 0), unit_vectors(4, 1)
    index = milvus_index(matrix, tmp_path / "vectors.db")
    index._exact.matrix = np.zeros_like(matrix)  # what Milvus has not told, nobody can know
    allowed = _scattered(3, 0.5)[:200]
    for mask in (None, allowed):
        rows, scores = index.search(queries, 5, mask)
        nearest, _ = ExactIndex(matrix).search(queries, 10, mask)
        assert all(set(own) <= set(true) for own, true in zip(rows.tolist(), nearest.tolist(), strict=True))
        assert not scores.any()


def test_many_queries_are_asked_in_groups(large: MilvusIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus, "_CELLS", 100)
    rows, _ = large.search(unit_vectors(20, 5), 10)
    np.testing.assert_array_equal(rows, ExactIndex(unit_vectors(500, 0)).search(unit_vectors(20, 5), 10)[0])


# ---------------------------------------------------------------- a workspace


def test_hits_and_scores_are_those_of_the_exact_index(project: Project) -> None:
    filters = [None, Filter(kinds=("remark",)), Filter(documents=("c",)), Filter(kinds=("lemma",), documents=("b",))]
    asked = [(only, retriever) for only in filters for retriever in ("dense", "hybrid", "auto")]
    exact = [hits(project, *each) for each in asked]
    report = project.index(settings={"milvus": "vectors.db"})
    assert report["milvus"] == {"uri": "vectors.db", "sent": 60}
    with project.retriever() as opened:
        assert isinstance(opened.dense().index, MilvusIndex)
    assert [hits(project, *each) for each in asked] == exact


def test_the_choice_holds_until_it_is_taken_back_and_then_nothing_stays(in_milvus: Project) -> None:
    layout = in_milvus
    uri, name = layout.milvus_uri("vectors.db"), stored(in_milvus)["alias"]
    assert in_milvus.index()["milvus"]["sent"] == 0
    assert count_vectors(uri, name) == 60
    assert "neighbours" in in_milvus.index(settings={"milvus": "none"})
    assert not layout.milvus.exists()
    assert count_vectors(uri, name) == 0
    with in_milvus.retriever() as opened:
        assert isinstance(opened.dense().index, ExactIndex)
    assert "milvus" not in in_milvus.index()


def test_an_update_sends_what_changed_and_deletes_what_is_gone(in_milvus: Project, tmp_path: Path) -> None:
    before = stored(in_milvus)
    write_passages(tmp_path / "b.jsonl", [*range(5, 30), 90])
    write_passages(tmp_path / "a.jsonl", [70, 71, 72])  # comes first, so that all rows move
    in_milvus.ingest([tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl")])
    assert in_milvus.index()["milvus"]["sent"] == 4
    after = stored(in_milvus)
    assert (after["alias"], after["slots"], after["next_slot"]) == (before["alias"], 59, 64)
    with client_of(in_milvus) as client:
        slots = [record["slot"] for record in client.query(after["alias"], filter="slot >= 0", output_fields=["slot"])]
        assert sorted(slots) == [*range(5, 64)]
        assert len(client.list_collections()) == 1
    updated = hits(in_milvus), hits(in_milvus, Filter(kinds=("lemma",)))
    in_milvus.index(settings={"milvus": "none"})
    assert updated == (hits(in_milvus), hits(in_milvus, Filter(kinds=("lemma",))))


def test_a_passage_of_another_kind_with_the_same_text_is_sent_again(in_milvus: Project, tmp_path: Path) -> None:
    text = (tmp_path / "b.jsonl").read_text()
    (tmp_path / "b.jsonl").write_text(text.replace("lemma", "remark", 1))
    in_milvus.ingest([tmp_path / "b.jsonl", tmp_path / "c.jsonl"])
    assert in_milvus.index()["milvus"]["sent"] == 1
    with in_milvus.retriever() as opened:
        assert "p000" in [
            hit.id for hit in opened.search("Passage 0", 30, retriever="dense", filter=Filter(("remark",)))
        ]


def test_search_goes_on_while_a_collection_is_replaced(in_milvus: Project) -> None:
    expected = hits(in_milvus)[0]
    ended = threading.Event()
    with in_milvus.retriever() as before:

        def search() -> int:
            number = 0
            while not ended.is_set() or not number:
                answer = before.search(QUERIES[0], 8, retriever="dense")
                assert [(hit.id, hit.score) for hit in answer] == expected
                number += 1
            return number

        with futures.ThreadPoolExecutor(1) as pool:
            answers = pool.submit(search)
            for _ in range(2):
                assert in_milvus.index(rebuild=True)["milvus"]["sent"] == 60
            ended.set()
            assert answers.result() > 0
        # the alias now names another collection, and the retriever of before finds its passages in it
        assert [(hit.id, hit.score) for hit in before.search(QUERIES[0], 8, retriever="dense")] == expected
    with client_of(in_milvus) as client:
        assert client.list_collections() == [f"{stored(in_milvus)['alias']}_3"]


def test_where_most_passages_are_new_a_retriever_of_before_still_finds_its_own(
    in_milvus: Project, tmp_path: Path
) -> None:
    with in_milvus.retriever() as before:
        expected = [(hit.id, hit.score) for hit in before.search(QUERIES[1], 5, retriever="dense")]
        write_passages(tmp_path / "b.jsonl", range(100, 200))
        in_milvus.ingest([tmp_path / "b.jsonl", tmp_path / "c.jsonl"])
        assert in_milvus.index()["milvus"]["sent"] == 130
        rows, scores = before.dense().index.search(before.encoder.encode([QUERIES[1]], role="query"), 5)
        assert [before.vectors.matrix[row].any() for row in rows[0]] == [True] * 5
        assert scores[0].tolist() == pytest.approx([score for _, score in expected], abs=1e-6)
    with client_of(in_milvus) as client:
        assert client.list_collections() == [f"{stored(in_milvus)['alias']}_2"]


def test_what_an_unfinished_update_left_or_somebody_deleted_is_put_right(in_milvus: Project) -> None:
    alias, uri = stored(in_milvus)["alias"], in_milvus.milvus_uri("vectors.db")
    with client_of(in_milvus) as client:
        client.upsert(f"{alias}_1", [{"slot": 999, "kind": 0, "vector": unit_vectors(1, 0, 256)[0]}])
    assert in_milvus.index()["milvus"]["sent"] == 0
    assert count_vectors(uri, alias) == 60
    with client_of(in_milvus) as client:
        client.delete(f"{alias}_1", ids=[3, 4])
    assert in_milvus.index()["milvus"]["sent"] == 60
    drop_collections(uri, alias)
    with pytest.raises(WorkspaceError, match=f"vectors.db .*{alias}.*'lemmata index'"):
        hits(in_milvus)
    assert in_milvus.index()["milvus"]["sent"] == 60


def test_several_encoders_and_summaries_have_collections_of_their_own(in_milvus: Project, tmp_path: Path) -> None:
    told = [{"passage": f"p{number:03}", "text": f"What is number {number} for?"} for number in range(6)]
    (tmp_path / "told.jsonl").write_text("\n".join(map(json.dumps, told)))
    in_milvus.index(settings={"summaries": str(tmp_path / "told.jsonl")})
    summarised = hits(in_milvus)
    in_milvus.index(settings={"encoder": "lemmata-nano"})
    with client_of(in_milvus) as client:
        assert len(client.list_collections()) == 4
        in_milvus.index(settings={"encoder": "hashing", "summaries": "none"})
        assert len(client.list_collections()) == 2  # the summaries of both are gone
        in_milvus.remove_encoder("lemmata-nano")
        assert client.list_collections() == [f"{stored(in_milvus)['alias']}_1"]
    in_milvus.index(settings={"summaries": str(tmp_path / "told.jsonl"), "milvus": "none"})
    assert hits(in_milvus) == summarised


def test_encoders_whose_vectors_do_not_move_are_named(in_milvus: Project) -> None:
    before = hits(in_milvus, retriever="dense:hashing")
    assert "not_moved" not in in_milvus.index(settings={"encoder": "lemmata-nano"})
    shown = lemmata("index", "--encoder", "lemmata-nano", "-o", "milvus=none", "-w", in_milvus.root)
    assert "the vectors of hashing are searched exactly now: 'lemmata index --encoder hashing' moves them too" in shown
    assert hits(in_milvus, retriever="dense:hashing")[:-1] == before[:-1]  # the last is of the default encoder
    in_milvus.index(settings={"encoder": "hashing", "milvus": "vectors.db"})
    in_milvus.index(settings={"encoder": "lemmata-nano"})
    assert in_milvus.index(settings={"encoder": "hashing", "milvus": "other.db"})["not_moved"] == ["lemmata-nano"]
    assert "not_moved" not in in_milvus.index(settings={"encoder": "lemmata-nano"})


# ---------------------------------------------------------------- the user


def test_the_commands_say_where_the_vectors_are(project: Project) -> None:
    root = project.root
    assert "uri vectors.db, sent 60" in lemmata("index", "-o", "milvus=vectors.db", "-w", root)
    content = json.loads(lemmata("info", "-w", root, "--json"))
    assert content["vectors"][0]["milvus"] == "vectors.db"
    assert content["indexes"] == ["lexical", "dense", "milvus"]
    assert "leave out --no-dense" in lemmata("index", "-o", "milvus=x.db", "--no-dense", "-w", root, code=1)


def test_the_setting_may_stand_in_the_file(project: Project) -> None:
    project.config_file.write_text('[index]\nmilvus = "below/vectors.db"\n')
    again = Project(project.root)
    assert again.index()["neighbours"] == "milvus"
    assert (project.root / "below" / "vectors.db").exists()


def test_a_server_is_searched_and_when_it_is_away_one_sentence_says_so(
    project: Project,
    server: tuple[str, subprocess.Popen[str]],
) -> None:
    uri, process = server
    exact, root = hits(project), project.root
    assert project.index(settings={"milvus": uri})["milvus"] == {"uri": uri, "sent": 60}
    assert hits(project) == exact
    with project.retriever() as opened:
        opened.search(QUERIES[0], 3, retriever="dense")
        process.kill()
        process.wait()
        with pytest.raises(WorkspaceError, match=uri):
            opened.search(QUERIES[0], 3, retriever="dense")
    message = lemmata("search", "topic", "-w", root, code=1)
    assert f"Milvus at {uri} cannot be used" in message
    assert (
        "start it, check $MILVUS_TOKEN and $MILVUS_URI, or take the vectors back with 'lemmata index -o milvus=none'"
        in message
    )
    left = project.index(settings={"milvus": "none"})["left_in_milvus"]
    assert left.startswith("the collections lemmata_")
    assert hits(project) == exact


def test_a_copy_of_a_workspace_leaves_the_collections_of_the_other_alone(
    project: Project, served: str, tmp_path: Path
) -> None:
    project.index(settings={"milvus": served})
    shutil.copytree(project.root, tmp_path / "copy")
    copy = Project(tmp_path / "copy")
    assert hits(copy) == hits(project)
    report = copy.index()
    assert report["milvus"]["sent"] == 60
    assert stored(project)["alias"].rpartition("_")[0] in report["left_in_milvus"]
    copy.index(settings={"milvus": "none"})
    assert project.index()["milvus"]["sent"] == 0
    with client_of(project) as client:
        assert client.list_collections() == [f"{stored(project)['alias']}_1"]


def test_a_file_that_is_in_use_is_refused_in_one_sentence(project: Project) -> None:
    with (
        milvus_lite.MilvusLite(str(project.root / "vectors.db")),
        pytest.raises(WorkspaceError, match=r"vectors.db"),
    ):
        project.index(settings={"milvus": "vectors.db"})
    assert not project.milvus.exists()
    assert hits(project)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://me:secret@host:19530", "MILVUS_TOKEN"),
        ("vectors", "'vectors'.*http://HOST:19530"),
        ("ftp://host/x.db", "'ftp://host/x.db'"),
    ],
)
def test_a_place_that_cannot_be_is_refused(project: Project, uri: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        project.index(settings={"milvus": uri})


def test_the_token_is_sent_and_stored_nowhere(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    import grpc

    sent: list[str] = []

    class Recording(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, call: Any) -> None:
            sent.extend(value for key, value in call.invocation_metadata if key == "authorization")

    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Recording()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("MILVUS_TOKEN", "root:secret")
    with pytest.raises(WorkspaceError) as error:
        project.index(settings={"milvus": f"http://127.0.0.1:{port}"})
    server.stop(None)
    assert base64.b64encode(b"root:secret").decode() in sent
    files = [path.read_bytes() for path in project.root.rglob("*") if path.is_file()]
    assert not any(b"secret" in content for content in [*files, str(error.value).encode()])


@pytest.mark.parametrize(
    ("uri", "token"),
    [
        ("http://localhost:19530", "root:secret"),
        ("https://mine.example:19530", "root:secret"),
        ("http://mine.example:19530", ""),
        ("https://mine.example", ""),
        ("https://evil.example:19530", ""),
        ("http://127.0.0.1.evil.example:19530", ""),
    ],
)
def test_the_token_goes_to_a_server_that_the_user_named(monkeypatch: pytest.MonkeyPatch, uri: str, token: str) -> None:
    monkeypatch.setenv("MILVUS_TOKEN", "root:secret")
    monkeypatch.setenv("MILVUS_URI", "https://mine.example:19530")
    assert milvus.token_for(uri) == token


def test_a_missing_library_is_named_with_its_extra(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "milvus_lite", None)
    with pytest.raises(MissingExtra, match=r"milvus_lite.*lemmata\[scale\]"):
        project.index(settings={"milvus": "vectors.db"})
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MissingExtra, match=r"pymilvus.*lemmata\[scale\]"):
        project.index(settings={"milvus": "http://localhost:19530"})
