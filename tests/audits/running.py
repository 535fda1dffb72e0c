"""Audits run on quantities written down by hand, through the same path as a page's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auditor.measures.examples import example_subject
from auditor.model import Example, Options, Readings, Verdict
from auditor.pipeline import read_subject, run_audit


def histogram(edge: float, count: float, total: float) -> dict[str, Any]:
    """``count`` observations in the bucket up to ``edge``, summing to ``total``."""
    return {"buckets": {edge: count}, "sum": total, "count": count}


def read(
    quantities: Mapping[str, Any],
    *,
    kind: Any = "scrapes",
    seconds: float | None = 60.0,
    settings: Mapping[str, float | str | bool] | None = None,
    options: Options | None = None,
) -> Readings:
    example = Example("holds", "", quantities, seconds=seconds, kind=kind, settings=settings or {})
    options = options or Options()
    return read_subject(example_subject(example, options), options)


def judge(audit: str, quantities: Mapping[str, Any], **how: Any) -> Verdict:
    return run_audit(audit, read(quantities, **how), how.get("options") or Options())
