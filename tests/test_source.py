from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.latex.flatten import flatten
from lemmata.latex.source import Flat, decode, match_brace, match_bracket, read_argument


def flat(main: str, files: Mapping[str, str] | None = None, *, path: str = "main.tex") -> Flat:
    return flatten({**(files or {}), path: main}.get, path)


def text(main: str, files: Mapping[str, str] | None = None) -> str:
    return flat(main, files).text


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("Gödel – ∀".encode(), "Gödel – ∀"),
        (b"\xef\xbb\xbf\\section{G\xc3\xb6del}", "\\section{Gödel}"),
        ("Gödel".encode("latin-1"), "Gödel"),
        (b"G\xf6del \x96 \x93so\x94", "Gödel – “so”"),
        (b"G\xf6del \x81", "Gödel \x81"),
        ("Erdős".encode("utf-16"), "Erdős"),
        ("Erdős".encode("utf-16-be").join([b"\xfe\xff", b""]), "Erdős"),
        ("\\usepackage[latin2]{inputenc} Erdős".encode("iso8859-2"), "\\usepackage[latin2]{inputenc} Erdős"),
        ("\\usepackage[koi8-r]{inputenc} Ляпунов".encode("koi8-r"), "\\usepackage[koi8-r]{inputenc} Ляпунов"),
        ("\\usepackage[applemac]{inputenc} é".encode("mac-roman"), "\\usepackage[applemac]{inputenc} é"),
        (b"one\rtwo\r\nthree\nfour", "one\ntwo\nthree\nfour"),
        (b"a\x00b", "a\ufffdb"),
        ("Die Kühlwasserpumpe läuft bei ".encode() + b"20 \xb0C", "Die Kühlwasserpumpe läuft bei 20 °C"),
        ("„Fuß“ und groß".encode("cp1252"), "„Fuß“ und groß"),
        (b"", ""),
    ],
)
def test_bytes_are_decoded_in_their_encoding(data: bytes, expected: str) -> None:
    assert decode(data) == expected


@given(st.binary(max_size=300))
def test_decoding_never_fails_and_leaves_only_newlines(data: bytes) -> None:
    result = decode(data)
    assert "\r" not in result
    assert "\x00" not in result


# ---------------------------------------------------------------- braces


def test_braces_match_with_nesting_and_escapes() -> None:
    assert match_brace(r"{a{b}\}c}d", 0) == 9
    assert match_brace("{a", 0) == -1
    assert match_brace("{a{b}}", 0, 4) == -1


def test_brackets_match_outside_braces() -> None:
    assert match_bracket("[a{]}b]c", 0) == 7
    assert match_bracket("[a}b]", 0) == -1
    assert match_bracket("[a", 0) == -1
    assert match_bracket(r"[\]]", 0) == 4


def test_an_argument_may_be_on_the_next_line_but_not_after_an_empty_one() -> None:
    assert read_argument(" \n {x}", 0) == ("x", 6)
    assert read_argument("\n\n{x}", 0) is None
    assert read_argument("x{y}", 0) is None
    assert read_argument("{y", 0) is None


# ---------------------------------------------------------------- files in files


@pytest.mark.parametrize(
    "command",
    [
        r"\input{part}",
        r"\input{part.tex}",
        r"\input part ",
        r"\input{ part }",
        r'\input{"part"}',
        r"\include{part}",
        r"\subfile{part}",
        r"\subfileinclude{part}",
        r"\import{./}{part}",
        r"\subimport{./}{part}",
        r"\InputIfFileExists{part}{}{}",
        r"\InputIfFileExists{part.tex}{}{}",
    ],
)
def test_every_way_to_include_a_file(command: str) -> None:
    result = flat(f"A {command} B", {"part.tex": "PART"})
    assert result.text.split() == ["A", "PART", "B"]
    assert result.files == ("main.tex", "part.tex")
    assert not result.missing


