"""An engine that stands still, or that is short of memory."""

from __future__ import annotations

from auditor.measures.flags.registry import flag
from auditor.measures.readings.prompt_work import (
    live_generated_tokens,
)
from auditor.measures.readings.requests import finished_count
from auditor.measures.subject import Subject
from auditor.model import Gauge


@flag
def scheduler_starvation(s: Subject) -> str | None:
    """Nothing finished, and fewer than one token per running request and second over at least 30 s."""
    length = s.window.seconds
    running = s.gauge("running_requests")
    if length is None or length < 30 or s.window.kind == "lifetime" or not running.first or not running.last:
        return None
    done, _ = finished_count(s)
    seats = min(running.first, running.last)
    generated = live_generated_tokens(s)
    stale = gauges_stale(s) is not None
    if done == 0 and generated < seats * length and not stale:
        return f"{generated:g} tokens in {length:.0f} s with at least {seats:g} requests running, and none finished"
    return None


@flag
def gauges_stale(s: Subject) -> str | None:
    """Gauges above 0 and equal at both ends while nothing moved: they describe no load."""
    if s.window.kind == "lifetime" or s.moved:
        return None
    told = next((w for p in s.parts if p.log is not None and (w := p.log.words.get("gauges_stale"))), None)
    if told is not None:
        return told
    still = []
    for name in ("running_requests", "waiting_requests", "kv_usage"):
        for p in s.parts:
            q = p.quantities.get(name)
            if isinstance(q, Gauge) and q.last and q.first == q.last:
                still.append(name)
    if still:
        return f"{', '.join(sorted(set(still)))} above 0 and unchanged while no token moved"
    return None


@flag
def kv_bound(s: Subject) -> str | None:
    """The KV pool limits: used at least 95 % with preemptions or a queue, or 5 % of requests preempted."""
    if s.window.kind == "lifetime" or gauges_stale(s) is not None:
        return None
    preempted = s.increase("preemptions") if s.has("preemptions") else 0.0
    done = 0.0 if s.of_log else finished_count(s)[0]
    if done > 0 and preempted >= 0.05 * done:
        return f"{preempted:g} preemptions for {done:g} finished requests"
    series = s.window.kind in ("series", "range")
    usage = s.read("kv_usage_peak" if series else "kv_usage_max").value
    waiting = s.gauge("waiting_requests") if s.has("waiting_requests") else None
    queued = (waiting.high if series else waiting.last) if waiting else 0.0
    if usage is not None and usage >= 0.95 and (preempted > 0 or (queued or 0) > 0):
        seen = f" and {preempted:g} preemptions" if s.has("preemptions") else ""
        return f"KV use {usage:.0%} with {queued or 0:g} waiting{seen}"
    return None
