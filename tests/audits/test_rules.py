"""The rule of each audit, on figures worked out by hand: thresholds, facts, events, and what is not applicable."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Options
from tests.audits.running import histogram, judge, read

# --------------------------------------------------------------------------- queueing


def queued(total: float, n: int = 200, **gauges: Any) -> dict[str, Any]:
    """n requests with 0.2 s of prefill and 1.6 s of decode each, and ``total`` seconds in the queue."""
    return {
        "queue_seconds": histogram(0.3 if total / n <= 0.3 else 5.0, n, total),
        "prefill_seconds": histogram(0.3, n, 0.2 * n),
        "decode_seconds": histogram(2.0, n, 1.6 * n),
        "inference_seconds": histogram(2.5, n, 1.8 * n),
        "finished_requests": {"stop": n},
        **gauges,
    }


def test_queueing_holds_below_a_tenth() -> None:
    v = judge("queueing", queued(8.0))
    assert v.verdict == "holds"  # 8 of 368 s = 2.17 %
    assert v.summary.startswith("2.2 % of request time")


def test_queueing_is_broken_above_a_tenth() -> None:
    v = judge("queueing", queued(240.0))
    assert v.verdict == "broken"  # 240 of 600 s = 40 %
    assert v.severity == "warning"
    assert v.summary.startswith("40 % of request time")


def test_queueing_needs_requests() -> None:
    v = judge("queueing", queued(29.0, n=29))
    assert v.verdict == "undecided"
    assert "29 events" in v.summary


def test_queueing_is_undecided_where_the_interval_straddles_the_limit() -> None:
    # 40 of 400 s in the queue: exactly the limit, so some of the interval lies on either side.
    assert judge("queueing", queued(40.0)).verdict == "undecided"


# --------------------------------------------------------------------------- kv-pool


def pool(
    usage: tuple[float, ...], running: tuple[float, ...], waiting: tuple[float, ...], **more: Any
) -> dict[str, Any]:
    return {
        "finished_requests": {"stop": 100},
        "generation_tokens": 20_000.0,
        "preemptions": 0.0,
        "kv_usage": usage,
        "running_requests": running,
        "waiting_requests": waiting,
        **more,
    }


def test_kv_pool_holds_while_requests_run() -> None:
    v = judge("kv-pool", pool((0.5, 0.6), (4, 6), (0, 0)))
    assert v.verdict == "holds"
    assert "60 % used" in v.summary


def test_a_full_pool_with_nobody_waiting_is_not_a_limit() -> None:
    assert judge("kv-pool", pool((0.9, 0.97), (8, 8), (0, 0))).verdict == "holds"


@pytest.mark.parametrize(("usage", "waiting", "word"), [(0.95, 1, "broken"), (0.949, 1, "holds"), (0.95, 0, "holds")])
def test_kv_pool_threshold(usage: float, waiting: float, word: str) -> None:
    assert judge("kv-pool", pool((0.5, usage), (8, 8), (0, waiting))).verdict == word


@pytest.mark.parametrize(("preemptions", "word"), [(4, "holds"), (5, "broken")])
def test_kv_pool_is_broken_by_preemptions_in_five_of_a_hundred(preemptions: float, word: str) -> None:
    assert judge("kv-pool", pool((0.5, 0.6), (8, 8), (0, 0), preemptions=preemptions)).verdict == word


def test_kv_pool_is_a_problem_when_broken_and_breaks_on_few_requests() -> None:
    v = judge("kv-pool", pool((0.97, 0.98), (8, 8), (3, 3), finished_requests={"stop": 2}))
    assert v.verdict == "broken"
    assert v.severity == "problem"
    assert "kv_bound" in v.flags


def test_kv_pool_with_idle_gauges_is_undecided() -> None:
    v = judge("kv-pool", pool((0.0, 0.0), (0, 0), (0, 0)))
    assert v.verdict == "undecided"
    assert "nothing was running" in v.summary


def test_kv_pool_counts_what_ran_at_the_start() -> None:
    assert judge("kv-pool", pool((0.4, 0.0), (5, 0), (0, 0))).verdict == "holds"


def test_kv_pool_of_one_scrape_is_undecided_even_when_full() -> None:
    v = judge("kv-pool", pool((0.99, 0.99), (8, 8), (9, 9)), kind="lifetime")
    assert v.verdict == "undecided"
    assert "lifetime_only" in v.flags


def test_kv_pool_needs_requests_to_hold() -> None:
    v = judge("kv-pool", pool((0.5, 0.6), (4, 6), (0, 0), finished_requests={"stop": 29}))
    assert v.verdict == "undecided"
    # First tokens are events as well: long answers need not have finished.
    v = judge("kv-pool", pool((0.5, 0.6), (4, 6), (0, 0), finished_requests={"stop": 2},
                              ttft_seconds=histogram(1.0, 30, 3.0)))  # fmt: skip
    assert v.verdict == "holds"


def test_kv_pool_with_stale_gauges_is_undecided() -> None:
    still = pool((0.5, 0.5), (4, 4), (2, 2), finished_requests={"stop": 0}, generation_tokens=0.0)
    v = judge("kv-pool", still)
    assert v.verdict == "undecided"
    assert "gauges_stale" in v.flags


def test_the_drained_cluster_was_never_limited_by_its_pool() -> None:
    """Published: context varied fourfold, throughput moved 1.6 %, peak KV use about 50 %, drained afterwards."""
    series = pool((0.0, 0.31, 0.5, 0.42, 0.0), (0, 9, 14, 11, 0), (0, 0, 0, 0, 0))
    v = judge("kv-pool", series, kind="series", seconds=600.0)
    assert v.verdict == "holds"
    assert "50 % used at most" in v.summary
    assert "no limit binds: nothing waits at any scrape" in v.summary
    # The same cluster read only before and after the load says nothing.
    assert judge("kv-pool", pool((0.0, 0.0), (0, 0), (0, 0)), seconds=600.0).verdict == "undecided"


# --------------------------------------------------------------------------- which limit binds

BUSY = {"kv_usage": (0.4, 0.4), "finished_requests": {"stop": 200}}
# 4096 tokens of pool, prompts of at most 1000: at 40 % use 2457 tokens are free.
FITS = {
    "cache_config": {"kv_cache_size_tokens": "4096", "block_size": "16"},
    "prompt_length_tokens": histogram(1000.0, 200, 100_000.0),
}


def limit(settings: dict[str, float] | None = None, kind: str = "scrapes", **quantities: Any) -> tuple[str, str]:
    from auditor.audits._limits import find_binding_limit

    found = find_binding_limit(read(queued(8.0, **(BUSY | quantities)), settings=settings, kind=kind))
    return found.name, found.evidence


def test_nothing_waits_so_nothing_binds() -> None:
    assert limit(running_requests=(4, 5), waiting_requests=(0, 0))[0] == "none"


def test_an_idle_moment_does_not_tell() -> None:
    assert limit(running_requests=(0, 0), waiting_requests=(0, 0))[0] == "unknown"


def test_all_seats_taken_and_requests_waiting() -> None:
    name, evidence = limit({"seats": 8}, running_requests=(8, 8), waiting_requests=(2, 3))
    assert name == "seats"
    assert evidence == "seats bind: 3 waiting, 8 running of 8 seats"


def test_free_seats_and_free_blocks_leave_the_step_budget() -> None:
    name, evidence = limit({"seats": 32}, running_requests=(8, 8), waiting_requests=(2, 3), **FITS)
    assert name == "step_budget"
    assert "3 waiting, 8 running of 32 seats, KV use 40 %" in evidence


def test_a_prompt_longer_than_the_free_blocks_may_wait_for_the_pool() -> None:
    long = FITS | {"prompt_length_tokens": histogram(5000.0, 200, 600_000.0)}
    assert limit({"seats": 32}, running_requests=(8, 8), waiting_requests=(2, 3), **long)[0] == "unknown"


def test_without_seats_nobody_knows() -> None:
    assert limit(running_requests=(8, 8), waiting_requests=(2, 3))[0] == "unknown"


def test_a_full_pool_binds_before_seats() -> None:
    name, _ = limit({"seats": 8}, running_requests=(8, 8), waiting_requests=(2, 3), kv_usage=(0.9, 0.99))
    assert name == "kv_pool"


def test_what_waits_for_something_else_is_said() -> None:
    from auditor.audits._limits import find_binding_limit
    from auditor.model import Reading, Readings

    readings = read(queued(8.0, **BUSY, running_requests=(8, 8), waiting_requests=(3, 4)))
    deferred = Reading("waiting_deferred_share", "measured", "ratio", 0.75)
    changed = Readings(readings.labels, readings.window_kind, {**readings.values, deferred.name: deferred},
                       readings.flags, readings.settings, readings.facts)  # fmt: skip
    assert find_binding_limit(changed).name == "other"


def test_the_peak_of_a_series_counts_not_its_end() -> None:
    name, evidence = limit({"seats": 8}, kind="series", running_requests=(2, 8, 1), waiting_requests=(0, 3, 0))
    assert name == "seats"
    assert "at most 3 waiting" in evidence


# --------------------------------------------------------------------------- preemption


def preempted(count: float, done: float) -> dict[str, Any]:
    return {"preemptions": count, "finished_requests": {"stop": done}, "generation_tokens": 1000.0}


@pytest.mark.parametrize(
    ("count", "done", "word"),
    [
        (0, 30, "holds"),
        (0, 29, "undecided"),
        (1, 50_000, "holds"),
        (1, 100, "holds"),  # exactly one in a hundred
        (2, 199, "broken"),  # 1.005 %
        (1, 10, "broken"),  # a fact breaks at once
        (3, 0, "broken"),  # preempted, and nothing ever finished
        (0, 0, "undecided"),
    ],
)
def test_preemption(count: float, done: float, word: str) -> None:
    v = judge("preemption", preempted(count, done))
    assert v.verdict == word
    assert v.severity == ("problem" if word == "broken" else "info")


def test_preemption_of_one_scrape_is_undecided() -> None:
    v = judge("preemption", preempted(50, 100), kind="lifetime")
    assert v.verdict == "undecided"
    assert "since the engine's start" in v.summary


# --------------------------------------------------------------------------- speculation


def drafts(steps: float, accepted: float, each: float = 4.0) -> dict[str, Any]:
    return {
        "drafts": steps,
        "drafted_tokens": steps * each,
        "accepted_tokens": accepted,
        "generation_tokens": steps + accepted,
        "finished_requests": {"stop": 50},
    }


@pytest.mark.parametrize(
    ("accepted", "word"),
    [(50, "holds"), (49, "broken"), (300, "holds"), (0, "broken")],  # 100 steps: 1.5, 1.49, 4.0 and 1.0 tokens a step
)
def test_speculation_threshold(accepted: float, word: str) -> None:
    v = judge("speculation", drafts(100, accepted))
    assert v.verdict == word
    assert v.severity == ("warning" if word == "broken" else "info")


def test_speculation_needs_draft_steps() -> None:
    assert judge("speculation", drafts(29, 100)).verdict == "undecided"
    assert judge("speculation", drafts(30, 100)).verdict == "holds"


def test_speculation_without_a_drafter_is_not_applicable() -> None:
    assert judge("speculation", {"generation_tokens": 100.0}).verdict == "not_applicable"


def test_speculation_without_a_draft_step_is_undecided() -> None:
    v = judge("speculation", drafts(0, 0) | {"generation_tokens": 100.0})
    assert v.verdict == "undecided"


def test_speculation_says_that_the_gain_depends_on_the_batch() -> None:
    assert "depends on the batch" in judge("speculation", drafts(100, 150)).summary


# --------------------------------------------------------------------------- request-accounting


def accounted(
    reasons: float = 100, e2e: float = 100, timed: float = 100, first: float = 100,
    running: tuple[float, float] = (0, 0), **more: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "finished_requests": {"stop": reasons, "abort": 0.0},
        "e2e_seconds": histogram(10.0, e2e, 5.0 * e2e),
        "inference_seconds": histogram(10.0, timed, 4.0 * timed),
        "ttft_seconds": histogram(1.0, first, 0.5 * first),
        "running_requests": running,
        "generation_tokens": 1000.0,
        **more,
    }


@pytest.mark.parametrize(
    ("figures", "word"),
    [
        ({}, "holds"),
        ({"timed": 98}, "holds"),  # 2 % apart
        ({"timed": 97}, "broken"),  # 3 %
        ({"reasons": 405, "e2e": 405, "timed": 401, "first": 405}, "holds"),  # the published page: 1 %
        ({"first": 102}, "holds"),  # 2 unmatched, 2.04 allowed
        ({"first": 103}, "broken"),  # 3 unmatched, 2.06 allowed
        ({"first": 110, "running": (2, 6)}, "holds"),  # 10 unmatched, 8 + 2.2 allowed
        ({"first": 112, "running": (2, 6)}, "broken"),  # 12 unmatched, 8 + 2.24 allowed
        ({"first": 95, "running": (4, 0)}, "holds"),  # 5 began earlier: 4 ran at the start, 1.9 allowed
        ({"reasons": 29, "e2e": 29, "timed": 29, "first": 29}, "undecided"),
        ({"reasons": 29, "e2e": 29, "timed": 28, "first": 29}, "undecided"),  # one request is within the tolerance
        ({"reasons": 10, "e2e": 10, "timed": 7, "first": 10}, "broken"),  # a fact breaks at once
        ({"reasons": 50_000, "e2e": 50_000, "timed": 49_999, "first": 50_001}, "holds"),
    ],
)
def test_request_accounting(figures: dict[str, Any], word: str) -> None:
    v = judge("request-accounting", accounted(**figures))
    assert v.verdict == word, v.summary
    assert v.severity == ("warning" if word == "broken" else "info")


def test_requests_that_failed_without_a_first_token_are_accounted() -> None:
    aborted = accounted(reasons=0, e2e=100, timed=100, first=80, finished_requests={"stop": 80, "abort": 20})
    assert judge("request-accounting", aborted).verdict == "holds"
    errors = accounted(e2e=100, timed=100, first=90, finished_requests={"stop": 90, "abort": 0, "error": 10})
    assert judge("request-accounting", errors).verdict == "holds"
    # Twenty that stopped as they should had a first token, so twenty are missing from the page.
    assert judge("request-accounting", accounted(first=80)).verdict == "broken"


def test_idle_is_no_account() -> None:
    assert judge("request-accounting", accounted(0, 0, 0, 0)).verdict == "undecided"


def test_without_first_tokens_lost_prompts_tell() -> None:
    """The page of public report 02: 3,010 prompt tokens, no request finished, nothing runs."""
    lost = {
        "prompt_tokens": 3010.0,
        "generation_tokens": 40.0,
        "finished_requests": {"stop": 0, "length": 0, "abort": 0},
        "prompt_length_tokens": histogram(2000.0, 0, 0.0),
        "running_requests": (0, 0),
    }
    v = judge("request-accounting", lost)
    assert v.verdict == "broken"
    assert "3,010 prompt tokens (100 %)" in v.summary
    assert judge("request-accounting", lost | {"running_requests": (0, 5)}).verdict == "undecided"


# --------------------------------------------------------------------------- engine-liveness


def alive(tokens: float, done: float, running: tuple[float, float], prompt: float = 0.0) -> dict[str, Any]:
    return {
        "generation_tokens": tokens,
        "prompt_tokens": prompt,
        "finished_requests": {"stop": done},
        "running_requests": running,
    }


@pytest.mark.parametrize(
    ("figures", "seconds", "word"),
    [
        (alive(9000, 45, (6, 8)), 60.0, "holds"),
        (alive(479, 0, (8, 8)), 60.0, "broken"),  # 8 running x 60 s = 480 tokens are due
        (alive(480, 0, (8, 8)), 60.0, "holds"),
        (alive(10, 1, (8, 8)), 60.0, "holds"),  # one finished: it makes tokens
        (alive(100, 0, (8, 8)), 29.0, "holds"),  # too short a window to speak of starvation
        (alive(100, 0, (8, 0)), 60.0, "holds"),  # nothing runs at the end
        (alive(3, 0, (8, 8)), 10.0, "undecided"),
        (alive(0, 0, (0, 0)), 60.0, "undecided"),  # idle
        (alive(0, 0, (8, 8)), 60.0, "undecided"),  # frozen gauges: stale, or an engine that hangs
    ],
)
def test_engine_liveness(figures: dict[str, Any], seconds: float, word: str) -> None:
    v = judge("engine-liveness", figures, seconds=seconds)
    assert v.verdict == word, v.summary
    assert v.severity == ("problem" if word == "broken" else "info")


def test_frozen_gauges_are_said_to_be_stale() -> None:
    v = judge("engine-liveness", alive(0, 0, (8, 8)))
    assert "gauges_stale" in v.flags
    assert "no_traffic" in v.flags
    assert "stale gauges, or an engine that hangs" in v.summary
    assert "idle" not in v.summary


def test_one_scrape_shows_no_pulse() -> None:
    assert judge("engine-liveness", alive(9000, 45, (6, 8)), kind="lifetime").verdict == "undecided"


def test_starvation_is_asked_of_the_requests_that_ran_throughout() -> None:
    # 4 at the start and 8 at the end: 4 x 60 = 240 tokens are due.
    assert judge("engine-liveness", alive(239, 0, (4, 8))).verdict == "broken"
    assert judge("engine-liveness", alive(240, 0, (4, 8))).verdict == "holds"


# --------------------------------------------------------------------------- metrics-integrity


def times(p: float, d: float, inference: float, e2e: float, n: float = 200, **more: Any) -> dict[str, Any]:
    return {
        "finished_requests": {"stop": n},
        "prefill_seconds": histogram(10.0, n, p),
        "decode_seconds": histogram(10.0, n, d),
        "inference_seconds": histogram(20.0, n, inference),
        "e2e_seconds": histogram(20.0, n, e2e),
        **more,
    }


@pytest.mark.parametrize(
    ("figures", "word"),
    [
        (times(40, 360, 400, 410), "holds"),
        (times(40, 360, 402, 410), "holds"),  # 0.5 % apart
        (times(40, 360, 404, 410), "broken"),  # 1 % apart
        (times(40, 360, 400, 397), "broken"),  # inference outlasts what contains it, by more than 0.5 %
        (times(40, 360, 400, 410, n=29), "undecided"),
        (times(40, 360, 480, 490, n=5), "undecided"),  # 20 % apart, which one of five requests may be
        (times(40, 360, 520, 530, n=5), "broken"),  # 30 % of five requests is more than one
    ],
)
def test_metrics_integrity(figures: dict[str, Any], word: str) -> None:
    v = judge("metrics-integrity", figures)
    assert v.verdict == word, v.summary
    assert v.severity == ("problem" if word == "broken" else "info")


def test_sources_that_do_not_add_up_break_it() -> None:
    whole = times(40, 360, 400, 410, prompt_tokens=10_000.0)
    right = whole | {"prompt_tokens_by_source": {"local_compute": 6000.0, "local_cache_hit": 4000.0}}
    assert judge("metrics-integrity", right).verdict == "holds"
    wrong = whole | {"prompt_tokens_by_source": {"local_compute": 6000.0, "local_cache_hit": 3000.0}}
    v = judge("metrics-integrity", wrong)
    assert v.verdict == "broken"
    assert "prompt tokens by source" in v.summary


def test_nothing_to_add_up_is_undecided() -> None:
    v = judge("metrics-integrity", {"generation_tokens": 5000.0, "prompt_tokens": 5000.0})
    assert v.verdict == "undecided"
    assert "not one identity" in v.summary


# --------------------------------------------------------------------------- role


def came_from(external: float, local: float, n: float = 100) -> dict[str, Any]:
    return {
        "finished_requests": {"stop": n},
        "prompt_tokens": external + local,
        "prompt_tokens_by_source": {"local_compute": local, "local_cache_hit": 0.0, "external_kv_transfer": external},
    }


@pytest.mark.parametrize(
    ("external", "local", "word"),
    [(0, 1000, "holds"), (499, 501, "holds"), (500, 500, "broken"), (990, 10, "broken"), (0, 0, "undecided")],
)
def test_role(external: float, local: float, word: str) -> None:
    v = judge("role", came_from(external, local))
    assert v.verdict == word
    assert v.severity == ("warning" if word == "broken" else "info")


def test_a_decode_node_is_called_one() -> None:
    v = judge("role", came_from(960, 40))
    assert "decode_node" in v.flags
    assert "a decode node" in v.summary


def test_role_needs_requests() -> None:
    assert judge("role", came_from(990, 10, n=29)).verdict == "undecided"


def test_a_prefill_node_breaks_at_once() -> None:
    capped = came_from(0, 1000, n=5) | {
        "cap_tokens": histogram(1.0, 5, 5.0),
        "kv_transfer_seconds": histogram(1.0, 5, 1.0),
    }
    v = judge("role", capped)
    assert v.verdict == "broken"
    assert "prefill_node" in v.flags
    # A classifier behind no connector caps at one token too.
    del capped["kv_transfer_seconds"]
    assert judge("role", capped | {"finished_requests": {"stop": 50}}).verdict == "holds"


def test_role_without_sources_is_not_applicable() -> None:
    assert judge("role", {"prompt_tokens": 1000.0, "finished_requests": {"stop": 50}}).verdict == "not_applicable"


# --------------------------------------------------------------------------- length-truncation


def answers(length: float, stop: float, caps: dict[float, float] | None = None, **more: Any) -> dict[str, Any]:
    out: dict[str, Any] = {"finished_requests": {"length": length, "stop": stop, "abort": 0.0}, **more}
    if caps:
        n = sum(caps.values())
        out["cap_tokens"] = {"buckets": caps, "sum": sum(edge * k for edge, k in caps.items()), "count": n}
    return out


@pytest.mark.parametrize(
    ("length", "stop", "word"),
    [(8, 392, "holds"), (280, 125, "broken"), (40, 360, "undecided"), (20, 5, "undecided"), (3, 0, "undecided")],
)
def test_length_truncation(length: float, stop: float, word: str) -> None:
    v = judge("length-truncation", answers(length, stop))
    assert v.verdict == word
    assert v.severity == ("problem" if word == "broken" else "info")


def test_a_benchmark_is_asked_about_also_when_its_caps_are_short() -> None:
    for cap in (20.0, 200.0):
        bench = answers(40, 0, {cap: 40}, output_length_tokens=histogram(cap, 40, 40 * cap))
        v = judge("length-truncation", bench)
        assert v.verdict == "undecided"
        assert "a benchmark?" in v.summary
        assert v.summary.startswith("100 % cut by length")
        assert "no limit" not in v.summary
        # One token less somewhere: no benchmark's design. Long answers were cut; short ones are probes.
        odd = bench | {"output_length_tokens": histogram(cap, 40, 40 * cap - 1)}
        assert judge("length-truncation", odd).verdict == ("broken" if cap == 200.0 else "undecided")


def test_only_probes_leave_no_answer_to_judge() -> None:
    v = judge("length-truncation", answers(30, 10, {20.0: 40}))
    assert v.verdict == "undecided"
    assert "every request asked for at most 50 tokens" in v.summary
    assert "no limit" not in v.summary


def test_aborted_requests_are_in_no_share() -> None:
    v = judge("length-truncation", {"finished_requests": {"length": 0, "stop": 40, "abort": 400}})
    assert v.verdict == "holds"
    assert "0 of 40" in v.summary


# --------------------------------------------------------------------------- derived-rates


def rates(prompt: float, computed: float, prefill: float, n: float = 100) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "computed_prompt_length_tokens": histogram(1000.0, n, computed),
        "prefill_seconds": histogram(5.0, n, prefill),
        "finished_requests": {"stop": n},
    }


@pytest.mark.parametrize(
    ("prefill", "word"),
    # 60,000 tokens over 60 s are 1,000 a second; 60,000 over the prefill seconds are so many times that.
    [(60.0, "undecided"), (30.0, "undecided"), (120.0, "undecided"), (29.0, "broken"), (121.0, "broken")],
)
def test_derived_rates(prefill: float, word: str) -> None:
    assert judge("derived-rates", rates(60_000, 60_000, prefill)).verdict == word


def test_derived_rates_need_requests_and_a_length() -> None:
    assert judge("derived-rates", rates(60_000, 60_000, 5.0, n=29)).verdict == "undecided"
    v = judge("derived-rates", rates(60_000, 60_000, 5.0), seconds=None)
    assert v.verdict == "undecided"
    assert v.summary == "no window length; give --seconds N"


def test_figures_are_written_without_exponents() -> None:
    v = judge("derived-rates", rates(145_200, 145_200, 6.0))
    assert v.summary.startswith(
        "2,420 prompt tok/s of wall clock; 24,200 computed per prefill request-second, 10 times"
    )


# --------------------------------------------------------------------------- options


def test_min_requests_moves_the_bar() -> None:
    few = preempted(0, 12)
    assert judge("preemption", few, options=Options(min_requests=10)).verdict == "holds"
    assert judge("preemption", few, options=Options(min_requests=13)).verdict == "undecided"