@pytest.mark.parametrize("suffix", [".tex", ".ltx", ".texx"])
def test_the_suffix_of_an_included_file_may_be_left_out(suffix: str) -> None:
    assert text(r"\input{part}", {"part" + suffix: "PART"}) == "PART"


def test_import_looks_in_the_folder_it_names() -> None:
    files = {"deep/one.tex": r"ONE \input{two}", "deep/two.tex": "TWO"}
    assert text(r"\import{deep/}{one}", files).split() == ["ONE", "TWO"]


@pytest.mark.parametrize(
    "macro",
    [
        r"\newcommand\part[2]{\setcounter{x}{#1}\include{#2/TeX/#2}\input{#2/last}}",
        r"\newcommand*{\part}[2]{\setcounter{x}{#1}\subfile{#2/TeX/#2}\import{#2/}{last}}",
        r"\def\part#1#2{\setcounter{x}{#1}\input{#2/TeX/#2}\subimport*{#2}{last}}",
    ],
)
def test_a_macro_that_includes_the_files_it_is_given_is_followed(macro: str) -> None:
    files = {"main.tex": macro + "\n\\part{1}{one}\nthe end", "one/TeX/one.tex": "ONE ", "one/last.tex": "LAST"}
    flat = flatten(files.get, "main.tex")
    assert flat.text.removeprefix(macro) == "\n\\setcounter{x}{1}ONE LAST\nthe end"
    assert not flat.missing
    assert flat.place(flat.text.index("LAST")) == ("one/last.tex", 1)
    assert flat.place(flat.text.index("{1}")) == ("main.tex", 2)


def test_a_macro_that_includes_files_without_all_of_its_arguments_stays_as_it_is() -> None:
    text = r"\newcommand\part[2]{\input{#2}}\part{1}{gone} and \part{1}"
    flat = flatten({"main.tex": text}.get, "main.tex")
    assert flat.text == r"\newcommand\part[2]{\input{#2}} and \part{1}"
    assert [cause for _, _, cause in flat.missing] == ["included file 'gone' does not exist"]


IMPORTS = r"""
\def\base{}\newcommand*{\home}{./}
\DeclareDocumentCommand \bring { s o m o }{
  \begingroup
  \IfNoValueTF{#2}{\subfile{\base #3}}{%
    \IfBooleanTF{#1}{\edef\base{\home content/#2/}}{\edef\base{\base #2/}}%
    \subfile{\base #3}}
  \endgroup}
"""


def test_a_macro_may_build_the_path_of_the_file_that_it_includes() -> None:
    subfile = "\\documentclass[../main]{subfiles}\\begin{document}%s\\end{document}"
    files = {
        "main.tex": IMPORTS + r"A \bring*[sets]{sets} B \bring*[maps]{maps} C",
        "content/sets/sets.tex": subfile % r"\bring[basics]{basics} \bring{last}",
        "content/sets/basics/basics.tex": subfile % r"BASICS \bring{more}",
        "content/sets/basics/more.tex": subfile % "MORE",
        "content/sets/last.tex": subfile % "LAST",
        "content/maps/maps.tex": subfile % "MAPS",
    }
    flat = flatten(files.get, "main.tex")
    words = re.findall(r"\b[A-Z]+\b", flat.text[flat.text.index("A ") :])
    assert words == ["A", "BASICS", "MORE", "LAST", "B", "MAPS", "C"]
    assert not flat.missing
    assert set(flat.files) == set(files)


