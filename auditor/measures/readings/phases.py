"""Request-seconds of a phase, for engines that time every phase and for those that leave limits only.

An engine without a decode time still says when requests arrived, when their first token came and when they ended:
decode is at most end-to-end minus time to first token. An engine that times its own prompt work instead of its
requests gives the least that requests can have spent on prefill.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.measures.histogram import sum_limits
from auditor.measures.readings.agreement import agree, extrapolation_error
from auditor.measures.subject import Missing, Subject
from auditor.model import Counter, Histogram

REBUILT = "sums are rebuilt from bucket midpoints on this page, so only the buckets' limits hold"
ENGINE_CLOCK = "the engine times its own prompt work: requests that are prefilled together each spent all of it"


@dataclass(frozen=True)
class PhaseTime:
    """Least and most request-seconds of one phase; equal where the page has the sum."""

    low: float
    high: float | None
    count: float | None
    """Requests behind it, where the page counts them."""
    sources: tuple[str, ...]
    why: str | None = None
    """Why only limits are known; None where the sum is."""

    @property
    def exact(self) -> bool:
        return self.why is None


def phase_time(s: Subject, name: str) -> PhaseTime:
    """Request-seconds of ``prefill_seconds``, ``decode_seconds`` or ``queue_seconds``.

    Raises:
        Missing: no series allows even limits, or the page contradicts itself.
    """
    if name not in s.engine.quantities:
        if name == "decode_seconds" and s.engine.traits.get("decode_time") == "e2e_minus_ttft":
            return _after_first_token(s)
        if name == "prefill_seconds" and "prefill_engine_seconds" in s.engine.quantities:
            least = s.increase("prefill_engine_seconds")
            if least == 0:
                return PhaseTime(0.0, 0.0, None, ("prefill_engine_seconds",))
            return PhaseTime(least, None, None, ("prefill_engine_seconds",), ENGINE_CLOCK)
    q = s.quantity(name)
    if isinstance(q, Counter):
        return PhaseTime(q.increase, q.increase, None, (name,))
    if not isinstance(q, Histogram):
        raise Missing("invalid", f"{name} is no sum on this page", sources=(name,))
    if q.rebuilt_sum:
        return PhaseTime(*sum_limits(q), q.count, (name,), REBUILT)
    return PhaseTime(q.sum, q.sum, q.count, (name,))


def _after_first_token(s: Subject) -> PhaseTime:
    sources = ("e2e_seconds", "ttft_seconds")
    e2e, first = s.histogram("e2e_seconds"), s.histogram("ttft_seconds")
    if e2e.rebuilt_sum or first.rebuilt_sum:
        raise Missing("invalid", REBUILT, sources=sources)
    if not agree(e2e.count, first.count, max(1.0, e2e.count), extrapolation_error(s)):
        raise Missing(
            "invalid",
            f"{e2e.count:g} requests ended and {first.count:g} gave a first token: two populations, and no difference "
            f"of their sums is a decode time; {s.engine.title} exports none",
            sources=sources,
        )
    if e2e.count == 0 and first.count == 0:
        return PhaseTime(0.0, 0.0, 0.0, sources)
    most = e2e.sum - first.sum
    if most < 0:
        raise Missing(
            "invalid", f"first tokens took {first.sum:.6g} s, above {e2e.sum:.6g} s end to end", sources=sources
        )
    why = (
        f"{s.engine.title} exports no decode time: end-to-end minus time to first token is the most it can be, and "
        "contains waiting for other requests' prefill and prompts computed again after a retraction"
    )
    return PhaseTime(0.0, most, e2e.count, sources, why)


def share_limits(part: PhaseTime, *others: PhaseTime) -> tuple[float, float]:
    """Least and most share of ``part`` in the sum of all."""
    rest_low = sum(o.low for o in others)
    rest_high = None if any(o.high is None for o in others) else sum(o.high or 0.0 for o in others)
    low = 0.0 if rest_high is None or part.low + rest_high <= 0 else part.low / (part.low + rest_high)
    high = 1.0 if part.high is None or part.high + rest_low <= 0 else part.high / (part.high + rest_low)
    return low, high


def refuse_stream_gaps(s: Subject) -> None:
    """Stop a reading that would divide all tokens by the gaps of streaming requests alone.

    Raises:
        Missing: the engine's gap histogram leaves out requests that do not stream.
    """
    if s.engine.traits.get("gaps_of_streams_only"):
        raise Missing(
            "not_exported",
            f"{s.engine.title}'s gap histogram has streaming requests only, its token counters have all",
            sources=("itl_seconds",),
        )


def refuse_other_requests(s: Subject, a: Histogram, b: Histogram, sources: tuple[str, ...]) -> None:
    """Stop a ratio of two sums that are over different requests: one moved at prefill, the other at the end.

    Raises:
        Missing: their counts differ, so requests in progress at an end of the window are in one of them only.
    """
    if s.engine.is_live("prefill_seconds") and not agree(a.count, b.count, max(1.0, b.count), extrapolation_error(s)):
        raise Missing(
            "invalid",
            f"{a.count:g} requests in one sum, {b.count:g} in the other: different populations",
            sources=sources,
        )
