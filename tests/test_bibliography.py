from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.core.types import Reference
from lemmata.latex.bib_identifiers import arxiv_id, doi, normalise_title
from lemmata.latex.bibliography import read_amsrefs, read_bib, read_bibitems, read_biblatex_bbl, read_bibliography


def item(body: str, label: str = "") -> Reference:
    (reference,) = read_bibitems(f"\\bibitem{label}{{k}} {body}\n\\end{{thebibliography}}")
    return reference


# ---------------------------------------------------------------- .bib


def test_the_fields_of_an_entry_are_cleaned() -> None:
    (reference,) = read_bib(
        r"""
        @Article{ErdosRenyi,
          author = {Erd{\H o}s, Paul and R{\'e}nyi, Alfr\'ed and {Group and Sons} and others},
          title  = "On {Random} Graphs, the {"}first{"}",
          journal = {Publ. Math.},
          year = 1959,
          doi = {https://doi.org/10.5486/PMD.1959.6.3-4.12},
        }
        """
    )
    assert reference.key == "ErdosRenyi"
    assert reference.authors == "Paul Erdős, Alfréd Rényi, Group and Sons, et al."
    assert reference.title == 'On Random Graphs, the "first"'
    assert reference.year == 1959
    assert reference.doi == "10.5486/pmd.1959.6.3-4.12"
    assert "Publ. Math." in reference.text


def test_macros_and_concatenation_are_resolved() -> None:
    references = read_bib(
        """@string{jnt = "J. Number " # {Theory}} @preamble{"\\newcommand{\\x}{y}"}
@comment{ @article{not, title={Nothing}} }
@article(a, journal = jnt, title = "Sums " # {of } # "squares", month = 3 # "~" # jan, year = "1990")
@article{b, journal = unknown, title = {T}, date = {2001-05-01}} @misc{c, title={Same line}}"""
    )
    assert [(reference.key, reference.title, reference.year) for reference in references] == [
        ("a", "Sums of squares", 1990),
        ("b", "T", 2001),
        ("c", "Same line", None),
    ]
    assert "J. Number Theory" in references[0].text


@pytest.mark.parametrize(
    "broken",
    [
        "@article{x, title = {never closed,\n year = 2000}\n",
        "@article{x, = }\n",
        "@article{x title}\n",
        "@article{\n",
    ],
)
def test_a_damaged_entry_is_skipped_up_to_the_next_line_with_an_entry(broken: str) -> None:
    references = read_bib("@misc{a, title={A}}\n" + broken + "@misc{b, title={B}}\n")
    assert [reference.key for reference in references] == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("eprint={0704.0001v2}, archiveprefix={arXiv}", "0704.0001"),
        ("eprint={0211159}, archiveprefix={arXiv}, primaryclass={math.CO}", "math/0211159"),
        ("eprint={math.CO/0211159}, eprinttype={arxiv}", "math/0211159"),
        ("eprint={1234567}, eprinttype={jstor}", ""),
        ("eprint={2004.05150}, eprinttype={jstor}", ""),
        ("eprint={2004.05150}, archiveprefix={HAL}", ""),
        ("eprint={2004.05150}, archiveprefix={arXiv}, eprinttype={hal}", "2004.05150"),
        ("journal={arXiv preprint arXiv:1234.56789}", "1234.56789"),
        ("journal={CoRR}, volume={abs/2004.05150}", "2004.05150"),
        ("url={https://arxiv.org/pdf/2004.05150v3.pdf}", "2004.05150"),
        ("doi={10.48550/arXiv.2004.05150}", "2004.05150"),
    ],
)
def test_the_arxiv_id_is_found_in_many_fields(fields: str, expected: str) -> None:
    (reference,) = read_bib(f"@article{{k, title={{T}}, {fields}}}")
    assert reference.arxiv == expected


