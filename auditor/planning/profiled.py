"""vLLM V0 without chunked prefill: the profiling pass runs with the whole context.

There the pool is total x fraction - profiled peak - memory outside of torch, and the context acts through
the peak alone. Above 32,768 tokens these releases switch chunked prefill on by themselves; the pass then
runs with a small budget, the peak falls, and a longer context starts where a shorter one was refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from auditor.planning.pools import KnownBoot, gib_per_token, setting_of
from auditor.planning.predictions import Prediction, draw_line, judge, margin_of, mean

V0_CHUNKED_FROM = 32_768
"""Above this context vLLM V0 switches chunked prefill on by itself (engine/arg_utils.py, 0.6 to 0.8)."""
V0_CHUNKED_BUDGETS = (512, 2048)
"""Its default step budget then: 512 until 0.6.4, 2,048 after (config.py)."""


def profiled_kv_gib(*, total_gib: float, memory_fraction: float, peak_gib: float, non_torch_gib: float) -> float:
    """GiB left for the KV cache: total x fraction - profiled peak - memory that torch does not hold."""
    return total_gib * memory_fraction - peak_gib - non_torch_gib


def predict_profiled(boots: Sequence[KnownBoot], context: float) -> Prediction:
    """What this context would leave, by the profiled peak at that length."""
    base = next(b for b in boots if b.total_gib and b.utilization and b.non_torch_gib is not None)
    total, fraction, other = base.total_gib or 0.0, base.utilization or 0.0, base.non_torch_gib or 0.0

    def left(peak: float) -> float:
        return profiled_kv_gib(total_gib=total, memory_fraction=fraction, peak_gib=peak, non_torch_gib=other)

    peaks = sorted(
        (length, boot.peak_gib)
        for boot in boots
        if boot.peak_gib is not None and (length := setting_of(boot, "context")) is not None
    )
    own = [peak for length, peak in peaks if length == context]
    short = [(length, peak) for length, peak in peaks if length <= V0_CHUNKED_FROM]
    sums = f"{total:g} x {fraction:g} - {other:g} GiB outside of torch"
    if own:
        low = high = left(own[-1])
        reason = f"{sums} - the peak of {own[-1]:g} GiB seen at this context leaves {low:.2f} GiB"
    elif len(short) < 2:
        reason = "fewer than two contexts were profiled: how the peak grows with the context is not known"
        return Prediction("context", context, "unknown", reason)
    elif context <= V0_CHUNKED_FROM:
        peak, _ = draw_line(short, context)
        low = high = left(peak)
        reason = f"{sums} - a peak of {peak:.2f} GiB (line through the profiled contexts) leaves {low:.2f} GiB"
    else:
        ends = [left(draw_line(short, budget)[0]) for budget in V0_CHUNKED_BUDGETS]
        low, high = min(ends), max(ends)
        reason = (
            f"above {V0_CHUNKED_FROM:,} tokens chunked prefill switches itself on and the pass runs with a budget of "
            f"{V0_CHUNKED_BUDGETS[0]:,} or {V0_CHUNKED_BUDGETS[1]:,} tokens (by release), not with the context: "
            f"{low:.2f} .. {high:.2f} GiB"
        )
    reason += ". The pool is what the profiled peak leaves; context length acts through that peak alone"
    per_token = gib_per_token(boots)
    if per_token is None:
        reason += "; the pools at hand do not show what a token costs"
        return Prediction("context", context, "unknown", reason, kv_gib=round(mean((low, high)), 3))
    cost = mean(per_token)
    tokens = mean((low, high)) / cost
    verdicts = {judge(end / cost, context, margin_of(boots)) for end in (low, high)}
    verdict = verdicts.pop() if len(verdicts) == 1 else "marginal"
    tokens = max(tokens, 0.0)
    reason += f"; about {tokens / 1000:,.1f}k tokens, {tokens / context:.2f} requests of {context:,.0f}"
    if verdict == "fits" and any(b.refusal and (b.max_model_len or 0) < context for b in boots):
        reason += ". A shorter context was refused: shorter does not always free KV cache"
    return Prediction(
        "context",
        context,
        verdict,
        reason,
        kv_gib=round(mean((low, high)), 3),
        kv_pool_tokens=int(tokens),
        floor_gib=round(context * cost, 3),
    )
