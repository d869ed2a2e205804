"""Markdown, plain text and PDF to documents of chunks."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from typing import Any

from lemmata.latex.sentences import chunks
from lemmata.latex.source import decode
from lemmata.types import Document, Label, Link, Passage, Reading, Skip

__all__ = ["read_pdf", "read_text"]

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.*?)[ \t]*#*$|^([^\n]+)\n(=+|-{3,})[ \t]*$", re.MULTILINE)
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*\n", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)


def _front_matter(text: str) -> tuple[dict[str, str], int]:
    """Simple `key: value` lines at the top of a Markdown file, and the offset behind them."""
    found = _FRONT.match(text)
    if found is None:
        return {}, 0
    pairs = re.findall(r"(?m)^(\w+)[ \t]*:[ \t]*[\"']?(.*?)[\"']?[ \t]*$", found[1])
    return {key.lower(): value for key, value in pairs if value}, found.end()


def _plain_markdown(text: str) -> str:
    text = _LINK.sub(r"\1", text)
    text = _DISPLAY.sub(lambda m: f"${m[1].strip()}$", text)
    text = re.sub(r"(?m)^[ \t]*(?:>[ \t]?)+", "", text)
    return re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)


def read_text(data: bytes, document: str, file: str, *, size: int = 1500, overlap: int = 200) -> Reading:
    """A Markdown or plain text file: sections by its headings, chunks inside them."""
    text = decode(data)
    front, start = _front_matter(text)
    markdown = posixpath.splitext(file)[1].lower() not in (".txt", ".text")
    fences = [found.span() for found in _FENCE.finditer(text)] if markdown else []
    headings = [
        (
            found.start(),
            found.end(),
            len(found[1]) if found[1] else 1 + found[4].startswith("-"),
            found[2] or found[3],
        )
        for found in (_HEADING.finditer(text, start) if markdown else ())
        if not any(begin <= found.start() < end for begin, end in fences)
    ]
    title = front.get("title") or next((h[3] for h in headings), "") or posixpath.basename(document)
    borders = [(start, start, 0, ""), *headings]
    breaks = [found.start() for found in re.finditer("\n", text)]
    passages: list[Passage] = []
    path: list[tuple[int, str]] = []
    for number, (_, begin, level, heading) in enumerate(borders):
        end = borders[number + 1][0] if number + 1 < len(borders) else len(text)
        while path and path[-1][0] >= level:
            path.pop()
        if heading:
            path.append((level, _plain_markdown(heading).strip()))
        section = " / ".join(name for _, name in path)
        for low, high in chunks(text[begin:end], size, overlap):
            raw = text[begin + low : begin + high]
            clean = _plain_markdown(raw) if markdown else raw
            clean = "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", clean))
            if not re.search(r"\w", clean):
                continue
            links = [
                Link("refers_to", posixpath.splitext(_target(document, found[2]))[0])
                for found in _LINK.finditer(raw)
                if not re.match(r"[a-z]+:|#", found[2])
            ]
            passages.append(
                Passage(
                    id=f"{document}@{len(passages) + 1}",
                    document=document,
                    kind="chunk",
                    text=clean,
                    section=section,
                    raw=raw if raw != clean else "",
                    file=file,
                    first_line=bisect_right(breaks, begin + low - 1) + 1,
                    last_line=bisect_right(breaks, begin + high - 2) + 1,
                    links=tuple(dict.fromkeys(links)),
                )
            )
    extra: dict[str, Any] = {key: value for key, value in front.items() if key not in ("title", "date")}
    record = Document(
        document, _plain_markdown(title).strip(), "text", date=front.get("date"), file=file, metadata=extra
    )
    skips = [] if passages else [Skip(file, 0, "no text was found in it")]
    return Reading([record], passages, [Label(document, document, document)], skips=skips)


def _target(document: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(document), link.split("#")[0]))


def read_pdf(data: bytes, document: str, file: str, *, size: int = 1500, overlap: int = 200) -> Reading:
    """A PDF: chunks that know their pages; they may run over the end of a page."""
    from lemmata.ingest.pdf import read_pages

    pages, skips, metadata = read_pages(data, file=file)
    joined, starts = "", []
    for page in pages:
        glue = "" if not joined else " " if re.search(r"[\w,;–-]$", joined) else "\n\n"
        starts.append(len(joined) + len(glue))
        joined += glue + page.text
    passages: list[Passage] = []
    for low, high in chunks(joined, size, overlap):
        first = pages[max(0, bisect_right(starts, low) - 1)].number
        last = pages[max(0, bisect_right(starts, high - 1) - 1)].number
        passages.append(
            Passage(
                id=f"{document}@{len(passages) + 1}",
                document=document,
                kind="chunk",
                text="\n\n".join(" ".join(part.split()) for part in joined[low:high].split("\n\n")),
                file=file,
                metadata={"page": first, "last_page": last},
            )
        )
    authors = tuple(name.strip() for name in re.split(r";| and ", metadata.get("author", "")) if name.strip())
    title = metadata.get("title") or posixpath.basename(document)
    record = Document(document, title, "pdf", authors, metadata.get("date"), file=file)
    return Reading([record], passages, [Label(document, document, document)], skips=skips)
