"""Mathematical prose without its letters: `Let $R$ be a ring` lets every later `$R$` be said as `a ring`.

Works on cleaned text, in which every formula stands between single dollars. A formula is one private character
while a text is being taken apart, so that patterns over words can name it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lemmata.latex.readable import readable_formula
from lemmata.latex.sentences import formulas, sentences
from lemmata.words import PHRASE_BREAKS, singular

__all__ = [
    "FORMULA",
    "Masked",
    "Noun",
    "Speaker",
    "declared",
    "masked",
    "plain_formula",
    "with_article",
    "word_overlap",
]

FORMULA = "[\ue000-\uf8ff]"
_FIRST = 0xE000
_MOST = 0xF8FF - _FIRST


class Masked(NamedTuple):
    """Sentences whose formulas are private characters, and the formulas without their dollars."""

    sentences: list[str]
    formulas: list[str]

    def formula(self, mark: str) -> str:
        return self.formulas[ord(mark) - _FIRST]


_ASIDE = re.compile(r"\s*\((?:see|cf|e\.g|i\.e|Section|Lemma|Definition|for example|compare|or)\b[^()]*\)")
_STOP_INSIDE = re.compile(r"([.,;])(?:\s|\\[,;!:]|\\q?quad)*$")


def masked(text: str) -> Masked:
    """The sentences of a text; asides that point elsewhere (`see Lemma`) are left out."""
    text = re.sub(FORMULA, " ", text)
    # a formula that ends a sentence often holds the full stop
    text = _with_formulas(text, lambda inner: f"${_STOP_INSIDE.sub('', inner)}$" + "".join(_STOP_INSIDE.findall(inner)))
    found: list[str] = []

    def mark(inner: str) -> str:
        if len(found) == _MOST:
            return " "
        found.append(inner.strip())
        return chr(_FIRST + len(found) - 1)

    said = [_with_formulas(text[low:high], mark) for low, high in sentences(text)]
    return Masked([" ".join(_ASIDE.sub("", sentence).split()) for sentence in said], found)


def _with_formulas(text: str, change: Callable[[str], str]) -> str:
    pieces: list[str] = []
    at = 0
    for begin, end in formulas(text):
        pieces += (text[at:begin], change(text[begin + 1 : end - 1]))
        at = end
    return "".join(pieces) + text[at:]


# ---------------------------------------------------------------- formulas that can be typed

_SIMPLE = re.compile(r"[^\s\\{}|=<>≤≥→↦∑∏∫∈⊂⊃∪∩,;/()\[\]]{1,8}")
_FIXED = re.compile(r"-?\d+|\\math(?:bb|bf)\s*\{?\s*[A-Z]\s*\}?(?:\^\{?[nmdk\d]\}?)?|\\infty")


def plain_formula(formula: str) -> str:
    r"""A short formula as people type it: `\mathcal{O}_X` as `O_X`, `x^2` as `x^2`; "" where it is too heavy."""
    shown = readable_formula(re.sub(r"\\(?:mathit|text|textit)\b", "", formula)).replace(" ", "")
    typed = ""
    for letter in shown:
        kind, _, base = unicodedata.decomposition(letter).partition(" ")
        script = {"<sub>": "_", "<super>": "^"}.get(kind)
        typed += script + chr(int(base, 16)) if script else letter
    return typed if _SIMPLE.fullmatch(typed) else ""


# ---------------------------------------------------------------- English

_BEGINS_WITH_VOWEL_SOUND = re.compile(
    r"[FHLMNRSXfhlmnrsx](?:$|[-_^0-9( ])|[AEIOaeioéÉ]|u(?!n[iï](?!n|m[^o]|d)|til|su|se|ti|bi)|hon(?:o|es)|hour|8"
)


def with_article(phrase: str) -> str:
    """The indefinite article before a phrase: `a unique ring`, `an F-algebra`, `an étale map`."""
    first = re.sub(r"^\W+", "", phrase)
    one = re.match(r"(?:eu|Euc|one\b|once)", first)
    return ("an " if _BEGINS_WITH_VOWEL_SOUND.match(first) and not one else "a ") + phrase


# ---------------------------------------------------------------- what letters stand for


class Noun(NamedTuple):
    """What a letter was introduced as: `Noetherian ring`, singular and without article."""

    phrase: str  # masked
    definite: bool = False


_TAIL = (
    "of|over|with|in|on|which|such|whose|between|from|to|satisfying|that|where|for|at|relative|having|contained|"
    "generated|endowed|equipped|by"
)
_AT_TAIL = re.compile(rf"\s+(?:(?:{_TAIL})\b|{FORMULA}(?!-))")
_LIST = rf"{FORMULA}(?:(?:,? and |, |,){FORMULA})*"
_BREAK = re.compile(
    r"(?:[.:;]|,? such that| so that| where|,? and (?:let|assume|suppose|denote|put|set|write|consider|that)\b"
    rf"|,? (?:and|let) (?={_LIST} (?:be|is|are)\b)"
    r"|, (?=(?:and|let|where|with|which|such|so|i\.e|that|assume|an?|the|not|then|of|i|for)\b)"
    rf"|,\s*(?={FORMULA})|\(\d)"
)
_LET = re.compile(
    rf"\b(?:[Ll]et|[Ff]ix|[Gg]iven|[Ss]uppose(?: that)?|[Aa]ssume(?: that)?|and) "
    rf"(?P<names>{_LIST}) (?:be|denote) (?P<article>an? |the |some |any |two |three )?(?P<rest>\S.*)"
)
_NOUN_BEFORE = re.compile(
    rf"\b(?P<article>[Aa]n?|[Aa]ny|[Ee]very|[Ee]ach|[Tt]he) "
    rf"(?P<phrase>(?:[A-Za-zé'’-]+ |{FORMULA}-[a-z]+ ){{1,6}})(?P<name>{FORMULA})(?!-)"
)
_NO_HEAD = re.compile(  # adjectives and adverbs, which leave the thing itself unsaid
    r"(?:ly|ous|able|ible|ical|ive|ed|\baffine|\bopen|\bclosed|\bfinite|flat|étale|smooth|Gorenstein|oetherian|acaulay|"
    r"compact|separated|\bcertain|\bsame|\bcorresponding|\bfollowing)$"
)
_COUNTED = frozenset(
    """rank degree dimension characteristic order genus value values exponent index length size level weight depth
    height property type amplitude codimension""".split()
)
_SMALL_WORDS = PHRASE_BREAKS | frozenset(
    """
    modulo divides induces induce maps map_to sends generates generate preserves commutes lifting lifts dividing
    refining mapping generating meeting avoiding intersects meets exceeds annihilates kills fixes isomorphic equivalent
    homeomorphic identical congruent satisfies
    """.split()
)


def _short(formula: str) -> str:
    return re.sub(r"\s+", "", formula)


def declared(text: Masked) -> dict[str, Noun]:
    """What each letter or formula of a statement was said to be, by its formula without blanks."""
    known: dict[str, Noun] = {}
    for sentence in text.sentences:
        rest: str | None = sentence
        while rest and (found := _LET.search(rest)):
            after = found["rest"]
            end = _BREAK.search(after)
            phrase = after[: end.start()].strip() if end else after.strip(" .")
            marks = re.findall(FORMULA, found["names"])
            article = (found["article"] or "").strip()
            several = len(marks) > 1 or "," in text.formula(marks[0]) or article in ("two", "three")
            if phrase and _is_noun(phrase, article, several):
                noun = _noun(phrase, many=not article or article in ("two", "three"), definite=article == "the")
                for mark in marks:
                    _declare(known, text.formula(mark), noun)
            rest = after
        for found in _NOUN_BEFORE.finditer(sentence):
            words = found["phrase"].split()
            if any(word in _SMALL_WORDS - {"of", "over", "with"} for word in words) or words[-1] in _SMALL_WORDS:
                continue
            if _NO_HEAD.search(found["phrase"].strip()) or words[-1] in _COUNTED or singular(words[-1]) != words[-1]:
                continue
            if _short(text.formula(found["name"])) not in known:
                _declare(known, text.formula(found["name"]), Noun(" ".join(words), found["article"].lower() == "the"))
    return known


def _is_noun(phrase: str, article: str, several: bool) -> bool:
    """Whether a phrase after `be` names a thing: `quasi-compact` does not."""
    if re.match(rf"(?:{FORMULA}(?!-)|(?:as|in|an?|the|any|such|not|defined|given)\b)", phrase):
        return False
    if _NO_HEAD.search(_AT_TAIL.split(phrase)[0]):
        return False
    return bool(article) or several or bool(re.search(r"s\b", phrase))


def _noun(phrase: str, *, many: bool, definite: bool) -> Noun:
    words = phrase.split()
    if len(words) > 9:
        cut = re.search(r" (?:with|whose|which|that|having|satisfying|endowed|equipped|such)\b", phrase)
        phrase = phrase[: cut.start()] if cut else phrase
    phrase = phrase.rstrip(" ,")
    if many:
        tail = _AT_TAIL.search(phrase)
        head, rest = (phrase[: tail.start()], phrase[tail.start() :]) if tail else (phrase, "")
        front, blank, last = head.rpartition(" ")
        phrase = front + blank + singular(last) + rest
    return Noun(phrase, definite)


_ENDS = re.compile(
    r"(?:morphism|map|functor|extension|immersion|cover|covering|transformation|inclusion)s? (?:of|between) "
    r"((?:[\w-]+ ){0,3}?[\w-]+s)\b"
)


def _declare(known: dict[str, Noun], formula: str, noun: Noun) -> None:
    """A formula as a noun, and the letters in it by its form: `f : X \\to Y`, `x \\in X`, `(R, m)`."""
    if re.match(r"(?:set|subset|sequence|family|collection|list|number|diagram|exact|commutative)\b", noun.phrase):
        known.setdefault(_short(formula), noun)
        return
    if not re.match(r"\s*[(\[\\{]", formula) or "\\to" in formula:
        for part in re.split(r",(?![^({]*[)}])", formula) if "\\to" not in formula else [formula]:
            known.setdefault(_short(part), noun)
    else:
        known.setdefault(_short(formula), noun)
    arrow = re.match(r"(.+?)(?::|\\colon)(.+?)\\(?:to|rightarrow|longrightarrow|hookrightarrow)\b(.+)", formula)
    ends: tuple[str, ...] = ()
    if arrow:
        known.setdefault(_short(arrow[1]), noun)
        ends = (arrow[2], arrow[3])
    elif bare := re.match(r"(.+?)\\(?:to|rightarrow|longrightarrow|hookrightarrow|subset|subseteq)\b(.+)", formula):
        ends = (bare[1], bare[2])
        if "subset" in formula and not re.search(r"extension|inclusion|map|morphism|pair|fields|rings", noun.phrase):
            known.setdefault(_short(bare[1]), noun)
            return
    elif member := re.match(r"(.+?)(?:\\in\b|\\ge(?:q|qslant)?\b|>|\\le(?:q)?\b|<|=)", formula):
        for part in member[1].split(","):
            known.setdefault(_short(part), noun)
    elif pair := re.match(r"\((.+?),(.+)\)$", formula):
        known.setdefault(_short(pair[1]), noun)
        if "local ring" in noun.phrase and "," not in pair[2]:
            known.setdefault(_short(pair[2]), Noun("maximal ideal", definite=True))
    if ends:
        kind = _ENDS.search(noun.phrase)
        name = kind[1] if kind else "rings" if re.search(r"\bring (?:map|homomorphism|extension)", noun.phrase) else ""
        if name:
            for end in ends:
                for piece in re.split(r"\\to\b", end):
                    known.setdefault(_short(piece), _noun(name, many=True, definite=False))


# ---------------------------------------------------------------- saying a clause


_OBJECTLESS = frozenset("over on in".split())
_GENERIC = frozenset("scheme ring field category site space set base group algebraic".split())
_ELSEWHERE = re.compile(
    r"\b(?:Lemma|Lemmas|Situation|Section|Definition|Definitions|Theorem|Remark|Example|Proposition|Equation|"
    r"Corollary|Diagram|Figure|Table|Chapter|Properties|Conditions?|above|below|following|previous|preceding|"
    r"displayed|diagram|notation|as follows|in the sense of|introduced|constructed|aforementioned|the same|cf|these|"
    r"this|those|respectively|resp)\b"
)


class Speaker:
    """Says clauses of one statement without its letters; the first mention of a letter introduces what it is."""

    def __init__(self, text: Masked, known: Mapping[str, Noun]) -> None:
        self.text, self.known = text, known
        self._said: dict[str, str] = {}
        self._phrases: set[str] = set()

    def fresh(self) -> Speaker:
        """The same with nothing mentioned yet."""
        return Speaker(self.text, self.known)

    def say(self, clause: str, depth: int = 0) -> str:
        """The clause in words, or "" where it can not be said: a heavy formula, an unknown letter, a pointer."""
        clause = re.sub(r"\s*\([^()]*\)", "", clause)
        if _ELSEWHERE.search(clause) or depth > 3:
            return ""
        output = ""
        for piece in re.split(rf"({FORMULA})", clause):
            if not re.fullmatch(FORMULA, piece):
                if output.endswith("\0"):  # something was left out: one blank is enough
                    output = output[:-1].rstrip(" ") + (piece if not piece.startswith("-") else "")
                else:
                    output += piece
                continue
            said = self._formula(piece, clause, output, depth)
            if said is None:
                return ""
            if said == "" and (cut := re.search(r"(?:^|\s)(?:over|on|in)\s*$", output)):
                output = output[: cut.start()]
            output += said or "\0"
        words = " ".join(output.replace("\0", " ").split())
        words = re.sub(r"\s+([,.;:?])", r"\1", words)
        return words.strip(" ,;:")

    def _formula(self, mark: str, clause: str, before: str, depth: int) -> str | None:
        """How to say a formula here; "" to leave it out, None where it can not be said."""
        formula = self.text.formula(mark)
        at = clause.index(mark)
        if clause[at + 1 : at + 2] == "-":
            return plain_formula(formula) or None
        words = before.replace("\0", " ").split()
        last = words[-1].strip(",;:") if words else ""
        noun = self.known.get(_short(formula))
        if last.lower() in _COUNTED and not re.fullmatch(_FIXED, formula.strip()):
            return None
        apposition = bool(last) and last.lower() not in _SMALL_WORDS and not words[-1].endswith((",", ";", ":"))
        if apposition and re.fullmatch(r"[^\W\d_][\w'’-]*", last):
            return ""
        if re.fullmatch(_FIXED, formula.strip()):
            return plain_formula(formula) or None
        if noun is None:
            return None
        short = _short(formula)
        if short in self._said:
            return "the " + self._said[short]
        tail = _AT_TAIL.search(noun.phrase)
        head = noun.phrase[: tail.start()] if tail else noun.phrase
        if (
            last in _OBJECTLESS
            and depth == 0
            and len(words) > 1
            and head.split()[-1] in _GENERIC
            and len(head.split()) < 3
        ):
            return ""
        inner = Speaker(self.text, {key: value for key, value in self.known.items() if value is not noun})
        phrase = inner.say(noun.phrase, depth + 1) or inner.say(head, depth + 1)
        if not phrase or phrase in self._phrases:
            return None  # two things of one name can not be told apart without letters
        self._phrases.add(phrase)
        self._said[short] = head.split()[-1]
        if re.search(FORMULA, self._said[short]):
            self._said[short] = phrase.split()[-1]
        if re.search(r"(?:^|\s)(?:an?|the|every|any|some|each|no)$", before.rstrip()):
            return phrase
        return f"the {phrase}" if noun.definite else with_article(phrase)


# ---------------------------------------------------------------- how much was copied

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def word_overlap(query: str, text: str) -> float:
    """Share of a text's words that stand in a query in the same order; 1.0 for a query that is the whole text."""
    mine, words = _folded(query), _folded(text)
    if not words:
        return 0.0
    # the longest common subsequence, a bit for each word of the query (Hyyrö's bit-vector recurrence)
    places: dict[str, int] = {}
    for place, word in enumerate(mine):
        places[word] = places.get(word, 0) | 1 << place
    full = (1 << len(mine)) - 1
    row = full
    for word in words:
        shared = row & places.get(word, 0)
        row = ((row + shared) | (row - shared)) & full
    return (len(mine) - row.bit_count()) / len(words)


def _folded(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
