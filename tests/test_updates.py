"""Updates: after any sequence of added, changed and deleted documents a workspace equals one built from scratch."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path

import pytest
from bench.updates import contents, differences
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lemmata.core.database import Memo
from lemmata.core.types import Passage
from lemmata.graph.concepts.build import build_concepts
from lemmata.graph.concepts.candidates import Evidence, evidence_key, from_json, read_evidence, to_json
from lemmata.project import Project

WORDS = ("comet", "sponge", "lattice", "zebra", "Glocke", "ring", "tableau")
ENGLISH = r"""\documentclass{article}\newtheorem{theorem}{Theorem}\newtheorem{definition}{Definition}
\title{On the %(secret)s %(word)s}\begin{document}\section{The wet %(word)s}
\begin{definition}\label{def-%(name)s}A \emph{%(secret)s %(word)s} is a wet %(word)s that sleeps %(times)s.
\end{definition}\begin{theorem}[The %(secret)s bound]\label{thm-%(name)s}Every %(word)s of Definition
\ref{def-%(name)s} is wet, see \ref{def-%(other)s} and \cite{x}.\end{theorem}
\begin{proof}By Theorem \ref{thm-%(other)s} and Zorn's lemma.\end{proof}
\begin{thebibliography}{1}\bibitem{x} A. Author, \emph{On the %(cited)s comet}, 2001.\end{thebibliography}
\end{document}"""
GERMAN = "# Die %(secret)s %(word)s\n\nEine *%(secret)s %(word)s* ist eine %(word)s, die nachts %(times)s mal klingt.\n"
QUERIES = ["wet comet that sleeps", "Zorn's lemma", "nachts klingt die Glocke"]


def secret(name: int, version: int) -> str:
    """A word that stands in one version of one document only, and in the title that others cite."""
    return f"qx{name}vz{version}k"


def write(folder: Path, name: int, version: int) -> None:
    facts = {
        "name": name,
        "word": WORDS[(name + version) % len(WORDS)],
        "other": (name + version + 1) % 5,
        "times": version + 2,
        "secret": secret(name, version),
        "cited": secret((name + 1) % 5, 0),
    }
    german = facts["word"] == "Glocke"
    for suffix in ("md", "tex"):
        (folder / f"n{name}.{suffix}").unlink(missing_ok=True)
    (folder / f"n{name}.{'md' if german else 'tex'}").write_text((GERMAN if german else ENGLISH) % facts, "utf-8")


def bring_up_to_date(workspace: Path) -> Project:
    folder = workspace.parent
    project = Project(workspace) if workspace.exists() else Project.init(workspace)
    about = [{"query": f"what does {path.stem} say", "passage": f"{path.stem}#thm-{path.stem[1:]}"}
             for path in sorted((folder / "notes").glob("n*.tex"))]  # fmt: skip
    about.append({"query": "what is always there", "passage": "first#def-0"})
    (folder / "about.jsonl").write_text("".join(json.dumps(line) + "\n" for line in about))
    project.ingest([folder / "notes"], workers=1)
    project.build_graph()
    project.index(settings={"encoder": "hashing", "summaries": "../about.jsonl"})
    return project


def prepare(folder: Path) -> Path:
    """The folder of sources, with one document that always stays."""
    notes = folder / "notes"
    notes.mkdir()
    write(notes, 0, 0)
    (notes / "n0.tex").rename(notes / "first.tex")
    return notes


STEPS = st.lists(  # of an update: number and new version of a document, None to delete it
    st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 3)), min_size=1, max_size=3),
    min_size=2,
    max_size=4,
)


@given(STEPS)
@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])  # shrinking would take minutes
def test_a_workspace_after_updates_equals_one_built_from_scratch(steps: list[list[tuple[int, int | None]]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        notes = prepare(folder)
        for update in steps:
            for name, version in update:
                if version is None:
                    for path in notes.glob(f"n{name}.*"):
                        path.unlink()
                else:
                    write(notes, name, version)
            bring_up_to_date(folder / "w")
        bring_up_to_date(folder / "again")
        assert differences(folder / "w", folder / "again", QUERIES) == []
        assert (folder / "w/graph/compressed/concepts.json").read_bytes() == (
            folder / "again/graph/compressed/concepts.json"
        ).read_bytes()


def test_a_file_that_takes_the_place_of_a_deleted_one_gets_its_id(tmp_path: Path) -> None:
    notes = prepare(tmp_path)
    project = Project.init(tmp_path / "w")
    for version in (1, 3):  # LaTeX, then Markdown
        write(notes, 1, version)
        project.ingest([notes], workers=1)
    assert (notes / "n1.md").exists()
    assert {document.id for document in project.corpus.documents()} == {"first", "n1"}


def holding(workspace: Path, word: str) -> list[str]:
    """The files of a workspace that hold a word, in whatever case."""
    files = (path for path in sorted(workspace.rglob("*")) if path.is_file())
    return [str(path.relative_to(workspace)) for path in files if word.encode() in path.read_bytes().lower()]


def test_deleted_and_replaced_text_is_gone_from_every_file(tmp_path: Path) -> None:
    notes = prepare(tmp_path)
    for name in range(1, 5):
        write(notes, name, 1 if name != 3 else 2)
    for number in range(20):  # several pages of the database, which deleting empties
        write(notes, 100 + number, 1)
    project = bring_up_to_date(tmp_path / "w")
    assert len(holding(tmp_path / "w", secret(2, 1))) >= 3  # corpus, graph
    write(notes, 2, 2)
    for number in (3, *range(100, 120)):
        for path in notes.glob(f"n{number}.*"):
            path.unlink()
    bring_up_to_date(tmp_path / "w")
    for number in (3, *range(100, 120)):
        gone = secret(number, 1 if number != 3 else 2)
        assert holding(tmp_path / "w", gone) == []
    assert holding(tmp_path / "w", secret(2, 1)) == []
    assert holding(tmp_path / "w", secret(1, 1))
    project.remove([notes])
    assert holding(tmp_path / "w" / "corpus", secret(1, 1)) == []


def test_only_new_passages_are_read_for_concepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = prepare(tmp_path)
    bring_up_to_date(tmp_path / "w")
    read: list[str] = []

    def noted(passage: Passage, title: str | None) -> Evidence:
        read.append(passage.id)
        return read_evidence(passage, title)

    monkeypatch.setattr("lemmata.graph.concepts.candidates.read_evidence", noted)
    write(notes, 1, 1)
    bring_up_to_date(tmp_path / "w")
    assert read
    assert {identity.partition("#")[0] for identity in read} == {"n1"}


# ---------------------------------------------------------------- the parts


def test_evidence_comes_back_from_json_and_gives_the_same_graph(tmp_path: Path) -> None:
    notes = prepare(tmp_path)
    for name in range(1, 7):
        write(notes, name, name)
    project = Project.init(tmp_path / "w")
    project.ingest([notes], workers=1)
    passages, documents = list(project.corpus), list(project.corpus.documents())
    assert any(read_evidence(passage, "").german for passage in passages)
    again = build_concepts(passages, documents, read=lambda *values: from_json(to_json(read_evidence(*values))))
    assert again == build_concepts(passages, documents)
    keys = {evidence_key(passage, title) for passage in passages for title in (None, "", "A title")}
    assert len(keys) == 3 * len(passages)


def test_a_memo_keeps_what_was_asked_for_and_survives_damage(tmp_path: Path) -> None:
    path = tmp_path / "memo.sqlite"
    with Memo(path, "code") as memo:
        assert memo.get(b"a") is None
        memo.put(b"a", "ä")
        memo.put(b"b", "never asked for")
    with Memo(path, "code") as memo:
        assert memo.get(b"a") == "ä"
        assert memo.get(b"b") is None
    with contextlib.suppress(KeyError), Memo(path, "code") as memo:
        memo.put(b"c", "of a run that was interrupted")
        raise KeyError
    with Memo(path, "code") as memo:
        assert memo.get(b"c") == "of a run that was interrupted"
        assert memo.get(b"a") == "ä"
    with Memo(path, "other code") as memo:
        assert memo.get(b"a") is None
    path.write_bytes(b"no database at all")
    with Memo(path, "code") as memo:
        assert memo.get(b"a") is None


def test_the_comparison_sees_a_difference(tmp_path: Path) -> None:
    notes = prepare(tmp_path)
    bring_up_to_date(tmp_path / "w")
    shutil.copytree(tmp_path / "w", tmp_path / "again")
    assert differences(tmp_path / "w", tmp_path / "again", QUERIES) == []
    write(notes, 1, 1)
    bring_up_to_date(tmp_path / "again")
    assert {"passages", "nodes", "edges", "lengths", "hits of lexical"} <= {
        *differences(tmp_path / "w", tmp_path / "again", QUERIES)
    }
    assert "summaries" in dict(contents(tmp_path / "w", QUERIES))
