"""Runs as nights: which run stands for which night, which nights are missing.

Nights are told apart by the time between them and not by a calendar date, so that neither a change of the clocks nor a
job around midnight makes a night vanish or appear twice.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from auditor.history.store import Store

DAY_SECONDS = 86_400.0
SAME_NIGHT_SECONDS = 12 * 3600.0
"""Runs whose windows end within this are of one night."""
MISSED_AFTER_SECONDS = 36 * 3600.0
"""A longer pause than this between two nights holds at least one night without a run."""


@dataclass(frozen=True)
class Run:
    """One kept run. ``end``, ``start`` and ``ran`` are unix seconds."""

    id: int
    end: float
    start: float | None
    ran: float
    kind: str
    seconds: float | None
    coverage: float
    restarts: int
    exit_code: int
    tool: str
    source: str
    notes: tuple[str, ...]
    subjects: int
    """How many subjects it has."""


@dataclass(frozen=True)
class Night:
    """The runs of one night, earliest first."""

    runs: tuple[Run, ...]

    @property
    def end(self) -> float:
        return self.runs[-1].end


@dataclass(frozen=True)
class Gap:
    """Nights without a run between two nights with one."""

    after: float
    before: float
    nights: int


def load_runs(store: Store, *, since: float | None = None, until: float | None = None) -> list[Run]:
    """Runs ordered by the end of their window; both limits are unix seconds, included."""
    rows = store.query(
        """SELECT id, "end", start, ran, kind, seconds, coverage, restarts, exit_code, tool, source, notes,
           ifnull(present.count, 0) FROM run
           LEFT JOIN (SELECT run, count(*) AS count FROM presence GROUP BY run) AS present ON present.run = run.id
           WHERE "end" >= ? AND "end" <= ? ORDER BY "end", id""",
        (-1e18 if since is None else since, 1e18 if until is None else until),
    )
    fields = [f.name for f in dataclasses.fields(Run)]
    out = []
    for row in rows:
        values: dict[str, Any] = dict(zip(fields, row, strict=True))
        values["notes"] = tuple(json.loads(values["notes"]))
        out.append(Run(**values))
    return out


def group_nights(runs: Sequence[Run]) -> list[Night]:
    """Runs that end within twelve hours of a night's first run belong to that night."""
    out: list[list[Run]] = []
    for run in sorted(runs, key=lambda r: (r.end, r.id)):
        if out and run.end - out[-1][0].end < SAME_NIGHT_SECONDS:
            out[-1].append(run)
        else:
            out.append([run])
    return [Night(tuple(group)) for group in out]


def find_gaps(nights: Sequence[Night]) -> list[Gap]:
    """Where nights are missing. 23 or 25 hours, as around a change of the clocks, are one night."""
    out = []
    for before, after in pairwise(nights):
        pause = after.runs[0].end - before.runs[-1].end
        if pause > MISSED_AFTER_SECONDS:
            out.append(Gap(before.end, after.end, max(1, round(pause / DAY_SECONDS) - 1)))
    return out
