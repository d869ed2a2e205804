"""Citation graphs as people have them: folders of nodes and edges, OGB, and what they are good for."""

from __future__ import annotations

import contextlib
import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import lemmata, make_workspace, to_lines, write

from lemmata.core.errors import InputError
from lemmata.core.types import Skip
from lemmata.ingest.citation_graphs import Edges, find_graphs, read_edges
from lemmata.project import Project
from lemmata.search.retriever import Retriever

NODES = [
    {
        "id": "a",
        "title": "Trees",
        "abstract": "Trees have leaves.",
        "date": "2001-02-03",
        "categories": "math.CO cs.DM",
    },
    {"id": "b", "title": "Forests", "abstract": "Forests are made of trees.", "date": "2002"},
    {"id": "c", "title": "Leaves", "abstract": "Leaves fall in autumn.", "date": "2003"},
]


def links_of(project: Project) -> dict[str, list[tuple[str, str]]]:
    """Relation and target of the links of every passage."""
    with contextlib.closing(project.corpus) as corpus:
        return {passage.id: sorted((link.relation, link.target or "") for link in passage.links) for passage in corpus}


def causes(project: Project) -> list[str]:
    with contextlib.closing(project.corpus) as corpus:
        return [skip.cause for skip in corpus.skips()]


# ---------------------------------------------------------------- formats


def test_a_folder_of_nodes_and_edges_is_a_corpus_with_links(tmp_path: Path) -> None:
    files = {
        "nodes.jsonl.xz": lzma.compress(to_lines(NODES).encode()),
        "edges.tsv.gz": gzip.compress(b"b\ta\nc\ta\nc\tb\n"),
    }
    project = make_workspace(tmp_path, write(tmp_path / "graph", files), index=None)
    assert links_of(project) == {"a": [], "b": [("cites", "a")], "c": [("cites", "a"), ("cites", "b")]}
    with contextlib.closing(project.corpus) as corpus:
        passage, document = corpus[0], corpus.document("a")
    assert (passage.kind, passage.title, passage.text) == ("abstract", "Trees", "Trees have leaves.")
    assert (document.date, document.categories) == ("2001-02-03", ("math.CO", "cs.DM"))
    assert causes(project) == []
    write(tmp_path / "graph", {"edges.tsv.gz": gzip.compress(b"b\ta\n")})  # other edges are another reading
    assert project.ingest([tmp_path / "graph"]).changed == 1
    assert links_of(project)["c"] == []
    assert project.ingest([tmp_path / "graph"]).unchanged == 1


@pytest.mark.parametrize(
    ("edges", "notes"),
    [
        ("b,a\nc,a\n", 0),
        ("citing,cited\nb,a\nc,a\n", 0),
        ("Target;Source\na;b\na;c\n", 0),
        ("edge,cited_paper_id,citing_paper_id,year\n1,a,b,2001\n2,a,c,2002\n", 0),
        ("# a list\nb a\nc\ta\n\nc   a\nb b\n", 0),
        ('"b","a"\n"c","a"\n', 0),
        ("b\ta\t0.5\nc\ta\t1\n", 1),  # a third column
        ("b a\nc a\nc\n", 1),  # an edge without its end
        ("b a\nc a\nz a\n", 1),  # an unknown paper cites
    ],
)
def test_edges_are_read_with_and_without_a_header(tmp_path: Path, edges: str, notes: int) -> None:
    table = "Paper ID,Paper Title,Summary,Year\na,Trees,Trees have leaves.,2001\nb,Forests,,2002\nc,Leaves,,2003\n"
    folder = write(tmp_path / "graph", {"my_papers.csv": table, "citations.txt": edges})
    project = make_workspace(tmp_path, folder, index=None)
    assert links_of(project) == {"a": [], "b": [("cites", "a")], "c": [("cites", "a")]}
    assert len(causes(project)) == notes
    with contextlib.closing(project.corpus) as corpus:
        assert (corpus[0].title, corpus[0].text, corpus[0].date) == ("Trees", "Trees have leaves.", "2001")


