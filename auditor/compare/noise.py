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


NO_SPREAD = 1e-9
"""Repeats whose spread is below this agree by luck, or are one window: that is no measure of noise."""


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


def measure_change(baseline: Sequence[Value], arm: Sequence[Value], *, exact: bool = False) -> Change:
    """The change between two arms.

    Repeats in either arm give the noise (Welch's t where both have some, the repeated arm's spread where one has);
    single windows, and repeats that happen to agree to the last digit, give the noise of their counts; without an
    interval the noise is unknown.

    Args:
        exact: a setting, whose equal values are no luck and have no noise.
    """
    a, b = [v.value for v in baseline], [v.value for v in arm]
    logs = min(*a, *b) > 0
    mean_a, mean_b = _middle(a, logs=logs), _middle(b, logs=logs)
    if len(a) > 1 or len(b) > 1:
        return _from_repeats(baseline, arm, mean_a, mean_b, logs=logs, exact=exact)
    return _from_counts(baseline, arm, mean_a, mean_b, logs=logs)


def _middle(values: Sequence[float], *, logs: bool) -> float:
    """The mean on the scale of the comparison, so that the change is that of the two figures shown."""
    return statistics.geometric_mean(values) if logs and len(values) > 1 else statistics.fmean(values)


def _relative(mean_a: float, mean_b: float) -> float | None:
    if mean_a == 0:
        return 0.0 if mean_b == 0 else None
    change = mean_b / mean_a - 1
    return change if math.isfinite(change) else None


def _from_repeats(
    baseline: Sequence[Value], arm: Sequence[Value], mean_a: float, mean_b: float, *, logs: bool, exact: bool
) -> Change:
    a, b = [v.value for v in baseline], [v.value for v in arm]
    x, y = ([math.log(v) for v in a], [math.log(v) for v in b]) if logs else (a, b)
    error, df = _standard_error(x, y)
    difference = statistics.fmean(y) - statistics.fmean(x)
    if error <= NO_SPREAD * max(1.0, abs(difference)) and not exact and mean_a != mean_b:
        return _from_counts(baseline, arm, mean_a, mean_b, logs=logs)
    least = _least_change((*baseline, *arm))
    bounds: list[float | None] = []
    for p in (0.975, 0.995):
        t = student_quantile(p, df)
        for sign in (-1, 1):
            bounds.append(
                None if t is None else _as_change(difference + sign * t * error, mean_a, logs=logs, least=least)
            )
    return Change(mean_a, mean_b, _relative(mean_a, mean_b), bounds[0], bounds[1], "repeats", bounds[2], bounds[3])


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


def _as_change(difference: float, mean_a: float, *, logs: bool, least: float | None) -> float | None:
    if logs:
        return math.exp(min(difference, 700.0)) - 1
    if not mean_a:
        return None
    change = difference / mean_a
    return change if least is None else max(least, change)


def _least_change(values: Sequence[Value]) -> float | None:
    """What is never negative cannot fall by more than all of itself."""
    return -1.0 if all(v.value >= 0 for v in values) else None


def _from_counts(
    baseline: Sequence[Value], arm: Sequence[Value], mean_a: float, mean_b: float, *, logs: bool
) -> Change:
    change = _relative(mean_a, mean_b)
    on_logs = logs and all(v.low is not None and v.low > 0 for v in (*baseline, *arm))
    widths = [_width(values, logs=on_logs) for values in (baseline, arm)]
    if widths[0] is None or widths[1] is None:
        return Change(mean_a, mean_b, change, None, None, "unknown")
    difference = math.log(mean_b / mean_a) if on_logs else mean_b - mean_a
    error = COUNTS_WIDENING * math.hypot(widths[0], widths[1]) / (2 * Z95)
    least = _least_change((*baseline, *arm))
    bounds = [
        _as_change(difference + sign * z * error, mean_a, logs=on_logs, least=least)
        for z in (Z95, 2.5758)
        for sign in (-1, 1)
    ]
    return Change(mean_a, mean_b, change, bounds[0], bounds[1], "counts", bounds[2], bounds[3])


def _width(values: Sequence[Value], *, logs: bool) -> float | None:
    """Width of the 95 % interval of the mean of windows that have one each; None where one has none."""
    widths = []
    for v in values:
        if v.low is None or v.high is None:
            return None
        widths.append(math.log(v.high / v.low) if logs else v.high - v.low)
    return math.hypot(*widths) / len(widths)
