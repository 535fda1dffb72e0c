"""Where requests spend their time.

Seconds are request-seconds: requests overlap, so these are shares of what requests experience, not of engine time.
All of it comes from finished requests.
"""

from __future__ import annotations

from dataclasses import replace

from auditor.measures.histogram import sum_limits
from auditor.measures.intervals import mean_interval, share_of_sums
from auditor.measures.readings.registry import Found, ratio, reading
from auditor.measures.subject import Missing, Subject
from auditor.model import Histogram

OVERLAP = "request-seconds: requests overlap, so this is not engine time"
FEW_QUEUED = "where few requests make up the share its interval is too narrow"
IDENTITY_TOLERANCE = 0.005


def agree(a: float, b: float, events: float, slack: float = 0.0) -> bool:
    """Two figures for one thing agree within one event or 0.5 %, whichever is larger, or within ``slack``."""
    larger = max(abs(a), abs(b))
    return abs(a - b) <= max(IDENTITY_TOLERANCE, slack, 1 / events if events > 0 else 1.0) * larger + 1e-9


def extrapolation_error(s: Subject) -> float:
    """Share by which two increases of one window may differ because a metrics server extrapolates them."""
    if not s.window.estimated:
        return 0.0
    if not s.window.step_seconds or not s.window.seconds:
        return 0.02
    return min(1.0, s.window.step_seconds / s.window.seconds)


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
    contradiction = impossible_time(s)
    if contradiction is not None:
        raise Missing("invalid", contradiction, sources=(name, "inference_seconds"))
    return h


def _phase_sum(s: Subject, name: str) -> Found:
    h = _phase(s, name)
    if h.rebuilt_sum:
        low, high = sum_limits(h)
        return Found(
            None,
            low,
            high,
            h.count,
            (name,),
            reason="this form of the page rebuilds sums from bucket midpoints",
        )
    return Found(h.sum, count=h.count, sources=(name,), caveats=(OVERLAP,))


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
    x, y = _phase(s, part), _phase(s, other)
    sources = (part, other)
    if x.rebuilt_sum or y.rebuilt_sum:
        return _rebuilt_share(x, y, sources)
    value = ratio(x.sum, x.sum + y.sum, "no request finished in the window", sources)
    whole = s.histogram("inference_seconds") if s.has("inference_seconds") else None
    interval = share_of_sums(x, y, whole)
    return _with_interval(value, interval, x.count, sources)


def _rebuilt_share(x: Histogram, y: Histogram, sources: tuple[str, ...]) -> Found:
    if x.count <= 0 and y.count <= 0:
        raise Missing("no_traffic", "no request finished in the window", sources=sources)
    x_low, x_high = sum_limits(x)
    y_low, y_high = sum_limits(y)
    low = 0.0 if y_high is None else (x_low / (x_low + y_high) if x_low + y_high > 0 else 0.0)
    high = 1.0 if x_high is None else (x_high / (x_high + y_low) if x_high + y_low > 0 else 1.0)
    reason = "sums are rebuilt from bucket midpoints on this page, so only the buckets' limits hold"
    return Found(None, low, high, x.count, sources, (OVERLAP,), reason)


def _with_interval(value: float, interval: tuple[float, float] | None, count: float, sources: tuple[str, ...]) -> Found:
    low, high = interval if interval is not None else (None, None)
    return Found(value, low, high, count, sources, (OVERLAP,))


@reading(unit="ratio", better="lower")
def queue_share(s: Subject) -> Found:
    """Time waiting for a seat over queue + prefill + decode request-seconds: Q / (Q + P + D).

    Where few requests make up the share (5 % of them queued), its interval is too narrow: coverage .59-.70 at
    30 requests, .82-.91 at 100.
    """
    queue, prefill, decode = (_phase(s, name) for name in ("queue_seconds", "prefill_seconds", "decode_seconds"))
    sources = ("queue_seconds", "prefill_seconds", "decode_seconds")
    if queue.rebuilt_sum:
        q_low, q_high = sum_limits(queue)
        p_low, p_high = sum_limits(prefill)
        d_low, d_high = sum_limits(decode)
        if queue.count <= 0:
            raise Missing("no_traffic", "no request finished in the window", sources=sources)
        rest_high = None if p_high is None or d_high is None else p_high + d_high
        low = 0.0 if rest_high is None or q_low + rest_high <= 0 else q_low / (q_low + rest_high)
        high = 1.0 if q_high is None or q_high + p_low + d_low <= 0 else q_high / (q_high + p_low + d_low)
        return Found(None, low, high, queue.count, sources, (OVERLAP,), "sums are rebuilt on this page")
    whole = queue.sum + prefill.sum + decode.sum
    value = ratio(queue.sum, whole, "no request finished in the window", sources)
    interval = None
    if s.has("inference_seconds"):
        interval = share_of_sums(queue, s.histogram("inference_seconds"), None)
    found = _with_interval(value, interval, queue.count, sources)
    return replace(found, caveats=(OVERLAP, FEW_QUEUED)) if interval is not None and value < 0.5 else found


def _mean(s: Subject, name: str) -> Found:
    h = _phase(s, name)
    if h.rebuilt_sum:
        low, high = sum_limits(h)
        if h.count <= 0:
            raise Missing("no_traffic", "no request finished in the window", sources=(name,))
        return Found(
            None,
            low / h.count,
            None if high is None else high / h.count,
            h.count,
            (name,),
            reason="sums are rebuilt from bucket midpoints on this page",
        )
    value = ratio(h.sum, h.count, "no request finished in the window", (name,))
    least, most = mean_interval(h) or (None, None)
    return Found(value, least, most, h.count, (name,))


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
    sources = ("e2e_seconds", "queue_seconds", "prefill_seconds", "decode_seconds")
    inside = sum(_phase(s, name).sum for name in sources[1:])
    if e2e.rebuilt_sum:
        raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=sources)
    slack = extrapolation_error(s)
    if not agree(e2e.count, s.histogram("prefill_seconds").count, max(1.0, e2e.count), slack):
        raise Missing(
            "invalid",
            f"{e2e.count:g} requests in the end-to-end histogram, "
            f"{s.histogram('prefill_seconds').count:g} in the prefill one: different populations",
            sources=sources,
        )
    value = ratio(e2e.sum - inside, e2e.sum, "no request finished in the window", sources)
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
    if s.has("decode_seconds") and s.has("output_length_tokens"):
        decode, output = _phase(s, "decode_seconds"), s.histogram("output_length_tokens")
        sources = ("decode_seconds", "output_length_tokens")
        if decode.rebuilt_sum or output.rebuilt_sum:
            raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=sources)
        value = ratio(decode.sum, output.sum - decode.count, "no token after a first one", sources)
        return Found(value, count=output.sum - decode.count, sources=sources)
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
    value = ratio(1000 * prefill.sum, computed.sum, "no prompt token was computed", sources)
    caveat = "an upper value of the engine's cost: requests that share steps each count the whole step"
    return Found(value, count=computed.sum, sources=sources, caveats=(caveat,))
