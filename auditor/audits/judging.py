"""How every audit decides and words its verdict: interval against threshold, too little evidence, severity."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model import Options, Reading, Readings, Severity, Verdict, VerdictWord

GRAVE = frozenset({"engine-liveness", "metrics-integrity", "length-truncation", "preemption", "kv-pool"})
"""Audits whose broken premise is a problem; the others' is a warning."""


def severity_of(audit: str, verdict: VerdictWord) -> Severity:
    if verdict != "broken":
        return "info"
    return "problem" if audit in GRAVE else "warning"


def judge(
    reading: Reading | None,
    options: Options,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    fact: bool = False,
) -> tuple[VerdictWord, str]:
    """Hold a reading's interval or limits against a threshold.

    Returns the verdict and, where undecided, why. ``fact`` lets ``broken`` stand on few events.
    """
    if reading is None:
        return "undecided", "it was not read"
    if not reading.has_value and reading.state != "bounded":
        return "undecided", reading.reason or reading.state
    low, high = reading.limits()
    low = float("-inf") if low is None else low
    high = float("inf") if high is None else high
    events = reading.count if reading.count is not None else float("inf")
    enough = events >= options.min_requests
    if at_most is not None:
        good, bad = high <= at_most, low > at_most
        limit = f"at most {at_most:g}"
    elif at_least is not None:
        good, bad = low >= at_least, high < at_least
        limit = f"at least {at_least:g}"
    else:
        raise ValueError("one of at_most, at_least is needed")
    if bad and (enough or fact):
        return "broken", ""
    if good and enough:
        return "holds", ""
    if not enough:
        return "undecided", f"only {events:g} events behind it, {options.min_requests} needed"
    if reading.state == "bounded":
        return (
            "undecided",
            f"only known to lie between {shown(reading.low)} and {shown(reading.high)}; {limit} is inside",
        )
    return "undecided", f"{limit} lies inside the interval {shown(low)} .. {shown(high)}"


def shown(number: float | None) -> str:
    """A number for a sentence: whole counts whole, else three significant digits; thousands parted, no exponent."""
    if number is None or number in (float("inf"), float("-inf")):
        return "no limit"
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    if 100 <= abs(number) < 1e15:
        digits = len(str(int(abs(number))))
        return f"{round(number, 3 - digits):,.0f}"
    return f"{number:.3g}"


def percent(number: float | None) -> str:
    """A share as a percentage with at most one decimal."""
    if number is None:
        return "no limit"
    value = number * 100
    return (
        f"{value:.0f} %"
        if value == 0 or abs(value) >= 99.95 or float(f"{value:.1f}").is_integer()
        else f"{value:.1f} %"
    )


def found_words(reading: Reading | None) -> str:
    """``0.134 (0.104 .. 0.164, n 401)``: value, interval and events; or the state and its reason."""
    if reading is None:
        return "not read"
    if reading.state == "bounded":
        n = "" if reading.count is None else f", n {shown(reading.count)}"
        return f"between {shown(reading.low)} and {shown(reading.high)} ({reading.state}{n})"
    if reading.value is None:
        return f"{reading.state}: {reading.reason or ''}".rstrip(": ")
    inside = []
    if reading.low is not None or reading.high is not None:
        inside.append(f"{shown(reading.low)} .. {shown(reading.high)}")
    if reading.count is not None:
        inside.append(f"n {shown(reading.count)}")
    return shown(reading.value) + (f" ({', '.join(inside)})" if inside else "")


def interval_words(reading: Reading, *, share: bool = True, of: str = "") -> str:
    """``(64..73 %, 280 of 405)`` or ``(10..16 %, n 401)`` for a screen."""
    parts = []
    if reading.low is not None and reading.high is not None and reading.has_value:
        if share:
            parts.append(f"{_bare(reading.low)}..{percent(reading.high)}")
        else:
            parts.append(f"{shown(reading.low)}..{shown(reading.high)}")
    if of:
        parts.append(of)
    elif reading.count is not None:
        parts.append(f"n {shown(reading.count)}")
    return f"({', '.join(parts)})" if parts else ""


def _bare(number: float) -> str:
    return percent(number).removesuffix(" %")


def verdict(
    audit: str,
    readings: Readings,
    *,
    premise: str,
    question: str,
    word: VerdictWord,
    summary: str,
    expected: str,
    found: str,
    uses: Sequence[str],
    flags: Sequence[str] = (),
    next: Sequence[str] = (),
) -> Verdict:
    """Put a verdict together; of ``flags`` only those that are set are kept."""
    return Verdict(
        audit=audit,
        premise=premise,
        question=question,
        verdict=word,
        severity=severity_of(audit, word),
        summary=summary,
        expected=expected,
        found=found,
        flags=tuple(f for f in flags if f in readings.flags),
        readings=tuple(uses),
        next=tuple(next),
    )
