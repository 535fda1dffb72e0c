"""Arms of reports -> the ``compare`` document: confounders first, a row a reading, one verdict or a trade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.compare.confounders import Confounder, same_report
from auditor.compare.noise import Change
from auditor.compare.overall import overall_verdict
from auditor.compare.rows import Side, compare_subject
from auditor.model import SCHEMA, UsageError


@dataclass(frozen=True)
class Arm:
    """One arm: reports of its windows, or the boot that refused."""

    name: str
    reports: tuple[Mapping[str, Any], ...]
    files: tuple[str, ...]
    refusal: str | None = None
    repeated: tuple[str, ...] = ()
    """Files that hold a window which another file of the arm holds already; their reports are left out."""


def make_arm(name: str, documents: Sequence[tuple[str, Mapping[str, Any]]]) -> Arm:
    """An arm of named documents: audit reports, or a ``boots`` document for a setting that did not start.

    Raises:
        UsageError: a document of another kind.
    """
    reports: list[tuple[str, Mapping[str, Any]]] = []
    refusal = None
    for path, document in documents:
        kind = document.get("kind")
        if kind == "audit":
            reports.append((path, document))
        elif kind == "boots":
            refused = [b for b in document.get("boots", ()) if b.get("state") == "refused"]
            if not refused:
                raise UsageError(f"{path}: its boots started; compare their windows instead")
            detail = refused[-1].get("refusal") or {}
            refusal = _refusal_words(detail)
        else:
            raise UsageError(f"{path}: a {kind} is no arm; windows, reports and boots are")
    own, repeated = _without_repeated(reports)
    return Arm(name, tuple(own), tuple(path for path, _ in documents), refusal, repeated)


def _without_repeated(
    named: Sequence[tuple[str, Mapping[str, Any]]],
) -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    """Each window once: a window that stands twice is no repeat, and would promise that nothing varies."""
    own: list[Mapping[str, Any]] = []
    repeated = []
    for path, report in named:
        if any(same_report(report, other) for other in own):
            repeated.append(path)
        else:
            own.append(report)
    return own, tuple(repeated)


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
    changes: list[tuple[str, Change]] = []
    for arm in arms:
        if arm.repeated:
            files = ", ".join(arm.repeated)
            confounders.append(Confounder(f"{arm.name}: {files} hold a window that stands in it already; counted once"))
    for arm in arms[1:]:
        if arm.refusal:
            notes.append(f"{arm.name} {arm.refusal}: that is its result")
            continue
        for subject, left, right in _matched(baseline, arm, confounders):
            found = compare_subject(
                subject, Side(baseline.name, left), Side(arm.name, right), better=better, readings=readings
            )
            confounders += found.confounders
            rows += found.rows
            changes += found.changes
            notes += found.notes
    # An arm that did not boot, and nothing else to judge: that is worse.
    refused = not changes and any(a.refusal for a in arms)
    verdict = "worse" if refused else overall_verdict(confounders, changes, rows, better)
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
