"""Arms of reports -> the ``compare`` document: confounders first, a row a reading, one verdict or a trade."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.compare.confounders import Confounder, find_confounders, like_figures_disagree
from auditor.compare.noise import Change, Value, measure_change
from auditor.model import SCHEMA, UsageError

MARGIN = 0.05
"""A change whose whole interval is within this is "same"."""
UNKNOWN_MARGIN = 0.02
"""Without any noise, only a change below this is called "same"; a larger one is not judged."""

TAILS = ("ttft_seconds", "itl_seconds", "e2e_seconds")
HEADLINES = (
    "ttft_seconds", "itl_seconds", "e2e_seconds", "generation_tokens_per_wall_second", "queue_share",
    "decode_seconds_per_token", "mean_prefill_seconds", "preemptions_per_request",
)  # fmt: skip
"""Readings that the overall verdict rests on; each is judged by its 99 % interval, since there are several."""


@dataclass(frozen=True)
class Arm:
    """One arm: reports of its windows, or the boot that refused."""

    name: str
    reports: tuple[Mapping[str, Any], ...]
    files: tuple[str, ...]
    refusal: str | None = None


def make_arm(name: str, documents: Sequence[tuple[str, Mapping[str, Any]]]) -> Arm:
    """An arm of named documents: audit reports, or a ``boots`` document for a setting that did not start.

    Raises:
        UsageError: a document of another kind.
    """
    reports, refusal = [], None
    for path, document in documents:
        kind = document.get("kind")
        if kind == "audit":
            reports.append(document)
        elif kind == "boots":
            refused = [b for b in document.get("boots", ()) if b.get("state") == "refused"]
            if not refused:
                raise UsageError(f"{path}: its boots started; compare their windows instead")
            detail = refused[-1].get("refusal") or {}
            refusal = _refusal_words(detail)
        else:
            raise UsageError(f"{path}: a {kind} is no arm; windows, reports and boots are")
    return Arm(name, tuple(reports), tuple(path for path, _ in documents), refusal)


def _refusal_words(detail: Mapping[str, Any]) -> str:
    needed, available = detail.get("needed_gib"), detail.get("available_gib")
    if needed is None or available is None:
        return "did not start"
    return f"did not start: {needed:g} GiB of KV needed, {available:g} GiB there"


def compare_arms(
    arms: Sequence[Arm], *, better: Mapping[str, str | None], tool: str, readings: Sequence[str] = ()
) -> dict[str, Any]:
    """The compare document; the first arm is the baseline.

    Args:
        better: reading -> ``lower``, ``higher`` or None where no direction is known to be good.
        readings: only these, where given.

    Raises:
        UsageError: fewer than two arms, or a baseline that has no window.
    """
    if len(arms) < 2:
        raise UsageError("one arm only: a comparison needs a baseline and at least one other arm")
    baseline = arms[0]
    if not baseline.reports:
        raise UsageError(f"{baseline.name}: the baseline has no window to compare with")
    confounders: list[Confounder] = []
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    changes: list[tuple[str, str, Change]] = []
    for arm in arms[1:]:
        if arm.refusal:
            notes.append(f"{arm.name} {arm.refusal}: that is its result")
            continue
        for subject, left, right in _matched(baseline, arm, confounders):
            confounders += find_confounders(arm.name, left, right)
            made = _rows(subject, baseline.name, arm.name, left, right, better, readings)
            rows += [row for row, _ in made]
            changes += [(arm.name, row["reading"], change) for row, change in made if change is not None]
            moved = {
                row["reading"]: (row["change"], row["low"], row["high"]) for row, _ in made if row["change"] is not None
            }
            notes += like_figures_disagree(moved)
    verdict = _overall(arms, confounders, changes, rows, better)
    return {
        "schema": SCHEMA,
        "kind": "compare",
        "tool": tool,
        "arms": [
            {"name": a.name, "windows": list(a.files), "refusal": a.refusal, "count": len(a.reports)} for a in arms
        ],
        "confounders": list(dict.fromkeys([c.sentence for c in confounders])),
        "notes": notes,
        "rows": rows,
        "verdict": verdict,
        "exit_code": 0,
    }


def _subjects(arm: Arm) -> dict[str, list[Mapping[str, Any]]]:
    """Subjects of an arm's windows by engine and model, each with its window and version."""
    out: dict[str, list[Mapping[str, Any]]] = {}
    for report in arm.reports:
        versions = [t.get("version") for t in report["targets"] if t.get("version")]
        for subject in report["subjects"]:
            labels = subject["labels"]
            key = f"{labels.get('engine')} {labels.get('model') or ''}".strip()
            item = {**subject, "window": report["window"], "version": versions[0] if versions else None}
            out.setdefault(key, []).append(item)
    return out


