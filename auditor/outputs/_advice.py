"""What a report cannot know, and which command would settle it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def unknowns(subject: Mapping[str, Any]) -> Iterator[str]:
    """What no reading of this page tells."""
    levers = subject.get("levers", {})
    if not levers:
        yield "what prefill levers could gain: decode time hides other requests' prefill"
    if "aborts_not_exported" in subject["flags"]:
        yield "client disconnects: they leave no trace in this engine's counters"


def settling(document: Mapping[str, Any], subject: Mapping[str, Any]) -> Iterator[str]:
    """The command that would decide more than this one did."""
    if "no_traffic" in subject["flags"]:
        yield "audit it again while requests run: auditor audit URL --window 10m"
        return
    if "log_only" in subject["flags"]:
        yield "a page of /metrics answers what a log cannot: auditor audit URL --window 10m"
        return
    window = document["window"]
    options = []
    if window["kind"] == "lifetime" or "too_few_requests" in subject["flags"]:
        options.append("--window 10m")
    elif window["seconds"] is None:
        options.append("--seconds N" if window["kind"] == "scrapes" else "--times FILE")
    if "budget" not in subject["settings"]:
        options.append("--budget N (or --boot-log FILE)")
    if options:
        yield f"auditor audit {'URL' if '--window 10m' in options else 'TARGET'} {' '.join(options)}"
