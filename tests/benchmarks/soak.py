"""``auditor audit URL --window`` over and over in one process: does it leak files, threads or memory?

    python -m tests.benchmarks.soak [MINUTES]           10 by default
    python -m tests.benchmarks.soak --serve PAGES       the engine: prints its port, then serves a simulated run

The engine is a process of its own that serves the pages of a simulated vLLM as its run goes on.
"""

from __future__ import annotations

import contextlib
import gc
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.benchmarks.measuring import ROOT

FORMATS = ("terminal", "json", "markdown", "prometheus")
SEED = 35
"""A run of 24 minutes with traffic throughout."""
PAGES = 1300
PAGES_A_SECOND = 2
WARM_UP = 20
"""Rounds after which every import, cache and pool is there."""


def serve(pages: int) -> None:
    from tests.simulator import even_times, page_text, random_setting, simulate, snapshots

    scenario = random_setting(SEED)
    run = simulate(scenario.setting, scenario.workload)
    taken = snapshots(run, even_times(run, pages), layout=scenario.layout)
    start = time.monotonic()

    class Engine(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            now = min(pages - 1, int((time.monotonic() - start) * PAGES_A_SECOND))
            body = page_text(taken[now]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def count() -> dict[str, float]:
    """What this process holds now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "objects": len(gc.get_objects()),
        "megabytes": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
    }


def soak(minutes: float) -> dict[str, object]:
    """Audit until the time is up; returns what was held after the warm-up and at the end."""
    from auditor.entry import run

    command = [sys.executable, "-m", "tests.benchmarks.soak", "--serve", str(PAGES)]
    engine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert engine.stdout is not None
        url = f"http://127.0.0.1:{int(engine.stdout.readline())}"
        end = time.monotonic() + 60 * minutes
        codes: dict[int, int] = {}
        held: list[dict[str, float]] = []
        rounds = 0
        with Path(os.devnull).open("w") as nowhere:
            while time.monotonic() < end or rounds <= WARM_UP:
                with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                    code = run(["audit", url, "--window", "1s", "--as", FORMATS[rounds % len(FORMATS)]])
                codes[code] = codes.get(code, 0) + 1
                rounds += 1
                if rounds >= WARM_UP and rounds % len(FORMATS) == 0:
                    held.append(count())
        third = max(1, len(held) // 3)
        return {
            "rounds": rounds,
            "exit_codes": codes,
            "after_warm_up": held[0],
            "at_a_third": held[third - 1],
            "at_the_end": held[-1],
        }
    finally:
        engine.terminate()
        engine.wait()


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]))
        return
    print(json.dumps(soak(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)))


if __name__ == "__main__":
    main()