@pytest.mark.parametrize(
    "command",
    [
        r"\subimport*{figures/}{x.pdf_t}",
        r"\import*{figures/}{x.pdf_t}",
        r"\subincludefrom{figures/}{x.pdf_t}",
        r"\newcommand\fig[1]{\input{figures/#1.pdf_t}}\fig{x}",
        r"\def\figs{figures}\input{\figs/x.pdf_t}",
        r"\newcommand{\figs}{figures/}\input{\figs{}x.pdf_t}",
        r"\IfFileExists{figures/x.pdf_t}{\input{figures/x.pdf_t}}{gone}",
        r"\newcommand\all{\input{figures/x.pdf_t}}\all",
    ],
)
def test_a_file_that_is_included_in_any_way_is_read_or_noted_and_never_left_as_text(command: str) -> None:
    assert text(f"A {command} B", {"figures/x.pdf_t": "PART"}).replace("PART", " PART ").split()[-2:] == ["PART", "B"]
    missing = flat(f"A {command} B", {})
    assert "pdf_t" not in missing.text.split("}}")[-1]
    assert len(missing.missing) == (0 if "IfFileExists" in command else 1)


@pytest.mark.parametrize(
    "macro",
    [
        r"\def\a{\input{x}\a}",
        r"\def\a{\input{x}\a\a}",
        r"\def\a#1{\input{x}\a{#1#1}\a{#1}}",
        r"\def\a{\input{x}\b}\def\b{\input{x}\a\a}",
    ],
)
def test_macros_that_include_files_forever_stay_within_time(macro: str) -> None:
    result = flatten({"main.tex": macro + r"\a{1} the end", "x.tex": r"word \a{2}"}.get, "main.tex")
    assert result.text.endswith("the end")
    assert len(result.text) < 2_000_000


def test_an_option_that_nothing_defines_is_undefined() -> None:
    branches = r"\ifthenelse{\isundefined{\OPTweb}}{\newcommand\draft[1]{#1}}{\newcommand\draft[1]{}}"
    preamble, body = text(branches + r"\begin{document}" + branches).split(r"\begin{document}")
    assert preamble == r"\newcommand\draft[1]{#1}"
    assert body == branches
    defined = r"\def\OPTweb{1}" + branches
    assert text(defined) == defined


def test_a_file_is_searched_beside_the_main_file_then_beside_the_including_file() -> None:
    files = {"p/sections/a.tex": r"\input{b} \input{c}", "p/sections/b.tex": "near", "p/c.tex": "main's"}
    result = flat(r"\input{sections/a}", files, path="p/main.tex")
    assert result.text.split() == ["near", "main's"]


def test_no_file_outside_the_project_is_read() -> None:
    asked: list[str] = []

    def read(path: str) -> str | None:
        asked.append(path)
        return r"\input{../../etc/passwd}\input{/etc/passwd}\input{a/../../b}" if path == "main.tex" else None

    result = flatten(read, "main.tex")
    assert not any(path.startswith(("/", "..")) for path in asked)
    assert len(result.missing) == 3


def test_the_else_branch_of_input_if_file_exists_is_read_without_the_file() -> None:
    source = r"\InputIfFileExists{part}{yes}{no}."
    assert text(source, {"part.tex": "PART "}) == "PART yes."
    assert text(source) == "no."


def test_a_file_that_includes_itself_is_read_once_and_reported() -> None:
    result = flat(r"A \input{b} C", {"b.tex": r"B \input{main} \input{b}"})
    assert result.text.split() == ["A", "B", "C"]
    assert [(file, line) for file, line, _ in result.missing] == [("b.tex", 1), ("b.tex", 1)]
    assert "includes itself" in result.missing[0][2]


def test_the_same_file_may_be_included_twice() -> None:
    result = flat(r"\input{b}\input{b}", {"b.tex": "B"})
    assert (result.text, result.files) == ("BB", ("main.tex", "b.tex"))


def test_a_missing_file_is_reported_with_its_place() -> None:
    result = flat("one\ntwo \\input{nowhere} three")
    assert result.text.split() == ["one", "two", "three"]
    assert result.missing == (("main.tex", 2, "included file 'nowhere' does not exist"),)


def test_the_main_file_must_exist() -> None:
    with pytest.raises(FileNotFoundError):
        flatten(dict[str, str]().get, "main.tex")


