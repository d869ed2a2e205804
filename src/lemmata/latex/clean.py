r"""LaTeX to text for people and encoders: formulas between single dollars, no formatting, references listed apart.

The text has no references, since an encoder would learn to read the answer from them; a reader gets it with the name
of what each `\ref` and `\cite` leads to (`Cleaned.shown`). Items of lists and displayed formulas stand on lines of
their own, those of lists inside lists indented.

The macros of the paper must be expanded before (`lemmata.latex.expand`). Unknown commands are dropped and the text
of their arguments is kept; cleaning never fails.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from lemmata.latex.lists import Lists
from lemmata.latex.source import DRAWINGS, VERBATIM, end_of, match_brace, match_bracket, match_dollar, skip
from lemmata.latex.units import QUANTITY, quantity_in_formula, quantity_in_text, read_quantity


class Target(NamedTuple):
    """What a label leads to."""

    kind: str  # theorem, section, equation, ...; empty where it is not known
    title: str = ""  # clean text
    number: str = ""  # as printed


class Cleaned(NamedTuple):
    """Clean text without references; the references in order; their names, as texts to insert at offsets."""

    text: str
    references: list[tuple[str, str]]  # (`ref` or `cite` or `name`, key)
    insertions: Sequence[tuple[int, str]] = ()  # ascending
    places: Sequence[tuple[int, int]] = ()  # from `clean`: the offsets between which each reference stands

    def part(self, start: int, stop: int) -> Cleaned:
        """The text between two offsets with its insertions, and all references."""
        first, last = (bisect_left(self.insertions, (offset, "")) for offset in (start, stop + 1))
        insertions = [(offset - start, name) for offset, name in self.insertions[first:last]]
        return Cleaned(self.text[start:stop], self.references, insertions)

    def shown(self) -> tuple[str, list[list[Any]]]:
        """The text with the names of its references, and the spans to remove for the text without them.

        After its begin and end, a span has [begin, end, label or key] of each reference in it.
        """
        pieces: list[str] = []
        spans: list[list[Any]] = []
        at = length = 0
        for offset, insertion in self.insertions:
            pieces.append(self.text[at:offset])
            begin = length = length + offset - at
            names: list[list[Any]] = []
            for number, part in enumerate(_KEY_MARKS.split(insertion)):  # other text, key, name, other text, …
                if number % 3 == 1:
                    names.append([length, length, part])
                    continue
                pieces.append(part)
                length += len(part)
                if number % 3 == 2:
                    names[-1][1] = length
            spans.append([begin, length, *names])
            at = offset
        return "".join((*pieces, self.text[at:])), spans


def join(parts: Iterable[Cleaned], separator: str) -> Cleaned:
    """The parts that have text as one text."""
    texts: list[str] = []
    references: list[tuple[str, str]] = []
    insertions: list[tuple[int, str]] = []
    length = 0
    for part in parts:
        references += part.references
        if part.text:
            length += len(separator) if texts else 0
            texts.append(part.text)
            insertions += ((length + offset, name) for offset, name in part.insertions)
            length += len(part.text)
    return Cleaned(separator.join(texts), references, insertions)


MATH = frozenset(
    """
    equation equation* align align* gather gather* multline multline* eqnarray eqnarray* flalign flalign*
    alignat alignat* xalignat xalignat* displaymath math dmath dmath* IEEEeqnarray IEEEeqnarray* tikzcd
    """.split()
)
_WITH_ARGUMENT = frozenset("alignat alignat* xalignat xalignat* IEEEeqnarray IEEEeqnarray*".split())
_DROPPED_ENVIRONMENTS = DRAWINGS.union("filecontents filecontents* thebibliography bibdiv comment CCSXML".split())
_ARGUMENTS_OF_BEGIN = {  # number of braced arguments after \begin{...}
    "tabular": 1, "tabular*": 2, "tabularx": 2, "tabulary": 2, "longtable": 1, "array": 1, "minipage": 1,
    "multicols": 1, "multicols*": 1, "paracol": 1, "column": 1, "varwidth": 1, "changemargin": 2, "turn": 1,
    "rotate": 1, "wrapfigure": 2, "wraptable": 2, "adjustwidth": 2, "adjustwidth*": 2, "list": 2,
    "thebibliography": 1, "spacing": 1, "textblock": 1, "textblock*": 1, "restatable": 2, "otherlanguage": 1,
    "otherlanguage*": 1, "adjustbox": 1, "subfigure": 1, "subtable": 1, "SCfigure": 0, "minted": 1,
}  # fmt: skip
_REFERENCE = frozenset(
    """
    ref eqref cref Cref autoref pageref nameref vref Vref vpageref fullref thmref lemref propref corref secref
    labelcref cpageref namecref nameCref namecrefs nameCrefs crefrange Crefrange subref zcref prettyref fref
    Autoref autopageref hyperref
    """.split()
)
_NUMBERS_ONLY = frozenset("ref subref labelcref vref Vref".split())  # LaTeX prints no kind for these
_CITATION = frozenset(
    """
    cite citep citet citealt citealp citeauthor citeyear citeyearpar Citet Citep Citealt Citeauthor parencite
    textcite footcite footcitetext autocite Autocite Parencite Textcite smartcite supercite fullcite footfullcite cites
    parencites textcites autocites citeA citeN citeNP shortcite citenum onlinecite nocite citeauthor citetitle
    """.split()
)
# Commands that are dropped with this many braced arguments, and with the optional ones before them. Those without
# arguments differ from unknown commands only in a bracket that follows: it is text.
_DROPPED = {
    name: count
    for count, names in {
        0: """
        noindent indent centering raggedright raggedleft maketitle tableofcontents newpage clearpage pagebreak
        cleardoublepage nopagebreak smallskip medskip bigskip vfill hfill hfil vfil quad qquad enspace
        displaystyle textstyle scriptstyle tiny scriptsize footnotesize small normalsize large Large LARGE huge
        Huge it bf rm em sl sc tt sf itshape bfseries rmfamily sffamily ttfamily scshape upshape slshape mdseries
        normalfont protect relax qed qedhere null leavevmode ignorespaces unskip frontmatter mainmatter backmatter
        appendix onecolumn twocolumn samepage allowbreak linebreak nolinebreak sloppy fussy phantomsection
        printbibliography singlespacing doublespacing onehalfspacing begingroup endgroup bgroup egroup boldmath
        unboldmath hline toprule midrule bottomrule notag nonumber strut newline xspace today makeatletter
        makeatother endmetadata listoffigures listoftables printindex balance flushbottom raggedbottom
        PMlinkescapephrase printglossary printglossaries printnomenclature printbibheading printbiblist
        printshorthands listoftodos selectfont
        """,
        1: """
        label index glossary vspace hspace vskip hskip includegraphics bibliographystyle bibliography pagestyle
        thispagestyle title author date address curraddr email urladdr dedicatory keywords subjclass thanks
        affiliation institute affil input include addbibresource bibliographyunit usepackage documentclass
        phantom vphantom hphantom color pagecolor tag usetikzlibrary externaldocument graphicspath
        theoremstyle newcounter stepcounter refstepcounter hyphenation pagenumbering linespread selectlanguage
        cline cmidrule PMlinkescapeword nobibliography shorttitle shortauthors authorrunning titlerunning
        received accepted published orcid journal pacs preprint keyword PACS MSC translator contrib
        pmcanonicalname pmcreated pmmodified pmtitle pmprivacy pmtype pmcomment pmrelated pmdefines pmkeywords
        bibitem BibitemShut hypersetup geometry addvspace allowdisplaybreaks numberwithin swapnumbers tikzset
        pgfplotsset psset pgfdeclarelayer pgfsetlayers usepgfplotslibrary usepgflibrary tikzexternalize asyinclude
        tikzexternalsetprefix setbeamertemplate usetheme columnsep needspace Needspace fontfamily fontencoding
        fontseries fontshape captionsetup rowcolor cellcolor columncolor arrayrulecolor lstset
        """,
        2: """
        setlength addtolength setcounter addtocounter newtheorem pmowner pmmodifier pmrecord pmauthor pmsynonym
        pmclassification rule fontsize addcontentsline markboth newdimen settowidth hypertarget pgfmathsetmacro
        pgfmathsetlength pgfmathtruncatemacro pgfplotstableread colorlet
        """,
        3: "declaretheorem addtocontents rowcolors definecolor",
        4: "titlespacing",
    }.items()
    for name in names.split()
}
_WITH_OPTION = frozenset(  # of those without arguments
    """
    printbibliography printindex printglossary printglossaries printnomenclature printbibheading printbiblist
    printshorthands listoftodos linebreak nolinebreak pagebreak nopagebreak
    """.split()
)
# What plain TeX reads after some of its commands, and after any other where it is assigned a length.
_UNIT = r"(?:true\s*)?(?:pt|em|ex|mm|cm|in|pc|bp|sp|dd|cc|mu|fil{1,3}|\\[a-zA-Z@]+)"
_LENGTH = rf"[-+]?\s*(?:(?:\d+[.,]?\d*|[.,]\d+){_UNIT}|\\[a-zA-Z@]+)"
_GLUE = rf"{_LENGTH}(?:\s*plus\s*{_LENGTH})?(?:\s*minus\s*{_LENGTH})?"
_ASSIGNED = re.compile(rf"\s*=\s*{_GLUE}")
_PLAIN_TEX = {
    name: re.compile(pattern)
    for names, pattern in {
        """
        vskip hskip mskip kern mkern raise lower moveleft moveright parskip parindent baselineskip lineskip topskip
        leftskip rightskip parfillskip hangindent hsize vsize voffset hoffset spaceskip abovedisplayskip
        belowdisplayskip itemsep topsep leftmargin
        """: rf"\s*=?\s*{_GLUE}",
        """
        penalty tolerance pretolerance hangafter looseness clubpenalty widowpenalty hyphenpenalty linepenalty
        hbadness vbadness brokenpenalty emergencystretch
        """: rf"\s*=?\s*(?:{_GLUE}|[-+]?\s*\d+)",
        "setlength addtolength": r"\s*\\[a-zA-Z@]+\s*\{[^{}]*\}",
        "cmidrule": r"\s*(?:\[[^\]]{0,200}\]\s*)?\([^()]{0,20}\)\s*\{[^{}]*\}",
        "hrule vrule": rf"(?:\s*(?:width|height|depth)\s*{_LENGTH})+",
        "advance multiply divide": rf"\s*\\[a-zA-Z@]+\s*(?:by\b)?\s*(?:{_GLUE}|[-+]?\s*\d+)",
        "font": r"\s*\\[a-zA-Z@]+\s*=?\s*[\w-]+(?:\s+(?:scaled|at)\s+\S+)?",
    }.items()
    for name in names.split()
}
_SKIPS_FIRST = frozenset(
    """
    textcolor href href@noop colorbox fcolorbox hyperlink parbox resizebox scalebox rotatebox bibinfo bibfield Eprint
    captionof multicolumn multirow
    """.split()
)
_SKIPS_TWO = frozenset("fcolorbox resizebox multicolumn multirow".split())  # of these
_SKIPS_SECOND = frozenset("texorpdfstring PMlinkname PMlinkid PMlinktofile PMlinkexternal".split())
_SYMBOLS = {
    "ldots": "…", "dots": "…", "textellipsis": "…", "S": "§", "P": "¶", "ss": "ß", "SS": "SS", "o": "ø",
    "O": "Ø", "l": "ł", "L": "Ł", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "i": "ı",
    "j": "ȷ", "dh": "ð", "th": "þ", "TH": "Þ", "dag": "†", "ddag": "‡", "copyright": "©", "pounds": "£",
    "euro": "€", "TeX": "TeX", "LaTeX": "LaTeX", "LaTeXe": "LaTeX2e", "textendash": "–", "textemdash": "—",
    "textquoteright": "’", "textquoteleft": "‘", "textquotedblleft": "“", "textquotedblright": "”",
    "textbackslash": "\\ ", "textbar": "|", "textless": "<", "textgreater": ">", "textasciitilde": "~",
    "textunderscore": "_", "guillemotleft": "«", "guillemotright": "»", "glqq": "„", "grqq": "“", "slash": "/",
    "textdegree": "°", "degree": "°", "textregistered": "®", "texttrademark": "™", "og": "«", "fg": "»",
    "colon": ":", "lq": "‘", "rq": "’", "bullet": "•", "textbullet": "•", "DH": "Ð", "dj": "đ", "DJ": "Đ",
    "BibTeX": "BibTeX", "bibinitperiod": ".", "bibrangedash": "–", "MR": "MR ", "par": "\n\n",
    **dict.fromkeys(("newblock", "space", *("bibnamedelim" + letter for letter in "abcdi")), " "),
}  # fmt: skip
_ACCENTS = {
    '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "c": "\u0327", "v": "\u030c", "H": "\u030b", "u": "\u0306", "r": "\u030a", "k": "\u0328", "d": "\u0323",
    "b": "\u0331", "t": "",
}  # fmt: skip
_TYPOGRAPHY = {"``": "“", "''": "”", "`": "‘", "--": "–", "---": "—", "\\": ""}
_SPACES = frozenset(" ,;:\n\t!>")
_NOTES = frozenset("footnote footnotetext sidenote marginnote marginpar endnote tablefootnote".split())
_HEADINGS = frozenset("caption section subsection subsubsection paragraph subparagraph chapter".split())
# Environments that stand apart from the text around them.
_BLOCKS = frozenset(
    """
    figure table wrapfigure wraptable SCfigure SCtable marginfigure margintable sidewaysfigure sidewaystable listing
    algorithm tcolorbox mdframed framed shaded
    """.split()
)
_TABLES = frozenset("tabular tabular* tabularx tabulary longtable".split())
_ACCENTED = re.compile(r"\s*(?:\{\s*(?:\\([ij])\b|(\w)(\w?))\s*\}|\\([ij])(?![a-zA-Z])\s?|(\w))")
# The ordinary characters before a token are part of the match: scanning a set is faster than trying alternatives.
# So are formulas that stay as they are: braces two deep at most, no blanks at the ends, commands that `formula` keeps.
_ORDINARY = r"[^\\$~&{}`'\-]*+"
_KEPT = rf"(?!{QUANTITY.pattern})\\(?!eqref|[cC]?ref|autoref|cite|label|no|protect|relax)[a-zA-Z]++"
_IN_FORMULA = rf"[^\\$\n{{}}]*+(?:{_KEPT}[^\\$\n{{}}]*+)*+"
_IN_GROUP = rf"{_IN_FORMULA}(?:\{{{_IN_FORMULA}\}}{_IN_FORMULA})*+"
_KEPT_FORMULA = rf"\$(?!\s){_IN_FORMULA}(?:\{{{_IN_GROUP}\}}{_IN_FORMULA})*+(?<![\s$])\$"
_TOKEN = re.compile(
    rf"(?P<text>{_ORDINARY}(?:(?:-(?!-)|'(?!')|{_KEPT_FORMULA}){_ORDINARY})*+)"
    r"(?:(?P<math>\$(?!\$)(?:[^$\\]|\\.)*+\$)"
    r"|\\(?P<word>[a-zA-Z@]+)(?P<star>\*?)"
    r"|\\(?P<symbol>.)"
    r"|(?P<display>\$\$)"
    r"|(?P<other>[{}~&$]|``|''|---?|[`\\]))",
    re.DOTALL,
)
_NAME = re.compile(r"\s*\{([^{}\n]*)\}")
_GLOSSARY_KEY = re.compile(r"\s*\([^()\n]{0,200}\)(?=\s*\{)")
_SPACE = re.compile(r"[ \t]*(?:\n[ \t]*(?!\n))?")
# A reference leaves its name between these marks, so that the rest of "Lemmas 1, 2 and 3" and "(see [4])" can be
# marked with it; all that is marked is left out of the text.
_OPEN, _INNER_OPEN, _CLOSE = "\x00", "\x02", "\x01"  # the second inside formulas, which lists do not cross
_NAMED = "\x03"  # in front of each name, so that references can be found again where several were joined
_LINE = "\x0b"  # a blank that begins a new line
_INDENT = "\x0e"  # at the beginning of a line, for each list around it
_BLANK = "\x0f"  # a blank of a program, which stays
_KEY_MARKS = re.compile(r"\x04([^\x05]*+)\x05([^\x06]*+)\x06")  # a label or key, and the name that is shown for it
_ALL_MARKS = re.compile(r"[\x00-\x02]")
_OWN_CHARACTERS = re.compile(r"[\x00-\x06\x0b\x0e\x0f]")
_MARKED = r"\x00[^\x01]*+\x01"
_LIST = re.compile(
    _MARKED + r"(?:(?:[\s~]*+(?:,|;|/|–|and|or|to|und|oder|et|ou|bis|through))++[\s~]*+)?+(?=[\s~]*+\x00)"
)
_BRACKETED = re.compile(rf"[(\[]\s*(?:cf\.|see|see also|e\.g\.,?|siehe|voir)?(?:\s*+{_MARKED})++\s*+[)\]]")
# Before punctuation, also the blanks before it. A set in front is searched fast, a look-behind is tried everywhere.
_BLANKS_BEFORE = re.compile(rf"[ \t](?<![ \t]{{2}})[ \t]*+{_MARKED}(?=[.,;:)\]?!])")
_NEIGHBOURS = re.compile(rf"{_MARKED}(?:[ \t]++{_MARKED})++")
_GAP = re.compile(r"(?:[\x00\x02][^\x01]*+\x01\s*+)++")  # after the blanks before it
_PART_OF_GAP = re.compile(r"\s++|[\x00\x02]([^\x01]*+)\x01")
_BLANKS = re.compile(r"\s+")
_INNER_MARK = re.compile(r"\x02[^\x01]*+\x01")
_LEADING_MARKS = re.compile(r"(?:\s*+\x02[^\x01]*+\x01)++")
_TRIMMED = re.compile(r"(\\\\)|\\(?:label\s*\{[^{}]*\}|(?:nonumber|notag|protect|relax)(?![a-zA-Z]))\s*")
_INNER = re.compile(r"(\\\\)|\\(eqref|ref|[cC]ref|autoref|cite[tp]?)\s*(?:\[[^\]]{0,200}\])?\s*\{([^{}]*)\}")
_UNESCAPED = re.compile(r"(\\.)|\$", re.DOTALL)
_DOLLARS = re.compile(r"\\*\$")
_SEPARATING_DOLLAR = re.compile(r"(?<!\\)\$")
_WORDS_IN_FORMULA = re.compile(r"\\(?:text(?:rm|it|bf|sf|normal|up)?|[mh]box)\s*(?=\{)")
_CODE = re.compile(r"\\begin\s*\{\s*(" + "|".join(map(re.escape, sorted(VERBATIM, reverse=True))) + r")\s*\}")
_TITLE_OF_BOX = re.compile(r"(?:^|,)\s*(?:frame)?(?:title|caption)\s*=\s*")
_PICTURE = re.compile(r"\\(?:includegraphics|label|[vh]space)\*?\s*(?:\[[^\]]*\]\s*)?\{[^{}]*\}|\\[a-zA-Z@]+")
_LONGEST_PICTURE = 300  # characters of a note that is nothing else
_COMPUTED = re.compile(r"\\(?:arabic|[rR]oman|[aA]lph|the[a-z])")
_DEPTH = 20  # of arguments that are cleaned separately
_BREAK = re.compile(r"\n[ \t]*\n")
_PUNCTUATION = re.compile(r" ?[.,;:!?](?=\s|$)")
_DEEPEST_LIST = 50
_DEEPEST_INDENT = 8
_OVERLAY = re.compile(r"<[\d+\-,.|@:a-z ]{1,40}>")  # of beamer: \item<2->
_LONGEST_INLINE_DRAWING = 2_000  # characters
_END_OF_DRAWING = re.compile(r"[{};]")


def _formulas_apart(content: str) -> str:
    r"""A formula without dollars in its words: `\text{if $x$ is odd}` as `\text{if }x\text{ is odd}`."""
    pieces: list[str] = []
    at = 0
    for words in _WORDS_IN_FORMULA.finditer(content):
        end = match_brace(content, words.end()) if words.start() >= at else -1
        parts = _SEPARATING_DOLLAR.split(content[words.end() + 1 : end - 1]) if end > 0 else []
        if len(parts) < 3 or len(parts) % 2 == 0 or any(part.count("{") != part.count("}") for part in parts):
            continue  # no dollars, or words inside of words
        pieces.append(content[at : words.start()])
        for number, part in enumerate(parts):
            pieces.append(f"{{{part}}}" if number % 2 else f"{words[0]}{{{part}}}" if part else "")
        at = end
    return "".join((*pieces, content[at:]))


def _balanced(content: str) -> str:
    """A formula without its dollars where their number is odd: a stray dollar would open another formula."""
    if "$" in content and sum(not match[1] for match in _UNESCAPED.finditer(content)) % 2:
        return _UNESCAPED.sub(r"\1", content)
    return content


@cache
def _literally(token: str) -> re.Pattern[str]:
    return re.compile(re.escape(token))


def _literal(text: str) -> str:
    """Verbatim text with its dollars escaped, so that they do not open formulas."""
    text = _DOLLARS.sub(lambda match: match[0] if len(match[0]) % 2 == 0 else match[0][:-1] + "\\$", text)
    return text + " " if text.endswith("\\") else text  # a formula may follow


# ---------------------------------------------------------------- the names of references

_LONGEST_NAME = 120  # characters; a longer title is a sentence
_SPECIAL = re.compile(r"[\\${}\x00-\x06]")  # would open a formula or a command in the clean text
_KIND_WORDS = frozenset(
    """
    theorem thm lemma lem lemmata proposition prop corollary corollarie cor definition def defn remark rem example ex
    conjecture conj claim fact section sec sect subsection paragraph chapter ch chap part appendix appendice app
    equation eq eqn eqns formula formulae inequality inequalitie identity identitie relation congruence figure fig
    table tab diagram step item case condition property propertie assumption hypothesis hypothese axiom algorithm page
    p pp problem exercise question notation construction observation statement point assertion line note footnote
    satz hilfssatz abschnitt kapitel gleichung formel korollar folgerung beispiel bemerkung abbildung tabelle anhang
    seite aufgabe vermutung behauptung schritt fall théorème lemme corollaire définition remarque exemple équation
    chapitre étape annexe §
    """.split()
)
_LAST_WORD = re.compile(r"[\s~]*+[(\[]?[\s~]*+\.?(§|[^\W\d_]++)")  # of a text read backwards
_AFTER_REFERENCE = re.compile(r"\x01(?:[\s~]*+(?:[,;/–—.:(\-]|and|or|to|und|oder|et|ou|bis|through))*+[\s~]*+$")


def _enumerate(names: Sequence[str], last: str = " and ") -> str:
    return last.join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _plural(kind: str) -> str:
    return kind[:-1] + "ies" if kind.endswith("y") else kind + "s"


def _unknown(_: str) -> Target | None:
    return None


_BRACES = re.compile(r"[{}]")


def _keys(keys: str) -> list[str]:
    """The keys of a reference, without those that LaTeX computes."""
    found = (" ".join(part.split()) for part in _BRACES.sub("", keys).split(","))
    return [key for key in found if key and not ("\\" in key and _COMPUTED.search(key))]


def _label_name(key: str) -> str:
    return _SPECIAL.sub("", key)


def _keyed(key: str, name: str) -> str:
    return f"\x04{_label_name(key)}\x05{name}\x06"


def _printed(number: str) -> str:
    """A number as it can stand in clean text."""
    return number if "\\" not in number and number.count("$") % 2 == 0 else _label_name(number)


def kind_is_written(before: str, kinds: Iterable[str]) -> bool:
    """Whether a text ends with the kind of what is named after it, or with any other such word."""
    match = _LAST_WORD.match(before[:-81:-1])
    word = match[1][::-1].lower() if match else ""
    forms = {word, word.removesuffix("s")} - {""}
    return not (forms.isdisjoint(_KIND_WORDS) and forms.isdisjoint(kind.split(" ")[-1] for kind in kinds))


class _Cleaner:
    def __init__(self, text: str, find: Callable[[str], Target | None], lists: Lists, depth: int = 0) -> None:
        self.text = text
        self.find_target = find
        self.kind_written = False  # before the last reference; it counts for the rest of its list too
        self.depth = depth
        self.output: list[str] = []
        self.references: list[tuple[str, str]] = []
        self.named: list[tuple[int, int]] = []  # for each name in the output, the references that it stands for
        self.closers: list[str] = []  # the output at the end of each open group
        self.lists = lists
        self.tables = 0  # that are open
        self.blocks: set[str] = set()  # environments that had a title
        self.failures_left = 50  # groups that never close: each costs a search to the end
        self.unclosed: set[re.Pattern[str]] = set()  # closing tokens that do not occur any more

    def formula(self, content: str, space: str = "", end: str = "") -> None:
        """A formula with blanks around it; `end` is the punctuation after it."""
        if "\\" in content:
            if "ref" in content or "cite" in content:
                content = _INNER.sub(self.inner_reference, content)
            if "\\label" in content or "\\no" in content or "\\protect" in content or "\\relax" in content:
                content = _TRIMMED.sub(r"\1", content)
            if "$" in content:
                content = _formulas_apart(content)
            if QUANTITY.search(content):
                content = _quantities_in_formula(content)
        first = last = ""  # references at the ends of the formula
        if _INNER_OPEN in content:
            if marks := _LEADING_MARKS.match(content):
                first, content = "".join(_INNER_MARK.findall(marks[0])), content[marks.end() :]
            while (content := content.rstrip()).endswith(_CLOSE):
                at = content.rindex(_INNER_OPEN)
                content, last = content[:at], content[at:] + last
        content = content.strip()
        if content.endswith("\\") and (len(content) - len(content.rstrip("\\"))) % 2:
            content = content[:-1].rstrip()  # the backslash would escape the dollar
        if content and not (first or last):
            self.output.append(f"{space}${content}${end}{space}")
        elif content:
            first, last = first.replace(_CLOSE, " " + _CLOSE), last.replace(_INNER_OPEN, _INNER_OPEN + " ")
            self.output += (space, "$", first, content, last, "$", end, space)
        elif first or last:
            self.output.append(re.sub(r"\\text\{([^{}]*)\}", r"\1", first + last).replace("\\", "") + end)

    def inner_reference(self, reference: re.Match[str]) -> str:
        r"""The mark of a reference inside a formula; `\text` is right inside and outside of `\text`."""
        escape, command, keys = reference.groups()
        if escape:
            return str(escape)
        family = "cite" if command.startswith("cite") else "ref"
        before = len(self.references)
        self.refer(family, keys)
        names = []
        for key in _keys(keys):
            target = self.find_target(key) if family == "ref" else None
            shown = _label_name(target.number if target and target.number else key)
            names.append(_keyed(key, re.sub(r"([_#%&])", r"\\\1", shown)))
        name = _enumerate(names)
        if family == "cite":
            name = f"[{name}]"
        elif command == "eqref":
            name = f"({name})"
        if not name:
            return ""
        self.named.append((before, len(self.references)))
        return f"{_INNER_OPEN}{_NAMED}\\text{{{name}}}{_CLOSE}"

    def refer(self, family: str, keys: str) -> None:
        self.references += ((family, key) for key in _keys(keys))

    def name(self, command: str, keys: Sequence[str], last: str = " and ") -> str:
        """What a reader sees in the place of a reference: its target's kind, unless the author wrote it, and name."""
        before = "".join(self.output[-6:])[-80:]
        targets = [self.find_target(key) or Target("") for key in keys]
        kinds = {target.kind for target in targets}
        if not _AFTER_REFERENCE.search(before):
            self.kind_written = kind_is_written(before, kinds)
        if command.lower() in ("namecref", "namecrefs"):
            return _enumerate(
                [_keyed(key, target.kind or _label_name(key)) for target, key in zip(targets, keys, strict=True)]
            )
        is_open = before.rstrip(" ~").endswith("(")
        names = [self.one_name(command, target, key, is_open) for target, key in zip(targets, keys, strict=True)]
        is_page = "page" in command
        only_numbers = (command in _NUMBERS_ONLY or is_page) and all(target.number for target in targets)
        if not (self.kind_written or only_numbers or command == "nameref" or kinds <= {"", "equation"}):
            if len(names) > 1 and len(kinds) == 1:
                names[0] = f"{_plural(targets[0].kind)} {names[0]}"
            else:
                shown_kinds = ("" if target.kind == "equation" else target.kind for target in targets)
                names = [f"{kind} {name}".strip() for kind, name in zip(shown_kinds, names, strict=True)]
            if command[0].isupper() or not before.strip() or before.rstrip(" ~").endswith((".", "\n")):
                names[0] = names[0][:1].upper() + names[0][1:]
        return _enumerate(names, last)

    @staticmethod
    def one_name(command: str, target: Target, key: str, is_open: bool) -> str:
        """The number of a target, else its title, else its label; `is_open` after an open bracket."""
        number = _printed(target.number) if command != "nameref" else ""
        is_page = "page" in command
        name = f"of {target.kind} {number}" if number and is_page else number or _label_name(key)
        title = target.title if len(target.title) <= _LONGEST_NAME and not is_page else ""
        if "eqref" in command or (target.kind == "equation" and (not number or "cref" in command.lower())):
            return _keyed(key, name) if is_open else f"({_keyed(key, name)})"
        if number or not title:
            return _keyed(key, name)
        return f"“{_keyed(key, title)}”" if target.kind in ("part", "chapter", "section") else f"({_keyed(key, title)})"

    def citation(self, notes: Sequence[str], keys: Sequence[str]) -> str:
        r"""`[see Key, Theorem 2]` of `\cite[see][Theorem 2]{Key}`."""
        before, after = (notes[0], notes[1]) if len(notes) == 2 else ("", "".join(notes))
        names = ", ".join(filter(None, (*(_keyed(key, _label_name(key)) for key in keys), after)))
        shown = f"{before} {names}".strip()
        return shown if "".join(self.output[-3:]).rstrip(" ~").endswith("[") else f"[{shown}]"

    def find(self, pattern: re.Pattern[str], at: int) -> tuple[int, int] | None:
        """Span of the next match of a closing token."""
        match = None if pattern in self.unclosed else pattern.search(self.text, at)
        if match is None:
            self.unclosed.add(pattern)
        return match.span() if match else None

    def skip_space(self, at: int) -> int:
        return skip(_SPACE, self.text, at) if self.text[at : at + 1] in " \t\n" else at

    def bracket(self, at: int) -> tuple[int, int] | None:
        """Offsets of the content of the bracketed group after `at`."""
        begin = self.skip_space(at)
        end = match_bracket(self.text, begin) if self.text[begin : begin + 1] == "[" else -1
        return (begin + 1, end - 1) if end > 0 else None

    def group(self, at: int) -> tuple[int, int] | None:
        """Offsets of the content of the braced group after `at`."""
        begin = self.skip_space(at)
        if self.text[begin : begin + 1] != "{" or not self.failures_left:
            return None
        end = match_brace(self.text, begin)
        if end < 0:
            self.failures_left -= 1
            return None
        return begin + 1, end - 1

    def skip_arguments(self, at: int, brackets: int = 0, groups: int = 0) -> int:
        """Offset after at most so many bracketed groups and then braced groups."""
        for read, count in ((self.bracket, brackets), (self.group, groups)):
            for _ in range(count):
                if (span := read(at)) is None:
                    break
                at = span[1] + 1
        return at

    def run(self) -> None:
        text, output = self.text, self.output
        position = 0
        while token := _TOKEN.match(text, position):
            begin, end = token.end("text"), token.end()
            if begin > position:
                output.append(text[position:begin])
            kind = token.lastgroup
            if kind == "math":
                position = self.inline(begin, end)
            elif kind == "other":
                self.punctuation(token["other"])
                position = end
            elif kind == "symbol":
                position = self.symbol(token["symbol"], end)
            elif kind == "display":
                position = self.display("$$", end, _LINE)
            else:
                position = self.word(token["word"], begin, end)
        output.append(text[position:])

    def display(self, closing: str, at: int, space: str) -> int:
        """A formula from `at` to the `closing` token; returns the offset after it, `at` where it never closes."""
        close = self.find(_literally(closing), at)
        if close is None:
            return at
        end = skip(_PUNCTUATION, self.text, close[1]) if space else close[1]
        self.formula(_balanced(self.text[at : close[0]]), space, self.text[close[1] : end].strip())
        return end

    def inline(self, begin: int, end: int) -> int:
        r"""A formula between dollars; with dollars inside `\text` it ends at the dollar outside all braces."""
        text = self.text
        content = text[begin + 1 : end - 1]
        if "\n" in content:  # no formula contains an empty line: the dollar was a stray one
            return begin + 1
        if self.failures_left and content.count("{") > content.count("}"):
            longer = match_dollar(text, begin)
            self.failures_left -= longer < 0
            end = max(end, longer)
            content = text[begin + 1 : end - 1]
        self.formula(content)
        return end

    def punctuation(self, mark: str) -> None:
        if mark == "{":
            self.closers.append("")
        elif mark == "}":
            if self.closers:
                self.output.append(self.closers.pop())
        elif mark in "~&":
            self.output.append(" ")
        elif mark != "$":
            self.output.append(_TYPOGRAPHY.get(mark, mark))

    def symbol(self, character: str, end: int) -> int:
        if character == "(":
            return self.display("\\)", end, "")
        if character == "[":
            return self.display("\\]", end, _LINE)
        if character == "\\":
            self.output.append(_LINE if self.tables else " ")
            return self.skip_arguments(end + (self.text[end : end + 1] == "*"), brackets=1)
        if character in _ACCENTS:
            return self.accent(character, end)
        if character in _SPACES:
            self.output.append(" ")
        elif character in "%#_&{}":
            self.output.append(character)
        elif character == "$":
            self.output.append("\\$")  # a bare dollar would open a formula
        return end

    def accent(self, mark: str, end: int) -> int:
        letter = _ACCENTED.match(self.text, end)
        if letter is None:
            return end
        base = letter[1] or letter[2] or letter[4] or letter[5]
        self.output.append(unicodedata.normalize("NFC", base + _ACCENTS[mark]) + (letter[3] or ""))
        return letter.end()

    def word(self, name: str, begin: int, end: int) -> int:
        """Handle the command `name`; returns the offset after it and after what belongs to it."""
        text = self.text
        if text[end : end + 1] == "<":
            end = skip(_OVERLAY, text, end)
        if name in _REFERENCE or name in _CITATION:
            return self.link(name, end)
        if name in _PLAIN_TEX or "=" in text[end : end + 2]:
            pattern = _PLAIN_TEX.get(name, _ASSIGNED)
            if assigned := pattern.match(text, end):
                return self.swallow(assigned.end())
        count = _DROPPED.get(name)
        if name == "glossary" and (key := _GLOSSARY_KEY.match(text, end)):  # of memoir: (key){term}{meaning}
            return self.swallow(self.skip_arguments(key.end(), groups=2))
        if name == "raisebox":  # {height}[above][below]{text}
            return self.skip_arguments(self.skip_arguments(end, groups=1), 2)
        if name == "titleformat":  # {command}[shape]{format}{label}{sep}{before}[after]
            end = self.skip_arguments(end, groups=1)
            return self.skip_arguments(self.skip_arguments(end, 1, 4), 1)
        if count is not None:
            return self.swallow(self.skip_arguments(end, 2 if count or name in _WITH_OPTION else 0, count))
        if name in ("begin", "end"):
            named = _NAME.match(text, end)
            return self.environment(name, named[1].strip(), begin, named.end()) if named else end
        if name in _SYMBOLS:
            self.output.append(_SYMBOLS[name])
            return self.skip_space(end) if text[end : end + 1] in (" ", "\t") else end
        if name in _ACCENTS:
            return self.accent(name, end)
        if name == "item":
            return self.item(end)
        if name in _NOTES:
            return self.foot_note(end)
        if name in _HEADINGS:
            return self.wrap(end, "\n\n", "\n\n" if name != "paragraph" else " ")
        if name in ("verb", "lstinline"):
            return self.verbatim(end)
        if name == "mintinline":
            return self.verbatim(self.skip_arguments(end, 1, 1))
        if name == "tikz":
            return self.inline_drawing(end)
        if name in ("url", "path", "ensuremath"):
            group = self.group(end)
            if group is None:
                return end
            if name == "ensuremath":
                self.formula(_balanced(text[slice(*group)]))
            else:
                self.output.append(_literal(text[slice(*group)]))
            return group[1] + 1
        if (command := QUANTITY.match(text, begin)) and (quantity := read_quantity(name, text, command.end())):
            self.output.append(quantity_in_text(*quantity[:2]))
            return quantity[2]
        if name in _SKIPS_FIRST:
            return self.skip_arguments(end, 2, 2 if name in _SKIPS_TWO else 1)
        if name in _SKIPS_SECOND:
            return self.skip_second(name, end)
        # unknown: the text of its braced arguments stays
        return self.swallow(self.skip_arguments(end, text[end : end + 1] == "["))

    def inline_drawing(self, end: int) -> int:
        r"""Skip `\tikz[...]{...}` or `\tikz[...] ...;`."""
        end = self.skip_arguments(end, brackets=1)
        if group := self.group(end):
            return group[1] + 1
        depth = 0
        for mark in _END_OF_DRAWING.finditer(self.text, end, end + _LONGEST_INLINE_DRAWING):
            depth += (mark[0] == "{") - (mark[0] == "}")
            if mark[0] == ";" and depth <= 0:
                return mark.end()
        return end

    def foot_note(self, end: int) -> int:
        """A note in brackets; one that holds nothing but a picture is left out."""
        begin = self.skip_arguments(end, brackets=1)
        close = match_brace(self.text, begin, begin + _LONGEST_PICTURE) if self.text[begin : begin + 1] == "{" else -1
        if close > 0 and not re.search(r"\w", _PICTURE.sub("", self.text[begin:close])):
            return close
        return self.wrap(end, " (", ")")

    def wrap(self, end: int, before: str, after: str) -> int:
        """Put texts before and after the argument of a command."""
        at = self.skip_arguments(end, brackets=1)
        if self.text[at : at + 1] != "{":
            return at
        self.output.append(before)
        self.closers.append(after)
        return at + 1

    def splice(self, inner: tuple[int, int], resume: int) -> int:
        """Clean a group separately and continue at `resume`; a group that is too deep is cleaned in place."""
        if self.depth == _DEPTH:
            return inner[0]
        part = _Cleaner(self.text[slice(*inner)], self.find_target, Lists(self.lists.styles), self.depth + 1)
        part.failures_left = min(10, self.failures_left) if part.depth < _DEPTH else 0
        part.run()
        self.output += part.output
        before = len(self.references)
        self.named += ((before + first, before + last) for first, last in part.named)
        self.references += part.references
        return resume

    def swallow(self, at: int) -> int:
        """TeX ignores blanks after a control word, but words must not be joined."""
        if self.text[at : at + 1] in (" ", "\t") and self.output and self.output[-1][-1:].isspace():
            return at + 1
        return at

    def link(self, name: str, end: int) -> int:
        if self.text[end : end + 1] == "*":
            end += 1
        family = "cite" if name in _CITATION else "ref"
        if name == "hyperref":  # the text of \hyperref[label]{text} stays
            label = self.bracket(end)
            if label is None:
                return self.skip_arguments(end, groups=3)
            self.refer("ref", self.text[slice(*label)])
            return label[1] + 1
        start = end
        notes: list[str] = []
        while len(notes) < 2 and (note := self.bracket(end)) is not None:
            notes.append(self.note(note) if family == "cite" else "")
            end = note[1] + 1
        group = self.group(end)
        if group is None:
            return start
        keys = self.text[slice(*group)]
        before = len(self.references)
        self.refer(family, keys)
        names = _keys(keys)
        at = group[1] + 1
        if name in ("crefrange", "Crefrange") and (last := self.group(at)) is not None:
            self.refer(family, self.text[slice(*last)])
            names += _keys(self.text[slice(*last)])
            at = last[1] + 1
        elif family == "cite" and self.text[at : at + 2] == "*{" and (place := self.group(at + 1)) is not None:
            notes.append(self.note(place))  # of amsrefs
            at = place[1] + 1
        shown = ""
        if family == "cite":
            shown = self.citation(notes, names) if name != "nocite" else ""
        elif names:
            shown = self.name(name, names, " to " if "range" in name else " and ")
        if shown:
            self.named.append((before, len(self.references)))
            shown = _NAMED + shown
            if self.output and self.output[-1].endswith(_CLOSE):
                shown = " " + shown  # \ref{a}\ref{b}: two names, not one word
        self.output.append(f"{_OPEN}{shown}{_CLOSE}")
        return at

    def note(self, span: tuple[int, int]) -> str:
        """The text of a note inside a citation."""
        if self.depth == _DEPTH:
            return ""
        part = _Cleaner(self.text[slice(*span)], self.find_target, Lists(), _DEPTH)
        part.failures_left = 0
        part.run()
        text = _KEY_MARKS.sub(r"\2", "".join(part.output))
        return " ".join(_ALL_MARKS.sub("", text).replace(_NAMED, "").split())

    def skip_second(self, name: str, end: int) -> int:
        first = self.group(end)
        second = self.group(first[1] + 1) if first else None
        if first is None or second is None:
            return end
        if name == "PMlinkname":
            self.refer("name", self.text[slice(*second)])
        return self.splice(first, second[1] + 1)

    def item(self, end: int) -> int:
        stack = self.lists.stack
        is_inline = bool(stack) and stack[-1].inline
        self.output.append(" " if is_inline else _LINE + _INDENT * min(len(stack) - 1, _DEEPEST_INDENT))
        if label := self.bracket(end):
            end = self.splice(label, label[1] + 1)
            self.output.append(" ")
        else:
            self.output.append(f"{stack[-1].next_label() if stack else '•'} ")
        return end

    def verbatim(self, end: int) -> int:
        end = self.skip_arguments(end + (self.text[end : end + 1] == "*"), brackets=1)
        fence = self.text[end : end + 1]
        if fence == "{":
            fence = "}"
        close = self.find(_literally(fence), end + 1) if fence.strip() else None
        if close is None:
            return end
        self.output.append(_literal(self.text[end + 1 : close[0]]))
        return close[1]

    def environment(self, which: str, name: str, begin: int, end: int) -> int:
        text = self.text
        if which == "end":
            if self.lists.is_list(name) and self.lists.stack:
                self.output.append(" " if self.lists.stack.pop().inline else _LINE)
            elif name in _TABLES:
                self.tables -= self.tables > 0
                self.output.append(_LINE)
            else:
                self.output.append("\n\n" if name in self.blocks or name.rstrip("*") in _BLOCKS else " ")
            return end
        if name in MATH or name in VERBATIM or name in _DROPPED_ENVIRONMENTS:
            close = self.find(end_of(name), end)
            if close is None:
                return end
            if name in MATH:
                at = begin if name == "tikzcd" else self.skip_arguments(end, groups=name in _WITH_ARGUMENT)
                after = skip(_PUNCTUATION, text, close[1])
                content = text[at : close[1] if name == "tikzcd" else close[0]]
                self.formula(_balanced(content), _LINE if name != "math" else " ", text[close[1] : after].strip())
                return after
            if name in VERBATIM:
                self.output.append("\n\n")
                if name not in ("verbatim", "verbatim*", "alltt"):
                    self.title_of_box(end)
                    end = self.skip_arguments(end, 1, name == "minted")
                self.output += (_literal(text[end : close[0]]), "\n\n")
            return close[1]
        end = skip(_OVERLAY, text, end)
        if self.lists.is_list(name) and len(self.lists.stack) < _DEEPEST_LIST:
            options = self.bracket(end)
            self.lists.open(name, text[slice(*options)] if options else "")
        if name in _TABLES:
            self.tables += 1
            self.output.append(_LINE)
        self.output.append("\n\n" if name.rstrip("*") in _BLOCKS else " ")
        for _ in range(_ARGUMENTS_OF_BEGIN.get(name, 0)):  # brackets may stand between: {r}[0pt]{5cm}
            end = self.skip_arguments(end, 2, 1)
        if self.title_of_box(end):
            self.blocks.add(name)
        if name == "sidecaption" and (caption := self.group(end)):  # {caption}[label]
            return self.splice(caption, self.skip_arguments(caption[1] + 1, brackets=1))
        return self.skip_arguments(end, 2)

    def title_of_box(self, end: int) -> bool:
        """Put the title that the options of a box or listing have into a paragraph; False where there is none."""
        options = self.bracket(end)
        title = (
            _TITLE_OF_BOX.search(self.text[slice(*options)]) if options and "=" in self.text[end : options[1]] else None
        )
        if not options or not title:
            return False
        begin = options[0] + title.end()
        close = match_brace(self.text, begin, options[1]) if self.text[begin] == "{" else -1
        stop = self.text.find(",", begin, options[1]) if close < 0 else close
        self.output.append("\n\n")
        self.splice((begin, stop if stop >= 0 else options[1]), 0)
        self.output.append("\n\n")
        return True


