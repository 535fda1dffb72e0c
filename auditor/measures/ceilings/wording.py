"""The sentence that a report prints about free prefill."""

from __future__ import annotations

from auditor.measures.ceilings.ranges import Ceiling, Range

SHORT_STEP_SECONDS = 0.004
"""Below this a step is mostly host work, for which the 95 % range was tried less: the 99 % one is printed."""


def shown_range(c: Ceiling) -> tuple[Range, str]:
    """The range for a sentence and its name: 95 % as a rule, 99 % where steps are very short."""
    return (c.at_99, "99 %") if c.base_seconds < SHORT_STEP_SECONDS else (c.at_95, "95 %")


def times(number: float) -> str:
    """``1.04x``, ``1.6x``, ``15.6x``, ``120x``."""
    if number < 10:
        return f"{number:.2f}".rstrip("0").rstrip(".") + "x"
    return f"{number:.3g}x"


def sentence(c: Ceiling, plain: float | None, *, prefill_alone: bool, budget_known: bool) -> str:
    """Both ends, or the low one with the reason why there is no other; the plain arithmetic only where it misleads."""
    (low, high), width = shown_range(c)
    if high is None:
        why = c.why_no_upper or "the page does not bound it"
        steps = "faster scrapes, finer buckets, or an A/B"
        steps = steps if budget_known else f"--budget, {steps}"
        start = f"At least {times(low)}; no" if low > 1.005 else "No"
        return (
            f"{start} upper limit of what free prefill would gain can be read from this page, because {why}. "
            f"To bound it: {steps}."
        )
    faster = f"{times(low)} to {times(high)} faster" if low > 1.005 else f"at most {times(high)} faster"
    text = (
        f"If prefill cost nothing, requests would be served {faster} "
        f"({width} range, calibrated on simulated schedulers, not on servers)."
    )
    if plain is not None and plain < low:
        inside = "waits for" if prefill_alone else "contains"
        text += f" The plain {times(plain)} is too low: decode time {inside} other requests' prefill."
    elif plain is not None and plain > high:
        text += f" The plain {times(plain)} is too high: a first token still needs its step."
    return text
