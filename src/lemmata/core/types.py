"""The records that all modules share, and the small protocols between them.

Users see ids, which are strings; inside, a passage is its row in the corpus. A higher score is better, everywhere;
where smaller is closer, the name is distance or length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Ranking = tuple[Integers, Floats]  # rows and scores (n, k), best first; -1 and -inf where there are fewer than k
Progress = Callable[[str, int, int | None], None]  # what is being done, how many are done, total if known


# ---------------------------------------------------------------- the corpus


# keys of a passage's metadata
INSERTED = "inserted_references"  # {"text": spans, "proof": spans}; a span is [begin, end, *[begin, end, label]]
NUMBER = "number"  # as printed
PRINTED = "printed"  # name before the number, where that is not the kind: "Guided Practice"
EQUATIONS = "equations"  # {label: number}
LABELLED = "labelled"  # {label: kind and number, or title} of all else in it: items, figures, a section
SOLVED = "solved"  # that its proof is a solution
HEADING = "heading"  # place of the heading above it in the contents of its document
CONTENTS = "contents"  # key of a document's metadata: [level, number, title] of each heading
REFERRING = "referring_macros"  # key of a document's metadata: {label that it does not have: macro but for \\ref}
BOOKKEEPING = frozenset((INSERTED, HEADING, SOLVED, CONTENTS, REFERRING))  # for lemmata alone


def printed_name(kind: str, number: str) -> str:
    """The label of a thing by its printed number: "number:theorem 4.2"."""
    return f"number:{kind} {number.strip('() ').casefold()}"


# The kind of rows that hold the parts of a long statement, or of a solution: only the index reads them, and what finds
# one finds the statement, which has the whole text.
PART = "part"
_PART = "~part-"


def part_id(identity: str, number: int) -> str:
    """The id of a part of a passage."""
    return f"{identity}{_PART}{number}"


def whole_id(identity: str) -> str:
    """The id of the passage that a part belongs to."""
    return identity.rpartition(_PART)[0]


def unique_id(identity: str, taken: dict[str, int]) -> str:
    """The id, with `~2`, `~3`, ... appended where it is taken; `taken` counts the uses of each id."""
    unique = identity
    while unique in taken:
        taken[identity] += 1
        unique = f"{identity}~{taken[identity]}"
    taken[unique] = 1
    return unique


def titled(title: str, text: str) -> str:
    """A text with its title in front; the one definition of what an index or a model reads of a passage."""
    return f"{title}. {text}" if title and text else title or text


def without_references(text: str, metadata: Mapping[str, Any], part: str = "text") -> str:
    """A passage's text or proof without the names that reading inserted in the place of `\\ref` and `\\cite`."""
    spans = metadata.get(INSERTED)
    if not isinstance(spans, Mapping) or not spans.get(part):
        return text
    pieces: list[str] = []
    at = 0
    for begin, end, *_ in spans[part]:
        pieces.append(text[at:begin])
        at = end
    return "".join((*pieces, text[at:]))


class Link(NamedTuple):
    """One link as written in the source; `target` is resolved once the whole corpus is read."""

    relation: str  # refers_to, proof_uses, cites, reports_about, related_to, part_of
    label: str  # as in the source: a label, a citation key, an id
    target: str | None = None  # id of a passage or document


