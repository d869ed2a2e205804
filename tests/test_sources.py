from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import sys
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from tests.make import one_page, tar, write

from lemmata.core.errors import InputError
from lemmata.core.types import Skip
from lemmata.ingest.readers import IngestOptions, Unit, read_unit, read_whole_unit
from lemmata.ingest.sources import find_units
from lemmata.latex.mains import TexFile, format_file_of, read_tex_files, wrappers
from lemmata.project import Project

MAIN = "\\documentclass{article}\n\\begin{document}\n%s\n\\end{document}\n"


def units_of(path: Path, reader: str = "auto") -> list[tuple[str, str, str]]:
    return [(unit.reader, unit.path, unit.document) for unit in find_units(path, IngestOptions(reader=reader)).units]


def test_one_document_per_main_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"a.tex": MAIN % "\\input{sub/part}", "sub/part.tex": "text", "sub/b.ltx": MAIN % "b", "c.texx": MAIN % "c"},
    )
    assert units_of(tmp_path) == [("paper", "a.tex", "a"), ("paper", "c.texx", "c"), ("paper", "sub/b.ltx", "sub/b")]


def test_chapters_that_share_a_preamble_are_documents(tmp_path: Path) -> None:
    chapter = "\\input{preamble}\n\\begin{document}\nText.\n\\end{document}\n"
    write(tmp_path, {"preamble.tex": "\\documentclass{book}", "one.tex": chapter, "two.tex": chapter})
    assert units_of(tmp_path) == [("paper", "one.tex", "one"), ("paper", "two.tex", "two")]


def test_chapters_in_a_folder_use_the_bib_beside_them_or_above(tmp_path: Path) -> None:
    chapter = r"\documentclass{book}\begin{document}See \cite{a}.\end{document}"
    write(tmp_path, {"one.tex": chapter, "part/two.tex": chapter, "refs.bib": "@book{a, title={On Apples}}"})
    for unit in find_units(tmp_path, IngestOptions()).units:
        (reading,) = read_unit(tmp_path, unit, IngestOptions())
        assert [entry.title for entry in reading.references[unit.document]] == ["On Apples"]
        assert reading.files["refs.bib"]
    alone = find_units(tmp_path / "one.tex", IngestOptions())
    (reading,) = read_unit(alone.base, alone.units[0], IngestOptions())
    assert [entry.key for entry in reading.references["one"]] == ["a"]


BOOK = {
    "main.tex": "\\documentclass[\\size]{book}\\newtheorem{thm}{Theorem}\\begin{document}\\include{one}\\end{document}",
    "one.tex": "\\chapter{One}\\begin{thm}\\who{} sees it.\\end{thm}",
    "a4.tex": "\\input{size}\\newcommand{\\who}{Everybody}\n\\input{main}",
    "letter.tex": "\\def\\size{letterpaper}\\newcommand{\\who}{Somebody}\\input{main}",
    "a4-color.tex": "\\input{opt/color}",
    "opt/color.tex": "\\input{size}\\newcommand{\\who}{Nobody}\\input{main}",
    "size.tex": "\\def\\size{a4paper}",
    "errata.tex": "\\documentclass{article}\\input{size}\\begin{document}Page one is wrong.\\end{document}",
    "cover.tex": "\\input{size}\\documentclass{article}\\begin{document}The Book\\end{document}",
}


@pytest.mark.parametrize("packed", [False, True])
def test_wrappers_around_one_file_are_one_book_beside_other_documents(tmp_path: Path, packed: bool) -> None:
    folder = write(tmp_path, {"book.tar": tar(BOOK)} if packed else BOOK)
    source = find_units(folder, IngestOptions())
    readings = [reading for unit in source.units for reading in read_unit(source.base, unit, IngestOptions())]
    documents = {document.id.removeprefix("book/") for reading in readings for document in reading.documents}
    assert documents == {"a4", "cover", "errata"}
    statements = [passage.text for reading in readings for passage in reading.passages if passage.kind == "theorem"]
    assert statements == ["Everybody sees it."]  # with the macros of the wrapper
    skips = [*source.skips, *(skip for reading in readings for skip in reading.skips)]
    assert [(skip.file.removeprefix("book.tar/"), skip.cause) for skip in skips] == [
        ("letter.tex", "same book as a4.tex"),
        ("a4-color.tex", "same book as a4.tex"),
    ]


