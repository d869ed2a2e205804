"""Queries that ask what something is, and the passages that define it."""

from __future__ import annotations

import pytest
from tests.make import write

from lemmata.project import Project
from lemmata.search.definitions import asked_term

TEXT = r"""\documentclass{article}
\newtheorem{theorem}{Theorem}\newtheorem{definition}{Definition}
\begin{document}
\begin{theorem}\label{trivial}A torsor is trivial if the torsor has a point; what is a torsor without one?\end{theorem}
\begin{definition}\label{torsor}Let $G$ be a group. A \emph{torsor} is a set on which $G$ acts freely and
transitively.\end{definition}
\begin{theorem}\label{flat}Every syntomic ring map is flat, so what is syntomic is a flat ring map.\end{theorem}
\begin{definition}\label{syntomic}A ring map is called \emph{syntomic} if it is flat and its fibres are local complete
intersections.\end{definition}
\begin{theorem}\label{group}The group of a torsor is what it is, as any definition of the group says.\end{theorem}
\end{document}
"""
GERMAN = """Ein Torsor ohne Punkt ist nicht trivial, was auch immer der Torsor sonst ist.

Ein Torsor ist eine Menge, auf der eine Gruppe frei und transitiv wirkt.
"""
NOTES = """# Notes

Words at the beginning, enough of them for a passage of their own: a sheaf, a quandle, a monoid, a stack.

# One

Presheaves come first, then we go on. A *sheaf* is a presheaf whose sections glue along every open cover of the space.

# Two

We say more of operations now. Something is called ***quandle-like*** if it has a self-distributive operation.

# Three

*Definition.* A monoid is a set with an associative multiplication and a unit, and nothing more is wanted of it.

# Four

Whoever likes a sheaf, a monoid or what is quandle-like will like a sheaf of monoids, a monoid of sheaves and a sheaf.
"""


@pytest.mark.parametrize(
    ("query", "term"),
    [
        ("What is a torsor?", "torsor"),
        ("what's the Krull dimension", "Krull dimension"),
        ("definition of the hook length", "hook length"),
        ("hook length definition", "hook length"),
        ("define Young tableau", "Young tableau"),
        ("what does flat mean?", "flat"),
        ("Was ist ein Torsor?", "Torsor"),
        ("Definition des Torsors", "Torsors"),
        ("was versteht man unter einer Gruppe", "Gruppe"),
        ("what is known about the growth of the number of partitions of n", ""),
        ("the torsor is trivial", ""),
        ("undefined behaviour", ""),
        ("", ""),
    ],
)
def test_the_term_is_what_a_query_asks_the_definition_of(query: str, term: str) -> None:
    assert asked_term(query) == term


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("definitions")
    write(folder / "texts", {"paper.tex": TEXT, "notiz.md": GERMAN, "notes.md": NOTES})
    project = Project.init(folder / "w")
    project.ingest([folder / "texts"])
    project.index(dense=False)
    return project


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what is a torsor?", "paper#torsor"),
        ("definition of torsor", "paper#torsor"),
        ("define torsors", "paper#torsor"),
        ("what is a syntomic ring map", "paper#syntomic"),
        ("what is a sheaf", "notes@2"),
        ("what does quandle-like mean", "notes@3"),
        ("definition of a monoid", "notes@4"),
        ("syntomic ring map", "paper#flat"),  # asks for no definition
    ],
)
def test_what_defines_a_term_comes_first_where_a_query_asks_for_it(project: Project, query: str, first: str) -> None:
    with project.retriever() as retriever:
        assert retriever.search(query, 3)[0].id == first


def test_a_german_question_finds_a_german_definition(project: Project) -> None:
    with project.retriever() as retriever:
        first, second = retriever.search("Was ist ein Torsor?", 2)
    assert first.id == "paper#torsor"
    assert second.id == "notiz@1"


def test_where_nothing_defines_the_term_the_ranking_stays(project: Project) -> None:
    with project.retriever() as retriever:
        assert retriever.named("what is a group of a torsor") == []