def test_of_a_subfile_only_its_body_is_read() -> None:
    part = "\\documentclass[main]{subfiles}\n\\newcommand{\\x}{}\n\\begin{document}BODY\\end{document} trash"
    result = flat(r"\begin{document}A \subfile{part} B\end{document}", {"part.tex": part})
    assert result.text[result.body :].split() == ["A", "BODY", "B"]


def test_packages_and_classes_of_the_project_are_read_for_their_macros() -> None:
    files = {"mine.sty": r"\def\x{X}", "mine.cls": r"\def\y{Y}"}
    result = flat(r"\documentclass{mine}\usepackage[o]{amsmath, mine}\begin{document}\end{document}", files)
    assert r"\def\x{X}" in result.text
    assert r"\def\y{Y}" in result.text
    assert not result.missing


def test_reading_stops_at_the_end_of_the_document_and_at_endinput() -> None:
    result = flat("\\begin{document}\\input{b}B\\end{document}C", {"b.tex": "A\\endinput no"})
    assert result.text[result.body :] == "AB"
    assert text(r"plain TeX \bye trash").strip() == "plain TeX"


def test_limits_hold_for_depth_files_and_characters() -> None:
    files = {f"{n}.tex": f"x\\input{{{n + 1}}}" for n in range(100)}
    assert flatten(files.get, "0.tex").text == "x" * 40
    laughs = {f"{n}.tex": f"\\input{{{n + 1}}}" * 10 for n in range(12)} | {"12.tex": "ha " * 100}
    result = flatten(laughs.get, "0.tex")
    assert len(result.text) < 5_000 * 300
    assert result.missing[-1][2] == "too many files inside files"
    large = {"0.tex": "\\input{1}" * 10, "1.tex": "x" * 30_000_000}
    result = flatten(large.get, "0.tex")
    assert len(result.text) == 90_000_000
    assert result.missing == (("0.tex", 1, "cut at 64,000,000 characters"),)


# ---------------------------------------------------------------- comments and conditionals


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a% b\nc", "ac"),
        ("a % b\n   c", "a c"),
        ("50\\% b", "50\\% b"),
        ("x\\\\% b\ny", "x\\\\y"),
        ("a% b\n\nc", "a\n\nc"),
        ("a\n% b\nc", "a\nc"),
        ("% only", ""),
        ("a\\begin{comment}x\\end{theorem}\\end{comment}b", "ab"),
        ("a\\verb|%|b", "a\\verb|%|b"),
        ("a\\verb*+%+b", "a\\verb*+%+b"),
        ("a\\lstinline!%!b", "a\\lstinline!%!b"),
        ("\\url{http://a/b%20c} d", "\\url{http://a/b%20c} d"),
        ("a\\begin{verbatim}% x \\begin{comment}\\end{verbatim}b%c",
        "a\\begin{verbatim}% x \\begin{comment}\\end{verbatim}b"),
        ("\\begin{verbatim}\\input{b}\\end{verbatim}", "\\begin{verbatim}\\input{b}\\end{verbatim}"),
        ("%\\begin{comment}\na", "a"),
        ("\\excludecomment{hide}a\\begin{hide}x\\end{hide}b", "\\excludecomment{hide}ab"),
        ("a\\begin{comment}never closed", "a\\begin{comment}never closed"),
    ],
)  # fmt: skip
def test_comments_are_dropped_and_verbatim_stays(source: str, expected: str) -> None:
    assert text(source, {"b.tex": "B"}) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("\\colon%\n X", "\\colon X"),
        ("\\colon% why\n  % and why\n X", "\\colon X"),
        ("\\colon%\n\\to", "\\colon\\to"),
        ("\\colon%\n 2", "\\colon2"),
        ("a\\\\cd%\n e", "a\\\\cde"),
        ("a\\\\\\cd%\n e", "a\\\\\\cd e"),
        ("\\alpha\\begin{comment}x\\end{comment}b", "\\alpha b"),
        ("\\alpha\\input{b}c", "\\alpha Bc"),
        ("\\input{c}c", "\\gamma c"),
        ("\\input{d}c", "\\ c"),
    ],
)
def test_a_comment_does_not_glue_a_command_to_the_next_line(source: str, expected: str) -> None:
    assert text(source, {"b.tex": "B", "c.tex": "\\gamma", "d.tex": "\\"}) == expected


