"""Prometheus text: readings, verdicts, lever ceilings and the gate, for a textfile collector or a Pushgateway.

A reading without a value has no sample; ``premise_auditor_reading_missing`` stands for it with its state. Limits of a
``bounded`` reading are samples of ``_low`` and ``_high``. Written by prometheus-client, which escapes label values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from auditor.outputs._sections import SECTIONED, samples_of
from auditor.outputs.text import RenderOptions, safe

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

KINDS = SECTIONED | {"audit"}
P = "premise_auditor"
Sampled = tuple[list[str], Mapping[str, Any], float]
"""Own label values, the subject's labels, the value."""
OWN_LABELS = frozenset({"reading", "state", "audit", "verdict", "lever", "end", "premise", "level"})


def render(document: Mapping[str, Any], options: RenderOptions) -> bytes:
    """Text exposition of a report."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(list(_families(document))))
    return bytes(generate_latest(registry))


class _Families:
    """A collector of what is already known."""

    def __init__(self, families: list[GaugeMetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._families


def _other_families(document: Mapping[str, Any]) -> Iterator[GaugeMetricFamily]:
    """Numbers of a document that is no audit, one family a name."""
    from prometheus_client.core import GaugeMetricFamily

    made: dict[str, GaugeMetricFamily] = {}
    for name, text, labels, value in samples_of(document):
        family = made.setdefault(name, GaugeMetricFamily(f"{P}_{name}", text, labels=list(labels)))
        family.add_metric(list(labels.values()), value)
    yield from made.values()
    code = GaugeMetricFamily(f"{P}_exit_code", "Exit code that the run earned.")
    code.add_metric([], float(document.get("exit_code", 0)))
    yield code


def _families(document: Mapping[str, Any]) -> Iterator[GaugeMetricFamily]:
    from prometheus_client.core import GaugeMetricFamily

    if document.get("kind") in SECTIONED:
        yield from _other_families(document)
        return
    names = _label_names(document)

    def family(
        suffix: str, text: str, own: tuple[str, ...], samples: list[tuple[list[str], Mapping[str, Any], float]]
    ) -> Any:
        found = GaugeMetricFamily(f"{P}_{suffix}", text, labels=[*own, *(label for _, label in names)])
        for values, labels, value in samples:
            shared = ["" if labels.get(key) is None else safe(labels[key], 500) for key, _ in names]
            found.add_metric([*values, *shared], value)
        return found

    subjects = [(s["labels"], s) for s in document["subjects"]]
    readings = [(labels, name, r) for labels, s in subjects for name, r in s["readings"].items()]
    yield family("reading", "A reading of the window.", ("reading",),
                 [([n], labels, r["value"]) for labels, n, r in readings if r["value"] is not None])  # fmt: skip
    for end, text in (("low", "Lower"), ("high", "Upper")):
        yield family(f"reading_{end}", f"{text} 95 % limit of a reading; a hard limit without a value.", ("reading",),
                     [([n], labels, r[end]) for labels, n, r in readings if r[end] is not None])  # fmt: skip
    yield family("reading_missing", "A reading without a value, with the reason's state.", ("reading", "state"),
                 [([n, r["state"]], labels, 1.0) for labels, n, r in readings if r["value"] is None])  # fmt: skip
    audits = [(labels, name, v) for labels, s in subjects for name, v in s["audits"].items()]
    yield family("audit", "The verdict of an audit.", ("audit", "verdict"),
                 [([n, v["verdict"]], labels, 1.0) for labels, n, v in audits])  # fmt: skip
    yield family("lever_ceiling", "Least and most that a lever can speed requests up.", ("lever", "end"),
                 [([n, end], labels, v["ceiling_speedup"][i])
                  for labels, s in subjects for n, v in s.get("levers", {}).items()
                  for i, end in enumerate(("low", "high")) if v["ceiling_speedup"][i] is not None])  # fmt: skip
    if document.get("gate"):
        yield family("premise", "The verdict of a gated premise.", ("premise", "verdict", "level"),
                     [([safe(p["name"], 500), p["verdict"], p["level"]], p["subject"], 1.0)
                      for p in document["gate"]["premises"]])  # fmt: skip
    end = document["window"].get("end")
    if end is not None:
        at = GaugeMetricFamily(f"{P}_run_timestamp_seconds", "End of the audited window.")
        at.add_metric([], datetime.fromisoformat(end).timestamp())
        yield at
    code = GaugeMetricFamily(f"{P}_exit_code", "Exit code that the run earned.")
    code.add_metric([], float(document["exit_code"]))
    yield code


def _label_names(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Subject label -> name in the exposition, the same for every family."""
    keys = {key for s in document["subjects"] for key in s["labels"]}
    out, used = [], set(OWN_LABELS)
    for key in sorted(keys):
        name = re.sub(r"[^a-zA-Z0-9_]", "_", key) or "_"
        name = f"_{name}" if name[0].isdigit() else name
        while name in used or name.startswith("__"):
            name = f"subject_{name.lstrip('_')}" if name.startswith("__") else f"subject_{name}"
        used.add(name)
        out.append((key, name))
    return out
