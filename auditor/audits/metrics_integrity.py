"""Can the page be trusted?

Premise: the page can be trusted: what must add up adds up, it is one process, and two names of one thing agree.

Why it matters: a page that contradicts itself gives numbers as smoothly as any other. One abort of requests that never
ran put 12,547 s of prefill into a window of 4.4 s.

How it is measured: identities that hold on every sound page, each within one event or 0.5 %: prefill + decode =
inference; inference within end to end; prompt tokens by source = prompt tokens; finished requests' tokens within all
tokens, on a drained server. Finish reasons and timed requests agree within 2 %. A name and its older name agree. One
that fails breaks at once.

When it misleads: identities say that counters agree with each other, not that they count what one thinks. A restart in
the window makes readings partial and breaks nothing. Histogram sums that a re-exporter rebuilt (Ray) are left out.

What to do: take nothing from the readings that share the failing figures; look for a restart, an abort inside the
engine, a balancer before several processes, or two exporters under one address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.audits.judging import shown, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "the page can be trusted"
QUESTION = "Can the page be trusted?"
NEEDS = ("finished_requests", "prefill_time_seconds", "decode_time_seconds", "inference_time_seconds", "e2e_seconds",
         "prompt_tokens", "generation_tokens")  # fmt: skip
CONTRADICTIONS = ("not_one_process", "impossible_share")

EXAMPLES = (
    Example(
        "holds",
        "40 s of prefill and 360 s of decode are 400 s of inference, inside 410 s end to end.",
        {
            "finished_requests": {"stop": 200},
            "prefill_seconds": {"buckets": {0.3: 200}, "sum": 40.0, "count": 200},
            "decode_seconds": {"buckets": {2.0: 200}, "sum": 360.0, "count": 200},
            "inference_seconds": {"buckets": {2.5: 200}, "sum": 400.0, "count": 200},
            "e2e_seconds": {"buckets": {2.5: 200}, "sum": 410.0, "count": 200},
        },
    ),
    Example(
        "broken",
        "5 requests spent 12,550 s in the engine and 20 s end to end.",
        {
            "finished_requests": {"abort": 5},
            "prefill_seconds": {"buckets": {0.3: 2, 7680.0: 3}, "sum": 12_547.0, "count": 5},
            "decode_seconds": {"buckets": {5.0: 5}, "sum": 3.0, "count": 5},
            "inference_seconds": {"buckets": {5.0: 2, 7680.0: 3}, "sum": 12_550.0, "count": 5},
            "e2e_seconds": {"buckets": {5.0: 5}, "sum": 20.0, "count": 5},
        },
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    checked: Sequence[Mapping[str, Any]] = readings.facts.get("identities") or ()
    failed = [i for i in checked if not i["holds"]]
    contradictions = [name for name in CONTRADICTIONS if readings.has_flag(name)]
    events = max(readings.value("finished_requests") or 0.0, readings.value("first_tokens") or 0.0)
    word: VerdictWord = "undecided"
    if failed or contradictions:
        word = "broken"
    elif checked and events >= options.min_requests:
        word = "holds"
    return verdict(
        "metrics-integrity",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=_summary(readings, checked, failed, contradictions, events, options),
        expected="every identity within one event or 0.5 %",
        found=f"{len(checked) - len(failed)} of {len(checked)} identities hold",
        uses=NEEDS,
        flags=("impossible_share", "not_one_process", "finish_counts_disagree", "old_and_new_names", "counter_reset",
               "partial_response", "no_traffic", "too_few_requests"),
        next=_next(word),
    )  # fmt: skip


def _summary(
    readings: Readings,
    checked: Sequence[Mapping[str, Any]],
    failed: Sequence[Mapping[str, Any]],
    contradictions: Sequence[str],
    events: float,
    options: Options,
) -> str:
    if failed:
        return "; ".join(_identity_words(i) for i in failed[:3])
    if contradictions:
        return "; ".join(str(readings.facts.get(name, name)) for name in contradictions)
    if readings.has_flag("no_traffic"):
        return "idle: there is nothing to add up"
    if not checked:
        return "not one identity could be checked on this page"
    if events < options.min_requests:
        return f"{len(checked)} of {len(checked)} identities hold; only {shown(events)} requests behind them"
    text = f"{len(checked)} of {len(checked)} identities hold"
    return f"{text}; readings are partial: it restarted" if readings.has_flag("counter_reset") else text


def _identity_words(identity: Mapping[str, Any]) -> str:
    if identity["left"] is None:
        return f"{identity['identity']}: they disagree"
    return f"{identity['identity']} fails: {shown(identity['left'])} and {shown(identity['right'])}"


def _next(word: VerdictWord) -> tuple[str, ...]:
    if word == "broken":
        return ("leave out what rests on these figures; look for an engine-side abort, a balancer, or two exporters",)
    if word == "undecided":
        return ("audit a window with traffic; auditor doctor says which series are missing",)
    return ()
