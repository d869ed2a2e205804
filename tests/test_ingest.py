"""What cannot be read is noted and counted, and never stops or replaces what can."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import io
import json
import os
import random
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.make import one_page, write
from typer.testing import CliRunner

from lemmata.cli.main import make_app
from lemmata.core.errors import InputError, LemmataError
from lemmata.core.types import Reading, Skip
from lemmata.ingest.logs import Columns
from lemmata.ingest.paper_state import PaperOptions
from lemmata.ingest.readers import IngestOptions, Unit, fingerprint
from lemmata.ingest.sources import find_units
from lemmata.project import Project

MAIN = "\\documentclass{article}\n\\begin{document}\n%s\n\\end{document}\n"
NOISE = random.Random(1).randbytes(5000)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.init(tmp_path / "workspace")


def ids(project: Project) -> list[str]:
    with contextlib.closing(project.corpus) as corpus:
        return corpus.ids()


def skips(project: Project) -> dict[str, str]:
    return {skip.file: skip.cause for skip in project.skips()}


def run(project: Project, *arguments: object) -> tuple[int, str]:
    """Exit code and output of `lemmata ingest`."""
    result = CliRunner().invoke(make_app(), ["ingest", *map(str, arguments), "-w", str(project.root)])
    return result.exit_code, " ".join((result.output or str(result.exception)).split()) or str(result.exception)


# ---------------------------------------------------------------- large files
LARGE = "Nothing but a heron stands in the water of this file, and it waits there for the next one.\n\n" * 12_500


def content(project: Project) -> tuple[object, ...]:
    """All that a corpus holds, in order."""
    with contextlib.closing(project.corpus) as corpus:
        documents = sorted(corpus.documents(links=True), key=lambda document: document.id)
        return list(corpus), documents, sorted(corpus.bibliography_records(), key=str), corpus.skips(), corpus.digest


def test_what_a_quick_reading_leaves_out_does_not_change_the_corpus(tmp_path: Path) -> None:
    rows = "".join(f"{number},2024-01-01,The pump {number} leaks again.\n" for number in range(40_000))
    source = {
        "a.md": f"# A\n\n{LARGE}",
        "a.txt": "A small text that wants the same id as the large one.",
        "c.tex": MAIN % r"\begin{theorem}\label{one}A small claim, as in \ref{a}.\end{theorem} The end of it is near.",
        "b/a.md": "# B\n\nA small note, see [the large one](../a.md), and nothing else.",
        "logs.csv": f"id,date,text\n{rows}",
        "night.csv": "id,date,text\n7,2024-01-02,The pump was changed in the night.\n",
        "notes.jsonl": json.dumps({"id": "7", "text": "A passage of the same id."}) + "\n",
    }
    other = {
        "a.md": "# Another\n\nIt stands in a folder of its own and wants the same id.",
        "z.md": "The last one of all.",
    }
    folders = [write(tmp_path / "one", source), write(tmp_path / "two", other)]
    at_once, in_two = Project.init(tmp_path / "w1"), Project.init(tmp_path / "w2")
    at_once.ingest(folders, workers=1)
    report = in_two.ingest(folders, workers=1, quick=True)
    assert report.left == 6  # the two large ones, two tables after one of them, and the second folder
    assert not report.failures
    with contextlib.closing(in_two.corpus) as corpus:
        assert {passage.document for passage in corpus} == {"a.txt", "b/a", "c"}
        assert len(corpus) < 10
    assert in_two.ingest(folders, workers=1).left == 0
    assert content(in_two) == content(at_once)
    assert in_two.ingest(folders, workers=1, quick=True).left == 0


def test_a_quick_reading_of_a_large_file_alone_reads_nothing(project: Project, tmp_path: Path) -> None:
    folder = write(tmp_path / "source", {"a.md": LARGE})
    code, said = run(project, folder, "--quick")
    assert code == 0
    assert "1 file left" in said
    assert ids(project) == []
    assert run(project, folder)[0] == 0
    assert ids(project)


# ---------------------------------------------------------------- names


def test_a_table_with_a_heading_alone_is_noted(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("id,text,date\n")
    project = Project.init(tmp_path / "w")
    report = project.ingest([tmp_path / "logs.csv"])
    assert (report.added, report.failed, report.passages) == (1, 0, 0)
    assert project.skips() == [Skip("logs.csv", 0, "the table has no rows")]


def test_a_name_that_is_not_utf8_costs_that_file_only(project: Project, tmp_path: Path) -> None:
    folder = write(tmp_path / "f", {"good.md": "Good words."})
    for name in (b"bad-\xff.md", b"two\nlines.md", b"bell\x07.md", b"dir-\xfe/inner.md", b"dir-\xfe/more.md"):
        write(folder, {os.fsdecode(name): "Words."})
    report = project.ingest([folder])
    assert (report.added, report.failed, ids(project)) == (1, 0, ["good@1"])
    assert skips(project) == {
        "bad-\\udcff.md": "its name is not UTF-8",
        "bell\\x07.md": "its name contains control characters",
        "two\\nlines.md": "its name contains control characters",
        "dir-\\udcfe": "the folder was not read: its name is not UTF-8",
    }
    code, output = run(project, folder, "--json", "--again")
    assert (code, json.loads(output)["changed"]) == (0, 1)


def test_a_path_that_is_not_utf8_is_named_in_the_error(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"bad-\xff")
    write(folder, {"a.md": "Words."})
    write(tmp_path, {"b.md": "Words."})
    with pytest.raises(InputError, match=r"bad-\\udcff"):
        project.ingest([folder])
    report = project.ingest([folder, tmp_path / "b.md"])
    assert (report.added, report.failed) == (1, 1)
    json.dumps(report.failures).encode()


def test_a_name_that_is_not_utf8_in_an_archive_costs_that_member_only(project: Project, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", errors="surrogateescape", format=tarfile.GNU_FORMAT) as tar:
        for name in ("main.tex", "bad-\udcff.tex"):
            member = tarfile.TarInfo(name)
            data = (MAIN % "Good words.").encode()
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    write(tmp_path, {"p.tar.gz": buffer.getvalue()})
    project.ingest([tmp_path / "p.tar.gz"])
    assert ids(project) == ["main@1"]
    assert skips(project) == {"p.tar.gz/bad-\\udcff.tex": "its name is not UTF-8"}


def test_a_line_of_more_than_10_mb_costs_that_line_only(project: Project, tmp_path: Path) -> None:
    long = '{"id": "2", "text": "' + "x" * 10_100_000 + '"}'
    lines = ['{"id": "1", "text": "one"}', long, "not JSON", '{"id": "3", "text": "three"}']
    write(tmp_path, {"f/rows.jsonl": "\r\n".join(lines), "f/other.md": "Words."})
    report = project.ingest([tmp_path / "f"])
    assert (report.added, report.failed, ids(project)) == (2, 0, ["1", "3", "other@1"])
    corpus = project.corpus
    assert [(skip.file, skip.line) for skip in corpus.skips()] == [("rows.jsonl", 2), ("rows.jsonl", 3)]
    assert corpus.skips()[0].cause == "a line of more than 10,000,000 characters"
    assert [passage.first_line for passage in corpus] == [1, 4, 1]
    corpus.close()


def test_a_row_of_a_table_of_more_than_10_mb_costs_that_row_only(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"logs.csv": f"id,text\n1,one\n2,{'x' * 10_100_000}\n3,three\n"})
    project.ingest([tmp_path / "logs.csv"])
    assert ids(project) == ["1", "3"]
    assert [(skip.line, skip.cause) for skip in project.skips()] == [(3, "a line of more than 10,000,000 characters")]


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("name", ["noise.txt", "noise.tex", "noise.md", "noise.csv", "noise.jsonl"])
@pytest.mark.parametrize("content", [NOISE, b"\0" * 900, b"", b" \n\n"], ids=["random", "nul", "empty", "blank"])
def test_binary_garbage_and_empty_files_are_notes(project: Project, tmp_path: Path, name: str, content: bytes) -> None:
    folder = write(tmp_path / "f", {name: content, "sub/good.md": "Good words."})
    report = project.ingest([folder])
    assert (report.added, report.failed, ids(project)) == (1, 0, ["sub/good@1"])
    assert skips(project)[name] == ("it is binary data, not text" if content.strip() else "the file is empty")
    code, output = run(project, folder / name)
    assert code == 1
    assert name in output


@pytest.mark.parametrize("name", ["noise.dat", "noise", "noise.bin"])
def test_binary_garbage_that_was_named_is_an_error(project: Project, tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: NOISE, "good.md": "Good words."})
    report = project.ingest([tmp_path / name, tmp_path / "good.md"])
    assert (report.added, report.failures) == (1, {str(tmp_path / name): "it is binary data, not text"})
    assert skips(project) == {name: "could not be read: it is binary data, not text"}
    with pytest.raises(InputError, match=name):
        project.ingest([tmp_path / name])


def test_text_in_other_encodings_is_no_garbage(project: Project, tmp_path: Path) -> None:
    text = "Größe und Maß, naïveté — 数学."
    contents = {"utf8": text.encode(), "utf16": text.encode("utf-16"), "latin": text[:12].encode("latin-1")}
    write(tmp_path / "f", {f"{name}.txt": content for name, content in contents.items()})
    assert project.ingest([tmp_path / "f"]).skips == 0
    assert ids(project) == ["latin@1", "utf16@1", "utf8@1"]


def test_an_unreadable_file_costs_that_file_only() -> None:
    folder = Path(tempfile.mkdtemp())  # below a folder that everyone may look into
    folder.chmod(0o755)
    write(folder, {"a.md": "Words.", "secret.md": "Words.", "locked/c.md": "Words."})
    (folder / "secret.md").chmod(0)
    (folder / "locked").chmod(0)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)  # root may read everything
        source = find_units(folder, IngestOptions())
    finally:
        os.seteuid(user)
    assert [unit.path for unit in source.units] == ["a.md"]
    assert source.skips == [
        Skip("locked", 0, "the folder cannot be read (Permission denied)"),
        Skip("secret.md", 0, "it cannot be read (Permission denied)"),
    ]


def test_a_failed_source_is_not_added_and_the_exit_code_tells(project: Project, tmp_path: Path) -> None:
    orders = "number;wording\n1;pump leaks\n"
    write(tmp_path, {"work_orders.csv": orders, "good.md": "Good words."})
    for _ in range(2):  # the second time too
        code, output = run(project, tmp_path / "work_orders.csv", tmp_path / "good.md")
        assert code == 1
        assert "1 failed" in output
        assert "no column 'text'; the columns are 'number', 'wording'" in output
        assert "-o columns.text=COLUMN" in output
        assert ids(project) == ["good@1"]
    assert "could not be read: no column" in skips(project)["work_orders.csv"]
    report = project.ingest([tmp_path / "work_orders.csv", tmp_path / "good.md"])
    assert (report.added, report.changed, report.unchanged, report.removed, report.failed) == (0, 0, 1, 0, 1)
    code, output = run(project, tmp_path / "work_orders.csv", "-o", "columns.text=wording")
    assert code == 0, output
    assert "1 added" in output
    assert "work_orders.csv" not in skips(project)


def test_a_source_whose_every_file_fails_says_so(project: Project, tmp_path: Path) -> None:
    folder = write(tmp_path / "f", {"a.csv": "x,y\n1,2\n", "b.tar.gz": gzip.compress(b"x" * 600)[:-9]})
    code, output = run(project, folder, "--json")
    report, _ = json.JSONDecoder().raw_decode(output[output.index("{") :])  # after the messages
    assert (code, report["added"], report["failed"]) == (1, 0, 2)
    assert list(report["failures"]) == [str(folder / "b.tar.gz"), str(folder / "a.csv")]
    numbers = ("added", "changed", "unchanged", "removed", "failed")
    assert {type(report[name]) for name in numbers} == {int}
    assert project.info()["documents"] == report["documents"] == 0


@pytest.mark.slow
def test_a_table_that_breaks_in_the_middle_is_not_marked_as_read(project: Project, tmp_path: Path) -> None:
    rows = "".join(f"{number},text of row {number}\n" for number in range(8_000))
    whole = gzip.compress(f"id,text\n{rows}".encode(), mtime=0)
    write(tmp_path, {"f/logs.csv.gz": whole[: len(whole) * 3 // 4], "f/good.md": "Words."})
    for _ in range(2):
        report = project.ingest([tmp_path / "f"])
        assert report.failed == 1
        assert ids(project) == ["good@1"], "a part of a table is not a table"
    with sqlite3.connect(project.database) as connection:
        assert connection.execute("SELECT id FROM units WHERE id != ''").fetchall() == [("good.md",)]
    write(tmp_path, {"f/logs.csv.gz": whole})
    assert (project.ingest([tmp_path / "f"]).added, len(ids(project))) == (1, 8_001)
    write(tmp_path, {"f/logs.csv.gz": whole[: len(whole) * 3 // 4]})
    assert (project.ingest([tmp_path / "f"]).failed, len(ids(project))) == (1, 8_001)


def test_a_changed_file_changes_the_digest_of_the_corpus(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "Words."})
    digests = []
    for text in ("Words.", "Other words.", "Words."):
        write(tmp_path, {"a.md": text})
        project.ingest([tmp_path / "a.md"])
        corpus = project.corpus
        digests.append(corpus.digest)
        corpus.close()
    assert digests[0] == digests[2] != digests[1]


def test_naming_a_column_does_not_turn_passages_into_logs(project: Project, tmp_path: Path) -> None:
    beir = json.dumps({"_id": "p", "title": "T", "text": "A passage."})
    logs = json.dumps({"id": "l", "note": "A log."})
    write(tmp_path, {"f/beir.jsonl": beir, "f/notes.jsonl": logs, "f/t.csv": "id,note\nc,A row.\n"})
    report = project.ingest([tmp_path / "f"], settings={"columns": {"text": "note"}})
    corpus = project.corpus
    assert {passage.id: passage.kind for passage in corpus} == {"p": "passage", "l": "log", "c": "log"}
    corpus.close()
    assert report.failed == 0
    assert skips(project) == {
        "beir.jsonl": "it has no column 'note' (columns.text): it was read as passages, not as logs"
    }


@pytest.mark.parametrize(
    ("reader", "hint"),
    [
        ("paper", "; did you mean papers?"),
        ("latex", "; did you mean papers?"),
        ("TeX", "; did you mean papers?"),
        ("7", "."),
    ],
)
def test_an_unknown_reader_is_named_as_it_was_typed(project: Project, tmp_path: Path, reader: str, hint: str) -> None:
    write(tmp_path, {"a.md": "Words."})
    _, output = run(project, tmp_path / "a.md", "--as", reader)
    readers = "auto, papers, logs, hierarchy, passages, text, pdf"
    assert output == f"--as {reader}: there is no such reader{hint} The readers are {readers}"


# ---------------------------------------------------------------- PDFs and TeX


def test_a_note_in_tex_does_not_remove_the_pdfs_around_it(project: Project, tmp_path: Path) -> None:
    folder = write(
        tmp_path / "f", {"papers/sylow.pdf": one_page("Every group has a Sylow subgroup."), "bad.pdf": NOISE}
    )
    assert project.ingest([folder]).added == 1
    write(folder, {"mynote.tex": MAIN % "Words."})
    report = project.ingest([folder])
    assert (report.added, report.unchanged, report.removed, report.failed) == (1, 1, 0, 1)
    assert "could not be read" in skips(project)["bad.pdf"]
    write(folder, {"mynote.tex": MAIN % "Words. \\includepdf{papers/sylow}"})
    report = project.ingest([folder])
    assert (report.changed, report.removed) == (1, 1)
    cause = "this PDF is no document of its own: a TeX file includes it; name a file to read it"
    assert skips(project)["papers/sylow.pdf"] == cause


def test_a_note_on_a_file_goes_when_another_source_has_read_it(project: Project, tmp_path: Path) -> None:
    bad, good = {"f/b.csv": "id,text\n1,\n2,\n"}, {"f/b.csv": "id,text\n1,pump leaks\n"}
    folder, file = tmp_path / "f", tmp_path / "f/b.csv"
    write(tmp_path, {**bad, "f/a.csv": "id,text\n", "f/c.csv": "x,y\n"})
    for first, second in ((folder, file), (file, folder)):
        write(tmp_path, bad)
        project.ingest([first])
        assert any(name.endswith("b.csv") for name in skips(project))
        write(tmp_path, good)
        project.ingest([second])
        assert not any(name.endswith("b.csv") for name in skips(project))
        assert any(name.endswith("a.csv") for name in skips(project))  # the table has no rows
        project.remove([folder, file] if first == folder else [folder])


# ---------------------------------------------------------------- columns


def test_a_table_of_which_nothing_can_be_used_says_what_is_wrong_with_its_rows(
    project: Project, tmp_path: Path
) -> None:
    write(tmp_path, {"f/logs.csv": "WO_ID,LONG_TEXT\n1,\n2,\n", "f/a.md": "A note beside it."})
    [cause] = project.ingest([tmp_path / "f"]).failures.values()
    assert "'1' has no text" in cause


ORDERS = "id;Wording;Start;Place\n1;pump leaks;2024-05-01;A1-P-01\n"
NAMED = ("-o", "columns.text=Wording", "-o", "columns.date=Start", "-o", "columns.location=Place")


def logs(project: Project) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
    with contextlib.closing(project.corpus) as corpus:
        return [(p.id, p.text, p.date, tuple(link.label for link in p.links)) for p in corpus]


def test_dates_with_slashes_are_read_as_the_whole_file_shows(project: Project, tmp_path: Path) -> None:
    table = b"id,text,date\n1,Pump leaks,03/04/2026\n2,Fan hums,15/03/2026\n"
    (tmp_path / "logs.csv.gz").write_bytes(gzip.compress(table))
    project.ingest([tmp_path / "logs.csv.gz"])
    with contextlib.closing(project.corpus) as corpus:
        assert [log.date for log in corpus] == ["2026-04-03", "2026-03-15"]


def test_a_source_keeps_the_columns_that_were_named_for_it(project: Project, tmp_path: Path) -> None:
    folder = write(tmp_path / "wo", {"orders.csv": ORDERS})
    write(tmp_path, {"plain.csv": "id,text\nx,valve stuck\n"})
    code, output = run(project, folder, *NAMED)
    assert (code, "1 added" in output) == (0, True), output
    first = logs(project)
    assert first == [("1", "pump leaks", "2024-05-01", ("A1-P-01",))]
    code, output = run(project, folder, tmp_path / "plain.csv")  # the other source has columns of its own
    assert (code, "1 added, 1 unchanged" in output) == (0, True), output
    write(folder, {"orders.csv": ORDERS + "2;pump runs;2024-05-02;A1-P-01\n", "more.csv": ORDERS.replace("1;", "3;")})
    report = project.ingest([folder])
    assert (report.added, report.changed, report.failed, report.no_longer_read) == (1, 1, 0, {})
    assert {row[0]: row[2] for row in logs(project)}["2"] == "2024-05-02"
    project.remove([folder])
    assert project.ingest([folder]).failed == 2, "a source that was removed is new"


def test_a_file_of_a_folder_is_read_again_as_the_folder_is(project: Project, tmp_path: Path) -> None:
    folder = write(tmp_path / "wo", {"a.csv": ORDERS, "b.csv": ORDERS.replace("1;", "2;"), "c.csv": "x,y\n1,2\n"})
    run(project, folder, "-o", "columns.text=Wording")
    project.config_file.write_text('[ingest.columns]\ndate = "Start"\n')
    project = Project(project.root)
    report = project.ingest([folder / "a.csv"])
    assert (report.changed, report.unchanged, report.read_before) == (1, 0, {})
    assert {row[0]: row[2] for row in logs(project)} == {"1": "2024-05-01", "2": None}
    assert "c.csv" in skips(project)  # as the folder noted
    assert project.ingest([folder / "a.csv"]).unchanged == 1
    report = project.ingest([folder])
    assert (report.changed, report.unchanged, report.failed) == (1, 1, 1)


def test_several_columns_of_text_are_joined_and_stay_filterable(project: Project, tmp_path: Path) -> None:
    orders = "nr,problem,action\n1,Seal leaks.,Replaced it.\n2,,Oiled.\n3,Hums.,\n4,,\n"
    (tmp_path / "orders.csv").write_text(orders)
    named = ("-o", "columns.id=nr", "-o", "columns.text=problem", "-o", "columns.text=action")
    assert run(project, tmp_path / "orders.csv", *named)[0] == 0
    with contextlib.closing(project.corpus) as corpus:
        assert [passage.text for passage in corpus] == ["Seal leaks.\n\nReplaced it.", "Oiled.", "Hums."]
        assert corpus[0].metadata == {"problem": "Seal leaks.", "action": "Replaced it."}
        assert corpus.select(where=[("action", "oiled.")]).tolist() == [False, True, False]
        assert [skip.line for skip in corpus.skips()] == [5]
    report = project.ingest([tmp_path / "orders.csv"])  # remembers both
    assert (report.unchanged, report.no_longer_read) == (1, {})
    code, output = run(project, tmp_path / "orders.csv", "-o", "columns.text=problem", "--json")
    assert (code, json.loads(output)["no_longer_read"]) == (0, {str(tmp_path / "orders.csv"): {"id": "nr"}})
    code, output = run(project, tmp_path / "orders.csv", "-o", "columns.text=problem", "-o", "columns.text=actoin")
    assert code == 1
    assert "'actoin'" in output


def test_a_call_that_names_fewer_columns_says_which_are_no_longer_read(project: Project, tmp_path: Path) -> None:
    folder = write(tmp_path / "wo", {"orders.csv": ORDERS})
    run(project, folder, *NAMED)
    code, output = run(project, folder, "-o", "columns.text=Wording", "-o", "columns.id=id")
    assert logs(project) == [("1", "pump leaks", None, ())]
    cure = (
        "dates and locations are no longer read: name them again with -o columns.date=Start -o columns.location=Place"
    )
    assert (code, cure in output) == (0, True), output
    code, output = run(project, folder, "--json")
    assert (code, json.loads(output)["unchanged"], json.loads(output)["no_longer_read"]) == (0, 1, {})


def test_columns_that_no_table_has_are_not_kept(project: Project, tmp_path: Path) -> None:
    folder = write(tmp_path / "wo", {"orders.csv": ORDERS})
    run(project, folder, *NAMED)
    code, _ = run(project, folder, "-o", "columns.text=Shrt text")
    report = project.ingest([folder])
    assert (code, report.unchanged, report.failed) == (1, 1, 0)


def test_the_call_counts_before_the_settings_and_these_before_the_columns_of_before(
    project: Project, tmp_path: Path
) -> None:
    table = "id;Wording;text;Start;End\n1;pump leaks;leak;2024-05-01;2024-06-01\n"
    file = write(tmp_path, {"orders.csv": table}) / "orders.csv"

    def read(columns: dict[str, str], toml: str = "") -> tuple[str, str | None]:
        project.config_file.write_text(toml)
        settings = {"columns": columns} if columns else {}
        Project(project.root).ingest([file], settings=settings, workers=1)
        return logs(project)[0][1:3]

    assert read({"text": "Wording", "date": "Start"}) == ("pump leaks", "2024-05-01")
    assert read({}) == ("pump leaks", "2024-05-01")
    assert read({}, '[ingest.columns]\ndate = "End"\n') == ("pump leaks", "2024-06-01")
    assert read({"text": "text"}) == ("leak", None)
    assert read({}) == ("leak", None)


def test_json_lines_that_are_logs_by_their_columns_stay_logs(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"f/a.jsonl": json.dumps({"id": "l", "note": "A log."})})
    project.ingest([tmp_path / "f"], settings={"columns": {"text": "note"}})
    assert project.ingest([tmp_path / "f"]).unchanged == 1
    assert logs(project)[0][:2] == ("l", "A log.")


# ---------------------------------------------------------------- removing


def test_a_source_can_be_removed_even_when_it_is_gone(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"A/a.md": "First.", "B/b.md": "Second."})
    project.ingest([tmp_path / "A", tmp_path / "B"])
    (tmp_path / "A/a.md").unlink()
    with pytest.raises(InputError, match=r"--remove .*A"):
        project.ingest([tmp_path / "A"])
    (tmp_path / "A").rmdir()
    with pytest.raises(InputError, match=r"--remove .*A"):
        project.ingest([tmp_path / "A"])
    assert ids(project) == ["a@1", "b@1"]
    code, output = run(project, tmp_path / "A", "--remove")
    assert (code, ids(project)) == (0, ["b@1"])
    assert "1 removed" in output
    assert [(Path(source.root).name, source.documents, source.passages) for source in project.sources()] == [
        ("B", 1, 1)
    ]


def test_removing_an_unknown_source_lists_the_known_ones(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"A/a.md": "First."})
    project.ingest([tmp_path / "A"])
    with pytest.raises(InputError) as caught:
        project.remove([tmp_path / "C"])
    with pytest.raises(InputError, match="A"):
        Project.init(tmp_path / "new").remove([tmp_path / "A"])
    assert not (tmp_path / "new/corpus").exists()
    assert str(caught.value) == f"{tmp_path / 'C'} was not ingested; the sources are: {tmp_path / 'A'}"
    assert ids(project) == ["a@1"]


def test_sources_are_listed_with_what_came_from_them(project: Project, tmp_path: Path) -> None:
    write(tmp_path, {"A/a.md": "First.", "A/empty.md": "", "A/hierarchy.csv": "id,parent,description\nP,,Plant\n"})
    project.ingest([tmp_path / "A"])
    (source,) = project.sources()
    assert source.root == "../A"
    assert (source.documents, source.passages, source.skips) == (1, 1, 1)
    assert datetime.datetime.fromisoformat(source.read_at).tzinfo is not None
    assert source.documents == project.info()["documents"]


# ---------------------------------------------------------------- progress


@pytest.mark.slow
def test_an_archive_reports_its_documents_while_it_is_read(project: Project, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    filler = "\n\n".join(f"Sentence {n} says that $x_{n}$ is {n}." for n in range(1500))
    noise = random.Random(2).randbytes(2_000_000)
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number in range(6):
            member = tarfile.TarInfo(f"paper{number}.tex")
            data = (MAIN % filler).encode()
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        member = tarfile.TarInfo("figure.png")
        member.size = len(noise)
        tar.addfile(member, io.BytesIO(noise))
    write(tmp_path, {"book.tar": buffer.getvalue()})
    calls: list[tuple[str, int]] = []
    with project.reporting_to(lambda what, done, _: calls.append((what, done))):
        project.ingest([tmp_path / "book.tar"])
    assert max(done for what, done in calls if what == "documents") > 0


# ---------------------------------------------------------------- hostile and unlucky sources


def test_papers_that_include_each_other_are_read(project: Project, tmp_path: Path) -> None:
    paper = "\\documentclass{article}\\begin{document}The text of %s.\n\\input{%s}\n\\end{document}\n"
    files = {"a/main.tex": paper % ("main", "part"), "a/part.tex": "A part.\n\\input{main}\n"}
    files |= {"b/self.tex": paper % ("self", "self"), "c.tex": paper % ("c", "nothing")}
    files |= {"d/x.tex": "Text of x. \\input{y}\n", "d/y.tex": "Text of y. \\input{x}\n"}
    project.ingest([write(tmp_path / "in", files)])
    with contextlib.closing(project.corpus) as corpus:
        assert {document.id for document in corpus.documents()} == {"a/main", "b/self", "c"}
    assert any(skip.file.endswith("d/x.tex") for skip in project.skips())  # not a paper beside c.tex, but noted


def test_a_file_that_disappears_while_its_folder_is_read_is_a_note(project: Project, tmp_path: Path) -> None:
    paper = "\\documentclass{article}\\begin{document}A text.\\end{document}"
    source = write(tmp_path / "in", {"a.tex": paper, "z.tex": paper})

    def vanish(what: str, *_: object) -> None:
        if what == "reading":
            (source / "z.tex").unlink(missing_ok=True)

    with project.reporting_to(vanish):
        report = project.ingest([source])
    assert not report.failures
    assert [skip.file[-5:] for skip in project.skips() if "disappeared" in skip.cause] == ["z.tex"]
    with contextlib.closing(project.corpus) as corpus:
        assert [document.id for document in corpus.documents()] == ["a"]


def test_a_table_is_held_to_its_seconds(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lemmata.ingest import readers

    def slowly(*_: object, **__: object) -> Iterator[Reading]:
        time.sleep(30)
        yield Reading()

    monkeypatch.setattr(readers, "read_logs", slowly)
    source = write(tmp_path / "in", {"logs.csv": "id,text,location\n1,a,b\n"})
    report = project.ingest([source], settings={"seconds": 1})
    assert "1 s" in next(iter(report.failures.values()))


def test_a_store_that_cannot_be_reached_is_one_sentence(project: Project) -> None:
    with pytest.raises(LemmataError, match=r"ftp://127\.0\.0\.1:9"):
        project.ingest(["ftp://127.0.0.1:9/papers"])


def test_a_text_that_is_too_large_for_one_document_becomes_several(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lemmata.ingest.readers._LARGEST_FILE", 300)
    lines = [f"Paragraph {n} says something of its own.\n\n" for n in range(20)]
    (tmp_path / "long.txt").write_text("".join(lines))
    (tmp_path / "line.txt").write_text("word " * 200)
    report = project.ingest([tmp_path / "long.txt", tmp_path / "line.txt"], workers=1)
    assert (report.failed, report.skips) == (0, 0)
    with contextlib.closing(project.corpus) as corpus:
        passages = [passage for passage in corpus if passage.file == "long.txt"]
        assert {passage.document for passage in passages} > {"long", "long~part2"}
        text = " ".join(passage.text for passage in passages)
        assert [text.count(f"Paragraph {n} says") for n in range(20)] == [1] * 20
        for passage in passages:
            assert f"{passage.text.split(' says')[0]} says" in lines[(passage.first_line - 1) // 2]
    monkeypatch.undo()
    again = project.ingest([tmp_path / "long.txt"], workers=1, again=True)
    assert (again.changed, again.failed) == (1, 0)
    assert project.corpus.totals()["documents"] == 1 + sum("line" in name for name in project.corpus.document_ids())


@pytest.mark.parametrize(
    ("reader", "counted"),
    [
        ("paper", (True, True, False)),
        ("text", (True, False, False)),
        ("logs", (False, False, True)),
        ("new", (True,) * 3),
    ],
)
def test_what_an_option_changes_is_read_again(reader: str, counted: tuple[bool, ...]) -> None:
    """A reader that `fingerprint` does not know is read again whatever changes."""
    unit = Unit(reader, "a", "a")
    sizes, preamble = PaperOptions(chunk_size=300), PaperOptions(preamble="\\def\\x{y}")
    papers = [IngestOptions(papers=each) for each in (sizes, preamble)]
    others = (*papers, IngestOptions(columns=Columns(date="day")))
    before = fingerprint(unit, IngestOptions())
    assert tuple(fingerprint(unit, options) != before for options in others) == counted
