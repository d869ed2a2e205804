"""References: names of cited works, the BibTeX entry of a document, a citation of a passage, its text as LaTeX."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lemmata.core.types import Document, Passage

_LONGEST_NAME = 48  # characters of the title or entry that stand for a work without authors


def work_name(entry: Mapping[str, Any]) -> str:
    """What a text calls an entry: its title if the corpus has the work, else authors and year, else its start."""
    from lemmata.latex.sentences import cut

    authors = [author.split()[-1] for author in entry["authors"].split(", ") if author.strip()]
    if entry["target"] or not authors:
        name = entry["title"] or entry["text"].partition(",")[0]
        return cut(name, _LONGEST_NAME) or entry["key"]
    names = f"{authors[0]} et al." if len(authors) > 3 else ", ".join(authors)
    return f"{names} {entry['year'] or ''}".rstrip()


def name_works(
    text: str, spans: Iterable[Sequence[Any]], names: Mapping[str, str], links: Iterable[tuple[int, int, str]] = ()
) -> tuple[str, list[tuple[int, int, str]]]:
    """The text with the keys of cited works replaced by their names, and where its links are then.

    `spans` are those of the references that reading inserted: [begin, end, *[begin, end, label]].
    """
    keys = sorted((begin, end, label) for _, _, *inside in spans for begin, end, label in inside if label in names)
    pieces: list[str] = []
    ends, growth = [0], [0]
    for begin, end, key in keys:
        if begin >= ends[-1] and text[begin:end] == key:
            pieces += text[ends[-1] : begin], names[key]
            ends.append(end)
            growth.append(growth[-1] + len(names[key]) - len(key))

    def moved(place: int) -> int:
        return place + growth[bisect.bisect_right(ends, place) - 1]

    named = "".join((*pieces, text[ends[-1] :]))
    return named, [(moved(begin), moved(end), target) for begin, end, target in links]


def bibtex(document: Document) -> str:
    """An entry for the document of a passage."""
    fields = {
        "title": f"{{{_without_braces(document.title or document.id)}}}",
        "author": " and ".join(map(_without_braces, document.authors)),
        "key": "" if document.authors else _without_braces(document.title or document.id),  # to sort it by
        "year": (document.date or "")[:4],
        "note": _without_braces(document.id) if document.title else "",
    }
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    return "\n".join([f"@misc{{{_key(document.id)},", ",\n".join(lines), "}"])


def latex_reference(passage: Passage) -> str:
    """A citation of the passage in its document."""
    if passage.kind in ("chunk", "abstract", "log"):
        place = _without_braces(passage.section)
    else:
        place = _without_braces(passage.headline[:1].upper() + passage.headline[1:])
    return f"\\cite[{{{place}}}]{{{_key(passage.document)}}}" if place else f"\\cite{{{_key(passage.document)}}}"


def latex_text(passage: Passage) -> str:
    """Text and proof as LaTeX that compiles with amsmath and amssymb, unless commands of the authors are left in it."""
    return _compilable(f"{passage.text}\n\n{passage.proof_name}. {passage.proof}" if passage.proof else passage.text)


def _compilable(text: str) -> str:
    """Clean text with its special characters escaped, and formulas of several rows or columns in an environment."""
    from lemmata.latex.sentences import formulas

    pieces: list[str] = []
    at = 0
    for begin, end in formulas(text):
        pieces += (_escaped(text[at:begin]), f"${_in_environment(text[begin + 1 : end - 1])}$")
        at = end
    return "".join([*pieces, _escaped(text[at:])])


def _escaped(prose: str) -> str:
    return re.sub(r"(\\.)|([%&#_])", lambda match: match[1] or f"\\{match[2]}", prose)


_FORMULA_TOKEN = re.compile(r"\\begin\{[^{}]*\}|\\end\{[^{}]*\}|\\.|[{}&]", re.DOTALL)


def _in_environment(formula: str) -> str:
    """The formula; where it has rows or columns outside of all braces and environments, as `aligned`.

    `eqnarray` has a column for the relation alone, which becomes the start of the right side.
    """
    depth, rows, columns = 0, 1, 0
    opened_at = -1  # where the column before began, in this row
    pieces: list[str] = []
    at = 0
    for token in _FORMULA_TOKEN.finditer(formula):
        depth += token[0].startswith(("{", r"\begin{")) - token[0].startswith(("}", r"\end{"))
        if depth or token[0] not in ("&", r"\\"):
            continue
        if token[0] == r"\\":
            rows, opened_at = rows + 1, -1
            continue
        columns += 1
        if opened_at >= 0 and _RELATION.fullmatch(formula, opened_at, token.start()):
            pieces.append(f"{formula[at : token.start()].rstrip()} ")
            at = token.end() + (formula[token.end() : token.end() + 1] == " ")
        opened_at = token.end()
    if rows == 1 and not columns:
        return formula
    return rf"\begin{{aligned}}{''.join([*pieces, formula[at:]])}\end{{aligned}}"


_RELATION = re.compile(r"\s*(?:[=<>]|\\[A-Za-z]+)\s*")


def _key(identity: str) -> str:
    return re.sub(r"[^\w:.+/-]", "-", identity)


def _without_braces(text: str) -> str:
    """Text that cannot close the braces around it."""
    return re.sub(r"[{}\\]", "", text) if _unbalanced(text) else text


def _unbalanced(text: str) -> bool:
    depth = 0
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return True
    return depth != 0