def _quantities_in_formula(content: str) -> str:
    pieces: list[str] = []
    at = 0
    for command in QUANTITY.finditer(content):
        quantity = read_quantity(command[1], content, command.end()) if command.start() >= at else None
        if quantity:
            pieces += (content[at : command.start()], quantity_in_formula(*quantity[:2]))
            at = quantity[2]
    return "".join((*pieces, content[at:]))


def _with_lines_of_code(text: str) -> str:
    """The text with the lines and blanks of its programs marked, so that they stay."""
    pieces: list[str] = []
    at = 0
    unclosed: set[str] = set()
    for begin in _CODE.finditer(text):
        close = end_of(begin[1]).search(text, begin.end()) if begin.start() >= at and begin[1] not in unclosed else None
        if close is None:
            unclosed.add(begin[1])
            continue
        code = text[begin.end() : close.start()].expandtabs(4)
        pieces += (text[at : begin.end()], code.replace(" ", _BLANK).replace("\n", _LINE))
        at = close.start()
    return "".join((*pieces, text[at:]))


def _marked(reference: re.Match[str]) -> str:
    return _OPEN + _ALL_MARKS.sub("", reference[0]) + _CLOSE


def _spaced(text: str, separator: str) -> str:
    """The text with single blanks and its own lines, and `separator` in the place of empty lines."""
    if "\n\n" not in text and _LINE not in text and _BLANK not in text:
        return " ".join(text.split())
    paragraphs = (
        _lines(part) if _LINE in part or _BLANK in part else " ".join(part.split()) for part in text.split("\n\n")
    )
    return separator.join(filter(None, paragraphs))


