"""What one passage says about concepts by itself: candidates, named results and runs of content words.

This is the long part of finding concepts. It depends on the passage alone, so it can be kept while others change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.core.types import Passage
from lemmata.core.words import language_of
from lemmata.graph.concepts.candidates import (
    Candidate,
    content_runs,
    credited_results,
    find_defined_terms,
    mask_references,
    named_results,
    note_name,
    phrase_key,
    title_phrases,
)
from lemmata.graph.concepts.german import german_phrases, german_results
from lemmata.graph.concepts.terms import key_of, mask, result_kind


class Run(NamedTuple):
    """Adjacent content words."""

    inside: bool  # whether the first word stands inside a sentence, as all others do
    words: list[str]
    keys: list[str]  # `phrase_key` of each word


class Evidence(NamedTuple):
    """What a passage says; the same passage always says the same."""

    german: bool
    digest: str  # of the masked text
    defined: list[Candidate]
    note: tuple[str, str]  # name and rule
    titled: list[str]  # phrases of the document's title that this first passage of it confirms
    named: list[tuple[str, list[str]]]  # results named after people
    credited: list[str]  # keys of results that the text credits to people
    runs: list[Run]  # of an English text
    phrases: list[str]  # of a German text


ReadEvidence = Callable[[Passage, str | None], Evidence]


def read_evidence(passage: Passage, title: str | None) -> Evidence:
    """Read a passage; `title` is that of its document if the document begins with it, else None."""
    masked = mask_references(mask(passage.text))
    german = language_of(masked) == "de"
    proof = mask(passage.proof) if german else mask_references(mask(passage.proof))
    runs = [] if german else [run for text in (masked, proof) for run in content_runs(text)]
    return Evidence(
        german,
        hashlib.blake2b(masked.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
        list(find_defined_terms(passage, masked, title is not None, german)),
        note_name(passage.title, passage.kind, german) if passage.title else ("", ""),
        _titled(title, masked) if title and not german else [],
        [(name, []) for text in (masked, proof) for name in german_results(text)]
        if german
        else [(name, sorted(people)) for text in (masked, proof) for name, people in named_results(text)],
        [] if german else [key for text in (masked, proof) for key in credited_results(text)],
        [Run(run[0][1], [word for word, _ in run], [phrase_key([word]) for word, _ in run]) for run in runs],
        [phrase for text in (masked, proof) for phrase in german_phrases(text)] if german else [],
    )


def _titled(title: str, masked: str) -> list[str]:
    text = f" {key_of(masked)} "
    return [name for name in title_phrases(title) if f" {key_of(name)} " in text or result_kind(name)]


# ---------------------------------------------------------------- kept


def evidence_key(passage: Passage, title: str | None) -> bytes:
    """A hash of all that `read_evidence` reads."""
    parts = (
        passage.kind,
        passage.text,
        passage.title,
        passage.raw,
        passage.proof,
        passage.metadata.get("terms"),
        passage.metadata.get("index"),
        title,
    )
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).digest()


def code_digest() -> str:
    """A hash of the rules themselves: evidence that other rules found is of no use."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("*.py"), *(folder.parents[1] / "core").glob("words.*"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def to_json(evidence: Evidence) -> str:
    """As `from_json` reads it."""
    return json.dumps(evidence, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> Evidence:
    """What `to_json` wrote."""
    fields: list[Any] = json.loads(text)
    german, digest, defined, note, titled, named, credited, runs, phrases = fields
    return Evidence(
        german,
        digest,
        [
            Candidate(name, kind, rule, sentence, tuple(aliases), weight)
            for name, kind, rule, sentence, aliases, weight in defined
        ],
        tuple(note),
        titled,
        [(name, people) for name, people in named],
        credited,
        [Run(*run) for run in runs],
        phrases,
    )
