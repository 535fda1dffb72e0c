"""Engine steps: what their histogram can and cannot say.

It sees only steps that gave output and puts a whole prompt on the step of its first token, so it is bounded by
what the counters allow. The letters are those of docs/readings.md: N recorded steps, N8 those of at most 8 tokens,
C live computed prompt tokens, Y = C + generation - first tokens (what the model ran), E0 and E1 the most prompt
tokens in progress at the window's ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from auditor.measures.histogram import iter_buckets
from auditor.measures.readings.agreement import IDENTITY_TOLERANCE
from auditor.measures.readings.passes import counts_passes, passes, tokens_per_pass
from auditor.measures.readings.prompt_work import cache_is_off, demand
from auditor.measures.readings.registry import Found, reading
from auditor.measures.readings.requests import finished_count
from auditor.measures.subject import Missing, Subject
from auditor.model import Counter, Histogram

LEAST_BUDGET = 256
"""Without a budget only this much is assumed: smaller ones are not in use."""
SMALL_STEP_TOKENS = 8
MEASURED_WIDTH = 1.05
FRONT_ENDS_RATIO = 1.25


@dataclass(frozen=True)
class StepFacts:
    """What the bounds are made of; tokens and steps of the window, added over engines."""

    recorded: float
    at_most_8: float
    steps: Histogram
    computed: float
    """C, or prompt tokens where no live computed count is exported (then lows are 0)."""
    computed_is_live: bool
    generated: float
    first_tokens: float
    first_tokens_told: bool
    """False where finished requests stand in for first tokens and others may be running: Y is then a most."""
    in_progress_start: float
    in_progress_end: float
    running_start: float
    running_end: float
    """R0 and R1; infinite where the page does not say what runs."""
    longest: float
    """L, the longest prompt there can be, in tokens."""
    kv_tokens_end: float | None
    lengths: Histogram | None
    budget: float
    budget_known: bool
    threshold: float | None
    speculative: bool
    preempted: bool

    @property
    def chunk(self) -> float:
        """b: most tokens of one prompt in one step."""
        return min(self.budget, self.threshold or math.inf)

    @property
    def ran(self) -> float:
        """Y."""
        return self.computed + self.generated - self.first_tokens

    @property
    def unfinished_computed(self) -> float:
        """Cf: computed tokens beyond the one that each first token's own step must hold."""
        return self.computed - self.first_tokens

    def most_chunks(self, size: float) -> float:
        """cap(x): most chunks of ``size`` tokens that can have ended without a first token."""
        if self.lengths is None:
            return math.inf
        total = 0.0
        for b in iter_buckets(self.lengths):
            upper = min(b.high, self.longest) if math.isinf(b.high) else b.high
            if math.isinf(upper):
                return math.inf
            total += b.count * max(0, math.floor((upper - 1) / size))
        if not self.running_end:
            return total
        each = math.floor((self.longest - 1) / size) if math.isfinite(self.longest) else math.inf
        tail = self.running_end * each if each else 0.0
        if self.kv_tokens_end is not None:
            tail = min(tail, self.kv_tokens_end / size)
        return total + tail

    @property
    def uncounted_work(self) -> bool:
        """Draft tokens or recomputed prompts ran, which no counter of tokens shows."""
        return self.speculative or self.preempted

    def hidden_steps(self, size: float) -> float:
        """U(x): most steps that ran chunks of ``size`` and were not recorded."""
        return max(0.0, min((self.unfinished_computed + self.in_progress_end) / size, self.most_chunks(size)))


