"""Figures others have published, to be printed as what they are: estimates, or measurements of one place.

They come from two write-ups of the same fleet (vLLM and SGLang on GB10 machines, 2026). None of them is a
promise for another model, release or accelerator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class PublishedFigure:
    """One published number. ``kind`` says whether anybody measured it. ``low``, ``high``: relative gains."""

    name: str
    engine: str
    kind: Literal["estimate", "measured"]
    words: str
    low: float | None = None
    high: float | None = None
    caveat: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


PUBLISHED: tuple[PublishedFigure, ...] = (
    PublishedFigure(
        "prefill_decode_interval",
        "sglang",
        "estimate",
        "prefill-decode interval 1 with a chunk of 8,192: 10 to 20 % more generated tokens at 17 or more seats",
        0.10,
        0.20,
        "estimated, not measured",
    ),
    PublishedFigure(
        "mixed_chunk",
        "sglang",
        "estimate",
        "mixed chunk: 3 to 6 % more generated tokens",
        0.03,
        0.06,
        "estimated, not measured; reported to have no effect together with speculative decoding",
    ),
    PublishedFigure(
        "chunk_2048_to_8192",
        "sglang",
        "measured",
        "98.4 generated tok/s at a chunk of 2,048 (13,210 requests in a day), 119.8 at 8,192 (301 requests "
        "in 35 spans)",
        None,
        None,
        "not the same load on both sides",
    ),
    PublishedFigure(
        "dense_4096_to_8192",
        "vllm",
        "measured",
        "dense model, budget 4,096 -> 8,192: prefill 64 % faster, decode 8.2 % slower, the drafter accepts less",
        None,
        None,
        "one model, one machine",
    ),
    PublishedFigure(
        "moe_8192_to_16384",
        "vllm",
        "measured",
        "mixture of experts, budget 8,192 -> 16,384: prefill 24 % slower",
        None,
        None,
        "the same write-up gives 52.8 -> 44.8 TFLOP/s a GPU, which is 15.2 % less: the two figures disagree",
    ),
    PublishedFigure(
        "flat_under_load",
        "vllm",
        "measured",
        "127, 130 and 126 generated tok/s at 5-8, 17-24 and 25 or more running requests",
    ),
    PublishedFigure(
        "cost_per_prompt_token",
        "any",
        "measured",
        "0.49 ms a prompt token on this accelerator, whichever scheduler spends it; another accelerator "
        "computes prompts 5 to 10 times cheaper per token",
    ),
    PublishedFigure(
        "panel_defaults",
        "any",
        "measured",
        "budgets of 2,048 to 8,192: the smallest that keeps prefill from starving wins",
        2048,
        8192,
    ),
)


def published_for(engine: str | None) -> tuple[PublishedFigure, ...]:
    """Figures for one engine (and those for any); all where the engine is not known."""
    return tuple(f for f in PUBLISHED if engine is None or f.engine in (engine, "any"))
