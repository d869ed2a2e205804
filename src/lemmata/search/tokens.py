"""Words for lexical search, from cleaned passages and from what people type.

It does not know whether it reads prose or a formula: dollars, braces and spacing are skipped, and whatever
looks like mathematics is read as such, so that `O_X` in a query meets `$\\mathcal{O}_X$` in a passage.
What was measured for each decision stands in docs/LOG.md.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cache
from itertools import chain
from typing import TypeVar

from lemmata.core.errors import ConfigError
from lemmata.core.words import GERMAN_STOP_WORDS, LANGUAGES, STOP_WORDS, UMLAUTS, fold, fold_german
from lemmata.search.compounds import split_compound

Result = TypeVar("Result")

# every repetition is bounded, or cannot match the same characters twice: the time is linear in the text
_HEAD = r"(?:\\[A-Za-z]{1,64}|[^\W_]{1,64}(?:-{1,2}[^\W_]{1,64}){0,6})"
_SCRIPT = r"[_^](?:\{[^{}$]{1,12}\}|\([^(){}$]{1,12}\)|\\[A-Za-z]{1,64}|[^\W_]{1,64}|[*!])"
_TOKEN = re.compile(rf"{_HEAD}(?:'s\b)?(?:\}}{{0,2}}'{{0,3}}{_SCRIPT}){{0,3}}")
_PARTS = re.compile(rf"({_HEAD})(?:'s\b)?(.*)", re.DOTALL)
_ONE_SCRIPT = re.compile(_SCRIPT)
_NOISE = re.compile(r"[\\{}\s,()]")
_VARIANTS = {f"var{name}": name for name in "epsilon theta kappa pi rho sigma phi".split()}
_VARIANTS |= {"leq": "le", "geq": "ge", "neq": "ne", "rightarrow": "to"}  # two names of one symbol
# commands that change how something looks, not what it is
_LOOKS = frozenset(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr quad qquad displaystyle textstyle limits nolimits begin end "
    "label nonumber hfill hspace vspace phantom mathcal mathbb mathfrak mathscr mathrm mathbf mathit mathsf mathtt "
    "text textit textbf textrm textsf texttt emph operatorname boldsymbol overline underline widetilde widehat "
    "tilde hat bar cal bf rm it sf tt ldots cdots dots vdots ddots cdot".split()
)


def tokenize(text: str) -> list[str]:
    """The words of a text in order, lower case and stemmed as English, stop words left out.

    >>> tokenize("The Rogers--Ramanujan identities")
    ['rogersramanujan', 'roger', 'ramanujan', 'ident']
    >>> tokenize("$H^1(X, \\\\mathcal{O}_X)$") == tokenize("H^1(X, O_X)")
    True
    >>> tokenize("x_i^2")
    ['x', 'x_i', 'x^2']
    >>> tokenize("∑_λ αᵢ² f^λ") == tokenize(r"$\\sum_\\lambda \\alpha_i^2 f^{\\lambda}$")
    True
    >>> tokenize("K201-P3 Prüfung")
    ['k201p3', 'k201', 'p3', 'prufung', 'pruefung']
    """
    return _tokens(text, _pieces)


def _tokens(text: str, pieces: Callable[[str], Iterable[str]]) -> list[str]:
    return list(chain.from_iterable(map(pieces, _TOKEN.findall(one_form(text)))))


def one_form(text: str) -> str:
    """One form for every way to write a letter or symbol: mathematics as in LaTeX, dashes of typesetters as hyphens."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _SCRIPTED.sub(_with_scripts, text)).translate(_DASHES)
    return _SYMBOL.sub(_commands, text)