@dataclass(frozen=True, slots=True)
class Passage:
    """The unit of search: a statement, a chunk of prose, an abstract, a log."""

    id: str
    document: str
    kind: str  # theorem, definition, chunk, abstract, log, ...
    # For readers: cleaned, with the names of its references; every formula between single dollars; items and displayed
    # formulas are lines.
    text: str
    title: str = ""  # the note of a statement, the title of a log
    section: str = ""
    raw: str = ""  # the source, where it differs from the text
    proof: str = ""  # for readers, like the text; the solution of an exercise
    file: str = ""  # below the ingested root; from a corpus, as much of the path as tells it from all others
    first_line: int = 0  # from 1; 0 where there are no lines
    last_line: int = 0  # inclusive
    date: str | None = None  # ISO
    confidence: float = 1.0  # 1.0 where the source is well formed
    metadata: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    links: tuple[Link, ...] = ()

    @property
    def number(self) -> str:
        """The number that its document prints; empty where it has none."""
        return str(self.metadata.get(NUMBER, ""))

    @property
    def printed(self) -> str:
        """The name that its document prints before the number, where that is not the kind: "Guided Practice"."""
        return str(self.metadata.get(PRINTED, ""))

    @property
    def numbered(self) -> str:
        """Kind or printed name, and number: "theorem 4.2"."""
        return f"{self.printed or self.kind} {self.number}".strip()

    @property
    def headline(self) -> str:
        """As `numbered`, with the title: "theorem 4.2 (Yoneda)"."""
        return f"{self.numbered} ({self.title})" if self.title else self.numbered

    @property
    def proof_name(self) -> str:
        """What its proof is called."""
        return "Solution" if self.metadata.get(SOLVED) else "Proof"

    @property
    def with_solution(self) -> str:
        """The text, of an exercise with its solution: what a query may have found."""
        return f"{self.text}\n\n{self.proof_name}. {self.proof}" if self.metadata.get(SOLVED) else self.text

    @property
    def content(self) -> str:
        """The text that is indexed, encoded and trained on."""
        return titled(self.title, self.bare_text)

    @property
    def bare_text(self) -> str:
        """The text without the names of its references: they would give away the answers of tasks and pairs."""
        return without_references(self.text, self.metadata)

    def bare(self) -> Passage:
        """A copy whose text and proof are without the names of references, for everything but showing."""
        if INSERTED not in self.metadata:
            return self
        proof = without_references(self.proof, self.metadata, "proof")
        metadata = {key: value for key, value in self.metadata.items() if key != INSERTED}
        return replace(self, text=self.bare_text, proof=proof, metadata=metadata)

    @property
    def locations(self) -> tuple[str, ...]:
        """The functional locations that a log reports about: as the hierarchy calls them, else as written."""
        names = (
            link.target.removeprefix("location:") if link.target else link.label
            for link in self.links
            if link.relation == "reports_about"
        )
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class Document:
    """A paper, chapter, article or functional location; every passage belongs to one."""

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
    """A name by which other passages refer to a passage or document."""

    document: str  # in which the name is defined
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
    doi: str = ""  # lower case, without a resolver URL
    text: str = ""  # the whole entry, cleaned


