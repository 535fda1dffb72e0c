"""The ``nights`` member of a nightly report: tonight beside the nights before, for people and for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.history.baseline import MIN_NIGHTS
from auditor.history.changes import Change, judge, judge_all
from auditor.history.comparisons import Compare, compare_changes
from auditor.history.events import find_events
from auditor.history.kept import tonight_item
from auditor.history.nights import (
    DAY_SECONDS,
    SAME_NIGHT_SECONDS,
    Gap,
    Night,
    Run,
    find_gaps,
    group_nights,
    load_runs,
)
from auditor.history.remarks import doubts, is_newest, missing_subjects, remarks
from auditor.history.rows import STATES, fact_rows, labels_key, reading_rows
from auditor.history.series import TRAFFIC, Point, SubjectNights, list_subjects, load_subject
from auditor.history.store import Store
from auditor.history.trends import choose_trends, make_trend
from auditor.model import utc_text

KEPT_IN_MIND = 60
"""Nights that are read at all."""


@dataclass(frozen=True)
class Tonight:
    """The report of tonight, not yet kept. ``end`` and ``ran`` are unix seconds."""

    document: Mapping[str, Any]
    end: float
    ran: float


def make_nights(
    store: Store,
    tonight: Tonight,
    *,
    better: Mapping[str, str | None],
    compare: Compare,
    min_nights: int = MIN_NIGHTS,
) -> dict[str, Any]:
    """Compare a report with the nights in the store. Nights that end later than it are left out.

    Args:
        compare: says by how much what moved has moved, and what else differs between the nights.
        better: for each reading ``lower``, ``higher`` or None where no direction is known to be good.
        min_nights: fewer comparable nights than this give no verdict.
    """
    runs = load_runs(store, since=tonight.end - KEPT_IN_MIND * 2 * DAY_SECONDS, until=tonight.end)
    siblings = [r for r in runs if tonight.end - r.end < SAME_NIGHT_SECONDS]
    earlier = group_nights([r for r in runs if tonight.end - r.end >= SAME_NIGHT_SECONDS])[-KEPT_IN_MIND:]
    window = tonight.document["window"]
    now = Run(
        0, tonight.end, None, tonight.ran, window["kind"], window["seconds"], window["coverage"],
        window["restarts"], tonight.document["exit_code"], tonight.document["tool"], window.get("source") or "", (),
        len(tonight.document["subjects"]),
    )  # fmt: skip
    gaps = find_gaps([*earlier, Night((now,))])
    known = {labels_key(labels): number for number, labels in list_subjects(store).items()}
    subjects = []
    for subject in tonight.document["subjects"]:
        number = known.get(labels_key(subject["labels"]))
        past = load_subject(store, number, earlier) if number is not None else _no_past(subject, len(earlier))
        subjects.append(_subject(tonight, now, subject, number, past, earlier, gaps, better, compare, min_nights))
    return {
        "run": None,
        "end": utc_text(tonight.end),
        "ran": utc_text(tonight.ran),
        "kept": False,
        "nights_before": len(earlier),
        "min_nights": min_nights,
        "missed": [_gap_json(g) for g in gaps],
        "same_night": [utc_text(r.end) for r in siblings],
        "newest": is_newest(store, tonight.end),
        "notes": remarks(store, tonight.end, earlier, siblings, gaps),
        "subjects": subjects,
        "missing_subjects": missing_subjects(store, tonight.document, earlier, known),
    }


def _no_past(subject: Mapping[str, Any], nights: int) -> SubjectNights:
    return SubjectNights(subject["labels"], (None,) * nights, {}, {}, (None,) * nights, ((),) * nights)


def _subject(
    tonight: Tonight,
    now: Run,
    subject: Mapping[str, Any],
    number: int | None,
    past: SubjectNights,
    earlier: Sequence[Night],
    gaps: Sequence[Gap],
    better: Mapping[str, str | None],
    compare: Compare,
    min_nights: int,
) -> dict[str, Any]:
    points, units = _points(now, subject)
    facts = dict(fact_rows(tonight.document, subject))
    ends = [run.end if run else night.end for run, night in zip(past.nights, earlier, strict=True)]
    events = find_events([*zip(ends, past.facts, strict=True), (tonight.end, facts)])
    idle = "no_traffic" in subject["flags"]
    changes = [] if idle else judge_all(
        {k: p for k, p in points.items() if "." not in k},
        past.points,
        units=units,
        better=better,
        events=events,
        nights=len(earlier),
        min_nights=min_nights,
    )  # fmt: skip
    traffic = None if idle else _judge_traffic(points, past, len(earlier), min_nights)
    moved = [c for c in changes if c.verdict not in ("same", "undecided")]
    verdict, reason = _verdict(changes, moved, traffic, idle, past, new=number is None)
    recent = [e for e in events if e.at == tonight.end]
    return {
        "labels": dict(subject["labels"]),
        "verdict": verdict,
        "reason": reason,
        "remarks": [] if idle else list(doubts(points, past, facts, tonight.end)),
        "nights": sum(run is not None for run in past.nights),
        "changes": [c.to_json() for c in moved],
        "compared": sum(c.baseline is not None for c in changes),
        "undecided": [
            {"reading": c.reading, "reason": c.reason}
            for c in changes
            if c.verdict == "undecided" and c.previous is not None
        ],
        "comparisons": compare_changes(moved, past, tonight_item(tonight.document, subject, facts), compare),
        "traffic": None if traffic is None else traffic.to_json(),
        "events": [e.to_json() for e in recent],
        "earlier_events": [e.to_json() for e in events if e.at != tonight.end][-20:],
        "trends": {
            name: make_trend(name, points[name], past, earlier, gaps, changes, units[name])
            for name in choose_trends(points, moved)
        },
    }  # fmt: skip


def _points(now: Run, subject: Mapping[str, Any]) -> tuple[dict[str, Point], dict[str, str]]:
    rows = list(reading_rows(subject))
    done = next((r.numbers[0] for r in rows if r.name == TRAFFIC), None)
    traffic = None if done is None else done / now.seconds if now.seconds else done
    points = {
        r.name: Point(now.end, now.kind, STATES[r.state], *r.numbers, r.reason, now.seconds, traffic) for r in rows
    }
    return points, {r.name: r.unit for r in rows}


def _judge_traffic(points: Mapping[str, Point], past: SubjectNights, nights: int, min_nights: int) -> Change | None:
    """Requests per second against all nights: readings are compared only where this is alike."""

    def as_traffic(p: Point | None) -> Point | None:
        if p is None or p.traffic is None:
            return None
        return Point(p.end, p.kind, "measured", p.traffic, seconds=p.seconds, traffic=p.traffic)

    now = as_traffic(points.get(TRAFFIC))
    if now is None:
        return None
    before = [as_traffic(p) for p in past.points.get(TRAFFIC, (None,) * nights)]
    unit = "requests per second" if now.seconds else "requests"
    return judge("traffic", now, before, unit=unit, better=None, min_nights=min_nights, any_traffic=True)


def _verdict(
    changes: Sequence[Change],
    moved: Sequence[Change],
    traffic: Change | None,
    idle: bool,
    past: SubjectNights,
    *,
    new: bool,
) -> tuple[str, str | None]:
    if idle:
        return "undecided", "no counter moved in the window: nothing to compare"
    words = {c.verdict for c in moved}
    for word in ("worse", "changed", "better"):
        if word in words:
            return word, None
    if any(c.verdict == "same" for c in changes):
        return "same", None
    if not any(past.nights):
        why = "the first night of this subject" if new else "no night of this subject among those looked at"
        return "undecided", f"not enough history: {why}"
    if traffic is not None and traffic.verdict == "changed" and traffic.tonight.value and traffic.baseline:
        factor = traffic.tonight.value / traffic.baseline.median if traffic.baseline.median else 0.0
        return "undecided", f"traffic is {factor:.2g} times that of the nights before: nothing to compare with"
    reasons = [c.reason for c in changes if c.reason and c.reason.startswith("not enough")]
    return "undecided", max(set(reasons), key=reasons.count) if reasons else "not enough history"


def _gap_json(gap: Gap) -> dict[str, Any]:
    return {"after": utc_text(gap.after), "before": utc_text(gap.before), "nights": gap.nights}


def without_history(tonight: Tonight, reason: str) -> dict[str, Any]:
    """The same member where the store could not be opened."""
    return {
        "run": None,
        "end": utc_text(tonight.end),
        "ran": utc_text(tonight.ran),
        "kept": False,
        "reason": reason,
        "nights_before": 0,
        "min_nights": None,
        "missed": [],
        "same_night": [],
        "newest": True,
        "notes": [],
        "subjects": [],
        "missing_subjects": [],
    }


def is_regression(nights: Mapping[str, Any]) -> bool:
    """Whether any subject got worse."""
    return any(s["verdict"] == "worse" for s in nights.get("subjects", ()))


__all__ = ["Tonight", "is_regression", "make_nights"]
