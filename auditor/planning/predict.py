"""``--predict``: what a setting would leave for the KV cache, from the boots at hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from auditor.model import UsageError
from auditor.planning.budget import predict_budget
from auditor.planning.context import predict_context
from auditor.planning.pools import KnownBoot, full_requests, gib_per_token, needed_gib, not_linear, setting_of
from auditor.planning.predictions import Prediction, judge, margin_of, mean, spell

_NAMES = {
    "budget": "budget",
    "max_num_batched_tokens": "budget",
    "chunked_prefill_size": "budget",
    "context": "context",
    "max_model_len": "context",
    "context_length": "context",
    "memory": "memory",
    "memory_fraction": "memory",
    "gpu_memory_utilization": "memory",
    "mem_fraction_static": "memory",
}


def parse_prediction(text: str) -> tuple[str, float]:
    """``budget=12288`` -> ("budget", 12288.0). Raises UsageError: unknown name, no number, impossible value.

    ``k`` is refused: 35k may be 35,000 or 35,840, and here the difference decides.
    """
    name, equals, written = text.partition("=")
    name = name.strip().lower().replace("-", "_").removeprefix("__")
    setting = _NAMES.get(name)
    if not equals or setting is None:
        raise UsageError(
            f"--predict {text}: expected NAME=NUMBER with NAME one of budget, context, memory "
            "(or the engine's own name of it)"
        )
    digits = written.strip().replace(",", "").replace("_", "")
    if re.fullmatch(r"\d+(\.\d+)?[kKmM]", digits):
        raise UsageError(f"--predict {text}: write the number out; {written} may be a thousand or 1,024 of something")
    percent = digits.endswith("%")
    try:
        value = float(digits.rstrip("%"))
    except ValueError:
        raise UsageError(f"--predict {text}: {written!r} is not a number") from None
    if setting == "memory":
        value = value / 100 if percent else value
        if not 0 < value <= 1:
            raise UsageError(f"--predict {text}: a memory fraction lies between 0 and 1")
    elif percent or not value.is_integer() or value < 1:
        raise UsageError(f"--predict {text}: {setting} is a whole number of tokens, at least 1")
    return setting, value


def predict(boots: Sequence[KnownBoot], setting: str, value: float) -> Prediction:
    """What ``setting=value`` would leave, judged from these boots. Never raises for want of evidence."""
    usable = [b for b in boots if not b.by_hand]
    if not usable:
        why = "no boot was read" if not boots else "the pool was set by hand in every boot, so no setting moves it"
        return Prediction(setting, value, "unknown", why)
    rules: dict[str, Callable[[Sequence[KnownBoot], float], Prediction]] = {
        "budget": predict_budget,
        "context": predict_context,
        "memory": predict_memory,
    }
    return rules[setting](usable, value)


def predict_memory(boots: Sequence[KnownBoot], value: float) -> Prediction:
    def unknown(reason: str) -> Prediction:
        return Prediction("memory", value, "unknown", reason)

    base = next(
        (b for b in reversed(boots) if b.utilization and (b.kv_gib is not None or b.refusal is not None)),
        None,
    )
    if base is None:
        return unknown("no boot says both its memory fraction and what it left for the KV cache")
    if base.total_gib is None:
        return unknown("no boot prints the device's total memory, so a step of the fraction has no size in GiB")
    held = base.kv_gib if base.kv_gib is not None else base.refusal.available_gib if base.refusal else None
    if held is None:
        return unknown("the boot prints no GiB for the KV cache")
    left = held + base.total_gib * (value - (base.utilization or 0.0))
    context = setting_of(base, "context")
    per_token = gib_per_token(boots)
    tokens = left / mean(per_token) if per_token else None
    floor = needed_gib(boots, context)
    if floor is None and per_token and context:
        floor = context * mean(per_token)
    reason = (
        f"with a context of {spell(context)}: {held:g} GiB at {base.utilization:g} of {base.total_gib:g} GiB; the "
        f"fraction moves the KV cache alone, so {left:.2f} GiB at {value:g}"
    )
    if tokens is None:
        reason += "; no token count follows: the boots do not show that this pool is linear in memory"
    if left <= 0:
        return Prediction("memory", value, "refused", reason + ": nothing is left", kv_gib=0.0, floor_gib=floor)
    requests = full_requests(base)
    if floor is None and requests is not None and not_linear(boots) is None and base.kv_gib:
        floor = base.kv_gib / requests
        reason += "; floor from this boot's own full requests"
    if floor is None:
        missing = "what one request of full context needs is on no line of these boots"
        return Prediction("memory", value, "unknown", f"{reason}; {missing}", kv_gib=round(left, 3))
    return Prediction(
        "memory", value, judge(left, floor, margin_of(boots)), reason, kv_gib=round(left, 3),
        kv_pool_tokens=int(tokens) if tokens else None, floor_gib=round(floor, 3),
    )  # fmt: skip
