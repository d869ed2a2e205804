"""The endpoints of the REST API with their schemas, and the OpenAPI document that is made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from lemmata.search.encoder_index import LONGEST_QUERY
from lemmata.server.schemas import Schema, array_of, integer, nullable, number, object_of, string

DEEPEST = 1000  # hits that can be reached by paging
LONGEST_ID = 2000
MOST_HITS = 100
ID = string(shortest=1, longest=LONGEST_ID)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation; `name` is that of the function which answers it."""

    method: str
    path: str  # {id} stands for an id with percent-encoded / # and @
    name: str
    summary: str
    answer: Schema | None = None
    parameters: Mapping[str, Schema] = field(default_factory=dict)  # of the query string
    required: tuple[str, ...] = ()  # of the parameters
    body: Schema | None = None
    media: str = "application/json"  # of the answer
    statuses: tuple[int, ...] = ()  # of errors, besides those that all endpoints have


# ---------------------------------------------------------------- records

_TEXT = string()


_DATE = nullable(string("ISO date."))
_COUNT = integer(least=0)
_LINE = nullable(integer(least=1))
_GENERATION = integer("Number of the state of the workspace; it grows when a rebuilt one is taken over.", least=1)
_IDS = array_of(string(), "Ids.")
_STEP = object_of({"source": _TEXT, "target": _TEXT, "relation": _TEXT, "length": number(least=0)})
_HIT_FIELDS: Mapping[str, Schema] = {
    "rank": integer(least=1),
    "id": _TEXT,
    "score": number("Higher is better; the scale depends on the retriever."),
    "kind": _TEXT,
    "document": _TEXT,
    "title": _TEXT,
    "text": _TEXT,
    "path": array_of(_STEP, "The way through the graph that leads to the hit."),
    "file": _TEXT,
    "line": _LINE,
    "last_line": _LINE,
    "date": _DATE,
    "section": _TEXT,
    "location": array_of(_TEXT),
    "repeats": array_of(_TEXT, "Ids of passages with the same text."),
    "document_title": _TEXT,
}
_EXCERPT = string("An excerpt as safe HTML with MathML, where it was asked for.")
_TITLE_HTML = string("The title as safe HTML where it has formulas; else empty.")
_HIT = object_of(
    {**_HIT_FIELDS, "html": _EXCERPT, "title_html": _TITLE_HTML, "document_title_html": _TITLE_HTML},
    required=list(_HIT_FIELDS),
)
_FACET = array_of(object_of({"value": _TEXT, "count": _COUNT}))
_TITLED_FACET = array_of(object_of({"value": _TEXT, "count": _COUNT, "title": _TEXT}))
_DOCUMENT = object_of(
    {
        "id": _TEXT,
        "title": _TEXT,
        "authors": array_of(_TEXT),
        "date": _DATE,
        "categories": array_of(_TEXT),
        "kind": _TEXT,
    }
)
_SHOWN: Mapping[str, Schema] = {
    "kind": _TEXT,
    "title": _TEXT,
    "title_html": _TITLE_HTML,
    "excerpt": _TEXT,
    "html": string("The excerpt as safe HTML."),
}
_NEIGHBOUR = object_of({"id": _TEXT, **_SHOWN, "relation": _TEXT, "date": _DATE})
_NEIGHBOURS = array_of(_NEIGHBOUR)
_NAMED = object_of({"id": _TEXT, "name": _TEXT, "kind": _TEXT})
_PASSAGE = object_of(
    {
        "id": _TEXT,
        "kind": _TEXT,
        "title": _TEXT,
        "title_html": _TITLE_HTML,
        "text": string("With formulas between dollars."),
        "html": string("The text as safe HTML with MathML."),
        "proof": _TEXT,
        "proof_html": _TEXT,
        "section": _TEXT,
        "file": _TEXT,
        "line": _LINE,
        "last_line": _LINE,
        "date": _DATE,
        "location": array_of(_TEXT),
        "places": array_of(object_of({"id": _TEXT, "title": _TEXT}), "Its location with all above it, the root first."),
        "document": _DOCUMENT,
        "uses": _NEIGHBOURS,
        "used_by": _NEIGHBOURS,
        "concepts": array_of(_NAMED),
        "summaries": array_of(object_of({"text": _TEXT, "html": _TEXT, "author": _TEXT})),
        "earlier": _NEIGHBOURS,
        "later": _NEIGHBOURS,
        "previous": nullable(string("Id of the passage before it in the document.")),
        "next": nullable(_TEXT),
        "bibtex": _TEXT,
        "latex": string("A citation of the passage."),
        "latex_text": string("Text and proof as LaTeX that compiles with amsmath."),
        "metadata": {"type": "object"},
        "generation": _GENERATION,
    }
)
_NODES = {
    "type": "object",
    "description": "The nodes on paths, by id.",
    "additionalProperties": object_of(_SHOWN),
}
_BRIDGE_STEP = object_of(
    {"source": _TEXT, "target": _TEXT, "relation": _TEXT, "length": number(least=0), "evidence": array_of(_TEXT)}
)
_BRIDGE = object_of(
    {
        "source": _TEXT,
        "target": _TEXT,
        "paths": array_of(
            object_of(
                {
                    "length": number(least=0),
                    "coherence": number("The smallest cosine of two neighbours."),
                    "expected": number("Such paths in a random graph with the same degrees.", least=0),
                    "steps": array_of(_BRIDGE_STEP),
                }
            ),
            "Shortest first.",
        ),
        "passages": array_of(object_of({"id": _TEXT, "score": number(), "paths": array_of(integer(least=1))})),
        "nodes": _NODES,
        "generation": _GENERATION,
    }
)
_CONCEPT = object_of(
    {
        "id": _TEXT,
        "name": _TEXT,
        "kind": _TEXT,
        "description": _TEXT,
        "html": string("The description as safe HTML."),
        "aliases": array_of(_TEXT),
        "definition": {"oneOf": [_NEIGHBOUR, {"type": "null"}]},
        "relations": array_of(
            object_of(
                {
                    "source": _TEXT,
                    "relation": _TEXT,
                    "target": _TEXT,
                    "name": string("That of the other concept."),
                    "evidence": array_of(_TEXT, "Passages that state it."),
                    "makers": array_of(_TEXT, "Rules or models that found it."),
                }
            )
        ),
        "passages": _NEIGHBOURS,
        "passages_in_all": _COUNT,
        "generation": _GENERATION,
    }
)
_GRAPH = object_of(
    {
        "id": _TEXT,
        "nodes": array_of(object_of({"id": _TEXT, "distance": number(least=0), **_SHOWN}), "Nearest first."),
        "edges": array_of(_STEP),
        "generation": _GENERATION,
    }
)
_PAGING = {"total": _COUNT, "next_offset": nullable(integer(least=1)), "generation": _GENERATION}
_PLACES = array_of(object_of({"id": _TEXT, "title": _TEXT, "passages": _COUNT}))
_OUTLINE = {
    "oneOf": [
        object_of(
            {
                "documents": array_of(object_of({**_DOCUMENT["properties"], "passages": _COUNT})),
                "locations": {**_PLACES, "description": "The sections of a plant, with the logs in them."},
                **_PAGING,
            }
        ),
        object_of(
            {
                "document": _DOCUMENT,
                "above": {**_PLACES, "description": "Of a location: those above it, the root first."},
                "parts": {**_PLACES, "description": "Of a location: those that are part of it."},
                "passages": array_of(
                    object_of(
                        {
                            "id": _TEXT,
                            **_SHOWN,
                            "section": _TEXT,
                            "date": _DATE,
                            "location": array_of(_TEXT),
                            "file": _TEXT,
                            "line": _LINE,
                        }
                    ),
                    "In the order of the document; those of a location are its logs, the newest first.",
                ),
                **_PAGING,
            }
        ),
    ]
}
_HEALTH = object_of(
    {
        "status": string(enum=["ok", "degraded"]),
        "name": string("That of the workspace."),
        "generation": _GENERATION,
        "passages": _COUNT,
        "documents": _COUNT,
        "kinds": {"type": "object", "additionalProperties": _COUNT},
        "skipped": integer("Inputs that were skipped.", least=0),
        "skips": array_of(object_of({"file": _TEXT, "line": _COUNT, "cause": _TEXT}), "The first 200."),
        "retrievers": array_of(_TEXT),
        "encoders": array_of(_TEXT, "Those that have vectors, the default one first."),
        "vectors": array_of({"type": "object"}, "As in lemmata info."),
        "language": _TEXT,
        "graph": {"type": "object"},
        "model": string("The language model that writes answers; empty without one."),
        "note": string("Why words alone are searched; else empty."),
        "problems": array_of(_TEXT, "What is missing, out of date or damaged, each with its cure."),
    }
)
_MODEL = object_of({"id": _TEXT, "object": _TEXT, "created": _COUNT, "owned_by": _TEXT})
_MODELS = object_of({"object": _TEXT, "data": array_of(_MODEL)})
_EMBEDDINGS = object_of(
    {
        "object": _TEXT,
        "data": array_of(
            object_of(
                {
                    "object": _TEXT,
                    "index": _COUNT,
                    "embedding": {"oneOf": [array_of(number()), string("Little-endian 32-bit floats in base64.")]},
                }
            )
        ),
        "model": _TEXT,
        "usage": object_of({"prompt_tokens": _COUNT, "total_tokens": _COUNT}, "Estimated."),
    }
)
_ERROR = object_of(
    {
        "error": object_of(
            {
                "code": string("A short name for programs."),
                "message": string("What is wrong."),
                "cure": string("What to do about it."),
            }
        )
    }
)


