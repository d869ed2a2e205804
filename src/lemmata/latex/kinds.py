r"""The environments of a paper that hold statements, and the kind of each: theorem, lemma, definition, proof, ...

They are found by the declarations of the paper, by the wrappers it defines, by usual names, and by how they are used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lemmata.core.words import fold
from lemmata.latex.clean import plain
from lemmata.latex.command_table import MATH
from lemmata.latex.commands import BEGIN, referred_labels
from lemmata.latex.expand import Opening
from lemmata.latex.source import DRAWINGS, SHORT, VERBATIM, read_argument, read_optional

_USUAL = {
    "theorem": "theorem thm theo thrm teo theoreme satz maintheorem mainthm teorema stelling",
    "lemma": "lemma lem lemm lma lemme hilfssatz sublemma lema",
    "proposition": "proposition prop propn propo proposicion proposizione",
    "corollary": "corollary cor coro corol cory corollaire korollar folgerung corolario corollario",
    "definition": "definition defn defi dfn defin defs def erklarung definicion definizione",
    "remark": "remark rem rmk rk bemerkung remarque osservazione",
    "example": "example exam examp exmp ex eg beispiel exemple ejemplo esempio",
    "conjecture": "conjecture conj vermutung conjetura congettura",
    "claim": "claim clm behauptung affirmation",
    "fact": "fact tatsache fait",
    "observation": "observation obs beobachtung observacion",
    "question": "question ques frage",
    "problem": "problem prob",
    "exercise": "exercise exer aufgabe ubung exercice ejercicio esercizio",
    "notation": "notation bezeichnung",
    "assumption": "assumption assump hypothesis voraussetzung annahme hypothese",
    "construction": "construction konstruktion",
    "axiom": "axiom",
    "property": "property eigenschaft propriete",
    "convention": "convention",
    "proof": "proof pf prf Proof beweis demo preuve demonstration proofsketch sketch demostracion dimostrazione",
    "solution": "solution sol soln answer losung loesung corrige solucion soluzione",
}
_KIND_OF_NAME = {name: kind for kind, names in _USUAL.items() for name in names.split()}
PROVING = frozenset(("proof", "solution"))  # kinds of what belongs to a statement
STATEMENTS = frozenset(_USUAL) - PROVING
_AMBIGUOUS = frozenset(("ex", "eg", "rem"))  # abbreviations that also name commands or other kinds
# Environments that only place what stands in them: a label in one is that of the statement around it.
PLACING = frozenset(
    """
    adjustbox adjustwidth boxedminipage bigskip center column columns doublespace doublespacing flushleft flushright
    footnotesize framed fullminipage fullwidth landscape large leftbar lrbox mdframed minipage multicols
    nolinebreak nopagebreak onehalfspace onehalfspacing otherlanguage paracol parcolumns quotation quote samepage
    scriptsize shaded singlespace singlespacing sloppypar small snugshade spacing tcolorbox textblock tiny
    turn varwidth widetext
    """.split()
)
# Environments that hold no statement, however they are used.
_LAYOUT = MATH | VERBATIM | DRAWINGS | PLACING | frozenset(
    """
    abstract acknowledgement acknowledgements acknowledgment acknowledgments aligned alignedat alertblock algorithm
    algorithmic algorithm2e appendices appendix array asparaenum asparaitem bibdiv biblist block bmatrix Bmatrix cases
    CCSXML changemargin code comment compactdesc compactenum compactitem dcases description diagram displayquote
    document drcases enumerate exampleblock figure figwindow filecontents floatrow frame frontmatter gathered
    inparaenum inparaitem itemize keyword keywords letter lgathered list listing longtable longtabu mainmatter
    marginfigure margintable matrix multlined numcases onlyenv overprint pmatrix prooftree rcases references rgathered
    rotate SCfigure scope sidecaption sidewaysfigure sidewaystable smallmatrix split subappendices subarray
    subequations subfigure subfigures subfloat subtable supertabular tabbing table tablenotes tabu tabular tabularx
    tabulary tasks thebibliography threeparttable tikzcd titlepage trivlist verse vmatrix Vmatrix wrapfigure wraptable
    xy
    """.split()
)  # fmt: skip
_PLAIN = Opening("")


@dataclass(frozen=True, slots=True)
class Kind:
    """How an environment of this paper is read."""

    kind: str  # theorem, lemma, ...; proof for proofs
    form: str = "plain"  # or restatable, wrapper, call (see `latex.calls`) or drawing; the last has no kind
    roles: tuple[str, ...] = ()  # of the braced arguments: title and label of a tcolorbox
    prefix: str = ""  # of the label that is such an argument, with its separator
    opening: Opening = _PLAIN  # of a wrapper or call
    closing: str = ""  # counters that a call steps after its text


_TITLE_AND_LABEL = ("title", "label")
_USUAL_KINDS = {
    **{name + star: Kind(kind) for name, kind in _KIND_OF_NAME.items() for star in ("", "*")},
    **{name: Kind("", "restatable") for name in ("restatable", "restatable*")},
    **{name: Kind("", "drawing") for name in DRAWINGS},
}
_AROUND_PROOF = frozenset(
    "of to the a an and for idea outline main result des der du de la le l d del della dello di skizze idee".split()
)


def kind_of(caption: str) -> str:
    """The kind that a caption names: `Théorème` and `Main Theorem` are theorem, `Situation` is situation.

    `Proof Sketch` and `Proof of the Theorem` are proof, but not `Theorem and Proof` or `Proof System`.
    """
    words = re.findall(r"[a-z]+", fold(caption))
    kinds = [_KIND_OF_NAME[word] for word in words if word in _KIND_OF_NAME]
    if kinds and kinds[0] in PROVING and all(word in _KIND_OF_NAME or word in _AROUND_PROOF for word in words):
        return kinds[0]
    return next((kind for kind in reversed(kinds) if kind not in PROVING), "-".join(words)[:40])


def short_names(kind: str) -> list[str]:
    """What papers call a kind in environments and labels: thm, theorem, …"""
    return _USUAL.get(kind, kind).split()


def kind_of_environment(name: str) -> str:
    """The kind that the name of an environment abbreviates (`Thm`, `mylemma`, `defbox`); empty where it has none."""
    joined = fold(re.sub(r"[^a-zA-Z]", "", name))
    forms = (joined, re.sub(r"^(?:my|the|main|s(?=theorem))", "", joined), re.sub(r"(?:env|box|s|x)$", "", joined))
    kind = next((_KIND_OF_NAME[form] for form in forms if form in _KIND_OF_NAME), "")
    return kind if kind != "solution" or joined in _KIND_OF_NAME else ""  # "answers" are those to choose from


_DECLARATION = re.compile(
    r"\\(newtheorem|spnewtheorem|declaretheorem|newmdtheoremenv|newtcbtheorem|newtheoremenv|NewTcbTheorem"
    r"|tcbmaketheorem|renewtcbtheorem"
    r"|newshadetheorem|newframedtheorem|newmintheorem|newproof|newdefinition|newremark|mdtheorem)(\*?)(?![a-zA-Z])"
)
LONGEST_OPENING = 4_000


def read_kinds(text: str, environments: Mapping[str, Opening]) -> dict[str, Kind]:
    r"""The statement environments of a paper, by name.

    They are those it declares, those it wraps in `\newenvironment` (`environments` has the openings by name), the
    usual names, and those that are used like a statement though their definition is missing.
    """
    kinds = dict(_USUAL_KINDS)
    declared: set[str] = set()
    failures = 0
    for declaration in _DECLARATION.finditer(text):
        kinds_by_name = _read_declaration(text, declaration[1], declaration.end()) if failures < 200 else {}
        failures += not kinds_by_name
        kinds.update(kinds_by_name)
        declared.update(kinds_by_name)
    openings = {name: opening for name, opening in environments.items() if len(opening.text) <= LONGEST_OPENING}
    for _ in range(3):  # a wrapper may wrap a wrapper
        for name, opening in openings.items():
            kind = None if name in ("document", "tcolorbox") else kind_of_wrapper(name, opening.text, kinds)
            if kind:
                kinds[name] = Kind(kind, "wrapper", opening=opening)
            elif any(begun in DRAWINGS for begun in BEGIN.findall(opening.text)):
                kinds[name] = Kind("", "drawing")
    kinds.update(_kinds_in_use(text, kinds, declared | environments.keys()))
    return kinds


def kind_of_wrapper(name: str, opening: str, kinds: Mapping[str, Kind]) -> str:
    """The kind of an environment that opens another one or prints its own heading; empty if it is no statement."""
    word = re.search(r"\\([a-zA-Z]+)", opening)
    begun = [inner for inner in BEGIN.findall(opening) if inner != name]
    inner_names = [*begun, *([word[1]] if word and word[1] != name else [])]
    kinds_inside = (kinds[inner].kind for inner in inner_names if inner in kinds and inner not in _AMBIGUOUS)
    wrapped = next(filter(None, kinds_inside), "")
    kind_by_name = kind_of_environment(name)
    if wrapped:
        return kind_by_name if kind_by_name == fold(name) or (kind_by_name and wrapped == "theorem") else wrapped
    if name in kinds:
        return kinds[name].kind
    heading = re.search(r"title\s*=|\\(?:refstepcounter|textbf|bfseries|bf|textsc|scshape)(?![a-zA-Z])", opening)
    if heading is None or not _LAYOUT.isdisjoint(set(begun) - {"tcolorbox", "mdframed", "framed", "trivlist"}):
        return ""
    words = re.findall(r"[a-z]+", fold(plain(re.sub(r"[\[\]=#]", " ", opening))))
    printed = next((word for word in words if _KIND_OF_NAME.get(word) == word), "")
    counter = re.search(r"\\refstepcounter\s*\{\s*([a-zA-Z]+)", opening)
    ending = next((kind for kind in _USUAL if counter and fold(name).endswith(kind)), "")  # nexample
    return kind_by_name or printed or ending or (kind_of(name) if counter and counter[1] == name else "")


PRINTED_COUNTER = re.compile(r"\\(?:the[a-zA-Z]+|(?:[aA]rabic|[aA]lph|[rR]oman)\s*\{[^{}]*\})")
# A reference to a label that counters make: `\ref{ex_\arabic{chapter}_\arabic{ex}}`.
COMPUTED_REFERENCE = re.compile(r"\\(?:[cC]|auto)?ref\*?\s*\{([^{}\\]*\\(?:[^{}]|\{[^{}]*\})*)\}")
_NAME_AND_NUMBER = re.compile(r"(?<!\w)([^\W\d_]{1,30}(?:[ -][^\W\d_]{1,30}){0,2}) ?0")


def printed_before_number(opening: str) -> str:
    r"""The words that an opening, with its macros expanded, prints before a number: `Guided Practice~\thegp`."""
    shown = plain(re.sub(r"[\[\]=#,]", ";", PRINTED_COUNTER.sub(" 0 ", opening)))
    name = _NAME_AND_NUMBER.search(" ".join(shown.split()))
    return name[1] if name else ""


def _read_declaration(text: str, command: str, at: int) -> dict[str, Kind]:
    """The environments that one declaration makes; none where it cannot be read."""
    options, at = read_optional(text, at) or ("", at)
    name = read_argument(text, at, SHORT)
    if name is None or len(name[0]) > 200:
        return {}
    names = [part.strip() for part in name[0].split(",") if part.strip()]
    after, at = read_optional(text, name[1]) or ("", name[1])
    roles: tuple[str, ...] = ()
    prefix = ""
    if command == "declaretheorem":
        title = re.search(r"(?:^|,)\s*(?:name|title|heading)\s*=\s*(\{[^{}]*\}|[^,]*)", options + "," + after)
        caption = title[1] if title else ""  # without a title, each name is its own caption
    elif command in ("newproof", "newdefinition", "newremark"):  # elsarticle
        argument = read_argument(text, name[1], SHORT)
        caption = argument[0] if argument else names[0] if names else ""
    else:
        argument = read_argument(text, at, SHORT)
        if argument is None:
            return {}
        caption = argument[0]
        if command.lower().endswith("tcbtheorem") or command == "tcbmaketheorem":
            style = read_argument(text, argument[1])
            counter = style if command != "tcbmaketheorem" else read_argument(text, style[1], SHORT) if style else None
            last = read_argument(text, counter[1], SHORT) if counter else None
            if style is None:
                return {}
            separator = re.search(r"label separator\s*=\s*(\{[^{}]*\}|[^,]*)", f"{options},{style[0]}")
            prefix = last[0].strip() if last else ""
            prefix += (separator[1].strip().strip("{}") if separator else ":") if prefix else ""
            roles = _TITLE_AND_LABEL
    kind = kind_of(plain(caption))
    kinds = {}
    for environment in names:
        own = kind or kind_of(environment) or "statement"
        kinds[environment] = Kind(own, roles=roles, prefix=prefix)
        if roles:
            kinds[environment + "*"] = Kind(own, roles=roles[:1])
    return kinds


# ---------------------------------------------------------------- kinds whose definition is missing


class _Use(NamedTuple):
    r"""What follows one `\begin` of an environment."""

    note: str
    groups: tuple[str, ...]  # at most two
    labelled: bool


_MOST_USES = 200  # of one environment that are looked at
_LABEL_NEXT = re.compile(r"\s*\\label\s*\{")
_LABEL_LIKE = re.compile(r"[^\s{}\\$,]*")
_STYLING = re.compile(r"\s*\\(?:it|bf|em|rm|sl|sc|tt|sf|\w+(?:shape|series|family)|small|large)(?![a-zA-Z])")
_CAPITALISED = re.compile(r"\W{0,5}[^\W\d_a-z][^\W\d_]{2}")


def _uses(text: str, ignored: Collection[str]) -> dict[str, list[_Use]]:
    """The uses of each environment that is not ignored."""
    uses: dict[str, list[_Use]] = {}
    failures = 0
    for match in BEGIN.finditer(text):
        name = match[1].strip()
        if name.rstrip("*") in _LAYOUT or name in ignored or len(uses.get(name, ())) == _MOST_USES or failures > 200:
            continue
        note, at = read_optional(text, match.end()) or ("", match.end())
        groups: list[str] = []
        while len(groups) < 2 and text[at : at + 1] == "{":  # no blank before an argument: a group may follow one
            group = read_argument(text, at, SHORT)
            if group is None:
                failures += 1
                break
            groups.append(group[0])
            at = group[1]
        if not any("#" in part for part in (note, *groups)):  # else it stands in a definition
            labelled = _LABEL_NEXT.match(text, at) is not None or re.search(r"(?:^|,)\s*label\s*=", note) is not None
            uses.setdefault(name, []).append(_Use(note, tuple(groups), labelled))
    return uses


def _kinds_in_use(text: str, kinds: Mapping[str, Kind], defined: Collection[str]) -> dict[str, Kind]:
    """The environments without a definition that are named or used like statements."""
    chosen: dict[str, Kind] = {}
    referred: set[str] | None = None
    for name, uses in _uses(text, defined).items():
        usual = kinds[name].kind if name in kinds else kind_of_environment(name)
        roles = _roles(uses)
        if name in kinds and (not roles or kinds[name].form != "plain" or usual in PROVING):
            continue
        if referred is None:
            referred = referred_labels(text)
        if roles == ("title",) and all(use.groups[0].strip() in referred for use in uses):
            roles = ("label",)
        prefix = _prefix(uses, roles, referred)
        parts = [dict(zip(roles, use.groups, strict=False)) for use in uses]
        labelled = sum(
            u.labelled or prefix + p.get("label", "").strip() in referred for u, p in zip(uses, parts, strict=True)
        )
        titles = (use.note or part.get("title", "") for use, part in zip(uses, parts, strict=True))
        titled = sum("=" not in title and _CAPITALISED.match(title) is not None for title in titles)
        # Only statements start with a label or have a title of words.
        if usual or (labelled >= 2 and 2 * labelled >= len(uses)) or (titled >= 3 and 3 * titled >= 2 * len(uses)):
            chosen[name] = Kind(usual or kind_of(name) or "statement", roles=roles, prefix=prefix)
    return chosen


def _roles(uses: Sequence[_Use]) -> tuple[str, ...]:
    """Which braced arguments of an environment are its title and label, judged by all its uses."""
    count = min(len(use.groups) for use in uses)
    if not count or any(_STYLING.match(use.groups[0]) for use in uses):
        return ()
    if count == 1:
        return ("title",) if len(uses) > 1 and all(len(use.groups[0]) < 200 for use in uses) else ()
    first_fits, second_fits = (all(_LABEL_LIKE.fullmatch(use.groups[n].strip()) for use in uses) for n in (0, 1))
    if second_fits and any(use.groups[1] for use in uses):
        return _TITLE_AND_LABEL
    return ("label", "title") if first_fits else ("title",) if len(uses) > 1 else ()


def _prefix(uses: Iterable[_Use], roles: tuple[str, ...], referred: Collection[str]) -> str:
    """The prefix under which most of the labels are referred to; empty where they are referred to as they are."""
    if roles != _TITLE_AND_LABEL:
        return ""
    labels = {use.groups[1].strip() for use in uses} - {""}
    prefixes = Counter("" for label in labels if label in referred)
    for key in referred:
        prefix, separator, label = key.partition(":")
        if separator and label in labels:
            prefixes[prefix + separator] += 1
    return max(prefixes, key=lambda prefix: (prefixes[prefix], prefix)) if prefixes else ""
