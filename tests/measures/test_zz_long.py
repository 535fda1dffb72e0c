"""Whatever a page says: no traceback, no NaN, no value outside its limits, and the arithmetic of sums holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.model import EvidenceError, Options, Report, UsageError
from auditor.pipeline import audit_window
from auditor.saved import window_from_json, window_to_json
from tests.captures.support import check_limits
from tests.measures.pages import counter, gauge, histogram, report, target, window

SLOW = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
TIMES = (0.3, 1.0, 5.0, 60.0)
LENGTHS = (1.0, 10.0, 100.0, 1000.0)
STEPS = (1.0, 8.0, 256.0, 2048.0, 16384.0)

amounts = st.integers(0, 10**6).map(float)
small = st.integers(0, 60).map(float)


@st.composite
def spread(draw: st.DrawFn, edges: tuple[float, ...]) -> tuple[list[float], float]:
    """Observations by bucket, and a sum that they can have."""
    counts = [draw(small) for _ in edges]
    lows = (0.0, *edges[:-1])
    least, most = (sum(n * e for n, e in zip(counts, x, strict=True)) for x in (lows, edges))
    return counts, least + (most - least) * draw(st.floats(0.01, 1))


@st.composite
def work(draw: st.DrawFn) -> dict[str, Any]:
    """What an engine did in some time: amounts to be added to its counters."""
    done = draw(st.integers(0, 50))
    length = draw(st.integers(0, done))
    prompt = draw(amounts)
    computed = draw(st.floats(0, 1)) * prompt
    times = {}
    for name in ("queue", "prefill", "decode"):
        times[name] = draw(spread(TIMES))
    return {
        "prompt_tokens": prompt,
        "generation_tokens": draw(amounts),
        "computed": float(int(computed)),
        "queries": draw(amounts),
        "hits": draw(amounts),
        "preemptions": draw(st.sampled_from([0.0, 0.0, 0.0, 2.0])),
        "length": float(length),
        "stop": float(done - length),
        "times": times,
        "prompts": draw(spread(LENGTHS)),
        "answers": draw(spread(LENGTHS)),
        "caps": draw(spread(LENGTHS)),
        "steps": draw(spread(STEPS)),
        "first": draw(spread(TIMES)),
        "gaps": draw(spread(TIMES)),
        "running": draw(st.integers(0, 8)),
        "usage": draw(st.floats(0, 1)),
    }


EMPTY: dict[str, Any] = {
    **dict.fromkeys(
        ("prompt_tokens", "generation_tokens", "computed", "queries", "hits", "preemptions", "length", "stop"), 0.0
    ),
    "times": {n: ([0.0] * 4, 0.0) for n in ("queue", "prefill", "decode")},
    **{n: ([0.0] * 4, 0.0) for n in ("prompts", "answers", "caps", "first", "gaps")},
    "steps": ([0.0] * 5, 0.0),
    "running": 0,
    "usage": 0.0,
}


def add(a: Any, b: Any) -> Any:
    if isinstance(a, dict):
        return {k: b[k] if k in ("running", "usage") else add(a[k], b[k]) for k in a}
    if isinstance(a, list | tuple):
        return type(a)(add(x, y) for x, y in zip(a, b, strict=True))
    return a + b


def scale(a: Any, k: float) -> Any:
    if isinstance(a, dict):
        return {n: v if n in ("running", "usage") else scale(v, k) for n, v in a.items()}
    if isinstance(a, list | tuple):
        return type(a)(scale(x, k) for x in a)
    return a * k


def text(w: dict[str, Any], engine: str = "0") -> str:
    """The page of an engine that has done ``w`` since it started."""
    labels = f'engine="{engine}",model_name="m"'

    def h(name: str, edges: tuple[float, ...], found: tuple[list[float], float]) -> str:
        return histogram(name, dict(zip(edges, found[0], strict=True)), found[1], labels)

    out = [counter(n, w[n], labels) for n in ("prompt_tokens", "generation_tokens")]
    out += [
        counter("prompt_tokens_by_source", v, f'{labels},source="{s}"')
        for s, v in (("local_compute", w["computed"]), ("local_cache_hit", w["prompt_tokens"] - w["computed"]))
    ]
    out += [counter("request_success", w[r], f'{labels},finished_reason="{r}"') for r in ("length", "stop")]
    out += [
        counter("num_preemptions", w["preemptions"], labels),
        counter("prefix_cache_queries", w["queries"], labels),
        counter("prefix_cache_hits", w["hits"], labels),
    ]
    out += [h(f"request_{n}_time_seconds", TIMES, w["times"][n]) for n in w["times"]]
    out += [
        h("request_prompt_tokens", LENGTHS, w["prompts"]),
        h("request_generation_tokens", LENGTHS, w["answers"]),
        h("request_params_max_tokens", LENGTHS, w["caps"]),
        h("iteration_tokens_total", STEPS, w["steps"]),
        h("time_to_first_token_seconds", TIMES, w["first"]),
        h("inter_token_latency_seconds", TIMES, w["gaps"]),
    ]
    out += [
        gauge("num_requests_running", w["running"], labels),
        gauge("kv_cache_usage_perc", w["usage"], labels),
        gauge(
            "cache_config_info",
            1,
            f'engine="{engine}",block_size="16",enable_prefix_caching="True",'
            'kv_cache_size_tokens="4096",kv_cache_max_concurrency="2.0"',
        ),
    ]
    # TYPE lines may stand once a page only in the strict formats; ours are per engine, as several workers print them.
    return "".join(out)


def checked(found: Report) -> Report:
    json.dumps(found.to_json(), allow_nan=False)
    for s in found.subjects:
        check_limits(s.readings.values())
        for v in s.audits:
            assert v.verdict != "error", v
    return found


def values(found: Report) -> dict[str, tuple[str, float | None]]:
    (s,) = found.subjects
    return {n: (r.state, r.value) for n, r in s.readings.items()}


@SLOW
@given(work(), work(), st.sampled_from([None, 4.0, 256.0, 8192.0]))
def test_any_page_gives_a_report_within_limits(a: dict[str, Any], b: dict[str, Any], budget: float | None) -> None:
    known = {} if budget is None else {"budget": budget}
    checked(report(text(a), **known))
    checked(report(text(a), text(add(a, b)), seconds=60.0, **known))


SHARES = (
    "prefill_share",
    "decode_share",
    "queue_share",
    "length_share",
    "stop_share",
    "prefix_hit_share",
    "lookup_hit_share",
    "query_inflation",
    "prompt_per_generated_token",
    "mean_decode_seconds",
    "unfinished_prompt_share",
    "preemptions_per_request",
    "tokens_per_output_event",
)


@SLOW
@given(work(), st.sampled_from([2.0, 7.0, 1000.0]))
def test_scaling_all_counters_leaves_every_share(w: dict[str, Any], k: float) -> None:
    one, many = values(report(text(EMPTY), text(w))), values(report(text(EMPTY), text(scale(w, k))))
    for name in SHARES:
        assert one[name][0] == many[name][0], name
        assert one[name][1] == (None if many[name][1] is None else pytest.approx(many[name][1], rel=1e-9)), name


ADD_UP = (
    "finished_requests",
    "prompt_tokens",
    "generation_tokens",
    "computed_prompt_tokens",
    "prefill_seconds",
    "decode_seconds",
    "queue_seconds",
    "first_tokens",
    "preemptions",
    "steps",
    "finished_prompt_tokens",
    "finished_generation_tokens",
    "unfinished_prompt_tokens",
    "unmatched_first_tokens",
)


@SLOW
@given(work(), work(), work())
def test_two_halves_are_the_whole(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    start, middle, end = text(a), text(add(a, b)), text(add(add(a, b), c))
    whole, first, second = (values(report(*p)) for p in ((start, end), (start, middle), (middle, end)))
    series = values(report(start, middle, end))
    for name in ADD_UP:
        x, y, z = whole[name][1], first[name][1], second[name][1]
        assert x is not None
        assert y is not None
        assert z is not None
        assert x == pytest.approx(y + z, rel=1e-9, abs=1e-6), name
    # Every page between the ends changes levels and bursts, and no sum or share.
    for name in (*ADD_UP, *SHARES):
        assert series[name] == whole[name], name


@SLOW
@given(work(), work())
def test_merging_two_engines_is_reading_both(a: dict[str, Any], b: dict[str, Any]) -> None:
    """One page of two engines, two pages of one engine each, and the sum of the two say the same."""
    one_page = audit_window(window(target(text(a, "0") + text(b, "1"))), Options())
    two_pages = audit_window(window(target(text(a), address="a"), target(text(b), address="b")), Options())
    total = report(text(add(a, b)))
    together, apart, added = values(one_page), values(two_pages), values(total)
    for name in (*ADD_UP, *SHARES):
        assert together[name] == apart[name], name
        assert together[name][0] == added[name][0], name
        assert together[name][1] == (None if added[name][1] is None else pytest.approx(added[name][1], rel=1e-9)), name
    assert together["kv_pool_tokens"][1] == apart["kv_pool_tokens"][1] == 8192
    checked(one_page)
    checked(two_pages)
    by_rank = audit_window(window(target(text(a, "0") + text(b, "1"))), Options(by="rank"))
    assert [s.readings["prompt_tokens"].value for s in by_rank.subjects] == [a["prompt_tokens"], b["prompt_tokens"]]


NAMES = (
    "prompt_tokens_total",
    "generation_tokens_total",
    "request_success_total",
    "num_requests_running",
    "kv_cache_usage_perc",
    "iteration_tokens_total_bucket",
    "iteration_tokens_total_sum",
    "iteration_tokens_total_count",
    "request_prefill_time_seconds_bucket",
    "request_prefill_time_seconds_sum",
    "request_prefill_time_seconds_count",
    "request_decode_time_seconds_sum",
    "request_decode_time_seconds_count",
    "request_inference_time_seconds_sum",
    "request_inference_time_seconds_count",
    "e2e_request_latency_seconds_sum",
    "e2e_request_latency_seconds_count",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "prompt_tokens_by_source_total",
    "request_params_n_sum",
    "request_params_n_count",
    "request_prompt_tokens_sum",
    "request_prompt_tokens_bucket",
    "prompt_tokens_created",
    "time_to_first_token_seconds_count",
    "inter_token_latency_seconds_count",
    "inter_token_latency_seconds_sum",
    "spec_decode_num_drafts_total",
    "spec_decode_num_accepted_tokens_total",
    "cache_config_info",
    "num_requests_waiting_by_reason",
    "estimated_flops_per_gpu_total",
    "request_generation_tokens_sum",
)
ODD_VALUES = (
    "0",
    "1",
    "-1",
    "1e+06",
    "NaN",
    "+Inf",
    "-Inf",
    "1e300",
    "1.7976931348623157e308",
    "5e-324",
    "0.5",
    "12345678901234567890",
)
ODD_LABELS = (
    'le="0.5"',
    'le="+Inf"',
    'le="x"',
    'le="NaN"',
    'le="-1"',
    'model_name=""',
    'model_name="[b]x[/b]"',
    'engine="1"',
    'pid="7"',
    'source="local_compute"',
    'finished_reason="length"',
    'block_size="0"',
    'block_size="abc"',
    'kv_cache_size_tokens="inf"',
    'kv_cache_max_concurrency="1e-300"',
    'model_name="\\u001b[31m"',
)


@st.composite
def nonsense(draw: st.DrawFn) -> str:
    """Lines that are legal one by one and make no sense together."""
    lines = {}
    for _ in range(draw(st.integers(1, 30))):
        name = "vllm:" + draw(st.sampled_from(NAMES))
        labels = {t.partition("=")[0]: t for t in draw(st.lists(st.sampled_from(ODD_LABELS), max_size=4))}
        lines[f"{name}{{{','.join(sorted(labels.values()))}}}"] = draw(st.sampled_from(ODD_VALUES))
    kinds = draw(
        st.sampled_from(["", "# TYPE vllm:iteration_tokens_total histogram\n# TYPE vllm:prompt_tokens counter\n"])
    )
    return kinds + "".join(f"{k} {v}\n" for k, v in lines.items())


@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(nonsense(), min_size=1, max_size=4), st.sampled_from(["model", "rank", "target", "all"]))
def test_nonsense_gives_reasons_and_no_traceback(pages: list[str], by: str) -> None:
    options = Options(by=by, slo={"ttft_seconds": 1.0}, claims={"prefill_rate": 1860.0})
    try:
        found = target(*pages)
    except (EvidenceError, UsageError):
        return
    gathered = window(found, seconds=10.0, budget=256.0)
    result = checked(audit_window(gathered, options))
    document = json.loads(json.dumps(window_to_json(gathered, tool="test"), allow_nan=False))
    again = audit_window(window_from_json(document, name="window.json"), options)
    assert again.to_json() == result.to_json()
