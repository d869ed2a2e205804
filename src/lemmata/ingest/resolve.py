"""Resolve labels, citation keys and names to the passages and documents they refer to."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping

from lemmata.latex.bibliography import normalise_title
from lemmata.types import Document, Label, Reference

__all__ = ["match_bibliography", "resolve_links"]

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


def resolve_links(
    links: Iterable[tuple[int, str, str, str]],
    labels: Iterable[Label],
    prefixes: Iterable[tuple[str, str, str]],
    cited: Callable[[str, str], str | None],
    places: Mapping[str, str] | None = None,
) -> Iterator[tuple[str | None, int]]:
    """Target and number of each link (number, document, relation, label).

    A label is looked up in its own document, then in documents imported under a prefix, then in the folder
    (references inside papers) or in the whole corpus (names and ids). In the last two it must be unique.
    `cited` returns the target of a citation key of a document. `places` says where documents lie on disk, without
    suffix: folders are meant there, whatever ids the documents have.
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
    for document, name, target in labels:
        in_document.setdefault((document, name), target)
        place = (folder_of(document), name)
        in_folder[place] = target if in_folder.get(place, target) == target else None
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

    for number, document, relation, label in links:
        if relation == "cites":
            yield cited(document, label) or in_document.get(("", label)), number
            continue
        resolved = in_document.get((document, label)) or through_prefix(document, label)
        if resolved is None and relation in _LOCAL and not label.startswith("name:"):
            resolved = in_folder.get((folder_of(document), label)) or in_document.get(("", label))
            resolved = resolved or (at_place.get(neighbour(document, label)) if document in places else None)
        elif resolved is None:
            resolved = in_document.get(("", label)) or in_corpus.get(label)
        yield resolved, number
