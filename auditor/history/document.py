"""The ``nights`` member of a nightly report: tonight beside the nights before, for people and for scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.history.baseline import MIN_NIGHTS
from auditor.history.changes import Change, judge, judge_all
from auditor.history.events import find_events
from auditor.history.kept import kept_item, quiet_nights, tonight_item
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
from auditor.history.rows import STATES, fact_rows, labels_key, reading_rows
from auditor.history.series import TRAFFIC, Point, SubjectNights, list_subjects, load_subject
from auditor.history.store import Store
from auditor.history.trends import choose_trends, make_trend
from auditor.model import utc_text

KEPT_IN_MIND = 60
"""Nights that are read at all."""
RECENT_NIGHTS = 14
"""A subject seen in these and not tonight is named."""
LEAST_REPEATS = 2
"""Quiet nights below which nothing tells their noise."""

Compare = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any], Sequence[str]], Mapping[str, Any]]
"""From the subject on quiet nights, the same tonight, and the readings that moved, to rows with change and interval."""


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
        subjects.append(_subject(tonight, now, subject, past, earlier, gaps, better, compare, min_nights))
    return {
        "run": None,
        "end": utc_text(tonight.end),
        "ran": utc_text(tonight.ran),
        "kept": False,
        "nights_before": len(earlier),
        "min_nights": min_nights,
        "missed": [_gap_json(g) for g in gaps],
        "same_night": [utc_text(r.end) for r in siblings],
        "notes": _notes(tonight, earlier, siblings, gaps),
        "subjects": subjects,
        "missing_subjects": _missing(store, tonight, earlier, known),
    }


def _no_past(subject: Mapping[str, Any], nights: int) -> SubjectNights:
    return SubjectNights(subject["labels"], (None,) * nights, {}, {}, (None,) * nights, ((),) * nights)


def _subject(
    tonight: Tonight,
    now: Run,
    subject: Mapping[str, Any],
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
    verdict, reason = _verdict(changes, moved, traffic, idle, past)
    recent = [e for e in events if e.at == tonight.end]
    return {
        "labels": dict(subject["labels"]),
        "verdict": verdict,
        "reason": reason,
        "nights": sum(run is not None for run in past.nights),
        "changes": [c.to_json() for c in moved],
        "compared": sum(c.baseline is not None for c in changes),
        "undecided": [
            {"reading": c.reading, "reason": c.reason}
            for c in changes
            if c.verdict == "undecided" and c.previous is not None
        ],
        "comparison": _comparison(tonight, subject, facts, points, past, moved, compare) if moved else None,
        "traffic": None if traffic is None else traffic.to_json(),
        "events": [e.to_json() for e in recent],
        "earlier_events": [e.to_json() for e in events if e.at != tonight.end][-20:],
        "trends": {
            name: make_trend(name, points[name], past, earlier, gaps, changes, units[name])
            for name in choose_trends(points, moved)
        },
    }  # fmt: skip


def _comparison(
    tonight: Tonight,
    subject: Mapping[str, Any],
    facts: Mapping[str, str],
    points: Mapping[str, Point],
    past: SubjectNights,
    moved: Sequence[Change],
    compare: Compare,
) -> dict[str, Any] | None:
    """Tonight beside the quiet nights before the first change began; None without such nights."""
    done = points.get(TRAFFIC)
    if done is None:
        return None
    good = [c.last_good for c in moved if c.last_good is not None]
    quiet = quiet_nights(past, done, until=min(good, default=None))
    if len(quiet) < LEAST_REPEATS:
        return None
    found = compare(
        [kept_item(past, i) for i in quiet],
        tonight_item(tonight.document, subject, facts),
        [c.reading for c in moved],
    )
    ends = [run.end for i in quiet if (run := past.nights[i])]
    return {"nights": len(quiet), "first": utc_text(ends[0]), "last": utc_text(ends[-1]), **found}


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
    changes: Sequence[Change], moved: Sequence[Change], traffic: Change | None, idle: bool, past: SubjectNights
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
        return "undecided", "not enough history: the first night of this subject"
    if traffic is not None and traffic.verdict == "changed" and traffic.tonight.value and traffic.baseline:
        factor = traffic.tonight.value / traffic.baseline.median if traffic.baseline.median else 0.0
        return "undecided", f"traffic is {factor:.2g} times that of the nights before: nothing to compare with"
    reasons = [c.reason for c in changes if c.reason and c.reason.startswith("not enough")]
    return "undecided", max(set(reasons), key=reasons.count) if reasons else "not enough history"


def _gap_json(gap: Gap) -> dict[str, Any]:
    return {"after": utc_text(gap.after), "before": utc_text(gap.before), "nights": gap.nights}


def _notes(tonight: Tonight, earlier: Sequence[Night], siblings: Sequence[Run], gaps: Sequence[Gap]) -> list[str]:
    out = []
    if not earlier:
        out.append("this is the first night in the store: nothing to compare with yet")
    recent = [g for g in gaps if g.before == tonight.end]
    for gap in recent:
        nights = "one night" if gap.nights == 1 else f"{gap.nights} nights"
        out.append(f"{nights} without a run before this one (the last was {utc_text(gap.after)})")
    older = sum(g.nights for g in gaps if g.before != tonight.end)
    if older:
        out.append(f"{older} earlier {'night' if older == 1 else 'nights'} without a run in the nights shown")
    if siblings:
        ends = ", ".join(str(utc_text(r.end)) for r in siblings)
        out.append(f"another run of this night ended {ends}; it is kept and not part of the baseline")
    return out


def _missing(
    store: Store, tonight: Tonight, earlier: Sequence[Night], known: Mapping[str, int]
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
    here = {known.get(labels_key(s["labels"])) for s in tonight.document["subjects"]}
    labels = {number: key for key, number in known.items()}
    subjects = list_subjects(store)
    return [
        {"labels": subjects[number], "last_seen": utc_text(last[number])}
        for number in sorted(last, key=lambda n: labels[n])
        if number not in here
    ]


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
        "notes": [],
        "subjects": [],
        "missing_subjects": [],
    }


def is_regression(nights: Mapping[str, Any]) -> bool:
    """Whether any subject got worse."""
    return any(s["verdict"] == "worse" for s in nights.get("subjects", ()))


__all__ = ["Tonight", "is_regression", "make_nights"]
