"""The leakage audit as a gate over what was mined: nothing of the test data, and nothing like it, is in there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lemmata.errors import LeakageError
from lemmata.leakage import Audit, Example, Offence, Sketches, chosen, distinct, find_twins, normal, sketch
from lemmata.mine.splits import asked_keys, name_key
from lemmata.store.split import LEFT_OUT, PARTS, Split
from lemmata.types import Concept, Graph, Integers, Mask, Pair, Passage, Triplet

__all__ = ["MinedAudit", "TextSource", "inspect_mined", "refuse"]

BATCH = 1000
LINKS = frozenset(("refers_to", "proof_uses", "related_to", "cites"))  # relations that may lead to held-out answers
SHOWN = 3  # offenders named in the error
LONGEST_NAME = 200  # characters; what is longer is no name of a concept


class TextSource(Protocol):
    """What a corpus offers here; `lemmata.store.corpus.Corpus` does."""

    def ids(self) -> list[str]: ...
    def passages(self, rows: Iterable[int]) -> list[Passage]: ...


@dataclass(frozen=True, slots=True)
class MinedAudit(Audit):
    """An audit that also says how far a split's `answers` were made use of."""

    answers: int = 0  # records whose positive is outside training, as the split allows

    def sentence(self) -> str:
        told = Audit.sentence(self)
        if not self.answers:
            return told
        return f"{told}; held-out passages occur as answers ({self.answers} records), as the split allows"


def refuse(found: Audit) -> None:
    """LeakageError that names the first offenders, where there are any."""
    if not found.clean:
        number = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in found.counts.items())
        first = "; ".join(
            f"{offence.kind.replace('_', ' ')} {offence.what!r} of {offence.test!r} in record {offence.train}"
            for offence in found.offences[:SHOWN]
        )
        raise LeakageError(f"what was mined knows held-out data ({number}): {first}")


def inspect_mined(
    records: Iterable[Pair | Triplet],
    split: Split,
    corpus: TextSource,
    *,
    test: Iterable[Example] = (),
    concepts: Mapping[str, Concept] | None = None,
    hops: int = 0,
    graph: Graph | None = None,
    relations: Collection[str] | None = None,
    similarity: float = 0.7,
    most: int = 1000,
) -> MinedAudit:
    """Everything by which mined records know the held-out rows, test examples or test concepts.

    The records are read once; in an offence `train` is a record's number, counted from 0. Any row that is
    not in training is an offence, validation included. Of mined anchors and passages, each is compared with
    each test anchor and passage. With `hops`, so is a mined passage that so many edges (of `relations`,
    where given) connect with a test passage; `graph` is the whole one. At most `most` offences are named,
    all are counted. Where the split lets held-out rows be answers, one is no offence as the positive of a
    training row that has a link to it, and is compared with nothing; in any other place it is.
    """
    examples = list(test)
    offences: list[Offence] = []
    counts: dict[str, int] = {}

    def report(kind: str, tested: str, what: str, record: int) -> None:
        counts[kind] = counts.get(kind, 0) + 1
        if len(offences) < most:
            offences.append(Offence(kind, tested, what[:200], str(record)))

    anchors = {normal(example.anchor): example.id for example in examples}
    names = {
        name_key(name): identity
        for identity, concept in (concepts or {}).items()
        if split.part_of(identity) == "test"
        for name in (concept.name, *concept.aliases)
    }
    ids = corpus.ids()
    first_record = np.full(len(ids), -1, np.int64)  # that uses a row
    equal: set[str] = set()  # examples whose very anchor was mined
    anchor_record: list[int] = []  # of each mined anchor that is no passage
    training = split.rows("train")
    answers: list[tuple[int, Pair]] = []  # by what a record says of itself

    def use(row: int, number: int) -> None:
        if first_record[row] < 0 or number < first_record[row]:
            first_record[row] = number

    def mined_anchors() -> Iterator[str]:
        for number, record in enumerate(records):
            pair = record if isinstance(record, Pair) else record.pair
            rows = [] if isinstance(record, Pair) else [negative.row for negative in record.negatives]
            if isinstance(pair.anchor, str):
                if (same := anchors.get(normal(pair.anchor))) is not None:
                    report("same_anchor", same, pair.anchor, number)
                    equal.add(same)
                if names and len(pair.anchor) <= LONGEST_NAME:
                    named = next((names[key] for key in asked_keys(pair.anchor) if key in names), None)
                    if named is not None:
                        report("same_anchor", named, pair.anchor, number)
                anchor_record.append(number)
                yield pair.anchor
            else:
                rows.append(pair.anchor)
            if split.answers and _may_answer(pair, training):
                answers.append((number, pair))
            else:
                rows.append(pair.positive)
            for row in rows:
                use(row, number)

    asked = sketch(mined_anchors())
    unlinked = _unlinked(answers, corpus)
    for number, pair in unlinked:
        use(pair.positive, number)
    used = first_record >= 0
    held_out, owner = _held_out(split, examples, ids)
    for row in np.flatnonzero(used & ((split.part != PARTS.index("train")) | held_out)).tolist():
        part = "no part" if split.part[row] == LEFT_OUT else PARTS[split.part[row]]
        report("same_passage", owner.get(row, part), ids[row], int(first_record[row]))

    mined_rows = np.flatnonzero(used & ~held_out)
    mined = _behind(asked, sketch(_texts(corpus, mined_rows)))
    record_of = np.concatenate((np.array(anchor_record, np.int64), first_record[mined_rows]))
    test_rows = np.flatnonzero(held_out)
    tested = _behind(sketch(example.anchor for example in examples), sketch(_texts(corpus, test_rows)))
    once, _ = distinct(mined)
    twin = find_twins(tested, chosen(mined, once), similarity=similarity)
    for number in np.flatnonzero(twin >= 0).tolist():
        record = int(record_of[once[twin[number]]])
        if number < len(examples):
            if examples[number].id not in equal:
                report("near_anchor", examples[number].id, examples[number].anchor, record)
        else:
            row = int(test_rows[number - len(examples)])
            report("near_passage", owner.get(row, "test"), ids[row], record)
    looked_for = ["same anchor", "near anchor", "same passage", "near passage"]
    if hops and graph is not None:
        looked_for.append(f"neighbour within {hops}")
        for row in np.flatnonzero(_around(graph, ids, held_out, hops, relations) & used & ~held_out).tolist():
            report("neighbour", "test", ids[row], int(first_record[row]))
    found = tuple(offences), tuple(looked_for), dict(sorted(counts.items()))
    return MinedAudit(*found, answers=len(answers) - len(unlinked))


