"""Queries for statements and articles: what a named result says, what a defined term is, and key words.

Names and defined terms come from `lemmata.graph.concepts.candidates`, the finder that also builds the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lemmata.core.types import Passage
from lemmata.core.words import GENERIC_NOUNS
from lemmata.graph.concepts.candidates import Candidate, content_runs, find_defined_terms, note_name
from lemmata.graph.concepts.german import german_key, result_noun
from lemmata.graph.concepts.terms import key_of, mask, normal, result_kind
from lemmata.latex.readable import readable
from lemmata.mine.queries.german import german_named_result, german_noun_run, german_term_queries, german_title_query
from lemmata.mine.queries.wording import Pick, Query, definite, is_plural, lower_first, what_is, with_article


def _what_it_says(name: str, rule: str, pick: Pick) -> Query:
    verb = "do" if is_plural(name.split()[-1]) else "does"
    text = pick(rule, f"What {verb} {definite(name)} say?", f"statement of {definite(name)}")
    return Query(text, "question", rule)


def named_result(passage: Passage, pick: Pick, german: bool) -> Iterator[Query]:
    """A statement with a name: `Gordon, 1961` at a theorem asks for `Gordon's theorem`."""
    if passage.kind in ("chunk", "exercise"):
        return
    if german:
        yield from german_named_result(passage, pick)
        return
    name, certainty = note_name(passage.title.replace("’", "'"), passage.kind)
    if " " not in name or re.search(r"\d", name):
        return
    if certainty == "people" and normal(name.split()[0].removesuffix("'s")) in GENERIC_NOUNS:
        return  # `Variant` is nobody's name
    if result_kind(name) and passage.kind not in ("remark", "example"):
        yield _what_it_says(name, "named", pick)
        yield Query(re.sub(r"'s\b", "", lower_first(name)), "keyword", "named")
    else:
        example = " example" if passage.kind == "example" and not name.casefold().startswith("example") else ""
        yield Query(lower_first(name) + example, "keyword", "note")


# ---------------------------------------------------------------- titles of short articles

_PROOF = re.compile(r"(?:(?:another|direct|elementary|simple|short) )?proof of (?P<what>.+)", re.IGNORECASE)

_EXAMPLE = re.compile(r"(?P<kind>(?:counter-?)?example)s? (?P<link>of|to|for) (?P<what>.+)", re.IGNORECASE)
_NO_SUBJECT = re.compile(
    r"^[\d.A-Z]*\d|^(?:chapter|notes?|exercises|index|topic|table|bibliography|proof|introduction|(?!ring|string)\w+ing)\b|[:;?$\\=]"
    r"|\b(?:and|versus|using|to|finding|when|how|why|properties|operations|is|are|has|have|implies|imply|if)\b"
    r"|^(?:alternative |equivalent )?"
    r"(?:characterization|criterion|criteria|definition|condition|equivalent|classification|construction)s?\b",
    re.IGNORECASE,
)


def title_query(title: str, pick: Pick, german: bool) -> Iterator[Query]:
    """What a short article with this title answers; nothing for titles such as `Notes` or `1.2 Products`."""
    title = " ".join(re.sub(r"\([^()]*\)", " ", readable(title)).split())
    if len(title.split()) > 12 or not re.search(r"[^\W\d_]{2}", title):
        return
    if german:
        yield from german_title_query(title, pick)
        return
    if proof := _PROOF.fullmatch(title):
        result = definite(proof["what"])
        yield Query(pick("proof", f"How is {result} proved?", f"How to prove {result}?"), "question", "proof")
        yield Query(re.sub(r"^(?:the|an?) ", "", proof["what"]) + " proof", "keyword", "proof")
    elif example := _EXAMPLE.fullmatch(title):
        kind, what = example["kind"].lower(), example["what"]
        if is_plural(re.split(r" (?:of|in|on|that|which|for)\b", what)[0].split()[-1]):
            yield Query(f"What are {kind}s {example['link']} {what}?", "question", "example")
        else:
            object_ = what if re.match(r"(?:the|an?)\b", what) or "'" in what else with_article(what)
            yield Query(f"What is {with_article(kind)} {example['link']} {object_}?", "question", "example")
        yield Query(re.sub(r"^(?:the|an?) ", "", what) + f" {kind}", "keyword", "example")
    elif not _NO_SUBJECT.search(title):
        if " " in title and result_kind(title):
            yield _what_it_says(title, "title", pick)
        else:
            yield Query(what_is(title), "question", "title")


# ---------------------------------------------------------------- defined terms

_NOUN = r"[Aa]n? (?:\$\w\$-)?[A-Za-z-]+(?: [a-z-]+){0,3}?(?: of [a-z-]+)?"

_INTRODUCED = re.compile(  # `Let $R$ be a ring.`, `A scheme $X$ is`
    rf"\b[Ll]et \$(?P<formula>[^$]+)\$ be (?P<noun>{_NOUN})"
    r"(?=[.,;:]| (?:over|with|in|on|which|such|whose|between|from|to|that|and)\b| \$)"
    rf"|\b(?P<noun_before>{_NOUN}) \$(?P<formula_behind>[^$]+)\$ is\b"
)


def _letter(formula: str) -> str:
    """The symbol that a formula introduces: `f` for `f : X \\to Y`, `R` for `(R, m)`."""
    return re.sub(r"\s+", "", re.split(r"[:,]|\\(?:in|to|subset)\b", formula.lstrip(" ("))[0])


def defined_terms(passage: Passage, pick: Pick, german: bool) -> Iterator[Query]:
    """Terms that a passage defines: up to three of a definition, the first of any other passage."""
    key_in, is_result = (german_key, result_noun) if german else (key_of, result_kind)
    introduced = {}
    for match in _INTRODUCED.finditer(passage.text):
        noun = (match["noun"] or match["noun_before"]).replace("$", "")
        introduced[_letter(match["formula"] or match["formula_behind"])] = noun[0].lower() + noun[1:]
    seen_keys: set[str] = set()
    for term in find_defined_terms(passage, mask(passage.text), passage.id.endswith("@1")):
        key = key_in(term.name)
        if key in seen_keys or is_result(term.name) or term.rule == "stress":
            continue
        seen_keys.add(key)
        if len(seen_keys) > (3 if passage.kind == "definition" else 1):
            return
        yield from german_term_queries(term, pick) if german else _term_queries(term, introduced, pick)


def _term_queries(term: Candidate, introduced: Mapping[str, str], pick: Pick) -> Iterator[Query]:
    """Queries for a defined term; `introduced` are the nouns of the symbols of its passage."""
    name = term.name
    if term.kind == "definition":
        subject = re.search(rf"\$([^$]+)\$ (?:is|are)\b[^$]*\b{re.escape(name)}", term.sentence)
        noun = introduced.get(_letter(subject[1]), "") if subject else ""
        if not noun:
            return
        yield Query(f"What does it mean for {noun} to be {name}?", "question", "defined")
        name = f"{name} {noun.split(' of ')[0].split()[-1]}"
    elif " " in name or re.search(rf"\ban? {re.escape(name)}\b", term.sentence, re.IGNORECASE):
        yield Query(what_is(name), "question", "defined")  # of `the length`, only the passage knows which
    if " " in name:
        yield Query(pick("defined", f"definition of {name}", f"{name} definition"), "keyword", "defined")


# ---------------------------------------------------------------- key words

_WEAK = frozenset(
    """moreover particular following condition case example remark lemma theorem definition section situation notation
    result proof statement property assumption element every fact namely equivalent respect obvious object
    natural canonical data given form way map morphism ring scheme set space integer number function isomorphism
    corresponding associated true sense choice argument hence chapter proposition introduced discussion reader
    good new great detail important happen worry fortiori phenomenon standard obtain meaning easy idea let note
    construct add fit refine ask setting page key necessary equivalently place bibliographic hypothesis always top lower
    upper horizontal arrow vertical left right obviously usual unique distinct
    sequence equality formula type precise collection family subset diagram""".split()
)

_NO_NOUN = re.compile(
    r"(?:ing|ly|ed|izes|ates|ifies|erves|uces|tains|sends|nes|putes|erges|ays|able)$|'s?$|^[A-Z][a-z]+$"
)


def normal_words(passage: Passage) -> set[str]:
    return {normal(word) for run in content_runs(mask(passage.text)) for word, _ in run}


def keywords(passage: Passage, frequency: Mapping[str, int], passages: int, german: bool) -> Iterator[Query]:
    """Up to three of the rarest runs of content words, seven words at most, in the order of the text."""
    runs: dict[str, tuple[float, int, str]] = {}  # normal words: minus rarity, place, words
    for place, run in enumerate(content_runs(mask(re.sub(r"\([^()$]*\)", " ", passage.text)))):
        words = [word for word, _ in run]
        words = german_noun_run(words) if german else words
        keys = [normal(word) for word in words]
        if not 0 < len(words) <= 5 or (
            len(words) == 1 and (len(keys[0]) < 3 or (not german and _NO_NOUN.search(words[0])))
        ):
            continue
        rarity = sum(1 - min(1.0, frequency.get(key, 0) / (0.02 * passages + 1)) for key in keys if key not in _WEAK)
        if rarity > 0.2:
            runs.setdefault(" ".join(keys), (-rarity, place, " ".join(words)))
    chosen: list[tuple[int, str]] = []
    used: set[str] = set()
    length = 0
    for key, (_, place, words_) in sorted(runs.items(), key=lambda item: item[1]):
        size = len(words_.split())
        if len(chosen) < 3 and length + size <= 7 and used.isdisjoint(key.split()):
            chosen.append((place, words_))
            used.update(key.split())
            length += size
    if length >= 3 and length > len(chosen):  # one run of several words at least
        yield Query(" ".join(words_ for _, words_ in sorted(chosen)), "keyword", "keywords")
