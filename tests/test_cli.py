from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main
from tests.make import lemmata, make_workspace, run_command, write

from lemmata.cli import output
from lemmata.cli.main import COMMANDS, GROUPS, make_app
from lemmata.cli.meant import OPTIONS
from lemmata.cli.output import counted, progress_display, read_budget
from lemmata.core.errors import ConfigError
from lemmata.project import Project

NOTE = {"note.md": "# Parts\n\nOdd parts and distinct parts are equally many.\n"}
EXAMPLE = Path(__file__).parents[1] / "examples" / "qseries"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    lemmata("init", folder)
    report = json.loads(lemmata("ingest", EXAMPLE, "-w", folder, "--json"))
    assert report["added"] == 44
    assert report["failed"] == 0
    lemmata("index", "--no-dense", "-w", folder)
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
    assert "f^λ" in text
    assert r"\lambda" in content["text"]
    assert r"\lambda" not in text


def test_show_takes_a_label_or_a_number_that_only_one_passage_has(workspace: Path) -> None:
    whole = lemmata("show", "hook-length#thm:hook-formula", "-w", workspace)
    assert lemmata("show", "Theorem 1.2 of Hooks and tableaux", "-w", workspace) == whole
    assert "hook-length#thm:hook-formula" in lemmata("show", "Theorem 1.2", "-w", workspace, code=1)
    assert "Theorem 77.2" in lemmata("show", "Theorem 77.2", "-w", workspace, code=1)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("search ", "the query is empty"),
        ("search theta --since 2023-06 --until 2023-01", "nothing is both since 2023-06 and until 2023-01"),
        ("search theta --retriever desne", "there is no retriever 'desne'; did you mean 'dense'?"),
        ("search theta --retriever none", "(there are: auto, hybrid, dense, lexical, diffusion, geodesic, auto:"),
        ("config mnie", "there is no table [mnie]; did you mean mine?"),
        ("index --encoder lemmata-plnat", "there is no encoder 'lemmata-plnat'; did you mean lemmata-plant"),
        ("evaluate --task references --retriever lexical,lexical", "the retriever 'lexical' is named twice"),
        ("evaluate --task references --tune --retriever lexical,dense", "it has none to choose for 'lexical'"),
        ("evaluate --task references --tune --retriever hybrid,dense+rerank", "it has none to choose for 'hybrid'"),
        ("evaluate --task references --tune --trec out.trec", "leave out --trec"),
        ("evaluate --task references --tune --train-queries q.jsonl", "leave out --train-queries"),
        ("evaluate --task references --tune --train-qrels q.tsv", "leave out --train-qrels"),
        ("evaluate --task references --tune --allow-leakage", "leave out --allow-leakage"),
        ("show hook-length#thm:hook-formulas", "did you mean hook-length#thm:hook-formula"),
        ("list theorems", "there are: documents, passages, concepts"),
        ("list passages --document heines", "did you mean heine"),
        ("list passages --kind theorm", "did you mean 'theorem'"),
        ("list concepts", "graph build"),
        ("run", "[run]"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(workspace: Path, command: str, sentence: str) -> None:
    error = lemmata(*command.split(" "), "-w", workspace, code=1)
    assert sentence in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("search theta --limit 3", "-k"),
        ("search theta --top-k=3", "-k"),
        ("search theta -n3", "-k"),
        ("search --query theta", "TEXT"),
        ("search theta --model minilm", "--retriever NAME"),
        ("ask why --limit 3", "-k"),
        ("index --model minilm", "--encoder ENCODER"),
        ("index --force", "--rebuild"),
        ("ingest --dir papers", "PATHS..."),
        ("evaluate --query q.jsonl", "--queries FILE"),
        ("mine export pairs --output out", "PATH"),
        ("inspect --output out", "--out DIR"),
        ("init --workspace w", "DIR"),
        ("serve -p 80", "--port"),
        ("-V", "--version"),
        ("index --expand", "-o expand=true"),
        ("train finetune tuned --epochs 3", "-o epochs=VALUE"),
        ("mine negatives pairs --number=3", "-o negatives.number=VALUE"),
    ],
)
def test_an_option_of_other_tools_is_answered_by_its_name_here(command: str, name: str) -> None:
    error = lemmata(*command.split(" "), code=2)
    assert re.search(rf" (use|write) {re.escape(name)}(\n| without an option\n)", error)
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("search hook lengths", ' search "hook lengths"'),
        ("search hook -k 3 lengths formula", ' search "hook lengths formula" -k 3'),
        ("ask why is $p$ prime", " ask 'why is $p$ prime'"),
        ("show Theorem 4.2 -w w", ' show "Theorem 4.2" -w w'),
    ],
)
def test_a_question_without_quotes_is_answered_by_the_command_with_them(command: str, meant: str) -> None:
    error = lemmata(*command.split(" "), code=2)
    assert error.endswith(f"{meant}\n")
    assert error.count("\n") == 1
    assert "extra argument" in lemmata("init", "a", "b", code=2)


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("-w DIR search theta", "search … -w …"),
        ("--json search theta", "search … --json …"),
        ("graph -w DIR build", "graph build … -w …"),
    ],
)
def test_an_option_before_the_command_is_told_where_it_stands(command: str, meant: str) -> None:
    error = lemmata(*command.split(" "), code=2)
    assert "stands behind the command" in error
    assert error.endswith(f"{meant}\n")
    assert "No such option" in lemmata("--limit", "3", "search", "theta", code=2)


