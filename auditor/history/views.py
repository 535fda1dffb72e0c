"""The store as documents: runs, one run, a trend, and everything as flat rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auditor.history.baseline import MIN_NIGHTS, Baseline
from auditor.history.changes import judge
from auditor.history.nights import Run, find_gaps, group_nights, load_runs
from auditor.history.rows import SEVERITIES, STATES, TARGET_STATES, VERDICTS
from auditor.history.series import list_subjects, load_subject
from auditor.history.store import Store, decode_labels
from auditor.model import SCHEMA, UsageError, utc_text

BROKEN = VERDICTS.index("broken")
LOOKED_BACK = 60
"""Nights before a night out of which its baseline may come; 28 of them at most are used."""

EXPORT_COLUMNS = (
    "run", "window_end", "window_kind", "window_seconds", "labels", "kind", "name", "state", "value", "low", "high",
    "count", "unit", "text",
)  # fmt: skip


def list_runs(store: Store) -> list[dict[str, Any]]:
    """All runs, oldest first, with remarks on gaps and repeats."""
    runs = load_runs(store)
    broken = dict(store.query("SELECT run, count(*) FROM verdict WHERE verdict = ? GROUP BY run", (BROKEN,)))
    nights = group_nights(runs)
    after_gap = {g.before: g.nights for g in find_gaps(nights)}
    out = []
    for night in nights:
        for i, run in enumerate(night.runs):
            remarks = []
            missed = after_gap.get(night.end) if i == 0 else None
            if missed:
                remarks.append(f"{missed} night{'' if missed == 1 else 's'} without a run before")
            if i:
                remarks.append("another run of the same night")
            if not run.subjects:
                remarks.append("no engine measured")
            if run.restarts:
                remarks.append(f"{run.restarts} restart{'' if run.restarts == 1 else 's'}")
            out.append({**_run_json(run), "broken": int(broken.get(run.id, 0)), "remarks": remarks})
    return out


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "run": run.id,
        "end": utc_text(run.end),
        "ran": utc_text(run.ran),
        "kind": run.kind,
        "seconds": run.seconds,
        "coverage": run.coverage,
        "restarts": run.restarts,
        "exit_code": run.exit_code,
        "tool": run.tool,
        "source": run.source,
        "warnings": list(run.notes),
        "subjects": run.subjects,
    }


def find_run(store: Store, wanted: str | None) -> Run:
    """A run by its number or by the beginning of its window's end (``2026-11-21``); the latest by default.

    Raises:
        UsageError: there is none, or several begin so.
    """
    runs = load_runs(store)
    if not runs:
        raise UsageError(f"{store.path}: no run has been kept yet")
    if wanted is None:
        return runs[-1]
    found = [r for r in runs if str(r.id) == wanted]
    found = found or [r for r in runs if str(utc_text(r.end)).startswith(wanted.replace(" ", "T"))]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{wanted}: {len(found)} runs begin so ({', '.join(str(r.id) for r in found)}); give a number")
    raise UsageError(f"{wanted}: there is no such run; auditor history list --store {store.path} shows them")


def show_run(store: Store, run: Run) -> dict[str, Any]:
    """One run as it was kept: verdicts and readings of every subject."""
    subjects = []
    for number, flags in store.query(
        "SELECT subject, word.text FROM presence JOIN word ON word.id = flags WHERE run = ? ORDER BY subject", (run.id,)
    ):
        readings = store.query(
            """SELECT series.name, series.unit, state, value, low, high, count, word.text FROM series
               JOIN reading ON reading.series = series.id AND reading.run = ?
               LEFT JOIN word ON word.id = reading.reason WHERE series.subject = ? ORDER BY series.id""",
            (run.id, number),
        )
        verdicts = store.query(
            """SELECT word.text, verdict, severity, found FROM verdict JOIN word ON word.id = audit
               WHERE subject = ? AND run = ? ORDER BY word.text""",
            (number, run.id),
        )
        subjects.append(
            {
                "labels": list_subjects(store)[number],
                "flags": flags.split(),
                "audits": {
                    name: {"verdict": VERDICTS[v], "severity": SEVERITIES[s], "found": found}
                    for name, v, s, found in verdicts
                },
                "readings": {
                    name: _reading_json(STATES[s], unit, v, lo, hi, n, why)
                    for name, unit, s, v, lo, hi, n, why in readings
                },
            }
        )
    targets = store.query(
        """SELECT address.text, state, reason.text FROM target JOIN word AS address ON address.id = target.address
           LEFT JOIN word AS reason ON reason.id = target.reason WHERE run = ?""",
        (run.id,),
    )
    return {
        "schema": SCHEMA,
        "kind": "history",
        "run": _run_json(run),
        "targets": [{"address": a, "state": TARGET_STATES[s], "reason": why} for a, s, why in targets],
        "subjects": subjects,
    }


def _reading_json(
    state: str,
    unit: str,
    value: float | None,
    low: float | None,
    high: float | None,
    count: float | None,
    why: str | None,
) -> dict[str, Any]:
    return {"state": state, "value": value, "unit": unit, "low": low, "high": high, "count": count, "reason": why}


def trend(
    store: Store,
    reading: str,
    *,
    match: Mapping[str, str],
    nights: int | None,
    better: str | None,
    min_nights: int = MIN_NIGHTS,
) -> list[dict[str, Any]]:
    """A reading over the nights for every subject that has it, each night beside what was usual before it.

    Args:
        match: only subjects with these labels.
        nights: the latest so many; all by default.
        better: which direction is good, where one is.
    """
    all_nights = group_nights(load_runs(store))
    rows = store.query("SELECT subject FROM series WHERE name = ? ORDER BY subject", (reading,))
    out = []
    for (number,) in rows:
        labels = list_subjects(store)[number]
        if any(str(labels.get(k)) != v for k, v in match.items()):
            continue
        kept = load_subject(store, number, all_nights, names=(reading,), facts=False)
        points = kept.points[reading]
        first = 0 if nights is None else max(0, len(points) - nights)
        shown = []
        for i in range(first, len(points)):
            point, run = points[i], kept.nights[i]
            if point is None:
                end = all_nights[i].end if run is None else run.end
                state = "subject not seen" if run is None else "not kept"
                shown.append(_trend_row(end, None, None, None, state, None, "undecided", state))
                continue
            earlier = points[max(0, i - LOOKED_BACK) : i]
            change = judge(reading, point, earlier, unit=kept.units[reading], better=better, min_nights=min_nights)
            shown.append(
                _trend_row(
                    point.end,
                    point.value,
                    point.low,
                    point.high,
                    point.state,
                    change.baseline,
                    change.verdict,
                    change.reason,
                )
            )
        out.append({"labels": labels, "unit": kept.units[reading], "nights": shown})
    return out


def _trend_row(
    end: float,
    value: float | None,
    low: float | None,
    high: float | None,
    state: str,
    base: Baseline | None,
    verdict: str,
    reason: str | None,
) -> dict[str, Any]:
    return {
        "end": utc_text(end),
        "value": value,
        "low": low,
        "high": high,
        "state": state,
        "baseline": base.median if base else None,
        "band": [base.low, base.high] if base else None,
        "verdict": verdict,
        "reason": reason,
    }


def known_readings(store: Store) -> tuple[str, ...]:
    return tuple(r[0] for r in store.query("SELECT DISTINCT name FROM series ORDER BY name"))


def export_rows(store: Store, *, since: float | None = None) -> Iterator[Sequence[Any]]:
    """Readings and verdicts of all runs as flat rows, in the order of :data:`EXPORT_COLUMNS`."""
    for run in load_runs(store, since=since):
        head = (run.id, utc_text(run.end), run.kind, run.seconds)
        for labels, name, state, value, low, high, count, unit, why in store.query(
            """SELECT subject.labels, series.name, state, value, low, high, count, series.unit, word.text FROM presence
               JOIN subject ON subject.id = presence.subject JOIN series ON series.subject = subject.id
               JOIN reading ON reading.series = series.id AND reading.run = presence.run
               LEFT JOIN word ON word.id = reading.reason WHERE presence.run = ? ORDER BY subject.id, series.id""",
            (run.id,),
        ):
            shown = _labels_words(labels)
            yield (*head, shown, "reading", name, STATES[state], value, low, high, count, unit, why)
        for labels, name, word, found in store.query(
            """SELECT subject.labels, word.text, verdict, found FROM presence
               JOIN subject ON subject.id = presence.subject
               JOIN verdict ON verdict.subject = subject.id AND verdict.run = presence.run
               JOIN word ON word.id = verdict.audit WHERE presence.run = ? ORDER BY subject.id, word.text""",
            (run.id,),
        ):
            yield (*head, _labels_words(labels), "verdict", name, VERDICTS[word], None, None, None, None, None, found)


def _labels_words(text: str) -> str:
    return ", ".join(f"{k}={v}" for k, v in decode_labels(text).items() if v is not None)
