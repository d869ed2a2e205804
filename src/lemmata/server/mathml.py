r"""Clean text as safe HTML: formulas as MathML, the words of a query marked, references as links.

All input is hostile. Every character of it is escaped, and of what latex2mathml makes only known elements and
attributes are written, so the result can be put into a page as it is. A formula that cannot be converted shows its
LaTeX. Each formula keeps its LaTeX in `data-latex`, so that the page can copy it.
"""

from __future__ import annotations

import bisect
import html
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element

from lemmata.core.types import Link
from lemmata.latex.readable import TEXT_SWITCH, readable, styled_letters
from lemmata.latex.sentences import cut, formulas
from lemmata.latex.source import match_brace
from lemmata.search.excerpts import CELL, PARAGRAPH, is_listed, mark_words, window
from lemmata.server.cache import cached
from lemmata.server.deadline import check_time
from lemmata.server.diagrams import DIAGRAM, as_diagram
from lemmata.server.records import BULLET, on_one_line, short_text

Span = tuple[int, int]  # first offset, offset after the last
_LONGEST_NAME = 70  # characters of the first words that stand for a title
_LONGEST = 4000  # characters of a formula; longer ones show their LaTeX
_MOST_CONVERTED = 1 << 16  # characters of formulas in one text; those after them show their LaTeX, at once
_LONGEST_SEARCHED = 1 << 17  # characters of a text in which an excerpt is looked for
_CACHED_FORMULAS = 1 << 25  # characters
_DEEPEST = 40  # braces and environments inside each other
_ELEMENTS = frozenset(
    "math mrow mi mo mn ms mtext mspace mfrac msqrt mroot mstyle msub msup msubsup munder mover munderover"
    " mmultiscripts mprescripts none mtable mtr mtd mpadded mphantom menclose".split()
)
_ATTRIBUTES = frozenset(
    "accent accentunder columnalign columnlines columnspacing depth displaystyle fence form height largeop"
    " linethickness lspace maxsize minsize movablelimits notation rowlines rowspacing rspace scriptlevel separator"
    " stretchy symmetric width".split()
)
_VALUE = re.compile(r"[\w.%+ -]{0,60}", re.ASCII)
_CHILDREN = {"msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3, "mfrac": 2, "mroot": 2}
_ALPHABETS = {
    "bold": "bold",
    "bold-italic": "bold italic",
    "script": "script",
    "bold-script": "script",
    "fraktur": "fraktur",
    "bold-fraktur": "fraktur",
    "double-struck": "double",
    "sans-serif": "sans",
    "bold-sans-serif": "sans",
    "monospace": "mono",
}
_COMMAND = re.compile(r"\\[a-zA-Z]+")
_ASKING = frozenset(  # marked in an excerpt, these words of a question would only distract
    "what who whom whose which how when where why can could do does did is are was we you they it i my our your there"
    " here only much many if than then also want know wer wie wo wann warum welche welcher welches kann können man wir"
    " ich sie es ob nur seit nicht noch schon auch ist sind".split()
)
_NAMED = {
    "vcentcolon": ":", "coloneqq": "≔", "eqqcolon": "≕", "textbullet": r"\bullet ", "textdegree": r"^\circ ",
    "mathbbm": r"\mathbb",
}  # fmt: skip
_SAME = re.compile(rf"\\({'|'.join(_NAMED)})(?![a-zA-Z])")
_OPERATOR = re.compile(r"(\\operatorname\*?)\s*\{\s*\\(?:mathrm|text|mathsf|rm)\s*\{([^{}\\]*)\}\s*\}")
_WRITTEN_OUT = (  # what the converter does not know, or does not set as TeX does
    (re.compile(r"\\not\s*="), r"\\neq "),
    (re.compile(r":\s*="), "≔"),
    (re.compile(r"\\m(?:kern|skip)\s*-?[\d.]+\s*mu"), ""),
    (re.compile(r"(\\operatorname\*?\s*\{[^{}\\]*)\\[,;: ](?=[^{}\\]*\})"), "\\1\u2009"),
    (re.compile(r"\\pmod\s*\{((?:[^{}]|\{[^{}]*\})*)\}"), r"\\;\\;(\\mathrm{mod}\\;\1)"),
    (re.compile(r"\\raisebox\s*\{[^{}]*\}(?:\s*\[[^\]]*\]){0,2}\s*\{\s*\$?([^{}$]*)\$?\s*\}"), r"{\1}"),
)
_RELATION, _BINARY, _LETTER = (' lspace="0.278em" rspace="0.278em"', ' lspace="0.222em" rspace="0.222em"', "")
# What the converter takes for another kind of sign.
_SIGNS = {
    ":": (":", _RELATION), "&#x0003A;": (":", ' lspace="0em" rspace="0.167em"'), "&#x0007E;": ("∼", _RELATION),
    "≔": ("≔", _RELATION), "≕": ("≕", _RELATION), "&#x029F5;": ("∖", _BINARY), "&#x000B1;": ("±", _BINARY),
    "&#x02213;": ("∓", _BINARY), "&#x02205;": ("∅", _LETTER), "&#x0221E;": ("∞", _LETTER),
    "&#x02026;": ("…", _LETTER), "&#x0002E;": (".", ' lspace="0em" rspace="0em"'),
    "&#x027C2;": ("⟂", _RELATION), "&#x027F6;": ("⟶", _RELATION), "&#x02015;": ("‾", ' accent="true" stretchy="true"'),
}  # fmt: skip
_UPRIGHT = re.compile(r"&#x000[4-7][0-9A-F];|&#x003[9A][0-9A-F];|[Α-Ω]")  # \mathrm{S}; capital Greek letters
_GREEK = re.compile("[Α-ΡΣ-Ωα-ωϵϑϰϕϱϖ]")
_SIGNED = frozenset(("&#x02212;", "&#x0002B;", "&#x000B1;", "&#x02213;"))
_CLOSING = frozenset(("&#x00029;", "&#x0005D;", "&#x0007D;", "&#x0007C;", "&#x02016;", "&#x00021;", "!", ")", "]"))
_SPACING = re.compile(r' [lr]space="[^"]*"')
_SCRIPTED = frozenset("msub msup msubsup munder mover munderover".split())
_PRIMES = frozenset(f"&#x{code};" for code in ("02032", "02033", "02034", "02057"))
_TIGHT = frozenset(("/", "|", "&#x0002F;", "&#x0007C;"))  # between these TeX sets no space
_SPACES = {
    "negativethinmathspace": "-0.167em",
    "negativemediummathspace": "-0.222em",
    "negativethickmathspace": "-0.278em",
    "thinmathspace": "0.167em",
    "mediummathspace": "0.222em",
    "thickmathspace": "0.278em",
}
# A formula that defines a macro could expand without end, and no converter draws diagrams.
_REFUSED = re.compile(
    r"\\(?:(?:new|renew|provide|Declare)[a-zA-Z]*|[egx]?def|let|require|unicode|verb|csname|xymatrix|begin\s*\{tikz[a-z]*\})(?![a-zA-Z])"
)
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([a-zA-Z]+\*?)\}(\s*\[[tbc]\])?")
_ALIGNED = {
    **dict.fromkeys(("aligned", "align", "align*", "alignedat", "eqnarray", "eqnarray*", "IEEEeqnarray"), "align*"),
    **dict.fromkeys(("gathered", "gather", "gather*", "multline", "multline*", "multlined"), "split"),
    **dict.fromkeys(("dcases", "rcases"), "cases"),
}
_TRANSPARENT = frozenset(("equation", "equation*", "displaymath", "math", "subequations"))
_TEXT = re.compile(r"\\(?:text(?:rm|it|bf|sf|tt|up|normal)?|mbox|hbox)\s*(?=\{)")
_STYLED = re.compile(
    r"\\(?:text(?:rm|it|bf|sf|tt|sl|sc|up|normal)?|emph|underline)\s*\{([^{}]*)\}|\\color\s*\{[^{}]*\}"
)
_DOLLAR = re.compile(r"(?<!\\)\$")
_GENFRAC = re.compile(r"\\genfrac\s*(?=\{)")
_LEVEL = re.compile(r"\\begin\s*\{[a-zA-Z]+\*?\}|\\end\s*\{[a-zA-Z]+\*?\}|\\\\|\\.|[{}&]", re.DOTALL)
_SIZED_LEFT = re.compile(r"\\[bB]igg?l(?![a-zA-Z])")
_SIZED_RIGHT = re.compile(r"\\[bB]igg?r(?![a-zA-Z])")
_CELLS = re.compile(r"&|\\\\")
_ROW_SPACE = re.compile(r"(\\\\)\*?\s*\[\s*-?[\d.]+\s*[a-z]{2}\s*\]")
_DROPPED = re.compile(
    r"\\(?:label\s*\{[^{}]*\}|nonumber|notag|null|linebreak|hfill|footnotesize|small|MakeLowercase|displaylimits|nolimits|allowbreak|nobreak|ensuremath|xspace|qedhere|strut|mathstrut)(?![a-zA-Z])"
)
_TALL = re.compile(
    r"\\(?:sum|prod|int|oint|frac|dfrac|binom|begin|bigoplus|bigcup|bigcap|coprod|substack|cfrac)(?![a-zA-Z])"
)
_INK = re.compile(r"\\[a-zA-Z]+|\\.|[^\s{}]", re.DOTALL)  # what takes room on the line
_INLINE = 46  # signs of a tall formula that fit into a line of text
_DISPLAYED = 16  # signs of a tall formula that stood on its own line in the source
_INLINE_FLAT = 90  # and of one without large operators and fractions
_BREAK = "\x00"  # between paragraphs; no text has one, because it is replaced
_LINE = "\x01"  # between lines, likewise
_CELL = "\x02"  # between the cells of a row, likewise
_OWN_CHARACTERS = re.compile(r"[\x00-\x02]")
_PARTING = re.compile(rf"\n|{re.escape(CELL)}")  # where a link would end
_DEEPEST_ITEM = 4
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_PUNCTUATION = re.compile(r"[.,;:!?)\]]+")
_JOINED = re.compile(r"[-–’']?[.,;:!?)\]]*")  # what stays on the line of the formula before it
_TITLE = re.compile(r"[A-ZÄÖÜ][^<>\x01]{0,90}\w")  # a heading, or the title of a box


