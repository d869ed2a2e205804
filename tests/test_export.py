"""Exports: what is written can be read back, by lemmata and by the tools that know the format."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import lemmata, write

from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.types import Document, Link, Passage
from lemmata.evaluate.evaluate import EvaluateOptions
from lemmata.evaluate.tasks import task_from
from lemmata.evaluate.workspace_tasks import beir_task
from lemmata.ingest.beir import passage_record, read_corpus, read_judged, read_passages, write_beir
from lemmata.project import Project

PAPERS: dict[str, str | bytes] = {
    "rings.tex": r"""\documentclass{article}\newtheorem{lemma}{Lemma}\newtheorem{theorem}{Theorem}
\title{On rings}\author{A. Noether \and B. Krull}\date{May 4, 2020}\begin{document}\maketitle
\section{Ideals}
\begin{lemma}[Avoidance]\label{avoid} An ideal in a union of primes lies in one of them. \end{lemma}
\begin{theorem}\label{height} Heights are finite, by Lemma \ref{avoid}, as \cite{heights} and \cite{lost} show.
\end{theorem}
\begin{proof} Use Lemma \ref{avoid} twice. \end{proof}
\begin{thebibliography}{9}\bibitem{heights} C. Chain. \newblock Heights of ideals in general rings.
\bibitem{lost} D. Lost. \newblock A book that nobody has. \end{thebibliography}
\end{document}""",
    "heights.tex": r"""\documentclass{article}\newtheorem{definition}{Definition}
