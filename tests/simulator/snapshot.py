"""The state of an engine's counters, gauges and histograms at any simulated moments, without text.

``snapshots(run, times)`` gives what a scrape at each of those times would read. A snapshot at t holds every
event up to and including t: a scrape sees whole steps only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from prometheus_client.utils import floatToGoString

from .cost import Floats
from .layouts import Edges
from .record import Run

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]
"""Series name as on the page (counters with ``_total``, histograms without suffix), and extra labels."""


@dataclass(frozen=True)
class Histogram:
    """Cumulated since the start. ``counts[i]`` lie in (edges[i-1], edges[i]]; the last one is open."""

    edges: Edges
    counts: Floats
    sum: float

    @property
    def count(self) -> float:
        return float(self.counts.sum())

    def minus(self, earlier: Histogram) -> Histogram:
        """What was added since an earlier snapshot."""
        return Histogram(self.edges, self.counts - earlier.counts, self.sum - earlier.sum)


@dataclass(frozen=True)
class Family:
    """A metric family as a page declares it."""

    name: str
    kind: str
    help: str
    base: Labels = ()
    """Labels that all series of the family carry."""
    lazy: bool = False
    """Series of it appear with their first event."""
    created: bool = True
    """Whether ``_created`` stands beside its counters and histograms."""


@dataclass(frozen=True)
class Snapshot:
    """One moment. ``values`` holds counters and gauges, ``histograms`` the rest; both by :data:`Key`."""

    seconds: float
    families: Mapping[str, Family]
    values: Mapping[Key, float]
    histograms: Mapping[Key, Histogram]
    created_unix: float | None = None

    def value(self, name: str, **labels: str) -> float:
        """A counter or gauge; KeyError where the page has none of that name and these extra labels."""
        return self.values[name, tuple(sorted(labels.items()))]

    def histogram(self, name: str, **labels: str) -> Histogram:
        return self.histograms[name, tuple(sorted(labels.items()))]

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """(name, all labels sorted, value) of every sample the text page has, ``_created`` left out."""
        for (name, extra), value in self.values.items():
            yield name, tuple(sorted(self.families[name].base + extra)), value
        for (name, extra), histogram in self.histograms.items():
            base = self.families[name].base + extra
            for edge, value in zip(edge_texts(histogram.edges), histogram.counts.cumsum(), strict=True):
                yield f"{name}_bucket", tuple(sorted((*base, ("le", edge)))), float(value)
            yield f"{name}_count", tuple(sorted(base)), histogram.count
            yield f"{name}_sum", tuple(sorted(base)), histogram.sum


def edge_texts(edges: Edges) -> list[str]:
    """``le`` values as Python's client writes them."""
    return [*(str(floatToGoString(edge)) for edge in edges), "+Inf"]  # type: ignore[no-untyped-call]


@dataclass
class Sheet:
    """Collects columns of all wanted moments at once and cuts them into snapshots."""

    times: Floats
    families: dict[str, Family] = field(default_factory=dict)
    values: dict[Key, Floats] = field(default_factory=dict)
    histograms: dict[Key, tuple[Edges, Floats, Floats]] = field(default_factory=dict)

    def family(
        self, name: str, kind: str, help_text: str, base: Labels, *, lazy: bool = False, created: bool = True
    ) -> None:
        self.families[name] = Family(name, kind, help_text, base, lazy, created)

    def constant(self, name: str, value: float, **labels: str) -> None:
        self.values[name, tuple(sorted(labels.items()))] = np.full(len(self.times), float(value))

    def count(self, name: str, ends: Floats, weights: Floats | None = None, **labels: str) -> None:
        """A counter: at each moment the weights of all events that have ended."""
        place = np.searchsorted(self.times, ends, side="left")
        total = np.bincount(place, weights, minlength=len(self.times) + 1)[: len(self.times)].cumsum()
        self.values[name, tuple(sorted(labels.items()))] = total.astype(float)

    def gauge(self, name: str, ends: Floats, column: Floats, *, before: float = 0.0, **labels: str) -> None:
        """A gauge: its value after the last step that has ended; ``before`` the first as said."""
        place = np.searchsorted(ends, self.times, side="right")
        self.values[name, tuple(sorted(labels.items()))] = np.concatenate([[before], column])[place]

    def observe(
        self,
        name: str,
        ends: Floats,
        observed: Floats,
        edges: Edges,
        weights: Floats | None = None,
        **labels: str,
    ) -> None:
        """A histogram of ``observed`` values, each written at its ``ends`` (``weights`` times)."""
        moments, size = len(self.times), len(edges) + 1
        weight = np.ones(len(observed)) if weights is None else weights
        place = np.searchsorted(self.times, ends, side="left")
        bucket = np.searchsorted(np.asarray(edges), observed, side="left")
        flat = np.bincount(place * size + bucket, weight, minlength=(moments + 1) * size)
        counts = flat.reshape(-1, size)[:moments].cumsum(axis=0)
        sums = np.bincount(place, weight * observed, minlength=moments + 1)[:moments].cumsum()
        self.histograms[name, tuple(sorted(labels.items()))] = (edges, counts, sums)

    def cut(self, *, created_unix: float | None) -> list[Snapshot]:
        return [
            Snapshot(
                seconds=float(time),
                families=self.families,
                values={
                    key: float(column[i])
                    for key, column in self.values.items()
                    if column[i] or not self.families[key[0]].lazy
                },
                histograms={
                    key: Histogram(edges, counts[i], float(sums[i]))
                    for key, (edges, counts, sums) in self.histograms.items()
                    if counts[i].any() or not self.families[key[0]].lazy
                },
                created_unix=created_unix,
            )
            for i, time in enumerate(self.times)
        ]


def as_times(times: Sequence[float]) -> Floats:
    """Checked moments: not empty, in order."""
    out = np.asarray(times, dtype=float)
    if not len(out) or (np.diff(out) < 0).any():
        raise ValueError("pages are taken at one or more times, in order")
    return out


def even_times(run: Run, count: int, *, start: float = 0.0, end: float | None = None) -> list[float]:
    """``count`` moments at even distances from ``start`` to ``end`` (the end of the run)."""
    return [float(t) for t in np.linspace(start, run.seconds if end is None else end, count)]
