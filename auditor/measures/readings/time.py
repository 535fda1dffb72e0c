"""Where requests spend their time.

Seconds are request-seconds: requests overlap, so these are shares of what requests experience, not of engine time.
All of it comes from finished requests.
"""

from __future__ import annotations

from dataclasses import replace

from auditor.measures.intervals import mean_interval, share_of_sums
from auditor.measures.readings.agreement import agree, extrapolation_error
from auditor.measures.readings.phases import (
    PhaseTime,
    phase_time,
    refuse_other_requests,
    refuse_stream_gaps,
    share_limits,
)
from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.subject import Missing, Subject
from auditor.model import Histogram

OVERLAP = "request-seconds: requests overlap, so this is not engine time"
NOTHING = "no request finished in the window"
FEW_QUEUED = "where few requests make up the share its interval is too narrow"


def impossible_time(s: Subject) -> str | None:
    """What contradicts the time sums of finished requests, in words; None when nothing does.

    Inference lies inside e2e, and prefill and decode add up to inference. Requests that an engine-side abort
    ended before they ever ran put the host's uptime into the sums.
    """
    if not s.has("inference_seconds"):
        return None
    inference = s.histogram("inference_seconds")
    if inference.rebuilt_sum:
        return None
    slack = extrapolation_error(s)
    if s.has("e2e_seconds"):
        e2e = s.histogram("e2e_seconds")
        # Fewer requests cannot have taken longer either; more of them may have.
        like = inference.count <= e2e.count or agree(inference.count, e2e.count, max(e2e.count, 1), slack)
        if like and inference.sum > e2e.sum and not agree(inference.sum, e2e.sum, inference.count, slack):
            return (
                f"inference time {inference.sum:.6g} s is above the end-to-end time {e2e.sum:.6g} s that contains it: "
                "requests aborted before they ran put the host's uptime into these sums"
            )
    if s.has("prefill_seconds") and s.has("decode_seconds"):
        prefill, decode = s.histogram("prefill_seconds"), s.histogram("decode_seconds")
        both = prefill.sum + decode.sum
        same = prefill.count == inference.count == decode.count
        if same and not agree(both, inference.sum, inference.count, slack):
            return f"prefill + decode is {both:.6g} s, inference {inference.sum:.6g} s: they should be equal"
    return None


def _phase(s: Subject, name: str) -> Histogram:
    h = s.histogram(name)
    _refuse_impossible(s, name)
    return h


def _refuse_impossible(s: Subject, name: str) -> None:
    contradiction = impossible_time(s)
    if contradiction is not None:
        raise Missing("invalid", contradiction, sources=(name, "inference_seconds"))


def _spent(s: Subject, name: str) -> PhaseTime:
    """Request-seconds of a phase, as a sum or as limits."""
    time = phase_time(s, name)
    _refuse_impossible(s, name)
    return time


def _phase_sum(s: Subject, name: str) -> Found:
    time = _spent(s, name)
    if not time.exact:
        return Found(None, time.low, time.high, time.count, time.sources, (OVERLAP,), time.why)
    return Found(time.low, count=time.count, sources=time.sources, caveats=(OVERLAP,))


@reading(unit="seconds")
def prefill_seconds(s: Subject) -> Found:
    """Request-seconds from first scheduled to first token: sum of the prefill-time histogram.

    Contains preemption and the work of other requests that shared the same steps.
    """
    return _phase_sum(s, "prefill_seconds")


@reading(unit="seconds")
def decode_seconds(s: Subject) -> Found:
    """Request-seconds from first to last token: sum of the decode-time histogram.

    Contains preemption and every stall caused by other requests' prefill chunks.
    """
    return _phase_sum(s, "decode_seconds")


@reading(unit="seconds")
def queue_seconds(s: Subject) -> Found:
    """Request-seconds from queued to first scheduled: sum of the queue-time histogram."""
    return _phase_sum(s, "queue_seconds")


@reading(unit="ratio")
def prefill_share(s: Subject) -> Found:
    """Prefill over prefill + decode request-seconds of finished requests: P / (P + D).

    It is the share of what requests experience. It is no bound on what a prefill lever can gain: decode time
    contains other requests' prefill (see decode_stretch_share).
    """
    return _share(s, "prefill_seconds", "decode_seconds")