def test_a_wrapper_is_the_main_file_of_a_package_with_one_paper(tmp_path: Path) -> None:
    write(tmp_path, {"2001.00001.tar": tar(BOOK)})
    source = find_units(tmp_path / "2001.00001.tar", IngestOptions())
    (reading,) = read_unit(source.base, source.units[0], IngestOptions())
    assert reading.documents[0].metadata["main_file"] == "a4.tex"


def test_a_file_that_leads_to_several_documents_or_to_a_drawing_is_no_wrapper() -> None:
    texts = {
        "list.tex": "\\input{one}\\input{two}",
        "one.tex": MAIN % "One.",
        "two.tex": MAIN % "Two.",
        "chapter.tex": "\\input{drawing}",
        "drawing.tex": "\\documentclass{standalone}\\begin{document}x\\end{document}",
        "c.tex": "\\input{c2}",
        "c2.tex": "\\input{c}\\input{one}",  # the two include each other: neither is a root
    }
    assert wrappers(read_tex_files(texts)) == {}


WRAPPER = r"\documentclass{article}\title{On Rings}\begin{document}\maketitle\includepdf[pages=-]{%s}\end{document}"


@pytest.mark.parametrize("name", ["body", "body.pdf"])
def test_a_paper_that_is_a_pdf_in_a_wrapper_is_read_from_a_folder_and_an_archive(tmp_path: Path, name: str) -> None:
    text = "Every finite ring without zero divisors is a field, as Wedderburn has shown."
    files: dict[str, str | bytes] = {
        "main.tex": WRAPPER % name,
        "body.pdf": one_page(text),
        "figs/one.pdf": one_page("x"),
    }
    folder = write(tmp_path / "folder", files)
    write(tmp_path, {"2001.00001.tar.gz": tar(files)})
    for path, document in ((folder, "main"), (tmp_path / "2001.00001.tar.gz", "2001.00001")):
        source = find_units(path, IngestOptions())
        (unit,) = source.units
        (reading,) = read_unit(source.base, unit, IngestOptions())
        assert [(p.id, p.text, p.file) for p in reading.passages] == [(f"{document}@1", text, "body.pdf")]
        assert reading.passages[0].metadata["page"] == 1
        assert (reading.documents[0].title, reading.skips) == ("On Rings", [])
    assert find_units(folder, IngestOptions()).units[0].path == "main.tex"


def test_a_missing_pdf_and_a_pdf_beside_real_text_are_noted(tmp_path: Path) -> None:
    words = "There is enough text here. " * 60
    write(
        tmp_path,
        {"a.tex": WRAPPER % "gone", "b.tex": WRAPPER.replace(r"\maketitle", words) % "b", "b.pdf": one_page("x")},
    )
    causes = {}
    for unit in find_units(tmp_path, IngestOptions()).units:
        (reading,) = read_unit(tmp_path, unit, IngestOptions())
        causes[unit.path] = [skip.cause for skip in reading.skips]
    assert causes["a.tex"][0] == "the text is in gone.pdf, which does not exist or is too large"
    assert causes["b.tex"] == ["the included b.pdf is not read, as the paper has text of its own"]


def test_a_wrapped_pdf_names_the_extra_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)  # as if it were not installed
    write(tmp_path, {"a.tex": WRAPPER % "a", "a.pdf": one_page("words")})
    (unit,) = find_units(tmp_path, IngestOptions()).units
    (reading,) = read_unit(tmp_path, unit, IngestOptions())
    assert [(skip.file, skip.cause) for skip in reading.skips] == [
        ("a.tex", "the text is in a.pdf: this needs pypdfium2: pip install 'lemmata[pdf]'"),
        ("a.tex", "it contains no text"),
    ]


def test_dates_of_a_side_file_are_iso_and_unclear_ones_are_noted(tmp_path: Path) -> None:
    rows = '{"id": "old", "date": "31.12.2019"}\n{"id": "odd", "created": "03/04/2019"}\n{"id": "year", "date": 2019}\n'
    write(tmp_path, {"metadata.jsonl": rows, "old.md": "Words.", "odd.md": "Words.", "year.md": "Words."})
    source = find_units(tmp_path, IngestOptions())
    readings = [reading for unit in source.units for reading in read_unit(tmp_path, unit, IngestOptions())]
    documents = {document.id: document for reading in readings for document in reading.documents}
    assert {name: document.date for name, document in documents.items()} == {
        "odd": None,
        "old": "2019-12-31",
        "year": "2019",
    }
    assert documents["odd"].metadata == {"date": "03/04/2019"}
    assert source.skips == [Skip("metadata.jsonl", 2, "'odd' is kept without its unclear date '03/04/2019'")]


