"""The levers on a screen: what is worth a test with its range, the rest in a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from auditor.outputs.text import safe_sentence, speedup_range

RANK = {"worth_a_test": 0, "undecided": 1, "not_worth_a_test": 2, "not_applicable": 3}
MARKS = {"worth_a_test": "TRY", "undecided": "?", "not_worth_a_test": "no", "not_applicable": "-"}
HEADING = "LEVERS  most each can gain in request time, never a promise"
STRETCH = "decode_stretch_share"
CHUNKS = ("batched-tokens", "long-prefill-threshold", "prefill-decode-split")
"""Levers that only move chunks about: they share the ceiling of free prefill."""


class Line(NamedTuple):
    mark: str
    head: str
    text: str


def lever_lines(subject: Mapping[str, Any], *, show_all: bool = False) -> tuple[str, list[Line]]:
    """(what free prefill would gain, one line a lever or group), the most promising first."""
    levers = {
        name: lever
        for name, lever in subject.get("levers", {}).items()
        if show_all or lever["verdict"] != "not_applicable"
    }
    ranked = sorted(
        levers.items(), key=lambda item: (RANK[item[1]["verdict"]], -gain(item[1]), item[0] in CHUNKS, item[0])
    )
    return _prefill_sentence(subject, levers), list(_lines(ranked, show_all))


def gain(lever: Mapping[str, Any]) -> float:
    """What levers are ranked by: the low end that is sure, then the high end."""
    low, high = lever["ceiling_speedup"]
    return float(low or 0.0) * 1000 + min(999.0, float(high or 0.0))


def _prefill_sentence(subject: Mapping[str, Any], levers: Mapping[str, Any]) -> str:
    if not any(STRETCH in lever["needs"] for lever in levers.values()):
        return ""
    reading = subject["readings"].get(STRETCH, {})
    if reading.get("sentence"):
        return safe_sentence(reading["sentence"])
    text = f"No ceiling for prefill levers: {reading.get('reason') or 'it was not read'}."
    share = subject["readings"].get("prefill_share", {}).get("value")
    if share is not None and share < 1:
        free, twice = 1 / (1 - share), 1 / (1 - share / 2)
        text += f" Plain arithmetic, which is neither end: free prefill {free:.3g}x, twice as fast {twice:.3g}x."
    return safe_sentence(text)


def _lines(ranked: list[tuple[str, Mapping[str, Any]]], show_all: bool) -> Iterator[Line]:
    done: set[str] = set()
    for name, lever in ranked:
        if name in done:
            continue
        names = [name]
        if not show_all:
            names = [n for n, other in ranked if _together(name, lever, n, other)] or [name]
        done.update(names)
        yield Line(MARKS[lever["verdict"]], "\n".join(names), safe_sentence(_text(lever, grouped=len(names) > 1)))


def _together(name: str, lever: Mapping[str, Any], other_name: str, other: Mapping[str, Any]) -> bool:
    """Levers that have nothing different to say share a line."""
    if lever["verdict"] != other["verdict"]:
        return False
    if name in CHUNKS and other_name in CHUNKS:
        return STRETCH in lever["needs"] and STRETCH in other["needs"]
    first, second = (v["summary"].split(";")[0] for v in (lever, other))
    return bool(first == second)


def _text(lever: Mapping[str, Any], *, grouped: bool) -> str:
    first, _, rest = lever["summary"].partition("; ")
    if grouped and STRETCH in lever["needs"]:
        first, rest = "they only move chunks: together no more than that", ""
    if lever["verdict"] == "worth_a_test":
        return f"{first}; {rest}" if rest else first
    if lever["verdict"] == "not_worth_a_test":
        bounds = lever["ceiling_speedup"]
        nothing = bounds[1] is None or bounds[1] < 1.005 or STRETCH in lever["needs"]
        return first if nothing else f"{speedup_range(bounds)}: {first}"
    settles = lever.get("settles")
    return f"{first}; to decide: {settles}" if settles else first
