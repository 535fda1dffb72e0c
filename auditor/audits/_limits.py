"""Which limit binds: seats, the KV pool, the step budget, or none; and the evidence for it.

A request waits for a seat (max_num_seqs), for KV blocks, or for room in a step. Gauges tell which, where requests wait
at a scrape; a page on which nothing waits says that nothing binds at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from auditor.audits.judging import percent, shown
from auditor.model import Readings

LimitName = Literal["none", "seats", "kv_pool", "step_budget", "other", "unknown"]
NEARLY_FULL = 0.95


@dataclass(frozen=True)
class BindingLimit:
    name: LimitName
    evidence: str
    """A half sentence for a summary."""
    settle: str = ""
    """What would tell, where this window does not."""


def peak(readings: Readings, name: str) -> float | None:
    """The highest value of a gauge over the window's pages, as far as its reading tells."""
    reading = readings.get(name)
    if reading is None or reading.value is None:
        return None
    highest = reading.extra.get("max")
    return float(highest) if isinstance(highest, int | float) else reading.value


def at_scrapes(readings: Readings) -> str:
    """When a gauge was looked at, in words."""
    return "at any scrape" if readings.window_kind in ("series", "range") else "at the scrape"


def find_binding_limit(readings: Readings) -> BindingLimit:
    """Say which limit holds requests back, or that the window does not tell."""
    running, waiting = peak(readings, "running_requests"), peak(readings, "waiting_requests")
    if readings.has_flag("kv_bound"):
        return BindingLimit("kv_pool", f"the KV pool binds: {readings.facts.get('kv_bound', 'kv_bound')}")
    if readings.has_flag("gauges_stale"):
        return BindingLimit("unknown", "the gauges are stale")
    if running is None or waiting is None:
        return BindingLimit("unknown", "running and waiting requests are not on the page")
    if waiting == 0 and running == 0:
        return BindingLimit("unknown", f"idle {at_scrapes(readings)}, so the gauges do not tell which limit binds")
    if waiting == 0:
        return BindingLimit("none", f"no limit binds: nothing waits {at_scrapes(readings)}")
    deferred = readings.value("waiting_deferred_share")
    if deferred is not None and deferred > 0.5:
        share = f"{percent(deferred)} of {shown(waiting)} waiting"
        return BindingLimit("other", f"{share} wait for something else than capacity")
    return _of_waiting(readings, running, waiting)


def _of_waiting(readings: Readings, running: float, waiting: float) -> BindingLimit:
    usage = peak(readings, "kv_usage_peak")
    most = "at most " if readings.window_kind in ("series", "range") else ""
    queue = f"{most}{shown(waiting)} waiting, {most}{shown(running)} running"
    use = "" if usage is None else f", KV use {percent(usage)}"
    seats = readings.settings.get("seats")
    if seats is None or not isinstance(seats.value, int | float):
        return BindingLimit("unknown", f"{queue}{use}: seats or step budget", "give --seats N")
    engines = max(1.0, readings["kv_usage"].count or 1.0)
    all_seats = float(seats.value) * engines
    if running >= all_seats:
        return BindingLimit("seats", f"seats bind: {queue} of {shown(all_seats)} seats")
    if usage is not None and usage < NEARLY_FULL and _fits(readings, usage):
        return BindingLimit("step_budget", f"the step budget binds: {queue} of {shown(all_seats)} seats{use}")
    return BindingLimit(
        "unknown", f"{queue} of {shown(all_seats)} seats{use}: KV pool or step budget", "audit it with --series"
    )


def _fits(readings: Readings, usage: float) -> bool:
    """Whether the longest prompt seen would fit into what is free of the pool."""
    pool = readings.value("kv_pool_tokens")
    lengths = readings.get("prompt_length_tokens")
    longest = (lengths.extra.get("p99") or {}).get("high") if lengths is not None else None
    return pool is not None and longest is not None and (1 - usage) * pool >= longest
