from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from lemmata.core.artefacts import write_hashed_manifest
from lemmata.core.errors import WorkspaceError
from lemmata.core.types import Document, Label, Link, Passage, Reading, Reference, Skip
from lemmata.core.workspace import Workspace, open_manifest, read_manifest, write_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.writer import CorpusWriter, IdTaken, stored_columns


def passage(identity: str, document: str = "d", **more: object) -> Passage:
    return Passage(identity, document, "lemma", f"text of {identity}", **more)  # type: ignore[arg-type]


def fill(layout: Workspace, *units: tuple[str, Reading]) -> None:
    with CorpusWriter(layout) as writer:
        for name, reading in units:
            with writer.transaction():
                writer.replace("root", name, "as read", [reading])
        with writer.transaction():
            writer.number_rows()
        writer.publish({"inputs": ""})


def test_a_passage_is_stored_without_loss(tmp_path: Path) -> None:
    theorem = Passage(
        id="d#a", document="d", kind="theorem", text="$x$ ist größer", title="Name", section="A / B", raw="\\x",
        proof="clear", file="d.tex", first_line=3, last_line=9, date="2020-01-02", confidence=0.5,
        metadata={"page": 3, "list": ["ä"]}, links=(Link("refers_to", "b"), Link("cites", "K")),
    )  # fmt: skip
    layout = Workspace(tmp_path)
    fill(layout, ("d", Reading([Document("d", "Title", authors=("A", "B"), categories=("math.CO",))], [theorem])))
    corpus = Corpus(layout)
    assert corpus[0] == theorem
    assert corpus.document("d") == Document("d", "Title", authors=("A", "B"), categories=("math.CO",))
    corpus.close()


def test_rows_are_ordered_by_document_and_position_whatever_the_order_of_units(tmp_path: Path) -> None:
    first = ("u1", Reading([Document("b")], [passage("b#2", "b"), passage("b#1", "b")]))
    second = ("u2", Reading([Document("a")], [passage("a#1", "a")]))
    fill(Workspace(tmp_path / "x"), first, second)
    fill(Workspace(tmp_path / "y"), second, first)
    for name in "xy":
        corpus = Corpus(Workspace(tmp_path / name))
        assert corpus.ids() == ["a#1", "b#2", "b#1"]
        assert [corpus.row(i) for i in corpus.ids()] == [0, 1, 2]
        assert [p.id for p in corpus.passages([2, 0, 2])] == ["b#1", "a#1", "b#1"]
        assert list(corpus.contents(1)) == ["text of b#2", "text of b#1"]
        assert [p.id for p in corpus] == corpus.ids()
        assert corpus[-1].id == "b#1"
        assert [p.id for p in corpus[1:]] == ["b#2", "b#1"]
        corpus.close()


def test_a_range_of_dates_includes_the_whole_of_its_last_month_and_year(tmp_path: Path) -> None:
    dates = ["2024-04-30", "2024-05-01", "2024-05-31T23:59:00", "2024-06-01", "2024-05", None]
    passages = [passage(f"d#{n}", date=date) for n, date in enumerate(dates)]
    fill(Workspace(tmp_path), ("u", Reading([Document("d", date="2023-12-31")], passages)))
    corpus = Corpus(Workspace(tmp_path))

    def rows(since: str = "", until: str = "") -> list[int]:
        return np.flatnonzero(corpus.select(since=since, until=until)).tolist()

    assert rows(until="2024-05") == [0, 1, 2, 4, 5]
    assert rows(until="2024-05-31") == [0, 1, 2, 4, 5]
    assert rows(since="2024-05", until="2024-05") == [1, 2, 4]
    assert rows(until="2023") == [5]
    assert rows(since="2024-06") == [3]
    corpus.close()


def test_a_category_includes_what_is_below_it_and_no_other_that_begins_like_it(tmp_path: Path) -> None:
    categories = ["math", "math.CO", "math:05", "mathematics", "math-ph", "Math.CO", "cs.LG", "mathXCO"]
    readings = [
        (name, Reading([Document(name, categories=(name,))], [passage(f"{name}#1", name)])) for name in categories
    ]
    fill(Workspace(tmp_path), *readings)
    corpus = Corpus(Workspace(tmp_path))

    def documents(*names: str) -> set[str]:
        mask = corpus.select(categories=names)
        return {document for (_, document), chosen in zip(corpus.table("id", "document"), mask, strict=True) if chosen}

    assert documents("math") == {"math", "math.CO", "math:05"}
    assert documents("math.CO", "cs") == {"math.CO", "cs.LG"}
    assert documents("mat") == documents("math_CO") == documents("%") == set()
    corpus.close()


