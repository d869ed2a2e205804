"""Tables of logs and hierarchies of locations: what is read, what is skipped, what never crashes."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lemmata.core.errors import InputError
from lemmata.core.types import Document, Label, Link, Passage, Reading, Skip
from lemmata.ingest.logs import Columns, csv_rows, derive_hierarchy, jsonl_rows, parquet_rows, read_hierarchy, read_logs


def read(text: str, columns: Columns | None = None, batch: int = 5000) -> list[Reading]:
    def rows() -> Iterator[tuple[int, dict[str, str]]]:
        return csv_rows(io.BytesIO(text.encode()))

    columns = columns or Columns()
    return list(read_logs(rows(), document="shifts", file="shifts.csv", columns=columns, batch=batch, again=rows))


def passages(readings: list[Reading]) -> list[Passage]:
    return [passage for reading in readings for passage in reading.passages]


def skips(readings: list[Reading]) -> list[Skip]:
    return [skip for reading in readings for skip in reading.skips]


def hierarchy(text: str) -> Reading:
    return read_hierarchy(csv_rows(io.BytesIO(text.encode())), file="tree.csv")


def parents(reading: Reading) -> dict[str, str]:
    return {
        document.id: "".join(link.label for link in document.links if link.relation == "part_of")
        for document in reading.documents
    }


# ---------------------------------------------------------------- logs


def test_a_row_becomes_a_passage_with_links_date_and_the_other_columns() -> None:
    table = "id,date,author,empty,location,related,text\nL2,31.12.2012 14:05,ab,,K1-P1,L1; L0,Pumpe leckt\n"
    [reading] = read(table)
    assert reading.documents == (Document(id="shifts", title="shifts", kind="table", file="shifts.csv"),)
    assert reading.passages == [
        Passage(
            id="L2",
            document="shifts",
            kind="log",
            text="Pumpe leckt",
            file="shifts.csv",
            first_line=2,
            last_line=2,
            date="2012-12-31T14:05:00",
            metadata={"author": "ab", "location": "K1-P1"},
            links=(Link("reports_about", "K1-P1"), Link("related_to", "L1; L0")),
        )
    ]
    assert reading.labels == [Label("shifts", "L2", "L2")]
    assert reading.skips == []


@pytest.mark.parametrize(("rows", "sizes"), [(0, [0]), (2, [2]), (5, [2, 2, 1])])
def test_logs_come_in_batches_and_only_the_first_has_the_document(rows: int, sizes: list[int]) -> None:
    readings = read("id,text\n" + "".join(f"{n},leak {n}\n" for n in range(rows)), batch=2)
    assert [len(reading.passages) for reading in readings] == sizes
    assert [len(reading.documents) for reading in readings] == [1, *[0] * (len(sizes) - 1)]


@pytest.mark.parametrize(
    ("table", "ids"),
    [
        ("when,text\n2012-01-01,a\n2012-01-02,b\n", ["shifts:1", "shifts:2"]),
        ("text,n\na,1\n,2\nc,3\n", ["shifts:1", "shifts:3"]),  # skipped rows are counted
        ("id,text\n1,a,\n2,b,\n", ["1", "2"]),  # a delimiter at the end of each row
        ("id,text,2012,2013\n1,leak,5,6\n", ["1"]),  # numbers are fine where the needed columns are named
        (f"id,text\n1,{'pump ' * 60_000}\n", ["1"]),
    ],
    ids=range(5),
)
def test_without_an_id_column_rows_are_numbered_from_one(table: str, ids: list[str]) -> None:
    assert [log.id for log in passages(read(table))] == ids


def test_a_missing_text_column_is_an_error_with_the_file_and_the_columns() -> None:
    with pytest.raises(InputError) as caught:
        read("id,Wortlaut\n1,a\n")
    for part in ("shifts.csv", "'text'", "'id', 'Wortlaut'", "-o columns.text=COLUMN"):
        assert part in str(caught.value)


def test_columns_of_work_orders_are_recognised_by_their_names_with_a_note() -> None:
    [reading] = read("WO_ID,CREATED_ON,EQUIP,FUNC_LOC,LONG_TEXT\nW7,2024-03-01,P-1,A1-P-0107,seal leaks\n")
    [log] = reading.passages
    assert (log.id, log.date, log.text) == ("W7", "2024-03-01", "seal leaks")
    assert [link.label for link in log.links] == ["A1-P-0107"]
    assert log.metadata == {"EQUIP": "P-1", "FUNC_LOC": "A1-P-0107"}
    [note] = reading.skips
    assert "'LONG_TEXT' as columns.text" in note.cause


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("Meldung;Datum;Techn. Platz;Kurztext;Langtext;Störcode;Maßnahme", "7;15.03.2026;A1;leckt;;M1;Dichtung neu"),
        ("Auftrag;Meldung;Störbeginn;Technischer Platz;Kurztext;Massnahme", "9;7;15.03.2026;A1;leckt;Dichtung neu"),
        ("Action taken,Notification,Created On,Functional Loc.,Short Text", "Dichtung neu,7,2026-03-15,A1,leckt"),
    ],
)
def test_exports_of_maintenance_keep_rows_with_a_short_text_only_and_read_what_was_done(header: str, row: str) -> None:
    [log] = passages(read(f"{header}\n{row}\n"))
    assert (log.id, log.date) == ("7", "2026-03-15")
    assert log.content.replace(".", "").split() == ["leckt", "Dichtung", "neu"]
    assert [link.label for link in log.links] == ["A1"]


def test_a_short_text_alone_is_the_text_of_a_log_and_a_column_is_taken_once() -> None:
    logs = passages(read("Meldung;Kurztext;Langtext\n1;Pumpe leckt;\n2;Motor heiß;Lager trocken\n"))
    assert [(log.title, log.text) for log in logs] == [("", "Pumpe leckt"), ("Motor heiß", "Lager trocken")]
    [log] = passages(read("Datum;Meldung\n01.02.2026;Pumpe leckt\n"))
    assert (log.id, log.text) == ("shifts:1", "Pumpe leckt")
    [log] = passages(read("id,text,action\n1,Pump leaks,sealed\n"))
    assert log.text == "Pump leaks\n\nsealed"


def test_names_that_were_given_and_the_usual_ones_come_before_those_that_are_recognised() -> None:
    [log] = passages(read("WO_ID,ID,problem,text\n1,2,leak,fixed\n", Columns(id="ID")))
    assert (log.id, log.text, log.metadata) == ("2", "fixed", {"WO_ID": "1", "problem": "leak"})
    with pytest.raises(InputError, match="parent"):
        read("EQUIP,PARENT_EQUIP,DESCRIPTION\nP1,,pump\n")


@pytest.mark.parametrize(
    "table",
    [
        "17,2012-01-01,leak\n18,2012-01-02,fixed\n",
        "17\tleak\n18\tfixed\n",
        "2012-01-01;leak\n2012-01-02;fixed\n",
        "17,2012-01-01,leak\n",
    ],
)
def test_a_table_without_a_heading_line_is_an_error_with_the_cure(table: str) -> None:
    with pytest.raises(InputError, match=r"shifts\.csv: .*'leak'"):
        read(table)


def test_columns_can_have_any_name_and_a_title() -> None:
    columns = Columns(id="Nr", text="Kurztext", title="Kopf", date="", location="Platz", related="")
    [log] = passages(read("Nr;Kopf;Kurztext;Platz;date\n7;Pumpe;leckt;T1,T2;gestern\n", columns))
    assert (log.id, log.title, log.text, log.date) == ("7", "Pumpe", "leckt", None)
    assert [link.label for link in log.links] == ["T1,T2"]
    assert log.metadata == {"date": "gestern", "Platz": "T1,T2"}


def test_a_column_that_was_named_and_is_missing_is_an_error() -> None:
    with pytest.raises(InputError, match=r"shifts\.csv: .*'Platz'.*'id', 'text', 'place'$"):
        read("id,text,place\n1,leak,P1\n", Columns(location="Platz"))


def test_empty_texts_and_ragged_rows_are_skips_and_repeated_ids_get_a_number() -> None:
    readings = read("id,text,date\n1,a,2012-01-01\n2, ,2012-01-01\n1,b,2012-01-01\n4\n5,c,2012-01-01,x,y\n6,d,\n")
    assert [log.id for log in passages(readings)] == ["1", "1~2", "6"]
    assert skips(readings) == [
        Skip("shifts.csv", 3, "log '2' has no text in the column 'text'"),
        Skip("shifts.csv", 4, "the id '1' occurs twice: this log is called '1~2'"),
        Skip("shifts.csv", 5, "the row has 1 cells, the header 3"),
        Skip("shifts.csv", 6, "the row has 5 cells, the header 3"),
    ]


def test_ids_are_unique_across_batches() -> None:
    readings = read("id,text\n1,a\n2,b\n1,c\n", batch=1)
    assert [log.id for log in passages(readings)] == ["1", "2", "1~2"]
    assert [skip.line for skip in skips(readings)] == [4]


def test_a_log_with_an_unclear_date_is_kept_and_the_skip_shows_the_value() -> None:
    readings = read("id,date,text\n1,03/04/2012,leak\n")
    [log] = passages(readings)
    assert log.date is None
    assert log.metadata == {"date": "03/04/2012"}
    assert "'03/04/2012'" in skips(readings)[0].cause


@pytest.mark.parametrize(
    ("last", "date"),
    [
        ("15/03/2026", "2026-04-03"),
        ("03/15/2026 14:05", "2026-03-04"),
        ("04/04/2026", None),
        ("2026-03-15", None),  # says nothing of the others
        ("15/03/2026\n3,c,03/15/2026", None),
    ],
)
def test_the_whole_column_tells_whether_day_or_month_comes_first(last: str, date: str | None) -> None:
    readings = read(f"id,text,date\n1,a,03/04/2026\n2,b,{last}\n", batch=1)
    assert passages(readings)[0].date == date
    assert [skip.line for skip in skips(readings)] == ([] if date else [2])


def test_a_title_without_a_text_is_a_log() -> None:
    readings = read("id,title,text\n1,Pump leaks,\n2,,\n3,Fan,hums\n", Columns(title="title"))
    assert [(log.id, log.content) for log in passages(readings)] == [("1", "Pump leaks"), ("3", "Fan. hums")]
    assert [skip.line for skip in skips(readings)] == [3]


def test_every_other_column_is_metadata_under_its_own_name() -> None:
    table = "id;text;Ort;date;Prio 1;Kosten (EUR)\n1;leckt;K1, links;2012-01-01;hoch;12.50\n"
    [log] = passages(read(table, Columns(location="Ort")))
    assert log.metadata == {"Ort": "K1, links", "Prio 1": "hoch", "Kosten (EUR)": "12.50"}
    assert (log.date, log.locations) == ("2012-01-01", ("K1, links",))


def test_json_rows_may_omit_columns_and_hold_lists_and_numbers() -> None:
    lines = b'{"id": 1.0, "text": "a"}\n{"id": 2, "text": "b", "related": [1], "cost": 0, "n": NaN}\n{"id": 3}\n'
    bad: dict[int, str] = {}
    rows = jsonl_rows(io.BytesIO(lines), bad.__setitem__)
    [reading] = read_logs(rows, document="d", file="f", columns=Columns())
    assert not bad
    assert [log.id for log in reading.passages] == ["1", "2"]
    assert reading.passages[1].links == (Link("related_to", "1"),)
    assert reading.passages[1].metadata == {"cost": 0}
    assert [skip.line for skip in reading.skips] == [3]


# ---------------------------------------------------------------- locations


def test_locations_link_to_their_parent_and_have_their_id_as_label() -> None:
    reading = hierarchy("id,parent,description\nP,,plant\nP-A,P,Destillation\n")
    assert reading.documents == [
        Document(id="location:P", title="plant", kind="location", file="tree.csv", metadata={"location": "P"}),
        Document(
            id="location:P-A",
            title="Destillation",
            kind="location",
            file="tree.csv",
            metadata={"location": "P-A"},
            links=(Link("part_of", "P"),),
        ),
    ]
    assert reading.labels == [Label("", "P", "location:P"), Label("", "P-A", "location:P-A")]
    assert not reading.skips


@pytest.mark.parametrize(
    "header",
    [
        "Equipment;Übergeordnet;Bezeichnung",
        "Technischer Platz;Übergeordneter Techn. Platz;Bezeichnung",
        "Functional Location;Superior FunctLoc.;Description",
        "EQUIP;PARENT_EQUIP;DESCRIPTION",
        "ID;Parent;Name",
    ],
)
def test_the_columns_of_a_tree_may_have_the_names_of_other_programs(header: str) -> None:
    reading = hierarchy(f"{header}\nA;;plant\nA-1;A;pump\n")
    assert parents(reading) == {"location:A": "", "location:A-1": "A"}
    assert [document.title for document in reading.documents] == ["plant", "pump"]
    [note] = reading.skips
    assert repr(header.split(";")[1]) in note.cause


def test_a_child_may_come_before_its_parent() -> None:
    assert parents(hierarchy("id,parent,description\nB,A,b\nA,,a\n")) == {"location:B": "A", "location:A": ""}


def test_unknown_parents_repeated_ids_and_short_rows_are_skips() -> None:
    reading = hierarchy("id,parent,description\nA,X,a\nB,A,b\nB,,again\nC\n,A,nameless\n")
    assert parents(reading) == {"location:A": "", "location:B": "A"}
    assert [(skip.line, skip.cause) for skip in sorted(reading.skips)] == [
        (2, "the parent 'X' of 'A' is not in the table"),
        (4, "the location 'B' occurs twice"),
        (5, "the row has 1 cells, the header 3"),
        (6, "the location has no id"),
    ]


def test_a_cycle_loses_only_its_last_link() -> None:
    reading = hierarchy("id,parent,description\nA,B,a\nB,C,b\nC,A,c\nD,C,below the cycle\nE,E,itself\n")
    assert parents(reading) == {
        "location:A": "B",
        "location:B": "C",
        "location:C": "",
        "location:D": "C",
        "location:E": "",
    }
    assert [(skip.line, skip.cause) for skip in reading.skips] == [
        (4, "'C' closes a cycle of parents: A -> B -> C -> A"),
        (6, "'E' closes a cycle of parents: E -> E"),
    ]


def test_a_hierarchy_without_its_columns_is_an_error_that_names_them_all() -> None:
    with pytest.raises(InputError, match=r"'parent'.*'description'.*'id'.*'name'"):
        hierarchy("id,name\nA,b\n")


names = st.sampled_from("ABCDEFG")


@given(st.lists(st.tuples(names, names | st.just(""))))
def test_a_hierarchy_never_has_a_cycle_or_an_unknown_parent(edges: list[tuple[str, str]]) -> None:
    rows = [(n, {"id": child, "parent": parent, "description": ""}) for n, (child, parent) in enumerate(edges)]
    reading = read_hierarchy(rows, file="tree.csv")
    up = {name.removeprefix("location:"): parent for name, parent in parents(reading).items()}
    assert set(up) == {child for child, _ in edges}
    for name in up:
        steps = 0
        while up[name]:
            name = up[name]
            steps += 1
            assert steps <= len(up)


# ---------------------------------------------------------------- files to rows


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_of_the_header(delimiter: str) -> None:
    text = delimiter.join(["id", '"a, b; c"', "text"]) + "\n" + delimiter.join(["1", "x", "y"]) + "\n"
    assert list(csv_rows(io.BytesIO(text.encode()))) == [(2, {"id": "1", "a, b; c": "x", "text": "y"})]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_umlauts_are_read_in_every_usual_encoding(encoding: str) -> None:
    stream = io.BytesIO("id,text\n1,Lömi läuft über – 5 °C\n".encode(encoding))
    assert list(csv_rows(stream)) == [(2, {"id": "1", "text": "Lömi läuft über – 5 °C"})]


def test_a_file_that_is_no_table_is_an_error_with_its_line() -> None:
    with pytest.raises(InputError, match="UTF-16"):
        list(csv_rows(io.BytesIO("id,text\n".encode("utf-16"))))
    for lines in (2, 100_000):
        with pytest.raises(InputError) as caught:
            read('id,text\n1,a\n2,"' + "never closed\n" * lines)
        assert (caught.value.file, caught.value.line) == ("shifts.csv", 3)
    assert len(passages(read('id,text\n1,a 5" pipe\n2,"two\nlines"\n3,a 6" pipe\n'))) == 3


def test_an_inch_mark_before_a_cell_of_several_lines_is_no_open_quote() -> None:
    for table in ('id;size;text\n1;2,5" pipe;"one\ntwo"\n', 'id;size;text\n1;2,5" pipe;"one\ntwo"'):
        assert [log.text for log in passages(read(table))] == ["one\ntwo"]
    assert [log.text for log in passages(read('id,text\n1,"last line'))] == ["last line"]


def test_a_row_with_an_open_quote_takes_no_other_row_with_it() -> None:
    table = (
        'id,date,text\n1,2021-01-01,"leak, at "\n2,2021-01-02,"open\n3,2021-01-03,plain\n4,2021-01-04,"two\nlines"\n'
    )
    notes: list[int] = []
    rows = list(csv_rows(io.BytesIO(table.encode()), lambda line, _: notes.append(line)))
    assert [(line, row["id"], row["text"]) for line, row in rows] == [
        (2, "1", "leak, at "),
        (3, "2", "open"),
        (4, "3", "plain"),
        (5, "4", "two\nlines"),
    ]
    assert notes == [3]
    assert [log.text for log in passages(read('id,text\n1,a\n2,"open\n3,b\n4,c\n'))] == ["a", "open", "b", "c"]
    assert [log.text for log in passages(read('id,text,x\n1,"two\nlines with "inner" quotes",y\n'))] == [
        'two\nlines with inner" quotes"'
    ]


def test_a_row_has_the_number_of_its_first_line() -> None:
    stream = io.BytesIO(b'\r\nid,text\r\n1,"a\r\nb"\r\n\r\n2,c\r\n')
    assert list(csv_rows(stream)) == [(3, {"id": "1", "text": "a\r\nb"}), (6, {"id": "2", "text": "c"})]


def test_unnamed_and_repeated_columns_get_distinct_names() -> None:
    stream = io.BytesIO(b",id,id,text\n0,1,2,x\n")
    assert list(csv_rows(stream)) == [(2, {"column_1": "0", "id": "1", "id_3": "2", "text": "x"})]


def test_the_stream_stays_open_and_may_be_closed_early() -> None:
    stream = io.BytesIO(b"id,text\n1,a\n2,b\n")
    rows = csv_rows(stream)
    next(rows)
    del rows
    assert not stream.closed
    stream.seek(0)
    rows = csv_rows(stream)
    next(rows)
    stream.close()
    del rows


def test_bad_lines_of_json_are_reported_and_skipped() -> None:
    bad: dict[int, str] = {}
    lines = b'\xef\xbb\xbf{"a": 1}\n{"a": \n[1]\n\n{"a": "\\ud800"}\n' + b"[" * 100_000 + b'\n{"a": "\xe4"}\n'
    rows = list(jsonl_rows(io.BytesIO(lines), bad.__setitem__))
    assert rows == [(1, {"a": 1}), (7, {"a": "ä"})]
    assert list(bad) == [2, 3, 5, 6]


@pytest.mark.parametrize("depth", [10, 300, 600, 900, 1100])
def test_deeply_nested_json_is_read_or_reported(depth: int) -> None:
    line = json.dumps({"id": "1", "text": "a"})[:-1] + ', "deep": ' + "[" * depth + "1" + "]" * depth + "}"
    bad: dict[int, str] = {}
    rows = jsonl_rows(io.BytesIO(line.encode()), bad.__setitem__)
    logs = passages(list(read_logs(rows, document="d", file="f", columns=Columns())))
    assert len(logs) + len(bad) == 1


def test_parquet_is_read_with_dates_and_whole_numbers() -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    day = datetime.datetime(2012, 12, 31, 14, 5)
    table = {"id": [1, 2], "text": ["a", "b"], "date": [day, None], "related": [None, 1.0]}
    parquet.write_table(arrow.table(table), stream)
    logs = passages(list(read_logs(parquet_rows(stream), document="d", file="f", columns=Columns())))
    assert [(log.id, log.date, log.first_line) for log in logs] == [
        ("1", "2012-12-31T14:05:00", 1),
        ("2", None, 2),
    ]
    assert logs[1].links == (Link("related_to", "1"),)


def test_a_damaged_parquet_file_is_an_error_with_its_name() -> None:
    rows = parquet_rows(io.BytesIO(b"PAR1 no"))
    with pytest.raises(InputError, match=r"shifts\.parquet"):
        list(read_logs(rows, document="d", file="shifts.parquet", columns=Columns()))


tables = st.binary(max_size=300) | st.text(alphabet='a1,;|\t"\n\r\\é\x00', max_size=200).map(str.encode)


@given(tables)
@example(b"\xff\xfea\x00")
@example(b'"')
@example(b"a\rb\r\n\x00")
def test_any_bytes_become_rows_or_an_input_error(data: bytes) -> None:
    try:
        rows = list(csv_rows(io.BytesIO(data)))
    except InputError:
        return
    assert len(rows) <= len(data)
    header = list(rows[0][1]) if rows else []
    assert all(list(row) == header for _, row in rows)
    lines = [line for line, _ in rows]
    assert lines == sorted(set(lines))


json_lines = st.lists(
    st.binary(max_size=30) | st.dictionaries(st.text(max_size=4), st.text(max_size=4)).map(json.dumps).map(str.encode)
).map(b"\n".join)


@pytest.mark.slow
@given(tables | json_lines)
def test_any_bytes_become_objects_or_reports(data: bytes) -> None:
    bad: dict[int, str] = {}
    try:
        rows = list(jsonl_rows(io.BytesIO(data), bad.__setitem__))
    except InputError:
        return
    assert all(isinstance(row, dict) for _, row in rows)
    assert not {line for line, _ in rows} & set(bad)


cells = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.text(max_size=3))


@given(st.lists(st.dictionaries(st.sampled_from(["id", "text", "date", "location", "x"]), cells), max_size=8))
def test_any_row_becomes_a_log_or_a_skip(table: list[dict[str, Any]]) -> None:
    try:
        readings = list(read_logs(enumerate(table, 1), document="d", file="f", columns=Columns(), batch=3))
    except InputError:
        assert not any("text" in row for row in table)
        return
    logs = passages(readings)
    lost = {skip.line for skip in skips(readings)} - {log.first_line for log in logs}
    assert len(logs) + len(lost) == len(table)
    assert len({log.id for log in logs}) == len(logs)
    for log in logs:
        json.dumps(dict(log.metadata), allow_nan=False)


# ---------------------------------------------------------------- locations without a table of them


def derived(*cells: str) -> dict[str, str]:
    """Each location with its parent."""
    reading = derive_hierarchy(cells, file="logs.csv")
    return {one.id.removeprefix("location:"): (one.links[0].label if one.links else "") for one in reading.documents}


def test_codes_that_share_prefixes_are_a_tree_and_a_prefix_that_nothing_shares_is_none() -> None:
    tree = derived("A1-P-0107", "A1-P-0108", "A1-V-0003", "B2.P.0001", "B2.P", "C9-X-1")
    assert tree == {
        "A1-P-0107": "A1-P",
        "A1-P-0108": "A1-P",
        "A1-V-0003": "A1",
        "B2.P.0001": "B2.P",
        "B2.P": "",
        "C9-X-1": "",
        "A1": "",
        "A1-P": "A1",
    }


def test_names_without_shared_prefixes_are_a_flat_list_and_a_note_says_so() -> None:
    reading = derive_hierarchy(["Halle 3", "Pump, main", "P101; P102", "P103, P104", "Halle 3"], file="logs.csv")
    names = ["Halle 3", "Pump, main", "P101", "P102", "P103", "P104"]
    assert [one.metadata["location"] for one in reading.documents] == names
    assert [one.title for one in reading.documents] == ["Halle 3", "Pump, main", "", "", "", ""]
    assert not any(one.links for one in reading.documents)
    assert [skip.cause for skip in reading.skips] == [
        "no table of locations was read: the 6 locations that logs name are a flat list"
    ]
    assert derive_hierarchy([], file="logs.csv").documents == ()


@given(st.lists(st.text(st.sampled_from("AB12-."), min_size=1, max_size=8), max_size=8))
def test_a_derived_tree_has_no_cycle_no_unknown_parent_and_parents_are_prefixes(cells: list[str]) -> None:
    tree = derived(*cells)
    assert {cell for cell in cells if cell.strip()} <= tree.keys()
    for name, parent in tree.items():
        assert not parent or (parent in tree and name.startswith(parent) and len(parent) < len(name))


def test_the_header_of_a_wide_table_is_read_in_linear_time() -> None:
    names = [f"c{number}" for number in range(200_000)]
    ((_, row),) = csv_rows(io.BytesIO("\n".join([",".join([*names, "c1"]), ",".join(names)]).encode()))
    assert len(row) == 200_001
