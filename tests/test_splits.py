from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import MemoryCorpus

from lemmata.core.artefacts import write_hashed_manifest
from lemmata.core.config import build
from lemmata.core.errors import ConfigError, InputError, LeakageError, WorkspaceError
from lemmata.core.types import Concept, Document, Edge, Graph, Link, Passage, Reading
from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import near_duplicate_of, near_pairs, sketch
from lemmata.corpus.split import LEFT_OUT, PARTS, Split, open_split, write_split
from lemmata.corpus.writer import CorpusWriter
from lemmata.graph.links import build_graph, link_edges
from lemmata.mine.material import TrainingView, training_view
from lemmata.mine.splits import Outline, SplitOptions, name_key, outline, split_concepts, split_corpus

NO_CONCEPTS = {"concept_validation": 0.0, "concept_test": 0.0}


def papers(*sizes: int) -> Outline:
    """Papers d0, d1, … with so many statements each."""
    documents = [f"d{n}" for n, size in enumerate(sizes) for _ in range(size)]
    return Outline(ids=[f"{d}#{n}" for n, d in enumerate(documents)], documents=documents)


def parts(split: Split, corpus: Outline) -> dict[str, str]:
    return {name: PARTS[part] if part >= 0 else "" for name, part in zip(corpus.ids, split.part, strict=True)}


# ---------------------------------------------------------------- by document


def test_a_split_by_document_keeps_documents_whole_and_meets_its_shares_on_average() -> None:
    corpus = papers(*[5] * 1000)
    split = split_corpus(corpus, SplitOptions(validation=0.1, test=0.2))
    for document in set(corpus.documents):
        assert len({p for p, d in zip(split.part.tolist(), corpus.documents, strict=True) if d == document}) == 1
    counts = split.counts()
    assert abs(counts["test"]["rows"] - 1000) < 4 * 5 * (1000 * 0.2 * 0.8) ** 0.5  # four standard deviations
    assert abs(counts["validation"]["rows"] - 500) < 4 * 5 * (1000 * 0.1 * 0.9) ** 0.5
    assert sum(counts[part]["rows"] for part in PARTS) == 5000
    assert counts["test"]["unseen"] == counts["test"]["rows"]
    assert not (split.unseen & split.rows("train")).any()


def test_the_order_of_rows_does_not_matter_but_the_seed_does() -> None:
    corpus = papers(*range(1, 30))
    shuffled = np.random.default_rng(5).permutation(len(corpus.ids)).tolist()
    other = Outline([corpus.ids[n] for n in shuffled], [corpus.documents[n] for n in shuffled])
    for method in ("document", "stratified"):
        options = SplitOptions(method=method, seed=3)
        one = split_corpus(corpus, options)
        assert parts(one, corpus) == parts(split_corpus(other, options), other)
        assert parts(one, corpus) != parts(split_corpus(corpus, replace(options, seed=4)), corpus)


SIDES = {"train": "train", "validation": "held out", "test": "held out"}


def moved(one: dict[str, str], other: dict[str, str]) -> set[str]:
    """Ids on different sides, training and held out, of two splits; in no part counts as neither."""
    both = one.keys() & other.keys()
    return {name for name in both if one[name] and other[name] and SIDES[one[name]] != SIDES[other[name]]}


@pytest.mark.parametrize("method", ["document", "stratified"])
def test_growth_moves_nobody_even_where_the_earlier_split_is_not_known(method: str) -> None:
    options = SplitOptions(method=method, unseen=0.5)
    corpora = [papers(*[6] * size) for size in range(44, 60)]
    splits = [split_corpus(corpus, options) for corpus in corpora]
    assert not any("would be empty" in note for split in splits for note in split.notes)
    sides = [parts(split, corpus) for split, corpus in zip(splits, corpora, strict=True)]
    for one in sides:
        for other in sides:
            assert all(one[name] == other[name] for name in one.keys() & other.keys())


def test_concepts_that_come_later_move_no_other_and_follow_their_namesakes() -> None:
    concepts = [Concept(f"concept:c{n}", f"notion {n}") for n in range(80)]
    few = split_concepts(concepts[:40], validation=0.2, test=0.2)
    many = split_concepts(concepts, validation=0.2, test=0.2)
    assert {few[name] for name in few} == set(PARTS)
    assert few == {name: many[name] for name in few}
    namesakes = [Concept(f"concept:also-{n}", f"Notions {n}") for n in range(80)]
    grown = split_concepts([*concepts, *namesakes], validation=0.2, test=0.2, before=many)
    assert many == {name: grown[name] for name in many}
    assert all(grown[f"concept:also-{n}"] == many[f"concept:c{n}"] for n in range(80))
    both = Concept("concept:both", "both", aliases=tuple(concept.name for concept in concepts))
    joined = split_concepts([*concepts, both], validation=0.2, test=0.2, before=many)
    assert joined == {**many, "concept:both": "test"}


