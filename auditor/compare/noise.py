"""How far a change is from noise: from repeated windows where there are some, from counts where not.

Changes are relative (0.05 is 5 % more). Positive figures are compared on the log scale, where a ratio is a difference.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from auditor.quantiles import student_quantile

Noise = Literal["repeats", "counts", "unknown"]
Z95 = 1.959963984540054

COUNTS_WIDENING = 1.3
"""Requests that share steps and queues are not independent, so intervals of one window are too narrow for a comparison:
measured on pairs of like simulated servers, see docs/compare.md."""


@dataclass(frozen=True)
class Value:
    """One window's reading: value and 95 % interval, where it has one."""

    value: float
    low: float | None = None
    high: float | None = None
    count: float | None = None


@dataclass(frozen=True)
class Change:
    """Relative change from baseline to arm with its interval, and the wider one that overall verdicts use."""

    baseline: float
    value: float
    change: float | None
    low: float | None
    high: float | None
    noise: Noise
    low_99: float | None = None
    high_99: float | None = None


def measure_change(baseline: Sequence[Value], arm: Sequence[Value]) -> Change:
    """The change between two arms.

    Repeats in either arm give the noise (Welch's t where both have some, the repeated arm's spread where one has);
    single windows give the noise of their counts; without an interval the noise of single windows is unknown.
    """
    a, b = [v.value for v in baseline], [v.value for v in arm]
    mean_a, mean_b = statistics.fmean(a), statistics.fmean(b)
    change = None if mean_a == 0 else mean_b / mean_a - 1
    if mean_a == mean_b == 0:
        change = 0.0
    logs = min(*a, *b) > 0
    if len(a) > 1 or len(b) > 1:
        return _from_repeats(a, b, mean_a, mean_b, change, logs=logs)
    return _from_counts(baseline[0], arm[0], change, logs=logs)


def _from_repeats(
    a: Sequence[float], b: Sequence[float], mean_a: float, mean_b: float, change: float | None, *, logs: bool
) -> Change:
    x, y = ([math.log(v) for v in a], [math.log(v) for v in b]) if logs else (list(a), list(b))
    error, df = _standard_error(x, y)
    difference = statistics.fmean(y) - statistics.fmean(x)
    if logs:
        change = math.exp(difference) - 1
    bounds: list[float | None] = []
    for p in (0.975, 0.995):
        t = student_quantile(p, df)
        for sign in (-1, 1):
            bounds.append(None if t is None else _as_change(difference + sign * t * error, mean_a, logs=logs))
    return Change(mean_a, mean_b, change, bounds[0], bounds[1], "repeats", bounds[2], bounds[3])


def _standard_error(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Standard error of the difference of means, and its degrees of freedom (Welch-Satterthwaite)."""
    if len(x) > 1 and len(y) > 1:
        vx, vy = statistics.variance(x) / len(x), statistics.variance(y) / len(y)
        if vx + vy == 0:
            return 0.0, float(len(x) + len(y) - 2)
        df = (vx + vy) ** 2 / (vx**2 / (len(x) - 1) + vy**2 / (len(y) - 1))
        return math.sqrt(vx + vy), df
    many, few = (x, y) if len(x) > 1 else (y, x)
    spread = statistics.variance(many)
    return math.sqrt(spread * (1 / len(many) + 1 / len(few))), float(len(many) - 1)


def _as_change(difference: float, mean_a: float, *, logs: bool) -> float | None:
    if logs:
        return math.exp(min(difference, 700.0)) - 1
    return difference / mean_a if mean_a else None


def _from_counts(a: Value, b: Value, change: float | None, *, logs: bool) -> Change:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Change(a.value, b.value, change, None, None, "unknown")
    if logs and a.low > 0 and b.low > 0:
        widths = [math.log(v.high / v.low) for v in (a, b) if v.high is not None and v.low is not None]
        difference = math.log(b.value / a.value)
        on_logs = True
    else:
        widths = [v.high - v.low for v in (a, b) if v.high is not None and v.low is not None]
        difference = b.value - a.value
        on_logs = False
    error = COUNTS_WIDENING * math.hypot(*widths) / (2 * Z95)
    bounds = [
        _as_change(difference + sign * z * error, a.value, logs=on_logs) for z in (Z95, 2.5758) for sign in (-1, 1)
    ]
    return Change(a.value, b.value, change, bounds[0], bounds[1], "counts", bounds[2], bounds[3])
