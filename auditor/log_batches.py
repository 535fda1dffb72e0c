"""Batch lines of an SGLang log: does a scheduler that puts prefill first starve decode?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.engine_logs import BatchFigures, LogScan


@dataclass(frozen=True)
class BatchFindings:
    """Flag -> sentence, and the figures behind it."""

    words: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)


def batch_findings(scan: LogScan, batches: BatchFigures | None) -> BatchFindings:
    if batches is None or not batches.seconds:
        return BatchFindings()
    draft = next((b.settings["speculative_tokens"].value for b in reversed(scan.boots)
                  if "speculative_tokens" in b.settings), 0)  # fmt: skip
    return batch_words(
        prefill_batches=batches.prefill_batches,
        decode_batches=batches.decode_batches,
        seconds=batches.seconds,
        running=batches.running_max,
        speculative=bool(draft) or any(r.accept_length for r in scan.figures.records),
    )


def batch_words(
    *, prefill_batches: int, decode_batches: tuple[int, int], seconds: float, running: int | None, speculative: bool
) -> BatchFindings:
    """Whether decode is starved by a scheduler that puts prefill first, in words and figures."""
    from auditor.planning.scheduling import read_decode_batches

    low, high = sorted(decode_batches)
    if low <= 0 or seconds <= 0:
        return BatchFindings()  # not one decode batch is sure: nothing to divide by
    found = read_decode_batches(
        prefill_batches=prefill_batches,
        decode_batches=(low, high),
        window_seconds=seconds,
        running=running,
        speculative=speculative,
    )
    if found.cause is None:
        return BatchFindings(figures={"decode": found.to_json()})
    (least, most), (short, long) = found.share, found.interval_seconds
    times = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    share = _span(100 * least, 100 * most)
    gap = _span(short, long)
    sentence = (
        f"{prefill_batches:,} prefill and {times} decode batches in {seconds:,.0f} s: decode is {share} % of batches, "
        f"one every {gap} s. {'. '.join(_capital(a) for a in found.advice)}"
    )
    return BatchFindings({"prefill_first_scheduling": sentence}, {"decode": found.to_json()})


def _span(low: float, high: float) -> str:
    least, most = f"{low:.1f}", f"{high:.1f}"
    return least if least == most else f"{least} to {most}"


def _capital(text: str) -> str:
    return re.sub(r"^[a-z]", lambda m: m[0].upper(), text)
