"""The same arrivals and lengths on a changed engine (or shorter answers on the same one)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from .settings import Setting, VllmSetting
from .workload import Request, Workload

Change = Callable[[Setting, Workload], tuple[Setting, Workload]]


def free_prefill(setting: Setting, workload: Workload) -> tuple[Setting, Workload]:
    """Prompt tokens cost no step time and no budget; each prompt still takes one step.

    The ceiling of levers that touch prefill. SGLang: prompts then ride in the next decode batch instead of a
    batch of their own."""
    return replace(setting, free_prefill=True), workload


def cache_on(setting: Setting, workload: Workload) -> tuple[Setting, Workload]:
    return replace(setting, prefix_caching=True), workload


def cache_off(setting: Setting, workload: Workload) -> tuple[Setting, Workload]:
    return replace(setting, prefix_caching=False), workload


def budget_doubled(setting: Setting, workload: Workload) -> tuple[Setting, Workload]:
    if isinstance(setting, VllmSetting):
        return replace(setting, budget=2 * setting.budget), workload
    return replace(setting, chunk=2 * setting.chunk), workload


def speculation_off(setting: Setting, workload: Workload) -> tuple[Setting, Workload]:
    if isinstance(setting, VllmSetting):
        return replace(setting, draft_tokens=0), workload
    return setting, workload


def outputs_halved(setting: Setting, workload: Workload) -> tuple[Setting, Workload]:
    """Every answer half as long (rounded up), ended by the model itself."""

    def half(request: Request) -> Request:
        cut = request.disconnect_after_tokens
        return replace(
            request,
            output_tokens=-(-request.answer_tokens // 2),
            disconnect_after_tokens=None if cut is None else -(-cut // 2),
        )

    return setting, replace(workload, requests=tuple(half(r) for r in workload.requests))


COUNTERFACTUALS: Mapping[str, Change] = {
    "free_prefill": free_prefill,
    "cache_on": cache_on,
    "budget_doubled": budget_doubled,
    "speculation_off": speculation_off,
    "outputs_halved": outputs_halved,
}
"""By name, as proof tables call them."""