def test_an_edit_does_not_glue_a_command_to_the_text_after_it() -> None:
    result = flat("\\alpha\\def\\x{y}b\\beta{}c")
    edited, moved = result.edit([(6, 15, ""), (21, 23, "z")])
    assert edited.text == "\\alpha b\\beta zc"
    assert edited.text[moved(15)] == "b"
    assert edited.text[moved(23)] == "c"


_COMMENTED = ["\\ab", "%\n", "% x\\cd\n ", "cd", "\\", "@", "1", "\n"]


@given(st.lists(st.sampled_from(_COMMENTED), max_size=20))
def test_removing_comments_creates_no_control_word(fragments: list[str]) -> None:
    source = "".join(fragments)
    tokens = re.compile(r"\\([a-zA-Z@]+)|\\.|%[^\n]*", re.DOTALL)  # an independent reading of the source
    words = {match[1] for match in tokens.finditer(source) if match[1]}
    assert {match[1] for match in tokens.finditer(text(source)) if match[1]} <= words


def test_an_environment_that_opens_a_comment_is_a_comment() -> None:
    source = r"\newenvironment{hide}{\begin{comment}}{\end{comment}}a\begin{hide}x\end{hide}b"
    assert text(source).endswith("ab")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"a\iffalse x\fi b", "a b"),
        (r"a\iffalse x\else y\fi b", "a y b"),
        (r"a\iftrue x\else y\fi b", "a x b"),
        (r"a\iffalse x\iffalse y\fi z\fi b", "a b"),
        (r"a\iffalse x\ifx\p\q y\else z\fi w\else v\fi b", "a v b"),
        (r"a\iffalse x\iff y\fi b", "a b"),
        (r"a\iffalse x \ifthenelse{p}{q}{r}\fi b", "a b"),
        ("a\\iffalse x% \\fi\ny\\fi b", "a b"),
        (r"a\iffalse x\\fi y\fi b", "a b"),
        (r"a\iffalse never closed", r"a\iffalse never closed"),
        (r"\newif\ifdraft a\ifdraft x\else y\fi b", r"\newif\ifdraft a y b"),
        (r"\newif\ifdraft\drafttrue a\ifdraft x\else y\fi b", r"\newif\ifdraft a x b"),
        (r"\newif\ifdraft\drafttrue\draftfalse a\ifdraft x\fi b", r"\newif\ifdraft a b"),
        (r"\iffalse\newif\ifdraft x\fi b", " b"),
        (r"a\ifunknown x\else y\fi b", r"a\ifunknown x\else y\fi b"),
        ("a % \\iffalse\nb \\fi", "a b \\fi"),
        (r"\iftrue a\iffalse b\fi c\else d\fi e", " a c e"),
    ],
)
def test_conditionals_with_a_known_value_are_resolved(source: str, expected: str) -> None:
    assert text(source) == expected


# ---------------------------------------------------------------- places


def test_every_offset_maps_to_its_file_and_line() -> None:
    result = flat("one % c\n  two\n\\input{b}\nfour", {"b.tex": "b1\nb2 % c\nb3\n"})
    for word, place in {
        "one": ("main.tex", 1),
        "two": ("main.tex", 2),
        "b1": ("b.tex", 1),
        "b2": ("b.tex", 2),
        "b3": ("b.tex", 3),
        "four": ("main.tex", 4),
    }.items():
        assert result.place(result.text.index(word)) == place
        assert result.place(result.text.index(word) + len(word) - 1) == place
    assert result.place(len(result.text) + 99) == ("main.tex", 4)
    assert flat("").place(0) == ("", 0)