def test_old_copies_and_orphans_are_skipped_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path, {"a.tex": MAIN % "a", "a_old.tex": MAIN % "a", "left.tex": "no one includes me"})
    source = find_units(tmp_path, IngestOptions())
    assert [unit.path for unit in source.units] == ["a.tex"]
    assert {skip.file: skip.cause for skip in source.skips} == {
        "a_old.tex": "looks like an old copy of a.tex",
        "left.tex": "no main file includes it",
    }


def test_finding_papers_keeps_none_of_their_texts(tmp_path: Path) -> None:
    write(tmp_path, {f"{number}.tex": MAIN % ("word " * 400_000) for number in range(8)})
    tracemalloc.start()
    try:
        assert len(find_units(tmp_path, IngestOptions()).units) == 8
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12_000_000  # one file of 2 MB, decoded and normalised, not all eight


def test_a_fragment_without_any_main_file_is_read_with_low_confidence(tmp_path: Path) -> None:
    write(tmp_path, {"note.tex": "\\begin{lemma} Alone. \\end{lemma}"})
    (unit,) = find_units(tmp_path, IngestOptions()).units
    assert unit.confidence < 0.5


def test_junk_is_ignored(tmp_path: Path) -> None:
    junk: dict[str, str | bytes] = {
        "__MACOSX/a.tex": MAIN,
        "._a.tex": MAIN,
        ".git/x.tex": MAIN,
        "a.tex~": MAIN,
        "fig.png": b"\x89PNG",
        "x.aux": "y",
    }
    write(tmp_path, {"a.tex": MAIN % "a", **junk})
    assert units_of(tmp_path) == [("paper", "a.tex", "a")]


@pytest.mark.parametrize(("name", "cure"), [("logs.xlsx", "CSV"), ("report.docx", "PDF"), ("old.xls", "CSV")])
def test_a_file_of_an_office_program_is_named_with_its_cure(tmp_path: Path, name: str, cure: str) -> None:
    (tmp_path / "notes").mkdir()
    file = tmp_path / "notes" / name
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    (tmp_path / "notes" / "a.md").write_text("Some words.")
    project = Project.init(tmp_path / "w")
    assert project.ingest([tmp_path / "notes"]).failures == {}
    (skip,) = project.corpus.skips()
    assert skip.file == name
    assert cure in skip.cause
    with pytest.raises(InputError, match=cure):
        project.ingest([file])


def test_files_that_no_reader_takes_are_one_skip_per_suffix(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "NOTES": "Words.", "b/x.org": "Words.", "c/y.org": "Words.", "page.html": "<p>", "tool.bin": b"\0\1\2\3",
        "a.tex": MAIN % "\\input{part.inc}", "part.inc": "Words.",
        "figures/f.eps": "%!PS", "a.aux": "y", "a.synctex.gz": gzip.compress(b"y"), "LICENSE": "Free.",
        "Makefile": "all:", "empty.org2": "", ".hidden": "y",
    }  # fmt: skip
    source = find_units(write(tmp_path, files), IngestOptions())
    assert [unit.path for unit in source.units] == ["a.tex"]
    cure = ": name a file to read it as text"
    assert sorted((skip.file, skip.cause) for skip in source.skips) == [
        ("NOTES", "1 file without a suffix is not read" + cure),
        ("b/x.org", "2 files with the suffix .org are not read, first b/x.org" + cure),
        ("page.html", "1 file with the suffix .html is not read" + cure),
        ("tool.bin", "1 file with the suffix .bin is not read: it is binary data, not text"),
    ]


def test_what_a_workspace_keeps_beside_its_sources_is_not_read_and_a_folder_of_the_user_is_noted(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"a.md": "Some words about trees.", "inner/lemmata.toml": "", "inner/models/note.md": "Mine."})
    project = Project.init(tmp_path)
    project.ingest([tmp_path])
    project.index(settings={"encoder": "hashing"})
    write(tmp_path, {"synonyms.txt": "tree: graph without cycles\n"})
    project.ingest([tmp_path])
    assert project.corpus.document_ids() == ["a"]
    assert [(skip.file, skip.cause) for skip in project.corpus.skips()] == [
        ("inner/models", "the folder was not read: a workspace has its own files there: rename it")
    ]


