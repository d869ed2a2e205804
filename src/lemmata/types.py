"""The records that all floors share, and the one-method protocols between them.

Ids are strings that users see; everywhere inside, a passage is its row in the corpus.
Scores: higher is better, everywhere; what shrinks as things get closer is called distance or length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

__all__ = [
    "Concept",
    "Document",
    "Edge",
    "Encoder",
    "Graph",
    "Hit",
    "Index",
    "Label",
    "Link",
    "Metric",
    "Negative",
    "Pair",
    "Passage",
    "Reading",
    "Reference",
    "Skip",
    "Step",
    "Triplet",
    "Vectors",
    "titled",
]

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Progress = Callable[[str, int, int | None], None]  # what is being done, how many are done, of how many


# ---------------------------------------------------------------- what a corpus is made of


def titled(title: str, text: str) -> str:
    """A text with its title in front; the one definition of what an index or a model reads of a passage."""
    return f"{title}. {text}" if title else text


class Link(NamedTuple):
    """One reference as its author wrote it; `target` is known once the whole corpus is read."""

    relation: str  # refers_to, proof_uses, cites, reports_about, related_to, part_of
    label: str  # what stands in the source: a label, a citation key, an id
    target: str | None = None  # id of a passage or document


@dataclass(frozen=True, slots=True)
class Passage:
    """The unit of search: a statement, a chunk of prose, an abstract, a log."""

    id: str
    document: str
    kind: str  # theorem, definition, chunk, abstract, log, ...
    text: str  # cleaned; every formula stands between single dollars
    title: str = ""  # the note of a statement, the title of a log
    section: str = ""
    raw: str = ""  # as the author wrote it, where that differs
    proof: str = ""  # cleaned
    file: str = ""  # below the ingested root, or inside the archive
    first_line: int = 0  # counted from 1; 0 where lines have no meaning
    last_line: int = 0  # inclusive
    date: str | None = None  # ISO
    confidence: float = 1.0  # 1.0 where the source is well formed
    metadata: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    links: tuple[Link, ...] = ()

    @property
    def content(self) -> str:
        """The text that is indexed, encoded and trained on."""
        return titled(self.title, self.text)


@dataclass(frozen=True, slots=True)
class Document:
    """A paper, a chapter, an article, a functional location: what passages belong to."""

    id: str
    title: str = ""
    kind: str = "paper"  # paper, text, pdf, location, table
    authors: tuple[str, ...] = ()
    date: str | None = None  # ISO
    categories: tuple[str, ...] = ()
    file: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    links: tuple[Link, ...] = ()  # a location's parent, for example


class Label(NamedTuple):
    """A name by which other places refer to a passage or document."""

    document: str  # where the name is defined
    name: str
    target: str  # id of the passage or document


@dataclass(frozen=True, slots=True)
class Reference:
    """One entry of a bibliography."""

    key: str
    title: str = ""
    authors: str = ""
    year: int | None = None
    arxiv: str = ""  # without version
    doi: str = ""  # lower case, without a resolver's address
    text: str = ""  # the whole entry, cleaned


class Skip(NamedTuple):
    """Something that was not taken in, and why; nothing is ever dropped without one."""

    file: str
    line: int  # 0 where there is none
    cause: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader made of one source, or of one batch of a long one."""

    documents: Sequence[Document] = ()
    passages: Sequence[Passage] = ()
    labels: Sequence[Label] = ()
    references: Mapping[str, Sequence[Reference]] = field(default_factory=dict)  # by document
    prefixes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # document: {prefix: document}
    skips: Sequence[Skip] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # every file read: sha256; "" where none was found


# ---------------------------------------------------------------- what a knowledge graph is made of


@dataclass(frozen=True, slots=True)
class Concept:
    """Something that passages speak about, under one or several names."""

    id: str  # concept:slug
    name: str
    kind: str = "object"  # object, theorem, definition, technique, formula, identity, conjecture, person
    description: str = ""
    aliases: tuple[str, ...] = ()


class Edge(NamedTuple):
    """A typed edge between any two nodes (passages, documents, concepts, locations), with where it was read."""

    source: str  # ids
    relation: str  # generalizes, is_instance_of, uses, implies, proves, defines, equivalent_to, related_to, ...
    target: str
    evidence: str = ""  # id of the passage that says so
    maker: str = ""  # which rule or model found it
    weight: float = 1.0


# ---------------------------------------------------------------- what is computed from it


@dataclass(frozen=True, slots=True)
class Graph:
    """A typed directed graph in compressed rows: the edges of node i are `indptr[i]:indptr[i + 1]`."""

    nodes: Sequence[str]  # ids
    kinds: Sequence[str]  # of each node
    relations: Sequence[str]  # names, indexed by `relation`
    indptr: Integers  # (nodes + 1,)
    indices: Integers  # (edges,)
    relation: npt.NDArray[np.int16]  # (edges,)
    weight: Floats  # (edges,); of merged doubles the sum

    def sources(self) -> Integers:
        """The node that each edge leaves (edges,)."""
        return np.repeat(np.arange(len(self.nodes), dtype=np.int64), np.diff(self.indptr))


@dataclass(frozen=True, slots=True)
class Vectors:
    """One vector per row, and who made them."""

    matrix: Floats  # (n, dim)
    maker: str


class Pair(NamedTuple):
    """A training pair, with the miner and the reason that made it."""

    anchor: int | str  # a row, or the text of a query that is no passage
    positive: int  # a row
    source: str  # the miner
    relation: str = ""
    reason: str = ""
    weight: float = 1.0


class Negative(NamedTuple):
    """A passage that does not answer an anchor: who proposed it, and why it stayed."""

    row: int
    proposer: str
    reason: str = ""
    score: float = 0.0  # by the proposer, or by the model that ranked it again


class Triplet(NamedTuple):
    """A pair with what does not belong to it, nearest first."""

    pair: Pair
    negatives: tuple[Negative, ...]


class Step(NamedTuple):
    """One edge of the path that led to a hit."""

    source: str
    target: str
    relation: str
    length: float


class Hit(NamedTuple):
    """One result: higher scores are better, `path` leads from the query's seed to it."""

    id: str
    score: float
    path: tuple[Step, ...] = ()


# ---------------------------------------------------------------- what can be exchanged


class Encoder(Protocol):
    """Texts to L2-normalised rows (n, dimension), in the order given; a text without content gives zeros.

    `role` is `query` or `passage`: some models want to be told by a prompt.
    """

    @property
    def name(self) -> str: ...  # who made the vectors; equal names mean comparable vectors
    @property
    def dimension(self) -> int: ...
    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats: ...


class Index(Protocol):
    """Queries (n, dim) to rows and scores, both (n, k), best first; -1 and -inf where there are fewer than k.

    `allowed` (n passages, bool) leaves out rows; None allows all.
    """

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]: ...


class Metric(Protocol):
    """Lengths of the edges that leave `source` for `targets`."""

    def lengths(self, source: int, targets: Integers) -> Floats: ...
