"""Serve a longer or shorter context (max_model_len).

What it touches: the longest prompt and answer that are accepted, and how many requests of full length the KV pool
holds. It changes nothing in speed where the KV pool is not the limit.

What it costs: a shorter context refuses or cuts long requests, a longer one must fit the pool at boot. A shorter
context does not reliably free KV: the pool is what is left after weights and activations. How much context users are
promised is a decision about the product.

When it is not worth a test: the KV pool never filled.
"""

from __future__ import annotations

from auditor.levers.ceilings import build, exact, kv_peak
from auditor.model import Lever, Options, Readings

ID = "context-length"
COSTS = (
    "shorter: long requests are refused or cut",
    "longer: must fit the pool at boot, or the engine refuses to start",
)
NEEDS = ("kv_usage_peak", "preemptions_per_request")
TOUCHES = ("max_model_len", "kv_pool_tokens", "kv_max_concurrency")


def lever(readings: Readings, options: Options) -> Lever:
    peak = kv_peak(readings)
    if readings.has_flag("kv_bound"):
        return build(
            ID,
            touches=TOUCHES,
            verdict="undecided",
            summary="the KV pool limits, but a shorter context does not reliably free it",
            costs=COSTS,
            needs=NEEDS,
            settles="two boots, pools in tokens (auditor boots), before any load test",
            reason="what KV pressure costs in time is on no page",
        )
    if peak is None:
        return build(
            ID,
            touches=TOUCHES,
            verdict="undecided",
            summary="how full the KV pool got is on no page",
            costs=COSTS,
            needs=NEEDS,
            settles="scrapes while requests run",
            reason="KV use unknown",
        )
    if peak >= 0.95:
        return build(
            ID,
            touches=TOUCHES,
            verdict="undecided",
            summary=f"the KV pool was {peak:.0%} full, and nothing waited or was preempted",
            costs=COSTS,
            needs=NEEDS,
            settles="a series of scrapes under load",
            reason="near the pool's limit",
        )
    return build(
        ID,
        touches=TOUCHES,
        verdict="not_worth_a_test",
        summary=f"KV pool {peak:.0%} full at most",
        ceiling=exact(1.0, 1.0),
        costs=COSTS,
        needs=NEEDS,
        settles="choose it by what users are promised",
    )
