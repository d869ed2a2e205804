"""Measures: by hand, against trec_eval's formulas one query at a time, and against ir_measures."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.errors import ConfigError, InputError
from lemmata.evaluate.measures import Judged, Measure, evaluate, evaluate_whole_documents, gains, judged, parse_measure

Qrels = dict[str, dict[str, int]]
Run = dict[str, list[str]]

PASSAGES = 12
ROWS = {f"d{row}": row for row in range(PASSAGES)}
ALL = [Measure(name, k) for name in ("nDCG", "MRR", "R", "P", "Success", "MAP") for k in (1, 2, 3, 5, 10, 20)]


def rankings(run: Run, depth: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    padded = [[ROWS[passage] for passage in ids] + [-1] * (depth - len(ids)) for ids in run.values()]
    return np.array(padded, np.int64).reshape(len(run), depth)


def values(qrels: Qrels, run: Run, *measures: str) -> dict[str, list[float]]:
    parsed = [parse_measure(name) for name in measures]
    results = evaluate(rankings(run, PASSAGES), judged(qrels, ROWS.__getitem__), parsed)
    return {name: value.tolist() for name, value in results.items()}


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("nDCG@10", "nDCG@10"),
        ("ndcg@10", "nDCG@10"),
        ("MRR@10", "MRR@10"),
        ("RR@10", "MRR@10"),
        ("R@20", "R@20"),
        ("Recall@20", "R@20"),
        ("Precision@5", "P@5"),
        ("Accuracy@1", "Success@1"),
        ("Acc@3", "Success@3"),
        ("AP@100", "MAP@100"),
        (" map@7 ", "MAP@7"),
    ],
)
def test_a_measure_is_read_by_any_of_its_names_and_shown_by_one(text: str, name: str) -> None:
    assert str(parse_measure(text)) == name
    assert parse_measure(name) == parse_measure(text)


def test_the_message_for_an_unknown_measure_names_the_nearest_or_all() -> None:
    with pytest.raises(ConfigError, match="'nDGC@10'"):
        parse_measure("nDGC@10")
    with pytest.raises(ConfigError, match=r"'xyzzy@3'.*nDCG, MRR, R, P, Success, MAP"):
        parse_measure("xyzzy@3")


@pytest.mark.parametrize("text", ["nDCG", "nDCG@", "nDCG@0", "nDCG@-1", "nDCG@ten", "nDCG@1.5", "P@²"])
def test_a_measure_needs_a_cut_off_from_one(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        parse_measure(text)


# ---------------------------------------------------------------- judgments


def test_judgments_become_rows() -> None:
    judgments = judged({"a": {"d3": 2, "d0": 0}, "b": {}, "c": {"d3": 1}}, ROWS.__getitem__)
    assert judgments.queries == ["a", "b", "c"]
    assert judgments.indptr.tolist() == [0, 2, 2, 3]
    assert judgments.rows.tolist() == [3, 0, 3]
    assert judgments.grades.tolist() == [2, 0, 1]


def test_unknown_ids_are_all_named() -> None:
    qrels = {"q": {f"u{n}": 1 for n in range(25)}, "r": {"u1": 1, "known": 2}}
    with pytest.raises(InputError, match="25") as caught:
        judged(qrels, {"known": 0}.__getitem__)
    assert all(f"'u{n}'" in str(caught.value) for n in range(25))


def test_at_most_a_thousand_unknown_ids_are_named() -> None:
    with pytest.raises(InputError, match="500"):
        judged({"q": {f"u{n}": 1 for n in range(1500)}}, ROWS.__getitem__)


def test_gains_are_the_grades_in_the_order_of_the_ranking() -> None:
    judgments = judged({"a": {"d1": 3, "d11": 1}, "b": {"d0": 2, "d1": -1}}, ROWS.__getitem__)
    ranked = np.array([[11, 0, 1, -1], [1, 0, -1, -1]])
    assert gains(ranked, judgments).tolist() == [[1, 0, 3, 0], [-1, 2, 0, 0]]


def test_rows_past_the_judged_ones_do_not_reach_into_the_next_query() -> None:
    judgments = judged({"a": {"d1": 1}, "b": {"d0": 1, "d2": 1}}, ROWS.__getitem__)
    every = np.tile(np.arange(PASSAGES), (2, 1))
    assert gains(every, judgments).sum(axis=1).tolist() == [1, 2]


def test_no_queries_no_results_and_no_judgments_give_zero() -> None:
    none = Judged([], np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert gains(np.zeros((0, 5), np.int64), none).shape == (0, 5)
    assert evaluate(np.zeros((0, 5), np.int64), none, ALL)["nDCG@10"].shape == (0,)
    empty = judged({"a": {}}, ROWS.__getitem__)
    assert gains(np.array([[1, 2]]), empty).tolist() == [[0, 0]]
    assert all(value.tolist() == [0.0] for value in evaluate(np.zeros((1, 0), np.int64), empty, ALL).values())


def test_a_ranking_that_repeats_a_judged_passage_is_refused() -> None:
    judgments = judged({"a": {"d1": 1}, "b": {"d2": 1}}, ROWS.__getitem__)
    with pytest.raises(InputError, match="'b'"):
        gains(np.array([[1, 0, 3], [2, 0, 2]]), judgments)
    documents = np.arange(PASSAGES)
    with pytest.raises(InputError):
        evaluate_whole_documents(np.array([[1, 0, 3], [2, 0, 2]]), judgments, ALL, documents=documents)


def test_every_query_needs_one_ranking() -> None:
    with pytest.raises(InputError, match="2 rankings for 1 "):
        gains(np.zeros((2, 1), np.int64), judged({"a": {"d1": 1}}, ROWS.__getitem__))


# ---------------------------------------------------------------- oracles


def by_the_formula(measure: Measure, grades: dict[str, int], ids: list[str]) -> float:
    """One measure of one query, by its definition."""
    k = measure.cutoff
    relevant = {passage for passage, grade in grades.items() if grade > 0}
    hits = [rank for rank, passage in enumerate(ids[:k], 1) if passage in relevant]
    match measure.name:
        case "Success":
            return 1.0 if hits else 0.0
        case "P":
            return len(hits) / k
        case "R":
            return len(hits) / len(relevant) if relevant else 0.0
        case "MRR":
            return 1 / hits[0] if hits else 0.0
        case "MAP":
            total = sum(so_far / rank for so_far, rank in enumerate(hits, 1))
            return total / len(relevant) if relevant else 0.0
    gain = sum(grades[ids[rank - 1]] / math.log2(rank + 1) for rank in hits)
    best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k]
    return gain / sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1)) if best else 0.0


ids = st.sampled_from(sorted(ROWS))
queries = st.tuples(st.dictionaries(ids, st.integers(-1, 4), min_size=1), st.lists(ids, unique=True))


@given(st.lists(queries, min_size=1, max_size=6))
def test_all_measures_equal_their_definition_on_random_rankings(cases: list[tuple[dict[str, int], list[str]]]) -> None:
    qrels = {f"q{n}": grades for n, (grades, _) in enumerate(cases)}
    run = {f"q{n}": ranked for n, (_, ranked) in enumerate(cases)}
    results = values(qrels, run, *map(str, ALL))
    for measure in ALL:
        expected = [by_the_formula(measure, grades, ranked) for grades, ranked in cases]
        assert results[str(measure)] == pytest.approx(expected, abs=1e-9)


@given(st.lists(queries, min_size=1, max_size=4), st.lists(st.integers(0, 4), min_size=PASSAGES, max_size=PASSAGES))
def test_document_level_equals_the_definition_on_rankings_collapsed_by_hand(
    cases: list[tuple[dict[str, int], list[str]]], owners: list[int]
) -> None:
    qrels = {f"q{n}": grades for n, (grades, _) in enumerate(cases)}
    run = {f"q{n}": ranked for n, (_, ranked) in enumerate(cases)}
    results = evaluate(
        rankings(run, PASSAGES), judged(qrels, ROWS.__getitem__), ALL, documents=np.array(owners, np.int64)
    )
    for n, (grades, ranked) in enumerate(cases):
        collapsed = list(dict.fromkeys(str(owners[ROWS[passage]]) for passage in ranked))
        highest: dict[str, int] = {}
        for passage, grade in grades.items():
            name = str(owners[ROWS[passage]])
            highest[name] = max(grade, highest.get(name, grade))
        for measure in ALL:
            assert results[str(measure)][n] == pytest.approx(by_the_formula(measure, highest, collapsed), abs=1e-9)


def whole_judgments(
    cases: list[tuple[dict[str, int], list[str]]], owners: list[int], allowed: list[bool], own: list[int]
) -> dict[str, dict[str, int]]:
    """The judgments of each query with all countable passages of the judged documents written out."""
    expanded: dict[str, dict[str, int]] = {}
    for n, (grades, _) in enumerate(cases):
        highest: dict[int, int] = {}
        for passage, grade in grades.items():
            owner = owners[ROWS[passage]]
            highest[owner] = max(grade, highest.get(owner, grade))
        expanded[f"q{n}"] = {
            passage: highest[owners[row]]
            for passage, row in ROWS.items()
            if owners[row] in highest and allowed[row] and row != own[n]
        }
    return expanded


corpora = st.tuples(
    st.lists(st.integers(0, 4), min_size=PASSAGES, max_size=PASSAGES),  # document of each passage
    st.lists(st.booleans(), min_size=PASSAGES, max_size=PASSAGES),  # whether it is a candidate
    st.lists(st.integers(-1, PASSAGES - 1), min_size=4, max_size=4),  # what each query was made from
)


@given(st.lists(queries, min_size=1, max_size=4), corpora)
def test_whole_documents_equal_the_definition_and_ir_measures_on_judgments_written_out(
    cases: list[tuple[dict[str, int], list[str]]], corpus: tuple[list[int], list[bool], list[int]]
) -> None:
    owners, allowed, own = corpus
    qrels = {f"q{n}": grades for n, (grades, _) in enumerate(cases)}
    found = [[p for p in ranked if allowed[ROWS[p]] and ROWS[p] != own[n]] for n, (_, ranked) in enumerate(cases)]
    results = evaluate_whole_documents(
        rankings({f"q{n}": ids for n, ids in enumerate(found)}, PASSAGES),
        judged(qrels, ROWS.__getitem__),
        ALL,
        documents=np.array(owners, np.int64),
        candidates=np.array(allowed),
        itself=np.array(own[: len(cases)]),
    )
    expanded = whole_judgments(cases, owners, allowed, own)
    for n, ids in enumerate(found):
        for measure in ALL:
            expected = by_the_formula(measure, expanded[f"q{n}"], ids)
            assert results[str(measure)][n] == pytest.approx(expected, abs=1e-9)
    library = pytest.importorskip("ir_measures")
    if not any(found):
        return  # ir_measures refuses a run without results
    theirs = {library.parse_measure(str(ours).replace("MRR", "RR").replace("MAP", "AP")): str(ours) for ours in ALL}
    run = {f"q{n}": {passage: -float(rank) for rank, passage in enumerate(ids)} for n, ids in enumerate(found)}
    for metric in library.iter_calc(list(theirs), expanded, run):
        ours = results[theirs[metric.measure]][int(metric.query_id[1:])]
        assert ours == pytest.approx(metric.value, abs=1e-9), (metric.measure, metric.query_id)


def test_values_equal_those_that_ir_measures_gave() -> None:
    """Computed once with ir_measures 0.4.3 over pytrec_eval-terrier 0.5.10, for platforms that lack the latter."""
    qrels: Qrels = {
        "q0": {"d3": 3, "d2": 2, "d4": 2, "d5": 1, "d0": 3, "d1": 2, "d6": 3},
        "q1": {"d1": 1, "d2": 2, "d0": 1, "d3": 1, "d7": 1, "d4": 1, "d5": 3},
        "q2": {"d4": 3, "d0": 3, "d6": 3},
        "q3": {"d5": 2, "d3": 0},
        "q4": {"d1": 0, "d3": 2},
    }
    run: Run = {
        "q0": ["d5", "d4", "d2", "d0"],
        "q1": ["d2", "d0", "d5"],
        "q2": ["d3", "d2", "d7", "d1", "d5", "d0", "d6", "d4"],
        "q3": ["d4", "d7", "d2", "d6", "d5"],
        "q4": ["d2", "d3", "d4", "d1", "d6", "d5"],
    }
    expected = {
        "nDCG@3": [0.5102404246590811, 0.8675034925694372, 0, 0, 0.6309297535714575],
        "nDCG@10": [
            *(0.5018836338415867, 0.6589529877709519, 0.47162765245672045),
            *(0.38685280723454163, 0.6309297535714575),
        ],
        "MRR@3": [1, 1, 0, 0, 0.5],
        "MRR@10": [1, 1, 0.16666666666666666, 0.2, 0.5],
        "MAP@3": [0.42857142857142855, 0.42857142857142855, 0, 0, 0.5],
        "MAP@10": [0.5714285714285714, 0.42857142857142855, 0.27579365079365076, 0.2, 0.5],
        "P@3": [1, 1, 0, 0, 0.3333333333333333],
        "P@10": [0.4, 0.3, 0.3, 0.1, 0.1],
        "R@3": [0.42857142857142855, 0.42857142857142855, 0, 0, 1],
        "R@10": [0.5714285714285714, 0.42857142857142855, 1, 1, 1],
        "Success@1": [1, 1, 0, 0, 0],
        "Success@3": [1, 1, 0, 0, 1],
    }
    results = values(qrels, run, *expected)
    for name, per_query in expected.items():
        assert results[name] == pytest.approx(per_query, abs=1e-9), name


@given(st.lists(queries, min_size=1, max_size=6))
def test_all_measures_equal_ir_measures_on_random_rankings(cases: list[tuple[dict[str, int], list[str]]]) -> None:
    library = pytest.importorskip("ir_measures")
    qrels = {f"q{n}": grades for n, (grades, _) in enumerate(cases)}
    run = {f"q{n}": ranked for n, (_, ranked) in enumerate(cases)}
    if not any(run.values()):
        return  # ir_measures refuses a run without results
    theirs = {library.parse_measure(str(ours).replace("MRR", "RR").replace("MAP", "AP")): str(ours) for ours in ALL}
    scored = {
        query: {passage: float(PASSAGES - rank) for rank, passage in enumerate(ranked)} for query, ranked in run.items()
    }
    results = values(qrels, run, *map(str, ALL))
    order = list(qrels)
    for metric in library.iter_calc(list(theirs), qrels, scored):
        ours = results[theirs[metric.measure]][order.index(metric.query_id)]
        assert ours == pytest.approx(metric.value, abs=1e-9), (metric.measure, metric.query_id)
