"""How much worse than a baseline, and how much of that is noise.

Two kinds of noise. ``repeats``: the spread of at least three runs of one thing; a change counts where it is beyond
three standard deviations of a single run. ``counts``: no repeats, but both windows have an interval of their own; the
change gets an interval by combining them on the logarithmic scale (method of variance estimates recovery, Zou and
Donner, Statistics in Medicine 27, 2008). With neither the noise is unknown: a change is shown without a verdict.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

SIGMAS = 3.0
FEWEST_REPEATS = 3

Noise = Literal["repeats", "counts", "unknown"]


@dataclass(frozen=True)
class Change:
    """By which share of the baseline something got worse (negative: better), and between which limits."""

    worse: float
    low: float | None
    high: float | None
    noise: Noise


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation of a single run as a share of the mean; None of too few runs, or around zero."""
    if len(values) < FEWEST_REPEATS or statistics.fmean(values) <= 0:
        return None
    return statistics.stdev(values) / statistics.fmean(values)


def visible_change(spread_of_one: float) -> float:
    """The smallest change that one run can show: three standard deviations, as a share of the mean."""
    return SIGMAS * spread_of_one


def runs_needed(spread_of_one: float, change: float) -> int | None:
    """Runs whose mean shows a change of this share: (3 s / change)^2, rounded up. None of no change."""
    if change == 0:
        return None
    return max(1, math.ceil((SIGMAS * spread_of_one / abs(change)) ** 2))


def change_against(
    current: float,
    baseline: float,
    *,
    better: str,
    current_limits: tuple[float | None, float | None] = (None, None),
    baseline_limits: tuple[float | None, float | None] = (None, None),
    spread_of_one: float | None = None,
) -> Change | None:
    """The change against a baseline above zero; None where a share of the baseline means nothing."""
    if baseline <= 0 or current < 0:
        return None
    sign = 1.0 if better == "lower" else -1.0
    worse = sign * (current / baseline - 1)
    if spread_of_one is not None:
        half = visible_change(spread_of_one)
        return Change(worse, worse - half, worse + half, "repeats")
    ratio = _ratio_limits(current, baseline, current_limits, baseline_limits)
    if ratio is None:
        return Change(worse, None, None, "unknown")
    ends = sorted(sign * (r - 1) for r in ratio)
    return Change(worse, ends[0], ends[1], "counts")


def _ratio_limits(
    current: float,
    baseline: float,
    current_limits: tuple[float | None, float | None],
    baseline_limits: tuple[float | None, float | None],
) -> tuple[float, float] | None:
    """95 % limits of current / baseline from the limits of both."""
    (a, b), (c, d) = current_limits, baseline_limits
    if a is None or b is None or c is None or d is None:
        return None
    if a <= 0 or c <= 0 or current <= 0:
        # No logarithm of zero: the extremes, which are wider.
        return (max(a, 0.0) / d, math.inf if c <= 0 else b / c) if d > 0 else None
    centre = math.log(current / baseline)
    down = math.hypot(math.log(current / a), math.log(d / baseline))
    up = math.hypot(math.log(b / current), math.log(baseline / c))
    return math.exp(centre - down), math.exp(centre + up)
