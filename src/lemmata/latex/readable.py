r"""Formulas as Unicode characters, for terminals: `$\alpha_i^2 \in \mathbb{R}$` becomes αᵢ² ∈ ℝ.

For display only. A part of a formula that has no faithful form in characters stays LaTeX; a formula without any other
part, or with braces that do not match, stays LaTeX between dollars.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import partial

from lemmata.latex.sentences import formulas
from lemmata.latex.source import match_brace, skip, skip_blanks


def _table(words: str) -> dict[str, str]:
    names = words.split()
    return dict(zip(names[::2], names[1::2], strict=True))


_SYMBOLS = _table(
    "alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ varkappa ϰ "
    "lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ "
    "chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω "
    "infty ∞ partial ∂ nabla ∇ forall ∀ exists ∃ nexists ∄ emptyset ∅ varnothing ∅ complement ∁ "
    "circ ∘ bullet • ast ∗ star ⋆ cdot · neg ¬ lnot ¬ sum ∑ prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭ oint ∮ "
    "bigcup ⋃ bigcap ⋂ bigsqcup ⨆ bigoplus ⨁ bigotimes ⨂ bigwedge ⋀ bigvee ⋁ bigodot ⨀ biguplus ⨄ "
    "ldots … dots … dotsc … dotso … cdots ⋯ dotsb ⋯ dotsm ⋯ dotsi ⋯ vdots ⋮ ddots ⋱ prime ′ angle ∠ measuredangle ∡ "
    "ell ℓ hbar ℏ imath ı jmath ȷ wp ℘ Re ℜ Im ℑ aleph ℵ beth ℶ langle ⟨ rangle ⟩ lceil ⌈ rceil ⌉ lfloor ⌊ rfloor ⌋ "
    "lvert | rvert | vert | lVert ‖ rVert ‖ Vert ‖ lbrace { rbrace } lbrack [ rbrack ] lgroup ⟮ rgroup ⟯ backslash ∖ "
    "llbracket ⟦ rrbracket ⟧ ulcorner ⌜ urcorner ⌝ llcorner ⌞ lrcorner ⌟ "
    "vcentcolon : pounds £ copyright © circlearrowleft ↺ circlearrowright ↻ "
    "top ⊤ bot ⊥ square □ Box □ blacksquare ■ Diamond ◇ diamond ⋄ lozenge ◊ triangle △ bigtriangleup △ "
    "triangledown ▽ bigtriangledown ▽ clubsuit ♣ diamondsuit ♢ heartsuit ♡ spadesuit ♠ flat ♭ natural ♮ sharp ♯ "
    "dagger † dag † ddagger ‡ ddag ‡ S § P ¶ colon : surd √ checkmark ✓ aa å AA Å ss ß o ø O Ø l ł L Ł"
)
# These stand between blanks.
_INFIX = _table(
    "in ∈ notin ∉ ni ∋ owns ∋ subset ⊂ subseteq ⊆ subsetneq ⊊ subsetneqq ⫋ nsubseteq ⊈ supset ⊃ supseteq ⊇ "
    "supsetneq ⊋ nsupseteq ⊉ sqsubset ⊏ sqsubseteq ⊑ sqsupset ⊐ sqsupseteq ⊒ cup ∪ cap ∩ sqcup ⊔ sqcap ⊓ uplus ⊎ "
    "setminus ∖ smallsetminus ∖ to → rightarrow → gets ← leftarrow ← longrightarrow ⟶ longleftarrow ⟵ mapsto ↦ "
    "longmapsto ⟼ Rightarrow ⇒ Longrightarrow ⟹ Leftarrow ⇐ Longleftarrow ⟸ Leftrightarrow ⇔ Longleftrightarrow ⟺ "
    "iff ⟺ implies ⟹ impliedby ⟸ hookrightarrow ↪ hookleftarrow ↩ twoheadrightarrow ↠ twoheadleftarrow ↞ "
    "rightarrowtail ↣ leftrightarrow ↔ longleftrightarrow ⟷ rightleftarrows ⇄ rightrightarrows ⇉ leftleftarrows ⇇ "
    "rightsquigarrow ⇝ leadsto ⇝ dashrightarrow ⇢ rightleftharpoons ⇌ uparrow ↑ downarrow ↓ updownarrow ↕ "
    "Uparrow ⇑ Downarrow ⇓ nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖ rightharpoonup ⇀ leftharpoonup ↼ "
    "le ≤ leq ≤ leqslant ⩽ leqq ≦ ge ≥ geq ≥ geqslant ⩾ geqq ≧ lt < gt > ne ≠ neq ≠ equiv ≡ nequiv ≢ sim ∼ nsim ≁ "
    "simeq ≃ cong ≅ ncong ≇ approx ≈ approxeq ≊ asymp ≍ doteq ≐ propto ∝ varpropto ∝ ll ≪ gg ≫ lll ⋘ ggg ⋙ prec ≺ "
    "preceq ⪯ preccurlyeq ≼ succ ≻ succeq ⪰ succcurlyeq ≽ lesssim ≲ gtrsim ≳ nless ≮ ngtr ≯ nleq ≰ ngeq ≱ "
    "trianglelefteq ⊴ trianglerighteq ⊵ triangleleft ◁ triangleright ▷ lhd ⊲ rhd ⊳ unlhd ⊴ unrhd ⊵ ltimes ⋉ rtimes ⋊ "
    "bowtie ⋈ Join ⋈ times × otimes ⊗ boxtimes ⊠ oplus ⊕ boxplus ⊞ ominus ⊖ odot ⊙ oslash ⊘ circledast ⊛ wr ≀ amalg ⨿ "
    "pm ± mp ∓ div ÷ wedge ∧ land ∧ vee ∨ lor ∨ dotplus ∔ mid ∣ nmid ∤ parallel ∥ nparallel ∦ perp ⊥ vdash ⊢ dashv ⊣ "
    "vDash ⊨ models ⊨ Vdash ⊩ smile ⌣ frown ⌢ coloneqq ≔ coloneq ≔ eqqcolon ≕ triangleq ≜ bmod mod "
    "therefore ∴ because ∵"
)
_OPERATORS = {
    name: name
    for name in "arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim ln log max min "
    "Pr sec sin sinh sup tan tanh".split()
} | {"liminf": "lim inf", "limsup": "lim sup", "varliminf": "lim inf", "varlimsup": "lim sup"}
_ARROWS = {f"x{name}": sign for name, sign in _INFIX.items() if re.search("arrow|harpoon|mapsto", name)}  # with texts
_ABOVE = dict(
    zip("0123456789+-=()nabcdefghijklmoprstuvwxyz′", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻ′", strict=True)
)
_BELOW = dict(zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
_ACCENTS = {
    "hat": "\u0302", "widehat": "\u0302", "tilde": "\u0303", "widetilde": "\u0303", "bar": "\u0304",
    "overline": "\u0304", "vec": "\u20d7", "dot": "\u0307", "ddot": "\u0308", "dddot": "\u20db", "check": "\u030c",
    "widecheck": "\u030c", "breve": "\u0306", "acute": "\u0301", "grave": "\u0300", "mathring": "\u030a",
    "underline": "\u0332",
}  # fmt: skip
# The first capital letter, small letter and digit of each alphabet of mathematical letters.
_ALPHABETS = {
    "bold": (0x1D400, 0x1D41A, 0x1D7CE),
    "bold italic": (0x1D468, 0x1D482, 0x1D7CE),
    "script": (0x1D49C, 0x1D4B6, 0),
    "fraktur": (0x1D504, 0x1D51E, 0),
    "double": (0x1D538, 0x1D552, 0x1D7D8),
    "sans": (0x1D5A0, 0x1D5BA, 0x1D7E2),
    "mono": (0x1D670, 0x1D68A, 0x1D7F6),
}
_EXCEPTIONS = {
    "script": _table("B ℬ E ℰ F ℱ H ℋ I ℐ L ℒ M ℳ R ℛ e ℯ g ℊ o ℴ"),
    "fraktur": _table("C ℭ H ℌ I ℑ R ℜ Z ℨ"),
    "double": _table("C ℂ H ℍ N ℕ P ℙ Q ℚ R ℝ Z ℤ"),
}
_STYLES = {
    "mathbf": "bold", "boldsymbol": "bold italic", "bm": "bold italic", "pmb": "bold", "mathcal": "script",
    "mathscr": "script", "mathfrak": "fraktur", "mathbb": "double", "Bbb": "double", "mathds": "double",
    "mathsf": "sans", "mathtt": "mono", "frak": "fraktur", "mathbbm": "double",
}  # fmt: skip
_SWITCHES = {"bf": "bold", "cal": "script", "sf": "sans", "tt": "mono"} | dict.fromkeys("mit rm it sl em".split(), "")
_UNWRAPPED = frozenset(
    "mathrm mathit mathnormal mathop mathbin mathrel mathord mathopen mathclose mathpunct mathinner ensuremath "
    "substack".split()
)
_TEXT = frozenset("text textrm textit textbf textsf texttt textsl textsc textup textnormal mbox hbox emph".split())
_DROPPED = frozenset(
    "limits nolimits displaystyle textstyle scriptstyle scriptscriptstyle notag nonumber relax protect allowbreak "
    "nobreak mathstrut strut left right middle big Big bigg Bigg bigl bigr bigm Bigl Bigr Bigm biggl biggr biggm "
    "Biggl Biggr Biggm ! bigskip noindent null qedhere".split()
)
_DELIMITED = frozenset(
    name for name in _DROPPED if name.lower().startswith("big") or name in ("left", "right", "middle")
)
_LENGTHY = frozenset(("kern", "mkern", "mspace", "hspace", "color"))  # of no meaning, with what follows them
_BLANKS = frozenset("quad qquad enspace thinspace medspace thickspace space hfill , ; : > / \n".split(" "))
_ESCAPED = {sign: sign for sign in "{}%#_&$"} | dict.fromkeys(" ,;:>/\n", " ") | {"|": "‖", "!": ""}
_FILLED = {"pmod": " (mod {}) ", "mod": " mod {} "} | dict.fromkeys(("binom", "dbinom", "tbinom"), "({} choose {})")
_ROWS = frozenset("aligned split gathered multlined".split())  # environments whose rows are formulas
_TOKEN = re.compile(r"\\([a-zA-Z]+)|\\(.)|([_^])|[{}&~$]|\s+", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(\\(?:[a-zA-Z]+|.)|\S)", re.DOTALL)
_ROW_SPACE = re.compile(r"\*?\s*\[\s*-?\s*[\d.]+\s*(?:[a-z]{2}|\\[a-z]+)\s*\]|\*")
_NULL_DELIMITER = re.compile(r"\s*\.")
# signs that continue the row before
_CONTINUING = frozenset("-=<>+") | frozenset(sign for sign in _INFIX.values() if len(sign) == 1)
_LIMITED = frozenset(sign for name, sign in _SYMBOLS.items() if name.startswith("big")) | frozenset("∑∏∐=<>")
_STACKED = re.compile(rf"([{''.join(_CONTINUING | _LIMITED).replace('-', '')}])\u0338?([_^⁰-₟ᵃ-ᵿ²³¹ⁿⁱʰʲʳʷʸˡˢˣ].*)?")
_ACCENTED = re.compile(rf"(\w[\u0300-\u036f\u20d0-\u20ff]*)([{''.join(_BELOW.values())}]*)")
_NAME = re.compile(r"\\[a-zA-Z]+\*?(?:\s*\{\s*[a-zA-Z ]+\}|\s+[a-zA-Z]+)?")  # \operatorname{Var}, \rm Var, \log
_ATOM = re.compile(r"\d+|\w[\u0300-\u036f\u20d0-\u20ff′]*[⁰-₟ᵃ-ᵿ²³¹ⁿⁱʰʲʳʷʸˡˢˣ]*")
_TEXT_ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303"}
_TEXT_ACCENT = re.compile(r"""\\(['`^"~])(?=[a-zA-Z]|\{[a-zA-Z]\})\{?([a-zA-Z])\}?""")
_TEXT_FONT = re.compile(r"\\(?:text(?:rm|it|bf|sf|tt|sl|sc|up|normal)?|emph)\s*\{([^{}\\]*)\}")
TEXT_SWITCH = re.compile(
    r"\\(?:(?:un)?boldmath|tiny|(?:script|footnote|normal)size|small|large|(?:rm|bf|md|it|sl|sf|tt|up)(?:series|shape|family)?)"
    r"(?![a-zA-Z])\s*"
)
_INDEPENDENT = re.compile(
    r"\\perp(?![a-zA-Z])(?:\s|\\!|\\m?kern\s*-[\d.]+\s*[a-z]{2}|\\mspace\s*\{-[^{}]*\})++\\perp(?![a-zA-Z])"
)
_OPTION = re.compile(r"\s*\[([^\[\]]*)\]")
_OPTION_BEFORE_GROUP = re.compile(r"\*?(?:\s*\[[^\[\]]*\](?=\s*\{))?")
_NEGATIVE_SPACES = re.compile(r"(?:\s|\\!)*")
_BEGIN_OR_END = re.compile(r"\\(begin|end)(?![a-zA-Z])")
_LENGTHS = re.compile(r"\s*-?\s*[\d.]+\s*[a-z]{2}|\s*\{[^{}]*\}")
_BETWEEN = {"over": "frac", "choose": "binom"}  # n \choose k
_INSEPARABLE = frozenset("over choose atop brack brace above buildrel overwithdelims atopwithdelims".split())
_SCOPE = re.compile(r"\\(?:(over|choose)|(left|begin)|(right|end))(?![a-zA-Z])|\\.|({)|(})", re.DOTALL)
_SCRIPTED = re.compile("[_^" + "".join((set(_ABOVE.values()) | set(_BELOW.values())) - {"′"}) + "]")
_DEPTH = 20


def is_symbol(name: str) -> bool:
    """Whether TeX or a common package has a symbol of this name."""
    return name in _SYMBOLS or name in _INFIX


class _UnfaithfulError(Exception):
    """A part of a formula has no faithful form in characters."""


def readable(text: str) -> str:
    """Clean text with each formula as Unicode characters, but for the parts that cannot be converted."""
    pieces: list[str] = []
    at = 0
    for begin, end in formulas(text):
        latex = " ".join(text[begin + 1 : end - 1].split())
        try:
            shown = unicodedata.normalize("NFC", " ".join(_convert(_INDEPENDENT.sub(" ⫫ ", latex), 0).split()))
        except _UnfaithfulError:
            shown = f"${latex}$"
        if shown == latex and "\\" in latex:
            shown = f"${latex}$"
        pieces += (text[at:begin].replace("\\$", "$"), shown)
        at = end
    pieces.append(text[at:].replace("\\$", "$"))
    return "".join(pieces)


def _argument(text: str, at: int, depth: int = 0) -> tuple[str, int]:
    """The argument at an offset (a group, a command or one character), and the offset after it."""
    match = _ARGUMENT.match(text, at)
    if match is None or match[1] in ("}", "&", "_", "^") or depth > _DEPTH:
        raise _UnfaithfulError
    if match[1] != "{":
        end = match.end()
        if (word := match[1][1:]) in _TAKING:  # M^\mathrm{T}: the command comes with its arguments
            if word in _ARROWS or word in ("sqrt", "operatorname"):
                end = skip(_OPTION, text, end + (text[end : end + 1] == "*"))
            for _ in range(2 if word.endswith(("frac", "binom", "set", "stackrel")) else 1):
                end = _argument(text, end, depth + 1)[1]
        elif word[:1].isalpha() and word not in _KNOWN:
            while text.startswith("{", group := skip_blanks(text, skip(_OPTION_BEFORE_GROUP, text, end))):
                end = _argument(text, group)[1]
        return text[match.start(1) : end], end
    end = match_brace(text, match.start(1))
    if end < 0:
        raise _UnfaithfulError
    return text[match.end() : end - 1], end


def _converted(text: str, at: int, depth: int) -> tuple[str, int]:
    argument, at = _argument(text, at)
    return _convert(argument, depth).strip(), at


def styled_letters(text: str, style: str) -> str:
    """The text in one of the mathematical alphabets of Unicode; ASCII letters have a form in each of them."""
    if not style:
        return text
    if "\\" in text:  # a part that is still LaTeX
        raise _UnfaithfulError
    capital, small, digit = _ALPHABETS[style]
    exceptions = _EXCEPTIONS.get(style, {})
    output = []
    for character in text:
        if character in exceptions:
            character = exceptions[character]
        elif "A" <= character <= "Z":
            character = chr(capital + ord(character) - ord("A"))
        elif "a" <= character <= "z":
            character = chr(small + ord(character) - ord("a"))
        elif character in "0123456789":
            if not digit:
                raise _UnfaithfulError
            character = chr(digit + ord(character) - ord("0"))
        elif style in ("bold", "bold italic") and "α" <= character <= "ω":
            character = chr((0x1D6C2 if style == "bold" else 0x1D736) + ord(character) - ord("α"))
        elif style in ("bold", "bold italic") and character in "ϵϑϰϕϱϖ":
            character = chr((0x1D6DC if style == "bold" else 0x1D750) + "ϵϑϰϕϱϖ".index(character))
        elif style in ("bold", "bold italic") and "Α" <= character <= "Ω":
            character = chr((0x1D6A8 if style == "bold" else 0x1D71C) + ord(character) - ord("Α"))
        elif character.isalnum():
            raise _UnfaithfulError
        output.append(character)
    return "".join(output)


def _single(text: str) -> bool:
    """Whether a text is one character, with its accents."""
    return bool(text) and all(unicodedata.combining(character) for character in text[1:])


def _script(inner: str, mark: str) -> str:
    inner = re.sub(r"(?<!\w) | (?!\w)", "", " ".join(inner.split()))
    if not inner:
        return ""
    table = _ABOVE if mark == "^" else _BELOW
    if all(character in table for character in inner):
        return "".join(table[character] for character in inner)
    return mark + (inner if _single(inner) else f"({inner})")


def _text_mode(text: str, depth: int) -> str:
    """The content of `\\text`: text, with formulas between dollars."""
    pieces = []
    style = ""
    for number, part in enumerate(text.split("$")):
        if number % 2:
            pieces.append(styled_letters(_convert(part, depth), style))
        else:
            style = "bold italic" if "\\boldmath" in part else style
            part = TEXT_SWITCH.sub("", part)
            part = _TEXT_ACCENT.sub(lambda match: match[2] + _TEXT_ACCENTS[match[1]], part.replace("~", " "))
            part = re.sub(r"\\[hv]space\*?\s*\{[^{}]*\}|\{\}", "", re.sub(r"\\([ %&_#])", r"\1", part))
            part = _TEXT_FONT.sub(r"\1", part)
            if re.search(r"[\\{}^]", part):
                raise _UnfaithfulError
            pieces.append(part)
    if len(pieces) % 2 == 0:
        raise _UnfaithfulError
    return "".join(pieces)


def _starts_word(text: str, at: int) -> bool:
    """Whether a letter, a digit or a command follows."""
    match = _ARGUMENT.match(text, at)
    return match is not None and (match[1].isalnum() or match[1][1:2].isalpha())


class _Output(list[str]):
    """The converted pieces of a formula."""

    def last(self) -> str:
        """The last character that is not blank."""
        return next((piece.rstrip()[-1] for piece in reversed(self) if piece.strip()), "")

    def strip(self) -> None:
        """Remove the blanks at the end."""
        while self and not self[-1].strip():
            self.pop()
        if self:
            self[-1] = self[-1].rstrip()


def _prefixed(text: str) -> str:
    r"""`n \choose k` as `\binom{n}{k}`."""
    depth = 0
    for mark in _SCOPE.finditer(text):
        between, left, right, opens, closes = mark.groups()
        depth += bool(left or opens) - bool(right or closes)
        if between and depth == 0 and "\\buildrel" not in text:
            return f"\\{_BETWEEN[between]}{{{text[: mark.start()]}}}{{{text[mark.end() :]}}}"
    return text


def _convert(text: str, depth: int) -> str:
    """A formula as characters; raises _UnfaithfulError."""
    if depth > _DEPTH:
        raise _UnfaithfulError
    text = _prefixed(text) if "\\over" in text or "\\choose" in text else text
    output = _Output()
    at = 0
    group = ""  # the last token, if it was a group
    while token := _TOKEN.search(text, at):
        if token.start() > at:
            output.append(text[at : token.start()])
            group = ""
        at = token.end()
        word, symbol, script = token.groups()
        if script:
            if _SCRIPTED.search(group):  # {x^a}^b is not x^{ab}
                raise _UnfaithfulError
            inner, at = _converted(text, at, depth + 1)
            output.strip()
            shown = _script(inner, script)
            output.append(shown + (" " if shown[:1] == script and _starts_word(text, at) else ""))
        elif word in _SWITCHES:  # up to the end of its group
            output.append(styled_letters(_convert(text[at:], depth + 1).strip(), _SWITCHES[word]))
            at = len(text)
        elif word in _INSEPARABLE:
            raise _UnfaithfulError
        elif word:
            before = len(output)
            try:
                at = _command(word, text, at, output, depth + 1)
            except _UnfaithfulError:
                del output[before:]
                at = _keep_latex(word, text, token.start(), output)
        elif symbol == "\\":
            row_space = _ROW_SPACE.match(text, at)
            at = row_space.end() if row_space else at
            output.append("\n")
        elif symbol is not None:
            output += filter(None, [_ESCAPED.get(symbol, token[0])])
        elif token[0] == "{":
            inner, at = _argument(text, token.start())
            group = _convert(inner, depth + 1)
            if inner.lstrip().startswith("\\rm") and len(group) > 1:
                at = _put_operator(group, text, at, output)
            else:
                output.append(group)
            continue
        elif token[0] in "}$":
            raise _UnfaithfulError
        else:
            output.append(" ")
            continue
        group = ""
    output.append(text[at:])
    rows = [row.strip() for row in "".join(output).split("\n")]
    shown = rows[0]
    for row in filter(None, rows[1:]):
        apart = shown and shown[-1] not in ",.;:" and _CONTINUING.isdisjoint((shown[-1], row[0]))
        shown += f"; {row}" if apart else f" {row}"
    blanks = "".join(output)
    return (" " if blanks[:1].isspace() else "") + shown + (" " if blanks[-1:].isspace() else "")


def _fraction(text: str, at: int, output: _Output, depth: int) -> int:
    above, at = _converted(text, at, depth)
    below, at = _converted(text, at, depth)
    if not above or not below:
        raise _UnfaithfulError
    shown = "/".join(part if _ATOM.fullmatch(part) else f"({part})" for part in (above, below))
    last = output.last()
    following = _ARGUMENT.match(text, at)
    factor = following is not None and (following[1] in "([{_^'" or following[1].isalnum())
    factor = factor or (following is not None and following[1][1:] not in _INFIX and following[1][1:2].isalpha())
    factor = factor or last.isalnum() or last in (")", "]", "}", "′", "'", "!", "/", "|")
    output.append(f"({shown})" if factor else shown)
    return at


def _keep_latex(word: str, text: str, start: int, output: _Output) -> int:
    """Append a command as it is written, with its arguments; returns the offset after them."""
    end = (_end_of_environment if word == "begin" else _argument)(text, start)[1]
    kept = " ".join(text[start:end].split())
    apart = kept[-1] != "}" and re.match(r"[\\{]|\w", text[end : end + 1]) is not None
    output.append(kept + (" " if apart else ""))
    return end


def _end_of_environment(text: str, start: int) -> tuple[int, int]:
    """The span of the `\\end{…}` of the environment that begins at an offset."""
    depth = 0
    for mark in _BEGIN_OR_END.finditer(text, start):
        depth += 1 if mark[1] == "begin" else -1
        if depth == 0:
            return mark.start(), _argument(text, mark.end())[1]
    raise _UnfaithfulError


def _negation(text: str, at: int, output: _Output, depth: int) -> int:
    inner, at = _converted(text, skip(_NEGATIVE_SPACES, text, at), depth)
    if not _single(inner) or inner[0].isalnum():
        raise _UnfaithfulError
    output.append(f" {inner}\u0338 ")
    return at


def _root(text: str, at: int, output: _Output, depth: int) -> int:
    degree = _OPTION.match(text, at)
    sign = {"2": "√", "3": "∛", "4": "∜"}.get(degree[1].strip(), "") if degree else "√"
    inner, at = _converted(text, degree.end() if degree else at, depth) if sign else ("", at)
    if not inner:
        raise _UnfaithfulError
    output.append(f"{sign}({inner})")
    return at


def _tag(text: str, at: int, output: _Output, depth: int) -> int:
    if text[at : at + 1] == "*":
        raise _UnfaithfulError
    inner, at = _argument(text, at)
    output.append(f" ({_text_mode(inner, depth)})")
    return at


def _operator(text: str, at: int, output: _Output, depth: int) -> int:
    inner, at = _converted(text, at + (text[at : at + 1] == "*"), depth)
    return _put_operator(inner, text, at, output)


def _put_operator(name: str, text: str, at: int, output: _Output) -> int:
    """Append the name of an operator, with blanks between it and the letters around it; returns `at`."""
    before = " " if output and output[-1][-1:].isalnum() else ""
    output.append(before + name + (" " if _starts_word(text, at) else ""))
    return at


def _rows(text: str, at: int, output: _Output, depth: int) -> int:
    name, begin = _argument(text, at)
    if name not in _ROWS:
        raise _UnfaithfulError
    end, after = _end_of_environment(text, at - len("\\begin"))
    output.append(_convert(re.sub(r"^\s*\[[tbc]\]", "", text[begin:end]), depth))
    return after


def _accent(mark: str, text: str, at: int, output: _Output, depth: int) -> int:
    argument, at = _argument(text, at)
    letter = _ACCENTED.fullmatch(inner := _convert(argument, depth).strip())
    if letter:
        output.append(letter[1] + mark + letter[2])
    elif _NAME.fullmatch(argument.strip()) and inner.isalpha():
        return _put_operator(inner[0] + mark + inner[1:], text, at, output)
    else:
        raise _UnfaithfulError
    return at


def _stacked(mark: str, text: str, at: int, output: _Output, depth: int) -> int:
    """What stands above or below a relation or an operator, as its exponent or index."""
    script, at = _converted(text, at, depth)
    argument, at = _argument(text, at)
    base = _convert(argument, depth).strip()
    shown = base + _script(script, mark)
    if _STACKED.fullmatch(base):
        output.append(f" {shown} ")
    elif argument.lstrip().startswith("\\") and re.fullmatch(r"[a-zA-Z ]{2,}", base):
        return _put_operator(shown, text, at, output)
    else:
        raise _UnfaithfulError
    return at


def _arrow(sign: str, text: str, at: int, output: _Output, depth: int) -> int:
    option = _OPTION.match(text, at)
    below = _script(_convert(option[1], depth), "_") if option else ""
    above, at = _converted(text, option.end() if option else at, depth)
    output.append(f" {sign}{_script(above, '^')}{below} ")
    return at


_HANDLERS: dict[str, Callable[[str, int, _Output, int], int]] = {
    **dict.fromkeys(("frac", "dfrac", "tfrac", "cfrac"), _fraction),
    "sqrt": _root,
    "not": _negation,
    "tag": _tag,
    "operatorname": _operator,
    "begin": _rows,
    **{name: partial(_accent, mark) for name, mark in _ACCENTS.items()},
    **{name: partial(_stacked, "_" if name == "underset" else "^") for name in ("overset", "stackrel", "underset")},
    **{name: partial(_arrow, sign) for name, sign in _ARROWS.items()},
}
_TAKING = frozenset({*_STYLES, *_UNWRAPPED, *_TEXT, *_FILLED, *_HANDLERS}) - {"begin", "tag"}

_KNOWN = frozenset({*_SYMBOLS, *_INFIX, *_OPERATORS, *_TAKING, *_HANDLERS, *_SWITCHES, *_BLANKS, *_DROPPED, *_LENGTHY})


def _command(word: str, text: str, at: int, output: _Output, depth: int) -> int:
    """Append a command with its arguments; returns the offset after them. _UnfaithfulError for unknown commands."""
    if word in _SYMBOLS:
        output.append(_SYMBOLS[word])
    elif word in _INFIX:
        output.append(f" {_INFIX[word]} ")
    elif word in _OPERATORS:
        at = _put_operator(_OPERATORS[word], text, at, output)
    elif word in _HANDLERS:
        at = _HANDLERS[word](text, at, output, depth)
    elif word in _FILLED:
        arguments = []
        for _ in range(_FILLED[word].count("{}")):
            inner, at = _converted(text, at, depth)
            arguments.append(inner)
        output.append(_FILLED[word].format(*arguments))
    elif word in _STYLES:
        inner, at = _converted(text, at, depth)
        output.append(styled_letters(inner, _STYLES[word]))
    elif word in _TEXT:
        inner, at = _argument(text, at)
        output.append(_text_mode(inner, depth))
    elif word in _UNWRAPPED:
        argument, at = _argument(text, at)
        inner = _convert(argument, depth)
        if len(name := inner.strip()) > 1:
            at = _put_operator(name, text, at, output)
        else:
            output.append(name if name.isalnum() else inner)
    elif word in _LENGTHY:
        length = _LENGTHS.match(text, at)
        if length is None:
            raise _UnfaithfulError
        at = length.end()
    elif word in _BLANKS:
        output.append("  ")
    elif word in _DROPPED:
        null = _NULL_DELIMITER.match(text, at) if word in _DELIMITED else None
        at = null.end() if null else at
    else:
        raise _UnfaithfulError
    return at
