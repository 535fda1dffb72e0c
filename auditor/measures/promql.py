"""Declarations -> PromQL: the twin of ``reduce.py`` for a metrics server.

One rendering a reduction: ``increase`` and ``distribution`` (``increase()`` over the range), ``level`` (the gauge over
time), ``labels`` (info series). Sums are taken by the server, so an answer has a row for each subject and not for each
replica. Only this closed set has two implementations; shares, means and quantiles are computed from the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from auditor.measures.selectors import Matcher, one_of, selector
from auditor.measures.vocabulary import HISTOGRAM_SUFFIXES, PROCESS_START, Declaration, Engine

Combine = Literal["add", "max", "min", "last", "none"]
Render = Callable[[str], str]
"""From a selector to an expression over it."""

PIECE = "piece"
"""Label that tells the arms of one query apart: bucket, sum, count, or first, last, high."""


@dataclass(frozen=True)
class Query:
    """One question: what it is for, its text for a range of so many seconds, how ranges of it add up."""

    quantity: str
    purpose: str
    render: Callable[[float], str] = field(repr=False)
    combine: Combine = "add"

    def text(self, seconds: float) -> str:
        return self.render(seconds)


@dataclass(frozen=True)
class Strangers:
    """Targets that came into the window with a past nobody knows: their first values are history, not increase."""

    expression: str


@dataclass(frozen=True)
class Scope:
    """What the queries of one engine under one form of its names share."""

    engine: Engine
    form: str
    names: frozenset[str]
    """The names that are there."""
    by: str = "model"
    matchers: tuple[Matcher, ...] = ()
    target_labels: tuple[str, ...] = ("job", "instance")
    replica_labels: tuple[str, ...] = ()
    """Labels by which a pair of metrics servers marks its copies of one series."""
    victoria: bool = False
    labels: frozenset[str] | None = None
    """Label names that are there; None when nobody looked: then every declared one is taken to be."""

    # ------------------------------------------------------------------ labels

    @property
    def group(self) -> tuple[str, ...]:
        """Labels that make a subject."""
        if self.by == "all":
            return ()
        if self.by == "model":
            return self.there(self.engine.model_labels)
        if self.by == "target":
            return self.target_labels
        return self.finest

    @property
    def finest(self) -> tuple[str, ...]:
        """Labels that make one engine of one target for one model."""
        e = self.engine
        ranks = e.replica_labels if self.labels is not None else ()
        return self.there((*e.model_labels, *self.target_labels, *e.rank_labels, *ranks))

    def there(self, labels: Iterable[str]) -> tuple[str, ...]:
        return tuple(label for label in labels if self.labels is None or label in self.labels)

    # ------------------------------------------------------------------ series

    def present(self, declaration: Declaration, suffix: str = "") -> list[str]:
        """Exported names of a quantity that are there, newest first."""
        out = []
        for canonical in declaration.series:
            name = self.engine.exported(canonical, self.form) + suffix
            if name in self.names:
                out.append(name)
            elif declaration.kind == "counter" and not suffix and name.removesuffix("_total") in self.names:
                out.append(name.removesuffix("_total"))
        return out

    def has(self, declaration: Declaration) -> bool:
        suffixes = ("", *HISTOGRAM_SUFFIXES) if declaration.kind == "histogram" else ("",)
        return any(self.present(declaration, suffix) for suffix in suffixes)

    def is_native(self, declaration: Declaration) -> bool:
        """A histogram that the server holds as one native series."""
        return (
            declaration.kind == "histogram"
            and bool(self.present(declaration))
            and not (self.present(declaration, "_bucket") or self.present(declaration, "_count"))
        )

    def select(self, name: str, declaration: Declaration | None = None) -> str:
        matchers = list(self.matchers)
        if declaration is not None:
            for label, allowed in declaration.where.items():
                matchers.append(one_of(label, allowed))
        if self.engine.router_sign is not None and self.labels is not None and self.engine.router_sign in self.labels:
            # A router's copy of its workers' gauges carries this label.
            matchers.append(Matcher(self.engine.router_sign, "=", ""))
        return selector(name, matchers)

    def newest(self, names: Iterable[str], declaration: Declaration | None, render: Render) -> str:
        """``render`` over the newest name that each series has: older names only where the newer one is absent."""
        arms = [render(self.select(name, declaration)) for name in names]
        return arms[0] if len(arms) == 1 else "(" + " or ".join(arms) + ")"

    def without_copies(self, expression: str, labels: Iterable[str]) -> str:
        listed = [*self.there(labels), *self.replica_labels]
        return f"max without ({', '.join(listed)}) ({expression})" if listed else expression

    # ------------------------------------------------------------------ reductions

    def summed(self, declaration: Declaration, suffix: str, render: Render, *, by: tuple[str, ...]) -> str:
        """A monotone quantity, combined over series as declared."""
        names = self.present(declaration, suffix)
        inner = self.without_copies(self.newest(names, declaration, render), declaration.one_of)
        if declaration.across == "sum":
            return aggregate("sum", by, inner)
        if declaration.across == "one_of":
            return aggregate("max", by, inner)
        # Copies of one engine are added before engines are averaged or compared.
        engine = tuple(dict.fromkeys((*self.finest, *by)))
        return aggregate("avg" if declaration.across == "mean" else "max", by, aggregate("sum", engine, inner))

    def counted(self, declaration: Declaration, render: Render, *, by: tuple[str, ...], whole: bool = True) -> str:
        """A counter by its split label, or a histogram: buckets, sum and count as arms of one query.

        Args:
            whole: with buckets; otherwise sum and count only.
        """
        if declaration.kind == "counter":
            split = (declaration.split,) if declaration.split else ()
            return self.summed(declaration, "", render, by=(*by, *split))
        if self.is_native(declaration):
            return self.summed(declaration, "", render, by=by)
        arms = []
        if whole and self.present(declaration, "_bucket"):
            arms.append(self.summed(declaration, "_bucket", render, by=(*by, "le")))
        for piece in ("sum", "count"):
            if self.present(declaration, f"_{piece}"):
                arms.append(tagged(self.summed(declaration, f"_{piece}", render, by=by), piece))
        return "\nor\n".join(arms)

    def level(self, declaration: Declaration, render: Render, *, by: tuple[str, ...], split: bool = True) -> str:
        """A gauge: the largest of the copies of one engine, then combined as declared."""
        copies = (*self.engine.copy_labels, *declaration.one_of)
        inner = self.without_copies(self.newest(self.present(declaration), declaration, render), copies)
        across = {"sum": "sum", "mean": "avg", "max": "max", "one_of": "max"}[declaration.across]
        kept = (declaration.split,) if declaration.split and split else ()
        return aggregate(across, (*by, *kept), inner)

    def labels_of(self, declaration: Declaration, seconds: float) -> str:
        """An info series: one row for each engine and configuration, seen anywhere in the range."""
        config = [name for names in self.engine.config_labels.values() for name in names]
        kept = [*self.finest, *self.there(config)]
        over = f"[{duration(seconds)}]"
        inner = self.newest(self.present(declaration), declaration, lambda s: f"last_over_time({s}{over})")
        return aggregate("count", tuple(dict.fromkeys(kept)), inner)


def increase_over(seconds: float) -> Render:
    return lambda s: f"increase({s}[{duration(seconds)}])"


def first_values_over(seconds: float, scope: Scope, strangers: Strangers | None) -> Render:
    """What ``increase()`` leaves out: the first value of a series that began inside the range.

    A series counts from 0, so its first value is an increase, unless its target came with a past of its own
    (strangers). VictoriaMetrics guesses at a start of 0 by the first steps; there the guess is replaced.
    """
    d = duration(seconds)
    on = ", ".join(scope.target_labels)

    def render(s: str) -> str:
        born = f"unless {s} offset {d}"
        if not scope.victoria:
            lost = f"(min_over_time({s}[{d}]) {born})"
            return f"({lost} unless on ({on}) {strangers.expression})" if strangers else lost
        lost = f"((increase_pure({s}[{d}]) - increase({s}[{d}])) {born})"
        if strangers is None:
            return lost
        over = f"((increase_prometheus({s}[{d}]) - increase({s}[{d}])) {born})"
        return f"(({lost} unless on ({on}) {strangers.expression}) or ({over} and on ({on}) {strangers.expression}))"

    return render


def over_time(function: str, seconds: float) -> Render:
    return lambda s: f"{function}({s}[{duration(seconds)}])"


def at_offset(seconds: float) -> Render:
    return lambda s: f"{s} offset {duration(seconds)}" if seconds > 0 else s


def aggregate(operator: str, by: Iterable[str], inner: str) -> str:
    """``sum by (a, b) (inner)``; over everything without labels."""
    labels = ", ".join(by)
    return f"{operator} by ({labels}) ({inner})" if labels else f"{operator}({inner})"


def tagged(expression: str, piece: str) -> str:
    return f'label_replace({expression}, "{PIECE}", "{piece}", "", "")'


def duration(seconds: float) -> str:
    """A PromQL duration: whole seconds where they are whole, else milliseconds."""
    milliseconds = max(1, round(seconds * 1000))
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"


# --------------------------------------------------------------------------- the queries of an audit

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


def process_start(matchers: Iterable[Matcher]) -> str:
    return selector(PROCESS_START, matchers)
