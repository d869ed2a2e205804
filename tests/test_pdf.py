from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas
from tests.make import column, one_page, pdf

from lemmata.core.errors import InputError, LemmataError
from lemmata.core.types import Skip
from lemmata.ingest.pdf import read_pages

WIDTH, HEIGHT = A4


def text_of(data: bytes) -> list[str]:
    return [page.text for page in read_pages(data, file="x.pdf")[0]]


def test_paragraphs_are_separated_by_gaps_and_by_indentation() -> None:
    data = one_page(
        "The first paragraph runs over more than one line of the page and goes",
        "on here without end.",
        ">A second one is indented and it too is long enough for the whole line",
        "of the page.",
        "",
        "A third one stands behind a gap.",
    )
    (text,) = text_of(data)
    assert text.split("\n\n") == [
        "The first paragraph runs over more than one line of the page and goes on here without end.",
        "A second one is indented and it too is long enough for the whole line of the page.",
        "A third one stands behind a gap.",
    ]


def test_hyphens_at_line_ends_are_removed_unless_they_belong_to_the_word() -> None:
    data = one_page(
        "We prove a new gen-",
        "eralisation of the Rogers-",
        "Ramanujan identities for q-",
        "series.",
    )
    assert text_of(data) == ["We prove a new generalisation of the Rogers-Ramanujan identities for q-series."]


LEFT = [
    "Left one begins here and is con-",
    "tinued over several lines of the",
    "left column of this page, which",
    "is read to its end before any",
    "word of the other column, as it",
]
RIGHT = [
    "should be. Right column lines go",
    "on with the sentence, and then a",
    "new one begins in this column of",
    "text, until the column comes to",
    "its end at the foot of the page.",
]


def test_two_columns_are_read_one_after_the_other_below_a_title_of_full_width() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Times-Bold", 18)
        canvas.drawCentredString(WIDTH / 2, 780, "On Columns and Their Reading Order")
        canvas.setFont("Times-Roman", 10)
        column(
            canvas,
            72,
            740,
            ["Abstract. This line is as wide as the whole page is, over both of its columns, so."],
        )
        for left, right, row in zip(LEFT, RIGHT, range(5), strict=True):  # drawn line by line, across the columns
            canvas.drawString(72, 700 - 12 * row, left)
            canvas.drawString(330, 700 - 12 * row, right)

    (text,) = text_of(pdf(draw))
    title, abstract, body = text.split("\n\n")
    assert title == "On Columns and Their Reading Order"
    assert abstract.startswith("Abstract.")
    assert body == " ".join(LEFT + RIGHT).replace("con- tinued", "continued")


PROSE = [
    "The first of several lines in this", "column is followed by other lines", "that are about as long as it was,",
    "so that a reader takes them for a", "column of prose and not for a cell", "of a table, which would be shorter",
    "than that and would hold numbers,", "as tables do. This one ends here.",
]  # fmt: skip


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(
    ("left", "right"),
    [(40, 548), (40, 305), (58, 316), (287, 548), (66, 318)],
    ids=["outer margins", "left of each column", "close to each column", "right of each column", "very close"],
)
@pytest.mark.parametrize("inline", [True, False])
def test_line_numbers_in_the_margins_of_two_columns_are_dropped(
    left: float, right: float, step: int, inline: bool
) -> None:
    def number(canvas: Canvas, row: int) -> None:
        if (row + 1) % step == 0:
            canvas.setFont("Helvetica", 6)
            canvas.drawRightString(left, 700 - 12 * row, str(row + 1))
            canvas.drawRightString(right + 6, 700 - 12 * row, str(100 + row + 1))
            canvas.setFont("Times-Roman", 10)

    lines = PROSE * 2

    def draw(canvas: Canvas) -> None:
        column(canvas, 72, 740, ["A line over the whole width of this page, which stands above both of its columns."])
        for row, line in enumerate(lines):
            if inline:
                number(canvas, row)
            canvas.drawString(72, 700 - 12 * row, line)
            canvas.drawString(330, 700 - 12 * row, line)
        for row in range(len(lines) * (not inline)):
            number(canvas, row)

    (text,) = text_of(pdf(draw))
    assert text.split("\n\n", 1)[1].replace("\n\n", " ") == " ".join(lines * 2)