@given(
    st.lists(
        st.sampled_from(
            [
                "w{} ",
                "w{}\n",
                "w{}% c\n",
                "w{}\n\n",
                "\\input{{b}}",
                "\\begin{{comment}}\n\\end{{comment}}",
                "w{}%\n  \t",
            ]
        ),
        max_size=30,
    ),
    st.data(),
)
def test_places_survive_comments_inputs_and_edits(fragments: list[str], data: st.DataObject) -> None:
    files = {"main.tex": "".join(f.format(n) for n, f in enumerate(fragments)), "b.tex": "x1\nx2%\nx3"}
    result = flatten(files.get, "main.tex")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(result.text)), max_size=8, unique=True)))
    edits = [
        (b, e, data.draw(st.sampled_from(["", "Z", "Z\n\nZ"]))) for b, e in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    edited, moved = result.edit(edits)
    kept = [n for n in range(len(result.text)) if not any(b <= n < e for b, e, _ in edits)]
    assert [edited.text[moved(n)] for n in kept] == [result.text[n] for n in kept]
    assert [edited.place(moved(n)) for n in kept] == [result.place(n) for n in kept]
    for begin, end, replacement in edits:
        if replacement and end > begin:
            at = moved(end) - len(replacement)
            assert edited.text.startswith(replacement, at)
            assert {edited.place(at + n) for n in range(len(replacement))} == {result.place(begin)}
    for n in kept:
        file, line = result.place(n)
        assert result.text[n] in files[file].split("\n")[line - 1] + "\n"


# ---------------------------------------------------------------- anything at all

FRAGMENTS = [
    "\\begin{document}", "\\end{document}", "\\input{b}", "\\input b ", "\\include{main}", "\\subfile{b}",
    "\\import{a}{b}", "\\InputIfFileExists{b}{x}{y}", "\\iffalse", "\\iftrue", "\\else", "\\fi", "\\newif\\ifx ",
    "\\xtrue", "\\xfalse", "\\ifx", "%", "\n", "\\%", "\\\\", "\\begin{comment}", "\\end{comment}", "\\verb|",
    "\\begin{verbatim}", "\\end{verbatim}", "\\usepackage{b}", "\\usepackage[", "\\excludecomment{c}", "{", "}",
    "\\newenvironment{c}{\\comment}{}", "\\begin{c}", "\\end{c}", "\\endinput", "\\bye", "text ", "\\", "[", "]",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40), st.lists(st.sampled_from(FRAGMENTS), max_size=20))
def test_flattening_never_raises(main: list[str], part: list[str]) -> None:
    result = flat("".join(main), {"b.tex": "".join(part), "b.sty": "".join(part)})
    assert 0 <= result.body <= len(result.text)
    for offset in range(0, len(result.text) + 1, 7):
        assert result.place(offset)[1] <= max("".join(main).count("\n"), "".join(part).count("\n")) + 1


@given(st.text(max_size=300))
def test_flattening_never_raises_on_arbitrary_text(main: str) -> None:
    result = flat(main)
    assert 0 <= result.body <= len(result.text)
    assert result.place(len(result.text))[1] <= len(main) + 1


@pytest.mark.parametrize(
    "fragment",
    ["\\iffalse", "\\iffalse\n", "\\input{a}", "%", "%\n", "\\begin{verbatim}", "\\begin{comment}", "\\verb|",
     "\\usepackage{",
     "\\usepackage[", "\\newif\\ifa ", "\\iftrue\\else", "\\newenvironment{a}{", "\\InputIfFileExists{a}{", "\\url{",
     "\\lstinline["],
)  # fmt: skip
def test_hostile_repetition_is_flattened_in_linear_time(fragment: str) -> None:
    assert is_linear(lambda size: flat(fragment * (size // len(fragment)), {"a.tex": "x"}), 100_000)
