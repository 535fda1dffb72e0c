"""What an engine said when it would not start, and what that means.

A refusal with numbers is a good failure: the engine did its arithmetic before it allocated anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_GIVE = (
    "What can give: a smaller step budget (it sizes the profiling pass), more memory for the engine, a "
    "smaller KV precision, fewer draft tokens, or a shorter context. The context promised to users is a "
    "product decision, not a tuning knob."
)
_NOT_OOM = (
    "The engine did this arithmetic before it allocated the pool and left with an error of its own; that "
    "is no out-of-memory kill, and free host memory does not change it."
)

HALF_DIGIT_GIB = 0.0051
"""Engines print GiB with two decimals (newer releases drop trailing zeros)."""


@dataclass(frozen=True)
class Refusal:
    """Why a boot ended without a server. GiB and tokens are the engine's own, None where it gave none."""

    kind: str
    line: int
    words: str
    explanation: str
    context: int | None = None
    needed_gib: float | None = None
    available_gib: float | None = None
    estimated_max_model_len: int | None = None
    needed_tokens: int | None = None
    available_tokens: int | None = None

    @property
    def short_gib(self) -> float | None:
        if self.needed_gib is None or self.available_gib is None:
            return None
        return round(self.needed_gib - self.available_gib, 4)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "line": self.line,
            "needed_gib": self.needed_gib,
            "available_gib": self.available_gib,
            "short_gib": self.short_gib,
            "estimated_max_model_len": self.estimated_max_model_len,
            "needed_tokens": self.needed_tokens,
            "available_tokens": self.available_tokens,
            "words": self.words,
            "explanation": self.explanation,
        }


_TOO_SMALL = re.compile(
    r"To serve at least one request with the models?'s max seq len \((?P<context>\d+)\),? "
    r"\(?(?P<needed>\d+(?:\.\d+)?) ?GiB KV cache is needed, which is larger than the available KV cache memory "
    r"\((?P<available>\d+(?:\.\d+)?) ?GiB\)"
)
_ESTIMATE = re.compile(r"estimated maximum model length is (?P<length>\d+)")
_TOO_FEW_TOKENS = re.compile(
    r"[Mm]odel's max seq len \((?P<context>\d+)\) is larger than the maximum number of tokens that can be "
    r"stored in KV cache \((?P<tokens>\d+)\)"
)
_NO_MEMORY = re.compile(r"No available memory for the cache blocks")
_OVER_MODEL = re.compile(
    r"User-specified max_model_len \((?P<context>\d+)\) is greater than the derived max_model_len "
    r"\((?:max_position_embeddings=)?(?P<derived>\d+(?:\.\d+)?)"
)
_TAKEN = re.compile(
    r"Free memory on device[^(]*\((?P<free>\d+(?:\.\d+)?)/(?P<total>\d+(?:\.\d+)?) ?GiB\) on startup is "
    r"less than desired GPU "
    r"memory utilization \((?P<share>\d+(?:\.\d+)?), (?P<wanted>\d+(?:\.\d+)?) ?GiB\)"
)
_THRESHOLD = re.compile(
    r"long_prefill_token_threshold \((?P<threshold>\d+)\) cannot be greater than the max_model_len "
    r"\((?P<context>\d+)\)"
)
_BELOW_SEATS = re.compile(
    r"max_num_batched_tokens \((?P<budget>\d+)\) must be greater than or equal to max_num_seqs "
    r"\((?P<seats>\d+)\)"
)
_BELOW_CONTEXT = re.compile(
    r"max_num_batched_tokens \((?P<budget>\d+)\) is smaller than max_model_len \((?P<context>\d+)\)"
)
_SGLANG_MEMORY = re.compile(r"Not enough memory\. Please try to increase --mem-fraction-static")
_OUT_OF_MEMORY = re.compile(r"(?:CUDA|HIP|XPU) out of memory|OutOfMemoryError|[Oo]ut of memory: Killed")
_FAILED = re.compile(r"Engine core initialization failed|EngineCore failed to start|[Ee]ngine process failed to start")


