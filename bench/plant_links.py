"""Predict withheld links of the example plant and of real work orders, compared with simple baselines.

    python -m bench.plant_links [--plant DIR] [--work-orders CSV] [--out FILE]

Without --plant the example is generated twice: with seed 7, whose withheld links were used to develop the features,
and with seed 8, whose links decided one thing only: not to link locations by predicted follow-ups. For the work
orders, a fifth of the links from logs to locations is withheld, by log; the asset of each order stays known. Work
orders have no links to each other, so follow-ups are not measured there.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench.shared import generate_plant

from lemmata.core.types import Document, Edge, Link, Passage
from lemmata.ingest.logs import Columns, csv_rows, read_hierarchy, read_logs
from lemmata.plant.entities import LEAST_STRENGTH, EntityLinker, learn_entities, link_entities
from lemmata.plant.hierarchy import build_tree, closeness, contains
from lemmata.plant.memory import index_neighbours, nearest
from lemmata.plant.names import find_mentions, tokenise
from lemmata.plant.predict import Prediction, known_edges, predict_links
from lemmata.plant.records import learn_records, link_records
from lemmata.plant.scorer import measure, restored

Pairs = set[tuple[str, str]]
SEEN, UNSEEN = 7, 8
WINDOW_HOURS = 14 * 24
RULES = ("exact", "fuzzy", "hierarchy")
LEAST_TITLE = 0.75  # share of a title that a rule needs
WITHHELD = 0.2  # of the work orders


# ---------------------------------------------------------------- data


def read_plant(folder: Path) -> tuple[list[Passage], list[Document], dict[str, Pairs]]:
    """Logs with their links resolved, locations, and the withheld links by relation."""
    with (folder / "hierarchy.csv").open("rb") as stream:
        locations = list(read_hierarchy(csv_rows(stream), file="hierarchy.csv").documents)
    with (folder / "logs.csv").open("rb") as stream:
        readings = read_logs(csv_rows(stream), document="logs", file="logs.csv", columns=Columns())
        logs = [log for reading in readings for log in reading.passages]
    ids = {location.id for location in locations} | {log.id for log in logs}

    def resolve(link: Link) -> Link:
        target = link.label if link.relation == "related_to" else f"location:{link.label}"
        return link._replace(target=target if target in ids else None)

    logs = [replace(log, links=tuple(map(resolve, log.links))) for log in logs]
    locations = [replace(place, links=tuple(map(resolve, place.links))) for place in locations]
    withheld: dict[str, Pairs] = {"reports_about": set(), "related_to": set()}
    with (folder / "withheld.tsv").open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table, delimiter="\t"):
            prefix = "location:" if row["relation"] == "reports_about" else ""
            withheld[row["relation"]].add((row["log"], prefix + row["target"]))
    return logs, locations, withheld


def read_work_orders(path: Path, levels: Sequence[str]) -> tuple[list[Passage], list[Document], dict[str, str]]:
    """Orders that know their asset, the tree of assets and labels, and the true location of each order."""
    locations: dict[str, Document] = {}
    logs: list[Passage] = []
    truth: dict[str, str] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            line = [row["Asset"], *(row[level].strip() for level in levels if row[level].strip())]
            for depth in range(len(line)):
                name = "location:" + "/".join(line[: depth + 1])
                above = "location:" + "/".join(line[:depth])
                locations[name] = Document(
                    id=name,
                    title=line[depth].replace("_", " ") if depth else f"Asset {line[0]}",
                    kind="location",
                    links=(Link("part_of", above, above),) if depth else (),
                )
            asset = f"location:{row['Asset']}"
            logs.append(
                Passage(
                    id=f"order-{row['id']}",
                    document="orders",
                    kind="log",
                    text=row["OriginalShorttext"],
                    date=row["BscStartDate"],
                    links=(Link("reports_about", asset, asset),),
                )
            )
            truth[logs[-1].id] = "location:" + "/".join(line)
    return logs, list(locations.values()), truth


# ---------------------------------------------------------------- baselines


def words(log: Passage) -> frozenset[str]:
    return frozenset(token.word for token in tokenise(log.text) if len(token.word) > 1)


def majority(known: Mapping[str, str], asked: Sequence[Passage], group: Mapping[str, str]) -> Pairs:
    """The most frequent location, of the group if logs have one."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, place in known.items():
        counts[group.get(name, "")][place] += 1
    return {(log.id, counts[name].most_common(1)[0][0]) for log in asked if counts[name := group.get(log.id, "")]}


def nearest_log(
    known: Mapping[str, str], logs: Sequence[Passage], asked: Sequence[Passage], group: Mapping[str, str]
) -> Pairs:
    """The location of the most similar log by TF-IDF, of the group if logs have one."""
    predicted: Pairs = set()
    for name in sorted(set(group.values()) or {""}):
        members = [log for log in logs if log.id in known and group.get(log.id, "") == name]
        index = index_neighbours([words(log) for log in members])
        for log in asked:
            if group.get(log.id, "") == name:
                predicted.update((log.id, known[members[row].id]) for row, _ in nearest(index, words(log), -1, 1))
    return predicted