@reading(unit="ratio")
def decode_share(s: Subject) -> Found:
    """Decode over prefill + decode request-seconds of finished requests: D / (P + D)."""
    return _share(s, "decode_seconds", "prefill_seconds")


def _share(s: Subject, part: str, other: str) -> Found:
    x, y = _spent(s, part), _spent(s, other)
    if not (x.exact and y.exact):
        return _bounded_share(s, x, y)
    value = ratio(x.low, x.low + y.low, NOTHING, (part, other))
    if not (s.has(part) and s.has(other)) or x.count is None or y.count is None:
        return Found(value, sources=(part, other), caveats=(OVERLAP,))
    whole = s.histogram("inference_seconds") if s.has("inference_seconds") else None
    interval = share_of_sums(s.histogram(part), s.histogram(other), whole)
    return _with_interval(value, interval, x.count, (part, other))


def _bounded_share(s: Subject, part: PhaseTime, *others: PhaseTime) -> Found:
    """The limits of a share whose parts are not all known exactly, of one population."""
    times = (part, *others)
    sources = tuple(dict.fromkeys(name for t in times for name in t.sources))
    counts = [t.count for t in times if t.count is not None]
    if (counts and max(counts) <= 0) or all(t.high == 0 for t in times):
        raise Missing("no_traffic", NOTHING, sources=sources)
    if counts and not agree(min(counts), max(counts), max(counts), extrapolation_error(s)):
        raise Missing(
            "invalid",
            f"between {min(counts):g} and {max(counts):g} requests in its parts: different populations",
            sources=sources,
        )
    low, high = share_limits(part, *others)
    why = next(t.why for t in times if t.why)
    return Found(None, low, high, max(counts, default=None), sources, (OVERLAP,), why)


def _with_interval(value: float, interval: tuple[float, float] | None, count: float, sources: tuple[str, ...]) -> Found:
    low, high = interval if interval is not None else (None, None)
    return Found(value, low, high, count, sources, (OVERLAP,))


@reading(unit="ratio", better="lower")
def queue_share(s: Subject) -> Found:
    """Time waiting for a seat over queue + prefill + decode request-seconds: Q / (Q + P + D).

    Where few requests make up the share (5 % of them queued), its interval is too narrow: coverage .59-.70 at
    30 requests, .82-.91 at 100.
    """
    names = ("queue_seconds", "prefill_seconds", "decode_seconds")
    queue, prefill, decode = (_spent(s, name) for name in names)
    if not (queue.exact and prefill.exact and decode.exact):
        return _bounded_share(s, queue, prefill, decode)
    value = ratio(queue.low, queue.low + prefill.low + decode.low, NOTHING, names)
    if queue.count is None:
        return Found(value, sources=names, caveats=(OVERLAP,))
    interval = None
    if s.has("inference_seconds"):
        interval = share_of_sums(s.histogram("queue_seconds"), s.histogram("inference_seconds"), None)
    found = _with_interval(value, interval, queue.count, names)
    return replace(found, caveats=(OVERLAP, FEW_QUEUED)) if interval is not None and value < 0.5 else found


def _mean(s: Subject, name: str) -> Found:
    time = _spent(s, name)
    if time.count is None:
        why = s.missing("finished_requests").reason
        raise Missing("not_exported", f"{name} stands without a count of requests: {why}", sources=time.sources)
    value = ratio(time.low, time.count, NOTHING, time.sources) if time.count <= 0 else time.low / time.count
    if not time.exact:
        most = None if time.high is None else time.high / time.count
        return Found(None, value, most, time.count, time.sources, reason=time.why)
    if not s.has(name):
        return Found(value, count=time.count, sources=time.sources)
    least, highest = mean_interval(s.histogram(name)) or (None, None)
    return Found(value, least, highest, time.count, time.sources)


@reading(unit="seconds", better="lower")
def mean_prefill_seconds(s: Subject) -> Found:
    """Mean prefill time of finished requests: sum over count of the prefill-time histogram."""
    return _mean(s, "prefill_seconds")


