"""The recipe of lemmata-mini: what it does with its data before lemmata's own commands take over."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from recipes.lemmata_mini.general import documents, libraries, metamath, packages, pages, speeches, wordnet
from recipes.lemmata_mini.make import audited, averaged, general, restored

from lemmata.encode.load import DEFAULT, PACKAGED

WRITTEN = [
    ("a#1", "When is a Noetherian ring catenary?"),
    ("a#2", "every finite map of schemes is proper and closed under base change"),
    ("a#3", "vanishing of higher direct images under a finite map"),
    ("a#4", "which modules over a valuation ring are flat"),
    ("b#8", "a passage that answers a query of validation"),
]


def test_written_queries_that_repeat_a_query_of_validation_are_dropped_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, out = tmp_path / "w.jsonl", tmp_path / "kept" / "w.jsonl"
    records = [{"passage": passage, "query": query} for passage, query in WRITTEN]
    written.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    first, second = tmp_path / "queries.tsv", tmp_path / "generated.tsv"
    first.write_text("query\tid\nwhen is a  noetherian ring CATENARY ?\tb#7\nsomething else\tb#8\n", encoding="utf-8")
    second.write_text(
        "query\tid\nevery finite map of schemes is proper and closed under base change always\tb#9\n", encoding="utf-8"
    )
    assert audited(written, [first, second], out) == out
    kept = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert kept == records[2:4]
    report = capsys.readouterr().out
    assert "1 of 5 queries dropped: about an answer of validation or test" in report
    assert "2 of 4 queries dropped: 1 equal, 1 near" in report
    assert "of queries.tsv" in report
    assert "of generated.tsv" in report


def test_a_second_audit_with_the_same_result_leaves_the_file_alone(tmp_path: Path) -> None:
    written, out = tmp_path / "w.jsonl", tmp_path / "kept.jsonl"
    written.write_text(json.dumps({"passage": "a#1", "query": "flat modules"}) + "\n", encoding="utf-8")
    before = audited(written, [], out).stat()
    assert out.read_bytes() == written.read_bytes()
    assert audited(written, [], out).stat() == before


def found(folder: Path, pattern: str, reader: object) -> list[tuple[str, str]]:
    return [(record["title"], record["abstract"]) for record in documents(folder, pattern, reader)]  # type: ignore[arg-type]


def test_titles_and_texts_come_from_dictionaries_packages_and_libraries(tmp_path: Path) -> None:
    (tmp_path / "data.noun").write_text(
        "  1 This software and database is being provided to you\n"
        "00976953 04 n 02 light_year 0 parsec 0 001 @ 00975452 n 0000 | how far light goes in one year of the earth\n",
        encoding="utf-8",
    )
    assert found(tmp_path, "data.*", wordnet) == [("light year, parsec", "how far light goes in one year of the earth")]
    (tmp_path / "Translation-en").write_text(
        "Package: knots\nDescription-en: draws knots (debug files)\n It draws all knots of up to ten crossings.\n .\n"
        " It also untangles them.\n\nPackage: other\nDescription-md5: 0\n",
        encoding="utf-8",
    )
    assert found(tmp_path, "*Translation-en", packages) == [
        ("draws knots", "It draws all knots of up to ten crossings. It also untangles them.")
    ]
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr(
            "a/graphs.py",
            'def chromatic_polynomial(g):\n    """Return the :class:`~a.Poly` that counts colourings of ``g``.\n\n'
            '    EXAMPLES::\n\n        sage: chromatic_polynomial(k3)\n    """\n',
        )
        archive.writestr("a/broken.py", "def (:\n")
        archive.writestr(
            "a/fast.pyx", 'cpdef int girth(g):\n    """The length of a shortest cycle, infinite in a tree."""\n'
        )
    assert found(tmp_path, "*.whl", libraries) == [
        ("chromatic polynomial", "Return the a.Poly that counts colourings of g."),
        ("girth", "The length of a shortest cycle, infinite in a tree."),
    ]


