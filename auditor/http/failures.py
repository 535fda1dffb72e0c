"""What the HTTP libraries raise, turned into one sentence for the person who asked."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
from collections.abc import Callable, Iterator

import requests
import urllib3.exceptions

from auditor.http.errors import Phase, TransportError, TransportErrorKind, explain_timeout
from auditor.model import AuditorError, UsageError

FAILURES = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    OSError,
    UnicodeError,
)
"""Everything that requests, urllib3 and the sockets below them raise for a failed request."""

_Make = Callable[[TransportErrorKind, str], TransportError]
_NO_WAY = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM}
_BAD_ADDRESS = (
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    urllib3.exceptions.LocationValueError,
    UnicodeError,
)
_CUT = (
    urllib3.exceptions.IncompleteRead,
    urllib3.exceptions.InvalidChunkLength,
    http.client.IncompleteRead,
    ConnectionError,
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
)


def explain(
    problem: Exception, *, address: str, url: str, phase: Phase, body_bytes: int, timeout_seconds: float
) -> AuditorError:
    """The error to raise for ``problem``: a TransportError, or a UsageError where the caller can mend it."""
    chain = list(_unfold(problem))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(link, kinds) for link in chain)

    def error(kind: TransportErrorKind, said: str) -> TransportError:
        return TransportError(f"{address}: {said}", kind=kind, url=url)

    if has(*_BAD_ADDRESS):
        return UsageError(f"{address}: this host cannot be asked; check the spelling of the address")
    if has(requests.exceptions.InvalidProxyURL, requests.exceptions.InvalidSchema):
        return UsageError(
            f"{address}: the proxy set in the environment is of no usable kind; see HTTP_PROXY, HTTPS_PROXY"
        )
    if type(problem) is OSError and problem.errno is None:
        return UsageError(f"{address}: REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE names a file that is not there; unset it")
    if has(requests.exceptions.ProxyError, urllib3.exceptions.ProxyError):
        return error("refused", "the proxy set in the environment gives no way there; check HTTP_PROXY, NO_PROXY")
    if phase == "body" and has(*_CUT):
        return error("protocol", f"the answer broke off after {body_bytes} bytes of its body; try again")
    for link in chain:
        if isinstance(link, ssl.SSLCertVerificationError):
            return error(
                "tls",
                f"its certificate is not trusted ({link.verify_message.rstrip('.')}); "
                "give its authority with --ca-cert, or check the host name",
            )
    for link in chain:
        if isinstance(link, ssl.SSLError):
            return error("tls", _explain_tls(link))
    if has(socket.gaierror):
        return error("dns", "the host name cannot be resolved; check its spelling and DNS")
    if has(TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.ReadTimeoutError):
        return explain_timeout(address, url, phase=phase, body_bytes=body_bytes, seconds=timeout_seconds)
    return _explain_connection(chain, error, over_tls=url.startswith("https:"))


def _explain_connection(chain: list[BaseException], error: _Make, *, over_tls: bool) -> TransportError:
    for link in chain:
        if isinstance(link, ConnectionRefusedError):
            return error("refused", "connection refused; check the host, the port and that the server runs")
        if isinstance(link, OSError) and link.errno in _NO_WAY:
            return error("refused", "no way to this host from here; check the address, routes and firewalls")
        if isinstance(link, OSError) and link.errno in (errno.EMFILE, errno.ENFILE):
            return error("refused", "too many open files on this machine; ask fewer targets at once")
    if any(isinstance(link, ConnectionError) for link in chain):
        hint = "check the port and its log"
        if over_tls:
            hint += ", and whether it wants --client-cert"
        return error("protocol", f"the server closed the connection without an answer; {hint}")
    if any(isinstance(link, http.client.BadStatusLine) for link in chain):
        return error("protocol", "what answers there does not speak HTTP; check the port, or try https://")
    if any(isinstance(link, urllib3.exceptions.NewConnectionError) for link in chain):
        return error("refused", "no connection; check the host, the port and that the server runs")
    return error("protocol", "the answer is not valid HTTP; check the port")


def _explain_tls(problem: ssl.SSLError) -> str:
    reason = (problem.reason or "").upper()
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"):
        return "the server does not speak TLS at this port; try http://"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason or "BAD_CERTIFICATE" in reason:
        return "the server refused the TLS handshake; it may want a client certificate (--client-cert)"
    if "UNKNOWN_CA" in reason:
        return "the server does not trust our certificate; check --client-cert"
    if "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        return "the server speaks only a TLS version that is no longer trusted"
    if "NO_CERTIFICATE_OR_CRL_FOUND" in reason:
        return "the CA bundle in use holds no certificate; check REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE"
    return "the TLS connection failed; check the port, the certificates, and whether --client-cert is wanted"


def _unfold(problem: BaseException) -> Iterator[BaseException]:
    """The exception and all that it wraps: libraries hide the cause in args, reason, cause or context."""
    seen: set[int] = set()
    waiting: list[BaseException] = [problem]
    while waiting:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        inner = [link.__cause__, link.__context__, getattr(link, "reason", None), *link.args]
        waiting.extend(one for one in inner if isinstance(one, BaseException))
