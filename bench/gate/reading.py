"""What was read: the facts of a workspace by category, and which of them differ between two versions."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from bench.gate.checkout import Checkout

SAME = 0.995  # share of the facts of a category that has to be the same
SHOWN = 300  # characters of a text beside a difference
Fact = tuple[str, str]  # the value, and its file and line
Facts = dict[str, dict[str, Fact]]  # by category, by what the fact is about
_ORDER = ("next", "part_of")  # edges that say nothing beyond the order of passages and the tree


class Difference(NamedTuple):
    """A fact that only one version has, or that has another value."""

    category: str
    about: str
    place: str
    before: str | None
    after: str | None


class Comparison(NamedTuple):
    """One category of one case."""

    case: str
    category: str
    before: int
    after: int
    same: int

    @property
    def share(self) -> float:
        return self.same / max(self.before, self.after, 1)

    @property
    def passes(self) -> bool:
        return self.share >= SAME


def read_facts(checkout: Checkout, workspace: Path, folder: Path) -> Facts:
    """Everything that is compared; `folder` keeps what was exported."""
    there = ("-w", workspace)
    listed = checkout.json("list", "passages", *there)
    places = {each["id"]: f"{each['file']}:{each['line']}" for each in listed}
    checkout.run("export", "corpus", folder / "corpus.jsonl", *there)
    facts: Facts = {
        "statements": {},
        "titles": {},
        "proofs": {},
        "numbers": {each["id"]: (each["printed"] or each["number"], places[each["id"]]) for each in listed},
        "labels": {name: (place, place) for name, place in places.items() if "#" in name},
    }
    links: Counter[tuple[str, ...]] = Counter()
    with (folder / "corpus.jsonl").open(encoding="utf-8") as stream:
        for passage in map(json.loads, stream):
            name = passage["id"]
            place = places.get(name, "")
            facts["statements"][name] = (f"{passage['kind']}: {passage['text']}", place)
            for category, text in (("titles", passage.get("title")), ("proofs", passage.get("proof"))):
                if text:
                    facts[category][name] = (text, place)
            for link in passage.get("links", ()):
                named = (f"{key}={link[key]}" for key in sorted(link.keys() - {"relation"}))
                links[(name, link["relation"], *named)] += 1
    facts["links"] = {" ".join(link): (str(count), places.get(link[0], "")) for link, count in links.items()}
    facts["documents"] = {
        each["id"]: (f"{each['kind']}: {each['title']} {each['date'] or ''}", each["file"])
        for each in checkout.json("list", "documents", *there)
    }
    facts["bibliography"] = {
        f"{each['document']} {each['key']}": (f"{each['title']} {each['authors']} {each['year']} {each['target']}", "")
        for each in checkout.json("list", "bibliography", *there)
    }
    concepts = checkout.json("list", "concepts", *there)
    facts["concepts"] = {each["id"]: (" | ".join((each["name"], *sorted(each["aliases"]))), "") for each in concepts}
    facts["definitions"] = {each["id"]: (each["definition"], "") for each in concepts if each["definition"]}
    checkout.run("graph", "export", folder / "graph.graphml", *there)
    facts["edges"], facts["predicted links"] = {}, {}
    for source, target, held in _edges(folder / "graph.graphml"):
        if held.get("relation") not in _ORDER:
            category = "predicted links" if held.get("maker", "").startswith("predict") else "edges"
            facts[category][f"{source} {held.get('relation')} {target}"] = ("", places.get(source, ""))
    return {category: held for category, held in facts.items() if held}


def _edges(path: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The edges of a graph, each with its data."""
    for _, element in ElementTree.iterparse(path):
        kind = element.tag.rpartition("}")[2]
        if kind == "edge":
            held = {each.get("key", ""): each.text or "" for each in element}
            yield element.get("source", ""), element.get("target", ""), held
        if kind in ("edge", "node"):
            element.clear()


def digests(facts: Facts) -> Facts:
    """The facts with a hash in place of each long value, to keep."""

    def short(value: str) -> str:
        return value if len(value) <= SHOWN else f"{value[:SHOWN]}… {hashlib.sha256(value.encode()).hexdigest()[:16]}"

    return {
        category: {about: (short(value), place) for about, (value, place) in held.items()}
        for category, held in facts.items()
    }


def compare(
    case: str, before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Comparison], list[Difference]]:
    """How much of each category is the same, and every difference."""
    comparisons, differences = [], []
    for category in sorted(before.keys() | after.keys()):
        old, new = before.get(category, {}), after.get(category, {})
        same = 0
        for about in sorted(old.keys() | new.keys()):
            was, now = old.get(about), new.get(about)
            if was and now and was[0] == now[0]:
                same += 1
                continue
            place = next(held[1] for held in (now, was) if held)
            differences.append(Difference(category, about, place, was[0] if was else None, now[0] if now else None))
        comparisons.append(Comparison(case, category, len(old), len(new), same))
    return comparisons, differences