def by_rule(linker: EntityLinker, logs: Iterable[Passage], rule: str) -> Pairs:
    """What mentions say without learning: each means its best option, if one is best.

    `exact` takes codes and titles only, `fuzzy` all mentions; `hierarchy` also prefers what is near the known
    locations. Words of a title are weaker than codes: they count if no code was found, or for something below it.
    """
    tree = linker.names.tree
    predicted: Pairs = set()
    for log in logs:
        known = (*linker.known.get(log.id, ()), *linker.context.get(log.id, ()))
        anchors = (*known, *linker.related.get(log.id, ())) if rule == "hierarchy" else ()
        mentions = find_mentions(linker.names, log.text, tokenise(log.text), anchors)
        if rule == "exact":
            mentions = [mention for mention in mentions if mention.kind in ("code", "title")]
        codes = [next(iter(m.options)) for m in mentions if m.kind == "code" and len(m.options) == 1]
        near = (*anchors, *codes) if rule == "hierarchy" else ()
        chosen: set[int] = set()
        for mention in sorted(mentions, key=lambda mention: mention.kind == "words"):
            options = mention.options
            if mention.kind == "words" and chosen:
                options = {
                    row: option
                    for row, option in options.items()
                    if rule == "hierarchy" and any(contains(tree, other, row) for other in chosen)
                }
            scores = {
                row: (
                    option.strength,
                    max(closeness(tree, np.full(len(others), row), np.array(others, np.int64)), default=0.0),
                )
                for row, option in options.items()
                for others in [[other for other in near if other != row]]
            }
            best = max(scores.values(), default=(0.0, 0.0))
            winners = [row for row, score in scores.items() if score == best]
            least = 1.0 if rule == "exact" else LEAST_TITLE if mention.kind == "words" else LEAST_STRENGTH
            if len(winners) == 1 and best[0] >= least:
                chosen.add(winners[0])
        for row in chosen:
            deeper = rule == "hierarchy" and any(other != row and contains(tree, row, other) for other in chosen)
            if not deeper and not any(contains(tree, row, place) for place in known):
                predicted.add((log.id, tree.ids[row]))
    return predicted


def latest_at_same_place(logs: Iterable[Passage], places: Mapping[str, Sequence[str]]) -> Pairs:
    """Each log without a known follow-up link follows the last log of its location within the window."""
    last: dict[str, Passage] = {}
    predicted: Pairs = set()
    for log in sorted(logs, key=lambda log: log.date or ""):
        for place in places[log.id]:
            before = last.get(place)
            if before and hours(log) - hours(before) <= WINDOW_HOURS and not targets(log, "related_to"):
                predicted.add((log.id, before.id))
            last[place] = log
    return predicted


def hours(log: Passage) -> float:
    return float(np.datetime64(log.date, "m").astype(np.int64)) / 60


def targets(log: Passage, relation: str) -> list[str]:
    return [link.target for link in log.links if link.relation == relation and link.target]


# ---------------------------------------------------------------- the example plant


def plant_figures(folder: Path) -> dict[str, Any]:
    logs, locations, withheld = read_plant(folder)
    tree = build_tree(locations)
    known = {log.id: places[0] for log in logs if (places := targets(log, "reports_about"))}
    empty = [log for log in logs if log.id not in known]
    graph = known_edges(logs, locations)
    rows: dict[str, Pairs] = {
        "majority": majority(known, empty, {}),
        "nearest log": nearest_log(known, logs, empty, {}),
    }
    linker = learn_entities(logs, tree, np.random.default_rng(0))
    rows |= {rule: by_rule(linker, logs, rule) for rule in RULES}
    rows["learned"] = pairs(link.edge for link in link_entities(linker, logs))
    prediction = predict_links(logs, locations, np.random.default_rng(0))
    gold = withheld["reports_about"]
    unknown = {log.id for log in empty}
    about = {
        name: {
            "all": measure(predicted, gold)._asdict(),
            "no location known": measure(
                {pair for pair in predicted if pair[0] in unknown}, {pair for pair in gold if pair[0] in unknown}
            )._asdict(),
            "restored": restored((Edge(log, "reports_about", place) for log, place in predicted), graph)._asdict(),
        }
        for name, predicted in rows.items()
    }
    return {"logs": len(logs), "locations": len(locations), "reports_about": about} | {
        "related_to": follow_ups(logs, locations, withheld["related_to"], prediction)
    }


