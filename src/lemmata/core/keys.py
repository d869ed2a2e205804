"""The API key of the user, and the addresses that may have it: those that the user named, not those of a workspace."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

OPENAI = "https://api.openai.com/v1"
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"([\w.-]+|\[[0-9a-f:.]+\])(:\d+)?", re.ASCII | re.IGNORECASE)  # no user, no second address
LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")


class ApiKey(NamedTuple):
    """A key for the services at some addresses; without an address no service gets it."""

    secret: str = ""
    addresses: tuple[str, ...] = ()

    def secret_for(self, url: str) -> str:
        """The key where the service at `url` may have it, else empty."""
        return "" if self.why_withheld(url) else self.secret

    def why_withheld(self, url: str) -> str:
        """Why the service at `url` does not get the key, with the cure; empty where it does, or where there is none."""
        place = _place(url)
        if not self.secret or not place:
            return "OPENAI_API_KEY goes only to http and https addresses without a user name" if self.secret else ""
        scheme, host, _ = place
        if scheme == "http" and not LOOPBACK.fullmatch(host):
            return f"OPENAI_API_KEY is not sent over plain http: name {host} with https"
        if place not in map(_place, self.addresses):
            cure = f"if the service is yours, set OPENAI_BASE_URL={url}"
            return f"OPENAI_API_KEY is not sent to {host}, which only the workspace names: {cure}"
        return ""


NO_KEY = ApiKey()


def _place(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for an address that is not plainly one of a host."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not _HOST.fullmatch(parts.netloc) or not parts.hostname:
            return None
        return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
    except ValueError:
        return None