def test_columns_that_are_named_win_over_those_that_are_guessed(tmp_path: Path) -> None:
    table = "id,code,title,notes\n1,a,Trees,One.\n2,b,Forests,Two.\n"
    folder = write(tmp_path / "graph", {"nodes.csv": table, "edges.csv": "b,a\n"})
    project = make_workspace(tmp_path, folder, index=None, columns={"id": "code", "text": "notes"})
    assert links_of(project) == {"a": [], "b": [("cites", "a")]}
    with contextlib.closing(project.corpus) as corpus:
        assert corpus[0].text == "One."


def test_the_raw_folder_of_an_ogb_data_set_is_read_with_its_titles(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "raw/edge.csv.gz": gzip.compress(b"0,1\n2,0\n7,1\n"),
        "raw/node_year.csv.gz": gzip.compress(b"2001\n2002\n2003\n"),
        "raw/node-feat.csv.gz": gzip.compress(b"0.1,0.2\n"),
        "mapping/nodeidx2paperid.csv.gz": gzip.compress(b"node idx,paper id\n0,100\n1,101\n2,102\n"),
        "titleabs.tsv": "100\tA\tOn a.\n101\tB\tOn b.\n102\tC\tOn c.\n999\tX\tY\n",
    }
    project = make_workspace(tmp_path, write(tmp_path / "ogbn", files), index=None)
    assert links_of(project) == {"100": [("cites", "101")], "101": [], "102": [("cites", "100")]}
    with contextlib.closing(project.corpus) as corpus:
        assert (corpus[2].title, corpus[2].text, corpus[2].date) == ("C", "On c.", "2003")
    assert len(causes(project)) == 3  # the unknown node, the paper without a number, the features


def test_papers_are_read_with_the_edges_beside_them_and_edges_alone_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "graph", {"nodes.jsonl": to_lines(NODES), "edges.tsv": "b\ta\n"})
    project = make_workspace(tmp_path, folder / "nodes.jsonl", index=None)
    assert links_of(project)["b"] == [("cites", "a")]
    with pytest.raises(InputError, match=r"nodes\.jsonl"):
        project.ingest([folder / "edges.tsv"])


def test_two_graphs_with_the_same_ids_keep_their_citations_apart(tmp_path: Path) -> None:
    for name, edges in (("one", "b\ta\n"), ("two", "c\ta\n")):
        write(tmp_path / name, {"nodes.jsonl": to_lines(NODES), "edges.tsv": edges})
    project = make_workspace(tmp_path, tmp_path / "one", index=None)
    assert len(project.ingest([tmp_path / "two"]).renamed) == 1
    links = {source: targets for source, targets in links_of(project).items() if targets}
    assert links == {"b": [("cites", "a")], "two/c": [("cites", "two/a")]}


def test_only_nodes_with_edges_beside_them_are_a_graph() -> None:
    names = [
        "a/nodes.csv",
        "b/edges.csv",
        "c/nodes.csv",
        "c/edges.csv",
        "e/corpus.jsonl",
        "e/links.tsv",
    ]
    assert [(graph.nodes, graph.others) for graph in find_graphs(names)] == [("c/nodes.csv", ("c/edges.csv",))]


# ---------------------------------------------------------------- hostile lists

characters = st.characters(codec="utf-8", exclude_characters='\t\n\r"#%', exclude_categories=("Zs", "Cc", "Zl", "Zp"))
names = st.text(characters, min_size=1)


@given(st.lists(st.tuples(names, names)))
def test_every_list_of_edges_reads_back(pairs: list[tuple[str, str]]) -> None:
    skips: list[Skip] = []
    edges = Edges("edges.tsv", skips)
    read_edges(("source\ttarget\n", *(f"{source}\t{target}\n" for source, target in pairs)), edges)
    edges.sort()
    for source in {source for source, _ in pairs}:
        assert {*edges.of(source)} == {target for other, target in pairs if other == source != target}
    edges.note_unused()
    assert skips == []


