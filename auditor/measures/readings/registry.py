"""How a reading is declared, computed and explained.

A reading is one function of a :class:`~auditor.measures.subject.Subject` that returns :class:`Found`, or raises
:class:`~auditor.measures.subject.Missing` with the reason. Its name is the function's, its docstring the text that
``auditor explain`` prints.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from auditor.measures.subject import Missing, Subject
from auditor.model import Reading, State


@dataclass(frozen=True)
class Found:
    """What a reading function found: a value with its interval, or (``bounded``) hard limits without one."""

    value: float | None
    low: float | None = None
    high: float | None = None
    count: float | None = None
    sources: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    reason: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


ReadingFunction = Callable[[Subject], Found]
OVERFLOW = "the arithmetic overflows on this page"
SHARE_TOLERANCE = 0.005
COUNTED = ("tokens", "requests", "sequences", "steps")
CONTRADICTION = "the counters it is made of contradict each other"
IMPOSSIBLE = f"outside 0 to 1: {CONTRADICTION}"


@dataclass(frozen=True)
class Declared:
    name: str
    unit: str
    theme: str
    distribution: bool
    better: str | None
    """``lower`` or ``higher`` where a direction is known to be good; None where it depends."""
    function: ReadingFunction

    @cached_property
    def is_share(self) -> bool:
        """A part of a whole: never below 0 or above 1. Net shares, which may be negative, are none."""
        named = self.name.endswith("_share") or self.name in ("draft_acceptance", "kept_share_of_verified")
        return self.unit == "ratio" and named and not self.is_net

    @cached_property
    def is_net(self) -> bool:
        """A difference of what began and what ended in the window, which may be negative."""
        return self.name.startswith(("unmatched_", "unfinished_"))

    @property
    def theme_text(self) -> str:
        """What holds for all readings of its theme: a line, and what letters and units mean."""
        return inspect.cleandoc(inspect.getmodule(self.function).__doc__ or "")

    @property
    def text(self) -> str:
        return inspect.cleandoc(self.function.__doc__ or "")

    @property
    def headline(self) -> str:
        return self.text.split("\n", 1)[0]


READINGS: dict[str, Declared] = {}


def reading(
    *, unit: str, distribution: bool = False, better: str | None = None
) -> Callable[[ReadingFunction], ReadingFunction]:
    """Declare the function below as a reading."""

    def declare(function: ReadingFunction) -> ReadingFunction:
        name = function.__name__
        if name in READINGS:
            raise ValueError(f"two readings are called {name}")
        theme = function.__module__.rpartition(".")[2]
        READINGS[name] = Declared(name, unit, theme, distribution, better, function)
        return function

    return declare


def compute_reading(name: str, subject: Subject) -> Reading:
    """Run one reading and give it its state."""
    declared = READINGS[name]
    try:
        found = declared.function(subject)
    except Missing as missing:
        return Reading(name, missing.state, declared.unit, reason=missing.reason, sources=missing.sources)
    except ArithmeticError:
        return Reading(name, "invalid", declared.unit, reason=OVERFLOW)
    note = subject.engine.notes.get(name)
    caveats = found.caveats if note is None else (*found.caveats, note)
    state: State = "measured" if found.value is not None else "bounded"
    partial = subject.partial_reason
    if partial is not None and state == "measured" and declared.unit != "label":
        state = "partial"
    if partial is not None:
        caveats = (*caveats, partial)
    if subject.window.estimated and "extrapolated" not in " ".join(caveats):
        caveats = (*caveats, "increase() extrapolates to the window's edges: an estimate, not a count")
    value, low, high = _finite(found.value), _finite(found.low), _finite(found.high)
    if found.value is not None and value is None:
        return Reading(name, "invalid", declared.unit, reason=OVERFLOW)
    if not declared.is_net:
        # Two counters of one page may be an event apart.
        events = max(1.0, found.count or 1.0)
        slack = max(SHARE_TOLERANCE, 1 / events) * (events if declared.unit in COUNTED else 1.0)
        if value is not None and (value < -slack or (declared.is_share and value > 1 + slack)):
            where = IMPOSSIBLE if declared.is_share else f"below 0: {CONTRADICTION}"
            return Reading(name, "invalid", declared.unit, reason=f"{value:.4g} is {where}", sources=found.sources)
        most = 1.0 if declared.is_share else math.inf
        value, low, high = (None if x is None else min(most, max(0.0, x)) for x in (value, low, high))
    if low is not None and high is not None and value is not None:
        # An interval contains its value, whatever rounding did.
        low, high = min(low, value), max(high, value)
    return Reading(
        name=name,
        state=state,
        unit=declared.unit,
        value=value,
        low=low,
        high=high,
        count=_finite(found.count),
        sources=found.sources,
        reason=found.reason,
        caveats=caveats,
        extra=found.extra,
    )


def _finite(number: float | None) -> float | None:
    if number is None or not math.isfinite(number):
        return None
    return number


def ratio(numerator: float, denominator: float, nothing: str, sources: tuple[str, ...] = ()) -> float:
    """A quotient.

    Raises:
        Missing: state no_traffic when there is nothing to divide by; ``nothing`` says what was not there.
    """
    if denominator <= 0:
        raise Missing("no_traffic", nothing, sources=sources)
    return numerator / denominator
