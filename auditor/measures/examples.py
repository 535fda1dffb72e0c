"""Worked examples: the shorthand of :class:`auditor.model.Example` as a subject that readings and audits accept.

The conformance tests and ``auditor explain`` both go through here, so an example that is shown is one that was checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from auditor.measures.settings import page_settings, resolve_settings
from auditor.measures.subject import Subject, WindowFacts
from auditor.measures.vocabulary import Declaration, Engine, Vocabulary, load_vocabulary
from auditor.model import Counter, Example, Gauge, Histogram, Info, Options, Part, Quantity, Setting


def example_part(example: Example, engine: Engine) -> Part:
    """The one engine that an example speaks of.

    Raises:
        ValueError: a quantity that the engine does not have, or a shape that does not fit its kind.
    """
    quantities = {
        name: _quantity(_declared(engine, name), shorthand, lifetime=example.kind == "lifetime")
        for name, shorthand in example.quantities.items()
    }
    units = {name: "tokens" for name in quantities if engine.quantities[name].unit_in_help}
    return Part(
        target="example", engine=engine.name, model="example", rank="0", quantities=quantities, units=units,
        forms={name: engine.quantities[name].series[0] for name in quantities},
    )  # fmt: skip


def example_subject(example: Example, options: Options, *, vocabulary: Vocabulary | None = None) -> Subject:
    """The subject of an example, ready to be read like one that came from a page."""
    engine = (vocabulary or load_vocabulary()).engine(example.engine)
    part = example_part(example, engine)
    given = {name: Setting(value, "flag") for name, value in example.settings.items()}
    settings, _ = resolve_settings(page_settings([part], engine), {}, given)
    return Subject(
        labels={"engine": engine.name, "model": part.model},
        engine=engine,
        form=engine.prefix,
        parts=(part,),
        window=WindowFacts(kind=example.kind, seconds=example.seconds),
        options=options,
        settings=settings,
    )


def _declared(engine: Engine, name: str) -> Declaration:
    if name not in engine.quantities:
        raise ValueError(f"an example speaks of {name!r}, which is no quantity of {engine.title}")
    return engine.quantities[name]


def _quantity(declaration: Declaration, shorthand: Any, *, lifetime: bool) -> Quantity:
    if declaration.kind == "counter":
        return _counter(shorthand, lifetime=lifetime)
    if declaration.kind == "gauge":
        return _gauge(shorthand)
    if declaration.kind == "histogram":
        return _histogram(shorthand)
    return Info((dict(shorthand),))


def _counter(shorthand: float | Mapping[str, float], *, lifetime: bool) -> Counter:
    split = {k: float(v) for k, v in shorthand.items()} if isinstance(shorthand, Mapping) else {}
    increase = math.fsum(split.values()) if isinstance(shorthand, Mapping) else float(shorthand)
    if lifetime:
        return Counter(increase, at_start=0.0, at_end=increase, split=split)
    return Counter(increase, split=split)


def _gauge(shorthand: tuple[float, ...]) -> Gauge:
    """``(first, last)``, or every page's value of a series."""
    values = [float(v) for v in shorthand]
    return Gauge(
        first=values[0], last=values[-1], low=min(values), high=max(values), mean=math.fsum(values) / len(values)
    )


def _histogram(shorthand: Mapping[str, Any]) -> Histogram:
    buckets = {float(edge): float(n) for edge, n in shorthand["buckets"].items()}
    buckets.setdefault(math.inf, 0.0)
    edges = tuple(sorted(buckets))
    counts = tuple(buckets[edge] for edge in edges)
    if math.fsum(counts) != shorthand["count"]:
        raise ValueError(f"the buckets of an example hold {math.fsum(counts):g}, its count says {shorthand['count']}")
    return Histogram(edges, counts, float(shorthand["sum"]), float(shorthand["count"]))
