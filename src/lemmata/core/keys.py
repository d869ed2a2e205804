"""The API key of the user, and which addresses may have it, or anything at all: not those that only a workspace names.

A workspace may come from somebody else. What its settings name gets nothing until the user has named it, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from lemmata.core.errors import UntrustedAddress

OPENAI = "https://api.openai.com/v1"
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # not /folder, ./folder, ~/folder
_PORTS = {"http": 80, "https": 443, "tcp": 19530}  # the last one of Milvus
_HOST = re.compile(r"([\w.-]+|\[[0-9a-f:.]+\])(:\d+)?", re.ASCII | re.IGNORECASE)  # no user, no second address
LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")


class ApiKey(NamedTuple):
    """A key for the services at some addresses; without an address no service gets it.

    `trusted` are the origins and the hub models that may be used at all; None where the caller names them: any.
    """

    secret: str = ""
    addresses: tuple[str, ...] = ()
    trusted: Collection[str] | None = None

    def check(self, name: str) -> None:
        """UntrustedAddress for an address or a hub model that may not be used."""
        if reason := self.why_refused(name):
            raise UntrustedAddress(reason)

    def why_refused(self, name: str) -> str:
        """Why an address or a hub model may not be used, with the cure; empty where it may, and for local models."""
        return "" if self.trusted is None else why_untrusted(name, self.trusted)

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


def why_untrusted(name: str, trusted: Collection[str], what: str = "passages and queries") -> str:
    """Why an address, which would get `what`, or a hub model is not among the `trusted`; empty where it is.

    This machine needs no trust, and neither does what leads nowhere: the name of a local model, a folder.
    """
    is_model = HUB_NAME.fullmatch(name) is not None and not Path(name).exists()
    place, origin = _place(name), origin_of(name)
    if not (is_model or "://" in name) or (place and LOOPBACK.fullmatch(place[1])) or (origin and origin in trusted):
        return ""
    if not origin:
        return f"{name[:200]!r} is not plainly the address of a host: nothing is sent to it"
    refused = f"{origin} would get {what}, and only the workspace names it"
    if is_model:
        refused = f"{origin} would be looked up on the hub, and only the workspace names it"
    return f"{refused}: if you trust it, run 'lemmata config --trust {origin}'"


def origin_of(name: str) -> str:
    """What is trusted of an address: scheme, host and port; of the hub a model. Empty for anything else."""
    if HUB_NAME.fullmatch(name):
        return name
    if (place := _place(name)) is None:
        return ""
    scheme, host, port = place
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}" if port == _PORTS[scheme] else f"{scheme}://{shown}:{port}"


def _place(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for an address that is not plainly one of a host."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not _HOST.fullmatch(parts.netloc) or not parts.hostname:
            return None
        return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
    except ValueError:
        return None
