from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.make import PLANT, copied, lemmata, make_workspace, padded, to_lines

from lemmata.core.errors import LemmataError, WorkspaceError
from lemmata.core.types import Floats, Integers, Mask, Passage
from lemmata.core.workspace import vector_set, write_manifest
from lemmata.project import Project
from lemmata.search import index as index_stage
from lemmata.search.filter import Filter
from lemmata.search.fusion import Fusion
from lemmata.search.hints import hint
from lemmata.search.names import RETRIEVERS, RetrieverKind
from lemmata.search.ranking import diversify
from lemmata.vectors import fill as vectors_stage
from lemmata.vectors.ann import AnnIndex
from lemmata.vectors.exact import ExactIndex
from lemmata.vectors.store import open_vectors

Ranking = tuple[Integers, Floats]

TEXTS = {
    "1": ("Prime avoidance", "An ideal in a union of primes lies in one of them.", "lemma", "math.AC", "2001-02-03"),
    "2": ("", "Every prime ideal of a Noetherian ring has finite height.", "theorem", "math.AC", "2005-01-01"),
    "3": ("", "The pump in the column leaks again.", "log", "plant", "2010-10-10"),
    "4": (
        "Euler",
        "Partitions into odd parts and into distinct parts are equally many.",
        "theorem",
        "math.CO",
        "1999-12-31",
    ),
    "5": ("", "A partition into distinct parts has a Franklin involution.", "lemma", "math.CO", "2003-03-03"),
}


def ingested(folder: Path, index: str | None = None) -> Project:
    rows = [
        {"id": i, "title": title, "text": text, "kind": kind, "categories": [category], "date": date}
        for i, (title, text, kind, category, date) in TEXTS.items()
    ]
    (folder / "p.jsonl").write_text(to_lines(rows))
    return make_workspace(folder, folder / "p.jsonl", index=index)


project = copied(ingested)
indexed = copied(partial(ingested, index="hashing"))


@pytest.mark.parametrize("name", ["lexical", "dense", "hybrid", "auto"])
def test_every_retriever_finds_the_relevant_passages(indexed: Project, name: str) -> None:
    retriever = indexed.retriever()
    hits = retriever.search("partitions into distinct parts", 2, retriever=name)
    assert {hit.id for hit in hits} == {"4", "5"}
    assert hits[0].score >= hits[1].score
    retriever.close()


def test_lexical_search_needs_no_vectors(project: Project) -> None:
    project.index(dense=False)
    retriever = project.retriever()
    assert retriever.search("prime avoidance")[0].id == "1"
    with pytest.raises(WorkspaceError, match="lemmata index"):
        retriever.search("prime", retriever="dense")
    retriever.close()


@pytest.mark.parametrize("name", ["lexical", "dense", "hybrid"])
def test_filters_drop_other_passages(indexed: Project, name: str) -> None:
    retriever = indexed.retriever()

    def ids(only: Filter) -> set[str]:
        return {hit.id for hit in retriever.search("prime ideal partitions pump parts", 5, retriever=name, filter=only)}

    assert ids(Filter(kinds=("log",))) == {"3"}
    assert ids(Filter(kinds=("lemma", "log"))) <= {"1", "3", "5"}
    assert ids(Filter(documents=("2",))) <= {"2"}
    assert ids(Filter(categories=("math",))) <= {"1", "2", "4", "5"}
    assert ids(Filter(categories=("math.CO",))) <= {"4", "5"}
    assert ids(Filter(since="2003", until="2005-06")) <= {"2", "5"}
    assert ids(Filter(since="1.1.2003", until="30. Juni 2005")) == ids(Filter(since="2003", until="2005-06"))
    assert ids(Filter(kinds=("log",), categories=("math",))) == set()
    with pytest.raises(LemmataError, match=r"'theorm'.*'theorem'"):
        ids(Filter(kinds=("theorm",)))
    with pytest.raises(LemmataError, match="'x9'"):
        ids(Filter(documents=("x9",)))
    with pytest.raises(LemmataError, match=r"'math.XX'"):
        ids(Filter(categories=("math.XX",)))
    assert ids(Filter(kinds=("log",), categories=("math.AC", "plant"), since="2010-10-10T00:00")) <= {"3"}
    for date in ("yesterday", "2001-13", "20", "20010131", "2001-W05", "2001-01-31 10:00", "03/04/2001"):
        with pytest.raises(LemmataError, match=f"'{date}'.*YYYY"):
            ids(Filter(since=date))
    retriever.close()


