"""Do requests keep their seats?

Premise: next to nothing is preempted: at most one preemption in a hundred finished requests.

Why it matters: a preempted request gives its KV blocks back and is computed again from its start. The work shows in
no token counter, only as time, and older releases count it as cache hits.

How it is measured: preemptions_per_request = preemptions / finished requests of the window. A count of events, not
a sample: it is judged by its value. A preemption too many breaks at once; none in few requests proves nothing.

When it misleads: a page's total since start mixes a bad hour long ago with now, so one scrape is undecided. Some
connectors preempt on purpose.

What to do: fewer seats (max_num_seqs) or more KV blocks; look at kv-pool first. Do not believe the hit share of a
window with preemptions on releases without prompt tokens by source.
"""

from __future__ import annotations

from auditor.audits.judging import found_words, judge, shown, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "next to nothing is preempted"
QUESTION = "Do requests keep their seats?"
NEEDS = ("preemptions_per_request", "preemptions", "finished_requests")
LIMIT = 0.01

EXAMPLES = (
    Example(
        "holds",
        "One preemption in 50,000 finished requests.",
        {"finished_requests": {"stop": 50_000}, "preemptions": 1.0},
        seconds=3600.0,
    ),
    Example(
        "broken",
        "12 preemptions in 400 finished requests: 3 in a hundred.",
        {"finished_requests": {"stop": 400}, "preemptions": 12.0},
        seconds=600.0,
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    rate = readings["preemptions_per_request"]
    word, why = _judge(readings, options)
    return verdict(
        "preemption",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=_summary(readings, word, why),
        expected=f"at most {LIMIT:g}",
        found=found_words(rate),
        uses=NEEDS,
        flags=(
            "kv_bound",
            "lifetime_only",
            "recompute_may_count_as_hits",
            "no_traffic",
            "too_few_requests",
            "counter_reset",
        ),
        next=_next(readings, word),
    )


def _judge(readings: Readings, options: Options) -> tuple[VerdictWord, str]:
    if readings.lifetime:
        return "undecided", "one scrape counts since the engine's start, not now"
    if readings["preemptions_per_request"].state == "no_traffic" and readings.value("preemptions"):
        return "broken", ""
    return judge(readings["preemptions_per_request"], options, at_most=LIMIT, fact=True)


def _summary(readings: Readings, word: VerdictWord, why: str) -> str:
    count, done = readings.value("preemptions"), readings.value("finished_requests")
    if count is None or done is None:
        return why
    times = "1 preemption" if count == 1 else f"{shown(count)} preemptions" if count else "no preemption"
    if done == 0 and count == 0:
        return why
    if done == 0:
        return f"{times} and no finished request"
    each = f" ({shown(count / done)} a request)" if count else ""
    text = f"{times} in {shown(done)} finished requests{each}"
    return f"{text}; {why}" if why else text


def _next(readings: Readings, word: VerdictWord) -> tuple[str, ...]:
    if word == "broken":
        return ("fewer seats (max_num_seqs) or more KV blocks: preempted requests are computed again from their start",)
    if word == "undecided":
        return ("audit a window: --window 10m",) if readings.lifetime else ("audit a longer window",)
    return ()
