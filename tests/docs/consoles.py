"""The runs that README.md and docs/*.md show, as ``console`` blocks: found, run again, compared, rewritten.

A block is a terminal's text: lines that begin with ``$ `` are commands, what follows is what they print, standard error
included. All blocks of one page run in order in one empty folder, in which ``fixtures`` is the repository's; what a
command writes stays there for the next. ``$ echo $?`` shows the exit code of the command before it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALLOWED = ("auditor ", "cat ", "echo $?")
COLUMNS = 80


@dataclass(frozen=True)
class Step:
    """One command of a block and what the page says it prints."""

    page: str
    line: int
    command: str
    shown: str


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def with_blocks() -> list[Path]:
    return [path for path in pages() if BLOCK.search(path.read_text(encoding="utf-8"))]


def read_steps(page: Path) -> list[Step]:
    """Every command of a page in its order.

    Raises:
        ValueError: a block that begins without a command, or a command that is none of ours.
    """
    text = page.read_text(encoding="utf-8")
    return [step for block in BLOCK.finditer(text) for step in _steps(page, text, block)]


def _steps(page: Path, text: str, block: re.Match[str]) -> Iterator[Step]:
    first = text.count("\n", 0, block.start(1)) + 1
    name, lines = page.name, block[1].splitlines()
    at = 0
    while at < len(lines):
        start = at
        if not lines[at].startswith("$ "):
            raise ValueError(f"{name}:{first + at}: a console block begins with a command: $ auditor ...")
        command = lines[at][2:]
        while command.endswith("\\"):
            at += 1
            command += "\n" + lines[at]
        at += 1
        if not command.startswith(ALLOWED):
            raise ValueError(f"{name}:{first + start}: only {', '.join(ALLOWED)} may be shown, not {command!r}")
        shown = []
        while at < len(lines) and not lines[at].startswith("$ "):
            shown.append(lines[at])
            at += 1
        yield Step(name, first + start, command, "".join(f"{line}\n" for line in shown))


def run_steps(steps: list[Step]) -> list[str]:
    """What each command prints now, in one empty folder."""
    code, out = 0, []
    with tempfile.TemporaryDirectory(prefix="auditor-docs-") as folder:
        (Path(folder) / "fixtures").symlink_to(ROOT / "fixtures")
        for step in steps:
            if step.command == "echo $?":
                out.append(f"{code}\n")
                continue
            printed, code = _run(step.command, Path(folder))
            out.append(printed)
    return out


def _run(command: str, folder: Path) -> tuple[str, int]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AUDITOR_", "GITHUB_"))}
    env |= {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONPATH": str(ROOT)}
    # The page says `auditor`; what runs is this checkout, whatever is installed.
    script = f'auditor() {{ "{sys.executable}" -m auditor "$@"; }}\nset -o pipefail\n{command}\n'
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
    )
    return done.stdout.decode("utf-8"), done.returncode


def rewritten(page: Path) -> str:
    """The page with what its commands print now."""
    steps = read_steps(page)
    printed = iter(zip(steps, run_steps(steps), strict=True))
    text = page.read_text(encoding="utf-8")

    def fill(block: re.Match[str]) -> str:
        parts = []
        for _ in list(_steps(page, text, block)):
            step, now = next(printed)
            parts.append(f"$ {step.command}\n{now}")
        return f"```console\n{''.join(parts)}```"

    return BLOCK.sub(fill, text)
