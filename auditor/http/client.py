"""The client: one request, one answer, in time; and what stands behind a name."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from auditor.http.deadline import Attempt, DeadlinePassed, run_within
from auditor.http.errors import TransportError, explain_timeout, name_address, show_url
from auditor.http.transport import Credentials, Transport, split_credentials

if TYPE_CHECKING:
    from auditor.http.exchange import Line

GET_OK = (200, 203)


@dataclass(frozen=True)
class Response:
    """A complete answer. ``url`` is where it came from, without credentials."""

    status: int
    body: bytes = field(repr=False)
    content_type: str
    url: str
    asked_at: float
    """Unix seconds at which the request that was answered went out."""
    seconds: float
    """From the first look-up of the name to the last byte."""
    headers: Mapping[str, str] = field(repr=False)
    """Names compare without case."""


class Client:
    """Asks servers, each request within the transport's deadline and size. A context manager.

    Safe to share between threads: each calling thread has its own connections. Proxies and CA bundles of
    the environment are honoured as ``requests`` does; ``.netrc`` is never read.

    Raises :class:`~auditor.model.UsageError` for options, files and addresses that cannot work, and
    :class:`TransportError` for everything that the network or the server does.
    """

    def __init__(self, transport: Transport) -> None:
        transport.check()
        self.transport = transport
        self._credentials = Credentials(transport)
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._lines: list[Line] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop all connections that wait for a further request."""
        with self._lock:
            for line in self._lines:
                line.close()
            self._lines.clear()
        self._mine = threading.local()

    def get(self, url: str, *, accept: str | None = None) -> Response:
        """The whole body at ``url``."""
        return self._ask("GET", url, None, {"Accept": accept}, GET_OK, follow=True)

    def send(
        self,
        method: str,
        url: str,
        *,
        data: bytes | Mapping[str, str] | None = None,
        content_type: str | None = None,
        accept: str | None = None,
        ok: tuple[int, ...] = (200,),
        private_path: bool = False,
    ) -> Response:
        """Send a body: a query, a hand-over. A mapping goes as a form. Never follows a redirect.

        With ``private_path`` no message shows the path (the address of a webhook is its password).
        """
        wanted = {"Accept": accept, "Content-Type": content_type}
        return self._ask(method, url, data, wanted, ok, follow=False, private_path=private_path)

    def _ask(
        self,
        method: str,
        url: str,
        data: bytes | Mapping[str, str] | None,
        wanted: Mapping[str, str | None],
        ok: tuple[int, ...],
        *,
        follow: bool,
        private_path: bool = False,
    ) -> Response:
        bare, from_address = split_credentials(url)
        private = self.transport.merge_headers()
        authorization = from_address or self._credentials.authorization()
        if authorization is not None:
            private = {k: v for k, v in private.items() if k.lower() != "authorization"}
            private["Authorization"] = authorization

        from auditor.http.exchange import Request

        request = Request(
            method=method,
            url=bare,
            data=data,
            headers={name: value for name, value in wanted.items() if value is not None},
            private_headers=private,
            ok=ok,
            follow=follow,
            private_path=private_path,
        )
        attempt = Attempt(self.transport.timeout_seconds)
        line = self._line()
        try:
            return run_within(attempt, lambda: line.exchange(request, attempt))
        except DeadlinePassed:
            raise attempt.failure or explain_timeout(
                name_address(bare, private_path=private_path),
                show_url(bare, private_path=private_path),
                phase=attempt.phase,
                body_bytes=attempt.body_bytes,
                seconds=self.transport.timeout_seconds,
            ) from None
        finally:
            if attempt.is_cut:
                self._forget(line)

    def _line(self) -> Line:
        line: Line | None = getattr(self._mine, "line", None)
        if line is None:
            from auditor.http.exchange import Line

            line = self._mine.line = Line(self.transport)
            with self._lock:
                self._lines.append(line)
        return line

    def _forget(self, line: Line) -> None:
        self._mine.line = None
        with self._lock:
            if line in self._lines:
                self._lines.remove(line)


def resolve_addresses(host: str, port: int, *, timeout_seconds: float = 10.0) -> list[str]:
    """The IP addresses behind a name, each once, in numerical order (IPv4 first).

    Raises :class:`TransportError` (``dns`` or ``timeout``) if the name leads nowhere.
    """
    name = "".join(c for c in host if c.isprintable())

    def look_up() -> set[str]:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}

    try:
        found = run_within(Attempt(timeout_seconds), look_up)
    except DeadlinePassed:
        raise TransportError(
            f"{name}: the name was not resolved within {timeout_seconds:g} s; check DNS",
            kind="timeout",
            url=name,
        ) from None
    except (OSError, UnicodeError):
        raise TransportError(
            f"{name}: this name cannot be resolved; check its spelling and DNS", kind="dns", url=name
        ) from None
    return sorted(found, key=_numerical)


def _numerical(address: str) -> tuple[int, int]:
    parsed = ipaddress.ip_address(address)
    return parsed.version, int(parsed)