def test_macros_that_double_at_every_step_stay_small() -> None:
    steps = "".join(f"@string{{m{n + 1} = m{n} # m{n}}}\n" for n in range(200))
    (reference,) = read_bib('@string{m0 = "0123456789"}\n' + steps + "@misc{k, title = m200 # m200}")
    assert len(reference.title) < 100_000


# ---------------------------------------------------------------- \bibitem


def test_the_markup_of_revtex_is_used() -> None:
    reference = item(
        r"""\BibitemOpen
        \bibfield  {author} {\bibinfo {author} {\bibfnamefont {R.~P.}\ \bibnamefont {Feynman}}\ and\ \bibinfo
        {author} {\bibfnamefont {A.}~\bibnamefont {Hibbs}},\ }\bibfield  {title} {\bibinfo {title} {Space-time
        {A}pproach},\ }\href {https://doi.org/10.1103/RevModPhys.20.367} {\bibfield  {journal} {\bibinfo
        {journal} {Rev. Mod. Phys.}\ }\textbf {\bibinfo {volume} {20}},\ \bibinfo {pages} {367}
        (\bibinfo {year} {1948})}
        \BibitemShut {NoStop}%""",
        r"[{\citenamefont {Feynman}\ and\ \citenamefont {Hibbs}(1948)}]",
    )
    assert reference == Reference(
        key="k",
        title="Space-time Approach",
        authors="R. P. Feynman, A. Hibbs",
        year=1948,
        doi="10.1103/revmodphys.20.367",
        text="R. P. Feynman and A. Hibbs, Space-time Approach, Rev. Mod. Phys. 20, 367 ( 1948)",
    )


@pytest.mark.parametrize(
    ("body", "title", "authors", "year"),
    [
        (  # plain, alpha
            r"Donald~E. Knuth. \newblock {\em The Art}, volume~2 of {\em Series}. \newblock Wiley, 1981.",
            *("The Art", "Donald E. Knuth", 1981),
        ),
        (  # acl
            r"""Iz~Beltagy and Kyle Lo. 2019. \newblock \href {https://a.org/b{\_}c} {{S}ci{BERT}: a model}.
            \newblock In \emph{Proceedings of the 2018 Conference}, pages 1--2.""",
            *("SciBERT: a model", "Iz Beltagy and Kyle Lo", 2019),
        ),
        (  # IEEEtran
            r"J.~K. Author and B.~Other, ``A title, and more,'' \emph{IEEE}, vol.~1, pp. 1523--34, 2011.",
            *("A title, and more", "J. K. Author and B. Other", 2011),
        ),
        (  # amsplain
            r"George~E. Andrews and Bruce Berndt, \emph{Lost notebook. {P}art {I}}, AMS, 2005. \MR{2135178}",
            *("Lost notebook. Part I", "George E. Andrews and Bruce Berndt", 2005),
        ),
        (  # siam
            r"{\sc A.~Turing}, {\em On computable numbers}, Proc. London Math. Soc., 42 (1937), 230--265.",
            *("On computable numbers", "A. Turing", 1937),
        ),
        (  # the journal is emphasised
            r"P. Erd\H{o}s and A. R\'enyi, On random graphs I, {\it Publ. Math.} {\bf 6} (1959), 290--297.",
            *("On random graphs I", "P. Erdős and A. Rényi", 1959),
        ),
        (  # Springer
            r"Zorn, M., M{\"u}ller, K.: A remark on method. Bull. AMS \textbf{41}, 667--670 (1935)",
            *("A remark on method", "Zorn, M., Müller, K.", 1935),
        ),
        (  # APA
            r"Doe, J., \& Roe, R. (2015a). A study of things. \textit{Nature}, 521(7553), 436--444.",
            *("A study of things", "Doe, J., & Roe, R.", 2015),
        ),
        ("R. P. Feynman, Phys. Rev. {\\bf 76}, 769 (1949).", "", "R. P. Feynman", 1949),
        ("S. Lang, Algebra, Springer 2002.", "Algebra", "S. Lang", 2002),
        ("Steen, Jr., {\\it Counterexamples}, Dover", "Counterexamples", "Steen, Jr.", None),
        (  # Vancouver
            r"Gelber RD, Smith AB. A comparison, with notes, of two drugs. J Clin Oncol 1999;12:1--9.",
            *("A comparison, with notes, of two drugs", "Gelber RD, Smith AB", 1999),
        ),
        (
            r"van der Berg C-J, D'Arcy RB Jr, et~al. \emph{Survival after surgery}. Lancet. 2001;357:1--9.",
            *("Survival after surgery", "van der Berg C-J, D'Arcy RB Jr, et al", 2001),
        ),
        (
            "Kaplan EL, Meier P. Hepatitis B in cities. Stat Med 1958.",
            "Hepatitis B in cities",
            "Kaplan EL, Meier P",
            1958,
        ),
        (
            r"Friedman, L. M. and Gelber RD. Clinical trials. Ann. Statist.. 1999;12:1--9.",
            *("Clinical trials", "Friedman, L. M. and Gelber RD", 1999),
        ),
        (
            r"Kalbfleisch, J. D. and Prentice, R. L. The analysis of failure time. Wiley, New York, 2002.",
            *("The analysis of failure time", "Kalbfleisch, J. D. and Prentice, R. L.", 2002),
        ),
        ("Cox DR (1972) Regression models. J R Stat Soc 34:187.", "Regression models", "Cox DR", 1972),
        (
            "Baianu, I. and M. Marinescu: 1968, Theory of Systems, Bull. 30.",
            "Theory of Systems",
            "Baianu, I. and M. Marinescu",
            1968,
        ),
        (r"Andrews, G. E., The theory of partitions, Wiley, 1976.", "The theory of partitions", "Andrews, G. E.", 1976),
        (
            "Daniel R. Licata and Michael Shulman. Type theory. Wiley, 2013.",
            "Type theory",
            "Daniel R. Licata and Michael Shulman",
            2013,
        ),
    ],
)
def test_title_authors_and_year_are_found_in_many_styles(body: str, title: str, authors: str, year: int | None) -> None:
    reference = item(body)
    assert (reference.title, reference.authors, reference.year) == (title, authors, year)


