r"""The structure of a paper: statements with their proofs, sections, labels, and the prose between them.

Environments are matched with a stack that expects mistakes: an unclosed theorem ends at the next thing that
can not stand inside it, with less confidence, and nothing else is lost.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lemmata.latex.clean import plain
from lemmata.latex.source import SHORT, VERBATIM, match_bracket, read_argument

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
    "algorithm": "",
    "axiom": "axiom",
    "property": "property eigenschaft propriete",
    "convention": "convention",
}
_KIND_OF_NAME = {name: kind for kind, names in _USUAL.items() for name in names.split()}
_KIND_OF_CAPTION = _KIND_OF_NAME | {"behauptung": "claim", "theoreme": "theorem", "hilfssatz": "lemma"}
_PROOFS = frozenset("proof pf prf proof* Proof beweis demo preuve demonstration proofsketch sketch".split())
_UNPROVED = frozenset(
    "definition remark remarks example notation question problem exercise convention situation assumption "
    "axiom conjecture".split()
)


@dataclass(frozen=True, slots=True)
class Kind:
    """How an environment of this paper is read."""

    kind: str  # theorem, lemma, ...; proof for proofs
    form: str = "plain"  # plain, tcolorbox (title and label as arguments), restatable
    prefix: str = ""  # of the labels of a tcolorbox


_USUAL_KINDS = {
    **{name + star: Kind(kind) for name, kind in _KIND_OF_NAME.items() for star in ("", "*")},
    **{name: Kind("proof") for name in _PROOFS},
    **{name: Kind("", "restatable") for name in ("restatable", "restatable*")},
}


def slug(caption: str) -> str:
    """A caption as a kind: `Théorème` is theorem, `Main Theorem` is theorem, `Situation` is situation."""
    folded = unicodedata.normalize("NFKD", caption).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z]+", folded)
    for word in reversed(words):
        if word in _KIND_OF_CAPTION:
            return _KIND_OF_CAPTION[word]
    return "-".join(words)[:40]


_DECLARATION = re.compile(
    r"\\(newtheorem|spnewtheorem|declaretheorem|newmdtheoremenv|newtcbtheorem|newtheoremenv|NewTcbTheorem"
    r"|newshadetheorem|newframedtheorem|newmintheorem|newproof|newdefinition|newremark|mdtheorem)(\*?)(?![a-zA-Z])"
)


def read_kinds(text: str, environments: Mapping[str, str]) -> dict[str, Kind]:
    r"""The statement environments of a paper: those it declares, those it wraps in `\newenvironment`
    (`environments`: name to opening text), and the usual names."""
    kinds = dict(_USUAL_KINDS)
    patience = 200  # declarations that never end
    for found in _DECLARATION.finditer(text):
        declared = _read_declaration(text, found[1], found.end()) if patience else None
        if declared is None:
            patience = max(0, patience - 1)
            continue
        names, caption, form, prefix = declared
        kind = slug(plain(caption))
        if kind in ("proof", "beweis", "preuve"):
            kind = "proof"
        for name in names:
            kinds[name] = Kind(kind or slug(name) or "statement", form, prefix)
    for _ in range(3):  # a wrapper may wrap a wrapper
        for name, opening in environments.items():
            word = re.search(r"\\([a-zA-Z]+)", opening)
            inner = [*re.findall(r"\\begin\s*\{([^{}]*)\}", opening), *([word[1]] if word else [])]
            wrapped = next((kinds[i] for i in inner if i in kinds and i not in ("ex", "eg", "rem")), None)
            if wrapped is not None and name != "document":
                kinds.setdefault(name, wrapped)
    return kinds


def _optional(text: str, at: int) -> tuple[str, int]:
    blank = re.compile(r"\s*").match(text, at)
    begin = blank.end() if blank else at
    if text[begin : begin + 1] == "[":
        end = match_bracket(text, begin)
        if end > 0:
            return text[begin + 1 : end - 1], end
    return "", at


def _read_declaration(text: str, how: str, at: int) -> tuple[list[str], str, str, str] | None:
    """Names, caption, form and label prefix that a declaration gives."""
    options, at = _optional(text, at)
    name = read_argument(text, at, SHORT)
    if name is None or len(name[0]) > 200:
        return None
    names = [part.strip() for part in name[0].split(",") if part.strip()]
    if how == "declaretheorem":
        after, _ = _optional(text, name[1])
        given = re.search(r"(?:^|,)\s*(?:name|title|heading)\s*=\s*(\{[^{}]*\}|[^,]*)", options + "," + after)
        return names, given[1] if given else "", "plain", ""  # without one, each name is its own caption
    if how in ("newproof", "newdefinition", "newremark"):  # elsarticle
        caption = read_argument(text, name[1], SHORT)
        return names, caption[0] if caption else names[0], "plain", ""
    if how in ("newtcbtheorem", "NewTcbTheorem"):
        _, at = _optional(text, name[1])
        caption = read_argument(text, at, SHORT)
        style = read_argument(text, caption[1], SHORT) if caption else None
        prefix = read_argument(text, style[1], SHORT) if style else None
        if caption is None or style is None:
            return None
        return names, caption[0], "tcolorbox", prefix[0].strip() if prefix else ""
    _, at = _optional(text, name[1])
    caption = read_argument(text, at, SHORT)
    return (names, caption[0], "plain", "") if caption else None


# ---------------------------------------------------------------- the structure


class Section(NamedTuple):
    """A heading."""

    offset: int
    end: int  # behind the heading
    level: int
    title: str  # LaTeX
    path: tuple[str, ...]  # titles from the outermost section to this one, LaTeX


@dataclass(slots=True)
class Statement:
    """A statement as it stands in the text; offsets count in the flat text."""

    kind: str
    environment: str
    begin: int  # of \begin
    content: int  # behind \begin{...}[note]
    close: int  # of \end
    end: int  # behind \end{...}
    note: str = ""  # LaTeX
    label: str = ""
    section: tuple[str, ...] = ()
    proofs: list[tuple[int, int]] = field(default_factory=list)  # contents
    confidence: float = 1.0


@dataclass(slots=True)
class Structure:
    """What was found in one paper."""

    statements: list[Statement]
    sections: list[Section]
    labels: list[tuple[int, str]]  # offset and name, all of them
    abstracts: list[tuple[int, int]]
    apart: list[tuple[int, int]]  # spans that are no running text: statements, their proofs, bibliographies, ...
    problems: list[tuple[int, str]]  # offset and what is wrong there


_EVENT = re.compile(
    r"\\(?=[\\bcdelpsv])(?:\\|(?P<which>begin|end)\s*\{(?P<name>[^{}\n]*)\}"
    r"|(?P<section>part|chapter|(?:sub){0,2}section|paragraph)(?P<star>\*?)(?=\s*[\[{])"
    r"|label\s*\{(?P<label>[^{}]*)\}"
    r"|(?P<plain>proclaim|demo)(?P<finish>)(?=\s*\{)|(?P<endplain>endproclaim|enddemo)(?![a-zA-Z])"
    r"|verb\*?(?P<fence>[^\sa-zA-Z*])[^\n]{0,2000}?(?P=fence))"
)
_LEVELS = {
    "part": 0,
    "chapter": 1,
    "section": 2,
    "subsection": 3,
    "subsubsection": 4,
    "paragraph": 5,
}
_DEPTH = 200  # environments inside environments
_APART = frozenset("thebibliography bibdiv filecontents filecontents* titlepage".split())
_KEY = re.compile(r"(?:^|,)\s*(name|title|label)\s*=\s*(\{[^{}]*\}|[^,]*)")
_REFERRED = re.compile(r"\\(?:ref|[cC]ref|autoref|eqref|nameref|thmref)\*?\s*\{([^{}]*)\}|\\hyperref\s*\[([^\]]*)\]")

_USES = re.compile(r"\b(?:from|using|assuming|by|via|modulo|given|with|aus|mit|depuis)\b")


@dataclass(slots=True)
class _Open:
    """An environment that has begun."""

    name: str
    begin: int
    content: int
    kind: str = ""  # of a statement or proof
    statement: Statement | None = None
    barrier: int = -1  # first thing inside that can not belong to it, should it never close
    hint: str = ""  # a proof's optional argument


class _Proof(NamedTuple):
    """A proof that has no statement yet."""

    begin: int
    content: int
    close: int
    end: int
    hint: str  # its optional argument
    heading: str  # of the section it stands in
    around: Statement | None  # the statement inside which it stands


class _Reader:
    def __init__(self, text: str, start: int, kinds: Mapping[str, Kind]) -> None:
        self.text = text
        self.start = start
        self.kinds = kinds
        self.stack: list[_Open] = []
        self.sections: list[Section] = []
        self.path: list[tuple[int, str]] = []
        self.statements: list[Statement] = []
        self.proofs: list[_Proof] = []
        self.labels: list[tuple[int, str]] = []
        self.abstracts: list[tuple[int, int]] = []
        self.apart: list[tuple[int, int]] = []
        self.problems: list[tuple[int, str]] = []
        self.patience = 200  # arguments that never close
        self.unclosed: set[str] = set()  # verbatim environments that were seen not to end

    def run(self) -> Structure:
        text = self.text
        at = self.start
        while True:
            found = _EVENT.search(text, at)
            if found is None:
                break
            at = found.end()
            if found["which"] == "begin":
                at = self.begin(found["name"].strip(), found.start(), at)
            elif found["which"] == "end":
                self.end(found["name"].strip(), found.start(), at)
            elif found["section"]:
                at = self.section(found["section"], found.start(), at)
            elif found["label"] is not None:
                self.label(found["label"], found.start())
            elif found["plain"]:
                argument = self.argument(at)
                if argument is not None:
                    at = argument[1]
                    kind = "proof" if found["plain"] == "demo" else slug(plain(argument[0])) or "theorem"
                    kind = re.sub(r"-.*", "", kind)
                    self.open("\\" + found["plain"], kind, found.start(), at, argument[0])
            elif found["endplain"]:
                self.end("\\" + found["endplain"][3:], found.start(), at)
        while self.stack:
            self.give_up(self.stack.pop(), len(text))
        self.attach_proofs()
        self.statements.sort(key=lambda s: (s.begin, -s.end))
        apart = sorted(self.apart)
        return Structure(self.statements, self.sections, self.labels, self.abstracts, apart, self.problems)

    def argument(self, at: int) -> tuple[str, int] | None:
        """A braced group behind `at`, not too long; none any more when too many never closed."""
        found = read_argument(self.text, at, SHORT) if self.patience else None
        if found is None:
            self.patience = max(0, self.patience - 1)
        return found

    def begin(self, name: str, begin: int, at: int) -> int:
        if name in VERBATIM and name not in self.unclosed:
            close = self.text.find("\\end{" + name + "}", at)
            if close >= 0:
                return close + len(name) + 6
            self.unclosed.add(name)
        kind = self.kinds.get(name)
        if kind is None:
            if len(self.stack) < _DEPTH:
                self.stack.append(_Open(name, begin, at))
            return at
        if kind.kind == "proof":
            hint, content = _optional(self.text, at)
            self.open(name, "proof", begin, content, hint)
            return content
        note, label, what = "", "", kind.kind
        if kind.form == "tcolorbox":
            _, content = _optional(self.text, at)
            title = self.argument(content)
            mark = self.argument(title[1]) if title else None
            if title is not None:
                note, content = title
            if mark is not None:
                label, content = mark[0].strip(), mark[1]
                label = f"{kind.prefix}:{label}" if kind.prefix and label else label
        else:
            note, content = _optional(self.text, at)
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
                known = self.kinds.get(inner[0].strip())
                what = known.kind if known else slug(inner[0]) or "theorem"
        statement = self.open(name, what, begin, content, note)
        if statement is not None and label:
            statement.label = label
            self.labels.append((begin, label))
        return content

    def open(self, name: str, kind: str, begin: int, content: int, note: str) -> Statement | None:
        for outer in reversed(self.stack):
            if outer.barrier >= 0:
                break  # and so have all around it
            if outer.kind:
                outer.barrier = begin
        entry = _Open(name, begin, content, kind, hint=note)
        if kind != "proof":
            entry.statement = Statement(kind, name, begin, content, -1, -1, note, section=self.titles())
        if len(self.stack) < _DEPTH:
            self.stack.append(entry)
        else:
            self.problems.append((begin, f"\\begin{{{name}}} stands too deep inside others"))
        return entry.statement

    def titles(self) -> tuple[str, ...]:
        return tuple(title for _, title in self.path)

    def end(self, name: str, begin: int, at: int) -> None:
        kind = self.kinds.get(name)
        depth = next((n for n in range(len(self.stack) - 1, -1, -1) if self.stack[n].name == name), -1)
        if depth < 0:
            # \begin{theorem} ... \end{thm}: the author meant the open one
            top = self.stack[-1] if self.stack else None
            if kind is not None and top is not None and top.kind and (top.kind == "proof") == (kind.kind == "proof"):
                self.stack.pop()
                self.close(top, begin, at, 0.8)
                self.problems.append((begin, f"\\end{{{name}}} closes \\begin{{{top.name}}}"))
            return
        while len(self.stack) > depth + 1:
            self.give_up(self.stack.pop(), begin)
        self.close(self.stack.pop(), begin, at, 1.0)

    def close(self, entry: _Open, close: int, end: int, confidence: float) -> None:
        if entry.statement is not None:
            entry.statement.close, entry.statement.end = close, end
            entry.statement.confidence = confidence
            self.statements.append(entry.statement)
            self.apart.append((entry.begin, end))
        elif entry.kind == "proof":
            around = next((e.statement for e in reversed(self.stack) if e.statement is not None), None)
            heading = self.sections[-1].title if self.sections else ""
            self.proofs.append(_Proof(entry.begin, entry.content, close, end, entry.hint, heading, around))
        elif entry.name == "abstract":
            self.abstracts.append((entry.content, close))
            self.apart.append((entry.begin, end))
        elif entry.name in _APART:
            self.apart.append((entry.begin, end))

    def give_up(self, entry: _Open, limit: int) -> None:
        """An environment that was not closed before something around it ended."""
        if not entry.kind:
            return
        end = entry.barrier if 0 <= entry.barrier < limit else limit
        paragraph = self.text.find("\n\n", entry.content, end)
        if paragraph > 0 and end - entry.content > 5000:  # it can not be known where it ended; stay short
            end = paragraph
        end = max(end, entry.content)
        self.problems.append((entry.begin, f"\\begin{{{entry.name}}} is never closed"))
        self.close(entry, end, end, 0.5)

    def section(self, command: str, begin: int, at: int) -> int:
        _, at = _optional(self.text, at)
        argument = self.argument(at)
        if argument is None:
            return at
        while any(entry.kind for entry in self.stack):  # no statement goes on over a heading
            if command == "paragraph":
                return argument[1]
            self.give_up(self.stack.pop(), begin)
        level = _LEVELS[command]
        while self.path and self.path[-1][0] >= level:
            self.path.pop()
        self.path.append((level, argument[0]))
        self.sections.append(Section(begin, argument[1], level, argument[0], self.titles()))
        return argument[1]

    def label(self, name: str, offset: int) -> None:
        name = " ".join(name.split())
        if not name:
            return
        self.labels.append((offset, name))
        if self.stack:
            inner = self.stack[-1].statement
            if inner is not None and not inner.label:
                inner.label = name

    def attach_proofs(self) -> None:
        """Give each proof to what it names, else to the statement in front of it."""
        by_label = {s.label: s for s in self.statements if s.label}
        by_note = {name: s for s in self.statements if s.note and (name := _folded(s.note))}
        ordered = sorted(self.statements, key=lambda s: s.end)
        ends = [s.end for s in ordered]
        previous: tuple[int, Statement] | None = None
        for proof in sorted(self.proofs, key=lambda p: p.begin):
            owners = self.named(proof.hint, by_label, by_note)
            owner = owners[0] if owners else None
            if owner is None and previous and not self.text[previous[0] : proof.begin].strip():
                owner = previous[1]  # a second proof
            around = proof.around
            if owner is None and around and proof.begin < around.end and around.kind not in _UNPROVED:
                owner = around
            if owner is None:
                owner = self.before(proof.begin, ordered, ends)
            if owner is None:
                owners = self.named(proof.heading, by_label, by_note)
                owner = owners[0] if owners else None
            if owner is not None:
                for proved in owners or [owner]:
                    proved.proofs.append((proof.content, proof.close))
                self.apart.append((proof.begin, proof.end))
                previous = (proof.end, owner)

    @staticmethod
    def named(hint: str, by_label: Mapping[str, Statement], by_note: Mapping[str, Statement]) -> list[Statement]:
        """The statements that a proof says it proves, not those that it says it uses."""
        if not hint:
            return []
        proved = _USES.split(hint)[0]
        labels = (one or other for one, other in _REFERRED.findall(proved))
        found = {label.strip() for group in labels for label in group.split(",")} & by_label.keys()
        if found:
            return sorted((by_label[label] for label in found), key=lambda s: s.begin)
        name = re.sub(r"^(?:sketch of )?(?:the )?proof (?:sketch )?of (?:the )?", "", _folded(hint))
        return [by_note[name]] if name in by_note else []

    def before(self, begin: int, ordered: Sequence[Statement], ends: Sequence[int]) -> Statement | None:
        number = bisect_right(ends, begin) - 1
        if number < 0:
            return None
        last = ordered[number]
        between = self.text[last.end : begin]
        if not between.strip():
            return last
        if last.proofs or last.kind in _UNPROVED or last.section != self.section_at(begin):
            return None
        return last if len(between) < 3000 else None

    def section_at(self, offset: int) -> tuple[str, ...]:
        number = bisect_right(self.sections, offset, key=lambda s: s.offset) - 1
        return self.sections[number].path if number >= 0 else ()


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", plain(text).lower()).strip()


def read_structure(text: str, start: int, kinds: Mapping[str, Kind]) -> Structure:
    """Statements, sections and labels of `text` from `start` on."""
    return _Reader(text, start, kinds).run()