PDF = b"%PDF-1.4"
NAMED = "; name a file to read it"


def test_a_pdf_in_a_folder_of_figures_is_not_read_and_noted(tmp_path: Path) -> None:
    write(tmp_path, {"p/a.tex": MAIN % "a", "p/figures/f.pdf": PDF, "p/figures/g.pdf": PDF, "books/figures/b.pdf": PDF})
    assert units_of(tmp_path) == [("pdf", "books/figures/b.pdf", "books/figures/b"), ("paper", "p/a.tex", "p/a")]
    cause = "2 PDFs of this folder are no documents of their own: they lie in a folder of figures"
    assert find_units(tmp_path, IngestOptions()).skips == [Skip("p/figures/f.pdf", 0, cause + NAMED)]


@pytest.mark.parametrize("pdf", ["sylow.pdf", "papers/sylow.pdf"])
def test_a_tex_file_beside_pdfs_that_it_does_not_include_hides_none_of_them(tmp_path: Path, pdf: str) -> None:
    files: dict[str, str | bytes] = {
        pdf: PDF,
        "photo.png": b"\x89PNG\0\1\2",
        "papers/run.log": "Words.",
        "papers/empty.pdf": b"",
    }
    before = find_units(write(tmp_path, files), IngestOptions())
    assert {skip.file for skip in before.skips} == {"photo.png", "papers/run.log", "papers/empty.pdf"}
    write(tmp_path, {"mynote.tex": MAIN % "We use \\cite{sylow}, see \\ref{sylow}."})
    after = find_units(tmp_path, IngestOptions())
    assert [unit.path for unit in after.units] == ["mynote.tex", pdf]
    assert sorted(after.skips) == sorted(before.skips)


def test_a_pdf_that_a_tex_file_includes_or_was_compiled_to_is_noted(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a/main.tex": MAIN % "\\includegraphics[width=3cm]{curve}\\includegraphics{photo}",
        "a/main.pdf": PDF,
        "a/curve.pdf": PDF,
        "a/photo.png": b"\x89PNG",
        "a/other.pdf": PDF,
        "left.tex": "This is not a paper, as it lies beside one.",
        "left.pdf": PDF,
        "paper.tex": MAIN % "a",
    }
    source = find_units(write(tmp_path, files), IngestOptions())
    assert [unit.path for unit in source.units] == ["a/main.tex", "a/other.pdf", "left.pdf", "paper.tex"]
    start = "this PDF is no document of its own: "
    assert {skip.file: skip.cause for skip in source.skips} == {
        "a/curve.pdf": f"{start}a TeX file includes it{NAMED}",
        "a/main.pdf": f"{start}it was compiled from the TeX file of the same name{NAMED}",
        "left.tex": "no main file includes it",
    }


def test_content_decides_before_the_name(tmp_path: Path) -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("main.tex", MAIN % "a zip")
    write(
        tmp_path,
        {
            "2004.00001.gz": gzip.compress((MAIN % "one file").encode()),
            "2004.00002.gz": tar({"ms.tex": MAIN % "a tar"}),
            "2004.00003v2.tar.gz": zipped.getvalue(),
            "plain.tar.gz": MAIN % "no archive at all",
            "table.csv.gz": gzip.compress(b"id,text\n1,x\n"),
        },
    )
    assert units_of(tmp_path) == [
        ("package", "2004.00001.gz", "2004.00001"),
        ("package", "2004.00002.gz", "2004.00002"),
        ("package", "2004.00003v2.tar.gz", "2004.00003"),
        ("paper", "plain.tar.gz", "plain"),
        ("logs", "table.csv.gz", "table"),
    ]
    options = IngestOptions()
    for unit in find_units(tmp_path, options).units[:4]:
        (reading,) = read_unit(tmp_path, unit, options)
        assert [p.id for p in reading.passages] == [f"{unit.document}@1"]


def test_a_book_in_an_archive_keeps_its_chapters(tmp_path: Path) -> None:
    chapter = "\\input{pre}\n\\begin{document}\nWords here.\n\\end{document}\n"
    write(tmp_path, {"book.tar.gz": tar({"pre.tex": "\\documentclass{book}", "one.tex": chapter, "two.tex": chapter})})
    options = IngestOptions()
    (unit,) = find_units(tmp_path / "book.tar.gz", options).units
    assert [r.documents[0].id for r in read_unit(tmp_path, unit, options)] == ["one", "two"]
    (unit,) = find_units(tmp_path, options).units
    assert [r.documents[0].id for r in read_unit(tmp_path, unit, options)] == ["book/one", "book/two"]


