"""Link prediction in a plant: names in logs, locations, follow-ups, and the report."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.types import Document, Edge, Link, Passage
from lemmata.plant.entities import learn_entities, link_entities
from lemmata.plant.hierarchy import build_tree, closeness, contains
from lemmata.plant.link import expand
from lemmata.plant.memory import (
    all_association_scores,
    association_scores,
    count_associations,
    index_associations,
    index_neighbours,
    nearest,
)
from lemmata.plant.names import find_mentions, fold, index_names, similar_words, tokenise
from lemmata.plant.predict import known_edges, predict_links
from lemmata.plant.records import learn_records, link_records
from lemmata.plant.scorer import choose_threshold, cross_fit, fit, measure, restored


def location(code: str, title: str = "", parent: str = "") -> Document:
    links = (Link("part_of", parent, f"location:{parent}"),) if parent else ()
    return Document(id=f"location:{code}", title=title, kind="location", metadata={"location": code}, links=links)


def log(name: str, text: str, *places: str, date: str | None = None, related: str = "") -> Passage:
    links = [Link("reports_about", place, f"location:{place}") for place in places]
    links += [Link("related_to", related, related)] if related else []
    return Passage(id=name, document="logs", kind="log", text=text, date=date, links=tuple(links))


PLANT = [
    location("W1", "Werk"),
    location("W1-K201", "Kolonne K201", "W1"),
    location("W1-K201-P1", "Zulaufpumpe P201", "W1-K201"),
    location("W1-K201-P2", "Rücklaufpumpe P202", "W1-K201"),
    location("W1-K201-V1", "Heizdampfventil V201", "W1-K201"),
    location("W1-K202", "Kolonne K202", "W1"),
    location("W1-K202-P1", "Zulaufpumpe P203", "W1-K202"),
    location("W1-K202-P2", "Rücklaufpumpe P204", "W1-K202"),
    location("W1-C401", "compressor C401", "W1"),
    location("W1-C401-AC", "air conditioning", "W1-C401"),
    location("W1-C401-A", "oil pump P-101 A", "W1-C401"),
    location("W1-C401-B", "oil pump P-101 B", "W1-C401"),
]
TREE = build_tree(PLANT)


NAMES = index_names(TREE)
EXACT = ("code", "title")


def meant(text: str, *kinds: str) -> list[str]:
    """The code that each mention of these kinds means, if one option is the strongest."""
    codes = []
    for mention in find_mentions(NAMES, text, tokenise(text)):
        best = max(option.strength for option in mention.options.values())
        rows = [row for row, option in mention.options.items() if option.strength == best >= 0.5]
        if mention.kind in kinds and len(rows) == 1:
            codes.append(TREE.codes[rows[0]])
    return codes


# ---------------------------------------------------------------- the hierarchy


def test_each_flaw_of_a_hierarchy_is_one_sentence_and_the_tree_survives() -> None:
    flawed = [
        location("A", "plant"),
        location("B", "unit", "C"),
        location("C", "unit", "B"),
        location("D", "", "A"),
        location("E", "lost", "nowhere"),
        replace(
            location("F", "two parents"), links=(Link("part_of", "A", "location:A"), Link("part_of", "D", "location:D"))
        ),
    ]
    tree = build_tree(flawed)
    assert [flaw.cause for flaw in tree.flaws] == [
        "the location 'D' has no description, only its code is known",
        "the parent 'nowhere' of 'E' is unknown",
        "'F' has 2 parents; only 'location:A' is used",
        "'C' closes a cycle of parents: B -> C -> B",
    ]
    assert sorted(tree.codes) == ["A", "B", "C", "D", "E", "F"]
    assert tree.parent[tree.rows["location:B"]] == tree.rows["location:C"]
    assert tree.parent[tree.rows["location:C"]] == -1


def test_a_correct_hierarchy_has_no_flaws() -> None:
    assert TREE.flaws == []


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["", *"abcdefghx"])), max_size=12))
def test_any_table_of_parents_gives_a_tree(rows: list[tuple[str, str]]) -> None:
    tree = build_tree([location(name, "place", parent) for name, parent in rows])
    assert sorted(tree.codes) == sorted({name for name, _ in rows})
    for row, parent in enumerate(tree.parent):
        assert parent < row
        assert tree.depth[row] == (tree.depth[parent] + 1 if parent >= 0 else 0)
        climbed, node = [], row
        while node >= 0:
            climbed.append(node)
            node = tree.parent[node]
        assert [above for above in range(len(tree.ids)) if contains(tree, above, row)] == sorted(climbed)


def test_closeness_is_the_shared_part_of_the_paths_from_the_root() -> None:
    tree = build_tree([*PLANT, location("X", "other root")])

    def path(row: int) -> list[int]:
        return [*(path(int(tree.parent[row])) if tree.parent[row] >= 0 else []), row]

    pairs = np.array([(first, second) for first in range(len(tree.ids)) for second in range(len(tree.ids))])
    paths = [(path(first), path(second)) for first, second in pairs.tolist()]
    expected = [len(set(first) & set(second)) / max(len(first), len(second)) for first, second in paths]
    assert closeness(tree, pairs[:, 0], pairs[:, 1]).tolist() == expected
    pump, valve, other, root = (
        tree.rows[f"location:{code}"] for code in ("W1-K201-P1", "W1-K201-V1", "W1-K202-P1", "X")
    )
    by_hand = closeness(tree, np.array([pump] * 4), np.array([pump, valve, other, root]))
    assert by_hand == pytest.approx([1, 2 / 3, 1 / 3, 0])


# ---------------------------------------------------------------- names in a text


@pytest.mark.parametrize("text", ["P-101 A leaks", "p101a leaks", "check P 101-A", "P_101_A", "P101 a"])
def test_separators_and_case_do_not_matter_in_a_code(text: str) -> None:
    assert meant(text, *EXACT) == ["W1-C401-A"]


def test_a_code_is_not_found_inside_a_longer_one() -> None:
    assert meant("P101AB and P2010 and XP201 and P201X", *EXACT) == []
    assert meant("K201-P2 cavitates", *EXACT) == ["W1-K201-P2"]


def test_a_whole_id_and_a_title_are_names_too() -> None:
    assert meant("W1-K202-P1 steht", *EXACT) == ["W1-K202-P1"]
    assert meant("Heizdampfventil klemmt", *EXACT) == ["W1-K201-V1"]
    assert meant("Air Conditioning broken", *EXACT) == ["W1-C401-AC"]


@pytest.mark.parametrize(
    "text", ["Ruecklaufpumpe 204", "rücklaufpmupe 204", "Rücklaufp. 204", "Pumpe 204", "pmpe 204", "Pu. 204"]
)
def test_a_misspelt_or_abbreviated_word_goes_with_its_number(text: str) -> None:
    assert meant(text, *EXACT) == []
    assert meant(text, "number") == ["W1-K202-P2"]


def test_a_number_is_never_guessed() -> None:
    assert meant("P240 and Pumpe 240 run", *EXACT, "number", "initials") == []


def test_initials_stand_for_a_title() -> None:
    names = index_names(build_tree([location("X9", "air conditioning"), location("X8", "hot air")]))
    for text in ("A/C broken", "AC broken"):
        (mention,) = (mention for mention in find_mentions(names, text, tokenise(text)) if mention.kind == "initials")
        assert {names.tree.codes[row] for row in mention.options} == {"X9"}
    assert meant("A/C u/s", *EXACT) == meant("AC u/s", *EXACT) == ["W1-C401-AC"]


def test_abbreviations_are_similar_words() -> None:
    names = index_names(build_tree([location("A", "pump"), location("B", "valve"), location("C", "hydraulic")]))
    assert similar_words(names, "pmp")[0][0] == "pump"
    assert similar_words(names, "vlv")[0][0] == "valve"
    assert similar_words(names, "hyd")[0][0] == "hydraulic"
    assert similar_words(names, "valv")[0][1] > similar_words(names, "val")[0][1]
    assert similar_words(names, "bucket") == []


def test_umlauts_fold_to_their_letters() -> None:
    assert fold("Rücklauf") == fold("Ruecklauf") == fold("Ru\u0308cklauf") == "ruecklauf"


@given(st.text(alphabet="PKV12034-_/. aAüß³\u0308\n", max_size=40))
def test_every_mention_lies_in_its_text(text: str) -> None:
    for mention in find_mentions(NAMES, text, tokenise(text)):
        for row, option in mention.options.items():
            assert 0 <= row < len(TREE.ids)
            assert 0 <= option.start < option.end <= len(text)
            assert 0 <= option.strength <= 1


def test_words_of_a_title_that_are_far_apart_are_not_one_long_mention() -> None:
    text = "grease leaks again, pump runs, grease lube syst ok"
    (mention,) = find_mentions(index_names(build_tree([location("A", "grease lube system")])), text, tokenise(text))
    (option,) = mention.options.values()
    assert text[option.start : option.end] == "lube syst"


# ---------------------------------------------------------------- learning


def test_locations_without_names_and_logs_without_letters_do_no_harm() -> None:
    tree = build_tree([location(""), location("-"), location("7"), location("P1", "")])
    logs = [log("a", "", "P1"), log("b", "---", "7"), log("c", "P1 7 -"), log("d", "12", "unheard of")]
    linker = learn_entities(logs, tree, np.random.default_rng(0))
    assert all(link.edge.source in "abcd" for link in link_entities(linker, logs))


def shift_book(count: int, rng: np.random.Generator) -> tuple[list[Passage], dict[str, str]]:
    """Logs of four pumps, partly in a jargon that no title has, and their locations; a third has no known link."""
    tree_pumps = [place for place in PLANT if "pumpe" in place.title]
    phrases = ["{} rattert", "Saugdruck {} niedrig", "Dichtung {} tropft", "heute {} geschmiert", "{} im Wechsel"]
    logs, truth = [], {}
    for number in range(count):
        place = tree_pumps[int(rng.integers(len(tree_pumps)))]
        code = place.title.split()[1]
        called = [code, f"quirl {code[1:]}", f"Pumpe {code[1:]}"][int(rng.integers(3))]
        text = phrases[int(rng.integers(len(phrases)))].format(called)
        truth[f"L{number}"] = place.id
        logs.append(log(f"L{number}", text, *([] if number % 3 == 0 else [place.id.removeprefix("location:")])))
    return logs, truth


def test_jargon_that_no_title_has_is_learned() -> None:
    logs, truth = shift_book(150, np.random.default_rng(1))
    linker = learn_entities(logs, TREE, np.random.default_rng(0))
    gold = {(name, place) for name, place in truth.items() if int(name[1:]) % 3 == 0}
    by_name = {(entry.id, f"location:{code}") for entry in logs for code in meant(entry.text, *EXACT)}
    learned = {(link.edge.source, link.edge.target) for link in link_entities(linker, logs)}
    assert measure(by_name & gold, gold).recall < measure(learned, gold).recall
    assert measure(learned, gold).f1 > 0.95


def test_a_predicted_link_has_a_maker_and_the_part_of_the_text_that_names_the_location() -> None:
    logs, _ = shift_book(150, np.random.default_rng(1))
    linker = learn_entities(logs, TREE, np.random.default_rng(0))
    new = log("new", "laut: P204 tropft")
    (link,) = link_entities(linker, [new])
    assert link.edge[:5] == ("new", "reports_about", "location:W1-K202-P2", "new", "predict:entity")
    assert linker.threshold <= link.edge.weight <= 1
    assert new.text[link.start : link.end] == "P204"


def test_a_known_location_is_not_predicted_nor_one_above_it() -> None:
    logs, _ = shift_book(150, np.random.default_rng(1))
    known = log("known", "P201 an K201 tropft", "W1-K201-P1")
    new = log("new", "P201 an K201 tropft")
    linker = learn_entities([*logs, known, new], TREE, np.random.default_rng(0))
    assert [link.edge.target for link in link_entities(linker, [known])] == []
    assert [link.edge.target for link in link_entities(linker, [new])] == ["location:W1-K201-P1"]


def test_the_known_unit_decides_between_equal_codes() -> None:
    logs, _ = shift_book(150, np.random.default_rng(1))
    units = ["W1-K201", "W1-K202"]
    taught = [log(f"T{n}", "P1 rattert", units[n % 2], f"{units[n % 2]}-P1") for n in range(40)]
    in_unit = [log(f"in {unit}", "P1 rattert", unit) for unit in units]
    linker = learn_entities([*logs, *taught, *in_unit], TREE, np.random.default_rng(0))
    targets = [link.edge.target for link in link_entities(linker, in_unit)]
    assert targets == ["location:W1-K201-P1", "location:W1-K202-P1"]


def test_the_same_seed_gives_the_same_links() -> None:
    logs, _ = shift_book(60, np.random.default_rng(1))
    first, second = (list(link_entities(learn_entities(logs, TREE, np.random.default_rng(5)), logs)) for _ in range(2))
    assert first == second


words_and_classes = st.lists(
    st.tuples(st.frozensets(st.sampled_from("abcde")), st.frozensets(st.sampled_from("XYZ"))), min_size=1, max_size=8
)


@given(words_and_classes)
def test_a_log_left_out_scores_as_if_it_was_never_counted(known: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    words, classes = known[0]
    with_it = association_scores(count_associations(known), words, "XYZ", counted=True, members=classes)
    without = association_scores(count_associations(known[1:]), words, "XYZ", counted=False, members=())
    assert with_it == pytest.approx(without)


@given(words_and_classes, st.frozensets(st.sampled_from("abcdef"), min_size=1), st.booleans())
def test_all_classes_at_once_have_the_scores_of_one_by_one(
    known: list[tuple[frozenset[str], frozenset[str]]], words: frozenset[str], counted: bool
) -> None:
    members = known[0][1] if counted else frozenset()
    words = known[0][0] if counted else words
    counts = count_associations(known)
    index = index_associations(counts, "XYZ")
    scores = all_association_scores(index, words, counted=counted, members=members)
    one_by_one = association_scores(counts, words, "XYZ", counted=counted, members=members)
    assert {name: scores[index.columns[name]] for name in "XYZ"} == pytest.approx(one_by_one)


@given(st.lists(st.frozensets(st.sampled_from("abcdefgh"), min_size=1), min_size=1, max_size=30), st.integers(1, 12))
def test_the_nearest_logs_are_those_of_a_full_sort(texts: list[frozenset[str]], count: int) -> None:
    index = index_neighbours(texts)
    everything = nearest(index, texts[0], 0, len(texts))
    assert nearest(index, texts[0], 0, count) == everything[:count]
    assert everything == sorted(everything, key=lambda pair: (-pair[1], pair[0]))
    assert {row for row, _ in everything} == {row for row, words in enumerate(texts) if row and words & texts[0]}


def test_the_nearest_log_is_another_one() -> None:
    index = index_neighbours([{"pump", "leaks"}, {"pump", "leaks"}, {"valve"}])
    ((row, cosine),) = nearest(index, {"pump", "leaks"}, leave_out=0)
    assert row == 1
    assert cosine == pytest.approx(1.0)
    assert nearest(index, {"unheard"}, leave_out=-1) == []
    assert nearest(index_neighbours([]), {"pump"}, leave_out=-1) == []


# ---------------------------------------------------------------- the scorer and the measures


@pytest.mark.slow
def test_the_scorer_agrees_with_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, 1]
    labels = features[:, 0] + features[:, 1] / 10 + rng.normal(size=300) > 1
    probabilities = fit(features, labels).probabilities(features)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    oracle = linear_model.LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(scaled, labels)
    assert probabilities == pytest.approx(oracle.predict_proba(scaled)[:, 1], abs=1e-4)


def test_the_scorer_handles_equal_labels_and_separable_ones() -> None:
    features = np.arange(10.0)[:, None]
    assert fit(features, np.zeros(10, bool)).probabilities(features) == pytest.approx(0.5 / 11)
    assert fit(np.zeros((0, 1)), np.zeros(0, bool)).probabilities(features) == pytest.approx(0.5)
    sure = fit(features, features[:, 0] > 4).probabilities(features)
    assert (np.diff(sure) > 0).all()
    assert sure[0] < 0.1 < 0.9 < sure[-1]


def test_cross_fitting_scores_each_group_by_others() -> None:
    groups = [(np.array([[0.0], [1.0]]), np.array([0, 1], np.int8)) for _ in range(20)]
    odd = (np.array([[0.0], [1.0]]), np.array([1, -1], np.int8))
    _, chances = cross_fit([*groups, odd], 1, np.random.default_rng(0), folds=21)
    assert chances[-1][0] < 0.2
    assert cross_fit([], 1, np.random.default_rng(0))[1] == []


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]), st.booleans()), max_size=12), st.integers(0, 3))
def test_no_other_threshold_has_a_better_f1(scored: list[tuple[float, bool]], missed: int) -> None:
    true_links = sum(right for _, right in scored) + missed

    def f1(threshold: float) -> float:
        accepted = [right for probability, right in scored if probability >= threshold]
        return 2 * sum(accepted) / max(len(accepted) + true_links, 1)

    chosen = choose_threshold([probability for probability, _ in scored], [right for _, right in scored], true_links)
    assert f1(chosen) == pytest.approx(max(map(f1, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))))


def test_unlabelled_candidates_weigh_less_if_known_links_are_incomplete() -> None:
    chances, right = [0.9, 0.8, 0.7, 0.6, 0.5, 0.1], [True, False, True, True, True, False]
    assert choose_threshold(chances, right, 4, complete=False) == pytest.approx(0.3)
    assert choose_threshold(chances, [False] * 6, 4, complete=False) == 1.0


def test_measures_are_those_counted_by_hand() -> None:
    measures = measure({("a", 1), ("b", 2), ("c", 3)}, {("a", 1), ("b", 9)})
    assert tuple(measures) == pytest.approx((3, 2, 1, 1 / 3, 0.5, 0.4))
    assert measure(set(), set()) == (0, 0, 0, 0.0, 0.0, 0.0)


def test_restored_nodes_are_those_that_had_no_edge() -> None:
    known = [Edge("a", "reports_about", "P1"), Edge("P1", "part_of", "K")]
    new = [Edge("a", "reports_about", "P1"), Edge("b", "reports_about", "P1"), Edge("a", "related_to", "c")]
    assert restored(new, known) == (2, 2)
    assert restored([], known) == (0, 0)


# ---------------------------------------------------------------- follow-ups


def day(number: float) -> str:
    return (datetime.datetime(2024, 1, 1) + datetime.timedelta(days=number)).isoformat()


def incidents(count: int, withheld: Sequence[int] = ()) -> tuple[list[Passage], dict[str, list[str]]]:
    """Each incident is a fault and a day later its repair at the same place; incidents overlap."""
    rng = np.random.default_rng(2)
    logs, places = [], {}
    for number in range(count):
        place = PLANT[2 + number % 6]
        fault, repair = f"F{number:03}", f"R{number:03}"
        text = ["tropft stark", "läuft heiß", "rattert"][int(rng.integers(3))]
        logs.append(log(fault, f"{place.title} {text}", date=day(number)))
        related = "" if number in withheld else fault
        logs.append(log(repair, f"wieder repariert, {place.title} läuft", date=day(number + 1.5), related=related))
        places[fault] = places[repair] = [place.id]
    return logs, places


def test_withheld_follow_ups_are_predicted() -> None:
    withheld = range(0, 60, 5)
    logs, places = incidents(60, withheld)
    linker = learn_records(logs, TREE, places, np.random.default_rng(0))
    edges = list(link_records(linker))
    gold = {(f"R{n:03}", "related_to", f"F{n:03}") for n in withheld}
    assert measure({edge[:3] for edge in edges}, gold).f1 > 0.9
    assert {edge.maker for edge in edges} == {"predict:record"}
    assert all(edge.evidence == edge.source and 0 < edge.weight <= 1 for edge in edges)


def test_a_log_with_a_known_follow_up_link_gets_no_other() -> None:
    logs, places = incidents(40)
    linker = learn_records(logs, TREE, places, np.random.default_rng(0))
    assert not [edge for edge in link_records(linker) if edge.source.startswith("R")]


def test_logs_without_dates_and_odd_links_do_no_harm() -> None:
    logs, places = incidents(20, [3])
    odd = [
        log("undated", "tropft", related="F001"),
        log("unclear", "tropft", date="last week"),
        log("self", "tropft", date=day(1), related="self"),
        log("lost", "tropft", date=day(2), related="nobody"),
        log("zoned", "tropft", date="2024-01-05T10:00:00+02:00"),
    ]
    linker = learn_records([*logs, *odd], TREE, places, np.random.default_rng(0))
    linked_logs = {edge.source for edge in link_records(linker)}
    assert not linked_logs & {"undated", "unclear"}
    assert list(link_records(learn_records([], TREE, {}, np.random.default_rng(0)))) == []


def test_an_id_in_the_text_proposes_a_log_however_old() -> None:
    logs, places = incidents(60)
    old = log("SB-240005", "K201 undicht", date=day(-900))
    late = log("late", "see SB 240005: flange changed", date=day(100))
    linker = learn_records([*logs, old, late], TREE, places, np.random.default_rng(0))
    assert linker.named[list(linker.ids).index("late")] == (list(linker.ids).index("SB-240005"),)


# ---------------------------------------------------------------- all together


def test_a_prediction_reports_what_it_restores() -> None:
    logs, _ = shift_book(90, np.random.default_rng(3))
    dated = [replace(entry, date=day(number / 3)) for number, entry in enumerate(logs)]
    prediction = predict_links(dated, [*PLANT, location("X", "lost", "nowhere")], np.random.default_rng(0))
    assert prediction.restored["reports_about"].edges == len(prediction.entities) > 20
    assert prediction.restored["reports_about"].nodes == len({link.edge.source for link in prediction.entities})
    assert [flaw.cause for flaw in prediction.flaws] == ["the parent 'nowhere' of 'X' is unknown"]
    assert len(known_edges(dated, PLANT)) == 60 + 11


# ---------------------------------------------------------------- context expansion


TITLES = {place.id: place.title for place in PLANT}


def test_each_location_is_described_once_after_its_first_mention() -> None:
    text = "P201 tropft, P201 steht, K201 läuft"
    spans = [
        (13, 17, "location:W1-K201-P1"),
        (0, 4, "location:W1-K201-P1"),
        (25, 29, "location:W1-K201"),
    ]
    expanded = "P201 (Zulaufpumpe P201) tropft, P201 steht, K201 (Kolonne K201) läuft"
    assert expand(text, spans, TITLES) == expanded


def test_no_description_is_added_twice_or_empty_or_inside_a_code() -> None:
    assert expand("Zulaufpumpe P201", [(0, 16, "location:W1-K201-P1")], TITLES) == "Zulaufpumpe P201"
    assert expand("P201", [(0, 4, "x")], {"x": " "}) == "P201"
    assert expand("P201", [(0, 0, "x")], {"x": "pump"}) == "P201 (pump)"
    assert expand("P201 hot", [(0, 4, "x")], {"x": "pump", "y": "tank", "z": "hot"}, "xyz") == "P201 (pump) hot (tank)"
    spans = [(0, 7, "location:W1-K201-P1"), (0, 4, "location:W1-K201")]
    assert expand("K201-P1 heiß", spans, TITLES) == "K201-P1 (Zulaufpumpe P201) heiß"


@given(
    st.text(alphabet="ab ", max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.sampled_from("XYZ")), max_size=5),
)
def test_an_expanded_text_without_its_brackets_is_the_text(text: str, cuts: list[tuple[int, int, str]]) -> None:
    spans = [cut for cut in cuts if cut[0] <= cut[1] <= len(text)]
    expanded = expand(text, spans, {name: name for name in "XYZ"})
    for name in "XYZ":
        assert expanded.count(f" ({name})") <= 1
        expanded = expanded.replace(f" ({name})", "")
    assert expanded == text


# ---------------------------------------------------------------- the split


def dated(number: int) -> str:
    return (datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=number)).isoformat()


def shift_logs(count: int = 120) -> list[Passage]:
    """Logs about four pumps in turn, every third of which follows up the one before it at the same pump."""
    pumps = ("W1-K201-P1", "W1-K201-P2", "W1-K202-P1", "W1-K202-P2")
    names = ("Zulaufpumpe P201", "Rücklaufpumpe P202", "Zulaufpumpe P203", "Rücklaufpumpe P204")
    faults = ("kavitiert", "undicht", "laut und heiß")
    written = []
    for number in range(count):
        again = number >= 4 and number % 3 == 0
        text = f"{names[number % 4]} {'erneut ' * again}{faults[number % 3]} Wert {number}"
        related = f"L{number - 4}" if again else ""
        written.append(log(f"L{number}", text, pumps[number % 4], date=dated(number), related=related))
    return written


def predicted_for(logs: Sequence[Passage], held_out: frozenset[str], relation: str) -> list[Edge]:
    """The predictions for training logs that lack a link."""
    prediction = predict_links(logs, PLANT, np.random.default_rng(0), held_out=held_out)
    edges = [*(link.edge for link in prediction.entities), *prediction.records]
    return [edge for edge in edges if edge.relation == relation and edge.source not in held_out]


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["reports_about", "related_to"])
def test_links_of_held_out_logs_teach_nothing(relation: str) -> None:
    logs = shift_logs()
    held_out = frozenset(f"L{number}" for number in range(80, 120))
    lacking = list(logs)
    for number in (12, 24, 36):  # of training
        others = tuple(link for link in logs[number].links if link.relation != relation)
        lacking[number] = replace(logs[number], links=others)
    wrong = {"reports_about": "location:W1-C401", "related_to": "L1"}[relation]
    confused = list(lacking)
    for number in range(80, 120):
        links = (link._replace(target=wrong) if link.relation == relation else link for link in logs[number].links)
        confused[number] = replace(logs[number], links=tuple(links))
    honest = predicted_for(lacking, held_out, relation)
    assert honest
    assert predicted_for(confused, held_out, relation) == honest
    assert predicted_for(confused, frozenset(), relation) != honest  # where nothing is held out, they do teach


def test_known_links_of_held_out_logs_measure_the_prediction_and_are_not_predicted_again() -> None:
    logs = shift_logs()
    held_out = frozenset(f"L{number}" for number in range(80, 120))
    prediction = predict_links(logs, PLANT, np.random.default_rng(0), held_out=held_out)
    places, follow_ups = prediction.held_out["reports_about"], prediction.held_out["related_to"]
    assert (places.wanted, follow_ups.wanted) == (40, sum(len(one.links) - 1 for one in logs if one.id in held_out))
    assert places.recall > 0.8
    known = {edge[:3] for edge in known_edges(logs, PLANT)}
    assert not known & {edge[:3] for edge in (*(link.edge for link in prediction.entities), *prediction.records)}
    assert predict_links(logs, PLANT, np.random.default_rng(0)).held_out == {}
