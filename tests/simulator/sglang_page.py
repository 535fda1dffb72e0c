"""What SGLang 0.5.23 exports of a run: names, labels, buckets and the moments at which each series moves.

Names and edges are those of pages recorded from SGLang 0.5.23 (``fixtures/sglang``). Every request streams.
A client that hangs up while its request runs is still counted among the requests (the recorded page with five
disconnects does so); one that hangs up in the queue is not. Series appear with their first event.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .cost import Floats
from .layouts import SGLANG, Edges, Layout
from .record import Run
from .settings import SglangSetting
from .snapshot import Labels, Sheet, Snapshot, as_times

_ZERO_GAUGES = (
    ("num_grammar_queue_reqs", "The number of requests in the grammar waiting queue."),
    ("swa_token_usage", "The token usage for SWA layers."),
    ("mamba_usage", "The token usage for Mamba layers."),
    ("spec_accept_length", "Mean acceptance length of speculative decoding."),
    ("spec_accept_rate", "Speculative acceptance rate."),
    ("utilization", "The utilization."),
)


def sglang_snapshots(
    run: Run, times: Sequence[float], *, layout: Layout = SGLANG, model: str = "sim"
) -> list[Snapshot]:
    """What scrapes of the run at ``times`` (seconds of the run, in order) read."""
    setting: SglangSetting = run.setting
    sheet = Sheet(as_times(times))
    request: Labels = (("engine_type", "unified"), ("model_name", model))
    scheduler: Labels = (*request, ("moe_ep_rank", "0"), ("pp_rank", "0"), ("tp_rank", "0"))
    _gauges(sheet, run, setting, scheduler)
    _scheduler_counters(sheet, run, scheduler)
    _request_series(sheet, run, layout, request)
    _stages(sheet, run, layout, scheduler)
    return sheet.cut(created_unix=None)


def _gauges(sheet: Sheet, run: Run, setting: SglangSetting, base: Labels) -> None:
    steps, ends = run.steps, run.steps["end"]
    pool = setting.pool_tokens

    def constant(name: str, value: float, help_text: str) -> None:
        sheet.family(f"sglang:{name}", "gauge", help_text, base)
        sheet.constant(f"sglang:{name}", value)

    def gauge(name: str, column: Floats, help_text: str, *, before: float = 0.0) -> None:
        sheet.family(f"sglang:{name}", "gauge", help_text, base)
        sheet.gauge(f"sglang:{name}", ends, column, before=before)

    constant("max_total_num_tokens", pool, "Maximum total number of tokens in the KV cache pool.")
    constant("page_size", 1, "KV cache page size in tokens.")
    constant("num_pages", pool, "Number of KV cache pages.")
    constant("context_len", setting.max_model_len, "Maximum context length.")
    for name, help_text in _ZERO_GAUGES:
        constant(name, 0, help_text)
    used = steps["used_blocks"]
    usage = np.round(used / pool, 2)
    gauge("num_running_reqs", steps["running"], "The number of running requests.")
    gauge("num_queue_reqs", steps["waiting"], "The number of requests in the waiting queue.")
    gauge("token_usage", usage, "The token usage.")
    gauge("full_token_usage", usage, "The token usage for full attention layers.")
    gauge("num_used_tokens", used, "The number of used tokens.")
    gauge("kv_used_tokens", used, "Number of actively used token slots in the KV cache pool.")
    gauge("kv_available_tokens", pool - used, "Number of free token slots in the KV cache pool.", before=pool)
    gauge("kv_evictable_tokens", 0 * used, "Number of evictable token slots in the KV cache pool.")
    ends_of, cached, computed = run.extra["prefills"].T[:3]
    sheet.family("sglang:cache_hit_rate", "gauge", "The prefix cache hit rate.", base)
    sheet.gauge("sglang:cache_hit_rate", ends_of, cached / np.maximum(1, cached + computed))


def _scheduler_counters(sheet: Sheet, run: Run, base: Labels) -> None:
    prefills, passes = run.extra["prefills"], run.extra["passes"]

    def family(name: str, help_text: str, *, always: bool = False) -> str:
        sheet.family(f"sglang:{name}", "counter", help_text, base, lazy=not always)
        return f"sglang:{name}"

    ends_of, cached, computed, cached_again, computed_again = prefills.T
    name = family("prefill_effective_tokens_total", "Prefill tokens, retracted requests left out.", always=True)
    sheet.count(name, ends_of, computed - computed_again, mode="input")
    sheet.count(name, ends_of, cached - cached_again, mode="device_hit")
    for mode in ("host_hit", "storage_hit"):
        sheet.constant(name, 0, mode=mode)
    name = family("cuda_graph_passes_total", "Total number of forward passes categorized by CUDA graph.")
    sheet.count(name, passes["prefill"], mode="prefill_none")
    sheet.count(name, passes["decode"], mode="decode_none")
    name = family("realtime_tokens_total", "Total number of tokens processed (updated on each log interval).")
    sheet.count(name, ends_of, computed, mode="prefill_compute")
    sheet.count(name, ends_of, cached, mode="prefill_cache")
    sheet.count(name, run.steps["end"], run.steps["streams"], mode="decode")
    at, inputs, outputs = run.extra["retractions"].T
    sheet.count(family("num_retracted_requests_total", "Total number of retracted requests."), at)
    sheet.count(family("num_retracted_input_tokens_total", "Retracted input tokens."), at, inputs)
    sheet.count(family("num_retracted_output_tokens_total", "Retracted output tokens."), at, outputs)


def _request_series(sheet: Sheet, run: Run, layout: Layout, base: Labels) -> None:
    first, last, ended = (run.column(c) for c in ("first", "last", "ended"))
    prompt, cached, generated = (run.column(c) for c in ("prompt_tokens", "cached", "generated"))
    arrival = run.column("arrival")
    seen = ~np.isnan(first)
    counted = seen & ~np.isnan(ended)

    def counter(name: str, help_text: str) -> str:
        sheet.family(f"sglang:{name}", "counter", help_text, base, lazy=True)
        return f"sglang:{name}"

    def histogram(name: str, help_text: str) -> str:
        sheet.family(f"sglang:{name}", "histogram", help_text, base, lazy=True)
        return f"sglang:{name}"

    end = ended[counted]
    sheet.count(counter("prompt_tokens_total", "Number of prefill tokens processed."),
                end, prompt[counted], is_streaming="true")  # fmt: skip
    sheet.count(counter("generation_tokens_total", "Number of generation tokens processed."),
                end, generated[counted], is_streaming="true")  # fmt: skip
    sheet.count(counter("num_requests_total", "Number of requests processed."), end, is_streaming="true")
    sheet.count(counter("num_aborted_requests_total", "Number of requests aborted."), ended[run.outcome == 2])
    sheet.count(counter("cached_tokens_total", "Number of cached prompt tokens by source."),
                end, cached[counted], cache_source="device")  # fmt: skip

    sheet.observe(histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds."),
                  first[seen], (first - arrival)[seen], layout.ttft, is_streaming="true")  # fmt: skip
    sheet.observe(histogram("e2e_request_latency_seconds", "Histogram of end-to-end latency in seconds"),
                  end, (ended - arrival)[counted], layout.request, is_streaming="true")  # fmt: skip
    several = run.finished & (generated > 1)
    sheet.observe(histogram("request_time_per_output_token_seconds", "Per-request TPOT in seconds."),
                  ended[several], ((last - first) / np.maximum(1, generated - 1))[several], layout.gap,
                  is_streaming="true")  # fmt: skip

    def tokens(name: str, help_text: str, column: Floats, edges: Edges) -> None:
        sheet.observe(histogram(name, help_text), end, column[counted], edges)

    tokens("prompt_tokens_histogram", "Histogram of prompt token length.", prompt, layout.tokens)
    tokens("uncached_prompt_tokens_histogram", "Histogram of uncached prompt token length.",
           prompt - cached, layout.tokens)  # fmt: skip
    tokens("generation_tokens_histogram", "Histogram of generation token length.", generated, layout.tokens)
    gaps = run.gaps
    sheet.observe(histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds."),
                  gaps["end"], gaps["seconds"], layout.gap, gaps["count"])  # fmt: skip


def _stages(sheet: Sheet, run: Run, layout: Layout, base: Labels) -> None:
    arrival, scheduled, first = (run.column(c) for c in ("arrival", "scheduled", "first"))
    name = "sglang:per_stage_req_latency_seconds"
    sheet.family(name, "histogram", "The latency of each stage of requests.", base, lazy=True)
    entered, seen = ~np.isnan(scheduled), ~np.isnan(first)
    sheet.observe(name, first[seen], (first - scheduled)[seen], layout.stage, stage="prefill_forward")
    ends, seconds = run.extra["cut_chunks"].T
    sheet.observe(name, ends, seconds, layout.stage, stage="chunked_prefill")
    name = "sglang:queue_time_seconds"
    sheet.family(name, "histogram", "Histogram of queueing time in seconds.", base, lazy=True)
    sheet.observe(name, scheduled[entered], (scheduled - arrival)[entered], layout.queue)
