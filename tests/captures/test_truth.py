"""Every capture against what its own client counted, and against the bare difference of its pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captures.support import (
    VLLM,
    audit,
    audit_capture,
    check_limits,
    only,
    raw_page,
    rise,
    scrape_distance,
    state,
    truth,
    value,
)

WORKLOADS = sorted(p.parent for p in VLLM.rglob("workload.json") if "requests" in p.read_text())
LYING = {"i-aborts", "q-odd-requests", "q-engine-abort"}
"""Captures whose page cannot know what the client saw; each has a test of its own."""
IDLE = [f for f in WORKLOADS if f.name == "e-idle"]
HONEST = [f for f in WORKLOADS if f.name not in LYING and f not in IDLE and f.name != "f-restart"]


def name_of(folder: Path) -> str:
    return str(folder.relative_to(VLLM))


def test_all_captures_are_here() -> None:
    assert len(HONEST) == 23, [name_of(f) for f in HONEST]
    assert len(IDLE) == 2


@pytest.mark.parametrize("folder", HONEST, ids=name_of)
def test_counts_are_the_clients(folder: Path) -> None:
    client, subject = truth(folder), audit_capture(folder)
    requests = client["requests"]
    assert value(subject, "finished_requests") == requests
    assert value(subject, "first_tokens") == requests
    assert value(subject, "unmatched_first_tokens") == 0
    assert value(subject, "user_requests") == requests
    assert value(subject, "prompt_tokens") == client["prompt_tokens_usage"] == client["prompt_tokens_sent"]
    assert value(subject, "generation_tokens") == client["completion_tokens_usage"]
    assert value(subject, "finished_prompt_tokens") == client["prompt_tokens_usage"]
    assert value(subject, "finished_generation_tokens") == client["completion_tokens_usage"]
    assert value(subject, "unfinished_prompt_tokens") == 0
    for reason in ("length", "stop"):
        count = client["finish_reasons"].get(reason, 0)
        assert value(subject, f"{reason}_share") == pytest.approx(count / requests, abs=1e-12)
        assert subject.readings[f"{reason}_share"].extra["events"] == count
    if client["cached_tokens_usage"] is not None:
        assert value(subject, "cached_prompt_tokens") == client["cached_tokens_usage"]


@pytest.mark.parametrize("folder", HONEST, ids=name_of)
def test_shares_of_time_are_the_difference_of_the_pages(folder: Path) -> None:
    before, after = raw_page(folder / "before.prom"), raw_page(folder / "after.prom")
    subject = audit_capture(folder)

    def seconds(phase: str) -> float:
        return rise(before, after, f"vllm:{phase}_seconds_sum")

    p, d, q = (seconds(f"request_{x}_time") for x in ("prefill", "decode", "queue"))
    e = seconds("e2e_request_latency")
    assert value(subject, "prefill_seconds") == pytest.approx(p, abs=1e-9)
    assert value(subject, "decode_seconds") == pytest.approx(d, abs=1e-9)
    assert value(subject, "queue_seconds") == pytest.approx(q, abs=1e-9)
    assert value(subject, "prefill_share") == pytest.approx(p / (p + d), abs=1e-9)
    assert value(subject, "decode_share") == pytest.approx(d / (p + d), abs=1e-9)
    assert value(subject, "queue_share") == pytest.approx(q / (p + d + q), abs=1e-9)
    assert value(subject, "hidden_wait_share") == pytest.approx((e - q - p - d) / e, abs=1e-9)
    n = rise(before, after, "vllm:request_prefill_time_seconds_count")
    assert subject.readings["prefill_share"].count == n
    assert value(subject, "mean_decode_seconds") == pytest.approx(d / n, abs=1e-9)
    seconds_apart = scrape_distance(truth(folder))
    prompt = rise(before, after, "vllm:prompt_tokens_total")
    assert value(subject, "prompt_tokens_per_wall_second") == pytest.approx(prompt / seconds_apart, rel=1e-12)


@pytest.mark.parametrize("folder", WORKLOADS, ids=name_of)
def test_no_reading_breaks_its_limits(folder: Path) -> None:
    check_limits(audit_capture(folder).readings.values())


@pytest.mark.parametrize("folder", IDLE, ids=name_of)
def test_idle_counts_are_zero_and_ratios_are_missing(folder: Path) -> None:
    report = audit(folder / "after.prom", before=folder / "before.prom")
    subject = only(report)
    assert report.exit_code == 3
    assert "no_traffic" in subject.flags
    for name in (
        "finished_requests",
        "prompt_tokens",
        "generation_tokens",
        "first_tokens",
        "steps",
        "min_steps",
        "prefill_seconds",
        "preemptions",
        "running_requests",
    ):
        assert value(subject, name) == 0, name
    for name in (
        "prefill_share",
        "length_share",
        "prefix_hit_share",
        "lookup_hit_share",
        "queue_share",
        "tokens_per_step",
        "small_step_share",
        "full_step_share",
        "ttft_seconds",
        "tokens_per_output_event",
        "preemptions_per_request",
        "engine_skew",
        "unfinished_prompt_share",
    ):
        assert state(subject, name) == "no_traffic", name
    assert all(r.value is None or r.value == 0 for n, r in subject.readings.items() if n.endswith("_share"))


def test_aborts_leave_a_gap_that_is_explained() -> None:
    """20 of 60 clients disconnected after 10 chunks; 15 of them left no trace, 5 finished before the engine noticed."""
    folder = VLLM / "0.32.0" / "i-aborts"
    client, subject = truth(folder), audit_capture(folder)
    assert client["finish_reasons"] == {"client_abort": 20, "length": 27, "stop": 13}
    assert value(subject, "finished_requests") == 45
    assert value(subject, "first_tokens") == client["requests"] == 60
    assert value(subject, "unmatched_first_tokens") == 15
    assert value(subject, "unmatched_first_token_share") == 0.25
    assert value(subject, "abort_share") == 0
    assert value(subject, "prompt_tokens") == client["prompt_tokens_sent"] == 1418
    assert value(subject, "finished_prompt_tokens") == 992
    assert value(subject, "unfinished_prompt_tokens") == 1418 - 992
    assert value(subject, "unfinished_prompt_share") == pytest.approx(426 / 1418)
    assert value(subject, "prefix_hit_share") == 0
    assert {"unfinished_work", "aborts_not_exported"} <= set(subject.flags)
    assert "426 prompt tokens" in subject.facts["unfinished_work"]


def test_odd_requests_are_counted_per_sequence() -> None:
    """30 requests were answered, ten of them with n = 2; five were refused with HTTP 400 and are on no page."""
    folder = VLLM / "0.32.0" / "q-odd-requests"
    client, subject = truth(folder), audit_capture(folder)
    answered = [r for r in client["per_request"] if r["status"] == 200]
    assert len(answered) == value(subject, "user_requests") == 30
    assert value(subject, "sequences") == value(subject, "finished_requests") == 40
    assert value(subject, "mean_n") == pytest.approx(40 / 30)
    assert value(subject, "generation_tokens") == client["completion_tokens_usage"] == 672
    # The ten prompts of 40 tokens with n = 2 count twice: 1,200 the client was told, 1,600 on the page.
    assert value(subject, "prompt_tokens") == client["prompt_tokens_usage"] + 10 * 40 == 1600
    assert "parallel_sampling_inflates_counts_and_hits" in subject.flags
    # First tokens are per sequence as well.
    assert value(subject, "unmatched_first_tokens") == 0


def test_engine_abort_spoils_times_and_nothing_else() -> None:
    """2 running and 3 waiting requests aborted by the engine: the waiting ones add the host's uptime to the sums."""
    folder = VLLM / "0.32.0" / "q-engine-abort"
    client, subject = truth(folder), audit_capture(folder)
    before, after = raw_page(folder / "before.prom"), raw_page(folder / "after.prom")
    assert rise(before, after, "vllm:request_prefill_time_seconds_sum") > 12_000
    assert rise(before, after, "vllm:e2e_request_latency_seconds_sum") < 30
    for name in (
        "prefill_seconds",
        "prefill_share",
        "decode_share",
        "queue_share",
        "hidden_wait_share",
        "mean_prefill_seconds",
        "decode_seconds_per_token",
        "prefill_ms_per_computed_token",
        "prefill_time_seconds",
        "naive_rate_error",
        "computed_tokens_per_prefill_request_second",
    ):
        assert state(subject, name) == "invalid", name
        assert "end-to-end" in (subject.readings[name].reason or ""), name
    assert "impossible_share" in subject.flags
    assert value(subject, "finished_requests") == client["requests"] == 5
    assert value(subject, "abort_share") == 1
    assert value(subject, "generation_tokens") == 1661 == client["completion_tokens_usage"]
    # The three that never ran are in the histograms of finished requests and of first tokens all the same; only the
    # prompts of the two that ran are in the live counter.
    assert value(subject, "first_tokens") == rise(before, after, "vllm:time_to_first_token_seconds_count") == 5
    assert value(subject, "prompt_tokens") == 80
    assert value(subject, "finished_prompt_tokens") == 200
    # One population: computed and prompt tokens are both live, so no -1.5.
    assert value(subject, "prefix_hit_share") == 0
    assert state(subject, "length_share") == "no_traffic"