def follow_ups(
    logs: Sequence[Passage], locations: Sequence[Document], gold: Pairs, prediction: Prediction
) -> dict[str, Any]:
    known_places = {log.id: targets(log, "reports_about") for log in logs}
    tree = build_tree(locations)
    rows = {
        "latest at the same known place": latest_at_same_place(logs, known_places),
        "learned, known places": pairs(link_records(learn_records(logs, tree, known_places, np.random.default_rng(0)))),
        "learned, places predicted too": pairs(prediction.records),
    }
    known = {(log.id, target) for log in logs for target in targets(log, "related_to")}
    thread = threads(known | gold)
    graph = known_edges(logs, locations)
    return {
        name: measure(predicted, gold)._asdict()
        | {
            "same_thread": sum(thread.get(later) == thread.get(earlier, earlier) for later, earlier in predicted)
            / max(len(predicted), 1),
            "restored": restored((Edge(log, "related_to", earlier) for log, earlier in predicted), graph)._asdict(),
        }
        for name, predicted in rows.items()
    }


def threads(links: Pairs) -> dict[str, str]:
    """A representative of each log's connected component."""
    parent: dict[str, str] = {}

    def find(log: str) -> str:
        while parent.setdefault(log, log) != log:
            log = parent[log]
        return log

    for first, second in links:
        parent[find(first)] = find(second)
    return {log: find(log) for log in list(parent)}


def pairs(edges: Iterable[Edge]) -> Pairs:
    return {(edge.source, edge.target) for edge in edges}


# ---------------------------------------------------------------- real work orders


def work_order_figures(path: Path, levels: Sequence[str]) -> dict[str, Any]:
    logs, locations, truth = read_work_orders(path, levels)
    names = sorted(truth)
    shuffled = [names[position] for position in np.random.default_rng(0).permutation(len(names))]
    withheld = set(shuffled[: round(len(names) * WITHHELD)])
    asset = {log.id: targets(log, "reports_about")[0] for log in logs}
    logs = [
        replace(log, links=(*log.links, Link("reports_about", truth[log.id], truth[log.id])))
        if log.id not in withheld and truth[log.id] != asset[log.id]
        else log
        for log in logs
    ]
    asked = [log for log in logs if log.id in withheld]
    known = {log.id: truth[log.id] for log in logs if log.id not in withheld}
    gold = {(log.id, truth[log.id]) for log in asked}
    rows = {"majority": majority(known, asked, asset), "nearest log": nearest_log(known, logs, asked, asset)}
    linker = learn_entities(logs, build_tree(locations), np.random.default_rng(0))
    rows |= {rule: by_rule(linker, asked, rule) for rule in RULES}
    rows["learned"] = pairs(link.edge for link in link_entities(linker, asked))
    seen = {(asset[log.id], log.text.casefold()) for log in logs if log.id not in withheld}
    new = {log.id for log in asked if (asset[log.id], log.text.casefold()) not in seen}
    return {
        "logs": len(logs),
        "locations": len(locations),
        "reports_about": {
            name: {
                "all": measure(predicted, gold)._asdict(),
                "text not seen": measure(
                    {pair for pair in predicted if pair[0] in new}, {pair for pair in gold if pair[0] in new}
                )._asdict(),
                "restored": restored(
                    (Edge(log, "reports_about", place) for log, place in predicted), known_edges(logs, locations)
                )._asdict(),
            }
            for name, predicted in rows.items()
        },
    }


# ---------------------------------------------------------------- the report


def show(title: str, table: Mapping[str, Mapping[str, Any]], part: str = "") -> None:
    print(f"\n{title}\n{'':36}{'predicted':>10}{'wanted':>8}{'precision':>11}{'recall':>8}{'F1':>7}")
    for name, figures in table.items():
        row = figures[part] if part else figures
        print(
            f"{name:36}{row['predicted']:>10}{row['wanted']:>8}"
            f"{row['precision']:>11.3f}{row['recall']:>8.3f}{row['f1']:>7.3f}"
            f"   +{figures['restored']['edges']} edges, +{figures['restored']['nodes']} nodes"
            + (f", same thread {figures['same_thread']:.3f}" if "same_thread" in figures else "")
        )


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plant", type=Path, help="a folder written by examples/plant/generate.py")
    parser.add_argument("--work-orders", type=Path, help="a table with the columns of MaintKG's work orders")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        if options.plant:
            folders = {"plant": options.plant}
        else:
            folders = {f"plant seed {s}": generate_plant(Path(temporary) / f"{s}", 3000, s) for s in (SEEN, UNSEEN)}
        for name, folder in folders.items():
            result[name] = plant_figures(folder)
            show(f"{name}: reports_about, all withheld links", result[name]["reports_about"], "all")
            show(f"{name}: the same, logs without any location", result[name]["reports_about"], "no location known")
            show(f"{name}: related_to", result[name]["related_to"])
        if options.work_orders:
            for levels in (("MajorSystem", "Part"), ("FuncLocation",)):
                name = f"work orders, {' / '.join(levels)}"
                result[name] = work_order_figures(options.work_orders, levels)
                show(f"{name}: reports_about", result[name]["reports_about"], "all")
                show(f"{name}: the same, texts that no known order has", result[name]["reports_about"], "text not seen")
    if options.out:
        options.out.write_text(json.dumps(rounded(result), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
