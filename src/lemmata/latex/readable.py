r"""Formulas as plain characters, for terminals: `$\alpha_i^2 \in \mathbb{R}$` becomes αᵢ² ∈ ℝ.

Only for eyes; what can not be shown so stays as LaTeX without its backslashes.
"""

from __future__ import annotations

import re

from lemmata.latex.sentences import formulas
from lemmata.latex.source import match_brace

__all__ = ["readable", "readable_formula"]

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
_TOKEN = re.compile(r"\\([a-zA-Z]+)\*?|\\(.)|([_^])\s*|([{}])|\s+", re.DOTALL)


def readable(text: str) -> str:
    """Clean text with its formulas shown as characters."""
    pieces: list[str] = []
    at = 0
    for begin, end in formulas(text):
        pieces += (text[at:begin], readable_formula(text[begin + 1 : end - 1]))
        at = end
    pieces.append(text[at:])
    return "".join(pieces).replace("\\$", "$")


def readable_formula(formula: str) -> str:
    """One formula, without its dollars."""
    return " ".join(_convert(formula, 0).split())


def _group(text: str, at: int) -> tuple[str, int]:
    """The argument at an offset: a braced group, a command, or one character."""
    while at < len(text) and text[at].isspace():
        at += 1
    if at >= len(text):
        return "", at
    if text[at] == "{":
        end = match_brace(text, at)
        return (text[at + 1 : end - 1], end) if end > 0 else (text[at + 1 :], len(text))
    command = re.compile(r"\\(?:[a-zA-Z]+|.)", re.DOTALL).match(text, at)
    end = command.end() if command else at + 1
    return text[at:end], end


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
    while True:
        found = _TOKEN.search(text, at)
        if found is None:
            output.append(text[at:])
            return "".join(output)
        output.append(text[at : found.start()])
        at = found.end()
        word, symbol, script, _brace = found.groups()
        if script:
            inner, at = _group(text, at)
            output.append(_script(_convert(inner, depth + 1).strip(), script))
        elif word:
            at = _command(word, text, at, output, depth)
        elif symbol:
            output.append(" " if symbol in ",;: !\\\n" else symbol)
        elif found[0].isspace():
            output.append(" ")


def _command(word: str, text: str, at: int, output: list[str], depth: int) -> int:
    if word in _SYMBOLS:
        output.append(_SYMBOLS[word])
    elif word in ("frac", "dfrac", "tfrac", "binom"):
        above, at = _group(text, at)
        below, at = _group(text, at)
        parts = [_convert(part, depth + 1).strip() for part in (above, below)]
        if word == "binom":
            output.append(f"({parts[0]} over {parts[1]})")
        else:
            output.append("/".join(part if len(part) <= 2 else f"({part})" for part in parts))
    elif word == "sqrt":
        inner, at = _group(text, at)
        output.append(f"√({_convert(inner, depth + 1).strip()})")
    elif word == "mathbb":
        inner, at = _group(text, at)
        output.append("".join(_DOUBLE.get(character, character) for character in inner))
    elif word in ("begin", "end"):
        _, at = _group(text, at)
        output.append(" ")
    elif word in ("quad", "qquad"):
        output.append("  ")
    elif word not in _UNWRAPPED:
        output.append(word + (" " if text[at : at + 1].isalpha() else ""))
    return at
