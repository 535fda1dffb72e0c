"""Do steps fill the budget?

Premise: at least one engine step in ten uses the whole budget (max_num_batched_tokens).

Why it matters: a larger step budget can only help steps that are full. On a decode-bound server nearly every step
carries a handful of tokens, and the budget is not what limits.

How it is measured: full_step_share, bounded from counters: the step histogram sees only steps that gave output and
puts a whole prompt on one step, so its mean is no step size. The budget is on no page: --budget N or --boot-log
FILE. Without it "at least 256" is assumed, which often decides as well.

When it misleads: several front ends each record every step (said, not used). Speculation and preemption widen the
limits. A long-prefill threshold below the budget keeps single prompts from filling it.

What to do: where steps are small, look at decode (output length, speculation, batch size), not at the budget. Where
they are full, `auditor step` shows what a larger one trades.
"""

from __future__ import annotations

from auditor.audits.judging import found_words, judge, percent, verdict
from auditor.model import Example, Options, Readings, Verdict, VerdictWord

PREMISE = "at least one step in ten uses the whole budget"
QUESTION = "Do steps fill the budget?"
NEEDS = ("full_step_share", "small_step_share", "tokens_per_step", "steps", "min_steps")
LIMIT = 0.10

EXAMPLES = (
    Example(
        "holds",
        "A budget of 256 and 40 prompts of 2,000 tokens: at least 7 full chunks each.",
        {
            "step_tokens": {"buckets": {8.0: 60, 2048.0: 40}, "sum": 80_060.0, "count": 100},
            "prompt_tokens": 80_000.0,
            "prompt_tokens_by_source": {"local_compute": 80_000.0},
            "computed_prompt_length_tokens": {
                "buckets": {1500.0: 0, 2000.0: 40},
                "sum": 80_000.0,
                "count": 40,
            },
            "prompt_length_tokens": {"buckets": {1500.0: 0, 2000.0: 40}, "sum": 80_000.0, "count": 40},
            "generation_tokens": 100.0,
            "ttft_seconds": {"buckets": {1.0: 40}, "sum": 20.0, "count": 40},
            "running_requests": (0.0, 0.0),
            "finished_requests": {"stop": 40},
        },
        settings={"budget": 256},
    ),
    Example(
        "broken",
        "A budget of 8192 and decode steps of about 4 tokens.",
        {
            "step_tokens": {"buckets": {8.0: 980, 512.0: 20}, "sum": 13_900.0, "count": 1000},
            "prompt_tokens": 10_000.0,
            "prompt_tokens_by_source": {"local_compute": 10_000.0},
            "computed_prompt_length_tokens": {"buckets": {500.0: 40}, "sum": 10_000.0, "count": 40},
            "prompt_length_tokens": {"buckets": {500.0: 40}, "sum": 10_000.0, "count": 40},
            "generation_tokens": 3_940.0,
            "ttft_seconds": {"buckets": {1.0: 40}, "sum": 20.0, "count": 40},
            "running_requests": (0.0, 0.0),
            "finished_requests": {"stop": 40},
        },
        settings={"budget": 8192},
    ),
)


def audit(readings: Readings, options: Options) -> Verdict:
    full = readings["full_step_share"]
    word: VerdictWord
    word, why = judge(full, options, at_least=LIMIT)
    known = "budget" in readings.settings
    if word == "holds" and not known:
        word, why = "undecided", "the step budget is unknown"
    if full.state == "not_exported":
        word = "not_applicable"
    if word == "undecided" and not known and (full.has_value or full.state == "bounded"):
        why = "give --budget N"
    return verdict(
        "step-fill",
        readings,
        premise=PREMISE,
        question=QUESTION,
        word=word,
        summary=_summary(readings, word, why, known),
        expected=f"at least {LIMIT:g}",
        found=found_words(full),
        uses=NEEDS,
        flags=("steps_merge_chunks", "steps_per_front_end", "lifetime_only", "counter_reset"),
        next=_next(word, known),
    )


def _summary(readings: Readings, word: VerdictWord, why: str, known: bool) -> str:
    full, small = readings["full_step_share"], readings["small_step_share"]
    small_words = ""
    if small.value is not None:
        small_words = f"{percent(small.value)} are small (<= 8 tokens)"
    elif small.state == "bounded":
        small_words = f"at most {percent(small.high)} are small (<= 8)"
        if small.low:
            small_words = f"{percent(small.low)} to {percent(small.high)} are small (<= 8 tokens)"
    if not (full.has_value or full.state == "bounded"):
        return full.reason or full.state
    if full.value is not None:
        full_words = f"{percent(full.value)} are full"
    elif not full.low:
        full_words = f"at most {percent(full.high)} are full"
    else:
        full_words = f"{percent(full.low)} to {percent(full.high)} are full"
    if word in ("holds", "broken"):
        budget = "" if known else " even with a budget of 256"
        return "; ".join(t for t in (full_words + budget, small_words) if t)
    return "; ".join(t for t in (small_words or full_words, why) if t)


def _next(word: VerdictWord, known: bool) -> tuple[str, ...]:
    if word == "broken":
        return ("the step budget is not what limits: look at decode before raising it",)
    if word == "undecided" and not known:
        return ("give --budget N, or --boot-log FILE with the engine's own start-up lines",)
    if word == "undecided":
        return ("audit a window that begins and ends idle, or a longer one",)
    return ()