def test_empty_odd_and_huge_queries_are_answered(indexed: Project) -> None:
    with indexed.retriever() as retriever:
        for name in ("lexical", "dense", "hybrid"):
            assert retriever.search("", retriever=name) == []
            assert retriever.search("   \n", retriever=name) == []
            retriever.search("\x00 \\ $ { ⊗ 你好", retriever=name)
            assert retriever.search("partition " * 30_000, 1, retriever=name)[0].id in ("4", "5")


def test_fusion_looks_deeper_than_the_number_of_hits(tmp_path: Path) -> None:
    """`both` is second in each ranking, so only candidates below rank 1 make it the best hit of all."""
    rows = [
        {"id": "words", "text": "zebra zebra zebra zebra"},
        {"id": "both", "text": "zebra stripes on a horse"},
        {"id": "weak", "text": "zebra " + "and other words " * 20},
        {"id": "other", "text": "nothing of that kind"},
    ]
    project = make_workspace(tmp_path, {"p.jsonl": to_lines(rows)})
    with project.retriever() as retriever:
        row = retriever.corpus.row
        retriever.dense().__dict__["index"] = FixedIndex([row("other"), row("both"), row("weak")], [1.0, 0.99, 0.0])
        assert retriever.search("zebra horse", 1, retriever="lexical")[0].id == "both"
        assert retriever.search("zebra", 1, retriever="lexical")[0].id == "words"
        assert retriever.search("zebra", 1, retriever="dense")[0].id == "other"
        rows_found, _ = retriever.search_rows(["zebra"], 1, "hybrid")
        assert rows_found.tolist() == [[row("both")]]


class FixedIndex:
    """A dense index with one ranking for every query."""

    def __init__(self, rows: Sequence[int], scores: Sequence[float]) -> None:
        self._rows, self._scores = rows, scores

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> Ranking:
        assert allowed is None
        row, score = padded(self._rows[:k], self._scores[:k], k)
        return np.repeat(row, len(queries), 0), np.repeat(score, len(queries), 0)


def test_diversity_compares_the_vectors_of_the_hits_themselves(indexed: Project) -> None:
    """The hits are not in the order of their rows, so vectors in a wrong order would select other hits."""
    with indexed.retriever() as retriever:
        matrix = np.asarray(retriever.vectors.matrix)
        rows, scores = retriever.search_rows(["distinct parts partitions prime ideal"], 5, "dense")
        chosen = diversify(scores[0], matrix[rows[0]], 5, 0.7)
        expected = [retriever.corpus[int(row)].id for row in rows[0][chosen]]
        assert rows[0].tolist() != sorted(rows[0].tolist())
        hits = retriever.search("distinct parts partitions prime ideal", 5, retriever="dense", diversity=0.7)
        assert [hit.id for hit in hits] == expected


def test_a_passage_is_not_similar_to_itself(indexed: Project) -> None:
    retriever = indexed.retriever()
    assert retriever.similar("4", 1)[0].id == "5"
    with pytest.raises(KeyError):
        retriever.similar("99")
    retriever.close()


def test_pages_fit_together(tmp_path: Path) -> None:
    """Of 330 passages, some of them equal, the first hits are the same, however many are asked for."""
    words = ["prime", "ideal", "ring", "odd", "parts", "pump", "leak", "height", "union"]
    texts = [" ".join(words[(number * step) % 9] for step in (1, 2, 4, 5)) + f" {number // 3}" for number in range(330)]
    project = make_workspace(tmp_path, [{"id": f"p{number}", "text": text} for number, text in enumerate(texts)])
    with project.retriever() as opened:
        for name, diversity in itertools.product(("auto", "hybrid", "dense", "lexical"), (0.0, 0.4)):
            search = partial(opened.search, "prime ideal of height 3", retriever=name, diversity=diversity)
            found = {k: [hit.id for hit in search(k)] for k in (10, 40, 90, 150, 300)}
            assert len(found[300]) > 200
            assert all(found[k] == found[300][:k] for k in found), (name, diversity)


