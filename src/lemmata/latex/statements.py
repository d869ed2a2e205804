r"""The structure of a paper: statements with their proofs, sections, labels, and the prose between them.

Environments are matched with a stack that tolerates mistakes: an unclosed theorem ends before the next statement
or heading, with less confidence, and nothing else is lost.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from lemmata.latex.arguments import NO_VALUE, choose, fill, read_values
from lemmata.latex.clean import plain
from lemmata.latex.commands import BEGIN, MOST_FAILURES, referred_labels
from lemmata.latex.kinds import COMPUTED_REFERENCE, PLACING, PRINTED_COUNTER, PROVING, Kind, kind_of
from lemmata.latex.source import SHORT, VERBATIM, end_of, read_argument, read_optional, skip, skip_blanks

_Item = TypeVar("_Item")


class Section(NamedTuple):
    """A heading."""

    offset: int
    end: int  # after the heading
    path: tuple[str, ...]  # titles from the outermost section to this one, LaTeX
    level: int  # 0 for a part, 1 for a chapter, …
    number: str = ""  # as printed


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
    number: str = ""  # as printed
    restated_by: str = ""  # name of the macro that states it again
    section: tuple[str, ...] = ()
    proofs: list[tuple[int, int]] = field(default_factory=list)  # contents
    proof_notes: list[str] = field(default_factory=list)  # the optional arguments of the proofs
    solved: bool = False  # a proof is a solution
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
    drawings: list[tuple[int, int]] = field(default_factory=list)  # spans that are no text, ascending
    verbatim: list[tuple[int, int]] = field(default_factory=list)  # spans that are kept as they are, ascending
    problems: list[tuple[int, str]] = field(default_factory=list)  # offset and cause


def innermost(spans: Iterable[tuple[int, int, _Item]]) -> Callable[[int], _Item | None]:
    """A function from offsets, which must ascend, to what the innermost span (begin, end, item) around each holds."""
    waiting = sorted(spans, key=lambda span: (span[0], -span[1]))[::-1]
    around: list[tuple[int, int, _Item]] = []

    def at(offset: int) -> _Item | None:
        while waiting and waiting[-1][0] <= offset:
            around.append(waiting.pop())
        while around and around[-1][1] <= offset:
            around.pop()
        return around[-1][2] if around else None

    return at


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
_OVERLAY = re.compile(r"<[\d+\-,.|@:a-z ]{1,40}>")  # of beamer: \begin{theorem}<2->
_KEY = re.compile(r"(?:^|,)\s*(name|(?:frame)?title|label|restate)\s*=\s*(\{(?:[^{}]|\{[^{}]*\})*\}|[^,]*)")


class _Head(NamedTuple):
    r"""The beginning of a statement up to its text."""

    kind: str
    note: str
    labels: list[str]
    end: int  # offset of the text
    restated_by: str = ""


def _title_in(options: str) -> str:
    """The title in the options of a box; empty where they have none."""
    titles = [value.strip() for key, value in _KEY.findall(options) if key.endswith("title")]
    return titles[-1].removeprefix("{").removesuffix("}") if titles else ""


_OPTIONS = re.compile(r"\s*[a-z][a-z /_-]+=")  # of a box or list: title=…, leftmargin=…
_LONGEST_OPENED = 8_000  # characters of an opening with its arguments inserted
_LABEL = re.compile(r"\\label\s*\{([^{}]*)\}")


def _labels_in(text: str) -> list[str]:
    return [" ".join(label.split()) for label in _LABEL.findall(text) if label.strip()] if "\\label" in text else []


_UNPROVED = frozenset(
    "definition remark remarks example notation question problem exercise convention situation assumption "
    "axiom conjecture".split()
)
_ASKING = frozenset(("exercise", "problem", "question"))
_SOLVABLE = _ASKING | {"example"}
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
# Not "We first prove": that is a step of the proof.
_OPENING = re.compile(
    r"\s*(?:(?:we\s+(?:shall\s+|will\s+|can\s+)?(?:now\s+)?(?:prove|establish)|proof\s+of|(?:wir\s+)?beweisen(?:\s+wir)?)"
    r"(?!\s+that\b)|(?:this\s+is\s+the|here\s+is\s+the|now\s+the)\s+proof\s+of)\b",
    re.I,
)
_SENTENCE_END = re.compile(r"(?<!Thm)(?<!Prop)(?<!Lem)(?<!Cor)(?<!Def)[.!?][\s}]+(?=[^\s])|\n[ \t]*\n(?=.*\S)", re.S)
_COMMAND = re.compile(r"\\([a-zA-Z@]+)")
# What may stand between an exercise and its solution.
_PLACED = re.compile(
    r"\\(?:(?:label|begin|end|vspace\*?|hspace\*?)\s*\{[^{}]*\}|(?:small|med|big)skip(?![a-zA-Z])"
    r"|(?:noindent|par|newline|hfill|medbreak|bigbreak|smallbreak)(?![a-zA-Z]))"
)
_SOLVED = re.compile(r"(?:^|(?<=,))\s*ref\s*=\s*\{?\s*([^{},]+?)\s*\}?\s*(?=,|$)")  # of the package exercise
_FOOTNOTE = re.compile(r"\\(?:footnote(mark|text|)(?![a-zA-Z])|addtocounter\s*\{footnote\}\s*\{\s*(-?\d{1,3})\s*\})")
_ANOTHER = re.compile(r"\b(?:another|alternat\w+|second|different|shorter|direct)\s+proof\b", re.I)
_USES = re.compile(r"\b(?:from|using|assuming|by|via|modulo|given|with|aus|mit|depuis)\b")


class _Reader:
    def __init__(self, text: str, start: int, kinds: Mapping[str, Kind], expand: Callable[[str, int], str]) -> None:
        self.text = text
        self.expand = expand
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
        """A short braced group after `at`; None if there is none, and once too many groups were never closed."""
        text = self.text if text is None else text
        argument = read_argument(text, at, SHORT) if self.failures_left else None
        if argument is None and text.startswith("{", skip_blanks(text, at)):
            self.failures_left -= self.failures_left > 0
        return argument

    def begin(self, name: str, begin: int, at: int) -> int:
        if name in VERBATIM and name not in self.unclosed:
            if close := end_of(name).search(self.text, at):
                self.paper.verbatim.append((begin, close.end()))
                return close.end()
            self.unclosed.add(name)
        kind = self.kinds.get(name)
        if kind is not None and kind.form == "drawing" and name not in self.unclosed:
            if (end := self.drawing(name, begin, at)) is not None:
                return end
            kind = None
        if kind is None or kind.form == "drawing":
            if len(self.stack) < _DEPTH:
                self.stack.append(Statement("", name, begin, at))
                options = read_optional(self.text, at) if name.rstrip("*") in PLACING else None
                if options and (title := _title_in(options[0])):
                    self.stack[-1].note, self.stack[-1].content = title, options[1]
            return at
        head = self.head(self.text, at, kind)
        if head is None:
            return at
        for label in head.labels:
            self.paper.labels.append((begin, label))
        self.open(name, head.kind, begin, head.end, head.note, head.labels[0] if head.labels else "", head.restated_by)
        return head.end

    def drawing(self, name: str, begin: int, at: int) -> int | None:
        """The offset after a drawing; None where it must be read: it never ends, or it frames a statement."""
        border = re.compile(rf"\\(begin|end)\s*\{{\s*{re.escape(name)}\s*\}}")
        depth = 1
        for event in border.finditer(self.text, at):
            depth += 1 if event[1] == "begin" else -1
            if depth == 0:
                inside = (self.kinds.get(each[1].strip()) for each in BEGIN.finditer(self.text, at, event.start()))
                if any(kind is not None and kind.form != "drawing" for kind in inside):
                    self.paper.apart.append((begin, event.end()))
                    return None
                self.paper.drawings.append((begin, event.end()))
                return event.end()
        self.unclosed.add(name)
        self.paper.problems.append((begin, f"\\begin{{{name}}} is never closed"))
        return None

    def head(self, text: str, at: int, kind: Kind, depth: int = 4) -> _Head | None:
        r"""What follows the `\begin` of a statement, whose arguments start at `at`; None where they are missing."""
        at = skip(_OVERLAY, text, at)
        if kind.form in ("wrapper", "call"):
            return self.wrapped(text, at, kind, depth)
        note, end = read_optional(text, at) or ("", at)
        if kind.kind in PROVING:
            note = _SOLVED.sub(r"\\ref{\1}", note)
            return _Head(kind.kind, note, _labels_in(note), end)  # its note says what is proved
        keys: dict[str, str] = dict(_KEY.findall(note)) if "=" in note else {}
        labels = _labels_in(note)
        if keys:
            note = keys.get("name", keys.get("title", "")).strip().strip("{}")
            labels += [keys.get("label", "").strip().strip("{}")]
        statement_kind, restated_by = kind.kind, keys.get("restate", "")
        if kind.form == "restatable":
            inner = self.argument(end, text)
            macro = self.argument(inner[1], text) if inner else None
            if inner is None or macro is None:
                return None
            restated_by, end = macro
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
        labels = [" ".join(label.split()) for label in labels if label.strip()]
        return _Head(statement_kind, note, labels, end, restated_by.strip("{} "))

    def wrapped(self, text: str, at: int, kind: Kind, depth: int) -> _Head:
        """The head of an environment that opens another one or prints its own heading."""
        values, at = read_values(text, at, kind.opening.arguments, SHORT)
        opened = choose(fill(kind.opening.text, values))[:_LONGEST_OPENED]
        rest, note, labels, restated_by = opened, "", [], ""
        for begin in reversed(list(BEGIN.finditer(opened))):
            inner_kind = self.kinds.get(begin[1].strip())
            if not inner_kind or inner_kind is kind or not depth:
                continue
            # The inner environment may read its arguments from the text, as TeX does.
            inner = self.head(opened + text[at : at + _LONGEST_OPENED], begin.end(), inner_kind, depth - 1)
            if inner is not None:
                rest, note, labels, restated_by = opened[inner.end :], inner.note, inner.labels, inner.restated_by
                at += max(0, inner.end - len(opened))
                break
        else:
            box = re.search(r"\\begin\{tcolorbox\}", opened)
            options = (read_optional(opened, box.end()) or ("", 0))[0] if box else ""
            labels = [value.strip("{} ") for key, value in _KEY.findall(options) if key == "label"]
        labels = [label for label in (*labels, *_labels_in(rest)) if label and not PRINTED_COUNTER.search(label)]
        if kind.kind in PROVING and not note and referred_labels(opened) and not COMPUTED_REFERENCE.search(opened):
            note = opened  # it says what is proved
        elif note == NO_VALUE or not note.strip("{} "):
            shown = _LABEL.sub("", rest)
            unsaid = {NO_VALUE, *labels, *(default for _, default in kind.opening.arguments)}
            said = (value for value in values if value in shown and value not in unsaid)
            printed = [_title_in(value) if _OPTIONS.match(value) else value for value in said]
            note = ", ".join(value for value in printed if re.search(r"[^\W\d_]", value))  # else it is a number
        return _Head(kind.kind, note, labels, at, restated_by)

    def open(
        self, name: str, kind: str, begin: int, content: int, note: str, label: str = "", restated_by: str = ""
    ) -> None:
        for outer in reversed(self.stack):
            if outer.barrier >= 0:
                break  # all outer ones have a barrier, too
            if outer.kind:
                outer.barrier = begin
        if len(self.stack) < _DEPTH:
            around = next((entry for entry in reversed(self.stack) if entry.kind and entry.kind not in PROVING), None)
            entry = Statement(kind, name, begin, content, note=note, label=label, section=self.titles(), outer=around)
            entry.restated_by = restated_by
            box = self.stack[-1] if self.stack and not self.stack[-1].kind else None
            if box and box.note and not note and not _LABEL.sub("", self.text[box.content : begin]).strip():
                entry.note = box.note  # a frame with a title around the statement
                self.paper.apart.append((box.begin, begin))
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
            if kind and top and top.kind and (top.kind in PROVING) == (kind.kind in PROVING):
                self.stack.pop()
                self.close(top, begin, at, 0.8)
                self.paper.problems.append((begin, f"\\end{{{name}}} closes \\begin{{{top.environment}}}"))
            return
        while len(self.stack) > depth + 1:
            self.give_up(self.stack.pop(), begin)
        self.close(self.stack.pop(), begin, at, 1.0)

    def close(self, entry: Statement, close: int, end: int, confidence: float) -> None:
        entry.close, entry.end, entry.confidence = close, end, confidence
        if entry.kind in PROVING:
            self.proofs.append(entry)
        elif entry.kind:
            if not self.frames_another(entry):
                self.paper.statements.append(entry)
            self.paper.apart.append((entry.begin, end))
        elif entry.environment == "abstract" or entry.environment in _APART:
            self.paper.apart.append((entry.begin, end))
            if entry.environment == "abstract":
                self.paper.abstracts.append((entry.content, close))

    def frames_another(self, entry: Statement) -> bool:
        """Whether a statement is nothing but another one, which takes its label and note."""
        inner = self.paper.statements[-1] if self.paper.statements else None
        if inner is None or inner.begin != entry.barrier or inner.outer is not entry:
            return False
        around = (self.text[entry.content : inner.begin], self.text[inner.end : entry.close])
        if any(_LABEL.sub("", text).strip() for text in around):
            return False
        inner.label, inner.note, inner.outer = inner.label or entry.label, inner.note or entry.note, entry.outer
        return True

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
        short, at = read_optional(self.text, at) or ("", at)
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
        self.paper.sections.append(Section(begin, argument[1], self.titles(), level))
        return argument[1]

    def label(self, name: str, offset: int) -> None:
        name = " ".join(name.split())
        if not name:
            return
        self.paper.labels.append((offset, name))
        inner = next((entry for entry in reversed(self.stack) if entry.environment.rstrip("*") not in PLACING), None)
        if inner is not None and not inner.label:
            inner.label = name

    def attach_proofs(self) -> None:
        """Attach each proof to the statements named in its title or just before it, else to the statement before it."""
        by_label = self.statements_by_label()
        by_note = {name: s for s in self.paper.statements if s.note and (name := _folded(s.note))}
        by_macro = {s.restated_by: s for s in self.paper.statements if s.restated_by}
        ordered = sorted(self.paper.statements, key=lambda s: s.end)
        borders = [0, *sorted(s.end for s in (*ordered, *self.proofs)), *(s.end for s in self.paper.sections)]
        borders.sort()
        previous: tuple[int, Statement] | None = None
        for proof in sorted(self.proofs, key=lambda p: p.begin):
            proof.note = self.expand(proof.note, proof.begin)  # a macro may refer to what is proved
            owners = self.named(proof.note, by_label, by_note)
            border = borders[bisect_right(borders, proof.begin) - 1]
            before = self.text[max(border, proof.begin - _REACH) : proof.begin]
            owners = owners or _restated(before, by_macro) or self.promised(before, proof.begin, by_label)
            owners = owners or self.opened(proof, by_label)
            if not owners and previous and previous[0] == border and (not before.strip() or _ANOTHER.search(before)):
                owners = [previous[1]]  # a second proof
            outer = proof.outer
            if not owners and outer and proof.begin < outer.end and self.can_be_proved(outer, proof):
                owners = [outer]
            number = bisect_right(ordered, proof.begin, key=lambda s: s.end)
            if not owners and number and self.follows(proof, ordered[number - 1]):
                owners = [ordered[number - 1]]
            if not owners and proof.section:
                owners = self.named(self.expand(proof.section[-1], proof.begin), by_label, by_note)
            for statement in owners:
                statement.proofs.append((proof.content, proof.close))
                statement.proof_notes.append(proof.note)
                statement.solved = statement.solved or proof.kind == "solution"
            if owners:
                previous = proof.end, owners[0]
            elif proof.kind == "solution":
                self.paper.statements.append(proof)
            if owners or proof.kind == "solution":
                self.paper.apart.append((proof.begin, proof.end))

    def statements_by_label(self) -> dict[str, Statement]:
        """The innermost statement around each label; labels of its equations and items count, too."""
        by_label: dict[str, Statement] = {}
        around = innermost((s.begin, s.end, s) for s in self.paper.statements)
        for offset, label in sorted(self.paper.labels):
            statement = around(offset)
            if statement is not None:
                by_label.setdefault(label, statement)
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

    def promised(self, before: str, offset: int, by_label: Mapping[str, Statement]) -> list[Statement]:
        """The statements that the last sentence before a proof announces to prove."""
        if "\\" not in before:
            return []
        sentence = _SENTENCE_END.split(before.strip())[-1]
        promise = _PROMISE.search(sentence)
        if promise is None or _NO_PROMISE.search(sentence):
            return []
        return _referred(self.expand(sentence[promise.end() :], offset), by_label)

    def opened(self, proof: Statement, by_label: Mapping[str, Statement]) -> list[Statement]:
        """The statements, earlier and without a proof so far, that the first words of a proof say it is of."""
        opening = _OPENING.match(self.text, proof.content, min(proof.close, proof.content + _REACH))
        if opening is None:
            return []
        rest = self.text[opening.end() : min(proof.close, proof.content + _REACH)]
        labels = proved_labels(self.expand(_SENTENCE_END.split(rest)[0], proof.begin))
        owners = [by_label[label] for label in sorted(labels & by_label.keys()) if by_label[label].label == label]
        can_be = all(s.end <= proof.begin and not s.proofs and s.kind not in _UNPROVED for s in owners)
        return owners if can_be else []

    @staticmethod
    def can_be_proved(statement: Statement, proof: Statement) -> bool:
        return statement.kind in _SOLVABLE if proof.kind == "solution" else statement.kind not in _UNPROVED

    def follows(self, proof: Statement, last: Statement) -> bool:
        """Whether a proof belongs to the last statement before it."""
        between = self.text[last.end : proof.begin]
        if proof.kind == "solution":
            kind = self.kinds.get(proof.environment)
            is_named = kind and COMPUTED_REFERENCE.search(kind.opening.text)
            return last.kind in _SOLVABLE and not is_named and not _PLACED.sub("", between).strip()
        if last.proofs or last.kind in _UNPROVED or last.section != proof.section:
            return not between.strip()
        return len(between) < 3000 or not between.strip()


def attach_solutions(structure: Structure, referred: Mapping[int, str], labelled: Mapping[str, int]) -> None:
    r"""Attach solutions whose `\begin` refers to a computed label to the exercise whose `\begin` sets it.

    `referred` has the labels by offset, `labelled` the offsets by label.
    """
    by_offset = {statement.begin: statement for statement in structure.statements if statement.kind != "solution"}
    left: list[Statement] = []
    for statement in structure.statements:
        owner = by_offset.get(labelled.get(referred.get(statement.begin, ""), -1))
        if statement.kind == "solution" and owner is not None:
            owner.proofs.append((statement.content, statement.close))
            owner.proof_notes.append("")
            owner.solved = True
        else:
            left.append(statement)
    structure.statements = left


def attach_footnotes(text: str, start: int, structure: Structure) -> None:
    r"""Attach each `\footnotetext` after an exercise, whose mark stands in it, to that exercise: it is the solution."""
    around = innermost((s.begin, s.end, s) for s in structure.statements)
    marked: dict[int, Statement] = {}  # by the number of the footnote, as LaTeX counts
    number = failures = 0
    for event in _FOOTNOTE.finditer(text, start):
        inside = around(event.start())
        chosen, at = read_optional(text, event.end()) or ("", event.end())
        own_number = int(chosen) if chosen.isdecimal() else 0
        if event[2]:
            number += int(event[2])
        elif event[1] != "text":
            number += not own_number
            if inside and event[1] == "mark" and inside.kind in _ASKING:
                marked[own_number or number] = inside
        elif inside is None and failures < MOST_FAILURES and (exercise := marked.pop(own_number or number, None)):
            argument = read_argument(text, at)
            failures += argument is None
            if argument:
                exercise.proofs.append((argument[1] - 1 - len(argument[0]), argument[1] - 1))
                exercise.proof_notes.append("")
                exercise.solved = True
                structure.apart.append((event.start(), argument[1]))
    structure.apart.sort()


def _restated(before: str, by_macro: Mapping[str, Statement]) -> list[Statement]:
    """The statement that a macro states again just before its proof."""
    commands = reversed(_COMMAND.findall(before)) if by_macro else ()
    return [by_macro[name] for name in commands if name in by_macro][:1]


def proved_labels(hint: str) -> set[str]:
    """The labels that the title of a proof names as proved: those before a word such as "using"."""
    return referred_labels(_USES.split(hint)[0])


def _referred(hint: str, by_label: Mapping[str, Statement]) -> list[Statement]:
    labels = proved_labels(hint) & by_label.keys()
    return sorted({id(by_label[label]): by_label[label] for label in labels}.values(), key=lambda s: s.begin)


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", plain(text).lower()).strip()


def read_structure(
    text: str, start: int, kinds: Mapping[str, Kind], expand: Callable[[str, int], str] = lambda part, _: part
) -> Structure:
    """The statements, sections and labels of `text` from `start` on; `expand` follows the macros of an offset."""
    return _Reader(text, start, kinds, expand).run()
