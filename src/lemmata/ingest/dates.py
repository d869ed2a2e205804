"""Dates as people and programs write them, to ISO; an ambiguous date is not read."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any

_MONTHS = {
    name: number
    for names in ("jan feb mar apr may jun jul aug sep oct nov dec", "jän feb mär apr mai jun jul aug sep okt nov dez")
    for number, name in enumerate(names.split(), 1)
} | {"mrz": 3}
_MONTH_NAMES = frozenset(
    """january february march april may june july august september october november december jänner januar februar märz
    mai juni juli oktober dezember sept""".split()
) | frozenset(_MONTHS)
_WEEKDAY = re.compile(r"(?:mo|di|mi|do|fr|sa|so|tu|we|th|su)[a-z]*[.,]*\s+", re.I)
_TIME = re.compile(
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d)(?:[.,]\d+)?)?\s*(?P<half>am|pm|uhr|h)?"
    r"\s*(?P<zone>Z|UTC|GMT|CES?T|MES?Z|[+-]\d\d:?\d\d)?(?:\s*\([A-Z]{3,4}\))?",
    re.I,
)
_ZONES = {"z": 0, "utc": 0, "gmt": 0, "cet": 60, "mez": 60, "cest": 120, "mesz": 120}  # minutes east of Greenwich
_DATES = tuple(
    re.compile(pattern + r"(?:[\sT,]+(?P<time>\d.*))?", re.I)
    for pattern in (
        r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})",
        r"(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4}|\d\d)",
        r"(?P<day>\d{1,2})(?:st|nd|rd|th)?[.\s-]+(?:of\s+)?(?P<month_name>[^\W\d]{3,9})[.,\s-]+(?P<year>\d{4})",
        r"(?P<month_name>[^\W\d]{3,9})[.\s]+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})",
        r"(?P<first>\d{1,2})(?P<slash>[-/])(?P<second>\d{1,2})(?P=slash)(?P<year>\d{4}|\d\d)",
    )
)
_PARTIAL = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<year>\d{4})(?:[-/](?P<month>\d{1,2}))?",
        r"(?P<month>\d{1,2})/(?P<year>\d{4})",
        r"(?P<month_name>[^\W\d]{3,9})[.,\s]+(?P<year>\d{4})",
    )
)
_YEARS = range(1000, 3000)  # a number outside is not a year


def read_date(text: str, *, day_first: bool | None = None) -> str | None:
    """The ISO form of a text that is a date, a month or a year; None where it is unreadable or ambiguous.

    Reads ISO dates, day.month.year, names of months (English and German), and slashes where day and month cannot be
    swapped, or where `day_first` says which is first. A time of day may follow, with its zone.
    """
    text = _without_weekday(text)
    try:
        parsed = datetime.datetime.fromisoformat(text)
        return parsed.date().isoformat() if len(text) <= len("2012-12-31") else parsed.isoformat()
    except ValueError:
        pass
    for patterns, convert in ((_DATES, _date_of_match), (_PARTIAL, _month_of_match)):
        for pattern in patterns:
            if match := pattern.fullmatch(text):
                try:
                    return convert({**match.groupdict(), "day_first": day_first})
                except (ValueError, KeyError):
                    return None
    return None


def is_day_first(texts: Iterable[str]) -> bool | None:
    """Whether the dates of a column with slashes begin with the day, as those show that cannot be swapped; None where
    there are none, or of both kinds.
    """
    matches = filter(None, (_DATES[-1].fullmatch(_without_weekday(text)) for text in texts))
    too_large = {(int(match["first"]) > 12, int(match["second"]) > 12) for match in matches}
    orders = {first for first, second in too_large if first != second}
    return orders.pop() if len(orders) == 1 else None


def _without_weekday(text: str) -> str:
    text = text.strip()
    weekday = _WEEKDAY.match(text)
    return text[weekday.end() :] if weekday else text


def _date_of_match(parts: Mapping[str, Any]) -> str:
    """ISO from the named groups of a pattern; raises ValueError or KeyError where there is no such date."""
    year = int(parts["year"])
    if len(parts["year"]) == 2:
        year += 1900 if year >= 69 else 2000  # as POSIX reads two digits
    if "first" in parts:
        first, second = int(parts["first"]), int(parts["second"])
        day_first = parts["day_first"] if max(first, second) <= 12 and first != second else first > 12
        if day_first is None:
            raise ValueError("day and month could be swapped")
        day, month = (first, second) if day_first else (second, first)
    else:
        day, month = int(parts["day"]), _month(parts)
    date = datetime.date(year, month, day)
    if not parts["time"]:
        return date.isoformat()
    match = _TIME.fullmatch(parts["time"].strip())
    if match is None:
        raise ValueError("no time of day")
    hour, half = int(match["hour"]), (match["half"] or "").lower()
    if half in ("am", "pm"):
        if not 1 <= hour <= 12:
            raise ValueError("no hour of half a day")
        hour = hour % 12 + (12 if half == "pm" else 0)
    time = datetime.time(hour, int(match["minute"]), int(match["second"] or 0), tzinfo=_zone(match["zone"]))
    return datetime.datetime.combine(date, time).isoformat()


def _zone(written: str | None) -> datetime.timezone | None:
    if not written:
        return None
    minutes = _ZONES.get(written.lower())
    if minutes is None:
        minutes = int(written[1:3]) * 60 + int(written[-2:])
        minutes = -minutes if written[0] == "-" else minutes
    return datetime.timezone(datetime.timedelta(minutes=minutes))


def _month(parts: Mapping[str, Any]) -> int:
    if "month_name" not in parts:
        return int(parts["month"])
    name = parts["month_name"].lower()
    if name not in _MONTH_NAMES:
        raise KeyError(name)  # "marble" is no month, though it begins like one
    return _MONTHS[name[:3]]


def _month_of_match(parts: Mapping[str, Any]) -> str:
    year = int(parts["year"])
    if year not in _YEARS:
        raise ValueError("no year")
    if parts.get("month") is None and "month_name" not in parts:
        return f"{year:04d}"
    return datetime.date(year, _month(parts), 1).isoformat()[:7]


# ---------------------------------------------------------------- inside a text

_ISO_INSIDE = re.compile(r"\b(?P<year>\d{4})[-/](?P<month>\d{1,2})(?:[-/](?P<day>\d{1,2}))?\b")
_DAY_FIRST_INSIDE = re.compile(r"\b(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4})\b")
_YEAR_INSIDE = re.compile(r"\b(1[89]\d\d|20\d\d)\b")
_WORD = re.compile(r"[^\W\d_]{3,9}")
_DAY_BEFORE = re.compile(r"\b(\d{1,2})(?:(?:st|nd|rd|th)(?:\s+of)?|\.)?[\s~-]{0,3}$")
_DAY_AFTER = re.compile(r"[.\s~]{0,3}(\d{1,2})(?:st|nd|rd|th)?\b")


def find_date(text: str) -> str | None:
    """The first date in a short text as ISO date, month or year; None where there is none."""
    whole = read_date(text)
    if whole is not None:
        return whole.partition("T")[0]
    for pattern in (_ISO_INSIDE, _DAY_FIRST_INSIDE):
        if match := pattern.search(text):
            month, day = int(match["month"]), int(match["day"] or 0)
            if date := _existing(match["year"], month, day):
                return date
    year = _YEAR_INSIDE.search(text)
    if year is None:
        return None
    for word in _WORD.finditer(text):
        if word[0].lower() in _MONTH_NAMES:
            month = _MONTHS[word[0].lower()[:3]]
            before = text[max(0, word.start() - 12) : word.start()]
            near = _DAY_BEFORE.search(before) or _DAY_AFTER.match(text, word.end())
            return _existing(year[1], month, int(near[1]) if near else 0) or _existing(year[1], month, 0)
    return year[1]


def _existing(year: str, month: int, day: int) -> str | None:
    """ISO date, or month if the day is 0; None if there is no such day."""
    try:
        date = datetime.date(int(year), month, day or 1).isoformat()
    except ValueError:
        return None
    return date if day else date[:7]
