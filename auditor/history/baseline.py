"""How a reading used to be: median and MAD of comparable nights, and a band for the next one.

Comparable: the same kind of window, of about the same length, with about the same traffic. The band is wide enough that
a quiet night falls outside of it about once in five hundred (normal noise; measured rates: docs/history.md).

Positive quantities are compared as logarithms, shares as log-odds, counts as roots: queues and tails are lopsided, and
a band laid on plain values would cry wolf on their long side. The band never gets narrower than the 95 % interval of
tonight's own number, nor than a floor: nights that happened to agree prove no precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from auditor.history.series import Point

MIN_NIGHTS = 7
MOST_NIGHTS = 28
"""The latest comparable nights that are used."""
BAND = 1.5
"""Traffic and window length may differ by this factor."""
MAD_TO_SIGMA = 1.4826
"""1 / Phi^-1(3/4): the MAD of normal noise times this is its standard deviation."""
Z95 = 1.959964
KNOWN_WIDTH = 3.09
"""Quantile .999 of the normal distribution; a median of n nights adds pi / (2 n) to the variance."""
FLOOR = 0.01
"""Smallest relative spread that is believed."""

# Half-width in robust standard deviations that one normal night in 500 exceeds, for a median and MAD of n nights:
# quantile .998 of |x - median| / (1.4826 MAD), 400,000 draws each.
_WIDTHS = ((5, 34.0), (6, 14.4), (7, 13.9), (8, 9.44), (9, 9.28), (10, 7.37), (12, 6.34), (14, 5.75), (16, 5.31),
           (18, 4.93), (20, 4.75), (24, 4.40), (28, 4.18), (40, 3.79))  # fmt: skip
_COUNTED = frozenset({"requests", "preemptions", "steps", "sequences"})
_COUNTED_PER_REQUEST = frozenset({"preemptions per request"})


@dataclass(frozen=True)
class Baseline:
    """What a quiet night looks like."""

    median: float
    low: float
    high: float
    nights: int
    """Comparable nights behind it."""
    deviations: float
    """How far tonight is outside, in widths of the band: 1 is its edge. 0 without a value tonight."""


@dataclass(frozen=True)
class NoBaseline:
    """There is none, and why."""

    reason: str
    nights: int


def comparable(tonight: Point, earlier: Sequence[Point | None], *, any_traffic: bool = False) -> list[Point]:
    """The latest nights that tonight can be held against, oldest first."""
    states = ("measured", "partial") if tonight.state == "partial" else ("measured",)
    out: list[Point] = []
    for p in reversed(earlier):
        if (
            p is not None
            and p.value is not None
            and p.state in states
            and p.kind == tonight.kind
            and _alike(p.seconds, tonight.seconds)
            and (any_traffic or _alike(p.traffic, tonight.traffic))
        ):
            out.append(p)
            if len(out) == MOST_NIGHTS:
                break
    return out[::-1]


def _alike(a: float | None, b: float | None) -> bool:
    if a is None or b is None or a <= 0 or b <= 0:
        return a == b
    return 1 / BAND <= a / b <= BAND


def make_baseline(
    tonight: Point,
    earlier: Sequence[Point | None],
    *,
    unit: str,
    min_nights: int = MIN_NIGHTS,
    any_traffic: bool = False,
) -> Baseline | NoBaseline:
    """Baseline of ``earlier`` nights (oldest first) for a night like ``tonight``."""
    nights = comparable(tonight, earlier, any_traffic=any_traffic)
    if len(nights) < min_nights:
        with_value = sum(p is not None and p.value is not None for p in earlier)
        other = f" ({with_value} nights have a value; the others had another kind of window or other traffic)"
        return NoBaseline(
            f"not enough history: {len(nights)} of {min_nights} comparable nights"
            + (other if with_value > len(nights) else ""),
            len(nights),
        )
    values = [p.value for p in nights if p.value is not None]
    scale = _pick_scale(values, unit, tonight.count)
    laid = [scale.there(p.value, p.count) for p in nights if p.value is not None]
    centre = median(laid)
    spread = MAD_TO_SIGMA * median(abs(x - centre) for x in laid)
    middle = scale.back(centre)
    known = max(_sampling(tonight, scale), median(_sampling(p, scale) for p in nights))
    known = max(known, _floor(scale, middle, tonight.count))
    # What is known of a single night needs no allowance for a MAD out of few nights.
    half = max(_width(len(nights)) * spread, KNOWN_WIDTH * math.sqrt(1 + math.pi / 2 / len(nights)) * known)
    deviations = 0.0
    if tonight.value is not None:
        deviations = abs(scale.there(tonight.value, tonight.count) - centre) / half
    return Baseline(
        # The median itself, not its way there and back: shrunken shares would come back a little off.
        median=median(values),
        low=max(scale.back(centre - half), 0.0 if min(values) >= 0 else -math.inf),
        high=scale.back(centre + half),
        nights=len(nights),
        deviations=deviations,
    )


@dataclass(frozen=True)
class _Scale:
    kind: str
    per: float = 1.0
    """Events that a value of 1 stands for, on the scale of roots."""

    def there(self, value: float, count: float | None) -> float:
        if self.kind == "log":
            return math.log(max(value, 1e-300))
        if self.kind == "odds":
            n = max(1.0, min(count if count is not None else 1e4, 1e4))
            kept = (min(1.0, max(0.0, value)) * n + 0.5) / (n + 1)
            return math.log(kept / (1 - kept))
        if self.kind == "root":
            # Anscombe's root: a Poisson count has a standard deviation of 1 on it, whatever its mean.
            return 2 * math.sqrt(max(0.0, value * self.per) + 0.375)
        return value

    def back(self, x: float) -> float:
        if self.kind == "root":
            return max(0.0, (max(0.0, x) / 2) ** 2 - 0.375) / self.per
        if self.kind == "log":
            return math.exp(min(x, 690.0))
        if self.kind == "odds":
            return 1 / (1 + math.exp(-max(-690.0, min(x, 690.0))))
        return x


def _pick_scale(values: Sequence[float], unit: str, count: float | None) -> _Scale:
    if unit == "ratio" and all(0 <= v <= 1 for v in values):
        return _Scale("odds")
    if unit in _COUNTED and all(v >= 0 for v in values):
        return _Scale("root")
    if unit in _COUNTED_PER_REQUEST and count:
        # Nights are comparable, so tonight's requests stand for theirs.
        return _Scale("root", per=count)
    return _Scale("log" if all(v > 0 for v in values) else "plain")


def _sampling(p: Point, scale: _Scale) -> float:
    """Standard deviation of a night's own number, from its 95 % interval."""
    if p.low is None or p.high is None or p.value is None:
        return 0.0
    if scale.kind == "log" and p.low <= 0:
        return (scale.there(p.high, p.count) - scale.there(p.value, p.count)) / Z95
    return max(0.0, scale.there(p.high, p.count) - scale.there(p.low, p.count)) / (2 * Z95)


def _floor(scale: _Scale, middle: float, count: float | None) -> float:
    """Least spread that is believed: one percent, or that of a count of events."""
    if scale.kind == "odds":
        n = max(1.0, min(count if count is not None else 1e4, 1e4))
        kept = (middle * n + 0.5) / (n + 1)
        return max(FLOOR, math.sqrt(1 / (n * kept * (1 - kept))) if count is not None else 0.02)
    if scale.kind == "root":
        return max(1.0, FLOOR * math.sqrt(middle * scale.per))
    if scale.kind == "log":
        return FLOOR
    return max(FLOOR * abs(middle), 1e-3)


def _width(nights: int) -> float:
    """Half-width of the band in robust standard deviations; linear in 1/n between the table's rows."""
    if nights <= _WIDTHS[0][0]:
        return _WIDTHS[0][1]
    for (n0, w0), (n1, w1) in pairwise(_WIDTHS):
        if nights <= n1:
            share = (1 / n0 - 1 / nights) / (1 / n0 - 1 / n1)
            return w0 + (w1 - w0) * share
    return _WIDTHS[-1][1]
