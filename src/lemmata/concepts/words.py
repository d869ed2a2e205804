"""Words of mathematical prose: tokens, normal forms, and which words can not belong to the name of a concept.

The lists are for English, with the German words that stand in definitions. Nothing here looks at a corpus.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from lemmata.words import GENERIC_ADJECTIVES, GENERIC_NOUNS, LINKING_WORDS, PHRASE_BREAKS, fold, singular

__all__ = [
    "adjective_or_object",
    "clean_term",
    "is_german",
    "key_of",
    "mask",
    "normal",
    "result_kind",
    "sentence_spans",
    "words_of",
]


# Adjectives and verbs that definitions use, and that mean nothing alone.
PROPERTY_ONLY = frozenset(
    """good nice bad trivial standard special general small big large great possible true associated similar effective
    equivalent related induced compatible isomorphic canonical natural identical independent dependent defined extended
    equal bounded-by contained generated determined obtained complete-with called minimal maximal given adapted allowed
    admissible acceptable suitable relevant correct strong weak strict proper-sense nonzero nonempty distinct""".split()
)
# Heads that leave nothing to look up whatever stands before them.
HOLLOW = frozenset(
    """case situation setting way manner sense fact example remark notation result statement proof claim assumption
    conclusion section chapter article paper choice reason thing part side step list collection definition notion
    concept term discussion question answer approach""".split()
)

# May stand inside a name, but neither begin nor end it.
INNER = (LINKING_WORDS - {"or"}) | {"up"}  # `blow up algebra`
THEOREM = frozenset(
    """theorem theorems lemma lemmas lemmata corollary proposition criterion criteria principle law laws rule rules
    axiom axioms paradox inequality inequalities test satz kriterium problem theorema""".split()
)
FORMULA = frozenset("formula formulas formulae equation equations expansion formel bound".split())
IDENTITY = frozenset("identity identities relation relations congruence congruences".split())
CONJECTURE = frozenset("conjecture conjectures hypothesis".split())
TECHNIQUE = frozenset(
    """algorithm algorithms method methods technique procedure sieve trick argument reduction elimination
    factorization factorisation diagonalization""".split()
)
# Heads that make a proper name before them the name of a result; `problem` and `relation` only with a name.
RESULT = THEOREM | FORMULA | IDENTITY | CONJECTURE

FORMULA_SPAN = re.compile(r"\$(?:[^$\\]|\\.)*+\$", re.DOTALL)
_SIMPLE = re.compile(r"\$\s*(?:\\([A-Za-z]+)|([A-Za-z0-9]))\s*\$", re.DOTALL)
_GREEK = {
    name: unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}")
    for name in (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa mu nu xi pi rho sigma tau phi chi psi omega"
    ).split()
} | {"lambda": "λ", "ell": "l", "infty": "∞", "varepsilon": "ε", "varphi": "φ", "aleph": "ℵ"}
_SPOKEN = {letter: name for name, letter in _GREEK.items() if not name.startswith("var")} | {"∞": "infinity"}
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*['’]?|\d+")
TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*['’]?|\d+|[-–‐](?=\w)|[^\s\w]|_")
_SENTENCE_END = re.compile(r"(?<![.!?])[.!?][”\"')\]]*(?=\s+[(\[“\"]?[A-ZÄÖÜÀ-Þ$•\d])|\n\n+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[])(?:[A-Z]|e\.g|i\.e|cf|resp|etc|viz|vs|al|Thm|Prop|Lem|Cor|Def|Eq|Fig|Sec|p|pp|z|B|d|h)\.$"
)


# ---------------------------------------------------------------- text


def mask(text: str) -> str:
    """The text with every formula blanked to dollars of equal length, but `$q$-series` as `  q-series`.

    Offsets stay those of the text. A single letter is kept only where it is glued to a word.
    """

    def blank(found: re.Match[str]) -> str:
        size = found.end() - found.start()
        after = text[found.end() : found.end() + 2]
        if (after[:1] in {"-", "–"} and after[1:].isalpha()) or after == "th":
            simple = _SIMPLE.fullmatch(found[0])
            if simple:
                letter = _GREEK.get(simple[1], "") if simple[1] else simple[2]
                if letter:
                    return letter.rjust(size)
        return "$" * size

    return FORMULA_SPAN.sub(blank, text)


def sentence_spans(masked: str) -> list[tuple[int, int]]:
    """Spans of the sentences of a masked text, in order."""
    spans = []
    start = 0
    for found in _SENTENCE_END.finditer(masked):
        if found[0][0] == "." and _ABBREVIATION.search(masked, max(start, found.start() - 8), found.start() + 1):
            continue
        spans.append((start, found.end()))
        start = found.end()
    spans.append((start, len(masked)))
    return [(first, last) for first, last in spans if masked[first:last].strip()]


def is_german(masked: str) -> bool:
    """Whether the small words of a text are German ones."""
    found = re.findall(r"\b(?:der|die|das|und|ist|ein|eine|von|the|of|is|and|a|an)\b", masked)
    german = sum(word in {"der", "die", "das", "und", "ist", "ein", "eine", "von"} for word in found)
    return german * 2 > len(found)


# ---------------------------------------------------------------- normal forms

# Spellings of one word; the value is the normal form.
_SPELLINGS = {
    "neighbourhood": "neighborhood", "colour": "color", "colouring": "coloring", "centre": "center", "fibre": "fiber",
    "analogue": "analog", "kaehler": "kahler",
}  # fmt: skip


@lru_cache(maxsize=200_000)
def normal(word: str) -> str:
    """One word without case, accents, possessive and plural: `Möbius's` to `mobius`, `Rings` to `ring`."""
    text = word.casefold().replace("’", "'")
    if text in _SPOKEN:
        return _SPOKEN[text]
    text = fold(text)
    if text.endswith("'s"):
        return text[:-2]
    if text.endswith("'"):
        return text[:-1]
    text = singular(text.replace("'", ""))
    return _SPELLINGS.get(text, text)


def words_of(phrase: str) -> list[str]:
    """Words, numbers and single letters of a masked phrase; hyphens part words."""
    return WORD.findall(phrase)


def key_of(phrase: str) -> str:
    """Normal forms joined by blanks: phrases with one key are one name; "" where nothing is left."""
    return " ".join(normal(word) for word in WORD.findall(phrase))


# ---------------------------------------------------------------- names

_BRACKET = re.compile(r"\s*[(\[][^()\[\]]*[)\]]\s*")
_LEADING = re.compile(r"(?:(?:a|an|the|its|their|our|this|ein|eine|einen|der|die|das|den|dem)\s+)+", re.IGNORECASE)
_TRAILING = re.compile(
    r"(?:\s+(?:of|in|on|over|to|with|by|for|from|at|the|a|an|and|or|along|under|modulo|without|between|up|"
    r"relative to|with respect to|associated to|attached to|respect|relative|associated)|\s*\$\S*+)+\s*$"
)
_NOT_IN_NAMES = re.compile(
    r"(?<!\w)(?:is|are|was|be|has|have|if|then|when|where|which|that|such|not|we|it|they|there|does|do|can|"
    r"every|all|each|any|some|exists?|holds?|implies|satisf\w+|iff|given|using|via|let|versus|vs|"
    r"ist|sind|wenn|falls|dass|man|wir)(?!\w)",
    re.IGNORECASE,
)
_QUOTES = str.maketrans("", "", '“”„«»"`')
LONGEST = 6  # words of a name


def clean_term(phrase: str) -> str:
    """A masked phrase as the name of a concept, or "" where it can not be one.

    Articles before it and formulas or small words behind it go; what has a formula or a verb inside, begins with
    a word that says nothing, or is too long, is no name.
    """
    text = " ".join(_BRACKET.sub(" ", re.sub(r"\$+", "$", phrase.translate(_QUOTES))).split()).strip(
        " ,.;:!?-–“”\"'`*~/"
    )
    text = _LEADING.sub("", text, count=1) if _LEADING.match(text) else text
    text = _TRAILING.sub("", text).strip(' ,.;:-–“”"')
    if not text or "$" in text or re.search(r"[\\{}=<>|^_@#&+*/;:,.()\[\]]", text) or _NOT_IN_NAMES.search(text):
        return ""
    words = text.split()
    small = [word.casefold() for word in words]
    if (
        len(words) > LONGEST
        or small[0] in PHRASE_BREAKS | GENERIC_ADJECTIVES | INNER
        or small[-1] in PHRASE_BREAKS | INNER
    ):
        return ""
    if any(word in PHRASE_BREAKS and word not in INNER for word in small):
        return ""
    if any(len(word) > 40 for word in words) or (len(words) > 1 and normal(small[-1]) in HOLLOW):
        return ""
    if len(words) == 1:
        plain = key_of(text)
        if (
            len(plain) < 3
            or not re.search(r"[^\W\d_]{3}", plain)
            or normal(text) in GENERIC_NOUNS | GENERIC_ADJECTIVES
            or plain in GENERIC_NOUNS
        ):
            return ""
        if re.search(r"[a-z][A-Z]|[A-Z]{2}[a-z]", text):
            return ""  # a functor or category, not a word
        if small[0] in PROPERTY_ONLY or (small[0].endswith("ly") and small[0] not in {"assembly", "family", "anomaly"}):
            return ""
    elif all(
        normal(part) in GENERIC_NOUNS | GENERIC_ADJECTIVES or part.casefold() in INNER | GENERIC_ADJECTIVES
        for part in WORD.findall(text)
    ):
        return ""
    if re.search(r"\d{3,}|^th\b|\bof [A-Z]$", text) or not re.search(r"[^\W\d_]{3}", text):
        return ""
    return text


def result_kind(name: str) -> str:
    """`theorem`, `formula`, `identity`, `conjecture` or `technique` by the noun that says so, or ""."""
    words = [word.casefold() for word in WORD.findall(name)]
    head = words[: words.index("of")] if "of" in words else words
    head = head[: head.index("for")] if "for" in head else head
    last = head[-1] if head else ""
    for kind, nouns in (
        ("conjecture", CONJECTURE),
        ("theorem", THEOREM),
        ("identity", IDENTITY),
        ("formula", FORMULA),
        ("technique", TECHNIQUE),
    ):
        if last in nouns:
            return kind
    return ""


_ADJECTIVE = re.compile(r"(?:al|ic|ive|able|ible|ous|ary|ar|ed|ful|less|ent|ant|ian|ean|ete|ite|ute)$")
_NOUNS = frozenset(
    """interval integral ideal logic metric arithmetic topic element complement coefficient component constant
    determinant gradient exponent derivative scalar quotient residual functional numeral cardinal ordinal polynomial
    binomial monomial multinomial variable site discriminant invariant radical primitive table rational statement
    argument segment moment increment antecedent tangent secant cotangent cosecant variant resolvent commutant
    resultant diagonal reciprocal trial signal characteristic heuristic event content parent precedent exponential
    differential potential dual centralizer seed""".split()
)


def adjective_or_object(name: str) -> str:
    """`definition` where the last word of a name looks like an adjective, else `object`."""
    last = name.split()[-1].casefold()
    return "definition" if _ADJECTIVE.search(last) and last not in _NOUNS else "object"
