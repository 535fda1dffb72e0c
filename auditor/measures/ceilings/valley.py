"""The valley in the gap histogram: gaps without prefill on its left, stretched ones on its right."""

from __future__ import annotations

import math
from dataclasses import dataclass

from auditor.measures.histogram import iter_buckets
from auditor.model import Histogram

FACTOR = 3.0
"""A valley is this much emptier than the peaks on both sides (density per logarithm of length)."""
BELOW, ABOVE = 0.35, 0.2
"""How far from the expected share of plain gaps a valley may lie."""
LEAST_WIDTH = 1.3
"""Buckets narrower than this ratio of their edges are put together before a valley is looked for."""
FIRST_WIDTH = 2.5
"""The first bucket begins at 0; its width is taken as this ratio, like its neighbours'."""


@dataclass(frozen=True)
class Clean:
    """Share of gaps whose step held no prompt tokens."""

    share: float
    """v"""
    expected: float
    """u: what chunks and steps make likely."""
    worst: float
    """u_low: if every chunk had a step of its own."""
    found: bool
    """A valley shows the share, rather than the count of chunks."""


def chunk_shares(
    chunks: float, steps: float | None, *, mean_gap: float, gaps: float, wall: float | None
) -> tuple[float, float]:
    """(u, u_low): likely and least share of gaps that no chunk can have stretched.

    ``chunks`` / ``steps`` chunks fall on a step; long steps hold more gaps than short ones (crowd = mean gap x
    steps / wall). Where steps are not counted they are taken as wall / mean gap, where the wall is unknown
    as not crowded.
    """
    if not steps:
        steps = wall / mean_gap if wall and mean_gap > 0 else gaps
    crowd = max(1.0, mean_gap * steps / wall) if wall else 1.0
    rate = chunks / steps if steps > 0 else math.inf
    likely = 1 - min(1.0, (1 - math.exp(-rate)) * crowd)
    return likely, 1 - min(1.0, crowd * rate)


def find_valley(h: Histogram, expected: float) -> float | None:
    """Share of gaps below the emptiest bucket near ``expected``, where it is a valley; else None."""
    rows = _densities(coarsened(h))
    total = sum(h.counts)
    if len(rows) < 3 or total <= 0:
        return None
    below, best = 0.0, None
    shares = []
    for _, count in rows:
        shares.append((below / total, (below + count) / total))
        below += count
    for i, (density, _) in enumerate(rows):
        low, _ = shares[i]
        if not 0 < i < len(rows) - 1 or not expected - BELOW <= low <= expected + ABOVE:
            continue
        if best is None or density < rows[best][0]:
            best = i
    if best is None:
        return None
    left = max(d for d, _ in rows[:best])
    right = max(d for d, _ in rows[best + 1 :])
    if rows[best][0] * FACTOR > min(left, right):
        return None
    return shares[best][0]


def coarsened(h: Histogram) -> Histogram:
    """The histogram with buckets put together until each is ``LEAST_WIDTH`` wide: fewer holes by chance."""
    edges: list[float] = []
    counts: list[float] = []
    low, held = 0.0, 0.0
    for edge, count in zip(h.edges, h.counts, strict=True):
        held += count
        if math.isinf(edge) or edge >= max(low, h.edges[0] / FIRST_WIDTH) * LEAST_WIDTH:
            edges.append(edge)
            counts.append(held)
            low, held = edge, 0.0
    return Histogram(tuple(edges), tuple(counts), h.sum, h.count)


def _densities(h: Histogram) -> list[tuple[float, float]]:
    """(density per log width, count) from the first to the last filled bucket."""
    out, low = [], 0.0
    for edge, count in zip(h.edges, h.counts, strict=True):
        high = low * FIRST_WIDTH if math.isinf(edge) else edge
        bottom = low if low > 0 else high / FIRST_WIDTH
        out.append((count / math.log(high / bottom) if high > bottom else 0.0, count))
        low = edge
    filled = [i for i, (_, count) in enumerate(out) if count > 0]
    return out[filled[0] : filled[-1] + 1] if filled else []


def lower_mean(h: Histogram, means: list[float], share: float) -> float:
    """Mean of the smallest ``share`` of the gaps, with one mean per filled bucket."""
    wanted = share * sum(h.counts)
    rest, total = wanted, 0.0
    for bucket, mean in zip(iter_buckets(h), means, strict=True):
        taken = min(rest, bucket.count)
        total += taken * mean
        rest -= taken
        if rest <= 0:
            break
    return total / wanted if wanted > 0 else means[0]


def mean_limits(h: Histogram, share: float) -> tuple[float, float]:
    """Least and most that the mean of the smallest ``share`` of the gaps can be, by buckets and exact sum."""
    wanted = share * sum(h.counts)
    rest = wanted
    low = high = others_low = others_high = 0.0
    for bucket in iter_buckets(h):
        taken = min(rest, bucket.count)
        rest -= taken
        others = bucket.count - taken
        low += taken * bucket.low
        high += taken * bucket.high if taken > 0 else 0.0
        others_low += others * bucket.low
        others_high += others * bucket.high if others > 0 else 0.0
    least = low if math.isinf(others_high) else max(low, h.sum - others_high)
    most = min(high, h.sum - others_low, wanted * h.sum / h.count)
    return min(least, most) / wanted, most / wanted


def bucket_means(h: Histogram) -> list[float]:
    """Means of the filled buckets: one geometric position in all of them, solved so that they give the exact sum."""
    buckets = list(iter_buckets(h))

    def at(position: float) -> list[float]:
        return [_at(b.low, b.high, position) for b in buckets]

    def total(position: float) -> float:
        return sum(b.count * m for b, m in zip(buckets, at(position), strict=True))

    low, high = 0.0, 1.0
    if total(0.0) >= h.sum:
        return _scaled(at(0.0), buckets[0].low, h.sum / total(0.0))
    if total(1.0) <= h.sum:
        means = at(1.0)
        means[-1] += (h.sum - total(1.0)) / buckets[-1].count
        return means
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) < h.sum else (low, middle)
    return at((low + high) / 2)


def _at(low: float, high: float, position: float) -> float:
    if math.isinf(high):
        high = low * FIRST_WIDTH
    if low <= 0:
        low = high / (FIRST_WIDTH * FIRST_WIDTH * FIRST_WIDTH)
    return float(low * (high / low) ** position)


def _scaled(means: list[float], first_low: float, factor: float) -> list[float]:
    """Only the first bucket can hold less than its lowest assumed mean; then all is scaled."""
    return [m * factor for m in means] if first_low <= 0 else means
