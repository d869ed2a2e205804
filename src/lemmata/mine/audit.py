"""The leakage audit that every mined set must pass: it holds no test data and nothing like it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from lemmata.core.errors import LeakageError
from lemmata.core.types import Concept, Integers, Mask, Pair, Triplet
from lemmata.corpus.leakage import Audit, Example, Offence, distinct, near_duplicate_of, normalise, select, sketch
from lemmata.corpus.split import LEFT_OUT, PARTS, Split
from lemmata.mine.material import LONGEST_NAME, PassageSource, in_batches
from lemmata.mine.splits import name_key, query_keys

LINKS = frozenset(("refers_to", "proof_uses", "related_to", "cites"))  # relations that may lead to held-out answers
SHOWN = 3  # offences named in the error
UNUSED = np.iinfo(np.int64).max


def refuse(audit: Audit, name: str) -> None:
    """Raise LeakageError with the first offences against the set of this name, if there are any."""
    if not audit.clean:
        counts = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(audit.counts.items()))
        different: dict[tuple[str, str], Offence] = {}
        for offence in audit.offences:
            different.setdefault((offence.kind, offence.what), offence)
        first = "; ".join(
            f"{offence.kind.replace('_', ' ')} {offence.what!r} of {offence.test!r} in record {offence.train}"
            for offence in list(different.values())[:SHOWN]
        )
        raise LeakageError(f"the training set {name!r} holds held-out data ({counts}): {first}")


def inspect_mined(
    records: Iterable[Pair | Triplet],
    split: Split,
    corpus: PassageSource,
    *,
    test: Iterable[Example] = (),
    concepts: Mapping[str, Concept] | None = None,
) -> Audit:
    """Everything by which mined records know held-out rows, test examples or test concepts.

    The records are read once; in an offence, `train` is the number of the record, from 0. Any row outside
    training is an offence, validation included. Every mined anchor and passage is compared with every test
    anchor and passage. Where the split allows held-out rows as answers, such a row is no offence as the positive of a
    training row that links to it, and is compared with nothing; anywhere else it is.
    """
    examples = list(test)
    result = Audit()
    ids = corpus.ids()
    row_of = {identity: row for row, identity in enumerate(ids)}
    held_out, owner = _held_out(split, examples, row_of)
    test_anchors = {normalise(example.anchor): example.id for example in examples}
    test_names = {
        name_key(name): identity
        for identity, concept in (concepts or {}).items()
        if split.part_of(identity) == "test"
        for name in (concept.name, *concept.aliases)
    }
    same_anchor: set[str] = set()  # examples whose exact anchor was mined
    training = split.rows("train")
    anchors: dict[str, int] = {}  # text of a mined anchor: the first record that has it
    first_record = np.full(len(ids), UNUSED, np.int64)  # of the records that use a row
    answers: list[tuple[int, Pair]] = []  # candidates: by what a record says about itself
    for number, record in enumerate(records):
        pair, negatives = (record, ()) if isinstance(record, Pair) else record
        rows = [negative.row for negative in negatives]
        if split.answers and _may_answer(pair, training):
            answers.append((number, pair))
        else:
            rows.append(pair.positive)
        if isinstance(pair.anchor, str):
            anchors.setdefault(pair.anchor, number)
            if (same := test_anchors.get(normalise(pair.anchor))) is not None:
                result.add("same_anchor", same, pair.anchor, str(number))
                same_anchor.add(same)
            keys = query_keys(pair.anchor) if test_names and len(pair.anchor) <= LONGEST_NAME else ()
            for named in itertools.islice((test_names[key] for key in keys if key in test_names), 1):
                result.add("same_anchor", named, pair.anchor, str(number))
        else:
            rows.append(pair.anchor)
        first_record[rows] = np.minimum(first_record[rows], number)
    unlinked = list(_unlinked(answers, corpus))
    result.answers = len(answers) - len(unlinked)
    for number, pair in unlinked:
        first_record[pair.positive] = min(first_record[pair.positive], number)
    used = first_record < UNUSED
    for row in np.flatnonzero(used & (~training | held_out)).tolist():
        part = "no part" if split.part[row] == LEFT_OUT else PARTS[split.part[row]]
        result.add("same_passage", owner.get(row, part), ids[row], str(first_record[row]))

    mined = sketch(itertools.chain(anchors, _texts(corpus, np.flatnonzero(used & ~held_out))))
    record_of = np.concatenate((np.fromiter(anchors.values(), np.int64), first_record[used & ~held_out]))
    test_rows = np.flatnonzero(held_out)
    tested = sketch(itertools.chain((example.anchor for example in examples), _texts(corpus, test_rows)))
    first, _ = distinct(mined)
    matches = near_duplicate_of(tested, select(mined, first))
    for number in np.flatnonzero(matches >= 0).tolist():
        record_number = str(record_of[first[matches[number]]])
        if number >= len(examples):
            row = int(test_rows[number - len(examples)])
            result.add("near_passage", owner.get(row, "test"), ids[row], record_number)
        elif examples[number].id not in same_anchor:
            result.add("near_anchor", examples[number].id, examples[number].anchor, record_number)
    return result


def _may_answer(pair: Pair, training: Mask) -> bool:
    """Whether a record claims to be a link from a training row to one outside."""
    return (
        not isinstance(pair.anchor, str)
        and pair.relation in LINKS
        and bool(training[pair.anchor])
        and not training[pair.positive]
    )


def _unlinked(answers: Sequence[tuple[int, Pair]], corpus: PassageSource) -> Iterator[tuple[int, Pair]]:
    """Records whose anchor has no such link: it may be a link of the held-out row, reversed."""
    anchors = in_batches(corpus.passages, [int(pair.anchor) for _, pair in answers])
    positives = in_batches(corpus.passages, [pair.positive for _, pair in answers])
    for (number, pair), (_, anchor), (_, positive) in zip(answers, anchors, positives, strict=True):
        targets = {link.target for link in anchor.links if link.relation == pair.relation}
        if not targets & {positive.id, positive.document}:
            yield number, pair


def _held_out(split: Split, examples: Sequence[Example], row_of: Mapping[str, int]) -> tuple[Mask, dict[int, str]]:
    """Rows that are test data by the split or by an example, and the example that each belongs to."""
    held_out = split.rows("test")
    owner: dict[int, str] = {}
    for example in examples:
        for identity in example.passages:
            if identity in row_of:
                owner.setdefault(row_of[identity], example.id)
    held_out[list(owner)] = True
    return held_out, owner


def _texts(corpus: PassageSource, rows: Integers) -> Iterator[str]:
    return (passage.content for _, passage in in_batches(corpus.passages, rows.tolist()))
