"""A log of any size through the program: how long, and in how much memory. Not a test: run it by hand.

python -m tests.cli_boots.huge 1000      megabytes
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ACCESS = 'INFO:     10.0.0.1:40000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
CHATTER = "INFO 11-29 {at} [async_llm.py:420] Added request chatcmpl-0123456789abcdef0123456789abcdef with text.\n"
RUNNING = (
    "INFO 11-29 {at} [loggers.py:271] Engine 000: Avg prompt throughput: 2000.0 tokens/s, Avg generation throughput: "
    "300.0 tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 30.0%, Prefix cache hit rate: 2.0%\n"
)


def write_log(path: Path, megabytes: int) -> int:
    """Boot lines, then a day after day of running lines among access lines; returns the number of running lines."""
    boot = (Path(__file__).parents[2] / "fixtures" / "boot_logs" / "vllm-0.32.0" / "auto-boot-1.log").read_text()
    size = lines = 0
    with path.open("w") as file:
        size += file.write(boot)
        while size < megabytes * 2**20:
            seconds = 10 * lines % 86_400
            at = f"{seconds // 3600:02d}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"
            size += file.write((ACCESS + CHATTER.format(at=at)) * 200 + RUNNING.format(at=at, running=lines % 9))
            lines += 1
    return lines


def main(megabytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "huge.log"
        lines = write_log(path, megabytes)
        print(f"{path.stat().st_size / 2**20:,.0f} MiB, {lines:,} running lines")
        for command in ("boots", "audit"):
            began = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "auditor", command, str(path), "--as", "json"], capture_output=True
            )
            most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{command}: exit {done.returncode}, {time.monotonic() - began:.1f} s, at most {most:.0f} MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
