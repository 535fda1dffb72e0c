"""A Grafana dashboard of what an audit looks at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from auditor.measures.readings import READINGS
from auditor.measures.recording import (
    RATIOS,
    bucket_text,
    count_text,
    level_text,
    mean_text,
    rate_over,
    ratio_text,
    whole_scope,
)
from auditor.measures.selectors import Matcher
from auditor.measures.vocabulary import Engine

INTERVAL = "$__rate_interval"
MODEL = "model"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 8, 8
COLUMNS = 24

Rows = tuple[tuple[str, tuple[str, ...], str], ...]
SHARES: Rows = (
    ("Where request time goes", ("prefill_share", "queue_share", "hidden_wait_share"), "percentunit"),
    ("Prompt tokens served from cache", ("prefix_hit_share",), "percentunit"),
    ("Answers cut by their length limit", ("length_share",), "percentunit"),
    ("Preemptions per finished request", ("preemptions_per_request",), "short"),
    ("Tokens per draft step", ("tokens_per_draft_step",), "short"),
)
RATES: Rows = (("Tokens per second", ("generation_tokens", "prompt_tokens"), "short"),
               ("Finished requests per second", ("finished_requests",), "reqps"))  # fmt: skip
LEVELS: Rows = (("Requests in the engine", ("running_requests", "waiting_requests"), "short"),
                ("KV pool in use", ("kv_usage",), "percentunit"))  # fmt: skip
TIMES = (("Time to the first token", "ttft_seconds", "s"), ("Gap between outputs", "itl_seconds", "s"))
QUANTILES = (0.5, 0.9)


def render_dashboard(engine: Engine) -> str:
    """The dashboard of one engine as JSON text, to be imported into Grafana."""
    panels = []
    for i, (title, unit, about, targets) in enumerate(_panels(engine)):
        per_row = COLUMNS // WIDTH
        panels.append(
            {
                "id": i + 1,
                "type": "timeseries",
                "title": title,
                "description": about,
                "datasource": SOURCE,
                "gridPos": {"x": i % per_row * WIDTH, "y": i // per_row * HEIGHT, "w": WIDTH, "h": HEIGHT},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
                "targets": [
                    {"refId": chr(65 + k), "expr": text, "legendFormat": legend, "datasource": SOURCE}
                    for k, (legend, text) in enumerate(targets)
                ],
            }
        )
    return json.dumps(_document(engine, panels), indent=2) + "\n"


def _document(engine: Engine, panels: list[dict[str, Any]]) -> dict[str, Any]:
    variables: list[dict[str, Any]] = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Metrics server"}
    ]
    label = _model_label(engine)
    if label is not None:
        core = next(q for q in engine.quantities.values() if q.core and q.kind == "counter")
        variables.append(
            {
                "name": MODEL,
                "type": "query",
                "label": "Model",
                "datasource": SOURCE,
                "query": {"query": f"label_values({core.series[0]}, {label})", "refId": "models"},
                "definition": f"label_values({core.series[0]}, {label})",
                "includeAll": True,
                "multi": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
                "refresh": 2,
            }
        )
    return {
        "uid": f"premise-auditor-{engine.name}",
        "title": f"Premises: {engine.title}",
        "description": f"Made by: auditor queries --as dashboard --engine {engine.name}",
        "tags": ["premise-auditor", engine.name],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": variables},
        "panels": panels,
    }


def _model_label(engine: Engine) -> str | None:
    has_core = any(q.core and q.kind == "counter" for q in engine.quantities.values())
    return engine.model_labels[0] if engine.model_labels and has_core else None


Target = tuple[str, str]
Panel = tuple[str, str, str, list[Target]]


def _panels(engine: Engine) -> Iterator[Panel]:
    label = _model_label(engine)
    scope = whole_scope(engine, matchers=(Matcher(label, "=~", f"${MODEL}"),) if label else ())
    legend = f"{{{{{label}}}}}" if label else ""
    how = rate_over(INTERVAL)

    def told(name: str) -> str:
        return READINGS[name].headline if name in READINGS else ""

    def named(name: str) -> str:
        return f"{name.replace('_', ' ')} {legend}".strip()

    for title, names, unit in SHARES:
        texts = [(named(n), t) for n in names if n in RATIOS and (t := ratio_text(scope, n, how))]
        if texts:
            yield title, unit, " ".join(told(n) for n in names), texts
    for title, names, unit in LEVELS:
        texts = [(named(n), t) for n in names if (t := level_text(scope, n))]
        if texts:
            yield title, unit, " ".join(engine.quantities[n].counts for n in names if n in engine.quantities), texts
    for title, names, unit in RATES:
        texts = [(named(n), t) for n in names if (t := count_text(scope, n, how))]
        if texts:
            yield title, unit, " ".join(engine.quantities[n].counts for n in names if n in engine.quantities), texts
    for title, name, unit in TIMES:
        buckets, mean = bucket_text(scope, name, how), mean_text(scope, name, how)
        if buckets and mean:
            quantiles = [(f"p{q * 100:g} {legend}".strip(), f"histogram_quantile({q}, {buckets})") for q in QUANTILES]
            about = f"{engine.quantities[name].counts}. A quantile is known to lie in its bucket; the mean is exact."
            yield title, unit, about, [(f"mean {legend}".strip(), mean), *quantiles]
