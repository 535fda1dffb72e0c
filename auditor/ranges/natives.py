"""Native histograms as the query API writes them, and histograms of neighbouring ranges added."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from auditor.model import Histogram


class Flawed(Exception):
    """The answer holds the quantity and it cannot be used: the reason in words."""


def native_histogram(raw: Mapping[str, object]) -> Histogram:
    """A native histogram as the API writes it: count, sum, and buckets [boundary rule, lower, upper, count].

    Raises:
        Flawed: not in that form.
    """
    try:
        count, total = float(str(raw["count"])), float(str(raw["sum"]))
        listed = raw.get("buckets") or []
        if not isinstance(listed, list):
            raise TypeError("buckets")
        parts = sorted((float(low), float(high), float(n)) for _, low, high, n in listed)
    except (KeyError, TypeError, ValueError):
        raise Flawed("the metrics server's native histogram is not in a known form") from None
    if not (math.isfinite(count) and math.isfinite(total)):
        raise Flawed("its native histogram is NaN or infinite at the metrics server")
    edges: list[float] = []
    counts: list[float] = []
    for low, high, n in parts:
        if n < 0 or (edges and low < edges[-1] - 1e-12 * abs(edges[-1])):
            raise Flawed("the buckets of its native histogram overlap")
        if low > (edges[-1] if edges else 0.0):
            edges.append(low)
            counts.append(0.0)
        edges.append(max(high, 0.0))
        counts.append(n)
    if not edges or not math.isinf(edges[-1]):
        edges.append(math.inf)
        counts.append(0.0)
    return Histogram(tuple(edges), tuple(counts), total, count)


def add_histograms(found: Sequence[Histogram]) -> Histogram:
    """Neighbouring ranges or first values added; buckets only where the edges are the same."""
    first = found[0]
    if len(found) == 1:
        return first
    total, count = math.fsum(h.sum for h in found), math.fsum(h.count for h in found)
    flaw = next((h.flaw for h in found if h.flaw), None)
    rebuilt = any(h.rebuilt_sum for h in found)
    filled = [h for h in found if h.edges]
    if flaw is None and any(h.edges != filled[0].edges for h in filled):
        edges = tuple(sorted({e for h in filled for e in h.edges}))
        if not all(set(h.edges) <= set(edges) for h in filled) or not _nested(filled):
            flaw = "its buckets change from one range to the next"
    if flaw is not None or not filled:
        return Histogram((), (), total, count, flaw or "no buckets", rebuilt)
    at: dict[float, float] = defaultdict(float)
    for h in filled:
        for edge, n in zip(h.edges, h.counts, strict=True):
            at[edge] += n
    edges = tuple(sorted(at))
    return Histogram(edges, tuple(at[e] for e in edges), total, count, None, rebuilt)


def _nested(found: Sequence[Histogram]) -> bool:
    """No filled bucket of one spans an edge of another, so that counts can be laid side by side."""
    edges = sorted({e for h in found for e in h.edges})
    for h in found:
        low = 0.0
        for edge, n in zip(h.edges, h.counts, strict=True):
            if n > 0 and any(low < e < edge for e in edges):
                return False
            low = edge
    return True
