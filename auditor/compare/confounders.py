"""What differs between two arms beside the thing under test: said first, since it invalidates the rest."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DIFFERENT = 0.20
"""Workload figures further apart than this are different workloads."""
UNEQUAL = 3.0
FAR_APART = 10.0
Items = Sequence[Mapping[str, Any]]
"""One subject in several reports, with each report's ``window`` and ``version`` beside it."""
LIKE_FIGURES = (("computed_tokens_per_prefill_request_second", "achieved_tflops_per_gpu"),)


@dataclass(frozen=True)
class Confounder:
    sentence: str
    fatal: bool = False
    """The arms cannot be compared at all."""


def find_confounders(
    name: str,
    baseline: Sequence[Mapping[str, Any]],
    arm: Sequence[Mapping[str, Any]],
    *,
    baseline_name: str = "baseline",
) -> list[Confounder]:
    """Differences between the subjects of the baseline's windows and of an arm's.

    Each item is one subject of a report with the report's ``window`` and ``version`` put beside it.
    """
    return [
        *_identity(name, baseline, arm),
        *_settings(name, baseline_name, baseline, arm),
        *_windows(name, baseline_name, baseline, arm),
        *_workload(name, baseline, arm),
    ]


def _one(items: Sequence[Mapping[str, Any]], path: str) -> set[str]:
    return {str(item["labels"].get(path)) for item in items}


def _identity(name: str, a: Items, b: Items) -> Iterator[Confounder]:
    if _one(a, "engine") != _one(b, "engine"):
        yield Confounder(f"{name}: another engine ({_words(_one(a, 'engine'))} -> {_words(_one(b, 'engine'))})", True)
    if _one(a, "model") != _one(b, "model"):
        yield Confounder(f"{name}: another model ({_words(_one(a, 'model'))} -> {_words(_one(b, 'model'))})", True)
    versions = ({v for i in a if (v := i.get("version"))}, {v for i in b if (v := i.get("version"))})
    if all(versions) and versions[0] != versions[1]:
        yield Confounder(f"{name}: another engine version ({_words(versions[0])} -> {_words(versions[1])})")
    if any(_same_window(x, y) for x in a for y in b):
        yield Confounder(f"{name}: the same window stands in both arms", True)


COUNTED = (
    "finished_requests", "prompt_tokens", "generation_tokens", "prefill_seconds", "decode_seconds", "queue_seconds",
)  # fmt: skip
"""Sums that two windows share to the last digit only when they are one, whatever settings they were audited with."""
LEAST_SUMS = 3


def same_report(x: Mapping[str, Any], y: Mapping[str, Any]) -> bool:
    """Whether two reports are of one window of the same subjects."""
    if len(x.get("subjects", ())) != len(y.get("subjects", ())):
        return False
    pairs = list(zip(x.get("subjects", ()), y.get("subjects", ()), strict=True))
    return bool(pairs) and all(
        a["labels"] == b["labels"] and _same_window({**a, "window": x["window"]}, {**b, "window": y["window"]})
        for a, b in pairs
    )


def _same_window(x: Mapping[str, Any], y: Mapping[str, Any]) -> bool:
    if any(x["window"].get(k) != y["window"].get(k) for k in ("start", "end", "seconds")):
        return False
    if x["readings"] == y["readings"]:
        return True
    pairs = [[item["readings"].get(name, {}).get("value") for item in (x, y)] for name in COUNTED]
    known = [a for a, b in pairs if a == b and a]
    return len(known) >= LEAST_SUMS and all(a == b for a, b in pairs)


