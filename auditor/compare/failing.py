"""``--fail-on READING:worse:5%``: which comparison ends with which exit code."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.model import UsageError

BROKEN, UNDECIDED = 1, 3


@dataclass(frozen=True)
class FailOn:
    reading: str
    share: float


def parse_fail_on(text: str, known: Sequence[str]) -> FailOn:
    """Read one rule.

    Raises:
        UsageError: another form, an unknown reading (with the nearest name), or no share.
    """
    parts = text.split(":")
    if len(parts) not in (2, 3) or parts[1] != "worse":
        raise UsageError(f"--fail-on {text!r}: READING:worse:5% is needed")
    if parts[0] not in known:
        near = difflib.get_close_matches(parts[0], list(known), 1, 0.4)
        raise UsageError(f"--fail-on: {parts[0]!r} is no reading" + (f"; did you mean {near[0]}?" if near else ""))
    number = parts[2] if len(parts) == 3 else "0%"
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        raise UsageError(f"--fail-on {text!r}: {number!r} is no share; write 5%") from None
    if share > 1 and not number.endswith("%"):
        raise UsageError(f"--fail-on {text!r}: {number} is {share:.0%}; write {number}%")
    if share < 0:
        raise UsageError(f"--fail-on {text!r}: the share is how much worse, so at least 0%")
    return FailOn(parts[0], share)


def exit_code_of(document: Mapping[str, Any], rules: Sequence[FailOn]) -> int:
    """0, 1 where a rule is surely broken, 3 where that cannot be told (or nothing could be compared)."""
    codes = {_judge(document, rule) for rule in rules}
    document_rows = document["rows"]
    if not document_rows and not any(a.get("refusal") for a in document["arms"]):
        codes.add(UNDECIDED)
    if BROKEN in codes:
        return BROKEN
    return UNDECIDED if UNDECIDED in codes else 0


def _judge(document: Mapping[str, Any], rule: FailOn) -> int:
    if any(a.get("refusal") for a in document["arms"]):
        return BROKEN
    if document["verdict"] == "not_comparable":
        return UNDECIDED
    worst = 0
    rows = [r for r in document["rows"] if r["reading"] == rule.reading]
    if not rows:
        return UNDECIDED
    for row in rows:
        if row["change"] is None or row["low"] is None or row["high"] is None:
            worst = max(worst, UNDECIDED)
            continue
        higher_is_worse = row.get("better") != "higher"
        least, most = (row["low"], row["high"]) if higher_is_worse else (-row["high"], -row["low"])
        if least > rule.share:
            return BROKEN
        if most > rule.share:
            worst = max(worst, UNDECIDED)
    return worst
