"""The JSON records that the command line, REST, MCP and the page share; the OpenAPI document is made from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from lemmata.core.records import Described, as_json
from lemmata.core.types import Hit, Skip, Step
from lemmata.latex.sentences import formulas
from lemmata.search.bridge import BridgePassage, BridgePath
from lemmata.search.excerpts import CELLS, ITEM, PARAGRAPH, is_listed
from lemmata.search.filter import LONGEST_NAME

DEEPEST = 1000  # hits that can be reached by paging
MOST_HITS = 100
_SHORT = 200  # signs of an excerpt without a query
_SIGN = re.compile(r"\\[a-zA-Z]+|[^\s{}$^_&\\]")
BULLET = re.compile(r"(?m)^([ \t]*)[-*+] (?!\d)")  # of an item in Markdown
_BELOW_TITLE = re.compile(r"(?<=[^\W_])[ \t]*\n[ \t]*\n\s*(?=[A-ZÄÖÜ])")

# ---------------------------------------------------------------- requests

Id = Annotated[str, Described(least=1, most=LONGEST_NAME)]
End = Annotated[Id, Described("An id of the graph, the name of a concept, or a text.")]
HitCount = Annotated[int, Described("Number of results.", 1, MOST_HITS)]
Html = Annotated[bool, Described("Whether hits have an excerpt as HTML.")]
WithPaths = Annotated[bool, Described("Whether hits have their path.")]
SimilarRetriever = Annotated[
    str,
    Described("One of those that /health names, to find what a passage could refer to; empty: by vectors.", most=200),
]
Text = Annotated[str, Described(least=1, most=200_000)]

# ---------------------------------------------------------------- answers

Count = Annotated[int, Described(least=0)]
Line = Annotated[int, Described("From 1.", least=1)] | None
Date = Annotated[str, Described("ISO date.")] | None
NextOffset = Annotated[int, Described("Where the next page begins; null on the last one.", least=1)] | None
Confidence = Annotated[float, Described("That it has to do with the query; null where nothing tells.", 0, 1)] | None
TitleHtml = Annotated[str, Described("The title as safe HTML where it has formulas; else empty.")]
Name = Annotated[str, Described("The title or the first words, formulas as characters where they can be.")]
NameHtml = Annotated[str, Described("The name as safe HTML with MathML.")]
Printed = Annotated[str, Described("What its document prints before the number, where that is not the kind.")]


class Answer(TypedDict):
    """Every answer about a workspace."""

    generation: Annotated[int, Described(least=1)]  # Number of its state; it grows when a rebuilt one is taken over.


class Page(Answer):
    total: Count
    next_offset: NextOffset


class Shown(TypedDict):
    kind: str
    number: str  # As its document prints it; empty where it has none.
    printed: Printed
    title: str  # Of a part of a manual, the heading that it stands below.
    title_html: TitleHtml
    name: Name
    name_html: NameHtml
    excerpt: str
    html: str  # The excerpt as safe HTML.
    where: str  # Title of the document that a passage stands in; of a log that of its location.


class DocumentRecord(TypedDict):
    id: str
    title: str
    title_html: TitleHtml
    authors: list[str]
    date: Date
    categories: list[str]
    kind: str
    form: str  # What readers call it: book, paper, notes, logs, pdf, location.


class HitRecord(TypedDict):
    """One result of a search, as `lemmata search --json` prints it."""

    rank: Annotated[int, Described(least=1)]
    id: str
    score: float  # Higher is better; the scale depends on the retriever.
    kind: str
    number: str  # As the document prints it: 4.2; empty where it has none.
    printed: Printed
    document: str
    title: str
    text: str
    path: list[Step]  # The way through the graph that leads to the hit.
    file: str
    line: Line
    last_line: Line
    date: Date
    section: str
    location: list[str]
    repeats: list[str]  # Ids of passages with the same text.
    cites: str  # The entry of its bibliography that the query names.
    confidence: Confidence


class ServedHit(HitRecord):
    """A hit with the title of its document; with HTML where it was asked for."""

    document_title: str
    html: NotRequired[str]  # An excerpt as safe HTML with MathML.
    title_html: NotRequired[TitleHtml]
    name: NotRequired[Name]
    name_html: NotRequired[NameHtml]
    document_title_html: NotRequired[TitleHtml]
    section_html: NotRequired[TitleHtml]
    where: NotRequired[str]  # Title of its document; of a log that of its location.


class Facet(TypedDict):
    value: str
    count: Count
    title: NotRequired[str]  # Of a document, chapter or location.


class Facets(TypedDict):
    kinds: list[Facet]
    categories: list[Facet]
    years: list[Facet]
    documents: list[Facet]
    chapters: list[Facet]  # Of books.
    locations: list[Facet]


class SearchAnswer(Answer):
    query: str
    retriever: str
    confidence: Annotated[float, Described("That there is an answer: of the best of ten hits.", 0, 1)] | None
    hits: list[ServedHit]
    marks: dict[str, str]  # Of these hits, by id: answer or wrong.
    nodes: NotRequired[dict[str, Shown]]  # The nodes on paths, by id.
    facets: NotRequired[Facets]
    note: str  # That nothing matches well or has the number asked for, or why words alone were searched; else empty.
    did_you_mean: str  # The query without misspelt words, where no passage has a word of it; else empty.
    also: list[str]  # Searched for besides the query: synonyms, and forms of abbreviations.
    took_ms: Annotated[float, Described(least=0)]
    next_offset: NextOffset


class MarkAnswer(Answer):
    query: str
    id: str
    mark: str


class SimilarAnswer(Answer):
    id: str
    hits: list[ServedHit]
    nodes: NotRequired[dict[str, Shown]]  # The nodes on paths, by id.


class Linked(Shown):
    id: str
    date: Date


class Neighbour(Linked):
    relation: str


class CardAnswer(Answer, Linked):
    """What is read of a reference without following it; `html` is its statement, or the start of it."""

    defined_in: Linked | None  # Of a concept.
    document: DocumentRecord | None


class Named(TypedDict):
    id: str
    name: str
    kind: str


class Titled(TypedDict):
    id: str
    title: str


class SummaryRecord(TypedDict):
    text: str
    html: str
    author: str


class Work(TypedDict):
    name: str  # As it stands in the text.
    html: str  # Its entry in the bibliography as safe HTML.


class PredictedLink(TypedDict):
    source: str
    relation: str
    target: str
    probability: Annotated[float, Described("Null where it was confirmed and is no longer predicted.", 0, 1)] | None
    confirmed: bool
    other: Linked  # The log or location at the other end.


class PassageAnswer(Answer):
    id: str
    kind: str
    number: str  # As its document prints it; empty where it has none.
    printed: Printed
    title: str  # Of a part of a manual, the heading that it stands below.
    title_html: TitleHtml
    name: Name
    name_html: NameHtml
    text: str  # With formulas between dollars.
    html: str  # The text as safe HTML with MathML.
    proof: str
    proof_name: str  # Proof, or Solution of an exercise.
    proof_html: str
    section: str
    section_html: TitleHtml
    file: str
    line: Line
    last_line: Line
    date: Date
    location: list[str]
    places: list[Titled]  # Its location with all above it, the root first.
    document: DocumentRecord
    uses: list[Neighbour]
    used_by: list[Neighbour]
    concepts: list[Named]
    works: list[Work]  # Cited works that the corpus does not have.
    summaries: list[SummaryRecord]
    earlier: list[Neighbour]
    later: list[Neighbour]
    thread: list[Neighbour]  # A log and those that it follows up or is followed up by, the oldest first.
    predicted: list[PredictedLink]  # Of a log.
    previous: Linked | None  # The passage before it in the document.
    next: Linked | None
    place: Count | None  # Among the passages of its document, from 0; null in a table.
    bibtex: str
    latex: str  # A citation of the passage.
    latex_text: str  # Text and proof as LaTeX that compiles with amsmath.
    metadata: dict[str, Any]


class StartAnswer(Answer):
    examples: list[str]  # Queries to try.
    added: list[Neighbour]  # The documents that were read last, or the newest logs; empty where all came at once.


class NearNode(Shown):
    id: str


class NearAnswer(Answer):
    near: list[NearNode]  # The most alike first.


class BridgesAnswer(Answer):
    bridges: list[list[Named]]  # Concepts on a remarkable path, from its first to its last.


class Completion(TypedDict):
    what: Literal["concept", "title", "document", "author", "location"]
    name: str
    id: str  # Of an author the name.
    kind: str


class CompletionsAnswer(Answer):
    names: list[Completion]


class BridgeAnswer(Answer):
    source: str
    target: str
    paths: list[BridgePath]  # Shortest first.
    passages: list[BridgePassage]
    nodes: dict[str, Shown]  # The nodes on paths, by id.


class FoundConcept(Named):
    aliases: list[str]
    passages: Count


class ConceptsAnswer(Answer):
    concepts: list[FoundConcept]  # The most telling first.


class Relation(TypedDict):
    source: str
    relation: str
    target: str
    name: str  # That of the other concept.
    evidence: list[str]  # Passages that state it.
    makers: list[str]  # Rules or models that found it.


class ConceptAnswer(Answer, Named):
    description: str
    html: str  # The description as safe HTML.
    aliases: list[str]
    definition: Neighbour | None
    relations: list[Relation]
    nodes: dict[str, Shown]  # The passages that state relations, by id.
    passages: list[Neighbour]
    passages_in_all: Count


class GraphNode(Shown):
    id: str
    distance: Annotated[float, Described(least=0)]


class GraphEdge(TypedDict):
    source: str
    target: str
    relation: str
    length: Annotated[float, Described(least=0)]
    probability: Annotated[float, Described("Of a predicted link that nobody confirmed; else null.", 0, 1)] | None


class GraphAnswer(Answer):
    id: str
    nodes: list[GraphNode]  # Nearest first.
    edges: list[GraphEdge]


class ListedDocument(DocumentRecord):
    passages: Count


class ListedPlace(Titled):
    passages: Count


class ListedPassage(Shown):
    id: str
    section: str
    section_html: TitleHtml
    date: Date
    location: list[str]
    is_follow_up: bool  # Of a log at a location: it is in the thread of the one before it.
    file: str
    line: Line
    proof_name: NotRequired[str]  # Proof, or Solution of an exercise.
    proof_html: NotRequired[str]  # With the whole text as `html`, where it was asked for.


class ContentsEntry(TypedDict):
    level: Count  # 0 for a part, 1 for a chapter, 2 for a section, …
    number: str
    title: str
    title_html: TitleHtml
    place: Count  # Of the first passage below it, from 0.
    passages: Count  # Directly below it.


class DocumentsAnswer(Page):
    documents: list[ListedDocument]
    locations: list[ListedPlace]  # The sections of a plant, with the logs in them.


class DocumentAnswer(Page):
    document: DocumentRecord
    above: list[ListedPlace]  # Of a location: those above it, the root first.
    parts: list[ListedPlace]  # Of a location: those that are part of it.
    contents: list[ContentsEntry]  # The headings of a document, in order.
    passages: list[ListedPassage]  # In the order of the document; logs of a location: the newest thread first.


class PlantLog(Linked):
    location: list[str]
    follows: list[str]  # Ids of logs.
    predicted: list[PredictedLink]


class Thread(TypedDict):
    logs: list[PlantLog]  # The oldest first.


class Bar(TypedDict):
    since: str
    until: str
    logs: Count


class Times(TypedDict):
    unit: Literal["week", "month", "year"]  # A bar may be several years.
    bars: list[Bar]  # Without a gap.


class HistoryAnswer(Page):
    id: str
    title: str
    above: list[ListedPlace]  # The root first.
    parts: list[ListedPlace]
    logs: Count  # About it and everything below it.
    times: Times
    threads: list[Thread]  # The newest first; `total` counts them.
    probable: list[PlantLog]  # Predicted to report about it, the most probable first.


class ConfirmAnswer(Answer):
    source: str
    relation: str
    target: str
    confirmed: bool


class MapRegion(TypedDict):
    """What a part of the map is called: a concept that its passages mention, or a location that they report about."""

    id: str
    name: str
    x: Count
    y: Count
    level: Count  # 0 where the whole map is seen; each next one has regions of half the size.


class MapAnswer(Answer):
    """Where each passage lies in the plane; numbers are little-endian and unsigned, of 16 bits, in base64."""

    points: Count
    x: str
    y: str
    kind: str
    document: str
    category: str
    chapter: str  # Of a paper, its section.
    date: str  # A month, a year or a decade.
    names: dict[str, list[str]]  # Of the codes, by kind, document, category, chapter and date.
    titles: dict[str, list[str]]
    regions: list[MapRegion]  # The coarsest first.
    method: str


class MapPassage(Shown):
    row: Count
    id: str
    document: str
    date: Date


class MapPlace(TypedDict):
    x: Count
    y: Count
    row: Count | None  # Of a passage.


class MapPlacesAnswer(Answer):
    places: dict[str, MapPlace]  # By id; of a concept or location the middle of its passages.


class MapPassagesAnswer(Answer):
    passages: list[MapPassage]


class HealthAnswer(Answer):
    status: Literal["ok", "degraded"]
    name: str  # That of the workspace.
    passages: Count
    documents: Count
    kinds: dict[str, Count]
    skipped: Count  # Inputs that were skipped.
    skips: list[Skip]  # The first 200.
    retrievers: list[str]
    encoders: list[str]  # Those that have vectors, the default one first.
    vectors: list[dict[str, Any]]  # As in lemmata info.
    language: str
    graph: dict[str, Any]
    model: str  # The language model that writes answers; empty without one.
    log: str  # What the log of judgments keeps: off, marks, queries or openings.
    note: str  # Why words alone are searched; else empty.
    problems: list[str]  # What is missing, out of date or damaged, each with its cure.


Time = Annotated[float, Described("Seconds since 1970.", 0)] | None


class Evaluation(TypedDict):
    when: Time
    task: str
    queries: Count
    rows: list[dict[str, Any]]  # Name of a retriever, and its values by measure.


class MarkCounts(TypedDict):
    queries: Count
    asked: Count  # With those that were asked again.
    last_query: Time
    marks: dict[str, Count]  # By answer, wrong and opened.
    last_mark: Time


class Adaptation(TypedDict):
    when: Time
    measure: str
    queries: dict[str, Count]  # Held out, by task.
    learned_from: Count  # Marked queries.
    rows: list[dict[str, Any]]  # Name of a candidate, what auto weighs in it, and its values by task.
    adopted: str  # The name of a candidate, or empty.
    undone: Time  # When it was taken back.
    notes: list[str]


class QualityAnswer(Answer):
    fitted: Time  # When auto was fitted.
    evaluation: Evaluation | None  # Of the last lemmata run.
    marks: MarkCounts
    adaptations: list[Adaptation]  # Runs of lemmata adapt, the last first; ten at most.


class StepRecord(TypedDict):
    name: str
    state: Literal["ready", "now", "next", "failed"]
    seconds: float  # That it took, or takes so far.
    what: str  # Is being done now.
    done: Count
    total: Count | None
    rate: float | None  # Per second.


class ProgressAnswer(TypedDict):
    state: Literal["ready", "working", "failed"]
    line: str  # For people; empty where nothing is being made.
    steps: list[StepRecord]
    problems: list[str]
    served: bool  # Whether the server makes the workspace itself, from the folders that it was given.
    generation: Count  # 0 while nothing can be searched.


class Model(TypedDict):
    id: str
    object: str
    created: Count
    owned_by: str


class ModelsAnswer(TypedDict):
    object: str
    data: list[Model]


class Embedding(TypedDict):
    object: str
    index: Count
    embedding: list[float] | Annotated[str, Described("Little-endian 32-bit floats in base64.")]


class EmbeddingsAnswer(TypedDict):
    object: str
    data: list[Embedding]
    model: str
    usage: dict[str, Count]  # Estimated.


class Failure(TypedDict):
    code: str  # A short name for programs.
    message: str  # What is wrong.
    cure: str  # What to do about it.


class FailedAnswer(TypedDict):
    error: Failure


# ---------------------------------------------------------------- making them


def hit_records(
    hits: Iterable[Hit], date_of: Callable[[str], str | None], *, first_rank: int = 1
) -> list[dict[str, Any]]:
    """As `lemmata search --json` prints them; a passage without a date has its document's, by `date_of`."""
    passages = [(hit, hit.passage) for hit in hits if hit.passage]
    return [
        {
            "rank": rank,
            "id": hit.id,
            "score": hit.score,
            "kind": passage.kind,
            "number": passage.number,
            "printed": passage.printed,
            "document": passage.document,
            "title": passage.title,
            "text": passage.text,
            "path": as_json(hit.path),
            "file": passage.file,
            "line": passage.first_line or None,
            "last_line": passage.last_line or None,
            "date": passage.date or date_of(passage.document),
            "section": passage.section,
            "location": list(passage.locations),
            "repeats": list(hit.repeats),
            "cites": hit.cites,
            "confidence": hit.confidence,
        }
        for rank, (hit, passage) in enumerate(passages, first_rank)
    ]


