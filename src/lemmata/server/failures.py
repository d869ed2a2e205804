"""Errors as a status and a record with a code, a message and a cure."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from lemmata.core.errors import InputError, LemmataError, MissingExtra, WorkspaceError
from lemmata.server.service import NotReady
from lemmata.server.views import UnknownIdError

_log = logging.getLogger("lemmata.server")


class StatusError(Exception):
    """A request that is refused with a status of HTTP."""

    def __init__(
        self, status: int, code: str, message: str, cure: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.cure, self.headers = status, code, message, cure, headers or {}


_STATUSES: tuple[tuple[type[Exception], int, str, str], ...] = (
    (UnknownIdError, 404, "not_found", "take an id from /search, /outline or /concepts"),
    (MissingExtra, 501, "missing_extra", "install what is missing"),
    (NotReady, 503, "starting", "try again in a moment; /v1/progress says how far it is"),
    (WorkspaceError, 409, "workspace", "run the command that is named; the server takes over the result"),
    (InputError, 422, "invalid", "send what the schema in /openapi.json asks for"),
    (LemmataError, 400, "refused", "change the request"),
)


def error_record(code: str, message: str, cure: str) -> dict[str, Any]:
    """The body of an answer to a request that failed."""
    return {"error": {"code": code, "message": message, "cure": cure}}


def describe_error(error: Exception) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    """Status, body and headers for an error; one that is no user's error is logged, and tells nothing."""
    if isinstance(error, StatusError):
        return error.status, error_record(error.code, error.message, error.cure), error.headers
    for kind, status, code, cure in _STATUSES:
        if isinstance(error, kind):
            message, advice = _split(str(error))
            if not advice and "(there are: " in message:
                advice = "take one of these names"
            headers = {"retry-after": "2"} if status == 503 else {}
            return status, error_record(code, message, advice or cure), headers
    _log.error("a request failed", exc_info=error)
    return 500, error_record("internal", "an error of the server", "report it, with what the server has logged"), {}


def _split(sentence: str) -> tuple[str, str]:
    """A message of lemmata as what is wrong and what to do, where a colon or semicolon parts the two."""
    match = re.fullmatch(r"""((?:[^('"]|'[^']*'|"[^"]*")*?)[:;] (.+)""", sentence, re.DOTALL)
    return (match[1], match[2]) if match else (sentence, "")
