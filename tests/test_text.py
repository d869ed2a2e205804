from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reportlab.pdfgen.canvas import Canvas
from tests.make import is_linear

from lemmata.ingest.blocks import markdown_blocks, plain_blocks, rest_blocks
from lemmata.ingest.text import read_pdf, read_text

MARKDOWN = """---
title: "A page"
date: 2020-02-03
lang: de
---
Before any heading there are some words, enough of them for a chunk of their own.

# First

See [the other](../b/other.md#part) and **this**, not [that](https://example.org).

```
# no heading
```

## Inner

> quoted $$x = 1$$ here, with enough words around it to be more than a tiny section

Second
======

Last words, as many as it takes to be a chunk of their own, and not a few of them.
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
    assert passages[2].text.startswith("quoted $x = 1$ here, with")


def test_line_numbers_match_the_source() -> None:
    lines = MARKDOWN.split("\n")
    for passage in read_text(MARKDOWN.encode(), "a", "a.md").passages:
        source = "\n".join(lines[passage.first_line - 1 : passage.last_line])
        assert (passage.raw or passage.text) in source


@pytest.mark.parametrize(
    ("written", "text", "terms"),
    [
        ("A **torsor** is a set.", "A torsor is a set.", ["torsor"]),
        ("the __group__ and _*rings*_", "the group and rings", ["group", "rings"]),
        (
            "**groups**' and ***both*** and **a *big* one**",
            "groups' and both and a big one",
            ["groups", "both", "a big one"],
        ),
        ("*Definition.* A **ring**: **Note:**", "Definition. A ring: Note:", ["ring"]),
        ("**Axiom:** it is so", "Axiom: it is so", []),
        ("A *sentence that is too long to be a name*", "A sentence that is too long to be a name", []),
        ("$a^*$ and $b^*$, $a_i$ and $_b$", "$a^*$ and $b^*$, $a_i$ and $_b$", []),
        ("a **$q$-series**", "a $q$-series", ["$q$-series"]),
        ("`*p` and `q*`, f(*a, **b), 2*3*4", "`*p` and `q*`, f(*a, **b), 2*3*4", []),
        ("(*) gives (*), a *-ring is no C*-ring", "(*) gives (*), a *-ring is no C*-ring", []),
        (r"snake_case_name and \*none\*", r"snake_case_name and \*none\*", []),
        ("- *one*\n* two\n* three", "- one\n* two\n* three", ["one"]),
    ],
)
def test_emphasis_of_markdown_is_read_as_that_of_latex(written: str, text: str, terms: list[str]) -> None:
    (passage,) = read_text(written.encode(), "t", "t.md").passages
    assert (passage.text, passage.metadata.get("terms", [])) == (text, terms)
    (plain,) = read_text(written.encode(), "t", "t.txt").passages
    assert "".join(plain.text.split()) == "".join(written.split())


def test_code_keeps_its_lines_in_markdown_and_rest() -> None:
    fenced = "Run this:\n\n```python\ndef f(x):\n    if x:\n\n        return [1](2)  # **bold**\n```\n\nand see."
    (passage,) = read_text(fenced.encode(), "t", "t.md").passages
    code = "def f(x):\n    if x:\n\n        return [1](2)  # **bold**"
    assert passage.text == f"Run this:\n\n{code}\n\nand see."
    assert passage.links == ()
    indented = "Run this:\n\n    $ make all\n      --fast\n\nand see\nthe *rest*."
    (passage,) = read_text(indented.encode(), "t", "t.md").passages
    assert passage.text == "Run this:\n\n    $ make all\n      --fast\n\nand see the rest."
    rest = "Run this::\n\n   $ make all\n     --fast\n\n.. code-block:: python\n\n   x = 1\n   y = 2\n\nand see\nit."
    (passage,) = read_text(rest.encode(), "t", "t.rst").passages
    assert "   $ make all\n     --fast\n\n" in passage.text
    assert "   x = 1\n   y = 2\n\nand see it." in passage.text


def test_lists_and_tables_keep_their_lines() -> None:
    text = (
        "Some words:\n\n- the **first** item\n  goes on\n- the second\n\n1. one\n2. two\n\n"
        "| Name | Size |\n|------|-----:|\n| pump \\| s | 3 |\n| [fan](fan.md) | 4 |\n\nThe end."
    )
    (passage,) = read_text(text.encode(), "t", "t.md").passages
    assert passage.text == (
        "Some words:\n\n- the first item goes on\n- the second\n1. one\n2. two\n\n"
        "Name | Size\npump|s | 3\nfan | 4\n\nThe end."
    )
    assert [link.label for link in passage.links] == ["fan"]


def test_a_long_block_of_code_is_split_between_lines() -> None:
    lines = [f"value_{n} = compute(x, {n})  # e.g. $ and more. Some text" for n in range(200)]
    reading = read_text(("```\n" + "\n".join(lines) + "\n```\n").encode(), "t", "t.md", size=500, overlap=0)
    assert len(reading.passages) > 10
    assert [line for p in reading.passages for line in p.text.splitlines()] == lines
    assert all(len(p.text) <= 500 for p in reading.passages)


def test_rest_headings_are_sections() -> None:
    words = "There are enough words in this section to make it a chunk of its own, not less."
    title = f"=====\nTitle\n=====\n\n{words}\n\n"
    text = f"{title}Part one\n--------\n{words}\n\nInner\n~~~~~\n{words}\n\nPart two\n--------\n{words}\n"
    reading = read_text(text.encode(), "t", "t.rst")
    assert [p.section for p in reading.passages] == [
        "Title",
        "Title / Part one",
        "Title / Part one / Inner",
        "Title / Part two",
    ]
    assert all(p.text == words for p in reading.passages)
    assert reading.documents[0].title == "Title"


def test_a_section_of_a_few_words_is_read_with_its_neighbour() -> None:
    words = "There are enough words in this section to make it a chunk of its own, not less."
    text = f"# A\n\n{words}\n\n## Note\n\nShort.\n\n# B\n\nTiny.\n\n## C\n\n{words}\n"
    first, second = read_text(text.encode(), "t", "t.md").passages
    assert (first.section, first.text) == ("A", f"{words}\n\nNote\n\nShort.")
    assert (second.section, second.text) == ("B / C", f"B\n\nTiny.\n\nC\n\n{words}")
    assert (first.first_line, first.last_line, second.first_line, second.last_line) == (3, 7, 9, 15)


def test_a_fence_that_is_never_closed_hides_no_heading() -> None:
    words = "There are enough words in this section to make it a chunk of its own, not less."
    text = f"# A\n\n~~~\n{words}\n\n# B\n\n{words}\n\n````\n# no heading\n```\n# none either\n````\n"
    assert [p.section for p in read_text(text.encode(), "t", "t.md").passages] == ["A", "B"]


@pytest.mark.parametrize(
    ("lines", "authors"),
    [
        ("author: Ann Vintner", ("Ann Vintner",)),
        ("author: Ann Vintner, Bob Cooper and Carla Brewer", ("Ann Vintner", "Bob Cooper", "Carla Brewer")),
        ('authors: ["Ann Vintner", Bob Cooper]', ("Ann Vintner", "Bob Cooper")),
        ("authors:\n  - name: Ann Vintner\n    orcid: 1\n  - Bob Cooper", ("Ann Vintner", "Bob Cooper")),
        ("title: Wine", ()),
        ("author:", ()),
    ],
)
def test_authors_stand_in_the_front_matter(lines: str, authors: tuple[str, ...]) -> None:
    document = read_text(f"---\n{lines}\ntags: [red, white]\n---\nText.".encode(), "t", "t.md").documents[0]
    assert (document.authors, document.metadata) == (authors, {"tags": "red, white"})


def test_an_unclear_date_is_a_note_and_stays_in_the_metadata() -> None:
    reading = read_text(b"---\ndate: soon\n---\nText.", "t", "t.md")
    assert (reading.documents[0].date, reading.documents[0].metadata) == (None, {"date": "soon"})
    assert [skip.cause for skip in reading.skips] == ["it is kept without its unclear date 'soon'"]
    reading = read_text(b"---\ndate: 3 May 2012\n---\nText.", "t", "t.md")
    assert (reading.documents[0].date, reading.skips) == ("2012-05-03", [])


_LINES = """# H
H
===
---
```
~~~~ x
    code
\tcode
- item
1. item
| a | b |
|---|---|

word one. Two
$x$
.. code-block:: c
end::
+---+
> q
\r"""


@given(
    st.lists(st.sampled_from(_LINES.split("\n")) | st.text(max_size=5), max_size=30).map("\n".join),
    st.sampled_from(["md", "rst", "txt"]),
)
def test_blocks_are_in_order_and_no_word_is_lost(text: str, suffix: str) -> None:
    reader = {"md": markdown_blocks, "rst": rest_blocks, "txt": plain_blocks}[suffix]
    at = 0
    for block in reader(text):
        assert at <= block.begin < block.end <= len(text)
        assert not text[at : block.begin].strip()
        at = block.end
    assert not text[at:].strip()


@pytest.mark.parametrize(
    "fragment",
    [
        "```\n",
        "~~~ x\n````\n",
        "- ",
        "- x\n",
        "[",
        "[a](x",
        "**a",
        "*a ",
        "**a *b ",
        "_*",
        "*a$x$ ",
        "| a |\n",
        "a\n---\n",
        "# ",
        "#   ",
        ">",
        "    x\n\n",
    ],
)
@pytest.mark.parametrize("suffix", ["md", "rst"])
def test_hostile_repetition_is_read_in_linear_time(fragment: str, suffix: str) -> None:
    def read(size: int) -> object:
        return read_text((fragment * (size // len(fragment))).encode(), "t", f"t.{suffix}")

    assert is_linear(read, 50_000)


def test_a_text_file_has_no_headings() -> None:
    reading = read_text(b"# not a heading\nbut text", "t", "t.txt")
    assert [p.section for p in reading.passages] == [""]


def test_an_empty_file_is_a_skip() -> None:
    reading = read_text(b" \n\n", "t", "t.md")
    assert reading.passages == []
    assert [skip.file for skip in reading.skips] == ["t.md"]


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