def numbered(record: Mapping[str, Any]) -> str:
    """The kind or printed name of a record with its number: theorem 4.2."""
    return f"{record.get('printed') or record['kind']} {record.get('number', '')}".strip()


def on_one_line(text: str) -> str:
    """A text without line breaks; a title that stands above a paragraph ends in a full stop.

    Items of lists have a bullet, rows of tables a semicolon between them.
    """
    if "\n" in text:
        text = PARAGRAPH.sub(lambda match: _flat(match[0]) if is_listed(match[0]) else match[0], text)
    return " ".join(_BELOW_TITLE.sub(". ", text).split())


def _flat(listed: str) -> str:
    if ITEM.match(listed):
        return BULLET.sub(r"\1• ", listed)
    return CELLS.sub(lambda cell: cell["formula"] or ", ", listed).replace("\n", "; ")


def short_text(text: str, length: int = _SHORT) -> str:
    """The start of a text on one line, of about so many signs; a formula that would be cut is left out.

    A command is one sign, as in what is read; a formula at the very start may be longer, or nothing would be left.
    """
    line = on_one_line(text[: 20 * length])
    at, room = 0, length
    for begin, end in [*formulas(line), (len(line), len(line))]:
        if begin - at > room:
            start = line[at : at + room]
            return f"{line[:at]}{start.rpartition(' ')[0] or (start if not at else '')}".rstrip() + " …"
        room -= begin - at
        size = len(_SIGN.findall(line, begin, end))
        if size > (room if begin else 2 * room):
            return f"{line[:begin].rstrip()} …"
        at, room = end, max(0, room - size)
    return line if len(text) <= 20 * length else f"{line} …"