def read_refusal(text: str, line: int, *, level: str = "") -> Refusal | None:
    """The refusal in one log line, or None. Lines that only warn are none."""
    words = text[text.find("Error: ") + 7 :] if re.match(r"[\w.]*Error: ", text) else text.strip()
    words = words[:600]

    def make(kind: str, explanation: str, **numbers: Any) -> Refusal:
        return Refusal(kind=kind, line=line, words=words, explanation=explanation, **numbers)

    if found := _TOO_SMALL.search(text):
        return _explain_too_small(found, _ESTIMATE.search(text), line, words)
    if found := _TOO_FEW_TOKENS.search(text):
        context, tokens = int(found["context"]), int(found["tokens"])
        return make(
            "pool_below_context",
            f"One request of {context:,} tokens needs {context:,} tokens of KV cache and the pool holds "
            f"{tokens:,}: short by {context - tokens:,} tokens. {_NOT_OOM} {_GIVE}",
            context=context,
            needed_tokens=context,
            available_tokens=tokens,
        )
    if level == "WARNING":
        return None
    if _NO_MEMORY.search(text):
        return make(
            "no_room_for_kv",
            "Weights and the profiling pass took everything the engine was allowed to use: nothing was left "
            f"for the KV cache. {_NOT_OOM} {_GIVE}",
            available_gib=0.0,
        )
    if (found := _OVER_MODEL.search(text)) and "must be used with extreme caution" not in text.split(
        "To allow overriding"
    )[0]:
        context, derived = int(found["context"]), int(float(found["derived"]))
        return make(
            "context_over_model",
            f"The asked context of {context:,} tokens is longer than the {derived:,} that the model's own "
            "configuration allows. Memory plays no part in this refusal: ask for at most that, or use a model "
            "or a position scaling made for more.",
            context=context,
        )
    if found := _TAKEN.search(text):
        free, wanted = float(found["free"]), float(found["wanted"])
        return make(
            "memory_taken",
            f"The engine was told to use {wanted:g} GiB of the device and {free:g} GiB were free: short by "
            f"{wanted - free:.2f} GiB. Another process holds the rest: stop it, or lower the memory fraction.",
            needed_gib=wanted,
            available_gib=free,
        )
    if found := _THRESHOLD.search(text):
        return make(
            "threshold_over_context",
            f"A long-prefill threshold of {int(found['threshold']):,} tokens is above the context of "
            f"{int(found['context']):,}: it could never cut anything.",
            context=int(found["context"]),
        )
    if found := _BELOW_SEATS.search(text):
        return make(
            "budget_below_seats",
            f"A step of {int(found['budget']):,} tokens cannot give each of {int(found['seats']):,} seats one "
            "token: raise max_num_batched_tokens or lower max_num_seqs.",
        )
    if found := _BELOW_CONTEXT.search(text):
        return make(
            "budget_below_context",
            f"Chunked prefill is off, so one step must hold a whole prompt: a budget of "
            f"{int(found['budget']):,} is below the context of {int(found['context']):,}.",
            context=int(found["context"]),
        )
    if _SGLANG_MEMORY.search(text):
        return make(
            "no_room_for_kv",
            "The weights already fill the share of memory that SGLang may use for weights and KV cache: "
            f"nothing was left for the pool. {_NOT_OOM} Raise --mem-fraction-static, or lower "
            "--chunked-prefill-size and the CUDA graph sizes, which need the rest.",
            available_gib=0.0,
        )
    if _OUT_OF_MEMORY.search(text):
        return make(
            "out_of_memory",
            "The device ran out of memory while the engine started. This is not the clean refusal with "
            "numbers: the arithmetic said yes and the allocation failed. Lower the memory fraction or the step budget.",
        )
    if _FAILED.search(text):
        return make("unknown", "The engine did not start; the cause stands further up in the log, or was cut off.")
    return None


def _explain_too_small(found: re.Match[str], estimate: re.Match[str] | None, line: int, words: str) -> Refusal:
    context = int(found["context"])
    needed, available = float(found["needed"]), float(found["available"])
    length = int(estimate["length"]) if estimate else None
    text = (
        f"One request of the full context ({context:,} tokens) needs {needed:g} GiB of KV cache and "
        f"{available:g} GiB are left after weights and the profiling pass: short by {needed - available:.2f} GiB. "
        f"{_NOT_OOM} {_GIVE}"
    )
    if length is not None and not estimate_is_linear(context, needed, available, length):
        straight = context * available / needed
        text += (
            f" The engine's own estimate of the longest context is {length:,} tokens where a straight line "
            f"would give {straight:,.0f}: this pool is not linear in memory, so no bytes per token follow from it."
        )
    return Refusal(
        kind="kv_too_small",
        line=line,
        words=words,
        explanation=text,
        context=context,
        needed_gib=needed,
        available_gib=available,
        estimated_max_model_len=length,
    )


def estimate_is_linear(context: int, needed_gib: float, available_gib: float, estimate: int) -> bool:
    """Whether the engine's estimate agrees with a straight line, as far as the printed digits can tell.

    Gibibytes are printed with two decimals, so each stands for an interval; blocks make the estimate round
    down by up to a block (taken as 2 %).
    """
    low = context * max(0.0, available_gib - HALF_DIGIT_GIB) / (needed_gib + HALF_DIGIT_GIB)
    high = context * (available_gib + HALF_DIGIT_GIB) / max(1e-9, needed_gib - HALF_DIGIT_GIB)
    return 0.98 * low <= estimate <= 1.02 * high
