"""What a premise may be worse than: earlier reports, or whatever else answers the same question."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from auditor.gate.noise import spread

Labels = Mapping[str, str | None]


@dataclass(frozen=True)
class Baseline:
    """The usual value of a reading, and what is known of its noise; or the reason why there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    """95 % limits of the value by its own window."""
    noise: float | None = None
    """Standard deviation of a single run as a share of the value, where runs were repeated."""
    runs: int = 1
    reason: str | None = None


class Baselines(Protocol):
    """A source of baselines; the history is one, reports are another."""

    @property
    def source(self) -> str:
        """What a person would call it: ``last-week.json``, ``audits.db``."""
        ...

    def baseline_of(self, reading: str, subject: Labels, at: str | None = None) -> Baseline:
        """The baseline of a reading of a subject. ``at`` is a place in a distribution."""
        ...


def pooled(values: Sequence[tuple[float, float | None, float | None]]) -> Baseline:
    """One baseline from the values (with their limits) of several runs: the median, and their spread.

    With fewer than three runs, or with runs that agree to the last digit, there is no spread; the limits of a single
    run stay.
    """
    if not values:
        return Baseline(None, runs=0, reason="no run has a value")
    if len(values) == 1:
        return Baseline(*values[0])
    numbers = [v for v, _, _ in values]
    noise = spread(numbers)
    if not noise:
        lows, highs = [low for _, low, _ in values], [high for _, _, high in values]
        low = None if any(x is None for x in lows) else min(x for x in lows if x is not None)
        high = None if any(x is None for x in highs) else max(x for x in highs if x is not None)
        return Baseline(statistics.fmean(numbers), low, high, runs=len(values))
    return Baseline(statistics.median(numbers), noise=noise, runs=len(values))


@dataclass(frozen=True)
class ReportBaselines:
    """Baselines from one or more JSON reports; several are repeats of one thing."""

    documents: tuple[Mapping[str, Any], ...]
    source: str
    min_requests: int = 30

    def baseline_of(self, reading: str, subject: Labels, at: str | None = None) -> Baseline:
        found, reasons = [], []
        for document in self.documents:
            value = self._value(document, reading, subject, at)
            if isinstance(value, str):
                reasons.append(value)
            else:
                found.append(value)
        if not found:
            return Baseline(None, runs=0, reason=reasons[0] if reasons else "no report given")
        return pooled(found)

    def _value(
        self, document: Mapping[str, Any], reading: str, subject: Labels, at: str | None
    ) -> tuple[float, float | None, float | None] | str:
        wanted = dict(subject)
        match = next((s for s in document.get("subjects", ()) if s.get("labels") == wanted), None)
        if match is None:
            return "the baseline has no such subject"
        entry = match.get("readings", {}).get(reading)
        if not isinstance(entry, Mapping):
            return "the baseline has no such reading"
        if entry.get("state") != "measured":
            return f"in the baseline it is {entry.get('state')}"
        count = entry.get("count")
        if isinstance(count, int | float) and entry.get("low") is not None and count < self.min_requests:
            return f"only {count:g} events behind the baseline"
        value, low, high = entry.get("value"), entry.get("low"), entry.get("high")
        if at in ("p50", "p90", "p99"):
            place = entry.get(at) or {}
            value, (low, high) = place.get("value"), place.get("interval") or (None, None)
        if not _is_number(value):
            return "the baseline has no value for it"
        assert value is not None
        return float(value), low if _is_number(low) else None, high if _is_number(high) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
