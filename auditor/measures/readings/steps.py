"""Engine steps: what their histogram can and cannot say.

N are the recorded steps, N8 those of at most 8 tokens. C are the computed prompt tokens, Y = C + generated tokens -
first tokens what the model ran, Cf = C - first tokens what can have run without a record. E0 and E1 are the most
prompt tokens in progress at the window's start and end. b is the largest chunk of a prompt: the smaller of the step
budget and the long-prefill threshold. cap(x) is how many chunks of x tokens the prompts can have had beside their
last ones, and U = min((Cf + E1) / x, cap(x)) the most steps out of sight. Where an engine ended inside the window (a
restart in a series, a replaced pod), E1 and cap(x) have no limit: what its prompts had run is in no counter.
"""

from __future__ import annotations

import math

from auditor.measures.histogram import iter_buckets
from auditor.measures.readings.agreement import IDENTITY_TOLERANCE
from auditor.measures.readings.passes import counts_passes, passes, tokens_per_pass
from auditor.measures.readings.registry import Found, reading
from auditor.measures.readings.requests import finished_count
from auditor.measures.readings.step_facts import (
    SMALL_STEP_TOKENS,
    StepFacts,
    all_finished,
    assumptions,
    gather_steps,
    several_front_ends,
)
from auditor.measures.subject import Missing, Subject

MEASURED_WIDTH = 1.05

SOURCES = ("step_tokens", "prompt_tokens_by_source", "generation_tokens", "ttft_seconds")


@reading(unit="steps")
def steps(s: Subject) -> Found:
    """Recorded engine steps: count of the step histogram. A step that gave no output is not in it."""
    if counts_passes(s):
        count = passes(s)
        return Found(count, count=count, sources=("passes",), caveats=("forward passes",))
    h = s.histogram("step_tokens")
    front_ends = several_front_ends(s)
    if front_ends is not None:
        raise Missing("invalid", front_ends, sources=("step_tokens", "itl_seconds"))
    return Found(h.count, count=h.count, sources=("step_tokens",))


def exceeds_budget(s: Subject) -> bool:
    """An observation lies above the budget: chunks of a prompt were merged into one recorded step."""
    budget = s.setting("budget")
    if budget is None or not s.has("step_tokens"):
        return False
    return any(b.low >= budget for b in iter_buckets(s.histogram("step_tokens")))


@reading(unit="tokens")
def tokens_per_step(s: Subject) -> Found:
    """Tokens the model ran per engine step, recorded or not: limits, or Y / N where they are within 5 %.

    Low: max(1, least of (Y + e) / (N + min(max(0, Cf + e) / b, cap(b)))) over e from -E0 to E1;
    high: min(budget, (Y + E1) / N). The mean of the histogram itself is not it: whole prompts are in single steps.
    """
    if counts_passes(s):
        return tokens_per_pass(s)
    f = gather_steps(s)

    def with_hidden(extra: float) -> float:
        hidden = min(max(0.0, f.unfinished_computed + extra) / f.chunk, f.most_chunks(f.chunk))
        return (f.ran + extra) / (f.recorded + hidden)

    ends = [-f.in_progress_start, f.in_progress_end]
    kink = f.chunk * f.most_chunks(f.chunk) - f.unfinished_computed
    if ends[0] < kink < ends[1]:
        ends.append(kink)
    lows = [with_hidden(e) for e in ends if math.isfinite(e)]
    if math.isinf(f.in_progress_end) and math.isinf(f.most_chunks(f.chunk)):
        lows.append(f.chunk)
    low = max(1.0, min(lows)) if math.isfinite(f.in_progress_start) else 1.0
    if not f.computed_is_live or f.preempted:
        low = 0.0
    most = math.inf if f.uncounted_work else (f.ran + f.in_progress_end) / f.recorded
    if most < 1 - IDENTITY_TOLERANCE:
        raise Missing(
            "invalid",
            f"{f.recorded:g} recorded steps for {f.ran + f.in_progress_end:g} tokens: each step runs one or more, so "
            "steps were recorded more than once",
            sources=SOURCES,
        )
    if f.budget_known:
        most = min(f.budget, most)
    high = most if math.isfinite(most) else None
    caveats = assumptions(f)
    if exceeds_budget(s):
        caveats += ("an observation lies above the step budget: chunks were merged, their mean is no step size",)
    if high is not None and low > 0 and high <= MEASURED_WIDTH * low and not f.uncounted_work:
        value = min(max(f.ran / f.recorded, low), high)
        return Found(value, low, high, f.recorded, SOURCES, caveats)
    if high is not None:
        low = min(low, high)
    return Found(None, low, high, f.recorded, SOURCES, caveats, "steps without output are not recorded")


