"""Queries for plant logs, English and German: what is wrong with which piece of equipment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lemmata.core.types import Passage
from lemmata.core.words import LOG_STOP_WORDS
from lemmata.mine.queries.wording import Pick, Query

_CODE = re.compile(  # P-101, K201-P3, sv702, Kolonne 301; no measured value
    r"(?<![\w-])(?:(?:[A-Z]{1,4}\d*-)*(?:[A-Z]{1,3}[- ]?\d{3,4}|[a-z]{1,3}-?\d{3,4})(?:-[A-Z]{1,3}\d{0,2})?"
    r"|[A-ZÄÖÜa-zäöüß-]{3,24}\.? \d{3}(?! ?(?:°C|%|bar|mg|K|Nm|t|h|m|l|kg)\b))(?![\w-]|[.,]\d)"
)
_SEGMENT_END = re.compile(r"\s+[-–/]\s+|;\s*|\.\s+|,\s+(?![\d])")
_BESIDE = re.compile(r"\b(?:near|at|on|by|around|bei|an|auf|neben|hinter|vor|after|behind)\b", re.IGNORECASE)
_ABOUT = re.compile(r"^(?:Re|Betr\.?|Wg\.?|Zu|Thema|Subject|About)\s+", re.IGNORECASE)
_NUMBER = re.compile(
    r"\d+(?:[.,:]\d+)*\s*(?:°C|%|bar|K|Nm|t|h|mm/s|mm|mbar|mg/l|m³/h|m³|l|kg|Uhr|rpm|A|kW|LEL|UEG|min)?(?!\w)"
)
_GERMAN = re.compile(r"\b(?:der|die|das|und|ist|nicht|mit|wieder|noch|auf)\b|[äöüß]")
_PAST = {
    "tripped": "trip", "failed": "fail", "stopped": "stop", "leaked": "leak", "lifted": "lift", "dropped": "drop",
    "overflowed": "overflow", "froze": "freeze", "surged": "surge", "stalled": "stall", "jammed": "jam",
    "drifted": "drift", "rose": "rise", "fell": "fall", "opened": "open", "closed": "close", "flooded": "flood",
    "foamed": "foam", "seized": "seize",
}  # fmt: skip
_STATES = {
    "Why is {code} {word}?": """leaking vibrating cavitating drifting flooding foaming surging overheating slipping
    sticking passing dripping hunting rattling squealing smoking hot warm cold stuck blocked noisy loud plugged frozen
    clogged unstable dirty offline dead plugging rough loose""",
    "Warum ist {code} {word}?": """undicht verstopft heiß heiss kalt laut unruhig trocken voll leer fest ausgefallen
    gestört gestoert abgefallen eingefroren überfüllt ueberfuellt instabil schwergängig blockiert""",
    "Warum {word} {code}?": """vibriert kavitiert driftet klemmt hängt haengt leckt tropft schwankt bläst blaest klopft
    quietscht pfeift rattert schäumt schaeumt flutet überhitzt""",
}
_WORK = {
    "When was {code} last {word}?": """cleaned flushed replaced changed inspected tested calibrated drained
    isolated renewed greased""",
    "Wann wurde {code} zuletzt {word}?": """gereinigt gespült gespuelt gewechselt getauscht geprüft geprueft entleert
    abgesperrt eingestellt ausgebaut abgedichtet entlüftet entlueftet nachgezogen rückgespült geschmiert""",
}
_QUESTIONS = {word: ("log state", f"Why did {{code}} {verb}?") for word, verb in _PAST.items()} | {
    word: (rule, question)
    for rule, table in (("log state", _STATES), ("log work", _WORK))
    for question, words in table.items()
    for word in words.split()
}


def log_queries(passage: Passage, pick: Pick) -> Iterator[Query]:
    """A question on the state of the equipment, and its code with what was observed."""
    text = " ".join(passage.text.split())
    opening, colon, rest = text.partition(": ")
    if colon and len(opening.split()) <= 6:  # `Repeat:` says nothing, but `Re P203:` names the equipment
        subject = _ABOUT.sub("", opening)
        text = f"{subject} {rest}" if subject != opening or _CODE.search(opening) else rest
    code = _CODE.search(text)
    if not code:
        return
    segments = [segment for segment in _SEGMENT_END.split(text) if segment.strip()]
    for segment in segments[:2]:
        if place := _CODE.search(segment):
            if not _BESIDE.search(segment[: place.start()]):
                yield from _question(place[0], segment[place.end() :].split()[:3])
            break
    observed: list[str] = []
    for segment in segments:
        words = [word.strip(".,:()&") for word in _NUMBER.sub(" ", _CODE.sub(" ", segment)).split()]
        words = [word for word in words if (len(word) > 2 or word == "no") and word.casefold() not in LOG_STOP_WORDS]
        observed += words[: 4 - len(observed)]
        if len(observed) >= 3:
            break
    if len(observed) >= 2:
        german = passage.metadata.get("language", "de" if _GERMAN.search(passage.text) else "en") == "de"
        what = " ".join(word if word[:1].isupper() and german else word.lower() for word in observed)
        yield Query(pick("log", f"{code[0]} {what}", f"{what} {code[0]}"), "keyword", "log")


def _question(code: str, following: Sequence[str]) -> Iterator[Query]:
    words = [word.strip(".,:;!").casefold() for word in following]
    rules = [_QUESTIONS.get(word, ("", ""))[0] for word in words]
    if "log work" in rules[1:] and rules[0] != "log work" and words[0] not in ("chemically", "chemisch"):
        return  # another part of it was worked on
    for word in words[:2]:
        if word in _QUESTIONS:
            rule, question = _QUESTIONS[word]
            yield Query(question.format(code=code, word=word), "question", rule)
            return