def _matched(
    baseline: Arm, arm: Arm, confounders: list[Confounder]
) -> list[tuple[str, list[Mapping[str, Any]], list[Mapping[str, Any]]]]:
    left, right = _subjects(baseline), _subjects(arm)
    if not right or not left:
        empty = arm.name if not right else baseline.name
        confounders.append(Confounder(f"{empty}: no engine was measured in it", True))
        return []
    if len(left) == len(right) == 1:
        return [(next(iter(left)), next(iter(left.values())), next(iter(right.values())))]
    for key in sorted(set(left) ^ set(right)):
        side = baseline.name if key in left else arm.name
        confounders.append(Confounder(f"{key} is in {side} only"))
    if not set(left) & set(right):
        confounders.append(Confounder(f"{arm.name}: no model is in both arms", True))
    return [(key, left[key], right[key]) for key in sorted(set(left) & set(right))]


def _rows(
    subject: str,
    baseline: str,
    arm: str,
    left: Sequence[Mapping[str, Any]],
    right: Sequence[Mapping[str, Any]],
    better: Mapping[str, str | None],
    wanted: Sequence[str],
) -> list[tuple[dict[str, Any], Change | None]]:
    out: list[tuple[dict[str, Any], Change | None]] = []
    names = list(dict.fromkeys([*left[0]["readings"], *right[0]["readings"]]))
    for reading in names:
        if (wanted and reading not in wanted) or reading not in better:
            continue
        a, b = _values(left, reading), _values(right, reading)
        head = {"reading": reading, "subject": subject, "arm": arm, "baseline": baseline, "better": better[reading]}
        if not a or not b:
            reason = _why_missing(left if not a else right, reading)
            row = {**head, "baseline_value": _plain_mean(a), "value": _plain_mean(b), "change": None, "low": None,
                   "high": None, "noise": "unknown", "verdict": "undecided", "reason": reason}  # fmt: skip
            out.append((row, None))
            continue
        change = measure_change(a, b)
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
            else "a tail is judged only where its own noise was measured",
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


def _overall(
    arms: Sequence[Arm],
    confounders: Sequence[Confounder],
    changes: Sequence[tuple[str, str, Change]],
    rows: Sequence[Mapping[str, Any]],
    better: Mapping[str, str | None],
) -> str:
    """One word: a winner needs a headline beyond its 99 % interval, and no headline or tail against it at 95 %."""
    if any(a.refusal for a in arms) and not changes:
        return "worse"
    if any(c.fatal for c in confounders):
        return "not_comparable"
    words = []
    for _, reading, change in changes:
        if reading not in HEADLINES:
            continue
        direction = better.get(reading)
        if change.low_99 is not None and change.high_99 is not None:
            wide = Change(change.baseline, change.value, change.change, change.low_99, change.high_99, change.noise)
            word = judge_change(wide, direction)
            words.append("same" if word == "undecided" and judge_change(change, direction) == "same" else word)
        else:
            words.append(judge_change(change, direction))
    found = set(words)
    against = {
        row["verdict"]
        for row in rows
        if row["reading"] in HEADLINES or any(row["reading"] == f"{name} p99" for name in TAILS)
    }
    if ("better" in found and "worse" in against) or ("worse" in found and "better" in against):
        return "trade"
    for word in ("better", "worse"):
        if word in found:
            return word
    if found == {"same"}:
        return "same"
    return "undecided"
