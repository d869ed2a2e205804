"""Words: what a name becomes in an id."""

from __future__ import annotations

import hashlib
import re
import unicodedata

__all__ = ["slug"]

_ACCENT = re.compile(r"""\\(?:[`'^"~=.]|[uvHcdbkrt](?![A-Za-z]))\s*""")
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?\s*")
_FOLDED = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
    | dict.fromkeys("'’‘ʼ`´{}$", "")
)
_LETTERS = {
    "ss": "ss",
    "o": "o",
    "l": "l",
    "ae": "ae",
    "oe": "oe",
    "aa": "a",
    "i": "i",
    "j": "j",
    "dh": "d",
    "th": "th",
}
_FORMAT = frozenset(
    "emph text textit textbf textrm textsf texttt textsc textnormal textup textsl underline mbox hbox ensuremath "
    "it bf rm sf tt sc em sl cal frak mathbb mathcal mathfrak mathrm mathbf mathit mathsf mathtt mathscr mathop "
    "boldsymbol bm pmb operatorname left right big Big bigl bigr displaystyle textstyle limits nolimits math "
    "quad qquad hat widehat tilde widetilde bar overline vec dot ddot breve check acute grave".split()
)
_GREEK = re.compile(r"[α-ω]")


def slug(name: str) -> str:
    """A name as an id: small letters, digits and hyphens; `Erd\\H{o}s's $\\alpha$-Lemma` is `erdoss-alpha-lemma`.

    Accents are folded, LaTeX is stripped, what its commands mean in mathematics stays as letters; letters of
    other scripts stay. A name without any letter or digit gets a number made from it. Different names can
    have one slug; a slug is its own slug.
    """
    text = _ACCENT.sub("", name.replace("\\-", "").replace("}{", "} {"))
    text = _COMMAND.sub(_spoken, text)
    for _ in range(2):  # small letters can have accents that capitals hide
        text = unicodedata.normalize("NFKD", text.casefold().translate(_FOLDED))
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Mn")
    text = _GREEK.sub(lambda found: f" {unicodedata.name(found[0]).split()[-1].lower()} ", text)
    text = re.sub(r"[\W_]+", "-", unicodedata.normalize("NFC", text)).strip("-")
    return text or "x" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]


def _spoken(found: re.Match[str]) -> str:
    command = found[1]
    if command in _FORMAT:
        return ""
    return _LETTERS.get(command.lower(), f" {command} ")
