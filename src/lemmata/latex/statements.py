r"""The structure of a paper: statements with their proofs, sections, labels, and the prose between them.

Environments are matched with a stack that tolerates mistakes: an unclosed theorem ends before the next statement
or heading, with less confidence, and nothing else is lost.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lemmata.latex.clean import MATH, plain
from lemmata.latex.expand import NO_VALUE, Opening
from lemmata.latex.source import SHORT, VERBATIM, end_of, read_argument, read_optional, skip_blanks
from lemmata.words import fold

__all__ = ["Kind", "Section", "Statement", "Structure", "read_kinds", "read_structure"]

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
}
_KIND_OF_NAME = {name: kind for kind, names in _USUAL.items() for name in names.split()}
_AMBIGUOUS = frozenset(("ex", "eg", "rem"))  # abbreviations that also name commands or other kinds
_UNPROVED = frozenset(
    "definition remark remarks example notation question problem exercise convention situation assumption "
    "axiom conjecture".split()
)
# Environments that hold no statement, however they are used.
_LAYOUT = MATH | VERBATIM | frozenset(
    """
    abstract acknowledgement acknowledgements acknowledgment acknowledgments aligned alignedat alertblock algorithm
    algorithmic algorithm2e appendices appendix array axis bibdiv biblist block bmatrix Bmatrix boxedminipage cases
    CCSXML center code column columns comment compactenum compactitem dcases description diagram displayquote document
    drcases enumerate exampleblock figure figwindow filecontents flushleft flushright footnotesize forest frame framed
    frontmatter gathered inparaenum itemize keyword keywords landscape large leftbar letter lgathered list listing
    longtable lrbox mainmatter matrix mdframed minipage multicols multlined numcases otherlanguage picture pmatrix
    prooftree pspicture quotation quote rcases references rgathered scope shaded sidewaysfigure sidewaystable
    singlespace small smallmatrix spacing split subappendices subarray subequations subfigure subfloat subtable tabbing
    table tablenotes tabular tabularx tabulary tcolorbox thebibliography threeparttable tikzcd tikzpicture titlepage
    trivlist verse vmatrix Vmatrix widetext wrapfigure wraptable xy
    """.split()
)  # fmt: skip


_PLAIN = Opening("")


@dataclass(frozen=True, slots=True)
class Kind:
    """How an environment of this paper is read."""

    kind: str  # theorem, lemma, ...; proof for proofs
    form: str = "plain"  # or restatable, or wrapper
    roles: tuple[str, ...] = ()  # of the braced arguments: title and label of a tcolorbox
    prefix: str = ""  # of the label that is such an argument, with its separator
    opening: Opening = _PLAIN  # of a wrapper


_TITLE_AND_LABEL = ("title", "label")
_USUAL_KINDS = {
    **{name + star: Kind(kind) for name, kind in _KIND_OF_NAME.items() for star in ("", "*")},
    **{name: Kind("", "restatable") for name in ("restatable", "restatable*")},
}
_AROUND_PROOF = frozenset(
    "of the a an and for idea outline main result des der du de la le l d del della dello di skizze idee".split()
)


def kind_of(caption: str) -> str:
    """The kind that a caption names: `Théorème` and `Main Theorem` are theorem, `Situation` is situation.

    `Proof Sketch` and `Proof of the Theorem` are proof, but not `Theorem and Proof` or `Proof System`.
    """
    words = re.findall(r"[a-z]+", fold(caption))
    kinds = [_KIND_OF_NAME[word] for word in words if word in _KIND_OF_NAME]
    if kinds and kinds[0] == "proof" and all(word in _KIND_OF_NAME or word in _AROUND_PROOF for word in words):
        return "proof"
    return next((kind for kind in reversed(kinds) if kind != "proof"), "-".join(words)[:40])


def _kind_of_environment(name: str) -> str:
    """The kind that the name of an environment abbreviates (`Thm`, `mylemma`, `defbox`); empty where it has none."""
    joined = fold(re.sub(r"[^a-zA-Z]", "", name))
    forms = (joined, re.sub(r"^(?:my|the|main|s(?=theorem))", "", joined), re.sub(r"(?:env|box|s|x)$", "", joined))
    return next((_KIND_OF_NAME[form] for form in forms if form in _KIND_OF_NAME), "")


_DECLARATION = re.compile(
    r"\\(newtheorem|spnewtheorem|declaretheorem|newmdtheoremenv|newtcbtheorem|newtheoremenv|NewTcbTheorem"
    r"|tcbmaketheorem|renewtcbtheorem"
    r"|newshadetheorem|newframedtheorem|newmintheorem|newproof|newdefinition|newremark|mdtheorem)(\*?)(?![a-zA-Z])"
)
_BEGIN = re.compile(r"\\begin\s*\{([^{}\n]{1,80})\}")
_LONGEST_OPENING = 4_000


def read_kinds(text: str, environments: Mapping[str, Opening]) -> dict[str, Kind]:
    r"""The statement environments of a paper: those it declares, those it wraps in `\newenvironment`
    (`environments`: their openings by name), the usual names, and those that are used like a statement though
    their definition is missing."""
    kinds = dict(_USUAL_KINDS)
    declared: set[str] = set()
    failures = 0
    for declaration in _DECLARATION.finditer(text):
        kinds_by_name = _read_declaration(text, declaration[1], declaration.end()) if failures < 200 else {}
        failures += not kinds_by_name
        kinds.update(kinds_by_name)
        declared.update(kinds_by_name)
    openings = {name: opening for name, opening in environments.items() if len(opening.text) <= _LONGEST_OPENING}
    for _ in range(3):  # a wrapper may wrap a wrapper
        for name, opening in openings.items():
            kind = None if name in ("document", "tcolorbox") else _kind_of_wrapper(name, opening.text, kinds)
            if kind:
                kinds[name] = Kind(kind, "wrapper", opening=opening)
    kinds.update(_kinds_in_use(text, kinds, declared | environments.keys()))
    return kinds


def _kind_of_wrapper(name: str, opening: str, kinds: Mapping[str, Kind]) -> str:
    """The kind of an environment that opens another one, or prints its heading itself; empty where it is none."""
    word = re.search(r"\\([a-zA-Z]+)", opening)
    begun = [inner for inner in _BEGIN.findall(opening) if inner != name]
    inner_names = [*begun, *([word[1]] if word and word[1] != name else [])]
    wrapped = next((kinds[inner].kind for inner in inner_names if inner in kinds and inner not in _AMBIGUOUS), "")
    own = _kind_of_environment(name)
    if wrapped:
        return own if own == fold(name) or (own and wrapped == "theorem") else wrapped
    if name in kinds:
        return kinds[name].kind
    heading = re.search(r"title\s*=|\\(?:refstepcounter|textbf|bfseries|bf|textsc|scshape)(?![a-zA-Z])", opening)
    if heading is None or not _LAYOUT.isdisjoint(set(begun) - {"tcolorbox", "mdframed", "framed", "trivlist"}):
        return ""
    words = re.findall(r"[a-z]+", fold(plain(re.sub(r"[\[\]=#]", " ", opening))))
    return own or next((_KIND_OF_NAME[word] for word in words if _KIND_OF_NAME.get(word) == word), "")


def _optional(text: str, at: int) -> tuple[str, int]:
    return read_optional(text, at) or ("", at)


def _read_declaration(text: str, command: str, at: int) -> dict[str, Kind]:
    """The environments that one declaration makes; none where it cannot be read."""
    options, at = _optional(text, at)
    name = read_argument(text, at, SHORT)
    if name is None or len(name[0]) > 200:
        return {}
    names = [part.strip() for part in name[0].split(",") if part.strip()]
    after, at = _optional(text, name[1])
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
    r"""How one `\begin` of an environment goes on."""

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
    for match in _BEGIN.finditer(text):
        name = match[1].strip()
        if name.rstrip("*") in _LAYOUT or name in ignored or len(uses.get(name, ())) == _MOST_USES or failures > 200:
            continue
        note, at = _optional(text, match.end())
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
        usual = kinds[name].kind if name in kinds else _kind_of_environment(name)
        roles = _roles(uses)
        if name in kinds and (not roles or kinds[name].form != "plain" or usual == "proof"):
            continue
        if referred is None:
            references = (braced or bracketed for braced, bracketed in _REFERRED.findall(text))
            referred = {key.strip() for keys in references for key in keys.split(",")}
        if roles == ("title",) and all(use.groups[0].strip() in referred for use in uses):
            roles = ("label",)
        prefix = _prefix(uses, roles, referred)
        parts = [dict(zip(roles, use.groups, strict=False)) for use in uses]
        labelled = sum(
            u.labelled or prefix + p.get("label", "").strip() in referred for u, p in zip(uses, parts, strict=True)
        )
        titles = (use.note or part.get("title", "") for use, part in zip(uses, parts, strict=True))
        titled = sum("=" not in title and _CAPITALISED.match(title) is not None for title in titles)
        # A label at its beginning, or a title of words: no other environment has them.
        if usual or (labelled >= 2 and 2 * labelled >= len(uses)) or (titled >= 3 and 3 * titled >= 2 * len(uses)):
            chosen[name] = Kind(usual or kind_of(name) or "statement", roles=roles, prefix=prefix)
    return chosen


def _roles(uses: Sequence[_Use]) -> tuple[str, ...]:
    """What the braced arguments of an environment are, judged by all its uses."""
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


# ---------------------------------------------------------------- structure


class Section(NamedTuple):
    """A heading."""

    offset: int
    end: int  # after the heading
    path: tuple[str, ...]  # titles from the outermost section to this one, LaTeX


@dataclass(slots=True)
class Statement:
    """A statement of the paper; offsets are those of the flat text.

    While the paper is read, also a proof or any other environment: the latter has no kind.
    """

    kind: str
    environment: str
    begin: int  # of \begin
    content: int  # after \begin{...}[note]
    close: int = -1  # of \end
    end: int = -1  # after \end{...}
    note: str = ""  # LaTeX
    label: str = ""
    section: tuple[str, ...] = ()
    proofs: list[tuple[int, int]] = field(default_factory=list)  # contents
    confidence: float = 1.0
    outer: Statement | None = None  # the statement that contains it
    barrier: int = -1  # offset of the first statement inside: where it ends if it is never closed


@dataclass(slots=True)
class Structure:
    """The parts of one paper."""

    statements: list[Statement] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    labels: list[tuple[int, str]] = field(default_factory=list)  # offset and name
    abstracts: list[tuple[int, int]] = field(default_factory=list)
    # Spans that are not prose: statements, their proofs, bibliographies, ...
    apart: list[tuple[int, int]] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)  # offset and cause


_EVENT = re.compile(
    r"\\(?=[\\bcdelpsv])(?:\\|(?P<which>begin|end)\s*\{(?P<name>[^{}\n]*)\}"
    r"|(?P<section>part|chapter|(?:sub){0,2}section|paragraph)\*?(?=\s*[\[{])"
    r"|label\s*\{(?P<label>[^{}]*)\}"
    r"|(?P<plain>proclaim|demo)(?=\s*\{)|(?P<endplain>endproclaim|enddemo)(?![a-zA-Z])"
    r"|verb\*?(?P<fence>[^\sa-zA-Z*])[^\n]{0,2000}?(?P=fence))"
)
_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
_DEPTH = 200  # environments inside environments
_APART = frozenset("thebibliography bibdiv filecontents filecontents* titlepage".split())
_KEY = re.compile(r"(?:^|,)\s*(name|title|label)\s*=\s*(\{[^{}]*\}|[^,]*)")
_REFERRED = re.compile(r"\\(?:ref|[cC]ref|autoref|eqref|nameref|thmref)\*?\s*\{([^{}]*)\}|\\hyperref\s*\[([^\]]*)\]")


class _Head(NamedTuple):
    r"""The beginning of a statement up to its text."""

    kind: str
    note: str
    labels: list[str]
    end: int  # offset of the text


_LONGEST_OPENED = 8_000  # characters of an opening with its arguments inserted
_ARGUMENT = re.compile(r"#([1-9])")
_LABEL = re.compile(r"\\label\s*\{([^{}]*)\}")
_CONDITION = re.compile(
    r"\\(?:(?P<test>If(?:No)?Value|IfBoolean|IfBlank)(?P<branches>TF|T|F)|(?P<blank>ifblank|ifstrempty|notblank))"
    r"(?![a-zA-Z])"
)


def _labels_in(text: str) -> list[str]:
    return [" ".join(label.split()) for label in _LABEL.findall(text) if label.strip()] if "\\label" in text else []


def _choose(text: str) -> str:
    r"""The opening of an environment with the branches for its arguments chosen (`\IfNoValueTF`, `\ifblank`)."""
    for _ in range(10):
        condition = _CONDITION.search(text)
        if condition is None:
            break
        test, branches = condition["test"] or condition["blank"], condition["branches"] or "TF"
        tested = read_argument(text, condition.end(), SHORT)
        end = tested[1] if tested else condition.end()
        chosen: dict[str, str] = {}
        for branch in branches:
            argument = read_argument(text, end, SHORT)
            chosen[branch], end = argument or ("", end)
        value = tested[0].strip() if tested else ""
        holds = {
            "IfNoValue": value == NO_VALUE,
            "IfValue": value != NO_VALUE,
            "IfBoolean": value == "*",
            "notblank": bool(value),
        }.get(test, not value)
        text = text[: condition.start()] + chosen.get("T" if holds else "F", "") + text[end:]
    return text


_REACH = 400  # characters before a proof that may say what is proved
_PROMISE = re.compile(
    r"\b(?:pro(?:ve|ving|ofs?)|establish|beweis(?:en)?|prouv(?:er|ons)|d[ée]montr(?:er|ons)|preuve|d[ée]monstration)\b"
    r"(?!\s+(?:that|is|was|uses?|follows)\b)",
    re.I,
)
_NO_PROMISE = re.compile(
    r"\b(?:not|cannot|before|recall\w*|without|instead|similar\w*|omit\w*|analogous\w*|same|identical|standard|appears?"
    r"|found|later|postpone\w*|defer\w*|appendix|skip|needed?|nicht|bevor|ähnlich)\b",
    re.I,
)
_SENTENCE_END = re.compile(r"(?<!Thm)(?<!Prop)(?<!Lem)(?<!Cor)(?<!Def)[.!?][\s}]+(?=[^\s])|\n[ \t]*\n(?=.*\S)", re.S)
_ANOTHER = re.compile(r"\b(?:another|alternat\w+|second|different|shorter|direct)\s+proof\b", re.I)
_USES = re.compile(r"\b(?:from|using|assuming|by|via|modulo|given|with|aus|mit|depuis)\b")


class _Reader:
    def __init__(self, text: str, start: int, kinds: Mapping[str, Kind]) -> None:
        self.text = text
        self.start = start
        self.kinds = kinds
        self.paper = Structure()
        self.stack: list[Statement] = []  # environments that have begun
        self.path: list[tuple[int, str]] = []
        self.proofs: list[Statement] = []
        self.failures_left = 200  # arguments that never close
        self.unclosed: set[str] = set()  # verbatim environments that never end

    def run(self) -> Structure:
        at = self.start
        while event := _EVENT.search(self.text, at):
            begin, at = event.span()
            if event["which"] == "begin":
                at = self.begin(event["name"].strip(), begin, at)
            elif event["which"] == "end":
                self.end(event["name"].strip(), begin, at)
            elif event["section"]:
                at = self.section(event["section"], begin, at)
            elif event["label"] is not None:
                self.label(event["label"], begin)
            elif event["plain"] and (argument := self.argument(at)):
                at = argument[1]
                kind = "proof" if event["plain"] == "demo" else kind_of(plain(argument[0])) or "theorem"
                self.open("\\" + event["plain"], kind.partition("-")[0], begin, at, argument[0])
            elif event["endplain"]:
                self.end("\\" + event["endplain"][3:], begin, at)
        while self.stack:
            self.give_up(self.stack.pop(), len(self.text))
        self.attach_proofs()
        self.paper.statements.sort(key=lambda s: (s.begin, -s.end))
        self.paper.apart.sort()
        return self.paper

    def argument(self, at: int, text: str | None = None) -> tuple[str, int] | None:
        """A short braced group after `at`; None for all groups once too many never closed."""
        text = self.text if text is None else text
        argument = read_argument(text, at, SHORT) if self.failures_left else None
        if argument is None and text.startswith("{", skip_blanks(text, at)):
            self.failures_left -= self.failures_left > 0
        return argument

    def begin(self, name: str, begin: int, at: int) -> int:
        if name in VERBATIM and name not in self.unclosed:
            if close := end_of(name).search(self.text, at):
                return close.end()
            self.unclosed.add(name)
        kind = self.kinds.get(name)
        if kind is None:
            if len(self.stack) < _DEPTH:
                self.stack.append(Statement("", name, begin, at))
            return at
        head = self.head(self.text, at, kind)
        if head is None:
            return at
        for label in head.labels:
            self.paper.labels.append((begin, label))
        self.open(name, head.kind, begin, head.end, head.note, head.labels[0] if head.labels else "")
        return head.end

    def head(self, text: str, at: int, kind: Kind, depth: int = 4) -> _Head | None:
        r"""What follows the `\begin` of a statement, whose arguments start at `at`; None where they are missing."""
        if kind.form == "wrapper":
            return self.wrapped(text, at, kind, depth)
        note, end = _optional(text, at)
        if kind.kind == "proof":
            return _Head(kind.kind, note, _labels_in(note), end)  # its note says what is proved
        keys: dict[str, str] = dict(_KEY.findall(note)) if "=" in note else {}
        labels = _labels_in(note)
        if keys:
            note = keys.get("name", keys.get("title", "")).strip().strip("{}")
            labels += [keys.get("label", "").strip().strip("{}")]
        statement_kind = kind.kind
        if kind.form == "restatable":
            inner = self.argument(end, text)
            macro = self.argument(inner[1], text) if inner else None
            if inner is None or macro is None:
                return None
            end = macro[1]
            inner_kind = self.kinds.get(inner[0].strip())
            statement_kind = inner_kind.kind if inner_kind else kind_of(inner[0]) or "theorem"
        for role in kind.roles:
            argument = self.argument(end, text)
            if argument is None:
                break
            value, end = argument[0].strip(), argument[1]
            if role == "title":
                note = value
                labels += _labels_in(value)
            elif value:
                labels.append(kind.prefix + value)
        return _Head(statement_kind, note, [" ".join(label.split()) for label in labels if label.strip()], end)

    def wrapped(self, text: str, at: int, kind: Kind, depth: int) -> _Head:
        """The head of an environment that opens another one, or prints its heading itself, with its arguments."""
        values, at = self.values(text, at, kind.opening.arguments)
        opened = _ARGUMENT.sub(lambda m: values[int(m[1]) - 1] if int(m[1]) <= len(values) else "", kind.opening.text)
        opened = _choose(opened)[:_LONGEST_OPENED]
        rest, note, labels = opened, "", []
        for begin in reversed(list(_BEGIN.finditer(opened))):
            inner_kind = self.kinds.get(begin[1].strip())
            if not inner_kind or inner_kind is kind or not depth:
                continue
            # The inner environment may read its arguments from the text, as TeX does.
            inner = self.head(opened + text[at : at + _LONGEST_OPENED], begin.end(), inner_kind, depth - 1)
            if inner is not None:
                rest, note, labels = opened[inner.end :], inner.note, inner.labels
                at += max(0, inner.end - len(opened))
                break
        else:
            box = re.search(r"\\begin\{tcolorbox\}", opened)
            options = _optional(opened, box.end())[0] if box else ""
            labels = [value.strip("{} ") for key, value in _KEY.findall(options) if key == "label"]
        labels = [label for label in (*labels, *_labels_in(rest)) if label]
        if note == NO_VALUE or not note.strip("{} "):
            shown = _LABEL.sub("", rest)
            unsaid = {NO_VALUE, *labels, *(default for _, default in kind.opening.arguments)}
            printed = [value for value in values if value in shown and value not in unsaid and "=" not in value]
            note = ", ".join(value for value in printed if re.search(r"[^\W\d_]", value))  # else it is a number
        return _Head(kind.kind, note, labels, at)

    def values(self, text: str, at: int, arguments: Iterable[tuple[str, str]]) -> tuple[list[str], int]:
        r"""The arguments of a `\begin`, up to the first that is missing, and the offset after them."""
        values: list[str] = []
        for letter, default in arguments:
            if letter == "s":
                values.append("*" * text.startswith("*", at))
                at += len(values[-1])
                continue
            argument = read_optional(text, at) if letter == "o" else self.argument(at, text)
            if argument is None and letter == "m":
                break
            value, at = argument or (default, at)
            values.append(value)
        return values, at

    def open(self, name: str, kind: str, begin: int, content: int, note: str, label: str = "") -> None:
        for outer in reversed(self.stack):
            if outer.barrier >= 0:
                break  # so have all outer ones
            if outer.kind:
                outer.barrier = begin
        if len(self.stack) < _DEPTH:
            around = next((entry for entry in reversed(self.stack) if entry.kind not in ("", "proof")), None)
            entry = Statement(kind, name, begin, content, note=note, label=label, section=self.titles(), outer=around)
            self.stack.append(entry)
        else:
            self.paper.problems.append((begin, f"\\begin{{{name}}} is too deep inside other environments"))

    def titles(self) -> tuple[str, ...]:
        return tuple(title for _, title in self.path)

    def end(self, name: str, begin: int, at: int) -> None:
        kind = self.kinds.get(name)
        depth = next((n for n in range(len(self.stack) - 1, -1, -1) if self.stack[n].environment == name), -1)
        if depth < 0:
            # \begin{theorem} ... \end{thm}: the author meant the open environment
            top = self.stack[-1] if self.stack else None
            if kind is not None and top is not None and top.kind and (top.kind == "proof") == (kind.kind == "proof"):
                self.stack.pop()
                self.close(top, begin, at, 0.8)
                self.paper.problems.append((begin, f"\\end{{{name}}} closes \\begin{{{top.environment}}}"))
            return
        while len(self.stack) > depth + 1:
            self.give_up(self.stack.pop(), begin)
        self.close(self.stack.pop(), begin, at, 1.0)

    def close(self, entry: Statement, close: int, end: int, confidence: float) -> None:
        entry.close, entry.end, entry.confidence = close, end, confidence
        if entry.kind == "proof":
            self.proofs.append(entry)
        elif entry.kind:
            self.paper.statements.append(entry)
            self.paper.apart.append((entry.begin, end))
        elif entry.environment == "abstract" or entry.environment in _APART:
            self.paper.apart.append((entry.begin, end))
            if entry.environment == "abstract":
                self.paper.abstracts.append((entry.content, close))

    def give_up(self, entry: Statement, limit: int) -> None:
        """End an environment that was not closed before an outer one ended."""
        if not entry.kind:
            return
        end = entry.barrier if 0 <= entry.barrier < limit else limit
        paragraph = self.text.find("\n\n", entry.content, end)
        if paragraph > 0 and end - entry.content > 5000:  # its end is not known; keep it short
            end = paragraph
        end = max(end, entry.content)
        self.paper.problems.append((entry.begin, f"\\begin{{{entry.environment}}} is never closed"))
        self.close(entry, end, end, 0.5)

    def section(self, command: str, begin: int, at: int) -> int:
        short, at = _optional(self.text, at)
        argument = self.argument(at)
        if argument is None:
            return at
        self.paper.labels += ((begin, label) for label in _labels_in(short + argument[0]))
        while any(entry.kind for entry in self.stack):  # no statement continues after a heading
            if command == "paragraph":
                return argument[1]
            self.give_up(self.stack.pop(), begin)
        level = _LEVELS.index(command)
        while self.path and self.path[-1][0] >= level:
            self.path.pop()
        self.path.append((level, argument[0]))
        self.paper.sections.append(Section(begin, argument[1], self.titles()))
        return argument[1]

    def label(self, name: str, offset: int) -> None:
        name = " ".join(name.split())
        if not name:
            return
        self.paper.labels.append((offset, name))
        if self.stack and not self.stack[-1].label:
            self.stack[-1].label = name

    def attach_proofs(self) -> None:
        """Attach each proof to the statements that it or the words before it name, else to the one before it."""
        by_label = self.statements_by_label()
        by_note = {name: s for s in self.paper.statements if s.note and (name := _folded(s.note))}
        ordered = sorted(self.paper.statements, key=lambda s: s.end)
        borders = [0, *sorted(s.end for s in (*ordered, *self.proofs)), *(s.end for s in self.paper.sections)]
        borders.sort()
        previous: tuple[int, Statement] | None = None
        for proof in sorted(self.proofs, key=lambda p: p.begin):
            owners = self.named(proof.note, by_label, by_note)
            border = borders[bisect_right(borders, proof.begin) - 1]
            before = self.text[max(border, proof.begin - _REACH) : proof.begin]
            owners = owners or _promised(before, by_label)
            if not owners and previous and previous[0] == border and (not before.strip() or _ANOTHER.search(before)):
                owners = [previous[1]]  # a second proof
            outer = proof.outer
            if not owners and outer and proof.begin < outer.end and outer.kind not in _UNPROVED:
                owners = [outer]
            number = bisect_right(ordered, proof.begin, key=lambda s: s.end)
            if not owners and number and self.follows(proof, ordered[number - 1]):
                owners = [ordered[number - 1]]
            if not owners and proof.section:
                owners = self.named(proof.section[-1], by_label, by_note)
            for statement in owners:
                statement.proofs.append((proof.content, proof.close))
            if owners:
                self.paper.apart.append((proof.begin, proof.end))
                previous = proof.end, owners[0]

    def statements_by_label(self) -> dict[str, Statement]:
        """The innermost statement around each label: also its equations and items name it."""
        by_label: dict[str, Statement] = {}
        statements = sorted(self.paper.statements, key=lambda s: (s.begin, -s.end))
        around: list[Statement] = []
        number = 0
        for offset, label in sorted(self.paper.labels):
            while number < len(statements) and statements[number].begin <= offset:
                around.append(statements[number])
                number += 1
            while around and around[-1].end <= offset:
                around.pop()
            if around:
                by_label.setdefault(label, around[-1])
        return by_label

    @staticmethod
    def named(hint: str, by_label: Mapping[str, Statement], by_note: Mapping[str, Statement]) -> list[Statement]:
        """The statements that a proof names as proved, not those that it uses."""
        if not hint:
            return []
        if statements := _referred(hint, by_label):
            return statements
        name = re.sub(r"^(?:sketch of )?(?:the )?proof (?:sketch )?of (?:the )?", "", _folded(hint))
        return [by_note[name]] if name in by_note else []

    def follows(self, proof: Statement, last: Statement) -> bool:
        """Whether a proof belongs to the last statement before it."""
        between = self.text[last.end : proof.begin]
        if last.proofs or last.kind in _UNPROVED or last.section != proof.section:
            return not between.strip()
        return len(between) < 3000 or not between.strip()


def _promised(before: str, by_label: Mapping[str, Statement]) -> list[Statement]:
    """The statements that the last sentence before a proof says are proved next."""
    if "ref" not in before:
        return []
    sentence = _SENTENCE_END.split(before.strip())[-1]
    promise = _PROMISE.search(sentence)
    if promise is None or _NO_PROMISE.search(sentence):
        return []
    return _referred(sentence[promise.end() :], by_label)


def _referred(hint: str, by_label: Mapping[str, Statement]) -> list[Statement]:
    """The statements that a hint refers to before it says what is used."""
    references = (braced or bracketed for braced, bracketed in _REFERRED.findall(_USES.split(hint)[0]))
    labels = {label.strip() for keys in references for label in keys.split(",")} & by_label.keys()
    return sorted({id(by_label[label]): by_label[label] for label in labels}.values(), key=lambda s: s.begin)


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", plain(text).lower()).strip()


def read_structure(text: str, start: int, kinds: Mapping[str, Kind]) -> Structure:
    """The statements, sections and labels of `text` from `start` on."""
    return _Reader(text, start, kinds).run()
