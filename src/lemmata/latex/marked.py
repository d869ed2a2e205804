r"""The terms that an author marks: emphasised, with a macro for new terms (`\vocab{flag}`), or in the index."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from lemmata.core.words import LINKING_WORDS
from lemmata.latex.clean import plain
from lemmata.latex.commands import read_calls
from lemmata.latex.expand import Definitions
from lemmata.latex.source import read_argument

_TERM_MACROS = "vocab|defn|dfn|define|defined|term|df|defi|defterm|defnterm|concept|newterm|newword|defword|markedterm"
_MARK = re.compile(
    rf"\\(?:(?P<term>{_TERM_MACROS})|emph|text(?:it|bf|sl))(?![a-zA-Z])\s*(?=\{{)"
    r"|(?=\{\s*\\(?:it|em|bf|sl|itshape|bfseries|slshape)(?![a-zA-Z]))"
)
_EMPHASISES = re.compile(r"\\(?:emph|text(?:it|bf|sl)|it|em|bf|sl|itshape|bfseries|slshape)(?![a-zA-Z])")
_INDEX = re.compile(r"\\index(?![a-zA-Z])\s*(?:\[[^\]\n]{0,40}\])?(?=\{)")
_SEE = re.compile(r"see(?:also)?\s*(?=\{)")
_RUN_IN_HEADING = re.compile(
    r"(?:Proof|Definition|Theorem|Lemma|Proposition|Corollary|Remark|Example|Exercise|Note|Notation|Claim|Case|Step|"
    r"Problem|Solution|Question|Answer|Fact|Warning|Convention|Conjecture|Observation|Acknowledge?ments?|Keywords|Properties|"
    r"Beweis|Satz|Beispiel|Bemerkung|References|Abstract|Introduction)\b"
)
_WITHOUT_TEXT = re.compile(r"(?:\s|\\(?:noindent|item|par|\w+skip)(?![a-zA-Z]))*+")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_LONGEST = 400  # characters of the LaTeX of a term
_LONGEST_TERM = 80  # characters
_MOST_WORDS = 6  # a longer term is a sentence


def wrap_term_macros(macros: Definitions, text: str, definitions: Iterable[tuple[int, int]]) -> None:
    r"""Let the paper's own macros for new terms expand to `\markedterm{…}`, so that their terms are recognised.

    These macros emphasise an argument and have a usual name, write into the index, or are used mostly in definitions,
    which have the spans `definitions`.
    """
    states = (macros.preamble, *macros.states)
    candidates = {
        name
        for state in states
        for name, macro in state.items()
        if macro.arguments and "#1" in macro.body and _EMPHASISES.search(macro.body)
    }
    if not candidates:
        return
    calls = re.compile(r"\\(" + "|".join(sorted(map(re.escape, candidates))) + r")(?![a-zA-Z@])\s*\{")
    uses = Counter(call[1] for call in calls.finditer(text))
    inside = Counter(call[1] for begin, end in definitions for call in calls.finditer(text, begin, end))
    for state in states:
        for name in candidates & state.keys():
            body = state[name].body
            if re.fullmatch(_TERM_MACROS, name) or "\\index" in body or 2 * inside[name] > uses[name]:
                state[name] = state[name]._replace(body=f"\\markedterm{{{body}}}")


def read_marks(latex: str, text: str) -> dict[str, list[Any]]:
    r"""What a passage stores of the marks in its expanded LaTeX, where there are any.

    `terms` are emphasised terms, in order; `index` has the terms of `\index` and of macros for new terms, each with the
    names from which its entry sends readers to it.
    """
    terms, new_terms = marked_terms(latex)
    index = [[term] for term in dict.fromkeys(new_terms)]
    index += (names for names in index_entries(latex, text) if names not in index)
    return {key: marks for key, marks in (("terms", terms), ("index", index)) if marks}


def marked_terms(latex: str) -> tuple[list[str], list[str]]:
    """The emphasised terms of expanded LaTeX, cleaned, in order; and those that a macro for new terms marks.

    No sentences, run-in headings or formulas.
    """
    terms: list[str] = []
    new_terms: list[str] = []
    dollars = at = 0
    for mark, argument, end in read_calls(_MARK, latex, _LONGEST):
        begin = mark.start()
        dollars += latex.count("$", at, begin)
        in_formula = dollars % 2
        dollars += latex.count("$", begin, end)
        at = end
        if in_formula:
            continue
        begins = begin < 60 and bool(_WITHOUT_TEXT.fullmatch(latex, 0, begin))
        if term := term_of(plain(argument), begins):
            terms.append(term)
            if mark["term"]:
                new_terms.append(term)
    return terms, new_terms


def term_of(text: str, begins: bool) -> str:
    """The term in an emphasised text, which `begins` its paragraph; "" for a sentence, run-in heading or formula."""
    term = text.rstrip(" .,;:")
    heading = begins and text.endswith((".", ":"))
    sentence = len(term) > _LONGEST_TERM or term.count(" ") >= _MOST_WORDS
    is_term = not heading and not sentence and not _RUN_IN_HEADING.match(term) and _LETTERS.search(term)
    return term if is_term else ""


def index_entries(latex: str, text: str) -> list[list[str]]:
    r"""The names in the `\index` entries of LaTeX; after a name, the one that its entry sends readers from.

    Of an entry with a subentry, the order of both that the clean text has: `group!abelian` is `abelian group`.
    """
    if "\\index" not in latex:
        return []
    entries: dict[str, list[str]] = {}
    lower = f" {' '.join(text.lower().split())}"
    for _, argument, _ in read_calls(_INDEX, latex, _LONGEST):
        entry, _, form = argument.partition("|")
        name = _entry_name(entry, lower)
        see = _SEE.match(form)
        other = read_argument(form, see.end(), _LONGEST) if see else None
        if other:
            target = _entry_name(other[0].replace(", ", "!"), lower)
            entries.setdefault(target, [target]).append(name)
        elif name:
            entries.setdefault(name, [name])
    return [names for name, names in entries.items() if name and all(names)]


def _entry_name(entry: str, lower: str) -> str:
    """The name that an index entry stands for; `lower` is the text around it."""
    levels = [plain(level.rpartition("@")[2]) for level in entry.split("!")]
    levels = [re.sub(r"\s*\([^()]*\)$", "", level) for level in levels if level]
    if len(levels) < 2:
        return "".join(levels)
    whole, part = levels[-2:]
    first, last = part.split()[0], part.split()[-1]
    if first in LINKING_WORDS:
        return f"{whole} {part}"
    if last in LINKING_WORDS:
        return f"{part} {whole}"
    if whole.split()[-1].rstrip("s").lower() in part.lower():
        return part
    orders = (f"{part} {whole}", f"{whole} {part}")
    return next((name for name in orders if f" {name.lower()}" in lower), orders[0])