# ---------------------------------------------------------------- requests

_K = integer("Number of results.", least=1, most=MOST_HITS, default=10)


_HTML = {"type": "boolean", "default": False, "description": "Whether hits have an excerpt as HTML."}
_NAMES = array_of(string(longest=LONGEST_ID), most=100)
_FILTER = object_of(
    {
        "kinds": _NAMES,
        "documents": _NAMES,
        "categories": _NAMES,
        "since": string("ISO date, or the start of one.", longest=40),
        "until": string("ISO date, or the start of one.", longest=40),
        "locations": _NAMES,
        "ids": array_of(string(longest=LONGEST_ID), "Ids of passages; unknown ones are ignored.", most=5000),
        "where": {
            "type": "object",
            "description": "Columns of the metadata with their values.",
            "additionalProperties": string(longest=LONGEST_ID),
            "maxProperties": 20,
        },
    },
    "Restricts the search; several values of one field are alternatives.",
    required=(),
)
_EMBEDDED = string(shortest=1, longest=200_000)
_SEARCH = object_of(
    {
        "query": string("What to search for.", shortest=1, longest=LONGEST_QUERY),
        "k": _K,
        "offset": integer("Hits to leave out.", least=0, most=DEEPEST - MOST_HITS, default=0),
        "retriever": string("One of those that /health names.", longest=200, default="auto"),
        "paths": {"type": "boolean", "default": False, "description": "Whether hits have their path."},
        "diversity": number("0: most relevant; up to 1: most varied.", least=0, most=1, default=0),
        "facets": {"type": "boolean", "default": False, "description": "Whether the first 200 hits are counted."},
        "html": _HTML,
        "filter": _FILTER,
    },
    required=("query",),
)
ENDPOINTS = (
    Endpoint(
        "POST",
        "/search",
        "search",
        "Search the corpus",
        object_of(
            {
                "query": _TEXT,
                "retriever": _TEXT,
                "hits": array_of(_HIT),
                "nodes": _NODES,
                "facets": object_of(
                    {
                        **dict.fromkeys(("kinds", "categories", "years"), _FACET),
                        **dict.fromkeys(("documents", "locations"), _TITLED_FACET),
                    }
                ),
                "note": string("Why words alone were searched; else empty."),
                "took_ms": number(least=0),
                "next_offset": nullable(integer("Where the next page begins; null on the last one.", least=1)),
                "generation": _GENERATION,
            },
            required=("query", "retriever", "hits", "note", "took_ms", "next_offset", "generation"),
        ),
        body=_SEARCH,
    ),
    Endpoint("GET", "/passages/{id}", "passage", "Everything about a passage", _PASSAGE, statuses=(404,)),
    Endpoint(
        "GET",
        "/similar/{id}",
        "similar",
        "The passages nearest to a passage",
        object_of({"id": _TEXT, "hits": array_of(_HIT), "generation": _GENERATION}),
        parameters={"k": _K, "html": _HTML},
        statuses=(404,),
    ),
    Endpoint(
        "GET",
        "/concepts",
        "concepts",
        "Look up concepts by the start of a name",
        object_of(
            {
                "concepts": array_of(
                    object_of(
                        {"id": _TEXT, "name": _TEXT, "kind": _TEXT, "aliases": array_of(_TEXT), "passages": _COUNT}
                    ),
                    "The most mentioned first.",
                ),
                "generation": _GENERATION,
            }
        ),
        parameters={
            "prefix": string("The start of a name or of a word in it.", longest=200, default=""),
            "k": integer("Number of concepts.", least=1, most=MOST_HITS, default=20),
        },
    ),
    Endpoint("GET", "/concepts/{id}", "concept", "Everything about a concept", _CONCEPT, statuses=(404,)),
    Endpoint(
        "POST",
        "/bridge",
        "bridge",
        "Paths between two ideas",
        _BRIDGE,
        body=object_of(
            {
                "source": string(
                    "An id of the graph, the name of a concept, or a text.", shortest=1, longest=LONGEST_ID
                ),
                "target": string("The same.", shortest=1, longest=LONGEST_ID),
                "k": integer("Number of paths.", least=1, most=20, default=5),
            },
            required=("source", "target"),
        ),
    ),
    Endpoint(
        "GET",
        "/graph/{id}",
        "graph_around",
        "The graph around a node",
        _GRAPH,
        parameters={"limit": integer("Number of nodes.", least=1, most=500, default=50)},
        statuses=(404,),
    ),
    Endpoint(
        "GET",
        "/outline",
        "outline",
        "The documents, or the passages of one",
        _OUTLINE,
        parameters={
            "document": string("Id of a document; empty for the list of all.", longest=LONGEST_ID, default=""),
            "offset": integer("Entries to leave out.", least=0, most=10**9, default=0),
            "k": integer("Number of entries.", least=1, most=1000, default=50),
        },
        statuses=(404,),
    ),
    Endpoint(
        "GET",
        "/map",
        "map",
        "Where each passage lies in the plane; numbers are little-endian and unsigned, of 16 bits, in base64",
        object_of(
            {
                "points": _COUNT,
                **dict.fromkeys(("x", "y", "kind", "document", "category"), _TEXT),
                "names": object_of(dict.fromkeys(("kind", "document", "category"), array_of(_TEXT)), "Of the codes."),
                "titles": object_of(dict.fromkeys(("document", "category"), array_of(_TEXT))),
                "method": _TEXT,
                "generation": _GENERATION,
            }
        ),
    ),
    Endpoint(
        "GET",
        "/map/passages",
        "map_passages",
        "Short records of passages by their rows",
        object_of(
            {
                "passages": array_of(object_of({"row": _COUNT, "id": _TEXT, "document": _TEXT, **_SHOWN})),
                "generation": _GENERATION,
            }
        ),
        parameters={"rows": string("Comma-separated.", longest=2400, pattern=r"^[0-9]{1,11}(,[0-9]{1,11})*$")},
        required=("rows",),
        statuses=(404,),
    ),
    Endpoint(
        "POST",
        "/ask",
        "ask",
        "An answer with citations, as server-sent events: passages, text, sentence, then done or error",
        body=object_of(
            {
                "question": string("What to answer.", shortest=1, longest=LONGEST_QUERY),
                "k": integer("Passages that the model is shown; default: as configured.", least=1, most=50),
            },
            required=("question",),
        ),
        media="text/event-stream",
    ),
    Endpoint(
        "POST",
        "/v1/embeddings",
        "embeddings",
        "Vectors of texts, as in OpenAI's API",
        _EMBEDDINGS,
        body=object_of(
            {
                "input": {
                    "oneOf": [_EMBEDDED, array_of(_EMBEDDED, most=512, minItems=1)],
                    "description": "A text or a list of texts.",
                },
                "model": string("One of those that /v1/models lists.", longest=LONGEST_ID),
                "encoding_format": string(enum=["float", "base64"], default="float"),
                "dimensions": integer("Keep the first dimensions only.", least=1, most=1 << 16),
                "input_type": string(
                    "What the texts are; some encoders treat queries in another way.",
                    enum=["query", "passage"],
                    default="passage",
                ),
                "user": string("Accepted as in OpenAI's API, and not used.", longest=LONGEST_ID),
            },
            required=("input", "model"),
        ),
        statuses=(404,),
    ),
    Endpoint("GET", "/v1/models", "models", "The encoders that have vectors", _MODELS),
    Endpoint("GET", "/v1/models/{id}", "model", "One of these encoders", _MODEL, statuses=(404,)),
    Endpoint("GET", "/health", "health", "What is served, and what is out of order", _HEALTH),
    Endpoint("GET", "/metrics", "metrics", "Counters and times in the text format of Prometheus", media="text/plain"),
    Endpoint("GET", "/openapi.json", "openapi", "This document", {"type": "object"}),
)


