"""What the ceiling of prefill levers is made of: gaps, phase times, chunks and steps of one window."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    tokens_per_gap: float = 1.0
    """More than 1 with speculation: then a gap is one verified step, not one token."""
    prefill_passes: float | None = None
    """Batches of prefill that ran alone; None where they share steps or nobody counts them."""
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
