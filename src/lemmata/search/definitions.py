"""Queries that ask what something is, and the passages that define it: "what is a torsor", "Definition von Torsor"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lemmata.core.words import fold
from lemmata.corpus.corpus import Corpus
from lemmata.graph.concepts.candidates import find_defined_terms, mask_references
from lemmata.graph.concepts.german import german_key
from lemmata.graph.concepts.terms import key_of, mask

_ARTICLE = r"(?:(?:an?|the|eine?[nrsm]?|de[rmns]|d(?:ie|as))\s+)?"
_ASKING = (
    rf"(?:what(?:['’]s|\s+(?:is|are))(?:\s+meant\s+by)?|(?:the\s+)?(?:definition|meaning)\s+of|define|"
    rf"was\s+(?:ist|sind|bedeutet|heißt)|was\s+versteht\s+man\s+unter|(?:die\s+)?definition\s+(?:von|de[rs])|"
    rf"definiere)\s+{_ARTICLE}(?P<term>.+)"
)
_NAMING = rf"(?:what\s+does\s+{_ARTICLE}(?P<meant>.+)\s+mean|(?P<named>.+)\s+definition)"
_ASKED = re.compile(rf"\s*(?:{_ASKING}|{_NAMING})", re.I | re.DOTALL)
_MOST_WORDS = 6  # of a name; a longer question asks for something else
_LETTERS = 4  # in which a word of a passage must agree with the name, so that it is read at all


def asked_term(text: str) -> str:
    """What a query asks the definition of; empty for any other query."""
    match = _ASKED.fullmatch(text.strip().rstrip(".?!"))
    term = (match["term"] or match["meant"] or match["named"]).strip() if match else ""
    return term if len(term.split()) <= _MOST_WORDS else ""


def defining_rows(corpus: Corpus, term: str, rows: Sequence[int]) -> list[int]:
    """Those of some rows whose passages define a term: definitions first, then the surest.

    A definition may also define the first words of it, if it has the others: `syntomic`, of a ring map.
    """
    words = term.split()
    starts = [" ".join(words[:count]) for count in range(len(words), 0, -1)]
    keys = {key(start): -place for place, start in reversed([*enumerate(starts)]) for key in (key_of, german_key)}
    letters = [word[:_LETTERS] for word in re.findall(r"\w+", fold(term))]
    weights: dict[int, tuple[int, bool, int]] = {}
    for row, passage in zip(rows, corpus.passages(rows), strict=True):
        text = fold(passage.text)
        if not all(word in text for word in letters):
            continue
        is_definition, opens = passage.kind == "definition", corpus.first_row(passage.document) == [row]
        for found in find_defined_terms(passage, mask_references(mask(passage.text)), opens):
            names = [key(name) for name in (found.name, *found.aliases) for key in (key_of, german_key)]
            place = max((keys[name] for name in names if name and name in keys), default=-len(words))
            if (is_definition and place > -len(words)) or (found.sentence and place == 0):
                weight = place, is_definition, found.weight + bool(found.sentence)
                weights[row] = max(weight, weights.get(row, weight))
    return sorted(weights, key=weights.__getitem__, reverse=True)
