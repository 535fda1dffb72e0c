"""Several engines in one run, drawn side by side: only what means the same on all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor.outputs.text import number, safe, subject_title

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = (
    "prefix_hit_share", "mean_queue_seconds", "ttft_seconds", "prompt_length_tokens", "output_length_tokens",
)  # fmt: skip
"""Readings worth a row on a screen; JSON has all."""


def draw(console: Console, fleet: Mapping[str, Any]) -> None:
    """A row a reading, a column a subject."""
    from rich.table import Table

    rows = {name: fleet["readings"][name] for name in SHOWN if name in fleet["readings"]}
    left_out = len(fleet["left_out"])
    console.print(f"SIDE BY SIDE  what {' and '.join(map(safe, fleet['engines']))} export with the same meaning")
    if not rows:
        console.print("  nothing in this window")
    else:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
        table.add_column("")
        for labels in fleet["subjects"]:
            table.add_column(subject_title(labels), justify="right", overflow="fold")
        for name, values in rows.items():
            table.add_row(name, *(number(v) for v in values))
        console.print(table)
    if left_out:
        console.print(f"  {left_out} more readings differ in meaning or are not on both: auditor audit --as json")
