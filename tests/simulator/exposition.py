"""Snapshots as exposition text, written by prometheus-client: what a scrape of the engine would return."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from .snapshot import Family, Snapshot, edge_texts


class _Page(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        snapshot = self._snapshot
        metrics: dict[str, Metric] = {}
        for family in snapshot.families.values():
            metrics[family.name] = _metric(family)
        for (name, extra), value in snapshot.values.items():
            family = snapshot.families[name]
            labels = dict(family.base + extra)
            metrics[name].add_sample(name, labels, value)
            if family.kind == "counter" and family.created and snapshot.created_unix is not None:
                metrics[name].add_sample(f"{metrics[name].name}_created", labels, snapshot.created_unix)
        for (name, extra), histogram in snapshot.histograms.items():
            labels = dict(snapshot.families[name].base + extra)
            cumulative = histogram.counts.cumsum()
            for edge, count in zip(edge_texts(histogram.edges), cumulative, strict=True):
                metrics[name].add_sample(f"{name}_bucket", {**labels, "le": edge}, float(count))
            metrics[name].add_sample(f"{name}_count", labels, histogram.count)
            metrics[name].add_sample(f"{name}_sum", labels, histogram.sum)
            if snapshot.created_unix is not None:
                metrics[name].add_sample(f"{name}_created", labels, snapshot.created_unix)
        return metrics.values()


def _metric(family: Family) -> Metric:
    if family.kind == "counter":
        return CounterMetricFamily(family.name, family.help)
    if family.kind == "histogram":
        return HistogramMetricFamily(family.name, family.help)
    return GaugeMetricFamily(family.name, family.help)


def page_text(snapshot: Snapshot) -> str:
    """The page in Prometheus' text format 1.0.0, final newline included."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(snapshot))
    return generate_latest(registry).decode("utf-8")
