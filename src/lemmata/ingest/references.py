"""The bibliography that a paper prints, from its own list, its `.bbl` file and the `.bib` files it names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from lemmata.core.types import Reference
from lemmata.latex.bibliography import read_bib, read_bibliography
from lemmata.latex.commands import arguments_of
from lemmata.latex.expand import WORD, Macro, expand

_MOST_BIBLIOGRAPHIES = 20  # of one folder


@lru_cache(maxsize=32)
def _read_bib_cached(text: str, macros: tuple[tuple[str, Macro], ...]) -> dict[str, Reference]:
    text = expand(text, dict(macros)) if macros else text
    return {reference.key: reference for reference in read_bib(text)}


@lru_cache(maxsize=32)
def _commands_in(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text))


_NOCITE = re.compile(r"\\nocite\s*\{([^{}]*)\}")


class _Bibliography(NamedTuple):
    entries: Mapping[str, Reference]  # by key
    whole: bool  # whether the paper prints all entries, or only the cited ones


def _bibliographies(
    text: str, main: str, read: Callable[[str], str | None], beside: Sequence[str], macros: Mapping[str, Macro]
) -> Iterator[_Bibliography]:
    """The `.bib` files that the paper names, its own list, its `.bbl` file; if it has none, the files `beside`."""
    names = [name for argument in arguments_of(text, "bibliography") for name in argument.split(",")]
    folder = posixpath.dirname(main)
    names = [name.strip() for name in (*names, *arguments_of(text, "addbibresource")) if name.strip()]
    names = [name if name.endswith(".bib") else name + ".bib" for name in names]
    paths = [posixpath.normpath(posixpath.join(folder, name)) for name in names]
    inline = re.search(r"\\bibitem|\\bib\s*\{", text)
    printed = [text[inline.start() :] if inline else "", read(posixpath.splitext(main)[0] + ".bbl")]
    contents = [content for path in paths if (content := read(path))]
    if not contents and not any(printed):
        contents = [content for path in beside if (content := read(path))]
    for content in contents:
        used = tuple((name, macros[name]) for name in sorted(_commands_in(content) & macros.keys()))
        yield _Bibliography(_read_bib_cached(content, used), whole=False)
    for content in filter(None, printed):
        yield _Bibliography({reference.key: reference for reference in read_bibliography(content)}, whole=True)


def read_references(
    text: str,
    main: str,
    read: Callable[[str], str | None],
    cited: Iterable[str],
    beside: Sequence[str] = (),
    macros: Mapping[str, Macro] | None = None,
) -> list[Reference]:
    r"""The entries that the paper prints: its own list, and the cited entries of `.bib` files, with its `macros`.

    `\nocite{*}` cites all entries. If several bibliographies have an entry, later ones only fill its gaps.
    """
    entries: dict[str, Reference] = {}
    uncited = [key.strip() for keys in _NOCITE.findall(text) for key in keys.split(",")]
    cited_keys = list(dict.fromkeys((*cited, *uncited)))
    for bibliography in _bibliographies(text, main, read, beside, macros or {}):
        whole = bibliography.whole or "*" in uncited
        for key in bibliography.entries if whole else cited_keys:
            if key not in bibliography.entries:
                continue
            new = bibliography.entries[key]
            old = entries.setdefault(key, new)
            names = ("title", "authors", "year", "arxiv", "doi")
            entries[key] = replace(old, **{name: getattr(old, name) or getattr(new, name) for name in names})
    return list(entries.values())


def bibliographies_by_folder(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The `.bib` files of each folder that has some, sorted."""
    folders: dict[str, list[str]] = {}
    for name in sorted(names):
        if name.lower().endswith(".bib"):
            folders.setdefault(posixpath.dirname(name), []).append(name)
    return {folder: tuple(files[:_MOST_BIBLIOGRAPHIES]) for folder, files in folders.items()}


def bibliographies_beside(path: str, by_folder: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The `.bib` files in the folder of a file, else in the nearest folder above it."""
    folder = posixpath.dirname(path)
    while folder and folder not in by_folder:
        folder = posixpath.dirname(folder)
    return by_folder.get(folder, ())
