from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from reportlab.pdfgen.canvas import Canvas

from lemmata.ingest.text import read_pdf, read_text

MARKDOWN = """---
title: "A page"
date: 2020-02-03
lang: de
---
Before any heading.

# First

See [the other](../b/other.md#part) and **this**, not [that](https://example.org).

```
# no heading
```

## Inner

> quoted $$x = 1$$ here

Second
======

Last words.
"""


def test_markdown_is_split_at_its_headings() -> None:
    reading = read_text(MARKDOWN.encode(), "a/page", "a/page.md")
    assert [(p.id, p.section) for p in reading.passages] == [
        ("a/page@1", ""),
        ("a/page@2", "First"),
        ("a/page@3", "First / Inner"),
        ("a/page@4", "Second"),
    ]
    document = reading.documents[0]
    assert (document.title, document.date, document.metadata) == ("A page", "2020-02-03", {"lang": "de"})


def test_markup_is_stripped_and_links_are_kept() -> None:
    passages = read_text(MARKDOWN.encode(), "a/page", "a/page.md").passages
    assert passages[1].text.startswith("See the other and this, not that.")
    assert [(link.relation, link.label) for link in passages[1].links] == [("refers_to", "b/other")]
    assert passages[2].text == "quoted $x = 1$ here"


def test_line_numbers_match_the_source() -> None:
    lines = MARKDOWN.split("\n")
    for passage in read_text(MARKDOWN.encode(), "a", "a.md").passages:
        source = "\n".join(lines[passage.first_line - 1 : passage.last_line])
        assert (passage.raw or passage.text) in source


def test_a_text_file_has_no_headings() -> None:
    reading = read_text(b"# not a heading\nbut text", "t", "t.txt")
    assert [p.section for p in reading.passages] == [""]


def test_an_empty_file_is_a_skip() -> None:
    reading = read_text(b" \n\n", "t", "t.md")
    assert reading.passages == []
    assert [skip.file for skip in reading.skips] == ["t.md"]


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(data: bytes) -> None:
    for passage in read_text(data, "t", "t.md").passages:
        assert passage.text.strip()
        assert 1 <= passage.first_line <= passage.last_line


def test_chunks_of_a_pdf_have_page_numbers() -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    for number in range(3):
        for line in range(20):
            words = f"On page {number + 1} the line {line + 1} says something that takes some room."
            canvas.drawString(72, 720 - 14 * line, words)
        canvas.showPage()
    canvas.setTitle("A small book")
    canvas.save()
    reading = read_pdf(buffer.getvalue(), "book", "book.pdf", size=600, overlap=50)
    assert reading.documents[0].title
    pages = [(p.metadata["page"], p.metadata["last_page"]) for p in reading.passages]
    assert pages[0][0] == 1
    assert pages[-1][1] == 3
    assert all(first <= last <= first + 1 for first, last in pages)
