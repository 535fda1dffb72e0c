"""Run more copies of the engine.

What it touches: each copy gets fewer requests: less queue, smaller batches, fewer steps shared with somebody's prefill.

What it costs: accelerators. Prefixes are split over copies, so the hit share can fall unless requests are routed by it.

When it is not worth a test: requests already run alone and do not wait.
"""

from __future__ import annotations

from auditor.levers.ceilings import build, exact
from auditor.model import Lever, Options, Readings

ID = "replicas"
COSTS = ("accelerators", "prefixes are split over copies: the hit share can fall")
NEEDS = ("queue_share", "running_requests")
ALONE = 1.0
UNEVEN = 1.2
TOUCHES = ("queue_seconds", "running_requests", "decode_seconds")


def lever(readings: Readings, options: Options) -> Lever:
    running, queue = readings.get("running_requests"), readings.get("queue_share")
    most = running.extra.get("max") if running is not None else None
    waits = queue.value if queue is not None else None
    if isinstance(most, int | float) and 0 < most <= ALONE and waits is not None and waits < 0.01:
        return build(
            ID,
            touches=TOUCHES,
            verdict="not_worth_a_test",
            summary=f"at most {most:g} request ran at once and none waited: a copy would idle",
            ceiling=exact(1.0, 1.0),
            costs=COSTS,
            needs=NEEDS,
        )
    notes = []
    skew = readings.value("engine_skew")
    if skew is not None and skew > UNEVEN:
        notes.append(f"the busiest engine gets {skew:.2f} times the mean: even out routing first")
    if waits is not None:
        notes.append(f"waiting is {waits:.1%} of queue + service")
    if not notes:
        notes.append("what a smaller batch gains is on no single page")
    return build(
        ID,
        touches=TOUCHES,
        verdict="undecided",
        summary="; ".join(notes),
        costs=COSTS,
        needs=NEEDS,
        settles="half the traffic for ten minutes, then auditor compare",
        reason="a page shows one load only",
    )
