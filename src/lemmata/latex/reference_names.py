"""What a reader sees in the place of a reference: kind, number, title or label of what it leads to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lemmata.latex.cleaned import Target

_NUMBERS_ONLY = frozenset("ref subref labelcref vref Vref".split())  # LaTeX prints no kind for these
_COMPUTED = re.compile(r"\\(?:arabic|[rR]oman|[aA]lph|the[a-z])")
_LONGEST_NAME = 120  # characters; a longer title is a sentence
_SPECIAL = re.compile(r"[\\${}\x00-\x06]")  # would open a formula or a command in the clean text
_KIND_WORDS = frozenset(
    """
    theorem thm lemma lem lemmata proposition prop corollary corollarie cor definition def defn remark rem example ex
    conjecture conj claim fact section sec sect subsection paragraph chapter ch chap part appendix appendice app
    equation eq eqn eqns formula formulae inequality inequalitie identity identitie relation congruence figure fig
    table tab diagram step item case condition property propertie assumption hypothesis hypothese axiom algorithm page
    p pp problem exercise question notation construction observation statement point assertion line note footnote
    satz hilfssatz abschnitt kapitel gleichung formel korollar folgerung beispiel bemerkung abbildung tabelle anhang
    seite aufgabe vermutung behauptung schritt fall théorème lemme corollaire définition remarque exemple équation
    chapitre étape annexe §
    """.split()
)
_LAST_WORD = re.compile(r"[\s~]*+[(\[]?[\s~]*+\.?(§|[^\W\d_]++)")  # of a text read backwards
_AFTER_REFERENCE = re.compile(r"\x01(?:[\s~]*+(?:[,;/–—.:(\-]|and|or|to|und|oder|et|ou|bis|through))*+[\s~]*+$")
_BRACES = re.compile(r"[{}]")


def list_names(names: Sequence[str], last: str = " and ") -> str:
    return last.join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _plural(kind: str) -> str:
    return kind[:-1] + "ies" if kind.endswith("y") else kind + "s"


def read_keys(keys: str) -> list[str]:
    """The keys of a reference, without those that LaTeX computes."""
    parts = (" ".join(part.split()) for part in _BRACES.sub("", keys).split(","))
    return [key for key in parts if key and not ("\\" in key and _COMPUTED.search(key))]


def plain_label(key: str) -> str:
    return _SPECIAL.sub("", key)


def mark_key(key: str, name: str) -> str:
    return f"\x04{plain_label(key)}\x05{name}\x06"


def _printable(number: str) -> str:
    """A number as it can stand in clean text."""
    outside = number.split("$")[::2]  # of formulas
    return number if number.count("$") % 2 == 0 and not any("\\" in text for text in outside) else plain_label(number)


def kind_is_written(before: str, kinds: Iterable[str]) -> bool:
    """Whether a text ends with the kind of what is named after it, or with any other such word."""
    match = _LAST_WORD.match(before[:-81:-1])
    word = match[1][::-1].lower() if match else ""
    forms = {word, word.removesuffix("s")} - {""}
    return not (forms.isdisjoint(_KIND_WORDS) and forms.isdisjoint(kind.split(" ")[-1] for kind in kinds))


def follows_reference(before: str) -> bool:
    """Whether a text ends with a reference and at most a separator, so that the next one continues its list."""
    return bool(_AFTER_REFERENCE.search(before))


def name_references(
    command: str, keys: Sequence[str], targets: Sequence[Target], before: str, kind_written: bool, last: str = " and "
) -> str:
    """The names of what a command refers to, with their kind unless the author wrote it in the text `before`."""
    if command.lower() in ("namecref", "namecrefs"):
        return list_names(
            [mark_key(key, target.kind or plain_label(key)) for target, key in zip(targets, keys, strict=True)]
        )
    kinds = {target.kind for target in targets}
    is_open = before.rstrip(" ~").endswith("(")
    names = [_name_target(command, target, key, is_open) for target, key in zip(targets, keys, strict=True)]
    is_page = "page" in command
    only_numbers = (command in _NUMBERS_ONLY or is_page) and all(target.number for target in targets)
    if not (kind_written or only_numbers or command == "nameref" or kinds <= {"", "equation"}):
        if len(names) > 1 and len(kinds) == 1:
            names[0] = f"{_plural(targets[0].kind)} {names[0]}"
        else:
            shown_kinds = ("" if target.kind == "equation" else target.kind for target in targets)
            names = [f"{kind} {name}".strip() for kind, name in zip(shown_kinds, names, strict=True)]
        if command[0].isupper() or not before.strip() or before.rstrip(" ~").endswith((".", "\n")):
            names[0] = names[0][:1].upper() + names[0][1:]
    return list_names(names, last)


def _name_target(command: str, target: Target, key: str, is_open: bool) -> str:
    """The number of a target, else its title, else its label; `is_open` after an open bracket."""
    number = _printable(target.number) if command != "nameref" else ""
    is_page = "page" in command
    name = f"of {target.kind} {number}" if number and is_page else number or plain_label(key)
    if "eqref" in command or (target.kind == "equation" and (not number or "cref" in command.lower())):
        return mark_key(key, name) if is_open else f"({mark_key(key, name)})"
    title = "" if number or is_page else quoted_title(target)
    return f"{title[0]}{mark_key(key, title[1:-1])}{title[-1]}" if title else mark_key(key, name)


def quoted_title(target: Target) -> str:
    """The title of a heading in quotes, that of anything else in brackets; empty where there is none, or a long one."""
    if not target.title or len(target.title) > _LONGEST_NAME:
        return ""
    return f"“{target.title}”" if target.kind in ("part", "chapter", "section") else f"({target.title})"


def name_citation(notes: Sequence[str], keys: Sequence[str], before: str) -> str:
    r"""`[see Key, Theorem 2]` of `\cite[see][Theorem 2]{Key}`; no brackets after an open one."""
    first, after = (notes[0], notes[1]) if len(notes) == 2 else ("", "".join(notes))
    names = ", ".join(filter(None, (*(mark_key(key, plain_label(key)) for key in keys), after)))
    shown = f"{first} {names}".strip()
    return shown if before.rstrip(" ~").endswith("[") else f"[{shown}]"
