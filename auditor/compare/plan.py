"""Before the test is run: how many repeats would show a change of x %."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

from auditor.quantiles import student_quantile

SIGMAS = 3.0
MOST_RUNS = 1000


def three_sigma_threshold(variation: float) -> float:
    """The relative change that one run shows above noise: three times the coefficient of variation."""
    return SIGMAS * variation


def runs_by_three_sigma(variation: float, change: float) -> int:
    """Runs until three standard errors are below the change: ceil((3 variation / change)^2), at least 1."""
    return max(1, math.ceil((SIGMAS * variation / abs(change)) ** 2 - 1e-12))


def runs_needed(variation: float, change: float, repeats: int | None = None) -> int | None:
    """Repeats in each arm with which a 95 % interval leaves out 0 in nine tests of ten.

    n >= 2 (t_.975 + t_.90)^2 (variation / change)^2 with t at 2 n - 2 degrees of freedom, solved by counting up; None
    above a thousand. ``repeats`` is how many runs the noise was measured on: few give it badly, so its upper 80 %
    limit is planned with, not its estimate.
    """
    if variation == 0:
        return 2
    ratio = variation / abs(change) * _doubt(repeats)
    for n in range(2, MOST_RUNS + 1):
        both, one = student_quantile(0.975, 2 * n - 2), student_quantile(0.90, 2 * n - 2)
        if both is not None and one is not None and n >= 2 * (both + one) ** 2 * ratio**2:
            return n
    return None


def _doubt(repeats: int | None) -> float:
    """Upper 80 % limit of a standard deviation over its estimate: sqrt(k / chi2_.20(k)), Wilson-Hilferty."""
    if repeats is None or repeats < 2:
        return 1.0
    k = repeats - 1
    chi2 = k * max(0.05, 1 - 2 / (9 * k) + NormalDist().inv_cdf(0.20) * math.sqrt(2 / (9 * k))) ** 3
    return math.sqrt(k / chi2)


def variation_of(values: Sequence[float]) -> float | None:
    """Coefficient of variation of repeats; None with fewer than two, around 0, or without any spread."""
    if _unplannable(values) is not None:
        return None
    return statistics.stdev(values) / abs(statistics.fmean(values))


def _unplannable(values: Sequence[float]) -> str | None:
    if len(values) < 2:
        return "noise unknown: give at least two windows"
    if statistics.fmean(values) == 0:
        return "it is 0: a change in per cent means nothing"
    if max(values) == min(values):
        return f"all {len(values)} windows agree to the last digit: no measure of noise"
    return None


def plan_document(values: Mapping[str, Sequence[float]], change: float) -> list[dict[str, Any]]:
    """For each reading of one arm's repeats: its noise, what one run can show, and the repeats needed."""
    rows = []
    for reading, series in values.items():
        variation = variation_of(series)
        rows.append(
            {
                "reading": reading,
                "repeats": len(series),
                "variation": variation,
                "shown_by_one_run": None if variation is None else three_sigma_threshold(variation),
                "runs_by_three_sigma": None if variation is None else runs_by_three_sigma(variation, change),
                "runs_needed": None if variation is None else runs_needed(variation, change, len(series)),
                "change": change,
                "reason": _unplannable(series),
            }
        )
    return rows
