"""A subject: parts added up to what a report speaks of, and how its readings ask for quantities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from auditor.measures.merging import merge_quantities
from auditor.measures.vocabulary import Engine
from auditor.model import (
    Counter,
    Gauge,
    Histogram,
    Info,
    Options,
    Part,
    Quantity,
    Reading,
    Setting,
    State,
    WindowKind,
)


class Missing(Exception):
    """There is no such number, and why: raised by accessors, turned into a reading without a value."""

    def __init__(self, state: State, reason: str, *, sources: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.sources = sources


@dataclass(frozen=True)
class WindowFacts:
    """What the readings may know of the window itself."""

    kind: WindowKind
    seconds: float | None
    start: float | None = None
    end: float | None = None
    coverage: float = 1.0
    estimated: bool = False
    """Increases are a metrics server's, extrapolated to the window's edges."""
    step_seconds: float | None = None
    """Distance between samples behind an estimated increase."""
    partial_response: str = ""
    """What a metrics server warned about its own answers."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a boot log told beside settings."""


@dataclass
class Subject:
    """Quantities of one subject, merged; readings are asked through :meth:`read` and remembered."""

    labels: Mapping[str, str | None]
    engine: Engine
    form: str
    parts: tuple[Part, ...]
    window: WindowFacts
    options: Options
    settings: Mapping[str, Setting]
    slices: tuple[Subject, ...] = ()
    restarted: bool = False
    disagreements: tuple[str, ...] = ()
    joined: str | None = None
    """A disaggregated pair that is read as one service, in words."""
    _merged: dict[str, Quantity | None] = field(default_factory=dict)
    _readings: dict[str, Reading] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)

    # ------------------------------------------------------------------ quantities

    def quantity(self, name: str) -> Quantity:
        """The merged quantity.

        Raises:
            Missing: not_exported, absent or invalid, with the reason in words.
        """
        if name not in self._merged:
            holding = [p for p in self.parts if name in p.quantities]
            # A pooled part holds the total of its siblings already.
            found = [p.quantities[name] for p in [p for p in holding if p.pooled] or holding]
            self._merged[name] = (
                merge_quantities(found, self.engine.quantities.get(name)) if found else self._not_yet(name)
            )
        merged = self._merged[name]
        if merged is None or name in self._flawed:
            raise self.missing(name)
        return merged

    def _not_yet(self, name: str) -> Quantity | None:
        """Zero for what its engine writes with the first event, where another quantity shows that none came."""
        declaration = self.engine.quantities.get(name)
        if self.of_log or declaration is None or declaration.kind not in ("counter", "histogram"):
            return None
        beside = declaration.kind == "counter" and not self._on_page.isdisjoint(declaration.zero_beside)
        if not beside and (declaration.population == "state" or not self._nothing_ran):
            return None
        return Counter(0.0, 0.0, 0.0) if declaration.kind == "counter" else Histogram((math.inf,), (0.0,), 0.0, 0.0)

    @property
    def _nothing_ran(self) -> bool:
        """The counter that moves with all work of this engine is on the page, and has never moved."""
        name = self.engine.traits.get("moves_with_all_work")
        found = [p.quantities[name] for p in self.parts if name in p.quantities] if name else []
        return bool(found) and all(isinstance(q, Counter) and q.at_end == 0 for q in found)

    def missing(self, name: str) -> Missing:
        """Why this quantity is on no page of the subject, or why it cannot be used."""
        flaw = next((p.flaws[name] for p in self.parts if name in p.flaws), None)
        if flaw is not None:
            return Missing("invalid", flaw, sources=(name,))
        if self.of_log:
            return Missing("not_exported", next(p.log.missing for p in self.parts if p.log is not None))
        declaration = self.engine.quantities.get(name)
        if declaration is None:
            return Missing("not_exported", self.engine.holes.get(name, f"{self.engine.title} exports no series for it"))
        shown = self.engine.exported(declaration.series[0], self.form)
        if declaration.core and not self.sparse:
            return Missing("absent", f"{shown} should be on the page and is not")
        if declaration.core:
            return Missing("not_exported", f"no {shown} on the page, which leaves out series that never moved")
        why = declaration.missing or "not in this release"
        if self.sparse and declaration.kind == "counter":
            why += ", or it never moved: this form of the page leaves such counters out"
        return Missing("not_exported", f"no {shown} on the page: {why}")

    @property
    def of_log(self) -> bool:
        """Read from a running log, which has gauges and rolling rates and no counter."""
        return any(p.log is not None for p in self.parts)

    @property
    def sparse(self) -> bool:
        """This form of the page leaves out counters that never moved."""
        return self.engine.form(self.form).sparse_counters if self.form else False

    @cached_property
    def _flawed(self) -> frozenset[str]:
        return frozenset(name for p in self.parts for name in p.flaws)

    @cached_property
    def _on_page(self) -> frozenset[str]:
        return frozenset().union(*(p.quantities for p in self.parts))

    def has(self, name: str) -> bool:
        if name in self._flawed:
            return False
        return name in self._on_page or self._not_yet(name) is not None

    def refuse_flawed(self, name: str) -> None:
        """A quantity that is on the page and cannot be used has no stand-in that counts something else.

        Raises:
            Missing: invalid, with what is wrong with it.
        """
        if name in self._flawed:
            raise self.missing(name)

    def counter(self, name: str) -> Counter:
        q = self.quantity(name)
        if not isinstance(q, Counter):
            raise Missing("invalid", f"{name} is no counter on this page", sources=(name,))
        return q

    def histogram(self, name: str) -> Histogram:
        q = self.quantity(name)
        if not isinstance(q, Histogram):
            if self.engine.quantities[name].kind != "histogram":
                reason = f"{self.engine.title} exports its sum only, no distribution"
                raise Missing("not_exported", reason, sources=(name,))
            raise Missing("invalid", f"{name} is no histogram on this page", sources=(name,))
        return q

    def buckets(self, name: str) -> Histogram:
        """A histogram whose buckets can be used."""
        h = self.histogram(name)
        if h.flaw or not h.edges:
            raise Missing("invalid", h.flaw or "no buckets", sources=(name,))
        return h

    def gauge(self, name: str) -> Gauge:
        q = self.quantity(name)
        if not isinstance(q, Gauge):
            raise Missing("invalid", f"{name} is no gauge on this page", sources=(name,))
        return q

    def increase(self, name: str) -> float:
        return self.counter(name).increase

    def info(self, name: str) -> tuple[Mapping[str, str], ...]:
        q = self.quantity(name)
        return q.labels if isinstance(q, Info) else ()

    def config(self, key: str) -> list[str]:
        """Values of one label of the engine's configuration series, one per distinct copy, None-words left out."""
        if not self.has("cache_config"):
            return []
        out: list[str] = []
        for labels in self.info("cache_config"):
            for name in self.engine.config_labels.get(key, ()):
                value = labels.get(name, "")
                if value not in ("", "None"):
                    out.append(value)
                    break
        return out

    # ------------------------------------------------------------------ parts

    def engines(self) -> list[Subject]:
        """One subject per engine (target and rank), for what must be taken per engine before it is added."""
        return list(self._engines)

    @cached_property
    def _engines(self) -> tuple[Subject, ...]:
        single = [p for p in self.parts if not p.pooled] or self.parts
        return tuple(
            Subject(
                labels={**self.labels, "target": p.target, "rank": p.rank},
                engine=self.engine,
                form=self.form,
                parts=(p,),
                window=self.window,
                options=self.options,
                settings=self.settings,
                restarted=p.restarts > 0,
            )
            for p in single
        )

    # ------------------------------------------------------------------ readings

    def read(self, name: str) -> Reading:
        """The reading of this name, computed once."""
        if name not in self._readings:
            if name in self._open:
                raise RuntimeError(f"reading {name} asks for itself")
            self._open.add(name)
            try:
                from auditor.measures.readings import compute_reading

                self._readings[name] = compute_reading(name, self)
            finally:
                self._open.discard(name)
        return self._readings[name]

    def value(self, name: str) -> float:
        """The value of another reading.

        Raises:
            Missing: with that reading's own state and reason.
        """
        reading = self.read(name)
        if reading.value is None:
            state: State = "no_traffic" if reading.state == "no_traffic" else reading.state
            if state == "bounded":
                raise Missing("invalid", f"{name} is only known as a range here", sources=reading.sources)
            raise Missing(state, reading.reason or f"{name} has no value", sources=reading.sources)
        return reading.value

    def setting(self, name: str) -> float | None:
        """A numeric setting, where one is known."""
        s = self.settings.get(name)
        return float(s.value) if s is not None and isinstance(s.value, int | float) else None

    @property
    def moved(self) -> bool:
        """A live or finished counter moved in the window; in a log, which has none, tokens moved in a line."""
        if any(p.log is not None and p.log.moved for p in self.parts):
            return True
        for name, declaration in self.engine.quantities.items():
            if declaration.population == "state":
                continue
            for part in self.parts:
                q = part.quantities.get(name)
                if isinstance(q, Counter) and q.increase > 0:
                    return True
                if isinstance(q, Histogram) and q.count > 0:
                    return True
        return False

    @property
    def from_zero(self) -> bool:
        """The window begins with the process: nothing was running when counting began."""
        return self.window.kind == "lifetime" or (self.restarted and self.window.kind == "scrapes")

    @property
    def partial_reason(self) -> str | None:
        if self.restarted:
            if self.window.kind == "scrapes":
                return "the engine restarted inside the window: counted from the restart on"
            return "the engine restarted inside the window: its lives are added up"
        if self.window.coverage < self.options.min_coverage:
            return f"only {self.window.coverage:.0%} of the window is covered"
        return None
