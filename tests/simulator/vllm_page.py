"""What vLLM 0.32 exports of a run: names, labels, buckets and the moments at which each series moves.

Names and edges are those of a page recorded from vLLM 0.32.0 (``fixtures/vllm``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .layouts import VLLM, Layout, one_two_five
from .record import Run
from .settings import VllmSetting
from .snapshot import Labels, Sheet, Snapshot, as_times

START_UNIX = 1_800_000_000.0
"""Unix time of a run's second 0."""
_BOOT_SECONDS = 40.0

_FINISHED = (
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_inference_time_seconds",
    "e2e_request_latency_seconds",
)

_ALWAYS_ZERO = (
    ("estimated_flops_per_gpu_total", "Estimated floating point operations per GPU (off)."),
    ("estimated_read_bytes_per_gpu_total", "Estimated bytes read from memory per GPU (off)."),
    ("estimated_write_bytes_per_gpu_total", "Estimated bytes written to memory per GPU (off)."),
    ("external_prefix_cache_queries_total", "External prefix cache queries, in number of queried tokens."),
    ("external_prefix_cache_hits_total", "External prefix cache hits, in number of cached tokens."),
    ("mm_cache_queries_total", "Multi-modal cache queries, in number of queried items."),
    ("mm_cache_hits_total", "Multi-modal cache hits, in number of cached items."),
)

_CONFIG = {
    "_block_size_resolved": "True",
    "cache_dtype": "auto",
    "gpu_memory_utilization": "0.92",
    "is_attention_free": "False",
    "kv_offloading_size": "None",
    "num_cpu_blocks": "None",
    "num_gpu_blocks_override": "None",
    "prefix_caching_hash_algo": "sha256",
    "sliding_window": "None",
    "user_specified_block_size": "False",
}


def vllm_snapshots(
    run: Run, times: Sequence[float], *, layout: Layout = VLLM, model: str = "sim", rank: str = "0"
) -> list[Snapshot]:
    """What scrapes of the run at ``times`` (seconds of the run, in order) read."""
    setting: VllmSetting = run.setting
    sheet = Sheet(as_times(times))
    base: Labels = (("engine", rank), ("model_name", model))
    _process(sheet)
    _gauges(sheet, run, setting, base)
    _counters(sheet, run, setting, base)
    _histograms(sheet, run, setting, layout, base)
    return sheet.cut(created_unix=START_UNIX - _BOOT_SECONDS + 2)


def _process(sheet: Sheet) -> None:
    sheet.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch.", ())
    sheet.constant("process_start_time_seconds", START_UNIX - _BOOT_SECONDS)
    sheet.family("process_cpu_seconds_total", "counter", "CPU time spent in seconds.", (), created=False)
    sheet.values["process_cpu_seconds_total", ()] = 10.0 + sheet.times


def _gauges(sheet: Sheet, run: Run, setting: VllmSetting, base: Labels) -> None:
    steps, ends = run.steps, run.steps["end"]

    def gauge(name: str, column: str, help_text: str, scale: float = 1.0) -> None:
        sheet.family(f"vllm:{name}", "gauge", help_text, base)
        sheet.gauge(f"vllm:{name}", ends, steps[column] * scale)

    gauge("num_requests_running", "running", "Number of requests in model execution batches.")
    gauge("num_requests_waiting", "waiting", "Number of requests waiting to be processed.")
    gauge("kv_cache_usage_perc", "used_blocks", "KV-cache usage. 1 means 100 percent usage.", 1 / setting.blocks)
    name = "vllm:num_requests_waiting_by_reason"
    sheet.family(name, "gauge", "Number of waiting requests by reason: capacity or deferred.", base)
    sheet.gauge(name, ends, steps["waiting"], reason="capacity")
    sheet.constant(name, 0, reason="deferred")
    sheet.family("vllm:engine_sleep_state", "gauge", "Engine sleep state; awake = 1 means awake.", base)
    for state in ("awake", "weights_offloaded", "discard_all"):
        sheet.constant("vllm:engine_sleep_state", state == "awake", sleep_state=state)
    pool = setting.blocks * setting.block_size
    config = {
        **_CONFIG,
        "block_size": str(setting.block_size),
        "effective_attention_block_size": str(setting.block_size),
        "enable_prefix_caching": str(setting.prefix_caching),
        "kv_cache_max_concurrency": str(round(pool / setting.max_model_len, 4)),
        "kv_cache_size_tokens": str(pool),
        "num_gpu_blocks": str(setting.blocks + 1),
    }
    engine_only = tuple(pair for pair in base if pair[0] == "engine")
    sheet.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig", engine_only)
    sheet.constant("vllm:cache_config_info", 1, **config)


