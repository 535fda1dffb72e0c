"""What an audit costs the engine it asks: requests, bytes, and two audits at once."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.benchmarks.measuring import FIXTURE, Row
from tests.benchmarks.startup import auditor


@dataclass
class Counted:
    """What an engine saw: requests, and bytes of the bodies it sent."""

    url: str
    requests: list[str] = field(default_factory=list)
    body_bytes: int = 0


@contextmanager
def counting_engine() -> Iterator[Counted]:
    body = FIXTURE.read_bytes()
    lock = threading.Lock()

    class Engine(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with lock:
                seen.requests.append(self.path)
                seen.body_bytes += len(body)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    seen = Counted(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def run_audits(seen: Counted, *commands: Sequence[str]) -> None:
    """Run command lines at the same time, each with the engine's address at its end."""
    running = [
        subprocess.Popen(auditor(*c, seen.url), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in commands
    ]
    for process in running:
        process.wait(60)


CASES: tuple[tuple[str, tuple[tuple[str, ...], ...], int], ...] = (
    ("audit URL", (("audit",),), 1),
    ("audit URL --window 1s", (("audit", "--window", "1s"),), 2),
    ("doctor URL", (("doctor",),), 1),
    ("two audits with --window 1s at once", (("audit", "--window", "1s"), ("audit", "--window", "1s")), 4),
)


def measure() -> Iterator[Row]:
    page = FIXTURE.stat().st_size
    for what, commands, gets in CASES:
        with counting_engine() as seen:
            run_audits(seen, *commands)
        yield Row(
            f"cost on the engine: {what}",
            f"{len(seen.requests)} GET, {seen.body_bytes:,} bytes",
            f"{gets} GET, {gets * page:,} bytes: one page for each scrape",
            len(seen.requests) / gets,
            "exactly 1x",
            len(seen.requests) == gets and set(seen.requests) == {"/metrics"},
        )