def test_a_corpus_that_grows_together_keeps_its_split() -> None:
    """Two of three documents become near-duplicates: too few for a first split, enough for one that is there."""
    texts = [f"{word}x {word}y {word}z {word}u {word}v" for word in "abc"]
    texts.append(texts[0])
    outlines = [
        Outline(
            [f"d{n % 3}#{n}" for n in (0, 1, 2, 4)[:size]],
            ["d0", "d1", "d2", "d1"][:size],
            sketches=sketch(texts[:size]),
        )
        for size in (3, 4)
    ]
    options = SplitOptions(validation=0.3, test=0.3)
    before = split_corpus(outlines[0], options, None)
    after = split_corpus(outlines[1], options, before)
    assert after.part[:3].tolist() == before.part.tolist()


@st.composite
def growing(draw: st.DrawFn) -> list[Outline]:
    """A corpus and what it grows to, step by step: new papers, some copied from earlier ones, and new passages."""
    texts: list[str] = []
    homes: list[int] = []
    steps: list[int] = []
    count = 0
    for _ in range(draw(st.integers(2, 4))):
        for _ in range(draw(st.integers(1 if steps else 3, 5))):
            copied = draw(st.lists(st.integers(0, max(0, len(texts) - 1)), max_size=4)) if texts else []
            own = draw(st.integers(0 if copied else 1, 4))
            words = [f"a{len(texts)}n{n}" for n in range(own)]
            new = [*(texts[n] for n in copied), *(f"{word}x {word}y {word}z {word}u {word}v" for word in words)]
            home = draw(st.integers(0, count - 1)) if count and draw(st.integers(0, 4)) == 0 else count
            count = max(count, home + 1)
            texts += new
            homes += [home] * len(new)
        steps.append(len(texts))
    ids = [f"d{home}#{n}" for n, home in enumerate(homes)]
    concepts = {f"concept:c{n}": Concept(f"concept:c{n}", f"notion {n}") for n in range(12)}
    mentions = [(n, f"concept:c{n % 12}") for n in range(len(ids))]
    dates = [f"20{10 + n % 13}" for n in range(len(ids))]
    return [
        Outline(
            ids[:size],
            [f"d{home}" for home in homes[:size]],
            dates=dates[:size],
            sketches=sketch(texts[:size]),
            concepts=concepts,
            mentions=mentions[:size],
        )
        for size in steps
    ]


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 2)
@given(growing(), st.sampled_from(["document", "stratified", "concept", "time"]), st.integers(0, 3))
def test_whatever_a_corpus_grows_by_nobody_changes_sides(corpora: list[Outline], method: str, seed: int) -> None:
    options = SplitOptions(
        method=method, seed=seed, validation=0.2, test=0.3, unseen=0.5, concept_test=0.3, concept_validation=0.2
    )
    before: Split | None = None
    former: dict[str, str] = {}
    for corpus in corpora:
        try:
            split = split_corpus(corpus, options, before)
        except ConfigError:  # too few documents, dates or statements so far
            assert before is None
            continue
        now = parts(split, corpus)
        assert not moved(former, now)
        assert all(now[name] == former[name] for name in former)
        assert corpus.sketches is not None
        for one, other in ((0, 1), (0, 2), (1, 2)):
            hashes = [set(corpus.sketches.set_hashes[split.part == number].tolist()) for number in (one, other)]
            assert not hashes[0] & hashes[1]
        if before is not None:
            assert all(split.concepts[name] == part for name, part in before.concepts.items())
        before, former = split, now


def test_a_paper_that_joins_training_with_test_is_in_no_part_and_counted() -> None:
    texts = [f"statement {n} says a{n} b{n} c{n} d{n}" for n in range(80)]
    corpus = replace(papers(*[4] * 20), sketches=sketch(texts))
    before = split_corpus(corpus, SplitOptions(test=0.3))
    first = {number: before.part.tolist().index(number) for number in (0, 2)}
    copies = [texts[first[number] + n] for number in (0, 2) for n in (0, 1)]
    grown = Outline([*corpus.ids, *(f"new#{n}" for n in range(4))], [*corpus.documents, *["new"] * 4])
    grown = replace(grown, sketches=sketch([*texts, *copies]))
    split = split_corpus(grown, SplitOptions(test=0.3), before)
    assert split.part[:80].tolist() == before.part.tolist()
    assert split.part[80:].tolist() == [LEFT_OUT] * 4
    assert "documents in no part because they join training with held-out ones: 1" in split.notes


@pytest.mark.parametrize("old", PARTS)
def test_a_later_copy_of_a_paper_follows_it_and_a_later_copy_of_a_passage_gives_way(old: str) -> None:
    texts = [f"statement {n} says a{n} b{n} c{n} d{n}" for n in range(80)]
    corpus = replace(papers(*[4] * 20), sketches=sketch(texts))
    options = SplitOptions(test=0.3, validation=0.3)
    before = split_corpus(corpus, options)
    first = next(n for n in range(0, 80, 4) if PARTS[before.part[n]] == old)
    for name in ("new", "newer", "newest", "another", "last"):  # whatever side their hashes would give them
        ids = [*corpus.ids, *(f"{name}#{n}" for n in range(4))]
        grown = Outline(ids, [*corpus.documents, *[name] * 4])
        copied = replace(grown, sketches=sketch([*texts, *texts[first : first + 4]]))
        assert {PARTS[number] for number in split_corpus(copied, options, before).part[80:]} == {old}
        own = [f"words of its own {name}{n} x{n}{name} y{n}{name} z{n}{name}" for n in range(3)]
        one = split_corpus(replace(grown, sketches=sketch([*texts, texts[first], *own])), options, before)
        assert one.part[:80].tolist() == before.part.tolist()
        side = set(one.part[81:].tolist())
        assert len(side) == 1
        assert one.part[80] == (PARTS.index(old) if side == {PARTS.index(old)} else LEFT_OUT)