def test_tables_and_texts_in_an_archive_are_one_skip(tmp_path: Path) -> None:
    others = {"notes.md": "Notes.", "data/t.csv": "id,text\n1,x\n", "README.md": "r", "f.png": "p"}
    write(tmp_path, {"work.tar.gz": tar({"main.tex": MAIN % "Some words.", **others})})
    options = IngestOptions()
    (unit,) = find_units(tmp_path, options).units
    (reading,) = read_unit(tmp_path, unit, options)
    cause = "2 files that are no LaTeX were not read, first notes.md: unpack the archive to read such files"
    assert reading.skips == [("work.tar.gz", 0, cause)]


def test_units_ask_for_their_path_as_id_even_where_two_are_equal(tmp_path: Path) -> None:
    write(tmp_path, {"a.tex": MAIN % "a", "a.md": "# A\n\ntext"})
    assert units_of(tmp_path) == [("text", "a.md", "a"), ("paper", "a.tex", "a")]


def test_json_lines_are_logs_when_they_have_a_location(tmp_path: Path) -> None:
    write(tmp_path, {"l.jsonl": '{"id": 1, "text": "x", "location": "P"}\n', "p.jsonl": '{"id": 1, "text": "x"}\n'})
    assert units_of(tmp_path) == [("logs", "l.jsonl", "l"), ("passages", "p.jsonl", "p")]


@pytest.mark.parametrize("reader", ["logs", "papers", "text", "hierarchy"])
def test_what_a_named_reader_does_not_take_is_a_skip(tmp_path: Path, reader: str) -> None:
    files: dict[str, str | bytes] = {
        "logs.csv": "id,text\n1,leak\n",
        "hierarchy.csv": "id,parent,description\nA,,plant\n",
        "more.jsonl": '{"id": 2, "text": "leak"}\n',
        "notes.md": "Words.",
        "paper.tex": "\\documentclass{article}\\begin{document}Words.\\end{document}",
    }
    write(tmp_path, files)
    source = find_units(tmp_path, IngestOptions(reader=reader))
    taken = {
        "logs": {"logs.csv", "hierarchy.csv", "more.jsonl"},
        "papers": {"paper.tex"},
        "text": {"notes.md"},
        "hierarchy": {"hierarchy.csv", "logs.csv"},
    }[reader]
    assert {unit.path for unit in source.units} == taken
    assert {skip.file for skip in source.skips} == files.keys() - taken
    assert {skip.cause for skip in source.skips} == {f"it is nothing for the reader {reader}"}


def test_a_hierarchy_is_recognised_by_its_columns(tmp_path: Path) -> None:
    hierarchy, logs = "id;parent;description\nA;;plant\n", "id,text,parent,description\n1,leak,A,x\n"
    write(tmp_path, {"places.csv": hierarchy, "orders.csv": logs, "hierarchy.csv": "id,parent,description\n"})
    readers = {path: reader for reader, path, _ in units_of(tmp_path)}
    assert readers == {"places.csv": "hierarchy", "orders.csv": "logs", "hierarchy.csv": "hierarchy"}
    assert {reader for reader, _, _ in units_of(tmp_path, "hierarchy")} == {"hierarchy"}


@pytest.mark.parametrize(
    ("header", "reader"),
    [
        ("Equipment;Übergeordnet;Bezeichnung;Erstellt am", "hierarchy"),
        ("\ufeffTechn. Platz;Bezeichnung;Übergeordneter Techn. Platz", "hierarchy"),
        ("Meldung;Datum;Techn. Platz;Übergeordnetes Equipment;Kurztext", "logs"),
        ("WO_ID;PARENT_WO;EQUIP;DESCRIPTION", "logs"),
    ],
)
def test_a_table_with_a_parent_is_a_hierarchy_unless_its_rows_are_events(
    tmp_path: Path, header: str, reader: str
) -> None:
    write(tmp_path, {"export.csv": f"{header}\nA;B;C;D\n"})
    assert [found for found, _, _ in units_of(tmp_path)] == [reader]