class Skip(NamedTuple):
    """Input that was skipped, and why; nothing is dropped without one."""

    file: str
    line: int  # 0 where there is none
    cause: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The output of a reader for one source, or for one batch of a long one."""

    documents: Sequence[Document] = ()
    passages: Sequence[Passage] = ()
    labels: Sequence[Label] = ()
    references: Mapping[str, Sequence[Reference]] = field(default_factory=dict)  # by document
    prefixes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # document: {prefix: document}
    skips: Sequence[Skip] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # sha256 of every file read; "" for a missing one


# ---------------------------------------------------------------- the knowledge graph

NOT_STATEMENTS = frozenset(("chunk", "abstract"))  # kinds of passages that are prose around the statements


PROSE = frozenset(("text", "prose"))  # what people call a chunk


def kind_meant(kind: str, known: Collection[str]) -> str:
    """The one of the known kinds that people mean: Theorem is theorem, and text is a chunk if there is no kind text."""
    name = kind.casefold()
    meant = "chunk" if name in PROSE and name not in known else name
    return meant if meant in known else kind


CONCEPT_KINDS = ("object", "theorem", "definition", "technique", "formula", "identity", "conjecture", "person")


@dataclass(frozen=True, slots=True)
class Concept:
    """A concept that passages mention, under one or several names."""

    id: str  # concept:slug
    name: str
    kind: str = "object"  # one of CONCEPT_KINDS, or as imported
    description: str = ""
    aliases: tuple[str, ...] = ()


class Edge(NamedTuple):
    """A typed edge between two nodes (passages, documents, concepts, locations), with its evidence."""

    source: str  # ids
    relation: str  # generalizes, is_instance_of, uses, implies, proves, defines, equivalent_to, related_to, ...
    target: str
    evidence: str = ""  # id of a passage
    maker: str = ""  # the rule or model that made it
    weight: float = 1.0


# ---------------------------------------------------------------- computed from them


@dataclass(frozen=True, slots=True)
class Graph:
    """A typed directed graph in compressed rows: the edges of node i are `indptr[i]:indptr[i + 1]`."""

    nodes: Sequence[str]  # ids
    kinds: Sequence[str]  # of each node
    relations: Sequence[str]  # names, indexed by `relation`
    indptr: Integers  # (nodes + 1,)
    indices: Integers  # (edges,)
    relation: npt.NDArray[np.int16]  # (edges,)
    weight: Floats  # (edges,); summed over merged duplicates

    def sources(self) -> Integers:
        """The source node of each edge (edges,)."""
        return np.repeat(np.arange(len(self.nodes), dtype=np.int64), np.diff(self.indptr))

    def with_edges(self, kept: Mask) -> Graph:
        """The same nodes with some of the edges (edges,)."""
        indptr = np.zeros(len(self.nodes) + 1, np.int64)
        np.cumsum(np.bincount(self.sources()[kept], minlength=len(self.nodes)), out=indptr[1:])
        return replace(
            self,
            indptr=indptr,
            indices=np.asarray(self.indices[kept]),
            relation=np.asarray(self.relation[kept]),
            weight=np.asarray(self.weight[kept]),
        )


class MeasuredGraph(NamedTuple):
    """The edges of a graph in both directions, in compressed rows; those of a node are sorted by length."""

    indptr: Integers  # (nodes + 1,)
    targets: npt.NDArray[np.int32]  # (2 edges,)
    lengths: Floats  # (2 edges,) measured from the node that is left
    edges: npt.NDArray[np.int32] | Integers  # (2 edges,) number in the Graph; -1 - number where followed backwards


@dataclass(frozen=True, slots=True)
class Vectors:
    """One vector per row, and the name of their maker."""

    matrix: Floats  # (n, dim)
    maker: str


class Crowding(NamedTuple):
    """`spread`: how much nearer the nearest passages of a passage are than any two, on average.

    `values` (n,): how much nearer than on average those of each passage are, in units of the spread.
    """

    values: Floats
    spread: float


class Pair(NamedTuple):
    """A training pair, with its miner and the reason."""

    anchor: int | str  # a row, or the text of a query
    positive: int  # a row
    source: str  # the miner
    relation: str = ""
    reason: str = ""
    weight: float = 1.0


class Negative(NamedTuple):
    """A passage that does not answer the anchor, with the proposer and the reason to keep it."""

    row: int
    proposer: str
    reason: str = ""
    score: float = 0.0  # by the proposer


class Triplet(NamedTuple):
    """A pair with its negatives, nearest first."""

    pair: Pair
    negatives: tuple[Negative, ...]


class Step(NamedTuple):
    """One edge of the path that led to a hit."""

    source: str
    target: str
    relation: str
    length: float


class Hit(NamedTuple):
    """One result; `path` leads from a seed of the query to it."""

    id: str
    score: float
    path: tuple[Step, ...] = ()
    passage: Passage | None = None  # a retriever always gives it
    repeats: tuple[str, ...] = ()  # ids of lower-ranked passages with the same text, which are no hits of their own
    cites: str = ""  # the entry of its bibliography that the query names
    confidence: float | None = None  # 0 to 1, that it has to do with the query; None where nothing tells

    @property
    def text(self) -> str:
        """The text of the passage."""
        return self.passage.text if self.passage else ""


def no_hits(queries: int, k: int) -> Ranking:
    """A ranking to be filled."""
    return np.full((queries, k), -1, np.int64), np.full((queries, k), -np.inf, np.float32)


# ---------------------------------------------------------------- protocols


class Encoder(Protocol):
    """Texts to L2-normalised rows (n, dimension), in order; an empty text gives zeros.

    `role` is `query` or `passage`: some models use a prompt for each.
    """

    @property
    def name(self) -> str: ...  # equal names mean comparable vectors
    @property
    def dimension(self) -> int: ...
    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats: ...


class CrossEncoder(Protocol):
    """Pairs of a query and a passage to scores (n,), in order; each model has its own scale."""

    @property
    def name(self) -> str: ...
    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats: ...


class Index(Protocol):
    """Queries (n, dim) to the k nearest rows. `allowed` (n passages, bool) masks rows; None allows all."""

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> Ranking: ...