def test_a_part_that_would_be_empty_gets_a_document_that_is_named() -> None:
    filled = 0
    for seed in range(20):
        split = split_corpus(papers(2, 2, 2), SplitOptions(seed=seed))
        assert sorted(split.part.tolist()) == [0, 0, 1, 1, 2, 2]
        filled += any("would be empty" in note for note in split.notes)
    assert filled > 15
    again = split_corpus(papers(*[2] * 30), SplitOptions(seed=19), split)
    assert again.part[:6].tolist() == split.part.tolist()


def test_shares_that_are_far_from_those_asked_for_are_reported() -> None:
    corpus = papers(1000, *[1] * 100)
    notes = {seed: split_corpus(corpus, SplitOptions(seed=seed)).notes for seed in range(40)}
    large = [note for seed in notes for note in notes[seed] if note.startswith("test has 9")]
    assert large
    assert all("with a share of 10%: documents stay whole" in note for note in large)


def test_dates_stay_where_the_first_split_drew_them() -> None:
    corpus = dated(*(f"20{n}" for n in range(10, 20)))
    before = split_corpus(corpus, SplitOptions(method="time"))
    assert before.since == "2018,2019"
    grown = dated(*(f"20{n}" for n in range(10, 20)), "2020", "2021", "2018-05", "2011")
    split = split_corpus(grown, SplitOptions(method="time"), before)
    assert split.part[:10].tolist() == before.part.tolist()
    assert split.part[10:].tolist() == [2, 2, 1, 0]


def test_the_same_paper_twice_stays_on_one_side() -> None:
    words = [f"statement {n} of paper {d} with words a{n}{d} b{n}{d} c{n}{d}" for d in range(10) for n in range(4)]
    texts = words + words[:3] + ["something quite new that stands nowhere else in here"]  # d10: d0 with one change
    corpus = replace(papers(*[4] * 11), sketches=sketch(texts))
    for seed in range(20):
        split = split_corpus(corpus, SplitOptions(seed=seed, validation=0.2, test=0.3))
        assert split.part[0] == split.part[40]
        assert "documents kept together with another that holds half of their passages: 1" in split.notes


def test_a_passage_is_unseen_where_nothing_of_its_document_and_of_those_joined_with_it_is_trained_on() -> None:
    texts = [f"statement {n} says a{n} b{n} c{n} d{n}" for n in range(60)]
    texts[40::2] = texts[:40:4]  # d10 to d19: two statements each, one of which d0 to d9 have
    corpus = replace(papers(*[4] * 10, *[2] * 10), sketches=sketch(texts))
    alone = 0
    for seed in range(10):
        split = split_corpus(corpus, SplitOptions(method="stratified", seed=seed, test=0.4))
        for pair in range(10):
            first, second = slice(4 * pair, 4 * pair + 4), slice(40 + 2 * pair, 42 + 2 * pair)
            is_trained = [(split.part[rows] == 0).any() for rows in (first, second)]
            alone += is_trained == [True, False]
            unseen = {*split.unseen[first].tolist(), *split.unseen[second].tolist()}
            assert unseen == {not any(is_trained)}
    assert alone


def test_what_comes_into_a_document_that_was_trained_on_is_trained_on() -> None:
    options = SplitOptions(method="stratified", test=0.3)
    corpus = papers(*[10] * 10)
    before = split_corpus(corpus, options)
    trained = {name for name, part in zip(corpus.documents, before.part.tolist(), strict=True) if part == 0}
    grown = Outline(
        [*corpus.ids, *(f"d{n}#new" for n in range(10))],
        [*corpus.documents, *(f"d{n}" for n in range(10))],
        kinds=["lemma"] * 100 + ["chunk"] * 10,
    )
    split = split_corpus(grown, options, before)
    assert {f"d{n}" for n in range(10) if split.part[100 + n] == 0} == trained
    assert (before.part > 0).any()


def test_one_passage_in_two_documents_does_not_tie_them_but_is_not_trained_on() -> None:
    texts = [f"statement {n} says a{n} b{n} c{n} d{n}" for n in range(40)]
    texts[39] = texts[0].upper()  # d9 repeats one statement of d0
    corpus = replace(papers(*[4] * 10), sketches=sketch(texts))
    apart = 0
    for seed in range(20):
        split = split_corpus(corpus, SplitOptions(seed=seed, test=0.3))
        part = {d: {int(p) for p, e in zip(split.part, corpus.documents, strict=True) if e == d} for d in ("d0", "d9")}
        if max(part["d0"]) != max(part["d9"]):
            apart += 1
            assert (split.part[[0, 39]] == LEFT_OUT).sum() == 1
            assert (split.part == LEFT_OUT).sum() == 1
    assert apart


