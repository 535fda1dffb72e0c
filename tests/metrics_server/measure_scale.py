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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from auditor.measures.reduce import declared_names
from auditor.measures.vocabulary import load_vocabulary
from tests.metrics_server.samples import END, series_pages
from tests.metrics_server.servers import PIDS, prometheus, victoria_metrics

ROOT = Path(__file__).parents[2]
DAY = 86_400.0
RUNS = 3
"""Of each audit; the first finds the server's caches cold."""
Server = Callable[[Path], AbstractContextManager[str]]

AUDIT = """
import json, sys, threading, time
from auditor.sources.prometheus.server import MetricsServer
told, spans, asked = sys.argv[1], [], []
patiently, query = MetricsServer._patiently, MetricsServer._query
def timed(self, ask):
    begin = time.monotonic()
    try:
        return patiently(self, ask)
    finally:
        spans.append((begin, time.monotonic()))
def noted(self, path, form):
    asked.append((path, dict(form)))
    return query(self, path, form)
MetricsServer._patiently, MetricsServer._query = timed, noted
from auditor.entry import run
code = run(sys.argv[2:])
busy, reached = 0.0, 0.0
for begin, end in sorted(spans):
    busy += max(0.0, end - max(begin, reached))
    reached = max(reached, end)
with open(told, "w") as file:
    json.dump({"busy": busy, "asked": asked}, file)
# As auditor.entry.main ends.
import gc; gc.freeze(); sys.exit(code)
"""
"""The command itself, and beside it for how long at least one query was out or waiting for its turn."""
BARE = """
import json, sys
import requests
session = requests.Session()
for path, form in json.load(open(sys.argv[2]))["asked"]:
    json.loads(session.post(sys.argv[1] + "/api/v1/" + path, data=form).content)
"""
"""The same queries with the same library, and nothing done with the answers: what no client can do without."""


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


@dataclass(frozen=True)
class Cost:
    """What one audit cost, and the bare client beside it. Seconds and megabytes."""

    said: str
    requests: float
    elapsed: float
    busy: float
    ours: float
    bare: float
    server: float
    memory: float
    server_memory: float


def run_child(arguments: Sequence[str]) -> tuple[float, float, float, str, str]:
    """(elapsed seconds, processor seconds, peak MB, stdout, stderr) of a Python process from start to end."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        begin = time.monotonic()
        child = subprocess.Popen([sys.executable, "-c", *arguments], stdout=out, stderr=said, cwd=ROOT)
        _, status, usage = os.wait4(child.pid, 0)
        elapsed = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said.seek(0)
        if child.returncode not in (0, 1):
            raise RuntimeError(said.read()[-2000:])
        cpu = usage.ru_utime + usage.ru_stime
        return elapsed, cpu, usage.ru_maxrss / 1024, out.read(), said.read()


def measure(url: str, seconds: float, match: str) -> Cost:
    pid = PIDS[url]
    before = cpu_seconds(pid)
    with tempfile.TemporaryDirectory() as folder:
        told = str(Path(folder) / "told.json")
        where = ["--prometheus", url, "--window", f"{seconds:.0f}s", "--end", str(END), "--match", match]
        elapsed, ours, memory, out, said = run_child([AUDIT, told, "audit", *where, "--timeout", "120", "--as", "json"])
        server = cpu_seconds(pid) - before
        _, bare, _, _, _ = run_child([BARE, url, told])
        busy = json.loads(Path(told).read_text())["busy"]
    line = next(line for line in said.splitlines() if "queries" in line)
    requests = json.loads(out)["subjects"][0]["readings"]["finished_requests"]["value"]
    return Cost(
        line.removeprefix("auditor: "), requests, elapsed, busy, ours, bare, server, memory, peak_megabytes(pid)
    )


def show(name: str, what: str, runs: Sequence[Cost]) -> None:
    """The middle one of some runs, by our processor time."""
    c = sorted(runs, key=lambda c: c.ours)[len(runs) // 2]
    alone = c.elapsed - c.busy
    print(
        f"| {name} | {what} | {c.said} | {c.elapsed:.1f} | {alone:.2f} | {alone / c.elapsed:.0%} | {c.server:.2f} | "
        f"{c.ours:.2f} | {c.bare:.2f} | {c.memory:.0f} | {c.server_memory:.0f} | {c.requests:.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", choices=["prometheus", "victoria"])
    small = parser.parse_args().small
    only = parser.parse_args().only
    servers: dict[str, Server] = {"prometheus": prometheus, "victoria": victoria_metrics}
    heads = (
        "server", "asked", "queries, bytes, waited", "elapsed s", "nothing out s", "share", "server CPU s",
        "our CPU s", "bare client CPU s", "our MB", "server MB", "requests",
    )  # fmt: skip
    print(f"| {' | '.join(heads)} |")
    print("|---" * len(heads) + "|")
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
                    show(name, f"{replicas} replicas x 1 h", [measure(url, 3600.0, below) for _ in range(RUNS)])
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "fleet"
            total = write(text, 5, long_days * DAY, 300.0, milliseconds=milliseconds)
            with server(text) as url:
                print(f"{name}: {total} samples loaded", file=sys.stderr)
                text.unlink()
                for days in sorted({1, long_days // 10 or 1, long_days // 3 or 1, long_days}):
                    show(
                        name, f"5 replicas x {days} d", [measure(url, days * DAY, '{job="vllm"}') for _ in range(RUNS)]
                    )
    print(f"peak of this script: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
