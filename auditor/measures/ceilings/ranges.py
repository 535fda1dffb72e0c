"""From a baseline to limits of what free prefill could gain: six kinds of page, each with its calibrated margins."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from auditor.measures.ceilings.baseline import Baseline, find_baseline
from auditor.measures.ceilings.coefficients import (
    ALONE_95,
    ALONE_99,
    AT_95,
    AT_99,
    LULLS_95,
    LULLS_99,
    Margins,
)
from auditor.measures.ceilings.evidence import UNKNOWN_BUDGETS, Evidence

Range = tuple[float, float | None]
Kind = Literal["counted", "valley", "short valley", "first", "crowded", "covered", "first crowded"]

LIGHT_LOAD = 0.05
DRAFTED = 1.001
"""More tokens per gap than this: drafts are verified."""
MOST_LOG = 4.0
"""A logarithm of lengths larger than this is taken as this; a baseline so far below the mean gap bounds nothing."""
PLAIN_HALF, PLAIN_TENTH = 0.5, 0.1
LEAST_PLAIN_GAPS = 30
"""A baseline on fewer gaps raises no low end: a few odd short gaps are not the length of a step."""


@dataclass(frozen=True)
class Ceiling:
    """Limits of the speed-up of request service time if prompt tokens cost no step time."""

    at_99: Range
    at_95: Range
    base_seconds: float
    baseline: Baseline | None
    why_no_upper: str | None


def find_ceiling(
    e: Evidence, *, budget: float | None, threshold: float | None, lull_seconds: float | None = None
) -> Ceiling:
    """The ceiling of prefill levers; a hull over all usual budgets where none is known."""
    if e.gaps is None or e.own_gaps <= 0:
        why = "no usable inter-token histogram is on the page" if e.gaps is None else "no answer has a second token"
        return Ceiling((1.0, None), (1.0, None), 0.0, None, why)
    budgets: tuple[float, ...] = (budget or UNKNOWN_BUDGETS[0],)
    if budget is None and e.prefill_passes is None:
        budgets = UNKNOWN_BUDGETS
    found = [_at_chunk(e, min(b, threshold or math.inf), lull_seconds) for b in budgets]
    out = found[0]
    for other in found[1:]:
        out = replace(
            out,
            at_99=_hull(out.at_99, other.at_99),
            at_95=_hull(out.at_95, other.at_95),
            why_no_upper=out.why_no_upper or other.why_no_upper,
        )
    return out


def _hull(a: Range, b: Range) -> Range:
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return min(a[0], b[0]), high


def kind_of(base: Baseline) -> Kind:
    """Which calibration a page falls under: how many gaps are plain, and how that and their bucket are known."""
    share = base.clean.share
    if base.first:
        return "first" if share >= PLAIN_HALF else "first crowded"
    if share >= PLAIN_HALF:
        if not base.clean.found:
            return "counted"
        return "short valley" if base.in_first else "valley"
    return "crowded" if share >= PLAIN_TENTH else "covered"


def terms(e: Evidence, base: Baseline) -> tuple[float, ...]:
    """What the margins are made of, none of them negative; the order is that of ``coefficients.TERMS``."""
    gap, middle = e.mean_gap, base.seconds
    to_base = _log(gap, middle)
    stretched = 1 - base.clean.share
    own = e.decode_seconds * e.gap_count / (e.gaps.sum * e.own_gaps) if e.gaps and e.own_gaps > 0 else 0.0
    load = min(1.0, e.prefill_load)
    return (
        1.0,
        to_base,
        stretched,
        max(0.0, _log(gap, base.least_seconds) - to_base),
        max(0.0, to_base - _log(gap, base.most_seconds)),
        max(0.0, _log(gap, base.low_seconds) - to_base),
        min(1.0, abs(math.log(own))) if own > 0 else 1.0,
        load,
        load * stretched,
        float(e.tokens_per_gap > DRAFTED),
    )


def _log(gap: float, length: float) -> float:
    return MOST_LOG if length <= 0 else min(MOST_LOG, max(0.0, math.log(gap / length)))


def _at_chunk(e: Evidence, chunk: float, lull_seconds: float | None) -> Ceiling:
    base = find_baseline(e, chunk)
    kind = kind_of(base)
    tables = (ALONE_99, ALONE_95) if e.prefill_alone else (AT_99, AT_95)
    wide, narrow = (_ends(e, base, table[kind]) for table in tables)
    why = _why_no_upper(e, kind, base)
    if lull_seconds is not None and not e.prefill_alone and e.wall_seconds is not None:
        exact = min(lull_seconds, e.mean_gap)
        base = replace(base, seconds=exact, low_seconds=exact, least_seconds=exact, most_seconds=exact)
        # Lulls hold fewer streams than the rest, so their steps are rather too short: they bound above, not below.
        wide = _capped(wide[0], _ends(e, base, LULLS_99)[1])
        narrow = _capped(narrow[0], _ends(e, base, LULLS_95)[1])
        why = None
    return Ceiling(wide, _meet(wide, narrow), base.seconds, base, why if wide[1] is None else None)


def _ends(e: Evidence, base: Baseline, margins: Margins) -> Range:
    """Both ends by one set of margins; an upper one always where the prefill load is light."""
    values = terms(e, base)
    plain = e.service_seconds / (e.mean_gap * e.outputs)
    centre = plain * math.exp(_log(e.mean_gap, base.seconds))
    low, high = margins
    least = centre * math.exp(-_dot(low, values))
    if base.clean.share * e.gap_count < LEAST_PLAIN_GAPS:
        least = min(least, plain)
    limits = []
    if high is not None and e.wall_seconds is not None and _log(e.mean_gap, base.seconds) < MOST_LOG:
        limits.append(centre * math.exp(_dot(high, values)))
    if e.prefill_load < LIGHT_LOAD:
        limits.append(plain * math.exp(0.03 + 2 * e.prefill_load))
    most = max(1.0, min(limits)) if limits else None
    least = max(1.0, least)
    return (least, None) if most is None else (min(least, most), most)


def _capped(low: float, high: float | None) -> Range:
    return (low, None) if high is None else (min(low, high), high)


def _meet(outer: Range, inner: Range) -> Range:
    """The tighter end of each; ``outer`` where they contradict each other."""
    highs = [h for h in (outer[1], inner[1]) if h is not None]
    low, high = max(outer[0], inner[0]), min(highs) if highs else None
    return outer if high is not None and low > high else (low, high)


def _dot(coefficients: tuple[float, ...], values: tuple[float, ...]) -> float:
    return sum(c * v for c, v in zip(coefficients, values, strict=True))


def _why_no_upper(e: Evidence, kind: Kind, base: Baseline) -> str | None:
    if e.wall_seconds is None:
        return "the length of the window is unknown"
    if base.clean.share < PLAIN_TENTH:
        return "nearly every gap may share its step with prefill"
    if kind in ("crowded", "first crowded"):
        return "more than half of the gaps may share their step with prefill"
    if _log(e.mean_gap, base.seconds) >= MOST_LOG:
        return "gaps without prefill are so much shorter than the mean one that little of the time is theirs"
    return None
