"""Token pools: what a boot holds, in requests, tokens and GiB, and whether tokens follow from GiB at all.

Pools are compared in tokens. GiB are not comparable between boots: at one configuration (context
768,000, budget 8,192) 12.08 GiB held 1,110,893 tokens and a later boot's 8.44 GiB held 1,085,106, 30 %
apart in GiB and 2.3 % in tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from auditor.model import Setting

HALF_DIGIT_GIB = 0.0051
"""Engines print GiB with two decimals."""


class KnownRefusal(Protocol):
    """What planning needs of a refusal."""

    @property
    def context(self) -> int | None: ...
    @property
    def needed_gib(self) -> float | None: ...
    @property
    def available_gib(self) -> float | None: ...
    @property
    def estimated_max_model_len(self) -> int | None: ...
    @property
    def kind(self) -> str: ...


class KnownBoot(Protocol):
    """What planning needs of a boot; ``engine_logs.Boot`` has it, and so may a hand-written table."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def engine(self) -> str | None: ...
    @property
    def core(self) -> str | None: ...
    @property
    def state(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Setting]: ...
    @property
    def identity(self) -> Mapping[str, str]: ...
    @property
    def kv_pool_tokens(self) -> int | None: ...
    @property
    def kv_gib(self) -> float | None: ...
    @property
    def max_concurrency(self) -> float | None: ...
    @property
    def concurrency_context(self) -> int | None: ...
    @property
    def pool_from_concurrency(self) -> int | None: ...
    @property
    def pools_disagree(self) -> bool: ...
    @property
    def max_model_len(self) -> int | None: ...
    @property
    def refusal(self) -> KnownRefusal | None: ...
    @property
    def hybrid(self) -> bool: ...
    @property
    def by_hand(self) -> bool: ...
    @property
    def total_gib(self) -> float | None: ...
    @property
    def utilization(self) -> float | None: ...
    @property
    def peak_gib(self) -> float | None: ...
    @property
    def non_torch_gib(self) -> float | None: ...


def setting_of(boot: KnownBoot, name: str) -> float | None:
    """A numeric setting of a boot; the context also from what the boot printed about it."""
    entry = boot.settings.get(name)
    value = entry.value if entry is not None else None
    if value is None and name == "context":
        value = boot.max_model_len
    if value is None and name == "gpu_memory_utilization":
        value = boot.utilization
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def configuration(boot: KnownBoot) -> dict[str, str]:
    """All that makes two boots the same or different, as text."""
    known = {name: _text(entry.value) for name, entry in boot.settings.items()}
    context = setting_of(boot, "context")
    if context is not None:
        known["context"] = _text(context)
    return {**dict(boot.identity), **known}


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def needed_gib(boots: Sequence[KnownBoot], context: float | None) -> float | None:
    """GiB that one request of exactly this context needs, where a refusal among the boots said so."""
    for boot in boots:
        refusal = boot.refusal
        if refusal is None or refusal.kind != "kv_too_small" or refusal.needed_gib is None:
            continue
        if context is not None and refusal.context == context:
            return refusal.needed_gib
    return None


def full_requests(boot: KnownBoot) -> float | None:
    """How many requests of full context the pool holds: pool / context, or the printed concurrency.

    The printed concurrency has two decimals, so the quotient is better wherever both agree.
    """
    if boot.kv_pool_tokens is not None and not boot.pools_disagree:
        context = boot.concurrency_context or boot.max_model_len
        if context:
            return boot.kv_pool_tokens / context
    return boot.max_concurrency


def pool_gib(boot: KnownBoot, boots: Sequence[KnownBoot]) -> tuple[float | None, str]:
    """The pool in GiB, as the engine itself would count it, and where that comes from.

    Full requests x what the engine says one of them needs (from a refusal at the same context). This
    derives no bytes per token, so it holds for hybrid models too. Without such a refusal it is the
    printed memory.
    """
    if boot.refusal is not None:
        about_kv = boot.refusal.kind == "kv_too_small"
        return (boot.refusal.available_gib, "printed in the refusal") if about_kv else (boot.kv_gib, "printed")
    requests, needed = full_requests(boot), needed_gib(boots, setting_of(boot, "context"))
    if requests is not None and needed is not None:
        return (
            requests * needed,
            f"{requests:.4g} full requests x {needed:g} GiB that the engine needs for one",
        )
    return boot.kv_gib, "printed"


# ------------------------------------------------------------------------------ linearity


def gib_per_token(boots: Sequence[KnownBoot]) -> tuple[float, float] | None:
    """GiB a token costs, as the interval that all boots agree on; None where that is not known.

    Linear is known only from two different pools (or a refusal with the engine's own estimate) that fit
    one line through the origin within the printed digits.
    """
    pairs = [(gib, tokens) for gib, tokens in _gib_tokens(boots) if gib > 0.1]
    if any(boot.hybrid or boot.pools_disagree for boot in boots) or len({t for _, t in pairs}) < 2:
        return None
    if max(t for _, t in pairs) < 1.05 * min(t for _, t in pairs):
        return None
    low = max((gib - HALF_DIGIT_GIB) / tokens for gib, tokens in pairs)
    high = min((gib + HALF_DIGIT_GIB) / tokens for gib, tokens in pairs)
    return (low, high) if low <= high * 1.002 else None


def not_linear(boots: Sequence[KnownBoot]) -> str | None:
    """Why the pool is known not to be linear in memory, or None where nothing says so."""
    for boot in boots:
        if boot.hybrid:
            return "the log names a hybrid model (attention blocks fitted to a state page)"
        if boot.pools_disagree:
            return "printed pool and printed concurrency disagree"
        refusal = boot.refusal
        if refusal and refusal.estimated_max_model_len and refusal.needed_gib and refusal.available_gib:
            straight = (refusal.context or 0) * refusal.available_gib / refusal.needed_gib
            slack = (refusal.context or 0) * 2 * HALF_DIGIT_GIB / refusal.needed_gib
            if abs(straight - refusal.estimated_max_model_len) > slack + 0.02 * straight:
                return (
                    f"the engine estimates {refusal.estimated_max_model_len:,} tokens where a straight line gives "
                    f"{straight:,.0f}"
                )
    pairs = [(gib, tokens) for gib, tokens in _gib_tokens(boots) if gib > 0.1]
    for gib, tokens in pairs:
        for other, others in pairs:
            if (gib - HALF_DIGIT_GIB) / tokens > 1.02 * (other + HALF_DIGIT_GIB) / others:
                return f"{gib:g} GiB held {tokens:,} tokens and {other:g} GiB held {others:,}"
    return None


def _gib_tokens(boots: Sequence[KnownBoot]) -> list[tuple[float, int]]:
    pairs = [
        (boot.kv_gib, boot.kv_pool_tokens)
        for boot in boots
        if boot.kv_gib is not None and boot.kv_pool_tokens and not boot.by_hand
    ]
    for boot in boots:
        refusal = boot.refusal
        if refusal and refusal.available_gib and refusal.estimated_max_model_len:
            pairs.append((refusal.available_gib, refusal.estimated_max_model_len))
    return pairs