def test_equal_texts_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["The pump leaks." if number % 10 else f"Pump {number}." for number in range(900)]
    project = make_workspace(tmp_path, [{"id": f"p{number}", "text": text} for number, text in enumerate(texts)])
    read: list[int] = []
    with project.retriever() as opened:
        passages = opened.corpus.passages

        def counting(rows: Iterable[int]) -> list[Passage]:
            read.extend(rows)
            return passages(rows)

        monkeypatch.setattr(opened.corpus, "passages", counting)
        hits = opened.search("the pump leaks", 5)
    assert len(hits) == 5
    assert hits[0].text == "The pump leaks."
    assert len(hits[0].repeats) == 809
    assert len(read) < 200


def test_a_query_without_a_known_word_gets_a_hint(indexed: Project) -> None:
    with indexed.retriever() as retriever:
        assert hint(retriever, "prime ideals") == ""
        assert hint(retriever, "zzzqqq xyzzy").startswith("no word of the query occurs in the corpus")
        assert hint(retriever, " 3 ") == "3 is the id of a passage; to see it: lemmata show 3"
    assert lemmata("search", "prime ideals", "-w", indexed.root)


def test_every_retriever_has_its_own_branch_and_stands_in_the_documentation(
    indexed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = Path(__file__).parents[1] / "docs"
    for page, row in (("search.md", "\n| `{}` |"), ("serve.md", "`{}`")):
        text = (docs / page).read_text(encoding="utf-8")
        assert [name for name in RETRIEVERS if row.format(name) not in text] == [], page
    monkeypatch.setitem(RETRIEVERS, "magic", RetrieverKind("Magic", "By itself."))
    retriever = indexed.retriever()
    with pytest.raises(NotImplementedError, match="'magic'"):
        retriever.search("partitions", retriever="magic")
    retriever.close()


def test_an_index_older_than_the_corpus_is_refused(indexed: Project, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "6", "text": "Something new."}')
    indexed.ingest([tmp_path / "p.jsonl"])
    retriever = indexed.retriever()
    for name in ("lexical", "dense"):
        with pytest.raises(WorkspaceError, match="lemmata index"):
            retriever.search("new", retriever=name)
    retriever.close()


def test_only_changed_passages_are_indexed_again(indexed: Project, tmp_path: Path) -> None:
    rows = [{"id": i, "title": t[0], "text": t[1]} for i, t in TEXTS.items() if i != "3"]
    rows.insert(0, {"id": "0", "text": "A crystal of type A."})
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    indexed.ingest([tmp_path / "p.jsonl"])
    report = indexed.index(settings={"encoder": "hashing"})
    assert (report["tokenised"], report["encoded"]) == (1, 1)
    again = indexed.index(settings={"encoder": "hashing"})
    assert (again["tokenised"], again["encoded"]) == (0, 0)
    assert indexed.index(settings={"encoder": "hashing"}, rebuild=True)["tokenised"] == 5
    retriever = indexed.retriever()
    for name in ("lexical", "dense"):
        assert retriever.search("crystal", 1, retriever=name)[0].id == "0"
        assert retriever.search("partitions distinct parts", 2, retriever=name)[0].id in ("4", "5")
        assert all(hit.id != "3" for hit in retriever.search("the pump in the column leaks", 9, retriever=name))
    retriever.close()


def test_an_empty_corpus_is_an_error(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, [{"id": "1"}], index=None)
    with pytest.raises(WorkspaceError, match=str(tmp_path)):
        project.index()
    with pytest.raises(WorkspaceError, match=str(tmp_path)):
        project.retriever()


# ---------------------------------------------------------------- diversity, and the fusion of an encoder


def test_marginal_relevance_equals_a_worked_example() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    relevance = np.array([1.0, 0.9, 0.0], dtype=np.float32)
    assert diversify(relevance, vectors, 3, 0.0).tolist() == [0, 1, 2]
    assert diversify(relevance, vectors, 3, 0.6).tolist() == [0, 2, 1]
    assert diversify(relevance[:0], vectors[:0], 3, 0.5).tolist() == []


def test_other_vectors_of_an_encoder_are_announced_and_drop_the_fusion_that_was_tuned(indexed: Project) -> None:
    places = vector_set(indexed)
    assert places is not None
    write_manifest(places.fusion, {"fusion": asdict(Fusion(False, 0.1, crowding=0.0))})
    assert "replaced_encoder" not in indexed.index(settings={"encoder": "hashing"})
    with indexed.retriever() as retriever:
        assert retriever.dense().fusion == Fusion(False, 0.1, crowding=0.0)
    report = indexed.index(settings={"encoder": "hashing", "dimension": 64})
    assert report["replaced_encoder"].startswith("hashing")
    assert report["dropped_fusion"]
    with indexed.retriever() as retriever:
        assert retriever.dense().fusion == Fusion()


def test_an_ann_index_finds_the_same_passages(indexed: Project) -> None:
    from lemmata.search.index import index_ann

    assert index_ann(indexed) == "exact"
    assert index_ann(indexed, more_than=3) == "ann"
    assert indexed.info()["indexes"] == ["lexical", "dense", "ann"]
    retriever = indexed.retriever()
    assert [hit.id for hit in retriever.search("partitions into distinct parts", 2, retriever="dense")] == ["4", "5"]
    retriever.close()
    assert (
        indexed.index(settings={"encoder": "hashing"})["neighbours"] == "exact"
    )  # too few passages for a neighbour graph
    assert indexed.info()["indexes"] == ["lexical", "dense"]


def test_a_neighbour_graph_grows_with_the_corpus_and_forgets_what_is_gone(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_stage, "_MAX_CHANGED", 2.0)  # of so few passages, all but none may change
    monkeypatch.setattr(index_stage, "index_ann", partial(index_stage.index_ann, more_than=3))
    source = tmp_path / "p.jsonl"
    lines = source.read_text().splitlines()
    more = [json.dumps({"id": f"n{n}", "text": f"bearing {n} of the pump"}) for n in range(3)]
    for number, state in enumerate((lines, [*more[:2], *lines[1:]], [*lines[2:], *more])):
        source.write_text("\n".join(state))
        project.ingest([source])
        assert project.index(settings={"encoder": "hashing"})["neighbours"] == "ann"
        places = vector_set(project)
        assert places is not None
        path, matrix = project.ann_graph(places.ann), open_vectors(project).matrix
        assert path.with_suffix(".rows.npy").exists() == (number > 0)  # it grew
        rows, scores = AnnIndex.open(path, matrix).search(matrix, 3)
        np.testing.assert_allclose(scores, ExactIndex(matrix).search(matrix, 3)[1], rtol=1e-5)
        assert rows[:, 0].tolist() == list(range(len(matrix)))


def test_truncated_vectors_are_searched_with_a_truncated_query(project: Project) -> None:
    project.index(settings={"encoder": "hashing", "dimension": 64})
    retriever = project.retriever()
    assert retriever.vectors.matrix.shape == (5, 64)
    assert retriever.search("pump in the column leaks", 1, retriever="dense")[0].id == "3"
    retriever.close()


def test_rankings_after_deletions_are_those_of_a_new_index(tmp_path: Path) -> None:
    """The deleted passages were long and full of pumps: they may not count in df, n or the mean length."""
    rows = [{"id": f"p{n}", "text": f"pump {'valve ' * (n % 3)} seal{n % 4} bearing"} for n in range(20)]
    gone = [{"id": f"d{n}", "text": "pump seal1 " + "leak " * 40} for n in range(3)]
    source = tmp_path / "p.jsonl"
    source.write_text("\n".join(map(json.dumps, [*rows, *gone])))
    project = Project.init(tmp_path / "w")
    project.ingest([source])
    project.index(settings={"encoder": "hashing"})
    source.write_text("\n".join(map(json.dumps, rows)))
    project.ingest([source])
    assert project.index(settings={"encoder": "hashing"})["tokenised"] == 0

    def rankings() -> list[tuple[Integers, Floats]]:
        queries = ["pump seal1", "valve", "seal2 bearing", "leak"]
        with project.retriever() as retriever:
            return [retriever.search_rows(queries, 20, name) for name in ("lexical", "hybrid")]

    grown = rankings()
    project.index(settings={"encoder": "hashing"}, rebuild=True)
    for one, other in zip(grown, rankings(), strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_allclose(one[1], other[1], rtol=1e-6)


def test_a_section_is_found_by_its_heading(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "guide.md").write_text(
        "# Guide\n\nIntroduction to the reader of archives, which opens them all in one pass.\n\n"
        "## Hostile input\n\nAn archive may be a bomb: its members are counted first, and the sum is bounded.\n\n"
        "## Limits\n\n### Depth\n\nNo folder is entered that lies more than a hundred levels below the first.\n\n"
        "## Output\n\nEverything is written to one folder, which is made where there is none.\n"
    )
    (tmp_path / "notes" / "paper.tex").write_text(
        "\\documentclass{article}\\title{Jumps of filtrations}\\newtheorem{lemma}{Lemma}\\begin{document}"
        "\\section{Start}Some words stand here.\n"
        "\\section{Wild ramification}\\begin{lemma}\\label{a}Every jump is an integer.\\end{lemma}\n"
        "\\begin{lemma}\\label{b}The different is large.\\end{lemma}\\section{End}More words stand here.\\end{document}"
    )
    long = "This section is the longest of them all. " * 5
    (tmp_path / "notes" / "tiny.tex").write_text(  # sections that are read as one
        "\\documentclass{article}\\begin{document}\\section{Alpha particles}A few words stand here.\n"
        f"\\section{{Long}}{long}\\end{{document}}"
    )
    (tmp_path / "notes" / "small.md").write_text(f"## Gamma rays\n\nA few words.\n\n## Long\n\n{long}\n")
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "notes"])
    project.index(settings={"encoder": "hashing"})
    with project.retriever() as retriever:
        for name in ("lexical", "hybrid"):
            assert retriever.search("hostile input", 1, retriever=name)[0].id == "guide@2"
            found = {hit.id for hit in retriever.search("wild ramification", 2, retriever=name)}
            assert found == {"paper#a", "paper#b"}
            assert retriever.search("limits", 1, retriever=name)[0].id == "guide@3"  # above a subsection
            assert retriever.search("jumps of filtrations", 1, retriever=name)[0].id.startswith("paper")
            assert retriever.search("alpha particles", 1, retriever=name)[0].id == "tiny@1"
            assert retriever.search("gamma rays", 1, retriever=name)[0].id == "small@1"
        assert retriever.lexical.search(["wild ramification"], 1)[0].tolist() == [[-1]]  # mining reads the text alone