def test_numbers_that_belong_to_the_text_are_kept() -> None:
    def table(canvas: Canvas) -> None:
        column(
            canvas, 72, 740, ["The table lists the names of all the people who took part in the trial of last year:"]
        )
        for row in range(8):
            canvas.drawString(72, 700 - 12 * row, str(row + 1))
            canvas.drawString(110, 700 - 12 * row, "name")
            canvas.drawString(200, 700 - 12 * row, "place")

    def years(canvas: Canvas) -> None:
        for row, (year, line) in enumerate(zip((1801, 1815, 1822, 1848, 1871, 1899, 1914, 1920), PROSE, strict=True)):
            canvas.drawString(40, 700 - 12 * row, str(year))
            canvas.drawString(72, 700 - 12 * row, line)

    for draw, numbers in ((table, "12345678"), (years, ("1801", "1920"))):
        (text,) = text_of(pdf(draw))
        assert all(number in text for number in numbers)


def test_running_heads_and_page_numbers_are_dropped() -> None:
    def page(number: int) -> Callable[[Canvas], None]:
        def draw(canvas: Canvas) -> None:
            canvas.drawString(72, 800, f"{number} A. AUTHOR" if number % 2 else f"ON PARTITIONS {number}")
            column(
                canvas,
                72,
                700,
                [f"Sentence {word} of this page." for word in ("one", "two", "six")[: number % 3 + 1]],
            )
            canvas.drawCentredString(WIDTH / 2, 40, f"– {number} –")

        return draw

    pages, skips, _ = read_pages(pdf(*(page(number) for number in range(1, 9))), file="x.pdf")
    assert [page.number for page in pages] == list(range(1, 9))
    assert not skips
    text = " ".join(page.text for page in pages)
    assert "AUTHOR" not in text
    assert "PARTITIONS" not in text
    assert "–" not in text
    assert text.count("Sentence one") == 8


def test_running_heads_above_two_columns_are_dropped() -> None:
    def page(number: int) -> Callable[[Canvas], None]:
        def draw(canvas: Canvas) -> None:
            canvas.drawCentredString(WIDTH / 2, 800, "JOURNAL OF COLUMNS, VOLUME 3, A LONG RUNNING HEAD")
            column(canvas, 72, 700, LEFT)
            column(canvas, 330, 700, RIGHT)
            canvas.drawCentredString(WIDTH / 2, 40, str(number))

        return draw

    for text in text_of(pdf(*(page(number) for number in range(1, 4)))):
        assert text == " ".join(LEFT + RIGHT).replace("con- tinued", "continued")


@pytest.mark.parametrize(
    "heading", ["References", "7. REFERENCES", "Bibliography", "Literaturverzeichnis", "Références"]
)
def test_the_reference_list_is_dropped_and_an_appendix_after_it_kept(heading: str) -> None:
    body = lambda canvas: column(canvas, 72, 700, ["The references are good.", "They are at the end."])  # noqa: E731
    back = lambda canvas: column(canvas, 72, 700, [heading, "", "[1] A. Author, A title, 1999."])  # noqa: E731
    more = lambda canvas: column(canvas, 72, 700, ["Appendix A. Proofs", "", "It is clear."])  # noqa: E731
    assert text_of(pdf(body, back)) == ["The references are good. They are at the end."]
    assert text_of(pdf(body, back, more))[1:] == ["Appendix A. Proofs\n\nIt is clear."]


APPENDICES = [
    "A Proofs of the main results",
    "A. Proof of Theorem 3.1",
    "Supplementary Material",
    "Supporting Information",
]


@pytest.mark.parametrize("heading", APPENDICES)
def test_an_appendix_without_the_word_ends_the_reference_list(heading: str) -> None:
    body = lambda canvas: column(canvas, 72, 700, ["The references are good.", "They are at the end."])  # noqa: E731
    back = lambda canvas: column(canvas, 72, 700, ["References", "", "[1] A. Author, A title, 1999."])  # noqa: E731
    more = lambda canvas: column(canvas, 72, 700, [heading, "", "It is clear."])  # noqa: E731
    pages, skips, _ = read_pages(pdf(body, back, more), file="x.pdf")
    assert [(page.number, page.text) for page in pages[1:]] == [(3, f"{heading}\n\nIt is clear.")]
    assert skips == [Skip("x.pdf", 2, "the page holds only references, which are not read")]