def address(identity: str) -> str:
    """The path of the page's view of a passage, document or concept; passages of documents have # or @ in their id."""
    is_passage = "#" in identity or "@" in identity
    view = "concept" if identity.startswith("concept:") else "passage" if is_passage else "document"
    return f"/view/{view}/{quote(identity, safe='', errors='replace')}"


# ---------------------------------------------------------------- text


def to_html(text: str, *, links: Sequence[tuple[int, int, str]] = ()) -> str:
    """Safe HTML of a clean text, as paragraphs.

    `links` are spans, each with the id that it leads to; a span that begins or ends inside a formula, or overlaps an
    earlier one, is ignored.
    """
    return _paragraphs(_pieces(text, (), links))


def _paragraphs(pieces: Iterable[str], *, headed: bool = True) -> str:
    """Paragraphs and tables; `headed` is whether a table at the beginning has its head."""
    paragraphs = [part for part in map(str.strip, "".join(pieces).split(_BREAK)) if part]
    heads = [headed, *(True for _ in paragraphs)]
    return "".join(map(_paragraph, paragraphs, [*paragraphs[1:], ""], heads))


def _paragraph(paragraph: str, after: str, headed: bool) -> str:
    """A table, a paragraph, or the title above one: without a full stop, and not the first part of a sentence."""
    rows = paragraph.split(_LINE)
    if len(rows) > 1 and all(_CELL in row for row in rows):
        names = ["th" if headed and not number else "td" for number in range(len(rows))]
        cells = (
            "".join(f"<{name}>{cell.strip()}</{name}>" for cell in row.split(_CELL))
            for name, row in zip(names, rows, strict=True)
        )
        return f'<div class="grid"><table>{"".join(f"<tr>{row}</tr>" for row in cells)}</table></div>'
    paragraph = paragraph.replace(_CELL, CELL)
    if after[:1].isupper() and _TITLE.fullmatch(paragraph):
        return f'<p class="title">{paragraph}</p>'
    return f"<p>{_lines(paragraph)}</p>"


