"""Precision of the concepts of a corpus: samples for a mathematician to judge, and the precision by the verdicts.

    python bench/graph_precision.py WORKSPACE NAME [--seed 100]       draw 100 concepts and 100 relations
    python bench/graph_precision.py WORKSPACE NAME --documents 10     draw 100 concepts that ten documents mention
    python bench/graph_precision.py WORKSPACE NAME --check            precision from the committed verdicts
    python bench/graph_precision.py WORKSPACE --planetmath-recall     recall of what PlanetMath declares

The samples go to bench/precision/NAME-concepts.tsv and NAME-relations.tsv: names and ids only, no text of a corpus.
A verdict is yes or no; an item drawn again with the same rule and evidence keeps its verdict.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lemmata.concepts.build import ConceptGraph, ConceptOptions, build_concepts
from lemmata.concepts.terms import key_of, mask
from lemmata.store.corpus import Corpus
from lemmata.store.layout import Layout

FOLDER = Path(__file__).parent / "precision"
CONCEPT_FIELDS = ("id", "name", "kind", "rule", "evidence", "verdict", "note")
RELATION_FIELDS = ("source", "relation", "target", "rule", "evidence", "verdict", "note")
SAMPLE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--documents", type=int, default=0, help="draw from the concepts of so many documents")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--planetmath-recall", action="store_true")
    options = parser.parse_args()
    corpus = Corpus(Layout(options.workspace))
    if options.planetmath_recall:
        print(json.dumps(planetmath_recall(corpus), indent=1))
        return
    if not options.name:
        parser.error("the samples need a NAME")
    started = time.process_time()
    graph = build_concepts(corpus, corpus.documents(), ConceptOptions())
    summary = counts(graph) | {
        "cpu_seconds": round(time.process_time() - started, 1),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    if options.check:
        parts = [part for part in ("concepts", "relations") if (FOLDER / f"{options.name}-{part}.tsv").exists()]
        summary["precision"] = [check(options.name, part, rows(graph, part)) for part in parts]
    elif options.documents:
        draw(options.name, "concepts", of_documents(corpus, graph, options.documents, options.seed), options.seed)
    else:
        for part in ("concepts", "relations"):
            draw(options.name, part, rows(graph, part), options.seed)
    print(json.dumps(summary, indent=1))


def counts(graph: ConceptGraph) -> dict[str, Any]:
    """Numbers of concepts by rule, of relations, and of edges from passages."""
    ids = {concept.id for concept in graph.concepts}
    return {
        "concepts": len(graph.concepts),
        "rules": dict(Counter(rule for rule, _ in graph.origins.values()).most_common()),
        "from passages": dict(Counter(edge.relation for edge in graph.edges if edge.source not in ids)),
        "between concepts": dict(Counter(edge.relation for edge in graph.edges if edge.source in ids)),
    }


def rows(graph: ConceptGraph, part: str) -> list[tuple[str, ...]]:
    """Items to judge, in the order built, without verdict and note."""
    if part == "concepts":
        return [(item.id, item.name, item.kind, *graph.origins[item.id]) for item in graph.concepts]
    ids = {concept.id for concept in graph.concepts}
    return [
        (edge.source, edge.relation, edge.target, edge.maker, edge.evidence)
        for edge in graph.edges
        if edge.source in ids and edge.target in ids
    ]


def of_documents(corpus: Corpus, graph: ConceptGraph, number: int, seed: int) -> list[tuple[str, ...]]:
    """Concepts that random documents mention, as many from each; the evidence is the passage that mentions it.

    Documents that mention too few are passed over.
    """
    share = SAMPLE // number
    items = {item[0]: item for item in rows(graph, "concepts")}
    document_of = {passage.id: passage.document for passage in corpus}
    mentions: defaultdict[str, dict[str, str]] = defaultdict(dict)  # document: concept: passage
    for edge in graph.edges:
        if edge.relation == "mentions":
            mentions[document_of[edge.source]].setdefault(edge.target, edge.source)
    random_order = random.Random(seed)
    drawn: dict[str, tuple[str, ...]] = {}
    for document in random_order.sample(sorted(mentions), len(mentions)):
        fresh = {concept: passage for concept, passage in mentions[document].items() if concept not in drawn}
        if len(fresh) >= share and len(drawn) < share * number:
            for concept in random_order.sample(sorted(fresh), share):
                drawn[concept] = (*items[concept][:4], fresh[concept])
    return list(drawn.values())


def draw(name: str, part: str, items: Sequence[tuple[str, ...]], seed: int) -> None:
    """Write a uniform sample; an item that was judged before keeps its verdict."""
    path = FOLDER / f"{name}-{part}.tsv"
    judged = {tuple(row[:5]): row[5:] for row in read(path)} if path.exists() else {}
    FOLDER.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow((*(CONCEPT_FIELDS if part == "concepts" else RELATION_FIELDS), f"seed {seed}"))
        for item in random.Random(seed).sample(list(items), min(SAMPLE, len(items))):
            writer.writerow((*item, *judged.get(item, ("", ""))))


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t"))[1:]


def check(name: str, part: str, items: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Precision with its 95 % Wilson interval, errors by rule, and the sampled items that are no longer built."""
    present = {item[:3] for item in items}
    sampled = read(FOLDER / f"{name}-{part}.tsv")
    verdicts = [row for row in sampled if row[5] in {"yes", "no"}]
    right = sum(row[5] == "yes" for row in verdicts)
    wrong = Counter(row[3] for row in verdicts if row[5] == "no")
    judged = Counter(row[3] for row in verdicts)
    return {
        "file": f"{name}-{part}.tsv",
        "judged": len(verdicts),
        "unjudged": len(sampled) - len(verdicts),
        "right": right,
        "precision": round(right / len(verdicts), 3) if verdicts else None,
        "interval": wilson(right, len(verdicts)),
        "wrong by rule": {rule: f"{number} of {judged[rule]}" for rule, number in wrong.most_common()},
        "no longer built": [list(row[:3]) for row in sampled if tuple(row[:3]) not in present],
    }


