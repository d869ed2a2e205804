"""How people get into a corpus: queries to try, what was added last, and names that complete what is being typed."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Iterator
from typing import Annotated, Any

from lemmata.core.errors import close_matches
from lemmata.core.records import Described
from lemmata.core.types import Concept
from lemmata.latex.readable import readable
from lemmata.server import views
from lemmata.server.opened import KnownName, Opened
from lemmata.server.records import Id

_EXAMPLES = 6
_TOLD = 60  # the most telling concepts, from which examples are made
_LEAST, _MOST = 12, 60  # characters of an example
_NO_NAME = re.compile(r"[$;\d]")  # formulas, and who found it when
_ADDED = 6
_BRIDGES = 5
_SECONDS = 5.0  # for looking which of the pairs are connected
_LEAST_MENTIONS = 3  # of a concept at the end of a bridge
_EACH = 4  # completions of one kind
_NEAR = 6
_STEM = 5  # letters of a word of an id that another id must have


def start(opened: Opened) -> dict[str, Any]:
    """Queries to try, made from the corpus, and what was added last: of a plant its newest logs."""
    if opened.start_record is None:
        added = opened.retriever.corpus.newest(_ADDED)
        opened.start_record = {
            "examples": _examples(opened),
            "added": views.neighbours(opened, ((name, "added") for name in added)),
        }
    return opened.start_record


def bridges(opened: Opened) -> dict[str, Any]:
    """Pairs of concepts that stand far apart, those first that a path connects which chance hardly explains."""
    if opened.bridge_examples is None:
        candidates = list(itertools.islice(_distant(opened), 4 * _BRIDGES))
        end = time.monotonic() + _SECONDS
        chances = [
            views.least_by_chance(views.bridge_of(opened, first["id"], second["id"], 4))
            if time.monotonic() < end
            else math.inf
            for first, second in candidates
        ]
        order = sorted(range(len(candidates)), key=chances.__getitem__)
        opened.bridge_examples = [candidates[place] for place in order[:_BRIDGES]]
    return {"bridges": opened.bridge_examples}


def _examples(opened: Opened) -> list[str]:
    """Questions that somebody wrote, else names of statements, pairs of concepts and starts of logs in turn."""
    sources = [_questions(opened)] if opened.summaries else [_titles(opened), _pairs(opened), _logs(opened)]
    examples: dict[str, None] = {}
    for texts in itertools.zip_longest(*sources):  # no further than needed: a title takes a look at twenty passages
        examples |= dict.fromkeys(filter(None, texts))
        if len(examples) >= _EXAMPLES:
            break
    return list(examples)[:_EXAMPLES]


def _questions(opened: Opened) -> Iterator[str]:
    """Questions about passages from all over the corpus."""
    if opened.summaries is None:
        return
    number = len(opened.summaries.rows)
    for place in range(0, number, max(1, number // 100)):
        for text in opened.summaries.texts(place, place + 1):
            if text.endswith("?") and len(text) <= 2 * _MOST:
                yield text


def _titles(opened: Opened) -> Iterator[str]:
    """Names of statements about telling concepts."""
    corpus = opened.retriever.corpus
    for concept in _telling(opened):
        rows = opened.passage_rows(list(opened.graph.passages[concept.id][:20])) if opened.graph else {}
        titles = (passage.title for passage in corpus.passages(rows.values()) if passage.kind != "log")
        title = next((title for title in titles if _LEAST <= len(title) <= _MOST and not _NO_NAME.search(title)), "")
        if title:
            yield title


def _pairs(opened: Opened) -> Iterator[str]:
    """Telling concepts that stand in the same passage, with no word in common."""
    telling = _telling(opened)
    word = "und" if opened.tokenizer.language == "de" else "and"
    while len(telling) > 1 and opened.graph:
        first = telling.pop(0)
        there = {*opened.graph.passages[first.id]}
        for second in telling:
            if not there.isdisjoint(opened.graph.passages[second.id]) and not _words(first) & _words(second):
                telling.remove(second)
                yield f"{first.name} {word} {second.name}"
                break


def _distant(opened: Opened) -> Iterator[list[dict[str, str]]]:
    """Pairs of telling concepts that no passage has both of and that stand far apart in the corpus, each once."""
    if opened.graph is None:
        return
    rows = {}
    for concept in _telling(opened):
        own = sorted(opened.passage_rows(opened.graph.passages[concept.id]).values())
        if len(own) >= _LEAST_MENTIONS:
            rows[concept] = own
    apart = [
        (_distance(rows[first], rows[second]), first, second)
        for first, second in itertools.combinations(rows, 2)
        if {*rows[first]}.isdisjoint(rows[second]) and not _words(first) & _words(second)
    ]
    used: set[str] = set()
    for _, first, second in sorted(apart, key=lambda pair: -pair[0]):
        if not used & {first.id, second.id}:
            used |= {first.id, second.id}
            yield [{"id": one.id, "name": one.name, "kind": one.kind} for one in (first, second)]


def _distance(first: list[int], second: list[int]) -> float:
    """How far apart two concepts stand; less where chance connects them, because many passages mention them."""
    apart = abs(first[len(first) // 2] - second[len(second) // 2])
    return apart / math.sqrt(len(first) * len(second))


def _logs(opened: Opened) -> Iterator[str]:
    """First clauses of logs from all over the corpus."""
    corpus = opened.retriever.corpus
    for row in range(0, len(corpus), max(1, len(corpus) // 40)):
        passage = corpus[row]
        clause = re.split(r"(?<=\w{3})[.;:]\s|\n", passage.text.strip())[0].rstrip(". ")
        if passage.kind == "log" and _LEAST <= len(clause) <= _MOST:
            yield clause


def _telling(opened: Opened) -> list[Concept]:
    concepts = opened.graph.concepts[:_TOLD] if opened.graph else ()
    return [concept for concept in concepts if opened.graph and concept.id in opened.graph.passages]


def _words(concept: Concept) -> set[str]:
    return {word[:6] for word in concept.name.casefold().split()}


def near(opened: Opened, identity: Id) -> dict[str, Any]:
    """What has an id that looks like this one: for who has a wrong or an old one."""
    corpus = opened.retriever.corpus
    concepts = opened.graph.stored.concepts if opened.graph else {}
    known = [*corpus.ids(), *(document.id for document in corpus.documents()), *concepts]
    words = {word[:_STEM] for word in re.findall(r"[^\W\d_]{3,}", identity.casefold())} - {"conce", "locat"}
    shared = [sum(word in other.casefold() for word in words) for other in known]
    most = max(shared, default=0)
    alike = [other for other, number in zip(known, shared, strict=True) if number >= most - 1]
    chosen = close_matches(identity, alike, _NEAR) or (alike[:_NEAR] if most > 1 else [])
    return {"near": [{"id": other, **record} for other, record in views.nodes(opened, chosen).items()]}


def complete(
    opened: Opened,
    prefix: Annotated[str, Described("The start of a name or of a word in it.", least=1, most=200)],
    k: Annotated[int, Described("Number of names.", 1, 50)] = 8,
) -> dict[str, Any]:
    """Concepts, titles, authors and locations that begin like this, those whose first word does before others."""
    wanted = f" {' '.join(prefix.split())}".casefold()
    found: dict[
        str, tuple[list[KnownName], list[KnownName]]
    ] = {}  # of each kind: those that begin like this, and the others
    for name in opened.names:
        first, others = found.setdefault(name.what, ([], []))
        place = name.folded.find(wanted)
        listed = others if place else first
        if place >= 0 and len(listed) < _EACH:
            listed.append(name)
    in_turn = itertools.zip_longest(*([*first, *others][:_EACH] for first, others in found.values()))
    chosen = itertools.islice((name for names in in_turn for name in names if name), k)
    return {
        "names": [{"what": name.what, "name": readable(name.name), "id": name.id, "kind": name.kind} for name in chosen]
    }
