r"""Formulas as Unicode characters, for terminals: `$\alpha_i^2 \in \mathbb{R}$` becomes αᵢ² ∈ ℝ.

For display only; what has no such characters stays as LaTeX without its backslashes.
"""

from __future__ import annotations

import re

from lemmata.latex.sentences import formulas
from lemmata.latex.source import match_brace

__all__ = ["readable"]

_NAMES = (
    "alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ "
    "mu μ nu ν xi ξ pi π rho ρ varrho ϱ sigma σ tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ "
    "Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ partial ∂ nabla ∇ forall ∀ exists ∃ "
    "in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ cup ∪ cap ∩ setminus ∖ emptyset ∅ varnothing ∅ "
    "to → rightarrow → longrightarrow ⟶ leftarrow ← mapsto ↦ longmapsto ⟼ Rightarrow ⇒ Leftrightarrow ⇔ iff ⇔ "
    "implies ⇒ hookrightarrow ↪ twoheadrightarrow ↠ leftrightarrow ↔ le ≤ leq ≤ leqslant ≤ ge ≥ geq ≥ geqslant ≥ "
    "ne ≠ neq ≠ equiv ≡ sim ∼ simeq ≃ cong ≅ approx ≈ ll ≪ gg ≫ prec ≺ succ ≻ times × cdot · circ ∘ bullet • ast ∗ "
    "star ⋆ otimes ⊗ oplus ⊕ odot ⊙ pm ± mp ∓ div ÷ wedge ∧ vee ∨ neg ¬ sum ∑ prod ∏ coprod ∐ int ∫ oint ∮ "
    "bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigwedge ⋀ bigvee ⋁ ldots … cdots ⋯ dots … vdots ⋮ ddots ⋱ prime ′ "
    "mid ∣ nmid ∤ parallel ∥ perp ⊥ angle ∠ ell ℓ hbar ℏ Re ℜ Im ℑ aleph ℵ langle ⟨ rangle ⟩ lceil ⌈ rceil ⌉ "
    "lfloor ⌊ rfloor ⌋ top ⊤ bot ⊥ vdash ⊢ models ⊨ square □ Box □ triangle △ dagger † colon :"
).split()
_SYMBOLS = dict(zip(_NAMES[::2], _NAMES[1::2], strict=True))
_ABOVE = dict(
    zip("0123456789+-=()nabcdefghijklmoprstuvwxyz*′", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻ*′", strict=True)
)
_BELOW = dict(zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
_DOUBLE = dict(zip("CHNPQRZABDEFGIJKLMOSTUVWXY", "ℂℍℕℙℚℝℤ𝔸𝔹𝔻𝔼𝔽𝔾𝕀𝕁𝕂𝕃𝕄𝕆𝕊𝕋𝕌𝕍𝕎𝕏𝕐", strict=True))
_UNWRAPPED = frozenset(
    "mathrm mathit mathbf mathsf mathtt mathcal mathscr mathfrak text textrm textit textbf mbox operatorname "
    "boldsymbol bm mathop mathbin mathrel mathord ensuremath overline underline widetilde tilde widehat hat bar vec "
    "dot ddot limits nolimits left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr displaystyle textstyle "
    "scriptstyle rm bf it sf cal".split()
)
_TOKEN = re.compile(r"\\([a-zA-Z]+)\*?|\\(.)|([_^])\s*|[{}]|\s+", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(\\(?:[a-zA-Z]+|.)|\S)", re.DOTALL)


def readable(text: str) -> str:
    """Clean text with its formulas as Unicode characters."""
    pieces: list[str] = []
    at = 0
    for begin, end in formulas(text):
        pieces += (text[at:begin], " ".join(_convert(text[begin + 1 : end - 1], 0).split()))
        at = end
    pieces.append(text[at:])
    return "".join(pieces).replace("\\$", "$")


def _argument(text: str, at: int) -> tuple[str, int]:
    """The argument at an offset (a group, a command or one character), and the offset after it."""
    match = _ARGUMENT.match(text, at)
    if match is None:
        return "", len(text)
    if match[1] != "{":
        return match[1], match.end()
    end = match_brace(text, match.start(1))
    return (text[match.end() : end - 1], end) if end > 0 else (text[match.end() :], len(text))


def _converted(text: str, at: int, depth: int) -> tuple[str, int]:
    argument, at = _argument(text, at)
    return _convert(argument, depth).strip(), at


def _script(inner: str, mark: str) -> str:
    table = _ABOVE if mark == "^" else _BELOW
    if inner and all(character in table for character in inner):
        return "".join(table[character] for character in inner)
    return mark + (inner if len(inner) <= 1 else f"({inner})")


def _convert(text: str, depth: int) -> str:
    if depth > 20:
        return text
    output: list[str] = []
    at = 0
    while token := _TOKEN.search(text, at):
        output.append(text[at : token.start()])
        at = token.end()
        word, symbol, script = token.groups()
        if script:
            inner, at = _converted(text, at, depth + 1)
            output.append(_script(inner, script))
        elif word:
            at = _command(word, text, at, output, depth + 1)
        elif symbol:
            output.append(" " if symbol in ",;: !\\\n" else symbol)
        elif token[0].isspace():
            output.append(" ")
    output.append(text[at:])
    return "".join(output)


def _command(word: str, text: str, at: int, output: list[str], depth: int) -> int:
    """Put out a command with its arguments; returns the offset after them."""
    if word in _SYMBOLS:
        output.append(_SYMBOLS[word])
    elif word in ("frac", "dfrac", "tfrac", "binom"):
        above, at = _converted(text, at, depth)
        below, at = _converted(text, at, depth)
        if word == "binom":
            output.append(f"({above} over {below})")
        else:
            output.append("/".join(part if len(part) <= 2 else f"({part})" for part in (above, below)))
    elif word == "sqrt":
        inner, at = _converted(text, at, depth)
        output.append(f"√({inner})")
    elif word == "mathbb":
        inner, at = _argument(text, at)
        output.append("".join(_DOUBLE.get(character, character) for character in inner))
    elif word in ("begin", "end"):
        at = _argument(text, at)[1]
        output.append(" ")
    elif word in ("quad", "qquad"):
        output.append("  ")
    elif word not in _UNWRAPPED:
        output.append(word + (" " if text[at : at + 1].isalpha() else ""))
    return at
