"""A page of a real server whose model has a name that means harm, and a server that answers what it is told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
NAMES = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>]]>&amp;\"'",
    "markdown": "a|b`c` [x](http://evil.example) ![y](http://evil.example/i.png) **b** <b>h</b>\n# h\n- x",
    "terminal": "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202eb\u2066c\r\x00d",
    "annotation": "x\n::error::fake\n::stop-commands::t\r::set-output name=a::b%0A::warning::y",
    "formula": "=cmd|' /C calc'!A0",
    "formula-at": "@SUM(1+1)*cmd|' /C calc'!A0",
    "path": "../../../../tmp/owned",
    "exposition": 'm"} 1\nowned_total{a="b',
    "template": "{{ 7*7 }}{% for x in y %}${jndi:ldap://x}%s%n{0}",
}


def page(name: str, which: str = "after") -> bytes:
    """A page of the demo with this model name, escaped as the exposition format asks."""
    escaped = name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    text = (DEMO / f"{which}.prom").read_text(encoding="utf-8")
    assert 'model_name="tiny"' in text
    return text.replace('model_name="tiny"', f'model_name="{escaped}"').encode()


def write_pair(folder: Path, name: str) -> list[str]:
    """Both pages in a folder; the arguments that audit them."""
    for which in ("before", "after"):
        (folder / f"{which}.prom").write_bytes(page(name, which))
    return ["--before", str(folder / "before.prom"), str(folder / "after.prom"), "--seconds", "175.1"]


class Answers(BaseHTTPRequestHandler):
    status, headers_out, body = 200, {}, b""  # type: ignore[var-annotated]

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))  # type: ignore[attr-defined]
        self.send_response(self.status)
        for name, value in self.headers_out.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def serving(
    body: bytes = b"", *, status: int = 200, headers: dict[str, str] | None = None
) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """A server on this machine with one answer; its address and what it was asked."""
    handler = type("Handler", (Answers,), {"status": status, "headers_out": headers or {}, "body": body})
    server = HTTPServer(("127.0.0.1", 0), handler)
    server.seen = []  # type: ignore[attr-defined]
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", server.seen  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
