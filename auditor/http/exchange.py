"""One request and its answer: headers, redirects, status.

Loads requests and urllib3, so it is imported at the first request only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, urljoin, urlsplit

import requests

from auditor import __version__
from auditor.http.bodies import BadEncodingError, read_body, read_error_body
from auditor.http.client import Response
from auditor.http.deadline import Attempt
from auditor.http.errors import TransportError, explain_status, name_address, printable_start, show_url
from auditor.http.failures import FAILURES, explain
from auditor.http.sessions import open_session
from auditor.http.transport import Transport, client_certificate_files, secrets_in, split_credentials
from auditor.model import UsageError

MAX_REDIRECTS = 5
IDLE_SECONDS = 2.0
"""A kept connection older than this is not used again: servers and load balancers drop idle ones silently."""
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class Request:
    """What to ask. ``private_headers`` go to the origin that was named and to no other."""

    method: str
    url: str
    ok: tuple[int, ...]
    follow: bool
    data: bytes | Mapping[str, str] | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    private_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    private_path: bool = False


class Line:
    """The kept connections of one calling thread."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._session = open_session(insecure=transport.insecure)
        self._used_at = 0.0

    def close(self) -> None:
        self._session.close()

    def exchange(self, request: Request, attempt: Attempt) -> Response:
        """The answer to ``request``, its redirects followed as far as allowed."""
        started = time.monotonic()
        if started - self._used_at > IDLE_SECONDS:
            self._session.close()
        url, trusted = request.url, True
        try:
            for _ in range(MAX_REDIRECTS + 1):
                attempt.phase, attempt.body_bytes = "connect", 0
                asked_at = time.time()
                with self._open(request, url, attempt, trusted=trusted) as answer:
                    attempt.phase = "body"
                    target = _redirect_target(answer, url)
                    if target is None:
                        body = self._read(answer, request, url, attempt, trusted=trusted)
                        return Response(
                            status=answer.status_code,
                            body=body,
                            content_type=answer.headers.get("Content-Type", ""),
                            url=_show(request, url),
                            asked_at=asked_at,
                            seconds=time.monotonic() - started,
                            headers=answer.headers,
                        )
                    target = self._check_redirect(request, target, answer.status_code)
                trusted = trusted and _same_origin(request.url, target)
                url = target
            raise self._error(request, "redirect", f"more than {MAX_REDIRECTS} redirects; check the address")
        except FAILURES as problem:
            error = explain(
                problem,
                address=name_address(url, private_path=request.private_path),
                url=_show(request, url),
                phase=attempt.phase,
                body_bytes=attempt.body_bytes,
                timeout_seconds=self._transport.timeout_seconds,
            )
            if isinstance(error, UsageError) and url != request.url:
                error = self._error(request, "redirect", f"redirects to {name_address(url)}, which cannot be asked")
            raise error from None
        finally:
            self._used_at = time.monotonic()
            if attempt.is_cut:
                self._session.close()

    def _open(self, request: Request, url: str, attempt: Attempt, *, trusted: bool) -> requests.Response:
        private = dict(request.private_headers) if trusted else {}
        headers = {
            "User-Agent": f"premise-auditor/{__version__}",
            "Accept-Encoding": "gzip",
            "Accept": "*/*",
            **request.headers,
        }
        own = {name.lower() for name in private}
        headers = {name: value for name, value in headers.items() if name.lower() not in own} | private
        transport = self._transport
        cert = transport.client_cert if trusted else None
        files = client_certificate_files(cert) if cert is not None else None
        remaining = attempt.remaining_seconds()
        prepared = requests.PreparedRequest()
        prepared.prepare(method=request.method, url=url, headers=headers, data=request.data)
        # Not by Session.request: it reads .netrc, keeps cookies, follows redirects, and takes as long as all the rest.
        return self._session.get_adapter(url).send(
            prepared,
            timeout=(remaining, remaining),
            stream=True,
            verify=False if transport.insecure else (transport.ca_cert or self._session.verify or True),
            cert=None if files is None else (files[0] if files[1] is None else (files[0], files[1])),
            proxies=requests.utils.get_environ_proxies(url) if self._session.trust_env else {},
        )

    def _check_redirect(self, request: Request, target: str, status: int) -> str:
        """The address to go on with; credentials in it are not taken from a server's word."""
        shown = printable_start(name_address(target, private_path=request.private_path), _secrets(request), limit=300)
        if not request.follow:
            raise self._error(
                request,
                "redirect",
                f"redirects to {shown}, and a body is not sent on; give that address",
                status,
            )
        try:
            bare, _ = split_credentials(target)
        except UsageError:
            raise self._error(
                request, "redirect", f"redirects to {shown}, which is no http or https address", status
            ) from None
        if not self._transport.allow_redirects and urlsplit(bare).hostname != urlsplit(request.url).hostname:
            raise self._error(
                request,
                "redirect",
                f"redirects to another host, {shown}; ask that one, or allow it with --allow-redirects",
                status,
            )
        return bare

    def _error(
        self, request: Request, kind: Literal["redirect"], said: str, status: int | None = None
    ) -> TransportError:
        address = name_address(request.url, private_path=request.private_path)
        return TransportError(f"{address}: {said}", kind=kind, url=_show(request, request.url), status=status)

    def _read(self, answer: requests.Response, request: Request, url: str, attempt: Attempt, *, trusted: bool) -> bytes:
        address, shown = name_address(url, private_path=request.private_path), _show(request, url)
        if answer.status_code not in request.ok:
            dropped = not trusted and bool(request.private_headers)
            failure = attempt.failure = TransportError(
                explain_status(address, answer.status_code, credentials_dropped=dropped),
                kind="status",
                url=shown,
                status=answer.status_code,
            )
            failure.body_start = read_error_body(answer, attempt, _secrets(request))
            raise failure
        cap = self._transport.max_body_bytes
        try:
            page = read_body(answer, attempt, cap)
        except BadEncodingError as problem:
            raise TransportError(
                f"{address}: {problem}", kind="protocol", url=shown, status=answer.status_code
            ) from None
        if page is None:
            raise TransportError(
                f"{address}: the answer is larger than {_say_size(cap)}; check the address, or raise --max-body",
                kind="too_large",
                url=shown,
                status=answer.status_code,
            )
        return page


def _redirect_target(answer: requests.Response, url: str) -> str | None:
    location = answer.headers.get("Location")
    if answer.status_code not in _REDIRECTS or not location:
        return None
    try:
        return urljoin(url, location.encode("latin-1").decode("utf-8", "replace"))
    except ValueError:
        return location


def _same_origin(url: str, target: str) -> bool:
    """May credentials for ``url`` go to ``target``? Same scheme, host and port, or http:80 to https:443."""
    one, other = urlsplit(url), urlsplit(target)
    if one.hostname != other.hostname:
        return False
    ports = _port(one), _port(other)
    return (one.scheme == other.scheme and ports[0] == ports[1]) or (
        (one.scheme, other.scheme, *ports) == ("http", "https", 80, 443)
    )


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _show(request: Request, url: str) -> str:
    return show_url(url, private_path=request.private_path)


def _secrets(request: Request) -> tuple[str, ...]:
    """What must not be shown, should the server send it back."""
    path = urlsplit(request.url).path
    return (
        *((path,) if request.private_path and len(path) > 1 else ()),
        *secrets_in(request.private_headers),
    )


def _say_size(size: int) -> str:
    return f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size} bytes"
