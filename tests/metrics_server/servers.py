"""Real metrics servers on loopback, filled with samples of our choice, for tests marked ``live``.

The programs come from Debian: ``apt-get install prometheus victoria-metrics`` (promtool is part of the former).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

Labels = tuple[tuple[str, str], ...]
Server = Callable[..., contextlib.AbstractContextManager[str]]
PIDS: dict[str, int] = {}
"""Address of a running server -> its process."""
PROGRAMS = ("prometheus", "promtool", "victoria-metrics")


def require_programs() -> None:
    """Skip where the servers are not installed; with CI=true that is a failure."""
    missing = [p for p in PROGRAMS if shutil.which(p) is None]
    if not missing:
        return
    text = f"not installed: {', '.join(missing)} (apt-get install prometheus victoria-metrics)"
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)


@dataclass
class Store:
    """Samples by series, as a metrics server would have stored them."""

    series: dict[tuple[str, Labels], list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, labels: Mapping[str, str], points: Iterable[tuple[float, float]]) -> None:
        self.series.setdefault((name, tuple(sorted(labels.items()))), []).extend(points)

    def add_page(self, page: Iterable[tuple[str, Labels, float]], at: float, **target: str) -> None:
        """All samples of one scrape, with the labels that a server adds."""
        for name, labels, value in page:
            self.add(name, {**dict(labels), **target}, [(at, value)])
        self.add("up", target, [(at, 1.0)])

    def write_openmetrics(self, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            for line, (at, value) in self._lines():
                file.write(f"{line} {value!r} {at:.3f}\n")
            file.write("# EOF\n")

    def write_import(self, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            for line, (at, value) in self._lines():
                file.write(f"{line} {value!r} {round(at * 1000)}\n")

    def _lines(self) -> Iterator[tuple[str, tuple[float, float]]]:
        for (name, labels), points in sorted(self.series.items()):
            quoted = ",".join(f'{k}="{_escape(v)}"' for k, v in labels)
            line = f"{name}{{{quoted}}}"
            for point in sorted(points):
                yield line, point


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def both() -> dict[str, Server]:
    """The servers that every live test asks."""
    return {"prometheus": prometheus, "victoria-metrics": victoria_metrics}


@contextlib.contextmanager
def prometheus(store: Store | Path, *flags: str) -> Iterator[str]:
    """A Prometheus that holds the samples as backfilled blocks; yields its address."""
    require_programs()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        text = store
        if isinstance(store, Store):
            text = place / "samples.om"
            store.write_openmetrics(text)
        # Without this option promtool reads its input once for each two hours of samples.
        backfill = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=768h"]
        subprocess.run([*backfill, str(text), place / "data"], check=True, capture_output=True)
        (place / "prometheus.yml").write_text("global: {}\n")
        command = [
            "prometheus",
            f"--config.file={place / 'prometheus.yml'}",
            f"--storage.tsdb.path={place / 'data'}",
            "--storage.tsdb.retention.time=100y",
            "--web.listen-address=127.0.0.1:PORT",
            "--log.level=error",
            *flags,
        ]
        with _running(command, "/-/ready", place / "log") as address:
            yield address


@contextlib.contextmanager
def victoria_metrics(store: Store | Path, *flags: str) -> Iterator[str]:
    """A VictoriaMetrics that was handed the samples by its import API; yields its address."""
    require_programs()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        command = [
            "victoria-metrics",
            f"-storageDataPath={place / 'data'}",
            "-httpListenAddr=127.0.0.1:PORT",
            "-retentionPeriod=100y",
            "-loggerLevel=ERROR",
            "-search.disableCache",
            *flags,
        ]
        with _running(command, "/health", place / "log") as address:
            text = store
            if isinstance(store, Store):
                text = place / "samples.txt"
                store.write_import(text)
            with Path(text).open("rb") as file:
                request = urllib.request.Request(f"{address}/api/v1/import/prometheus", data=file, method="POST")
                request.add_header("Content-Length", str(Path(text).stat().st_size))
                urllib.request.urlopen(request, timeout=600).read()
            urllib.request.urlopen(f"{address}/internal/force_flush", timeout=60).read()
            yield address


@contextlib.contextmanager
def _running(command: list[str], ready: str, log: Path) -> Iterator[str]:
    """Start a server on a free port (``PORT`` in the command); another one where somebody was quicker."""
    for attempt in range(5):
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        with log.open("wb") as output:
            arguments = [part.replace("PORT", str(port)) for part in command]
            process = subprocess.Popen(arguments, stdout=output, stderr=output)
        try:
            _wait_until(f"{address}{ready}", process, log)
        except RuntimeError:
            gone = process.poll() is not None
            _end(process)
            if gone and attempt < 4:
                continue
            raise
        break
    try:
        PIDS[address] = process.pid
        yield address
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=2).read()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise RuntimeError(f"{url} did not become ready: {log.read_text(errors='replace')[-2000:]}")
