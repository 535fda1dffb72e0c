"""The ceiling of a window whose preemptions make the reading refuse: to see where that line belongs."""

from __future__ import annotations

from typing import Any

from auditor.measures.ceilings.ranges import find_ceiling
from auditor.measures.readings.stretch import gather
from auditor.measures.subject import Subject


def ceiling_past_preemptions(s: Subject) -> dict[str, Any]:
    """The two ranges, as members of the reading."""
    c = find_ceiling(gather(s), budget=s.setting("budget"), threshold=s.setting("threshold") or None)
    return {"ceiling_99": list(c.at_99), "ceiling_95": list(c.at_95)}
