"""Cap one prompt's share of a step (long_prefill_token_threshold; 0 is off).

What it touches: the chunk that counts is min(budget, threshold). A cap leaves room for other prompts and shortens the
steps that long prompts stretch. It moves chunks about, so it cannot gain more than free prefill would.

What it costs: long prompts take more steps, so their first token comes later. A threshold above the context is refused
at boot. SGLang has no such setting.

When it is not worth a test: the ceiling is below --worth.
"""

from __future__ import annotations

from auditor.levers.ceilings import (
    PREFILL_NEEDS,
    build,
    decide,
    engine_of,
    none_gains,
    not_applicable,
    number_setting,
    prefill_ceiling,
    prefill_elsewhere,
    prefill_words,
    what_bounds,
)
from auditor.model import Lever, Options, Readings

ID = "long-prefill-threshold"
HAVE_IT = frozenset({"vllm"})
COSTS = (
    "long prompts take more steps, so their first token comes later",
    "a threshold above the context is refused at boot",
)
TOUCHES = ("prefill_seconds", "decode_seconds", "itl_seconds")


def lever(readings: Readings, options: Options) -> Lever:
    engine = engine_of(readings)
    if engine not in HAVE_IT:
        return not_applicable(ID, f"{engine or 'this engine'} has no such setting")
    elsewhere = prefill_elsewhere(readings)
    if elsewhere is not None:
        return not_applicable(ID, elsewhere)
    budget, threshold = number_setting(readings, "budget"), number_setting(readings, "threshold")
    ceiling = prefill_ceiling(readings)
    word = decide(ceiling.at_99, options)
    if word == "not_worth_a_test":
        text = none_gains(ceiling)
    elif threshold and budget is not None:
        text = f"a chunk is min({budget:g}, {threshold:g}) = {min(budget, threshold):g} now"
    else:
        text = "caps what one long prompt takes of a step"
    if word != "not_worth_a_test":
        text += f"; {prefill_words(ceiling, readings)}"
    return build(
        ID,
        touches=TOUCHES,
        verdict=word,
        summary=text,
        ceiling=ceiling,
        costs=COSTS,
        needs=PREFILL_NEEDS,
        settles="an A/B with a threshold of a quarter of the budget, watching gaps and the ttft of long prompts"
        if word == "worth_a_test"
        else what_bounds(readings, ceiling),
    )
