"""Warnings and notices of a boot that bear on tuning, each with what to make of it.

Every entry is a pattern and a sentence; the sentence may use the pattern's named groups.
"""

from __future__ import annotations

import re

_REMARKS: tuple[tuple[str, str, str], ...] = (
    (
        "draft_slots",
        r"max_num_scheduled_tokens is set to (?P<tokens>\d+) based on the speculative decoding settings",
        "the engine keeps draft slots free, so that a step schedules at most {tokens} tokens, and advises a larger "
        "max_num_batched_tokens. That is one remedy; fewer draft tokens (num_speculative_tokens) is the other, and "
        "it costs no KV cache. Where it was measured (dense model, budget 4,096 -> 8,192) the larger budget made "
        "decode 8.2 % slower and the drafter accepted less: cut the draft length first",
    ),
    (
        "hybrid_block",
        r"Setting attention block size to (?P<tokens>\d+) tokens",
        "the prefix cache works in blocks of {tokens} tokens: a prompt shorter than that can never hit, and the "
        "pool of this hybrid model is not linear in memory",
    ),
    (
        "padding_layers",
        r"Add (?P<layers>\d+) padding layers, may waste at most (?P<share>\d+(?:\.\d+)?)%",
        "up to {share} % of the KV memory is padding ({layers} layers): tokens and GiB do not move together",
    ),
    (
        "pool_overridden",
        r"Overriding num_gpu_blocks=(?P<had>\d+) with num_gpu_blocks_override=(?P<has>\d+)",
        "the pool was set by hand to {has} blocks (memory allows {had}): it says nothing of what a setting costs",
    ),
    (
        "pool_by_hand",
        r"reserved (?P<gib>\d+(?:\.\d+)?) GiB memory for KV Cache as specified by kv_cache_memory_bytes",
        "the pool was set by hand to {gib} GiB and memory profiling was skipped: settings do not move this pool",
    ),
    (
        "context_override",
        r"User-specified max_model_len \((?P<context>\d+)\) is greater than the derived",
        "the context of {context} tokens is beyond the model's own configuration; answers past it may be rubbish",
    ),
    (
        "chunked_by_length",
        r"Chunked prefill is enabled by default for models with max_model_len > 32K",
        "chunked prefill switched itself on because the context is above 32K; the profiling pass then runs with "
        "the step budget and no longer with the context, so that a longer context can leave more KV cache",
    ),
    (
        "profiled_with_context",
        r"The model has a long context length \((?P<context>\d+)\)",
        "without chunked prefill the profiling pass runs with the whole context ({context} tokens): that, not the "
        "KV cache itself, is what a shorter context would save",
    ),
    (
        "cuda_graph_memory",
        r"equivalent to --gpu-memory-utilization=(?P<share>\d+(?:\.\d+)?) without CUDA graph memory profiling",
        "CUDA graph memory is part of the profiled share here; compared with older releases the fraction acts "
        "like {share}",
    ),
    (
        "api_servers",
        r"Defaulting api_server_count to data_parallel_size \((?P<count>\d+)\)",
        "{count} API servers share one metrics page: step counts are recorded once per server",
    ),
    (
        "budget_over_all_seats",
        r"max_num_batched_tokens \((?P<budget>\d+)\) exceeds max_num_seqs \* max_model_len \((?P<most>\d+)\)",
        "a step of {budget} tokens can never be filled: all seats at full context are {most}",
    ),
    (
        "cache_broken_by_template",
        r"Each new one changes the prompt prefix, so the rest of the conversation misses the prefix cache",
        "the chat template moves system messages to the front; a new one changes the prefix and the rest of the "
        "conversation misses the cache",
    ),
    (
        "cache_unsupported",
        r"(?i)prefix caching is not (?:officially )?supported|not (?:officially )?support prefix caching"
        r"|disabling prefix caching|prefix caching;? disabling both",
        "prefix caching is off or unsupported for this model, whatever the deployment file says",
    ),
    (
        "preempted",
        r"is preempted by .*total_num_cumulative_preemption=(?P<count>\d+)",
        "requests were preempted for want of KV cache (at least {count} so far): work is done twice",
    ),
    (
        "retracted",
        r"KV cache pool is full\. Retract requests\.",
        "the pool was full and running requests were sent back to the queue: their prefill is done twice, and the "
        "second time counts as a cache hit",
    ),
    (
        "engine_died",
        r"EngineDeadError|EngineCore encountered a fatal error|Worker proc \S+ died unexpectedly",
        "the engine or one of its workers died",
    ),
)
_COMPILED = tuple((name, re.compile(pattern), words) for name, pattern, words in _REMARKS)


def read_remark(text: str) -> tuple[str, str] | None:
    """Name and sentence of the remark in one log line, or None."""
    for name, pattern, words in _COMPILED:
        found = pattern.search(text)
        if found:
            return name, words.format(**{k: _group(v) for k, v in found.groupdict().items()})
    return None


def _group(digits: str | None) -> str:
    if digits and digits.isdigit():
        return f"{int(digits):,}"
    return digits or "?"
