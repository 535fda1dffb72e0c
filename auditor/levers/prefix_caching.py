"""Switch prefix caching on, or repair reuse where it is on.

What it touches: prompt tokens that were computed before need not be computed again. Its ceiling is that of free
prefill, since a hit saves the tokens of a prompt and the steps of everybody beside it, and not more.

What it costs: next to nothing where prompts share a beginning; a cache that never hits costs a little bookkeeping.
A hit share is not a speed-up: 94.6 % of hits bought 6 % where prefill was a small part of the time.

When it is not worth a test: the ceiling is below --worth, or no prompt is as long as one block.
"""

from __future__ import annotations

from auditor.levers.ceilings import (
    PREFILL_NEEDS,
    build,
    decide,
    exact,
    none_gains,
    not_applicable,
    prefill_ceiling,
    prefill_elsewhere,
    prefill_words,
    what_bounds,
)
from auditor.model import Lever, Options, Readings

ID = "prefix-caching"
COSTS = ("memory is shared with running requests: cached blocks are evicted first",)
TOUCHES = ("computed_prompt_tokens", "prefill_seconds", "decode_seconds")


def lever(readings: Readings, options: Options) -> Lever:
    elsewhere = prefill_elsewhere(readings)
    if elsewhere is not None:
        return not_applicable(ID, elsewhere)
    below = readings.get("below_block_share")
    if below is not None and below.limits()[0] is not None and (below.limits()[0] or 0.0) >= 1.0:
        block = readings.value("block_size_tokens")
        return build(
            ID,
            touches=TOUCHES,
            verdict="not_worth_a_test",
            summary="every prompt is shorter than one block" + ("" if block is None else f" of {block:g} tokens"),
            ceiling=exact(1.0, 1.0),
            costs=COSTS,
            needs=("below_block_share",),
        )
    ceiling = prefill_ceiling(readings)
    word = decide(ceiling.at_99, options)
    return build(
        ID,
        touches=TOUCHES,
        verdict=word,
        summary=f"{none_gains(ceiling)}; {_action(readings)}"
        if word == "not_worth_a_test"
        else f"{_action(readings)}; {prefill_words(ceiling, readings)}",
        ceiling=ceiling,
        costs=COSTS,
        needs=(*PREFILL_NEEDS, "prefix_hit_share"),
        settles=_settles(readings) if word == "worth_a_test" else what_bounds(readings, ceiling),
    )


def _is_on(readings: Readings) -> bool | None:
    setting = readings.settings.get("prefix_caching")
    if readings.has_flag("cache_off"):
        return False
    if setting is not None and isinstance(setting.value, bool):
        return setting.value
    share = readings.value("prefix_hit_share")
    return True if share else None


def _action(readings: Readings) -> str:
    on, share = _is_on(readings), readings.value("prefix_hit_share")
    if on is False:
        return "off: switch it on, as far as prompts share their beginning"
    if readings.has_flag("nothing_shared"):
        return "on, and no two prompts share a block: look at what differs at their start"
    if readings.has_flag("below_block_floor"):
        return "on, but most prompts are shorter than one block"
    if readings.has_flag("lookups_contradict_computed"):
        return "on, look-ups claim hits and all tokens were computed: repair reuse"
    if on is None:
        return "on or off is not on the page"
    if share is None:
        return "on; repair reuse"
    if share > 0.9:
        return f"on, {share:.1%} of prompt tokens hit: little reuse left to repair (hits are no speed-up)"
    return f"on, {share:.1%} of prompt tokens hit: repair reuse"


def _settles(readings: Readings) -> str:
    if _is_on(readings) is False:
        return "one boot with caching on, the same requests"
    return "compare the first tokens of prompts that should share them; an A/B with a fixed system prompt"
