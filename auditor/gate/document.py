"""A judged gate as JSON, and the flags that it sets on the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from auditor.gate.model import Gated, Premise, Waiver
from auditor.model import Report

BLIND = "all mass of a gated percentile lies in one bucket: it cannot see a change. Gate the mean"


@dataclass(frozen=True)
class Judged:
    """One premise on one subject, before it becomes JSON."""

    premise: Premise
    subject: Mapping[str, str | None]
    verdict: Gated
    expected: str
    found: str
    reason: str | None = None
    flags: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    counts: bool = True
    """Does it decide the exit code? Not as a warning, nor where undecided was allowed."""
    internal: bool = False
    waiver: Waiver | None = None


def with_blind_flags(report: Report, judged: Iterable[Judged]) -> Report:
    blind = [item.subject for item in judged if "blind_histogram" in item.flags]
    if not blind:
        return report
    subjects = tuple(
        replace(s, flags=(*s.flags, "blind_histogram"), facts={**s.facts, "blind_histogram": BLIND})
        if dict(s.labels) in blind and "blind_histogram" not in s.flags
        else s
        for s in report.subjects
    )
    return replace(report, subjects=subjects)


def premise_to_json(item: Judged) -> dict[str, Any]:
    premise = item.premise
    return {
        "name": premise.name,
        "subject": dict(item.subject),
        "file": premise.place.file,
        "line": premise.place.line,
        "column": premise.place.column,
        "level": premise.level,
        "verdict": item.verdict,
        "expected": item.expected,
        "found": item.found,
        "reason": item.reason,
        "counts": item.counts,
        "kind": premise.kind,
        "of": premise.of,
        "at": premise.at,
        "flags": list(item.flags),
        "next": list(item.next),
        "waived_until": None if item.waiver is None else item.waiver.until.isoformat(),
        "preset": premise.preset,
    }


def waiver_to_json(waiver: Waiver, judged: Iterable[Judged], today: date) -> dict[str, Any]:
    mine = [item for item in judged if item.premise.name == waiver.premise]
    if waiver.is_expired(today):
        state = "expired"
    elif any(item.verdict == "waived" for item in mine):
        state = "in_force"
    else:
        state = "not_needed"
    return {
        "premise": waiver.premise,
        "until": waiver.until.isoformat(),
        "reason": waiver.reason,
        "line": waiver.place.line,
        "column": waiver.place.column,
        "state": state,
    }