_DASHES = str.maketrans({"\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2212": "-", "\u2019": "'"})
# What terminals and people write for LaTeX.
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρσςτυφχψωΓΔΘΛΞΠΣΥΦΨΩ",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma sigma tau upsilon phi"
        " chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split(),
        strict=True,
    )
)
_OPERATORS = dict(
    zip(
        "∑∏∫∂∇∞⊗⊕≡∈∉⊂⊆⊃⊇≅≃∼≈≤≥≠→↦⇒×∪∩∧∨∘∀∃∅±∣",
        "sum prod int partial nabla infty otimes oplus equiv in notin subset subseteq supset supseteq cong simeq"
        " sim approx le ge ne to mapsto Rightarrow times cup cap wedge vee circ forall exists emptyset pm mid".split(),
        strict=True,
    )
)
_LETTER = "[\u0370-\u03ff\u1f00-\u1fff]"  # Greek, with and without accents; three together are a word
_SYMBOL = re.compile(rf"((?<!{_LETTER})[{''.join(_GREEK)}]{{1,2}}(?!{_LETTER})|[{''.join(_OPERATORS)}])(?=([^\W_])?)")
_ABOVE, _BELOW = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼ⁿᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", "₀₁₂₃₄₅₆₇₈₉₊₋₌ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ"
_SCRIPTED = re.compile(rf"(?<![A-Za-z0-9])(?<!{_LETTER})([A-Za-z∑∏∫]|{_LETTER})([{_ABOVE}{_BELOW}]{{1,12}})")
_RUN = re.compile(f"[{_ABOVE}]+|[{_BELOW}]+")


def _commands(found: re.Match[str]) -> str:
    commands = "".join(f"\\{_GREEK.get(symbol) or _OPERATORS[symbol]}" for symbol in found[1])
    return f"{commands} " if found[2] else commands


def _with_scripts(found: re.Match[str]) -> str:
    """A letter with the scripts behind it as in LaTeX; with digits also as one word, as people write N₂."""
    letter, scripts = found.groups()
    written = letter + "".join(f"{'^' if run[0] in _ABOVE else '_'}{{{run}}}" for run in _RUN.findall(scripts))
    return f"{written} {letter}{scripts} " if scripts.isdigit() else written


class _Remembered(dict[str, Result]):
    """Results of a function of a word: texts repeat their words, so that nearly all are looked up here.

    Long ones are not kept: a server is asked for any number of them.
    """

    _MOST, _LONGEST = 1 << 18, 40  # words, and characters of a word

    def __init__(self, function: Callable[[str], Result]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, word: str) -> Result:
        result = self._function(word)
        if len(word) <= self._LONGEST:
            if len(self) >= self._MOST:
                self.clear()
            self[word] = result
        return result


_pieces: Callable[[str], tuple[str, ...]] = _Remembered(lambda found: _pieces_of(found, _word)).__getitem__


def _pieces_of(found: str, word: Callable[[str], list[str]]) -> tuple[str, ...]:
    """The tokens of one match: the head, its parts where it is hyphenated, and head with script."""
    match = _PARTS.match(found)
    assert match is not None
    head, scripts = match.groups()
    if head.startswith("\\"):
        command = _VARIANTS.get(head[1:], head[1:])
        tokens = [] if command in _LOOKS else _folded(command)
    elif "-" in head:
        parts = [part for part in head.split("-") if part]
        tokens = word("".join(parts))
        for part in parts:
            tokens += word(part)
    else:
        tokens = word(head)
    if scripts:
        name = _folded(head.strip("\\"))[0]
        name = _VARIANTS.get(name, name)
        for script in _ONE_SCRIPT.findall(scripts):
            attached = _folded(_NOISE.sub("", script[1:]))[0]
            attached = _VARIANTS.get(attached, attached)
            tokens.append(f"{name}{script[0]}{attached}")
            if len(name) > 1 and not head.startswith("\\"):
                tokens += word(attached)  # PUMP_201 is a code, not an indexed letter
    return tuple(tokens)


def _word(word: str) -> list[str]:
    forms = _folded(word)
    return [] if forms[0] in STOP_WORDS else [_stemmed(form) for form in forms]


def _stemmed(word: str) -> str:
    """The English stem of a folded word; short words and codes stay as they are."""
    return word if len(word) < 4 or not word.isalpha() else _stemmer("english")(word)


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    import Stemmer  # only where something is indexed or searched

    return _Remembered[str](Stemmer.Stemmer(language, 0).stemWord).__getitem__