@given(st.lists(st.text()))
def test_no_list_is_a_crash(lines: list[str]) -> None:
    skips: list[Skip] = []
    edges = Edges("edges", skips)
    read_edges(lines, edges)
    edges.sort()
    assert len(skips) <= 21


# ---------------------------------------------------------------- what it is good for

AREAS = ("trees", "pumps", "stars", "rivers")


def folder_of_areas(folder: Path, *, edges: bool) -> Path:
    """Papers of four areas; paper n of an area cites those before it."""
    nodes = [
        {"id": f"{area}{number}", "title": f"{area} {number}", "abstract": f"About {area}, part {number} of {area}."}
        for area in AREAS
        for number in range(8)
    ]
    pairs = [(f"{area}{number}", f"{area}{other}") for area in AREAS for number in range(8) for other in range(number)]
    write(folder, {"nodes.jsonl": to_lines(nodes)})
    if edges:
        return write(folder, {"edges.tsv": "".join(f"{one}\t{other}\n" for one, other in pairs)})
    return write(folder, {"../cites.jsonl": to_lines({"source": one, "target": other} for one, other in pairs)})


@pytest.mark.parametrize("is_imported", [False, True])
def test_references_of_a_paper_are_found_and_measured_without_its_own_links(tmp_path: Path, is_imported: bool) -> None:
    folder = folder_of_areas(tmp_path / "graph", edges=not is_imported)
    project = make_workspace(tmp_path, folder, graph=True)
    if is_imported:
        assert project.import_graph(tmp_path / "cites.jsonl")["edges"]["related_to"] >= 4 * 28
    task = project.task("references", share=1.0)
    assert len(task.queries) == 4 * 7
    assert task.qrels["pumps2"] == {"pumps0": 1, "pumps1": 1}
    report = json.loads(
        lemmata(
            "evaluate",
            "--task",
            "references",
            "--retriever",
            "lexical,diffusion,geodesic",
            "-w",
            project.root,
            "--json",
        )
    )
    assert report["retrievers"]["diffusion"]["measures"]["R@20"] > 0.9
    with Retriever(project) as retriever:
        before = {name: retriever.similar("pumps5", 6, retriever=name) for name in ("auto", "diffusion", "geodesic")}
    # without the paper's own links nothing changes
    if is_imported:
        lines = (tmp_path / "cites.jsonl").read_text().splitlines(keepends=True)
        write(tmp_path, {"cites.jsonl": "".join(line for line in lines if '"source": "pumps5"' not in line)})
        project.import_graph(tmp_path / "cites.jsonl")
    else:
        lines = (folder / "edges.tsv").read_text().splitlines(keepends=True)
        write(folder, {"edges.tsv": "".join(line for line in lines if not line.startswith("pumps5"))})
        project.ingest([folder])
        project.index(settings={"encoder": "hashing"})
        project.build_graph()
    with Retriever(project) as retriever:
        for name, hits in before.items():
            after = retriever.similar("pumps5", 6, retriever=name)
            assert [hit.id for hit in after] == [hit.id for hit in hits]
            assert np.allclose([hit.score for hit in after], [hit.score for hit in hits])


def test_similar_takes_a_retriever_and_shows_paths_around_the_paper_itself(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, folder_of_areas(tmp_path / "graph", edges=True), graph=True)
    found = lemmata("similar", "pumps5", "--retriever", "geodesic", "--paths", "-k", "5", "-w", project.root, "--json")
    hits = json.loads(found)
    assert {hit["id"][:5] for hit in hits} == {"pumps"}
    assert all(hit["path"] for hit in hits)
    assert "pumps5" not in {end for hit in hits for step in hit["path"] for end in (step["source"], step["target"])}
    by_vectors = json.loads(lemmata("similar", "pumps5", "-k", "5", "--paths", "-w", project.root, "--json"))
    assert all(hit["path"][0]["source"] == "query" for hit in by_vectors)
