"""One quantity of several engines, or of neighbouring slices of time, as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from auditor.measures.histogram import merge as merge_histograms
from auditor.measures.vocabulary import Declaration
from auditor.model import Counter, Gauge, Histogram, Info, Quantity


def merge_quantities(found: Sequence[Quantity], declaration: Declaration | None) -> Quantity:
    """Combine one quantity over parts as its declaration says."""
    first = found[0]
    if len(found) == 1:
        return first
    across = declaration.across if declaration is not None else "sum"
    if isinstance(first, Counter):
        return _merge_counters([q for q in found if isinstance(q, Counter)], across)
    if isinstance(first, Histogram):
        return merge_histograms([q for q in found if isinstance(q, Histogram)])
    if isinstance(first, Gauge):
        return _merge_gauges([q for q in found if isinstance(q, Gauge)], across)
    return Info(tuple(labels for q in found if isinstance(q, Info) for labels in q.labels))


def _combine(values: Iterable[float | None], across: str) -> float | None:
    known = [v for v in values if v is not None]
    if not known:
        return None
    if across == "sum":
        return math.fsum(known)
    return max(known) if across in ("max", "one_of") else math.fsum(known) / len(known)


def _add_splits(splits: Iterable[Mapping[str, float]]) -> dict[str, float]:
    out: dict[str, float] = {}
    for split in splits:
        for key, value in split.items():
            out[key] = out.get(key, 0.0) + value
    return out


def _merge_counters(found: Sequence[Counter], across: str) -> Counter:
    return Counter(
        increase=_combine((q.increase for q in found), across) or 0.0,
        at_start=_combine((q.at_start for q in found), across),
        at_end=_combine((q.at_end for q in found), across),
        split=_add_splits(q.split for q in found),
    )


def _merge_gauges(found: Sequence[Gauge], across: str) -> Gauge:
    return Gauge(
        first=_combine((q.first for q in found), across),
        last=_combine((q.last for q in found), across),
        low=_combine((q.low for q in found), across),
        high=_combine((q.high for q in found), across),
        mean=_combine((q.mean for q in found), across),
        split=_add_splits(q.split for q in found),
    )


def merge_over_time(found: Sequence[Quantity]) -> Quantity:
    """One quantity over neighbouring slices: increases add, levels run from the first to the last."""
    first = found[0]
    if isinstance(first, Counter):
        counters = [q for q in found if isinstance(q, Counter)]
        increase = math.fsum(q.increase for q in counters)
        return Counter(increase, counters[0].at_start, counters[-1].at_end, _add_splits(q.split for q in counters))
    if isinstance(first, Histogram):
        return merge_histograms([q for q in found if isinstance(q, Histogram)])
    if isinstance(first, Gauge):
        gauges = [q for q in found if isinstance(q, Gauge)]
        lows = [q.low for q in gauges if q.low is not None]
        highs = [q.high for q in gauges if q.high is not None]
        means = [q.mean for q in gauges if q.mean is not None]
        return Gauge(
            first=gauges[0].first,
            last=gauges[-1].last,
            low=min(lows, default=None),
            high=max(highs, default=None),
            mean=math.fsum(means) / len(means) if means else None,
            split=gauges[-1].split,
        )
    return first