def gather(s: Subject, *, may_be_idle: bool = False) -> StepFacts:
    """Collect what the bounds need.

    Raises:
        Missing: no step histogram, or nothing in it.
    """
    steps = s.histogram("step_tokens")
    front_ends = several_front_ends(s)
    if front_ends is not None:
        raise Missing("invalid", front_ends, sources=("step_tokens", "itl_seconds"))
    if steps.flaw or not steps.edges:
        raise Missing("invalid", steps.flaw or "the step histogram has no buckets", sources=("step_tokens",))
    if steps.count <= 0 and not may_be_idle:
        raise Missing("no_traffic", "no engine step gave output in the window", sources=("step_tokens",))
    if s.engine.prefill_runs != "mixed":
        raise Missing("not_exported", f"{s.engine.title} exports no steps that hold prefill and decode together")
    at_most_8 = 0.0
    for b in iter_buckets(steps):
        if b.high <= SMALL_STEP_TOKENS:
            at_most_8 += b.count
    live = s.has("prompt_tokens_by_source")
    if live:
        computed = s.counter("prompt_tokens_by_source").split.get("local_compute", 0.0)
        if s.has("recomputed_tokens"):
            computed -= s.increase("recomputed_tokens")
    else:
        computed, _ = demand(s)
    generated = s.value("generation_tokens")
    first = s.value("first_tokens")
    told = s.has("ttft_seconds") or _all_finished(s, first)
    longest = longest_prompt(s)
    start, end = prompts_in_progress(s, longest)
    running = s.gauge("running_requests") if s.has("running_requests") else None
    lengths = None
    if s.has("computed_prompt_length_tokens"):
        h = s.histogram("computed_prompt_length_tokens")
        lengths = h if h.edges else None
    budget = s.setting("budget")
    threshold = s.setting("threshold")
    return StepFacts(
        recorded=steps.count,
        at_most_8=at_most_8,
        steps=steps,
        computed=computed,
        computed_is_live=live and told,
        first_tokens_told=told,
        generated=generated,
        first_tokens=first,
        in_progress_start=start,
        in_progress_end=end,
        running_start=0.0 if s.from_zero else _known(running.first if running else None),
        running_end=_known(running.last if running else None),
        longest=longest,
        kv_tokens_end=kv_tokens_held(s, end=True),
        lengths=lengths,
        budget=budget or LEAST_BUDGET,
        budget_known=budget is not None,
        threshold=threshold or None,
        speculative=s.has("drafts") and s.increase("drafts") > 0,
        preempted=s.has("preemptions") and s.increase("preemptions") > 0,
    )


def _known(level: float | None) -> float:
    return math.inf if level is None else level


def several_front_ends(s: Subject) -> str | None:
    """Recorded steps times the mean gap exceed the wall time: each front end records steps of its own.

    Only where the page is in multiprocess mode; single servers reach 1.12 of the wall, two front ends 1.35 and more.
    """
    if not all(p.multiprocess for p in s.parts) or s.window.seconds is None or not s.has("itl_seconds"):
        return None
    gaps, steps = s.histogram("itl_seconds"), s.histogram("step_tokens")
    if gaps.count <= 0 or gaps.rebuilt_sum:
        return None
    engines = max(1, len({(p.target, p.rank) for p in s.parts if not p.pooled}))
    busy = steps.count * gaps.sum / gaps.count / (s.window.seconds * engines)
    if busy <= FRONT_ENDS_RATIO:
        return None
    return (
        f"the recorded steps would fill {busy:.2f} times the window: several front ends each record a step of their own"
    )


def longest_prompt(s: Subject) -> float:
    """L: the context, else the next 1-2-5 step above the top finite edge of the prompt-length buckets, in tokens."""
    context = s.setting("context")
    if context is not None:
        return context
    top = 0.0
    for p in s.parts:
        h = p.quantities.get("prompt_length_tokens")
        if isinstance(h, Histogram) and len(h.edges) > 1:
            top = max(top, h.edges[-2])
    return next_125(top) if top > 0 else math.inf


def next_125(edge: float) -> float:
    """The next step of 1, 2, 5, 10, ... above ``edge``."""
    power = 10.0 ** math.floor(math.log10(edge))
    for factor in (1, 2, 5, 10, 20):
        if factor * power > edge * (1 + 1e-9):
            return factor * power
    raise AssertionError("unreachable")


def prompts_in_progress(s: Subject, longest: float, *, by_queries: bool = True) -> tuple[float, float]:
    """E0 and E1: most prompt tokens in progress at start and end, added over engines.

    ``by_queries=False`` leaves out limit (a), for the one question that asks about the queries themselves.
    """
    engines = s.engines() if len(s.parts) > 1 else [s]
    start = end = 0.0
    for e in engines:
        if e.parts[0].rank is None and len(engines) > 1 and not e.moved:
            continue
        # Without the gauge nobody can say that nothing runs.
        running = e.gauge("running_requests") if e.has("running_requests") else None
        if not e.from_zero:
            start += _in_progress(e, running.first if running else None, longest, end=False, by_queries=by_queries)
        end += _in_progress(e, running.last if running else None, longest, end=True, by_queries=by_queries)
    return start, end


def _in_progress(e: Subject, running: float | None, longest: float, *, end: bool, by_queries: bool = True) -> float:
    if running == 0:
        return 0.0
    budget, threshold = e.setting("budget") or LEAST_BUDGET, e.setting("threshold")
    prompts = math.floor(budget / threshold) + 1 if threshold else 1
    limits = [min(_known(running), prompts) * (longest - 1)]
    looked_up = _by_queries(e, end=end) if by_queries else None
    if looked_up is not None:
        limits.append(looked_up)
    by_pool = kv_tokens_held(e, end=end)
    if by_pool is not None:
        limits.append(by_pool)
    return min(limits)


