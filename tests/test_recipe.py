"""The recipe of lemmata-mini: what it does with its data before lemmata's own commands take over."""

from __future__ import annotations

import bz2
import gzip
import json
import random
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from recipes.lemmata_mini import science
from recipes.lemmata_mini.arrays import ENGLISH, PAPERS, SCIENCE, Arrays, Posed, add_sentences, add_titles, task_arrays
from recipes.lemmata_mini.audit import audit
from recipes.lemmata_mini.general import documents, libraries, metamath, packages, pages, speeches, wordnet
from recipes.lemmata_mini.make import audited, general, repeated
from recipes.lemmata_mini.science import SOURCES
from recipes.lemmata_plant.prepare import HERE as RECIPE
from recipes.lemmata_plant.prepare import VALIDATION
from recipes.lemmata_plant.texts import descriptions, phrases, wordings

from lemmata.corpus.leakage import normalise
from lemmata.evaluate.tasks import task_from

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


def test_texts_whose_title_many_have_are_left_out(tmp_path: Path) -> None:
    notes = "".join(f"<h2>Note{':' * (n % 2)}</h2><p>Of the {n} remarks in this manual, none.</p>" for n in range(21))
    twenty = "".join(f"<h2>Trees</h2><p>Of the {n} vertices of this tree, none is alone.</p>" for n in range(20))
    (tmp_path / "a.html").write_text(notes + twenty, encoding="utf-8")
    assert [title for title, _ in found(tmp_path, "*.html", pages)] == ["Trees"] * 20


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


def test_names_and_texts_come_from_ontologies_dictionaries_and_articles(tmp_path: Path) -> None:
    for name, content in {
        "dict-jargon/usr/share/dictd/jargon.dict.dz": gzip.compress(
            b"00-database-info\n  no entry of the dictionary\nbogon\n   The {quantum} of what is bogus in a field.\n"
        ),
        "psims/controlled_vocabulary/vendor/go.obo.gz": gzip.compress(
            b'[Term]\nname: budding\ndef: "The growth of a new cell (Ames 1999) on\\nthe \\"old\\" one." [x]\n'
            b'synonym: "cell  budding" EXACT []\nsynonym: "Budding" EXACT []\n\n'
            b'[Term]\nname: old\ndef: "The growth of a term that is no longer in use." [x]\nis_obsolete: true\n'
        ),
        "gensim/test/test_data/enwiki-latest-x.bz2": bz2.compress(
            b"<title>Tides</title><text a>{{box {{x}}}}\n== Cause ==\n'''Tides''' are the rise and fall of the [[sea "
            b"level|sea]] that is caused by the pull of the Moon and by the rotation of the Earth, twice on most days."
            b"\n== References ==\n" + b"x" * 200 + b"</text>"
        ),
    }.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(content)
    seen: set[str] = set()
    [bogon] = science.documents(tmp_path, "jargon", seen)
    assert (bogon["title"], bogon["abstract"]) == ("bogon", "The quantum of what is bogus in a field.")
    [budding] = science.documents(tmp_path, "gene-ontology", seen)
    assert budding["abstract"] == 'The growth of a new cell on the "old" one.'
    assert budding["queries"] == ["cell budding"]
    [tides] = science.documents(tmp_path, "wikipedia", seen)
    assert tides["title"] == "Tides: Cause"
    assert "fall of the sea that" in tides["abstract"]
    assert science.documents(tmp_path, "wikipedia", seen) == []  # each text once


def test_every_source_of_science_names_its_package_and_licence() -> None:
    assert all(source.licence and source.package.split()[0] in ("PyPI", "npm", "Debian") for source in SOURCES.values())


