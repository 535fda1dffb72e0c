"""The only room on the network: one request within a deadline and a size, or one sentence why not.

``Transport`` says how to talk, ``Client`` talks, ``TransportError`` is the sentence. Importing this
loads no HTTP library; the first request does.
"""

from typing import TYPE_CHECKING, Any

from auditor.http.errors import TransportError, TransportErrorKind, clean_url
from auditor.http.transport import Transport

if TYPE_CHECKING:
    from auditor.http.client import Client, Response, resolve_addresses

__all__ = [
    "Client",
    "Response",
    "Transport",
    "TransportError",
    "TransportErrorKind",
    "clean_url",
    "resolve_addresses",
]


def __getattr__(name: str) -> Any:
    # A command that reads a file needs to know what a Transport is, and no sockets, threads and TLS.
    if name in ("Client", "Response", "resolve_addresses"):
        from auditor.http import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
