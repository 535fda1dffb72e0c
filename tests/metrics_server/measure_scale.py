"""What a fleet costs: queries, bytes, seconds in the server and in us, memory, and how they grow.

    nice python -m tests.metrics_server.measure_scale            # both data sets, both servers: some minutes
    nice python -m tests.metrics_server.measure_scale --small    # a check that the script works

The series are those of a captured vLLM 0.32 page that an audit reads; their values grow evenly. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from auditor.measures.reduce import declared_names
from auditor.measures.vocabulary import load_vocabulary
from tests.metrics_server.samples import END, series_pages
from tests.metrics_server.servers import PIDS, prometheus, victoria_metrics

DAY = 86_400.0
Server = Callable[[Path], AbstractContextManager[str]]

CHILD = """
import json, resource, sys, time
from auditor.http import Transport
from auditor.measures.vocabulary import load_vocabulary
from auditor.model import Options
from auditor.ranges import RangeRequest, collect_range
url, seconds, end, match = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
told = []
begin, cpu = time.monotonic(), time.process_time()
window = collect_range(RangeRequest(url, seconds, end, match), load_vocabulary(),
                       transport=Transport(timeout_seconds=120), say=told.append)
collected = time.monotonic() - begin
from auditor.pipeline import audit_window
report = audit_window(window, Options())
print(json.dumps({"told": told[-1], "collect": collected, "wall": time.monotonic() - begin,
                  "cpu": time.process_time() - cpu, "coverage": window.coverage,
                  "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                  "requests": report.to_json()["subjects"][0]["readings"]["finished_requests"]["value"]}))
"""


def lines(replicas: int, seconds: float, every: float) -> Iterator[str]:
    """OpenMetrics text of a fleet: (series with labels, value, second) of every sample."""
    vocabulary = load_vocabulary()
    engine = vocabulary.engine("vllm")
    wanted = declared_names(engine, "vllm:")
    page = series_pages(vocabulary)[-1][1]
    counters = {n for n, found in wanted.items() if any(d.kind in ("counter", "histogram") for d, _, _ in found)}
    samples = [s for s in page.samples if s.name in wanted]
    count = round(seconds / every) + 1
    times = [END - seconds + i * every for i in range(count)]
    for replica in range(replicas):
        target = f'instance="r{replica:03d}:8000",job="vllm"'
        pace = 1 + replica / replicas
        for s in samples:
            inside = ",".join(f'{k}="{v}"' for k, v in s.labels)
            head = f"{s.name}{{{inside},{target}}}" if inside else f"{s.name}{{{target}}}"
            if s.name in counters:
                slope = s.value * pace
                yield "".join(f"{head} {slope * (i + 1):.10g} {at:.0f}\n" for i, at in enumerate(times))
            else:
                yield "".join(f"{head} {s.value:.10g} {at:.0f}\n" for at in times)
        yield "".join(f"up{{{target}}} 1 {at:.0f}\n" for at in times)
        start = END - 2 * seconds
        yield "".join(f"process_start_time_seconds{{{target}}} {start:.0f} {at:.0f}\n" for at in times)


def write(path: Path, replicas: int, seconds: float, every: float, *, milliseconds: bool) -> int:
    total = 0
    with path.open("w", encoding="utf-8") as file:
        for block in lines(replicas, seconds, every):
            file.write(block.replace("\n", "000\n") if milliseconds else block)
            total += block.count("\n")
        if not milliseconds:
            file.write("# EOF\n")
    return total


def first_replicas(count: int) -> str:
    """A short pattern for the first so many: whole hundreds, whole tens below a hundred, or fewer than ten."""
    if count >= 100:
        return f"r[0-{count // 100 - 1}]..:8000"
    if count >= 10:
        return f"r0[0-{count // 10 - 1}].:8000"
    return f"r00[0-{count - 1}]:8000"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(url: str, seconds: float, match: str) -> dict[str, float | str]:
    pid = PIDS[url]
    before = cpu_seconds(pid)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, url, str(seconds), str(END), match], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    told: dict[str, float | str] = json.loads(done.stdout)
    told["server_cpu"] = cpu_seconds(pid) - before
    told["server_peak"] = peak_megabytes(pid)
    return told


def show(name: str, what: str, told: dict[str, float | str]) -> None:
    ours, server = float(told["cpu"]), float(told["server_cpu"])
    print(
        f"| {name} | {what} | {told['told']} | {float(told['collect']):.1f} | {server:.1f} | {ours:.2f} | "
        f"{ours / (ours + server):.0%} | {float(told['rss']):.0f} | {float(told['server_peak']):.0f} | "
        f"{float(told['requests']):.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", choices=["prometheus", "victoria"])
    small = parser.parse_args().small
    only = parser.parse_args().only
    servers: dict[str, Server] = {"prometheus": prometheus, "victoria": victoria_metrics}
    heads = "server", "asked", "queries, bytes, waited", "collect s", "server CPU s", "our CPU s", "our share", "our MB"
    print(f"| {' | '.join(heads)} | server MB | requests |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    wide, long_days = (8, 2) if small else (200, 30)
    for name, server in servers.items():
        if only and name != only:
            continue
        milliseconds = name == "victoria"
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "fleet"
            begin = time.monotonic()
            total = write(text, wide, 3600.0, 15.0, milliseconds=milliseconds)
            with server(text) as url:
                print(f"{name}: {total} samples loaded in {time.monotonic() - begin:.0f} s", file=sys.stderr)
                text.unlink()
                for replicas in sorted({max(1, wide // 40), max(1, wide // 4), wide // 2, wide}):
                    below = f'{{instance=~"{first_replicas(replicas)}"}}'
                    show(name, f"{replicas} replicas x 1 h", measure(url, 3600.0, below))
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "fleet"
            total = write(text, 5, long_days * DAY, 300.0, milliseconds=milliseconds)
            with server(text) as url:
                print(f"{name}: {total} samples loaded", file=sys.stderr)
                text.unlink()
                for days in sorted({1, long_days // 10 or 1, long_days // 3 or 1, long_days}):
                    show(name, f"5 replicas x {days} d", measure(url, days * DAY, '{job="vllm"}'))
    print(f"peak of this script: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
