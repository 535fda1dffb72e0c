"""The course of a window: readings between neighbouring scrapes."""

from __future__ import annotations

from typing import Any

from auditor.measures.subject import Subject
from auditor.model import utc_text

COURSE = (
    "prefill_share", "prefix_hit_share", "length_share", "queue_share", "kv_usage", "running_requests",
    "waiting_requests", "generation_tokens_per_wall_second", "prompt_tokens_per_wall_second", "finished_requests",
)  # fmt: skip


def course_of(subject: Subject) -> dict[str, Any] | None:
    """Times at which slices end, and readings of each slice; None without slices. Missing values are null.

    Where only the pages' distance is known (``--every``), and not the day, the times are null as well.
    """
    if len(subject.slices) < 2:
        return None
    dated = subject.window.start is not None
    out: dict[str, Any] = {
        "times": [utc_text(s.window.end) if dated else None for s in subject.slices],
        "readings": {name: [s.read(name).value for s in subject.slices] for name in COURSE},
    }
    if subject.window.kind == "range":
        from auditor.measures.frame import summarise

        out["summary"] = summarise(subject)
    return out