@pytest.mark.parametrize(
    "body",
    [
        r"R. Feynman {\it et al.}, Nucl. Phys. {\bf B167}, 3 (1980).",
        r"D. J. Gross, {\it et al}, Nucl. Phys. {\bf B167} (1980) 3.",
        r"E. Witten, Nature \textbf{412}, 33 (2001).",
        r"M. Green \emph{et al.}, JHEP 0208:013, 2002.",
        r"CMS Collaboration, \textit{Phys.\ Lett.} \textbf{B 716} (2012) 30.",
        r"T. Tao, \emph{et al.}, Nature \textbf{5} (2010).",
        "ATLAS Collaboration, JHEP 09 (2012) 070.",
        "J. Doe, Annals of Physics 12 (1999) 3--4.",
        r"See also the web page \url{https://example.org/x}.",
        "See the discussion at https://example.org/q/1",
        r"K. Wilson, 167, 1331 (1974).",
        r"L. D. Landau, private communication.",
        r"N. Seiberg, unpublished.",
        r"A. B. Author, in preparation.",
        r"C. D. Author, Ph.D. thesis, MIT, 1999.",
        r"Y. Nambu, Prog.Theor.Phys. 5, 614 (1950)",
        r"G. 't Hooft, Nucl.Phys. B33 (1971) 173.",
        r"A. Bee, 2nd edition, Springer, 1990.",
        r"\newblock A. Bee. \newblock 167. \newblock Springer.",
        r"A. Bee. \newblock {\em Phys. Rev.}, 167:1--3, 1990.",
        r"A. Bee. \newblock Phys. Rev. 167, 3 (1990).",
        r"A. Bee et al. \newblock et al. \newblock Springer.",
        r"R. Hofstadter, G\"odel, Escher, Bach, Basic Books 1979.",
        r"Robert L. Griess, Jr. Twelve Sporadic Groups. Springer-Verlag, 1998.",
        r"U. G. Mitchell, M. Strain, Osiris, Vol. 1, Jan. 1936, pp. 476-496.",
    ],
)
def test_journals_names_publishers_and_remarks_are_no_titles(body: str) -> None:
    assert item(body).title == ""