@reading(unit="ratio")
def small_step_share(s: Subject) -> Found:
    """Recorded steps of at most 8 tokens that really ran at most 8: max(0, N8 - U) / N to N8 / N.

    A recorded step of few tokens may have carried the middle chunk of somebody's prompt as well.
    """
    f = gather_steps(s)
    if SMALL_STEP_TOKENS not in f.steps.edges:
        raise Missing("invalid", f"the step histogram has no edge at {SMALL_STEP_TOKENS}", sources=("step_tokens",))
    size = min(f.threshold or math.inf, f.budget - SMALL_STEP_TOKENS)
    hidden = f.hidden_steps(size) if size > 0 and f.computed_is_live and not f.uncounted_work else math.inf
    if math.isfinite(hidden):
        hidden = math.floor(hidden)
    high = f.at_most_8 / f.recorded
    low = max(0.0, f.at_most_8 - hidden) / f.recorded
    if hidden == 0 or high == 0:
        return Found(high, count=f.recorded, sources=SOURCES, caveats=assumptions(f))
    reason = "a small recorded step may have run a chunk of a prompt as well"
    return Found(None, low, high, f.recorded, SOURCES, assumptions(f), reason)


@reading(unit="ratio")
def full_step_share(s: Subject) -> Found:
    """Steps that used the whole budget: A / (N + A) to min(1, ((Y + E1) / N - 1) / (budget - 1)).

    A is the least number of full chunks: from the lengths of computed prompts at their lower edges, and from the
    totals. It is 0 where a long-prefill threshold below the budget is set.
    """
    f = gather_steps(s)
    least = 0.0
    if f.budget_known and f.computed_is_live and not f.preempted and not (f.threshold and f.threshold < f.budget):
        least = max(0.0, _least_full_chunks(f), (f.computed - f.in_progress_start) / f.budget - f.first_tokens)
        if not math.isfinite(least):
            least = 0.0
    low = least / (f.recorded + least)
    high = 1.0
    if not f.uncounted_work and f.budget > 1:
        high = min(1.0, max(0.0, ((f.ran + f.in_progress_end) / f.recorded - 1) / (f.budget - 1)))
    if math.isclose(low, high, abs_tol=1e-12):
        return Found(high, count=f.recorded, sources=SOURCES, caveats=assumptions(f))
    low = min(low, high)
    return Found(None, low, high, f.recorded, SOURCES, assumptions(f), "steps without output are not recorded")


def _least_full_chunks(f: StepFacts) -> float:
    """Full chunks that finished prompts must have had, without the longest ones that may have begun earlier."""
    if f.lengths is None:
        return 0.0
    early = f.running_start
    total = 0.0
    for b in reversed(list(iter_buckets(f.lengths))):
        left_out = min(early, b.count)
        early -= left_out
        # A length is above its bucket's lower edge, so at least one token more: ceil((low + 1) / budget) - 1.
        total += (b.count - left_out) * math.floor(b.low / f.budget)
    return total


@reading(unit="steps")
def min_steps(s: Subject) -> Found:
    """Least number of engine steps there can have been: max(N, ceil((Y - E0) / budget), one request's own steps).

    One request needs ceil(computed / budget) steps for its prompt and one more for each token after the first, and
    the longest such chain is at least the mean one. That term is used only where nothing ran at the start, there is
    no speculation and every request finished.
    """
    f = gather_steps(s, may_be_idle=True)
    computed = f.computed
    caveats = assumptions(f)
    if not s.has("prompt_tokens_by_source"):
        if s.has("prefix_hit_tokens") and s.increase("prefix_hit_tokens") > 0:
            computed = 0.0
        else:
            caveats = (*caveats, "if nothing was cached: the page has no count of cached tokens")
    ran = computed + (f.generated - f.first_tokens if f.first_tokens_told else 0.0)
    least = f.recorded
    if f.budget_known:
        if math.isfinite(f.in_progress_start):
            least = max(least, math.ceil((ran - f.in_progress_start) / f.budget - 1e-9))
        least = max(least, _chain(s, f, computed))
    return Found(least, count=f.recorded, sources=SOURCES, caveats=caveats)


def _chain(s: Subject, f: StepFacts, computed: float) -> float:
    if f.speculative or f.running_start or not s.has("generation_tokens"):
        return 0.0
    try:
        done, _ = finished_count(s)
    except Missing:
        return 0.0
    if done <= 0 or not all_finished(s, done):
        return 0.0
    return math.ceil(computed / done / f.budget + f.generated / done - 1 - 1e-9)
