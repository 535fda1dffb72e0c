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


def process_start(matchers: Iterable[Matcher]) -> str:
    return selector(PROCESS_START, matchers)
