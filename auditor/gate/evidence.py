"""What must be there before any premise is judged: a window, traffic, one process, and numbers that can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auditor.gate.presets import FIRST
from auditor.model import Report, SubjectReport, Verdict

TRAFFIC = ("finished_requests", "first_tokens")
COLLAPSE = 0.5
"""With less than half the baseline's traffic an improvement is no like-for-like comparison."""


def window_reasons(report: Report, *, min_coverage: float, allow_lifetime: bool) -> list[str]:
    """Why nothing at all can be decided from this window; empty where something can."""
    reasons = []
    if not report.subjects:
        reasons.append(f"nothing was measured: {target_words(report.targets)}")
    if report.window.get("kind") == "lifetime" and not allow_lifetime:
        reasons.append(
            "one scrape shows the engine's whole life, not what happened now: use --window 60s or --before PAGE "
            "(or --allow-lifetime)"
        )
    coverage = float(report.window.get("coverage", 1.0))
    if report.subjects and coverage < min_coverage:
        reasons.append(
            f"coverage is {coverage * 100:.0f} %, below {min_coverage * 100:g} %: {target_words(report.targets)}"
        )
    return reasons


def idle_reason(report: Report) -> str | None:
    """Why nothing was measured although every page could be read."""
    if report.subjects and all("no_traffic" in s.flags for s in report.subjects):
        return "nothing was measured: no counter moved in the window"
    return None


def target_words(targets: tuple[Mapping[str, Any], ...]) -> str:
    """The targets that gave nothing, with their reasons."""
    bad = [t for t in targets if t.get("state") != "measured"]
    if not bad:
        return "every target answered, in part of the window only" if targets else "there was no target"
    shown = [
        f"{t['address']}: {str(t['state']).replace('_', ' ')}: {t.get('reason') or 'no reason given'}" for t in bad[:3]
    ]
    more = f" (and {len(bad) - 3} more)" if len(bad) > 3 else ""
    return "; ".join(shown) + more


def traffic_of(subject: SubjectReport) -> float | None:
    """Requests that the window saw: finished ones, or those that got a first token; the larger."""
    seen = [r.value for name in TRAFFIC if (r := subject.readings.get(name)) is not None and r.value is not None]
    return max(seen, default=None)


def subject_reason(subject: SubjectReport) -> str | None:
    """Why nothing can be decided for this subject."""
    if "counter_reset" in subject.flags:
        return "the engine restarted inside the window: gate one of its lives"
    if "no_traffic" in subject.flags:
        return "idle: no counter moved in the window"
    return None


def distrust(subject: SubjectReport) -> str | None:
    """Why the numbers of this subject cannot be used: its liveness or its metrics are broken."""
    for name in FIRST:
        verdict = audit_of(subject, name)
        if verdict is not None and verdict.verdict == "broken":
            return f"{name} is broken ({verdict.summary}): no other number of it can be used"
    return None


def audit_of(subject: SubjectReport, name: str) -> Verdict | None:
    return next((v for v in subject.audits if v.audit == name), None)
