"""Boots side by side: repeats and their spread first, effects of a setting after.

A difference is called an effect only where it exceeds the spread of repeated boots; where nothing was
booted twice, the difference is shown and left without a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from auditor.planning.pools import KnownBoot, configuration, needed_gib, pool_gib, setting_of

EffectVerdict = Literal["effect", "within_spread", "spread_unknown"]


@dataclass(frozen=True)
class Repeats:
    """Boots of one configuration. Spreads are (largest - smallest) / largest; None with fewer than two."""

    configuration: Mapping[str, str]
    boots: tuple[KnownBoot, ...]

    @property
    def pools(self) -> list[int]:
        return [b.kv_pool_tokens for b in self.boots if b.kv_pool_tokens is not None]

    @property
    def mean_pool(self) -> float | None:
        return sum(self.pools) / len(self.pools) if self.pools else None

    @property
    def pool_spread(self) -> float | None:
        return _spread(self.pools)

    @property
    def gib_spread(self) -> float | None:
        return _spread([b.kv_gib for b in self.boots if b.kv_gib is not None and b.kv_pool_tokens is not None])

    def to_json(self) -> dict[str, Any]:
        return {
            "settings": dict(sorted(self.configuration.items())),
            "boots": len(self.boots),
            "pools": self.pools,
            "pool_spread": self.pool_spread,
            "gib_spread": self.gib_spread,
        }


def _spread(values: Sequence[float]) -> float | None:
    if len(values) < 2 or max(values) <= 0:
        return None
    return (max(values) - min(values)) / max(values)


def group_repeats(boots: Sequence[KnownBoot]) -> tuple[Repeats, ...]:
    """Boots by configuration, in order of appearance, without those that have no pool to compare."""
    groups: dict[tuple[tuple[str, str], ...], list[KnownBoot]] = {}
    for boot in boots:
        refused_for_kv = boot.refusal is not None and boot.refusal.kind in ("kv_too_small", "pool_below_context")
        if boot.by_hand or (boot.kv_pool_tokens is None and not refused_for_kv):
            continue
        groups.setdefault(tuple(sorted(configuration(boot).items())), []).append(boot)
    return tuple(Repeats(dict(key), tuple(members)) for key, members in groups.items())


@dataclass(frozen=True)
class Effect:
    """What one setting did to the pool between two configurations that differ in nothing else.

    ``pool_change`` is relative, in tokens where both boots have a pool, else in full requests by the
    engine's own need. ``spread`` is the largest spread of repeated boots known.
    """

    setting: str
    old: str
    new: str
    pool_change: float | None
    spread: float | None
    verdict: EffectVerdict
    gib_change: float | None = None
    mib_per_token: float | None = None
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting,
            "from": _number_or_text(self.old),
            "to": _number_or_text(self.new),
            "pool_change": self.pool_change,
            "spread": self.spread,
            "verdict": self.verdict,
            "gib_change": self.gib_change,
            "mib_per_token": self.mib_per_token,
            "notes": list(self.notes),
        }

    def sentence(self) -> str:
        """For a lever's costs: ``costs about 29 % of the pool in these two boots``."""
        if self.pool_change is None:
            return f"{self.setting} {self.old} -> {self.new}: no pool to compare"
        verb = "costs" if self.pool_change < 0 else "gives"
        return (
            f"{self.setting} {self.old} -> {self.new} {verb} about {abs(self.pool_change) * 100:.0f} % of the pool "
            "in these two boots"
        )


def _number_or_text(text: str) -> float | int | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def find_effects(boots: Sequence[KnownBoot]) -> tuple[tuple[Effect, ...], tuple[str, ...]]:
    """Effects between configurations that differ in one setting; and, in words, what cannot be compared."""
    groups = group_repeats(boots)
    known = [g.pool_spread for g in groups if g.pool_spread is not None]
    spread = max(known) if known else None
    effects: list[Effect] = []
    mixed: list[str] = []
    for index, first in enumerate(groups):
        for second in groups[index + 1 :]:
            names = _differences(first, second)
            if len(names) == 1:
                effects.append(_effect(names[0], first, second, boots, spread))
            elif names:
                mixed.append(
                    f"line {first.boots[0].line} of {first.boots[0].file} and line {second.boots[0].line} of "
                    f"{second.boots[0].file} differ in {', '.join(names)}: no effect belongs to one of them"
                )
    return tuple(effects), tuple(mixed)


_STATED_ONLY = ("gpu_memory_utilization", "seats", "threshold")
"""Settings that a log shows only where somebody set them."""


def _differences(first: Repeats, second: Repeats) -> list[str]:
    """Settings in which two configurations differ.

    An argument that only one of two logs names differs (the other has the default), provided that both
    logs have their argument line; of an excerpt nobody knows, so only what both show can differ.
    """
    old, new = first.configuration, second.configuration
    names = {name for name in old.keys() & new.keys() if old[name] != new[name]}
    identities = first.boots[0].identity, second.boots[0].identity
    if all(identities):
        names |= identities[0].keys() ^ identities[1].keys()
        names |= {name for name in _STATED_ONLY if (name in old) != (name in new)}
    return sorted(names)


def _effect(name: str, first: Repeats, second: Repeats, boots: Sequence[KnownBoot], spread: float | None) -> Effect:
    notes: list[str] = []
    change = None
    if first.mean_pool and second.mean_pool:
        change = second.mean_pool / first.mean_pool - 1
    old_gib, new_gib = (pool_gib(group.boots[-1], boots)[0] for group in (first, second))
    by_need = needed_gib(boots, setting_of(first.boots[-1], "context")) is not None and name != "context"
    if change is None and by_need and old_gib and new_gib is not None:
        change = new_gib / old_gib - 1
        notes.append("one side refused to start: compared in full requests, by the GiB the engine needs for one")
    gib_change = per_token = None
    if by_need and old_gib is not None and new_gib is not None:
        gib_change = new_gib - old_gib
        if name == "budget":
            step = float(second.configuration[name]) - float(first.configuration[name])
            per_token = -gib_change * 1024 / step
    if change is None:
        verdict: EffectVerdict = "spread_unknown"
        notes.append("no pool on one side: nothing to compare")
    elif spread is None:
        verdict = "spread_unknown"
        notes.append("no configuration was booted twice: boot one again before calling this an effect")
    else:
        verdict = "effect" if abs(change) > spread else "within_spread"
    return Effect(
        setting=name,
        old=first.configuration.get(name, "default"),
        new=second.configuration.get(name, "default"),
        pool_change=change,
        spread=spread,
        verdict=verdict,
        gib_change=gib_change,
        mib_per_token=per_token,
        notes=tuple(notes),
    )