def test_titles_and_texts_come_from_manuals_speeches_and_formal_theorems(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<title>x</title><p>before</p><h1>girth -- the length of a shortest cycle</h1><h2>Synopsis</h2><p>girth(G)</p>"
        "<h2>Description</h2><p>A tree has no <b>cycle</b>, so its girth is infinite.</p><pre>girth T</pre>"
        "<h2>1.2 HTML5 measures ¶</h2><p>The longest cycle is its circumference, if there is one.</p>",
        encoding="utf-8",
    )
    assert found(tmp_path, "*.html", pages) == [
        ("the length of a shortest cycle", "A tree has no cycle, so its girth is infinite."),
        ("HTML5 measures", "The longest cycle is its circumference, if there is one."),
    ]
    sentences = [f"Sentence number {number} of the speech." for number in range(9)]
    (tmp_path / "1.json").write_text(json.dumps({"text": " ".join(sentences)}), encoding="utf-8")
    assert found(tmp_path, "1.json", speeches) == [(sentences[0], " ".join(sentences[1:8]))]
    (tmp_path / "set.mm").write_text(
        "$( The sum of two even numbers ` A ` is even again.  (Contributed by X, 1-Jan-2000.) $)\n"
        "  evadd $p |- ( ( A e. Even /\\ B e. Even ) -> ( A + B ) e. Even ) $= abc $.\n"
        "$( Inference that joins two even numbers into one. $)\n  inf $p |- ( A e. Even ) $= abc $.\n"
        "$( Lemma for ~ evadd : one of the cases that are needed. $)\n"
        "  lem $p |- ( A e. Even -> A e. Even ) $= abc $.\n"
        'latexdef "e." as "\\in";\nlatexdef "/\\" as "\\wedge";\nlatexdef "->" as \'\\rightarrow\';\n',
        encoding="utf-8",
    )
    assert found(tmp_path, "set.mm", metamath) == [
        (
            "The sum of two even numbers is even again.",
            "( ( A \\in Even \\wedge B \\in Even ) \\rightarrow ( A + B ) \\in Even )",
        )
    ]


def test_titles_that_repeat_a_query_of_validation_are_left_out(tmp_path: Path) -> None:
    records = [
        {"id": "1", "title": "Chromatic polynomial", "abstract": "x"},
        {"id": "2", "title": "girth", "abstract": "y"},
    ]
    source, table = tmp_path / "s.jsonl", tmp_path / "queries.tsv"
    source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    table.write_text("query\tid\npolynomial, chromatic\t-\n", encoding="utf-8")
    out = general(source, [table], tmp_path / "out" / "s.jsonl")
    assert [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] == records[1:]


def test_the_model_before_is_restored_once_and_again_when_it_is_another(tmp_path: Path) -> None:
    model, out = tmp_path / "onnx", tmp_path / "out"
    shutil.copytree(PACKAGED[DEFAULT], model)
    modules = restored(model, out) / "modules.json"
    first = modules.stat().st_mtime_ns
    assert restored(model, out) == out
    assert modules.stat().st_mtime_ns == first
    later = (first // 10**9) + 10
    os.utime(model / "model.onnx", (later, later))
    restored(model, out)
    assert modules.stat().st_mtime_ns != first


def test_the_model_has_a_share_of_the_original_weights(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    for name, value in (("learned", 1.0), ("original", 0.0)):
        (tmp_path / name).mkdir()
        weights = {"w": np.full(3, value, np.float32)}
        numpy.save_file(
            {**weights, "ids": weights["w"]} if name == "original" else weights, tmp_path / name / "model.safetensors"
        )
    averaged({tmp_path / "learned": 0.75, tmp_path / "original": 0.25}, tmp_path / "out")
    mixed = numpy.load_file(tmp_path / "out" / "model.safetensors")
    assert mixed.keys() == {"w"}
    np.testing.assert_allclose(mixed["w"], 0.75)