def test_an_option_that_means_nothing_here_and_a_text_with_a_dash_are_answered_as_ever() -> None:
    for command in (["info", "--port", "80"], ["search", "theta", "--output", "out"], ["search", "-n is odd"]):
        assert "No such option" in lemmata(*command, code=2)


def test_what_options_of_other_tools_mean_exists() -> None:
    parameters: list[Any] = []

    def walk(command: Any) -> None:
        parameters.extend(command.params)
        for child in getattr(command, "commands", {}).values():
            walk(child)

    walk(typer.main.get_command(make_app()))
    names = {name for parameter in parameters for name in (*parameter.opts, parameter.metavar)}
    assert {name for meant in OPTIONS.values() for name in meant} <= names


def test_one_thing_is_counted_in_the_singular(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("id,text\n1,The pump leaks.\n2,\n")
    lemmata("init", tmp_path / "w")
    text = lemmata("ingest", tmp_path / "logs.csv", "-w", tmp_path / "w")
    assert "1 note on the input" in text
    assert [counted(number, "query") for number in (0, 1, 2000)] == ["0 queries", "1 query", "2,000 queries"]


def test_init_says_that_a_workspace_exists(tmp_path: Path) -> None:
    assert "exists already" not in lemmata("init", tmp_path / "new")
    assert "exists already" in lemmata("init", tmp_path / "new")
    lemmata("init", tmp_path / "served" / ".lemmata")
    assert "'lemmata serve' made" in lemmata("init", tmp_path / "served", code=1)
    assert not (tmp_path / "served" / "lemmata.toml").exists(), "it would hide the workspace in the folder"


def test_a_link_to_a_folder_is_not_replaced_by_an_export(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "old.jsonl").write_text("old")
    (tmp_path / "link.jsonl").symlink_to("old.jsonl")
    assert "Is a directory" in lemmata("export", "corpus", tmp_path / "link", "-w", workspace, code=1)
    lemmata("export", "corpus", tmp_path / "link.jsonl", "-w", workspace)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "old.jsonl").read_text().count("\n") > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", "link.jsonl", "old.jsonl"]


def test_errors_are_one_sentence(tmp_path: Path) -> None:
    assert lemmata("info", "-w", tmp_path, code=1).count("\n") == 1
    lemmata("init", tmp_path)
    for arguments in ("info", f"ingest {tmp_path}/nowhere", "show x"):
        error = lemmata(*arguments.split(), "-w", tmp_path, code=1)
        assert error.startswith("lemmata: ")
        assert error.count("\n") == 1


def test_skips_are_listed_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "p.tex").write_text(
        "\\documentclass{article}\n\\begin{document}\nText here.\n\\input{gone}\n\\end{document}\n"
    )
    make_workspace(tmp_path, tmp_path / "p.tex", index=None)
    shown = lemmata("info", "--skips", "-w", tmp_path / "w")
    assert shown == "1 × included file 'gone' does not exist\n    p.tex:4\n"


def test_notes_of_one_kind_are_shown_once_with_their_number_and_some_places(tmp_path: Path) -> None:
    inputs = "".join(f"\\input{{gone{number}}}\n" for number in range(9))
    (tmp_path / "p.tex").write_text(
        f"\\documentclass{{article}}\n\\begin{{document}}\nText.\n{inputs}\\end{{document}}\n"
    )
    make_workspace(tmp_path, tmp_path / "p.tex", index=None)
    lines = lemmata("info", "--skips", "-w", tmp_path / "w").splitlines()
    assert lines[0] == "9 × included file … does not exist"
    assert lines[1] == "    p.tex:4: included file 'gone0' does not exist"
    assert lines[-1] == "    and 6 more (--json lists all)"
    assert len(json.loads(lemmata("info", "--skips", "--json", "-w", tmp_path / "w"))) == 9


