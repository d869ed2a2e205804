"""BM25: equal to bm25s, equal to itself however it grew, and silent where nothing matches."""

from __future__ import annotations

from pathlib import Path

import bm25s
import numpy as np
import pytest

from lemmata.errors import InputError, WorkspaceError
from lemmata.index import lexical
from lemmata.index.lexical import LexicalIndex
from lemmata.index.tokens import tokenize

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
    with pytest.raises(WorkspaceError, match="another format"):
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
    order = np.array([-1, 8, 7, 6, 5, 4, 3, 2, 1, -1, 0])
    np.save(tmp_path / "lexical" / lexical.ORDER, order)
    ordered = lexical.OrderedLexical.open(tmp_path / "lexical")
    assert sorted(ordered.search(["common"], 11)[0][0].tolist()) == [-1, -1, *range(9)]
    assert ordered.search(["word9 word0"], 3)[0][0].tolist() == [-1, -1, -1]
    assert sorted(ordered.search(["word10 word3"], 3)[0][0].tolist()) == [-1, 0, 6]
    only = np.zeros(9, bool)
    only[6] = True
    assert ordered.search(["word10 word3"], 3, only)[0][0].tolist() == [6, -1, -1]