def test_compressed_parquet_is_read_up_to_the_size_of_other_files(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    parquet.write_table(arrow.table({"id": ["1"], "text": ["Leak."]}), stream)
    write(tmp_path, {"logs.parquet.gz": gzip.compress(stream.getvalue())})
    (unit,) = find_units(tmp_path, IngestOptions()).units
    (reading,) = read_unit(tmp_path, unit, IngestOptions())
    assert [passage.text for passage in reading.passages] == ["Leak."]
    write(tmp_path, {"logs.parquet.gz": gzip.compress(bytes(65 << 20), 1)})
    with pytest.raises(InputError, match=r"logs\.parquet"):
        list(read_unit(tmp_path, unit, IngestOptions()))


def test_the_user_can_choose_the_reader(tmp_path: Path) -> None:
    write(tmp_path, {"l.csv": "id,text\n1,x\n", "a.tex": MAIN % "a", "n.md": "text"})
    assert units_of(tmp_path, "papers") == [("paper", "a.tex", "a")]
    assert units_of(tmp_path, "text") == [("text", "n.md", "n")]
    assert units_of(tmp_path / "l.csv", "passages") == [("passages", "l.csv", "l")]


def test_links_that_leave_the_folder_are_not_followed(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"secret.tex": "the secret", "in/a.tex": MAIN % "\\input{../secret}\\input{link}\\input{/etc/passwd} Text."},
    )
    (tmp_path / "in" / "link.tex").symlink_to(tmp_path / "secret.tex")
    options = IngestOptions()
    source = find_units(tmp_path / "in", options)
    (reading,) = read_unit(source.base, source.units[0], options)
    assert "secret" not in " ".join(p.text for p in reading.passages)
    assert len(reading.skips) == 3


def test_every_link_that_is_not_followed_is_noted(tmp_path: Path) -> None:
    write(tmp_path, {"out.md": "Words.", "in/a.md": "Words.", "in/b/c.md": "Words."})
    for link, target in (("in/out.md", "out.md"), ("in/gone.md", "gone.md"), ("in/d", "in/b"), ("in/e.md", "in/a.md")):
        (tmp_path / link).symlink_to(tmp_path / target)
    source = find_units(tmp_path / "in", IngestOptions())
    assert [unit.path for unit in source.units] == ["a.md", "b/c.md", "e.md"]
    assert source.skips == [
        Skip("d", 0, "the folder was not read: it is a link that is not followed"),
        Skip("gone.md", 0, "it is a link that is not followed"),
        Skip("out.md", 0, "it is a link that is not followed"),
    ]


def test_a_link_that_the_user_names_is_read_but_no_link_that_it_includes(tmp_path: Path) -> None:
    write(tmp_path, {"else/a.tex": MAIN % "Words. \\input{b}\\input{c}", "else/b.tex": "Secret.", "in/c.tex": "More."})
    for name in ("a.tex", "b.tex"):
        (tmp_path / "in" / name).symlink_to(tmp_path / "else" / name)
    source = find_units(tmp_path / "in/a.tex", IngestOptions())
    (reading,) = read_unit(source.base, source.units[0], IngestOptions())
    assert [passage.text for passage in reading.passages] == ["Words. More."]
    assert [skip.cause for skip in reading.skips] == ["included file 'b' does not exist"]


def test_logs_and_pictures_need_a_note_unless_a_paper_is_near(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "papers/a.tex": MAIN % "a", "papers/a.log": "y", "papers/figures/x.png": b"\x89PNG\r\n\x1a\n\0\0\0\1",
        "refs.bib": "@book{a, title={On Apples}}",
        "plant/pump.log": "Leak.", "plant/pump.out": "", "plant/x.png": b"\x89PNG\r\n\x1a\n\0\0\0\1",
    }  # fmt: skip
    source = find_units(write(tmp_path, files), IngestOptions())
    assert [unit.path for unit in source.units] == ["papers/a.tex"]
    assert source.skips == [
        Skip("plant/pump.log", 0, "1 file with the suffix .log is not read: name a file to read it as text"),
        Skip("plant/x.png", 0, "1 file with the suffix .png is not read: it is binary data, not text"),
    ]


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, {"a.tex": MAIN % "\\input{pipe} Text."})
    os.mkfifo(tmp_path / "pipe.tex")
    assert units_of(tmp_path) == [("paper", "a.tex", "a")]
    with pytest.raises(InputError, match=r"pipe\.tex"):
        find_units(tmp_path / "pipe.tex", IngestOptions())


