"""What the ceiling of prefill levers is made of: gaps, phase times, chunks and steps of one window."""

from __future__ import annotations

import math
from dataclasses import dataclass

from auditor.measures.histogram import iter_buckets
from auditor.measures.readings.time import impossible_time
from auditor.measures.subject import Missing, Subject
from auditor.model import Histogram

UNKNOWN_BUDGETS = (256.0, 512.0, 2048.0, 8192.0, 16384.0)
"""Budgets in use, over which the hull is taken where none is known."""


@dataclass(frozen=True)
class Evidence:
    """Sums of one window, added over engines. Seconds are request-seconds unless said."""

    gaps: Histogram | None
    """Inter-token histogram of the window: one gap per engine output after the first."""
    prefill_seconds: float
    """P, of finished requests."""
    decode_seconds: float
    """Dr, of finished requests."""
    finished: float
    """F."""
    own_gaps: float
    """Gr: gaps of the finished requests."""
    computed_tokens: float
    """C: prompt tokens really computed, live."""
    first_tokens: float
    """N1, live."""
    steps: float | None
    """NS: steps with output; None where no series counts them."""
    wall_seconds: float | None
    """W: window length times engines; None where nobody knows the length."""
    longest_prefill_seconds: float
    """Upper edge of the highest filled prefill-time bucket."""
    prefill_alone: bool = False
    """The engine runs prefill in steps of its own (streams freeze) instead of sharing steps with decode."""

    @property
    def service_seconds(self) -> float:
        """S = P + Dr."""
        return self.prefill_seconds + self.decode_seconds

    @property
    def outputs(self) -> float:
        """Gr + F: engine outputs of the finished requests, first ones included."""
        return self.own_gaps + self.finished

    @property
    def gap_count(self) -> float:
        """G."""
        return 0.0 if self.gaps is None else self.gaps.count

    @property
    def mean_gap(self) -> float:
        """D / G, in seconds."""
        return 0.0 if self.gaps is None or self.gaps.count <= 0 else self.gaps.sum / self.gaps.count

    @property
    def prefill_load(self) -> float:
        """P / W; infinite where the length of the window is unknown."""
        return self.prefill_seconds / self.wall_seconds if self.wall_seconds else math.inf


def gather(s: Subject) -> Evidence:
    """Collect the evidence of a subject.

    Raises:
        Missing: phase times or lengths are not on the page, contradict each other, or nothing finished.
    """
    prefill, decode = s.histogram("prefill_seconds"), s.histogram("decode_seconds")
    output = s.histogram("output_length_tokens")
    sources = ("prefill_seconds", "decode_seconds", "output_length_tokens")
    contradiction = impossible_time(s)
    if contradiction is not None:
        raise Missing("invalid", contradiction, sources=sources)
    if prefill.rebuilt_sum or decode.rebuilt_sum or output.rebuilt_sum:
        raise Missing("invalid", "sums are rebuilt from bucket midpoints on this page", sources=sources)
    if decode.count <= 0 or prefill.sum + decode.sum <= 0:
        raise Missing("no_traffic", "no request finished in the window", sources=sources)
    tokens_per_gap = _tokens_per_gap(s)
    own = max(0.0, output.sum - decode.count) / tokens_per_gap
    longest = max((b.high for b in iter_buckets(prefill)), default=0.0)
    return Evidence(
        gaps=_gaps(s),
        prefill_seconds=prefill.sum,
        decode_seconds=decode.sum,
        finished=decode.count,
        own_gaps=own,
        computed_tokens=computed_tokens(s),
        first_tokens=_first_tokens(s, prefill.count),
        steps=s.histogram("step_tokens").count if s.has("step_tokens") else None,
        wall_seconds=None if s.window.seconds is None else s.window.seconds * engines(s),
        longest_prefill_seconds=longest,
        prefill_alone=s.engine.prefill_runs == "alone",
    )


def engines(s: Subject) -> int:
    """Engines whose steps run side by side: one per target and rank."""
    return max(1, len({(p.target, p.rank) for p in s.parts}))


def computed_tokens(s: Subject) -> float:
    """C, live where a series has it, else of finished requests; prompt tokens where neither is exported."""
    if s.has("prompt_tokens_by_source"):
        computed = s.counter("prompt_tokens_by_source").split.get("local_compute", 0.0)
        if s.has("recomputed_tokens"):
            computed -= s.increase("recomputed_tokens")
        return max(0.0, computed)
    reading = s.read("computed_prompt_tokens")
    if reading.value is not None:
        return reading.value
    return s.value("prompt_tokens")


def _first_tokens(s: Subject, finished: float) -> float:
    return s.histogram("ttft_seconds").count if s.has("ttft_seconds") else finished


def _gaps(s: Subject) -> Histogram | None:
    if not s.has("itl_seconds"):
        return None
    h = s.histogram("itl_seconds")
    usable = h.count > 0 and h.edges and not h.flaw and not h.rebuilt_sum
    return h if usable else None


def _tokens_per_gap(s: Subject) -> float:
    reading = s.read("tokens_per_output_event")
    return max(1.0, reading.value) if reading.value is not None else 1.0