def _total(e: Subject, name: str, *, end: bool) -> float | None:
    if not e.has(name):
        return None
    q = e.quantity(name)
    return (q.at_end if end else q.at_start) if isinstance(q, Counter) else None


def _by_queries(e: Subject, *, end: bool) -> float | None:
    """(a): looked-up tokens minus prompt tokens, as page totals: each prompt is looked up when it starts."""
    queries, prompt = _total(e, "prefix_query_tokens", end=end), _total(e, "prompt_tokens", end=end)
    units = {p.units.get("prefix_query_tokens") for p in e.parts}
    preempted = _total(e, "preemptions", end=end)
    if queries is None or prompt is None or cache_is_off(e) or "tokens" not in units or preempted != 0:
        return None
    setting = e.settings.get("prefix_caching")
    if setting is None or queries == 0 or queries < prompt:
        return None
    return queries - prompt


def kv_tokens_held(e: Subject, *, end: bool) -> float | None:
    """(b): used part of the KV pool in tokens; None for hybrid and sliding-window models."""
    if not e.has("kv_usage") or e.config("hybrid") or e.config("sliding_window"):
        return None
    held = 0.0
    for one in e.engines() if len(e.parts) > 1 else [e]:
        if not one.has("kv_usage"):
            continue
        gauge, pool = one.gauge("kv_usage"), one.read("kv_pool_tokens").value
        usage = gauge.last if end else gauge.first
        if usage is None or pool is None:
            return None
        held += usage * pool
    return held


def _assumption(f: StepFacts) -> tuple[str, ...]:
    out = []
    if not f.budget_known:
        out.append(f"step budget unknown: at least {LEAST_BUDGET} assumed; give --budget N or --boot-log FILE")
    if f.threshold is None:
        out.append("long-prefill threshold taken as off; give --threshold N where one is set")
    if not f.computed_is_live:
        out.append("no live count of computed tokens: prompt tokens stand in for it above, nothing below")
    if f.preempted:
        out.append("preempted requests were computed again, which no token counter shows")
    if f.speculative:
        out.append("with speculation a step holds draft tokens that no counter of steps shows")
    return tuple(out)


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
    f = gather(s)

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
    caveats = _assumption(f)
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
    f = gather(s)
    if SMALL_STEP_TOKENS not in f.steps.edges:
        raise Missing("invalid", f"the step histogram has no edge at {SMALL_STEP_TOKENS}", sources=("step_tokens",))
    size = min(f.threshold or math.inf, f.budget - SMALL_STEP_TOKENS)
    hidden = f.hidden_steps(size) if size > 0 and f.computed_is_live and not f.uncounted_work else math.inf
    if math.isfinite(hidden):
        hidden = math.floor(hidden)
    high = f.at_most_8 / f.recorded
    low = max(0.0, f.at_most_8 - hidden) / f.recorded
    if hidden == 0 or high == 0:
        return Found(high, count=f.recorded, sources=SOURCES, caveats=_assumption(f))
    reason = "a small recorded step may have run a chunk of a prompt as well"
    return Found(None, low, high, f.recorded, SOURCES, _assumption(f), reason)


@reading(unit="ratio")
def full_step_share(s: Subject) -> Found:
    """Steps that used the whole budget: A / (N + A) to min(1, ((Y + E1) / N - 1) / (budget - 1)).

    A is the least number of full chunks: from the lengths of computed prompts at their lower edges, and from the
    totals. It is 0 where a long-prefill threshold below the budget is set.
    """
    f = gather(s)
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
        return Found(high, count=f.recorded, sources=SOURCES, caveats=_assumption(f))
    low = min(low, high)
    return Found(None, low, high, f.recorded, SOURCES, _assumption(f), "steps without output are not recorded")


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
    f = gather(s, may_be_idle=True)
    computed = f.computed
    caveats = _assumption(f)
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
    if done <= 0 or not _all_finished(s, done):
        return 0.0
    return math.ceil(computed / done / f.budget + f.generated / done - 1 - 1e-9)


def _all_finished(s: Subject, done: float) -> bool:
    """Every request of the window finished in it: first tokens, or prompt tokens, are those of finished requests."""
    if s.has("running_requests") and s.gauge("running_requests").last != 0:
        return False
    proofs = []
    if s.has("ttft_seconds"):
        proofs.append(s.histogram("ttft_seconds").count == done)
    if s.has("prompt_tokens") and s.has("prompt_length_tokens"):
        lengths = s.histogram("prompt_length_tokens")
        proofs.append(not lengths.rebuilt_sum and lengths.sum == s.increase("prompt_tokens"))
    return bool(proofs) and all(proofs)
