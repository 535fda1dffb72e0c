"""What a prediction is, and how one is judged.

Verdicts: ``fits`` clears the floor by more than a margin, ``marginal`` is within it, ``refused`` is below
the floor, ``unknown`` says what is missing. The margin is 10 % of the floor or the spread of repeated
boots, whichever is larger: the figures behind a straight line between two boots are no better than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from auditor.planning.effects import group_repeats
from auditor.planning.pools import KnownBoot

PredictionVerdict = Literal["fits", "marginal", "refused", "unknown"]
MARGIN = 0.10


@dataclass(frozen=True)
class Prediction:
    """What would be left. ``kv_pool_tokens`` is None where the pool is not known to be linear in memory."""

    setting: str
    value: float
    verdict: PredictionVerdict
    reason: str
    kv_gib: float | None = None
    kv_pool_tokens: int | None = None
    floor_gib: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting,
            "value": int(self.value) if float(self.value).is_integer() else self.value,
            "kv_gib": self.kv_gib,
            "kv_pool_tokens": self.kv_pool_tokens,
            "floor_gib": self.floor_gib,
            "verdict": self.verdict,
            "reason": self.reason,
        }


def judge(left: float, floor: float, margin: float) -> PredictionVerdict:
    """``left`` against ``floor``; a shortfall within 2 % counts as marginal, printed digits are no finer."""
    if left >= floor * (1 + margin):
        return "fits"
    return "marginal" if left >= floor * 0.98 else "refused"


def margin_of(boots: Sequence[KnownBoot]) -> float:
    spreads = [g.pool_spread for g in group_repeats(boots) if g.pool_spread is not None]
    return max([MARGIN, *spreads])


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def draw_line(points: Sequence[tuple[float, float]], x: float) -> tuple[float, bool]:
    """Value at x on straight lines through the points (sorted); whether x lies outside of them."""
    inner = [p for p in points if p[0] <= x]
    left = min(max(len(inner) - 1, 0), len(points) - 2)
    (x0, y0), (x1, y1) = points[left], points[left + 1]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0), not points[0][0] <= x <= points[-1][0]


def spell(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"
