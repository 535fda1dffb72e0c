"""Run prefill and decode on different machines (disaggregation).

What it touches: prompts no longer share steps with decode, so gaps lose their stretch. It cannot gain more in request
service time than free prefill would, since each prompt is still computed once.

What it costs: more accelerators, a KV transfer per prompt, and two pages to audit instead of one.

When it is not worth a test: the ceiling is below --worth.
"""

from __future__ import annotations

from auditor.levers.ceilings import (
    PREFILL_NEEDS,
    build,
    decide,
    none_gains,
    not_applicable,
    prefill_ceiling,
    prefill_elsewhere,
    prefill_words,
    what_bounds,
)
from auditor.model import Lever, Options, Readings

ID = "prefill-decode-split"
TOUCHES = ("prefill_seconds", "decode_seconds", "itl_seconds")


def lever(readings: Readings, options: Options) -> Lever:
    if readings.has_flag("decode_node", "prefill_node"):
        return not_applicable(ID, prefill_elsewhere(readings) or "a prefill node: decode already runs elsewhere")
    ceiling = prefill_ceiling(readings)
    word = decide(ceiling.at_99, options)
    return build(
        ID,
        touches=TOUCHES,
        verdict=word,
        summary=none_gains(ceiling)
        if word == "not_worth_a_test"
        else f"gains less than free prefill and needs more accelerators; {prefill_words(ceiling, readings)}",
        ceiling=ceiling,
        costs=("a second set of accelerators", "a KV transfer for every prompt"),
        needs=PREFILL_NEEDS,
        settles="the cheaper prefill levers first; then a trial pair on a copy of the traffic"
        if word == "worth_a_test"
        else what_bounds(readings, ceiling),
    )