def test_references_without_a_target_are_one_line_a_macro(tmp_path: Path) -> None:
    files = {f"{name}.tex": f"\\section{{{name}}} See \\eqref{{gone{name}}} here.\n" for name in "abcde"}
    files["e.tex"] += "And \\eqref{gone2}, \\nameref{lost}.\n"
    write(tmp_path / "notes", files)
    make_workspace(tmp_path, tmp_path / "notes", index=None)
    shown = lemmata("info", "--skips", "-w", tmp_path / "w").splitlines()
    assert shown == [
        "\\eqref: 6 references without a target, from e.tex:1, a.tex:1, b.tex:1 and 2 more",
        "\\nameref: 1 reference without a target, from e.tex:1",
    ]


def test_lists_show_the_numbers_of_statements_and_the_definitions_of_concepts(tmp_path: Path) -> None:
    text = "\\begin{definition} A \\emph{widget} is a gadget with two holes. \\end{definition} A widget has holes.\n"
    numbered = f"\\documentclass{{article}}\\newtheorem{{definition}}{{Definition}}\\begin{{document}}{text * 2}"
    write(tmp_path / "notes", {"a.tex": numbered + "\\end{document}"})
    make_workspace(tmp_path, tmp_path / "notes", index=None)
    passages = [line.split() for line in lemmata("list", "passages", "-w", tmp_path / "w").splitlines()]
    assert passages[1][:3] == ["a#definition-1", "definition", "1"]
    lemmata("graph", "build", "-w", tmp_path / "w")
    assert "two holes" in lemmata("list", "concepts", "-w", tmp_path / "w")
    records = json.loads(lemmata("list", "concepts", "--json", "-w", tmp_path / "w"))
    assert any("two holes" in record["definition"] for record in records)


@pytest.mark.parametrize("words", [("search", "p", "-k", "-1"), ("list", "-k", "-1"), ("search", "-k", "-1", "p")])
def test_a_number_that_is_too_small_is_not_taken_for_options(workspace: Path, words: tuple[str, ...]) -> None:
    error = lemmata(*words, "-w", workspace, code=2)
    assert "'-k'" in error.splitlines()[-1]


@pytest.mark.slow
def test_the_demo_runs_in_a_workspace_that_is_there(tmp_path: Path) -> None:
    Project.init(tmp_path / "demo")
    (tmp_path / "demo" / "lemmata.toml").write_text('[index]\nencoder = "lemmata-nano"\n')  # the quickest
    text = lemmata("demo", tmp_path / "demo", "--no-training")
    assert "44 documents" in text
    assert "Proof." in text
    assert (tmp_path / "demo" / "report.html").is_file()


def test_a_search_without_vectors_prints_a_note(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, NOTE, index="lexical").root
    for options, has_note in (([], True), (["--retriever", "lexical"], False)):
        process = run_command("search", "parts", "-w", root, "--json", *options)
        assert len(json.loads(process.stdout)) == 1
        assert ("searched by words only" in process.stderr) is has_note


def test_without_vectors_the_lexical_retriever_is_evaluated(tmp_path: Path) -> None:
    make_workspace(tmp_path, [{"id": "a", "text": "Odd parts"}, {"id": "b", "text": "Even parts"}], index="lexical")
    (tmp_path / "asked.tsv").write_text("passage\tquery\na\todd\n")
    command = ("evaluate", "--queries", tmp_path / "asked.tsv", "-w", tmp_path / "w", "--json")
    done = run_command(*command)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["retrievers"]) == ["lexical"]
    assert "lemmata: only --retriever lexical is evaluated: there are no vectors yet, 'lemmata index'" in done.stderr
    assert "no dense index" in lemmata(*command, "--retriever", "dense", code=1)
    lemmata("index", "--encoder", "hashing", "-w", tmp_path / "w")
    done = run_command(*command)
    assert list(json.loads(done.stdout)["retrievers"]) == ["lexical", "dense", "hybrid", "auto"]
    assert "only" not in done.stderr


