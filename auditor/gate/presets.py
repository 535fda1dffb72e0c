"""Beliefs by their plain names, and the presets made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auditor.gate.model import Level, Limits, Place, Premise


@dataclass(frozen=True)
class Belief:
    """A belief is an audit's own verdict, or (where no audit asks it that way round) a reading with a limit."""

    audit: str | None = None
    reading: str | None = None
    limits: Limits | None = None


BELIEFS: Mapping[str, Belief] = {
    "prefill dominates": Belief(audit="time-split"),
    "decode dominates": Belief(reading="prefill_share", limits=Limits(high=0.5)),
    "cache works": Belief(audit="prefix-cache"),
    "answers complete": Belief(audit="length-truncation"),
    "steps full": Belief(audit="step-fill"),
    "rate is a rate": Belief(audit="derived-rates"),
    "no queueing": Belief(audit="queueing"),
    "kv not the limit": Belief(audit="kv-pool"),
    "no preemption": Belief(audit="preemption"),
    "speculation pays": Belief(audit="speculation"),
    "requests accounted": Belief(audit="request-accounting"),
    "engine alive": Belief(audit="engine-liveness"),
    "metrics trustworthy": Belief(audit="metrics-integrity"),
    "whole service": Belief(audit="role"),
}

FIRST = ("metrics-integrity", "engine-liveness")
"""Judged before everything else: where one of them is broken, no other number of that subject can be used."""

LIFETIME_BLIND = frozenset({"preemption", "engine-liveness", "kv-pool"})
"""Audits that a single page can never decide."""

_ERRORS = ("metrics trustworthy", "engine alive", "answers complete")
_WARNINGS = ("requests accounted", "no preemption", "no queueing", "kv not the limit")

PRESETS: Mapping[str, Mapping[str, Level]] = {
    "none": {},
    "recommended": {**dict.fromkeys(_ERRORS, "error"), **dict.fromkeys(_WARNINGS, "warn")},
    "strict": dict.fromkeys((*_ERRORS, *_WARNINGS), "error"),
}


def preset_premises(preset: str, place: Place) -> tuple[Premise, ...]:
    """The premises of a preset, all standing at the line that names it."""
    return tuple(
        believe(belief, name=belief, place=place, level=level, preset=preset)
        for belief, level in PRESETS[preset].items()
    )


def believe(belief: str, *, name: str, place: Place, level: Level = "error", preset: str | None = None) -> Premise:
    """A belief as the premise that stands for it."""
    meant = BELIEFS[belief]
    if meant.audit is not None:
        return Premise(name, "audit", meant.audit, place, level=level, preset=preset)
    assert meant.reading is not None
    return Premise(name, "reading", meant.reading, place, condition=meant.limits, level=level, preset=preset)