def wilson(right: int, judged: int, z: float = 1.96) -> list[float]:
    """The interval (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n) for p = right / judged."""
    if not judged:
        return [0.0, 1.0]
    share = right / judged
    middle = share + z * z / (2 * judged)
    half = z * math.sqrt(share * (1 - share) / judged + z * z / (4 * judged * judged))
    scale = 1 + z * z / judged
    return [round((middle - half) / scale, 3), round((middle + half) / scale, 3)]


def planetmath_recall(corpus: Corpus) -> dict[str, Any]:
    """Recall of PlanetMath's declarations by rules that do not read them."""
    documents = list(corpus.documents())
    graph = build_concepts(corpus, documents, ConceptOptions(metadata=False))
    id_of: dict[str, str] = {}  # by key of a name
    for concept in graph.concepts:
        for text in (concept.name, *concept.aliases):
            id_of.setdefault(key_of(mask(text)), concept.id)
    identities = {concept.id for concept in graph.concepts}
    direct: set[frozenset[str]] = set()
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    mentioned: defaultdict[str, set[str]] = defaultdict(set)  # concept: passages
    for edge in graph.edges:
        if edge.source in identities:
            direct.add(frozenset((edge.source, edge.target)))
            neighbours[edge.source].add(edge.target)
            neighbours[edge.target].add(edge.source)
        elif edge.relation == "mentions":
            mentioned[edge.target].add(edge.source)
    result: dict[str, Any] = {"concepts": len(graph.concepts)}
    subjects: dict[str, str] = {}
    pairs: set[frozenset[str]] = set()
    for field in ("defines", "synonyms"):
        phrases = [text for document in documents for text in _declared(document).get(field, ()) if text.strip()]
        result[field] = {"declared": len(phrases), "found": sum(key_of(mask(text)) in id_of for text in phrases)}
    for document in documents:
        subject = id_of.get(key_of(mask(document.title)))
        if subject and _declared(document):
            subjects[_declared(document)["name"]] = subject
    total = 0
    for document in documents:
        declared = _declared(document)
        for other in declared.get("related", ()):
            total += 1
            ends = frozenset((subjects.get(declared["name"], ""), subjects.get(other, "")))
            if "" not in ends and len(ends) == 2:
                pairs.add(ends)
    near = [pair for pair in pairs if pair in direct or _meet(pair, neighbours)]
    result["related"] = {
        "declared": total,
        "pairs with both subjects found": len(pairs),
        "direct edge": sum(pair in direct for pair in pairs),
        "within two hops": len(near),
        "mentioned in one passage": sum(_meet(pair, mentioned) for pair in pairs),
    }
    return result


def _declared(document: Any) -> dict[str, Any]:
    return dict(document.metadata.get("planetmath", {}))


def _meet(pair: frozenset[str], sets: defaultdict[str, set[str]]) -> bool:
    first, second = pair
    return not sets[first].isdisjoint(sets[second])


if __name__ == "__main__":
    main()