def _counters(sheet: Sheet, run: Run, setting: VllmSetting, base: Labels) -> None:
    steps, ends = run.steps, run.steps["end"]
    model_only = tuple(pair for pair in base if pair[0] == "model_name")

    def family(name: str, help_text: str) -> str:
        sheet.family(f"vllm:{name}", "counter", help_text, base)
        return f"vllm:{name}"

    for name, help_text in _ALWAYS_ZERO:
        sheet.constant(family(name, help_text), 0)
    sheet.count(
        family("prefix_cache_queries_total", "Prefix cache queries, in number of queried tokens."),
        ends,
        steps["queries"],
    )
    sheet.count(
        family("prefix_cache_hits_total", "Prefix cache hits, in number of cached tokens."),
        ends,
        steps["hits"],
    )
    sheet.count(
        family("num_preemptions_total", "Cumulative number of preemption from the engine."),
        run.preemption_counter_times,
    )
    seen = ~np.isnan(run.column("first"))
    first = run.column("first")[seen]
    prompt, cached = run.column("prompt_tokens")[seen], run.column("cached")[seen]
    sheet.count(family("prompt_tokens_total", "Number of prefill tokens processed."), first, prompt)
    name = family("prompt_tokens_by_source_total", "Number of prompt tokens by source.")
    sheet.count(name, first, prompt - cached, source="local_compute")
    sheet.count(name, first, cached, source="local_cache_hit")
    sheet.constant(name, 0, source="external_kv_transfer")
    sheet.count(
        family("prompt_tokens_cached_total", "Number of cached prompt tokens (local + external)."),
        first,
        cached,
    )
    name = family("prompt_tokens_cached_by_source_total", "Prefix-cache hit tokens by the cache tier.")
    sheet.count(name, first, cached, source="device")
    for source in ("host", "p2p", "disk", "external_unspecified"):
        sheet.constant(name, 0, source=source)
    sheet.count(family("generation_tokens_total", "Number of generation tokens processed."), ends, steps["generated"])
    name = family("request_success_total", "Count of successfully processed requests.")
    ended = run.column("ended")
    for code, reason in enumerate(("stop", "length")):
        sheet.count(name, ended[run.outcome == code], finished_reason=reason)
    for reason in ("abort", "error", "repetition"):
        sheet.constant(name, 0, finished_reason=reason)
    name = "vllm:admission_rejections_total"
    sheet.family(name, "counter", "Number of admission attempts rejected by a queue limit.", model_only)
    for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
        sheet.constant(name, 0, reason=reason)
    if setting.draft_tokens:
        drafts = steps["drafts"]
        sheet.count(family("spec_decode_num_drafts_total", "Number of spec decoding drafts."), ends, drafts)
        sheet.count(
            family("spec_decode_num_draft_tokens_total", "Number of draft tokens."),
            ends,
            drafts * setting.draft_tokens,
        )
        sheet.count(
            family("spec_decode_num_accepted_tokens_total", "Number of accepted tokens."),
            ends,
            steps["accepted"],
        )
        name = family("spec_decode_num_accepted_tokens_per_pos_total", "Accepted tokens per draft position.")
        places = run.extra["accepted_by_place"]
        for place in range(setting.draft_tokens):
            sheet.count(name, ends, places[:, place], position=str(place))


def _histograms(sheet: Sheet, run: Run, setting: VllmSetting, layout: Layout, base: Labels) -> None:
    tokens = layout.tokens or one_two_five(setting.max_model_len)
    steps, gaps, finished = run.steps, run.gaps, run.finished
    ended = run.column("ended")[finished]

    def family(name: str, help_text: str) -> str:
        sheet.family(f"vllm:{name}", "histogram", help_text, base)
        return f"vllm:{name}"

    def of_finished(name: str, help_text: str, observed: str | np.ndarray, edges: tuple[float, ...]) -> None:
        values = run.column(observed) if isinstance(observed, str) else observed
        sheet.observe(family(name, help_text), ended, values[finished], edges)

    count = len(run.requests)
    prompt, cached, generated = (run.column(c) for c in ("prompt_tokens", "cached", "generated"))
    arrival, scheduled, first, last = (run.column(c) for c in ("arrival", "scheduled", "first", "last"))
    of_finished("request_prompt_tokens", "Number of prefill tokens processed.", prompt, tokens)
    of_finished("request_generation_tokens", "Number of generation tokens processed.", generated, tokens)
    output = steps["recorded"] >= 0
    sheet.observe(
        family("iteration_tokens_total", "Histogram of number of tokens per engine_step."),
        steps["end"][output],
        steps["recorded"][output],
        layout.iteration,
    )
    of_finished(
        "request_max_num_generation_tokens",
        "Maximum number of requested generation tokens.",
        generated,
        tokens,
    )
    of_finished("request_params_n", "Histogram of the n request parameter.", np.ones(count), (1, 2, 5, 10, 20))
    of_finished("request_params_max_tokens", "Histogram of the max_tokens request parameter.", "max_tokens", tokens)
    seen = ~np.isnan(first)
    sheet.observe(
        family("time_to_first_token_seconds", "Histogram of time to first token in seconds."),
        first[seen],
        (first - arrival)[seen],
        layout.ttft,
    )
    sheet.observe(
        family("inter_token_latency_seconds", "Histogram of inter-token latency in seconds."),
        gaps["end"],
        gaps["seconds"],
        layout.gap,
        gaps["count"],
    )
    decode = last - first
    per_token = np.where(generated > 1, decode / np.maximum(1.0, generated - 1), 0.0)
    of_finished(
        "request_time_per_output_token_seconds",
        "Decode time per output token, per request.",
        per_token,
        layout.gap,
    )
    times = (scheduled - arrival, first - scheduled, decode, last - scheduled, last - arrival)
    for name, observed in zip(_FINISHED, times, strict=True):
        of_finished(name, f"Histogram of {name.replace('_', ' ')}.", observed, layout.request)
    of_finished(
        "request_num_preemptions",
        "Number of times a request was preempted.",
        "preemptions",
        (1, 2, 3, 4, 5, 10, 20),
    )
    of_finished(
        "request_prefill_kv_computed_tokens",
        "New KV tokens computed during prefill (not cached ones).",
        prompt - cached,
        tokens,
    )