def test_too_few_documents_are_a_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"3.*1"):
        split_corpus(papers(100), SplitOptions())
    with pytest.raises(InputError):
        split_corpus(papers(), SplitOptions())
    with pytest.raises(ConfigError, match=r"validation = 0\.5 .*test = 0\.5"):
        split_corpus(papers(1, 2, 3), SplitOptions(validation=0.5, test=0.5))


def test_options_come_from_a_table() -> None:
    assert build(SplitOptions, {"method": "time", "test": 0.2}, "[split]") == SplitOptions(method="time", test=0.2)
    with pytest.raises(ConfigError, match=r"test = -0\.1"):
        build(SplitOptions, {"test": -0.1}, "[split]")
    with pytest.raises(ConfigError, match="'document'"):
        build(SplitOptions, {"method": "documents"}, "[split]")


# ---------------------------------------------------------------- by time


def dated(*dates: str | None) -> Outline:
    return Outline([f"p{n}" for n in range(len(dates))], [f"d{n}" for n in range(len(dates))], dates=dates)


def test_the_newest_are_held_out_and_the_undated_are_not() -> None:
    corpus = dated("2020", "2023-05", "2021", None, "2022", "2019", "2018", "2017", "2016", "2015")
    split = split_corpus(corpus, SplitOptions(method="time"))
    assert parts(split, corpus) | {"p1": "test", "p4": "validation", "p3": "train"} == parts(split, corpus)
    assert split.counts()["train"]["rows"] == 8
    assert split.notes == ("passages without a date, which are all in training: 1",)


def test_one_date_is_not_split() -> None:
    corpus = dated(*["2020"] * 5, *["2021"] * 3, *["2022"] * 4)
    split = split_corpus(corpus, SplitOptions(method="time", test=0.25, validation=0.25))
    assert split.part.tolist() == [0] * 5 + [1] * 3 + [2] * 4
    with pytest.raises(ConfigError, match="document"):
        split_corpus(dated("2020", "2020", "2020"), SplitOptions(method="time"))
    with pytest.raises(ConfigError, match=r"document.*stratified"):
        split_corpus(dated(None, None), SplitOptions(method="time"))


def test_dates_can_be_given_instead_of_shares() -> None:
    corpus = dated("2018", "2019-12-31", "2020-01-01", "2021-06", "2022", "2023")
    split = split_corpus(corpus, SplitOptions(method="time", since="2020, 2022"))
    assert split.part.tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(ConfigError, match="'2020'"):
        split_corpus(corpus, SplitOptions(method="time", since="2020"))


def test_a_paper_is_as_old_as_its_first_copy_while_logs_keep_their_dates() -> None:
    texts = [f"a text of its own with words a{n} b{n} c{n}" for n in range(6)]
    texts[5] = texts[0]
    corpus = replace(dated("2015", "2016", "2017", "2018", "2019", "2023"), sketches=sketch(texts))
    split = split_corpus(corpus, SplitOptions(method="time"))
    assert split.part.tolist() == [0, 0, 0, 1, 2, 0]
    logs = replace(dated("2015", "2016", "2017", "2018"), documents=["table"] * 4)
    assert split_corpus(logs, SplitOptions(method="time")).part.tolist() == [0, 0, 1, 2]


# ---------------------------------------------------------------- stratified


def test_the_stratified_split_holds_out_statements_of_seen_papers_and_whole_papers() -> None:
    corpus = papers(*[3] * 200, *[14] * 300, *[40] * 100)
    split = split_corpus(corpus, SplitOptions(method="stratified", validation=0.0, test=0.1, unseen=0.3))
    sizes = Counter(corpus.documents)
    held_out = [d for d, p in zip(corpus.documents, split.part, strict=True) if p == 2]
    assert all(sizes[d] >= 4 for d in held_out)
    assert 0.08 < len(held_out) / sum(size for size in sizes.values() if size >= 4) < 0.12
    whole = {d for d, lonely in zip(corpus.documents, split.unseen, strict=True) if lonely}
    assert 4 <= len(whole) <= 24  # 3 % of the 400 larger papers
    seen = Counter(d for d in held_out if d not in whole)
    assert len(seen) > 250  # of most larger papers some statements, of none all
    assert all(seen[d] < sizes[d] for d in seen)
    with pytest.raises(ConfigError, match="4"):
        split_corpus(papers(3, 3, 3), SplitOptions(method="stratified"))


def test_prose_is_held_out_only_with_its_whole_document() -> None:
    corpus = replace(papers(*[10] * 20), kinds=(["chunk"] * 5 + ["lemma"] * 5) * 20)
    split = split_corpus(corpus, SplitOptions(method="stratified", unseen=0.5))
    prose = np.array([kind == "chunk" for kind in corpus.kinds])
    assert (split.part[prose & ~split.unseen] == 0).all()
    assert (split.part[prose & split.unseen] > 0).all()
    assert (split.rows("test") & prose).any()
    assert (split.rows("test") & ~prose & ~split.unseen).any()


