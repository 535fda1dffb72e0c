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
