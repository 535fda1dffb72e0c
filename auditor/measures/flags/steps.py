"""What the histogram of engine steps shows beside steps."""

from __future__ import annotations

from auditor.measures.flags.registry import flag
from auditor.measures.readings.step_facts import several_front_ends
from auditor.measures.readings.steps import exceeds_budget
from auditor.measures.subject import Subject


@flag
def steps_merge_chunks(s: Subject) -> str | None:
    """A recorded step holds more tokens than the budget: chunks of a prompt were merged into one observation."""
    if exceeds_budget(s):
        return f"recorded steps exceed the budget of {s.setting('budget'):g}: chunks of a prompt land on one step"
    return None


@flag
def steps_per_front_end(s: Subject) -> str | None:
    """Several front ends each record every step."""
    return several_front_ends(s)
