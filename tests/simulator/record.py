"""What happened in a run, in full: every step, gap and request. Truth and pages are both read off this."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .cost import Floats, Ints

STEP_COLUMNS = (
    "start", "end", "bare", "streams", "decode_tokens", "prefill_tokens", "generated", "recorded",
    "running", "waiting", "used_blocks", "queries", "hits", "drafts", "accepted",
)  # fmt: skip
"""One entry a step. ``bare``: its seconds without prompt tokens, 0 where it ran no stream.
``recorded``: tokens of the iteration histogram, -1 for a step without output.
``streams`` is the number of decoding requests, ``decode_tokens`` what they ran (drafts included),
``prefill_tokens`` the prompt tokens that really ran (recompute included). ``running``, ``waiting``,
``used_blocks`` are the gauges after the step. ``queries`` and ``hits`` are cache look-ups in tokens."""

GAP_COLUMNS = ("end", "seconds", "bare", "count")
"""``count`` like gaps that ended at ``end``. ``bare``: length of the same step without prompt tokens; NaN for
a gap with a preemption in it."""

Flags = np.ndarray[Any, np.dtype[np.bool_]]
"""One boolean per request."""

OUTCOMES = ("stop", "length", "gone", "unfinished")


class Recorder:
    """Collects columns while the engine runs."""

    def __init__(self) -> None:
        self.steps: dict[str, list[Any]] = {name: [] for name in STEP_COLUMNS}
        self.gaps: dict[str, list[Any]] = {name: [] for name in GAP_COLUMNS}
        self.preemptions_seen: list[float] = []
        """When the engine's counter moves: at the next output of a preempted request."""
        self.preemptions: list[float] = []
        self.accepted_by_place: list[list[int]] = []
        """With drafts: accepted drafts of each step, by their place in the draft."""

    def add_gap(self, end: float, seconds: float, bare: float, count: int) -> None:
        gaps = self.gaps
        gaps["end"].append(end)
        gaps["seconds"].append(seconds)
        gaps["bare"].append(bare)
        gaps["count"].append(count)

    def add_step(self, **values: float) -> None:
        """One step; a value for each of STEP_COLUMNS."""
        for name, column in self.steps.items():
            column.append(values[name])

    def add_run(
        self,
        *,
        starts: list[float],
        ends: list[float],
        seconds: list[float],
        streams: int,
        running: list[int],
        waiting: int,
        used: list[int],
    ) -> None:
        """Decode-only steps without drafts, and their gaps."""
        count = len(starts)
        constant = {"streams": streams, "decode_tokens": streams, "generated": streams, "recorded": streams}
        series: dict[str, list[Any]] = {
            "start": starts,
            "end": ends,
            "bare": seconds,
            "running": running,
            "used_blocks": used,
        }
        for name, column in self.steps.items():
            if name in series:
                column.extend(series[name])
            else:
                column.extend([waiting if name == "waiting" else constant.get(name, 0)] * count)
        self.gaps["end"].extend(ends)
        self.gaps["seconds"].extend(seconds)
        self.gaps["bare"].extend(seconds)
        self.gaps["count"].extend([streams] * count)


@dataclass
class RequestLog:
    """One request's way through the engine; NaN where it did not get there."""

    index: int
    prompt_tokens: int
    max_tokens: int
    arrival: float = math.nan
    scheduled: float = math.nan
    first: float = math.nan
    last: float = math.nan
    ended: float = math.nan
    generated: int = 0
    cached: int = 0
    events: int = 0
    """Engine outputs with tokens for this request (fewer than tokens with speculation)."""
    preemptions: int = 0
    preemptions_seen: int = 0
    outcome: str = "unfinished"


@dataclass(frozen=True)
class Run:
    """A whole simulated run. Times are seconds from its start."""

    engine: str
    setting: Any
    steps: Mapping[str, Floats]
    gaps: Mapping[str, Floats]
    requests: tuple[RequestLog, ...]
    preemption_times: Floats
    preemption_counter_times: Floats
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """End of the last step."""
        ends = self.steps["end"]
        return float(ends[-1]) if len(ends) else 0.0

    def column(self, name: str) -> Floats:
        """A field of all requests, by index, as floats."""
        return self._columns[name]

    @cached_property
    def _columns(self) -> dict[str, Floats]:
        names = (
            "prompt_tokens", "max_tokens", "arrival", "scheduled", "first", "last", "ended",
            "generated", "cached", "events", "preemptions",
        )  # fmt: skip
        rows = self.requests
        return {name: np.array([getattr(r, name) for r in rows], dtype=float) for name in names}

    @cached_property
    def outcome(self) -> Ints:
        """Index into OUTCOMES of all requests."""
        return np.array([OUTCOMES.index(r.outcome) for r in self.requests], dtype=np.int64)

    @cached_property
    def finished(self) -> Flags:
        """Requests that ended with a stop or at their cap: those the engine's finished series know."""
        done: Flags = self.outcome <= 1
        return done


def close(recorder: Recorder, engine: str, setting: Any, requests: list[RequestLog], **extra: Any) -> Run:
    """Freeze what was recorded."""
    return Run(
        engine=engine,
        setting=setting,
        steps={name: np.array(column, dtype=float) for name, column in recorder.steps.items()},
        gaps={name: np.array(column, dtype=float) for name, column in recorder.gaps.items()},
        requests=tuple(requests),
        preemption_times=np.array(recorder.preemptions, dtype=float),
        preemption_counter_times=np.array(sorted(recorder.preemptions_seen), dtype=float),
        extra=extra,
    )
