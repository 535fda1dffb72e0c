"""Numbers, units and safe labels, for every output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MARKS = {"holds": "YES", "broken": "NO", "undecided": "?", "not_applicable": "-", "error": "ERR"}
"""On a screen a premise is a question."""

LONGEST_LABEL = 120
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class RenderOptions:
    width: int = 80
    colour: bool = False
    show_all: bool = False


def safe(text: object, longest: int = LONGEST_LABEL) -> str:
    """A label or sentence fit for any screen: no control or direction characters, not endless."""
    clean = _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", str(text))
    return clean if len(clean) <= longest else clean[: longest - 3] + "..."


def safe_sentence(text: object) -> str:
    return safe(text, longest=600)


def number(value: float | None, unit: str = "") -> str:
    """A number with three significant digits, whole counts whole, thousands parted."""
    if value is None:
        return "none"
    if unit == "ratio":
        return percent(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(value: float | None) -> str:
    if value is None:
        return "none"
    text = f"{value * 100:.1f}"
    return f"{text.removesuffix('.0')} %"


def seconds(value: float | None) -> str:
    if value is None:
        return "length unknown"
    if value < 120:
        return f"{value:.3g} s"
    if value < 7200:
        return f"{value / 60:.3g} min"
    return f"{value / 3600:.3g} h" if value < 172800 else f"{value / 86400:.3g} days"


def reading_words(reading: Mapping[str, Any]) -> str:
    """``13.4 % (10.4 % .. 16.4 %, n 401)``, limits, or the state with its reason."""
    unit = reading.get("unit", "")
    low, high, count = reading.get("low"), reading.get("high"), reading.get("count")
    n = "" if count is None else f"n {number(count)}"
    if reading.get("value") is not None:
        inside = [] if low is None and high is None else [f"{number(low, unit)} .. {number(high, unit)}"]
        text = number(reading["value"], unit) + ("" if unit in ("ratio", "label", "") else f" {unit}")
        inside += [n] if n else []
        mark = " [partial]" if reading.get("state") == "partial" else ""
        return text + (f" ({', '.join(inside)})" if inside else "") + mark
    if reading.get("state") == "bounded":
        ends = " to ".join("no limit" if end is None else number(end, unit) for end in (low, high))
        return f"{ends}{'' if unit in ('ratio', '') else ' ' + unit}{f' ({n})' if n else ''}"
    return f"{reading.get('state')}: {safe_sentence(reading.get('reason') or '')}"


def subject_title(labels: Mapping[str, Any]) -> str:
    """``vllm, model m`` from a subject's labels."""
    parts = [safe(labels.get("engine") or "?")]
    parts += [
        f"{key} {safe(value) if value is not None else '(no label)'}"
        for key, value in labels.items()
        if key != "engine"
    ]
    return ", ".join(parts)


def speedup_range(pair: Any) -> str:
    """``1.2x to 1.6x``, ``at least 2x``, ``unknown``."""
    low, high = (pair or (None, None))[0], (pair or (None, None))[1]
    if low is None and high is None:
        return "unknown"
    if high is None:
        return f"at least {low:.3g}x, no upper limit"
    if low is None:
        return f"at most {high:.3g}x"
    return f"{low:.3g}x to {high:.3g}x"
