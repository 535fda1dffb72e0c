"""A report as rows: what of it is kept for the nights to come."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

STATES = ("measured", "partial", "bounded", "no_traffic", "not_exported", "absent", "invalid", "failed")
"""Stored by position: append only."""
VERDICTS = ("holds", "broken", "undecided", "not_applicable", "error")
SEVERITIES = ("info", "warning", "problem")
TARGET_STATES = ("measured", "failed", "not_an_engine", "not_one_process")
QUANTILES = ("p50", "p90", "p99")
LONGEST_TEXT = 600
POOL_FACTS = ("kv_pool_tokens", "max_model_len")
"""Readings that are settings: older pages have them nowhere else."""

Numbers = tuple[float | None, float | None, float | None, float | None]


@dataclass(frozen=True)
class ReadingRow:
    name: str
    unit: str
    state: int
    numbers: Numbers
    """value, low, high, count"""
    reason: str | None


def unix_seconds(text: str | None) -> float | None:
    """Unix seconds of a time in a report."""
    if text is None:
        return None
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


def labels_key(labels: Mapping[str, Any]) -> str:
    """A subject's labels as text that is the same for the same labels."""
    return json.dumps(dict(labels), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def reading_rows(subject: Mapping[str, Any]) -> Iterator[ReadingRow]:
    """One row a reading; quantiles of a distribution stand beside it as ``ttft_seconds.p90``."""
    for name, r in subject["readings"].items():
        state = STATES.index(r["state"])
        numbers = (r["value"], r["low"], r["high"], r["count"])
        yield ReadingRow(name, r["unit"], state, numbers, _short(r["reason"]))
        for quantile in QUANTILES:
            at = r.get(quantile)
            if isinstance(at, Mapping) and r["state"] in ("measured", "partial"):
                kept = state if at["value"] is not None else STATES.index("bounded")
                yield ReadingRow(
                    f"{name}.{quantile}", r["unit"], kept, (at["value"], at["low"], at["high"], None), None
                )


def fact_rows(document: Mapping[str, Any], subject: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, value) of what the engine said of itself: settings, configuration, version, process start."""
    for name, setting in subject.get("settings", {}).items():
        yield f"setting {name}", _plain(setting["value"])
    facts = subject.get("facts", {})
    for name, value in facts.get("engine_config", {}).items():
        yield f"config {name}", _short(str(value)) or ""
    if facts.get("process_started"):
        yield "process started", str(facts["process_started"])
    for name in POOL_FACTS:
        value = subject["readings"].get(name, {}).get("value")
        if value is not None:
            yield name, _plain(value)
    if "no_traffic" not in subject["flags"]:
        # Without traffic a reading that is not exported may say that nothing happened instead.
        names = sorted(k for k, r in subject["readings"].items() if r["state"] == "not_exported")
        yield "not exported", " ".join(names)
    own = facts.get("targets")
    seen = [t for t in document.get("targets", ()) if t.get("version") and (own is None or t["address"] in own)]
    versions = sorted({str(t["version"]) for t in seen})
    if versions:
        yield "engine version", ", ".join(versions)


def run_row(document: Mapping[str, Any], *, end: float, ran: float) -> dict[str, Any]:
    """The run itself, from the report's window."""
    window = document["window"]
    return {
        "end": end,
        "start": unix_seconds(window["start"]),
        "ran": ran,
        "kind": window["kind"],
        "seconds": window["seconds"],
        "coverage": window["coverage"],
        "restarts": window["restarts"],
        "exit_code": document["exit_code"],
        "tool": document["tool"],
        "source": _short(window.get("source") or "") or "",
        "notes": json.dumps([_short(str(w)) for w in window.get("warnings", ())], ensure_ascii=False),
    }


def _plain(value: object) -> str:
    return (
        f"{value:.15g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)[:LONGEST_TEXT]
    )


def _short(text: str | None) -> str | None:
    return None if text is None else text[:LONGEST_TEXT]
