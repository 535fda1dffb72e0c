"""A small sample of tests.gate.false_alarms, whose table stands in docs/gate-false-alarms.md."""

from __future__ import annotations

import re
from pathlib import Path

from tests.gate.false_alarms import count, shares_of

TABLE = Path(__file__).parents[2] / "docs" / "gate-false-alarms.md"
BY_VALUE = ("tokens_per_draft_step at_least", "generation_tokens_per_wall_second at_least")
"""No interval: at the limit itself they are a coin."""


def test_a_sample_of_windows() -> None:
    tally = count(2, 12, first_seed=71_000)
    found = shares_of(tally)
    assert len(found) >= 12
    for name, (at_limit, inside, wrong) in found.items():
        assert inside is not None
        assert inside == 0.0, name
        if at_limit is not None and name not in BY_VALUE:
            assert at_limit <= 0.13, f"{name}: three of 24"
        if wrong is not None:
            assert tally.share(name, "wrong", "holds") == 0.0, name
        caught = tally.share(name, "enough", "broken")
        assert caught is None or caught >= 0.9, name


def test_the_committed_table_keeps_its_promises() -> None:
    """At least 1,000 windows a premise; at most 5 % false alarms; 95 % of the false ones found."""
    rows = [line.strip("|").split("|") for line in TABLE.read_text().splitlines() if re.match(r"\| [a-z]", line)]
    rows = [[cell.strip() for cell in row] for row in rows][1:]
    assert len(rows) >= 15

    def share(cell: str) -> float | None:
        return float(cell.removesuffix(" %")) if cell else None

    for name, windows, at_limit, inside, _, _, wrong_passes, enough, caught in rows:
        assert int(windows) >= 1000, name
        if name not in BY_VALUE:
            assert (share(at_limit) or 0.0) <= 5.0, name
        assert (share(inside) or 0.0) <= 5.0, name
        assert (share(wrong_passes) or 0.0) <= 0.5, name
        if enough:
            assert (share(caught) or 0.0) >= 95.0, name
