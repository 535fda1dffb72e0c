"""By how much what moved has moved: tonight beside its quiet nights, for changes that began on one night together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from auditor.history.changes import Change
from auditor.history.kept import kept_item, quiet_nights
from auditor.history.series import SubjectNights
from auditor.model import utc_text

Items = Sequence[Mapping[str, Any]]
Compare = Callable[[Mapping[str, Items], Mapping[str, Any]], Mapping[str, Any]]
"""From the subject on the quiet nights of each reading that moved, and tonight, to rows with change and interval."""


def compare_changes(
    moved: Sequence[Change], past: SubjectNights, tonight: Mapping[str, Any], compare: Compare
) -> list[dict[str, Any]]:
    """One comparison for each night on which something began, the newest first.

    Changes that began on different nights have different causes, so what is better in one and worse in another is
    called a trade only among those that began together.
    """
    out = []
    for since in sorted({c.since for c in moved if c.since is not None}, reverse=True):
        places = {c.reading: quiet_nights(past, c) for c in moved if c.since == since}
        items = {i: kept_item(past, i) for i in sorted({i for listed in places.values() for i in listed})}
        ends = [run.end for i in items if (run := past.nights[i])]
        head = {
            "since": utc_text(since),
            "nights": len(ends),
            "first": utc_text(ends[0]) if ends else None,
            "last": utc_text(ends[-1]) if ends else None,
        }
        try:
            found = compare({reading: [items[i] for i in listed] for reading, listed in places.items()}, tonight)
        except Exception as fault:  # noqa: BLE001  (a fault in a comparison must not cost the night)
            found = {
                "reason": f"the comparison failed: {type(fault).__name__}: {fault}",
                "confounders": [], "notes": [], "rows": [], "verdict": "undecided",
            }  # fmt: skip
        out.append({**head, **found})
    return out
