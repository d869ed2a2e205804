"""Markdown, text and PDF files to documents of chunks."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from itertools import pairwise

from lemmata.latex.sentences import chunks
from lemmata.latex.source import decode
from lemmata.types import Document, Label, Link, Passage, Reading, Skip

__all__ = ["read_pdf", "read_text"]

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.*?)[ \t]*#*$|^([^\n]+)\n(=+|-{3,})[ \t]*$", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*\n", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)


def _front_matter(text: str) -> tuple[dict[str, str], int]:
    """Simple `key: value` lines at the top of a Markdown file, and the offset after them."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, 0
    pairs = re.findall(r"(?m)^(\w+)[ \t]*:[ \t]*[\"']?(.*?)[\"']?[ \t]*$", match[1])
    return {key.lower(): value for key, value in pairs if value}, match.end()


def _strip_markup(text: str) -> str:
    text = _LINK.sub(r"\1", text)
    text = _DISPLAY.sub(lambda m: f"${m[1].strip()}$", text)
    text = re.sub(r"(?m)^[ \t]*(?:>[ \t]?)+", "", text)
    return re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)


def _headings(text: str, start: int) -> list[tuple[int, int, int, str]]:
    """Begin, end, level and text of each heading outside fenced code."""
    fences = [match.span() for match in _FENCE.finditer(text)]
    return [
        (*match.span(), len(match[1]) if match[1] else 1 + match[4].startswith("-"), match[2] or match[3])
        for match in _HEADING.finditer(text, start)
        if not any(begin <= match.start() < end for begin, end in fences)
    ]


def _links(markdown: str, document: str) -> tuple[Link, ...]:
    """The links to other files, by path without suffix."""
    folder = posixpath.dirname(document)
    urls = [match[2] for match in _LINK.finditer(markdown) if not re.match(r"[a-z]+:|#", match[2])]
    targets = [posixpath.normpath(posixpath.join(folder, url.split("#")[0])) for url in urls]
    return tuple(dict.fromkeys(Link("refers_to", posixpath.splitext(target)[0]) for target in targets))


def read_text(data: bytes, document: str, file: str, *, size: int = 1500, overlap: int = 200) -> Reading:
    """A Markdown or text file: sections by its headings, chunks inside them."""
    text = decode(data)
    front, start = _front_matter(text)
    markdown = posixpath.splitext(file)[1].lower() not in (".txt", ".text")
    headings = _headings(text, start) if markdown else []
    title = front.get("title") or next((h[3] for h in headings), "") or posixpath.basename(document)
    line_ends = [match.start() for match in re.finditer("\n", text)]
    passages: list[Passage] = []
    path: list[tuple[int, str]] = []  # level and text of the headings above
    borders = [(start, start, 0, ""), *headings, (len(text), len(text), 0, "")]
    for (_, begin, level, heading), (end, *_) in pairwise(borders):
        while path and path[-1][0] >= level:
            path.pop()
        if heading:
            path.append((level, _strip_markup(heading).strip()))
        for low, high in chunks(text[begin:end], size, overlap):
            raw = text[begin + low : begin + high]
            clean = _strip_markup(raw) if markdown else raw
            clean = "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", clean))
            if not re.search(r"\w", clean):
                continue
            passages.append(
                Passage(
                    id=f"{document}@{len(passages) + 1}",
                    document=document,
                    kind="chunk",
                    text=clean,
                    section=" / ".join(name for _, name in path),
                    raw=raw if raw != clean else "",
                    file=file,
                    first_line=bisect_right(line_ends, begin + low - 1) + 1,
                    last_line=bisect_right(line_ends, begin + high - 2) + 1,
                    links=_links(raw, document),
                )
            )
    metadata = {key: value for key, value in front.items() if key not in ("title", "date")}
    title = _strip_markup(title).strip()
    record = Document(document, title, "text", date=front.get("date"), file=file, metadata=metadata)
    skips = [] if passages else [Skip(file, 0, "it contains no text")]
    return Reading([record], passages, [Label(document, document, document)], skips=skips)


def read_pdf(data: bytes, document: str, file: str, *, size: int = 1500, overlap: int = 200) -> Reading:
    """A PDF: chunks with their pages; a chunk may run past the end of a page."""
    from lemmata.ingest.pdf import read_pages

    pages, skips, metadata = read_pages(data, file=file)
    text, starts = "", []
    for page in pages:
        separator = "" if not text else " " if re.search(r"[\w,;–-]$", text) else "\n\n"
        starts.append(len(text) + len(separator))
        text += separator + page.text
    passages: list[Passage] = []
    for low, high in chunks(text, size, overlap):
        first, last = (pages[max(0, bisect_right(starts, at) - 1)].number for at in (low, high - 1))
        passages.append(
            Passage(
                id=f"{document}@{len(passages) + 1}",
                document=document,
                kind="chunk",
                text="\n\n".join(" ".join(part.split()) for part in text[low:high].split("\n\n")),
                file=file,
                metadata={"page": first, "last_page": last},
            )
        )
    authors = tuple(name.strip() for name in re.split(r";| and ", metadata.get("author", "")) if name.strip())
    title = metadata.get("title") or posixpath.basename(document)
    record = Document(document, title, "pdf", authors, metadata.get("date"), file=file)
    return Reading([record], passages, [Label(document, document, document)], skips=skips)
