"""When two figures for one thing agree."""

from __future__ import annotations

from auditor.measures.subject import Subject

IDENTITY_TOLERANCE = 0.005


def agree(a: float, b: float, events: float, slack: float = 0.0) -> bool:
    """Two figures for one thing agree within one event or 0.5 %, whichever is larger, or within ``slack``."""
    larger = max(abs(a), abs(b))
    return abs(a - b) <= max(IDENTITY_TOLERANCE, slack, 1 / events if events > 0 else 1.0) * larger + 1e-9


def extrapolation_error(s: Subject) -> float:
    """Share by which two increases of one window may differ because a metrics server extrapolates them."""
    if not s.window.estimated:
        return 0.0
    if not s.window.step_seconds or not s.window.seconds:
        return 0.02
    return min(1.0, s.window.step_seconds / s.window.seconds)
