from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.make import tar, wait_until, write

from lemmata.core.errors import ConfigError, InputError, WorkspaceError
from lemmata.core.types import Skip
from lemmata.ingest.ingest import IngestReport
from lemmata.project import Project

PAPER = r"""\documentclass{article}
\newtheorem{thm}{Theorem}
\title{%(title)s}
\begin{document}
\section{Start}
\begin{thm}\label{thm:%(name)s} For all $n$ we have $n = n$, as in \cite{other}. \end{thm}
\begin{proof} See \ref{thm:%(name)s}. \end{proof}
Some prose that stands between the statements.
\begin{thebibliography}{9}
\bibitem{other} A. Author, \emph{%(cited)s}, 2001.
\end{thebibliography}
\end{document}
"""


def paper(name: str, cited: str = "Nothing that is here") -> str:
    return PAPER % {"name": name, "title": f"A longer title of {name}", "cited": cited}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return write(tmp_path / "sources", {"a.tex": paper("a", "A longer title of b"), "b.tex": paper("b")})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.init(tmp_path / "workspace")


def content(project: Project) -> list[object]:
    """Everything in a corpus, in order, without the numbers that depend on the order of ingests."""
    corpus = project.corpus
    result: list[object] = [*corpus, *corpus.documents(), *corpus.skips()]
    result += corpus.bibliography_records()
    corpus.close()
    return result


def changes(report: IngestReport) -> tuple[list[str], list[str], list[str], int]:
    names = {what: [Path(name).name for name in names] for what, names in report.files.items()}
    assert {what: len(names[what]) for what in names} == {what: getattr(report, what) for what in names}
    return names["added"], names["changed"], names["removed"], report.unchanged


def test_a_folder_of_papers_becomes_a_corpus_with_links(project: Project, sources: Path) -> None:
    report = project.ingest([sources])
    assert changes(report) == (["a.tex", "b.tex"], [], [], 0)
    corpus = project.corpus
    assert corpus.ids() == ["a#thm:a", "a@1", "b#thm:b", "b@1"]
    assert [(link.relation, link.target) for link in corpus[0].links] == [("cites", "b")]
    corpus.close()


def test_ingesting_again_reports_what_changed(project: Project, sources: Path) -> None:
    project.ingest([sources])
    assert changes(project.ingest([sources])) == ([], [], [], 2)
    assert changes(project.ingest([sources], again=True)) == ([], ["a.tex", "b.tex"], [], 0)
    (sources / "a.tex").write_text(paper("a2"))
    (sources / "b.tex").unlink()
    (sources / "c.tex").write_text(paper("c"))
    assert changes(project.ingest([sources])) == (["c.tex"], ["a.tex"], ["b.tex"], 0)
    corpus = project.corpus
    assert corpus.ids() == ["a#thm:a2", "a@1", "c#thm:c", "c@1"]
    corpus.close()


def test_an_included_file_that_changes_updates_the_paper(project: Project, sources: Path) -> None:
    (sources / "a.tex").write_text(paper("a").replace("Some prose", "\\input{part} Some prose"))
    assert project.ingest([sources]).skips == 1
    (sources / "part.tex").write_text("This part came later.")
    assert changes(project.ingest([sources])) == ([], ["a.tex"], [], 1)
    (sources / "part.tex").write_text("This part came later still.")
    assert changes(project.ingest([sources])) == ([], ["a.tex"], [], 1)
    assert any("later still" in p.text for p in content(project)[:4])  # type: ignore[attr-defined]


def test_changed_settings_cause_a_new_reading(project: Project, sources: Path) -> None:
    project.ingest([sources])
    report = project.ingest([sources], settings={"chunk_size": 30})
    assert changes(report) == ([], ["a.tex", "b.tex"], [], 0)
    assert report.passages == 6  # a theorem and two chunks in each


