"""The rows of a comparison: one reading of two arms each, with change, interval, noise and verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.compare.confounders import Confounder, find_confounders, like_figures_disagree
from auditor.compare.noise import Change, Value, measure_change

MARGIN = 0.05
"""A change whose whole interval is within this is "same"."""
UNKNOWN_MARGIN = 0.02
"""Without any noise, only a change below this is called "same"; a larger one is not judged."""
SETTINGS = frozenset({"kv_pool_tokens", "kv_max_concurrency", "max_model_len", "block_size_tokens"})
"""Readings that an engine is given or works out at boot: equal values are no luck, and another one is a change."""


@dataclass(frozen=True)
class Side:
    """One subject in the windows of one arm: its part of each report, with ``window`` and ``version`` beside it."""

    name: str
    items: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Comparison:
    """One subject of two arms: what differs beside the thing under test, and what changed."""

    confounders: tuple[Confounder, ...]
    rows: tuple[dict[str, Any], ...]
    changes: tuple[tuple[str, Change], ...]
    """(reading, change) of the rows that an overall verdict may rest on."""
    notes: tuple[str, ...]


def compare_subject(
    subject: str,
    baseline: Side,
    arm: Side,
    *,
    better: Mapping[str, str | None],
    readings: Sequence[str] = (),
    baseline_name: str = "baseline",
) -> Comparison:
    """Compare one subject of two arms.

    Args:
        better: reading -> ``lower``, ``higher`` or None where no direction is known to be good.
        readings: only these, where given.
        baseline_name: what sentences call the baseline.
    """
    made = _rows(subject, baseline, arm, better, readings)
    moved = {row["reading"]: (row["change"], row["low"], row["high"]) for row, _ in made if row["change"] is not None}
    return Comparison(
        confounders=tuple(find_confounders(arm.name, baseline.items, arm.items, baseline_name=baseline_name)),
        rows=tuple(row for row, _ in made),
        changes=tuple((row["reading"], change) for row, change in made if change is not None),
        notes=tuple(like_figures_disagree(moved)),
    )


def _rows(
    subject: str, baseline: Side, arm: Side, better: Mapping[str, str | None], wanted: Sequence[str]
) -> list[tuple[dict[str, Any], Change | None]]:
    """A row for each reading whose direction is declared, and for its quantiles, which come without a change."""
    left, right = baseline.items, arm.items
    out: list[tuple[dict[str, Any], Change | None]] = []
    names = list(dict.fromkeys([*left[0]["readings"], *right[0]["readings"]]))
    for reading in names:
        if (wanted and reading not in wanted) or reading not in better:
            continue
        a, b = _values(left, reading), _values(right, reading)
        head = {
            "reading": reading,
            "subject": subject,
            "arm": arm.name,
            "baseline": baseline.name,
            "better": better[reading],
        }
        if not a or not b:
            reason = _why_missing(left if not a else right, reading)
            row = {**head, "baseline_value": _plain_mean(a), "value": _plain_mean(b), "change": None, "low": None,
                   "high": None, "noise": "unknown", "verdict": "undecided", "reason": reason}  # fmt: skip
            out.append((row, None))
            continue
        change = measure_change(a, b, exact=reading in SETTINGS)
        verdict = judge_change(change, better[reading])
        row = {
            **head,
            "baseline_value": change.baseline,
            "value": change.value,
            "change": change.change,
            "low": change.low,
            "high": change.high,
            "noise": change.noise,
            "verdict": verdict,
            "reason": _reason(change, verdict),
        }
        out.append((row, change))
        out += _tails(head, left, right, reading)
    return out


def _values(items: Sequence[Mapping[str, Any]], reading: str) -> list[Value]:
    out = []
    for item in items:
        r = item["readings"].get(reading)
        if r and r.get("value") is not None:
            out.append(Value(r["value"], r.get("low"), r.get("high"), r.get("count")))
    return out


def _plain_mean(values: Sequence[Value]) -> float | None:
    return math.fsum(v.value for v in values) / len(values) if values else None


def _why_missing(items: Sequence[Mapping[str, Any]], reading: str) -> str:
    for item in items:
        r = item["readings"].get(reading)
        if r is not None:
            return f"{r.get('state')}: {r.get('reason') or ''}".rstrip(": ")
    return "not in the report"


def judge_change(change: Change, better: str | None) -> str:
    """better, worse, changed (no good direction is known), same, or undecided."""
    if change.change is None or change.low is None or change.high is None:
        if change.change is not None and abs(change.change) <= UNKNOWN_MARGIN:
            return "same"
        return "undecided"
    if change.low > 0 or change.high < 0:
        if better is None:
            return "changed"
        return "better" if (change.change > 0) == (better == "higher") else "worse"
    if change.low >= -MARGIN and change.high <= MARGIN:
        return "same"
    return "undecided"


def _reason(change: Change, verdict: str) -> str | None:
    if verdict == "undecided" and change.noise == "unknown":
        return "noise unknown: repeat the windows (collect --split, or more runs) before calling it a change"
    if verdict == "undecided":
        return "the change is not distinguishable from noise, and not small either"
    if verdict == "same" and change.noise == "unknown":
        return "noise unknown; it moved less than 2 %"
    return None


def _tails(
    head: Mapping[str, Any], left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]], reading: str
) -> list[tuple[dict[str, Any], Change | None]]:
    """Quantiles of a distribution: shown with their buckets, blind where both arms sit in one, judged never alone."""
    out: list[tuple[dict[str, Any], Change | None]] = []
    for q in ("p50", "p90", "p99"):
        a = [item["readings"][reading][q] for item in left if item["readings"].get(reading, {}).get(q)]
        b = [item["readings"][reading][q] for item in right if item["readings"].get(reading, {}).get(q)]
        if not a or not b:
            continue
        buckets = {(x["low"], x["high"]) for x in (*a, *b)}
        values = [[x["value"] for x in side if x["value"] is not None] for side in (a, b)]
        row = {
            **head,
            "reading": f"{reading} {q}",
            "baseline_value": math.fsum(values[0]) / len(values[0]) if values[0] else None,
            "value": math.fsum(values[1]) / len(values[1]) if values[1] else None,
            "change": None,
            "low": None,
            "high": None,
            "noise": "unknown",
            "verdict": "blind" if len(buckets) == 1 else "undecided",
            "reason": "both arms lie in one bucket: compare means"
            if len(buckets) == 1
            else "a tail is judged only where repeats of both arms measured its noise",
        }
        if len(buckets) > 1 and len(values[0]) > 1 and len(values[1]) > 1:
            change = measure_change([Value(v) for v in values[0]], [Value(v) for v in values[1]])
            row |= {"change": change.change, "low": change.low, "high": change.high, "noise": change.noise}
            if _one_bucket_each_run(a, b):
                row["verdict"] = judge_change(change, "lower" if "seconds" in reading else None)
                row["reason"] = None
        out.append((row, None))
    return out


def _one_bucket_each_run(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> bool:
    """The arms' buckets do not overlap, so that interpolation cannot have made the difference."""
    highs = [x["high"] for x in a if x["high"] is not None], [x["high"] for x in b if x["high"] is not None]
    if len(highs[0]) < len(a) or len(highs[1]) < len(b):
        return False
    return bool(max(highs[0]) <= min(x["low"] for x in b) or max(highs[1]) <= min(x["low"] for x in a))
