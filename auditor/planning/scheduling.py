"""Small sums on counts that no page gives in one piece: batches, arms, a cache's gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from auditor.model import UsageError


@dataclass(frozen=True)
class DecodeBatches:
    """How rarely decode runs. Ranges are low, high; ``cause`` is a stable word or None."""

    share: tuple[float, float]
    interval_seconds: tuple[float, float]
    cause: str | None
    advice: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "decode_batch_share": list(self.share),
            "decode_interval_seconds": list(self.interval_seconds),
            "cause": self.cause,
            "advice": list(self.advice),
        }


def read_decode_batches(
    *,
    prefill_batches: int,
    decode_batches: tuple[int, int],
    window_seconds: float,
    running: int | None = None,
    speculative: bool = False,
) -> DecodeBatches:
    """Share of decode among batches, and seconds from one decode batch to the next.

    Published: 2,863 prefill to 36-38 decode batches in 900 s are 1.24-1.31 %, one decode batch every
    23.7-25.0 s. Raises UsageError for counts that cannot be.
    """
    low, high = sorted(decode_batches)
    if min(low, prefill_batches) < 0 or window_seconds <= 0 or high + prefill_batches == 0:
        raise UsageError("batches and seconds must be positive")
    if low == 0:
        raise UsageError("no decode batch ran: there is no interval between them")
    share = (low / (prefill_batches + low), high / (prefill_batches + high))
    starved = share[1] < 0.05 and (running is None or running > 0)
    advice: list[str] = []
    if starved:
        advice.append(
            "running streams get almost no steps because a ready prefill batch always goes first: this is "
            "scheduling. The KV pool, the queue and the hit rate are not the lever"
        )
        advice.append("a decode turn between prefill batches (prefill-decode interval) or fewer admitted prompts is")
        if speculative:
            advice.append("mixed chunking is reported to have no effect together with speculative decoding")
    return DecodeBatches(
        share=share,
        interval_seconds=(window_seconds / high, window_seconds / low),
        cause="prefill_first_scheduling" if starved else None,
        advice=tuple(advice),
    )


def effective_chunk(budget: int, threshold: int = 0) -> int:
    """Most tokens of one prompt in a step by itself: the budget, cut by the threshold (0 is off)."""
    return min(budget, threshold) if threshold else budget


@dataclass(frozen=True)
class BudgetArm:
    """One arm of a measured A/B on the step budget. None is what nobody measured."""

    budget: int
    pool_tokens: int | None = None
    peak_activation_gib: float | None = None
    prefill_tok_s: float | None = None


@dataclass(frozen=True)
class BudgetArms:
    """Two arms side by side: what the second gives over the first."""

    chunks: tuple[int, int]
    pool_ratio: float | None
    reserve_gib: float | None
    prefill_change: float | None
    words: str


def compare_budget_arms(old: BudgetArm, new: BudgetArm, *, threshold: int = 0) -> BudgetArms:
    """What a budget cost and gave. No bytes per token are derived: that pool need not be linear.

    Published: with a threshold of 1,024 both 8,224 and 2,048 run the same chunk; the pool is 4.34 times
    larger at 2,048, 3.91 GiB of activations are saved, and prefill moves by 1.6 %, one run's noise.
    """
    chunks = effective_chunk(old.budget, threshold), effective_chunk(new.budget, threshold)
    ratio = new.pool_tokens / old.pool_tokens if old.pool_tokens and new.pool_tokens else None
    reserve = None
    if old.peak_activation_gib is not None and new.peak_activation_gib is not None:
        reserve = old.peak_activation_gib - new.peak_activation_gib
    change = new.prefill_tok_s / old.prefill_tok_s - 1 if old.prefill_tok_s and new.prefill_tok_s else None
    same = chunks[0] == chunks[1]
    words = (
        f"both arms give one prompt chunks of {chunks[0]:,} tokens, so no change of prefill speed is to be expected"
        if same
        else f"one prompt's chunk goes from {chunks[0]:,} to {chunks[1]:,} tokens"
    )
    if ratio is not None:
        words += f"; the pool is {ratio:.2f} times the size"
    return BudgetArms(chunks, ratio, reserve, change, words)


def prefill_share_from_gain(*, hit_ratio: float, gain: float) -> float:
    """Share of time that prefill had without the cache, from its gain: s = (1 - 1 / speed-up) / h.

    ``gain`` 0.057 is a speed-up of 1.057. Published: hits of 94.59 % gained 5.7 to 6.2 %, so prefill was 5.7
    to 6.2 % of the time: a hit ratio is not a speed-up. Raises UsageError outside of what can be.
    """
    if not 0 < hit_ratio <= 1:
        raise UsageError(f"a hit ratio of {hit_ratio} is not in 0..1, or gains nothing")
    if gain <= -1:
        raise UsageError(f"a gain of {gain} is no speed-up")
    share = (1 - 1 / (1 + gain)) / hit_ratio
    if not 0 <= share < 1:
        raise UsageError(
            f"a gain of {gain:.1%} from {hit_ratio:.1%} hits would need prefill to be {share:.1%} of the "
            "time: something else changed too"
        )
    return share


def free_prefill_speedup(share: float) -> float:
    """Speed-up if prefill cost nothing at all, by plain Amdahl: 1 / (1 - share)."""
    if not 0 <= share < 1:
        raise UsageError(f"a share of {share} is not in 0..1")
    return 1 / (1 - share)
