"""Do streams keep moving while prompts are prefilled?

Premise: streams keep moving: at most half of the forward passes (and of the engine's time, where it is timed) stop
every seated stream because prefill runs alone.

Why it matters: an engine that runs a ready prefill batch first and alone freezes every seated stream until the batch
ends. Under steady prompt-heavy arrivals a new prefill batch is always ready: 2,863 prefill batches left room for 36
to 38 decode batches in 15 minutes, with more than 250 streams seated, while KV use stayed low and the server looked
healthy.

How it is measured: frozen_pass_share, prefill passes in which a stream was surely (at least) or possibly (at most)
seated, over all passes; frozen_time_share where the engine times its passes. Broken when either is surely above one
half, holds when what is known stays below.

When it misleads: passes are not time, and a prefill pass as a rule takes longer than a decode pass: without timed
passes a holding premise says less. With mixed chunking decode rides along in prefill passes and nothing freezes; no
counter says so. A server that works one request at a time has many prefill passes and nobody to freeze: that stays a
range.

What to do: broken: the scheduling is the cause, not the KV pool, the queue or the hit rate. Look at a smaller prefill
chunk, a guaranteed share of decode passes where the release has one, or prefill on other nodes. Mixed chunking is
reported to have no effect together with speculative decoding: do not count on it there.
"""

from __future__ import annotations

from auditor.audits.judging import found_words, judge, percent, shown, verdict
from auditor.model import Example, Options, Reading, Readings, Verdict, VerdictWord

PREMISE = "streams keep moving while prompts are prefilled"
QUESTION = "Do streams keep moving?"
NEEDS = (
    "frozen_pass_share",
    "frozen_time_share",
    "decode_pass_share",
    "seconds_per_decode_pass",
    "prefill_tokens_per_pass",
)
LIMIT = 0.5

EXAMPLES = (
    Example(
        "holds",
        "100 prefill and 900 decode passes: at most 10 % of the passes freeze anybody.",
        {
            "passes": {"prefill": 100.0, "decode": 900.0},
            "running_requests": (8.0, 8.0),
            "finished_requests": 100.0,
            "aborted_requests": 0.0,
            "preemptions": 0.0,
        },
        engine="sglang",
    ),
    Example(
        "broken",
        "2,863 prefill and 37 decode passes in 900 s, 250 streams seated at both ends, 3 of them finished.",
        {
            "passes": {"prefill": 2863.0, "decode": 37.0},
            "decoded_tokens": 9_250.0,
            "running_requests": (250.0, 255.0),
            "finished_requests": 3.0,
            "aborted_requests": 0.0,
            "preemptions": 0.0,
        },
        seconds=900.0,
        engine="sglang",
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    passes, time = readings["frozen_pass_share"], readings["frozen_time_share"]
    word, why = _judge(readings, passes, time, options)
    return verdict(
        "decode-freeze",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=_summary(readings, word, why),
        expected=f"at most {LIMIT:g}",
        found=f"passes {found_words(passes)}; time {found_words(time)}",
        uses=NEEDS,
        flags=("scheduler_starvation", "gauges_stale", "lifetime_only", "no_traffic", "counter_reset"),
        next=_next(word),
    )


def _judge(readings: Readings, passes: Reading, time: Reading, options: Options) -> tuple[VerdictWord, str]:
    if readings.facts.get("prefill_runs") != "alone":
        return "not_applicable", passes.reason or "prefill shares steps with decode: no stream freezes"
    verdicts = [judge(r, options, at_most=LIMIT) for r in (time, passes) if r.has_value or r.state == "bounded"]
    if not verdicts:
        return ("not_applicable" if passes.state == "not_exported" else "undecided"), passes.reason or passes.state
    if any(word == "broken" for word, _ in verdicts):
        return "broken", ""
    return verdicts[0]


def _summary(readings: Readings, word: VerdictWord, why: str) -> str:
    if word == "not_applicable":
        return why
    texts = []
    for name, what in (("frozen_time_share", "engine time"), ("frozen_pass_share", "passes")):
        reading = readings[name]
        if reading.value is not None:
            texts.append(f"{percent(reading.value)} of {what} freeze every stream")
        elif reading.state == "bounded":
            low = f"{percent(reading.low)} to " if reading.low else "at most "
            texts.append(f"{low}{percent(reading.high)} of {what} freeze every stream")
    apart = readings.value("seconds_per_decode_pass")
    if word == "broken" and apart is not None:
        texts.append(f"one decode pass every {shown(apart)} s")
    if word == "holds" and readings["frozen_time_share"].state == "not_exported":
        texts.append("in time it may be more (passes are not timed)")
    return "; ".join([*texts, why] if why else texts)


def _next(word: VerdictWord) -> tuple[str, ...]:
    if word == "broken":
        return (
            "prefill-first scheduling is the cause: KV pool, queue size and hit rate are not the lever here",
            "try a smaller prefill chunk, a guaranteed share of decode passes where the release has it, or prefill on "
            "other nodes; mixed chunking is reported to have no effect together with speculative decoding",
        )
    if word == "undecided":
        return ("audit a window under load with --series: streams that stay seated between scrapes settle it",)
    return ()
