"""A log's running lines summed up: what they can say of the time they cover, and what they cannot.

Everything here is a poor man's source. Rates are means over each line's own interval, gauges are single
moments, vLLM's hit rate is over recent requests and so belongs to no window. Nothing says how many
requests finished, how long any of them waited, or how the time was shared between prefill and decode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auditor.engine_logs.figures import RunningRecord

CANNOT_SAY = (
    "how many requests finished, and why they ended",
    "time to first token, time in the queue, the split between prefill and decode",
    "how many steps ran and how full they were",
    "reuse by the workload over a window: vLLM's printed hit rate is rolling over recent requests",
)


@dataclass(frozen=True)
class Fact:
    """A statement the lines support, with the lines behind it. ``flag`` is a stable word."""

    flag: str
    words: str
    first_line: int
    lines: int
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "flag": self.flag,
            "words": self.words,
            "first_line": self.first_line,
            "lines": self.lines,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class RollingFigures:
    """What one engine's interval lines (vLLM) come to.

    Rates are means over all lines; a zero there is true. Gauges are over live lines only: stale ones are
    left out. ``prompt_tokens`` and ``generation_tokens`` are approximate: the sum of rate x usual
    interval. ``hit_rate`` is the last one printed. Until about 0.16 the prompt rate counts whole
    prompts, later only the tokens that were computed.
    """

    engine: str
    lines: int
    live_lines: int
    stale_lines: int
    seconds: float | None
    interval_seconds: float
    prompt_tokens: float | None
    generation_tokens: float | None
    prompt_tok_s: float | None
    generation_tok_s: float | None
    running_mean: float | None
    running_max: float | None
    waiting_mean: float | None
    waiting_max: float | None
    kv_usage_mean: float | None
    kv_usage_max: float | None
    hit_rate: float | None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class BatchFigures:
    """What SGLang's batch lines come to. Decode batches are counted through their log interval.

    ``hit_share`` is cached / (cached + new) over the logged prefill batches: exact for them, but a
    retracted request counts again, as a hit.
    """

    prefill_batches: int
    decode_lines: int
    decode_interval: int
    new_tokens: int
    cached_tokens: int
    hit_share: float | None
    seconds: float | None
    running_max: int | None
    waiting_max: int | None
    kv_usage_max: float | None
    generation_tok_s: float | None
    """Mean over decode lines of what each printed."""

    @property
    def decode_batches(self) -> tuple[int, int]:
        """Fewest and most decode batches that leave so many lines behind."""
        if not self.decode_lines:
            return 0, self.decode_interval - 1
        return (self.decode_lines - 1) * self.decode_interval + 1, (self.decode_lines + 1) * self.decode_interval - 1

    def to_json(self) -> dict[str, Any]:
        document = {name: getattr(self, name) for name in self.__dataclass_fields__}
        document["decode_batches"] = list(self.decode_batches)
        return document


@dataclass(frozen=True)
class LogFigures:
    """All that a log's running lines say. ``records`` are thinned evenly where there are very many."""

    records: tuple[RunningRecord, ...]
    every: int
    lines: int
    engines: Mapping[str, RollingFigures]
    batches: BatchFigures | None
    preemptions: int | None
    facts: tuple[Fact, ...]
    cannot_say: tuple[str, ...] = CANNOT_SAY

    @property
    def start(self) -> float | None:
        return self.records[0].time if self.records else None

    @property
    def end(self) -> float | None:
        return self.records[-1].time if self.records else None

    def hit_rate_is_usable(self, *, preemptions: float | None = None) -> tuple[bool, str]:
        """Whether the printed hit rate may stand for reuse in the workload, and why not.

        ``preemptions``: what a page says of the same window, if there is one.
        """
        counted = max(preemptions or 0, self.preemptions or 0)
        if counted > 0:
            return False, (
                f"preemptions>0: {counted:g} requests were preempted, and a resumed request finds its own "
                "blocks again, which counts as a hit on many releases. prompt_tokens_by_source (local_cache_hit), "
                "request_prefill_kv_computed_tokens, or a window without preemptions settles it"
            )
        return False, (
            "the printed hit rate is rolling over recent requests and belongs to no window; the look-up counters of a "
            "page give the window's share"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "lines": self.lines,
            "engines": {name: figures.to_json() for name, figures in sorted(self.engines.items())},
            "batches": self.batches.to_json() if self.batches else None,
            "preemptions": self.preemptions,
            "facts": [fact.to_json() for fact in self.facts],
            "cannot_say": list(self.cannot_say),
        }
