"""Settings: what a page does not tell, and what it does tell, each with its source.

Order: an option wins over the boot log, the boot log over the page (whose block size is wrong for hybrid models).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from auditor.measures.vocabulary import Engine
from auditor.model import Gauge, Info, Part, Setting

PAGE = "page"
MOST_CONTEXT = 1e9


def page_settings(parts: Sequence[Part], engine: Engine) -> dict[str, Setting]:
    """What the engines' configuration series say, where all copies agree."""
    copies = [
        labels
        for part in parts
        for quantity in [part.quantities.get("cache_config")]
        if isinstance(quantity, Info)
        for labels in quantity.labels
    ]

    def agreed(key: str) -> str | None:
        values = set()
        for labels in copies:
            names = engine.config_labels.get(key, ())
            values.add(next((labels[n] for n in names if labels.get(n, "None") not in ("", "None")), ""))
        return values.pop() if len(values) == 1 else None

    out: dict[str, Setting] = {}
    out.update(_from_gauges(parts))
    caching = agreed("prefix_caching")
    if caching in ("True", "False", "true", "false", "1", "0"):
        out["prefix_caching"] = Setting(caching in ("True", "true", "1"), PAGE)
    for key, name in (
        ("block_size", "block_size"),
        ("context", "context"),
        ("seats", "seats"),
        ("budget", "budget"),
    ):
        value = _positive(agreed(key))
        if value is not None:
            out[name] = Setting(value, PAGE)
    pool, concurrency = _positive(agreed("pool_tokens")), _positive(agreed("max_concurrency"))
    # Hybrid and sliding-window models need less than their length for a full context.
    odd = any(
        labels.get(n, "None") not in ("", "None")
        for labels in copies
        for key in ("hybrid", "sliding_window")
        for n in engine.config_labels.get(key, ())
    )
    if "context" not in out and pool and concurrency and not odd and pool / concurrency < MOST_CONTEXT:
        # The engine divides its pool by the context to print this concurrency.
        out["context"] = Setting(float(round(pool / concurrency)), "page (pool over concurrency)")
    return out


SETTING_GAUGES = (("context", "context_tokens"), ("block_size", "page_size_tokens"), ("seats", "seat_limit"))


def _from_gauges(parts: Sequence[Part]) -> dict[str, Setting]:
    """Settings that an engine exports as gauges, where all its copies agree."""
    out: dict[str, Setting] = {}
    for setting, quantity in SETTING_GAUGES:
        values = {q.last for p in parts if isinstance(q := p.quantities.get(quantity), Gauge)}
        value = values.pop() if len(values) == 1 else None
        if value is not None and 0 < value < math.inf:
            out[setting] = Setting(value, PAGE)
    return out


def _positive(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def resolve_settings(
    page: Mapping[str, Setting], boot_log: Mapping[str, Setting], options: Mapping[str, Setting]
) -> tuple[dict[str, Setting], list[str]]:
    """Settings in force, and what two sources say differently, in words."""
    out: dict[str, Setting] = {**page, **boot_log, **options}
    disagreements = []
    for key in sorted(out):
        said = [(s.get(key)) for s in (page, boot_log, options)]
        known = [s for s in said if s is not None]
        derived = any(s.source.startswith("page (") for s in known)
        if len({_same(s.value) for s in known}) > 1 and not derived:
            words = ", ".join(f"{_same(s.value)} ({s.source})" for s in known)
            disagreements.append(f"{key}: {words}; {_same(out[key].value)} is used")
    return out, disagreements


def _same(value: float | str | bool) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
