"""German queries for statements and articles, by the same finder of names and terms as the English ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lemmata.core.types import Passage
from lemmata.graph.concepts.candidates import Candidate, note_name
from lemmata.graph.concepts.german import GERMAN_RESULTS, gender, result_noun
from lemmata.mine.queries.wording import Pick, Query

_ARTICLE = {"m": "der", "f": "die", "n": "das"}
_ACCUSATIVE = {"m": "den", "f": "die", "n": "das"}
_GENITIVE_ARTICLE = {"m": "des", "f": "der", "n": "des"}


def _with_definite(name: str, articles: dict[str, str], genitive: bool = False) -> str:
    """A result after its definite article: `der Satz von Lagrange`, `des kleinen Satzes von Fermat`."""
    noun = result_noun(name)
    words = name.split(" ")
    place = next(place for place, word in enumerate(words) if word.casefold().endswith(noun))
    weak = "en" if genitive or articles[GERMAN_RESULTS[noun][0]] == "den" else "e"
    for before in range(place):
        words[before] = re.sub(r"e[rs]?$", weak, words[before])
    if genitive and GERMAN_RESULTS[noun][1].casefold() != noun:
        words[place] += GERMAN_RESULTS[noun][1].casefold().removeprefix(noun)
    return f"{articles[GERMAN_RESULTS[noun][0]]} {' '.join(words)}"


def _what_it_says(name: str, rule: str, pick: Pick) -> Query:
    question = f"Was besagt {_with_definite(name, _ARTICLE)}?"
    return Query(pick(rule, question, f"Aussage {_with_definite(name, _GENITIVE_ARTICLE, True)}"), "question", rule)


def german_named_result(passage: Passage, pick: Pick) -> Iterator[Query]:
    """A statement with a name: `Lagrange` at a theorem asks for the `Satz von Lagrange`."""
    name, _ = note_name(passage.title, passage.kind, german=True)
    if not name or re.search(r"\d", name):
        return
    if result_noun(name) and passage.kind not in ("remark", "example"):
        yield _what_it_says(name, "named", pick)
        yield Query(name if " " in name else f"{name} Aussage", "keyword", "named")
    elif " " in name:
        yield Query(name + (" Beispiel" if passage.kind == "example" else ""), "keyword", "note")


_PROOF = re.compile(r"Beweis (?:des|der|vom|von) (?P<what>.+)")
_NO_SUBJECT = re.compile(r"^\d|\b(?:und|oder|ist|sind|wie|warum|Notizen|Einleitung|Einführung|Anhang)\b|[:;?$\\=]")


def german_title_query(title: str, pick: Pick) -> Iterator[Query]:
    """What a short article with this German title answers."""
    if proof := _PROOF.fullmatch(title):
        noun = result_noun(proof["what"])
        what = re.sub(rf"(?i)({noun})(?:es|s)\b", r"\1", proof["what"]) if noun else proof["what"]
        if noun:
            yield Query(f"Wie beweist man {_with_definite(what, _ACCUSATIVE)}?", "question", "proof")
        yield Query(f"{what} Beweis", "keyword", "proof")
    elif len(title.split()) <= 6 and not _NO_SUBJECT.search(title):
        if result_noun(title):
            yield _what_it_says(title, "title", pick)
        else:
            yield Query(_what_is(title, ""), "question", "title")


_INDEFINITE = {"m": "ein", "f": "eine", "n": "ein"}


def _article_in(sentence: str, name: str) -> str:
    """`ein` or `eine` as the sentence uses the noun; "" where it does not tell."""
    match = re.search(rf"\b(eine?[nmrs]?) {re.escape(name)}", sentence, re.IGNORECASE)
    return "" if not match else "eine" if match[1].casefold() in {"eine", "einer"} else "ein"


def _what_is(name: str, sentence: str) -> str:
    """`Was ist eine Untergruppe?`; `Was bedeutet Ordnung?` where the gender is not known."""
    noun = re.split(r"(?<=\w) (?:von|des|der|über|auf|mit|in)\b", name)[0]
    article = _article_in(sentence, name) or _INDEFINITE.get(gender(noun), "")
    plural = re.search(r"(?:en|eln|ern)$", noun) and not article
    if plural:
        return f"Was sind {name}?"
    written = re.search(rf"\bein {re.escape(name)}", sentence, re.IGNORECASE)  # then its adjectives fit, too
    if article == "eine" or (article and " " not in noun) or written:
        return f"Was ist {article} {name}?"
    return f"Was bedeutet {name}?"


_SUBJECT = (
    r"\b(?P<article>[Ee]ine?) (?P<noun>(?:[a-zäöüß]+ )?[A-ZÄÖÜ][^\W\d_]+)(?: einer? [A-ZÄÖÜ][^\W\d_]+)?(?: ?\$[^$]*\$)?"
)


def german_term_queries(term: Candidate, pick: Pick) -> Iterator[Query]:
    """Queries for a term that a German passage defines."""
    name = term.name
    if term.kind == "definition":
        subject = re.search(rf"{_SUBJECT} heißt (?:dann |auch )?{re.escape(name)}\b", term.sentence)
        if subject:
            noun = f"{subject['article'].casefold()} {subject['noun']}"
            yield Query(f"Wann heißt {noun} {name}?", "question", "defined")
            bare = subject["noun"].split()[-1]
            strong = {"f": "e", "m": "er", "n": "es"}.get("f" if noun.startswith("eine ") else gender(bare), "")
            inflected = name if name.endswith("e") or " " in name else name + strong
            yield Query(f"{inflected} {bare} Definition", "keyword", "defined")
        return
    yield Query(_what_is(name, term.sentence), "question", "defined")
    yield Query(pick("defined", f"Definition {name}", f"{name} Definition"), "keyword", "defined")


_DETERMINER = re.compile(
    r"(?:je|jen|dies|dieselb|derselb|dasselb|kein|sein|ihr|mein|unser|welch|solch|manch|beid|zwei|drei|deren|dessen|all)"
    r"(?:e[nmrs]?|)|wichtigste[nrs]?",
    re.IGNORECASE,
)


def german_noun_run(words: list[str]) -> list[str]:
    """A run of content words from behind its determiner to its last noun; German puts the verb behind that."""
    while words and _DETERMINER.fullmatch(words[0]):
        words = words[1:]
    while words and not words[-1][:1].isupper():
        words = words[:-1]
    return words