def inline_html(text: str) -> str:
    """Safe HTML of a title or an excerpt, without paragraphs and with every formula in the line."""
    return "".join(_pieces(on_one_line(text), (), (), blocks=False)).replace(_CELL, CELL)


def title_html(title: str) -> str:
    """Safe HTML of a title with formulas; "" for one without, which can be shown as it is."""
    return inline_html(title) if "$" in title else ""


def name_of(title: str, text: str) -> dict[str, str]:
    """What something is called: by its title, else by its first words; as characters and as safe HTML."""
    name = title or short_text(text, _LONGEST_NAME)
    return {"name": readable(name), "name_html": inline_html(name)}


def excerpt_html(text: str, query: str, tokenize: Callable[[str], list[str]], length: int = 320) -> str:
    """The part of a text that answers a query, with the query's words marked, as safe HTML.

    It is one paragraph, unless it holds lists or tables.
    """
    query = " ".join(word for word in query.split() if word.strip("?,").casefold() not in _ASKING) or query
    text, is_long = text[:_LONGEST_SEARCHED], len(text) > _LONGEST_SEARCHED
    part, before, after = window(text, query, length, tokenize=tokenize)
    headed = not before or text[: text.find(part)].endswith("\n\n")
    shown = _in_lines(part)
    if len(shown) > 2 * length:  # a single long sentence
        shown, after = cut(shown, 2 * length).removesuffix("…").rstrip(), True
    if not shown:
        return ""
    is_inside, is_open = is_listed(shown.split("\n\n")[0]), is_listed(shown.rpartition("\n\n")[2])
    if before and not is_inside:
        shown = f"… {shown}"
    if after or is_long:
        shown += "\n\n…" if is_open else " …"
    made = _paragraphs(_pieces(shown, mark_words(shown, query, tokenize), ()), headed=headed)
    return f"<p>…</p>{made}" if before and is_inside else made


