"""What went wrong on the network, in words, and addresses that are safe to print."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from auditor.model import EvidenceError

TransportErrorKind = Literal["refused", "dns", "tls", "timeout", "too_large", "redirect", "status", "protocol"]

_SECRET_VALUE = re.compile(r"(?i)([?&][^=&#]*(?:token|secret|passw|key|auth|sig|credential)[^=&#]*=)[^&#]*")


class TransportError(EvidenceError):
    """A request that brought no usable answer. The message is one sentence and holds no secret.

    ``url`` is the address without credentials, ``status`` the HTTP status if one came, ``body_start``
    the first characters of an answer with an error status (control characters removed).
    """

    def __init__(
        self,
        message: str,
        *,
        kind: TransportErrorKind,
        url: str = "",
        status: int | None = None,
        body_start: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: TransportErrorKind = kind
        self.url = url
        self.status = status
        self.body_start = body_start


def clean_url(url: str) -> str:
    """The address without user, password, fragment, control characters, secret-looking values."""
    text = _SECRET_VALUE.sub(r"\1***", "".join(c for c in url if c.isprintable()))
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = None
    if parts is None or not parts.netloc:
        # No readable address, perhaps for a bare / or # in a password: keep only what follows that.
        scheme, mark, rest = text.partition("://") if "://" in text else ("", "", text)
        return f"{scheme}{mark}{rest.rpartition('@')[2]}"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))


def name_address(url: str, *, private_path: bool = False) -> str:
    """The address as a sentence names it: without its query, and without its path if that is a secret."""
    cleaned = clean_url(url).partition("?")[0]
    if len(cleaned) > 300:
        cleaned = cleaned[:300] + "..."
    if private_path and "://" in cleaned:
        scheme, _, rest = cleaned.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}/..."
    return cleaned


_STATUS_HINTS = {
    401: "credentials are missing or wrong; check --token-file, --basic-auth-file or --header",
    403: "these credentials may not read it; check --token-file, --basic-auth-file or --header",
    404: "nothing is served at this path; check the path and the port",
    405: "this address does not take this kind of request; check the path",
    407: "the proxy wants credentials; check HTTP_PROXY and HTTPS_PROXY",
    429: "too many requests; ask less often",
    502: "a gateway answers, the server behind it does not; check that it is up",
    503: "the server is not ready; it may still be starting",
    504: "a gateway answers, the server behind it was too slow; check that it is up",
}


def explain_status(address: str, status: int, *, credentials_dropped: bool = False) -> str:
    """The sentence for an answer with a status that nobody asked for."""
    try:
        phrase = f" ({HTTPStatus(status).phrase})"
    except ValueError:
        phrase = ""
    hint = _STATUS_HINTS.get(status)
    if credentials_dropped and status in (401, 403):
        hint = "a redirect led to another origin, where credentials are not sent; give that address itself"
    elif hint is None and status >= 500:
        hint = "the server itself failed; look at its log"
    elif hint is None and status >= 400:
        hint = "the server does not accept this request; check the address and the options"
    elif hint is None:
        hint = "this is not the answer that was expected here; check the address"
    return f"{address} answered {status}{phrase}: {hint}"


Phase = Literal["connect", "answer", "body"]
"""How far a request came: before its connection stood, before a complete header, within the body."""


def explain_timeout(address: str, url: str, *, phase: Phase, body_bytes: int, seconds: float) -> TransportError:
    """The error for a request that was not done in time."""
    limit = f"within {seconds:g} s"
    if phase == "connect":
        said = f"no connection {limit}; check the host, the port and firewalls between"
    elif phase == "answer":
        said = f"connected, but no answer began {limit}; check that the server is alive, or raise --timeout"
    else:
        said = (
            f"the answer was not complete {limit} ({body_bytes} bytes of its body had come); "
            "check the server's load and the network, or raise --timeout"
        )
    return TransportError(f"{address}: {said}", kind="timeout", url=url)


def show_url(url: str, *, private_path: bool = False) -> str:
    """The address for a field: clean, and without its path if that is a secret."""
    return name_address(url, private_path=True) if private_path else clean_url(url)


def printable_start(text: str, secrets: tuple[str, ...], limit: int = 2000) -> str:
    """The start of untrusted text on one line, with our own secrets blotted out should it echo them."""
    for secret in secrets:
        text = text.replace(secret, "***")
    line = " ".join(text.split())
    return "".join(c for c in line if c.isprintable())[:limit]