@pytest.mark.parametrize(
    ("body", "title"),
    [
        (r"Barr, M. and Wells, C., Toposes, Triples and Theories, Springer-Verlag.", "Toposes, Triples and Theories"),
        (r"J. H. Conway. Sphere Packings, Lattices, and Groups. Springer.", "Sphere Packings, Lattices, and Groups"),
        (r"J. Munkres, {\em Topology} (2nd edition), Prentice Hall, 1999.", "Topology"),
        (r"S. Lang, Algebra, Springer, Berlin and New York, 2002.", "Algebra"),
        (r"A. R. Rajwade, Squares, Cambridge University Press (1993).", "Squares"),
        (r"Heini Halberstam. \newblock Sequences. \newblock Springer-Verlag, 1983.", "Sequences"),
        (r"A. Bee, Matrix power, Journal of Pure and Applied Mathematics, 2002.", "Matrix power"),
    ],
)
def test_short_titles_and_titles_with_commas_are_kept(body: str, title: str) -> None:
    assert item(body).title == title


def test_an_abbreviation_before_a_full_stop_has_one() -> None:
    assert item(r"A. Bee. Sums. \emph{Ann. Statist.}. 2001.").text == "A. Bee. Sums. Ann. Statist. 2001."
    (reference,) = read_bib("@article{a, title = {Sums ...}, journal = {Ann. Statist.}, year = 2001}")
    assert reference.text == "Sums .... Ann. Statist. 2001"


def test_the_year_of_a_natbib_label_is_preferred_to_numbers_in_the_text() -> None:
    body = "A. Bee.\n\\newblock The 1984 problem.\n\\newblock Lecture Notes 1999."
    assert item(body, r"[{Bee et~al.(2020)Bee, Cee}]").year == 2020


def test_a_dash_in_place_of_the_authors_repeats_those_before() -> None:
    references = read_bibitems(r"\bibitem{a} A. Bee, \emph{One}, 1990. \bibitem{b} \bysame, \emph{Two}, 1991.")
    assert [reference.authors for reference in references] == ["A. Bee", "A. Bee"]


def test_comments_definitions_and_text_after_the_end_are_no_bibitems() -> None:
    references = read_bibitems(
        "\\def\\bibitem#1{x}\n\\renewcommand{\\bibitem}[1]{y}\n\\begin{thebibliography}{9}\n"
        "%\\bibitem{old} Old.\n\\bibitem{a}\nA. Bee, \\emph{One}. See \\url{http://x.org/a%20b}.\n"
        "\\end{thebibliography}\nMore text."
    )
    assert [reference.key for reference in references] == ["a"]
    assert references[0].text == "A. Bee, One. See http://x.org/a%20b."


def test_a_comment_does_not_glue_a_command_of_a_bibitem_to_the_next_line() -> None:
    references = read_bibitems("\\bibitem{a} A. Bee, \\newblock%\n  One paper on \\ss%\nx.\n")
    assert references[0].text == "A. Bee, One paper on ßx."


# ---------------------------------------------------------------- biblatex, amsrefs, mixtures


BIBLATEX = r"""
\entry{knuth}{article}{}{}
  \name{author}{2}{}{%
    {{un=0,hash=1}{%
       family={Knuth}, familyi={K\bibinitperiod}, given={Donald\bibnamedelima E.}, giveni={D\bibinitperiod}}}%
    {{hash=2}{family={B{\"o}hm}, given={Ann}, prefix={von}}}%
  }
  \list{publisher}{1}{{Springer}}
  \field{title}{On {Things}}
  \field{eprinttype}{arxiv}
  \field{year}{1999}
  \verb{doi}
  \verb 10.1000/ABC_d
  \endverb
  \verb{eprint}
  \verb math/9901001v2
  \endverb
\endentry
"""


