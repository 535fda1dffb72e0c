"""Give the KV pool more memory, or store KV in fewer bits (gpu_memory_utilization, mem-fraction-static, KV precision).

What it touches: how many requests run at once, preemptions, and how long cached prefixes survive.

What it costs: memory the engine may need for peaks; fewer bits can change answers.

When it is not worth a test: the KV pool never filled. It is offered only where the pool limits.
"""

from __future__ import annotations

from auditor.levers.ceilings import build, exact, kv_peak
from auditor.model import Lever, Options, Readings

ID = "kv-memory"
COSTS = ("less memory for activation peaks", "a KV cache in fewer bits can change answers")
NEEDS = ("kv_bound",)
TOUCHES = ("preemptions", "waiting_requests", "kv_pool_tokens", "prefix_hit_share")


def lever(readings: Readings, options: Options) -> Lever:
    if readings.has_flag("kv_bound"):
        fact = readings.facts.get("kv_bound") or "the KV pool limits"
        return build(
            ID,
            touches=TOUCHES,
            verdict="undecided",
            summary=f"{fact}: first of the memory levers to try",
            costs=COSTS,
            needs=NEEDS,
            settles="one boot with a larger pool and the same load: preemptions and waiting must fall",
            reason="what a preemption costs in time is in no token counter",
        )
    peak = kv_peak(readings)
    if peak is None or peak >= 0.95:
        return build(
            ID,
            touches=TOUCHES,
            verdict="undecided",
            summary="how full the KV pool got is on no page"
            if peak is None
            else f"the KV pool was {peak:.0%} full, and nothing waited or was preempted",
            costs=COSTS,
            needs=NEEDS,
            settles="scrapes while requests run",
            reason="KV use unknown" if peak is None else "near the pool's limit",
        )
    return build(
        ID,
        touches=TOUCHES,
        verdict="not_worth_a_test",
        summary=f"KV pool {peak:.0%} full at most"
        + ("" if readings.value("preemptions") is None else ", nothing preempted for want of it"),
        ceiling=exact(1.0, 1.0),
        costs=COSTS,
        needs=NEEDS,
    )
