"""From what authors wrote to what they meant: labels, citation keys and names to passages and documents."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator

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
    arxiv: dict[str, str] = {}
    dois: dict[str, str] = {}
    titles: dict[str, str | None] = {}
    for document in documents:
        if document.kind == "location":
            continue
        arxiv.setdefault(str(document.metadata.get("arxiv") or document.id), document.id)
        if document.metadata.get("doi"):
            dois[str(document.metadata["doi"]).lower()] = document.id
        title = normalise_title(document.title)
        if title:
            titles[title] = None if title in titles else document.id
    for number, document_id, entry in entries:
        title = normalise_title(entry.title)
        target = (
            (arxiv.get(entry.arxiv) if entry.arxiv else None)
            or (dois.get(entry.doi) if entry.doi else None)
            or (titles.get(title) if len(title) >= 10 else None)
        )
        yield number, document_id, entry.key, target if target != document_id else None


def resolve_links(
    links: Iterable[tuple[int, str, str, str]],
    labels: Iterable[Label],
    prefixes: Iterable[tuple[str, str, str]],
    cited: Callable[[str, str], str | None],
) -> Iterator[tuple[str | None, int]]:
    """Target and number of each link (number, document, relation, label).

    A label means what its own document calls so; else what a document means that is imported under a prefix;
    else the only place in the same folder (for references inside papers) or in the corpus (for names and
    ids) that has it. `cited` gives the target of a citation key of a document.
    """
    here: dict[tuple[str, str], str] = {}
    anywhere: dict[str, str | None] = {}
    folder: dict[tuple[str, str], str | None] = {}
    for document, name, target in labels:
        here.setdefault((document, name), target)
        place = (posixpath.dirname(document), name)
        folder[place] = target if folder.get(place, target) == target else None
        anywhere[name] = target if anywhere.get(name, target) == target else None
    imported: dict[str, dict[str, str]] = {}
    for document, prefix, other in prefixes:
        imported.setdefault(document, {})[prefix] = other

    def through_prefix(document: str, label: str) -> str | None:
        known = imported.get(document, {})
        for length in sorted({len(prefix) for prefix in known}, reverse=True):  # the longest prefix wins
            other = known.get(label[:length])
            if other is not None and (target := here.get((other, label[length:]))):
                return target
        return None

    for number, document, relation, label in links:
        if relation == "cites":
            yield cited(document, label) or here.get(("", label)), number
            continue
        found = here.get((document, label)) or through_prefix(document, label)
        if found is None and relation in _LOCAL and not label.startswith("name:"):
            found = folder.get((posixpath.dirname(document), label)) or here.get(("", label))
        elif found is None:
            found = here.get(("", label)) or anywhere.get(label)
        yield found, number
