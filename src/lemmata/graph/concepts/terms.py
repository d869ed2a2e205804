"""Text and names of mathematical prose: masked formulas, sentences, normal forms, and what can name a concept.

The lists are for English, with the German words that stand in definitions. Nothing here looks at a corpus.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from lemmata.core.words import (
    GENERIC_ADJECTIVES,
    GENERIC_NOUNS,
    LINKING_WORDS,
    PHRASE_BREAKS,
    STOP_WORDS,
    fold,
    singular,
)

# Adjectives and verbs of definitions that mean nothing alone.
_NEVER_ALONE = frozenset(
    """good nice bad trivial standard special general small big large great possible true associated similar effective
    equivalent related induced compatible isomorphic canonical natural identical independent dependent defined extended
    equal contained generated determined obtained called minimal maximal given adapted allowed admissible acceptable
    suitable relevant correct strong weak strict nonzero nonempty distinct""".split()
)
# Last words that leave nothing to look up, whatever stands before them.
_HOLLOW_HEADS = frozenset(
    """case situation setting way manner sense fact example remark notation result statement proof claim assumption
    conclusion section chapter article paper choice reason thing part side step list collection definition notion
    concept term discussion question answer approach""".split()
)
# May stand inside a name, but neither begin nor end it; `up` as in `blow up algebra`.
INNER_WORDS = (LINKING_WORDS - {"or"}) | {"up"}
_GENERIC = GENERIC_NOUNS | GENERIC_ADJECTIVES
_KIND_OF_NOUN = {
    noun: kind
    for kind, nouns in {
        "conjecture": "conjecture conjectures hypothesis",
        "theorem": """theorem theorems lemma lemmas lemmata corollary proposition criterion criteria principle law laws
            rule rules axiom axioms paradox inequality inequalities test satz kriterium problem theorema""",
        "identity": "identity identities relation relations congruence congruences",
        "formula": "formula formulas formulae equation equations expansion formel bound",
        "technique": """algorithm algorithms method methods technique procedure sieve trick argument reduction
            elimination factorization factorisation diagonalization""",
    }.items()
    for noun in nouns.split()
}
# Heads of other names, too: a null hypothesis is no conjecture, a Wald test no theorem.
_UNSURE_NOUNS = frozenset(
    """hypothesis criterion criteria kriterium principle law laws rule rules paradox test problem relation relations
    expansion bound argument reduction""".split()
)
TECHNIQUE_NOUNS = frozenset(noun for noun, kind in _KIND_OF_NOUN.items() if kind == "technique")
RESULT_NOUNS = frozenset(_KIND_OF_NOUN) - TECHNIQUE_NOUNS
FORMULA = re.compile(r"\$(?:[^$\\]|\\.)*+\$", re.DOTALL)
_STOP_INSIDE = re.compile(r"[^.\\]\.\s*(?:\\qedhere\s*)?\$$")
_ONE_LETTER = re.compile(r"\$\s*(?:\\([A-Za-z]+)|([A-Za-z0-9]))\s*\$", re.DOTALL)
_GREEK = {
    name: unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}")
    for name in (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa mu nu xi pi rho sigma tau phi chi psi omega"
    ).split()
} | {"lambda": "λ", "ell": "l", "infty": "∞", "varepsilon": "ε", "varphi": "φ", "aleph": "ℵ"}
_LETTER_NAMES = {letter: name for name, letter in _GREEK.items() if not name.startswith("var")} | {"∞": "infinity"}
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*['’]?|\d+")
TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*['’]?|\d+|[-–‐](?=\w)|[^\s\w]|_")
ITEM = r"(?:[-*+]|\d{1,2}[.)])[ \t]"  # of a list in Markdown
_SENTENCE_END = re.compile(
    r"(?<![.!?])[.!?](?:[”\"']*(?=\s+[(\[“\"]?[A-ZÄÖÜÀ-Þ$•\d])|[”\"')\]]+(?=\s+[(\[“\"]?[A-ZÄÖÜÀ-Þ•\d]))"
    rf"|\n\n+|\n(?=[ \t]*{ITEM})"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[]|\b[A-Z]\.)(?:[A-Z]|e\.g|i\.e|cf|resp|etc|viz|vs|al|Thm|Prop|Lem|Cor|Def|Eq|Fig|Sec|p|pp|z|B|d|h)\.$"
)

_LINE_END = re.compile(rf"(?<!\n)\n(?!\n|[ \t]*{ITEM})")  # before an item of LaTeX or a displayed formula
_LONGEST_BRACKET = 800  # characters of a sentence with sentences in brackets


# ---------------------------------------------------------------- text


def mask(text: str) -> str:
    """The text with every formula replaced by as many dollars, but `$q$-series` as `  q-series`; a line end is a blank,
    except before an item of Markdown.

    Offsets stay those of the text. A single letter stays only where it is joined to a word, and the full stop at the
    end of a displayed formula ends its sentence.
    """

    def masked(formula: re.Match[str]) -> str:
        size = formula.end() - formula.start()
        after = text[formula.end() : formula.end() + 2]
        joined = (after[:1] in {"-", "–"} and after[1:].isalpha()) or after == "th"
        simple = _ONE_LETTER.fullmatch(formula[0]) if joined else None
        letter = (simple[2] or _GREEK.get(simple[1])) if simple else None
        if letter:
            return letter.rjust(size)
        return "$" * (size - 1) + "." if _STOP_INSIDE.search(formula[0]) else "$" * size

    return FORMULA.sub(masked, _LINE_END.sub(" ", text))


def sentence_spans(masked: str) -> list[tuple[int, int]]:
    """Spans of the sentences of a masked text, in order."""
    spans = []
    start = 0
    for end in _SENTENCE_END.finditer(masked):
        if end[0][0] == "." and _ABBREVIATION.search(masked, max(start, end.start() - 8), end.start() + 1):
            continue
        is_short = end.end() - start < _LONGEST_BRACKET
        if is_short and masked.count("(", start, end.end()) > masked.count(")", start, end.end()):
            continue  # a footnote
        spans.append((start, end.end()))
        start = end.end()
    spans.append((start, len(masked)))
    return [(first, last) for first, last in spans if masked[first:last].strip()]


# ---------------------------------------------------------------- normal forms

# Spellings of one word, and the normal form.
_SPELLINGS = {
    "neighbourhood": "neighborhood", "colour": "color", "colouring": "coloring", "centre": "center", "fibre": "fiber",
    "analogue": "analog", "kaehler": "kahler",
}  # fmt: skip


@lru_cache(maxsize=200_000)
def normal(word: str) -> str:
    """One word without case, accents, possessive and plural: `Möbius's` to `mobius`, `Rings` to `ring`."""
    text = word.casefold().replace("’", "'")
    if text in _LETTER_NAMES:
        return _LETTER_NAMES[text]
    text = fold(text)
    if text.endswith(("'s", "'")):
        return text.rpartition("'")[0]
    text = singular(text.replace("'", ""))
    return _SPELLINGS.get(text, text)


def key_of(phrase: str) -> str:
    """Normal forms joined by blanks: phrases with equal keys are one name; "" where nothing is left."""
    return " ".join(normal(word) for word in _WORD.findall(phrase))


# ---------------------------------------------------------------- names

_BRACKET = re.compile(r"\s*[(\[][^()\[\]]*[)\]]\s*")

_LEADING = re.compile(
    r"^(?:(?:a|an|the|its|their|our|this|eine?[nmrs]?|der|die|das|den|dem|des|ihre[nrsm]?|seine[nrsm]?)\s+)+",
    re.IGNORECASE,
)
_TRAILING = re.compile(
    r"(?:\s+(?:of|in|on|over|to|with|by|for|from|at|the|a|an|and|or|along|under|modulo|without|between|up|"
    r"relative to|with respect to|associated to|attached to|respect|relative|associated|parametrized)|\s*\$\S*+)+\s*$"
)
_NOT_IN_NAMES = re.compile(
    r"(?<!\w)(?:is|are|was|be|has|have|if|then|when|where|which|that|such|not|we|it|they|there|does|do|can|"
    r"every|all|each|any|some|exists?|holds?|implies|satisf\w+|iff|given|using|via|let|versus|vs|"
    r"ist|sind|wenn|falls|dass|man|wir)(?!\w)",
    re.IGNORECASE,
)
_QUOTES = str.maketrans("", "", '“”„«»"`')
_MOST_WORDS = 6  # of a name; longer phrases are descriptions
_MOST_LETTERS = 40  # of one word


def clean_term(phrase: str, marked: bool = False) -> str:
    """A masked phrase as the name of a concept, or "" where it cannot be one.

    Leading articles and trailing formulas or prepositions are removed. A phrase with a formula or a verb inside, one
    that begins with a generic word, and one that is too long is no name. An author who has `marked` a generic word as a
    term means it: `type`, `trivial group`.
    """
    text = " ".join(_BRACKET.sub(" ", re.sub(r"\$+", "$", phrase.translate(_QUOTES))).split()).strip(
        " ,.;:!?-–“”\"'`*~/"
    )
    text = _TRAILING.sub("", _LEADING.sub("", text)).strip(' ,.;:-–“”"')
    if not text or "$" in text or re.search(r"[^\w\s'’\-–‐]|_", text) or _NOT_IN_NAMES.search(text):
        return ""
    words = text.split()
    small = [word.casefold() for word in words]
    breaks = STOP_WORDS if marked else PHRASE_BREAKS
    if len(words) > _MOST_WORDS or any(word in breaks or word in INNER_WORDS for word in (small[0], small[-1])):
        return ""
    if any(len(word) > _MOST_LETTERS or (word in breaks and word not in INNER_WORDS) for word in small):
        return ""
    if not marked and _is_generic(text, words):
        return ""
    if re.search(r"\d{3,}|^th\b|\bof [A-Z]$", text) or not re.search(r"[^\W\d_]{3}", text):
        return ""
    return text


def _is_generic(text: str, words: list[str]) -> bool:
    """Whether a phrase says too little to be looked up."""
    if words[0].casefold() in GENERIC_ADJECTIVES or (len(words) == 1 and not _is_name(text)):
        return True
    if len(words) > 1 and normal(words[-1]) in _HOLLOW_HEADS:
        return True
    return all(normal(part) in _GENERIC or part.casefold() in INNER_WORDS for part in _WORD.findall(text))


def _is_name(word: str) -> bool:
    """Whether a single word can name a concept."""
    key, small = key_of(word), word.casefold()
    if len(key) < 3 or not re.search(r"[^\W\d_]{3}", key) or normal(word) in _GENERIC or key in GENERIC_NOUNS:
        return False
    if re.search(r"[a-z][A-Z]|[A-Z]{2}[a-z]", word):
        return False  # a functor or category, not a word
    return small not in _NEVER_ALONE and (not small.endswith("ly") or small in {"assembly", "family", "anomaly"})


def result_kind(name: str) -> str:
    """`theorem`, `formula`, `identity`, `conjecture` or `technique` by the head noun of a name, or ""."""
    return _KIND_OF_NOUN.get(_head(name), "")


def sure_kind(name: str) -> str:
    """`result_kind`, but "" where the head noun has other meanings: there a statement of that name must tell."""
    return "" if _head(name) in _UNSURE_NOUNS else result_kind(name)


def _head(name: str) -> str:
    words = _WORD.findall(re.split(r"\b(?:of|for)\b", name.casefold(), maxsplit=1)[0])
    return words[-1] if words else ""


_ADJECTIVE = re.compile(r"(?:al|ic|ive|able|ible|ous|ary|ar|ed|ful|less|ent|ant|ian|ean|ete|ite|ute)$")
_NOUNS = frozenset(  # that end like an adjective
    """interval integral ideal logic metric arithmetic topic element complement coefficient component constant
    determinant gradient exponent derivative scalar quotient residual functional numeral cardinal ordinal polynomial
    binomial monomial multinomial variable site discriminant invariant radical primitive table rational statement
    argument segment moment increment antecedent tangent secant cotangent cosecant variant resolvent commutant
    resultant diagonal reciprocal trial signal characteristic heuristic event content parent precedent exponential
    differential potential dual centralizer seed""".split()
)


def property_or_object(name: str) -> str:
    """`definition` (a property) where the last word of a name looks like an adjective, else `object`."""
    last = name.split()[-1].casefold()
    return "definition" if _ADJECTIVE.search(last) and last not in _NOUNS else "object"
