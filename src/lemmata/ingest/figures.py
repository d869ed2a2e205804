r"""Which PDFs and images in a folder with LaTeX are figures of a paper, by what the TeX files say.

A figure is a file that a TeX file includes (`\includegraphics{a}`), that was compiled from a TeX file beside it, or
that lies in a folder of figures. Every other PDF is a document, whatever TeX lies around it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lemmata.core.types import Skip

_IMAGES = "png|jpe?g|gif|svgz?|e?ps|epsi|epsf|bmp|tiff?|webp|ai|xcf|ico|drawio|fig|mps"
_IMAGE = re.compile(rf".*\.(?:{_IMAGES})", re.I)
_SUFFIX = re.compile(rf"(?:-eps-converted-to)?\.(?:pdf|{_IMAGES})$", re.I)
_POSTSCRIPT = (".eps", ".ps")  # often lies beside a PDF of the same name, which was made from it
_FOLDER = re.compile(
    r"(?:fig(?:ure)?|img|image|graphic|pic(?:ture)?|plot|diagram|illustration|drawing)s?"
    r"(?:[-_.]?(?:v?\d+|pdf|eps|final|new|old))?",
    re.I,
)
# The limits keep hostile text from being read again and again.
_BLANKS = r"(?:\s|%[^\n]{0,200}+\n){0,50}+"
# An argument may have braces inside, as in {{a.b}.pdf}.
_ARGUMENT = r"\{(?:[^{}]{1,300}+|\{[^{}]{0,300}+\}){0,20}+\}"
_ARGUMENTS = rf"\*?(?:{_BLANKS}\[[^\]]{{0,2000}}\]){{0,2}}((?:{_BLANKS}{_ARGUMENT}){{1,4}})"
_INCLUDE = re.compile(
    r"\\(?:includegraphics|includepdf(?:merge)?|adjincludegraphics|adjustimage|includesvg|includeinkscape"
    r"|includestandalone|pgfimage|pgfdeclareimage|epsfbox|epsffile|epsfig|psfig|plotone|plottwo"
    r"|(?:left|right|boxed|rotate)?fig|input(?=\s*\{[^{}\n]{1,300}\.pdf_t)"
    rf"|begin{_BLANKS}\{{overpic\}})(?![a-zA-Z@]){_ARGUMENTS}"
)
_GRAPHICS_PATH = re.compile(rf"\\(?:graphics|svg)path\s*({_ARGUMENT})")
_DEFINITION = re.compile(
    r"\\(?:(?:re)?newcommand|providecommand|(?:New|Renew|Provide|Declare)DocumentCommand|[egx]?def)"
    r"\*?\s*\{?\s*\\([a-zA-Z@]+)"
)
_LONGEST_DEFINITION = 2000  # characters


class Graphics(NamedTuple):
    """What a TeX file says about figures."""

    names: tuple[str, ...] = ()  # of the files it includes, as written
    folders: tuple[str, ...] = ()  # where \graphicspath looks for them
    macros: tuple[tuple[str, str], ...] = ()  # commands with the file that they include: fig, plots/#1.pdf


def is_image(name: str) -> bool:
    """Whether a file holds a picture, by its suffix; a PDF may hold one or not."""
    return _IMAGE.fullmatch(name) is not None


def stem_of(path: str) -> str:
    """A path without the suffix of a figure; it stays as it is where it has none."""
    return _SUFFIX.sub("", path)


def folders_above(path: str) -> Iterator[str]:
    """The folder of a file, then those above it; the last is ""."""
    while path:
        path = posixpath.dirname(path)
        yield path


def read_graphics(text: str, stems: Container[str]) -> Graphics:
    """What a TeX file says about figures; of their names only those that end in one of `stems`."""
    names: list[str] = []
    macros: list[tuple[str, str]] = []
    for call in _INCLUDE.finditer(text):
        for name in _names(call[1]):
            if "#" in name:  # the argument of a macro that is being defined
                before = text[max(0, call.start() - _LONGEST_DEFINITION) : call.start()]
                macros += ((macro, name) for macro in _DEFINITION.findall(before)[-1:])
            elif posixpath.basename(stem_of(name)) in stems:
                names.append(name)
    paths = [path for call in _GRAPHICS_PATH.findall(text) for path in re.findall(r"\{([^{}]*)\}", call)]
    return Graphics(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(macros)))


def _names(arguments: str) -> Iterator[str]:
    """The names of files in the arguments of a command: {a.pdf}, {file=a.ps, width=3cm}, {a.pdf, 1-3, b.pdf}."""
    for argument in re.findall(_ARGUMENT, arguments):
        content = re.sub(r"[{}\"]", "", argument).strip()
        for name in dict.fromkeys((content, *re.split(r"\s*[,=]\s*", content))):
            yield name.removesuffix(".pdf_tex").removesuffix(".pdf_t")  # Inkscape writes a.pdf_tex beside a.pdf


class _Scope:
    """The folders and macros that hold for the TeX files of a folder and of those below it."""

    def __init__(self, graphics: Mapping[str, Graphics], included: Mapping[str, Iterable[str]]) -> None:
        self._by_folder: dict[str, list[Graphics]] = {}
        declaring = {name: content for name, content in graphics.items() if content.folders or content.macros}
        for name, content in declaring.items():
            self._by_folder.setdefault(posixpath.dirname(name), []).append(content)
        for name, others in included.items() if declaring else ():  # what a preamble says holds where it is included
            for other in others:
                if other in declaring:
                    self._by_folder.setdefault(posixpath.dirname(name), []).append(declaring[other])

    def folders(self, name: str) -> list[str]:
        """Where the figures of a TeX file may lie: LaTeX may run in its folder or in one above."""
        above = list(folders_above(name))
        paths = [path for folder in above for content in self._by_folder.get(folder, ()) for path in content.folders]
        return [posixpath.join(folder, path) for path in dict.fromkeys(["", *paths]) for folder in above]

    def macros(self, name: str, folders: Container[str]) -> dict[str, set[str]]:
        """The macros that a TeX file may use, with the files they include, from those of the folders above it."""
        macros: dict[str, set[str]] = {}
        for folder in folders_above(name):
            for content in self._by_folder.get(folder, ()) if folder in folders else ():
                for macro, file in content.macros:
                    macros.setdefault(macro, set()).add(file)
        return macros


def find_figures(
    files: Sequence[str],
    graphics: Mapping[str, Graphics],
    *,
    papers: Iterable[str],
    included: Mapping[str, Iterable[str]],
    read: Callable[[str], str | None],
) -> dict[str, str]:
    """Those of the PDFs and images that are figures, each with the reason: included, compiled or folder.

    `graphics` has all TeX files, `papers` those whose text is read, so that a PDF compiled from them has nothing new,
    and `included` the TeX files that each of them includes. `read` returns the text of a TeX file; it is called only
    where files are left and the paper has a macro of its own that includes figures.
    """
    tex_stems = {posixpath.splitext(name)[0] for name in papers}
    tex_folders = {posixpath.dirname(name) for name in graphics}
    by_stem: dict[str, list[str]] = {}
    by_name: dict[str, list[str]] = {}
    for name in files:
        by_stem.setdefault(stem_of(name), []).append(name)
        by_name.setdefault(posixpath.basename(stem_of(name)), []).append(name)
    scope = _Scope(graphics, included)
    figures: dict[str, str] = {}

    def mark(source: str, written: Iterable[str]) -> None:
        folders = scope.folders(source)
        for name in written:
            stem = stem_of(name)
            suffix = name[len(stem) :].lower()
            places = [by_stem.get(posixpath.normpath(posixpath.join(folder, stem)), []) for folder in folders]
            if "\\" in posixpath.dirname(name):  # the folder is a macro
                below = posixpath.dirname(source)
                near = by_name.get(posixpath.basename(stem), ())
                places.append([match for match in near if not below or match.startswith(below + "/")])
            for place in places:
                matches = [match for match in place if _has_suffix(match, suffix)]
                figures.update(dict.fromkeys(matches, "included"))
                if matches:  # LaTeX takes the first it finds
                    break

    for source, content in graphics.items():
        if content.names:
            mark(source, content.names)
    for name in files:
        if name not in figures and stem_of(name) in tex_stems:
            figures[name] = "compiled"
        elif name not in figures and _is_in_figures_folder(name, tex_folders):
            figures[name] = "folder"
    remaining = {folder for name in files if name not in figures for folder in folders_above(name)}
    stems = {posixpath.basename(stem_of(name)) for name in files if name not in figures}
    for source in graphics if remaining else ():
        macros = scope.macros(source, remaining)
        if macros and (text := read(source)) is not None:
            written = _names_by_macros(text, macros)
            mark(source, [name for name in written if posixpath.basename(stem_of(name)) in stems])
    return figures


def _has_suffix(name: str, suffix: str) -> bool:
    """Whether a file may be meant by a name with this suffix, or with none; a PDF may be made from PostScript."""
    lower = name.lower()
    return lower.endswith(suffix) or (suffix in _POSTSCRIPT and lower.endswith(".pdf"))


def _names_by_macros(text: str, macros: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """The names of files that a text includes by macros of its own."""
    calls = re.compile(rf"\\({'|'.join(map(re.escape, macros))})(?![a-zA-Z@]){_ARGUMENTS}")
    for call in calls.finditer(text):
        for name in _names(call[2]):
            for file in macros[call[1]]:
                yield re.sub(r"#\d", name.replace("\\", r"\\"), file)


def _is_in_figures_folder(name: str, tex_folders: Container[str]) -> bool:
    """Whether a folder of figures above the file lies below a folder with TeX."""
    above = list(folders_above(name))
    return any(
        _FOLDER.fullmatch(posixpath.basename(folder)) and any(higher in tex_folders for higher in above[place + 1 :])
        for place, folder in enumerate(above)
    )


_REASONS = {  # for one file, for several
    "included": ("a TeX file includes it", "TeX files include them"),
    "compiled": ("it was compiled from the TeX file of the same name", "they were compiled from the TeX files there"),
    "folder": ("it lies in a folder of figures", "they lie in a folder of figures"),
}


def note_figures(figures: Mapping[str, str]) -> Iterator[Skip]:
    """One note per folder and reason on PDFs that are no documents, for their reasons by path."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, reason in sorted(figures.items()):
        groups.setdefault((posixpath.dirname(name), reason), []).append(name)
    for (_, reason), names in groups.items():
        one, several = _REASONS[reason]
        if len(names) == 1:
            cause = f"this PDF is no document of its own: {one}"
        else:
            cause = f"{len(names):,} PDFs of this folder are no documents of their own: {several}"
        yield Skip(names[0], 0, f"{cause}; name a file to read it")
