"""What another context length would meet: the same pool, or the same profiling rule."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.planning.pools import KnownBoot, full_requests, needed_gib, not_linear, pool_gib, setting_of
from auditor.planning.predictions import Prediction, judge, margin_of, spell
from auditor.planning.profiled import predict_profiled


def predict_context(boots: Sequence[KnownBoot], value: float) -> Prediction:
    same = [b for b in boots if setting_of(b, "context") == value]
    for boot in same:
        if boot.state == "started":
            gib = pool_gib(boot, boots)[0]
            reason = f"{boot.file} line {boot.line} booted with this context"
            return Prediction("context", value, "fits", reason, gib, boot.kv_pool_tokens, needed_gib(boots, value))
        refusal = boot.refusal
        if refusal is not None and refusal.kind in ("kv_too_small", "pool_below_context"):
            reason = f"{boot.file} line {boot.line} refused this very context"
            return Prediction(
                "context", value, "refused", reason, boot.kv_gib or refusal.available_gib,
                boot.kv_pool_tokens, refusal.needed_gib,
            )  # fmt: skip
    profiled = [b for b in boots if _profile_terms(b) is not None]
    if profiled and all(setting_of(b, "budget") is None for b in profiled):
        return predict_profiled(boots, value)
    return _context_by_pool(boots, value)


def _profile_terms(boot: KnownBoot) -> tuple[float, float, float] | None:
    if boot.core == "V0" and boot.total_gib and boot.utilization and boot.non_torch_gib is not None:
        return boot.total_gib, boot.utilization, boot.non_torch_gib
    return None


def _context_by_pool(boots: Sequence[KnownBoot], value: float) -> Prediction:
    margin = margin_of(boots)
    started = [b for b in boots if b.state == "started" and full_requests(b) is not None]
    why_not = not_linear(boots)
    if started:
        base = started[-1]
        context = base.concurrency_context or base.max_model_len or 0
        tokens = (full_requests(base) or 0.0) * context
        reason = (
            f"the profiling pass runs with the step budget, not with the context, so the pool stays about "
            f"{spell(tokens)} tokens: {tokens / value:.2f} requests of {spell(value)}"
        )
        if value <= context:
            reason += (
                f"; a shorter context than {spell(context)} needs no more, but do not count on more KV cache either "
                "(published: a third of the context left 8.95 GiB and half the pool)"
            )
        elif why_not:
            reason += f"; not linear in memory ({why_not}), so take the count with care"
        linear = why_not is None
        verdict = judge(tokens, value, margin)
        return Prediction(
            "context", value, verdict, reason, kv_pool_tokens=round(tokens) if linear else None,
            kv_gib=pool_gib(base, boots)[0] if linear else None, floor_gib=needed_gib(boots, value),
        )  # fmt: skip
    for boot in boots:
        refusal = boot.refusal
        if refusal and refusal.estimated_max_model_len:
            longest = refusal.estimated_max_model_len
            reason = f"the engine itself estimates {spell(longest)} tokens as the longest context here"
            verdict = "refused" if value > longest else "fits" if value <= 0.9 * longest else "marginal"
            return Prediction(
                "context", value, verdict, reason, kv_gib=refusal.available_gib,
            )  # fmt: skip
    return Prediction("context", value, "unknown", "no boot at hand started, and no refusal estimates a length")
