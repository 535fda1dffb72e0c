"""The queries of an audit: which reductions are asked for, over the whole range, along it, and by engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from auditor.measures.promql import (
    Query,
    Scope,
    Strangers,
    aggregate,
    at_offset,
    first_values_over,
    increase_over,
    over_time,
    tagged,
)
from auditor.measures.selectors import one_of, selector
from auditor.measures.vocabulary import Declaration

DETAILED_COUNTERS = ("finished_requests", "prompt_tokens")
"""Counters that are also asked for by engine: the parts of a report and the skew between them."""
CONFIGURATION = "cache_config"
"""The only info series whose labels a reading uses."""
COURSE_COUNTERS = (
    "generation_tokens", "prompt_tokens", "prompt_tokens_by_source", "finished_requests", "cached_tokens",
)  # fmt: skip
COURSE_SUMS = (
    "prefill_seconds", "decode_seconds", "queue_seconds", "inference_seconds", "computed_prompt_length_tokens",
    "prompt_length_tokens", "ttft_seconds", "e2e_seconds",
)  # fmt: skip


def whole_queries(scope: Scope) -> list[Query]:
    """Counters and histograms over the whole range, by subject. Evaluated at the range's end."""
    out = []
    for declaration in scope.engine.quantities.values():
        if declaration.kind in ("counter", "histogram") and scope.has(declaration):
            out.append(Query(declaration.name, "increase", _whole(scope, declaration)))
    return out


def _whole(scope: Scope, declaration: Declaration) -> Callable[[float], str]:
    return lambda seconds: scope.counted(declaration, increase_over(seconds), by=scope.group)


def born_queries(scope: Scope, quantities: Iterable[str], strangers: Strangers | None) -> list[Query]:
    """Corrections for series that began inside the range. Not additive over shorter ranges."""

    def make(declaration: Declaration) -> Query:
        return Query(
            declaration.name,
            "first values",
            lambda seconds: scope.counted(declaration, first_values_over(seconds, scope, strangers), by=scope.group),
            combine="none",
        )

    wanted = set(quantities)
    return [
        make(d)
        for d in scope.engine.quantities.values()
        if d.name in wanted and d.kind in ("counter", "histogram") and scope.has(d) and not scope.is_native(d)
    ]


def level_queries(scope: Scope) -> list[Query]:
    """Gauges along the range, by subject: range queries."""

    def make(declaration: Declaration) -> Query:
        return Query(declaration.name, "level", lambda _: scope.level(declaration, at_offset(0), by=scope.group))

    return [make(d) for d in scope.engine.quantities.values() if d.kind == "gauge" and scope.has(d)]


def course_queries(scope: Scope) -> list[Query]:
    """Increases in each step of the range, by subject: range queries. Histograms by sum and count only."""

    def make(declaration: Declaration) -> Query:
        return Query(
            declaration.name,
            "course",
            lambda step: scope.counted(declaration, increase_over(step), by=scope.group, whole=False),
        )

    return [
        make(d) for d in scope.engine.quantities.values() if d.name in (*COURSE_COUNTERS, *COURSE_SUMS) and scope.has(d)
    ]


def skew_query(scope: Scope) -> Query | None:
    """Largest over mean of the engines' finished requests in each step: a range query."""
    declaration = scope.engine.quantities.get("finished_requests")
    if declaration is None or not scope.has(declaration) or scope.by == "rank":
        return None

    def render(step: float) -> str:
        each = scope.summed(declaration, "", increase_over(step), by=scope.finest)
        return f"{aggregate('max', scope.group, each)}\n/\n({aggregate('avg', scope.group, each)} > 0)"

    return Query("finished_requests", "skew", render)


def detail_queries(scope: Scope) -> list[Query]:
    """What is asked for by engine: a few counters, the gauges' last, first and highest values, info labels."""
    out = []
    for declaration in scope.engine.quantities.values():
        if not scope.has(declaration):
            continue
        if declaration.kind == "info":
            if declaration.name != CONFIGURATION:
                continue
            out.append(Query(declaration.name, "labels", _labels(scope, declaration), combine="last"))
        elif scope.by == "rank":
            continue
        elif declaration.name in DETAILED_COUNTERS:
            out.append(Query(declaration.name, "by engine", _by_engine(scope, declaration)))
        elif declaration.kind == "gauge" and declaration.split is None:
            out.append(Query(declaration.name, "by engine", _gauge_by_engine(scope, declaration), combine="none"))
    return out


def _labels(scope: Scope, declaration: Declaration) -> Callable[[float], str]:
    return lambda seconds: scope.labels_of(declaration, seconds)


def _by_engine(scope: Scope, declaration: Declaration) -> Callable[[float], str]:
    return lambda seconds: scope.counted(declaration, increase_over(seconds), by=scope.finest)


def _gauge_by_engine(scope: Scope, declaration: Declaration) -> Callable[[float], str]:
    def render(seconds: float) -> str:
        arms = (
            ("last", at_offset(0)),
            ("first", at_offset(seconds)),
            ("high", over_time("max_over_time", seconds)),
        )
        return "\nor\n".join(
            tagged(scope.level(declaration, how, by=scope.finest, split=False), piece) for piece, how in arms
        )

    return render


def layout_names(scope: Scope) -> list[str]:
    """Names of all bucket series that are there."""
    return [
        name for d in scope.engine.quantities.values() if d.kind == "histogram" for name in scope.present(d, "_bucket")
    ]


def layout_query(scope: Scope, names: Iterable[str]) -> str:
    """How many series have each edge, by histogram and subject: unequal numbers are unequal layouts."""
    matchers = (one_of("__name__", names), *scope.matchers)
    return aggregate("count", ("__name__", *scope.group, "le"), scope.without_copies(selector(None, matchers), ()))
