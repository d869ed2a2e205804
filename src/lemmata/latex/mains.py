r"""Find the main file of a LaTeX project, with a score for each candidate."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Candidate(NamedTuple):
    """A file that could be the main one."""

    path: str
    score: float


class Main(NamedTuple):
    """The main file, and how it was chosen."""

    path: str
    confidence: float = 1.0
    runners_up: tuple[str, ...] = ()
    format_file: str = ""  # with the class and the macros, where the main file has none: see `format_file_of`


_INCLUDE = re.compile(
    r"\\(?:(?:input|include|subfile|subfileinclude|InputIfFileExists)\s*\{([^{}\n]*)\}"
    r"|input[ \t]+([^\s{}\\%]+)"
    r"|(?:sub)?(?:import|includefrom|inputfrom)\*?\s*\{([^{}\n]*)\}\s*\{([^{}\n]*)\})"
)
_CLASS = re.compile(r"\\document(?:class|style)(?![a-zA-Z])\s*(?:\[[^\]]{0,2000}\])?\s*\{?\s*([\w./-]*)")
_DOCUMENT = re.compile(r"\\(?:begin\s*\{document\}|documentstyle(?![a-zA-Z])|bye(?![a-zA-Z]))")
_CLASSES_OF_PARTS = ("standalone", "subfiles")
TEX_SUFFIXES = (".tex", ".ltx", ".texx")
_STALE = re.compile(r"(?:^|[/_.\- ])(?:old|copy|backup|bak|draft|orig|previous|stale)(?:[_.\- /\d]|$)|~$|\(\d+\)", re.I)
_PERCENT = re.compile(r"[^\\%]*+(?:\\.[^\\%]*+)*+%", re.DOTALL)


def _commented(text: str, offset: int) -> bool:
    """Whether the character at `offset` is part of a comment."""
    near = max(0, offset - 2000)  # a hostile line may be as long as the file
    begin = max(text.rfind("\n", near, offset) + 1, near)
    return _PERCENT.match(text, begin, offset) is not None


def _search(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first match outside comments."""
    return next((match for match in pattern.finditer(text) if not _commented(text, match.start())), None)


def stale_copy_of(path: str, others: Collection[str]) -> str | None:
    """The file among `others` of which `path` looks like an old copy."""
    stem, suffix = posixpath.splitext(path)
    if not _STALE.search(stem):
        return None
    original = _STALE.sub("", stem).rstrip("_-. ") + suffix
    return original if original != path and original in others else None


class TexFile(NamedTuple):
    """What decides whether a TeX file is a main file."""

    starts: bool  # a document
    document_class: str | None  # that it names
    included: tuple[str, ...]  # names of files, as written

    @property
    def is_part(self) -> bool:
        """Of another file, by its class."""
        return self.document_class == "subfiles"


def read_tex_file(text: str) -> TexFile:
    """What decides whether a file is a main file, from its text."""
    document_class = _search(_CLASS, text) if "\\document" in text else None
    starts = ("document" in text or "\\bye" in text) and _search(_DOCUMENT, text) is not None
    names = []
    for match in _INCLUDE.finditer(text):
        if not _commented(text, match.start()):
            braced, bare, folder, file = match.groups()
            names.append((braced or bare or posixpath.join(folder or "", file or "")).strip().strip('"'))
    return TexFile(starts, document_class[1] if document_class else None, tuple(names))


def read_tex_files(texts: Mapping[str, str]) -> dict[str, TexFile]:
    """The TeX files of a package, by their suffix; where none has it (plain TeX, a strange name) by their class."""
    sources = [path for path in texts if path.lower().endswith(TEX_SUFFIXES)]
    sources = sources or [path for path, text in texts.items() if "\\" in text and _search(_CLASS, text)]
    return {path: read_tex_file(texts[path]) for path in sources}


_PARAMETER = re.compile(r"\\?#(\d)")


def included_among(names: Collection[str], files: Mapping[str, TexFile]) -> set[str]:
    r"""Those of the names that one of the files includes.

    A parameter in a name, as in a macro that means `\include{#1/text}`, may be any name without a slash.
    """
    paths: set[str] = set()
    patterns: set[str] = set()
    for path, file in files.items():
        for name in file.included:
            for folder in {"", posixpath.dirname(path)}:
                target = posixpath.normpath(posixpath.join(folder, name))
                if "#" in target:
                    patterns.add(_PARAMETER.sub("[^/]+", re.escape(target)))
                else:
                    paths.update((target, target + ".tex"))
    included = {path for path in paths if path in names}
    if patterns:
        pattern = re.compile("|".join(f"(?:{each})(?:\\.tex)?" for each in sorted(patterns)))
        included.update(path for path in names if pattern.fullmatch(path))
    return included


