"""Do requests start at once?

Premise: requests do not wait for a seat: at most 10 % of their time in the engine is spent in its queue.

Why it matters: a queue is the one part of latency that more capacity removes. Where there is none, seats, replicas
and a larger pool change nothing; where there is one, no prefill or decode setting reaches it.

How it is measured: queue_share = queue / (queue + prefill + decode) request-seconds of finished requests, with a 95
% interval. Beside it, which limit binds at the scrapes: seats (all of --seats running and requests waiting), the KV
pool (kv_bound), the step budget (requests wait, seats and KV blocks are free), or none (nothing waits).

When it misleads: where few requests make up the share the interval is too narrow (5 % of them queued: it covers 59
to 70 % at 30 requests, 82 to 91 % at 100). Only finished requests count: one that still waits is in no sum. Time
before the engine (tokenization, input queue) is not in it: hidden_wait_share has that.

What to do: ask which limit binds before adding anything. Seats: max_num_seqs, as far as the KV pool carries it. KV
pool: see kv-pool. Step budget: see step-fill. Bursts: replicas, or a client that paces itself.
"""

from __future__ import annotations

from auditor.audits._limits import BindingLimit, find_binding_limit
from auditor.audits.judging import found_words, interval_words, judge, percent, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "requests do not wait for a seat"
QUESTION = "Do requests start at once?"
NEEDS = ("queue_share", "mean_queue_seconds", "running_requests", "waiting_requests", "kv_usage", "kv_usage_peak")
LIMIT = 0.10

_SECONDS = {
    "prefill_seconds": {"buckets": {0.3: 200}, "sum": 40.0, "count": 200},
    "decode_seconds": {"buckets": {1.5: 100, 2.0: 100}, "sum": 320.0, "count": 200},
    "inference_seconds": {"buckets": {2.0: 200}, "sum": 360.0, "count": 200},
    "finished_requests": {"stop": 200},
}
EXAMPLES = (
    Example(
        "holds",
        "200 requests queued for 4 s of 364 s: 1.1 %. Nothing waits, so no limit binds.",
        _SECONDS
        | {
            "queue_seconds": {"buckets": {0.3: 200}, "sum": 4.0, "count": 200},
            "running_requests": (6.0, 5.0),
            "waiting_requests": (0.0, 0.0),
            "kv_usage": (0.3, 0.25),
        },
    ),
    Example(
        "broken",
        "200 requests queued for 240 s of 600 s: 40 %. All 8 seats are taken and 5 requests wait.",
        _SECONDS
        | {
            "queue_seconds": {"buckets": {1.0: 100, 1.5: 100}, "sum": 240.0, "count": 200},
            "running_requests": (8.0, 8.0),
            "waiting_requests": (4.0, 5.0),
            "kv_usage": (0.3, 0.3),
        },
        settings={"seats": 8},
    ),
)  # fmt: skip


def audit(readings: Readings, options: Options) -> Verdict:
    share = readings["queue_share"]
    word: VerdictWord
    word, why = judge(share, options, at_most=LIMIT)
    limit = find_binding_limit(readings)
    return verdict(
        "queueing",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=_summary(readings, word, why, limit),
        expected=f"at most {LIMIT:g}",
        found=found_words(share),
        uses=NEEDS,
        flags=("kv_bound", "gauges_stale", "impossible_share", "too_few_requests", "lifetime_only", "counter_reset"),
        next=_next(word, limit),
    )


def _summary(readings: Readings, word: VerdictWord, why: str, limit: BindingLimit) -> str:
    share = readings["queue_share"]
    if share.value is not None:
        text = f"{percent(share.value)} of request time is queueing  {interval_words(share)}"
        if word == "undecided":
            text += f"; {why}"
    elif share.state == "bounded":
        text = f"{percent(share.low)} to {percent(share.high)} of request time is queueing"
        text += f"; {why}" if word == "undecided" else ""
    else:
        text = why
    if word == "broken" and limit.name == "none":
        return f"{text}; nothing waits at the scrapes, so they do not tell which limit it was"
    if limit.name == "unknown" and word != "broken":
        return text
    # A quiet moment says nothing of a share that is still in doubt.
    return text if limit.name == "none" and word == "undecided" else f"{text}; {limit.evidence}"


def _next(word: VerdictWord, limit: BindingLimit) -> tuple[str, ...]:
    if word == "broken":
        return {
            "seats": ("more seats (max_num_seqs), as far as the KV pool carries them, or replicas",),
            "kv_pool": ("the KV pool binds: fewer tokens a request, a smaller KV precision, more memory, or replicas",),
            "step_budget": ("the step budget binds: see step-fill, and what auditor step says of a larger one",),
            "other": ("find out what requests wait for: a KV transfer or a grammar, for example",),
            "none": ("find out which limit it was while requests wait: audit it with --series under load",),
            "unknown": (f"find out which limit it is: {limit.settle or 'audit it with --series under load'}",),
        }[limit.name]
    if word == "undecided":
        return ("audit a longer window, or one with traffic",)
    return ()