def test_a_unit_that_vanished_gives_one_sentence(tmp_path: Path) -> None:
    result = read_whole_unit((tmp_path, Unit("paper", "gone.tex", "gone"), IngestOptions()))
    assert isinstance(result, str)
    result = read_whole_unit((tmp_path, Unit("text", "gone.md", "gone"), IngestOptions()))
    assert isinstance(result, str)


@pytest.mark.parametrize("packed", [False, True])
def test_the_macros_of_a_dumped_format_belong_to_the_book_beside_it(tmp_path: Path, packed: bool) -> None:
    book = tmp_path / "book"
    book.mkdir()
    (book / "macros.tex").write_text(
        "\\documentclass{book}\\newtheorem{xca}{Exercise}\\newcommand\\field{F}\\input{more}\\dump"
    )
    (book / "more.tex").write_text("\\newcommand\\order{q}")
    (book / "main.tex").write_text(
        "\\begin{document}\\begin{xca}Count the points of $\\field_\\order$.\\end{xca}\\end{document}"
    )
    project = Project.init(tmp_path / "workspace")
    if packed:
        project.ingest([Path(shutil.make_archive(str(book), "gztar", book))])
    else:
        project.ingest([book])
    with contextlib.closing(project.corpus) as corpus:
        (passage,) = corpus
    assert (passage.kind, passage.text) == ("exercise", "Count the points of $F_q$.")
    assert not project.skips()


def test_two_files_with_a_class_beside_a_main_file_without_one_are_no_format() -> None:
    files = {
        "main.tex": TexFile(True, None, ()),
        "a.tex": TexFile(False, "article", ()),
        "b.tex": TexFile(False, "article", ()),
    }
    assert format_file_of("main.tex", files) == ""
    assert format_file_of("main.tex", {name: files[name] for name in ("main.tex", "a.tex")}) == "a.tex"
    including = {**files, "b.tex": TexFile(False, "article", ("other",)), "other.tex": TexFile(True, None, ())}
    assert format_file_of("main.tex", including) == "a.tex"


def test_a_file_that_a_macro_includes_by_a_path_it_builds_is_no_note(tmp_path: Path) -> None:
    bring = "\\newcommand{\\bring}[1]{\\input{ch_#1/TeX/ch_#1}}"
    main = f"\\documentclass{{book}}{bring}\\begin{{document}}\\bring{{one}}\\end{{document}}"
    files = {"book/main.tex": main, "book/ch_one/TeX/ch_one.tex": "Sponges are wet.", "book/left.tex": "Left over."}
    write(tmp_path, {**files, "note.md": "# A note\n\nOf sponges.\n"})
    found = find_units(tmp_path, IngestOptions())
    assert sorted(unit.path for unit in found.units) == ["book/main.tex", "note.md"]
    assert [skip.file for skip in found.skips] == ["book/left.tex"]


@pytest.mark.parametrize("packed", [False, True])
def test_subfiles_that_a_macro_includes_by_a_path_it_builds_are_no_books_of_their_own(
    tmp_path: Path, packed: bool
) -> None:
    subfile = "\\documentclass[../main]{subfiles}\n\\begin{document}\n%s\n\\end{document}\n"
    book = tmp_path / "book"
    bring = "\\newcommand\\home{content}\\newcommand\\bring[2][]{\\subfile{\\home/#1#2}}"
    files = {f"content/part/{number}.tex": subfile % f"The text of section {number}." for number in range(12)}
    calls = "\n".join(f"\\bring[part/]{{{number}}}" for number in range(11))
    write(book, {**files, "main.tex": f"\\documentclass{{book}}{bring}\\begin{{document}}{calls}\\end{{document}}"})
    source = Path(shutil.make_archive(str(book), "gztar", book)) if packed else book
    project = Project.init(tmp_path / "workspace")
    project.ingest([source])
    with contextlib.closing(project.corpus) as corpus:
        documents = [document.id for document in corpus.documents()]
        text = "".join(passage.text for passage in corpus)
    notes = [skip.file for skip in project.skips()]
    if packed:
        assert (len(documents), notes) == (1, ["book.tar.gz/content/part/11.tex"])
    else:
        assert (documents, notes) == (["content/part/11", "main"], [])
    assert all(text.count(f"section {number}.") == 1 for number in range(11))
