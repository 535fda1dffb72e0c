"""How much of decode is other requests' prefill, and so what prefill levers could gain at most."""

from __future__ import annotations

from auditor.measures.ceilings.evidence import gather
from auditor.measures.ceilings.lulls import lull_base
from auditor.measures.ceilings.ranges import Ceiling, ceiling
from auditor.measures.readings.registry import Found, reading
from auditor.measures.subject import Missing, Subject

MOST_PREEMPTED = 0.01
SOURCES = (
    "itl_seconds", "prefill_seconds", "decode_seconds", "output_length_tokens", "step_tokens",
    "prompt_tokens_by_source", "ttft_seconds",
)  # fmt: skip


@reading(unit="ratio")
def decode_stretch_share(s: Subject) -> Found:
    """Part of decode time that is waiting for other requests' prefill in the same step, as limits.

    Prefill chunks share engine steps with everybody's decode, so decode seconds contain other requests' prefill.
    """
    preempted = s.read("preemptions_per_request")
    if preempted.value is not None and preempted.value > MOST_PREEMPTED:
        raise Missing(
            "invalid",
            f"{preempted.value:.1%} of requests were preempted: prompts computed again are in no token counter",
            sources=("preemptions",),
        )
    e = gather(s)
    lull = lull_base(s, e.longest_prefill_seconds) if s.slices else None
    c = ceiling(
        e,
        budget=s.setting("budget"),
        threshold=s.setting("threshold") or None,
        lull_seconds=None if lull is None else lull[0],
    )
    caveats = ["calibrated on simulated schedulers, not on servers"]
    if s.setting("budget") is None:
        caveats.append("step budget unknown: every usual one was tried; give --budget N or --boot-log FILE")
    if lull is not None:
        caveats.append(f"steps without prefill read off {lull[1]:g} gaps in lulls of the series")
    if preempted.value:
        caveats.append(f"{preempted.value:.2%} preemptions per request: a little recomputed prefill is hidden")

    def share(speedup: float | None) -> float | None:
        if speedup is None or e.mean_gap <= 0:
            return None
        return max(0.0, 1 - e.service_seconds / (speedup * e.outputs) / e.mean_gap)

    low, high = share(c.at_99[0]) or 0.0, share(c.at_99[1])
    return Found(
        None,
        low,
        1.0 if high is None else max(low, high),
        e.gap_count,
        SOURCES,
        tuple(caveats),
        c.why_no_upper or "gaps show prefill only by their lengths",
        extra=_extra(c, prefill_alone=e.prefill_alone),
    )


def _extra(c: Ceiling, *, prefill_alone: bool) -> dict[str, object]:
    return {
        "ceiling_99": list(c.at_99),
        "ceiling_95": list(c.at_95),
        "mechanism": "frozen streams" if prefill_alone else "shared steps",
        "base_seconds": c.base_seconds or None,
        "why_no_upper": c.why_no_upper if c.at_99[1] is None else None,
        "share_of_gaps_without_prefill": None if c.baseline is None else c.baseline.clean.share,
    }
