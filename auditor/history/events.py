"""What was changed between nights: restarts, versions, settings, pool size, what the engine exports.

That is usually why a number moved, so it stands beside the number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from auditor.model import utc_text

EventKind = Literal["setting", "pool", "version", "exports", "restart"]
RANK: Mapping[str, int] = {"setting": 0, "pool": 1, "version": 2, "exports": 3, "restart": 4}
"""The more it explains by itself the earlier it is named: every change of a setting brings a restart."""
POOL = frozenset(
    {"kv_pool_tokens", "max_model_len", "kv_cache_size_tokens", "kv_cache_max_concurrency", "num_gpu_blocks"}
)
"""What an engine works out at boot from its settings: an effect, named after them."""
SHOWN_NAMES = 6
EXPORTS = "not exported"
"""The fact that lists readings without a series."""


@dataclass(frozen=True)
class Event:
    """Something that was one way on the night ``before`` and another on the night ``at`` (unix seconds)."""

    kind: EventKind
    name: str
    old: str | None
    new: str | None
    before: float
    at: float

    @property
    def summary(self) -> str:
        if self.kind == "restart":
            return f"the engine was started anew ({self.new})"
        if self.kind == "exports":
            return f"{self.name} {self.new}"
        old = "not known" if self.old is None else self.old
        new = "not known" if self.new is None else self.new
        return f"{self.name}: {old} -> {new}"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "from": self.old,
            "to": self.new,
            "before": utc_text(self.before),
            "at": utc_text(self.at),
            "summary": self.summary,
        }


def find_events(nights: Sequence[tuple[float, Mapping[str, str] | None]]) -> list[Event]:
    """Events between neighbouring nights (end, what the engine said) on which the subject was there, oldest first."""
    out: list[Event] = []
    last: tuple[float, Mapping[str, str]] | None = None
    for end, facts in nights:
        if facts is None:
            continue
        if last is not None:
            if EXPORTS not in facts and EXPORTS in last[1]:
                # An idle night does not tell.
                facts = {**facts, EXPORTS: last[1][EXPORTS]}
            out += _between(last[0], last[1], end, facts)
        last = (end, facts)
    return out


def _between(before: float, old: Mapping[str, str], at: float, new: Mapping[str, str]) -> list[Event]:
    out: list[Event] = []
    appeared: list[str] = []
    vanished: list[str] = []
    for name in sorted({*old, *new}):
        a, b = old.get(name), new.get(name)
        if a == b:
            continue
        kind, _, rest = name.partition(" ")
        if name == "process started":
            if a is not None and b is not None:
                out.append(Event("restart", "process start", a, b, before, at))
        elif name == EXPORTS:
            if a is not None and b is not None:
                out += _exports(before, a, at, b)
        elif name in ("engine version", "setting engine_version"):
            out.append(Event("version", "engine version", a, b, before, at))
        elif kind == "config" and (a is None or b is None):
            (appeared if a is None else vanished).append(rest)
        elif (rest or name) in POOL:
            out.append(Event("pool", rest or name, a, b, before, at))
        elif kind in ("config", "setting"):
            out.append(Event("setting", rest, a, b, before, at))
    for word, names in (("now has", appeared), ("no longer has", vanished)):
        if names:
            out.append(Event("exports", f"the engine's configuration {word}", None, _some(names), before, at))
    return sorted(_without_doubles(out), key=lambda e: (RANK[e.kind], e.name))


def _exports(before: float, old: str, at: float, new: str) -> list[Event]:
    gone, back = set(new.split()) - set(old.split()), set(old.split()) - set(new.split())
    out = []
    for word, names in (("newly exported", back), ("no longer exported", gone)):
        if names:
            name = f"{word} (another engine version?):"
            out.append(Event("exports", name, None, _some(sorted(names)), before, at))
    return out


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more


def _without_doubles(events: Sequence[Event]) -> list[Event]:
    """One setting that two places name is one event."""
    seen: set[tuple[str, str | None, str | None]] = set()
    out = []
    for event in events:
        key = (event.name, _plain(event.old), _plain(event.new))
        if key not in seen:
            seen.add(key)
            out.append(event)
    return out


def _plain(text: str | None) -> str | None:
    try:
        return f"{float(text or ''):g}"
    except ValueError:
        return text


def likely_causes(events: Sequence[Event], *, last_good: float | None, since: float) -> list[Event]:
    """What was changed after the last quiet night and up to the first loud one."""
    if last_good is None:
        return []
    return [e for e in events if e.at > last_good and e.at <= since]
