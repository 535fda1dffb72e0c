"""Small reports for tests of the history: only the members that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

DAY = 86_400.0
FIRST = datetime(2026, 3, 1, 3, 0, tzinfo=UTC).timestamp()
"""End of night 0's window."""
CHAT: dict[str, Any] = {"engine": "vllm", "model": "chat"}

Number = float | None | Mapping[str, Any]


def reading(value: Number, unit: str = "seconds") -> dict[str, Any]:
    """A measured reading of a value, or whatever members a mapping has."""
    base: dict[str, Any] = {
        "state": "measured", "value": None, "unit": unit, "low": None, "high": None, "count": None, "from": [],
        "reason": None, "caveats": [],
    }  # fmt: skip
    return {**base, **value} if isinstance(value, Mapping) else {**base, "value": value}


def subject(
    readings: Mapping[str, Number],
    *,
    labels: Mapping[str, Any] = CHAT,
    requests: float | None = 1000,
    verdicts: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    config: Mapping[str, str] | None = None,
    started: str | None = None,
    units: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    given = {"finished_requests": requests, **readings}
    units = {"finished_requests": "requests", **(units or {})}
    facts: dict[str, Any] = {}
    if config:
        facts["engine_config"] = dict(config)
    if started:
        facts["process_started"] = started
    return {
        "labels": dict(labels),
        "flags": list(flags),
        "settings": {},
        "readings": {name: reading(v, units.get(name, "seconds")) for name, v in given.items()},
        "audits": {
            name: {"verdict": v, "severity": "info", "found": "1 of 2", "summary": "a summary", "next": []}
            for name, v in (verdicts or {"time-split": "holds"}).items()
        },
        "levers": {},
        "facts": facts,
    }


def report(
    *subjects: Mapping[str, Any],
    end: float = FIRST,
    seconds: float | None = 3600.0,
    kind: str = "range",
    exit_code: int = 0,
    targets: Sequence[Mapping[str, Any]] = (),
    restarts: int = 0,
) -> dict[str, Any]:
    return {
        "schema": 1,
        "kind": "audit",
        "tool": "premise-auditor test",
        "window": {
            "kind": kind, "start": None, "end": None, "seconds": seconds, "coverage": 1.0, "restarts": restarts,
            "warnings": [], "source": "test",
        },
        "targets": list(targets),
        "subjects": list(subjects),
        "exit_code": exit_code,
    }  # fmt: skip


def night(index: float) -> float:
    """Unix seconds at which the window of night ``index`` ends."""
    return FIRST + index * DAY
