"""Confidence: nonsense and foreign queries are told from those that the corpus answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.make import lemmata, make_workspace

from lemmata.core.errors import WorkspaceError
from lemmata.core.types import Hit
from lemmata.project import Project
from lemmata.search.confidence import FIRST, LEAST, Scale, confidence_of, matches_badly, measure_scale, unrelated_texts
from lemmata.search.hints import foreign, hint
from lemmata.search.lexical import LexicalIndex

EXAMPLE = Path(__file__).parents[1] / "examples" / "qseries"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project.init(tmp_path_factory.mktemp("confidence") / "w")
    project.ingest([EXAMPLE])
    project.index(settings={"encoder": "lemmata-nano"})
    return project


def _hits(*confidences: float | None) -> list[Hit]:
    return [Hit(str(number), 1.0, confidence=each) for number, each in enumerate(confidences)]


def test_a_german_query_to_english_vectors_is_told_which_encoder_reads_both(project: Project) -> None:
    with project.retriever() as retriever:
        assert "lemmata index --encoder lemmata-plant" in foreign(
            retriever, "Welche Zerlegung hat keine gleichen Teile?"
        )
        assert foreign(retriever, "asdfgh qwertz") == ""  # nonsense with German letters
        assert foreign(retriever, "Nullstellensatz partitions") == ""  # a German name in an English query
        assert foreign(retriever, "Which partition has no equal parts?") == ""
        assert hint(retriever, "Welche Zerlegung hat keine gleichen Teile?").startswith("the query seems to be German")


def test_the_confidence_of_a_query_is_that_of_its_best_first_hits() -> None:
    assert confidence_of(_hits(0.2, 0.7, 0.1)) == 0.7
    assert confidence_of(_hits(*[0.1] * FIRST, 0.9)) == 0.1
    assert confidence_of(_hits(None, None)) is None
    assert confidence_of([]) == 0.0
    assert matches_badly(_hits(0.2, 0.4))
    assert matches_badly([])
    assert not matches_badly(_hits(0.2, 0.6))
    assert not matches_badly(_hits(None))


def test_a_scale_lies_between_unrelated_texts_and_sentences_of_the_corpus() -> None:
    generator = np.random.default_rng(0)
    unrelated = [generator.normal([[0.2], [0.1]], 0.02, (2, 3)).astype(np.float32) for _ in range(60)]
    related = [generator.normal([[0.7], [0.8]], 0.02, (2, 3)).astype(np.float32) for _ in range(60)]
    scale = measure_scale(related, unrelated, dense=True)
    assert scale is not None
    low, high = scale.confidences(np.array([[0.2, 0.7], [0.1, 0.8]], np.float32))
    assert low < 0.1
    assert high > 0.99
    words = measure_scale(related, unrelated, dense=False)
    assert words is not None
    assert words.dense == 0
    assert words.lexical > 0
    assert measure_scale(related[:5], unrelated, dense=True) is None


def test_texts_without_hits_have_a_scale_too() -> None:
    nothing = [np.zeros((2, 0), np.float32)] * 60
    scale = measure_scale(nothing, nothing, dense=True)
    assert scale is not None
    assert all(0 <= value <= 1 for value in scale.confidences(np.full((2, 3), 1e9, np.float32)))


def test_the_share_of_a_query_counts_words_that_the_corpus_does_not_have(tmp_path: Path) -> None:
    texts = ["the hook length formula counts tableaux", "a partition of a number", "tableaux of a shape"]
    index = LexicalIndex.build(texts, tmp_path / "lexical")
    rows = np.array([2, 0, 1])
    whole, part = index.shares("hook length", rows), index.shares("hook length zebra", rows)
    assert whole[1] > part[1] > 0
    assert whole[2] == part[0] == 0
    assert not index.shares("", rows).any()
    assert not index.shares("zebra", rows).any()


@pytest.mark.parametrize("retriever", ["auto", "lexical", "dense", "hybrid"])
def test_queries_of_the_corpus_are_told_from_nonsense(project: Project, retriever: str) -> None:
    real = [
        "number of standard tableaux of a given shape",
        "partitions into distinct parts",
        "Rogers Ramanujan identities",
    ]
    other = ["how do I bake a chocolate cake", "vibrations of the cooling water pump", "qwv xkrpf zzplt"]
    with project.retriever() as searcher:
        sure = [confidence_of(searcher.search(text, retriever=retriever)) or 0.0 for text in real]
        unsure = [confidence_of(searcher.search(text, retriever=retriever)) or 0.0 for text in other]
    assert min(sure) > 0.5 > max(unsure)


def test_what_a_query_names_is_sure(project: Project) -> None:
    with project.retriever() as searcher:
        assert searcher.search("hook-length#thm:hook-formula", 1)[0].confidence == 1.0


@pytest.mark.parametrize("name", ["Hirota", "Jones", "Bailey chain"])
def test_a_passage_that_holds_every_word_of_a_short_query_matches(project: Project, name: str) -> None:
    with project.retriever() as searcher:
        hits = searcher.search(name)
        holding = [hit for hit in hits if all(word in hit.text for word in name.split())]
        assert holding
        assert all((hit.confidence or 0) >= LEAST for hit in holding)


def test_a_workspace_without_the_note_searches_without_confidence(project: Project, tmp_path: Path) -> None:
    note = project.confidence.read_bytes()
    try:
        project.confidence.unlink()
        with project.retriever() as searcher:
            assert searcher.search("tableaux", 1)[0].confidence is None
        project.confidence.write_bytes(note.replace(b"corpus", b"corpsu"))
        with project.retriever() as searcher, pytest.raises(WorkspaceError, match=r"confidence\.json"):
            searcher.search("tableaux", 1)
    finally:
        project.confidence.write_bytes(note)


def test_indexing_again_keeps_what_is_known(project: Project) -> None:
    before = project.confidence.stat().st_mtime_ns
    project.index()
    assert project.confidence.stat().st_mtime_ns == before
    assert set(json.loads(project.confidence.read_text())["scales"]) == {"", "lemmata-nano"}


def test_a_few_new_passages_keep_what_is_known_and_many_do_not(tmp_path: Path) -> None:
    def notes(count: int) -> list[dict[str, str]]:
        return [{"_id": f"n{n}", "text": f"Pump {n} of the circuit {n % 7} leaks at {n % 5}."} for n in range(count)]

    project = make_workspace(tmp_path, notes(200), index="lexical")
    before = json.loads(project.confidence.read_text())
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes(205)[200:]))
    project.ingest([tmp_path / "more.jsonl"])
    project.index(dense=False)
    kept = json.loads(project.confidence.read_text())
    assert (kept["scales"], kept["measured"]) == (before["scales"], {"": [205, 5]})
    with project.retriever() as searcher:
        assert searcher.search("pump 203 leaks", 1)[0].confidence is not None
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes(220)[200:]))
    project.ingest([tmp_path / "more.jsonl"])
    project.index(dense=False)
    assert json.loads(project.confidence.read_text())["measured"] == {"": [220, 0]}


def test_what_a_killed_run_had_not_measured_yet_is_measured_by_the_next(tmp_path: Path) -> None:
    notes = [{"_id": f"n{n}", "text": f"Pump {n} of the circuit {n % 7} leaks at {n % 5}."} for n in range(60)]
    project = make_workspace(tmp_path, notes[:40], index="lexical")
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes[40:]))
    project.ingest([tmp_path / "more.jsonl"])
    told: list[str] = []

    def stop(what: str, _done: int, _total: int | None) -> None:
        told.append(what)
        if what == "measuring confidence" and told.count(what) == 1:
            raise KeyboardInterrupt

    with project.reporting_to(stop), pytest.raises(KeyboardInterrupt):
        project.index(dense=False)
    with project.reporting_to(stop):
        project.index(dense=False)
        project.index(dense=False)
    assert told.count("measuring confidence") == 2
    assert json.loads(project.confidence.read_text())["measured"] == {"": [60, 0]}


def test_letters_that_are_no_word_of_the_corpus_are_never_sure(project: Project) -> None:
    with project.retriever() as searcher:
        assert all((hit.confidence or 0) <= 0.25 for hit in searcher.search("qzxv tableauxx wprtk"))
        assert (searcher.search("tableaux qzxv wprtk")[0].confidence or 0) > 0


def test_the_command_line_says_that_nothing_matches(project: Project) -> None:
    nothing = lemmata("search", "how do I bake a cake", "-w", project.root)
    assert "nothing here matches well" in nothing
    hits = json.loads(lemmata("search", "how do I bake a cake", "-w", project.root, "--json"))
    assert len(hits) == 10
    assert all(0 <= hit["confidence"] < 0.5 for hit in hits)
    assert [hit["id"] in nothing for hit in hits] == [True] * 3 + [False] * 7
    assert all(any(word in nothing for word in re.findall(r"\w{8,}", hit["text"])) for hit in hits[:3])
    assert "nothing" not in lemmata("search", "standard tableaux", "-w", project.root)


def test_a_corpus_of_short_texts_has_a_confidence(tmp_path: Path) -> None:
    parts, faults = ("bucket", "hose", "pump", "seal", "valve", "cylinder"), ("leaking", "replaced", "cracked", "stuck")
    texts = [f"{part} {fault}" for part in parts for fault in faults]
    rows = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    project = make_workspace(tmp_path, rows, index="lexical")
    with project.retriever() as searcher:
        assert not matches_badly(searcher.search("leaking hose"))
        assert matches_badly(
            searcher.search("which hose would Napoleon have smuggled across the frozen river at night")
        )


def test_few_passages_tell_nothing(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, {"notes.md": "# Notes\n\nOnly one short text about pumps.\n"}, index="lexical")
    with project.retriever() as searcher:
        assert searcher.search("pumps")[0].confidence is None


def test_unrelated_texts_are_short_and_different() -> None:
    texts = unrelated_texts()
    assert len(texts) >= 50
    assert len(set(texts)) == len(texts)
    assert all(2 <= len(text.split()) <= 12 for text in texts)


def test_confidences_stay_between_0_and_1() -> None:
    assert Scale(1e9, 0.0, 0.0).confidences(np.array([[1.0, -1.0], [0.0, 0.0]], np.float32)) == [0.9999, 0.0]
