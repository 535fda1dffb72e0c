"""What a window's pages reduce to, for one engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Counter:
    """What a counter did in the window.

    ``increase`` is reset-aware; ``at_start`` and ``at_end`` are the page's totals, where a page was read.
    ``split`` holds the increase by the values of the declared split label.
    """

    increase: float
    at_start: float | None = None
    at_end: float | None = None
    split: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Gauge:
    """A gauge over the window. ``split`` holds the last value by the declared split label."""

    first: float | None
    last: float | None
    low: float | None
    high: float | None
    mean: float | None
    split: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Histogram:
    """Increase of a histogram: ``counts[i]`` observations lie in (edges[i-1], edges[i]]; not cumulative.

    The last edge is infinite. ``edges`` is empty where layouts differed between the parts, or where a
    bucket was missing; ``flaw`` then says why, and count and sum still hold.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float
    count: float
    flaw: str | None = None
    rebuilt_sum: bool = False
    """The sum was rebuilt from bucket midpoints by a re-exporter (Ray): only its range is known."""


@dataclass(frozen=True)
class Info:
    """Labels of an info series, one mapping per distinct copy."""

    labels: tuple[Mapping[str, str], ...]


Quantity = Counter | Gauge | Histogram | Info


@dataclass(frozen=True)
class Slice:
    """The time between two neighbouring scrapes (or steps of a range) of one part."""

    start: float | None
    end: float | None
    quantities: Mapping[str, Quantity]
    restarted: bool = False


@dataclass(frozen=True)
class LogEvidence:
    """What a running log says of one engine beside its gauges: a log has no counters."""

    moved: bool
    """Tokens moved in at least one of its lines."""
    missing: str
    """Why every quantity that is not in the part is missing."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Flag -> the sentence behind it, for what only lines of a log show."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """The rolling figures as they were printed, and sums of batch lines: facts, never readings."""


@dataclass(frozen=True)
class Part:
    """One engine of one target for one model: the finest grain at which quantities are kept."""

    target: str
    engine: str
    model: str | None
    rank: str | None
    quantities: Mapping[str, Quantity]
    slices: tuple[Slice, ...] = ()
    restarts: int = 0
    gone: int = 0
    """Engines behind it that were there in the window and no longer at its end: a pod that was replaced."""
    pooled: bool = False
    """Several engines, added up by a metrics server. What it holds is the total of what its sibling parts show."""
    multiprocess: bool = False
    """The page has neither ``process_*`` nor ``_created``: several front ends share it."""
    started_at: float | None = None
    """Unix seconds at which the process started, where the page says so."""
    forms: Mapping[str, str] = field(default_factory=dict)
    """Quantity -> the series name it was read from."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Quantity whose unit stands only in HELP -> tokens, blocks or unknown."""
    flaws: Mapping[str, str] = field(default_factory=dict)
    """Quantity that is on the page and cannot be used -> the reason."""
    doubles: Mapping[str, str] = field(default_factory=dict)
    """Quantity exported under two names -> empty, or how they disagree."""
    copies: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Gauge exported once per process -> how many copies of one engine, and how many of them above 0 at the end."""
    log: LogEvidence | None = None
    """Set where the part was read from a running log and not from a page."""


def iter_quantities(part: Part) -> Iterator[tuple[str, Quantity]]:
    yield from part.quantities.items()
