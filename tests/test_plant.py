"""The plant example: the files it writes have the properties that its README promises."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.make import plant

from lemmata.ingest.logs import Columns, csv_rows, read_hierarchy, read_logs

FILES = ("logs.csv", "hierarchy.csv", "withheld.tsv", "queries.jsonl", "qrels/test.tsv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("plant")
    plant.generate(path)
    return path


def table(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_a_seed_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    plant.generate(tmp_path / "imported", logs=400, seed=3)
    command = [sys.executable, str(plant.__file__), str(tmp_path / "command"), "--logs", "400", "--seed", "3"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "5"})
    for name in FILES:
        assert (tmp_path / "imported" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()


def test_plant_1_keeps_its_bytes_since_tables_were_measured_on_it(tmp_path: Path) -> None:
    plant.generate(tmp_path, logs=400, seed=3)
    written = b"".join((tmp_path / name).read_bytes() for name in FILES)
    assert hashlib.sha256(written).hexdigest()[:16] == "4a51174264972710"


@pytest.mark.parametrize("number", range(2, 9))
def test_every_plant_is_complete_and_speaks_its_own_language(tmp_path: Path, number: int) -> None:
    plant.generate(tmp_path, logs=600, plant=number)
    logs, places = table(tmp_path / "logs.csv"), table(tmp_path / "hierarchy.csv")
    ids, locations = {log["id"] for log in logs}, {place["id"] for place in places}
    assert all(name.startswith(f"S{number}-") for name in ids)  # several plants fit in one workspace
    assert all(name.split("-")[0] == f"PL{number}" for name in locations)
    assert {log["location"] for log in logs} <= locations | {""}
    assert {row["corpus-id"] for row in table(tmp_path / "qrels/test.tsv", "\t")} <= ids
    assert len((tmp_path / "queries.jsonl").read_text(encoding="utf-8").splitlines()) >= 30
    texts = "\n".join(log["text"] for log in logs)
    assert not set("{}[]|") & set(texts)
    own, first = plant.site(number), plant.site(1)
    assert own == plant.site(number)
    assert own.sections.keys() != first.sections.keys()
    assert len(own.faults) < len(first.faults)
    other_words = {short for language in own.jargon.values() for short in language.values()}
    assert not other_words & {short for language in first.jargon.values() for short in language.values()} - {"&"}


def test_plants_have_few_codes_and_half_of_their_phrases_in_common(tmp_path: Path) -> None:
    codes, grams = {}, {}
    for number in (1, 2, 3):
        plant.generate(tmp_path / str(number), logs=600, plant=number)
        texts = [words(log["text"]) for log in table(tmp_path / str(number) / "logs.csv")]
        codes[number] = {word for text in texts for word in text if re.fullmatch(r"[a-z]+\d{3,}", word)}
        letters = [[word for word in text if not re.search(r"\d", word)] for text in texts]
        grams[number] = {tuple(text[at : at + 4]) for text in letters for at in range(len(text) - 3)}
    for one, other in ((1, 2), (1, 3), (2, 3)):
        assert len(codes[one] & codes[other]) < 0.2 * len(codes[one])
        assert len(grams[one] & grams[other]) < 0.5 * len(grams[one])


def test_another_seed_gives_other_logs(tmp_path: Path) -> None:
    for seed in (1, 2):
        plant.generate(tmp_path / f"{seed}", logs=50, seed=seed)
    assert (tmp_path / "1" / "logs.csv").read_bytes() != (tmp_path / "2" / "logs.csv").read_bytes()


@pytest.mark.parametrize("count", [1, 7, 60])
def test_small_plants_are_complete(tmp_path: Path, count: int) -> None:
    plant.generate(tmp_path, logs=count)
    ids = {row["id"] for row in table(tmp_path / "logs.csv")}
    assert len(ids) == count
    assert {row["corpus-id"] for row in table(tmp_path / "qrels/test.tsv", "\t")} <= ids


def test_ids_are_unique_and_in_order_of_time(folder: Path) -> None:
    logs = table(folder / "logs.csv")
    assert len({log["id"] for log in logs}) == len(logs) == 3000
    assert [log["id"] for log in logs] == sorted(log["id"] for log in logs)
    assert [log["date"] for log in logs] == sorted(log["date"] for log in logs)
    assert all(log["shift"] == {0: "N", 1: "F", 2: "S"}[(int(log["date"][11:13]) + 2) % 24 // 8] for log in logs)


def test_the_hierarchy_is_one_tree_of_five_levels_in_two_languages(folder: Path) -> None:
    places = table(folder / "hierarchy.csv")
    parents = {place["id"]: place["parent"] for place in places}
    assert len(parents) == len(places) >= 250
    assert [name for name, parent in parents.items() if not parent] == ["PL1"]
    assert all(parent in parents for parent in parents.values() if parent)
    assert all(name.startswith(parent) for name, parent in parents.items())  # so there is no cycle
    assert {name.count("-") + 1 for name in parents} == {1, 2, 3, 4, 5}
    assert "PL1-DEST-K201-P3" in parents
    descriptions = " ".join(place["description"] for place in places)
    assert "Rücklaufpumpe" in descriptions
    assert "reflux pump" in descriptions


def test_a_log_follows_up_an_earlier_one_that_exists(folder: Path) -> None:
    logs = table(folder / "logs.csv")
    dates = {log["id"]: log["date"] for log in logs}
    links = [(log["id"], log["related"]) for log in logs if log["related"]]
    links += [
        (link["log"], link["target"])
        for link in table(folder / "withheld.tsv", "\t")
        if link["relation"] == "related_to"
    ]
    assert all(dates[earlier] < dates[later] for later, earlier in links)
    assert 0.45 < len(links) / len(logs) < 0.7
    assert 0.25 < 1 - sum(bool(log["related"]) for log in logs) / len(links) < 0.35


def test_withheld_links_are_true_and_absent_from_the_logs(folder: Path) -> None:
    logs = {log["id"]: log for log in table(folder / "logs.csv")}
    places = {place["id"] for place in table(folder / "hierarchy.csv")}
    withheld = table(folder / "withheld.tsv", "\t")
    assert len({tuple(link.values()) for link in withheld}) == len(withheld)
    for link in withheld:
        if link["relation"] == "related_to":
            assert logs[link["log"]]["related"] == ""
            assert link["target"] in logs
        else:
            assert link["relation"] == "reports_about"
            assert logs[link["log"]]["location"] != link["target"]
            assert link["target"] in places


def test_a_realistic_share_of_locations_is_missing_or_too_coarse(folder: Path) -> None:
    logs = table(folder / "logs.csv")
    truths = {
        link["log"]: link["target"]
        for link in table(folder / "withheld.tsv", "\t")
        if link["relation"] == "reports_about"
    }
    assert 0.15 < sum(not log["location"] for log in logs) / len(logs) < 0.3
    coarse = [log for log in logs if log["location"] and truths.get(log["id"], "").startswith(log["location"] + "-")]
    assert 0.08 < len(coarse) / len(logs) < 0.25


def test_about_60_percent_of_the_logs_are_german(folder: Path) -> None:
    languages = Counter(log["language"] for log in table(folder / "logs.csv"))
    assert set(languages) == {"de", "en"}
    assert 0.55 < languages["de"] / 3000 < 0.65


def test_few_texts_repeat_each_other(folder: Path) -> None:
    texts = [log["text"] for log in table(folder / "logs.csv")]
    repeats, shared = plant.repetition(texts)
    assert repeats < 0.02
    assert shared < 0.4
    assert not any(mark in text for text in texts for mark in "{}[]|")


def test_texts_vary_in_length_jargon_and_spelling(folder: Path) -> None:
    texts = [log["text"] for log in table(folder / "logs.csv")]
    lengths = sorted(len(text.split()) for text in texts)
    assert lengths[0] <= 3
    assert lengths[-1] >= 25
    everything = "\n".join(texts)
    for term in ("Lömi", "Lösungsmittel", "KW", "Kühlwasser", "WT ", "Wärmetauscher", "Pu ", "läuft unrund"):
        assert term in everything
    for pattern in (r"\bP20\d", r"\bP-20\d", r"\bP 20\d", r"Pumpe 20\d", r"K20\d-P\d", r"P\d an K20\d"):
        assert re.search(pattern, everything), pattern


def test_there_are_many_kinds_of_faults() -> None:
    assert len({fault.name for fault in plant.FAULTS}) == len(plant.FAULTS) >= 25
    kinds = {place.kind for place in plant.build_plant(plant.site(1))}
    for fault in plant.FAULTS:
        assert kinds.issuperset(fault.kinds)
        assert all(set(phrases) == set("sdcmfzq") for phrases in (fault.de, fault.en))


def test_every_query_has_graded_answers_that_exist(folder: Path) -> None:
    logs = {log["id"] for log in table(folder / "logs.csv")}
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = [json.loads(line) for line in lines]
    qrels = table(folder / "qrels/test.tsv", "\t")
    assert list(qrels[0]) == ["query-id", "corpus-id", "score"]
    assert len(queries) == 40
    assert len({query["text"] for query in queries}) == 40
    assert {row["corpus-id"] for row in qrels} <= logs
    assert len({(row["query-id"], row["corpus-id"]) for row in qrels}) == len(qrels)
    for query in queries:
        assert set(query) == {"_id", "text"}
        grades = {row["score"] for row in qrels if row["query-id"] == query["_id"]}
        assert grades == {"1", "2"}


def test_queries_share_no_three_words_in_a_row_with_any_log(folder: Path) -> None:
    logs = [words(log["text"]) for log in table(folder / "logs.csv")]
    phrases = {tuple(log[start : start + 3]) for log in logs for start in range(len(log) - 2)}
    for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        query = words(json.loads(line)["text"])
        assert not {tuple(query[start : start + 3]) for start in range(len(query) - 2)} & phrases


def test_the_reader_skips_nothing_and_every_link_has_its_label(folder: Path) -> None:
    with (folder / "hierarchy.csv").open("rb") as stream:
        tree = read_hierarchy(csv_rows(stream), file="hierarchy.csv")
    with (folder / "logs.csv").open("rb") as stream:
        readings = list(read_logs(csv_rows(stream), document="logs", file="logs.csv", columns=Columns(), batch=1000))
    labels = {label.name for reading in [tree, *readings] for label in reading.labels}
    links = [link for reading in readings for passage in reading.passages for link in passage.links]
    assert [len(reading.passages) for reading in readings] == [1000, 1000, 1000]
    assert not [skip for reading in [tree, *readings] for skip in reading.skips]
    assert {link.label for link in links} <= labels
    assert {link.relation for link in links} == {"reports_about", "related_to"}


def test_a_plant_without_logs_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, str(plant.__file__), str(tmp_path / "plant"), "--logs", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--logs needs at least 1" in done.stderr
