"""The printed numbers and the table of contents of a paper, in its records: metadata, and names to be found by."""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from lemmata.core.types import CONTENTS, EQUATIONS, LABELLED, PRINTED, Document, Label, Passage, printed_name
from lemmata.ingest.paper_state import PaperState
from lemmata.latex.expand import Opening
from lemmata.latex.kinds import kind_of
from lemmata.latex.numbers import read_aux, read_numbers
from lemmata.latex.reference_names import quoted_title
from lemmata.latex.statements import attach_solutions
from lemmata.latex.targets import HEADINGS

_NAMED = frozenset(("equation", "figure", "table", "algorithm", "listing"))  # what a label may number in a passage


def number_paper(
    paper: PaperState, openings: Mapping[str, Opening], main: str, read: Callable[[str], str | None]
) -> None:
    """Give statements, headings and labels their printed numbers; an `.aux` file beside the main file is believed."""
    structure, folder = paper.structure, posixpath.dirname(main)
    numbers = read_numbers(paper.flat.text, paper.flat.body, paper.macros, openings, structure.labels)
    attach_solutions(structure, numbers.referred, numbers.labelled)
    aux = posixpath.splitext(posixpath.basename(main))[0] + ".aux"
    compiled = read_aux(lambda path: read(posixpath.normpath(posixpath.join(folder, path))), aux)
    paper.numbers = numbers.labels | compiled
    for statement in structure.statements:
        statement.number = compiled.get(statement.label) or numbers.places.get(statement.begin, "")
    structure.sections = [
        section._replace(number=numbers.places.get(section.offset, "")) for section in structure.sections
    ]


def with_contents(document: Document, paper: PaperState) -> Document:
    """A document with its headings: level (0 for parts, 1 for chapters, …), number and title of each, in order."""
    headings = [
        [section.level, section.number, paper.title(section.path[-1], section.offset)]
        for section in paper.structure.sections
    ]
    return replace(document, metadata={**document.metadata, CONTENTS: headings}) if headings else document


def numbered_names(paper: PaperState, passages: Iterable[Passage], labels: Iterable[Label]) -> list[Label]:
    """What has a number, under the name that people know it by: "theorem 4.2", "equation 4.3", "section 3.1".

    A section is the first passage in it. What is printed under another name ("Guided Practice 4.2") has that name,
    and that of its kind if nothing else has it.
    """
    numbered = [passage for passage in passages if passage.number]
    printed = {passage.id: str(passage.metadata.get(PRINTED, "")) for passage in numbered}
    names = {printed_name(kind_of(printed[p.id]) or p.kind, p.number): p.id for p in numbered}
    for passage in numbered:
        names.setdefault(printed_name(passage.kind, passage.number), passage.id)
    for label in labels:
        target = paper.targets.get(label.name)
        if target and target.kind in _NAMED and target.number:
            names.setdefault(printed_name(target.kind, target.number), label.target)
    spans = sorted(paper.spans)
    sections = paper.structure.sections
    for place, section in enumerate(sections):
        inside = bisect_left(spans, (section.offset,))
        after = next((other.offset for other in sections[place + 1 :] if other.level <= section.level), None)
        if section.number and inside < len(spans) and (after is None or spans[inside][0] < after):
            names.setdefault(printed_name(HEADINGS[min(section.level, 2)], section.number), spans[inside][2])
    return [Label(paper.document, name, target) for name, target in names.items()]


_Record = TypeVar("_Record", Passage, Document)


def with_labels(records: Iterable[_Record], paper: PaperState, labels: Iterable[Label]) -> list[_Record]:
    """The records with the numbers, or else the titles, of what is labelled in them and in their proofs, by label.

    A document has those of sections without text.
    """
    numbers: dict[str, dict[str, dict[str, str]]] = {}
    for label in labels:
        target = paper.targets.get(label.name)
        name = target and (target.number or quoted_title(target))
        if target and name and label.target != f"{paper.document}#{label.name}":
            key, prefix = (EQUATIONS, "") if target.kind == "equation" else (LABELLED, f"{target.kind} ")
            numbers.setdefault(label.target, {}).setdefault(key, {})[label.name] = prefix + name
    return [
        replace(record, metadata={**record.metadata, **numbers[record.id]}) if record.id in numbers else record
        for record in records
    ]