def test_a_preamble_gives_definitions_to_every_paper_and_renews_them_when_it_changes(
    project: Project, tmp_path: Path
) -> None:
    paper = r"\documentclass{article}\begin{document}\begin{Def}{Open}{o} In $\R$.\end{Def} Words.\end{document}"
    papers = write(tmp_path / "papers", {"a.tex": paper, "notes.txt": "Some notes."})
    preamble = project.root / "shared.tex"
    with pytest.raises(ConfigError, match=r"\[ingest\] preamble.*'shared.tex'"):
        project.ingest([papers], settings={"preamble": "shared.tex"})
    (project.root / "more.tex").write_text(r"\newcommand{\R}{\mathbf{R}}")
    box = r"\title{Not of the paper}\newtcbtheorem{Def}{Definition}{colback=red}{%s}\input{more} %% \newcommand{\R}{x}"
    preamble.write_text(box % "df")
    project.ingest([papers], settings={"preamble": "shared.tex"})
    with contextlib.closing(project.corpus) as corpus:
        (definition,) = [passage for passage in corpus if passage.kind == "definition"]
        titles = {document.id: document.title for document in corpus.documents()}
    assert (definition.id, definition.title, definition.text) == ("a#df:o", "Open", r"In $\mathbf{R}$.")
    assert titles["a"] == ""
    assert project.ingest([papers], settings={"preamble": "shared.tex"}).unchanged == 2
    preamble.write_text(box % "new")
    report = project.ingest([papers], settings={"preamble": "shared.tex"})
    assert (report.changed, report.unchanged) == (1, 1)


def test_a_corpus_can_have_several_sources(project: Project, sources: Path, tmp_path: Path) -> None:
    project.ingest([sources])
    note = tmp_path / "note.md"
    note.write_text("# A note\n\nWith a sentence.\n")
    report = project.ingest([note])
    assert changes(report) == (["note.md"], [], [], 0)
    assert report.documents == 3


def test_a_broken_paper_does_not_stop_an_ingest(project: Project, sources: Path) -> None:
    (sources / "broken.tar.gz").write_bytes(gzip.compress(b"x" * 600)[:-9])
    (sources / "odd.tex").write_bytes(b"\\documentclass{article}\\begin{document}\\begin{theorem} open \xff\x00 {{{")
    report = project.ingest([sources])
    assert (report.added, report.failed) == (3, 1)
    corpus = project.corpus
    assert any(skip.file.startswith("broken.tar.gz") for skip in corpus.skips())
    assert "odd#theorem-1" in corpus.ids()
    corpus.close()


def test_the_last_good_reading_stays_when_its_source_breaks(project: Project, tmp_path: Path) -> None:
    archive = tmp_path / "2004.14974.tar.gz"
    archive.write_bytes(tar({"main.tex": paper("x")}))
    project.ingest([archive])
    before = content(project)
    assert before[0].id == "2004.14974#thm:x"  # type: ignore[attr-defined]
    archive.write_bytes(b"\x1f\x8b not an archive any more")
    report = project.ingest([archive])
    assert (list(report.failures), report.failed, report.changed) == ([str(archive)], 1, 0)
    (note,) = (record for record in content(project) if isinstance(record, Skip))
    assert "its last reading is kept" in note.cause
    assert [record for record in content(project) if record != note] == before
    assert project.ingest([archive]).failed == 1, "it is tried again"