def test_a_title_that_begins_with_an_article_stays_in_the_reference_list() -> None:
    entries = ["[1] B. Author.", "A Survey of the Field", "[2] A. Author and", "A. Writer, Sums, 1999."]
    body = lambda canvas: column(canvas, 72, 700, ["The references are good."] * 5)  # noqa: E731
    back = lambda canvas: column(canvas, 72, 700, ["References", "", *entries])  # noqa: E731
    more = lambda canvas: column(canvas, 72, 700, ["A. Author and B. Writer. On Sums", "[3] C. Author."])  # noqa: E731
    pages, skips, _ = read_pages(pdf(body, back, more), file="x.pdf")
    assert [page.number for page in pages] == [1]
    assert [skip.cause for skip in skips] == ["pages 2 to 3 hold only references, which are not read"]


def test_a_larger_lettered_heading_ends_the_reference_list_inside_a_page() -> None:
    def back(canvas: Canvas) -> None:
        column(
            canvas,
            72,
            700,
            ["The references are good.", "They are here.", "References", "[1] A. Author, A title, 1999."],
        )
        column(canvas, 72, 600, ["", "It is clear."])
        canvas.setFont("Times-Roman", 14)
        canvas.drawString(72, 600, "A Proofs")

    assert text_of(pdf(back)) == ["The references are good. They are here.\n\nA Proofs\n\nIt is clear."]


def test_references_in_a_table_of_contents_drop_nothing() -> None:
    contents = lambda canvas: column(canvas, 72, 700, ["Contents", "", "References", "", "Index"])  # noqa: E731
    body = lambda canvas: column(canvas, 72, 700, [f"This is line {n} of a text." for n in range(30)])  # noqa: E731
    assert len(text_of(pdf(contents, body))) == 2


def test_title_author_and_date_are_read() -> None:
    _, _, metadata = read_pages(pdf(lambda canvas: canvas.drawString(72, 700, "x"), title="On Sums"), file="x.pdf")
    assert metadata["title"] == "On Sums"
    assert metadata["author"] == "A. Author"
    assert metadata["date"] == "2000-01-01"


def test_pages_without_text_are_skipped_with_their_number() -> None:
    data = pdf(
        lambda canvas: canvas.drawString(72, 700, "Some text."),
        lambda canvas: canvas.rect(72, 72, 300, 300, fill=1),
    )
    pages, skips, _ = read_pages(data, file="scan.pdf")
    assert [page.number for page in pages] == [1]
    assert [(skip.file, skip.line) for skip in skips] == [("scan.pdf", 2)]


def test_pages_beyond_the_limit_are_one_skip() -> None:
    data = pdf(*[lambda canvas: canvas.drawString(72, 700, "Some text.")] * 5)
    pages, skips, _ = read_pages(data, file="x.pdf", limit=2)
    assert len(pages) == 2
    assert [skip.line for skip in skips] == [3]


@pytest.mark.parametrize("data", [b"", b"no pdf", b"%PDF-1.7\n", b"\x00" * 5000])
def test_a_file_that_cannot_be_opened_is_an_error_with_its_name(data: bytes) -> None:
    with pytest.raises(InputError, match=r"broken\.pdf"):
        read_pages(data, file="broken.pdf")


def test_an_encrypted_file_is_an_error() -> None:
    data = pdf(lambda canvas: canvas.drawString(72, 700, "secret"), password="open sesame")
    with pytest.raises(InputError, match=r"x\.pdf"):
        read_pages(data, file="x.pdf")


def test_damaged_files_are_read_or_an_input_error() -> None:
    data = pdf(*[lambda canvas: column(canvas, 72, 700, LEFT)] * 3)
    generator = random.Random(7)
    damaged = [data[: len(data) * part // 40] for part in range(40)]
    for _ in range(150):
        flipped = bytearray(data)
        for _ in range(generator.choice((1, 10, 100))):
            flipped[generator.randrange(len(flipped))] ^= 1 << generator.randrange(8)
        damaged.append(bytes(flipped))
    read = 0
    for candidate in damaged:
        try:
            pages, skips, _ = read_pages(candidate, file="x.pdf")
        except LemmataError:
            continue
        assert pages or skips
        read += 1
    assert 0 < read < len(damaged)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_an_input_error(data: bytes) -> None:
    with pytest.raises(InputError):
        read_pages(b"%PDF-1.4\n" + data, file="x.pdf")
