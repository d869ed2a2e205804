"""One reader of dates for tables, texts and papers: every usual format, and none where it could mean two dates."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.ingest.dates import find_date, read_date


@pytest.mark.parametrize(
    ("written", "iso"),
    [
        ("2012-12-31", "2012-12-31"),
        ("20121231", "2012-12-31"),
        ("2012-12-31 14:05", "2012-12-31T14:05:00"),
        ("2012-12-31T14:05:09Z", "2012-12-31T14:05:09+00:00"),
        ("2012-12-31T14:05:09.250+01:00", "2012-12-31T14:05:09.250000+01:00"),
        ("2012-12-31 14:05 +01:00", "2012-12-31T14:05:00+01:00"),
        ("2012-12-31 14:05:09 UTC", "2012-12-31T14:05:09+00:00"),
        ("Mon, 31 Dec 2012 14:05:09 -0530", "2012-12-31T14:05:09-05:30"),
        ("Mon, 31 Dec 2012 14:05:09 GMT", "2012-12-31T14:05:09+00:00"),
        ("Mon, 31 Dec 2012 14:05:09 +0100 (CET)", "2012-12-31T14:05:09+01:00"),
        ("31.12.2012 14:05 MEZ", "2012-12-31T14:05:00+01:00"),
        ("31.07.2012 14:05 CEST", "2012-07-31T14:05:00+02:00"),
        ("2012/1/5 7:05", "2012-01-05T07:05:00"),
        ("31.12.2012", "2012-12-31"),
        ("1.2.12", "2012-02-01"),
        ("1.2.99", "1999-02-01"),
        ("31.12.2012 14:05", "2012-12-31T14:05:00"),
        ("31.12.2012, 14.05 Uhr", "2012-12-31T14:05:00"),
        ("Mo, 31.12.2012", "2012-12-31"),
        ("31. Dezember 2012", "2012-12-31"),
        ("3. März 2012 06:00", "2012-03-03T06:00:00"),
        ("31-Dec-2012", "2012-12-31"),
        ("3rd of May 2012", "2012-05-03"),
        ("May 3rd, 2012", "2012-05-03"),
        ("Dec 31, 2012 2:05 PM", "2012-12-31T14:05:00"),
        ("12/31/2012", "2012-12-31"),
        ("12/31/2012 12:10 AM", "2012-12-31T00:10:00"),
        ("31/12/2012", "2012-12-31"),
        ("31/12/2012 23:59", "2012-12-31T23:59:00"),
        ("05/05/2012", "2012-05-05"),
        ("  2012-12-31 ", "2012-12-31"),
        ("2012", "2012"),
        ("2012-05", "2012-05"),
        ("05/2012", "2012-05"),
        ("May 2012", "2012-05"),
        ("03/04/2012", None),
        ("03-04-2012", None),
        ("30.02.2012", None),
        ("2012-02-30", None),
        ("2012-13", None),
        ("0042", None),
        ("31.12.2012 25:00", None),
        ("31.12.2012 14:05 +99:00", None),
        ("31.12.2012 14:05 EST", None),
        ("12 Foo 2012", None),
        ("12 Marble 2012", None),
        ("gestern", None),
        ("41274.5", None),
        ("", None),
    ],
)
def test_dates_are_read_where_they_are_unambiguous(written: str, iso: str | None) -> None:
    assert read_date(written) == iso


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2021-03-04", "2021-03-04"),
        ("2021/3", "2021-03"),
        ("4 March 2021", "2021-03-04"),
        ("March 4th, 2021", "2021-03-04"),
        ("Mar 2021", "2021-03"),
        ("Version 2 of March 2021", "2021-03"),
        ("Draft 7, the 3rd of March 2021", "2021-03-03"),
        ("Spring 2021", "2021"),
        ("Preprint, 31.12.2012", "2012-12-31"),
        ("submitted 31 February 2012", "2012-02"),
        ("2012-02-31", "2012"),
        (r"\\today", None),
        ("", None),
        ("2021-13-45", "2021"),
    ],
)
def test_a_date_inside_a_text_becomes_iso(text: str, expected: str | None) -> None:
    assert find_date(text) == expected


@given(
    st.text(max_size=30)
    | st.from_regex(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([ T]\d{1,2}:\d\d( ?[+-]\d\d:?\d\d)?)?", fullmatch=True)
)
def test_any_text_is_an_iso_date_or_none(written: str) -> None:
    for date in (read_date(written), find_date(written)):
        assert date is None or len(date) in (4, 7) or datetime.datetime.fromisoformat(date)


@given(st.datetimes(datetime.datetime(1000, 1, 1), datetime.datetime(2999, 12, 31)))
def test_every_day_is_read_in_every_unambiguous_format(moment: datetime.datetime) -> None:
    day = moment.date().isoformat()
    for style in ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y", "%Y%m%d"):
        written = moment.strftime(style).replace(moment.strftime("%Y"), f"{moment.year:04d}")
        assert read_date(written) == day