@pytest.mark.parametrize("reach", [2, 5])
def test_passages_that_share_lines_with_a_held_out_one_are_in_no_part(reach: int) -> None:
    corpus = papers(*[10] * 5)
    lines = np.array([[10 * n + 1, 10 * n + 9] for n in range(50)])
    lines[::10, 1] += reach  # the first of each paper reaches into the second
    split = split_corpus(replace(corpus, files=["f"] * 50, lines=lines), SplitOptions(method="stratified", test=0.4))
    assert (split.part == LEFT_OUT).any()
    for one in range(0, 50, 10):
        both = set(split.part[[one, one + 1]].tolist())
        assert not {0, 2} <= both
        assert not {0, 1} <= both


# ---------------------------------------------------------------- concepts


@pytest.mark.parametrize(
    "names",
    [
        "ring|Rings|the ring",
        "matrix|matrices",
        "basis|bases",
        "vertex|vertices",
        "complex|complexes",
        "category|categories",
        "Gröbner basis|Grobner bases",
        "q-series|$q$-series|q series",
        "Bailey's lemma|Bailey lemma|lemma of Bailey",
        "lemma|lemmata",
        "class|classes",
    ],
)
def test_names_that_mean_the_same_have_one_key(names: str) -> None:
    assert len({name_key(name) for name in names.split("|")}) == 1


def test_names_that_differ_have_different_keys() -> None:
    names = ["ring", "rig", "group", "class field", "field", "cyclic group", "H1", "H2", "the", "∮", "∯"]
    assert len({name_key(name) for name in names}) == len(names)


def test_concepts_with_one_name_stay_together() -> None:
    base = [Concept(f"concept:c{n}", f"notion {n}") for n in range(60)]
    tied = [
        Concept("concept:ring", "ring"),
        Concept("concept:rings", "Rings"),
        Concept("concept:anneau", "anneau", aliases=("ring",)),
        Concept("concept:noetherian", "Noetherian scheme"),
        Concept("concept:noetherien", "Noetherien scheme"),
        Concept("concept:a", "alpha"),
        Concept("concept:b", "beta"),
    ]
    merged = {"concept:old-alpha": "concept:a"}
    together = [
        {"concept:ring", "concept:rings", "concept:anneau"},
        {"concept:noetherian", "concept:noetherien"},
        {"concept:a", "concept:old-alpha"},
    ]
    kinds = set()
    for seed in range(30):
        part_of = split_concepts([*base, *tied], validation=0.2, test=0.3, seed=seed, merged=merged)
        for group in together:
            assert len({part_of.get(name, "train") for name in group}) == 1
        kinds.add((part_of.get("concept:a"), part_of.get("concept:b")))
        assert 6 <= sum(part == "test" for part in part_of.values()) <= 36  # of 68, on average 20
    assert any(one != other for one, other in kinds)


def test_the_order_of_concepts_does_not_matter() -> None:
    concepts = [Concept(f"concept:c{n}", f"notion {n}") for n in range(50)]
    one = split_concepts(concepts, validation=0.1, test=0.1)
    assert one == split_concepts(reversed(concepts), validation=0.1, test=0.1)


def test_in_a_split_by_concept_rows_go_with_what_they_define_or_with_their_most_special_concept() -> None:
    concepts = {f"concept:c{n}": Concept(f"concept:c{n}", f"notion {n}") for n in range(10)}
    concepts["concept:c1-special"] = Concept("concept:c1-special", "special notion 1")
    corpus = replace(
        papers(12),
        concepts=concepts,
        definitions=[(n, f"concept:c{n}") for n in range(10)],
        mentions=[(10, "concept:c0"), (10, "concept:c1-special"), (10, "concept:c2"), (9, "concept:c0")],
    )
    sides = set()
    for seed in range(20):
        split = split_corpus(corpus, SplitOptions(method="concept", concept_test=0.3, seed=seed))
        for n in range(10):
            assert PARTS[split.part[n]] == split.part_of(f"concept:c{n}")
        assert PARTS[split.part[10]] == split.part_of("concept:c1-special")
        sides.add(split.part[10])
        assert split.part[11] == 0
    assert len(sides) > 1
    with pytest.raises(ConfigError, match="lemmata graph build"):
        split_corpus(papers(3, 3), SplitOptions(method="concept"))


def test_a_row_that_defines_a_held_out_and_a_training_concept_is_held_out() -> None:
    concepts = {f"concept:c{n}": Concept(f"concept:c{n}", f"notion {n}") for n in range(20)}
    pairs = [(one, other) for one in range(20) for other in range(20) if one != other]
    definitions = [(row, f"concept:c{n}") for row, pair in enumerate(pairs) for n in pair]
    corpus = replace(papers(len(pairs)), concepts=concepts, definitions=definitions)
    split = split_corpus(corpus, SplitOptions(method="concept", concept_test=0.3, concept_validation=0.3))
    number = {name: PARTS.index(part) for name, part in split.concepts.items()}
    assert set(number.values()) == {0, 1, 2}
    for row, (one, other) in enumerate(pairs):
        assert split.part[row] == max(number[f"concept:c{one}"], number[f"concept:c{other}"])


