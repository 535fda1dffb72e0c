"""Which quantities a reading asks for: found by reading it from a page on which everything is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from auditor.measures.readings import compute_reading
from auditor.measures.subject import Subject, WindowFacts
from auditor.measures.vocabulary import Engine
from auditor.model import Counter, Gauge, Histogram, Info, Options, Part, Quantity

INFINITE = float("inf")


@dataclass
class _Watched(Subject):
    """A subject that notes what it is asked for."""

    asked: set[str] = field(default_factory=set)

    def quantity(self, name: str) -> Quantity:
        self.asked.add(name)
        return super().quantity(name)

    def has(self, name: str) -> bool:
        self.asked.add(name)
        return super().has(name)


def quantities_of(readings: Iterable[str], engine: Engine) -> frozenset[str]:
    """Names of the declared quantities that the readings come from, or look at on the way."""
    out: set[str] = set()
    for name in readings:
        watched = _Watched(
            labels={},
            engine=engine,
            form=engine.prefix,
            parts=(_full_part(engine),),
            window=WindowFacts(kind="range", seconds=3600.0, start=0.0, end=3600.0),
            options=Options(),
            settings={},
        )
        compute_reading(name, watched)
        out |= watched.asked
    return frozenset(n for n in out if n in engine.quantities)


def _full_part(engine: Engine) -> Part:
    quantities: dict[str, Quantity] = {}
    for name, declaration in engine.quantities.items():
        if declaration.kind == "counter":
            quantities[name] = Counter(100.0, 0.0, 100.0, {})
        elif declaration.kind == "histogram":
            quantities[name] = Histogram((1.0, 10.0, INFINITE), (50.0, 40.0, 10.0), 200.0, 100.0)
        elif declaration.kind == "gauge":
            quantities[name] = Gauge(0.5, 0.5, 0.5, 0.5, 0.5)
        else:
            quantities[name] = Info(({},))
    return Part("", engine.name, None, None, quantities)
