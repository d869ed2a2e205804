"""Batches: every record as often as asked for, no text twice, and texts that are shown as they are."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lemmata.core.types import Integers
from lemmata.train.batches import Plan, chunks, collate, plan
from lemmata.train.job import TokenizedTexts


def distinct(count: int, first: int = 0) -> Integers:
    """Records of texts that no other record has."""
    return first + np.arange(2 * count).reshape(count, 2)


def shown(made: Plan, number: int = 0) -> Counter[int]:
    """How often each record of a set stands in a plan."""
    batches = [one for of, one in zip(made.sets.tolist(), made.records, strict=True) if of == number]
    return Counter(np.concatenate(batches).tolist() if batches else [])


SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def sets(draw: st.DrawFn) -> Integers:
    """Anchor, positive and a negative; few texts, so that many records share one."""
    count, texts = draw(st.integers(1, 60)), draw(st.integers(1, 80))
    numbers = st.integers(0, texts - 1)
    rows = draw(st.lists(st.tuples(numbers, numbers, st.integers(-1, texts)), min_size=count, max_size=count))
    return np.array(rows, np.int64)


# ---------------------------------------------------------------- which records


@given(records=sets(), batch=st.integers(2, 20), repeat=st.floats(0, 3), seed=SEEDS)
def test_no_text_stands_twice_in_a_batch_and_no_record_too_often(
    records: Integers, batch: int, repeat: float, seed: int
) -> None:
    made = plan([records], [repeat], 1.0, batch, np.random.default_rng(seed))
    wanted = round(len(records) * repeat)
    for rows in made.records:
        assert 1 <= len(rows) <= batch
        texts = [text for row in records[rows, :2].tolist() for text in set(row)]
        assert len(set(texts)) == len(texts)
    counts = shown(made)
    assert sum(counts.values()) <= wanted
    assert max(counts.values(), default=0) <= -(-wanted // len(records))
    assert bool(len(made)) == bool(wanted)


@given(count=st.integers(1, 80), batch=st.integers(2, 30), repeat=st.floats(0, 1), hub=st.floats(0, 1), seed=SEEDS)
@example(count=400, batch=8, repeat=1.0, hub=0.3, seed=0)
def test_a_text_of_many_records_costs_the_others_nothing(
    count: int, batch: int, repeat: float, hub: float, seed: int
) -> None:
    """Only what is left at the end of a set may be missing: less than half a batch, and the surplus of the hub."""
    generator = np.random.default_rng(seed)
    records = distinct(count)
    popular = generator.random(count) < hub
    records[popular, 0] = 2 * count
    made = plan([records], [repeat], 1.0, batch, generator)
    wanted = round(count * repeat)
    counts = shown(made)
    assert max(counts.values(), default=0) <= 1
    of_hub = sum(bool(popular[record]) for record in counts)
    assert of_hub <= len(made)
    short = min(batch, count) / 2
    drawn_of_others = wanted - int(popular.sum())  # at least
    assert sum(counts.values()) - of_hub > drawn_of_others - short or not wanted
    if not popular.any():
        assert wanted - sum(counts.values()) < short or not wanted


@given(count=st.integers(1, 40), batch=st.integers(2, 60), times=st.integers(1, 4), seed=SEEDS)
def test_a_set_is_shown_as_often_as_it_repeats(count: int, batch: int, times: int, seed: int) -> None:
    made = plan([distinct(count)], [float(times)], 1.0, batch, np.random.default_rng(seed))
    counts = shown(made)
    assert max(counts.values()) <= times
    assert len(counts) > count - min(batch, count) / 2
    if batch >= count:  # then each time is a batch of its own
        assert counts == dict.fromkeys(range(count), times)
        assert len(made) == times


@given(records=sets(), batch=st.integers(2, 60), repeat=st.floats(0, 3), seed=SEEDS)
def test_where_texts_may_repeat_only_the_end_is_left_out(
    records: Integers, batch: int, repeat: float, seed: int
) -> None:
    made = plan([records], [repeat], 1.0, batch, np.random.default_rng(seed), distinct=False)
    wanted = round(len(records) * repeat)
    counts = shown(made)
    assert wanted - batch / 2 < sum(counts.values()) <= wanted or (wanted == sum(counts.values()) == 0)
    assert max(counts.values(), default=0) <= -(-wanted // len(records))
    assert all(len(rows) <= batch for rows in made.records)


def test_epochs_count_by_parts_and_sets_by_their_own_repeats() -> None:
    first, second, never = distinct(40), distinct(20, 100), distinct(10, 200)
    made = plan([first, second, never], [1.0, 2.0, 0.0], 2.5, 10, np.random.default_rng(0))
    assert sorted(Counter(shown(made, 0).values()).items()) == [(2, 20), (3, 20)]
    assert shown(made, 1) == dict.fromkeys(range(20), 5)
    assert not shown(made, 2)
    assert len(made) == 10 + 10
    early = Counter(made.sets[:8].tolist())
    assert early[0] == early[1] == 4  # an epoch at a time
    assert not len(plan([first], [1.0], 0.0, 10, np.random.default_rng(0)))


@given(records=sets(), batch=st.integers(2, 10), seed=SEEDS)
def test_the_same_seed_gives_the_same_plan(records: Integers, batch: int, seed: int) -> None:
    def made() -> list[list[int]]:
        found = plan([records, records], [1.0, 0.5], 2.0, batch, np.random.default_rng(seed))
        return [[number, *rows] for number, rows in zip(found.sets, found.records, strict=True)]

    assert made() == made()


def test_another_seed_gives_another_plan() -> None:
    made = [plan([distinct(50)], [1.0], 1.0, 10, np.random.default_rng(seed)) for seed in (0, 1)]
    assert made[0].records[0].tolist() != made[1].records[0].tolist()


# ---------------------------------------------------------------- what a model is shown


@st.composite
def tokenized(draw: st.DrawFn) -> TokenizedTexts:
    lengths = draw(st.lists(st.integers(2, 40), min_size=1, max_size=30))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return TokenizedTexts(np.arange(1, starts[-1] + 1, dtype=np.uint16), starts)


@given(texts=tokenized(), longest=st.integers(2, 40), budget=st.integers(1, 200), seed=SEEDS)
def test_chunks_hold_every_text_once_and_no_more_than_their_tokens(
    texts: TokenizedTexts, longest: int, budget: int, seed: int
) -> None:
    numbers = np.random.default_rng(seed).integers(0, len(texts), len(texts))
    made = chunks(texts, numbers, longest, budget)
    assert sorted(np.concatenate(made).tolist()) == list(range(len(numbers)))
    for part in made:
        ids, _ = texts.padded(numbers[part], longest, 0)
        assert ids.size <= budget or len(part) == 1
    longest_of = [texts.lengths(numbers[part], longest).max() for part in made]
    assert (np.diff(longest_of) <= 7).all()  # like lengths together, by eights


@pytest.mark.slow
@given(texts=tokenized(), longest=st.integers(2, 40), budget=st.integers(1, 400), seed=SEEDS)
def test_a_batch_gives_back_the_tokens_of_every_record(
    texts: TokenizedTexts, longest: int, budget: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    records = generator.integers(0, len(texts), (5, 4))
    records[:, 2:][generator.random((5, 2)) < 0.4] = -1
    made = collate(texts, records, longest, budget, 0)
    rows = [
        ids[mask == 1].tolist()
        for chunk in made["chunks"]
        for ids, mask in zip(chunk["input_ids"].numpy(), chunk["attention_mask"].numpy(), strict=True)
    ]
    assert len(rows) == len(made["numbers"]) == len(np.unique(records[records >= 0]))  # each text once
    assert made["table"].shape == records.shape
    for number, place in zip(records.ravel().tolist(), made["table"].numpy().ravel().tolist(), strict=True):
        if number < 0:
            assert place == -1
            continue
        assert made["numbers"][place] == number
        whole = texts.flat[texts.starts[number] : texts.starts[number + 1]].tolist()
        assert rows[place] == (whole if len(whole) <= longest else [*whole[: longest - 1], whole[-1]])
