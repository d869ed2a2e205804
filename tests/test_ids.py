"""Ids are unique by construction and stable: nothing is merged, nothing is lost, nothing is renamed later."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import tar, write

from lemmata.project import Project

MAIN = "\\documentclass{article}\\newtheorem{thm}{Theorem}\n\\begin{document}\n%s\n\\end{document}\n"


def theorem(text: str, label: str = "same") -> str:
    return MAIN % f"\\begin{{thm}}\\label{{{label}}} {text} \\end{{thm}}"


def texts(project: Project) -> dict[str, str]:
    """The text of every passage, by id."""
    with contextlib.closing(project.corpus) as corpus:
        return {passage.id: passage.text for passage in corpus}


def documents(project: Project) -> list[str]:
    with contextlib.closing(project.corpus) as corpus:
        return [document.id for document in corpus.documents()]


def targets(project: Project, identity: str) -> list[str | None]:
    """Where the links of a passage lead."""
    with contextlib.closing(project.corpus) as corpus:
        return [link.target for link in corpus[corpus.row(identity)].links]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.init(tmp_path / "workspace")


def test_two_papers_of_the_same_name_are_two_documents(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"A/main.tex": theorem("Cats purr."), "B/main.tex": theorem("Dogs bark.")})
    report = project.ingest([tmp_path / "A", tmp_path / "B"])
    assert documents(project) == ["B/main", "main"]
    assert texts(project) == {"main#same": "Cats purr.", "B/main#same": "Dogs bark."}
    assert (report.added, report.documents) == (2, 2)
    (rename,) = report.renamed
    assert str(rename).endswith("B/main.tex is document B/main: main is taken by " + str(tmp_path / "A/main.tex"))


def test_two_files_of_the_same_name_given_by_path_are_two_documents(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"A/main.tex": theorem("Cats purr."), "B/main.tex": theorem("Dogs bark."), "C/main.md": "Third."})
    project.ingest([tmp_path / "A/main.tex", tmp_path / "B/main.tex", tmp_path / "C/main.md"])
    assert documents(project) == ["B/main", "C/main", "main"]


def test_a_text_beside_a_markdown_file_of_the_same_name_keeps_its_suffix(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"A/x.md": "First one.", "A/x.txt": "Second one."})
    project.ingest([tmp_path / "A"])
    assert texts(project) == {"x@1": "First one.", "x.txt@1": "Second one."}


def test_a_file_that_is_added_later_takes_no_id_from_another(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"A/x.txt": "Second one."})
    project.ingest([tmp_path / "A"])
    write(tmp_path, {"A/x.md": "First one.", "A/x.tex": theorem("Third.")})
    project.ingest([tmp_path / "A"])
    assert texts(project) == {"x@1": "Second one.", "x.md@1": "First one.", "x.tex#same": "Third."}
    (tmp_path / "A/x.txt").unlink()
    project.ingest([tmp_path / "A"], again=True)
    assert sorted(texts(project)) == ["x.md@1", "x.tex#same"]


def test_ids_stay_whatever_is_ingested_again_and_in_which_order(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {f"{name}/main.tex": theorem(f"Text of {name}.") for name in ("A", "B", "deep/B")})
    roots = [tmp_path / "A", tmp_path / "B", tmp_path / "deep/B"]
    project.ingest(roots)
    before = texts(project)
    assert before == {
        "main#same": "Text of A.",
        "B/main#same": "Text of B.",
        "deep/B/main#same": "Text of deep/B.",
    }
    for again in ([roots[1]], roots[::-1], [roots[2], roots[0]]):
        project.ingest(again, again=True)
        assert texts(project) == before
    write(tmp_path, {"B/main.tex": theorem("Text of B.") + "% changed\n"})
    shutil.rmtree(tmp_path / "A")
    project.remove([roots[0]])
    project.ingest([roots[1]])
    assert texts(project) == {name: text for name, text in before.items() if not name.startswith("main")}


def test_two_tables_whose_ids_both_start_at_1_keep_all_their_logs(project: Project, tmp_path: Path) -> None:
    rows = "id,text,related\n1,pump of {0},\n2,again {0},1\n3,fixed {0},2;1\n"
    write(tmp_path, {"logs/2023.csv": rows.format("2023"), "logs/2024.csv": rows.format("2024") + "9,late,2023\n"})
    for _ in range(2):
        project.ingest([tmp_path / "logs"], again=True)
        assert texts(project) == {
            "1": "pump of 2023", "2": "again 2023", "3": "fixed 2023",
            "2024/1": "pump of 2024", "2024/2": "again 2024", "2024/3": "fixed 2024", "2024/9": "late",
        }  # fmt: skip
        assert (targets(project, "2024/3"), targets(project, "3")) == (["2024/2", "2024/1"], ["2", "1"])
    assert any("2024" in skip.cause for skip in project.corpus.skips())


def test_tables_of_the_same_name_and_the_same_ids_keep_all_their_logs(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {f"{name}/logs.csv": f"id,text\n1,text of {name}\n" for name in "AB"})
    write(tmp_path, {f"{name}/plain.csv": f"nr,text\n1,row of {name}\n" for name in "AB"})
    project.ingest([tmp_path / "A", tmp_path / "B"])
    assert texts(project) == {
        "1": "text of A", "B/logs/1": "text of B", "plain:1": "row of A", "B/plain:1": "row of B",
    }  # fmt: skip
    assert documents(project) == ["B/logs", "B/plain", "logs", "plain"]


def test_a_log_that_comes_later_with_the_id_of_another_table_is_renamed_alone(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"t/a.csv": "id,text\n1,one\n", "t/b.csv": "id,text\n2,two\n"})
    project.ingest([tmp_path / "t"])
    write(tmp_path, {"t/a.csv": "id,text,related\n1,one,\n2,new,\n3,next,2\n"})
    for _ in range(2):
        report = project.ingest([tmp_path / "t"], again=True)
        assert texts(project) == {"1": "one", "2": "two", "2~2": "new", "3": "next"}
    assert targets(project, "3") == ["2~2"]
    assert any("2~2" in skip.cause and skip.line == 3 for skip in project.skips())
    assert [rename.id for rename in report.renamed] == ["2~2"]
    (tmp_path / "t/b.csv").unlink()
    project.ingest([tmp_path / "t"], again=True)
    assert texts(project) == {"1": "one", "2~2": "new", "3": "next"}


def test_two_beir_folders_with_the_same_ids_keep_all_their_passages(project: Project, tmp_path: Path) -> None:
    for name in ("one", "two"):
        rows = [{"_id": str(n), "text": f"{n} of {name}", "links": ["1"]} for n in (1, 2)]
        write(tmp_path, {f"{name}/corpus.jsonl": "\n".join(map(json.dumps, rows))})
    project.ingest([tmp_path / "one", tmp_path / "two"])
    assert texts(project) == {"1": "1 of one", "2": "2 of one", "two/1": "1 of two", "two/2": "2 of two"}
    assert targets(project, "two/2") == ["two/1"]
    assert "two/2" in documents(project)


def test_shards_may_share_a_document_that_their_rows_name(project: Project, tmp_path: Path) -> None:
    for number in (1, 2):
        row = {"id": f"p{number}", "text": f"part {number}", "document": "book", "title": "The book"}
        write(tmp_path, {f"shards/{number}.jsonl": json.dumps(row)})
    project.ingest([tmp_path / "shards"])
    assert (sorted(texts(project)), documents(project)) == (["p1", "p2"], ["book"])
    (tmp_path / "shards/1.jsonl").unlink()
    project.ingest([tmp_path / "shards"])
    assert (sorted(texts(project)), documents(project)) == (["p2"], ["book"])


def test_archives_whose_papers_have_the_same_names_keep_all_of_them(project: Project, tmp_path: Path) -> None:
    chapter = "\\input{pre}\n\\begin{document}\n%s\n\\end{document}\n"
    for name in "AB":
        files = {n: chapter % f"Words of {n} in {name}." for n in ("one.tex", "two.tex")}
        write(tmp_path, {f"{name}/book.tar.gz": tar({"pre.tex": "\\documentclass{book}", **files})})
    project.ingest([tmp_path / "A/book.tar.gz", tmp_path / "B/book.tar.gz"])
    assert sorted(texts(project)) == ["book/one@1", "book/two@1", "one@1", "two@1"]
    package = tar({"main.tex": MAIN % "In a folder."})
    write(tmp_path, {"C/book.tar.gz": package, "C/book/main.tex": MAIN % "Also here."})
    project.ingest([tmp_path / "C"])
    assert len(texts(project)) == 6


def test_a_paper_in_an_archive_and_a_file_that_would_have_its_id_are_both_kept(
    project: Project, tmp_path: Path
) -> None:
    chapter = "\\input{pre}\n\\begin{document}\n%s\n\\end{document}\n"
    book = {"pre.tex": "\\documentclass{book}", "one.tex": chapter % "In the archive.", "two.tex": chapter % "Two."}
    write(tmp_path, {"A/book.tar.gz": tar(book), "A/book/one.tex": MAIN % "In the folder."})
    for _ in range(2):
        project.ingest([tmp_path / "A"], again=True)
        assert sorted(texts(project).values()) == ["In the archive.", "In the folder.", "Two."]


def test_a_file_under_two_roots_is_read_once(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"X/a.md": "First.", "X/sub/b.md": "Second."})
    project.ingest([tmp_path / "X"])
    report = project.ingest([tmp_path / "X/sub"])
    assert sorted(texts(project)) == ["a@1", "sub/b@1"]
    assert (report.added, report.failed) == (0, 0)
    assert list(report.read_before) == [str(tmp_path / "X/sub/b.md")]
    cause = f"it was already read, with {tmp_path / 'X'}: 'lemmata ingest {tmp_path / 'X'}' updates it"
    assert [skip.cause for skip in project.corpus.skips() if skip.file == "b.md"] == [cause]
    other = Project.init(tmp_path / "other")
    other.ingest([tmp_path / "X/sub", tmp_path / "X", tmp_path / "X/a.md"])
    assert sorted(texts(other)) == ["a@1", "b@1"]
    other.remove([tmp_path / "X/sub"])
    other.ingest([tmp_path / "X"])
    assert sorted(texts(other)) == ["a@1", "sub/b@1"]


def test_files_of_the_same_name_are_told_apart_by_the_folders_above_them(project: Project, tmp_path: Path) -> None:
    rows = "id,text\n%s,Pump leaks.\n%s,\n"
    write(tmp_path, {"north/logs.csv": rows % ("n1", "n2"), "south/logs.csv": rows % ("s1", "s2")})
    write(tmp_path, {"south/only.md": "One of its name.", "book.tar.gz": tar({"main.tex": theorem("In the archive.")})})
    project.ingest([tmp_path / "north", tmp_path / "south", tmp_path / "book.tar.gz"])
    corpus = project.corpus
    places = {passage.id: f"{passage.file}:{passage.first_line}" for passage in corpus}
    assert places["n1"] == "north/logs.csv:2"
    assert places["s1"] == "south/logs.csv:2"
    assert places["only@1"] == "only.md:1"
    assert places["main#same"].startswith("book.tar.gz/main.tex:")
    notes = [(skip.file, skip.line) for skip in corpus.skips()]
    assert [note for note in notes if note[1]] == [("north/logs.csv", 3), ("south/logs.csv", 3)]
    assert {record["id"]: record["file"] for record in corpus.passage_records()}["s1"] == "south/logs.csv"
    files = {record["id"]: record["file"] for record in corpus.document_records()}
    assert files == {document.id: document.file for document in corpus.documents()}
    assert files["logs"] == "north/logs.csv"
    corpus.close()
    project.remove([tmp_path / "north"])
    corpus = project.corpus
    assert corpus[corpus.row("s1")].file == "logs.csv"
    corpus.close()


def test_locations_that_two_hierarchies_share_are_one(project: Project, tmp_path: Path) -> None:
    head = "id,parent,description\n"
    for name, title in (("A", "Kiln"), ("B", "Oven")):
        write(tmp_path, {f"{name}/hierarchy.csv": f"{head}P,,Plant\nK,P,{title}\n"})
    project.ingest([tmp_path / "A", tmp_path / "B"])
    corpus = project.corpus
    assert [document.id for document in corpus.documents()] == ["location:K", "location:P"]
    assert [(skip.file, skip.line) for skip in corpus.skips()] == [("B/hierarchy.csv", 0)]
    assert "'K'" in corpus.skips()[0].cause
    assert len(corpus.document("location:K").links) == 1
    corpus.close()
    project.remove([tmp_path / "A"])
    project.ingest([tmp_path / "B"])
    corpus = project.corpus
    assert {document.id: document.title for document in corpus.documents()} == {
        "location:K": "Oven",
        "location:P": "Plant",
    }
    assert corpus.document("location:K").links[0].target == "location:P"
    corpus.close()


def test_renamed_documents_keep_their_links(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"A/a.md": "See [b](b.md).", "B/a.md": "See [b](b.md).", "B/b.md": "Only here."})
    external = "\\externaldocument[Q-]{q}\n" + MAIN % "By \\ref{Q-x} it holds."
    write(tmp_path, {"A/p.tex": MAIN % "Other.", "B/p.tex": external, "B/q.tex": theorem("Claim.", "x")})
    project.ingest([tmp_path / "A", tmp_path / "B"])
    assert [targets(project, name) for name in ("B/a@1", "a@1", "B/p@1")] == [["b"], [None], ["q#x"]]


def test_rows_with_the_same_id_in_one_table_are_both_kept(project: Project, tmp_path: Path) -> None:
    rows = [{"id": "1", "text": "first"}, {"id": "1", "text": "second"}]
    write(tmp_path, {"p.jsonl": "\n".join(map(json.dumps, rows))})
    project.ingest([tmp_path / "p.jsonl"])
    assert texts(project) == {"1": "first", "1~2": "second"}


names = st.sampled_from(["main", "x", "a#b", "B/main", "A/x", "x.txt"])
suffixes = st.sampled_from([".tex", ".md", ".txt", ".csv", ".jsonl", ".tar.gz"])
files = st.dictionaries(st.tuples(names, suffixes), st.integers(1, 3), min_size=1, max_size=5)


@settings(max_examples=25)
@given(st.lists(files, min_size=1, max_size=3), st.lists(st.integers(0, 2), max_size=4), st.randoms())
def test_every_statement_is_there_once_and_keeps_its_id(
    trees: list[dict[tuple[str, str], int]], again: list[int], random: object
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        expected = []
        roots = []
        for tree, name in zip(trees, ("A", "B", "C/A"), strict=False):
            roots.append(base / name)
            for (stem, suffix), count in tree.items():
                lines = [
                    f"Sentence {n} of {name} {stem} {suffix[1:]} is as long as a passage of its own has to be."
                    for n in range(1, count + 1)
                ]
                expected += lines
                content: str | bytes = theorem("\\end{thm}\n\\begin{thm}".join(lines))
                if suffix in (".md", ".txt"):
                    content = "".join(f"# Heading\n\n{line}\n\n" for line in lines)
                    if suffix == ".txt":
                        content = lines[0]
                        expected = [line for line in expected if line not in lines[1:]]
                elif suffix == ".csv":
                    content = "id,text\n" + "".join(f"{n},{line}\n" for n, line in enumerate(lines, 1))
                elif suffix == ".jsonl":
                    content = "".join(json.dumps({"id": str(n), "text": t}) + "\n" for n, t in enumerate(lines, 1))
                elif suffix == ".tar.gz":
                    content = tar({"main.tex": str(content)})
                write(roots[-1], {stem + suffix: content})
        project = Project.init(base / "workspace")
        random.shuffle(roots)  # type: ignore[attr-defined]
        report = project.ingest(roots, workers=1)
        assert not report.failed
        before = texts(project)
        assert sorted(before.values()) == sorted(expected)
        for number in again:
            project.ingest([roots[number % len(roots)]], again=True, workers=1)
            assert texts(project) == before
