"""Tonight against the nights before: which readings moved, how far outside their noise, since when, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from auditor.history.baseline import MIN_NIGHTS, Baseline, NoBaseline, make_baseline
from auditor.history.events import Event, likely_causes
from auditor.history.series import Point
from auditor.model import utc_text

FOLLOW_TRAFFIC = frozenset(
    {
        "prefill_seconds", "decode_seconds", "queue_seconds", "finished_requests", "first_tokens", "user_requests",
        "sequences", "finished_prompt_tokens", "finished_generation_tokens", "prompt_tokens", "generation_tokens",
        "computed_prompt_tokens", "cached_prompt_tokens", "steps", "min_steps", "prompt_tokens_per_wall_second",
        "generation_tokens_per_wall_second", "naive_rate_error", "achieved_tflops_per_gpu",
        "achieved_read_gbytes_per_second",
    }
)  # fmt: skip
"""Sums and rates over the wall clock: they follow the traffic, which is judged on its own."""
LAST_MOMENT = frozenset(
    {
        "running_requests", "waiting_requests", "waiting_deferred_share", "kv_usage", "kv_usage_max",
        "kv_tokens_per_running_request", "unmatched_first_tokens", "unmatched_first_token_share",
        "unfinished_prompt_tokens", "unfinished_prompt_share", "query_inflation",
    }
)  # fmt: skip
"""What happened to run, or to be half done, when the window began or ended: one glance says nothing of a night."""
NOT_JUDGED = FOLLOW_TRAFFIC | LAST_MOMENT
"""Kept and shown as trends, and not compared."""

ChangeVerdict = Literal["worse", "better", "changed", "same", "undecided"]
SMALLEST_SHARE = 0.002
"""A share that moved by less is the same, however quiet its nights were."""
SMALLEST_RELATIVE = 0.05
"""So is anything that moved by less than this part of itself."""


@dataclass(frozen=True)
class Change:
    """One reading tonight, beside its baseline."""

    reading: str
    unit: str
    verdict: ChangeVerdict
    tonight: Point
    baseline: Baseline | None
    previous: Point | None
    reason: str | None = None
    since: float | None = None
    """End of the first night outside the band, unix seconds."""
    nights_out: int = 0
    last_good: float | None = None
    causes: tuple[Event, ...] = ()

    def to_json(self) -> dict[str, Any]:
        b = self.baseline
        return {
            "reading": self.reading,
            "verdict": self.verdict,
            "unit": self.unit,
            "state": self.tonight.state,
            "value": self.tonight.value,
            "low": self.tonight.low,
            "high": self.tonight.high,
            "previous": None if self.previous is None else self.previous.value,
            "baseline": None if b is None else b.median,
            "band": None if b is None else [b.low, b.high],
            "nights": None if b is None else b.nights,
            "outside": None if b is None else b.deviations,
            "since": utc_text(self.since),
            "nights_out": self.nights_out,
            "last_good": utc_text(self.last_good),
            "causes": [e.to_json() for e in self.causes],
            "reason": self.reason,
        }


def judge(
    name: str,
    tonight: Point,
    earlier: Sequence[Point | None],
    *,
    unit: str,
    better: str | None,
    min_nights: int = MIN_NIGHTS,
    any_traffic: bool = False,
) -> Change:
    """One reading against its own past. ``better`` is lower, higher or None where neither is known to be good."""
    previous = next((p for p in reversed(earlier) if p is not None and p.value is not None), None)
    if tonight.value is None:
        had = sum(p is not None and p.value is not None for p in earlier)
        return Change(
            name, unit, "undecided", tonight, None, previous,
            reason=f"no value tonight ({tonight.state}{f': {tonight.reason}' if tonight.reason else ''}); "
            f"it had one on {had} of {len(earlier)} nights",
        )  # fmt: skip
    found = make_baseline(tonight, earlier, unit=unit, min_nights=min_nights, any_traffic=any_traffic)
    if isinstance(found, NoBaseline):
        return Change(name, unit, "undecided", tonight, None, previous, reason=found.reason)
    if found.deviations <= 1 or _too_small(tonight.value, found.median, unit):
        return Change(name, unit, "same", tonight, found, previous)
    up = tonight.value > found.median
    verdict: ChangeVerdict = "changed" if better is None else "better" if up == (better == "higher") else "worse"
    since, nights_out, last_good = _onset(tonight, earlier, found, up=up)
    return Change(
        name, unit, verdict, tonight, found, previous, since=since, nights_out=nights_out, last_good=last_good
    )


def _too_small(value: float, middle: float, unit: str) -> bool:
    difference = abs(value - middle)
    if unit == "ratio" and 0 <= middle <= 1:
        return difference < SMALLEST_SHARE or difference < SMALLEST_RELATIVE * min(middle, 1 - middle)
    return difference < SMALLEST_RELATIVE * abs(middle)


def _onset(
    tonight: Point, earlier: Sequence[Point | None], found: Baseline, *, up: bool
) -> tuple[float, int, float | None]:
    """First night of the run of nights that ends tonight and lies outside the band on the same side."""
    since, nights = tonight.end, 1
    for p in reversed(earlier):
        if p is None or p.value is None:
            continue
        if not (p.value > found.high if up else p.value < found.low):
            return since, nights, p.end
        since, nights = p.end, nights + 1
    return since, nights, None


def judge_all(
    tonight: Mapping[str, Point],
    earlier: Mapping[str, Sequence[Point | None]],
    *,
    units: Mapping[str, str],
    better: Mapping[str, str | None],
    events: Sequence[Event],
    nights: int,
    min_nights: int = MIN_NIGHTS,
) -> list[Change]:
    """All readings of a subject, the one farthest outside its noise first, those without a baseline last."""
    nothing: tuple[Point | None, ...] = (None,) * nights
    out = []
    for name, point in tonight.items():
        if name in NOT_JUDGED:
            continue
        change = judge(
            name, point, earlier.get(name, nothing), unit=units[name], better=better.get(name), min_nights=min_nights
        )
        if change.since is not None:
            causes = likely_causes(events, last_good=change.last_good, since=change.since)
            change = replace(change, causes=tuple(causes))
        out.append(change)
    return sorted(out, key=_rank)


def _rank(change: Change) -> tuple[int, float, str]:
    order = {"worse": 0, "better": 0, "changed": 0, "same": 1, "undecided": 2}
    deviations = change.baseline.deviations if change.baseline else 0.0
    return order[change.verdict], -deviations, change.reading
