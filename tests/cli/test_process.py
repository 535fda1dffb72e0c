"""What only a process of its own can show: signals, closed pipes, full disks, and what a start-up loads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.support import ROOT, A, command, in_turn, process, serve

HEAVY = ("pandas", "numpy", "requests", "prometheus_client", "rich", "jinja2", "matplotlib", "pydantic")
AFTER = (A / "after.prom").read_bytes()


@pytest.mark.parametrize(
    "argv",
    [
        ("--help",),
        ("--version",),
        ("audit", "--help"),
        ("list", "audits"),
        ("list", "readings"),
        ("list", "flags"),
        ("list", "levers"),
        ("list", "engines"),
        ("list", "outputs"),
        ("explain", "time-split"),
        ("explain", "prefill_share"),
        ("explain", "counter_reset"),
        ("explain", "exit-codes"),
    ],
    ids=" ".join,
)
def test_start_up_loads_nothing_heavy(argv: tuple[str, ...]) -> None:
    script = (
        "import sys, auditor.entry\n"
        f"code = auditor.entry.run({list(argv)!r})\n"
        f"loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "sys.stderr.write('LOADED ' + ' '.join(loaded) + '\\n')\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode().splitlines()[-1].strip() == "LOADED"
    assert done.stdout.strip()


def test_unknown_names_are_the_callers_mistake() -> None:
    done = process("explain", "prefil_share")
    assert done.returncode == 2
    assert b"prefill_share" in done.stderr


def start(*argv: object, **kwargs: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(*argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, **kwargs)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_wait(number: signal.Signals, code: int, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    with serve(in_turn(AFTER)) as server:
        running = start("audit", server.url(), "--window", "60s", "--output", f"json={out}")
        assert running.stderr is not None
        assert b"first scrape done" in running.stderr.readline()
        running.send_signal(number)
        printed, said = running.communicate(timeout=20)
    assert running.returncode == code
    assert printed == b""
    assert said.decode().strip() in ("auditor: interrupted", "auditor: terminated")
    assert not out.exists()


def test_a_closed_pipe_ends_quietly_with_the_code_already_earned() -> None:
    for target, code in ((A / "after.prom", 0), (ROOT / "fixtures" / "vllm" / "0.32.0" / "e-idle" / "after.prom", 3)):
        running = start("audit", target, "--as", "json")
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        running.wait(timeout=30)
        assert running.returncode == code
        assert running.stderr.read() == b""
        running.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_output_that_failed() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command("audit", A / "after.prom", "--as", "json"),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=30,
            cwd=ROOT,
            check=False,
        )
    assert done.returncode == 4
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr
    done = process("audit", A / "after.prom", "--output", "json=/dev/full")
    assert done.returncode == 4


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "such" / "report.json", tmp_path):
        done = process("audit", A / "after.prom", "--output", f"json={path}")
        assert done.returncode == 4, done.stderr
        assert str(path).encode() in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_stdout_carries_the_result_only() -> None:
    with serve(in_turn((A / "before.prom").read_bytes(), AFTER)) as server:
        done = process("audit", server.url(), "--window", "50ms", "--as", "json")
    assert done.returncode == 0
    json.loads(done.stdout)
    assert b"first scrape done" in done.stderr


def test_a_terminal_that_knows_ascii_only() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = process("audit", A / "after.prom", env=env)
    assert done.returncode == 0, done.stderr
    done.stdout.decode("ascii")


def test_start_up_is_quick() -> None:
    """A ratio, so that a slow machine does not matter: --version against a bare interpreter."""

    def seconds(argv: list[str]) -> float:
        best = 10.0
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run(argv, capture_output=True, timeout=60, cwd=ROOT, check=True)
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(command("--version")) < 8 * seconds([sys.executable, "-c", "pass"]) + 0.2


def test_the_same_bytes_whatever_the_hash_seed() -> None:
    runs = [
        process("audit", A / "after.prom", "--as", "json", env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in "01"
    ]
    assert runs[0] == runs[1]
    assert runs[0]
