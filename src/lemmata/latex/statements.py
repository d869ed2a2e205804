r"""The structure of a paper: statements with their proofs, sections, labels, and the prose between them.

Environments are matched with a stack that tolerates mistakes: an unclosed theorem ends before the next statement
or heading, with less confidence, and nothing else is lost.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lemmata.latex.clean import plain
from lemmata.latex.source import SHORT, VERBATIM, end_of, read_argument, read_optional
from lemmata.words import fold

__all__ = ["Kind", "Section", "Statement", "Structure", "read_kinds", "read_structure"]

_USUAL = {
    "theorem": "theorem thm theo thrm teo theoreme satz maintheorem mainthm",
    "lemma": "lemma lem lemm lma lemme hilfssatz sublemma",
    "proposition": "proposition prop propn propo",
    "corollary": "corollary cor coro corol cory corollaire korollar folgerung",
    "definition": "definition defn defi dfn defin defs erklarung",
    "remark": "remark rem rmk rk bemerkung remarque",
    "example": "example exam examp exmp ex eg beispiel exemple",
    "conjecture": "conjecture conj vermutung",
    "claim": "claim clm behauptung affirmation",
    "fact": "fact tatsache fait",
    "observation": "observation obs beobachtung",
    "question": "question ques frage",
    "problem": "problem prob",
    "exercise": "exercise exer aufgabe ubung exercice",
    "notation": "notation bezeichnung",
    "assumption": "assumption assump hypothesis voraussetzung annahme hypothese",
    "construction": "construction konstruktion",
    "axiom": "axiom",
    "property": "property eigenschaft propriete",
    "convention": "convention",
    "proof": "proof pf prf Proof beweis demo preuve demonstration proofsketch sketch",
}
_KIND_OF_NAME = {name: kind for kind, names in _USUAL.items() for name in names.split()}
_UNPROVED = frozenset(
    "definition remark remarks example notation question problem exercise convention situation assumption "
    "axiom conjecture".split()
)


@dataclass(frozen=True, slots=True)
class Kind:
    """How an environment of this paper is read."""

    kind: str  # theorem, lemma, ...; proof for proofs
    form: str = "plain"  # plain, tcolorbox (title and label are arguments), restatable
    prefix: str = ""  # of the labels of a tcolorbox


_USUAL_KINDS = {
    **{name + star: Kind(kind) for name, kind in _KIND_OF_NAME.items() for star in ("", "*")},
    **{name: Kind("", "restatable") for name in ("restatable", "restatable*")},
}


def kind_of(caption: str) -> str:
    """The kind that a caption names: `Théorème` and `Main Theorem` are theorem, `Situation` is situation."""
    words = re.findall(r"[a-z]+", fold(caption))
    return next((_KIND_OF_NAME[word] for word in reversed(words) if word in _KIND_OF_NAME), "-".join(words)[:40])


_DECLARATION = re.compile(
    r"\\(newtheorem|spnewtheorem|declaretheorem|newmdtheoremenv|newtcbtheorem|newtheoremenv|NewTcbTheorem"
    r"|newshadetheorem|newframedtheorem|newmintheorem|newproof|newdefinition|newremark|mdtheorem)(\*?)(?![a-zA-Z])"
)


def read_kinds(text: str, environments: Mapping[str, str]) -> dict[str, Kind]:
    r"""The statement environments of a paper: those it declares, those it wraps in `\newenvironment`
    (`environments`: name to opening text), and the usual names."""
    kinds = dict(_USUAL_KINDS)
    failures = 0
    for declaration in _DECLARATION.finditer(text):
        declared = _read_declaration(text, declaration[1], declaration.end()) if failures < 200 else None
        if declared is None:
            failures += 1
            continue
        names, caption, form, prefix = declared
        kind = kind_of(plain(caption))
        for name in names:
            kinds[name] = Kind(kind or kind_of(name) or "statement", form, prefix)
    for _ in range(3):  # a wrapper may wrap a wrapper
        for name, opening in environments.items():
            word = re.search(r"\\([a-zA-Z]+)", opening)
            inner = [*re.findall(r"\\begin\s*\{([^{}]*)\}", opening), *([word[1]] if word else [])]
            wrapped = next((kinds[i] for i in inner if i in kinds and i not in ("ex", "eg", "rem")), None)
            if wrapped is not None and name != "document":
                kinds.setdefault(name, wrapped)
    return kinds


def _optional(text: str, at: int) -> tuple[str, int]:
    return read_optional(text, at) or ("", at)


def _read_declaration(text: str, command: str, at: int) -> tuple[list[str], str, str, str] | None:
    """Names, caption, form and label prefix from a declaration."""
    options, at = _optional(text, at)
    name = read_argument(text, at, SHORT)
    if name is None or len(name[0]) > 200:
        return None
    names = [part.strip() for part in name[0].split(",") if part.strip()]
    after, at = _optional(text, name[1])
    if command == "declaretheorem":
        title = re.search(r"(?:^|,)\s*(?:name|title|heading)\s*=\s*(\{[^{}]*\}|[^,]*)", options + "," + after)
        return names, title[1] if title else "", "plain", ""  # without a title, each name is its own caption
    if command in ("newproof", "newdefinition", "newremark"):  # elsarticle
        caption = read_argument(text, name[1], SHORT)
        return names, caption[0] if caption else names[0], "plain", ""
    caption = read_argument(text, at, SHORT)
    if caption is None or command not in ("newtcbtheorem", "NewTcbTheorem"):
        return (names, caption[0], "plain", "") if caption else None
    style = read_argument(text, caption[1], SHORT)
    prefix = read_argument(text, style[1], SHORT) if style else None
    return (names, caption[0], "tcolorbox", prefix[0].strip() if prefix else "") if style else None


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

    def argument(self, at: int) -> tuple[str, int] | None:
        """A short braced group after `at`; None for all groups once too many never closed."""
        argument = read_argument(self.text, at, SHORT) if self.failures_left else None
        self.failures_left -= argument is None and self.failures_left > 0
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
        label, statement_kind = "", kind.kind
        note, content = _optional(self.text, at)
        if kind.kind == "proof":
            pass  # its note says what is proved
        elif kind.form == "tcolorbox":
            title = self.argument(content)
            label_argument = self.argument(title[1]) if title else None
            note, content = title or ("", content)
            if label_argument is not None:
                label, content = label_argument[0].strip(), label_argument[1]
                label = f"{kind.prefix}:{label}" if kind.prefix and label else label
        else:
            keys: dict[str, str] = dict(_KEY.findall(note)) if "=" in note else {}
            if keys:
                note = keys.get("name", keys.get("title", "")).strip().strip("{}")
                label = keys.get("label", "").strip().strip("{}")
            if kind.form == "restatable":
                inner = self.argument(content)
                macro = self.argument(inner[1]) if inner else None
                if inner is None or macro is None:
                    return at
                content = macro[1]
                inner_kind = self.kinds.get(inner[0].strip())
                statement_kind = inner_kind.kind if inner_kind else kind_of(inner[0]) or "theorem"
        self.open(name, statement_kind, begin, content, note, label)
        if label:
            self.paper.labels.append((begin, label))
        return content

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
        _, at = _optional(self.text, at)
        argument = self.argument(at)
        if argument is None:
            return at
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
        """Attach each proof to the statements that it names, else to the one before it."""
        by_label = {s.label: s for s in self.paper.statements if s.label}
        by_note = {name: s for s in self.paper.statements if s.note and (name := _folded(s.note))}
        ordered = sorted(self.paper.statements, key=lambda s: s.end)
        previous: tuple[int, Statement] | None = None
        for proof in sorted(self.proofs, key=lambda p: p.begin):
            owners = self.named(proof.note, by_label, by_note)
            if not owners and previous and not self.text[previous[0] : proof.begin].strip():
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

    @staticmethod
    def named(hint: str, by_label: Mapping[str, Statement], by_note: Mapping[str, Statement]) -> list[Statement]:
        """The statements that a proof names as proved, not those that it uses."""
        if not hint:
            return []
        references = (braced or bracketed for braced, bracketed in _REFERRED.findall(_USES.split(hint)[0]))
        labels = {label.strip() for keys in references for label in keys.split(",")} & by_label.keys()
        if labels:
            return sorted((by_label[label] for label in labels), key=lambda s: s.begin)
        name = re.sub(r"^(?:sketch of )?(?:the )?proof (?:sketch )?of (?:the )?", "", _folded(hint))
        return [by_note[name]] if name in by_note else []

    def follows(self, proof: Statement, last: Statement) -> bool:
        """Whether a proof belongs to the last statement before it."""
        between = self.text[last.end : proof.begin]
        if last.proofs or last.kind in _UNPROVED or last.section != proof.section:
            return not between.strip()
        return len(between) < 3000 or not between.strip()


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", plain(text).lower()).strip()


def read_structure(text: str, start: int, kinds: Mapping[str, Kind]) -> Structure:
    """The statements, sections and labels of `text` from `start` on."""
    return _Reader(text, start, kinds).run()
