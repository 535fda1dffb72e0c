"""Running the program: in this process where that is enough, as a process where signals, pipes or imports matter."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from auditor.entry import run

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
NEW = FIXTURES / "vllm" / "0.32.0"
A, B, C = NEW / "a-decode-heavy", NEW / "b-prefill-heavy", NEW / "c-shared-prefix"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def subject(self) -> dict[str, Any]:
        (found,) = self.json["subjects"]
        return dict(found)

    def value(self, name: str) -> Any:
        return self.subject["readings"][name]["value"]


def auditor(*argv: object, env: dict[str, str] | None = None) -> Ended:
    """One command line in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    old = dict(os.environ)
    os.environ.update(env or {})
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run([str(a) for a in argv])
    finally:
        os.environ.clear()
        os.environ.update(old)
    out.flush()
    return Ended(code, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]


def command(*argv: object) -> list[str]:
    return [sys.executable, "-m", "auditor", *(str(a) for a in argv)]


def process(*argv: object, stdin: bytes | None = None, **kwargs: Any) -> subprocess.CompletedProcess[bytes]:
    """The program as a process of its own."""
    return subprocess.run(command(*argv), input=stdin, capture_output=True, timeout=60, cwd=ROOT, check=False, **kwargs)


Answer = tuple[int, bytes, str]
Handler = Callable[[str, int], Answer]
"""Path and how often it was asked before -> status, body, content type."""

TEXT = "text/plain; version=1.0.0; charset=utf-8"


class Pages:
    """A small well-behaved server whose answers a function makes."""

    def __init__(self, answer: Handler) -> None:
        asked: dict[str, int] = {}
        self.asked = asked
        lock = threading.Lock()

        class Handle(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                with lock:
                    before = asked.get(path, 0)
                    asked[path] = before + 1
                status, body, kind = answer(path, before)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handle)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def url(self, path: str = "/metrics") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def serve(answer: Handler) -> Iterator[Pages]:
    pages = Pages(answer)
    thread = threading.Thread(target=pages.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield pages
    finally:
        pages.server.shutdown()
        pages.server.server_close()


def in_turn(*bodies: bytes, status: Sequence[int] | None = None) -> Handler:
    """The first scrape of each path gets the first body, the second one the second; the last one stays."""

    def answer(path: str, before: int) -> Answer:
        i = min(before, len(bodies) - 1)
        return (status[i] if status else 200), bodies[i], TEXT

    return answer


def free_port() -> int:
    """A port on which nothing listens."""
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
