r"""Which file of a LaTeX project is the paper: signs, scores, and how sure one can be."""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Candidate", "confidence", "has_class", "included_files", "is_main", "rank_mains", "stale_copy_of"]


class Candidate(NamedTuple):
    """A file that could be the main one."""

    path: str
    score: float
    reasons: tuple[str, ...]


_INCLUDE = re.compile(
    r"\\(?:(?:input|include|subfile|subfileinclude|InputIfFileExists)\s*\{([^{}\n]*)\}"
    r"|input[ \t]+([^\s{}\\%]+)"
    r"|(?:import|subimport|includefrom|inputfrom)\s*\{([^{}\n]*)\}\s*\{([^{}\n]*)\})"
)
_CLASS = re.compile(r"\\document(?:class|style)(?![a-zA-Z])\s*(?:\[[^\]]{0,2000}\])?\s*\{?\s*([\w./-]*)")
_STALE = re.compile(r"(?:^|[/_.\- ])(?:old|copy|backup|bak|draft|orig|previous|stale)(?:[_.\- /\d]|$)|~$|\(\d+\)", re.I)


_PERCENT = re.compile(r"[^\\%]*+(?:\\.[^\\%]*+)*+%", re.DOTALL)


def _commented(text: str, offset: int) -> bool:
    """Whether a `%` makes what stands at `offset` a comment."""
    near = max(0, offset - 2000)  # a hostile line may be as long as the file
    begin = max(text.rfind("\n", near, offset) + 1, near)
    return _PERCENT.match(text, begin, offset) is not None


def _live(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next((found for found in pattern.finditer(text) if not _commented(text, found.start())), None)


_DOCUMENT = re.compile(r"\\(?:begin\s*\{document\}|documentstyle(?![a-zA-Z])|bye(?![a-zA-Z]))")


def is_main(text: str) -> bool:
    """Whether a file starts a document of its own."""
    return ("document" in text or "\\bye" in text) and _live(_DOCUMENT, text) is not None


def has_class(text: str) -> bool:
    """Whether a file names a document class."""
    return "\\document" in text and _live(_CLASS, text) is not None


def stale_copy_of(path: str, others: Collection[str]) -> str | None:
    """The file of which `path` looks like an old copy, when that is among `others`."""
    stem, suffix = posixpath.splitext(path)
    if not _STALE.search(stem):
        return None
    fresh = _STALE.sub("", stem).rstrip("_-. ") + suffix
    return fresh if fresh != path and fresh in others else None


def included_files(text: str) -> list[str]:
    """The names that a file includes, as written."""
    names = []
    for found in _INCLUDE.finditer(text):
        if not _commented(text, found.start()):
            one, plain, folder, name = found.groups()
            names.append((one or plain or posixpath.join(folder or "", name or "")).strip().strip('"'))
    return names


def read_hints(texts: Mapping[str, str]) -> dict[str, str]:
    """What a `00README` of any generation says of the files: `toplevel`, `ignore` or `include`."""
    hints: dict[str, str] = {}
    for path, text in texts.items():
        name = posixpath.basename(path).lower()
        if not name.startswith("00readme"):
            continue
        folder = posixpath.dirname(path)
        pairs: list[tuple[str, str]] = []
        if name.endswith(".json"):
            try:
                sources = json.loads(text).get("sources", [])
                pairs = [(str(s["filename"]), str(s.get("usage", "toplevel"))) for s in sources]
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # a broken hint is no hint; the other signs remain
        elif name.endswith((".yaml", ".yml")):
            for entry in re.split(r"(?m)^\s*-\s+", text)[1:]:
                named = re.search(r"filename\s*:\s*[\"']?([^\s\"'#]+)", entry)
                used = re.search(r"usage\s*:\s*[\"']?(\w+)", entry)
                if named:
                    pairs.append((named[1], used[1] if used else "toplevel"))
        else:
            for line in text.splitlines():
                words = line.split()
                if len(words) == 2 and words[1] in ("toplevelfile", "ignore", "include"):
                    pairs.append((words[0], words[1].removesuffix("file")))
        for file, usage in pairs:
            hints.setdefault(posixpath.normpath(posixpath.join(folder, file)), usage)
    return hints


def rank_mains(texts: Mapping[str, str]) -> list[Candidate]:
    """TeX files by how likely each is the main one, best first; files that can not be are left out.

    `texts` holds every text file of the package by path: TeX files, bibliographies and `00README`.
    """
    hints = read_hints(texts)
    sources = {path: text for path, text in texts.items() if path.lower().endswith((".tex", ".ltx", ".texx"))}
    if not sources:  # a package of one file with a strange name, or plain TeX without a suffix
        sources = {path: text for path, text in texts.items() if "\\" in text and _live(_CLASS, text)}
    included: set[str] = set()
    for path, text in sources.items():
        for name in included_files(text):
            for folder in {"", posixpath.dirname(path)}:
                target = posixpath.normpath(posixpath.join(folder, name))
                included.update((target, target + ".tex"))
    order = {file: n for n, (file, usage) in enumerate(hints.items()) if usage == "toplevel"}
    candidates = []
    for path, text in sources.items():
        if hints.get(path) == "ignore" or path.split("/")[0] == "anc":
            continue
        score = 0.0
        reasons: list[str] = []

        def sign(points: float, reason: str, reasons: list[str] = reasons) -> float:
            reasons.append(reason)
            return points

        if path in order:
            score += sign(100.0 - order[path], "named by 00README")
        elif hints.get(path) == "include":
            score += sign(-20.0, "00README says it is included")
        documentclass = _live(_CLASS, text)
        if documentclass:
            kind = documentclass[1]
            score += sign(4.0, f"document class {kind}" if kind else "document class")
            if kind in ("standalone", "subfiles"):
                score += sign(-3.0, f"class {kind} is for parts")
        if is_main(text):
            score += sign(3.0, "begins a document")
        if any(m in text for m in ("\\title", "\\maketitle")):
            score += sign(1.0, "has a title")
        if posixpath.splitext(path)[0] + ".bbl" in texts:
            score += sign(2.0, "bibliography of the same name")
        if path in included:
            score += sign(-5.0, "included by another file")
        if posixpath.splitext(posixpath.basename(path))[0].lower() in ("main", "ms", "paper", "article"):
            score += sign(0.5, "usual name")
        if _STALE.search(posixpath.splitext(path)[0]):
            score += sign(-2.0, "named like an old copy")
        score += 0.4 * math.log10(len(text) + 1) - 0.5 * path.count("/")
        candidates.append(Candidate(path, round(score, 3), tuple(reasons)))
    return sorted(candidates, key=lambda c: (-c.score, c.path))


def confidence(candidates: Sequence[Candidate]) -> float:
    """How sure the first of ranked candidates is, between 0 and 1."""
    if not candidates:
        return 0.0
    first = candidates[0]
    sure = 1.0 if first.score >= 50 else 0.98 if first.score >= 6 else 0.8 if first.score >= 3 else 0.4
    if len(candidates) > 1:
        sure *= 1 - 0.5 * math.exp(candidates[1].score - first.score)
    return round(sure, 3)
