"""Terms that an author marks: emphasis, macros for new terms, index entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.latex.expand import expand, read_definitions
from lemmata.latex.marked import index_entries, marked_terms, read_marks, wrap_term_macros


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        (r"\index{abelian group}", ["abelian group"]),
        (r"\index{group!abelian}", ["abelian group"]),
        (r"\index{homotopy!equivalence}", ["homotopy equivalence"]),
        (r"\index{group!Klein four-group}", ["Klein four-group"]),
        (r"\index{type!of groups|textbf}", ["type of groups"]),
        (r"\index{structure!standard notion of}", ["standard notion of structure"]),
        (r"\index{beta@$\beta$-\emph{test}|(}", [r"$\beta$-test"]),
        (r"\index{poset|see{partial order}}", ["partial order", "poset"]),
    ],
)
def test_an_index_entry_names_a_term(entry: str, names: list[str]) -> None:
    assert index_entries(entry, "An abelian group, up to a homotopy equivalence.") == [names]


def test_an_unclosed_index_entry_is_left_out() -> None:
    assert index_entries(r"\index{open \index{closed}", "") == [["closed"]]


@pytest.mark.parametrize(
    ("definition", "is_term"),
    [
        (r"\newcommand{\vocab}[1]{\textbf{\color{blue} #1}}", True),  # a usual name
        (r"\newcommand{\fresh}[2]{\textbf{#1}\index{#2}}", True),  # writes into the index
        (r"\newcommand{\fresh}[1]{{\bfseries #1}}", True),  # stands in definitions
        (r"\newcommand{\loud}[1]{\emph{#1}}", False),  # stands elsewhere
        (r"\newcommand{\vocab}[1]{\mathsf{#1}}", False),
    ],
)
def test_macros_for_new_terms_are_recognised_by_use(definition: str, is_term: bool) -> None:
    name = definition.partition("{\\")[2].partition("}")[0]
    more = "{flags}" if "[2]" in definition else ""
    call = f"A \\{name}{{flag}}{more} is a chain."
    text = f"{definition}\n{call}"
    macros = read_definitions(text)
    macros.settle(len(text))
    inside = [(len(definition), len(text))] if name == "fresh" and not more else []
    wrap_term_macros(macros, text, inside)
    terms, new_terms = marked_terms(expand(call, macros.preamble))
    assert new_terms == (["flag"] if is_term else [])
    assert terms == ([] if "mathsf" in definition else ["flag"])


def test_marks_of_a_passage_are_its_emphasised_terms_and_its_index() -> None:
    source = r"A \emph{flag} is a chain of \term{ideals}\index{ideal}."
    marks = read_marks(source, "A flag is a chain of ideals.")
    assert marks == {"terms": ["flag", "ideals"], "index": [["ideals"], ["ideal"]]}
    assert read_marks("Plain.", "Plain.") == {}


@given(st.text(alphabet="ab $\\{}!@|indexemph", max_size=80))
def test_marks_of_any_text_are_words(text: str) -> None:
    marks = read_marks(text.replace("ie", "\\index{").replace("em", "\\emph{"), text)
    assert all(term.strip() for term in marks.get("terms", ()))
    assert all(name for names in marks.get("index", ()) for name in names)
