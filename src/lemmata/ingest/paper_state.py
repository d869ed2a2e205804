"""What the readers of one paper share: its options, its text and macros, and the passages made so far."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lemmata.core.types import HEADING, INSERTED, Link, Passage, Skip
from lemmata.latex.clean import clean, plain
from lemmata.latex.cleaned import Cleaned, Target
from lemmata.latex.commands import without_notes
from lemmata.latex.expand import Definitions, expand
from lemmata.latex.kinds import LONGEST_OPENING, Kind, kind_of, printed_before_number
from lemmata.latex.lists import Lists, ListStyle
from lemmata.latex.source import Flat
from lemmata.latex.statements import Statement, Structure

_NAMEREF = re.compile(r"\\[nN]ameref\*?\s*\{([^{}]*)\}")
_CASE = re.compile(r"\\Make(?:Text)?(?:Lower|Upper)case\s*\{([^{}]*)\}")
_BOLD = re.compile(r"\$\s*\\(?:pmb|boldsymbol|bm)\s*\{((?:[^{}$]|\{[^{}$]*\})*)\}\s*\$")


@dataclass(frozen=True, slots=True)
class PaperOptions:
    """How the text of a paper is split into passages."""

    SMALLEST: ClassVar = {"chunk_size": 1}

    chunk_size: int = 1500  # characters of a chunk of the prose outside statements and proofs
    preamble: str = ""  # path of a LaTeX file with definitions that every paper uses

    @property
    def chunk_overlap(self) -> int:
        """Characters that two neighbouring chunks share, 200 of 1,500."""
        return self.chunk_size * 2 // 15


@dataclass(slots=True)
class PaperState:
    """The state of one paper while it is read."""

    document: str
    flat: Flat
    macros: Definitions
    structure: Structure
    options: PaperOptions
    skips: list[Skip]
    list_styles: Mapping[str, ListStyle]  # of the paper's own lists
    kinds: Mapping[str, Kind]  # of the environments
    text: str = ""  # of `flat`, with blanks in the place of drawings
    cited: list[str] = field(default_factory=list)
    spans: list[tuple[int, int, str]] = field(default_factory=list)  # begin, end, id of each passage
    headings: dict[tuple[str, ...], str] = field(default_factory=dict)  # section path: clean text
    targets: Mapping[str, Target] = field(default_factory=dict)  # of the labels
    numbers: Mapping[str, str] = field(default_factory=dict)  # of the labels, as printed
    printed_names: dict[str, str] = field(default_factory=dict)  # by environment
    taken: dict[str, int] = field(default_factory=dict)  # ids of passages, and how often each was wanted

    def __post_init__(self) -> None:
        pieces: list[str] = []
        at = 0
        for begin, end in self.structure.drawings:
            pieces += (self.flat.text[at:begin], " " * (end - begin))
            at = end
        self.text = "".join((*pieces, self.flat.text[at:]))

    def skip(self, offset: int, cause: str) -> None:
        self.skips.append(Skip(*self.flat.place(offset), cause))

    def expand(self, begin: int, end: int) -> str:
        """The LaTeX between two offsets without its drawings, with its macros expanded."""
        return self.macros.expand(self.text, begin, end)

    def clean(
        self, latex: str, relation: str, separator: str = "\n\n", lists: Lists | None = None
    ) -> tuple[Cleaned, list[Link]]:
        """Clean text and links of expanded LaTeX; `relation` is that of its `\\ref` commands."""
        result = clean(latex, self.targets.get, separator, lists or Lists(self.list_styles))
        links = []
        for family, key in result.references:
            if family == "cite" and key == "*":
                continue  # \\nocite{*} cites no entry
            if family == "cite":
                self.cited.append(key)
                links.append(Link("cites", key))
            else:
                links.append(Link(relation, "name:" + key if family == "name" else key))
        return result, links

    def printed_name(self, statement: Statement) -> str:
        """What the environment of a statement prints before its number; empty where that is its kind."""
        name, kind = statement.environment, self.kinds.get(statement.environment)
        if name not in self.printed_names:
            opening = expand(kind.opening.text, self.macros.at(statement.begin)) if kind else ""
            self.printed_names[name] = printed_before_number(opening[:LONGEST_OPENING])
        printed = self.printed_names[name]
        return printed if kind_of(printed) != statement.kind else ""

    def title(self, latex: str, offset: int) -> str:
        """The clean text of a title, without its footnotes."""
        return self._heading(latex, offset).rstrip(" ,;:.")

    def _heading(self, latex: str, offset: int) -> str:
        r"""The clean text of a heading: without its footnotes and its bold letters, and with what `\nameref` names."""
        text = without_notes(expand(latex, self.macros.at(offset)))
        if "ameref" in text:
            text = _NAMEREF.sub(lambda reference: self._named(" ".join(reference[1].split())), text)
        while "\\" in text and (changed := _BOLD.sub(r"$\1$", _CASE.sub(r"\1", text))) != text:
            text = changed
        return plain(text)

    def _named(self, label: str) -> str:
        """The LaTeX of the title of the statement or section that a label names."""
        statement = next((each for each in self.structure.statements if each.label == label and each.note), None)
        if statement:
            return statement.note
        at = next((at for at, name in self.structure.labels if name == label), -1)
        section = bisect_right(self.structure.sections, at, key=lambda each: each.offset) - 1
        return _NAMEREF.sub("", self.structure.sections[section].path[-1]) if at >= 0 <= section else ""

    def section(self, path: Sequence[str], offset: int) -> str:
        """The headings that lead to a section, cleaned."""
        path = tuple(path)
        if path not in self.headings:
            titles = (self._heading(title, offset) for title in path)
            self.headings[path] = " / ".join(filter(None, titles))
        return self.headings[path]

    def passage(
        self,
        identity: str,
        kind: str,
        span: tuple[int, int],
        content: Cleaned,
        links: Iterable[Link],
        *,
        proof: Cleaned | None = None,
        metadata: Mapping[str, Any] | None = None,
        heading_at: int | None = None,
        **more: Any,
    ) -> Passage:
        """A passage of this paper; labels inside its span refer to it. It stands below the heading before `heading_at`.

        That is the beginning of its span, unless it is given.
        """
        begin, end = span
        sections = self.structure.sections
        heading = bisect_right(sections, begin if heading_at is None else heading_at, key=lambda each: each.offset) - 1
        place = {HEADING: heading} if heading >= 0 else {}
        self.spans.append((begin, end, identity))
        file, first_line = self.flat.place(begin)
        last_file, last_line = self.flat.place(max(begin, end - 1))
        if last_file != file:  # it runs past the end of a file: point at the lines up to there
            last_line = self.flat.texts[self.flat.files.index(file)].count("\n") + 1
        text, text_spans = content.shown()
        shown_proof, proof_spans = proof.shown() if proof else ("", [])
        inserted = {part: spans for part, spans in (("text", text_spans), ("proof", proof_spans)) if spans}
        return Passage(
            id=identity,
            document=self.document,
            kind=kind,
            text=text,
            file=file,
            first_line=first_line,
            last_line=max(first_line, last_line),
            proof=shown_proof,
            metadata={**(metadata or {}), **place, **({INSERTED: inserted} if inserted else {})},
            links=tuple(dict.fromkeys(links)),
            **more,
        )
