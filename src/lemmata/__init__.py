"""lemmata: a corpus and its graph, made into a search engine that speaks its language."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lemmata.errors import ConfigError, InputError, LemmataError, WorkspaceError
    from lemmata.project import Project
    from lemmata.search import Filter, Retriever
    from lemmata.stages.ingest import IngestReport
    from lemmata.store.corpus import Corpus
    from lemmata.types import Document, Hit, Link, Passage, Reference

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
    "errors": ("ConfigError", "InputError", "LemmataError", "WorkspaceError"),
    "stages.ingest": ("IngestReport",),
    "project": ("Project",),
    "search": ("Filter", "Retriever"),
    "store.corpus": ("Corpus",),
    "types": ("Document", "Hit", "Link", "Passage", "Reference"),
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
