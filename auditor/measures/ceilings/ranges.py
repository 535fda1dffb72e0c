"""The calibrated ends: from a baseline to limits of what free prefill could gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from auditor.measures.ceilings.baseline import Baseline, find_baseline
from auditor.measures.ceilings.evidence import UNKNOWN_BUDGETS, Evidence

Range = tuple[float, float | None]

# One row a term, in the order of _terms: low 99 %, high 99 %, low 95 %, high 95 %.
COEFFICIENTS = (
    (0.0, 0.170, 0.019, 0.015),  # always
    (0.298, 0.0, 0.117, 0.023),  # log(mean gap / base)
    (0.333, 1.015, 0.484, 0.0),  # share of gaps that may be stretched
    (0.0, 0.749, 0.0, 0.615),  # log(base / lowest gaps)
    (0.091, 0.0, 0.024, 0.0),  # the plain gaps lie in the first bucket
    (0.129, 0.0, 0.074, 0.0),  # no valley
    (0.234, 0.0, 0.034, 0.0),  # no baseline
    (0.0, 0.0, 0.0, 1.410),  # finished requests' gaps differ from all gaps
    (0.0, 0.874, 0.016, 0.588),  # prefill request-seconds over the wall
)
LIGHT_LOAD = 0.05


@dataclass(frozen=True)
class Ceiling:
    """Limits of the speed-up of request service time if prompt tokens cost no step time."""

    at_99: Range
    at_95: Range
    base_seconds: float
    baseline: Baseline | None
    why_no_upper: str | None


def ceiling(e: Evidence, *, budget: float | None, threshold: float | None, lull_seconds: float | None = None) -> Ceiling:
    """The ceiling of prefill levers; a hull over all usual budgets where none is known."""
    if e.gaps is None:
        return Ceiling((1.0, None), (1.0, None), 0.0, None, "no usable inter-token histogram is on the page")
    budgets = UNKNOWN_BUDGETS if budget is None else (budget,)
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


def _at_chunk(e: Evidence, chunk: float, lull_seconds: float | None) -> Ceiling:
    base = find_baseline(e, chunk)
    if lull_seconds is not None:
        exact = min(lull_seconds, e.mean_gap)
        base = replace(base, seconds=exact, low_seconds=exact, open=False, first=False, from_lulls=True)
    centre = e.service_seconds / (base.seconds * e.outputs)
    plain = e.service_seconds / (e.mean_gap * e.outputs)
    terms = _terms(e, base)
    ends = [sum(c[k] * t for c, t in zip(COEFFICIENTS, terms, strict=True)) for k in range(4)]
    why = _why_no_upper(e, base)
    light = plain * math.exp(0.03 + 2 * e.prefill_load) if e.prefill_load < LIGHT_LOAD else None

    def ends_at(low: float, high: float) -> Range:
        least = centre * math.exp(-low)
        if base.open:
            least = min(least, plain)
        most = None if why is not None else centre * math.exp(high)
        if light is not None:
            most = light if most is None else min(most, light)
        least = max(1.0, least)
        return (least, None) if most is None else (min(least, max(1.0, most)), max(1.0, most))

    return Ceiling(
        at_99=ends_at(ends[0], ends[1]),
        at_95=ends_at(ends[2], ends[3]),
        base_seconds=base.seconds,
        baseline=base,
        why_no_upper=why if light is None else None,
    )


def _terms(e: Evidence, base: Baseline) -> tuple[float, ...]:
    gap = e.mean_gap
    own = e.decode_seconds * e.gap_count / (e.gaps.sum * e.own_gaps) if e.gaps and e.own_gaps > 0 else 0.0
    return (
        1.0,
        math.log(gap / base.seconds),
        1 - base.clean.share,
        math.log(base.seconds / base.low_seconds),
        float(base.first),
        float(not base.clean.found),
        float(base.open),
        min(1.0, abs(math.log(own))) if own > 0 else 1.0,
        min(1.0, e.prefill_load),
    )


def _why_no_upper(e: Evidence, base: Baseline) -> str | None:
    if e.wall_seconds is None:
        return "the length of the window is unknown"
    if base.open:
        return "nearly every gap may share its step with prefill"
    if base.first:
        return "gaps without prefill lie in the histogram's first bucket, which does not say how short they are"
    return None