# ---------------------------------------------------------------- near-duplicates


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_training_passage_that_is_close_to_a_held_out_one_is_in_no_part(part: str) -> None:
    words = [[f"a{n}", f"b{n}", f"c{n}", f"d{n}", *(f"e{m}f{n}" for m in range(20))] for n in range(80)]
    corpus = replace(papers(*[4] * 20), sketches=sketch(map(" ".join, words)))
    options = SplitOptions(validation=0.3, test=0.3)
    first = split_corpus(corpus, options)
    held_out, trained = (first.part.tolist().index(PARTS.index(name)) for name in (part, "train"))
    words[trained] = [*words[held_out][:-1], "other"]  # nearly the same
    split = split_corpus(replace(corpus, sketches=sketch(map(" ".join, words))), options)
    assert (PARTS[split.part[held_out]], split.part[trained]) == (part, LEFT_OUT)
    assert (split.part == LEFT_OUT).sum() == 1


def test_a_near_duplicate_is_found_where_a_pair_is() -> None:
    generator = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in generator.integers(0, 6, 12)) for _ in range(300)]
    one, other = sketch(texts[:200]), sketch(texts[100:])
    pairs = {int(a) for block in near_pairs(one, other, similarity=0.3) for a, _ in block}
    match = near_duplicate_of(one, other, similarity=0.3)
    assert set(np.flatnonzero(match >= 0).tolist()) == pairs
    assert set(range(100, 200)) <= pairs
    assert len(near_duplicate_of(sketch([]), other)) == 0
    assert near_duplicate_of(one, sketch([])).tolist() == [-1] * 200


# ---------------------------------------------------------------- on disk


def test_a_split_comes_back_as_it_was_and_not_for_another_corpus(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    with pytest.raises(WorkspaceError, match="'lemmata split'"):
        open_split(layout, "one")
    corpus = replace(papers(*[5] * 20), concepts={"concept:é": Concept("concept:é", "é"), "c": Concept("c", "x")})
    split = split_corpus(corpus, SplitOptions(concept_test=0.5, seed=9))
    for _ in range(2):
        write_split(layout, split, {"inputs": "one"})
        again = open_split(layout, "one")
        assert (again.part == split.part).all()
        assert (again.unseen == split.unseen).all()
        arrays = {name: getattr(split, name) for name in ("part", "unseen", "passages", "documents")}
        assert all((getattr(again, name) == value).all() for name, value in arrays.items())
        assert replace(again, **arrays) == split
        assert again.digest() == split.digest()
    assert [path.name for path in tmp_path.iterdir()] == ["split"]
    with pytest.raises(WorkspaceError, match="'lemmata split'"):
        open_split(layout, "another")


# ---------------------------------------------------------------- what miners see


@st.composite
def worlds(draw: st.DrawFn) -> tuple[MemoryCorpus, list[Edge], dict[str, Concept], Graph, Split]:
    """A corpus whose every text tells where it comes from, a graph and any split."""
    size, papers_, notions = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(0, 3))
    row, notion = st.integers(0, size - 1), st.integers(0, max(0, notions - 1))
    homes = sorted(draw(st.lists(st.integers(0, papers_ - 1), min_size=size, max_size=size)))
    ids = [f"d{home}d#p{n}p" for n, home in enumerate(homes)]
    documents = [f"d{n}d" for n in range(papers_)]
    targets = st.sampled_from([*ids, *documents])
    concepts = {}
    edges: list[Edge] = []
    for n in range(notions):
        definer = draw(row | st.none())
        description = "" if definer is None else f"as p{definer}p says"
        concepts[f"concept:c{n}c"] = Concept(
            f"concept:c{n}c", f"c{n}c", description=description, aliases=(f"alias c{n}c",)
        )
        if definer is not None:
            edges.append(Edge(ids[definer], draw(st.sampled_from(["defines", "mentions"])), f"concept:c{n}c"))
    names = st.sampled_from(["", *(f"c{n}c" for n in range(notions)), *(f"alias c{n}c" for n in range(notions))])
    passages = []
    for n, name in enumerate(ids):
        links = tuple(Link("cites", "label", draw(targets)) for _ in range(draw(st.integers(0, 2))))
        title, word = draw(names), draw(names)
        passages.append(
            Passage(
                name,
                name.split("#")[0],
                "lemma",
                f"text p{n}p",
                title or f"title p{n}p",
                section=draw(names),
                metadata={"words": [word]},
                links=links,
            )
        )
    about = [Document(d, draw(names) or f"title {d}", links=(Link("cites", "", draw(targets)),)) for d in documents]
    edges += link_edges(passages, about)
    if notions:
        for one, other in draw(st.lists(st.tuples(row, notion), min_size=2, max_size=8)):
            edges.append(Edge(ids[one], "mentions", f"concept:c{other}c", ids[one]))
        for one, other, evidence in draw(st.lists(st.tuples(notion, notion, row), min_size=1, max_size=4)):
            edges.append(Edge(f"concept:c{one}c", "uses", f"concept:c{other}c", ids[evidence]))
    kinds = dict.fromkeys(ids, "passage") | dict.fromkeys(documents, "paper") | dict.fromkeys(concepts, "concept")
    part = np.array(draw(st.lists(st.sampled_from([0, 0, 1, 2, -1]), min_size=size, max_size=size)), np.int8)
    held_out = {name: draw(st.sampled_from(("train", "train", *PARTS))) for name in concepts}
    return (
        MemoryCorpus(passages, about),
        edges,
        concepts,
        build_graph(edges, kinds),
        Split(part, np.zeros(size, bool), held_out),
    )


