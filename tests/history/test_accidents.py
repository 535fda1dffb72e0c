"""Killed at any moment, and a disk that is full: the nights before stay, and a night is there wholly or not at all."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.history.nights import load_runs
from auditor.history.store import open_store
from auditor.model import OutputError
from tests.history.documents import night, report, subject

ROOT = Path(__file__).parents[2]
READINGS = 400
WRITER = f"""
import sys
from auditor.history import open_store
from tests.history.documents import night, report, subject
with open_store(sys.argv[1], create=True) as store:
    print("ready", flush=True)
    n = int(sys.argv[2])
    while True:
        parts = [subject({{f"r{{j}}": float(n) for j in range({READINGS})}}, labels={{"model": m}}) for m in "abc"]
        store.append(report(*parts), end=night(n), ran=night(n))
        print(n, flush=True)
        n += 1
"""


def test_kill_9_at_any_moment_leaves_whole_runs(tmp_path: Path) -> None:
    """A writer that never stops is killed twenty times, at random moments of its transactions."""
    path = tmp_path / "a.db"
    chance = random.Random(8)
    begun, said = 0, 0
    for _ in range(20):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(begun)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.0, 0.12))
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        told = [int(line) for line in process.stdout.read().split()]
        said += len(told)
        with open_store(str(path)) as store:
            assert store.query("PRAGMA integrity_check") == [("ok",)]
            runs = load_runs(store)
            counts = store.query("SELECT run, count(*) FROM reading GROUP BY run")
            assert [n for _, n in counts] == [3 * (READINGS + 1)] * len(runs)
            assert store.query("SELECT count(*) FROM verdict") == [(3 * len(runs),)]
            # All that a run had been told to be kept is kept.
            ends = {r.end for r in runs}
            assert {night(n) for n in told} <= ends
            begun = len(runs)
    assert said > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("needs root to mount a small file system")
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=256k", "none", str(folder)], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_the_nights_before(small_disk: Path) -> None:
    _fill(small_disk / "a.db")


def test_a_file_size_limit_keeps_the_nights_before(tmp_path: Path) -> None:
    """The same without a mount: the kernel refuses to let the file grow."""
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "from tests.history.test_accidents import _fill; _fill(Path(sys.argv[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.db")], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 200_000


def _fill(path: Path) -> None:
    """Append until there is no room; then the store must be as it was before the last attempt, and work again."""
    kept = 0
    with open_store(str(path), create=True) as store:
        refusal = ""
        for n in range(1000):
            parts = [subject({f"r{j}": n + j / 7 for j in range(40)}, labels={"model": m}) for m in "ab"]
            try:
                store.append(report(*parts), end=night(n), ran=night(n))
            except OutputError as error:
                refusal = str(error)
                break
            kept += 1
        assert "the disk is full" in refusal or "the disk failed" in refusal
        assert kept > 3
        assert len(load_runs(store)) == kept
        assert store.query("SELECT count(*) FROM reading") == [(kept * 2 * 41,)]
    with open_store(str(path)) as store:
        assert store.query("PRAGMA integrity_check") == [("ok",)]
        assert len(load_runs(store)) == kept
