"""Words of English and German: stop lists, the language of a text, singulars, stems, folded spelling, and names as ids.

The only home of word lists that several folders use. Nothing here looks at a corpus.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path


def _read_lists() -> dict[str, list[str]]:
    """The lists of `words.txt`, by the headings above them."""
    lists: dict[str, list[str]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            words = lists.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            words += line.split()
    return lists


_LISTS = _read_lists()


def _listed(name: str) -> frozenset[str]:
    return frozenset(_LISTS[name])


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ---------------------------------------------------------------- stop lists

ARTICLES = _words("a an the")
PREPOSITIONS = _words("along at between by for from in modulo of on over to under with without")
# Join the content words of a name or title: `ring of integers over a field`.
LINKING_WORDS = ARTICLES | PREPOSITIONS | _words("and or")
GERMAN_LINKING_WORDS = _listed("german_linking_words")
# Not indexed for lexical search. A change here changes every index and every lexical score.
STOP_WORDS = _listed("stop_words")
# Not indexed for lexical search in German, as they are written with umlauts or without them. `nicht`, `kein`, `aus` and
# `ab` stay: a pump that is off is not one that runs.
GERMAN_STOP_WORDS = _listed("german_stop_words")
# Words of every German text that are indexed: nobody misspelt them where no passage has them.
GERMAN_FUNCTION_WORDS = _listed("german_function_words")
# Never inside a noun phrase of mathematical prose, in English or German: pronouns, verbs of proofs, adverbs, numerals.
PHRASE_BREAKS = STOP_WORDS | (GERMAN_LINKING_WORDS - _words("beim fur uber")) | _listed("phrase_breaks")
# Before a noun they add nothing that one could look up.
GENERIC_ADJECTIVES = _listed("generic_adjectives")
# Alone they name nothing that one could look up.
GENERIC_NOUNS = _listed("generic_nouns")
_TITLE_WORDS = _listed("title_words")
# A title that begins or ends with one of these says what is done, not what it is about: `Proof of X`, `X: examples`.
TITLE_FRAME_WORDS = _TITLE_WORDS | _listed("title_frame_words")
# A title made of these alone could stand over anything; `Special values` could not.
GENERIC_TITLE_WORDS = _TITLE_WORDS | _listed("generic_title_words")
# Around the subject of a question: `What is the definition of a flat module?`
QUESTION_WORDS = _listed("question_words")
# Sentences of these alone only lead to the next statement: `We now prove the following useful lemma.`
CONNECTING_WORDS = STOP_WORDS | LINKING_WORDS | _listed("connecting_words")
# Say nothing about the equipment in a shift log. `no` and `nicht` are not here: they change what is reported.
LOG_STOP_WORDS = _listed("log_stop_words")


# ---------------------------------------------------------------- spelling

UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def fold(text: str) -> str:
    """Without case and accents: `Möbius` to `mobius`."""
    text = text.casefold()
    if text.isascii():
        return text
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


def is_author(written: str, name: str) -> bool:
    """Whether a name is written with words of it, the surname among them: `serre` for `Jean-Pierre Serre`."""
    words, own = (re.findall(r"[^\W_]+", fold(text)) for text in (written, name))
    surname = own[:1] if "," in name else own[-1:]  # Serre, Jean-Pierre
    return bool(surname) and set(surname) <= set(words) <= set(own)


_WRITTEN_UE = re.compile(r"(?<![aeiouq])ue")  # not in `neue`, `Quelle`


def fold_german(word: str) -> str:
    """Without case, umlauts and their transcriptions: `Prüfung`, `Pruefung` and `Prufung` are `prufung`."""
    return _WRITTEN_UE.sub("u", fold(word)).replace("ae", "a").replace("oe", "o")


# ---------------------------------------------------------------- language

LANGUAGES = ("en", "de", "de+en")  # of a corpus
_WORD = re.compile(r"\\[A-Za-z]+|([^\W\d_]{2,})")  # no command of LaTeX
_READ = 4000  # characters of a text: enough to tell its language
_ENGLISH_WORDS = (STOP_WORDS | LINKING_WORDS | QUESTION_WORDS) - _words("am an in was will had modulo so")
_GERMAN_WORDS = (GERMAN_STOP_WORDS | _words("nicht kein keine aus ab bzw sowie jetzt dabei danach wegen seit ohne")) - (
    _words("also am an das die hat in man so uns war was")
)
# letters at the start (<), the end (>) or anywhere in a word that one language has and the other hardly
_ENGLISH_LETTERS = re.compile(
    r"th|wh|<wa|ough|igh|ea|oo|ow|ee(?=[dpkt])|sh(?=[aeiou>])|ck(?=[ls>])|ll>|ss>|ity>|ty>|ly>|ry>|ay>|ing>|ed>|ge>|ve>|le>|"
    r"re>|te>|se>|ce>|ure>|ous>|ful>|ble>|<wr|<ou|<qu|c(?=[aeiourlty])|(?<=[aeou])y|oa|sp>|mp>|wn>|nk>"
)
_GERMAN_LETTERS = re.compile(
    r"[äöüß]|sch|cht|ung>|ungs|keit|heit|lich|ier(?:t|en)>|tz|<ge(?=[^nr])|<ver|<vor|<ein|<aus|<auf|<ab(?=[^sol])|pf|<kn|"
    r"<z|ei|ie(?=[blfrt])|chen|<um|en>|rk|<k(?=[aolru])|kt|zu|au|eu|aa|uh|eh|ah|oh|<ueb|ch>|<j|lk|rz|nz"
)


def language_of(text: str) -> str:
    """`en` or `de` by function words and letters; an empty string where nothing tells, as in a formula or a code.

    >>> language_of("Lager der Pumpe P-203 heiß"), language_of("bearing of the pump is hot"), language_of("P-203: 4,2")
    ('de', 'en', '')
    """
    evidence = sum(map(_evidence_of_german, map(str.lower, _WORD.findall(text[:_READ]))))
    return "de" if evidence > 0 else "en" if evidence < 0 else ""


@lru_cache(maxsize=1 << 16)
def _evidence_of_german(word: str) -> int:
    """Below 0 for English; a function word weighs as much as three groups of letters."""
    if word in _GERMAN_WORDS or word in _ENGLISH_WORDS:
        return 3 if word in _GERMAN_WORDS else -3
    if len(word) < 4:
        return 0
    framed = f"<{word}>"
    return len(_GERMAN_LETTERS.findall(framed)) - len(_ENGLISH_LETTERS.findall(framed))


def language_shares(texts: Iterable[str]) -> dict[str, float]:
    """The share of each language among the texts that tell theirs, the largest first; empty where none does."""
    counts = Counter(filter(None, map(language_of, texts)))
    return {language: count / counts.total() for language, count in counts.most_common()}


# ---------------------------------------------------------------- singular

# Written before another word, with or without a hyphen.
PREFIXES = _listed("prefixes")
_IRREGULAR = _LISTS["irregular"]  # pairs of plural and singular
_COUNTED = (  # others in -ics are fields of study: dynamics, mathematics
    "characteristics conics cubics geodesics harmonics heuristics logics metrics octics quadrics quartics quintics "
    "sextics topics"
).split()
_SINGULAR_OF = dict(zip(_IRREGULAR[::2], _IRREGULAR[1::2], strict=True)) | {word: word[:-1] for word in _COUNTED}
_SURNAMES = _listed("surnames")
_SINGULARS = (  # no plurals, although they end like one
    _words("chaos corps cosmos ethos fels glas impuls lens moduli news perhaps ponens puls series species tollens yes")
    | _SURNAMES
    | frozenset(_SINGULAR_OF.values())
)


@lru_cache(maxsize=1 << 16)
def singular(word: str) -> str:
    """The singular of an English noun in small letters; any other word stays: `matrices` to `matrix`, `basis`."""
    start, hyphen, last = word.rpartition("-")
    if hyphen:
        return start + hyphen + singular(last)
    if word in _SINGULAR_OF:
        return _SINGULAR_OF[word]
    if len(word) < 4 or word in _SINGULARS:
        return word
    for prefix in PREFIXES:
        rest = word.removeprefix(prefix)
        if rest != word and (rest in _SINGULAR_OF or rest in _SINGULARS):
            return prefix + _SINGULAR_OF.get(rest, rest)
    return word if word.endswith("ics") else _without_plural(word)


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


# ---------------------------------------------------------------- names as ids

_ACCENT = re.compile(r"""\\(?:[`'^"~=.]|[uvHcdbkrt](?![A-Za-z]))\s*""")
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?\s*")
_FOLDED = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
    | dict.fromkeys("'’‘ʼ`´{}$", "")
)
# commands of LaTeX that stand for letters
_LETTERS = {letter: letter for letter in _words("ss o l ae oe i j th")} | {"aa": "a", "dh": "d"}
_FORMAT = _listed("format")
_GREEK = re.compile(r"[α-ω]")


def slug(name: str) -> str:
    """A name as an id: small letters, digits and hyphens; `Erd\\H{o}s's $\\alpha$-Lemma` is `erdoss-alpha-lemma`.

    Accents are folded, LaTeX formatting is removed, other commands become words; letters of other scripts stay.
    A name without any letter or digit gets a hash. Different names can share a slug; a slug is its own slug.
    """
    text = _ACCENT.sub("", name.replace("\\-", "").replace("}{", "} {"))
    text = _COMMAND.sub(_command_as_word, text)
    for _ in range(2):  # small letters can have accents that capitals hide
        text = unicodedata.normalize("NFKD", text.casefold().translate(_FOLDED))
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Mn")
    text = _GREEK.sub(lambda match: f" {unicodedata.name(match[0]).split()[-1].lower()} ", text)
    text = re.sub(r"[\W_]+", "-", unicodedata.normalize("NFC", text)).strip("-")
    return text or "x" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]


def _command_as_word(match: re.Match[str]) -> str:
    command = match[1]
    return "" if command in _FORMAT else _LETTERS.get(command.lower(), f" {command} ")
