"""A time that a query names in words: `failures in March 2021`, `since 2020`, `seit 1.4.2021`, `letzte Woche`."""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple

from lemmata.ingest.dates import read_date

_SINCE = frozenset("since from between after seit ab nach von zwischen".split())
_UNTIL = frozenset("until till to and before bis und vor".split())
_SECOND = frozenset("and und to".split())  # behind another time
_WITHIN = frozenset("in on during of im am vom".split())
_OPEN = frozenset("after nach before vor".split())  # without the time itself
_MONTH = r"[^\W\d_]{3,9}\.?"
_DATE = re.compile(  # a year needs one of these words, other dates do not
    rf"(?<![\w$./-])(?:(?P<word>{'|'.join(_SINCE | _UNTIL | _WITHIN)})\s+(?:the |dem |der |year |jahr )?)?"
    rf"(?P<date>\d{{4}}-\d\d(?:-\d\d)?|\d{{1,2}}\.\s?\d{{1,2}}\.\s?\d{{4}}|(?:\d{{1,2}}\.?\s+)?{_MONTH}\s+\d{{4}}"
    rf"|{_MONTH}\s+\d{{1,2}},?\s+\d{{4}}|\d{{4}})(?![\w$]|[.,-]\d)",
    re.I,
)
_LAST = re.compile(
    r"(?<!\w)(?:in (?:the |der )?)?(?:last|past|letzte[nrsm]?) (?P<unit>week|month|year|woche|monat|jahr)(?!\w)", re.I
)
_DAYS = {"week": 7, "woche": 7, "month": 31, "monat": 31, "year": 366, "jahr": 366}


class Period(NamedTuple):
    """What a query says of time; ISO, empty for an open end."""

    since: str
    until: str
    text: str  # the query without these words


def named_period(text: str, first: str, last: str) -> Period | None:
    """The period that a query names, if it meets that from `first` to `last`; None where it names none.

    >>> named_period("pump failures in March 2021", "2020-01-01", "2022-01-01")
    Period(since='2021-03', until='2021-03', text='pump failures')
    """
    since = until = ""
    spans: list[tuple[int, int]] = []
    for match in _DATE.finditer(text):
        word, date = (match["word"] or "").casefold(), read_date(match["date"])
        is_year = match["date"].isdigit()
        if date is None or not "1000" <= date < "3000" or (is_year and not word) or (word in _SECOND and not since):
            continue
        days = _days(date)
        if word in _UNTIL:
            until = (days[0] - _DAY).isoformat() if word in _OPEN else date
        elif word in _SINCE:
            since = (days[1] + _DAY).isoformat() if word in _OPEN else date
        else:
            since = until = date
        spans.append(match.span())
    if not spans and (relative := _LAST.search(text)):
        newest = datetime.date.fromisoformat(last[:10]) if len(last) >= 10 else _days(last)[1]
        since = (newest - _DAYS[relative["unit"].casefold()] * _DAY).isoformat()
        spans.append(relative.span())
    is_met = not since or since <= last[: len(since)]
    is_met &= not until or (until >= first[: len(until)] and until >= since[: len(until)])
    if not spans or not is_met:
        return None
    for begin, end in reversed(spans):
        text = f"{text[:begin]} {text[end:]}"
    return Period(since, until, " ".join(text.split()))


_DAY = datetime.timedelta(days=1)


def _days(date: str) -> tuple[datetime.date, datetime.date]:
    """The first and the last day of an ISO date, month or year."""
    begin = datetime.date.fromisoformat(f"{date}-01-01"[:10])
    length = {4: 366, 7: 31}.get(len(date), 1)
    end = begin + (length - 1) * _DAY
    return begin, end if end.isoformat().startswith(date) else end.replace(day=1) - _DAY if length == 31 else end - _DAY
