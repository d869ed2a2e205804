"""Link prediction in a plant: names in logs, places, follow-ups, and the report."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.errors import InputError
from lemmata.plant.entities import Step, learn_entities, link_entities
from lemmata.plant.expand import Span, expand
from lemmata.plant.hierarchy import (
    build_tree,
    check_hierarchy,
    closeness,
    contains,
    lowest_common,
    many_closeness,
    shape_of,
)
from lemmata.plant.memory import all_associations, associate, associations, index_neighbours, nearest, turn
from lemmata.plant.names import find_mentions, fold, index_names, similar_words, tokenise
from lemmata.plant.predict import known_edges, predict_links
from lemmata.plant.records import learn_records, link_records
from lemmata.plant.scorer import choose_threshold, cross_fit, fit, measure, restored, split
from lemmata.types import Document, Edge, Link, Passage


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


def linked(text: str, step: Step, *known: str) -> list[str]:
    """What a rule makes of one log, without anything to learn from."""
    logs = [log("L1", text, *known)]
    linker = learn_entities(logs, TREE, np.random.default_rng(0))
    return [found.edge.target.removeprefix("location:") for found in link_entities(linker, logs, step)]


# ---------------------------------------------------------------- the hierarchy


def test_each_flaw_of_a_hierarchy_is_one_sentence_and_the_tree_survives() -> None:
    flawed = [
        location("A", "plant"),
        location("B", "unit", "C"),
        location("C", "unit", "B"),
        location("D", "", "A"),
        location("D", "again", "A"),
        location("E", "lost", "nowhere"),
        replace(
            location("F", "two parents"), links=(Link("part_of", "A", "location:A"), Link("part_of", "D", "location:D"))
        ),
    ]
    causes = [skip.cause for skip in check_hierarchy(flawed)]
    assert causes == [
        "the location 'D' has no description, only its code is known",
        "the location 'D' was there before; the first one stays",
        "the parent 'nowhere' of 'E' is not known",
        "'F' has 2 parents; only 'location:A' is used",
        "'C' closes a cycle of parents: B -> C -> B",
    ]
    tree = build_tree(flawed)
    assert sorted(tree.codes) == ["A", "B", "C", "D", "E", "F"]
    assert tree.parent[tree.rows["location:B"]] == tree.rows["location:C"]
    assert tree.parent[tree.rows["location:C"]] == -1


def test_a_sound_hierarchy_has_no_flaws() -> None:
    assert check_hierarchy(PLANT) == []


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


def test_closeness_of_many_pairs_is_that_of_each() -> None:
    tree = build_tree([*PLANT, location("X", "other root")])
    pairs = np.array([(one, two) for one in range(len(tree.ids)) for two in range(len(tree.ids))])
    one_by_one = [closeness(tree, one, two) for one, two in pairs.tolist()]
    assert many_closeness(shape_of(tree), pairs[:, 0], pairs[:, 1]).tolist() == one_by_one


def test_closeness_is_the_shared_part_of_the_way_from_the_root() -> None:
    pump, valve, other = (TREE.rows[f"location:W1-{code}"] for code in ("K201-P1", "K201-V1", "K202-P1"))
    assert TREE.codes[lowest_common(TREE, pump, valve)] == "W1-K201"
    assert closeness(TREE, pump, pump) == 1.0
    assert closeness(TREE, pump, valve) == pytest.approx(2 / 3)
    assert closeness(TREE, pump, other) == pytest.approx(1 / 3)
    apart = build_tree([location("A"), location("B")])
    assert closeness(apart, 0, 1) == 0.0


# ---------------------------------------------------------------- names in a text


@pytest.mark.parametrize("text", ["P-101 A leaks", "p101a leaks", "check P 101-A", "P_101_A", "P101 a"])
def test_separators_and_case_do_not_matter_in_a_code(text: str) -> None:
    assert linked(text, "exact") == ["W1-C401-A"]


def test_a_code_is_not_found_inside_a_longer_one() -> None:
    assert linked("P101AB and P2010 and XP201 and P201X", "exact") == []
    assert linked("K201-P2 cavitates", "exact") == ["W1-K201-P2"]


def test_a_whole_id_and_a_title_are_names_too() -> None:
    assert linked("W1-K202-P1 steht", "exact") == ["W1-K202-P1"]
    assert linked("Heizdampfventil klemmt", "exact") == ["W1-K201-V1"]
    assert linked("Air Conditioning broken", "exact") == ["W1-C401-AC"]


@pytest.mark.parametrize(
    "text", ["Ruecklaufpumpe 204", "rücklaufpmupe 204", "Rücklaufp. 204", "Pumpe 204", "pmpe 204", "Pu. 204"]
)
def test_a_word_with_slips_or_shortened_goes_with_its_number(text: str) -> None:
    assert linked(text, "exact") == []
    assert linked(text, "fuzzy") == ["W1-K202-P2"]


def test_a_number_is_never_guessed() -> None:
    assert linked("P240 and Pumpe 240 run", "fuzzy") == []


def test_initials_stand_for_a_title() -> None:
    assert linked("A/C u/s", "fuzzy") == ["W1-C401-AC"]
    assert linked("AC u/s", "fuzzy") == ["W1-C401-AC"]


def test_short_forms_are_similar_words() -> None:
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
    for mention in find_mentions(index_names(TREE), text, tokenise(text)):
        for row, option in mention.options.items():
            assert 0 <= row < len(TREE.ids)
            assert 0 <= option.start < option.end <= len(text)
            assert 0 <= option.strength <= 1


def test_words_of_a_title_that_stand_apart_are_no_long_mention() -> None:
    text = "grease leaks again, pump runs, grease lube syst ok"
    (mention,) = find_mentions(index_names(build_tree([location("A", "grease lube system")])), text, tokenise(text))
    (option,) = mention.options.values()
    assert text[option.start : option.end] == "lube syst"


# ---------------------------------------------------------------- the hierarchy decides


def test_the_known_unit_decides_between_equal_codes() -> None:
    assert linked("P1 läuft heiß", "fuzzy") == []
    assert linked("P1 läuft heiß", "hierarchy") == []
    assert linked("P1 läuft heiß", "hierarchy", "W1-K202") == ["W1-K202-P1"]


def test_another_mention_decides_between_equal_codes() -> None:
    assert linked("P1 an K201 läuft heiß", "hierarchy") == ["W1-K201-P1"]
    assert linked("Zulaufpumpe K202 läuft heiß", "hierarchy") == ["W1-K202-P1"]


def test_what_is_known_is_not_predicted_nor_what_lies_above_it() -> None:
    assert linked("P201 an K201", "hierarchy", "W1-K201-P1") == []


def test_an_unknown_step_is_an_error() -> None:
    linker = learn_entities([], TREE, np.random.default_rng(0))
    with pytest.raises(InputError, match="no step 'magic'"):
        list(link_entities(linker, [], "magic"))  # type: ignore[arg-type]


def test_locations_without_names_and_logs_without_letters_do_no_harm() -> None:
    tree = build_tree([location(""), location("-"), location("7"), location("P1", "")])
    logs = [log("a", "", "P1"), log("b", "---", "7"), log("c", "P1 7 -"), log("d", "12", "unheard of")]
    linker = learn_entities(logs, tree, np.random.default_rng(0))
    for step in ("exact", "fuzzy", "hierarchy", "learned"):
        assert all(found.edge.source in "abcd" for found in link_entities(linker, logs, step))


# ---------------------------------------------------------------- learning


def shift_book(count: int, rng: np.random.Generator) -> tuple[list[Passage], dict[str, str]]:
    """Logs of six pumps called by a jargon that no title has, and where each belongs; a third knows nothing."""
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


def test_the_learned_step_finds_jargon_that_rules_do_not() -> None:
    logs, truth = shift_book(150, np.random.default_rng(1))
    linker = learn_entities(logs, TREE, np.random.default_rng(0))
    gold = {(name, place) for name, place in truth.items() if int(name[1:]) % 3 == 0}
    scores = {
        step: measure({(found.edge.source, found.edge.target) for found in link_entities(linker, logs, step)}, gold)
        for step in ("exact", "fuzzy", "learned")
    }
    assert scores["exact"].recall < scores["learned"].recall
    assert scores["learned"].f1 > 0.95


def test_a_predicted_link_tells_who_made_it_and_where_it_is_said() -> None:
    logs, _ = shift_book(150, np.random.default_rng(1))
    linker = learn_entities(logs, TREE, np.random.default_rng(0))
    new = log("new", "laut: P204 tropft")
    (found,) = link_entities(linker, [new])
    assert found.edge[:5] == ("new", "reports_about", "location:W1-K202-P2", "new", "predict:entity")
    assert linker.threshold <= found.edge.weight <= 1
    assert new.text[found.start : found.end] == "P204"


def test_the_same_seed_gives_the_same_links() -> None:
    logs, _ = shift_book(60, np.random.default_rng(1))
    one, two = (list(link_entities(learn_entities(logs, TREE, np.random.default_rng(5)), logs)) for _ in range(2))
    assert one == two


said = st.lists(
    st.tuples(st.frozensets(st.sampled_from("abcde")), st.frozensets(st.sampled_from("XYZ"))), min_size=1, max_size=8
)


@given(said)
def test_a_log_left_out_is_as_if_it_had_never_been_counted(known: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    words, classes = known[0]
    with_it = associations(associate(known), words, "XYZ", counted=True, members=classes)
    without = associations(associate(known[1:]), words, "XYZ", counted=False, members=())
    assert with_it == pytest.approx(without)


@given(said, st.frozensets(st.sampled_from("abcdef"), min_size=1), st.booleans())
def test_all_classes_at_once_score_as_one_by_one(
    known: list[tuple[frozenset[str], frozenset[str]]], words: frozenset[str], counted: bool
) -> None:
    members = known[0][1] if counted else frozenset()
    words = known[0][0] if counted else words
    learned = associate(known)
    turned = turn(learned)
    scores = all_associations(turned, words, counted=counted, members=members)
    one_by_one = associations(learned, words, "XYZ", counted=counted, members=members)
    assert {one: scores[turned.columns.get(one, -1)] for one in "XYZ"} == pytest.approx(one_by_one)


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


def test_the_scorer_agrees_with_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, 1]
    labels = features[:, 0] + features[:, 1] / 10 + rng.normal(size=300) > 1
    mine = fit(features, labels).probabilities(features)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    oracle = linear_model.LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(scaled, labels)
    assert mine == pytest.approx(oracle.predict_proba(scaled)[:, 1], abs=1e-4)


def test_the_scorer_survives_labels_of_one_sort_and_separable_ones() -> None:
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
    wanted = sum(right for _, right in scored) + missed

    def f1(threshold: float) -> float:
        kept = [right for chance, right in scored if chance >= threshold]
        return 2 * sum(kept) / max(len(kept) + wanted, 1)

    chosen = choose_threshold([chance for chance, _ in scored], [right for _, right in scored], wanted)
    assert f1(chosen) == pytest.approx(max(map(f1, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))))


def test_unlabelled_candidates_weigh_less_where_known_links_are_incomplete() -> None:
    chances, right = [0.9, 0.8, 0.7, 0.6, 0.5, 0.1], [True, False, True, True, True, False]
    assert choose_threshold(chances, right, 4, complete=False) == pytest.approx(0.3)
    assert choose_threshold(chances, [False] * 6, 4, complete=False) == 1.0


def test_a_split_shares_no_name_and_forgets_none() -> None:
    names = [f"L{number}" for number in range(50)]
    parts = split([*names, *names], np.random.default_rng(0))
    assert parts.known | parts.withheld == set(names)
    assert not parts.known & parts.withheld
    assert len(parts.withheld) == 10


def test_measures_count_by_hand() -> None:
    found = measure({("a", 1), ("b", 2), ("c", 3)}, {("a", 1), ("b", 9)})
    assert tuple(found) == pytest.approx((3, 2, 1, 1 / 3, 0.5, 0.4))
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


def test_withheld_follow_ups_are_found() -> None:
    withheld = range(0, 60, 5)
    logs, places = incidents(60, withheld)
    linker = learn_records(logs, TREE, places, np.random.default_rng(0))
    edges = list(link_records(linker))
    found = measure({edge[:3] for edge in edges}, {(f"R{n:03}", "related_to", f"F{n:03}") for n in withheld})
    assert found.f1 > 0.9
    assert {edge.maker for edge in edges} == {"predict:record"}
    assert all(edge.evidence == edge.source and 0 < edge.weight <= 1 for edge in edges)


def test_a_log_that_follows_up_something_already_is_left_alone() -> None:
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


def test_an_id_in_the_text_makes_a_candidate_however_old() -> None:
    logs, places = incidents(60)
    old = log("SB-240005", "K201 undicht", date=day(-900))
    late = log("late", "see SB 240005: flange changed", date=day(100))
    linker = learn_records([*logs, old, late], TREE, places, np.random.default_rng(0))
    records = linker.records
    assert records.named[list(records.ids).index("late")] == (list(records.ids).index("SB-240005"),)


def test_vectors_of_the_caller_take_part() -> None:
    logs, places = incidents(30, range(0, 30, 5))
    vectors = np.zeros((60, 30), np.float32)
    vectors[np.arange(60), np.arange(60) // 2] = 1  # a fault and its repair are alike, nothing else
    rng = np.random.default_rng
    with_them = learn_records(logs, TREE, {}, rng(0), vectors=vectors)
    gold = {(f"R{n:03}", f"F{n:03}") for n in range(0, 30, 5)}
    found = {(edge.source, edge.target) for edge in link_records(with_them)}
    assert measure(found, gold).f1 > 0.9
    assert places


# ---------------------------------------------------------------- all together


def test_a_prediction_tells_what_it_restores() -> None:
    logs, _ = shift_book(90, np.random.default_rng(3))
    dated = [replace(one, date=day(number / 3)) for number, one in enumerate(logs)]
    prediction = predict_links(dated, [*PLANT, location("X", "lost", "nowhere")], np.random.default_rng(0))
    assert prediction.restored["reports_about"].edges == len(prediction.entities) > 20
    assert prediction.restored["reports_about"].nodes == len({found.edge.source for found in prediction.entities})
    assert [skip.cause for skip in prediction.skips] == ["the parent 'nowhere' of 'X' is not known"]
    assert len(known_edges(dated, PLANT)) == 60 + 11


# ---------------------------------------------------------------- context expansion


TITLES = {place.id: place.title for place in PLANT}


def test_each_location_is_described_once_behind_its_first_mention() -> None:
    text = "P201 tropft, P201 steht, K201 läuft"
    spans = [
        Span(13, 17, "location:W1-K201-P1"),
        Span(0, 4, "location:W1-K201-P1"),
        Span(25, 29, "location:W1-K201"),
    ]
    expanded = "P201 (Zulaufpumpe P201) tropft, P201 steht, K201 (Kolonne K201) läuft"
    assert expand(text, spans, TITLES.__getitem__) == expanded


def test_nothing_is_added_that_stands_there_already_or_is_empty_or_would_split_a_code() -> None:
    assert expand("Zulaufpumpe P201", [Span(0, 16, "location:W1-K201-P1")], TITLES.__getitem__) == "Zulaufpumpe P201"
    assert expand("P201", [Span(0, 4, "x")], lambda _: " ") == "P201"
    assert expand("P201", [Span(0, 0, "x")], lambda _: "pump") == "P201"
    spans = [Span(0, 7, "location:W1-K201-P1"), Span(0, 4, "location:W1-K201")]
    assert expand("K201-P1 heiß", spans, TITLES.__getitem__) == "K201-P1 (Zulaufpumpe P201) heiß"


def test_a_span_outside_the_text_is_an_error() -> None:
    with pytest.raises(InputError, match="no part of a text with 4 characters: 2 to 9"):
        expand("P201", [Span(2, 9, "x")], lambda _: "pump")


@given(
    st.text(alphabet="ab ", max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.sampled_from("XYZ")), max_size=5),
)
def test_without_its_brackets_an_expanded_text_is_the_text(text: str, cuts: list[tuple[int, int, str]]) -> None:
    spans = [Span(start, end, name) for start, end, name in cuts if start <= end <= len(text)]
    expanded = expand(text, spans, lambda name: name)
    for name in "XYZ":
        assert expanded.count(f" ({name})") <= 1
        expanded = expanded.replace(f" ({name})", "")
    assert expanded == text
