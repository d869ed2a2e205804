from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "qseries"


def lemmata(*arguments: str | Path, code: int = 0) -> str:
    """Run the command as a user does, and return its standard output, or standard error where `code` is not 0."""
    process = subprocess.run(
        [sys.executable, "-c", "from lemmata.cli.main import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == code, process.stderr
    assert "Traceback" not in process.stderr
    return process.stderr if code else process.stdout


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    lemmata("init", folder)
    report = json.loads(lemmata("ingest", EXAMPLE, "-w", folder, "--json"))
    assert len(report["added"]) == 44
    assert report["failed"] == {}
    return folder


def test_info_counts_documents_passages_links_and_edges(workspace: Path) -> None:
    content = json.loads(lemmata("info", "-w", workspace, "--json"))
    assert content["documents"] == 44
    assert content["passages"]["theorem"] > 100
    assert content["links"]["refers_to"]["resolved"] == content["links"]["refers_to"]["all"]
    assert content["edges"]["cites"] > 80
    assert {"nodes", "edges", "models", "indexes", "skips"} <= content.keys()
    assert "theorem" in lemmata("info", "-w", workspace)


def test_show_prints_a_passage_with_its_links(workspace: Path) -> None:
    content = json.loads(lemmata("show", "hook-length#thm:hook-formula", "-w", workspace, "--json"))
    assert content["kind"] == "theorem"
    assert content["proof"]
    text = lemmata("show", "hook-length#thm:hook-formula", "-w", workspace)
    assert "Proof." in text
    assert "hook-length.tex:" in text


def test_an_unknown_id_suggests_a_similar_one(workspace: Path) -> None:
    error = lemmata("show", "hook-length#thm:hook-formulas", "-w", workspace, code=1)
    assert "did you mean hook-length#thm:hook-formula" in error
    assert error.count("\n") == 1


def test_errors_are_one_sentence(tmp_path: Path) -> None:
    assert lemmata("info", "-w", tmp_path, code=1).count("\n") == 1
    lemmata("init", tmp_path)
    for arguments in ("info", f"ingest {tmp_path}/nowhere", "show x"):
        error = lemmata(*arguments.split(), "-w", tmp_path, code=1)
        assert error.startswith("lemmata: ")
        assert error.count("\n") == 1


def test_a_table_without_a_text_column_is_an_error_that_lists_its_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("nr,short,when\n1,pump leaks,2020-01-01\n")
    lemmata("init", tmp_path / "w")
    report = json.loads(lemmata("ingest", tmp_path / "t.csv", "-w", tmp_path / "w", "--json"))
    assert "short" in report["failed"]["t.csv"]
    columns = "--id nr --text short --date when".split()
    again = lemmata("ingest", tmp_path / "t.csv", "-w", tmp_path / "w", "--json", *columns)
    assert json.loads(again)["passages"] == 1


def test_skips_are_listed_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "p.tex").write_text(
        "\\documentclass{article}\n\\begin{document}\nText here.\n\\input{gone}\n\\end{document}\n"
    )
    lemmata("init", tmp_path / "w")
    lemmata("ingest", tmp_path / "p.tex", "-w", tmp_path / "w")
    assert lemmata("info", "--skips", "-w", tmp_path / "w") == "p.tex:4: included file 'gone' does not exist\n"


def test_the_demo_runs_and_runs_again(tmp_path: Path) -> None:
    text = lemmata("demo", tmp_path / "demo", "--no-training")
    assert "44 documents" in text
    assert "Proof." in text
    assert "lemmata demo" not in lemmata(
        "demo", tmp_path / "demo", "--no-training"
    )  # the second run reuses the workspace


def test_doctor_lists_its_checks(workspace: Path) -> None:
    checks = json.loads(lemmata("doctor", "-w", workspace, "--json"))
    assert {"name", "fine", "finding"} == checks[0].keys()
    assert "python" in lemmata("doctor", "-w", workspace)


def test_a_search_without_vectors_prints_a_note(tmp_path: Path) -> None:
    lemmata("init", tmp_path / "w")
    (tmp_path / "note.md").write_text("# Parts\n\nOdd parts and distinct parts are equally many.\n", encoding="utf-8")
    lemmata("ingest", tmp_path / "note.md", "-w", tmp_path / "w")
    lemmata("index", "--no-dense", "-w", tmp_path / "w")
    command = [sys.executable, "-m", "lemmata", "search", "parts", "-w", str(tmp_path / "w"), "--json"]
    for options, has_note in (([], True), (["--retriever", "lexical"], False)):
        process = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
        assert len(json.loads(process.stdout)) == 1
        assert ("searched by words only" in process.stderr) is has_note


def test_the_version_is_printed() -> None:
    assert lemmata("--version").startswith("lemmata 0.")


def test_an_output_path_that_cannot_be_written_is_one_sentence(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    lemmata("index", "--no-dense", "-w", workspace)
    command = ("evaluate", "--beir", EXAMPLE, "--retriever", "lexical", "-w", workspace, "--html", tmp_path / "folder")
    assert "folder: Is a directory" in lemmata(*command, code=1)
