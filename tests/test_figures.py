from __future__ import annotations

from collections.abc import Mapping

import pytest

from lemmata.ingest.figures import find_figures, read_graphics, stem_of


def figures_of(files: Mapping[str, str], included: Mapping[str, list[str]] | None = None) -> set[str]:
    """The figures among files without text, by what the others say in TeX."""
    texts = {name: text for name, text in files.items() if name.endswith(".tex")}
    pictures = [name for name in files if name not in texts]
    stems = {stem_of(name).rpartition("/")[2] for name in pictures}
    graphics = {name: read_graphics(text, stems) for name, text in texts.items()}
    return set(find_figures(pictures, graphics, papers=texts, included=included or {}, read=texts.get))


@pytest.mark.parametrize(
    "text",
    [
        r"\includegraphics{plots/a}",
        r"\includegraphics{./plots/a.pdf}",
        r"\includegraphics*[width=\linewidth, trim={0 1 2 3}]%" + "\n" + r"{plots/a.PDF}",
        r"\includegraphics[0,0][3,3]{plots/a}",
        r"\includegraphics{{plots/a}.pdf}",
        r"\includegraphics{plots/a.eps}",
        r'\includegraphics{"plots/a"}',
        r"\includepdf[pages=-]{plots/a}",
        r"\includepdfmerge{x.pdf,1-3,plots/a.pdf}",
        r"\epsfig{file=plots/a.ps,width=3cm}",
        r"\plottwo{x}{plots/a}",
        r"\begin{overpic}[scale=2]{plots/a}",
        r"\input{plots/a.pdf_tex}",
        r"\graphicspath{{x/}{plots/}} \includegraphics{a}",
        r"\includegraphics{\folder/a}",
        r"\newcommand{\plot}[2]{\begin{figure}\includegraphics[width=#2]{plots/#1}\end{figure}} \plot{a}{3cm}",
        r"\def\plot#1{\includegraphics{#1.pdf}} \plot{plots/a}",
    ],
)
def test_a_file_is_included_by_many_commands(text: str) -> None:
    files = {"p/main.tex": text, "p/plots/a.pdf": "", "p/plots/b.pdf": "", "plots/a.pdf": ""}
    renamed = {name.replace("plots", "data"): text.replace("plots", "data") for name, text in files.items()}
    assert figures_of(renamed) == {"p/data/a.pdf"}


@pytest.mark.parametrize(
    "text",
    [r"\cite{a}", r"\label{a}\ref{a}", r"\href{a.pdf}{a}", r"\input{a}", r"\includegraphics{a.png}", r"\section{a}"],
)
def test_a_file_that_is_only_mentioned_is_no_figure(text: str) -> None:
    assert figures_of({"p/main.tex": text, "p/a.pdf": ""}) == set()


def test_what_a_preamble_declares_holds_where_it_is_included() -> None:
    files = {
        "p/tex/preamble.tex": r"\graphicspath{{data/}} \newcommand\plot[1]{\includegraphics{#1-final}}",
        "p/main.tex": r"\input{tex/preamble} \input{chapters/one}",
        "p/chapters/one.tex": r"\includegraphics{curve} \plot{line}",
        "p/data/curve.pdf": "",
        "p/data/line-final.pdf": "",
        "p/data/line.pdf": "",
        "q/data/curve.pdf": "",
    }
    included = {"p/main.tex": ["p/tex/preamble.tex", "p/chapters/one.tex"]}
    assert figures_of(files, included) == {"p/data/curve.pdf", "p/data/line-final.pdf"}


def test_folders_of_figures_count_only_below_a_folder_with_tex() -> None:
    files = {
        "p/main.tex": "",
        **dict.fromkeys(("p/figs/a.pdf", "p/sub/Images/b/c.pdf", "p/fig1/d.png", "p/img_old/e.pdf"), ""),
        **dict.fromkeys(("figs/a.pdf", "q/images/a.pdf", "p/figurative/a.pdf", "p/papers/a.pdf"), ""),
    }
    assert figures_of(files) == {"p/figs/a.pdf", "p/sub/Images/b/c.pdf", "p/fig1/d.png", "p/img_old/e.pdf"}


def test_a_tex_file_is_read_again_only_for_macros_and_files_that_are_left() -> None:
    text = r"\newcommand\plot[1]{\includegraphics{#1}} \plot{a} \includegraphics{b}"
    graphics = {"p/main.tex": read_graphics(text, {"a", "b", "c"}), "p/other.txt": read_graphics("x", {"a"})}
    for files, expected in ((["p/b.pdf"], []), (["q/c.pdf"], []), (["p/a.pdf", "p/b.pdf"], ["p/main.tex"])):
        read_again: list[str] = []

        def read(name: str, log: list[str] = read_again) -> str:
            log.append(name)
            return text

        figures = find_figures(files, graphics, papers=(), included={}, read=read)
        assert read_again[:1] == expected
        assert sorted(figures) == [name for name in files if name.startswith("p/")]
