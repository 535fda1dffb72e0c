"""Tonight's readings against quiet nights: the nights are the repeats that tell the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.compare.confounders import find_confounders
from auditor.compare.noise import Change
from auditor.compare.overall import overall_verdict
from auditor.compare.rows import Side, compare_subject

BEFORE, TONIGHT = "nights before", "tonight"
LEAST_NIGHTS = 3
"""Quiet nights below which their spread is no measure of noise."""


def compare_tonight(
    before: Mapping[str, Sequence[Mapping[str, Any]]],
    tonight: Mapping[str, Any],
    *,
    better: Mapping[str, str | None],
) -> dict[str, Any]:
    """What differs beside the engine, a row for each reading that moved and its quantiles, one verdict or a trade.

    Only what moved is compared: of sixty readings at 95 % three would be called changed on every quiet night.

    Args:
        before: reading -> the subject on its quiet nights.
        tonight: the same subject tonight.
        better: reading -> ``lower``, ``higher`` or None.
    """
    subject = " ".join(str(v) for v in tonight["labels"].values() if v)
    arm = Side(TONIGHT, [tonight])
    rows: list[dict[str, Any]] = []
    changes: list[tuple[str, Change]] = []
    notes: list[str] = []
    everything: dict[int, Mapping[str, Any]] = {}
    for reading, nights in before.items():
        everything |= {id(item): item for item in nights}
        if len(nights) < LEAST_NIGHTS:
            rows.append(_too_few(reading, subject, len(nights), better.get(reading), tonight))
            continue
        found = compare_subject(subject, Side(BEFORE, nights), arm, better=better, readings=[reading])
        rows += [{**row, "nights": len(nights)} for row in found.rows]
        changes += found.changes
        notes += found.notes
    items = list(everything.values())
    confounders = find_confounders(TONIGHT, items, arm.items, baseline_name=BEFORE) if items else []
    return {
        "reason": None,
        "confounders": [c.sentence for c in confounders],
        "notes": notes,
        "rows": rows,
        "verdict": overall_verdict(confounders, changes, rows, better),
    }


def _too_few(reading: str, subject: str, nights: int, better: str | None, tonight: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "reading": reading, "subject": subject, "arm": TONIGHT, "baseline": BEFORE, "better": better,
        "baseline_value": None, "value": tonight["readings"].get(reading, {}).get("value"), "change": None,
        "low": None, "high": None, "noise": "unknown", "verdict": "undecided", "nights": nights,
        "reason": f"{nights} quiet nights to measure it from; at least {LEAST_NIGHTS} are needed",
    }  # fmt: skip