def test_the_words_of_a_proof_find_its_statement(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    paper = tmp_path / "notes" / "paper.tex"
    paper.write_text(
        "\\documentclass{article}\\newtheorem{lemma}{Lemma}\\begin{document}"
        "\\begin{lemma}\\label{a}Every jump is an integer.\\end{lemma}\\begin{proof}A snake is chased.\\end{proof}\n"
        "\\begin{lemma}\\label{b}The different is large.\\end{lemma}\\begin{proof}By \\ref{a} it grows.\\end{proof}\n"
        "\\begin{lemma}\\label{c}A snake is long.\\end{lemma}\\end{document}"
    )
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "notes"])
    project.index(settings={"encoder": "hashing"})
    with project.retriever() as retriever:
        assert retriever.search("a snake is chased", 1, retriever="lexical")[0].id == "paper#a"
        assert retriever.search("a snake", 1, retriever="lexical")[0].id == "paper#c"  # its own words count more
        assert retriever.search("chased", 1)[0].id == "paper#a"
        assert [hit.id for hit in retriever.search('"snake is chased"', 9)] == ["paper#a"]
        assert hint(retriever, "chased") == ""
        assert [hit.id for hit in retriever.search("lemma", 9, retriever="lexical")] == []  # no names of references
        assert [hit.id for hit in retriever.similar("paper#b", 9, retriever="lexical")] == []
    paper.write_text(paper.read_text().replace("A snake is chased", "Zebras graze"))
    project.ingest([tmp_path / "notes"])
    assert project.index(settings={"encoder": "hashing"})["tokenised"] == 0  # no passage is another one
    with project.retriever() as retriever:
        assert retriever.search("zebras", 1, retriever="lexical")[0].id == "paper#a"
        assert [hit.id for hit in retriever.search("chased", 1, retriever="lexical")] == []


