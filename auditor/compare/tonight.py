"""Tonight's readings against a run of quiet nights: the nights are the repeats that tell the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.compare.overall import overall_verdict
from auditor.compare.rows import Side, compare_subject

BEFORE, TONIGHT = "nights before", "tonight"


def compare_tonight(
    before: Sequence[Mapping[str, Any]],
    tonight: Mapping[str, Any],
    readings: Sequence[str],
    *,
    better: Mapping[str, str | None],
) -> dict[str, Any]:
    """What differs beside the engine, a row for each of ``readings`` and its quantiles, one verdict or a trade.

    Only what moved is compared: of sixty readings at 95 % three would be called changed on every quiet night.

    Args:
        before: the subject on each of the nights before, at least two.
        tonight: the same subject tonight.
        readings: what moved, outside its band.
        better: reading -> ``lower``, ``higher`` or None.
    """
    subject = " ".join(str(v) for k, v in tonight["labels"].items() if v)
    found = compare_subject(
        subject,
        Side(BEFORE, before),
        Side(TONIGHT, [tonight]),
        better=better,
        readings=readings,
    )
    return {
        "confounders": [c.sentence for c in found.confounders],
        "notes": list(found.notes),
        "rows": list(found.rows),
        "verdict": overall_verdict(found.confounders, found.changes, found.rows, better),
    }
