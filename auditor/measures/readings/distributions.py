"""Distributions: exact mean and count, and quantiles that never stand without the bucket they lie in."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from auditor.measures.histogram import count_at_most, is_blind, quantile, quantile_interval, sum_limits
from auditor.measures.intervals import Interval, mean_interval, wilson
from auditor.measures.readings.registry import READINGS, Found, compute_reading, reading
from auditor.measures.readings.time import impossible_time
from auditor.measures.subject import Missing, Subject
from auditor.model import Histogram, Reading

QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
PER_REQUEST_MANY = ("itl_seconds", "step_tokens")
"""Histograms in which one request makes many observations."""
PHASES = ("prefill_seconds", "decode_seconds", "queue_seconds", "inference_seconds")


def _distribution(s: Subject, name: str) -> Found:
    h = s.histogram(name)
    if name in PHASES:
        contradiction = impossible_time(s)
        if contradiction is not None:
            raise Missing("invalid", contradiction, sources=(name,))
    if h.count <= 0:
        raise Missing("no_traffic", "nothing was observed in the window", sources=(name,))
    extra: dict[str, Any] = {"mean": None, "blind": False}
    caveats: tuple[str, ...] = ()
    if h.flaw or not h.edges:
        raise Missing("invalid", h.flaw or "no buckets", sources=(name,))
    for label, q in QUANTILES:
        found = quantile(h, q)
        extra[label] = None
        if found is not None:
            interval = quantile_interval(h, q)
            extra[label] = {
                "value": found.value, "low": found.low, "high": found.high,
                "interval": None if interval is None else list(interval),
            }  # fmt: skip
    extra["blind"] = is_blind(h)
    if extra["blind"]:
        caveats = ("all observations lie in one bucket: no quantile is known better than that",)
    if h.rebuilt_sum:
        low, high = sum_limits(h)
        most = None if high is None else high / h.count
        reason = "sums are rebuilt from bucket midpoints"
        return Found(None, low / h.count, most, h.count, (name,), caveats, reason, extra)
    mean = h.sum / h.count
    extra["mean"] = mean
    least, highest = _mean_interval(s, name, h) or (None, None)
    return Found(mean, least, highest, h.count, (name,), caveats, extra=extra)


def _mean_interval(s: Subject, name: str, h: Histogram) -> Interval | None:
    if name not in PER_REQUEST_MANY:
        return mean_interval(h)
    requests = s.read("first_tokens").value
    return None if requests is None else mean_interval(h, requests)


@reading(unit="seconds", distribution=True, better="lower")
def ttft_seconds(s: Subject) -> Found:
    """Time to first token, from arrival (before tokenization) on the front end's clock (live)."""
    return _distribution(s, "ttft_seconds")


@reading(unit="seconds", distribution=True, better="lower")
def itl_seconds(s: Subject) -> Found:
    """Gap between two outputs of a request (live). With speculation a gap holds several tokens."""
    return _distribution(s, "itl_seconds")


@reading(unit="seconds", distribution=True, better="lower")
def e2e_seconds(s: Subject) -> Found:
    """Arrival to last token of finished requests, on the front end's clock."""
    return _distribution(s, "e2e_seconds")


@reading(unit="seconds", distribution=True, better="lower")
def prefill_time_seconds(s: Subject) -> Found:
    """Prefill time per finished request: first scheduled to first token."""
    return _distribution(s, "prefill_seconds")


@reading(unit="seconds", distribution=True, better="lower")
def decode_time_seconds(s: Subject) -> Found:
    """Decode time per finished request: first to last token."""
    return _distribution(s, "decode_seconds")


@reading(unit="seconds", distribution=True, better="lower")
def queue_time_seconds(s: Subject) -> Found:
    """Time in the queue per finished request: queued to first scheduled."""
    return _distribution(s, "queue_seconds")


@reading(unit="seconds", distribution=True, better="lower")
def inference_time_seconds(s: Subject) -> Found:
    """First scheduled to last token per finished request."""
    return _distribution(s, "inference_seconds")


@reading(unit="tokens", distribution=True)
def prompt_length_tokens(s: Subject) -> Found:
    """Prompt length per finished request (sequence when n > 1)."""
    return _distribution(s, "prompt_length_tokens")


@reading(unit="tokens", distribution=True)
def output_length_tokens(s: Subject) -> Found:
    """Generated tokens per finished request (sequence when n > 1)."""
    return _distribution(s, "output_length_tokens")


@reading(unit="tokens", distribution=True)
def cap_tokens(s: Subject) -> Found:
    """The max_tokens that finished requests asked for."""
    return _distribution(s, "cap_tokens")


@reading(unit="tokens", distribution=True)
def step_tokens(s: Subject) -> Found:
    """Tokens per recorded engine step, whole prompts in single steps. Not tokens per step: see tokens_per_step."""
    found = _distribution(s, "step_tokens")
    h = s.histogram("step_tokens")
    # The picture of the steps needs the buckets themselves; null is the open edge.
    buckets = [[None if math.isinf(edge) else edge, count] for edge, count in zip(h.edges, h.counts, strict=True)]
    return replace(found, extra={**found.extra, "buckets": buckets})


DISTRIBUTIONS = tuple(d.name for d in READINGS.values() if d.distribution)


def slo_share(s: Subject, name: str, limit: float) -> Reading:
    """Share of observations at most ``limit``: exact at a bucket edge, else bounded by the edges around it.

    One histogram at a time: the page cannot say how many requests meet two goals at once.
    """
    unit, key = "ratio", f"{name}_slo_share"
    base = compute_reading(name, s)
    if base.state in ("not_exported", "absent", "invalid", "no_traffic", "failed"):
        return Reading(key, base.state, unit, reason=base.reason, sources=base.sources, extra={"limit": limit})
    h = s.buckets(base.sources[0])
    low, high = count_at_most(h, limit)
    extra = {"limit": limit}
    if low == high:
        a, b = wilson(low, h.count) or (None, None)
        state = "partial" if s.partial_reason else "measured"
        return Reading(key, state, unit, low / h.count, a, b, h.count, base.sources, extra=extra)  # type: ignore[arg-type]
    return Reading(
        key, "bounded", unit, None, low / h.count, high / h.count, h.count, base.sources,
        reason=f"{limit:g} lies between bucket edges", extra=extra,
    )  # fmt: skip
