"""A comparison on a screen: what differs first, then what changed, then one word for the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor.outputs.text import RenderOptions, number, safe, safe_sentence

if TYPE_CHECKING:
    from rich.console import Console

WORDS = {
    "better": "BETTER",
    "worse": "WORSE",
    "same": "SAME",
    "trade": "A TRADE: some figures better, others worse",
    "undecided": "UNDECIDED",
    "not_comparable": "NOT COMPARABLE",
}
STYLES = {
    "better": "green",
    "worse": "bold red",
    "changed": "cyan",
    "same": "dim",
    "blind": "yellow",
    "undecided": "yellow",
}
RANK = {"worse": 0, "better": 1, "changed": 2, "blind": 3, "same": 4, "undecided": 5}


def draw(console: Console, document: Mapping[str, Any], options: RenderOptions) -> None:
    from rich.table import Table
    from rich.text import Text

    names = " against ".join(f"{safe(a['name'])} ({_windows(a['count'])})" for a in document["arms"])
    if names:
        console.print(names, style="bold")
    for sentence in document["confounders"]:
        console.print(Text.assemble(("!! ", "bold yellow"), safe_sentence(sentence)))
    for sentence in document.get("notes", ()):
        console.print(Text.assemble((" ! ", "yellow"), safe_sentence(sentence)))
    if document["rows"]:
        console.print(f"VERDICT  {WORDS[document['verdict']]}", style="bold")
        console.print()
    several = len({row["arm"] for row in document["rows"]}) > 1
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=max(24, console.width * 2 // 5))
    table.add_column(ratio=1, overflow="fold")
    shown = 0
    for row in sorted(document["rows"], key=lambda r: RANK.get(r["verdict"], 9)):
        interesting = row["verdict"] in ("worse", "better", "changed", "blind") or row["reading"] in _KEPT
        if not options.show_all and (not interesting or (row["verdict"] == "blind" and row["reading"] not in _KEPT)):
            continue
        shown += 1
        name = f"{row['reading']}{' [' + safe(row['arm']) + ']' if several else ''}"
        table.add_row(
            Text(row["verdict"], style=STYLES.get(row["verdict"], "")),
            Text(name),
            Text(_words(row, with_reason=options.show_all)),
        )
    console.print(table)
    left = len(document["rows"]) - shown
    if left:
        console.print(f"{left} more rows with --all (same, undecided, tails)", style="dim")
    _plan(console, document)


def _windows(count: int) -> str:
    return "1 window" if count == 1 else f"{count} windows"


_KEPT = {"ttft_seconds", "itl_seconds", "e2e_seconds", "generation_tokens_per_wall_second"}


def _words(row: Mapping[str, Any], *, with_reason: bool) -> str:
    parts = [f"{number(row['baseline_value'])} -> {number(row['value'])}", _percent(row["change"]), _interval(row)]
    if row.get("reason") and (with_reason or row["change"] is None):
        parts.append(safe_sentence(row["reason"]))
    return "  ".join(part for part in parts if part)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:+.1f} %"


def _interval(row: Mapping[str, Any]) -> str:
    if row["low"] is None or row["high"] is None:
        return "noise unknown" if row["noise"] == "unknown" and row["change"] is not None else ""
    return f"({_percent(row['low'])} .. {_percent(row['high'])}, {row['noise']})"


def _plan(console: Console, document: Mapping[str, Any]) -> None:
    from rich.table import Table

    plan = document.get("plan")
    if not plan:
        return
    for arm in plan["arms"]:
        console.print()
        console.print(
            f"PLAN  to show a change of {plan['change']:.0%}, from the repeats of {safe(arm['name'])}", style="bold"
        )
        table = Table.grid(padding=(0, 2, 0, 0))
        for row in arm["rows"]:
            if row["variation"] is None:
                text = safe_sentence(row.get("reason") or "noise unknown: give at least two windows")
            else:
                need = row["runs_needed"]
                text = (
                    f"spread {row['variation']:.1%}, one run shows {row['shown_by_one_run']:.1%}; "
                    f"{'over 1,000' if need is None else need} repeats an arm"
                )
            table.add_row(row["reading"], text)
        console.print(table)
