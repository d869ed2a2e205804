"""Markdown, text and PDF files to documents of chunks."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from lemmata.core.types import Document, Label, Link, Passage, Reading, Skip
from lemmata.ingest.blocks import Block, markdown_blocks, plain_blocks, rest_blocks
from lemmata.ingest.dates import read_date
from lemmata.ingest.emphasis import emphasised_terms, strip_emphasis
from lemmata.latex.sentences import chunks, gather, join_tiny_sections, pieces
from lemmata.latex.source import decode

TextFormat = Callable[[str, int], Iterator[Block]]  # reads the blocks of a text from an offset on
FORMATS: dict[str, TextFormat] = {
    **dict.fromkeys((".md", ".markdown"), markdown_blocks),
    **dict.fromkeys((".txt", ".text"), plain_blocks),
    ".rst": rest_blocks,
}
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*\n", re.DOTALL)
_KEY = re.compile(r"(\w+)[ \t]*:[ \t]*(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(?:name[ \t]*:)?[ \t]*(.*)")
_LINK = re.compile(r"!?\[([^\[\]]*+)\]\(\s*<?([^)\s>\[]{1,2000}+)>?[^)\[]{0,500}+\)")
_MOST_TERMS = 40  # of a chunk, which may be a glossary
_TINY = 60  # characters of a section; a shorter one is read with its neighbour
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)


def _front_matter(text: str) -> tuple[dict[str, list[str]], int]:
    """The values of `key: value` lines and of lists at the top of a Markdown file, and the offset after them."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, 0
    values: dict[str, list[str]] = {}
    key = ""
    for line in match[1].splitlines():
        if pair := _KEY.match(line):
            key, value = pair[1].lower(), pair[2].strip()
            is_list = value.startswith("[") and value.endswith("]")
            values[key] = value[1:-1].split(",") if is_list else [value]
        elif key and (item := _ITEM.match(line)):
            values[key].append(item[1])
    unquoted = {key: [value.strip().strip("\"'") for value in each] for key, each in values.items()}
    return {key: kept for key, each in unquoted.items() if (kept := [value for value in each if value])}, match.end()


def author_names(values: Sequence[str]) -> tuple[str, ...]:
    """The names of a list, or of one line with several."""
    names = re.split(r";|,|\band\b", values[0]) if len(values) == 1 else values
    return tuple(filter(None, map(str.strip, names)))


def _strip_markup(text: str) -> str:
    text = _LINK.sub(r"\1", _LINK.sub(r"\1", text))  # twice: a link around an image
    text = _DISPLAY.sub(lambda m: f"${m[1].strip()}$", text)
    return strip_emphasis(re.sub(r"(?m)^[ \t]*(?:>[ \t]?)+", "", text))


def _format_of(file: str) -> TextFormat:
    """By the last suffix that is one, of `notes.rst.gz` too; a file that the user named may have none."""
    suffixes = reversed(PurePosixPath(file.lower()).suffixes)
    return next((FORMATS[suffix] for suffix in suffixes if suffix in FORMATS), markdown_blocks)


def _pieces(block: Block, text: str, size: int) -> list[tuple[int, int]]:
    """The parts of a block that a chunk holds whole: code, the lines of a list or table, sentences."""
    content = text[block.begin : block.end]
    if block.kind == "heading" or (block.kind == "code" and len(content) <= size):
        return [(block.begin, block.end)]
    parts = [(0, len(content))]
    if block.kind != "prose":
        parts = [line.span() for line in re.finditer(r"[^\n]*\S[^\n]*", content)]
    return [
        (block.begin + low + begin, block.begin + low + end)
        for low, high in parts
        for begin, end in (
            [(0, high - low)] if block.kind != "prose" and high - low <= size else pieces(content[low:high], size)
        )
    ]


def _clean(block: Block, content: str, markdown: bool) -> str:
    """The text of a block or of a part of it: code as written, lists and tables line by line, prose in one line."""
    if block.kind == "heading":
        return _strip_markup(block.title)
    if block.kind == "code":
        lines = content.splitlines()
        fenced = [line for line in lines if not re.match(r" {0,3}(?:`{3,}|~{3,})", line)]
        return "\n".join(line.rstrip() for line in fenced).strip("\n")
    clean = _strip_markup(content) if markdown else content
    if block.kind == "table":
        rows = (re.sub(r"[ \t]*(?<!\\)\|[ \t]*", " | ", line.strip().strip("|").strip()) for line in clean.splitlines())
        return "\n".join(re.sub(r"[ \t]*\\\|[ \t]*", "|", row) for row in rows if re.search(r"\w", row))
    if block.kind == "list":
        wrapped = re.sub(r"\n[ \t]*(?![-*+][ \t]|\d{1,9}[.)][ \t]|\n)(?=\S)", " ", clean)
        return "\n".join(line.rstrip() for line in wrapped.splitlines() if line.strip())
    return " ".join(clean.split())


