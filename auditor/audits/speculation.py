"""Does speculation pay in tokens?

Premise: speculation pays in tokens: one draft step yields at least 1.5 of them.

Why it matters: drafting and verifying cost time and KV room in every step. Where few drafts are kept, the same
engine without a drafter gives its tokens sooner.

How it is measured: tokens_per_draft_step = 1 + accepted / draft steps, which can be compared at any draft length.
It is a ratio of two counts, judged by its value once at least --min-requests draft steps are behind it.

When it misleads: tokens are not time. What a draft step costs grows with the batch: the same 2.0 tokens may pay
with two requests running and lose with thirty. Acceptance falls with every further draft token, so never compare
acceptance at different draft lengths. Drafts that repeat the prompt (n-gram) look best on dull text.

What to do: compare generation rates with the drafter on and off at the load you serve. Where later positions are
hardly ever kept, draft fewer tokens.
"""

from __future__ import annotations

from auditor.audits.judging import found_words, judge, percent, shown, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "speculation pays in tokens"
QUESTION = "Does speculation pay?"
NEEDS = ("tokens_per_draft_step", "drafted_per_draft_step", "draft_acceptance", "kept_share_of_verified")
LIMIT = 1.5

EXAMPLES = (
    Example(
        "holds",
        "1,000 draft steps of 4 tokens, 1,500 of 4,000 kept: 2.5 tokens a step.",
        {"drafts": 1000.0, "drafted_tokens": 4000.0, "accepted_tokens": 1500.0, "finished_requests": {"stop": 60}},
    ),
    Example(
        "broken",
        "1,000 draft steps of 4 tokens, 200 of 4,000 kept: 1.2 tokens a step.",
        {"drafts": 1000.0, "drafted_tokens": 4000.0, "accepted_tokens": 200.0, "finished_requests": {"stop": 60}},
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    tokens = readings["tokens_per_draft_step"]
    word: VerdictWord
    word, why = judge(tokens, options, at_least=LIMIT)
    if tokens.state == "not_exported":
        word, why = "not_applicable", f"no drafter is seen: {tokens.reason or 'no draft counters'}"
    elif tokens.state == "no_traffic":
        why = "no draft step in the window"
    steps: tuple[str, ...] = ()
    if word == "broken":
        steps = ("try fewer draft tokens, or none, on one replica at the load you serve, and compare generation rates",)
    elif word == "holds":
        steps = ("compare generation rates with and without the drafter at full load: a draft costs more in a batch",)
    elif word == "undecided":
        steps = ("audit a longer window, or one with traffic",)
    return verdict(
        "speculation",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=_summary(readings, why),
        expected=f"at least {LIMIT:g}",
        found=found_words(tokens),
        uses=NEEDS,
        flags=("lifetime_only", "counter_reset", "no_traffic"),
        next=steps,
    )


def _summary(readings: Readings, why: str) -> str:
    tokens = readings["tokens_per_draft_step"]
    if tokens.value is None:
        return why
    drafted, acceptance = readings.value("drafted_per_draft_step"), readings.value("draft_acceptance")
    text = f"{shown(tokens.value)} tokens a draft step"
    if drafted is not None and acceptance is not None:
        text += f" ({shown(drafted)} drafted, {percent(acceptance)} kept)"
    text += f", {shown(tokens.count)} draft steps"
    return f"{text}; {why}" if why else f"{text}; the gain in time depends on the batch"