def test_files_of_queries_and_judgments_that_cannot_be_used_are_named(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "queries.jsonl").write_text('{"_id": "a", "text": "hook"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n7\thook-length@1\t1\n")
    for name in ("empty.tsv", "empty.jsonl"):
        (tmp_path / name).touch()
        assert f"{name}: there are no queries in it\n" in lemmata(
            "evaluate", "--queries", tmp_path / name, "-w", workspace, code=1
        )
    sentence = f"test.tsv: it judges 1 query that {tmp_path / 'queries.jsonl'} does not have, with the id '7'\n"
    files = ("--queries", tmp_path / "queries.jsonl", "--qrels", tmp_path / "qrels" / "test.tsv")
    assert sentence in lemmata("evaluate", *files, "-w", workspace, code=1)
    assert sentence in lemmata("evaluate", "--beir", tmp_path, "-w", workspace, code=1)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_characters_that_the_terminal_cannot_show_are_replaced(tmp_path: Path, encoding: str) -> None:
    root = make_workspace(tmp_path, [{"id": "ő", "text": "Erdős and Rényi"}], index=None).root
    done = run_command("show", "ő", "-w", root, encoding=encoding)
    assert "Erd?s and R" in done.stdout
    assert not done.stderr
    done = run_command("show", "ő", "--json", "-w", root, encoding=encoding)
    assert json.loads(done.stdout)["text"] == "Erdős and Rényi"  # escaped, not replaced
    done = run_command("--log", "json", "show", "őő", "-w", root, encoding=encoding)
    messages = [json.loads(line)["message"] for line in done.stderr.splitlines()]
    assert any("'őő'" in message for message in messages)


@pytest.mark.parametrize("text", ["-1 modulo p", "-p adic", "-k theory", "-1"])
def test_a_text_that_begins_with_a_dash_is_explained(workspace: Path, text: str) -> None:
    error = lemmata("search", text, "-w", workspace, code=2)
    assert error.splitlines()[-1] == (
        f"lemmata: {text!r} was read as options, as it begins with a dash: put it last, with -- before it"
    )
    lemmata("search", "-w", workspace, "--", text)
    assert "dash" not in lemmata("search", "p", "--unknown", "-w", workspace, code=2)


def test_the_version_is_printed() -> None:
    assert lemmata("--version").startswith("lemmata 0.")


def test_an_output_path_that_cannot_be_written_is_one_sentence(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    command = ("evaluate", "--beir", EXAMPLE, "--retriever", "lexical", "-w", workspace, "--html", tmp_path / "folder")
    assert "folder: Is a directory" in lemmata(*command, code=1)


# ---------------------------------------------------------------- lists and everything about one id


def test_documents_passages_and_bibliography_are_listed(workspace: Path) -> None:
    documents = json.loads(lemmata("list", "-w", workspace, "--json"))
    info = json.loads(lemmata("info", "-w", workspace, "--json"))
    assert len(documents) == info["documents"] == 44
    assert sum(document["passages"] for document in documents) == info["passages_in_all"]
    theorems = json.loads(lemmata("list", "passages", "--kind", "theorem", "-w", workspace, "--json"))
    assert len(theorems) == info["passages"]["theorem"]
    entries = json.loads(lemmata("list", "bibliography", "-w", workspace, "--json"))
    assert len(entries) == info["bibliography"]["entries"]
    assert {entry["target"] for entry in entries} > {None, "heine"}
    of_one = lemmata("list", "passages", "--document", "bailey/main", "-k", "2", "-w", workspace)
    assert "bailey/main#abstract-1" in of_one
    assert of_one.splitlines()[-1].startswith("and ")


def test_a_document_is_shown_with_its_passages_and_its_bibliography(workspace: Path) -> None:
    content = json.loads(lemmata("show", "bailey/main", "-w", workspace, "--json"))
    assert content["type"] == "document"
    assert "bailey/main#lem:bailey" in [passage["id"] for passage in content["passages"]]
    assert {"key", "title", "target"} <= content["bibliography"][0].keys()
    text = lemmata("show", "bailey/main", "-w", workspace)
    assert "Bailey pairs and Bailey chains" in text
    assert "lemma 2.2 bailey/main#lem:bailey  Bailey's lemma" in text


HISTORY = """id,date,location,related,text,shift
L1,2024-05-02,P-1,,Seal leaks.,night
L2,2024-05-03,P-2,,Motor hums.,
L3,2024-05-09,P-1,L1,Seal replaced.,
L4,2024-05-05,P-1,L1,Waiting for a seal.,
L5,2024-05-04,Q,,Filter clogged.,
"""


def test_locations_are_listed_and_shown_with_their_history_in_threads_of_follow_ups(tmp_path: Path) -> None:
    tree = "id,parent,description\nP,,plant\nP-1,P,feed pump\nP-2,P,motor\nQ,,filter\n"
    make_workspace(tmp_path, {"hierarchy.csv": tree, "logs.csv": HISTORY}, index=None)
    locations = json.loads(lemmata("list", "locations", "-w", tmp_path / "w", "--json"))
    assert [(place["id"], place["parent"], place["logs"]) for place in locations] == [
        ("location:P", None, 0),
        ("location:P-1", "location:P", 3),
        ("location:P-2", "location:P", 1),
        ("location:Q", None, 1),
    ]
    shown = json.loads(lemmata("show", "location:P", "-w", tmp_path / "w", "--json"))
    assert shown["logs"] == 4
    assert [(log["thread"], log["id"]) for log in shown["history"]] == [(1, "L1"), (1, "L4"), (1, "L3"), (2, "L2")]
    assert shown["history"][2]["follows"] == ["L1"]
    assert (shown["history"][0]["date"], shown["history"][0]["text"]) == ("2024-05-02", "Seal leaks.")
    assert [part["id"] for part in shown["parts"]] == ["location:P-1", "location:P-2"]
    below = json.loads(lemmata("show", "location:P-1", "-k", "2", "-w", tmp_path / "w", "--json"))
    assert ([log["id"] for log in below["history"]], below["logs"], below["above"]) == (
        ["L1", "L4"],
        3,
        [{"id": "location:P", "title": "plant"}],
    )
    printed = lemmata("show", "P", "-k", "3", "-w", tmp_path / "w")  # or location:P
    assert printed.index("Seal leaks.") < printed.index("↳ 2024-05-05  L4  P-1") < printed.index("Seal replaced.")
    assert "1 more" in printed
    for spelling in ("location:P-1", "p-1", "P+1", "p1"):
        assert "feed pump" in lemmata("show", spelling, "-w", tmp_path / "w")
    log = lemmata("show", "L1", "-w", tmp_path / "w")
    for part in ("2024-05-02", "shift night", "reports_about location:P-1"):
        assert part in log


def test_a_passage_is_shown_with_its_concepts(qseries: Project) -> None:
    root = qseries.root
    content = json.loads(lemmata("show", "hook-length#thm:hook-formula", "-w", root, "--json"))
    assert {"id": "concept:partition", "name": "partition", "relation": "mentions"} in content["concepts"]
    assert "Concepts: " in lemmata("show", "hook-length#thm:hook-formula", "-w", root)
    first = [concept["name"] for concept in json.loads(lemmata("list", "concepts", "-k", "10", "-w", root, "--json"))]
    assert "partition" in first
    assert "part" not in first  # which is mentioned more often than most


# ---------------------------------------------------------------- output


def test_square_brackets_are_printed_as_they_are(tmp_path: Path) -> None:
    """A name, an id, a title and a text that would be markup for the library that prints them."""
    (tmp_path / "[red].md").write_text("# [bold] heading [/]\n\nThe matrix [blue] and the end tag [/italic].\n")
    lemmata("init", tmp_path / "w[dim]")
    lemmata("ingest", tmp_path / "[red].md", "-w", tmp_path / "w[dim]")
    assert "[red]" in lemmata("list", "-w", tmp_path / "w[dim]")
    shown = lemmata("show", "[red]@1", "-w", tmp_path / "w[dim]")
    assert "[red].md" in shown
    assert "The matrix [blue] and the end tag [/italic]." in shown
    lemmata("index", "--no-dense", "-w", tmp_path / "w[dim]")
    assert "[/italic]" in lemmata("search", "matrix", "-w", tmp_path / "w[dim]")


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    make_workspace(tmp_path, {"a.md": "# Title \x1b]0;owned\x07\n\nText with \x1b[31mred\x9b letters.\n"}, index=None)
    for command in (["show", "a@1"], ["list", "passages"]):
        shown = lemmata(*command, "-w", tmp_path / "w")
        assert not {"\x1b", "\x07", "\x9b"}.intersection(shown)
    assert "\x1b" not in lemmata("show", "\x1b[31m", "-w", tmp_path / "w", code=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "extra", "command"), [("pypdfium2", "pdf", ["ingest", "paper.pdf"]), ("mcp", "mcp", ["mcp"])]
)
def test_advice_to_install_an_extra_names_the_extra(
    workspace: Path, tmp_path: Path, library: str, extra: str, command: list[str]
) -> None:
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.4")
    hidden = f"import sys; sys.modules[{library!r}] = None; from lemmata.cli.main import main; main()"
    arguments = [sys.executable, "-c", hidden, *command, "-w", str(workspace)]
    process = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert f"pip install 'lemmata[{extra}]'" in process.stdout + process.stderr


@pytest.mark.slow
def test_the_page_needs_no_extra() -> None:
    optional = ["faiss", "mcp", "numba", "pyarrow", "pypdfium2", "scipy", "torch"]
    hidden = f"import sys; sys.modules.update(dict.fromkeys({optional})); import lemmata.server.run"
    subprocess.run([sys.executable, "-c", hidden], check=True)


def test_lines_are_neither_wrapped_nor_padded_in_a_pipe(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text = lemmata("show", "hook-length#thm:hook-formula", "-w", workspace)
    assert max(map(len, text.splitlines())) > 100
    commands = "search theta,list passages,list,show hook-length,info,ask what is a hook length?"
    for command in commands.split(","):
        verb, _, text = command.partition(" ")
        words = [text] if verb in ("search", "ask") else text.split()
        lines = lemmata(verb, *words, "-w", workspace).splitlines()
        assert len(lines) > 3
        assert lines == [line.rstrip() for line in lines]
        assert max(map(len, lines)) < 2000


@pytest.mark.slow
def test_ctrl_c_ends_with_one_sentence(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, NOTE, index=None).root
    with socket.create_server(("127.0.0.1", 0)) as silent:  # an encoder that never answers
        encoder = f"http://127.0.0.1:{silent.getsockname()[1]}/v1#model"
        command = [sys.executable, "-m", "lemmata", "index", "--encoder", encoder, "-w", str(root)]
        # a shell starts what runs in the background with Ctrl-C ignored
        heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heeding) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                _, error = process.communicate()
    assert process.returncode == 130
    assert error.endswith("lemmata: stopped; finished work is kept, the same command resumes\n")
    assert "Traceback" not in error


def test_a_second_split_or_index_without_options_keeps_those_of_the_first(tmp_path: Path) -> None:
    rows = [{"id": f"n{number}", "text": f"Note {number} about pumps."} for number in range(30)]
    root = make_workspace(tmp_path, rows, split={"seed": 5, "test": 0.3}).root
    manifest = root / "split" / "manifest.json"
    before = json.loads(manifest.read_text())
    again = json.loads(lemmata("split", "-w", root, "--json"))
    assert again["counts"] == before["counts"]
    assert json.loads(manifest.read_text())["options"] == before["options"]
    lemmata("index", "-w", root)
    assert [row["encoder"] for row in json.loads(lemmata("info", "-w", root, "--json"))["vectors"]] == ["hashing"]


def test_sources_are_listed_by_paths_that_can_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, NOTE)
    lemmata("init", "w")
    lemmata("ingest", "note.md", "-w", "w")
    [source] = json.loads(lemmata("list", "sources", "-w", "w", "--json"))
    assert source["path"] == "note.md"
    lemmata("ingest", "--remove", source["path"], "-w", "w")
    assert json.loads(lemmata("list", "sources", "-w", "w", "--json")) == []


