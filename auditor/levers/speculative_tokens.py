"""Draft more, fewer or no tokens per step (speculative decoding).

What it touches: how many steps an answer takes. What it gains depends on the batch: at small batches verifying drafts
is nearly free, at large ones every rejected draft is paid for, so the sign can turn.

What it costs: each drafted token takes a place in the step budget. A larger step budget can lower acceptance.
Acceptance falls with the draft length, so it is never compared at different lengths: tokens per draft step is.

When it is not worth a test: never said from one page; only an A/B at the usual batch size tells.
"""

from __future__ import annotations

from auditor.levers.ceilings import build, not_applicable, number_setting
from auditor.model import Lever, Options, Readings

ID = "speculative-tokens"
COSTS = ("every drafted token takes a place in the step", "rejected drafts cost more the larger the batch")
NEEDS = ("tokens_per_draft_step", "kept_share_of_verified")
PAYS = 1.5
TOUCHES = ("decode_seconds", "tokens_per_output_event")


def lever(readings: Readings, options: Options) -> Lever:
    if readings.has_flag("prefill_node"):
        return not_applicable(ID, "a prefill node: decode runs elsewhere")
    tokens, kept = readings.value("tokens_per_draft_step"), readings.value("kept_share_of_verified")
    running = readings.get("running_requests")
    batch = running.extra.get("mean") if running is not None else None
    with_batch = f" at {batch:.3g} running" if isinstance(batch, int | float) else ""
    if tokens is None:
        reading = readings.get("tokens_per_draft_step")
        off = reading is None or reading.state == "not_exported"
        text = "no drafter runs" if off else "no draft step in the window"
        if readings.has_flag("log_only"):
            drafts = number_setting(readings, "speculative_tokens")
            text = "no line shows what a drafter gains" if drafts != 0 else "no drafter runs, by the boot log"
        return build(
            ID,
            touches=TOUCHES,
            verdict="undecided",
            summary=f"{text}{with_batch}; what it would gain depends on acceptance and batch size",
            costs=COSTS,
            needs=NEEDS,
            settles="a trial at the usual batch size",
            reason="not known before a drafter has run",
        )
    text = f"{tokens:.3g} tokens per draft step{with_batch}"
    if kept is not None:
        text += f", {kept:.0%} of verified positions kept"
    text += "; below 1.5, try fewer or none" if tokens < PAYS else "; whether that pays depends on the batch size"
    return build(
        ID,
        touches=TOUCHES,
        verdict="undecided",
        summary=text,
        costs=COSTS,
        needs=NEEDS,
        settles="an A/B with fewer draft tokens and with none",
        reason="the cost of a verified token is on no page",
    )
