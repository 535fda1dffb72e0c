"""Let more or fewer requests run at once (max_num_seqs, max-running-requests).

What it touches: the queue for a seat. More seats can remove waiting; they make steps longer, so service time does not
get shorter. Its ceiling is on queue + prefill + decode: 1 / (1 - queue_share).

What it costs: more seats: longer gaps, more KV. Fewer seats: more waiting, shorter gaps.

When it is not worth a test: nobody waits for a seat, or the KV pool limits (then more seats mean more preemptions).
"""

from __future__ import annotations

from auditor.levers.ceilings import build, decide, exact
from auditor.model import Lever, Options, Readings

ID = "seats"
COSTS = ("more: longer gaps and more KV; fewer: longer queue",)
NEEDS = ("queue_share", "kv_bound")
TOUCHES = ("queue_seconds", "running_requests")


def lever(readings: Readings, options: Options) -> Lever:
    queue = readings.get("queue_share")
    if readings.has_flag("kv_bound"):
        return build(
            ID,
            touches=TOUCHES,
            verdict="not_worth_a_test",
            summary="the KV pool limits: more seats mean more preemptions; fewer may even help",
            ceiling=exact(1.0, 1.0),
            costs=COSTS,
            needs=NEEDS,
        )
    if queue is None or queue.value is None:
        return build(
            ID,
            touches=TOUCHES,
            verdict="undecided",
            summary="the page does not say how long requests wait for a seat",
            costs=COSTS,
            needs=NEEDS,
            settles="waiting requests over a series of scrapes",
            reason=(queue.reason if queue is not None else None) or "queue time unknown",
        )
    most = queue.high if queue.high is not None else queue.value
    high = None if most >= 1 else 1 / (1 - most)
    ceiling = exact(1.0, high, None if high is not None else "all of the time is waiting")
    word = decide(ceiling.at_99, options)
    if word == "not_worth_a_test":
        text = f"waiting is {queue.value:.1%} of queue + service"
    else:
        text = f"waiting is {queue.value:.1%} of queue + service; more seats shorten that and make gaps longer"
    return build(
        ID,
        touches=TOUCHES,
        verdict=word,
        summary=text,
        ceiling=ceiling,
        costs=COSTS,
        needs=NEEDS,
        settles="" if word == "not_worth_a_test" else "an A/B at twice the seats",
    )
