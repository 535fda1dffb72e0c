"""A fleet on loopback: two scrapes of every target and the whole audit, against a loop that only downloads.

    python -m tests.benchmarks.fleet audit|loop PORT TARGETS     one run; prints its figures as JSON

Both use 16 threads, one requests session each. The wait between the scrapes is not counted in either: ``audit``
subtracts what it slept, and work that it does while it waits is counted in CPU seconds.
"""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.measuring import ROOT, Row, alternate, make_pages, own_figures, run_child

WORKERS = 16
WAIT_SECONDS = 3.0


def addresses(port: int, targets: int) -> list[str]:
    """One address of 127.0.0.0/8 a target."""
    return [f"http://127.0.{1 + i // 250}.{1 + i % 250}:{port}/metrics" for i in range(targets)]


def run_loop(port: int, targets: int) -> dict[str, float]:
    """Download every page twice and do nothing with it."""
    import requests

    mine = threading.local()

    def get(url: str) -> int:
        session = getattr(mine, "session", None)
        if session is None:
            session = mine.session = requests.Session()
        return len(session.get(url, timeout=10).content)

    urls = addresses(port, targets)
    start, cpu = time.monotonic(), time.process_time()
    size = 0
    for _ in range(2):
        with ThreadPoolExecutor(WORKERS) as pool:
            size += sum(pool.map(get, urls))
    seconds = time.monotonic() - start
    return {"seconds": seconds, "run_cpu_seconds": time.process_time() - cpu, "bytes": size}


def run_audit(port: int, targets: int, wait: float) -> dict[str, float]:
    """Everything that ``auditor audit URL... --window`` does, without reading a command line."""
    from auditor.collect import Inputs, collect
    from auditor.model import Options, dump_json
    from auditor.outputs.terminal import render
    from auditor.outputs.text import RenderOptions
    from auditor.pipeline import audit_window

    urls = addresses(port, targets)
    start, cpu = time.monotonic(), time.process_time()
    window = collect(Inputs(targets=tuple(urls), window_seconds=wait))
    gathered = time.monotonic()
    document = audit_window(window, Options()).to_json()
    audited = time.monotonic()
    render(document, RenderOptions(width=100, colour=False, show_all=False))
    end = time.monotonic()
    measured = sum(t.state == "measured" for t in window.targets)
    assert measured == targets, f"{measured} of {targets} targets were measured"
    return {
        "seconds": end - start - wait,
        "run_cpu_seconds": time.process_time() - cpu,
        "gather_seconds": gathered - start - wait,
        "audit_seconds": audited - gathered,
        "json_bytes": len(dump_json(document)),
    }


@contextmanager
def fleet_server() -> Iterator[int]:
    """The port of a fleet in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="auditor-bench-") as folder:
        paths = [Path(folder, name) for name in ("first.prom", "later.prom")]
        for path, page in zip(paths, make_pages(), strict=True):
            path.write_bytes(page)
        command = [sys.executable, "-m", "tests.benchmarks.fleet_server", str(port), *map(str, paths)]
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            server.stdout.readline()
            yield port
        finally:
            server.terminate()
            server.wait()


def measure() -> Iterator[Row]:
    sizes = (10, 32, 100, 316, 1000)
    with fleet_server() as port:
        audits: dict[str, dict[str, float]] = {}

        def audit() -> float:
            audits["last"] = run_child("tests.benchmarks.fleet", "audit", str(port), "1000")
            seconds.append(audits["last"]["seconds"])
            return audits["last"]["run_cpu_seconds"]

        def loop() -> float:
            found = run_child("tests.benchmarks.fleet", "loop", str(port), "1000")
            loop_seconds.append(found["seconds"])
            return float(found["run_cpu_seconds"])

        seconds: list[float] = []
        loop_seconds: list[float] = []
        mine, bare, ratio = alternate(audit, loop, 3)
        peak = audits["last"]["peak_megabytes"]
        what = "1,000 targets of 50 KB, two scrapes"
        yield Row(
            f"{what}, CPU", f"{mine:.2f} s CPU", f"{bare:.2f} s: only downloading", ratio, "at most 1.5x", ratio <= 1.5
        )
        clock = sorted(a / b for a, b in zip(seconds, loop_seconds, strict=True))[1]
        yield Row(
            f"{what}, clock without the wait",
            f"{sorted(seconds)[1]:.1f} s",
            f"{sorted(loop_seconds)[1]:.1f} s: only downloading",
            clock,
            "at most 1.5x",
            clock <= 1.5,
        )
        yield Row(f"{what}, peak memory", f"{peak:.0f} MB", "400 MB", peak / 400, "under 400 MB", peak < 400)
        points = []
        for size in sizes:
            found = run_child("tests.benchmarks.fleet", "audit", str(port), str(size), "1")
            points.append((float(size), float(found["run_cpu_seconds"])))
        floor = points[0][1] - (points[-1][1] - points[0][1]) * points[0][0] / (points[-1][0] - points[0][0])
        grown = [(n, cpu - floor) for n, cpu in points[2:]]
        exponent = _slope([(math.log(n), math.log(cpu)) for n, cpu in grown])
        shown = ", ".join(f"{n:.0f}: {cpu:.2f} s" for n, cpu in points)
        yield Row(
            "growth of CPU time from 10 to 1,000 targets",
            f"exponent {exponent:.2f}",
            f"1 is linear ({shown}; {floor:.2f} s of start-up taken off)",
            exponent,
            "0.9 to 1.1",
            0.9 <= exponent <= 1.1,
        )


def _slope(points: list[tuple[float, float]]) -> float:
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def main() -> None:
    kind, port, targets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if kind == "loop":
        figures = run_loop(port, targets)
    else:
        wait = float(sys.argv[4]) if len(sys.argv) > 4 else WAIT_SECONDS
        figures = run_audit(port, targets, wait)
    print(json.dumps({**figures, **own_figures()}))


if __name__ == "__main__":
    main()
