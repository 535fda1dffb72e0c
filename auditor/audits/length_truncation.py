"""Are answers complete?

Premise: answers are complete: at most 10 % of them are cut off by their token limit.

Why it matters: a cut answer scores near zero, raises no error and looks fast. It also hides how long answers would be,
so every plan that rests on output length rests on a censored number.

How it is measured: length_share = length / (finished - abort) from the engine's finish reasons, with a Wilson interval.
Where more than half the requests are probes (probes_dominate), it is judged on length_share_large_cap instead.

When it misleads: benchmarks that ignore the end of sequence end every request by length on purpose: all `length` and
generated tokens equal to the sum of caps is answered with a question, not a verdict. Client disconnects are in no
reason. n > 1 counts sequences.

What to do: find out which limit cut (max_tokens of the client, or what the context leaves) and who owns it; a reasoning
mode multiplies output and is a usual cause.
"""

from __future__ import annotations

from auditor.audits.judging import found_words, interval_words, judge, percent, shown, verdict
from auditor.model import Example, Options, Reading, Readings, Verdict, VerdictWord

PREMISE = "answers are complete"
QUESTION = "Are answers complete?"
NEEDS = ("length_share", "length_share_large_cap", "short_cap_share", "output_length_tokens", "cap_tokens")
LIMIT = 0.10

EXAMPLES = (
    Example(
        "holds",
        "400 requests, 8 of them cut off.",
        {"finished_requests": {"stop": 392, "length": 8, "abort": 0}},
    ),
    Example(
        "broken",
        "280 of 405 answers cut off.",
        {"finished_requests": {"stop": 125, "length": 280, "abort": 0}},
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    share = readings["length_share"]
    probes = readings.has_flag("probes_dominate")
    judged = readings["length_share_large_cap"] if probes else share
    word: VerdictWord
    word, why = judge(judged, options, at_most=LIMIT)
    benchmark = share.value == 1.0 and _asked_for_what_it_got(readings)
    if benchmark:
        word, why = "undecided", "every request generated exactly what it asked for: a benchmark?"
    elif probes and judged.state == "no_traffic":
        why = f"every request asked for at most {options.short_cap} tokens: probes, no answers to judge"
    if share.state == "not_exported":
        word, why = "not_applicable", share.reason or "finish reasons are not exported"
    return verdict(
        "length-truncation",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=_summary(share, judged, word, why),
        expected=f"at most {LIMIT:g}",
        found=found_words(share if benchmark else judged),
        uses=NEEDS,
        flags=("probes_dominate", "finish_counts_disagree", "too_few_requests", "lifetime_only", "aborts_not_exported",
               "parallel_sampling_inflates_counts_and_hits", "unfinished_work"),
        next=_next(readings, word, judged, benchmark=benchmark),
    )  # fmt: skip


def _asked_for_what_it_got(readings: Readings) -> bool:
    """The tokens asked for, over all finished requests, are the tokens generated."""
    caps, generated = readings.get("cap_tokens"), readings.value("finished_generation_tokens")
    if caps is None or caps.value is None or caps.count is None or generated is None:
        return False
    return abs(caps.value * caps.count - generated) < 0.5


def _summary(share: Reading, judged: Reading, word: VerdictWord, why: str) -> str:
    if share.value is None:
        return why
    events = share.extra.get("events")
    of = f"{shown(events)} of {shown(share.count)}" if events is not None else ""
    text = f"{percent(share.value)} cut by length  {interval_words(share, of=of)}"
    if judged is not share and judged.state != "no_traffic":
        answers = f"of the {shown(judged.count)} answers with a real cap cut by length"
        if judged.value is not None:
            text = f"{percent(judged.value)} {answers}  {interval_words(judged)}; the other requests are probes"
        elif judged.state == "bounded":
            text = f"{percent(judged.low)} to {percent(judged.high)} {answers}; the other requests are probes"
    if word not in ("holds", "broken"):
        text += f"; {why}"
    return text


def _next(readings: Readings, word: VerdictWord, judged: Reading, *, benchmark: bool) -> tuple[str, ...]:
    if word == "broken":
        mean = readings.value("output_length_tokens")
        length = f" (mean answer so far {shown(mean)} tokens, its real length is hidden by the cut)" if mean else ""
        return (f"answer length: max_tokens, reasoning mode, what the context leaves{length}",)
    if benchmark:
        return ("if this was a benchmark that ignores the end of sequence, the cut is its design; audit real traffic",)
    if word == "undecided" and readings.has_flag("probes_dominate") and judged.state == "no_traffic":
        return ("audit a window with real answers; what counts as a probe is --short-cap N",)
    if word == "undecided":
        return ("audit a longer window",)
    return ()
