"""Which symbols a text uses without saying what they are.

A symbol is a letter or an operator with its font and accent, once without and once with its indices: `X` and `X_z`.
What introduces it stands next to it: a noun ("a group $G$"), a verb ("$G$ is a", "denoted by $G$"), or a relation in
the formula (`x \\in X`, `f: X \\to Y`). The rules see the order of words, not their sense.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lemmata.graph.concepts.terms import FORMULA

_GREEK = (
    r"(?:var)?(?:alpha|beta|gamma|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|rho|sigma|tau|phi|chi|psi|omega)|"
    r"Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)
_FONT = (
    r"math(?:cal|scr|frak|bf|sf|it)|boldsymbol|tilde|hat|bar|check|vec|dot|wide(?:tilde|hat)|overline|cal|bf|it|frak"
)
_LETTER = rf"(?:[A-Za-z](?![A-Za-z])|\\(?:{_GREEK})(?![A-Za-z]))"
_GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_LAYOUT = re.compile(  # says nothing about symbols
    rf"\\(?:begin|end)\s*{_GROUP}(?:\s*{_GROUP})?|\\(?:[hv]space\*?|h?box|mbox|text[a-z]*|label|tag|color)\s*{_GROUP}|"
    r"\\rm(?![a-z])\s*[A-Za-z]+|\\mkern\s*-?[\d.]+\s*mu|\\[,;!:> ]|\\q?quad\b|\\[Bb]ig+[lrm]?(?![a-z])|"
    r"\\(?:left|right|limits|qedhere|mathrel|ensuremath|displaystyle)(?![a-z])|"
    r"\^\s*\{?\s*(?:\\(?:mathrm|text)\s*\{\s*)?(?:th|rd|nd|st|op|T)\b[\s}]*"
)
_BRACED = re.compile(rf"(?<![A-Za-z_^])\{{\s*(\\(?:{_FONT})(?![A-Za-z])\s*(?:\{{\s*{_LETTER}\s*\}}|{_LETTER}))\s*\}}")
_TOKEN = re.compile(
    rf"(?P<symbol>\\(?:{_FONT})(?![A-Za-z])\s*(?:\{{\s*{_LETTER}\s*\}}|{_LETTER})|"
    rf"\\(?:{_GREEK})(?![A-Za-z])|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z]{{3}})|(?<=[A-Za-z])(?<![A-Za-z]{{3}})[A-Za-z])|"
    rf"(?P<operator>\\(?:operatorname\*?|math(?:rm|sf|it|tt|cal|frak|bb\w*))\s*(?:{_GROUP}|[A-Z])|[A-Za-z]{{4,}})|"
    r"(?P<other>\\[A-Za-z]+|\\.|:\s*=|\S)"
)
# Numbers, indices and what has one meaning everywhere.
_CUSTOMARY = frozenset("i j k l m n d e I O \\mathcalP".split())
_RELATIONS = frozenset(
    """: := = < > | \\in \\ni \\colon \\vcentcolon \\coloneqq \\subset \\subseteq \\supset \\supseteq \\subsetneq \\le
    \\leq \\leqslant \\ge \\geq \\geqslant \\ne \\neq \\mapsto \\equiv \\simeq \\cong \\mid \\sim \\to \\rightarrow
    \\longrightarrow \\hookrightarrow \\triangleleft \\lhd \\unlhd \\trianglelefteq \\not \\defeq""".split()
)
_DEFINES = frozenset("= := \\coloneqq \\vcentcolon \\equiv \\simeq \\mapsto \\defeq".split())
_ARROWS = frozenset("\\to \\rightarrow \\longrightarrow \\hookrightarrow \\times".split())
_OPENS, _CLOSES = frozenset("( { [ \\{ \\lbrace \\langle".split()), frozenset(") } ] \\} \\rbrace \\rangle".split())
_PREPOSITION = re.compile(
    r"\b(?:of|on|in|from|to|by|with|over|at|under|between|into|onto|through|than|along|via|for|as)\W*$", re.IGNORECASE
)
_BINDS_NOT = re.compile(
    r"\b(?:is|are|be|not|that|then|the|an?|this|if|iff|when|since|and|or|its|contain\w*|satisf\w+|includ\w+|equals?|"
    r"divid\w+|generat\w+|preserv\w+|fix\w+|call\w*|have|has|mean\w*|does|do|so|both|we|say|of the form)\W*$|"
    r"[^\w\s]\W*$|^\W*$",
    re.IGNORECASE,
)
_BINDS_BEFORE = re.compile(r"\b(?:denot\w+|writ\w+|symbol|abbreviat\w+)(?: \w+){0,2}\s*$", re.IGNORECASE)
_KNOWN_BEFORE = re.compile(  # `the topology $S$`: another sentence has told which
    r"\b[Tt]he (?!set|element|number|form|ring|field|variable|symbol|letter|notation|equation)(?!Ŧ)[\w-]+ $"
)
_TOLD_AFTER = re.compile(
    r"\s*(?:of|such|whose|where|which|that|given|defined|consist\w+|generated|contain\w+|with|by|from|formed)\b"
)
_BE_AFTER = re.compile(
    r"\s*(?:\([^()]*\)\s*)?(?:(?:is|are|means)\s+(?:an?|the|any|some|one|defined)\b(?! Ŧ+ (?:if|iff|when|of)\b)|"
    r"are (?:\w+ )?\w+s\b|"
    r"(?:and|or|,)\s+\$+\s+are (?:\w+ )?\w+s\b)"
)
_BINDS_AFTER = re.compile(
    r"\s*(?:\([^()]*\)\s*)?(?:be(?:ing)?\b|denotes?\b|stands? for\b|ranges?\b|an?\b|the\b|"
    r"(?:and|or|,)\s+\$+\s+(?:be|denote)\b)"
)


class Symbols(NamedTuple):
    """The symbols of a text: those it uses, and those it introduces."""

    used: frozenset[str]
    bound: frozenset[str]
    letters: frozenset[str]  # those used without operators, indices, and letters that need no introduction
    alone: frozenset[str]  # the letters that are a whole formula: what the text speaks of

    @property
    def missing(self) -> frozenset[str]:
        return self.used - self.bound


class _Token(NamedTuple):
    text: str
    kind: str  # "symbol", "operator" or "other"


def symbols_of(text: str, name: str = "") -> Symbols:
    """The symbols of a text; if it defines `name`, the letters in the name need no introduction."""
    plain = FORMULA.sub(lambda formula: "$" * (formula.end() - formula.start()), text)
    if name:  # `$G$ is a group` says what $G$ is where something else is defined
        plain = re.sub(re.escape(name), lambda match: "Ŧ" * len(match[0]), plain, flags=re.IGNORECASE)
    used: set[str] = set()
    bound: set[str] = set()
    letters: set[str] = set()
    alone: set[str] = set()
    introduced = False
    end = 0
    for formula in FORMULA.finditer(text):
        tokens = _tokens(formula[0])
        is_joined = bool(re.match("[-–]", plain[formula.end() : formula.end() + 1]))  # a $\\sigma$-algebra
        for place, token in enumerate(tokens):
            if token.kind != "other" and not _is_index(tokens, place):
                used |= _forms(tokens, place)
                letters |= {token.text} if token.kind == "symbol" and not is_joined else set()
        if tokens and _after_indices(tokens, 0) == len(tokens) and not is_joined:
            alone.add(tokens[0].text)
        bound |= _bound_inside(tokens)
        is_listed = bool(end) and re.fullmatch(r"[\s,]*(?:(?:and|or)[\s,]*)?", plain[end : formula.start()])
        end = formula.end()
        introduced = _is_introduced(plain, formula.start(), end) or bool(is_listed and introduced)
        if introduced:
            bound |= _leading(tokens)
    letters -= _CUSTOMARY | set(re.findall(r"(?<!\w)[A-Za-z](?!\w)", name))
    return Symbols(frozenset(used), frozenset(bound), frozenset(letters), frozenset(alone & letters))


def _is_introduced(plain: str, start: int, end: int) -> bool:
    """Whether the words around a formula say what it is."""
    before, after = plain[max(0, start - 60) : start], plain[end : end + 80]
    if before.rstrip().endswith(("(", "such as")) and re.match(r"\s*[,).]", after):
        return True
    if _BINDS_BEFORE.search(before) or _BINDS_AFTER.match(after):
        return True
    if _KNOWN_BEFORE.search(before) and not _TOLD_AFTER.match(after) and not _BE_AFTER.match(after):
        return False
    return not _PREPOSITION.search(before) and bool(not _BINDS_NOT.search(before) or _BE_AFTER.match(after))


def _tokens(formula: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(_BRACED.sub(r"\1 ", _LAYOUT.sub(" ", formula.strip("$")))):
        kind = match.lastgroup or "other"
        text = "".join(match[0].split()) if kind == "other" else re.sub(r"[\s{}]+", "", match[0])
        is_macro = kind == "other" and re.fullmatch(r"\\[A-Z][A-Za-z]+", text)  # a name that the author made
        tokens.append(_Token(text, "operator" if is_macro else kind))
    return tokens


def _is_index(tokens: list[_Token], place: int) -> bool:
    depth = 0
    for token in reversed(tokens[:place]):
        depth += (token.text in _CLOSES) - (token.text in _OPENS)
        if depth <= 0 and token.text in {"_", "^"}:
            return True
        if depth == 0:
            return False
    return False


def _after_group(tokens: list[_Token], place: int) -> int:
    """The place after a token, or after the brackets that open there."""
    depth = 0
    while place < len(tokens):
        depth += (tokens[place].text in _OPENS) - (tokens[place].text in _CLOSES)
        place += 1
        if depth <= 0:
            break
    return place


def _after_indices(tokens: list[_Token], place: int) -> int:
    """The place after a symbol with its indices and primes."""
    place += 1
    while place < len(tokens) and tokens[place].text in {"_", "^", "'", "\\prime"}:
        place = _after_group(tokens, place + 1) if tokens[place].text in {"_", "^"} else place + 1
    return place


def _forms(tokens: list[_Token], place: int) -> set[str]:
    """A symbol without and with its indices."""
    whole = "".join(token.text for token in tokens[place : _after_indices(tokens, place)] if token.text not in "{}")
    return {tokens[place].text, whole}


def _bound_inside(tokens: list[_Token]) -> set[str]:
    """The symbols of a formula that a relation in it introduces."""
    bound: set[str] = set()
    listed: set[str] = set()  # x, y, z \in X
    for place, token in enumerate(tokens):
        before = tokens[place - 1].text if place else "{"
        if token.text in {"(", "\\langle"} and before == "=":
            tuple_end = _after_group(tokens, place)
            bound |= {other.text for other in tokens[place:tuple_end] if other.kind == "symbol"}
        if token.kind == "other" or before in {"_", "^"}:
            continue
        forms, after = _forms(tokens, place), _after_indices(tokens, place)
        follows = tokens[after].text if after < len(tokens) else ""
        is_variable = before in {"\\forall", "\\exists"} or (before, follows) == ("[", "]")
        if is_variable or before in _ARROWS or follows in _ARROWS:
            bound |= forms
        listed = listed | forms if before == "," else forms
        if follows in _RELATIONS and before in _OPENS | {",", "\\forall", "\\exists"} | (_RELATIONS - {"\\in"}):
            bound |= listed
        if follows == "(":
            end = _after_group(tokens, after)
            arguments = tokens[after + 1 : end - 1]
            is_plain = all(part.kind == "symbol" or not re.match(r"[-+*/(\\]", part.text) for part in arguments)
            defines = end < len(tokens) and tokens[end].text in _DEFINES
            if is_plain and defines and len(tokens) - end > 2:
                bound |= forms | {part.text for part in arguments if part.kind == "symbol"}
    return bound


def _leading(tokens: list[_Token]) -> set[str]:
    """The symbols of the list or tuple that a formula is, or begins with up to a relation."""
    symbols: set[str] = set()
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.kind != "other":
            symbols |= _forms(tokens, place)
            place = _after_indices(tokens, place)
            if place < len(tokens) and tokens[place].text == "(":
                place = _after_group(tokens, place)
        elif token.text in {",", "/", "\\ldots", "\\dots", "\\cdots", ".", "\\{", "\\}", "{", "}"}:
            place += 1
        elif token.text in _RELATIONS:
            return symbols
        elif token.text in {"(", "["} and not symbols:
            end = _after_group(tokens, place)
            return {other.text for other in tokens[place:end] if other.kind == "symbol"}
        else:
            return set()
    return symbols
