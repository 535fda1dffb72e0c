"""The only room on the network: one request within a deadline and a size, or one sentence why not.

``Transport`` says how to talk, ``Client`` talks, ``TransportError`` is the sentence. Importing this
loads no HTTP library; the first request does.
"""

from auditor.http.client import Client, Response, resolve_addresses
from auditor.http.errors import TransportError, TransportErrorKind, clean_url
from auditor.http.transport import Transport

__all__ = [
    "Client",
    "Response",
    "Transport",
    "TransportError",
    "TransportErrorKind",
    "clean_url",
    "resolve_addresses",
]
