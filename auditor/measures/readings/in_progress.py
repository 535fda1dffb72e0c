"""The most prompt tokens that can be in progress at a window's ends: E0 and E1 of docs/readings.md."""

from __future__ import annotations

import math

from auditor.measures.readings.prompt_work import cache_is_off
from auditor.measures.subject import Subject
from auditor.model import Counter, Histogram

LEAST_BUDGET = 256
"""Without a budget only this much is assumed: smaller ones are not in use."""


def known_level(level: float | None) -> float:
    """A gauge, or infinity where the page does not have it: then nobody can say that nothing runs."""
    return math.inf if level is None else level


def longest_prompt(s: Subject) -> float:
    """L: the context, else the next 1-2-5 step above the top finite edge of the prompt-length buckets, in tokens."""
    context = s.setting("context")
    if context is not None:
        return context
    top = 0.0
    for p in s.parts:
        h = p.quantities.get("prompt_length_tokens")
        if isinstance(h, Histogram) and len(h.edges) > 1:
            top = max(top, h.edges[-2])
    return next_125(top) if top > 0 else math.inf


def next_125(edge: float) -> float:
    """The next step of 1, 2, 5, 10, ... above ``edge``; infinity for an edge at the end of what a float holds."""
    power = 10.0 ** math.floor(math.log10(edge))
    for factor in (1, 2, 5, 10, 20):
        if factor * power > edge * (1 + 1e-9):
            return factor * power
    return math.inf


def prompts_in_progress(s: Subject, longest: float, *, by_queries: bool = True) -> tuple[float, float]:
    """E0 and E1: most prompt tokens in progress at start and end, added over engines.

    ``by_queries=False`` leaves out limit (a), for the one question that asks about the queries themselves.
    """
    engines = s.engines() if len(s.parts) > 1 else [s]
    start = end = 0.0
    for e in engines:
        if e.parts[0].rank is None and len(engines) > 1 and not e.moved:
            continue
        # Without the gauge nobody can say that nothing runs.
        running = e.gauge("running_requests") if e.has("running_requests") else None
        if not e.from_zero:
            start += _in_progress(e, running.first if running else None, longest, end=False, by_queries=by_queries)
        end += _in_progress(e, running.last if running else None, longest, end=True, by_queries=by_queries)
    return start, end


def _in_progress(e: Subject, running: float | None, longest: float, *, end: bool, by_queries: bool = True) -> float:
    if running == 0:
        return 0.0
    budget, threshold = e.setting("budget") or LEAST_BUDGET, e.setting("threshold")
    prompts = math.floor(budget / threshold) + 1 if threshold else 1
    limits = [min(known_level(running), prompts) * (longest - 1)]
    looked_up = _by_queries(e, end=end) if by_queries else None
    if looked_up is not None:
        limits.append(looked_up)
    by_pool = kv_tokens_held(e, end=end)
    if by_pool is not None:
        limits.append(by_pool)
    return min(limits)


def _total(e: Subject, name: str, *, end: bool) -> float | None:
    if not e.has(name):
        return None
    q = e.quantity(name)
    return (q.at_end if end else q.at_start) if isinstance(q, Counter) else None


def _by_queries(e: Subject, *, end: bool) -> float | None:
    """(a): looked-up tokens minus prompt tokens, as page totals: each prompt is looked up when it starts."""
    queries, prompt = _total(e, "prefix_query_tokens", end=end), _total(e, "prompt_tokens", end=end)
    units = {p.units.get("prefix_query_tokens") for p in e.parts}
    preempted = _total(e, "preemptions", end=end)
    if queries is None or prompt is None or cache_is_off(e) or "tokens" not in units or preempted != 0:
        return None
    setting = e.settings.get("prefix_caching")
    if setting is None or queries == 0 or queries < prompt:
        return None
    return queries - prompt


def kv_tokens_held(e: Subject, *, end: bool) -> float | None:
    """(b): used part of the KV pool in tokens; None for hybrid and sliding-window models."""
    if not e.has("kv_usage") or e.config("hybrid") or e.config("sliding_window"):
        return None
    held = 0.0
    for one in e.engines() if len(e.parts) > 1 else [e]:
        if not one.has("kv_usage"):
            continue
        gauge, pool = one.gauge("kv_usage"), one.read("kv_pool_tokens").value
        usage = gauge.last if end else gauge.first
        if usage is None or pool is None:
            return None
        held += usage * pool
    return held
