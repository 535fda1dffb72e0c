"""A loopback server that misbehaves on request, for tests of everything that scrapes or sends.

    with HostileServer() as server:
        client.get(server.url("/dribble-body"))
        assert server.requests[0].path == "/dribble-body"

Every route is a function below; ``HostileServer(routes={"/x": function})`` adds to them. A function gets the
:class:`Exchange` and writes raw bytes, so that it can break any rule. Returning True keeps the connection.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

PAGE = b"""# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7e+09
"""
DRIBBLE_SECONDS = 0.05
"""Between two bytes: short enough that no socket time-out of a test ever fires, which is the point."""


@dataclass(frozen=True)
class Asked:
    """A request as it came in. Header names are lower-case."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    connection: int
    """Which connection it came on, counted from 0."""


class Exchange:
    """What a route may do: look at the request, send bytes, wait."""

    def __init__(self, server: HostileServer, sock: socket.socket, asked: Asked) -> None:
        self.server = server
        self.sock = sock
        self.asked = asked

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def head(self, status: str = "200 OK", **headers: str) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.raw(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1"))

    def answer(self, body: bytes, status: str = "200 OK", **headers: str) -> bool:
        """A well-formed answer on a connection that stays open."""
        self.head(status, **{"Content_Type": "text/plain", "Content_Length": str(len(body)), **headers})
        self.raw(body)
        return True

    def chunk(self, data: bytes) -> None:
        self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the test."""
        if self.server.stopping.wait(seconds):
            raise ConnectionAbortedError("the test is over")

    def dribble(self, data: bytes) -> None:
        for byte in data:
            self.raw(bytes([byte]))
            self.pause(DRIBBLE_SECONDS)


Route = Callable[[Exchange], "bool | None"]


def ok(x: Exchange) -> bool:
    return x.answer(x.server.page)


def empty(x: Exchange) -> bool:
    return x.answer(b"")


def html(x: Exchange) -> bool:
    return x.answer(b"<!DOCTYPE html><html><body>Sign in</body></html>", Content_Type="text/html")


def echo(x: Exchange) -> bool:
    """What was asked, as JSON; ``?status=401`` chooses the status."""
    status = x.asked.query.get("status", ["200"])[0]
    seen = {"method": x.asked.method, "path": x.asked.path, "headers": x.asked.headers}
    body = json.dumps({**seen, "body": x.asked.body.decode("latin-1")}).encode()
    return x.answer(body, f"{status} Echo", Content_Type="application/json")


def no_length(x: Exchange) -> None:
    """A good page that ends with its connection, as HTTP/1.0 servers send it."""
    x.head(Content_Type="text/plain")
    x.raw(x.server.page)


def gzipped(x: Exchange) -> bool:
    return x.answer(gzip.compress(x.server.page), Content_Encoding="gzip")


def gzip_members(x: Exchange) -> bool:
    """Two gzip members and zero padding: legal, and one page."""
    half = len(x.server.page) // 2
    body = gzip.compress(x.server.page[:half]) + gzip.compress(x.server.page[half:]) + b"\0" * 10
    return x.answer(body, Content_Encoding="gzip")


def silent(x: Exchange) -> None:
    x.pause(30)


def dribble_headers(x: Exchange) -> None:
    x.dribble(b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 2000)


def dribble_body(x: Exchange) -> None:
    x.head(Content_Length="5000")
    x.dribble(b"a" * 5000)


def dribble_chunks(x: Exchange) -> None:
    x.head(Transfer_Encoding="chunked")
    while True:
        x.chunk(b"a")
        x.pause(DRIBBLE_SECONDS)


def dribble_error(x: Exchange) -> None:
    """A plain 401 whose page never ends."""
    x.head("401 Unauthorized", Content_Length="5000")
    x.dribble(b"a" * 5000)


def continue_forever(x: Exchange) -> None:
    while True:
        x.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
        x.pause(DRIBBLE_SECONDS)


def endless(x: Exchange) -> None:
    x.head(Transfer_Encoding="chunked")
    while not x.server.stopping.is_set():
        x.chunk(b"a" * 65536)


def endless_no_length(x: Exchange) -> None:
    x.head()
    while not x.server.stopping.is_set():
        x.raw(b"a" * 65536)


def huge_length(x: Exchange) -> None:
    x.head(Content_Length=str(2**40))
    while not x.server.stopping.is_set():
        x.raw(b"a" * 65536)


def bomb(x: Exchange) -> None:
    """128 MiB of zeros in about 128 KiB of gzip."""
    x.head(Content_Encoding="gzip", Content_Length=str(len(make_bomb())))
    x.raw(make_bomb())


def empty_members(x: Exchange) -> None:
    """gzip members without content, endlessly: work that never shows in the size of the page."""
    x.head(Content_Encoding="gzip")
    while not x.server.stopping.is_set():
        x.raw(gzip.compress(b"") * 1000)


def stacked(x: Exchange) -> bool:
    return x.answer(gzip.compress(gzip.compress(x.server.page)), Content_Encoding="gzip, gzip")


def brotli(x: Exchange) -> bool:
    return x.answer(b"\x0b\x02\x80hello\x03", Content_Encoding="br")


def deflate(x: Exchange) -> bool:
    return x.answer(zlib.compress(x.server.page), Content_Encoding="deflate")


def not_gzip(x: Exchange) -> bool:
    return x.answer(x.server.page, Content_Encoding="gzip")


def gzip_then_junk(x: Exchange) -> bool:
    return x.answer(gzip.compress(x.server.page) + b"junk", Content_Encoding="gzip")


def cut_length(x: Exchange) -> None:
    x.head(Content_Length=str(len(x.server.page) + 1))
    x.raw(x.server.page)


def cut_chunk(x: Exchange) -> None:
    x.head(Transfer_Encoding="chunked")
    x.raw(b"1000\r\n" + x.server.page)


def cut_between_chunks(x: Exchange) -> None:
    """A whole chunk, and then no closing one."""
    x.head(Transfer_Encoding="chunked")
    x.chunk(x.server.page)


def bad_chunk(x: Exchange) -> None:
    x.head(Transfer_Encoding="chunked")
    x.raw(b"zz\r\n" + x.server.page)


def negative_chunk(x: Exchange) -> None:
    """A chunk of length -1, which a careless reader takes for "all there is", and there is no end."""
    x.head(Transfer_Encoding="chunked")
    x.raw(b"-1\r\n")
    while not x.server.stopping.is_set():
        x.raw(b"a" * 65536)


def cut_gzip(x: Exchange) -> bool:
    """The HTTP is whole, the gzip in it is not: what a proxy makes of a cut answer."""
    return x.answer(gzip.compress(x.server.page)[:-9], Content_Encoding="gzip")


def reset_in_body(x: Exchange) -> None:
    x.head(Content_Length="5000")
    x.raw(b"a" * 100)
    x.pause(0.05)
    _reset(x.sock)


def drop(x: Exchange) -> None:
    """Close without a word."""


def reset(x: Exchange) -> None:
    _reset(x.sock)


def garbage(x: Exchange) -> None:
    x.raw(b"SSH-2.0-OpenSSH_9.6\r\n")


def two_lengths(x: Exchange) -> None:
    x.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde")


def many_headers(x: Exchange) -> None:
    x.raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"Content-Length: 0\r\n\r\n")


def redirect_to(x: Exchange) -> bool:
    """``?url=`` is the target, as it is; ``?code=`` the status."""
    code = x.asked.query.get("code", ["302"])[0]
    return x.answer(b"moved", f"{code} Moved", Location=x.asked.query["url"][0])


def redirect_nowhere(x: Exchange) -> bool:
    return x.answer(b"moved", "302 Found")


def redirect_loop(x: Exchange) -> bool:
    return x.answer(b"", "302 Found", Location="/redirect-loop")


def redirect_endless(x: Exchange) -> None:
    """To a good page, with a body that never ends."""
    x.head("302 Found", Location="/ok")
    while not x.server.stopping.is_set():
        x.raw(b"a" * 65536)


ROUTES: dict[str, Route] = {
    "/" + name.replace("_", "-"): route
    for name, route in list(globals().items())
    if callable(route) and getattr(route, "__annotations__", {}).get("x") == "Exchange"
}
ROUTES["/metrics"] = ok
ROUTES["/gzip"] = gzipped


class HostileServer:
    """Listens on 127.0.0.1 while the ``with`` block runs; one thread a connection.

    ``page`` is what the well-behaved routes serve. ``/status/503`` answers 503, ``/redirects/3`` redirects
    three times and ends at ``/ok``. ``greet`` takes over a connection before anything is read from it.
    ``tls`` makes it speak TLS.
    """

    def __init__(
        self,
        *,
        page: bytes = PAGE,
        routes: Mapping[str, Route] | None = None,
        tls: ssl.SSLContext | None = None,
        greet: Route | None = None,
    ) -> None:
        self.page = page
        self.requests: list[Asked] = []
        self.connections = 0
        self.hung_up_at: float | None = None
        """``time.monotonic()`` at which a client last closed on a route that was not done."""
        self.stopping = threading.Event()
        self._routes = {**ROUTES, **(routes or {})}
        self._tls = tls
        self._greet = greet
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]

    def url(self, path: str = "/metrics", *, host: str = "127.0.0.1", user: str = "") -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{user + '@' if user else ''}{host}:{self.port}{path}"

    def __enter__(self) -> HostileServer:
        threading.Thread(target=self._accept, name="hostile-accept", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def wait_for_hang_up(self, seconds: float = 2.0) -> bool:
        """Whether the client closed its connection while a route was still at work."""
        end = time.monotonic() + seconds
        while self.hung_up_at is None and time.monotonic() < end:
            time.sleep(0.01)
        return self.hung_up_at is not None

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            number, self.connections = self.connections, self.connections + 1
            threading.Thread(target=self._serve, args=(sock, number), name="hostile", daemon=True).start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        at_work = False
        reader: io.BufferedReader | None = None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._greet is not None:
                at_work = True
                self._greet(Exchange(self, sock, Asked("", "", {}, {}, b"", number)))
                return
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            reader = sock.makefile("rb")
            while (asked := _read_request(reader, number)) is not None:
                self.requests.append(asked)
                at_work = True
                if not self._route(asked.path)(Exchange(self, sock, asked)):
                    return
                at_work = False
        except OSError:
            if at_work and not self.stopping.is_set():
                self.hung_up_at = time.monotonic()
        finally:
            _close(reader)
            _close(sock)

    def _route(self, path: str) -> Route:
        kind, _, number = path[1:].partition("/")
        if kind == "status":
            return lambda x: x.answer(f"this is {number}".encode(), f"{number} Whatever")
        if kind == "redirects":
            left = int(number)
            target = "/ok" if left == 1 else f"/redirects/{left - 1}"
            return lambda x: x.answer(b"", "302 Found", Location=target)
        return self._routes.get(path, lambda x: x.answer(b"no such path", "404 Not Found"))


def make_certificate(folder: Path, *, name: str = "server", encrypted_key: bool = False) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and localhost, made by openssl: (certificate, key).

    Raises FileNotFoundError without openssl; ``have_openssl`` tells beforehand.
    """
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(cert)]
    command += ["-passout", "pass:secret-pass"] if encrypted_key else ["-nodes"]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def have_openssl() -> bool:
    return shutil.which("openssl") is not None


def serve_tls(cert: Path, key: Path, *, client_authority: Path | None = None) -> ssl.SSLContext:
    """The server's side of TLS; with ``client_authority`` it wants a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_authority)
    return context


_made_bomb: list[bytes] = []


def make_bomb() -> bytes:
    if not _made_bomb:
        deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
        zeros = b"\0" * 2**20
        _made_bomb.append(b"".join(deflater.compress(zeros) for _ in range(128)) + deflater.flush())
    return _made_bomb[0]


def _read_request(reader: io.BufferedReader, number: int) -> Asked | None:
    line = reader.readline(65536).decode("latin-1")
    if not line.strip():
        return None
    if line.count(" ") < 2:
        raise ConnectionAbortedError("this is not HTTP")
    method, target, _ = line.split(" ", 2)
    headers: dict[str, str] = {}
    while (header := reader.readline(65536).decode("latin-1").strip()) != "":
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Asked(method, parts.path, parse_qs(parts.query), headers, body, number)


def _reset(sock: socket.socket) -> None:
    """Make the close that follows a reset, not a good-bye."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _close(thing: socket.socket | io.BufferedReader | None) -> None:
    try:
        if thing is not None:
            thing.close()
    except OSError:
        return