def _settings(
    name: str, first: str, a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]
) -> Iterator[Confounder]:
    def known(items: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
        out: dict[str, set[str]] = {}
        for item in items:
            for key, setting in item.get("settings", {}).items():
                out.setdefault(key, set()).add(str(setting["value"]))
        return out

    left, right = known(a), known(b)
    changed = [k for k in sorted(set(left) & set(right)) if left[k] != right[k] and k != "engine_version"]
    if len(changed) > 1:
        words = ", ".join(f"{k} {_words(left[k])} -> {_words(right[k])}" for k in changed)
        yield Confounder(f"{name}: {len(changed)} settings differ at once ({words}): no change belongs to one of them")
    for side, known_values in ((first, left), (name, right)):
        mixed = [k for k, v in known_values.items() if len(v) > 1]
        if mixed:
            yield Confounder(f"{side}: its own windows differ in {', '.join(sorted(mixed))}")


def _windows(
    name: str, first: str, a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]
) -> Iterator[Confounder]:
    for flag, words in (
        ("cold_start", "the engine started inside the window: a cold first wave is in the figures"),
        ("counter_reset", "the engine restarted inside the window"),
        ("lifetime_only", "one scrape only: the server's whole life, warm-up and all"),
    ):
        sides = [(first, a), (name, b)]
        hit = [side for side, items in sides if any(flag in i["flags"] for i in items)]
        if hit:
            yield Confounder(f"{' and '.join(hit)}: {words}")
    for side, items in ((first, a), (name, b)):
        if all("no_traffic" in i["flags"] for i in items):
            yield Confounder(f"{side}: no traffic in it", True)
    counts = [_mean(items, "finished_requests") for items in (a, b)]
    spans = [statistics.fmean([i["window"]["seconds"] or 0.0 for i in items]) for items in (a, b)]
    for what, (x, y), unit in (("requests", counts, ""), ("length", spans, " s")):
        if x and y and max(x, y) >= UNEQUAL * min(x, y):
            far = max(x, y) >= FAR_APART * min(x, y)
            yield Confounder(
                f"{name}: unequal {what}: {x:,.0f}{unit} -> {y:,.0f}{unit}"
                + (": a long mixed window and a picked short one are not alike" if far else ""),
                far and what == "requests",
            )


def _workload(name: str, a: Items, b: Items) -> Iterator[Confounder]:
    for reading, words in (("prompt_length_tokens", "prompt length"), ("output_length_tokens", "output length")):
        x, y = _mean(a, reading), _mean(b, reading)
        if x and y and not _near(x, y):
            yield Confounder(f"{name}: another workload: mean {words} {x:,.0f} -> {y:,.0f} tokens", True)
    cached = [_mean(items, "prefix_hit_share") for items in (a, b)]
    if cached[0] is not None and cached[1] is not None and abs(cached[0] - cached[1]) > 0.05:
        yield Confounder(f"{name}: another cache state: {cached[0]:.0%} -> {cached[1]:.0%} of prompt tokens saved")
    rates = [_rate(items) for items in (a, b)]
    depth = [_depth(items) for items in (a, b)]
    (r0, r1), (d0, d1) = rates, depth
    known = r0 is not None and r1 is not None and d0 is not None and d1 is not None
    # A faster server finishes more at equal depth (closed loop) or holds fewer at an equal rate (open loop).
    if known and not _near(r0 or 0, r1 or 0) and not _near(d0 or 0, d1 or 0):
        yield Confounder(f"{name}: another load: {r0:.3g} -> {r1:.3g} requests/s, {d0:.3g} -> {d1:.3g} in flight")


def like_figures_disagree(changes: Mapping[str, tuple[float, float | None, float | None]]) -> list[str]:
    """Two figures for one thing whose changes differ beyond their intervals (or by 5 points without any)."""
    out = []
    for first, second in LIKE_FIGURES:
        if first in changes and second in changes:
            sentence = figures_disagree(first, changes[first], second, changes[second])
            if sentence:
                out.append(sentence)
    return out


def figures_disagree(
    first: str,
    a: tuple[float, float | None, float | None],
    second: str,
    b: tuple[float, float | None, float | None],
) -> str | None:
    """A sentence where two measurements of one thing cannot both be right; None where they can."""
    if None in a or None in b:
        apart = abs(a[0] - b[0]) > 0.05
    else:
        apart = (a[1] or 0) > (b[2] or 0) or (b[1] or 0) > (a[2] or 0)
    if not apart:
        return None
    return f"{first} moved {a[0]:+.1%} and {second} {b[0]:+.1%}: two figures for one thing that disagree"


def _near(x: float, y: float) -> bool:
    return abs(x - y) <= DIFFERENT * max(x, y)


def _mean(items: Sequence[Mapping[str, Any]], reading: str) -> float | None:
    values = [v for i in items if (v := i["readings"].get(reading, {}).get("value")) is not None]
    return statistics.fmean(values) if values else None


def _rate(items: Sequence[Mapping[str, Any]]) -> float | None:
    values = [
        i["readings"]["finished_requests"]["value"] / i["window"]["seconds"]
        for i in items
        if i["window"]["seconds"] and i["readings"]["finished_requests"].get("value")
    ]
    return statistics.fmean(values) if values else None


def _depth(items: Sequence[Mapping[str, Any]]) -> float | None:
    """Mean requests in flight: end-to-end request-seconds over wall seconds (Little)."""
    values = []
    for i in items:
        e2e, length = i["readings"].get("e2e_seconds", {}), i["window"]["seconds"]
        if length and e2e.get("value") is not None and e2e.get("count"):
            values.append(e2e["value"] * e2e["count"] / length)
    return statistics.fmean(values) if values else None


def _words(values: set[str]) -> str:
    return ", ".join(sorted(values))
