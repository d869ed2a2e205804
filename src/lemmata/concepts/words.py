"""Words of mathematical prose: tokens, normal forms, and which words can not belong to the name of a concept.

The lists are for English, with the German words that stand in definitions. Nothing here looks at a corpus.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

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


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Never inside a name: they end a noun phrase.
STOP = _words(
    """
    a an the this that these those it its itself they them their there here he she his her we us our you your i one ones
    some any each every all both either neither no none not only own same other others another such what which who whom
    whose whatever whichever when whenever where wherever while why how whether if unless until since because although
    though however therefore thus hence then than else so too very quite rather also even ever never always often
    sometimes usually again already still just yet now soon once twice moreover furthermore nevertheless otherwise
    instead indeed namely say says said call calls called calling as at by for from in into of off on onto out over per
    through to toward towards under up upon via with within without about above across after against along among
    amongst around before behind below beneath beside besides between beyond despite down during except inside like
    near outside regarding and or but nor is are was were be been being am do does did done doing have has had having
    can could may might must shall should will would let lets suppose assume consider denote denotes denoted denoting
    define defines defined defining mean means meant write writes written writing get gets give gives given giving
    gave take takes taken taking took make makes made making hold holds held holding follow follows followed following
    show shows shown showing prove proves proved proven proving see sees seen seeing note notes noted recall recalls
    observe observes observed find finds found know knows known knowing think use uses used using exist exists existing
    satisfy satisfies satisfied satisfying imply implies implied implying contain contains contained containing
    consist consists consisting belong belongs belonging become becomes obtain obtains obtained choose chooses chosen
    pick set-up sets putting put puts becoming equal equals equaling correspond corresponds depend depends depending
    apply applies applied applying allow allows lie lies lying start starts starting begin begins end ends yield yields
    come comes coming go goes going want wants need needs needed work works try tries require requires required
    provide provides provided represent represents represented representing form forms formed forming replace replaces
    replaced replacing mentioned discussed described stated considered viewed regarded respectively resp etc eg ie cf
    viz i.e e.g iff wrt more most less least many much few several enough last next previous
    preceding above-mentioned certain particular different various respective suitable appropriate similar
    corresponding desired required resulting aforementioned latter former usual whole entire possible able
    clearly obviously easily actually really simply merely precisely exactly roughly basically essentially similarly
    conversely finally firstly secondly generally particularly especially immediately directly explicitly
    trivially evidently certainly probably perhaps maybe respectively necessarily simultaneously together
    two three four five six seven eight nine ten hundred zero
    it's isn't doesn't don't can't let's we'll i'm
    der die das den dem des ein eine einen einem einer eines und oder ist sind war wird werden wenn falls dass daß
    so auch nicht mit von vom zu zum zur im am auf aus bei für über unter durch man wir es sie er sei seien hat haben
    heißt heissen heißen nennt nennen genannt gilt gelten für als wie bis nach vor sich alle jede jeder jedes kein
    """
)

# May stand in a sentence before a term, or as a whole phrase, but are nothing to look up.
GENERIC = _words(
    """
    first second third fourth fifth alternate alternative
    arbitrary following fixed given unique certain nonzero non-zero nonempty non-empty nontrivial non-trivial obvious
    trivial main basic important interesting useful general specific special simple easy hard difficult good bad nice
    big large small great little long short new old right left above below present current crucial key famous
    well-known known unknown standard usual typical common ordinary own actual real-world additional extra further
    relevant analogous similar different distinct identical corresponding respective required desired suitable
    necessary sufficient possible impossible better best worse worst higher-level elementary straightforward direct
    explicit implicit careful complete-proof brief detailed interested concerned true false correct wrong clear
    desirable remaining original initial-given aforementioned preceding previous subsequent final-result such-like
    alternative convenient conventional modern classical-looking historical recent early late informal intuitive
    rigorous precise exact-same concrete abstract-looking technical notable remarkable natural-looking consecutive
    successive existing total-amount overall potential evident naive weaker stronger bigger smaller larger easier
    harder simpler whole entire full various numerous multiple single couple pair-of individual separate
    underlying aforesaid desired chosen displayed stated mentioned obtained constructed described constant-factor
    """
)

# Nothing to look up when they stand alone, and no heads of frequent phrases.
VAGUE = _words(
    """
    condition property fact case example remark note notation result statement proof claim argument assumption
    hypothesis conclusion definition theorem lemma corollary proposition section chapter article paper book entry
    reader author question answer exercise solution problem way manner idea concept notion term word name phrase
    letter expression thing object-lesson item part piece bit side step stage point-of-view view sense context
    situation setting setup set-up choice reason purpose goal aim place time moment day year number-of amount kind
    sort type form shape list table figure picture diagram-chase beginning end middle rest remainder-part role
    difference similarity relationship connection issue matter detail difficulty advantage approach discussion
    introduction summary overview appendix reference bibliography literature history application generalization
    generalisation extension-result variant version analogue analog consequence implication observation calculation
    computation construction description explanation motivation terminology convention comment warning caution
    data information input output user collection family class couple pair triple tuple member element
    subject topic area field-of-study instance occurrence possibility necessity existence uniqueness
    not every unique all some none exactly always never only must same both and or if then iff
    left right top bottom line page text title file work program
    finding hint check test-case mistake error trick method technique criterion rule law principle axiom formula
    equation identity inequality conjecture algorithm procedure process bound estimate symbol sign sum-of value
    assertion follow following above below there hence thus therefore
    """
)
# Adjectives and verbs that definitions use, and that mean nothing alone.
PROPERTY_ONLY = _words(
    """good nice bad trivial standard special general small big large great possible true associated similar effective
    equivalent related induced compatible isomorphic canonical natural identical independent dependent defined extended
    equal bounded-by contained generated determined obtained complete-with called minimal maximal given adapted allowed
    admissible acceptable suitable relevant correct strong weak strict proper-sense nonzero nonempty distinct"""
)
# Heads that leave nothing to look up whatever stands before them.
HOLLOW = _words(
    """case situation setting way manner sense fact example remark notation result statement proof claim assumption
    conclusion section chapter article paper choice reason thing part side step list collection definition notion
    concept term discussion question answer approach"""
)

INNER = _words("of in on over to with by for from at the a an and along under modulo without between up")
THEOREM = _words(
    """theorem theorems lemma lemmas lemmata corollary proposition criterion criteria principle law laws rule rules
    axiom axioms paradox inequality inequalities test satz kriterium problem theorema"""
)
FORMULA = _words("formula formulas formulae equation equations expansion formel bound")
IDENTITY = _words("identity identities relation relations congruence congruences")
CONJECTURE = _words("conjecture conjectures hypothesis")
TECHNIQUE = _words(
    """algorithm algorithms method methods technique procedure sieve trick argument reduction elimination
    factorization factorisation diagonalization"""
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

_IRREGULAR = {
    "matrices": "matrix", "vertices": "vertex", "indices": "index", "bases": "basis", "axes": "axis",
    "criteria": "criterion", "lemmata": "lemma", "formulae": "formula", "topoi": "topos", "tori": "torus",
    "hypotheses": "hypothesis", "analyses": "analysis", "radii": "radius", "loci": "locus", "genera": "genus",
    "tableaux": "tableau", "simplices": "simplex", "spectra": "spectrum", "maxima": "maximum", "minima": "minimum",
    "extrema": "extremum", "suprema": "supremum", "infima": "infimum", "continua": "continuum",
    "polyhedra": "polyhedron", "automata": "automaton", "phenomena": "phenomenon", "foci": "focus",
    "schemata": "schema", "halves": "half", "leaves": "leaf", "sheaves": "sheaf", "presheaves": "presheaf",
    "cosheaves": "cosheaf", "subsheaves": "subsheaf", "parentheses": "parenthesis", "syntheses": "synthesis",
    "annuli": "annulus", "nuclei": "nucleus", "stimuli": "stimulus", "trapezia": "trapezium", "cortices": "cortex",
    "atlas": "atlas", "zeros": "zero",
    "ratios": "ratio", "series": "series", "species": "species", "lens": "lens", "gauss": "gauss",
    "hodge": "hodge", "kaehler": "kahler", "neighbourhood": "neighborhood", "neighbourhoods": "neighborhood",
    "colour": "color", "colours": "color", "colouring": "coloring", "colourings": "coloring", "centre": "center",
    "centres": "center", "fibre": "fiber", "fibres": "fiber", "analogue": "analog", "modulus": "modulus",
    "classes": "class", "processes": "process", "subclasses": "subclass", "abscissae": "abscissa",
}  # fmt: skip


@lru_cache(maxsize=200_000)
def normal(word: str) -> str:
    """One word without case, accents, possessive and plural: `Möbius's` to `mobius`, `Rings` to `ring`."""
    text = word.casefold().replace("’", "'")
    if text in _SPOKEN:
        return _SPOKEN[text]
    text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    if text.endswith("'s"):
        return text[:-2]
    if text.endswith("'"):
        return text[:-1]
    text = text.replace("'", "")
    if text in _IRREGULAR:
        return _IRREGULAR[text]
    if len(text) < 4 or not text.endswith("s") or text.endswith(("ss", "us", "is", "ics", "os")):
        return text
    if text.endswith("ies") and len(text) > 4:
        return text[:-3] + "y"
    if text.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return text[:-2]
    return text[:-1]


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
    if len(words) > LONGEST or small[0] in STOP | GENERIC | INNER or small[-1] in STOP | INNER:
        return ""
    if any(word in STOP and word not in INNER for word in small):
        return ""
    if any(len(word) > 40 for word in words) or (len(words) > 1 and normal(small[-1]) in HOLLOW):
        return ""
    if len(words) == 1:
        plain = key_of(text)
        if len(plain) < 3 or not re.search(r"[^\W\d_]{3}", plain) or normal(text) in VAGUE | GENERIC or plain in VAGUE:
            return ""
        if re.search(r"[a-z][A-Z]|[A-Z]{2}[a-z]", text):
            return ""  # a functor or category, not a word
        if small[0] in PROPERTY_ONLY or (small[0].endswith("ly") and small[0] not in {"assembly", "family", "anomaly"}):
            return ""
    elif all(normal(part) in VAGUE | GENERIC or part.casefold() in INNER | GENERIC for part in WORD.findall(text)):
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
