"""Is prefill where request time goes?

Premise: prefill is where *request* time goes: at least half of prefill + decode request-seconds.

Why it matters: a week on prefill settings is spent well only if requests spend their time in prefill. The first look
is one division, and it is rarely made.

How it is measured: prefill_share = P / (P + D) from the engine's own prefill-time and decode-time histograms of
finished requests, with a 95 % interval from their buckets. Holds when the whole interval is at least 0.5, broken when
it is wholly below.

When it misleads: these are request-seconds. Requests overlap, so it is no share of GPU time. Decode time contains the
prefill chunks of other requests, so a small share does not bound what a prefill lever gains: a server with a share of
0.365 ran the same requests 15.6 times faster once their prefixes were cached. Requests that were aborted inside the
engine before they ran spoil the sums; that is recognised and said.

What to do: where decode dominates, first ask whether answers must be that long (output length, reasoning mode), then
look at the levers with their own ceilings. Never conclude from this share alone what a lever can gain.
"""

from __future__ import annotations

from auditor.audits.judging import found_words, interval_words, judge, percent, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "prefill is where request time goes"
QUESTION = "Is prefill most of the time?"
NEEDS = ("prefill_share", "decode_share")
LIMIT = 0.5


def _split(prefill: dict[float, int], decode: dict[float, int], p: float, d: float) -> dict[str, object]:
    n = sum(prefill.values())
    return {
        "prefill_seconds": {"buckets": prefill, "sum": p, "count": n},
        "decode_seconds": {"buckets": decode, "sum": d, "count": n},
        "inference_seconds": {"buckets": decode, "sum": p + d, "count": n},
        "e2e_seconds": {"buckets": decode, "sum": p + d, "count": n},
        "finished_requests": {"stop": n},
    }


EXAMPLES = (
    Example(
        "holds",
        "200 requests with 320 s of prefill and 80 s of decode: 80 %.",
        _split({1.5: 100, 2.0: 100}, {0.5: 200}, 320.0, 80.0) | {
            "inference_seconds": {"buckets": {2.0: 100, 2.5: 100}, "sum": 400.0, "count": 200},
            "e2e_seconds": {"buckets": {2.0: 100, 2.5: 100}, "sum": 400.0, "count": 200},
        },
    ),
    Example(
        "broken",
        "200 requests with 50 s of prefill and 350 s of decode: 12.5 %.",
        _split({0.3: 200}, {1.5: 50, 2.0: 100, 2.5: 50}, 50.0, 350.0),
    ),
)  # fmt: skip


def audit(readings: Readings, options: Options) -> Verdict:
    share = readings["prefill_share"]
    word: VerdictWord
    word, why = judge(share, options, at_least=LIMIT)
    steps: tuple[str, ...] = ()
    if readings.has_flag("decode_node"):
        word, why = "not_applicable", "a decode node: its prompts are prefilled elsewhere"
    elif readings.has_flag("prefill_node"):
        word, why = "not_applicable", "a prefill node: decode runs elsewhere"
    if share.value is not None:
        summary = f"{percent(share.value)} of request time; decode {percent(1 - share.value)}  {interval_words(share)}"
        if word not in ("holds", "broken"):
            summary += f"; {why}"
    elif share.state == "bounded":
        summary = f"between {percent(share.low)} and {percent(share.high)} of request time: {share.reason}"
    else:
        summary = why
    if word == "broken":
        steps = (
            "look at output length first: max_tokens, reasoning mode",
            "do not read this share as a limit on prefill levers: decode time contains other requests' prefill",
        )
    elif word == "undecided":
        steps = ("audit a longer window, or one with traffic",)
    return verdict(
        "time-split",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=summary,
        expected=f"at least {LIMIT:g}",
        found=found_words(share),
        uses=NEEDS,
        flags=("impossible_share", "finish_counts_disagree", "unfinished_work", "counter_reset", "too_few_requests",
               "lifetime_only", "decode_node", "prefill_node", "no_traffic"),
        next=steps,
    )  # fmt: skip