def _lines(text: str) -> str:
    lines = (" ".join(line.split()).replace(_INDENT, "  ").replace(_BLANK, " ").rstrip() for line in text.split(_LINE))
    return "\n".join(line for line in lines if line)


def _settle(text: str, separator: str) -> tuple[str, list[tuple[int, str]]]:
    """The text without what is marked, with single blanks, and what is marked as insertions.

    Two words of the text are separated as if there were no marks: by `separator` where an empty line is between them.
    """
    pieces: list[str] = []
    insertions: list[tuple[int, str]] = []
    at = length = 0

    def add(piece: str) -> None:
        nonlocal length
        pieces.append(piece)
        length += len(piece)

    def insert(parts: Sequence[str]) -> None:
        if name := "".join(parts):
            insertions.append((length, name))

    for gap in _GAP.finditer(text):
        before = text[at : gap.start()]
        words = before.rstrip()
        add(_spaced(words, separator))
        at = gap.end()
        parts = _parts_of_gap(before[len(words) :] + gap[0], separator)
        if length == 0:
            parts = parts[bool(parts) and not parts[0].strip() :]
        if at == len(text):
            parts = parts[: len(parts) - (bool(parts) and not parts[-1].strip())]
        if length == 0 or at == len(text):
            insert(parts)
            continue
        blanks = [number for number, part in enumerate(parts) if not part.strip()]
        kept = max(blanks, key=lambda number: _strength(parts[number]), default=len(parts))
        insert(parts[:kept])
        add("".join(parts[kept : kept + 1]))
        insert(parts[kept + 1 :])
    add(_spaced(text[at:], separator))
    return "".join(pieces), insertions


