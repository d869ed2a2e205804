"""The printed numbers of what lies in other documents, in the names of references: known when all are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lemmata.core.database import read_cell
from lemmata.core.types import EQUATIONS, INSERTED, LABELLED, NUMBER
from lemmata.corpus.schema import to_json
from lemmata.corpus.writer import CorpusWriter
from lemmata.latex.cleaned import Target
from lemmata.latex.reference_names import kind_is_written, quoted_title


def name_references_outside(writer: CorpusWriter, passages: Collection[str] | None = None) -> None:
    """Write the number of its target, or else its title, in the place of each label of another document, if known.

    Looks at some passages, or at all. What was a number and has lost its target is a label again: a corpus that grew
    equals one that is read anew.
    """
    select = writer.connection.execute
    outside: dict[str, dict[str, tuple[str, str]]] = {}  # by passage and label: kind and number
    facts: dict[str, Mapping[str, Any]] = {}  # metadata of the targets
    query = (
        "SELECT l.source, l.label, l.target, t.document, t.kind, t.title, COALESCE(t.metadata, d.metadata, '')"
        " FROM links l LEFT JOIN passages t ON t.id = l.target LEFT JOIN documents d ON d.id = l.target"
        " WHERE l.relation IN ('refers_to', 'proof_uses')"
        " AND l.document NOT IN (COALESCE(t.document, ''), COALESCE(d.id, ''))"
    )
    if passages is None:
        links = select(query)
    else:
        links = select(query + " AND l.source IN (SELECT value FROM json_each(?))", (to_json(sorted(passages)),))
    for source, label, target, document, kind, title, metadata in links:
        named = ("", "")
        if metadata:
            if target not in facts:
                facts[target] = read_cell(metadata)
            own = Target(kind, title, facts[target].get(NUMBER, "")) if kind else Target("")
            named = _named(label, target.removeprefix(document or target)[1:], own, facts[target])
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


def _named(label: str, own_label: str, own: Target, metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and number, or else title, of what a label means in its target, which may know it without a prefix.

    `own` is the target itself.
    """
    numbers = {name: ("equation", number) for name, number in metadata.get(EQUATIONS, {}).items()}
    for name, named in metadata.get(LABELLED, {}).items():
        numbers[name] = (named.partition(" ")[0], named.partition(" ")[2])
    if name := own.number or quoted_title(own):
        numbers[own_label] = (own.kind, name)
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
                if not number or (before.endswith("{") and number[0] in "(“"):  # a label in a formula is escaped
                    shown = old if old.replace("\\", "") == label else label
                pieces += (before, shown)
                grown += len(shown) - (end - begin)
                at = end
            name[1] = end + grown
        span[1] += grown
    return "".join((*pieces, text[at:]))
