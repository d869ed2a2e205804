"""Queries for plant logs, English and German: what is wrong with which piece of equipment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lemmata.mine.queries.styles import Pick, Query
from lemmata.types import Passage
from lemmata.words import LOG_STOP_WORDS

__all__ = ["log_queries"]

CODE = re.compile(
    r"(?<![\w-])(?:(?:[A-Z]{1,4}\d*-)*(?:[A-Z]{1,3}[- ]?\d{3,4}|[a-z]{1,3}-?\d{3,4})(?:-[A-Z]{1,3}\d{0,2})?"
    r"|[A-ZÄÖÜa-zäöüß-]{3,24}\.? \d{3}(?! ?(?:°C|%|bar|mg|K|Nm|t|h|m|l|kg)\b))(?![\w-]|[.,]\d)"
)
_SEGMENT = re.compile(r"\s+[-–/]\s+|;\s*|\.\s+|,\s+(?![\d])")
_ELSEWHERE = re.compile(r"\b(?:near|at|on|by|around|bei|an|auf|neben|hinter|vor|after|behind)\b", re.IGNORECASE)
_ABOUT = re.compile(r"^(?:Re|Betr\.?|Wg\.?|Zu|Thema|Subject|About)\s+", re.IGNORECASE)
_NUMBER = re.compile(
    r"\d+(?:[.,:]\d+)*\s*(?:°C|%|bar|K|Nm|t|h|mm/s|mm|mbar|mg/l|m³/h|m³|l|kg|Uhr|rpm|A|kW|LEL|UEG|min)?(?!\w)"
)
_PAST = {
    "tripped": "trip", "failed": "fail", "stopped": "stop", "leaked": "leak", "lifted": "lift", "dropped": "drop",
    "overflowed": "overflow", "froze": "freeze", "surged": "surge", "stalled": "stall", "jammed": "jam",
    "drifted": "drift", "rose": "rise", "fell": "fall", "opened": "open", "closed": "close", "flooded": "flood",
    "foamed": "foam", "seized": "seize",
}  # fmt: skip
_STATE = frozenset(
    """leaking vibrating cavitating drifting flooding foaming surging overheating slipping sticking passing dripping
    hunting rattling squealing smoking hot warm cold stuck blocked noisy loud tripped plugged frozen jammed clogged
    unstable dirty offline dead plugging rough loose""".split()
)
_DONE = frozenset(
    "cleaned flushed replaced changed inspected tested calibrated pulled drained isolated renewed greased".split()
)
_GETAN = frozenset(
    """gereinigt gespült gespuelt gewechselt getauscht geprüft geprueft entleert abgesperrt eingestellt ausgebaut
    abgedichtet entlüftet entlueftet nachgezogen gezogen rückgespült geschmiert""".split()
)
_ZUSTAND = frozenset(
    """undicht verstopft warm heiß heiss kalt laut unruhig trocken voll leer fest ausgefallen gestört gestoert
    abgefallen eingefroren überfüllt ueberfuellt instabil schwergängig blockiert""".split()
)
_TUT = frozenset(
    """vibriert kavitiert driftet klemmt hängt haengt leckt tropft schwankt bläst blaest klopft quietscht
    pfeift rattert schäumt schaeumt flutet überhitzt""".split()
)


def log_queries(passage: Passage, pick: Pick) -> Iterator[Query]:
    """Questions on the state of a piece of equipment, and its code with what was observed."""
    text = " ".join(passage.text.split())
    opening, colon, rest = text.partition(": ")
    if colon and len(opening.split()) <= 6:  # `Repeat:`, `As last month:`; but `Re P203:` says what it is about
        about = _ABOUT.sub("", opening)
        text = f"{about} {rest}" if about != opening or CODE.search(opening) else rest
    segments = [part for part in _SEGMENT.split(text) if part.strip()]
    codes = CODE.findall(text)
    for segment in segments[:2]:
        code = CODE.search(segment)
        if code:
            if not _ELSEWHERE.search(segment[: code.start()]):
                yield from _why(code[0], segment[code.end() :].split())
            break
    if not segments:
        return
    where = codes[0] if codes else ""
    words: list[str] = []
    for segment in segments:
        found = [word.strip(".,:()&") for word in _NUMBER.sub(" ", CODE.sub(" ", segment)).split()]
        found = [word for word in found if (len(word) > 2 or word == "no") and word.casefold() not in LOG_STOP_WORDS]
        words += found[: 4 - len(words)]
        if len(words) >= 3:
            break
    if where and len(words) >= 2:
        what = " ".join(word if word[:1].isupper() and _german(passage) else word.lower() for word in words)
        yield Query(pick("log", f"{where} {what}", f"{what} {where}"), "keyword", "log")


def _german(passage: Passage) -> bool:
    language = passage.metadata.get("language")
    if language in ("de", "en"):
        return bool(language == "de")
    return bool(re.search(r"\b(?:der|die|das|und|ist|nicht|mit|wieder|noch|auf)\b|[äöüß]", passage.text))


def _why(code: str, words: Sequence[str]) -> Iterator[Query]:
    words = [word.strip(".,:;!").casefold() for word in words[:3]]
    if any(word in _DONE | _GETAN for word in words[1:]) and words[0] not in _DONE | _GETAN | {
        "chemically",
        "chemisch",
    }:
        return  # something else of it was worked on
    for low in words[:2]:
        if low in _PAST:
            yield Query(f"Why did {code} {_PAST[low]}?", "question", "log state")
        elif low in _STATE:
            yield Query(f"Why is {code} {low}?", "question", "log state")
        elif low in _ZUSTAND:
            yield Query(f"Warum ist {code} {low}?", "question", "log state")
        elif low in _TUT:
            yield Query(f"Warum {low} {code}?", "question", "log state")
        elif low in _DONE:
            yield Query(f"When was {code} last {low}?", "question", "log work")
        elif low in _GETAN:
            yield Query(f"Wann wurde {code} zuletzt {low}?", "question", "log work")
        else:
            continue
        return
