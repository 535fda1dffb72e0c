"""A kept night as the part of a report that it came from, so that it can be held against tonight's as an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.history.baseline import comparable
from auditor.history.changes import Change
from auditor.history.rows import QUANTILES
from auditor.history.series import Point, SubjectNights

SETTING = "setting "
VERSION = "engine version"
NOT_STEADY = frozenset({"cold_start", "counter_reset", "no_traffic"})
"""A night with one of these is no repeat of a quiet one."""


def quiet_nights(past: SubjectNights, change: Change) -> list[int]:
    """Places of the nights that a change is measured from, oldest first.

    Those of its baseline that lie inside its band, without a restart: nights that were bad already tell no noise.
    """
    if change.baseline is None:
        return []
    low, high = change.baseline.low, change.baseline.high
    points = past.points.get(change.reading, ())
    inside = {p.end for p in comparable(change.tonight, points) if p.value is not None and low <= p.value <= high}
    return [
        i
        for i, run in enumerate(past.nights)
        if run is not None and run.end in inside and NOT_STEADY.isdisjoint(past.flags[i])
    ]


def kept_item(past: SubjectNights, night: int) -> dict[str, Any]:
    """The subject on one of its nights: labels, readings, settings, flags, window and version."""
    run = past.nights[night]
    assert run is not None
    at = {name: p for name, points in past.points.items() if (p := points[night]) is not None}
    readings = {
        name: {**_numbers(p), **{q: _numbers(at[f"{name}.{q}"]) for q in QUANTILES if f"{name}.{q}" in at}}
        for name, p in at.items()
        if "." not in name
    }
    window = {"kind": run.kind, "seconds": run.seconds, "coverage": run.coverage}
    return _item(past.labels, readings, past.flags[night], past.facts[night] or {}, window)


def tonight_item(document: Mapping[str, Any], subject: Mapping[str, Any], facts: Mapping[str, str]) -> dict[str, Any]:
    """The same of a report that is not yet kept."""
    return _item(subject["labels"], subject["readings"], subject["flags"], facts, document["window"])


def _item(
    labels: Mapping[str, Any],
    readings: Mapping[str, Any],
    flags: Sequence[str],
    facts: Mapping[str, str],
    window: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "labels": dict(labels),
        "readings": readings,
        # Settings are kept as text, so tonight's are taken from its facts as well.
        "settings": {k.removeprefix(SETTING): {"value": v} for k, v in facts.items() if k.startswith(SETTING)},
        "flags": flags,
        "window": window,
        "version": facts.get(VERSION),
    }


def _numbers(p: Point) -> dict[str, Any]:
    return {
        "state": p.state, "value": p.value, "low": p.low, "high": p.high, "count": p.count, "reason": p.reason,
    }  # fmt: skip
