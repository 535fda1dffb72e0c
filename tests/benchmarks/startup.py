"""Whole processes: how long a command takes to start, against importing the libraries it cannot do without."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.measuring import FIXTURE, Row, alternate, compiled_bytecode, cpu_seconds_of

ROUNDS = 9
CLICK = (sys.executable, "-c", "import click")
PARSER = (sys.executable, "-c", "import prometheus_client.parser, click")


def auditor(*arguments: str) -> tuple[str, ...]:
    """The command line of the installed script."""
    return (str(Path(sys.executable).with_name("auditor")), *arguments)


COMMANDS: tuple[tuple[tuple[str, ...], tuple[str, ...], float], ...] = (
    (("--version",), CLICK, 3.0),
    (("--help",), CLICK, 3.0),
    (("explain", "time-split"), CLICK, 3.0),
    (("explain", "exit-codes"), CLICK, 3.0),
    (("audit", str(FIXTURE)), PARSER, 2.5),
)


def measure() -> Iterator[Row]:
    with compiled_bytecode() as environment:
        for arguments, base, most in COMMANDS:
            yield _row(arguments, base, most, environment)


def _row(arguments: Sequence[str], base: Sequence[str], most: float, environment: dict[str, str]) -> Row:
    ours = auditor(*arguments)
    for command in (ours, base):
        cpu_seconds_of(command, environment=environment)  # writes the bytecode
    mine, theirs, ratio = alternate(
        lambda: cpu_seconds_of(ours, environment=environment),
        lambda: cpu_seconds_of(base, environment=environment),
        ROUNDS,
    )
    shown = " ".join(Path(a).name if "/" in a else a for a in arguments)
    return Row(
        f"auditor {shown}",
        f"{1000 * mine:.0f} ms CPU",
        f"{1000 * theirs:.0f} ms: {base[-1]}",
        ratio,
        f"at most {most:g}x",
        ratio <= most,
    )
