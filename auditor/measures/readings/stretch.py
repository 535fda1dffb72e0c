"""How much of decode is other requests' prefill, and so what prefill levers could gain at most."""

from __future__ import annotations

from auditor.measures.ceilings.evidence import Evidence
from auditor.measures.ceilings.lulls import lull_base
from auditor.measures.ceilings.ranges import Ceiling, ceiling
from auditor.measures.histogram import iter_buckets
from auditor.measures.readings.registry import Found, reading
from auditor.measures.readings.time import impossible_time
from auditor.measures.subject import Missing, Subject
from auditor.model import Histogram

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


def gather(s: Subject) -> Evidence:
    """Collect the evidence of a subject.

    Raises:
        Missing: phase times or lengths are not on the page, contradict each other, or nothing finished.
    """
    prefill, decode = s.histogram("prefill_seconds"), s.histogram("decode_seconds")
    output = s.histogram("output_length_tokens")
    sources = ("prefill_seconds", "decode_seconds", "output_length_tokens")
    contradiction = impossible_time(s)
    if contradiction is not None:
        raise Missing("invalid", contradiction, sources=sources)
    if prefill.rebuilt_sum or decode.rebuilt_sum or output.rebuilt_sum:
        raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=sources)
    if decode.count <= 0 or prefill.sum + decode.sum <= 0:
        raise Missing("no_traffic", "no request finished in the window", sources=sources)
    tokens_per_gap = _tokens_per_gap(s)
    own = max(0.0, output.sum - decode.count) / tokens_per_gap
    longest = max((b.high for b in iter_buckets(prefill)), default=0.0)
    return Evidence(
        gaps=_gaps(s),
        prefill_seconds=prefill.sum,
        decode_seconds=decode.sum,
        finished=decode.count,
        own_gaps=own,
        computed_tokens=computed_tokens(s),
        first_tokens=_first_tokens(s, prefill.count),
        steps=s.histogram("step_tokens").count if s.has("step_tokens") else None,
        wall_seconds=None if s.window.seconds is None else s.window.seconds * engines(s),
        longest_prefill_seconds=longest,
        prefill_alone=s.engine.prefill_runs == "alone",
    )


def engines(s: Subject) -> int:
    """Engines whose steps run side by side: one per target and rank."""
    return max(1, len({(p.target, p.rank) for p in s.parts if not p.pooled}))


def computed_tokens(s: Subject) -> float:
    """C, live where a series has it, else of finished requests; prompt tokens where neither is exported."""
    if s.has("prompt_tokens_by_source"):
        computed = s.counter("prompt_tokens_by_source").split.get("local_compute", 0.0)
        if s.has("recomputed_tokens"):
            computed -= s.increase("recomputed_tokens")
        return max(0.0, computed)
    reading = s.read("computed_prompt_tokens")
    if reading.value is not None:
        return reading.value
    return s.value("prompt_tokens")


def _first_tokens(s: Subject, finished: float) -> float:
    return s.histogram("ttft_seconds").count if s.has("ttft_seconds") else finished


def _gaps(s: Subject) -> Histogram | None:
    if not s.has("itl_seconds"):
        return None
    h = s.histogram("itl_seconds")
    usable = h.count > 0 and h.edges and not h.flaw and not h.rebuilt_sum
    return h if usable else None


def _tokens_per_gap(s: Subject) -> float:
    reading = s.read("tokens_per_output_event")
    return max(1.0, reading.value) if reading.value is not None else 1.0
