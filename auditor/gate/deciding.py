"""One condition against one number: the interval decides, and a number without one is judged by value and events.

Every function returns an :class:`Outcome`: the word, what was found, and, where nothing is decided, why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from auditor.gate.amounts import amount_words
from auditor.gate.baselines import Baseline
from auditor.gate.model import At, Limits, ReadingName, Regression
from auditor.gate.noise import FEWEST_REPEATS, Change, change_against, runs_needed
from auditor.model import Reading

Word = Literal["holds", "broken", "undecided"]
QUANTILES = ("p50", "p90", "p99")
MORE = f"give at least {FEWEST_REPEATS} baseline reports"


@dataclass(frozen=True)
class Outcome:
    word: Word
    found: str
    reason: str | None = None
    """Why nothing is decided."""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Number:
    """What a condition is held against. ``low`` and ``high`` are None where that side has no limit."""

    value: float | None
    low: float | None
    high: float | None
    events: float | None
    has_interval: bool
    is_blind: bool = False


def number_of(reading: Reading, at: At | None) -> Number | str:
    """The number to judge, or why there is none."""
    if reading.state == "partial":
        return "it covers only a part of the window" + (f" ({reading.caveats[-1]})" if reading.caveats else "")
    if not reading.has_value and reading.state != "bounded":
        return reading.reason or reading.state.replace("_", " ")
    if at in QUANTILES:
        place = reading.extra.get(at)
        if not isinstance(place, Mapping):
            return f"it has no {at} here"
        low, high = place.get("interval") or (place.get("low"), place.get("high"))
        return Number(place.get("value"), low, high, reading.count, True, bool(reading.extra.get("blind")))
    low, high = reading.low, reading.high
    if low is None and high is None and reading.value is not None:
        return Number(reading.value, reading.value, reading.value, reading.count, False)
    return Number(reading.value, low, high, reading.count, True)


def decide_limits(
    reading: Reading, name: ReadingName, limits: Limits, at: At | None, *, min_requests: int, traffic: float | None
) -> Outcome:
    """Hold a reading against ``at_most``, ``at_least`` or ``between``.

    ``traffic`` is how many requests the window saw. It is the evidence behind totals and states, and caps that of
    numbers which have no interval and count tokens.
    """
    number = number_of(reading, at)
    if isinstance(number, str):
        return Outcome("undecided", _state_words(reading), number)
    flags = ("blind_histogram",) if number.is_blind else ()
    found = number_words(number, name)
    low = -math.inf if number.low is None else number.low
    high = math.inf if number.high is None else number.high
    # Observations of a bucket lie above its lower edge, so a percentile whose low end is the limit itself is past it.
    is_past = low >= limits.high if at in QUANTILES and low > 0 else low > limits.high
    wrong = is_past or high < limits.low
    right = low >= limits.low and high <= limits.high
    events = _events(number, name, traffic)
    enough = events >= min_requests
    if wrong and (enough or name.is_total):
        return Outcome("broken", found, flags=flags)
    if right and enough:
        return Outcome("holds", found, flags=flags)
    if not enough:
        return Outcome("undecided", found, f"{events:,.0f} events behind it, {min_requests} needed", flags)
    edge = limits.high if low <= limits.high < high else limits.low
    where = "limits" if reading.state == "bounded" else ("buckets" if at in QUANTILES else "interval")
    return Outcome("undecided", found, f"{amount_words(edge, name)} lies inside its {where}", flags)


def _events(number: Number, name: ReadingName, traffic: float | None) -> float:
    if name.is_total:
        return traffic if traffic is not None else 0.0
    events = number.events if number.events is not None else (traffic or 0.0)
    if not number.has_interval and traffic is not None:
        events = min(events, traffic)
    return events


def decide_regression(
    reading: Reading,
    name: ReadingName,
    regression: Regression,
    at: At | None,
    baseline: Baseline,
    *,
    min_requests: int,
    traffic: float | None,
) -> Outcome:
    """Hold a reading against its own baseline, with the noise that was measured."""
    number = number_of(reading, at)
    if isinstance(number, str):
        return Outcome("undecided", _state_words(reading), number)
    flags = ("blind_histogram",) if number.is_blind else ()
    found = number_words(number, name)
    if number.value is None:
        return Outcome("undecided", found, "it has limits and no value, so no change can be told", flags)
    if baseline.value is None:
        return Outcome("undecided", found, baseline.reason or "it has no baseline", flags)
    found = f"{found}, baseline {amount_words(baseline.value, name)}"
    assert name.better is not None
    if baseline.value == 0:
        if name.better == "higher" or number.value == 0:
            return _with_events(Outcome("holds", found, flags=flags), number, name, min_requests, traffic)
        return Outcome("undecided", found, "its baseline is 0, and a share of 0 is nothing; use at_most", flags)
    change = change_against(
        number.value,
        baseline.value,
        better=name.better,
        current_limits=(number.low, number.high) if number.has_interval else (None, None),
        baseline_limits=(baseline.low, baseline.high),
        spread_of_one=baseline.noise,
    )
    if change is None:
        return Outcome("undecided", found, "it or its baseline is below 0", flags)
    found = f"{found}: {change_words(change)}"
    if number.is_blind:
        return Outcome("undecided", found, "all of it lies in one bucket, which shows no change; gate the mean", flags)
    if change.noise == "unknown":
        return Outcome(
            "undecided", found, f"its noise is unknown: give at least {FEWEST_REPEATS} baseline reports", flags
        )
    if at in QUANTILES and change.noise != "repeats":
        return Outcome("undecided", found, f"the noise of a percentile is known from repeats only: {MORE}", flags)
    assert change.low is not None
    assert change.high is not None
    if change.low > regression.share:
        return _with_events(Outcome("broken", found, flags=flags), number, name, min_requests, traffic)
    if change.high <= regression.share:
        return _with_events(Outcome("holds", found, flags=flags), number, name, min_requests, traffic)
    return Outcome("undecided", found, _too_noisy(change, regression, baseline), flags)


def _with_events(outcome: Outcome, number: Number, name: ReadingName, needed: int, traffic: float | None) -> Outcome:
    events = _events(number, name, traffic)
    if events >= needed or (outcome.word == "broken" and name.is_total):
        return outcome
    return Outcome("undecided", outcome.found, f"{events:,.0f} events behind it, {needed} needed", outcome.flags)


def _too_noisy(change: Change, regression: Regression, baseline: Baseline) -> str:
    text = f"{regression.share * 100:g} % lies inside the noise of the change"
    if baseline.noise is None:
        return text + "; a longer window or repeated baselines narrow it"
    needed = runs_needed(baseline.noise, change.worse - regression.share)
    return text + (f"; {needed} runs would tell" if needed and needed <= 1000 else "")


def change_words(change: Change) -> str:
    """``24.6 % worse (20.8 .. 28.4 %, noise from repeats)``."""
    direction = "worse" if change.worse >= 0 else "better"
    text = f"{abs(change.worse) * 100:.1f} % {direction}"
    if change.low is None or change.high is None:
        return f"{text} (noise unknown)"
    high = "no limit" if math.isinf(change.high) else f"{change.high * 100:.1f} %"
    return f"{text} ({change.low * 100:.1f} .. {high} worse, noise from {change.noise})"


def number_words(number: Number, name: ReadingName) -> str:
    """``36.8 % (32.9 % .. 40.9 %, n 541)``, ``between 0 % and 5 % (n 300)``, ``12 requests``."""
    n = "" if number.events is None else f"n {number.events:,.0f}"
    low = "no limit" if number.low is None else amount_words(number.low, name)
    high = "no limit" if number.high is None else amount_words(number.high, name)
    if number.value is None:
        return f"between {low} and {high}" + (f" ({n})" if n else "")
    inside = [f"{low} .. {high}"] if number.has_interval else []
    inside += [n] if n else []
    return amount_words(number.value, name) + (f" ({', '.join(inside)})" if inside else "")


def _state_words(reading: Reading) -> str:
    if reading.value is not None:
        return f"{reading.value:.4g} {reading.unit} (partial)".replace(" ratio", "")
    return reading.state.replace("_", " ")