# ---------------------------------------------------------------- what a hit tells


def test_a_repeated_passage_is_shown_once_and_names_the_others(tmp_path: Path) -> None:
    texts = ("Let C  and D\nbe categories.", "let C and D be CATEGORIES.")
    rows = [{"id": f"r{n}", "text": texts[n % 2]} for n in range(60)]
    rows += [{"id": f"d{n}", "text": f"Let C be one of the categories in the list {n}."} for n in range(5)]
    project = make_workspace(tmp_path, {"p.jsonl": to_lines(rows)})
    with project.retriever() as retriever:
        for name in ("lexical", "dense", "hybrid"):
            hits = retriever.search("categories C and D", 4, retriever=name)
            assert len(hits) == 4
            repeated = next(hit for hit in hits if hit.id.startswith("r"))
            assert len(repeated.repeats) == 59
            assert repeated.id not in repeated.repeats
            assert [hit.id[0] for hit in hits].count("r") == 1
            rows_found, _ = retriever.search_rows(["categories C and D"], 4, name)
            assert len(set(rows_found[0].tolist())) == 4  # measured rankings hold every passage
        similar = retriever.similar("r0", 3)
        assert len(similar) == 3
        assert "r0" not in {similar[0].id, *similar[0].repeats}
        assert len(similar[0].repeats) == 58


