"""lemmata: a corpus and its graph, made into a search engine that speaks its language."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lemmata.core.errors import ConfigError, InputError, LemmataError, WorkspaceError
    from lemmata.core.types import Document, Hit, Link, Passage, Reference
    from lemmata.corpus.corpus import Corpus
    from lemmata.ingest.ingest import IngestReport
    from lemmata.project import Project
    from lemmata.search.filter import Filter
    from lemmata.search.retriever import Retriever

__all__ = [
    "ConfigError",
    "Corpus",
    "Document",
    "Filter",
    "Hit",
    "IngestReport",
    "InputError",
    "LemmataError",
    "Link",
    "Passage",
    "Project",
    "Reference",
    "Retriever",
    "WorkspaceError",
]

_HOMES = {
    "core.errors": ("ConfigError", "InputError", "LemmataError", "WorkspaceError"),
    "ingest.ingest": ("IngestReport",),
    "project": ("Project",),
    "search.filter": ("Filter",),
    "search.retriever": ("Retriever",),
    "corpus.corpus": ("Corpus",),
    "core.types": ("Document", "Hit", "Link", "Passage", "Reference"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a name at its first use: `import lemmata` itself loads nothing."""
    if name == "__version__":
        return import_module("importlib.metadata").version("lemmata")
    if name in _HOME_OF:
        return getattr(import_module(f"lemmata.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'lemmata' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
