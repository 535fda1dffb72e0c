"""95 % intervals, as if the window's requests were a sample of like requests.

Requests that share engine steps are not independent, which makes these a little too narrow; where that matters is
measured in docs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from auditor.measures.histogram import filled_buckets, middle_squares, upper_squares
from auditor.model import Histogram
from auditor.quantiles import student_quantile

Z95 = 1.959963984540054
FEWEST = 1e-6
T_ONE = 12.7062
"""Student's 97.5 % quantile at one degree of freedom."""

Interval = tuple[float, float]


def wilson(successes: float, n: float) -> Interval | None:
    """Wilson score interval of a share of counts (Wilson 1927); None without observations."""
    if n < FEWEST:
        return None
    p = min(1.0, max(0.0, successes / n))
    z2 = Z95 * Z95
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def student_975(df: float) -> float | None:
    """The 97.5 % quantile of Student's t; None below one degree of freedom."""
    return student_quantile(0.975, df)


def share_of_sums(x: Histogram, y: Histogram, whole: Histogram | None) -> Interval | None:
    """Interval of s = sum(X) / sum(I), I = X + Y per request, from the three histograms.

    Half-width h = t sqrt(n) sd(e) / sum(I) with e = X - s I. What the page does not tell is how X and Y go
    together, so sd(e) is bounded twice and the smaller bound is taken: by (1-s) sd(X) + s sd(Y), and, for
    s <= 1/2, by sqrt((1-2s) E[X^2] + s^2 E[I^2]) (with Y in X's place for s > 1/2). Each is the mean of its
    value at the buckets' largest and at their likely second moments. Laid on the log-odds scale, never
    beyond s +- 1.7 h. Without a histogram of the whole its second moment is bounded by Cauchy-Schwarz. None where
    a layout is missing or fewer than about two requests carry the sum.
    """
    n = x.count
    total = x.sum + y.sum
    if n < 2 or total <= 0 or not (x.edges and y.edges) or (whole is not None and not whole.edges):
        return None
    s = x.sum / total
    if not 0 < s < 1:
        return None
    spread = (_error_sd(x, y, whole, s, upper_squares) + _error_sd(x, y, whole, s, middle_squares)) / 2
    t = student_975(total**2 / max(_whole_squares(x, y, whole, middle_squares), total**2 / n) - 1)
    if t is None:
        return None
    return _log_odds(s, t * math.sqrt(n) * spread / total)


def _whole_squares(x: Histogram, y: Histogram, whole: Histogram | None, squares: Callable[[Histogram], float]) -> float:
    if whole is not None:
        return squares(whole)
    return (math.sqrt(squares(x)) + math.sqrt(squares(y))) ** 2


def _error_sd(
    x: Histogram, y: Histogram, whole: Histogram | None, s: float, squares: Callable[[Histogram], float]
) -> float:
    n = x.count

    def sd(h: Histogram) -> float:
        return math.sqrt(max(0.0, squares(h) / n - (h.sum / n) ** 2))

    apart = (1 - s) * sd(x) + s * sd(y)
    if s > 0.5:
        x, s = y, 1 - s
    together = math.sqrt(max(0.0, (1 - 2 * s) * squares(x) / n + s * s * _whole_squares(x, y, whole, squares) / n))
    return min(apart, together)


def _log_odds(s: float, half: float) -> Interval:
    middle = math.log(s / (1 - s))
    step = min(half / (s * (1 - s)), 700.0)
    low = 1 / (1 + math.exp(-(middle - step))) if middle - step > -700 else 0.0
    high = 1 / (1 + math.exp(-(middle + step))) if middle + step > -700 else 0.0
    return max(low, s - 1.7 * half, 0.0), min(high, s + 1.7 * half, 1.0)


def token_share(share: float, lengths: Histogram) -> Interval | None:
    """Interval of a share of prompt tokens: Wilson with the number of requests the tokens are worth.

    Tokens of one prompt go together, so n = (sum)^2 / (largest sum of squares the buckets allow).
    """
    if not lengths.edges or lengths.count < 1 or lengths.sum <= 0:
        return None
    squares = upper_squares(lengths)
    if squares <= 0:
        return None
    n = min(lengths.count, lengths.sum**2 / squares)
    return wilson(share * n, n)


WIDEST = 14.0
"""A factor of a million: below that a lower limit says nothing."""


def mean_interval(h: Histogram, requests: float | None = None) -> Interval | None:
    """Interval of a mean from its histogram: mean x exp(+- t sd / (sqrt(n) mean)), symmetric on the log scale.

    Request times have long tails, which a symmetric interval with n - 1 degrees misses on the upper side (it covered
    .70 to .90 of lognormal times with a log-spread of 1.2 to 1.8). So sd is the largest the buckets allow and t is
    Student's at the number of observations that carry the sum, less one: measured coverage .95 and more up to a
    log-spread of 1.2, .88 and more at 1.8, .99 where one request in twenty queued.

    ``requests`` stands for n where one request makes many observations: its gaps lie in steps that it shares with
    others and with each other, so that they are worth no more than the requests behind them.
    """
    n = h.count if requests is None else min(h.count, requests)
    if n < 2 or not h.edges or h.rebuilt_sum:
        return None
    mean, squares = h.sum / h.count, upper_squares(h)
    if mean <= 0 or squares <= 0:
        return None
    t = student_975(min(n, h.sum**2 / squares) - 1) or T_ONE
    half = min(t * math.sqrt(max(0.0, squares / h.count - mean**2) / n) / mean, 700.0)
    filled = filled_buckets(h)
    # Buckets wider than their content would give limits of a hundred digits; a mean stays where observations were.
    least = mean * math.exp(-half) if half < WIDEST else 0.0
    low, high = max(least, filled[0].low), min(mean * math.exp(half), filled[-1].high)
    return min(low, mean), max(high, mean)
