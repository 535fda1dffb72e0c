"""One verdict over the rows of a comparison, or a trade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.compare.confounders import Confounder
from auditor.compare.noise import Change
from auditor.compare.rows import judge_change

TAILS = ("ttft_seconds", "itl_seconds", "e2e_seconds")
HEADLINES = (
    "ttft_seconds", "itl_seconds", "e2e_seconds", "generation_tokens_per_wall_second", "queue_share",
    "decode_seconds_per_token", "mean_prefill_seconds", "preemptions_per_request",
)  # fmt: skip
"""Readings that the overall verdict rests on; each is judged by its 99 % interval, since there are several."""


def overall_verdict(
    confounders: Sequence[Confounder],
    changes: Sequence[tuple[str, Change]],
    rows: Sequence[Mapping[str, Any]],
    better: Mapping[str, str | None],
) -> str:
    """One word: a winner needs a headline beyond its 99 % interval, and no headline or tail against it at 95 %."""
    if any(c.fatal for c in confounders):
        return "not_comparable"
    words = []
    for reading, change in changes:
        if reading not in HEADLINES:
            continue
        direction = better.get(reading)
        if change.low_99 is not None and change.high_99 is not None:
            wide = Change(change.baseline, change.value, change.change, change.low_99, change.high_99, change.noise)
            word = judge_change(wide, direction)
            words.append("same" if word == "undecided" and judge_change(change, direction) == "same" else word)
        else:
            words.append(judge_change(change, direction))
    found = set(words)
    against = {
        row["verdict"]
        for row in rows
        if row["reading"] in HEADLINES or any(row["reading"] == f"{name} p99" for name in TAILS)
    }
    if ("better" in found and "worse" in against) or ("worse" in found and "better" in against):
        return "trade"
    for word in ("better", "worse"):
        if word in found:
            return word
    if found == {"same"}:
        return "same"
    return "undecided"