def _parts_of_gap(gap: str, separator: str) -> list[str]:
    """Blanks and names in turn, with single blanks."""
    parts: list[str] = []
    for part in _PART_OF_GAP.finditer(gap):
        if part[1] is None:
            blank = separator if "\n\n" in part[0] else "\n" if _LINE in part[0] else " "
            if parts and not parts[-1].strip():  # an empty name was between
                parts[-1] = max(parts[-1], blank, key=_strength)
            else:
                parts.append(blank)
        elif part[1].strip():
            parts.append(_BLANKS.sub(" ", part[1]))
    return parts


def _strength(blank: str) -> tuple[int, int]:
    return blank.count("\n"), len(blank)


def _places(cleaner: _Cleaner, insertions: Sequence[tuple[int, str]], length: int) -> list[tuple[int, int]]:
    """The offsets between which each reference stands: equal if it has a name, else those of its neighbours."""
    offsets = [offset for offset, name in insertions for _ in range(name.count(_NAMED))]
    places: list[tuple[int, int]] = []
    low = 0
    for offset, (first, last) in zip(offsets, cleaner.named, strict=False):
        places += [(low, offset)] * (first - len(places))
        places += [(offset, offset)] * (last - first)
        low = offset
    return places + [(low, length)] * (len(cleaner.references) - len(places))


