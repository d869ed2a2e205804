"""What cleaning does with the commands and environments of LaTeX, plain TeX and common packages."""

from __future__ import annotations

import re

from lemmata.latex.source import DRAWINGS

MATH = frozenset(
    """
    equation equation* align align* gather gather* multline multline* eqnarray eqnarray* flalign flalign*
    alignat alignat* xalignat xalignat* displaymath math dmath dmath* IEEEeqnarray IEEEeqnarray* tikzcd
    """.split()
)
WITH_ARGUMENT = frozenset("alignat alignat* xalignat xalignat* IEEEeqnarray IEEEeqnarray*".split())
DROPPED_ENVIRONMENTS = DRAWINGS.union("filecontents filecontents* thebibliography bibdiv comment CCSXML".split())
ARGUMENTS_OF_BEGIN = {  # number of braced arguments after \begin{...}
    "tabular": 1, "tabular*": 2, "tabularx": 2, "tabulary": 2, "longtable": 1, "array": 1, "minipage": 1,
    "multicols": 1, "multicols*": 1, "paracol": 1, "column": 1, "varwidth": 1, "changemargin": 2, "turn": 1,
    "rotate": 1, "wrapfigure": 2, "wraptable": 2, "adjustwidth": 2, "adjustwidth*": 2, "list": 2,
    "thebibliography": 1, "spacing": 1, "textblock": 1, "textblock*": 1, "restatable": 2, "otherlanguage": 1,
    "otherlanguage*": 1, "adjustbox": 1, "subfigure": 1, "subtable": 1, "SCfigure": 0, "minted": 1,
}  # fmt: skip
REFERENCE = frozenset(
    """
    ref eqref cref Cref autoref pageref nameref vref Vref vpageref fullref thmref lemref propref corref secref
    labelcref cpageref namecref nameCref namecrefs nameCrefs crefrange Crefrange subref zcref prettyref fref
    Autoref autopageref hyperref
    """.split()
)
CITATION = frozenset(
    """
    cite citep citet citealt citealp citeauthor citeyear citeyearpar Citet Citep Citealt Citeauthor parencite
    textcite footcite footcitetext autocite Autocite Parencite Textcite smartcite supercite fullcite footfullcite cites
    parencites textcites autocites citeA citeN citeNP shortcite citenum onlinecite nocite citeauthor citetitle
    """.split()
)
# Commands that are dropped with this many braced arguments, and with the optional ones before them. Those without
# arguments differ from unknown commands only in a bracket that follows: it is text.
DROPPED = {
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
        theoremstyle newcounter stepcounter refstepcounter arabic alph Alph roman Roman fnsymbol
        hyphenation pagenumbering linespread selectlanguage
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
WITH_OPTION = frozenset(  # of those without arguments
    """
    printbibliography printindex printglossary printglossaries printnomenclature printbibheading printbiblist
    printshorthands listoftodos linebreak nolinebreak pagebreak nopagebreak
    """.split()
)
# What plain TeX reads after some of its commands, and after any other where it is assigned a length.
_UNIT = r"(?:true\s*)?(?:pt|em|ex|mm|cm|in|pc|bp|sp|dd|cc|mu|fil{1,3}|\\[a-zA-Z@]+)"
_LENGTH = rf"[-+]?\s*(?:(?:\d+[.,]?\d*|[.,]\d+){_UNIT}|\\[a-zA-Z@]+)"
_GLUE = rf"{_LENGTH}(?:\s*plus\s*{_LENGTH})?(?:\s*minus\s*{_LENGTH})?"
ASSIGNED = re.compile(rf"\s*=\s*{_GLUE}")
PLAIN_TEX = {
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
SKIPS_FIRST = frozenset(
    """
    textcolor href href@noop colorbox fcolorbox hyperlink parbox resizebox scalebox rotatebox bibinfo bibfield Eprint
    captionof multicolumn multirow foreignlanguage
    """.split()
)
SKIPS_TWO = frozenset("fcolorbox resizebox multicolumn multirow".split())  # of these
SKIPS_SECOND = frozenset("texorpdfstring PMlinkname PMlinkid PMlinktofile PMlinkexternal".split())
SYMBOLS = {
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
ACCENTS = {
    '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "c": "\u0327", "v": "\u030c", "H": "\u030b", "u": "\u0306", "r": "\u030a", "k": "\u0328", "d": "\u0323",
    "b": "\u0331", "t": "",
}  # fmt: skip
TYPOGRAPHY = {"``": "“", "''": "”", "`": "‘", "--": "–", "---": "—", "\\": ""}
SPACES = frozenset(" ,;:\n\t!>")
NOTES = frozenset("footnote footnotetext sidenote marginnote marginpar endnote tablefootnote".split())
HEADINGS = frozenset("caption section subsection subsubsection paragraph subparagraph chapter".split())
# Environments that stand apart from the text around them.
BLOCKS = frozenset(
    """
    figure table wrapfigure wraptable SCfigure SCtable marginfigure margintable sidewaysfigure sidewaystable listing
    algorithm tcolorbox mdframed framed shaded
    """.split()
)
TABLES = frozenset("tabular tabular* tabularx tabulary longtable".split())
