"""One reading over the nights, for a picture: its values, and the band that tonight was held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.history.changes import Change
from auditor.history.nights import Gap, Night
from auditor.history.series import Point, SubjectNights
from auditor.model import utc_text

SHOWN_NIGHTS = 30
TRENDS = (
    "ttft_seconds", "itl_seconds", "e2e_seconds", "queue_share", "prefill_share", "prefix_hit_share", "length_share",
    "generation_tokens_per_wall_second", "kv_usage_peak", "preemptions_per_request", "finished_requests",
)  # fmt: skip
MOST_MORE_TRENDS = 4
"""Further readings that get a trend because they changed."""


def choose_trends(known: Mapping[str, object], moved: Sequence[Change]) -> list[str]:
    """The readings that are always shown where there are any, and the first of those that moved."""
    shown = [name for name in TRENDS if name in known]
    return shown + [c.reading for c in moved if c.reading not in shown][:MOST_MORE_TRENDS]


def make_trend(
    name: str,
    now: Point,
    past: SubjectNights,
    earlier: Sequence[Night],
    gaps: Sequence[Gap],
    changes: Sequence[Change],
    unit: str,
) -> dict[str, Any]:
    """One reading over the nights; nights without a run or without the subject stand there without a value."""
    kept = past.points.get(name, (None,) * len(earlier))
    rows: list[tuple[float, Point | None, str]] = []
    for night, run, point in zip(earlier, past.nights, kept, strict=True):
        state = "subject not seen" if run is None else "not kept" if point is None else point.state
        rows.append((run.end if run else night.end, point, state))
    for gap in gaps:
        rows += [
            (gap.after + (i + 1) * (gap.before - gap.after) / (gap.nights + 1), None, "no run")
            for i in range(gap.nights)
        ]
    rows.append((now.end, now, now.state))
    rows = sorted(rows, key=lambda r: r[0])[-SHOWN_NIGHTS:]
    change = next((c for c in changes if c.reading == name), None)
    b = change.baseline if change else None
    return {
        "unit": unit,
        "times": [utc_text(at) for at, _, _ in rows],
        "values": [p.value if p else None for _, p, _ in rows],
        "low": [p.low if p else None for _, p, _ in rows],
        "high": [p.high if p else None for _, p, _ in rows],
        "states": [state for _, _, state in rows],
        "baseline": None if b is None else b.median,
        "band": None if b is None else [b.low, b.high],
    }
