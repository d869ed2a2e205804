"""Resolve labels, citation keys and names to the passages and documents they refer to."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from lemmata.core.types import Document, Label, Reference
from lemmata.latex.bib_identifiers import normalise_title

CELLS = frozenset(("reports_about", "related_to"))  # relations whose label is a cell, which may hold several ids
_PIECE = re.compile(r"[^;|,\n]+")
_MOST_JOINED = 8  # pieces of a cell that may be one name together, as "Pump, main" is
AFTER_NAME = re.compile(r"[-:/._]")
LOCAL = frozenset(("refers_to", "proof_uses"))  # relations whose labels belong to one document or its folder


def document_keys(document: Document) -> Iterator[str]:
    """What an entry of a bibliography may know a document by: its arXiv id, DOI and title."""
    if document.kind != "location":
        yield f"arxiv:{document.metadata.get('arxiv') or document.id}"
        if document.metadata.get("doi"):
            yield f"doi:{str(document.metadata['doi']).lower()}"
        if title := normalise_title(document.title):
            yield f"title:{title}"


def entry_keys(entry: Reference) -> Iterator[str]:
    """The keys of documents that an entry may mean, the best first; a title of fewer than ten letters means none."""
    if entry.arxiv:
        yield f"arxiv:{entry.arxiv}"
    if entry.doi:
        yield f"doi:{entry.doi}"
    if len(title := normalise_title(entry.title)) >= 10:
        yield f"title:{title}"


def match_entry(keys: Iterable[str], holders: Callable[[str], Sequence[str]], citing: str) -> str | None:
    """The document that an entry means; `holders` has the documents of a key, by id. A title must be of one only."""
    for key in keys:
        if documents := holders(key):
            is_title, is_doi = key.startswith("title:"), key.startswith("doi:")
            if not is_title or len(documents) == 1:
                target = documents[-1 if is_doi else 0]
                return target if target != citing else None
    return None


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


class Names(NamedTuple):
    """What the labels of a corpus mean, and where its documents lie."""

    in_document: Callable[[str, str], str | None]  # the target of a label of a document
    in_folder: Callable[[str, str], str | None]  # of a label of the documents in a folder; None where there are several
    in_corpus: Callable[[str], str | None]  # the passage of this id, or else the only target of this name
    place: Callable[[str], str | None]  # where a document lies on disk, without suffix
    at_place: Callable[[str], str | None]  # the document that lies there
    imported: Callable[[str], Mapping[str, str]]  # the documents whose labels a document knows under a prefix
    cited: Callable[[str, str], str | None]  # the document that a key means in the bibliography of a document


def resolve(links: Iterable[tuple[int, str, str, str]], names: Names) -> Iterator[Resolved]:
    """Target and number of each link (number, document, relation, label).

    A label is looked up in its own document, then in documents imported under a prefix, then in the folder
    (references inside papers) or in the whole corpus (names and ids). In the last two it must be unique. In a folder,
    the name of another document may be the prefix of its labels (`sets:lemma-union`). The cell of a table is looked up
    whole, and where it is unknown as a list of ids. Folders are meant on disk, whatever ids the documents have.
    """

    def neighbour(document: str, name: str) -> str:
        """The place of a document that another names by a path, which starts with the folder in its own id."""
        folder = posixpath.dirname(document)
        below = name.removeprefix(f"{folder}/") if folder else name
        return posixpath.normpath(posixpath.join(folder_of(document, names.place), below))

    def through_prefix(document: str, label: str) -> str | None:
        imported = names.imported(document)
        matching = [prefix for prefix in imported if label.startswith(prefix)]
        for prefix in sorted(matching, key=len, reverse=True):  # the longest prefix wins
            other = imported[prefix]
            other = names.at_place(neighbour(document, other)) or other
            if resolved := names.in_document(other, label.removeprefix(prefix)):
                return resolved
        return None

    def through_name(document: str, label: str) -> str | None:
        for mark in AFTER_NAME.finditer(label):
            other = names.at_place(neighbour(document, label[: mark.start()]))
            if other is not None and (resolved := names.in_document(other, label[mark.end() :])):
                return resolved
        return None

    def look_up(document: str, relation: str, label: str) -> str | None:
        if relation == "reports_about" and (location := names.in_document("", label)):
            return location  # a log of the same table may be called like a location
        resolved = names.in_document(document, label) or through_prefix(document, label)
        if resolved is None and relation in LOCAL and not label.startswith("name:"):
            resolved = names.in_folder(folder_of(document, names.place), label) or names.in_document("", label)
            if resolved is None and names.place(document) is not None:
                resolved = names.at_place(neighbour(document, label)) or through_name(document, label)
            return resolved
        return resolved or names.in_document("", label) or names.in_corpus(label)

    for number, document, relation, label in links:
        if relation == "cites":
            yield Resolved(names.cited(document, label) or names.in_document("", label), number)
            continue
        resolved = look_up(document, relation, label)
        if resolved is None and relation in CELLS and not label.startswith("name:"):
            parts = _split_cell(label, partial(look_up, document, relation))
            first = next((place for place, (_, target) in enumerate(parts) if target is not None), 0)
            yield Resolved(parts[first][1] if parts else None, number, (*parts[:first], *parts[first + 1 :]))
        else:
            yield Resolved(resolved, number)


def folder_of(document: str, place: Callable[[str], str | None]) -> str:
    return posixpath.dirname(place(document) or document)


def names_in_memory(
    labels: Iterable[Label],
    prefixes: Iterable[tuple[str, str, str]],
    places: Mapping[str, str],
    cited: Callable[[str, str], str | None],
) -> Names:
    """The names of a corpus, all read at once."""
    documents = {place: document for document, place in places.items()}
    in_document: dict[tuple[str, str], str] = {}
    in_folder: dict[tuple[str, str], str | None] = {}  # None where the label is ambiguous
    in_corpus: dict[str, str | None] = {}
    ids: set[str] = set()  # a name that is an id means the passage of that id
    for document, name, target in labels:
        in_document.setdefault((document, name), target)
        label = (folder_of(document, places.get), name)
        in_folder[label] = target if in_folder.get(label, target) == target else None
        if name == target:
            ids.add(name)
            in_corpus[name] = target
        elif name not in ids:
            in_corpus[name] = target if in_corpus.get(name, target) == target else None
    imported: dict[str, dict[str, str]] = {}
    for document, prefix, other in prefixes:
        imported.setdefault(document, {})[prefix] = other
    return Names(
        lambda document, name: in_document.get((document, name)),
        lambda folder, name: in_folder.get((folder, name)),
        in_corpus.get,
        places.get,
        documents.get,
        lambda document: imported.get(document, {}),
        cited,
    )
