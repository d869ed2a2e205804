"""Words for lexical search, from cleaned passages and from what people type.

It does not know whether it reads prose or a formula: dollars, braces and spacing are skipped, and whatever
looks like mathematics is read as such, so that `O_X` in a query meets `$\\mathcal{O}_X$` in a passage.
What was measured for each decision stands in docs/LOG.md.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain

from lemmata.words import STOP_WORDS, UMLAUTS, fold, stem

__all__ = ["tokenize"]

# every repetition is bounded, or cannot match the same characters twice: the time is linear in the text
_HEAD = r"(?:\\[A-Za-z]{1,64}|[^\W_]{1,64}(?:-{1,2}[^\W_]{1,64}){0,6})"
_SCRIPT = r"[_^](?:\{[^{}$]{1,12}\}|\\[A-Za-z]{1,64}|[^\W_]{1,64}|[*!])"
_TOKEN = re.compile(rf"{_HEAD}(?:'s\b)?(?:\}}{{0,2}}'{{0,3}}{_SCRIPT}){{0,3}}")
_PARTS = re.compile(rf"({_HEAD})(?:'s\b)?(.*)", re.DOTALL)
_ONE_SCRIPT = re.compile(_SCRIPT)
_NOISE = re.compile(r"[\\{}\s,()]")

# commands that change how something looks, not what it is
_LOOKS = frozenset(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr quad qquad displaystyle textstyle limits nolimits begin end "
    "label nonumber hfill hspace vspace phantom mathcal mathbb mathfrak mathscr mathrm mathbf mathit mathsf mathtt "
    "text textit textbf textrm textsf texttt emph operatorname boldsymbol overline underline widetilde widehat "
    "tilde hat bar cal bf rm it sf tt ldots cdots dots vdots ddots cdot".split()
)


def tokenize(text: str) -> list[str]:
    """The words of a text in order, lower case and stemmed, stop words left out.

    >>> tokenize("The Rogers--Ramanujan identities")
    ['rogersramanujan', 'roger', 'ramanujan', 'identity']
    >>> tokenize("$H^1(X, \\\\mathcal{O}_X)$") == tokenize("H^1(X, O_X)")
    True
    >>> tokenize("x_i^2")
    ['x', 'x_i', 'x^2']
    >>> tokenize("K201-P3 Prüfung")
    ['k201p3', 'k201', 'p3', 'prufung', 'pruefung']
    """
    if not text.isascii():
        # one form for every way to write a letter; dashes that typesetters use become hyphens
        text = unicodedata.normalize("NFKC", text).translate(_DASHES)
    return list(chain.from_iterable(map(_pieces, _TOKEN.findall(text))))


_DASHES = str.maketrans({"\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2019": "'"})


@lru_cache(maxsize=1 << 18)  # texts repeat their words: nearly every call is answered from here
def _pieces(found: str) -> tuple[str, ...]:
    """The tokens of one match: the head, its parts where it is hyphenated, and head with script."""
    match = _PARTS.match(found)
    assert match is not None
    head, scripts = match.groups()
    if head.startswith("\\"):
        command = head[1:]
        tokens = [] if command in _LOOKS else _folded(command)
    elif "-" in head:
        parts = [part for part in head.split("-") if part]
        tokens = _word("".join(parts))
        for part in parts:
            tokens += _word(part)
    else:
        tokens = _word(head)
    if scripts:
        name = _folded(head.strip("\\"))[0]
        for script in _ONE_SCRIPT.findall(scripts):
            attached = _folded(_NOISE.sub("", script[1:]))[0]
            tokens.append(f"{name}{script[0]}{attached}")
            if len(name) > 1 and not head.startswith("\\"):
                tokens += _word(attached)  # PUMP_201 is a code, not an indexed letter
    return tuple(tokens)


def _word(word: str) -> list[str]:
    forms = _folded(word)
    return [] if forms[0] in STOP_WORDS else [stem(form) for form in forms]


def _folded(word: str) -> list[str]:
    """The word without case and accents; with umlauts, also as it is written without them (`ue`)."""
    word = word.casefold()
    if word.isascii():
        return [word]
    plain = fold(word)
    written_out = unicodedata.normalize("NFC", word).translate(UMLAUTS)
    return [plain, written_out] if written_out.isascii() and written_out != plain else [plain]
