"""A long statement is one passage for people, and several rows for the index."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.make import lemmata, make_workspace
from tests.served import serving

from lemmata.core.types import whole_id
from lemmata.corpus.split import Split
from lemmata.graph.store import GraphRecordStore
from lemmata.maintain.content import show
from lemmata.mine.material import training_view
from lemmata.project import Project
from lemmata.search.filter import Filter
from lemmata.search.ranking import fold_parts

FILLER = " ".join(f"Step {n} moves the token {n} places along the board." for n in range(900))
PAPER = (
    "\\documentclass{article}\\begin{document}\n"
    f"\\begin{{theorem}}[Long march]\\label{{long}} {FILLER} Then the xylophone meets the zeppelin.\\end{{theorem}}\n"
    "\\begin{lemma}\\label{short} A token is a small disc, see \\ref{long}.\\end{lemma}\n\\end{document}\n"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_workspace(tmp_path_factory.mktemp("parts"), {"march.tex": PAPER}, graph=True)


@pytest.mark.parametrize("retriever", ["lexical", "dense", "hybrid", "auto"])
def test_search_finds_the_end_of_a_long_statement_as_the_statement(project: Project, retriever: str) -> None:
    with project.retriever() as opened:
        hits = opened.search("xylophone meets the zeppelin", 10, retriever=retriever)
        only_theorems = opened.search("xylophone", 10, retriever=retriever, filter=Filter(kinds=("theorem",)))
        similar = opened.similar("march#long", 10)
    assert hits[0].id == "march#long"
    assert hits[0].text.endswith("xylophone meets the zeppelin.")
    assert [hit.id for hit in hits[1:]] in ([], ["march#short"])
    assert [hit.id for hit in only_theorems] == ["march#long"]
    assert [hit.id for hit in similar] == ["march#short"]


def test_people_see_the_whole_statement_once(project: Project) -> None:
    assert len(show(project, "march#long")["text"]) > 40_000
    assert show(project, "march#long~part-3")["id"] == "march#long"
    assert [passage["id"] for passage in show(project, "march")["passages"]] == ["march#long", "march#short"]
    corpus = project.corpus
    assert {record["passages"] for record in corpus.document_records()} == {2}
    assert set(corpus.parts().values()) == {corpus.row("march#long")}


def test_every_count_of_passages_is_without_parts(project: Project) -> None:
    for counts in (project.info(), json.loads(lemmata("info", "-w", project.root, "--json"))):
        assert (counts["passages_in_all"], counts["passages"]) == (2, {"lemma": 1, "theorem": 1})
        assert counts["parts"] == len(project.corpus) - 2
    assert json.loads(lemmata("info", "--documents", "-w", project.root, "--json"))["documents"][0]["passages"] == 2
    assert json.loads(lemmata("list", "documents", "-w", project.root, "--json"))[0]["passages"] == 2
    assert project.corpus.totals()["passages"] == 2
    assert "passages   2\nparts      36\n" in lemmata("index", "--no-dense", "-w", project.root)
    with serving(project.root) as client:
        health = client.get("/health").json()
        assert (health["passages"], health["kinds"]) == (2, {"lemma": 1, "theorem": 1})
        assert client.get("/outline").json()["documents"][0]["passages"] == 2
        assert client.get("/outline", params={"document": "march"}).json()["total"] == 2


def test_parts_give_no_training_data_and_no_concepts(project: Project) -> None:
    corpus = project.corpus
    nothing = np.zeros(len(corpus), np.int8)
    view = training_view(corpus, Split(nothing, nothing > 0))
    assert sorted(passage.id for _, passage in view.all_passages()) == ["march#long", "march#short"]
    with GraphRecordStore(project) as records:
        assert not [edge for edge in records.edges() if whole_id(edge.source) or whole_id(edge.evidence)]


def test_parts_fold_into_their_passages() -> None:
    rows, scores = np.array([[3, 0, 4, 1, -1]]), np.array([[5, 4, 3, 2, -np.inf]], np.float32)
    whole = np.array([0, 1, 2, 1, 0])
    folded, best = fold_parts(rows, scores, whole, 3)
    assert folded.tolist() == [[1, 0, -1]]
    assert best[0, :2].tolist() == [5.0, 4.0]
