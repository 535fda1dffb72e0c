"""Raise or lower the prompt tokens of a step (max_num_batched_tokens, chunked-prefill-size).

What it touches: how much prefill one step holds, and so how long a step with prefill takes. It moves chunks about, so
it cannot gain more than free prefill would. The chunk that counts is min(budget, long-prefill threshold).

What it costs: it trades the time to first token (larger is better) against everybody's gap between tokens (smaller is
better). A larger budget is profiled at boot and takes memory from the KV pool; with speculation it can lower
acceptance. The smallest budget that does not starve prefill is the one to look for.

When it is not worth a test: no step used the whole budget; one prompt at a time and a threshold below the budget; or
the ceiling is below --worth. A knob that was only ever turned down says nothing about turning it up.
"""

from __future__ import annotations

from auditor.levers.ceilings import (
    PREFILL_NEEDS,
    build,
    decide,
    exact,
    none_gains,
    not_applicable,
    number_setting,
    prefill_ceiling,
    prefill_elsewhere,
    prefill_words,
    tested_range,
    what_bounds,
)
from auditor.model import Lever, Options, Readings

ID = "batched-tokens"
COSTS = (
    "larger: shorter time to first token, longer gaps for everybody, less KV pool; smaller: the reverse",
    "with speculation a larger budget can lower acceptance",
)
ALONE_COST = (
    "prefill runs alone and freezes every stream: a prefill-decode interval or mixed chunking touches that, "
    "and mixed chunking is reported to do nothing together with speculation"
)
TOUCHES = ("prefill_seconds", "decode_seconds", "ttft_seconds", "itl_seconds", "kv_pool_tokens")
SETTLES = "an A/B of two budgets on the same requests, both directions, watching ttft and gaps"


def _costs(readings: Readings) -> tuple[str, ...]:
    """The costs in words, with what the boots at hand show of them."""
    seen = readings.facts.get("boot_effects") or ()
    reading = readings.get("decode_stretch_share")
    alone = reading is not None and reading.extra.get("mechanism") == "frozen streams"
    return (*COSTS, *((ALONE_COST,) if alone else ()), *(str(text) for text in seen if str(text).startswith("budget ")))


def lever(readings: Readings, options: Options) -> Lever:
    elsewhere = prefill_elsewhere(readings)
    if elsewhere is not None:
        return not_applicable(ID, elsewhere)
    budget, threshold = number_setting(readings, "budget"), number_setting(readings, "threshold")
    seats = number_setting(readings, "seats")
    capped = bool(threshold) and budget is not None and threshold is not None and threshold < budget
    if capped and seats == 1:
        return build(
            ID,
            verdict="not_worth_a_test",
            summary=f"one seat, its chunk capped at {threshold:g} by the threshold: a larger budget only costs KV pool",
            ceiling=exact(1.0, 1.0),
            touches=TOUCHES,
            costs=_costs(readings),
        )
    ceiling = prefill_ceiling(readings)
    word = decide(ceiling.at_99, options)
    notes = [none_gains(ceiling)] if word == "not_worth_a_test" else []
    full = readings.get("full_step_share")
    if full is not None and full.high is not None and full.high < 0.01 and budget is not None:
        notes.append(f"at most {full.high:.1%} of steps used the whole budget: not higher, if anything lower")
    elif capped:
        notes.append(f"chunks of one prompt stay at {threshold:g} (threshold) whatever the budget")
    tried = tested_range(readings, ("budget",))
    if tried:
        notes.append(tried)
    if word != "not_worth_a_test":
        notes.append("the smallest budget that does not starve prefill wins")
        notes.append(prefill_words(ceiling, readings))
    return build(
        ID,
        verdict=word,
        summary="; ".join(notes),
        ceiling=ceiling,
        touches=TOUCHES,
        costs=_costs(readings),
        needs=(*PREFILL_NEEDS, "full_step_share"),
        settles=SETTLES if word == "worth_a_test" else what_bounds(readings, ceiling),
    )