def test_titles_near_a_held_out_query_are_no_queries_but_their_texts_stay(tmp_path: Path) -> None:
    records = [
        {"title": "Chromatic polynomial", "abstract": "counts colourings", "queries": ["colour count"]},
        {"title": "girth", "abstract": "of a  graph", "queries": ["length of a shortest cycle", "held out"]},
        {"title": "bug", "abstract": "a fault", "source": "jargon"},
    ]
    (tmp_path / "science.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    arrays = Arrays()
    add_titles(arrays, tmp_path / "science.jsonl", 0.6, ["polynomial, chromatic", "Held out"])
    pairs = [(arrays.texts[query], arrays.texts[passage]) for query, passage, _ in arrays.pairs]
    assert pairs == [("girth", "of a graph"), ("length of a shortest cycle", "of a graph"), ("bug", "a fault")]
    assert "counts colourings" in arrays.texts
    assert arrays.domains[arrays.texts.index("girth")] == SCIENCE
    assert arrays.domains[arrays.texts.index("bug")] == ENGLISH


def test_a_sentence_of_an_abstract_asks_for_it_unless_it_is_held_out_or_the_first() -> None:
    arrays = Arrays()
    last = "The bound is attained by the ring of integers of every quadratic field."
    kept = "A second sentence is long enough to be asked, and it is not held out."
    text = f"We begin with the definition of what we count in this paper. {kept} It is short. {last}"
    arrays.pairs.append((arrays.add("a title", PAPERS), arrays.add(text, PAPERS), arrays.add_set("titles", 1)))
    add_sentences(arrays, {normalise(last)})
    [_, (query, passage, _)] = arrays.pairs
    assert (arrays.texts[query], arrays.texts[passage]) == (kept, text)
    assert list(arrays.sets) == ["titles", "sentences"]


def test_tasks_have_texts_of_their_own_and_leave_out_what_is_trained_on(tmp_path: Path) -> None:
    arrays = Arrays()
    arrays.pairs.append((arrays.add("flat modules", 0), arrays.add("a passage", 0), arrays.add_set("written", 3)))
    queries = {"1": "Flat  modules", "2": "catenary rings", "3": "nothing"}
    task = task_from("mathlib", queries, {"1": {"a": 1}, "2": {"b": 2, "a": 0}, "3": {"missing": 1}})
    task = replace(task, itself={"2": "a"}, candidates=np.array([False, True]))
    posed = Posed("mathlib", "mathlib", "MRR@10", "validation", task, tmp_path, ["a", "b"], ["a passage", "another"])
    [facts] = task_arrays(arrays, [posed], tmp_path)
    assert [arrays.texts[number] for number in range(*facts["passages"])] == ["a passage", "another"]
    assert [arrays.texts[number] for number in facts["queries"]] == ["catenary rings"]
    assert facts["grades"] == [{1: 2}]
    assert facts["itself"] == [0]
    assert np.load(tmp_path / facts["candidates"]).tolist() == [False, True]
    assert arrays.domains == [0, 0, -1, -1, -1]


def test_granite_is_read_from_integers_in_groups_with_their_scales() -> None:
    pytest.importorskip("safetensors")
    pytest.importorskip("onnx")
    from recipes.lemmata_mini.teachers import granite_weights

    shapes = {"word_emb": (6, 2), "pos_emb": (3, 2), "type_emb": (2, 2), "emb_ln.w": (2,), "emb_ln.b": (2,)}
    shapes |= {"l0.qkv.w": (6, 2), "l0.qkv.b": (6,)}
    shapes |= {f"l0.{part}.{kind}": (2,) for part in ("ao", "aln", "f1", "f2", "fln") for kind in "wb"}
    tensors, blocks = [], []
    for name, shape in shapes.items():
        values = np.arange(np.prod(shape), dtype=np.float32)
        block = values.astype(np.int8).tobytes() + np.array([1, 10, 100], np.float32).tobytes()
        blocks.append(block if name == "word_emb" else values.tobytes())
        dtype = "i8" if name == "word_emb" else "f32"
        tensors.append({"name": name, "shape": shape, "dtype": dtype, "len": len(blocks[-1])})
    keys = ("hidden", "layers", "heads", "intermediate", "vocab", "max_positions", "type_vocab", "layer_norm_eps")
    facts = json.dumps({"tokenizer_len": 2, "tensors": tensors, "arch": dict.fromkeys(keys, 1)}).encode()
    content = b"".join([b"HMSEMB01", struct.pack("<Q", len(facts)), facts, b"{}", *blocks])
    config, tokenizer, weights = granite_weights(content)
    assert (config["model_type"], tokenizer) == ("roberta", b"{}")
    expected = [[0, 1], [2, 3], [40, 50], [60, 70], [800, 900], [1000, 1100]]
    assert weights["embeddings.word_embeddings.weight"].tolist() == expected
    assert weights["encoder.layer.0.attention.self.key.weight"].tolist() == [[4, 5], [6, 7]]
    assert len(weights) == 5 + 16


def test_the_audit_names_queries_that_repeat_one_of_a_task(tmp_path: Path) -> None:
    arrays = Arrays()
    number = arrays.add_set("written", 3)
    for query in ("Flat modules over a ring!", "catenary rings"):
        arrays.pairs.append((arrays.add(query, 0), arrays.add("a passage", 0), number))
    task = task_from("own", {"a": "flat modules over a ring", "b": "something else"}, {"a": {"p": 1}, "b": {"p": 1}})
    posed = Posed("own", "mathematics", "MRR@10", "test", task, tmp_path, ["p"], ["a passage"])
    arrays.write(tmp_path, task_arrays(arrays, [posed], tmp_path))
    assert audit(tmp_path) == [("written", "Flat modules over a ring!", "own, test", "flat modules over a ring")]


def test_what_debian_says_of_packages_is_paired_by_language(tmp_path: Path) -> None:
    english, german = tmp_path / "Translation-en", tmp_path / "Translation-de"
    english.write_text(
        "Package: a\nDescription-md5: 1f\nDescription-en: fast sorter\n Sorts things\n quickly.\n .\n More of it.\n\n"
        "Package: b\nDescription-md5: 2f\nDescription-en: untranslated\n Nothing.\n",
        encoding="utf-8",
    )
    german.write_text(
        "Package: a\nDescription-md5: 1f\nDescription-de: schneller Sortierer\n Sortiert Dinge\n schnell.\n .\n Noch\n",
        encoding="utf-8",
    )
    assert list(descriptions(german, english)) == [
        ("schneller Sortierer", "fast sorter"),
        ("Sortiert Dinge schnell.", "Sorts things quickly."),
    ]


def test_no_wording_that_lemmata_plant_learns_is_one_that_it_is_measured_by() -> None:
    events = phrases(RECIPE / "written.txt")
    learnt = [text for event in events for side in event for text in side]
    assert min(len(side) for event in events for side in event) >= 2
    assert len({text.lower() for text in learnt}) == len(learnt)
    for name in VALIDATION:
        rows = [line.split("\t") for line in (RECIPE / name).read_text(encoding="utf-8").splitlines()]
        assert {len(row) for row in rows} == {2}
        asked = [text for row in rows for text in row]
        assert {text.lower() for text in asked}.isdisjoint(text.lower() for text in learnt)
        assert len(repeated(learnt, asked)) <= 1  # with four fifths of the words of one: beer that foams, torn film


def test_two_wordings_of_an_event_differ_and_are_mostly_of_two_languages() -> None:
    event, generator = (["Pumpe leckt", "Leck an Pumpe"], ["pump leaks", "leak at pump"]), random.Random(1)
    drawn = [wordings(generator, event) for _ in range(400)]
    assert all(first != second for first, second in drawn)
    assert 250 < sum(first in event[0] and second in event[1] for first, second in drawn) < 350
