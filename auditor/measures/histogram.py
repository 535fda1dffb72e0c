"""Arithmetic on classic histograms: limits of quantiles, shares, and what buckets allow of sums of squares.

Every function takes :class:`auditor.model.Histogram`: ``counts[i]`` observations in (edges[i-1], edges[i]],
the first bucket starting at 0 (all our quantities are lengths of time or numbers of tokens).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from typing import NamedTuple

from auditor.model import Histogram

AGREE = 0.005
"""Two series of one fact that differ by more than this share contradict each other."""


@dataclass(frozen=True, slots=True)
class Bucket:
    low: float
    high: float
    count: float


class Quantile(NamedTuple):
    """A quantile as a histogram knows it. ``value`` is interpolated, None where that would be invented."""

    value: float | None
    low: float
    high: float | None


def iter_buckets(h: Histogram) -> Iterator[Bucket]:
    """The filled buckets, lowest first."""
    low = 0.0
    for edge, count in zip(h.edges, h.counts, strict=True):
        if count > 0:
            yield Bucket(low, edge, count)
        low = edge


def filled_buckets(h: Histogram) -> list[Bucket]:
    return list(iter_buckets(h))


def quantile(h: Histogram, q: float) -> Quantile | None:
    """The bucket in which quantile ``q`` lies, and a linear interpolation inside it.

    No interpolation in the first bucket, whose lower edge is no observation, nor in the open one.
    None when nothing was observed.
    """
    total = sum(h.counts)
    if total <= 0:
        return None
    rank, below, low = q * total, 0.0, 0.0
    for i, (edge, count) in enumerate(zip(h.edges, h.counts, strict=True)):
        if count > 0 and below + count >= rank:
            if math.isinf(edge):
                return Quantile(None, low, None)
            inside = min(1.0, max(0.0, (rank - below) / count))
            return Quantile(None if i == 0 else low + (edge - low) * inside, low, edge)
        below += count
        low = edge
    return None


def quantile_interval(h: Histogram, q: float) -> tuple[float, float | None] | None:
    """Limits of quantile ``q`` of the distribution behind the observations, at least 95 %, widened to bucket edges.

    By order statistics (Hahn and Meeker, Statistical Intervals, section 5.2): the observations of rank
    n q -+ 1.96 sqrt(n q (1 - q)), rounded outwards, and one more. No upper limit where that rank is above n: nobody
    has seen the tail. None when nothing was observed.
    """
    total = sum(h.counts)
    if total <= 0:
        return None
    half = 1.959964 * math.sqrt(total * q * (1 - q))
    first, last = math.floor(total * q - half), math.ceil(total * q + half) + 1
    below, low, high = 0.0, 0.0, None
    for bucket in iter_buckets(h):
        if first >= 1 and below < first:
            low = bucket.low
        below += bucket.count
        if below >= last:
            high = None if math.isinf(bucket.high) else bucket.high
            break
    return low, high


def is_blind(h: Histogram) -> bool:
    """All mass lies in one bucket, so every quantile is that bucket."""
    return len(filled_buckets(h)) == 1


def count_at_most(h: Histogram, limit: float) -> tuple[float, float]:
    """Least and most observations that are at most ``limit``: equal at an edge."""
    low = high = 0.0
    for bucket in iter_buckets(h):
        if bucket.high <= limit:
            low += bucket.count
            high += bucket.count
        elif bucket.low < limit:
            high += bucket.count
    return low, high


def sum_limits(h: Histogram) -> tuple[float, float | None]:
    """Least and most the sum can be by the buckets alone; the most is None with an open bucket filled."""
    low = high = 0.0
    for bucket in iter_buckets(h):
        low += bucket.low * bucket.count
        high += bucket.high * bucket.count
    return low, None if math.isinf(high) else high


def upper_squares(h: Histogram) -> float:
    """Largest sum of squares that the buckets and the exact sum allow.

    Squares are convex, so the excess over the lower edges goes, whole observations at a time, to the upper
    edges of the buckets where a unit of it adds most (largest low + high); with an open bucket filled, all of
    it goes to one observation there.
    """
    buckets = filled_buckets(h)
    squares = sum(b.count * b.low**2 for b in buckets)
    excess = max(0.0, h.sum - sum(b.count * b.low for b in buckets))
    if buckets and math.isinf(buckets[-1].high):
        low = buckets[-1].low
        return squares + (low + excess) ** 2 - low**2
    for b in sorted(buckets, key=lambda b: b.low + b.high, reverse=True):
        part = min(excess, b.count * (b.high - b.low))
        squares += part * (b.low + b.high)
        excess -= part
    return squares


def middle_squares(h: Histogram) -> float:
    """Likely sum of squares: one position in all buckets, solved for the exact sum.

    With position u in buckets of width w the spread inside is taken as u (1 - u) / 3 w^2, which is that of a
    uniform spread at u = 1/2 and none at the edges. The open bucket, which has no width, gets what the others
    leave, on one observation.
    """
    buckets = filled_buckets(h)
    closed = [b for b in buckets if not math.isinf(b.high)]
    open_bucket = next((b for b in buckets if math.isinf(b.high)), None)
    floor = sum(b.count * b.low for b in buckets)
    width = sum(b.count * (b.high - b.low) for b in closed)
    excess = max(0.0, h.sum - floor)
    position = min(1.0, excess / width) if width > 0 else 0.0
    if open_bucket is not None:
        position = min(0.5, position)
    squares = 0.0
    for b in closed:
        w = b.high - b.low
        squares += b.count * ((b.low + position * w) ** 2 + position * (1 - position) / 3 * w * w)
    if open_bucket is not None:
        rest = excess - position * width
        squares += (open_bucket.count - 1) * open_bucket.low**2 + (open_bucket.low + rest) ** 2
    return squares


def merge(parts: list[Histogram]) -> Histogram:
    """Add histograms. Different layouts: count and sum are added, the buckets are given up, with the reason."""
    total_sum = math.fsum(h.sum for h in parts)
    total = math.fsum(h.count for h in parts)
    rebuilt = any(h.rebuilt_sum for h in parts)
    flaw = next((h.flaw for h in parts if h.flaw), None)
    # A part without observations adds nothing, so its layout spoils nothing.
    layouts = {h.edges for h in parts if h.count > 0} or {h.edges for h in parts if h.edges}
    if flaw is None and len(layouts) > 1:
        flaw = (
            f"{len(parts)} parts with {len(layouts)} different bucket layouts: counts and sums are added, "
            "buckets cannot be"
        )
    if flaw is not None or not layouts:
        return Histogram((), (), total_sum, total, flaw, rebuilt)
    edges = next(iter(layouts))
    counts = [0.0] * len(edges)
    for h in parts:
        if h.edges == edges:
            counts = [a + b for a, b in zip(counts, h.counts, strict=True)]
    return Histogram(edges, tuple(counts), total_sum, total, None, rebuilt)


def make_histogram(
    cumulative: Mapping[float, float],
    total: float,
    count: float | None,
    *,
    flaw: str | None = None,
    rebuilt_sum: bool = False,
) -> Histogram:
    """A histogram from cumulative counts by edge; says what is wrong with it instead of guessing."""
    edges = tuple(sorted(cumulative))
    return check_histogram(edges, [cumulative[e] for e in edges], total, count, flaw=flaw, rebuilt_sum=rebuilt_sum)


def check_histogram(
    edges: tuple[float, ...],
    cumulative: Sequence[float],
    total: float,
    count: float | None,
    *,
    flaw: str | None = None,
    rebuilt_sum: bool = False,
) -> Histogram:
    """:func:`make_histogram` for edges that are sorted already."""
    if not edges:
        return Histogram((), (), total, count or 0.0, flaw or "the page has no buckets for it", rebuilt_sum)
    if edges[0] < 0:
        flaw = flaw or "it has a bucket below zero"
    if not math.isinf(edges[-1]):
        flaw = flaw or "its last bucket (le=+Inf) is missing"
    top = cumulative[-1]
    n = count if count is not None else top
    counts = (cumulative[0], *map(sub, cumulative[1:], cumulative))
    least = min(counts)
    # Sums of doubles may fall short by a rounding; more than that is a contradiction.
    if least < -1e-6 * max(1.0, top):
        flaw = flaw or "a bucket holds fewer observations than the one below it"
    if abs(top - n) > max(1.0, AGREE * n):
        flaw = flaw or f"its buckets hold {top:g} observations, its count says {n:g}"
    if flaw:
        return Histogram((), (), total, n, flaw, rebuilt_sum)
    return Histogram(edges, counts if least >= 0 else tuple(max(0.0, c) for c in counts), total, n, None, rebuilt_sum)
