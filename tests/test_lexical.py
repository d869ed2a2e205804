"""BM25: equal to bm25s, equal to itself however it grew, and silent where nothing matches."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lemmata.core.artefacts import write_hashed_manifest
from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.files import read_json
from lemmata.core.types import Floats
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.texts import Hashes, hash_texts, headed
from lemmata.search import index as stage
from lemmata.search import lexical
from lemmata.search.index import index_lexical
from lemmata.search.lexical import LexicalIndex
from lemmata.search.tokens import Tokenizer, learn_parts, tokenize

TEXTS = [
    "The Rogers--Ramanujan identities count partitions.",
    "A scheme is quasi-compact if it is a finite union of affine opens.",
    "Let $X$ be a scheme. Then $H^1(X, \\mathcal{O}_X) = 0$.",
    "",
    "Pumpe P-201: Dichtung geprüft, Lager erneuert.",
    "Partitions of $5n + 4$ are divisible by five; partitions have identities.",
]


def _many(count: int) -> list[str]:
    generator = np.random.default_rng(0)
    return [
        " ".join(f"w{number}" for number in generator.zipf(1.4, size=size) % 300)
        for size in generator.integers(0, 40, count)
    ]


def test_the_passage_that_says_it_comes_first(tmp_path: Path) -> None:
    index = LexicalIndex.build(TEXTS, tmp_path / "lexical")
    rows, scores = index.search(["Rogers-Ramanujan", "H^1(X, O_X)", "P-201 geprueft"], 2)
    assert rows[:, 0].tolist() == [0, 2, 4]
    assert rows.dtype == np.int64
    assert scores.dtype == np.float32


def test_what_shares_no_word_is_no_hit(tmp_path: Path) -> None:
    index = LexicalIndex.build(TEXTS, tmp_path / "lexical")
    rows, scores = index.search(["", "the of", "unheard", "identities"], 4)
    assert rows[:3].tolist() == [[-1] * 4] * 3
    assert np.isneginf(scores[:3]).all()
    assert sorted(rows[3].tolist()) == [-1, -1, 0, 5]


def test_only_allowed_rows_are_found(tmp_path: Path) -> None:
    index = LexicalIndex.build(TEXTS, tmp_path / "lexical")
    allowed = np.array([False, True, True, True, True, True])
    assert index.search(["identities"], 3, allowed)[0].tolist() == [[5, -1, -1]]
    with pytest.raises(InputError, match="6 rows"):
        index.search(["identities"], 3, allowed[:2])


def test_scores_equal_those_of_bm25s(tmp_path: Path) -> None:
    texts = _many(400)
    index = LexicalIndex.build(texts, tmp_path / "lexical", k1=1.5, b=0.7)
    oracle = bm25s.BM25(k1=1.5, b=0.7, method="lucene")
    oracle.index([tokenize(text) for text in texts], show_progress=False)
    for query in ("w1 w5 w17", "w2", "w100 w200 w3"):
        expected = oracle.get_scores(tokenize(query))
        rows, scores = index.search([query], 10)
        np.testing.assert_allclose(scores[0], np.sort(expected)[::-1][:10], rtol=1e-5)
        np.testing.assert_allclose(scores[0], expected[rows[0]], rtol=1e-5)


# ---------------------------------------------------------------- repeated words and headings, against plain arrays

NAMES = ("crystal", "partition", "pump", "scheme", "theta", "x", "x_i", "p201")


def _oracle(texts: list[str], headings: list[str], query: str, weight: float) -> Floats:
    """The formulas of `lexical.py`, with a matrix of all passages and words; tokens are words separated by blanks."""
    k1, b = 1.2, 0.8
    words = sorted({word for text in (*texts, *headings) for word in text.split()})
    counted = np.array([[text.split().count(word) for word in words] for text in texts]).reshape(len(texts), -1)
    headed = np.array([[text.split().count(word) for word in words] for text in headings]).reshape(len(texts), -1)
    lengths = counted.sum(axis=1)
    relative = 1 - b + b * lengths / max(1.0, lengths.mean())
    frequency = counted / relative[:, None] + weight * headed
    holding = ((counted > 0) | (weight * headed > 0)).sum(axis=0)
    idf = np.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
    times = np.array([query.split().count(word) for word in words])
    times = np.where([len(word) > 2 and word.isalpha() for word in words], times, np.minimum(times, 1))
    scores: Floats = ((9 * times / (8 + times)) * idf * frequency / (frequency + k1)).sum(axis=1)
    return scores


names = st.lists(st.sampled_from(NAMES), max_size=8).map(" ".join)


@pytest.mark.slow
@settings(max_examples=40, phases=[Phase.reuse, Phase.generate])
@given(
    st.lists(st.tuples(names, names), min_size=1, max_size=10),
    st.lists(names, min_size=1, max_size=3),
    st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    st.integers(0, 10),
)
def test_scores_with_repeated_words_and_headings_equal_those_of_plain_arrays(
    passages: list[tuple[str, str]], queries: list[str], weight: float, built: int
) -> None:
    texts, headings = [text for text, _ in passages], [heading for _, heading in passages]
    # the oracle counts words, so `x_i` must be one token only
    tokenizer = Tokenizer()
    tokenizer._pieces = lambda match: (match,)
    with tempfile.TemporaryDirectory() as folder:
        index = LexicalIndex.build(texts[:built], Path(folder) / "i", headings=headings[:built], tokenizer=tokenizer)
        index.tokenizer = tokenizer
        index.add(texts[built:], headings[built:])  # a second segment
        rows, scores = index.search(queries, len(texts), heading_weight=weight)
    for query, ranking, values in zip(queries, rows, scores, strict=True):
        expected = _oracle(texts, headings, query, weight)
        hits = ranking[ranking >= 0]
        np.testing.assert_allclose(values[ranking >= 0], expected[hits], rtol=1e-4)
        assert set(hits.tolist()) == set(np.flatnonzero(expected > 0).tolist())


@settings(max_examples=25, phases=[Phase.reuse, Phase.generate])
@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([0.0, 0.6]), st.booleans(), st.booleans())
def test_leaving_out_what_cannot_win_changes_no_row_and_no_score(
    seed: int, k: int, weight: float, deletes: bool, filters: bool
) -> None:
    generator = np.random.default_rng(seed)
    words = np.array([f"w{number}" for number in range(200)])

    def draw(count: int) -> list[str]:  # few words, so that passages tie
        return [" ".join(words[generator.zipf(1.3, size) % 200]) for size in generator.integers(0, 9, count)]

    texts = draw(int(generator.integers(1, 400)))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        index = LexicalIndex.build(texts, Path(folder) / "lexical", headings=draw(len(texts)))
        count = len(texts) + 50
        proven = np.flatnonzero(generator.random(count) < 0.5)
        index.add(draw(50 + len(proven)), draw(50), proven=proven)
        if deletes:
            order = np.full(count + len(proven), -1)
            kept = np.flatnonzero(generator.random(count) < 0.7)
            order[kept] = generator.permutation(len(kept))
            has_proof = order[proven] >= 0
            order[count + np.flatnonzero(has_proof)] = len(kept) + np.arange(has_proof.sum())
            index.add([], order=order, proven=order[proven[has_proof]])
        allowed = generator.random(len(index)) < 0.5 if filters else None
        queries = draw(6)
        patch.setattr(lexical, "_EXHAUSTIVE", 10**9)
        weights = {"heading_weight": 1.5 * (weight > 0), "proof_weight": weight}
        expected = index.search(queries, k, allowed, **weights)
        patch.setattr(lexical, "_EXHAUSTIVE", 0)
        for many in (0, 100):
            for look_up in (0, 2):  # 0: as early as it can be exact
                patch.setattr(lexical, "_MANY", many)
                patch.setattr(lexical, "_LOOK_UP", look_up)
                for one, other in zip(index.search(queries, k, allowed, **weights), expected, strict=True):
                    np.testing.assert_array_equal(one, other)


def test_a_word_that_a_query_repeats_weighs_more_and_a_symbol_does_not(tmp_path: Path) -> None:
    index = LexicalIndex.build(["flat modules", "rings", "$x$ and $y$"], tmp_path / "lexical")

    def score(query: str) -> float:
        return float(index.search([query], 1)[1][0, 0])

    assert score("flat flat flat") == pytest.approx(score("flat") * 9 * 3 / (8 + 3))
    assert score("flats Flat flat") == score("flat flat flat")
    assert score("$x$ x $x$") == score("x")
    assert index.search(["flat ring", "flat flat flat ring"], 2)[0].tolist() == [[1, 0], [0, 1]]


def test_a_word_in_text_and_heading_counts_more_than_in_one_of_them(tmp_path: Path) -> None:
    texts, headings = ["a theta function", "a theta function", "a pump and more"], ["theta", "", "theta"]
    index = LexicalIndex.build(texts, tmp_path / "lexical", headings=headings)
    rows, scores = index.search(["theta"], 3, heading_weight=1.0)
    assert rows[0, 0] == 0
    assert scores[0, 0] > scores[0, 1] > 0
    assert sorted(rows[0].tolist()) == [0, 1, 2]
    # 3 of 3 hold it in one of the fields
    relative = 0.2 + 0.8 * 2 / (6 / 3)
    assert scores[0, 0] == pytest.approx(np.log1p(0.5 / 3.5) * (1 / relative + 1) / (1 / relative + 1 + 1.2), rel=1e-5)


def test_an_index_that_grew_equals_one_built_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "_CHUNK", 64)  # several chunks, moved in several pieces
    monkeypatch.setattr(lexical, "_MERGED_POSTINGS", 100)
    texts = _many(500)
    whole = LexicalIndex.build(texts, tmp_path / "whole")
    grown = LexicalIndex.build(texts[:200], tmp_path / "grown")
    for first, last in ((200, 201), (201, 210), (210, 300), (300, 300), (300, 301), (301, 500)):
        grown.add(texts[first:last])
    assert len(grown) == len(whole) == 500
    queries = [f"w{number} w{number * 7 % 300} w1" for number in range(40)]
    for index in (grown, LexicalIndex.open(tmp_path / "grown")):
        for one, other in zip(index.search(queries, 20), whole.search(queries, 20), strict=True):
            np.testing.assert_array_equal(one, other)


def test_adding_one_by_one_keeps_few_segments(tmp_path: Path) -> None:
    index = LexicalIndex.build([], tmp_path / "lexical")
    assert index.search(["w1"], 2)[0].tolist() == [[-1, -1]]
    for text in _many(33):
        index.add([text])
    assert len(list((tmp_path / "lexical").glob("segment-*"))) <= 6


def test_what_an_interrupted_run_left_is_no_obstacle(tmp_path: Path) -> None:
    index = LexicalIndex.build(TEXTS[:3], tmp_path / "lexical")
    for name in ("segment-1", "segment-2", "partial-segment-1"):
        (tmp_path / "lexical" / name).mkdir()
        (tmp_path / "lexical" / name / "rows.npy").write_bytes(b"half")
    index.add(TEXTS[3:])
    assert index.search(["P-201"], 1)[0].tolist() == [[4]]


def test_building_again_replaces_the_index_and_leaves_nothing_behind(tmp_path: Path) -> None:
    LexicalIndex.build(TEXTS, tmp_path / "lexical")
    assert len(LexicalIndex.build(TEXTS[:2], tmp_path / "lexical")) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["lexical"]


def test_a_missing_or_foreign_index_is_refused_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="lemmata index"):
        LexicalIndex.open(tmp_path)
    (tmp_path / "index.json").write_text('{"format": 99}')
    with pytest.raises(WorkspaceError, match="lemmata index"):
        LexicalIndex.open(tmp_path)


def test_a_filter_and_deleted_passages_hold_in_every_segment(tmp_path: Path) -> None:
    """Three segments (8, 2 and 1 passages): the mask must be read at the rows of the segment."""
    texts = [f"common word{number}" for number in range(11)]
    index = LexicalIndex.build(texts[:8], tmp_path / "lexical")
    index.add(texts[8:10])
    index.add(texts[10:])
    assert len(list((tmp_path / "lexical").glob("segment-*"))) == 3
    allowed = np.zeros(11, bool)
    allowed[[1, 9, 10]] = True
    assert sorted(index.search(["common"], 5, allowed)[0][0].tolist()) == [-1, -1, 1, 9, 10]
    assert index.search(["common word8"], 2, allowed)[0][0].tolist() == [1, 9]
    # passages 0 and 9 are deleted, the others stand in reverse order in the corpus
    index.add([], order=np.array([-1, 8, 7, 6, 5, 4, 3, 2, 1, -1, 0]))
    ordered = LexicalIndex.open(tmp_path / "lexical")
    assert len(ordered) == 9
    assert sorted(ordered.search(["common"], 11)[0][0].tolist()) == [-1, -1, *range(9)]
    assert ordered.search(["word9 word0"], 3)[0][0].tolist() == [-1, -1, -1]
    assert sorted(ordered.search(["word10 word3"], 3)[0][0].tolist()) == [-1, 0, 6]
    only = np.zeros(9, bool)
    only[6] = True
    assert ordered.search(["word10 word3"], 3, only)[0][0].tolist() == [6, -1, -1]


def test_a_proof_finds_its_statement_and_changes_no_score_of_a_text(tmp_path: Path) -> None:
    texts = ["a flat module", "a theta function", "rings and crystals"]
    plain = LexicalIndex.build(texts, tmp_path / "plain")
    proofs = ["induct on the theta rank", "a flat crystal module, flat again"]
    index = LexicalIndex.build([*texts, *proofs], tmp_path / "lexical", proven=np.array([0, 2]))
    assert len(index) == 3
    assert index.search(["rank"], 3)[0].tolist() == [[-1, -1, -1]]
    assert index.search(["rank"], 3, proof_weight=0.6)[0].tolist() == [[0, -1, -1]]
    assert index.search(["rank"], 3, np.array([False, True, True]), proof_weight=0.6)[0].tolist() == [[-1, -1, -1]]
    assert index.search(["theta"], 3, proof_weight=0.6)[0].tolist() == [[1, 0, -1]]
    for query in ("flat module", "theta", "crystal rings of theta rank"):
        for expected, found in zip(plain.search([query], 3), index.search([query], 3), strict=True):
            np.testing.assert_array_equal(found, expected)
        own = dict(zip(*(part[0].tolist() for part in plain.search([query], 3)), strict=True))
        (rows,), (scores,) = index.search([query], 3, proof_weight=0.6)
        assert all(score >= own.get(row, 0) for row, score in zip(rows.tolist(), scores.tolist(), strict=True))
        assert len(set(rows[rows >= 0].tolist())) == np.count_nonzero(rows >= 0)


class Texts:
    """Passages in memory, each a text, the heading of its section and its proof."""

    def __init__(self, passages: Sequence[tuple[str, str] | tuple[str, str, str]]) -> None:
        self.passages = [(*passage, "")[:3] for passage in passages]
        self.digest = repr(passages)

    def __len__(self) -> int:
        return len(self.passages)

    def contents(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        return iter([text for text, *_ in self.passages[start:stop]])

    def headings(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        return iter([heading for _, heading, _ in self.passages[start:stop]])

    def proofs(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        return iter([proof for *_, proof in self.passages[start:stop]])

    def proof_hashes(self) -> Hashes:
        return np.where([bool(proof) for proof in self.proofs()], hash_texts(self.proofs(), len(self)), 0)

    def hashes(self, *, with_headings: bool = False) -> Hashes:
        texts = (headed(heading, text) if with_headings else text for text, heading, _ in self.passages)
        return hash_texts(texts, len(self))


WORDS = ("crystal", "partition", "pump", "scheme", "theta")
words = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
corpora = st.lists(st.tuples(words, words, words), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=12, phases=[Phase.reuse, Phase.generate])  # shrinking takes minutes
@given(st.lists(corpora, min_size=2, max_size=5), st.data())
def test_an_index_that_grew_and_shrank_equals_a_new_one(
    states: list[list[tuple[str, str, str]]], data: st.DataObject
) -> None:
    """Each state keeps some of the passages before it, in any order; ranks and scores are those of a rebuild."""
    with tempfile.TemporaryDirectory() as folder:
        grown, built = Workspace(Path(folder) / "grown"), Workspace(Path(folder) / "built")
        before: list[tuple[str, str, str]] = []
        for state in states:
            before = data.draw(st.permutations([*before, *state])) if data.draw(st.booleans()) else [*before, *state]
            before = [passage for passage in before if data.draw(st.integers(0, 4))] or state
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(stage, "_MAX_DELETED", 100)  # never rebuilt
                index_lexical(grown, Texts(before))
        index_lexical(built, Texts(before))
        one, other = LexicalIndex.open(grown.lexical_folder), LexicalIndex.open(built.lexical_folder)
        assert len(one) == len(other) == len(before)
        allowed = np.array(data.draw(st.lists(st.booleans(), min_size=len(before), max_size=len(before))))
        queries = [*WORDS, "crystal pump theta", "scheme partition pump"]
        for mask in (None, allowed):
            for weights in ({}, {"heading_weight": 0.5}, {"heading_weight": 0.5, "proof_weight": 0.6}):
                for k in (1, 3, len(before)):
                    rows, scores = one.search(queries, k, mask, **weights)
                    expected_rows, expected_scores = other.search(queries, k, mask, **weights)
                    np.testing.assert_array_equal(rows, expected_rows)
                    np.testing.assert_allclose(scores, expected_scores, rtol=1e-6)
        oracle = bm25s.BM25(k1=1.2, b=0.8, method="lucene")
        tokens = [tokenize(text) for text, *_ in before]
        if sum(map(len, tokens)) < len(tokens):
            return  # a mean length below 1 is counted as 1 here
        oracle.index(tokens, show_progress=False)
        for query in queries:
            known = [token for token in tokenize(query) if token in oracle.vocab_dict]  # it refuses a query without
            expected = oracle.get_scores(known) if known else np.zeros(len(before))
            rows, scores = one.search([query], len(before))
            np.testing.assert_allclose(scores[rows >= 0], expected[rows[rows >= 0]], rtol=1e-5)
            assert np.count_nonzero(rows >= 0) == np.count_nonzero(expected)


def test_headings_are_searched_apart_from_the_text(tmp_path: Path) -> None:
    texts = ["Archives may be bombs.", "Input is read.", "Nothing of that."]
    headings = ["Hostile input", "Reading", ""]
    index = LexicalIndex.build(texts, tmp_path / "headed", headings=headings)
    plain = LexicalIndex.build(texts, tmp_path / "plain")
    for one, other in zip(index.search(["hostile input"], 3), plain.search(["hostile input"], 3), strict=True):
        np.testing.assert_array_equal(one, other)
    rows, scores = index.search(["hostile input"], 3, heading_weight=1.0)
    assert rows.tolist() == [[0, 1, -1]]
    # `hostile` stands in one of three headings, `input` in one more text, and neither in the first text
    assert scores[0, 0] == pytest.approx((np.log1p(2.5 / 1.5) + np.log1p(1.5 / 2.5)) / 2.2)
    index.add(["More archives."], ["Hostile input"])
    assert index.search(["hostile"], 3, heading_weight=0.1)[0].tolist() == [[0, 3, -1]]
    assert index.search(["hostile"], 3)[0].tolist() == [[-1, -1, -1]]


# ---------------------------------------------------------------- German

LOGS = [
    "Kühlwasserpumpe P-203 undicht, Dichtung erneuert",
    "Pumpe P-204 läuft wieder",
    "Kuehlwasser fehlt an Pumpe A1-P-0107",
    "Lager der Pumpen heiß",
    "Bearing of cooling water pump renewed, Kühlwasser checked",
    "Prüfung der Lager ohne Befund",
]


def _found(index: LexicalIndex, query: str) -> set[int]:
    return {row for row in index.search([query], len(index))[0][0].tolist() if row >= 0}


def test_a_compound_is_found_by_its_parts_and_finds_them(tmp_path: Path) -> None:
    tokenizer = Tokenizer("de+en", learn_parts(LOGS, "de+en"))
    index = LexicalIndex.build(LOGS, tmp_path / "lexical", tokenizer=tokenizer)
    for opened in (index, LexicalIndex.open(tmp_path / "lexical")):
        assert {0, 1, 2, 3} <= _found(opened, "Pumpe")
        assert {0, 2, 4} == _found(opened, "KUEHLWASSER")
        assert opened.search(["Kühlwasserpumpen"], 6)[0][0, 0] == 0
        assert {0, 1, 2, 3, 4} == _found(opened, "Kühlwasserpumpen")
        assert {3, 5} == _found(opened, "Lagers")
        assert {4} == _found(opened, "bearings")
        assert {5} == _found(opened, "Pruefungen")
        assert opened.search(["P-203"], 1)[0].tolist() == opened.search(["P203"], 1)[0].tolist() == [[0]]
        assert opened.search(["A1-P-0107"], 1)[0].tolist() == [[2]]


def test_scores_of_a_german_index_equal_those_of_bm25s_however_it_grew(tmp_path: Path) -> None:
    tokenizer = Tokenizer("de+en", learn_parts(LOGS, "de+en"))
    index = LexicalIndex.build(LOGS[:2], tmp_path / "lexical", tokenizer=tokenizer)
    index.add(LOGS[2:3])
    index = LexicalIndex.open(tmp_path / "lexical")
    index.add(LOGS[3:])
    oracle = bm25s.BM25(k1=1.2, b=0.8, method="lucene")
    oracle.index([tokenizer(text) for text in LOGS], show_progress=False)
    for query in ("Kühlwasserpumpe", "Pumpenlager", "pumps and bearings", "P-203 Dichtungen"):
        known = [token for token in dict.fromkeys(tokenizer(query)) if token in oracle.vocab_dict]
        expected = oracle.get_scores(known)
        rows, scores = index.search([query], 6)
        np.testing.assert_allclose(scores[rows >= 0], expected[rows[rows >= 0]], rtol=1e-5)
        assert np.count_nonzero(rows >= 0) == np.count_nonzero(expected)


def test_a_german_index_keeps_its_parts_until_the_corpus_has_doubled(tmp_path: Path) -> None:
    layout, ventils = Workspace(tmp_path), ["Ventil klemmt", "Ventil neu"]

    def tokenised(texts: list[str], language: str = "de") -> int:
        return index_lexical(layout, Texts([(text, "") for text in texts]), language=language)

    assert tokenised(LOGS) == 6
    assert tokenised(LOGS) == 0
    assert tokenised([*LOGS, *ventils, "Dampf", "Dampf da", "Dampfventil"]) == 5
    assert 10 not in _found(LexicalIndex.open(layout.lexical_folder), "Ventil")  # no part when the index was made
    assert tokenised([*LOGS, *ventils, "Dampf", "Dampf da", "Dampfventil", "zu"]) == 1
    assert tokenised([*LOGS, *ventils, "Dampf", "Dampf da", "Dampfventil", "zu", "auf"]) == 13
    assert 10 in _found(LexicalIndex.open(layout.lexical_folder), "Ventil")
    assert tokenised(LOGS, "en") == 6
    assert 0 not in _found(LexicalIndex.open(layout.lexical_folder), "Pumpe")


@pytest.mark.parametrize(("language", "before"), [("en", 2), ("de", 3), ("de+en", 3)])
def test_an_index_with_other_tokens_is_refused_and_built_again(tmp_path: Path, language: str, before: int) -> None:
    layout, texts = Workspace(tmp_path), Texts([("a pump", "Machines"), ("a theta function", "")])
    assert index_lexical(layout, texts, language=language) == 2
    content = read_json(layout.lexical_folder / "index.json", "")
    (layout.lexical_folder / "index.json").write_text(json.dumps({**content, "format": before}))
    manifest = read_manifest(layout.manifest(layout.lexical_folder)) or {}
    write_hashed_manifest(layout.lexical_folder, {**manifest, "lexical": before})
    with pytest.raises(WorkspaceError, match="'lemmata index'"):
        LexicalIndex.open(layout.lexical_folder)
    assert index_lexical(layout, texts, language=language) == 2
    assert _found(LexicalIndex.open(layout.lexical_folder), "pump") == {0}


def test_the_files_of_an_index(tmp_path: Path) -> None:
    layout, texts = Workspace(tmp_path), Texts([("a pump", "Machines"), ("a theta function", "")])
    index_lexical(layout, texts)
    assert read_json(layout.lexical_folder / "index.json", "") == {
        "format": 5,
        "k1": 1.2,
        "b": 0.8,
        "segments": ["segment-0"],
    }
    assert sorted(path.name for path in layout.lexical_folder.iterdir()) == [
        "hashes.npy",
        "index.json",
        "manifest.json",
        "segment-0",
    ]
    assert index_lexical(layout, texts) == 0
    assert index_lexical(layout, texts, language="de") == 2  # a German corpus is renewed


def test_a_german_index_without_its_parts_is_refused_with_the_cure(tmp_path: Path) -> None:
    LexicalIndex.build(LOGS, tmp_path / "lexical", tokenizer=Tokenizer("de"))
    (tmp_path / "lexical" / "parts.txt").unlink()
    with pytest.raises(WorkspaceError, match="'lemmata index'"):
        LexicalIndex.open(tmp_path / "lexical")