def test_a_task_has_one_line_of_progress_however_its_text_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: now))
    with progress_display() as progress:
        for done in range(1, 6):
            progress(f"training, loss {4 - done / 10}", done, 50)
            progress("reading", 1000 * done, None)
            now += 3
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["training, loss 3.5: 5 of 50 (3.0 s each)", "reading: 4,000 (333/s)"]


def test_a_budget_is_read_and_a_wrong_one_is_named_with_its_cure() -> None:
    assert read_budget("") == read_budget("unlimited") == {}
    assert read_budget("calls=100, cost=0.5,seconds=9") == {"calls": 100, "cost": 0.5, "seconds": 9.0}
    for text in ("100", "calls=x", "calls=-1", "cost=nan", "cost=inf", "pages=3", "calls=0"):
        with pytest.raises(ConfigError, match=f"--budget {text}"):
            read_budget(text)
    with pytest.raises(ConfigError, match="tokens=100,cost=100"):
        read_budget("calls=5", ("tokens", "cost"))


def test_the_help_lists_each_command_once_with_its_whole_first_sentence() -> None:
    text = run_command("--help").stdout
    entries = [line.split()[0] for line in text.splitlines() if line.startswith("  ") and line[2:3].islower()]
    assert len(entries) == len(set(entries)) == sum(map(len, COMMANDS.values()))
    assert set(entries) > set(GROUPS)
    assert "..." not in text.partition("From a folder")[2]
