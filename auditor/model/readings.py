"""Numbers with their state, interval and count, and what was said on the command line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.model.words import HAS_VALUE, State, WindowKind


@dataclass(frozen=True)
class Reading:
    """A number derived from quantities, limits for it, or the reason why there is none.

    ``low`` and ``high`` are a 95 % interval beside a value, and hard limits in state ``bounded``.
    """

    name: str
    state: State
    unit: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    count: float | None = None
    sources: tuple[str, ...] = ()
    reason: str | None = None
    caveats: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further JSON members: the quantiles of a distribution, mean and max of a gauge over a series."""

    def __post_init__(self) -> None:
        for number in (self.value, self.low, self.high, self.count):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{self.name}: {number} is not a value a reading can have")
        if (self.value is not None) != (self.state in HAS_VALUE):
            raise ValueError(f"{self.name}: value {self.value} in state {self.state}")

    @property
    def has_value(self) -> bool:
        return self.value is not None

    def limits(self) -> tuple[float | None, float | None]:
        """What a threshold is judged by: the interval or limits, else the value itself."""
        if self.value is not None and self.low is None and self.high is None:
            return self.value, self.value
        return self.low, self.high

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "value": self.value,
            "unit": self.unit,
            "low": self.low,
            "high": self.high,
            "count": self.count,
            "from": list(self.sources),
            "reason": self.reason,
            "caveats": list(self.caveats),
            **self.extra,
        }


@dataclass(frozen=True)
class Setting:
    """A value that no page tells, or that a page does tell, with where it came from."""

    value: float | str | bool
    source: str

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "source": self.source}


@dataclass(frozen=True)
class Claim:
    """A number in somebody's notes, held against the readings."""

    claim: str
    value: float
    matches: tuple[str, ...]
    is_what_it_says: bool | None
    right: tuple[str, float | None]
    summary: str

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.claim,
            "value": self.value,
            "matches": list(self.matches),
            "is_what_it_says": self.is_what_it_says,
            "right": {"reading": self.right[0], "value": self.right[1]},
            "summary": self.summary,
        }


@dataclass(frozen=True)
class Options:
    """What the caller decides about judging; everything else is in the window."""

    min_requests: int = 30
    min_coverage: float = 0.9
    short_cap: int = 50
    worth: float = 1.05
    by: str = "model"
    slo: Mapping[str, float] = field(default_factory=dict)
    claims: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Readings:
    """All that audits, levers and claims may see of one subject: readings by name, flags, settings."""

    labels: Mapping[str, str | None]
    window_kind: WindowKind
    values: Mapping[str, Reading]
    flags: tuple[str, ...]
    settings: Mapping[str, Setting]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain statements found on the way to the flags, by flag: the words an audit quotes."""

    def __getitem__(self, name: str) -> Reading:
        return self.values[name]

    def get(self, name: str) -> Reading | None:
        return self.values.get(name)

    def value(self, name: str) -> float | None:
        """The value, or None in every state that has none."""
        reading = self.values.get(name)
        return None if reading is None else reading.value

    def has_flag(self, *names: str) -> bool:
        return any(name in self.flags for name in names)

    @property
    def lifetime(self) -> bool:
        return self.window_kind == "lifetime"
