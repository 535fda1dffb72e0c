"""The words of a premises file as frozen types: what is believed, where it is written, until when it is waived."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from typing import Literal

Level = Literal["error", "warn", "off"]
OnUndecided = Literal["fail", "warn"]
At = Literal["mean", "p50", "p90", "p99"]
Kind = Literal["reading", "audit", "before", "claim"]
Gated = Literal["holds", "broken", "undecided", "waived"]

LABELS = ("engine", "model", "rank", "target")
"""Labels that a subject can have, and so the ones that ``for:`` can select by."""


@dataclass(frozen=True)
class ReadingName:
    """What the gate must know of a reading before there is one."""

    name: str
    unit: str
    distribution: bool = False
    better: str | None = None
    """``lower`` or ``higher`` where a direction is known to be good."""
    is_total: bool = False
    """A count, a rate over the window's length or a state of the engine. Broken at once; ``holds`` needs traffic."""
    is_net: bool = False
    """A difference of what began and what ended, the only kind of reading that can be below 0."""

    @property
    def is_share(self) -> bool:
        """A part of a whole: no threshold above 1 can mean anything."""
        named = self.name.endswith("_share") or self.name in ("draft_acceptance", "kept_share_of_verified")
        return self.unit == "ratio" and (named or self.name.startswith("kv_usage"))


@dataclass(frozen=True)
class Names:
    """Every name that a premises file may use: the registries of the other rooms, handed in."""

    readings: Mapping[str, ReadingName]
    audits: tuple[str, ...]
    levers: tuple[str, ...]
    claims: Mapping[str, str]
    """Claim -> the reading that it should be."""


@dataclass(frozen=True, order=True)
class Place:
    """Where something is written: lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Limits:
    """``at_least <= reading <= at_most``, in the reading's own unit; either end may be open."""

    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class Regression:
    """Worse than the baseline by at most this share of the baseline."""

    share: float


@dataclass(frozen=True)
class Premise:
    """One belief, ready to be judged. ``of`` is the reading, audit, lever or claim it is about."""

    name: str
    kind: Kind
    of: str
    place: Place
    condition: Limits | Regression | None = None
    at: At | None = None
    claimed: float | None = None
    level: Level = "error"
    selector: Mapping[str, str] = field(default_factory=dict)
    on_undecided: OnUndecided = "fail"
    preset: str | None = None
    """The preset it came from; None for one that is written in the file."""

    def selects(self, labels: Mapping[str, str | None]) -> bool:
        """Do all shell patterns match? A label without a value matches as an empty text."""
        return all(key in labels and fnmatchcase(labels[key] or "", pattern) for key, pattern in self.selector.items())


@dataclass(frozen=True)
class Waiver:
    """A broken or undecided premise that somebody answers for, up to and including a day."""

    premise: str
    until: date
    reason: str
    place: Place

    def is_expired(self, today: date) -> bool:
        return today > self.until


@dataclass(frozen=True)
class PremisesFile:
    """A premises file after reading: presets filled in, names checked, units converted."""

    file: str
    premises: tuple[Premise, ...]
    waivers: tuple[Waiver, ...] = ()
    extends: str = "none"
    min_requests: int | None = None
    """None where the file does not say."""
    min_coverage: float | None = None