def test_logs_are_filtered_by_location_and_column(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, PLANT)
    with project.retriever() as retriever:

        def ids(*locations: str, **where: str) -> set[str]:
            only = Filter(locations=locations, where=tuple(where.items()))
            return {hit.id for hit in retriever.search("leaks", 9, retriever="lexical", filter=only)}

        assert ids() == {"1", "2", "3", "4"}
        assert ids("K2") == ids("location:k2") == ids("k-2") == {"1", "2"}
        assert ids("K2-P1-S") == {"2"}
        assert ids("K2-P1-S", "T7") == {"2", "3"}
        assert ids("X9") == {"4"}  # not in the tree
        assert ids(priority="HIGH") == {"1", "3"}
        assert ids(Crew="SÜD") == {"2"}
        assert ids("K2", priority="high", Crew="nord") == {"1"}
        assert ids("T7", Crew="süd") == set()
        assert {hit.id for hit in retriever.similar("1", 9, filter=Filter(locations=("K2",)))} == {"2"}
        either = Filter(where=(("priority", "low"), ("priority", "high")))
        assert {hit.id for hit in retriever.search("leaks", 9, filter=either)} == {"1", "2", "3"}
        with pytest.raises(LemmataError, match="'K3'"):
            ids("K3")
        with pytest.raises(LemmataError, match="'K3'"):
            ids("K2", "K3")
        with pytest.raises(LemmataError, match=r"'prioritty'.*'priority'"):
            ids(prioritty="high")
        with pytest.raises(LemmataError, match=r"'priority'.*'hgh'.*'high'"):
            ids(priority="hgh")


def test_the_command_tells_where_a_hit_stands(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, {**PLANT, "guide.md": "# Guide\n\n## Leaks\n\nHow [bold]leaks[/] are found.\n"})

    def search(*options: str) -> str:
        return lemmata("search", "the seal leaks", "-w", project.root, "--retriever", "lexical", *options)

    hits = {hit["id"]: hit for hit in json.loads(search("--json"))}
    assert list(hits["2"])[:5] == ["rank", "id", "score", "kind", "number"]
    log = {key: hits["2"][key] for key in ("file", "line", "last_line", "date", "section", "location", "repeats")}
    assert log == {
        "file": "logs.csv",
        "line": 3,
        "last_line": 3,
        "date": "2024-05-02",
        "section": "",
        "location": ["K2-P1-S"],
        "repeats": [],
    }
    assert (hits["guide@1"]["section"], hits["guide@1"]["line"]) == ("Guide / Leaks", 5)
    shown = " ".join(search().split())
    assert "logs.csv:3 · 2024-05-02 · K2-P1-S" in shown
    assert "guide.md:5 · Guide / Leaks How [bold]leaks[/] are found." in shown
    assert [hit["id"] for hit in json.loads(search("--json", "--location", "K2", "--where", "priority=LOW"))] == ["2"]


def test_a_query_that_matches_nothing_has_no_hits(tmp_path: Path) -> None:
    rows = [{"id": f"p{n}", "text": f"passage about topic{n}"} for n in range(6)]
    project = make_workspace(tmp_path, {"p.jsonl": to_lines(rows)})
    with project.retriever() as retriever:
        for query in ("⊗", "", "..."):
            for name in ("lexical", "dense", "hybrid"):
                assert retriever.search(query, 5, retriever=name) == []
        by_words = Fusion(False, 0.0)
        rows_found, _ = retriever.search_rows(["topic3"], 5, "hybrid", fusion=by_words)
        assert rows_found[0].tolist() == [3, -1, -1, -1, -1]
        assert all(hit.score > 0 for hit in retriever.search("topic3", 6))