def _may_answer(pair: Pair, training: Mask) -> bool:
    """Whether a record is, by its own word, a link of a training row to one outside."""
    return (
        not isinstance(pair.anchor, str)
        and pair.relation in LINKS
        and bool(training[pair.anchor])
        and not training[pair.positive]
    )


def _unlinked(answers: Sequence[tuple[int, Pair]], corpus: TextSource) -> list[tuple[int, Pair]]:
    """Records whose anchor has no such link: it may be one of the held-out row, turned round."""
    found: list[tuple[int, Pair]] = []
    for start in range(0, len(answers), BATCH):
        batch = answers[start : start + BATCH]
        anchors = corpus.passages([pair.anchor for _, pair in batch if not isinstance(pair.anchor, str)])
        positives = corpus.passages([pair.positive for _, pair in batch])
        for one, anchor, positive in zip(batch, anchors, positives, strict=True):
            targets = {link.target for link in anchor.links if link.relation == one[1].relation}
            if not targets & {positive.id, positive.document}:
                found.append(one)
    return found


def _held_out(split: Split, examples: Sequence[Example], ids: Sequence[str]) -> tuple[Mask, dict[int, str]]:
    """Rows that are test data by the split or by an example, and the example that each belongs to."""
    held_out = split.rows("test")
    owner: dict[int, str] = {}
    if examples:
        place = {name: row for row, name in enumerate(ids)}
        for example in examples:
            for name in example.passages:
                if name in place:
                    owner.setdefault(place[name], example.id)
        held_out[list(owner)] = True
    return held_out, owner


def _texts(corpus: TextSource, rows: Integers) -> Iterator[str]:
    for start in range(0, len(rows), BATCH):
        for passage in corpus.passages(rows[start : start + BATCH].tolist()):
            yield passage.content


def _behind(one: Sketches, other: Sketches) -> Sketches:
    """Two collections as one."""
    return Sketches(
        np.concatenate((one.shingles, other.shingles)),
        np.concatenate((one.starts, other.starts[1:] + one.starts[-1])),
        np.concatenate((one.keys, other.keys)),
        np.concatenate((one.numbers, other.numbers)),
    )


def _around(graph: Graph, ids: Sequence[str], rows: Mask, hops: int, relations: Collection[str] | None) -> Mask:
    """Rows that at most so many edges, taken either way, connect with some of `rows`."""
    place = {name: row for row, name in enumerate(ids)}
    node_rows = np.fromiter((place.get(node, -1) for node in graph.nodes), np.int64, len(graph.nodes))
    sources = graph.sources()
    targets = np.asarray(graph.indices)
    if relations is not None:
        wanted = [number for number, name in enumerate(graph.relations) if name in relations]
        of_these = np.isin(graph.relation, wanted)
        sources, targets = sources[of_these], targets[of_these]
    reached = (node_rows >= 0) & rows[node_rows]
    for _ in range(hops):
        before = reached.copy()
        reached[targets[before[sources]]] = True
        reached[sources[before[targets]]] = True
    around = np.zeros(len(ids), bool)
    around[node_rows[reached & (node_rows >= 0)]] = True
    return around