@given(worlds(), st.sampled_from(PARTS))
def test_nothing_in_a_material_comes_from_another_part(
    world: tuple[MemoryCorpus, list[Edge], dict[str, Concept], Graph, Split], part: str
) -> None:
    shelf, edges, concepts, graph, split = world
    seen = training_view(shelf, split, part, graph=graph, concepts=concepts, edges=edges)
    own = {n for n, inside in enumerate(split.rows(part)) if inside}
    foreign = {f"p{n}p" for n in range(len(shelf)) if n not in own}
    foreign |= {d.id for d in shelf.about} - {shelf.held[n].document for n in own}
    foreign |= {concept.name for concept in concepts.values() if split.part_of(concept.id) != part}

    arrows = list(edges_of(seen))
    everything = repr((list(seen.all_passages()), seen.documents, seen.row_of, seen.graph.nodes, arrows, seen.concepts))
    assert not [word for word in foreign if word in everything]
    assert [n for n, _ in seen.all_passages()] == sorted(own)
    for n in set(range(-1, len(shelf) + 1)) - own:
        with pytest.raises(LeakageError):
            seen.passages([n])
    said = {(e.source, e.relation, e.target): e.evidence for e in edges if e.evidence in seen.row_of or not e.evidence}
    cited = {
        (shelf.held[n].document, target)
        for n in own
        for link in shelf.held[n].links
        for target in (link.target, str(link.target).split("#")[0])
    }
    mixed = {p.document for n, p in enumerate(shelf.held) if n not in own}
    for source, relation, target in arrows:
        if source in concepts and target in concepts:
            assert (source, relation, target) in said
        if source in mixed and target not in seen.row_of:
            assert (source, target) in cited


def edges_of(seen: TrainingView) -> Iterator[tuple[str, str, str]]:
    for node, name in enumerate(seen.graph.nodes):
        for edge in range(seen.graph.indptr[node], seen.graph.indptr[node + 1]):
            yield name, seen.graph.relations[seen.graph.relation[edge]], seen.graph.nodes[seen.graph.indices[edge]]


def test_a_material_holds_everything_of_its_part() -> None:
    passages = [
        Passage("a#1", "a", "lemma", "one", "ring", links=(Link("refers_to", "2", "a#2"), Link("cites", "b", "b"))),
        Passage("a#2", "a", "lemma", "two"),
        Passage("b#1", "b", "lemma", "three"),
    ]
    documents = [Document("a", "paper a"), Document("b", "paper b"), Document("location:x", "mill", kind="location")]
    concepts = {
        name: Concept(name, name.removeprefix("concept:"), description="told")
        for name in ("concept:ring", "concept:group", "concept:field", "concept:unknown")
    }
    edges = [
        *link_edges(passages, documents),
        Edge("a#1", "defines", "concept:ring"),
        Edge("a#2", "mentions", "concept:group"),
        Edge("b#1", "mentions", "concept:group"),
        Edge("a#2", "mentions", "concept:field"),
        Edge("concept:ring", "uses", "concept:group"),
    ]
    graph = build_graph(edges, {"a": "paper", "b": "paper", "location:x": "location"})
    split = Split(np.array([0, 0, 2], np.int8), np.zeros(3, bool), {"concept:field": "test"})
    seen = training_view(MemoryCorpus(passages, documents), split, graph=graph, concepts=concepts)
    assert seen.passages([1, 0])[1].links == (Link("refers_to", "2", "a#2"), Link("cites", "b", None))
    assert seen.texts([0]) == ["ring. one"]
    assert list(seen.documents) == ["a", "location:x"]
    assert {name: concept.description for name, concept in seen.concepts.items()} == {
        "concept:group": "",  # a passage of the test part speaks of it as well
        "concept:ring": "told",
    }
    assert set(edges_of(seen)) == {
        ("a#1", "refers_to", "a#2"),
        ("a#1", "part_of", "a"),
        ("a#2", "part_of", "a"),
        ("a#1", "next", "a#2"),
        ("a#1", "defines", "concept:ring"),
        ("a#2", "mentions", "concept:group"),
        ("concept:ring", "uses", "concept:group"),
    }
    assert seen.node_rows[list(seen.graph.nodes).index("a#2")] == 1


