"""What people look for by name: labels of other chapters, references without a target, authors."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.make import write

from lemmata.core.types import Label
from lemmata.ingest.resolve import names_in_memory, resolve
from lemmata.project import Project
from lemmata.search.lexical import LexicalIndex
from lemmata.search.retriever import HEADING_WEIGHT


def test_what_is_not_resolved_is_counted_by_macro_with_a_place(tmp_path: Path) -> None:
    source = r"""\documentclass{book}
\newcommand\there[2][x]{Theorem~\ref{#1:#2}}
\begin{document}
\begin{lemma}\label{a} See \there{b}, \there[y]{c} and \ref{gone}.\end{lemma}

\begin{lemma} See \there{d}, \cref{a,e} and \hyperref[f]{this}.\end{lemma}
\end{document}
"""
    write(tmp_path / "book", {"main.tex": source})
    project = Project.init(tmp_path / "workspace")
    project.ingest([tmp_path / "book"])
    notes = {skip.cause.partition(":")[0]: skip for skip in project.skips()}
    assert {macro: (skip.line, skip.cause.split()[1]) for macro, skip in notes.items()} == {
        "\\there": (4, "3"),
        "\\ref": (4, "1"),
        "\\cref": (6, "1"),
        "\\hyperref": (6, "1"),
    }
    assert "'x:b'" in notes["\\there"].cause


def test_an_author_finds_the_beginning_of_a_document(tmp_path: Path) -> None:
    paper = "\\documentclass{article}\\title{%s}\\author{%s}\\begin{document}\\section{One} Text of %s.\\end{document}"
    write(
        tmp_path / "papers", {"a.tex": paper % ("Sets", "Ada Quill", "sets"), "b.tex": paper % ("Maps", "Bo", "maps")}
    )
    project = Project.init(tmp_path / "workspace")
    project.ingest([tmp_path / "papers"])
    with contextlib.closing(project.corpus) as corpus:
        index = LexicalIndex.build(corpus.contents(), tmp_path / "lexical", headings=corpus.headings())
        rows, _ = index.search(["the note of Quill"], 2, heading_weight=HEADING_WEIGHT)
        assert corpus.ids()[rows[0, 0]] == "a@1"


def test_a_cited_work_finds_the_passages_that_cite_it_with_its_entry(tmp_path: Path) -> None:
    bib = "\\begin{thebibliography}{9}\\bibitem{Ser} J.-P. Serre, \\emph{Local Fields}, Springer, 1979."
    bib += "\\bibitem{Q} A. Quill, \\emph{Sets and their subsets}, 2001.\\end{thebibliography}"
    cited = "The norm is onto \\cite{Ser}. See \\cite{Q}."
    paper = "\\documentclass{article}\\title{%s}\\author{%s}\\begin{document}\\section{One} %s\\end{document}"
    files = {
        "a.tex": paper
        % ("Norms", "Bo Bee", f"{'All fields are local. ' * 9}\\section{{Two}} {cited} {'Words. ' * 30}{bib}"),
        "b.tex": paper % ("Sets and their subsets", "Ada Quill", "Text of sets, and local things."),
    }
    write(tmp_path / "papers", files)
    project = Project.init(tmp_path / "workspace")
    project.ingest([tmp_path / "papers"])
    project.index(dense=False)
    with project.retriever() as retriever:
        for query in ("Serre", "Serre Local Fields", "Serre 1979"):
            first = retriever.search(query, k=3)[0]
            assert first.id == "a@2"
            assert all(part in first.cites for part in ("[Ser]", "Serre", "Local Fields", "1979"))
        held = retriever.search("Quill, Sets and their subsets", k=2)
        assert [(hit.id, "Quill" in hit.cites) for hit in held] == [("b@1", False), ("a@2", True)]
        for query in ("local fields", "norm"):  # words, which are no name of a work
            assert not any(hit.cites for hit in retriever.search(query, k=3))


def test_the_name_of_a_chapter_is_a_prefix_of_its_labels() -> None:
    places = {"sets": "book/sets", "maps": "book/maps", "other": "elsewhere/maps"}
    labels = [Label("sets", "lemma-union", "sets#lemma-union"), Label("maps", "sec:one", "maps@1")]
    wanted = {"sets:lemma-union": "sets#lemma-union", "maps-sec:one": "maps@1", "sets:gone": None, "lemma:union": None}
    links = [(number, "maps", "refers_to", label) for number, label in enumerate(wanted)]
    links.append((9, "other", "refers_to", "sets:lemma-union"))
    names = names_in_memory(labels, [], places, lambda _document, _key: None)
    targets = [link.target for link in resolve(links, names)]
    assert targets == [*wanted.values(), None]
