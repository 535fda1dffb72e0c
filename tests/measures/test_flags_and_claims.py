"""Flags whose condition no recorded page meets, and claims that are right, wrong and not to be told."""

from __future__ import annotations

import pytest

from auditor.model import Options
from tests.captures.support import limits, state, value
from tests.measures.pages import counter, gauge, histogram, subject, target, window


def finished(n: float, reason: str = "stop") -> str:
    return counter("request_success", n, f'engine="0",model_name="m",finished_reason="{reason}"')


def test_starved_and_stale_are_told_apart() -> None:
    def page(tokens: float, running: float = 4) -> str:
        return counter("generation_tokens", tokens) + finished(7) + gauge("num_requests_running", running)

    starved = subject(page(100), page(130), seconds=60)
    assert "scheduler_starvation" in starved.flags
    assert "gauges_stale" not in starved.flags
    busy = subject(page(100), page(100 + 4 * 60), seconds=60)
    assert "scheduler_starvation" not in busy.flags
    short = subject(page(100), page(130), seconds=29)
    assert "scheduler_starvation" not in short.flags
    stale = subject(page(100), page(100), seconds=60)
    assert "gauges_stale" in stale.flags
    assert "scheduler_starvation" not in stale.flags


def test_kv_bound() -> None:
    def page(done: float, preempted: float, usage: float, waiting: float) -> str:
        return (
            finished(done)
            + counter("num_preemptions", preempted)
            + gauge("kv_cache_usage_perc", usage)
            + gauge("num_requests_waiting", waiting)
            + gauge("num_requests_running", 3)
        )

    start = page(0, 0, 0.1, 0)
    assert "kv_bound" in subject(start, page(100, 0, 0.96, 2)).flags
    assert "kv_bound" in subject(start, page(100, 1, 0.96, 0)).flags
    assert "kv_bound" in subject(start, page(100, 5, 0.2, 0)).flags
    assert "kv_bound" not in subject(start, page(100, 4, 0.2, 9)).flags
    assert "kv_bound" not in subject(start, page(100, 0, 0.99, 0)).flags


def test_nodes_of_a_disaggregated_pair() -> None:
    def sources(computed: float, external: float) -> str:
        labels = 'engine="0",model_name="m",source="{}"'
        return counter("prompt_tokens", computed + external) + "".join(
            counter("prompt_tokens_by_source", v, labels.format(s))
            for s, v in (("local_compute", computed), ("external_kv_transfer", external))
        )

    assert "decode_node" in subject(sources(5, 95)).flags
    assert "decode_node" not in subject(sources(6, 94)).flags
    one_token = finished(50, "length") + histogram("request_params_max_tokens", {1: 50}, 50)
    connector = histogram("nixl_xfer_time_seconds", {1: 50}, 3)
    assert "prefill_node" in subject(one_token + connector).flags
    assert "prefill_node" not in subject(one_token).flags
    two = finished(50, "length") + histogram("request_params_max_tokens", {1: 49, 2: 1}, 51)
    assert "prefill_node" not in subject(two + connector).flags


def test_prompts_that_still_decode_are_not_unfinished_work() -> None:
    """A steady server: ten prompts of 100 tokens gave first tokens, eight finished, two still decode."""

    def page(prompt: float, done: float, running: float) -> str:
        return (
            counter("prompt_tokens", prompt)
            + finished(done)
            + gauge("num_requests_running", running)
            + histogram("request_prompt_tokens", {100: done, 1000: 0}, 100 * done)
        )

    assert "unfinished_work" not in subject(page(0, 0, 0), page(1000, 8, 2)).flags
    assert "unfinished_work" in subject(page(0, 0, 0), page(1000, 8, 0)).flags


def test_probes_dominate() -> None:
    caps = histogram("request_params_max_tokens", {10: 60, 50: 10, 1000: 30}, 30_000)
    s = subject(finished(100, "length") + caps)
    assert value(s, "short_cap_share") == pytest.approx(0.7)
    assert "probes_dominate" in s.flags
    between = subject(finished(100) + caps, options=Options(short_cap=20))
    assert limits(between, "short_cap_share") == (0.6, 0.7)


