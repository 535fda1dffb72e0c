"""The report: all of it, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from auditor.model.judgements import Lever, Verdict
from auditor.model.readings import Claim, Reading, Setting
from auditor.model.words import SCHEMA


@dataclass(frozen=True)
class SubjectReport:
    labels: Mapping[str, str | None]
    flags: tuple[str, ...]
    settings: Mapping[str, Setting]
    readings: Mapping[str, Reading]
    audits: tuple[Verdict, ...]
    levers: tuple[Lever, ...] = ()
    claims: tuple[Claim, ...] = ()
    parts: tuple[Mapping[str, Any], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    course: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "labels": dict(self.labels),
            "flags": list(self.flags),
            "settings": {k: s.to_json() for k, s in sorted(self.settings.items())},
            "readings": {k: r.to_json() for k, r in self.readings.items()},
            "audits": {v.audit: v.to_json() for v in self.audits},
            "levers": {lv.lever: lv.to_json() for lv in self.levers},
            "claims": [c.to_json() for c in self.claims],
            "parts": [dict(p) for p in self.parts],
            "facts": dict(self.facts),
        }
        if self.course is not None:
            out["course"] = dict(self.course)
        return out


@dataclass(frozen=True)
class Report:
    """An audit's whole result. Every output is a function of :meth:`to_json`."""

    window: Mapping[str, Any]
    targets: tuple[Mapping[str, Any], ...]
    subjects: tuple[SubjectReport, ...]
    tool: str
    exit_code: int = 0
    kind: str = "audit"
    course: Mapping[str, Any] | None = None
    gate: Mapping[str, Any] | None = None
    fleet: Mapping[str, Any] | None = None
    """Several engines side by side: the readings that mean the same on all of them."""

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "schema": SCHEMA,
            "kind": self.kind,
            "tool": self.tool,
            "window": dict(self.window),
            "targets": [dict(t) for t in self.targets],
            "subjects": [s.to_json() for s in self.subjects],
        }
        if self.course is not None:
            out["course"] = dict(self.course)
        if self.gate is not None:
            out["gate"] = dict(self.gate)
        if self.fleet is not None:
            out["fleet"] = dict(self.fleet)
        out["exit_code"] = self.exit_code
        return out

    def with_exit_code(self, code: int) -> Report:
        return replace(self, exit_code=code)
