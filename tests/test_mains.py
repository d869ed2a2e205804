from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.latex.mains import (
    Candidate,
    TexFile,
    confidence,
    included_among,
    rank_mains,
    read_hints,
    read_tex_file,
    read_tex_files,
    stale_copy_of,
)

PAPER = "\\documentclass{article}\\title{T}\\begin{document}\\maketitle text\\end{document}"


def rank(texts: Mapping[str, str]) -> list[Candidate]:
    return rank_mains(texts, read_tex_files(texts))


def best(texts: Mapping[str, str]) -> str:
    return rank(texts)[0].path


def test_a_file_with_a_class_and_a_document_is_the_main_one() -> None:
    texts = {"intro.tex": "text " * 1000, "a.tex": PAPER.replace("text", "\\input{intro}"), "notes.txt": PAPER}
    ranked = rank(texts)
    assert [candidate.path for candidate in ranked] == ["a.tex", "intro.tex"]
    assert ranked[0].score > 6
    assert ranked[1].score < 0  # included by another file
    assert confidence(ranked) > 0.9


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("00README.XXX", "second.tex toplevelfile\nfig.tex ignore\n"),
        ("00readme", "second.tex toplevelfile"),
        ("00README.json", '{"sources": [{"filename": "second.tex", "usage": "toplevel"}]}'),
        ("00README.yaml", "sources:\n- filename: second.tex\n  usage: toplevel\n- filename: b.tex\n  usage: ignore\n"),
    ],
)  # fmt: skip
def test_the_file_that_the_submitter_named_is_the_main_one(name: str, hint: str) -> None:
    texts = {"first.tex": PAPER + "x" * 10_000, "second.tex": PAPER, name: hint}
    ranked = rank(texts)
    assert ranked[0].path == "second.tex"
    assert confidence(ranked) == 1.0


def test_files_to_ignore_are_no_candidates() -> None:
    texts = {"a.tex": PAPER, "b.tex": PAPER, "anc/c.tex": PAPER, "00README.XXX": "b.tex ignore"}
    assert [candidate.path for candidate in rank(texts)] == ["a.tex"]


@pytest.mark.parametrize("hint", ["{", "[]", '{"sources": 3}', '{"sources": [{"usage": 1}]}', "[" * 100_000])
def test_a_damaged_hint_is_ignored(hint: str) -> None:
    assert read_hints({"00README.json": hint}) == {}


def test_hints_are_relative_to_their_folder() -> None:
    assert read_hints({"p/00README.XXX": "a.tex toplevelfile"}) == {"p/a.tex": "toplevel"}


def test_a_bibliography_of_the_same_name_decides_between_equal_files() -> None:
    assert best({"a.tex": PAPER, "b.tex": PAPER, "b.bbl": "\\bibitem{x}"}) == "b.tex"


def test_stale_copies_figures_and_subfiles_come_last() -> None:
    texts = {
        "paper_old.tex": PAPER + "x" * 1000,
        "paper.tex": PAPER,
        "figure.tex": "\\documentclass{standalone}\\begin{document}\\begin{tikzpicture}\\end{document}",
        "part.tex": "\\documentclass[paper]{subfiles}\\begin{document}" + "text " * 1000 + "\\end{document}",
    }  # fmt: skip
    assert best(texts) == "paper.tex"
    assert best({key: texts[key] for key in ("figure.tex", "paper_old.tex")}) == "paper_old.tex"


def test_an_old_copy_is_recognised_by_its_name_where_the_original_exists() -> None:
    files = {"a.tex", "a_old.tex", "a (1).tex", "threshold.tex", "backup/a.tex"}
    assert stale_copy_of("a_old.tex", files) == "a.tex"
    assert stale_copy_of("a-copy.tex", files) == "a.tex"
    assert stale_copy_of("a (1).tex", files) == "a.tex"
    assert stale_copy_of("b_old.tex", files) is None
    assert stale_copy_of("threshold.tex", files) is None
    assert stale_copy_of("a.tex", files) is None


def test_old_latex_and_plain_tex_start_documents_too() -> None:
    assert read_tex_file("\\documentstyle[12pt]{amsart}\\begin{document}").starts
    assert read_tex_file("Hello \\bye").starts
    assert read_tex_file("\\begin {document}").starts
    assert not read_tex_file("% \\begin{document}").starts
    assert not read_tex_file("\\% % \\begin{document}").starts
    assert not read_tex_file("the document").starts
    assert read_tex_file("\\documentclass\n[a4paper]{book}").document_class == "book"
    assert read_tex_file("  %\\documentclass{book}").document_class is None
    assert read_tex_file("\\\\\\%\\documentclass{book}").document_class == "book"


def test_nearly_equal_candidates_lower_the_confidence() -> None:
    twins = rank({"a.tex": PAPER, "b.tex": PAPER})
    assert confidence(twins) < 0.6
    assert confidence([]) == 0.0


def test_a_single_file_without_suffix_can_be_the_paper() -> None:
    assert best({"0305123": PAPER, "fig.eps": "%!PS"}) == "0305123"
    assert rank({"readme.txt": "nothing"}) == []


def test_a_parameter_in_an_included_name_is_any_name() -> None:
    files = {"a/TeX/a.tex", "a/b/TeX/x.tex", "style.tex", "c.tex"}
    including = {"main.tex": TexFile(True, "article", ("style",)), "style.tex": TexFile(False, None, ("#2/TeX/#2",))}
    assert included_among(files, including) == {"a/TeX/a.tex", "style.tex"}


def test_included_names_are_read_as_written() -> None:
    text = '\\input{a} \\input b \\include{"c"} %\\input{no}\n\\import{d/}{e}\\InputIfFileExists{f}{}{}\\inputenc{x}'
    assert read_tex_file(text).included == ("a", "b", "c", "d/e", "f")


@given(
    st.dictionaries(
        st.sampled_from(["a.tex", "00README.json", "00README.yaml", "00README.XXX", "b"]), st.text(max_size=200)
    )
)
def test_ranking_never_raises(texts: dict[str, str]) -> None:
    assert 0 <= confidence(rank(texts)) <= 1


@pytest.mark.parametrize(
    "fragment",
    ["\\input{a}", "%\\documentclass[", "\\documentclass[", "%\\begin{document}", "\\%\\input{a}", "\\import{a}"],
)
def test_hostile_repetition_is_ranked_in_linear_time(fragment: str) -> None:
    assert is_linear(lambda size: rank({"a.tex": fragment * (size // len(fragment))}), 100_000)