@reading(unit="seconds", better="lower")
def mean_decode_seconds(s: Subject) -> Found:
    """Mean decode time of finished requests: sum over count of the decode-time histogram."""
    return _mean(s, "decode_seconds")


@reading(unit="seconds", better="lower")
def mean_queue_seconds(s: Subject) -> Found:
    """Mean time in the queue of finished requests: sum over count of the queue-time histogram."""
    return _mean(s, "queue_seconds")


@reading(unit="ratio", better="lower")
def hidden_wait_share(s: Subject) -> Found:
    """Part of end-to-end time in no engine phase: (E - Q - P - D) / E.

    Tokenization, the input queue and the front end's lag. Above a few percent the front end is worth a look.
    """
    e2e = s.histogram("e2e_seconds")
    if e2e.rebuilt_sum:
        raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=("e2e_seconds",))
    phases = [_spent(s, name) for name in ("queue_seconds", "prefill_seconds", "decode_seconds")]
    sources = ("e2e_seconds", *dict.fromkeys(name for p in phases for name in p.sources if name != "e2e_seconds"))
    if any(p.high is None for p in phases):
        raise Missing("invalid", next(p.why for p in phases if p.why) or "", sources=sources)
    # Where decode is what follows the first token, it leaves the wait before that token exactly.
    inside = sum(p.high or 0.0 for p in phases)
    slack = extrapolation_error(s)
    for count in (p.count for p in phases if p.count is not None):
        if not agree(e2e.count, count, max(1.0, e2e.count), slack):
            raise Missing(
                "invalid",
                f"{e2e.count:g} requests in the end-to-end histogram, {count:g} in a phase's: different populations",
                sources=sources,
            )
    value = ratio(e2e.sum - inside, e2e.sum, NOTHING, sources)
    if value < 0:
        if not agree(e2e.sum, inside, e2e.count, slack):
            raise Missing(
                "invalid",
                f"phases add up to {inside:.6g} s, above {e2e.sum:.6g} s end to end",
                sources=sources,
            )
        value = 0.0
    return Found(value, count=e2e.count, sources=sources)


@reading(unit="seconds", better="lower")
def decode_seconds_per_token(s: Subject) -> Found:
    """Decode request-seconds per token after the first.

    D / (generated tokens of finished requests - finished requests); where those are not on the page,
    sum of the inter-token histogram / (generation tokens - first tokens).
    """
    timed = s.has("decode_seconds") or "decode_seconds" not in s.engine.quantities
    if timed and s.has("output_length_tokens"):
        decode, output = _spent(s, "decode_seconds"), s.histogram("output_length_tokens")
        sources = (*decode.sources, "output_length_tokens")
        if output.rebuilt_sum or decode.count is None:
            raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=sources)
        tokens = output.sum - decode.count
        most = ratio(decode.high or 0.0, tokens, "no token after a first one", sources)
        if not decode.exact:
            return Found(None, decode.low / tokens, most, tokens, sources, reason=decode.why)
        return Found(most, count=tokens, sources=sources)
    refuse_stream_gaps(s)
    gaps = s.histogram("itl_seconds")
    names = ("itl_seconds", "generation_tokens", "ttft_seconds")
    tokens = s.increase("generation_tokens") - s.histogram("ttft_seconds").count
    return Found(ratio(gaps.sum, tokens, "no token after a first one", names), count=tokens, sources=names)


@reading(unit="milliseconds")
def prefill_ms_per_computed_token(s: Subject) -> Found:
    """Prefill request-milliseconds per computed prompt token: 1000 P / computed tokens of finished requests.

    Requests that share steps make it larger than the engine's own cost.
    """
    computed = s.histogram("computed_prompt_length_tokens")
    prefill = _phase(s, "prefill_seconds")
    sources = ("prefill_seconds", "computed_prompt_length_tokens")
    if prefill.rebuilt_sum:
        raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=sources)
    refuse_other_requests(s, prefill, computed, sources)
    value = ratio(1000 * prefill.sum, computed.sum, "no prompt token was computed", sources)
    caveat = "an upper value of the engine's cost: requests that share steps each count the whole step"
    return Found(value, count=computed.sum, sources=sources, caveats=(caveat,))
