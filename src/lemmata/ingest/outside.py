"""The printed numbers of what lies in other documents, in the names of references: known when all are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lemmata.core.database import read_cell
from lemmata.core.types import EQUATIONS, INSERTED, LABELLED, NUMBER
from lemmata.corpus.schema import to_json
from lemmata.corpus.writer import CorpusWriter
from lemmata.latex.reference_names import kind_is_written


def name_references_outside(writer: CorpusWriter, passages: Collection[str] | None = None) -> None:
    """Write the number of its target in the place of each label of another document, where it is known.

    Looks at some passages, or at all. What was a number and has lost its target is a label again: a corpus that grew
    equals one that is read anew.
    """
    select = writer.connection.execute
    outside: dict[str, dict[str, tuple[str, str]]] = {}  # by passage and label: kind and number
    facts: dict[str, Mapping[str, Any]] = {}  # metadata of the targets
    query = (
        "SELECT l.source, l.label, t.id, t.document, t.kind, CASE WHEN t.id IS NULL THEN '' ELSE t.metadata END"
        " FROM links l LEFT JOIN passages t ON t.id = l.target WHERE l.relation IN ('refers_to', 'proof_uses')"
        " AND (t.id IS NULL OR t.document != l.document)"
    )
    if passages is None:
        links = select(query)
    else:
        links = select(query + " AND l.source IN (SELECT value FROM json_each(?))", (to_json(sorted(passages)),))
    for source, label, target, document, kind, metadata in links:
        named = ("", "")
        if target is not None:
            if target not in facts:
                facts[target] = read_cell(metadata)
            named = _numbered(label, target.removeprefix(document)[1:], kind, facts[target])
        outside.setdefault(source, {})[label] = named
    changes: list[tuple[str, str, str, str]] = []
    for source, names in outside.items():
        row = select("SELECT text, proof, metadata FROM passages WHERE id = ?", (source,)).fetchone()
        if row is None or INSERTED not in row[2]:
            continue
        metadata = read_cell(row[2])
        spans = metadata[INSERTED]
        text, proof = (
            _renamed(old, spans.get(part, ()), names) for old, part in zip(row, ("text", "proof"), strict=False)
        )
        if (text, proof) != row[:2]:
            changes.append((text, proof, to_json(metadata), source))
    writer.connection.executemany("UPDATE passages SET text = ?, proof = ?, metadata = ? WHERE id = ?", changes)
    if writer.is_tracked:
        noted = "INSERT INTO changed SELECT 'document', document, '' FROM passages WHERE id = ?"
        writer.connection.executemany(noted, ((source,) for *_, source in changes))


def _numbered(label: str, own: str, kind: str, metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and number of what a label means in its target, which may know it without the prefix of its document.

    `own` is the label of the target itself.
    """
    numbers = {name: ("equation", number) for name, number in metadata.get(EQUATIONS, {}).items()}
    for name, named in metadata.get(LABELLED, {}).items():
        numbers[name] = (named.partition(" ")[0], named.partition(" ")[2])
    if metadata.get(NUMBER):
        numbers[own] = (kind, metadata[NUMBER])
    known = max((name for name in numbers if label.endswith(name)), key=len, default=None)
    return ("", "") if known is None else numbers[known]


def _renamed(text: str, spans: list[list[Any]], names: Mapping[str, tuple[str, str]]) -> str:
    """The text with the names of these labels; moves the spans."""
    pieces: list[str] = []
    at = grown = 0
    for span in spans:
        span[0] += grown
        for place, name in enumerate(span[2:]):
            begin, end, label = name
            name[0] += grown
            if label in names:
                kind, number = names[label]
                before, old = text[at:begin], text[begin:end]
                is_bare = place or kind == "equation" or before.endswith(("(", "{")) or kind_is_written(before, [kind])
                shown = number if is_bare else f"{kind} {number}"
                if not number:  # a label in a formula is escaped
                    shown = old if old.replace("\\", "") == label else label
                pieces += (before, shown)
                grown += len(shown) - (end - begin)
                at = end
            name[1] = end + grown
        span[1] += grown
    return "".join((*pieces, text[at:]))
