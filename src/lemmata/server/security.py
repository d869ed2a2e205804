"""Who may ask: the Host and Origin of a request, its token, and the headers that every answer carries."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lemmata.core.errors import ConfigError

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    code: str
    message: str
    cure: str
    headers: Mapping[str, str] = field(default_factory=dict)


_FOREIGN = Refusal(403, "foreign_origin", "a page of another origin may not ask", "allow its origin with --cors ORIGIN")


def is_loopback(host: str) -> bool:
    """Whether an address reaches this machine only."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_binding(host: str, token: str) -> None:
    """ConfigError for an address that others can reach, without a token."""
    if not is_loopback(host) and len(token) < _SHORTEST_TOKEN:
        raise ConfigError(
            f"--host {host} can be reached by others: protect it with --token, at least {_SHORTEST_TOKEN} characters,"
            " for example from 'openssl rand -hex 16'"
        )


_SHORTEST_TOKEN = 16


class Access:
    """Decides on requests; `host` is the address that the server listens on.

    A web page of another host can send requests to a server on loopback, under a name that it lets point there (DNS
    rebinding). Such a request has the name in its Host header, so only addresses and known names are served.
    """

    def __init__(self, host: str, *, token: str = "", names: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        self._token = token.encode()
        self._only_loopback = is_loopback(host)
        self._names = {"localhost", host.casefold().strip("[]"), *(name.casefold() for name in names)}
        self.origins = frozenset(origins)

    def check(self, headers: Mapping[str, str], *, is_public: bool) -> Refusal | None:
        """None for a request that may be answered; `is_public` for what needs no token: the files of the page."""
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may see another end of the body
            return Refusal(
                400,
                "two_lengths",
                "the request has both Content-Length and Transfer-Encoding",
                "send one of them",
                {"connection": "close"},
            )
        host = headers.get("host", "")
        if not self._is_known(host):
            return Refusal(
                421,
                "unknown_host",
                f"this server is not {host[:200]!r}",
                "open it by its address, or start it with --name and this name",
            )
        origin = headers.get("origin")
        own = f"http://{host}", f"https://{host}"  # by a proxy
        if origin is not None and origin not in own and origin not in self.origins:
            return _FOREIGN
        if origin is None and not is_public and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # browsers name no origin where a page only embeds an address, or leads to it
            return _FOREIGN
        if self._token and not is_public and not self._has_token(headers.get("authorization", "")):
            return Refusal(
                401,
                "unauthorized",
                "the token is missing or wrong",
                "send Authorization: Bearer TOKEN",
                {"www-authenticate": "Bearer"},
            )
        return None

    def _is_known(self, host: str) -> bool:
        name = _without_port(host).casefold()
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._only_loopback

    def _has_token(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        return right and scheme.casefold() == "bearer"


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host
