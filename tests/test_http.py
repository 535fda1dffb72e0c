"""The network room: in time, within size, whole or an error, and no secret in any word it says."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import responses
import urllib3

from auditor.http import Client, Transport, TransportError, clean_url, resolve_addresses
from auditor.model import EvidenceError, UsageError
from tests.hostile_server import (
    PAGE,
    Exchange,
    HostileServer,
    have_openssl,
    make_bomb,
    make_certificate,
    serve_tls,
)

QUICK_SECONDS = 0.3
SLACK_SECONDS = 1.2
"""What a busy two-core machine may add to a time-out."""
JARGON = re.compile(r"[a-z]Error|Exception|urllib3|HTTPS?Conn|rrno|object at|retries|[<>]|None|\n")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"):
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as running:
        yield running


def fail(url: str, transport: Transport | None = None) -> TransportError:
    """The error that ``url`` ends in; its sentence must be one a person can read."""
    with Client(transport or Transport(timeout_seconds=5)) as client, pytest.raises(TransportError) as caught:
        client.get(url)
    error = caught.value
    assert isinstance(error, EvidenceError)
    assert error.exit_code == 3
    assert not JARGON.search(str(error)), str(error)
    assert error.__cause__ is None
    return error


def misuse(transport: Transport) -> str:
    with pytest.raises(UsageError) as caught:
        Client(transport)
    assert caught.value.exit_code == 2
    assert caught.value.__cause__ is None
    return str(caught.value)


# --------------------------------------------------------------------------- answers that are fine


@pytest.mark.parametrize("path", ["/ok", "/no-length", "/gzip", "/gzip-members"])
def test_brings_the_page_whole(server: HostileServer, path: str) -> None:
    with Client(Transport()) as client:
        before = time.time()
        answer = client.get(server.url(path))
    assert answer.body == PAGE
    assert answer.status == 200
    assert answer.content_type == "text/plain"
    assert answer.url == server.url(path)
    assert before <= answer.asked_at <= time.time()
    assert 0 < answer.seconds < 5
    assert answer.headers["content-TYPE"] == "text/plain"
    assert "process_start" not in repr(answer)


def test_empty_body_and_html_are_left_to_the_reader_of_pages(server: HostileServer) -> None:
    with Client(Transport()) as client:
        assert client.get(server.url("/empty")).body == b""
        assert client.get(server.url("/html")).content_type == "text/html"


def test_one_get_per_request_with_our_name(server: HostileServer) -> None:
    with Client(Transport()) as client:
        client.get(server.url("/ok"), accept="text/plain;version=0.0.4")
    (asked,) = server.requests
    assert asked.method == "GET"
    assert asked.headers["accept"] == "text/plain;version=0.0.4"
    assert asked.headers["accept-encoding"] == "gzip"
    assert asked.headers["user-agent"].startswith("premise-auditor/")


def test_keeps_a_connection_and_drops_it_when_idle(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(Transport()) as client:
        for _ in range(3):
            client.get(server.url("/ok"))
        assert [asked.connection for asked in server.requests] == [0, 0, 0]
        monkeypatch.setattr("auditor.http.exchange.IDLE_SECONDS", 0.01)
        time.sleep(0.05)
        client.get(server.url("/ok"))
    assert server.requests[-1].connection == 1


def test_one_client_serves_many_threads(server: HostileServer) -> None:
    bodies: list[bytes] = []
    with Client(Transport()) as client:

        def ask() -> None:
            for _ in range(5):
                bodies.append(client.get(server.url("/ok")).body)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert bodies == [PAGE] * 20
    assert server.connections == 4


def test_importing_the_room_loads_no_http_library() -> None:
    code = "import sys, auditor.http; print([m for m in ('requests', 'urllib3') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


# --------------------------------------------------------------------------- the deadline


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/silent", "connected, but no answer began within 0.3 s"),
        ("/dribble-headers", "connected, but no answer began within 0.3 s"),
        ("/continue-forever", "connected, but no answer began within 0.3 s"),
        ("/dribble-body", "bytes of its body had come"),
        ("/dribble-chunks", "bytes of its body had come"),
        ("/empty-members", "bytes of its body had come"),
    ],
)
def test_the_deadline_ends_it(server: HostileServer, path: str, said: str) -> None:
    started = time.monotonic()
    error = fail(server.url(path), Transport(timeout_seconds=QUICK_SECONDS))
    assert QUICK_SECONDS <= time.monotonic() - started < QUICK_SECONDS + SLACK_SECONDS
    assert error.kind == "timeout"
    assert said in str(error)
    assert server.url(path) in str(error)


@pytest.mark.parametrize("path", ["/dribble-headers", "/dribble-body"])
def test_a_request_cut_by_the_deadline_leaves_nothing_behind(server: HostileServer, path: str) -> None:
    with Client(Transport(timeout_seconds=QUICK_SECONDS)) as client:
        for _ in range(2):
            with pytest.raises(TransportError):
                client.get(server.url(path))
        assert server.wait_for_hang_up()
        assert _threads_end()
        assert client.get(server.url("/ok")).body == PAGE


def test_the_deadline_ends_a_reused_connection_too(server: HostileServer) -> None:
    with Client(Transport(timeout_seconds=QUICK_SECONDS)) as client:
        client.get(server.url("/ok"))
        with pytest.raises(TransportError, match="connected, but no answer began"):
            client.get(server.url("/dribble-headers"))
    assert [asked.connection for asked in server.requests] == [0, 0]
    assert server.wait_for_hang_up()
    assert _threads_end()


def test_the_deadline_spans_all_redirects() -> None:
    def slow_redirect(x: Exchange) -> bool:
        x.pause(0.2)
        return x.answer(b"", "302 Found", Location="/slow")

    started = time.monotonic()
    with HostileServer(routes={"/slow": slow_redirect}) as server:
        error = fail(server.url("/slow"), Transport(timeout_seconds=QUICK_SECONDS))
    assert error.kind == "timeout"
    assert time.monotonic() - started < QUICK_SECONDS + SLACK_SECONDS


@pytest.mark.parametrize("first_bytes", [b"", b"\x16\x03\x03\x40\x00" + b"\x02" * 2000])
def test_the_deadline_ends_a_tls_handshake(first_bytes: bytes) -> None:
    def greet(x: Exchange) -> None:
        x.dribble(first_bytes)
        x.pause(30)

    started = time.monotonic()
    with HostileServer(greet=greet) as server:
        error = fail(f"https://127.0.0.1:{server.port}/", Transport(timeout_seconds=QUICK_SECONDS))
        assert time.monotonic() - started < QUICK_SECONDS + SLACK_SECONDS
        assert error.kind == "timeout"
        if first_bytes:
            assert server.wait_for_hang_up()
        assert _threads_end()


def test_the_deadline_ends_a_look_up_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: over.wait(10))
    started = time.monotonic()
    error = fail("http://engine.test:8000/metrics", Transport(timeout_seconds=QUICK_SECONDS))
    assert error.kind == "timeout"
    assert "no connection within 0.3 s" in str(error)
    with pytest.raises(TransportError, match=r"not resolved within 0\.3 s") as caught:
        resolve_addresses("engine.test", 8000, timeout_seconds=QUICK_SECONDS)
    assert caught.value.kind == "timeout"
    assert time.monotonic() - started < 2 * (QUICK_SECONDS + SLACK_SECONDS)
    over.set()


def test_the_deadline_ends_a_connection_that_nobody_accepts() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        started = time.monotonic()
        error = fail(f"http://127.0.0.1:{listener.getsockname()[1]}/", Transport(timeout_seconds=QUICK_SECONDS))
        assert time.monotonic() - started < QUICK_SECONDS + SLACK_SECONDS
        for filler in fillers:
            filler.close()
    assert error.kind == "timeout"
    assert "no connection within 0.3 s" in str(error)


def test_ctrl_c_ends_a_request_at_once(server: HostileServer) -> None:
    code = (
        "import sys, threading, os, signal, time\n"
        "from auditor.http import Client, Transport\n"
        "threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "started = time.monotonic()\n"
        "try:\n"
        f"    Client(Transport(timeout_seconds=30)).get({server.url('/dribble-headers')!r})\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', time.monotonic() - started < 5)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert ran.stdout == "stopped True\n"
    assert server.wait_for_hang_up()


def _threads_end(seconds: float = 2.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(thread.name == "auditor-http" for thread in threading.enumerate()):
            return True
        time.sleep(0.01)
    return False


# --------------------------------------------------------------------------- the size


@pytest.mark.parametrize("path", ["/endless", "/endless-no-length", "/huge-length", "/bomb", "/negative-chunk"])
def test_the_cap_ends_it_and_bounds_the_memory(server: HostileServer, path: str) -> None:
    make_bomb()
    cap = 4 * 2**20
    with Client(Transport(timeout_seconds=20, max_body_bytes=cap)) as client:
        client.get(server.url("/ok"))
        tracemalloc.start()
        try:
            with pytest.raises(TransportError) as caught:
                client.get(server.url(path))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert caught.value.kind == "too_large"
    assert "larger than 4 MiB" in str(caught.value)
    # The buffer grows by an eighth; the rest is a few 64 KiB chunks, one of them the server's own.
    assert peak < cap * 9 / 8 + 2**20


def test_the_cap_counts_after_decompression_and_to_the_byte() -> None:
    page = b"a" * 100_000
    assert len(gzip.compress(page)) < 1000
    with HostileServer(page=page) as server:
        with Client(Transport(max_body_bytes=100_000)) as client:
            assert client.get(server.url("/ok")).body == page
            assert client.get(server.url("/gzip")).body == page
        for path in ("/ok", "/gzip"):
            assert fail(server.url(path), Transport(max_body_bytes=99_999)).kind == "too_large"


@pytest.mark.parametrize("path", ["/ok", "/chunks"])
def test_a_page_is_held_once(path: str) -> None:
    page = b"a" * 4 * 2**20

    def chunks(x: Exchange) -> None:
        x.head(Transfer_Encoding="chunked")
        for start in range(0, len(page), 10_000):
            x.chunk(page[start : start + 10_000])
        x.chunk(b"")

    with HostileServer(page=page, routes={"/chunks": chunks}) as server, Client(Transport()) as client:
        client.get(server.url("/empty"))
        tracemalloc.start()
        try:
            body = client.get(server.url(path)).body
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert body == page
    assert peak < len(page) * 9 / 8 + 2**20


def test_the_body_of_a_redirect_is_not_read(server: HostileServer) -> None:
    with Client(Transport(timeout_seconds=5, max_body_bytes=1000)) as client:
        assert client.get(server.url("/redirect-endless")).body == PAGE


# --------------------------------------------------------------------------- answers that are not whole


@pytest.mark.parametrize("path", ["/cut-length", "/cut-chunk", "/cut-between-chunks", "/bad-chunk", "/reset-in-body"])
def test_a_cut_body_is_an_error(server: HostileServer, path: str) -> None:
    error = fail(server.url(path))
    assert error.kind == "protocol"
    assert "broke off after" in str(error)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/cut-gzip", "gzip body breaks off"),
        ("/not-gzip", "says it is gzip and is not"),
        ("/gzip-then-junk", "says it is gzip and is not"),
        ("/stacked", "not asked for"),
        ("/brotli", "not asked for"),
        ("/deflate", "not asked for"),
        ("/drop", "closed the connection without an answer"),
        ("/reset", "closed the connection without an answer"),
        ("/garbage", "does not speak HTTP"),
        ("/two-lengths", "not valid HTTP"),
        ("/many-headers", "not valid HTTP"),
    ],
)
def test_an_answer_that_breaks_the_rules_is_an_error(server: HostileServer, path: str, said: str) -> None:
    error = fail(server.url(path))
    assert error.kind == "protocol"
    assert said in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x05hello",
        b"HTTP/1.1 302 Found\r\nLocation: \xff\xfe://\x01[\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: //[::1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://xn--\xc3\xbc.test/\r\nContent-Length: 0\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"\0" * 100,
        b"\r\n\r\n",
    ],
)
def test_no_bytes_of_a_server_bring_more_than_a_sentence(answer: bytes) -> None:
    with HostileServer(routes={"/x": lambda x: x.raw(answer)}) as server:
        assert fail(server.url("/x")).kind in ("protocol", "redirect", "status")


# --------------------------------------------------------------------------- no answer, or another


def test_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = fail(f"http://127.0.0.1:{port}/metrics")
    assert error.kind == "refused"
    assert str(error) == (
        f"http://127.0.0.1:{port}/metrics: connection refused; check the host, the port and that the server runs"
    )


def test_a_name_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert fail("http://engine.test:8000/metrics").kind == "dns"
    with pytest.raises(TransportError) as caught:
        resolve_addresses("engine.test", 8000)
    assert caught.value.kind == "dns"
    assert "engine.test" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "credentials are missing or wrong"),
        (403, "may not read it"),
        (404, "check the path and the port"),
        (429, "ask less often"),
        (500, "the server itself failed"),
        (503, "may still be starting"),
        (599, "the server itself failed"),
        (418, "does not accept this request"),
        (204, "not the answer that was expected"),
    ],
)
def test_a_status_is_named_with_a_hint(server: HostileServer, status: int, hint: str) -> None:
    error = fail(server.url(f"/status/{status}"))
    assert (error.kind, error.status) == ("status", status)
    assert f"answered {status}" in str(error)
    assert hint in str(error)
    assert error.body_start == ("" if status == 204 else f"this is {status}")


def test_an_error_page_that_never_ends_does_not_hide_the_status(server: HostileServer) -> None:
    error = fail(server.url("/dribble-error"), Transport(timeout_seconds=QUICK_SECONDS))
    assert (error.kind, error.status) == ("status", 401)


def test_the_start_of_an_error_page_is_short_and_printable() -> None:
    page = b"\x1b[31mno\r\n\x00way\xff" + b"a" * 100_000
    with HostileServer(routes={"/x": lambda x: x.answer(page, "500 No")}) as server:
        error = fail(server.url("/x"))
    assert error.body_start.startswith("[31mno way\ufffdaaa")
    assert len(error.body_start) == 2000


def test_sentences_for_a_mocked_answer() -> None:
    with responses.RequestsMock() as mock:
        mock.get("http://engine.test:8000/metrics", body=PAGE, content_type="text/plain; version=0.0.4")
        mock.get("http://engine.test:8000/busy", status=503)
        mock.get("http://engine.test:8000/odd", body=requests.ConnectionError("odd"))
        with Client(Transport()) as client:
            answer = client.get("http://engine.test:8000/metrics")
        assert (answer.body, answer.content_type) == (PAGE, "text/plain; version=0.0.4")
        assert str(fail("http://engine.test:8000/busy")) == (
            "http://engine.test:8000/busy answered 503 (Service Unavailable): "
            "the server is not ready; it may still be starting"
        )
        assert fail("http://engine.test:8000/odd").kind == "protocol"


@pytest.mark.parametrize(
    ("number", "kind"),
    [(113, "refused"), (101, "refused"), (24, "refused"), (110, "timeout")],
    ids=["no route", "no network", "too many open files", "timed out"],
)
def test_failures_of_the_operating_system(monkeypatch: pytest.MonkeyPatch, number: int, kind: str) -> None:
    def no_way(*args: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("urllib3.util.connection.create_connection", no_way)
    assert fail("http://10.0.0.1:8000/metrics").kind == kind


# --------------------------------------------------------------------------- redirects


def test_redirects_on_the_same_host_are_followed(server: HostileServer) -> None:
    with Client(Transport()) as client:
        answer = client.get(server.url("/redirects/5"))
    assert answer.body == PAGE
    assert answer.url == server.url("/ok")


@pytest.mark.parametrize("path", ["/redirects/6", "/redirect-loop"])
def test_redirects_are_bounded(server: HostileServer, path: str) -> None:
    error = fail(server.url(path))
    assert error.kind == "redirect"
    assert "more than 5 redirects" in str(error)
    assert len(server.requests) == 6


def test_a_redirect_to_another_host_is_refused_and_named(server: HostileServer) -> None:
    target = server.url("/ok", host="localhost", user="who:target-secret")
    error = fail(server.url(f"/redirect-to?url={target}"))
    assert error.kind == "redirect"
    assert error.status == 302
    assert f"another host, {server.url('/ok', host='localhost')};" in str(error)
    assert "--allow-redirects" in str(error)
    assert "target-secret" not in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_an_allowed_redirect_to_another_host_carries_no_credentials(
    server: HostileServer, tmp_path: Path, code: int
) -> None:
    (tmp_path / "token").write_text("token-secret\n")
    transport = Transport(
        allow_redirects=True,
        token_file=str(tmp_path / "token"),
        headers=(("X-Api-Key", "key-secret"),),
    )
    target = server.url("/echo", host="localhost", user="who:target-secret")
    with Client(transport) as client:
        answer = client.get(server.url(f"/redirect-to?code={code}&url={target}"), accept="text/plain")
    first, second = server.requests
    assert first.headers["authorization"] == "Bearer token-secret"
    assert first.headers["x-api-key"] == "key-secret"
    assert b"secret" not in answer.body
    assert "authorization" not in second.headers
    assert second.headers["accept"] == "text/plain"
    assert answer.url == server.url("/echo", host="localhost")


def test_credentials_stay_with_their_origin(server: HostileServer) -> None:
    with HostileServer() as other, Client(Transport(headers=(("X-Api-Key", "key-secret"),))) as client:
        # The same origin keeps them; another port of the same host is followed without.
        same = json.loads(client.get(server.url("/redirect-to?url=/echo")).body)
        assert same["headers"]["x-api-key"] == "key-secret"
        away = json.loads(client.get(server.url(f"/redirect-to?url={other.url('/echo')}")).body)
        assert "x-api-key" not in away["headers"]
        # They do not come back after a detour.
        back = other.url(f"/redirect-to?url={server.url('/echo')}")
        detour = json.loads(client.get(server.url(f"/redirect-to?url={back}")).body)
        assert "x-api-key" not in detour["headers"]
        with pytest.raises(TransportError, match="another origin, where credentials are not sent"):
            client.get(server.url(f"/redirect-to?url={other.url('/status/401')}"))


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "javascript:alert(1)", "http://:80/", "http://h:x/"]
)
def test_redirects_to_what_is_no_web_address_are_refused(server: HostileServer, target: str) -> None:
    transport = Transport(allow_redirects=True)
    error = fail(server.url(f"/redirect-to?url={target}"), transport)
    assert error.kind == "redirect"
    assert "no http or https address" in str(error)


def test_a_redirect_to_an_impossible_host_is_no_misuse(server: HostileServer) -> None:
    error = fail(server.url(f"/redirect-to?url=http://{'a' * 70}.test/"), Transport(allow_redirects=True))
    assert error.kind == "redirect"


def test_a_redirect_without_target(server: HostileServer) -> None:
    error = fail(server.url("/redirect-nowhere"))
    assert (error.kind, error.status) == ("status", 302)


def test_cookies_do_not_outlive_a_request() -> None:
    with (
        HostileServer(routes={"/set": lambda x: x.answer(b"", Set_Cookie="a=b; Path=/")}) as server,
        Client(Transport()) as client,
    ):
        client.get(server.url("/set"))
        client.get(server.url("/ok"))
        assert "cookie" not in server.requests[1].headers


# --------------------------------------------------------------------------- sending


def test_sends_a_body_and_a_form(server: HostileServer) -> None:
    with Client(Transport()) as client:
        put = client.send("PUT", server.url("/echo?status=202"), data=b"a 1\n", content_type="text/x", ok=(200, 202))
        post = client.send("POST", server.url("/echo"), data={"query": "up == 1", "time": "5"})
    assert put.status == 202
    seen = json.loads(put.body)
    assert (seen["method"], seen["body"], seen["headers"]["content-type"]) == ("PUT", "a 1\n", "text/x")
    seen = json.loads(post.body)
    assert (seen["method"], seen["body"]) == ("POST", "query=up+%3D%3D+1&time=5")
    assert seen["headers"]["content-type"] == "application/x-www-form-urlencoded"


def test_a_status_that_was_not_named_is_an_error(server: HostileServer) -> None:
    with Client(Transport()) as client, pytest.raises(TransportError) as caught:
        client.send("PUT", server.url("/echo?status=202"), data=b"")
    assert caught.value.status == 202


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_body_is_never_sent_on(server: HostileServer, code: int) -> None:
    with Client(Transport(allow_redirects=True)) as client, pytest.raises(TransportError) as caught:
        client.send("POST", server.url(f"/redirect-to?code={code}&url=/echo"), data=b"x")
    assert caught.value.kind == "redirect"
    assert server.url("/echo") in str(caught.value)
    assert len(server.requests) == 1


def test_a_server_that_does_not_read_is_cut(server: HostileServer) -> None:
    def deaf(x: Exchange) -> None:
        x.pause(30)

    started = time.monotonic()
    with (
        HostileServer(greet=deaf) as server,
        Client(Transport(timeout_seconds=QUICK_SECONDS)) as client,
        pytest.raises(TransportError) as caught,
    ):
        client.send("POST", server.url("/"), data=b"a" * 30_000_000)
    assert caught.value.kind == "timeout"
    assert time.monotonic() - started < QUICK_SECONDS + SLACK_SECONDS


def test_the_path_of_a_webhook_is_a_secret(server: HostileServer) -> None:
    def echo_path(x: Exchange) -> bool:
        return x.answer(x.asked.path.encode(), "500 No")

    def move(x: Exchange) -> bool:
        return x.answer(b"", "308 Moved", Location=f"https://127.0.0.1{x.asked.path}")

    routes = {"/hook-secret": echo_path, "/moved-secret": move, "/slow-secret": lambda x: x.pause(30)}
    with HostileServer(routes=routes) as server, Client(Transport(timeout_seconds=QUICK_SECONDS)) as client:
        for path in routes:
            with pytest.raises(TransportError) as caught:
                client.send("POST", server.url(path), data=b"x", private_path=True)
            error = caught.value
            assert str(error).startswith(f"http://127.0.0.1:{server.port}/...")
            assert "secret" not in f"{error} {error!r} {error.url} {error.body_start}"


# --------------------------------------------------------------------------- credentials


def test_a_token_is_read_at_each_request(server: HostileServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first-secret\n")
    with Client(Transport(token_file=str(token))) as client:
        client.get(server.url("/ok"))
        token.write_text("second-secret")
        client.get(server.url("/ok"))
        token.unlink()
        with pytest.raises(UsageError, match="there is no such file"):
            client.get(server.url("/ok"))
    sent = [asked.headers["authorization"] for asked in server.requests]
    assert sent == ["Bearer first-secret", "Bearer second-secret"]


def test_a_token_from_a_pipe_is_read_once(server: HostileServer, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_text, args=("piped-secret\n",), daemon=True).start()
    with Client(Transport(token_file=str(pipe))) as client:
        client.get(server.url("/ok"))
        client.get(server.url("/ok"))
    assert [asked.headers["authorization"] for asked in server.requests] == ["Bearer piped-secret"] * 2


def test_basic_auth_from_a_file_and_from_the_address(server: HostileServer, tmp_path: Path) -> None:
    pair = tmp_path / "pair"
    pair.write_text("user:pa:ss wörd\r\n")
    with Client(Transport(basic_auth_file=str(pair))) as client:
        client.get(server.url("/ok"))
        # The address is the more particular of the two; its characters may be percent-encoded.
        answer = client.get(server.url("/ok", user="other:p%40ss%2Fword"))
    sent = [asked.headers["authorization"] for asked in server.requests]
    assert sent[0] == "Basic " + base64.b64encode("user:pa:ss wörd".encode()).decode()
    assert sent[1] == "Basic " + base64.b64encode(b"other:p@ss/word").decode()
    assert "@" not in answer.url


def test_headers_are_sent_and_repeated_names_joined(server: HostileServer) -> None:
    with Client(Transport(headers=(("X-Scope-OrgID", "a"), ("x-scope-orgid", "b"), ("Accept", "text/x")))) as client:
        client.get(server.url("/ok"), accept="text/plain")
    assert server.requests[0].headers["x-scope-orgid"] == "a, b"
    assert server.requests[0].headers["accept"] == "text/x"


def test_netrc_is_never_read(server: HostileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login who password netrc-secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    # The trap is real: plain requests does read it.
    assert requests.get(server.url("/ok")).request.headers["Authorization"].startswith("Basic ")
    with Client(Transport()) as client:
        client.get(server.url("/ok"))
        client.get(server.url("/redirect-to?url=/ok"))
    assert ["authorization" in asked.headers for asked in server.requests] == [True, False, False, False]


def test_no_secret_in_any_word(server: HostileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    pair = tmp_path.parent / "pair-of-this-test"
    pair.write_text("user:file-secret")
    transport = Transport(
        basic_auth_file=str(pair), headers=(("X-Api-Key", "key-secret"),), timeout_seconds=QUICK_SECONDS
    )
    said = [repr(transport), str(transport)]
    with Client(transport) as client:
        said.append(repr(client))
        for path in ("/echo?status=401", "/silent", "/drop", "/cut-gzip", "/status/500", "/redirect-loop"):
            for user in ("", "who:url-secret"):
                with pytest.raises(TransportError) as caught:
                    client.get(server.url(path, user=user))
                error = caught.value
                said += [str(error), repr(error), error.url, error.body_start]
                assert error.url == server.url(path)
    assert "X-Api-Key" in said[0]
    encoded = [base64.b64encode(b"user:file-secret").decode(), base64.b64encode(b"who:url-secret").decode()]
    assert any('"x-api-key": "***"' in words for words in said)
    for words in [*said, caplog.text]:
        assert "secret" not in words
        assert not [code for code in encoded if code in words]


@pytest.mark.parametrize(
    ("url", "cleaned"),
    [
        ("http://h:8000/metrics", "http://h:8000/metrics"),
        ("http://user:secret@h:8000/metrics?a=b#f", "http://h:8000/metrics?a=b"),
        ("http://user:se@cret@h/", "http://h/"),
        ("http://user:se/cret@h/metrics", "http://h/metrics"),
        ("http://user:se#cret@h/metrics", "http://h/metrics"),
        ("user:secret@h:8000/metrics", "h:8000/metrics"),
        ("http://[::1]:8000/metrics", "http://[::1]:8000/metrics"),
        ("http://who:secret@[::1/metrics", "http://[::1/metrics"),
        ("https://h/x?access_token=secret&q=1&apiKey=secret", "https://h/x?access_token=***&q=1&apiKey=***"),
        ("http://h/\x1b[31mred\r\n", "http://h/[31mred"),
        ("http://h/a@b", "http://h/a@b"),
        ("localhost:8000", "localhost:8000"),
        ("", ""),
    ],
)
def test_clean_url(url: str, cleaned: str) -> None:
    assert clean_url(url) == cleaned
    assert clean_url(cleaned) == cleaned


# --------------------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/x",
        "file:///etc/passwd",
        "h:8000/metrics",
        "http://",
        "http:///metrics",
        "http://h:99999/",
        "http://user:top/secret@h/",
        "http://user:secret@h:port/",
        "http://[::1/",
        "http://h /",
        "http://h/\r\nX: y",
        f"http://{'a' * 70}.test/",
        "http://.h/",
        "",
    ],
)
def test_what_is_no_address_is_the_callers_matter(url: str) -> None:
    with Client(Transport()) as client, pytest.raises(UsageError) as caught:
        client.get(url)
    assert "secret" not in str(caught.value)
    assert "top" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    ["", "\n", "two words-secret", "line-secret\nline-secret", "tökensecret", b"\xffsecret", "a" * 70_000],
)
def test_a_bad_token_file_is_named_and_not_shown(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = misuse(Transport(token_file=str(path)))
    assert str(path) in said
    assert "--token-file" in said
    assert "secret" not in said.replace(str(path), "")
    assert len(said) < 300


@pytest.mark.parametrize("content", ["", "only-secret", ":secret", "a:b\nc:secret"])
def test_a_bad_basic_auth_file_is_named_and_not_shown(tmp_path: Path, content: str) -> None:
    path = tmp_path / "pair"
    path.write_text(content)
    said = misuse(Transport(basic_auth_file=str(path)))
    assert "user:password" in said
    assert "secret" not in said.replace(str(path), "")


def test_files_that_are_not_there_or_not_files(tmp_path: Path) -> None:
    missing, folder = str(tmp_path / "missing"), str(tmp_path)
    for name in ("token_file", "basic_auth_file", "ca_cert", "client_cert"):
        said = misuse(Transport(**{name: missing}))  # type: ignore[arg-type]
        assert said == f"--{name.replace('_', '-')} {missing}: there is no such file"
    for name in ("token_file", "basic_auth_file"):
        assert "directory" in misuse(Transport(**{name: folder}))  # type: ignore[arg-type]
    text = tmp_path / "text.pem"
    text.write_text("not a certificate, but a secret")
    assert "holds no certificate" in misuse(Transport(ca_cert=str(text)))
    assert "a certificate and the key" in misuse(Transport(client_cert=str(text)))
    assert "there is no such file" in misuse(Transport(client_cert=f"{text},{missing}"))


def test_options_that_cannot_work(tmp_path: Path) -> None:
    for seconds in (0.0, -1.0, float("nan"), float("inf")):
        assert "--timeout" in misuse(Transport(timeout_seconds=seconds))
    assert "--max-body" in misuse(Transport(max_body_bytes=0))
    for name, value in (("Bad Name", "x"), ("", "x"), ("X\r\nY", "x")):
        assert "--header" in misuse(Transport(headers=((name, value),)))
    for value in ("secret\r\nX: y", "secret\0", "s\u20accret"):
        said = misuse(Transport(headers=(("X-Key", value),)))
        assert said.startswith("--header X-Key: ")
        assert "cret" not in said
    token = tmp_path / "token"
    token.write_text("x")
    assert "contradict" in misuse(Transport(token_file=str(token), basic_auth_file=str(token)))
    assert "contradict" in misuse(Transport(token_file=str(token), headers=(("authorization", "Bearer y"),)))


# --------------------------------------------------------------------------- proxies of the environment


def test_an_http_proxy_is_used(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url("", user="who:proxy-secret"))
    monkeypatch.setenv("http_proxy", server.url("", user="who:proxy-secret"))
    with Client(Transport()) as client:
        assert client.get("http://engine.test:8000/metrics").body == PAGE
    assert server.requests[0].path == "/metrics"
    assert server.requests[0].headers["host"] == "engine.test:8000"
    assert "proxy-authorization" in server.requests[0].headers
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with HostileServer() as direct, Client(Transport()) as client:
        client.get(direct.url("/ok"))
        assert len(direct.requests) == 1


def test_a_proxy_that_is_not_there_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://who:proxy-secret@127.0.0.1:{port}")
    for scheme in ("http", "https"):
        error = fail(f"{scheme}://engine.test/metrics")
        assert error.kind == "refused"
        assert "proxy set in the environment" in str(error)
        assert "secret" not in str(error)


def test_a_proxy_of_no_usable_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with Client(Transport()) as client, pytest.raises(UsageError, match="proxy set in the environment"):
        client.get("http://engine.test/metrics")


def test_a_ca_bundle_of_the_environment_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/bundle.pem")
    with Client(Transport()) as client, pytest.raises(UsageError, match="REQUESTS_CA_BUNDLE"):
        client.get("https://127.0.0.1:1/")


# --------------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    if not have_openssl():
        if os.environ.get("CI") == "true":
            pytest.fail("openssl is needed for the TLS tests")
        pytest.skip("openssl is not installed: TLS tests cannot run here")
    folder = tmp_path_factory.mktemp("tls")
    made = {name: make_certificate(folder, name=name) for name in ("server", "client", "stranger")}
    made["locked"] = make_certificate(folder, name="locked", encrypted_key=True)
    return made


Certificates = dict[str, tuple[Path, Path]]


def test_a_certificate_nobody_vouches_for(certificates: Certificates) -> None:
    with HostileServer(tls=serve_tls(*certificates["server"])) as server:
        error = fail(server.url("/ok"))
        assert error.kind == "tls"
        assert "not trusted (self-signed certificate)" in str(error)
        assert "--ca-cert" in str(error)
        with Client(Transport(ca_cert=str(certificates["server"][0]))) as client:
            assert client.get(server.url("/ok")).body == PAGE
            assert client.get(server.url("/ok", host="localhost")).body == PAGE
        other = fail(server.url("/ok"), Transport(ca_cert=str(certificates["stranger"][0])))
        assert other.kind == "tls"


def test_a_certificate_for_another_name(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *a, **k: real("127.0.0.1", *a, **k))
    with HostileServer(tls=serve_tls(*certificates["server"])) as server:
        transport = Transport(ca_cert=str(certificates["server"][0]), timeout_seconds=5)
        error = fail(server.url("/ok", host="engine.test"), transport)
    assert error.kind == "tls"
    assert "engine.test" in str(error)
    assert "ostname mismatch" in str(error)


def test_insecure_is_quiet_and_stronger_than_the_environment(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates["stranger"][0]))
    with (
        HostileServer(tls=serve_tls(*certificates["server"])) as server,
        warnings.catch_warnings(record=True) as said,
        Client(Transport(insecure=True)) as client,
    ):
        warnings.simplefilter("always")
        assert client.get(server.url("/ok")).body == PAGE
    assert not [w for w in said if issubclass(w.category, urllib3.exceptions.InsecureRequestWarning)]


def test_a_ca_bundle_of_the_environment_is_honoured(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates["server"][0]))
    with HostileServer(tls=serve_tls(*certificates["server"])) as server, Client(Transport()) as client:
        assert client.get(server.url("/ok")).body == PAGE


def test_client_certificates(certificates: Certificates, tmp_path: Path) -> None:
    cert, key = certificates["client"]
    both = tmp_path / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    authority = str(certificates["server"][0])
    with HostileServer(tls=serve_tls(*certificates["server"], client_authority=cert)) as server:
        for option in (str(both), f"{cert},{key}"):
            with Client(Transport(ca_cert=authority, client_cert=option)) as client:
                assert client.get(server.url("/ok")).body == PAGE
        # In TLS 1.3 the refusal comes after the handshake and may be overtaken by the end of the connection.
        error = fail(server.url("/ok"), Transport(ca_cert=authority, timeout_seconds=5))
        assert error.kind in ("tls", "protocol")
        assert "--client-cert" in str(error)
    context = serve_tls(*certificates["server"], client_authority=cert)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with HostileServer(tls=context) as server:
        error = fail(server.url("/ok"), Transport(ca_cert=authority, timeout_seconds=5))
        assert error.kind == "tls"
        assert "--client-cert" in str(error)


def test_a_client_certificate_stays_with_its_origin(certificates: Certificates) -> None:
    cert, key = certificates["client"]
    with HostileServer(tls=serve_tls(*certificates["server"], client_authority=cert)) as server:
        transport = Transport(
            ca_cert=str(certificates["server"][0]),
            client_cert=f"{cert},{key}",
            allow_redirects=True,
            timeout_seconds=5,
        )
        error = fail(server.url(f"/redirect-to?url={server.url('/ok', host='localhost')}"), transport)
    assert error.kind in ("tls", "protocol")
    assert error.url == server.url("/ok", host="localhost")
    assert [asked.path for asked in server.requests] == ["/redirect-to"]


def test_an_unusable_client_key(certificates: Certificates) -> None:
    locked, other = certificates["locked"], certificates["client"]
    assert "the key is encrypted" in misuse(Transport(client_cert=f"{locked[0]},{locked[1]}"))
    assert "the key that belongs to it" in misuse(Transport(client_cert=f"{other[0]},{locked[0]}"))
    stranger = certificates["stranger"]
    assert "the key that belongs to it" in misuse(Transport(client_cert=f"{other[0]},{stranger[1]}"))


def test_http_and_https_mixed_up(certificates: Certificates) -> None:
    def refuse(x: Exchange) -> None:
        # Unread bytes would turn the close into a reset, which may overtake the answer.
        x.sock.recv(65536)
        x.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with HostileServer(greet=refuse) as plain:
        error = fail(f"https://127.0.0.1:{plain.port}/")
        assert error.kind == "tls"
        assert "try http://" in str(error)
    with HostileServer(tls=serve_tls(*certificates["server"])) as secure:
        error = fail(secure.url("/ok").replace("https:", "http:"))
        assert error.kind == "protocol"


def test_dribble_and_cut_under_tls(certificates: Certificates) -> None:
    with HostileServer(tls=serve_tls(*certificates["server"])) as server:
        transport = Transport(ca_cert=str(certificates["server"][0]), timeout_seconds=QUICK_SECONDS)
        for path in ("/dribble-headers", "/dribble-body"):
            assert fail(server.url(path), transport).kind == "timeout"
        assert server.wait_for_hang_up()
        assert _threads_end()
        patient = Transport(ca_cert=str(certificates["server"][0]), timeout_seconds=5)
        assert fail(server.url("/cut-length"), patient).kind == "protocol"
        assert fail(server.url("/cut-chunk"), patient).kind == "protocol"


# --------------------------------------------------------------------------- names


def test_a_name_with_several_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["10.0.0.10", "10.0.0.9", "10.0.0.10", "fe80::1%2", "2001:db8::1"]

    def look_up(host: str, port: int, *, type: int) -> list[tuple[object, ...]]:
        assert (host, port, type) == ("engines.test", 8000, socket.SOCK_STREAM)
        return [(socket.AF_INET6 if ":" in a else socket.AF_INET, type, 6, "", (a, port)) for a in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert resolve_addresses("engines.test", 8000) == ["10.0.0.9", "10.0.0.10", "2001:db8::1", "fe80::1%2"]


def test_an_address_is_its_own_address() -> None:
    assert resolve_addresses("127.0.0.1", 80) == ["127.0.0.1"]
    assert resolve_addresses("::1", 80) == ["::1"]


@pytest.mark.parametrize("host", ["a" * 70 + ".test", "no such\x1b[31mname"])
def test_a_name_that_is_none(host: str) -> None:
    with pytest.raises(TransportError) as caught:
        resolve_addresses(host, 80)
    assert caught.value.kind == "dns"
    assert "\x1b" not in str(caught.value)