\title{Heights of ideals in general rings}\begin{document}\maketitle
\begin{definition}\label{def} The height of a prime is the length of the longest chain below it. \end{definition}
\end{document}""",
    "logs.csv": "id,text,date,location,related,shift\n"
    "1,Pump leaks at the seal.,2024-01-02,P-1,,early\n2,Leak is back.,2024-01-05,P-1,1,late\n",
    "hierarchy.csv": "id,parent,description\nPLANT,,the plant\nP-1,PLANT,feed pump\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("exporting")
    project = Project.init(folder / "w")
    project.ingest([write(folder / "sources", PAPERS)], workers=1)
    project.index(settings={"encoder": "hashing"})
    return project


def links_of(passage: Passage) -> list[tuple[str, str | None, str]]:
    return [(link.relation, link.target, "" if link.target else link.label) for link in passage.links]


# ---------------------------------------------------------------- the corpus


def test_an_exported_corpus_is_ingested_with_the_same_ids_texts_and_links(project: Project, tmp_path: Path) -> None:
    report = project.export_corpus(tmp_path / "corpus.jsonl")
    with_tree = write(tmp_path / "again", {"hierarchy.csv": PAPERS["hierarchy.csv"]})
    (tmp_path / "corpus.jsonl").rename(with_tree / "corpus.jsonl")
    again = Project.init(tmp_path / "w")
    again.ingest([with_tree / "corpus.jsonl", with_tree / "hierarchy.csv"], workers=1)
    before, after = list(project.corpus), list(again.corpus)
    assert report["passages"] == len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        for name in ("id", "document", "kind", "title", "text", "section", "proof", "content", "metadata"):
            assert getattr(new, name) == getattr(old, name), (old.id, name)
        assert links_of(new) == links_of(old), old.id
    relations = {relation for passage in after for relation, target, _ in links_of(passage) if target}
    assert relations == {"refers_to", "proof_uses", "cites", "reports_about", "related_to"}
    titles = {document.id: (document.title, document.authors) for document in again.corpus.documents()}
    assert titles["rings"] == ("On rings", ("A. Noether", "B. Krull"))
    assert titles["heights"] == ("Heights of ideals in general rings", ())


def test_a_citation_key_that_is_by_chance_an_id_leads_nowhere_after_an_export(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "As we show.", "links": [{"relation": "cites", "target": "unknown"}]},
        {"id": "b", "text": "Another."},
    ]
    source = tmp_path / "a.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    project = Project.init(tmp_path / "w")
    project.ingest([source], workers=1)
    project.export_corpus(tmp_path / "out.jsonl")
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert first["links"] == [{"relation": "cites", "label": "unknown"}]
    passage = Passage("a", "a", "log", "x", links=(Link("cites", "b", None), Link("cites", "c", None)))
    record = passage_record(passage, None, is_id={"a", "b"}.__contains__)
    assert record["links"] == [{"relation": "cites", "label": "c"}]


words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).map(str.strip).filter(bool)
json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x), max_leaves=3)
passages = st.builds(
    Passage,
    id=words,
    document=words,
    kind=words,
    text=words,
    title=st.just("") | words,
    section=st.just("") | words,
    proof=st.just("") | words,
    date=st.none() | st.dates().map(lambda day: day.isoformat()),
    metadata=st.dictionaries(words, json_values, max_size=3),
    links=st.lists(st.builds(Link, words, words, st.none()), max_size=3).map(tuple),
)


@given(passages, st.none() | st.builds(Document, st.just("d"), st.just("") | words, authors=st.tuples(words)))
def test_any_passage_is_read_back_from_its_record(passage: Passage, document: Document | None) -> None:
    record = json.loads(json.dumps(passage_record(passage, document)))
    (reading,) = read_passages([(1, record)], file="f")
    (read,), (owner,) = reading.passages, reading.documents
    for name in ("id", "document", "kind", "text", "title", "section", "proof", "metadata", "links", "date"):
        assert getattr(read, name) == getattr(passage, name)
    assert (owner.title, owner.authors) == ((document.title, document.authors) if document else ("", ()))
    assert not reading.skips


# ---------------------------------------------------------------- BEIR and TREC


def beir_queries(folder: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """A folder as other tools read it: JSON lines, and a table with a heading."""
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    with (folder / "qrels" / "test.tsv").open(newline="") as stream:
        return {row["_id"]: row["text"] for row in queries}, list(csv.DictReader(stream, delimiter="\t"))


def test_a_task_becomes_a_beir_folder_of_its_candidates(project: Project, tmp_path: Path) -> None:
    task = project.task("references", share=1.0)
    report = project.export_beir(task, tmp_path / "beir")
    assert (report["queries"], report["judgments"], report["passages"]) == (2, 2, 5)
    assert any("2 queries are passages" in note for note in report["notes"])
    corpus = [json.loads(line) for line in (tmp_path / "beir" / "corpus.jsonl").read_text().splitlines()]
    assert {row["kind"] for row in corpus} == {"lemma", "theorem", "definition", "log"}
    assert next(row for row in corpus if row["_id"] == "rings#avoid")["title"] == "Avoidance"
    assert "avoid" not in next(row for row in corpus if row["_id"] == "rings#height")["text"]  # the answer
    queries, judgments = beir_queries(tmp_path / "beir")
    assert list(queries) == ["2", "rings#height"]  # a log with its earlier one, a theorem with its lemma
    assert judgments[1] == {"query-id": "rings#height", "corpus-id": "rings#avoid", "score": "1"}
    assert read_judged(tmp_path / "beir") == (queries, {"2": {"1": 1}, "rings#height": {"rings#avoid": 1}})
    assert [row["id"] for row in read_corpus(tmp_path / "beir")] == [row["_id"] for row in corpus]


def test_the_command_samples_by_the_configured_seed(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    project.ingest([write(tmp_path / "sources", PAPERS)], workers=1)
    lines = [{"query": f"question {number}", "passage": "rings#avoid"} for number in range(40)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    def sample() -> set[str]:
        files = ("--queries", tmp_path / "q.jsonl", "--limit", "5", "-w", tmp_path / "w")
        lemmata("export", "beir", tmp_path / "beir", *files)
        return set(beir_queries(tmp_path / "beir")[0])

    without = sample()
    with project.config_file.open("a", encoding="utf-8") as stream:
        stream.write("\n[evaluate]\nseed = 3\n")
    assert sample() != without


def test_a_query_of_a_beir_folder_that_is_a_passage_does_not_find_itself(project: Project, tmp_path: Path) -> None:
    task = project.task("references", share=1.0)
    project.export_beir(task, tmp_path / "beir")
    with_ids = beir_task(project, tmp_path / "beir", name="beir")
    assert with_ids.itself == {"2": "2", "rings#height": "rings#height"}
    lines = (tmp_path / "beir" / "queries.jsonl").read_text().splitlines()
    others = [json.dumps({**json.loads(line), "text": "other words"}) for line in lines]
    (tmp_path / "beir" / "queries.jsonl").write_text("\n".join(others))
    assert beir_task(project, tmp_path / "beir", name="beir").itself == {}


def test_a_folder_with_other_files_is_not_replaced_but_an_export_is(project: Project, tmp_path: Path) -> None:
    task = project.task("references", share=1.0)
    project.export_beir(task, tmp_path / "beir")
    project.export_beir(task, tmp_path / "beir")
    (tmp_path / "beir" / "thesis.tex").write_text("ten years of work")
    with pytest.raises(WorkspaceError, match="beir"):
        project.export_beir(task, tmp_path / "beir")
    assert (tmp_path / "beir" / "thesis.tex").read_text() == "ten years of work"
    assert (tmp_path / "beir" / "corpus.jsonl").exists()


def test_judgments_outside_the_candidates_are_counted_and_ids_with_tabs_refused(tmp_path: Path) -> None:
    passage = Passage("a", "a", "log", "text")

    def written(folder: str, qrels: dict[str, dict[str, int]]) -> dict[str, int]:
        return write_beir(tmp_path / folder, [passage], dict.fromkeys(qrels, "?"), qrels, lambda *_: None, total=1)

    counts = written("one", {"q": {"a": 1, "gone": 2}})
    assert counts == {"passages": 1, "queries": 1, "judgments": 2, "missing": 1}
    for broken in ({"q\tr": {"a": 1}}, {"q": {"a\nb": 1}}):
        with pytest.raises(InputError, match=r"\\[tn]"):
            written(f"broken{len(list(tmp_path.iterdir()))}", broken)


def evaluated(project: Project, folder: Path) -> tuple[dict[str, float], Path, Path]:
    """Means of a retriever, and the run and judgments that were written with them."""
    queries = {"q1": "prime ideals in a union", "q2": "leaking pump", "q3": "length of a chain of primes"}
    qrels = {"q1": {"rings#avoid": 2, "rings#height": 1}, "q2": {"1": 1, "2": 1}, "q3": {"heights#def": 1}}
    options = EvaluateOptions(measures="nDCG@10,MRR@10,MAP@10,P@5,R@5")
    task = task_from("t", queries, qrels)
    report = project.evaluate(task, retrievers=["dense"], options=options, trec=folder / "out.trec")
    means = {name: float(values.mean()) for name, values in report.retrievers["dense"].items()}
    assert 0 < means["nDCG@10"] < 1
    return means, folder / "out.trec", folder / "out.qrels"


def test_ir_measures_reads_run_and_judgments_and_comes_to_the_same_figures(project: Project, tmp_path: Path) -> None:
    library = pytest.importorskip("ir_measures")
    means, run, qrels = evaluated(project, tmp_path)
    names = {library.parse_measure(name.replace("MRR", "RR").replace("MAP", "AP")): name for name in means}
    theirs = library.calc_aggregate(
        list(names), list(library.read_trec_qrels(str(qrels))), library.read_trec_run(str(run))
    )
    assert {names[measure]: value for measure, value in theirs.items()} == pytest.approx(means)


@pytest.mark.filterwarnings("ignore")  # of numba, which compiles while the test runs
def test_ranx_reads_run_and_judgments_and_comes_to_the_same_figures(project: Project, tmp_path: Path) -> None:
    ranx: Any = pytest.importorskip("ranx", reason="not in the extra dev: it brings numba, 250 MB with all it needs")
    means, run, qrels = evaluated(project, tmp_path)
    names = {"ndcg@10": "nDCG@10", "mrr@10": "MRR@10", "map@10": "MAP@10", "precision@5": "P@5", "recall@5": "R@5"}
    theirs = ranx.evaluate(
        ranx.Qrels.from_file(str(qrels), kind="trec"), ranx.Run.from_file(str(run), kind="trec"), list(names)
    )
    assert {names[name]: value for name, value in theirs.items()} == pytest.approx(means)


# ---------------------------------------------------------------- statistics


def test_statistics_count_passages_links_and_references_of_each_document(project: Project) -> None:
    statistics = project.document_statistics()
    records = {record["id"]: record for record in statistics["documents"]}
    assert list(records) == ["heights", "logs", "rings"]  # no locations
    rings = records["rings"]
    assert rings["kinds"] == {"lemma": 1, "theorem": 1}
    assert rings["date"] == "2020-05-04"
    texts = [passage.text for passage in project.corpus if passage.document == "rings"]
    assert (rings["characters"], rings["words"]) == (sum(map(len, texts)), sum(len(text.split()) for text in texts))
    assert rings["links"] == {"all": 4, "resolved": 3, "out": 1, "in": 0}
    assert rings["bibliography"] == {"entries": 2, "in_corpus": 1}
    assert records["heights"]["links"]["in"] == 1
    assert records["logs"]["links"] == {"all": 3, "resolved": 3, "out": 2, "in": 0}  # two to a location
    summary = statistics["summary"]
    assert summary["passages"] == {"sum": 5, "mean": pytest.approx(5 / 3), "median": 2, "largest": 2}
    info = project.info()
    assert summary["links resolved"]["sum"] == sum(link["resolved"] for link in info["links"].values()) - 1  # P-1's
