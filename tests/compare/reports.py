"""Small reports to compare: only what a comparison reads of them."""

from __future__ import annotations

from typing import Any

DEFAULTS = {
    "finished_requests": 400.0,
    "prompt_length_tokens": 1000.0,
    "output_length_tokens": 200.0,
    "prefix_hit_share": 0.2,
}
SPAN_SECONDS = 600.0


def reading(value: float | None, low: float | None = None, high: float | None = None, **more: Any) -> dict[str, Any]:
    state = "measured" if value is not None else "no_traffic"
    base = {"state": state, "value": value, "low": low, "high": high, "count": 400, "reason": None, "unit": ""}
    return base | more


def report(
    *,
    model: str = "m",
    engine: str = "vllm",
    version: str | None = None,
    seconds: float | None = SPAN_SECONDS,
    flags: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    start: str = "t0",
    **values: Any,
) -> dict[str, Any]:
    """A report of one subject; values are numbers or whole readings."""
    merged: dict[str, Any] = {**DEFAULTS, **values}
    readings = {name: v if isinstance(v, dict) else reading(v) for name, v in merged.items()}
    return {
        "schema": 1,
        "kind": "audit",
        "window": {"kind": "scrapes", "seconds": seconds, "start": start},
        "targets": [{"address": "a", "state": "measured", "version": version}],
        "subjects": [
            {
                "labels": {"engine": engine, "model": model},
                "flags": list(flags),
                "settings": {k: {"value": v, "source": "flag"} for k, v in (settings or {}).items()},
                "readings": readings,
            }
        ],
    }
