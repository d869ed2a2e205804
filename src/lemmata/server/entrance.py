"""How people get into a corpus: queries to try, what was added last, and names that complete what is being typed."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np

from lemmata.core.errors import close_matches
from lemmata.core.records import Described
from lemmata.core.types import Concept
from lemmata.graph.bridges import End, Route, expected_routes
from lemmata.graph.geodesic import coherence, search_tree
from lemmata.latex.readable import readable
from lemmata.search.bridge import without_hubs
from lemmata.server import views
from lemmata.server.opened import KnownName, Opened
from lemmata.server.records import Id

_EXAMPLES = 6
_TOLD = 60  # the most telling concepts, from which examples are made
_LEAST, _MOST = 12, 60  # characters of an example
_NO_NAME = re.compile(r"[$;\d]")  # formulas, and who found it when
_UNCOUNTABLE = re.compile(r"(tion|ology|ism|ity|ness|ance|ence|ment|ing|ics|s)$|'s ")
_PLURAL = re.compile(
    r"(?!.* of |.*(ea|ive|ble|ous|al|ic|ed)u?$)[^$;\d]*[a-eg-rt-wy]", re.I
)  # nouns whose plural ends in s: no sheaf
_STATEMENT = re.compile(
    r"^[^$;\d]*\b(theorem|lemma|formula|principle|identity|criterion|law|rule|inequality|satz|formel|kriterium)$", re.I
)
_TRIED = 24  # questions, until enough have a good answer
_SURE = 0.9  # confidence of a good one
_ADDED = 6
_BRIDGES = 5
_SECONDS = 3.0  # of computing, for examples of questions and of bridges
_ENDS = 150  # of bridges that are looked at
_LEAST_MENTIONS, _MOST_MENTIONS = 2, 40  # of a concept at the end of a bridge
_HUB = 25  # edges of a node around which a bridge goes
_REACHED = 5000  # nodes around an end
_FEWEST_NODES = 5  # of a path that is no dull one
_CHANCE, _COHERENT = 0.5, 0.35  # of an example: more is asked of it than of any telling path
_EACH = 4  # completions of one kind
_NEAR = 6
_STEM = 5  # letters of a word of an id that another id must have

# between letters and digits of an escaped text
_CODE_JOINT = re.compile(r"(?<=[^\W\d_])(?:\\ )?(?=\d)|(?<=\d)(?:\\ )?(?=[^\W\d_])")

_Question = tuple[str, tuple[str, ...]]  # a text, and the passages that answer it; none where any may


def start(opened: Opened) -> dict[str, Any]:
    """Queries to try, made from the corpus, and what was added last: of a plant its newest logs."""
    with opened.starting:
        if opened.start_record is None:
            added = opened.retriever.corpus.newest(_ADDED)
            opened.start_record = {
                "examples": _examples(opened),
                "added": views.neighbours(opened, ((name, "added") for name in added)),
            }
        return opened.start_record


def bridges(opened: Opened) -> dict[str, Any]:
    """Pairs of concepts that no passage brings together, but a path that chance hardly explains, with those on it."""
    if opened.bridge_examples is None:
        opened.bridge_examples = []
        used: set[str] = set()
        for _, way in sorted(_bridges(opened)) if opened.graph and opened.graph.bridges else ():
            if used.isdisjoint((way[0], way[-1])) and len(opened.bridge_examples) < _BRIDGES:
                used.update((way[0], way[-1]))
                known = opened.needed_graph().stored.concepts
                concepts = [known[identity] for identity in way if identity in known]
                opened.bridge_examples.append([{"id": one.id, "name": one.name, "kind": one.kind} for one in concepts])
    return {"bridges": opened.bridge_examples}


def _bridges(opened: Opened) -> Iterator[tuple[float, list[str]]]:
    """Telling paths between telling concepts in two chapters or documents, with how usual each is."""
    graph, linked = opened.needed_graph(), opened.linked_graph
    measured, rows = linked.measured, linked.stored.rows
    mentions = {concept: len(graph.passages.get(concept.id, ())) for concept in graph.concepts}
    ends = {
        graph.node_of[concept.id]: concept
        for concept, number in mentions.items()
        if _LEAST_MENTIONS <= number <= _MOST_MENTIONS
    }
    ends = dict(itertools.islice(ends.items(), _ENDS))
    quiet = without_hubs(measured, _HUB, list(ends))
    counted = np.zeros(len(rows), bool)
    counted[list(ends)] = True
    until = time.thread_time() + _SECONDS
    for first in ends:
        if time.thread_time() > until:
            return
        tree = search_tree(quiet, [first], [0.0], len(ends), counted=counted, limit=_REACHED)
        for place in np.flatnonzero(counted[tree.nodes]).tolist():
            places = tree.path(place)
            way, entries = tree.nodes[places].tolist(), tree.entries[places[1:]].tolist()
            pair = ends[first], ends[way[-1]]
            passages = [int(rows[node]) for node in way if rows[node] >= 0]
            if len(way) < _FEWEST_NODES or way[-1] < first or _words(pair[0]) & _words(pair[1]) or not passages:
                continue
            if opened.part_of(passages[0]) == opened.part_of(passages[-1]):
                continue
            expected = expected_routes(measured, End((first,)), End((way[-1],)), Route((*way,), (*entries,), 0.0))
            if expected <= _CHANCE and coherence(np.diff(tree.distances[places]).tolist()) >= _COHERENT:
                yield expected, [linked.stored.graph.nodes[node] for node in way]


def _examples(opened: Opened) -> list[str]:
    """Questions that somebody wrote, else those about concepts and statements in turn, and starts of logs.

    Taken is what has a confident first hit that is the one it asks for.
    """
    sources = [_questions(opened)] if opened.summaries else [_meanings(opened), _proofs(opened), _pairs(opened)]
    examples: dict[str, None] = {}
    until = time.thread_time() + _SECONDS
    asked = itertools.chain.from_iterable(itertools.zip_longest(*sources, _logs(opened)))
    for text, answers in itertools.islice(filter(None, asked), _TRIED):
        first = next(iter(opened.retriever.search(text, 1)), None)
        if first and (not answers or first.id in answers) and (first.confidence is None or first.confidence >= _SURE):
            examples[text] = None
        if len(examples) == _EXAMPLES or time.thread_time() > until:
            break
    return list(examples)


def _questions(opened: Opened) -> Iterator[_Question]:
    """Questions about passages from all over the corpus."""
    if opened.summaries is None:
        return
    number = len(opened.summaries.rows)
    for place in range(0, number, max(1, number // 100)):
        for text in opened.summaries.texts(place, place + 1):
            if text.endswith("?") and len(text) <= 2 * _MOST:
                yield text, ()


def _meanings(opened: Opened) -> Iterator[_Question]:
    """What a telling concept is; its definition answers."""
    for concept in _telling(opened):
        definition = opened.graph.definitions.get(concept.id) if opened.graph else None
        if definition is None or _NO_NAME.search(concept.name):
            continue
        if _is_german(opened):
            question = f"Was ist mit {concept.name} gemeint?"
        elif concept.kind == "definition":  # an adjective
            question = f"What does {concept.name} mean?"
        else:
            article = "the" if " of " in concept.name else "an" if concept.name[0].casefold() in "aeiou" else "a"
            is_countable = not _UNCOUNTABLE.search(concept.name)
            question = f"What is {article} {concept.name}?" if is_countable else f"What is {concept.name}?"
        yield question, (definition,)


def _proofs(opened: Opened) -> Iterator[_Question]:
    """How a named statement about a telling concept is proved."""
    corpus = opened.retriever.corpus
    for concept in _telling(opened):
        rows = opened.passage_rows(list(opened.graph.passages[concept.id][:20])) if opened.graph else {}
        for shown in corpus.passages(rows.values()):
            if shown.proof and _LEAST <= len(shown.title) <= _MOST and _STATEMENT.search(shown.title):
                name = shown.title if "'s " in shown.title or "’s " in shown.title else f"the {shown.title}"
                german = f"Wie wird {shown.title} bewiesen?"
                yield german if _is_german(opened) else f"How is {name} proved?", (shown.id,)
                break


def _pairs(opened: Opened) -> Iterator[_Question]:
    """How telling concepts are related that stand in the same passage, with no word in common."""
    telling = [one for one in _telling(opened) if one.kind == "object" and _PLURAL.fullmatch(one.name)]
    while len(telling) > 1 and opened.graph:
        first = telling.pop(0)
        there = {*opened.graph.passages[first.id]}
        for second in telling:
            both = there.intersection(opened.graph.passages[second.id])
            if both and not _words(first) & _words(second):
                telling.remove(second)
                names = [re.sub("y$", "ie", name) + "s" for name in (first.name, second.name)]
                if _is_german(opened):
                    yield f"Wie hängen {first.name} und {second.name} zusammen?", (*both,)
                else:
                    yield f"How are {names[0]} and {names[1]} related?", (*both,)
                break


def _logs(opened: Opened) -> Iterator[_Question]:
    """First clauses of logs from all over the corpus that others follow up, without those that many begin with."""
    corpus = opened.retriever.corpus
    logs = [corpus[row] for row in range(0, len(corpus), max(1, len(corpus) // 200))]
    clauses = [re.split(r"(?<=\w{3})[.;:,]\s|\n", log.text.strip())[0].rstrip(". ") for log in logs]
    often = Counter(clause.casefold() for clause in clauses)
    for log, clause in zip(logs, clauses, strict=True):
        is_short = _LEAST <= len(clause) <= _MOST and clause.count(" ") > 1 and not _NO_NAME.search(clause)
        is_own = log.kind == "log" and log.locations and often[clause.casefold()] == 1
        if is_short and is_own and any(corpus.referring(log.id)):
            yield clause[0].upper() + clause[1:], ()


def _is_german(opened: Opened) -> bool:
    return opened.tokenizer.language == "de"


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


def _beginning(prefix: str) -> re.Pattern[str]:
    """Finds what begins like this at the start of a word of a folded name; `P-503` and `p503` are the same."""
    words = re.escape(" ".join(prefix.replace("-", " ").split()).casefold())
    return re.compile(" " + _CODE_JOINT.sub(" ?", words))


def complete(
    opened: Opened,
    prefix: Annotated[str, Described("The start of a name or of a word in it.", least=1, most=200)],
    k: Annotated[int, Described("Number of names.", 1, 50)] = 8,
) -> dict[str, Any]:
    """Concepts, titles, authors and locations that begin like this, those whose first word does before others."""
    wanted = _beginning(prefix)
    found: dict[
        str, tuple[list[KnownName], list[KnownName]]
    ] = {}  # of each kind: those that begin like this, and the others
    for name in opened.names:
        first, others = found.setdefault(name.what, ([], []))
        match = wanted.search(name.folded)
        listed = others if match and match.start() else first
        if match and len(listed) < _EACH:
            listed.append(name)
    in_turn = itertools.zip_longest(*([*first, *others][:_EACH] for first, others in found.values()))
    chosen = itertools.islice((name for names in in_turn for name in names if name), k)
    return {
        "names": [{"what": name.what, "name": readable(name.name), "id": name.id, "kind": name.kind} for name in chosen]
    }