def test_an_edge_between_concepts_stays_only_with_evidence_in_the_part() -> None:
    passages = [Passage(f"a#{n}", "a", "lemma", "text") for n in range(2)]
    names = ("concept:one", "concept:two", "concept:three")
    edges = [Edge("a#0", "mentions", name) for name in names]
    edges += [
        Edge("concept:one", "uses", "concept:two", evidence="a#1"),
        Edge("concept:two", "uses", "concept:three", evidence="a#0"),
        Edge("concept:three", "uses", "concept:one"),
    ]
    split = Split(np.array([0, 2], np.int8), np.zeros(2, bool))
    shelf, graph = MemoryCorpus(passages, [Document("a")]), build_graph(edges, {})
    concepts = {name: Concept(name, name) for name in names}
    seen = training_view(shelf, split, graph=graph, concepts=concepts, edges=edges)
    assert {source for source, relation, _ in edges_of(seen) if relation == "uses"} == {"concept:two", "concept:three"}


def test_a_title_that_names_a_held_out_concept_is_hidden() -> None:
    passages = [Passage("a#1", "a", "definition", "one", "Bailey pairs", section="bailey pair", metadata={"n": ["x"]})]
    concepts = {"concept:bailey-pair": Concept("concept:bailey-pair", "Bailey pair")}
    split = Split(np.zeros(1, np.int8), np.zeros(1, bool), {"concept:bailey-pair": "test"})
    corpus = MemoryCorpus(passages, [Document("a", "Bailey Pair", metadata={"name": "Bailey pair"})])
    seen = training_view(corpus, split, concepts=concepts)
    assert seen.texts([0]) == ["one"]
    assert seen.passages([0])[0].section == ""
    assert seen.documents["a"].title == ""
    assert seen.documents["a"].metadata == {"name": ""}


def test_an_alias_that_names_a_held_out_concept_is_hidden() -> None:
    passages = [Passage("a#1", "a", "lemma", "one")]
    concepts = {
        "concept:chain": Concept("concept:chain", "Bailey chain", aliases=("Bailey pairs", "chain of pairs")),
        "concept:bailey-pair": Concept("concept:bailey-pair", "Bailey pair"),
    }
    graph = build_graph([Edge("a#1", "mentions", name) for name in concepts], {})
    split = Split(np.zeros(1, np.int8), np.zeros(1, bool), {"concept:bailey-pair": "test"})
    seen = training_view(MemoryCorpus(passages, [Document("a")]), split, graph=graph, concepts=concepts)
    assert {name: concept.aliases for name, concept in seen.concepts.items()} == {"concept:chain": ("chain of pairs",)}


def test_a_query_may_not_name_a_concept_of_another_part() -> None:
    passages = [Passage("a#1", "a", "definition", "one")]
    concepts = {name: Concept(name, name.removeprefix("concept:"), aliases=(f"{name[8:]} thing",))
                for name in ("concept:Bailey pair", "concept:flat module")}  # fmt: skip
    split = Split(np.zeros(1, np.int8), np.zeros(1, bool), {"concept:Bailey pair": "validation"})
    seen = training_view(MemoryCorpus(passages), split, concepts=concepts)
    for query in ("Bailey pairs", "What is a Bailey pair?", "the Bailey pair thing", "definition of the bailey-pair"):
        assert not seen.may_query(query)
    for query in ("flat modules", "What is a flat module?", "how a Bailey pair gives partitions", "Bailey " * 40):
        assert seen.may_query(query)
    assert training_view(MemoryCorpus(passages), split).may_query("Bailey pair")


def test_a_split_of_another_corpus_gives_no_material() -> None:
    with pytest.raises(WorkspaceError, match="lemmata split"):
        training_view(MemoryCorpus([], []), Split(np.zeros(2, np.int8), np.zeros(2, bool)))


def test_a_corpus_on_disk_is_outlined_split_and_given_in_parts(tmp_path: Path) -> None:
    layout = Workspace(tmp_path)
    with CorpusWriter(layout) as writer, writer.transaction():
        for n in range(10):
            passages = [
                Passage(
                    f"d{n}#{k}", f"d{n}", "lemma", f"text {n} {k}", file=f"{n}.tex", first_line=k + 1, last_line=k + 1
                )
                for k in range(3)
            ]
            writer.replace(
                "r", f"u{n}", "", [Reading(documents=[Document(f"d{n}", date=f"20{10 + n}")], passages=passages)]
            )
        writer.number_rows()
    write_hashed_manifest(layout.corpus_folder, {"inputs": "x"})
    corpus = Corpus(layout)
    outlined = outline(corpus)
    assert outlined.ids[:4] == ["d0#0", "d0#1", "d0#2", "d1#0"]
    assert outlined.dates[3] == "2011"
    split = split_corpus(outlined, SplitOptions(method="time"))
    write_split(layout, split, {"inputs": corpus.digest})
    seen = training_view(corpus, open_split(layout, corpus.digest), "test")
    assert [passage.id for _, passage in seen.all_passages()] == ["d9#0", "d9#1", "d9#2"]
    assert list(seen.documents) == ["d9"]
    corpus.close()