def clean(
    text: str,
    find: Callable[[str], Target | None] = _unknown,
    separator: str = "\n\n",
    lists: Lists | None = None,
) -> Cleaned:
    """The text of a piece of LaTeX, with `separator` between its paragraphs.

    `find` says what a label leads to, None where it is not known. `lists` are those around the text, and are brought
    up to date for the text after it.
    """
    if not text or text.isspace():  # as most notes are
        return Cleaned("", [])
    # Only the empty lines of the author separate paragraphs, not those that dropped commands leave.
    text = _OWN_CHARACTERS.sub("", text)
    if "erbatim" in text or "lstlisting" in text or "minted" in text or "alltt" in text:
        text = _with_lines_of_code(text)
    text = "\n\n".join(part.replace("\n", " ") for part in _BREAK.split(text))
    cleaner = _Cleaner(text, find, Lists() if lists is None else lists)
    cleaner.run()
    result = "".join(cleaner.output)
    if _CLOSE in result:
        result = _LIST.sub(_marked, result).replace(_CLOSE + _OPEN, "")
        result = _NEIGHBOURS.sub(lambda names: " " + _marked(names), result)
        result = _BLANKS_BEFORE.sub(_marked, _BRACKETED.sub(_marked, result))
        settled, insertions = _settle(result, separator)
        places = _places(cleaner, insertions, len(settled))
        shown = [(offset, name.replace(_NAMED, "")) for offset, name in insertions]
        return Cleaned(settled, cleaner.references, shown, places)
    settled = _spaced(result, separator)
    return Cleaned(settled, cleaner.references, places=_places(cleaner, [], len(settled)))


def plain(text: str) -> str:
    """The text of a title, a name or a note, on one line."""
    return " ".join(clean(text).text.split())
