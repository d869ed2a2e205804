"""German names and sentences of mathematics: normal forms, results with names, and the relations sentences state.

German inflects adjectives and articles, writes all nouns with a capital and joins nouns to one word, so it has rules of
its own. Umlauts and ß may be written as letters only; reading LaTeX sees to that.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from lemmata.core.types import Concept, Edge
from lemmata.core.words import fold
from lemmata.graph.concepts.mentions import Mention

# ---------------------------------------------------------------- normal forms

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d+")

_ENDINGS = ("ern", "en", "em", "er", "es", "e", "n", "s")
_IRREGULAR = {"matrizen": "matrix", "basen": "basis", "radien": "radius", "indizes": "index", "zentren": "zentrum"}


@lru_cache(maxsize=200_000)
def german_normal(word: str) -> str:
    """One word without case, umlauts and inflection: `endlichen` to `endlich`, `Untergruppen` to `untergrupp`."""
    text = fold(word)
    if text in _IRREGULAR:
        return _IRREGULAR[text]
    for plural, ending in (("ismen", "ism"), ("ismus", "ism")):
        if text.endswith(plural):
            return text.removesuffix(plural) + ending
    for _ in range(2):  # `Normalteilers` has two endings
        for ending in _ENDINGS:
            rest = text.removesuffix(ending)
            if rest != text and len(rest) > 3 and not (ending == "s" and rest[-1] in "aiousx"):
                text = rest
                break
        else:
            break
    return text


def german_key(phrase: str) -> str:
    """Normal forms joined by blanks: phrases with equal keys are one name in several cases."""
    return " ".join(german_normal(word) for word in _WORD.findall(phrase))


# ---------------------------------------------------------------- results with names

# The nouns of results, each with its gender, genitive and kind.
GERMAN_RESULTS = {
    "satz": ("m", "Satzes", "theorem"), "lemma": ("n", "Lemmas", "theorem"), "theorem": ("n", "Theorems", "theorem"),
    "kriterium": ("n", "Kriteriums", "theorem"), "prinzip": ("n", "Prinzips", "theorem"),
    "ungleichung": ("f", "Ungleichung", "theorem"), "regel": ("f", "Regel", "theorem"),
    "gesetz": ("n", "Gesetzes", "theorem"), "axiom": ("n", "Axioms", "theorem"),
    "vermutung": ("f", "Vermutung", "conjecture"), "formel": ("f", "Formel", "formula"),
    "gleichung": ("f", "Gleichung", "formula"), "identität": ("f", "Identität", "identity"),
    "algorithmus": ("m", "Algorithmus", "technique"), "verfahren": ("n", "Verfahrens", "technique"),
}  # fmt: skip

_PERSON = r"(?:(?:de|von|van) )?[A-ZÄÖÜÉ][^\W\d_]+(?<!ung)(?<!ungen)(?<!heit)(?<!keit)(?<!tion)(?<!tionen)(?<!gruppen)"
_PEOPLE = rf"{_PERSON}(?:(?: und |[-–]|, ){_PERSON}){{0,2}}"
_HEADS = "|".join(noun.capitalize() for noun in GERMAN_RESULTS)
_OF_PEOPLE = re.compile(
    rf"(?:(?P<adjective>(?:[Ee]rste|[Zz]weite|[Dd]ritte|[Kk]leine|[Gg]roße)[nrs]?) )?"
    rf"\b(?P<head>(?:Haupt)?(?:(?i:{_HEADS})))(?:es|s)? von (?P<people>{_PEOPLE})(?![\w-])"
)
_OF_PYTHAGORAS = re.compile(rf"\b(?P<head>{_HEADS})(?:es|s)? des (?P<people>[A-ZÄÖÜ][^\W\d_]+s)\b")
_ADJECTIVE = re.compile(
    rf"(?<![\w-])(?P<person>[A-ZÄÖÜ][^\W\d_]+(?:[-–][A-ZÄÖÜ][^\W\d_]+)*sch)e[nrsm]? "
    rf"(?P<head>(?:{_HEADS}|[A-ZÄÖÜ][a-zäöüß]+satz))(?:s|es)?\b"
)
_STRONG = {"m": "er", "f": "e", "n": "es"}  # without an article


def german_results(masked: str) -> Iterator[str]:
    """Names of results in running text, in the nominative: `dem Satz von Lagrange`, `des Zornschen Lemmas`."""
    for match in _OF_PEOPLE.finditer(masked):
        head = match["head"]
        adjective = f"{match['adjective'].rstrip('nrs')}{_STRONG[gender(head)]} " if match["adjective"] else ""
        adjective = re.sub(r"ee(r|s|)\b", r"e\1", adjective)
        yield f"{adjective[:1].upper()}{adjective[1:]}{head} von {match['people']}"
    for match in _OF_PYTHAGORAS.finditer(masked):
        yield f"{match['head']} des {match['people']}"
    for match in _ADJECTIVE.finditer(masked):
        yield f"{match['person']}{_STRONG[gender(match['head'])]} {match['head']}"


def result_noun(name: str) -> str:
    """The noun of GERMAN_RESULTS that a name has as its head, alone or at the end of a compound; "" for none."""
    words = _WORD.findall(re.split(r"(?<=\w) (?:von|vom|des|der|über|für|zur|zum)\b", name)[0])
    if not words or not words[-1][0].isupper():
        return ""
    last = words[-1].casefold()
    ends = (noun for noun in sorted(GERMAN_RESULTS, key=len, reverse=True) if last.endswith(noun))
    return next((noun for noun in ends if last == noun or noun not in {"lemma", "theorem", "axiom"}), "")


def german_kind(name: str, kind: str) -> str:
    """The kind of a named result; else `object` for a noun and `definition` for a property, or `kind` where given."""
    noun = result_noun(name)
    return GERMAN_RESULTS[noun][2] if noun else kind


_PHRASE = re.compile(
    r"(?:(?<![\w-])(?P<adjective>[A-ZÄÖÜ]?[a-zäöüß]{3,}e[nrsm]?)\s+)?(?<![\w-])(?P<noun>[A-ZÄÖÜ][a-zäöüß]{3,})(?![\w-])"
)


def german_phrases(masked: str) -> Iterator[str]:
    """Nouns of a text, each alone and with the adjective before it."""
    for match in _PHRASE.finditer(masked):
        yield match["noun"]
        if match["adjective"]:
            if match["adjective"][0].isupper():
                yield match["adjective"]  # a noun, unless a sentence begins
            yield match["adjective"].lower()
            yield f"{match['adjective'][0].lower()}{match['adjective'][1:]} {match['noun']}"


def gender(name: str) -> str:
    """`m`, `f` or `n` by the ending of the last noun before a preposition; "" where endings do not tell."""
    noun = result_noun(name)
    if noun:
        return GERMAN_RESULTS[noun][0]
    words = _WORD.findall(re.split(r"(?<=\w) (?:von|vom|des|der|über|auf|mit|in)\b", name)[0])
    last = words[-1].casefold() if words else ""
    if re.search(r"(?:ung|heit|keit|tät|ion|schaft|ik|ur|enz|anz|ie|[^g]e|ge|form|zahl|folge)$", last):
        return "f"
    if re.search(
        r"(?:ismus|or|ling|teiler|körper|ring|raum|kern|rang|grad|satz|weg|punkt|wert|vektor|baum|modul)$", last
    ):
        return "m"
    if re.search(
        r"(?:um|chen|ment|ideal|bild|maß|integral|polynom|system|produkt|gitter|objekt|tensor|element)$", last
    ):
        return "n"
    return ""


def nominative(name: str) -> str:
    """A name with its adjectives as after no article: `endlichen Gruppe` to `endliche Gruppe`.

    Only where the gender is certain or the name is written so; else the name as it is.
    """
    words = name.split(" ")
    noun = next((place for place, word in enumerate(words) if word[:1].isupper()), 0)
    ending = _STRONG.get(gender(" ".join(words[: noun + 1])), "")
    if noun and ending:
        for place in range(noun):
            adjective = re.fullmatch(r"([^\W\d_]{3,}?)e[nrsm]?", words[place])
            if adjective and not re.search(r"(?:lich|isch|sch|ig|bar|t)$", words[place]):
                words[place] = adjective[1] + ending
    return " ".join(words)


# ---------------------------------------------------------------- relations

_FIRST = re.compile(
    r"[\s(•\d.)]*(?:(?:Auch|Insbesondere gilt|Also|Daher|Bemerkung)[.,:]?\s+)?"
    r"(?P<word>[Ee]ine?|[Jj]ede[rs]?|[Aa]lle|[Dd]er|[Dd]ie|[Dd]as)?\s*"
)

_NAMED = r"(?:\s*\$+)?"
_ADVERB = r"(?:auch |stets |immer |selbst |automatisch )?"
_IS_A = re.compile(rf"{_NAMED}\s+ist\s+{_ADVERB}eine?\s+")
_IS = re.compile(rf"{_NAMED}\s+(?:ist|sind)\s+{_ADVERB}")
_CALLED = re.compile(rf"{_NAMED}\s+(?:heißt|heißen|nennt\s+man|nennen\s+wir)\s+(?:dann\s+|auch\s+)?(?:eine?n?\s+)?")
_THE = r"\s+(?:(?:de[rmns]|die|das|eine[rmns]?)\s+)?"
_BETWEEN = tuple(
    (relation, swapped, rule, re.compile(r"\s+" + pattern + _THE))
    for relation, swapped, rule, pattern in (
        ("generalizes", False, "generalizes", r"(?:verallgemeinert|ist\s+eine\s+Verallgemeinerung(?:\s+von)?)"),
        ("generalizes", True, "special case", r"ist\s+(?:nur\s+)?ein\s+(?:Spezialfall|Sonderfall)(?:\s+von|\s+vom)?"),
        ("implies", True, "consequence", r"(?:folgt\s+(?:\w+\s+)?aus|ist\s+eine\s+Folge(?:rung)?\s+(?:aus|von))"),
        ("implies", False, "implies", r"impliziert"),
        ("equivalent_to", False, "equivalent", r"ist\s+äquivalent\s+zu[mr]?"),
    )
)
_IFF = re.compile(r",?\s+wenn\s+(?:sie|er|es|\$+)\s+")
_PHRASE_END = re.compile(
    r"\s*(?:[.;:,)]|$)|\s*\$|\s+(?:mit|deren|dessen|in|auf|über|und|aber|von|für|nach|derart|bei|durch)\b"
)
_CONDITION = re.compile(r"\b(?:wenn|falls|sofern|genau|nur|nicht|kein\w*|außer|aber)\b")
_CLAUSE_END = re.compile(r"\s*(?:[.;:,)]|$)")


def german_relations(
    text: str, start: int, end: int, mentions: Sequence[Mention], kinds: Mapping[str, str]
) -> Iterator[Edge]:
    """Relations that the German sentence `text[start:end]` states between concepts; `text` is masked."""
    for left, right in itertools.pairwise(mentions):
        source, target = left.concept, right.concept
        between, before, after = text[left.end : right.start], text[start : left.start], text[right.end : end]
        if source == target:
            continue
        if re.search(r"\bgenau dann\s+$", before) and _IFF.fullmatch(between) and re.match(r"\s+ist\s*[.;]", after):
            if kinds[source] == kinds[target] == "definition":
                yield Edge(source, "equivalent_to", target, maker="genau dann, wenn")
            continue
        first = _FIRST.fullmatch(before)
        if not first:
            continue
        word = (first["word"] or "").casefold()
        conditional = bool(_CONDITION.search(after))
        both_objects = kinds[source] == kinds[target] == "object"
        if both_objects and word.startswith(("ein", "jede")) and _IS_A.fullmatch(between) and not conditional:
            if _PHRASE_END.match(after):
                yield Edge(source, "is_instance_of", target, maker="is a" if word.startswith("ein") else "every is a")
            continue
        if both_objects and word.startswith("ein") and _CALLED.fullmatch(between) and conditional:
            yield Edge(target, "is_instance_of", source, maker="is called a")
            continue
        universal = (word.startswith("jede") or word == "alle") and kinds[target] == "definition"
        if universal and _IS.fullmatch(between) and _CLAUSE_END.match(after) and not conditional:
            yield Edge(source, "implies", target, maker="every is")
            continue
        for relation, swapped, rule, pattern in _BETWEEN:
            if pattern.fullmatch(between) and _PHRASE_END.match(after):
                one_object = (kinds[source] == "object") != (kinds[target] == "object")
                if not one_object:
                    yield Edge(*((target, relation, source) if swapped else (source, relation, target)), maker=rule)
                break


# The first part of a compound that changes what the second one means: a Halbgruppe is no Gruppe.
_PRIVATIVE = ("halb", "quasi", "pseudo", "fast", "neben", "schief", "nicht", "prä", "anti", "semi", "gegen")


def compound_relations(concepts: Sequence[Concept]) -> Iterator[Edge]:
    """A compound under the noun it ends with, `endliche Gruppe` under `Gruppe`: `is_instance_of`."""
    objects = {german_key(concept.name): concept for concept in concepts if concept.kind == "object"}
    for concept in objects.values():
        words = concept.name.split()
        if len(words) > 1 and words[0][:1].islower() and all(word[:1].islower() for word in words[:-1]):
            target = objects.get(german_key(" ".join(words[1:]))) or objects.get(german_key(words[-1]))
        elif len(words) == 1:
            key = german_key(words[0])
            heads = (key[place:] for place in range(3, len(key) - 3))
            target = next((objects[head] for head in heads if head in objects), None)
        else:
            target = None
        if target and target is not concept and not words[0].casefold().startswith(_PRIVATIVE):
            yield Edge(concept.id, "is_instance_of", target.id, maker="head noun")
