"""PromQL for what must be known before any sum is believed: who was there, since when, how often, how many times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auditor.measures.promql import (
    Query,
    Scope,
    Strangers,
    aggregate,
    at_offset,
    duration,
    over_time,
    process_start,
    tagged,
)
from auditor.measures.selectors import Matcher, one_of, selector

SCRAPES = "up"
"""The series in which a scraper notes whether a scrape was answered."""


def samples_query(scope: Scope, names: Sequence[str], function: str) -> Query:
    """``count_over_time`` or ``resets`` of the core series, by target and model."""
    by = (*scope.there(scope.engine.model_labels), *scope.target_labels)
    return Query("", function, lambda s: aggregate("max", by, scope.newest(names, None, over_time(function, s))))


def spread_text(scope: Scope, names: Iterable[str], seconds: float) -> str:
    """Samples of each name, one series a target: what most targets have for most of the time has most."""
    by, over = scope.target_labels, over_time("count_over_time", seconds)
    each = ((name, aggregate("max", by, over(scope.select(name)))) for name in names)
    return "\nor\n".join(tagged(f"sum({text})", name) for name, text in each)


def there_query(scope: Scope, names: Sequence[str], offset: float) -> Query:
    """The targets that were there so many seconds before the moment of asking."""
    text = aggregate("count", scope.target_labels, scope.newest(names, None, at_offset(offset)))
    return Query("", "there", lambda _: text, combine="none")


def start_queries(scope: Scope, where: Iterable[Matcher]) -> list[Query]:
    """First and last start time of the process seen in the range, and how often it moved; by target."""
    by, series = scope.target_labels, process_start(where)
    # VictoriaMetrics counts the first value of a series as a change.
    changes = "changes_prometheus" if scope.victoria else "changes"
    return [
        Query("", "first start", lambda s: aggregate("min", by, over_time("min_over_time", s)(series)), "min"),
        Query("", "last start", lambda s: aggregate("max", by, over_time("max_over_time", s)(series)), "max"),
        Query("", "starts", lambda s: aggregate("max", by, over_time(changes, s)(series)), "add"),
    ]


def scrape_queries(scope: Scope, where: Iterable[Matcher]) -> list[Query]:
    """Scrapes that were tried, and those that were answered; by target."""
    by, series = scope.target_labels, selector(SCRAPES, where)
    return [
        Query("", "tried", lambda s: aggregate("max", by, over_time("count_over_time", s)(series))),
        Query("", "answered", lambda s: aggregate("max", by, over_time("sum_over_time", s)(series))),
    ]


def raw_text(scope: Scope, name: str, matchers: Iterable[Matcher], seconds: float) -> str:
    """The stored samples of one series and some targets."""
    return f"{selector(name, (*scope.matchers, *matchers))}[{duration(seconds)}]"


def find_strangers(
    scope: Scope, names: Sequence[str], where: Iterable[Matcher], *, start: float, seconds: float
) -> Strangers:
    """Targets that were not there at the start and whose process did not provably start inside the range."""
    by, on = scope.target_labels, ", ".join(scope.target_labels)
    seen = aggregate("count", by, scope.newest(names, None, over_time("last_over_time", seconds)))
    before = aggregate("count", by, scope.newest(names, None, at_offset(seconds)))
    young = aggregate("count", by, f"{over_time('min_over_time', seconds)(process_start(where))} >= {start:.3f}")
    return Strangers(f"(({seen} unless on ({on}) {before}) unless on ({on}) {young})")


def births_text(scope: Scope, names: Iterable[str], seconds: float) -> str:
    """How many series of each name are there at the range's end and were not at its start."""
    all_of = selector(None, (one_of("__name__", names), *scope.matchers))

    def named(text: str) -> str:
        # A set operation does not look at names, so they are copied into a label.
        return f'label_replace({text}, "series", "$1", "__name__", "(.+)")'

    return f"count by (series) ({named(all_of)}\nunless\n{named(at_offset(seconds)(all_of))})"


def copies_text(scope: Scope, names: Sequence[str], label: str, seconds: float) -> str:
    """The core series, and how many are left when a label is not looked at."""
    core = scope.newest(names, None, over_time("last_over_time", seconds))
    distinct = f"count(count without ({label}) ({core}))"
    return f"{tagged(f'count({core})', 'all')}\nor\n{tagged(distinct, 'distinct')}"


def stored_query(scope: Scope, names: Sequence[str]) -> Query:
    """Samples of the core series in each step: none at all is a hole in the store."""
    return Query(
        "", "stored", lambda s: aggregate("sum", (), scope.newest(names, None, over_time("count_over_time", s)))
    )


def alive_text() -> str:
    """Whether the server stored anything at all at a moment."""
    return f"count({SCRAPES})"


def series_of_one_text(scope: Scope, target: Sequence[str]) -> str:
    """Number of series by name of one target."""
    only = [Matcher(name, "=", value) for name, value in zip(scope.target_labels, target, strict=True)]
    every = (Matcher("__name__", "=~", f"{scope.form}.+"), *scope.matchers, *only)
    return aggregate("count", ("__name__",), selector(None, every))


def sample_count_texts(scope: Scope, names: Iterable[str], core: str, seconds: float) -> tuple[str, str, str]:
    """Series of these names; samples of the core series; its series: what an exact reading would cost."""
    over = f"[{duration(seconds)}]"
    every = selector(None, (one_of("__name__", names), *scope.matchers))
    return (
        f"count(last_over_time({every}{over}))",
        f"sum(count_over_time({scope.select(core)}{over}))",
        f"count(last_over_time({scope.select(core)}{over}))",
    )
