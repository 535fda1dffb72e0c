"""Shorter answers: max_tokens, and whether the model reasons aloud.

What it touches: decode time, and the batch that everybody shares. A reasoning mode multiplies output, so this belongs
to the first questions on a page where decode dominates.

What it costs: answers. A lower max_tokens cuts them; switching reasoning off changes them. Where answers are already
cut off, their real length is hidden and every figure here is too small.

When it is not worth a test: decode is next to none of the request time.
"""

from __future__ import annotations

from auditor.levers.ceilings import build, decide, exact, not_applicable, times
from auditor.model import Lever, Options, Readings

ID = "output-tokens"
COSTS = ("a lower max_tokens cuts answers", "switching reasoning off changes them")
NEEDS = ("decode_share", "length_share")
TOUCHES = ("decode_seconds", "generation_tokens", "running_requests")


def lever(readings: Readings, options: Options) -> Lever:
    if readings.has_flag("prefill_node"):
        return not_applicable(ID, "a prefill node: decode runs elsewhere")
    share = readings.get("decode_share")
    low, high = (None, None) if share is None else share.limits()
    if share is None or (share.value is None and (low is None or high is None)):
        return build(
            ID,
            touches=TOUCHES,
            verdict="undecided",
            summary="the page does not say what share of time decode takes",
            costs=COSTS,
            needs=NEEDS,
            settles="a window with finished requests",
            reason=(share.reason if share is not None else None) or "decode time unknown",
        )
    least, most = (share.value, share.value) if share.value is not None else (low or 0.0, high or 0.0)
    plain = []
    mean, cut = readings.value("output_length_tokens"), readings.value("length_share")
    if mean is not None:
        plain.append(f"mean {mean:.0f} tokens")
    if cut is not None and cut >= 0.1:
        plain.append(f"{cut:.0%} are cut, so their real length is hidden")
    if most >= 0.5:
        plain.insert(0, "ask this first: a reasoning mode multiplies output")
    text = "; ".join(
        [f"decode is {_both(f'{least:.1%}', f'{most:.1%}')} of request time ({_half(least, most)})", *plain]
    )
    return build(
        ID,
        touches=TOUCHES,
        verdict=decide((1.0, None), options),
        summary=text,
        ceiling=exact(1.0, None, "shorter answers also thin out the batch: no limit on this page"),
        costs=COSTS,
        needs=NEEDS,
        settles="the same requests with reasoning off",
    )


def _both(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _half(least: float, most: float) -> str:
    """What answers of half the length save by plain arithmetic, which neither thins the batch nor shortens prefill."""
    return f"half as long: {_both(times(1 / (1 - least / 2)), times(1 / (1 - most / 2)))}, plain arithmetic"
