"""How the benchmarks measure: CPU seconds and ratios of runs that alternate, since other work shares the machine."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "fixtures" / "pages" / "vllm-0.32.0.prom"
PAGE_BYTES = 50_000


@dataclass(frozen=True)
class Row:
    """One line of the table: ours against something measured in the same run."""

    what: str
    ours: str
    against: str
    ratio: float | None
    reach: str
    """What was promised, in words."""
    reached: bool | None


def cpu_seconds_of(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> float:
    """User and system seconds of a process and its children.

    Raises:
        subprocess.CalledProcessError: it failed, and a failure is no measurement.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def alternate(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> tuple[float, float, float]:
    """Medians of ours, of theirs, and of the ratio of each pair."""
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


@contextmanager
def compiled_bytecode() -> Iterator[dict[str, str]]:
    """An environment in which Python keeps its bytecode, as an installed program has it, outside the checkout."""
    with tempfile.TemporaryDirectory(prefix="auditor-bench-") as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        yield {**environment, "PYTHONPYCACHEPREFIX": folder}


def run_child(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON that ``python -m module`` prints: a process of its own has its own memory and its own CPU seconds."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def own_figures() -> dict[str, float]:
    """CPU seconds and peak memory of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Not ru_maxrss: a child starts with its parent's.
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_megabytes": peak / 1024}


def make_pages(scale: float = 1.5) -> tuple[bytes, bytes]:
    """Two pages of one engine, 50 KB each: the fixture, and the same with every count and sum grown."""
    first = FIXTURE.read_bytes()
    lines = []
    for line in first.splitlines():
        head, _, value = line.rpartition(b" ")
        name = head.partition(b"{")[0]
        if name.endswith((b"_total", b"_sum", b"_count", b"_bucket")) and not line.startswith(b"#"):
            line = head + b" " + repr(float(value) * scale).encode()
        lines.append(line)
    return first, b"\n".join(lines) + b"\n"
