"""What is made of readings: verdicts, and levers with ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from auditor.model.words import Severity, VerdictWord, WindowKind


@dataclass(frozen=True)
class Verdict:
    """What an audit says of its premise, with the evidence and what to do next."""

    audit: str
    premise: str
    question: str
    verdict: VerdictWord
    severity: Severity
    summary: str
    expected: str
    found: str
    flags: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "premise": self.premise,
            "question": self.question,
            "verdict": self.verdict,
            "severity": self.severity,
            "summary": self.summary,
            "expected": self.expected,
            "found": self.found,
            "flags": list(self.flags),
            "readings": list(self.readings),
            "next": list(self.next),
        }


@dataclass(frozen=True)
class Example:
    """A small window in terms of quantities, with the verdict it must get; ``auditor explain`` shows it.

    Counters are numbers or mappings by split label, gauges pairs (first, last), histograms mappings with
    ``sum``, ``count`` and ``buckets`` (upper edge -> observations in that bucket, not cumulative).
    """

    verdict: VerdictWord
    text: str
    quantities: Mapping[str, Any]
    seconds: float | None = 60.0
    kind: WindowKind = "scrapes"
    settings: Mapping[str, float | str | bool] = field(default_factory=dict)
    engine: str = "vllm"
    """The engine in whose quantities it is told."""


Range = tuple[float | None, float | None]


@dataclass(frozen=True)
class Lever:
    """One thing an operator can change: the most it can gain, what it costs, what would settle it."""

    lever: str
    verdict: Literal["worth_a_test", "not_worth_a_test", "undecided", "not_applicable"]
    summary: str
    ceiling_speedup: Range = (None, None)
    ceiling_speedup_95: Range = (None, None)
    if_twice_as_fast: Range = (None, None)
    reason: str | None = None
    touches: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    settles: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "summary": self.summary,
            "ceiling_speedup": list(self.ceiling_speedup),
            "ceiling_speedup_95": list(self.ceiling_speedup_95),
            "if_twice_as_fast": list(self.if_twice_as_fast),
            "verdict": self.verdict,
            "reason": self.reason,
            "touches": list(self.touches),
            "costs": list(self.costs),
            "needs": list(self.needs),
            "settles": self.settles,
        }