def _in_lines(text: str) -> str:
    """The text on one line, but for lists and tables, which keep theirs."""
    groups = itertools.groupby((match[0] for match in PARAGRAPH.finditer(text)), is_listed)
    runs = ((listed, "\n\n".join(paragraphs)) for listed, paragraphs in groups)
    return "\n\n".join(run if listed else on_one_line(run) for listed, run in runs)


def _lines(paragraph: str) -> str:
    """Items of a list and displayed formulas on lines of their own, items of inner lists indented."""
    if _LINE not in paragraph:
        return BULLET.sub(r"\1• ", paragraph)
    lines = []
    for line in (BULLET.sub(r"\1• ", line) for line in paragraph.split(_LINE) if line.strip()):
        level = min((len(line) - len(line.lstrip(" "))) // 2, _DEEPEST_ITEM)
        lines.append(f'<span class="line{f" in{level}" if level else ""}">{line.strip()}</span>')
    return "".join(lines)


def _pieces(
    text: str, marks: Sequence[Span], links: Sequence[tuple[int, int, str]], *, blocks: bool = True
) -> Iterator[str]:
    """HTML of the text between formulas, and of the formulas."""
    at = converted = 0
    marks, links = sorted(marks), sorted(links)
    outside = [span for span in formulas(text) if span[1] - span[0] > 2]
    for begin, end in [*outside, (len(text), len(text))]:
        formula = text[begin + 1 : end - 1]
        block = end > begin and blocks and (_stands_alone(text, begin, end) or _is_block(formula))
        words_end = begin if block or end == begin else at + len(text[at:begin].rstrip("(["))
        if words_end > at:
            yield _words(text, at, words_end, marks, links)
        if end == begin:
            break
        following = (_PUNCTUATION if block else _JOINED).match(text, end)
        at = following.end() if following else end
        head, tail = html.escape(text[words_end:begin]), html.escape(text[end:at])
        check_time()
        converted += len(formula)
        made = formula_html(formula, block) if converted <= _MOST_CONVERTED else _latex_html(formula)
        if block:
            yield f'<span class="display">{made}{tail}</span>'
        elif head or tail:
            yield f'<span class="joined">{head}{made}{tail}</span>'
        else:
            yield made


def _words(text: str, start: int, stop: int, marks: Sequence[Span], links: Sequence[tuple[int, int, str]]) -> str:
    """Escaped text with its marks and links, which are in order."""
    pieces: list[str] = []
    at = start
    for begin, end, target in _within(links, start, stop):
        while begin < end and text[begin].isspace():
            begin += 1
        while end > begin and text[end - 1].isspace():
            end -= 1
        if at <= begin < end <= stop and not _PARTING.search(text, begin, end):
            inner = _marked(text, begin, end, marks)
            pieces += _marked(text, at, begin, marks), f'<a href="{address(target)}">{inner}</a>'
            at = end
    return "".join((*pieces, _marked(text, at, stop, marks)))


def _marked(text: str, start: int, stop: int, marks: Sequence[Span]) -> str:
    pieces: list[str] = []
    at = start
    for begin, end in _within(marks, start, stop):
        if at <= begin < end <= stop:
            pieces += _escape(text[at:begin]), f"<mark>{_escape(text[begin:end])}</mark>"
            at = end
    return "".join((*pieces, _escape(text[at:stop])))


def _within(spans: Sequence[Any], start: int, stop: int) -> Sequence[Any]:
    """Those of ordered spans that begin in a part of the text; a look at all for every part would be quadratic."""
    return spans[bisect.bisect_left(spans, (start,)) : bisect.bisect_left(spans, (stop,))]


def _escape(text: str) -> str:
    escaped = html.escape(_OWN_CHARACTERS.sub("\ufffd", text.replace("\\$", "$")).replace(CELL, _CELL))
    return _BLANK_LINES.sub(_BREAK, escaped).replace("\n", _LINE)


def reference_links(spans: Sequence[Sequence[Any]], links: Sequence[Link]) -> list[tuple[int, int, str]]:
    """Where the names that reading inserted for references (`spans`) lead, by the links of their passage."""
    targets = {link.label.removeprefix("name:"): link.target for link in reversed(links) if link.target}
    return [(begin, end, targets[label]) for _, _, *names in spans for begin, end, label in names if label in targets]


# ---------------------------------------------------------------- formulas


def _stands_alone(text: str, begin: int, end: int) -> bool:
    """Whether a formula is all of its line, but for punctuation."""
    after = _PUNCTUATION.match(text, end)
    end = after.end() if after else end
    return (begin == 0 or text[begin - 1] == "\n") and (end == len(text) or text[end] == "\n") and "\n" in text


def _is_block(formula: str) -> bool:
    """Whether a formula inside a line is too large for it."""
    if len(formula) > _LONGEST or DIAGRAM.search(formula):
        return True
    if "\\\\" in formula and any(token == "\\\\" for token, _ in _top_level(formula)):  # noqa: S105
        return True
    size = sum(1 for _ in _INK.finditer(formula))
    is_tall = _TALL.search(formula) is not None
    ends_sentence = formula.rstrip().endswith((".", ",", ";"))  # only a displayed formula has its full stop inside
    shortest = _DISPLAYED if ends_sentence else _INLINE
    return size > (shortest if is_tall else _INLINE_FLAT) or (size > _DISPLAYED and "\\qquad" in formula)


def _top_level(formula: str) -> Iterator[tuple[str, int]]:
    """The `&` and `\\\\` outside braces and environments, with their offsets."""
    depth = 0
    for token in _LEVEL.finditer(formula):
        sign = token[0]
        if sign == "{" or sign.startswith("\\begin"):
            depth += 1
        elif sign == "}" or sign.startswith("\\end"):
            depth -= 1
        elif depth == 0 and sign in ("&", "\\\\"):
            yield sign, token.start()


@cached(_CACHED_FORMULAS)
def formula_html(formula: str, block: bool = False) -> str:
    """A formula without its dollars as `<math>`; as its LaTeX in `<code>` where it cannot be converted."""
    formula = _OWN_CHARACTERS.sub("\ufffd", formula)
    if len(formula) <= _LONGEST and DIAGRAM.search(formula) and _depth(formula) <= _DEEPEST:
        return as_diagram(formula, formula_html, block=block) or _latex_html(formula)
    if len(formula) <= _LONGEST and not _REFUSED.search(formula) and _depth(formula) <= _DEEPEST:
        from latex2mathml.converter import Converter

        try:
            tree = Converter(display="block" if block else "inline").convert_to_element(_prepared(formula))
            inner = "".join(_serialised(child, 0) for child in tree)
        except Exception:  # the converter raises what it likes (StopIteration, IndexError, its own errors) on odd input
            inner = ""
        if inner:
            kept = html.escape(formula.strip())
            return f'<math display="{"block" if block else "inline"}" data-latex="{kept}">{inner}</math>'
    return _latex_html(formula)


def _latex_html(formula: str) -> str:
    kept = html.escape(_OWN_CHARACTERS.sub("\ufffd", formula).strip())
    return f'<code class="latex" title="LaTeX that cannot be shown as a formula" data-latex="{kept}">{kept}</code>'


def _depth(formula: str) -> int:
    depth = deepest = 0
    for token in re.finditer(r"\\(begin|end|left|right|frac|sqrt)(?![a-zA-Z])|\\.|([{}^_])", formula, re.DOTALL):
        opens = token[1] in ("begin", "left") or token[2] == "{"
        closes = token[1] in ("end", "right") or token[2] == "}"
        depth += opens - closes
        deepest = max(deepest, depth)
    return deepest


def _prepared(formula: str) -> str:
    """The formula as latex2mathml understands it."""
    formula = _ROW_SPACE.sub(r"\1", _DROPPED.sub("", formula))
    for pattern, written in _WRITTEN_OUT:
        formula = pattern.sub(written, formula)
    formula = _OPERATOR.sub(r"\1{\2}", _SAME.sub(lambda match: _NAMED[match[1]], formula))
    formula = _ENVIRONMENT.sub(_environment, formula)
    formula = _without_genfrac(_with_formulas_in_text(formula))
    if all(len(_SIZED_LEFT.findall(cell)) == len(_SIZED_RIGHT.findall(cell)) for cell in _CELLS.split(formula)):
        formula = _SIZED_RIGHT.sub(r"\\right", _SIZED_LEFT.sub(r"\\left", formula))  # so that an exponent fits
    signs = {sign for sign, _ in _top_level(formula)}
    if "&" in signs:
        return rf"\begin{{align*}}{{}}{formula}\end{{align*}}"  # so that `[` begins no option
    if "\\\\" in signs:
        return rf"\begin{{split}}{{}}{formula}\end{{split}}"
    return formula


def _environment(match: re.Match[str]) -> str:
    name = match[2]
    if name in _TRANSPARENT:
        return ""
    return rf"\{match[1]}{{{_ALIGNED.get(name, name)}}}"


def _with_formulas_in_text(formula: str) -> str:
    r"""`\text{if $p$ is odd}` as `\text{if }p\text{ is odd}`."""
    pieces: list[str] = []
    at = 0
    while match := _TEXT.search(formula, at):
        end = match_brace(formula, match.end())
        if end < 0:
            break
        content = formula[match.end() + 1 : end - 1]
        words = _DOLLAR.split(TEXT_SWITCH.sub("", _without_styles(content)))
        if len(words) % 2 and len(words) > 1:
            style = "\\boldsymbol" if "\\boldmath" in content else ""
            parts = (
                f"{style}{{{word}}}" if place % 2 else f"{match[0]}{{{word}}}"
                for place, word in enumerate(words)
                if word
            )
            pieces += formula[at : match.start()], "{", *parts, "}"
        else:
            pieces += (
                formula[at : match.start()],
                f"{match[0]}{{{words[0]}}}" if len(words) == 1 else formula[match.start() : end],
            )
        at = end
    return "".join((*pieces, formula[at:]))


def _without_styles(words: str) -> str:
    for _ in range(3 if "\\" in words else 0):  # one inside another
        words = _STYLED.sub(r"\1", words)
    return words


def _without_genfrac(formula: str) -> str:
    r"""`\genfrac{[}{]}{0pt}{}{n}{k}` as brackets around a matrix, with or without a rule as a fraction."""
    while match := _GENFRAC.search(formula):
        arguments: list[str] = []
        at = match.end()
        while len(arguments) < 6 and at < len(formula) and formula[at] == "{":
            end = match_brace(formula, at)
            if end < 0:
                return formula
            arguments.append(formula[at + 1 : end - 1])
            at = end
            while at < len(formula) and formula[at].isspace():
                at += 1
        if len(arguments) < 6:
            return formula
        left, right, rule, _, above, below = arguments
        inner = (
            rf"\frac{{{above}}}{{{below}}}"
            if not rule or rule.strip("0pt. ")
            else rf"\begin{{matrix}}{above}\\{below}\end{{matrix}}"
        )
        formula = f"{formula[: match.start()]}{{\\left{left or '.'}{inner}\\right{right or '.'}}}{formula[at:]}"
    return formula


def _serialised(element: Element, depth: int, *, script: bool = False, signed: bool = False, base: bool = False) -> str:
    """An element with its attributes and content, as far as they are known and safe.

    In a script operators have no space around them; a signed operator belongs to the number after it; an arrow that
    is the base of something above it is not stretched, which would push that far away.
    """
    if depth > 200:
        return ""
    if element.tag == "msup" and len(element) == 2 and element[1].text in _PRIMES:  # as high as it is
        prime = f'<mo lspace="0em" rspace="0em">{_text(element[1])}</mo>'
        return f"<mrow>{_serialised(element[0], depth + 1, script=script)}{prime}</mrow>"
    is_accent = element.tag == "mo" and element.text == "&#x0007E;"  # elsewhere that is \sim
    sign, spaces = _SIGNS.get("" if is_accent else element.text or "", ("", ""))
    name = "mo" if element.text in _PRIMES else element.tag
    if sign:
        name = "mo" if spaces else "mi"
    if name == "mo" and not element.text and not len(element):
        return ""  # as before the argument of \operatorname
    inner: list[str] = []
    before = None
    for place, child in enumerate(element):
        is_sign = child.text in _SIGNED and before is not None and before.tag == "mo" and before.text not in _CLOSING
        is_script = script or (element.tag in _SCRIPTED and place > 0)
        is_base = place == 0 and (element.tag in _SCRIPTED or (base and element.tag in ("mrow", "mstyle")))
        inner.append(_serialised(child, depth + 1, script=is_script, signed=is_sign, base=is_base))
        before = child
    text = sign or _text(element)
    if name not in _ELEMENTS:
        return text + "".join(inner)
    if name == "mo" and len(element):  # \mathrel{…}: an operator may hold no other
        tags = {child.tag for child in element.iter() if child.text}
        space = "" if script or base or "mo" in tags or not tags else '<mspace width="0.25em"></mspace>'
        return f"<mrow>{space}{''.join(inner)}{space}</mrow>"
    wanted = _CHILDREN.get(name, 0)
    if wanted and len(inner) > wanted:  # a binomial with a subscript, for example
        first = len(inner) - wanted + 1
        inner[:first] = [f"<mrow>{''.join(inner[:first])}</mrow>"]
    inner += ["<mrow></mrow>"] * (wanted - len(inner))
    attributes = spaces or _attributes(element)
    if name == "mo" and base and "stretchy" not in attributes:
        attributes += ' stretchy="false"'
    if name == "mo" and (script or signed) and "accent" not in attributes:
        attributes = _SPACING.sub("", attributes) + ' lspace="0em" rspace="0em"'
    return f"<{name}{attributes}>{text}{''.join(inner)}</{name}>"


def _text(element: Element) -> str:
    text = html.unescape(element.text or "")
    if _COMMAND.fullmatch(text):
        text = text[1:]  # of the authors: `\Hom` reads best as Hom
    alphabet = _ALPHABETS.get(element.get("mathvariant", ""), "")
    has_digits = alphabet not in ("script", "fraktur")
    is_latin = text.isascii() and (text.isalpha() or (text.isalnum() and has_digits))
    if alphabet and (is_latin or (alphabet.startswith("bold") and _GREEK.fullmatch(text))):
        text = styled_letters(text, alphabet)
    return html.escape(text.replace(_BREAK, "\ufffd"))


def _attributes(element: Element) -> str:
    written: list[str] = []
    attributes: Mapping[str, Any] = element.attrib
    if element.tag == "mi" and (attributes.get("mathvariant") == "normal" or _UPRIGHT.fullmatch(element.text or "")):
        written.append(' mathvariant="normal"')
    if element.tag == "mo" and len(element.text or "") > 1 and (element.text or "").isalpha():  # as in `log x`
        written.append(' lspace="0em" rspace="0.1em"')
    if element.tag == "mo" and element.text in _TIGHT and "form" not in attributes:
        written.append(' lspace="0em" rspace="0em"')
    for name, value in attributes.items():
        if name == "accent" and element.tag != "mo":  # on the whole it lets the accent touch its letter
            continue
        value = _SPACES.get(str(value), str(value))
        if name in _ATTRIBUTES and _VALUE.fullmatch(value):
            written.append(f' {name}="{value}"')
    return "".join(written)