def test_biblatex_entries_are_read_once_each() -> None:
    (reference,) = read_biblatex_bbl(BIBLATEX + BIBLATEX)
    assert (reference.key, reference.title, reference.year) == ("knuth", "On Things", 1999)
    assert reference.authors == "Donald E. Knuth, Ann von Böhm"
    assert (reference.doi, reference.arxiv) == ("10.1000/abc_d", "math/9901001")


def test_old_biblatex_names_are_read() -> None:
    (reference,) = read_biblatex_bbl(
        r"\entry{a}{book}{} \name{author}{1}{}{ {{hash=1}{Knuth}{K.}{Donald}{D.}{}{}{}{}}% } \endentry"
    )
    assert reference.authors == "Donald Knuth"


AMSREFS = r"""\bib{Oss}{article}{
  author={Osserman, Brian}, author={Payne, Sam}, title={Lifting $p$-adic points}, date={2013},
  book={title={A book}, date={1990}}, eprint={arXiv:1007.1314v2}, doi={10.4171/DM/390}, review={\MR{3064984}},
}"""


def test_amsrefs_entries_have_many_authors() -> None:
    (reference,) = read_amsrefs(AMSREFS)
    assert reference.authors == "Brian Osserman, Sam Payne"
    assert reference.title == "Lifting $p$-adic points"
    assert (reference.year, reference.arxiv, reference.doi) == (2013, "1007.1314", "10.4171/dm/390")


def test_a_text_may_contain_several_kinds_of_bibliography() -> None:
    text = "\\bibitem{a} A.\n\\end{thebibliography}" + BIBLATEX + AMSREFS + "\n@misc{b, title={B}}"
    assert [reference.key for reference in read_bibliography(text)] == ["a", "knuth", "Oss", "b"]
    assert read_bibliography("Nothing here, me@example.org.") == []


# ---------------------------------------------------------------- identifiers and titles


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1234.56789", "1234.56789"),
        ("arXiv:0704.0001v2", "0704.0001"),
        (r"\href{http://arxiv.org/abs/math.CO/0211159}{x}", "math/0211159"),
        ("hep--th/9901001", "hep-th/9901001"),
        ("cond-mat.stat-mech/0101001v1", "cond-mat/0101001"),
        ("{\\ttfamily [1001.1234]}", "1001.1234"),
        ("in 1203.4567, and then arXiv: 2001.00001", "2001.00001"),
        ("Zbl 1203.11045", ""),
        ("Zbl 0812.1104", ""),
        ("10.1016/j.jnt.2012.01234", ""),
        ("doi:10.1000/1203.4567", ""),
        ("arXiv version, Zbl 1503.11045", ""),
        ("arXiv; zbMATH 1503.11045", ""),
        ("arXiv, doi 10.1000/1503.11045", ""),
        ("arXiv, doi 10.48550/1503.11045", "1503.11045"),
        ("pages 1203--4567, 1234.5678", ""),
        ("math/0299159", ""),
        ("", ""),
    ],
)
def test_arxiv_ids_are_distinguished_from_similar_numbers(text: str, expected: str) -> None:
    assert arxiv_id(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://doi.org/10.1000/ABC.", "10.1000/abc"),
        ("(see doi:10.1016/S0022-314X(03)00012-3)", "10.1016/s0022-314x(03)00012-3"),
        (r"10.1007/978-3-319-95162-1{\_}35", "10.1007/978-3-319-95162-1_35"),
        (
            "10.1002/(SICI)1097(199902)30:2<95::AID-JGT1>3.0.CO;2-W",
            "10.1002/(sici)1097(199902)30:2<95::aid-jgt1>3.0.co;2-w",
        ),
        (
            "https://x.org/article?id=10.1371/journal.pone.0197260&type=printable",
            "10.1371/journal.pone.0197260",
        ),
        ("https://dx.doi.org/10.1000%2Fxyz", "10.1000/xyz"),
        ("https://x.com/doi/pdf/10.1000/xyz/pdf", "10.1000/xyz"),
        ("pages 10.1--10.12", ""),
    ],
)
def test_dois_lose_resolver_case_and_punctuation(text: str, expected: str) -> None:
    assert doi(text) == expected


