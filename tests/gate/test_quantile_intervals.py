"""Limits of a percentile against the binomial distribution itself: they must hold at least 95 % of the time."""

from __future__ import annotations

import math

import pytest

from auditor.measures.histogram import quantile_interval
from auditor.model import Histogram


def every_observation_its_own_bucket(n: int) -> Histogram:
    """Edges 1 .. n: the bucket of rank r is (r - 1, r]."""
    return Histogram((*map(float, range(1, n + 1)), math.inf), (*[1.0] * n, 0.0), sum=0.0, count=float(n))


def coverage(n: int, q: float, first: int, last: int | None) -> float:
    """P(the true quantile lies between the observations of rank first and last) = P(first <= B < last)."""
    inside = range(first, last if last is not None else n + 1)
    return sum(math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in inside)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [30, 50, 100, 200, 400, 700, 1000])
def test_coverage(n: int, q: float) -> None:
    found = quantile_interval(every_observation_its_own_bucket(n), q)
    assert found is not None
    low, high = found
    # The bucket of rank r is (r - 1, r]: its lower edge is below that observation, its upper edge at it.
    first = int(low) + 1 if low > 0 else 0
    assert coverage(n, q, first, None if high is None else int(high)) >= 0.95


def test_nobody_has_seen_the_tail_of_a_few_requests() -> None:
    found = quantile_interval(every_observation_its_own_bucket(100), 0.99)
    assert found is not None
    assert found[1] is None
    found = quantile_interval(every_observation_its_own_bucket(1000), 0.99)
    assert found is not None
    assert found[1] is not None


def test_nothing_observed_and_the_open_bucket() -> None:
    assert quantile_interval(Histogram((1.0, math.inf), (0.0, 0.0), 0.0, 0.0), 0.5) is None
    assert quantile_interval(Histogram((1.0, math.inf), (50.0, 950.0), 0.0, 1000.0), 0.9) == (1.0, None)
