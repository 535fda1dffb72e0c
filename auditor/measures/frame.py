"""The course of a window as a table, and what it shows: busy and idle hours, skew, the rate under load.

The only module that imports pandas; it is imported where a course is long enough to need it.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from auditor.measures.readings.rates import BANDS
from auditor.measures.subject import Missing, Subject
from auditor.model import Counter, Gauge, Histogram, utc_text

SKEW = "engine_skew_in_step"
"""Kept in slices by the source of a range: largest over mean of the engines' finished requests."""
COUNTS = ("finished_requests", "generation_tokens", "prompt_tokens")
LEVELS = ("running_requests", "waiting_requests", "kv_usage")
FLAT_WITHIN = 0.1
"""Generation rates of two bands of load that differ by no more than this share are called flat."""
LOADED_FROM = 5
LEAST_STEPS = 3
HOUR = pd.Timedelta(hours=1)


def frame_of(subject: Subject) -> pd.DataFrame:
    """One row a step of the course: its end (UTC) as index, ``seconds``, counts, mean levels, skew.

    A value that the step does not have is NaN, which stays inside this module.
    """
    rows, index = [], []
    for s in subject.slices:
        if s.window.start is None or s.window.end is None:
            continue
        row: dict[str, float] = {"seconds": s.window.end - s.window.start}
        for name in COUNTS:
            row[name] = _count(s, name)
        for name in LEVELS:
            row[name] = _level(s, name)
        row[SKEW] = _level(s, SKEW)
        rows.append(row)
        index.append(pd.Timestamp(s.window.end, unit="s", tz="UTC"))
    columns = ["seconds", *COUNTS, *LEVELS, SKEW]
    return pd.DataFrame(rows, index=pd.DatetimeIndex(index), columns=columns, dtype=float)


def _count(s: Subject, name: str) -> float:
    try:
        q = s.quantity(name)
    except Missing:
        return math.nan
    if isinstance(q, Counter):
        return q.increase
    return q.count if isinstance(q, Histogram) else math.nan


def _level(s: Subject, name: str) -> float:
    if not s.has(name):
        return math.nan
    try:
        q = s.quantity(name)
    except Missing:
        return math.nan
    return q.mean if isinstance(q, Gauge) and q.mean is not None else math.nan


def summarise(subject: Subject) -> dict[str, Any]:
    """What the course shows, ready for JSON; empty where it has fewer than two steps with a time."""
    frame = frame_of(subject)
    if len(frame) < 2:
        return {}
    engines = max(1, len([e for e in subject.engines() if e.has("running_requests")]))
    out: dict[str, Any] = {"engines": engines, **_hours(frame), **_skew(frame)}
    bands = _bands(frame, engines)
    if bands:
        out["generation_rate_by_running"] = bands
        flat = _flat(bands)
        if flat is not None:
            out["flat_under_load"] = flat
    return out


def _hours(frame: pd.DataFrame) -> dict[str, Any]:
    """The busiest hour by generated tokens, and the hours in which nothing happened; clock hours, UTC.

    Hours that are covered to less than half are left out. In a window below two hours the steps stand in for hours.
    """
    length = frame["seconds"].sum()
    by_hour = length >= 7200
    # A step belongs to the hour in which it begins.
    begins = frame.index - pd.to_timedelta(frame["seconds"], unit="s")
    table = frame.set_axis(begins)
    if by_hour:
        grouped = table[["seconds", *COUNTS]].resample(HOUR)
        table = grouped.sum(min_count=1)
        table = table[grouped["seconds"].count() > 0]
        table = table[table["seconds"] >= HOUR.total_seconds() / 2]
    measure = "generation_tokens" if table["generation_tokens"].notna().any() else "finished_requests"
    known = table[table[measure].notna()]
    if known.empty:
        return {}
    busiest, at = _largest(known, measure)
    span = HOUR.total_seconds() if by_hour else float(busiest["seconds"])
    idle = known[(known[["finished_requests", "generation_tokens"]].fillna(0) == 0).all(axis=1)]
    name = "hour" if by_hour else "step"
    total = float(known[measure].sum())
    out: dict[str, Any] = {
        f"idle_{name}s": len(idle),
        f"known_{name}s": len(known),
        f"unknown_{name}s": len(table) - len(known),
    }
    if total > 0:
        out[f"busiest_{name}"] = {
            "start": utc_text(at),
            "end": utc_text(at + span),
            **{c: _number(busiest[c]) for c in COUNTS},
            "share": float(busiest[measure]) / total,
        }
    return out


def _skew(frame: pd.DataFrame) -> dict[str, Any]:
    """Largest over mean of the engines' finished requests: mean over busy steps, and the worst step."""
    known = frame[frame[SKEW].notna()]
    if known.empty:
        return {}
    weights = known["finished_requests"].fillna(0)
    mean = float((known[SKEW] * weights).sum() / weights.sum()) if weights.sum() > 0 else float(known[SKEW].mean())
    worst, at = _largest(known, SKEW)
    return {"skew": {"mean": mean, "max": float(worst[SKEW]), "at": utc_text(at)}}


def _largest(table: pd.DataFrame, column: str) -> tuple[dict[str, float], float]:
    """The row with the largest value of a column, and its time in unix seconds."""
    place = int(table[column].to_numpy().argmax())
    index = pd.DatetimeIndex(table.index)
    return {str(k): float(v) for k, v in table.iloc[place].items()}, index[place].timestamp()


def _bands(frame: pd.DataFrame, engines: int) -> list[dict[str, Any]]:
    """Generated tokens a second and engine, by band of running requests an engine."""
    known = frame[frame["running_requests"].notna() & frame["generation_tokens"].notna()].copy()
    if known.empty:
        return []
    known["band"] = (known["running_requests"] / engines).map(_band)
    known = known[known["band"] >= 0]
    known["steps"] = 1.0
    sums = known.groupby("band")[["generation_tokens", "seconds", "steps"]].sum().reset_index()
    return [
        {
            "from": BANDS[int(row["band"])][0],
            "to": BANDS[int(row["band"])][1],
            "tokens_per_second": float(row["generation_tokens"]) / float(row["seconds"]) / engines,
            "seconds": float(row["seconds"]),
            "steps": int(row["steps"]),
        }
        for row in sums.to_dict("records")
        if row["seconds"] > 0
    ]


def _band(running: float) -> int:
    for i, (low, high) in enumerate(BANDS):
        if running >= low - 0.5 and (high is None or running < high + 0.5):
            return i
    return -1


def _flat(bands: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Whether more running requests bring more tokens: bands from 5 running on, each with at least three steps."""
    loaded = [b for b in bands if b["from"] >= LOADED_FROM and b["steps"] >= LEAST_STEPS]
    if len(loaded) < 2:
        return None
    rates = [b["tokens_per_second"] for b in loaded]
    spread = (max(rates) - min(rates)) / max(rates) if max(rates) > 0 else 0.0
    low, high = loaded[0], loaded[-1]
    top = f"{high['from']} or more" if high["to"] is None else f"{high['from']} to {high['to']}"
    flat = spread <= FLAT_WITHIN
    words = "no faster" if flat else "not equally fast"
    return {
        "flat": flat,
        "spread": spread,
        "summary": f"{top} running requests an engine are {words} than {low['from']} to {low['to']}: "
        + " / ".join(f"{r:.0f}" for r in rates)
        + " generated tokens a second",
    }


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