@pytest.mark.parametrize(
    "title",
    [
        'On $\\alpha$-sets of G\\"odel: the {Straße}',
        "On α-sets of Gödel, The Strasse.",
        "ON $\\mathbf{\\alpha}$--sets of Godel; the stra\\ss e",
    ],
)
def test_titles_are_matched_without_markup_case_and_accents(title: str) -> None:
    assert normalise_title(title) == "onalphasetsofgodelthestrasse"


# ---------------------------------------------------------------- whatever comes


FRAGMENTS = st.sampled_from(
    [
        *r"""{ } [ ] ( ) @ # = , " \ $ % ~ `` '' - -- @article{k, @string{ @comment{ \bibitem{k} \bibitem[{A(2000)}]
        \newblock \emph{ \bibinfo{title}{ \href{ \' \v e \entry{k}{t}{} \field{title}{ \name{author}{1}{}{
        family={ \verb{doi} \endentry \bib{k}{t}{ author={ 10.1000/ arXiv:1203.4567 math/0211159 1999 (2001)
        Lang and \end{thebibliography} \PMlinkexternal{ é α""".split(),
        *("\n", " ", "title = {", "author = {A and B, C", "year = 1999", "{\\it ", "Zbl ", "A. Bee"),
        *("\ue000", "\ue001", "\ue002", "\x00"),
    ]
)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=5)), max_size=60).map("".join))
def test_no_text_makes_any_reader_fail(text: str) -> None:
    for read in (read_bibliography, read_bib, read_bibitems, read_biblatex_bbl, read_amsrefs):
        for reference in read(text):
            assert "{" not in normalise_title(reference.title)
    assert isinstance(arxiv_id(text) + doi(text), str)


WORDS = st.lists(st.text("abcdefghijklmnopqrstuvwxyzé", min_size=1, max_size=9), min_size=1, max_size=6).map(" ".join)
ENTRIES = st.lists(
    st.tuples(
        st.text("abcdefghij0123456789:_-", min_size=1, max_size=12),
        WORDS,
        st.integers(1500, 2100),
        st.sampled_from(["{%s}", '"%s"', "{{%s}}", "{\\emph{%s}}", '{%s} # ""', '"{%s}"']),
        st.sampled_from(["@article{%s,%s}", "@BOOK(%s,%s)", "\n  @misc {%s ,%s,\n}\n"]),
    ),
    max_size=6,
)


@given(ENTRIES)
def test_written_entries_are_read_back(entries: list[tuple[str, str, int, str, str]]) -> None:
    text = "\n".join(
        frame % (key, f" title = {quotes % title}, year = {year}") for key, title, year, quotes, frame in entries
    )
    read = [(reference.key, reference.title, reference.year) for reference in read_bib(text)]
    assert read == [(key, title, year) for key, title, year, _, _ in entries]


@pytest.mark.parametrize(
    "text",
    [
        *r"""{ } @ " \bibitem \bibitem{a} @a{ @a{b,c=" \bib{a}{b}{ \bibitem[ \bibitem{a}{ \entry{a}{b}\field{title}{
        \emph{ \href{ \bibinfo{title}{ $ `` ( ,""".split(),
        "\n@a{b,c={",
        "Aa BC, ",
        "Aa Bb, C. D. and ",
    ],
)
def test_time_is_linear_in_hostile_text(text: str) -> None:
    def read(size: int) -> None:
        read_bibliography("\\bibitem{x}" + text * (size // len(text)))
        read_bib("@a{b," + text * (size // len(text)))

    assert is_linear(read, 50_000)
