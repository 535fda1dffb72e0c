"""A Window as JSON and back: what ``auditor collect`` writes and ``auditor audit window.json`` reads.

Values that JSON has no number for (NaN, infinities) are kept as strings, so that a page's flaw survives the trip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from auditor.model import (
    SCHEMA,
    Counter,
    EvidenceError,
    Gauge,
    Histogram,
    Info,
    LogEvidence,
    Part,
    Quantity,
    Series,
    Setting,
    Slice,
    TargetWindow,
    Window,
)
from auditor.shapes import misfit

LATEST_SECONDS = 250_000_000_000.0
"""Unix seconds; the calendar of Python ends a little later, in the year 9999."""


def window_to_json(window: Window, *, tool: str) -> dict[str, Any]:
    """The document of a window: everything an audit needs, and nothing secret."""
    return {
        "schema": SCHEMA,
        "kind": "window",
        "tool": tool,
        "window": {
            "kind": window.kind,
            "start": window.start,
            "end": window.end,
            "seconds": window.seconds,
            "coverage": window.coverage,
            "restarts": window.restarts,
            "warnings": list(window.warnings),
            "partial_response": window.partial_response,
            "step_seconds": window.step_seconds,
            "source": window.source,
            "facts": dict(window.facts),
        },
        "settings": {k: s.to_json() for k, s in window.settings.items()},
        "targets": [_target_to_json(t) for t in window.targets],
    }


def window_from_json(document: Mapping[str, Any], *, name: str) -> Window:
    """Read a saved window.

    Raises:
        EvidenceError: a file that is no window of ours, or of a newer schema.
    """
    schema = document.get("schema")
    if not isinstance(schema, int):
        raise EvidenceError(f"{name}: is no saved window (schema {schema!r})")
    if schema > SCHEMA:
        raise EvidenceError(
            f"{name}: written by a newer release (schema {document['schema']}, this one reads {SCHEMA})"
        )
    try:
        head = document["window"]
        window = Window(
            kind=head["kind"],
            start=head["start"],
            end=head["end"],
            seconds=head["seconds"],
            targets=tuple(_target_from_json(t) for t in document["targets"]),
            coverage=head.get("coverage", 1.0),
            restarts=head.get("restarts", 0),
            warnings=tuple(head.get("warnings", ())),
            partial_response=head.get("partial_response", ""),
            step_seconds=head.get("step_seconds"),
            settings={k: Setting(s["value"], s["source"]) for k, s in document.get("settings", {}).items()},
            source=head.get("source", ""),
            facts=head.get("facts", {}),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise EvidenceError(f"{name}: is no saved window ({type(error).__name__}: {error})") from None
    if wrong := misfit(window, Window) or _impossible_time(window):
        raise EvidenceError(f"{name}: is no saved window ({wrong})")
    return window


def _impossible_time(window: Window) -> str | None:
    """A moment that no calendar holds."""
    moments = [window.start, window.end]
    for target in window.targets:
        moments += target.times
        moments += [moment for part in target.parts for s in part.slices for moment in (s.start, s.end)]
    wrong = next((m for m in moments if m is not None and not 0 <= m < LATEST_SECONDS), None)
    return None if wrong is None else f"{wrong:g} is no moment"


def _number_out(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


def _number_in(value: Any) -> float | None:
    return None if value is None else float(value)


def _target_to_json(t: TargetWindow) -> dict[str, Any]:
    return {
        "address": t.address,
        "state": t.state,
        "engine": t.engine,
        "version": t.version,
        "reason": t.reason,
        "times": list(t.times),
        "form": t.form,
        "helps": dict(t.helps),
        "kinds": dict(t.kinds),
        "samples_read": t.samples_read,
        "coverage": t.coverage,
        "series": [
            {"name": s.name, "labels": dict(s.labels), "values": [_number_out(v) for v in s.values]} for s in t.series
        ],
        "parts": [_part_to_json(p) for p in t.parts],
    }


def _target_from_json(d: Mapping[str, Any]) -> TargetWindow:
    pages = len(d["times"])
    series = tuple(
        Series(s["name"], tuple(sorted(s["labels"].items())), tuple(_number_in(v) for v in s["values"]))
        for s in d["series"]
    )
    if any(len(s.values) != pages for s in series):
        raise ValueError("a series has not one value a page")
    return TargetWindow(
        address=d["address"],
        state=d["state"],
        engine=d["engine"],
        version=d.get("version"),
        reason=d.get("reason"),
        times=tuple(_number_in(t) for t in d["times"]),
        form=d.get("form", ""),
        helps=d.get("helps", {}),
        kinds=d.get("kinds", {}),
        series=series,
        parts=tuple(_part_from_json(p) for p in d.get("parts", ())),
        samples_read=d.get("samples_read", 0),
        coverage=d.get("coverage", 1.0),
    )


def _quantities_to_json(quantities: Mapping[str, Quantity]) -> dict[str, Any]:
    return {name: _quantity_to_json(q) for name, q in quantities.items()}


def _quantity_to_json(q: Quantity) -> dict[str, Any]:
    if isinstance(q, Counter):
        return {"counter": q.increase, "start": q.at_start, "end": q.at_end, "split": dict(q.split)}
    if isinstance(q, Gauge):
        return {"gauge": [q.first, q.last, q.low, q.high, q.mean], "split": dict(q.split)}
    if isinstance(q, Histogram):
        return {
            "histogram": [[_number_out(e), c] for e, c in zip(q.edges, q.counts, strict=True)],
            "sum": q.sum,
            "count": q.count,
            "flaw": q.flaw,
            "rebuilt_sum": q.rebuilt_sum,
        }
    return {"info": [dict(labels) for labels in q.labels]}


def _quantity_from_json(d: Mapping[str, Any]) -> Quantity:
    if "counter" in d:
        return Counter(d["counter"], d["start"], d["end"], d["split"])
    if "gauge" in d:
        first, last, low, high, mean = d["gauge"]
        return Gauge(first, last, low, high, mean, d["split"])
    if "histogram" in d:
        return Histogram(
            tuple(float(e) for e, _ in d["histogram"]),
            tuple(float(c) for _, c in d["histogram"]),
            d["sum"],
            d["count"],
            d["flaw"],
            d["rebuilt_sum"],
        )
    return Info(tuple(d["info"]))


def _part_to_json(p: Part) -> dict[str, Any]:
    return {
        "target": p.target,
        "engine": p.engine,
        "model": p.model,
        "rank": p.rank,
        "quantities": _quantities_to_json(p.quantities),
        "slices": [[s.start, s.end, _quantities_to_json(s.quantities), s.restarted] for s in p.slices],
        "restarts": p.restarts,
        "gone": p.gone,
        "pooled": p.pooled,
        "multiprocess": p.multiprocess,
        "started_at": p.started_at,
        "forms": dict(p.forms),
        "units": dict(p.units),
        "flaws": dict(p.flaws),
        "doubles": dict(p.doubles),
        "copies": {name: list(told) for name, told in p.copies.items()},
        "log": _log_to_json(p.log),
    }


def _log_to_json(log: LogEvidence | None) -> dict[str, Any] | None:
    if log is None:
        return None
    return {"moved": log.moved, "missing": log.missing, "words": dict(log.words), "figures": dict(log.figures)}


def _part_from_json(d: Mapping[str, Any]) -> Part:
    def quantities(raw: Mapping[str, Any]) -> dict[str, Quantity]:
        return {name: _quantity_from_json(q) for name, q in raw.items()}

    return Part(
        target=d["target"],
        engine=d["engine"],
        model=d["model"],
        rank=d["rank"],
        quantities=quantities(d["quantities"]),
        slices=tuple(Slice(a, b, quantities(q), r) for a, b, q, r in d["slices"]),
        restarts=d["restarts"],
        gone=d.get("gone", 0),
        pooled=d.get("pooled", False),
        multiprocess=d["multiprocess"],
        started_at=d["started_at"],
        forms=d["forms"],
        units=d["units"],
        flaws=d["flaws"],
        doubles=d["doubles"],
        copies={name: (int(a), int(b)) for name, (a, b) in d.get("copies", {}).items()},
        log=LogEvidence(**d["log"]) if d.get("log") else None,
    )
