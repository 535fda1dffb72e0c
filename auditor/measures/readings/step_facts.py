"""What the bounds on engine steps are made of, and how much work can be out of sight.

The histogram sees only steps that gave output and puts a whole prompt on the step of its first token, so it is bounded
by what the counters allow. The letters are explained in ``steps.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from auditor.measures.histogram import iter_buckets
from auditor.measures.readings.in_progress import (
    LEAST_BUDGET,
    known_level,
    kv_tokens_held,
    longest_prompt,
    prompts_in_progress,
)
from auditor.measures.readings.prompt_work import demand
from auditor.measures.subject import Missing, Subject
from auditor.model import Histogram

SMALL_STEP_TOKENS = 8
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
    killed: bool
    """Prompts in progress died with their engine inside the window: chunks of theirs are in no counter."""

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


def _running_at_start(s: Subject) -> float:
    """R0, added over engines: one that restarted counts from zero, the others of its fleet do not."""
    total = 0.0
    for e in s.engines() if s.restarted and s.window.kind == "scrapes" else [s]:
        if not e.from_zero:
            total += known_level(e.gauge("running_requests").first if e.has("running_requests") else None)
    return total


def died_inside(s: Subject) -> bool:
    """An engine ended inside the window, restarted in its place or replaced, with whatever it was working on.

    Of two pages the later one counts from the restart on, so that nothing of the dead engine is in it.
    """
    return s.window.kind in ("series", "range") and (s.restarted or any(p.gone for p in s.parts))


def gather_steps(s: Subject, *, may_be_idle: bool = False) -> StepFacts:
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
    told = s.has("ttft_seconds") or all_finished(s, first)
    longest = longest_prompt(s)
    start, end = prompts_in_progress(s, longest)
    running = s.gauge("running_requests") if s.has("running_requests") else None
    killed = died_inside(s)
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
        in_progress_end=math.inf if killed else end,
        running_start=_running_at_start(s),
        running_end=math.inf if killed else known_level(running.last if running else None),
        longest=longest,
        kv_tokens_end=None if killed else kv_tokens_held(s, end=True),
        lengths=lengths,
        budget=budget or LEAST_BUDGET,
        budget_known=budget is not None,
        threshold=threshold or None,
        speculative=s.has("drafts") and s.increase("drafts") > 0,
        preempted=s.has("preemptions") and s.increase("preemptions") > 0,
        killed=killed,
    )


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


def all_finished(s: Subject, done: float) -> bool:
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


def assumptions(f: StepFacts) -> tuple[str, ...]:
    """What the bounds take for granted, in words."""
    out = []
    if not f.budget_known:
        out.append(f"step budget unknown: at least {LEAST_BUDGET} assumed; give --budget N or --boot-log FILE")
    if f.threshold is None:
        out.append("long-prefill threshold taken as off; give --threshold N where one is set")
    if not f.computed_is_live:
        out.append("no live count of computed tokens: prompt tokens stand in for it above, nothing below")
    if f.preempted:
        out.append("preempted requests were computed again, which no token counter shows")
    if f.killed:
        out.append("an engine ended inside the window: steps of prompts that died with it are out of sight")
    if f.speculative:
        out.append("with speculation a step holds draft tokens that no counter of steps shows")
    return tuple(out)
