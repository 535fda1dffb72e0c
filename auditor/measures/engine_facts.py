"""What a page says of the engine itself beside its readings: finish reasons, configuration, start of the process.

Pictures and the comparison of nights need these; no verdict does.
"""

from __future__ import annotations

from typing import Any

from auditor.measures.subject import Missing, Subject
from auditor.model import utc_text

LONGEST = 120
COPIES = frozenset({"engine", "pid", "dp_rank", "tp_rank", "pp_rank", "moe_ep_rank"})
"""Labels that tell copies apart and configure nothing."""


def engine_facts(s: Subject) -> dict[str, Any]:
    """``targets`` by address; ``finish_reasons``, ``engine_config`` and ``process_started``, each where it is known."""
    out: dict[str, Any] = {"targets": sorted({p.target for p in s.parts})}
    try:
        reasons = {k: v for k, v in s.counter("finished_requests").split.items() if k}
    except Missing:
        reasons = {}
    if reasons:
        out["finish_reasons"] = reasons
    config = _configuration(s)
    if config:
        out["engine_config"] = config
    if s.joined:
        out["disaggregation"] = s.joined
    if "scrape_disturbs" in s.engine.traits:
        out["scrape_disturbs"] = s.engine.traits["scrape_disturbs"]
    out["prefill_runs"] = s.engine.prefill_runs
    started = [p.started_at for p in s.parts if p.started_at]
    if started:
        out["process_started"] = utc_text(max(started))
    return out


def _configuration(s: Subject) -> dict[str, str]:
    """Labels of the engine's configuration series; copies that differ stand side by side."""
    if not s.has("cache_config"):
        return {}
    values: dict[str, set[str]] = {}
    for labels in s.info("cache_config"):
        for name, value in labels.items():
            if name not in COPIES and not name.startswith("_"):
                values.setdefault(name, set()).add(value[:LONGEST])
    return {name: ", ".join(sorted(found)) for name, found in sorted(values.items())}