# ---------------------------------------------------------------- the document

_MEANINGS = {
    400: "The request cannot be answered as it is.",
    401: "The token is missing or wrong.",
    403: "A page of another origin may not ask.",
    404: "There is nothing of this id.",
    408: "The body came too slowly.",
    409: "The workspace lacks something.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The Host header names another server.",
    422: "The body or a parameter does not fit its schema.",
    500: "An error of the server.",
    501: "The server has no such part installed.",
    503: "Too many requests at once, or the answer took too long; try again.",
}


_ALWAYS = (400, 401, 403, 409, 421, 422, 500, 501, 503)


def document() -> dict[str, Any]:
    """The OpenAPI document of all endpoints."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "lemmata",
            "version": version("lemmata"),
            "description": "Search in a corpus and its graph. Errors have a code, a message and a cure.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "query", "required": name in endpoint.required, "schema": schema}
        for name, schema in endpoint.parameters.items()
    ]
    if "{id}" in endpoint.path:
        description = "An id, percent-encoded."
        parameters.append({"name": "id", "in": "path", "required": True, "schema": ID, "description": description})
    content = {endpoint.media: {"schema": endpoint.answer} if endpoint.answer else {}}
    more = (408, 413, 415) if endpoint.body else ()
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "content": content},
            **{
                str(status): {"description": _MEANINGS[status], "content": failed}
                for status in sorted({*_ALWAYS, *more, *endpoint.statuses})
            },
        },
    }
    if endpoint.body:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": endpoint.body}}}
    return operation
