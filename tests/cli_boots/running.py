"""Runs the program as a user does, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = FIXTURES / "boot_logs"
CONSTRUCTED = LOGS / "constructed"


def case(number: str) -> Path:
    [folder] = (FIXTURES / "cases").glob(f"{number}-*")
    return folder


@dataclass(frozen=True)
class Result:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def words(self) -> str:
        """The text without its line breaks."""
        return " ".join(self.text.split())

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def auditor(*arguments: object, stdin: bytes = b"") -> Result:
    done = subprocess.run(
        [sys.executable, "-m", "auditor", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr.decode())
