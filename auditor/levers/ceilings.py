"""What the levers share: ranges, the verdict rule, and the words for a ceiling.

A ceiling is the most a lever can gain in request service time (prefill + decode of the mean request), never a
promise. It comes from the reading ``decode_stretch_share``, whose text has the derivation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from auditor.model import Lever, Options, Range, Readings

LeverVerdict = Literal["worth_a_test", "not_worth_a_test", "undecided", "not_applicable"]
NOTHING: Range = (1.0, 1.0)
UNKNOWN: Range = (None, None)
SHORT_STEP_SECONDS = 0.004
"""Below this a step is mostly host work, on which the 95 % range was not tried enough: the 99 % one is shown."""
PREFILL_NEEDS = ("decode_stretch_share",)


@dataclass(frozen=True)
class Ceiling:
    """Ranges of a ceiling and why an end is missing."""

    at_99: Range = UNKNOWN
    at_95: Range = UNKNOWN
    reason: str | None = None
    shown: Range = UNKNOWN
    """The range for a sentence: 95 % as a rule, 99 % where steps are very short."""

    @property
    def width(self) -> str:
        return "99 %" if self.shown == self.at_99 else "95 %"


def exact(low: float | None, high: float | None, reason: str | None = None) -> Ceiling:
    """A ceiling that follows from counts alone, the same at any level of confidence."""
    return Ceiling((low, high), (low, high), reason, (low, high))


def prefill_ceiling(readings: Readings) -> Ceiling:
    """If prompt tokens cost no step time: the ceiling of everything that touches prefill."""
    reading = readings.get("decode_stretch_share")
    if reading is None:
        return Ceiling(reason="decode_stretch_share was not read")
    at_99, at_95 = _pair(reading.extra.get("ceiling_99")), _pair(reading.extra.get("ceiling_95"))
    if at_99 == UNKNOWN:
        return Ceiling(reason=reading.reason or reading.state)
    base = reading.extra.get("base_seconds")
    short = isinstance(base, int | float) and base < SHORT_STEP_SECONDS
    return Ceiling(at_99, at_95, reading.extra.get("why_no_upper"), at_99 if short else at_95)


def _pair(value: object) -> Range:
    if isinstance(value, list | tuple) and len(value) == 2:
        return value[0], value[1]
    return UNKNOWN


def if_twice_as_fast(ceiling: Range) -> Range:
    """2 / (1 + 1/c) at both ends: what is left when the time that the ceiling removes is halved instead."""
    low, high = ceiling
    return (None if low is None else 2 / (1 + 1 / low)), (None if high is None else 2 / (1 + 1 / high))


def decide(ceiling: Range, options: Options, *, needs_hold: bool = True) -> LeverVerdict:
    """Worth a test when even the low end is, not when not even the high end is, else undecided."""
    low, high = ceiling
    if high is not None and high < options.worth:
        return "not_worth_a_test"
    if needs_hold and low is not None and low >= options.worth:
        return "worth_a_test"
    return "undecided"


def times(number: float) -> str:
    """``1.6x``, ``15.6x``, ``120x``."""
    if number < 10:
        return f"{number:.2f}".rstrip("0").rstrip(".") + "x"
    return f"{number:.3g}x"


def range_words(pair: Range) -> str:
    """``1.5x to 3.4x``, ``at least 2x, no upper limit``, ``at most 1.04x``."""
    low, high = pair
    if low is None and high is None:
        return "not known"
    if high is None:
        assert low is not None
        return f"at least {times(low)}, no upper limit" if low > 1 else "no limit on this page"
    if low is None or low <= 1 or math.isclose(low, high):
        return f"at most {times(high)}"
    return f"{times(low)} to {times(high)}"


def prefill_words(ceiling: Ceiling, readings: Readings) -> str:
    """The range of free prefill in a few words, for a summary; the plain arithmetic where there is no range."""
    if ceiling.at_99 != UNKNOWN:
        return f"free prefill: {range_words(ceiling.shown)}"
    share = readings.value("prefill_share")
    if share is None or share >= 1:
        return "no ceiling"
    plain = f"free prefill {times(1 / (1 - share))}, prefill twice as fast {times(1 / (1 - share / 2))}"
    return f"no ceiling; plain arithmetic, which is neither end: {plain}"


def what_bounds(readings: Readings, ceiling: Ceiling) -> str:
    """What would settle an undecided prefill lever, cheapest first."""
    if ceiling.at_99 == UNKNOWN and "preempt" not in (ceiling.reason or ""):
        return "an A/B, or a page with gap and length histograms"
    steps: list[str] = []
    reading = readings.get("decode_stretch_share")
    if reading is not None and any("--budget" in caveat for caveat in reading.caveats):
        steps.append("--budget N")
    if reading is not None and reading.state == "invalid" and "preempt" in (reading.reason or ""):
        return "a window without preemptions, or an A/B"
    if ceiling.reason and "length of the window" in ceiling.reason:
        steps.append("--seconds N")
    if readings.window_kind != "series":
        steps.append("a series of scrapes")
    return ", ".join([*steps, "finer gap buckets, or an A/B"])


def prefill_elsewhere(readings: Readings) -> str | None:
    """Why no prefill lever is for this page: its prompts are prefilled on another one."""
    if readings.has_flag("decode_node"):
        return "a decode node: its prompts are prefilled elsewhere"
    return None


def none_gains(ceiling: Ceiling) -> str:
    """Why a prefill lever is not worth a test: the number that makes it useless."""
    return f"even free prefill would gain {range_words(ceiling.at_99)}"


def engine_of(readings: Readings) -> str:
    return readings.labels.get("engine") or ""


def number_setting(readings: Readings, name: str) -> float | None:
    """A numeric setting, where one is known."""
    setting = readings.settings.get(name)
    if setting is None or isinstance(setting.value, bool) or not isinstance(setting.value, int | float):
        return None
    return float(setting.value)


def tested_range(readings: Readings, names: Sequence[str]) -> str:
    """What was tried of this knob, as far as this report knows."""
    tested = readings.facts.get("tested_settings")
    values: list[float] = []
    if isinstance(tested, dict):
        values = sorted({float(v) for name in names for v in tested.get(name, ())})
    now = next((n for name in names if (n := number_setting(readings, name)) is not None), None)
    if len(values) < 2:
        return ""
    text = f"tested here: {values[0]:g} to {values[-1]:g}"
    if now is not None and max(values) <= now:
        text += "; that says nothing about raising it"
    elif now is not None and min(values) >= now:
        text += "; that says nothing about lowering it"
    return text


def build(
    lever: str,
    *,
    verdict: LeverVerdict,
    summary: str,
    ceiling: Ceiling | None = None,
    touches: Sequence[str] = (),
    costs: Sequence[str] = (),
    needs: Sequence[str] = (),
    settles: str = "",
    reason: str | None = None,
) -> Lever:
    """A lever from its ceiling; a missing end carries its reason."""
    found = ceiling or Ceiling()
    why = reason or found.reason
    if why is None and None in (*found.at_99, *found.at_95) and verdict != "not_applicable":
        why = "no limit can be read from this page"
    return Lever(
        lever=lever,
        verdict=verdict,
        summary=summary,
        ceiling_speedup=found.at_99,
        ceiling_speedup_95=found.at_95,
        if_twice_as_fast=if_twice_as_fast(found.at_99),
        reason=why,
        touches=tuple(touches),
        costs=tuple(costs),
        needs=tuple(needs),
        settles=settles,
    )


def not_applicable(lever: str, why: str) -> Lever:
    return build(lever, verdict="not_applicable", summary=why, reason=why)


def kv_peak(readings: Readings) -> float | None:
    """Highest KV use the pages show; None where the gauges read idle or there was one scrape only."""
    if readings.lifetime or readings.has_flag("gauges_stale"):
        return None
    peak = readings.value("kv_usage_peak")
    if readings.has_flag("log_only") and peak is not None and peak >= 0.5:
        # A log shows one moment in ten seconds and no preemption: with a queue, that does not clear the pool.
        waiting = readings.get("waiting_requests")
        if waiting is not None and (waiting.value or waiting.extra.get("max")):
            return None
    running = readings.get("running_requests")
    seen = running is not None and (bool(running.value) or bool(running.extra.get("max")) or bool(peak))
    return peak if seen and peak else None
