"""What is to be said of the nights themselves: gaps, repeats, subjects that are gone, pages taken for another night."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auditor.history.nights import DAY_SECONDS, SAME_NIGHT_SECONDS, Gap, Night, Run
from auditor.history.rows import labels_key, unix_seconds
from auditor.history.series import Point, SubjectNights, list_subjects
from auditor.history.store import Store
from auditor.model import utc_text

RECENT_NIGHTS = 14
"""A subject seen in these and not tonight is named."""
SUMS = ("finished_requests", "prompt_tokens", "generation_tokens", "prefill_seconds", "decode_seconds", "queue_seconds")
"""Sums that two nights share to the last digit only when they are one window."""
LEAST_SUMS = 3


def last_before(store: Store, end: float) -> float | None:
    """When the latest run at or before that moment ended, however long ago; unix seconds."""
    rows = store.query('SELECT max("end") FROM run WHERE "end" <= ?', (end,))
    return None if rows[0][0] is None else float(rows[0][0])


def is_newest(store: Store, end: float) -> bool:
    """Whether no run in the store ended later."""
    return not store.query('SELECT 1 FROM run WHERE "end" > ? LIMIT 1', (end,))


def doubts(tonight: Mapping[str, Point], past: SubjectNights, facts: Mapping[str, str], end: float) -> Iterator[str]:
    """Signs that tonight's pages are not of this night. ``end`` is that of tonight's window, unix seconds."""
    twin = _same_window(tonight, past)
    if twin is not None:
        yield f"its sums are those of the night of {utc_text(twin)} to the last digit: the same pages?"
    started = unix_seconds(facts.get("process started"))
    if started is not None and started > end:
        yield f"the engine was started {utc_text(started)}, after this night ended: is --at the right time?"


def _same_window(tonight: Mapping[str, Point], past: SubjectNights) -> float | None:
    """End of the latest night whose sums are tonight's."""
    for i in range(len(past.nights) - 1, -1, -1):
        pairs = [(tonight[n].value, past.points[n][i]) for n in SUMS if n in tonight and n in past.points]
        known = [(now, then.value) for now, then in pairs if now and then is not None and then.value is not None]
        run = past.nights[i]
        if run is not None and len(known) >= LEAST_SUMS and all(now == then for now, then in known):
            return run.end
    return None


def remarks(
    store: Store, end: float, earlier: Sequence[Night], siblings: Sequence[Run], gaps: Sequence[Gap]
) -> list[str]:
    """Sentences on the nights themselves. ``end`` is that of tonight's window, unix seconds."""
    out = []
    last = None if earlier else last_before(store, end - SAME_NIGHT_SECONDS)
    if last is not None:
        days = round((end - last) / DAY_SECONDS)
        out.append(f"the last night before this one was {utc_text(last)}, {days} days ago: too long to compare with")
    elif not earlier:
        out.append("this is the first night in the store: nothing to compare with yet")
    recent = [g for g in gaps if g.before == end]
    for gap in recent:
        nights = "one night" if gap.nights == 1 else f"{gap.nights} nights"
        out.append(f"{nights} without a run before this one (the last was {utc_text(gap.after)})")
    older = sum(g.nights for g in gaps if g.before != end)
    if older:
        out.append(f"{older} earlier {'night' if older == 1 else 'nights'} without a run in the nights shown")
    if siblings:
        ends = ", ".join(str(utc_text(r.end)) for r in siblings)
        out.append(f"another run of this night ended {ends}; it is kept and not part of the baseline")
    return out


def missing_subjects(
    store: Store, document: Mapping[str, Any], earlier: Sequence[Night], known: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Subjects of the last nights that tonight's report does not have."""
    runs = {run.id: run.end for night in earlier[-RECENT_NIGHTS:] for run in night.runs}
    if not runs:
        return []
    rows = store.query("SELECT subject, run FROM presence WHERE run BETWEEN ? AND ?", (min(runs), max(runs)))
    last: dict[int, float] = {}
    for subject, run in rows:
        if run in runs:
            last[subject] = max(last.get(subject, 0.0), runs[run])
    here = {known.get(labels_key(s["labels"])) for s in document["subjects"]}
    labels = {number: key for key, number in known.items()}
    subjects = list_subjects(store)
    return [
        {"labels": subjects[number], "last_seen": utc_text(last[number])}
        for number in sorted(last, key=lambda n: labels[n])
        if number not in here
    ]