def format_file_of(main: str, files: Mapping[str, TexFile]) -> str:
    r"""The file beside a main file without a class that has the class and no document; empty where there is not one.

    LaTeX reads such a file beforehand (`\dump`, `pdflatex -fmt`), and neither file names the other.
    """
    if files[main].document_class is not None or not files[main].starts:
        return ""
    starting = {path for path, file in files.items() if file.starts}
    others = files.keys() - starting - included_among(files, files)
    beside = [
        path
        for path in others
        if files[path].document_class is not None and posixpath.dirname(path) == posixpath.dirname(main)
        if not included_among(starting, {path: files[path]})
    ]
    return beside[0] if len(beside) == 1 else ""


def wrappers(files: Mapping[str, TexFile]) -> dict[str, list[str]]:
    r"""By each file with a document, the files that only set options for it and include it, best name first.

    Such a wrapper (`a4.tex` is `\def\size{a4paper}\input{main}`) starts no document, is included by no other file and
    leads to one document only. All wrappers of a document are the same book.
    """
    books: dict[str, list[str]] = {}
    roots = {path for path, file in files.items() if file.included and not file.starts}
    for path in sorted(roots - included_among(files, files), key=lambda path: (len(path), path)):
        reached, waiting = {path}, [path]
        while waiting:
            name = waiting.pop()
            new = included_among(files, {name: files[name]}) - reached if files[name].included else set()
            reached |= new
            waiting += new
        starting = [name for name in reached if files[name].starts]
        documents = [name for name in starting if files[name].document_class not in _CLASSES_OF_PARTS]
        if len(documents) == 1:
            books.setdefault(documents[0], []).append(path)
    return books


def complete_papers(files: Mapping[str, TexFile]) -> list[str]:
    """The TeX files that name a class, start a document and are no part of another, sorted.

    In place of a file behind wrappers stands the best of these.
    """
    others = {path for path, file in files.items() if file.document_class in (None, *_CLASSES_OF_PARTS)}
    complete = (path for path, file in files.items() if file.starts and path.lower().endswith(TEX_SUFFIXES))
    books = (paths[0] for paths in wrappers(files).values())
    return sorted({*complete} - others - included_among(files, files) | {*books})


_HINT_KEYS = ("filename", "usage")


def read_hints(texts: Mapping[str, str]) -> dict[str, str]:
    """The usage of files (`toplevel`, `ignore` or `include`) from arXiv's `00README` in any of its formats."""
    hints: dict[str, str] = {}
    for path, text in texts.items():
        name = posixpath.basename(path).lower()
        if not name.startswith("00readme"):
            continue
        if name.endswith((".json", ".yaml", ".yml")):
            entries = re.split(r"(?m)^\s*-\s+|\{", text)[1:]
            fields = [[re.search(rf"{key}\W*:\s*[\"']?([^\s\"'#]+)", entry) for key in _HINT_KEYS] for entry in entries]
            usages = [(file[1], usage[1] if usage else "toplevel") for file, usage in fields if file]
        else:
            lines = [line.split() for line in text.splitlines()]
            usages = [(line[0], line[1].removesuffix("file")) for line in lines if len(line) == 2]
        for file_name, usage in usages:
            if usage in ("toplevel", "ignore", "include"):
                hints.setdefault(posixpath.normpath(posixpath.join(posixpath.dirname(path), file_name)), usage)
    return hints


def rank_mains(texts: Mapping[str, str], files: Mapping[str, TexFile]) -> list[Candidate]:
    """TeX files by how likely each is the main one, best first; files that cannot be are left out.

    `texts` has every text file of the package by path: TeX files, bibliographies and `00README`.
    """
    hints = read_hints(texts)
    included = included_among(files, files) - wrappers(files).keys()
    formats = {format_file_of(path, files) for path in files}
    order = {file: number for number, (file, usage) in enumerate(hints.items()) if usage == "toplevel"}
    candidates = []
    for path, file in files.items():
        hint, text = hints.get(path), texts[path]
        stem = posixpath.splitext(path)[0]
        if hint == "ignore" or path.split("/")[0] == "anc":
            continue
        signs = (
            (path in order, 100.0 - order.get(path, 0)),
            (hint == "include", -20.0),
            (file.document_class is not None, 4.0),
            (file.document_class in _CLASSES_OF_PARTS, -3.0),
            (file.starts, 3.0),
            (path in formats, -10.0),
            ("\\title" in text or "\\maketitle" in text, 1.0),
            (stem + ".bbl" in texts, 2.0),
            (path in included, -5.0),
            (posixpath.basename(stem).lower() in ("main", "ms", "paper", "article"), 0.5),
            (_STALE.search(stem), -2.0),
        )
        score = sum(points for present, points in signs if present)
        score += 0.4 * math.log10(len(text) + 1) - 0.5 * path.count("/")
        candidates.append(Candidate(path, round(score, 3)))
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.path))


def confidence(candidates: Sequence[Candidate]) -> float:
    """How sure it is that the first of the ranked candidates is the main file, from 0 to 1."""
    if not candidates:
        return 0.0
    score = candidates[0].score
    value = 1.0 if score >= 50 else 0.98 if score >= 6 else 0.8 if score >= 3 else 0.4
    if len(candidates) > 1:
        value *= 1 - 0.5 * math.exp(candidates[1].score - score)
    return round(value, 3)
