"""What a nightly report says of the nights before, in words: shared by terminal, Markdown, HTML and the picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from auditor.outputs.text import RenderOptions, number, safe, safe_sentence, subject_title

if TYPE_CHECKING:
    from rich.console import Console

MARKS = {"worse": "NO", "better": "+", "changed": "~", "same": "YES", "undecided": "?"}
STYLES = {"worse": "bold red", "better": "green", "changed": "yellow", "same": "green", "undecided": "yellow"}
_DIGITS = re.compile(r"[0-9.,]+")
SHOWN_CHANGES = 6
SHOWN_CAUSES = 4
MOST_PERCENT = 9.0
"""A change above +900 % is said in times."""


def short_time(text: str | None) -> str:
    """``2026-11-21 03:00`` of a report's time; all times are UTC."""
    return "an unknown time" if not text else text[:16].replace("T", " ")


def with_unit(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    return number(value, unit) + ("" if unit in ("ratio", "label", "") else f" {unit}")


def row_of(night: Mapping[str, Any], reading: str) -> Mapping[str, Any] | None:
    """The row in which this reading is held against its quiet nights."""
    rows = (row for comparison in night.get("comparisons", ()) for row in comparison["rows"])
    return next((r for r in rows if r["reading"] == reading), None)


def by_how_much(change: Mapping[str, Any], row: Mapping[str, Any] | None) -> str:
    """``+116 % (+104 .. +129 %)`` with the noise of the quiet nights, or how many times the usual it is."""
    if row is None or row["change"] is None or row["low"] is None or row["high"] is None:
        return times_usual(change)
    middle, low, high = row["change"], *sorted((row["low"], row["high"]))
    if middle >= MOST_PERCENT:
        return f"{1 + middle:.3g} times ({1 + low:.3g} .. {1 + high:.3g})"
    if low == high:
        return f"{100 * middle:+.0f} %"
    digits = next((d for d in (0, 1, 2) if f"{100 * low:+.{d}f}" != f"{100 * high:+.{d}f}"), 2)
    middle_, low_, high_ = (f"{100 * x:+.{digits}f}" for x in (middle, low, high))
    return f"{middle_} % ({low_} .. {high_} %)"


def times_usual(change: Mapping[str, Any]) -> str:
    """``3.2 times the usual``, where that says something."""
    value, usual = change["value"], change["baseline"]
    if value is None or not usual or usual <= 0 or value <= 0:
        return ""
    factor = value / usual
    return f"{factor:.3g} times the usual" if factor >= 1.1 or factor <= 0.91 else ""


def change_words(change: Mapping[str, Any], row: Mapping[str, Any] | None = None) -> str:
    """``0.68 s, +220 % (+190 .. +251 %); usual 0.20 .. 0.24 s on 19 nights; since 2026-11-21 03:00 (2 nights)``."""
    unit = change["unit"]
    low, high = change["band"] or (None, None)
    band = f"; usual {number(low, unit)} .. {with_unit(high, unit)} on {change['nights']} nights"
    nights = change["nights_out"]
    since = ""
    if nights > 1 and change["last_good"]:
        since = f"; since {short_time(change['since'])} ({nights} nights)"
    elif nights > 1:
        since = f"; on all {nights} nights known"
    moved = by_how_much(change, row)
    return with_unit(change["value"], unit) + (f", {moved}" if moved else "") + band + since


def comparison_lines(night: Mapping[str, Any]) -> Iterator[str]:
    """What differs beside the engine, which comes first since it invalidates the rest; and a trade, called one."""
    comparisons = night.get("comparisons", ())
    # Two comparisons say the same of two baselines; the newest one's figures will do.
    said: dict[str, str] = {}
    for sentence in (c for comparison in comparisons for c in comparison["confounders"]):
        said.setdefault(_DIGITS.sub("", sentence), sentence)
    yield from (f"mind: {safe_sentence(sentence)}" for sentence in said.values())
    for comparison in comparisons:
        if comparison.get("reason"):
            yield safe_sentence(comparison["reason"])
        if comparison["verdict"] == "trade":
            better, worse = (_readings(comparison, word) for word in ("better", "worse"))
            yield f"a trade: better in {better}; worse in {worse}"
        yield from (safe_sentence(n) for n in comparison["notes"])


def _readings(comparison: Mapping[str, Any], verdict: str) -> str:
    return ", ".join(safe(row["reading"]) for row in comparison["rows"] if row["verdict"] == verdict)


def changes_of(night: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Changes to show: the farthest outside its noise first, as the report has them."""
    return list(night["changes"])


def causes_of(night: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What was changed just before the largest changes began, each once."""
    seen, out = set(), []
    for change in night["changes"]:
        for event in change["causes"]:
            key = (event["summary"], event["at"])
            if key not in seen:
                seen.add(key)
                out.append(event)
    return out


def cause_sentence(night: Mapping[str, Any]) -> str | None:
    """The likely cause of what moved, or that none is on record."""
    moved = night["changes"]
    if not moved:
        return None
    causes = causes_of(night)
    if not causes:
        known = any(c["last_good"] for c in moved)
        return "nothing on record was changed when it began: look at the traffic and the machine" if known else None
    at = causes[0]["at"]
    then = [e for e in causes if e["at"] == at]
    more = f" and {len(then) - SHOWN_CAUSES} more" if len(then) > SHOWN_CAUSES else ""
    listed = "; ".join(safe_sentence(e["summary"]) for e in then[:SHOWN_CAUSES])
    return f"{listed}{more} (between {short_time(then[0]['before'])} and {short_time(at)})"


def verdict_words(night: Mapping[str, Any]) -> str:
    """``worse: 5 of 61 readings are outside their noise``."""
    moved = len(night["changes"])
    if night["verdict"] == "undecided":
        return f"cannot be compared: {safe_sentence(night['reason'] or 'no reason given')}"
    if night["verdict"] == "same":
        return f"as before: {night['compared']} readings inside their noise"
    return f"{night['verdict']}: {moved} of {night['compared']} readings are outside their noise"


def traffic_words(night: Mapping[str, Any]) -> str | None:
    traffic = night.get("traffic")
    if not traffic or traffic["verdict"] != "changed":
        return None
    return f"traffic: {change_words(traffic)}"


def night_of(nights: Mapping[str, Any], labels: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A subject's part of the nights."""
    return next((s for s in nights.get("subjects", ()) if s["labels"] == dict(labels)), None)


def title(nights: Mapping[str, Any]) -> str:
    """``night of 2026-11-22 03:00 UTC beside 20 nights before``"""
    before = nights.get("nights_before", 0)
    return f"night of {short_time(nights.get('end'))} UTC beside {before} night{'' if before == 1 else 's'} before"


def general_notes(nights: Mapping[str, Any]) -> Iterator[str]:
    """Missed nights, repeated runs, subjects that are gone, a store that failed."""
    if not nights.get("kept", True):
        yield f"this night was NOT kept: {safe_sentence(nights.get('reason') or 'the history could not be written')}"
    yield from (safe_sentence(n) for n in nights.get("notes", ()))
    for gone in nights.get("missing_subjects", ()):
        yield f"{subject_title(gone['labels'])} was not seen tonight; last seen {short_time(gone['last_seen'])}"


def draw(console: Console, nights: Mapping[str, Any], options: RenderOptions) -> None:
    """The part of the terminal report behind the subjects."""
    from rich.table import Table
    from rich.text import Text

    console.print(f"NIGHTS  {title(nights)}", style="bold")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=3, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for note in general_notes(nights):
        table.add_row(Text(" !!", style="bold yellow"), Text(note))
    for night in nights.get("subjects", ()):
        style = STYLES[night["verdict"]]
        mark = Text(f"{MARKS[night['verdict']]:>3}", style=style)
        table.add_row(mark, Text(f"{subject_title(night['labels'])}: {verdict_words(night)}"))
        for line in subject_lines(night, show_all=options.show_all):
            table.add_row("", Text(line))
    console.print(table)


def subject_lines(night: Mapping[str, Any], *, show_all: bool = False) -> Iterator[str]:
    """Likely cause, changes and events of one subject, one sentence each."""
    yield from (safe_sentence(text) for text in night.get("remarks", ()))
    cause = cause_sentence(night)
    if cause:
        yield f"likely cause: {cause}"
    yield from comparison_lines(night)
    changes = changes_of(night)
    shown = changes if show_all else changes[:SHOWN_CHANGES]
    for change in shown:
        words = change_words(change, row_of(night, change["reading"]))
        yield f"{MARKS[change['verdict']]} {safe(change['reading'])}: {words}"
    if len(changes) > len(shown):
        yield f"and {len(changes) - len(shown)} more (--all)"
    traffic = traffic_words(night)
    if traffic:
        yield traffic
    named = {(e["summary"], e["at"]) for e in causes_of(night)}
    fresh = [e for e in night["events"] if (e["summary"], e["at"]) not in named]
    if fresh:
        yield "since last night: " + "; ".join(safe_sentence(e["summary"]) for e in fresh[:SHOWN_CAUSES])
