"""Student's t, for every room that words an interval: no library for one function that start-up would pay for."""

from __future__ import annotations

import math

# Exact at 1, 2 and 3 degrees of freedom, where the series below is poor.
_EXACT: dict[float, tuple[float, float, float]] = {
    0.90: (3.07768, 1.88562, 1.63774),
    0.95: (6.31375, 2.91999, 2.35336),
    0.975: (12.7062, 4.30265, 3.18245),
    0.995: (63.6567, 9.92484, 5.84091),
}
# statistics.NormalDist().inv_cdf of them.
_NORMAL: dict[float, float] = {
    0.90: 1.2815515655446008,
    0.95: 1.6448536269514715,
    0.975: 1.9599639845400536,
    0.995: 2.5758293035489,
}


def student_quantile(p: float, df: float) -> float | None:
    """Quantile ``p`` (one of 0.90, 0.95, 0.975, 0.995) of Student's t; None below one degree of freedom.

    From three degrees on the Cornish-Fisher series in 1/df (Abramowitz and Stegun 26.7.5), right to 0.2 % at 0.975;
    below, log-linear in 1/df between the exact values, which errs to the wide side.
    """
    if df < 1:
        return None
    if df < 3:
        exact = _EXACT[p]
        left = math.floor(df)
        share = (1 / left - 1 / df) / (1 / left - 1 / (left + 1))
        a, b = math.log(exact[left - 1]), math.log(exact[left])
        return math.exp(a + (b - a) * share)
    z = _NORMAL[p]
    if math.isinf(df):
        return z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / df ** (i + 1) for i, term in enumerate(terms))