@pytest.mark.slow
def test_a_killed_ingest_resumes_and_gives_the_same_corpus(project: Project, tmp_path: Path) -> None:
    papers = {}
    for number in range(150):
        body = "\n\n".join(f"Sentence {n} of paper {number} says $x_{{{n}}} = {n}$." for n in range(40))
        text = paper(f"p{number}", f"A longer title of p{number + 1}").replace("Some prose", body)
        papers[f"p{number:03}.tex"] = text
    folder = write(tmp_path / "many", papers)
    code = """
import sys, time
from lemmata.project import Project
def listen(what, done, total):
    if done == 100:
        time.sleep(600)  # until it is killed
Project(sys.argv[1], listen).ingest([sys.argv[2]], workers=2)
"""
    command = [sys.executable, "-c", code, str(project.root), str(folder)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    wait_until(lambda: _units(project))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < _units(project) < 150
    with pytest.raises(WorkspaceError, match="ingest"):
        _ = project.corpus
    report = project.ingest([folder])
    assert 0 < report.unchanged < 150
    uninterrupted = Project.init(tmp_path / "uninterrupted")
    uninterrupted.ingest([folder])
    assert content(project) == content(uninterrupted)


def _units(project: Project) -> int:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{project.incoming}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT COUNT(*) FROM units WHERE id != ''").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_the_number_of_workers_does_not_change_the_corpus(project: Project, sources: Path, tmp_path: Path) -> None:
    for name in "cdefg":
        (sources / f"{name}.tex").write_text(paper(name))
    project.ingest([sources], workers=2)
    other = Project.init(tmp_path / "other")
    other.ingest([sources], workers=1)
    assert content(project) == content(other)


def test_all_unusable_paths_are_listed_and_nothing_is_read(project: Project, sources: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.*nor-there"):
        project.ingest([sources, "nowhere", "nor-there"])
    assert not project.database.exists()


def test_an_empty_folder_is_an_error(project: Project, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty"):
        project.ingest([tmp_path / "empty"])


def test_test_data_beside_a_corpus_is_not_read(project: Project, sources: Path) -> None:
    queries, qrels = '{"_id": "q", "text": "secret question"}\n', "query-id\tcorpus-id\tscore\nq\ta\t1\n"
    write(sources, {"queries.jsonl": queries, "qrels/test.tsv": qrels, "withheld.tsv": "a\tb\n"})
    (sources / "README.md").write_text("# About these sources\n\nNothing.\n")
    project.ingest([sources])
    assert not any("secret" in str(record) or "About" in str(record) for record in content(project))


def test_a_side_file_provides_metadata_of_papers(project: Project, sources: Path) -> None:
    line = {"id": "a", "date": "2020-05-06", "categories": ["math.CO"], "authors": ["A. B."]}
    line |= {"abstract": "In short.", "doi": "10.1/x"}
    (sources / "metadata.jsonl").write_text(json.dumps(line) + "\n")
    project.ingest([sources])
    corpus = project.corpus
    document = corpus.document("a")
    assert (document.date, document.categories, document.authors) == ("2020-05-06", ("math.CO",), ("A. B.",))
    assert document.metadata["doi"] == "10.1/x"
    assert corpus[corpus.row("a#abstract-1")].text == "In short."
    corpus.close()
    (sources / "metadata.jsonl").write_text(json.dumps({**line, "date": "2021-01-01"}) + "\n")
    assert changes(project.ingest([sources])) == ([], ["a.tex"], [], 1)


def test_logs_and_their_locations_are_linked(project: Project, tmp_path: Path) -> None:
    logs = "id,text,date,location,related\n1,Pumpe undicht,2020-01-01,P1-K2,\n2,behoben,2020-01-02,P1-K2,1\n"
    places = "id,parent,description\nP1,,Plant\nP1-K2,P1,Kolonne\n"
    project.ingest([write(tmp_path / "plant", {"hierarchy.csv": places, "logs.csv": logs})])
    corpus = project.corpus
    assert [(link.relation, link.target) for link in corpus[corpus.row("2")].links] == [
        ("reports_about", "location:P1-K2"),
        ("related_to", "1"),
    ]
    assert corpus.document("location:P1-K2").links[0].target == "location:P1"
    corpus.close()
    assert project.info()["nodes"] == {"passage": 2, "document": 1, "location": 2}


def test_a_location_with_a_comma_is_one_place_whenever_the_hierarchy_comes(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "plant"
    folder.mkdir()
    (folder / "logs.csv").write_text(
        "id,text,location,related\n"
        '1,leaks,"Pump, main",\n2,hums,"Pump, Valve; Fan","1, 3"\n3,fine,Nowhere,\n4,gone,Nowhere,"9"\n'
    )

    def targets(identity: str) -> set[tuple[str, str | None]]:
        corpus = project.corpus
        passage = corpus[corpus.row(identity)]
        corpus.close()
        return {(link.relation, link.target) for link in passage.links}

    def notes() -> list[str]:
        corpus = project.corpus
        skips = corpus.skips()
        corpus.close()
        return [f"{skip.file}:{skip.line}: {skip.cause}" for skip in skips]

    project.ingest([folder])
    related = "logs.csv:5: 1 log names a related log that is not in the corpus: '9'"
    flat = "logs.csv:0: no table of locations was read: the 4 locations that logs name are a flat list"
    assert targets("1") == {("reports_about", "location:Pump, main")}
    assert targets("2") >= {("reports_about", "location:Pump, Valve"), ("reports_about", "location:Fan")}
    assert notes() == [flat, related]
    hierarchy = folder / "hierarchy.csv"
    hierarchy.write_text("id,parent,description\nPump,,a\nmain,,b\nFan,,d\n")
    project.ingest([folder])
    assert targets("1") == {("reports_about", "location:Pump"), ("reports_about", "location:main")}
    assert targets("2") >= {("reports_about", "location:Pump"), ("reports_about", None), ("related_to", "3")}
    unknown = "logs.csv:3: 3 logs name a location that is not in the hierarchy: 'Valve', 'Nowhere'"
    assert notes() == [unknown, related]
    hierarchy.write_text('id,parent,description\nPump,,a\nmain,,b\n"Pump, main",,c\nFan,,d\nValve,,e\nNowhere,,f\n')
    project.ingest([folder])
    assert targets("1") == {("reports_about", "location:Pump, main")}
    assert {target for relation, target in targets("2") if relation == "reports_about"} == {
        "location:Pump",
        "location:Valve",
        "location:Fan",
    }
    assert notes() == [related]
    corpus = project.corpus
    assert corpus[corpus.row("1")].locations == ("Pump, main",)
    assert set(corpus[corpus.row("2")].locations) == {"Pump", "Valve", "Fan"}
    assert corpus[corpus.row("2")].metadata["location"] == "Pump, Valve; Fan"
    corpus.close()


def test_only_the_corpus_file_of_a_beir_folder_is_read(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": "1", "title": "T", "text": "One."}, {"_id": "2", "title": "", "text": "Two."}]
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "?"}\n')
    (folder / "links.tsv").write_text("a\tb\n1\t2\n")
    project.ingest([folder])
    corpus = project.corpus
    assert corpus.ids() == ["1", "2"]
    corpus.close()


def test_unknown_settings_are_errors_with_a_hint(tmp_path: Path) -> None:
    project = Project.init(tmp_path)
    for text, message in [
        ("[ingst]\n", "'ingest'"),
        ("[ingest]\nchunk_sise = 3\n", "'chunk_size'"),
        ("[ingest]\nchunk_size = 'x'\n", "chunk_size = 'x'"),
        ("[ingest]\nchunk_size = 0\n", "chunk_size = 0"),
        ("[ingest]\nreader = 'some'\n", "papers"),
        ("[ingest.columns]\ntxt = 'x'\n", "'text'"),
        ("[ingest\n", "lemmata.toml"),
    ]:
        project.config_file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            Project(tmp_path)


def test_a_folder_without_lemmata_toml_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="lemmata init"):
        Project(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match="file"):
        Project.init(tmp_path / "file")


def test_init_keeps_existing_settings(tmp_path: Path) -> None:
    Project.init(tmp_path)
    (tmp_path / "lemmata.toml").write_text("[ingest]\nchunk_size = 800\n")
    assert Project.init(tmp_path).config == {"ingest": {"chunk_size": 800}}
