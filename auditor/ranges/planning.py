"""Which queries an audit of a range runs: rendered here, asked by ``collecting``, printed by ``auditor queries``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditor.measures.promql import Query, Scope
from auditor.measures.questions import (
    course_queries,
    detail_queries,
    layout_names,
    layout_query,
    level_queries,
    skew_query,
    whole_queries,
)
from auditor.ranges.asking import Range

STEPS_SECONDS = (10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
MOST_STEPS = 240
MOST_LEVELS = 720
USUAL_INTERVAL_SECONDS = 15.0
LEAST_SCRAPES_IN_STEP = 4
MOST_SERIES_IN_QUERY = 200_000
"""Of queries that look at every bucket series at one moment; the rest is asked for in a further query."""
MOST_DETAILED_ENGINES = 2000
"""Up to so many engines each is shown by itself; the answers grow with it, the number of queries does not."""


@dataclass(frozen=True)
class Plan:
    """All queries of one engine and form over one range."""

    scope: Scope
    window: Range
    step: float | None
    """Seconds of one step of the course; None where the range is too short for one."""
    steps: int
    resolution: float
    """Seconds between two looks at a gauge."""
    whole: tuple[Query, ...]
    levels: tuple[Query, ...]
    course: tuple[Query, ...]
    skew: Query | None
    details: tuple[Query, ...]
    layouts: tuple[tuple[str, ...], ...]
    """Names of bucket series whose edges are compared, in as many groups as queries are needed."""

    @property
    def course_range(self) -> Range:
        """The end of the range, in whole steps."""
        return Range(self.window.end - self.steps * (self.step or 0.0), self.window.end)

    @property
    def level_range(self) -> Range:
        count = max(1, math.floor(self.window.seconds / self.resolution + 1e-9))
        return Range(self.window.end - count * self.resolution, self.window.end)

    @property
    def course_times(self) -> list[float]:
        """The ends of the steps."""
        start = self.course_range.start
        return [start + (i + 1) * (self.step or 0.0) for i in range(self.steps)]

    @property
    def level_times(self) -> list[float]:
        window = self.level_range
        return [window.start + i * self.resolution for i in range(round(window.seconds / self.resolution) + 1)]

    def texts(self) -> Iterator[tuple[str, str, str]]:
        """(quantity, how it is asked, PromQL) of every query of the plan, in the order in which they are asked."""
        seconds = self.window.seconds
        for query in self.whole:
            yield query.quantity, f"{query.purpose}, at the end", query.text(seconds)
        for query in self.levels:
            yield query.quantity, f"level, every {self.resolution:g} s", query.text(self.resolution)
        if self.step is not None:
            for query in (*self.course, *((self.skew,) if self.skew else ())):
                yield query.quantity, f"{query.purpose}, every {self.step:g} s", query.text(self.step)
        for query in self.details:
            yield query.quantity, f"{query.purpose}, at the end", query.text(seconds)
        for names in self.layouts:
            yield "", "bucket layouts, at the end", layout_query(self.scope, names)


def make_plan(
    scope: Scope,
    window: Range,
    *,
    interval: float,
    engines: int = 1,
    series_of_one: Mapping[str, float] | None = None,
) -> Plan:
    """The queries for one engine and form.

    Args:
        engines: how many targets there are; above a bound none is shown by itself.
        series_of_one: name -> number of series of one target, to keep single queries small.
    """
    step = choose_step(window.seconds, interval)
    steps = math.floor(window.seconds / step + 1e-9) if step else 0
    finest = max(interval, window.seconds / MOST_LEVELS)
    resolution = step / max(1, math.floor(step / finest + 1e-9)) if step else min(finest, window.seconds)
    details = [q for q in detail_queries(scope) if engines <= MOST_DETAILED_ENGINES or q.purpose == "labels"]
    if engines > MOST_DETAILED_ENGINES:
        details = []
    names = layout_names(scope)
    chunks = cut_names(names, series_of_one or {}, engines) if engines > 1 else []
    return Plan(
        scope=scope,
        window=window,
        step=step,
        steps=steps,
        resolution=resolution,
        whole=tuple(whole_queries(scope)),
        levels=tuple(level_queries(scope)),
        course=tuple(course_queries(scope)) if step else (),
        skew=skew_query(scope) if step and engines > 1 else None,
        details=tuple(details),
        layouts=tuple(tuple(chunk) for chunk in chunks),
    )


def plan_without_server(scope: Scope, *, seconds: float, end: float) -> Iterator[tuple[str, str, str]]:
    """The queries for a usual server: scraped every 15 s, several targets."""
    yield from make_plan(scope, Range(end - seconds, end), interval=USUAL_INTERVAL_SECONDS, engines=2).texts()


def choose_step(seconds: float, interval: float) -> float | None:
    """Seconds of a step: at least four scrapes, at most 240 steps where an hour allows it; None below two steps."""
    least = max(LEAST_SCRAPES_IN_STEP * interval, seconds / MOST_STEPS)
    step = next((float(s) for s in STEPS_SECONDS if s >= least), None)
    if step is None:
        step = max(3600.0, math.ceil(LEAST_SCRAPES_IN_STEP * interval / 3600) * 3600.0)
    return step if seconds / step >= 2 else None


def cut_names(names: Sequence[str], series_of_one: Mapping[str, float], targets: int) -> list[list[str]]:
    """Names in groups that stay below the bound on series in one query."""
    out: list[list[str]] = []
    size = 0.0
    for name in names:
        series = series_of_one.get(name, 20.0) * targets
        if not out or size + series > MOST_SERIES_IN_QUERY:
            out.append([])
            size = 0.0
        out[-1].append(name)
        size += series
    return out
