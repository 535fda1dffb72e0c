"""Intervals against textbook values, and their coverage against repeated samples with a known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from auditor.measures.histogram import count_at_most, merge, middle_squares, quantile, sum_limits, upper_squares
from auditor.measures.intervals import mean_interval, share_of_sums, student_975, token_share, wilson
from auditor.model import Histogram

EDGES = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680, math.inf)


def make(values: np.ndarray, edges: tuple[float, ...] = EDGES) -> Histogram:
    counts = np.histogram(values, bins=[-1e-9, *edges[:-1], 1e12])[0]
    return Histogram(edges, tuple(float(c) for c in counts), float(values.sum()), float(len(values)))


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe 1998, table I, method 3 (score without continuity correction).
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson(successes: float, n: float, low: float, high: float) -> None:
    found = wilson(successes, n)
    assert found is not None
    assert found == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@pytest.mark.parametrize(
    ("df", "t"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)]
)
def test_student(df: float, t: float) -> None:
    assert student_975(df) == pytest.approx(t, rel=2e-3)


def test_squares_that_buckets_allow() -> None:
    """Four observations in (0, 1], two in (1, 3], sum 5: lower edges give 2, an excess of 3 is to be placed."""
    h = Histogram((1.0, 3.0, math.inf), (4.0, 2.0, 0.0), 5.0, 6.0)
    # Most: the excess goes to the upper bucket first (2 x 2 >= 3), each unit adding low + high = 4.
    assert upper_squares(h) == pytest.approx(2 * 1 + 3 * 4)
    # One position u in both: 4u + 2(1 + 2u) = 5 -> u = 3/8.
    u = 3 / 8
    spread = u * (1 - u) / 3
    assert middle_squares(h) == pytest.approx(4 * (u**2 + spread) + 2 * ((1 + 2 * u) ** 2 + spread * 4))
    assert sum_limits(h) == (2, 10)


def test_quantiles_stand_with_their_bucket() -> None:
    h = Histogram((1.0, 3.0, math.inf), (4.0, 4.0, 2.0), 30.0, 10.0)
    assert quantile(h, 0.2) == (None, 0.0, 1.0)
    assert quantile(h, 0.6) == (2.0, 1.0, 3.0)
    assert quantile(h, 0.9) == (None, 3.0, None)
    assert count_at_most(h, 3) == (8, 8)
    assert count_at_most(h, 2) == (4, 8)
    assert count_at_most(h, 100) == (8, 10)


def test_merging_an_idle_layout() -> None:
    one, idle = Histogram((1.0, math.inf), (2.0, 1.0), 4.0, 3.0), Histogram((2.0, math.inf), (0.0, 0.0), 0.0, 0.0)
    assert merge([one, idle]) == merge([idle, one]) == one


def test_share_of_sums_by_hand() -> None:
    """All 100 requests alike: x = 1, y = 3 with narrow buckets, so hardly any spread is possible."""
    edges = (0.99, 1.01, 2.99, 3.01, 3.99, 4.01, math.inf)
    x = make(np.full(100, 1.0), edges)
    y = make(np.full(100, 3.0), edges)
    whole = make(np.full(100, 4.0), edges)
    found = share_of_sums(x, y, whole)
    assert found is not None
    low, high = found
    assert low < 0.25 < high
    assert high - low < 0.004


def coverage(draw: object, truth: float, n: int, repeats: int = 300) -> float:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(repeats):
        found = draw(rng, n)  # type: ignore[operator]
        hits += found is not None and found[0] <= truth <= found[1]
    return hits / repeats


@pytest.mark.parametrize("n", [30, 100, 400])
def test_prefill_share_covers_the_truth(n: int) -> None:
    """Prompts and answers of independent lengths: prefill share of the population is 0.25."""

    def draw(rng: np.random.Generator, n: int) -> tuple[float, float] | None:
        x = rng.lognormal(0, 0.8, n)
        y = 3 * rng.lognormal(0, 0.8, n)
        return share_of_sums(make(x), make(y), make(x + y))

    assert coverage(draw, 0.25, n) >= 0.93


@pytest.mark.parametrize("n", [30, 100])
def test_mean_covers_the_truth_of_long_tails(n: int) -> None:
    def draw(rng: np.random.Generator, n: int) -> tuple[float, float] | None:
        return mean_interval(make(rng.lognormal(0, 1.2, n)))

    assert coverage(draw, math.exp(0.72), n) >= 0.93


def test_mean_covers_where_few_queued() -> None:
    def draw(rng: np.random.Generator, n: int) -> tuple[float, float] | None:
        return mean_interval(make(np.where(rng.random(n) < 0.05, rng.exponential(5, n), 0.001)))

    assert coverage(draw, 0.05 * 5 + 0.95 * 0.001, 100) >= 0.93


def test_token_share_is_worth_fewer_requests_than_tokens() -> None:
    """One prompt holds half of all tokens: the share is worth about four requests, not a hundred."""
    edges = (10.0, 20.0, 1000.0, 2000.0, math.inf)
    lengths = Histogram(edges, (0.0, 99.0, 0.0, 1.0, 0.0), 99 * 15 + 1485.0, 100.0)
    found = token_share(0.5, lengths)
    assert found is not None
    wide = wilson(2, 4)
    assert wide is not None
    assert found[1] - found[0] > 0.8 * (wide[1] - wide[0])