def _links(markdown: str, document: str) -> tuple[Link, ...]:
    """The links to other files, by path without suffix."""
    folder = posixpath.dirname(document)
    urls = [match[2] for match in _LINK.finditer(markdown) if not re.match(r"[a-z]+:|#", match[2])]
    targets = [posixpath.normpath(posixpath.join(folder, url.split("#")[0])) for url in urls]
    return tuple(dict.fromkeys(Link("refers_to", posixpath.splitext(target)[0]) for target in targets))


class _Section(NamedTuple):
    path: tuple[str, ...]  # the headings that lead to it, without markup
    blocks: list[Block]  # after its heading, which is the first where it has one


def _sections(blocks: Iterable[Block]) -> list[_Section]:
    """The sections that have text."""
    sections = [_Section((), [])]
    levels: list[int] = []
    for block in blocks:
        if block.kind == "heading":
            while levels and levels[-1] >= block.level:
                levels.pop()
            path = (*sections[-1].path[: len(levels)], _strip_markup(block.title).strip())
            levels.append(block.level)
            sections.append(_Section(path, []))
        sections[-1].blocks.append(block)
    return sections


def read_text(data: bytes, document: str, file: str, *, size: int = 1500, overlap: int = 200) -> Reading:
    """A Markdown, reStructuredText or text file: sections by its headings, chunks inside them.

    A section of a few words is read with its neighbour, its heading in the text.
    """
    text = decode(data)
    listed, start = _front_matter(text)
    front = {key: ", ".join(values) for key, values in listed.items()}
    read_blocks = _format_of(file)
    is_markdown = read_blocks is markdown_blocks
    sections = _sections(read_blocks(text, start))
    headings = [section.path[-1] for section in sections if section.path]
    title = front.get("title") or next(iter(headings), "") or posixpath.basename(document)
    line_ends = [match.start() for match in re.finditer("\n", text)]
    passages: list[Passage] = []
    filled = [s for s in sections if any(block.kind != "heading" for block in s.blocks)]
    lengths = [sum(block.end - block.begin for block in s.blocks if block.kind != "heading") for s in filled]
    for run in join_tiny_sections([(s.path, length) for s, length in zip(filled, lengths, strict=True)], _TINY):
        blocks = [block for number in run for block in filled[number].blocks]
        longest = max(run, key=lengths.__getitem__)
        if blocks[0].kind == "heading" and longest == run[0]:
            blocks = blocks[1:]  # it is the section of the passage
        begins, ends = [block.begin for block in blocks], [block.end for block in blocks]
        for low, high in gather([piece for block in blocks for piece in _pieces(block, text, size)], size, overlap):
            covered = blocks[bisect_right(ends, low) : bisect_left(begins, high)]
            parts = [(block, text[max(low, block.begin) : min(high, block.end)]) for block in covered]
            clean = "\n\n".join(filter(None, (_clean(block, part, is_markdown) for block, part in parts)))
            if not re.search(r"\w", clean):
                continue
            raw = text[low:high]
            prose = "\n".join(part for block, part in parts if block.kind != "code")
            texts = [part for block, part in parts if is_markdown and block.kind not in ("code", "heading")]
            terms = [term for part in texts for term in emphasised_terms(part)][:_MOST_TERMS]
            passages.append(
                Passage(
                    id=f"{document}@{len(passages) + 1}",
                    document=document,
                    kind="chunk",
                    text=clean,
                    section=" / ".join(filled[longest].path),
                    raw=raw if raw != clean else "",
                    file=file,
                    first_line=bisect_right(line_ends, low - 1) + 1,
                    last_line=bisect_right(line_ends, high - 2) + 1,
                    links=_links(prose, document),
                    metadata={"terms": terms} if terms else {},
                )
            )
    skips = [] if passages else [Skip(file, 0, "it contains no text")]
    metadata = {key: value for key, value in front.items() if key not in ("title", "date", "author", "authors")}
    date = read_date(front.get("date", ""))
    if front.get("date") and date is None:
        metadata["date"] = front["date"]
        skips.append(Skip(file, 1, f"it is kept without its unclear date {front['date']!r}"))
    authors = author_names([*listed.get("author", ()), *listed.get("authors", ())] or [""])
    title = _strip_markup(title).strip()
    record = Document(document, title, "text", authors, date, file=file, metadata=metadata)
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
    if not passages:  # a logo, a drawing or a scan
        return Reading(skips=[*skips, Skip(file, 0, "this PDF has no text: it is no document")])
    authors = tuple(name.strip() for name in re.split(r";| and ", metadata.get("author", "")) if name.strip())
    title = metadata.get("title") or posixpath.basename(document)
    record = Document(document, title, "pdf", authors, metadata.get("date"), file=file)
    return Reading([record], passages, [Label(document, document, document)], skips=skips)
