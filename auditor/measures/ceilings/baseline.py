"""The length of a step without prefill, as far as a gap histogram shows it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from auditor.measures.ceilings.evidence import Evidence
from auditor.measures.ceilings.valley import Clean, bucket_means, chunk_shares, find_valley, lower_mean, mean_limits
from auditor.measures.histogram import iter_buckets
from auditor.model import Histogram

LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Baseline:
    """A likely length of a decode-only step in seconds, and what weakens it."""

    seconds: float
    low_seconds: float
    """s_low: mean of the bucket of the lowest tenth of the plain gaps, where that is a lower bucket."""
    least_seconds: float
    most_seconds: float
    """What buckets and the exact sum allow the mean of the plain gaps to be."""
    clean: Clean
    in_first: bool
    """The middle of the plain gaps lies in the histogram's first bucket."""
    first: bool
    """The plain gaps lie in the first bucket, whose mean is not known within a factor of two."""


def find_baseline(e: Evidence, chunk: float) -> Baseline:
    """Where the gaps without prefill lie, given the most prompt tokens of one request in a step."""
    h = e.gaps
    if h is None:
        raise ValueError("no gaps, no baseline")
    chunks = e.prefill_passes or e.first_tokens + e.computed_tokens / chunk
    likely, worst = chunk_shares(chunks, e.steps, mean_gap=e.mean_gap, gaps=e.gap_count, wall=e.wall_seconds)
    valley = find_valley(h, likely)
    share = max(LEAST_SHARE, likely if valley is None else valley)
    means = bucket_means(h)
    base = min(lower_mean(h, means, share), e.mean_gap)
    least, most = mean_limits(h, share)
    return Baseline(
        seconds=base,
        low_seconds=_low_seconds(h, means, share, base),
        least_seconds=least,
        most_seconds=most,
        clean=Clean(share, likely, worst, valley is not None),
        in_first=_in_first(h, share),
        first=_in_first(h, share) and _first_unknown(h),
    )


def _bucket_of(h: Histogram, share: float) -> int:
    """Index among the filled buckets of the quantile ``share``."""
    rank, below = share * sum(h.counts), 0.0
    buckets = list(iter_buckets(h))
    for i, b in enumerate(buckets):
        below += b.count
        if below >= rank:
            return i
    return len(buckets) - 1


def _low_seconds(h: Histogram, means: list[float], share: float, base: float) -> float:
    buckets = list(iter_buckets(h))
    low = _bucket_of(h, 0.1 * share)
    of_base = next((i for i, b in enumerate(buckets) if base <= b.high), len(buckets) - 1)
    return means[low] if low < of_base else base


def _in_first(h: Histogram, share: float) -> bool:
    first = next(iter_buckets(h))
    return first.low <= 0 and _bucket_of(h, share / 2) == 0


def _first_unknown(h: Histogram) -> bool:
    buckets = list(iter_buckets(h))
    first = buckets[0]
    others_low = sum(b.count * b.low for b in buckets[1:])
    others_high = sum(b.count * b.high for b in buckets[1:])
    most = min(first.high, (h.sum - others_low) / first.count)
    least = (h.sum - others_high) / first.count if math.isfinite(others_high) else 0.0
    return least <= 0 or most / least > 2