def _folded(word: str) -> list[str]:
    """The word without case and accents; with umlauts, also as it is written without them (`ue`)."""
    word = word.casefold()
    if word.isascii():
        return [word]
    plain = fold(word)
    written_out = unicodedata.normalize("NFC", word).translate(UMLAUTS)
    return [plain, written_out] if written_out.isascii() and written_out != plain else [plain]


# ---------------------------------------------------------------- German

_MOST_PARTS = 100_000  # the most frequent ones: opened in some ten milliseconds


_MOST_COUNTED = 1 << 21  # distinct words in memory at once
_LETTERS = re.compile(r"[^\W\d_]{2,64}")
# content words of one language among the stop words of the other: `Not-Aus`
_STOP = {"de": GERMAN_STOP_WORDS, "de+en": (GERMAN_STOP_WORDS | STOP_WORDS) - {"hat", "man", "not", "war", "will"}}
_STEMMERS = {"de": ("german",), "de+en": ("english", "german")}


class Tokenizer:
    """The tokens of texts in one language of `LANGUAGES`; in English those of `tokenize`.

    Words are stemmed by Snowball. In German, umlauts and their transcriptions are the same letter, and compounds are
    followed by those of their parts that are in `parts` (see `learn_parts`). Where a corpus has both languages, every
    word is stemmed first as English, then as German: what becomes of a word depends on the word alone, so that a query
    meets a passage whatever their languages are. Codes and words of up to three letters are as in English.
    """

    def __init__(self, language: str = "en", parts: Collection[str] = ()) -> None:
        if language not in LANGUAGES:
            raise ConfigError(f"language = {language!r}: possible are auto, {', '.join(LANGUAGES)}")
        self.language = language
        self.parts = frozenset(parts)
        self._pieces: Callable[[str], tuple[str, ...]] = _pieces
        if language != "en":
            self._stop = _STOP[language]
            self._stemmers = [_stemmer(name) for name in _STEMMERS[language]]
            self._pieces = _Remembered(self._german_pieces).__getitem__

    def __call__(self, text: str) -> list[str]:
        return _tokens(text, self._pieces)

    def counts(self, query: str) -> dict[str, int]:
        """The tokens of a query, with how often it names each as a word; at least 1.

        A symbol counts once: formulas repeat their letters, which says nothing about what is looked for.
        """
        counts: dict[str, int] = {}
        for match in _TOKEN.findall(one_form(query)):
            is_word = match[0] != "\\" and "_" not in match and "^" not in match
            for token in self._pieces(match):
                counts[token] = counts.get(token, 0) + (is_word and len(token) > 2 and token.isalpha())
        return {token: max(1, count) for token, count in counts.items()}

    def _german_pieces(self, found: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_pieces_of(found, self._word)))  # a hyphen may stand where a compound is split

    def _word(self, word: str) -> list[str]:
        if word.casefold() in self._stop:
            return []
        if len(word) < 4 or not word.isalpha():
            return _folded(word)
        folded = fold_german(word)
        parts = split_compound(folded, self._is_part) if self.parts else []
        return [self.stem(folded), *map(self.stem, parts)]

    def _is_part(self, word: str) -> bool:
        return self.stem(word) in self.parts

    def stem(self, word: str) -> str:
        """The stem of a folded word."""
        for stemmer in self._stemmers:
            word = stemmer(word)
        return word


def learn_parts(texts: Iterable[str], language: str) -> frozenset[str]:
    """Stems of the words that stand alone in two or more of the texts, at most 100,000: parts of German compounds."""
    if language == "en":
        return frozenset()
    tokenizer = Tokenizer(language)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(set(_LETTERS.findall(one_form(text))))
        if len(counts) > _MOST_COUNTED:
            counts = Counter({word: count for word, count in counts.items() if count > 1})
    stems: Counter[str] = Counter()
    for word, count in counts.items():
        if word.casefold() not in tokenizer._stop:
            stems[tokenizer.stem(fold_german(word))] += count
    return frozenset(stem for stem, count in stems.most_common(_MOST_PARTS) if count > 1)
