"""A subject's readings over the nights, as the store has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.history.nights import Night, Run
from auditor.history.rows import STATES, labels_key
from auditor.history.store import Store, decode_labels

TRAFFIC = "finished_requests"
"""Nights are comparable when this, per second, is alike."""


@dataclass(frozen=True)
class Point:
    """A reading on one night. ``traffic`` is requests per second, or requests where the length is unknown."""

    end: float
    kind: str
    state: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    count: float | None = None
    reason: str | None = None
    seconds: float | None = None
    traffic: float | None = None


@dataclass(frozen=True)
class SubjectNights:
    """All readings of one subject: for each reading one point a night, oldest first, None where it has none."""

    labels: Mapping[str, Any]
    nights: tuple[Run | None, ...]
    """The run that stands for each night; None where the subject was in none of its runs."""
    points: Mapping[str, tuple[Point | None, ...]]
    units: Mapping[str, str]
    facts: tuple[Mapping[str, str] | None, ...]
    """What the engine said of itself on each night."""
    flags: tuple[tuple[str, ...], ...]
    """What the report of each night said of the numbers themselves."""


def find_subject(store: Store, labels: Mapping[str, Any]) -> int | None:
    """The number of a subject by its exact labels."""
    rows = store.query("SELECT id FROM subject WHERE labels = ?", (labels_key(labels),))
    return int(rows[0][0]) if rows else None


def list_subjects(store: Store) -> dict[int, dict[str, Any]]:
    """All subjects ever seen, by number."""
    return {int(r[0]): decode_labels(r[1]) for r in store.query("SELECT id, labels FROM subject ORDER BY labels")}


def load_subject(
    store: Store, subject: int, nights: Sequence[Night], *, names: Sequence[str] | None = None, facts: bool = True
) -> SubjectNights:
    """One subject's points on these nights; of several runs in a night the latest that measured it stands for it.

    Args:
        names: only these readings; all by default.
        facts: leave out flags and what the engine said of itself where they are not needed.
    """
    runs = {run.id: run for night in nights for run in night.runs}
    first, last = (min(runs), max(runs)) if runs else (0, -1)
    marks = "" if names is None else f" AND series.name IN ({', '.join('?' for _ in (*names, TRAFFIC))})"
    rows = store.query(
        f"""SELECT series.name, series.unit, reading.run, state, value, low, high, count, word.text
            FROM series JOIN reading ON reading.series = series.id LEFT JOIN word ON word.id = reading.reason
            WHERE series.subject = ? AND reading.run BETWEEN ? AND ?{marks}""",
        (subject, first, last, *(() if names is None else (*names, TRAFFIC))),
    )
    units: dict[str, str] = {}
    table: dict[int, dict[str, tuple[Any, ...]]] = {}
    for name, unit, run, *numbers in rows:
        if run in runs:
            units[name] = unit
            table.setdefault(run, {})[name] = tuple(numbers)
    chosen = [_stand_for(night, table) for night in nights]
    points: dict[str, list[Point | None]] = {name: [] for name in units}
    for run in chosen:
        got = table.get(run.id, {}) if run else {}
        traffic = _traffic(run, got)
        for name in units:
            points[name].append(_point(run, got.get(name), traffic))
    return SubjectNights(
        labels=list_subjects(store).get(subject, {}),
        nights=tuple(chosen),
        points={name: tuple(p) for name, p in points.items()},
        units=units,
        facts=_load_facts(store, subject, chosen) if facts else (None,) * len(chosen),
        flags=_load_flags(store, subject, chosen) if facts else ((),) * len(chosen),
    )


def _stand_for(night: Night, table: Mapping[int, Mapping[str, tuple[Any, ...]]]) -> Run | None:
    """The latest run in which something of the subject was measured, else the latest in which it is at all."""
    present = [run for run in night.runs if run.id in table]
    measured = [run for run in present if _moved(table[run.id])]
    standing = measured or present
    return standing[-1] if standing else None


def _moved(readings: Mapping[str, tuple[Any, ...]]) -> bool:
    row = readings.get(TRAFFIC)
    return row is not None and bool(row[1])


def _traffic(run: Run | None, readings: Mapping[str, tuple[Any, ...]]) -> float | None:
    row = readings.get(TRAFFIC)
    if run is None or row is None or row[1] is None:
        return None
    return float(row[1]) / run.seconds if run.seconds else float(row[1])


def _point(run: Run | None, row: tuple[Any, ...] | None, traffic: float | None) -> Point | None:
    if run is None or row is None:
        return None
    state, value, low, high, count, reason = row
    return Point(run.end, run.kind, STATES[state], value, low, high, count, reason, run.seconds, traffic)


def _load_facts(store: Store, subject: int, chosen: Sequence[Run | None]) -> tuple[Mapping[str, str] | None, ...]:
    wanted = {run.id for run in chosen if run}
    if not wanted:
        return (None,) * len(chosen)
    rows = store.query(
        """SELECT fact.run, name.text, value.text FROM fact JOIN word AS name ON name.id = fact.name
           JOIN word AS value ON value.id = fact.value WHERE fact.subject = ? AND fact.run BETWEEN ? AND ?""",
        (subject, min(wanted), max(wanted)),
    )
    facts: dict[int, dict[str, str]] = {run: {} for run in wanted}
    for run, name, value in rows:
        if run in facts:
            facts[run][name] = value
    return tuple(facts[run.id] if run else None for run in chosen)


def _load_flags(store: Store, subject: int, chosen: Sequence[Run | None]) -> tuple[tuple[str, ...], ...]:
    rows = store.query(
        "SELECT run, word.text FROM presence JOIN word ON word.id = presence.flags WHERE subject = ?", (subject,)
    )
    flags = {int(run): tuple(str(text).split()) for run, text in rows}
    return tuple(flags.get(run.id, ()) if run else () for run in chosen)
