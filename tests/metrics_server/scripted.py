"""A metrics server that answers as a script says: for statuses, warnings and forms that no server here produces."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Asked:
    method: str
    path: str
    form: dict[str, str]
    headers: Mapping[str, str]

    @property
    def query(self) -> str:
        return self.form.get("query", "")


@dataclass
class Reply:
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Send half the body and close."""


Rule = Callable[[Asked], Reply | None]


def ok(data: Any, **members: Any) -> Reply:
    return Reply(json.dumps({"status": "success", "data": data, **members}).encode())


def vector(*rows: tuple[Mapping[str, str], float | str], at: float = 0.0, **members: Any) -> Reply:
    result = [{"metric": dict(labels), "value": [at, str(value)]} for labels, value in rows]
    return ok({"resultType": "vector", "result": result}, **members)


def matrix(*rows: tuple[Mapping[str, str], Sequence[tuple[float, float | str]]], **members: Any) -> Reply:
    result = [{"metric": dict(labels), "values": [[at, str(v)] for at, v in points]} for labels, points in rows]
    return ok({"resultType": "matrix", "result": result}, **members)


def error(status: int, kind: str, text: str) -> Reply:
    return Reply(json.dumps({"status": "error", "errorType": kind, "error": text}).encode(), status)


@dataclass
class Script:
    """Rules are asked in order; the first that answers does. Behind them an API that knows one small engine."""

    rules: list[Rule] = field(default_factory=list)
    names: tuple[str, ...] = (
        "vllm:generation_tokens_total",
        "vllm:prompt_tokens_total",
        "vllm:request_success_total",
        "vllm:num_requests_running",
    )
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    prefix: str = ""

    def answer(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        for rule in self.rules:
            reply = rule(asked)
            if reply is not None:
                return reply
        return self.usual(asked)

    def usual(self, asked: Asked) -> Reply:
        path = asked.path.removeprefix(f"{self.prefix}/api/v1/")
        if path == asked.path:
            return Reply(b"404 page not found", 404, "text/plain")
        if path == "label/__name__/values":
            return ok(list(self.names))
        if path == "labels":
            return ok(["__name__", "engine", "finished_reason", "instance", "job", "model_name"])
        if path == "status/buildinfo":
            return ok({"version": "2.99.0"})
        query, here = asked.query, {"instance": "a:8000", "job": "vllm"}
        if "dialect_probe" in query:
            return error(400, "bad_data", "unknown function")
        if path == "query_range":
            start, end, step = (float(asked.form[k]) for k in ("start", "end", "step"))
            times = [start + i * step for i in range(int((end - start) / step + 1e-6) + 1)]
            return matrix((_labels_of(query), [(at, 1.0) for at in times]))
        if query.endswith("]"):
            at = float(asked.form["time"])
            return matrix((here, [(at - 15.0 * i, 1.0) for i in range(20, -1, -1)]))
        if "by (series)" in query or "process_start" in query or "resets" in query:
            return vector()
        if "up{" in query:
            return vector((here, 240))
        if query.startswith("max by (model_name, job, instance) (count_over_time"):
            return vector(({"model_name": "tiny", **here}, 240))
        if query.startswith("count by (job, instance)"):
            return vector((here, 1))
        if "finished_reason" in query:
            return vector(
                ({"model_name": "tiny", "finished_reason": "stop"}, 75),
                ({"model_name": "tiny", "finished_reason": "length"}, 25),
            )
        if query.startswith("sum by (model_name) (increase("):
            return vector(({"model_name": "tiny"}, 1000))
        return vector()


def _labels_of(query: str) -> dict[str, str]:
    return {"model_name": "tiny"} if "by (model_name" in query else {}


@contextmanager
def scripted(script: Script) -> Iterator[Script]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply("GET", urlsplit(self.path).query)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._reply("POST", self.rfile.read(length).decode())

        def _reply(self, method: str, text: str) -> None:
            form = {k: v[-1] for k, v in parse_qs(text).items()}
            reply = script.answer(Asked(method, urlsplit(self.path).path, form, dict(self.headers)))
            self.send_response_only(reply.status)
            if "Date" not in reply.headers:
                self.send_header("Date", self.date_time_string())
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body[: len(reply.body) // 2] if reply.cut else reply.body)
            if reply.cut:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}{script.prefix}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
