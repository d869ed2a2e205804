"""Pairs of texts that say the same in German and English, or in two spellings, from public sources.

- a dictionary in the format of Ding (`deutsch; Synonym {f} [techn.] | Plural :: english; synonym | plural`)
- message catalogues of programs (gettext, `.mo`): English message, German translation
- descriptions of Debian's packages in both languages
- MaintNorm: work orders as typed and in normal spelling
- faults.txt: phrases written for this model, filled with the technical nouns of the dictionary
- written.txt: events written for this model, each in several wordings of both languages
"""

from __future__ import annotations

import gettext
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

Pair = tuple[str, str]
FIELDS = ("techn", "mach", "electr", "auto", "constr", "aviat", "naut", "telco", "transp", "envir")
_NOTE = re.compile(r"\{[^}]*\}|\[[^\]]*\]|<[^>]*>|\([^)]*\)|/[^;|]*?/|[®™]")
_FIELD = re.compile(r"\[(\w+)\.?\]")
_MARKUP = re.compile(r"<[^>]+>|[_&](?=\w)|\\[nt]|\s+")


def _terms(side: str) -> list[str]:
    found = (" ".join(_NOTE.sub(" ", part).split()).strip(" ,.") for part in side.split(";"))
    return [term for term in found if term and len(term) < 80 and not term.startswith("-")]


def dictionary(path: Path) -> Iterator[tuple[list[str], list[str], bool, bool]]:
    """Terms of both languages that mean the same, whether of a technical field, and whether a noun in the singular."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#") or "::" not in line:
                continue
            german, english = line.rstrip("\n").split("::", 1)
            is_technical = bool({*_FIELD.findall(line)} & {*FIELDS})
            for ours, theirs in zip(german.split("|"), english.split("|"), strict=False):
                first, second = _terms(ours), _terms(theirs)
                if first and second:
                    is_noun = bool(re.search(r"\{[mfn]\}", ours)) and first[0][0].isupper()
                    yield first, second, is_technical, is_noun


def catalogue(paths: Iterable[Path]) -> Iterator[Pair]:
    """German and English messages without markup; placeholders stay."""
    for path in sorted(paths):
        try:
            with path.open("rb") as stream:
                messages = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
        except (OSError, ValueError, UnicodeDecodeError, SyntaxError):
            continue
        for english, german in messages.items():
            english = english[0] if isinstance(english, tuple) else english
            texts = [
                " ".join(_MARKUP.sub(lambda m: " " if m[0].isspace() or m[0][0] in "<\\" else "", text).split())
                for text in (german, english.split("\x04")[-1])
            ]
            if all(3 < len(text) < 400 and re.search("[a-zA-Z]{3}", text) for text in texts) and texts[0] != texts[1]:
                yield texts[0], texts[1]


def descriptions(german: Path, english: Path) -> Iterator[Pair]:
    """What Debian says of a package: the line about it, and the first paragraph below."""
    texts = []
    for file in (german, english):
        blocks = file.read_text(encoding="utf-8").split("\n\n")
        found = (
            re.search(r"^Description-md5: (\w+)\nDescription-\w+: (.*)((?:\n (?!\.$).*)*)", b, re.M) for b in blocks
        )
        texts.append({match[1]: (match[2], " ".join(match[3].split())) for match in found if match})
    for name in sorted(texts[0].keys() & texts[1].keys()):
        yield from (
            pair for pair in zip(texts[0][name], texts[1][name], strict=True) if all(pair) and pair[0] != pair[1]
        )


def spellings(path: Path) -> Iterator[Pair]:
    """Work orders of MaintNorm: in normal spelling, as typed."""
    typed: list[str] = []
    normal: list[str] = []
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.strip():
            token, _, form = line.partition("\t")
            typed.append(token)
            normal.append(form)
        elif typed:
            first, second = " ".join(word for word in normal if word and "<" not in word), " ".join(typed)
            if len(first) > 3 and first != second:
                yield first, second
            typed, normal = [], []


def phrases(path: Path) -> list[tuple[list[str], list[str]]]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    sides = [line.split(" :: ") for line in lines]
    return [
        ([part.strip() for part in german.split("|")], [part.strip() for part in english.split("|")])
        for german, english in sides
    ]


def fault(
    random_: random.Random, faults: list[tuple[list[str], list[str]]], nouns: list[tuple[list[str], list[str]]]
) -> Pair:
    """The same fault of the same piece of equipment in two wordings, mostly one German and one English."""
    german, english = random_.choice(faults)
    first, second = random_.choice(nouns)
    texts = [
        random_.choice(german).replace("{x}", random_.choice(first)),
        random_.choice(english).replace("{x}", random_.choice(second)),
    ]
    draw = random_.random()
    if draw < 0.15:  # two German wordings
        texts[1] = random_.choice(german).replace("{x}", random_.choice(first))
    elif draw < 0.25:  # two English ones
        texts[0] = random_.choice(english).replace("{x}", random_.choice(second))
    if random_.random() < 0.25:  # on or at another piece of equipment, in whatever language the text has
        other = random_.choice(nouns)
        for side in range(2):
            is_german = (side == 0 and not 0.15 <= draw < 0.25) or (side == 1 and draw < 0.15)
            texts[side] += random_.choice(
                (" an ", ", ", " bei ") if is_german else (" at ", ", ", " of ")
            ) + random_.choice(other[0 if is_german else 1])
    if random_.random() < 0.2:
        code = f"{random_.choice('ABCEFKMPRTVW')}{random_.choice(('', '-', ' '))}{random_.randint(1, 9999)}"
        texts = [f"{text} {code}" if random_.random() < 0.5 else f"{code} {text}" for text in texts]
    return texts[0], texts[1]


def wordings(random_: random.Random, event: tuple[list[str], list[str]]) -> Pair:
    """Two wordings of an event, mostly one German and one English."""
    draw = random_.random()
    for language, limit in enumerate((0.12, 0.25)):
        if draw < limit and len(event[language]) > 1:
            first, second = random_.sample(event[language], 2)
            return first, second
    german, english = event
    return random_.choice(german), random_.choice(english)


def as_typed(text: str, random_: random.Random) -> str:
    """The text as somebody in a hurry types it: other case, transcribed umlauts, cut words, a typing error."""
    draw = random_.random()
    if draw < 0.5:
        return text
    if draw < 0.62:
        return text.lower()
    if draw < 0.70:
        return text.upper()
    if draw < 0.80:
        for old, new in (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("Ä", "Ae"), ("Ö", "Oe"), ("Ü", "Ue"), ("ß", "ss")):
            text = text.replace(old, new)
        return text
    words = text.split()
    place = random_.randrange(len(words))
    word = words[place]
    if len(word) > 5:
        if draw < 0.9:
            words[place] = word[: random_.randint(3, len(word) - 2)] + random_.choice((".", ""))
        else:
            cut = random_.randrange(1, len(word) - 1)
            words[place] = (
                word[:cut] + word[cut + 1 :]
                if draw < 0.95
                else word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
            )
    return " ".join(words)
