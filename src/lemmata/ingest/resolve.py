"""Resolve labels, citation keys and names to the passages and documents they refer to."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from lemmata.core.types import Document, Label, Reference
from lemmata.latex.bibliography import normalise_title

_CELLS = frozenset(("reports_about", "related_to"))  # relations whose label is a cell, which may hold several ids
_PIECE = re.compile(r"[^;|,\n]+")
_MOST_JOINED = 8  # pieces of a cell that may be one name together, as "Pump, main" is
_AFTER_NAME = re.compile(r"[-:/._]")
_LOCAL = frozenset(("refers_to", "proof_uses"))  # relations whose labels belong to one document or its folder


def match_bibliography(
    entries: Iterable[tuple[int, str, Reference]], documents: Iterable[Document]
) -> Iterator[tuple[int, str, str, str | None]]:
    """Number, document, key and matching document of each entry: by arXiv id, then DOI, then title.

    A title that several documents share, or one of fewer than ten letters, matches nothing.
    """
    by_arxiv: dict[str, str] = {}
    by_doi: dict[str, str] = {}
    by_title: dict[str, str | None] = {}  # None where several documents have the title
    for document in documents:
        if document.kind == "location":
            continue
        by_arxiv.setdefault(str(document.metadata.get("arxiv") or document.id), document.id)
        if document.metadata.get("doi"):
            by_doi[str(document.metadata["doi"]).lower()] = document.id
        if title := normalise_title(document.title):
            by_title[title] = None if title in by_title else document.id
    for number, citing, entry in entries:
        title = normalise_title(entry.title)
        target = (
            (by_arxiv.get(entry.arxiv) if entry.arxiv else None)
            or (by_doi.get(entry.doi) if entry.doi else None)
            or (by_title.get(title) if len(title) >= 10 else None)
        )
        yield number, citing, entry.key, target if target != citing else None


class Resolved(NamedTuple):
    """A link with its target; `others` are label and target of the further ids in the same cell."""

    target: str | None
    number: int
    others: tuple[tuple[str, str | None], ...] = ()


def _split_cell(cell: str, look_up: Callable[[str], str | None]) -> list[tuple[str, str | None]]:
    """The ids in a cell with their targets; of adjacent pieces the longest known name counts.

    The ids are separated by `;`, `|`, `,` or line ends, which a name may hold itself. Empty where no id is known.
    """
    spans = [match.span() for match in _PIECE.finditer(cell) if match[0].strip()]
    ids: dict[str, tuple[str, str | None]] = {}  # by target, so that each counts once
    at = 0
    while at < len(spans):
        for end in range(min(len(spans), at + _MOST_JOINED), at, -1):
            label = cell[spans[at][0] : spans[end - 1][1]].strip()
            target = look_up(label)
            if target is not None:
                break
        ids.setdefault(target or label, (label, target))
        at = end
    return list(ids.values()) if any(target for _, target in ids.values()) else []


def resolve_links(
    links: Iterable[tuple[int, str, str, str]],
    labels: Iterable[Label],
    prefixes: Iterable[tuple[str, str, str]],
    cited: Callable[[str, str], str | None],
    places: Mapping[str, str] | None = None,
) -> Iterator[Resolved]:
    """Target and number of each link (number, document, relation, label).

    A label is looked up in its own document, then in documents imported under a prefix, then in the folder
    (references inside papers) or in the whole corpus (names and ids). In the last two it must be unique. In a folder,
    the name of another document may be the prefix of its labels (`sets:lemma-union`).
    `cited` returns the target of a citation key of a document. The cell of a table is looked up whole, and where it
    is unknown as a list of ids. `places` says where documents lie on disk, without suffix: folders are meant there,
    whatever ids the documents have.
    """
    places = places or {}
    at_place = {place: document for document, place in places.items()}

    def folder_of(document: str) -> str:
        return posixpath.dirname(places.get(document, document))

    def neighbour(document: str, name: str) -> str:
        """The place of a document that another names by a path, which starts with the folder in its own id."""
        folder = posixpath.dirname(document)
        below = name.removeprefix(f"{folder}/") if folder else name
        return posixpath.normpath(posixpath.join(folder_of(document), below))

    in_document: dict[tuple[str, str], str] = {}
    in_folder: dict[tuple[str, str], str | None] = {}  # None where the label is ambiguous
    in_corpus: dict[str, str | None] = {}
    ids: set[str] = set()  # a name that is an id means the passage of that id
    for document, name, target in labels:
        in_document.setdefault((document, name), target)
        place = (folder_of(document), name)
        in_folder[place] = target if in_folder.get(place, target) == target else None
        if name == target:
            ids.add(name)
            in_corpus[name] = target
        elif name not in ids:
            in_corpus[name] = target if in_corpus.get(name, target) == target else None
    imported: dict[str, dict[str, str]] = {}
    for document, prefix, other in prefixes:
        imported.setdefault(document, {})[prefix] = at_place.get(neighbour(document, other), other)

    def through_prefix(document: str, label: str) -> str | None:
        matching = [prefix for prefix in imported.get(document, ()) if label.startswith(prefix)]
        for prefix in sorted(matching, key=len, reverse=True):  # the longest prefix wins
            if resolved := in_document.get((imported[document][prefix], label.removeprefix(prefix))):
                return resolved
        return None

    def through_name(document: str, label: str) -> str | None:
        for mark in _AFTER_NAME.finditer(label):
            other = at_place.get(neighbour(document, label[: mark.start()]))
            if other is not None and (resolved := in_document.get((other, label[mark.end() :]))):
                return resolved
        return None

    def look_up(document: str, relation: str, label: str) -> str | None:
        if relation == "reports_about" and (location := in_document.get(("", label))):
            return location  # a log of the same table may be called like a location
        resolved = in_document.get((document, label)) or through_prefix(document, label)
        if resolved is None and relation in _LOCAL and not label.startswith("name:"):
            resolved = in_folder.get((folder_of(document), label)) or in_document.get(("", label))
            if resolved is None and document in places:
                resolved = at_place.get(neighbour(document, label)) or through_name(document, label)
            return resolved
        return resolved or in_document.get(("", label)) or in_corpus.get(label)

    for number, document, relation, label in links:
        if relation == "cites":
            yield Resolved(cited(document, label) or in_document.get(("", label)), number)
            continue
        resolved = look_up(document, relation, label)
        if resolved is None and relation in _CELLS and not label.startswith("name:"):
            parts = _split_cell(label, partial(look_up, document, relation))
            first = next((place for place, (_, target) in enumerate(parts) if target is not None), 0)
            yield Resolved(parts[first][1] if parts else None, number, (*parts[:first], *parts[first + 1 :]))
        else:
            yield Resolved(resolved, number)