def test_length_among_large_caps_is_bounded_by_what_can_have_reached_its_cap() -> None:
    """100 requests: 70 with caps of at most 50, 30 with caps in (500, 1000]; 80 were cut off by length."""
    caps = histogram("request_params_max_tokens", {50: 70, 500: 0, 1000: 30}, 30_000)
    outputs = histogram("request_generation_tokens", {50: 75, 500: 5, 1000: 20}, 15_000)
    reasons = counter("request_success", 80, 'engine="0",model_name="m",finished_reason="length"')
    reasons += counter("request_success", 20, 'engine="0",model_name="m",finished_reason="stop"').split("\n", 1)[1]
    s = subject(caps + outputs + reasons)
    # At least 80 - 70 of the 30; at most the 20 that generated more than 500 tokens.
    assert limits(s, "length_share_large_cap") == (pytest.approx(10 / 30), pytest.approx(20 / 30))
    # Four more finish reasons than caps: those four may be among the cut ones.
    more = subject(caps + outputs + reasons.replace("} 20", "} 24"))
    assert limits(more, "length_share_large_cap")[0] == pytest.approx((80 - 4 - 70) / 30)


def test_claims() -> None:
    """1,000 prompt tokens in 10 s, computed in 4 s of prefill: 100 a second of wall clock, 250 of prefill."""
    page = (
        counter("prompt_tokens", 1000)
        + histogram("request_prefill_kv_computed_tokens", {1000: 40}, 1000)
        + histogram("request_prefill_time_seconds", {0.3: 40}, 4.0)
        + histogram("request_decode_time_seconds", {1: 40}, 36.0)
    )

    def claim(**claims: float) -> tuple[bool | None, tuple[str, ...], str]:
        (found,) = subject(page, seconds=10, options=Options(claims=claims)).claims
        return found.is_what_it_says, found.matches, found.summary

    assert claim(prefill_rate=105)[:2] == (False, ("prompt_tokens_per_wall_second",))
    assert claim(prefill_rate=240)[0] is True
    wrong = claim(prefill_rate=4000)
    assert wrong[:2] == (False, ())
    assert "250" in wrong[2]
    assert claim(prefill_share=0.105)[0] is True
    assert claim(prefill_share=0.9)[:2] == (False, ("decode_share",))
    assert claim(hit_share=0.3)[0] is None  # nothing on the page to hold it against


def test_a_claim_inside_wide_limits_cannot_be_told() -> None:
    from tests.measures.test_steps import engine

    def claim(value: float) -> bool | None:
        (found,) = subject(engine(), budget=256, options=Options(claims={"tokens_per_step": value})).claims
        return found.is_what_it_says

    low, high = limits(subject(engine(), budget=256), "tokens_per_step")
    assert low is not None
    assert high is not None
    assert claim((low + high) / 2) is None
    assert claim(high * 2) is False


def test_extrapolated_increases_may_differ_a_little() -> None:
    """On a range the sums of two series are extrapolated apart; a page's identities would call that a contradiction."""
    from dataclasses import replace

    from auditor.measures.readings.time import impossible_time
    from auditor.measures.vocabulary import load_vocabulary
    from auditor.pipeline import build_subjects

    page = histogram("request_inference_time_seconds", {10: 1000}, 1010.0)
    page += histogram("e2e_request_latency_seconds", {10: 1000}, 1000.0)
    (s,) = build_subjects(window(target(page)), Options(), vocabulary=load_vocabulary())
    assert impossible_time(s) is not None
    s.window = replace(s.window, kind="range", estimated=True, seconds=600.0, step_seconds=15.0)
    assert impossible_time(s) is None


def test_restart_flags() -> None:
    zero = counter("prompt_tokens", 0) + finished(0)
    assert "cold_start" in subject(zero, counter("prompt_tokens", 5) + finished(1)).flags
    warm = counter("prompt_tokens", 9) + finished(2)
    assert "cold_start" not in subject(warm, counter("prompt_tokens", 12) + finished(3)).flags
    assert state(subject(warm, warm), "prefix_hit_share") in ("no_traffic", "not_exported")
