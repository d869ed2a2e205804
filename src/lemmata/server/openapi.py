"""The endpoints of the REST API, and the OpenAPI document that is made from the functions which answer them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

from lemmata.core.records import Schema, parameters_of, schema_of
from lemmata.server import records
from lemmata.server.service import Service


def metrics() -> None:
    """Counters and times in the text format of Prometheus."""


def openapi() -> None:
    """This document."""


class Endpoint(NamedTuple):
    """One operation; the parameters of the function are those of a GET, or the body of a POST."""

    method: str
    path: str  # {id} stands for an id with percent-encoded / # and @
    function: Callable[..., Any]
    record: Any = None  # what the answer is
    media: str = "application/json"

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def answer(self) -> Schema | None:
        return schema_of(self.record) if self.record else None


ENDPOINTS = (
    Endpoint("POST", "/search", Service.search, records.SearchAnswer),
    Endpoint("GET", "/start", Service.start, records.StartAnswer),
    Endpoint("GET", "/complete", Service.complete, records.CompletionsAnswer),
    Endpoint("GET", "/bridges", Service.bridges, records.BridgesAnswer),
    Endpoint("GET", "/near/{id}", Service.near, records.NearAnswer),
    Endpoint("POST", "/mark", Service.mark, records.MarkAnswer),
    Endpoint("GET", "/passages/{id}", Service.passage, records.PassageAnswer),
    Endpoint("GET", "/cards/{id}", Service.card, records.CardAnswer),
    Endpoint("POST", "/similar", Service.similar, records.SimilarAnswer),
    Endpoint("GET", "/concepts", Service.concepts, records.ConceptsAnswer),
    Endpoint("GET", "/concepts/{id}", Service.concept, records.ConceptAnswer),
    Endpoint("POST", "/bridge", Service.bridge, records.BridgeAnswer),
    Endpoint("GET", "/graph/{id}", Service.graph_around, records.GraphAnswer),
    Endpoint("GET", "/outline", Service.outline, records.DocumentsAnswer | records.DocumentAnswer),
    Endpoint("GET", "/history/{id}", Service.history, records.HistoryAnswer),
    Endpoint("POST", "/confirm", Service.confirm, records.ConfirmAnswer),
    Endpoint("GET", "/map", Service.map, records.MapAnswer),
    Endpoint("GET", "/map/passages", Service.map_passages, records.MapPassagesAnswer),
    Endpoint("POST", "/map/places", Service.map_places, records.MapPlacesAnswer),
    Endpoint("POST", "/ask", Service.ask, media="text/event-stream"),
    Endpoint("POST", "/v1/embeddings", Service.embeddings, records.EmbeddingsAnswer),
    Endpoint("GET", "/v1/models", Service.models, records.ModelsAnswer),
    Endpoint("GET", "/v1/models/{id}", Service.model, records.Model),
    Endpoint("GET", "/health", Service.health, records.HealthAnswer),
    Endpoint("GET", "/quality", Service.quality, records.QualityAnswer),
    Endpoint("GET", "/v1/progress", Service.progress, records.ProgressAnswer),
    Endpoint("GET", "/metrics", metrics, media="text/plain"),
    Endpoint("GET", "/openapi.json", openapi, dict),
)
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
_ABOUT_A_BODY = (408, 413, 415)


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
            "schemas": {"Error": schema_of(records.FailedAnswer)},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    schema = parameters_of(endpoint.function)
    has_body = endpoint.method == "POST"
    parameters = [
        {
            "name": "id" if name == "identity" else name,
            "in": "path" if name == "identity" else "query",
            "required": name in schema.get("required", ()),
            "schema": member,
        }
        for name, member in (schema["properties"] if not has_body else {}).items()
    ]
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": (endpoint.function.__doc__ or "").partition("\n")[0],
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {endpoint.media: {"schema": endpoint.answer} if endpoint.record else {}},
            },
            **{
                str(status): {"description": meaning, "content": failed}
                for status, meaning in _MEANINGS.items()
                if has_body or status not in _ABOUT_A_BODY
            },
        },
    }
    if has_body:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation
