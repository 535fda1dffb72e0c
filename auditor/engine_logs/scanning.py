"""One pass over a log: its boots, its running figures, and how far it could be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from auditor.engine_logs.arguments import pick_number, read_arguments
from auditor.engine_logs.boot import Boot
from auditor.engine_logs.boots import BootReader
from auditor.engine_logs.figures import read_late_hit_rate, read_preemptions, read_record
from auditor.engine_logs.lines import LogReader
from auditor.engine_logs.running import LogFigures
from auditor.engine_logs.settings import ARGUMENT_LINE
from auditor.engine_logs.summing import FigureReader
from auditor.model import Setting

NO_FIGURE = re.compile(r"\d{25}")
"""No engine prints such a number. Python takes thousands of digits for a whole number that no float can hold."""


@dataclass(frozen=True)
class LogScan:
    """What one log holds. ``cut`` says why it ends early where the file is damaged."""

    file: str
    lines: int
    boots: tuple[Boot, ...]
    figures: LogFigures
    cut: str | None = None

    @property
    def is_empty(self) -> bool:
        """Neither a boot line nor a running line: no engine's log, or none of an engine known here."""
        return not self.boots and not self.figures.lines

    @property
    def settings(self) -> Mapping[str, Setting]:
        """Settings of the last boot in the file that states any."""
        for boot in reversed(self.boots):
            if boot.settings:
                return boot.settings
        return {}


def scan_log(path: str | Path, *, stream: IO[bytes] | None = None) -> LogScan:
    """Read one log (plain or gzip; ``-`` is standard input) once, in bounded memory.

    Raises UsageError where the file is not there or cannot be read. A log without any known line gives an
    empty scan, no error: whether that is a failure is the caller's to say.
    """
    reader = LogReader(path, stream=stream)
    boots = BootReader(str(path))
    figures = FigureReader()
    decode_interval: int | None = None
    for line in reader:
        if NO_FIGURE.search(line.text):
            continue
        record = read_record(line)
        if record is not None:
            figures.add(record)
            boots.feed(line)
            continue
        if (late := read_late_hit_rate(line.text)) is not None:
            figures.amend_hit_rate(line.source, late)
            continue
        if preempted := read_preemptions(line.text):
            figures.note_preemptions(*preempted)
        if "decode_log_interval" in line.text and (dump := ARGUMENT_LINE.search(line.text)):
            decode_interval = int(pick_number(read_arguments(dump["dump"]), "decode_log_interval") or 0) or None
        boots.feed(line)
    return LogScan(
        file=str(path),
        lines=reader.lines_read,
        boots=boots.finish(),
        figures=figures.finish(decode_interval=decode_interval),
        cut=reader.cut,
    )


def read_boots(path: str | Path) -> tuple[Boot, ...]:
    """The boots of one log, in the order in which they begin."""
    return scan_log(path).boots


def settings_in_force(path: str | Path) -> dict[str, Setting]:
    """Settings of the last boot in a log, each with its line: ``boot log line 41``.

    Names: budget, threshold, seats, context, block_size, prefix_caching, speculative_tokens,
    kv_cache_dtype, gpu_memory_utilization, engine_version; what the log does not say is not there. A
    threshold of 0 is off. Empty where the log has no boot line.
    """
    return dict(scan_log(path).settings)


def readings_from_log(path: str | Path) -> LogFigures:
    """The running lines of one log, summed up."""
    return scan_log(path).figures
