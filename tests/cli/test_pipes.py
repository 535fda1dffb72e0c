"""Process substitution: ``auditor audit <(zcat engine.log.gz)`` reads a pipe, which can be read once only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = "fixtures/demo/after.prom"
LOG = "fixtures/boot_logs/vllm-0.11.0/p-preemption.log"


def bash(line: str) -> tuple[int, dict[str, Any]]:
    script = f'auditor() {{ "{sys.executable}" -m auditor "$@"; }}\n{line} --as json'
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


@pytest.mark.parametrize(
    ("plain", "piped"),
    [
        (f"auditor audit {PAGE}", f"auditor audit <(cat {PAGE})"),
        (f"auditor audit {LOG}", f"auditor audit <(cat {LOG})"),
        (f"auditor audit {LOG}", f"auditor audit <(gzip -c {LOG})"),
        (
            f"auditor audit --before fixtures/demo/before.prom {PAGE} --seconds 175.1",
            f"auditor audit --before <(cat fixtures/demo/before.prom) <(cat {PAGE}) --seconds 175.1",
        ),
    ],
    ids=["page", "log", "gzip", "pair"],
)
def test_a_pipe_says_what_its_file_says(plain: str, piped: str) -> None:
    code, expected = bash(plain)
    assert code in (0, 1, 3)
    found_code, found = bash(piped)
    assert found_code == code
    (there,), (here,) = expected["subjects"], found["subjects"]
    assert here["readings"] == there["readings"]
    assert {k: v["verdict"] for k, v in here["audits"].items()} == {k: v["verdict"] for k, v in there["audits"].items()}


def test_a_pipe_of_something_else_is_said_to_be_that() -> None:
    code, found = bash("auditor audit <(echo hello)")
    assert code == 3
    assert "neither a page nor an engine's log" in found["targets"][0]["reason"]


def test_what_a_slow_pipe_writes_first_decides_nothing() -> None:
    """A first write of half a page, or of one comment, is no sign of what comes."""
    code, expected = bash(f"auditor audit {PAGE}")
    slow = f"auditor audit <(printf '# a note of mine\\n'; sleep 0.5; cat {PAGE})"
    found_code, found = bash(slow)
    assert (found_code, found["subjects"][0]["readings"]) == (code, expected["subjects"][0]["readings"])
    code, expected = bash(f"auditor audit {LOG}")
    halves = f"auditor audit <(head -c 7 {LOG}; sleep 0.5; tail -c +8 {LOG})"
    found_code, found = bash(halves)
    assert (found_code, found["subjects"][0]["readings"]) == (code, expected["subjects"][0]["readings"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"twice() {{ auditor audit $1 --boot-log $1; }}; twice <(cat {LOG})", "can be read once only"),
        (f"twice() {{ auditor audit $1 $1; }}; twice <(cat {PAGE})", "can be read once only"),
        (f"auditor audit - --boot-log - < {PAGE}", "can be read once only"),
        ("auditor audit - <&-", "standard input is closed"),
    ],
)
def test_what_can_be_read_once_is_not_read_twice(line: str, words: str) -> None:
    script = f'auditor() {{ "{sys.executable}" -m auditor "$@"; }}\n{line}'
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "internal error" not in done.stderr
