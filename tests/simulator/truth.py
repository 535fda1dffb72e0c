"""The true values behind a run's pages: what an auditor tries to read, worked out from the full record.

A window is (start, end]: events at its end count, events at its start do not, as between two scrapes.
Sums are kept, so that truths of several runs can be pooled into a long-run value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from .record import Flags, Run
from .settings import Setting, VllmSetting

Window = tuple[float, float]


@dataclass(frozen=True)
class Truth:
    """Sums over a window. Seconds are simulated; request sums are over requests that finished in it."""

    finished: float
    stopped: float
    gone: float
    """Clients that hung up: in no finished series."""
    queue_seconds: float
    prefill_seconds: float
    decode_seconds: float
    finished_prompt_tokens: float
    finished_generation_tokens: float
    gaps: float
    gap_seconds: float
    bare_gap_seconds: float
    """The same gaps had their steps held no prompt tokens (gaps with a preemption left out of both)."""
    interrupted_seconds: float
    """Gaps with a preemption in them."""
    steps: float
    recorded_steps: float
    """Steps with output: those of the iteration histogram."""
    small_steps: float
    """Recorded as at most 8 tokens, and really ran at most 8."""
    full_steps: float
    """Steps that used the whole budget."""
    step_seconds: float
    prefill_step_seconds: float
    """Engine time that prompt tokens added."""
    decode_tokens: float
    """Tokens run for decoding, drafts included."""
    computed_prompt_tokens: float
    """Prompt tokens run, recompute included."""
    prompt_tokens: float
    """Of requests whose first token came in the window."""
    cached_tokens: float
    generation_tokens: float
    preemptions: float
    preempted_requests: float
    """Finished requests that were preempted at least once."""
    seconds: float

    @property
    def mean_service_seconds(self) -> float:
        """Prefill + decode of the mean finished request."""
        return (self.prefill_seconds + self.decode_seconds) / self.finished

    @property
    def prefill_share(self) -> float:
        return self.prefill_seconds / (self.prefill_seconds + self.decode_seconds)

    @property
    def queue_share(self) -> float:
        return self.queue_seconds / (self.queue_seconds + self.prefill_seconds + self.decode_seconds)

    @property
    def length_share(self) -> float:
        return 1.0 - self.stopped / self.finished

    @property
    def stretch_share(self) -> float:
        """Share of decode seconds that the same steps would not have taken without prompt tokens."""
        whole = self.gap_seconds - self.interrupted_seconds
        return 1.0 - min(self.bare_gap_seconds, whole) / whole

    @property
    def prefix_hit_share(self) -> float:
        return self.cached_tokens / self.prompt_tokens

    @property
    def tokens_per_step(self) -> float:
        """Tokens really run per step, steps without output included."""
        return (self.decode_tokens + self.computed_prompt_tokens) / self.steps

    @property
    def small_step_share(self) -> float:
        return self.small_steps / self.recorded_steps

    @property
    def full_step_share(self) -> float:
        return self.full_steps / self.steps

    @property
    def engine_prefill_share(self) -> float:
        """Share of busy engine time that prompt tokens added (the engine's view, not the requests')."""
        return self.prefill_step_seconds / self.step_seconds


def finished_in(run: Run, window: Window | None) -> Flags:
    """Which requests finished (stop or length) in the window."""
    if window is None:
        return run.finished
    ended = run.column("ended")
    with np.errstate(invalid="ignore"):
        inside: Flags = run.finished & (ended > window[0]) & (ended <= window[1])
    return inside


def true_values(run: Run, window: Window | None = None) -> Truth:
    """The truth of a window (default: the whole run)."""
    start, end = (-1.0, run.seconds) if window is None else window
    steps, gaps = run.steps, run.gaps
    done = finished_in(run, window)
    now = (steps["end"] > start) & (steps["end"] <= end)
    gap = (gaps["end"] > start) & (gaps["end"] <= end)
    first, ended = run.column("first"), run.column("ended")
    seen = (first > start) & (first <= end)
    gone = (run.outcome == 2) & (ended > start) & (ended <= end)
    took, bare = (steps["end"] - steps["start"])[now], steps["bare"][now]
    ran = (steps["decode_tokens"] + steps["prefill_tokens"])[now]
    recorded = steps["recorded"][now] >= 0
    seen_small = recorded & (steps["recorded"][now] <= 8)
    count, seconds, alone = gaps["count"][gap], gaps["seconds"][gap], gaps["bare"][gap]
    broken = np.isnan(alone)
    setting: Setting = run.setting
    budget = setting.budget if isinstance(setting, VllmSetting) else setting.chunk

    def of_done(later: str, earlier: str) -> float:
        return float((run.column(later) - run.column(earlier))[done].sum())

    preempted = run.preemption_times
    return Truth(
        finished=float(done.sum()),
        stopped=float((done & (run.outcome == 0)).sum()),
        gone=float(gone.sum()),
        queue_seconds=of_done("scheduled", "arrival"),
        prefill_seconds=of_done("first", "scheduled"),
        decode_seconds=of_done("last", "first"),
        finished_prompt_tokens=float(run.column("prompt_tokens")[done].sum()),
        finished_generation_tokens=float(run.column("generated")[done].sum()),
        gaps=float(count.sum()),
        gap_seconds=float((count * seconds).sum()),
        bare_gap_seconds=float((count * alone)[~broken].sum()),
        interrupted_seconds=float((count * seconds)[broken].sum()),
        steps=float(now.sum()),
        recorded_steps=float(recorded.sum()),
        small_steps=float((seen_small & (ran <= 8)).sum()),
        full_steps=float((ran >= budget).sum()),
        step_seconds=float(took.sum()),
        prefill_step_seconds=float((took - bare).sum()),
        decode_tokens=float(steps["decode_tokens"][now].sum()),
        computed_prompt_tokens=float(steps["prefill_tokens"][now].sum()),
        prompt_tokens=float(run.column("prompt_tokens")[seen].sum()),
        cached_tokens=float(run.column("cached")[seen].sum()),
        generation_tokens=float(steps["generated"][now].sum()),
        preemptions=float(((preempted > start) & (preempted <= end)).sum()),
        preempted_requests=float((run.column("preemptions")[done] > 0).sum()),
        seconds=end - max(start, 0.0),
    )


def pool(truths: Sequence[Truth]) -> Truth:
    """Sums of several windows: with many like runs, the long-run value that an interval should cover."""
    return Truth(**{f.name: float(sum(getattr(t, f.name) for t in truths)) for f in fields(Truth)})


def speedup(run: Run, other: Run, window: Window | None = None) -> float:
    """Mean service time (prefill + decode) of the requests that finished in the window, over that of the same
    requests in another run of the same workload. NaN where none finished in both."""
    both = finished_in(run, window) & other.finished
    if not both.any():
        return float("nan")

    def mean(which: Run) -> float:
        return float((which.column("last") - which.column("scheduled"))[both].mean())

    return mean(run) / mean(other)