def test_contents_are_without_the_names_of_references(tmp_path: Path) -> None:
    spans = {"inserted_references": {"text": [[3, 6]], "proof": [[0, 2]]}}
    theorem = Passage("d#a", "d", "theorem", "By [K] it holds.", "Name", proof="A proof.", metadata=spans)
    column = Passage("d#b", "d", "log", "Pump broken.", metadata={"inserted_references": "a user's own column"})
    layout = Workspace(tmp_path)
    fill(layout, ("d", Reading([Document("d")], [theorem, column])))
    corpus = Corpus(layout)
    assert list(corpus.contents()) == [passage.content for passage in corpus] == ["Name. By  it holds.", "Pump broken."]
    assert corpus[0].text == "By [K] it holds."
    corpus.close()


def test_unknown_rows_and_ids_are_errors(tmp_path: Path) -> None:
    fill(Workspace(tmp_path), ("u", Reading([Document("d")], [passage("d#1")])))
    corpus = Corpus(Workspace(tmp_path))
    with pytest.raises(IndexError):
        corpus[1]
    with pytest.raises(KeyError):
        corpus.row("d#2")
    with pytest.raises(KeyError):
        corpus.document("e")
    corpus.close()


def test_replacing_a_unit_removes_all_of_the_old_one(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    old = Reading(
        [Document("d", links=(Link("part_of", "p"),))],
        [passage("d#1", links=(Link("refers_to", "x"),))],
        [Label("d", "x", "d#1")],
        {"d": [Reference("k", "Title")]},
        {"d": {"e-": "e"}},
        [Skip("d.tex", 1, "why")],
    )
    fill(layout, ("u", old), ("u", Reading([Document("d")], [passage("d#2")])))
    corpus = Corpus(layout)
    counts = corpus.counts()
    assert corpus.ids() == ["d#2"]
    assert counts["links"] == {}
    assert counts["labels"] == counts["skips"] == counts["bibliography"]["entries"] == 0
    corpus.close()
    with CorpusWriter(layout) as writer:
        assert writer.connection.execute("SELECT * FROM prefixes").fetchall() == []


def test_a_new_unit_with_an_id_of_another_is_refused_whole(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    fill(layout, ("a", Reading([Document("d", file="a.tex")], [passage("d#1")])))
    for second in (
        Reading([Document("d", file="b.tex")], [passage("d#2")]),
        Reading([Document("e", file="b.tex")], [passage("e#1", "e"), passage("d#1", "e")]),
    ):
        with pytest.raises(IdTaken, match=r"\ba\b.*root"):
            fill(layout, ("b", second))
    corpus = Corpus(layout)
    assert (corpus.ids(), [document.id for document in corpus.documents()]) == (["d#1"], ["d"])
    corpus.close()


def test_a_unit_that_was_read_before_keeps_its_ids_and_renames_only_new_clashes(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    fill(layout, ("a", Reading([Document("d")], [passage("d#1")])), ("b", Reading([Document("e")])))
    labels = [Label("d", "x", "d#1"), Label("e", "y", "e#1")]
    documents = [Document("e"), Document("d", file="b.tex")]
    fill(layout, ("b", Reading(documents, [passage("e#1", "e"), passage("d#1", first_line=4)], labels)))
    corpus = Corpus(layout)
    assert corpus.ids() == ["d#1", "d~2#1", "e#1"]
    assert [skip.file for skip in corpus.skips()] == ["b.tex"]
    assert "the document id 'd' is taken by a: it is called 'd~2'" in corpus.skips()[0].cause
    corpus.close()
    with CorpusWriter(layout) as writer:
        labels = writer.connection.execute("SELECT document, name, target FROM labels ORDER BY 1").fetchall()
        assert labels == [("d~2", "x", "d~2#1"), ("e", "y", "e#1")]


def test_the_digest_depends_on_every_file_and_on_every_name(tmp_path: Path) -> None:
    def digest(root: str = "root", unit: str = "u", fingerprint: str = "as read", content: str = "1") -> str:
        with CorpusWriter(Workspace(tmp_path / f"{root}{unit}{fingerprint}{content}")) as writer:
            with writer.transaction():
                writer.replace(root, unit, fingerprint, [Reading(files={"a.tex": "0", "b.tex": content})])
            return writer.digest()

    digests = [digest(), digest(root="other"), digest(unit="v"), digest(fingerprint="else"), digest(content="2")]
    assert len(set(digests)) == 5


def test_a_corpus_has_no_columns_until_they_are_named(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    assert stored_columns(layout) == {}
    fill(layout, ("u", Reading([Document("d")], [passage("d#1")])))
    assert stored_columns(layout) == {}
    with CorpusWriter(layout) as writer, writer.transaction():
        writer.store_columns("root", {"text": "note"})
    assert stored_columns(layout) == {"root": {"text": "note"}}
    with CorpusWriter(layout) as writer, writer.transaction():
        writer.store_columns("root", {})
    assert stored_columns(layout) == {}


def test_a_transaction_that_fails_changes_nothing(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)

    def broken() -> object:
        yield Reading([Document("e")], [passage("e#1", "e")])
        raise RuntimeError

    fill(layout, ("u", Reading([Document("d")], [passage("d#1")])))
    with CorpusWriter(layout) as writer, pytest.raises(RuntimeError), writer.transaction():
        writer.replace("root", "u", "", broken())  # type: ignore[arg-type]
    corpus = Corpus(layout)
    assert corpus.ids() == ["d#1"]
    corpus.close()


def test_a_writer_that_writes_nothing_leaves_no_copy(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    fill(layout, ("u", Reading([Document("d")], [passage("d#1")])))
    before = layout.database.stat()
    with CorpusWriter(layout) as writer:
        assert list(writer.units("root")) == ["u"]
    with pytest.raises(RuntimeError), CorpusWriter(layout):
        raise RuntimeError
    assert layout.database.stat().st_ino == before.st_ino
    assert sorted(path.name for path in layout.corpus_folder.iterdir()) == ["corpus.sqlite", "manifest.json"]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with CorpusWriter(Workspace(tmp_path)), pytest.raises(WorkspaceError, match=tmp_path.name):
        CorpusWriter(Workspace(tmp_path)).__enter__()
    with CorpusWriter(Workspace(tmp_path)):
        pass


def test_a_missing_an_unfinished_and_a_damaged_corpus_have_different_errors(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    with pytest.raises(WorkspaceError, match="lemmata ingest"):
        Corpus(layout)
    fill(layout, ("u", Reading([Document("d")], [passage("d#1")])))
    manifest = layout.manifest(layout.corpus_folder).rename(tmp_path / "aside")
    with pytest.raises(WorkspaceError, match="ingest"):
        Corpus(layout)
    manifest.rename(layout.manifest(layout.corpus_folder))
    layout.database.write_bytes(b"this is no database" * 1000)
    with pytest.raises(WorkspaceError, match=layout.database.name):
        Corpus(layout)


@pytest.mark.parametrize("number", [99, 1])
def test_another_format_is_refused(tmp_path: Path, number: int) -> None:
    layout = Workspace(tmp_path)
    fill(layout, ("u", Reading()))
    connection = sqlite3.connect(layout.database)
    connection.execute(f"PRAGMA user_version = {number}")
    connection.close()
    write_hashed_manifest(layout.corpus_folder, {"inputs": ""})
    for opened in (lambda: Corpus(layout), lambda: CorpusWriter(layout).__enter__()):
        with pytest.raises(WorkspaceError, match=f"format {number}"):
            opened()


def test_a_damaged_manifest_or_one_of_another_format_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    assert read_manifest(path) is None
    write_manifest(path, {"seed": 7})
    assert (read_manifest(path) or {})["seed"] == 7
    path.write_text("{")
    assert read_manifest(path) is None
    path.write_text(json.dumps({"format": 999}))
    with pytest.raises(WorkspaceError, match=r"format 999, .* reads .*: make it again"):
        open_manifest(path, "make it again")
    assert read_manifest(path) is None
    path.write_text("[]")
    assert read_manifest(path) is None


def test_references_to_a_passage_are_listed(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    fill(
        layout,
        ("u", Reading([Document("d")], [passage("d#1", links=(Link("refers_to", "x"),)), passage("d#2")])),
    )
    with CorpusWriter(layout) as writer, writer.transaction():
        numbers = writer.connection.execute("SELECT number FROM links").fetchall()
        writer.set_targets("links", [("d#2", number) for (number,) in numbers])
    corpus = Corpus(layout)
    assert corpus.referring("d#2") == [("d#1", "refers_to")]
    assert corpus[0].links == (Link("refers_to", "x", "d#2"),)
    corpus.close()
