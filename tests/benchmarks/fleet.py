"""A fleet on loopback: two scrapes of every target and the whole audit, against a loop that only downloads.

    python -m tests.benchmarks.fleet audit|loop PORT TARGETS     one run; prints its figures as JSON

Both use 16 threads, one requests session each. The wait between the scrapes is not counted in either: ``audit``
subtracts what it slept, and work that it does while it waits is counted in CPU seconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.benchmarks.measuring import own_figures

WORKERS = 16
WAIT_SECONDS = 4.0


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
    from auditor.outputs.text import RenderOptions
    from auditor.outputs.terminal import render
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
