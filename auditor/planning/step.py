"""What one engine step holds, and what that makes of a prompt's way through the engine.

vLLM fills a step with decode first: one token a seated request, 1 + K with K draft tokens. What is left
of the budget (max_num_batched_tokens) goes to prefill chunks, and a long-prefill threshold caps one
prompt's share (vllm/v1/core/sched/scheduler.py). Decode never stops, but everyone's next token waits for
the whole step. SGLang runs a ready prefill batch alone: every stream stands still until the prompt's last
chunk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from auditor.model import UsageError

STARVED_BELOW = 0.5
"""Without a demand to compare with, prefill starves where decode takes more than half of the step."""


@dataclass(frozen=True)
class StepQuestion:
    """What is asked. ``threshold`` 0 is off. ``ms_per_prompt_token`` is engine time for one prompt token.

    ``output_tokens`` is the mean answer; with ``prompt`` it gives the demand that a budget must meet.
    ``cost_is_upper`` says that the cost was read from a page, where requests that share steps inflate it.
    """

    seats: int
    draft_tokens: int = 0
    prompt: int | None = None
    threshold: int = 0
    context: int | None = None
    block_size: int | None = None
    ms_per_prompt_token: float | None = None
    output_tokens: int | None = None
    engine: Literal["vllm", "sglang"] = "vllm"
    cost_is_upper: bool = False

    def __post_init__(self) -> None:
        least = {"seats": 1, "draft_tokens": 0, "threshold": 0}
        for name in (
            "seats",
            "draft_tokens",
            "threshold",
            "prompt",
            "context",
            "block_size",
            "output_tokens",
        ):
            value = getattr(self, name)
            if value is not None and value < least.get(name, 1):
                raise UsageError(f"{_option(name)} {value}: must be at least {least.get(name, 1)}")
        cost = self.ms_per_prompt_token
        if cost is not None and not (math.isfinite(cost) and cost > 0):
            raise UsageError(f"--ms-per-prompt-token {cost}: must be a number above 0")
        if self.context is not None and self.threshold > self.context:
            raise UsageError(
                f"--threshold {self.threshold:,} is above the context of {self.context:,}: the engine "
                "refuses this, for it could never cut anything. 0 switches the threshold off"
            )
        if self.context is not None and self.prompt is not None and self.prompt > self.context:
            raise UsageError(f"--prompt {self.prompt:,} is longer than the context of {self.context:,}")
        if self.engine == "sglang" and self.threshold:
            raise UsageError("--threshold: SGLang has no limit on one request's share of a prefill batch")

    @property
    def decode_tokens(self) -> int:
        """Tokens that decode takes of every step with all seats taken: seats x (1 + K)."""
        return self.seats * (1 + self.draft_tokens)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class StepRow:
    """One budget. Tokens and steps are exact; seconds are None without a cost per token.

    ``prompt_steps_loaded`` is None where decode leaves nothing for prefill: the prompt never ends.
    ``gap_seconds`` is the wait that every stream sees while the prompt is computed; ``freeze_seconds`` how
    long all streams would stand still on an engine that runs prefill first (SGLang).
    """

    budget: int
    decode_tokens_per_step: int
    prefill_tokens_per_step: int
    chunk_tokens: int
    prompt_steps_alone: int | None
    prompt_steps_loaded: int | None
    ttft_alone_seconds: float | None
    ttft_loaded_seconds: float | None
    gap_seconds: float | None
    freeze_seconds: float | None
    reachable_hit_tokens: int | None
    starves_prefill: bool
    smallest_that_does_not_starve: bool = False
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def plan_step(question: StepQuestion, budget: int) -> StepRow:
    """What a step of ``budget`` tokens holds. Raises UsageError where decode alone does not fit into it."""
    decode = question.decode_tokens
    if budget < 1:
        raise UsageError(f"--budget {budget}: must be at least 1")
    if budget < decode:
        raise UsageError(
            f"--budget {budget:,} is below {question.seats:,} seats x {1 + question.draft_tokens} = {decode:,} tokens "
            "that decode takes of every step"
        )
    prefill_first = question.engine == "sglang"
    prefill = budget if prefill_first else budget - decode
    cap = question.threshold or budget
    chunk = min(prefill, cap)
    alone = loaded = None
    if question.prompt is not None:
        alone = math.ceil(question.prompt / min(budget, cap))
        loaded = math.ceil(question.prompt / chunk) if chunk else None
    row_notes = _notes(question, prefill)
    cost = None if question.ms_per_prompt_token is None else question.ms_per_prompt_token / 1000
    ttft_alone = ttft_loaded = gap = freeze = None
    if cost is not None:
        in_step = chunk if question.prompt is None else min(chunk, question.prompt)
        gap = (in_step + decode) * cost
        if question.prompt is not None:
            ttft_alone = freeze = question.prompt * cost
            if prefill_first:
                ttft_loaded, gap = ttft_alone, freeze
            elif loaded is not None:
                ttft_loaded = (question.prompt + loaded * decode) * cost
    return StepRow(
        budget=budget,
        decode_tokens_per_step=decode,
        prefill_tokens_per_step=prefill,
        chunk_tokens=chunk,
        prompt_steps_alone=alone,
        prompt_steps_loaded=loaded,
        ttft_alone_seconds=ttft_alone,
        ttft_loaded_seconds=ttft_loaded,
        gap_seconds=gap,
        freeze_seconds=freeze,
        reachable_hit_tokens=reachable_hit_tokens(question.prompt, question.block_size),
        starves_prefill=starves_prefill(question, budget),
        notes=tuple(row_notes),
    )


def _notes(question: StepQuestion, prefill: int) -> list[str]:
    notes = []
    if prefill == 0:
        notes.append("decode fills the whole step: no prompt is ever computed while all seats are taken")
    if question.threshold and question.threshold < prefill:
        notes.append(
            f"the threshold cuts one prompt's chunk to {question.threshold:,} tokens; the rest of the step "
            "is for other prompts, and with several waiting the step is as long as its budget"
        )
    if question.prompt and question.block_size and question.prompt % question.block_size == 0:
        notes.append(
            "the prompt is a whole number of blocks: vLLM computes its last token again and with it the last block, so "
            f"a full repeat reaches {question.block_size:,} tokens less"
        )
    return notes


def reachable_hit_tokens(prompt: int | None, block_size: int | None) -> int | None:
    """Most tokens of a fully repeated prompt that the prefix cache can give: whole blocks only.

    528-token blocks: nothing of 480, 528 of 552 and of 979.
    """
    if prompt is None or block_size is None:
        return None
    return prompt // block_size * block_size


def starves_prefill(question: StepQuestion, budget: int) -> bool:
    """Whether a budget leaves prefill too little.

    With prompt and output lengths: all seats taken, a step finishes seats / output requests, whose places
    need that many prompts; prefill starves where the room in a step is less. One token a step and seat is
    counted, so that accepted draft tokens raise the demand further. Without lengths: where decode takes
    more than half of the step.
    """
    room = budget - question.decode_tokens
    demand = prefill_demand(question)
    if demand is not None:
        return room < demand
    return room < STARVED_BELOW * budget


def prefill_demand(question: StepQuestion) -> float | None:
    """Prompt tokens that must be computed per step to keep all seats taken: seats x prompt / output."""
    if question.prompt is None or question.output_tokens is None:
        return None
    return question.seats * question.prompt / question.output_tokens


def starving_rule(question: StepQuestion) -> str:
    """The rule of :func:`starves_prefill` in words, with its number."""
    demand = prefill_demand(question)
    if demand is not None:
        return (
            f"to keep {question.seats:,} seats taken a step must compute {demand:,.0f} prompt tokens "
            f"({question.seats:,} x {question.prompt:,} / {question.output_tokens:,}) beside decode"
        )
    return "prefill gets at least half of a step with all seats taken (--prompt and --output-tokens give a demand)"


def sweep_budgets(question: StepQuestion, budgets: Sequence[int]) -> tuple[StepRow, ...]:
    """One row a budget, ascending; the smallest that does not starve prefill is marked.

    Raises UsageError naming every budget that decode alone overflows.
    """
    asked = sorted(set(budgets))
    if not asked:
        raise UsageError("--sweep: give at least one budget")
    small = [b for b in asked if b < question.decode_tokens]
    if small:
        raise UsageError(
            f"--sweep {', '.join(f'{b:,}' for b in small)}: below {question.seats:,} seats x "
            f"{1 + question.draft_tokens} = {question.decode_tokens:,} tokens that decode takes of every step"
        )
    rows = [plan_step(question, b) for b in asked]
    first = next((r.budget for r in rows if not r.starves_prefill), None)
    return tuple(_mark(row) if row.budget == first else row for row in rows)


def _mark(row: StepRow) -> StepRow:
    return replace(row, smallest_that_does_not_starve=True)


@dataclass(frozen=True)
class RequestSplit:
    """A request's own time, prefill against decode. None where something is missing; ``reason`` says what."""

    prompt_tokens: int
    output_tokens: int | None
    prefill_seconds: float | None
    decode_seconds: float | None
    decode_share: float | None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def project_request(
    *,
    prompt_tokens: int,
    ms_per_prompt_token: float | None,
    output_tokens: int | None = None,
    seconds_per_output_token: float | None = None,
    decode_seconds: float | None = None,
) -> RequestSplit:
    """A single request's prefill and decode time from costs per token.

    Published: 38,000 tokens at 0.74 ms are about 28 s; with 137 s of decode that is 83 % decode. The
    first output token comes out of prefill, so n output tokens are n - 1 decode tokens.
    """
    prefill = None if ms_per_prompt_token is None else prompt_tokens * ms_per_prompt_token / 1000
    missing = []
    if prefill is None:
        missing.append("a cost per prompt token (--ms-per-prompt-token, or --from a page)")
    if decode_seconds is None:
        if output_tokens is None:
            missing.append("the length of the answer (--output-tokens)")
        if seconds_per_output_token is None:
            missing.append("a cost per output token (--from a page)")
        if output_tokens is not None and seconds_per_output_token is not None:
            decode_seconds = max(0, output_tokens - 1) * seconds_per_output_token
    share = None
    if prefill is not None and decode_seconds is not None and prefill + decode_seconds > 0:
        share = decode_seconds / (prefill + decode_seconds)
    return RequestSplit(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        prefill_seconds=prefill,
        decode_seconds=decode_seconds,
        decode_share=share,
        reason=f"missing: {'; '.join(missing)}" if missing and share is None else None,
    )
