"""Amounts as people write them (``2s``, ``150ms``, ``40%``, ``8k``), held against the unit of a reading."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from auditor.gate.model import Limits, ReadingName, Regression

AMOUNT = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\s*(?:%|[A-Za-z]+)?"
"""The pattern of an amount, shared with the JSON Schema."""

_AMOUNT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(%|[A-Za-z]+)?\s*")
_TIME = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_COUNT = {"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "g": 1e9, "G": 1e9}
_PART = {"%": 0.01}


class AmountError(ValueError):
    """A sentence that says what is wrong with an amount and how to write it."""


def read_amount(text: str, reading: ReadingName) -> float:
    """The amount in the reading's own unit.

    Raises:
        AmountError: no number, a unit that this reading does not have, or a value it cannot take.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise AmountError(f"{text!r} is no amount; write {_example(reading)}")
    factors = _factors(reading)
    unit = match[2] or ""
    if unit and unit not in factors:
        raise AmountError(f"{text!r}: {reading.name} is in {_unit_words(reading)}; write {_example(reading)}")
    value = float(match[1]) * (factors[unit] if unit else 1.0)
    if not math.isfinite(value):
        raise AmountError(f"{text!r} is too large to be meant")
    if value < 0 and not reading.is_net:
        raise AmountError(f"{text!r}: {reading.name} is never below 0; write {_example(reading)}")
    if reading.is_share and value > 1:
        raise AmountError(f"{text!r}: {reading.name} is a share, never above 1; write {_example(reading)}")
    return value


def read_share(text: str, what: str) -> float:
    """A share of something, between 0 and 1, written ``10%`` or ``0.1``.

    Raises:
        AmountError: neither of them.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None or (match[2] or "%") != "%":
        raise AmountError(f"{text!r} is no {what}; write 10% or 0.1")
    value = float(match[1]) * (0.01 if match[2] else 1.0)
    if not 0 <= value <= 1:
        raise AmountError(f"{text!r}: {what} lies between 0 and 100 %; write 10% or 0.1")
    return value


def _factors(reading: ReadingName) -> Mapping[str, float]:
    if reading.unit == "seconds":
        return _TIME
    if reading.unit == "milliseconds":
        return {unit: factor * 1000 for unit, factor in _TIME.items()}
    if reading.unit == "ratio":
        return _PART
    if " per " in reading.unit and not reading.unit.endswith("second"):
        return {**_PART, **_COUNT}
    return _COUNT


def _unit_words(reading: ReadingName) -> str:
    return "shares of 1" if reading.is_share else reading.unit


def _example(reading: ReadingName) -> str:
    if reading.unit == "seconds":
        return "2s, 150ms or a number of seconds"
    if reading.unit == "milliseconds":
        return "150ms, 2s or a number of milliseconds"
    if reading.unit == "ratio":
        return "40% or 0.4"
    return f"8k or a number ({reading.unit})"


def amount_words(value: float, reading: ReadingName) -> str:
    """``10 %``, ``150 ms``, ``8,000 tokens``: for expected and found."""
    if reading.is_share:
        return f"{_plain(value * 100)} %"
    if reading.unit == "seconds":
        return f"{_plain(value * 1000)} ms" if 0 < abs(value) < 1 else f"{_plain(value)} s"
    if reading.unit == "milliseconds":
        return f"{_plain(value)} ms"
    return _plain(value) if reading.unit == "ratio" else f"{_plain(value)} {reading.unit}"


def condition_words(condition: Limits | Regression, reading: ReadingName) -> str:
    """``at most 10 %``, ``between 1 s and 2 s``, ``at most 10 % worse than the baseline``."""
    if isinstance(condition, Regression):
        return f"at most {condition.share * 100:g} % worse than the baseline"
    if condition.low == float("-inf"):
        return f"at most {amount_words(condition.high, reading)}"
    if condition.high == float("inf"):
        return f"at least {amount_words(condition.low, reading)}"
    return f"between {amount_words(condition.low, reading)} and {amount_words(condition.high, reading)}"


def _plain(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
