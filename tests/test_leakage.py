from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lemmata.corpus.leakage import (
    Audit,
    Example,
    audit,
    examples,
    near_duplicate_of,
    near_duplicates,
    near_pairs,
    sketch,
)

WORDS = "the pump of column two leaks since this morning and was closed by the late shift after a short test".split()
TEXT = {
    "p1": " ".join(WORDS),
    "p2": " ".join(WORDS[:-1]) + " trial",
    "p3": "an ideal contained in a union of primes lies in one of them whatever the ring may be",
    "p4": "partitions into odd parts are as many as partitions into distinct parts for every number",
}


def run(train: list[Example], test: list[Example], **more: object) -> Audit:
    return audit(train, test, text=TEXT.__getitem__, **more)  # type: ignore[arg-type]


def test_near_duplicates_are_offences_and_neighbours_only_if_given() -> None:
    train, test = [Example("t", "one", ("p3",))], [Example("q", "two", ("p4",))]
    assert run(train, test).clean
    assert "no leakage found" in run(train, test).sentence()
    result = run(train, test, neighbours=lambda _: ["p1", "p3"])
    assert [(o.kind, o.what, o.train) for o in result.offences] == [("neighbour", "p4", "t")]
    result = run([Example("t", "one", ("p1",))], [Example("q", "two", ("p2",))])
    assert [(o.kind, o.what) for o in result.offences] == [("near_passage", "p2")]


def test_the_same_anchor_and_passage_are_found_whatever_the_case() -> None:
    result = run([Example("t", "Prime Avoidance!", ("p3",))], [Example("q", "prime avoidance !", ("p3",))])
    assert {(o.kind, o.test, o.train) for o in result.offences} == {
        ("same_anchor", "q", "t"),
        ("same_passage", "q", "t"),
    }
    assert "1 same anchor" in result.sentence()


def test_near_duplicate_anchors_are_reported_once_and_equal_ones_only_as_equal() -> None:
    train = [Example("t", " ".join(WORDS), ("p3",))]
    result = run(train, [Example("q", TEXT["p2"], ("p4",)), Example("r", " ".join(WORDS).upper(), ("p4",))])
    assert [(o.kind, o.test) for o in result.offences] == [("same_anchor", "r"), ("near_anchor", "q")]


def test_only_passages_that_answer_a_query_belong_to_its_example() -> None:
    assert examples({"q": "text"}, {"q": {"a": 1, "b": 0}, "r": {"c": 2, "d": -1}}) == [
        Example("q", "text", ("a",)),
        Example("r", "", ("c",)),
    ]


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12).map(" ".join), max_size=6), st.data())
def test_equal_texts_are_always_found_and_found_pairs_are_close(texts: list[str], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.sampled_from(texts or ["x"]), max_size=4))
    pairs = set(near_duplicates(texts, others))
    for n, other in enumerate(others):
        for m, text in enumerate(texts):
            if other == text:
                assert (n, m) in pairs
    for n, m in pairs:
        assert _jaccard(others[n], texts[m]) >= 0.69


def _jaccard(a: str, b: str) -> float:
    def runs(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[n : n + 4]) for n in range(max(1, len(words) - 3))}

    return len(runs(a) & runs(b)) / len(runs(a) | runs(b))


def test_long_near_duplicates_are_rarely_missed() -> None:
    texts = [" ".join(f"w{(7 * n + k) % 501}" for k in range(200)) for n in range(60)]
    changed = [" ".join("other" if k == 100 else word for k, word in enumerate(text.split())) for text in texts]
    found = near_duplicates(texts, changed)
    assert {(n, n) for n in range(60)} <= set(found)


def test_a_near_duplicate_behind_many_candidates_is_found() -> None:
    words = [f"w{n}" for n in range(400)]
    variants = [" ".join([*words[: 6 * n], f"x{n}", *words[6 * n + 1 :]]) for n in range(60)]
    others = sketch([*variants, " ".join(words)])
    # each variant shares most band keys with the text, but is not similar enough
    assert near_duplicate_of(sketch([" ".join(words)]), others, similarity=0.995).tolist() == [60]
    assert near_duplicate_of(sketch([" ".join(words)]), sketch(variants), similarity=0.995).tolist() == [-1]


def test_texts_are_compared_by_runs_of_four_words() -> None:
    words = [f"w{n}" for n in range(40)]
    for changed in range(0, 40, 3):
        other = " ".join([*words[:changed], "other", *words[changed + 1 :]])
        exact = _jaccard(" ".join(words), other)
        for similarity, similar in ((exact - 0.01, 1), (exact + 0.01, 0)):
            pairs = near_pairs(sketch([" ".join(words)]), sketch([other]), similarity=similarity)
            assert sum(len(block) for block in pairs) == similar
